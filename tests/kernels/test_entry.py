import ctypes
import gc
import sys
import threading
import tracemalloc
import weakref

import numpy as np
import pytest
from tests.helpers import optimised, unchecked

from fgrad.compat import numpy as layout
from fgrad.compat.numpy import address
from fgrad.kernels import checks, compilation, entry, native, stacks, vm
from fgrad.kernels.entry import Context, Spec

FLOAT, INT = np.dtype(np.float64), np.dtype(np.int64)
TEXT = """
def kernel(slots, args, lo, hi):
    x, w = float64_at(slots, args, 0), float64_at(slots, args, 1)
    kept, out = float64_at(slots, args, 2), float64_at(slots, args, 3)
    for i in range(lo, hi):
        kept[i] = x[i] * w[0]
    for i in range(lo, hi):
        out[i] = kept[i] + 1
"""
WAIT = """
def kernel(slots, args, lo, hi):
    if int64_at(slots, args, 0)[0] != 0:
        invoke(args[2])
    float64_at(slots, args, 1)[0] = 1.0
"""
_is_known = layout.layout_is_known.__wrapped__


pytestmark = pytest.mark.skipif(not entry.is_available(), reason="nothing is compiled")


def affine(n=8, **options):
    """Return the context of `out = x * 3 + 1`."""
    program = vm.Assembler()
    program.call(native.compiled(TEXT), [0, 1, 2, 3], 0, n)
    specs = [Spec(0, FLOAT, (n,)), Spec(3, FLOAT, (n,), written=True)]
    return Context(
        specs, program, [None, np.array([3.0]), slice(64, None), None], scratch=64 + 8 * n, **options
    )


@unchecked("Python starts programs")
def test_it_is_a_function_of_c():
    assert type(affine().entry) is type(len)


def test_another_layout(monkeypatch):
    monkeypatch.setattr(layout, "_is_laid_out", lambda a: False)
    assert not _is_known()
    monkeypatch.undo()
    monkeypatch.setattr(sys.implementation, "name", "another")
    assert not _is_known()


def test_it_runs():
    x, out = np.arange(8.0), np.zeros(8)
    assert affine().entry(x, out) is None
    assert out.tolist() == (3 * x + 1).tolist()
    assert affine(release=True).entry(x, out) is None


X, OUT = np.arange(8.0), np.zeros(8)
READONLY = np.zeros(8)
READONLY.flags.writeable = False


class Kind(np.ndarray):
    pass


WRONG = {
    "too few": (X,),
    "too many": (X, OUT, OUT),
    "none": (),
    "a list": (X.tolist(), OUT),
    "no array": (None, OUT),
    "a number": (1.0, OUT),
    "a scalar of NumPy": (np.float64(1), OUT),
    "another kind of array": (X.view(Kind), OUT),
    "a masked array": (np.ma.array(X), OUT),
    "another dtype": (X.astype(np.float32), OUT),
    "another dtype of that size": (X.astype(np.int64), OUT),
    "another byte order": (X.astype(X.dtype.newbyteorder()), OUT),
    "another rank": (X.reshape(8, 1), OUT),
    "rank zero": (np.array(1.0), OUT),
    "another size": (np.arange(9.0), OUT),
    "not contiguous": (np.arange(16.0)[::2], OUT),
    "backwards": (X[::-1], OUT),
    "not aligned": (np.zeros(65, np.uint8)[1:].view(np.float64), OUT),
    "not to be written to": (X, READONLY),
    "a wrong result": (X, np.zeros(7)),
}


@pytest.mark.parametrize("what", WRONG)
def test_other_arguments_are_refused(what):
    out = np.full(8, 5.0)
    args = [out if a is OUT else a for a in WRONG[what]]
    context = affine()
    assert context.entry(*args) is NotImplemented
    assert context.call(*args) is NotImplemented
    assert (out == 5).all()
    assert (READONLY == 0).all()
    assert context.entry(READONLY, out) is None  # what is read may be protected
    assert (out == 1).all()


def test_keywords_are_refused():
    with pytest.raises(TypeError):
        affine().entry(X, out=OUT)


