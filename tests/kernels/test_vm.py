import ctypes
import itertools

import numpy as np
import pytest
from tests.helpers import grouped

from fgrad.kernels import checks, intrinsics, native, signals, stacks, vm
from fgrad.kernels.vm import Assembler, Label

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
        slots = checks.addresses(buffers)
        before = slots.copy()
    vm.call(vm.interpreter(program), program.words, slots, 0, len(program))
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


INTEGERS = vm.INTEGERS


@grouped("dtype, value", itertools.product(INTEGERS, [-7, 0, 1, 2, 3, 100]))
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


def jump_if_not(program, slot, label):
    here = Label()
    program.branch(slot, [label, here], "bool")
    program.place(here)


@pytest.mark.parametrize("holds", [True, False])
def test_jump_if_not(holds):
    program = Assembler()
    end = Label()
    jump_if_not(program, 1, end)
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
    jump_if_not(program, 2, end)
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


class Owner:
    pass


@pytest.fixture
def stack():
    """The words of two stacks, as a flat array."""
    owner, words = Owner(), stacks.empty(2)
    stacks.free_with(owner, words)
    yield words.reshape(-1)
    del owner


def counting(program, count):
    """Push the numbers 1 to `count`: slot 0 is 0, slot 1 is 1, slot 2 the stack, slot 3 faults."""
    with program.loop(count):
        program.call(native.compiled(ADD), [0, 1, 0], 0, 1)
        program.push(4, 2, 8, 3)
        program.copy(4, 0, 8)


@pytest.mark.parametrize("count", [0, 1, 5, 700])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_stack_is_gone_through(stack, count, backwards):
    program = Assembler()
    program.zero(2, 8)
    counting(program, count)
    program.follow(6, 2)
    if backwards:
        program.index(6, 6, 5, 10**6, 8, "int16", offset=-8)
    with program.loop(0, [(6, -8 if backwards else 8), (7, 8)], count_slot=5, dtype="int16"):
        program.copy(7, 6, 8)
    expected = np.arange(1.0, count + 1)
    for _ in range(3):
        out, faults = np.zeros(count + 1), np.zeros(1, np.int64)
        run(program, np.zeros(1), np.ones(1), stack, faults, None, np.array([count], np.int16), None, out)
        assert out.tolist() == [*(expected[::-1] if backwards else expected), 0]
        assert faults == 0
        assert stack[0] == 8 * count  # started anew, and has as much memory as before
        assert stack[2] == (count > 0) * max(4096, 2 ** int(np.ceil(np.log2(8 * max(count, 1)))))


def test_room_for_many_at_once(stack):
    program = Assembler()
    program.push(4, 2, 24, 3, times_slot=5, dtype="uint8")
    program.copy(4, 0, 24)
    program.push(4, 2, 24, 3)
    program.copy(4, 1, 24)
    program.follow(6, 2)
    program.copy(7, 6, 24)
    program.index(6, 6, 5, 100, 24, "uint8")
    program.copy(8, 6, 24)
    x, y, outs = np.arange(3.0), np.arange(3.0) + 10, np.zeros((2, 3))
    run(program, x, y, stack, np.zeros(1, np.int64), None, np.array([200], np.uint8), None, *outs)
    assert outs[0].tolist() == x.tolist()
    assert stack[0] == 24 * 201
    program = Assembler()
    program.follow(0, 1)
    program.index(0, 0, 2, 1000, 24, "uint8")
    program.copy(3, 0, 24)
    run(program, None, stack, np.array([200], np.uint8), outs[1])
    assert outs[1].tolist() == y.tolist()


def test_stacks_do_not_touch_one_another(stack):
    program = Assembler()
    for k in (2, 3):
        program.zero(k, 8)
    with program.loop(1000):
        program.call(native.compiled(ADD), [0, 1, 0], 0, 1)
        for k in (2, 3):
            program.push(5, k, 8, 4)
            program.copy(5, k - 2, 8)
    faults = np.zeros(1, np.int64)
    run(program, np.zeros(1), np.ones(1), stack[:3], stack[3:], faults)
    assert faults == 0
    first, second = (stacks.memory(int(w[1]), int(w[0])).view(float) for w in (stack[:3], stack[3:]))
    assert first.tolist() == [*range(1, 1001)]
    assert second.tolist() == [1] * 1000


def test_no_memory_ends_the_program(stack, monkeypatch):
    refused = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(lambda _, size: None)
    monkeypatch.setattr(stacks, "grow", lambda: ctypes.cast(refused, ctypes.c_void_p).value)
    program = Assembler()
    counting(program, 5)
    program.zero(1, 8)
    total, one, faults = np.zeros(1), np.ones(1), np.zeros(1, np.int64)
    run(program, total, one, stack, faults)
    assert faults == vm.EXHAUSTED
    assert total == 1  # the loop was left
    assert one == 1
    assert stack.tolist() == [0] * 6


@pytest.mark.parametrize("at", [0, 2, 9])
def test_halting(at):
    program = Assembler()
    with program.loop(4, [(0, 8), (1, 8)]):
        program.halt_if(0, 2)
        program.copy(1, 3, 8)
    program.zero(3, 8)
    counts, out, faults, one = np.zeros(10, np.int64), np.zeros(4), np.zeros(1, np.int64), np.ones(1)
    counts[at] = 7
    run(program, counts, out, faults, one)
    assert faults == (7 if at < 4 else 0)
    assert out.sum() == min(at, 4)
    assert one == (at < 4)


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
    jump_if_not(program, 3, end)
    program.copy(2, 1, 16)
    program.swap(1, 2)
    program.place(end)
    program.view(5, 0, 24)
    program.index(5, 0, 4, 9, 8)
    program.push(6, 7, 16, 8, times_slot=4, dtype="int32")
    program.push(6, 7, 16, 8)
    program.follow(6, 7)
    program.index(6, 6, 4, 9, 8, offset=-8)
    program.halt_if(5, 8)
    program.jump(end)
    assert [line[7:] for line in str(program).splitlines()] == [
        "loop 5, 0 by 8, 2 by -8 until 35",
        "add(0, 1, 2) for 0:64",
        "kernel1(2, 3, 8) for 0:1",
        "leave 0 if not 3",
        "next of 0",
        "loop int32 in 4 until 49",
        "zero 1, 8 bytes",
        "next of 35",
        "branch bool in 3 to 62, 55",
        "copy 2 = 1, 16 bytes",
        "swap 1, 2",
        "view 5 = 0 + 24",
        "view 5 = 0 + 8 bytes * int64 in 4 below 9",
        "push 6 = 16 bytes * int32 in 4 on 7",
        "push 6 = 16 bytes on 7",
        "follow 6 = start of 7",
        "view 6 = 6 + 8 bytes * int64 in 4 below 9 + -8",
        "halt if 5",
        "jump to 62",
    ]
    assert [int(line[:5]) for line in str(program).splitlines()][:4] == [0, 13, 21, 29]


def test_a_table_for_who_cannot_raise_exceptions():
    program = Assembler()
    with program.loop(5, [(0, 8)]), program.loop(2):
        program.zero(0, 8)
    if native.interpreted():
        assert program.deaf_words.tolist() == program.words.tolist()
    else:
        heard = np.flatnonzero(program.words != program.deaf_words)
        assert heard.tolist() == [7, 18]
        assert set(program.words[heard]) == {signals.watch()}


def test_a_slot_without_a_buffer():
    with pytest.raises(IndexError, match="slot 1 has no buffer"):
        intrinsics.Slots([np.zeros(1), None])[1]
