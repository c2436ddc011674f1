"""Which stores cannot overwrite an element that was read before: by bounds of indices in nested loops.

In a loop over k that grows, a store to row i >= k + 1 overwrites nothing that statements have read of rows up
to k, now or in turns before. So elimination, substitution and recurrences record next to nothing.
"""

from __future__ import annotations

import ast
from typing import Any

from fgrad.adjoints import syntax
from fgrad.adjoints.syntax import Assign, For, Function, Stmt, Store, While

Linear = tuple[dict[str, int], int]  # a sum of variables, each so many times, and a constant
DEPTH = 12


class Bounds:
    """Bounds of indices of one function."""

    def __init__(self, function: Function) -> None:
        self.owners: dict[Stmt, tuple[Stmt, ...]] = {}
        self.order: dict[Stmt, int] = {}
        self._visit(function.body, ())
        assigned = [s for s in self.order if isinstance(s, Assign)]
        names = [s.name for s in assigned]
        self.values: dict[str, ast.expr] = {s.name: s.value for s in assigned if names.count(s.name) == 1}
        self.several: set[str] = {n for n in names if names.count(n) > 1}
        self.loops: dict[str, For] = {s.var: s for s in self.order if isinstance(s, For)}
        self.inside: dict[str, tuple[Stmt, ...]] = {n: self.owners[s] for n, s in self.loops.items()}
        self.places: dict[str, tuple[Stmt, ...]] = {
            s.name: self.owners[s] for s in assigned if s.name in self.values
        }

    def _visit(self, body: list[Stmt], around: tuple[Stmt, ...]) -> None:
        for s in body:
            self.order[s] = len(self.order)
            self.owners[s] = around
            for block in syntax.blocks(s):
                self._visit(block, (*around, s))

    def may_overwrite(self, store: Store, user: Stmt, array: str, index: Any) -> bool:
        """Return whether a store may overwrite an element after a statement has read it.

        Args:
            store: the store.
            user: the statement that reads, be it in the reverse sweep.
            array: what it reads.
            index: where; empty if that is not known.
        """
        if store.array != array or not index:
            return True
        around = [s for s in self.owners[store] if isinstance(s, For | While)]
        shared = [s for s in around if s in self.owners[user]]
        if not shared:
            return self.order[user] <= self.order[store]
        loop = shared[0]
        step = _step(loop)
        if not isinstance(loop, For) or not step or loop.until:
            return True
        return not any(self.apart(i, j, loop, step) for i, j in zip(store.index, index, strict=True))

    def apart(self, stored: Any, read: Any, loop: For, step: int) -> bool:
        """Return whether one index of a store differs from all that were read up to this turn of a loop."""
        s, r = linear(stored), linear(read)
        if s is None or r is None or not (self.is_positive(s) and self.is_positive(r)):
            return False
        for side in (1, -1):  # the store lies above, or below, of what was read
            near, far = self.bound(s, loop, -side), self.bound(r, loop, side)
            if near is None or far is None:
                continue
            gap = _sum(near, far, -1)
            if gap[0] or gap[1] * side <= 0:
                continue
            slope = far[0].get(loop.var, 0)
            if slope * side * step >= 0:
                return True
        return False

    def differ(self, moving: Any, fixed: Any, loop: For) -> bool:
        """Return whether an index differs from one that a loop does not change, in all turns."""
        x, y = linear(moving), linear(fixed)
        if x is None or y is None or not (self.is_positive(x) and self.is_positive(y)):
            return False
        for side in (1, -1):
            near = self.bound(x, loop, -side, through=True)
            gap = None if near is None else _sum(near, y, -1)
            if gap is not None and not gap[0] and gap[1] * side > 0:
                return True
        return False

    def bound(
        self, x: Linear, loop: For, side: int, depth: int = 0, *, through: bool = False
    ) -> Linear | None:
        """Return a bound of an index, from above (1) or below (-1), by what a loop does not change.

        Its own variable stays, unless the bound is one for all turns (`through`).
        """
        if depth > DEPTH:
            return None
        for n, c in x[0].items():
            inner = self.definition(n)
            if inner is None:
                if (n == loop.var and not through) or self.is_fixed(n, loop):
                    continue
                inner = self.replacement(n, c * side)
            if inner is None:
                return None
            rest = ({m: k for m, k in x[0].items() if m != n}, x[1])
            return self.bound(_sum(rest, inner, c), loop, side, depth + 1, through=through)
        return x

    def definition(self, name: str) -> Linear | None:
        """Return what a variable stands for, if that is a sum of variables that keep their values."""
        found = linear(self.values[name]) if name in self.values else None
        return found if found is not None and self.several.isdisjoint(found[0]) else None

    def replacement(self, name: str, side: int) -> Linear | None:
        """Return what bounds a variable from above if `side` is positive, else from below."""
        if name in self.values:
            return self.definition(name)
        found = self.loops.get(name)
        step = _step(found) if found is not None else 0
        if found is None or not step or name in self.several:
            return None
        if (side > 0) == (step > 0):
            stop = linear(found.stop)
            return None if stop is None else (stop[0], stop[1] - (1 if step > 0 else -1))
        return linear(found.start)

    def is_fixed(self, name: str, loop: For) -> bool:
        """Return whether a variable is the same in all turns of a loop."""
        if name in self.several:
            return False
        around = self.inside.get(name, self.places.get(name))
        if around is None:
            return True  # a parameter, or a shape
        return loop not in around and self.loops.get(name) is not loop

    def is_positive(self, x: Linear) -> bool:
        """Return whether an index does not count from the end."""
        low = self.least(x)
        return low is not None and low >= 0

    def least(self, x: Linear, depth: int = 0) -> int | None:
        """Return a number that an index is never less than."""
        if depth > DEPTH:
            return None
        total = x[1]
        for n, c in x[0].items():
            inner = self.replacement(n, -c) if c > 0 else None
            low = None if inner is None else self.least(inner, depth + 1)
            if low is None:
                return None
            total += c * low
        return total


def _step(s: Any) -> int:
    """Return the step of a loop, 0 where it is not known."""
    step = s.step if isinstance(s, For) else None
    return step.value if isinstance(step, ast.Constant) and isinstance(step.value, int) else 0


def _sum(x: Linear, y: Linear, factor: int) -> Linear:
    terms = dict(x[0])
    for n, c in y[0].items():
        terms[n] = terms.get(n, 0) + factor * c
    return {n: c for n, c in terms.items() if c}, x[1] + factor * y[1]


def linear(node: Any) -> Linear | None:
    """Return an index as a sum of variables, each so many times, and a constant; None if it is not one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return {}, node.value
    if isinstance(node, ast.Name):
        return {node.id: 1}, 0
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
        return {syntax.text(node): 1}, 0  # a length
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        x, y = linear(node.left), linear(node.right)
        return None if x is None or y is None else _sum(x, y, 1 if isinstance(node.op, ast.Add) else -1)
    return None
