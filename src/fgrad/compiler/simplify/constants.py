"""Constants of programs: which repeat one number, which are equal, and constant folding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.blocks import is_of_handler
from fgrad.core.aval import Aval, aval_of
from fgrad.core.primitive import MOVES, NOT_FOLDED, PRIMITIVES, REARRANGES, REPEATS
from fgrad.core.program import Var
from fgrad.core.rewriting.keys import Keys, without_repetitions
from fgrad.core.tensor import Tensor

FEW = 1000  # elements: a result of more is computed once only where an operand is as large
_SCANNED = 1 << 22  # bytes of a constant that is compared by its elements


def is_constant(x: Any) -> bool:
    """Return whether an operand is known; a Tensor among them belongs to a recording around the program."""
    return x.__class__ is not Var and not isinstance(x, Tensor)


def spread(value: Any, aval: Aval) -> Any:
    """Return the constant that is `value` everywhere, without memory for the repetitions."""
    scalar = np.asarray(value, aval.dtype)
    return np.broadcast_to(scalar, aval.shape) if aval.shape else scalar[()]


def number(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return a number as arithmetic in `dtype` takes it, as one of Python; None for what is not real there.

    Numbers of NumPy wrap around and overflow where what is computed with them should not, and numbers of
    Python may be beyond the dtype beside which they stand. What is no number of Python (a long double) stays.
    """
    if x is None or isinstance(x, complex | np.complexfloating) or dtype.kind not in "biuf":
        return None
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            x = dtype.type(x)
    return x.item() if isinstance(x, np.generic) else x


def cast(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return a constant in another dtype, as `where` takes it: what does not fit wraps or overflows."""
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype)[()]


def typed(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return a real number in a dtype of floats or integers; None where that has no such number."""
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            made = dtype.type(x)
        return made if np.isfinite(made) or not math.isfinite(x) else None
    limits = np.iinfo(dtype)
    return dtype.type(x) if limits.min <= x <= limits.max else None


def is_plain_zero(x: Any) -> bool:
    """Return whether a number is zero, and none of its parts -0.0."""
    return x is not None and x == 0 and not np.signbit(np.real(x)) and not np.signbit(np.imag(x))


class Constants:
    """What is known of the constants of a program, each of them looked at once."""

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[Any, Any]] = {}
        self.key: Callable[[Any], Any] = Keys(_SCANNED).of
        self._equal: dict[Any, Any] = {}

    def canonical(self, x: Any) -> Any:
        """Return a constant as it stands in simple programs: equal ones are one, repeated numbers a view."""
        if not isinstance(x, np.ndarray):
            return x
        known = self._shapes.get(id(x))
        if known is None:
            simple = _canonical(x)
            if isinstance(simple, np.ndarray):
                simple = self._equal.setdefault(self.key(simple), _along_axes(simple))
            known = self._shapes[id(x)] = (x, simple)
            self._shapes[id(simple)] = (simple, simple)
        return known[1]

    def short(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return what broadcasts to a constant: without its repetitions along axes."""
        part = without_repetitions(x)
        if part.size == x.size:
            return x
        lead = next((i for i, n in enumerate(part.shape) if n > 1), part.ndim)
        simple: np.ndarray[Any, Any] = self.canonical(np.ascontiguousarray(part.reshape(part.shape[lead:])))
        return simple

    def scalar(self, x: Any) -> Any:
        """Return the number that a constant is or repeats, with its dtype; None for anything else."""
        if x.__class__ is Var or isinstance(x, Tensor):
            return None
        if not isinstance(x, np.ndarray):
            return x
        x = self.canonical(x)
        if isinstance(x, np.ndarray):
            return x[(0,) * x.ndim] if x.size and not any(x.strides) else None
        return x


def _canonical(x: np.ndarray[Any, Any]) -> Any:
    if x.ndim == 0:
        return x[()]
    if x.size == 0 or not any(x.strides):
        return x
    part = without_repetitions(x)
    first = part[(0,) * part.ndim]
    if part.nbytes <= _SCANNED and x.dtype.kind in "biufc":
        if part.size > 1 and first != part[(-1,) * part.ndim] and first == first:  # noqa: PLR0124 -- no NaN
            return x
        if part.tobytes() == first.tobytes() * part.size:
            return np.broadcast_to(first, x.shape)
    return x


def _along_axes(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a constant as a view where it repeats along some of its axes: seeds of many examples do."""
    part = without_repetitions(x)
    if part.ndim < 2 or part.size <= FEW or x.dtype.itemsize not in {1, 2, 4, 8}:
        return x
    bits = part.view(f"u{x.dtype.itemsize}")  # so that NaN is itself, and -0.0 not 0.0
    for axis in range(bits.ndim):
        first, second = (bits[(slice(None),) * axis + (slice(k, k + 1),)] for k in (0, 1))
        if bits.shape[axis] > 1 and (first == second).all() and (bits == first).all():
            bits = first
    if bits.shape == part.shape:
        return x
    return np.broadcast_to(np.ascontiguousarray(bits).view(x.dtype), x.shape)


def memory(x: Any) -> int:
    """Return the number of elements that a constant keeps."""
    if not isinstance(x, np.ndarray):
        return 1
    return without_repetitions(x).size


def _is_view(name: str, args: tuple[Any, ...]) -> bool:
    """Return whether an equation takes no memory, since it looks at what repeats along axes."""
    primitive = PRIMITIVES[name]
    moves = MOVES in primitive.traits or (REARRANGES in primitive.traits and primitive.write is not None)
    return moves and isinstance(args[0], np.ndarray) and memory(args[0]) < args[0].size


def folded(name: str, args: tuple[Any, ...], params: dict[str, Any], aval: Aval) -> Any:
    """Return the value of an equation of constants; None where it is left to the program.

    What raises here raises there, when the program runs.
    """
    primitive = PRIMITIVES[name]
    if NOT_FOLDED in primitive.traits or primitive.many or "code" in params or "over" in params:
        return None
    try:
        with np.errstate(all="ignore"):
            if REPEATS in primitive.traits:
                out = np.broadcast_to(args[0], aval.shape)
            elif aval.size <= max(FEW, *map(memory, args)) or _is_view(name, args):
                out = primitive.run(
                    *(np.asarray(a) if isinstance(a, np.generic) else a for a in args), **params
                )
            else:
                return None
    except Exception as error:  # whatever a primitive raises
        if is_of_handler(error):
            raise
        return None
    if isinstance(out, Tensor) or aval_of(out) != aval:
        return None
    if not isinstance(out, np.ndarray):
        return out
    if memory(out) > max(FEW, *map(memory, args)):  # a reshape that had to copy
        return None
    if out.ndim == 0:
        return out[()]
    if not out.flags.writeable:
        return out
    if any(np.may_share_memory(out, a) for a in args if isinstance(a, np.ndarray)):
        out = out.copy()
    out.flags.writeable = False
    return out
