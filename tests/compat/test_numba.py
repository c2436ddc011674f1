"""Arrays that compiled functions make without Numba's own functions are those that these would make."""

import numba
import numpy as np
import pytest
from numba.core.runtime import _nrt_python

from fgrad.adjoints import adjoint
from fgrad.compat.numba import arrays_are_made, grown, zeros


@pytest.fixture(params=["1", "0"])
def private(request, monkeypatch):
    """Both ways: with what Numba does not document, and without it."""
    monkeypatch.setenv("FGRAD_PRIVATE", request.param)
    for made in (arrays_are_made, zeros, grown):
        made.cache_clear()
    assert arrays_are_made() is (request.param == "1")
    yield
    for made in (arrays_are_made, zeros, grown):
        made.cache_clear()


@pytest.mark.usefixtures("private")
def test_zeros():
    make = zeros()

    @numba.njit
    def made(shape):
        return make(shape)

    for shape in (0, 3, np.int32(4), np.uint8(5), (2, 0), (2, 3), (2, 3, 4), (1,), (), (np.int8(2), 3)):
        found = made(shape)
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, np.zeros(shape), strict=True)
    for shape in (-1, (3, -2)):
        with pytest.raises(ValueError, match="negative dimensions"):
            made(shape)


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.complex128])
def test_grown(dtype):
    longer = grown(adjoint.grown)

    @numba.njit
    def made(stack, size):
        return longer(stack, size)

    for count, size in [(0, 1), (3, 4), (3, 100), (100, 101)]:
        stack = np.arange(count).astype(dtype) * (1 + 2j if dtype is np.complex128 else 3)
        found = made(stack, size)
        assert found.dtype == dtype
        assert len(found) == max(size, 2 * count)
        np.testing.assert_array_equal(found[:count], stack)


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
