"""Functions of NumPy that Numba knows, as kernels: what is written here differentiates as users' code does.

Systems are solved by elimination with partial pivoting (Golub & Van Loan, Matrix Computations, section 3.4);
gamma functions are Stirling's series (Abramowitz & Stegun, Handbook of Mathematical Functions, 6.1.40 and
6.1.17). A function of arrays writes to its first argument, an array of zeros; a function that gives a number
returns it.
"""

# ruff: noqa: ANN001, ANN202 -- the names are NumPy's, the types are those of a call
# mypy: ignore-errors

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Entry(NamedTuple):
    """A function of NumPy for arguments with so many axes."""

    kernel: Callable[..., Any]
    dims: tuple[tuple[int, int], ...] | None = None  # argument and axis of every axis of the result
    foreign: bool = False  # whether Numba has it of BLAS or LAPACK, which round otherwise


def _dot_1_1(x, y):
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


def _vdot_1_1(x, y):
    total = 0.0
    for i in range(len(x)):
        total += np.conj(x[i]) * y[i]
    return total


def _dot_2_1(out, a, x):
    for i in range(a.shape[0]):
        total = 0.0
        for j in range(a.shape[1]):
            total += a[i, j] * x[j]
        out[i] = total


def _dot_1_2(out, x, a):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[j] += x[i] * a[i, j]


def _dot_2_2(out, a, b):
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                out[i, j] += a[i, k] * b[k, j]


def _outer(out, x, y):
    for i in range(len(x)):
        for j in range(len(y)):
            out[i, j] = x[i] * y[j]


def _trace(a):
    total = 0.0
    for i in range(min(a.shape[0], a.shape[1])):
        total += a[i, i]
    return total


def _max_1(x):
    best = x[0]
    for i in range(1, len(x)):
        best = max(best, x[i])
    return best


def _min_1(x):
    best = x[0]
    for i in range(1, len(x)):
        best = min(best, x[i])
    return best


def _max_2(x):
    best = x[0, 0]
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if i + j > 0:
                best = max(best, x[i, j])
    return best


def _min_2(x):
    best = x[0, 0]
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if i + j > 0:
                best = min(best, x[i, j])
    return best


def _prod_1(x):
    total = 1.0
    for i in range(len(x)):
        total *= x[i]
    return total


def _cumsum_1(out, x):
    total = 0.0
    for i in range(len(x)):
        total += x[i]
        out[i] = total


def _diag_1(out, x):
    for i in range(len(x)):
        out[i, i] = x[i]


def _norm_1(x):
    total = 0.0
    for i in range(len(x)):
        total += abs(x[i]) ** 2
    return np.sqrt(total)


def _norm_2(x):
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total += abs(x[i, j]) ** 2
    return np.sqrt(total)


def _eliminate(a, b):
    """Make `a` upper triangular and take the same steps with `b`; return the sign of the permutation."""
    n = a.shape[0]
    sign = 1.0
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[p, k]):
                p = i
        if p != k:
            sign = -sign
            for j in range(n):
                kept = a[k, j]
                a[k, j] = a[p, j]
                a[p, j] = kept
            for j in range(b.shape[1]):
                other = b[k, j]
                b[k, j] = b[p, j]
                b[p, j] = other
        for i in range(k + 1, n):
            factor = a[i, k] / a[k, k]
            for j in range(k, n):
                a[i, j] -= factor * a[k, j]
            for j in range(b.shape[1]):
                b[i, j] -= factor * b[k, j]
    return sign


def _substitute(out, a, b):
    for c in range(b.shape[1]):
        for i in range(a.shape[0] - 1, -1, -1):
            total = b[i, c]
            for j in range(i + 1, a.shape[0]):
                total -= a[i, j] * out[j, c]
            out[i, c] = total / a[i, i]


def _solve_2_2(out, a, b):
    upper = a.copy()
    right = b.copy()
    _eliminate(upper, right)
    _substitute(out, upper, right)


def _solve_2_1(out, a, b):
    upper = a.copy()
    right = b.copy().reshape((b.shape[0], 1))
    _eliminate(upper, right)
    _substitute(out.reshape((out.shape[0], 1)), upper, right)


