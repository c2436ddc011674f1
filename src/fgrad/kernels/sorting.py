"""The stable order of rows of numbers by radix sort: a tenth of the time of NumPy's stable argsort.

A float becomes an integer that sorts likewise, and integers are put in order digit by digit, the last one
first: each pass keeps the order of equal digits (Knuth, The Art of Computer Programming, volume 3, 5.2.5).
"""

from __future__ import annotations

from functools import cache
from textwrap import indent
from typing import Any

import numpy as np

from fgrad.kernels import threads
from fgrad.kernels.functions import compiled
from fgrad.kernels.threads import Loop

_TOGETHER = 2**22  # elements that are sorted at a time, since each needs memory for two keys and two places

_TEXT = """
CONTRACT = "x[rows, n], keys[2, rows, n], places[2, rows, n], out[rows, n], 0 < n < 2**31, hi <= rows"
DISTINCT = True
F, I, U = np.{dtype}, np.int{bits}, np.uintp
ZERO, ONE, DIGITS, COUNT, TURNS = U(0), U(1), U({digits}), U(256), U(8)
NONE, SIGN, LAST = F(0), I({bits} - 1), I({last})
FIRST = I(-{last} - 1)
WIDTH, MASK = I(8), I(255)
IN = types.Array(types.{dtype}, 2, "C", readonly=True)
KEYS, PLACES = types.Array(types.int{bits}, 3, "C"), types.Array(types.int32, 3, "C")
OUT = types.Array(types.int64, 2, "C")
SIGNATURE = types.void(IN, KEYS, PLACES, OUT, types.uintp, types.uintp)


@typed(SIGNATURE)
def kernel(x, keys, places, out, lo, hi):
    n = U(x.shape[1])
    starts = np.empty({counts}, np.uintp)  # of each value of each digit
    for i in range(lo, hi):
        for d in range(DIGITS * COUNT):
            starts[d] = ZERO
        for k in range(n):
{key}
            key = keys[ONE, i, k]
            for digit in unrolled(DIGITS):
                starts[digit * COUNT + U((key >> (I(digit) * WIDTH)) & MASK)] += ONE
        alike = ZERO  # bits: all elements have the same digit
        for digit in range(DIGITS):
            total = ZERO
            for d in range(COUNT // TURNS):
                for turn in unrolled(TURNS):
                    c = starts[digit * COUNT + d * TURNS + turn]
                    starts[digit * COUNT + d * TURNS + turn] = total
                    total += c
                    alike |= U(c == n) << digit
        for k in unrolled(n):
            key = keys[ONE, i, k]
            d = U(key & MASK)
            to = starts[d]
            starts[d] = to + ONE
            keys[ZERO, i, to] = key
            places[ZERO, i, to] = k
        side = ZERO
        for digit in range(ONE, DIGITS - ONE):
            shift, first = I(digit) * WIDTH, digit * COUNT
            if (alike >> digit) & ONE == ZERO:
                other = ONE - side
                for k in unrolled(n):
                    key = keys[side, i, k]
                    d = first + U((key >> shift) & MASK)
                    to = starts[d]
                    starts[d] = to + ONE
                    keys[other, i, to] = key
                    places[other, i, to] = places[side, i, k]
                side = other
        shift, first = I(DIGITS - ONE) * WIDTH, (DIGITS - ONE) * COUNT
        for k in unrolled(n):
            d = first + U((keys[side, i, k] >> shift) & MASK)
            to = starts[d]
            starts[d] = to + ONE
            out[i, to] = places[side, i, k]
"""

_FLOATS = """
v = x[i, k] + NONE  # of zeros there is one
bits = I(F(v).view(I))
bits = bits if v == v else LAST  # NaN comes last
keys[ONE, i, k] = I(bits ^ I((bits >> SIGN) & LAST)) ^ FIRST
"""
_INTEGERS = "keys[ONE, i, k] = I(x[i, k]) ^ FIRST"


@cache
def ordering(char: str) -> Loop:
    """Return the loop that orders rows of float32, float64 or int64.

    Its arguments are the rows, memory for keys (2, rows, n), integers as wide, and for places, int32 of the
    same shape, and the order.
    """
    dtype = np.dtype(char)
    bits = 8 * dtype.itemsize
    key = indent((_FLOATS if dtype.kind == "f" else _INTEGERS).strip(), " " * 12)
    last = 2 ** (bits - 1) - 1
    text = _TEXT.strip().format(
        dtype=dtype.name, bits=bits, last=last, digits=dtype.itemsize, counts=256 * dtype.itemsize, key=key
    )
    return compiled(f"{text}\n")


def stable_order(x: Any) -> Any:
    """Return the places that sort each row of a matrix, equal elements as they stand and NaN last.

    Args:
        x: of float32, float64 or int64, with less than 2**31 columns.
    """
    rows, n = x.shape
    out = np.empty((rows, n), np.int64)
    together = max(1, _TOGETHER // n)
    room = [np.empty(2 * min(rows, together) * n, dtype) for dtype in (f"i{x.itemsize}", np.int32)]
    for i in range(0, rows, together):
        part = np.ascontiguousarray(x[i : i + together])
        buffers = [r[: 2 * part.size].reshape(2, *part.shape) for r in room]
        threads.share(ordering(x.dtype.char), (part, *buffers, out[i : i + together]), len(part), part.size)
    return out
