"""Products of sparse matrices and vectors: a sum for each row, in the order of its entries, in one thread.

Up to `HEIGHT` rows that name the same columns are a *strip*, whose columns are kept once, and whose sums are
taken side by side. Threads share *parts*, which are strips of about as many entries, so that sums do not
depend on how many threads there are.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fgrad.kernels import threads
from fgrad.kernels.functions import compiled
from fgrad.kernels.threads import Loop

HEIGHT = 3  # of strips at most, as more sums and their places would not be in registers
PART = 4096  # entries of a part, about

_TEXT = """
CONTRACT = (
    "out[rows], heads[rows + 1], places[strips], first[strips + 1], parts[ends], hi < ends, data[nnz], "
    "columns[some], x[n]"
)
DISTINCT = True
U, F, ZERO, TURNED = np.uintp, np.{out}, np.{out}(0.0), np.int64(1)
ONE, TWO, THREE = map(np.uintp, (1, 2, 3))
PLACES, DATA, X = (types.Array(t, 1, "C", readonly=True) for t in (types.{places}, types.{data}, types.{out}))
OUT = types.Array(types.{out}, 1, "C")
SIGNATURE = types.void(*[PLACES] * 5, types.int64, DATA, X, OUT, types.uintp, types.uintp)


@typed(SIGNATURE)
def kernel(heads, columns, places, first, parts, turned, data, x, out, lo, hi):
    for part in range(lo, hi):
        for strip in range(U(parts[part]), U(parts[part + ONE])):
            i, stop = U(first[strip]), U(first[strip + ONE])
            at, k = U(places[strip]), U(heads[i])
            width, height = U(heads[i + ONE]) - k, stop - i
            along, down = (height, ONE) if turned == TURNED else (ONE, width)
            a, b, c = ZERO, ZERO, ZERO
            if height == THREE:
                for j in range(at, at + width):
                    v = x[U(columns[j])]
                    a += F(data[k]) * v
                    b += F(data[k + down]) * v
                    c += F(data[k + down + down]) * v
                    k += along
                out[i + ONE] = b
                out[i + TWO] = c
            elif height == TWO:
                for j in range(at, at + width):
                    v = x[U(columns[j])]
                    a += F(data[k]) * v
                    b += F(data[k + down]) * v
                    k += along
                out[i + ONE] = b
            else:
                for j in range(at, at + width):
                    a += F(data[k]) * x[U(columns[j])]
                    k += along
            out[i] = a
"""

_OF_COLUMNS = """
CONTRACT = "columns[nnz], data[nnz], first[n], begins[n + 1], out[size], heads[ends], hi < ends"
DISTINCT = True
U, ONE = np.uintp, np.uintp(1)
PLACES, DATA = (types.Array(t, 1, "C", readonly=True) for t in (types.{places}, types.float64))
OUT = types.Array(types.float64, 1, "C")
SIGNATURE = types.void(PLACES, PLACES, DATA, PLACES, PLACES, OUT, types.uintp, types.uintp)


@typed(SIGNATURE)
def kernel(heads, columns, data, begins, first, out, lo, hi):
    for i in range(lo, hi):
        start = U(heads[i])
        for k in range(U(heads[i]), U(heads[i + ONE])):
            c = U(columns[k])
            if columns[start] < first[c]:
                start = k
            for j in range(start, k + ONE):
                out[U(begins[c] + columns[j] - first[c])] += data[k] * data[j]
