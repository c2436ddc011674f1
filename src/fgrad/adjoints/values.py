"""What expressions of a kernel are while it is lowered: scalars, arrays, array expressions, tuples."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numba
import numpy as np
from numba import types

from fgrad.adjoints import syntax
from fgrad.compat.numba import typing_context

OPERATORS: dict[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Invert: operator.invert,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


@dataclass(eq=False)
class Scalar:
    """An expression of one number."""

    node: Any

    @property
    def type(self) -> Any:
        """Numba's type."""
        return self.node.ty


@dataclass(eq=False)
class Array:
    """An array that has a name."""

    name: str
    type: Any


@dataclass(eq=False)
class Lazy:
    """An array expression, which says what one element is.

    Its dtype is what NumPy's rules give, as Numba has it; the number may be a wider one.

    One that is a view has the name of the array whose memory it shares in `source`; `cut` then says what its
    parts are.
    """

    dims: list[Any]
    dtype: Any
    element: Callable[[Sequence[Any]], Any]
    source: str = ""
    cut: Callable[[Sequence[Any]], Value] | None = None


@dataclass(eq=False)
class Group:
    """A tuple, a list that is written out, a record, or records: an array of them is an array a field."""

    items: list[Value]
    fields: tuple[str, ...] = ()
    listed: bool = False
    axes: int = 0  # of an array of records
    named: Any = None  # the class of a named tuple

    @classmethod
    def of(cls, kind: Any, items: list[Value]) -> Group:
        """Return a tuple of a class, which may be one of named tuples."""
        fields = getattr(kind, "_fields", ())
        return cls(items, fields, named=kind if fields else None)


@dataclass(eq=False)
class Static:
    """A Python object that is known before the kernel runs."""

    value: Any


@dataclass(eq=False)
class Lost:
    """A name that stands for different things on different ways, and why."""

    why: str


Value: TypeAlias = Scalar | Array | Lazy | Group | Static | Lost


def context() -> Any:
    """Return what knows the types of Numba's functions."""
    found = typing_context()
    found.refresh()
    return found


def result_type(function: Any, *args: Any) -> Any:
    """Return the type of a call, by Numba.

    Raises:
        TypeError: Numba knows no such call.
    """
    known = context()
    kind = known.resolve_value_type(function)
    signature = known.resolve_function_type(kind, args, {})
    if signature is None:
        raise TypeError(f"{function!r} of {args}")
    return types.unliteral(signature.return_type)


def array_dtype(function: Any, args: Sequence[Value]) -> Any:
    """Return the dtype of a function of numbers and arrays; None where it is one of numbers alone."""
    kinds = [a.type if isinstance(a, Scalar) else types.Array(dtype(a), ndim_of(a), "C") for a in args]
    try:
        return syntax.element(result_type(function, *kinds))
    except Exception:  # noqa: BLE001 -- of Numba, of many classes
        return None


def unified(x: Any, y: Any) -> Any:
    """Return the type of a variable that holds values of both types, None where there is none."""
    return x if x == y else context().unify_types(x, y)


def array_type(dtype: Any, ndim: int) -> Any:
    """Return the type of new arrays."""
    return types.Array(dtype, ndim, "C")


def dtype_of(value: Any) -> Any:
    """Return the type of elements that a `dtype=` argument names."""
    if isinstance(value, types.Type):
        return value
    return numba.from_dtype(np.dtype(value))


def ndim_of(x: Value) -> int:
    """Return the number of axes."""
    return x.type.ndim if isinstance(x, Array) else len(x.dims) if isinstance(x, Lazy) else 0


def dims_of(x: Array | Lazy) -> list[Any]:
    """Return the lengths."""
    return x.dims if isinstance(x, Lazy) else [syntax.dimension(x.name, k) for k in range(x.type.ndim)]


def dtype(x: Value) -> Any:
    """Return the type of elements, or of the number."""
    return x.dtype if isinstance(x, Lazy) else syntax.element(x.type)  # type: ignore[union-attr]


def item(x: Value, index: Sequence[Any]) -> Any:
    """Return an element of a broadcast operand, in its dtype; a number is its own."""
    found = fused(x, index)
    return cast(found, x.dtype) if isinstance(x, Lazy) else found


def cast(node: Any, ty: Any) -> Any:
    """Return an expression of a number as one of a type."""
    if node.ty == ty:
        return node
    return syntax.call("np.bool_" if ty == types.boolean else f"np.{ty.name}", node, ty=ty)


def fused(x: Value, index: Sequence[Any]) -> Any:
    """Return an element as a part of an expression, within which Numba computes numbers, not elements."""
    if isinstance(x, Scalar):
        return x.node
    assert isinstance(x, Array | Lazy)  # noqa: S101 -- nothing else has elements
    dims = dims_of(x)
    used = list(index[len(index) - len(dims) :])
    used = [syntax.constant(0) if is_one(d) else i for d, i in zip(dims, used, strict=True)]
    return x.element(used) if isinstance(x, Lazy) else syntax.load(x.name, used, x.type.dtype)


def is_one(node: Any) -> bool:
    """Return whether a length is the constant one."""
    return isinstance(node, ast.Constant) and node.value == 1


def function_name(value: Any) -> str:
    """Return how kernels call a function of NumPy, `math`, or Python; "" where they do not."""
    name = getattr(value, "__name__", "")
    for prefix, module in (("math", math), ("np", np), ("np.linalg", np.linalg)):
        if getattr(module, name, None) is value:
            return f"{prefix}.{name}"
    return name if value in _BUILTINS else ""


_BUILTINS = (abs, min, max, int, float, bool, complex, round, pow)
