"""The views of NumPy: primitives whose result shares the memory of their argument.

Functions that return a view in NumPy end in one of these. The primitives themselves, called by `bind`, give a
Tensor of its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.core.dispatch import bind
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.tensor import Tensor, alias
from fgrad.core.views import (
    Gathered,
    GatheredReadOnly,
    ReadOnly,
    lies_row_by_row,
    linked,
    linked_by_strides,
    reshaped_view,
    view_of,
)
from fgrad.ops import linear
from fgrad.ops.indices import HOLE

_SLICE, _RESHAPE, _TRANSPOSE = PRIMITIVES["slice"], PRIMITIVES["reshape"], PRIMITIVES["transpose"]
_REAL, _IMAG, _BROADCAST, _GATHER = (
    PRIMITIVES["real"],
    PRIMITIVES["imag"],
    PRIMITIVES["broadcast_to"],
    PRIMITIVES["gather"],
)


def sliced(x: Any, index: tuple[Any, ...]) -> Any:
    """Return `x[index]` for an index of integers, slices, None and Ellipsis."""
    return view_of(x, _SLICE, {"index": index})


def reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    """Return the elements of `x` in `shape`, in C order; a view where no copy is needed for that."""
    return view_of(x, _RESHAPE, {"shape": shape})


def raveled(x: Any) -> Any:
    """Return the elements of `x` along one axis; a view where they lie in order, without gaps."""
    params = {"shape": (math.prod(x.shape),)}
    if x.__class__ is Tensor and lies_row_by_row(x):
        return view_of(x, _RESHAPE, params)
    made = bind("reshape", x, **params)
    if x.__class__ is not Tensor or isinstance(x._value, np.generic):
        return made
    return reshaped_view(x, made, _RESHAPE, params, is_raveled=True)


def in_order(x: Tensor, copy: Tensor) -> Tensor:
    """Return `copy`, which lies in memory row by row, as a view of `x` where that does so too."""
    return reshaped_view(x, copy, _RESHAPE, {"shape": x.shape}, is_raveled=True)


def transposed(x: Any, axes: tuple[int, ...]) -> Any:
    """Return `x` with its axes permuted."""
    return view_of(x, _TRANSPOSE, {"axes": axes})


def part(x: Any, *, imaginary: bool) -> Any:
    """Return the real or imaginary part of complex numbers."""
    return view_of(x, _IMAG if imaginary else _REAL, {})


def repeated(x: Any, shape: tuple[int, ...]) -> Any:
    """Return `x` broadcast to `shape`, read-only."""
    if isinstance(x, np.ndarray | np.generic):
        return np.broadcast_to(x, shape)
    made = linear.broadcast_to(x, shape)
    if x.__class__ is not Tensor:
        return made
    made = alias(made) if made is x else made
    return linked_by_strides(
        GatheredReadOnly, lambda a: np.broadcast_to(a, shape), x, made, _BROADCAST, {"shape": shape}
    )


def diagonal(x: Any, offset: int = 0, *, writable: bool = False) -> Any:
    """Return the diagonal of the last two axes, as a new last axis; NumPy lets only `einsum` write to it."""
    rows, columns = x.shape[-2:]
    i = np.arange(max(0, min(rows + min(offset, 0), columns - max(offset, 0))))
    places = (i + max(-offset, 0), i + max(offset, 0))
    kind = Gathered if writable else GatheredReadOnly
    return _gathered(
        kind,
        lambda a: np.diagonal(a, offset, -2, -1),
        x,
        *places,
        template=(Ellipsis, HOLE, HOLE),
        unique=True,
    )


def windows(x: Any, places: Any, axis: int) -> Any:
    """Return the elements at `places` along an axis, read-only."""

    def strided(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        found = np.lib.stride_tricks.sliding_window_view(a, places.shape[1], axis)
        return np.moveaxis(found, -1, axis + 1)

    template = (*(slice(None),) * axis, HOLE)
    return _gathered(GatheredReadOnly, strided, x, places, template=template, unique=False)


def zeros_beside(x: Any) -> Any:
    """Return the imaginary part of real numbers, read-only."""
    made = linear.imag(x)
    return linked(ReadOnly, x, made, _IMAG, {}) if x.__class__ is Tensor else made


def _gathered(
    kind: type[Gathered], strided: Any, x: Any, *places: Any, template: tuple[Any, ...], unique: bool
) -> Any:
    if x.__class__ is np.ndarray:
        view = strided(x)
        view.setflags(write=x.flags.writeable and not issubclass(kind, ReadOnly))
        return view
    made = bind("gather", x, *places, template=template, unique=unique)
    if x.__class__ is not Tensor:
        return made
    return linked_by_strides(kind, strided, x, made, _GATHER, {"template": template}, *places)
