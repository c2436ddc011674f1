"""Reductions and scans that leave NaN out: the gradient of an element that is NaN is exactly zero."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.compat.numpy import NO_VALUE
from fgrad.core.dispatch import bind, unary
from fgrad.numpy.arrays import as_value, next_to, seen
from fgrad.numpy.cumulative import cumprod, cumsum
from fgrad.numpy.moments import abs2, lost_freedom, rooted
from fgrad.numpy.moments import mean as _mean
from fgrad.numpy.moments import var as _var
from fgrad.numpy.reductions import extremum, prod, sum
from fgrad.numpy.registry import as_scalar, extends, named, stored
from fgrad.ops import linear


def _split(a: Any, neutral: float) -> tuple[Any, Any]:
    """Return `a` with NaN replaced, and where NaN was: None if `a` cannot hold any."""
    a = as_value(a)
    if a.dtype.kind not in "fc":
        return a, None
    nan = unary("isnan", a)
    return bind("where", nan, neutral, a), nan


def _everywhere(where: Any) -> Any:
    return True if where is NO_VALUE else where


@extends(np.nansum)
def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = NO_VALUE,
    initial: Any = NO_VALUE,
    where: Any = NO_VALUE,
) -> Any:
    """Return the sum over axes of the elements that are not NaN; zero where there are none.

    Returns:
        Array of the shape of `a` without the axes; small integers are widened as in `sum`.

    Derivative:
        One for each element that counts, zero for NaN.

    Example:
        >>> fg.grad(fnp.nansum)(np.array([1.0, np.nan]))
        array([1., 0.])
    """
    return sum(_split(a, 0)[0], axis, dtype, out, keepdims, initial, _everywhere(where))


@extends(np.nanprod)
def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = NO_VALUE,
    initial: Any = NO_VALUE,
    where: Any = NO_VALUE,
) -> Any:
    """Return the product over axes of the elements that are not NaN; one where there are none.

    Returns:
        Array of the shape of `a` without the axes; small integers are widened as in `prod`.

    Derivative:
        The product of the others, right where elements are zero; zero for NaN.

    Example:
        >>> fg.grad(fnp.nanprod)(np.array([2.0, np.nan, 3.0]))
        array([3., 0., 2.])
    """
    return prod(_split(a, 1)[0], axis, dtype, out, keepdims, initial, _everywhere(where))


@extends(np.nancumsum)
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the sums of the elements up to each position along an axis, NaN as zero; None flattens first.

    Returns:
        Array of the shape of `a`, or flat; small integers are widened as in `cumsum`.

    Derivative:
        Of an element the sum of the cotangents from its position on; NaN has the gradient zero.

    Example:
        >>> fnp.nancumsum(np.array([2.0, np.nan, 3.0]))
        array([2., 2., 5.])
    """
    return cumsum(_split(a, 0)[0], axis, dtype, out)


