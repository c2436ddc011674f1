"""Convolutions and pooling, by the loops that eager mode has for large arrays; small ones are products.

The loops of convolutions are of stride one. Others become such ones, with more channels (`_Phases`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.compiler.decompose import RULES, Writer
from fgrad.compiler.library import LIBRARY, Launch, internal, stated
from fgrad.core.aval import Aval, Shape
from fgrad.core.program import Equation, Var
from fgrad.kernels import convolution, native, windows
from fgrad.kernels.bridges import bridge
from fgrad.kernels.convolution import Steps
from fgrad.ops.windows import columns_of, suits

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


def _known(x: Var, y: Var, out: Shape, params: dict[str, Any], columns: int) -> bool:
    """Return whether eager mode has a loop for a convolution of these operands."""
    return not native.interpreted() and suits(x.aval, y.aval, out, params["input_dilation"], columns)


def _plan(x: Shape, w: Shape, out: Shape, params: dict[str, Any]) -> convolution.Geometry:
    return convolution.Geometry(
        x, w, out, params["stride"], params["padding"], params["dilation"], params["groups"]
    )


class _Phases:
    """A convolution of stride s as one of stride one: each s-th row or column is a channel of its own.

    The kernel is as long as a multiple of s, with zeros at its end. Phases that no window reaches are left
    out.

    Attributes:
        images, kernel: the shapes of the operands.
        plan: the convolution of stride one.
        reaches: whether windows reach images at all.
    """

    def __init__(self, x: Shape, kernel: Shape, out: Shape, stride: Steps, pads: Steps, groups: int) -> None:
        self._x, self._kernel, self._stride = x, kernel, stride
        rank, window = len(stride), kernel[2:]
        self._phases = tuple(map(min, stride, window))
        self._taps = tuple(-(-k // s) for k, s in zip(window, stride, strict=True))
        self._rows = tuple(o + t - 1 for o, t in zip(out[2:], self._taps, strict=True))
        count = math.prod(self._phases)
        self.images: Shape = (x[0], x[1] * count, *self._rows)
        self.kernel: Shape = (kernel[0], kernel[1] * count, *self._taps)
        ones, none = (1,) * rank, ((0, 0),) * rank
        self.plan = convolution.Geometry(self.images, self.kernel, out, ones, none, ones, groups)
        self._whole = [r * s for r, s in zip(self._rows, stride, strict=True)]  # what windows reach, padded
        self._kept = [min(n, t - low) for n, t, low in zip(x[2:], self._whole, pads, strict=True)]
        self._places = [slice(p, p + n) for p, n in zip(pads, self._kept, strict=True)]
        self.reaches: bool = min(self._kept) > 0

    def of_images(self, w: Writer, x: Any) -> Any:
        """Return the phases of images as channels."""
        x = _cut(w, x, [slice(0, n) for n in self._kept])
        x = _placed(w, x, self._whole, self._places)
        x = w.reshape(x, (*self._x[:2], *_pairs(self._rows, self._stride)))
        x = _cut(w, x, [slice(0, n) for pair in zip(self._rows, self._phases, strict=True) for n in pair])
        return w.reshape(w.transpose(x, axes=_apart(len(self._rows))), self.images)

    def to_images(self, w: Writer, back: Any) -> Any:
        """Return the cotangent of images from that of their phases."""
        back = w.reshape(back, (*self._x[:2], *self._phases, *self._rows))
        back = w.transpose(back, axes=_together(len(self._rows)))
        full = _pairs(self._rows, self._stride)
        back = _placed(w, back, full, [slice(0, n) for n in back.aval.shape[2:]])
        back = w.reshape(back, (*self._x[:2], *self._whole))
        back = _cut(w, back, self._places)
        return _placed(w, back, self._x[2:], [slice(0, n) for n in self._kept])

    def of_kernel(self, w: Writer, kernel: Any) -> Any:
        """Return the kernel of the phases."""
        full = [t * p for t, p in zip(self._taps, self._phases, strict=True)]
        kernel = _placed(w, kernel, full, [slice(0, n) for n in self._kernel[2:]])
        kernel = w.reshape(kernel, (*self._kernel[:2], *_pairs(self._taps, self._phases)))
        return w.reshape(w.transpose(kernel, axes=_apart(len(self._taps))), self.kernel)

    def to_kernel(self, w: Writer, back: Any) -> Any:
        """Return the cotangent of the kernel from that of the phases."""
        back = w.reshape(back, (*self._kernel[:2], *self._phases, *self._taps))
        back = w.transpose(back, axes=_together(len(self._taps)))
        full = [t * p for t, p in zip(self._taps, self._phases, strict=True)]
        back = w.reshape(back, (*self._kernel[:2], *full))
        return _cut(w, back, [slice(0, n) for n in self._kernel[2:]])


def _phases(
    x: Aval,
    kernel: Shape,
    out: Shape,
    *,
    stride: Steps,
    padding: convolution.Pads,
    dilation: Steps,
    groups: int,
    **_: Any,
) -> _Phases | None:
    """Return the phases of a convolution, if a loop over pieces computes them, and their slopes."""
    low = tuple(a for a, _ in padding)
    if max(stride) == 1 or max(dilation) > 1 or min(low) < 0:
        return None
    found = _Phases(x.shape, kernel, out, stride, low, groups)
    plan, size = found.plan, x.dtype.itemsize
    return found if found.reaches and plan.suits(size) and plan.turned().suits(size) else None


def _cut(w: Writer, x: Any, parts: Sequence[slice]) -> Any:
    """Return a part of all axes but the first two."""
    whole = [slice(0, n) for n in x.aval.shape[2:]] == list(parts)
    return x if whole else w.slice(x, index=(slice(None), slice(None), *parts))


def _placed(w: Writer, x: Any, sizes: Sequence[int], parts: Sequence[slice]) -> Any:
    """Return zeros with an array somewhere along all axes but the first two."""
    if x.aval.shape[2:] == tuple(sizes):
        return x
    shape = (*x.aval.shape[:2], *sizes)
    return w.slice_backward(x, shape=shape, index=(slice(None), slice(None), *parts))


def _pairs(a: Sequence[int], b: Sequence[int]) -> Shape:
    return tuple(n for pair in zip(a, b, strict=True) for n in pair)


def _apart(rank: int) -> Steps:
    """Return the order of axes that brings the second of each pair behind the first two."""
    return (0, 1, *range(3, 3 + 2 * rank, 2), *range(2, 2 + 2 * rank, 2))


def _together(rank: int) -> Steps:
    """Return the order of axes that undoes `_apart`."""
    return (0, 1, *_pairs(range(2 + rank, 2 + 2 * rank), range(2, 2 + rank)))


def _conv(w: Writer, x: Any, kernel: Any, **params: Any) -> Any:
    out = w.shape_of("conv", x, kernel, **params) if isinstance(x, Var) and isinstance(kernel, Var) else ()
    if not out or not _known(
        x, kernel, out, params, columns_of(x.aval.shape, kernel.aval.shape[2:], out[2:])
    ):
        return None
    plan = _plan(x.aval.shape, kernel.aval.shape, out, params)
    if plan.suits(x.aval.dtype.itemsize):
        return _forward(w, x, kernel, plan, out)
    phases = _phases(x.aval, kernel.aval.shape, out, **params)
    if phases is None:
        return None
    return _forward(w, phases.of_images(w, x), phases.of_kernel(w, kernel), phases.plan, out)


def _conv_input(w: Writer, ct: Any, kernel: Any, *, shape: Any, **params: Any) -> Any:
    if not (isinstance(ct, Var) and isinstance(kernel, Var)):
        return None
    if not _known(ct, kernel, shape, params, columns_of(shape, kernel.aval.shape[2:], ct.aval.shape[2:])):
        return None
    plan = _plan(shape, kernel.aval.shape, ct.aval.shape, params)
    if plan.turned().suits(ct.aval.dtype.itemsize):
        return _back(w, ct, kernel, plan, shape)
    phases = _phases(Aval(shape, ct.aval.dtype), kernel.aval.shape, ct.aval.shape, **params)
    if phases is None:
        return None
    return phases.to_images(w, _back(w, ct, phases.of_kernel(w, kernel), phases.plan, phases.images))


def _conv_kernel(w: Writer, ct: Any, x: Any, *, shape: Any, **params: Any) -> Any:
    if not (isinstance(ct, Var) and isinstance(x, Var)):
        return None
    if not _known(x, ct, ct.aval.shape, params, columns_of(x.aval.shape, shape[2:], ct.aval.shape[2:])):
        return None
    plan = _plan(x.aval.shape, shape, ct.aval.shape, params)
    if plan.suits(x.aval.dtype.itemsize):
        return _sums(w, ct, x, plan, shape)
    phases = _phases(x.aval, shape, ct.aval.shape, **params)
    if phases is None:
        return None
    return phases.to_kernel(w, _sums(w, ct, phases.of_images(w, x), phases.plan, phases.kernel))


def _forward(w: Writer, x: Any, kernel: Any, plan: convolution.Geometry, out: Shape) -> Any:
    """Return the convolution itself."""
    return _made(w, x, kernel, plan, convolution.forward_call(plan, x.aval.dtype.itemsize), out)


def _back(w: Writer, ct: Any, kernel: Any, plan: convolution.Geometry, shape: Shape) -> Any:
    """Return the cotangent of the input."""
    window, rank = kernel.aval.shape[2:], len(shape) - 2
    parts = w.reshape(kernel, (plan.groups, plan.outputs, plan.channels, *window))
    parts = w.transpose(parts, axes=(0, 2, 1, *range(3, 3 + rank)))
    turned = w.slice(parts, index=(..., *(slice(None, None, -1),) * rank))
    return _forward(w, ct, turned, plan.turned(), shape)


def _sums(w: Writer, ct: Any, x: Any, plan: convolution.Geometry, shape: Shape) -> Any:
    """Return the cotangent of the kernel."""
    call = convolution.backward_call(plan, x.aval.dtype.itemsize)
    sums = w.sum(_made(w, x, ct, plan, call, call.out), axes=(1,))
    kept = w.slice(sums, index=(..., slice(0, plan.outputs)))
    return w.reshape(w.transpose(kept, axes=(0, 2, 1)), shape)


LIBRARY["max_pool"] = functools.partial(_pool, kind="max")
LIBRARY["window_sum"] = functools.partial(_pool, kind="sum")
LIBRARY["window_spread"] = functools.partial(_pool, kind="spread")
LIBRARY["windows.products"] = _products
RULES.update({"conv": _conv, "conv_input": _conv_input, "conv_kernel": _conv_kernel})
