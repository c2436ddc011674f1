"""Elements of arrays at indices that cannot be negative, in derivatives as they are compiled.

`at2(a, i, j)` stands for `a[i, j]`: Numba types and lowers a bracket in several steps, each of which takes a
millisecond, with a tuple of indices and their conversions, and adds to an element in three.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from numba import types

from fgrad.adjoints.compact import kind_of
from fgrad.adjoints.stacks import TOPS

AXES = 3  # at most


class Elements(ast.NodeTransformer):
    """Writes functions in the place of brackets.

    Args:
        kinds: the types of arrays by name.
        unsigned: the name of the function in which indices stand that cannot be negative.
    """

    def __init__(self, kinds: Mapping[str, Any], unsigned: str) -> None:
        self.kinds, self.unsigned = kinds, unsigned

    def index(self, node: ast.AST) -> list[ast.expr]:
        """Return an array and its index, without the marks; nothing where an index may be negative."""
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
            return []
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        kind = kind_of(node.value.id, self.kinds)
        if node.value.id not in TOPS and (kind is None or kind.ndim != len(parts)):
            return []
        found = [p.args[0] if self.is_marked(p) else p for p in parts]  # type: ignore[attr-defined]
        known = all(self.is_marked(p) or _is_place(p) for p in parts)
        return [ast.Name(node.value.id, ast.Load()), *found] if known and len(parts) <= AXES else []

    def is_marked(self, node: ast.expr) -> bool:
        """Return whether an index is marked as one that cannot be negative."""
        return isinstance(node, ast.Call) and ast.unparse(node.func) == self.unsigned

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Write a function that reads."""
        found = self.index(node)
        return _call("at", [self.visit(n) for n in found]) if found else self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Write a function that sets an element."""
        found = self.index(node.targets[0])
        node.value = self.visit(node.value)
        if not found:
            node.targets = [self.visit(t) for t in node.targets]
            return node
        return ast.Expr(_call("put_at", [self.visit(n) for n in found], node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """Write a function that adds to an element."""
        found = self.index(node.target)
        node.value = self.visit(node.value)
        if not found:
            node.target = self.visit(node.target)
            return node
        array, *where = found
        found = [array, *[self.visit(n) for n in where]]
        kind = kind_of(ast.unparse(array), self.kinds)
        if isinstance(node.op, ast.Add | ast.Sub) and kind is not None and kind.dtype == types.float64:
            value = _negative(node.value) if isinstance(node.op, ast.Sub) else node.value
            return ast.Expr(_call("add_at", found, value))
        return ast.Expr(_call("put_at", found, ast.BinOp(_call("at", found), node.op, node.value)))


def _is_place(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value >= 0


def _negative(node: ast.expr) -> ast.expr:
    is_negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    return node.operand if is_negative else ast.UnaryOp(ast.USub(), node)  # type: ignore[attr-defined]


def _call(name: str, where: list[ast.expr], *value: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(f"{name}{len(where) - 1}", ast.Load()), [*where, *value], [])
