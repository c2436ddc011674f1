"""`numpy.linalg` for arrays and Tensors: systems, factorizations, eigenvalues, norms; stacks of matrices too.

Where a factor is determined only up to a phase, a sign or a rotation, its derivative exists only for results
that do not depend on it; all others raise `LinAlgError` when they are differentiated.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.linalg import LinAlgError
from numpy.linalg._linalg import EighResult, EigResult, QRResult, SlogdetResult, SVDResult

from fgrad.core.placement import near
from fgrad.core.tensor import Tensor, bind, is_tracked, unary, wrap
from fgrad.core.trace import Box
from fgrad.numpy import products, shapes
from fgrad.numpy.arrays import alike, as_value, holds_tensor
from fgrad.numpy.indexing import stop_gradient, take_along_axis
from fgrad.numpy.ordering import argsort, sort
from fgrad.numpy.reductions import abs2, axes_of, finished, inexact
from fgrad.numpy.registry import implements, stored
from fgrad.ops import factorization as rows
from fgrad.ops import linear
from fgrad.ops.contraction import contract

__all__ = [
    "LinAlgError",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]

_NOTHING: Any = np._NoValue
Function = Callable[..., Any]


def _implements(function: Function) -> Callable[[Function], Function]:
    """Return the decorator of what answers for NumPy's function where there is a Tensor."""

    def decorate(f: Function) -> Function:
        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            if any(map(holds_tensor, args)) or any(map(holds_tensor, kwargs.values())):
                return f(*args, **kwargs)
            return function(*args, **kwargs)

        return implements(function, name=f"linalg.{f.__name__}")(call)

    return decorate


# ---- arguments


def _is_abstract(*xs: Any) -> bool:
    """Return whether values are not there to be looked at: inside vmap or while staging."""
    return any(isinstance(x, Tensor) and isinstance(x._value, Box) for x in xs)


def _is_followed(x: Any) -> bool:
    return isinstance(x, Tensor) and (is_tracked(x) or isinstance(x._value, Box))


def _supported(a: Any) -> Any:
    """Return an array or Tensor of a dtype that LAPACK knows."""
    a = as_value(a)
    if a.dtype.kind not in "fc":
        return linear.convert(a, np.dtype(float))
    if a.dtype.char not in "fdFD":
        raise TypeError(f"array type {a.dtype.name} is unsupported in linalg")
    return a


def _matrices(a: Any) -> Any:
    a = _supported(a)
    if len(a.shape) < 2:
        raise LinAlgError(f"{len(a.shape)}-dimensional array given. Array must be at least two-dimensional")
    return a


def _square(a: Any) -> Any:
    a = _matrices(a)
    if a.shape[-1] != a.shape[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    return a


def _common(a: Any, b: Any) -> tuple[Any, Any]:
    dtype = np.result_type(a.dtype, b.dtype)
    return linear.convert(a, dtype), linear.convert(b, dtype)


def _uplo(name: str) -> Literal["L", "U"]:
    if name.upper() not in {"L", "U"}:
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return "L" if name.upper() == "L" else "U"


def _finite(a: Any) -> Any:
    if not _is_abstract(a) and not np.isfinite(a._value).all():
        raise LinAlgError("Array must not contain infs or NaNs")
    return a


# ---- systems and inverses


@_implements(np.linalg.solve)
def solve(a: Any, b: Any) -> Any:
    """Return the solution x of the linear systems a x = b.

    Args:
        a: square matrices (..., n, n).
        b: one vector (n,), or matrices (..., n, k) whose leading axes broadcast with those of `a`.

    Raises:
        LinAlgError: a matrix is singular or not square.

    Derivative:
        ct_b = solve(a.T, ct), ct_a = -ct_b x.T.

    Source:
        Giles (2008), An extended collection of matrix derivative results, 2.3.1.
    """
    a, b = _common(_square(a), _supported(b))
    n = a.shape[-1]
    vector = len(b.shape) == 1
    if not b.shape or b.shape[0 if vector else -2] != n:
        raise ValueError(f"solve: shapes {a.shape} and {b.shape} do not fit")
    np.broadcast_shapes(a.shape[:-2], () if vector else b.shape[:-2])
    x = rows.solve(a, rows.as_column(b) if vector else b)
    return linear.reshape(x, x.shape[:-1]) if vector else x


@_implements(np.linalg.inv)
def inv(a: Any) -> Any:
    """Return the inverse of square matrices.

    Derivative:
        -inv(a).T ct inv(a).T: Giles (2008), 2.2.3.
    """
    return rows.inverse(_square(a))


@_implements(np.linalg.pinv)
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = _NOTHING) -> Any:
    """Return the pseudo-inverse of matrices.

    Args:
        a: matrices (..., m, n).
        rcond: singular values below `rcond` times the largest count as zero; 1e-15 by default.
        hermitian: whether `a` is Hermitian; then only its lower triangle is read.
        rtol: another name of `rcond`; None: max(m, n) times the rounding unit.

    Derivative:
        That along matrices of the same rank; for another rank the pseudo-inverse jumps. Where `rcond` drops
        singular values that are not zero, that of a function of the singular value decomposition.

    Source:
        Golub & Pereyra (1973), SIAM J. Numer. Anal. 10, 413.
    """
    if rcond is not None and rtol is not _NOTHING:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    a = _square(a) if hermitian else _matrices(a)
    if rcond is None:
        rcond = 1e-15 if rtol is _NOTHING else rtol
    if rcond is None:
        rcond = builtins.max(a.shape[-2:]) * np.finfo(a.dtype).eps
    if hermitian:
        a = _hermitian(a)
    cutoff = np.asarray(_constant(rcond, "pinv", "rcond"))
    return alike([_pseudo_inverse(a, cutoff, hermitian=bool(hermitian)), rcond])[0]


