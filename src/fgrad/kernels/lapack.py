"""Factorizations inside compiled programs: the LAPACK of NumPy's wheels, called like kernels.

It takes matrices by columns: what is said of rows and columns here is said of arrays as programs hold them,
which are the transposes, of float64, in which NumPy computes all. LAPACK's own C interface allocates what the
functions need beside, and reports numbers that are NaN. Where one reports anything NumPy is asked, as by
`small_matrices`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fgrad.compat.numpy import address, blas_address
from fgrad.kernels import native, vm

_HEAD = """
CONTRACT = "{contract}, min(count, n) > 0, len(failed) == 1, hi <= count"
I, F, SIZE, REFUSED = np.int32, np.float64, 8, {refused}
COLUMNS, NOTHING, TINY, CLOSE = I(102), F(0.0), F({eps!r}), F(1e-9)

"""

# The lower triangle by rows is the upper one by columns, so nothing need be moved. But where a pivot is so
# small that its sign depends on rounding, the call that NumPy makes decides.
_POTRF = """
LOWER, UPPER = I(76), I(85)


def kernel(slots, args, lo, hi):
    a, out = float64_at(slots, args, 0), float64_at(slots, args, 1)
    failed, n = int64_at(slots, args, 2), args[4]
    for i in range(np.int64(lo), np.int64(hi)):
        start = i * n * n
        for r in range(n):
            for c in range(n):
                v = a[start + r * n + c]
                out[start + r * n + c] = v if c <= r else NOTHING
        found = invoke(args[5], COLUMNS, UPPER, n, address(out) + SIZE * start, n)
        least = F(1.0)
        for r in range(n):
            d = out[start + r * n + r]
            least = smaller(least, d * d - CLOSE * a[start + r * n + r])
        if found != 0 or not least > NOTHING:
            for r in range(n):
                for c in range(r + 1):
                    out[start + c * n + r] = a[start + r * n + c]
            if invoke(args[5], COLUMNS, LOWER, n, address(out) + SIZE * start, n) != 0:
                failed[0] = REFUSED
            for r in range(n):
                for c in range(r):
                    out[start + r * n + c] = out[start + c * n + r]
                    out[start + c * n + r] = NOTHING
"""

_GETRF = """

def kernel(slots, args, lo, hi):
    a, out, order = float64_at(slots, args, 0), float64_at(slots, args, 1), int64_at(slots, args, 2)
    failed, n = int64_at(slots, args, 3), args[5]
    for i in range(np.int64(lo), np.int64(hi)):
        for k in range(n * n):
            out[i * n * n + k] = a[i * n * n + k]
        place, exchanges = address(out) + SIZE * i * n * n, address(order) + 8 * i * n
        if invoke(args[6], COLUMNS, n, n, place, n, exchanges) != 0:
            failed[0] = REFUSED
"""

# NumPy would factor the transpose itself, in which a pivot may be zero that is small in these factors.
_GETRS = """
AS_IT_IS, TRANSPOSED = 78, 84


def kernel(slots, args, lo, hi):
    a, order, b = float64_at(slots, args, 0), int64_at(slots, args, 1), float64_at(slots, args, 2)
    out, failed, n, k = float64_at(slots, args, 3), int64_at(slots, args, 4), args[6], args[7]
    for i in range(np.int64(lo), np.int64(hi)):
        start = i * args[8]
        for e in range(n * k):
            out[i * n * k + e] = b[i * args[9] + e]
        if args[10] != 0:
            for c in range(n):
                top = NOTHING
                for r in range(c + 1):
                    top = larger(top, abs(a[(start + c) * n + r]))
                if not abs(a[(start + c) * n + c]) > TINY * F(n) * top:
                    failed[0] = REFUSED
        how = TRANSPOSED if args[10] != 0 else AS_IT_IS
        found = invoke(
            args[11], COLUMNS, I(how), n, k, address(a) + SIZE * start * n, n,
            address(order) + 8 * start, address(out) + SIZE * i * n * k, n,
        )
        if found != 0:
            failed[0] = REFUSED
"""

# Iterations may never end beside infinities. What `look` finds NumPy is asked about.
_LOOK = """

@helper
def look(a, out, start, to, count):
    size = NOTHING
    for e in range(count):
        v = a[start + e]
        out[to + e] = v
        size = larger(size, abs(v))
    return size

"""

_GEQRF = """
def kernel(slots, args, lo, hi):
    a, out, tau = float64_at(slots, args, 0), float64_at(slots, args, 1), float64_at(slots, args, 2)
    failed, n, m = int64_at(slots, args, 3), args[5], args[6]
    for i in range(np.int64(lo), np.int64(hi)):
        place, scales = address(out) + SIZE * i * n * m, address(tau) + SIZE * i * min(m, n)
        if not math.isfinite(look(a, out, i * n * m, i * n * m, n * m)):
            failed[0] = REFUSED
        elif invoke(args[7], COLUMNS, m, n, place, m, scales) != 0:
            failed[0] = REFUSED
