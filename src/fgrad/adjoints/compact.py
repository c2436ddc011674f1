"""Derivatives as they are compiled: without what nobody reads, and with a name for each value that is one.

A derivative sets cotangents to zero that are set anew before anybody reads them, and gives the same names to
what the forward sweep and the reverse sweep compute. Numba goes through all of a function once for every name
that is assigned twice, so that this takes most of its time.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fgrad.adjoints.names import name_in, nodes_of, reads_of

Reaching = dict[str, frozenset[int]]  # by name: the definitions that may have given its value


def compact(function: ast.FunctionDef, arrays: Collection[str]) -> ast.FunctionDef:
    """Return a function that computes the same with fewer statements, and fewer names that change.

    Args:
        function: assignments, conditions, and loops over ranges.
        arrays: the names to which `+=` adds in place.
    """
    _Plain(arrays).visit(function)
    function.body = _Dead().function(function)
    _Webs(arrays).function(function)
    _Copies().function(function)
    return function


class _Plain(ast.NodeTransformer):
    """`x += y` of numbers becomes `x = x + y`."""

    def __init__(self, arrays: Collection[str]) -> None:
        self.arrays = arrays

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if not isinstance(node.target, ast.Name) or node.target.id in self.arrays:
            return node
        value = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
        return ast.copy_location(ast.Assign([node.target], value), node)


def without_zeros(function: ast.FunctionDef, vectors: Mapping[str, str]) -> ast.FunctionDef:
    """Return a function that does not clear what a loop over all elements adds to once: it sets that.

    Args:
        function: which is changed.
        vectors: cotangents of vectors, by name, and those vectors, which are as long.
    """
    names = [n.id for n in nodes_of(function) if isinstance(n, ast.Name)]
    for ct, vector in vectors.items():
        loops = [s for s in function.body if isinstance(s, ast.For) and _runs_over(s, vector)]
        found = [(loop, k) for loop in loops for k, s in enumerate(loop.body) if _adds(s, ct, loop)]
        clears = [s for s in function.body if ast.unparse(s) == f"clear({ct})"]
        if len(found) == len(clears) == 1 and names.count(ct) == 2:
            loop, k = found[0]
            add: Any = loop.body[k]
            value = ast.UnaryOp(ast.USub(), add.value) if isinstance(add.op, ast.Sub) else add.value
            loop.body[k] = ast.copy_location(ast.Assign([add.target], value), add)
            function.body.remove(clears[0])
    return function


def _runs_over(s: ast.For, vector: str) -> bool:
    """Return whether a loop goes to all places of a vector."""
    head: Any = s.iter
    head = head.args[0] if head.func.id != "range" else head
    left = any(isinstance(n, ast.Break) for n in nodes_of(s))
    return not left and ast.unparse(head) == f"range({vector}.shape[0])"


def _adds(s: ast.stmt, ct: str, loop: ast.For) -> bool:
    """Return whether a statement adds to the element of a turn."""
    if not isinstance(s, ast.AugAssign) or not isinstance(s.op, ast.Add | ast.Sub):
        return False
    var = ast.unparse(loop.target)
    return ast.unparse(s.target) in {f"{ct}[{var}]", f"{ct}[uint64({var})]"}


def kind_of(name: str, kinds: Mapping[str, Any]) -> Any:
    """Return the type of an array by the name that it has now; None if it has none."""
    return kinds.get(name_in(kinds, name))


class _Uses:
    """The names that nodes read, each of which is looked through once; those nodes stay as they are."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ast.AST, list[ast.Name]]] = {}

    def read(self, node: ast.AST) -> list[ast.Name]:
        """Return the names that are read in an expression, or in a target with an index."""
        if id(node) not in self._known:
            self._known[id(node)] = node, reads_of(node)
        return self._known[id(node)][1]

    def used(self, s: ast.stmt) -> list[ast.Name]:
        """Return the names that a statement without blocks reads."""
        is_add = isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name)  # to an array
        return [*self.read(s), s.target] if is_add else self.read(s)  # type: ignore[attr-defined]


