"""What the forward sweep records: analysis of which values the reverse sweep takes, and where it gets them.

In the reverse of a block that runs many times, scalars that belong to one run of it are computed again, if
what they are computed from is still there ("recomputed"). All else that the reverse sweep takes and somebody
overwrites is recorded before it is overwritten, and restored on the way back (to-be-recorded analysis:
Hascoët, Naumann & Pascual 2005). What neither of them needs is left out of the forward sweep.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fgrad.adjoints import syntax
from fgrad.adjoints.overwriting import Bounds, linear
from fgrad.adjoints.reversal import Reversal, operands
from fgrad.adjoints.syntax import Alloc, Assign, For, If, Opaque, Raise, Stmt, Store, View, While


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
    needed: set[str] = field(default_factory=set)  # names that the forward sweep has to leave right


class Recording:
    """The analysis of one function."""

    def __init__(self, reversal: Reversal) -> None:
        self.reversal, self.function = reversal, reversal.function
        self.plan = Plan()
        self.views = {s.name: s for s in syntax.walk(self.function.body) if isinstance(s, View)}
        self.primal = {ct: n for n, ct in reversal.cts.items()}
        for s in syntax.walk(self.function.body):
            if isinstance(s, Assign | Store):
                self.plan.reverse[s] = reversal.of(s)
        self._uses: dict[Stmt, set[str]] = {}
        self.bounds = Bounds(self.function)
        self.takers = self.elements_taken()
        self.all_reads: dict[str, int] = {}
        for name in self.read_below(self.function.body):
            self.all_reads[name] = self.all_reads.get(name, 0) + 1
        for name in self.function.returns:
            self.all_reads[name] = self.all_reads.get(name, 0) + 1

    def run(self) -> Plan:
        """Return the plan."""
        at_end = self.block(self.function.body, set(), top=True, inner=False)
        self.sweep_live(at_end)
        return self.plan

    # ---- reads and writes ---------------------------------------------------------------------------

    def names(self, found: Iterable[tuple[str, Any]]) -> Iterator[str]:
        """Yield scalars and roots of arrays, and what views on the way to them are made of."""
        for name, _ in found:
            if name not in self.primal:
                yield from self.chain(name)
            elif syntax.is_array(self.function.types[self.primal[name]]):
                yield from self.chain(self.primal[name], content=False)

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

    def read_by(self, s: Stmt) -> Iterator[str]:
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
                if isinstance(s, Store):
                    read = []
                read += list(operands(self.plan.reverse[s]))
            for name, index in read:
                if syntax.is_array(self.function.types.get(name)):
                    found.setdefault(self.reversal.root(name), []).append((s, name, index))
        return found

    def overwrites(self, s: Store) -> bool:
        """Return whether a store may overwrite an element that somebody has taken before."""
        takers = self.takers.get(self.reversal.root(s.array), [])
        return any(self.bounds.may_overwrite(s, user, name, index) for user, name, index in takers)

    # ---- scalars that are recomputed ----------------------------------------------------------------

    def locals(self, body: list[Stmt]) -> set[str]:
        """Return scalars that every run of a block assigns before it reads them, and nobody reads behind."""
        counts: dict[str, int] = {}
        for n in self.read_below(body):
            counts[n] = counts.get(n, 0) + 1
        assigned = {s.name for s in syntax.walk(body) if isinstance(s, Assign)}
        found = set()
        for n in assigned:
            if counts.get(n, 0) == self.all_reads.get(n, 0) and self.defined_first(n, body) is not False:
                found.add(n)
        return found

    def defined_first(self, name: str, body: Sequence[Stmt]) -> bool | None:
        """Return whether a block assigns a scalar before it reads it; None: it does neither for sure."""
        for s in body:
            if any(n == name for n in self.read_by(s)) and not isinstance(s, For | While):
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
                    raise syntax.UnsupportedKernelError(
                        f"{self.function.file}:{s.line}: in {self.function.name}, "
                        f"`{syntax.text(s.value)}` gives an array inside a loop, from what changes "
                        "behind it. Write it into an array that is made before the loop"
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
                if not isinstance(s, If | For | While) or self.has_reverse(s) or self.written_by(s) & wanted:
                    wanted |= self.uses(s)
                if isinstance(s, Alloc):
                    wanted |= set(self.read_by(s))
        found: list[Stmt] = []
        for s in reversed(self.candidates(body)):
            if isinstance(s, View) or self.written_by(s) & wanted:
                found.append(s)
                for t in syntax.walk([s]):
                    wanted |= set(self.read_by(t)) | self.uses(t)
        return found[::-1]

    def has_reverse(self, s: Stmt) -> bool:
        """Return whether there is anything in the reverse of a statement."""
        if any(self.plan.contents.get(id(b)) for t in syntax.walk([s]) for b in syntax.blocks(t)):
            return True
        return any(self.plan.reverse.get(t) or t in self.plan.pushed or t in self.plan.slots
                   for t in syntax.walk([s]))  # fmt: skip

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
            return ways[0] | ways[1] | (self.uses(s) if self.has_reverse(s) else set())
        if isinstance(s, For | While):
            around = set(needed)
            while True:
                behind = self.block(s.body, around, top=False, inner=inner)
                if behind <= around:
                    break
                around |= behind
            return around | (self.uses(s) if self.has_reverse(s) else set())
        return needed | self.uses(s)

    def mark(self, s: Stmt, *, inner: bool) -> None:
        """Let what a statement overwrites be recorded."""
        if inner:
            if s not in self.plan.slots:
                self.plan.slots[s] = self.reversal.fresh(f"{s.name}_old")  # type: ignore[union-attr]
        else:
            self.plan.pushed.add(s)

    # ---- the forward sweep --------------------------------------------------------------------------

    def sweep_live(self, at_end: set[str]) -> None:
        """Find the statements that somebody needs: the reverse sweep, what is recorded, or other ones."""
        needed = set(at_end)
        live: set[Stmt] = set()
        contents = {s for held in self.plan.contents.values() for s in held}
        needed |= {s.name for s in contents if isinstance(s, Alloc)}
        owners = _owners(self.function.body)
        grew = True
        while grew:
            grew = False
            for s in syntax.walk(self.function.body):
                if s in live or not self.is_live(s, needed, live, contents):
                    continue
                grew = True
                for t in (s, *owners[s]):
                    if t not in live:
                        live.add(t)
                        needed |= set(self.read_by(t))
                        if isinstance(t, For | While):
                            needed |= set(t.until)
                        if t in self.plan.pushed:
                            needed.add(t.name if isinstance(t, Assign) else self.reversal.root(t.array))  # type: ignore[union-attr]
        self.plan.live, self.plan.needed = live, needed

    def is_live(self, s: Stmt, needed: set[str], live: set[Stmt], contents: set[Stmt]) -> bool:
        """Return whether a statement of the forward sweep is needed."""
        if s in self.plan.pushed or s in contents:
            return True
        if isinstance(s, Assign):
            return s.name in needed
        if isinstance(s, Store):
            return self.reversal.root(s.array) in needed
        if isinstance(s, Alloc | Opaque | View):
            return self.reversal.root(s.name) in needed or s.name in needed or self.has_length(s.name, live)
        return isinstance(s, Raise) and bool(getattr(s.value, "kept", False))

    def has_length(self, name: str, live: set[Stmt]) -> bool:
        """Return whether somebody asks for the shape of an array."""
        del live
        return name in self.shapes

    @property
    def shapes(self) -> set[str]:
        """Return the arrays whose shapes are read."""
        if not hasattr(self, "_shapes"):
            self._shapes = set()
            for s in syntax.walk(self.function.body):
                for e in syntax.heads(s):
                    self._shapes |= shapes_of(e)
            for n in list(self._shapes):
                view = self.views.get(n)
                while view is not None:
                    self._shapes.add(view.source)
                    view = self.views.get(view.source)
        return self._shapes


def shapes_of(node: ast.AST) -> set[str]:
    """Return the arrays whose shapes an expression reads."""
    found = (n for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr == "shape")
    return {n.value.id for n in found if isinstance(n.value, ast.Name)}


def _owners(body: list[Stmt]) -> dict[Stmt, tuple[Stmt, ...]]:
    found: dict[Stmt, tuple[Stmt, ...]] = {}

    def visit(stmts: list[Stmt], around: tuple[Stmt, ...]) -> None:
        for s in stmts:
            found[s] = around
            for b in syntax.blocks(s):
                visit(b, (*around, s))

    visit(body, ())
    return found
