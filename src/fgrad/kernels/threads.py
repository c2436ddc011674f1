"""Large loops shared among threads: caller and workers take one piece after another until none is left.

No two pieces write to the same place, so results do not depend on who takes them. Nor do they depend on where
pieces begin: vector code may round in another way than what is left of a loop behind its last vector, so that
loops of short steps are cut between strips of as many as vectors take at a time. A worker that wakes up
late, or whose core is busy, takes fewer; the caller waits only for pieces that were taken. Compiled loops
are handed over by machine code (see `pool`). Where there is none, threads of Python do the same by queues.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import cache
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol

from fgrad import config, locks
from fgrad.blocks import suppress
from fgrad.kernels.pool import pool

ELEMENTS = 32768  # a loop over fewer is not worth a second thread, nor a piece of a loop its while to take

STRIP = 64  # steps of a loop that vector code takes at a time, at most
SHORT = 256  # elements of a step: those of longer ones have loops of their own

PAUSE = 0.05  # seconds between two looks at what others have done, if they do not say so

Piece = tuple[int, int]


class Loop(Protocol):
    """A loop whose pieces are independent, so that threads may share it."""

    def __call__(self, *args: Any) -> None:
        """Run a piece: the arguments, then its bounds; it releases the interpreter."""

    @property
    def is_native(self) -> bool:
        """Whether it is machine code, so that there is `share`."""

    def share(self, args: tuple[Any, ...], count: int, queue: int, strip: int, /) -> None:
        """Run it for `range(count)` with the threads at a work queue; see `pool.share`."""


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
        loop(*args, 0, count)
        return
    workers = pool() if loop.is_native else None
    if workers is None:
        share_by_queue(loop, args, count, n, -(-count * ELEMENTS // elements), strip_of(count, elements))
    else:
        workers.wake()
        loop.share(args, count, workers.queue, strip_of(count, elements))


def strip_of(count: int, elements: int) -> int:
    """Return between multiples of how many of its steps a loop may be cut."""
    return STRIP if elements < SHORT * count else 1


@cache
def get_num_threads() -> int:
    """Return how many threads share large loops."""
    return config.num_threads()


def parts(count: int, elements: int) -> int:
    """Return how many threads share a loop of `count` steps, which handle so many elements in all."""
    return min(get_num_threads(), count, elements // ELEMENTS)


class _Shared:
    """A loop that threads of Python take pieces of."""

    __slots__ = ("args", "entered", "errors", "kernel", "left", "pieces", "signal")

    def __init__(self, kernel: Callable[..., None], args: tuple[Any, ...], pieces: list[Piece]) -> None:
        self.kernel, self.args = kernel, args
        self.pieces = deque(pieces)
        self.entered: list[None] = []  # an item for each worker that may have taken pieces
        self.left: list[None] = []  # and for each that takes no more
        self.errors: list[BaseException] = []
        self.signal: SimpleQueue[None] = SimpleQueue()  # that one left

    def take(self) -> Piece | None:
        """Return a piece that nobody else gets, none if none is left."""
        try:
            return self.pieces.popleft()
        except IndexError:
            return None

    def help(self) -> None:
        """Run pieces in a worker."""
        self.entered.append(None)
        while (piece := self.take()) is not None:
            try:
                self.kernel(*self.args, *piece)
            except BaseException as caught:  # noqa: BLE001, PERF203 -- handed on to the caller
                self.errors.append(caught)
        self.left.append(None)
        self.signal.put(None)

    def end(self) -> None:
        """Leave no piece, and wait until nobody runs one: what the loop writes to is the caller's again.

        An interrupt meanwhile comes after that.
        """
        interrupt = None
        while True:
            try:
                self.pieces.clear()
                while len(self.left) < len(self.entered):
                    with suppress(Empty):
                        self.signal.get(timeout=PAUSE)
                break
            except BaseException as raised:  # noqa: BLE001 -- of the handler of a signal; raised below
                interrupt = raised
        self.args = ()  # it may still be waiting for a worker
        if interrupt is not None:
            raise interrupt


def share_by_queue(
    kernel: Callable[..., None], args: tuple[Any, ...], count: int, parts: int, least: int, strip: int = 1
) -> None:
    """Call `kernel(*args, lo, hi)` for pieces of `range(count)`, of `least` steps, in `parts` threads."""
    loop = _Shared(kernel, args, _cut(count, parts, least, strip))
    jobs = _jobs()
    try:
        for _ in range(parts - 1):
            jobs.put(loop)
        while (piece := loop.take()) is not None:
            kernel(*args, *piece)
    finally:
        loop.end()
    for error in loop.errors:
        raise error


def _cut(count: int, parts: int, least: int, strip: int = 1) -> list[Piece]:
    """Return pieces of `range(count)`: large first, to be quick; small last, so that all end together."""
    pieces, lo = [], 0
    while lo < count:
        size = max(least, -(-(count - lo) // (2 * parts)))
        hi = min(count, lo + -(-size // strip) * strip)
        pieces.append((lo, hi))
        lo = hi
    return pieces


@locks.per_process
def _jobs() -> SimpleQueue[_Shared]:
    """Return the jobs that as many threads as there are cores wait for, one less."""
    jobs: SimpleQueue[_Shared] = SimpleQueue()
    with suppress(RuntimeError):  # no more threads, or the interpreter ends
        for _ in range(get_num_threads() - 1):
            Thread(target=_work, args=(jobs,), name="fgrad", daemon=True).start()
    return jobs


def _work(jobs: SimpleQueue[_Shared]) -> None:
    while True:
        jobs.get().help()
