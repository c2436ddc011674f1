"""Indices that only a running program knows: moved inside, read as one number, or left out of an update.

Python's integers are no such indices: they raise, so that a mistake is found where it is made.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad.core.primitive import MEDIUM
from fgrad.core.tensor import Tensor, is_traced
from fgrad.docstrings import completes
from fgrad.numpy.arrays import known

FEW = 4  # times as many elements as are asked for, at least, are not sorted
_ARRAYS = (Tensor, np.ndarray, np.integer)


def gather(x: Any, index: Any, mode: str = "clip", fill_value: Any = None) -> Any:
    """Return `x[index]`, where arrays of integers in the index may be out of bounds.

    Args:
        x: array.
        index: as in `x[index]`.
        mode: "clip" moves such integers inside; "fill" reads `fill_value` in their place.
        fill_value: a number; None: NaN, of integers the least one, of unsigned ones the greatest, or True.

    Returns:
        Tensor of the dtype of `x`.

    Raises:
        ValueError: an unknown mode.

    Derivative:
        That of `x[index]`, of the moved index; none where a number is filled in.

    Example:
        >>> x, i = np.array([1.0, 2.0]), np.array([0, 5])
        >>> gather(x, i), gather(x, i, "fill")
        (Tensor([1., 2.]), Tensor([ 1., nan]))
    """
    x = fnp.asarray(x)
    if mode == "clip":
        return x[_inside(index, x.shape)]
    if mode != "fill":
        raise ValueError(f"gather has the modes 'clip' and 'fill', not {mode!r}")
    fill = missing(x.dtype) if fill_value is None else fill_value
    *before, last = _parts(index)
    is_along_one = all(isinstance(part, slice) and part == slice(None) for part in before)
    if is_along_one and _outside([*before, last], x.shape):  # where no copy is needed
        i, n = _signed(last), x.shape[len(before)]
        is_missing = fnp.reshape(_is_outside(i, n), i.shape + (1,) * (len(x.shape) - len(before) - 1))
        return fnp.where(is_missing, fill, x[(*before, fnp.clip(i, -n, n - 1))])
    whole, index = _padded(x, index, fill)
    return whole[index]


def scatter(x: Any, index: Any, value: Any, mode: str = "drop", *, combine: Any = None) -> Any:
    """Return a copy of `x` after `x[index] = value`, where arrays of integers may be out of bounds.

    Args:
        x: array.
        index: as in `x[index]`.
        value: array that broadcasts to `x[index]`.
        mode: "drop" leaves out what is out of bounds; "clip" moves it inside.
        combine: a ufunc of what is there and the value, such as `np.add` or `np.maximum`, whose `at` comes to
            repeated places again; None: the value alone, of which later ones win.

    Returns:
        Tensor of the shape and dtype of `x`.

    Raises:
        ValueError: an unknown mode.

    Derivative:
        That of the assignment, or of the ufunc.

    Example:
        >>> scatter(np.zeros(3), np.array([1, 1, 7]), np.ones(3), combine=np.add)
        Tensor([0., 2., 0.])
        >>> scatter(np.ones(3), np.array([1, 1, 7]), np.array([2.0, 3.0, 4.0]), combine=np.multiply)
        Tensor([1., 6., 1.])
    """
    if mode not in {"clip", "drop"}:
        raise ValueError(f"scatter has the modes 'clip' and 'drop', not {mode!r}")
    parts = _parts(index)
    if combine and not any(isinstance(part, list) or getattr(part, "shape", ()) for part in parts):
        part = fnp.array(x[_inside(index, x.shape)])  # no place is there twice
        value, combine = combine(part, value, out=part), None
    update: Callable[[Any, Any, Any], None] = operator.setitem if combine is None else combine.at
    at = [(_signed(parts[place]), x.shape[axis]) for place, axis in _outside(parts, x.shape)]
    unchanged = combine and combine.identity
    if mode == "drop" and at and (any(i.shape for i, _ in at) or (combine and unchanged is None)):
        new, index = _padded(x, index, 0)
        new = fnp.array(new)
        update(new, index, value)
        return new[tuple(map(slice, x.shape))]
    index, new = _inside(index, x.shape), fnp.array(x)
    for i, n in at if mode == "drop" else ():
        value = fnp.where(_is_outside(i, n), unchanged if combine else x[index], value)
    update(new, index, value)
    return new


def take_along_axis(
    x: Any, indices: Any, axis: int | None = -1, mode: str = "fill", fill_value: Any = None
) -> Any:
    """Return elements by an index for each place along an axis, where indices may be out of bounds.

    Args:
        x: array.
        indices: integers, of as many axes as `x`; the others broadcast.
        axis: the axis; None: `x` is flattened.
        mode: as for `gather`.
        fill_value: as for `gather`.

    Returns:
        Tensor of the dtype of `x`.

    Raises:
        ValueError: an unknown mode.

    Derivative:
        That of `take_along_axis`, of the moved index; none where a number is filled in.

    Example:
        >>> take_along_axis(np.array([[1.0, 2.0]]), np.array([[1, 5]]))
        Tensor([[ 2., nan]])
    """
    x, i = fnp.asarray(x), fnp.asarray(indices)
    if mode not in {"clip", "fill"}:
        raise ValueError(f"take_along_axis has the modes 'clip' and 'fill', not {mode!r}")
    n = x.size if axis is None else x.shape[axis]
    found = fnp.take_along_axis(x, fnp.clip(i, -n, n - 1), axis)
    if mode == "clip":
        return found
    return fnp.where(_is_outside(i, n), missing(x.dtype) if fill_value is None else fill_value, found)


_INTEGER = "an integer, from the end where it is negative; it is moved, so that the part lies inside."
_PART = {
    "x": "array.",
    "update": "the part.",
    "starts": f"for each axis {_INTEGER}",
    "start": _INTEGER,
    "index": _INTEGER,
    "axis": "the axis.",
}
_part_of = completes(_PART, Returns="Tensor of the dtype of `x`.", Derivative="That of the slice.")
_updated = completes(
    _PART, Returns="Tensor of the shape and dtype of `x`.", Derivative="That of the assignment."
)


@_part_of
def dynamic_slice(x: Any, starts: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Return a part of an array, of a size that is known, from a place that need not be.

    Args:
        sizes: the shape of the part.

    Returns:
        Tensor of this shape and of the dtype of `x`.

    Example:
        >>> fg.jit(lambda i: dynamic_slice(np.arange(5), [i], [2]))(2)
        array([2, 3])
    """
    return fnp.asarray(x)[_part(x, starts, sizes)]


