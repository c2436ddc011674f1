"""CUDA kernels for recurrences along an axis: a thread for each line, or for each chunk of one.

They are for arrays on a device that no library has a function for; many lines are computed at a time.
"""

from __future__ import annotations

import math

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.kernels.launching import compiled, device

_ORDER = """
CONTRACT = "len(pivots) == count * k, len(order) == count * m, 0 <= k <= m"


def kernel(pivots, order, count, k, m):
    i = cuda.grid(1)
    while i < count:
        for j in range(m):
            order[i * m + j] = j
        for j in range(k):
            a = i * m + j
            b = i * m + min(max(pivots[i * k + j], 0), m - 1)  # which are data
            held = order[a]
            order[a] = order[b]
            order[b] = held
        i += cuda.gridsize(1)
"""

_ADVANCE = """
@helper
def advance(a, u, y, row, start, stop, k, first):
    for t in range(start, stop):
        total = u[row + t]
        for j in range(min(k, t - first)):
            total = total - a[j] * y[row + t - 1 - j]
        y[row + t] = total
"""

_RECURSION = """

CONTRACT = "len(a) == k, len(u) == count * n, len(y) == len(u)"


def kernel(a, u, y, count, n, k):
    i = np.int64(cuda.grid(1))
    while i < count:
        advance(a, u, y, i * n, 0, n, k, 0)
        i += cuda.gridsize(1)
"""

# A chunk of a line begins with zeros in the place of what is before it. What that adds to the last k elements
# of the chunk goes from chunk to chunk, by the response `g` to a single 1; all others are computed again.
_CHUNKS = """

@helper
def respond(a, g, at, length, k):
    g[at] = 1
    for t in range(1, length):
        total = -a[0] * g[at + t - 1]
        for j in range(1, min(k, t)):
            total = total - a[j] * g[at + t - 1 - j]
        g[at + t] = total


@helper
def carry(a, y, g, at, start, length, k):
    for m in range(k):
        before = a[m] * y[start - 1]
        for j in range(m + 1, k):
            before = before + a[j] * y[start + m - 1 - j]
        if before != 0:
            for i in range(k):
                last = start + length - 1 - i
                y[last] = y[last] - g[at + length - 1 - i - m] * before


CONTRACT = "len(a) == k > 0, len(u) == count * n, len(y) == len(u), len(g) == count * length, k <= length"


def kernel(a, u, y, g, count, n, k, length):
    lane, responding = np.int64(cuda.threadIdx.x), np.int64(cuda.blockDim.x) - 1
    at = np.int64(cuda.blockIdx.x) * length
    start, stop = min(lane * length, n), min((lane + 1) * length, n)
    if lane == responding:
        respond(a, g, at, length, k)
    i = np.int64(cuda.blockIdx.x)
    while i < count:
        row = i * n
        if lane < responding:
            advance(a, u, y, row, start, stop, k, start)
        cuda.syncthreads()
        if lane == 0:
            for c in range(1, -(-n // length) - 1):
                carry(a, y, g, at, row + c * length, length, k)
        cuda.syncthreads()
        if 0 < lane and lane < responding:
            advance(a, u, y, row, start, stop if stop == n else stop - k, k, 0)
        i += cuda.gridDim.x
"""
LINES = 1024  # as many keep a device busy with a thread for each
SHORT = 8  # elements: lines are not cut into chunks of fewer


def _launch(text: str, arrays: list[DeviceArray], count: int, *numbers: int, blocks: int = 0) -> None:
    place, chip = arrays[0].place, device()
    kernel = compiled(text, tuple(x.dtype.name for x in arrays), 1 + len(numbers))
    blocks = blocks or min(-(-count // chip.threads), chip.blocks)
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
    """Return y with y_n = u_n - a_1 y_(n-1) - ... - a_k y_(n-k) along the last axis; of one dtype.

    Of few long lines each has a block, whose threads have a chunk each.
    """
    y, n, k, chip = u.place.empty(u.shape, u.dtype), u.shape[-1], a.size, device()
    if not y.size:
        return y
    count, chunks = y.size // n, chip.threads - 1
    if count > LINES or n < chunks * max(SHORT, 2 * k):
        _launch(_ADVANCE + _RECURSION, [a, u, y], count, n, k)
    else:
        length = -(-n // chunks)
        g = u.place.empty((count, length), u.dtype)
        _launch(_ADVANCE + _CHUNKS, [a, u, y, g], count, n, k, length, blocks=count)
    return y
