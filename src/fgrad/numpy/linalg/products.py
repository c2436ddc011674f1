"""The products as the array API wants them: along the last axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.numpy import diagonals, products, shapes
from fgrad.numpy.arrays import together
from fgrad.numpy.linalg.arguments import linalg_function


@linalg_function(np.linalg.cross)
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the vector product of vectors with three components.

    Returns:
        Array of the shape to which both broadcast, of the promoted dtype.

    Raises:
        ValueError: an axis has not three components.

    Derivative:
        Linear in both.

    Example:
        >>> fnp.linalg.cross(np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))
        array([0., 0., 1.])
    """
    x, y = together(x1, x2)
    if x.shape[axis] != 3 or y.shape[axis] != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, "
            f"but they are {x.shape[axis]} and {y.shape[axis]} dimensional instead."
        )
    return products.cross(x, y, axis=axis)


@linalg_function(np.linalg.outer)
def outer(x1: Any, x2: Any, /) -> Any:
    """Return the products of every element of one vector with every element of another.

    Returns:
        Array (n, m), of the promoted dtype.

    Raises:
        ValueError: one is no vector.

    Derivative:
        Linear in both.

    Example:
        >>> fnp.linalg.outer(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        array([[3., 4.],
               [6., 8.]])
    """
    x, y = together(x1, x2)
    if len(x.shape) != 1 or len(y.shape) != 1:
        raise ValueError(
            "Input arrays must be one-dimensional, but they are "
            f"x1.ndim={len(x.shape)} and x2.ndim={len(y.shape)}."
        )
    return products.outer(x, y)


@linalg_function(np.linalg.diagonal)
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Return the diagonals of matrices, the last two axes.

    Returns:
        Array (..., k) of (..., n, m), of the dtype of `x`.

    Derivative:
        The cotangent on the diagonal, zero elsewhere.

    Example:
        >>> fnp.linalg.diagonal(np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([1., 4.])
    """
    return diagonals.diagonal(x, offset, -2, -1)


@linalg_function(np.linalg.trace)
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Return the sums along the diagonals of matrices, the last two axes.

    Returns:
        Array of the leading axes of `x`; small integers are widened as in `sum`.

    Derivative:
        One on the diagonal, zero elsewhere.

    Example:
        >>> fnp.linalg.trace(np.array([[1.0, 2.0], [3.0, 4.0]]))
        np.float64(5.0)
    """
    return products.trace(x, offset, -2, -1, dtype)


@linalg_function(np.linalg.matmul)
def matmul(x1: Any, x2: Any, /) -> Any:
    """Return the matrix product; axes before the last two broadcast, vectors are rows or columns at need.

    Returns:
        Array (..., n, m) of (..., n, k) and (..., k, m); the promoted dtype.

    Raises:
        ValueError: lengths of the summed axes differ.

    Derivative:
        Linear in both.

    Example:
        >>> fnp.linalg.matmul(np.ones((2, 3)), np.ones((3, 1)))
        array([[3.],
               [3.]])
    """
    return products.matmul(x1, x2)


@linalg_function(np.linalg.tensordot)
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Return the sum product over pairs of axes: the last of `x1` with the first of `x2`, or as listed.

    Returns:
        Array of the axes of `x1` that are not summed, then those of `x2`; the promoted dtype.

    Raises:
        ValueError: lengths of a pair of axes differ.

    Derivative:
        Linear in both.

    Example:
        >>> fnp.linalg.tensordot(np.ones((2, 3)), np.ones((3, 4)), axes=1).shape
        (2, 4)
    """
    return products.tensordot(x1, x2, axes)


@linalg_function(np.linalg.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the sum of conj(x1) * x2 over an axis, with broadcasting.

    Returns:
        Array of the axes that broadcast, without the summed one; the promoted dtype.

    Raises:
        ValueError: lengths of the summed axis differ.

    Derivative:
        Linear in `x2`, and in the conjugate of `x1`.

    Example:
        >>> fnp.linalg.vecdot(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        np.float64(11.0)
    """
    return products.vecdot(x1, x2, axis=axis)


@linalg_function(np.linalg.matrix_transpose)
def matrix_transpose(x: Any, /) -> Any:
    """Return the last two axes swapped.

    Returns:
        Array (..., m, n) of (..., n, m), a view; dtype of `x`.

    Raises:
        ValueError: fewer than two axes.

    Derivative:
        The cotangent transposed.

    Example:
        >>> fnp.linalg.matrix_transpose(np.ones((2, 3))).shape
        (3, 2)
    """
    return shapes.matrix_transpose(x)
