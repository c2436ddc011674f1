"""Factorizations, eigenvalues and singular values."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg as reference

from fgrad.core.dispatch import bind
from fgrad.extend.engine import concrete, convert, matrices, permutation, solve_triangular, systems, triangle
from fgrad.numpy import linalg
from fgrad.numpy.indexing import take_along_axis
from fgrad.numpy.ordering import argsort
from fgrad.scipy.linalg import arguments
from fgrad.scipy.linalg.systems import lower_part

# ---- triangular factors


def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the triangular factor: l of a = l l^H if `lower`, else u of a = u^H u.

    Args:
        a: positive definite Hermitian matrices, of which the triangle of the factor is read.
        lower: which factor.
        overwrite_a: taken for SciPy's sake: nothing is overwritten.
        check_finite: whether infinities and NaNs that can be seen are an error.

    Returns:
        Matrices of the shape of `a`, triangular; floats or complex numbers, integers give float64.

    Raises:
        LinAlgError: a matrix is not positive definite.

    Derivative:
        With respect to the triangle that is read, zero in the other one: Murray (2016), arXiv:1602.07527.

    Example:
        >>> cholesky([[4.0, 2.0], [2.0, 5.0]], lower=True)
        array([[2., 0.],
               [1., 2.]])
        >>> fg.grad(lambda a: cholesky(a)[0, 1])(np.array([[4.0, 2.0], [2.0, 5.0]])) + 0.0  # of the upper one
        array([[-0.125,  0.5  ],
               [ 0.   ,  0.   ]])
    """
    return linalg.cholesky(arguments.square(a, check_finite=check_finite), upper=not lower)


def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, bool]:
    """Return what `cho_solve` takes: the factor of `cholesky`, and `lower`.

    Args:
        a: positive definite Hermitian matrices (..., n, n), of which the triangle of the factor is read.
        lower: which factor.
        overwrite_a: taken for SciPy's sake: nothing is overwritten.
        check_finite: whether infinities and NaNs that can be seen are an error.

    Returns:
        Triangular matrices of the shape of `a`, and a truth value.

    Raises:
        LinAlgError: a matrix is not positive definite.

    Derivative:
        That of `cholesky`.

    Differences from SciPy:
        The other triangle is zero; SciPy leaves there what was in `a`.

    Example:
        >>> cho_factor([[4.0, 2.0], [2.0, 5.0]])
        (array([[2., 1.],
               [0., 2.]]), False)
    """
    return cholesky(a, lower, overwrite_a, check_finite), bool(lower)


def lu(
    a: Any,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
) -> tuple[Any, ...]:
    """Return the factors p, l, u of a = p l u: a permutation, and a lower and an upper triangular matrix.

    Args:
        a: matrices (..., m, n).
        permute_l: whether to return p l and u.
        overwrite_a: taken for SciPy's sake: nothing is overwritten.
        check_finite: whether infinities and NaNs that can be seen are an error.
        p_indices: whether to return the permutation as indices: a = l[p] u.

    Returns:
        Permutation matrices p (..., m, m), real, l (..., m, k) with ones on the diagonal and u (..., k, n),
        where k = min(m, n); with `p_indices` integers p (..., m).

    Raises:
        LinAlgError: it is differentiated where u is singular.

    Derivative:
        Of l and u for a fixed permutation: de Hoog, Anderssen & Lukas (2011), Math. Comp. 80.

    Example:
        >>> p, l, u = lu([[1.0, 2.0], [2.0, 8.0]])
        >>> l, u
        (array([[1. , 0. ],
               [0.5, 1. ]]), array([[ 2.,  8.],
               [ 0., -2.]]))
        >>> fg.grad(lambda a: lu(a)[2][1, 1])(np.array([[1.0, 2.0], [2.0, 8.0]]))
        array([[-4. ,  1. ],
               [ 2. , -0.5]])
    """
    a = arguments.matrices(a, check_finite=check_finite)
    k = min(a.shape[-2:])
    packed, _, order = bind("lu_factor", a)
    top = matrices.rows(packed, 0, k)
    u = top * triangle(a, k, a.shape[-1], a.dtype, lower=False)
    low = lower_part(packed, k)
    if p_indices and not permute_l:
        return argsort(order, -1), low, u
    p = matrices.swapped(permutation(order, np.empty(0, a.dtype).real.dtype))
    return (matrices.matrix_product(convert(p, a.dtype), low), u) if permute_l else (p, low, u)


