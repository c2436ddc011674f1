"""Closure conversion of the user's functions, for opaque code: outside values become arguments.

Where nothing is differentiated, mapped or traced, a function is called as it stands, and may choose by `if`.
Elsewhere it is staged, which finds every followed Tensor that it uses, in `args` or from a closure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fgrad.core.aval import Aval, aval_of
from fgrad.core.control_flow import avals_out
from fgrad.core.program import Program
from fgrad.core.tensor import Tensor
from fgrad.core.trace import current
from fgrad.scipy.vectors import Vector
from fgrad.transforms.stage import staged


class Closed:
    """A function of flat values whose values from outside are known.

    Calling it with the captured values, or others in their place, and the arguments returns the outputs.
    """

    def __init__(self, fun: Callable[..., Sequence[Any]], avals: Sequence[Aval]) -> None:
        self._fun = fun
        self.program: Program | None = None
        self.captured: list[Tensor] = []
        if current().traces:
            self.program, self.captured = staged(fun, avals)

    def __call__(self, captured: Sequence[Any], *args: Any) -> Sequence[Any]:
        """Return the outputs for arrays or Tensors."""
        if self.program is None:
            return self._fun(*args)
        return self.program.run([*captured, *args])

    def at(self, captured: Sequence[Any]) -> Callable[..., Any]:
        """Return the first output as a function of the arguments alone."""
        return first(partial(self, captured))

    def outs(self, *args: Any) -> list[Aval]:
        """Return the avals of the outputs; the function may be called for that, with `args`."""
        if self.program is None:
            return [aval_of(y) for y in self._fun(*args)]
        return avals_out(self.program)


class Several:
    """Closed functions by name, whose values from outside are one list; None stands for no function."""

    captured: list[Tensor]

    def __init__(self, **functions: Closed | None) -> None:
        self._functions = {name: f for name, f in functions.items() if f is not None}
        self.captured = [c for f in self._functions.values() for c in f.captured]

    def at(self, captured: Sequence[Any]) -> dict[str, Callable[..., Sequence[Any]]]:
        """Return the functions of their arguments alone, for these values from outside."""
        found: dict[str, Callable[..., Sequence[Any]]] = {}
        i = 0
        for name, f in self._functions.items():
            found[name] = partial(f, captured[i : i + len(f.captured)])
            i += len(f.captured)
        return found


def first(f: Callable[..., Sequence[Any]]) -> Callable[..., Any]:
    """Return the function of the first output."""
    return lambda *args: f(*args)[0]


class Parametrised:
    """A closed function whose floating-point values from outside are one vector, its parameters.

    Calling it with that vector, the other values from outside and the arguments returns the first output.
    """

    parameters: Any
    others: list[Tensor]

    def __init__(self, closed: Closed) -> None:
        self._closed = closed
        captured = closed.captured
        self._places = [i for i, c in enumerate(captured) if c.dtype.kind in "fc"]
        self._vector = Vector([captured[i] for i in self._places], "the parameters")
        self.parameters = self._vector.ravel([captured[i] for i in self._places])
        self.others = [c for i, c in enumerate(captured) if i not in self._places]

    def __call__(self, parameters: Any, others: Sequence[Any], *args: Any) -> Any:
        """Return the first output for arrays or Tensors."""
        if not self._closed.captured:
            return self._closed((), *args)[0]
        values, rest = iter(self._vector.restore(parameters)), iter(others)
        count = len(self._closed.captured)
        captured = [next(values) if i in self._places else next(rest) for i in range(count)]
        return self._closed(captured, *args)[0]
