"""Kernels of CUDA as functions of buffers and numbers: compiled once a text, launched on the current stream.

A kernel takes pointers and whole numbers and nothing else, which is the shortest way to launch one; in the
simulator flat arrays stand for pointers, which the text cannot tell from them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from threading import RLock
from typing import Any

import numpy as np

from fgrad.kernels import mathlib, source
from fgrad.kernels.cuda import device

_simulation = RLock()  # the simulator runs one kernel at a time
POINTERS = {"bool": "uint8"}  # dtypes as kernels see them, where that is another one


@cache
def compiled(text: str, buffers: tuple[str, ...], numbers: int) -> Callable[..., None]:
    """Return `launch(arrays, numbers, blocks, threads)` of the function `kernel` in a text.

    Args:
        text: of a module that names `np`, `math`, `cuda` and `helper`.
        buffers: the names of the dtypes of its first arguments, which are pointers.
        numbers: how many int64 arguments follow.
    """
    cuda, simulated, *_ = device()
    names: dict[str, Any] = {"cuda": cuda, "np": np}
    if simulated:
        names |= {"math": mathlib.interpreted, "helper": lambda f: f}
        return _simulated(cuda.jit(source.execute(text, **names).kernel))
    names |= {"math": math, "helper": cuda.jit(device=True), "libdevice": cuda.libdevice}
    made = cuda.jit(signature(buffers, numbers))(source.execute(text, **names).kernel)
    return _launched(cuda, made)


def signature(buffers: Sequence[str], numbers: int) -> Any:
    """Return the types of a kernel, as Numba has them."""
    from numba import types  # noqa: PLC0415 -- late: few programs use CUDA

    pointers = [types.CPointer(getattr(types, POINTERS.get(b, b))) for b in buffers]
    return types.void(*pointers, *[types.int64] * numbers)


def _simulated(kernel: Any) -> Callable[..., None]:
    def launch(arrays: Sequence[Any], numbers: Sequence[int], blocks: int, threads: int) -> None:
        flat = [a.reshape(-1).view(POINTERS.get(a.dtype.name, a.dtype.name)) for a in arrays]
        with _simulation, warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # interpreted arithmetic warns, a GPU does not
            kernel[blocks, threads](*flat, *map(np.int64, numbers))

    return launch


def _launched(cuda: Any, kernel: Any) -> Callable[..., None]:
    import cupy  # noqa: PLC0415 -- late: its current device and stream are those to launch on

    def launch(arrays: Sequence[Any], numbers: Sequence[int], blocks: int, threads: int) -> None:
        with cuda.gpus[cupy.cuda.runtime.getDevice()]:
            address = cupy.cuda.get_current_stream().ptr
            stream = cuda.external_stream(address) if address else 0
            kernel[blocks, threads, stream](*(a.data.ptr for a in arrays), *numbers)

    return launch
