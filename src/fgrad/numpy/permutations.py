"""Elements in another order, and repeated: flips, rotations, `roll`, `tile`, `repeat`."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from fgrad.core.dispatch import bind
from fgrad.core.tensor import Tensor, alias
from fgrad.core.views import unordered
from fgrad.numpy.arrays import (
    as_value,
    concrete,
)
from fgrad.numpy.registry import as_array, implements
from fgrad.numpy.shapes import ravel, swapaxes
from fgrad.numpy.views import sliced
from fgrad.ops import linear
from fgrad.ops.indices import HOLE


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
