"""Large loops shared among threads: caller and workers take one piece after the other until none is left.

Kernels let go of the interpreter, so plain threads run them side by side. No two pieces
write to the same place, so results do not depend on who takes them. A worker that wakes
up late, or whose core is busy, takes fewer; the caller waits only for pieces that were taken.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from threading import Thread
from typing import Any

from fgrad import config

ELEMENTS = 32768  # a loop over fewer is not worth a second thread, nor a piece of a loop its while to take

Piece = tuple[int, int]


class _Loop:
    """A loop that threads take pieces of."""

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


def share(kernel: Callable[..., None], args: tuple[Any, ...], count: int, elements: int) -> None:
    """Call `kernel(*args, lo, hi)` for pieces that cover `range(count)`.

    Args:
        kernel: releases the interpreter; its pieces are independent.
        args: what precedes the bounds.
        count: how many steps there are.
        elements: how many elements they handle in all, which tells whether threads pay.
    """
    parts = min(_threads(), count, elements // ELEMENTS)
    if parts < 2:
        kernel(*args, 0, count)
        return
    loop = _Loop(kernel, args, _cut(count, parts, -(-count * ELEMENTS // elements)))
    jobs, theirs = _workers(os.getpid()), len(loop.pieces)
    for _ in range(parts - 1):
        jobs.put(loop)
    errors: list[BaseException | None] = []
    try:
        while (piece := loop.take()) is not None:
            theirs -= 1
            kernel(*args, *piece)
    finally:
        while loop.take() is not None:  # where this thread was stopped
            theirs -= 1
        errors = [loop.done.get() for _ in range(theirs)]
        loop.args = ()  # the loop may still be waiting for a worker
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
def _workers(_: int) -> SimpleQueue[_Loop]:
    """Return the jobs of this process, which as many threads as there are cores wait for; a fork has none."""
    jobs: SimpleQueue[_Loop] = SimpleQueue()
    for _ in range(_threads() - 1):
        Thread(target=_work, args=(jobs,), name="fgrad", daemon=True).start()
    return jobs


def _work(jobs: SimpleQueue[_Loop]) -> None:
    while True:
        jobs.get().help()