_TINY = 1e-12  # a tolerance up to here is meant to drop zeros only


def _pseudo_inverse(a: Any, rcond: Any, *, hermitian: bool = False) -> Any:
    if not (a.size and np.any(rcond > _TINY) and _is_followed(a) and not _is_abstract(a)):
        return bind("pinv", a, rcond=rcond, hermitian=hermitian)
    u, s, vh = bind("svd", a, full_matrices=False)
    size = s._value
    kept = size > rcond[..., None] * size.max(axis=-1, keepdims=True)
    if not np.any(~kept & (size > _TINY * size.max(axis=-1, keepdims=True))):
        return bind("pinv", a, rcond=rcond, hermitian=hermitian)
    # where singular values that are not zero are dropped, those left depend on them
    inverse = bind("where", kept, 1 / bind("where", kept, s, 1), 0)
    return rows.matrix_product(rows.adjoint(vh) * rows.as_row(inverse), rows.adjoint(u))


def _constant(x: Any, name: str, argument: str) -> Any:
    """Return a tolerance, which decides and has no derivative, without Tensors."""
    if _is_abstract(x):
        x._value.refuse(f"{argument} of {name}")
    return x._value if isinstance(x, Tensor) else x


def _hermitian(a: Any) -> Any:
    """Return the Hermitian matrices whose lower triangles are those of `a`."""
    half = a * rows.below(a, a.shape[-1], a.dtype)
    return half + rows.adjoint(half)


@_implements(np.linalg.tensorinv)
def tensorinv(a: Any, ind: int = 2) -> Any:
    """Return the inverse of the linear map between the first `ind` axes and the others.

    Derivative:
        That of `inv`.
    """
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    a = as_value(a)
    first, rest = a.shape[:ind], a.shape[ind:]
    return linear.reshape(inv(shapes.reshape(a, (math.prod(rest), -1))), (*rest, *first))