"""

_ORGQR = """
def kernel(slots, args, lo, hi):
    a, tau, out = float64_at(slots, args, 0), float64_at(slots, args, 1), float64_at(slots, args, 2)
    failed, n, m = int64_at(slots, args, 3), args[5], args[6]
    k = min(m, n)
    for i in range(np.int64(lo), np.int64(hi)):
        place, scales = address(out) + SIZE * i * k * m, address(tau) + SIZE * i * k
        if not math.isfinite(look(a, out, i * n * m, i * k * m, k * m)):
            failed[0] = REFUSED
        elif invoke(args[7], COLUMNS, m, k, k, place, m, scales) != 0:
            failed[0] = REFUSED
"""

_SYEVD = """
VECTORS = I(86)


def kernel(slots, args, lo, hi):
    a, values, out = float64_at(slots, args, 0), float64_at(slots, args, 1), float64_at(slots, args, 2)
    failed, n = int64_at(slots, args, 3), args[5]
    for i in range(np.int64(lo), np.int64(hi)):
        place, found = address(out) + SIZE * i * n * n, address(values) + SIZE * i * n
        if not math.isfinite(look(a, out, i * n * n, i * n * n, n * n)):
            failed[0] = REFUSED
        elif invoke(args[8], COLUMNS, VECTORS, I(args[7]), n, place, n, found) != 0:
            failed[0] = REFUSED
"""

_GESDD = """
ALL, SOME = 65, 83


def kernel(slots, args, lo, hi):
    a, u, s = float64_at(slots, args, 0), float64_at(slots, args, 1), float64_at(slots, args, 2)
    v, w = float64_at(slots, args, 3), float64_at(slots, args, 4)
    failed, n, m = int64_at(slots, args, 5), args[7], args[8]
    k = min(m, n)
    left, right = m if args[9] != 0 else k, n if args[9] != 0 else k
    how = ALL if args[9] != 0 else SOME
    for i in range(np.int64(lo), np.int64(hi)):
        if not math.isfinite(look(a, w, i * n * m, i * n * m, n * m)):
            failed[0] = REFUSED
        else:
            found = invoke(
                args[10], COLUMNS, I(how), m, n, address(w) + SIZE * i * n * m, m, address(s) + SIZE * i * k,
                address(u) + SIZE * i * left * m, m, address(v) + SIZE * i * right * n, right,
            )
            if found != 0:
                failed[0] = REFUSED
