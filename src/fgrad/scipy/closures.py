"""The user's functions as opaque code needs them: what they take from outside is an argument like the others.

Where nothing is differentiated, mapped or staged, a function is called as it stands, and may choose by `if`.
Elsewhere it is staged, which finds every followed Tensor that it uses, in `args` or from a closure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.core.aval import Aval, aval_of
from fgrad.core.program import Program
from fgrad.core.tensor import Tensor
from fgrad.core.trace import current
from fgrad.lax.staged import avals_out
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
        return lambda *args: self(captured, *args)[0]

    def outs(self, *args: Any) -> list[Aval]:
        """Return the avals of the outputs; the function may be called for that, with `args`."""
        if self.program is None:
            return [aval_of(y) for y in self._fun(*args)]
        return avals_out(self.program)


class Parametrised:
    """A closed function whose floating-point values from outside are one vector, its parameters.

    Calling it with that vector, the other values from outside and the arguments returns the first output.
    """

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
