"""The operations that passes write most, each named once: writers say how equations are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.core.program import aval_out


def _named(name: str) -> Callable[..., Any]:
    def write(self: Operations, *args: Any, **params: Any) -> Any:
        return self.make(name, *args, **params)

    write.__name__ = name
    write.__doc__ = f"Return the result of `{name}`."
    return write


class Operations:
    """What makes equations, with a method for each of the primitives below."""

    def make(self, name: str, *args: Any, **params: Any) -> Any:
        """Return the result of a primitive."""
        raise NotImplementedError

    add, subtract, multiply, divide = map(_named, ("add", "subtract", "multiply", "divide"))
    logical_not, where = map(_named, ("logical_not", "where"))
    slice, sum, transpose = map(_named, ("slice", "sum", "transpose"))

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        """Return `x` in another shape."""
        return x if aval_out(x).shape == tuple(shape) else self.make("reshape", x, shape=tuple(shape))

    def broadcast_to(self, x: Any, shape: Sequence[int]) -> Any:
        """Return `x` repeated up to `shape`."""
        return x if aval_out(x).shape == tuple(shape) else self.make("broadcast_to", x, shape=tuple(shape))
