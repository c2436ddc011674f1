"""Recursion as a loop: a function that calls itself becomes blocks, with a stack of the numbers they share.

A call keeps the numbers of its caller on the stack, and the block to go on with; a return takes them from it.
Arrays are the same ones in all calls.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.adjoints.names import nodes_of

LIMIT = 4096  # of calls inside of one another
DEPTH, AT, VALUE = ".depth", ".at", ".value"  # with a dot, which no name of a user's has
_RETURN = -1


class TypeOf(ast.expr):
    """The dtype of a variable, wherever it is assigned."""

    _fields = ("id",)
    id: str


class Known(ast.expr):
    """A Python object, whatever the source calls it."""

    _fields = ("value",)
    value: Any


class RefusedError(Exception):
    """A recursion that is no loop of blocks: the node, what it does, and a remedy."""


def calls_itself(tree: ast.FunctionDef, is_self: Callable[[ast.expr], bool]) -> bool:
    """Return whether a function calls itself."""
    return any(isinstance(n, ast.Call) and is_self(n.func) for n in nodes_of(tree))


def without_recursion(tree: ast.FunctionDef, is_self: Callable[[ast.expr], bool]) -> ast.FunctionDef:
    """Return a function that does the same in a loop.

    Args:
        tree: the function.
        is_self: whether an expression that is called is the function itself.

    Raises:
        RefusedError: calls stand where it is not known whether they are made, or loops run over other things.
    """
    return _Machine(copy.deepcopy(tree), is_self).function()


def _name(text: str, *, store: bool = False) -> Any:
    return ast.Name(text, ast.Store() if store else ast.Load())


def _set(target: str, value: Any) -> Any:
    given: Any = value if isinstance(value, ast.AST) else ast.Constant(value)
    return ast.Assign([_name(target, store=True)], given)


def _node(kind: Any, part: Any) -> Any:
    return kind(part)


def _begins(name: str, body: Sequence[ast.stmt]) -> bool:
    """Return whether a block assigns a variable before all else that it does with it."""
    for s in body:
        if any(isinstance(n, ast.Name) and n.id == name for n in nodes_of(s)):
            target: Any = s.targets[0] if isinstance(s, ast.Assign) else getattr(s, "target", None)
            read: Any = getattr(s, "value", None) or getattr(s, "iter", None)
            plain = isinstance(s, ast.Assign | ast.For) and isinstance(target, ast.Name) and target.id == name
            return plain and not any(isinstance(n, ast.Name) and n.id == name for n in nodes_of(read))
    return False


class _Machine:
    def __init__(self, tree: ast.FunctionDef, is_self: Callable[[ast.expr], bool]) -> None:
        self.tree, self.is_self = tree, is_self
        self.blocks: list[list[ast.stmt]] = [[]]
        self.current = 0
        self.params = [a.arg for a in tree.args.args]
        self.same = {p for p in self.params if self.is_handed_on(p)}
        self.count = 0
        self.width: int | None = None  # of returned tuples
        self.where: ast.AST = tree
        self.gives = any(isinstance(r, ast.Return) and r.value is not None for r in nodes_of(tree))
        self.pushes: list[tuple[int, int, int]] = []  # block, place, and the block to go on with

    def is_handed_on(self, param: str) -> bool:
        """Return whether all calls pass a parameter on as it is."""
        nodes = list(nodes_of(self.tree))
        if any(isinstance(n, ast.Name) and n.id == param and isinstance(n.ctx, ast.Store) for n in nodes):
            return False
        calls = [n for n in nodes if isinstance(n, ast.Call) and self.is_self(n.func)]
        given = [self.bound(c)[param] for c in calls]
        return all(isinstance(g, ast.Name) and g.id == param for g in given)

    def bound(self, call: ast.Call) -> dict[str, Any]:
        """Return the arguments of a call by parameters."""
        defaults = self.tree.args.defaults
        found = dict(zip(self.params[len(self.params) - len(defaults) :], defaults, strict=True))
        found |= dict(zip(self.params, call.args, strict=False))
        found |= {str(k.arg): k.value for k in call.keywords}
        if set(found) != set(self.params) or any(isinstance(a, ast.Starred) for a in call.args):
            raise RefusedError(call, "calls itself with other arguments", "Name them as the function does")
        return found

    # ---- blocks -------------------------------------------------------------------------------------

    def emit(self, *stmts: Any) -> None:
        for s in stmts:
            self.blocks[self.current].append(ast.copy_location(s, self.where))

    def block(self) -> int:
        self.blocks.append([])
        return len(self.blocks) - 1

    def go(self, block: int) -> None:
        self.emit(_set(AT, block))

    def fresh(self, base: str) -> str:
        self.count += 1
        return f".{base}_{self.count}"

    def is_plain(self, s: ast.AST, *, inside: bool = False) -> bool:
        """Return whether a statement stays as it is: it neither calls the function nor leaves the block."""
        if isinstance(s, ast.Return) or (isinstance(s, ast.Break | ast.Continue) and not inside):
            return False
        if isinstance(s, ast.Call) and self.is_self(s.func):
            return False
        inside = inside or isinstance(s, ast.For | ast.While)
        return all(self.is_plain(c, inside=inside) for c in ast.iter_child_nodes(s))

    def statements(self, body: Sequence[ast.stmt], around: tuple[int, int] | None = None) -> None:
        """Write statements; `around` are the blocks where `break` and `continue` go."""
        for s in body:
            self.where = s
            if self.is_plain(s):
                self.emit(s)
            elif isinstance(s, ast.If):
                self.branch(s, around)
            elif isinstance(s, ast.For | ast.While) and not s.orelse:
                self.loop(s)
            elif isinstance(s, ast.Break | ast.Continue) and around:
                self.go(around[isinstance(s, ast.Continue)])
                self.current = self.block()  # nobody comes here
            elif isinstance(s, ast.Return):
                self.leave(s.value)
            elif isinstance(s, ast.Assign | ast.AugAssign | ast.Expr | ast.AnnAssign) and s.value is not None:
                made: Any = copy.copy(s)
                if isinstance(s, ast.AugAssign):
                    target: Any = copy.copy(s.target)
                    target.ctx = ast.Load()
                    value = ast.copy_location(ast.BinOp(target, s.op, s.value), s)
                    made = ast.copy_location(ast.Assign([s.target], value), s)
                made.value = self.hoisted(made.value)
                if not self.is_plain(made):
                    raise RefusedError(s, "calls itself in an index", "Give the result a name first")
                self.where = s
                self.emit(made)
            else:
                raise RefusedError(s, "calls itself", "Call it in an assignment, a condition or a `return`")

    def branch(self, s: ast.If, around: tuple[int, int] | None) -> None:
        test = self.hoisted(s.test)
        first, other, behind = self.block(), self.block(), self.block()
        self.emit(ast.If(test, [_set(AT, first)], [_set(AT, other)]))
        for block, body in ((first, s.body), (other, s.orelse)):
            self.current = block
            self.statements(body, around)
            self.go(behind)
        self.current = behind

    def loop(self, s: ast.For | ast.While) -> None:
        head, body, step, behind = (self.block() for _ in range(4))
        k = ""
        if isinstance(s, ast.For):
            k, test, first, by = self.turns(s)
            self.emit(_set(k, first))
        self.go(head)
        self.current = head
        test = test if isinstance(s, ast.For) else self.hoisted(s.test)
        self.emit(ast.If(test, [_set(AT, body)], [_set(AT, behind)]))
        self.current = body
        if isinstance(s, ast.For):
            value = _name(k) if self.over is None else ast.Subscript(_name(self.over), _name(k), ast.Load())
            self.emit(ast.Assign([s.target], value))
        self.statements(s.body, (behind, step))
        self.go(step)
        self.current = step
        if isinstance(s, ast.For):
            self.emit(_set(k, ast.BinOp(_name(k), ast.Add(), by)))
        self.go(head)
        self.current = behind

    def turns(self, s: ast.For) -> tuple[str, Any, Any, Any]:
        """Return the variable of a loop, whether it goes on, its first value, and its step."""
        k, stop = self.fresh("k"), self.fresh("stop")
        self.over = None
        call: Any = s.iter
        if isinstance(call, ast.Name):
            self.over = call.id
            ends: list[Any] = [ast.Call(_name("len"), [_name(call.id)], [])]
        elif isinstance(call, ast.Call) and ast.unparse(call.func) in {"range", "prange", "numba.prange"}:
            ends = [self.hoisted(a) for a in call.args]
        else:
            raise RefusedError(
                s, "calls itself in a loop over something else", "Loop over a range, or an array"
            )
        first = ends[0] if len(ends) > 1 else ast.Constant(0)
        step = ends[2] if len(ends) > 2 else ast.Constant(1)
        back = isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub)
        if not isinstance(step.operand if isinstance(step, ast.UnaryOp) else step, ast.Constant):
            raise RefusedError(s, "calls itself in a loop whose step is no constant", "Use `while`")
        self.emit(_set(stop, ends[1] if len(ends) > 1 else ends[0]))
        test = ast.Compare(_name(k), [ast.Gt() if back else ast.Lt()], [_name(stop)])
        return k, test, first, step

    over: str | None = None

    # ---- calls and returns --------------------------------------------------------------------------

    def hoisted(self, node: Any) -> Any:
        """Return an expression whose calls of the function itself have been made before."""
        if self.is_plain(node):
            return node
        if isinstance(node, ast.IfExp | ast.BoolOp | ast.Lambda | ast.ListComp | ast.GeneratorExp):
            raise RefusedError(node, "may call itself or not", "Write it with `if`")
        if isinstance(node, ast.Call) and self.is_self(node.func):
            return self.call(node)
        made = copy.copy(node)
        for field, old in ast.iter_fields(node):
            if isinstance(old, list):
                setattr(made, field, [self.part(x) if isinstance(x, ast.expr) else x for x in old])
            elif isinstance(old, ast.expr) and field != "func":
                setattr(made, field, self.part(old))
        if not self.is_plain(made):
            raise RefusedError(node, "calls itself in a keyword", "Give the result a name first")
        return made

    def part(self, node: Any) -> Any:
        """Return a part of an expression that calls the function; what is read before it has a name."""
        if not self.is_plain(node):
            return self.hoisted(node)
        if isinstance(node, ast.Constant | ast.Name):
            return node
        kept = self.fresh("kept")
        self.emit(_set(kept, node))
        return _name(kept)

    def call(self, node: ast.Call) -> Any:
        given = {p: self.hoisted(a) for p, a in self.bound(node).items() if p not in self.same}
        names = {p: self.fresh(p) for p in given}
        for p, a in given.items():
            self.emit(_set(names[p], a))
        behind = self.block()
        self.pushes.append((self.current, len(self.blocks[self.current]), behind))
        for p in given:
            self.emit(_set(p, _name(names[p])))
        self.go(0)
        self.current = behind
        if self.width is None:
            values = [r.value for r in nodes_of(self.tree) if isinstance(r, ast.Return)]
            widths = {len(v.elts) if isinstance(v, ast.Tuple) else 0 for v in values if v is not None}
            if len(widths) > 1:
                raise RefusedError(node, "calls itself, and tuples of several lengths return", "Return one")
            self.width = widths.pop() if widths else 0
        if not self.gives:
            return ast.Constant(None)
        kept = []
        for source in self.values():
            kept.append(self.fresh("called"))
            self.emit(_set(kept[-1], _name(source)))
        return ast.Tuple([_name(k) for k in kept], ast.Load()) if self.width else _name(kept[0])

    def values(self) -> list[str]:
        return [f"{VALUE}_{k}" for k in range(self.width)] if self.width else [VALUE]

    def leave(self, value: Any) -> None:
        if value is not None:
            if isinstance(value, ast.Tuple):
                for k, e in enumerate([self.hoisted(e) for e in value.elts]):
                    self.emit(_set(f"{VALUE}_{k}", e))
            else:
                self.emit(_set(VALUE, self.hoisted(value)))
        self.emit(_set(AT, _RETURN))
        self.current = self.block()  # nobody comes here

    # ---- the loop -----------------------------------------------------------------------------------

    def shared(self) -> list[str]:
        """Return the variables that several blocks name, or that a block reads again behind a call."""
        places: dict[str, set[int]] = {}
        stored = set(self.params) - self.same
        for k, body in enumerate(self.blocks):
            for n in (n for s in body for n in nodes_of(s)):
                if isinstance(n, ast.Name):
                    places.setdefault(n.id, set()).add(k)
                    if isinstance(n.ctx, ast.Store):
                        stored.add(n.id)
        own = {AT, DEPTH, VALUE, *(f"{VALUE}_{k}" for k in range(self.width or 0))}
        return sorted(
            n
            for n in stored - own
            if n in self.params or len(places[n]) > 1 or not _begins(n, self.blocks[min(places[n])])
        )

    def function(self) -> ast.FunctionDef:
        self.statements(self.tree.body)
        self.emit(_set(AT, _RETURN))
        kept = self.shared()
        for block, place, behind in reversed(self.pushes):
            self.blocks[block][place:place] = self.push(kept, behind)
        self.where = self.tree
        chain: list[ast.stmt] = []
        for k in range(len(self.blocks) - 1, -1, -1):
            if self.blocks[k]:
                test = ast.Compare(_name(AT), [ast.Eq()], [ast.Constant(k)])
                chain = [ast.If(test, self.blocks[k], chain)]
        back: list[ast.stmt] = [_set(DEPTH, ast.BinOp(_name(DEPTH), ast.Sub(), ast.Constant(1)))]
        back += [_set(n, ast.Subscript(_name(f".stack_{n}"), _name(DEPTH), ast.Load())) for n in (*kept, AT)]
        top = ast.Compare(_name(DEPTH), [ast.Eq()], [ast.Constant(0)])
        leave = ast.If(top, [_set(DEPTH, ast.UnaryOp(ast.USub(), ast.Constant(1)))], back)
        ends = ast.Compare(_name(AT), [ast.Lt()], [ast.Constant(0)])
        going = ast.Compare(_name(DEPTH), [ast.GtE()], [ast.Constant(0)])
        start: list[ast.stmt] = [_set(DEPTH, 0), _set(AT, 0)]
        for n in (*kept, AT):
            new = ast.Call(_node(Known, np.empty), [ast.Constant(LIMIT), _node(TypeOf, n)], [])
            start += [_set(f".stack_{n}", new)]
        returned = [_name(v) for v in self.values()]
        end = (
            [ast.Return(ast.Tuple(returned, ast.Load()) if self.width else returned[0])] if self.gives else []
        )
        made = copy.copy(self.tree)
        made.body = [*start, ast.While(going, [*chain, ast.If(ends, [leave], [])], []), *end]
        for s in made.body:
            ast.copy_location(s, self.tree)
        return ast.fix_missing_locations(made)

    def push(self, kept: Sequence[str], behind: int) -> list[ast.stmt]:
        where = [ast.Subscript(_name(f".stack_{n}"), _name(DEPTH), ast.Store()) for n in (*kept, AT)]
        values = [*map(_name, kept), ast.Constant(behind)]
        found: list[ast.stmt] = [ast.Assign([w], v) for w, v in zip(where, values, strict=True)]
        found.append(_set(DEPTH, ast.BinOp(_name(DEPTH), ast.Add(), ast.Constant(1))))
        text = f"derivatives of {self.tree.name} follow {LIMIT} calls inside of one another"
        error: Any = ast.Raise(ast.Call(_name("RecursionError"), [ast.Constant(text)], []), None)
        error.kept = True
        test = ast.Compare(_name(DEPTH), [ast.GtE()], [ast.Constant(LIMIT)])
        return [*found, ast.If(test, [error], [])]
