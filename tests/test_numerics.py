"""The numerical conventions: what a derivative is at kinks, ties, singularities and for complex numbers.

One row per convention, to second order, in float32 and float64. Expected values are closed forms.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.helpers import close, exactly

import fgrad as fg
from fgrad.core.dispatch import bind
from fgrad.expr.atoms import ATOMS
from fgrad.scipy import interpolate, ndimage


def diagonal(*values):
    return np.diag(np.array(values, float))


def products(groups, weights=None):
    """Return gradient and Hessian of sum_k w_k prod of the entries in group k, by their definition."""

    def at(x):
        n, w = len(x), weights or [1.0] * len(groups)
        without = lambda group, drop: np.prod([x[i] for i in group if i not in drop])
        g, h = np.zeros(n), np.zeros((n, n))
        for wk, group in zip(w, groups, strict=True):
            for i in group:
                g[i] += wk * without(group, {i})
            for i, j in itertools.permutations(group, 2):
                h[i, j] += wk * without(group, {i, j})
        return g, h

    return at


W = np.array([1.0, -2.0, 3.0])
NODES, LINE = np.array([0.0, 1.0, 3.0]), np.array([1.0, 3.0, 2.0])
PROD = products([(0, 1, 2)])
CUMPROD = products([(0,), (0, 1), (0, 1, 2)], list(W))
ROWS_PROD = products([(0, 1), (2, 3)])

# name: (function, point, gradient and Hessian of the sum of its elements)
REAL = {
    "abs(0)":                (lambda x: np.abs(x), [0.0, -0.0, 2.0, -3.0], [0, 0, 1, -1], 0),
    "builtin abs(0)":        (lambda x: abs(x), [0.0, 2.0], [0, 1], 0),
    "fabs(0)":               (lambda x: np.fabs(x), [0.0, -2.0], [0, -1], 0),
    "relu(0)":               (lambda x: np.where(x > 0, x, 0), [0.0, 2.0, -2.0], [0, 1, 0], 0),
    "sign(0)":               (lambda x: np.sign(x), [0.0, 2.0], [0, 0], 0),
    "max of one":            (lambda x: np.max(x), [1.0, 3.0, 2.0], [0, 1, 0], 0),
    "max of ties":           (lambda x: np.max(x), [1.0, 2.0, 2.0], [0, 0.5, 0.5], 0),
    "max of equals":         (lambda x: x.max(), [7.0] * 4, [0.25] * 4, 0),
    "max of ties, squared":  (lambda x: np.max(x) ** 2, [1.0, 2.0, 2.0], [0, 2, 2],
                             [[0, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]]),
    "max along an axis":     (lambda x: x.reshape(2, 2).max(axis=-1),
                             [3.0, 3.0, 1.0, 0.0], [0.5, 0.5, 1, 0], 0),
    "amax, keepdims":        (lambda x: np.amax(x.reshape(2, 2), axis=0, keepdims=True),
                             [3.0, 3.0, 3.0, 0.0], [0.5, 1, 0.5, 0], 0),
    "min of ties":           (lambda x: np.min(x), [1.0, 1.0, 2.0], [0.5, 0.5, 0], 0),
    "min of ties, squared":  (lambda x: x.min() ** 2, [1.0, 1.0, 2.0], [1, 1, 0],
                             [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 0]]),
    "max of zeros":          (lambda x: np.max(x), [0.0, -0.0], [0.5, 0.5], 0),
    "nanmax of ties":        (lambda x: np.nanmax(x), [np.nan, 2.0, 2.0], [0, 0.5, 0.5], 0),
    "nanmin of ties":        (lambda x: np.nanmin(x), [2.0, np.nan, 2.0], [0.5, 0, 0.5], 0),
    "ptp of ties":           (lambda x: np.ptp(x), [1.0, 1.0, 3.0], [-0.5, -0.5, 1], 0),
    "ptp of ties, squared":  (lambda x: np.ptp(x) ** 2, [1.0, 1.0, 3.0], [-2, -2, 4],
                             [[0.5, 0.5, -1], [0.5, 0.5, -1], [-1, -1, 2]]),
    "maximum.accumulate of ties": (lambda x: np.maximum.accumulate(x), [2.0, 2.0, 1.0], [2, 1, 0], 0),
    "max of extrema of ties": (lambda x: np.max(np.minimum.accumulate(x)), [1.0, 1.0], [0.75, 0.25], 0),
    "max of ties with a number": (lambda x: np.max(x, initial=2.0, where=np.array([True, True, False])),
                             [2.0, 2.0, 5.0], [0.25, 0.25, 0], 0),
    "sort of ties":          (lambda x: np.sort(x) * W, [2.0, 1.0, 2.0], [-2, 1, 3], 0),
    "sort along an axis":    (lambda x: np.sort(x.reshape(2, 2), axis=0) ** 2 * np.array([[1.0], [3.0]]),
                             [4.0, 2.0, 4.0, 1.0], [8, 12, 24, 2], diagonal(2, 6, 6, 2)),
    "median of ties":        (lambda x: np.median(x) ** 2, [1.0, 2.0, 2.0, 2.0, 3.0], [0, 0, 4, 0, 0],
                             diagonal(0, 0, 2, 0, 0)),
    "quantile of ties":      (lambda x: np.quantile(x, 0.75), [5.0, 5.0, 5.0], [0, 0.5, 0.5], 0),
    "percentile of ties":    (lambda x: np.percentile(x, 25.0) ** 2, [2.0, 1.0, 1.0], [0, 1, 1],
                             [[0, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]]),
    "median of an even number": (lambda x: np.median(x) ** 2, [2.0, 2.0, 2.0, 2.0], [0, 2, 2, 0],
                             [[0, 0, 0, 0], [0, 0.5, 0.5, 0], [0, 0.5, 0.5, 0], [0, 0, 0, 0]]),
    "quantile in q":         (lambda q: np.quantile(np.array([0, 1, 5], q.dtype), q), [0.0, 0.5, 0.6, 1.0],
                             [2, 8, 8, 8], 0),
    "quantile in q, by steps": (lambda q: np.quantile(np.array([0, 1, 5], q.dtype), q, method="midpoint"),
                             [0.0, 0.5, 0.6, 1.0], [0, 0, 0, 0], 0),
    "unique of ties":        (lambda x: np.unique(x) ** 2, [3.0, 1.0, 3.0], [3, 2, 3],
                             [[0.5, 0, 0.5], [0, 2, 0], [0.5, 0, 0.5]]),
    "interp at nodes":        (lambda x: np.interp(x, [0.0, 1.0, 3.0], [1.0, 3.0, 2.0]), [0.0, 1.0, 3.0],
                             [2, -0.5, -0.5], 0),
    "interp outside":        (lambda x: np.interp(x, [0.0, 1.0, 3.0], [1.0, 3.0, 2.0]), [-1.0, 0.5, 4.0],
                             [0, 2, 0], 0),
    "map_coordinates at elements": (lambda x: ndimage.map_coordinates(LINE, x[None], order=1),
                             [0.0, 1.0, 2.0], [2, -1, -1], 0),
    "RegularGridInterpolator at nodes": (
                             lambda x: interpolate.RegularGridInterpolator((NODES,), LINE)(x[:, None]),
                             [0.0, 1.0, 3.0], [2, -0.5, -0.5], 0),
    "PPoly at breakpoints":  (lambda x: interpolate.PPoly([[2.0, -0.5], [1.0, 3.0]], NODES)(x),
                             [0.0, 1.0, 3.0], [2, -0.5, -0.5], 0),
    "PchipInterpolator at a turn": (lambda y: interpolate.PchipInterpolator(NODES, y).derivative()(1.0),
                             [0.0, 1.0, 0.0], [0, 0, 0], 0),
    "histogram":             (lambda x: np.histogram(x, 2, (0, 2))[0] * x.sum(), [0.5, 1.5], [2, 2], 0),
    "nansum":                (lambda x: np.nansum(x) ** 2, [1.0, np.nan, 3.0], [8, 0, 8],
                             [[2, 0, 2], [0, 0, 0], [2, 0, 2]]),
    "nanprod":               (lambda x: np.nanprod(x), [0.0, np.nan, 3.0], [3, 0, 0],
                             [[0, 0, 1], [0, 0, 0], [1, 0, 0]]),
    "nancumsum":             (lambda x: np.nancumsum(x), [1.0, np.nan, 3.0], [3, 0, 1], 0),
    "nancumprod":            (lambda x: np.nancumprod(x), [2.0, np.nan, 3.0], [1 + 1 + 3, 0, 2],
                             [[0, 0, 1], [0, 0, 0], [1, 0, 0]]),
    "nanmean":               (lambda x: np.nanmean(x), [1.0, np.nan, 3.0], [0.5, 0, 0.5], 0),
    "nanvar":                (lambda x: np.nanvar(x), [1.0, np.nan, 3.0], [-1, 0, 1],
                             [[0.5, 0, -0.5], [0, 0, 0], [-0.5, 0, 0.5]]),
    "nanstd":                (lambda x: np.nanstd(x), [1.0, np.nan, 3.0], [-0.5, 0, 0.5], 0),
    "nanstd of equals":      (lambda x: np.nanstd(x), [2.0, np.nan, 2.0], [0, 0, 0], None),
    "nanmedian":             (lambda x: np.nanmedian(x), [1.0, np.nan, 3.0], [0.5, 0, 0.5], 0),
    "nanquantile":           (lambda x: np.nanquantile(x, 0.25), [1.0, np.nan, 3.0], [0.75, 0, 0.25], 0),
    "maximum of a tie":      (lambda x: np.maximum(x[:2], x[2:]), [1.0, 5.0, 1.0, 2.0], [0.5, 1, 0.5, 0], 0),
    "minimum of a tie":      (lambda x: np.minimum(x[:2], x[2:]), [1.0, 5.0, 1.0, 2.0], [0.5, 0, 0.5, 1], 0),
    "fmax of a tie":         (lambda x: np.fmax(x[:2], x[2:]), [1.0, 5.0, 1.0, 2.0], [0.5, 1, 0.5, 0], 0),
    "fmin of a tie":         (lambda x: np.fmin(x[:2], x[2:]), [1.0, 5.0, 1.0, 2.0], [0.5, 0, 0.5, 1], 0),
    "maximum with a number": (lambda x: np.maximum(x, 0.0), [0.0, 1.0, -1.0], [0.5, 1, 0], 0),
    "maximum of the same":   (lambda x: np.maximum(x, x), [2.0, -1.0], [1, 1], 0),
    "nn.relu(0)":            (fg.nn.relu, [0.0, -0.0, 2.0, -2.0], [0, 0, 1, 0], 0),
    "nn.relu6":              (fg.nn.relu6, [0.0, 6.0, 5.0, 7.0], [0, 0, 1, 0], 0),
    "nn.hard_sigmoid":       (lambda x: 6 * fg.nn.hard_sigmoid(x), [3.0, -3.0, 0.0, 4.0], [0, 0, 1, 0], 0),
    "nn.hard_tanh":          (fg.nn.hard_tanh, [1.0, -1.0, 0.0, 2.0], [1, 1, 1, 0], 0),
    "nn.leaky_relu(0)":      (lambda x: fg.nn.leaky_relu(x, 0.25), [0.0, 1.0, -1.0], [1, 1, 0.25], 0),
    "nn.elu(0)":             (lambda x: fg.nn.elu(x, 0.5), [0.0, 1.0], [0.5, 1], diagonal(0.5, 0)),
    "nn.max_pool of ties":   (lambda x: fg.nn.max_pool(x, (2,)), [3.0, 3.0, 1.0, 0.0], [0.5, 0.5, 1, 0], 0),
    "sqrt behind where":     (lambda x: np.where(x > 0, np.sqrt(x), 0),
                             [0.0, 4.0], [0, 0.25], diagonal(0, -1 / 32)),
    "sqrt times zero":       (lambda x: np.sqrt(x) * np.array([0, 1]),
                             [0.0, 4.0], [0, 0.25], diagonal(0, -1 / 32)),
    "norm(0)":               (lambda x: np.linalg.norm(x), [0.0, 0.0], [0, 0], None),
    "norm":                  (lambda x: np.linalg.norm(x), [3.0, -4.0], [0.6, -0.8],
                             [[16 / 125, 12 / 125], [12 / 125, 9 / 125]]),
    "norm of order inf, ties": (lambda x: np.linalg.norm(x, np.inf) ** 2, [2.0, -2.0, 1.0], [2, -2, 0],
                             [[0.5, -0.5, 0], [-0.5, 0.5, 0], [0, 0, 0]]),
    "norm of order -inf, ties": (lambda x: np.linalg.norm(x, -np.inf), [2.0, -1.0, 1.0], [0, -0.5, 0.5], 0),
    "norm of order 1":       (lambda x: np.linalg.norm(x, 1), [0.0, -1.0, 2.0], [0, -1, 1], 0),
    "norm of order 3, one 0": (lambda x: np.linalg.norm(x, 3), [0.0, 1.0, -1.0],
                             [0, 2 ** (-2 / 3), -(2 ** (-2 / 3))],
                             2 ** (-2 / 3) * np.array([[0, 0, 0], [0, 1, 1], [0, 1, 1]])),
    "norm of order 4, one 0": (lambda x: np.linalg.norm(x, 4), [0.0, 1.0, -1.0],
                             [0, 2 ** (-3 / 4), -(2 ** (-3 / 4))],
                             1.5 * 2 ** (-3 / 4) * np.array([[0, 0, 0], [0, 1, 1], [0, 1, 1]])),
    "norm of order 3, zeros": (lambda x: np.linalg.norm(x, 3), [0.0, 0.0], [0, 0], None),
    "matrix norm 1 of ties": (lambda x: np.linalg.norm(x.reshape(2, 2), 1), [1.0, 2.0, -1.0, 0.0],
                             [0.5, 0.5, -0.5, 0], 0),
    "std of equals":         (lambda x: np.std(x), [2.0, 2.0], [0, 0], None),
    "var of equals":         (lambda x: np.var(x), [2.0, 2.0], [0, 0], [[0.5, -0.5], [-0.5, 0.5]]),
    "logsumexp of ties":     (lambda x: fg.nn.logsumexp(x), [3.0, 3.0], [0.5, 0.5],
                             [[0.25, -0.25], [-0.25, 0.25]]),
    "logsumexp beside -inf": (lambda x: fg.nn.logsumexp(x), [-np.inf, 1.0, 1.0], [0, 0.5, 0.5],
                             [[0, 0, 0], [0, 0.25, -0.25], [0, -0.25, 0.25]]),
    "softmax beside -inf":   (lambda x: fg.nn.softmax(x) * np.arange(3), [-np.inf, 1.0, 1.0],
                             [0, -0.25, 0.25], 0),
    "norm of rows, one 0":   (lambda x: np.linalg.norm(x.reshape(2, 2), axis=1),
                             [0.0, 0.0, 3.0, 4.0], [0, 0, 0.6, 0.8], None),
    "norm of order 0.5, one 0": (lambda x: np.linalg.norm(x, 0.5), [0.0, 1.0, -4.0], [0, 3, -1.5],
                             [[0, 0, 0], [0, -1, -0.25], [0, -0.25, -0.0625]]),
    "hypot(0, 0)":           (lambda x: np.hypot(x[0], x[1]), [0.0, 0.0], [0, 0], 0),
    "x**0.0":                (lambda x: x**0.0, [0.0, 2.0, -3.0], [0, 0, 0], 0),
    "x**0":                  (lambda x: x**0, [0.0, 2.0, -3.0], [0, 0, 0], 0),
    "power(x, 0.0)":         (lambda x: np.power(x, 0.0), [0.0, 2.0, -3.0], [0, 0, 0], 0),
    "x**1.0":                (lambda x: x**1.0, [0.0, 2.0, -3.0], [1, 1, 1], 0),
    "x**2.0":                (lambda x: x**2.0, [0.0, 2.0, -3.0], [0, 4, -6], diagonal(2, 2, 2)),
    "x**3":                  (lambda x: x**3, [0.0, 2.0, -3.0], [0, 12, 27], diagonal(0, 12, -18)),
    "x**-2.0":               (lambda x: x**-2.0, [2.0, -2.0], [-0.25, 0.25], diagonal(0.375, 0.375)),
    "x**[0, 1, 2, 3]":       (lambda x: x ** np.arange(4), [0.0] * 4, [0, 1, 0, 0], diagonal(0, 0, 2, 0)),
    "x**[0., 1., 2., 3.]":   (lambda x: x ** np.arange(4.0),
                             [-1.0] * 4, [0, 1, -2, 3], diagonal(0, 0, 2, -6)),
    "0**x":                  (lambda x: np.zeros(2) ** x, [1.0, 2.0], [0, 0], 0),
    "2**x":                  (lambda x: 2.0**x, [1.0, 0.0], [2 * np.log(2), np.log(2)],
                             diagonal(2 * np.log(2) ** 2, np.log(2) ** 2)),
    "arctan2(0, 0)":         (lambda x: np.arctan2(x[0], x[1]), [0.0, 0.0], [0, 0], 0),
    "arctan2(0, -1)":        (lambda x: np.arctan2(x[0], x[1]), [0.0, -1.0], [-1, 0], [[0, -1], [-1, 0]]),
    "prod":                  (np.prod, [2.0, -1.0, 3.0], *PROD([2.0, -1.0, 3.0])),
    "prod, one zero":        (np.prod, [2.0, 0.0, 3.0], *PROD([2.0, 0.0, 3.0])),
    "prod, two zeros":       (np.prod, [0.0, 0.0, 3.0], *PROD([0.0, 0.0, 3.0])),
    "prod, all zeros":       (lambda x: x.prod(), [0.0] * 3, *PROD([0.0] * 3)),
    "prod along an axis":    (lambda x: np.prod(x.reshape(2, 2), axis=-1),
                             [0.0, 2.0, 0.0, 0.0], *ROWS_PROD([0.0, 2.0, 0.0, 0.0])),
    "cumprod":               (lambda x: W * np.cumprod(x), [2.0, -1.0, 3.0], *CUMPROD([2.0, -1.0, 3.0])),
    "cumprod, first zero":   (lambda x: W * np.cumprod(x), [0.0, 5.0, 3.0], *CUMPROD([0.0, 5.0, 3.0])),
    "cumprod, one zero":     (lambda x: W * np.cumprod(x), [2.0, 0.0, 3.0], *CUMPROD([2.0, 0.0, 3.0])),
    "cumprod, two zeros":    (lambda x: W * np.cumprod(x), [0.0, 0.0, 3.0], *CUMPROD([0.0, 0.0, 3.0])),
    "cumprod, all zeros":    (lambda x: W * x.cumprod(), [0.0] * 3, *CUMPROD([0.0] * 3)),
    # clip is minimum(maximum(x, low), high), whose ties share
    "clip":                  (lambda x: np.clip(x, -1, 1),
                             [-2.0, -1.0, 0.5, 1.0, 2.0], [0, 0.5, 1, 0.5, 0], 0),
    "clip below":            (lambda x: x.clip(0.0), [-2.0, 0.0, 0.5], [0, 0.5, 1], 0),
    "clip, squared":         (lambda x: np.clip(x, 0, 1) ** 2,
                             [-1.0, 0.5, 2.0], [0, 1, 0], diagonal(0, 2, 0)),
    "remainder":             (lambda x: x % 2.0, [3.5, -0.5], [1, 1], 0),
    "floor":                 (lambda x: np.floor(x) * x, [2.0, 2.5], [2, 2], 0),
}  # fmt: skip


@pytest.fixture(params=["float64", "float32"])
def dtype(request):
    return np.dtype(request.param)


@pytest.mark.parametrize("name", REAL)
def test_convention(name, dtype):
    elements, point, gradient, hessian = REAL[name]
    f = lambda x: np.sum(elements(x))
    x = np.array(point, dtype)
    g = fg.grad(f)(x)
    close(g, np.array(gradient, dtype))
    assert g.dtype == dtype
    n = len(point)
    h = fg.hessian(f)(x)
    if hessian is None:  # infinite in truth: no convention but that it is a number
        assert np.all(np.isfinite(h))
    else:
        close(h, np.broadcast_to(np.array(hessian, dtype), (n, n)))
    assert h.dtype == dtype
    for i, e in enumerate(np.eye(n, dtype=dtype)):
        close(fg.jvp(f, (x,), (e,))[1], np.array(gradient, dtype)[i])


def test_cumprod_and_prod_along_axes_with_zeros():
    x = np.array([[0.0, 2.0, 3.0], [4.0, 0.0, 0.0]])
    rows = np.stack([PROD(row)[0] for row in x])
    close(fg.grad(lambda x: np.sum(np.prod(x, axis=1)))(x), rows)
    close(fg.grad(lambda x: np.sum(np.prod(x.T, axis=-2, keepdims=True)))(x), rows)
    close(fg.grad(lambda x: np.sum(W * np.cumprod(x, axis=-1)))(x), np.stack([CUMPROD(row)[0] for row in x]))
    close(fg.grad(lambda x: np.prod(x))(x), np.zeros((2, 3)))
    assert fg.grad(lambda x: np.prod(x) * 1.0)(np.zeros(0)).shape == (0,)
    close(fg.grad(np.prod)(np.array(5.0)), 1.0)


# ---- singular points ----------------------------------------------------------------------------

# name: (function, singular point, its derivative there, regular point, first and second derivative there)
SINGULAR = {
    "sqrt":       (np.sqrt,                0.0, np.inf,  4.0, 0.25, -1 / 32),
    "x**0.5":     (lambda x: x**0.5,       0.0, np.inf,  4.0, 0.25, -1 / 32),
    "cbrt":       (np.cbrt,                0.0, np.inf,  8.0, 1 / 12, -1 / 144),
    "log":        (np.log,                 0.0, np.inf,  2.0, 0.5, -0.25),
    "log2":       (np.log2,                0.0, np.inf,  2.0, 0.5 / np.log(2), -0.25 / np.log(2)),
    "log10":      (np.log10,               0.0, np.inf,  2.0, 0.5 / np.log(10), -0.25 / np.log(10)),
    "log1p":      (np.log1p,              -1.0, np.inf,  1.0, 0.5, -0.25),
    "reciprocal": (np.reciprocal,          0.0, -np.inf, 2.0, -0.25, 0.25),
    "1/x":        (lambda x: 1 / x,        0.0, -np.inf, 2.0, -0.25, 0.25),
    "x**-1":      (lambda x: x**-1.0,      0.0, -np.inf, 2.0, -0.25, 0.25),
    "arcsin":     (np.arcsin,              1.0, np.inf,  0.6, 1.25, 0.6 / 0.512),
    "arccos":     (np.arccos,              1.0, -np.inf, 0.6, -1.25, -0.6 / 0.512),
    "arccosh":    (np.arccosh,             1.0, np.inf,  2.0, 1 / np.sqrt(3), -2 / np.sqrt(27)),
    "arctanh":    (np.arctanh,             1.0, np.inf,  0.6, 1 / 0.64, 1.2 / 0.64**2),
}  # fmt: skip


@pytest.fixture(params=SINGULAR)
def singular(request, dtype):
    """Return a function, the same hidden at its singular point, that and a regular point, derivatives."""
    f, bad, slope, good, first, second = SINGULAR[request.param]
    masked = lambda x: np.sum(np.where(x != bad, f(x), 0))
    with np.errstate(all="ignore"):  # NumPy warns of log(0) itself
        yield f, masked, np.array([bad, good], dtype), slope, first, second


def test_singular_slopes_are_infinite(singular, dtype):
    f, _, x, slope, _, _ = singular
    exactly(fg.grad(f)(x[0]), dtype.type(slope))
    exactly(fg.jvp(f, (x[0],), (dtype.type(2),))[1], dtype.type(slope))


def test_singular_rules_are_safe_against_a_zero_cotangent(singular, dtype):
    f, masked, x, _, first, _ = singular
    close(fg.grad(masked)(x), np.array([0, first], dtype), rtol=1e-5)
    close(fg.jvp(masked, (x,), (np.ones(2, dtype),))[1], dtype.type(first), rtol=1e-5)
    exactly(fg.vjp(f, x)[1](np.zeros(2, dtype))[0], np.zeros(2, dtype))
    exactly(fg.jvp(f, (x,), (np.zeros(2, dtype),))[1], np.zeros(2, dtype))


def test_singular_rules_are_safe_to_second_order(singular, dtype):
    _, masked, x, _, _, second = singular
    close(fg.grad(lambda x: np.sum(fg.grad(masked)(x)))(x), np.array([0, second], dtype), rtol=1e-4)
    close(fg.jacrev(fg.jacrev(masked))(x), np.diag([0, second]).astype(dtype), rtol=1e-4)
    close(fg.hessian(masked)(x), np.diag([0, second]).astype(dtype), rtol=1e-4)


FINITE = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 90.0, 710.0, -746.0, 1e150, -1e150, 5e-324, 1e-310]
)
FINITE = np.append(FINITE, np.pi / 2)


@pytest.mark.parametrize("name", [name for name, atom in ATOMS.items() if name != "where"])
def test_a_zero_cotangent_wins_over_every_singular_slope(name, dtype):
    """At finite arguments, the edges of domains among them; of `root` they are not negative."""
    points = FINITE if name != "root" else np.abs(FINITE)
    with np.errstate(all="ignore"):
        points = points.astype(dtype)
        points = points[np.isfinite(points) & (np.abs(points) < np.sqrt(np.finfo(dtype).max))]
        args = [np.ravel(x) for x in np.meshgrid(*[points] * ATOMS[name].arity)]
        value, pullback = fg.vjp(lambda *xs: bind(name, *xs), *args)
        if value.dtype.kind != "f":
            return
        for ct in pullback(np.zeros_like(value)):
            np.testing.assert_array_equal(ct, np.zeros_like(ct))
        tangents = tuple(map(np.zeros_like, args))
        pushed = fg.jvp(lambda *xs: bind(name, *xs), tuple(args), tangents)[1]
        np.testing.assert_array_equal(pushed, np.zeros_like(pushed))


INFINITE = {  # a function of x that is infinite where it is not taken
    "multiply": lambda x: x * np.inf,
    "multiply, an overflow": lambda x: x * np.exp(x * 1000),
    "square": lambda x: np.square(x / 0.0),
    "prod": lambda x: np.prod(np.stack([x, x * 0 + np.inf])),
    "sin": lambda x: np.sin(x / 0.0),
    "sqrt(abs(x))": lambda x: np.sqrt(np.abs(x - 1)) - 1,
}


@pytest.mark.parametrize("name", INFINITE)
def test_a_factor_that_is_infinite_is_no_singular_slope(name):
    """It is a number of the caller's; a second `where` keeps it away."""
    f = INFINITE[name]
    with np.errstate(all="ignore"):
        if name == "sqrt(abs(x))":
            assert np.isnan(fg.grad(f)(1.0))
            assert fg.jvp(f, (1.0,), (1.0,))[1] == 0
            return
        assert np.isnan(fg.grad(lambda x: np.sum(np.where(x >= 0, x, f(x))))(1.0))
        assert np.isnan(fg.jit(fg.grad(lambda x: np.sum(np.where(x >= 0, x, f(x)))))(1.0))
        assert fg.jvp(lambda x: np.sum(np.where(x >= 0, x, f(x))), (1.0,), (1.0,))[1] == 1
    if name == "multiply, an overflow":
        kept = lambda x: np.where(x >= 0, x, x * np.exp(np.where(x >= 0, 0, x) * 1000))
        assert fg.grad(kept)(1.0) == fg.jit(fg.grad(kept))(1.0) == 1