def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """Return what `lu_solve` takes: l and u in one matrix, and the exchanges of rows.

    Args:
        a: matrices (..., m, n).
        overwrite_a: taken for SciPy's sake: nothing is overwritten.
        check_finite: whether infinities and NaNs that can be seen are an error.

    Returns:
        Matrices of the shape of `a`, whose lower part holds l without its ones and whose upper part u, and
        integers (..., min(m, n)): row i was exchanged with the one of that number.

    Raises:
        LinAlgError: it is differentiated where u is singular.

    Derivative:
        That of `lu`; none of the exchanges.

    Example:
        >>> lu_factor(np.array([[1.0, 2.0], [2.0, 8.0]]))[0]
        array([[ 2. ,  8. ],
               [ 0.5, -2. ]])
    """
    packed, exchanges, _ = bind("lu_factor", arguments.matrices(a, check_finite=check_finite))
    return packed, exchanges


def ldl(
    A: Any,  # noqa: N803 -- SciPy's name
    lower: bool = True,
    hermitian: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> tuple[Any, Any, Any]:
    """Return l, d and the order of rows that makes l triangular, of a = l d l^H.

    Args:
        A: Hermitian matrices, or complex symmetric ones, of which one triangle is read.
        lower: whether to read the lower triangle and make l[order] lower triangular.
        hermitian: whether complex matrices are Hermitian, otherwise a = l d l^T.
        overwrite_a: taken for SciPy's sake: nothing is overwritten.
        check_finite: whether infinities and NaNs that can be seen are an error.

    Returns:
        l and d (..., n, n), of floats or complex numbers, and integers (..., n). d has blocks of one or two
        rows.

    Raises:
        LinAlgError: it is differentiated where d is singular.

    Derivative:
        That for a fixed order and fixed blocks of d, with respect to the triangle that is read.

    Example:
        >>> l, d, order = ldl([[4.0, 2.0], [2.0, 5.0]])
        >>> l, d, order
        (array([[1. , 0. ],
               [0.5, 1. ]]), array([[4., 0.],
               [0., 4.]]), array([0, 1]))
        >>> a = np.array([[4.0, 2.0], [2.0, 5.0]])
        >>> fg.grad(lambda a: ldl(a)[1][1, 1])(a) + 0.0  # of the lower triangle
        array([[ 0.25,  0.  ],
               [-1.  ,  1.  ]])
    """
    a = arguments.square(A, check_finite=check_finite)
    outer, d, order = bind("ldl", a, lower=bool(lower), hermitian=bool(hermitian))
    return outer, d, order


# ---- orthogonal factors


def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: int | None = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Any, ...]:
    """Return q with orthonormal columns and r, upper triangular, with a = q r.

    Args:
        a: matrices (..., m, n).
        overwrite_a: taken for SciPy's sake: nothing is overwritten.
        lwork: taken for SciPy's sake.
        mode: "full" (square q), "economic" or "r" (r alone, in a tuple). "raw" has no derivative.
        pivoting: whether to order columns by what is left of them, and to return their indices too:
            a[:, p] = q r.
        check_finite: whether infinities and NaNs that can be seen are an error.

    Returns:
        q (..., m, m) and r (..., m, n), with "economic" (..., m, k) and (..., k, n), where k = min(m, n), and
        with `pivoting` integers (..., n). Floats or complex numbers, integers give float64.

    Raises:
        LinAlgError: it is differentiated where columns are dependent, or the result depends on columns of a
            full q that are not determined.
        TypeError: with `pivoting`, inside vmap or jit, where values that decide cannot be seen.
        ValueError: an unknown mode.

    Derivative:
        That of `fgrad.numpy.linalg.qr`; with `pivoting` that for a fixed order.

    Differences from SciPy:
        Mode "raw" is not supported.

    Example:
        >>> a = np.array([[3.0, 1.0], [4.0, 2.0]])
        >>> abs(qr(a)[1].round(6))
        array([[5. , 2.2],
               [0. , 0.4]])
        >>> fg.grad(lambda a: abs(qr(a, mode="r")[0][0, 0]))(a).round(6) + 0.0
        array([[0.6, 0. ],
               [0.8, 0. ]])
    """
    if mode not in {"full", "r", "economic"}:
        reason = "is not supported: it has no derivative; use" if mode == "raw" else "is unknown; give"
        raise ValueError(f"qr: mode {mode!r} {reason} 'full', 'economic' or 'r'")
    a = arguments.matrices(a, check_finite=check_finite)
    places: tuple[Any, ...] = ()
    if pivoting:
        value = concrete(a, "qr with pivoting")
        flat = value.reshape((-1, *value.shape[-2:]))
        found = [reference.qr(m, mode="r", pivoting=True, check_finite=False)[1] for m in flat]
        places = (np.asarray(found, np.intp).reshape((*value.shape[:-2], value.shape[-1])),)
        a = take_along_axis(a, np.broadcast_to(places[0][..., None, :], value.shape), -1)
    m, n = a.shape[-2:]
    if mode == "r":
        r = bind("qr", a, mode="reduced")[1]
        k = min(m, n)
        return (
            bind("slice_backward", r, shape=tuple(a.shape), index=(..., slice(0, k), slice(None))),
            *places,
        )
    q, r = bind("qr", a, mode="complete" if mode == "full" and m > n else "reduced")
    return (q, r, *places)


