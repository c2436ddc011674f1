"""Factorizations and singular values, with NumPy's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.compat.numpy import QRResult, SVDResult
from fgrad.core.dispatch import bind, unary
from fgrad.core.tensor import is_traced, wrap
from fgrad.numpy.indexing import stop_gradient, take_along_axis
from fgrad.numpy.linalg.arguments import linalg_function, square_matrices, stacked_matrices
from fgrad.numpy.linalg.eigenvalues import eigh, eigvalsh
from fgrad.numpy.ordering import argsort, sort
from fgrad.numpy.permutations import flip
from fgrad.ops import linear, matrices, undetermined


@linalg_function(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """Return the triangular factor l of a = l l^H, or with `upper` r of a = r^H r.

    Args:
        a: positive definite Hermitian matrices, of which only the lower (upper) triangle is read.
        upper: whether to read the upper triangle and return an upper triangular factor.

    Returns:
        Array of the shape of `a`, triangular; floats or complex numbers, integers give float64.

    Raises:
        LinAlgError: a matrix is not positive definite.

    Derivative:
        With respect to the triangle that is read; zero in the other one.

    Source:
        Murray (2016), Differentiation of the Cholesky decomposition, arXiv:1602.07527.

    Example:
        >>> fnp.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
        array([[2., 0.],
               [1., 2.]])
    """
    a = square_matrices(a)
    if upper:
        return matrices.adjoint(bind("cholesky", matrices.adjoint(a)))
    return bind("cholesky", a)


@linalg_function(np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    """Return q with orthonormal columns and r, upper triangular, with a = q r.

    Args:
        a: matrices (..., m, n).
        mode: 'reduced', 'complete' (square q) or 'r' (r alone). 'raw' has no derivative.

    Returns:
        Named tuple of `Q` and `R`; with "r" the array R alone. Floats or complex numbers.

    Raises:
        LinAlgError: it is differentiated where the first min(m, n) columns are linearly dependent, or the
            result depends on the columns of a complete q that are not determined.
        TypeError: mode 'raw' of a Tensor that is being differentiated.

    Derivative:
        Of `Q` and `R` where columns are independent; elsewhere `LinAlgError`, but zero for a zero cotangent.

    Source:
        Walter & Lehmann (2018), Algorithmic differentiation of linear algebra functions with application in
        optimum experimental design; Roberts & Roberts (2020), arXiv:2009.10071, for wide matrices.

    Example:
        >>> abs(fnp.linalg.qr(np.array([[3.0, 1.0], [4.0, 2.0]])).R.round(6))
        array([[5. , 2.2],
               [0. , 0.4]])
    """
    if mode not in {"reduced", "complete", "r", "raw"}:
        raise ValueError(f"Unrecognized mode '{mode}'")
    a = stacked_matrices(a)
    if mode == "raw":
        return tuple(bind("qr_raw", a))
    m, n = a.shape[-2:]
    q, r = bind("qr", a, mode="complete" if mode == "complete" and m > n else "reduced")
    return r if mode == "r" else QRResult(q, r)


@linalg_function(np.linalg.svd)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Return the singular value decomposition a = u diag(s) vh.

    Args:
        a: matrices (..., m, n).
        full_matrices: whether u and vh are square.
        compute_uv: whether to return u and vh, otherwise s alone.
        hermitian: whether `a` is Hermitian; then only its lower triangle is read.

    Returns:
        Named tuple of `U` (..., m, k), `S` (..., k), real, and `Vh` (..., k, n); without `compute_uv` S
        alone.

    Raises:
        LinAlgError: it is differentiated where singular vectors are not determined (equal singular values,
            phases, the null space) and the result depends on the choice.

    Derivative:
        Singular vectors of equal singular values: finite if the result does not depend on their choice.

    Source:
        Townsend (2016), Differentiating the singular value decomposition; Wan & Zhang (2019),
        arXiv:1909.02659, for complex matrices.

    Example:
        >>> fnp.linalg.svd(np.diag([1.0, 3.0])).S
        array([3., 1.])
    """
    if hermitian:
        return _hermitian_svd(a, compute_uv=compute_uv)
    a = stacked_matrices(a)
    if not compute_uv:
        if not is_traced(a):
            return wrap(np.linalg.svd(a._value, compute_uv=False))
        return _without_slope_at_zero(bind("svd", a, full_matrices=False)[1])
    m, n = a.shape[-2:]
    return SVDResult(*bind("svd", a, full_matrices=bool(full_matrices) and m != n))


def _without_slope_at_zero(s: Any) -> Any:
    """Return singular values; those that are zero to rounding have a kink there, as |x|."""
    if not s.shape[-1] or not is_traced(s):
        return s
    zero = linear.reshape(undetermined.negligible(matrices.as_row(s), s), s.shape)
    return bind("where", zero, stop_gradient(s), s)


def _hermitian_svd(a: Any, *, compute_uv: bool) -> Any:
    if not compute_uv:
        return _without_slope_at_zero(flip(sort(unary("absolute", eigvalsh(a))), -1))
    w, v = eigh(a)
    sign = bind("copysign", 1.0, stop_gradient(w))
    order = flip(argsort(unary("absolute", w)), -1)
    s, sign = (take_along_axis(x, order, -1) for x in (unary("absolute", w), sign))
    u = take_along_axis(v, matrices.as_row(order), -1)
    return SVDResult(u, s, matrices.adjoint(u * matrices.as_row(linear.convert(sign, s.dtype))))


@linalg_function(np.linalg.svdvals)
def svdvals(x: Any, /) -> Any:
    """Return the singular values of matrices, the largest first.

    Returns:
        Array (..., min(m, n)) of matrices (..., m, n), real floats.

    Raises:
        LinAlgError: fewer than two axes.

    Derivative:
        u_i v_i^H: Giles (2008), 3.2; of a singular value that is zero, where it has a kink, zero.

    Example:
        >>> fnp.linalg.svdvals(np.diag([1.0, 3.0]))
        array([3., 1.])
    """
    return svd(x, compute_uv=False)
