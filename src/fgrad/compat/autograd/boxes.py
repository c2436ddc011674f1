"""What autograd calls boxes: Tensors, and containers that hold some; and how to see through them."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from fgrad.core.tensor import Tensor, is_traced
from fgrad.extend.engine import holds_tensor

F = TypeVar("F", bound=Callable[..., Any])

dict = builtins.dict
list = builtins.list
tuple = builtins.tuple  # type: ignore[type-arg]


class _Meta(builtins.type):
    def __instancecheck__(cls, x: Any) -> bool:
        return bool(cls.holds(x))  # type: ignore[attr-defined]


class Box(metaclass=_Meta):
    """What is traced: `isinstance(x, Box)`. There are none to be made: a Tensor is one by itself."""

    @staticmethod
    def holds(x: Any) -> bool:
        """Return whether `x` is what is meant."""
        return isbox(x)

    def __new__(cls, *_: Any, **__: Any) -> Any:
        """Refuse to make one."""
        raise NotImplementedError(
            f"fgrad makes no {cls.__name__}: what is differentiated is a fgrad.Tensor, or a container of them"
        )

    @classmethod
    def register(cls, value_type: Any) -> None:
        """Refuse a new type of values."""
        raise NotImplementedError(
            f"fgrad traces arrays, and containers of them; to make {value_type!r} a container, "
            "call fgrad.register_pytree_node"
        )


class ArrayBox(Box):
    """A traced array."""


class SequenceBox(Box):
    """A tuple or list that holds traced arrays."""

    @staticmethod
    def holds(x: Any) -> bool:
        """Return whether `x` is what is meant."""
        return builtins.isinstance(x, builtins.tuple | builtins.list) and holds_tensor(x)


class DictBox(Box):
    """A dictionary that holds traced arrays."""

    @staticmethod
    def holds(x: Any) -> bool:
        """Return whether `x` is what is meant."""
        return builtins.isinstance(x, builtins.dict) and any(map(holds_tensor, x.values()))


def isbox(x: Any) -> bool:
    """Return whether a derivative is being taken with respect to `x`."""
    return x.__class__ is Tensor and is_traced(x)


def getval(x: Any) -> Any:
    """Return the value of a Tensor; anything else as it is."""
    if x.__class__ is not Tensor:
        return x
    value = x._value
    if builtins.isinstance(value, np.ndarray):
        return value.copy() if value.ndim else value[()]
    return value


def isinstance(x: Any, kind: Any) -> bool:
    """Return whether `x`, or the value of the Tensor `x`, is of a type."""
    return builtins.isinstance(x, kind) or (x.__class__ is Tensor and builtins.isinstance(getval(x), kind))


def type(x: Any, *more: Any) -> Any:
    """Return the type of `x`, or of the value of the Tensor `x`; with three arguments, a new type."""
    return builtins.type(x, *more) if more else builtins.type(getval(x))


def notrace_primitive(fun: F) -> F:
    """Return `fun` of the values of its arguments: no derivative passes through it."""

    @wraps(fun)
    def untraced(*args: Any, **kwargs: Any) -> Any:
        return fun(*map(getval, args), **kwargs)

    untraced._is_primitive = True  # type: ignore[attr-defined]
    return untraced  # type: ignore[return-value]


def register_notrace(trace_type: Any, primitive: Any) -> None:
    """Refuse a kind of traces of the user's own."""
    raise NotImplementedError("fgrad has no register_notrace: declare the function by notrace_primitive")


def toposort(end_node: Any, parents: Callable[[Any], Any] = lambda node: node.parents) -> Any:
    """Yield the nodes of a graph, each after all that were made of it."""
    count: builtins.dict[Any, int] = {}
    stack = [end_node]
    while stack:
        node = stack.pop()
        if node not in count:
            stack.extend(parents(node))
        count[node] = count.get(node, 0) + 1
    free = [end_node]
    while free:
        node = free.pop()
        yield node
        for parent in parents(node):
            count[parent] -= 1
            if not count[parent]:
                free.append(parent)
