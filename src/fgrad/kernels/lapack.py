"""Systems, factors L U and Schur forms inside compiled programs: the LAPACK of NumPy's wheels, by address.

It takes matrices by columns; complex numbers are pairs. `getrf` and `getrs` solve systems in float64, as
NumPy does all, and what is said of rows and columns there is said of arrays as programs hold them, which are
the transposes; the others compute in the dtype of the matrices, as SciPy does. LAPACK's own C interface
reports numbers that are NaN. Where one reports anything NumPy is asked, as by `small_matrices`.
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
CONTRACT = "{contract}, hi <= count, count > 0"
I, F, SIZE, PAIR, REFUSED = np.int32, np.{dtype}, {size}, {pair}, {refused}
COLUMNS, ZERO, TINY = I(102), F(0.0), F({eps!r})

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
                top = ZERO
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

_GETRF = """
def kernel(slots, args, lo, hi):
    a, out, order = {dtype}_at(slots, args, 0), {dtype}_at(slots, args, 1), int64_at(slots, args, 2)
    m, n = args[4], args[5]
    k = min(m, n)
    for i in range(np.int64(lo), np.int64(hi)):
        for e in range(PAIR * m * n):
            out[PAIR * i * m * n + e] = a[PAIR * i * m * n + e]
        place = address(out) + SIZE * PAIR * i * m * n
        found = invoke(LAPACK, COLUMNS, m, n, place, m, address(order) + 8 * i * k)
AFTER
"""
_REFUSED = """        if found != 0:
            int64_at(slots, args, 6)[0] = REFUSED"""
_FROM_ZERO = """        for e in range(k):
            order[i * k + e] -= 1"""

_GBSV = """
def kernel(slots, args, lo, hi):
    ab, b, w = {dtype}_at(slots, args, 0), {dtype}_at(slots, args, 1), {dtype}_at(slots, args, 2)
    order, out, failed = int64_at(slots, args, 3), {dtype}_at(slots, args, 4), int64_at(slots, args, 5)
    n, low, high, columns = args[7], args[8], args[9], args[10]
    rows, wide = low + high + 1, 2 * low + high + 1
    for i in range(np.int64(lo), np.int64(hi)):
        start, at = PAIR * i * n * wide, PAIR * i * n * columns
        for c in range(n):
            for e in range(PAIR * low):
                w[start + PAIR * c * wide + e] = ZERO
            for e in range(PAIR * rows):
                w[start + PAIR * (c * wide + low) + e] = ab[PAIR * (i * n * rows + c * rows) + e]
        for e in range(PAIR * n * columns):
            out[at + e] = b[at + e]
        found = invoke(
            args[11], COLUMNS, n, low, high, columns, address(w) + SIZE * start, wide,
            address(order) + 8 * i * n, address(out) + SIZE * at, n,
        )
        if found != 0:
            failed[0] = REFUSED
"""

_TRSYL = """
def kernel(slots, args, lo, hi):
    r, s, c = float64_at(slots, args, 0), float64_at(slots, args, 1), float64_at(slots, args, 2)
    out, failed, m, n = float64_at(slots, args, 3), int64_at(slots, args, 4), args[6], args[7]
    scale = np.empty(1, np.float64)
    for i in range(np.int64(lo), np.int64(hi)):
        at = 2 * i * m * n
        for e in range(2 * m * n):
            out[at + e] = c[at + e]
        found = invoke(
            args[8], COLUMNS, I(78), I(67), I(1), m, n, address(r) + 16 * i * m * m, m,
            address(s) + 16 * i * n * n, n, address(out) + SIZE * at, m, address(scale),
        )
        if found != 0:
            failed[0] = REFUSED
        for e in range(2 * m * n):
            out[at + e] = out[at + e] / scale[0]
"""

_GEES = """
def kernel(slots, args, lo, hi):
    a, t, v = {dtype}_at(slots, args, 0), {dtype}_at(slots, args, 1), {dtype}_at(slots, args, 2)
    w, failed, n = {dtype}_at(slots, args, 3), int64_at(slots, args, 4), args[6]
    found = np.empty(1, np.int64)
    for i in range(np.int64(lo), np.int64(hi)):
        at, size = PAIR * i * n * n, ZERO
        for e in range(PAIR * n * n):
            t[at + e] = a[at + e]
            size = larger(size, abs(a[at + e]))
        if not math.isfinite(size):
            failed[0] = REFUSED
        elif invoke(
            args[7], COLUMNS, I(86), I(78), np.int64(0), n, address(t) + SIZE * at, n, address(found),
            VALUES, address(v) + SIZE * at, n,
        ) != 0:
            failed[0] = REFUSED
