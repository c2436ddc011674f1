"""Derivatives in ninety digits: differences of slow references, which use neither a rule of fgrad nor LAPACK.

A reference takes a matrix of mpmath's and returns one, or a list of numbers. Its differences at places that
are close to a point, but not at the point, are exact to double precision, also where eigenvalues are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

DIGITS = 90
STEP = mp.mpf(10) ** -16
# order: (places, weights, divisor), none of them the point itself
STENCILS = {
    1: ((-1, 1), (-1, 1), 2),
    2: ((-3, -1, 1, 3), (1, -1, -1, 1), 8),
    3: ((-3, -1, 1, 3), (-1, 3, -3, 1), 8),
}


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
        places, weights, divisor = STENCILS[order]
        a, e = matrix(a), matrix(e)
        found = [numbers(f(a + k * STEP * e)) for k in places]
        total = [mp.fsum(map(mp.fmul, weights, column)) for column in zip(*found, strict=True)]
        return np.array([complex(x / (divisor * STEP**order)) for x in total])


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
