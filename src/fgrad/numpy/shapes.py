"""Rearranging elements: shapes, axes, stacking, splitting, padding; all compositions of linear rows."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from fgrad.backend.array import DeviceArray
from fgrad.core.placement import placed
from fgrad.core.tensor import Tensor, alias, bind
from fgrad.core.trace import user_place
from fgrad.core.views import is_laid_out, memory_of, unordered
from fgrad.numpy.arrays import (
    alike,
    as_target,
    as_value,
    concrete,
    next_to,
    number_type,
    ones_before,
    recopied,
    together,
)
from fgrad.numpy.registry import as_array, cast, extends, holds_tensor, implements, stored
from fgrad.numpy.views import diagonal as _diagonal
from fgrad.numpy.views import raveled, repeated, reshaped, sliced, transposed
from fgrad.ops import linear
from fgrad.ops.indexing import HOLE


@implements(np.reshape)
def reshape(a: Any, /, shape: Any, order: Any = "C", *, copy: bool | None = None) -> Any:
    """Return the same elements in `shape`, one of whose lengths may be -1; a Tensor has no order but C.

    Returns:
        Array of `shape` and the dtype of `a`, a view.

    Raises:
        TypeError: order "A", which asks how an array lies in memory, while a function is traced.
        ValueError: `shape` has another number of elements.

    Derivative:
        The cotangent in the shape of `a`.

    Example:
        >>> fnp.reshape(np.arange(6.0), (2, -1)).shape
        (2, 3)
    """
    a = as_value(a)
    if not isinstance(a, Tensor) and order != "C":
        return np.reshape(a, shape, order)
    wanted = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    if order == "A":
        order = _order_of(a, "reshape")
    if order != "C":
        if order != "F":
            raise ValueError(f"order must be 'C', 'F' or 'A', not {order!r}")
        return transpose(reshape(transpose(a), wanted[::-1]))
    if -1 in wanted or any(not isinstance(n, int) for n in wanted):
        wanted = np.broadcast_to(np.empty((), np.int8), a.shape).reshape(wanted).shape
    return reshaped(a, wanted)


@implements(np.ravel)
def ravel(a: Any, order: Any = "C") -> Any:
    """Return the elements along one axis; a Tensor has no order but C.

    Returns:
        Vector of the elements of `a`, a view; dtype of `a`.

    Raises:
        TypeError: order "A" or "K", which ask how an array lies in memory, while a function is traced.

    Derivative:
        The cotangent in the shape of `a`.

    Example:
        >>> fnp.ravel(np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([1., 2., 3., 4.])
    """
    a = as_value(a)
    if not isinstance(a, Tensor) and order != "C":
        return np.ravel(a, order)
    if order == "A":
        order = _order_of(a, "ravel")
    if order == "K":
        a = transposed(a, _axes_in_memory(a))
    elif order == "F":
        a = transpose(a)
    elif order != "C":
        raise ValueError(f"order must be 'C', 'F', 'A' or 'K', not {order!r}")
    return raveled(a)


def _example(a: Tensor, name: str, order: str) -> Any:
    """Return an array that lies in memory as `a` does.

    Raises:
        TypeError: nobody knows, and more than one axis is longer than one.
    """
    example = memory_of(a)
    if example is not None and is_laid_out(a):
        return example
    if a._value.__class__ is DeviceArray and a._value.buffer.flags.c_contiguous:
        return np.empty(a.shape)
    if sum(n > 1 for n in a.shape) > 1:
        raise TypeError(
            f"{name} with order={order!r} at {user_place()} depends on the memory layout, which is not known "
            "for computed and traced arrays; give order='C' or order='F'"
        )
    return np.empty(a.shape)


def _order_of(a: Tensor, name: str) -> str:
    """Return the order in which NumPy reads an array where it may choose."""
    flags = _example(a, name, "A").flags
    return "F" if flags.f_contiguous and not flags.c_contiguous else "C"


def _axes_in_memory(a: Tensor) -> tuple[int, ...]:
    """Return the axes of an array in their order in memory."""
    example = _example(a, "ravel", "K")
    strides = [abs(s) if n > 1 else 0 for s, n in zip(example.strides, a.shape, strict=True)]
    axes: list[int] = []  # NumPy's iterators insert axes, of which those without strides have no place
    for i in reversed(range(len(strides))):
        place = 0
        for k in range(len(axes)):
            if strides[i] and strides[axes[k]]:
                if strides[axes[k]] <= strides[i]:
                    break
                place = k + 1
        axes.insert(place, i)
    return tuple(axes)


@implements()
def flatten(a: Tensor, order: Any = "C") -> Tensor:
    """Return a copy of the elements along one axis."""
    flat: Tensor = recopied(ravel(a, order), "C")
    return flat


@implements(np.transpose, np.permute_dims)
def transpose(a: Any, axes: Any = None) -> Any:
    """Return the axes permuted; reversed where `axes` is None.

    Returns:
        Array of the elements of `a` with its axes in another order, a view.

    Raises:
        ValueError: `axes` are no permutation.

    Derivative:
        The cotangent with its axes permuted back.

    Example:
        >>> fnp.transpose(np.ones((2, 3, 4))).shape
        (4, 3, 2)
    """
    a = as_value(a)
    n = len(a.shape)
    if axes is None:
        return transposed(a, tuple(range(n - 1, -1, -1)))
    if len(axes) != n:
        raise ValueError(f"axes don't match array: {tuple(axes)} for {n} axes")
    return transposed(a, normalize_axis_tuple(axes, n))


@implements(np.matrix_transpose)
def matrix_transpose(x: Any, /) -> Any:
    """Return the last two axes swapped.

    Returns:
        Array (..., m, n) of (..., n, m), a view; dtype of `x`.

    Raises:
        ValueError: fewer than two axes.

    Derivative:
        The cotangent transposed.

    Example:
        >>> fnp.matrix_transpose(np.ones((5, 2, 3))).shape
        (5, 3, 2)
    """
    if len(x.shape) < 2:
        raise ValueError(f"matrix_transpose needs at least two axes, not {len(x.shape)}")
    return swapaxes(x, -1, -2)


@implements(np.swapaxes)
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Return two axes swapped.

    Returns:
        Array of the elements of `a` with two axes swapped, a view.

    Raises:
        AxisError: an axis out of bounds.

    Derivative:
        The cotangent with the same axes swapped.

    Example:
        >>> fnp.swapaxes(np.ones((2, 3, 4)), 0, 2).shape
        (4, 3, 2)
    """
    a = as_value(a)
    n = len(a.shape)
    i, j = normalize_axis_index(axis1, n), normalize_axis_index(axis2, n)
    order = list(range(n))
    order[i], order[j] = j, i
    return transposed(a, tuple(order))


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Return axes moved to new positions, the others in their order.

    Returns:
        Array of the elements of `a` with its axes in another order, a view.

    Raises:
        AxisError: an axis out of bounds.

    Derivative:
        The cotangent with its axes moved back.

    Example:
        >>> fnp.moveaxis(np.ones((2, 3, 4)), 0, -1).shape
        (3, 4, 2)
    """
    a = as_value(a)
    n = len(a.shape)
    s, d = normalize_axis_tuple(source, n, "source"), normalize_axis_tuple(destination, n, "destination")
    if len(s) != len(d):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [i for i in range(n) if i not in s]
    for place, i in sorted(zip(d, s, strict=True)):
        order.insert(place, i)
    return transposed(a, tuple(order))


@implements(np.rollaxis)
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """Return an axis rolled back until it lies before the axis `start`.

    Returns:
        Array of the elements of `a` with its axes in another order, a view.

    Raises:
        AxisError: an axis out of bounds.

    Derivative:
        The cotangent with its axes moved back.

    Example:
        >>> fnp.rollaxis(np.ones((2, 3, 4)), 2).shape
        (4, 2, 3)
    """
    n = len(as_value(a).shape)
    axis = normalize_axis_index(axis, n)
    start = start + n if start < 0 else start
    if not 0 <= start <= n:
        raise np.exceptions.AxisError(start, n + 1)
    return moveaxis(a, axis, start - (axis < start))


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Any:
    """Return `a` without axes of length one.

    Returns:
        Array of the elements of `a`, a view.

    Raises:
        ValueError: an axis in `axis` is longer than one.

    Derivative:
        The identity.

    Example:
        >>> fnp.squeeze(np.ones((1, 3, 1))).shape
        (3,)
    """
    a = as_value(a)
    if not a.shape and axis in {0, -1}:  # numbers have one axis where NumPy asks for one
        axis = None
    axes = range(len(a.shape)) if axis is None else normalize_axis_tuple(axis, len(a.shape))
    if axis is not None and any(a.shape[i] != 1 for i in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return reshaped(a, tuple(n for i, n in enumerate(a.shape) if i not in axes or n != 1))


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Any:
    """Return `a` with new axes of length one.

    Returns:
        Array of the elements of `a`, with axes of length one at `axis`.

    Raises:
        AxisError: an axis out of bounds, or twice.

    Derivative:
        The identity.

    Example:
        >>> fnp.expand_dims(np.ones(3), (0, 2)).shape
        (1, 3, 1)
    """
    a = as_value(a)
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    n = len(a.shape) + len(axes)
    places = normalize_axis_tuple(axes, n)
    lengths = iter(a.shape)
    return reshaped(a, tuple(1 if i in places else next(lengths) for i in range(n)))


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """Return `array` repeated up to `shape`.

    Returns:
        Array of `shape` and of the dtype of `array`; its elements share memory, so it is read-only.

    Raises:
        ValueError: `shape` is none to which it broadcasts.

    Derivative:
        The sums of the cotangents over the axes along which it is repeated.

    Example:
        >>> fg.grad(lambda x: fnp.broadcast_to(x, (2, 3)).sum())(1.0)
        np.float64(6.0)
    """
    array = as_value(array)
    wanted = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    if np.broadcast_shapes(array.shape, wanted) != wanted:
        raise ValueError(f"cannot broadcast shape {array.shape} to shape {wanted}")
    return repeated(array, wanted)


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    """Return arrays repeated up to their common shape.

    Returns:
        Tuple of arrays of the common shape; dtypes stay.

    Raises:
        ValueError: shapes do not broadcast.

    Derivative:
        Of each array the sums of the cotangents over the axes along which it is repeated.

    Example:
        >>> [x.shape for x in fnp.broadcast_arrays(np.ones((2, 1)), np.ones(3))]
        [(2, 3), (2, 3)]
    """
    xs = list(map(as_array, alike(together(*args))))
    if not any(isinstance(x, Tensor) for x in xs):
        return np.broadcast_arrays(*xs, subok=subok)
    shape = np.broadcast_shapes(*(x.shape for x in xs))
    return tuple([_broadcast(x, shape) for x in xs])


def _broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    if tuple(x.shape) == shape:
        return x
    return reshaped(x, shape) if x.shape and math.prod(shape) == x.size else repeated(x, shape)


@implements(np.atleast_1d)
def atleast_1d(*arys: Any) -> Any:
    """Return arrays with at least one axis.

    Returns:
        One array, or a tuple of several; dtypes stay.

    Derivative:
        The identity.

    Example:
        >>> fnp.atleast_1d(3.0)
        array([3.])
    """
    found = alike([reshaped(x, x.shape or (1,)) for x in together(*arys)])
    return found[0] if len(found) == 1 else tuple(found)


@implements(np.atleast_2d)
def atleast_2d(*arys: Any) -> Any:
    """Return arrays with at least two axes, new ones in front.

    Returns:
        One array, or a tuple of several; dtypes stay.

    Derivative:
        The identity.

    Example:
        >>> fnp.atleast_2d(np.array([1.0, 2.0])).shape
        (1, 2)
    """
    found = alike([reshaped(x, (*(1,) * (2 - len(x.shape)), *x.shape)) for x in together(*arys)])
    return found[0] if len(found) == 1 else tuple(found)


@implements(np.atleast_3d)
def atleast_3d(*arys: Any) -> Any:
    """Return arrays with at least three axes, as NumPy arranges them.

    Returns:
        One array, or a tuple of several, vectors as (1, n, 1), matrices as (n, m, 1); dtypes stay.

    Derivative:
        The identity.

    Example:
        >>> fnp.atleast_3d(np.ones(2)).shape
        (1, 2, 1)
    """
    found = alike(
        [reshaped(x, np.atleast_3d(np.broadcast_to(np.int8(0), x.shape)).shape) for x in together(*arys)]
    )
    return found[0] if len(found) == 1 else tuple(found)


@implements(np.concatenate, np.concat)
def concatenate(
    arrays: Sequence[Any],
    /,
    axis: int | None = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: Any = "same_kind",
) -> Any:
    """Return arrays joined along an axis; None flattens them first.

    Returns:
        Array of the sum of lengths along the axis; the promoted dtype, or `dtype`.

    Raises:
        ValueError: no arrays, or other lengths differ.

    Derivative:
        The identity in each.

    Example:
        >>> fnp.concatenate([np.array([1.0, 2.0]), np.array([3.0])])
        array([1., 2., 3.])
    """
    xs = together(*arrays)
    if not xs:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    shapes = [tuple(x.shape) for x in xs]
    if () in shapes:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    place = normalize_axis_index(axis, len(shapes[0]))
    if len({(s[:place], s[place + 1 :]) for s in set(shapes)}) > 1:
        raise ValueError(
            f"all the input array dimensions except for the concatenation axis must match exactly, "
            f"but the shapes are {shapes}"
        )
    kinds = {x.dtype for x in xs}
    if dtype is not None or len(kinds) > 1:
        kind = np.result_type(*kinds) if dtype is None else np.dtype(dtype)
        xs = [cast(x, kind, casting) for x in xs]
    return stored(bind("concatenate", *xs, axis=place), out)


@implements(np.stack)
def stack(
    arrays: Sequence[Any], axis: int = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Any:
    """Return arrays of one shape joined along a new axis.

    Returns:
        Array with a new axis as long as there are arrays; the promoted dtype, or `dtype`.

    Raises:
        ValueError: no arrays, or shapes differ.

    Derivative:
        The identity in each.

    Example:
        >>> fnp.stack([np.array([1.0, 2.0]), np.array([3.0, 4.0])])
        array([[1., 2.],
               [3., 4.]])
    """
    xs = together(*arrays)
    if not xs:
        raise ValueError("need at least one array to stack")
    if len({x.shape for x in xs}) != 1:
        raise ValueError("all input arrays must have the same shape")
    place = normalize_axis_index(axis, len(xs[0].shape) + 1)
    if place == 0 and out is None and dtype is None and casting == "same_kind":
        return bind("stack", *xs)
    return concatenate([expand_dims(x, place) for x in xs], place, out, dtype=dtype, casting=casting)


@implements(np.vstack)
def vstack(tup: Sequence[Any], *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """Return arrays joined along the first axis, vectors as rows.

    Returns:
        Array (sum of rows, columns), of the promoted dtype, or `dtype`.

    Raises:
        ValueError: other lengths differ.

    Derivative:
        The identity in each.

    Example:
        >>> fnp.vstack([np.array([1.0, 2.0]), np.array([3.0, 4.0])])
        array([[1., 2.],
               [3., 4.]])
    """
    return concatenate([atleast_2d(x) for x in together(*tup)], 0, dtype=dtype, casting=casting)


@implements(np.hstack)
def hstack(tup: Sequence[Any], *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """Return arrays joined along the second axis, vectors along the first.

    Returns:
        Array of the sum of lengths along the axis; the promoted dtype, or `dtype`.

    Raises:
        ValueError: other lengths differ.

    Derivative:
        The identity in each.

    Example:
        >>> fnp.hstack([np.array([1.0]), np.array([2.0, 3.0])])
        array([1., 2., 3.])
    """
    xs = [atleast_1d(x) for x in together(*tup)]
    return concatenate(xs, 0 if xs and len(xs[0].shape) == 1 else 1, dtype=dtype, casting=casting)


@implements(np.dstack)
def dstack(tup: Sequence[Any]) -> Any:
    """Return arrays joined along the third axis.

    Returns:
        Array (n, m, sum of depths), of the promoted dtype.

    Raises:
        ValueError: other lengths differ.

    Derivative:
        The identity in each.

    Example:
        >>> fnp.dstack([np.ones(2), np.ones(2)]).shape
        (1, 2, 2)
    """
    return concatenate([atleast_3d(x) for x in together(*tup)], 2)


@implements(np.column_stack)
def column_stack(tup: Sequence[Any]) -> Any:
    """Return arrays joined along the second axis, vectors as columns.

    Returns:
        Array (n, columns of all), of the promoted dtype.

    Raises:
        ValueError: numbers of rows differ.

    Derivative:
        The identity in each.

    Example:
        >>> fnp.column_stack([np.array([1.0, 2.0]), np.array([3.0, 4.0])])
        array([[1., 3.],
               [2., 4.]])
    """
    return concatenate([x if len(x.shape) > 1 else reshape(x, (-1, 1)) for x in together(*tup)], 1)


@implements(getattr(np, "row_stack", None))
def row_stack(tup: Sequence[Any], *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """Return what `vstack` does; NumPy deprecates this name of it.

    Returns:
        Array (sum of rows, columns), of the promoted dtype, or `dtype`.

    Raises:
        ValueError: other lengths differ.

    Derivative:
        The identity in each.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     fnp.row_stack([np.array([1.0, 2.0]), np.ones((1, 2))]).shape
        (2, 2)
    """
    warnings.warn("`row_stack` alias is deprecated. Use `vstack` directly.", DeprecationWarning, stacklevel=2)
    return vstack(tup, dtype=dtype, casting=casting)


@extends(np.block)
def block(arrays: Any) -> Any:
    """Return arrays joined as nested lists show them: the innermost along the last axis, and so outwards.

    Returns:
        Array of as many axes as the lists are deep, at least those of the parts; the promoted dtype.

    Raises:
        TypeError: a tuple among the lists.
        ValueError: lists of unequal depth, empty ones, or arrays of incompatible shapes.

    Derivative:
        The identity in each part.

    Example:
        >>> fnp.block([[np.eye(1), np.zeros((1, 1))], [np.ones((1, 2))]])
        array([[1., 0.],
               [1., 1.]])
    """
    np.block(_placeholders(arrays))  # it finds what does not fit
    depth, leaves = _depth(arrays), together(*_leaves(arrays))
    rank = max([depth, *(len(x.shape) for x in leaves)])
    made = _joined_block(arrays, depth, rank, iter(leaves))
    return recopied(made, "C") if len(leaves) == 1 else made


def _placeholders(x: Any) -> Any:
    if isinstance(x, list):
        return list(map(_placeholders, x))
    return x if isinstance(x, tuple) else np.empty(x.shape if hasattr(x, "shape") else np.shape(x), bool)


def _depth(x: Any) -> int:
    return 1 + _depth(x[0]) if isinstance(x, list) else 0


def _leaves(x: Any) -> list[Any]:
    return [leaf for part in x for leaf in _leaves(part)] if isinstance(x, list) else [x]


def _joined_block(x: Any, depth: int, rank: int, leaves: Iterator[Any]) -> Any:
    if depth == 0:
        return ones_before(next(leaves), rank)
    return concatenate([_joined_block(part, depth - 1, rank, leaves) for part in x], -depth)


@implements(getattr(np, "unstack", None))
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Return the parts along an axis, which disappears; the inverse of `stack`.

    Returns:
        Tuple of arrays without the axis, views; of the dtype of `x`.

    Raises:
        ValueError: no axes.

    Derivative:
        The identity: the cotangents stacked again.

    Example:
        >>> fnp.unstack(np.array([[1.0, 2.0], [3.0, 4.0]]))
        (array([1., 2.]), array([3., 4.]))
    """
    x = as_value(x)
    if not x.shape:
        raise ValueError("Input array must be at least 1-d.")
    axis = normalize_axis_index(axis, len(x.shape))
    return tuple([sliced(x, (*(slice(None),) * axis, i)) for i in range(x.shape[axis])])


@implements(np.append)
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """Return `values` joined to the end of `arr`.

    Returns:
        Array of the lengths of both along the axis; None flattens both. The promoted dtype.

    Raises:
        ValueError: other lengths differ.

    Derivative:
        The identity in both.

    Example:
        >>> fnp.append(np.array([1.0, 2.0]), 3.0)
        array([1., 2., 3.])
    """
    both = together(arr, values)
    return concatenate([ravel(x) for x in both] if axis is None else both, axis or 0)


FEW = 16  # places: parts between them are joined, where an index for each element would take longer


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """Return `arr` with values inserted before indices along an axis; None flattens first.

    Args:
        arr: array, whose dtype the values take.
        obj: index, slice, sequence of indices, or boolean mask of the elements to insert before.
        values: what is inserted, broadcast to the new elements.
        axis: the axis, or None.

    Returns:
        Array longer by the values, of the dtype of `arr`.

    Raises:
        IndexError: an index out of bounds.
        ValueError: indices of more than one axis, or values of another shape.

    Derivative:
        The identity in `arr` and in `values`.

    Example:
        >>> fnp.insert(np.array([1.0, 3.0]), 1, 2.0)
        array([1., 2., 3.])
    """
    if not holds_tensor([arr, values]):
        return np.insert(arr, concrete(obj, "insert") if isinstance(obj, Tensor) else obj, values, axis)
    if number_type(values) is complex and as_value(arr).dtype.kind not in "cb":
        raise TypeError(f"a complex number cannot be inserted into an array of {as_value(arr).dtype}")
    arr = next_to(arr, values)
    x, axis = _flat_unless(arr, axis)
    n = x.shape[axis]
    single, places = _insertion_places(obj, n)
    new = as_target(values, x)
    if single:
        new = ones_before(new, len(x.shape))
        if np.ndim(obj) == 0 and not isinstance(obj, slice):
            new = moveaxis(new, 0, axis)  # a single place takes values as x[:, place] = values does
        count = new.shape[axis]
    else:
        count = places.size
        extra = max(0, len(new.shape) - len(x.shape))
        if new.shape[:extra] == (1,) * extra:  # as an assignment drops them
            new = linear.reshape(new, new.shape[extra:])
    new = linear.broadcast_to(new, (*x.shape[:axis], count, *x.shape[axis + 1 :]))
    lead = (slice(None),) * axis
    if single:
        k = int(places[0])
        sides = (bind("slice", x, index=(*lead, part)) for part in (slice(k), slice(k, None)))
        before, after = sides
        return unordered(bind("concatenate", before, new, after, axis=axis), x)
    if count <= FEW:
        order = np.argsort(places, kind="stable")
        parts = [bind("slice", x, index=(*lead, slice(a, b))) for a, b in pairwise([0, *places[order], n])]
        for i in range(count, 0, -1):
            parts.insert(i, bind("slice", new, index=(*lead, slice(k := int(order[i - 1]), k + 1))))
        return unordered(bind("concatenate", *parts, axis=axis), x)
    source = np.insert(np.arange(n), places, np.arange(n, n + count))
    longer = bind("concatenate", x, new, axis=axis)
    return unordered(bind("gather", longer, source, template=(*lead, HOLE), unique=True), x)


def _flat_unless(arr: Any, axis: int | None) -> tuple[Any, int]:
    """Return an array and its axis, flattened where the axis is None."""
    x = as_value(arr)
    return (ravel(x), 0) if axis is None else (x, normalize_axis_index(axis, len(x.shape)))


def _insertion_places(obj: Any, n: int) -> tuple[bool, Any]:
    """Return whether there is one place to insert at, and places that are not negative."""
    places = _places(obj, n, "insert")
    given = places if isinstance(obj, slice) else np.asarray(concrete(obj, "insert"))
    if given.dtype == np.uint64 and given.max(initial=0) > n:  # unlike in x[i], none counts from the end
        raise IndexError(f"index {obj} is out of bounds for axis with size {n}")
    if places.size == 1:
        k = int(places.reshape(()))
        if not -n <= k <= n:
            raise IndexError(f"index {obj} is out of bounds for axis with size {n}")
        return True, np.array([k % n if k < 0 else k])
    if not all(-n <= k <= n for k in (places.min(initial=0), places.max(initial=0))):
        raise IndexError(f"an index of {obj} is out of bounds for axis with size {n}")
    return False, np.where(places < 0, places + n, places)


def _places(obj: Any, n: int, name: str) -> Any:
    """Return what `insert` and `delete` take as an array of places, of one axis or none."""
    if isinstance(obj, slice):
        return np.arange(*obj.indices(n))
    places = np.asarray(concrete(obj, name))
    if places.dtype == bool:
        return np.flatnonzero(places) if places.ndim else places.astype(np.intp)
    if places.ndim > 1:
        raise ValueError(f"index array argument obj to {name} must be one dimensional or scalar")
    if places.size == 0:
        return places.astype(np.intp)
    if places.dtype.kind not in "iu":
        raise IndexError(f"indices to {name} must be integers, not {places.dtype}")
    return places.astype(np.intp)


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """Return `arr` without the elements `obj` along an axis; None flattens first.

    Args:
        arr: array.
        obj: index, slice, sequence of indices, or boolean mask of the elements to leave out.
        axis: the axis, or None.

    Returns:
        Array shorter by the elements left out, of the dtype of `arr`.

    Raises:
        IndexError: an index out of bounds.

    Derivative:
        The identity for the elements that stay, zero for the others.

    Example:
        >>> fnp.delete(np.array([1.0, 2.0, 3.0]), 1)
        array([1., 3.])
    """
    if isinstance(obj, Tensor):
        obj = concrete(obj, "delete")
    if not isinstance(arr, Tensor):
        return np.delete(as_value(arr), obj, axis)
    x, axis = _flat_unless(arr, axis)
    n, lead = x.shape[axis], (slice(None),) * axis
    if isinstance(obj, int | np.integer) and not isinstance(obj, bool) and -n <= obj < n:
        k = int(obj) % n
        sides = (bind("slice", x, index=(*lead, part)) for part in (slice(k), slice(k + 1, None)))
        return unordered(bind("concatenate", *sides, axis=axis), x)
    return unordered(bind("gather", x, np.delete(np.arange(n), obj), template=(*lead, HOLE), unique=True), x)


@implements(np.trim_zeros)
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """Return the smallest part that holds every element but zeros: cut in front ("f"), behind ("b") or both.

    Args:
        filt: array.
        trim: "fb", "f" or "b".
        axis: axis or axes that may become shorter; None: all.

    Returns:
        Part of `filt`, of its dtype.

    Raises:
        ValueError: an unknown `trim`.
        TypeError: values are not known, under `vmap` or while staged: the shape would depend on them.

    Derivative:
        The identity for what stays.

    Example:
        >>> fnp.trim_zeros(np.array([0.0, 1.0, 2.0, 0.0]))
        array([1., 2.])
    """
    if not holds_tensor(filt):
        cut: Callable[..., Any] = np.trim_zeros
        return cut(filt, trim) if axis is None else cut(filt, trim, axis)
    x = as_value(filt)
    n, sides = len(x.shape), trim.lower()
    if sides not in {"fb", "bf", "f", "b"}:
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    found = np.nonzero(concrete(x, "trim_zeros"))
    axes = range(n) if axis is None else normalize_axis_tuple(axis, n, "axis")
    index = [slice(None)] * n
    for i in axes:
        places = found[i]
        start, stop = (int(np.min(places)), int(np.max(places)) + 1) if places.size else (0, 0)
        whole = places.size > 0
        index[i] = slice(
            None if whole and "f" not in sides else start, None if whole and "b" not in sides else stop
        )
    return sliced(x, tuple(index))


@implements(np.resize)
def resize(a: Any, new_shape: Any) -> Any:
    """Return an array of `new_shape` filled with the elements of `a`, over again where there are too few.

    Returns:
        Array of `new_shape`, of the dtype of `a`.

    Raises:
        ValueError: a negative length.

    Derivative:
        Of each element the sum of the cotangents of its copies.

    Example:
        >>> fnp.resize(np.array([1.0, 2.0]), 5)
        array([1., 2., 1., 2., 1.])
    """
    a = as_value(a)
    if isinstance(a, np.ndarray):
        return np.resize(a, new_shape)
    lengths = tuple(
        map(operator.index, (new_shape,) if isinstance(new_shape, int | np.integer) else new_shape)
    )
    if any(n < 0 for n in lengths):
        raise ValueError("all elements of `new_shape` must be non-negative")
    x, size = ravel(a), math.prod(lengths)
    if x.size == 0:
        x = bind("slice_backward", x, shape=(1,), index=(slice(0),))  # zeros
    if size > x.size:
        times = -(-size // x.size)
        x = linear.reshape(linear.broadcast_to(x, (times, x.size)), (times * x.size,))
    return linear.reshape(bind("slice", x, index=(slice(size),)), tuple(map(int, lengths)))


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Return parts along an axis, of nearly equal length or split at indices.

    Returns:
        List of arrays, views of `ary` as NumPy's; of its dtype.

    Raises:
        ValueError: fewer than one section.

    Derivative:
        The identity: the cotangents joined again.

    Example:
        >>> [len(part) for part in fnp.array_split(np.arange(5.0), 2)]
        [3, 2]
    """
    ary = as_value(ary)
    axis = normalize_axis_index(axis, len(ary.shape))
    n = ary.shape[axis]
    if isinstance(indices_or_sections, int | np.integer):
        if indices_or_sections <= 0:
            raise ValueError("number sections must be larger than 0.")
        each, extra = divmod(n, int(indices_or_sections))
        ends = np.cumsum([0] + extra * [each + 1] + (int(indices_or_sections) - extra) * [each]).tolist()
    else:
        ends = [0, *map(operator.index, indices_or_sections), n]
    lead = (slice(None),) * axis
    return [sliced(ary, (*lead, slice(start, stop))) for start, stop in pairwise(ends)]


@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Return parts along an axis, of equal length or split at indices.

    Returns:
        List of arrays, of the dtype of `ary`.

    Raises:
        ValueError: parts would not be of equal length.

    Derivative:
        The identity: the cotangents joined again.

    Example:
        >>> fnp.split(np.array([1.0, 2.0, 3.0]), [1])
        [array([1.]), array([2., 3.])]
    """
    if isinstance(indices_or_sections, int | np.integer):
        n = as_value(ary).shape[axis]
        if n % indices_or_sections:
            raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


def _at_least(ary: Any, n: int, name: str) -> None:
    if len(as_value(ary).shape) < n:
        raise ValueError(f"{name} only works on arrays of {n} or more dimensions")


@implements(np.vsplit)
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Return parts along the first axis.

    Returns:
        List of arrays, of the dtype of `ary`.

    Raises:
        ValueError: fewer than two axes, or parts would not be of equal length.

    Derivative:
        The identity: the cotangents joined again.

    Example:
        >>> len(fnp.vsplit(np.ones((4, 1)), 2))
        2
    """
    _at_least(ary, 2, "vsplit")
    return split(ary, indices_or_sections, 0)


@implements(np.hsplit)
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Return parts along the second axis, of a vector along the first.

    Returns:
        List of arrays, of the dtype of `ary`.

    Raises:
        ValueError: no axes, or parts would not be of equal length.

    Derivative:
        The identity: the cotangents joined again.

    Example:
        >>> fnp.hsplit(np.array([1.0, 2.0, 3.0, 4.0]), 2)
        [array([1., 2.]), array([3., 4.])]
    """
    _at_least(ary, 1, "hsplit")
    return split(ary, indices_or_sections, 1 if len(as_value(ary).shape) > 1 else 0)


@implements(np.dsplit)
def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Return parts along the third axis.

    Returns:
        List of arrays, of the dtype of `ary`.

    Raises:
        ValueError: fewer than three axes, or parts would not be of equal length.

    Derivative:
        The identity: the cotangents joined again.

    Example:
        >>> len(fnp.dsplit(np.ones((1, 1, 4)), 2))
        2
    """
    _at_least(ary, 3, "dsplit")
    return split(ary, indices_or_sections, 2)


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> Any:
    """Return the order of elements reversed along axes.

    Returns:
        Array of the shape and dtype of `m`, a view; None: along all axes.

    Derivative:
        The cotangent reversed along the same axes.

    Example:
        >>> fnp.flip(np.array([1.0, 2.0, 3.0]))
        array([3., 2., 1.])
    """
    m = as_value(m)
    axes = range(len(m.shape)) if axis is None else normalize_axis_tuple(axis, len(m.shape))
    index = tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(len(m.shape)))
    return sliced(m, index)


@implements(np.fliplr)
def fliplr(m: Any) -> Any:
    """Return the order reversed along the second axis.

    Returns:
        Array of the shape and dtype of `m`, a view.

    Raises:
        ValueError: fewer than two axes.

    Derivative:
        The cotangent reversed along the same axis.

    Example:
        >>> fnp.fliplr(np.array([[1.0, 2.0]]))
        array([[2., 1.]])
    """
    return flip(m, 1)


@implements(np.flipud)
def flipud(m: Any) -> Any:
    """Return the order reversed along the first axis.

    Returns:
        Array of the shape and dtype of `m`, a view.

    Raises:
        ValueError: no axes.

    Derivative:
        The cotangent reversed along the same axis.

    Example:
        >>> fnp.flipud(np.array([1.0, 2.0]))
        array([2., 1.])
    """
    return flip(m, 0)


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """Return a plane turned by 90 degrees, k times, from the first towards the second axis.

    Returns:
        Array of the elements of `m`, a view.

    Raises:
        ValueError: the two axes are one.

    Derivative:
        The cotangent turned back.

    Example:
        >>> fnp.rot90(np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([[2., 4.],
               [1., 3.]])
    """
    a, b = normalize_axis_tuple(axes, len(as_value(m).shape))
    k %= 4
    if k == 0:
        return as_value(m)
    if k == 2:
        return flip(m, (a, b))
    return swapaxes(flip(m, b), a, b) if k == 1 else flip(swapaxes(m, a, b), b)


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Return elements moved along axes; those that leave come back at the other end.

    Returns:
        Array of the shape and dtype of `a`; without `axis` flattened and back.

    Derivative:
        The cotangent rolled back.

    Example:
        >>> fnp.roll(np.array([1.0, 2.0, 3.0]), 1)
        array([3., 1., 2.])
    """
    a = as_value(a)
    if axis is None and len(a.shape) != 1:
        return as_array(unordered(linear.reshape(roll(ravel(a), shift, 0), a.shape), a))
    axes = (0,) if axis is None else normalize_axis_tuple(axis, len(a.shape), allow_duplicate=True)
    several = np.ndim(shift) > 0 or len(axes) > 1
    moves = zip(*np.broadcast_arrays(shift, axes), strict=True) if several else [(shift, axes[0])]
    total = dict.fromkeys(axes, 0)
    for k, i in moves:
        total[int(i)] += int(k)
    places = {i: k % a.shape[i] for i, k in total.items() if a.size and k % a.shape[i]}
    if not places:  # the result is a copy all the same
        return alias(a) if isinstance(a, Tensor) else a.copy()
    return unordered(linear.roll(a, tuple(places.values()), tuple(places)), a)


@implements(np.tile)
def tile(A: Any, reps: Any) -> Any:  # noqa: N803 -- NumPy's name
    """Return `A` repeated `reps` times along each axis.

    Returns:
        Array of the lengths of `A` times `reps`, of its dtype; new axes in front.

    Derivative:
        Of each element the sum of the cotangents of its copies.

    Example:
        >>> fnp.tile(np.array([1.0, 2.0]), 2)
        array([1., 2., 1., 2.])
    """
    a = as_value(A)
    counts = (reps,) if isinstance(reps, int | np.integer) else tuple(map(_count, reps))
    n = max(len(a.shape), len(counts))
    shape = (*(1,) * (n - len(a.shape)), *a.shape)
    counts = (*(1,) * (n - len(counts)), *counts)
    pairs = tuple(k for c, m in zip(counts, shape, strict=True) for k in (c, m))
    spread = linear.broadcast_to(linear.reshape(a, tuple(k for m in shape for k in (1, m))), pairs)
    return linear.reshape(spread, tuple(c * m for c, m in zip(counts, shape, strict=True)))


def _count(x: Any) -> int:
    return int(x) if isinstance(x, np.bool_) else operator.index(x)


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    """Return each element along an axis repeated.

    Returns:
        Array of the shape of `a`, longer along the axis; None flattens first. Dtype of `a`.

    Raises:
        ValueError: negative numbers, or as many as there are elements are needed.
        TypeError: `repeats` is not known, under `vmap` or while staged: the shape would depend on it.

    Derivative:
        Of each element the sum of the cotangents of its copies.

    Example:
        >>> fnp.repeat(np.array([1.0, 2.0]), [1, 2])
        array([1., 2., 2.])
    """
    a = as_value(a)
    if axis is None or (not a.shape and axis in {0, -1}):
        a, axis = ravel(a), 0
    axis = normalize_axis_index(axis, len(a.shape))
    counts = np.asarray(concrete(repeats, "repeat"))
    if not counts.size and isinstance(repeats, list | tuple):
        counts = counts.astype(np.intp)
    n = a.shape[axis]
    if counts.size == 1 and counts.dtype.kind in "iu" and counts.flat[0] >= 0:
        k, lead, rest = int(counts.flat[0]), tuple(a.shape[:axis]), tuple(a.shape[axis + 1 :])
        spread = linear.broadcast_to(linear.reshape(a, (*lead, n, 1, *rest)), (*lead, n, k, *rest))
        return linear.reshape(spread, (*lead, n * k, *rest))
    places = np.repeat(np.arange(n), counts)
    return bind("gather", a, places, template=(*(slice(None),) * axis, HOLE))


@implements(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return the diagonal of a plane, as a new last axis.

    Returns:
        Array of the shape of `a` without the two axes, and the diagonal as last; dtype of `a`.

    Raises:
        ValueError: fewer than two axes, or equal ones.

    Derivative:
        The cotangent on the diagonal, zero elsewhere.

    Example:
        >>> fnp.diagonal(np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([1., 4.])
    """
    return _diagonal(moveaxis(a, (axis1, axis2), (-2, -1)), operator.index(offset))


@implements(np.diag)
def diag(v: Any, k: int = 0) -> Any:
    """Return the diagonal `k` of a matrix, or the matrix with a vector on its diagonal `k`.

    Returns:
        Vector of a matrix, or matrix (n + |k|, n + |k|) of a vector of n; dtype of `v`.

    Raises:
        ValueError: no axes, or more than two.

    Derivative:
        Linear: the cotangent on the diagonal, or the diagonal of the cotangent.

    Example:
        >>> fnp.diag(np.array([1.0, 2.0]))
        array([[1., 0.],
               [0., 2.]])
    """
    v = as_value(v)
    if len(v.shape) == 2:
        return diagonal(v, k)
    if len(v.shape) != 1:
        raise ValueError("Input must be 1- or 2-d.")
    k = operator.index(k)
    n = v.shape[0] + abs(k)
    i = np.arange(v.shape[0])
    return bind("scatter_add", v, i + max(-k, 0), i + max(k, 0), template=(HOLE, HOLE), shape=(n, n))


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Any:
    """Return the matrix with the flattened elements on its diagonal `k`.

    Returns:
        Array (n + |k|, n + |k|) of n elements, of their dtype.

    Derivative:
        The diagonal of the cotangent.

    Example:
        >>> fnp.diagflat(np.array([[1.0, 2.0]]))
        array([[1., 0.],
               [0., 2.]])
    """
    return diag(ravel(v), k)


@implements(np.tril)
def tril(m: Any, k: int = 0) -> Any:
    """Return the elements on and below the diagonal `k`, zeros above.

    Returns:
        Array of the shape and dtype of `m`.

    Raises:
        TypeError: no axes.

    Derivative:
        One below and on the diagonal, zero above.

    Example:
        >>> fnp.tril(np.ones((2, 2)))
        array([[1., 0.],
               [1., 1.]])
    """
    m = as_value(m)
    return bind("where", placed(m, _lower(m.shape, k)), m, np.zeros((), m.dtype))


@implements(np.triu)
def triu(m: Any, k: int = 0) -> Any:
    """Return the elements on and above the diagonal `k`, zeros below.

    Returns:
        Array of the shape and dtype of `m`.

    Raises:
        TypeError: no axes.

    Derivative:
        One above and on the diagonal, zero below.

    Example:
        >>> fnp.triu(np.ones((2, 2)))
        array([[1., 1.],
               [0., 1.]])
    """
    m = as_value(m)
    return bind("where", placed(m, _lower(m.shape, k - 1)), np.zeros((), m.dtype), m)


def _lower(shape: tuple[int, ...], k: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return where a matrix lies on or below the diagonal `k`; of a vector NumPy makes a square one."""
    if not shape:
        raise TypeError("a triangle needs an array with axes")
    return np.tri(shape[-2:][0], shape[-1], k, bool)


@implements(np.astype)
def astype(
    x: Any,
    dtype: Any,
    /,
    *,
    copy: bool = True,
    device: Any = None,
    casting: Any = "unsafe",
    order: Any = "K",
    subok: bool = True,
) -> Any:
    """Return `x` as `dtype`; complex to real takes the real part, integers have no gradient.

    Returns:
        Array of the shape of `x` and of `dtype`.

    Raises:
        TypeError: `casting` forbids it.

    Derivative:
        The identity between floats; of complex to real numbers that of `real`; zero where either is an
        integer.

    Example:
        >>> fnp.astype(fg.tensor([1.7, 2.0]), int)
        Tensor([1, 2])
    """
    x, kind = as_value(x), np.dtype(dtype)
    if device is not None and isinstance(x, Tensor):
        x = x.to(device)
    if not np.can_cast(x.dtype, kind, casting):
        raise TypeError(f"cannot cast from {x.dtype} to {kind} with casting={casting!r}")
    if isinstance(x, Tensor) and x.dtype == kind:
        return recopied(x, order) if copy else x
    if order == "A" and isinstance(x, Tensor):
        x = recopied(x, "A")
    made = bind("convert", x, dtype=kind)
    return recopied(made, order) if order in {"C", "F"} and isinstance(x, Tensor) else made


@implements(np.shape)
def shape(a: Any) -> tuple[int, ...]:
    """Return the lengths of the axes.

    Returns:
        A tuple of integers; known under `jit` and `vmap`.

    Derivative:
        None: the results are integers.

    Example:
        >>> fnp.shape(np.ones((2, 3)))
        (2, 3)
    """
    return tuple(as_value(a).shape)


@implements(np.ndim)
def ndim(a: Any) -> int:
    """Return the number of axes.

    Returns:
        An integer; known under `jit` and `vmap`.

    Derivative:
        None: the result is an integer.

    Example:
        >>> fnp.ndim(np.ones((2, 3)))
        2
    """
    return len(as_value(a).shape)


@implements(np.size)
def size(a: Any, axis: Any = None) -> int:
    """Return the number of elements, or of positions along axes.

    Returns:
        An integer; known under `jit` and `vmap`.

    Raises:
        AxisError: an axis out of bounds.

    Derivative:
        None: the result is an integer.

    Example:
        >>> fnp.size(np.ones((2, 3)))
        6
    """
    a = as_value(a)
    axes = range(len(a.shape)) if axis is None else normalize_axis_tuple(axis, len(a.shape))
    return math.prod(a.shape[i] for i in axes)
