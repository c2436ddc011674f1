"""Products, quotients, orders and running results, as JAX's `lax` has them and NumPy has not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fgrad import numpy as fnp
from fgrad.docstrings import completes
from fgrad.lax.maps import associative_scan

Axes = Sequence[int]

_running = completes(
    {
        "operand": "array.",
        "axis": "the axis along which results run.",
        "reverse": "whether they begin at the end.",
    },
    Returns="Array of the shape and dtype of `operand`.",
    Derivative="That of `associative_scan`.",
)


@_running
def cumsum(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Return sums of all elements up to each one.

    Example:
        >>> cumsum(np.array([1.0, 2.0, 3.0]), reverse=True)
        Tensor([6., 5., 3.])
    """
    return associative_scan(fnp.add, fnp.asarray(operand), reverse, axis)


@_running
def cumprod(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Return products of all elements up to each one.

    Example:
        >>> cumprod(np.array([1.0, 2.0, 3.0]))
        Tensor([1., 2., 6.])
    """
    return associative_scan(fnp.multiply, fnp.asarray(operand), reverse, axis)


@_running
def cummax(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Return the greatest of all elements up to each one.

    Example:
        >>> cummax(np.array([1.0, 3.0, 2.0]))
        Tensor([1., 3., 3.])
    """
    return associative_scan(fnp.maximum, fnp.asarray(operand), reverse, axis)


@_running
def cummin(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Return the least of all elements up to each one.

    Example:
        >>> cummin(np.array([2.0, 3.0, 1.0]))
        Tensor([2., 2., 1.])
    """
    return associative_scan(fnp.minimum, fnp.asarray(operand), reverse, axis)


@_running
def cumlogsumexp(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Return the logarithms of the summed exponentials of all elements up to each one, without overflow.

    Example:
        >>> cumlogsumexp(np.array([1000.0, 1000.0])).round(4)
        Tensor([1000.    , 1000.6931])
    """
    return associative_scan(fnp.logaddexp, fnp.asarray(operand), reverse, axis)


def div(x: Any, y: Any) -> Any:
    """Return quotients; those of integers are integers, rounded to zero as in C.

    Args:
        x: array.
        y: array of the same kind, which broadcasts.

    Returns:
        Array of the common dtype.

    Derivative:
        That of `true_divide`; of integers none.

    Example:
        >>> div(np.array([7, -7]), 2)
        Tensor([ 3, -3])
    """
    x, y = fnp.asarray(x), fnp.asarray(y)
    if x.dtype.kind not in "iu" or y.dtype.kind not in "iu":
        return fnp.true_divide(x, y)
    down = fnp.floor_divide(x, y)
    return fnp.where((down < 0) & (down * y != x), down + 1, down)


def dot_general(lhs: Any, rhs: Any, dimension_numbers: tuple[tuple[Axes, Axes], tuple[Axes, Axes]]) -> Any:
    """Return products of two arrays, summed over pairs of axes, for each place along other pairs.

    Args:
        lhs: array.
        rhs: array.
        dimension_numbers: ((axes of `lhs` and of `rhs` that are summed), (axes that are batches)).

    Returns:
        Array whose axes are those of batches, the rest of `lhs`, and the rest of `rhs`.

    Raises:
        ValueError: the axes of a pair have different lengths.

    Derivative:
        That of `einsum`.

    Example:
        >>> dot_general(np.ones((5, 2, 3)), np.ones((5, 3, 4)), (((2,), (1,)), ((0,), (0,)))).shape
        (5, 2, 4)
    """
    x, y = fnp.asarray(lhs), fnp.asarray(rhs)
    (summed, others), (batch, along) = dimension_numbers
    left = list(range(x.ndim))
    right = [x.ndim + k for k in range(y.ndim)]
    for mine, theirs in ((summed, others), (batch, along)):
        for i, j in zip(mine, theirs, strict=True):
            right[j] = left[i]
    first = [left[i] for i in batch]
    rest = [k for k in (*left, *right) if k not in first and (k in left) != (k in right)]
    return fnp.einsum(x, left, y, right, [*first, *rest])


def sort(operands: Sequence[Any], dimension: int = -1, num_keys: int = 1) -> tuple[Any, ...]:
    """Return several arrays in the order of the first of them; equal ones stay as they are.

    Args:
        operands: arrays of one shape.
        dimension: the axis along which they are sorted.
        num_keys: how many of them count: the second where the first are equal, and so on.

    Returns:
        The arrays in order.

    Derivative:
        Cotangents go back to where the elements were.

    Example:
        >>> sort([np.array([1, 0, 1]), np.array([5, 4, 3]), np.array([0, 1, 2])], num_keys=2)[2]
        Tensor([1, 2, 0])
    """
    arrays = [fnp.asarray(x) for x in operands]
    order: Any = None
    for key in reversed(arrays[:num_keys]):
        seen = key if order is None else fnp.take_along_axis(key, order, dimension)
        step = fnp.argsort(seen, dimension, stable=True)
        order = step if order is None else fnp.take_along_axis(order, step, dimension)
    return tuple([fnp.take_along_axis(x, order, dimension) for x in arrays])
