"""Powers, chains of products and determinants, with NumPy's names."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from fgrad.compat.numpy import SlogdetResult
from fgrad.core.dispatch import bind
from fgrad.core.tensor import wrap
from fgrad.core.views import unordered
from fgrad.numpy import products
from fgrad.numpy.arrays import as_value, together
from fgrad.numpy.linalg.arguments import linalg_function, square_matrices
from fgrad.numpy.linalg.systems import inv
from fgrad.numpy.registry import as_scalar, stored
from fgrad.ops import linear, matrices


@linalg_function(np.linalg.matrix_power)
def matrix_power(a: Any, n: Any) -> Any:
    """Return square matrices multiplied n times with themselves, or their inverses for negative n.

    Returns:
        Array of the shape of `a`.

    Raises:
        LinAlgError: matrices are not square, or `n` is negative and one is singular.
        TypeError: `n` is no integer.

    Derivative:
        By the chain of products, and that of `inv`.

    Example:
        >>> fnp.linalg.matrix_power(np.array([[1.0, 1.0], [0.0, 1.0]]), 3)
        array([[1., 3.],
               [0., 1.]])
    """
    a = as_value(a)
    if len(a.shape) < 2 or a.shape[-1] != a.shape[-2]:
        square_matrices(a)
    try:
        n = operator.index(n)
    except TypeError as error:
        raise TypeError("exponent must be an integer") from error
    if n == 0:
        return unordered(linear.broadcast_to(wrap(matrices.identity(a)), a.shape), a)
    square, n, result = (a, n, None) if n > 0 else (inv(a), -n, None)
    while n > 0:
        if n & 1:
            result = square if result is None else products.matmul(result, square)
        n >>= 1
        square = products.matmul(square, square) if n else square
    return result


@linalg_function(np.linalg.multi_dot)
def multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Any:
    """Return the product of a chain of matrices in the order that takes the fewest multiplications.

    Args:
        arrays: at least two matrices; the first may be a row vector, the last a column vector.
        out: array or Tensor to be given the result.

    Returns:
        Array (n, m), without the axes of vectors at the ends; the promoted dtype.

    Raises:
        ValueError: fewer than two arrays, or shapes do not fit.

    Derivative:
        Linear in each.

    Source:
        Cormen, Leiserson, Rivest & Stein (2009), Introduction to Algorithms, 15.2.

    Example:
        >>> fnp.linalg.multi_dot([np.ones(2), np.ones((2, 3)), np.ones(3)])
        np.float64(6.0)
    """
    if len(arrays) < 2:
        raise ValueError("Expecting at least two arrays.")
    if len(arrays) == 2:
        return products.dot(arrays[0], arrays[1], out)
    xs = together(*arrays)
    first, last = len(xs[0].shape) == 1, len(xs[-1].shape) == 1
    xs[0] = matrices.as_row(xs[0]) if first else xs[0]
    xs[-1] = matrices.as_column(xs[-1]) if last else xs[-1]
    for x in xs:
        if len(x.shape) != 2:
            raise LinAlgError(f"{len(x.shape)}-dimensional array given. Array must be two-dimensional")
    y = _chain(xs, _splits([x.shape[0] for x in xs] + [xs[-1].shape[1]]), 0, len(xs) - 1)
    if first or last:
        y = linear.reshape(y, tuple(n for n, gone in zip(y.shape, (first, last), strict=True) if not gone))
    return stored(as_scalar(y), out)


def _splits(lengths: Sequence[int]) -> dict[tuple[int, int], int]:
    """Return where to split each part of a chain of matrices: matrix i has lengths[i] rows."""
    n = len(lengths) - 1
    cost = {(i, i): 0 for i in range(n)}
    best: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            costs = {
                k: cost[i, k] + cost[k + 1, j] + lengths[i] * lengths[k + 1] * lengths[j + 1]
                for k in range(i, j)
            }
            best[i, j] = min(costs, key=costs.__getitem__)
            cost[i, j] = costs[best[i, j]]
    return best


def _chain(xs: Sequence[Any], splits: dict[tuple[int, int], int], i: int, j: int) -> Any:
    if i == j:
        return xs[i]
    k = splits[i, j]
    return products.dot(_chain(xs, splits, i, k), _chain(xs, splits, k + 1, j))


@linalg_function(np.linalg.det)
def det(a: Any) -> Any:
    """Return the determinant of square matrices.

    Returns:
        Array of the leading axes of `a`; floats or complex numbers.

    Raises:
        LinAlgError: matrices are not square; a derivative beyond the third at a singular matrix.

    Derivative:
        The matrix of cofactors, Giles (2008), 2.2.4; to third order also where the matrix is singular.

    Example:
        >>> fnp.linalg.det(np.array([[1.0, 2.0], [3.0, 4.0]]))
        np.float64(-2.0000000000000004)
        >>> fg.grad(fnp.linalg.det)(np.array([[1.0, 2.0], [2.0, 4.0]]))
        array([[ 4., -2.],
               [-2.,  1.]])
    """
    return bind("det", square_matrices(a))


@linalg_function(np.linalg.slogdet)
def slogdet(a: Any) -> SlogdetResult:
    """Return the sign (or phase) and the logarithm of the absolute value of the determinant.

    Returns:
        Named tuple of `sign` and `logabsdet`, of the leading axes of `a`; the logarithm is real.

    Raises:
        LinAlgError: it is differentiated at a singular matrix, where its slope is infinite.

    Derivative:
        inv(a).T for the logarithm; the sign of real matrices is constant: Giles (2008), 2.2.4.

    Example:
        >>> fnp.linalg.slogdet(np.diag([2.0, 3.0])).sign
        np.float64(1.0)
    """
    return SlogdetResult(*bind("slogdet", square_matrices(a)))
