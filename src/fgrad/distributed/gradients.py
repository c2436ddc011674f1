"""Gradients of a GradManager, summed over all ranks in buckets during the reverse pass."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Literal
from weakref import ref

import numpy as np

from fgrad import tree
from fgrad.core.aval import aval_of
from fgrad.core.tensor import Tensor, is_traced, wrap
from fgrad.distributed import operations, staging
from fgrad.distributed.exchange import Task
from fgrad.distributed.world import RankAxis, World, world_of
from fgrad.errors import RankError
from fgrad.transforms.collectives import pmean, psum

Event = Literal["gradient", "start", "done"]
BUCKET = 25 * 2**20  # bytes; as in PyTorch: Li et al. (2020), PyTorch Distributed


class _Bucket:
    """Gradients of one dtype that travel together."""

    number: int
    nbytes: int
    size: int

    def __init__(self, number: int) -> None:
        self.number, self.nbytes, self.size = number, 0, 0
        self.gradients: list[Any] = []
        self.words: list[str] = []
        self.flat: Any = None  # what is sent
        self.task: Task | None = None
        self.was_told = False  # that it is done


class _Sweep:
    """One backward: its gradients in the order in which they were complete."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.count = 0  # of gradients
        self.pending = 0  # of them that nobody has asked for yet
        self.open: dict[Any, _Bucket] = {}
        self.buckets: list[_Bucket] = []


