"""Tables of rules by primitive, which modules fill with what they know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Table(dict[str, Callable[..., Any]]):
    """Rules by the name of a primitive."""

    def on(self, *names: str) -> Callable[[F], F]:
        """Return the decorator that adds a rule of some primitives."""

        def add(rule: F) -> F:
            self.update(dict.fromkeys(names, rule))
            return rule

        return add
