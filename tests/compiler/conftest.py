import pytest

from fgrad.kernels import native


@pytest.fixture(autouse=True)
def no_kernel_is_left_to_numba():
    before = native.statistics().by_numba
    yield
    assert native.statistics().by_numba == before
