"""Stacks that grow while a program runs: the residuals of a loop whose number of steps is not known.

A stack is three words: how many bytes are in use, the address of its memory, and how many bytes there are.
Programs only ever find more room (`intrinsics.push`), and start anew by writing 0 to the first word; so a
stack stays as large as it has been, for the next call. Its memory is CPython's, which needs no interpreter.
"""

from __future__ import annotations

import ctypes
import weakref
from functools import cache
from typing import Any, Final

import numpy as np

WORDS = 3


class Stack:
    """Stands for a stack among the slots of a program."""


STACK: Final = Stack()


def empty(count: int) -> np.ndarray[Any, Any]:
    """Return the words of stacks without memory, a row for each."""
    return np.zeros((count, WORDS), np.int64)


def free_with(owner: Any, words: np.ndarray[Any, Any]) -> None:
    """Let the memory of stacks be free as soon as `owner` is."""
    if len(words):
        weakref.finalize(owner, _free, words).atexit = False


@cache
def grow() -> int:
    """Return the address of the C function that gives memory another size: of its address and bytes."""
    return ctypes.cast(ctypes.pythonapi.PyMem_RawRealloc, ctypes.c_void_p).value or 0


@cache
def release() -> int:
    """Return the address of the C function that frees memory, given its address."""
    return ctypes.cast(ctypes.pythonapi.PyMem_RawFree, ctypes.c_void_p).value or 0


def memory(address: int, count: int) -> np.ndarray[Any, Any]:
    """Return the bytes at an address as an array."""
    if not count:
        return np.empty(0, np.uint8)
    return np.frombuffer(memoryview((ctypes.c_uint8 * count).from_address(address)), np.uint8)


def _free(words: np.ndarray[Any, Any]) -> None:
    free = ctypes.pythonapi.PyMem_RawFree
    for address in words[:, 1].tolist():
        free(ctypes.c_void_p(address))
