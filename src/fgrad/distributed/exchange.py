"""Exchanges between ranks that never hang: messages are announced and compared, and waiting has a limit.

Before an array goes a short announcement: which operation of which epoch it belongs to, and what that is in
words (operation, shape, dtype, line or name). A receiver compares these with its own, so that ranks that do
different things find out, and say which. The operations are numbered on each rank as it starts them. A rank
that fails tells all others, and begins a new epoch; what still arrives of an old one is received and dropped.

An operation is a generator that yields the exchanges it waits for. It is moved on whenever anybody on this
rank waits or looks (`progress`); there is no thread behind it.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Mapping, Sequence
from time import monotonic
from typing import Any, Protocol

import numpy as np

from fgrad import config
from fgrad.errors import RankError, RankMismatchError, RankTimeoutError

ANNOUNCEMENT = 1  # the tag of announcements; arrays have those from FIRST on
FIRST, TAGS = 2, 30_000  # MPI promises tags up to 32767
_HEAD = struct.Struct("<BIIBQ")  # kind, epoch, number, phase, bytes of the array that follows
COLLECTIVE, MESSAGE, FAILED, LEFT = range(4)  # kinds; messages have two ranks that take part
ERRORS: tuple[type[Exception], ...] = (RankError, RankMismatchError, RankTimeoutError)
Key = tuple[int, int, int, int]  # kind, epoch, number, phase
Operation = Generator["Exchange", None, Any]


class Request(Protocol):
    """A message on its way."""

    def Test(self) -> bool:  # noqa: N802 -- MPI's name
        """Return whether it has arrived, or left."""


class Links(Protocol):
    """What a communicator has to offer: messages from rank to rank that stay in order for each tag."""

    rank: int
    size: int

    def send(self, x: Any, dest: int, tag: int) -> Request:
        """Begin to send a contiguous array, which stays as it is until that is done."""

    def receive(self, x: Any, source: int, tag: int) -> Request:
        """Begin to receive into a contiguous array."""

    def announced(self, source: int) -> bytes | None:
        """Return the next message of `source` with the tag of announcements, None where there is none."""

    def rest(self, waited: float) -> None:
        """Leave the processor to others for a moment, after so many seconds of waiting."""

    def abort(self) -> None:
        """End all ranks."""


class Exchange:
    """Arrays on their way to and from other ranks, in one phase of an operation.

    It is done when everything has arrived here; what was sent is on its way on its own.
    """

    __slots__ = ("key", "missing", "receives", "requests", "words")

    key: Key
    words: str
    receives: dict[int, Any]
    missing: set[int]

    def __init__(self, key: Key, words: str, receives: Mapping[int, Any]) -> None:
        self.key, self.words, self.receives = key, words, dict(receives)
        self.missing = set(receives)
        self.requests: list[Request] = []


class Hub:
    """All exchanges of one rank over one communicator."""

    epoch: int
    links: Links
    rank: int
    size: int
    others: list[int]

    def __init__(self, links: Links) -> None:
        self.links, self.rank, self.size = links, links.rank, links.size
        self.others = [r for r in range(self.size) if r != self.rank]
        self.epoch = 0
        self._numbers: dict[tuple[int, int], int] = {}  # (kind, other rank or -1) -> operations so far
        self._inbox: dict[int, dict[Key, tuple[str, int]]] = {r: {} for r in self.others}
        self._loose: list[tuple[Request, Any]] = []  # messages that nobody waits for, with their memory
        # epoch -> the first operation that another rank has not finished, and what it failed with
        self._failures: dict[int, tuple[int, Exception]] = {}
        self._gone: dict[int, str] = {}  # ranks that have left, with what they said
        self.running: list[Task] = []

    # -- operations

    def start(self, steps: Operation) -> Task:
        """Begin an operation."""
        self.check()
        task = Task(self, steps, self._next)
        self.running.append(task)
        task.poll()
        return task

    def number(self, kind: int = COLLECTIVE, other: int = -1) -> int:
        """Return the number of a new operation."""
        n = self._numbers.get((kind, other), 0)
        self._numbers[kind, other] = n + 1
        return n

    @property
    def _next(self) -> int:
        """The number of the next operation of all ranks."""
        return self._numbers.get((COLLECTIVE, -1), 0)

    def exchange(
        self,
        words: str,
        number: int,
        sends: Mapping[int, Any],
        receives: Mapping[int, Any],
        *,
        phase: int = 0,
        kind: int = COLLECTIVE,
    ) -> Exchange:
        """Begin to send contiguous arrays to other ranks, and to receive into arrays of the right size.

        Nobody writes to what is sent until `is_sent` says that it has left.
        """
        key = (kind, self.epoch, number, phase)
        for dest, x in sends.items():
            self._announce(dest, key, words, x.nbytes)
            if x.nbytes:
                self.keep(self.links.send(x, dest, _tag(key)), x)
        return Exchange(key, words, receives)

    def is_sent(self, memory: Any) -> bool:
        """Return whether nothing of this memory is still being sent."""
        return not any(isinstance(x, np.ndarray) and np.may_share_memory(x, memory) for _, x in self._loose)

    def is_done(self, exchange: Exchange) -> bool:
        """Return whether an exchange is finished, moving it on."""
        for source in list(exchange.missing):
            found = self._inbox[source].pop(exchange.key, None)
            if found is None:
                if source in self._gone:
                    kind, _, number, _ = exchange.key
                    self._raise_failure(number if kind == COLLECTIVE else self._next)  # says more
                    self.fail(RankError(f"{self._gone[source]}, while {self._here(exchange)}"))
                continue
            exchange.missing.discard(source)
            words, nbytes = found
            x = exchange.receives[source]
            if words != exchange.words or nbytes != x.nbytes:
                self._drop(source, exchange.key, nbytes)
                self.fail(RankMismatchError(_difference(self.rank, exchange.words, source, words)))
            if nbytes:
                exchange.requests.append(self.links.receive(x, source, _tag(exchange.key)))
        exchange.requests = [r for r in exchange.requests if not r.Test()]
        return not exchange.missing and not exchange.requests

    def progress(self) -> None:
        """Take what has arrived, and move every operation on as far as it goes."""
        self._take()
        for task in list(self.running):
            task.poll()

    def wait(self, task: Task) -> Any:
        """Return the result of an operation.

        Raises:
            RankMismatchError: the ranks do different things.
            RankTimeoutError: some ranks did not come within `FGRAD_MPI_TIMEOUT` seconds.
            RankError: another rank has failed or ended.
        """
        start = monotonic()
        while not task.is_done:
            self.progress()
            self._raise_failure(task.order)
            if task.is_done:
                break
            waited = monotonic() - start
            if waited > config.mpi_timeout():
                self._time_out(task, waited)
            self.links.rest(waited)
        if not task.is_abandoned:
            self._demand_wanted()
        return task.result()

    def _time_out(self, task: Task, waited: float) -> None:
        exchange = task.waits_for
        late = sorted(exchange.missing) if exchange else []
        who = ", ".join(map(str, late)) or "none is missing, but arrays are still under way"
        where = self._here(exchange) if exchange else "an operation was under way"
        self.fail(
            RankTimeoutError(
                f"rank {self.rank} of {self.size} waited {waited:.3g} s for the ranks that did not arrive: "
                f"{who}; {where}. Either they do not take part in this operation, or they are slower than "
                "FGRAD_MPI_TIMEOUT seconds allow"
            )
        )

    def _here(self, exchange: Exchange) -> str:
        return f"rank {self.rank} waits in {exchange.words.splitlines()[0]}"

    # -- failures

    def check(self) -> None:
        """Raise what other ranks have failed with before the next operation.

        A rank that is behind goes on until it comes to the operation in which the other one failed.
        """
        self._take()
        self._raise_failure(self._next)
        self._demand_wanted()

    def _demand_wanted(self) -> None:
        """Raise if another rank has sent what nobody here asked for in an operation that is over."""
        first = min([task.order for task in self.running], default=self._next)
        for source, waiting in self._inbox.items():
            for (kind, epoch, number, _), (words, _) in waiting.items():
                if kind == COLLECTIVE and epoch == self.epoch and number < first:
                    self.fail(
                        RankMismatchError(
                            f"the ranks do different things: rank {source} has sent {words.splitlines()[0]}, "
                            f"but rank {self.rank} did not expect that anything came from there. Every rank "
                            "has to do the same operations in the same order, with the same arguments"
                        )
                    )

    def _raise_failure(self, order: int) -> None:
        first, error = self._failures.get(self.epoch, (order + 1, None))
        if error is not None and first <= order:
            self._new_epoch()
            raise error

    def fail(self, error: BaseException, *, then_raise: bool = True) -> None:
        """Give up everything under way, here and on the other ranks, and raise `error`."""
        kind = next((i for i, e in enumerate(ERRORS) if type(error) is e), 0)
        said = str(error) if kind or type(error) is RankError else f"{type(error).__name__}: {error}"
        first = min([task.order for task in self.running], default=self._next)
        for dest in self.others:
            self._announce(dest, (FAILED, self.epoch, first, kind), said, 0)
        self._new_epoch()
        if then_raise:
            raise error

    def leave(self, patience: float | None = None) -> None:
        """Tell the others that nothing comes from here any more, and wait until they have what was sent."""
        for dest in self.others:
            self._announce(dest, (LEFT, self.epoch, 0, 0), f"rank {self.rank} has ended", 0)
        start = monotonic()
        patience = config.mpi_timeout() if patience is None else patience
        while self._loose and len(self._gone) < len(self.others) and monotonic() - start < patience:
            self._take()
            self.links.rest(monotonic() - start)

    def _new_epoch(self) -> None:
        self.epoch += 1
        self._numbers.clear()
        self._failures = {e: found for e, found in self._failures.items() if e >= self.epoch}
        for task in self.running:
            task.abandon()
        self.running.clear()
        for source in self.others:
            for key in [k for k in self._inbox[source] if k[1] < self.epoch]:
                _, nbytes = self._inbox[source].pop(key)
                self._drop(source, key, nbytes)

    # -- messages

    def _announce(self, dest: int, key: Key, words: str, nbytes: int) -> None:
        kind, epoch, number, phase = key
        data = np.frombuffer(_HEAD.pack(kind, epoch, number, phase, nbytes) + words.encode(), np.uint8)
        self.keep(self.links.send(data, dest, ANNOUNCEMENT), data)

    def keep(self, request: Request, memory: Any) -> None:
        """Keep memory until a message that nobody waits for is through."""
        if not request.Test():
            self._loose.append((request, memory))

    def _take(self) -> None:
        for source in self.others:
            while (data := self.links.announced(source)) is not None:
                kind, epoch, number, phase, nbytes = _HEAD.unpack_from(data)
                self._sort(source, (kind, epoch, number, phase), data[_HEAD.size :].decode(), nbytes)
        if self._loose:
            self._loose = [(r, x) for r, x in self._loose if not r.Test()]

    def _sort(self, source: int, key: Key, words: str, nbytes: int) -> None:
        kind, epoch, number, phase = key
        if kind == LEFT:
            self._gone[source] = words
        elif epoch < self.epoch:
            self._drop(source, key, nbytes)
        elif kind == FAILED:
            known = self._failures.get(epoch)
            if known is None or number < known[0]:
                self._failures[epoch] = number, ERRORS[phase](f"rank {source} reports: {words}")
        else:
            self._inbox[source][key] = (words, nbytes)

    def _drop(self, source: int, key: Key, nbytes: int) -> None:
        if nbytes:
            x = np.empty(nbytes, np.uint8)
            self.keep(self.links.receive(x, source, _tag(key)), x)


class Task:
    """An operation under way."""

    __slots__ = ("_result", "_steps", "hub", "is_abandoned", "is_done", "order", "waits_for")

    hub: Hub
    order: int
    is_done: bool
    is_abandoned: bool

    def __init__(self, hub: Hub, steps: Operation, order: int) -> None:
        self.hub, self._steps = hub, steps
        self.order = order  # how many operations of all ranks were started before it
        self.waits_for: Exchange | None = None
        self.is_done = self.is_abandoned = False
        self._result: Any = None

    def poll(self) -> bool:
        """Return whether it is done, moving it on."""
        while not self.is_done and not self.is_abandoned:
            if self.waits_for is not None and not self.hub.is_done(self.waits_for):
                return False
            try:
                self.waits_for = next(self._steps)
            except StopIteration as end:
                self._result, self.is_done, self.waits_for = end.value, True, None
                self.hub.running.remove(self)
            except Exception as error:  # noqa: BLE001 -- the others hear of it, and it is raised
                self.hub.fail(error)
        return self.is_done

    def abandon(self) -> None:
        """Give it up; what it receives keeps its memory until it is through."""
        self.is_abandoned = True
        if self.waits_for is not None:
            for request in self.waits_for.requests:
                self.hub.keep(request, self._steps)

    def result(self) -> Any:
        """Return what came of it.

        Raises:
            RankError: it was cancelled, because something else failed before.
        """
        if self.is_abandoned:
            raise RankError(
                "this operation was cancelled, because an earlier one failed on this rank or another"
            )
        return self._result


def _tag(key: Key) -> int:
    kind, epoch, number, phase = key
    return FIRST + (kind + 2 * (phase + 2 * (number + 1009 * epoch))) % TAGS


def _difference(rank: int, ours: str, other: int, theirs: str) -> str:
    """Return what two ranks do not agree in: the first line that differs."""
    mine, yours = ours.splitlines(), theirs.splitlines()
    count = max(len(mine), len(yours))
    pairs = zip(_padded(mine, count), _padded(yours, count), strict=True)
    a, b = next(((a, b) for a, b in pairs if a != b), (mine[0], yours[0]))
    return (
        f"the ranks do different things: rank {rank} has {a}, rank {other} has {b}. Every rank has to do the "
        "same operations in the same order, on values of the same shapes and dtypes"
    )


def _padded(lines: Sequence[str], count: int) -> list[str]:
    return [*lines, *["nothing there"] * (count - len(lines))]
