"""Indices that only a running program knows: moved inside, read as one number, or left out of an update.

Python's integers are no such indices: they raise, so that a mistake is found where it is made.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad.core.tensor import Tensor
from fgrad.transforms.calling import is_traced

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


def scatter(x: Any, index: Any, value: Any, mode: str = "drop", *, add: bool = False) -> Any:
    """Return a copy of `x` after `x[index] = value`, where arrays of integers may be out of bounds.

    Args:
        x: array.
        index: as in `x[index]`.
        value: array that broadcasts to `x[index]`.
        mode: "drop" leaves out what is out of bounds; "clip" moves it inside.
        add: whether to add the value instead; repeated places add up.

    Returns:
        Tensor of the shape and dtype of `x`.

    Raises:
        ValueError: an unknown mode.

    Derivative:
        That of the assignment, or of the sum.

    Example:
        >>> scatter(np.zeros(3), np.array([1, 1, 7]), np.ones(3), add=True)
        Tensor([0., 2., 0.])
    """
    if mode not in {"clip", "drop"}:
        raise ValueError(f"scatter has the modes 'clip' and 'drop', not {mode!r}")
    update: Callable[[Any, Any, Any], None] = fnp.add.at if add else operator.setitem
    parts = _parts(index)
    at = [(_signed(parts[place]), x.shape[axis]) for place, axis in _outside(parts, x.shape)]
    if mode == "drop" and any(i.shape for i, _ in at):
        new, index = _padded(x, index, 0)
        new = fnp.array(new)
        update(new, index, value)
        return new[tuple(map(slice, x.shape))]
    index, new = _inside(index, x.shape), fnp.array(x)
    for i, n in at if mode == "drop" else ():
        value = fnp.where(_is_outside(i, n), 0 if add else x[index], value)
    update(new, index, value)
    return new


def dynamic_slice(x: Any, starts: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Return a part of an array, of a size that is known, from a place that need not be.

    Args:
        x: array.
        starts: for each axis an integer, from the end where it is negative; it is moved, so that the part
            lies inside.
        sizes: the shape of the part.

    Returns:
        Tensor of this shape and of the dtype of `x`.

    Derivative:
        That of the slice.

    Example:
        >>> fg.jit(lambda i: dynamic_slice(np.arange(5), [i], [2]))(2)
        array([2, 3])
    """
    return fnp.asarray(x)[_part(x, starts, sizes)]


def dynamic_update_slice(x: Any, update: Any, starts: Sequence[Any]) -> Any:
    """Return a copy of an array with another part, at a place that need not be known.

    Args:
        x: array.
        update: the part.
        starts: as in `dynamic_slice`.

    Returns:
        Tensor of the shape and dtype of `x`.

    Derivative:
        That of the assignment.

    Example:
        >>> fg.jit(lambda i: dynamic_update_slice(np.zeros(4), np.ones(2), [i]))(9)
        array([0., 0., 1., 1.])
    """
    new = fnp.array(x)
    new[_part(x, starts, update.shape)] = update
    return new


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
