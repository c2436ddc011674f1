"""Systems of equations, inverses and determinants."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.dispatch import bind
from fgrad.core.placement import near
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

    Returns:
        Array of the shape of `b`, whose leading axes broadcast with those of `a`; floats or complex numbers,
        integers give float64.

    Raises:
        LinAlgError: a matrix is singular, or not positive definite.
        ValueError: incompatible shapes, or an unknown `assume_a`.

    Derivative:
        ct_b = solve(a^T, ct), ct_a = -ct_b x^T: Giles (2008), 2.3.1; zero in elements of `a` that are not
        read. Of a symmetric `a` it is with respect to the triangle that is read.

    Differences from SciPy:
        The structure is not guessed where `assume_a` is None: `a` is a general matrix; and no warning is
        given of ill-conditioned ones.

    Example:
        >>> solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 8.0])
        array([1., 2.])
        >>> fg.grad(lambda b: solve([[2.0, 0.0], [0.0, 4.0]], b).sum())(np.array([2.0, 8.0]))
        array([0.5 , 0.25])
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

    Returns:
        Array of the shape of `b`, whose leading axes broadcast with those of `a`; floats or complex numbers,
        integers give float64.

    Raises:
        LinAlgError: there is a zero on the diagonal.
        ValueError: incompatible shapes, or an unknown `trans`.

    Derivative:
        Triangular systems again: Giles (2008), 2.3.1; zero in the triangle that is not read.

    Example:
        >>> solve_triangular([[2.0, 0.0], [1.0, 4.0]], [2.0, 9.0], lower=True)
        array([1., 2.])
        >>> low = np.array([[2.0, 0.0], [1.0, 4.0]])
        >>> fg.grad(lambda a: solve_triangular(a, np.array([2.0, 9.0]), lower=True).sum())(low) + 0.0
        array([[-0.375,  0.   ],
               [-0.25 , -0.5  ]])
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

    Returns:
        Array of the shape of `b`, whose leading axes broadcast with those of `ab`; floats or complex numbers,
        integers give float64.

    Raises:
        LinAlgError: a matrix is singular.
        ValueError: `ab` has another number of diagonals.

    Derivative:
        A banded system with the transposed matrix: Giles (2008), 2.3.1; zero in the corners of `ab` that are
        not read.

    Example:
        >>> solve_banded((0, 1), [[0.0, 1.0], [2.0, 4.0]], [5.0, 4.0])
        array([2., 1.])
        >>> bands = np.array([[0.0, 1.0], [2.0, 4.0]])
        >>> fg.grad(lambda ab: solve_banded((0, 1), ab, np.array([5.0, 4.0])).sum())(bands) + 0.0
        array([[ 0.   , -0.5  ],
               [-1.   , -0.125]])
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

    Returns:
        Array of the shape of `b`; floats or complex numbers, integers give float64.

    Raises:
        LinAlgError: the matrix is singular.
        ValueError: incompatible shapes.

    Derivative:
        In the column, the row and `b`: that of `solve`, summed along diagonals.

    Differences from SciPy:
        Levinson's recursion is not used: the time is that of `solve`, and a minor may be singular.

    Example:
        >>> solve_toeplitz([2.0, 1.0], [3.0, 3.0])
        array([1., 1.])
        >>> fg.grad(lambda c: solve_toeplitz(c, np.array([3.0, 3.0])).sum())(np.array([2.0, 1.0])).round(6)
        array([-0.666667, -0.666667])
    """
    return solve(_toeplitz(c_or_cr), b, check_finite=check_finite)


