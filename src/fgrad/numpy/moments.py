"""Means, variances and weighted averages."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.compat.numpy import NO_VALUE
from fgrad.core.dispatch import apply_linear, binary, bind, unary
from fgrad.core.placement import near
from fgrad.core.views import unordered
from fgrad.numpy.arrays import alike, as_value, next_to, operands
from fgrad.numpy.reductions import _MEAN, _mask, asked, axes_of, finished, inexact, sum, target
from fgrad.numpy.registry import as_scalar, implements, stored
from fgrad.ops import linear
from fgrad.ops.requirements import require


def _count(a: Any, axes: tuple[int, ...], where: Any, keepdims: Any) -> Any:
    """Return the number of elements that count, as number or as array of integers."""
    if where is True:
        n = 1
        for i in axes:
            n *= a.shape[i]
        return n
    mask = linear.broadcast_to(_mask(where, a), a.shape)
    return sum(mask, axes, keepdims=keepdims)


@implements(np.mean)
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    """Return the arithmetic mean over axes: the sum, in `dtype` where it is given, divided by the count.

    Returns:
        Array of the shape of `a` without the axes; integers give float64, half precision is summed in single.

    Derivative:
        1 / n for each of n elements; zero for those that `where` leaves out.

    Example:
        >>> fnp.mean(np.array([[1.0, 2.0], [3.0, 4.0]]), axis=0)
        array([2., 3.])
        >>> fg.grad(fnp.mean)(np.array([1.0, 3.0]))
        array([0.5, 0.5])
    """
    a, kind, summed = _summed(a, dtype, out)
    shape = a.shape
    axes = axes_of(axis, len(shape))
    # sums of half precision overflow, NumPy's means do not unless that is asked for
    if (
        out is None
        and where is True
        and 0 not in shape
        and kind.kind in "fc"
        and (dtype is None or kind.char != "e")
    ):
        y = apply_linear(_MEAN, linear.convert(a, kind), {"axes": axes})
        return y if keepdims is False else finished(y, a, axes, keepdims, None)
    total = sum(a, axes, summed, keepdims=keepdims, where=where)
    total = total if out is None else linear.convert(total, kind)
    with np.errstate(invalid="ignore", divide="ignore"):
        y = linear.convert(_quotient(total, _count(a, axes, where, keepdims)), kind)
    return stored(y if where is True else unordered(y, a), out)


def _summed(a: Any, dtype: Any, out: Any) -> tuple[Any, np.dtype[Any], np.dtype[Any]]:
    """Return `a` as array or Tensor, the dtype of its mean, and the one in which it is summed for that."""
    if dtype is None and out is None:
        a = inexact(a)
        return a, a.dtype, np.dtype(np.float32) if a.dtype.char == "e" else a.dtype
    a = as_value(a)
    if dtype is None:
        dtype = np.float64 if a.dtype.kind in "iub" else np.float32 if a.dtype.char == "e" else None
    summed = np.dtype(asked(dtype, out, a))
    return a, summed if out is None else target(out).dtype, summed


def _quotient(total: Any, n: Any) -> Any:
    """Return a sum divided by a count, of its dtype, into which NumPy casts it without asking.

    Sums of integers are divided in double precision.
    """
    kind = total.dtype
    if kind.kind not in "fc":
        total = linear.convert(total, np.dtype(float))
    elif hasattr(n, "dtype"):
        n = linear.convert(n, np.empty(0, kind).real.dtype)
    return linear.convert(total / n, kind)


@implements(np.var)
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:
    """Return the variance over axes: the mean squared distance from the mean, with divisor n - ddof.

    The two sums are computed in `dtype` where it is given; what is summed has the dtype of `a`. Where no
    degree of freedom is left the variance is NaN or infinite, as NumPy's, and the gradient is zero.

    Returns:
        Array of the shape of `a` without the axes, real; integers give float64.

    Derivative:
        2 (x - mean) / (n - ddof); zero where all elements are equal.

    Example:
        >>> fnp.var(np.array([1.0, 3.0]))
        np.float64(1.0)
        >>> fg.grad(fnp.var)(np.array([1.0, 3.0]))
        array([-1.,  1.])
    """
    y = _spread(a, axis, dtype, out, ddof, keepdims, where, mean, correction, lambda y: y)
    return stored(as_scalar(y), out)


def lost_freedom(ddof: Any, correction: Any) -> Any:
    """Return what is subtracted from the number of elements, which has two names.

    Raises:
        ValueError: both are given.
    """
    if correction is not NO_VALUE:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    return ddof.item() if isinstance(ddof, np.integer) else ddof


def _spread(
    a: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    ddof: Any,
    keepdims: Any,
    where: Any,
    mean: Any,
    correction: Any,
    of: Callable[[Any], Any],
) -> Any:
    """Return a function of the variance, in the dtype of `out` if that is given."""
    a = as_value(a)
    if dtype is None and a.dtype.kind in "iub":
        dtype = float
    dtype = None if dtype is None else np.dtype(dtype)
    axes = axes_of(axis, len(a.shape))
    own = a.dtype if dtype is None and a.dtype.char == "e" else dtype
    ddof = lost_freedom(ddof, correction)
    if where is True and mean is NO_VALUE and own is None and a.dtype.kind in "fc" and 0 not in a.shape:
        gap = linear.centered(a, axes)
        if out is None and ddof.__class__ is int and not ddof:
            return of(_mean(abs2(gap), axes, keepdims=keepdims))
    elif where is True:
        mean = _mean(a, axes, own, keepdims=True) if mean is NO_VALUE else mean
        gap = a - next_to(mean, a)
    else:  # what does not count has no distance, whatever it is
        mask = _mask(where, a)
        if mean is NO_VALUE:
            alone = bind("equal", _count(a, axes, where, True), 0)
            mean = _mean(a, axes, own, keepdims=True, where=bind("logical_or", mask, alone))
        gap = bind("where", mask, a - next_to(mean, a), 0)
    squares = abs2(gap) if a.dtype.kind not in "iuf" else unary("square", gap)
    total = sum(squares, axes, asked(dtype, out, squares), keepdims=keepdims)
    total = total if out is None else linear.convert(total, target(out).dtype)
    n = _count(a, axes, where, keepdims) - ddof
    if not hasattr(n, "dtype") and n > 0:
        return of(_quotient(total, n))
    if total.dtype.kind != "f":
        with np.errstate(invalid="ignore", divide="ignore"):
            return of(_quotient(total, bind("maximum", n, 0) if hasattr(n, "dtype") else 0))
    lost = bind("where", bind("greater", total, 0), *(total.dtype.type(x) for x in (np.inf, np.nan)))
    if not hasattr(n, "dtype"):
        return lost
    none = bind("less_equal", n, 0)
    return unordered(bind("where", none, lost, of(_quotient(total, bind("where", none, 1, n)))), a)


_mean = mean


def abs2(x: Any) -> Any:
    """Return the squared absolute value, real also where `x` is complex.

    Returns:
        Array of the shape of `x`, real; dtype of `x` or of its parts.

    Derivative:
        2 x, for complex z: 2 conj(z); zero at zero, where `absolute(x)**2` has its kink.

    Example:
        >>> fnp.abs2(np.array([3.0 + 4.0j]))
        array([25.])
        >>> fg.grad(fnp.abs2)(3.0)
        np.float64(6.0)
    """
    if x.dtype.kind == "c":
        re, im = linear.real(x), linear.imag(x)
        return re * re + im * im
    return unary("square", x)


@implements(np.std)
def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:
    """Return the standard deviation over axes; its slope is zero where it is zero.

    Where no degree of freedom is left it is as `var`.

    Returns:
        Array of the shape of `a` without the axes, real; integers give float64.

    Derivative:
        (x - mean) / (n - ddof) / std; zero where all elements are equal.

    Example:
        >>> fnp.std(np.array([1.0, 3.0]))
        np.float64(1.0)
        >>> fg.grad(fnp.std)(np.array([2.0, 2.0]))
        array([0., 0.])
    """
    y = _spread(
        a, axis, dtype, out, ddof, keepdims, where, mean, correction, functools.partial(rooted, out=out)
    )
    return stored(as_scalar(y), out)


def rooted(y: Any, out: Any) -> Any:
    """Return the square root of a variance, of its dtype; the slope is zero where it is zero.

    Raises:
        TypeError: an array of integers has none, as in NumPy, but one number has.
    """
    if y.dtype.kind in "fc":
        return unary("root", y)
    if y.shape or out is not None:
        raise TypeError(
            f"Cannot cast ufunc 'sqrt' output from float64 to {y.dtype} with casting rule 'same_kind'"
        )
    return linear.convert(unary("root", linear.convert(y, np.dtype(float))), y.dtype)


@implements(np.average)
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False
) -> Any:
    """Return the weighted mean over axes.

    Returns:
        Array of the shape of `a` without the axes; integers give float64. With `returned` also the sum of the
        weights.

    Raises:
        ZeroDivisionError: weights that sum to zero.
        TypeError: weights of another shape, and no `axis`.

    Derivative:
        In `a` and in `weights`, that of the quotient of the sums.

    Example:
        >>> fnp.average(np.array([1.0, 3.0]), weights=[3.0, 1.0])
        np.float64(1.5)
    """
    a, weights = operands(a, weights)
    a = inexact(a)
    if weights is None:
        y = mean(a, axis, keepdims=keepdims)
        if 0 in y.shape:
            raise ZeroDivisionError("an average of nothing has no sum of weights: division by zero")
        n = _count(a, axes_of(axis, len(a.shape)), True, keepdims)
        return (y, alike([near(y).full(y.shape, n, y.dtype)[()], y])[0]) if returned else y
    w = as_value(weights)
    w = linear.convert(w, np.result_type(a.dtype, w.dtype))
    w = weights_beside(w, a, axis)
    total = sum(linear.broadcast_to(w, a.shape), axis, keepdims=keepdims)
    # where no average is left, there are weights
    known = sum(w, axis, keepdims=keepdims) if 0 in total.shape else total
    require(binary("not_equal", known, 0), ZeroDivisionError, "Weights sum to zero, can't be normalized")
    y = sum(a * w, axis, keepdims=keepdims) / total
    return (y, alike([total, y])[0]) if returned else y


def weights_beside(w: Any, a: Any, axis: Any) -> Any:
    """Return weights of elements, or of places along axes, so that they broadcast with `a`."""
    if w.shape == a.shape:
        return w
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    axes = axes_of(axis, len(a.shape))
    if w.shape != tuple(a.shape[i] for i in axes):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    w = linear.transpose(w, tuple(sorted(range(len(axes)), key=axes.__getitem__)))
    return linear.reshape(w, tuple(n if i in axes else 1 for i, n in enumerate(a.shape)))