class _Gradient(Future[Tensor]):
    """A gradient that is on its way."""

    def __init__(self, owner: AllReduce, sweep: _Sweep, bucket: _Bucket, value: Any) -> None:
        super().__init__()
        self._owner, self._sweep, self._bucket = owner, sweep, bucket
        self._start, self._like = bucket.size, value

    def result(self, timeout: float | None = None) -> Tensor:
        """Return the gradient of all ranks; how long that may take is `FGRAD_MPI_TIMEOUT`.

        Raises:
            RankError: the ranks do different things, one does not come, or one has failed.
        """
        if not self.done():
            flat = self._owner.arrived(self._sweep, self._bucket)
            like = self._like
            part = flat[self._start : self._start + like.size]
            self.set_result(wrap(staging.delivered(part.copy(), like, like.shape)))
            self._owner.was_asked(self._sweep)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return what `result` raises."""
        if not self.done():
            try:
                self.result()
            except RankError as error:
                return error
        return super().exception(timeout)

    def cancel(self) -> bool:
        """Tell the other ranks that nobody will ask for it here."""
        self._owner.give_up(self._sweep)
        return super().cancel()


class AllReduce:
    """The callback: `make_allreduce_cb` explains it."""

    bucket_bytes: int
    world: World

    def __init__(
        self,
        op: str,
        bucket_bytes: int,
        comm: Any,
        names: Any,
        on_event: Callable[[Event, int], None] | None,
    ) -> None:
        if op not in ("MEAN", "SUM"):
            raise ValueError(f'op must be "MEAN" or "SUM", not {op!r}')
        if bucket_bytes < 1:
            raise ValueError(f"bucket_bytes must be a positive number of bytes, not {bucket_bytes!r}")
        self.op, self.bucket_bytes, self.world = op, bucket_bytes, world_of(comm)
        self._hub = self.world.hub
        self._tell = on_event or (lambda event, number: None)
        leaves, structure = tree.flatten(names)
        paths = zip(leaves, tree.paths(structure), strict=True)
        self._names = {id(t): (ref(t), path) for t, path in paths if isinstance(t, Tensor)}
        self._sweep: _Sweep | None = None
        self._memory: dict[int, list[Any]] = {}  # bytes -> buffers that are free

    def __repr__(self) -> str:
        return f"<all-reduce {self.op} over {self.world.size} ranks>"

    def __call__(self, tensor: Tensor, grad: Tensor) -> Any:
        """Return a Future of the gradient over all ranks."""
        if self.world.size == 1:
            return None
        if is_traced(grad):  # an outer recording follows it: by operations that it sees, one at a time
            return (pmean if self.op == "MEAN" else psum)(grad, RankAxis(self.world, "ranks"))
        sweep = self._sweep
        if sweep is None or sweep.epoch != self._hub.epoch:
            self._hub.check()
            sweep = self._sweep = _Sweep(self._hub.epoch)
        value = grad._value
        self._tell("gradient", sweep.count)
        key = (value.dtype, type(value))
        bucket = sweep.open.get(key)
        if bucket is None:
            bucket = sweep.open[key] = _Bucket(len(sweep.buckets))
            sweep.buckets.append(bucket)
        future = _Gradient(self, sweep, bucket, value)
        bucket.words.append(f"gradient {sweep.count}{self._name(tensor)} of {aval_of(value)}")
        bucket.gradients.append(value)
        bucket.nbytes += value.nbytes
        bucket.size += value.size
        sweep.count += 1
        sweep.pending += 1
        if bucket.nbytes >= self.bucket_bytes:
            del sweep.open[key]
            self._start(bucket)
        if self._hub.running:
            self._hub.progress()
        self._tell_done(sweep)
        return future

    def arrived(self, sweep: _Sweep, bucket: _Bucket) -> Any:
        """Return the flat array of a bucket when it is there, starting all that is left before."""
        if sweep is self._sweep:
            self._finish(sweep)
        if bucket.task is None:
            raise RankError("this gradient belongs to a backward that was cancelled")
        flat = self._hub.wait(bucket.task)
        self._tell_done(sweep)
        return flat

    def was_asked(self, sweep: _Sweep) -> None:
        """Note that one gradient was asked for; after the last one, the memory of the buckets is free."""
        sweep.pending -= 1
        if not sweep.pending:
            for bucket in sweep.buckets:
                if isinstance(bucket.flat, np.ndarray):
                    self._memory.setdefault(bucket.nbytes, []).append(bucket.flat)

    def give_up(self, sweep: _Sweep) -> None:
        """Tell the other ranks that a backward has failed here, once."""
        if sweep is self._sweep:
            self._sweep = None
        if sweep.pending and sweep.epoch == self._hub.epoch:
            error = sys.exc_info()[1] or RankError("a backward was cancelled")
            self._hub.fail(error, then_raise=False)

    def _finish(self, sweep: _Sweep) -> None:
        """Start the buckets that are not full; the last one says how many gradients there were."""
        self._sweep = None
        end = f"the end after {sweep.count} gradients"
        rest = list(sweep.open.values())
        if rest:
            rest[-1].words.append(end)
        for bucket in rest:
            self._start(bucket)
        if not rest:
            empty = np.empty(0)
            words = f"an all-reduce {self.op} of gradients\n{end}"
            self.world.run(operations.all_reduce(self._hub, empty, words))

    def _start(self, bucket: _Bucket) -> None:
        self._tell("start", bucket.number)
        free = self._memory.get(bucket.nbytes)
        memory = free.pop() if free else None
        if memory is not None and not self._hub.is_sent(memory):
            memory = None
        flat = bucket.flat = staging.joined(bucket.gradients, memory)
        bucket.gradients.clear()
        words = "\n".join([f"an all-reduce {self.op} of gradients", *bucket.words])
        steps = operations.all_reduce(self._hub, flat, words, mean=self.op == "MEAN")
        bucket.task = self._hub.start(steps)

    def _tell_done(self, sweep: _Sweep) -> None:
        for bucket in sweep.buckets:
            if bucket.task is not None and bucket.task.is_done and not bucket.was_told:
                bucket.was_told = True
                self._tell("done", bucket.number)

    def _name(self, tensor: Tensor) -> str:
        handle, path = self._names.get(id(tensor), (None, ""))
        return f" {path}" if path and handle is not None and handle() is tensor else ""


def make_allreduce_cb(
    op: Literal["MEAN", "SUM"] = "MEAN",
    bucket_bytes: int = BUCKET,
    comm: Any = None,
    *,
    names: Any = None,
    on_event: Callable[[Event, int], None] | None = None,
) -> AllReduce:
    """Return a callback for `GradManager.attach` that averages or adds gradients over all ranks.

    Gradients go together in buckets. A bucket sets out as soon as its gradients are complete, and moves on
    whenever another gradient is, so that it travels during the rest of the sweep; `.grad` is written when
    all are there. Every rank must have the same gradients, in the same order; sums are taken in the order of
    the ranks, so that all ranks, and every run, get the same bits. A backward that fails on one rank fails
    on all. A gradient that an outer manager follows is averaged by differentiable operations, one by one.

    Args:
        op: "MEAN" or "SUM".
        bucket_bytes: the size from which a bucket sets out; smaller ones do after the sweep.
        comm: a communicator of mpi4py, or a `World`; None is `world()`.
        names: a pytree of the attached Tensors, whose paths name them in errors.
        on_event: called with "gradient" and the number of a gradient that is complete, and with "start" and
            "done" and the number of a bucket.

    Returns:
        What `GradManager.attach` takes as `callbacks`; `.grad` keeps shapes, dtypes and devices.

    Raises:
        ValueError: an unknown `op`, or no positive `bucket_bytes`.
        ImportError: mpi4py is not installed.

    `backward` then raises `RankMismatchError` where ranks have different gradients, `RankTimeoutError` where
    ranks do not arrive in `FGRAD_MPI_TIMEOUT` seconds (default 300), and `RankError` where one failed.

    Derivative:
        An average is linear: what an outer manager follows has the derivative of `pmean`, or of `psum`.

    Example:
        >>> import fgrad
        >>> from fgrad.distributed import make_allreduce_cb, simulate, world
        >>> def step():
        ...     w = fgrad.tensor([1.0, 2.0])
        ...     gm = fgrad.GradManager().attach(w, callbacks=make_allreduce_cb("MEAN"))
        ...     with gm:
        ...         gm.backward((w * world().rank).sum())
        ...     return w.grad
        >>> simulate(3, step)
        [Tensor([1., 1.]), Tensor([1., 1.]), Tensor([1., 1.])]
    """
    return AllReduce(op, bucket_bytes, comm, names, on_event)
