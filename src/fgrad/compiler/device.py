"""Compiled programs on a CUDA device: the same steps as on the CPU, kernels as grids, libraries between.

The first calls launch step by step. Then a small program is recorded once as a CUDA graph, on buffers of
its own, and a call copies its arguments there, launches the graph, and copies the results out;
FGRAD_CUDA_GRAPHS=0, or a step that has to be waited for, keeps the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from threading import Lock
from typing import Any

import numpy as np

from fgrad import config
from fgrad.backend.array import DeviceArray, Place
from fgrad.backend.devices import moved
from fgrad.compiler.decompose import decompose
from fgrad.compiler.executable import lowered
from fgrad.compiler.fuse import Call, Nest, fuse
from fgrad.compiler.grids import grids
from fgrad.compiler.lanes import Grid, Partial
from fgrad.core.aval import Aval, aval_of
from fgrad.core.primitive import ROWS
from fgrad.core.program import Equation, Program, Var, applied
from fgrad.core.trace import running
from fgrad.kernels import launching
from fgrad.kernels.cuda import device

WARM = 2  # calls before a graph is recorded: many programs run once
SMALL = 2**22  # bytes of arguments and results: to copy more takes longer than to launch step by step
Replay = Callable[[Sequence[Any]], list[DeviceArray]]


class DeviceExecutable:
    """A program ready to run on arrays of one device.

    Args:
        program: to be compiled.
        place: the device.
    """

    program: Program
    inputs: list[Var]
    grids: dict[int, list[Grid]]

    def __init__(self, program: Program, place: Place) -> None:
        self.place = place
        program, self._held = _without_arrays(program, place)
        plain = decompose(lowered(program))
        self.program = plain.program
        self.inputs = [v for v in plain.program.inputs if v not in plain.constants]
        self._constants = {v: place.constant(x) for v, x in plain.constants.items()}
        self.steps, makers = fuse(plain.program, plain.constants, scattering=False)
        self.grids = _grids(self.steps, makers, plain.program, plain.constants)
        self._last = self._last_uses()
        self._calls = 0
        self._bytes = sum(
            a.size * a.dtype.itemsize for a in (aval_out(y) for y in (*self.inputs, *self.program.outputs))
        )
        self._graphs: dict[int, Replay | None] = {}  # by stream
        self._lock = Lock()

    def run(self, leaves: Sequence[Any]) -> list[DeviceArray]:
        """Return new arrays of the outputs for arrays of the inputs.

        Raises:
            TypeError: an array is on another device.
        """
        values = [self._given(v, x) for v, x in zip(self.inputs, (*leaves, *self._held), strict=True)]
        self._calls += 1
        with running(()), np.errstate(all="ignore"):
            recorded = self._calls > WARM and self._bytes <= SMALL and config.cuda_graphs()
            replay = self._replay(values) if recorded else None
            if replay is not None:
                return replay(values)
            return [DeviceArray(_own(y, values), self.place) for y in self._launch_all(values)]

    def _replay(self, values: Sequence[Any]) -> Replay | None:
        """Return the graph for the current stream, on which what uses its buffers runs in order."""
        stream = self.place.call(self.place.library.stream)
        with self._lock:
            if stream not in self._graphs:
                self._graphs[stream] = self._recorded(values)
            return self._graphs[stream]

    def _given(self, v: Var, x: Any) -> Any:
        """Return an argument as buffer of its aval, contiguous."""
        if not isinstance(x, DeviceArray) and not np.ndim(x):
            x = self.place.full((), v.aval.dtype.type(x), v.aval.dtype)  # a number is no transfer
        buffer = self.place.operand(x)
        if buffer.dtype != v.aval.dtype:
            buffer = self.place.call(buffer.astype, v.aval.dtype)
        if not buffer.flags.c_contiguous:
            buffer = self.place.call(self.place.library.find("ascontiguousarray"), buffer)
        return buffer if buffer.shape == v.aval.shape else buffer.reshape(v.aval.shape)

    def _launch_all(self, values: Sequence[Any]) -> list[Any]:
        """Return the buffers of the outputs."""
        known: dict[Any, Any] = dict(zip(self.inputs, values, strict=True))
        known |= {v: x.buffer for v, x in self._constants.items()}
        for i, step in enumerate(self.steps):
            if isinstance(step, Call):
                self._call(step.equation, known)
            else:
                for grid in self.grids[i]:
                    self._launch(grid, known)
            for v in self._last[i]:
                known.pop(v, None)
        return [self._output(y, known) for y in self.program.outputs]

    def _output(self, y: Any, known: dict[Any, Any]) -> Any:
        if isinstance(y, Var):
            return known[y]
        return self.place.array(np.asarray(getattr(y, "_value", y))).buffer

    def _launch(self, grid: Grid, known: dict[Any, Any]) -> None:
        empty = self.place.library.find("empty")
        for x in grid.stores:
            if x not in known:
                known[x] = self.place.call(empty, _shape(x), dtype=dtype_of(x))
        kernel = launching.compiled(
            grid.text, tuple(dtype_of(b).name for b in grid.buffers), len(grid.numbers)
        )
        chip = device()
        blocks = grid.tasks if grid.whole_blocks else -(-grid.tasks // chip.threads)
        arrays = [known[b] for b in grid.buffers]
        self.place.call(kernel, arrays, grid.numbers, max(1, min(blocks, chip.blocks)), chip.threads)

    def _call(self, e: Equation, known: dict[Any, Any]) -> None:
        row = ROWS[e.name]
        values = [DeviceArray(known[a], self.place) if isinstance(a, Var) else a for a in e.args]
        found = applied(row, values, e.params)
        for v, y in zip(e.outs, found if row.many else (found,), strict=True):
            value = getattr(y, "_value", y)
            made = value if isinstance(value, DeviceArray) else moved(np.asarray(value), self.place.name)
            if made.shape == v.aval.shape:  # else as many as a loop made
                made = DeviceArray(self._given(v, made), self.place)
            known[v] = made.buffer

    def _recorded(self, values: Sequence[Any]) -> Replay | None:
        """Return what replays the program; None where it cannot be recorded."""
        ins = [self.place.call(x.copy) for x in values]
        replay = self.place.call(self.place.library.recorded, partial(self._launch_all, ins))
        if replay is None:
            return None

        def run(given: Sequence[Any]) -> list[DeviceArray]:
            with self._lock:
                for target, x in zip(ins, given, strict=True):
                    target[...] = x
                return [DeviceArray(y.copy(), self.place) for y in replay()]

        return partial(self.place.call, run)

    def _last_uses(self) -> list[list[Any]]:
        """Return for every step what nobody needs after it."""
        last: dict[Any, int] = {}
        for i, step in enumerate(self.steps):
            if isinstance(step, Call):
                last.update((a, i) for a in (*step.equation.args, *step.equation.outs) if isinstance(a, Var))
            else:
                last.update((b, i) for g in self.grids[i] for b in g.buffers)
        kept = {y for y in self.program.outputs if isinstance(y, Var)}
        found: list[list[Any]] = [[] for _ in self.steps]
        for v, i in last.items():
            if v not in kept:
                found[i].append(v)
        return found

    @cached_property
    def source(self) -> str:
        """The kernels, each under what it stores."""
        parts = []
        for i, step in enumerate(self.steps):
            if isinstance(step, Call):
                parts.append(f"# {step.equation}")
            parts += [f"# {', '.join(map(str, g.stores))}\n{g.text}" for g in self.grids.get(i, ())]
        return "\n\n".join(parts)


def _without_arrays(program: Program, place: Place) -> tuple[Program, list[DeviceArray]]:
    """Return the program with the arrays on devices that it holds as further inputs, and these."""
    found: dict[int, tuple[Var, DeviceArray]] = {}

    def operand(x: Any) -> Any:
        value = x if isinstance(x, Var) else getattr(x, "_value", x)
        if not isinstance(value, DeviceArray):
            return x
        return found.setdefault(id(value), (Var(aval_of(value), f"h{len(found)}"), value))[0]

    equations = [
        Equation(e.name, tuple(map(operand, e.args)), e.params, e.outs, e.line) for e in program.equations
    ]
    outputs = list(map(operand, program.outputs))
    if not found:
        return program, []
    inputs = [*program.inputs, *(v for v, _ in found.values())]
    regions = list(program.regions.values())
    made = Program(inputs, equations, outputs, (program.in_tree, program.out_tree), regions)
    return made, [x for _, x in found.values()]


def aval_out(y: Any) -> Aval:
    """Return the aval of an input or output."""
    return y.aval if isinstance(y, Var) else aval_of(y)


def _own(y: Any, given: Sequence[Any]) -> Any:
    """Return an output that is no argument, and no view of anything."""
    return y.copy() if any(y is x for x in given) or y.base is not None else y


def _shape(x: Any) -> tuple[int, ...]:
    if isinstance(x, Partial):
        return (x.root.var.aval.size * x.parts,)
    return tuple(x.aval.shape)


def dtype_of(x: Any) -> np.dtype[Any]:
    """Return the dtype of what a buffer of a kernel is."""
    dtype: np.dtype[Any] = (x.root.var if isinstance(x, Partial) else x).aval.dtype
    return dtype


def _grids(steps: Sequence[Any], makers: Any, program: Program, constants: Any) -> dict[int, list[Grid]]:
    """Return the kernels of every nest; a root that nobody reads is not written."""
    computed = {r.var for s in steps if isinstance(s, Nest) for r in s.roots}
    stored = (
        computed | {v for s in steps if isinstance(s, Call) for v in s.equation.outs} | set(program.inputs)
    )
    needed = {y for y in program.outputs if isinstance(y, Var)}
    needed |= {a for s in steps if isinstance(s, Call) for a in s.equation.args if isinstance(a, Var)}
    threads = device().threads
    nests = {i: s for i, s in enumerate(steps) if isinstance(s, Nest)}
    first = {i: grids(s, makers, stored, stored, constants, threads) for i, s in nests.items()}
    needed |= {v for found in first.values() for g in found for v in g.loads}
    kept = computed & needed
    found = {i: grids(s, makers, stored, kept, constants, threads) for i, s in nests.items()}
    return {i: [g for g in gs if g.stores] for i, gs in found.items()}
