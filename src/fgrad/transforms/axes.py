"""Named axes whose examples are processes: what collective operations need of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad.blocks import Nested
from fgrad.core.dispatch import bind
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.tensor import Tensor, is_traced, wrap
from fgrad.core.trace import Tracer, current
from fgrad.transforms.stage import Stage, StagedTracer

if TYPE_CHECKING:
    from typing_extensions import Self

Pairs = Sequence[tuple[int, int]]


class ProcessAxis(ABC):
    """An axis along which every process, or rank, has one value of everything.

    The operations take and return arrays. Every rank calls them in the same order, `transfer` excepted.

    Attributes:
        name: what it is bound to.
        rank: which example this process is.
        size: how many there are.
    """

    name: Hashable
    rank: int
    size: int

    @abstractmethod
    def at(self, line: str, detail: str = "") -> Self:
        """Return the same axis for an operation that stands in this line of the user's program.

        Args:
            line: the line.
            detail: what else has to be the same for all processes.
        """

    @abstractmethod
    def turned(self) -> Self:
        """Return the same axis for the adjoint of an operation, which must not meet the operation itself."""

    @abstractmethod
    def psum(self, x: Any) -> Any:
        """Return the sum over all ranks."""

    @abstractmethod
    def all_gather(self, x: Any) -> Any:
        """Return the values of all ranks along a new first axis."""

    @abstractmethod
    def psum_scatter(self, x: Any) -> Any:
        """Return that place of the sum along its first axis which belongs to this rank."""

    @abstractmethod
    def ppermute(self, x: Any, perm: Pairs) -> Any:
        """Return what (source, destination) in `perm` says that this rank gets; zeros if nothing."""

    @abstractmethod
    def transfer(self, x: Any, dest: int | None, source: int | None) -> Any:
        """Send `x` to `dest`, and return what `source` sends, of the same shape and dtype, or zeros."""


_bound: ContextVar[tuple[ProcessAxis, ...]] = ContextVar("fgrad.axes", default=())
# the axes of processes that have names here, innermost last
bound_axes: Callable[[], tuple[ProcessAxis, ...]] = _bound.get


class binding(Nested):  # noqa: N801 -- reads as a function
    """Let `axis` be known by its name in a block."""

    def __init__(self, axis: ProcessAxis) -> None:
        super().__init__()
        self._axis = axis

    def __enter__(self) -> None:
        self.stays.append(_bound.get())
        _bound.set((*_bound.get(), self._axis))

    def put_back(self, stay: Any) -> None:
        """Forget the name."""
        _bound.set(stay)


def bind_over(name: str, *values: Any, over: Any, **params: Any) -> Any:
    """Return `bind(name, *values, over=over, **params)`.

    Between processes it is staged even where the values are known here: others have other ones, or may have
    staged it before.
    """
    stages = [t for t in current().traces if isinstance(t, Stage)]
    if stages and isinstance(over, ProcessAxis):
        tensors = [v for v in values if v.__class__ is Tensor]
        if not any(map(is_traced, tensors)):
            return wrap(stages[-1].process(PRIMITIVES[name], values, {"over": over, **params}))
        values = tuple([_staged(v, stages[-1]) if v.__class__ is Tensor else v for v in values])
    return bind(name, *values, over=over, **params)


def _staged(x: Tensor, stage: Stage) -> Tensor:
    """Return `x` as a value that is not known, if it is: a recording alone follows it."""
    if isinstance(x._value, Tracer) or x.dtype.kind not in "fc":
        return x
    nothing = stage.renamed(np.asarray(-np.zeros((), x.dtype)))
    return x + wrap(StagedTracer(stage, nothing))
