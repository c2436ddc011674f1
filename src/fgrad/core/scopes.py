"""Scopes: names that a program gives to its parts, and the lines of these parts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from fgrad.blocks import Nested

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


class Scope:
    """One stay in a `named_scope`; two stays of one name are two. A reverse pass stays in it `backward`."""

    __slots__ = ("_reverse", "backward", "name")

    def __init__(self, name: str, *, backward: bool = False) -> None:
        self.name: str = name
        self.backward: bool = backward
        self._reverse: Scope | None = None

    def reverse(self) -> Scope:
        """Return the scope of the steps back over what was computed in this one."""
        if self._reverse is None:
            self._reverse = Scope(f"{self.name}, backward", backward=True)
        return self._reverse


Scopes = tuple[Scope, ...]
_scopes: ContextVar[Scopes] = ContextVar("fgrad scopes", default=())


class named_scope(Nested):  # noqa: N801 -- JAX's name, which reads as a function
    """Give a name to what a block, or a function as decorator, computes: pictures and profiles show it.

    It changes no value, and costs a third of a microsecond where nothing is drawn.

    Args:
        name: any text.

    Example:
        >>> import fgrad
        >>> import numpy as np
        >>> with fgrad.named_scope("layer"):
        ...     y = np.tanh(fgrad.tensor([0.0, 1.0]))
        >>> @fgrad.named_scope("loss")
        ... def loss(y):
        ...     return (y * y).sum()
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(
                f"named_scope takes the name as text, not {type(name).__name__}: named_scope('layer')"
            )
        super().__init__()
        self._name = name

    def __enter__(self) -> Self:
        before = _scopes.get()
        self.stays.append(before)
        _scopes.set((*before, Scope(self._name)))
        return self

    def put_back(self, stay: Any) -> None:
        """Go back to the scopes around."""
        _scopes.set(stay)

    def __call__(self, fun: Callable[..., T]) -> Callable[..., T]:
        """Return `fun` that runs in this scope, in each thread on its own."""

        @functools.wraps(fun)
        def scoped(*args: Any, **kwargs: Any) -> T:
            with named_scope(self._name):
                return fun(*args, **kwargs)

        return scoped


class Origin(str):
    """`file:line` of the user's program, the scopes in which it stood, and whether it is of a step back."""

    __slots__ = ("backward", "scopes")
    scopes: Scopes
    backward: bool


def here() -> Scopes:
    """Return the scopes in which the program is, the outermost first."""
    return _scopes.get()


def scopes_of(line: str) -> Scopes:
    """Return the scopes of an origin."""
    return line.scopes if isinstance(line, Origin) else ()


def is_backward(line: str) -> bool:
    """Return whether an origin is that of a step back."""
    return isinstance(line, Origin) and line.backward
