"""The kernels of running sums against NumPy's, bit for bit."""

import numpy as np
import pytest

from fgrad.core.primitive import PRIMITIVES
from fgrad.core.tensor import bind
from fgrad.kernels import scans
from fgrad.ops import linear

SHAPES = [(1, 5, 1), (8, 7, 1), (19, 33, 1), (3, 4, 700), (2, 1, 5), (1, 9, 512), (0, 3, 2), (4, 0, 1)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_cumsum(shape, dtype):
    x = np.random.default_rng(1).normal(size=shape).astype(dtype)
    x[:, :1] = -0.0
    for given in (x, np.asfortranarray(x), x[..., ::-1]):
        up, down = scans.cumsum(given, 1), scans.cumsum(given, 1, backwards=True)
        np.testing.assert_array_equal(up, np.cumsum(given, 1), strict=True)
        np.testing.assert_array_equal(down, np.cumsum(given[:, ::-1], 1)[:, ::-1], strict=True)
        np.testing.assert_array_equal(np.signbit(up), np.signbit(np.cumsum(given, 1)))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_large_rows_use_them(axis, monkeypatch):
    x = np.random.default_rng(2).normal(size=(6, 7, 5))
    slow = bind("cumsum", x, axis=axis), PRIMITIVES["cumsum"].linear.raw(x, x, {"axis": axis})[0]
    calls = []
    cumsum = scans.cumsum
    monkeypatch.setattr(linear, "LARGE", 0)
    monkeypatch.setattr(scans, "cumsum", lambda *a, **kw: calls.append(a) or cumsum(*a, **kw))
    fast = bind("cumsum", x, axis=axis), PRIMITIVES["cumsum"].linear.raw(x, x, {"axis": axis})[0]
    assert len(calls) == 2
    for a, b in zip(slow, fast, strict=True):
        np.testing.assert_array_equal(a, b)