@_part_of
def dynamic_slice_in_dim(x: Any, start: Any, size: int, axis: int = 0) -> Any:
    """Return a part of an array along one axis, of a size that is known, from a place that need not be.

    Args:
        size: the length of the part.

    Example:
        >>> fg.jit(lambda i: dynamic_slice_in_dim(np.eye(3), i, 1))(2)
        array([[0., 0., 1.]])
    """
    sizes, starts = list(x.shape), [0] * len(x.shape)
    sizes[axis], starts[axis] = size, start
    return dynamic_slice(x, starts, sizes)


@_part_of
def dynamic_index_in_dim(x: Any, index: Any, axis: int = 0, keepdims: bool = True) -> Any:
    """Return one place along an axis, which need not be known.

    Args:
        keepdims: whether the axis stays with length one.

    Example:
        >>> fg.jit(lambda i: dynamic_index_in_dim(np.eye(3), i, keepdims=False))(2)
        array([0., 0., 1.])
    """
    found = dynamic_slice_in_dim(x, index, 1, axis)
    return found if keepdims else fnp.squeeze(found, axis)


@_updated
def dynamic_update_slice(x: Any, update: Any, starts: Sequence[Any]) -> Any:
    """Return a copy of an array with another part, at a place that need not be known.

    Example:
        >>> fg.jit(lambda i: dynamic_update_slice(np.zeros(4), np.ones(2), [i]))(9)
        array([0., 0., 1., 1.])
    """
    new = fnp.array(x)
    new[_part(x, starts, np.shape(update))] = update
    return new


