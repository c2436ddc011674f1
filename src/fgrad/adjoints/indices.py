"""Indices that cannot be negative are unsigned in compiled derivatives: none of them counts from the end."""

from __future__ import annotations

import ast
from collections.abc import Collection

from fgrad.adjoints.overwriting import Bounds, linear

STACKS = {"sf": "pf", "si": "pi", "sc": "pc"}


def unsigned(source: str, bounds: Bounds, arrays: Collection[str]) -> str:
    """Return the source of a derivative with `np.uint64` around such indices.

    Args:
        source: the text.
        bounds: of the kernel's indices.
        arrays: the names of arrays in it, and of their cotangents.
    """
    tree = _Unsigned(bounds, arrays).visit(ast.parse(source))
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


class _Unsigned(ast.NodeTransformer):
    def __init__(self, bounds: Bounds, arrays: Collection[str]) -> None:
        self.bounds, self.arrays = bounds, arrays

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        if name in STACKS:
            is_top = isinstance(node.slice, ast.Name) and node.slice.id == STACKS[name]
            node.slice = _cast(node.slice) if is_top else node.slice
        elif name in self.arrays:
            if isinstance(node.slice, ast.Tuple):
                node.slice.elts = [self.index(i) for i in node.slice.elts]
            else:
                node.slice = self.index(node.slice)
        return node

    def index(self, node: ast.expr) -> ast.expr:
        x = None if isinstance(node, ast.Slice | ast.Constant) else linear(node)
        return _cast(node) if x is not None and self.bounds.is_positive(x) else node


def _cast(node: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name("np", ast.Load()), "uint64", ast.Load()), [node], [])
