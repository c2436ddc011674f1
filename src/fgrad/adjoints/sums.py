"""Sums of an innermost loop of the reverse sweep: cotangents that every turn adds to stay in registers."""

from __future__ import annotations

import ast
import copy
from typing import Any

from fgrad.adjoints import syntax
from fgrad.adjoints.names import nodes_of
from fgrad.adjoints.overwriting import Bounds
from fgrad.adjoints.recording import Plan
from fgrad.adjoints.reversal import Reversal
from fgrad.adjoints.syntax import Alloc, Assign, For, Opaque, View, While


class Sums:
    """The cotangents that a loop adds to, and neither reads nor changes otherwise."""

    def __init__(self, loop: For | While, plan: Plan, reversal: Reversal, bounds: Bounds) -> None:
        self.loop: For | While = loop
        self.reversal: Reversal = reversal
        self.bounds: Bounds = bounds
        self.found: dict[str, tuple[str, Any]] = {}
        added: dict[str, Any] = {}
        self.others: list[Any] = []  # what is read, or written otherwise
        for s in syntax.walk(loop.body):
            for r in plan.reverse.get(s, []):
                self.look(r, added)
        changed = self.changed()
        for text, target in added.items():
            if self.is_sum(target, changed):
                self.found[text] = reversal.fresh("acc"), target

    def look(self, r: ast.stmt, added: dict[str, Any]) -> None:
        """Note what one statement does with cotangents."""
        if isinstance(r, ast.AugAssign):
            added[syntax.text(r.target)] = r.target
            self.others += self.read(r.value)
        elif isinstance(r, ast.Assign):
            self.others += [*self.read(r.value), *self.read(r.targets[0])]
        else:
            self.others += self.read(r)

    def read(self, node: ast.AST) -> list[Any]:
        """Return the cotangents in a statement or expression."""
        found = [n for n in nodes_of(node) if isinstance(n, ast.Name) and n.id in self.reversal.primals]
        elements = {id(n.value): n for n in nodes_of(node) if isinstance(n, ast.Subscript)}
        return [elements.get(id(n), n) for n in found]

    def changed(self) -> set[str]:
        """Return the variables that differ from turn to turn."""
        named = [s for s in syntax.walk(self.loop.body) if isinstance(s, Assign | View | Alloc | Opaque)]
        return {*(s.name for s in named), *([self.loop.var] if isinstance(self.loop, For) else [])}

    def is_sum(self, target: Any, changed: set[str]) -> bool:
        """Return whether a cotangent is the same in all turns, and is only added to."""
        ct = target.id if isinstance(target, ast.Name) else target.value.id
        name = self.reversal.primals[ct]
        if syntax.is_complex(self.reversal.function.types[name]) or (
            name in changed and syntax.element_of(target)
        ):
            return False
        if isinstance(target, ast.Name):
            return not any(isinstance(o, ast.Name) and o.id == ct for o in self.others)
        index = syntax.element_of(target)[1]  # type: ignore[index]
        if any(n in changed for i in index for n, _ in syntax.reads(i)):
            return False
        if any(k is not None for i in index for _, k in syntax.reads(i)):
            return False  # an index that is an element itself
        root = self.reversal.root(name)
        for o in self.others:
            where = syntax.element_of(o)
            other = self.reversal.primals[o.id if isinstance(o, ast.Name) else o.value.id]
            if self.reversal.root(other) == root and not self.is_apart(name, index, other, where):
                return False
        return True

    def is_apart(self, name: str, index: Any, other: str, where: Any) -> bool:
        """Return whether two elements differ in every turn."""
        if name != other or where is None or not isinstance(self.loop, For) or self.loop.until:
            return False
        loop = self.loop
        return any(self.bounds.differ(j, i, loop) for i, j in zip(index, where[1], strict=True))

    # ---- what is written ----------------------------------------------------------------------------

    def added(self, r: ast.stmt) -> ast.stmt:
        """Return a reverse statement with the sum in place of a cotangent."""
        if not isinstance(r, ast.AugAssign) or syntax.text(r.target) not in self.found:
            return r
        name = self.found[syntax.text(r.target)][0]
        value = copy.deepcopy(r.value)
        if isinstance(r.op, ast.Sub):
            value = ast.UnaryOp(ast.USub(), value)
        more = ast.Call(ast.Name("plus", ast.Load()), [ast.Name(name, ast.Load()), value], [])
        return ast.Assign([ast.Name(name, ast.Store())], more)

    def before(self) -> list[str]:
        """Return what begins the sums."""
        return [f"{name} = 0.0" for name, _ in self.found.values()]

    def behind(self) -> list[str]:
        """Return what adds them to the cotangents: not where no turn did, as the index may mean nothing."""
        lines = []
        for name, target in self.found.values():
            where = syntax.text(target)
            if isinstance(target, ast.Name):
                lines.append(f"{where} += {name}")
            else:
                lines += [f"if {name} != 0.0:", f"    {where} += {name}"]
        return lines
