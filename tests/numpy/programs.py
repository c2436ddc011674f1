"""Small differentiable programs over NumPy's namespace, one per function and differentiable argument.

Each takes the namespace, which is `fgrad.numpy` or `numpy` itself, and arrays or Tensors. Where a program has
no sense in plain NumPy, because NumPy does not ask its arguments, `ONLY_FGRAD` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy  # noqa: ICN001 -- np is the namespace that a program is given

RNG = numpy.random.default_rng(20)


class Program(NamedTuple):
    """A program and the arrays at which it is run."""

    f: Callable[..., Any]
    inputs: tuple[Any, ...]


def R(*shape: int) -> Any:
    """Return numbers of (-2, 2)."""
    return RNG.uniform(-2, 2, shape)


def P(*shape: int) -> Any:
    """Return numbers of (0.5, 2)."""
    return RNG.uniform(0.5, 2, shape)


def U(*shape: int) -> Any:
    """Return numbers of (-0.8, 0.8)."""
    return RNG.uniform(-0.8, 0.8, shape)


def W(n: int, *lead: int) -> Any:
    """Return a well-conditioned matrix."""
    return RNG.uniform(-1, 1, (*lead, n, n)) + 3 * numpy.eye(n)


def spd(np: Any, x: Any) -> Any:
    """Return a positive definite matrix made of `x`."""
    return np.matmul(x, np.swapaxes(x, -1, -2)) + numpy.eye(x.shape[-1])


def herm(np: Any, x: Any) -> Any:
    """Return a symmetric matrix with eigenvalues far apart, made of `x`."""
    return (x + np.swapaxes(x, -1, -2)) / 2 + numpy.diag(4.0 * numpy.arange(x.shape[-1]))


def written(x: Any, write: Callable[[Any], None]) -> Any:
    """Return a copy of `x` after `write` changed it in place."""
    y = x * 1.0
    write(y)
    return y


def iadd(x: Any, y: Any) -> Any:
    """Return x += y."""
    x = x * 1.0
    x += y
    return x


def imul(x: Any, y: Any) -> Any:
    """Return x *= y."""
    x = x * 1.0
    x *= y
    return x


def isub(x: Any, y: Any) -> Any:
    """Return x -= y."""
    x = x * 1.0
    x -= y
    return x


def idiv(x: Any, y: Any) -> Any:
    """Return x /= y."""
    x = x * 1.0
    x /= y
    return x


def ipow(x: Any) -> Any:
    """Return x **= 3."""
    x = x * 1.0
    x **= 3
    return x


def unary(name: str, make: Callable[..., Any]) -> Program:
    """Return the program that calls a ufunc of one argument."""
    return Program(lambda np, x: getattr(np, name)(x), (make(2, 3),))


def binary(name: str, first: Callable[..., Any], second: Callable[..., Any]) -> Program:
    """Return the program that calls a ufunc of two arguments that broadcast."""
    return Program(lambda np, x, y: getattr(np, name)(x, y), (first(2, 3), second(3)))


ABOVE = lambda *shape: P(*shape) + 1
SMALL = lambda *shape: P(*shape) / 4

UFUNCS = {
    **{name: unary(name, R) for name in (
        "positive", "negative", "absolute", "abs", "fabs", "square", "exp", "exp2", "expm1", "sin", "cos",
        "sinh", "cosh", "tanh", "arcsinh", "arctan", "degrees", "radians", "deg2rad", "rad2deg", "conjugate",
        "conj", "sinc", "i0", "real", "real_if_close", "nan_to_num", "sign", "asinh", "atan")},
    **{name: unary(name, P) for name in ("sqrt", "cbrt", "log", "log2", "log10", "log1p", "reciprocal")},
    **{name: unary(name, U) for name in ("tan", "arcsin", "arccos", "arctanh", "asin", "acos", "atanh")},
    **{name: unary(name, ABOVE) for name in ("arccosh", "acosh")},
    **{name: unary(name, lambda *s: SMALL(*s) + 1.2) for name in ("floor", "ceil", "trunc", "rint", "fix")},
    **{name: binary(name, R, R) for name in (
        "add", "subtract", "multiply", "arctan2", "atan2", "hypot", "maximum", "minimum", "fmax", "fmin",
        "logaddexp", "logaddexp2", "copysign")},
    **{name: binary(name, R, P) for name in ("divide", "true_divide")},
    **{name: binary(name, P, R) for name in ("power", "pow", "float_power")},
    **{name: binary(name, lambda *s: SMALL(*s) + 5, lambda *s: SMALL(*s) / 5 + 2.2)
       for name in ("remainder", "mod", "fmod", "floor_divide")},
    "heaviside": Program(lambda np, x, y: np.heaviside(x, y), (R(2, 3), R(3))),
    "nextafter": Program(lambda np, x: np.nextafter(x, 3.0), (R(3),)),
    "ldexp": Program(lambda np, x: np.ldexp(x, numpy.array([1, 2, 3])), (R(2, 3),)),
    "frexp": Program(lambda np, x: np.frexp(x)[0], (SMALL(3) + 1.2,)),
    "modf": Program(lambda np, x: np.modf(x)[0], (SMALL(3) + 1.2,)),
    "divmod": Program(lambda np, x, y: np.divmod(x, y)[1], (SMALL(3) + 5, SMALL(3) / 5 + 2.2)),
    "ufunc-where": Program(lambda np, x, y: np.add(x, y, where=numpy.array([True, False, True]),
        out=np.zeros_like(x)), (R(3), R(3))),
    "ufunc-out": Program(lambda np, x, y: np.multiply(x, y, out=np.zeros_like(x)), (R(3), R(3))),
    "ufunc-dtype": Program(lambda np, x: np.sin(x, dtype=float), (R(3),)),
    "matvec": Program(lambda np, a, x: np.matvec(a, x), (R(2, 3), R(3))),
    "vecmat": Program(lambda np, x, a: np.vecmat(x, a), (R(2), R(2, 3))),
    "vecdot": Program(lambda np, x, y: np.vecdot(x, y), (R(2, 3), R(2, 3))),
}  # fmt: skip

METHODS_OF_UFUNCS = {
    "add.reduce": Program(lambda np, x: np.add.reduce(x, axis=1), (R(2, 3),)),
    "add.reduce-keepdims": Program(lambda np, x: np.add.reduce(x, axis=0, keepdims=True), (R(2, 3),)),
    "multiply.reduce": Program(lambda np, x: np.multiply.reduce(x), (R(2, 3),)),
    "maximum.reduce": Program(lambda np, x: np.maximum.reduce(x, axis=1), (R(2, 3),)),
    "minimum.reduce": Program(lambda np, x: np.minimum.reduce(x, axis=None), (R(2, 3),)),
    "logaddexp.reduce": Program(lambda np, x: np.logaddexp.reduce(x, axis=0), (R(2, 3),)),
    "add.accumulate": Program(lambda np, x: np.add.accumulate(x, axis=1), (R(2, 3),)),
    "multiply.accumulate": Program(lambda np, x: np.multiply.accumulate(x), (R(3, 2),)),
    "maximum.accumulate": Program(lambda np, x: np.maximum.accumulate(x), (R(5),)),
    "minimum.accumulate": Program(lambda np, x: np.minimum.accumulate(x), (R(5),)),
    "add.outer": Program(lambda np, x, y: np.add.outer(x, y), (R(2), R(3))),
    "multiply.outer": Program(lambda np, x, y: np.multiply.outer(x, y), (R(2), R(3))),
    "subtract.outer": Program(lambda np, x, y: np.subtract.outer(x, y), (R(2), R(3))),
    "divide.outer": Program(lambda np, x, y: np.divide.outer(x, y), (R(2), P(3))),
    "power.outer": Program(lambda np, x, y: np.power.outer(x, y), (P(2), R(3))),
    "maximum.outer": Program(lambda np, x, y: np.maximum.outer(x, y), (R(2), R(3))),
    "add.reduceat": Program(lambda np, x: np.add.reduceat(x, [0, 2, 4]), (R(6),)),
}

REDUCTIONS = {
    "sum": Program(lambda np, x: np.sum(x), (R(3, 4),)),
    "sum-axis": Program(lambda np, x: np.sum(x, axis=1), (R(3, 4),)),
    "sum-axes": Program(lambda np, x: np.sum(x, axis=(0, -1)), (R(2, 3, 4),)),
    "sum-keepdims": Program(lambda np, x: np.sum(x, axis=0, keepdims=True), (R(3, 4),)),
    "sum-initial": Program(lambda np, x: np.sum(x, initial=3.0), (R(3),)),
    "sum-where": Program(lambda np, x: np.sum(x, where=numpy.array([True, False, True])), (R(2, 3),)),
    "prod": Program(lambda np, x: np.prod(x), (R(2, 3),)),
    "prod-axis": Program(lambda np, x: np.prod(x, axis=1), (R(2, 3),)),
    "prod-where": Program(lambda np, x: np.prod(x, where=numpy.array([True, False, True])), (R(3),)),
    "max": Program(lambda np, x: np.max(x), (R(3, 4),)),
    "max-axis": Program(lambda np, x: np.max(x, axis=0), (R(3, 4),)),
    "amax": Program(lambda np, x: np.amax(x, axis=1, keepdims=True), (R(3, 4),)),
    "max-initial": Program(lambda np, x: np.max(x, initial=0.5), (R(3, 4),)),
    "min": Program(lambda np, x: np.min(x), (R(3, 4),)),
    "min-axis": Program(lambda np, x: np.min(x, axis=0), (R(3, 4),)),
    "amin": Program(lambda np, x: np.amin(x, axis=1), (R(3, 4),)),
    "ptp": Program(lambda np, x: np.ptp(x, axis=1), (R(3, 4),)),
    "mean": Program(lambda np, x: np.mean(x), (R(3, 4),)),
    "mean-axis": Program(lambda np, x: np.mean(x, axis=0), (R(3, 4),)),
    "mean-where": Program(lambda np, x: np.mean(x, where=numpy.array([True, False, True])), (R(3),)),
    "var": Program(lambda np, x: np.var(x), (R(3, 4),)),
    "var-ddof": Program(lambda np, x: np.var(x, axis=1, ddof=1), (R(3, 4),)),
    "std": Program(lambda np, x: np.std(x), (R(3, 4),)),
    "std-axis": Program(lambda np, x: np.std(x, axis=0, keepdims=True), (R(3, 4),)),
    "average": Program(lambda np, x: np.average(x, axis=0), (R(3, 4),)),
    "average-weights": Program(lambda np, x, w: np.average(x, axis=1, weights=w), (R(3, 4), P(4))),
    "cumsum": Program(lambda np, x: np.cumsum(x), (R(2, 3),)),
    "cumsum-axis": Program(lambda np, x: np.cumsum(x, axis=1), (R(2, 3),)),
    "cumprod": Program(lambda np, x: np.cumprod(x), (R(4),)),
    "cumprod-axis": Program(lambda np, x: np.cumprod(x, axis=0), (R(2, 3),)),
    "cumulative_sum": Program(lambda np, x: np.cumulative_sum(x, axis=0, include_initial=True), (R(3, 2),)),
    "cumulative_prod": Program(lambda np, x: np.cumulative_prod(x, axis=0), (R(3, 2),)),
    "diff": Program(lambda np, x: np.diff(x), (R(2, 4),)),
    "diff-n": Program(lambda np, x: np.diff(x, n=2, axis=0), (R(4, 2),)),
    "diff-prepend": Program(lambda np, x, y: np.diff(x, prepend=y), (R(4), R(2))),
    "ediff1d": Program(lambda np, x: np.ediff1d(x, to_begin=1.0, to_end=2.0), (R(4),)),
    "gradient": Program(lambda np, x: np.gradient(x), (R(5),)),
    "gradient-spacing": Program(lambda np, x: np.gradient(x, 0.5, axis=1), (R(3, 4),)),
    "gradient-coordinates": Program(lambda np, x: np.gradient(x, numpy.array([0.0, 1, 3, 4])), (R(4),)),
    "trapezoid": Program(lambda np, y: np.trapezoid(y, dx=0.5), (R(4),)),
    "trapezoid-x": Program(lambda np, y, x: np.trapezoid(y, x), (R(4), R(4))),
    "nansum": Program(lambda np, x: np.nansum(x, axis=0), (R(3, 4),)),
    "nanprod": Program(lambda np, x: np.nanprod(x, axis=0), (R(3, 4),)),
    "nanmean": Program(lambda np, x: np.nanmean(x, axis=0), (R(3, 4),)),
    "nanvar": Program(lambda np, x: np.nanvar(x, axis=0), (R(3, 4),)),
    "nanstd": Program(lambda np, x: np.nanstd(x, axis=0), (R(3, 4),)),
    "nanmax": Program(lambda np, x: np.nanmax(x, axis=0), (R(3, 4),)),
    "nanmin": Program(lambda np, x: np.nanmin(x, axis=0), (R(3, 4),)),
    "nancumsum": Program(lambda np, x: np.nancumsum(x), (R(4),)),
    "nancumprod": Program(lambda np, x: np.nancumprod(x), (R(4),)),
    "nanmedian": Program(lambda np, x: np.nanmedian(x, axis=0), (R(3, 4),)),
    "nanpercentile": Program(lambda np, x: np.nanpercentile(x, 30, axis=0), (R(4, 2),)),
    "nanquantile": Program(lambda np, x: np.nanquantile(x, 0.3, axis=0), (R(4, 2),)),
    "nanmean-nan": Program(lambda np, x: np.nanmean(np.where(numpy.arange(4) == 1, numpy.nan, x)), (R(4),)),
}

STATISTICS = {
    "sort": Program(lambda np, x: np.sort(x), (R(2, 4),)),
    "sort-axis": Program(lambda np, x: np.sort(x, axis=0), (R(4, 2),)),
    "sort-flat": Program(lambda np, x: np.sort(x, axis=None), (R(2, 3),)),
    "partition": Program(lambda np, x: np.partition(x, 2)[2] * x, (R(5),)),
    "sort_complex": Program(lambda np, x: np.real(np.sort_complex(x)), (R(4),)),
    "argsort-take": Program(lambda np, x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1), (R(2, 4),)),
    "argmax-take": Program(lambda np, x: x[np.argmax(x)] * x, (R(5),)),
    "median": Program(lambda np, x: np.median(x), (R(5),)),
    "median-even": Program(lambda np, x: np.median(x, axis=1), (R(3, 4),)),
    "quantile": Program(lambda np, x: np.quantile(x, 0.3), (R(5),)),
    "quantile-axis": Program(lambda np, x: np.quantile(x, [0.2, 0.7], axis=1), (R(2, 5),)),
    "quantile-method": Program(lambda np, x: np.quantile(x, 0.33, method="hazen"), (R(5),)),
    "percentile": Program(lambda np, x: np.percentile(x, 40, axis=0), (R(5, 2),)),
    "cov": Program(lambda np, x: np.cov(x), (R(3, 5),)),
    "cov-two": Program(lambda np, x, y: np.cov(x, y), (R(5), R(5))),
    "cov-ddof": Program(lambda np, x: np.cov(x, rowvar=False, ddof=0), (R(5, 3),)),
    "corrcoef": Program(lambda np, x: np.corrcoef(x), (R(3, 5),)),
    "correlate": Program(lambda np, x, y: np.correlate(x, y, "full"), (R(4), R(3))),
    "correlate-valid": Program(lambda np, x, y: np.correlate(x, y), (R(5), R(3))),
    "convolve": Program(lambda np, x, y: np.convolve(x, y), (R(4), R(3))),
    "convolve-same": Program(lambda np, x, y: np.convolve(x, y, "same"), (R(5), R(3))),
    "convolve-valid": Program(lambda np, x, y: np.convolve(x, y, mode="valid"), (R(5), R(3))),
    "histogram-weights": Program(
        lambda np, w: np.histogram(numpy.arange(6.0), bins=3, weights=w)[0], (R(6),)
    ),
    "bincount-weights": Program(lambda np, w: np.bincount(numpy.array([0, 1, 1, 2]), weights=w), (R(4),)),
    "unique": Program(lambda np, x: np.unique(x), (R(4),)),
    "searchsorted-take": Program(lambda np, x: x[np.searchsorted(numpy.arange(3.0), 1.5)] * x, (R(5),)),
}

SELECTION = {
    "where": Program(lambda np, x, y: np.where(x > y, x, y), (R(2, 3), R(3))),
    "where-scalar": Program(lambda np, x: np.where(x > 0, x, 0.0), (R(4),)),
    "select": Program(lambda np, x, y: np.select([x > 1, x > 0], [x * 2, y], 3.0), (R(5), R(5))),
    "select-default": Program(lambda np, x, y: np.select([x > 1], [x * 2], y), (R(5), R(5))),
    "choose": Program(lambda np, x, y: np.choose(numpy.array([0, 1, 0]), [x, y]), (R(3), R(3))),
    "piecewise": Program(lambda np, x: np.piecewise(x, [x < 0, x >= 0], [lambda v: v * v, lambda v: 3 * v]),
        (R(5),)),
    "clip": Program(lambda np, x: np.clip(x, -1.0, 1.0), (R(2, 4),)),
    "clip-limits": Program(lambda np, x, a, b: np.clip(x, a, b), (R(4), U(4) - 1, U(4) + 1)),
    "clip-min": Program(lambda np, x: np.clip(x, min=0.1), (R(4),)),
    "take": Program(lambda np, x: np.take(x, [0, 2, 2]), (R(4),)),
    "take-axis": Program(lambda np, x: np.take(x, [1, 0], axis=1), (R(2, 3),)),
    "take-wrap": Program(lambda np, x: np.take(x, [5, -1], mode="wrap"), (R(4),)),
    "take_along_axis": Program(lambda np, x: np.take_along_axis(x, numpy.array([[1], [0]]), 1), (R(2, 3),)),
    "put_along_axis": Program(lambda np, x, v: written(x, lambda y: np.put_along_axis(
        y, numpy.array([[1], [0]]), v, axis=1)), (R(2, 3), R(2, 1))),
    "put": Program(lambda np, x, v: written(x, lambda y: np.put(y, [0, 3], v)), (R(2, 3), R(2))),
    "place": Program(lambda np, x, v: written(x, lambda y: np.place(y, y > 0, v)), (R(5), R(5))),
    "putmask": Program(lambda np, x, v: written(x, lambda y: np.putmask(
        y, numpy.arange(5) > 2, v)), (R(5), R(5))),
    "copyto": Program(lambda np, x, v: written(x, lambda y: np.copyto(y, v)), (R(4), R(4))),
    "copyto-where": Program(lambda np, x, v: written(x, lambda y: np.copyto(
        y, v, where=numpy.arange(4) > 1)), (R(4), R(4))),
    "fill_diagonal": Program(lambda np, x, v: written(x, lambda y: np.fill_diagonal(y, v)), (R(3, 3), R(3))),
    "compress": Program(lambda np, x: np.compress([True, False, True], x, axis=0), (R(3, 2),)),
    "extract": Program(lambda np, x: np.extract(numpy.array([True, False, True]), x), (R(3),)),
    "nonzero-index": Program(lambda np, x: x[np.nonzero(x > 0)], (R(5),)),
    "diagonal": Program(lambda np, x: np.diagonal(x, 1), (R(3, 4),)),
    "diag-vector": Program(lambda np, x: np.diag(x, -1), (R(3),)),
    "diag-matrix": Program(lambda np, x: np.diag(x), (R(3, 4),)),
    "diagflat": Program(lambda np, x: np.diagflat(x), (R(2, 2),)),
    "tril": Program(lambda np, x: np.tril(x), (R(3, 4),)),
    "triu": Program(lambda np, x: np.triu(x, 1), (R(2, 3, 3),)),
    "tril_indices": Program(lambda np, x: x[np.tril_indices(3)], (R(3, 3),)),
    "delete": Program(lambda np, x: np.delete(x, 1), (R(4),)),
    "delete-axis": Program(lambda np, x: np.delete(x, [0, 2], axis=1), (R(2, 4),)),
    "insert": Program(lambda np, x, v: np.insert(x, 1, v), (R(4), R(2))),
    "insert-axis": Program(lambda np, x, v: np.insert(x, 1, v, axis=1), (R(2, 3), R(2))),
    "trim_zeros": Program(lambda np, x: np.trim_zeros(np.concatenate([numpy.zeros(2), x])), (P(3),)),
    "resize": Program(lambda np, x: np.resize(x, (2, 4)), (R(3),)),
    "ix_": Program(lambda np, x: x[np.ix_([0, 2], [1, 3])], (R(3, 4),)),
    "apply_along_axis": Program(lambda np, x: np.apply_along_axis(lambda v: v * v[0], 0, x), (R(3, 2),)),
    "apply_over_axes": Program(lambda np, x: np.apply_over_axes(np.sum, x, [0, 2]), (R(2, 3, 2),)),
    "vectorize": Program(lambda np, x: np.vectorize(lambda v: v * v)(x), (R(3),)),
}  # fmt: skip

SHAPES = {
    "reshape": Program(lambda np, x: np.reshape(x, (3, 2)), (R(2, 3),)),
    "reshape-order": Program(lambda np, x: np.reshape(x, (3, 2), order="F"), (R(2, 3),)),
    "ravel": Program(lambda np, x: np.ravel(x), (R(2, 3),)),
    "ravel-order": Program(lambda np, x: np.ravel(x, order="F"), (R(2, 3),)),
    "transpose": Program(lambda np, x: np.transpose(x), (R(2, 3),)),
    "transpose-axis": Program(lambda np, x: np.transpose(x, 0), (R(3),)),
    "transpose-axes": Program(lambda np, x: np.transpose(x, (1, 2, 0)), (R(2, 3, 4),)),
    "permute_dims": Program(lambda np, x: np.permute_dims(x, (1, 0)), (R(2, 3),)),
    "matrix_transpose": Program(lambda np, x: np.matrix_transpose(x), (R(2, 2, 3),)),
    "swapaxes": Program(lambda np, x: np.swapaxes(x, 0, 2), (R(2, 3, 4),)),
    "moveaxis": Program(lambda np, x: np.moveaxis(x, 0, -1), (R(2, 3, 4),)),
    "rollaxis": Program(lambda np, x: np.rollaxis(x, 2), (R(2, 3, 4),)),
    "expand_dims": Program(lambda np, x: np.expand_dims(x, (0, 2)), (R(2, 3),)),
    "squeeze": Program(lambda np, x: np.squeeze(x), (R(1, 3, 1),)),
    "squeeze-axis": Program(lambda np, x: np.squeeze(x, axis=0), (R(1, 3, 1),)),
    "atleast_1d": Program(lambda np, x: np.atleast_1d(x), (R(),)),
    "atleast_2d": Program(lambda np, x: np.atleast_2d(x), (R(3),)),
    "atleast_3d": Program(lambda np, x: np.atleast_3d(x), (R(2, 3),)),
    "broadcast_to": Program(lambda np, x: np.broadcast_to(x, (2, 3)), (R(3),)),
    "broadcast_arrays": Program(lambda np, x, y: np.broadcast_arrays(x, y), (R(3), R(2, 1))),
    "flip": Program(lambda np, x: np.flip(x), (R(2, 3),)),
    "flip-axis": Program(lambda np, x: np.flip(x, axis=1), (R(2, 3),)),
    "fliplr": Program(lambda np, x: np.fliplr(x), (R(2, 3),)),
    "flipud": Program(lambda np, x: np.flipud(x), (R(2, 3),)),
    "rot90": Program(lambda np, x: np.rot90(x), (R(2, 3),)),
    "roll": Program(lambda np, x: np.roll(x, 2), (R(2, 3),)),
    "roll-axis": Program(lambda np, x: np.roll(x, (1, 2), axis=(0, 1)), (R(2, 3),)),
    "repeat": Program(lambda np, x: np.repeat(x, 2), (R(2, 3),)),
    "repeat-axis": Program(lambda np, x: np.repeat(x, [1, 2], axis=0), (R(2, 3),)),
    "tile": Program(lambda np, x: np.tile(x, (2, 1, 2)), (R(2, 3),)),
    "pad": Program(lambda np, x: np.pad(x, 1), (R(2, 3),)),
    "pad-values": Program(lambda np, x: np.pad(x, ((1, 0), (0, 2)), constant_values=3.0), (R(2, 3),)),
    "pad-edge": Program(lambda np, x: np.pad(x, 2, mode="edge"), (R(3),)),
    "pad-reflect": Program(lambda np, x: np.pad(x, 2, mode="reflect"), (R(4),)),
    "pad-symmetric": Program(lambda np, x: np.pad(x, 2, mode="symmetric"), (R(4),)),
    "pad-wrap": Program(lambda np, x: np.pad(x, 2, mode="wrap"), (R(4),)),
    "pad-linear_ramp": Program(lambda np, x: np.pad(x, 2, mode="linear_ramp", end_values=1.0), (R(4),)),
    "pad-mean": Program(lambda np, x: np.pad(x, 2, mode="mean"), (R(4),)),
    "concatenate": Program(lambda np, x, y: np.concatenate([x, y]), (R(2, 3), R(1, 3))),
    "concatenate-axis": Program(lambda np, x, y: np.concatenate((x, y), axis=1), (R(2, 3), R(2, 1))),
    "concatenate-flat": Program(lambda np, x, y: np.concatenate((x, y), axis=None), (R(2, 3), R(2))),
    "concat": Program(lambda np, x, y: np.concat([x, y]), (R(2), R(3))),
    "stack": Program(lambda np, x, y: np.stack([x, y]), (R(2, 3), R(2, 3))),
    "stack-axis": Program(lambda np, x, y: np.stack([x, y], axis=-1), (R(2, 3), R(2, 3))),
    "vstack": Program(lambda np, x, y: np.vstack([x, y]), (R(3), R(2, 3))),
    "hstack": Program(lambda np, x, y: np.hstack([x, y]), (R(2, 1), R(2, 3))),
    "dstack": Program(lambda np, x, y: np.dstack([x, y]), (R(2, 3), R(2, 3))),
    "column_stack": Program(lambda np, x, y: np.column_stack([x, y]), (R(3), R(3, 2))),
    "append": Program(lambda np, x, y: np.append(x, y), (R(3), R(2))),
    "append-axis": Program(lambda np, x, y: np.append(x, y, axis=0), (R(2, 3), R(1, 3))),
    "block": Program(lambda np, x, y: np.block([[x, y], [y, x]]), (R(2, 2), R(2, 2))),
    "split": Program(lambda np, x: np.split(x, 2), (R(4),)),
    "split-places": Program(lambda np, x: np.split(x, [1, 3], axis=1)[1], (R(2, 4),)),
    "array_split": Program(lambda np, x: np.array_split(x, 3)[0], (R(5),)),
    "hsplit": Program(lambda np, x: np.hsplit(x, 2), (R(2, 4),)),
    "vsplit": Program(lambda np, x: np.vsplit(x, 2), (R(4, 2),)),
    "dsplit": Program(lambda np, x: np.dsplit(x, 2), (R(2, 2, 2),)),
    "unstack": Program(lambda np, x: np.unstack(x, axis=1), (R(2, 3),)),
    "copy": Program(lambda np, x: np.copy(x), (R(3),)),
    "astype": Program(lambda np, x: np.astype(x, numpy.float64), (R(3),)),
    "require": Program(lambda np, x: np.require(x, dtype=float), (R(3),)),
    "sliding_window_view": Program(lambda np, x: np.lib.stride_tricks.sliding_window_view(x, 3), (R(5),)),
}

CREATION = {
    "array": Program(lambda np, x: np.array([x[0], x[1] * 2, 3.0]), (R(3),)),
    "array-nested": Program(lambda np, x: np.array([[x[0], x[1]], [x[1], x[0]]]), (R(3),)),
    "asarray": Program(lambda np, x: np.asarray(x) * x, (R(3),)),
    "full": Program(lambda np, x: np.full((2, 3), x), (R(3),)),
    "full_like": Program(lambda np, x: np.full_like(x, x[0]), (R(3),)),
    "zeros_like": Program(lambda np, x: np.zeros_like(x) + x, (R(3),)),
    "ones_like": Program(lambda np, x: np.ones_like(x) * x, (R(3),)),
    "linspace": Program(lambda np, a, b: np.linspace(a, b, 5), (R(), R())),
    "linspace-arrays": Program(lambda np, a, b: np.linspace(a, b, 4, endpoint=False, axis=-1), (R(2), R(2))),
    "linspace-retstep": Program(lambda np, a, b: np.linspace(a, b, 4, retstep=True)[1], (R(2), R(2))),
    "logspace": Program(lambda np, a, b: np.logspace(a, b, 4), (U(), U())),
    "geomspace": Program(lambda np, a, b: np.geomspace(a, b, 4), (P(), P() + 2)),
    "meshgrid": Program(lambda np, x, y: np.meshgrid(x, y), (R(2), R(3))),
    "vander": Program(lambda np, x: np.vander(x, 3), (R(3),)),
    "fromfunction": Program(lambda np, x: np.fromfunction(lambda i, j: x * i + j, (2, 3)), (R(3),)),
}

POLYNOMIALS = {
    "interp": Program(lambda np, x: np.interp(x, [-3.0, 0.1, 3.0], [1.0, 2.0, -1.0]), (R(4),)),
    "interp-values": Program(lambda np, f: np.interp([0.5, 1.5], [0.0, 1.0, 2.0], f), (R(3),)),
    "interp-places": Program(lambda np, s: np.interp([0.5, 1.5], s + numpy.arange(3), [1.0, 3, 2]),
        (SMALL(3) / 9,)),
    "polyval": Program(lambda np, p, x: np.polyval(p, x), (R(3), R(4))),
    "polyadd": Program(lambda np, p, q: np.polyadd(p, q), (R(3), R(2))),
    "polysub": Program(lambda np, p, q: np.polysub(p, q), (R(3), R(2))),
    "polymul": Program(lambda np, p, q: np.polymul(p, q), (R(3), R(2))),
    "polydiv": Program(lambda np, p, q: np.polydiv(p, q)[0], (R(4), P(2))),
    "polyder": Program(lambda np, p: np.polyder(p), (R(4),)),
    "polyint": Program(lambda np, p: np.polyint(p), (R(3),)),
    "polyfit": Program(lambda np, y: np.polyfit(numpy.arange(5.0), y, 2), (R(5),)),
    "poly": Program(lambda np, r: np.poly(r), (R(3),)),
    "roots": Program(lambda np, p: np.real(np.roots(p * numpy.array([0.01, 0.01, 0.01, 0]) + numpy.array(
        [1.0, -6, 11, -6]))) ** 2, (P(4),)),
    "unwrap": Program(lambda np, x: np.unwrap(x * 4), (R(5),)),
    "cross": Program(lambda np, x, y: np.cross(x, y), (R(2, 3), R(3))),
}  # fmt: skip

PRODUCTS = {
    "dot": Program(lambda np, x, y: np.dot(x, y), (R(3), R(3))),
    "dot-matrices": Program(lambda np, x, y: np.dot(x, y), (R(2, 3), R(3, 4))),
    "dot-scalar": Program(lambda np, x, y: np.dot(x, y), (R(), R(3))),
    "vdot": Program(lambda np, x, y: np.vdot(x, y), (R(2, 3), R(2, 3))),
    "inner": Program(lambda np, x, y: np.inner(x, y), (R(2, 3), R(4, 3))),
    "outer": Program(lambda np, x, y: np.outer(x, y), (R(2), R(3))),
    "matmul": Program(lambda np, x, y: np.matmul(x, y), (R(2, 3), R(3, 4))),
    "matmul-batch": Program(lambda np, x, y: np.matmul(x, y), (R(2, 2, 3), R(3, 2))),
    "matmul-vector": Program(lambda np, x, y: np.matmul(x, y), (R(2, 3), R(3))),
    "tensordot": Program(lambda np, x, y: np.tensordot(x, y, axes=1), (R(2, 3), R(3, 2))),
    "tensordot-axes": Program(lambda np, x, y: np.tensordot(x, y, axes=([0, 1], [1, 0])), (R(2, 3), R(3, 2))),
    "kron": Program(lambda np, x, y: np.kron(x, y), (R(2, 2), R(2, 3))),
    "trace": Program(lambda np, x: np.trace(x), (R(3, 3),)),
    "trace-offset": Program(lambda np, x: np.trace(x, 1, 1, 2), (R(2, 3, 3),)),
    "einsum-matmul": Program(lambda np, x, y: np.einsum("ij,jk->ik", x, y), (R(2, 3), R(3, 2))),
    "einsum-trace": Program(lambda np, x: np.einsum("ii", x), (R(3, 3),)),
    "einsum-diagonal": Program(lambda np, x: np.einsum("ii->i", x), (R(3, 3),)),
    "einsum-three": Program(lambda np, x, y, z: np.einsum("i,ij,j->", x, y, z), (R(2), R(2, 3), R(3))),
    "einsum-ellipsis": Program(lambda np, x, y: np.einsum("...i,...i->...", x, y), (R(2, 3), R(2, 3))),
    "einsum-sum": Program(lambda np, x: np.einsum("ij->j", x), (R(2, 3),)),
    "einsum-transpose": Program(lambda np, x: np.einsum("ijk->kji", x), (R(2, 3, 2),)),
}

LINALG = {
    "norm": Program(lambda np, x: np.linalg.norm(x), (R(3),)),
    "norm-fro": Program(lambda np, x: np.linalg.norm(x), (R(2, 3),)),
    "norm-1": Program(lambda np, x: np.linalg.norm(x, 1), (R(3),)),
    "norm-3": Program(lambda np, x: np.linalg.norm(x, 3), (R(3),)),
    "norm-inf": Program(lambda np, x: np.linalg.norm(x, numpy.inf), (R(3),)),
    "norm-axis": Program(lambda np, x: np.linalg.norm(x, axis=1, keepdims=True), (R(2, 3),)),
    "norm-2": Program(lambda np, x: np.linalg.norm(x, 2), (R(2, 3),)),
    "norm-nuc": Program(lambda np, x: np.linalg.norm(x, "nuc"), (R(2, 3),)),
    "matrix_norm": Program(lambda np, x: np.linalg.matrix_norm(x), (R(2, 2, 3),)),
    "vector_norm": Program(lambda np, x: np.linalg.vector_norm(x, axis=0), (R(2, 3),)),
    "det": Program(lambda np, x: np.linalg.det(x), (W(3),)),
    "slogdet": Program(lambda np, x: np.linalg.slogdet(x)[1], (W(3, 2),)),
    "inv": Program(lambda np, x: np.linalg.inv(x), (W(3),)),
    "inv-batch": Program(lambda np, x: np.linalg.inv(x), (W(2, 2),)),
    "pinv": Program(lambda np, x: np.linalg.pinv(x), (R(3, 2),)),
    "pinv-wide": Program(lambda np, x: np.linalg.pinv(x), (R(2, 4),)),
    "solve": Program(lambda np, a, b: np.linalg.solve(a, b), (W(3), R(3))),
    "solve-matrix": Program(lambda np, a, b: np.linalg.solve(a, b), (W(3), R(3, 2))),
    "lstsq": Program(lambda np, a, b: np.linalg.lstsq(a, b)[0], (R(4, 2), R(4))),
    "cholesky": Program(lambda np, x: np.linalg.cholesky(spd(np, x)), (R(3, 3),)),
    "cholesky-batch": Program(lambda np, x: np.linalg.cholesky(spd(np, x)), (R(2, 2, 2),)),
    "eigh-values": Program(lambda np, x: np.linalg.eigh(herm(np, x))[0], (U(3, 3),)),
    "eigh-vectors": Program(lambda np, x: np.linalg.eigh(herm(np, x))[1] ** 2, (U(3, 3),)),
    "eigvalsh": Program(lambda np, x: np.linalg.eigvalsh(herm(np, x)), (U(3, 3),)),
    "eig-values": Program(lambda np, x: np.real(np.linalg.eig(herm(np, x))[0]) ** 2, (U(3, 3),)),
    "eigvals": Program(lambda np, x: np.real(np.linalg.eigvals(herm(np, x))) ** 2, (U(3, 3),)),
    "svd-values": Program(lambda np, x: np.linalg.svd(x, compute_uv=False), (R(2, 3),)),
    "svd-vectors": Program(lambda np, x: np.linalg.svd(x, full_matrices=False)[0] ** 2, (R(2, 3),)),
    "svdvals": Program(lambda np, x: np.linalg.svdvals(x), (R(3, 2),)),
    "qr": Program(lambda np, x: np.linalg.qr(x), (R(4, 3),)),
    "qr-r": Program(lambda np, x: np.linalg.qr(x, mode="r"), (R(3, 3),)),
    "matrix_power": Program(lambda np, x: np.linalg.matrix_power(x, 3), (R(2, 2),)),
    "matrix_power-negative": Program(lambda np, x: np.linalg.matrix_power(x, -2), (W(2),)),
    "multi_dot": Program(lambda np, x, y, z: np.linalg.multi_dot([x, y, z]), (R(2, 3), R(3, 2), R(2))),
    "tensorinv": Program(lambda np, x: np.linalg.tensorinv(np.reshape(x, (2, 2, 4))), (W(4),)),
    "tensorsolve": Program(lambda np, x, b: np.linalg.tensorsolve(np.reshape(x, (4, 2, 2)), b), (W(4), R(4))),
    "cond": Program(lambda np, x: np.linalg.cond(x), (W(3),)),
    "linalg.trace": Program(lambda np, x: np.linalg.trace(x), (R(2, 3, 3),)),
    "linalg.diagonal": Program(lambda np, x: np.linalg.diagonal(x), (R(2, 3, 3),)),
    "linalg.matmul": Program(lambda np, x, y: np.linalg.matmul(x, y), (R(2, 3), R(3, 2))),
    "linalg.outer": Program(lambda np, x, y: np.linalg.outer(x, y), (R(2), R(3))),
    "linalg.cross": Program(lambda np, x, y: np.linalg.cross(x, y), (R(3), R(3))),
    "linalg.tensordot": Program(lambda np, x, y: np.linalg.tensordot(x, y, axes=1), (R(2, 3), R(3, 2))),
    "linalg.vecdot": Program(lambda np, x, y: np.linalg.vecdot(x, y), (R(2, 3), R(2, 3))),
    "linalg.matrix_transpose": Program(lambda np, x: np.linalg.matrix_transpose(x), (R(2, 3),)),
}


def transform(name: str, *shape: int, **options: Any) -> Program:
    """Return the program that applies a Fourier transform to complex numbers made of the input."""
    return Program(lambda np, x: getattr(np.fft, name)(x + 1j * x * x, **options), (R(*shape),))


FOURIER = {
    "fft": transform("fft", 5),
    "fft-n": transform("fft", 5, n=7),
    "fft-axis": transform("fft", 3, 2, axis=0),
    "fft-ortho": transform("fft", 4, norm="ortho"),
    "ifft": transform("ifft", 5),
    "ifft-forward": transform("ifft", 4, norm="forward"),
    "fft2": transform("fft2", 2, 3),
    "ifft2": transform("ifft2", 2, 3),
    "fftn": transform("fftn", 2, 3, 2),
    "ifftn": transform("ifftn", 2, 3),
    "rfft": Program(lambda np, x: np.fft.rfft(x), (R(5),)),
    "rfft-even": Program(lambda np, x: np.fft.rfft(x, n=6, axis=0), (R(4, 2),)),
    "irfft": transform("irfft", 4),
    "irfft-n": transform("irfft", 4, n=7),
    "rfft2": Program(lambda np, x: np.fft.rfft2(x), (R(3, 4),)),
    "irfft2": transform("irfft2", 3, 3),
    "rfftn": Program(lambda np, x: np.fft.rfftn(x), (R(2, 3, 4),)),
    "irfftn": transform("irfftn", 2, 3),
    "hfft": transform("hfft", 4),
    "ihfft": Program(lambda np, x: np.fft.ihfft(x), (R(5),)),
    "fftshift": Program(lambda np, x: np.fft.fftshift(x), (R(2, 5),)),
    "ifftshift": Program(lambda np, x: np.fft.ifftshift(x, axes=1), (R(2, 5),)),
}

COMPLEX = {
    "real-imag": Program(lambda np, x, y: np.real((x + 1j * y) ** 2) * np.imag(x + 1j * y), (R(3), R(3))),
    "angle": Program(lambda np, x, y: np.angle(x + 1j * y), (R(3), R(3))),
    "angle-degrees": Program(lambda np, x, y: np.angle(x + 1j * y, deg=True), (R(3), R(3))),
    "abs-complex": Program(lambda np, x, y: np.abs(x + 1j * y), (R(3), R(3))),
    "conj-complex": Program(lambda np, x, y: np.conj(x + 1j * y) * y, (R(3), R(3))),
    "exp-complex": Program(lambda np, x, y: np.exp(x + 1j * y), (R(3), R(3))),
    "imag": Program(lambda np, x: np.imag(np.exp(1j * x)), (R(3),)),
    "iscomplexobj": Program(lambda np, x: x * (1 + np.iscomplexobj(x)), (R(3),)),
}

OPERATORS = {
    "+": Program(lambda np, x, y: x + y + 1, (R(2, 3), R(3))),
    "-": Program(lambda np, x, y: 1 - x - y, (R(2, 3), R(3))),
    "*": Program(lambda np, x, y: 2 * x * y, (R(2, 3), R(3))),
    "/": Program(lambda np, x, y: x / y + 1 / y, (R(2, 3), P(3))),
    "%": Program(lambda np, x: x % 2.0, (SMALL(3) + 5,)),
    "//": Program(lambda np, x: x // 2.0 + x, (SMALL(3) + 5,)),
    "**": Program(lambda np, x, y: x**y, (P(3), R(3))),
    "**2": Program(lambda np, x: x**2 + x**3.0 + 2.0**x, (R(3),)),
    "@": Program(lambda np, x, y: x @ y, (R(2, 3), R(3, 2))),
    "unary": Program(lambda np, x: -x + +x * abs(x), (R(3),)),
    "x[i]": Program(lambda np, x: x[1], (R(3, 2),)),
    "x[slice]": Program(lambda np, x: x[1:, ::-2], (R(3, 4),)),
    "x[None, ...]": Program(lambda np, x: x[None, ..., 0], (R(3, 2),)),
    "x[list]": Program(lambda np, x: x[[0, 2, 2]], (R(3, 2),)),
    "x[i, j]": Program(lambda np, x: x[numpy.array([0, 1]), numpy.array([1, 1])], (R(3, 2),)),
    "x[mask]": Program(lambda np, x: x[x > 0], (R(6),)),
    "x[i] = v": Program(lambda np, x, v: written(x, lambda y: y.__setitem__(1, v)), (R(3), R())),
    "x[slice] = v": Program(
        lambda np, x, v: written(x, lambda y: y.__setitem__(slice(0, 2), v)), (R(3, 2), R(2))
    ),
    "x[list] = v": Program(lambda np, x, v: written(x, lambda y: y.__setitem__([0, 2], v)), (R(3), R(2))),
    "x[mask] = v": Program(lambda np, x: written(x, lambda y: y.__setitem__(y < 0, 0.0)), (R(5),)),
    "+=": Program(lambda np, x, y: iadd(x, y), (R(2, 3), R(3))),
    "-=": Program(lambda np, x, y: isub(x, y), (R(2, 3), R(3))),
    "*=": Program(lambda np, x, y: imul(x, y), (R(2, 3), R(3))),
    "/=": Program(lambda np, x, y: idiv(x, y), (R(2, 3), P(3))),
    "**=": Program(lambda np, x: ipow(x), (P(3),)),
    "iteration": Program(lambda np, x: sum(row * i for i, row in enumerate(x)), (R(3, 2),)),
    "loop": Program(lambda np, x: x[0] * (x[1] if x[1] > 0 else -x[2]), (R(3),)),
}

METHODS = {
    **{f".{name}": Program(lambda np, x, name=name: getattr(x, name)(), (R(2, 3),)) for name in (
        "sum", "prod", "max", "min", "mean", "var", "std", "ptp", "cumsum", "cumprod", "ravel", "flatten",
        "copy", "transpose", "squeeze", "conj", "conjugate", "diagonal", "trace")
       if hasattr(numpy.ndarray, name)},
    ".sum(axis)": Program(lambda np, x: x.sum(axis=0), (R(2, 3),)),
    ".mean(axis)": Program(lambda np, x: x.mean(axis=1, keepdims=True), (R(2, 3),)),
    ".reshape": Program(lambda np, x: x.reshape(3, -1), (R(2, 3),)),
    ".T": Program(lambda np, x: x.T, (R(2, 3),)),
    ".mT": Program(lambda np, x: x.mT, (R(2, 2, 3),)),
    ".real": Program(lambda np, x: x.real * 2, (R(3),)),
    ".imag": Program(lambda np, x: (x * 1j).imag, (R(3),)),
    ".flat": Program(lambda np, x: sum(v * i for i, v in enumerate(x.flat)), (R(2, 2),)),
    ".dot": Program(lambda np, x, y: x.dot(y), (R(2, 3), R(3))),
    ".clip": Program(lambda np, x: x.clip(-1, 1), (R(4),)),
    ".take": Program(lambda np, x: x.take([1, 0], axis=1), (R(2, 3),)),
    ".repeat": Program(lambda np, x: x.repeat(2, axis=0), (R(2, 3),)),
    ".swapaxes": Program(lambda np, x: x.swapaxes(0, 1), (R(2, 3),)),
    ".astype": Program(lambda np, x: x.astype(float), (R(3),)),
    ".compress": Program(lambda np, x: x.compress([True, False, True]), (R(3),)),
    ".round": Program(lambda np, x: x.round() + x, (SMALL(3) + 1.6,)),
    ".sort": Program(lambda np, x: written(x, lambda y: y.sort()), (R(5),)),
    ".fill": Program(lambda np, x: written(x, lambda y: y.fill(2.0)) * x, (R(5),)),
    ".item-index": Program(lambda np, x: x[int(x.argmax())] * x, (R(5),)),
}  # fmt: skip

GROUPS = {
    "ufuncs": UFUNCS,
    "methods of ufuncs": METHODS_OF_UFUNCS,
    "reductions": REDUCTIONS,
    "sorting and statistics": STATISTICS,
    "selection": SELECTION,
    "shapes": SHAPES,
    "creation": CREATION,
    "polynomials and interpolation": POLYNOMIALS,
    "products": PRODUCTS,
    "linalg": LINALG,
    "fft": FOURIER,
    "complex": COMPLEX,
    "operators and indexing": OPERATORS,
    "methods": METHODS,
}

PROGRAMS = {name: program for group in GROUPS.values() for name, program in group.items()}

# Programs that plain NumPy cannot run on Tensors: it does not ask the argument that is one.
ONLY_FGRAD = {
    "array": "numpy.array looks for numbers in the list, and never asks what is in it",
    "array-nested": "the same",
    "asarray": "numpy.asarray asks `like` alone",
    "require": "numpy.require asks `like` alone",
    "full": "numpy.full asks `like` alone; full_like asks its first argument",
    "vectorize": "numpy.vectorize calls the function for one element after the other, and wants numbers",
}
