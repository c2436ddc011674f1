"""Loops whose turns may go in any order, in strips: what lies apart in memory is brought together before.

LLVM computes several turns at once where their operands lie side by side. Fields of particles do not, as
`x[j, 0]` of one turn and the next: a strip of them is copied to short arrays first, and results are added
from such.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from typing import Any

from numba import types

from fgrad.adjoints.compact import kind_of

ANY_ORDER = "any_order"
LENGTH = 64  # of a strip: a few of them fit into the first cache
LEAST = 8  # operations in a turn, with which copies pay
SMOOTH = {"plus", "scale", "uint64", "np.sqrt", "math.sqrt", "abs"}  # what LLVM computes side by side


def in_strips(function: ast.FunctionDef, kinds: Mapping[str, Any]) -> ast.FunctionDef:
    """Return a function whose loops over `any_order(range(...))` are loops over ranges, some in strips.

    Args:
        function: which is changed.
        kinds: the types of arrays by name.
    """
    work = _Strips(function, kinds)
    work.visit(function)
    if work.most:
        function.body[:0] = ast.parse(f"{work.buffer} = np.empty({LENGTH * work.most})").body
    return function


class _Strips(ast.NodeTransformer):
    def __init__(self, function: ast.FunctionDef, kinds: Mapping[str, Any]) -> None:
        self.kinds = kinds
        self.used = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)} | kinds.keys()
        self.buffer, self.most = self.fresh("strips"), 0

    def fresh(self, base: str) -> str:
        """Return a name that nobody has."""
        k = 1
        while f"{base}{k}" in self.used:
            k += 1
        self.used.add(f"{base}{k}")
        return f"{base}{k}"

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        head: Any = node.iter
        if head.func.id != ANY_ORDER:
            return node
        node.iter = head.args[0]
        loop = _Loop(node, self.kinds)
        if not loop.pays():
            return node
        self.most = max(self.most, loop.bring())
        low, high, size = (self.fresh(n) for n in ("low", "high", "size"))
        places = [self.fresh("place") for _ in loop.parts]
        var = node.target.id  # type: ignore[attr-defined]
        start, stop = loop.ends
        text = f"{high} = {ast.unparse(stop)}\nfor {low} in range({ast.unparse(start)}, {high}, {LENGTH}):\n"
        text += f"    {size} = {high} - {low} if {high} - {low} < {LENGTH} else {LENGTH}\n"
        for k in places:
            text += f"    for {k} in range({size}):\n        {var} = {low} + {k}\n"
        first, outer = ast.parse(text).body
        for k, part, inner in zip(places, loop.parts, outer.body[1:], strict=True):  # type: ignore[attr-defined]
            inner.body += [_Placed(self.buffer, k).visit(s) for s in part]
        return [first, outer]


class _Loop:
    """A loop that may be written in strips: copies, then what is computed, then what is added."""

    def __init__(self, node: ast.For, kinds: Mapping[str, Any]) -> None:
        self.node, self.kinds, self.var = node, kinds, node.target.id  # type: ignore[attr-defined]
        args = node.iter.args  # type: ignore[attr-defined]
        self.ends = (ast.Constant(0), args[0]) if len(args) == 1 else tuple(args[:2])
        self.is_plain = len(args) < 3 and not all(isinstance(e, ast.Constant) for e in self.ends)
        self.assigned = {n.id for s in node.body for n in ast.walk(s)
                         if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}  # fmt: skip
        self.parts: list[list[ast.stmt]] = []

    def pays(self) -> bool:
        """Return whether strips are possible, and worth their copies."""
        if not self.is_plain:
            return False
        stored: list[str] = []
        loaded: list[str] = []
        operations, apart = 0, 0
        for s in self.node.body:
            if not isinstance(s, ast.Assign | ast.AugAssign):
                return False
            target = s.targets[0] if isinstance(s, ast.Assign) else s.target
            if isinstance(target, ast.Subscript):
                stored.append(ast.unparse(target.value))
                apart += self.is_apart(target)
            elif not isinstance(target, ast.Name) or target.id == self.var:
                return False
            for n in ast.walk(s.value):
                operations += isinstance(n, ast.BinOp)
                if isinstance(n, ast.Call) and ast.unparse(n.func) not in SMOOTH:
                    return False
                if isinstance(n, ast.IfExp | ast.Compare | ast.BoolOp | ast.Slice):
                    return False
                if isinstance(n, ast.Subscript) and not isinstance(n.value, ast.Attribute):
                    loaded.append(ast.unparse(n.value))
                    apart += self.is_apart(n)
        touched = {*stored, *loaded}
        found = [kind_of(n, self.kinds) for n in touched]
        if set(stored) & set(loaded) or not all(k is not None and k.dtype == types.float64 for k in found):
            return False
        return operations >= LEAST and apart > 0

    def is_apart(self, node: ast.Subscript) -> bool:
        """Return whether elements of successive turns are apart in memory, at places known before a turn."""
        where = node.slice
        if not isinstance(where, ast.Tuple) or not isinstance(node.value, ast.Name):
            return False
        names = [{n.id for n in ast.walk(i) if isinstance(n, ast.Name)} for i in where.elts]
        if any(self.assigned & found for found in names):
            return False
        moving = [self.var in found for found in names]
        kind = kind_of(node.value.id, self.kinds)
        contiguous = moving[0] if kind is not None and kind.layout == "F" else moving[-1]
        return any(moving) and not contiguous

    def bring(self) -> int:
        """Part the body; return how many short arrays it takes."""
        copies: list[ast.stmt] = []
        work: list[ast.stmt] = []
        adds: list[ast.stmt] = []
        names: dict[str, int] = {}
        for s in self.node.body:
            value: Any = s.value  # type: ignore[attr-defined]
            for n in [n for n in ast.walk(value) if isinstance(n, ast.Subscript)]:
                if not isinstance(n.value, ast.Name) or not self.is_apart(n):
                    continue
                text = ast.unparse(n)
                if text not in names:
                    names[text] = len(copies) + len(adds)
                    copies.append(_assign(_place(names[text], ast.Store()), copy.deepcopy(n)))
                n.value, n.slice = ast.Name(_BUFFER, ast.Load()), ast.Constant(names[text])
            target = s.target if isinstance(s, ast.AugAssign) else None
            if isinstance(target, ast.Subscript) and self.is_apart(target):
                held = len(copies) + len(adds)
                work.append(_assign(_place(held, ast.Store()), value))
                s.value = _place(held, ast.Load())  # type: ignore[attr-defined]
                adds.append(s)
            else:
                work.append(s)
        self.parts = [p for p in (copies, work, adds) if p]
        return len(copies) + len(adds)


_BUFFER = "short array"


def _place(number: int, ctx: Any) -> ast.Subscript:
    return ast.Subscript(ast.Name(_BUFFER, ast.Load()), ast.Constant(number), ctx)


def _assign(target: ast.expr, value: ast.expr) -> ast.stmt:
    return ast.Assign([target], value)


class _Placed(ast.NodeTransformer):
    """Gives the short arrays their places in one, which never count from the end."""

    def __init__(self, buffer: str, place: str) -> None:
        self.buffer, self.place = buffer, place

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.value, ast.Name) or node.value.id != _BUFFER:
            return node
        number: Any = node.slice
        at = ast.parse(f"uint64({self.place} + {LENGTH * number.value})", mode="eval").body
        return ast.Subscript(ast.Name(self.buffer, ast.Load()), at, node.ctx)
