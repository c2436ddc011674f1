"""The kernels of short sums against NumPy's, bit for bit."""

import numpy as np
import pytest

from fgrad.core.dispatch import bind
from fgrad.kernels import sums
from fgrad.ops import linear


def _rows(shape, dtype):
    random = np.random.default_rng(3)
    x = random.normal(size=shape).astype(dtype) * 10 ** random.integers(-3, 4, shape).astype(dtype)
    x[random.random(shape) < 0.3] = -0.0
    return x


def _same_bits(a, b):
    np.testing.assert_array_equal(a, b, strict=True)
    np.testing.assert_array_equal(np.signbit(a), np.signbit(b))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [*range(2, 18), 23, 24, 31, 32])
def test_rows(n, dtype):
    for count in (1, 501):
        x = _rows((count, n), dtype)
        _same_bits(sums.added(x[:, :, None])[:, 0], np.add.reduce(x, axis=1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("side", [2, 3, 5, 8])
def test_columns(side, dtype):
    for count, n in ((1, 2), (130, 3), (3, 400)):
        x = _rows((count, n, side), dtype)
        _same_bits(sums.added(x), np.add.reduce(x, axis=1))


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_large_arrays_use_them(name, monkeypatch):
    calls = []
    added = sums.added
    monkeypatch.setattr(linear, "MEDIUM", 1)
    monkeypatch.setattr(sums, "added", lambda *a: calls.append(a) or added(*a))
    x = _rows((7, 6, 5, 3), "float64")
    for given, axis, is_used in (
        (x, 3, True),
        (x, 2, True),
        (x, 0, False),
        (x[..., :1], 3, False),
        (np.asfortranarray(x), 3, False),
        (x[::2], 3, False),
        (x.astype("f2"), 3, False),
        (x.astype(">f8"), 3, False),
        (np.zeros((0, 4, 3)), 1, False),
        (np.zeros((4, 3, 0)), 1, False),
    ):
        calls.clear()
        found = bind(name, given, axes=(axis,))
        expected = getattr(np, name)(given, axis=axis)
        np.testing.assert_array_equal(found, expected, strict=True)
        assert len(calls) == is_used


def test_what_numpy_says_of_overflow_is_said(monkeypatch):
    monkeypatch.setattr(linear, "LARGE", 0)
    x = np.full((4, 3), 1e308)
    with pytest.warns(RuntimeWarning, match="overflow"):
        assert np.isinf(bind("sum", x, axes=(1,))).all()
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        bind("sum", x, axes=(1,))
    with pytest.warns(RuntimeWarning, match="invalid"):
        bind("sum", np.array([[np.inf, -np.inf, 1.0]]), axes=(1,))
