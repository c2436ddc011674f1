"""Interpolation on rectangular grids of any dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.dispatch import bind
from fgrad.core.placement import near, placed
from fgrad.core.tensor import Tensor, is_tracked
from fgrad.extend.engine import as_value, concrete, convert, on_host, reshape, together
from fgrad.extend.engine import asarray as as_tensor
from fgrad.numpy.indexing import take
from fgrad.numpy.joining import stack as stacked
from fgrad.numpy.permutations import flip
from fgrad.numpy.shapes import broadcast_arrays, moveaxis
from fgrad.scipy.interpolate.piecewise import interval, outside, rises
from fgrad.scipy.interpolate.splines import basis, make_interp_spline
from fgrad.scipy.linalg import arguments
from fgrad.scipy.tensor_product import gathered, weighted

_DEGREES = {"slinear": 1, "cubic": 3, "quintic": 5}
_MISSING = {"pchip", "slinear_legacy", "cubic_legacy", "quintic_legacy"}


class RegularGridInterpolator:
    """Interpolation between values on a rectangular grid.

    Args:
        points: for each of the first axes of `values` its coordinates (n_i,), increasing or decreasing.
        values: real or complex values (n_1, ..., n_d, ...).
        method: "linear", "nearest", "slinear", "cubic" or "quintic" (splines, whose grid is no Tensor that is
            differentiated, mapped or traced).
        bounds_error: whether query points that are seen to be beyond the grid are an error; where nobody can
            look, inside vmap and jit, NaN is what they get.
        fill_value: the value beyond the grid without `bounds_error`; None: what the method gives there.
        solver: not supported: the systems of splines are solved directly.
        solver_args: likewise.

    Returns:
        An object that is called: points (..., d), or a tuple of d arrays that broadcast, give values (...)
        and the further axes of `values`, of their dtype; integers and "linear" give double precision.

    Raises:
        ValueError: incompatible shapes, an unknown method, a grid that is seen not to be sorted.
        NotImplementedError: the methods "pchip" and "..._legacy".

    Derivative:
        In values and query points, and in the grid where the method is "linear". At a point of the grid that
        of the right side, at the last one of the left; that of "nearest" in query points is zero. A
        derivative in the grid of splines is a `TypeError`.

    Differences from SciPy:
        The methods "pchip" and "..._legacy" and solvers are not supported.

    Example:
        >>> grid = (np.array([0.0, 1.0]), np.array([0.0, 2.0]))
        >>> f = RegularGridInterpolator(grid, np.array([[0.0, 1.0], [2.0, 5.0]]))
        >>> f([0.5, 1.0])
        array([2.])
        >>> fg.grad(lambda x: f(x)[0])(np.array([0.5, 1.0]))
        array([3., 1.])
    """

    method: str
    bounds_error: bool
    fill_value: Any
    grid: tuple[Any, ...]
    values: Any

    def __init__(
        self,
        points: Any,
        values: Any,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: Any = np.nan,
        *,
        solver: Any = None,
        solver_args: Any = None,
    ) -> None:
        _check_method(method)
        if solver is not None or solver_args:
            raise ValueError("RegularGridInterpolator: no solver is taken; systems are solved directly")
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        values, *grid = together(values, *points)
        values = values if values.dtype.kind in "fc" else convert(values, np.dtype(float))
        grid = [p if p.dtype.kind == "f" else convert(p, np.dtype(float)) for p in grid]
        if len(grid) > len(values.shape):
            raise ValueError(
                f"There are {len(grid)} point arrays, but values has {len(values.shape)} dimensions"
            )
        for i, p in enumerate(grid):
            if len(p.shape) != 1:
                raise ValueError(f"The points in dimension {i} must be 1-dimensional")
            if values.shape[i] != p.shape[0]:
                raise ValueError(
                    f"There are {p.shape[0]} points and {values.shape[i]} values in dimension {i}"
                )
            if arguments.is_visible(p):
                steps = arguments.plain(p)
                if rises(steps[::-1]) and steps.size > 1:
                    grid[i], values = flip(p), flip(values, i)
                elif not rises(steps):
                    raise ValueError(f"The points in dimension {i} must be strictly ascending or descending")
        fill = values if fill_value is None else as_value(fill_value)
        if not np.can_cast(fill.dtype, values.dtype, casting="same_kind"):
            raise ValueError("fill_value must be either 'None' or of a type compatible with values")
        self.grid, self.values = tuple(grid), values
        self._coefficients: dict[str, Any] = {}
        if method in _DEGREES:
            self._splines(method)

    def __call__(self, xi: Any, method: str | None = None, *, nu: Any = None) -> Any:
        """Return values at query points.

        Args:
            xi: points (..., d), or d arrays of coordinates that broadcast.
            method: that of the interpolator by default.
            nu: for splines: the order of the derivative along each axis; None: values.
        """
        method = self.method if method is None else method
        _check_method(method)
        if nu is not None and method not in _DEGREES:
            raise ValueError(
                f"Can only compute derivatives for methods {set(_DEGREES)}, got method = {method!r}."
            )
        x = self._query(xi)
        rank = len(self.grid)
        count = x.size // rank
        columns = [reshape(bind("slice", x, index=(..., k)), (count,)) for k in range(rank)]
        beyond: Any = False
        for k, (c, g) in enumerate(zip(columns, self.grid, strict=True)):
            out = outside(c, bind("slice", g, index=(0,)), bind("slice", g, index=(-1,)))
            if self.bounds_error and arguments.is_visible(out):
                value = arguments.plain(out)
                if value.any() or np.isnan(arguments.plain(c)).any():
                    raise ValueError(f"One of the requested xi is out of bounds in dimension {k}")
            beyond = bind("logical_or", beyond, out)
        y = self._between(columns, method, nu)
        ones = (count, *(1,) * (len(y.shape) - 1))
        if self.bounds_error:
            y = bind("where", reshape(beyond, ones), np.nan, y)
        elif self.fill_value is not None:
            y = bind("where", reshape(beyond, ones), self.fill_value, y)
        lost: Any = False
        for c in columns:
            lost = bind("logical_or", lost, bind("isnan", c))
        y = bind("where", reshape(lost, ones), np.nan, y)
        return reshape(y, (*x.shape[:-1], *self.values.shape[rank:]))

    def _query(self, xi: Any) -> Any:
        rank = len(self.grid)
        if isinstance(xi, tuple):
            each = together(self.values, *xi)[1:]
            if any(isinstance(x, Tensor) for x in each):
                each = [as_tensor(x) for x in each]
            x = stacked(broadcast_arrays(*each), axis=-1)
        else:
            x = together(self.values, xi)[1]
            if len(x.shape) == 1:
                rows = x.size // rank if x.size % rank == 0 else 1
                x = reshape(x, (rows, x.size // rows))
            elif not x.shape:
                x = reshape(x, (1, 1))
        if x.shape[-1] != rank:
            raise ValueError(
                f"The requested sample points xi have dimension {x.shape[-1]} but this "
                f"RegularGridInterpolator has dimension {rank}"
            )
        return x if x.dtype.kind == "f" else convert(x, np.dtype(float))

    def _between(self, columns: list[Any], method: str, nu: Any) -> Any:
        if method in _DEGREES:
            return self._by_splines(columns, method, nu)
        places, weights = [], []
        for c, g in zip(columns, self.grid, strict=True):
            n = g.shape[0]
            at = interval(g, c, 0, max(0, n - 2))
            if n == 1:
                places.append(reshape(at, (1, at.shape[0])))
                weights.append(reshape(c * 0.0 + 1.0, (1, at.shape[0])))
                continue
            low, high = take(g, at, axis=0), take(g, at + 1, axis=0)
            t = (c - low) / (high - low)
            if method == "nearest":
                at = at + convert(bind("greater", t, 0.5), np.dtype(np.intp))
                places.append(reshape(at, (1, at.shape[0])))
                weights.append(near(at).ones((1, at.shape[0])))
            else:
                places.append(stacked([at, at + 1]))
                weights.append(stacked([1 - t, t]))
        values = self.values
        if method == "linear":  # SciPy computes its weights in double, whatever the grid is
            values = convert(values, np.result_type(values.dtype, np.float64))
        return weighted(gathered(values, places), weights)

    def _splines(self, method: str) -> tuple[list[Any], Any]:
        """Return the knots along each axis, and the coefficients of the tensor product."""
        if method not in self._coefficients:
            k, c, knots = _DEGREES[method], self.values, []
            for i, g in enumerate(self.grid):
                if g.shape[0] <= k:
                    raise ValueError(
                        f"There are {g.shape[0]} points in dimension {i}, but method {method} requires at "
                        f"least {k + 1} points per dimension."
                    )
                if isinstance(g, Tensor) and is_tracked(g):
                    raise TypeError(
                        f"RegularGridInterpolator: method {method!r} has no derivative in the grid; use "
                        "'linear', or make the grid constant: points.detach()"
                    )
                spline = make_interp_spline(on_host(concrete(g, "the grid of a spline")), c, k, axis=i)
                knots.append(spline.t)
                c = moveaxis(spline.c, 0, i)
            self._coefficients[method] = (knots, c)
        found: tuple[list[Any], Any] = self._coefficients[method]
        return found

    def _by_splines(self, columns: list[Any], method: str, nu: Any) -> Any:
        k = _DEGREES[method]
        knots, c = self._splines(method)
        orders = [0] * len(columns) if nu is None else [int(v) for v in nu]
        if len(orders) != len(columns) or min(orders) < 0:
            raise ValueError(f"nu must be {len(columns)} orders of derivatives, none negative")
        places, weights = [], []
        for x, t, order in zip(columns, knots, orders, strict=True):
            at = interval(t, x, k, t.size - k - 2)
            places.append(reshape(at - k, (1, at.shape[0])) + placed(at, np.arange(k + 1)[:, None]))
            weights.append(stacked(basis(t, k, x, at, order)))
        return weighted(gathered(c, places), weights)


def _check_method(method: str) -> None:
    if method in _MISSING:
        raise NotImplementedError(
            f"RegularGridInterpolator of Tensors: method {method!r} is not supported; use 'linear', "
            "'nearest', 'slinear', 'cubic' or 'quintic', or PchipInterpolator along one axis"
        )
    if method not in {"linear", "nearest", *_DEGREES}:
        raise ValueError(f"Method '{method}' is not defined")


def interpn(
    points: Any,
    values: Any,
    xi: Any,
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: Any = np.nan,
) -> Any:
    """Return values at query points of a rectangular grid.

    Args:
        points: for each of the first axes of `values` its coordinates (n_i,), increasing or decreasing.
        values: real or complex values (n_1, ..., n_d, ...).
        xi: points (..., d), or d arrays of coordinates that broadcast.
        method: as in `RegularGridInterpolator`.
        bounds_error: likewise.
        fill_value: likewise.

    Returns:
        Array (...) with the further axes of `values`, floats or complex numbers.

    Raises:
        NotImplementedError: the methods "pchip" and "..._legacy".
        ValueError: incompatible shapes, an unknown method, a grid that is seen not to be sorted, points that
            are seen to be beyond it.

    Derivative:
        That of `RegularGridInterpolator`.

    Differences from SciPy:
        The method "splinef2d" is not supported.

    Example:
        >>> interpn([[0.0, 1.0, 3.0]], [0.0, 2.0, 3.0], [0.5])
        array([1.])
        >>> fg.grad(lambda v: interpn([[0.0, 1.0, 3.0]], v, [0.5])[0])(np.array([0.0, 2.0, 3.0]))
        array([0.5, 0.5, 0. ])
    """
    return RegularGridInterpolator(points, values, method, bounds_error, fill_value)(xi)