def test_shapes():
    program = vm.Assembler()
    program.copy(1, 0, 16)
    specs = [Spec(0, np.dtype("f4"), (2, None, 3)), Spec(1, np.dtype("i2"), (None,), written=True)]
    context = Context(specs, program, [None, None])
    x, out = np.arange(24, dtype=np.float32), np.zeros(8, np.int16)
    assert context.entry(x.reshape(2, 4, 3), out) is None
    assert out.tobytes() == x[:4].tobytes()
    assert context.entry(x[:6].reshape(2, 1, 3), out) is None
    assert context.entry(x.reshape(4, 2, 3), out) is NotImplemented
    assert context.entry(x[:16].reshape(2, 2, 4), out) is NotImplemented
    assert context.entry(x.reshape(2, 4, 3).transpose(0, 2, 1), out) is NotImplemented


NUMBERS = [
    (1.5, 4, True),
    (np.float64(-2.5), np.int64(-3), True),
    (np.array(0.5), np.array(7), True),
    (float("nan"), 0, True),
    (-0.0, 2**63 - 1, True),
    (0.0, -(2**63), True),
    (1.5, 2**63, False),
    (1.5, -(2**63) - 1, False),
    (1.5, 10**40, False),
    (1.5, True, False),
    (1.5, 4.0, False),
    (1.5, np.int32(4), False),
    (4, 4, False),
    (np.float32(1), 4, False),
    ("1", 4, False),
    (1.5, None, False),
]


@pytest.mark.parametrize("x, n, good", NUMBERS)
def test_weak_scalars(x, n, good):
    program = vm.Assembler()
    program.copy(2, 0, 8)
    program.copy(3, 1, 8)
    specs = [
        *(Spec(0, FLOAT, weak=True), Spec(1, INT, weak=True)),
        *(Spec(2, FLOAT, written=True), Spec(3, INT, written=True)),
    ]
    context = Context(specs, program, [None] * 4)
    a, b = np.array(9.0), np.array(9)
    assert context.entry(x, n, a, b) is (None if good else NotImplemented)
    assert a.tobytes() == np.array(x if good else 9.0, np.float64).tobytes()
    assert b == (n if good else 9)


def test_scalars_are_refused_where_they_are_not_weak():
    program = vm.Assembler()
    context = Context([Spec(0, FLOAT)], program, [None])
    assert context.entry(1.5) is NotImplemented
    assert context.entry(np.float64(1.5)) is NotImplemented
    assert context.entry(np.array(1.5)) is None


def test_slots_start_anew_each_time():
    program = vm.Assembler()
    program.swap(0, 1)
    program.view(0, 1, 8)
    program.copy(2, 0, 8)
    context = Context([Spec(2, FLOAT, (1,), written=True)], program, [np.arange(2.0), np.zeros(2), None])
    for _ in range(3):
        out = np.zeros(1)
        context.entry(out)
        assert out == 1


def test_scratch_is_aligned_and_of_each_context():
    program = vm.Assembler()
    program.copy(1, 0, 8)
    program.copy(2, 1, 8)
    context = Context(
        [Spec(0, FLOAT), Spec(2, FLOAT, written=True)], program, [None, slice(128, 256), None], scratch=256
    )
    out = np.zeros(())
    for c in (context, context.clone()):
        assert c.entry(np.array(4.0), out) is None
        assert out == 4
    assert all(address(checks.Scratch(n, 64).memory) % 64 == 0 for n in (1, 100, 10**6))


def pushing(**options):
    """Return the context of a program that pushes 1 as often as it is asked to, and returns the last one."""
    program = vm.Assembler()
    program.zero(2, 8)
    with program.loop(0, count_slot=0):
        program.push(4, 2, 8, 5)
        program.copy(4, 1, 8)
    program.copy(3, 4, 8)
    specs = [Spec(0, INT), Spec(3, FLOAT, (1,), written=True), Spec(5, INT, (1,), written=True)]
    return Context(specs, program, [None, np.ones(1), stacks.STACK, None, None, None], **options)


def test_each_context_has_its_own_stacks():
    first = pushing()
    for context in (first, first.clone()):
        for count in (1, 1000, 3):
            out, faults = np.zeros(1), np.zeros(1, np.int64)
            assert context.entry(np.array(count), out, faults) is None
            assert out == 1
            assert faults == 0


