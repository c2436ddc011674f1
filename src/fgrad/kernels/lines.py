"""Kernels of CUDA for what is done one place after the other: a thread goes along a line.

They are for arrays on a device that no library has a function for; many lines are computed at a time.
"""

from __future__ import annotations

import math

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.kernels.launching import compiled, device

_ORDER = """
def kernel(pivots, order, count, k, m):
    i = cuda.grid(1)
    while i < count:
        for j in range(m):
            order[i * m + j] = j
        for j in range(k):
            a = i * m + j
            b = i * m + pivots[i * k + j]
            held = order[a]
            order[a] = order[b]
            order[b] = held
        i += cuda.gridsize(1)
"""

_RECURSION = """
def kernel(a, u, y, count, n, k):
    i = cuda.grid(1)
    while i < count:
        for t in range(n):
            total = u[i * n + t]
            for j in range(min(k, t)):
                total = total - a[j] * y[i * n + t - 1 - j]
            y[i * n + t] = total
        i += cuda.gridsize(1)
"""


def _launch(text: str, arrays: list[DeviceArray], count: int, *numbers: int) -> None:
    place, chip = arrays[0].place, device()
    kernel = compiled(text, tuple(x.dtype.name for x in arrays), 1 + len(numbers))
    blocks = min(-(-count // chip.threads), chip.blocks)
    buffers = [place.row_major(x) for x in arrays]
    place.call(kernel, buffers, [count, *numbers], blocks, chip.threads)


def order_of(pivots: DeviceArray, m: int) -> DeviceArray:
    """Return the order of `m` rows to which exchanges lead: the j-th exchanges row j and row pivots[..., j].

    Args:
        pivots: int32, of shape (..., k).
        m: how many rows there are, at least k.

    Returns:
        int32, of shape (..., m).
    """
    *lead, k = pivots.shape
    order = pivots.place.empty((*lead, m), np.int32)
    if order.size:
        _launch(_ORDER, [pivots, order], math.prod(lead), k, m)
    return order


def recursion(a: DeviceArray, u: DeviceArray) -> DeviceArray:
    """Return y with y_n = u_n - a_1 y_(n-1) - ... - a_k y_(n-k) along the last axis; of one dtype."""
    y = u.place.empty(u.shape, u.dtype)
    if y.size:
        _launch(_RECURSION, [a, u, y], y.size // y.shape[-1], y.shape[-1], a.size)
    return y
