"""Memory layout, on the CPU and on devices: lifetimes, offsets in an arena, loops and branches.

Buffers of a block share one arena: where one lives no other does. The blocks inside of a loop or branch lie
in the arena of the block around it, for as long as that runs.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from fgrad.compiler.decompose import Plain, decompose
from fgrad.compiler.fuse import Call, Nest, fuse
from fgrad.core import control_flow
from fgrad.core.aval import Aval, aval_of
from fgrad.core.program import Equation, Program, Var, aval_out

Key = TypeVar("Key")


class Buffer:
    """Memory of the arena: `offset` is known when everything has been laid out."""

    __slots__ = ("array", "aval", "base", "is_stack", "offset", "size", "slot")

    def __init__(self, size: int, aval: Aval | None = None) -> None:
        self.size: int = size
        self.aval: Aval | None = aval
        self.offset: int = 0
        self.slot: int = -1
        self.base: Buffer | None = None  # the buffer inside of which it lies
        self.array: Any = None  # of a constant
        self.is_stack: bool = False

    @property
    def start(self) -> int:
        """Where it begins in the arena."""
        return self.offset + (self.base.start if self.base else 0)


def aligned(size: int, align: int) -> int:
    """Return a number of bytes rounded up."""
    return -(-size // align) * align


def packed(
    lives: Mapping[Key, tuple[int, int]], sizes: Mapping[Key, int], align: int
) -> tuple[dict[Key, int], int]:
    """Return where each buffer begins, so that those that live at one time lie apart, and the bytes in all.

    First fit, in the order in which lives begin.

    Args:
        lives: the first and the last step that touches each.
        sizes: their bytes.
        align: of what every place is a multiple.
    """
    offsets: dict[Key, int] = {}
    live: list[tuple[int, int, int]] = []  # start, stop, last step
    total = 0
    for v in sorted(lives, key=lambda v: lives[v][0]):
        first, last = lives[v]
        live = [x for x in live if x[2] >= first]
        size = aligned(sizes[v], align)
        start = 0
        for begin, stop, _ in sorted(live):
            if begin - start >= size:
                break
            start = max(start, stop)
        live.append((start, start + size, last))
        total = max(total, start + size)
        offsets[v] = start
    return offsets, total


def lifetimes(touched: Iterable[Iterable[Key]]) -> dict[Key, tuple[int, int]]:
    """Return the first and the last step that touches each value."""
    lives: dict[Key, tuple[int, int]] = {}
    for i, step in enumerate(touched):
        for v in step:
            lives[v] = (lives.get(v, (i, i))[0], i)
    return lives


def variables(e: Equation) -> list[Var]:
    """Return the variables that an equation reads and makes."""
    return [v for v in (*e.args, *e.outs) if isinstance(v, Var)]


def heirs(steps: Sequence[Any]) -> dict[Var, Var]:
    """Return what lies where another value will, if not in the kernel that makes both."""
    found: dict[Var, Var] = {}
    for step in reversed(steps):
        if isinstance(step, Nest):
            own = {r.var for r in step.roots}
            found |= {v: found.get(r, r) for v, r in step.shared.items() if v not in own}
    return found


def dying(
    steps: Sequence[Any], loads: Mapping[int, Collection[Var]], given: Iterable[Var], kept: Container[Any]
) -> dict[int, list[Var]]:
    """Return for each nest what was `given` or made before it, is read there last, and is not `kept`."""
    made: dict[Var, int] = dict.fromkeys(given, -1)
    last: dict[Var, int] = {}
    for i, step in enumerate(steps):
        outs = step.equation.outs if isinstance(step, Call) else [r.var for r in step.roots]
        made |= dict.fromkeys(outs, i)
        read: Iterable[Var] = variables(step.equation) if isinstance(step, Call) else loads[i]
        last |= dict.fromkeys(read, i)
    found: dict[int, list[Var]] = {i: [] for i in loads}
    for v, at in made.items():  # their order decides who is whose heir: `loads` have none
        i = last.get(v, at)
        if i in found and at < i and v not in kept:
            found[i].append(v)
    return found


class Plan:
    """A program laid out: its inputs and outputs, and the slots of what arrays there are when it runs."""

    align: int  # of what the place of a buffer is a multiple
    vectors: bool = True  # whether kernels are for a processor with vectors
    donations: dict[int, int]  # output -> the input in whose memory it lies

    def __init__(self, plain: Plain) -> None:
        self.slots: list[Buffer | None] = []  # None for those of arguments
        self.constants: dict[int, Buffer] = {}
        self.program: Program = plain.program
        self.inputs: list[Var] = [v for v in plain.program.inputs if v not in plain.constants]
        self.outputs: list[Var] = computed(plain.program)

    def donate(self, block: Block) -> None:
        """Note which outputs lie in the memory of inputs."""
        heir = block.heirs
        self.donations = {self.outputs.index(heir[v]): i for i, v in enumerate(self.inputs) if v in heir}

    def plain(self, program: Program) -> Plain:
        """Return a program with its composite primitives written out."""
        return decompose(program)

    def argument(self) -> int:
        """Return a slot that is filled when the program runs."""
        self.slots.append(None)
        return len(self.slots) - 1

    def slot(self, buffer: Buffer) -> int:
        """Return the slot of a buffer."""
        if buffer.slot < 0:
            self.slots.append(buffer)
            buffer.slot = len(self.slots) - 1
        return buffer.slot

    def constant(self, x: np.ndarray[Any, Any]) -> int:
        """Return the slot of a constant array."""
        if id(x) not in self.constants:
            self.constants[id(x)] = Buffer(0, aval_of(x))
            self.constants[id(x)].array = x
        return self.slot(self.constants[id(x)])


class Block:
    """A program inside of a plan.

    Args:
        plan: to which it belongs.
        plain: the program, decomposed.
        known: the slots of inputs and outputs.
        free: outputs whose memory is there from the start, so that other values may lie in it.
    """

    steps: list[Nest | Call]
    heirs: dict[Var, Var]

    def __init__(self, plan: Any, plain: Plain, known: dict[Any, int], free: Iterable[Var] = ()) -> None:
        self.plan: Any = plan
        self.plain: Plain = plain
        self.known: dict[Any, int] = known
        known |= {v: plan.constant(x) for v, x in plain.constants.items()}
        self.bound: set[Any] = known.keys() - set(free)  # what has a slot, and is not free
        self.steps, self.makers = fuse(plain.program, plain.constants, vectors=plan.vectors)
        self.nests = {i: s for i, s in enumerate(self.steps) if isinstance(s, Nest)}
        self.calls = {i: s.equation for i, s in enumerate(self.steps) if isinstance(s, Call)}
        self.inner: dict[int, Any] = {}  # loops and branches, by the number of their step
        self.buffers: list[Buffer] = []  # that lie in the arena of this block

    def share(
        self,
        loads: Mapping[int, Collection[Var]],
        apart: set[Var],
        donated: Collection[Var],
        alone: Container[int],
    ) -> set[Var]:
        """Let nests write where values lie that die in them; return what anybody needs.

        Args:
            loads: what the kernels of each nest read.
            apart: values whose place something else than kernels decides.
            donated: inputs in whose memory outputs may lie.
            alone: the nests that may: one kernel after the other would read what the first has overwritten.
        """
        outputs = {y for y in self.plain.program.outputs if isinstance(y, Var)}
        asked = {*outputs, *self.plain.checks}
        asked.update(a for e in self.calls.values() for a in e.args if isinstance(a, Var))
        needed = asked.union(*loads.values())
        lasting = {*outputs, *self.plain.checks, *apart, *self.bound.difference(donated)}
        last = dying(self.steps, loads, donated, lasting)
        free = needed - apart - self.bound
        for i, nest in self.nests.items():
            if i in alone:
                outside = asked.union(*(vs for k, vs in loads.items() if k != i))
                own = {r.var for r in nest.roots if r.var in needed and r.var not in outside}
                nest.share(own, {v: free & outputs if v in donated else free for v in last[i]})
        self.heirs = heirs(self.steps)
        return needed

    def of_kernels(self, i: int) -> Iterable[Any]:
        """Return the buffers of the kernels of a nest."""
        raise NotImplementedError

    def made(self, v: Any) -> Buffer:
        """Return memory for a value."""
        raise NotImplementedError

    def touched(self) -> list[list[Any]]:
        """Return what each step reads and makes."""
        found: list[list[Any]] = []
        for i, s in enumerate(self.steps):
            arenas = [self.inner[i].arena] if i in self.inner else []
            found.append([*variables(s.equation), *arenas] if isinstance(s, Call) else [*self.of_kernels(i)])
        return found

    def place(self) -> int:
        """Give every buffer its place; return how many bytes they take."""
        touched = [[self.heirs.get(v, v) for v in vs] for vs in self.touched()]
        lives = {v: life for v, life in lifetimes(touched).items() if v not in self.known}
        buffers = {v: v if isinstance(v, Buffer) else self.made(v) for v in lives}
        offsets, size = packed(lives, {v: b.size for v, b in buffers.items()}, self.plan.align)
        for v, b in buffers.items():
            b.offset = offsets[v]
            self.buffers.append(b)
            if b is not v:
                self.known[v] = self.plan.slot(b)
        self.known |= {v: self.known[r] for v, r in self.heirs.items() if v not in self.known}
        return size


def computed(program: Program) -> list[Var]:
    """Return the outputs that are not inputs as they are, each once."""
    found = {y: None for y in program.outputs if isinstance(y, Var) and y not in program.inputs}
    return list(found)


# ---- loops and branches -------------------------------------------------------------------------


class Inner:
    """Blocks inside of a block, and the memory they take."""

    def __init__(self, plan: Any, equation: Equation) -> None:
        self.plan: Any = plan
        self.equation: Equation = equation
        self.arena: Buffer = Buffer(0)
        self.blocks: list[Any] = []

    def buffer(self, aval: Aval) -> int:
        """Return the slot of a new buffer."""
        made = Buffer(aval.size * aval.dtype.itemsize, aval)
        made.base, made.offset = self.arena, self.arena.size
        self.arena.size += aligned(made.size, self.plan.align)
        return int(self.plan.slot(made))

    def block(
        self, program: Program, slots: Sequence[int], outs: Sequence[int]
    ) -> list[tuple[int, int, int]]:
        """Add the block of `program`; return which slots have to be copied to `outs` when it has run."""
        plain = self.plan.plain(program)
        known = dict(zip((v for v in plain.program.inputs if v not in plain.constants), slots, strict=True))
        copies = []
        for y, slot in zip(plain.program.outputs, outs, strict=True):
            if isinstance(y, Var) and y not in known and y not in plain.constants:
                known[y] = slot
            else:
                copies.append((y, slot))
        made = self.plan.nested(plain, known)
        for buffer in made.buffers:
            buffer.base = self.arena
            buffer.offset += self.arena.size
        self.arena.size += made.size
        self.blocks.append(made)
        found = []
        for y, slot in copies:
            source = made.known[y] if isinstance(y, Var) else self.plan.constant(np.asarray(y))
            aval = aval_out(y)
            found.append((slot, source, aval.size * aval.dtype.itemsize))
        return found

    def given(self, block: Any, a: Any, aval: Aval) -> int:
        """Return the slot of an argument of the equation."""
        return block.known[a] if isinstance(a, Var) else int(self.plan.constant(np.asarray(a, aval.dtype)))


class Repeated(Inner):
    """A block, the last one, that turns what it carries into what it carries on."""

    copies: list[tuple[int, int, int]]

    def __init__(self, plan: Any, equation: Equation) -> None:
        super().__init__(plan, equation)
        self.code: Any = equation.params["code"]
        n, m, body = self.code.consts, self.code.carry, self.code.body
        self.consts: list[int] = [plan.argument() for _ in body.inputs[:n]]
        self.carry: list[int] = [self.buffer(v.aval) for v in body.inputs[n : n + m]]
        self.next: list[int] = [self.buffer(v.aval) for v in body.inputs[n : n + m]]
        self.rows: list[int] = [plan.argument() for _ in body.inputs[n + m :]]
        self.ys: list[int] = [plan.argument() for _ in body.outputs[m:]]


class Loop(Repeated):
    """A scan: a block that is repeated along first axes."""

    def __init__(self, plan: Any, equation: Equation) -> None:
        super().__init__(plan, equation)
        slots = [*self.consts, *self.carry, *self.rows]
        self.copies = self.block(self.code.body, slots, [*self.next, *self.ys])


class While(Repeated):
    """A block that is repeated as long as another one says so."""

    def __init__(self, plan: Any, equation: Equation) -> None:
        super().__init__(plan, equation)
        code = self.code
        self.go: int = self.buffer(Aval((), np.dtype(bool)))
        slots = [*self.consts, *self.carry]
        self.asked: list[tuple[int, int, int]] = self.block(code.condition, slots, [self.go])
        self.copies = self.block(code.body, slots, [*self.next, *self.ys])


class Choice(Inner):
    """One of several blocks, by an integer."""

    def __init__(self, plan: Any, equation: Equation) -> None:
        super().__init__(plan, equation)
        programs = equation.params["code"].branches
        self.args: list[int] = [plan.argument() for _ in programs[0].inputs]
        self.outs: list[int] = [plan.argument() for _ in equation.outs]
        self.copies: list[list[tuple[int, int, int]]] = [
            self.block(p, self.args, self.outs) for p in programs
        ]


def stacks(equation: Equation) -> Sequence[Var]:
    """Return the outputs of a loop whose lengths are known when it has run."""
    code = equation.params.get("code")
    if isinstance(code, control_flow.While) or (isinstance(code, control_flow.Scan) and code.length is None):
        return equation.outs[code.carry :]
    return ()


def is_alike(equation: Equation) -> bool:
    """Return whether the branches of a choice take and return arrays of the same avals."""
    programs = equation.params["code"].branches
    avals = [v.aval for v in equation.outs]
    return all(
        [v.aval for v in p.inputs] == [v.aval for v in programs[0].inputs]
        and list(map(aval_out, p.outputs)) == avals
        for p in programs
    )
