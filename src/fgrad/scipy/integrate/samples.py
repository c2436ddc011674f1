"""Integrals of samples: the rules of Newton and Cotes and of Romberg, as compositions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad.core.aval import with_dtype
from fgrad.docstrings import completes


def _sampled(y: Any, x: Any, dx: Any, axis: int) -> tuple[Any, Any]:
    """Return samples with their axis last, and the distances between them."""
    y = with_dtype(y)
    y = fnp.moveaxis(y if y.dtype.kind in "fc" else y.astype(float), axis, -1)
    n = y.shape[-1]
    if x is None:
        return y, np.full(max(n - 1, 0), 1.0) * dx
    x = with_dtype(x, float)
    if x.ndim > 1:
        x = fnp.moveaxis(x, axis, -1)
    if x.shape[-1] != n:
        raise ValueError(f"x has {x.shape[-1]} places along the axis, but y has {n} samples")
    return y, fnp.diff(x, axis=-1)


def _trapezoids(y: Any, h: Any) -> Any:
    """Return the integrals between neighbouring samples, with straight lines between them."""
    return h * (y[..., 1:] + y[..., :-1]) / 2.0


_samples = completes(
    {
        "y": "samples.",
        "x": "their coordinates, of one dimension or of the shape of `y`; None: `dx` apart.",
        "dx": "distance between samples.",
        "axis": "along which.",
    }
)


@_samples
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Return the integral of samples by the trapezoidal rule.

    Returns:
        Array of the shape of `y` without the axis; floats or complex numbers, integers give float64.

    Raises:
        ValueError: `x` has another length.

    Derivative:
        In `y`, `x` and `dx`, that of the weighted sum.

    Example:
        >>> trapezoid([1.0, 2.0, 4.0])
        np.float64(4.5)
    """
    y, h = _sampled(y, x, dx, axis)
    h = dx if x is None else h  # a number leaves samples their precision
    return fnp.sum(_trapezoids(y, h), axis=-1)


@_samples
def cumulative_trapezoid(
    y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: float | None = None
) -> Any:
    """Return the running integral of samples by the trapezoidal rule, one value less than samples.

    Args:
        initial: None, or 0 for a first value.

    Returns:
        Array of the shape of `y`, with one number less along the axis unless there is an `initial`; floats or
        complex numbers, integers give float64.

    Raises:
        ValueError: `x` has another length, or `initial` is another number.

    Derivative:
        In `y`, `x` and `dx`, that of the weighted sums.

    Example:
        >>> cumulative_trapezoid([1.0, 2.0, 4.0], initial=0)
        array([0. , 1.5, 4.5])
    """
    if initial is not None and initial != 0:
        raise ValueError(f"initial must be None or 0, not {initial!r}")
    y, h = _sampled(y, x, dx, axis)
    h = dx if x is None else h
    return _running(_trapezoids(y, h), initial, axis)


def _running(parts: Any, initial: Any, axis: int) -> Any:
    total = fnp.cumsum(parts, axis=-1)
    if initial is not None:
        start = np.zeros((*total.shape[:-1], 1)) + initial
        total = fnp.concatenate([start, total + initial], axis=-1)
    return fnp.moveaxis(total, -1, axis)


@_samples
def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """Return the integral of samples by Simpson's rule; of an even number with a correction at the end.

    Returns:
        Array of the shape of `y` without the axis; float64 or complex128, of single precision where `y` and
        `x` both are.

    Raises:
        ValueError: `x` has another length.

    Derivative:
        In `y`, `x` and `dx`, that of the weighted sum, whose weights depend on `x`.

    Source:
        Cartwright (2017), Simpson's rule cumulative integration with MS Excel and irregularly-spaced data,
        J. Math. Sci. Math. Educ. 12(2).

    Example:
        >>> simpson(np.array([0.0, 1.0, 4.0]))
        np.float64(2.6666667)
    """
    y, h = _sampled(y, x, dx, axis)
    n = y.shape[-1]
    if n < 3:
        return fnp.sum(_trapezoids(y, h), axis=-1)
    odd = n if n % 2 else n - 1
    h0, h1 = h[..., 0 : odd - 1 : 2], h[..., 1 : odd - 1 : 2]
    y0, y1, y2 = y[..., 0 : odd - 2 : 2], y[..., 1 : odd - 1 : 2], y[..., 2:odd:2]
    both = h0 + h1
    weighed = (2.0 - h1 / h0) * y0 + both**2 / (h0 * h1) * y1 + (2.0 - h0 / h1) * y2
    total = fnp.sum(both / 6.0 * weighed, axis=-1)
    if n % 2:
        return total
    h0, h1 = h[..., -2], h[..., -1]
    last = (2 * h1**2 + 3 * h0 * h1) / (6 * (h1 + h0)) * y[..., -1]
    middle = (h1**2 + 3 * h0 * h1) / (6 * h0) * y[..., -2]
    return total + last + middle - h1**3 / (6 * h0 * (h0 + h1)) * y[..., -3]


