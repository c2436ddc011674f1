"""Sets of numbers: unique elements, which equal ones stand for, and what two arrays have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad.core.dispatch import bind
from fgrad.core.tensor import is_tracked, wrap
from fgrad.numpy.arrays import as_tensor, as_value, concrete, known, next_to, promoted, together
from fgrad.numpy.joining import concatenate
from fgrad.numpy.ordering import sort
from fgrad.numpy.registry import as_array, extends
from fgrad.numpy.shapes import moveaxis
from fgrad.ops import linear
from fgrad.ops.indices import HOLE


@extends(np.unique)
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """Return the sorted unique elements, or unique slices along an axis.

    Args:
        ar: array; flattened first if there is no axis.
        return_index: whether the indices of first occurrences are returned too.
        return_inverse: whether the indices in the result that rebuild `ar` are returned too.
        return_counts: whether the numbers of occurrences are returned too.
        axis: the axis along which slices are compared.
        equal_nan: whether all NaN are one element.
        sorted: whether the result has to be sorted; that of a Tensor always is.

    Returns:
        The unique elements, or a tuple of these and what else was asked for.

    Raises:
        AxisError: the axis does not exist.
        TypeError: inside vmap or staging, where the shape of the result is not known.

    Derivative:
        Elements that are equal share the gradient of their representative equally.

    Example:
        >>> fnp.unique(np.array([3.0, 1.0, 3.0]))
        array([1., 3.])
        >>> fg.grad(lambda x: fnp.unique(x).sum())(np.array([3.0, 1.0, 3.0]))
        array([0.5, 1. , 0.5])
    """
    value = concrete(ar, "unique")
    if not is_tracked(ar):
        find: Callable[..., Any] = np.unique
        found = find(value, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan)
        return tuple(map(wrap, found)) if isinstance(found, tuple) else wrap(found)
    _, first, inverse, counts = np.unique(value, True, True, True, axis, equal_nan=equal_nan)
    rows = linear.reshape(ar, (ar.size,)) if axis is None else moveaxis(ar, axis, 0)
    y = bind("representative", rows, first, inverse.reshape(-1))
    if axis is not None:
        y = moveaxis(y, 0, normalize_axis_index(axis, len(ar.shape)))
    chosen = ((return_index, first), (return_inverse, inverse), (return_counts, counts))
    more = [wrap(v) for wanted, v in chosen if wanted]
    return (y, *more) if more else y


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Any
    inverse_indices: Any


@extends(np.unique_all)
def unique_all(x: Any) -> Any:
    """Return the unique elements, where they first occur, the indices that rebuild `x`, and their numbers.

    Returns:
        Named tuple `values`, `indices`, `inverse_indices`, `counts`; vectors, but `inverse_indices` of the
        shape of
        `x`.

    Derivative:
        Of the values that of `unique`; the others are integers. NaN does not equal NaN.

    Example:
        >>> fnp.unique_all(np.array([3, 1, 3])).counts
        array([1, 2])
    """
    return UniqueAll(*unique(x, True, True, True, equal_nan=False))


@extends(np.unique_counts)
def unique_counts(x: Any) -> Any:
    """Return the unique elements and how often each occurs.

    Returns:
        Named tuple of the vectors `values` and `counts`.

    Derivative:
        Of the values that of `unique`; counts are integers. NaN does not equal NaN.

    Example:
        >>> fnp.unique_counts(np.array([3, 1, 3])).values
        array([1, 3])
    """
    return UniqueCounts(*unique(x, return_counts=True, equal_nan=False))


@extends(np.unique_inverse)
def unique_inverse(x: Any) -> Any:
    """Return the unique elements and the indices that rebuild `x` from them.

    Returns:
        Named tuple of the vector `values` and `inverse_indices`, of the shape of `x`.

    Derivative:
        Of the values that of `unique`; indices are integers. NaN does not equal NaN.

    Example:
        >>> fnp.unique_inverse(np.array([3, 1, 3])).inverse_indices
        array([1, 0, 1])
    """
    return UniqueInverse(*unique(x, return_inverse=True, equal_nan=False))


@extends(np.unique_values)
def unique_values(x: Any) -> Any:
    """Return the unique elements; those of a Tensor are sorted.

    Returns:
        Vector of the dtype of `x`.

    Derivative:
        That of `unique`. NaN does not equal NaN.

    Example:
        >>> fnp.unique_values(fg.tensor([3, 1, 3]))
        Tensor([1, 3])
    """
    return unique(x, equal_nan=False)


def _flat(x: Any) -> Any:
    x = as_value(x)
    return linear.reshape(x, (x.size,))


def _chosen(x: Any, mask: Any) -> Any:
    return bind("gather", x, np.flatnonzero(mask), template=(HOLE,), unique=True)


@extends(np.union1d)
def union1d(ar1: Any, ar2: Any) -> Any:
    """Return the sorted unique elements of two arrays; equal elements of both share the gradient equally.

    Returns:
        Vector of the promoted dtype.

    Derivative:
        That of `unique`: equal elements share it.

    Example:
        >>> fnp.union1d(np.array([1, 2]), np.array([2, 3]))
        array([1, 2, 3])
    """
    kind = promoted(ar1, ar2)
    return unique(concatenate([linear.convert(_flat(x), kind) for x in together(ar1, ar2)]))


@extends(np.intersect1d)
def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """Return the sorted elements that two arrays have in common.

    Args:
        ar1: array.
        ar2: array.
        assume_unique: promises that no element occurs twice in one array.
        return_indices: whether the indices of the first occurrences in both arrays are returned too.

    Returns:
        A vector, or a tuple of this and two vectors of indices.

    Derivative:
        Equal elements of both arrays share the gradient equally.

    Example:
        >>> fnp.intersect1d(np.array([1, 2, 3]), np.array([2, 3, 4]))
        array([2, 3])
    """
    x, y = map(_flat, together(ar1, ar2))
    values = concrete(x, "intersect1d"), concrete(y, "intersect1d")
    _, *places = np.intersect1d(*values, assume_unique, return_indices=True)
    every = unique(as_tensor(concatenate([x, y])))
    found = _chosen(every, np.isin(every._value, values[0]) & np.isin(every._value, values[1]))
    return (found, *map(wrap, places)) if return_indices else found


@extends(np.setdiff1d)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """Return the sorted unique elements of an array that another does not hold.

    With `assume_unique` the elements are returned in the order in which they stand.

    Returns:
        Vector of the dtype of `ar1`.

    Derivative:
        That of `unique`: equal elements share it.

    Example:
        >>> fnp.setdiff1d(np.array([3.0, 1.0, 2.0]), np.array([2.0]))
        array([1., 3.])
    """
    x, y = together(ar1, ar2)
    x = as_tensor(_flat(x))
    x = x if assume_unique else unique(x)
    return _chosen(x, np.isin(concrete(x, "setdiff1d"), concrete(y, "setdiff1d"), invert=True))


@extends(np.setxor1d)
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """Return the sorted unique elements that exactly one of two arrays holds.

    Returns:
        Vector of the promoted dtype.

    Derivative:
        That of `unique`: equal elements share it.

    Example:
        >>> fnp.setxor1d(np.array([1, 2]), np.array([2, 3]))
        array([1, 3])
    """
    x, y = (as_tensor(_flat(a)) for a in together(ar1, ar2))
    both = concatenate([x, y] if assume_unique else [unique(x), unique(y)])
    order = np.argsort(concrete(both, "setxor1d"), kind="stable")
    line = both._value[order]
    change = np.concatenate(([True], line[1:] != line[:-1], [True]))[: line.size + 1]
    return bind("gather", both, order[change[1:] & change[:-1]], template=(HOLE,), unique=True)


@extends(np.isin)
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Any:
    """Return whether each element is one of `test_elements`.

    Args:
        element: array.
        test_elements: array of any shape.
        assume_unique: promises that no element occurs twice in one array.
        invert: whether the answer is inverted.
        kind: "sort", "table" or None, which does not affect the result.

    Returns:
        Truth values of the shape of `element`.

    Derivative:
        None: the results are truth values.

    Example:
        >>> fnp.isin(np.array([1, 2, 3]), [2])
        array([False,  True, False])
    """
    x, y = together(element, test_elements)
    if known(x) is not None and known(y) is not None:
        return wrap(np.isin(known(x), known(y), assume_unique, invert, kind=kind))
    np.isin(np.zeros(0, x.dtype), np.zeros(0, y.dtype), kind=kind)  # NumPy's checks
    if not y.size:
        return next_to(np.full(x.shape, invert), x)
    dtype = np.result_type(x.dtype, y.dtype)
    x, line = linear.convert(x, dtype), sort(linear.convert(_flat(y), dtype))
    place = bind("minimum", bind("search", line, x, side="left"), y.size - 1)
    found = bind("gather", line, place, template=(HOLE,))
    return as_array(bind("not_equal" if invert else "equal", found, x))
