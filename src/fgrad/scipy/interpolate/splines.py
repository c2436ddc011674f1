"""B-splines: their values at places, and those that interpolate."""

from __future__ import annotations

import operator
from copy import copy
from typing import Any

import numpy as np
from scipy import interpolate as reference

from fgrad.core.dispatch import bind
from fgrad.core.placement import placed
from fgrad.core.tensor import Tensor
from fgrad.extend.engine import as_tensor, reshape, together
from fgrad.numpy.indexing import take
from fgrad.numpy.joining import concatenate
from fgrad.numpy.shapes import moveaxis
from fgrad.scipy.interpolate.piecewise import (
    along,
    doubles,
    element,
    finite,
    interval,
    outside,
    part,
)
from fgrad.scipy.linalg import arguments


def basis(t: Any, k: int, x: Any, at: Any, nu: int = 0) -> list[Any]:
    """Return the derivatives of order `nu` of the k + 1 B-splines of knots `t` that are not zero at `x`.

    b_j of degree d, on knots from t_i with i = at - d + j, is
    (x - t_i) / (t_(i+d) - t_i) b_(j-1) + (t_(i+d+1) - x) / (t_(i+d+1) - t_(i+1)) b_j of degree d - 1, and its
    derivative d b_(j-1) / (t_(i+d) - t_i) - d b_j / (t_(i+d+1) - t_(i+1)).

    Args:
        t: knots.
        k: degree.
        x: points.
        at: the number of the interval of each: t[at] <= x < t[at + 1].
        nu: order of the derivative.

    Source:
        de Boor (1978), A Practical Guide to Splines, chapter X.
    """
    if nu > k:
        return [x * 0.0] * (k + 1)
    knots = {o: take(t, at + o, axis=0) for o in range(1 - k, k + 1)} if k else {}
    b = [x * 0.0 + 1.0]
    for d in range(1, k + 1):
        found = []
        for j in range(d + 1):
            low, high = j - d, j + 1  # from knot t_(at + low) to t_(at + high)
            parts = []
            if j > 0:
                wide = knots[low + d] - knots[low]
                parts.append((float(d) if d > k - nu else x - knots[low]) / wide * b[j - 1])
            if j < d:
                wide = knots[high] - knots[low + 1]
                parts.append((-float(d) if d > k - nu else knots[high] - x) / wide * b[j])
            found.append(parts[0] if len(parts) == 1 else parts[0] + parts[1])
        b = found
    return b