def _inv(out, a):
    upper = a.copy()
    right = np.zeros_like(a)
    for i in range(a.shape[0]):
        right[i, i] = 1.0
    _eliminate(upper, right)
    _substitute(out, upper, right)


def _det(a):
    upper = a.copy()
    right = np.zeros_like(a)
    total = _eliminate(upper, right)
    for i in range(a.shape[0]):
        total = total * upper[i, i]
    return total


def _cholesky(out, a):
    for i in range(a.shape[0]):
        for j in range(i + 1):
            total = a[i, j]
            for k in range(j):
                total -= out[i, k] * np.conj(out[j, k])
            if i == j:
                out[i, i] = np.sqrt(total)
            else:
                out[i, j] = total / out[j, j]


def _stirling(x):
    """Return the logarithm of the gamma function of x >= 0.5."""
    shift = 0.0
    if x < 7.5:  # x (x + 1) ... (x + 6)
        low = x * (720.0 + x * (1764.0 + x * (1624.0 + x * (735.0 + x * (175.0 + x * (21.0 + x))))))
        shift = np.log(low)
        x = x + 7.0
    t = 1.0 / (x * x)
    late = 1.0 / 1188.0 - t * (691.0 / 360360.0 - t * (1.0 / 156.0 - t * (3617.0 / 122400.0)))
    series = 1.0 / 12.0 - t * (1.0 / 360.0 - t * (1.0 / 1260.0 - t * (1.0 / 1680.0 - t * late)))
    return (x - 0.5) * np.log(x) - x + 0.9189385332046727 + series / x - shift


def _lgamma(x):
    value = _stirling(x if x >= 0.5 else 1.0 - x)
    if x < 0.5:
        value = np.log(np.pi / abs(np.sin(np.pi * (x - np.floor(x))))) - value
    return value


def _gamma(x):
    value = np.exp(_stirling(x if x >= 0.5 else 1.0 - x))
    if x < 0.5:
        value = np.pi / (np.sin(np.pi * (x - 2.0 * np.floor(0.5 * x))) * value)
    return value


_DOTS = {
    (1, 1): Entry(_dot_1_1, foreign=True),
    (2, 1): Entry(_dot_2_1, ((0, 0),), foreign=True),
    (1, 2): Entry(_dot_1_2, ((1, 1),), foreign=True),
    (2, 2): Entry(_dot_2_2, ((0, 0), (1, 1)), foreign=True),
}
LIBRARY: dict[Any, dict[tuple[int, ...], Entry]] = {
    np.dot: _DOTS,
    np.vdot: {(1, 1): Entry(_vdot_1_1, foreign=True)},
    np.outer: {(1, 1): Entry(_outer, ((0, 0), (1, 0)))},
    np.trace: {(2,): Entry(_trace)},
    np.max: {(1,): Entry(_max_1), (2,): Entry(_max_2)},
    np.min: {(1,): Entry(_min_1), (2,): Entry(_min_2)},
    np.prod: {(1,): Entry(_prod_1)},
    np.cumsum: {(1,): Entry(_cumsum_1, ((0, 0),))},
    np.diag: {(1,): Entry(_diag_1, ((0, 0), (0, 0)))},
    np.linalg.norm: {(1,): Entry(_norm_1, foreign=True), (2,): Entry(_norm_2, foreign=True)},
    np.linalg.solve: {
        (2, 2): Entry(_solve_2_2, ((0, 0), (1, 1)), foreign=True),
        (2, 1): Entry(_solve_2_1, ((0, 0),), foreign=True),
    },
    np.linalg.inv: {(2,): Entry(_inv, ((0, 0), (0, 1)), foreign=True)},
    np.linalg.det: {(2,): Entry(_det, foreign=True)},
    np.linalg.cholesky: {(2,): Entry(_cholesky, ((0, 0), (0, 1)), foreign=True)},
}
NUMBERS = {math.gamma: _gamma, math.lgamma: _lgamma}  # functions of numbers that have no atom
METHODS = {
    "dot": np.dot,
    "trace": np.trace,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "cumsum": np.cumsum,
}