def test_division_by_a_masked_zero():
    x, y = np.array([1.0, 2.0]), np.array([0.0, 4.0])
    with np.errstate(divide="ignore", invalid="ignore"):
        gx, gy = fg.grad(lambda x, y: np.sum(np.where(y == 0, 0, x / y)), argnums=(0, 1))(x, y)
    exactly(gx, np.array([0.0, 0.25]))
    exactly(gy, np.array([0.0, -0.125]))


def test_masked_overflow():
    x = np.array([1000.0, 1.0])
    with np.errstate(over="ignore", invalid="ignore"):
        g = fg.grad(lambda x: np.sum(np.where(x > 100, 0, np.exp(x))))(x)
        h = fg.hessian(lambda x: np.sum(np.where(x > 100, 0, np.exp(x))))(x)
    close(g, [0.0, np.e])
    close(h, diagonal(0, np.e))


# ---- indices ------------------------------------------------------------------------------------


def store(index):
    def f(x):
        x[index] = 1.0
        return np.sum(x)

    return f


OUT_OF_BOUNDS = {
    "too large": lambda x: x[3],
    "too negative": lambda x: x[-4],
    "list": lambda x: np.sum(x[[0, 3]]),
    "array": lambda x: np.sum(x[np.array([0, -4])]),
    "second axis": lambda x: np.sum(x.reshape(3, 1)[:, 1]),
    "too many axes": lambda x: x[0, 0],
    "mask of another length": lambda x: np.sum(x[np.array([True, False])]),
    "take": lambda x: np.take(x, 3),
    "take method": lambda x: np.sum(x.take([3])),
    "store": store(3),
    "store list": store([0, 3]),
}


