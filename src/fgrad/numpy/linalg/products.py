"""The products as the array API wants them: along the last axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.numpy import products, shapes
from fgrad.numpy.arrays import together
from fgrad.numpy.linalg.arguments import linalg_function


@linalg_function(np.linalg.cross)
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the vector product of vectors with three components."""
    x, y = together(x1, x2)
    if x.shape[axis] != 3 or y.shape[axis] != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, "
            f"but they are {x.shape[axis]} and {y.shape[axis]} dimensional instead."
        )
    return products.cross(x, y, axis=axis)


@linalg_function(np.linalg.outer)
def outer(x1: Any, x2: Any, /) -> Any:
    """Return the products of every element of one vector with every element of another."""
    x, y = together(x1, x2)
    if len(x.shape) != 1 or len(y.shape) != 1:
        raise ValueError(
            "Input arrays must be one-dimensional, but they are "
            f"x1.ndim={len(x.shape)} and x2.ndim={len(y.shape)}."
        )
    return products.outer(x, y)


@linalg_function(np.linalg.diagonal)
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Return the diagonals of matrices, the last two axes."""
    return shapes.diagonal(x, offset, -2, -1)


@linalg_function(np.linalg.trace)
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Return the sums along the diagonals of matrices, the last two axes."""
    return products.trace(x, offset, -2, -1, dtype)


@linalg_function(np.linalg.matmul)
def matmul(x1: Any, x2: Any, /) -> Any:
    """Return the matrix product; axes before the last two broadcast, vectors are rows or columns at need."""
    return products.matmul(x1, x2)


@linalg_function(np.linalg.tensordot)
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Return the sum product over pairs of axes: the last of `x1` with the first of `x2`, or as listed."""
    return products.tensordot(x1, x2, axes)


@linalg_function(np.linalg.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the sum of conj(x1) * x2 over an axis, with broadcasting."""
    return products.vecdot(x1, x2, axis=axis)


@linalg_function(np.linalg.matrix_transpose)
def matrix_transpose(x: Any, /) -> Any:
    """Return the last two axes swapped."""
    return shapes.matrix_transpose(x)