def test_stacks_are_freed_with_the_entry():
    out, faults = np.zeros(1), np.zeros(1, np.int64)
    steps = 100_000  # of eight bytes
    pushing().entry(np.array(1), out, faults)
    tracemalloc.start()
    try:
        run = pushing().entry
        start = tracemalloc.get_traced_memory()[0]
        for _ in range(3):
            run(np.array(steps), out, faults)
        kept = tracemalloc.get_traced_memory()[0] - start
        assert 8 * steps < kept < 20 * steps
        del run
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - start < 20_000
    finally:
        tracemalloc.stop()


def test_references_are_counted_and_memory_stays():
    context = affine()
    x, out = np.arange(8.0), np.zeros(8)
    run, objects = context.entry, (None, NotImplemented, False, x, out, x.dtype)
    run(x, out)
    gc.collect()
    tracemalloc.start()
    try:
        before = [sys.getrefcount(o) for o in objects]
        start = tracemalloc.get_traced_memory()[0]
        for _ in range(100_000):
            run(x, out)
            run(out, x, out)
            run(None, out)
        gc.collect()
        after = [sys.getrefcount(o) for o in objects]
        grown = tracemalloc.get_traced_memory()[0] - start
    finally:
        tracemalloc.stop()
    assert all(abs(a - b) < 50 for a, b in zip(after, before, strict=True))
    assert grown < 20_000


def test_an_entry_keeps_what_it_needs():
    x, out = np.arange(8.0), np.zeros(8)
    run = affine().entry
    gc.collect()
    others = [np.full(16, np.nan) for _ in range(1000)]  # where freed memory would be found again
    assert run(x, out) is None
    assert out.tolist() == (3 * x + 1).tolist()
    assert len(others) == 1000


def test_a_context_is_freed():
    context = affine()
    constant = context._given[2][1]
    gone = weakref.ref(context)
    references = sys.getrefcount(constant)
    run = context.entry
    del context
    assert gone() is None
    assert run(X, OUT) is None
    del run
    gc.collect()
    assert sys.getrefcount(constant) < references


def test_threads_get_buffers_of_their_own():
    program = vm.Assembler()
    started, resumed = threading.Event(), threading.Event()

    @ctypes.CFUNCTYPE(None)
    def wait():
        started.set()
        resumed.wait(60)

    program.call(native.compiled(WAIT), [0, 1, ctypes.cast(wait, ctypes.c_void_p).value], 0, 1)
    specs = [Spec(0, INT), Spec(1, FLOAT, (1,), written=True)]
    context = Context(specs, program, [None, None], release=True)
    outs, slow, fast = [np.zeros(1), np.zeros(1)], np.array(1), np.array(0)
    results = []
    thread = threading.Thread(target=lambda: results.append(context.call(slow, outs[0])))
    thread.start()
    assert started.wait(60)
    assert context.entry(fast, outs[1]) is False
    assert outs[1] == 0
    assert context.call(fast, outs[1]) is None
    assert outs[1] == 1
    assert outs[0] == 0
    assert len(context._others) == 1
    resumed.set()
    thread.join()
    assert results == [None]
    assert outs[0] == 1
    assert context.entry(fast, outs[1]) is None


def test_many_threads():
    context = affine(release=True)
    wrong = []

    def work(seed):
        x, out = np.full(8, float(seed)), np.zeros(8)
        for _ in range(200):
            out[:] = 0
            if context.call(x, out) is not None or (out != 3 * seed + 1).any():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_it_is_compiled_without_the_passes_for_loops_over_arrays(monkeypatch):
    made = []

    def improved(module, passes):
        improve(module, passes)
        made.append((passes.all, str(module)))

    improve = compilation._improve
    monkeypatch.setattr(compilation, "_improve", improved)
    compilation.compiled(entry._TEXT, "entry")
    ((thorough, text),) = made
    written = compilation.assembly(entry._TEXT, "entry", "x")
    full = optimised(written)
    assert not thorough
    assert "alloca" not in text  # its variables are in registers
    assert text.count("\n") < full.count("\n")
