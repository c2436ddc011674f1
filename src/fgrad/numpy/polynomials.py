"""Polynomials as vectors of coefficients, the highest power first: NumPy's functions of them.

Where NumPy drops leading coefficients that are zero, the result has its length, and derivatives count the
dropped coefficients in: they are those of the same places, seen from the constant term.
"""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np

from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.core.tensor import is_abstract
from fgrad.core.views import unordered
from fgrad.numpy.arrays import as_tensor, as_value, asarray, concrete, next_to, operands, seen, together
from fgrad.numpy.joining import concatenate
from fgrad.numpy.linalg import eigvals, inv, lstsq
from fgrad.numpy.products import matmul
from fgrad.numpy.reductions import inexact
from fgrad.numpy.registry import extends
from fgrad.numpy.shapes import atleast_1d
from fgrad.ops import linear


def _plain(p: Any) -> Any:
    """Return the coefficients of one of NumPy's polynomials as a list, anything else as it is."""
    return p.coeffs.tolist() if isinstance(p, np.poly1d) else p


def _coefficients(*ps: Any) -> list[Any]:
    """Return polynomials as vectors, where the first one on a device is if they are on none yet."""
    return [atleast_1d(p) for p in together(*map(_plain, ps))]


def _part(x: Any, start: int | None, stop: int | None) -> Any:
    return bind("slice", x, index=(slice(start, stop),))


def _concrete(x: Any, name: str) -> Any:
    return concrete(x, f"{name}, whose result depends in shape or dtype on the values,")


def _leading_zeros(p: Any, name: str) -> int:
    nonzero = np.flatnonzero(_concrete(p, name))
    return int(nonzero[0]) if nonzero.size else int(p.shape[0])


@extends(np.poly)
def poly(seq_of_zeros: Any) -> Any:
    """Return the coefficients of the polynomial with these roots and the leading coefficient one.

    Args:
        seq_of_zeros: vector of roots, or a square matrix, which stands for its eigenvalues.

    Returns:
        Vector, real also for complex roots if these come in conjugate pairs.

    Raises:
        ValueError: neither a vector nor a square matrix.

    Derivative:
        By the chain of products, in every root; of a matrix by its eigenvalues.

    Example:
        >>> fnp.poly(np.array([1.0, 2.0]))
        array([ 1., -3.,  2.])
    """
    z = atleast_1d(as_value(seq_of_zeros))
    if len(z.shape) == 2 and z.shape[0] == z.shape[1] != 0:
        z = eigvals(z)
    if len(z.shape) != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    if not z.shape[0]:
        return 1.0
    z = linear.convert(z, np.dtype(np.mintypecode(z.dtype.char)))
    a = near(z).ones(1, z.dtype)
    for i in range(z.shape[0]):  # without zeros beside `a`: the product with infinity would be NaN
        root = _part(z, i, i + 1)
        shifted = a * -root
        if z.dtype.kind == "c":  # infinity times a complex number is NaN in both of its parts
            shifted = bind("where", bind("isfinite", root), shifted, complex(np.nan, np.nan))
        a = concatenate(
            [_part(a, 0, 1), _part(a, 1, None) + _part(shifted, None, -1), _part(shifted, -1, None)]
        )
    if z.dtype.kind == "c":
        roots = np.sort(_concrete(z, "poly of complex roots"))
        if np.array_equal(roots, np.sort(np.conjugate(roots))):
            return linear.real(a)
    return a


@extends(np.roots)
def roots(p: Any) -> Any:
    """Return the roots of a polynomial, as eigenvalues of its companion matrix, in no particular order.

    Args:
        p: vector of coefficients; leading zeros lower the degree.

    Returns:
        Vector of as many roots as the degree; real if all roots are, under `vmap` always complex.

    Raises:
        ValueError: `p` is no vector.
        LinAlgError: in differentiation, at a multiple root that has a cotangent.

    Derivative:
        -r**(N-j) / p'(r) of the root r in the coefficient j, by the implicit function theorem.

    Example:
        >>> np.sort(fnp.roots(np.array([1.0, -3.0, 2.0])))
        array([1., 2.])
    """
    (p,) = _coefficients(p)
    if len(p.shape) != 1:
        raise ValueError("Input must be a rank-1 array.")
    if p.dtype.kind not in "fc":
        p = linear.convert(p, np.dtype(float))
    traced = is_abstract(p)
    if traced and p.dtype.char == "e" and p.shape[0] > 1:
        raise TypeError("array type float16 is unsupported in linalg")
    lead = 0 if traced else _leading_zeros(p, "roots")
    if lead == p.shape[0]:
        return linear.convert(_part(p, 0, 0), np.dtype(float))
    r = bind("roots", p, lead=lead)
    if traced or np.any(r._value.imag):
        return r
    return linear.real(r)


