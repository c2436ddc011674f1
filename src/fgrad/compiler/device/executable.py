"""Programs ready to run on a device: launched step by step, or small ones replayed as a CUDA graph.

The first calls launch step by step. Then a small program is recorded once as a graph, over the same arena,
and a call copies its arguments to memory that the graph knows, launches it, and copies the results out;
FGRAD_CUDA_GRAPHS=0, or a step that has to be waited for, keeps the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from fgrad import config
from fgrad.backend.array import Device, DeviceArray
from fgrad.compiler.device.plan import Launch, LibraryCall, Plan, launches, within
from fgrad.compiler.device.runtime import Context, as_argument, fresh, owned
from fgrad.compiler.device.statements import Grid
from fgrad.compiler.executable import lowered
from fgrad.core.aval import Aval, aval_of
from fgrad.core.program import Program, Var, aval_out
from fgrad.core.trace import running

WARM = 2  # calls before a graph is recorded: many programs run once
NODES = 2000  # launches of a program, at most: a graph of more takes memory and time to make
SMALL = 2**22  # bytes of arguments and results: to copy more takes longer than to launch step by step


class DeviceExecutable:
    """A program ready to run on arrays of one device.

    Args:
        program: to be compiled.
        place: the device.
        donated: inputs in whose memory outputs may be computed.
        kept: bytes of the largest arena that stays for the next call; None: of whatever size.
    """

    program: Program
    entry = None
    is_direct = True
    checks: tuple[int, ...] = ()
    constants: dict[int, Any] = {}  # noqa: RUF012 -- none of the outputs: all are arrays on the device

    def __init__(
        self,
        program: Program,
        place: Device,
        donated: frozenset[int] = frozenset(),
        *,
        kept: int | None = None,
    ) -> None:
        self.place = place
        self.ins: list[Aval] = [v.aval for v in program.inputs]
        self.outs: list[Aval] = list(map(aval_out, program.outputs))
        self.results: range = range(len(self.outs))
        program, self._held = _without_arrays(program)
        self.plan: Plan = Plan(lowered(program), place, donated)
        self._calls = 0
        self._pays = _pays(self.plan)
        self._stays = kept is None or self.plan.size <= kept
        self._free: dict[int, list[_Memory]] = {}  # by stream: what is launched on one runs in order

    def run(self, leaves: Sequence[Any]) -> list[DeviceArray]:
        """Return new arrays of the outputs for arrays of the inputs; donated ones may be among them.

        Raises:
            TypeError: an array is on another device.
        """
        with running(()), np.errstate(all="ignore"):
            made = self.place.call(self._run, (*leaves, *self._held))
        return [DeviceArray(y, self.place) for y in made]

    def _run(self, leaves: Sequence[Any]) -> list[Any]:
        plan, place = self.plan, self.place
        ins = [as_argument(place, x, v.aval) for v, x in zip(plan.inputs, leaves, strict=True)]
        self._calls += 1
        free = self._free.setdefault(place.library.stream(), [])
        try:
            memory = free.pop()
        except IndexError:  # asked for, not tested: another thread may take the last one in between
            memory = _Memory(plan, place)
        try:
            donated = {k: self._lent(ins, j) for k, j in plan.donations.items()}
            outs = fresh(memory.context, donated)
            if self._pays and self._calls > WARM and config.cuda_graphs() and memory.replays(ins):
                return memory.replayed(ins, outs)
            return owned(memory.context, ins, outs)
        finally:
            if self._stays:
                free.append(memory)
            else:
                memory.context.steps.clear()  # which know the context: nobody waits for a cycle to be found

    def _lent(self, ins: Sequence[Any], j: int) -> Any:
        """Return the memory of a donated argument; a copy where another argument reads it too."""
        shares, x = self.place.library.overlaps, ins[j]
        return x.copy() if any(shares(x, y) for i, y in enumerate(ins) if i != j) else x

    @property
    def grids(self) -> list[Grid]:
        """The kernels, in order."""
        return [s.grid for s in within(self.plan.steps) if isinstance(s, Launch)]

    @property
    def source(self) -> str:
        """The steps in order, and every kernel under what it stores."""
        parts = [f"# an arena of {self.plan.size:,} bytes for temporaries of {self.plan.total:,}"]
        for s in within(self.plan.steps):
            if isinstance(s, Launch):
                parts.append(f"# {', '.join(map(str, s.grid.stores))}\n{s.grid.text}")
            else:
                parts.append(f"# {s.equation if isinstance(s, LibraryCall) else type(s).__name__}")
        return "\n\n".join(parts)


class _Memory:
    """A context, and once it is recorded, the graph over it with the arrays that it reads and writes."""

    def __init__(self, plan: Plan, place: Device) -> None:
        self.plan, self.place = plan, place
        self.context = Context(plan, place)
        self._replay: Callable[[], list[Any]] | None = None
        self._tried = False
        self._ins: list[Any] = []

    def replays(self, ins: Sequence[Any]) -> bool:
        """Return whether there is a graph; it is recorded the first time, with the arguments `ins`."""
        if not self._tried:
            self._tried = True
            self._ins = [x.copy() for x in ins]
            outs = fresh(self.context, {k: self._ins[j] for k, j in self.plan.donations.items()})
            self._replay = self.place.library.recorded(partial(self.context.run, self._ins, outs))
        return self._replay is not None

    def replayed(self, ins: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        """Return the outputs, in `outs` where there is memory for them already."""
        assert self._replay is not None  # noqa: S101 -- asked before
        for target, x in zip(self._ins, ins, strict=True):
            target[...] = x
        made: list[Any] = []
        for y, slot in zip(self._replay(), self.plan.results, strict=True):
            k = slot - len(self.plan.inputs)
            own = outs[k] if 0 <= k < len(outs) else None
            if own is None or any(own is z for z in made):
                made.append(y.copy())
            else:
                own[...] = y
                made.append(own)
        return made


def _pays(plan: Plan) -> bool:
    """Return whether a graph saves launches: each argument and result takes a copy, which is one too."""
    avals = [v.aval for v in (*plan.inputs, *plan.outputs)]
    is_small = sum(a.size * a.dtype.itemsize for a in avals) <= SMALL
    count = launches(plan.steps)
    return is_small and count is not None and len(avals) < count <= NODES


def _without_arrays(program: Program) -> tuple[Program, list[DeviceArray]]:
    """Return the program with the arrays on devices that it holds as further inputs, and these."""
    found: dict[int, tuple[Var, DeviceArray]] = {}

    def operand(x: Any) -> Any:
        value = x if isinstance(x, Var) else getattr(x, "_value", x)
        if not isinstance(value, DeviceArray):
            return x
        return found.setdefault(id(value), (Var(aval_of(value), f"h{len(found)}"), value))[0]

    equations = [e.with_args(map(operand, e.args)) for e in program.equations]
    outputs = list(map(operand, program.outputs))
    if not found:
        return program, []
    inputs = [*program.inputs, *(v for v, _ in found.values())]
    regions = list(program.regions.values())
    made = Program(inputs, equations, outputs, (program.in_tree, program.out_tree), regions)
    return made, [x for _, x in found.values()]