"""


class Strips(NamedTuple):
    """The rows of a pattern in strips; arrays of one dtype, int32 or int64.

    Attributes:
        heads: where the entries of each row begin, and end.
        columns: of the strips, without repetitions of those of one above.
        places: where the columns of each strip begin.
        first: row of each strip, and how many rows there are.
        parts: the first strip of each part, and how many strips there are.
    """

    heads: Any
    columns: Any
    places: Any
    first: Any
    parts: Any


def strips(heads: Any, columns: Any) -> Strips:
    """Return the strips of a pattern.

    Args:
        heads: where the entries of each row begin, and end; int32 or int64.
        columns: of the entries, in ascending order in each row, likewise.
    """
    lengths = np.diff(heads)
    starts = _runs(heads, columns)
    first, run = cut(starts, lengths.size, HEIGHT)
    begins = np.cumsum(lengths[starts]) - lengths[starts]
    ends = np.append(first, lengths.size)
    entries = heads[ends]
    cuts = np.searchsorted(entries, np.arange(0, max(1, entries[-1]), PART))
    parts = np.unique(np.append(cuts, first.size))
    alone = np.zeros(lengths.size, bool)
    alone[starts] = True
    kept = columns[np.repeat(alone, lengths)]
    return Strips(*(np.asarray(x, heads.dtype) for x in (heads, kept, begins[run], ends, parts)))


def _runs(heads: Any, columns: Any) -> Any:
    """Return the first one of each run of rows with the same columns; arguments as of `strips`."""
    lengths = np.diff(heads)
    # at the same place of its row
    above = np.maximum(np.arange(columns.size) - np.repeat(lengths, lengths), 0)
    differ = np.append(0, np.cumsum(columns != columns[above]))[heads]
    differs = (lengths[1:] != lengths[:-1]) | (differ[2:] > differ[1:-1])
    return np.flatnonzero(np.append(True, differs)[: lengths.size])


def cut(starts: Any, stop: int, most: int) -> tuple[Any, Any]:
    """Return where runs begin that are cut into equal ones, of `most` at most, and which they are of."""
    lengths = np.diff(np.append(starts, stop))
    counts = -(-lengths // most)
    run = np.repeat(np.arange(starts.size), counts)
    turn = np.arange(run.size) - (np.cumsum(counts) - counts)[run]
    return starts[run] + turn * lengths[run] // counts[run], run


def turned(pattern: Strips, order: Any) -> Any:
    """Return `order`, which says where the entries come from, for those of strips one column after the other.

    Args:
        pattern: the strips.
        order: an integer for each entry, row by row.
    """
    heights, made = np.diff(pattern.first), np.empty_like(order)
    row = np.repeat(np.arange(pattern.heads.size - 1), np.diff(pattern.heads))
    strip = np.repeat(np.arange(heights.size), heights)[row]
    top, column = pattern.first[strip], np.arange(order.size) - pattern.heads[row]
    made[pattern.heads[top] + column * heights[strip] + row - top] = order
    return made


@cache
def _kernel(text: str, **chars: str) -> Loop:
    return compiled(f"{text.strip().format(**{k: np.dtype(c).name for k, c in chars.items()})}\n")


def product(pattern: Strips, data: Any, x: Any, *, along: bool) -> Any:
    """Return the product of a matrix and a vector.

    Args:
        pattern: the strips of the matrix.
        data: its entries, float32 or float64.
        x: a contiguous vector, float32 or float64, of no less precision.
        along: whether entries are in the order of the rows; otherwise as `turned` has them.
    """
    out = np.empty(pattern.heads.size - 1, x.dtype)
    loop = _kernel(_TEXT, data=data.dtype.char, out=x.dtype.char, places=pattern.heads.dtype.char)
    args = (*pattern, int(not along), data, x, out)
    threads.share(loop, args, pattern.parts.size - 1, data.size)
    return out


def of_columns(heads: Any, columns: Any, data: Any, begins: Any, first: Any) -> Any:
    """Return the products of the columns of blocks with each other, on their diagonals and below, else zeros.

    Args:
        heads: where the entries of each row begin, and end; int32 or int64.
        columns: of the entries, in ascending order in each row; as all that follow, of the same dtype.
        data: the entries, float64.
        begins: where the row of each column begins, with as many numbers as its block has columns, and where
            the last one ends.
        first: column of the block of each column.
    """
    out, first = np.zeros(begins[-1]), first.astype(heads.dtype)
    _kernel(_OF_COLUMNS, places=heads.dtype.char)(heads, columns, data, begins, first, out, 0, heads.size - 1)
    return out
