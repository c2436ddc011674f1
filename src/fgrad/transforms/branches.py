"""The runs of a mapped function: Python's `if` and `while` on mapped values split the batch by path."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.core.tensor import Tensor, alias, is_traced
from fgrad.core.trace import current, next_level, place_of, running
from fgrad.errors import NoValueError
from fgrad.ops import functions
from fgrad.ops.indices import HOLE
from fgrad.ops.linear import broadcast_to
from fgrad.transforms.batch import Batch, Split
from fgrad.transforms.calling import name_of
from fgrad.transforms.effects import State

PATHS = 1000  # how often the function of a vmap may run


class Leaf:
    """One leaf of the output of one run."""

    __slots__ = ("is_mapped", "is_number", "is_weak", "size", "value")

    def __init__(self, trace: Batch, y: Any) -> None:
        self.size: int = trace.size
        self.is_mapped: bool = trace.owns(y)
        self.is_number: bool = isinstance(y, Tensor | np.ndarray | np.generic | int | float | complex)
        self.is_weak: bool = y.__class__ in {int, float, complex}
        self.value: Any | Tensor = (
            trace.unbox(y) if self.is_mapped else alias(y) if y.__class__ is Tensor else y
        )

    def stacked(self) -> Any:
        """Return the examples along a first axis."""
        if self.is_mapped:
            return self.value
        y = self.value if hasattr(self.value, "shape") else np.asarray(self.value)
        return broadcast_to(y, (self.size, *y.shape))


class Done:
    """What one run gave: its examples, and the leaves of their results."""

    __slots__ = ("leaves", "part", "structure")

    structure: Any

    def __init__(self, trace: Batch, part: Any, out: Any) -> None:
        self.part: Any = part
        found, self.structure = tree.flatten(out)
        self.leaves: list[Leaf] = [Leaf(trace, y) for y in found]


@dataclass(eq=False, repr=False)
class Runs:
    """The runs of a mapped function: one, or one for each group of examples that go the same way.

    Where a truth value differs between the examples, `Split` ends the run, and the function starts again for
    each group: what it did before is undone by forgetting it. So nothing else may have changed by then; what
    a run changed and what outlives it are the same things, and those are refused.
    """

    fun: Callable[..., Any]
    wholes: list[Any]
    mapped: list[bool]
    structure: Any
    size: int
    name: Any
    line: str = field(default="", init=False)  # of the last split
    state: State | None = field(default=None, init=False)

    def everything(self) -> list[Done]:
        """Return the results of all examples, in parts."""
        todo: list[Any] = [None]
        done: list[Done] = []
        count = 0
        while todo:
            part = todo.pop()
            count += 1
            if count > PATHS:
                raise RuntimeError(
                    f"vmap of {name_of(self.fun)}: the examples take too many different paths: the function "
                    f"ran {PATHS} times for groups that agree in all truth values (last split at "
                    f"{place_of(self.line)}). Use where(condition, x, y), or lax.cond and lax.while_loop, "
                    "which run once for all examples"
                )
            trace = Batch(next_level(), self.size if part is None else len(part), self.name)
            trace.part, trace.full_size = part, self.size
            changes: dict[int, Any] = {}
            trace.changes = changes
            run = trace.origin
            found = self._once(trace, part)
            del trace  # so that nothing refers to it but what the function keeps
            if found.__class__ is Done:
                done.append(found)
                if count > 1:
                    self._check(changes)
                continue
            if self.state is None:
                self.state = State(
                    self.fun, (x for x, m in zip(self.wholes, self.mapped, strict=True) if not m)
                )
            self._check(changes, run)
            todo += [g if part is None else part[g] for g in reversed(found)]
        if any(d.structure != done[0].structure for d in done):
            shapes = " and ".join(sorted({str(d.structure) for d in done}))
            raise TypeError(
                f"vmap of {name_of(self.fun)}: the output has the structures {shapes} in different examples, "
                "because they took different branches; return one structure from all of them"
            )
        return done

    def _once(self, trace: Batch, part: Any) -> Any:
        """Return what the examples of `part` give, or the groups into which they have to be split."""
        try:
            with running((*current().traces, trace)):
                trace.is_running = True
                tracers = [
                    trace.tracer(
                        x if part is None else functions.gather(x, part, template=(HOLE,), unique=True)
                    )
                    if m
                    else x
                    for x, m in zip(self.wholes, self.mapped, strict=True)
                ]
                args, kwargs = tree.unflatten(self.structure, tracers)
                tracers.clear()
                out = self.fun(*args, **kwargs)
        except Split as split:
            if split.trace is not trace:
                raise
            self.line = split.line
            return split.groups
        except ValueError as error:
            if isinstance(error.__cause__, NoValueError):  # NumPy says less
                raise TypeError(str(error.__cause__)) from error
            raise
        finally:
            trace.is_running = False
        if trace.was_split:
            raise RuntimeError(
                f"vmap of {name_of(self.fun)}: a truth value differs between the examples, but the function "
                "caught the exception that splits the batch; catch Exception instead of BaseException"
            )
        return Done(trace, part, out)

    def _check(self, changes: dict[int, Any], run: Callable[[], Batch | None] = lambda: None) -> None:
        """Refuse a function that has changed something else than its own variables.

        Args:
            changes: weak references to what it wrote to.
            run: returns the trace of a run that was broken off, if something still refers to it. What ran to
                its end may be kept by recordings around it, for their sweeps.
        """
        if _kept(changes, run):
            gc.collect()  # what stands in a circle may still be there
        what = _kept(changes, run)
        if not what and self.state is not None:
            what = self.state.changed(self.fun)
        if what:
            raise RuntimeError(
                f"vmap of {name_of(self.fun)}: a truth value differs between the examples (at "
                f"{place_of(self.line)}), so the function runs again for each group that agrees. It must be "
                f"pure, but it changes {what}. Return what it computes, or use where(condition, x, y) or "
                "lax.cond, which need one run"
            )

    def order(self, done: Sequence[Done]) -> Any:
        """Return where each example stands in the results put together; None where there is one part."""
        if len(done) == 1:
            return None
        return np.argsort(np.concatenate([d.part for d in done]))


def _kept(changes: dict[int, Any], run: Callable[[], Batch | None]) -> str | None:
    """Return the name of something that a run changed and that outlives it."""
    alive = [x for r in changes.values() if (x := r()) is not None]
    if alive:
        return f"a {type(alive[0]).__name__} that exists outside of it"
    return None if run() is None else "something outside of it that keeps a Tensor of this run"


def is_same(x: Any, y: Any) -> bool:
    """Return whether two runs gave the same constant."""
    if x is y:
        return True
    if x.__class__ is Tensor or y.__class__ is Tensor:
        if not (x.__class__ is y.__class__ is Tensor):
            return False
        if is_traced(x) or is_traced(y):
            return x._value is y._value and x._nodes == y._nodes
        x, y = x._value, y._value
    if isinstance(x, np.ndarray | np.generic) or isinstance(y, np.ndarray | np.generic):
        return np.array_equal(x, y)
    return bool(x == y)
