"""Loops around loops, whose turns may go in any order: a block of turns goes through inner loops together.

A recurrence in the inner loop, such as Horner's, leaves LLVM nothing to compute side by side but the turns
of the outer one. So each statement becomes a loop over a block of turns, and what these have of their own
lies in short arrays. What all turns share is computed once; what they add to one element is summed first.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from typing import Any

from numba import types

from fgrad.adjoints.compact import kind_of
from fgrad.adjoints.names import nodes_of, reads_of, target_of
from fgrad.adjoints.stacks import NAMES
from fgrad.adjoints.strips import (
    ANY_ORDER,
    LENGTH,
    SMOOTH,
    Rewriting,
    element_of,
    ends_of,
    loop_over_parts,
    turn_of,
)
from fgrad.adjoints.syntax import filled

DEEP, SHALLOW = 512, 4  # values that a turn records, above which blocks are shorter; turns in those


class UnfitError(Exception):
    """A loop cannot be written in blocks."""


def in_blocks(function: ast.FunctionDef, kinds: Mapping[str, Any]) -> ast.FunctionDef:
    """Return a function in which loops around loops go through blocks of turns, where they can.

    Args:
        function: which is changed.
        kinds: the types of arrays by name.
    """
    return _Blocks(function, kinds, "block_values").applied()


class _Blocks(Rewriting):
    """Writes loops over `any_order(range(...))` that hold others in blocks."""

    def visit_For(self, node: ast.For) -> Any:  # noqa: N802 -- the name that `ast` calls
        head: Any = node.iter
        if head.func.id != ANY_ORDER or not any(isinstance(s, ast.For) for s in node.body):
            self.generic_visit(node)
            return node
        try:
            work = _Block(node, self)
            made = work.written()
        except UnfitError:
            node.iter = head.args[0]
            self.generic_visit(node)
            return node
        self.most = max(self.most, len(work.slots))
        return made


class _Block:
    """One such loop."""

    def __init__(self, node: ast.For, around: _Blocks) -> None:
        self.node, self.around, self.kinds = node, around, around.kinds
        self.var: str = node.target.id  # type: ignore[attr-defined]
        self.ends = ends_of(node.iter.args[0])  # type: ignore[attr-defined]
        demand(self.ends is not None)
        self.size, self.low, self.length = (around.fresh(n) for n in ("size", "low", "block"))
        self.body = [*self.zeros(), *[self.unguarded(s) for s in node.body]]
        self.inner: set[str] = set()  # variables of inner loops
        self.values: dict[str, list[ast.expr]] = {}  # by assigned name
        self.stored: set[str] = set()
        self.recorded: list[ast.expr] = []  # how much inner loops record
        self.order: list[tuple[str, bool]] = []  # names as they come, with whether they are assigned
        self.look(self.body)
        self.varying = self.found_varying()
        self.sums = {n for n in self.values if all(_is_sum(n, v) for v in self.values[n])}
        self.check()
        self.groups: dict[str, set[int]] = {}
        self.first: dict[str, tuple[int, bool]] = {}
        self.count = 0
        self.slots: dict[str, int] = {}

    def zeros(self) -> list[ast.stmt]:
        """Return zeros for what every turn leaves as zero to the next one."""
        last = {ast.unparse(s.targets[0]): s for s in self.node.body if isinstance(s, ast.Assign)}
        inside = {id(n) for n in nodes_of(self.node)}
        outside = [s for s in nodes_of(self.around.function)
                   if isinstance(s, ast.Assign) and id(s) not in inside]  # fmt: skip
        found: list[ast.stmt] = []
        for n, s in last.items():
            values = [s.value, *[t.value for t in outside if ast.unparse(t.targets[0]) == n]]
            if n.isidentifier() and all(ast.unparse(v) == "0.0" for v in values):
                later = self.node.body[self.node.body.index(s) + 1 :]
                if len(values) > 1 and not any(_mentions(t, {n}) for t in later):
                    found.append(copy.deepcopy(s))
        return found

    # ---- what it holds ------------------------------------------------------------------------------

    def unguarded(self, s: ast.stmt) -> ast.stmt:
        """Return a sum that is added where the loop's variable says without asking whether there is one."""
        if not isinstance(s, ast.If) or len(s.body) != 1 or s.orelse:
            return s
        add = s.body[0]
        if not isinstance(add, ast.AugAssign) or not isinstance(add.target, ast.Subscript):
            return s
        where = add.target.slice
        parts = where.elts if isinstance(where, ast.Tuple) else [where]
        own = {f"uint64({self.var})", self.var}
        known = all(isinstance(p, ast.Constant) or ast.unparse(p) in own for p in parts)
        return add if known and ast.unparse(s.test).endswith(" != 0.0") else s

    def look(self, body: Sequence[ast.stmt]) -> None:
        """Note what statements read and assign."""
        for s in body:
            if isinstance(s, ast.For):
                demand(isinstance(s.target, ast.Name) and ast.unparse(s.iter.func) in {"range", ANY_ORDER})  # type: ignore[attr-defined]
                self.read(s.iter)
                self.inner.add(s.target.id)  # type: ignore[attr-defined]
                self.order.append((s.target.id, True))  # type: ignore[attr-defined]
                self.look(s.body)
            elif isinstance(s, ast.If):
                self.recorded.append(_reserved(s))
                self.read(self.recorded[-1])
            elif isinstance(s, ast.Assign | ast.AugAssign):
                self.read(s.value)
                target = target_of(s)
                if isinstance(target, ast.Name):
                    demand(isinstance(s, ast.Assign))
                    self.values.setdefault(target.id, []).append(s.value)
                    self.order.append((target.id, True))
                else:
                    demand(isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name))
                    self.read(target.slice)
                    name = target.value.id
                    self.element(name)
                    self.stored.add(name)
                    moves = _mentions(target.slice, {self.var})
                    demand(moves or isinstance(s, ast.AugAssign) or name == "sf")
            else:
                raise UnfitError

    def read(self, node: ast.AST) -> None:
        """Note what an expression reads."""
        for n in nodes_of(node):
            if isinstance(n, ast.Name):
                self.order.append((n.id, False))
                demand(n.id not in NAMES - {"sf", "pf"})
            elif isinstance(n, ast.Subscript) and not isinstance(n.value, ast.Attribute):
                demand(isinstance(n.value, ast.Name))
                self.element(n.value.id)  # type: ignore[attr-defined]
            elif isinstance(n, ast.IfExp | ast.Compare | ast.BoolOp | ast.Slice):
                raise UnfitError

    def element(self, name: str) -> None:
        """Refuse arrays of other numbers than double precision."""
        kind = kind_of(name, self.kinds)
        demand(name == "sf" or (kind is not None and kind.dtype == types.float64))

    def found_varying(self) -> set[str]:
        """Return the names whose values differ from turn to turn."""
        found: set[str] = set()
        while True:
            more = {n for n, values in self.values.items() if any(self.moves(v, found) for v in values)}
            if more <= found:
                return found
            found |= more

    def moves(self, node: ast.AST, varying: set[str]) -> bool:
        """Return whether an expression differs from turn to turn."""
        return _mentions(node, {self.var, "sf", *varying, *self.stored}, shapes=False)

    def check(self) -> None:
        """Refuse what a block would compute otherwise."""
        demand(bool(self.varying) and self.var not in self.values and not self.inner & self.values.keys())
        first: dict[str, bool] = {}
        for n, assigned in self.order:
            first.setdefault(n, assigned)
        self.carried = carried = {n for n in self.values if not first[n]} - {"pf"}
        demand(carried <= self.sums & self.varying)
        everywhere = [n.id for n in nodes_of(self.around.function) if isinstance(n, ast.Name)]
        here = [n.id for n in nodes_of(self.node) if isinstance(n, ast.Name)]
        zeros = {s.targets[0].id for s in self.zeros()}  # type: ignore[attr-defined]
        private = (self.varying - carried - zeros) | {self.var}
        demand(all(everywhere.count(n) == here.count(n) for n in private))
        read, mine = ([n.id for n in reads_of(tree)] for tree in (self.around.function, self.node))
        demand(all(read.count(n) == mine.count(n) for n in zeros))
        for n in self.varying:
            for v in self.values[n]:
                demand(not _mentions(v, {self.var}, elements=False))
                calls = [ast.unparse(c.func) for c in nodes_of(v) if isinstance(c, ast.Call)]
                demand(set(calls) <= SMOOTH)

    # ---- what is written ----------------------------------------------------------------------------

    def written(self) -> list[ast.stmt]:
        """Return the loop over blocks, with what comes before."""
        total = " + ".join(f"({ast.unparse(self.invariant(e))})" for e in self.recorded)
        length = f"{LENGTH} if {total} <= {DEEP} else {SHALLOW}" if total else str(LENGTH)
        body = self.block(self.body)
        for n in sorted(self.varying - self.carried):
            if len(self.groups[n]) > 1 or not self.first[n][1]:
                self.slots[n] = len(self.slots)
        end, loop = loop_over_parts(self.low, self.around.fresh("high"), self.size, self.length, self.ends)  # type: ignore[arg-type]
        loop.body += [t for s in body for t in self.flat(s)]
        return [*ast.parse(f"{self.length} = {length}").body, end, loop]

    def invariant(self, node: ast.expr) -> ast.expr:
        """Return an expression in terms of what the loop does not change."""
        made = node
        for _ in range(8):
            names = {n.id for n in nodes_of(made) if isinstance(n, ast.Name)}
            changed = names & self.values.keys()
            demand(not names & (self.inner | {self.var} | self.varying))
            if not changed:
                return made
            demand(all(len(self.values[n]) == 1 for n in changed))
            made = filled(made, {n: self.values[n][0] for n in changed})
        raise UnfitError

    def block(self, body: Sequence[ast.stmt]) -> list[Any]:
        """Return statements of all turns, and lists of statements of each: the groups."""
        made: list[Any] = []
        group: list[ast.stmt] = []
        pending: list[ast.stmt] = []

        def close() -> None:
            if group:
                self.note(group)
                made.append(list(group))
                group.clear()
            made.extend(pending)
            pending.clear()

        for s in body:
            if isinstance(s, ast.For):
                close()
                inner = copy.copy(s)
                demand(not self.moves(s.iter, self.varying))
                head: Any = s.iter
                inner.iter = head.args[0] if head.func.id == ANY_ORDER else head
                made.append((inner, self.block(s.body)))
            elif isinstance(s, ast.If):
                close()
                made.append(self.reserve(s))
            elif self.is_shared(s):
                pending.append(self.step(s))
            else:
                if any(_mentions(s, {t.targets[0].id}) for t in pending):  # type: ignore[attr-defined]
                    close()
                group.append(s)
        close()
        return made

    def is_shared(self, s: Any) -> bool:
        """Return whether a statement does the same in all turns."""
        target = target_of(s)
        return isinstance(target, ast.Name) and target.id not in self.varying

    def note(self, group: Sequence[ast.stmt]) -> None:
        """Note which names a group of statements has."""
        self.count += 1
        seen: set[str] = set()
        for s in group:
            target = target_of(s)
            names = [n.id for n in nodes_of(s.value) if isinstance(n, ast.Name)]  # type: ignore[attr-defined]
            named = [(n, False) for n in names]
            named += [(target.id, True)] if isinstance(target, ast.Name) else []
            for n, assigned in named:
                self.groups.setdefault(n, set()).add(self.count)
                if n not in seen:
                    before = self.first.get(n, (0, True))
                    self.first[n] = self.count, before[1] and assigned
                    seen.add(n)

    def step(self, s: Any) -> ast.stmt:
        """Return a statement of all turns: the place on the stack moves by a block."""
        if s.targets[0].id != "pf":
            return s  # type: ignore[no-any-return]
        value = s.value
        demand(ast.unparse(value) in {"pf + 1", "pf - 1"})
        return ast.parse(f"pf = pf {'+' if isinstance(value.op, ast.Add) else '-'} {self.length}").body[0]

    def reserve(self, s: ast.If) -> ast.stmt:
        """Return what makes place for what all turns of a block record."""
        size = f"pf + {self.length} * ({ast.unparse(_reserved(s))})"
        return ast.parse(f"if {size} > sf.size:\n    sf = grown(sf, {size})").body[0]

    def flat(self, item: Any) -> list[ast.stmt]:
        """Return the statements of what `block` gives."""
        if isinstance(item, tuple):
            outer, inner = item
            outer.body = [t for s in inner for t in self.flat(s)]
            return [outer]
        if not isinstance(item, list):
            return [item]
        place = self.around.fresh("place")
        before: list[str] = []
        behind: list[ast.stmt] = []
        inside: list[ast.stmt] = []
        for s in item:
            target: Any = target_of(s)
            shared = isinstance(target, ast.Subscript) and not _mentions(target.slice, {self.var})
            if isinstance(s, ast.AugAssign) and shared:
                total = self.around.fresh("sum")
                before.append(f"{total} = 0.0")
                value = ast.unparse(s.value)
                value = f"-({value})" if isinstance(s.op, ast.Sub) else value
                inside.append(ast.parse(f"{total} = plus({total}, {value})").body[0])
                behind.append(ast.AugAssign(target, ast.Add(), ast.Name(total, ast.Load())))
            else:
                inside.append(s)
        shared_loads = _Shared(self, before)
        inside = [shared_loads.visit(copy.deepcopy(s)) for s in inside]
        expand = _Expanded(self.slots, self.around.buffer, place)
        loop = turn_of(place, self.size, self.var, self.low)
        loop.body += [expand.visit(copy.deepcopy(s)) for s in inside]
        return [*ast.parse("\n".join(before)).body, loop, *behind]


