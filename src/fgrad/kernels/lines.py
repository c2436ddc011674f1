"""Kernels of CUDA for what is done one place after the other: a thread goes along a line or through a matrix.

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

# Row r of `w` holds the columns r - low ... r + low + high: an exchange of rows reaches so far to the right.
_FACTOR = """
def kernel(ab, w, pivots, count, n, low, high):
    width = 2 * low + high + 1
    i = cuda.grid(1)
    while i < count:
        at = i * n * width + low
        for r in range(n):
            for c in range(-low, low + high + 1):
                if c <= high and 0 <= r + c and r + c < n:
                    w[at + r * width + c] = ab[(i * (low + high + 1) + high - c) * n + r + c]
                else:
                    w[at + r * width + c] = 0
        for j in range(n):
            best = j
            value = w[at + j * width]
            size = {size}
            last = min(j + low + high, n - 1) + 1
            for r in range(j + 1, min(j + low, n - 1) + 1):
                value = w[at + r * width + j - r]
                if {size} > size:
                    best = r
                    size = {size}
            pivots[i * n + j] = best
            if best != j:
                for c in range(j, last):
                    held = w[at + j * width + c - j]
                    w[at + j * width + c - j] = w[at + best * width + c - best]
                    w[at + best * width + c - best] = held
            if size > 0:
                for r in range(j + 1, min(j + low, n - 1) + 1):
                    f = w[at + r * width + j - r] / w[at + j * width]
                    w[at + r * width + j - r] = f
                    for c in range(j + 1, last):
                        k = at + r * width + c - r
                        w[k] = w[k] - f * w[at + j * width + c - j]
        i += cuda.gridsize(1)
"""

_SOLVE = """
def kernel(w, pivots, x, count, n, columns, low, high):
    width = 2 * low + high + 1
    i = cuda.grid(1)
    while i < count:
        matrix = i // columns
        at = matrix * n * width + low
        b = matrix * n * columns + i % columns
        for j in range(n):
            p = b + pivots[matrix * n + j] * columns
            held = x[p]
            x[p] = x[b + j * columns]
            x[b + j * columns] = held
            for r in range(j + 1, min(j + low, n - 1) + 1):
                k = b + r * columns
                x[k] = x[k] - w[at + r * width + j - r] * held
        for back in range(n):
            j = n - 1 - back
            total = x[b + j * columns]
            for c in range(j + 1, min(j + low + high, n - 1) + 1):
                total = total - w[at + j * width + c - j] * x[b + c * columns]
            x[b + j * columns] = total / w[at + j * width]
        i += cuda.gridsize(1)
"""
_SIZE = {"f": "abs(value)", "c": "(abs(value.real) + abs(value.imag))"}  # as LAPACK compares


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


def banded(ab: DeviceArray, b: DeviceArray, low: int, high: int) -> tuple[DeviceArray, DeviceArray]:
    """Return the solutions of banded systems, and the pivots: they are singular where one is zero.

    Elimination with exchanges of rows, the largest element of a column first, as LAPACK's gbsv.

    Args:
        ab: bands, of shape (..., low + high + 1, n), as scipy.linalg.solve_banded takes them.
        b: right-hand sides, of shape (..., n, k) and the same dtype.
        low: how many bands there are below the diagonal.
        high: how many above.
    """
    *lead, n, k = b.shape
    count, make = math.prod(lead), ab.place
    w, pivots = make.empty((*lead, n, 2 * low + high + 1), ab.dtype), make.empty((*lead, n), np.int32)
    x = DeviceArray(make.row_major(b.copy()), make)
    _launch(_FACTOR.format(size=_SIZE[ab.dtype.kind]), [ab, w, pivots], count, n, low, high)
    _launch(_SOLVE, [w, pivots, x], count * k, n, k, low, high)
    return x, w[..., low]