"""


class Routine(NamedTuple):
    """A kernel, and the last of its numbers, the function that it calls."""

    kernel: native.Kernel
    function: int


def getrs() -> Routine | None:
    """Return the kernel of systems whose matrices `getrf` has factored; None as `getrf`.

    Its numbers are the slots of factors, exchanges, right-hand sides, solutions and what failed, then
    `count`, `n`, how many right-hand sides each matrix has, each a row; by how many rows one matrix, and by
    how many elements its right-hand sides, are behind those before, 0 if all are the same; and whether
    systems are those of what was given to `getrf`, not of its transpose.
    """
    contract = (
        "args(a, order, b, out, failed, count, n, columns, step, along, turned, lapack), "
        "min(n, columns) > 0, min(step, along) >= 0, (count - 1) * step + n <= len(order), "
        "len(a) == n * len(order), (count - 1) * along + n * columns <= len(b), "
        "len(out) == count * n * columns, len(failed) == 1"
    )
    return called("getrs", _GETRS, contract)


def getrf(dtype: str, pair: int, *, strict: bool) -> Routine | None:
    """Return the kernel of factors L U of matrices by columns; None where LAPACK is not at hand.

    Its numbers are the slots of the matrices, of both factors in one and of the exchanges of rows, then how
    many matrices, rows and columns there are, and if `strict` the slot of what failed.

    Args:
        dtype: "float32" or "float64".
        pair: 2 for complex numbers, else 1.
        strict: whether pivots that are zero and numbers that are NaN are faults, and rows count from one, as
            `getrs` has it. Else the factors are what they are: what LAPACK's interface calls inside does not
            look at a matrix first, of which nothing would be factored if it held a NaN.
    """
    contract = (
        f"args(a, out, order, count, m, n{', failed' * strict}, lapack), min(m, n) > 0, "
        f"len(a) == len(out) == {pair} * count * m * n, len(order) == count * min(m, n)"
        f"{', len(failed) == 1' * strict}"
    )
    body = _GETRF.replace("AFTER", _REFUSED if strict else _FROM_ZERO)
    body = body.replace("LAPACK", f"args[{6 + strict}]")
    return called("getrf" if strict else "getrf_work", body, contract, dtype, pair)


def gbsv(dtype: str, pair: int) -> Routine | None:
    """Return the kernel of banded systems, as `getrf`.

    Its numbers are the slots of bands (n, low + high + 1), of right-hand sides by columns, of memory
    (n, 2 low + high + 1), of the exchanges of rows, of solutions and of what failed, then the count, n, low,
    high and how many columns there are.
    """
    contract = (
        "args(ab, b, w, order, out, failed, count, n, low, high, columns, lapack), min(n, columns) > 0, "
        f"min(low, high) >= 0, len(ab) == {pair} * count * n * (low + high + 1), len(order) == count * n, "
        f"len(w) == {pair} * count * n * (2 * low + high + 1), "
        f"len(b) == len(out) == {pair} * count * n * columns, len(failed) == 1"
    )
    return called("gbsv", _GBSV, contract, dtype, pair)


def trsyl() -> Routine | None:
    """Return the kernel of r x + x s^H = c with upper triangular complex r and s, all by columns, as `getrf`.

    Its numbers are the slots of r, s, c, x and of what failed, then the count, m and n.
    """
    contract = (
        "args(r, s, c, out, failed, count, m, n, lapack), min(m, n) > 0, len(r) == 2 * count * m * m, "
        "len(s) == 2 * count * n * n, len(c) == len(out) == 2 * count * m * n, len(failed) == 1"
    )
    return called("trsyl", _TRSYL, contract, "float64", 2)


def gees(dtype: str, pair: int) -> Routine | None:
    """Return the kernel of Schur forms of matrices by columns, as `getrf`.

    Its numbers are the slots of the matrices, of their forms, of the unitary matrices, of the eigenvalues,
    whose real parts precede the others where matrices are real, and of what failed, then the count and n.
    """
    contract = (
        "args(a, t, v, w, failed, count, n, lapack), n > 0, len(w) == 2 * count * n, len(failed) == 1, "
        f"len(a) == len(t) == len(v) == {pair} * count * n * n"
    )
    values = "address(w) + 2 * SIZE * i * n"
    body = _GEES.replace("VALUES", values if pair == 2 else f"{values}, {values} + SIZE * n")
    return called("gees", body, contract, dtype, pair)


def called(name: str, body: str, contract: str, dtype: str = "float64", pair: int = 1) -> Routine | None:
    """Return the kernel that calls a function of LAPACK; None where NumPy's is not at hand.

    Args:
        name: of the function, without the letter of the dtype.
        body: of the kernel.
        contract: beside what all of them demand.
        dtype: "float32" or "float64".
        pair: 2 for complex numbers, else 1.
    """
    letter = {("float32", 1): "s", ("float64", 1): "d", ("float32", 2): "c", ("float64", 2): "z"}[dtype, pair]
    place = 0 if native.interpreted() else blas_address(f"LAPACKE_{letter}{name}")
    if not place:
        return None
    size = np.dtype(dtype).itemsize
    eps = 4000 * float(np.finfo(float).eps)  # rounding errors of pivots, with what amplifies them
    head = _HEAD.format(contract=contract, dtype=dtype, size=size, pair=pair, refused=vm.REFUSED, eps=eps)
    return Routine(native.deferred(head + body.format(dtype=dtype)), place)


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
