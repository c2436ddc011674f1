"""Elements at places that index arrays name, against NumPy, to the last bit."""

import numpy as np
import pytest

from fgrad.kernels import places

RNG = np.random.default_rng(0)
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
SHAPES = pytest.mark.parametrize(
    ("shape", "second"), [((1, 500), (1, 70_000)), ((60, 40), (300, 257)), ((1, 1), (3, 2))]
)


def example(dtype, shape, second):
    x = RNG.standard_normal(shape).astype(dtype)
    first = RNG.integers(-shape[0], shape[0], second[0])
    return x, first, RNG.integers(-shape[1], shape[1], second)


@DTYPES
@SHAPES
def test_reading(dtype, shape, second):
    x, first, second = example(dtype, shape, second)
    for kind in (np.int64, np.int32):
        found = places.read(x, first, second.astype(kind))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, x[first[:, None], second])


@DTYPES
@SHAPES
def test_adding_up(dtype, shape, second):
    _, first, second = example(dtype, shape, second)
    ct = RNG.standard_normal(second.shape).astype(dtype)
    expected = np.zeros(shape, dtype)
    np.add.at(expected, (first[:, None], second), ct)
    for kind in (np.int64, np.int32):
        found = places.added(ct, first, second.astype(kind), shape, unique=False)
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(
        places.added(ct[:, ::-1], first, second[:, ::-1].copy(), shape, unique=False).shape, shape
    )


@DTYPES
def test_writing(dtype):
    first, second = RNG.permutation(50)[:30], np.argsort(RNG.standard_normal((30, 200)), 1)
    ct = RNG.standard_normal(second.shape).astype(dtype)
    expected = np.zeros((50, 200), dtype)
    expected[first[:, None], second] = ct
    np.testing.assert_array_equal(places.added(ct, first, second, (50, 200), unique=True), expected)


@DTYPES
@pytest.mark.parametrize("columns", [1, 3, 700])
def test_adding_up_rows(dtype, columns):
    where = RNG.integers(-9, 9, 5000)
    ct = RNG.standard_normal((5000, columns)).astype(dtype)
    expected = np.zeros((9, columns), dtype)
    np.add.at(expected, where, ct)
    np.testing.assert_array_equal(places.added_rows(ct, where, (9, columns)), expected)


@pytest.mark.parametrize("wrong", [40, -41, 2**62, -(2**62)])
def test_places_that_do_not_exist(wrong):
    x, first, second = example(float, (60, 40), (300, 257))
    second[7, 9] = wrong
    assert places.read(x, first, second) is None
    assert places.added(second.astype(float), first, second, (60, 40), unique=False) is None
    assert places.added(second.astype(float), first, second, (60, 40), unique=True) is None
    assert places.added_rows(np.ones((257, 2)), second[7], (40, 2)) is None
    second[7, 9], first[200] = 0, 60
    assert places.read(x, first, second) is None
    assert places.read(x[:0], first, second) is None
    assert places.read(x[:, :0], first, second) is None


@pytest.mark.parametrize("n", [1, 257, 100_000])
def test_narrow_places(n):
    wide = RNG.integers(-(2**31), 2**31, (n, 2))
    narrow = places.narrowed(wide)
    assert narrow.dtype == np.int32
    np.testing.assert_array_equal(narrow, wide)
    for lost in (2**31, -(2**31) - 1, 2**40 + 3):
        wide[n // 2, 1] = lost
        assert places.narrowed(wide) is None
