"""Writes to places that are known when a program runs, one after the other: the last one to a place stays."""

from __future__ import annotations

from typing import Any

from fgrad.compiler.library import LIBRARY, Launch
from fgrad.core.aval import Aval
from fgrad.core.primitive import NOT_FOLDED, Primitive, flat, register
from fgrad.core.program import Equation, Var
from fgrad.kernels import native

_PUT = """
CONTRACT = (
    "args(x, values, places, out, size, count), len(x) == len(out) == size, "
    "len(values) == len(places) == count, hi == 1"
)


def kernel(slots, args, lo, hi):
    x, values = {dtype}_at(slots, args, 0), {dtype}_at(slots, args, 1)
    places, out = int64_at(slots, args, 2), {dtype}_at(slots, args, 3)
    size, count = args[4], args[5]
    for i in range(size):
        out[i] = x[i]
    for k in range(count):
        out[clipped(places[k], size)] = values[k]
"""

_ORDER = """
CONTRACT = "args(pivots, order, k, m), 0 <= k <= m, len(pivots) >= hi * k, len(order) >= hi * m"


def kernel(slots, args, lo, hi):
    pivots, order, k, m = int64_at(slots, args, 0), int64_at(slots, args, 1), args[2], args[3]
    for i in range(np.int64(lo), np.int64(hi)):
        for j in range(m):
            order[i * m + j] = j
        for j in range(k):
            other = clipped(pivots[i * k + j], m)
            held = order[i * m + j]
            order[i * m + j] = order[i * m + other]
            order[i * m + other] = held
"""


def _put(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    x, _, places = equation.args
    (out,) = equation.outs
    dtype = x.aval.dtype
    if dtype.char not in LETTERS or not dtype.isnative or not places.aval.size:
        return None
    numbers = [*(slots[v] for v in (*equation.args, out)), x.aval.size, places.aval.size]
    kernel = native.deferred(_PUT.format(dtype=dtype.name))
    return Launch(kernel, numbers, 1, x.aval.size + 2 * places.aval.size, shared=False)


def _order(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    (pivots,), (out,) = equation.args, equation.outs
    k, m = pivots.aval.shape[-1], out.aval.shape[-1]
    count = out.aval.size // m
    return Launch(native.deferred(_ORDER), [slots[pivots], slots[out], k, m], count, 2 * out.aval.size)


LETTERS = "?bhilqBHILQefd"
LIBRARY.update({"kernel.put": _put, "kernel.order": _order})


def _run(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("compiled programs alone write by this")


def _declare(name: str, shape: Any) -> None:
    register(
        Primitive(name, run=_run, vjp=flat, shape=shape, traits={NOT_FOLDED}, stored="compilers write it")
    )


_declare("kernel.put", lambda x, *_: x)  # of flat arrays: what is there, what is written, and where
_declare("kernel.order", lambda pivots, *, m: Aval((*pivots.shape[:-1], m), pivots.dtype))
