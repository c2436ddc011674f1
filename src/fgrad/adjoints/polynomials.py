"""Polynomials in one variable: their slope takes fewer operations forwards, beside their value.

The reverse of `x * (a + x * (b + x))` multiplies a cotangent at every level twice, and adds to that of `x`.
Forwards, a level is one product and one sum. Slopes of polynomials are finite where values are: other
functions are left to the reverse, where a cotangent of zero wins over an infinite slope.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Collection
from typing import Any

from fgrad.adjoints import slopes, syntax
from fgrad.adjoints.activity import carriers


class Polynomial:
    """An expression of real numbers, as a polynomial in what has derivatives.

    Args:
        node: the expression.
        active: the scalars and arrays with derivatives.
        kept: returns a variable that holds the value of an expression.
    """

    def __init__(self, node: Any, active: Collection[str], kept: Callable[[Any, str], Any]) -> None:
        self.node, self.active, self.kept = node, active, kept
        self.held: dict[int, Any] = {}
        self.leaves: dict[str, Any] = {}
        self.pays = self.look(node) and len(self.leaves) == 1 and self.is_shorter()

    @property
    def variable(self) -> Any:
        """The one variable."""
        return next(iter(self.leaves.values()))

    def moves(self, node: Any) -> bool:
        """Return whether an expression depends on the variable."""
        return any(n in self.active for n in carriers(node))

    def look(self, node: Any) -> bool:
        """Return whether an expression is a polynomial, and note its variables."""
        if not self.moves(node):
            return True
        if syntax.is_leaf(node):
            self.leaves[syntax.text(node)] = node
            return not syntax.is_complex(node.ty)
        parts = _parts(node)
        return bool(parts) and all(map(self.look, parts))

    def is_shorter(self) -> bool:
        """Return whether the slope, a product with the cotangent and a sum are less than the reverse."""
        return self.forwards(self.node) + 2 < self.backwards(self.node)

    def forwards(self, node: Any) -> int:
        """Return how many operations a slope takes beside values."""
        moving = [p for p in _parts(node) if self.moves(p)]
        if _is_square(node):
            return 1 + (not self.is_one(moving[0])) + self.forwards(moving[0])
        products = sum(not self.is_one(p) for p in moving) if _is_product(node) else 0
        return products + max(len(moving) - 1, 0) + sum(map(self.forwards, moving))

    def backwards(self, node: Any) -> int:
        """Return how many operations the reverse takes beside values."""
        moving = [p for p in _parts(node) if self.moves(p)]
        if _is_square(node):
            return 2 + self.backwards(moving[0])
        products = len(moving) if _is_product(node) else 0
        return products + sum(map(self.backwards, moving)) + (not moving)

    def is_one(self, node: Any) -> bool:
        """Return whether a slope is one, or minus one."""
        moving = [p for p in _parts(node) if self.moves(p)]
        return not moving or (not _is_product(node) and len(moving) == 1 and self.is_one(moving[0]))

    # ---- what is written ----------------------------------------------------------------------------

    def slope(self, node: Any) -> Any:
        """Return the slope of an expression that depends on the variable."""
        if syntax.is_leaf(node):
            return ast.Constant(1.0)
        if isinstance(node, ast.UnaryOp):
            return _negative(self.slope(node.operand))
        if _is_square(node):
            twice = ast.BinOp(ast.Constant(2.0), ast.Mult(), self.value(node.left))
            return _product(twice, self.slope(node.left))
        terms = []
        for part, other in ((node.left, node.right), (node.right, node.left)):
            if self.moves(part):
                slope = self.slope(part)
                if _is_product(node):
                    slope = _product(self.value(other), slope)
                is_negative = isinstance(node.op, ast.Sub) and part is node.right
                terms.append(_negative(slope) if is_negative else slope)
        return terms[0] if len(terms) == 1 else _sum(*terms)

    def value(self, node: Any) -> Any:
        """Return the value of a factor, which is computed once."""
        if syntax.is_leaf(node):
            return copy.deepcopy(node)
        if id(node) not in self.held:
            self.held[id(node)] = self.kept(self.computed(node), "w")
        return copy.deepcopy(self.held[id(node)])

    def computed(self, node: Any) -> Any:
        """Return an expression as it is, but for factors whose values are held."""
        if not self.moves(node) or syntax.is_leaf(node):
            return copy.deepcopy(node)
        find = self.value if _is_product(node) else self.computed
        parts = [find(p) for p in _parts(node)]
        made = ast.UnaryOp(node.op, *parts) if len(parts) == 1 else ast.BinOp(parts[0], node.op, parts[1])
        return syntax.typed(made, node.ty)


def _parts(node: Any) -> list[Any]:
    """Return the operands of what polynomials are made of; nothing for all else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [node.operand]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
        return [node.left, node.right]
    return []


def _is_product(node: Any) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)


def _is_square(node: Any) -> bool:
    return _is_product(node) and syntax.text(node.left) == syntax.text(node.right)


def _product(x: Any, y: Any) -> Any:
    if isinstance(y, ast.UnaryOp):
        return _negative(_product(x, y.operand))
    return slopes.product(x, y)


def _sum(x: Any, y: Any) -> Any:
    if isinstance(y, ast.UnaryOp):
        return ast.BinOp(x, ast.Sub(), y.operand)
    return ast.BinOp(x, ast.Add(), y)


def _negative(node: Any) -> Any:
    return node.operand if isinstance(node, ast.UnaryOp) else ast.UnaryOp(ast.USub(), node)
