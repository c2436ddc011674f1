"""Cubic polynomials, piece by piece, through given values: by splines, or by slopes of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.extend.engine import reshape, together
from fgrad.numpy.cumulative import diff
from fgrad.numpy.indexing import stop_gradient
from fgrad.numpy.joining import concatenate
from fgrad.numpy.joining import stack as stacked
from fgrad.numpy.shapes import broadcast_to, moveaxis
from fgrad.scipy.interpolate.piecewise import PPoly, doubles, element, finite, increasing, part
from fgrad.scipy.linalg import arguments


def _prepared(x: Any, y: Any, axis: int) -> tuple[Any, Any, Any, Any, int]:
    """Return places, values with the axis of interpolation first, steps (a vector; beside values), axis."""
    x, y = map(doubles, together(x, y))
    if x.dtype.kind == "c":
        raise ValueError("`x` must contain real values.")
    axis = axis % len(y.shape) if y.shape else 0
    if len(x.shape) != 1:
        raise ValueError("`x` must be 1-dimensional.")
    if x.shape[0] < 2:
        raise ValueError("`x` must contain at least 2 elements.")
    if not y.shape or x.shape[0] != y.shape[axis]:
        raise ValueError(f"The length of `y` along `axis`={axis} doesn't match the length of `x`")
    finite(x, "x")
    finite(y, "y")
    increasing(x)
    y = moveaxis(y, axis, 0)
    dx = diff(x)
    return x, y, dx, reshape(dx, (dx.shape[0], *(1,) * (len(y.shape) - 1))), axis


class CubicHermiteSpline(PPoly):
    """The piecewise cubic polynomial with given values and slopes at given points.

    Args:
        x: points (n,), increasing.
        y: values, n of them along `axis`.
        dydx: slopes, of the shape of `y`.
        axis: the axis of interpolation.
        extrapolate: as in `PPoly`; True by default.

    Returns:
        A `PPoly` with coefficients (4, n - 1, ...). Calling it with query points of any shape returns values
        with that shape in place of `axis`, float64 or complex128; with `nu` derivatives in the points.

    Raises:
        ValueError: incompatible shapes, or values that are seen to be wrong.

    Derivative:
        In points, values, slopes and query points; at a point that of the right side, at the last one of the
        left.

    Source:
        Fritsch & Carlson (1980), Monotone piecewise cubic interpolation, SIAM J. Numer. Anal. 17, (2.1).

    Example:
        >>> f = CubicHermiteSpline([0.0, 1.0], [0.0, 1.0], [0.0, 0.0])
        >>> f(0.5), f(0.5, 1)
        (np.float64(0.5), np.float64(1.5))
        >>> fg.grad(lambda s: CubicHermiteSpline([0.0, 1.0], [0.0, 1.0], s)(0.5))(np.zeros(2))
        array([ 0.125, -0.125])
    """

    def __init__(self, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None) -> None:
        x, y, dydx = together(x, y, dydx)
        x, values, _, dx, axis = _prepared(x, y, axis)
        dydx = doubles(dydx)
        if dydx.shape != y.shape:
            raise ValueError("The shapes of `y` and `dydx` must be identical.")
        finite(dydx, "dydx")
        self._set(x, values, moveaxis(dydx, axis, 0), dx, axis, extrapolate)

    def _set(self, x: Any, y: Any, s: Any, dx: Any, axis: int, extrapolate: Any) -> None:
        slope = diff(y, axis=0) / dx
        t = (part(s, 0, -1) + part(s, 1) - 2 * slope) / dx
        c = stacked([t / dx, (slope - part(s, 0, -1)) / dx - t, part(s, 0, -1), part(y, 0, -1)])
        super().__init__(c, x, extrapolate, axis)


class CubicSpline(CubicHermiteSpline):
    """The piecewise cubic polynomial through given values whose second derivative is continuous.

    Args:
        x: points (n,), increasing.
        y: values, n of them along `axis`.
        axis: the axis of interpolation.
        bc_type: what holds at both ends: "not-a-knot", "periodic", "clamped" (slope zero), "natural" (second
            derivative zero), or for each end one of these (but "periodic") or (order, value), order 1 or 2.
        extrapolate: as in `PPoly`; by default "periodic" for such ends, otherwise True.

    Returns:
        A `PPoly` with coefficients (4, n - 1, ...). Calling it with query points of any shape returns values
        with that shape in place of `axis`, float64 or complex128; with `nu` derivatives in the points.

    Raises:
        ValueError: incompatible shapes, ends that are unknown, or values that are seen to be wrong.

    Derivative:
        In points, values, what is given at the ends, and query points, through a banded system. With periodic
        ends the first and the last value are differentiated as two.

    Source:
        de Boor (1978), A Practical Guide to Splines, chapter IV.

    Example:
        >>> x, y = np.arange(4.0), np.array([0.0, 1.0, 4.0, 9.0])
        >>> CubicSpline(x, y)(2.5).round(6), CubicSpline(x, y)(2.5, 1).round(6)
        (np.float64(6.25), np.float64(5.0))
        >>> fg.grad(lambda v: CubicSpline(x, y)(v))(2.5).round(6)
        np.float64(5.0)
        >>> fg.grad(lambda y: CubicSpline(x, y)(1.5))(y).round(6)
        array([-0.0625,  0.5625,  0.5625, -0.0625])
    """

    def __init__(
        self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None
    ) -> None:
        x, y, dx, wide, axis = _prepared(x, y, axis)
        ends = _ends(bc_type, y, axis)
        periodic = isinstance(ends[0], str) and ends[0] == "periodic"
        if extrapolate is None:
            extrapolate = "periodic" if periodic else True
        self._set(x, y, _spline_slopes(x, y, dx, wide, ends), wide, axis, extrapolate)


def _ends(bc_type: Any, y: Any, axis: int) -> list[Any]:
    """Return what holds at both ends: a name, or (order, value)."""
    if isinstance(bc_type, str):
        if bc_type == "periodic" and arguments.is_visible(y):
            first, last = (arguments.plain(element(y, i)) for i in (0, -1))
            if not np.allclose(first, last, rtol=1e-15, atol=1e-15):
                raise ValueError(
                    f"The first and last `y` point along axis {axis} must be identical (within machine "
                    "precision) when bc_type='periodic'."
                )
        bc_type = (bc_type, bc_type)
    elif len(bc_type) != 2:
        raise ValueError("`bc_type` must contain 2 elements to specify start and end conditions.")
    elif any(isinstance(end, str) and end == "periodic" for end in bc_type):
        raise ValueError(
            "'periodic' `bc_type` is defined for both curve ends and cannot be used with other boundary "
            "conditions."
        )
    return [_end(end, y) for end in bc_type]


def _end(end: Any, y: Any) -> Any:
    shape = tuple(y.shape[1:])
    if isinstance(end, str):
        if end in {"clamped", "natural"}:
            return (1 if end == "clamped" else 2, near(y).zeros(shape))
        if end not in {"not-a-knot", "periodic"}:
            raise ValueError(f"bc_type={end} is not allowed.")
        return end
    try:
        order, value = end
    except (TypeError, ValueError) as error:
        raise ValueError("A specified derivative value must be given in the form (order, value).") from error
    if order not in {1, 2}:
        raise ValueError("The specified derivative order must be 1 or 2.")
    value = doubles(together(y, value)[1])
    if tuple(value.shape) != shape:
        raise ValueError(f"`deriv_value` shape {tuple(value.shape)} is not the expected one {shape}.")
    return (order, value)


def _spline_slopes(x: Any, y: Any, dx: Any, wide: Any, ends: list[Any]) -> Any:
    """Return the slopes at places that make the second derivative continuous."""
    n = x.shape[0]
    slope = diff(y, axis=0) / wide
    named = [isinstance(end, str) for end in ends]
    if n == 2:  # a straight line, as far as the ends say nothing else
        ends = [(1, element(slope, 0)) if is_name else end for end, is_name in zip(ends, named, strict=True)]
        named = [False, False]
    if n == 3 and all(named):
        if ends[0] == "periodic":
            t = bind("sum", slope / wide, axes=(0,)) / bind("sum", 1 / wide, axes=(0,))
            return broadcast_to(t, y.shape)
        # a parabola through the three
        d = (element(wide, 0), element(wide, 1))
        m = (element(slope, 0), element(slope, 1))
        middle = (d[1] * m[0] + d[0] * m[1]) / (d[0] + d[1])
        return stacked([2 * m[0] - middle, middle, 2 * m[1] - middle])
    if named[0] and ends[0] == "periodic":
        return _periodic_slopes(y, dx, wide, slope)
    inner = 3 * (part(wide, 1) * part(slope, 0, -1) + part(wide, 0, -1) * part(slope, 1))
    start = _end_row(ends[0], dx, wide, slope, 0, 1)
    final = _end_row(ends[1], dx, wide, slope, -1, -2)
    zero = near(dx).zeros(1)
    bands = stacked(
        [
            concatenate([zero, _vector(start[1], dx), part(dx, 0, -1)]),
            concatenate([_vector(start[0], dx), 2 * (part(dx, 0, -1) + part(dx, 1)), _vector(final[0], dx)]),
            concatenate([part(dx, 1), _vector(final[1], dx), zero]),
        ]
    )
    rows = [reshape(start[2], (1, *y.shape[1:])), inner, reshape(final[2], (1, *y.shape[1:]))]
    return _banded(bands, concatenate(rows, axis=0))


def _vector(v: Any, like: Any) -> Any:
    """Return a number as vector, where `like` is."""
    return reshape(together(like, v)[1], (1,))


def _banded(bands: Any, b: Any) -> Any:
    flat = reshape(b, (b.shape[0], b.size // b.shape[0]))
    return reshape(bind("solve_banded", bands, flat, below=1, above=1), b.shape)


def _end_row(end: Any, dx: Any, wide: Any, slope: Any, i: int, j: int) -> tuple[Any, Any, Any]:
    """Return diagonal, neighbour and right side of the equation of an end, interval `i` beside `j`."""
    h, h1, m = element(dx, i), element(wide, i), element(slope, i)
    if isinstance(end, str):
        d, h2 = h + element(dx, j), element(wide, j)
        right = ((h1 + 2 * d) * h2 * m + h1 * h1 * element(slope, j)) / d
        return element(dx, j), d, right
    order, value = end
    if order == 1:
        return 1.0, 0.0, value + 0 * m
    return 2 * h, h, (0.5 if i else -0.5) * value * h1 * h1 + 3 * m * h1


def _periodic_slopes(y: Any, dx: Any, wide: Any, slope: Any) -> Any:
    """Return the slopes of a closed curve: the last unknown is left out of the system, and found after it."""
    n = y.shape[0]
    h = [element(dx, i) for i in (0, -1, -2, -3)]
    first = 3 * (element(wide, 0) * element(slope, -1) + element(wide, -1) * element(slope, 0))
    final = 3 * (element(wide, -1) * element(slope, -2) + element(wide, -2) * element(slope, -1))
    inner = 3 * (part(wide, 1, n - 2) * part(slope, 0, n - 3) + part(wide, 0, n - 3) * part(slope, 1, n - 2))
    zero = near(dx).zeros(1)
    bands = stacked(
        [
            concatenate([zero, _vector(h[1], dx), part(dx, 0, n - 4)]),
            concatenate([_vector(2 * (h[1] + h[0]), dx), 2 * (part(dx, 0, n - 3) + part(dx, 1, n - 2))]),
            concatenate([part(dx, 1, n - 2), zero]),
        ]
    )
    s1 = _banded(bands, concatenate([reshape(first, (1, *first.shape)), inner], axis=0))
    corner = concatenate([_vector(-h[0], dx), near(dx).zeros(n - 4), _vector(-h[3], dx)])
    s2 = reshape(_banded(bands, corner), (n - 2, *(1,) * (len(y.shape) - 1)))
    last = (final - h[2] * element(s1, 0) - h[1] * element(s1, -1)) / (
        2 * (h[1] + h[2]) + h[2] * element(s2, 0) + h[1] * element(s2, -1)
    )
    s = s1 + last * s2
    return concatenate([s, reshape(last, (1, *last.shape)), part(s, 0, 1)], axis=0)


class PchipInterpolator(CubicHermiteSpline):
    """The piecewise cubic polynomial through given values that rises and falls where they do.

    Args:
        x: points (n,), increasing.
        y: real values, n of them along `axis`.
        axis: the axis of interpolation.
        extrapolate: as in `PPoly`; True by default.

    Returns:
        A `PPoly` with coefficients (4, n - 1, ...). Calling it with query points of any shape returns values
        with that shape in place of `axis`, float64 or complex128; with `nu` derivatives in the points.

    Raises:
        ValueError: incompatible shapes, complex values, or values that are seen to be wrong.

    Derivative:
        In points, values and query points. Where the values make a corner, the slope there stays zero.

    Source:
        Fritsch & Butland (1984), A method for constructing local monotone piecewise cubic interpolants, SIAM
        J. Sci. Comput. 5; Moler (2004), Numerical Computing with MATLAB, 3.6, for the ends.

    Example:
        >>> x, y = np.arange(3.0), np.array([0.0, 1.0, 1.0])
        >>> PchipInterpolator(x, y)(1.5)
        np.float64(1.0)
        >>> fg.grad(lambda v: PchipInterpolator(x, y)(v))(0.5)
        np.float64(1.125)
        >>> fg.grad(lambda y: PchipInterpolator(x, y)(1.5))(y)  # the slope at 1 stays zero
        array([0. , 0.5, 0.5])
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None) -> None:
        x, y, _, wide, axis = _prepared(x, y, axis)
        _real(y, "PchipInterpolator")
        self._set(x, y, _monotone_slopes(y, wide), wide, axis, extrapolate)


