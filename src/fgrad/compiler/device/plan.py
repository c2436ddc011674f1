"""The plan of a program on a device: the place of every buffer, and the steps that compute it.

The places are found as on the CPU (`fgrad.compiler.layout`): temporaries share one arena, outputs have memory
of their own, and donated inputs lend theirs. What a library allocates itself (`solve`, `sort`, `fft`), and
what loops stack of which nobody knows how many steps they make, comes from the library's pool.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from fgrad.backend.array import Device, DeviceArray
from fgrad.compiler import layout
from fgrad.compiler.decompose import ON_DEVICE, Plain, decompose
from fgrad.compiler.device.grids import grids
from fgrad.compiler.device.scatter import Piece, Sort, Table, Zeros
from fgrad.compiler.device.statements import Grid, Scratch, dtype_of
from fgrad.compiler.fuse import Call
from fgrad.compiler.layout import Buffer, variables
from fgrad.core.aval import Aval
from fgrad.core.control_flow import Branches, Scan, While
from fgrad.core.primitive import CONTRACTION
from fgrad.core.program import Equation, Program, Var, aval_out
from fgrad.core.rewriting.liveness import eliminate
from fgrad.kernels import launching

ALIGN = 256  # bytes, as CUDA's own allocations
SORTING = 8  # launches of CuPy's sorting of places, at least; since its version 14 it does not wait for them


class Launch(NamedTuple):
    """A kernel, the slots of its buffers, and its grid."""

    grid: Grid
    slots: tuple[int, ...]
    blocks: int
    threads: int


class Matrix(NamedTuple):
    """An operand of a product: its slot, the order of its axes, and its shape as matrices then."""

    slot: int
    axes: tuple[int, ...]
    shape: tuple[int, ...]


class Product(NamedTuple):
    """A product of matrices into a buffer."""

    first: Matrix
    second: Matrix
    out: Matrix


class LibraryCall(NamedTuple):
    """A primitive that the library computes, in memory of its own."""

    equation: Equation
    args: tuple[Any, ...]  # slots, or constants as tuples of one
    outs: tuple[int, ...]
    written: frozenset[int]  # slots of results that belong into memory that is there
    dropped: tuple[int, ...] = ()  # slots that nobody needs any more


class Region(NamedTuple):
    """A loop or branch."""

    inner: layout.Inner
    blocks: tuple[tuple[Step, ...], ...]
    args: tuple[int, ...]
    outs: tuple[int, ...]


class Fill(NamedTuple):
    """A buffer that is to be zero."""

    slot: int


class Ranking(NamedTuple):
    """Places to be sorted: the slots of the places, of the order of their elements, and of them in order."""

    keys: int
    order: int
    places: int


Step = Launch | Product | LibraryCall | Region | Fill | Ranking


class Plan(layout.Plan):
    """A program laid out for a device: slots, arena, steps.

    Args:
        program: simplified, with plain loops and branches.
        place: the device.
        donated: inputs in whose memory outputs may lie: of which `donations` tells output -> input.
    """

    align, vectors = ALIGN, False

    def __init__(self, program: Program, place: Device, donated: Collection[int] = ()) -> None:
        plain = self.plain(program)
        super().__init__(plain)
        known: dict[Any, int] = {v: self.argument() for v in (*self.inputs, *self.outputs)}
        block = Block(self, plain, known, self.outputs, [self.inputs[i] for i in donated])
        self.donate(block)
        self.size: int = block.size
        self.total: int = block.total
        self.results: list[int] = [
            known[y] if isinstance(y, Var) else self.constant(_array(y)) for y in plain.program.outputs
        ]
        self.steps: list[Step] = block.written()
        made = {k for s in self.steps if isinstance(s, LibraryCall) for k in s.outs}
        self.fresh: list[int] = [k for k, v in enumerate(self.outputs) if known[v] not in made]
        own = {known[self.outputs[k]] for k in self.fresh}
        self.is_new: bool = own == set(self.results) and len(own) == len(self.results)  # all outputs are
        self.held: dict[int, Any] = {b.slot: _sent(place, b.array) for b in self.constants.values()}

    def plain(self, program: Program) -> Plain:
        """Return a program with composite primitives written out."""
        return decompose(program, ON_DEVICE)

    def nested(self, plain: Plain, known: dict[Var, int]) -> Block:
        """Return the block of a program inside of another one."""
        return Block(self, plain, known)


class Block(layout.Block):
    """A program inside of a plan.

    Args:
        plan: to which it belongs.
        plain: the program, decomposed.
        known: the slots of inputs and outputs.
        free: outputs whose memory is there from the start, so that other values may lie in it.
        donated: inputs in whose memory outputs may lie.
    """

    plan: Plan
    total: int

    def __init__(
        self,
        plan: Plan,
        plain: Plain,
        known: dict[Var, int],
        free: Sequence[Var] = (),
        donated: Sequence[Var] = (),
    ) -> None:
        # nobody looks at checks of indices here
        plain = plain._replace(program=eliminate(plain.program), checks=plain.checks[:0])
        super().__init__(plan, plain, known, free)
        self.free = free
        self.products: dict[int, Product] = {i: p for i, e in self.calls.items() if (p := product(e))}
        self.grids: dict[int, list[Piece]] = self._grids(donated)
        self.inner: dict[int, layout.Inner] = {
            i: found for i, e in self.calls.items() if (found := control(plan, e))
        }
        self.size: int = self._place()

    def _grids(self, donated: Sequence[Var]) -> dict[int, list[Piece]]:
        """Return the kernels of every nest; a root that nobody reads is not written."""
        constants, makers, threads = self.plain.constants, self.makers, launching.device().threads
        roots = {r.var for s in self.nests.values() for r in s.roots}
        stored = {*roots, *(v for e in self.calls.values() for v in e.outs), *self.plain.program.inputs}
        first = {i: grids(s, makers, stored, stored, constants, threads) for i, s in self.nests.items()}
        loads = {i: frozenset(v for g in found for v in g.loads) for i, found in first.items()}
        apart = {v for i, e in self.calls.items() if i not in self.products for v in variables(e)}
        alone = {i for i, found in first.items() if len(found) == 1}
        kept = roots & self.share(loads, apart, donated, alone)
        found = {i: grids(s, makers, stored, kept, constants, threads) for i, s in self.nests.items()}
        return {i: [g for g in gs if g.stores] for i, gs in found.items()}

    def _place(self) -> int:
        """Give every buffer its place; return how many bytes they take."""
        for i, e in self.calls.items():  # what the library allocates, or a loop
            made = layout.stacks(e) if i in self.inner else () if i in self.products else e.outs
            self.known |= {v: self.plan.argument() for v in made if v not in self.known}
        for b in dict.fromkeys(b for gs in self.grids.values() for g in gs for b in g.buffers):
            if isinstance(b, Table):
                self.known[b] = self.plan.constant(b.array)
            elif isinstance(b, Scratch) and b.name in {"order", "places"}:  # the library sorts
                self.known[b] = self.plan.argument()
        size = self.place()
        self.total = sum(bytes_of(v) for v in self._temporaries())
        return size

    def _temporaries(self) -> Iterator[Any]:
        """Yield what would have memory of its own, were there no arena."""
        seen = set(self.bound) | set(self.free) | self.plain.constants.keys()
        for v in chain.from_iterable(self.touched()):
            if v not in seen and not isinstance(v, Buffer):
                seen.add(v)
                yield v

    def of_kernels(self, i: int) -> Iterable[Any]:
        """Return the buffers of the kernels of a nest."""
        return (b for g in self.grids[i] for b in g.buffers)

    def made(self, v: Any) -> Buffer:
        """Return memory for a value."""
        return Buffer(bytes_of(v), Aval(shape_of(v), dtype_of(v)))

    def written(self) -> list[Step]:
        """Return what is to be done."""
        found: list[Step] = []
        for i, s in enumerate(self.steps):
            found += [self._call(i, s.equation)] if isinstance(s, Call) else map(self._piece, self.grids[i])
        return self._dropping(found) if self.free else found

    def _piece(self, grid: Piece) -> Step:
        if isinstance(grid, Zeros):
            return Fill(self.known[grid.buffers[0]])
        if isinstance(grid, Sort):
            return Ranking(*(self.known[b] for b in grid.buffers))
        slots = tuple(self.known[b] for b in grid.buffers)
        return Launch(grid, slots, grid.blocks(), grid.threads)

    def _call(self, i: int, e: Equation) -> Step:
        outs = tuple(self.known[v] for v in e.outs)
        if i in self.products:
            return Product(*(m._replace(slot=self.known[m.slot]) for m in self.products[i]))
        if i not in self.inner:
            args = tuple(self.known[a] if isinstance(a, Var) else (a,) for a in e.args)
            return LibraryCall(e, args, outs, frozenset(self.known[v] for v in e.outs if v in self.bound))
        inner, blocks = self.inner[i], self.inner[i].blocks
        slots = []
        for a, aval in zip(e.args, _avals(e), strict=True):
            slots.append(self.known[a] if isinstance(a, Var) else self.plan.constant(_array(a, aval.dtype)))
        return Region(inner, tuple(tuple(b.written()) for b in blocks), tuple(slots), outs)

    def _dropping(self, steps: list[Step]) -> list[Step]:
        """Let the memory of what libraries allocated go after its last use."""
        made = {k for s in steps if isinstance(s, LibraryCall) for k in s.outs}
        made -= {self.known[y] for y in self.plain.program.outputs if isinstance(y, Var)}
        last = {k: i for i, s in enumerate(steps) for k in _slots(s) if k in made}
        dead: list[int] = []
        for i, s in enumerate(steps):
            dead += [k for k, at in last.items() if at == i]
            if isinstance(s, LibraryCall):  # which asks for memory next
                steps[i], dead = s._replace(dropped=tuple(dead)), []
        return steps


def _slots(step: Step) -> Iterable[int]:
    if isinstance(step, Launch):
        return step.slots
    if isinstance(step, Fill | Ranking):
        return step
    if isinstance(step, Product):
        return [m.slot for m in step]
    return [k for k in (*step.args, *step.outs) if isinstance(k, int)]


def launches(steps: Iterable[Step]) -> int | None:
    """Return how often steps launch something; None where that is not known, or has to be waited for."""
    total = 0
    for s in steps:
        if isinstance(s, Region):
            length = s.inner.code.length if isinstance(s.inner, layout.Loop) else None
            inside = launches(s.blocks[0]) if length is not None else None
            if length is None or inside is None:
                return None
            total += length * (inside + len(s.inner.copies))  # type: ignore[attr-defined]
        elif isinstance(s, Ranking):
            total += SORTING
        else:
            total += 1
    return total


def within(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield steps, and those of loops and branches."""
    for s in steps:
        yield s
        if isinstance(s, Region):
            for b in s.blocks:
                yield from within(b)