class _Shared(ast.NodeTransformer):
    """Reads elements that are the same for all turns before the loop over a block."""

    def __init__(self, block: _Block, before: list[str]) -> None:
        self.block, self.before = block, before
        self.names: dict[str, str] = {}

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        name = node.value.id if isinstance(node.value, ast.Name) else "sf"
        if not isinstance(node.ctx, ast.Load) or name == "sf" or self.block.moves(node, self.block.varying):
            return node
        text = ast.unparse(node)
        if text not in self.names:
            self.names[text] = self.block.around.fresh("held")
            self.before.append(f"{self.names[text]} = {text}")
        return ast.Name(self.names[text], ast.Load())


class _Expanded(ast.NodeTransformer):
    """Puts elements of short arrays, and of the stack, in the place of what every turn has of its own."""

    def __init__(self, slots: Mapping[str, int], buffer: str, place: str) -> None:
        self.slots, self.buffer, self.place = slots, buffer, place

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.slots:
            return node
        return element_of(self.buffer, self.place, self.slots[node.id], node.ctx)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == "sf":
            node.slice = ast.parse(f"uint64(pf + {self.place})", mode="eval").body
            return node
        return self.generic_visit(node)


def demand(condition: bool) -> None:
    """Give up a loop where a condition does not hold."""
    if not condition:
        raise UnfitError


