"""What the text of a kernel may name: typed pointers to buffers, helpers, and their equivalents in Python.

| name | in machine code | interpreted |
|---|---|---|
| `np`, `math` | as Numba has them | NumPy's |
| `helper` | decorates functions that the kernel calls, and that raise nothing | likewise |
| `float64_at(slots, args, 3)` | a pointer to the buffer whose number is `args[3]` | a flat array over it |
| `unrolled(n)` in a `for` | `range`, of which LLVM writes out all turns, or eight at a time | `range` |
| `alone(pointer)` | the same, with the promise that no other pointer leads there | the same |
| `integer_at(slots, args, 3, kind)` | the integer of type `INTEGERS[kind]` that is in a buffer | likewise |
| `move(slots, k, bytes)` | adds to the address of buffer k | likewise |
| `assign(slots, k, j)`, `swap(slots, k, j)` | slot k becomes what j is; the two change places | likewise |
| `copy(slots, k, j, bytes)`, `zero(slots, k, bytes)` | of the buffers in slots | likewise |
| `push(slots, k, j, bytes, grow)` | slot k becomes the new end of stack j; 0 if C's `grow` fails | likewise |
| `follow(slots, k, j)` | slot k becomes the memory of stack j (see `stacks`) | likewise |
| `part(pointer, start)` | the pointer to what begins there | a view |
| `clipped(number, count)` | the nearest number in `range(count)` | likewise |
| `call(address, slots, args, lo, hi)` | another kernel | likewise |
| `int64_from(address)`, `address(pointer)` | a pointer, its address | missing |
| `invoke(address, a, b, ...)` | a C function that returns an integer, or nothing | missing |

There is `<dtype>_at` for each of `DTYPES`, and `libm_sin`, `libm_cos`, `libm_tan` are those of `vector.libm`.
Elements of a pointer are `x[i]`, where `i` is best unsigned. A kernel with more than about sixteen pointers
becomes vector code only if they are `alone`, and a smaller one compiles faster; what is both read and
written must then be one pointer. The left column is `instructions`; this module is the right one.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from fgrad.kernels import mathlib, stacks

DTYPES = {
    # dtype      as Numba sees it
    "bool": "uint8",  # 0 or 1; `x[i] != 0` is a condition, and conditions may be stored
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
    "uint16": "uint16",
    "uint32": "uint32",
    "uint64": "uint64",
    "float16": "uint16",  # the bits: there is no arithmetic
    "float32": "float32",
    "float64": "float64",
    "complex64": "complex64",
    "complex128": "complex128",
}

LEAST = 4096  # bytes of a stack that has any
INTEGERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

# those that Python runs, by what stands for their addresses, as long as somebody has them
kernels: WeakValueDictionary[int, Callable[..., None]] = WeakValueDictionary()


class Slots:
    """The buffers of kernels that Python runs: flat arrays, and how far into each its slot has moved."""

    def __init__(self, arrays: Iterable[np.ndarray[Any, Any] | None]) -> None:
        self._bytes = [None if a is None else _as_bytes(a) for a in arrays]
        self._moved = [0] * len(self._bytes)

    def __getitem__(self, k: int) -> np.ndarray[Any, Any]:
        data = self._bytes[k]
        if data is None:
            raise IndexError(f"slot {k} has no buffer")
        return data[self._moved[k] :]

    def __setitem__(self, k: int, array: np.ndarray[Any, Any]) -> None:
        self._bytes[k], self._moved[k] = _as_bytes(array), 0

    def move(self, k: int, count: int) -> None:
        """Let slot k start `count` bytes further on."""
        self._moved[k] += int(count)

    def assign(self, target: int, source: int) -> None:
        """Let slot `target` be what slot `source` is."""
        self._bytes[target], self._moved[target] = self._bytes[source], self._moved[source]

    def swap(self, a: int, b: int) -> None:
        """Let two slots change places."""
        self._bytes[a], self._bytes[b] = self._bytes[b], self._bytes[a]
        self._moved[a], self._moved[b] = self._moved[b], self._moved[a]


@cache
def interpreted_names() -> dict[str, Any]:
    """Return the names for kernels that Python runs."""

    def move(slots: Slots, k: int, count: int) -> None:
        slots.move(k, count)

    def assign(slots: Slots, target: int, source: int) -> None:
        slots.assign(target, source)

    def swap(slots: Slots, a: int, b: int) -> None:
        slots.swap(a, b)

    def copy(slots: Slots, target: int, source: int, count: int) -> None:
        slots[target][:count] = slots[source][:count]

    def zero(slots: Slots, target: int, count: int) -> None:
        slots[target][:count] = 0

    def push(slots: Slots, target: int, stack: int, count: int, grow: int) -> int:
        words = slots[stack][: 8 * stacks.WORDS].view(np.int64)
        used, address, there = map(int, words)
        if used + count > there:
            there = max(used + int(count), 2 * there, LEAST)
            resize = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(int(grow))
            address = resize(address, there) or 0
            if not address:
                return 0
            words[1:] = address, there
        words[0] += count
        slots[target] = stacks.memory(address, there)[used:]
        return 1

    def follow(slots: Slots, target: int, stack: int) -> None:
        used, address, _ = map(int, slots[stack][: 8 * stacks.WORDS].view(np.int64))
        slots[target] = stacks.memory(address, used)

    def part(pointer: np.ndarray[Any, Any], start: int) -> np.ndarray[Any, Any]:
        return pointer[start:]

    def clipped(number: int, count: int) -> int:
        return max(0, min(number, int(count) - 1))

    def call(address: int, slots: Any, args: Sequence[int], lo: int, hi: int) -> None:
        kernels[int(address)](slots, args, lo, hi)

    def integer_at(slots: Any, args: Sequence[int], k: int, kind: int) -> int:
        return int(readers[INTEGERS[kind]](slots, args, k)[0])

    readers = {name: _reader(np.dtype(name)) for name in DTYPES}
    names: dict[str, Any] = {"np": np, "math": mathlib.interpreted, "unrolled": range}
    names |= {"helper": _same, "alone": _same}
    names |= {f.__name__: f for f in (part, clipped, integer_at, move, assign, swap, copy, zero, call)}
    names |= {"push": push, "follow": follow, "add_any": operator.add, "multiply_any": operator.mul}
    names |= {"larger": np.maximum, "smaller": np.minimum}
    names |= {f"libm_{name}": getattr(mathlib.interpreted, name) for name in ("sin", "cos", "tan")}
    return names | {f"{name}_at": reader for name, reader in readers.items()}


def _same(value: Any) -> Any:
    return value


def _as_bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.reshape(-1).view(np.uint8)


def _reader(dtype: np.dtype[Any]) -> Callable[..., np.ndarray[Any, Any]]:
    dtype = np.dtype(np.uint16) if dtype == np.float16 else dtype

    def read(slots: Any, args: Sequence[int], k: int) -> np.ndarray[Any, Any]:
        data = slots[args[k]].view(np.uint8)
        return data[: data.size // dtype.itemsize * dtype.itemsize].view(dtype)  # type: ignore[no-any-return]

    return read
