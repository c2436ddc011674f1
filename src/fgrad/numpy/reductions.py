"""Reductions and scans over axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from fgrad.compat.numpy import NO_VALUE
from fgrad.core.aval import with_ones
from fgrad.core.dispatch import apply_linear, bind
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.tensor import Tensor
from fgrad.numpy.arrays import alike, as_item, as_value, is_scalar, next_to
from fgrad.numpy.registry import as_scalar, implements, named, stored
from fgrad.ops import linear

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
    return () if ndim == 0 and isinstance(axis, int | np.integer) and axis in {0, -1} else axes_of(axis, ndim)


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


def _narrow(initial: Any, dtype: Any) -> Any:
    """Return a first term in the dtype that was asked for, where it is found by way of wider ones."""
    is_narrow = dtype is not None and np.dtype(dtype).kind in "biu"
    return first_term(initial, np.dtype(dtype)) if is_narrow else initial


def first_term(initial: Any, dtype: np.dtype[Any]) -> Any:
    """Return what a reduction starts from, in its dtype.

    Raises:
        TypeError: a complex number for real elements.
        OverflowError: a number of Python that the dtype does not have.
        ValueError: more than a number.
    """
    if dtype.kind in _OWN.get(initial.__class__, ""):
        return np.array(initial, dtype) if dtype.kind in "iu" else initial
    given = initial
    initial = np.array(initial, dtype) if initial.__class__ in _PYTHON else as_value(initial)
    if initial.shape:
        raise ValueError(f"initial must be one number, not an array of shape {initial.shape}")
    if initial.dtype.kind == "c" and dtype.kind not in "cb":
        raise TypeError(f"initial is complex, the result has dtype {dtype}")
    return as_item(given, dtype) if is_scalar(given) else linear.convert(initial, dtype)


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
        y = linear.reshape(y, with_ones(x.shape, axes))
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
        y = y + first_term(_narrow(initial, dtype), y.dtype)
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
        y = y * first_term(_narrow(initial, dtype), y.dtype)
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


def _extreme(
    theirs: Callable[..., Any], alias: Any, word: str, given: str, slopes: str
) -> Callable[..., Any]:
    name = theirs.__name__

    @implements(theirs, alias)
    @named(
        name,
        f"""Return the {word} element over axes; elements that tie share the gradient equally.

        Returns:
            Array of the shape of `a` without the axes, of its dtype.

        Raises:
            ValueError: no elements, and no `initial`.

        Derivative:
            1 / n for each of n elements that attain it; zero in a slice with NaN.

        Example:
            >>> fg.grad(fnp.{name})(np.array({given}))
            array({slopes})
        """,
    )
    def extreme(
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Any = NO_VALUE,
        where: Any = True,
    ) -> Any:
        return extremum(name, a, axis, out, keepdims, initial, where)

    return extreme


max = _extreme(np.max, np.amax, "greatest", "[1.0, 3.0, 3.0]", "[0. , 0.5, 0.5]")
min = _extreme(np.min, np.amin, "smallest", "[1.0, 1.0, 3.0]", "[0.5, 0.5, 0. ]")


amax, amin = max, min


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
