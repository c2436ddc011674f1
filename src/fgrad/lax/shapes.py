"""Elements at other places, chosen, or added at places: JAX's words for what NumPy says by indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad import numpy as fnp
from fgrad.lax.indexing import scatter


def broadcast_in_dim(operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Any:
    """Return an array with more axes, along which it is repeated.

    Args:
        operand: array.
        shape: of the result.
        broadcast_dimensions: for each axis of `operand`, which axis of the result it becomes, in order.

    Returns:
        Array of this shape.

    Raises:
        ValueError: lengths differ, and are not one, or the axes are not in order.

    Derivative:
        Sums along the axes that are new.

    Example:
        >>> broadcast_in_dim(np.array([1.0, 2.0]), (2, 3), (0,))
        Tensor([[1., 1., 1.],
                [2., 2., 2.]])
    """
    x = fnp.asarray(operand)
    if list(broadcast_dimensions) != sorted(set(broadcast_dimensions)):
        raise ValueError(
            f"broadcast_in_dim takes axes in order, not {tuple(broadcast_dimensions)}: transpose"
        )
    lengths = [1] * len(shape)
    for k, axis in enumerate(broadcast_dimensions):
        lengths[axis] = x.shape[k]
    return fnp.broadcast_to(fnp.reshape(x, lengths), tuple(shape))


def slice_in_dim(
    operand: Any, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Any:
    """Return `operand[start_index:limit_index:stride]` along an axis.

    Args:
        operand: array.
        start_index: where it begins; None: at the first element.
        limit_index: where it ends; None: behind the last element.
        stride: the distance of elements.
        axis: the axis.

    Returns:
        Array of as many axes.

    Derivative:
        Cotangents go back to where the elements were.

    Example:
        >>> slice_in_dim(np.arange(6.0).reshape(2, 3), 0, 3, 2, axis=1)
        Tensor([[0., 2.],
                [3., 5.]])
    """
    x = fnp.asarray(operand)
    return x[(*(slice(None),) * (axis % x.ndim), slice(start_index, limit_index, stride))]


def select_n(which: Any, *cases: Any) -> Any:
    """Return elements of the case that a truth value or an integer names.

    Args:
        which: booleans or integers from zero; others take the last case.
        cases: arrays of the shape of the result.

    Returns:
        Array of the common dtype.

    Derivative:
        In each case the cotangent where it was chosen, and zero elsewhere.

    Example:
        >>> select_n(np.array([2, 0]), np.zeros(2), np.ones(2), np.full(2, 5.0))
        Tensor([5., 0.])
    """
    number, chosen = fnp.asarray(which).astype(np.int64), fnp.asarray(cases[-1])
    for k in reversed(range(len(cases) - 1)):
        chosen = fnp.where(number == k, cases[k], chosen)
    return chosen


def round_half_away(x: Any) -> Any:
    """Return elements rounded to integers, halves away from zero; `numpy.rint` rounds them to even.

    Args:
        x: real array of floating-point numbers.

    Returns:
        Array of the shape and dtype of `x`.

    Derivative:
        Zero.

    Example:
        >>> round_half_away(np.array([0.5, 1.5, -2.5, 0.49999999999999994]))
        Tensor([ 1.,  2., -3.,  0.])
    """
    x = fnp.asarray(x)
    whole = fnp.trunc(x)
    return fnp.where(fnp.abs(x - whole) == 0.5, whole + fnp.sign(x), fnp.rint(x))


class ScatterDimensionNumbers(NamedTuple):
    """Which axes of updates lie in windows, and which axes of the operand indices count.

    Example:
        >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
        >>> scatter_add(np.zeros(3), np.array([[2], [2]]), np.array([1.0, 5.0]), numbers)
        Tensor([0., 0., 6.])
    """

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]


def scatter_add(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    mode: str = "drop",
) -> Any:
    """Return a copy with updates added at places, of which every other axis is whole.

    Args:
        operand: array.
        scatter_indices: integers, with a last axis for the axes of `operand` that they count along.
        updates: array: an axis for each of the other axes of indices, and for each whole axis.
        dimension_numbers: which axes of `updates` are whole, and which of `operand` are not, twice.
        mode: as for `scatter`.

    Returns:
        Array of the shape and dtype of `operand`.

    Raises:
        NotImplementedError: windows are parts of axes.

    Derivative:
        In `operand` the cotangent, in `updates` its elements at the places.

    Example:
        >>> rows = ScatterDimensionNumbers((1,), (0,), (0,))
        >>> scatter_add(np.zeros((2, 2)), np.array([[1]]), np.array([[3.0, 4.0]]), rows)
        Tensor([[0., 0.],
                [3., 4.]])
    """
    axes = tuple(dimension_numbers.scatter_dims_to_operand_dims)
    if sorted(axes) != sorted(dimension_numbers.inserted_window_dims):
        raise NotImplementedError("scatter_add adds along whole axes: for parts of them, use scatter")
    x, indices, new = map(fnp.asarray, (operand, scatter_indices, updates))
    windows = tuple(dimension_numbers.update_window_dims)
    order = [k for k in range(new.ndim) if k not in windows] + list(windows)
    front = tuple(range(len(axes)))
    places = tuple(indices[..., k] for k in range(indices.shape[-1]))
    out = scatter(fnp.moveaxis(x, axes, front), places, fnp.transpose(new, order), mode, combine=fnp.add)
    return fnp.moveaxis(out, front, axes)
