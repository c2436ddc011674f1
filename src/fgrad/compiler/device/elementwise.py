"""Eager calls on a device: scalar expressions of whole arrays, as the kernel that a program of them is.

A kernel is written for the shapes that it is first called with, which takes less than a launch waits for; it
is compiled once for all that are read alike, as every length but one is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.compiler.device.statements import Grid, GridWriter
from fgrad.compiler.elements import Indices, aligned
from fgrad.compiler.index import HERE, counter, linear
from fgrad.compiler.loop_nests import Place, Value
from fgrad.core.aval import Aval, Shape
from fgrad.core.caches import LRU
from fgrad.core.program import Var
from fgrad.kernels import launching
from fgrad.kernels.body import BOOL, Body


class Number(NamedTuple):
    """An operand that comes with the launch, by its value."""

    position: int
    dtype: np.dtype[Any]


class _Launch(NamedTuple):
    run: Callable[..., None]
    order: list[int]  # of the buffers of the kernel, among operands and results
    numbers: tuple[int, ...]
    blocks: int
    threads: int


class Elementwise:
    """Scalar expressions at every element of operands that broadcast, one launch for all of them."""

    __slots__ = ("_body", "_launches")

    def __init__(self, body: Body) -> None:
        """Raise RuntimeError if there is neither a CUDA device nor the simulator."""
        launching.device()
        self._body = body
        self._launches: LRU[tuple[Any, ...], _Launch] = LRU()

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
        if 0 not in shape:
            key = (dtype, *shapes)
            launch = self._launches.young.get(key) or self._launches.get(key)
            if launch is None:
                launch = self._launches.setdefault(key, self._launch(dtype, shapes))
            buffers += [o.buffer for o in outs]
            given = [buffers[k] for k in launch.order]
            place.call(launch.run, given, launch.numbers, launch.blocks, launch.threads)
        return outs[0] if len(outs) == 1 else tuple(outs)

    def _launch(self, dtype: np.dtype[Any], shapes: Sequence[Shape | None]) -> _Launch:
        grid, known = self.grid(dtype, shapes)
        run = launching.compiled(grid.text, _kinds(grid), len(grid.numbers))
        order = [known.index(b) for b in grid.buffers]
        return _Launch(run, order, grid.numbers, grid.blocks(), grid.threads)

    def grid(self, dtype: np.dtype[Any], shapes: Sequence[Shape | None]) -> tuple[Grid, list[Var | Number]]:
        """Return the kernel for operands of these shapes, None for numbers; and what its buffers may be."""
        shape = np.broadcast_shapes(*(s for s in shapes if s is not None))
        operands = [
            Number(i, dtype) if s is None else Var(Aval(s, dtype), f"x{i}") for i, s in enumerate(shapes)
        ]
        kinds = [BOOL if t else dtype for t in self._body.truths]
        outs = [Var(Aval(shape, d), f"out{i}") for i, d in enumerate(kinds)]
        # loops count from the last axis: so the text is the same, however many there are before it
        loops = [n for n in shape[::-1] if n != 1]
        writer = _Writer(loops, launching.device().threads, {}, {}, operands, outs, {})
        return writer.run(self._body, dtype, operands, outs), [*operands, *outs]


class _Writer(GridWriter):
    literal = 1

    def run(
        self, body: Body, dtype: np.dtype[Any], operands: Sequence[Var | Number], outs: Sequence[Var]
    ) -> Grid:
        """Return the kernel."""
        shape = outs[0].aval.shape
        loops = range(len(self.builder.sizes))[::-1]
        self.enter(0, len(loops))
        left = iter(loops)
        at = tuple(HERE if n == 1 else counter(next(left)) for n in shape)
        given = [self.operand(x, at) for x in operands]
        self.write(body, given, dtype, [Place(out, linear(at, shape)) for out in outs])
        return self.flat(loops)

    def operand(self, x: Var | Number, at: Indices) -> Value:
        """Return the element of an operand."""
        if isinstance(x, Var):
            return self.elements.value(x, aligned(at, x.aval.shape))
        return self.builder.define(x, (f"{x.dtype.name}({self.buffer(x)})",), 0, x.dtype)


def _kinds(grid: Grid) -> tuple[str, ...]:
    """Return what the buffers of a kernel hold, as `launching.compiled` wants it."""
    return tuple(f"={b.dtype.name}" if isinstance(b, Number) else b.aval.dtype.name for b in grid.buffers)
