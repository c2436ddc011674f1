"""What the forward sweep records: analysis of which values the reverse sweep takes, and where it gets them.

In the reverse of a block that runs many times, scalars that belong to one run of it are computed again, if
what they are computed from is still there ("recomputed"). All else that the reverse sweep takes and somebody
overwrites is recorded before it is overwritten, and restored on the way back (to-be-recorded analysis:
Hascoët, Naumann & Pascual 2005). What neither of them needs is left out of the forward sweep.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fgrad.adjoints import syntax
from fgrad.adjoints.names import nodes_of
from fgrad.adjoints.overwriting import Bounds, linear
from fgrad.adjoints.reversal import Reversal, operands
from fgrad.adjoints.scratch import is_scratch
from fgrad.adjoints.syntax import Alloc, Assign, For, Function, If, Opaque, Raise, Stmt, Store, View, While
from fgrad.locks import lazy


@dataclass
class Plan:
    """What happens to statements of the forward sweep."""

    reverse: dict[Stmt, list[ast.stmt]] = field(default_factory=dict)
    recomputed: dict[int, list[Stmt]] = field(default_factory=dict)  # by block: what runs again before
    again: set[Stmt] = field(default_factory=set)  # statements that are recomputed, and those inside
    pushed: set[Stmt] = field(default_factory=set)  # what they overwrite is recorded
    slots: dict[Stmt, str] = field(default_factory=dict)  # the same, of statements that are recomputed
    contents: dict[int, list[Stmt]] = field(default_factory=dict)  # by block: arrays recorded at its end
    live: set[Stmt] = field(default_factory=set)  # statements of the forward sweep
    turns: dict[Stmt, set[Stmt]] = field(default_factory=dict)  # by loop: what runs before a turn's reverse
    segments: dict[Stmt, list[str]] = field(default_factory=dict)  # by loop: what its snapshots hold
    weight: int = 0  # how much the forward sweep records

    def records(self, s: Stmt) -> bool:
        """Return whether anything is recorded in a statement."""
        return any(
            t in self.pushed or any(self.contents.get(id(b)) for b in syntax.blocks(t))
            for t in syntax.walk([s])
        )

    def has_reverse(self, s: Stmt) -> bool:
        """Return whether there is anything in the reverse of a statement."""
        return self.records(s) or any(self.reverse.get(t) or t in self.slots for t in syntax.walk([s]))


class _CarriedError(Exception):
    """The turns of a loop cannot run again in the reverse sweep: one takes what another one changes."""


class Recording:
    """The analysis of one function."""

    def __init__(self, reversal: Reversal) -> None:
        self.reversal, self.function = reversal, reversal.function
        self.plan = Plan()
        self.fused: tuple[Stmt, ...] = ()
        self._slot_names: dict[Stmt, str] = {}
        self.views = {s.name: s for s in syntax.walk(self.function.body) if isinstance(s, View)}
        for s in syntax.walk(self.function.body):
            if isinstance(s, Assign | Store):
                self.plan.reverse[s] = reversal.of(s)
        self._uses: dict[Stmt, set[str]] = {}
        self._reads: dict[Stmt, tuple[str, ...]] = {}
        self.bounds = Bounds(self.function)
        self.owners = self.bounds.owners
        self.all_reads = Counter([*self.read_below(self.function.body), *self.function.returns])

    def run(self) -> Plan:
        """Return the plan: of the loops whose turns may run again, those do where that records less."""
        best = self.analysed(())
        found: tuple[Stmt, ...] = ()
        for s in syntax.walk(self.function.body):
            if not isinstance(s, For) or self.region(s, found) or not self.records_its_own(s, best):
                continue
            try:
                trial = self.analysed((*found, s))
            except _CarriedError:
                continue
            if trial.weight < best.weight:
                best, found = trial, (*found, s)
        self.fused, self.plan = found, best
        if self.function.snapshots:
            self.keep_snapshots()
        return best

    def analysed(self, fused: tuple[Stmt, ...]) -> Plan:
        """Return the plan where the turns of some loops run again, each before its reverse."""
        self.fused = fused
        self.plan = Plan(self.plan.reverse)
        self.takers = self.elements_taken()
        at_end = self.block(self.function.body, set(), top=True, inner=False)
        self.plan.live = self.sweep_live(self.function.body, at_end, None)
        self.plan.weight = self.weight()
        return self.plan

    def weight(self) -> int:
        """Return how much the forward sweep records: what it records in loops counts more."""
        held = {s for found in self.plan.contents.values() for s in found}
        return sum(
            32 ** sum(isinstance(t, For | While) for t in self.owners[s]) * (32 if s in held else 1)
            for s in self.plan.pushed | held
            if self.region(s, self.fused) is None
        )

    # ---- reads and writes ---------------------------------------------------------------------------

    def names(self, found: Iterable[tuple[str, Any]]) -> Iterator[str]:
        """Yield scalars and roots of arrays, and what views on the way to them are made of."""
        for name, _ in found:
            if name not in self.reversal.primals:
                yield from self.chain(name)
            elif syntax.is_array(self.function.types[self.reversal.primals[name]]):
                yield from self.chain(self.reversal.primals[name], content=False)

    def chain(self, name: str, *, content: bool = True) -> Iterator[str]:
        """Yield what takes part in one name."""
        if name not in self.function.types:
            return
        if not syntax.is_array(self.function.types[name]):
            yield name
            return
        if content:
            yield self.reversal.root(name)
        view = self.views.get(name)
        if view is not None:
            for n, index in syntax.reads(view.form):
                if n != view.source:
                    yield n
                for i in index or ():
                    yield from (m for m, _ in syntax.reads(i))
            yield from self.chain(view.source, content=False)

    def uses(self, s: Stmt) -> set[str]:
        """Return what the reverse of a statement itself takes."""
        if s not in self._uses:
            found: set[str] = set()
            if isinstance(s, Assign | Store):
                found |= set(self.names(operands(self.plan.reverse[s])))
            elif isinstance(s, If):
                found |= set(self.names(syntax.reads(s.test)))
            elif isinstance(s, For) and not s.count:
                found |= set(self.names(r for n in (s.start, s.stop, s.step) for r in syntax.reads(n)))
            elif isinstance(s, For):
                found |= {s.count, *self.names(r for n in (s.start, s.step) for r in syntax.reads(n))}
            elif isinstance(s, While):
                found.add(s.count)
            elif isinstance(s, View) and s.name in self.reversal.active:
                found |= set(self.chain(s.name, content=False))
            elif isinstance(s, Alloc) and s.name in self.reversal.active:
                found |= set(self.names(r for n in s.dims for r in syntax.reads(n)))
            self._uses[s] = {n for n in found if n in self.function.types}
        return self._uses[s]

    def read_by(self, s: Stmt) -> tuple[str, ...]:
        """Return what the statement itself reads."""
        if s not in self._reads:
            self._reads[s] = tuple(self.found_reads(s))
        return self._reads[s]

    def found_reads(self, s: Stmt) -> Iterator[str]:
        """Yield what the statement itself reads."""
        if isinstance(s, View):
            yield from self.chain(s.name, content=False)
            return
        for e in syntax.heads(s):
            yield from self.names(syntax.reads(e))
        if isinstance(s, Store):
            yield from self.chain(s.array, content=False)
        if isinstance(s, For | While):
            yield from s.until

    def read_below(self, body: Sequence[Stmt]) -> Iterator[str]:
        """Yield what statements and those inside of them read, forward and in reverse."""
        for s in syntax.walk(body):
            yield from self.read_by(s)
            yield from self.uses(s)

    def written_by(self, s: Stmt) -> set[str]:
        """Return the scalars that are assigned in a statement, and the roots of arrays it stores to."""
        found = set()
        for t in syntax.walk([s]):
            if isinstance(t, Assign):
                found.add(t.name)
            elif isinstance(t, Store):
                found.add(self.reversal.root(t.array))
            elif isinstance(t, Alloc | Opaque):
                found.add(t.name)
            elif isinstance(t, For):
                found.add(t.var)
        return found

    def elements_taken(self) -> dict[str, list[tuple[Stmt, str, Any]]]:
        """Return by roots of arrays the statements that read elements in reverse, or when recomputed."""
        found: dict[str, list[tuple[Stmt, str, Any]]] = {}
        for s in syntax.walk(self.function.body):
            read = [r for e in syntax.heads(s) for r in syntax.reads(e)]
            if isinstance(s, Assign | Store):
                if isinstance(s, Store) and not self.runs_again(s):
                    read = []
                read += list(operands(self.plan.reverse[s]))
            for name, index in read:
                if syntax.is_array(self.function.types.get(name)):
                    found.setdefault(self.reversal.root(name), []).append((s, name, index))
        return found

    def runs_again(self, s: Stmt) -> bool:
        """Return whether a statement is part of a loop whose turns run again in the reverse sweep."""
        return self.region(s, self.fused) is not None or any(map(self.is_segmented, self.owners[s]))

    def overwrites(self, s: Store) -> bool:
        """Return whether a store may overwrite an element that somebody has taken before."""
        takers = self.takers.get(self.reversal.root(s.array), [])
        return any(self.bounds.may_overwrite(s, user, name, index) for user, name, index in takers)

    # ---- scalars that are recomputed ----------------------------------------------------------------

    def locals(self, body: list[Stmt]) -> set[str]:
        """Return scalars that every run of a block assigns before it reads them, and nobody reads behind."""
        counts = Counter(self.read_below(body))
        assigned = {s.name for s in syntax.walk(body) if isinstance(s, Assign)}
        hidden = {n for n in assigned if counts[n] == self.all_reads[n]}
        return {n for n in hidden if self.defined_first(n, body) is not False}

    def defined_first(self, name: str, body: Sequence[Stmt]) -> bool | None:
        """Return whether a block assigns a scalar before it reads it; None: it does neither for sure."""
        for s in body:
            if name in self.read_by(s) and not isinstance(s, For | While):
                return False
            if isinstance(s, Assign) and s.name == name:
                return True
            if isinstance(s, If):
                ways = [self.defined_first(name, b) for b in (s.body, s.orelse)]
                if False in ways:
                    return False
                if all(ways):
                    return True
            elif isinstance(s, For | While):
                heads = [s.start, s.stop, s.step] if isinstance(s, For) else [s.test]
                if any(n == name for e in heads for n in self.names(syntax.reads(e))):
                    return False
                if self.defined_first(name, s.body) is False:
                    return False
        return None

    def candidates(self, body: list[Stmt]) -> list[Stmt]:
        """Return the statements of a block that may run again when all of it has run."""
        own = self.locals(body)
        units = {s: k for k, s in enumerate(body) if isinstance(s, View | Opaque) or self.is_plain(s, own)}
        writes = [self.written_by(s) for s in body]
        changed = True
        while changed:
            changed = False
            safe = {n for n in own if all(s in units for k, s in enumerate(body) if n in writes[k])}
            for s, k in list(units.items()):
                if isinstance(s, View):
                    continue
                if not self.stays(s, k, body, writes, safe):
                    del units[s]
                    changed = True
        return list(units)

    def is_plain(self, s: Stmt, own: set[str]) -> bool:
        """Return whether a statement holds nothing but assignments to certain scalars."""
        if isinstance(s, Assign):
            return s.name in own
        if isinstance(s, If):
            return all(self.is_plain(t, own) for t in (*s.body, *s.orelse))
        return False

    def stays(self, s: Stmt, place: int, body: list[Stmt], writes: list[set[str]], safe: set[str]) -> bool:
        """Return whether a statement gives the same once all of the block has run."""
        if not isinstance(s, Opaque) and any(n not in safe for n in writes[place]):
            return False
        for t in syntax.walk([s]):
            for e in syntax.heads(t):
                for name, index in syntax.reads(e):
                    if name not in self.function.types or name in safe:
                        continue
                    if not syntax.is_array(self.function.types[name]):
                        if any(name in w for w in writes[place:]):
                            return False
                        continue
                    root = self.reversal.root(name)
                    later = [u for k, u in enumerate(body) if k >= place and root in writes[k]]
                    if any(not self.apart(name, index, u) for u in later):
                        return False
                    links = set(self.chain(name, content=False))
                    if any(n in w for n in links for w in writes[place:] if n not in safe):
                        return False
        return True

    def apart(self, name: str, index: Any, other: Stmt) -> bool:
        """Return whether a later store is to other elements for sure: indices that differ by a constant."""
        if not index or not isinstance(other, Store) or other.array != name:
            return False
        for i, j in zip(index, other.index, strict=True):
            x, y = linear(i), linear(j)
            if (
                x is None
                or y is None
                or x[0] != y[0]
                or x[1] == y[1]
                or not self.bounds.several.isdisjoint(x[0])
            ):
                continue
            if self.bounds.is_positive(x) and self.bounds.is_positive(y):  # neither counts from the end
                return True
        return False

    # ---- to be recorded -----------------------------------------------------------------------------

    def block(self, body: list[Stmt], before: set[str], *, top: bool, inner: bool) -> set[str]:
        """Return what is needed behind a block, and mark what is to be recorded inside.

        Args:
            body: the block.
            before: what the reverse of all that ran before takes.
            top: whether it runs once.
            inner: whether it is part of a statement that is recomputed.
        """
        own: list[Stmt] = []
        safe: set[str] = set()
        if not top and not inner:
            own = self.chosen(body)
            self.plan.recomputed[id(body)] = own
            self.plan.again |= {t for s in own for t in syntax.walk([s])}
            safe = {n for s in own for n in self.written_by(s) if not isinstance(s, View)}
        needed = set(before)
        for s in body:
            needed = self.step(s, needed, inner=inner or s in own)
        for s in own:
            for t in syntax.walk([s]):
                needed |= {n for n in self.read_by(t) if n not in safe}
        needed -= safe
        if not top:
            held: list[Stmt] = [s for s in body if isinstance(s, Alloc) and s.name in needed]
            if held or id(body) in self.plan.contents:
                self.plan.contents[id(body)] = held
            for s in body:
                if isinstance(s, Opaque) and s not in own and s.name in needed:
                    raise self.unsupported(
                        s.line,
                        f"`{syntax.text(s.value)}` gives an array inside a loop, from what changes "
                        "behind it. Write it into an array that is made before the loop",
                    )
                if isinstance(s, Alloc | Opaque):
                    needed.discard(s.name)
                if isinstance(s, Alloc):
                    needed |= {n for e in s.dims for n in self.names(syntax.reads(e)) if n not in safe}
        return needed

    def chosen(self, body: list[Stmt]) -> list[Stmt]:
        """Return the statements of a block that are recomputed: the reverse sweep takes what they give."""
        wanted: set[str] = set()
        size = -1
        while size != len(wanted):
            size = len(wanted)
            for s in syntax.walk(body):
                if (
                    not isinstance(s, If | For | While)
                    or self.plan.has_reverse(s)
                    or self.written_by(s) & wanted
                ):
                    wanted |= self.uses(s)
                if isinstance(s, Alloc):
                    wanted |= set(self.read_by(s))
                if s in self.fused:
                    wanted |= set(self.read_below(syntax.blocks(s)[0]))
        found: list[Stmt] = []
        for s in reversed(self.candidates(body)):
            if isinstance(s, View) or self.written_by(s) & wanted:
                found.append(s)
                for t in syntax.walk([s]):
                    wanted |= set(self.read_by(t)) | self.uses(t)
        return found[::-1]

    def step(self, s: Stmt, needed: set[str], *, inner: bool) -> set[str]:
        """Return what is needed behind a statement."""
        if isinstance(s, Assign):
            needed = needed | self.uses(s)
            if s.name in needed:
                self.mark(s, inner=inner)
            return needed - {s.name}
        if isinstance(s, Store):
            needed = needed | self.uses(s)
            if self.reversal.root(s.array) in needed and self.overwrites(s):
                self.mark(s, inner=inner)
            return needed
        if isinstance(s, If):
            ways = [self.block(b, needed, top=False, inner=inner) for b in (s.body, s.orelse)]
            return ways[0] | ways[1] | (self.uses(s) if self.plan.has_reverse(s) else set())
        if s in self.fused:
            return needed | self.uses(s) | self.turn(s, needed)
        if isinstance(s, For | While):
            around = set(needed)
            while True:
                behind = self.block(s.body, around, top=False, inner=inner)
                if behind <= around:
                    break
                around |= behind
            if self.is_segmented(s):
                around |= self.taken_by_turns(s, set(syntax.walk(s.body))) - self.written_by(s)
            return around | (self.uses(s) if self.plan.has_reverse(s) else set())
        return needed | self.uses(s)

    def mark(self, s: Stmt, *, inner: bool) -> None:
        """Let what a statement overwrites be recorded."""
        if inner:
            if s not in self._slot_names:
                self._slot_names[s] = self.reversal.fresh(f"{s.name}_old")  # type: ignore[union-attr]
            self.plan.slots[s] = self._slot_names[s]
        else:
            self.plan.pushed.add(s)

    def records_its_own(self, s: For, plan: Plan) -> bool:
        """Return whether a plan records something in a loop, and only what a turn makes for itself."""
        own = {t.name for t in syntax.walk(s.body) if isinstance(t, Alloc)}
        return not s.until and plan.records(s) and all(
            self.reversal.root(t.array) in own if isinstance(t, Store) else self.is_own(t.name, s.body)  # type: ignore[union-attr]
            for t in syntax.walk(s.body) if t in plan.pushed
        )  # fmt: skip

    # ---- loops whose turns run again ----------------------------------------------------------------

    def turn(self, s: Any, before: set[str]) -> set[str]:
        """Return what a loop reads whose turns run again, each before its reverse.

        Raises:
            _CarriedError: they cannot.
        """
        written = self.written_by(s) - {t.var for t in syntax.walk([s]) if isinstance(t, For)}
        if not written.isdisjoint(before):
            raise _CarriedError
        at_end = self.block(s.body, set(), top=True, inner=False)
        self.plan.turns[s] = live = self.sweep_live(s.body, at_end, s)
        read = self.taken_by_turns(s, live)
        if not written.isdisjoint(read):
            raise _CarriedError
        return read

    def taken_by_turns(self, s: Any, live: set[Stmt]) -> set[str]:
        """Return what turns of a loop take from outside, where they run again and in their reverse."""
        own = {t.name for t in syntax.walk(s.body) if isinstance(t, Alloc | Opaque)} | {s.var}
        own |= {t.var for t in syntax.walk(s.body) if isinstance(t, For)}
        found: set[str] = set()
        for t in syntax.walk(s.body):
            found |= self.uses(t)
            if t in live or isinstance(t, View | Alloc):
                found |= set(self.read_by(t))
        kinds = self.function.types
        return {n for n in found - own
                if n in kinds and (syntax.is_array(kinds[n]) or not self.is_own(n, s.body))}  # fmt: skip

    def is_own(self, name: str, body: list[Stmt]) -> bool:
        """Return whether every run of a block that reads a scalar has assigned it before."""
        assigned = any(isinstance(t, Assign) and t.name == name for t in syntax.walk(body))
        return assigned and self.defined_first(name, body) is not False

    def is_segmented(self, s: Stmt) -> bool:
        """Return whether a loop is one that keeps snapshots: outside of others, of known length."""
        if not self.function.snapshots or not isinstance(s, For) or s.until or s in self.fused:
            return False
        return not any(isinstance(t, For | While) for t in self.owners[s])

    def unsupported(self, line: int, what: str) -> syntax.UnsupportedKernelError:
        """Return the error for what stands in a line of the function."""
        return syntax.unsupported(self.function.file, line, self.function.name, what)

    def keep_snapshots(self) -> None:
        """Let loops keep snapshots, where they would record something in every turn."""
        for s in syntax.walk(self.function.body):
            if not isinstance(s, For | While) or s in self.fused or not self.plan.records(s):
                continue
            if any(isinstance(t, For | While) for t in self.owners[s]):
                continue
            if not self.is_segmented(s):
                raise self.unsupported(
                    s.line,
                    "checkpoint= meets a loop whose turns are not counted before it runs. Write it as a loop "
                    "over a range, without break and return, or leave checkpoint= out",
                )
            inner = {t.name for t in syntax.walk(s.body) if isinstance(t, Alloc | Opaque)}
            held: set[str] = set()
            for t in syntax.walk(s.body):
                if t in self.plan.live and isinstance(t, Assign) and not self.is_own(t.name, s.body):
                    held.add(t.name)
                elif t in self.plan.live and isinstance(t, Store):
                    held.add(self.reversal.root(t.array))
            self.plan.segments[s] = sorted(n for n in held - inner if not is_scratch(n, s, self))

    # ---- the forward sweep --------------------------------------------------------------------------

    def sweep_live(self, body: list[Stmt], at_end: set[str], loop: Stmt | None) -> set[Stmt]:
        """Return the statements that somebody needs: the reverse sweep, what is recorded, or other ones.

        Args:
            body: a block that runs before its reverse does.
            at_end: what its reverse takes.
            loop: the loop around it whose turns run again; None for the whole function.
        """
        needed = set(at_end)
        live: set[Stmt] = set()
        recorded = {s for s in self.plan.pushed if self.region(s, self.fused) is loop}
        held = [s for found in self.plan.contents.values() for s in found]
        contents = {s for s in held if self.region(s, self.fused) is loop}
        needed |= {s.name for s in contents if isinstance(s, Alloc)}
        inside = set(syntax.walk(body))
        grew = True
        while grew:
            grew = False
            for s in syntax.walk(body):
                if s in live or not (s in recorded or s in contents or self.is_live(s, needed)):
                    continue
                grew = True
                for t in (s, *self.owners[s]):
                    if t not in live and t in inside:
                        live.add(t)
                        needed |= set(self.read_by(t))
                        if isinstance(t, For | While):
                            needed |= set(t.until)
                        if t in recorded:
                            needed.add(t.name if isinstance(t, Assign) else self.reversal.root(t.array))  # type: ignore[union-attr]
        return live

    def region(self, s: Stmt, fused: Sequence[Stmt]) -> Stmt | None:
        """Return the one of some loops that is around a statement."""
        return next((t for t in self.owners[s] if t in fused), None)

    def is_live(self, s: Stmt, needed: set[str]) -> bool:
        """Return whether a statement gives what somebody needs."""
        if isinstance(s, Assign):
            return s.name in needed
        if isinstance(s, Store):
            return self.reversal.root(s.array) in needed
        if isinstance(s, Alloc | Opaque | View):
            return self.reversal.root(s.name) in needed or s.name in needed or s.name in self.shapes
        return isinstance(s, Raise) and bool(getattr(s.value, "kept", False))

    @lazy
    def shapes(self) -> set[str]:
        """The arrays whose shapes are read, and what views on the way to them are made of."""
        found = shapes_read(self.function)
        for n in list(found):
            view = self.views.get(n)
            while view is not None:
                found.add(view.source)
                view = self.views.get(view.source)
        return found


def shapes_read(function: Function) -> set[str]:
    """Return the arrays whose shapes a function reads."""
    heads = (e for s in syntax.walk(function.body) for e in syntax.heads(s))
    found = (n for e in heads for n in nodes_of(e) if isinstance(n, ast.Attribute) and n.attr == "shape")
    return {n.value.id for n in found if isinstance(n.value, ast.Name)}
