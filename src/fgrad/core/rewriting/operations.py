"""The operations that passes write most, each named once: writers say how equations are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.core.aval import Aval
from fgrad.core.program import Equation, Var, aval_out


def _named(name: str) -> Callable[..., Any]:
    def write(self: Operations, *args: Any, **params: Any) -> Any:
        return self.make(name, *args, **params)

    write.__name__ = name
    write.__doc__ = f"Return the result of `{name}`."
    return write


def added(x: Any, y: Any, out: Var, line: str = "") -> Equation:
    """Return the equation by which `out` is the sum of two values."""
    return Equation("add", (x, y), {}, (out,), line)


def transposed(x: Var, axes: Sequence[int], line: str = "") -> Equation:
    """Return the equation that puts the axes of `x` in another order."""
    out = Var(Aval(tuple(x.aval.shape[a] for a in axes), x.aval.dtype), "v")
    return Equation("transpose", (x,), {"axes": tuple(axes)}, (out,), line)


class Operations:
    """What makes equations, with a method for each of the primitives below."""

    def make(self, name: str, *args: Any, **params: Any) -> Any:
        """Return the result of a primitive."""
        raise NotImplementedError

    add: Callable[..., Any] = _named("add")
    subtract: Callable[..., Any] = _named("subtract")
    multiply: Callable[..., Any] = _named("multiply")
    divide: Callable[..., Any] = _named("divide")
    greater: Callable[..., Any] = _named("greater")
    logical_and: Callable[..., Any] = _named("logical_and")
    logical_not: Callable[..., Any] = _named("logical_not")
    slice: Callable[..., Any] = _named("slice")
    slice_backward: Callable[..., Any] = _named("slice_backward")
    sum: Callable[..., Any] = _named("sum")
    transpose: Callable[..., Any] = _named("transpose")
    contract: Callable[..., Any] = _named("contract")
    convert: Callable[..., Any] = _named("convert")
    gather: Callable[..., Any] = _named("gather")
    max: Callable[..., Any] = _named("max")
    maximum: Callable[..., Any] = _named("maximum")
    min: Callable[..., Any] = _named("min")
    where: Callable[..., Any] = _named("where")

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        """Return `x` in another shape."""
        return x if aval_out(x).shape == tuple(shape) else self.make("reshape", x, shape=tuple(shape))

    def broadcast_to(self, x: Any, shape: Sequence[int]) -> Any:
        """Return `x` repeated up to `shape`."""
        return x if aval_out(x).shape == tuple(shape) else self.make("broadcast_to", x, shape=tuple(shape))
