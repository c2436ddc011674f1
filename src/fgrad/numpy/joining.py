"""Arrays joined: along an axis, in stacks, in blocks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad.core.dispatch import bind
from fgrad.numpy.arrays import (
    ones_before,
    recopied,
    together,
)
from fgrad.numpy.registry import cast, extends, implements, stored
from fgrad.numpy.shapes import atleast_1d, atleast_2d, atleast_3d, expand_dims, ravel, reshape


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
