"""Checks that a pytree has the structure, shapes and dtypes of another, for loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import as_array
from fgrad.core.aval import Aval, Shape, with_dtype
from fgrad.core.tensor import Tensor, wrap
from fgrad.ops import functions
from fgrad.transforms.calling import name_of
from fgrad.transforms.stage import StagedTracer

NUMBERS = (bool, int, float, complex)
Kind = tuple[Shape, "np.dtype[Any]"] | None  # of a Python number, whose dtype is not fixed: None


def kind_of(x: Any) -> Kind:
    """Return the shape and dtype of a leaf; None for what is, or stands for, a Python number, or no array."""
    if x.__class__ is Tensor:
        x = x._value
        if x.__class__ is StagedTracer and x.weak:
            return None
    if not hasattr(x, "dtype"):
        return None
    dtype = x.dtype
    return x.shape, dtype if dtype.isnative else dtype.newbyteorder("=")  # as what is computed of it


class Carry:
    """Checks that the value a loop carries keeps its structure, shapes and dtypes."""

    __slots__ = ("_fun", "_kinds", "_single", "_structure", "_what")

    def __init__(self, what: str, fun: Callable[..., Any], value: Any) -> None:
        self._what, self._fun = what, fun
        leaves, self._structure = tree.flatten(value)
        self._learn([kind_of(x) for x in leaves])

    def _learn(self, kinds: list[Kind]) -> None:
        self._kinds = kinds
        self._single = kinds[0] if self._structure is tree.LEAF else None

    def check(self, value: Any) -> None:
        """Raise unless `value` is like the ones before.

        Raises:
            TypeError: the structure, a shape or a dtype differs.
        """
        single = self._single
        if single is not None and value.__class__ is Tensor:
            v = value._value
            if v.shape == single[0] and v.dtype is single[1]:
                return
        elif self._structure is not tree.LEAF and self._is_same(value):
            return
        leaves, structure = tree.flatten(value)
        if structure != self._structure:
            raise TypeError(
                f"{self._what}: {name_of(self._fun)} must return a carry like the one it gets, but it got "
                f"the structure {self._structure} and returned {structure}"
            )
        kinds = [kind_of(x) for x in leaves]
        if kinds != self._kinds:
            for i, (new, old) in enumerate(zip(kinds, self._kinds, strict=True)):
                self._compare(i, new, old)
            self._learn([old if new is None else new for new, old in zip(kinds, self._kinds, strict=True)])

    def _is_same(self, value: Any) -> bool:
        """Return whether a tree is like the one before, or False where that takes a closer look."""
        try:
            for x, (shape, dtype) in zip(self._structure.flatten_up_to(value), self._kinds):  # type: ignore[misc]  # noqa: B905 -- as many
                v = x._value if x.__class__ is Tensor else x
                if v.dtype is not dtype or v.shape != shape:
                    return False
        except (ValueError, TypeError, AttributeError):  # another structure, or numbers
            return False
        return True

    def _compare(self, i: int, new: Kind, old: Kind) -> None:
        if new is not None and new != (old or ((), new[1])):
            raise TypeError(
                f"{self._what}: {name_of(self._fun)} must return a carry like the one it gets, but leaf {i} "
                f"has type {_shown(old)} on entry and {_shown(new)} on return. "
                "Convert it in the function, or start from a value of that type"
            )


def _shown(kind: Kind) -> str:
    return "number" if kind is None else str(Aval(*kind))


def pair(out: Any, f: Callable[..., Any]) -> Any:
    """Return what a step of `scan` returned, if it is a carry and a result.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(out, tuple | list) or len(out) != 2:
        raise TypeError(f"scan: {name_of(f)} must return a pair (carry, y), not {type(out).__name__}")
    return out


def stack(xs: Sequence[Any]) -> Any:
    """Return arrays, numbers or Tensors of one shape, stacked along a new first axis; numbers are weak."""
    fixed = [x.dtype for x in xs if hasattr(x, "dtype")]
    if len(fixed) < len(xs):
        dtype = np.result_type(*fixed, *(x for x in xs if isinstance(x, NUMBERS)))
        xs = [with_dtype(x, dtype) for x in xs]
    if any(x.__class__ is Tensor for x in xs):
        return functions.stack(*xs)
    return np.stack(xs) if np.shape(xs[0]) or xs[0].__class__ is DeviceArray else np.array(xs)


def as_tensors(leaves: Sequence[Any]) -> list[Tensor]:
    """Return every leaf as a Tensor."""
    return [x if x.__class__ is Tensor else wrap(as_array(x)) for x in leaves]