CONTROL: dict[Any, type[layout.Inner]] = {
    Scan: layout.Loop,
    While: layout.While,
    Branches: layout.Choice,
}


def control(plan: Plan, e: Equation) -> layout.Inner | None:
    """Return the loop or branch that an equation is; None where Python goes through it."""
    code = e.params.get("code")
    made = CONTROL.get(type(code))
    keeps_few = isinstance(code, Scan) and code.checkpoint
    if made is None or keeps_few or (made is layout.Choice and not layout.is_alike(e)):
        return None
    return made(plan, e)


def _avals(e: Equation) -> list[Aval]:
    """Return the avals of what a loop or branch takes."""
    code = e.params["code"]
    inner = code.branches[0] if isinstance(code, Branches) else code.body
    avals = [v.aval for v in inner.inputs]
    first = [aval_out(a) for a in e.args[: len(e.args) - len(avals)]]  # the index, or the number of steps
    return [*first, *avals]


def product(e: Equation) -> Product | None:
    """Return the product of matrices that a contraction is, with variables for slots; None if it is none."""
    if CONTRACTION not in e.traits:
        return None
    (x, y), (z,) = e.args, e.outs
    if not (isinstance(x, Var) and isinstance(y, Var)) or x.aval.dtype != y.aval.dtype:
        return None
    if x.aval.dtype.char not in "fdFD" or 0 in (*x.aval.shape, *y.aval.shape):
        return None
    a, b, out = (e.params[k] for k in ("a", "b", "out"))
    lengths = dict(zip(a + b, (*x.aval.shape, *y.aval.shape), strict=True))
    shared = [c for c in out if c in a and c in b]
    rows, columns = [c for c in out if c not in b], [c for c in out if c not in a]
    summed = [c for c in a if c not in out]
    if set(summed) != set(b) - set(out):
        return None
    for left, right, one, other in ((rows, columns, (x, a), (y, b)), (columns, rows, (y, b), (x, a))):
        if [*shared, *left, *right] == list(out):

            def matrix(v: Var, letters: str, *groups: list[str]) -> Matrix:
                shape = [math.prod(lengths[c] for c in g) for g in groups]
                order = tuple(letters.index(c) for g in groups for c in g)
                return Matrix(v, order, tuple(shape if shared else shape[1:]))  # type: ignore[arg-type]

            return Product(
                matrix(*one, shared, left, summed),
                matrix(*other, shared, summed, right),
                matrix(z, out, shared, left, right),
            )
    return None


def shape_of(x: Any) -> tuple[int, ...]:
    """Return the shape of what a buffer of a kernel is."""
    return tuple(x.aval.shape) if isinstance(x, Var) else (x.size,)


def bytes_of(x: Any) -> int:
    """Return the bytes of what a buffer of a kernel is."""
    return math.prod(shape_of(x)) * dtype_of(x).itemsize


def _array(x: Any, dtype: np.dtype[Any] | None = None) -> Any:
    value = getattr(x, "_value", x)
    return value if value.__class__ is DeviceArray else np.asarray(value, dtype)


def _sent(place: Device, x: Any) -> Any:
    """Return a constant as buffer of a device; a number is no transfer."""
    if not np.ndim(x):
        return place.full((), x[()], x.dtype).buffer
    return place.operand(x) if x.__class__ is DeviceArray else place.constant(np.ascontiguousarray(x)).buffer
