"""Keys of constants and parameters: what equal ones, and only they, have in common."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LARGE = 1 << 12  # bytes of an array that a key does not hold


class Keys:
    """Keys that can be hashed; -0.0 is not 0.0, nor 1 True, and what is unknown is equal to itself only.

    Args:
        limit: bytes; larger arrays are equal to themselves only. None: arrays of any size are compared.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._known: dict[int, tuple[Array, Any]] = {}
        self._large: dict[Any, list[Array]] = {}

    def of(self, x: Any) -> Any:
        """Return the key of a constant or parameter."""
        kind = x.__class__
        if kind is int or kind is bool or kind is str or x is None:
            return kind, x
        if kind is float or kind is complex:
            return kind, repr(x)
        if isinstance(x, np.ndarray):
            known = self._known.get(id(x))
            if known is None:
                known = self._known[id(x)] = (x, self._content(x))
            return known[1]
        if isinstance(x, np.generic):
            return self._content(np.asarray(x))
        if isinstance(x, dict):
            return kind, tuple([(k, self.of(v)) for k, v in x.items()])
        if isinstance(x, tuple | list):
            return kind, tuple(map(self.of, x))
        if kind is slice:
            return kind, self.of(x.start), self.of(x.stop), self.of(x.step)
        if isinstance(x, np.dtype | type):
            return kind, x
        return _Itself(x)

    def _content(self, x: Array) -> Any:
        part = without_repetitions(x)
        if x.dtype.hasobject or (self._limit is not None and part.nbytes > self._limit):
            return _Itself(x)
        if part.nbytes <= LARGE:
            return x.dtype, x.shape, part.shape, part.tobytes()
        bits = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
        key = x.dtype, x.shape, part.shape, zlib.crc32(bits.data)
        equal = self._large.setdefault(key, [])
        place = next((i for i, y in enumerate(equal) if np.array_equal(y, bits)), len(equal))
        if place == len(equal):
            equal.append(bits)
        return (*key, place)


def without_repetitions(x: Array) -> Array:
    """Return an array without the repetitions along its axes, which take no memory."""
    return x[tuple([slice(0, 1) if s == 0 else slice(None) for s in x.strides])] if x.size else x


class _Itself:
    """A value that is equal to nothing but itself; it lives as long as its key."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        return f"itself at {id(self.value)}"
