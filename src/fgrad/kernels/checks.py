"""The mode in which kernels check every load and store: `FGRAD_CHECK=1`, for tests and debugging.

A kernel that meets a place outside of its buffer leaves at once and notes the kernel, the operand, the index
and how many elements there are, which Python raises when it has returned. Slots then have three words: the
address, and where its memory begins and ends, which stay when a slot moves. What kernels do not write
themselves, BLAS does: there is a pattern before and behind scratch memory, which is looked at after each run.

The mode is that of a process; machine code of both lies in the cache, under keys of its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np

from fgrad import config, locks
from fgrad.compat.numpy import address

ON = config.checked()
WORDS = 3 if ON else 1  # of a slot
SYMBOL = "fgrad_outside"  # what a kernel calls: with a text, an index, and how many elements there are
CANARY, MARGIN = 0xA5, 256  # the byte of the pattern, and how many bytes of it there are

_found: list[str] = []


@locks.once
def noting() -> Any:
    """Return the function behind `SYMBOL`."""

    def note(where: bytes, index: int, size: int) -> None:
        _found.append(f"{where.decode()}: {index} is outside of {size}")

    return ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)(note)


def look() -> None:
    """Raise what kernels noted since the last time.

    Raises:
        RuntimeError: one of them has met a place outside of its buffer.
    """
    if _found:
        first, count = _found[0], len(_found)
        _found.clear()
        more = f" (and {count - 1} more)" if count > 1 else ""
        raise RuntimeError(f"a kernel reads or writes outside of its memory: {first}{more}")


def addresses(arrays: Iterable[np.ndarray[Any, Any] | None]) -> np.ndarray[Any, Any]:
    """Return the words of slots that hold arrays, which stay alive elsewhere."""
    arrays = list(arrays)
    slots = np.zeros(WORDS * len(arrays), np.int64)
    for k, a in enumerate(arrays):
        if a is not None:
            hold(slots, k, a)
    return slots


def hold(slots: np.ndarray[Any, Any], k: int, a: np.ndarray[Any, Any]) -> None:
    """Let a slot hold an array."""
    start = address(a)
    slots[WORDS * k] = start
    if ON:
        slots[WORDS * k + 1 : WORDS * k + 3] = start, start + a.nbytes


class Scratch:
    """Scratch memory at a multiple of `align`, between two patterns where there are checks."""

    __slots__ = ("_whole", "memory")

    def __init__(self, size: int, align: int) -> None:
        margin = MARGIN if ON else 0
        self._whole = np.empty(size + align + 2 * margin, np.uint8)
        start = margin + -(address(self._whole) + margin) % align
        self.memory: np.ndarray[Any, Any] = self._whole[start : start + size]
        if ON:
            self._whole[:start] = self._whole[start + size :] = CANARY

    def look(self) -> None:
        """Raise if the patterns have changed.

        Raises:
            RuntimeError: something was written outside of the memory.
        """
        if ON:
            start = address(self.memory) - address(self._whole)
            outside = self._whole[:start], self._whole[start + self.memory.size :]
            for side, part in zip(("before", "behind"), outside, strict=True):
                if (part != CANARY).any():
                    part[...] = CANARY
                    raise RuntimeError(f"something was written {side} the scratch memory of a program")
