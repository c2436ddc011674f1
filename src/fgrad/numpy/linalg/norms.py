"""Norms, and numbers that rest on them, with NumPy's names."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from fgrad.core.dispatch import bind, unary
from fgrad.core.tensor import Tensor, is_abstract, is_traced
from fgrad.core.views import unordered
from fgrad.numpy import shapes
from fgrad.numpy.arrays import as_value, next_to
from fgrad.numpy.indexing import stop_gradient
from fgrad.numpy.linalg.arguments import linalg_function, square_matrices
from fgrad.numpy.linalg.factorizations import svd, svdvals
from fgrad.numpy.linalg.systems import inv
from fgrad.numpy.moments import abs2
from fgrad.numpy.reductions import axes_of, finished, inexact
from fgrad.numpy.registry import as_scalar
from fgrad.ops import linear, matrices
from fgrad.ops.contraction import contract


@linalg_function(np.linalg.norm)
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

    Returns:
        Array of the shape of `x` without the axes; real floats.

    Raises:
        ValueError: an unknown order, or more than two axes.

    Derivative:
        Zero where the norm is zero, and for singular values that are zero.

    Example:
        >>> fnp.linalg.norm(np.array([3.0, 4.0]))
        np.float64(5.0)
        >>> fg.grad(fnp.linalg.norm)(np.array([3.0, 4.0]))
        array([0.6, 0.8])
    """
    x = inexact(x, None)
    n = len(x.shape)
    if axis is not None and not isinstance(axis, tuple):
        try:
            axis = int(axis)
        except (TypeError, ValueError, OverflowError) as error:
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
    return finished(as_scalar(_vector_norm(x, ord, axes)), x, axes, keepdims, None)


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
        return extremum("max", size, axes)
    if ord == -np.inf:
        return extremum("min", size, axes)
    if ord == 0:
        return linear.convert(bind("sum", bind("not_equal", x, 0), axes=axes), size.dtype)
    if ord == 1:
        return bind("sum", size, axes=axes)
    if 0 < ord < 1:  # of zeros the power has a cusp
        zero = bind("equal", size, 0)
        terms = bind("where", zero, 0, bind("power", bind("where", zero, 1, size), ord))
    else:
        terms = bind("power", size, ord)
    total = bind("sum", terms, axes=axes)
    zero = bind("equal", total, 0)
    return bind(
        "where", zero, 0 if ord > 0 else np.inf, bind("power", bind("where", zero, 1, total), 1 / ord)
    )


def extremum(name: str, x: Any, axes: tuple[int, ...]) -> Any:
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
        return extremum("max" if ord > 0 else "min", totals, (second - (second > first),))
    if ord in {2, -2, "nuc"}:
        s = svdvals(shapes.moveaxis(x, axes, (-2, -1)))
        s = s if ord == "nuc" else _tied(s)
        last = (len(s.shape) - 1,)
        if ord == "nuc":
            return bind("sum", s, axes=last)
        return extremum("max" if ord == 2 else "min", s, last)
    raise ValueError("Invalid norm order for matrices.")


def _tied(s: Any) -> Any:
    """Return singular values; those that are the largest, or the smallest, to rounding are so exactly."""
    if not s.shape[-1] or not is_traced(s):
        return s
    fixed = stop_gradient(s)
    tiny = 8 * s.shape[-1] * float(np.finfo(s.dtype).eps)
    top, low = (bind("slice", fixed, index=(..., slice(i, i + 1))) for i in (0, s.shape[-1] - 1))
    gap = tiny * top
    small = bind("where", bind("less_equal", fixed - low, gap), low - fixed, 0)
    large = bind("where", bind("less_equal", top - fixed, gap), top - fixed, small)
    return s + bind("where", bind("isfinite", large), large, 0)