@_updated
def dynamic_update_slice_in_dim(x: Any, update: Any, start: Any, axis: int = 0) -> Any:
    """Return a copy of an array with another part along one axis, at a place that need not be known.

    Example:
        >>> fg.jit(lambda i: dynamic_update_slice_in_dim(np.zeros(4), np.ones(2), i))(9)
        array([0., 0., 1., 1.])
    """
    starts: list[Any] = [0] * len(x.shape)
    starts[axis] = start
    return dynamic_update_slice(x, update, starts)


@_updated
def dynamic_update_index_in_dim(x: Any, update: Any, index: Any, axis: int = 0) -> Any:
    """Return a copy of an array with another place along an axis, which need not be known.

    Args:
        update: what is there, with the axis or without it.

    Example:
        >>> fg.jit(lambda i: dynamic_update_index_in_dim(np.zeros((2, 2)), np.ones(2), i))(1)
        array([[0., 0.],
               [1., 1.]])
    """
    new = update if len(np.shape(update)) == len(x.shape) else fnp.expand_dims(update, axis)
    return dynamic_update_slice_in_dim(x, new, index, axis)


def pad(x: Any, value: Any, widths: Sequence[tuple[int, int, int]]) -> Any:
    """Return an array with a value around it and between its elements.

    Args:
        x: array.
        value: number.
        widths: for each axis, how many places come before, behind, and between any two elements; of the
            first two, less than none cut off.

    Returns:
        Tensor of the dtype of `x`.

    Derivative:
        In `x` the cotangent at its places, in `value` the sum of the others.

    Example:
        >>> pad(np.array([1.0, 2.0, 3.0]), 0.0, [(-1, 2, 1)])
        Tensor([0., 2., 0., 3., 0., 0.])
    """
    x = fnp.asarray(x)
    value = fnp.asarray(value).astype(x.dtype)
    for axis, (low, high, between) in enumerate(widths):
        length = x.shape[axis] + max(x.shape[axis] - 1, 0) * between
        places: list[Any] = [slice(None)] * len(x.shape)
        if between:
            wide = fnp.array(fnp.broadcast_to(value, (*x.shape[:axis], length, *x.shape[axis + 1 :])))
            places[axis] = slice(None, None, between + 1)
            wide[tuple(places)] = x
            x = wide
        around = [(0, 0)] * len(x.shape)
        around[axis] = (max(low, 0), max(high, 0))
        x = fnp.pad(x, around, constant_values=value)
        places[axis] = slice(max(-low, 0), x.shape[axis] - max(-high, 0))
        x = x[tuple(places)]
    return x


def top_k(x: Any, k: int, axis: int = -1, *, descending: bool = True) -> tuple[Any, Any]:
    """Return the greatest elements along an axis, the greatest first, and their indices.

    Args:
        x: real array.
        k: how many.
        axis: the axis.
        descending: whether they are the greatest; otherwise the least ones, the least first.

    Returns:
        Tensors of the dtype of `x` and of integers, of length `k` along the axis; equal elements stay in
        order.

    Derivative:
        That of the elements at these indices.

    Example:
        >>> top_k(np.array([1.0, 3.0, 2.0]), 2)
        (Tensor([3., 2.]), Tensor([1, 2]))
    """
    x = fnp.asarray(x)
    value = known(x)
    if value.__class__ is np.ndarray and 0 < k <= value.shape[axis] // FEW and value.size >= MEDIUM:
        found = _selected(np.moveaxis(value, axis, -1), k, descending=descending)
        if found is not None:
            places = Tensor(np.moveaxis(found, -1, axis))
            return fnp.take_along_axis(x, places, axis), places
    order = fnp.argsort(x, axis, stable=True, descending=descending)
    places = order[(*(slice(None),) * (axis % len(x.shape)), slice(k))]
    return fnp.take_along_axis(x, places, axis), places


