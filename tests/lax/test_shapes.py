"""Elements at other places, chosen, or added at places, against NumPy."""

import decimal

import numpy as np
import pytest

import fgrad as fg
from fgrad import lax
from fgrad.testing import check_grads

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4))
RUNS = {"eager": lambda f: f, "compiled": fg.jit}


def equal(x, y):
    np.testing.assert_array_equal(np.asarray(x), y)


@pytest.mark.parametrize("run", RUNS)
def test_axes_that_are_new(run):
    found = RUNS[run](lambda x: lax.broadcast_in_dim(x, (3, 2, 4), (0, 2)))(X)
    equal(found, np.broadcast_to(X[:, None], (3, 2, 4)))
    equal(lax.broadcast_in_dim(X[:1], (5, 4), (0, 1)), np.broadcast_to(X[:1], (5, 4)))
    equal(lax.broadcast_in_dim(2.0, (2, 2), ()), np.full((2, 2), 2.0))
    check_grads(lambda x: lax.broadcast_in_dim(x, (3, 2, 4), (0, 2)), (X,))
    with pytest.raises(ValueError, match="broadcast"):
        lax.broadcast_in_dim(X, (3, 5), (0, 1))
    with pytest.raises(ValueError, match="axes in order"):
        lax.broadcast_in_dim(X, (4, 3), (1, 0))


@pytest.mark.parametrize(
    ("axis", "start", "limit", "stride"), [(0, 1, 3, 1), (1, 0, 4, 3), (-1, None, -1, 2)]
)
def test_parts_along_an_axis(axis, start, limit, stride):
    rows = np.moveaxis(np.moveaxis(X, axis, 0)[start:limit:stride], 0, axis)
    equal(lax.slice_in_dim(X, start, limit, stride, axis), rows)
    check_grads(lambda x: lax.slice_in_dim(x, start, limit, stride, axis), (X,))


@pytest.mark.parametrize("run", RUNS)
def test_cases(run):
    which = RNG.integers(0, 3, X.shape)
    found = RUNS[run](lax.select_n)(which, X, 2 * X, 3 * X)
    equal(found, np.choose(which, [X, 2 * X, 3 * X]))
    equal(RUNS[run](lax.select_n)(X > 0, -X, X), abs(X))
    check_grads(lambda *xs: lax.select_n(which, *xs), (X, 2 * X, 3 * X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_halves_are_rounded_away_from_zero(dtype):
    below = np.nextafter(dtype(0.5), dtype(0))
    x = np.concatenate([np.arange(-8, 9).astype(dtype) / 2, dtype([below, -below, 1e10, 2.0**60])])
    expected = [
        float(decimal.Decimal(float(v)).quantize(decimal.Decimal(1), decimal.ROUND_HALF_UP)) for v in x
    ]
    found = lax.round_half_away(x)
    assert found.dtype == dtype
    equal(found, expected)


@pytest.mark.parametrize("run", RUNS)
def test_updates_add_up_along_whole_axes(run):
    numbers = lax.ScatterDimensionNumbers((0,), (1,), (1,))
    indices, updates = np.array([[2], [0], [2], [9]]), RNG.standard_normal((3, 4))
    found = RUNS[run](lambda x, u: lax.scatter_add(x, indices, u, numbers))(X, updates)
    expected = X.copy()
    np.add.at(expected, (slice(None), indices[:3, 0]), updates[:, :3])  # the last one is out of bounds
    np.testing.assert_allclose(np.asarray(found), expected)
    check_grads(lambda x, u: lax.scatter_add(x, indices, u, numbers), (X, updates))
    moved = lax.scatter_add(X, indices, updates, numbers, "clip")
    expected[:, 3] += updates[:, 3]
    np.testing.assert_allclose(np.asarray(moved), expected)
    with pytest.raises(NotImplementedError, match="whole axes"):
        lax.scatter_add(X, indices, updates, lax.ScatterDimensionNumbers((0,), (), (1,)))
