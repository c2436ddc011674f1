"""Fourier transforms: NumPy's own loops over the rows of an array, called by address.

They are in every NumPy, but not where its documentation says: where they are not found (`compat.numpy` has
tried), and where Python runs kernels, NumPy's functions are called.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.compat.numpy import Loop, transform
from fgrad.compiler.library import LIBRARY, ON_PAIRS, Launch
from fgrad.compiler.pairs import part_of
from fgrad.core.program import Equation, Var
from fgrad.kernels import native
from fgrad.ops.fft import TRANSFORMS

_TEXT = """
CONTRACT = (
    "args(x, out, rows, n, m, row_x, row_out, step_x, step_out, bits, next_x, next_out, loop, data), "
    "min(rows, n, m, row_x, row_out, step_x, step_out, next_x, next_out) > 0, "
    "(hi - 1) * next_x + (rows - 1) * row_x + (n - 1) * step_x < nbytes(x), "
    "(hi - 1) * next_out + (rows - 1) * row_out + (m - 1) * step_out < nbytes(out)"
)


def kernel(slots, args, lo, hi):
    x, out = address({dtype}_at(slots, args, 0)), address({dtype}_at(slots, args, 1))
    places, sizes, steps = np.empty(3, np.int64), np.empty(3, np.int64), np.empty(5, np.int64)
    factor = np.empty(1, np.int64)
    factor[0], places[1] = args[9], address(factor)
    sizes[0], sizes[1], sizes[2] = args[2], args[3], args[4]
    steps[0], steps[1], steps[2], steps[3], steps[4] = args[5], 0, args[6], args[7], args[8]
    for i in range(np.int64(lo), np.int64(hi)):
        places[0], places[2] = x + i * args[10], out + i * args[11]
        invoke(args[12], address(places), address(sizes), address(steps), args[13])
"""


def _factor(norm: str | None, n: int, *, forward: bool) -> float:
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1.0 if (norm in {None, "backward"}) == forward else 1 / n


def _called(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the transform that an equation is, of pairs."""
    params = equation.params
    (given, *_), (made, *_) = params["complex_avals"]
    x, out = equation.args[0], equation.outs[0]
    if params["of"] not in TRANSFORMS or not isinstance(x, Var) or 0 in (*given.shape, *made.shape):
        return None
    name, axis, forward = params["of"], params["axis"] % len(given.shape), "i" not in params["of"]
    n, m = given.shape[axis], made.shape[axis]
    length = n if forward else m
    real = part_of(made.dtype) if made.dtype.kind == "c" else made.dtype
    loop = _loop(name, length, given.dtype)
    if loop is None or np.result_type(given.dtype, real) != given.dtype:
        return None
    lead, trail = (math.prod(s) for s in (given.shape[:axis], given.shape[axis + 1 :]))
    size_x, size_out = given.dtype.itemsize, made.dtype.itemsize
    bits = np.zeros(1, np.int64)
    bits.view(real)[0] = _factor(params["norm"], length, forward=forward)
    if trail == 1:  # one call for all rows
        turns, rows, row_x, row_out = 1, lead, n * size_x, m * size_out
    else:
        turns, rows, row_x, row_out = lead, trail, size_x, size_out
    numbers = [
        *(slots[x], slots[out], rows, n, m, row_x, row_out),
        *(trail * size_x, trail * size_out, int(bits[0]), n * trail * size_x, m * trail * size_out, *loop),
    ]
    kernel = native.deferred(_TEXT.format(dtype=real.name))
    work = int(5 * lead * trail * length * math.log2(length + 1))
    return Launch(kernel, numbers, turns, work, shared=False)


def _loop(name: str, n: int, dtype: np.dtype[Any]) -> Loop | None:
    if native.interpreted():
        return None
    if name == "rfft":
        name = "rfft_n_odd" if n % 2 else "rfft_n_even"
    known = dtype.char in ("fd" if name.startswith("rfft") else "FD") and dtype.isnative
    return transform(name, dtype.char) if known else None


LIBRARY[ON_PAIRS] = _called
