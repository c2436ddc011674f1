"""The kernels of scans against NumPy's, and recurrences against loops, bit for bit."""

import warnings

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.core.dispatch import bind
from fgrad.core.primitive import PRIMITIVES
from fgrad.kernels import scans
from fgrad.ops import linear

SHAPES = [(1, 5, 1), (8, 7, 1), (19, 33, 1), (3, 4, 700), (2, 1, 5), (1, 9, 512), (0, 3, 2), (4, 0, 1)]


def before(x):
    return np.concatenate([np.ones_like(x[:, :1]), np.cumprod(x[:, :-1], 1)], 1)


def recurrence(a, x, shift=0):
    out = np.zeros_like(x)
    for i in range(x.shape[1]):
        out[:, i] = a[:, i - shift] * out[:, i - 1] + x[:, i] if i else x[:, i]
    return out


def adjoint(a, x):
    return recurrence(a, x, 1)


SLOW = {
    "sums": lambda x: np.cumsum(x, 1),
    "products": lambda x: np.cumprod(x, 1),
    "products_before": lambda x: before(x) if x.size else x,
    "recurrence": recurrence,
    "recurrence_adjoint": adjoint,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("what", SLOW)
def test_they_are_those_of_numpy(what, shape, dtype):
    slow = SLOW[what]
    a, x = (np.random.default_rng(i).normal(size=shape).astype(dtype) for i in range(2))
    x[:, :1] = -0.0
    for view in (lambda v: v, np.asfortranarray, lambda v: v[..., ::-1]):
        given = [view(a), view(x)] if "recur" in what else [view(x)]
        up, down = scans.scanned(what, 1, *given), scans.scanned(what, 1, *given, backwards=True)
        expected = slow(*given)
        np.testing.assert_array_equal(up, expected, strict=True)
        np.testing.assert_array_equal(np.signbit(up), np.signbit(expected))
        turned = slow(*(v[:, ::-1] for v in given))[:, ::-1]
        np.testing.assert_array_equal(down, turned, strict=True)


def products(x, a, *, axis):
    """Return the primitives that scan, and the steps of their derivatives."""
    return [
        bind("cumsum", x, axis=axis),
        PRIMITIVES["cumsum"].linear.raw(x, x, {"axis": axis})[0],
        bind("cumprod", x, axis=axis),
        bind("recur", a, x, axis=axis),
        fg.vjp(lambda x: fnp.cumprod(x, axis), x)[1](a),
        fg.vjp(lambda x: fnp.prod(x, axis), x)[1](a.take(0, axis)),
    ]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_large_arrays_use_them(axis, monkeypatch):
    a, x = (np.random.default_rng(i).normal(size=(6, 7, 5)) for i in range(2))
    slow = products(x, a, axis=axis)
    calls = []
    scanned = scans.scanned
    monkeypatch.setattr(linear, "LARGE", 0)
    monkeypatch.setattr(scans, "scanned", lambda *args, **kw: calls.append(args[0]) or scanned(*args, **kw))
    fast = products(x, a, axis=axis)
    assert set(calls) == set(SLOW)
    assert len(calls) == 9
    for one, other in zip(slow, fast, strict=True):
        np.testing.assert_array_equal(one, other)


def test_numpy_says_what_is_wrong(monkeypatch):
    monkeypatch.setattr(linear, "LARGE", 0)
    x = np.full((4, 600), 1e3)
    x[1:] = 1
    with pytest.warns(RuntimeWarning, match="overflow"):
        found = np.cumprod(fg.Tensor(x), 1)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, np.cumprod(x, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.cumprod(fg.Tensor(x[:, :50]), 1)
