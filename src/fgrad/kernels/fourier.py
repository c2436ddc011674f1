"""Fourier transforms of complex numbers along one axis, for lengths of small factors.

The algorithm is Stockham's, which sorts itself: in each step, butterflies combine numbers that lie as far
apart as can be, and the inner loop goes through numbers that lie side by side (Van Loan, Computational
Frameworks for the Fast Fourier Transform, 1992, section 1.7). So that there are as many of these as a vector
has, `LANES` transforms lie side by side in the memory of the kernel; a single long one is a matrix, whose
columns are transformed, then multiplied by factors, transposed, and transformed again (Bailey 1990, The
Journal of Supercomputing 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from fgrad import config
from fgrad.kernels import native, threads
from fgrad.kernels.functions import compiled
from fgrad.kernels.threads import Loop

LANES = 8
RADICES = {4: "four", 2: "two", 3: "three", 5: "five"}
LONG, LONGEST = 256, 1024  # numbers of transforms that are matrices, even of many rows; of others, memory
MEMORY = 4096  # numbers of transforms that lie side by side, which stay in the cache

# Transforms lie in rows, side by side in columns, or each is a matrix. A unit of work is one of these, or
# `LANES` others, of which the last ones are some of those before as well.
_HEAD = """
CONTRACT = (
    "x[2 * n * count], out[2 * n * count], table[size], radices[steps], memory[4 * pieces * wide], "
    "starts[pieces * lanes], min(n, trail, count, pieces, units) > 0, {contract}, hi <= pieces"
)
DISTINCT = True
WRITTEN_OUT = True
F, U, ZERO, ONE, TWO = np.{dtype}, np.uintp, np.uintp(0), np.uintp(1), np.uintp(2)
LANES, HALF = U({lanes}), U({lanes} // 2)
two, three, four, five = (butterfly(r, {lanes}) for r in (2, 3, 4, 5))
split, join, gather, scatter, finish = (
    shuffle(name, {lanes}) for name in ("split", "join", "gather", "scatter", "finish")
)
OUT, IN = types.Array(types.{dtype}, 1, "C"), types.Array(types.{dtype}, 1, "C", readonly=True)
PLACES, STEPS = types.Array(types.uintp, 1, "C"), types.Array(types.uintp, 1, "C", readonly=True)
I, R = types.intp, types.{dtype}


@helper
def combine(r, memory, source, target, m, s, plane, table, at):
    # butterflies of numbers that are m s apart, over p < m, and q < s of each
    for p in range(m):
        w = at + TWO * p * (r - ONE)
        q = ZERO
        while q < s:
            here, there = source + p * s + q, target + r * p * s + q
{butterflies}
            q += LANES


@typed(types.void(IN, OUT, IN, STEPS, OUT, PLACES, {integers}R, R, R, types.uintp, types.uintp))
def kernel(
    x, out, table, radices, memory, starts, n, trail, count, wide, lanes, units, pieces,
    sign, scale, turned, lo, hi,
):
    size, plane = U(n), U(2 * pieces * wide)
    for piece in range(np.intp(lo), np.intp(hi)):
        first = U(piece) * LANES
        for unit in range(piece * units // pieces, (piece + 1) * units // pieces):
            source = U(2 * piece * wide)
            target = source + U(wide)
{read}
            at, step, s, m = ZERO, 0, LANES, {length}
            while m > ONE:
                r = radices[step]
                step += 1
                m = m // r
                combine(r, memory, source, target, m, s, plane, table, at)
                at += TWO * m * (r - ONE)
                s *= r
                source, target = target, source
{write}
"""
_SPLIT = """
            for i in range(vectors):
                split(x, begin + i * move, memory, source + i * LANES, plane, sign)
"""
_JOIN = """
            for i in range(vectors):
                join(memory, source + i * LANES, plane, out, begin + i * move, scale, turned)
"""


class _Kind(NamedTuple):
    """The parts of a text that differ."""

    contract: str
    read: str
    write: str
    length: str = "size"  # of the transforms that lie side by side


_APART = _Kind(
    "trail == 1, lanes // 2 <= n, lanes * n <= wide, units == (count + lanes - 1) // lanes",
    """
            for lane in range(LANES):
                starts[first + lane] = TWO * size * min(U(unit) * LANES + lane, U(count) - ONE)
            i = ZERO
            while i < size:
                k = min(i, size - HALF)
                gather(x, starts, first, TWO * k, memory, source + k * LANES, plane, sign)
                i += HALF
""",
    """
            i = ZERO
            while i < size:
                k = min(i, size - HALF)
                scatter(memory, source + k * LANES, plane, out, starts, first, TWO * k, scale, turned)
                i += HALF
""",
)
_TOGETHER = _Kind(
    "count % trail == 0, lanes <= trail, lanes * n <= wide, "
    "units == count // trail * ((trail + lanes - 1) // lanes)",
    """
            per = (trail + np.intp(LANES) - 1) // np.intp(LANES)
            before, block = unit // per, U(unit % per)
            begin = TWO * (U(before * n * trail) + min(block * LANES, U(trail) - LANES))
            move, vectors = TWO * U(trail), size
"""
    + _SPLIT,
    _JOIN,
)
_ALONE = _Kind(
    "trail == 1, n % (lanes * lanes) == 0, n <= wide, units == count",
    """
            begin, move, vectors = TWO * U(unit) * size, TWO * LANES, size // LANES
"""
    + _SPLIT,
    """
            length = size // LANES
            for i in range(length // LANES):
                here, there = i * LANES * LANES, begin + TWO * i * LANES
                finish(
                    memory, source + here, plane, table, at + here, size,
                    out, there, TWO * length, scale, turned,
                )
""",
    "size // LANES",
)
_KINDS = {"apart": _APART, "together": _TOGETHER, "alone": _ALONE}


class Plan(NamedTuple):
    """How transforms of some length along an axis are computed.

    Attributes:
        kind: how they lie.
        table: the factors of all steps, of the dtype of a part.
        radices: how many numbers the butterflies of each step combine.
        numbers: the integers that the loop takes.
        memory: how many elements of scratch memory it needs.
        pieces: how many steps the loop has.
        elements: how many operations that are, for threads.
    """

    kind: str
    table: Any
    radices: Any
    numbers: tuple[int, ...]
    memory: int
    pieces: int
    elements: int

    def loop(self) -> Loop:
        """Return the loop, which takes arrays of pairs, what the plan has, and factors of parts."""
        return _loop(self.kind, self.table.dtype.char, tuple(sorted(set(self.radices.tolist()))))

    @property
    def places(self) -> int:
        """How many words of memory it needs besides, which only rows use."""
        return self.pieces * LANES


@cache
def _loop(kind: str, char: str, radices: tuple[int, ...]) -> Loop:
    parts = _KINDS[kind]
    lines = []
    for k, r in enumerate(radices):
        condition = f"{'el' * (k > 0)}if r == U({r}):" if r != radices[-1] or not k else "else:"
        call = f"{RADICES[r]}(memory, here, m * s, there, s, plane, table, w)"
        lines += [f"            {condition}", f"                {call}"]
    return compiled(
        _HEAD.strip("\n").format(
            contract=parts.contract,
            dtype=np.dtype(char).name,
            lanes=LANES,
            integers="I, " * 7,
            butterflies="\n".join(lines),
            length=parts.length,
            read=parts.read.strip("\n"),
            write=parts.write.strip("\n"),
        )
    )


@lru_cache(config.cache_entries())
def plan(char: str, lead: int, n: int, trail: int) -> Plan | None:
    """Return how arrays (lead, n, trail) are transformed along their second axis; None: not by a kernel."""
    steps = _steps(n)
    if native.interpreted() or steps is None or not LANES // 2 <= n <= LONGEST:
        return None
    count, wide, kind = lead * trail, LANES * n, "together" if trail >= LANES else "apart"
    if trail == 1 and n % LANES**2 == 0 and (count < LANES // 2 or n >= LONG):
        kind, wide, length = "alone", n, n // LANES
        steps = _steps(length) or []
        angles = np.multiply.outer(np.arange(length), np.arange(LANES))
        last = np.exp(-2j * math.pi / n * angles).ravel()
        table = np.concatenate([_factors(length, steps), last.real, last.imag])
    elif wide > MEMORY or (kind == "apart" and (trail > 1 or count < LANES // 2)):
        return None
    else:
        table = _factors(n, steps)
    units = {"together": lead * -(-trail // LANES), "apart": -(-count // LANES), "alone": count}[kind]
    elements = int(count * n * math.log2(n) / 2)
    workers = threads.parts(units, elements)
    pieces = min(units, 4 * workers) if workers > 1 else 1
    numbers = (n, trail, count, wide, LANES, units, pieces)
    radices = np.array(steps, np.uintp)
    return Plan(kind, table.astype(char), radices, numbers, 4 * pieces * wide, pieces, elements)


def _steps(n: int) -> list[int] | None:
    found = []
    for r in RADICES:
        while n % r == 0:
            found.append(r)
            n //= r
    return found if n == 1 else None


def _factors(n: int, steps: Sequence[int]) -> Any:
    """Return the factors of the butterflies of all steps of a transform, but for the first of each."""
    parts, m = [np.zeros(0)], n
    for r in steps:
        whole, m = m, m // r
        angles = np.multiply.outer(np.arange(m), np.arange(1, r)) % whole
        parts.append(np.exp(-2j * math.pi / whole * angles).ravel().view(np.float64))
    return np.concatenate(parts)
