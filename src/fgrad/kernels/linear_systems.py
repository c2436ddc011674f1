"""CUDA kernels for linear systems: a block for each matrix, whose threads share rows and columns.

They are for matrices on a device that no library has a function for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.kernels.launching import compiled, device

WARP, THREADS = 32, 256  # threads of a block, at least and at most

_SIZES = {"f": "abs(v)", "c": "(abs(v.real) + abs(v.imag))"}  # as LAPACK compares

_SHARED = """
F = np.{real}


@helper
def size(v):
    return {size}


@helper
def exchange(w, i, j):
    held = w[i]
    w[i] = w[j]
    w[j] = held
"""

# Row r of `w` holds the columns r - low ... r + low + high: an exchange of rows reaches so far to the right.
# What is done to rows of `w` is done to those of `x`, which are right-hand sides first, and solutions then.
_BANDED = """
CONTRACT = (
    "low >= 0, high >= 0, len(ab) == count * (low + high + 1) * n, len(x) == count * n * columns,"
    "len(w) == count * n * (2 * low + high + 1)"
)


def kernel(ab, w, x, count, n, columns, low, high):
    width = 2 * low + high + 1
    lane = np.int64(cuda.threadIdx.x)
    matrix = np.int64(cuda.blockIdx.x)
    while matrix < count:
        at, to = matrix * n * width + low, matrix * n * columns
        e = lane
        while e < n * width:
            r, c = e // width, e % width - low
            if c <= high and 0 <= r + c and r + c < n:
                w[at + r * width + c] = ab[(matrix * (low + high + 1) + high - c) * n + r + c]
            else:
                w[at + r * width + c] = 0
            e += cuda.blockDim.x
        cuda.syncthreads()
        for j in range(n):
            first, stop, last = j + 1, min(j + low + 1, n), min(j + low + high + 1, n)
            best, most = j, size(w[at + j * width])
            for r in range(first, stop):
                if size(w[at + r * width + j - r]) > most:
                    best, most = r, size(w[at + r * width + j - r])
            cuda.syncthreads()
            if best != j:
                c = j + lane
                while c < last:
                    exchange(w, at + j * width + c - j, at + best * width + c - best)
                    c += cuda.blockDim.x
                c = lane
                while c < columns:
                    exchange(x, to + j * columns + c, to + best * columns + c)
                    c += cuda.blockDim.x
                cuda.syncthreads()
            if most > 0:
                r = first + lane
                while r < stop:
                    w[at + r * width + j - r] = w[at + r * width + j - r] / w[at + j * width]
                    r += cuda.blockDim.x
                cuda.syncthreads()
                beside = last - first
                e = lane
                while e < (stop - first) * (beside + columns):
                    r, c = first + e // (beside + columns), e % (beside + columns)
                    f = w[at + r * width + j - r]
                    if c < beside:
                        k = at + r * width + first + c - r
                        w[k] = w[k] - f * w[at + j * width + 1 + c]
                    else:
                        k = to + r * columns + c - beside
                        x[k] = x[k] - f * x[to + j * columns + c - beside]
                    e += cuda.blockDim.x
                cuda.syncthreads()
        for back in range(n):
            j = n - 1 - back
            c = lane
            while c < columns:
                x[to + j * columns + c] = x[to + j * columns + c] / w[at + j * width]
                c += cuda.blockDim.x
            cuda.syncthreads()
            first = max(0, j - low - high)
            e = lane
            while e < (j - first) * columns:
                r, c = first + e // columns, e % columns
                k = to + r * columns + c
                x[k] = x[k] - w[at + r * width + j - r] * x[to + j * columns + c]
                e += cuda.blockDim.x
            cuda.syncthreads()
        matrix += cuda.gridDim.x
