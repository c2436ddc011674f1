"""The CUDA backend: the scalar text of the CPU kernels, a thread per element, on a GPU or simulated.

Kernels see flat buffers, sizes and strides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fgrad import config
from fgrad.backend.array import DeviceArray
from fgrad.core.caches import LRU
from fgrad.expr.node import Expr
from fgrad.kernels.body import (
    BOOL,
    FLOAT32,
    FLOAT64,
    Body,
    prepare,
    statements,
)
from fgrad.kernels.launching import compiled, device

_DEVICE_HELPERS = {  # Numba compiles neither `math.nextafter` nor an exact float `%` for CUDA
    "fmod": "def fmod(x, y):\n    return math.fmod(x, y)",
    "nextafter": "def nextafter(x, y):\n    return libdevice.nextafter{suffix}(x, y)",
}


class Operand(NamedTuple):
    """How a kernel finds the element of a buffer that belongs to an index."""

    axes: tuple[int, ...]  # those that it moves along, each with a stride; none for a scalar
    linear: bool  # whether its index is the index of the output
    by_value: bool = False  # a number that comes with the launch


class Elementwise:
    """A grid of threads over elements; see `elementwise`."""

    __slots__ = ("_body", "_launches", "_threads")

    def __init__(self, body: Body, threads: int) -> None:
        self._body, self._threads = body, threads
        self._launches: LRU[tuple[Any, ...], Callable[..., None]] = LRU()  # on buffers of a device

    def __call__(self, *operands: Any) -> Any:
        """Return the results for arrays on a device, at least one, and real numbers, of one dtype."""
        first = next(a for a in operands if a.__class__ is DeviceArray)
        place, dtype = first.place, first.dtype
        buffers = [
            place.row_major(a) if a.__class__ is DeviceArray else float(place.operand(a)) for a in operands
        ]
        shapes = [getattr(b, "shape", None) for b in buffers]
        shape = np.broadcast_shapes(*(s for s in shapes if s is not None))
        outs = [place.empty(shape, BOOL if t else dtype) for t in self._body.truths]
        count = math.prod(shape)
        if count:
            sizes, strides = _collapse(shape, [_spread(s or (), shape) for s in shapes])
            where = [
                Operand((), linear=False, by_value=True) if s is None else _laid(sizes, own)
                for s, own in zip(shapes, strides, strict=True)
            ]
            key = (dtype, len(sizes), *where)
            numbers = [count, *sizes[1:], *_moving(where, strides)]
            kernel = self._launches.young.get(key) or self._launches.get(key)
            if kernel is None:
                kinds = [f"={dtype.name}" if w.by_value else dtype.name for w in where]
                kinds += [o.dtype.name for o in outs]
                kernel = compiled(self._text(dtype, len(sizes), where), tuple(kinds), len(numbers))
                self._launches[key] = kernel
            blocks = min(-(-count // self._threads), device().blocks)
            place.call(kernel, [*buffers, *(o.buffer for o in outs)], numbers, blocks, self._threads)
        return outs[0] if len(outs) == 1 else tuple(outs)

    def text(self, dtype: np.dtype[Any] = FLOAT64) -> str:
        """Return the source of the kernel for contiguous arrays of `dtype`."""
        return self._text(dtype, 1, [Operand((0,), linear=True)] * len(self._body.params))

    def _text(self, dtype: np.dtype[Any], rank: int, where: Sequence[Operand]) -> str:
        code = _statements(self._body, dtype)
        outs = [f"o{i}" for i in range(len(code.values))]
        sizes = [f"n{k}" for k in range(1, rank)]
        names = [*(f"a{i}" for i in range(len(where))), *outs, "n", *sizes, *_stride_names(where)]
        lines = [
            *split("i", [f"i{k}" for k in range(rank)], sizes),
            *_loads(where),
            *code.lines,
            *(f"{o}[i] = {v}" for o, v in zip(outs, code.values, strict=True)),
        ]
        promise = f"CONTRACT = {_contract(where, outs, sizes)!r}"
        kernel = [f"def kernel({', '.join(names)}):", *inside(striding("i", "n", lines))]
        return "\n".join([code.preamble, "", promise, "", "", *kernel, ""])


@lru_cache(config.cache_entries())
def _elementwise(body: Body, threads: int) -> Elementwise:
    return Elementwise(body, threads)


def elementwise(params: tuple[Expr, ...], results: tuple[Expr, ...]) -> Elementwise:
    """Return the kernel that computes `results` at every element of its broadcast operands.

    Args:
        params: the variables, one an operand.
        results: expressions in them.

    Returns:
        A function of one array on a device or number a parameter.

    Raises:
        RuntimeError: there is neither a CUDA device nor the simulator.
    """
    return _elementwise(prepare(params, results), device().threads)


def _collapse(shape: Sequence[int], strides: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Return as few axes as can be: neighbours along which every operand moves in step are one."""
    sizes: list[int] = []
    steps: list[list[int]] = []
    for size, step in zip(shape, map(list, zip(*strides, strict=True)), strict=False):
        if size == 1:
            continue
        if sizes and all(outer == inner * size for outer, inner in zip(steps[-1], step, strict=True)):
            sizes[-1] *= size
            steps[-1] = step
        else:
            sizes.append(size)
            steps.append(step)
    return sizes or [1], list(map(list, zip(*steps, strict=True))) or [[0] for _ in strides]


