"""Predicates and indices of branches and loops, and choices by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.backend.array import DeviceArray
from fgrad.core.aval import Aval
from fgrad.core.tensor import Tensor
from fgrad.core.trace import Tracer, current
from fgrad.lax.trees import kind_of
from fgrad.numpy.registry import elements
from fgrad.numpy.selection import pick
from fgrad.ops import functions
from fgrad.ops.indices import HOLE
from fgrad.transforms.batch import BatchedTracer
from fgrad.transforms.calling import own
from fgrad.transforms.loops.batching import held_back


def scalar(x: Any, what: str) -> Any:
    """Return a predicate or index without axes, as the bool or number it is where that is known.

    Raises:
        TypeError: it has axes, or is no number.
    """
    if isinstance(x, bool | int):
        return x
    if not isinstance(x, Tensor | np.ndarray | np.generic | float | DeviceArray):
        raise TypeError(f"{what} must be a bool or number, not {type(x).__name__}")
    if np.shape(x) != ():
        raise TypeError(
            f"{what} must be a scalar, not of shape {np.shape(x)}; where(condition, x, y) chooses by elements"
        )
    if isinstance(x, Tensor):
        return x if isinstance(x._value, Tracer) else x._value
    return x


def differs(x: Any) -> bool:
    """Return whether a scalar differs between the examples of a batch."""
    return isinstance(x, Tensor) and isinstance(x._value, BatchedTracer)


def anywhere(x: Any) -> bool:
    """Return whether a scalar is true for any example, as far as that is known."""
    found = elements(x)
    return found is None or bool(np.any(found))


def following() -> bool:
    """Return whether derivatives are taken here."""
    return any(t.is_tape for t in current().traces)


def going(taken: Any, x: Any) -> Any:
    """Return `x`; examples for which `taken` does not hold get that of one for which it does, as a constant.

    What a branch or step makes of the others may be an error, infinite or NaN, and zero times that is NaN.
    What is the same for all examples stays so.
    """
    if not isinstance(x, Tensor) or not isinstance(taken, Tensor):
        return x
    return _standing_in(taken, x) if differs(taken) else held_back(taken, x)  # staged: examples are not seen


def _standing_in(taken: Any, x: Any) -> Any:
    if not differs(taken):
        return x
    trace = taken._value.trace
    those = trace.unbox(taken)
    if not trace.owns(x):
        return _standing_in(np.any(those), x)
    one = functions.gather(x._value.whole, np.argmax(those), template=(HOLE,), unique=True)
    if x.dtype.kind in "fc":
        one = functions.stop_gradient(one)
    return pick(taken, x, _standing_in(np.any(those), one))


def choose(pick: Callable[..., Any], outs: Sequence[Any], what: str) -> Any:
    """Return the leaf by leaf choice among the results of branches."""
    flat = [tree.flatten(o) for o in outs]
    for leaves, structure in flat[1:]:
        demand_equal(what, flat[0], (leaves, structure))
    groups = zip(*(leaves for leaves, _ in flat), strict=True)
    chosen = [own(group[0]) if _is_passed_on(group) else pick(*group) for group in groups]
    return tree.unflatten(flat[0][1], chosen)


def _is_passed_on(group: Sequence[Any]) -> bool:
    """Return whether all branches return one Tensor, an operand that may be the same for all examples."""
    first = group[0]
    return first.__class__ is Tensor and all(
        y.__class__ is Tensor and y._value is first._value and y._nodes == first._nodes for y in group
    )


def demand_equal(what: str, first: tuple[Any, Any], other: tuple[Any, Any]) -> None:
    """Raise unless two results of branches, as leaves and structure, are alike.

    Raises:
        TypeError: they differ in structure, shape or dtype.
    """
    if first[1] != other[1]:
        raise TypeError(f"{what}: the branches must return one structure, not {first[1]} and {other[1]}")
    for i, (a, b) in enumerate(zip(first[0], other[0], strict=True)):
        ka, kb = kind_of(a), kind_of(b)
        if ka != kb and not (ka is None and kb and kb[0] == ()) and not (kb is None and ka and ka[0] == ()):
            shown = [Aval(*k) if k else "number" for k in (ka, kb)]
            raise TypeError(
                f"{what}: the branches must return equal types, but leaf {i} is {shown[0]} in one and "
                f"{shown[1]} in another; convert one of them"
            )
