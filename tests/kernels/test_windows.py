"""Pooling kernels against loops over windows: those that lie inside are written out, those at edges not.

Those and convolutions also against the NumPy code that primitives use for small arrays.
"""

import numpy as np
import pytest
from tests.helpers import by_numpy_and_kernels

from fgrad import ops
from fgrad.core.primitive import PRIMITIVES
from fgrad.kernels import windows

IMAGES = [(2, 7, 9), (1, 3, 1), (3, 1, 5), (1, 2, 2)]
WINDOWS = {
    (2, 2): [(1, 1), (2, 2)],
    (3, 3): [(1, 2)],
    (5, 4): [(1, 1), (2, 1)],
}  # and strides; every pair compiles

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


def settings():
    for window, stride in ((w, s) for w, strides in WINDOWS.items() for s in strides):
        for padding in (((0, 0), (0, 0)), tuple((n // 2, n - 1 - n // 2) for n in window)):
            for image in IMAGES:
                count = [
                    (n + sum(p) - w) // s + 1
                    for n, p, w, s in zip(image[1:], padding, window, stride, strict=True)
                ]
                if min(count) > 0 and max(padding[0] + padding[1]) < min(window):
                    yield image, window, stride, padding, (image[0], *count)


def parts(image, window, stride, padding, shape):
    """Yield each place of the result and the part of the image that its window sees."""
    for place in np.ndindex(shape):
        spans = []
        for k, axis in zip(place[1:], range(2), strict=True):
            start = k * stride[axis] - padding[axis][0]
            spans.append(slice(max(0, start), max(0, start + window[axis])))
        yield place, (place[0], *spans)


def test_pools_and_their_adjoints_are_those_of_loops():
    rng = np.random.default_rng(0)
    seen = set()
    for image, window, stride, padding, shape in settings():
        seen.add(window)
        x = rng.integers(-3, 4, image) * 1.0  # with ties; sums are exact
        ct = rng.integers(1, 5, shape) * 1.0  # no zero, which would hide a window counted twice
        best, total = np.empty(shape), np.empty(shape)
        back, spread = np.zeros(image), np.zeros(image)
        for place, part in parts(image, window, stride, padding, shape):
            best[place], total[place] = x[part].max(), x[part].sum()
            ties = x[part] == best[place]
            back[part] += ct[place] * ties / ties.sum()
            spread[part] += ct[place]
        given = (window, stride, padding)
        np.testing.assert_array_equal(windows.pooled("max", x, *given, shape), best)
        np.testing.assert_array_equal(windows.pooled("sum", x, *given, shape), total)
        np.testing.assert_allclose(windows.max_pool_back(ct, best, x, *given), back, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(windows.pooled("spread", ct, *given, image), spread)
    assert seen == set(WINDOWS)


def test_nan_is_a_maximum_and_gets_no_cotangent():
    x = np.zeros((1, 4, 4))
    x[0, 1, 1] = np.nan
    given = ((2, 2), (2, 2), ((0, 0), (0, 0)))
    y = windows.pooled("max", x, *given, (1, 2, 2))
    np.testing.assert_array_equal(y, [[[np.nan, 0], [0, 0]]])
    back = windows.max_pool_back(np.ones((1, 2, 2)), y, x, *given)
    np.testing.assert_array_equal(back[0, :2, :2], 0)
    np.testing.assert_array_equal(back[0, 2:, 2:], 0.25)


@pytest.fixture
def limit(monkeypatch):
    def set_to(n):
        for module in (ops.windows, ops.pooling):
            monkeypatch.setattr(module, "LARGE", n)

    return set_to


@pytest.fixture
def twice(limit):
    return by_numpy_and_kernels(limit)


@pytest.mark.parametrize("params", POOLS)
@pytest.mark.parametrize("dtype", [np.float64])
def test_pooling(twice, params, dtype):
    rtol = 50 * np.finfo(dtype).eps
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 3, (3, 7, 8)).astype(dtype)  # many ties
    x[0, :4] = -np.inf
    (out,) = twice(lambda: PRIMITIVES["max_pool"].run(x, **params), 0)
    ct = rng.standard_normal(out.shape).astype(dtype)
    twice(lambda: ops.pooling._max_adjoint(ct, out, x, **params), rtol)
    x[0, :4] = 2
    x[1, 1, 1] = np.nan
    (out,) = twice(lambda: PRIMITIVES["max_pool"].run(x, **params), 0)
    twice(lambda: ops.pooling._max_adjoint(ct, out, x, **params), rtol)
    x[1, 1, 1] = 2
    twice(lambda: PRIMITIVES["window_sum"].run(x, **params), rtol)
    space = x.shape[x.ndim - len(params["window"]) :]
    twice(lambda: PRIMITIVES["window_spread"].run(ct, **params, space=space), rtol)


@pytest.mark.parametrize(("x", "w", "params"), CONVOLUTIONS)
@pytest.mark.parametrize("dtype", [np.float64])
@pytest.mark.parametrize("tile", [1, 1000, 2**20])
def test_convolution(twice, x, w, params, dtype, tile, monkeypatch):
    monkeypatch.setattr(windows, "TILE", tile)
    rank = len(x) - 2
    zeros = ((0, 0),) * rank
    ones = (1,) * rank
    full = {"stride": ones, "padding": zeros, "dilation": ones, "groups": 1, **params, "input_dilation": ones}
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(dtype) for s in (x, w))
    rtol = 50 * np.finfo(dtype).eps
    (out,) = twice(lambda: PRIMITIVES["conv"].run(x, w, **full), rtol)
    ct = rng.standard_normal(out.shape).astype(dtype)
    twice(lambda: PRIMITIVES["conv_input"].run(ct, w, shape=x.shape, **full), rtol)
    twice(lambda: PRIMITIVES["conv_kernel"].run(ct, x, shape=w.shape, **full), rtol)
