"""Reductions and scans over axes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from fgrad.compat.numpy import NO_VALUE
from fgrad.core.placement import near
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.tensor import Tensor, apply_linear, binary, bind, unary
from fgrad.core.views import unordered
from fgrad.numpy.arrays import alike, as_item, as_value, is_scalar, next_to, operands, together
from fgrad.numpy.joining import concatenate
from fgrad.numpy.registry import as_scalar, implements, stored
from fgrad.numpy.shapes import broadcast_to
from fgrad.ops import linear
from fgrad.ops.requirements import require

_SUM, _MEAN = PRIMITIVES["sum"], PRIMITIVES["mean"]
_EVERY = [tuple(range(n)) for n in range(65)]  # axis, of so many: NumPy has 64 at most


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return `axis` (None: all) as a tuple of non-negative integers.

    Raises:
        AxisError: an axis does not exist.
    """
    if axis is None:
        return tuple(range(ndim))
    if axis.__class__ is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    return normalize_axis_tuple(axis, ndim)


def _axes_of_monoid(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return what `axes_of` does; but a single element may be reduced over an axis that it does not have."""
    return () if ndim == 0 and isinstance(axis, int) and axis in {0, -1} else axes_of(axis, ndim)


def _prepared(x: Any, dtype: Any, where: Any, neutral: Any) -> Any:
    x = as_value(x)
    if dtype is not None:
        x = linear.convert(x, np.dtype(dtype))
    if where is not True:
        x = bind("where", _mask(where, x), x, linear.convert(as_value(neutral), x.dtype))
    return x


def _mask(where: Any, x: Any) -> Any:
    """Return `where`, which chooses from `x`, as an array.

    Raises:
        TypeError: its elements are no truth values.
        ValueError: it has more axes or elements than what it chooses from.
    """
    where = next_to(where, x)
    if where.dtype.kind != "b":
        raise TypeError(f"where must be a boolean mask, not {where.dtype}: write where=mask != 0")
    if np.broadcast_shapes(where.shape, x.shape) != x.shape:
        raise ValueError(f"where of shape {where.shape} does not broadcast to the array's shape {x.shape}")
    return where


def _truth(initial: Any, dtype: Any) -> Any:
    """Return a first term as truth value where the result is one, which is found by way of integers."""
    is_truth = dtype is not None and np.dtype(dtype).kind == "b"
    return first_term(initial, np.dtype(bool)) if is_truth else initial


def first_term(initial: Any, dtype: np.dtype[Any]) -> Any:
    """Return what a reduction starts from, in its dtype.

    Raises:
        TypeError: a complex number for real elements.
        OverflowError: a number of Python that the dtype does not have.
        ValueError: more than a number.
    """
    if dtype.kind in _OWN.get(initial.__class__, ""):
        return initial
    given = initial
    initial = np.array(initial, dtype) if initial.__class__ in _PYTHON else as_value(initial)
    if initial.shape:
        raise ValueError(f"initial must be one number, not an array of shape {initial.shape}")
    if initial.dtype.kind == "c" and dtype.kind not in "cb":
        raise TypeError(f"initial is complex, the result has dtype {dtype}")
    return as_item(initial, dtype) if is_scalar(given) else linear.convert(initial, dtype)


_OWN = {float: "fc", int: "iufc"}  # numbers of Python that take these dtypes by themselves
_PYTHON = {bool, int, float, complex}


def asked(dtype: Any, out: Any, a: Any) -> np.dtype[Any] | None:
    """Return the dtype in which `a` is reduced: the given one, else one for the target too."""
    if dtype is not None:
        given: np.dtype[Any] = np.dtype(dtype)
        return given
    if out is None:
        return None
    both: np.dtype[Any] = np.promote_types(a.dtype, target(out).dtype)
    return both


def target(out: Any) -> Any:
    """Return what is written to, which ufuncs take as tuple too."""
    return out[0] if isinstance(out, tuple) else out


def given_to(y: Any, out: Any) -> Any:
    """Return a reduction, after giving it to its target, into whose dtype NumPy casts it without asking."""
    return y if out is None else stored(linear.convert(y, target(out).dtype), out)


def narrowed(y: Any, dtype: Any) -> Any:
    """Return a result as the `dtype` that was asked for: NumPy computes with small integers modulo 2^n."""
    return y if dtype is None else linear.convert(y, np.dtype(dtype))


def finished(y: Any, x: Any, axes: tuple[int, ...], keepdims: Any, out: Any) -> Any:
    """Return a reduction of `x` over `axes`, as `keepdims` and `out` ask."""
    if keepdims and keepdims is not NO_VALUE:
        y = linear.reshape(y, tuple(1 if i in axes else n for i, n in enumerate(x.shape)))
    return given_to(y, out)


@implements(np.sum)
def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    """Return the sum over axes.

    Returns:
        Array of the shape of `a` without the axes; integers smaller than int64 are widened.

    Raises:
        TypeError: `where` holds numbers, or `initial` is complex and the result is not.

    Derivative:
        One for each element, zero for those that `where` leaves out; one for `initial`.

    Differences from NumPy:
        Complex numbers are not stored in real ones: NumPy drops their imaginary parts.

    Example:
        >>> fnp.sum(np.array([[1.0, 2.0], [3.0, 4.0]]), axis=1)
        array([3., 7.])
        >>> fg.grad(fnp.sum)(np.array([1.0, 2.0]))
        array([1., 1.])
    """
    if a.__class__ is not Tensor:
        a = as_value(a)
    if out is not None:
        dtype = asked(dtype, out, a)
    as_it_is = dtype is None and where is True
    if as_it_is and axis is None and out is None and not keepdims and initial is NO_VALUE:
        return apply_linear(_SUM, a, {"axes": _EVERY[len((a._value if a.__class__ is Tensor else a).shape)]})
    if not as_it_is:
        a = _prepared(a, dtype, where, 0)
    axes = _axes_of_monoid(axis, len(a.shape))
    y = bind("sum", a, axes=axes)
    if initial is not NO_VALUE and initial is not None:
        y = y + first_term(_truth(initial, dtype), y.dtype)
    return finished(narrowed(y, dtype), a, axes, keepdims, out)


@implements(np.prod)
def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    """Return the product over axes; the derivative is right where elements are zero.

    Returns:
        Array of the shape of `a` without the axes; integers smaller than int64 are widened.

    Derivative:
        The product of the others, to every order, without division.

    Example:
        >>> fg.grad(fnp.prod)(np.array([0.0, 2.0, 3.0]))
        array([6., 0., 0.])
    """
    a = as_value(a)
    dtype = asked(dtype, out, a)
    a = _prepared(a, dtype, where, 1)
    axes = _axes_of_monoid(axis, len(a.shape))
    y = bind("prod", a, axes=axes)
    if initial is not NO_VALUE and initial is not None:
        y = y * first_term(_truth(initial, dtype), y.dtype)
    return finished(narrowed(y, dtype), a, axes, keepdims, out)


_PAIRWISE = {"max": "maximum", "min": "minimum", "nanmax": "fmax", "nanmin": "fmin"}


def extremum(name: str, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    """Return what the row `name` finds over axes, beside `initial`, among the elements that count."""
    a = as_value(a)
    if out is not None:
        a = linear.convert(a, np.promote_types(a.dtype, target(out).dtype))
    initial = NO_VALUE if initial is None else initial
    if where is not True:
        if initial is NO_VALUE:
            raise ValueError(
                f"reduction operation '{_PAIRWISE[name]}' does not have an identity, "
                "so to use a where mask one has to specify 'initial'"
            )
        a = _prepared(a, None, where, _last_choice(a.dtype, greatest=name.endswith("min")))
    axes = _axes_of_monoid(axis, len(a.shape))
    if initial is not NO_VALUE and (a.size == 0 and any(a.shape[i] == 0 for i in axes)):
        shape = tuple(n for i, n in enumerate(a.shape) if i not in axes)
        y = linear.broadcast_to(linear.convert(next_to(first_term(initial, a.dtype), a), a.dtype), shape)
        return finished(as_scalar(alike([y, a])[0]), a, axes, keepdims, out)
    if a.dtype.kind == "b":
        y = bind("convert", bind(name, bind("convert", a, dtype=np.dtype(np.int8)), axes=axes), dtype=a.dtype)
    else:
        y = bind(name, a, axes=axes)
    if initial is not NO_VALUE:
        y = bind(_PAIRWISE[name], y, first_term(initial, y.dtype))
    return finished(y, a, axes, keepdims, out)


def _last_choice(dtype: np.dtype[Any], *, greatest: bool) -> Any:
    """Return the number of a dtype that every other one is preferred to."""
    if dtype.kind == "b":
        return np.bool_(greatest)
    if dtype.kind in "fc":
        return dtype.type(np.inf if greatest else -np.inf)
    return np.iinfo(dtype).max if greatest else np.iinfo(dtype).min


@implements(np.max, np.amax)
def max(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    """Return the greatest element over axes; elements that tie share the gradient equally.

    Returns:
        Array of the shape of `a` without the axes, of its dtype.

    Raises:
        ValueError: no elements, and no `initial`.

    Derivative:
        1 / n for each of n elements that attain it; zero in a slice with NaN.

    Example:
        >>> fg.grad(fnp.max)(np.array([1.0, 3.0, 3.0]))
        array([0. , 0.5, 0.5])
    """
    return extremum("max", a, axis, out, keepdims, initial, where)


@implements(np.min, np.amin)
def min(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    """Return the smallest element over axes; elements that tie share the gradient equally.

    Returns:
        Array of the shape of `a` without the axes, of its dtype.

    Raises:
        ValueError: no elements, and no `initial`.

    Derivative:
        1 / n for each of n elements that attain it; zero in a slice with NaN.

    Example:
        >>> fg.grad(fnp.min)(np.array([1.0, 1.0, 3.0]))
        array([0.5, 0.5, 0. ])
    """
    return extremum("min", a, axis, out, keepdims, initial, where)


amax = max
amin = min


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """Return the greatest minus the smallest element over axes.

    Returns:
        Array of the shape of `a` without the axes, of its dtype.

    Raises:
        ValueError: no elements.

    Derivative:
        Those of `max` and `min`: ties share it equally.

    Example:
        >>> fnp.ptp(np.array([1.0, 4.0]))
        np.float64(3.0)
        >>> fg.grad(fnp.ptp)(np.array([1.0, 4.0]))
        array([-1.,  1.])
    """
    top = max(a, axis, keepdims=keepdims)
    top = top if out is None else linear.convert(top, target(out).dtype)
    return stored(top - min(a, axis, keepdims=keepdims), out)


def inexact(a: Any, dtype: Any = None) -> Any:
    """Return `a` as `dtype`; integers become float64."""
    a = as_value(a)
    if dtype is not None:
        a = linear.convert(a, np.dtype(dtype))
    return a if a.dtype.kind in "fc" else linear.convert(a, np.dtype(float))


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
    ddof = ddof if correction is NO_VALUE else correction
    if where is True:
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
    n = _count(a, axes, where, keepdims) - (ddof.item() if isinstance(ddof, np.integer) else ddof)
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


@implements(np.cumsum)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the sums of the elements up to each position along an axis; None flattens first.

    Returns:
        Array of the shape of `a`, or flat; integers smaller than int64 are widened, `dtype` decides
        otherwise.

    Derivative:
        Of an element the sum of the cotangents from its position on.

    Example:
        >>> fnp.cumsum(np.array([1.0, 2.0, 3.0]))
        array([1., 3., 6.])
        >>> fg.grad(lambda x: fnp.cumsum(x).sum())(np.array([1.0, 2.0, 3.0]))
        array([3., 2., 1.])
    """
    return _scan("cumsum", a, axis, dtype, out)


@implements(np.cumprod)
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the products of the elements up to each position along an axis; also right for zeros.

    Returns:
        Array of the shape of `a`, or flat; integers smaller than int64 are widened, `dtype` decides
        otherwise.

    Derivative:
        Of an element the products of the others, right where elements are zero.

    Example:
        >>> fnp.cumprod(np.array([2.0, 3.0, 4.0]))
        array([ 2.,  6., 24.])
        >>> fg.grad(lambda x: fnp.cumprod(x).sum())(np.array([0.0, 3.0]))
        array([4., 0.])
    """
    return _scan("cumprod", a, axis, dtype, out)


@implements(getattr(np, "cumulative_sum", None))
def cumulative_sum(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> Any:
    """Return the sums of the elements up to each position along an axis, after a zero if asked.

    Returns:
        Array of the shape of `x`, one longer with `include_initial`; dtype as in `cumsum`.

    Raises:
        ValueError: no `axis`, and more than one.

    Derivative:
        That of `cumsum`.

    Example:
        >>> fnp.cumulative_sum(np.array([2.0, 3.0]), include_initial=True)
        array([0., 2., 5.])
    """
    return _cumulative("cumsum", x, axis, dtype, out, include_initial)


@implements(getattr(np, "cumulative_prod", None))
def cumulative_prod(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> Any:
    """Return the products of the elements up to each position along an axis, after a one if asked.

    Returns:
        Array of the shape of `x`, one longer with `include_initial`; dtype as in `cumprod`.

    Raises:
        ValueError: no `axis`, and more than one.

    Derivative:
        That of `cumprod`.

    Example:
        >>> fnp.cumulative_prod(np.array([2.0, 3.0]), include_initial=True)
        array([1., 2., 6.])
    """
    return _cumulative("cumprod", x, axis, dtype, out, include_initial)


def _cumulative(name: str, x: Any, axis: Any, dtype: Any, out: Any, include_initial: bool) -> Any:
    x = as_value(x)
    if axis is None and len(x.shape) > 1:
        raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
    x = linear.reshape(x, x.shape or (1,))
    place = 0 if axis is None else normalize_axis_index(axis, len(x.shape))
    y = _scan(name, x, place, dtype, None)
    if include_initial:
        one = (*x.shape[:place], 1, *x.shape[place + 1 :])
        y = unordered(concatenate([near(y).full(one, int(name == "cumprod"), y.dtype), y], place), x)
    return stored(y, out)


def _scan(name: str, a: Any, axis: Any, dtype: Any, out: Any) -> Any:
    a = as_value(a)
    dtype = asked(dtype, out, a)
    if dtype is not None:
        a = linear.convert(a, dtype)
    a, place = along(a, axis)
    return given_to(narrowed(bind(name, a, axis=place), dtype), out)


def along(a: Any, axis: Any) -> tuple[Any, int]:
    """Return `a`, flattened if `axis` is None or if there is none, and the position of the axis."""
    if axis is None or not a.shape:
        a = linear.reshape(a, (a.size,))
    return a, 0 if axis is None else normalize_axis_index(axis, len(a.shape))


def logsumexp(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the logarithm of the summed exponentials over axes: `numpy.logaddexp.reduce`."""
    a = inexact(a)
    axes = axes_of(axis, len(a.shape))
    y = bind("logsumexp", a, axes=axes)
    return finished(y, a, axes, keepdims, None) if keepdims else y


@implements(np.all)
def all(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    """Return whether every element is nonzero.

    Returns:
        Truth values, of the shape of `a` without the axes.

    Derivative:
        None: the result is a truth value.

    Example:
        >>> fnp.all(np.array([True, False]))
        np.False_
    """
    a = _prepared(bind("not_equal", as_value(a), 0), None, where, True)
    return extremum("min", a, axis, out, keepdims, True, True)


@implements(np.any)
def any(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    """Return whether some element is nonzero.

    Returns:
        Truth values, of the shape of `a` without the axes.

    Derivative:
        None: the result is a truth value.

    Example:
        >>> fnp.any(np.array([True, False]))
        np.True_
    """
    a = _prepared(bind("not_equal", as_value(a), 0), None, where, False)
    return extremum("max", a, axis, out, keepdims, False, True)


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Return the number of nonzero elements.

    Returns:
        Integers, of the shape of `a` without the axes.

    Derivative:
        None: the result is an integer.

    Example:
        >>> fnp.count_nonzero(np.array([0.0, 2.0, 3.0]))
        np.int64(2)
    """
    return sum(bind("not_equal", as_value(a), 0), axis, keepdims=keepdims)


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = NO_VALUE, append: Any = NO_VALUE) -> Any:
    """Return the n-th differences of neighbours along an axis, to which elements may be joined first.

    Returns:
        Array of the shape of `a`, `n` shorter along the axis; of its dtype. Truth values give truth values.

    Raises:
        ValueError: `n` is negative.

    Derivative:
        Linear: the differences of the cotangent, backwards.

    Example:
        >>> fnp.diff(np.array([1.0, 4.0, 9.0]))
        array([3., 5.])
        >>> fg.grad(lambda x: fnp.diff(x).sum())(np.array([1.0, 4.0, 9.0]))
        array([-1.,  0.,  1.])
    """
    if n == 0:
        return a
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    joined = [x for x in (prepend, append) if x is not NO_VALUE]
    a = next_to(a, *joined) if joined else as_value(a)
    if not a.shape:
        raise ValueError("diff requires input that is at least one dimensional")
    place = normalize_axis_index(axis, len(a.shape))
    one = (*a.shape[:place], 1, *a.shape[place + 1 :])
    if joined:
        parts = together(*[x for x in (prepend, a, append) if x is not NO_VALUE])
        a = concatenate([x if x.shape else broadcast_to(x, one) for x in parts], place)
    lead = (slice(None),) * place
    for _ in range(n):
        after, before = (bind("slice", a, index=(*lead, s)) for s in (slice(1, None), slice(None, -1)))
        a = bind("not_equal", after, before) if a.dtype.kind == "b" else after - before
    return a


@implements(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Return the differences of neighbours of the flattened array, between elements joined on both sides.

    Returns:
        Vector of one element less than `ary` has, and of those that are joined; dtype of `ary`.

    Raises:
        TypeError: what is to be joined cannot be cast to the dtype of `ary`.

    Derivative:
        Linear in all three.

    Example:
        >>> fnp.ediff1d(np.array([1.0, 4.0, 9.0]), to_begin=0.0)
        array([0., 3., 5.])
    """
    a = next_to(ary, to_begin, to_end)
    a = linear.reshape(a, (a.size,))
    parts = [diff(a)] if a.dtype.kind != "b" else [bind("subtract", a, a)[1:]]
    for name, given, place in (("to_begin", to_begin, 0), ("to_end", to_end, 2)):
        if given is None:
            continue
        end = next_to(given, a)
        if not np.can_cast(end.dtype, a.dtype, "same_kind"):
            raise TypeError(
                f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule."
            )
        parts.insert(place, linear.convert(linear.reshape(end, (end.size,)), a.dtype))
    return concatenate(parts) if len(parts) > 1 else parts[0]
