"""Loop nests as the text of kernels: `kernel(slots, args, lo, hi)`, in a readable subset of Python.

Numbers up to 16 stand in the text, others are arguments: so a kernel serves every size.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fgrad import config
from fgrad.compiler.alike import Alike
from fgrad.compiler.elements import SMALL
from fgrad.compiler.fuse import BLOCK, Nest, Root
from fgrad.compiler.index import Index, counter, linear
from fgrad.compiler.loop_nests import Bound, Line, Loop, Place, Value, module, without
from fgrad.compiler.writer import Writer, dtype_of_helpers, hold, identity, joined
from fgrad.core.aval import Shape
from fgrad.core.program import Equation, Var
from fgrad.kernels import vector
from fgrad.kernels.body import FLOAT64, Body, helpers

TURNS = 4  # of a loop that LLVM writes out, so that the loop around it can become one of vectors
WRITTEN_OUT = 16  # turns of such loops in each other
BLOCKS = 1024  # at most, and as few as take an eighth of the memory of what they read
FILLING = 900  # the number of the loop that fills an array with zeros
_CALLED = re.compile(r"(?<![\w.])[\w.]+(?=\()")


class Part:
    """A reduction that every block does for itself: `count` numbers in each of `blocks` blocks."""

    __slots__ = ("blocks", "count", "root")

    def __init__(self, root: Root) -> None:
        self.root: Root = root
        self.count: int = math.prod(root.var.aval.shape)
        self.blocks: int = 1

    def of(self, root: Root) -> Part:
        """Return the same of another reduction that is alike."""
        other = Part(root)
        other.blocks = self.blocks
        return other


class Memory(Var):
    """A piece of memory of which a loop reads or writes elements at any distance: an argument, if not one."""

    __slots__ = ()
    row = 1  # the longest distance that is literal


class Interleaved(Memory):
    """The same of pairs of elements, which lie at literal places, so that LLVM makes vectors of them."""

    __slots__ = ()
    row = 2


class Kernel(NamedTuple):
    """A text and what its arguments stand for."""

    text: str
    buffers: tuple[Any, ...]  # variables, or the parts of one as `Part`
    numbers: tuple[int, ...]
    turns: int  # of the outermost loop, or blocks
    loads: frozenset[Var]
    stores: frozenset[Var]
    parts: tuple[Part, ...]
    work: int  # elements times operations

    def of(self, others: Mapping[Var, Var], nest: Nest, first: Nest) -> Kernel:
        """Return the same of other variables.

        Args:
            others: which, by those of this kernel.
            nest: of whose roots the parts are to be.
            first: the nest of this kernel.
        """
        roots = dict(zip(first.roots, nest.roots, strict=True))
        parts = {p: p.of(roots[p.root]) for p in self.parts}
        return self._replace(
            buffers=tuple([parts[b] if isinstance(b, Part) else others[b] for b in self.buffers]),
            loads=frozenset([others[v] for v in self.loads]),
            stores=frozenset([others[v] for v in self.stores]),
            parts=tuple(parts.values()),
        )


class Emitter:
    """Writes the kernels of nests, of those that are alike one.

    Args:
        makers: the equation of each variable.
        stored: variables that are read from memory, where a nest does not compute them just then.
        constants: the arrays of variables that are constant.
    """

    def __init__(self, makers: dict[Var, tuple[Equation, int]], stored: Any, constants: Any) -> None:
        self._context = makers, stored, constants
        self._alike = Alike(makers, constants)
        self._known: dict[Any, tuple[Kernel, list[Var], Nest]] = {}

    def kernel(self, nest: Nest, kept: Any) -> Kernel:
        """Return the kernel of a nest; `kept`: of its roots those that are written to memory."""
        makers, stored, constants = self._context
        pattern, variables = self._alike.of([r.var for r in nest.roots], stored)
        places = {v: i for i, v in enumerate(variables)}
        written = tuple([r.var in kept for r in nest.roots])
        shared = tuple([(places[v], places[w]) for v, w in nest.shared.items() if v in places])
        key = pattern, nest.pattern, written, shared
        if key not in self._known:
            self._known[key] = _Nest(nest, makers, stored, kept, constants).run(), variables, nest
        kernel, others, first = self._known[key]
        return kernel if first is nest else kernel.of(dict(zip(others, variables, strict=True)), nest, first)


def combine(part: Part) -> Kernel:
    """Return the kernel that joins what the blocks of a reduction found, in their order."""
    root = part.root
    dtype = root.var.aval.dtype
    lines = [
        f"b0 = alone({dtype.name}_at(slots, args, 0))",
        f"b1 = {dtype.name}_at(slots, args, 1)",
        "count = np.uintp(args[2])",
        "blocks = np.uintp(args[3])",
        "for i in range(lo, hi):",
        *(
            [  # of many numbers: all of one block, then all of the next, which vectors do together
                "    b1[i] = b0[i]",
                "for k in range(U1, blocks):",
                "    for i in range(lo, hi):",
                f"        b1[i] = {joined(root, 'b1[i]', 'b0[k * count + i]', lanes=True)}",
            ]
            if part.count > SMALL
            else [  # of few: one after the other, for which LLVM needs no time
                "    total = b0[i]",
                "    for k in range(U1, blocks):",
                f"        total = {joined(root, 'total', 'b0[k * count + i]', lanes=False)}",
                "    b1[i] = total",
            ]
        ),
    ]
    body = "\n".join(f"    {line}" for line in lines)
    text = _module(body, {}, {1}, dtype if dtype.kind == "f" else FLOAT64)
    stores = frozenset([root.var])
    count, blocks = part.count, part.blocks
    return Kernel(text, (part, root.var), (count, blocks), count, frozenset(), stores, (), count * blocks)


class _Loops(Writer):
    """Writes scopes as loops."""

    lanes = True
    whole = blocked = False  # whether one turn of the kernel does all; whether reductions are in parts
    rounds = False  # whether products are rounded before they are added
    roots: Sequence[Root] = ()
    shared: Mapping[Var, Var] = MappingProxyType({})

    def __init__(self, *context: Any) -> None:
        super().__init__(*context)
        self.parts: list[Part] = []
        self.buffers: dict[Any, int] = {}
        self.numbers: list[int] = []
        self.names: dict[Any, str] = {}
        self.literals: set[int] = set()
        self.starts: dict[Any, int] = {}

    def kernel(self) -> Kernel:
        """Return the kernel of what is in the builder."""
        builder = self.builder
        base = builder.base
        _hold(base, dict(builder.sizes))
        for i, item in enumerate(base.body):
            if isinstance(item, Loop):
                base.body[i] = self._merged(item)
        self._find_starts(base)
        lines, count = self._outermost(base)
        head = []
        for x, k in self.buffers.items():
            dtype = (x.root.var if isinstance(x, Part) else x).aval.dtype
            pointer = f"{dtype.name}_at(slots, args, {k})"
            # stores by way of a pointer that is alone are lost: to LLVM nobody else can see them
            written = isinstance(x, Part) or x in self.stores
            head.append(f"b{k} = {pointer if written else f'alone({pointer})'}")
        first = len(self.buffers)
        head += [f"n{k} = np.uintp(args[{first + k}])" for k in range(len(self.numbers))]
        body = "\n".join(f"    {line}" for line in [*head, *lines])
        dtype = dtype_of_helpers(self.floats)
        text = _module(body, builder.constants, self.literals, dtype, rounds=self.rounds)
        total = sum(math.prod(r.loops) * max(1, r.work) for r in self.roots)
        return Kernel(
            text,
            tuple(self.buffers),
            tuple(self.numbers),
            count,
            frozenset(v for v, _ in builder.loads),
            frozenset(self.stores),
            tuple(self.parts),
            total,
        )

    def _find_starts(self, base: Loop) -> None:
        """Find the least place of each buffer: an argument, so that a kernel serves all parts of it."""
        for place in _places(base):
            if not isinstance(place.buffer, Part):
                buffer, first = self._buffer_of(place), max(0, place.at.const)
                self.starts[buffer] = min(first, self.starts.get(buffer, first))

    def _buffer_of(self, place: Place) -> Any:
        return self.shared.get(place.buffer, place.buffer)

    def _outermost(self, base: Loop) -> tuple[list[str], int]:
        """Return the lines of all loops, the outermost from `lo` to `hi`, and how many turns it has."""
        loops = [x for x in base.body if isinstance(x, Loop)]
        if not loops or self.whole:
            return self._lines(base.body, 0), 1
        (loop,) = loops
        before = self._lines([x for x in base.body if x is not loop], 0)
        i = f"i{loop.number}"
        if not self.blocked:
            return [
                *before,
                *self._lines(loop.before, 0),
                f"for {i} in range(lo, hi):",
                *self._lines(loop.body, 1),
                *self._lines(loop.after, 0),
            ], loop.size
        elements = [math.prod(r.loops) for r in self.roots]
        inner = max(1, sum(elements) // len(elements) // loop.size)
        wide = max((p.count for p in self.parts), default=1)
        most = max(1, min(BLOCKS, inner * loop.size // (8 * wide)))
        size = max(-(-BLOCK // inner), -(-loop.size // most))
        if any(r.scatters for r in self.roots):
            size = loop.size  # in one block, so that the order is always the same
        blocks = -(-loop.size // size)
        for part in self.parts:
            part.blocks = blocks
        step, stop = self._argument(("block",), size), self._argument(("total",), loop.size)
        return [
            *before,
            "for block in range(lo, hi):",
            f"    start = block * {step}",
            f"    stop = min(start + {step}, {stop})",
            *self._lines(loop.before, 1),
            f"    for {i} in range(start, stop):",
            *self._lines(loop.body, 2),
            *self._lines(loop.after, 1),
        ], blocks

    def _merged(self, loop: Loop) -> Loop:
        """Return loops as one where the elements that they reach lie in one line."""
        for i, item in enumerate(loop.body):
            if isinstance(item, Loop):
                loop.body[i] = self._merged(item)
        if len(loop.body) != 1 or not isinstance(loop.body[0], Loop):
            return loop
        inner = loop.body[0]
        reached = _places(inner)
        if (
            inner.before
            or inner.after
            or not self.builder.merge(loop.number, inner.number, inner.size, reached)
        ):
            return loop
        merged = Loop(inner.number, loop.size * inner.size)
        merged.before, merged.after = loop.before, loop.after
        merged.body = [_without(x, loop.number) for x in inner.body]
        return merged

    def _lines(self, items: Sequence[Line | Loop], level: int) -> list[str]:
        out = []
        pad = "    " * level
        for item in items:
            if isinstance(item, Loop):
                body = self._lines(item.body, level + 1)
                if not body:
                    continue  # all that it computed is known outside, or read by nobody
                out += self._lines(item.before, level)
                size = ("size", id(item))
                bound = self._number if item.size <= TURNS else self._argument
                count = bound(size, item.size)
                turns = "unrolled" if _turns(item) <= WRITTEN_OUT else "range"
                out.append(f"{pad}for i{item.number} in {turns}({count}):")
                out += body
                out += self._lines(item.after, level)
            else:
                out.append(pad + "".join(map(self._part, item)))
        return out

    def _part(self, part: Any) -> str:
        if isinstance(part, str):
            return part
        if isinstance(part, Place):
            buffer = self._buffer_of(part)
            k = self.buffers.setdefault(buffer, len(self.buffers))
            offset = self._sum(part.at, k, _row(part.buffer), self.starts.get(buffer, 0))
            if isinstance(part.buffer, Part):
                size = self._number(("count", k), part.buffer.count)
                own = "block" if size == "U1" else f"block * {size}"
                offset = own if offset == "U0" else f"{own} + {offset}"
            return f"b{k}[{offset}]"
        if isinstance(part, Bound):
            return f"np.int64({self._number(('bound', len(self.names)), part.number)})"
        return self._signed(part)

    def _sum(self, at: Index, buffer: int, row: int, start: int) -> str:
        """Return a place as text; within a short row it is literal, so that LLVM can tell places apart.

        Args:
            at: the place.
            buffer: its number.
            row: how many elements a row has.
            start: where the first of all places in the buffer is.
        """
        added: list[str] = []
        taken: list[str] = []
        for loop, c in at.terms:
            size = abs(c)
            number = (
                self._literal(size) if size <= row else self._argument(("stride", buffer, loop, size), size)
            )
            counter = self._counter(loop)
            (taken if c < 0 else added).append(counter if number == "U1" else f"{counter} * {number}")
        if start:
            added.append(self._argument(("start", buffer), start))
        const = at.const - start
        if const or not (added or taken):
            above, rest = divmod(abs(const), row)
            into = taken if const < 0 else added
            if above:
                into.append(self._argument(("offset", buffer, above * row), above * row))
            if rest or not above:
                into.append(self._literal(rest))
        return " - ".join([" + ".join(added), *taken])  # which is not below zero on the way

    def _signed(self, at: Index) -> str:
        terms = [f"np.int64({self._counter(k)})" + (f" * {c}" if c != 1 else "") for k, c in at.terms]
        if at.const > 0:
            terms.append(f"np.int64({self._number(('bound', len(self.names)), at.const)})")
        elif at.const:
            terms.append(f"({at.const})")
        return " + ".join(terms)

    def _counter(self, k: int) -> str:
        return self.builder.symbols[k].name if k in self.builder.symbols else f"i{k}"

    def _number(self, key: Any, n: int) -> str:
        """Return an integer as text: a literal where it is small, else an argument."""
        return self._literal(n) if 0 <= n <= SMALL else self._argument((*key, n), n)

    def _literal(self, n: int) -> str:
        self.literals.add(n)
        return f"U{n}"

    def _argument(self, key: Any, n: int) -> str:
        if key not in self.names:
            self.names[key] = f"n{len(self.numbers)}"
            self.numbers.append(n)
        return self.names[key]


class _Nest(_Loops):
    """Writes the roots of a nest."""

    def __init__(self, nest: Nest, *context: Any) -> None:
        super().__init__(nest.phases[0][0].loops, *context, nest.floats)
        self.nest, self.roots, self.shared = nest, nest.roots, nest.shared
        self.filled: dict[Var, None] = {}
        self.whole = nest.is_whole and any(0 in r.folded or r.scatters for r in nest.roots)
        self.blocked = not self.whole and bool(nest.loops) and any(0 in r.folded for r in nest.roots)

    def run(self) -> Kernel:
        builder, nest = self.builder, self.nest
        for k in range(nest.depth):
            builder.enter(k)
        for phase in nest.phases:
            loops = phase[0].loops
            builder.resize(loops)
            for k in range(nest.depth, len(loops)):
                builder.enter(k)
            for root in phase:
                self._root(root)
            for _ in range(nest.depth, len(loops)):
                builder.leave()
        for _ in range(nest.depth):
            builder.leave()
        for root in nest.tails:
            self._root(root)
        return self.kernel()

    def _root(self, root: Root) -> None:
        for at in root.places():
            value = root.element(self.elements, at)
            if root.scatters:
                self._scatter(root, value, root.places_of(self.elements, at))
            elif root.folded:
                self._fold(root, value, root.out_at(at))
            else:
                self.store(root, at, value)

    def _scatter(self, root: Root, value: Value, out: Any) -> None:
        """Add an element wherever index arrays say, in order."""
        chain, count = self.builder.chain, len(root.loops)
        place = Place(root.var, linear(out, root.var.aval.shape))
        self.stores[root.var] = None
        old = self.builder.name()
        chain[count].body += [(f"{old} = ", place), (place, f" = {old} + {value.name}")]
        if root.var in self.filled:
            return
        self.filled[root.var] = None
        zero = self.builder.constant(f"{root.var.aval.dtype.name}(0.0)")
        fill = Loop(FILLING, root.var.aval.size)
        fill.body.append((Place(root.var, counter(FILLING)), f" = {zero}"))
        (chain[1].before if count else chain[0].body).insert(0, fill)

    def _fold(self, root: Root, value: Value, out: Any) -> None:
        """Add an element to a reduction."""
        chain, folded, count = self.builder.chain, root.folded, len(root.loops)
        place = Place(root.var, linear(out, root.var.aval.shape))
        last = max((k for k in range(count) if k not in folded), default=-1)  # the innermost kept loop
        zero = self.builder.constant(identity(root))
        finish: list[Line] | list[Line | Loop]
        if last + 1 < count:
            total = f"s{self.builder.count}"
            self.builder.count += 1
            inner = chain[last + 2]
            inner.before.append((self.fold(root, total, value),))
            finish = inner.after
        else:
            total, finish = value.name, chain[count].body
        first = min(folded)
        if first > last and (first > 0 or self.whole):
            self.builder.chain[last + 1].memo[(root.var, out)] = Value(total, last + 1, root.var.aval.dtype)
            if root.var in self.kept:
                self.stores[root.var] = None
                finish.append((place, " = ", total))
            return
        self.stores[root.var] = None
        if first == 0 and self.blocked:
            part = next((p for p in self.parts if p.root is root), None)
            if part is None:
                part = Part(root)
                self.parts.append(part)
            place = Place(part, place.at)
        if first > last:
            finish.append((place, " = ", total))
            return
        start: Line | Loop = (place, f" = {zero}")
        for k in range(last, first, -1):
            if k not in folded:
                loop = Loop(k, self.builder.sizes[k])
                loop.body.append(start)
                start = loop
        chain[first + 1].before.append(start)
        old = self.builder.name()
        finish.append((f"{old} = ", place))
        finish.append((place, f" = {joined(root, old, total, lanes=True)}"))


def pointwise(
    body: Body, dtype: np.dtype[Any], sizes: Sequence[int], operands: Sequence[Place], outs: Sequence[Place]
) -> Kernel:
    """Return the kernel of scalar expressions at every element of operands that lie in any way.

    Args:
        body: what is computed of one element.
        dtype: of the operands, and in which it is computed.
        sizes: the lengths of the loops.
        operands: where each is read, in `Memory`.
        outs: where each result is written, likewise.
    """
    writer = _Loops(sizes, {}, (), (), {}, {dtype})
    builder, writer.rounds = writer.builder, True
    for k in range(len(sizes)):
        builder.enter(k)
    given = [builder.define(p.buffer, (p,), builder.depth(p.at.terms), p.buffer.aval.dtype) for p in operands]
    writer.write(body, given, dtype, outs)
    for _ in sizes:
        builder.leave()
    return writer.kernel()


def _row(buffer: Any) -> int:
    """Return the size of the last axes of an array that are so short that their lengths are literal."""
    if isinstance(buffer, Memory):
        return buffer.row
    shape: Shape = () if isinstance(buffer, Part) else buffer.aval.shape
    return max(SMALL, math.prod(itertools.takewhile(lambda n: n <= SMALL, reversed(shape))))


def _hold(loop: Loop, sizes: dict[int, int]) -> None:
    """Raise unless all that loops read and write, wherever a condition does not say so, lies in its buffer.

    Raises:
        BrokenContractError: a place is outside.
    """
    sizes[loop.number] = loop.size
    if not loop.size:
        return
    for item in itertools.chain(loop.before, loop.body, loop.after):
        if isinstance(item, Loop):
            _hold(item, sizes)
        else:
            hold(item, sizes)


def _turns(loop: Loop) -> float:
    """Return how often the innermost lines of short loops run, infinity if one of the loops is long."""
    inner = [_turns(item) for item in loop.body if isinstance(item, Loop)]
    return loop.size * max(inner, default=1) if loop.size <= TURNS else math.inf


def _places(loop: Loop) -> Any:
    for item in itertools.chain(loop.before, loop.body, loop.after):
        if isinstance(item, Loop):
            yield from _places(item)
        else:
            yield from (p for p in item if isinstance(p, Place))


def _without(item: Any, number: int) -> Any:
    """Return a line or loop whose places do not depend on a loop any more."""
    if not isinstance(item, Loop):
        return without(item, number)
    for part in (item.before, item.body, item.after):
        part[:] = [_without(x, number) for x in part]
    return item


def _module(
    body: str,
    constants: dict[str, str],
    literals: set[int],
    dtype: np.dtype[Any],
    *,
    rounds: bool = False,
) -> str:
    """Return the text of the module.

    Args:
        body: of the kernel.
        constants: names by what they stand for.
        literals: integers that have names.
        dtype: of helper functions.
        rounds: whether products are rounded before they are added, as NumPy does, but beside vector code.
    """
    kernel = f"def kernel(slots, args, lo, hi):\n{body}\n"
    libraries = _libraries(frozenset(_CALLED.findall(kernel)), dtype)
    numbers = [f"U{n} = np.uintp({n})" for n in sorted(literals)]
    text = module(vector.substituted(kernel), constants, numbers, libraries)
    return text if not rounds or "def fast_" in text else f"{text}\n\nkernel.floats = ()\n"


@lru_cache(config.cache_entries())
def _libraries(called: frozenset[str], dtype: np.dtype[Any]) -> tuple[str, str]:
    """Return the helper functions of a kernel that calls these functions, and the vector code they need."""
    text = "".join(f"{name}(\n" for name in sorted(called))
    library = vector.substituted(helpers(text, dtype, replaced=vector.REPLACED))
    return library, vector.preamble(f"{library}\n{vector.substituted(text)}", dtype)
