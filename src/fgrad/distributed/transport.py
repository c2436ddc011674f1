"""Transports between ranks: MPI, or queues between threads of one process."""

from __future__ import annotations

from collections import deque
from time import sleep
from typing import Any

import numpy as np

from fgrad.distributed.exchange import ANNOUNCEMENT, Links, Request

SPIN = 1e-4  # seconds of waiting that are spent looking, as long as messages between free cores take
NAP = 5e-5  # then somebody else needs the core; who sleeps is woken soon, who yields is put at the end


class MPILinks:
    """Messages over an MPI communicator of mpi4py, in a space of tags of its own."""

    def __init__(self, mpi: Any, comm: Any) -> None:
        self._mpi, self._comm = mpi, comm.Dup()
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        self._status = mpi.Status()

    def send(self, x: Any, dest: int, tag: int) -> Request:
        """Begin to send."""
        request: Request = self._comm.Isend([x.view(np.uint8), self._mpi.BYTE], dest, tag)
        return request

    def receive(self, x: Any, source: int, tag: int) -> Request:
        """Begin to receive."""
        request: Request = self._comm.Irecv([x.view(np.uint8), self._mpi.BYTE], source, tag)
        return request

    def announced(self, source: int) -> bytes | None:
        """Return the next announcement."""
        message = self._comm.Improbe(source, ANNOUNCEMENT, self._status)
        if message is None:
            return None
        data = bytearray(self._status.Get_count(self._mpi.BYTE))
        message.Recv([data, self._mpi.BYTE])
        return bytes(data)

    def rest(self, waited: float) -> None:
        """Look again for a while, then sleep."""
        if waited > SPIN:
            sleep(NAP)

    def abort(self) -> None:
        """End all ranks."""
        self._comm.Abort(1)


class _Parcel:
    """An array on its way between threads, which the receiver copies: both sides can ask whether it did."""

    def __init__(self, x: Any) -> None:
        self.x, self.is_taken = x, False

    def Test(self) -> bool:  # noqa: N802 -- MPI's name
        """Return whether the receiver has copied it."""
        return self.is_taken


class _Arrival:
    def __init__(self, x: Any, queue: deque[_Parcel]) -> None:
        self._x, self._queue = x, queue
        self._is_here = False

    def Test(self) -> bool:  # noqa: N802 -- MPI's name
        """Return whether the array is here."""
        if not self._is_here and self._queue:
            parcel = self._queue.popleft()
            self._x[...] = parcel.x.view(self._x.dtype)
            parcel.is_taken = self._is_here = True
        return self._is_here


class ThreadLinks:
    """Messages between threads that act as ranks. Nothing is copied before it is received, as in MPI."""

    rank: int
    size: int

    def __init__(self, rank: int, queues: list[dict[tuple[int, int], deque[_Parcel]]]) -> None:
        self.rank, self.size, self._queues = rank, len(queues), queues

    @classmethod
    def of(cls, size: int) -> list[Links]:
        """Return the links of all ranks."""
        queues: list[dict[tuple[int, int], deque[_Parcel]]] = [{} for _ in range(size)]
        return [cls(rank, queues) for rank in range(size)]

    def _queue(self, dest: int, source: int, tag: int) -> deque[_Parcel]:
        """Return the one queue from a rank to another, whichever of them asks first, or both at once."""
        return self._queues[dest].setdefault((source, tag), deque())

    def send(self, x: Any, dest: int, tag: int) -> Request:
        """Begin to send."""
        parcel = _Parcel(x.view(np.uint8))
        parcel.is_taken = tag == ANNOUNCEMENT  # these are short, and nobody writes to them
        self._queue(dest, self.rank, tag).append(parcel)
        return parcel

    def receive(self, x: Any, source: int, tag: int) -> Request:
        """Begin to receive."""
        return _Arrival(x.view(np.uint8), self._queue(self.rank, source, tag))

    def announced(self, source: int) -> bytes | None:
        """Return the next announcement."""
        queue = self._queue(self.rank, source, ANNOUNCEMENT)
        if not queue:
            return None
        return bytes(queue.popleft().x)

    def rest(self, waited: float) -> None:
        """Let other threads run."""
        sleep(NAP)

    def abort(self) -> None:
        """End nothing: threads cannot be ended, and the others hear of the failure."""
