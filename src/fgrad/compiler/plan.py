"""The plan of a program: the place of every buffer, and the bytecode that computes it.

A block is a straight piece of a program: nests, products of matrices, loops and branches (which hold
blocks of their own), and calls of primitives that only Python computes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fgrad import locks
from fgrad.compiler import (
    contractions,  # noqa: F401 -- fills the rules of `decompose`
    dense_systems,  # noqa: F401 -- fills the library and the rules of `decompose`
    fourier,  # noqa: F401 -- fills the library
    indexing,  # noqa: F401 -- likewise, and the rules
    layout,
    matrices,  # noqa: F401 -- likewise
    matrix_loops,  # noqa: F401 -- likewise, the rules of `decompose`
    ordering,  # noqa: F401 -- likewise
    scans,  # noqa: F401 -- likewise
    windows,  # noqa: F401 -- likewise
)
from fgrad.compiler.decompose import Plain, decompose
from fgrad.compiler.emit import Emitter, Kernel, Part, combine
from fgrad.compiler.fuse import Call, Nest
from fgrad.compiler.layout import Buffer, variables
from fgrad.compiler.library import FAULTS, Launch, fails, is_idle, is_native, launch, pending
from fgrad.compiler.pairs import in_pairs, is_pair
from fgrad.compiler.written import written
from fgrad.core import control_flow
from fgrad.core.aval import Aval
from fgrad.core.program import Equation, Program, Var, aval_out
from fgrad.core.trace import place_of
from fgrad.kernels import entry, native, pool, stacks, threads, vm

ALIGN = 64  # bytes: a cache line
OPERATIONS = 8  # which take as long as an element takes to `threads.share`
LARGE = 2 * OPERATIONS * threads.ELEMENTS  # operations of a kernel: of fewer it leaves all to one thread
FOREVER = 2**62
MANY = 200  # operations, half of them of one line: a loop that was unrolled
WIDEST = 8  # bytes of an element, at most
STEPS = 1000  # of a loop of which nobody knows how many it makes: what its work is taken to be


class Segment(NamedTuple):
    """Part of the table that runs without a stop."""

    start: int
    stop: int


class Shared(NamedTuple):
    """A kernel whose loop threads share."""

    kernel: native.Kernel
    numbers: np.ndarray[Any, Any]
    turns: int
    elements: int


class Python(NamedTuple):
    """A primitive that Python computes."""

    equation: Equation
    args: tuple[Any, ...]  # slots, or constants as tuples of one
    outs: tuple[int, ...]  # slots


Step: TypeAlias = "Segment | Shared | Python"


class Mark(NamedTuple):
    """A place in the table where a nest or call begins, or a step comes that the table does not hold."""

    at: int
    number: int  # of the nest or call
    step: Shared | Python | None = None


class Rows(NamedTuple):
    """Where something lies that a loop goes through: in a buffer, or in the records of a stack."""

    slot: int
    offset: int
    step: int  # bytes
    is_stacked: bool = False


def _content(buffer: Buffer) -> np.ndarray[Any, Any] | slice | stacks.Stack:
    """Return what its slot holds at first: the array of a constant, a stack, or the place in the arena."""
    if buffer.is_stack:
        return stacks.STACK
    return slice(buffer.start, buffer.start + buffer.size) if buffer.array is None else buffer.array


def unrolled(equations: Sequence[Equation]) -> str:
    """Return what to say of a long program: which line a loop may have repeated; "" of others."""
    if len(equations) < MANY:
        return ""
    line, count = Counter(e.line for e in equations).most_common(1)[0]
    if count < MANY // 2:
        return ""
    return (
        f"{count} of {len(equations)} operations are of {place_of(line)}: a loop in Python was "
        "unrolled there; fgrad.lax.scan or fori_loop compiles one turn of it, and fgrad.kernel a function of "
        "loops over elements"
    )


class Plan(layout.Plan):
    """A program laid out: slots, arena, table, steps; where `has_faults`, the last output says what failed.

    Args:
        program: simplified, with plain loops and branches.
        name: what to call it.
        doubts: how many of its last outputs are no results, but true where the results may be wrong.
        alone: whether Python runs the steps; else the table holds all but what only Python computes.
        donated: inputs in whose memory outputs may lie: of which `donations` tells output -> input.
    """

    align = ALIGN

    def __init__(
        self,
        program: Program,
        name: str = "",
        *,
        doubts: int = 0,
        alone: bool = True,
        donated: Collection[int] = (),
    ) -> None:
        plain = decompose(in_pairs(written(program)))
        super().__init__(plain)
        self.kernels: list[Kernel] = []
        results = plain.program.outputs[: len(plain.program.outputs) - doubts]
        self.doubts: tuple[Any, ...] = plain.program.outputs[len(results) :]
        known = {v: self.argument() for v in (*self.inputs, *self.outputs)}
        self.faults: int = self.argument()
        self.block: Block = Block(self, plain, known, [self.inputs[i] for i in donated])
        self.donate(self.block)
        self._speak_of(program)
        self.size: int = self.block.size
        self.results: list[int | None] = [
            self.block.known[y] if isinstance(y, Var) else None for y in results
        ]
        large = alone and self.block.is_large()
        keys = [*entry.runtime(whole=self.block.is_native() and not large), *self.block.keys()]
        native.compiled_all(keys, name, unrolled(program.equations), pool.pool if large else None)
        self.table: vm.Assembler = vm.Assembler()
        self.work = 0
        self.marks: list[Mark] = []
        self.has_faults: bool = self.block.has_faults
        if self.has_faults:
            self.outputs.append(FAULTS)
            self.table.zero(self.faults, _bytes(FAULTS))
        self.block.write(self, alone=alone)

    def _speak_of(self, program: Program) -> None:
        """Let inputs and outputs be those of a program of complex numbers, which take pairs here."""
        given = zip(self.program.outputs, map(aval_out, program.outputs), strict=True)
        known = {v: Var(a, v.name) for v, a in given if isinstance(v, Var) and is_pair(a)}
        self.inputs = list(program.inputs)
        self.outputs = [known.get(v, v) for v in self.outputs]

    @locks.lazy
    def shares(self) -> bool:
        """Whether products that may be in pieces, for threads to share, are.

        They are where threads share something else: those of BLAS wait for the next product for a while, and
        would take the cores from these. Alone, BLAS is faster.
        """
        return self.block.shares()

    def stack(self) -> int:
        """Return the slot of a new stack."""
        made = Buffer(0)
        made.is_stack = True
        return self.slot(made)

    def places(self) -> list[np.ndarray[Any, Any] | slice | stacks.Stack | None]:
        """Return what each slot holds at first: an array, a place in the arena, a stack, or nothing."""
        return [None if b is None else _content(b) for b in self.slots]

    def nested(self, plain: Plain, known: dict[Var, int]) -> Block:
        """Return the block of a program inside of another one."""
        return Block(self, plain, known)

    def mark(self) -> tuple[int, int]:
        """Return where `restore` can return to."""
        return len(self.slots), len(self.kernels)

    def restore(self, mark: tuple[int, int]) -> None:
        """Forget the slots and kernels that have come since."""
        del self.slots[mark[0] :], self.kernels[mark[1] :]
        for key in [k for k, b in self.constants.items() if b.slot >= mark[0]]:
            del self.constants[key]

    def pieces(self, *, apart: bool) -> Iterator[tuple[int, Step]]:
        """Yield the steps, each with the number of the nest or call it is of, -1 for what comes before all.

        Args:
            apart: whether segments end where the next nest or call begins, for whoever measures these.
        """
        start, number = 0, -1
        for mark in (*self.marks, Mark(len(self.table), -1)):
            is_last = mark.number < 0
            if mark.at > start and (apart or mark.step or is_last):
                yield number, Segment(start, mark.at)
                start = mark.at
            if mark.step:
                yield mark.number, mark.step
            number = mark.number

    def apart(self, step: Shared | Python) -> None:
        """Let a step come next that the table does not hold."""
        self.marks.append(Mark(len(self.table), self.marks[-1].number, step))

    @property
    def steps(self) -> list[Step]:
        """What runs, in order."""
        return [step for _, step in self.pieces(apart=False)]

    @property
    def is_native(self) -> bool:
        """Whether the table is all there is."""
        return not any(mark.step for mark in self.marks)


class Block(layout.Block):
    """A program inside of a plan.

    Args:
        plan: to which it belongs.
        plain: the program, decomposed.
        known: the slots of inputs and outputs.
        donated: inputs in whose memory outputs may lie.
    """

    plan: Plan

    def __init__(self, plan: Plan, plain: Plain, known: dict[Var, int], donated: Sequence[Var] = ()) -> None:
        known[FAULTS] = plan.faults
        super().__init__(plan, plain, known, plan.outputs)  # the memory of a loop's is not always there
        self.kernels: dict[int, list[Kernel]] = self._kernels(donated)
        plan.kernels += [k for ks in self.kernels.values() for k in ks]
        self.inner: dict[int, Inner] = self._inner(self.calls)
        self.stacked: dict[Var, Rows] = {}
        self.size: int = self.place()

    def _kernels(self, donated: Sequence[Var]) -> dict[int, list[Kernel]]:
        """Return the kernels of each nest; a root that nobody reads is not written."""
        constants, makers = self.plain.constants, self.makers
        computed = {r.var for s in self.nests.values() for r in s.roots}
        stored = {*computed, *(v for e in self.calls.values() for v in e.outs), *self.plain.program.inputs}
        emitter = Emitter(makers, stored, constants)
        first = {i: emitter.kernel(s, computed) for i, s in self.nests.items()}
        apart = {v for e in self.calls.values() if not is_native(e) for v in variables(e)}
        kept = computed & self.share({i: k.loads for i, k in first.items()}, apart, donated, first)
        out: dict[int, list[Kernel]] = {}
        for i, k in first.items():
            if self.nests[i].shared or not k.stores <= kept:
                k = emitter.kernel(self.nests[i], kept)  # noqa: PLW2901 -- the same, written less
            if not k.stores:
                out[i] = []  # nobody reads any of it, now that views dissolved
                continue
            out[i] = [k, *(combine(p) for p in k.parts)] if k.turns > 1 else [k]
        return out

    def of_kernels(self, i: int) -> Iterable[Any]:
        """Return the buffers of the kernels of a nest."""
        return (_real(b, self.kernels[i]) for k in self.kernels[i] for b in k.buffers)

    def made(self, v: Any) -> Buffer:
        """Return memory for a value."""
        return Buffer(_bytes(v), v.aval if isinstance(v, Var) else None)

    def is_native(self) -> bool:
        """Whether the table alone can compute it."""
        return all(i in self.inner or is_native(e) for i, e in self.calls.items())

    def keys(self) -> Iterator[native.Key]:
        """Yield what has to be compiled for it, as of `native.compiled_all`."""
        for i, step in enumerate(self.steps):
            if i in self.inner:
                for block in self.inner[i].blocks:
                    yield from block.keys()
            elif isinstance(step, Nest):
                yield from ((k.text, "kernel") for k in self.kernels[i])
            else:
                yield from pending(step.equation)

    @property
    def has_faults(self) -> bool:
        """Whether something can fail in it."""
        inside = self.inner.values()
        return (
            bool(self.plain.checks)
            or any(i.record or any(b.has_faults for b in i.blocks) for i in inside)
            or any(map(fails, self.calls.values()))
        )

    def _inner(self, calls: dict[int, Equation]) -> dict[int, Inner]:
        """Return the loops and branches that the table can hold: of those that share a stack all or none."""
        stacks = {v for e in calls.values() for v in layout.stacks(e)}
        refused: set[int] = set()
        mark = self.plan.mark()
        while True:
            made = {i: control(self.plan, e) for i, e in calls.items() if i not in refused}
            found = {i: m for i, m in made.items() if m is not None}
            lost = {v for i, e in calls.items() if i not in found for v in variables(e)} & stacks
            lost |= {y for y in self.plain.program.outputs if isinstance(y, Var) and y in stacks}
            more = {i for i in found if not lost.isdisjoint(variables(calls[i]))}
            if not more:
                return found
            refused |= more
            self.plan.restore(mark)

    def write(self, plan: Plan, *, alone: bool = True) -> None:
        """Write the instructions; where it is not `alone`, everything goes to the table."""
        missing = set(self.plain.checks)
        for i, step in enumerate(self.steps):
            if plan.block is self:
                plan.marks.append(Mark(len(plan.table), i))
            if i in self.inner:
                self.inner[i].write(self)
            elif isinstance(step, Call):
                self._write_call(plan, step.equation, alone=alone)
            else:
                for k in self.kernels[i]:
                    self._write_kernel(plan, k, self.kernels[i], alone=alone)
            missing -= self._write_checks(plan, step)
        assert not missing  # noqa: S101 -- of reductions, which have memory, nothing is left out

    def _write_checks(self, plan: Plan, step: Any) -> set[Var]:
        """End the program where an index is out of bounds, as a loop that goes on might never end."""
        made = step.equation.outs if isinstance(step, Call) else [r.var for r in step.roots]
        found = {v for v in self.plain.checks if v in made}
        for v in self.plain.checks:
            if v in found:
                plan.table.halt_if(self.known[v], plan.faults)
        return found

    def _write_kernel(self, plan: Plan, k: Kernel, kernels: list[Kernel], *, alone: bool) -> None:
        compiled = native.compiled(k.text)
        numbers = [*(self.known[_real(b, kernels)] for b in k.buffers), *k.numbers]
        self._write_launch(plan, Launch(compiled, numbers, k.turns, k.work), alone=alone)

    def is_large(self) -> bool:
        """Return whether threads share nests; of calls of libraries this is known when they are compiled."""
        return any(k.work >= LARGE and k.turns > 1 for ks in self.kernels.values() for k in ks)

    def shares(self) -> bool:
        """Return whether threads share something that could not be in one piece."""
        calls = (launch(e, self.known) for i, e in self.calls.items() if i not in self.inner)
        large = (c for c in calls if c is not None and c.work >= LARGE and c.turns > 1)
        return self.is_large() or any(c.shared and c.whole is None for c in large)

    def _write_launch(self, plan: Plan, made: Launch, *, alone: bool) -> None:
        if made.whole is not None and not plan.shares:
            made = made._replace(numbers=made.whole[0], turns=made.whole[1], shared=False)
        if alone and made.shared and made.work >= LARGE and made.turns > 1 and not native.interpreted():
            numbers = np.array(made.numbers, np.int64)
            plan.apart(Shared(made.kernel, numbers, made.turns, made.work // OPERATIONS))
            return
        plan.work += made.work
        plan.table.call(made.kernel, made.numbers, 0, made.turns)

    def _write_call(self, plan: Plan, equation: Equation, *, alone: bool) -> None:
        if is_idle(equation):
            return
        made = launch(equation, self.known)
        if made is None:
            args = [self.known[a] if isinstance(a, Var) else (a,) for a in equation.args]
            plan.apart(Python(equation, tuple(args), tuple(self.known[v] for v in equation.outs)))
        else:
            self._write_launch(plan, made, alone=alone)
            if made.fails:
                plan.table.halt_if(plan.faults, plan.faults)


def _real(b: Any, kernels: list[Kernel]) -> Any:
    """Return the buffer of a part: the result itself where there is only one block."""
    return b.root.var if isinstance(b, Part) and len(kernels) == 1 else b


def _bytes(v: Any) -> int:
    if isinstance(v, Part):
        return v.count * v.blocks * v.root.var.aval.dtype.itemsize
    return int(v.aval.size * v.aval.dtype.itemsize)


# ---- loops and branches -------------------------------------------------------------------------


class Inner(layout.Inner):
    """Blocks inside of a block that the table runs."""

    plan: Plan
    blocks: list[Block]
    record: Record | None = None  # of what is stacked

    @property
    def is_native(self) -> bool:
        """Whether the table alone can compute it."""
        return all(b.is_native() for b in self.blocks)

    def write(self, block: Block) -> None:
        """Write the instructions into the table, for the block around it."""
        raise NotImplementedError

    def start(self, slot: int, rows: Rows, last: int | None = None) -> None:
        """Let a slot hold the address of the first row, or the last, whose number plus one is in `last`."""
        table = self.plan.table
        if rows.is_stacked:
            table.follow(slot, rows.slot)
        source = slot if rows.is_stacked else rows.slot
        if last is not None:
            table.index(slot, source, last, FOREVER, rows.step, offset=rows.offset - rows.step)
        else:
            table.view(slot, source, rows.offset)

    def copy(self, copies: Sequence[tuple[int, int, int]]) -> None:
        """Copy slots to slots."""
        for target, source, size in copies:
            if size:
                self.plan.table.copy(target, source, size)


class Record:
    """What a loop keeps of each step, side by side, in a stack."""

    def __init__(self, plan: Plan, avals: Sequence[Aval]) -> None:
        self.stack: int = plan.stack()
        self.offsets: list[int] = []
        self.size: int = 0
        for a in avals:
            self.size = -(-self.size // a.dtype.itemsize) * a.dtype.itemsize
            self.offsets.append(self.size)
            self.size += a.size * a.dtype.itemsize
        self.size = -(-self.size // WIDEST) * WIDEST

    def rows(self) -> list[Rows]:
        """Return where each lies."""
        return [Rows(self.stack, offset, self.size, is_stacked=True) for offset in self.offsets]


class Repeated(Inner, layout.Repeated):
    """A block that is repeated."""

    def turn(self) -> None:
        """Write one turn."""
        self.blocks[-1].write(self.plan, alone=False)
        self.copy(self.copies)
        for a, b in zip(self.carry, self.next, strict=True):
            self.plan.table.swap(a, b)

    def leave(self, block: Block) -> None:
        """Write what hands the last carry to the block around it."""
        for slot, y in zip(self.carry, self.equation.outs, strict=False):
            self.plan.table.copy(block.known[y], slot, _bytes(y))


class Loop(Repeated, layout.Loop):
    """A scan."""

    def __init__(self, plan: Plan, equation: Equation) -> None:
        super().__init__(plan, equation)
        code = self.code
        if code.length is None and self.ys:
            self.record = Record(plan, list(map(aval_out, code.body.outputs[code.carry :])))

    def write(self, block: Block) -> None:
        """Write the instructions into the table, for the block around it."""
        plan, table, code, outs = self.plan, self.plan.table, self.code, self.equation.outs
        n, m, length = code.consts, code.carry, code.length
        inputs, args = code.body.inputs, list(self.equation.args)
        counted = length is None
        steps = None
        if counted or code.reverse:
            steps = self.given(block, args.pop(0) if counted else length, FAULTS.aval)
        for slot, a, v in zip(self.consts, args, inputs, strict=False):
            table.view(slot, self.given(block, a, v.aval))
        for slot, a, v in zip(self.carry, args[n:], inputs[n:], strict=False):
            table.copy(slot, self.given(block, a, v.aval), _bytes(v))
        ways = []
        for a, v in zip(args[n + m :], inputs[n + m :], strict=True):
            whole = Aval((length or 0, *v.aval.shape), v.aval.dtype)
            ways.append(block.stacked[a] if counted else Rows(self.given(block, a, whole), 0, _bytes(v)))
        if self.record:
            table.zero(self.record.stack, _bytes(FAULTS))
            table.push(self.ys[0], self.record.stack, self.record.size, plan.faults, times_slot=steps)
            block.stacked.update(zip(outs[m:], self.record.rows(), strict=True))
        ways += [
            block.stacked[y] if counted else Rows(block.known[y], 0, _bytes(y) // length) for y in outs[m:]
        ]
        moves = []
        for slot, rows in zip((*self.rows, *self.ys), ways, strict=True):
            self.start(slot, rows, steps if code.reverse else None)
            moves.append((slot, -rows.step if code.reverse else rows.step))
        work, turns = plan.work, STEPS if counted else length
        with table.loop(
            0 if counted else length, [x for x in moves if x[1]], count_slot=steps if counted else None
        ):
            self.turn()
        plan.work = work + (plan.work - work) * turns
        self.leave(block)


class While(Repeated, layout.While):
    """A loop that goes on as long as its condition says so."""

    def __init__(self, plan: Plan, equation: Equation) -> None:
        super().__init__(plan, equation)
        if self.ys:
            self.record = Record(plan, list(map(aval_out, self.code.body.outputs[self.code.carry :])))

    def write(self, block: Block) -> None:
        """Write the instructions into the table, for the block around it."""
        plan, table, n, outs = self.plan, self.plan.table, self.code.consts, self.equation.outs
        inputs = self.code.body.inputs
        given = [self.given(block, a, v.aval) for a, v in zip(self.equation.args, inputs, strict=True)]
        for slot, source in zip(self.consts, given[:n], strict=True):
            table.view(slot, source)
        for slot, source, v in zip(self.carry, given[n:], inputs[n:], strict=True):
            table.copy(slot, source, _bytes(v))
        record = self.record
        if record:
            table.zero(record.stack, _bytes(FAULTS))
            block.stacked.update(zip(outs[self.code.carry :], record.rows(), strict=True))
        work = plan.work
        with table.loop(FOREVER):
            self.blocks[0].write(plan, alone=False)
            self.copy(self.asked)
            table.leave_if_not(self.go)
            if record:
                table.push(self.ys[0], record.stack, record.size, plan.faults)
                for slot, offset in zip(self.ys[1:], record.offsets[1:], strict=True):
                    table.view(slot, self.ys[0], offset)
            self.turn()
        plan.work = work + (plan.work - work) * STEPS
        self.leave(block)


class Choice(Inner, layout.Choice):
    """A branch."""

    def write(self, block: Block) -> None:
        """Write the instructions into the table, for the block around it."""
        table = self.plan.table
        index, *args = self.equation.args
        inputs = self.equation.params["code"].branches[0].inputs
        for slot, a, v in zip(self.args, args, inputs, strict=True):
            table.view(slot, self.given(block, a, v.aval))
        for slot, y in zip(self.outs, self.equation.outs, strict=True):
            table.view(slot, block.known[y])
        aval = aval_out(index)
        labels = [vm.Label() for _ in self.blocks]
        end = vm.Label()
        table.branch(self.given(block, index, aval), labels, aval.dtype.name)
        for label, own, copies in zip(labels, self.blocks, self.copies, strict=True):
            table.place(label)
            own.write(self.plan, alone=False)
            self.copy(copies)
            table.jump(end)
        table.place(end)


KINDS: dict[Any, Callable[[Plan, Equation], Inner]] = {
    control_flow.Scan: Loop,
    control_flow.While: While,
    control_flow.Branches: Choice,
}


def control(plan: Plan, equation: Equation) -> Inner | None:
    """Return the loop or branch that an equation is, if the table can hold it."""
    code = equation.params.get("code")
    found = KINDS.get(type(code))
    if found is None or not _is_plain(equation, code):
        return None
    mark = plan.mark()
    made = found(plan, equation)
    if made.is_native:
        return made
    plan.restore(mark)
    return None


def _is_plain(equation: Equation, code: Any) -> bool:
    """Return whether the shapes of everything are known, but for how many steps a loop makes."""
    avals = [v.aval for v in equation.outs]
    if any(a.dtype.char not in "?bhilqBHILQfdFDe" for a in avals):
        return False
    if isinstance(code, control_flow.Scan):
        if code.length is None:  # what it goes through has been stacked: a constant would not be as long
            count, *rows = equation.args[0], *equation.args[1 + code.consts + code.carry :]
            return aval_out(count) == FAULTS.aval and all(isinstance(a, Var) for a in rows)
        return code.length > 0 and not code.checkpoint
    if isinstance(code, control_flow.While):
        return True
    return layout.is_alike(equation)
