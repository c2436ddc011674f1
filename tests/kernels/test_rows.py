"""The kernels of rows and windows against the NumPy code that rows use for small arrays."""

import math

import numpy as np
import pytest

from fgrad.core.primitive import PRIMITIVES
from fgrad.kernels import rows
from fgrad.ops import normalization, pooling, windows

ONE = {"stride": (1, 1), "padding": ((0, 0), (0, 0))}
POOLS = [
    {"window": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0))},
    {"window": (3, 2), "stride": (1, 3), "padding": ((1, 2), (0, 1))},
    {"window": (3,), "stride": (2,), "padding": ((1, 1),)},
]
CONVOLUTIONS = [
    ((2, 3, 6, 7), (4, 3, 3, 3), {"padding": ((1, 1), (1, 1))}),
    ((3, 4, 7, 6), (6, 2, 2, 3), {"stride": (2, 3), "padding": ((0, 3), (2, 1)), "groups": 2}),
    ((2, 4, 9, 8), (4, 1, 2, 3), {"dilation": (3, 2), "padding": ((2, 2), (4, 4)), "groups": 4}),
    ((2, 2, 17), (3, 2, 4), {"stride": (3,), "padding": ((1, 6),), "dilation": (2,)}),
    ((1, 2, 5, 5), (2, 2, 1, 1), {"padding": ((-1, 2), (0, -2))}),
]


@pytest.fixture
def limit(monkeypatch):
    def set_to(n):
        for module in (normalization, windows, pooling):
            monkeypatch.setattr(module, "LARGE", n)

    return set_to


@pytest.fixture
def twice(limit):
    """Return the function that runs something by NumPy and by kernels, and compares."""

    def compare(f, rtol):
        results = []
        for n in (2**62, 0):
            limit(n)
            with np.errstate(all="ignore"):
                found = f()
            results.append(found if isinstance(found, list | tuple) else [found])
        for slow, fast in zip(*results, strict=True):
            assert (slow.shape, slow.dtype) == (fast.shape, fast.dtype)
            largest = np.abs(slow[np.isfinite(slow)]).max(initial=0)
            np.testing.assert_allclose(fast, slow, rtol=rtol, atol=rtol * largest)
        return results[0]

    return compare


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_softmax(twice, dtype):
    rtol = 50 * np.finfo(dtype).eps
    rng = np.random.default_rng(0)
    for shape, axes in [((3, 5), (1,)), ((2, 3, 70), (1, 2)), ((4, 300), (1,)), ((3, 1), (1,)), ((5,), ())]:
        x, ct = (3 * rng.standard_normal(shape).astype(dtype) for _ in range(2))
        x.flat[:3] = -np.inf, 80, -1000
        vjps = {"softmax": normalization._softmax, "log_softmax": normalization._log_softmax}
        for name, vjp in vjps.items():
            if name == "log_softmax" and dtype == np.float32:
                continue  # every kernel takes a second to compile, and has nothing of its own in float32
            (out,) = twice(lambda name=name: PRIMITIVES[name].run(x, axes=axes), rtol)
            out = np.nan_to_num(out)
            twice(lambda vjp=vjp: vjp(ct, out, axes=axes), rtol)
        (out,) = twice(lambda: np.asarray(PRIMITIVES["logsumexp"].run(x, axes=axes)), rtol)
        back = np.asarray(rng.standard_normal(out.shape), dtype)
        twice(lambda: normalization._logsumexp(back, out, x, axes=axes), rtol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 8191, 8192, 100_003])
def test_inner_products(n, dtype):
    rng = np.random.default_rng(n)
    x, y = (rng.standard_normal(n).astype(dtype) for _ in range(2))
    terms = x.astype(np.longdouble) * y
    found = rows.inner(x, y)
    assert (found.shape, found.dtype) == ((), dtype)
    assert abs(found - math.fsum(terms)) <= 4 * np.finfo(dtype).eps * np.abs(terms).sum()
    x[n // 2] = np.nan
    assert np.isnan(rows.inner(x, y))


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


@pytest.mark.parametrize("params", POOLS)
@pytest.mark.parametrize("dtype", [np.float64])
def test_pooling(twice, params, dtype):
    rtol = 50 * np.finfo(dtype).eps
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 3, (3, 7, 8)).astype(dtype)  # many ties
    x[0, :4] = -np.inf
    (out,) = twice(lambda: PRIMITIVES["max_pool"].run(x, **params), 0)
    ct = rng.standard_normal(out.shape).astype(dtype)
    twice(lambda: pooling._max_adjoint(ct, out, x, **params), rtol)
    x[0, :4] = 2
    x[1, 1, 1] = np.nan
    (out,) = twice(lambda: PRIMITIVES["max_pool"].run(x, **params), 0)
    twice(lambda: pooling._max_adjoint(ct, out, x, **params), rtol)
    x[1, 1, 1] = 2
    twice(lambda: PRIMITIVES["window_sum"].run(x, **params), rtol)
    space = x.shape[x.ndim - len(params["window"]) :]
    twice(lambda: PRIMITIVES["window_spread"].run(ct, **params, space=space), rtol)


@pytest.mark.parametrize(("x", "w", "params"), CONVOLUTIONS)
@pytest.mark.parametrize("dtype", [np.float64])
@pytest.mark.parametrize("tile", [1, 1000, 2**20])
def test_convolution(twice, x, w, params, dtype, tile, monkeypatch):
    from fgrad.kernels import windows as tiles

    monkeypatch.setattr(tiles, "TILE", tile)
    rank = len(x) - 2
    zeros = ((0, 0),) * rank
    ones = (1,) * rank
    full = {"stride": ones, "padding": zeros, "dilation": ones, "groups": 1, **params, "input_dilation": ones}
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(dtype) for s in (x, w))
    rtol = 50 * np.finfo(dtype).eps
    (out,) = twice(lambda: PRIMITIVES["conv"].run(x, w, **full), rtol)
    ct = rng.standard_normal(out.shape).astype(dtype)
    twice(lambda: windows._input_adjoint(ct, w, x, **full), rtol)
    twice(lambda: windows._kernel_adjoint(ct, x, w, **full), rtol)
