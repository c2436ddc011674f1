"""Contractions: which are written out in kernels, and which are matrix products for BLAS.

BLAS multiplies one pair of matrices after the other for shared axes, or for leading axes that only one of the
operands has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from fgrad.compiler.elements import SMALL, shape_of
from fgrad.compiler.library import LIBRARY, Launch
from fgrad.core.aval import Shape
from fgrad.core.program import Equation, Var
from fgrad.kernels import blas, native

TEXT = 512, 128  # terms of a product that is written out, at most: of matrices, and of arrays of more axes
FEW = 4  # elements along each axis of a matrix of turns and places, by which many vectors are multiplied
# of products: how many terms OpenBLAS adds up in the calling thread, of matrices and of vectors; how many are
# worth the threads of programs; of how many it makes more with its own than pieces would
ALONE, ALONE_BY_VECTOR = 1 << 18, 9 << 10
WORTH, MANY = 1 << 20, 1 << 24
SIDE, TERMS = 16, 64  # of a piece, at least, but for what is shorter
PARTS = 4  # pieces of a product, at least, for threads
LONG = 4096  # numbers of a vector that stay in the cache


class _Matrices(NamedTuple):
    """How an operand lies in memory: strides along shared, row and column axes, each taken as one."""

    shared: int
    row: int
    column: int


def is_inline(equation: Equation) -> bool:
    """Return whether a contraction is written out: over a short axis, where BLAS has little to gain."""
    a, b, out = (equation.params[k] for k in ("a", "b", "out"))
    lengths = _lengths(equation)
    summed = math.prod(n for c, n in lengths.items() if c not in out)
    if summed > SMALL:
        return False
    own = [n for c, n in lengths.items() if not (c in a and c in b and c in out)]
    long = sum(n > SMALL for n in own)
    if summed == 1 or long:
        return summed == 1 or (long == 1 and all(n <= FEW or n == max(own) for n in own))
    return len(own) < len(lengths) or math.prod(own) <= TEXT[len(own) > 3]


def arranged(a: str, b: str, out: str) -> tuple[str, str, str]:
    """Return the order of axes in which operands and result of a contraction are stacks of matrices."""
    shared = "".join(c for c in out if c in a and c in b)
    rows, columns = ("".join(c for c in out if c not in other) for other in (b, a))
    summed = "".join(c for c in a if c not in out)
    return shared + rows + summed, shared + summed + columns, shared + rows + columns


def _lengths(equation: Equation) -> dict[str, int]:
    letters = equation.params["a"] + equation.params["b"]
    return dict(zip(letters, (n for v in equation.args for n in shape_of(v)), strict=True))


def product(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the call of BLAS that a contraction is; None where it is none."""
    x, y = equation.args
    (z,) = equation.outs
    if not (isinstance(x, Var) and isinstance(y, Var)) or x.aval.dtype != y.aval.dtype:
        return None
    if x.aval.dtype.char not in "fd" or not x.aval.dtype.isnative or 0 in (*x.aval.shape, *y.aval.shape):
        return None
    a, b, out = (equation.params[k] for k in ("a", "b", "out"))
    lengths = _lengths(equation)
    shared = [c for c in out if c in a and c in b and lengths[c] > 1]
    rows = [c for c in out if c not in b and lengths[c] > 1]
    columns = [c for c in out if c not in a and lengths[c] > 1]
    summed = [c for c in a if c not in out and lengths[c] > 1]
    if blas.gemm(x.aval.dtype.name) is None:
        return None
    for repeated, own, others in _repetitions(shared, rows, columns):
        m, n, k, count = (math.prod(lengths[c] for c in g) for g in (own, others, summed, repeated))
        first = _strides(a, x.aval.shape, (repeated, own, summed))
        second = _strides(b, y.aval.shape, (repeated, summed, others))
        third = _strides(out, z.aval.shape, (repeated, own, others))
        if first is None or second is None or third is None:
            continue
        matrices, places = (first, second, third), (slots[x], slots[y], slots[z])
        found = _called(x.aval.dtype.name, matrices, places, (m, n, k), count)
        if found is not None:
            return found
    return None


def _repetitions(
    shared: list[str], rows: list[str], columns: list[str]
) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """Yield along which axes matrices may be multiplied one by one, and what rows and columns are then."""
    yield shared, rows, columns
    if not shared:
        yield from ((rows[:i], rows[i:], columns) for i in range(1, len(rows)))
        yield from ((columns[:i], rows, columns[i:]) for i in range(1, len(columns)))


