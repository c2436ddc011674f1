"""Running sums along an axis, several side by side, so that none waits for its previous addition.

They add in NumPy's order, so results are the same to the last bit.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from fgrad.kernels import threads
from fgrad.kernels.functions import compiled
from fgrad.kernels.threads import Loop

ROWS = 8  # sums along contiguous rows that run side by side
COLUMNS = 512  # of a strided axis: so many neighbours stay in the cache

_TEXT = """
CONTRACT = "{contract}"
F = np.{dtype}
ZERO, ONE, SIDE, WIDTH = np.uintp(0), np.uintp(1), np.uintp({rows}), np.uintp({columns})
IN, OUT = (types.Array(types.{dtype}, {ndim}, "C", readonly=one) for one in (True, False))
SIGNATURE = types.void(IN, OUT, types.boolean, types.uintp, types.uintp)


@typed(SIGNATURE)
def kernel(x, out, backwards, lo, hi):
{body}
"""

_ALONG_ROWS = """
    count, n = np.uintp(x.shape[0]), np.uintp(x.shape[1])
    sums = np.empty(SIDE, F)
    for block in range(lo, hi):
        first = block * SIDE
        m = min(SIDE, count - first)
        j = n - ONE if backwards else ZERO
        for k in range(m):
            out[first + k, j] = sums[k] = x[first + k, j]
        if m == SIDE:
            for step in range(ONE, n):
                j = n - ONE - step if backwards else step
                for k in range(SIDE):
                    sums[k] += x[first + k, j]
                    out[first + k, j] = sums[k]
        else:
            for step in range(ONE, n):
                j = n - ONE - step if backwards else step
                for k in range(m):
                    sums[k] += x[first + k, j]
                    out[first + k, j] = sums[k]
"""
_ALONG_COLUMNS = """
    n, width = np.uintp(x.shape[1]), np.uintp(x.shape[2])
    blocks = (width + WIDTH - ONE) // WIDTH
    for part in range(lo, hi):
        i, left = part // blocks, part % blocks * WIDTH
        right = min(width, left + WIDTH)
        j = n - ONE if backwards else ZERO
        for k in range(left, right):
            out[i, j, k] = x[i, j, k]
        for step in range(ONE, n):
            last = j
            j = n - ONE - step if backwards else step
            for k in range(left, right):
                out[i, j, k] = out[i, last, k] + x[i, j, k]
"""


_ASKED = {
    2: f"x[count, n], out[count, n], n > 0, (hi - 1) * {ROWS} < count",
    3: f"x[count, n, width], out[count, n, width], n > 0, hi <= count * -(-width // {COLUMNS})",
}


@cache
def _kernel(ndim: int, char: str) -> Loop:
    body = (_ALONG_ROWS if ndim == 2 else _ALONG_COLUMNS).strip("\n")
    text = _TEXT.format(
        dtype=np.dtype(char).name, rows=ROWS, columns=COLUMNS, ndim=ndim, body=body, contract=_ASKED[ndim]
    )
    return compiled(text.strip() + "\n")


def cumsum(x: Any, axis: int, *, backwards: bool = False) -> Any:
    """Return the sums of the elements up to each place along `axis`, or from it on."""
    out = np.empty(x.shape, x.dtype)
    if not x.size:
        return out
    x = np.ascontiguousarray(x)
    outer, n, inner = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    if inner == 1:
        shape: tuple[int, ...] = (outer, n)
        count = -(-outer // ROWS)
    else:
        shape = (outer, n, inner)
        count = outer * -(-inner // COLUMNS)
    args = (x.reshape(shape), out.reshape(shape), backwards)
    threads.share(_kernel(len(shape), x.dtype.char), args, count, x.size)
    return out