"""

# Both triangles of `w` are kept, so that an exchange is one of rows and one of columns, and row k is at hand
# where column k has become that of L. For A = U D U^H the matrix comes turned around; of equal elements the
# one that comes first in the matrix itself is chosen there, too: `sign` is -1.
_LDL = """
ALPHA = F(0.6403882032022076)  # (1 + sqrt(17)) / 8
ONE, HALF = F(1), F(0.5)


@helper
def mirrored(v):
    return {mirrored}


@helper
def put(w, at, i, j, n, v):
    w[at + i * n + j] = v if i != j else HALF * (v + mirrored(v))
    if i != j:
        w[at + j * n + i] = mirrored(v)


@helper
def precedes(size, place, other, there, sign):
    return size > other or (size == other and sign * place < sign * there)


@helper
def largest(w, row, first, n, left, sign, sizes, places):
    lane = cuda.threadIdx.x
    best, place = F(0), first
    j = first + lane
    while j < n:
        s = size(w[row + j])
        if j != left and precedes(s, j, best, place, sign):
            best, place = s, j
        j += cuda.blockDim.x
    sizes[lane], places[lane] = best, place
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if lane < half:
            other = lane + half
            if precedes(sizes[other], places[other], sizes[lane], places[lane], sign):
                sizes[lane], places[lane] = sizes[other], places[other]
        cuda.syncthreads()
        half //= 2
    place = places[0]
    cuda.syncthreads()
    return place


@helper
def exchange_both(w, at, i, j, first, n):
    k = np.int64(cuda.threadIdx.x)
    while k < n:
        exchange(w, at + i * n + k, at + j * n + k)
        k += cuda.blockDim.x
    cuda.syncthreads()
    k = first + cuda.threadIdx.x
    while k < n:
        exchange(w, at + k * n + i, at + k * n + j)
        k += cuda.blockDim.x
    cuda.syncthreads()


@helper
def divide(w, at, k, n):
    own = w[at + k * n + k]
    i = k + 1 + cuda.threadIdx.x
    while i < n and size(own) > 0:
        w[at + i * n + k] = w[at + i * n + k] / own
        i += cuda.blockDim.x


@helper
def divide_both(w, at, k, n):
    right, left = w[at + k * n + k + 1], w[at + (k + 1) * n + k]
    p, q = w[at + (k + 1) * n + k + 1] / right, w[at + k * n + k] / left
    t = p * q - ONE
    i = k + 2 + cuda.threadIdx.x
    while i < n:
        x, y = w[at + i * n + k] / left, w[at + i * n + k + 1] / right
        w[at + i * n + k] = (p * x - y) / t
        w[at + i * n + k + 1] = (q * y - x) / t
        i += cuda.blockDim.x


@helper
def subtract(w, at, k, stop, n):
    m = n - stop
    e = np.int64(cuda.threadIdx.x)
    while e < m * m:
        i, j = stop + e // m, stop + e % m
        if i >= j:
            v = w[at + i * n + j]
            for c in range(k, stop):
                v = v - w[at + i * n + c] * w[at + c * n + j]
            put(w, at, i, j, n, v)
        e += cuda.blockDim.x


CONTRACT = "len(a) == len(w) == len(outer) == len(d) == count * n * n, len(order) == count * n"


