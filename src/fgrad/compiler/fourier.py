"""Fourier transforms: NumPy's own loops over the rows of an array, called by address.

They are in every NumPy, but not where its documentation says: where they are not found (`compat.numpy` has
tried), and where Python runs kernels, NumPy's functions are called.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.compat.numpy import Transform, transform
from fgrad.compiler.library import LIBRARY, Launch
from fgrad.compiler.pairs import TRANSFORMS, part_of
from fgrad.core.program import Equation, Var
from fgrad.kernels import native

_TEXT = """
CONTRACT = (
    "args(x, out, words, rows, n, m, row_x, row_out, step_x, step_out, bits, next_x, next_out, loop, data), "
    "len(words) == 12, min(rows, n, m, row_x, row_out, step_x, step_out, next_x, next_out) > 0, "
    "(hi - 1) * next_x + (rows - 1) * row_x + (n - 1) * step_x < nbytes(x), "
    "(hi - 1) * next_out + (rows - 1) * row_out + (m - 1) * step_out < nbytes(out)"
)


def kernel(slots, args, lo, hi):
    # the loop takes addresses of: addresses of operand, factor and result; sizes; strides
    x, out = address({source}_at(slots, args, 0)), address({target}_at(slots, args, 1))
    words = int64_at(slots, args, 2)
    start = address(words)
    words[1] = start + 88
    words[3] = args[3]
    words[4] = args[4]
    words[5] = args[5]
    words[6] = args[6]
    words[7] = 0
    words[8] = args[7]
    words[9] = args[8]
    words[10] = args[9]
    words[11] = args[10]
    for i in range(np.int64(lo), np.int64(hi)):
        words[0] = x + i * args[11]
        words[2] = out + i * args[12]
        invoke(args[13], start, start + 24, start + 48, args[14])
"""


def _factor(norm: str | None, n: int, *, forward: bool) -> float:
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1.0 if (norm in {None, "backward"}) == forward else 1 / n


def _called(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the transform that an equation is, of pairs."""
    params = equation.params
    (given, *_), (made, *rest) = params["avals"]
    x, out = equation.args[0], equation.outs[0]
    if (
        params["of"] not in TRANSFORMS
        or not rest
        or not isinstance(x, Var)
        or 0 in (*given.shape, *made.shape)
    ):
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
        *(slots[x], slots[out], slots[equation.outs[1]], rows, n, m, row_x, row_out),
        *(trail * size_x, trail * size_out, int(bits[0]), n * trail * size_x, m * trail * size_out, *loop),
    ]
    kernel = native.compiled(_TEXT.format(source=real.name, target=real.name))
    work = int(5 * lead * trail * length * math.log2(length + 1))
    return Launch(kernel, numbers, turns, work, shared=False)


def _loop(name: str, n: int, dtype: np.dtype[Any]) -> Transform | None:
    if native.interpreted():
        return None
    if name == "rfft":
        name = "rfft_n_odd" if n % 2 else "rfft_n_even"
    known = dtype.char in ("fd" if name.startswith("rfft") else "FD") and dtype.isnative
    return transform(name, dtype.char) if known else None


LIBRARY["complex.call"] = _called
