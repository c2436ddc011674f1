"""Quotients in derivatives whose divisor a slope divides one by: they become products, which take less time.

What a kernel computes is computed again with the roundings that it had, since branches, indices and what is
stored may depend on it. Where nothing but cotangents does, the last bit is free.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from fgrad.adjoints.names import name_in, nodes_of, reads_of, stored_names, target_of
from fgrad.adjoints.slopes import HELPERS
from fgrad.adjoints.stacks import TOPS


def shared(function: ast.FunctionDef, values: Collection[str]) -> ast.FunctionDef:
    """Return a function that divides once where it has `x = a / d` and `w = 1.0 / d` in one block.

    Args:
        function: which is changed; a name stands for one value where it is assigned once.
        values: the variables of the kernel; all others are cotangents, and what makes them.
    """
    stored = Counter(stored_names([function]))
    stored.update(a.arg for a in function.args.args)
    once = {n for n, count in stored.items() if count == 1}
    free = once - _fixed(function, values)
    for block in list(_blocks(function.body)):
        _share(block, once, free)
    return function


def _share(block: list[ast.stmt], once: Collection[str], free: Collection[str]) -> None:
    given: dict[str, Any] = {_name(s): s for s in block if _name(s) in once}
    quotients = [s for s in given.values() if _is_quotient(s.value)]
    inverses = [s for s in quotients if ast.unparse(s.value.left) == "1.0"]
    for s in quotients if inverses else ():
        quotient = s.value
        if isinstance(quotient.left, ast.Constant) or not _stays(quotient.right, once):
            continue
        divisor = ast.unparse(quotient.right)
        for t in inverses:
            name = ast.unparse(t.value.right)
            held = given.get(name) if name != divisor else None  # `name = divisor`
            if name != divisor and (held is None or ast.unparse(held.value) != divisor):
                continue
            if block.index(t) < block.index(s):
                continue
            if _name(s) not in free:
                break
            moved = [u for u in (held, t) if u is not None and block.index(u) > block.index(s)]
            for u in moved:
                block.remove(u)
            place = block.index(s)
            block[place:place] = moved
            quotient.op, quotient.right = ast.Mult(), ast.Name(_name(t), ast.Load())
            break


def _blocks(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    yield body
    for s in body:
        for field in ("body", "orelse"):
            yield from _blocks(getattr(s, field, []))


def _name(s: ast.stmt) -> str:
    """Return the one name that a statement assigns, "" if it does something else."""
    target = s.targets[0] if isinstance(s, ast.Assign) and len(s.targets) == 1 else None
    return target.id if isinstance(target, ast.Name) else ""


def _is_quotient(node: Any) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)


def _stays(node: ast.expr, once: Collection[str]) -> bool:
    """Return whether an expression is the same wherever its names are there: no element of an array."""
    parts = list(nodes_of(node))
    functions = {id(n.func) for n in parts if isinstance(n, ast.Call)}
    functions |= {id(n.value) for n in parts if isinstance(n, ast.Attribute)}
    calls = [ast.unparse(n.func) for n in parts if isinstance(n, ast.Call)]
    if any(isinstance(n, ast.Subscript) for n in parts) or not all(
        c.startswith(("np.", "math.")) for c in calls
    ):
        return False
    return all(n.id in once for n in parts if isinstance(n, ast.Name) and id(n) not in functions)


def _fixed(function: ast.FunctionDef, values: Collection[str]) -> set[str]:
    """Return the names on which not cotangents alone depend: branches, indices, what is stored."""

    def is_value(n: str) -> bool:
        return name_in(values, n) in values

    found: set[str] = set()
    assigned: dict[str, set[str]] = {}  # by name, what it is made of without a jump
    for s in nodes_of(function):
        if not isinstance(s, ast.stmt) or s is function:
            continue
        heads = set[str]().union(*map(_names, _heads(s)))
        if isinstance(s, ast.If):  # whether a cotangent is zero
            found |= heads if any(map(is_value, heads)) else set()
            continue
        target = target_of(s) if isinstance(s, ast.Assign | ast.AugAssign) else None
        if isinstance(target, ast.Name):
            rough = _rough(s.value)  # type: ignore[attr-defined]
            found |= rough
            assigned.setdefault(target.id, set()).update(heads - rough)
        elif isinstance(target, ast.Subscript):
            array = ast.unparse(target.value)
            if is_value(array) or array in TOPS:
                found |= heads
            found |= _names(target.slice) | _rough(s.value)  # type: ignore[attr-defined]
        else:
            found |= heads
    pending = list(found)
    while pending:
        new = assigned.pop(pending.pop(), set()) - found
        found |= new
        pending += new
    return found


def _heads(s: ast.stmt) -> list[ast.expr]:
    """Return the expressions of a statement itself, not those of statements inside."""
    fields = [field if isinstance(field, list) else [field] for _, field in ast.iter_fields(s)]
    return [e for field in fields for e in field if isinstance(e, ast.expr)]


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in reads_of(node)}


def _rough(node: ast.expr) -> set[str]:
    """Return the names of which another last bit may make an expression jump."""
    if isinstance(node, ast.Name):
        return set()
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
        return _rough(node.left) | _rough(node.right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _rough(node.operand)
    if isinstance(node, ast.Call) and ast.unparse(node.func) in HELPERS:
        return set[str]().union(*map(_rough, node.args))
    return _names(node)
