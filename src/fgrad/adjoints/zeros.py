"""Where a cotangent of a scalar is zero for sure: what is added to it there is assigned."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from fgrad.adjoints.recording import Plan
from fgrad.adjoints.syntax import Assign, For, If, Stmt, Store, While


class Zeros:
    """The first additions to cotangents in the reverse sweep of a block.

    Args:
        plan: the reverse statements.
        body: the block.
        names: the cotangents of scalars that are zero before.
    """

    def __init__(self, plan: Plan, body: Sequence[Stmt], names: Collection[str]) -> None:
        self.plan: Plan = plan
        self.names: set[str] = set(names)
        self.first: set[ast.stmt] = set()
        self.back(body, set(names), marks=True)

    def back(self, body: Sequence[Stmt], zero: set[str], *, marks: bool) -> set[str]:
        """Return what is zero behind the reverse of a block."""
        for s in reversed(body):
            if isinstance(s, Assign | Store):
                zero = self.through(self.plan.reverse[s], zero, marks=marks)
            elif isinstance(s, If):
                ways = [self.back(b, set(zero), marks=marks) for b in (s.body, s.orelse)]
                zero = ways[0] & ways[1]
            elif isinstance(s, For | While):
                while True:
                    behind = self.back(s.body, set(zero), marks=False)
                    if zero <= behind:
                        break
                    zero &= behind
                if marks:
                    self.back(s.body, set(zero), marks=True)
        return zero

    def through(self, stmts: Sequence[ast.stmt], zero: set[str], *, marks: bool) -> set[str]:
        """Return what is zero behind reverse statements."""
        for r in stmts:
            if isinstance(r, ast.If):
                ways = [self.through(b, set(zero), marks=marks) for b in (r.body, r.orelse)]
                zero = ways[0] & ways[1]
            elif isinstance(r, ast.Assign) and isinstance(r.targets[0], ast.Name):
                name, value = r.targets[0].id, r.value
                if name in self.names and isinstance(value, ast.Constant) and value.value == 0:
                    zero.add(name)
            elif isinstance(r, ast.AugAssign) and isinstance(r.target, ast.Name) and r.target.id in zero:
                zero.discard(r.target.id)
                if marks:
                    self.first.add(r)
        return zero

    def written(self, r: ast.stmt) -> ast.stmt:
        """Return a reverse statement as it is written."""
        if isinstance(r, ast.If):
            return ast.If(r.test, *[[self.written(t) for t in b] for b in (r.body, r.orelse)])
        if not isinstance(r, ast.AugAssign) or r not in self.first:
            return r
        value = ast.UnaryOp(ast.USub(), r.value) if isinstance(r.op, ast.Sub) else r.value
        return ast.Assign([r.target], value)
