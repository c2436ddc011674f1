"""Activity: which variables depend on what is differentiated and reach what is returned."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from fgrad.adjoints import syntax
from fgrad.adjoints.syntax import Assign, Function, Store


def carriers(node: Any) -> Iterator[str]:
    """Yield the scalars and arrays whose values an expression carries on smoothly."""
    ty = getattr(node, "ty", None)
    if isinstance(node, ast.Compare | ast.BoolOp) or (ty is not None and not syntax.is_floating(ty)):
        return
    if isinstance(node, syntax.Given):
        yield from carriers(node.source)
        return
    if isinstance(node, ast.Name):
        yield node.id
        return
    found = syntax.element_of(node)
    if found:
        yield found[0]
        return
    if isinstance(node, ast.IfExp):
        yield from carriers(node.body)
        yield from carriers(node.orelse)
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield from carriers(child)


def active_names(function: Function, wrt: Iterable[str], outputs: Iterable[str]) -> set[str]:
    """Return the scalars and arrays with derivatives.

    Args:
        function: the kernel.
        wrt: the parameters that are differentiated.
        outputs: the outputs whose cotangents, or tangents, are asked for.
    """
    roots = syntax.families(function)
    floating = {n for n, t in function.types.items() if syntax.is_floating(t)}

    def root(n: str) -> str:
        return roots.get(n, n)

    flows = []
    for s in syntax.walk(function.body):
        if isinstance(s, Assign | Store):
            target = s.name if isinstance(s, Assign) else s.array
            if target in floating:
                flows.append((root(target), {root(n) for n in carriers(s.value) if n in floating}))
    varied = _closed({root(n) for n in wrt}, [(t, f) for t, fs in flows for f in fs])
    useful = _closed({root(n) for n in outputs}, [(f, t) for t, fs in flows for f in fs])
    both = varied & useful
    return {n for n in floating if root(n) in both}


def _closed(start: set[str], edges: list[tuple[str, str]]) -> set[str]:
    """Return what is reached where `to` is reached from `source`, for edges (to, source)."""
    found, grew = set(start), True
    while grew:
        grew = False
        for to, source in edges:
            if source in found and to not in found:
                found.add(to)
                grew = True
    return found
