"""Piecewise polynomials, differentiable in points, coefficients and breakpoints."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.core.dispatch import bind
from fgrad.core.placement import placed
from fgrad.extend.engine import as_value, convert, reshape, together
from fgrad.numpy.cumulative import diff
from fgrad.numpy.indexing import stop_gradient, take
from fgrad.numpy.joining import concatenate
from fgrad.numpy.shapes import transpose
from fgrad.scipy.linalg import arguments

# ---- places


def doubles(x: Any) -> Any:
    """Return an array or Tensor in double precision, real or complex."""
    x = as_value(x)
    return convert(x, np.dtype(complex if x.dtype.kind == "c" else float))


def finite(x: Any, name: str) -> None:
    """Refuse values that are seen not to be finite."""
    if arguments.is_visible(x) and not np.isfinite(arguments.plain(x)).all():
        raise ValueError(f"`{name}` must contain only finite values.")


def interval(breaks: Any, x: Any, first: int, last: int) -> Any:
    """Return which interval from `first` to `last` each of `x` lies in, or is nearest to."""
    found = bind("search", stop_gradient(breaks), stop_gradient(x), side="right") - 1
    return bind("minimum", bind("maximum", found, first), last)


def outside(x: Any, low: Any, high: Any) -> Any:
    """Return where points are beyond an interval."""
    return bind("logical_or", bind("less", x, low), bind("greater", x, high))


def element(x: Any, i: int) -> Any:
    """Return one element of the first axis."""
    return bind("slice", x, index=(i,))


def part(x: Any, start: int | None, stop: int | None = None) -> Any:
    """Return some elements of the first axis."""
    return bind("slice", x, index=(slice(start, stop),))


def along(y: Any, x_rank: int, axis: int) -> Any:
    """Return values of shape (points, rest) with the points in the axis of interpolation."""
    if axis == 0:
        return y
    n = len(y.shape)
    order = (*range(x_rank, x_rank + axis), *range(x_rank), *range(x_rank + axis, n))
    return transpose(y, order)


class PPoly:
    """Piecewise polynomials: sum_m c[m, i] (x - x[i])^(k - m) between the breakpoints x[i] and x[i + 1].

    Args:
        c: coefficients (k + 1, n, ...), the highest power first.
        x: breakpoints (n + 1,), increasing.
        extrapolate: whether the first and last polynomial go on; "periodic"; False: NaN beyond the ends. True
            by default.
        axis: the axis of interpolation of results.

    Returns:
        An object that is called. Calling it with query points of any shape returns values with that shape in
        place of `axis`, float64 or complex128; with `nu` derivatives in the points. `derivative` and
        `antiderivative` return others, `integrate` a number or array.

    Raises:
        TypeError: complex query points.
        ValueError: incompatible shapes, or breakpoints that are seen not to increase.

    Derivative:
        Of values, in points, coefficients and breakpoints; at a breakpoint that of the right side, at the
        last one of the left.

    Differences from SciPy:
        Breakpoints have to increase.

    Example:
        >>> f = PPoly([[1.0, 2.0], [0.0, 1.0]], [0.0, 1.0, 2.0])
        >>> f([0.5, 1.5]), f.integrate(0, 2)
        (array([0.5, 2. ]), np.float64(2.5))
        >>> fg.grad(f)(1.0)  # of the right side
        np.float64(2.0)
        >>> fg.grad(lambda c: PPoly(c, [0.0, 1.0])(0.5))(np.ones((2, 1)))
        array([[0.5],
               [1. ]])
    """

    c: Any
    x: Any
    axis: int

    def __init__(self, c: Any, x: Any, extrapolate: Any = None, axis: int = 0) -> None:
        self.c, self.x = map(doubles, together(c, x))
        self.extrapolate = True if extrapolate is None else extrapolate
        if self.extrapolate != "periodic":
            self.extrapolate = bool(self.extrapolate)
        if len(self.c.shape) < 2 or len(self.x.shape) != 1 or self.x.shape[0] < 2:
            raise ValueError("c must have at least 2 axes, and x be a vector of at least 2 breakpoints")
        if self.c.shape[1] != self.x.shape[0] - 1:
            raise ValueError("number of coefficients != len(x)-1")
        self.axis = axis % max(1, len(self.c.shape) - 1)
        increasing(self.x)

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        """Return values, or derivatives of order `nu`, at points of any shape."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        x = doubles(together(self.x, x)[1])
        if x.dtype.kind == "c":
            raise TypeError("places must be real")
        first, last = element(self.x, 0), element(self.x, -1)
        if extrapolate == "periodic":
            x = first + bind("remainder", x - first, last - first)
        i = interval(self.x, x, 0, self.x.shape[0] - 2)
        t = x - take(self.x, i, axis=0)
        rest = len(self.c.shape) - 2
        t = reshape(t, (*t.shape, *(1,) * rest))
        degree = self.c.shape[0] - 1
        total: Any = None
        for m in range(degree - nu + 1):  # Horner's scheme
            power = degree - m
            term = take(element(self.c, m), i, axis=0) * float(math.perm(power, nu))
            total = term if total is None else total * t + term
        if total is None:
            total = take(element(self.c, 0), i, axis=0) * 0.0
        if extrapolate is False:
            beyond = outside(x, first, last)
            total = bind("where", reshape(beyond, (*beyond.shape, *(1,) * rest)), np.nan, total)
        # NaN at a place is NaN in the value, also where the polynomial is constant
        return along(total + t * 0.0, len(x.shape), self.axis)

    def _like(self, c: Any, extrapolate: Any) -> PPoly:
        made = PPoly.__new__(PPoly)
        made.c, made.x, made.extrapolate, made.axis = c, self.x, extrapolate, self.axis
        return made

    def derivative(self, nu: int = 1) -> PPoly:
        """Return the piecewise polynomial that is the derivative of order `nu`."""
        if nu < 0:
            return self.antiderivative(-nu)
        degree = self.c.shape[0] - 1
        if nu > degree:
            return self._like(part(self.c, 0, 1) * 0.0, self.extrapolate)
        factors = np.array([math.perm(degree - m, nu) for m in range(degree - nu + 1)], float)
        factors = placed(self.c, factors.reshape((-1, *(1,) * (len(self.c.shape) - 1))))
        return self._like(part(self.c, 0, degree - nu + 1) * factors, self.extrapolate)

    def antiderivative(self, nu: int = 1) -> PPoly:
        """Return the piecewise polynomial whose derivative of order `nu` this one is; zero at the start."""
        if nu <= 0:
            return self.derivative(-nu)
        k = self.c.shape[0]
        ones = (1,) * (len(self.c.shape) - 1)
        c = self.c / placed(self.c, np.arange(k, 0, -1.0).reshape((-1, *ones)))
        steps = reshape(diff(self.x), (self.x.shape[0] - 1, *ones[1:]))
        gain: Any = 0.0
        for m in range(k):
            gain = (gain + element(c, m)) * steps
        start = bind("cumsum", gain, axis=0) - gain
        extrapolate = False if self.extrapolate == "periodic" else self.extrapolate
        made = self._like(concatenate([c, reshape(start, (1, *start.shape))], axis=0), extrapolate)
        return made.antiderivative(nu - 1) if nu > 1 else made

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """Return the integral from `a` to `b`, two numbers."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        whole = self.antiderivative()
        whole.axis = 0
        if extrapolate != "periodic":
            return whole(b, extrapolate=extrapolate) - whole(a, extrapolate=extrapolate)
        first, last = element(self.x, 0), element(self.x, -1)
        total, period = whole(last), last - first
        ends = []
        for x in map(doubles, (a, b)):
            turns = bind("floor", (x - first) / period)
            ends.append(whole(x - turns * period, extrapolate=True) + turns * total)
        return ends[1] - ends[0]


def increasing(x: Any) -> None:
    """Refuse points that are seen not to increase."""
    if arguments.is_visible(x) and not rises(arguments.plain(x)):
        raise ValueError("`x` must be strictly increasing sequence.")


def rises(x: Any) -> bool:
    """Return whether each element of a vector is larger than the one before."""
    return bool((x[1:] > x[:-1]).all())
