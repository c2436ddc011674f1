"""Arrays that compiled functions make without Numba's own functions are those that these would make."""

import gc
import sys

import numba
import numpy as np
import pytest
from numba.core import callwrapper, codegen
from numba.core.runtime import _nrt_python

from fgrad.adjoints import memory
from fgrad.compat import numba_pipeline
from fgrad.compat.numba import (
    arrays_are_made,
    clear,
    copy_into,
    copy_part,
    duplicate,
    elements,
    empty,
    grown,
    zeros,
)
from fgrad.compat.numba_pipeline import compiled_at_once, passes_are_known, short

CACHED = (
    arrays_are_made, zeros, empty, grown, duplicate, elements, clear, copy_into, copy_part, passes_are_known,
    short,
)  # fmt: skip


@pytest.fixture(params=["1", "0"])
def private(request, monkeypatch):
    """Both ways: with what Numba does not document, and without it."""
    monkeypatch.setenv("FGRAD_PRIVATE", request.param)
    for made in CACHED:
        made.cache_clear()
    assert arrays_are_made() is (request.param == "1")
    yield
    for made in CACHED:
        made.cache_clear()


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize("maker", [zeros, empty])
def test_arrays_are_made(maker):
    make = maker()

    @numba.njit
    def made(shape):
        return make(shape)

    for shape in (0, 3, np.int32(4), np.uint8(5), (2, 0), (2, 3), (2, 3, 4), (1,), (), (np.int8(2), 3)):
        found = made(shape)
        assert found.flags.c_contiguous
        if maker is empty:
            found[...] = 0
        np.testing.assert_array_equal(found, np.zeros(shape), strict=True)
    for shape in (-1, (3, -2)):
        with pytest.raises(ValueError, match="negative dimensions"):
            made(shape)


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.complex128])
def test_grown(dtype):
    longer = grown(memory.grown)

    @numba.njit
    def made(stack, size):
        return longer(stack, size)

    for count, size in [(0, 1), (3, 4), (3, 100), (100, 101)]:
        stack = np.arange(count).astype(dtype) * (1 + 2j if dtype is np.complex128 else 3)
        found = made(stack, size)
        assert found.dtype == dtype
        assert len(found) == max(size, 2 * count)
        np.testing.assert_array_equal(found[:count], stack)


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.complex128, np.bool_])
@pytest.mark.parametrize("order", "CF")
def test_memory_as_a_whole(dtype, order):
    cleared, copied, part = clear(memory.clear), copy_into(memory.copy_into), copy_part(memory.copy_part)
    twice = duplicate(memory.duplicate)

    @numba.njit
    def work(x, y, z, kept):
        cleared(x)
        copied(y, z)
        part(kept, 2, z, 0, z.size)
        return twice(z)

    z = np.array(np.arange(6).reshape(2, 3) % 4, dtype, order=order)
    x, y, kept = np.ones_like(z), np.ones_like(z), np.ones(9, dtype)
    found = work(x, y, z, kept)
    np.testing.assert_array_equal(found, z, strict=True)
    assert found.flags.forc
    assert not np.shares_memory(found, z)
    np.testing.assert_array_equal(x, 0)
    np.testing.assert_array_equal(y, z)
    np.testing.assert_array_equal(kept[[0, 1, 8]], 1)
    np.testing.assert_array_equal(np.sort(kept[2:8]), np.sort(z.ravel()))


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize("dtype", [np.float64, np.complex64, np.bool_])
def test_copies_of_any_layout(dtype):
    copied = copy_into(memory.copy_into)

    @numba.njit
    def work(to, source):
        copied(to, source)

    z = np.array(np.arange(4 * 6 * 2).reshape(4, 6, 2) % 3, dtype)
    whole = z[0, 0], z[:, 0, 0], z[::-1, 1, 1], z[:, ::-2, 0], z[0].T, z.T, z[::2, :, ::-1], z[:0], z[:, :0]
    for source in (*whole, np.asfortranarray(z)):
        to = np.zeros(source.shape, dtype)
        work(to, source)
        np.testing.assert_array_equal(to, source)
        turned = np.zeros(source.shape, dtype, order="F")
        work(turned, source)
        np.testing.assert_array_equal(turned, source)


