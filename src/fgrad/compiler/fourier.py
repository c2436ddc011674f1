"""Fourier transforms: kernels where lengths have small factors, else NumPy's own loops, called by address.

These are in every NumPy, but not where its documentation says: where they are not found (`compat.numpy` has
tried), and where Python runs kernels, NumPy's functions are called.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any

import numpy as np

from fgrad import config
from fgrad.compat.numpy import Loop, transform
from fgrad.compiler.decompose import Writer
from fgrad.compiler.library import LIBRARY, ON_PAIRS, Launch, internal, stated
from fgrad.compiler.matrix_loops import PAIRED
from fgrad.compiler.pairs import is_pair, pair_of, part_of
from fgrad.core.aval import Aval
from fgrad.core.program import Equation, Var
from fgrad.kernels import fourier, native
from fgrad.kernels.bridges import bridge
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


internal("fourier.transform", stated, many=True)  # of pairs, and memory that it takes


def _transformed(
    w: Writer, args: Any, avals: Any, results: Any, params: dict[str, Any], *, forward: bool
) -> Any:
    """Transform complex numbers by a kernel, where there is one."""
    (given,), (made,) = avals, results
    if not is_pair(given) or given.dtype != made.dtype or not given.size:
        return None
    part, axis = part_of(made.dtype), params["axis"] % len(given.shape)
    lead, n, trail = math.prod(given.shape[:axis]), given.shape[axis], math.prod(given.shape[axis + 1 :])
    sizes = (part.char, lead, n, trail)
    plan = fourier.plan(*sizes)
    if plan is None:
        return None
    return w.write_all(
        "fourier.transform",
        args[0],
        w.array(plan.table),
        w.array(plan.radices),
        sizes=sizes,
        sign=1.0 if forward else -1.0,
        factor=_factor(params["norm"], n, forward=forward),
        results=(
            pair_of(made),
            Aval((plan.memory,), part),
            Aval((plan.places,), np.dtype(np.uintp)),
        ),
    )[:1]


def _by_kernel(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the loop over transforms."""
    params, (x, *tables), (out, *memory) = equation.params, equation.args, equation.outs
    arrays = [x, out, *tables, *memory]
    avals = tuple([Aval((v.aval.size,), v.aval.dtype) for v in arrays])
    made = _launched(params["sizes"], params["sign"], params["factor"], avals)
    return made and made._replace(numbers=[*map(slots.__getitem__, arrays), *made.numbers[len(arrays) :]])


@lru_cache(config.cache_entries())
def _launched(sizes: tuple[Any, ...], sign: float, factor: float, avals: tuple[Aval, ...]) -> Launch | None:
    """Return the call of the kernel for arrays that lie in the first slots."""
    plan = fourier.plan(*sizes)
    if plan is None:
        return None
    args = [*enumerate(avals), *plan.numbers, sign, factor, sign * factor]
    made = bridge(plan.loop(), args, plan.pieces)
    return made and Launch(*made, plan.pieces, plan.elements)


PAIRED["fft"] = partial(_transformed, forward=True)
PAIRED["ifft"] = partial(_transformed, forward=False)
LIBRARY[ON_PAIRS] = _called
LIBRARY["fourier.transform"] = _by_kernel
