"""Differences, sums and phases along the axes of sampled functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from fgrad.core.dispatch import bind
from fgrad.core.views import unordered
from fgrad.numpy.arrays import alike, as_value, operands, promoted
from fgrad.numpy.cumulative import cumsum, diff
from fgrad.numpy.joining import concatenate
from fgrad.numpy.reductions import sum as _sum
from fgrad.numpy.registry import extends
from fgrad.numpy.selection import where
from fgrad.ops import linear


@extends(np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Return the integral of samples `y` along an axis by the trapezoidal rule.

    Args:
        y: samples.
        x: their coordinates, a vector or an array that broadcasts with `y`; None: `dx` apart.
        dx: the distance of samples.
        axis: the axis to integrate along.

    Returns:
        Array of the shape of `y` without the axis; of floats, integers give float64.

    Derivative:
        That of the sum, in the samples, their coordinates and their distance.

    Example:
        >>> fnp.trapezoid([0.0, 1.0, 4.0])
        np.float64(3.0)
        >>> fg.grad(fnp.trapezoid)(np.array([0.0, 1.0, 4.0]))
        array([0.5, 1. , 0.5])
    """
    y, x, dx = operands(y, x, dx)
    y = as_value(y)
    place = normalize_axis_index(axis, len(y.shape))
    if x is None:
        step = dx
    else:
        x = as_value(x)
        step = diff(x, axis=-1 if len(x.shape) == 1 else axis)
        if len(x.shape) == 1:
            n = step.shape[0]
            step = linear.reshape(step, tuple(n if i == place else 1 for i in range(len(y.shape))))
    lead = (slice(None),) * place
    after, before = (bind("slice", y, index=(*lead, s)) for s in (slice(1, None), slice(None, -1)))
    return _sum(step * (after + before) / 2.0, axis)


@extends(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: Any = 1) -> Any:
    """Return the slopes of samples along axes: second-order central differences, one-sided at the ends.

    Args:
        f: samples.
        varargs: the distances of samples: one number for all axes, or for each axis a number or the
            coordinates; none: 1.
        axis: axis or axes; None: all.
        edge_order: 1 or 2, the order of the differences at the ends.

    Returns:
        An array of the shape of `f`, for several axes a tuple of them.

    Raises:
        ValueError: coordinates of another length, too few samples, another order.
        TypeError: a wrong number of distances.

    Derivative:
        That of the differences, in the samples, the distances and the coordinates.

    Example:
        >>> fnp.gradient(np.array([0.0, 1.0, 4.0, 9.0]))
        array([1., 2., 4., 5.])
    """
    f, *spaces = operands(f, *varargs)
    f = as_value(f)
    axes = tuple(range(len(f.shape))) if axis is None else normalize_axis_tuple(axis, len(f.shape))
    spaces = spaces or [1.0]
    if len(spaces) == 1 and np.ndim(spaces[0]) == 0:
        spaces *= len(axes)
    if len(spaces) != len(axes):
        raise TypeError("invalid number of arguments")
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    if f.dtype.kind in "iu":
        f = linear.convert(f, np.dtype(float))
    slopes = [
        unordered(_slopes(f, i, _gaps(s, f.shape[i]), edge_order), f)
        for i, s in zip(axes, spaces, strict=True)
    ]
    return slopes[0] if len(axes) == 1 else tuple(alike(slopes))


def _gaps(space: Any, n: int) -> Any:
    """Return the distances of neighbours: a number, or a vector where coordinates are given."""
    if np.ndim(space) == 0:
        return space
    if np.ndim(space) != 1:
        raise ValueError("distances must be either scalars or 1d")
    if space.shape[0] != n:
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    return diff(linear.convert(space, np.dtype(float)) if space.dtype.kind in "iu" else space)


def _slopes(f: Any, axis: int, gaps: Any, edge_order: int) -> Any:
    """Return the slopes along an axis, by the interpolating parabolas of three neighbours."""
    # Fornberg (1988), Math. Comp. 51: weights of differences on arbitrarily spaced grids
    n, lead = f.shape[axis], (slice(None),) * axis
    if n < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, "
            "at least (edge_order + 1) elements are required."
        )

    def part(start: int | None, stop: int | None) -> Any:
        return bind("slice", f, index=(*lead, slice(start, stop)))

    def gap(start: int | None, stop: int | None) -> Any:
        if np.ndim(gaps) == 0:
            return gaps
        h = bind("slice", gaps, index=(slice(start, stop),))
        return linear.reshape(h, tuple(h.shape[0] if i == axis else 1 for i in range(len(f.shape))))

    if edge_order == 1:
        first = (part(1, 2) - part(0, 1)) / gap(0, 1)
        last = (part(-1, None) - part(-2, -1)) / gap(-1, None)
    else:
        g, h = gap(0, 1), gap(1, 2)
        first = _parabola(g, h, (-(2.0 * g + h), g + h, -g), (part(0, 1), part(1, 2), part(2, 3)))
        g, h = gap(-2, -1), gap(-1, None)
        last = _parabola(g, h, (h, -(g + h), 2.0 * h + g), (part(-3, -2), part(-2, -1), part(-1, None)))
    if np.ndim(gaps) == 0:
        inner = (part(2, None) - part(None, -2)) / (2.0 * gaps)
    else:
        g, h = gap(None, -1), gap(1, None)
        inner = _parabola(g, h, (-h, h - g, g), (part(None, -2), part(1, -1), part(2, None)))
    slopes = concatenate([first, inner, last], axis)
    return linear.convert(slopes, f.dtype if f.dtype.kind in "fc" else np.dtype(float))


def _parabola(g: Any, h: Any, factors: Any, values: Any) -> Any:
    """Return the slope, at one of three points at distances g and h, of the parabola through their values."""
    scales = g * (g + h), g * h, h * (g + h)
    first, second, third = (w / s * v for w, s, v in zip(factors, scales, values, strict=True))
    return first + second + third


@extends(np.unwrap)
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi) -> Any:
    """Return phases without jumps: whole periods are added where neighbours differ by more than half of one.

    Args:
        p: phases.
        discont: the least jump that is removed, of no effect below half a period.
        axis: the axis along which neighbours lie.
        period: what a phase may be off by.

    Returns:
        Array of the shape and dtype of `p`; integers give float64 unless `period` is an integer too.

    Derivative:
        One in the phases; of `period`, how many periods were added.

    Example:
        >>> fnp.unwrap(np.array([0.0, 3.0, 6.5, 0.5]))
        array([0.        , 3.        , 0.21681469, 0.5       ])
    """
    p, discont, period = operands(p, discont, period)
    p = as_value(p)
    place = normalize_axis_index(axis, len(p.shape))
    gap = diff(p, axis=place)
    kind = promoted(gap, period)
    if kind.kind in "iu":
        high, ambiguous = period // 2, period % 2 == 0
    else:
        high, ambiguous = period / 2, True
    low = -high
    wrapped = (gap - low) % period + low
    if ambiguous is not False:
        wrapped = where((wrapped == low) & (gap > 0) & ambiguous, high, wrapped)
    small = abs(gap) < (period / 2 if discont is None else discont)
    jumps = where(small, np.zeros((), gap.dtype), wrapped - gap)
    lead = (slice(None),) * place
    head, tail = (bind("slice", p, index=(*lead, s)) for s in (slice(0, 1), slice(1, None)))
    parts = [linear.convert(x, kind) for x in (head, tail + cumsum(jumps, place))]
    return unordered(concatenate(parts, place), p)
