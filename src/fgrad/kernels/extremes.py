"""Largest and smallest numbers of short rows, for each of which NumPy starts a loop."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from fgrad.kernels import threads
from fgrad.kernels.functions import compiled
from fgrad.kernels.threads import Loop

_TEXT = """
CONTRACT = "x[count, n], out[count], hi <= count, n > 0"
U0, U1 = np.uintp(0), np.uintp(1)
IN = types.Array(types.{dtype}, 2, "C", readonly=True)
OUT = types.Array(types.{dtype}, 1, "C")


@typed(types.void(IN, OUT, types.uintp, types.uintp))
def kernel(x, out, lo, hi):
    for i in range(lo, hi):
        best = x[i, U0]
        for j in range(U1, np.uintp(x.shape[1])):
            best = {which}(best, x[i, j])
        out[i] = best
"""


@cache
def _kernel(char: str, which: str) -> Loop:
    return compiled(_TEXT.format(dtype=np.dtype(char).name, which=which).strip() + "\n")


def of_rows(x: Any, which: str) -> Any:
    """Return the "larger" or "smaller" number of each row of a matrix of floats that lies row by row."""
    out = np.empty(len(x), x.dtype)
    threads.share(_kernel(x.dtype.char, which), (x, out), len(x), x.size)
    return out
