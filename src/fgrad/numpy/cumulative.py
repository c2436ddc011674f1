"""Running sums and products, and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad.compat.numpy import NO_VALUE
from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.core.views import unordered
from fgrad.numpy.arrays import as_value, next_to, together
from fgrad.numpy.joining import concatenate
from fgrad.numpy.reductions import asked, given_to, narrowed
from fgrad.numpy.registry import implements, stored
from fgrad.numpy.shapes import broadcast_to
from fgrad.ops import linear


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
