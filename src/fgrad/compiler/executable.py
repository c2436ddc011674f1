"""Compiled programs: kernels and library calls in order, with buffers in one arena by liveness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from fgrad.compiler.cost import Cost, cost
from fgrad.compiler.layout import Buffer
from fgrad.compiler.listing import source, titles
from fgrad.compiler.pairs import as_pairs, is_pair
from fgrad.compiler.plan import ALIGN, Plan, Python, Segment, Shared
from fgrad.compiler.rolling import rolled
from fgrad.compiler.simplify import simplify
from fgrad.compiler.speculation import speculative_program
from fgrad.core.aval import Aval, aval_of
from fgrad.core.control_flow import PLAIN
from fgrad.core.notes import Notes, noting
from fgrad.core.observers import observed_primitives
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.process import RarelyCollecting
from fgrad.core.program import Program, Var, applied, unexpected
from fgrad.core.rewriting.effects import communicates
from fgrad.core.rewriting.liveness import with_programs
from fgrad.core.trace import running
from fgrad.kernels import checks, entry, intrinsics, native, stacks, threads, vm
from fgrad.locks import lazy

OUTSIDE = (
    "an index array in a compiled function holds an index that is out of bounds, or a Python integer "
    "computed there does not fit the dtype of the array that it meets"
)
NO_MEMORY = (
    "there is no memory left for the residuals that a loop of a compiled function keeps of each step. "
    "`scan` with `checkpoint=True` keeps fewer and recomputes the others"
)
REFUSED = (
    "a matrix in a compiled function is not positive definite, or singular, to rounding, or it holds NaN"
)
RAISED = (
    "a kernel that a compiled function calls raised an exception: call it outside of `jit`, with the same "
    "arguments, to see which"
)
DOUBTS = 3  # failed speculations in a row, after which it is given up
RELEASE = 100_000  # elements times operations of a program that lets other threads run meanwhile


class Executable:
    """A program ready to run on plain arrays.

    Where that saves enough, what runs first is a speculative program, which also tells whether its results
    may be wrong; if so, `program` itself runs, compiled then.

    Args:
        program: to be compiled.
        name: what to call it.
        speculative: whether there may be a speculative program.
        donated: inputs in whose memory outputs may be computed; then nothing is speculative.
        kept: of the program of one operation, how many bytes of scratch memory, at most, stay for the next
            call; profiles do not look into it.
    """

    is_speculative: bool

    def __init__(
        self,
        program: Program,
        name: str = "",
        *,
        speculative: bool = True,
        donated: frozenset[int] = frozenset(),
        kept: int | None = None,
    ) -> None:
        self.name = name
        self.program: Program = lowered(rolled(program))
        fast = speculative_program(self.program) if speculative and not donated else None
        plan = Plan(fast or self.program, name, doubts=int(fast is not None), donated=donated)
        if any(np.any(doubt) for doubt in plan.doubts if not isinstance(doubt, Var)):  # it is always wrong
            fast, plan = None, Plan(self.program, name, donated=donated)
        self.is_speculative, self._plan = fast is not None, plan
        self._plan.marks = [
            m._replace(step=_with_compiled(m.step)) if isinstance(m.step, Python) else m
            for m in self._plan.marks
        ]
        self._doubts = [plan.outputs.index(v) for v in plan.doubts if isinstance(v, Var)]
        self._doubted = 0  # times in a row
        self._keeps = kept is None or self._plan.size <= kept
        self._is_operation = kept is not None
        self._free: list[_Context] = []
        self._free_apart: list[_Context] = []  # of nests and calls one by one

    def run(
        self, leaves: Sequence[Any], out: np.ndarray[Any, Any] | None = None
    ) -> list[np.ndarray[Any, Any]]:
        """Return new arrays of the outputs for arrays of the inputs.

        Args:
            leaves: the inputs.
            out: an array of the shape and dtype of the first output, contiguous and apart from the inputs,
                which that may be computed in: whoever asks has to see whether it was returned.

        Raises:
            IndexError: an index is out of bounds.
            LinAlgError: a matrix is singular, or not positive definite.
            MemoryError: there is no memory for what a loop keeps of each step.
            RuntimeError: a kernel of the user's raised, and cannot be asked once more; else what it raised.
        """
        if self._doubted >= DOUBTS:
            return self.plain.run(leaves)
        plan = self._plan
        ins = [
            np.ascontiguousarray(x, v.aval.dtype).reshape(v.aval.shape)
            for v, x in zip(plan.inputs, leaves, strict=True)
        ]
        first = plan.results[0] if out is not None else None
        outs = [
            out if k == first and out is not None else np.empty(v.aval.shape, v.aval.dtype)
            for k, v in enumerate(plan.outputs, len(ins))
        ]
        notes = noting() if observed_primitives and not self._is_operation else None
        if notes is None or not notes.apart:
            for k, j in plan.donations.items():
                outs[k] = _given(leaves, j, outs[k])
        if notes is not None and notes.apart:
            self._run_steps(self._free_apart, ins, outs, notes)
        elif self.entry is None or self.entry.call(*ins, *outs) is not None:
            self._run_steps(self._free, ins, outs)
        if plan.has_faults and outs[-1]:
            if self.is_speculative:  # the index may be wrong where speculation failed
                return self.plain.run(leaves)
            if outs[-1] == vm.EXHAUSTED:
                raise MemoryError(NO_MEMORY)
            found = self._again(ins)
            if int(outs[-1]) not in {vm.REFUSED, vm.RAISED}:
                raise IndexError(OUTSIDE)
            if found is None:
                raise LinAlgError(REFUSED) if outs[-1] == vm.REFUSED else RuntimeError(RAISED)
            return found
        if any(outs[k] for k in self._doubts):
            self._doubted += 1
            return self.plain.run(leaves)
        self._doubted = 0
        return [self._result(i, ins, outs) for i in range(len(plan.results))]

    def _again(self, ins: Sequence[Any]) -> list[np.ndarray[Any, Any]] | None:
        """Return what NumPy computes, which says what is wrong; None if it cannot be asked once more."""
        if communicates(self.program) or self._plan.donations:  # others take no part; operands have changed
            return None
        with running(()), np.errstate(all="ignore"):
            return [np.array(getattr(y, "_value", y)) for y in self.program.run(ins)]

    def _run_steps(
        self, free: list[_Context], ins: Sequence[Any], outs: Sequence[Any], notes: Notes | None = None
    ) -> None:
        """Run step by step from Python; `notes` hear of each nest and call."""
        try:
            context = free.pop()
        except IndexError:  # asked for, not tested: another thread may take the last one in between
            context = _Context(self._plan, apart=notes is not None)
        try:
            if context.is_compiled:
                context.run(ins, outs, notes)
            else:
                with running(()), np.errstate(all="ignore"):
                    context.run(ins, outs, notes)
        finally:
            if self._keeps:
                free.append(context)

    @lazy
    def plain(self) -> Executable:
        """What runs where speculation failed."""
        return Executable(self.program, self.name, speculative=False)

    def _result(
        self, i: int, ins: Sequence[np.ndarray[Any, Any]], outs: Sequence[np.ndarray[Any, Any]]
    ) -> np.ndarray[Any, Any]:
        """Return an output as an array of its own."""
        plan = self._plan
        k = plan.results[i]
        if k is None:
            return np.array(plan.program.outputs[i])
        if k < len(ins):
            return np.array(ins[k])
        if k - len(ins) >= len(outs):
            buffer = plan.slots[k]
            return np.array(buffer and buffer.array)
        return outs[k - len(ins)] if k not in plan.results[:i] else np.array(outs[k - len(ins)])

    @lazy
    def entry(self) -> entry.Context | None:
        """The native entry, which takes the inputs and arrays for the outputs, where the table is all."""
        plan = self._plan
        if not (plan.is_native and entry.is_available()):
            return None
        specs = [
            entry.Spec(
                k, v.aval.dtype, v.aval.shape, written=k >= len(plan.inputs), weak=k < len(plan.inputs)
            )
            for k, v in enumerate((*plan.inputs, *plan.outputs))
        ]
        return entry.Context(specs, plan.table, plan.places(), scratch=plan.size, release=plan.work > RELEASE)

    @property
    def checks(self) -> list[int]:
        """Which of the arrays that are made are zero unless something failed, or results may be wrong."""
        faults = [len(self._plan.outputs) - 1] if self._plan.has_faults else []
        return [*self._doubts, *faults]

    @property
    def ins(self) -> list[Aval]:
        """The avals of the inputs."""
        return [v.aval for v in self._plan.inputs]

    @property
    def outs(self) -> list[Aval]:
        """The avals of the arrays that are made."""
        return [v.aval for v in self._plan.outputs]

    @property
    def results(self) -> list[int | None]:
        """Which of these arrays each output is, where `is_direct`; None: a number that is always the same."""
        return [None if k is None else k - len(self._plan.inputs) for k in self._plan.results]

    @property
    def constants(self) -> dict[int, np.ndarray[Any, Any]]:
        """The outputs that are numbers which are always the same."""
        outputs = self._plan.program.outputs
        return {i: np.array(outputs[i]) for i, k in enumerate(self._plan.results) if k is None}

    @property
    def is_direct(self) -> bool:
        """Whether every output is one of the arrays that are made, each once, or a number that is known."""
        made = sorted([*(k for k in self.results if k is not None), *self.checks])
        return bool(made) and made == list(range(len(self.outs)))

    @property
    def source(self) -> str:
        """The steps in order, and every kernel under a comment that says what it computes."""
        return source(self._plan, self.name)

    def cost(self) -> Cost:
        """Return what a call takes."""
        return cost(self._plan)

    def __repr__(self) -> str:
        ins, outs = (", ".join(map(str, avals)) for avals in (self.ins, self.outs))
        return f"<Executable of {self.name or 'a program'}: {ins} -> {outs}; {self.cost()}>"


def lowered(program: Program) -> Program:
    """Return the program that is laid out: with plain loops and branches, and simplified."""
    given = program.inputs
    for lower in {f: None for e in program.equations if (f := PRIMITIVES[e.name].lower)}:
        program = lower(program, simplify)
    for v, old in zip(program.inputs, given, strict=True):
        v.rename(old.name)
    return simplify(program)


def compile(program: Program, name: str = "", donated: frozenset[int] = frozenset()) -> Executable:
    """Return the program ready to run; `name` is what to call it."""
    with RarelyCollecting():
        return Executable(program, name, donated=donated)


def _given(leaves: Sequence[Any], j: int, new: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a donated array itself where it can be written to, else `new` with its elements."""
    x = leaves[j]
    if x.dtype == new.dtype and x.flags.c_contiguous and x.flags.writeable and x.flags.aligned:
        others = (y for i, y in enumerate(leaves) if i != j)
        if not any(isinstance(y, np.ndarray) and np.may_share_memory(x, y) for y in others):
            return x  # type: ignore[no-any-return]
    new[...] = x
    return new


