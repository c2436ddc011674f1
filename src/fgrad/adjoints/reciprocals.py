"""Quotients in derivatives whose divisor a slope divides one by: they become products, which take less time.

What a kernel computes is computed again with the roundings that it had, since branches, indices and what is
stored may depend on it. Where nothing but cotangents does, the last bit is free.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from fgrad.adjoints.slopes import HELPERS
from fgrad.adjoints.stacks import TOPS

_VERSION = re.compile(r"_v\d+$")


def shared(function: ast.FunctionDef, values: Collection[str]) -> ast.FunctionDef:
    """Return a function that divides once where it has `x = a / d` and `w = 1.0 / d` in one block.

    Args:
        function: which is changed; a name stands for one value where it is assigned once.
        values: the variables of the kernel; all others are cotangents, and what makes them.
    """
    stored = Counter(n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not _is_read(n))
    stored.update(a.arg for a in function.args.args)
    once = {n for n, count in stored.items() if count == 1}
    for block in list(_blocks(function.body)):
        _share(block, function, once, values)
    return function


def _share(
    block: list[ast.stmt], function: ast.FunctionDef, once: Collection[str], values: Collection[str]
) -> None:
    given: dict[str, Any] = {_name(s): s for s in block if _name(s) in once}
    for s in list(given.values()):
        quotient = s.value
        if not _is_quotient(quotient) or isinstance(quotient.left, ast.Constant):
            continue
        divisor = ast.unparse(quotient.right)
        if not _stays(quotient.right, once):
            continue
        for t in given.values():
            found = t.value
            if block.index(t) < block.index(s) or not _is_quotient(found) or ast.unparse(found.left) != "1.0":
                continue
            name = ast.unparse(found.right)
            held = given.get(name) if name != divisor else None  # `name = divisor`
            if name != divisor and (held is None or ast.unparse(held.value) != divisor):
                continue
            if not _is_free(_name(s), function, values):
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


def _is_read(n: ast.Name) -> bool:
    return isinstance(n.ctx, ast.Load)


def _name(s: ast.stmt) -> str:
    """Return the one name that a statement assigns, "" if it does something else."""
    target = s.targets[0] if isinstance(s, ast.Assign) and len(s.targets) == 1 else None
    return target.id if isinstance(target, ast.Name) else ""


def _is_quotient(node: Any) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)


def _stays(node: ast.expr, once: Collection[str]) -> bool:
    """Return whether an expression is the same wherever its names are there: no element of an array."""
    parts = list(ast.walk(node))
    functions = {id(n.func) for n in parts if isinstance(n, ast.Call)}
    functions |= {id(n.value) for n in parts if isinstance(n, ast.Attribute)}
    calls = [ast.unparse(n.func) for n in parts if isinstance(n, ast.Call)]
    if any(isinstance(n, ast.Subscript) for n in parts) or not all(
        c.startswith(("np.", "math.")) for c in calls
    ):
        return False
    return all(n.id in once for n in parts if isinstance(n, ast.Name) and id(n) not in functions)


def _is_free(name: str, function: ast.FunctionDef, values: Collection[str]) -> bool:
    """Return whether nothing but cotangents depends on a value."""

    def is_value(n: str) -> bool:
        return _VERSION.sub("", n) in values

    reached = {name}
    statements = [s for s in ast.walk(function) if isinstance(s, ast.stmt) and s is not function]
    grew = True
    while grew:
        grew = False
        for s in statements:
            read = [e for e in _heads(s) if _holds(e, reached)]
            if not read:
                continue
            if isinstance(s, ast.If):  # whether a cotangent is zero
                if any(is_value(n.id) for n in ast.walk(s.test) if isinstance(n, ast.Name)):
                    return False
                continue
            if not isinstance(s, ast.Assign | ast.AugAssign) or not _is_smooth(s.value, reached):
                return False
            target = s.targets[0] if isinstance(s, ast.Assign) else s.target
            if isinstance(target, ast.Subscript):
                array = ast.unparse(target.value)
                if _holds(target.slice, reached) or is_value(array) or array in TOPS:
                    return False
            elif not isinstance(target, ast.Name):
                return False
            elif target.id not in reached:
                reached.add(target.id)
                grew = True
    return True


def _heads(s: ast.stmt) -> list[ast.expr]:
    """Return the expressions of a statement itself, not those of statements inside."""
    fields = [field if isinstance(field, list) else [field] for _, field in ast.iter_fields(s)]
    return [e for field in fields for e in field if isinstance(e, ast.expr)]


def _holds(node: ast.expr, names: Collection[str]) -> bool:
    return any(isinstance(n, ast.Name) and _is_read(n) and n.id in names for n in ast.walk(node))


def _is_smooth(node: ast.expr, names: Collection[str]) -> bool:
    """Return whether an expression does not jump where one of some names has another last bit."""
    if not _holds(node, names) or isinstance(node, ast.Name):
        return True
    parts: list[ast.expr] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
        parts = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        parts = [node.operand]
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in HELPERS:
        parts = node.args
    return bool(parts) and all(_is_smooth(p, names) for p in parts)