def polar(a: Any, side: str = "right") -> tuple[Any, Any]:
    """Return u, with orthonormal columns or rows, and p, positive semidefinite, with a = u p or a = p u.

    Args:
        a: matrices (..., m, n).
        side: "right": a = u p; "left": a = p u.

    Returns:
        u (..., m, n), and p (..., n, n), on the left side (..., m, m); floats or complex numbers, integers
        give float64.

    Raises:
        LinAlgError: it is differentiated at a matrix that has not full rank.
        ValueError: another side.

    Derivative:
        By a Sylvester equation, for equal singular values too: Higham (2008), Functions of Matrices, 8.2.

    Example:
        >>> u, p = polar(np.array([[0.0, -2.0], [2.0, 0.0]]))
        >>> u.round(6) + 0.0, p.round(6) + 0.0
        (array([[ 0., -1.],
               [ 1.,  0.]]), array([[2., 0.],
               [0., 2.]]))
        >>> fg.grad(lambda t: polar(np.diag([2.0, 2.0]) * t)[1][0, 0])(1.0)  # u stays as it is
        np.float64(2.0)
    """
    if side not in {"right", "left"}:
        raise ValueError("`side` must be either 'right' or 'left'")
    a = arguments.matrices(a)
    wide = a.shape[-2] < a.shape[-1]
    u, p = bind("polar", matrices.adjoint(a) if wide else a)
    first, last = (u, matrices.adjoint(u))
    u = last if wide else u
    if wide == (side == "left"):
        return u, p
    return u, matrices.matrix_product(matrices.matrix_product(first, p), last)


def orthogonal_procrustes(A: Any, B: Any, check_finite: bool = True) -> tuple[Any, Any]:  # noqa: N803
    """Return the orthogonal matrix r for which |a r - b| is least, and the sum of singular values of a^H b.

    Args:
        A: matrices (..., m, n).
        B: matrices of the same shape.
        check_finite: whether infinities and NaNs that can be seen are an error.

    Returns:
        Arrays (..., n, n) of orthogonal or unitary matrices, and real sums, of the leading axes.

    Raises:
        LinAlgError: it is differentiated where a^H b has not full rank.
        ValueError: the shapes differ.

    Derivative:
        That of `polar`.

    Example:
        >>> r, scale = orthogonal_procrustes(np.eye(2), np.array([[0.0, 3.0], [-3.0, 0.0]]))
        >>> r.round(6) + 0.0, float(scale)
        (array([[ 0.,  1.],
               [-1.,  0.]]), 6.0)
    """
    a, b = (arguments.matrices(x, check_finite=check_finite) for x in (A, B))
    if a.shape != b.shape:
        raise ValueError(f"the shapes of A and B differ ({tuple(a.shape)} vs {tuple(b.shape)})")
    r, p = polar(matrices.matrix_product(matrices.adjoint(a), b))
    return r, linalg.trace(p).real