@pytest.mark.usefixtures("private")
def test_functions_that_return_whole_arrays():
    @numba.njit
    def inner(x):
        return x[1:]

    def work(x, a, n, y):
        total = float(n)
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                total += a[i, j] * inner(x)[0]
        longer = np.zeros(2 * len(y))
        for i in range(len(y)):
            longer[i] = y[i]
        return total, y, longer

    taken = numba.njit(**short(whole=True))(work)
    kinds = numba.float64[::1], numba.float64[::1, :], numba.int32, numba.float64[::1]
    names = [
        (codegen, "create_pass_builder"),
        (codegen.CPUCodeLibrary, "_optimize_functions"),
        (callwrapper._ArgManager, "add_arg"),
    ]
    before = [getattr(*n) for n in names]
    entry = compiled_at_once(taken, kinds)
    assert [getattr(*n) for n in names] == before
    for shape in ((2, 3), (1, 1), (0, 3), (3, 0)):
        a = np.asfortranarray(np.random.default_rng(0).normal(size=shape))
        x, y = np.arange(4.0), np.arange(3.0)
        counts = [sys.getrefcount(v) for v in (x, a, y)]
        total, same, longer = entry(x, a, np.int32(2), y)
        expected = work(x, a, 2, y)
        np.testing.assert_allclose(total, expected[0], rtol=1e-15)
        assert same is y
        np.testing.assert_array_equal(longer, expected[2])
        del same, expected
        assert [sys.getrefcount(v) for v in (x, a, y)] == counts
        assert longer.base is not None  # what frees its memory
    # what was compiled on the way is Numba's, as ever
    view = inner(np.arange(1000.0))
    assert view.base is not None
    np.testing.assert_array_equal(view, np.arange(1.0, 1000))

    @numba.njit(**short(whole=True))
    def refused(x):
        return x.nothing_like_that

    with pytest.raises(numba.TypingError):
        compiled_at_once(refused, (numba.float64[::1],))
    assert [getattr(*n) for n in names] == before


def test_a_child_process_undoes_what_a_thread_was_in_the_middle_of():
    class Owner:
        value = 1

    changes = [numba_pipeline._Changed((Owner, "value", k)) for k in (2, 3)]
    for c in changes:
        c.__enter__()  # and the thread that would leave it is not there
    assert Owner.value == 3
    numba_pipeline.put_back()
    assert Owner.value == 1
    assert not numba_pipeline._Changed.inside


@pytest.mark.usefixtures("private")
def test_compiled_at_once():
    @numba.njit(**short())
    def work(x, n):
        total = 0.0
        for i in range(n):
            total += 2 * x[i] - 0.5 / (i + 1)
        return total, n // 2

    x = np.arange(4.0)
    x.flags.writeable = False
    entry = compiled_at_once(work, (numba.float64[::1], numba.int64))
    assert entry(x, 4) == work.py_func(x, 4)


def test_what_is_made_is_freed(request):
    make = zeros()

    @numba.njit
    def used(n, times):
        total = 0.0
        for _ in range(times):
            held = make(n)
            held[0] += 1
            total += held[0]
        return total

    used(10, 1)
    gc.collect()  # what others made before anybody counted
    gc.disable()
    request.addfinalizer(gc.enable)
    _nrt_python.memsys_enable_stats()
    before = numba.core.runtime.rtsys.get_allocation_stats()
    assert used(10, 100) == 100
    after = numba.core.runtime.rtsys.get_allocation_stats()
    assert after.alloc - before.alloc == after.free - before.free