@_implements(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """Return the solution x of tensordot(a, x, x.ndim) = b.

    Derivative:
        That of `solve`.
    """
    a, b = as_value(a), as_value(b)
    n = len(a.shape)
    if axes is not None:
        order = list(range(n))
        for k in axes:
            order.remove(k)
            order.insert(n, k)
        a = linear.transpose(a, tuple(order))
    shape = a.shape[-(n - len(b.shape)) :]
    size = math.prod(shape)
    if a.size != size**2:
        raise LinAlgError(
            "Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])"
        )
    x = solve(linear.reshape(a, (size, size)), linear.reshape(b, (b.size,)))
    return linear.reshape(x, shape)


@_implements(np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Any, Any, Any, Any]:
    """Return the least-squares solution of a x = b of least norm, with residuals, rank and singular values.

    Args:
        a: one matrix (m, n).
        b: vector (m,) or matrix (m, k).
        rcond: singular values below `rcond` times the largest count as zero; None: max(m, n) times the
            rounding unit.

    Returns:
        x, the sums of squared residuals (none unless m > n = rank), rank and singular values. Inside `vmap`
        and while staging the rank is not known: residuals are given wherever m > n, NaN for a lower rank.

    Derivative:
        That of `pinv`, along matrices of the same rank: Golub & Pereyra (1973).
    """
    a, b = _supported(a), _supported(b)
    vector = len(b.shape) == 1
    b = rows.as_column(b) if vector else b
    for x in (a, b):
        if len(x.shape) != 2:
            raise LinAlgError(f"{len(x.shape)}-dimensional array given. Array must be two-dimensional")
    m, n = a.shape
    if b.shape[0] != m:
        raise LinAlgError("Incompatible dimensions")
    a, b = _common(a, b)
    rcond = _constant(rcond, "lstsq", "rcond")
    if rcond is None:
        # NumPy computes in double precision, whatever the dtype
        rcond = np.finfo(np.float64).eps * builtins.max(n, m)
    elif rcond < 0:
        rcond = np.finfo(np.float64).eps
    s = svdvals(a)
    fixed = stop_gradient(s)
    top = bind("max", fixed, axes=(0,)) if min(m, n) else np.zeros((), s.dtype)
    rank = linear.convert(bind("sum", bind("greater", fixed, top * rcond), axes=(0,)), np.dtype(np.int32))
    x = rows.matrix_product(_pseudo_inverse(a, np.asarray(rcond)), b)
    squares = bind("sum", abs2(b - rows.matrix_product(a, x)), axes=(0,))
    abstract = _is_abstract(rank)
    if m <= n or not (abstract or rank == n):
        squares = wrap(near(s).zeros(0, s.dtype))
    elif abstract:
        squares = bind("where", bind("equal", rank, n), squares, np.asarray(np.nan, s.dtype))
    x, squares, rank, s = alike([linear.reshape(x, (n,)) if vector else x, squares, rank, s])
    return x, squares, rank, s


# ---- powers and chains


@_implements(np.linalg.matrix_power)
def matrix_power(a: Any, n: Any) -> Any:
    """Return square matrices multiplied n times with themselves, or their inverses for negative n."""
    a = as_value(a)
    if len(a.shape) < 2 or a.shape[-1] != a.shape[-2]:
        _square(a)
    try:
        n = operator.index(n)
    except TypeError as error:
        raise TypeError("exponent must be an integer") from error
    if n == 0:
        return linear.broadcast_to(wrap(near(a).eye(a.shape[-1], dtype=a.dtype)), a.shape)
    square, n, result = (a, n, None) if n > 0 else (inv(a), -n, None)
    while n > 0:
        if n & 1:
            result = square if result is None else products.matmul(result, square)
        n >>= 1
        square = products.matmul(square, square) if n else square
    return result


@_implements(np.linalg.multi_dot)
def multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Any:
    """Return the product of a chain of matrices in the order that takes the fewest multiplications.

    Args:
        arrays: at least two matrices; the first may be a row vector, the last a column vector.
        out: array or Tensor to be given the result.

    Source:
        Cormen, Leiserson, Rivest & Stein (2009), Introduction to Algorithms, 15.2.
    """
    xs = [as_value(x) for x in arrays]
    if len(xs) < 2:
        raise ValueError("Expecting at least two arrays.")
    if len(xs) == 2:
        return products.dot(xs[0], xs[1], out)
    first, last = len(xs[0].shape) == 1, len(xs[-1].shape) == 1
    xs[0] = rows.as_row(xs[0]) if first else xs[0]
    xs[-1] = rows.as_column(xs[-1]) if last else xs[-1]
    for x in xs:
        if len(x.shape) != 2:
            raise LinAlgError(f"{len(x.shape)}-dimensional array given. Array must be two-dimensional")
    y = _chain(xs, _splits([x.shape[0] for x in xs] + [xs[-1].shape[1]]), 0, len(xs) - 1)
    if first or last:
        y = linear.reshape(y, tuple(n for n, gone in zip(y.shape, (first, last), strict=True) if not gone))
    return stored(y, out)


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


# ---- determinants


@_implements(np.linalg.det)
def det(a: Any) -> Any:
    """Return the determinant of square matrices.

    Derivative:
        The matrix of cofactors, which is right for singular matrices too, to second order: Giles (2008),
        2.2.4, and the product of singular values. Of third order only where the matrix is regular.
    """
    return bind("det", _square(a))


@_implements(np.linalg.slogdet)
def slogdet(a: Any) -> SlogdetResult:
    """Return the sign (or phase) and the logarithm of the absolute value of the determinant.

    Raises:
        LinAlgError: it is differentiated at a singular matrix, where its slope is infinite.

    Derivative:
        inv(a).T for the logarithm; the sign of real matrices is constant: Giles (2008), 2.2.4.
    """
    return SlogdetResult(*bind("slogdet", _square(a)))


# ---- factorizations


@_implements(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """Return the triangular factor l of a = l l^H, or with `upper` r of a = r^H r.

    Args:
        a: positive definite Hermitian matrices, of which only the lower (upper) triangle is read.
        upper: whether to read the upper triangle and return an upper triangular factor.

    Raises:
        LinAlgError: a matrix is not positive definite.

    Derivative:
        With respect to the triangle that is read; zero in the other one.

    Source:
        Murray (2016), Differentiation of the Cholesky decomposition, arXiv:1602.07527.
    """
    a = _square(a)
    if upper:
        return rows.adjoint(bind("cholesky", rows.adjoint(a)))
    return bind("cholesky", a)


@_implements(np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    """Return q with orthonormal columns and r, upper triangular, with a = q r.

    Args:
        a: matrices (..., m, n).
        mode: 'reduced', 'complete' (square q) or 'r' (r alone). 'raw' has no derivative.

    Raises:
        LinAlgError: it is differentiated where the first min(m, n) columns are linearly dependent, or the
            result depends on the columns of a complete q that are not determined.
        TypeError: mode 'raw' of a Tensor that is being differentiated.

    Source:
        Walter & Lehmann (2018), Algorithmic differentiation of linear algebra functions with application in
        optimum experimental design; Roberts & Roberts (2020), arXiv:2009.10071, for wide matrices.
    """
    if mode not in {"reduced", "complete", "r", "raw"}:
        raise ValueError(f"Unrecognized mode '{mode}'")
    a = _matrices(a)
    if mode == "raw":
        if _is_followed(a):
            raise TypeError("qr with mode='raw' has no rule for Tensors; use mode='reduced' or 'complete'")
        return tuple(map(wrap, np.linalg.qr(a._value, "raw")))
    m, n = a.shape[-2:]
    q, r = bind("qr", a, mode="complete" if mode == "complete" and m > n else "reduced")
    return r if mode == "r" else QRResult(q, r)


@_implements(np.linalg.svd)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Return the singular value decomposition a = u diag(s) vh.

    Args:
        a: matrices (..., m, n).
        full_matrices: whether u and vh are square.
        compute_uv: whether to return u and vh, otherwise s alone.
        hermitian: whether `a` is Hermitian; then only its lower triangle is read.

    Raises:
        LinAlgError: it is differentiated where singular vectors are not determined (equal singular values,
            phases, the null space) and the result depends on the choice.

    Derivative:
        Singular vectors of equal singular values: finite if the result does not depend on their choice.

    Source:
        Townsend (2016), Differentiating the singular value decomposition; Wan & Zhang (2019),
        arXiv:1909.02659, for complex matrices.
    """
    if hermitian:
        return _hermitian_svd(a, compute_uv=compute_uv)
    a = _matrices(a)
    if not compute_uv:
        if not _is_followed(a):
            return wrap(np.linalg.svd(a._value, compute_uv=False))
        return bind("svd", a, full_matrices=False)[1]
    m, n = a.shape[-2:]
    return SVDResult(*bind("svd", a, full_matrices=bool(full_matrices) and m != n))


def _hermitian_svd(a: Any, *, compute_uv: bool) -> Any:
    if not compute_uv:
        return shapes.flip(sort(unary("absolute", eigvalsh(a))), -1)
    w, v = eigh(a)
    sign = bind("copysign", 1.0, stop_gradient(w))
    order = shapes.flip(argsort(unary("absolute", w)), -1)
    s, sign = (take_along_axis(x, order, -1) for x in (unary("absolute", w), sign))
    u = take_along_axis(v, rows.as_row(order), -1)
    return SVDResult(u, s, rows.adjoint(u * rows.as_row(linear.convert(sign, s.dtype))))


@_implements(np.linalg.svdvals)
def svdvals(x: Any, /) -> Any:
    """Return the singular values of matrices, the largest first.

    Derivative:
        u_i v_i^H: Giles (2008), 3.2; of a singular value that is zero, where it has a kink, zero.
    """
    return svd(x, compute_uv=False)


# ---- eigenvalues


@_implements(np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> EighResult:  # noqa: N803 -- NumPy's name
    """Return the eigenvalues, in ascending order, and eigenvectors of Hermitian matrices.

    Args:
        a: matrices (..., n, n), of which one triangle is read.
        UPLO: which triangle: 'L' or 'U'.

    Raises:
        LinAlgError: it is differentiated where eigenvectors are not determined (equal eigenvalues, phases)
            and the result depends on the choice.

    Derivative:
        With respect to the triangle that is read; zero in the other one. Eigenvectors of equal eigenvalues:
        finite if the result depends on eigenvalues alone, or on vectors alone but not on their choice.

    Source:
        Giles (2008), 3.1; Seeger, Hetzel, Dai, Meissner & Lawrence (2017), arXiv:1710.08717.
    """
    return EighResult(*bind("eigh", _square(a), uplo=_uplo(UPLO)))


@_implements(np.linalg.eigvalsh)
def eigvalsh(a: Any, UPLO: str = "L") -> Any:  # noqa: N803 -- NumPy's name
    """Return the eigenvalues of Hermitian matrices in ascending order.

    Derivative:
        v_i v_i^H, with respect to the triangle that is read: Giles (2008), 3.1.
    """
    a, uplo = _square(a), _uplo(UPLO)
    if not _is_followed(a):
        return wrap(np.linalg.eigvalsh(a._value, uplo))
    return bind("eigh", a, uplo=uplo)[0]


@_implements(np.linalg.eig)
def eig(a: Any) -> EigResult:
    """Return the eigenvalues and eigenvectors, of length one, of square matrices.

    Real matrices have real results where every eigenvalue is real, and complex ones otherwise; inside `vmap`
    and while staging, where nobody can look, always complex ones.

    Raises:
        LinAlgError: it is differentiated at a defective matrix, or the result depends on the phases of
            complex eigenvectors or on their choice for equal eigenvalues.

    Source:
        Giles (2008), 3.1; Boeddeker et al. (2017), On the computation of complex-valued gradients with
        application to statistically optimum beamforming, arXiv:1701.00392.
    """
    a = _finite(_square(a))
    w, v = bind("eig", a)
    return EigResult(*_real_if_possible(a, w, v))


@_implements(np.linalg.eigvals)
def eigvals(a: Any) -> Any:
    """Return the eigenvalues of square matrices; real or complex as those of `eig`.

    Derivative:
        That of `eig`.
    """
    a = _finite(_square(a))
    if not _is_followed(a):
        return wrap(np.linalg.eigvals(a._value))
    return _real_if_possible(a, bind("eig", a)[0])[0]


def _real_if_possible(a: Any, w: Any, *others: Any) -> tuple[Any, ...]:
    if a.dtype.kind == "c" or _is_abstract(w) or w._value.imag.any():
        return (w, *others)
    return tuple(map(linear.real, (w, *others)))


# ---- norms and numbers


@_implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Return a norm of vectors or matrices.

    Args:
        x: array.
        ord: of vectors: a number p for (sum |x|^p)^(1/p), inf, -inf or 0 (the count of nonzeros); of
            matrices: 'fro', 'nuc' (the sum of singular values), 2, -2 (the largest and smallest singular
            value), 1, -1 (greatest and smallest sum of a column), inf, -inf (of a row). None: the root of
            the sum of squares.
        axis: one axis for vectors, two for matrices; None: all.
        keepdims: whether the reduced axes stay with length one.

    Raises:
        ValueError: an unknown order, or more than two axes.

    Derivative:
        Zero where the norm is zero, and for singular values that are zero.
    """
    x = inexact(x, None)
    n = len(x.shape)
    if axis is not None and not isinstance(axis, tuple):
        try:
            axis = int(axis)
        except Exception as error:
            raise TypeError("'axis' must be None, an integer or a tuple of integers") from error
    axes = axes_of(axis, n)
    if axis is None and (ord is None or (n == 2 and ord in {"fro", "f"}) or (n == 1 and ord == 2)):
        return finished(unary("root", _square_sum(x)), x, axes, keepdims, None)
    if len(axes) == 2:
        return finished(_matrix_norm(x, ord, axes), x, axes, keepdims, None)
    if len(axes) != 1:
        raise ValueError("Improper number of dimensions to norm.")
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")  # noqa: TRY004 -- NumPy's error
    return finished(_vector_norm(x, ord, axes), x, axes, keepdims, None)


def _square_sum(x: Any) -> Any:
    """Return the sum of the squared absolute values of all elements."""
    flat = linear.reshape(x, (x.size,))
    parts = (linear.real(flat), linear.imag(flat)) if x.dtype.kind == "c" else (flat,)
    squares = [contract(v, v, "i", "i", "") for v in parts]
    return squares[0] if len(squares) == 1 else squares[0] + squares[1]


def _vector_norm(x: Any, ord: Any, axes: tuple[int, ...]) -> Any:
    if ord is None or ord == 2:
        return unary("root", bind("sum", abs2(x), axes=axes))
    size = unary("absolute", x)
    if ord == np.inf:
        return _extremum("max", size, axes)
    if ord == -np.inf:
        return _extremum("min", size, axes)
    if ord == 0:
        return linear.convert(bind("sum", bind("not_equal", x, 0), axes=axes), size.dtype)
    if ord == 1:
        return bind("sum", size, axes=axes)
    total = bind("sum", bind("power", size, ord), axes=axes)
    zero = bind("equal", total, 0)
    return bind("where", zero, 0, bind("power", bind("where", zero, 1, total), 1 / ord))


def _extremum(name: str, x: Any, axes: tuple[int, ...]) -> Any:
    """Return the greatest of non-negative numbers, zero of none, or the smallest."""
    if name == "max" and any(x.shape[i] == 0 for i in axes):
        return bind("sum", x, axes=axes)
    return bind(name, x, axes=axes)


def _matrix_norm(x: Any, ord: Any, axes: tuple[int, ...]) -> Any:
    row, column = axes
    if ord in {None, "fro", "f"}:
        return unary("root", bind("sum", abs2(x), axes=axes))
    if ord in {1, -1, np.inf, -np.inf}:
        first, second = (row, column) if ord in {1, -1} else (column, row)
        totals = bind("sum", unary("absolute", x), axes=(first,))
        return _extremum("max" if ord > 0 else "min", totals, (second - (second > first),))
    if ord in {2, -2, "nuc"}:
        s = svdvals(shapes.moveaxis(x, axes, (-2, -1)))
        last = (len(s.shape) - 1,)
        if ord == "nuc":
            return bind("sum", s, axes=last)
        return _extremum("max" if ord == 2 else "min", s, last)
    raise ValueError("Invalid norm order for matrices.")


@_implements(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Return a norm of matrices, the last two axes; orders and derivative as in `norm`."""
    return norm(x, ord, (-2, -1), keepdims)


@_implements(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Return a norm of vectors along any number of axes (None: all); orders and derivative as in `norm`."""
    x = as_value(x)
    if axis is None:
        y = norm(linear.reshape(x, (x.size,)), ord)
        return linear.reshape(y, (1,) * len(x.shape)) if keepdims else y
    if not isinstance(axis, tuple):
        return norm(x, ord, axis, keepdims)
    x = inexact(x, None)
    axes = axes_of(axis, len(x.shape))
    rest = tuple(i for i in range(len(x.shape)) if i not in axes)
    moved = linear.transpose(x, (*axes, *rest))
    flat = linear.reshape(moved, (math.prod(x.shape[i] for i in axes), *(x.shape[i] for i in rest)))
    return finished(norm(flat, ord, 0), x, axes, keepdims, None)


@_implements(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Any:
    """Return the condition number of matrices in a norm: |x| |inv(x)|.

    Args:
        x: matrices; square ones unless `p` is None, 2 or -2.
        p: order of the norm, as in `norm`; None: 2, the ratio of extreme singular values.

    Derivative:
        That of the singular values, or of `norm` and `inv`.
    """
    x = as_value(x)
    if x.size == 0 and math.prod(x.shape[-2:]) == 0:
        raise LinAlgError("cond is not defined on empty arrays")
    if p is None or p in {2, -2}:
        s = svdvals(x)
        large, small = (bind("slice", s, index=(..., i)) for i in (0, -1))
        with np.errstate(all="ignore"):
            r = small / large if p == -2 else large / small
    else:
        x = _square(x)
        singular = bind("equal", bind("slogdet", stop_gradient(x))[0], 0)
        there = linear.reshape(singular, (*singular.shape, 1, 1))
        regular = bind("where", there, near(x).eye(x.shape[-1], dtype=x.dtype), x)
        r = norm(x, p, (-2, -1)) * norm(inv(regular), p, (-2, -1))
        r = bind("where", singular, np.nan, r)
    broken = bind("sum", bind("isnan", x), axes=(len(x.shape) - 2, len(x.shape) - 1))
    lost = bind("logical_and", bind("isnan", r), bind("equal", broken, 0))
    return bind("where", lost, np.inf, r)


@_implements(np.linalg.matrix_rank)
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:  # noqa: N803
    """Return the number of singular values above a tolerance; an integer, without derivative.

    Args:
        A: matrices, or a vector, which has rank one unless it is zero.
        tol: tolerance; None: `rtol` times the largest singular value.
        hermitian: whether `A` is Hermitian; then only its lower triangle is read.
        rtol: relative tolerance; None: max(m, n) times the rounding unit.
    """
    if rtol is not None and tol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    a = stop_gradient(as_value(A))
    if len(a.shape) < 2:
        if not _is_abstract(a):
            return int(np.any(a._value if isinstance(a, Tensor) else a))
        found = linear.convert(bind("not_equal", a, 0), np.dtype(int))
        return bind("max", found, axes=tuple(range(len(a.shape))))
    s = svd(a, compute_uv=False, hermitian=hermitian)
    if tol is None:
        ratio = builtins.max(a.shape[-2:]) * np.finfo(s.dtype).eps if rtol is None else as_value(rtol)
        top = _extremum("max", s, (len(s.shape) - 1,))
        tol = ratio * top
    limit = as_value(tol)
    return bind("sum", bind("greater", s, linear.reshape(limit, (*limit.shape, 1))), axes=(len(s.shape) - 1,))


# ---- the products, as the array API wants them


@_implements(np.linalg.cross)
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the vector product of vectors with three components."""
    x, y = as_value(x1), as_value(x2)
    if x.shape[axis] != 3 or y.shape[axis] != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, "
            f"but they are {x.shape[axis]} and {y.shape[axis]} dimensional instead."
        )
    return products.cross(x, y, axis=axis)


@_implements(np.linalg.outer)
def outer(x1: Any, x2: Any, /) -> Any:
    """Return the products of every element of one vector with every element of another."""
    x, y = as_value(x1), as_value(x2)
    if len(x.shape) != 1 or len(y.shape) != 1:
        raise ValueError(
            "Input arrays must be one-dimensional, but they are "
            f"x1.ndim={len(x.shape)} and x2.ndim={len(y.shape)}."
        )
    return products.outer(x, y)


@_implements(np.linalg.diagonal)
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Return the diagonals of matrices, the last two axes."""
    return shapes.diagonal(x, offset, -2, -1)


@_implements(np.linalg.trace)
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Return the sums along the diagonals of matrices, the last two axes."""
    return products.trace(x, offset, -2, -1, dtype)


@_implements(np.linalg.matmul)
def matmul(x1: Any, x2: Any, /) -> Any:
    """Return the matrix product; axes before the last two broadcast, vectors are rows or columns at need."""
    return products.matmul(x1, x2)


@_implements(np.linalg.tensordot)
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Return the sum product over pairs of axes: the last of `x1` with the first of `x2`, or as listed."""
    return products.tensordot(x1, x2, axes)


@_implements(np.linalg.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the sum of conj(x1) * x2 over an axis, with broadcasting."""
    return products.vecdot(x1, x2, axis=axis)


@_implements(np.linalg.matrix_transpose)
def matrix_transpose(x: Any, /) -> Any:
    """Return the last two axes swapped."""
    return shapes.matrix_transpose(x)