class _Compiled(Program):
    """A program inside of a loop or branch that Python goes through, compiled when it first runs."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.inputs, program.equations, program.outputs, (None, None))
        self._plain = program

    @lazy
    def executable(self) -> Executable:
        """What runs it."""
        return Executable(self._plain, speculative=False)

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the output leaves for arrays of the input leaves."""
        return self.executable.run([getattr(x, "_value", x) for x in leaves])


def _with_compiled(step: Python) -> Python:
    """Return the call of a primitive, of a loop or branch with its programs compiled."""
    e = step.equation
    if not isinstance(e.params.get("code"), PLAIN):
        return step
    return step._replace(equation=with_programs(e, _Compiled))


class _Context:
    """The steps of a plan, and the memory of one call at a time; `apart` cuts them into nests and calls."""

    def __init__(self, plan: Plan, *, apart: bool = False) -> None:
        self.plan = plan
        self.scratch = checks.Scratch(plan.size, ALIGN)
        if apart:  # who measures shall not find pages that the system has yet to give
            self.scratch.memory.fill(0)
        words = stacks.empty(sum(b is not None and b.is_stack for b in plan.slots))
        stacks.free_with(self, words)
        rows = iter(words)
        arena = self.scratch.memory
        self.arrays = [next(rows) if b and b.is_stack else _array(b, arena) for b in plan.slots]
        self.interpreted = native.interpreted()
        if self.interpreted:
            self.slots: Any = intrinsics.Slots(self.arrays)
        else:
            self.slots = checks.addresses(self.arrays)
        self.initial = None if self.interpreted else self.slots.copy()
        self.words, self.interpreter = plan.table.words, vm.interpreter(plan.table)
        self.complex = [k for k, v in enumerate((*plan.inputs, *plan.outputs)) if is_pair(v.aval)]
        self.titles = titles(plan) if apart else []
        pieces = list(plan.pieces(apart=apart))
        self.is_compiled = not self.interpreted and not any(isinstance(s, Python) for _, s in pieces)
        self.steps = [(i, self._step(s)) for i, s in pieces]

    def run(
        self,
        ins: Sequence[np.ndarray[Any, Any]],
        outs: Sequence[np.ndarray[Any, Any]],
        notes: Notes | None = None,
    ) -> None:
        """Compute the outputs from the inputs, which are contiguous; `notes` run each step if given."""
        if self.interpreted:
            self.slots.__init__(self.arrays)
        else:
            self.slots[:] = self.initial
        given = [*ins, *outs]
        for k in self.complex:
            given[k] = as_pairs(given[k])
        for k, x in enumerate(given):
            self.arrays[k] = x
            if self.interpreted:
                self.slots[k] = x
            else:
                checks.hold(self.slots, k, x)
        try:
            for i, step in self.steps:
                if notes:
                    title, line, size = self.titles[i] if i >= 0 else ("checks", "", 0)
                    notes.kernel(title, line, step, size)
                else:
                    step()
                if self.plan.has_faults and outs[-1]:
                    break
            self.scratch.look()
        finally:
            self.arrays[: len(ins) + len(outs)] = [None] * (len(ins) + len(outs))

    def _step(self, step: Segment | Shared | Python) -> Callable[[], None]:
        slots, words = self.slots, self.words
        if isinstance(step, Segment):
            return partial(vm.call, self.interpreter, words, slots, step.start, step.stop)
        if isinstance(step, Shared):
            loop = vm.Loop(step.kernel, step.numbers, slots)
            return partial(threads.share, loop, (), step.turns, step.elements)
        return partial(self._run_primitive, step)

    def _run_primitive(self, step: Python) -> None:
        primitive, arrays = PRIMITIVES[step.equation.name], self.arrays
        values = [a[0] if isinstance(a, tuple) else arrays[a] for a in step.args]
        found = applied(primitive, values, step.equation.params)
        for k, v, y in zip(step.outs, step.equation.outs, found if primitive.many else (found,), strict=True):
            y = np.asarray(getattr(y, "_value", y))  # noqa: PLW2901 -- the array under a Tensor
            if type(v.aval) is not Aval and y.shape[1:] == v.aval.shape[1:] and y.dtype == v.aval.dtype:
                arrays[k] = y  # as many as a loop made, which only Python goes through
            elif y.shape == v.aval.shape and np.can_cast(y.dtype, v.aval.dtype, "equiv"):
                np.copyto(arrays[k], y)  # in either order of bytes
            else:
                raise unexpected(primitive, aval_of(y), v.aval)


def _array(buffer: Buffer | None, arena: np.ndarray[Any, Any]) -> Any:
    if buffer is None or buffer.array is not None:
        return buffer and buffer.array
    part = arena[buffer.start : buffer.start + buffer.size]
    return part if buffer.aval is None else part.view(buffer.aval.dtype).reshape(buffer.aval.shape)
