"""Kernels of windows: convolutions as matrix products of unrolled windows, and pooling.

They take one or two spatial axes; one axis is a second one of length one. Windows are unrolled for a few
images, or a few rows of one, at a time, so that the matrix product reads them from the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from itertools import product
from typing import Any

import numpy as np

from fgrad import config
from fgrad.kernels import convolution, threads
from fgrad.kernels.convolution import Geometry, Pads, Steps, plane, planned
from fgrad.kernels.functions import compiled
from fgrad.kernels.threads import Loop

TILE = 2**20  # bytes of unrolled windows at a time

_HEAD = """
CONTRACT = "{contract}"
DISTINCT = True
F = np.{dtype}
NONE, ZERO, ONE = np.uintp(0), F(0.0), F(1.0)
LEAST, STRIP = F(-np.inf), np.intp(256)
INPUT = types.Array(types.{dtype}, {rank}, "C", readonly=True)
OUTPUT = types.Array(types.{dtype}, {rank}, "C")
COLUMNS, I, U = types.Array(types.{dtype}, 3, "C"), types.intp, types.uintp


@helper
def inside(start, step, count, size):
    # the places q of `count` for which start + q step lies in range(size), from the first to behind the last
    low = min(count, max(0, -(start // step)))
    return low, max(low, min(count, (size - 1 - start) // step + 1))


@typed({signature})
"""
_UNROLL = """
def kernel(x, columns, image, channel, channels, kh, kw, sh, sw, ph, pw, dh, dw, top, rows, width, lo, hi):
    area, height, length = kh * kw, x.shape[2], x.shape[3]
    for line in range(np.intp(lo), np.intp(hi)):
        n, k = line // (channels * area), line % (channels * area)
        c, i, j = k // area, k % area // kw, k % kw
        a, b, m, d = np.uintp(image + n), np.uintp(channel + c), np.uintp(n), np.uintp(k)
        left, right = inside(j * dw - pw, sw, width, length)
        begin, step = np.uintp(max(0, left * sw + j * dw - pw)), np.uintp(sw)
        count = np.uintp(right - left)
        for r in range(rows):
            y = (top + r) * sh + i * dh - ph
            row, v = np.uintp(r * width), np.uintp(max(0, y))
            part = row + np.uintp(left)
            if y < 0 or y >= height:
                for q in range(np.uintp(width)):
                    columns[m, d, row + q] = ZERO
            else:
                for q in range(np.uintp(left)):
                    columns[m, d, row + q] = ZERO
                for q in range(np.uintp(right), np.uintp(width)):
                    columns[m, d, row + q] = ZERO
                if sw == 1:
                    for q in range(count):
                        columns[m, d, part + q] = x[a, b, v, begin + q]
                else:
                    for q in range(count):
                        columns[m, d, part + q] = x[a, b, v, begin + q * step]
"""
_ROLL = """
def kernel(x, columns, image, channel, channels, kh, kw, sh, sw, ph, pw, dh, dw, top, rows, width, lo, hi):
    area, height, length = kh * kw, x.shape[2], x.shape[3]
    for line in range(np.intp(lo), np.intp(hi)):
        n, c = line // channels, line % channels
        a, b, m = np.uintp(image + n), np.uintp(channel + c), np.uintp(n)
        for k in range(area):
            i, j, d = k // kw, k % kw, np.uintp(c * area + k)
            left, right = inside(j * dw - pw, sw, width, length)
            begin, step = np.uintp(max(0, left * sw + j * dw - pw)), np.uintp(sw)
            count = np.uintp(right - left)
            for r in range(rows):
                y = (top + r) * sh + i * dh - ph
                part, v = np.uintp(r * width + left), np.uintp(max(0, y))
                if y >= 0 and y < height:
                    if sw == 1:
                        for q in range(count):
                            x[a, b, v, begin + q] += columns[m, d, part + q]
                    else:
                        for q in range(count):
                            x[a, b, v, begin + q * step] += columns[m, d, part + q]
"""
_POOL = """
def kernel({arrays}, kh, kw, sh, sw, ph, pw, lo, hi):
    height, length = x.shape[1], x.shape[2]
    rows, width = out.shape[1], out.shape[2]
    {memory}
    for n in range(lo, hi):
        {clear}
        for row in range(rows):
            r = np.uintp(row)
            first = max(0, row * sh - ph)
            last = max(first, min(height, row * sh - ph + kh))  # the window may see nothing but padding
            begin = behind = 0
            if {middle}:  # from one column to the other, windows lie inside
                begin = max(0, min(width, (pw + sw - 1) // sw))
                behind = max(begin, min(width, (length + pw - kw) // sw + 1))
            for side in range(2):
                for column in range(behind if side else 0, width if side else begin):
                    q = np.uintp(column)
                    left = max(0, column * sw - pw)
                    right = max(left, min(length, column * sw - pw + kw))
                    {start}
                    for i in range(np.uintp(first), np.uintp(last)):
                        for j in range(np.uintp(left), np.uintp(right)):
                            {step}
                    {middle_step}
                    for i in range(np.uintp(first), np.uintp(last)):
                        for j in range(np.uintp(left), np.uintp(right)):
                            {last_step}
                    {end}
"""
_INNER = """
            top, shift = np.uintp(first), np.uintp(pw)
            for strip in range((behind - begin + STRIP - 1) // STRIP):
                start = begin + strip * STRIP
                count = np.uintp(min(STRIP, behind - start))
"""
_COLUMN = """
                for p in range(count):
                    q = np.uintp(start) + p
                    left = q * np.uintp({stride}) - shift
"""
UNROLLED = 16  # elements of a window, at most, that are written out one by one

_CLEAR = """for i in range(np.uintp(height)):
            for j in range(np.uintp(length)):
                target[n, i, j] = ZERO"""
_POOLS = {
    # memory; start; for each element of a window; between; again for each element; end; where windows lie
    # inside, what is kept in between and how it is read
    "max": {
        "arrays": "x, out",
        "start": "best = LEAST",
        "step": "best = x[n, i, j] if x[n, i, j] > best or x[n, i, j] != x[n, i, j] else best",
        "end": "out[n, r, q] = best",
    },
    "max_back": {
        "arrays": "ct, out, x, target",
        "memory": "shares = np.empty(STRIP, F)",
        "clear": _CLEAR,
        "start": "best, ties = out[n, r, q], ZERO",
        "step": "ties += ONE if x[n, i, j] == best else ZERO",
        "middle_step": "share = ct[n, r, q] / ties",  # which nothing takes where there are none
        "kept": "shares[p] = share",
        "again": "best, share = out[n, r, q], shares[p]",
        "last_step": "target[n, i, j] += share if x[n, i, j] == best else ZERO",
    },
    "sum": {
        "arrays": "x, out",
        "start": "total = ZERO",
        "step": "total += x[n, i, j]",
        "end": "out[n, r, q] = total",
    },
    "spread": {
        "arrays": "out, x",
        "clear": _CLEAR.replace("target", "x"),
        "start": "share = out[n, r, q]",
        "step": "x[n, i, j] += share",
    },
}
_PLACES = {  # arrays that have an element for each window
    "max": ("out",),
    "sum": ("out",),
    "spread": ("out",),
    "max_back": ("ct", "out"),
}
_FAR = "min(kh, kw, sh, sw) > 0, max(abs(ph), abs(pw), kh, kw, sh, sw) < 2**31"  # without overflow
_COLUMNS = (
    "x[images, whole, height, length], columns[n, channels * kh * kw, rows * width], rows >= 0, width >= 0, "
    f"0 <= image <= images - n, 0 <= channel <= whole - channels, channels > 0, {_FAR}"
)
_OUTPUTS = {"max": "out", "sum": "out", "max_back": "target", "spread": "x"}


@cache
def _window_kernel(name: str, char: str) -> Loop:
    first = "INPUT" if name == "unroll" else "OUTPUT"
    signature = f"types.void({first}, COLUMNS, {'I, ' * 14}U, U)"
    contract = f"{_COLUMNS}, hi <= n * channels{' * kh * kw' * (name == 'unroll')}"
    head = _HEAD.format(dtype=np.dtype(char).name, rank=4, signature=signature, contract=contract)
    return compiled(head.strip() + (_UNROLL if name == "unroll" else _ROLL))


@lru_cache(config.cache_entries())
def pooling(name: str, char: str, window: Steps, stride: int) -> Loop:
    """Return the loop of one of `_POOLS` over images; `numbers` are its arguments besides arrays."""
    return compiled(_pool_text(name, np.dtype(char), window, stride))


def _pool_text(name: str, dtype: np.dtype[Any], window: Steps, stride: int) -> str:
    """Return a module that pools; windows that lie inside are written out where they are small."""
    parts = (
        dict.fromkeys(("memory", "clear", "start", "step", "middle_step", "last_step", "end"), "pass")
        | _POOLS[name]
    )
    types = ("OUTPUT" if a == _OUTPUTS[name] else "INPUT" for a in parts["arrays"].split(", "))
    signature = f"types.void({', '.join(types)}, {'I, ' * 6}U, U)"
    arrays = parts["arrays"].split(", ")
    contract = ", ".join(
        f"{a}[n, {'rows, width' if a in _PLACES[name] else 'height, length'}]" for a in arrays
    )
    contract += f", hi <= n, {_FAR}"
    if math.prod(window) <= UNROLLED:
        contract += f", kh == {window[0]}, kw == {window[1]}, sw == {stride}"
    head = _HEAD.format(dtype=dtype.name, rank=3, signature=signature, contract=contract)
    if math.prod(window) > UNROLLED:
        return head.strip() + _POOL.format(**parts, middle=False)
    return head.strip() + _POOL.format(**parts, middle="last - first == kh") + _inner(name, window, stride)


def _inner(name: str, window: Steps, stride: int) -> str:
    """Return the loops over windows that lie inside.

    What adds to elements of windows has a loop for each of their rows, unless they overlap: LLVM makes no
    vector code of one that writes to several rows, whose distance it does not know.
    """
    parts, (rows, columns) = _POOLS[name], window
    start, step = parts["start"], parts["step"]
    again = parts.get("last_step")

    def elements(rows: Iterable[int], step: str) -> Iterator[str]:
        for i, j in product(rows, range(columns)):
            yield from (f"i, j = top + np.uintp({i}), left + np.uintp({j})", step)

    def loop(*lines: str) -> str:
        return _COLUMN.lstrip("\n").format(stride=stride) + "".join(f"{' ' * 20}{line}\n" for line in lines)

    every = range(rows)
    parted = [[i] for i in every] if columns <= stride else [every]
    if "end" in parts:
        loops = [loop(start, *elements(every, step), parts["end"])]
    elif again is None:
        loops = [loop(start, *elements(part, step)) for part in parted]
    else:
        loops = [loop(start, *elements(every, step), parts["middle_step"], parts["kept"])]
        loops += [loop(parts["again"], *elements(part, again)) for part in parted]
    return (_INNER + "".join(loops)).lstrip("\n")


class _Tiles:
    """A convolution cut into parts whose windows are unrolled at a time."""

    def __init__(self, plan: Geometry, itemsize: int) -> None:
        self.plan, self.out = plan, plan.out
        line = plan.lines * self.out[3] * itemsize
        self.rows = self.out[2] if line * self.out[2] <= 2 * TILE else max(1, TILE // line)
        self.images = max(1, TILE // (line * self.rows))

    def __iter__(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield group, first image, number of images, first row and number of rows of every part."""
        for g in range(self.plan.groups):
            for n in range(0, self.out[0], self.images):
                for r in range(0, self.out[2], self.rows):
                    yield g, n, min(self.images, self.out[0] - n), r, min(self.rows, self.out[2] - r)

    def columns(self, dtype: np.dtype[Any]) -> Callable[[int, int], Any]:
        """Return what gives the memory for the windows of some rows of some images."""
        work = np.empty(self.images * self.plan.lines * self.rows * self.out[3], dtype)

        def part(images: int, rows: int) -> Any:
            shape = images, self.plan.lines, rows * self.out[3]
            return work[: math.prod(shape)].reshape(shape)

        return part

    def call(self, name: str, x: Any, columns: Any, g: int, n: int, r: int, rows: int) -> None:
        """Unroll windows into columns, or add columns back into the places that they come from."""
        images, channels = columns.shape[0], self.plan.channels
        args = (x, columns, n, g * channels, channels, *self.plan.steps, r, rows, self.out[3])
        count = images * (self.plan.lines if name == "unroll" else channels)
        threads.share(_window_kernel(name, columns.dtype.char), args, count, columns.size)

    def part(self, y: Any, g: int, n: int, images: int, r: int, rows: int) -> Any:
        """Return the view of an array like the output on one part: (images, outputs, places)."""
        whole = y.reshape((self.out[0], self.plan.groups, self.plan.outputs, self.out[2] * self.out[3]))
        return whole[n : n + images, g, :, r * self.out[3] : (r + rows) * self.out[3]]


def convolve(x: Any, w: Any, stride: Steps, padding: Pads, dilation: Steps, groups: int, shape: Steps) -> Any:
    """Return the convolution of `x` with `w`, of `shape`."""
    plan = planned(x.shape, w.shape, shape, stride, padding, dilation, groups)
    x, w, out = np.ascontiguousarray(x), np.ascontiguousarray(w), np.empty(shape, x.dtype)
    run = convolution.forward if plan.suits(x.itemsize) else _forward
    run(plan, x, w, out)
    return out


def convolve_back(
    ct: Any, w: Any, shape: Steps, stride: Steps, padding: Pads, dilation: Steps, groups: int
) -> Any:
    """Return the cotangent of the input of a convolution, of `shape`."""
    plan = planned(shape, w.shape, ct.shape, stride, padding, dilation, groups)
    ct, w, out = np.ascontiguousarray(ct), np.ascontiguousarray(w), np.empty(shape, ct.dtype)
    run = convolution.backward_input if plan.turned().suits(w.itemsize) else _backward_input
    run(plan, ct, w, out)
    return out


def convolve_kernel(
    ct: Any, x: Any, shape: Steps, stride: Steps, padding: Pads, dilation: Steps, groups: int
) -> Any:
    """Return the cotangent of the kernel of a convolution, of `shape`."""
    plan = planned(x.shape, shape, ct.shape, stride, padding, dilation, groups)
    run = convolution.backward_kernel if plan.suits(x.itemsize) else _backward_kernel
    return run(plan, np.ascontiguousarray(ct), np.ascontiguousarray(x)).reshape(shape)


def _forward(plan: Geometry, x: Any, w: Any, out: Any) -> None:
    tiles, x = _Tiles(plan, x.itemsize), x.reshape(plan.x)
    kernel, memory = w.reshape((plan.groups, plan.outputs, plan.lines)), tiles.columns(x.dtype)
    for g, n, images, r, rows in tiles:
        columns = memory(images, rows)
        tiles.call("unroll", x, columns, g, n, r, rows)
        np.matmul(kernel[g], columns, out=tiles.part(out, g, n, images, r, rows))


def _backward_input(plan: Geometry, ct: Any, w: Any, out: Any) -> None:
    tiles, out = _Tiles(plan, ct.itemsize), out.reshape(plan.x)
    out[...] = 0
    kernel = w.reshape((plan.groups, plan.outputs, plan.lines)).transpose(0, 2, 1)
    memory = tiles.columns(ct.dtype)
    for g, n, images, r, rows in tiles:
        columns = memory(images, rows)
        np.matmul(kernel[g], tiles.part(ct, g, n, images, r, rows), out=columns)
        tiles.call("roll", out, columns, g, n, r, rows)


def _backward_kernel(plan: Geometry, ct: Any, x: Any) -> Any:
    tiles, x = _Tiles(plan, x.itemsize), x.reshape(plan.x)
    out, memory = np.zeros((plan.groups, plan.outputs, plan.lines), x.dtype), tiles.columns(x.dtype)
    for g, n, images, r, rows in tiles:
        columns = memory(images, rows)
        tiles.call("unroll", x, columns, g, n, r, rows)
        part = tiles.part(ct, g, n, images, r, rows)
        out[g] += np.add.reduce(np.matmul(columns, part.transpose(0, 2, 1)), axis=0).T
    return out


def numbers(window: Steps, stride: Steps, padding: Pads) -> Steps:
    """Return window, stride and padding before of two axes, of which the first may be one of length one."""
    rank = len(window)
    lead, zeros = (1,) * (2 - rank), (0,) * (2 - rank)
    return (*lead, *window, *lead, *stride, *zeros, *(p[0] for p in padding))


def _pool(name: str, arrays: tuple[Any, ...], window: Steps, stride: Steps, padding: Pads) -> None:
    rank = len(window)
    flat = tuple([a.reshape(plane((-1, *a.shape[a.ndim - rank :]), rank)) for a in arrays])
    steps = numbers(window, stride, padding)
    elements = max(a.size for a in arrays)
    kernel = pooling(name, arrays[0].dtype.char, steps[:2], steps[3])
    threads.share(kernel, (*flat, *steps), flat[0].shape[0], elements)


def pooled(kind: str, x: Any, window: Steps, stride: Steps, padding: Pads, shape: Steps) -> Any:
    """Return the "max" or "sum" of every window; "spread": what `x` added to every window makes of zeros."""
    out = np.empty(shape, x.dtype)
    _pool(kind, (np.ascontiguousarray(x), out), window, stride, padding)
    return out


def max_pool_back(ct: Any, out: Any, x: Any, window: Steps, stride: Steps, padding: Pads) -> Any:
    """Return the cotangent of what `out` are the maxima of, shared by those that attain them."""
    back = np.empty(x.shape, x.dtype)
    arrays = (*map(np.ascontiguousarray, (ct, out, x)), back)
    _pool("max_back", arrays, window, stride, padding)
    return back
