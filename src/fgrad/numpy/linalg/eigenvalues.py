"""Eigenvalues and eigenvectors, with NumPy's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.compat.numpy import EighResult, EigResult
from fgrad.core.dispatch import bind
from fgrad.core.tensor import is_abstract, is_traced, wrap
from fgrad.numpy.linalg.arguments import demand_finite, linalg_function, square_matrices, triangle
from fgrad.ops import linear


@linalg_function(np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> EighResult:  # noqa: N803 -- NumPy's name
    """Return the eigenvalues, in ascending order, and eigenvectors of Hermitian matrices.

    Args:
        a: matrices (..., n, n), of which one triangle is read.
        UPLO: which triangle: 'L' or 'U'.

    Returns:
        Named tuple of `eigenvalues` (..., n), real, and `eigenvectors` (..., n, n), as columns.

    Raises:
        LinAlgError: it is differentiated where eigenvectors are not determined (equal eigenvalues, phases)
            and the result depends on the choice.

    Derivative:
        With respect to the triangle that is read; zero in the other one. Eigenvectors of equal eigenvalues:
        finite if the result depends on eigenvalues alone, or on vectors alone but not on their choice.

    Source:
        Giles (2008), 3.1; Seeger, Hetzel, Dai, Meissner & Lawrence (2017), arXiv:1710.08717.

    Example:
        >>> fnp.linalg.eigh(np.array([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
        array([1., 3.])
    """
    return EighResult(*bind("eigh", square_matrices(a), uplo=triangle(UPLO)))


@linalg_function(np.linalg.eigvalsh)
def eigvalsh(a: Any, UPLO: str = "L") -> Any:  # noqa: N803 -- NumPy's name
    """Return the eigenvalues of Hermitian matrices in ascending order.

    Returns:
        Array (..., n) of matrices (..., n, n), real.

    Raises:
        LinAlgError: matrices are not square.

    Derivative:
        v_i v_i^H, with respect to the triangle that is read: Giles (2008), 3.1.

    Example:
        >>> fg.grad(lambda a: fnp.linalg.eigvalsh(a)[-1])(np.diag([1.0, 3.0]))
        array([[0., 0.],
               [0., 1.]])
    """
    a, uplo = square_matrices(a), triangle(UPLO)
    if not is_traced(a):
        return wrap(np.linalg.eigvalsh(a._value, uplo))
    return bind("eigh", a, uplo=uplo)[0]


@linalg_function(np.linalg.eig)
def eig(a: Any) -> EigResult:
    """Return the eigenvalues and eigenvectors, of length one, of square matrices.

    Real matrices have real results where every eigenvalue is real, and complex ones otherwise; inside `vmap`
    and while tracing, where values are not known, always complex ones.

    Returns:
        Named tuple of `eigenvalues` (..., n) and `eigenvectors` (..., n, n), as columns.

    Raises:
        LinAlgError: it is differentiated at a defective matrix, or the result depends on the phases of
            complex eigenvectors or on their choice for equal eigenvalues.

    Derivative:
        Of results that do not depend on the phases of the vectors; others raise.

    Source:
        Giles (2008), 3.1; Boeddeker et al. (2017), On the computation of complex-valued gradients with
        application to statistically optimum beamforming, arXiv:1701.00392.

    Example:
        >>> fnp.linalg.eig(np.diag([1.0, 2.0])).eigenvalues
        array([1., 2.])
    """
    a = demand_finite(square_matrices(a))
    w, v = bind("eig", a)
    return EigResult(*_real_if_possible(a, w, v))


@linalg_function(np.linalg.eigvals)
def eigvals(a: Any) -> Any:
    """Return the eigenvalues of square matrices; real or complex as those of `eig`.

    Returns:
        Array (..., n) of matrices (..., n, n).

    Raises:
        LinAlgError: matrices are not square, or hold infinities or NaN.

    Derivative:
        That of `eig`.

    Example:
        >>> np.sort(fnp.linalg.eigvals(np.array([[2.0, 1.0], [1.0, 2.0]])))
        array([1., 3.])
    """
    a = demand_finite(square_matrices(a))
    if not is_traced(a):
        return wrap(np.linalg.eigvals(a._value))
    return _real_if_possible(a, bind("eig", a)[0])[0]


def _real_if_possible(a: Any, w: Any, *others: Any) -> tuple[Any, ...]:
    if a.dtype.kind == "c" or is_abstract(w) or w._value.imag.any():
        return (w, *others)
    return tuple(map(linear.real, (w, *others)))
