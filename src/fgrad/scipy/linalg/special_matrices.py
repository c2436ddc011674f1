"""Matrices with a structure, made of vectors: their elements are gathered, so derivatives are sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.extend.engine import (
    as_column,
    as_row,
    as_value,
    broadcast_to,
    conjugate,
    convert,
    reshape,
    reverse,
)
from fgrad.numpy.indexing import take
from fgrad.numpy.joining import concatenate
from fgrad.scipy.linalg import arguments


def _vectors(*xs: Any) -> list[Any]:
    """Return vectors, or stacks of them, with the same axes in front and of one dtype."""
    values = [as_value(x) for x in xs]
    values = [reshape(x, (1,)) if not x.shape else x for x in values]
    lead = np.broadcast_shapes(*(x.shape[:-1] for x in values))
    values = [x if x.shape[:-1] == lead else broadcast_to(x, (*lead, x.shape[-1])) for x in values]
    return arguments.common(*values)


def toeplitz(c: Any, r: Any = None) -> Any:
    """Return matrices with constant diagonals.

    Args:
        c: the first column, (..., m).
        r: the first row, (..., n), whose first element is not read; None: the conjugate of `c`.

    Returns:
        Matrices (..., m, n), of the promoted dtype; integers give integers where both are.

    Derivative:
        Sums along diagonals of the cotangent.

    Example:
        >>> toeplitz([1, 2, 3], [1, 4])
        array([[1, 4],
               [2, 1],
               [3, 2]])
        >>> fg.grad(lambda c: toeplitz(c, np.zeros(2)).sum())(np.ones(3))
        array([2., 2., 1.])
    """
    c, r = _vectors(c, conjugate(as_value(c)) if r is None else r)
    m, n = c.shape[-1], r.shape[-1]
    rest = bind("slice", r, index=(..., slice(1, None)))
    line = concatenate([reverse(c, len(c.shape) - 1), rest], axis=-1)
    return take(line, m - 1 + np.arange(n) - np.arange(m)[:, None], axis=-1)


def hankel(c: Any, r: Any = None) -> Any:
    """Return matrices with constant antidiagonals.

    Args:
        c: the first column, (..., m).
        r: the last row, (..., n), whose first element is not read; None: zeros.

    Returns:
        Matrices (..., m, n), of the promoted dtype.

    Derivative:
        Sums along antidiagonals of the cotangent.

    Example:
        >>> hankel([1, 2, 3], [3, 4])
        array([[1, 2],
               [2, 3],
               [3, 4]])
        >>> fg.grad(lambda c: hankel(c).sum())(np.ones(3))
        array([1., 2., 3.])
    """
    c = as_value(c)
    c, r = _vectors(c, near(c).zeros(c.shape, c.dtype) if r is None else r)
    m, n = c.shape[-1], r.shape[-1]
    line = concatenate([c, bind("slice", r, index=(..., slice(1, None)))], axis=-1)
    return take(line, np.arange(m)[:, None] + np.arange(n), axis=-1)


def circulant(c: Any) -> Any:
    """Return matrices whose columns are a vector, each shifted by one more element.

    Args:
        c: vectors (..., n).

    Returns:
        Matrices (..., n, n), of the dtype of `c`.

    Derivative:
        Sums along diagonals that go on at the other side.

    Example:
        >>> circulant([1, 2, 3])
        array([[1, 3, 2],
               [2, 1, 3],
               [3, 2, 1]])
        >>> fg.grad(lambda c: circulant(c)[0].prod())(np.array([1.0, 2.0, 3.0]))
        array([6., 3., 2.])
    """
    (c,) = _vectors(c)
    n = c.shape[-1]
    return take(c, (np.arange(n)[:, None] - np.arange(n)) % max(n, 1), axis=-1)


def companion(a: Any) -> Any:
    """Return the matrices whose eigenvalues are the roots of polynomials.

    Args:
        a: coefficients (..., n), the highest power first.

    Returns:
        Matrices (..., n - 1, n - 1); floats or complex numbers, integers give float64.

    Raises:
        ValueError: fewer than two coefficients, or the first is seen to be zero.

    Derivative:
        That of the quotients -a_k / a_0 in the first row.

    Example:
        >>> companion([2.0, 4.0, 6.0])
        array([[-2., -3.],
               [ 1.,  0.]])
        >>> fg.grad(lambda a: companion(a)[0, 1])(np.array([2.0, 4.0, 6.0])) + 0.0
        array([ 1.5,  0. , -0.5])
    """
    (a,) = _vectors(a)
    a = arguments.numbers(a)
    n = a.shape[-1]
    if n < 2:
        raise ValueError("The length of `a` along the last axis must be at least 2.")
    if arguments.is_visible(a) and np.any(arguments.plain(a)[..., 0] == 0):
        raise ValueError("The first coefficient in `a` must not be zero.")
    rest, first = (bind("slice", a, index=(..., s)) for s in (slice(1, None), slice(0, 1)))
    top = as_row(-rest / first)
    below = broadcast_to(near(a).eye(n - 1, dtype=a.dtype)[:-1], (*a.shape[:-1], n - 2, n - 1))
    return concatenate([top, below], axis=-2)


def block_diag(*arrs: Any) -> Any:
    """Return matrices with blocks along the diagonal and zeros elsewhere.

    Args:
        arrs: matrices (..., m, n), whose leading axes broadcast; vectors count as one row.

    Returns:
        Matrices (..., sum of m, sum of n), of the promoted dtype; of no block (1, 0).

    Derivative:
        The blocks of the cotangent.

    Example:
        >>> block_diag([[1, 2]], [[3], [4]])
        array([[1, 2, 0],
               [0, 0, 3],
               [0, 0, 4]])
        >>> fg.grad(lambda a: (block_diag(a, 2.0) ** 2).sum())(np.ones((2, 1)))
        array([[2.],
               [2.]])
    """
    blocks = [as_value(a) for a in arrs] or [np.zeros((1, 0))]
    blocks = [
        reshape(a, (1,) * (2 - len(a.shape)) + tuple(a.shape)) if len(a.shape) < 2 else a for a in blocks
    ]
    lead = np.broadcast_shapes(*(a.shape[:-2] for a in blocks))
    dtype = np.result_type(*(a.dtype for a in blocks))
    m, n = (sum(a.shape[k] for a in blocks) for k in (-2, -1))
    lines, start = [], 0
    for a in blocks:
        wide = (*lead, a.shape[-2], n)
        inner = broadcast_to(convert(a, dtype), (*lead, *a.shape[-2:]))
        lines.append(
            bind("slice_backward", inner, shape=wide, index=(..., slice(start, start + a.shape[-1])))
        )
        start += a.shape[-1]
    return concatenate(lines, axis=-2) if m else broadcast_to(np.zeros((0, n), dtype), (*lead, 0, n))


def convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    """Return the matrix whose product with a vector of length `n` is its convolution with `a`.

    Args:
        a: vectors (..., m).
        n: the length of the other vector.
        mode: "full", "valid" or "same".

    Returns:
        Matrices (..., m + n - 1, n), "same" (..., max(m, n), n), "valid" (..., max(m, n) - min(m, n) + 1, n),
        of the dtype of `a`.

    Raises:
        ValueError: no elements, a length below one, or an unknown mode.

    Derivative:
        Sums along diagonals of the cotangent.

    Example:
        >>> convolution_matrix([1, 2], 2)
        array([[1, 0],
               [2, 1],
               [0, 2]])
        >>> fg.grad(lambda a: (convolution_matrix(a, 2) @ np.array([1.0, 3.0])).sum())(np.ones(2))
        array([4., 4.])
    """
    (a,) = _vectors(a)
    m = a.shape[-1]
    if n <= 0:
        raise ValueError("n must be a positive integer.")
    if m == 0:
        raise ValueError("len(a) must be at least 1.")
    if mode not in {"full", "valid", "same"}:
        raise ValueError(f"'mode' argument must be one of ('full', 'valid', 'same'), not {mode!r}")
    zeros = near(a).zeros((*a.shape[:-1], n - 1), a.dtype)
    first = bind("slice", a, index=(..., slice(0, 1)))
    full = toeplitz(concatenate([a, zeros], axis=-1), concatenate([first, zeros], axis=-1))
    if mode == "full":
        return full
    if mode == "same":
        count = max(m, n)
        start = (min(m, n) - 1) // 2
    else:
        count, start = max(m, n) - min(m, n) + 1, min(m, n) - 1
    return bind("slice", full, index=(..., slice(start, start + count), slice(None)))


def leslie(f: Any, s: Any) -> Any:
    """Return Leslie's matrices: fecundities in the first row, survivals below the diagonal.

    Args:
        f: fecundities (..., n).
        s: survivals (..., n - 1).

    Returns:
        Matrices (..., n, n), of the promoted dtype.

    Raises:
        ValueError: lengths that do not match.

    Derivative:
        The elements of the cotangent where fecundities and survivals are.

    Example:
        >>> leslie([0.0, 2.0], [0.5])
        array([[0. , 2. ],
               [0.5, 0. ]])
        >>> fg.grad(lambda s: leslie(np.array([0.0, 2.0]), s)[1, 0])(np.array([0.5]))
        array([1.])
    """
    f, s = _vectors(f, s)
    n = f.shape[-1]
    if n != s.shape[-1] + 1:
        raise ValueError("The length of s must be one less than the length of f")
    if n < 2:
        raise ValueError("The length of s must be at least 1.")
    lower = as_column(s) * near(s).eye(n, dtype=s.dtype)[:-1]
    return concatenate([as_row(f), lower], axis=-2)


def khatri_rao(a: Any, b: Any) -> Any:
    """Return the Kronecker products of the columns of two matrices, side by side.

    Args:
        a: matrices (..., m, n).
        b: matrices (..., k, n).

    Returns:
        Matrices (..., m k, n), of the promoted dtype.

    Raises:
        ValueError: another number of columns.

    Derivative:
        Of a bilinear function, in both.

    Example:
        >>> khatri_rao([[1, 2]], [[3, 4], [5, 6]])
        array([[ 3,  8],
               [ 5, 12]])
        >>> fg.grad(lambda a: khatri_rao(a, np.array([[3.0, 4.0], [5.0, 6.0]])).sum())(np.ones((1, 2)))
        array([[ 8., 10.]])
    """
    a, b = as_value(a), as_value(b)
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-1]:
        raise ValueError("The number of columns for both arrays should be equal, and both be matrices.")
    a, b = arguments.stacked(a, b)
    *lead, m, n = a.shape
    k = b.shape[-2]
    product = reshape(a, (*lead, m, 1, n)) * reshape(b, (*lead, 1, k, n))
    return reshape(product, (*lead, m * k, n))
