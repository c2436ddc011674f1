"""Loop nests as the text of CUDA kernels: the elements of the CPU's kernels, with a grid for the loops.

| kind | its grid |
|---|---|
| `Flat` | a thread for each element, striding |
| `Rows` | a block, or a thread, for each turn of the outer loops; its threads share the inner ones |
| `Columns` | a thread for each number that reductions leave, where neighbours lie side by side in memory |
| `Blocks` | blocks for each number that reductions leave |
| `scattered` | a thread for each chunk of what is sorted by its place |

`Columns` and `Blocks` leave one number for each block or chunk, which a second kernel joins, in order:
results depend on nothing but shapes and the size of blocks. What folds an outer loop gets a kernel of its
own, and so does every root of a nest whose phases do not fit a grid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fgrad.compiler.device.scatter import Piece, scattered
from fgrad.compiler.device.statements import Grid, GridWriter, Partial, inside, looped, striding
from fgrad.compiler.fuse import Nest, Root
from fgrad.compiler.index import linear
from fgrad.compiler.loop_nests import Line, Place, Value
from fgrad.compiler.writer import identity, joined
from fgrad.core.program import Equation, Var

RUN = 16  # elements that a thread of a reduction adds up before there is another block
MOST = 1024  # numbers that a reduction leaves: for as many, each has one block
PARTS = 4096  # blocks for one number: where they come in turns, the last turn is to be a small part
WIDE = 256  # numbers that a reduction leaves: for as many, each has a thread
CHUNK = 256  # elements that such a thread adds up before there is another chunk
EACH = 8  # elements of a row for each thread of its block, at least: threads that meet often are to be few
WARP = 32  # threads that go on together
BUSY = 65536  # threads that keep a device busy: no chunks beyond them
FEW, LONG = 128, 8192  # so few rows, of more elements than that, do not get a block each


def grids(
    nest: Nest,
    makers: dict[Var, tuple[Equation, int]],
    stored: Any,
    kept: Any,
    constants: Any,
    threads: int,
) -> list[Piece]:
    """Return the kernels of a nest, and what happens between them.

    Args:
        nest: loops and roots.
        makers: the equation of each variable.
        stored: variables that are read from memory, where the kernel does not compute them just then.
        kept: of the roots those that are written to memory.
        constants: the arrays of variables that are constant.
        threads: in a block, a power of two.
    """
    context = threads, nest.shared, makers, stored, kept, constants, nest.floats
    if nest.roots[0].scatters:
        return scattered(nest.roots[0], kept, context)
    first, others = _split(nest)
    found: list[Piece] = []
    if len(first) == 1 and not any(r.folded for r in first[0]):
        others = [*first[0], *others]
    elif first:
        found.append(_Rows(first, nest.depth, *context).run())
    for roots in _alike(nest, others):
        folds = any(r.folded for r in roots)
        found += _reductions(roots, context) if folds else [_Flat(roots, *context).run()]
    return found


def _split(nest: Nest) -> tuple[list[list[Root]], list[Root]]:
    """Return the phases that one kernel computes, and the roots that have kernels of their own after it."""
    depth = nest.depth
    inside = [[r for r in phase if not r.folded & set(range(depth))] for phase in nest.phases]
    inside = [phase for phase in inside if phase]
    roots = [r for phase in inside for r in phase]
    outside = [r for r in nest.roots if r not in roots]
    inner = max((math.prod(r.loops[depth:]) for r in roots), default=0)
    outer = math.prod(nest.loops)
    alone = len(roots) == 1 and bool(roots[0].folded) and inner >= RUN
    rowwise = all(not r.folded or r.folded == set(range(depth, len(r.loops))) for r in roots)
    starved = any(r.folded for r in roots) and outer < FEW and inner > LONG
    together = len(inside) > 1 or any(r.folded for r in roots)
    if together and (not depth or alone or not rowwise or starved):
        return [], nest.roots
    return inside, outside


def _alike(nest: Nest, roots: Sequence[Root]) -> list[list[Root]]:
    """Return the roots in groups, each of which goes through its elements once.

    A group is of one phase, in which an element is read where it has just been computed. It has the same
    loops; of these all that fold any fold the same.
    """
    phases = {r.var: k for k, phase in enumerate([*nest.phases, nest.tails]) for r in phase}
    found: list[list[Root]] = []
    for root in roots:
        last = found[-1] if found else []
        folded = {r.folded for r in (*last, root) if r.folded}
        sums = {r.var for r in last if r.folded}
        if (
            last
            and (phases[last[0].var], last[0].loops) == (phases[root.var], root.loops)
            and len(folded) <= 1
            and sums.isdisjoint(v for v, _ in root.reads)
        ):
            last.append(root)
        else:
            found.append([root])
    return found


def _reductions(roots: list[Root], context: Any) -> list[Grid]:
    """Return the kernels of reductions that fold the same loops, and of values beside them."""
    threads, root = context[0], next(r for r in roots if r.folded)
    kept = [k for k in range(len(root.loops)) if k not in root.folded]
    count = math.prod(root.loops[k] for k in kept)
    total = math.prod(root.loops[k] for k in root.folded)
    if kept and kept[-1] > max(root.folded) and count >= WIDE:
        parts = 1 if count >= BUSY else min(-(-total // CHUNK), -(-BUSY // count))
        kind: type[_Reduced] = _Columns
    else:
        parts = 1 if count >= MOST else min(PARTS, -(-total // (threads * RUN)))
        kind = _Blocks
    made = [kind(roots, parts, *context).run()]
    if parts > 1:
        sums = [r for r in roots if r.folded]
        sizes = {r.var.aval.size: None for r in sums}  # which differ where axes are unrolled
        for size in sizes:
            some = [r for r in sums if r.var.aval.size == size]
            made.append(_joined(some, parts, kind is _Columns, threads))
    return made


class _Flat(GridWriter):
    """A thread for each element of roots with the same loops."""

    def __init__(self, roots: Sequence[Root], *context: Any) -> None:
        super().__init__(roots[0].loops, *context)
        self.roots = self.computing(roots)

    def run(self) -> Grid:
        loops = range(len(self.roots[0].loops))
        self.enter(0, len(loops))
        for root in self.roots:
            for at in root.places():
                self.store(root, at, root.element(self.elements, at))
        return self.flat(loops)


class _Rows(GridWriter):
    """A block for each turn of the outer loops, or where there is little to share, a thread."""

    def __init__(self, phases: Sequence[Sequence[Root]], depth: int, *context: Any) -> None:
        super().__init__(phases[0][0].loops, *context)
        self.computing([r for phase in phases for r in phase])
        self.phases, self.depth = phases, depth
        inner = max(math.prod(r.loops[depth:]) for phase in phases for r in phase)
        self.alone = inner < RUN
        few = max(WARP, 1 << (inner // EACH).bit_length())
        if not self.alone and few * math.prod(phases[0][0].loops[:depth]) >= BUSY:
            self.threads = min(self.threads, few)

    def run(self) -> Grid:
        depth, lines = self.depth, list[str]()
        self.enter(0, depth)
        for phase in self.phases:
            lines += self.phase(phase)
        outer = math.prod(self.phases[0][0].loops[:depth])
        body = [*self.counters("row", range(depth)), *lines]
        blocks = not self.alone
        lines = striding("row", self.number(outer), body, blocks=blocks)
        return self.grid("rows", lines, outer, whole_blocks=blocks)

    def phase(self, phase: Sequence[Root]) -> list[str]:
        """Return the lines of a phase: its threads stride over the inner loops, then join what they have."""
        depth, loops = self.depth, phase[0].loops
        self.builder.resize(loops)
        self.enter(depth, len(loops))
        begin, end, totals = list[str](), list[str](), []
        for root in phase:
            for at in root.places():
                value = root.element(self.elements, at)
                if not root.folded:
                    self.store(root, at, value)
                    continue
                total = f"s{self.builder.count}"
                self.builder.count += 1
                begin.append(self.fold(root, total, value))
                end += [] if self.alone else self.tree(root, total)
                totals.append((root, root.out_at(at), total))
        items = self.items(depth + 1, len(self.builder.chain))
        del self.builder.chain[depth + 1 :]
        outer = self.items(0, depth + 1)
        is_apart = not self.alone and self._needs_barrier([*items, *outer], phase)
        if len(loops) == depth and not self.alone:  # one thread writes, when all have read what lies there
            stores = [line for line in outer if isinstance(line[0], Place)]
            outer = [line for line in outer if line not in stores]
            end += ["cuda.syncthreads()", "if lane == 0:", *inside(self.text(stores))] if stores else []
        count = math.prod(loops[depth:])
        for root, out, total in totals:
            self.builder.chain[depth].memo[(root.var, out)] = Value(total, depth, root.var.aval.dtype)
            if root.var in self.kept:
                self.stores[root.var] = None
                place = Place(root.var, linear(out, root.var.aval.shape))
                (stored,) = self.text([(place, f" = {total}")])
                end += [stored] if self.alone else ["if lane == 0:", f"    {stored}"]
        self.merged.clear()
        inner = self.flattened("j", range(depth, len(loops)), items) if items else []
        start, step = ("0", "1") if self.alone else ("lane", "THREADS")
        lanes = [
            f"j = np.int64({start})",
            f"while j < {self.number(count)}:",
            *inside([*inner, f"j += {step}"]),
        ]
        meet = ["cuda.syncthreads()"] if is_apart else []
        return [*self.text(outer), *begin, *(lanes if inner else []), *end, *meet]

    def _needs_barrier(self, lines: Sequence[Line], phase: Sequence[Root]) -> bool:
        """Return whether later phases may write what this one reads, or read what it writes.

        Threads that join what they have add up have met since they read.
        """
        writes = any(isinstance(line[0], Place) for line in lines) or any(
            r.folded and r.var in self.kept for r in phase
        )
        reads = any(isinstance(part, Place) for line in lines for part in line)
        return writes or (reads and not any(r.folded for r in phase))


class _Reduced(GridWriter):
    """Reductions that fold the same loops, by themselves or in parts, and the values that they add up."""

    def __init__(self, roots: Sequence[Root], parts: int, *context: Any) -> None:
        root = next(r for r in roots if r.folded)
        super().__init__(root.loops, *context)
        self.roots, self.parts = self.computing(roots), parts
        self.folded = sorted(root.folded)
        self.outer = [k for k in range(len(root.loops)) if k not in root.folded]
        self.count = math.prod(root.loops[k] for k in self.outer)
        self.total = math.prod(root.loops[k] for k in self.folded)

    def run(self) -> Grid:
        """Return the kernel."""
        raise NotImplementedError

    def terms(self, index: str) -> tuple[list[str], list[str], list[tuple[str, Root, Any]]]:
        """Return what starts the totals, what adds an element to each, and their names, roots and places."""
        self.enter(0, len(self.roots[0].loops))
        begin: list[str] = []
        totals: list[tuple[str, Root, Any]] = []
        for root, at in ((r, at) for r in self.roots for at in r.places()):
            value = root.element(self.elements, at)
            if not root.folded:
                self.store(root, at, value)
                continue
            begin.append(self.fold(root, f"s{len(totals)}", value))
            totals.append((f"s{len(totals)}", root, root.out_at(at)))
        items = self.items(0, len(self.builder.chain))
        return begin, self.flattened(index, self.folded, items), totals

    def turns(self, lines: Sequence[str]) -> int:
        """Return how many turns of the loop to write out: a compiler does so where nothing is stored."""
        return self.copies(lines) if self.stores else 1

    def written(self, totals: Sequence[tuple[str, Root, Any]], part: str, *, first: bool) -> list[str]:
        """Return the lines that write the totals; parts stand one behind the other, or side by side."""
        lines = []
        for total, root, out in totals:
            target: Any = Partial(root, self.parts) if self.parts > 1 else root.var
            self.stores[target] = None
            shape = root.var.aval.shape
            place = self.index(linear(out, shape))
            if self.parts > 1:
                size = self.number(math.prod(shape))
                parts = self.number(self.parts)
                place = f"{part} * {size} + {place}" if first else f"({place}) * {parts} + {part}"
            lines.append(f"{self.buffer(target)}[{place}] = {total}")
        return lines


class _Columns(_Reduced):
    """A thread for each number that is left, neighbours side by side, in chunks of what is folded."""

    def run(self) -> Grid:
        begin, lines, totals = self.terms("j")
        count, parts, total = (self.number(n) for n in (self.count, self.parts, self.total))
        task = [
            f"part = task // {count}",
            f"k = task % {count}",
            *self.counters("k", self.outer),
            *begin,
            "j = part",
            f"step = np.int64({parts})",
            *looped("j", total, "step", lines, self.turns(lines)),
            *self.written(totals, "part", first=True),
        ]
        tasks = self.count * self.parts
        return self.grid("columns", striding("task", self.number(tasks), task), tasks)


class _Blocks(_Reduced):
    """Blocks for each number that is left."""

    def run(self) -> Grid:
        begin, lines, totals = self.terms("j")
        parts, total = self.number(self.parts), self.number(self.total)
        joined = [line for s, r, _ in totals for line in self.tree(r, s)]
        task = [
            f"part = task % {parts}",
            f"k = task // {parts}",
            *self.counters("k", self.outer),
            *begin,
            "j = part * THREADS + lane",
            f"step = np.int64({parts} * THREADS)",
            *looped("j", total, "step", lines, self.turns(lines)),
            *joined,
            "if lane == 0:",
            *inside(self.written(totals, "part", first=False)),
        ]
        tasks = self.count * self.parts
        lines = striding("task", self.number(tasks), task, blocks=True)
        return self.grid("blocks", lines, tasks, whole_blocks=True)


def _joined(roots: Sequence[Root], parts: int, columns: bool, threads: int) -> Grid:
    """Return the kernel that joins the parts of reductions, in an order that is always the same."""
    count = math.prod(roots[0].var.aval.shape)
    writer = GridWriter((), threads, {}, {}, (), (), {})
    lane, step, place = ("0", "1", "j * n0 + k") if columns else ("lane", "THREADS", "k * n1 + j")
    begin, terms, end, written = list[str](), list[str](), list[str](), list[str]()
    for n, root in enumerate(roots):
        dtype, total = root.var.aval.dtype, f"s{n}"
        part, out = (writer.buffer(b) for b in (Partial(root, parts), root.var))
        begin.append(f"{total} = {writer.builder.constant(identity(root))}")
        terms.append(f"{total} = {joined(root, total, f'{part}[{place}]')}")
        end += [] if columns else writer.tree(root, total)
        written.append(f"{out}[k] = {total}")
        writer.stores[root.var] = None
        if dtype.kind == "f":
            writer.elements.floats.add(dtype)
    task = [
        *begin,
        f"j = np.int64({lane})",
        "while j < n1:",
        *inside([*terms, f"j += {step}"]),
        *end,
        *(written if columns else ["if lane == 0:", *inside(written)]),
    ]
    writer.numbers = {-1: "n0", -2: "n1"}  # whatever they are: equal ones stay two
    lines = striding("k", "n0", task, blocks=not columns)
    made = writer.grid("joined", lines, count, whole_blocks=not columns)
    return made._replace(numbers=(count, parts))
