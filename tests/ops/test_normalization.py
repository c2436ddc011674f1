"""Normalization and inner products of large arrays, compiled, against the NumPy code for small ones."""

import math
from functools import partial

import numpy as np
import pytest
from tests.helpers import by_numpy_and_kernels

import fgrad as fg
from fgrad.core.primitive import PRIMITIVES
from fgrad.ops import compiled, contraction, normalization, reduction


@pytest.fixture
def twice(monkeypatch):
    return by_numpy_and_kernels(partial(monkeypatch.setattr, compiled, "LARGE"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_softmax(twice, dtype):
    rtol = 50 * np.finfo(dtype).eps
    rng = np.random.default_rng(0)
    for shape, axes in [((3, 5), (1,)), ((2, 3, 70), (1, 2)), ((4, 300), (1,)), ((3, 1), (1,)), ((5,), ())]:
        x, ct = (3 * rng.standard_normal(shape).astype(dtype) for _ in range(2))
        x.flat[:3] = -np.inf, 80, -1000
        vjps = {"softmax": normalization._softmax, "log_softmax": normalization._log_softmax}
        for name, vjp in vjps.items():
            (out,) = twice(lambda name=name: PRIMITIVES[name].run(x, axes=axes), rtol)
            out = np.nan_to_num(out)
            twice(lambda vjp=vjp: vjp(ct, out, axes=axes), rtol)
        (out,) = twice(lambda: np.asarray(PRIMITIVES["logsumexp"].run(x, axes=axes)), rtol)
        back = np.asarray(rng.standard_normal(out.shape), dtype)
        twice(lambda: normalization._logsumexp(back, out, x, axes=axes), rtol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extrema(twice, dtype):
    rng = np.random.default_rng(0)
    for shape, axes in [((3, 5), (1,)), ((2, 3, 70), (1, 2)), ((3, 1), (1,)), ((5,), ())]:
        x, ct = (rng.integers(0, 6, shape).astype(dtype) for _ in range(2))
        x.flat[:2] = np.nan, np.inf
        out = np.max(x, axis=axes)
        ct = ct[tuple(0 if i in axes else slice(None) for i in range(x.ndim))]
        twice(lambda: reduction._extremum(ct, out, x, axes=axes), 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 16_383, 16_384, 100_003])
def test_inner_products(n, dtype, monkeypatch):
    monkeypatch.setattr(contraction, "LARGE", 1)
    inner = partial(PRIMITIVES["contract"].run, a="a", b="a", out="")
    rng = np.random.default_rng(n)
    x, y = (rng.standard_normal(n).astype(dtype) for _ in range(2))
    terms = x.astype(np.longdouble) * y
    found = inner(x, y)
    assert (found.shape, found.dtype) == ((), dtype)
    assert abs(found - math.fsum(terms)) <= 4 * np.finfo(dtype).eps * np.abs(terms).sum()
    x[n // 2] = np.nan
    assert np.isnan(inner(x, y))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_infinite_rows(twice, name):
    rows = [[-np.inf] * 3, [np.inf, 0, 1], [np.nan, 0, 1], [-np.inf, 0, -np.inf], [0, -np.inf, np.nan]]
    twice(lambda: PRIMITIVES[name].run(np.array(rows), axes=(1,)), 1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layer_norm(twice, dtype):
    rtol = 100 * np.finfo(dtype).eps
    rng = np.random.default_rng(0)
    for shape, rank in [((3, 5), 1), ((150, 2, 70), 2), ((4, 300), 1), ((7,), 1)]:
        x, ct = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
        w, b = (rng.standard_normal(shape[-rank:]).astype(dtype) for _ in range(2))
        params = {"rank": rank, "eps": 1e-2}
        twice(lambda: PRIMITIVES["layer_norm"].run(x, w, b, **params), rtol)
        for pattern, saved in {(True, True, True): (x, w), (True, False, False): (x, w)}.items():
            vjp = normalization._layer_norm_vjp(pattern)
            twice(lambda vjp=vjp, saved=saved: vjp.raw(ct, *saved, params), rtol)


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (300, 40)])  # of the latter kernels compute rows
def test_slopes_of_logsumexp_sum_to_one_where_its_value_has_no_digits_to_spare(shape, compiled, dtype):
    """Rounding of log likelihoods such as -1e5 in single precision was an error of half a percent."""
    gaps = np.random.default_rng(1).normal(size=shape)
    slope = fg.grad(lambda x: fg.nn.logsumexp(x, axis=1).sum())
    curvature = lambda x: fg.jvp(slope, (x,), (np.ones_like(x),))[1]
    if compiled:
        slope, curvature = fg.jit(slope), fg.jit(curvature)
    for size in (-1e3, 1e5, -3e7) if dtype == "f" else (-1e12, 1e16, 1e300):
        x = (size + gaps).astype(dtype)
        with np.errstate(under="ignore"):
            rounded = np.exp(x.astype(float) - x.max(1, keepdims=True))
            exact = rounded / rounded.sum(1, keepdims=True)
        np.testing.assert_allclose(slope(x), exact, rtol=5e-6 if dtype == "f" else 1e-13)
        np.testing.assert_allclose(curvature(x), 0, atol=1e-6 if dtype == "f" else 1e-15)