@extends(np.polyval)
def polyval(p: Any, x: Any) -> Any:
    """Return the values of a polynomial at `x`, by Horner's rule.

    Args:
        p: vector of coefficients, or a matrix whose columns broadcast with `x`.
        x: points, of any shape.

    Returns:
        Array of the shape of `x`, of the promoted dtype.

    Raises:
        TypeError: a polynomial (poly1d) in place of `x`; multiply with `polymul` instead.

    Derivative:
        In the coefficients and in `x`, where it is that of the polynomial.

    Example:
        >>> fnp.polyval([1.0, 0.0, 2.0], 3.0)
        np.float64(11.0)
        >>> fg.grad(lambda x: fnp.polyval([1.0, 0.0, 2.0], x))(3.0)
        np.float64(6.0)
    """
    if isinstance(x, np.poly1d):
        raise TypeError("polyval of Tensors takes numbers, no poly1d; compose polynomials with polymul")
    p, x = together(_plain(p), x)
    y: Any = near(x).zeros(x.shape, x.dtype)
    for i in range(p.shape[0]):
        y = y * x + bind("slice", p, index=(i,))
    return as_tensor(unordered(y, p))


@extends(np.polyfit)
def polyfit(
    x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """Return the coefficients of the polynomial of degree `deg` nearest to points, by least squares.

    Args:
        x: vector (m,) of abscissas.
        y: vector (m,), or matrix (m, k) of k sets of ordinates.
        deg: the degree.
        rcond: singular values of the scaled powers below `rcond` times the largest count as zero; None:
            m times the rounding unit.
        full: whether to return residuals, rank, singular values and `rcond` too.
        w: vector (m,) of weights of the residuals (not of their squares).
        cov: whether to return the covariance of the coefficients too, scaled by the variance of the
            residuals unless `cov` is "unscaled".

    Returns:
        Array of coefficients (deg + 1,) or (deg + 1, k), the highest power first.

    Raises:
        TypeError, ValueError: incompatible shapes, or too few points for `cov`.

    Derivative:
        In x, y and w: that of `lstsq`, along problems of the same rank.

    Example:
        >>> fnp.polyfit(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0]), 1).round(6)
        array([2., 1.])
    """
    x, y, w = operands(x, y, w)
    x, y, n = inexact(x), inexact(y), int(deg) + 1
    if n < 1:
        raise ValueError("expected deg >= 0")
    if len(x.shape) != 1:
        raise TypeError("expected 1D vector for x")
    m = x.shape[0]
    if not m:
        raise TypeError("expected non-empty vector for x")
    if not 1 <= len(y.shape) <= 2:
        raise TypeError("expected 1D or 2D array for y")
    if m != y.shape[0]:
        raise TypeError("expected x and y to have same length")
    if rcond is None:
        rcond = m * np.finfo(x.dtype).eps
    powers = vander(x, n)
    if w is not None:
        w = inexact(w)
        if len(w.shape) != 1:
            raise TypeError("expected a 1-d array for weights")
        if w.shape[0] != m:
            raise TypeError("expected w and y to have the same length")
        powers = linear.convert(powers * linear.reshape(w, (m, 1)), powers.dtype)
        y = linear.convert(y * linear.reshape(w, (m, *(1,) * (len(y.shape) - 1))), y.dtype)
    size = bind("root", bind("sum", powers * powers, axes=(0,)))
    powers = powers / size
    c, residuals, rank, s = lstsq(powers, y, rcond)
    c = c / linear.reshape(size, (n, *(1,) * (len(y.shape) - 1)))
    if full:
        return c, residuals, rank, s, rcond
    if seen(rank, lambda v: v != n):
        warnings.warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=2)
    if not cov:
        return c
    base = inv(matmul(powers.T, powers)) / (linear.reshape(size, (n, 1)) * size)
    if isinstance(cov, str) and cov == "unscaled":
        factor: Any = 1
    elif m <= n:
        raise ValueError("the number of data points must exceed order to scale the covariance matrix")
    else:
        factor = residuals / (m - n)
    return c, base * factor if len(y.shape) == 1 else linear.reshape(base, (n, n, 1)) * factor


@extends(np.polyadd)
def polyadd(a1: Any, a2: Any) -> Any:
    """Return the sum of two polynomials.

    Returns:
        Vector of coefficients, the highest first, as long as the longer one; the promoted dtype.

    Derivative:
        The identity in both.

    Example:
        >>> fnp.polyadd([1.0, 2.0], [1.0])
        array([1., 3.])
    """
    return _sum(np.add, a1, a2)


@extends(np.polysub)
def polysub(a1: Any, a2: Any) -> Any:
    """Return the difference of two polynomials.

    Returns:
        Vector of coefficients, the highest first, as long as the longer one; the promoted dtype.

    Derivative:
        One in the first, minus one in the second.

    Example:
        >>> fnp.polysub([1.0, 2.0], [1.0])
        array([1., 1.])
    """
    return _sum(np.subtract, a1, a2)


def _sum(f: Any, a1: Any, a2: Any) -> Any:
    x, y = _coefficients(a1, a2)
    n = max(x.shape[0], y.shape[0])
    full = (concatenate([near(v).zeros(n - v.shape[0], v.dtype), v]) if v.shape[0] < n else v for v in (x, y))
    return f(*full)


