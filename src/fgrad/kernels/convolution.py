"""Convolutions of stride one with small kernels, as matrix products whose factors are never materialized.

A thread copies a few rows of the input, with the zeros around them. The windows that begin at neighbouring
places are then rows of a matrix that lies there already: row (c, i, j) starts at element (i, j) of channel c.
`tiles` multiplies with it. The cotangent of the input is a convolution of the same kind. A large kernel would
be read again for each row of the output: for that, and for other strides, see `windows`.
"""

from __future__ import annotations

import copy
import math
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from fgrad import config
from fgrad.kernels import native, store, threads
from fgrad.kernels.functions import compiled
from fgrad.kernels.threads import Loop

Steps = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]

INPUT = 2**17  # bytes of input at a time, about
KERNEL = 2**18  # bytes of the largest kernel
VECTOR = 32  # bytes of the shortest row
BUSY = 4  # sums in registers, at least, so that none waits for its last addition
SHORT = 64  # elements of a window for which that does not matter
PIECES = 4  # of the work for each thread, so that all end together
BLOCKS = 32  # sums over images and rows that become the cotangent of the kernel

_HEAD = """
CONTRACT = "{contract}"
DISTINCT = True
F, U = np.{dtype}, np.uintp
ZERO, NONE, ONE, CHUNK = F(0.0), U(0), U(1), U(64)
ROWS, WIDTH = U({rows}), U({lanes} * {vectors})
many = tile({rows}, {vectors}, {lanes}, {accumulate})
one = tile(1, {vectors}, {lanes}, {accumulate})
IMAGES, FLAT = (types.Array(types.{dtype}, rank, "C", readonly=True) for rank in (4, 1))
OUT, I = types.Array(types.{dtype}, 1, "C"), types.intp
STARTS = types.Array(types.uintp, 1, "C", readonly=True)


@helper
def copy(x, part, base, n, first, channels, top, rows, left, width):
    # rows and columns of some channels of an image, from `top` and `left` on, with zeros outside of it
    begin, end = max(0, min(width, -left)), max(0, min(width, x.shape[3] - left))
    for c in range(channels):
        for r in range(rows):
            row, y = base + U((c * rows + r) * width), top + r
            if y < 0 or y >= x.shape[2] or begin >= end:
                for q in range(U(width)):
                    part[row + q] = ZERO
            else:
                for q in range(U(begin)):
                    part[row + q] = ZERO
                for q in range(U(end), U(width)):
                    part[row + q] = ZERO
                inner, seen, a, b, v = row + U(begin), U(left + begin), U(n), U(first + c), U(y)
                for q in range(U(end - begin)):
                    part[inner + q] = x[a, b, v, seen + q]


@helper
def products(turns, a, i, ahead, row, b, j, below, term, c, k, beyond, line, m, n, count):
    # as many products c = a b, of m rows and n >= WIDTH columns, as turns, which move i, j and k on;
    # the rows of `a` stay in the cache meanwhile; the last tile overlaps the one before, but for its rows
    # where it would add to what that one has added
    r = NONE
    while r < m:
        full = {overlaps} or r + ROWS <= m
        top = min(r, m - ROWS) if {overlaps} else r
        for turn in range(turns):
            q = NONE
            while q < n:
                at = min(q, n - WIDTH)
                x, y, z = i + turn * ahead, j + turn * below + at, k + turn * beyond + top * line + at
                if full:
                    many(a, x, row, top, b, y, term, c, z, line, count)
                else:
                    one(a, x, row, top, b, y, term, c, z, line, count)
                q += WIDTH
        r += ROWS if full else ONE


@typed(types.void({types}, {integers}types.uintp, types.uintp))
def kernel({names}, lo, hi):
    groups, parts = x.shape[1] // channels, (height + step - 1) // step
    lines, tall, wide = channels * kh * kw, step + (kh - 1) * dh, width + (kw - 1) * dw
    for piece in range(np.intp(lo), np.intp(hi)):
        own = U(piece * (channels * tall * wide))
"""
_NUMBERS = "channels, kh, kw, top, left, dh, dw, outputs, height, width, step, pieces"
_FORWARD = """
        units = x.shape[0] * groups * parts
        for unit in range(piece * units // pieces, (piece + 1) * units // pieces):
            part, y = unit // parts, unit % parts * step
            n, g = part // groups, part % groups
            copy(x, seen, own, n, g * channels, channels, y - top, tall, -left, wide)
            first, start = g * outputs * lines, (part * outputs * height + y) * width
            products(
                U(min(step, height - y)), w, U(first), NONE, row, seen, own, U(wide), term, out, U(start),
                U(width), U(height * width), U(outputs), U(width), U(lines),
            )
"""
_BACKWARD = """
        pitch = (outputs + np.intp(WIDTH) - 1) // np.intp(WIDTH) * np.intp(WIDTH)
        base = U(piece * (step * width * pitch))
        for q in range(U(step * width * pitch)):
            turned[base + q] = ZERO
        units = x.shape[0] * parts
        for unit in range(piece * (groups * blocks) // pieces, (piece + 1) * (groups * blocks) // pieces):
            g, block = unit // blocks, unit % blocks
            first = U(unit * lines * pitch)
            for q in range(U(lines * pitch)):
                out[first + q] = ZERO
            for t in range(block * units // blocks, (block + 1) * units // blocks):
                n, y = t // parts, t % parts * step
                copy(x, seen, own, n, g * channels, channels, y - top, tall, -left, wide)
                start = U((((n * groups + g) * outputs) * height + y) * width)
                rows = U(min(step, height - y))
                places, near = rows * U(width), NONE
                while near < places:  # some lines of the cache at a time
                    end = min(places, near + CHUNK)
                    for o in range(U(outputs)):
                        given, target = start + o * U(height * width) + near, base + near * U(pitch) + o
                        for q in range(end - near):
                            turned[target + q * U(pitch)] = ct[given + q]
                    near = end
                products(
                    rows, seen, own, U(wide), row, turned, base, U(width * pitch), term, out, first, NONE,
                    U(pitch), U(lines), U(pitch), U(width),
                )
"""
_ASKED = (  # of both, and names for sizes
    "x[n, whole, h, l], channels > 0, (groups := whole // channels) > 0, (lines := channels * kh * kw) > 0, "
    "min(dh, dw, outputs, height, width, step) > 0, (parts := (height + step - 1) // step) > 0, "
    "(tall := step + (kh - 1) * dh) > 0, (wide := width + (kw - 1) * dw) > 0, len(row) > 0, len(term) > 0, "
    "max(abs(top), abs(left), kh, kw, dh, dw) < 2**31, step <= height, hi <= pieces, "
    "len(seen) >= pieces * (channels * tall * wide)"
)
_FORWARD_ASKED = (
    f"{_ASKED}, len(row) == outputs >= {{rows}}, width >= {{width}}, "
    "len(w) >= (groups - 1) * outputs * lines + row.max() + lines, len(term) == lines, "
    "len(out) >= n * groups * outputs * height * width, "
    "(step - 1) * wide + term.max() + width <= channels * tall * wide"
)
_BACKWARD_ASKED = (
    f"{_ASKED}, blocks > 0, len(row) == lines, len(term) == width, "
    "(pitch := (outputs + {width} - 1) // {width} * {width}) > 0, "
    "len(turned) >= pieces * (step * width * pitch), "
    "len(ct) >= n * groups * outputs * height * width, len(out) >= groups * blocks * lines * pitch, "
    "(step - 1) * wide + row.max() + width <= channels * tall * wide, "
    "term.max() + pitch <= width * pitch"
)
_STARTS = "row STARTS, term STARTS"
_KERNELS = {
    # the arrays with their types, the other numbers; the body; what it asks
    "forward": (f"x IMAGES, w FLAT, out OUT, {_STARTS}, seen OUT", _NUMBERS, _FORWARD, _FORWARD_ASKED),
    "backward": (
        f"x IMAGES, ct FLAT, out OUT, {_STARTS}, seen OUT, turned OUT",
        f"{_NUMBERS}, blocks",
        _BACKWARD,
        _BACKWARD_ASKED,
    ),
}


