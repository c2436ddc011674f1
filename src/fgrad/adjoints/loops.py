"""Loops of kernels: what they run over, `while`, lists that become arrays, arrays that are bound anew."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numba
import numpy as np
from numba import types

from fgrad.adjoints import syntax
from fgrad.adjoints.arrays import Arrays
from fgrad.adjoints.names import nodes_of, stored_names
from fgrad.adjoints.syntax import For, If, Stmt, While
from fgrad.adjoints.values import Array, Group, Lazy, Scalar, Static, Value, dims_of, ndim_of

_RANGES = {builtins.range, numba.prange}


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
        inside = {id(n) for f in _loops(self.scope.body, name) for n in nodes_of(f)}
        nested = any(n is not loop for n in _loops(loop.body, name))
        reads = (n for t in self.scope.body for n in nodes_of(t) if isinstance(n, ast.Name) and n.id == name)
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

    # ---- what loops run over ------------------------------------------------------------------------

    def iteration(self, node: ast.expr) -> tuple[str, Any]:
        """Return what a loop runs over: a range with what the target is at each turn, or a tuple."""
        if self.iterates(node) in _RANGES:
            return "range", (*self.ends(node), None)
        found = self.turns(node)
        if isinstance(found, list):
            return "static", found
        stop, at = found
        return "range", (syntax.constant(0), stop, syntax.constant(1), at)

    def iterates(self, node: ast.expr) -> Any:
        """Return the function whose call a loop runs over; None where it is no call by a name."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            return None
        known = self.expr(node.func)
        return known.value if isinstance(known, Static) else None

    def ends(self, node: Any) -> tuple[Any, Any, Any]:
        """Return start, stop and step of a range."""
        found = [self.integer(self.expr(a)) for a in node.args]
        zero, one = syntax.constant(0), syntax.constant(1)
        return {1: lambda: (zero, *found, one), 2: lambda: (*found, one)}.get(
            len(found), lambda: tuple(found)
        )()

    def turns(self, node: Any) -> Any:
        """Return the items of a tuple, or how many turns there are and what one of them has."""
        function = self.iterates(node)
        if function in _RANGES:
            start, stop, step = (self.kept(Scalar(n)) for n in self.ends(node))
            less: Any = self.binary(ast.FloorDiv, self.binary(ast.Sub, start, stop), step)  # minus the turns
            more = syntax.typed(ast.UnaryOp(ast.USub(), less.node), types.intp)
            count = syntax.call("max", syntax.constant(0), more, ty=types.intp)
            return count, lambda k: self.binary(ast.Add, start, self.binary(ast.Mult, Scalar(k), step))
        if function is builtins.enumerate:
            turns = self.turns(node.args[0])
            start = self.kept(self.expr(node.args[1])) if node.args[1:] else None
            return self.together(
                [Scalar if start is None else lambda k: self.binary(ast.Add, start, Scalar(k)), turns]
            )
        if function is builtins.zip:
            return self.together([self.turns(a) for a in node.args])
        if function is np.ndindex:
            given = self.exprs(node.args)
            shape = given[0].items if len(given) == 1 and isinstance(given[0], Group) else given
            return self.grid([self.integer(d) for d in shape], Group)
        if function is np.ndenumerate:
            a = self.read_at_turns(self.expr(node.args[0]))
            return self.grid(dims_of(a), lambda at: Group([Group(at), self.indexed(a, at)]))
        value = self.expr(node)
        if isinstance(value, Group) and not value.axes:
            return self.kept(value).items
        return self.elements(value)

    def together(self, sources: Sequence[Any]) -> Any:
        """Return turns that have what each of several sources has; a function gives as many as the others."""
        tuples = [s for s in sources if isinstance(s, list)]
        lengths = [s[0] for s in sources if isinstance(s, tuple)]
        if tuples and lengths:
            raise self.fail("a loop runs over a tuple beside an array or range", "Make an array of the tuple")
        if tuples:
            places = [syntax.constant(k) for k in range(min(map(len, tuples)))]
            items = [s if isinstance(s, list) else list(map(s, places)) for s in sources]
            return [Group(list(parts)) for parts in zip(*items, strict=False)]
        stop = reduce(lambda x, y: syntax.call("min", x, y, ty=types.intp), lengths)
        gets = [s[1] if isinstance(s, tuple) else s for s in sources]
        return stop, lambda k: Group([get(k) for get in gets])

    # ---- lists that become arrays -------------------------------------------------------------------

    def of_ListComp(self, node: ast.ListComp) -> Value:  # noqa: D102, N802
        if node not in self.for_arrays:
            raise self.refused(node)
        generators: list[ast.comprehension] = []
        element: ast.expr = node
        while isinstance(element, ast.ListComp):
            generators += element.generators
            if len(element.generators) > 1 or element.generators[0].ifs:
                raise self.refused(node)
            element = element.elt
        targets = [n.id for g in generators for n in nodes_of(g.target) if isinstance(n, ast.Name)]
        read = {n.id for g in generators for n in nodes_of(g.iter) if isinstance(n, ast.Name)}
        if not read.isdisjoint(targets):
            raise self.fail(f"`{ast.unparse(node)}` makes rows that may differ in length", "Write the loop")
        turns: list[Any] = [self.turns(g.iter) for g in generators]
        if not all(isinstance(t, tuple) for t in turns):
            raise self.refused(node)
        dims = [self.stable(count) for count, _ in turns]
        before = dict(self.scope.names)
        with self.aside() as loops, self.nest(dims) as at:
            for g, (_, get), k in zip(generators, turns, at, strict=True):
                self.bind_apart(g.target, get(k))
            value = self.number(self.expr(element))
            with self.aside() as made:
                array = self.new(dims, value.ty)
            self.out.append(syntax.Store(array.name, tuple(at), value, self.line))
        self.scope.names = before
        self.out += [*made, *loops]
        return array

    def bind_apart(self, target: Any, value: Any) -> None:
        """Let the names of a comprehension stand for values, apart from the same names elsewhere."""
        if isinstance(target, ast.Name):
            self.scope.names[target.id] = self.kept(value, target.id)
            return
        if not isinstance(value, Group) or len(value.items) != len(target.elts):
            raise self.fail(f"`{ast.unparse(target)}` is assigned no tuple of its length", "Name the parts")
        for t, v in zip(target.elts, value.items, strict=True):
            self.bind_apart(t, v)

    def grid(self, dims: Sequence[Any], get: Callable[[list[Value]], Value]) -> Any:
        """Return a loop over all indices of a shape: how many turns it has, and what one of them has."""
        held = [Scalar(self.stable(d)) for d in dims]
        sizes: list[Value] = [Scalar(syntax.constant(1))]
        for d in reversed(held):
            sizes.append(self.kept(self.binary(ast.Mult, sizes[-1], d)))
        sizes.reverse()

        def at(k: Any) -> Value:
            found = []
            for d, size in zip(held, sizes[1:], strict=True):
                found.append(self.binary(ast.Mod, self.binary(ast.FloorDiv, Scalar(k), size), d))
            return get(found)

        return self.number(sizes[0]), at

    def elements(self, value: Value) -> tuple[Any, Callable[[Any], Value]]:
        """Return how many elements a loop runs over, and one of them."""
        if isinstance(value, Group) and value.axes:
            return dims_of(value.items[0])[0], lambda k: self.record(value, [Scalar(k)])  # type: ignore[arg-type]
        if not isinstance(value, Array | Lazy):
            raise self.fail("a loop runs over what is no range or array", "Loop over a range")
        a = self.read_at_turns(value, rows=ndim_of(value) > 1)
        return dims_of(a)[0], lambda k: self.indexed(a, [Scalar(k)])

    def read_at_turns(self, value: Value, *, rows: bool = False) -> Array | Lazy:
        """Return an array for a loop over its elements, or rows: each is read when its turn comes."""
        if isinstance(value, Lazy) and value.source and (value.cut or not rows):
            return self.steady(value)  # type: ignore[no-any-return]
        return self.shared(value)


def _loops(stmts: Sequence[ast.stmt], name: str) -> list[ast.For]:
    nodes = (n for s in stmts for n in nodes_of(s))
    return [
        n for n in nodes if isinstance(n, ast.For) and isinstance(n.target, ast.Name) and n.target.id == name
    ]