def kernel(a, w, outer, d, order, count, n, sign):
    sizes = cuda.shared.array({threads}, F)
    places = cuda.shared.array({threads}, np.int64)
    lane = np.int64(cuda.threadIdx.x)
    matrix = np.int64(cuda.blockIdx.x)
    while matrix < count:
        at, row = matrix * n * n, matrix * n
        e = lane
        while e < n * n:
            if e // n >= e % n:
                put(w, at, e // n, e % n, n, a[at + e])
            if e < n:
                order[row + e] = e
            d[at + e] = 0
            e += cuda.blockDim.x
        cuda.syncthreads()
        k = np.int64(0)
        while k < n:
            width, swapped = 1, k
            j = largest(w, at + k * n, k, n, k, sign, sizes, places)
            most, own = size(w[at + k * n + j]), size(w[at + k * n + k])
            if own < ALPHA * most:
                other = largest(w, at + j * n, k, n, j, sign, sizes, places)
                beside = size(w[at + j * n + other])
                if own < ALPHA * most * (most / beside):
                    swapped = j
                    if size(w[at + j * n + j]) < ALPHA * beside:
                        width = 2
            stop = k + width
            cuda.syncthreads()
            if swapped != stop - 1:
                exchange_both(w, at, stop - 1, swapped, k, n)
                if lane == 0:
                    exchange(order, row + stop - 1, row + swapped)
            if lane < width:
                for j in range(k, stop):
                    d[at + (k + lane) * n + j] = w[at + (k + lane) * n + j]
            if width == 1:
                divide(w, at, k, n)
            else:
                divide_both(w, at, k, n)
            cuda.syncthreads()
            subtract(w, at, k, stop, n)
            cuda.syncthreads()
            k = stop
        e = lane
        while e < n * n:
            i, j = e // n, e % n
            to = at + order[row + i] * n + j
            if i > j and d[at + e] == 0:
                outer[to] = w[at + e]
            else:
                outer[to] = 1 if i == j else 0
            e += cuda.blockDim.x
        matrix += cuda.gridDim.x
"""


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
    place = ab.place
    w = place.empty((*lead, n, 2 * low + high + 1), ab.dtype)
    x = DeviceArray(place.row_major(b.copy()), place)
    _launch(text_of_banded(ab.dtype), [ab, w, x], low * (low + high + k), [math.prod(lead), n, k, low, high])
    return x, w[..., low]


def ldl(a: DeviceArray, *, lower: bool, hermitian: bool) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
    """Return l, d and the order of rows that makes l triangular, of a = l d l^H, or l d l^T.

    Bunch & Kaufman (1977), Math. Comp. 31, with the pivots of LAPACK's sytf2 and hetf2.

    Args:
        a: of shape (..., n, n), of which one triangle is read.
        lower: whether that is the lower one, and l[order] has ones on its diagonal and elements below.
        hermitian: whether complex matrices are Hermitian, of whose diagonal the real part is read.
    """
    *lead, n, _ = a.shape
    w, outer, d = (a.place.empty(a.shape, a.dtype) for _ in range(3))
    order = a.place.empty((*lead, n), np.intp)
    if a.size:
        arrays = [a if lower else a[..., ::-1, ::-1], w, outer, d, order]
        text = text_of_ldl(a.dtype, hermitian=hermitian)
        _launch(text, arrays, n, [math.prod(lead), n, 1 if lower else -1])
    if lower:
        return outer, d, order
    return outer[..., ::-1, ::-1], d[..., ::-1, ::-1], n - 1 - order[..., ::-1]


def _launch(text: str, arrays: list[DeviceArray], busy: int, numbers: list[int]) -> None:
    """Run a kernel in a block for each of `numbers[0]` matrices, in which `busy` threads have work."""
    place, chip = arrays[0].place, device()
    kernel = compiled(text, tuple(x.dtype.name for x in arrays), len(numbers))
    threads = min(chip.threads, max(WARP, 2 ** (busy - 1).bit_length()))
    buffers = [place.row_major(x) for x in arrays]
    place.call(kernel, buffers, numbers, min(numbers[0], chip.blocks), threads)


def text_of_banded(dtype: np.dtype[Any]) -> str:
    """Return the text of the kernel for matrices of `dtype`."""
    return _shared(dtype) + _BANDED


def text_of_ldl(dtype: np.dtype[Any], *, hermitian: bool) -> str:
    """Return the text of the kernel for matrices of `dtype`."""
    mirrored = "v.conjugate()" if hermitian and dtype.kind == "c" else "v"
    return _shared(dtype) + _LDL.format(mirrored=mirrored, threads=THREADS)


def _shared(dtype: np.dtype[Any]) -> str:
    return _SHARED.format(real=np.empty(0, dtype).real.dtype.name, size=_SIZES[dtype.kind])
