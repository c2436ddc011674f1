"""Systems of equations, inverses and determinants."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.placement import near
from fgrad.core.tensor import bind
from fgrad.extend.engine import as_array, as_value, concrete, matrices, permutation, systems, triangle
from fgrad.extend.engine import solve_triangular as _solve_triangular
from fgrad.numpy import linalg
from fgrad.scipy.linalg import arguments
from fgrad.scipy.linalg.special_matrices import toeplitz

_ASSUMED: dict[str | None, str] = {
    **dict.fromkeys((None, "gen", "general", "banded"), "general"),
    **dict.fromkeys(("sym", "symmetric"), "symmetric"),
    **dict.fromkeys(("her", "hermitian"), "hermitian"),
    **dict.fromkeys(("pos", "positive definite"), "positive definite"),
    **{name: name for name in ("diagonal", "tridiagonal", "upper triangular", "lower triangular")},
}


def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str | None = None,
    transposed: bool = False,
) -> Any:
    """Return the solution x of the linear systems a x = b.

    Args:
        a: square matrices (..., n, n).
        b: one vector (n,), or matrices (..., n, k) whose leading axes broadcast with those of `a`.
        lower: which triangle of a symmetric, Hermitian or positive definite `a` is read.
        overwrite_a: taken for SciPy's sake: nothing is overwritten.
        overwrite_b: likewise.
        check_finite: whether infinities and NaNs that can be seen are an error.
        assume_a: what `a` is ("general", "symmetric", "hermitian", "positive definite", "diagonal",
            "tridiagonal", "banded", "upper triangular", "lower triangular", and SciPy's short names);
            elements that this says nothing of are not read, and have no gradient.
        transposed: whether to solve a^T x = b.

    Raises:
        LinAlgError: a matrix is singular, or not positive definite.
        ValueError: incompatible shapes, or an unknown `assume_a`.

    Derivative:
        ct_b = solve(a^T, ct), ct_a = -ct_b x^T: Giles (2008), 2.3.1.
    """
    a = arguments.square(a, check_finite=check_finite)
    a, b, vector = arguments.system(a, b, "solve", check_finite=check_finite)
    if assume_a not in _ASSUMED:
        raise ValueError(f"{assume_a} is not a recognized matrix structure")
    return arguments.unwrapped(_solved(a, b, _ASSUMED[assume_a], lower, transposed), vector=vector)


def _solved(a: Any, b: Any, structure: str, lower: bool, transposed: bool) -> Any:
    n = a.shape[-1]
    if structure == "diagonal":
        return b / matrices.as_column(matrices.of_diagonal(a))
    if structure == "tridiagonal":
        ones = near(a).tri(n, k=1)
        a = a * as_array(ones * ones.T, a.dtype)
    if structure in {"symmetric", "hermitian", "positive definite"}:
        half = a * (matrices.below(a, n, a.dtype) if lower else matrices.below(a, n, a.dtype).T)
        a = half + (matrices.swapped(half) if structure == "symmetric" else matrices.adjoint(half))
    if transposed:
        a = matrices.swapped(a)
    if structure == "positive definite":
        return cho_solve((linalg.cholesky(a), True), b, check_finite=False)
    if structure.endswith("triangular"):
        return _solve_triangular(a, b, lower=(structure == "lower triangular") != transposed)
    return systems.solve(a, b)


def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return the solution x of the triangular systems a x = b.

    Args:
        a: square matrices (..., n, n), of which one triangle is read.
        b: one vector (n,), or matrices (..., n, k).
        trans: 0 or "N": a x = b, 1 or "T": a^T x = b, 2 or "C": a^H x = b.
        lower: which triangle is read.
        unit_diagonal: whether the diagonal counts as ones, and is not read.
        overwrite_b: taken for SciPy's sake: nothing is overwritten.
        check_finite: whether infinities and NaNs that can be seen are an error.

    Raises:
        LinAlgError: there is a zero on the diagonal.

    Derivative:
        Triangular systems again: Giles (2008), 2.3.1; zero in the triangle that is not read.
    """
    a = arguments.square(a, check_finite=check_finite)
    a, b, vector = arguments.system(a, b, "solve_triangular", check_finite=check_finite)
    kind = _transposition(trans, "solve_triangular")
    a = a if kind == 0 else matrices.swapped(a) if kind == 1 else matrices.adjoint(a)
    x = _solve_triangular(a, b, lower=bool(lower) != (kind > 0), unit=bool(unit_diagonal))
    return arguments.unwrapped(x, vector=vector)


def _transposition(trans: int | str, name: str) -> int:
    kind = {"N": 0, "T": 1, "C": 2}.get(trans, trans) if isinstance(trans, str) else trans
    if kind not in {0, 1, 2}:
        raise ValueError(f"{name}: trans must be 0 or 'N', 1 or 'T', 2 or 'C', not {trans!r}")
    return int(kind)


def solve_banded(
    l_and_u: tuple[int, int],
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return the solution x of banded systems a x = b.

    Args:
        l_and_u: the number of diagonals below and above the main one.
        ab: the diagonals (..., l + u + 1, n): ab[u + i - j, j] = a[i, j].
        b: one vector (n,), or matrices (..., n, k).
        overwrite_ab: taken for SciPy's sake: nothing is overwritten.
        overwrite_b: likewise.
        check_finite: whether infinities and NaNs that can be seen are an error.

    Raises:
        LinAlgError: a matrix is singular.
        ValueError: `ab` has another number of diagonals.

    Derivative:
        A banded system with the transposed matrix: Giles (2008), 2.3.1.
    """
    below, above = map(int, l_and_u)
    ab = arguments.matrices(ab, check_finite=check_finite)
    if ab.shape[-2] != below + above + 1:
        raise ValueError(
            f"invalid values for the number of lower and upper diagonals: l+u+1 ({below + above + 1}) does "
            f"not equal ab.shape[0] ({ab.shape[-2]})"
        )
    ab, b, vector = arguments.system(ab, b, "solve_banded", check_finite=check_finite)
    return arguments.unwrapped(bind("solve_banded", ab, b, below=below, above=above), vector=vector)


def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Any:
    """Return the solution of systems with Toeplitz matrices, by a general factorization of them.

    Args:
        c_or_cr: the first column, or a pair of first column and first row, as in `toeplitz`.
        b: one vector (n,), or matrices (n, k).
        check_finite: whether infinities and NaNs that can be seen are an error.
    """
    return solve(_toeplitz(c_or_cr), b, check_finite=check_finite)


def matmul_toeplitz(c_or_cr: Any, x: Any, check_finite: bool = False, workers: int | None = None) -> Any:
    """Return the product of a Toeplitz matrix, given as in `solve_toeplitz`, and a vector or matrix."""
    x = arguments.numbers(x, check_finite=check_finite)
    a, x = arguments.common(arguments.numbers(_toeplitz(c_or_cr), check_finite=check_finite), x)
    return a @ x


def _toeplitz(c_or_cr: Any) -> Any:
    return toeplitz(*c_or_cr) if isinstance(c_or_cr, tuple) else toeplitz(c_or_cr)


# ---- inverses and determinants


def inv(
    a: Any,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    assume_a: str | None = None,
    lower: bool = False,
) -> Any:
    """Return the inverse of square matrices; arguments as in `solve`.

    Derivative:
        -inv(a)^T ct inv(a)^T: Giles (2008), 2.2.3.
    """
    a = arguments.square(a, check_finite=check_finite)
    return solve(a, near(a).eye(a.shape[-1], dtype=a.dtype), lower, check_finite=False, assume_a=assume_a)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the determinant of square matrices; its derivative is right for singular ones too."""
    return linalg.det(arguments.square(a, check_finite=check_finite))


def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Any:
    """Return a norm of vectors or matrices; orders and derivative as in `fgrad.numpy.linalg.norm`."""
    return linalg.norm(arguments.numbers(a, check_finite=check_finite), ord, axis, keepdims)


def pinv(
    a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, check_finite: bool = True
) -> Any:
    """Return the pseudo-inverse of matrices, and with `return_rank` the rank.

    Args:
        a: matrices (..., m, n).
        atol: singular values up to atol + rtol * (the largest) count as zero; 0 by default.
        rtol: likewise; max(m, n) times the rounding unit by default.
        return_rank: whether to return the rank too.
        check_finite: whether infinities and NaNs that can be seen are an error.

    Derivative:
        That along matrices of the same rank: Golub & Pereyra (1973), SIAM J. Numer. Anal. 10.
    """
    a = arguments.matrices(a, check_finite=check_finite)
    return _pseudo_inverse(a, atol, rtol, return_rank=return_rank, hermitian=False)


def pinvh(
    a: Any,
    atol: Any = None,
    rtol: Any = None,
    lower: bool = True,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return the pseudo-inverse of Hermitian matrices, of which one triangle is read; otherwise as `pinv`."""
    a = arguments.square(a, check_finite=check_finite)
    a = a if lower else matrices.adjoint(a)
    return _pseudo_inverse(a, atol, rtol, return_rank=return_rank, hermitian=True)


def _pseudo_inverse(a: Any, atol: Any, rtol: Any, *, return_rank: bool, hermitian: bool) -> Any:
    if rtol is None:
        rtol = max(a.shape[-2:]) * np.finfo(a.dtype).eps if atol is None or not atol else 0.0
    if atol is not None and (atol < 0 or rtol < 0):
        raise ValueError("atol and rtol values must be positive.")
    if atol:
        top = np.linalg.norm(concrete(a, "pinv with atol"), 2, axis=(-2, -1))
        rtol = np.asarray(rtol + atol / np.where(top > 0, top, 1))
    inverse = linalg.pinv(a, rtol, hermitian)
    if not return_rank:
        return inverse
    return inverse, linalg.matrix_rank(a, hermitian=hermitian, rtol=rtol)


def lstsq(
    a: Any,
    b: Any,
    cond: float | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: str | None = None,
) -> tuple[Any, Any, Any, Any]:
    """Return the least-squares solution of a x = b of least norm, with residuals, rank and singular values.

    Args:
        a: one matrix (m, n).
        b: vector (m,) or matrix (m, k).
        cond: singular values below `cond` times the largest count as zero; None: the rounding unit.
        overwrite_a: taken for SciPy's sake: nothing is overwritten.
        overwrite_b: likewise.
        check_finite: whether infinities and NaNs that can be seen are an error.
        lapack_driver: taken for SciPy's sake.

    Derivative:
        That of `pinv`: Golub & Pereyra (1973).
    """
    a = arguments.matrices(a, check_finite=check_finite)
    b = arguments.numbers(b, check_finite=check_finite)
    x, residuals, rank, s = linalg.lstsq(a, b, np.finfo(a.dtype).eps if cond is None else cond)
    return x, residuals, rank, s


# ---- systems from factors


def cho_solve(
    c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """Return the solution x of a x = b from what `cho_factor` gave of `a`.

    Derivative:
        That of two triangular systems.
    """
    c, lower = c_and_lower
    c = arguments.square(c, check_finite=check_finite)
    c, b, vector = arguments.system(c, b, "cho_solve", check_finite=check_finite)
    c = c if lower else matrices.adjoint(c)
    y = _solve_triangular(c, b, lower=True)
    x = _solve_triangular(matrices.adjoint(c), y, lower=False)
    return arguments.unwrapped(x, vector=vector)


def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: Any,
    trans: int | str = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return the solution x of a x = b from what `lu_factor` gave of `a`.

    Args:
        lu_and_piv: both factors in one matrix, and the exchanges of rows.
        b: one vector (n,), or matrices (..., n, k).
        trans: 0: a x = b, 1: a^T x = b, 2: a^H x = b.
        overwrite_b: taken for SciPy's sake: nothing is overwritten.
        check_finite: whether infinities and NaNs that can be seen are an error.

    Derivative:
        That of two triangular systems.
    """
    lu, piv = lu_and_piv
    lu = arguments.square(lu, check_finite=check_finite)
    order = permutation(bind("pivot_order", as_value(piv)), lu.dtype)
    lu, b, vector = arguments.system(lu, b, "lu_solve", check_finite=check_finite)
    _, order = arguments.stacked(lu, order)
    kind = _transposition(trans, "lu_solve")
    if kind == 0:
        y = _solve_triangular(lu, matrices.matrix_product(order, b), lower=True, unit=True)
        x = _solve_triangular(lu, y, lower=False)
    else:
        lu = matrices.swapped(lu) if kind == 1 else matrices.adjoint(lu)
        y = _solve_triangular(lu, b, lower=True)
        x = matrices.matrix_product(matrices.swapped(order), _solve_triangular(lu, y, lower=False, unit=True))
    return arguments.unwrapped(x, vector=vector)


def lower_part(lu: Any, k: int) -> Any:
    """Return the factor with ones on its diagonal of both in one matrix: its first `k` columns."""
    left = matrices.columns(lu, 0, k)
    m = left.shape[-2]
    low = triangle(left, m, k, left.dtype, lower=True, strict=True)
    return left * low + near(left).eye(max(m, k), dtype=left.dtype)[:m, :k]
