"""The steps of a plan, bound to memory: what Python does between launches.

A loop is driven from here: its kernels are launched for every step, on buffers that were laid out before.
Whether a `while` goes on, and which way a branch goes, is read from the device, once a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from fgrad.backend.array import Device, DeviceArray
from fgrad.backend.devices import moved
from fgrad.compiler import layout
from fgrad.compiler.device.plan import (
    Fill,
    Launch,
    LibraryCall,
    Plan,
    Product,
    Ranking,
    Region,
    Step,
)
from fgrad.compiler.device.statements import dtype_of
from fgrad.core.aval import Aval, aval_of
from fgrad.core.control_flow import PLAIN
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.program import Equation, Program, applied, unexpected
from fgrad.core.rewriting.liveness import with_programs
from fgrad.kernels import launching
from fgrad.locks import lazy

Run = Callable[[], None]
FIRST = 16  # rows of a stack that grows


class Context:
    """The memory of one call at a time: the arena, and an array for every slot."""

    def __init__(self, plan: Plan, place: Device) -> None:
        self.plan: Plan = plan
        self.place: Any = place
        self.empty: Callable[..., Any] = place.library.find("empty")
        is_needed = any(b is not None and b.array is None for b in plan.slots)
        self.arena: Any = self.empty((max(1, plan.size),), dtype=np.uint8) if is_needed else None
        self.arrays: list[Any] = [b and self._array(b) for b in plan.slots]
        self.given: list[int] = [k for k, b in enumerate(plan.slots) if b is None]
        self.steps: list[Run] = [self.bound(s) for s in plan.steps]

    def _array(self, b: layout.Buffer) -> Any:
        if b.array is not None:
            return self.plan.held[b.slot]
        assert self.arena is not None  # noqa: S101 -- there are buffers in it
        assert b.aval is not None  # noqa: S101 -- a slot has a shape
        return self.arena[b.start : b.start + b.size].view(b.aval.dtype).reshape(b.aval.shape)

    def run(self, ins: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        """Return the buffers of the outputs, which are `outs` where those are not None."""
        arrays = self.arrays
        arrays[: len(ins) + len(outs)] = [*ins, *outs]
        try:
            for step in self.steps:
                step()
            return [arrays[k] for k in self.plan.results]
        finally:
            for k in self.given:
                arrays[k] = None

    def bound(self, step: Step) -> Run:
        """Return what does a step."""
        if isinstance(step, Launch):
            return self._launch(step)
        if isinstance(step, Fill):
            return lambda: self.arrays[step.slot].fill(0)
        if isinstance(step, Ranking):
            return partial(self._sort, step)
        if isinstance(step, Product):
            return partial(self._multiply, self.place.library.find("matmul"), step)
        if isinstance(step, LibraryCall):
            return partial(self._apply, step, self._compiled(step.equation))
        blocks = [[self.bound(s) for s in b] for b in step.blocks]
        if isinstance(step.inner, layout.Loop):
            return partial(self._scan, step.inner, step, blocks[0])
        if isinstance(step.inner, layout.While):
            return partial(self._while, step.inner, step, *blocks)
        assert isinstance(step.inner, layout.Choice)  # noqa: S101 -- there are three
        return partial(self._choose, step.inner, step, blocks)

    # ---- kernels, products, primitives

    def _launch(self, step: Launch) -> Run:
        grid, arrays, slots = step.grid, self.arrays, step.slots
        dtypes = tuple(dtype_of(b).name for b in grid.buffers)
        kernel = launching.compiled(grid.text, dtypes, len(grid.numbers))

        def launch() -> None:
            kernel([arrays[k] for k in slots], grid.numbers, step.blocks, step.threads)

        return launch

    def _multiply(self, matmul: Callable[..., Any], step: Product) -> None:
        first, second, out = (self.arrays[m.slot].transpose(m.axes).reshape(m.shape) for m in step)
        matmul(first, second, out=out)

    def _sort(self, step: Ranking) -> None:
        keys = DeviceArray(self.arrays[step.keys], self.place)
        order = np.argsort(keys, kind="stable")
        self.arrays[step.order], self.arrays[step.places] = order.buffer, keys[order].buffer  # type: ignore[attr-defined]

    def _apply(self, step: LibraryCall, e: Equation) -> None:
        arrays, place, primitive = self.arrays, self.place, PRIMITIVES[e.name]
        values = [a[0] if isinstance(a, tuple) else DeviceArray(arrays[a], place) for a in step.args]
        found = applied(primitive, values, e.params)
        for k, v, y in zip(step.outs, e.outs, found if primitive.many else (found,), strict=True):
            value = getattr(y, "_value", y)
            made = value if value.__class__ is DeviceArray else moved(np.asarray(value), place.name)
            is_known = made.shape == v.aval.shape  # else as many as a loop made
            if not is_known and (type(v.aval) is Aval or made.shape[1:] != v.aval.shape[1:]):
                raise unexpected(primitive, aval_of(made), v.aval)
            buffer = contiguous(place, made, v.aval.dtype) if is_known else made.buffer
            if k in step.written:
                arrays[k][...] = buffer
            elif self.arena is not None and place.library.overlaps(buffer, self.arena):
                arrays[k] = buffer.copy()
            else:
                arrays[k] = buffer
        for k in step.dropped:
            arrays[k] = None

    def _compiled(self, e: Equation) -> Equation:
        """Return the call of a primitive; the programs of a loop that Python goes through are compiled."""
        if not isinstance(e.params.get("code"), PLAIN):
            return e
        return with_programs(e, partial(_Compiled, self.place))

    # ---- loops and branches

    def _copy(self, pairs: Sequence[tuple[int, ...]]) -> None:
        arrays = self.arrays
        for target, source, *_ in pairs:
            arrays[target][...] = arrays[source]

    def _scan(self, loop: layout.Loop, step: Region, body: Sequence[Run]) -> None:
        arrays, code = self.arrays, loop.code
        n, m = code.consts, code.carry
        args = step.args if code.length is not None else step.args[1:]
        self._alias(loop.consts, args[:n])
        self._copy(list(zip(loop.carry, args[n : n + m], strict=True)))
        xs = [arrays[k] for k in args[n + m :]]
        length = code.length
        if length is None:
            length = len(xs[0]) if xs else int(DeviceArray(arrays[step.args[0]], self.place))
            for k, aval in zip(step.outs[m:], code.outs[m:], strict=True):
                arrays[k] = self.empty((length, *aval.shape[1:]), dtype=aval.dtype)
        ys = [arrays[k] for k in step.outs[m:]]
        rows = [*zip(loop.rows, xs, strict=True), *zip(loop.ys, ys, strict=True)]
        for i in range(length - 1, -1, -1) if code.reverse else range(length):
            for k, whole in rows:
                arrays[k] = whole[i, ...]
            self._turn(loop, body)
        self._copy(list(zip(step.outs, loop.carry, strict=False)))

    def _turn(self, loop: layout.Repeated, body: Sequence[Run]) -> None:
        arrays = self.arrays
        for step in body:
            step()
        self._copy(loop.copies)
        for a, b in zip(loop.carry, loop.next, strict=True):
            arrays[a], arrays[b] = arrays[b], arrays[a]

    def _while(self, loop: layout.While, step: Region, asked: Sequence[Run], body: Sequence[Run]) -> None:
        arrays, code = self.arrays, loop.code
        n, m = code.consts, code.carry
        self._alias(loop.consts, step.args[:n])
        self._copy(list(zip(loop.carry, step.args[n:], strict=True)))
        stacks = [_Stack(self.empty, a) for a in code.outs[m:]]
        count = 0
        while True:
            for s in asked:
                s()
            self._copy(loop.asked)
            if not DeviceArray(arrays[loop.go], self.place):
                break
            for k, stack in zip(loop.ys, stacks, strict=True):
                arrays[k] = stack.row(count)
            self._turn(loop, body)
            count += 1
        for k, stack in zip(step.outs[m:], stacks, strict=True):
            arrays[k] = stack.array[:count]
        self._copy(list(zip(step.outs, loop.carry, strict=False)))

    def _choose(self, choice: layout.Choice, step: Region, branches: Sequence[Sequence[Run]]) -> None:
        index = int(DeviceArray(self.arrays[step.args[0]], self.place))
        index = min(max(index, 0), len(branches) - 1)
        self._alias(choice.args, step.args[1:])
        self._alias(choice.outs, step.outs)
        for s in branches[index]:
            s()
        self._copy(choice.copies[index])

    def _alias(self, slots: Sequence[int], sources: Sequence[int]) -> None:
        for k, source in zip(slots, sources, strict=True):
            self.arrays[k] = self.arrays[source]


class _Stack:
    """Rows of which nobody knows how many there will be; twice as many as fit get memory."""

    def __init__(self, empty: Callable[..., Any], aval: Any) -> None:
        self.empty, self.shape, self.dtype = empty, aval.shape[1:], aval.dtype
        self.array = empty((FIRST, *self.shape), dtype=self.dtype)

    def row(self, i: int) -> Any:
        """Return the memory of row `i`, the next one."""
        if i == len(self.array):
            wider = self.empty((2 * i, *self.shape), dtype=self.dtype)
            wider[:i] = self.array
            self.array = wider
        return self.array[i, ...]


class _Compiled(Program):
    """A program inside of a loop that Python goes through, compiled when it first runs."""

    def __init__(self, place: Device, program: Program) -> None:
        super().__init__(program.inputs, program.equations, program.outputs, (None, None))
        self.place, self._plain = place, program

    @lazy
    def _context(self) -> tuple[Plan, Context]:
        plan = Plan(self._plain, self.place)
        return plan, Context(plan, self.place)

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the output leaves for arrays of the input leaves."""
        plan, context = self._context
        values = [getattr(x, "_value", x) for x in leaves]
        ins = [as_argument(self.place, x, v.aval) for x, v in zip(values, plan.inputs, strict=True)]
        return [DeviceArray(y, self.place) for y in owned(context, ins, fresh(context, {}))]