# ---- eigenvalues and singular values


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Return the singular value decomposition a = u diag(s) vh, or without `compute_uv` s alone.

    Args:
        a: matrices (..., m, n).
        full_matrices: whether u and vh are square.
        compute_uv: whether to return u and vh, otherwise s alone.
        overwrite_a: taken for SciPy's sake: nothing is overwritten.
        check_finite: whether infinities and NaNs that can be seen are an error.
        lapack_driver: "gesdd" or "gesvd"; both give what NumPy's does.

    Returns:
        Tuple of u (..., m, k), s (..., k), real, the largest first, and vh (..., k, n), k = min(m, n) or as
        `full_matrices` says; without `compute_uv` s alone.

    Raises:
        LinAlgError: it is differentiated where singular vectors are not determined and the result depends on
            the choice.
        ValueError: an unknown driver.

    Derivative:
        That of `fgrad.numpy.linalg.svd`: for equal singular values finite if the result does not depend on
        the choice of their vectors.

    Example:
        >>> svd(np.diag([1.0, 3.0]), compute_uv=False)
        array([3., 1.])
        >>> fg.grad(lambda a: svd(a)[1][0])(np.diag([1.0, 3.0])) + 0.0
        array([[0., 0.],
               [0., 1.]])
    """
    if lapack_driver not in {"gesdd", "gesvd"}:
        raise ValueError(f'lapack_driver must be "gesdd" or "gesvd", not "{lapack_driver}"')
    a = arguments.matrices(a, check_finite=check_finite)
    found = linalg.svd(a, full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the singular values of matrices, the largest first.

    Args:
        a: matrices (..., m, n).
        overwrite_a: taken for SciPy's sake: nothing is overwritten.
        check_finite: whether infinities and NaNs that can be seen are an error.

    Returns:
        Array (..., min(m, n)), real floats.

    Raises:
        ValueError: fewer than two axes.

    Derivative:
        u_i v_i^H: Giles (2008), 3.2; of a singular value that is zero, where it has a kink, zero.

    Example:
        >>> svdvals(np.diag([1.0, 3.0]))
        array([3., 1.])
        >>> fg.grad(lambda a: svdvals(a)[0])(np.diag([1.0, 3.0])) + 0.0
        array([[0., 0.],
               [0., 1.]])
    """
    return linalg.svdvals(arguments.matrices(a, check_finite=check_finite))


def eigh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: str | None = None,
) -> Any:
    """Return the eigenvalues, in ascending order, and eigenvectors of Hermitian matrices.

    Args:
        a: matrices (..., n, n), of which one triangle is read.
        b: None, or positive definite matrices, of which the same triangle is read.
        lower: which triangle.
        eigvals_only: whether to return eigenvalues alone.
        overwrite_a: taken for SciPy's sake: nothing is overwritten.
        overwrite_b: likewise.
        type: with `b`, 1: a v = w b v; 2: a b v = w v; 3: b a v = w v.
        check_finite: whether infinities and NaNs that can be seen are an error.
        subset_by_index: the first and the last wanted, or None for all.
        subset_by_value: low and high of the interval (low, high] of those wanted, or None for all.
        driver: taken for SciPy's sake; signs of vectors may be others than SciPy's.

    Returns:
        Pair of eigenvalues (..., k), real, and eigenvectors (..., n, k), as columns, or eigenvalues alone; k
        is n, or how many a subset has. Without `b` vectors have length one, with it v^H b v = 1, for type 3
        v^H b^-1 v = 1.

    Raises:
        LinAlgError: `b` is not positive definite, or it is differentiated where eigenvectors are not
            determined and the result depends on the choice.

    Derivative:
        That of `fgrad.numpy.linalg.eigh`, with respect to the triangle that is read; zero in the other one.
        Eigenvectors of equal eigenvalues: finite if the result does not depend on their choice.

    Example:
        >>> eigh([[2.0, 0.0], [0.0, 3.0]], [[1.0, 0.0], [0.0, 2.0]], eigvals_only=True).round(6)
        array([1.5, 2. ])
        >>> a = np.array([[2.0, 1.0], [1.0, 2.0]])
        >>> fg.grad(lambda a: eigh(a, eigvals_only=True)[1])(a).round(6) + 0.0  # of the lower triangle
        array([[0.5, 0. ],
               [1. , 0.5]])
    """
    if type not in {1, 2, 3}:
        raise ValueError(f'"type" keyword only accepts 1, 2, and 3, not {type}')
    a = arguments.square(a, check_finite=check_finite)
    if b is None:
        w, v = linalg.eigh(a, "L" if lower else "U")
    else:
        a, b = arguments.stacked(a, arguments.square(b, check_finite=check_finite))
        w, v = _generalized(a, b, lower, type)
    chosen = _chosen(w, subset_by_index, subset_by_value)
    w, v = (bind("slice", x, index=(..., chosen)) for x in (w, v))
    return w if eigvals_only else (w, v)


