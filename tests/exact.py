"""Derivatives in ninety digits: differences of slow references, which use neither a rule of fgrad nor LAPACK.

A reference takes a matrix of mpmath's and returns one, or a list of numbers. Its differences at places that
are close to a point, on either side but not at the point, are exact to double precision.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

DIGITS = 90
STEP = mp.mpf(10) ** -16


def matrix(a: Any) -> Any:
    """Return an array as matrix of mpmath's."""
    number = (lambda x: mp.mpmathify(complex(x))) if np.iscomplexobj(a) else lambda x: mp.mpf(float(x))
    return mp.matrix([[number(x) for x in row] for row in np.asarray(a)])


def numbers(y: Any) -> list[Any]:
    """Return what a reference returns as a list of numbers, row by row."""
    if isinstance(y, mp.matrix):
        return [y[i, j] for i in range(y.rows) for j in range(y.cols)]
    return list(y) if isinstance(y, list | tuple) else [y]


def derivative(f: Callable[[Any], Any], a: Any, e: Any, order: int) -> Any:
    """Return a derivative of t -> f(a + t e) at zero; where there is a kink, the mean of both sides."""
    with mp.workdps(DIGITS):
        a, e = matrix(a), matrix(e)
        sides = []
        for step in (STEP, -STEP):
            found = [numbers(f(a + k * step * e)) for k in range(1, order + 2)]
            while len(found) > 1:
                found = [
                    [(y - x) / step for x, y in zip(*pair, strict=True)] for pair in itertools.pairwise(found)
                ]
            sides.append(found[0])
        return np.array([complex((x + y) / 2) for x, y in zip(*sides, strict=True)])


# ---- references


def function_of(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function of matrices that is `f` of their eigenvalues; of real ones as of numbers."""

    def of(a: Any) -> Any:
        w, v = mp.eig(a)
        near = mp.mpf(10) ** (-DIGITS // 2)
        w = [mp.re(x) if abs(mp.im(x)) <= near * abs(x) else x for x in w]
        return v * mp.diag([f(x) for x in w]) * mp.inverse(v)

    return of


def hermitian(f: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Return `f` of eigenvalues and vectors of Hermitian matrices, of which the lower triangle is read."""

    def of(a: Any) -> Any:
        n = a.rows
        full = a.copy()
        for i in range(n):
            full[i, i] = mp.re(a[i, i])
            for j in range(i):
                full[j, i] = mp.conj(a[i, j])
        return f(*mp.eighe(full))

    return of


def of_hermitian(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function of Hermitian matrices that is `f` of their eigenvalues."""
    return hermitian(lambda w, v: v * mp.diag([f(x) for x in w]) * v.H)


def full(a: Any) -> Any:
    """Return the Hermitian matrix of which the lower triangle is read."""
    a = a.copy()
    for i in range(a.rows):
        a[i, i] = mp.re(a[i, i])
        for j in range(i):
            a[j, i] = mp.conj(a[i, j])
    return a


def trace(a: Any) -> Any:
    """Return the sum of the eigenvalues of a Hermitian matrix."""
    return mp.fsum(mp.re(a[i, i]) for i in range(a.rows))


def det(a: Any) -> Any:
    """Return the determinant, by the first row."""
    if a.rows == 1:
        return a[0, 0]
    rest = range(1, a.rows)
    minors = [mp.matrix([[a[i, j] for j in range(a.cols) if j != k] for i in rest]) for k in range(a.cols)]
    return mp.fsum((-1) ** k * a[0, k] * det(m) for k, m in enumerate(minors))


def singular(a: Any) -> list[Any]:
    """Return singular values, the largest first."""
    w = mp.eighe(a.H * a)[0]
    return sorted((mp.sqrt(abs(mp.re(x))) for x in w), reverse=True)


def nuclear(a: Any) -> Any:
    """Return the sum of the singular values."""
    return mp.fsum(singular(a))


def polar(a: Any) -> tuple[Any, Any]:
    """Return the polar factors."""
    w, v = mp.eighe(a.H * a)
    p = v * mp.diag([mp.sqrt(mp.re(x)) for x in w]) * v.H
    return a * mp.inverse(p), p


def pinv(a: Any) -> Any:
    """Return the pseudo-inverse of a matrix of independent columns."""
    return mp.inverse(a.H * a) * a.H


def cholesky(a: Any) -> Any:
    """Return the Cholesky factor."""
    a, n = full(a), a.rows
    low = mp.zeros(n, n)
    for j in range(n):
        for i in range(j, n):
            rest = a[i, j] - mp.fsum(low[i, k] * mp.conj(low[j, k]) for k in range(j))
            low[i, j] = mp.sqrt(mp.re(rest)) if i == j else rest / low[j, j]
    return low


def qr(a: Any, signs: Any) -> tuple[Any, Any]:
    """Return the factors q and r by Gram and Schmidt, the diagonal of r with these signs."""
    m, n = a.rows, a.cols
    q = mp.zeros(m, n)
    for j in range(n):
        v = a[:, j].copy()
        for i in range(j):
            c = mp.fsum(mp.conj(q[t, i]) * v[t] for t in range(m))
            for t in range(m):
                v[t] -= c * q[t, i]
        size = mp.sqrt(mp.fsum(abs(x) ** 2 for x in v)) * float(signs[j])
        for t in range(m):
            q[t, j] = v[t] / size
    return q, q.H * a


def lu(a: Any, order: Any) -> tuple[Any, Any]:
    """Return the factors l and u of the matrix with its rows in an order."""
    m, n = a.rows, a.cols
    k = min(m, n)
    u = mp.matrix([[a[int(i), j] for j in range(n)] for i in order])
    low = mp.zeros(m, k)
    for c in range(k):
        low[c, c] = 1
        for i in range(c + 1, m):
            low[i, c] = u[i, c] / u[c, c]
            for j in range(c, n):
                u[i, j] -= low[i, c] * u[c, j]
    return low, u[:k, :]


def ldl(a: Any) -> Any:
    """Return the first factor of L D L^H without exchanges."""
    return lu(full(a), range(a.rows))[0]
