"""Observers of every primitive that runs and every step of a reverse pass; without any, nothing is slower.

While somebody observes, the `run` column of the table is replaced by one that asks the observers of this
thread and task, and tapes keep notes of their nodes. `watch` looks for NaN, `notes` keeps what pictures and
profiles show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from fgrad import config, locks
from fgrad.core.primitive import ARRIVED, PRIMITIVES, Primitive, Rule

if TYPE_CHECKING:
    from fgrad.core.tape import Node, Tape

Check = Callable[["Node", Any, Sequence[Any]], None]


class Observer(Protocol):
    """What is told of primitives and sweeps."""

    def run(self, primitive: Primitive, run: Rule, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Return `run(*args, **params)`, and look at it."""

    def sweeping(self, tape: Tape, seeds: Iterable[tuple[Node, Any]]) -> AbstractContextManager[Check]:
        """Observe a sweep for a block; the check gets each node, its cotangent and what came of it."""


LOOKUPS: list[Callable[[], Observer | None]] = []  # each returns the observer of this thread and task, if any
observed_primitives: dict[str, Rule] = {}  # the `run` column as it is unobserved; empty where nobody observes
_users: list[object] = []
_occasion = object()  # to go the long way into compiled functions
_switching = locks.lock()


def observing() -> list[Observer]:
    """Return who observes this thread and task, the innermost first."""
    if not observed_primitives:
        return []
    return [o for find in LOOKUPS if (o := find()) is not None]


def observe(who: object) -> None:
    """Count an observer, who is named by any object; the first one exchanges the column."""
    with _switching:
        _users.append(who)
        _agree()


def unobserve(who: object) -> None:
    """Count an observer no longer, if it was; the last one puts the column back."""
    with _switching:
        if who in _users:
            _users.remove(who)
        _agree()


def _agree() -> None:
    """Exchange the column or put it back, as it has to be; the rest of it where that was interrupted."""
    if _users:
        if _occasion not in config.occasions:
            config.occasions.append(_occasion)
        for primitive in PRIMITIVES.values():
            _exchange(primitive)
        return
    for name, run in list(observed_primitives.items()):
        primitive = PRIMITIVES[name]
        primitive.run = run
        if primitive.large.__class__ is _Observed:
            primitive.large = primitive.large.run
        del observed_primitives[name]
    if _occasion in config.occasions:
        config.occasions.remove(_occasion)


def _exchange(primitive: Primitive) -> None:
    if primitive.run.__class__ is not _Observed:
        observed_primitives[primitive.name] = primitive.run
        primitive.run = _Observed(primitive, primitive.run)
    if primitive.large is not None and primitive.large.__class__ is not _Observed:
        primitive.large = _Observed(primitive, primitive.large)


def _arrived(primitive: Primitive) -> None:
    """Observe a primitive of a module that is loaded late."""
    if _users:
        _exchange(primitive)


ARRIVED.append(_arrived)


class _Observed:
    """The `run` of a primitive, which its observers see; in all else the same, as ufuncs have methods."""

    __slots__ = ("primitive", "run")

    def __init__(self, primitive: Primitive, run: Rule) -> None:
        self.primitive, self.run = primitive, run

    def __call__(self, *args: Any, **params: Any) -> Any:
        run = self.run
        for observer in observing():
            run = _through(observer, self.primitive, run)
        return run(*args, **params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.run, name)


def _through(observer: Observer, primitive: Primitive, run: Rule) -> Rule:
    return lambda *args, **params: observer.run(primitive, run, args, params)