def _generalized(a: Any, b: Any, lower: bool, kind: int) -> tuple[Any, Any]:
    """Return eigenvalues and vectors by the Cholesky factor of `b`: Golub & Van Loan (2013), 8.7.2."""
    half = a * (
        matrices.below(a, a.shape[-1], a.dtype) if lower else matrices.below(a, a.shape[-1], a.dtype).T
    )
    a = half + matrices.adjoint(half)
    low = linalg.cholesky(b if lower else matrices.adjoint(b))
    if kind == 1:
        inner = solve_triangular(low, matrices.adjoint(solve_triangular(low, a, lower=True)), lower=True)
        inner = matrices.adjoint(inner)
    else:
        inner = matrices.matrix_product(matrices.matrix_product(matrices.adjoint(low), a), low)
    w, v = linalg.eigh(inner)
    if kind == 3:
        return w, matrices.matrix_product(low, v)
    return w, solve_triangular(matrices.adjoint(low), v, lower=False)


def _chosen(w: Any, by_index: Any, by_value: Any) -> slice:
    if by_index is not None and by_value is not None:
        raise ValueError("Either index or value subset can be requested.")
    n = w.shape[-1]
    if by_index is not None:
        first, last = map(int, by_index)
        if not 0 <= first <= last < n:
            raise ValueError(
                f"Requested eigenvalue indices are not valid. Valid range is [0, {n - 1}] and start <= end, "
                f"but start={first}, end={last} is given"
            )
        return slice(first, last + 1)
    if by_value is None:
        return slice(None)
    low, high = by_value
    if not low < high:
        raise ValueError(
            f"Requested eigenvalue bounds are not valid. Valid range is (-inf, inf) and low < high, but "
            f"low={low}, high={high} is given"
        )
    value = concrete(w, "eigh with subset_by_value")
    if value.ndim != 1:
        raise ValueError("eigh: subset_by_value chooses of one matrix, not of a stack")
    return slice(int(np.searchsorted(value, low, "right")), int(np.searchsorted(value, high, "right")))


def eigvalsh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: str | None = None,
) -> Any:
    """Return the eigenvalues of Hermitian matrices in ascending order; arguments as in `eigh`.

    Returns:
        Array (..., n), real floats; with a subset as many as it has.

    Raises:
        LinAlgError: `b` is not positive definite.
        ValueError: an unknown type, or a subset that is none.

    Derivative:
        That of `eigh`; with equal eigenvalues, of results that do not depend on which is which.

    Example:
        >>> eigvalsh([[2.0, 1.0], [1.0, 2.0]]).round(6)
        array([1., 3.])
        >>> eigvalsh([[2.0, 1.0], [1.0, 2.0]], subset_by_index=(1, 1)).round(6)
        array([3.])
    """
    return eigh(
        a,
        b,
        lower=lower,
        eigvals_only=True,
        type=type,
        check_finite=check_finite,
        subset_by_index=subset_by_index,
        subset_by_value=subset_by_value,
    )


