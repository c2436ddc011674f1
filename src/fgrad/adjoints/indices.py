"""Indices that cannot be negative are unsigned in compiled derivatives: none of them counts from the end."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from typing import Any

from numba import types

from fgrad.adjoints.blocks import in_blocks
from fgrad.adjoints.compact import compact, without_zeros
from fgrad.adjoints.elements import Elements
from fgrad.adjoints.names import nodes_of
from fgrad.adjoints.overwriting import Bounds, linear
from fgrad.adjoints.parts import in_parts
from fgrad.adjoints.reciprocals import shared
from fgrad.adjoints.stacks import TOPS
from fgrad.adjoints.strips import in_strips
from fgrad.compat.numba import elements

UINT64 = "uint64"


def arranged(
    source: str,
    bounds: Bounds,
    arrays: Mapping[str, Any],
    numbers: Collection[str],
    vectors: Mapping[str, str],
    values: Collection[str],
    *,
    checked: bool,
) -> str:
    """Return the source of a derivative as it is compiled.

    Indices that cannot be negative are unsigned.

    Args:
        source: the text.
        bounds: of the kernel's indices.
        arrays: the types of arrays in it, and of their cotangents, by name.
        numbers: those that are one number, which is every element.
        vectors: cotangents of vectors that the derivative is given to write to, and those vectors.
        values: the kernel's own variables.
        checked: whether Numba is to check indices.
    """
    tree = _Unsigned(bounds, arrays, numbers).visit(ast.parse(source))
    _copy_at_once(tree.body[0])
    function = shared(without_zeros(compact(tree.body[0], arrays), vectors), values)
    function = in_strips(in_blocks(function, arrays), arrays)
    if elements() and not checked:
        function = Elements({**arrays, **_buffers(function)}, UINT64).visit(function)
    _Once(function).visit(function)
    tree.body = list(in_parts(function, arrays))
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _copy_at_once(function: ast.FunctionDef) -> None:
    """Let a function copy arrays that it is given, which are contiguous, by what compiles at once."""
    copies = {f"{a.arg}.copy()": a.arg for a in function.args.args}
    for s in function.body:
        name = copies.get(ast.unparse(s.value)) if isinstance(s, ast.Assign) else None
        if name is not None:
            s.value = ast.Call(ast.Name("duplicate", ast.Load()), [ast.Name(name, ast.Load())], [])  # type: ignore[attr-defined]


def _buffers(function: ast.FunctionDef) -> dict[str, Any]:
    """Return the types of vectors of a known length that a function makes first."""
    made = [s for s in function.body if isinstance(s, ast.Assign) and isinstance(s.value, ast.Call)]
    found = [s for s in made if ast.unparse(s.value.func) == "np.empty" and len(s.value.args) == 1]  # type: ignore[attr-defined]
    vector = types.Array(types.float64, 1, "C")
    return {ast.unparse(s.targets[0]): vector for s in found if isinstance(s.value.args[0], ast.Constant)}  # type: ignore[attr-defined]


class _Unsigned(ast.NodeTransformer):
    def __init__(self, bounds: Bounds, arrays: Collection[str], numbers: Collection[str]) -> None:
        self.bounds, self.arrays, self.numbers = bounds, arrays, numbers

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        if name in self.numbers:
            return node.value
        if name in TOPS:
            is_top = isinstance(node.slice, ast.Name) and node.slice.id == TOPS[name]
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
    return ast.Call(ast.Name(UINT64, ast.Load()), [node], [])


class _Once(ast.NodeTransformer):
    """The variable of a loop is made unsigned once in every turn: Numba types and lowers each cast anew."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.used = {n.id for n in nodes_of(function) if isinstance(n, ast.Name)}
        self.used |= {a.arg for a in function.args.args}
        self.names: dict[str, str] = {}

    def visit_For(self, node: ast.For) -> ast.AST:
        var = node.target.id if isinstance(node.target, ast.Name) else ""
        assigned = {n.id for s in node.body for n in nodes_of(s)
                    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}  # fmt: skip
        outer = self.names.pop(var, None)
        before = set(self.used)
        if var not in assigned:
            name = f"{var}_u"
            while name in self.used:
                name += "u"
            self.names[var] = name
        hidden = {n: self.names.pop(n) for n in assigned & self.names.keys()}
        node.body = [self.visit(s) for s in node.body]
        self.names |= hidden
        mine = self.names.pop(var, None)
        if mine is not None and mine in self.used - before:
            cast = ast.Assign([ast.Name(mine, ast.Store())], _cast(ast.Name(var, ast.Load())))
            node.body.insert(0, cast)
        if outer is not None:
            self.names[var] = outer
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == UINT64 and isinstance(node.args[0], ast.Name):
            name = self.names.get(node.args[0].id)
            if name is not None:
                self.used.add(name)
                return ast.Name(name, ast.Load())
        return node
