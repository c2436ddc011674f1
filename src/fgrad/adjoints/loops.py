"""Loops of kernels: ranges, elements, `while`, and arrays that a loop binds anew."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from numba import types

from fgrad.adjoints import syntax
from fgrad.adjoints.arrays import Arrays
from fgrad.adjoints.sources import stored_names
from fgrad.adjoints.syntax import For, If, Stmt, While
from fgrad.adjoints.values import Array, Scalar


class Loops(Arrays):
    """Loops."""

    def on_For(self, s: ast.For) -> None:  # noqa: D102, N802
        target, made = self.iteration(s.iter)
        if target == "static":
            for value in made:
                self.store_to(s.target, value)
                if getattr(s, "until", ()):
                    raise self.fail("a loop over a tuple is left early", "Loop over a range")
                self.block(s.body)
            return
        start, stop, step, at = made
        start, stop, step = (self.stable(self.integer(n)) for n in (start, stop, step))
        name = s.target.id if isinstance(s.target, ast.Name) and at is None else ""
        free = name and not self.escapes(name, s)
        var = self.fresh(name or "k")
        self.types[var] = types.intp
        element = [] if free else [(s.target, at)]
        until = tuple(self.variable(f) for f in getattr(s, "until", ()))
        count = ""
        if until:
            count = self.fresh("turns")
            self.assign(count, syntax.constant(0))

        def before() -> None:
            if free:
                self.scope.names[name] = Scalar(syntax.name(var, types.intp))
            if count:
                more = ast.BinOp(ast.Name(count, ast.Load()), ast.Add(), ast.Constant(1))
                self.assign(count, syntax.typed(more, types.intp))
            for t, get in element:
                k = Scalar(syntax.name(var, types.intp))
                self.store_to(t, k if get is None else get(k.node))

        self.loops.add(var)
        body = self.loop_body(s, before)
        self.loops.discard(var)
        self.out.append(For(var, start, stop, step, body, s.lineno, until, count))

    def escapes(self, name: str, loop: ast.For) -> bool:
        """Return whether the variable of a loop is more than that: assigned, or read behind it."""
        if name in stored_names(self.scope.body, loops=False):
            return True
        inside = {id(n) for f in _loops(self.scope.body, name) for n in ast.walk(f)}
        nested = any(n is not loop for n in _loops(loop.body, name))
        reads = (n for t in self.scope.body for n in ast.walk(t) if isinstance(n, ast.Name) and n.id == name)
        return nested or any(id(n) not in inside for n in reads)

    def on_While(self, s: ast.While) -> None:  # noqa: D102, N802
        until = tuple(self.variable(f) for f in getattr(s, "until", ()))
        count = self.fresh("turns")
        self.assign(count, syntax.constant(0))
        more = syntax.typed(ast.BinOp(ast.Name(count, ast.Load()), ast.Add(), ast.Constant(1)), types.intp)
        with self.aside() as emitted:
            test = self.truth(self.condition(s.test)).node
        if not emitted:
            body = self.loop_body(s, lambda: self.assign(count, more))
            self.out.append(While(test, body, s.lineno, count, until))
            return
        flag = self.fresh("left")
        self.assign(flag, syntax.constant(value=False))

        def guarded() -> None:
            held = self.held(self.truth(self.condition(s.test)).node, "c")
            body, after = self.branch(s.body)
            with self.aside() as left:
                self.assign(flag, syntax.constant(value=True))
            self.out.append(If(held.node, body, left, s.lineno))
            self.scope.names = self.merged(after, dict(self.scope.names), s.lineno)

        body = self.loop_body(s, lambda: self.assign(count, more), guarded)
        always = syntax.constant(value=True)
        self.out.append(While(always, body, s.lineno, count, (*until, flag)))

    def bind_anew(self, names: set[str], line: int) -> None:
        """Copy arrays whose names a block binds anew to buffers before it; it writes into those."""
        own = {n for n in names if isinstance(self.scope.names.get(n), Array)} - self.scope.carried
        for n in sorted(own):
            array: Any = self.scope.names[n]
            buffer = self.copied(array, n)
            if self.is_shared(n, array) or self.root(array.name) in self.borrowed:
                # until it is bound anew it is the other one, whose elements a write would change
                why = f"{n} is one array with another before the block at line {line}, which binds it anew"
                self.borrowed[buffer.name] = f"{why}: it is written to"
                self.borrowed[self.root(array.name)] = f"{why}: the other is written to"
            self.scope.names[n] = buffer
        self.scope.carried |= own

    def loop_body(
        self, s: Any, before: Callable[[], None], body: Callable[[], None] | None = None
    ) -> list[Stmt]:
        """Return the block of a loop; arrays that it binds anew are copied to buffers before it."""
        key = self.key(s)
        names = self.carried.setdefault(key, set())
        outer_carried = set(self.scope.carried)
        self.bind_anew(names, s.lineno)
        links, stale = self.marks.get(key, (set(), {}))  # at the end of its block, in the pass before
        self.links |= links
        self.stale |= stale
        start = dict(self.scope.names)
        with self.aside(deeper=True) as made:
            before()
            if body is not None:
                body()
            else:
                self.block(s.body)
        after = self.scope.names
        for n, x in start.items():
            y = after.get(n)
            if isinstance(x, Array) and isinstance(y, Array) and x.name != y.name and n not in names:
                names.add(n)
                self.again = True
        if self.marks.get(key, (set(), {})) != (self.links, self.stale):
            self.marks[key] = set(self.links), dict(self.stale)
            self.again = True
        self.scope.names = self.merged(start, after, s.lineno)
        self.scope.carried = outer_carried
        return made

    def key(self, s: Any) -> int:
        """Return what tells a loop from others, in every pass."""
        text = "/".join(f"{scope.source.name}" for scope in self.scopes)
        here = (text, s.lineno, s.col_offset)
        self.met[here] += 1
        return hash((*here, self.met[here]))


def _loops(stmts: Sequence[ast.stmt], name: str) -> list[ast.For]:
    nodes = (n for s in stmts for n in ast.walk(s))
    return [
        n for n in nodes if isinstance(n, ast.For) and isinstance(n.target, ast.Name) and n.target.id == name
    ]