class BSpline:
    """A spline: the sum of B-splines of degree k on knots t, times coefficients c.

    Args:
        t: knots (n + k + 1,), not decreasing.
        c: at least n coefficients along `axis`.
        k: degree.
        extrapolate: whether the first and last polynomial go on; "periodic"; False: NaN beyond t[k] and t[n].
        axis: the axis of interpolation.

    Returns:
        An object that is called. Calling it with query points of any shape returns values with that shape in
        place of `axis`, float64 or complex128; with `nu` derivatives in the points. `derivative` and
        `antiderivative` return others, `integrate` a number or array.

    Raises:
        ValueError: incompatible shapes, or knots that are seen to be wrong.

    Derivative:
        Of values, in places, coefficients and knots; at a knot that of the right side, at the last one of the
        left.

    Source:
        de Boor (1978), A Practical Guide to Splines, chapters IX and X.

    Differences from SciPy:
        Antiderivatives of steps (k = 0), and integrals with extrapolate="periodic", are a
        NotImplementedError.

    Example:
        >>> f = BSpline([0.0, 0.0, 1.0, 2.0, 2.0], [0.0, 1.0, 0.0], 1)
        >>> f([0.5, 1.5]), f.integrate(0, 2)
        (array([0.5, 0.5]), np.float64(1.0))
        >>> fg.grad(f)(1.0)  # of the right side
        np.float64(-1.0)
        >>> fg.grad(lambda c: BSpline([0.0, 0.0, 1.0, 2.0, 2.0], c, 1)(0.25))(np.ones(3))
        array([0.75, 0.25, 0.  ])
    """

    k: int
    t: Any
    axis: int
    c: Any

    def __init__(self, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0) -> None:
        self.k = operator.index(k)
        self.t, c = map(doubles, together(t, c))
        self.extrapolate = extrapolate if extrapolate == "periodic" else bool(extrapolate)
        if self.k < 0:
            raise ValueError("Spline order cannot be negative.")
        if len(self.t.shape) != 1:
            raise ValueError("Knot vector must be one-dimensional.")
        n = self._count
        if n < self.k + 1:
            raise ValueError(f"Need at least {2 * self.k + 2} knots for degree {self.k}")
        if len(c.shape) < 1:
            raise ValueError("Coefficients must be at least 1-dimensional.")
        if arguments.is_visible(self.t):
            knots = arguments.plain(self.t)
            if (knots[1:] < knots[:-1]).any():
                raise ValueError("Knots must be in a non-decreasing order.")
            if knots[self.k] == knots[n]:
                raise ValueError("Need at least two internal knots.")
        finite(self.t, "t")
        self.axis = axis % len(c.shape)
        self.c = moveaxis(c, self.axis, 0)
        if self.c.shape[0] < n:
            raise ValueError("Knots, coefficients and degree are inconsistent.")

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        """Return values, or derivatives of order `nu`, at places of any shape."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        x, k = doubles(together(self.t, x)[1]), self.k
        if x.dtype.kind == "c":
            raise TypeError("places must be real")
        first, last = element(self.t, k), element(self.t, self._count)
        if extrapolate == "periodic":
            x = first + bind("remainder", x - first, last - first)
        at = interval(self.t, x, k, self._last())
        rest = (1,) * (len(self.c.shape) - 1)
        total: Any = None
        for j, b in enumerate(basis(self.t, k, x, at, nu)):
            term = take(self.c, at - k + j, axis=0) * reshape(b, (*x.shape, *rest))
            total = term if total is None else total + term
        if extrapolate is False:
            beyond = outside(x, first, last)
            total = bind("where", reshape(beyond, (*beyond.shape, *rest)), np.nan, total)
        return along(total, len(x.shape), self.axis)

    @property
    def _count(self) -> int:
        """How many B-splines there are."""
        return int(self.t.shape[0]) - self.k - 1

    def _last(self) -> int:
        """Return the number of the last interval that is seen not to be empty."""
        n = self._count
        if not self.k or not arguments.is_visible(self.t):
            return n - 1
        knots = arguments.plain(self.t)
        return max(self.k, int(np.count_nonzero(knots[:n] < knots[n])) - 1)

    def _like(self, t: Any, c: Any, k: int) -> BSpline:
        made = copy(self)
        made.t, made.c, made.k = t, c, k
        return made

    def _widths(self, c: Any, k: int) -> Any:
        """Return the length of the knots of each B-spline of degree k, beside coefficients."""
        n = self.t.shape[0] - k - 1
        wide = part(self.t, k + 1) - part(self.t, 0, n)
        return reshape(wide, (n, *(1,) * (len(c.shape) - 1)))

    def derivative(self, nu: int = 1) -> BSpline:
        """Return the spline that is the derivative of order `nu`, at most the degree."""
        if nu < 0:
            return self.antiderivative(-nu)
        if nu > self.k:
            raise ValueError(f"Order of derivative (n = {nu}) must be <= order of spline (k = {self.k})")
        if nu == 0:
            return self
        k, n = self.k, self._count
        inner = part(self.t, 1, -1)
        low = self._like(inner, self.c, k - 1)
        c = part(self.c, 0, n)
        wide = low._widths(c, k - 1)
        step = part(c, 1) - part(c, 0, -1)
        empty = bind("equal", wide, 0.0)  # B-splines on no interval count for nothing
        low.c = bind("where", empty, 0.0, k * step / bind("where", empty, 1.0, wide))
        return low.derivative(nu - 1)

    def antiderivative(self, nu: int = 1) -> BSpline:
        """Return the spline of which this one is the derivative of order `nu`; zero at the start."""
        if nu < 0:
            return self.derivative(-nu)
        if nu == 0:
            return self
        if self.k == 0:
            raise NotImplementedError("BSpline.antiderivative: steps (k = 0) are not supported; use PPoly")
        k, n = self.k, self._count
        c = part(self.c, 0, n)
        gains = bind("cumsum", c * self._widths(c, k) / (k + 1), axis=0)
        t = concatenate([part(self.t, 0, 1), self.t, part(self.t, -1)])
        made = self._like(t, concatenate([part(gains, 0, 1) * 0.0, gains], axis=0), k + 1)
        made.extrapolate = False if self.extrapolate == "periodic" else self.extrapolate
        return made.antiderivative(nu - 1)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """Return the integral from `a` to `b`, two numbers; beyond the ends as `extrapolate` says."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if extrapolate == "periodic":
            raise NotImplementedError("BSpline.integrate: extrapolate='periodic' is not supported")
        n = self._count
        whole = self.antiderivative()
        whole.axis = 0
        ends = [doubles(v) for v in (a, b)]
        if not extrapolate:  # nothing lies beyond
            low, high = element(self.t, self.k), element(self.t, n)
            ends = [bind("minimum", bind("maximum", v, low), high) for v in ends]
        return whole(ends[1], extrapolate=True) - whole(ends[0], extrapolate=True)


# ---- interpolation


