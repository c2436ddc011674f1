"""Choices between two arrays, for which NumPy jumps at each element: slow where nobody can foresee them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from fgrad.kernels import threads
from fgrad.kernels.functions import compiled
from fgrad.kernels.threads import Loop

_TEXT = """
CONTRACT = "c[count], x[{x}], y[{y}], out[count], hi <= count"
ZERO = np.uint8(0)
C = types.Array(types.uint8, 1, "C", readonly=True)
IN = types.Array(types.{dtype}, 1, "C", readonly=True)
OUT = types.Array(types.{dtype}, 1, "C")


@typed(types.void(C, IN, IN, OUT, types.uintp, types.uintp))
def kernel(c, x, y, out, lo, hi):
    for i in range(lo, hi):
        a = x[{at_x}]
        b = y[{at_y}]
        out[i] = a if c[i] != ZERO else b
"""


@cache
def _kernel(char: str, x: bool, y: bool) -> Loop:
    (at_x, count_x), (at_y, count_y) = (("i", "count") if many else ("np.uintp(0)", "1") for many in (x, y))
    dtype = np.dtype(char).name
    text = _TEXT.format(dtype=dtype, x=count_x, y=count_y, at_x=at_x, at_y=at_y)
    return compiled(text.strip() + "\n")


def chosen(c: Any, x: Any, y: Any) -> Any:
    """Return `where(c, x, y)` of truth values that lie row by row, and arrays of floats of one dtype.

    Of `x` and `y` each has the shape of `c` and lies row by row, or is a single number.
    """
    out = np.empty(c.shape, x.dtype)
    kernel = _kernel(x.dtype.char, x.size == c.size, y.size == c.size)
    flat = (c.reshape(-1).view(np.uint8), x.reshape(-1), y.reshape(-1), out.reshape(-1))
    threads.share(kernel, flat, c.size, c.size)
    return out