def _called(
    dtype: str,
    matrices: tuple[_Matrices, _Matrices, _Matrices],
    places: tuple[int, int, int],
    sizes: tuple[int, int, int],
    count: int,
) -> Launch | None:
    """Return `count` products of matrices that lie in memory as said; None where BLAS has no way."""
    (first, second, third), (m, n, k) = matrices, sizes
    if third.column != 1 and n > 1:  # the transposed product lies as asked
        first, second, third = (_Matrices(s.shared, s.column, s.row) for s in (second, first, third))
        m, n, places = n, m, (places[1], places[0], places[2])
    flips = _flip(first, m, k), _flip(second, k, n)
    plain = _flip(third, m, n)
    if None in flips or plain is None or plain[0]:
        return None
    (flip_a, leading_a), (flip_b, leading_b), (_, leading_c) = flips[0], flips[1], plain  # type: ignore[misc]
    leading = (leading_a, leading_b, leading_c)
    strides = (first.shared, second.shared, third.shared)
    work = m * n * k * count
    vector = _vector(dtype, places, (m, n, k), (flip_a, flip_b), leading, strides)
    if vector is not None:
        kernel, numbers, parts = vector
        return Launch(kernel, numbers, count * parts, work, shared=work >= WORTH)
    made = blas.gemm(dtype)
    assert made is not None  # noqa: S101 -- `product` has asked
    piece = _piece(m, n, k, count)
    args = partial(
        made.args, places, (m, n, k), transposed=(flip_a, flip_b), leading=leading, strides=strides
    )
    parts = -(-m // piece[0]) * -(-n // piece[1])
    shared = math.prod(piece) <= ALONE and work >= WORTH
    whole = (args(piece=(m, n, k)), count) if piece != (m, n, k) else None
    return Launch(made.kernel, args(piece=piece), count * parts, work, shared=shared, whole=whole)


def _piece(m: int, n: int, k: int, count: int) -> tuple[int, int, int]:
    """Return the sizes of what BLAS multiplies at a time, which depend on the sizes of the product alone."""
    work = m * n * k
    if work * count < WORTH or work > MANY:
        return m, n, k
    rows, columns, terms = m, n, k
    while True:
        parts = count * -(-m // rows) * -(-n // columns)
        if rows * columns * terms <= ALONE and parts >= PARTS:
            return rows, columns, terms
        side = max(rows, columns)
        if side > (SIDE if parts < PARTS else 2 * SIDE):
            rows, columns = (-(-rows // 2), columns) if rows == side else (rows, -(-columns // 2))
        elif rows * columns * terms <= ALONE:
            return rows, columns, terms
        elif terms > TERMS:
            terms = -(-terms // 2)
        else:
            return m, n, k


def _vector(
    dtype: str,
    places: tuple[int, int, int],
    sizes: tuple[int, int, int],
    flips: tuple[bool, bool],
    leading: tuple[int, int, int],
    strides: tuple[int, int, int],
) -> tuple[native.Kernel, list[int], int] | None:
    """Return the product with a vector, where one of the operands is one, and how many pieces it has."""
    m, n, k = sizes
    made = blas.gemv(dtype)
    if made is None or k == 1 or (m > 1 and n > 1):
        return None
    if n > 1:  # the transposed product, of a matrix and a vector
        m, places, strides = n, (places[1], places[0], places[2]), (strides[1], strides[0], strides[2])
        flips, leading = (not flips[1], not flips[0]), (leading[1], leading[0], 1)
    inner = (k, m) if flips[0] else (m, k)
    steps = leading[1] if not flips[1] else 1, leading[2]
    piece = _vector_piece(m, k, turned=flips[0])
    numbers = made.args(
        places, inner, transposed=flips[0], leading=leading[0], steps=steps, strides=strides, piece=piece
    )
    return made.kernel, numbers, -(-m // piece[0])


def _vector_piece(size: int, k: int, *, turned: bool) -> tuple[int, int]:
    """Return how many numbers of the result, and terms of each, BLAS computes at a time."""
    if size * k < ALONE_BY_VECTOR:
        return size, k
    if turned:  # all of the result, row after row of the matrix; some of it, where threads share it
        rows = min(LONG, -(-size // PARTS) if size * k >= WORTH else size)
        return rows, max(1, (ALONE_BY_VECTOR - 1) // rows)
    terms = min(LONG, k)
    return max(1, min(size, (ALONE_BY_VECTOR - 1) // terms)), terms


def _flip(matrix: _Matrices, rows: int, columns: int) -> tuple[bool, int] | None:
    """Return whether a matrix lies transposed, and the stride of its lines; None where BLAS has no way."""
    row, column = matrix.row, matrix.column
    if columns == 1 and rows == 1:
        return False, 1
    if columns == 1:
        return False, row
    if rows == 1:
        return (False, columns) if column == 1 else (True, column)
    if column == 1 and row >= columns:
        return False, row
    if row == 1 and column >= rows:
        return True, column
    return None


def _strides(letters: str, shape: Shape, groups: Sequence[Sequence[str]]) -> _Matrices | None:
    """Return the stride of each group of axes taken as one; None where they do not follow one another."""
    step, steps = 1, {}
    for c, n in zip(reversed(letters), reversed(shape), strict=True):
        steps[c] = step
        step *= n
    lengths = dict(zip(letters, shape, strict=True))
    found = []
    for group in groups:
        own = [c for c in group if c in lengths]
        if any(steps[c] != steps[d] * lengths[d] for c, d in pairwise(own)):
            return None
        found.append(steps[own[-1]] if own else 0)
    return _Matrices(*found)


LIBRARY["contract"] = product
