import numpy as np
import pytest

from fgrad.kernels import intrinsics, machine, native
from fgrad.kernels.machine import Assembler, Label

pytestmark = pytest.mark.usefixtures("both_ways")

ADD = """
def kernel(slots, args, lo, hi):
    x, y, out = float64_at(slots, args, 0), float64_at(slots, args, 1), float64_at(slots, args, 2)
    for i in range(lo, hi):
        out[i] = x[i] + y[i]
"""
LESS = """
def kernel(slots, args, lo, hi):
    bool_at(slots, args, 1)[0] = float64_at(slots, args, 0)[0] < args[2]
"""


def run(program, *buffers):
    """Run a program whose first slots hold the buffers."""
    buffers = [*buffers, *[None] * 4]
    if native.interpreted():
        slots = intrinsics.Slots(buffers)
    else:
        slots = np.array([0 if b is None else b.ctypes.data for b in buffers], np.int64)
        before = slots.copy()
    machine.call(machine.interpreter(), program.words, slots, 0, len(program))
    if not native.interpreted():
        return slots - before
    return None


def test_calls():
    program = Assembler()
    add = native.compiled(ADD)
    program.call(add, [0, 1, 2], 0, 4)
    program.call(add, [2, 2, 0], 1, 3)
    x, y, z = np.arange(4.0), np.full(4, 10.0), np.zeros(4)
    run(program, x, y, z)
    assert z.tolist() == [10, 11, 12, 13]
    assert x.tolist() == [0, 22, 24, 3]


def test_nothing():
    run(Assembler())


def test_a_loop_moves_its_slots_and_returns_them():
    program = Assembler()
    add = native.compiled(ADD)
    with program.loop(5, [(0, 8), (2, 8)]):
        program.call(add, [0, 1, 1], 0, 1)
        program.copy(2, 1, 8)
    program.call(add, [0, 1, 3], 0, 1)
    x, total, sums, last = np.arange(1.0, 6), np.zeros(1), np.zeros(5), np.zeros(1)
    moved = run(program, x, total, sums, last)
    assert sums.tolist() == np.cumsum(x).tolist()
    assert last == x[0] + 15
    assert moved is None or not moved.any()


def test_backwards():
    program = Assembler()
    program.view(3, 0, 8 * 4)
    with program.loop(5, [(3, -8), (1, 8)]):
        program.copy(1, 3, 8)
    x, out = np.arange(5.0), np.zeros(5)
    run(program, x, out, np.zeros(1))
    assert out.tolist() == [4, 3, 2, 1, 0]


def test_loops_in_loops():
    program = Assembler()
    add = native.compiled(ADD)
    with program.loop(3, [(0, 4 * 8)]), program.loop(4, [(0, 8)]):
        program.call(add, [0, 1, 1], 0, 1)
    x, total = np.arange(12.0), np.zeros(1)
    run(program, x, total)
    assert total == 66


@pytest.mark.parametrize("count", [0, 1, 7, -3])
def test_the_count_of_a_loop_is_in_a_buffer(count):
    program = Assembler()
    with program.loop(99, [(0, 8)], count_slot=1, dtype="int32"):
        program.zero(0, 8)
    x = np.ones(9)
    for _ in range(2):  # a table may be run again
        run(program, x, np.array([count], np.int32))
        assert x.tolist() == [0] * max(count, 0) + [1] * (9 - max(count, 0))


def test_a_loop_of_no_steps():
    program = Assembler()
    with program.loop(0):
        program.zero(0, 8)
    x = np.ones(1)
    run(program, x)
    assert x == 1


@pytest.mark.parametrize("start", [-5, 3, 8, 50])
def test_leaving_a_loop(start):
    program = Assembler()
    add, less = native.compiled(ADD), native.compiled(LESS)
    with program.loop(1000, [(3, 8)]):
        program.call(less, [0, 2, 8], 0, 1)
        program.leave_if_not(2)
        program.call(add, [0, 1, 0], 0, 1)
        program.copy(3, 0, 8)
    x, seen = np.array([float(start)]), np.zeros(20)
    moved = run(program, x, np.ones(1), np.zeros(1, bool), seen)
    assert x == max(start, 8)
    assert seen.tolist() == [*range(start + 1, 9), *[0] * (20 - max(8 - start, 0))]
    assert moved is None or not moved.any()