def _real(y: Any, name: str) -> None:
    if y.dtype.kind == "c":
        raise ValueError(f"`{name}` only works with real values for `y`; interpolate both parts")


def _monotone_slopes(y: Any, h: Any) -> Any:
    m = diff(y, axis=0) / h
    if y.shape[0] == 2:
        return concatenate([m, m], axis=0)
    m0, m1, h0, h1 = part(m, 0, -1), part(m, 1), part(h, 0, -1), part(h, 1)
    turns = bind("less_equal", bind("sign", m0) * bind("sign", m1), 0.0)
    w1, w2 = 2 * h1 + h0, h1 + 2 * h0
    mean = w1 / bind("where", turns, 1.0, m0) + w2 / bind("where", turns, 1.0, m1)
    inner = bind("where", turns, 0.0, (w1 + w2) / bind("where", turns, 1.0, mean))
    ends = []
    for i, j in ((0, 1), (-1, -2)):
        end = _monotone_end(element(h, i), element(h, j), element(m, i), element(m, j))
        ends.append(reshape(end, (1, *end.shape)))
    return concatenate([ends[0], inner, ends[1]], axis=0)


def _monotone_end(h0: Any, h1: Any, m0: Any, m1: Any) -> Any:
    d = ((2 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    flips = bind("not_equal", bind("sign", d), bind("sign", m0))
    turns = bind("not_equal", bind("sign", m0), bind("sign", m1))
    steep = bind("greater", bind("absolute", d), 3.0 * bind("absolute", m0))
    d = bind("where", bind("logical_and", turns, steep), 3.0 * m0, d)
    return bind("where", flips, 0.0, d)


class Akima1DInterpolator(CubicHermiteSpline):
    """The piecewise cubic polynomial through given values whose slopes are those of near neighbours.

    Args:
        x: points (n,), increasing.
        y: real values, n of them along `axis`.
        axis: the axis of interpolation.
        method: "akima" or "makima".
        extrapolate: as in `PPoly`; False by default.

    Returns:
        A `PPoly` with coefficients (4, n - 1, ...). Calling it with query points of any shape returns values
        with that shape in place of `axis`, float64 or complex128; NaN beyond the ends.

    Raises:
        NotImplementedError: an unknown method.
        ValueError: incompatible shapes, complex values, or values that are seen to be wrong.

    Derivative:
        In points, values and query points. Where the weights of neighbours are zero, that of the mean that
        SciPy takes there.

    Source:
        Akima (1970), A new method of interpolation and smooth curve fitting based on local procedures, J. ACM
        17.

    Example:
        >>> x, y = np.arange(5.0), np.array([0.0, 1.0, 4.0, 9.0, 16.0])
        >>> Akima1DInterpolator(x, y)(2.5)
        np.float64(6.25)
        >>> fg.grad(lambda v: Akima1DInterpolator(x, y)(v))(2.5)
        np.float64(5.0)
    """

    def __init__(
        self, x: Any, y: Any, axis: int = 0, *, method: str = "akima", extrapolate: Any = None
    ) -> None:
        if method not in {"akima", "makima"}:
            raise NotImplementedError(f"`method`={method} is unsupported.")
        x, y, _, wide, axis = _prepared(x, y, axis)
        _real(y, "Akima1DInterpolator")
        slopes = _local_slopes(y, wide, modified=method == "makima")
        self._set(x, y, slopes, wide, axis, False if extrapolate is None else extrapolate)


def _local_slopes(y: Any, h: Any, *, modified: bool) -> Any:
    m = diff(y, axis=0) / h
    if y.shape[0] == 2:
        return concatenate([m, m], axis=0)
    before = [2 * element(m, 0) - element(m, 1)]
    before.insert(0, 2 * before[0] - element(m, 0))
    behind = [2 * element(m, -1) - element(m, -2)]
    behind.append(2 * behind[0] - element(m, -1))
    m = concatenate([stacked(before), m, stacked(behind)], axis=0)
    jumps = bind("absolute", diff(m, axis=0))
    f1, f2 = part(jumps, 2), part(jumps, 0, -2)
    if modified:
        sizes = bind("absolute", part(m, 1) + part(m, 0, -1))
        f1, f2 = f1 + 0.5 * part(sizes, 2), f2 + 0.5 * part(sizes, 0, -2)
    both = f1 + f2
    fixed = stop_gradient(both)
    top = bind("max", fixed, axes=tuple(range(len(fixed.shape))))
    defined = bind("greater", fixed, 1e-9 * top)
    second = part(m, 1, -2)
    mixed = second + f2 / bind("where", defined, both, 1.0) * (part(m, 2, -1) - second)
    return bind("where", defined, mixed, 0.5 * (part(m, 3) + part(m, 0, -3)))