@linalg_function(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Return a norm of matrices, the last two axes; orders and derivative as in `norm`.

    Returns:
        Array of the leading axes of `x`; real floats.

    Derivative:
        That of `norm`: zero at zero, ties share it equally.

    Example:
        >>> fnp.linalg.matrix_norm(np.array([[3.0, 0.0], [0.0, 4.0]]))
        np.float64(5.0)
    """
    return norm(x, ord, (-2, -1), keepdims)


@linalg_function(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Return a norm of vectors along any number of axes (None: all); orders and derivative as in `norm`.

    Returns:
        Array of the shape of `x` without the axes; real floats.

    Derivative:
        That of `norm`: zero at zero, ties share it equally.

    Example:
        >>> fnp.linalg.vector_norm(np.array([3.0, 4.0]))
        np.float64(5.0)
    """
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


@linalg_function(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Any:
    """Return the condition number of matrices in a norm: |x| |inv(x)|.

    Args:
        x: matrices; square ones unless `p` is None, 2 or -2.
        p: order of the norm, as in `norm`; None: 2, the ratio of extreme singular values.

    Returns:
        Array of the leading axes of `x`; real floats.

    Derivative:
        That of the singular values, or of `norm` and `inv`.

    Example:
        >>> fnp.linalg.cond(np.diag([1.0, 4.0]))
        np.float64(4.0)
    """
    x = as_value(x)
    if x.size == 0 and math.prod(x.shape[-2:]) == 0:
        raise LinAlgError("cond is not defined on empty arrays")
    if p is None or p in {2, -2}:
        s = _tied(svdvals(x))
        last = (len(s.shape) - 1,)
        large, small = bind("max", s, axes=last), bind("min", s, axes=last)
        with np.errstate(all="ignore"):
            r = small / large if p == -2 else large / small
    else:
        x = square_matrices(x)
        singular = bind("equal", bind("slogdet", stop_gradient(x))[0], 0)
        there = linear.reshape(singular, (*singular.shape, 1, 1))
        regular = bind("where", there, matrices.identity(x), x)
        r = norm(x, p, (-2, -1)) * norm(inv(regular), p, (-2, -1))
        r = bind("where", singular, np.nan, r)
    broken = bind("sum", bind("isnan", x), axes=(len(x.shape) - 2, len(x.shape) - 1))
    lost = bind("logical_and", bind("isnan", r), bind("equal", broken, 0))
    return as_scalar(bind("where", lost, np.inf, r))


@linalg_function(np.linalg.matrix_rank)
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:  # noqa: N803
    """Return the number of singular values above a tolerance; an integer, without derivative.

    Args:
        A: matrices, or a vector, which has rank one unless it is zero.
        tol: tolerance; None: `rtol` times the largest singular value.
        hermitian: whether `A` is Hermitian; then only its lower triangle is read.
        rtol: relative tolerance; None: max(m, n) times the rounding unit.

    Returns:
        Integers, of the leading axes of `A`.

    Derivative:
        None: the results are integers.

    Example:
        >>> fnp.linalg.matrix_rank(np.ones((2, 2)))
        np.int64(1)
    """
    if rtol is not None and tol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    a = stop_gradient(next_to(A, tol, rtol))
    if len(a.shape) < 2:
        if not is_abstract(a):
            return int(np.any(a._value if isinstance(a, Tensor) else a))
        found = linear.convert(bind("not_equal", a, 0), np.dtype(int))
        return bind("max", found, axes=tuple(range(len(a.shape))))
    s = svd(a, compute_uv=False, hermitian=hermitian)
    if tol is None:
        ratio = builtins.max(a.shape[-2:]) * np.finfo(s.dtype).eps if rtol is None else next_to(rtol, s)
        top = extremum("max", s, (len(s.shape) - 1,))
        tol = ratio * top
    limit = next_to(tol, s)
    found = bind("greater", s, linear.reshape(limit, (*limit.shape, 1)))
    return unordered(bind("sum", found, axes=(len(found.shape) - 1,)), limit)
