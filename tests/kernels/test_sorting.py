"""The stable order of rows, against NumPy's."""

import numpy as np
import pytest

from fgrad.kernels import sorting

RNG = np.random.default_rng(0)


def rows(dtype, shape):
    x = RNG.standard_normal(shape).astype(dtype)
    info = np.finfo(dtype)
    odd = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        -np.nan,
        info.tiny,
        -info.smallest_subnormal,
        info.max,
        info.min,
    ]
    places = RNG.integers(0, x.size, 4 * len(odd))
    x.flat[places] = np.tile(np.array(odd, dtype), 4)
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (1, 70_000), (5, 257), (90, 1000), (400, 3)])
@pytest.mark.parametrize(
    "change",
    [
        lambda x: x,
        lambda x: np.round(x),  # ties
        lambda x: np.sort(x, 1)[:, ::-1],
        lambda x: 1 + np.abs(x) * np.finfo(x.dtype).eps,  # few digits differ
        lambda x: np.zeros_like(x),
    ],
)
def test_it_is_that_of_a_stable_sort(dtype, shape, change):
    x = change(rows(dtype, shape))
    before = x.copy()
    found = sorting.stable_order(x)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, np.argsort(x, 1, kind="stable"))
    np.testing.assert_array_equal(x, before)


def test_many_rows_are_sorted_in_parts(monkeypatch):
    monkeypatch.setattr(sorting, "_TOGETHER", 1000)
    x = rows(np.float32, (23, 300))
    np.testing.assert_array_equal(sorting.stable_order(x), np.argsort(x, 1, kind="stable"))
    monkeypatch.setattr(sorting, "_TOGETHER", 1)
    np.testing.assert_array_equal(sorting.stable_order(x), np.argsort(x, 1, kind="stable"))


@pytest.mark.parametrize("shape", [(1, 1), (1, 40_000), (30, 300)])
@pytest.mark.parametrize("ends", [(-3, 3), (0, 300), (-(2**63), 2**63), (-70_000, -65_536), (2**56, 2**57)])
def test_integers_are_sorted_by_the_digits_that_differ(shape, ends):
    x = RNG.integers(*ends, shape)
    np.testing.assert_array_equal(sorting.stable_order(x), np.argsort(x, 1, kind="stable"))