def _assigned(s: ast.stmt) -> list[ast.Name]:
    """Return the names that a statement without blocks assigns."""
    targets = s.targets if isinstance(s, ast.Assign) else []
    parts = [e for t in targets for e in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return [t for t in parts if isinstance(t, ast.Name)]


# ---- what nobody reads ------------------------------------------------------------------------------------


class _Dead:
    """Statements whose values are not read: liveness, from the end to the beginning."""

    def __init__(self) -> None:
        self.uses = _Uses()
        self.behind: list[set[str]] = []  # what is read behind the loops around

    def function(self, f: ast.FunctionDef) -> list[ast.stmt]:
        return self.block(f.body, set())[0]

    def block(self, body: Sequence[ast.stmt], live: set[str]) -> tuple[list[ast.stmt], set[str]]:
        """Return the statements that matter, and what is read from their beginning on."""
        kept: list[ast.stmt] = []
        live = set(live)
        for s in reversed(body):
            if isinstance(s, ast.If):
                first, a = self.block(s.body, live)
                other, b = self.block(s.orelse, live)
                if not first and not other:
                    continue
                if not first:
                    test: Any = ast.UnaryOp(ast.Not(), s.test)
                    s, first, other = ast.copy_location(ast.If(test, other, []), s), other, []  # noqa: PLW2901
                live = a | b | {n.id for n in self.uses.read(s.test)}
                kept.append(ast.copy_location(ast.If(s.test, first, other), s))
            elif isinstance(s, ast.For | ast.While):
                made, live = self.loop(s, live)
                kept += made
            elif isinstance(s, ast.Break):
                live = set(self.behind[-1])
                kept.append(s)
            elif not isinstance(s, ast.Pass):
                names = {n.id for n in _assigned(s)}
                if names and not names & live and all(map(_is_silent, nodes_of(s))):
                    continue
                live = (live - names) | {n.id for n in self.uses.used(s)}
                kept.append(s)
        return kept[::-1], live

    def loop(self, s: Any, live: set[str]) -> tuple[list[ast.stmt], set[str]]:
        head = {n.id for n in self.uses.read(s.iter if isinstance(s, ast.For) else s.test)}
        target = s.target if isinstance(s, ast.For) else None
        var = {target.id} if isinstance(target, ast.Name) else set()
        around = set(live) | (head if isinstance(s, ast.While) else set())
        self.behind.append(live)
        while True:
            body, before = self.block(s.body, around)
            if before - var <= around:
                break
            around |= before - var
        self.behind.pop()
        if not body and isinstance(s, ast.For) and not var & live:
            return [], live
        body = body or [ast.copy_location(ast.Pass(), s)]
        parts = [s.target, s.iter] if isinstance(s, ast.For) else [s.test]
        return [ast.copy_location(type(s)(*parts, body, []), s)], around | head


def _is_silent(node: ast.AST) -> bool:
    """Return whether part of an assignment does nothing but compute a value."""
    if not isinstance(node, ast.Call):
        return not isinstance(node, ast.Subscript) or isinstance(node.ctx, ast.Load)
    text = ast.unparse(node.func)
    return text.startswith(("np.", "math.")) or text in {"abs", "max", "min", "float", "int", "len"}


# ---- names ------------------------------------------------------------------------------------------------


class _Webs:
    """A name for every set of definitions that may reach the same place."""

    def __init__(self, arrays: Collection[str]) -> None:
        self.arrays = arrays
        self.nodes: list[ast.Name] = []  # by definition
        self.numbers: dict[int, int] = {}
        self.owner: list[int] = []
        self.reads: dict[int, tuple[ast.Name, int]] = {}
        self.uses = _Uses()
        self.breaks: list[list[Reaching]] = []

    def function(self, f: ast.FunctionDef) -> None:
        params: dict[str, frozenset[int]] = {}
        for a in f.args.args:
            params[a.arg] = frozenset([self.definition(ast.Name(a.arg, ast.Store()))])
        count = len(params)
        self.block(f.body, params)
        names = {n.id for n in nodes_of(f) if isinstance(n, ast.Name)} | params.keys()
        called: dict[int, str] = {}
        taken: dict[str, int] = {}
        for k, node in enumerate(self.nodes):
            root = self.find(k)
            if root not in called:
                base = name = node.id
                while name in names and base in taken:
                    taken[base] += 1
                    name = f"{base}_v{taken[base]}"
                taken.setdefault(base, 0)
                names.add(name)
                called[root] = name
        for node, d in self.reads.values():
            node.id = called[self.find(d)]
        for k, node in enumerate(self.nodes[count:], count):
            node.id = called[self.find(k)]

    def definition(self, node: ast.Name) -> int:
        if id(node) not in self.numbers:
            self.numbers[id(node)] = len(self.nodes)
            self.owner.append(len(self.nodes))
            self.nodes.append(node)
        return self.numbers[id(node)]

    def find(self, k: int) -> int:
        while self.owner[k] != k:
            self.owner[k] = self.owner[self.owner[k]]
            k = self.owner[k]
        return k

    def read(self, nodes: Sequence[ast.Name], reaching: Reaching) -> None:
        for n in nodes:
            found = reaching.get(n.id)
            if not found:
                continue  # a function, or a constant
            first, *others = sorted(found)
            self.reads[id(n)] = n, first
            for d in others:
                a, b = sorted((self.find(first), self.find(d)))
                self.owner[b] = a

    def block(self, body: Sequence[ast.stmt], reaching: Reaching) -> Reaching | None:
        """Return the definitions behind statements; None where they end in `break`."""
        now: Reaching | None = reaching
        for s in body:
            if now is None:
                break
            if isinstance(s, ast.If):
                self.read(self.uses.read(s.test), now)
                now = _either(self.block(s.body, now), self.block(s.orelse, now))
            elif isinstance(s, ast.For | ast.While):
                now = self.loop(s, now)
            elif isinstance(s, ast.Break):
                self.breaks[-1].append(now)
                return None
            else:
                self.read(self.uses.used(s), now)
                made = _assigned(s)
                if made:
                    now = {**now, **{n.id: frozenset([self.definition(n)]) for n in made}}
        return now

    def loop(self, s: Any, reaching: Reaching) -> Reaching:
        if isinstance(s, ast.For):
            self.read(self.uses.read(s.iter), reaching)
        around, var = reaching, getattr(s, "target", None)
        while True:
            self.breaks.append([])
            inner = around
            if isinstance(var, ast.Name):
                inner = {**around, var.id: frozenset([self.definition(var)])}
            else:
                self.read(self.uses.read(s.test), around)
            end = self.block(s.body, inner)
            left = self.breaks.pop()
            wider = _either(around, end) or around
            if wider == around:
                break
            around = wider
        found = around
        for b in left:
            found = _either(found, b) or found
        return found


def _either(x: Reaching | None, y: Reaching | None) -> Reaching | None:
    if x is None or y is None or x is y:
        return y if x is None else x
    found = dict(x)
    for n, definitions in y.items():
        if n not in x:
            found[n] = definitions
        elif x[n] is not definitions:  # most are the same
            found[n] = x[n] | definitions
    return found


# ---- copies -----------------------------------------------------------------------------------------------


class _Copies:
    """`y = x` where both are assigned once, and `y` is read behind it, in its block: `x` is read there."""

    def function(self, f: ast.FunctionDef) -> None:
        self.uses = _Uses()
        self.stored, self.loaded = Counter([a.arg for a in f.args.args]), Counter[str]()
        for n in nodes_of(f):
            if isinstance(n, ast.Name):
                (self.stored if isinstance(n.ctx, ast.Store) else self.loaded)[n.id] += 1
        f.body = self.block(f.body)

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        kept: list[ast.stmt] = []
        for k, s in enumerate(body):
            for field in ("body", "orelse"):
                if getattr(s, field, None):
                    setattr(s, field, self.block(getattr(s, field)) or [ast.Pass()])
            if not self.is_copy(s):
                kept.append(s)
                continue
            to, source = s.targets[0].id, s.value.id  # type: ignore[attr-defined]
            found = [n for t in body[k + 1 :] for n in self.uses.read(t) if n.id == to]
            if len(found) != self.loaded.get(to, 0):
                kept.append(s)
                continue
            for n in found:
                n.id = source
            self.loaded[source] += len(found) - 1
        return kept

    def is_copy(self, s: ast.stmt) -> bool:
        if not isinstance(s, ast.Assign) or not isinstance(s.value, ast.Name):
            return False
        to = s.targets[0]
        once = isinstance(to, ast.Name) and self.stored.get(to.id) == 1
        return once and self.stored.get(s.value.id) == 1