INTEGERS = machine.INTEGERS


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("value", [-7, 0, 1, 2, 3, 100])
def test_branches(dtype, value):
    if dtype == "bool" or dtype.startswith("uint"):
        value = abs(value)
    number = np.array([value]).astype(dtype)
    program = Assembler()
    labels, end = [Label() for _ in range(3)], Label()
    program.branch(1, labels, dtype)
    for k, label in enumerate(labels):
        program.place(label)
        program.copy(0, 2 + k, 8)
        program.jump(end)
    program.place(end)
    program.copy(5, 0, 8)
    out, again = np.zeros(1), np.zeros(1)
    run(program, out, number, np.array([10.0]), np.array([11.0]), np.array([12.0]), again)
    assert out == again == 10 + min(max(int(number[0]), 0), 2)


@pytest.mark.parametrize("holds", [True, False])
def test_jump_if_not(holds):
    program = Assembler()
    end = Label()
    program.jump_if_not(1, end)
    program.zero(0, 8)
    program.place(end)
    x = np.ones(1)
    run(program, x, np.array([holds]))
    assert x == (0 if holds else 1)


def test_a_place_may_come_before_its_jump():
    program = Assembler()
    add, less = native.compiled(ADD), native.compiled(LESS)
    again, end = Label(), Label()
    program.place(again)
    program.call(less, [0, 2, 8], 0, 1)
    program.jump_if_not(2, end)
    program.call(add, [0, 1, 0], 0, 1)
    program.jump(again)
    program.place(end)
    x = np.zeros(1)
    run(program, x, np.ones(1), np.zeros(1, bool))
    assert x == 8


@pytest.mark.parametrize("index", [-4, 0, 2, 9])
def test_an_item_by_its_number_in_a_buffer(index):
    program = Assembler()
    program.index(3, 0, 1, 4, 16, "int16")
    program.copy(2, 3, 16)
    x, out = np.arange(8.0), np.zeros(2)
    run(program, x, np.array([index], np.int16), out)
    first = 2 * min(max(index, 0), 3)
    assert out.tolist() == [first, first + 1]


def test_swapped_slots():
    program = Assembler()
    with program.loop(3):
        program.swap(0, 1)
    program.copy(2, 0, 8)
    x, y, out = np.ones(1), np.full(1, 2.0), np.zeros(1)
    run(program, x, y, out)
    assert out == 2


@pytest.mark.parametrize("count", [0, 1, 7, 33, 1000])
def test_copies_of_any_size(count):
    program = Assembler()
    program.copy(0, 1, count)
    program.zero(1, count)
    rng = np.random.default_rng(0)
    x, y = np.zeros(1001, np.uint8), rng.integers(1, 255, 1001, np.uint8)
    kept = y.copy()
    run(program, x, y)
    assert (x[:count] == kept[:count]).all()
    assert (x[count:] == 0).all()
    assert (y[:count] == 0).all()
    assert (y[count:] == kept[count:]).all()


def test_the_listing():
    program = Assembler()
    add, less = native.compiled(ADD), native.compiled(LESS)
    end = Label()
    with program.loop(5, [(0, 8), (2, -8)]):
        program.call(add, [0, 1, 2], 0, 64, "add")
        program.call(less, [2, 3, 8], 0, 1)
        program.leave_if_not(3)
    with program.loop(0, count_slot=4, dtype="int32"):
        program.zero(1, 8)
    program.jump_if_not(3, end)
    program.copy(2, 1, 16)
    program.swap(1, 2)
    program.place(end)
    program.view(5, 0, 24)
    program.index(5, 0, 4, 9, 8)
    program.jump(end)
    assert [line[7:] for line in str(program).splitlines()] == [
        "loop 5, 0 by 8, 2 by -8 until 32",
        "add(0, 1, 2) for 0:64",
        "kernel1(2, 3, 8) for 0:1",
        "leave 0 if not 3",
        "next of 0",
        "loop int32 in 4 until 44",
        "zero 1, 8 bytes",
        "next of 32",
        "branch bool in 3 to 57, 50",
        "copy 2 = 1, 16 bytes",
        "swap 1, 2",
        "view 5 = 0 + 24",
        "view 5 = 0 + 8 bytes * int64 in 4 below 9",
        "jump to 57",
    ]
    assert [int(line[:5]) for line in str(program).splitlines()][:4] == [0, 11, 19, 27]


def test_a_slot_without_a_buffer():
    with pytest.raises(IndexError, match="slot 1 has no buffer"):
        intrinsics.Slots([np.zeros(1), None])[1]