def matmul_toeplitz(c_or_cr: Any, x: Any, check_finite: bool = False, workers: int | None = None) -> Any:
    """Return the product of a Toeplitz matrix and a vector or matrix.

    Args:
        c_or_cr: the first column (m,), or a pair of first column and first row (n,), as in `toeplitz`.
        x: vector (n,), or matrix (n, k).
        check_finite: whether infinities and NaNs that can be seen are an error.
        workers: taken for SciPy's sake.

    Returns:
        Array (m,) or (m, k); floats or complex numbers, integers give float64.

    Raises:
        ValueError: incompatible shapes.

    Derivative:
        Of a bilinear function, in the column, the row and `x`.

    Differences from SciPy:
        The matrix is made and multiplied, not transformed by Fourier.

    Example:
        >>> matmul_toeplitz([1.0, 2.0], [3.0, 4.0])
        array([11., 10.])
        >>> fg.grad(lambda c: matmul_toeplitz(c, np.array([3.0, 4.0])).sum())(np.array([1.0, 2.0]))
        array([7., 7.])
    """
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

    Returns:
        Matrices of the shape of `a`; floats or complex numbers, integers give float64.

    Raises:
        LinAlgError: a matrix is singular, or not positive definite.
        ValueError: matrices that are not square, or an unknown `assume_a`.

    Derivative:
        -inv(a)^T ct inv(a)^T: Giles (2008), 2.2.3; zero in elements that `assume_a` and `lower` leave unread.

    Example:
        >>> inv([[2.0, 0.0], [0.0, 4.0]])
        array([[0.5 , 0.  ],
               [0.  , 0.25]])
        >>> fg.grad(lambda a: inv(a)[0, 0])(np.array([[2.0, 0.0], [0.0, 4.0]])) + 0.0
        array([[-0.25,  0.  ],
               [ 0.  ,  0.  ]])
    """
    a = arguments.square(a, check_finite=check_finite)
    return solve(a, matrices.identity(a), lower, check_finite=False, assume_a=assume_a)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the determinant of square matrices.

    Args:
        a: square matrices (..., n, n).
        overwrite_a: taken for SciPy's sake: nothing is overwritten.
        check_finite: whether infinities and NaNs that can be seen are an error.

    Returns:
        Array of the leading axes of `a`; floats or complex numbers, integers give float64.

    Raises:
        LinAlgError: a derivative beyond the third at a singular matrix.
        ValueError: matrices that are not square.

    Derivative:
        The matrix of cofactors, Giles (2008), 2.2.4; to third order also where the matrix is singular.

    Example:
        >>> det([[1.0, 2.0], [3.0, 4.0]])
        np.float64(-2.0)
        >>> fg.grad(det)(np.array([[1.0, 2.0], [2.0, 4.0]]))
        array([[ 4., -2.],
               [-2.,  1.]])
    """
    return linalg.det(arguments.square(a, check_finite=check_finite))


