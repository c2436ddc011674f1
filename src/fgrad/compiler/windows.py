"""Convolutions and pooling, by the loops that eager mode has for large arrays; small ones are products."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from fgrad.compiler.decompose import RULES, Writer
from fgrad.compiler.library import LIBRARY, Launch, internal, stated
from fgrad.core.aval import Aval
from fgrad.core.program import Equation, Var
from fgrad.kernels import convolution, native, windows
from fgrad.kernels.bridges import bridge
from fgrad.ops.windows import suits

# ---- pooling


def _pool(equation: Equation, slots: dict[Var, int], kind: str) -> Launch | None:
    """Return the loop of a kind over windows of one or two axes."""
    (x,), (out,), params = equation.args, equation.outs, equation.params
    if not isinstance(x, Var) or x.aval.dtype.char not in "fd" or not x.aval.dtype.isnative:
        return None
    rank = len(params["window"])
    if rank > 2 or not x.aval.size or not out.aval.size or native.interpreted():
        return None
    numbers = windows.numbers(params["window"], params["stride"], params["padding"])
    loop = windows.pooling(kind, x.aval.dtype.char, numbers[:2], numbers[3])
    arrays: list[Any] = []
    for v in (x, out):
        shape = convolution.plane((math.prod(v.aval.shape[:-rank]), *v.aval.shape[-rank:]), rank)
        arrays.append((slots[v], Aval(shape, v.aval.dtype)))
    count = arrays[0][1].shape[0]
    made = bridge(loop, [*arrays, *numbers], count)
    return made and Launch(*made, count, 4 * max(x.aval.size, out.aval.size))


# ---- convolution


def _products(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the loop of a convolution over pieces, each of which has memory of its own."""
    params, (x, y, row, term), outs = equation.params, equation.args, equation.outs
    if native.interpreted():
        return None
    of, tile = params["of"], convolution.Tile(*params["tile"])
    loop = convolution.loop(of, x.aval.dtype.char, tile)
    starts = [(slots[v], v.aval, a) for v, a in ((row, params["row"]), (term, params["term"]))]
    arrays: list[Any] = [(slots[x], Aval(params["x"], x.aval.dtype))]
    arrays += [(slots[v], Aval((v.aval.size,), v.aval.dtype)) for v in (y, outs[0])]
    arrays += starts
    arrays += [(slots[v], v.aval) for v in outs[1:]]
    made = bridge(loop, [*arrays, *params["numbers"]], params["pieces"])
    return made and Launch(*made, params["pieces"], params["work"])


internal("windows.products", stated, many=True)  # what a convolution is, and memory that it takes


def _made(w: Writer, x: Var, y: Var, plan: convolution.Geometry, call: convolution.Call, out: Any) -> Var:
    """Return what a loop over pieces computes."""
    memory = [Aval((n,), x.aval.dtype) for n in call.memory]
    starts = [np.ascontiguousarray(s) for s in call.starts]
    return w.write_all(
        "windows.products",
        x,
        y,
        *map(w.array, starts),
        of=call.name,
        tile=tuple(call.tile),
        x=plan.x,
        row=starts[0],
        term=starts[1],
        numbers=call.numbers,
        pieces=call.pieces,
        work=2 * call.elements,
        results=(Aval(out, x.aval.dtype), *memory),
    )[0]


def _known(x: Any, y: Any, out: Any, params: dict[str, Any]) -> bool:
    """Return whether eager mode has a loop for a convolution of these operands."""
    both = isinstance(x, Var) and isinstance(y, Var) and not native.interpreted()
    return both and suits(x.aval, y.aval, out, params["input_dilation"])


def _plan(x: Any, w: Any, out: Any, params: dict[str, Any]) -> convolution.Geometry:
    return convolution.Geometry(
        x, w, out, params["stride"], params["padding"], params["dilation"], params["groups"]
    )


def _conv(w: Writer, x: Any, kernel: Any, **params: Any) -> Any:
    out = w.shape_of("conv", x, kernel, **params) if isinstance(x, Var) and isinstance(kernel, Var) else ()
    if not out or not _known(x, kernel, out, params):
        return None
    plan = _plan(x.aval.shape, kernel.aval.shape, out, params)
    if not plan.suits(x.aval.dtype.itemsize):
        return None
    return _made(w, x, kernel, plan, convolution.forward_call(plan, x.aval.dtype.itemsize), out)


def _conv_input(w: Writer, ct: Any, kernel: Any, *, shape: Any, **params: Any) -> Any:
    if not _known(ct, kernel, shape, params):
        return None
    plan = _plan(shape, kernel.aval.shape, ct.aval.shape, params).turned()
    if not plan.suits(ct.aval.dtype.itemsize):
        return None
    groups, outputs = params["groups"], kernel.aval.shape[0] // params["groups"]
    window = kernel.aval.shape[2:]
    rank = len(window)
    parts = w.reshape(kernel, (groups, outputs, kernel.aval.shape[1], *window))
    parts = w.transpose(parts, axes=(0, 2, 1, *range(3, 3 + rank)))
    turned = w.slice(parts, index=(..., *(slice(None, None, -1),) * rank))
    return _made(w, ct, turned, plan, convolution.forward_call(plan, ct.aval.dtype.itemsize), shape)


def _conv_kernel(w: Writer, ct: Any, x: Any, *, shape: Any, **params: Any) -> Any:
    if not isinstance(ct, Var) or not _known(x, ct, ct.aval.shape, params):
        return None
    plan = _plan(x.aval.shape, shape, ct.aval.shape, params)
    if not plan.suits(x.aval.dtype.itemsize):
        return None
    call = convolution.backward_call(plan, x.aval.dtype.itemsize)
    sums = w.sum(_made(w, x, ct, plan, call, call.out), axes=(1,))
    kept = w.slice(sums, index=(..., slice(0, plan.outputs)))
    return w.reshape(w.transpose(kept, axes=(0, 2, 1)), shape)


LIBRARY["max_pool"] = functools.partial(_pool, kind="max")
LIBRARY["window_sum"] = functools.partial(_pool, kind="sum")
LIBRARY["window_spread"] = functools.partial(_pool, kind="spread")
LIBRARY["windows.products"] = _products
RULES.update({"conv": _conv, "conv_input": _conv_input, "conv_kernel": _conv_kernel})
