"""Linear algebra as JAX's `lax.linalg` has it: NaN in the place of errors, and products with reflectors.

A compiled or mapped program cannot raise for one matrix of many; with NaN it goes on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad.core.tensor import is_abstract
from fgrad.names import offered as _offered
from fgrad.ops.triangular import solve_triangular
from fgrad.transforms.callbacks import pure_callback
from fgrad.transforms.custom import custom_jvp

__all__ = ["cholesky", "ormqr", "symmetrized"]


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
    x = fnp.asarray(a)
    x = _adjoint(x) if upper else x
    try:
        low = _FACTOR(x) if is_abstract(x) else fnp.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        low = _FACTOR(x)
    return _adjoint(low) if upper else low


def _run(a: Any) -> Any:
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        if a.ndim > 2:
            return np.stack([_run(part) for part in a])
        return np.tril(np.full_like(a, np.nan))


def _push(primals: Any, tangents: Any) -> Any:
    # dl = l Phi(l^-1 da l^-H), Phi the lower triangle with half the diagonal
    low, (da,) = _FACTOR(*primals), tangents
    left = solve_triangular(low, fnp.tril(da) + _adjoint(fnp.tril(da, -1)), lower=True)
    both = _adjoint(solve_triangular(low, _adjoint(left), lower=True))
    return low, fnp.tril(low @ (fnp.tril(both) + fnp.tril(both, -1)) / 2)


# for matrices whose values are not known yet, so that nobody can be told of an error
_FACTOR: Any = custom_jvp(lambda a: pure_callback(_run, a, a, vmap_method="broadcast_all"))
_FACTOR.defjvp(_push)


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