"""


class Routine(NamedTuple):
    """A kernel, and the last of its numbers, the function that it calls."""

    kernel: native.Kernel
    function: int


def potrf() -> Routine | None:
    """Return the kernel of lower Cholesky factors; None where NumPy's LAPACK is not at hand.

    Its numbers are the slots of the matrices, of their factors and of what failed, then `count` and `n`.
    """
    contract = "args(a, out, failed, count, n, lapack), len(a) == len(out) == count * n * n"
    return _routine("potrf", _POTRF, contract)


def getrf() -> Routine | None:
    """Return the kernel of factors L U of transposed matrices; None as `potrf`.

    Its numbers are the slots of the matrices, of both factors in one, of the exchanges of rows and of what
    failed, then `count` and `n`.
    """
    contract = (
        "args(a, out, order, failed, count, n, lapack), len(a) == len(out) == count * n * n, "
        "len(order) == count * n"
    )
    return _routine("getrf", _GETRF, contract)


def getrs() -> Routine | None:
    """Return the kernel of systems whose matrices `getrf` has factored; None as `potrf`.

    Its numbers are the slots of factors, exchanges, right-hand sides, solutions and what failed, then
    `count`, `n`, how many right-hand sides each matrix has, each a row; by how many rows one matrix, and by
    how many elements its right-hand sides, are behind those before, 0 if all are the same; and whether
    systems are those of what was given to `getrf`, not of its transpose.
    """
    contract = (
        "args(a, order, b, out, failed, count, n, columns, step, along, turned, lapack), columns > 0, "
        "min(step, along) >= 0, (count - 1) * step + n <= len(order), len(a) == n * len(order), "
        "(count - 1) * along + n * columns <= len(b), len(out) == count * n * columns"
    )
    return _routine("getrs", _GETRS, contract)


def geqrf() -> Routine | None:
    """Return the kernel of Householder's vectors, and R, of transposed matrices; None as `potrf`.

    Its numbers are the slots of the matrices, of both in one, of the scales of vectors and of what failed,
    then `count`, and how many columns and rows LAPACK sees.
    """
    contract = (
        "args(a, out, tau, failed, count, n, m, lapack), m > 0, len(a) == len(out) == count * n * m, "
        "len(tau) == count * min(n, m)"
    )
    return _routine("geqrf", _LOOK + _GEQRF, contract)


def orgqr() -> Routine | None:
    """Return the kernel of the first columns of Q, given what `geqrf` computes; None as `potrf`.

    Its numbers are the slots of vectors, scales, Q transposed and what failed, then those of `geqrf`.
    """
    contract = (
        "args(a, tau, out, failed, count, n, m, lapack), m > 0, len(a) == count * n * m, "
        "len(tau) == count * min(n, m), len(out) == count * min(n, m) * m"
    )
    return _routine("orgqr", _LOOK + _ORGQR, contract)


def syevd() -> Routine | None:
    """Return the kernel of eigenvalues and eigenvectors of transposed matrices; None as `potrf`.

    Its numbers are the slots of matrices, values, vectors (as rows) and what failed, then `count`, `n` twice,
    and 76 if the lower triangle is read, 85 if it is the upper one, as LAPACK sees the matrices.
    """
    contract = (
        "args(a, values, out, failed, count, n, m, triangle, lapack), m == n, "
        "len(a) == len(out) == count * n * n, len(values) == count * n"
    )
    return _routine("syevd", _LOOK + _SYEVD, contract)


def gesdd() -> Routine | None:
    """Return the kernel of singular values and vectors of transposed matrices; None as `potrf`.

    Its numbers are the slots of matrices, of u, s and v^H, the first and last of them transposed, of as much
    memory as the matrices have and of what failed, then `count`, how many columns and rows LAPACK sees, and
    whether all vectors are asked for.
    """
    contract = (
        "args(a, u, s, v, w, failed, count, n, m, full, lapack), m > 0, "
        "len(a) == len(w) == count * n * m, len(s) == count * min(n, m), "
        "len(u) == count * m * (m if full else min(n, m)), len(v) == count * n * (n if full else min(n, m))"
    )
    return _routine("gesdd", _LOOK + _GESDD, contract)


def _routine(name: str, body: str, contract: str) -> Routine | None:
    place = 0 if native.interpreted() else blas_address(f"LAPACKE_d{name}")
    if not place:
        return None
    eps = 4000 * float(np.finfo(float).eps)  # rounding errors of pivots, with what amplifies them
    return Routine(
        native.deferred((_HEAD + body).format(contract=contract, refused=vm.REFUSED, eps=eps)), place
    )


# ---- by eager mode, one matrix at a time ----------------------------------------------------------


class Factors(NamedTuple):
    """The factors L U of a matrix, in double precision, as LAPACK leaves them.

    Attributes:
        lower_upper: both in one, by columns.
        order: the exchanges of rows.
    """

    lower_upper: np.ndarray[Any, Any]
    order: np.ndarray[Any, Any]


def factored(a: np.ndarray[Any, Any]) -> Factors | None:
    """Return the factors of a matrix; None where it is singular, holds NaN, or NumPy's LAPACK is not at hand.

    Args:
        a: of shape (n, n), of real numbers.
    """
    function = _function("getrf")
    n = len(a)
    if function is None or not n:
        return None
    held, order = np.array(a.T, np.float64, order="C"), np.empty(n, np.int64)
    return None if function(_COLUMNS, n, n, address(held), n, address(order)) else Factors(held, order)


def solved(factors: Factors, b: np.ndarray[Any, Any], *, transposed: bool) -> np.ndarray[Any, Any] | None:
    """Return the solutions of systems whose matrix was factored; None where NumPy may not find any.

    Args:
        factors: of a matrix of n rows.
        b: right-hand sides (n, k), of real numbers.
        transposed: whether the matrix is the transpose of what was factored, in which a pivot may be zero
            that is small in these factors.
    """
    held, order = factors
    function, n, k = _function("getrs"), len(order), b.shape[1]
    if function is None or len(b) != n or not k:
        return None
    if transposed:
        top = np.abs(held).max()
        if top <= 1:  # else it is no multiplier, which are never larger
            top = np.abs(np.tril(held)).max()
        if not np.abs(held.diagonal()).min() > 4000 * np.finfo(float).eps * n * top:
            return None
    out = np.array(b.T, np.float64, order="C")
    how = b"T" if transposed else b"N"
    if function(_COLUMNS, how, n, k, address(held), n, address(order), address(out), n):
        return None
    return out.reshape(n, 1) if k == 1 else np.ascontiguousarray(out.T)


_COLUMNS = 102


@cache
def _function(name: str) -> Callable[..., int] | None:
    """Return a function of LAPACK by name; None where NumPy's is not at hand."""
    place = blas_address(f"LAPACKE_d{name}")
    word, pointer = ctypes.c_int64, ctypes.c_void_p
    kinds: dict[str, list[Any]] = {
        "getrf": [ctypes.c_int, word, word, pointer, word, pointer],
        "getrs": [ctypes.c_int, ctypes.c_char, word, word, pointer, word, pointer, pointer, word],
    }
    return ctypes.CFUNCTYPE(word, *kinds[name])(place) if place else None
