"""Which loops of the reverse sweep may run forwards: those whose turns add to cotangents in any order.

Memory is then read as the kernel reads it, and LLVM can compute several turns at once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from fgrad.adjoints import syntax
from fgrad.adjoints.overwriting import Bounds, linear
from fgrad.adjoints.recording import Plan
from fgrad.adjoints.reversal import Reversal
from fgrad.adjoints.syntax import Assign, For, Function, If, Stmt, Store, While

Access = tuple[str, str, tuple[ast.expr, ...] | None]  # add, read or set; the cotangent; where


def is_free(loop: For | While, plan: Plan, reversal: Reversal, bounds: Bounds) -> bool:
    """Return whether the turns of a loop may go back in any order.

    Where it holds others, they may if each runs again before its reverse, or none records anything.
    """
    inner = list(syntax.walk(loop.body))
    if not isinstance(loop, For) or loop.until or any(isinstance(s, While) for s in inner):
        return False
    if plan.records(loop) and loop not in plan.turns:
        return False
    cts = reversal.primals
    found = [a for s in inner for r in plan.reverse.get(s, []) for a in accesses(r, cts)]
    for kind, ct, where in found:
        if (
            where is None
            and kind != "read"
            and not _is_turns_own(ct, cts[ct], found, loop, reversal.function)
        ):
            return False
    elements = [(kind, ct, where) for kind, ct, where in found if where is not None]
    return all(
        kind == other == "add" or kind == other == "read" or _apart(x, y, reversal, bounds, loop)
        for kind, *x in elements
        for other, *y in elements
    )


def accesses(r: ast.stmt, cts: dict[str, str]) -> Iterator[Access]:
    """Yield what a reverse statement does with cotangents."""
    if isinstance(r, ast.If):
        for part in (*r.body, *r.orelse):
            yield from accesses(part, cts)
        return
    if not isinstance(r, ast.Assign | ast.AugAssign):
        return
    target = r.target if isinstance(r, ast.AugAssign) else r.targets[0]
    for n, where in syntax.reads(r.value):
        if n in cts:
            yield "read", n, where
    element = syntax.element_of(target)
    name = element[0] if element else target.id if isinstance(target, ast.Name) else ""
    if name in cts:
        yield "add" if isinstance(r, ast.AugAssign) else "set", name, element[1] if element else None


def _is_turns_own(ct: str, name: str, found: Sequence[Access], loop: For, function: Function) -> bool:
    """Return whether a scalar cotangent is zero before and between turns, or is only added to."""
    kinds = {kind for kind, other, _ in found if other == ct}
    if kinds == {"add"}:
        return True
    inside = set(syntax.walk(loop.body))
    outside = (e for s in syntax.walk(function.body) if s not in inside for e in syntax.heads(s))
    if name in function.returns or any(n == name for e in outside for n, _ in syntax.reads(e)):
        return False
    return _defines(name, loop.body)


def _defines(name: str, body: Sequence[Stmt]) -> bool:
    """Return whether a block assigns a scalar before anything in it reads it."""
    for s in body:
        nodes = [e for t in syntax.walk([s]) for e in syntax.heads(t)]
        if any(n == name for e in nodes for n, _ in syntax.reads(e)):
            return False
        if isinstance(s, Assign) and s.name == name:
            return True
    return False


def _apart(x: Any, y: Any, reversal: Reversal, bounds: Bounds, loop: For) -> bool:
    """Return whether no two turns meet in two elements."""
    (ct, where), (other, there) = x, y
    roots = {reversal.root(reversal.primals[c]) for c in (ct, other)}
    if len(roots) > 1:
        return True
    if ct != other:
        return False
    for i, j in zip(where, there, strict=True):
        if bounds.differ(i, j, loop) or bounds.differ(j, i, loop):
            return True
        if syntax.text(i) == syntax.text(j) and moves(i, loop, bounds):
            return True
    return False


def moves(index: Any, loop: For, bounds: Bounds) -> bool:
    """Return whether an index is another one in every turn of a loop."""
    x = linear(index)
    if x is None or not x[0].get(loop.var):
        return False
    return bounds.is_positive(x) and all(n == loop.var or bounds.is_fixed(n, loop) for n in x[0])


def taken_once(array: str, plan: Plan, reversal: Reversal, bounds: Bounds) -> Stmt | None:
    """Return the only statement that meets the cotangent of an array, if it meets every element at most once.

    The reverse sweep then need not write to the cotangent.
    """
    cts = reversal.primals
    users = [s for s, reverse in plan.reverse.items()
             if any(array == cts[ct] for r in reverse for _, ct, _ in accesses(r, cts))]  # fmt: skip
    shared = [n for n, root in reversal.roots.items() if root == reversal.root(array)]
    only = users[0] if len(users) == 1 else None
    if not isinstance(only, Store) or shared != [array]:
        return None
    met = [kind for r in plan.reverse[only] for kind, ct, _ in accesses(r, cts) if cts[ct] == array]
    if met != ["read", "set"]:
        return None
    for loop in bounds.owners[only]:
        if isinstance(loop, If):
            continue
        if not isinstance(loop, For) or not any(moves(i, loop, bounds) for i in only.index):
            return None
    return only
