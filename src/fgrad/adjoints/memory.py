"""What derivatives do with memory as a whole: as Python does it, and in forms that compile at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.compat import numba as machine


def grown(stack: Any, size: int) -> Any:
    """Return a stack with the same elements and place for `size`, at least twice as many."""
    made = np.empty(max(2 * stack.size, size), stack.dtype)
    for k in range(stack.size):  # Numba takes seconds to compile the slice
        made[k] = stack[k]
    return made


def duplicate(x: Any) -> Any:
    """Return a copy of an array."""
    return x.copy()


def clear(x: Any) -> None:
    """Fill an array with zeros."""
    for k in range(x.size):
        x.flat[k] = 0


def copy_into(to: Any, source: Any) -> None:
    """Give an array the elements of another one."""
    for k in range(to.size):
        to.flat[k] = source.flat[k]


def copy_part(to: Any, start: int, source: Any, first: int, count: int) -> None:
    """Copy elements of one array to another one, in the order of memory."""
    for k in range(count):
        to.flat[start + k] = source.flat[first + k]


PLAIN = {f.__name__: f for f in (grown, duplicate, clear, copy_into, copy_part)}


def quick() -> dict[str, Any]:
    """Return these functions for compiled functions."""
    return {name: getattr(machine, name)(f) for name, f in PLAIN.items()}