def fresh(context: Context, donated: dict[int, Any]) -> list[Any]:
    """Return memory for the outputs that are not a library's: new, unless it is `donated`."""
    plan = context.plan
    outs: list[Any] = [None] * len(plan.outputs)
    for k in plan.fresh:
        aval = plan.outputs[k].aval
        outs[k] = donated[k] if k in donated else context.empty(aval.shape, dtype=aval.dtype)
    return outs


def owned(context: Context, ins: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
    """Run, and return every output as an array of its own."""
    found = context.run(ins, outs)
    if context.plan.is_new:
        return found
    own = {id(y) for y in outs if y is not None}
    made: list[Any] = []
    for y in found:
        is_made = y.base is None and not any(y is x for x in (*ins, *context.plan.held.values()))
        is_taken = any(y is z for z in made)
        made.append(y if (id(y) in own or is_made) and not is_taken else y.copy())
    return made


def as_argument(place: Device, x: Any, aval: Any) -> Any:
    """Return an argument as contiguous buffer of a shape and dtype.

    Raises:
        TypeError: it is on another device.
    """
    if x.__class__ is not DeviceArray and not np.ndim(x):
        return place.full((), aval.dtype.type(x), aval.dtype).buffer  # a number is no transfer
    buffer = contiguous(place, x, aval.dtype)
    return buffer if buffer.shape == aval.shape else buffer.reshape(aval.shape)


def contiguous(place: Device, x: Any, dtype: np.dtype[Any]) -> Any:
    """Return the buffer of an array, of a dtype and in C order."""
    buffer = place.row_major(x)
    return buffer if buffer.dtype == dtype else place.call(buffer.astype, dtype)