@_samples
def cumulative_simpson(y: Any, *, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    """Return the running integral of samples by Simpson's rule, one value less than samples.

    Args:
        initial: None, or a first value, which is added to all others.

    Returns:
        Array of the shape of `y`, with one number less along the axis unless there is an `initial`;
        dtypes as of `simpson`.

    Raises:
        ValueError: `x` has another length.

    Derivative:
        In `y`, `x`, `dx` and `initial`, that of the weighted sums, whose weights depend on `x`.

    Source:
        Cartwright (2017), as in `simpson`.

    Example:
        >>> cumulative_simpson(np.array([0.0, 1.0, 4.0]))
        array([0.3333333, 2.6666667])
    """
    y, h = _sampled(y, x, dx, axis)
    n = y.shape[-1]
    if n < 3:
        return _running(_trapezoids(y, h), initial, axis)
    h = fnp.broadcast_to(h, (*y.shape[:-1], n - 1))
    ahead = _first_parts(y, h)  # of each interval, with the sample after it
    behind = _first_parts(y[..., ::-1], h[..., ::-1])[..., ::-1]  # with the one before it
    # the first interval of each pair looks ahead, the second one and the last one behind
    parts = [(ahead if i % 2 == 0 and i < n - 2 else behind)[..., i - (not (i % 2 == 0 and i < n - 2))]
             for i in range(n - 1)]  # fmt: skip
    return _running(fnp.stack(parts, axis=-1), initial, axis)


def _first_parts(y: Any, h: Any) -> Any:
    """Return the integrals over the first interval of the parabolas through three samples each."""
    h0, h1 = h[..., :-1], h[..., 1:]
    ratio, part = h0 / h1, h0 / (h0 + h1)
    y0, y1, y2 = y[..., :-2], y[..., 1:-1], y[..., 2:]
    return h0 / 6.0 * ((3.0 - part) * y0 + (3.0 + part * ratio + part) * y1 - part * ratio * y2)


def romb(y: Any, dx: Any = 1.0, axis: int = -1) -> Any:
    """Return the integral of 2**k + 1 samples at equal distances by Romberg's rule.

    Args:
        y: samples.
        dx: distance between them.
        axis: along which.

    Returns:
        Array of the shape of `y` without the axis; float64 or complex128.

    Raises:
        ValueError: another number of samples.

    Derivative:
        In `y` and `dx`, that of the weighted sum.

    Differences from SciPy:
        No `show`.

    Example:
        >>> romb(np.array([0.0, 1.0, 4.0]))
        np.float64(2.6666667)
    """
    y, _ = _sampled(y, None, 1.0, axis)
    y = y.astype(np.promote_types(y.dtype, np.float64))
    n = y.shape[-1] - 1
    if n < 1 or n & (n - 1):
        raise ValueError(f"romb takes 2**k + 1 samples, not {n + 1}")
    row = [(y[..., 0] + y[..., -1]) / 2.0 * n]
    for i in range(1, int(math.log2(n)) + 1):
        step = n >> i
        new = [row[0] / 2.0 + step * fnp.sum(y[..., step : n : 2 * step], axis=-1)]
        for j, before in enumerate(row, 1):
            new.append(new[-1] + (new[-1] - before) / (4.0**j - 1.0))
        row = new
    return row[-1] * dx
