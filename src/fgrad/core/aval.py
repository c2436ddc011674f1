"""Abstract values: the shape and dtype of a value that is not computed."""

from __future__ import annotations

import math
from collections.abc import Container
from typing import Any

import numpy as np

Shape = tuple[int, ...]


_new = object.__new__


class Aval:
    """The shape and dtype of a value that may not exist (an abstract value)."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        self.shape: Shape = shape
        self.dtype: np.dtype[Any] = dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Aval) and (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"Aval(shape={self.shape}, dtype={self.dtype.name})"

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"


def aval_of(x: Any) -> Aval:
    """Return the aval of anything that has a shape and dtype, or that NumPy can make an array of."""
    if not hasattr(x, "dtype"):
        x = np.asarray(x)
    aval = _new(Aval)
    aval.shape, aval.dtype = x.shape, x.dtype
    return aval


def with_dtype(x: Any, dtype: Any = None) -> Any:
    """Return anything that has a dtype as it is, and what has none as an array of NumPy, of `dtype`."""
    return x if hasattr(x, "dtype") else np.asarray(x, dtype)


def with_ones(shape: Shape, axes: Container[int]) -> Shape:
    """Return the shape of a reduction over `axes` that keeps them, with length one."""
    return tuple([1 if i in axes else n for i, n in enumerate(shape)])


def broadcasts(small: Shape, shape: Shape) -> bool:
    """Return whether an array of one shape can be broadcast to another."""
    return len(small) <= len(shape) and all(
        n in (1, m) for n, m in zip(reversed(small), reversed(shape), strict=False)
    )


def assignable(given: Shape, place: Shape) -> bool:
    """Return whether NumPy writes a value of one shape to a place of another: leading ones are dropped."""
    lead = max(0, len(given) - len(place))
    return all(n == 1 for n in given[:lead]) and broadcasts(given[lead:], place)
