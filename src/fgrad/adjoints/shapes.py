"""Shapes of what a kernel returns, where they follow from shapes and integers: nothing is computed for them.

The lowered kernel is gone through with the lengths of arrays, integers that are known, and "not known" for
all else; of what a loop or a branch assigns is known what it is on every way.
"""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fgrad.adjoints import syntax
from fgrad.adjoints.names import nodes_of
from fgrad.adjoints.syntax import Alloc, Assign, For, Function, If, Opaque, Stmt, View, While

Shape: TypeAlias = tuple[int, ...]
LENGTHS = {"shape", "size", "ndim"}
ALIKE = {"np.argsort", "np.sign"}  # give arrays of the shape of their first argument
_FUNCTIONS: dict[str, Any] = {
    **{f.__name__: f for f in (abs, bool, float, int, len, max, min, round)},
    "math": math,
    "np": np,
}


def array_shapes(
    function: Function, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]
) -> dict[str, Shape]:
    """Return the shapes of arrays by name, of those that are known.

    Args:
        function: the kernel.
        shapes: of its parameters that are arrays.
        numbers: values of parameters that are known.
    """
    walk = _Walk(function, dict(shapes), dict(numbers))
    walk.block(function.body)
    return {n: s for n, s in walk.shapes.items() if s is not None}


class _Walk:
    """What is known behind each statement."""

    def __init__(self, function: Function, shapes: dict[str, Shape | None], numbers: dict[str, Any]) -> None:
        self.constants = {**_FUNCTIONS, **function.constants}
        self.numbers = numbers
        self.shapes: dict[str, Shape | None] = shapes  # None of arrays that have others elsewhere

    def block(self, body: Sequence[Stmt]) -> None:
        """Go through statements."""
        for s in body:
            if isinstance(s, Assign):
                value = self.value(s.value)
                self.numbers.pop(s.name, None)
                if value is not None:
                    self.numbers[s.name] = value
            elif isinstance(s, Alloc):
                dims = [self.value(d) for d in s.dims]
                self.shapes[s.name] = None if None in dims else tuple(map(int, dims))
            elif isinstance(s, View):
                self.shapes[s.name] = self.view(s)
            elif isinstance(s, Opaque):
                self.shapes[s.name] = self.opaque(s.value)
            elif isinstance(s, If):
                test = self.value(s.test)
                if test is None:
                    self.either(s.body, s.orelse)
                else:
                    self.block(s.body if test else s.orelse)
            elif isinstance(s, For | While):
                for inner in syntax.walk(s.body):
                    if isinstance(inner, Assign):
                        self.numbers.pop(inner.name, None)
                if isinstance(s, For):
                    self.numbers.pop(s.var, None)
                self.either(s.body, [])

    def either(self, one: Sequence[Stmt], other: Sequence[Stmt]) -> None:
        """Go through two blocks of which one runs; an array has no shape but where it was made."""
        shapes, numbers = dict(self.shapes), dict(self.numbers)
        self.block(one)
        first = self.shapes, self.numbers
        self.shapes, self.numbers = shapes, numbers
        self.block(other)
        self.numbers = {n: v for n, v in self.numbers.items() if _same(first[1].get(n), v)}
        both = {**first[0], **self.shapes}
        self.shapes = {n: s if first[0].get(n, s) == s else None for n, s in both.items()}

    def is_known(self, node: ast.AST) -> bool:
        """Return whether an expression reads nothing but known numbers, constants, and lengths of arrays."""
        lengths = {
            n.value.id
            for n in nodes_of(node)
            if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.attr in LENGTHS
        }
        if any(self.shapes.get(n) is None and n not in self.constants for n in lengths):
            return False
        read = {name for name, _ in syntax.reads(node)}
        return read <= self.numbers.keys() | self.constants.keys()

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression, None where it is not known."""
        if not self.is_known(node):
            return None
        return self.evaluated(node)

    def evaluated(self, node: ast.expr) -> Any:
        """Return what Python makes of an expression; arrays are there without their elements."""
        arrays = {n: np.broadcast_to(np.False_, s) for n, s in self.shapes.items() if s is not None}
        try:
            code = compile(syntax.text(node), "<shape>", "eval")
            return eval(code, {**self.constants, **arrays, **self.numbers})  # noqa: S307 -- of the kernel
        except Exception:  # noqa: BLE001 -- what the kernel raises it raises when it runs
            return None

    def view(self, s: View) -> Shape | None:
        """Return the shape of a view."""
        if self.shapes.get(s.source) is None:
            return None
        if isinstance(s.form, ast.Subscript):
            known = self.is_known(s.form.slice)
        else:  # `x.T`, `x.reshape((n, m))`
            known = self.is_known(_without(s.form, s.source))
        found = self.evaluated(s.form) if known else None
        return None if found is None else np.shape(found)

    def opaque(self, node: ast.expr) -> Shape | None:
        """Return the shape of what a function of Numba's gives."""
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ALIKE:
            first = node.args[0]
            return self.shapes.get(first.id) if isinstance(first, ast.Name) else None
        found = self.value(node)
        return None if found is None else np.shape(found)


def _without(node: ast.AST, name: str) -> ast.AST:
    """Return an expression with a constant where a variable is read first."""
    made = copy.deepcopy(node)
    for parent in nodes_of(made):
        for field, child in ast.iter_fields(parent):
            if isinstance(child, ast.Name) and child.id == name:
                setattr(parent, field, ast.Constant(0))
                return made
    return made


def _same(x: Any, y: Any) -> bool:
    return type(x) is type(y) and bool(x == y)