def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Any:
    """Return a norm of vectors or matrices.

    Args:
        a: array.
        ord: the order, as in `fgrad.numpy.linalg.norm`; None: the root of the sum of squares.
        axis: one axis for vectors, two for matrices; None: all.
        keepdims: whether the reduced axes stay with length one.
        check_finite: whether infinities and NaNs that can be seen are an error.

    Returns:
        Array of the shape of `a` without the axes; real floats.

    Raises:
        ValueError: an unknown order, or more than two axes.

    Derivative:
        Zero where the norm is zero, and for singular values that are zero; where n elements, rows or columns
        attain a maximum or minimum, 1 / n of it each.

    Example:
        >>> norm([3.0, 4.0])
        np.float64(5.0)
        >>> fg.grad(norm)(np.array([3.0, 4.0])), fg.grad(norm)(np.zeros(2))
        (array([0.6, 0.8]), array([0., 0.]))
    """
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

    Returns:
        Matrices (..., n, m), and with `return_rank` integers, of the leading axes.

    Raises:
        TypeError: `atol` inside vmap or jit, where values cannot be seen.
        ValueError: a negative tolerance.

    Derivative:
        That along matrices of the same rank: Golub & Pereyra (1973), SIAM J. Numer. Anal. 10; for another
        rank the pseudo-inverse jumps. None of the rank.

    Example:
        >>> pinv(np.array([[2.0, 0.0], [0.0, 0.0]])) + 0.0
        array([[0.5, 0. ],
               [0. , 0. ]])
        >>> fg.grad(lambda a: pinv(a).sum())(np.array([[2.0], [0.0]])) + 0.0
        array([[-0.25],
               [ 0.25]])
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
    """Return the pseudo-inverse of Hermitian matrices, and with `return_rank` the rank.

    Args:
        a: Hermitian matrices (..., n, n), of which one triangle is read.
        atol: as in `pinv`, of the sizes of eigenvalues.
        rtol: likewise.
        lower: which triangle.
        return_rank: whether to return the rank too.
        check_finite: whether infinities and NaNs that can be seen are an error.

    Returns:
        Matrices of the shape of `a`, and with `return_rank` integers, of the leading axes.

    Raises:
        TypeError: `atol` inside vmap or jit, where values cannot be seen.
        ValueError: matrices that are not square, or a negative tolerance.

    Derivative:
        That of `pinv`, with respect to the triangle that is read; zero in the other one.

    Example:
        >>> pinvh(np.diag([2.0, 0.0])).round(6) + 0.0
        array([[0.5, 0. ],
               [0. , 0. ]])
        >>> fg.grad(lambda a: pinvh(a)[0, 0])(np.diag([2.0, 4.0])).round(6) + 0.0
        array([[-0.25,  0.  ],
               [ 0.  ,  0.  ]])
    """
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

    Returns:
        x (n,) or (n, k), the sums of squared residuals (none unless m > n = rank), the rank, an integer, and
        the singular values (min(m, n),). Inside `vmap` and while tracing the rank is not known: residuals are
        given wherever m > n, NaN for a lower rank.

    Raises:
        LinAlgError: `a` or `b` has too many axes, or another number of rows.

    Derivative:
        In `a` and `b`: that of `pinv`, along matrices of the same rank: Golub & Pereyra (1973).

    Differences from SciPy:
        Singular values are returned whatever `lapack_driver` says.

    Example:
        >>> a = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
        >>> lstsq(a, np.array([1.0, 2.0, 3.0]))[0].round(6)
        array([1., 1.])
        >>> fg.grad(lambda b: lstsq(a, b)[0][1])(np.array([1.0, 2.0, 3.0])).round(6) + 0.0
        array([-0.5,  0. ,  0.5])
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

    Args:
        c_and_lower: matrices (..., n, n), and whether they are lower triangular.
        b: one vector (n,), or matrices (..., n, k).
        overwrite_b: taken for SciPy's sake: nothing is overwritten.
        check_finite: whether infinities and NaNs that can be seen are an error.

    Returns:
        Array of the shape of `b`, whose leading axes broadcast with those of the factor; floats or complex
        numbers.

    Raises:
        LinAlgError: there is a zero on the diagonal.
        ValueError: incompatible shapes.

    Derivative:
        That of two triangular systems, in `b` and in the triangle of the factor that is read.

    Example:
        >>> cho_solve((np.array([[2.0, 0.0], [1.0, 2.0]]), True), [4.0, 6.0])
        array([0.5, 1. ])
        >>> fg.grad(lambda x: cho_solve(([[x]], True), [1.0])[0])(2.0)  # of x^-2
        np.float64(-0.25)
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

    Returns:
        Array of the shape of `b`, whose leading axes broadcast with those of the factors; floats or complex
        numbers.

    Raises:
        LinAlgError: u is singular.
        ValueError: incompatible shapes, or an unknown `trans`.

    Derivative:
        That of two triangular systems, in `b` and in both factors; none in the exchanges.

    Example:
        >>> lu_solve((np.array([[2.0, 8.0], [0.5, -2.0]]), np.array([1, 1])), [3.0, 10.0])
        array([1., 1.])
        >>> fg.grad(lambda x: lu_solve(([[x]], [0]), [1.0])[0])(2.0)  # of 1 / x
        np.float64(-0.25)
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
