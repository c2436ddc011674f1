"""Compiled programs: kernels and library calls in order, buffers by liveness from one arena."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fgrad.compiler.decompose import Plain, decompose
from fgrad.compiler.emit import Kernel, Part, combine, emit
from fgrad.compiler.fuse import Call, Nest, fuse
from fgrad.compiler.products import product
from fgrad.compiler.simplify import simplify
from fgrad.core.aval import Aval
from fgrad.core.primitive import ROWS
from fgrad.core.program import Equation, Program, Var, applied
from fgrad.core.trace import running
from fgrad.kernels import entry, intrinsics, machine, native, threads

ALIGN = 64  # bytes: a cache line
RELEASE = 100_000  # elements times operations of a program that lets other threads run meanwhile
LARGE = 65536  # elements times operations of a kernel that threads share, at least


class Cost(NamedTuple):
    """What a call of a compiled program costs."""

    flops: int  # operations on numbers, those of library calls but for products not counted
    bytes: int  # read and written
    kernels: int  # loop nests
    temporaries: int  # bytes of the arena


class Executable:
    """A program ready to run on plain arrays."""

    def __init__(self, program: Program) -> None:
        self.program = simplify(program)
        plain = decompose(self.program)
        self._plain = plain.program
        steps, makers = fuse(plain.program, plain.constants)
        kernels = _kernels(steps, makers, plain)
        self._plan = _Plan(plain, steps, kernels)

    def run(self, leaves: Sequence[Any]) -> list[np.ndarray]:
        """Return new arrays of the outputs for arrays of the inputs.

        Raises:
            IndexError: an index is out of bounds.
        """
        found = self._plan.run(leaves)
        if found is None:
            with running(()):
                self.program.run(leaves)
            raise IndexError("an index array of a compiled function holds an index that is out of bounds")
        return found

    @property
    def checks(self) -> list[int]:
        """Which of the arrays that are made are zero unless an index is out of bounds."""
        plan = self._plan
        return [plan.slots[v] - len(plan.inputs) for v in plan.checks]

    @property
    def entry(self) -> entry.Context | None:
        """The native entry, which takes the inputs and empty arrays for the outputs, where there is one."""
        return self._plan.native

    @property
    def ins(self) -> list[Aval]:
        """The avals of the inputs."""
        return [v.aval for v in self._plan.inputs]

    @property
    def outs(self) -> list[Aval]:
        """The avals of the arrays that are made."""
        return [v.aval for v in self._plan.outputs]

    @property
    def results(self) -> list[int]:
        """Which of these arrays each output is, where `is_direct`."""
        return [k - len(self._plan.inputs) for k in self._plan.results if k is not None]

    @property
    def is_direct(self) -> bool:
        """Whether every output is one of the arrays that are made, each once."""
        made = sorted([*self.results, *self.checks])
        return made == list(range(len(self.outs))) and None not in self._plan.results

    @property
    def source(self) -> str:
        """The text of all kernels, each under a line that says which operations it computes."""
        return self._plan.source

    def cost(self) -> Cost:
        """Return what a call costs."""
        return self._plan.cost()


def compile(program: Program) -> Executable:
    """Return the program ready to run."""
    return Executable(program)


def _kernels(steps: list[Any], makers: Any, plain: Plain) -> dict[int, list[Kernel]]:
    """Return the kernels of each nest; a root that nobody reads is not written."""
    computed = {r.var for s in steps if isinstance(s, Nest) for r in s.roots}
    stored = computed | {v for s in steps if isinstance(s, Call) for v in s.equation.outs}
    stored |= set(plain.program.inputs)
    needed = {y for y in (*plain.program.outputs, *plain.checks) if isinstance(y, Var)}
    needed |= {a for s in steps if isinstance(s, Call) for a in s.equation.args if isinstance(a, Var)}
    first = {i: emit(s, makers, stored, computed, plain.constants) for i, s in enumerate(steps) if isinstance(s, Nest)}
    for k in first.values():
        needed |= k.loads
    out = {}
    for i, k in first.items():
        kept = computed & needed
        kernel = k if k.stores <= kept else emit(steps[i], makers, stored, kept, plain.constants)
        out[i] = [kernel, *(combine(p) for p in kernel.parts)] if kernel.count > 1 else [kernel]
    return out


class _Plan:
    """Where every buffer is, and what happens in which order."""

    def __init__(
        self,
        plain: Plain,
        steps: list[Any],
        kernels: dict[int, list[Kernel]],
    ) -> None:
        program, constants, self.checks = plain.program, plain.constants, plain.checks
        self.program, self.steps, self.kernels = program, steps, kernels
        self.inputs = [v for v in program.inputs if v not in constants]
        self.outputs: list[Var] = []
        for y in (*program.outputs, *self.checks):
            if isinstance(y, Var) and y not in self.outputs and y not in program.inputs:
                self.outputs.append(y)
        self.slots: dict[Any, int] = {}
        for v in (*self.inputs, *self.outputs, *constants):
            self.slots[v] = len(self.slots)
        self.constants = constants
        self.offsets: dict[Any, int] = {}
        self.size = 0
        self._place()
        self.code = _Code(self)
        self.native = self._entry()
        self.free: list[_Context] = []
        self.results = [self.slots[y] if isinstance(y, Var) else None for y in program.outputs]
        self.source = "\n\n\n".join(
            f"# {', '.join(str(b) for b in k.buffers)}\n{k.text}" for ks in kernels.values() for k in ks
        )

    def run(self, leaves: Sequence[Any]) -> list[np.ndarray] | None:
        """Return new arrays of the outputs; None if an index is out of bounds."""
        ins = [
            np.ascontiguousarray(x, v.aval.dtype).reshape(v.aval.shape)
            for v, x in zip(self.inputs, leaves, strict=True)
        ]
        outs = [np.empty(v.aval.shape, v.aval.dtype) for v in self.outputs]
        if self.native is None or self.native.call(*ins, *outs) is not None:
            context = self.free.pop() if self.free else _Context(self, self.code)
            try:
                with running(()):
                    context.run(ins, outs)
            finally:
                self.free.append(context)
        if any(outs[self.slots[v] - len(ins)] for v in self.checks):
            return None
        return [self._result(k, ins, outs, i) for i, k in enumerate(self.results)]

    def _result(self, k: int | None, ins: Any, outs: Any, i: int) -> np.ndarray:
        """Return output `i`, which is in slot `k`, as an array of its own."""
        if k is None:
            return np.array(self.program.outputs[i])
        if k < len(ins):
            return np.array(ins[k])
        if k - len(ins) >= len(outs):
            return np.array(self.constants[self.program.outputs[i]])
        y = outs[k - len(ins)]
        return y if k not in self.results[:i] else np.array(y)

    def _entry(self) -> entry.Context | None:
        """Return the native entry of a program that is nothing but its table."""
        if not self.code.is_native:
            return None
        specs = [
            entry.Spec(k, v.aval.dtype, v.aval.shape, written=k >= len(self.inputs), weak=k < len(self.inputs))
            for k, v in enumerate((*self.inputs, *self.outputs))
        ]
        slots: list[Any] = [None] * len(self.slots)
        for v, k in self.slots.items():
            slots[k] = self.constants.get(v, self.offsets.get(v))
        return entry.Context(specs, self.code.table, slots, scratch=self.size, release=self.code.work > RELEASE)

    def cost(self) -> Cost:
        """Return what a call costs."""
        every = [k for ks in self.kernels.values() for k in ks]
        moved = sum(b.aval.size * b.aval.dtype.itemsize for k in every for b in k.buffers if isinstance(b, Var))
        return Cost(sum(k.work for k in every), moved, len(every), self.size)

    def _place(self) -> None:
        """Give every other buffer its place in the arena: where it lives, no other one does."""
        last: dict[Any, int] = {}
        first: dict[Any, int] = {}
        for i, step in enumerate(self.steps):
            for v in self._touched(i, step):
                if v not in self.slots:
                    first.setdefault(v, i)
                    last[v] = i
        live: list[tuple[int, int, int]] = []  # (start, stop, last step)
        for v in sorted(first, key=lambda v: first[v]):
            live = [x for x in live if x[2] >= first[v]]
            size = -(-_bytes(v) // ALIGN) * ALIGN
            start = 0
            for begin, stop, _ in sorted(live):
                if begin - start >= size:
                    break
                start = max(start, stop)
            live.append((start, start + size, last[v]))
            self.offsets[v] = start
            self.size = max(self.size, start + size)
            self.slots[v] = len(self.slots)

    def _touched(self, i: int, step: Any) -> list[Any]:
        if isinstance(step, Call):
            return [v for v in (*step.equation.args, *step.equation.outs) if isinstance(v, Var)]
        found = [_real(b, self.kernels[i]) for k in self.kernels[i] for b in k.buffers]
        return found


def _real(b: Any, kernels: list[Kernel]) -> Any:
    """Return the buffer of a part: the result itself where there is only one block."""
    return b.root.var if isinstance(b, Part) and len(kernels) == 1 else b


def _bytes(v: Any) -> int:
    if isinstance(v, Part):
        return v.count * v.blocks * v.root.var.aval.dtype.itemsize
    return int(v.aval.size * v.aval.dtype.itemsize)


class _Segment(NamedTuple):
    """Part of the table that runs without a stop."""

    start: int
    stop: int


class _Shared(NamedTuple):
    """A kernel whose loop threads share."""

    kernel: native.Kernel
    numbers: np.ndarray
    count: int
    elements: int


class _Code:
    """The table of a plan, and how its parts follow one another."""

    def __init__(self, plan: _Plan) -> None:
        self.table = machine.Assembler()
        self.work = 0
        self.steps: list[_Segment | _Shared | Equation] = []
        kernels = [k for ks in plan.kernels.values() for k in ks]
        native.compiled_all([k.text for k in kernels])
        for i, step in enumerate(plan.steps):
            if isinstance(step, Call):
                made = product(step.equation, plan.slots) if step.equation.name == "contract" else None
                if made is None:
                    self.steps.append(step.equation)
                else:
                    self.work += made.work
                    self._segment(made.kernel, made.numbers, made.count)
                continue
            for k in plan.kernels[i]:
                compiled = native.compiled(k.text)
                numbers = [*(plan.slots[_real(b, plan.kernels[i])] for b in k.buffers), *k.numbers]
                if k.work >= LARGE and k.count > 1 and not native.interpreted():
                    self.steps.append(_Shared(compiled, np.array(numbers, np.int64), k.count, k.work // 8))
                    continue
                self.work += k.work
                self._segment(compiled, numbers, k.count)

    def _segment(self, kernel: native.Kernel, numbers: Sequence[int], count: int) -> None:
        """Let a kernel run right after what ran before, if that is in the table too."""
        start = len(self.table)
        if self.steps and isinstance(self.steps[-1], _Segment):
            start = self.steps.pop().start  # type: ignore[union-attr]
        self.table.call(kernel, numbers, 0, count)
        self.steps.append(_Segment(start, len(self.table)))

    @property
    def is_native(self) -> bool:
        """Whether the table is all there is."""
        return all(isinstance(s, _Segment) for s in self.steps)


class _Context:
    """The memory of one call at a time."""

    def __init__(self, plan: _Plan, code: _Code) -> None:
        self.plan = plan
        raw = np.empty(plan.size + ALIGN, np.uint8)
        start = -raw.ctypes.data % ALIGN
        arena = raw[start : start + plan.size]
        self.arrays: list[Any] = [None] * len(plan.slots)
        for v, k in plan.slots.items():
            if v in plan.constants:
                self.arrays[k] = plan.constants[v]
            elif v in plan.offsets:
                part = arena[plan.offsets[v] : plan.offsets[v] + _bytes(v)]
                self.arrays[k] = part if isinstance(v, Part) else part.view(v.aval.dtype).reshape(v.aval.shape)
        self.interpreted = native.interpreted()
        if self.interpreted:
            self.slots: Any = intrinsics.Slots(self.arrays)
        else:
            self.slots = np.array([0 if a is None else a.ctypes.data for a in self.arrays], np.int64)
        self.words = code.table.words
        self.steps = [self._step(s) for s in code.steps]

    def run(self, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray]) -> None:
        """Compute the outputs from the inputs, which are contiguous."""
        for k, x in enumerate((*ins, *outs)):
            self.arrays[k] = x
            self.slots[k] = x if self.interpreted else x.ctypes.data
        try:
            for step in self.steps:
                step()
        finally:
            self.arrays[: len(ins) + len(outs)] = [None] * (len(ins) + len(outs))

    def _step(self, step: _Segment | _Shared | Equation) -> Callable[[], None]:
        slots, words = self.slots, self.words
        if isinstance(step, _Segment):
            return partial(machine.call, machine.interpreter(), words, slots, step.start, step.stop)
        if isinstance(step, _Shared):
            return partial(
                threads.share, partial(machine.call, step.kernel, step.numbers, slots), (), step.count, step.elements
            )
        return self._call(step)

    def _call(self, equation: Equation) -> Callable[[], None]:
        row, slots, arrays = ROWS[equation.name], self.plan.slots, self.arrays
        args = [(slots[a], None) if isinstance(a, Var) else (-1, a) for a in equation.args]
        outs = [slots[v] for v in equation.outs]

        def run() -> None:
            values = [arrays[k] if k >= 0 else a for k, a in args]
            found = applied(row, values, equation.params)
            for k, y in zip(outs, found if row.many else (found,), strict=True):
                np.copyto(arrays[k], y)

        return run
