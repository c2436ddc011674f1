"""Snapshots: copies of the user's arrays, which may change while a gradient still needs their values."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import numpy as np

from fgrad import config
from fgrad.backend.array import DeviceArray

_ARITHMETIC = (
    *("__array_ufunc__", "__array_function__", "__abs__", "__neg__"),
    *(
        f"__{side}{name}__"
        for name in ("add", "sub", "mul", "truediv", "pow", "matmul")
        for side in ("", "r", "i")
    ),
)


def refuse_subclass(a: Any) -> None:
    """Refuse an array whose class computes in its own way, which Tensors would not do.

    Others are read as the arrays that they are: `numpy.memmap`, and what only has more attributes.
    """
    kind = a.__class__
    if kind is not np.ndarray and isinstance(a, np.ndarray) and _has_own_arithmetic(kind):
        if isinstance(a, np.ma.MaskedArray):
            raise TypeError(
                "a masked array cannot stand beside Tensors: its mask has no derivative. "
                "Use the filled array and the mask: where(a.mask, other, a.filled(0))"
            )
        raise TypeError(
            f"an array of {kind.__module__}.{kind.__qualname__} has arithmetic of its own, which Tensors do "
            "not have. Pass what is to be computed with: numpy.asarray(a)"
        )


@lru_cache(config.cache_entries())
def _has_own_arithmetic(kind: type) -> bool:
    return any(getattr(kind, name) is not getattr(np.ndarray, name) for name in _ARITHMETIC)


def refuse_objects(dtype: np.dtype[Any]) -> None:
    """Refuse a result of a differentiated value that is no number, which derivatives cannot follow."""
    if dtype.kind not in "fciub":
        raise TypeError(
            f"a Tensor that is being differentiated cannot become {dtype}, nor stand beside such an array: "
            "its gradient would be lost. Convert the array to numbers first (x.astype(float)), or take the "
            "plain values of the Tensor (t.numpy())"
        )


def snapshot(a: Any, dtype: np.dtype[Any]) -> Any:
    """Return an operand that the user cannot change behind the tape's back; Python numbers are weak."""
    if isinstance(a, np.ndarray):
        flags = a.flags
        if flags.writeable and flags.c_contiguous:
            return private_copy(a)
        return a if is_private(a) else compact(a)
    if isinstance(a, np.generic | DeviceArray):  # nobody writes to these
        return a
    if isinstance(a, list | tuple):
        return np.array(a)
    # a real number beside complex ones stays real: not every function of it takes complex numbers
    return np.array(a, dtype.char.lower() if dtype.kind == "c" and a.__class__ is not complex else dtype)[()]


class _Bytes(np.ndarray[Any, np.dtype[np.uint8]]):
    """Memory of an array: views of views refer to that array, as NumPy stops at a base of another class."""


class _Block:
    """Memory for one array at a time.

    Attributes:
        memory: the bytes.
        used: returns the array in it, to which all views refer, None as soon as there is none.
    """

    __slots__ = ("memory", "size", "used")

    def __init__(self, size: int) -> None:
        self.size = size
        self.memory = memoryview(cast("Any", _Bytes(size, np.uint8)))
        self.used: Callable[[], Any] = lambda: None


class _Pool(threading.local):
    """Memory for large snapshots: fresh pages cost many times the copy itself."""

    def __init__(self) -> None:
        self.blocks: deque[_Block] = deque()

    def copy(self, a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return a copy of `a`, in memory that nobody uses any more if there is some."""
        blocks, size = self.blocks, a.nbytes
        for _ in range(len(blocks)):
            block = blocks.pop()  # a handler of signals that interrupts this finds the others
            if block.size == size and block.used() is None:
                break
            blocks.appendleft(block)
        else:
            block = _Block(size)
            if len(blocks) == _POOL_LENGTH:
                blocks.popleft()
        out: np.ndarray[Any, Any] = np.ndarray(a.shape, a.dtype, block.memory)
        block.used = weakref.ref(out)
        blocks.append(block)
        out[...] = a
        return out


_POOLED_FROM, _POOLED_TO, _POOL_LENGTH = 2**16, 2**23, 8  # bytes, bytes, blocks per thread
_pool = _Pool()


def is_private(a: np.ndarray[Any, Any]) -> bool:
    """Return whether nobody can write to the memory of `a`: a snapshot, or read-only and its own owner."""
    if a.flags.writeable:
        return False
    base: Any = a.base
    while base.__class__ is np.ndarray:
        base = base.base
    return a.base is None or base.__class__ is _Bytes


def private_copy(a: np.ndarray[Any, Any], *, gaps: bool = True) -> np.ndarray[Any, Any]:
    """Return a read-only copy of an array, for keeping while a gradient is computed.

    It lies in memory as the array does, as far as that decides which of its shapes are views of it;
    without `gaps` it has none between its elements, which is enough where nobody takes views.
    """
    if not a.flags.c_contiguous:
        if a.size and 0 in a.strides:  # no memory for repetitions
            held = a[(*[0 if s == 0 else slice(None) for s in a.strides], ...)]
            repeated = [None if s == 0 else slice(None) for s in a.strides]
            return np.broadcast_to(private_copy(held, gaps=gaps)[tuple(repeated)], a.shape)
        order = _axes_in_memory(a)
        in_order = a.transpose(order)
        if in_order.flags.c_contiguous:
            return private_copy(in_order).transpose(np.argsort(order))
        copied = _copied(a, order) if gaps else a.copy("K")
    else:
        copied = _pool.copy(a) if _POOLED_FROM <= a.nbytes <= _POOLED_TO else a.copy()
    # `write=False` takes twice as long, an assignment to a.flags four times
    copied.setflags(False)  # type: ignore[call-arg]
    return copied


def _axes_in_memory(a: np.ndarray[Any, Any]) -> list[int]:
    return sorted(range(a.ndim), key=lambda i: -abs(a.strides[i]))


def copy_as_it_lies(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy with the axes of `a` in their order and direction in memory, and gaps where there are."""
    return a.copy() if a.flags.c_contiguous else _copied(a, _axes_in_memory(a))


def _copied(a: np.ndarray[Any, Any], order: list[int]) -> np.ndarray[Any, Any]:
    strides = [abs(a.strides[i]) for i in order] + [a.itemsize]
    lengths = [a.shape[i] for i in order] + [1]
    for i in range(1, len(lengths)):
        if strides[i - 1] != lengths[i] * strides[i]:
            overlap = strides[i - 1] < lengths[i] * strides[i] and a.shape[order[i - 1]] > 1
            if overlap and not any(s % a.itemsize for s in a.strides):
                return _overlapping(a)
            lengths[i] += 1
    copied = np.empty(lengths, a.dtype)[tuple([slice(a.shape[i]) for i in order] + [0])]
    copied = copied.transpose(np.argsort(order))[
        tuple([slice(None, None, -1 if s < 0 else 1) for s in a.strides])
    ]
    copied[...] = a
    return copied


def _overlapping(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy of the memory of `a`, and of how its elements overlap there."""
    turned = tuple([slice(None, None, -1 if s < 0 else 1) for s in a.strides])
    first = a[turned]
    length = sum((n - 1) * s for n, s in zip(first.shape, first.strides, strict=True)) // a.itemsize + 1
    memory = np.lib.stride_tricks.as_strided(first, (length,), (a.itemsize,)).copy()
    copied: np.ndarray[Any, Any] = np.ndarray(a.shape, a.dtype, memory, strides=first.strides)
    return copied[turned]


def compact(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a read-only copy that repeats elements where `a` does, without memory for the repetitions."""
    return private_copy(a, gaps=False)