def make_interp_spline(
    x: Any,
    y: Any,
    k: int = 3,
    t: Any = None,
    bc_type: Any = None,
    axis: int = 0,
    check_finite: bool = True,
) -> BSpline:
    """Return the spline of degree k through given values.

    Args:
        x: points (n,), increasing; no Tensor that is differentiated.
        y: values, n of them along `axis`.
        k: degree.
        t: knots; None: chosen from `x` and `bc_type`, as SciPy does.
        bc_type: None or "not-a-knot", "clamped", "natural", or for each end one of these or a list of pairs
            (order, value). "periodic" is not supported: `CubicSpline` has it.
        axis: the axis of interpolation.
        check_finite: whether infinities and NaNs that can be seen are an error.

    Returns:
        A `BSpline`, whose coefficients have the shape of `y`, but for one more along `axis` for each
        condition at an end; float64 or complex128.

    Raises:
        NotImplementedError: "periodic" ends.
        ValueError: incompatible shapes or ends.

    Derivative:
        In the values (not those of ends), through a banded system; that of the spline in query points. None
        in `x`.

    Source:
        de Boor (1978), A Practical Guide to Splines, chapter XIII.

    Example:
        >>> x, y = np.arange(4.0), np.array([0.0, 1.0, 4.0, 9.0])
        >>> make_interp_spline(x, y)(2.5).round(6)
        np.float64(6.25)
        >>> fg.grad(lambda y: make_interp_spline(x, y, k=1)(2.5))(y)
        array([0. , 0. , 0.5, 0.5])
    """
    if isinstance(bc_type, str) and bc_type == "periodic":
        raise NotImplementedError(
            "make_interp_spline of Tensors: 'periodic' is not supported; use CubicSpline"
        )
    x = np.asarray(x.to("cpu") if isinstance(x, Tensor) else x, float)  # SciPy chooses the knots
    y = doubles(y)
    if check_finite:
        finite(x, "x")
        finite(y, "y")
    axis = axis % len(y.shape)
    y = moveaxis(y, axis, 0)
    if x.size != y.shape[0]:
        raise ValueError(f"Shapes of x {x.shape} and y {tuple(y.shape)} are incompatible")
    # SciPy's own spline of zeros checks everything else, and has the knots
    like = np.broadcast_to(np.zeros((), y.dtype), y.shape)
    knots = reference.make_interp_spline(x, like, k, t, bc_type).t
    if k <= 1 and t is None:
        return BSpline(_beside(y, knots), moveaxis(y, 0, axis), k, axis=axis)
    ends = (None, None) if bc_type in (None, "not-a-knot") else (bc_type, bc_type)
    ends = ends if bc_type is None or isinstance(bc_type, str) else tuple(bc_type)
    left, right = (_conditions(end, tuple(y.shape[1:])) for end in ends)
    n = knots.size - k - 1
    bands = np.zeros((2 * k + 1, n))
    inner = reference.BSpline.design_matrix(x, knots, k).tocoo()
    _put(bands, k, inner.row + len(left), inner.col, inner.data)
    for row, (order, _) in enumerate(left):
        _put(bands, k, row, np.arange(k + 1), _at_end(knots, k, x[0], k, order))
    for row, (order, _) in enumerate(right):
        _put(bands, k, n - len(right) + row, np.arange(n - k - 1, n), _at_end(knots, k, x[-1], n - 1, order))
    before, behind = ([_row(v, y) for _, v in end] for end in (left, right))
    rows = [*before, y, *behind]
    b = concatenate(rows, axis=0) if len(rows) > 1 else y
    flat = reshape(b, (n, b.size // n))
    c = reshape(bind("solve_banded", placed(y, bands), flat, below=k, above=k), b.shape)
    return BSpline(_beside(y, knots), moveaxis(c, 0, axis), k, axis=axis)


def _beside(y: Any, knots: Any) -> Any:
    return knots if (there := placed(y, knots)) is knots else as_tensor(there)


def _row(value: Any, y: Any) -> Any:
    v = np.asarray(value)
    return placed(y, v.astype(np.result_type(v.dtype, y.dtype))[None])


def _at_end(knots: Any, k: int, x: Any, at: int, nu: int) -> Any:
    return np.stack(basis(knots, k, np.asarray(x), np.asarray(at), nu))


def _conditions(end: Any, shape: tuple[int, ...]) -> list[tuple[int, Any]]:
    """Return pairs (order, value) of derivatives at an end."""
    if end is None or end == "not-a-knot":
        return []
    if isinstance(end, str):
        return [(1 if end == "clamped" else 2, np.zeros(shape))]
    return [(order, value) for order, value in end]


def _put(bands: Any, k: int, i: Any, j: Any, values: Any) -> None:
    """Write elements of a banded matrix where `solve_banded` reads them."""
    kept = np.abs(i - j) <= k
    i, j = np.broadcast_arrays(i, j)
    bands[(k + i - j)[kept], j[kept]] = np.asarray(values)[kept]