def _laid(sizes: list[int], strides: list[int]) -> Operand:
    linear = strides == [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
    return Operand(tuple(k for k, s in enumerate(strides) if s), linear)


def _spread(own: tuple[int, ...], shape: tuple[int, ...]) -> list[int]:
    """Return how many elements an array in C order moves on along every axis that it broadcasts to."""
    padded = (*(1,) * (len(shape) - len(own)), *own)
    return [0 if n == 1 else math.prod(padded[k + 1 :]) for k, n in enumerate(padded)]


def _moving(where: Sequence[Operand], strides: list[list[int]]) -> list[int]:
    return [s[k] for w, s in zip(where, strides, strict=True) if not w.linear for k in w.axes]


def _stride_names(where: Sequence[Operand]) -> list[str]:
    return [f"s{i}_{k}" for i, w in enumerate(where) if not w.linear for k in w.axes]


def _loads(where: Sequence[Operand]) -> list[str]:
    lines = []
    for i, w in enumerate(where):
        place = "i" if w.linear else " + ".join(f"i{k} * s{i}_{k}" for k in w.axes) or "0"
        lines.append(f"x{i} = F(a{i})" if w.by_value else f"x{i} = a{i}[{place}]")
    return lines


def _contract(where: Sequence[Operand], outs: Sequence[str], sizes: Sequence[str]) -> str:
    """Return what a kernel asks of its buffers: the last element that each of them is read or written at."""
    last = [f"(n - 1) // ({' * '.join(sizes) or '1'})", *(f"({size} - 1)" for size in sizes)]
    clauses = [f"{size} > 0" for size in sizes] + [f"n <= len({o})" for o in outs]
    for i, w in enumerate(where):
        if w.linear:
            clauses.append(f"n <= len(a{i})")
        elif not w.by_value:
            clauses += [f"s{i}_{k} >= 0" for k in w.axes]
            clauses.append(f"{' + '.join(f'{last[k]} * s{i}_{k}' for k in w.axes) or '0'} < len(a{i})")
    return ", ".join(clauses)


def split(index: str, counters: Sequence[str], sizes: Sequence[str]) -> list[str]:
    """Return the lines that split an index into counters, the last one fastest.

    Args:
        index: its name.
        counters: their names.
        sizes: the lengths of all axes but the first.
    """
    lines, rest = [], index
    for counter, size in zip(counters[:0:-1], reversed(sizes), strict=True):
        lines += [f"{counter} = {rest} % {size}", f"{rest}_ = {rest} // {size}"]
        rest += "_"
    return [*lines, *(f"{counter} = {rest}" for counter in counters[:1])]


def inside(lines: Sequence[str]) -> list[str]:
    """Return lines that stand inside of a loop."""
    return [f"    {line}" for line in lines]


def striding(index: str, stop: str, lines: Sequence[str], *, blocks: bool = False) -> list[str]:
    """Return the loop of a thread, or a block, over what the grid does not cover at once."""
    start, step = ("cuda.blockIdx.x", "cuda.gridDim.x") if blocks else ("cuda.grid(1)", "cuda.gridsize(1)")
    return [
        f"{index} = np.int64({start})",
        f"while {index} < {stop}:",
        *inside([*lines, f"{index} += {step}"]),
    ]


def device_helpers(dtype: np.dtype[Any]) -> dict[str, str]:
    """Return the text of helper functions for which the device has better ones; the simulator has none."""
    suffix = "f" if dtype == FLOAT32 else ""
    helpers = {name: text.replace("{suffix}", suffix) for name, text in _DEVICE_HELPERS.items()}
    return {} if device().simulated else helpers


def device_codes(dtype: np.dtype[Any]) -> dict[str, str]:
    """Return the code of atoms of which the device has another one.

    CUDA's compiler joins a product and a sum in one rounding. A difference rounds both of its sides, as on
    the CPU: else `x*x - y*y` of equal x and y is a rounding, which no root of may exist.
    """
    kind = "f" if dtype == FLOAT32 else "d"
    return {} if device().simulated else {"subtract": f"libdevice.{kind}add_rn({{}}, -{{}})"}


def _statements(body: Body, dtype: np.dtype[Any]) -> Any:
    return statements(body, dtype, device_helpers(dtype), device_codes(dtype))