def _selected(x: np.ndarray[Any, Any], k: int, *, descending: bool) -> Any:
    """Return what `top_k` does along the last axis of plain values, without sorting all; None beside NaN."""
    n = x.shape[-1]
    if x.dtype.kind not in "iuf" or (x.dtype.kind == "f" and np.isnan(x).any()):
        return None
    last = n - k if descending else k - 1
    limit = np.partition(x, last, axis=-1)[..., last : last + 1]
    inside, ties = (x > limit if descending else x < limit), x == limit
    missing = k - np.count_nonzero(inside, axis=-1, keepdims=True)
    if np.count_nonzero(ties) > np.sum(missing):
        ties &= np.cumsum(ties, axis=-1) <= missing  # of equal ones the first
    places = (np.flatnonzero(inside | ties) % n).reshape(*x.shape[:-1], k)
    values = np.take_along_axis(x, places, -1)
    if descending:
        order = k - 1 - np.flip(np.argsort(np.flip(values, -1), axis=-1, kind="stable"), -1)
    else:
        order = np.argsort(values, axis=-1, kind="stable")
    return np.take_along_axis(places, order, -1)


def _part(x: Any, starts: Sequence[Any], sizes: Sequence[int]) -> tuple[Any, ...]:
    """Return for each axis the indices of a slice, which is moved inside where it reaches outside."""
    found = []
    for axis, (start, size, length) in enumerate(zip(starts, sizes, x.shape, strict=True)):
        first = fnp.clip(fnp.where(start < 0, start + length, start), 0, length - size)
        found.append(fnp.reshape(first + fnp.arange(size), (size,) + (1,) * (len(sizes) - 1 - axis)))
    return tuple(found)


def _inside(index: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return an index, of which arrays of integers are moved inside the bounds."""
    parts = _parts(index)
    for place, axis in _outside(parts, shape):
        i, n = _signed(parts[place]), shape[axis]
        parts[place] = fnp.clip(i, -n, n - 1)
    return tuple(parts)


def _padded(x: Any, index: Any, value: Any) -> tuple[Any, Any]:
    """Return an array with one more place along axes, and an index, which is there what was out of bounds."""
    parts, widths = _parts(index), [(0, 0)] * len(x.shape)
    for place, axis in _outside(parts, x.shape):
        i, n = _signed(parts[place]), x.shape[axis]
        parts[place] = fnp.where(_is_outside(i, n), n, fnp.where(i < 0, i + n, i))
        widths[axis] = (0, 1)
    return fnp.pad(x, widths, constant_values=value) if (0, 1) in widths else x, tuple(parts)


def _outside(parts: list[Any], shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the place in the index, and the axis, of each array of integers that may be out of bounds."""
    found: list[tuple[int, int]] = []
    if not any(isinstance(part, _ARRAYS) for part in parts):
        return found
    used, axis = sum(map(_axes, parts)), 0
    for place, part in enumerate(parts):
        if isinstance(part, _ARRAYS) and part.dtype.kind in "iu" and _may_be_outside(part, shape[axis]):
            found.append((place, axis))
        axis += len(shape) - used if part is Ellipsis else _axes(part)
    return found


def _axes(part: Any) -> int:
    """Return how many axes a part of an index is for."""
    if part is None or part is Ellipsis or isinstance(part, bool | np.bool_):
        return 0
    is_mask = isinstance(part, _ARRAYS) and part.dtype.kind == "b"
    return len(part.shape) if is_mask else 1


def _may_be_outside(i: Any, length: int) -> bool:
    if isinstance(i, Tensor):
        if is_traced(i):
            return bool(length)
        i = i.numpy()
    return bool(length) and bool(_is_outside(i, length).any())


def _is_outside(i: Any, length: int) -> Any:
    return (i < -length) | (i >= length)


def _parts(index: Any) -> list[Any]:
    return list(index) if isinstance(index, tuple) else [index]


def _signed(i: Any) -> Any:
    return i if i.dtype.kind == "i" and i.dtype.itemsize >= 4 else i.astype(np.int64)


def missing(dtype: np.dtype[Any]) -> Any:
    """Return what is read out of bounds."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return limits.min if dtype.kind == "i" else limits.max
    return True if dtype.kind == "b" else np.nan