class Tile(NamedTuple):
    """The part of a product that stays in registers."""

    rows: int
    vectors: int  # in each row
    lanes: int  # of a vector

    @property
    def width(self) -> int:
        """How many columns there are."""
        return self.vectors * self.lanes


@lru_cache(config.cache_entries())
def best(rows: int, columns: int, itemsize: int, *, adds: bool) -> Tile:
    """Return the tile for products of so many rows and columns.

    It lies within them, but for columns where products add to what is there: those are padded.
    """
    wide = "+avx512f" in store.processor()[1]
    lanes, most = (64 if wide else 32) // itemsize, 8 if wide else 4
    power = 1 << ((columns - 1).bit_length() if adds else columns.bit_length() - 1)
    vectors = 2 if power > lanes else 1
    if adds:
        return Tile(min(rows, most), vectors, min(lanes, power))
    turns = {r: -(-rows // r) * max(r * vectors, BUSY) for r in range(min(rows, most), 0, -1)}
    return Tile(min(turns, key=lambda r: turns[r]), vectors, min(lanes, power))


@cache
def loop(name: str, char: str, tile: Tile) -> Loop:
    """Return the loop over pieces of a convolution, one of `_KERNELS`."""
    arrays, numbers, body, contract = _KERNELS[name]
    arguments, types = zip(*(a.split() for a in arrays.split(", ")), strict=True)
    text = _HEAD.strip().format(
        **tile._asdict(),
        contract=contract.format(rows=tile.rows, width=tile.width),
        dtype=np.dtype(char).name,
        accumulate=name == "backward",
        overlaps=name != "backward",
        types=", ".join(types),
        integers="I, " * len(numbers.split(", ")),
        names=f"{', '.join(arguments)}, {numbers}",
    )
    return compiled(text + body)


class Geometry:
    """The sizes of a convolution with two spatial axes; one axis is a second one of length one.

    Attributes:
        x: shape of the input.
        out: shape of the output.
        channels: of the input in a group.
        outputs: channels of the output in a group.
        groups: how many there are.
        lines: elements of a window.
        steps: window, stride, padding before, and dilation.
    """

    channels: int

    def __init__(
        self, x: Steps, w: Steps, out: Steps, stride: Steps, padding: Pads, dilation: Steps, groups: int
    ) -> None:
        rank = len(stride)
        self.x: Steps = plane(x, rank)
        self.out: Steps = plane(out, rank)
        lead = (1,) * (2 - rank)
        self.channels, window = w[1], (*lead, *w[2:])
        self.lines: int = w[1] * math.prod(window)
        self.outputs: int = w[0] // groups
        self.groups: int = groups
        low = (0,) * (2 - rank) + tuple(p[0] for p in padding)
        self.steps: Steps = (*window, *lead, *stride, *low, *lead, *dilation)

    @property
    def kernel(self) -> Steps:
        """The shape of the kernel."""
        return self.groups, self.outputs, self.channels, *self.steps[:2]

    def suits(self, itemsize: int) -> bool:
        """Return whether `forward` and the others are for this convolution."""
        return (
            self.steps[2:4] == (1, 1)
            and math.prod(self.kernel) * itemsize <= KERNEL
            and min(self.x[3], self.out[3]) * itemsize >= VECTOR
            and (self.lines <= SHORT or math.prod(self.tile(itemsize)[:2]) >= BUSY)
            and not native.interpreted()
        )

    def tile(self, itemsize: int) -> Tile:
        """Return the tile for the convolution itself."""
        return best(self.outputs, self.out[3], itemsize, adds=False)

    def starts(self, rows: int) -> Any:
        """Return where the elements of the first window are in what is copied for some rows of output."""
        kh, kw, _, _, _, _, dh, dw = self.steps
        return _starts(self.channels, kh, kw, dh, dw, rows + (kh - 1) * dh, self.out[3] + (kw - 1) * dw)

    @lru_cache(config.cache_entries())  # noqa: B019 -- a few plans outlive their use
    def turned(self) -> Geometry:
        """Return the convolution that leads from the cotangent of the output to that of the input."""
        other = copy.copy(self)
        kh, kw, _, _, top, left, dh, dw = self.steps
        other.lines = self.outputs * kh * kw
        other.x, other.out, other.channels, other.outputs = self.out, self.x, self.outputs, self.channels
        other.steps = (kh, kw, *self.steps[2:4], (kh - 1) * dh - top, (kw - 1) * dw - left, dh, dw)
        return other


planned = lru_cache(config.cache_entries())(Geometry)


@lru_cache(config.cache_entries())
def _starts(channels: int, kh: int, kw: int, dh: int, dw: int, tall: int, wide: int) -> Any:
    """Return what `Geometry.starts` does, for windows in what is copied: `tall` rows of `wide` elements."""
    c, i, j = np.ogrid[:channels, :kh, :kw]
    found = ((c * tall + i * dh) * wide + j * dw).ravel().astype(np.uintp)
    found.flags.writeable = False
    return found


def plane(shape: Steps, rank: int) -> Steps:
    """Return the shape of images with two spatial axes."""
    return shape if rank == 2 else (*shape[:-1], 1, shape[-1])


class Call(NamedTuple):
    """A loop over pieces, and what it takes.

    Attributes:
        name: which it is.
        tile: the part of a product that stays in registers.
        starts: where rows of the left factor, and terms, begin.
        memory: how many elements of scratch memory each array of it has.
        numbers: its last arguments.
        pieces: how many steps it has.
        elements: how many products that are.
        out: the shape of what it writes to.
    """

    name: str
    tile: Tile
    starts: tuple[Any, Any]
    memory: list[int]
    numbers: Steps
    pieces: int
    elements: int
    out: Steps


def forward_call(plan: Geometry, itemsize: int) -> Call:
    """Return the call that computes a convolution."""
    return _forward_call(plan, itemsize, threads.get_num_threads())


@lru_cache(config.cache_entries())
def _forward_call(plan: Geometry, itemsize: int, _: int) -> Call:
    step, parts = _rows(plan, itemsize)
    starts = np.arange(plan.outputs, dtype=np.uintp) * plan.lines, plan.starts(step)
    return _call("forward", plan, plan.tile(itemsize), starts, plan.out, step, parts)


def backward_call(plan: Geometry, itemsize: int) -> Call:
    """Return the call that computes the cotangent of the kernel: sums of (groups, blocks, lines, outputs)."""
    return _backward_call(plan, itemsize, threads.get_num_threads())


@lru_cache(config.cache_entries())
def _backward_call(plan: Geometry, itemsize: int, _: int) -> Call:
    tile = best(plan.lines, plan.outputs, itemsize, adds=True)
    step, parts = _rows(plan, itemsize)
    blocks = min(BLOCKS, parts // plan.groups)
    pitch = -(-plan.outputs // tile.width) * tile.width
    starts = plan.starts(step), np.arange(plan.out[3], dtype=np.uintp) * pitch
    shape = (plan.groups, blocks, plan.lines, pitch)
    return _call("backward", plan, tile, starts, shape, step, plan.groups * blocks, blocks)


def forward(plan: Geometry, x: Any, w: Any, out: Any) -> None:
    """Fill `out` with the convolution of `x` with `w`; all are contiguous."""
    _run(forward_call(plan, x.itemsize), plan, x, w, out)


def backward_input(plan: Geometry, ct: Any, w: Any, out: Any) -> None:
    """Fill `out` with the cotangent of the input."""
    turned = w.reshape(plan.kernel).swapaxes(1, 2)[..., ::-1, ::-1]
    forward(plan.turned(), ct, np.ascontiguousarray(turned), out)


def backward_kernel(plan: Geometry, ct: Any, x: Any) -> Any:
    """Return the cotangent of the kernel: (groups, outputs, channels, *window)."""
    call = backward_call(plan, x.itemsize)
    sums = np.empty(call.out, x.dtype)
    _run(call, plan, x, ct, sums)
    return np.add.reduce(sums, axis=1)[..., : plan.outputs].transpose(0, 2, 1)


def _rows(plan: Geometry, itemsize: int) -> tuple[int, int]:
    """Return how many rows of an image go together, and how many parts that makes."""
    n, _, height, width = plan.out
    kh, kw, _, _, _, _, dh, dw = plan.steps
    most = INPUT // (plan.channels * (width + (kw - 1) * dw) * itemsize) - (kh - 1) * dh
    step = max(1, min(height, most))
    return step, n * plan.groups * -(-height // step)


def _call(
    name: str,
    plan: Geometry,
    tile: Tile,
    starts: tuple[Any, Any],
    out: Steps,
    step: int,
    units: int,
    *others: int,
) -> Call:
    """Return the loop over units of work in pieces, each of which has memory of its own."""
    _, _, height, width = plan.out
    kh, kw, _, _, *rest = plan.steps
    elements = math.prod(plan.out) * plan.lines
    workers = threads.parts(units, elements)
    pieces = min(units, PIECES * workers) if workers > 1 else 1
    scratch = [plan.channels * (step + (kh - 1) * rest[2]) * (width + (kw - 1) * rest[3])]
    if name == "backward":
        scratch.append(step * width * -(-plan.outputs // tile.width) * tile.width)
    numbers = (plan.channels, kh, kw, *rest, plan.outputs, height, width, step, pieces, *others)
    return Call(name, tile, starts, [pieces * n for n in scratch], numbers, pieces, elements, out)


def _run(call: Call, plan: Geometry, x: Any, y: Any, out: Any) -> None:
    memory = [np.empty(n, x.dtype) for n in call.memory]
    arrays = (x.reshape(plan.x), y.reshape(-1), out.reshape(-1), *call.starts)
    made = loop(call.name, x.dtype.char, call.tile)
    threads.share(made, (*arrays, *memory, *call.numbers), call.pieces, call.elements)