def _mentions(node: ast.AST, names: set[str], *, shapes: bool = True, elements: bool = True) -> bool:
    """Return whether names stand in a node.

    Not with `shapes` off where only the shape of an array does, and with `elements` off in their indices.
    """
    if not shapes and isinstance(node, ast.Attribute) and node.attr in {"shape", "size"}:
        return False
    if not elements and isinstance(node, ast.Subscript):
        return False
    if isinstance(node, ast.Name):
        return node.id in names
    return any(_mentions(n, names, shapes=shapes, elements=elements) for n in ast.iter_child_nodes(node))


def _is_sum(name: str, value: ast.expr) -> bool:
    """Return whether a value is a sum with one more term."""
    if not isinstance(value, ast.Call) or ast.unparse(value.func) != "plus":
        return False
    first, term = value.args
    return isinstance(first, ast.Name) and first.id == name and not _mentions(term, {name})


def _reserved(s: ast.If) -> ast.expr:
    """Return how much place a statement makes on the stack of floats."""
    test = s.test
    fits = isinstance(test, ast.Compare) and ast.unparse(test.comparators[0]) == "sf.size" and not s.orelse
    demand(fits and isinstance(test.left, ast.BinOp) and ast.unparse(test.left.left) == "pf")  # type: ignore[attr-defined]
    return test.left.right  # type: ignore[attr-defined, no-any-return]
