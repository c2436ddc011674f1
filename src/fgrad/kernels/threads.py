"""Large loops shared among threads: caller and workers take one piece after the other until none is left.

No two pieces write to the same place, so results do not depend on who takes them. A worker that wakes up
late, or whose core is busy, takes fewer; the caller waits only for pieces that were taken. Compiled loops
are handed over by machine code (see `crew`). Where there is none, threads of Python do the same by queues.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol

from fgrad import config
from fgrad.kernels.crew import crew

ELEMENTS = 32768  # a loop over fewer is not worth a second thread, nor a piece of a loop its while to take

Piece = tuple[int, int]


class Loop(Protocol):
    """A loop whose pieces are independent, so that threads may share it."""

    @property
    def kernel(self) -> Callable[..., None]:
        """The function of the arguments and the bounds of a piece; it releases the interpreter."""

    @property
    def is_native(self) -> bool:
        """Whether it is machine code, so that there is `share`."""

    def share(self, args: tuple[Any, ...], count: int, board: int, /) -> None:
        """Run it for `range(count)` with those who look at a board; see `crew`."""


def share(loop: Loop, args: tuple[Any, ...], count: int, elements: int) -> None:
    """Run a loop for `range(count)`.

    Args:
        loop: what to run.
        args: its arguments but for the bounds.
        count: how many steps there are.
        elements: how many elements they handle in all, which tells whether threads pay.
    """
    n = parts(count, elements)
    if n < 2:
        loop.kernel(*args, 0, count)
        return
    workers = crew(os.getpid()) if loop.is_native else None
    if workers is None:
        share_by_queue(loop.kernel, args, count, n, -(-count * ELEMENTS // elements))
    else:
        workers.wake()
        loop.share(args, count, workers.board)


def parts(count: int, elements: int) -> int:
    """Return how many threads share a loop of `count` steps, which handle so many elements in all."""
    return min(_threads(), count, elements // ELEMENTS)


class _Queue:
    """A loop that threads of Python take pieces of."""

    __slots__ = ("args", "done", "kernel", "pieces")

    def __init__(self, kernel: Callable[..., None], args: tuple[Any, ...], pieces: list[Piece]) -> None:
        self.kernel, self.args = kernel, args
        self.pieces = deque(pieces)
        self.done: SimpleQueue[BaseException | None] = SimpleQueue()  # an item for each piece of a worker

    def take(self) -> Piece | None:
        """Return a piece that nobody else gets, none if none is left."""
        try:
            return self.pieces.popleft()
        except IndexError:
            return None

    def help(self) -> None:
        """Run pieces in a worker."""
        while (piece := self.take()) is not None:
            error = None
            try:
                self.kernel(*self.args, *piece)
            except BaseException as caught:  # noqa: BLE001 -- handed on to the caller
                error = caught
            self.done.put(error)


def share_by_queue(
    kernel: Callable[..., None], args: tuple[Any, ...], count: int, parts: int, least: int
) -> None:
    """Call `kernel(*args, lo, hi)` for pieces of `range(count)`, of `least` steps, in `parts` threads."""
    queue = _Queue(kernel, args, _cut(count, parts, least))
    jobs, theirs = _workers(os.getpid()), len(queue.pieces)
    for _ in range(parts - 1):
        jobs.put(queue)
    errors: list[BaseException | None] = []
    try:
        while (piece := queue.take()) is not None:
            theirs -= 1
            kernel(*args, *piece)
    finally:
        while queue.take() is not None:  # where this thread was stopped
            theirs -= 1
        errors = [queue.done.get() for _ in range(theirs)]
        queue.args = ()  # it may still be waiting for a worker
    for error in errors:
        if error is not None:
            raise error


def _cut(count: int, parts: int, least: int) -> list[Piece]:
    """Return pieces of `range(count)`: large first, to be quick; small last, so that all end together."""
    pieces, lo = [], 0
    while lo < count:
        hi = min(count, lo + max(least, -(-(count - lo) // (2 * parts))))
        pieces.append((lo, hi))
        lo = hi
    return pieces


@cache
def _threads() -> int:
    return config.num_threads()


@cache
def _workers(_: int) -> SimpleQueue[_Queue]:
    """Return the jobs of this process, which as many threads as there are cores wait for; a fork has none."""
    jobs: SimpleQueue[_Queue] = SimpleQueue()
    for _ in range(_threads() - 1):
        Thread(target=_work, args=(jobs,), name="fgrad", daemon=True).start()
    return jobs


def _work(jobs: SimpleQueue[_Queue]) -> None:
    while True:
        jobs.get().help()
