"""Ufuncs of smooth operations, as those operations: in a compiled program they fuse with what is around.

Called as a kernel, a ufunc reads and writes whole arrays once for its values and once for its slopes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, TypeAlias

from numba import types

from fgrad.adjoints.names import nodes_of
from fgrad.adjoints.slopes import atom_of
from fgrad.adjoints.syntax import Assign, For, Function, Store, element_of
from fgrad.core.dispatch import bind
from fgrad.expr.atoms import ATOMS
from fgrad.expr.node import Expr, Operand, var

Formula: TypeAlias = Callable[[Mapping[str, Any]], Any]

LONGEST = 200  # parts of expressions


def formula(function: Function) -> Formula | None:
    """Return what the loop of a ufunc does to each element, as a function of whole arrays by name.

    None where that is more than smooth operations on float64 in a row: branches and ties have derivatives by
    a convention of kernels, and other dtypes are promoted otherwise in Numba than in NumPy.
    """
    if len(function.body) != 1 or not isinstance(function.body[0], For):
        return None
    *steps, last = function.body[0].body
    kinds = [function.types[p.name].dtype for p in function.params]
    if not isinstance(last, Store) or any(kind != types.float64 for kind in kinds):
        return None
    made: list[tuple[str, ast.expr]] = []
    for s in steps:
        if not isinstance(s, Assign):
            return None
        made.append((s.name, s.value))
    nodes = [*[value for _, value in made], last.value]
    numbers = {n: float(x) for n, x in function.constants.items() if type(x) in (int, float)}
    variables = {*numbers, *[p.name for p in function.params], *[name for name, _ in made]}
    count = sum(1 for n in nodes for _ in nodes_of(n))
    if count > LONGEST or not all(_is_smooth(n, variables) for n in nodes):
        return None

    def apply(arrays: Mapping[str, Any]) -> Any:
        known = {**numbers, **arrays}
        for name, value in made:
            known[name] = _applied(value, known)
        return _applied(last.value, known)

    return apply


def _is_smooth(node: ast.expr, variables: Collection[str]) -> bool:
    """Return whether an expression is made of smooth operations on float64 and variables."""
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if getattr(node, "ty", None) != types.float64:
        return False
    found = (node.id,) if isinstance(node, ast.Name) else element_of(node)
    if found:
        return found[0] in variables
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        has_power = isinstance(node.right, ast.Constant) and node.right.value in (2, 3)
        return has_power and _is_smooth(node.left, variables)
    name, args = atom_of(node) or ("", [])
    return name in ATOMS and _has_smooth_slopes(name) and all(_is_smooth(a, variables) for a in args)


@cache
def _has_smooth_slopes(name: str) -> bool:
    """Return whether no slope of an atom is zero, or made of what jumps."""
    return all(map(_jumps_nowhere, _slopes(name)))


def _slopes(name: str) -> tuple[Operand, ...]:
    atom = ATOMS[name]
    return atom.slopes(var("f"), *[var(f"x{i}") for i in range(atom.arity)])


def _jumps_nowhere(e: Operand) -> bool:
    if not isinstance(e, Expr) or e.head not in ATOMS:
        return e != 0
    return bool(all(s != 0 for s in _slopes(e.head)) and all(map(_jumps_nowhere, e.args)))


def _applied(node: ast.expr, known: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return known[node.id]
    found = element_of(node)
    if found:
        return known[found[0]]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return _applied(node.left, known) ** _applied(node.right, known)
    name, args = atom_of(node) or ("", [])
    return bind(name, *[_applied(a, known) for a in args])
