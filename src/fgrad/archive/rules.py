"""How a stored program refers to what is declared in Python: by name only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from fgrad.core.primitive import PRIMITIVES, Primitive
from fgrad.core.program import Program
from fgrad.extend.engine import postorder
from fgrad.transforms.custom import Rule


class Unstored(Rule):
    """A function with a derivative of its own, which stayed where it was exported: the values are known."""

    name: str

    def __init__(self, name: str, program: Callable[[], Program]) -> None:
        self.name, self._make = name, program  # made where it is needed: regions may stand deep in others

    def forward(self, *values: Any) -> list[Any]:
        """Return the outputs."""
        return self._make().run(values)

    def backward(self, *cts: Any) -> NoReturn:
        """Say that there is no derivative."""
        raise TypeError(
            f"{self.name} has a derivative of its own, which is Python, and Python is not stored: the "
            "exported function gives values only. Export the derivative as a function too: "
            "fgrad.export(fgrad.value_and_grad(f), ...)"
        )

    def clone(self) -> Unstored:
        """Return a rule that can run forward beside this one."""
        return Unstored(self.name, self._make)


def is_declared_by_user(name: str) -> bool:
    """Return whether a primitive is one of `fgrad.extend`, which has the name of a module in its own."""
    return "." in name and not name.startswith("lax.")


def fingerprint(name: str) -> str | None:
    """Return what tells the body of an element-wise primitive from others; None where there is no body."""
    primitive: Primitive = PRIMITIVES[name]
    if primitive.body is None:
        return None
    numbers: dict[Any, int] = {}
    for e in postorder(primitive.body.result):
        numbers.setdefault(e, len(numbers))
    said: Sequence[Any] = [[e.head, repr(e.leaf), [numbers[a] for a in e.args]] for e in numbers]
    return hashlib.sha256(repr([primitive.body.params, said]).encode()).hexdigest()
