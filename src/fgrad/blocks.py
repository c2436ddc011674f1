"""Context managers that survive interrupts: what a `with` statement changes is undone however it is left.

CPython looks for signals where a function of Python begins. So an interrupt may come when `__enter__` has
changed something and has not returned, or before the first line of `__exit__`, and then nobody calls
`__exit__` any more. But what the statement holds to be called at its end is let go of in every case, and
nobody else holds it: where it dies before `leave` has done its work, its death undoes what was changed. The
function in C around it is what makes that so: a traceback holds the arguments of functions of Python.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial, wraps
from types import TracebackType
from typing import Any, TypeVar
from weakref import ref

T = TypeVar("T")


def is_of_handler(error: BaseException) -> bool:
    """Return whether the handler of a signal raised an error: it was given the frame that it interrupted.

    Who tries something another way where that fails asks this first: such an error is the caller's.
    """
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        interrupted, place = place.tb_frame, place.tb_next
        for given in place.tb_frame.f_locals.values():
            if given is interrupted or (type(given) is tuple and any(x is interrupted for x in given)):
                return True
    return False


class suppress(contextlib.suppress):  # noqa: N801 -- used as `contextlib.suppress` is
    """Leave a block at an error of some kinds and go on, unless the handler of a signal raised it.

    TimeoutError, say, is an OSError too.
    """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> bool:
        """Return whether to go on."""
        return error is not None and bool(super().__exit__(kind, error, place)) and not is_of_handler(error)


class _Watch(ref["partial[None]"]):
    """Waits for the death of what a `with` statement calls at its end."""

    __slots__ = ("block", "mark", "outer")

    block: Block
    mark: Any
    outer: _Watch | None  # of a statement around, of the same block


def _died(watch: Any) -> None:
    watch.block._watch = watch.outer
    watch.block.undo(watch.mark)


def _end(block: Block) -> Callable[..., None]:
    """Return what a `with` statement calls at its end, and watch it."""
    end = partial(block.__class__.leave, block)
    mark = block.mark()
    watch = _Watch(end, _died)
    # no interrupt comes between here and the end, as nothing is called: there is a watch, or none
    watch.block, watch.mark, watch.outer = block, mark, block._watch
    block._watch = watch
    return end


class _End(property):
    """`__exit__` of blocks: a `with` statement gets a callable of its own."""

    def __call__(self, block: Block, *error: object) -> None:
        """Leave a block, as `contextlib.ExitStack` does."""
        block.leave(*error)


class Block:
    """A context manager: `__enter__` as usual, `leave` in the place of `__exit__`.

    It costs 0.3 microseconds more than one without such care.
    """

    __slots__ = ("_watch",)

    _watch: _Watch | None

    __exit__: _End = _End(_end)

    def mark(self) -> Any:
        """Return what `undo` has to know of the time before `__enter__`; change nothing."""
        return None

    @abstractmethod
    def undo(self, mark: Any) -> None:
        """Put back what was changed since `mark`, wherever that was interrupted; a second time, nothing."""

    def leave(self, *_: object) -> None:
        """Put back what `__enter__` changed."""
        watch = self._watch
        self.undo(watch.mark if watch else self.mark())
        self.left()

    def left(self) -> None:
        """Hear that nothing is left to be undone."""
        if self._watch is not None:
            self._watch = self._watch.outer


class Nested(Block):
    """A block that may be entered again before it is left, and decorates functions, which it then surrounds.

    Attributes:
        stays: for each time that it was entered, what `enter` put there to find what it changed.
    """

    def __init__(self) -> None:
        self._watch = None
        self.stays: list[Any] = []

    def mark(self) -> int:
        """Return how often it was entered."""
        return len(self.stays)

    @abstractmethod
    def __enter__(self) -> Any:
        """Note the stay, and then change something."""

    @abstractmethod
    def put_back(self, stay: Any) -> None:
        """Undo what was done for a stay, be it only half done or undone already."""

    def undo(self, mark: int) -> None:
        """Put back what was changed since."""
        while len(self.stays) > mark:
            self.put_back(self.stays[-1])
            self.stays.pop()

    def leave(self, *_: object) -> None:
        """Put back what the last `__enter__` changed."""
        self.undo(len(self.stays) - 1)
        self.left()

    def __call__(self, fun: Callable[..., T]) -> Callable[..., T]:
        """Return `fun` that runs in this block."""

        @wraps(fun)
        def inside(*args: Any, **kwargs: Any) -> T:
            with self:
                return fun(*args, **kwargs)

        return inside


class Setting(Nested):
    """Gives a context variable a value for a block."""

    def __init__(self, variable: ContextVar[Any], value: Any) -> None:
        super().__init__()
        self.variable: ContextVar[Any] = variable
        self.value: Any = value

    def __enter__(self) -> Any:
        self.stays.append(self.variable.get())
        self.variable.set(self.value)
        return self.value

    def put_back(self, stay: Any) -> None:
        """Give the variable the value that it had."""
        self.variable.set(stay)
