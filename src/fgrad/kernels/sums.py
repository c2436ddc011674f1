"""Sums over few neighbours, for which NumPy starts a loop each.

They add in NumPy's order, so results are the same to the last bit: eight sums side by side along contiguous
rows of eight numbers and more (`numpy/_core/src/umath/loops_utils.h.src`), one after the other elsewhere.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from fgrad.kernels import threads
from fgrad.kernels.functions import compiled
from fgrad.kernels.threads import Loop

ROW = 32  # numbers of a row that are written out
SIDE = 8  # sums along another axis that lie side by side

_TEXT = """
CONTRACT = "x[count, n, {side}], out[count, {side}], hi <= count{more}"
ZERO = np.{dtype}(0)
{places} = (np.uintp(k) for k in range({most}))
IN = types.Array(types.{dtype}, 3, "C", readonly=True)
OUT = types.Array(types.{dtype}, 2, "C")
SIGNATURE = types.void(IN, OUT, types.uintp, types.uintp)


@typed(SIGNATURE)
def kernel(x, out, lo, hi):
    for i in range(lo, hi):
{body}
"""


def _row(n: int) -> str:
    """Return the sum of a row of `n` numbers."""

    def added(places: range) -> str:
        return " + ".join(f"x[i, U{k}, U0]" for k in places)

    if n < 8:
        return added(range(n))
    end = n - n % 8
    lanes = [f"({added(range(lane, end, 8))})" for lane in range(8)]
    pairs = [f"({a} + {b})" for a, b in zip(lanes[::2], lanes[1::2], strict=True)]
    total = f"(({pairs[0]} + {pairs[1]}) + ({pairs[2]} + {pairs[3]}))"
    return f"{total} + {added(range(end, n))}" if n > end else total


def _columns(side: int) -> list[str]:
    each = range(side)
    return [
        *(f"s{k} = ZERO" for k in each),
        "for j in range(np.uintp(x.shape[1])):",
        *(f"    s{k} += x[i, j, U{k}]" for k in each),
        *(f"out[i, U{k}] = s{k}" for k in each),
    ]


@cache
def _kernel(char: str, n: int, side: int) -> Loop:
    lines = [f"out[i, U0] = ZERO + ({_row(n)})"] if side == 1 else _columns(side)
    most = n if side == 1 else side
    text = _TEXT.format(
        dtype=np.dtype(char).name,
        side=side,
        more=f", n == {n}" if side == 1 else "",
        places=", ".join(f"U{k}" for k in range(most)),
        most=most,
        body="\n".join(f"        {line}" for line in lines),
    )
    return compiled(text.strip() + "\n")


def is_short(n: int, side: int) -> bool:
    """Return whether `added` takes sums of `n` numbers, `side` of which lie side by side."""
    return 1 < n <= ROW if side == 1 else side <= SIDE and n > 1


def added(x: Any) -> Any:
    """Return the sums over the second of three axes, of floats that lie row by row; see `is_short`."""
    count, n, side = x.shape
    out = np.empty((count, side), x.dtype)
    threads.share(_kernel(x.dtype.char, n if side == 1 else 0, side), (x, out), count, x.size)
    return out