def eig(
    a: Any,
    b: Any = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """Return the eigenvalues, which are complex, and eigenvectors, of length one, of square matrices.

    Args:
        a: square matrices (..., n, n).
        b: None, or regular matrices (..., n, n): a v = w b v.
        left: not supported.
        right: whether to return eigenvectors, otherwise eigenvalues alone.
        overwrite_a: taken for SciPy's sake: nothing is overwritten.
        overwrite_b: likewise.
        check_finite: whether infinities and NaNs that can be seen are an error.
        homogeneous_eigvals: not supported.

    Returns:
        Pair of eigenvalues (..., n), complex, and eigenvectors (..., n, n), as columns, real where every
        eigenvalue is seen to be; or eigenvalues alone.

    Raises:
        LinAlgError: it is differentiated at a defective matrix, or the result depends on phases.
        NotImplementedError: left eigenvectors or homogeneous eigenvalues.

    Derivative:
        That of `fgrad.numpy.linalg.eig`: of results that do not depend on the phases of vectors.

    Example:
        >>> eig(np.diag([1.0, 2.0]))[0]
        array([1.+0.j, 2.+0.j])
        >>> fg.grad(lambda a: eigvals(a)[1].real)(np.array([[1.0, 5.0], [0.0, 2.0]])).round(6) + 0.0
        array([[0., 0.],
               [5., 1.]])
    """
    if left or homogeneous_eigvals:
        raise NotImplementedError(
            "eig: left eigenvectors and homogeneous eigenvalues are not supported; left eigenvectors are the "
            "columns of inv(v).conj().T"
        )
    a = arguments.square(a, check_finite=check_finite)
    if b is not None:
        a, b = arguments.stacked(a, arguments.square(b, check_finite=check_finite))
        a = systems.solve(b, a)
    kind = np.result_type(a.dtype, np.complex64)
    if not right:
        return convert(linalg.eigvals(a), kind)
    w, v = linalg.eig(a)
    return convert(w, kind), v


def schur(
    a: Any,
    output: str = "real",
    lwork: int | None = None,
    overwrite_a: bool = False,
    sort: Any = None,
    check_finite: bool = True,
) -> tuple[Any, Any]:
    """Return the factors t and z of a = z t z^H: t upper triangular, z unitary.

    Args:
        a: square matrices (..., n, n).
        output: "real" or "complex": what real matrices have; complex ones have complex factors. In the real
            form, a pair of complex eigenvalues is a block of two rows on the diagonal of t.
        lwork: taken for SciPy's sake.
        overwrite_a: likewise: nothing is overwritten.
        sort: not supported.
        check_finite: whether infinities and NaNs that can be seen are an error.

    Returns:
        Pair of t and z, of the shape of `a`.

    Raises:
        LinAlgError: it is differentiated where eigenvalues are equal, or in the real form complex, or the
            result depends on phases.
        NotImplementedError: an order of the eigenvalues.
        ValueError: an unknown output.

    Derivative:
        For the order of the eigenvalues that was found, which have to differ. Complex columns of z have
        phases that are not determined: of results that do not depend on them. The real form has one where
        every eigenvalue is real.

    Example:
        >>> t, z = schur([[0.0, 2.0], [-2.0, 0.0]], output="complex")
        >>> np.diag(t).round(6) + 0.0
        array([0.+2.j, 0.-2.j])
        >>> fg.grad(lambda a: schur(a)[0][1, 1])(np.array([[1.0, 5.0], [0.0, 2.0]])) + 0.0
        array([[0., 0.],
               [5., 1.]])
    """
    if output not in {"real", "complex", "r", "c"}:
        raise ValueError(f"output must be 'real' or 'complex', not {output!r}")
    if sort is not None:
        raise NotImplementedError("schur: the eigenvalues cannot be sorted; they come as LAPACK finds them")
    a = arguments.square(a, check_finite=check_finite)
    if output in {"complex", "c"}:
        a = convert(a, np.result_type(a.dtype, np.complex64))
    t, z = bind("schur", a)
    return t, z


def eigvals(
    a: Any,
    b: Any = None,
    overwrite_a: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """Return the eigenvalues of square matrices: `eig` without `right`, and its arguments.

    Returns:
        Array (..., n), complex.

    Raises:
        LinAlgError: it is differentiated at a defective matrix.
        NotImplementedError: homogeneous eigenvalues.

    Derivative:
        That of `eig`.

    Example:
        >>> eigvals(np.array([[0.0, 1.0], [-1.0, 0.0]])).round(6) + 0.0
        array([0.+1.j, 0.-1.j])
    """
    return eig(a, b, right=False, check_finite=check_finite, homogeneous_eigvals=homogeneous_eigvals)
