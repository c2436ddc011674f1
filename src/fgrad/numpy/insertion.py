"""Elements put in and left out: `insert`, `delete`, `resize`, `trim_zeros`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from fgrad.core.dispatch import bind
from fgrad.core.tensor import Tensor
from fgrad.core.views import unordered
from fgrad.numpy.arrays import (
    as_target,
    as_value,
    concrete,
    next_to,
    number_type,
    ones_before,
)
from fgrad.numpy.registry import holds_tensor, implements
from fgrad.numpy.shapes import moveaxis, ravel
from fgrad.numpy.views import sliced
from fgrad.ops import linear
from fgrad.ops.indices import HOLE

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
