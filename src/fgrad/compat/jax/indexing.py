"""Indices that are out of bounds, in JAX's ways: moved inside, read as one number, or left out of an update.

Numbers of Python are no such indices: they raise, so that a mistake is found where it is made.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad.core.tensor import Tensor
from fgrad.transforms.calling import is_traced

__all__ = ["MODES", "added", "inside", "missing", "numbered", "padded", "replaced", "taken"]

MODES = (None, "promise_in_bounds", "clip", "fill", "drop")


def _outside(parts: list[Any], shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the place in the index, and the axis, of each array of integers that may be out of bounds."""
    found: list[tuple[int, int]] = []
    if not any(isinstance(part, Tensor) for part in parts):
        return found
    used, axis = sum(map(_axes, parts)), 0
    for place, part in enumerate(parts):
        if isinstance(part, Tensor) and part.dtype.kind in "iu" and _may_be_outside(part, shape[axis]):
            found.append((place, axis))
        axis += len(shape) - used if part is Ellipsis else _axes(part)
    return found


def _axes(part: Any) -> int:
    """Return how many axes a part of an index is for."""
    if part is None or part is Ellipsis or isinstance(part, bool | np.bool_):
        return 0
    is_mask = isinstance(part, Tensor | np.ndarray) and part.dtype.kind == "b"
    return len(part.shape) if is_mask else 1


def _may_be_outside(i: Tensor, length: int) -> bool:
    return bool(length) and (is_traced(i) or _is_outside(i.numpy(), length).any())


def _is_outside(i: Any, length: int) -> Any:
    return (i < -length) | (i >= length)


def _parts(index: Any) -> list[Any]:
    return list(index) if isinstance(index, tuple) else [index]


def inside(index: Any, shape: tuple[int, ...]) -> Any:
    """Return an index, of which arrays of integers are moved inside the bounds."""
    parts = _parts(index)
    for place, axis in _outside(parts, shape):
        i, n = _signed(parts[place]), shape[axis]
        parts[place] = fnp.clip(i, -n, n - 1)
    return tuple(parts)


def numbered(index: Any) -> Any:
    """Return an index with arrays in the place of Python's numbers."""
    return tuple(fnp.asarray(part) if type(part) is int else part for part in _parts(index))


def _signed(i: Tensor) -> Any:
    return i if i.dtype.kind == "i" and i.dtype.itemsize >= 4 else i.astype(np.int64)


def padded(x: Any, index: Any, value: Any) -> tuple[Any, Any]:
    """Return an array with one more place along axes, and an index, which is there what was out of bounds."""
    parts, widths = _parts(index), [(0, 0)] * len(x.shape)
    for place, axis in _outside(parts, x.shape):
        i, n = _signed(parts[place]), x.shape[axis]
        parts[place] = fnp.where(_is_outside(i, n), n, fnp.where(i < 0, i + n, i))
        widths[axis] = (0, 1)
    return fnp.pad(x, widths, constant_values=value) if (0, 1) in widths else x, tuple(parts)


def taken(x: Any, i: Tensor, axis: int, value: Any) -> Any:
    """Return elements along an axis, and a number where an index is out of bounds."""
    before, n = (slice(None),) * axis, x.shape[axis]
    if not _may_be_outside(i, n):
        return x[(*before, i)]
    i = _signed(i)
    is_missing = fnp.reshape(_is_outside(i, n), i.shape + (1,) * (len(x.shape) - 1 - axis))
    return fnp.where(is_missing, value, x[(*before, fnp.clip(i, -n, n - 1))])


def replaced(x: Any, index: Any, value: Any) -> Any:
    """Return a copy with other elements, but for those that are out of bounds."""
    return _updated(x, index, value, _set, operator.getitem)


def added(x: Any, index: Any, value: Any) -> Any:
    """Return a copy with something added, but for what is out of bounds; repeated places add up."""
    return _updated(x, index, value, _add, lambda _, __: 0)


def _updated(x: Any, index: Any, value: Any, update: Callable[..., None], idle: Callable[..., Any]) -> Any:
    """Return a copy after `update(copy, index, value)`; the value `idle(x, index)` would change nothing."""
    parts = _parts(index)
    at = [(_signed(parts[place]), x.shape[axis]) for place, axis in _outside(parts, x.shape)]
    if any(i.shape for i, _ in at):
        new, index = padded(x, index, 0)
        new = fnp.array(new)
        update(new, index, value)
        return new[tuple(map(slice, x.shape))]
    index, new = inside(index, x.shape), fnp.array(x)
    for i, n in at:
        value = fnp.where(_is_outside(i, n), idle(x, index), value)
    update(new, index, value)
    return new


def _set(x: Any, index: Any, value: Any) -> None:
    x[index] = value


def _add(x: Any, index: Any, value: Any) -> None:
    fnp.add.at(x, index, value)


def missing(dtype: np.dtype[Any]) -> Any:
    """Return what JAX reads out of bounds."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return limits.min if dtype.kind == "i" else limits.max
    return True if dtype.kind == "b" else np.nan
