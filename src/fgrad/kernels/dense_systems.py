"""Factors L U, Schur forms, banded systems, Sylvester's equations in compiled programs, by LAPACK.

It is that of NumPy's wheels. As in `lapack`, it takes matrices by columns; complex numbers are pairs. Each is
computed in its own dtype, as SciPy does.
"""

from __future__ import annotations

import numpy as np

from fgrad.compat.numpy import blas_address
from fgrad.kernels import native, vm
from fgrad.kernels.lapack import Routine

_HEAD = """
CONTRACT = "{contract}, hi <= count, count > 0"
I, F, SIZE, PAIR, REFUSED = np.int32, np.{dtype}, {size}, {pair}, {refused}
COLUMNS, ZERO = I(102), F(0.0)

"""

# A pivot that is zero is no fault: the factors are what they are.
_GETRF = """
def kernel(slots, args, lo, hi):
    a, out, order = {dtype}_at(slots, args, 0), {dtype}_at(slots, args, 1), int64_at(slots, args, 2)
    m, n = args[4], args[5]
    k = min(m, n)
    for i in range(np.int64(lo), np.int64(hi)):
        for e in range(PAIR * m * n):
            out[PAIR * i * m * n + e] = a[PAIR * i * m * n + e]
        place = address(out) + SIZE * PAIR * i * m * n
        found = invoke(args[6], COLUMNS, m, n, place, m, address(order) + 8 * i * k)
        for e in range(k):
            order[i * k + e] -= 1
"""

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
            out[at + e] = out[at + e] * scale[0]
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


def getrf(dtype: str, pair: int) -> Routine | None:
    """Return the kernel of factors L U of matrices by columns; None where LAPACK is not at hand.

    Its numbers are the slots of the matrices, of both factors in one and of the exchanges of rows, then how
    many matrices, rows and columns there are.

    Args:
        dtype: "float32" or "float64".
        pair: 2 for complex numbers, else 1.
    """
    contract = (
        "args(a, out, order, count, m, n, lapack), min(m, n) > 0, "
        f"len(a) == len(out) == {pair} * count * m * n, len(order) == count * min(m, n)"
    )
    return _routine("getrf", _GETRF, contract, dtype, pair)


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
    return _routine("gbsv", _GBSV, contract, dtype, pair)


def trsyl() -> Routine | None:
    """Return the kernel of r x + x s^H = c with upper triangular complex r and s, all by columns, as `getrf`.

    Its numbers are the slots of r, s, c, x and of what failed, then the count, m and n.
    """
    contract = (
        "args(r, s, c, out, failed, count, m, n, lapack), min(m, n) > 0, len(r) == 2 * count * m * m, "
        "len(s) == 2 * count * n * n, len(c) == len(out) == 2 * count * m * n, len(failed) == 1"
    )
    return _routine("trsyl", _TRSYL, contract, "float64", 2)


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
    return _routine("gees", body, contract, dtype, pair)


def _routine(name: str, body: str, contract: str, dtype: str, pair: int) -> Routine | None:
    letter = {("float32", 1): "s", ("float64", 1): "d", ("float32", 2): "c", ("float64", 2): "z"}[dtype, pair]
    place = 0 if native.interpreted() else blas_address(f"LAPACKE_{letter}{name}")
    if not place:
        return None
    size = np.dtype(dtype).itemsize
    text = (_HEAD + body).format(contract=contract, dtype=dtype, size=size, pair=pair, refused=vm.REFUSED)
    return Routine(native.deferred(text), place)
