"""Arrays that compiled functions make without Numba's own functions are those that these would make."""

import numba
import numpy as np
import pytest
from numba.core.runtime import _nrt_python

from fgrad.adjoints import memory
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


def test_what_is_made_is_freed():
    make = zeros()

    @numba.njit
    def used(n, times):
        total = 0.0
        for _ in range(times):
            held = make(n)
            held[0] += 1
            total += held[0]
        return total

    _nrt_python.memsys_enable_stats()
    before = numba.core.runtime.rtsys.get_allocation_stats()
    assert used(10, 100) == 100
    after = numba.core.runtime.rtsys.get_allocation_stats()
    assert after.alloc - before.alloc == after.free - before.free
