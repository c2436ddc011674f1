"""Gather and scatter: elements read, written and added up at the positions in index arrays.

Element `k` of the result, or of the cotangent, is that of row `first[k // width]` and column `second[k]` of a
matrix. Numbers below zero count from the end.

Places may be named twice, so what adds up at one of them does so in one thread, in the order of the elements:
results are NumPy's to the last bit. Threads share the places of a long vector, and each looks at all elements
for those of its part. A branch for each could not be predicted, so 64 answers become the bits of a word, by
vector code, and those that are set are taken one after the other.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from fgrad.kernels import threads
from fgrad.kernels.functions import compiled
from fgrad.kernels.threads import Loop

LINE = 64  # bytes that come from memory together
OWN, COMMON = 2**20, 2**25  # bytes of the caches of a core and of all, about: between them `_fetch` pays
STRIP = (
    256  # columns that one thread adds up: rows are read faster as a whole, and each thread reads all places
)
SPARSE = 4  # elements for each place that is named, at most: else most of them stay untouched

_TEXT = """
CONTRACT = "{contract}"
DISTINCT = True
U, NONE, YES = np.uintp, np.int64(0), np.uint8(1)
IN, OUT = (types.Array(types.{dtype}, 1, "C", readonly=one) for one in (True, False))
ROWS, PLACES = (types.Array(t, 1, "C", readonly=True) for t in (types.int64, types.{places}))
FLAG = types.Array(types.uint8, 1, "C")
SIGNATURE = types.void(IN, ROWS, PLACES, OUT, FLAG, *[types.int64] * 3, types.uintp, types.uintp)


