"""Outer products of many pairs of rows, in a quarter of the time of NumPy's einsum and with its result."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from fgrad.kernels import functions

# in one thread: it writes much and computes little, so a second one waits for the same memory
_TEXT = """
CONTRACT = "x[n, rows], y[n, columns], out[n, rows, columns]"
MATRIX = types.Array(types.{dtype}, 2, "C", readonly=True)
OUT = types.Array(types.{dtype}, 3, "C")


@typed(types.void(MATRIX, MATRIX, OUT))
def kernel(x, y, out):
    for n in range(np.uintp(x.shape[0])):
        for i in range(np.uintp(x.shape[1])):
            v = x[n, i]
            for j in range(np.uintp(y.shape[1])):
                out[n, i, j] = v * y[n, j]
"""


@cache
def _kernel(char: str) -> Callable[..., None]:
    return functions.compiled(_TEXT.format(dtype=np.dtype(char).name).strip() + "\n")


def outer(x: Any, y: Any) -> Any:
    """Return out[n, i, j] = x[n, i] * y[n, j] of two matrices of one dtype."""
    out = np.empty((len(x), x.shape[1], y.shape[1]), x.dtype)
    _kernel(x.dtype.char)(np.ascontiguousarray(x), np.ascontiguousarray(y), out)
    return out
