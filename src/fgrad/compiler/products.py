"""Contractions as products of matrices that BLAS computes, one after the other for shared axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from fgrad.compiler.elements import shape_of
from fgrad.core.aval import Shape
from fgrad.core.program import Equation, Var
from fgrad.kernels import blas, native


class Product(NamedTuple):
    """A kernel, its numbers, how many turns its loop has, and how many multiplications that takes."""

    kernel: native.Kernel
    numbers: list[int]
    turns: int
    work: int


class _Matrices(NamedTuple):
    """How an operand lies in memory: strides along shared, row and column axes, each taken as one."""

    shared: int
    row: int
    column: int


def product(equation: Equation, slots: dict[Var, int]) -> Product | None:
    """Return the call of BLAS that a contraction is; None where it is none."""
    if equation.name != "contract":
        return None
    x, y = equation.args
    (z,) = equation.outs
    if not (isinstance(x, Var) and isinstance(y, Var)) or x.aval.dtype != y.aval.dtype:
        return None
    if x.aval.dtype.char not in "fd" or not x.aval.dtype.isnative or 0 in (*x.aval.shape, *y.aval.shape):
        return None
    a, b, out = (equation.params[k] for k in ("a", "b", "out"))
    lengths = dict(zip(a + b, (*shape_of(x), *shape_of(y)), strict=True))
    shared = [c for c in out if c in a and c in b and lengths[c] > 1]
    rows = [c for c in out if c not in b and lengths[c] > 1]
    columns = [c for c in out if c not in a and lengths[c] > 1]
    summed = [c for c in a if c not in out and lengths[c] > 1]
    m, n, k, count = (math.prod(lengths[c] for c in g) for g in (rows, columns, summed, shared))
    made = blas.gemm(x.aval.dtype.name)
    first = _strides(a, x.aval.shape, (shared, rows, summed))
    second = _strides(b, y.aval.shape, (shared, summed, columns))
    third = _strides(out, z.aval.shape, (shared, rows, columns))
    if made is None or first is None or second is None or third is None:
        return None
    places = (slots[x], slots[y], slots[z])
    if third.column != 1 and n > 1:  # the transposed product lies as asked
        first, second, third = (_Matrices(s.shared, s.column, s.row) for s in (second, first, third))
        m, n, places = n, m, (places[1], places[0], places[2])
    flips = _flip(first, m, k), _flip(second, k, n)
    plain = _flip(third, m, n)
    if None in flips or plain is None or plain[0]:
        return None
    (flip_a, leading_a), (flip_b, leading_b), (_, leading_c) = flips[0], flips[1], plain  # type: ignore[misc]
    strides = (first.shared, second.shared, third.shared)
    work = m * n * k * count
    vector = _vector(x.aval.dtype.name, places, (m, n, k), (flip_a, flip_b), (leading_a, leading_b), strides)
    if vector is not None:
        return Product(*vector, count, work)
    numbers = made.args(
        places,
        (m, n, k),
        transposed=(flip_a, flip_b),
        leading=(leading_a, leading_b, leading_c),
        strides=strides,
    )
    return Product(made.kernel, numbers, count, work)


def _vector(
    dtype: str,
    places: tuple[int, int, int],
    sizes: tuple[int, int, int],
    flips: tuple[bool, bool],
    leading: tuple[int, int],
    strides: tuple[int, int, int],
) -> tuple[native.Kernel, list[int]] | None:
    """Return the product with a vector, where one of the operands is one."""
    m, n, k = sizes
    made = blas.gemv(dtype)
    if made is None or k == 1 or (m > 1 and n > 1):
        return None
    if n == 1:
        inner = (k, m) if flips[0] else (m, k)
        step = leading[1] if not flips[1] else 1
        numbers = made.args(
            places, inner, transposed=flips[0], leading=leading[0], steps=(step, 1), strides=strides
        )
        return made.kernel, numbers
    inner = (n, k) if flips[1] else (k, n)
    step = leading[0] if flips[0] else 1
    numbers = made.args(
        (places[1], places[0], places[2]),
        inner,
        transposed=not flips[1],
        leading=leading[1],
        steps=(step, 1),
        strides=(strides[1], strides[0], strides[2]),
    )
    return made.kernel, numbers


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