@pytest.mark.parametrize("name", OUT_OF_BOUNDS)
def test_indices_out_of_bounds_raise(name):
    f = OUT_OF_BOUNDS[name]
    with pytest.raises(IndexError):
        f(fg.tensor([1.0, 2.0, 3.0]))
    with pytest.raises(IndexError):
        fg.grad(f)(np.array([1.0, 2.0, 3.0]))


# ---- complex numbers: the gradient of a real f at z = x + iy is df/dx - i df/dy -------------------

Z = 1 + 2j
R5 = np.sqrt(5.0)

# name: (real function, gradient at 1 + 2i)
COMPLEX = {
    "real":       (np.real,                                        1.0),
    "imag":       (np.imag,                                        -1j),
    "abs":        (np.abs,                                         (1 - 2j) / R5),
    "abs**2":     (lambda z: abs(z) ** 2,                          2 - 4j),
    "z conj(z)":  (lambda z: (z * z.conj()).real,                  2 - 4j),
    "x^2 + y^2":  (lambda z: z.real**2 + z.imag**2,                2 - 4j),
    "3x + 4y":    (lambda z: 3 * z.real + 4 * z.imag,              3 - 4j),
    "angle":      (lambda z: np.arctan2(z.imag, z.real),           (-2 - 1j) / 5),
    "Re z^2":     (lambda z: np.real(z**2),                        2 + 4j),
    "Im z^2":     (lambda z: np.imag(z * z),                       4 - 2j),
    "Re conj^2":  (lambda z: np.real(np.conj(z) ** 2),             2 + 4j),
    "Im conj^2":  (lambda z: np.imag(np.conj(z) ** 2),             -4 + 2j),
    "Re z^2.5":   (lambda z: np.real(z**2.5),                      2.5 * Z**1.5),
    "Re 1/z":     (lambda z: np.real(1 / z),                       -1 / Z**2),
    "Re exp":     (lambda z: np.real(np.exp(z)),                   np.exp(Z)),
    "Im exp":     (lambda z: np.imag(np.exp(z)),                   -1j * np.exp(Z)),
    "Re log":     (lambda z: np.real(np.log(z)),                   1 / Z),
    "Re sqrt":    (lambda z: np.real(np.sqrt(z)),                  0.5 / np.sqrt(Z)),
    "Re sin":     (lambda z: np.real(np.sin(z)),                   np.cos(Z)),
    "Re cosh":    (lambda z: np.real(np.cosh(z)),                  np.sinh(Z)),
    "Re tanh":    (lambda z: np.real(np.tanh(z)),                  1 - np.tanh(Z) ** 2),
    "Re w z":     (lambda z: np.real((3 - 1j) * z),                3 - 1j),
    "Re z / w":   (lambda z: np.real(z / (3 - 1j)),                1 / (3 - 1j)),
    "Re 2^z":     (lambda z: np.real(2.0**z),                      2.0**Z * np.log(2)),
    "constant":   (lambda z: np.abs(z * 0 + 1j),                   0.0),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize("name", COMPLEX)
def test_gradient_of_a_real_function_of_a_complex_number(name, dtype):
    f, expected = COMPLEX[name]
    value, g = fg.value_and_grad(f)(np.array(Z, dtype))
    close(g, np.array(expected, dtype))
    assert g.dtype == dtype
    assert value.dtype == np.zeros((), dtype).real.dtype
    h = 1e-6  # the definition itself, by differences
    x = (f(np.complex128(Z + h)) - f(np.complex128(Z - h))) / (2 * h)
    y = (f(np.complex128(Z + 1j * h)) - f(np.complex128(Z - 1j * h))) / (2 * h)
    close(g, np.array(x - 1j * y), rtol=1e-5)


# name: (function, cotangent, pulled back at 1 + 2i): linear in the cotangent, no conjugation of it
PULLED = {
    "square": (lambda z: z**2,                1 + 1j, -2 + 6j),
    "conj":   (np.conj,                       1 + 1j, 1 - 1j),
    "real":   (np.real,                       3.0,    3 + 0j),
    "imag":   (np.imag,                       3.0,    -3j),
    "abs":    (np.abs,                        R5,     1 - 2j),
    "times":  (lambda z: (2 + 1j) * z,        1j,     -1 + 2j),
    "z|z|^2": (lambda z: z * z * np.conj(z),  1j,     (2 * 5) * 1j + np.conj(1j * Z**2)),
}  # fmt: skip


@pytest.mark.parametrize("name", PULLED)
def test_pullback_of_a_complex_function(name):
    f, ct, expected = PULLED[name]
    close(fg.vjp(f, Z)[1](ct)[0], np.array(expected, complex))


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_complex_arrays(dtype):
    z = np.array([1 + 2j, 0, -3j], dtype)
    a = np.array([[1, 1j, 2], [0, 3 - 1j, 1]], dtype)
    close(fg.grad(lambda z: np.sum(np.abs(z)))(z), np.array([(1 - 2j) / R5, 0, 1j], dtype))
    close(fg.grad(lambda z: np.linalg.norm(z))(z), np.conj(z) / np.sqrt(14).astype(dtype))
    exactly(fg.grad(lambda z: np.linalg.norm(z))(0 * z), np.zeros(3, dtype))
    close(fg.grad(lambda z: np.vdot(z, z).real)(z), 2 * np.conj(z))
    close(fg.grad(lambda z: np.sum(np.abs(a @ z) ** 2))(z), 2 * np.conj(a @ z) @ a)
    close(fg.grad(lambda z: np.real(np.prod(z)))(z), np.array([0, (1 + 2j) * -3j, 0], dtype))
    close(fg.grad(lambda z: np.sum(np.real(z[::-1] * a[0])))(z), a[0][::-1])


def test_real_arguments_of_complex_programs_have_real_gradients(dtype):
    x = np.array([0.3, -0.7], dtype)
    g = fg.grad(lambda x: np.sum(np.abs(np.exp(1j * x) + 1) ** 2))(x)
    close(g, -2 * np.sin(x), rtol=1e-5)
    assert g.dtype == dtype
    (ct,) = fg.vjp(lambda x: (2 + 3j) * x, x)[1](np.array([1j, 1.0], np.result_type(dtype, np.complex64)))
    close(ct, np.array([-3.0, 2.0], dtype))
    assert ct.dtype == dtype


def test_second_order_of_complex_functions():
    inner = lambda f: fg.grad(lambda w: np.real(f(w)))
    close(fg.grad(lambda z: np.real(inner(lambda w: w**3)(z)))(Z), np.array(6 * Z))
    square = fg.grad(lambda w: np.abs(w) ** 2)  # 2 conj(z)
    close(fg.grad(lambda z: np.real(square(z)))(Z), np.array(2 + 0j))
    close(fg.grad(lambda z: np.imag(square(z)))(Z), np.array(2j))
    close(fg.jvp(square, (Z,), (1j,))[1], np.array(-2j))
    close(fg.grad(fg.grad(np.sin, holomorphic=True), holomorphic=True)(Z), -np.sin(Z))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("f", [np.prod, np.cumprod, lambda x: np.prod(x.reshape(2, 2))])
@pytest.mark.parametrize("way", [lambda f: f, fg.jit, fg.checkpoint])
def test_slopes_of_products_are_zero_beside_zeros_also_where_other_products_overflow(f, dtype, way):
    big = np.sqrt(np.finfo(dtype).max) * 2
    for x in ([0, 2, big, big], [big, big, 2, 0]):
        x = np.array(x, dtype)
        if f is np.cumprod and x[0]:
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            slopes = way(fg.grad(lambda x: np.sum(f(x))))(x)
        np.testing.assert_array_equal(slopes, np.where(x == 0, np.inf, 0))


@pytest.mark.parametrize("wrap", [lambda f: f, fg.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "z", [1e-310 + 2e-310j, -1e-310j, 3e-320 + 4e-320j, np.complex64(1e-40 + 1e-40j), 3 - 4j]
)
def test_absolute_values_of_tiny_complex_numbers(wrap, z):
    found = wrap(fg.grad(lambda z: np.abs(z).sum()))(np.full(3, z))
    whole = z * 1e20  # no longer subnormal
    np.testing.assert_allclose(
        found, np.full(3, np.conj(whole) / abs(whole)), rtol=1e-4 if found.dtype == "c8" else 1e-3
    )