@extends(np.nancumprod)
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the products of the elements up to each position on an axis, NaN as one; None flattens first.

    Returns:
        Array of the shape of `a`, or flat; small integers are widened as in `cumprod`.

    Derivative:
        That of `cumprod`, right where elements are zero; NaN has the gradient zero.

    Example:
        >>> fnp.nancumprod(np.array([2.0, np.nan, 3.0]))
        array([2., 2., 6.])
    """
    return cumprod(_split(a, 1)[0], axis, dtype, out)


def _extreme(theirs: Callable[..., Any], word: str, given: str, slopes: str) -> Callable[..., Any]:
    name = theirs.__name__

    @extends(theirs)
    @named(
        name,
        f"""Return the {word} element over axes that is not NaN; elements that tie share the gradient equally.

        Returns:
            Array of the shape of `a` without the axes, of its dtype; NaN, with a RuntimeWarning, where
            there is nothing else.

        Raises:
            ValueError: no elements, and no `initial`.

        Derivative:
            1 / n for each of n elements that attain it; zero for NaN.

        Example:
            >>> fg.grad(fnp.{name})(np.array({given}))
            array({slopes})
        """,
    )
    def extreme(
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: Any = NO_VALUE,
        initial: Any = NO_VALUE,
        where: Any = NO_VALUE,
    ) -> Any:
        y = extremum(name, a, axis, out, keepdims, initial, _everywhere(where))
        if y.dtype.kind in "fc" and seen(y, np.isnan):
            warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=2)
        return y

    return extreme


nanmax = _extreme(np.nanmax, "greatest", "[3.0, np.nan, 3.0]", "[0.5, 0. , 0.5]")
nanmin = _extreme(np.nanmin, "smallest", "[3.0, np.nan, 5.0]", "[1., 0., 0.]")


def _check_dtypes(dtype: Any, out: Any) -> None:
    if dtype is not None and np.dtype(dtype).kind not in "fc":
        raise TypeError("If a is inexact, then dtype must be inexact")
    if out is not None and out.dtype.kind not in "fc":
        raise TypeError("If a is inexact, then out must be inexact")


def _count(nan: Any, axis: Any, keepdims: Any, where: Any) -> Any:
    return sum(bind("logical_not", nan), axis, keepdims=keepdims, where=where)


def _divided(total: Any, count: Any) -> Any:
    """Return a sum divided by the number of its terms, of the dtype of the sum."""
    count = linear.convert(as_value(count), total.dtype)
    with np.errstate(invalid="ignore", divide="ignore"):
        return total / count


@extends(np.nanmean)
def nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = NO_VALUE,
    *,
    where: Any = NO_VALUE,
) -> Any:
    """Return the arithmetic mean over axes of the elements that are not NaN.

    Where there are none it is NaN, with a RuntimeWarning, and the gradient is zero.

    Returns:
        Array of the shape of `a` without the axes; integers give float64.

    Derivative:
        1 / n for each of n elements that count; zero for NaN.

    Example:
        >>> fg.grad(fnp.nanmean)(np.array([1.0, np.nan, 3.0]))
        array([0.5, 0. , 0.5])
    """
    where = _everywhere(where)
    x, nan = _split(a, 0)
    if nan is None:
        return _mean(x, axis, dtype, out, keepdims, where=where)
    _check_dtypes(dtype, out)
    count = _count(nan, axis, keepdims, where)
    total = sum(x, axis, dtype, None, keepdims, NO_VALUE, where)
    if seen(count, lambda v: np.equal(v, 0)):
        warnings.warn("Mean of empty slice", RuntimeWarning, stacklevel=2)
    return stored(_divided(total, count), out)


@extends(np.nanvar)
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = NO_VALUE,
    *,
    where: Any = NO_VALUE,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:
    """Return the variance over axes of the elements that are not NaN, with divisor n - ddof.

    Where no degree of freedom is left it is NaN, with a RuntimeWarning, and the gradient is zero.

    Returns:
        Array of the shape of `a` without the axes, real; integers give float64.

    Derivative:
        That of `var`; zero for NaN.

    Example:
        >>> fnp.nanvar(np.array([1.0, np.nan, 3.0]))
        np.float64(1.0)
    """
    y = _spread(a, axis, dtype, out, ddof, keepdims, where, mean, correction, lambda y: y)
    return stored(as_scalar(y), out)


@extends(np.nanstd)
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = NO_VALUE,
    *,
    where: Any = NO_VALUE,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:
    """Return the standard deviation over axes of the elements that are not NaN; its slope at zero is zero.

    Returns:
        Array of the shape of `a` without the axes, real; integers give float64.

    Derivative:
        That of `std`; zero for NaN, and where all others are equal.

    Example:
        >>> fnp.nanstd(np.array([1.0, np.nan, 3.0]))
        np.float64(1.0)
    """
    y = _spread(
        a, axis, dtype, out, ddof, keepdims, where, mean, correction, functools.partial(rooted, out=out)
    )
    return stored(as_scalar(y), out)


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
    """Return a function of the variance of the elements that are not NaN."""
    ddof = lost_freedom(ddof, correction)
    where = _everywhere(where)
    x, nan = _split(a, 0)
    if nan is None:
        return of(_var(x, axis, dtype, None, ddof, keepdims, where=where, mean=mean))
    _check_dtypes(dtype, out)
    center = mean
    if mean is NO_VALUE:
        total = sum(x, axis, dtype, None, True, NO_VALUE, where)
        center = _divided(total, bind("maximum", _count(nan, axis, True, where), 1))
    gap = bind("where", nan, 0, linear.convert(x - next_to(center, x), x.dtype))
    squares = sum(abs2(gap), axis, dtype, None, keepdims, NO_VALUE, where)
    freedom = _count(nan, axis, keepdims, where) - ddof
    lost = bind("less_equal", freedom, 0)
    if seen(lost, lambda v: v):
        warnings.warn("Degrees of freedom <= 0 for slice.", RuntimeWarning, stacklevel=3)
    nothing: Any = np.nan
    if squares.dtype.kind == "c":
        with np.errstate(invalid="ignore"):
            nothing = of(np.asarray(complex(np.nan), squares.dtype))
    return bind("where", lost, nothing, of(_divided(squares, bind("where", lost, 1, freedom))))
