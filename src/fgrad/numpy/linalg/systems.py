"""Systems of equations, inverses and least squares, with NumPy's names."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from fgrad.compat.numpy import NO_VALUE
from fgrad.core.dispatch import bind
from fgrad.core.placement import near, placed
from fgrad.core.tensor import is_abstract, is_traced, wrap
from fgrad.numpy import shapes
from fgrad.numpy.arrays import alike, as_value, together
from fgrad.numpy.indexing import beside, stop_gradient
from fgrad.numpy.linalg.arguments import (
    completed,
    linalg_function,
    of_common_dtype,
    square_matrices,
    stacked_matrices,
    supported,
    tolerance,
)
from fgrad.numpy.linalg.factorizations import svdvals
from fgrad.numpy.moments import abs2
from fgrad.numpy.registry import as_array
from fgrad.ops import linear, matrices, systems


@linalg_function(np.linalg.solve)
def solve(a: Any, b: Any) -> Any:
    """Return the solution x of the linear systems a x = b.

    Args:
        a: square matrices (..., n, n).
        b: one vector (n,), or matrices (..., n, k) whose leading axes broadcast with those of `a`.

    Returns:
        Array of the shape of `b`, whose leading axes broadcast with those of `a`; floats or complex numbers.

    Raises:
        LinAlgError: a matrix is singular or not square.

    Derivative:
        ct_b = solve(a.T, ct), ct_a = -ct_b x.T.

    Source:
        Giles (2008), An extended collection of matrix derivative results, 2.3.1.

    Example:
        >>> fnp.linalg.solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 8.0]))
        array([1., 2.])
    """
    return solved(a, b)


def solved(a: Any, b: Any, check: str = "") -> Any:
    """Return the solutions of systems; `check` is as of `ops.systems.solve`."""
    a, b = together(a, b)
    a, b = of_common_dtype(square_matrices(a), supported(b))
    n = a.shape[-1]
    vector = len(b.shape) == 1
    if not b.shape or b.shape[0 if vector else -2] != n:
        raise ValueError(f"solve: shapes {a.shape} and {b.shape} are incompatible")
    np.broadcast_shapes(a.shape[:-2], () if vector else b.shape[:-2])
    x = systems.solve(a, matrices.as_column(b) if vector else b, check)
    return linear.reshape(x, x.shape[:-1]) if vector else x


@linalg_function(np.linalg.inv)
def inv(a: Any) -> Any:
    """Return the inverse of square matrices.

    Returns:
        Array of the shape of `a`; floats or complex numbers, integers give float64.

    Raises:
        LinAlgError: a matrix is singular, or not square.

    Derivative:
        -inv(a).T ct inv(a).T: Giles (2008), 2.2.3.

    Example:
        >>> fnp.linalg.inv(np.array([[2.0, 0.0], [0.0, 4.0]]))
        array([[0.5 , 0.  ],
               [0.  , 0.25]])
    """
    return systems.inverse(square_matrices(a))


@linalg_function(np.linalg.pinv)
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = NO_VALUE) -> Any:
    """Return the pseudo-inverse of matrices.

    Args:
        a: matrices (..., m, n).
        rcond: singular values below `rcond` times the largest count as zero; 1e-15 by default.
        hermitian: whether `a` is Hermitian; then only its lower triangle is read.
        rtol: another name of `rcond`; None: max(m, n) times the rounding unit.

    Returns:
        Array (..., n, m) of (..., m, n); floats or complex numbers.

    Derivative:
        That along matrices of the same rank; for another rank the pseudo-inverse jumps. Where `rcond` drops
        singular values that are not zero, that of a function of the singular value decomposition.

    Source:
        Golub & Pereyra (1973), SIAM J. Numer. Anal. 10, 413.

    Example:
        >>> fnp.linalg.pinv(np.array([[2.0, 0.0], [0.0, 0.0]]))
        array([[0.5, 0. ],
               [0. , 0. ]])
    """
    if rcond is not None and rtol is not NO_VALUE:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    a = as_value(a)
    if len(a.shape) > 1 and not (a.shape[-1] and a.shape[-2]):  # of its own dtype, as in NumPy
        return beside(near(a).zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype), a, rcond)
    a = square_matrices(a) if hermitian else stacked_matrices(a)
    if rcond is None:
        rcond = 1e-15 if rtol is NO_VALUE else rtol
    if rcond is None:
        rcond = builtins.max(a.shape[-2:]) * np.finfo(a.dtype).eps
    if hermitian:
        a = completed(a)
    cutoff = np.asarray(tolerance(rcond, "pinv", "rcond"))
    return alike([_pseudo_inverse(a, cutoff, hermitian=bool(hermitian)), rcond])[0]


_TINY = 1e-12  # a tolerance up to here is meant to drop zeros only


def _pseudo_inverse(a: Any, rcond: Any, *, hermitian: bool = False) -> Any:
    if not (a.size and np.any(rcond > _TINY) and is_traced(a) and not is_abstract(a)):
        return bind("pinv", a, rcond=rcond, hermitian=hermitian)
    u, s, vh = bind("svd", a, full_matrices=False)
    size = s._value
    kept = size > placed(size, rcond)[..., None] * size.max(axis=-1, keepdims=True)
    if not np.any(~kept & (size > _TINY * size.max(axis=-1, keepdims=True))):
        return bind("pinv", a, rcond=rcond, hermitian=hermitian)
    # where singular values that are not zero are dropped, those left depend on them
    inverse = bind("where", kept, 1 / bind("where", kept, s, 1), 0)
    return matrices.matrix_product(matrices.adjoint(vh) * matrices.as_row(inverse), matrices.adjoint(u))


@linalg_function(np.linalg.tensorinv)
def tensorinv(a: Any, ind: int = 2) -> Any:
    """Return the inverse of the linear map between the first `ind` axes and the others.

    Returns:
        Array whose first axes are the last ones of `a`, and the other way round; floats or complex numbers.

    Raises:
        ValueError: `ind` is not positive.
        LinAlgError: the map is singular, or no map between spaces of equal dimension.

    Derivative:
        That of `inv`.

    Example:
        >>> fnp.linalg.tensorinv(2 * np.eye(4).reshape(4, 2, 2), ind=1).shape
        (2, 2, 4)
    """
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    a = as_value(a)
    first, rest = a.shape[:ind], a.shape[ind:]
    return linear.reshape(inv(shapes.reshape(a, (math.prod(rest), -1))), (*rest, *first))


@linalg_function(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """Return the solution x of tensordot(a, x, x.ndim) = b.

    Returns:
        Array of the axes of `a` that are not those of `b`; floats or complex numbers.

    Raises:
        LinAlgError: the map is singular, or no map between spaces of equal dimension.

    Derivative:
        That of `solve`.

    Example:
        >>> fnp.linalg.tensorsolve(2 * np.eye(4).reshape(2, 2, 4), np.ones((2, 2)))
        array([0.5, 0.5, 0.5, 0.5])
    """
    a, b = together(a, b)
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
    return as_array(linear.reshape(x, shape))


@linalg_function(np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Any, Any, Any, Any]:
    """Return the least-squares solution of a x = b of least norm, with residuals, rank and singular values.

    Args:
        a: one matrix (m, n).
        b: vector (m,) or matrix (m, k).
        rcond: singular values below `rcond` times the largest count as zero; None: max(m, n) times the
            rounding unit.

    Returns:
        x, the sums of squared residuals (none unless m > n = rank), rank and singular values. Inside `vmap`
        and while tracing the rank is not known: residuals are given wherever m > n, NaN for a lower rank.

    Derivative:
        That of `pinv`, along matrices of the same rank: Golub & Pereyra (1973).

    Example:
        >>> a = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
        >>> fnp.linalg.lstsq(a, np.array([1.0, 2.0, 3.0]))[0].round(6)
        array([1., 1.])
    """
    a, b = map(supported, together(a, b))
    vector = len(b.shape) == 1
    b = matrices.as_column(b) if vector else b
    for x in (a, b):
        if len(x.shape) != 2:
            raise LinAlgError(f"{len(x.shape)}-dimensional array given. Array must be two-dimensional")
    m, n = a.shape
    if b.shape[0] != m:
        raise LinAlgError("Incompatible dimensions")
    a, b = of_common_dtype(a, b)
    rcond = tolerance(rcond, "lstsq", "rcond")
    if rcond is None:
        # NumPy computes in double precision, whatever the dtype
        rcond = np.finfo(np.float64).eps * builtins.max(n, m)
    elif rcond < 0:
        rcond = np.finfo(np.float64).eps
    s = svdvals(a)
    fixed = stop_gradient(s)
    top = bind("max", fixed, axes=(0,)) if min(m, n) else np.zeros((), s.dtype)
    rank = linear.convert(bind("sum", bind("greater", fixed, top * rcond), axes=(0,)), np.dtype(np.int32))
    x = matrices.matrix_product(_pseudo_inverse(a, np.asarray(rcond)), b)
    squares = bind("sum", abs2(b - matrices.matrix_product(a, x)), axes=(0,))
    abstract = is_abstract(rank)
    if m <= n or not (abstract or rank == n):
        squares = wrap(near(s).zeros(0, s.dtype))
    elif abstract:
        squares = bind("where", bind("equal", rank, n), squares, np.asarray(np.nan, s.dtype))
    x, squares, rank, s = alike([linear.reshape(x, (n,)) if vector else x, squares, rank, s])
    return x, squares, rank, s