@extends(np.polymul)
def polymul(a1: Any, a2: Any) -> Any:
    """Return the product of two polynomials, without leading zeros of the factors.

    Returns:
        Vector of coefficients, the highest first; the promoted dtype.

    Derivative:
        That of `convolve`, in both.

    Example:
        >>> fnp.polymul([1.0, 1.0], [1.0, 2.0])
        array([1., 3., 2.])
    """
    x, y = _coefficients(a1, a2)
    if len(x.shape) > 1 or len(y.shape) > 1:
        raise ValueError("Polynomial must be 1d only.")
    x, y = (v if v.shape[0] else near(v).zeros(1, v.dtype) for v in (x, y))
    drop = sum(min(_leading_zeros(v, "polymul"), v.shape[0] - 1) for v in (x, y))
    if x.shape[0] < y.shape[0]:
        x, y = y, x
    return _part(bind("convolve", x, y, mode="full"), drop, None)


@extends(np.polydiv)
def polydiv(u: Any, v: Any) -> tuple[Any, Any]:
    """Return quotient and remainder of two polynomials, the remainder without leading zeros.

    Returns:
        Two vectors of coefficients, the highest first; floats or complex numbers.

    Derivative:
        By the chain of the division; how many zeros lead is decided by the values.

    Example:
        >>> fnp.polydiv(np.array([1.0, 3.0, 2.0]), np.array([1.0, 1.0]))
        (array([1., 2.]), array([0.]))
    """
    x, y = (p + 0.0 for p in _coefficients(u, v))
    if not x.shape[0] or not y.shape[0]:
        raise IndexError("index 0 is out of bounds for axis 0 with size 0: a polynomial has coefficients")
    kind = np.result_type(x.dtype, y.dtype)
    n, r = y.shape[0], linear.convert(x, kind)
    scale = 1.0 / _part(y, 0, 1)
    digits = []
    for k in range(x.shape[0] - n + 1):
        digit = linear.convert(scale * _part(r, k, k + 1), kind)
        digits.append(digit)
        r = concatenate([_part(r, None, k), _part(r, k, k + n) - digit * y, _part(r, k + n, None)])
    q, r = map(asarray, (concatenate(digits) if digits else near(r).zeros(1, kind), r))
    far = np.flatnonzero(~np.isclose(_concrete(r, "polydiv"), 0, rtol=1e-14))
    return q, _part(r, min(int(far[0]) if far.size else r.shape[0], r.shape[0] - 1), None)


@extends(np.polyder)
def polyder(p: Any, m: int = 1) -> Any:
    """Return the m-th derivative of a polynomial.

    Returns:
        Vector of coefficients, the highest first, `m` shorter; dtype of `p` or wider.

    Raises:
        ValueError: `m` is negative.

    Derivative:
        Linear in the coefficients.

    Example:
        >>> fnp.polyder(np.array([1.0, 0.0, 3.0]))
        array([2., 0.])
    """
    if m < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    p = as_value(p)
    for _ in range(int(m)):
        p = _part(p, None, -1) * near(p).arange(p.shape[0] - 1, 0, -1)
    return p


@extends(np.polyint)
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """Return the m-th antiderivative of a polynomial.

    Args:
        p: vector of coefficients.
        m: how often to integrate.
        k: the constants of integration, the first integration's first; one for all, or as many as `m`.

    Returns:
        Vector of coefficients, the highest first, `m` longer; integers give floats.

    Raises:
        ValueError: `m` is negative, or `k` has fewer constants.

    Derivative:
        Linear in the coefficients and in the constants.

    Example:
        >>> fnp.polyint(np.array([2.0, 1.0]))
        array([1., 1., 0.])
    """
    m = int(m)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    p, k = operands(p, k)
    p = as_value(p)
    k = near(p).zeros(m) if k is None else atleast_1d(next_to(k, p))
    if k.shape[0] == 1 and m > 1:
        k = linear.broadcast_to(k, (m,))
    if k.shape[0] < m:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    for i in range(m):
        p = concatenate([p / near(p).arange(p.shape[0], 0, -1), _part(k, i, i + 1)])
    return p


@extends(np.vander)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:  # noqa: N803 -- NumPy's name
    """Return the powers of a vector as columns, N of them, the highest first unless `increasing`.

    Returns:
        Array (len(x), N) of powers, N = len(x) by default; dtype of `x`, integers as in NumPy.

    Raises:
        ValueError: `x` has not one axis.

    Derivative:
        That of each power; 0 for the column of ones.

    Example:
        >>> fnp.vander(np.array([2.0, 3.0]), 3)
        array([[4., 2., 1.],
               [9., 3., 1.]])
    """
    x = as_value(x)
    if len(x.shape) != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    rows, n = x.shape[0], x.shape[0] if N is None else operator.index(N)
    x = linear.convert(x, np.promote_types(x.dtype, int))
    columns = linear.broadcast_to(linear.reshape(x, (rows, 1)), (rows, max(n - 1, 0)))
    ones = near(x).ones((rows, min(n, 1)), x.dtype)
    powers = concatenate([ones, bind("cumprod", columns, axis=1)], 1)
    return powers if increasing else bind("slice", powers, index=(slice(None), slice(None, None, -1)))
