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
from fgrad.adjoints.names import nodes_of, target_of

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
    return _Strips(function, kinds, "strips").applied()


class Rewriting(ast.NodeTransformer):
    """Writes loops of a function anew, with short arrays side by side in one buffer."""

    def __init__(self, function: ast.FunctionDef, kinds: Mapping[str, Any], buffer: str) -> None:
        self.function, self.kinds = function, kinds
        self.used = {n.id for n in nodes_of(function) if isinstance(n, ast.Name)} | kinds.keys()
        self.buffer, self.most = self.fresh(buffer), 0  # short arrays at a time

    def applied(self) -> ast.FunctionDef:
        """Return the function, which is changed."""
        self.visit(self.function)
        if self.most:
            text = f"{self.buffer} = np.empty({LENGTH * self.most})"
            self.function.body[:0] = ast.parse(text).body
        return self.function

    def fresh(self, base: str) -> str:
        """Return a name that nobody has."""
        k = 1
        while f"{base}{k}" in self.used:
            k += 1
        self.used.add(f"{base}{k}")
        return f"{base}{k}"


def ends_of(head: Any) -> tuple[ast.expr, ast.expr] | None:
    """Return where a range starts and ends; None if it has steps, or a length that is known."""
    start, stop = (ast.Constant(0), head.args[0]) if len(head.args) == 1 else head.args[:2]
    if len(head.args) == 3 or all(isinstance(e, ast.Constant) for e in (start, stop)):
        return None
    return start, stop


def loop_over_parts(
    low: str, high: str, size: str, length: str, ends: tuple[ast.expr, ast.expr]
) -> tuple[ast.stmt, ast.For]:
    """Return what says where a range ends, and a loop over parts of it, which says how long each is."""
    start, stop = map(ast.unparse, ends)
    end, loop = ast.parse(
        f"{high} = {stop}\nfor {low} in range({start}, {high}, {length}):\n"
        f"    {size} = {high} - {low} if {high} - {low} < {length} else {length}"
    ).body
    return end, loop  # type: ignore[return-value]


def turn_of(place: str, size: str, var: str, low: str) -> ast.For:
    """Return the loop over the turns of a part; it gives the loop's variable its value."""
    return ast.parse(f"for {place} in range({size}):\n    {var} = {low} + {place}").body[0]  # type: ignore[return-value]


def element_of(buffer: str, place: str, number: int, ctx: ast.expr_context) -> ast.Subscript:
    """Return the element of a short array in the buffer, at a place that never counts from the end."""
    at = ast.parse(f"uint64({place} + {LENGTH * number})", mode="eval").body
    return ast.Subscript(ast.Name(buffer, ast.Load()), at, ctx)


class _Strips(Rewriting):
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
        end, outer = loop_over_parts(low, high, size, str(LENGTH), loop.ends)  # type: ignore[arg-type]
        for part in loop.parts:
            place = self.fresh("place")
            inner = turn_of(place, size, loop.var, low)
            inner.body += [_Placed(self.buffer, place).visit(s) for s in part]
            outer.body.append(inner)
        return [end, outer]


class _Loop:
    """A loop that may be written in strips: copies, then what is computed, then what is added."""

    def __init__(self, node: ast.For, kinds: Mapping[str, Any]) -> None:
        self.node, self.kinds, self.var = node, kinds, node.target.id  # type: ignore[attr-defined]
        self.ends = ends_of(node.iter)
        self.assigned = {n.id for s in node.body for n in nodes_of(s)
                         if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}  # fmt: skip
        self.parts: list[list[ast.stmt]] = []

    def pays(self) -> bool:
        """Return whether strips are possible, and worth their copies."""
        if self.ends is None:
            return False
        stored: list[str] = []
        loaded: list[str] = []
        operations, apart = 0, 0
        for s in self.node.body:
            if not isinstance(s, ast.Assign | ast.AugAssign):
                return False
            target = target_of(s)
            if isinstance(target, ast.Subscript):
                stored.append(ast.unparse(target.value))
                apart += self.is_apart(target)
            elif not isinstance(target, ast.Name) or target.id == self.var:
                return False
            for n in nodes_of(s.value):
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
        names = [{n.id for n in nodes_of(i) if isinstance(n, ast.Name)} for i in where.elts]
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
            for n in [n for n in nodes_of(value) if isinstance(n, ast.Subscript)]:
                if not isinstance(n.value, ast.Name) or not self.is_apart(n):
                    continue
                text = ast.unparse(n)
                if text not in names:
                    names[text] = len(copies) + len(adds)
                    copies.append(ast.Assign([_place(names[text], ast.Store())], copy.deepcopy(n)))
                n.value, n.slice = ast.Name(_BUFFER, ast.Load()), ast.Constant(names[text])
            target = s.target if isinstance(s, ast.AugAssign) else None
            if isinstance(target, ast.Subscript) and self.is_apart(target):
                held = len(copies) + len(adds)
                work.append(ast.Assign([_place(held, ast.Store())], value))
                s.value = _place(held, ast.Load())  # type: ignore[attr-defined]
                adds.append(s)
            else:
                work.append(s)
        self.parts = [p for p in (copies, work, adds) if p]
        return len(copies) + len(adds)


_BUFFER = "short array"


def _place(number: int, ctx: Any) -> ast.Subscript:
    return ast.Subscript(ast.Name(_BUFFER, ast.Load()), ast.Constant(number), ctx)


class _Placed(ast.NodeTransformer):
    """Gives the short arrays their places in one, which never count from the end."""

    def __init__(self, buffer: str, place: str) -> None:
        self.buffer, self.place = buffer, place

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.value, ast.Name) or node.value.id != _BUFFER:
            return node
        number: Any = node.slice
        return element_of(self.buffer, self.place, number.value, node.ctx)
