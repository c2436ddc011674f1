"""Linear algebra as JAX's `lax.linalg` has it: NaN in the place of errors, and products with reflectors.

A compiled or mapped program cannot raise for one matrix of many; with NaN it goes on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad.core.dispatch import bind
from fgrad.names import offered as _offered
from fgrad.numpy.linalg.arguments import square_matrices
from fgrad.numpy.linalg.systems import solved
from fgrad.ops.systems import inverse

__all__ = ["cholesky", "inv", "ormqr", "solve", "symmetrized"]


def symmetrized(a: Any) -> Any:
    """Return the symmetric, or Hermitian, part of matrices.

    Args:
        a: array (..., n, n).

    Returns:
        (a + its adjoint) / 2.

    Example:
        >>> symmetrized(np.array([[1.0, 2.0], [0.0, 1.0]]))
        Tensor([[1., 1.],
                [1., 1.]])
    """
    x = fnp.asarray(a)
    return (x + _adjoint(x)) / 2


def cholesky(a: Any, *, upper: bool = False) -> Any:
    """Return the factor of positive definite matrices, and NaN of others.

    Args:
        a: array (..., n, n), of which the triangle of the factor is read.
        upper: whether the factor is an upper triangle.

    Returns:
        Array of the shape of `a`; the triangle of a matrix that is not positive definite is NaN.

    Derivative:
        That of `numpy.linalg.cholesky`.

    Source:
        Murray (2016), Differentiation of the Cholesky decomposition.

    Example:
        >>> cholesky(np.array([[[4.0, 0.0], [2.0, 5.0]], [[0.0, 0.0], [0.0, 1.0]]]))
        Tensor([[[ 2.,  0.],
                 [ 1.,  2.]],
        <BLANKLINE>
                [[nan,  0.],
                 [nan, nan]]])
    """
    x = square_matrices(fnp.asarray(a))
    x = _adjoint(x) if upper else x
    low = bind("cholesky_or_nan", x)
    return _adjoint(low) if upper else low


def solve(a: Any, b: Any) -> Any:
    """Return the solutions x of systems a x = b, which are NaN where a matrix is singular.

    Args:
        a: square matrices (..., n, n).
        b: one vector (n,), or matrices (..., n, k) whose leading axes broadcast with those of `a`.

    Returns:
        Array of the shape of `b`, with the leading axes of both; floats or complex numbers.

    Derivative:
        That of `numpy.linalg.solve`; NaN where the matrix is singular.

    Source:
        Giles (2008), An extended collection of matrix derivative results, 2.2.3.

    Example:
        >>> solve(np.array([np.eye(2), np.ones((2, 2))]), np.array([[1.0], [2.0]]))[..., 0]
        Tensor([[ 1.,  2.],
                [nan, nan]])
    """
    return solved(fnp.asarray(a), fnp.asarray(b), "nan")


def inv(a: Any) -> Any:
    """Return the inverse of matrices, which is NaN where a matrix is singular.

    Args:
        a: square matrices (..., n, n).

    Returns:
        Array of the shape of `a`; floats or complex numbers.

    Derivative:
        That of `numpy.linalg.inv`; NaN where the matrix is singular.

    Source:
        Giles (2008), An extended collection of matrix derivative results, 2.2.1.

    Example:
        >>> inv(np.array([[[2.0]], [[0.0]]])).ravel()
        Tensor([0.5, nan])
    """
    return inverse(square_matrices(fnp.asarray(a)), "nan")


def _adjoint(x: Any) -> Any:
    return fnp.conj(fnp.swapaxes(x, -1, -2))


def ormqr(a: Any, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Any:
    """Return the product of matrices and Q, or its adjoint, which are given by reflectors.

    Args:
        a: array (..., m, n), of which the part below the diagonal has the reflectors, as LAPACK's `geqrf`.
        taus: array (..., k) of their factors.
        c: array of matrices, (..., m, p) or, on the left, (..., p, m).
        left: whether Q stands on the left.
        transpose: whether to take its adjoint.

    Returns:
        Array of the shape of `c`.

    Derivative:
        That of the products with each reflector.

    Example:
        >>> import scipy.linalg
        >>> (a, taus), r = scipy.linalg.qr(np.array([[3.0, 1.0], [4.0, 2.0]]), mode="raw")
        >>> ormqr(a, taus, r).round(3)
        Tensor([[3., 1.],
                [4., 2.]])
    """
    a, taus, c = fnp.asarray(a), fnp.asarray(taus), fnp.asarray(c)
    rows = np.arange(a.shape[-2])
    steps = range(taus.shape[-1])
    for i in reversed(steps) if left != transpose else steps:
        v = fnp.where(rows > i, a[..., :, i], (rows == i).astype(a.dtype))
        tau = taus[..., i, None, None]
        tau = fnp.conj(tau) if transpose else tau
        column, row = v[..., :, None], fnp.conj(v)[..., None, :]
        c = c - tau * (column @ (row @ c) if left else (c @ column) @ row)
    return c


def __dir__() -> list[str]:
    return _offered(globals())
