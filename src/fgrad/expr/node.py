"""Scalar expressions: immutable nodes, shared so that equal means identical."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias
from weakref import WeakValueDictionary

from fgrad import locks


class Expr:
    """A variable, a constant, or the atom called `head` applied to expressions; never changed once made."""

    __slots__ = ("__weakref__", "args", "head", "leaf")

    def __init__(self, head: str, args: tuple[Expr, ...], leaf: float | str) -> None:
        self.head: str = head
        self.args: tuple[Expr, ...] = args
        self.leaf: float | str = leaf

    # fmt: off
    def __neg__(self) -> Expr: return apply("negative", self)
    def __add__(self, other: Operand) -> Expr: return apply("add", self, other)
    def __sub__(self, other: Operand) -> Expr: return apply("subtract", self, other)
    def __mul__(self, other: Operand) -> Expr: return apply("multiply", self, other)
    def __truediv__(self, other: Operand) -> Expr: return apply("divide", self, other)
    def __pow__(self, other: Operand) -> Expr: return apply("power", self, other)
    def __radd__(self, other: Operand) -> Expr: return apply("add", other, self)
    def __rsub__(self, other: Operand) -> Expr: return apply("subtract", other, self)
    def __rmul__(self, other: Operand) -> Expr: return apply("multiply", other, self)
    def __rtruediv__(self, other: Operand) -> Expr: return apply("divide", other, self)
    def __rpow__(self, other: Operand) -> Expr: return apply("power", other, self)
    def __abs__(self) -> Expr: return apply("fabs", self)
    def __lt__(self, other: Operand) -> Expr: return apply("less", self, other)
    def __le__(self, other: Operand) -> Expr: return apply("less_equal", self, other)
    def __gt__(self, other: Operand) -> Expr: return apply("greater", self, other)
    def __ge__(self, other: Operand) -> Expr: return apply("greater_equal", self, other)
    # fmt: on

    def __bool__(self) -> bool:
        """Refuse: the value of an expression is not known while it is written."""
        raise TypeError(
            "a scalar body is written once for every element, so Python cannot branch on its values; "
            "use fgrad.extend.where(condition, x, y)"
        )

    def __repr__(self) -> str:
        if not self.args:
            return str(self.leaf)
        return f"{self.head}({', '.join(map(repr, self.args))})"


Operand: TypeAlias = "Expr | float"
_nodes: WeakValueDictionary[tuple[object, ...], Expr] = WeakValueDictionary()
_sharing = locks.lock()


def var(name: str) -> Expr:
    """Return the variable called `name`."""
    return _share("var", (), name)


def const(value: float) -> Expr:
    """Return the constant `value`."""
    return _share("const", (), float(value))


def apply(head: str, *operands: Operand) -> Expr:
    """Return `head(*operands)`, dropping the ones and zeros that derivatives leave behind."""
    args = tuple(a if isinstance(a, Expr) else const(a) for a in operands)
    shortcut = _SHORTCUTS.get(head)
    simpler = shortcut(*args) if shortcut else None
    return _share(head, args, "") if simpler is None else simpler


def postorder(*roots: Expr) -> Iterator[Expr]:
    """Yield every node below `roots` once, arguments before the nodes that use them."""
    seen: set[Expr] = set()
    stack = [(e, False) for e in reversed(roots)]
    while stack:
        e, ready = stack.pop()
        if e in seen:
            continue
        if ready:
            seen.add(e)
            yield e
        else:
            stack.append((e, True))
            stack.extend((a, False) for a in reversed(e.args))


def rewritten(roots: Sequence[Expr], formulas: Mapping[str, Callable[..., Operand]]) -> list[Operand]:
    """Return `roots` with what `formulas` make of the arguments of a head that is in them in its place."""
    new: dict[Expr, Operand] = {}
    for e in postorder(*roots):
        made = formulas.get(e.head, partial(apply, e.head))
        new[e] = made(*[new[a] for a in e.args]) if e.args else e
    return [new[e] for e in roots]


def variables(*roots: Expr) -> frozenset[Expr]:
    """Return the variables that `roots` depend on."""
    return frozenset(e for e in postorder(*roots) if e.head == "var")


def _share(head: str, args: tuple[Expr, ...], leaf: float | str) -> Expr:
    # the sign is part of the key: -0.0 == 0.0, yet 1 / -0.0 != 1 / 0.0
    key = (head, args, leaf, isinstance(leaf, float) and math.copysign(1.0, leaf))
    node = _nodes.get(key)
    if node is None:
        with _sharing:  # two threads must not have one each
            node = _nodes.get(key)
            if node is None:
                node = _nodes[key] = Expr(head, args, leaf)
    return node


def _multiply(x: Expr, y: Expr) -> Expr | None:
    if ZERO in (x, y):
        return ZERO
    if x is ONE or y is ONE:
        return y if x is ONE else x
    if x is MINUS or y is MINUS:
        return -(y if x is MINUS else x)
    return None


def _multiply_no_nan(x: Expr, y: Expr) -> Expr | None:
    if ZERO in (x, y):
        return ZERO
    for e in (x, y):
        if e.head == "const" and isinstance(e.leaf, float) and math.isfinite(e.leaf):
            return x * y  # zero where the other one is
    return None


def _power(x: Expr, y: Expr) -> Expr | None:
    if y is ONE or y is MINUS:
        return x if y is ONE else apply("reciprocal", x)
    if y is TWO or y is THREE:
        square = apply("square", x)
        return square if y is TWO else apply("multiply", square, x)
    return None


def _negative(x: Expr) -> Expr | None:
    if x.head == "negative":
        return x.args[0]
    return const(-x.leaf) if x.head == "const" and isinstance(x.leaf, float) else None


ZERO, ONE, TWO, THREE, MINUS = map(const, (0, 1, 2, 3, -1))
_SHORTCUTS: dict[str, Callable[..., Expr | None]] = {
    "add": lambda x, y: y if x is ZERO else x if y is ZERO else None,
    "subtract": lambda x, y: x if y is ZERO else -y if x is ZERO else None,
    "multiply": _multiply,
    "multiply_no_nan": _multiply_no_nan,
    "divide": lambda x, y: x if y is ONE else None,
    "power": _power,
    "negative": _negative,
    "where": lambda _, x, y: x if x is y else None,
}