@typed(SIGNATURE)
def kernel(x, first, second, out, wrong, rows, columns, width, lo, hi):
    k = lo
    while k < hi:
        stop = min(hi, (k // U(width) + U(1)) * U(width))
        a = first[k // U(width)]
        a = a + rows if a < NONE else a
        bad = a < NONE or a >= rows
        for j in range(k, stop):
            b = np.int64(second[j])
            b = b + columns if b < NONE else b
            bad = bad or b < NONE or b >= columns
            place = U(NONE if bad else a * columns + b)
            {step}
        if bad:
            wrong[U(0)] = YES
        k = stop
"""
_ROWS = """
CONTRACT = "ct[n, columns], places[n], out[rows, columns], len(wrong) > 0, (hi - 1) * {strip} < columns"
DISTINCT = True
U, NONE, YES, STRIP = np.uintp, np.int64(0), np.uint8(1), np.uintp({strip})
IN, OUT = (types.Array(types.{dtype}, 2, "C", readonly=one) for one in (True, False))
PLACES, FLAG = types.Array(types.int64, 1, "C", readonly=True), types.Array(types.uint8, 1, "C")
SIGNATURE = types.void(IN, PLACES, OUT, FLAG, types.uintp, types.uintp)


@typed(SIGNATURE)
def kernel(ct, places, out, wrong, lo, hi):
    rows = np.int64(out.shape[0])
    start, stop = lo * STRIP, min(hi * STRIP, U(out.shape[1]))
    for k in range(U(places.shape[0])):
        i = places[k]
        i = i + rows if i < NONE else i
        if i < NONE or i >= rows:
            wrong[U(0)] = YES
        else:
            for c in range(start, stop):
                out[U(i), c] += ct[k, c]
"""
_SHARED = """
CONTRACT = "x[n], second[n], counts[parts], hi <= parts"
DISTINCT = True
U, NONE, ZERO, ONE, TWO, FOUR, WORD = np.uintp, np.int64(0), *map(np.uintp, (0, 1, 2, 4, 64))
EVEN, PAIRS, HALVES, BYTES, LAST = map(np.uintp, (2**64 // 3, 2**64 // 5, 2**64 // 17, 2**64 // 255, 56))
IN, OUT = (types.Array(types.{dtype}, 1, "C", readonly=one) for one in (True, False))
PLACES, COUNTS = types.Array(types.{places}, 1, "C", readonly=True), types.Array(types.uint64, 1, "C")
SIGNATURE = types.void(IN, PLACES, OUT, COUNTS, types.uintp, types.uintp)


@helper
def ones(bits):
    x = bits - ((bits >> ONE) & EVEN)
    x = (x & PAIRS) + ((x >> TWO) & PAIRS)
    x = (x + (x >> FOUR)) & HALVES
    return (x * BYTES) >> LAST


@typed(SIGNATURE)
def kernel(x, second, out, counts, lo, hi):
    columns, n, parts = np.int64(out.shape[0]), U(second.shape[0]), np.int64(counts.shape[0])
    for part in range(lo, hi):
        start = np.int64(part) * columns // parts
        size = U(np.int64(part + ONE) * columns // parts - start)
        for k in range(U(start), U(start) + size):
            out[k] = 0
        count = ZERO
        for word in range(n // WORD):
            first = word * WORD
            bits = ZERO
            for t in range(WORD):
                b = np.int64(second[first + t])
                b = b + columns if b < NONE else b
                bits |= ONE << t if U(b - start) < size else ZERO
            count += ones(bits)
            while bits != ZERO:
                k = first + ones(~bits & (bits - ONE))
                b = np.int64(second[k])
                out[U(b + columns if b < NONE else b)] += x[k]
                bits &= bits - ONE
        for k in range(n - n % WORD, n):
            b = np.int64(second[k])
            b = b + columns if b < NONE else b
            if U(b - start) < size:
                out[U(b)] += x[k]
                count += ONE
        counts[part] = count
"""
_FETCHED = """
CONTRACT = "(hi - 1) * {step} < len(x), len(nan) > 0"
DISTINCT = True
U, F, YES, STEP = np.uintp, np.{dtype}, np.uint8(1), np.uintp({step})
IN, FLAG = types.Array(types.{dtype}, 1, "C", readonly=True), types.Array(types.uint8, 1, "C")


@typed(types.void(IN, FLAG, types.uintp, types.uintp))
def kernel(x, nan, lo, hi):
    total = F(0.0)
    for k in range(lo, hi):
        total += x[k * STEP]
    if total != total:
        nan[U(0)] = YES
"""
_NARROWED = """
CONTRACT = "places[n], out[n], len(wrong) > 0, hi <= n"
DISTINCT = True
IN, OUT = types.Array(types.int64, 1, "C", readonly=True), types.Array(types.int32, 1, "C")
FLAG, YES = types.Array(types.uint8, 1, "C"), np.uint8(1)


@typed(types.void(IN, OUT, FLAG, types.uintp, types.uintp))
def kernel(places, out, wrong, lo, hi):
    lost = np.int64(0)
    for k in range(lo, hi):
        out[k] = np.int32(places[k])
        lost |= places[k] ^ np.int64(np.int32(places[k]))
    if lost != np.int64(0):
        wrong[np.uintp(0)] = YES
"""
_ASKED = (  # one of both is the matrix, in the other there is an element for each place
    "rows * columns > 0, min(rows, columns, width) > 0, len({matrix}) >= rows * columns, "
    "min(len({other}), len(second), len(first) * width) >= hi, len(wrong) > 0"
)
_STEPS = {"read": "out[j] = x[place]", "write": "out[place] = x[j]", "add": "out[place] += x[j]"}


@cache
def _kernel(name: str, char: str, places: str) -> Loop:
    matrix, other = ("x", "out") if name == "read" else ("out", "x")
    text = _TEXT.strip().format(
        dtype=np.dtype(char).name,
        places=np.dtype(places).name,
        step=_STEPS[name],
        contract=_ASKED.format(matrix=matrix, other=other),
    )
    return compiled(f"{text}\n")


@cache
def _rows(char: str) -> Loop:
    return compiled(f"{_ROWS.strip().format(dtype=np.dtype(char).name, strip=STRIP)}\n")


@cache
def _shared(char: str, places: str) -> Loop:
    dtype, places = np.dtype(char).name, np.dtype(places).name
    text = _SHARED.strip().format(dtype=dtype, places=places)
    return compiled(f"{text}\n")


@cache
def _fetched(char: str) -> Loop:
    dtype = np.dtype(char)
    return compiled(f"{_FETCHED.strip().format(dtype=dtype.name, step=LINE // dtype.itemsize)}\n")


@cache
def _narrowed() -> Loop:
    return compiled(f"{_NARROWED.strip()}\n")


def narrowed(places: Any) -> Any:
    """Return an int32 copy of a contiguous int64 array, None if that would lose something."""
    out, wrong = np.empty(places.shape, np.int32), np.zeros(1, np.uint8)
    threads.share(_narrowed(), (places.reshape(-1), out.reshape(-1), wrong), places.size, places.size)
    return None if wrong[0] else out


def read(x: Any, first: Any, second: Any) -> Any:
    """Return `x[first, second]`, None if there is no such place.

    Args:
        x: contiguous matrix.
        first: a row for each row of `second`.
        second: contiguous matrix of columns, of int64 or int32.
    """
    if len(x) == 1 and OWN < x.nbytes <= COMMON and x.size <= SPARSE * second.size:
        _fetch(x)
    out = np.empty(second.shape, x.dtype)
    return out if _is_done("read", x, first, second, out, x.shape) else None


def _fetch(x: Any) -> None:
    """Read an array in order, to have it in the cache: that is quick, as what comes next is known."""
    args = x.reshape(-1), np.zeros(1, np.uint8)  # that has a use for what was read, so that it is read
    threads.share(_fetched(x.dtype.char), args, x.nbytes // LINE, x.size)


def added(ct: Any, first: Any, second: Any, shape: tuple[int, int], *, unique: bool) -> Any:
    """Return a matrix of zeros but for `ct`, which is added up at `[first, second]`; None as above.

    Args:
        ct: of the shape of `second`.
        first: a row for each row of `second`.
        second: contiguous matrix of columns.
        shape: of the result.
        unique: whether no place occurs twice.
    """
    ct = np.ascontiguousarray(ct)
    if shape[0] == len(first) == 1 and not (first[0] or unique) and shape[1] <= SPARSE * ct.size:
        parts = threads.parts(shape[1] // threads.ELEMENTS, ct.size)
        if parts > 1:
            return _added_in_parts(ct, second, shape[1], parts)
    out = np.zeros(shape, ct.dtype)
    return out if _is_done("write" if unique else "add", ct, first, second, out, shape) else None


def _added_in_parts(ct: Any, second: Any, columns: int, parts: int) -> Any:
    """Return a row of sums, of which each thread computes a part; None as above."""
    out, counts = np.empty((1, columns), ct.dtype), np.empty(parts, np.uint64)
    args = (ct.reshape(-1), second.reshape(-1), out.reshape(-1), counts)
    threads.share(_shared(ct.dtype.char, second.dtype.char), args, parts, ct.size)
    return out if np.add.reduce(counts) == ct.size else None  # a place that does not exist is in no part


def add_rows(out: Any, ct: Any, places: Any) -> bool:
    """Add the rows of `ct` to those of a contiguous matrix at `places`; return whether all of these exist."""
    wrong = np.zeros(1, np.uint8)
    args = (np.ascontiguousarray(ct), np.ascontiguousarray(places), out, wrong)
    threads.share(_rows(ct.dtype.char), args, -(-out.shape[1] // STRIP), ct.size)
    return not wrong[0]


def _is_done(name: str, x: Any, first: Any, second: Any, out: Any, shape: tuple[int, int]) -> bool:
    if 0 in shape or not second.size:  # there is no place, or none is asked for
        return not second.size
    wrong = np.zeros(1, np.uint8)
    flat = (x.reshape(-1), np.ascontiguousarray(first), second.reshape(-1), out.reshape(-1))
    args, loop = (*flat, wrong, *shape, second.shape[1]), _kernel(name, x.dtype.char, second.dtype.char)
    if name == "add":
        loop(*args, 0, second.size)
    else:
        threads.share(loop, args, second.size, second.size)
    return not wrong[0]
