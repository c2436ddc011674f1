"""Factorizations of small matrices and systems with them, for programs and for large stacks of arrays.

Of a stack, `LANES` matrices lie side by side in the memory of a kernel, so that each instruction works on all
of them, the last matrix several times where there are fewer; threads share the stack. A matrix that a kernel
does not trust, because a pivot is zero to rounding or not a number, is reported: NumPy, which computes in
another order, is then asked, and what it says holds. So the same matrices are refused whoever computes.
How far rounding errors may have grown in a pivot is first judged by what cancelled before it; where that is
too much, by the derivative of the pivot with respect to each element, times its rounding error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fgrad.kernels import checks, intrinsics, native, threads, vm

MOST = 32  # rows of a small matrix
SIDE_BY_SIDE = 16  # rows of matrices that are computed several at a time
LANES = 8  # of these
MANY = 32  # arrays in a stack that Python should not go through
ROOM = 4096  # elements of an array of a kernel's own

_HEAD = """
CONTRACT = "{contract}"
F, LANES, ZERO, ONE = np.{dtype}, np.uintp({lanes}), np.uintp(0), np.uintp(1)
EPS, NOTHING, REFUSED = F({eps!r}), F(0.0), {refused}


@helper
def judge(worst, failed):
    for lane in range(LANES):
        if not worst[lane] > NOTHING:
            failed[0] = REFUSED
"""

_CHOLESKY = """

@helper
def read(a, w, diagonal, first, last, n):
    size = n * n
    for i in range(n):
        for k in range(i + ONE):
            for lane in range(LANES):
                w[(i * n + k) * LANES + lane] = a[min(first + lane, last) * size + i * n + k]
        for lane in range(LANES):
            diagonal[i * LANES + lane] = w[(i * n + i) * LANES + lane]


@helper
def factor(w, column, diagonal, left, worst, n):
    # what earlier differences have left of elements of the diagonal says how far rounding errors have grown
    tiny = F(4.0) * EPS * F(np.int64(n))
    for lane in range(LANES):
        left[lane], worst[lane] = F(1.0), F(1.0)
    for j in range(n):
        for lane in range(LANES):
            d, whole = w[(j * n + j) * LANES + lane], diagonal[j * LANES + lane]
            worst[lane] = smaller(worst[lane], d * left[lane] - tiny * whole)
            left[lane] = smaller(left[lane], d / whole)
            w[(j * n + j) * LANES + lane] = math.sqrt(d)
        for i in range(j + ONE, n):
            for lane in range(LANES):
                v = w[(i * n + j) * LANES + lane] / w[(j * n + j) * LANES + lane]
                w[(i * n + j) * LANES + lane] = v
                column[i * LANES + lane] = v
        for i in range(j + ONE, n):
            for k in range(j + ONE, i + ONE):
                for lane in range(LANES):
                    at = (i * n + k) * LANES + lane
                    w[at] = w[at] - column[i * LANES + lane] * column[k * LANES + lane]


@helper
def look_closely(w, v, diagonal, worst, n):
    # v_k tells how a pivot changes with row k of the matrix
    tiny = F(2.0) * EPS * F(np.int64(n))
    for lane in range(LANES):
        if not worst[lane] > NOTHING:
            worst[lane] = F(1.0)
            for j in range(n):
                v[j], total = F(1.0), math.sqrt(diagonal[j * LANES + lane])
                for back in range(j):
                    k = j - ONE - back
                    u = NOTHING
                    for i in range(k + ONE, j + ONE):
                        u = u - v[i] * w[(i * n + k) * LANES + lane]
                    v[k] = u / w[(k * n + k) * LANES + lane]
                    total = total + abs(v[k]) * math.sqrt(diagonal[k * LANES + lane])
                d = w[(j * n + j) * LANES + lane]
                worst[lane] = smaller(worst[lane], d * d - tiny * total * total)


@helper
def write(w, out, first, last, n):
    for i in range(n):
        for k in range(n):
            for lane in range(LANES):
                v = w[(i * n + k) * LANES + lane]
                out[min(first + lane, last) * n * n + i * n + k] = v if k <= i else NOTHING


def kernel(slots, args, lo, hi):
    a, out = alone({dtype}_at(slots, args, 0)), alone({dtype}_at(slots, args, 1))
    failed, last, n = int64_at(slots, args, 2), np.uintp(args[3]) - ONE, np.uintp(args[4])
    w, column = np.empty({matrix}, F), np.empty({column}, F)
    diagonal, left, worst = np.empty({column}, F), np.empty({lanes}, F), np.empty({lanes}, F)
    for block in range(lo, hi):
        first = np.uintp(block) * LANES
        read(a, w, diagonal, first, last, n)
        factor(w, column, diagonal, left, worst, n)
        look_closely(w, column, diagonal, worst, n)
        judge(worst, failed)
        write(w, out, first, last, n)
"""

# Every triangle is read as a lower one: an upper one from its last row and column on.
_TRIANGULAR = """
WIDE = np.uintp({wide})


@helper
def read(a, w, worst, first, last, n, lower, unit, turned):
    size, sign = np.int64(n), 1 if lower != 0 else -1
    start = 0 if lower != 0 else size * size - 1
    down, across = (sign, sign * size) if turned != 0 else (sign * size, sign)
    for lane in range(LANES):
        worst[lane] = F(1.0)
    for i in range(n):
        for k in range(i + ONE):
            at = start + np.int64(i) * down + np.int64(k) * across
            for lane in range(LANES):
                w[(i * n + k) * LANES + lane] = a[np.int64(min(first + lane, last)) * size * size + at]
        for lane in range(LANES):
            d = w[(i * n + i) * LANES + lane] if unit == 0 else F(1.0)
            worst[lane] = worst[lane] if d != NOTHING else NOTHING
            w[(i * n + i) * LANES + lane] = d


@helper
def solve(w, x, row, width, n):
    for i in range(n):
        for k in range(width * LANES):
            row[k] = x[i * WIDE * LANES + k]
        for j in range(i):
            for k in range(width):
                for lane in range(LANES):
                    at = k * LANES + lane
                    row[at] = row[at] - w[(i * n + j) * LANES + lane] * x[j * WIDE * LANES + at]
        for k in range(width):
            for lane in range(LANES):
                at = k * LANES + lane
                x[i * WIDE * LANES + at] = row[at] / w[(i * n + i) * LANES + lane]


def kernel(slots, args, lo, hi):
    a, b = alone({dtype}_at(slots, args, 0)), alone({dtype}_at(slots, args, 1))
    out, failed = alone({dtype}_at(slots, args, 2)), int64_at(slots, args, 3)
    last, n, columns = np.uintp(args[4]) - ONE, np.uintp(args[5]), np.uintp(args[6])
    w, x = np.empty({matrix}, F), np.empty({sides}, F)
    row, worst = np.empty({row}, F), np.empty({lanes}, F)
    for block in range(lo, hi):
        first = np.uintp(block) * LANES
        read(a, w, worst, first, last, n, args[7], args[8], args[9])
        judge(worst, failed)
        left = ZERO
        while left < columns:
            width = min(WIDE, columns - left)
            for i in range(n):
                at = (i if args[7] != 0 else n - ONE - i) * columns + left
                for k in range(width):
                    for lane in range(LANES):
                        v = b[min(first + lane, last) * n * columns + at + k]
                        x[(i * WIDE + k) * LANES + lane] = v
            solve(w, x, row, width, n)
            for i in range(n):
                at = (i if args[7] != 0 else n - ONE - i) * columns + left
                for k in range(width):
                    for lane in range(LANES):
                        v = x[(i * WIDE + k) * LANES + lane]
                        out[min(first + lane, last) * n * columns + at + k] = v
            left += WIDE
"""


# The pivot of a column is its largest element, as LAPACK's. Rows of `w` change places, and with them `order`
# and `rows`, the largest elements of rows.
_LU = """
WIDE, HUGE, LITTLE = np.uintp({wide}), F({huge!r}), F(1.0 / {huge!r})


@helper
def read(a, w, columns, rows, order, worst, sign, first, last, n, step, turned):
    down, across = (ONE, n) if turned != 0 else (n, ONE)
    for lane in range(LANES):
        worst[lane], sign[lane] = F(1.0), F(1.0)
    for i in range(n):
        for lane in range(LANES):
            rows[i * LANES + lane], columns[i * LANES + lane] = NOTHING, NOTHING
            order[i * LANES + lane] = i
    for i in range(n):
        for k in range(n):
            for lane in range(LANES):
                v = F(a[min(first + lane, last) * step + i * down + k * across])
                w[(i * n + k) * LANES + lane] = v
                rows[i * LANES + lane] = larger(rows[i * LANES + lane], abs(v))
                columns[k * LANES + lane] = larger(columns[k * LANES + lane], abs(v))


@helper
def factor(w, columns, rows, order, worst, least, sign, best, place, left, above, n):
    tiny = F(4.0) * EPS * F(np.int64(n))
    for lane in range(LANES):
        least[lane] = F(1.0)
    for j in range(n):
        for lane in range(LANES):
            best[lane], place[lane] = abs(w[(j * n + j) * LANES + lane]), j
        for i in range(j + ONE, n):
            for lane in range(LANES):
                v, most, found = abs(w[(i * n + j) * LANES + lane]), best[lane], place[lane]
                place[lane] = i if v > most else found
                best[lane] = v if v > most else most
        for lane in range(LANES):
            p = place[lane]
            if p != j:
                sign[lane] = -sign[lane]
                for k in range(n):
                    held = w[(p * n + k) * LANES + lane]
                    w[(p * n + k) * LANES + lane] = w[(j * n + k) * LANES + lane]
                    w[(j * n + k) * LANES + lane] = held
                held = rows[p * LANES + lane]
                rows[p * LANES + lane] = rows[j * LANES + lane]
                rows[j * LANES + lane] = held
                other = order[p * LANES + lane]
                order[p * LANES + lane] = order[j * LANES + lane]
                order[j * LANES + lane] = other
        for lane in range(LANES):
            d = w[(j * n + j) * LANES + lane]
            size = smaller(rows[j * LANES + lane], columns[j * LANES + lane])
            worst[lane] = smaller(worst[lane], abs(d) * least[lane] - tiny * size)
            least[lane] = smaller(least[lane], abs(d) / size)
            best[lane] = d if d != NOTHING else F(1.0)  # below a pivot of zero are zeros
        for k in range(j + ONE, n):
            for lane in range(LANES):
                above[k * LANES + lane] = w[(j * n + k) * LANES + lane]
        for i in range(j + ONE, n):
            for lane in range(LANES):
                v = w[(i * n + j) * LANES + lane] / best[lane]
                w[(i * n + j) * LANES + lane] = v
                left[lane] = v
            for k in range(j + ONE, n):
                for lane in range(LANES):
                    at = (i * n + k) * LANES + lane
                    w[at] = w[at] - left[lane] * above[k * LANES + lane]


@helper
def look_closely(w, v, columns, rows, worst, n):
    # v_k tells how a pivot changes with row k of the matrix, then with column k
    tiny = F(2.0) * EPS * F(np.int64(n))
    for lane in range(LANES):
        if not worst[lane] > NOTHING:
            worst[lane] = F(1.0)
            for j in range(n):
                across, down = math.sqrt(rows[j * LANES + lane]), math.sqrt(columns[j * LANES + lane])
                v[j] = F(1.0)
                for back in range(j):
                    k = j - ONE - back
                    u = NOTHING
                    for i in range(k + ONE, j + ONE):
                        u = u - v[i] * w[(i * n + k) * LANES + lane]
                    v[k] = u
                    across = across + abs(u) * math.sqrt(rows[k * LANES + lane])
                for back in range(j):
                    k = j - ONE - back
                    u = NOTHING
                    for i in range(k + ONE, j + ONE):
                        u = u - v[i] * w[(k * n + i) * LANES + lane]
                    v[k] = u / w[(k * n + k) * LANES + lane]
                    down = down + abs(v[k]) * math.sqrt(columns[k * LANES + lane])
                d = abs(w[(j * n + j) * LANES + lane])
                worst[lane] = smaller(worst[lane], d - tiny * across * down)


@helper
def substitute(w, x, row, width, n):
    for i in range(n):
        for k in range(width * LANES):
            row[k] = x[i * WIDE * LANES + k]
        for j in range(i):
            for k in range(width):
                for lane in range(LANES):
                    at = k * LANES + lane
                    row[at] = row[at] - w[(i * n + j) * LANES + lane] * x[j * WIDE * LANES + at]
        for k in range(width * LANES):
            x[i * WIDE * LANES + k] = row[k]
    for back in range(n):
        i = n - ONE - back
        for k in range(width * LANES):
            row[k] = x[i * WIDE * LANES + k]
        for j in range(i + ONE, n):
            for k in range(width):
                for lane in range(LANES):
                    at = k * LANES + lane
                    row[at] = row[at] - w[(i * n + j) * LANES + lane] * x[j * WIDE * LANES + at]
        for k in range(width):
            for lane in range(LANES):
                at = k * LANES + lane
                x[i * WIDE * LANES + at] = row[at] / w[(i * n + i) * LANES + lane]


@helper
def logarithm(w, lane, n):
    # the product of the pivots is that of the results, the second of which is given by its logarithm
    size, rest = F(1.0), NOTHING
    for j in range(n):
        size = size * abs(w[(j * n + j) * LANES + lane])
        if size > HUGE or size < LITTLE:
            rest, size = rest + math.log(size), F(1.0)
    return size, rest


@helper
def signed(w, sign, lane, n):
    s = sign[lane]
    for j in range(n):
        d = w[(j * n + j) * LANES + lane]
        s = -s if d < NOTHING else s
    return s


@helper
def determinant(w, sign, lane, n):
    size, rest = logarithm(w, lane, n)
    if rest != NOTHING:
        size = math.exp(rest + math.log(size))
    return size * signed(w, sign, lane, n)
"""

_ROOM_OF_LU = """
    w, largest, rows = np.empty({matrix}, F), np.empty({column}, F), np.empty({column}, F)
    above, order, place = np.empty({column}, F), np.empty({column}, np.uintp), np.empty({lanes}, np.uintp)
    best, left = np.empty({lanes}, F), np.empty({lanes}, F)
    sign, worst, least = np.empty({lanes}, F), np.empty({lanes}, F), np.empty({lanes}, F)
"""

_SOLVE = f"""

def kernel(slots, args, lo, hi):
    a, b = alone({{given}}_at(slots, args, 0)), alone({{given}}_at(slots, args, 1))
    out, failed = alone({{given}}_at(slots, args, 2)), int64_at(slots, args, 3)
    last, n, columns = np.uintp(args[4]) - ONE, np.uintp(args[5]), np.uintp(args[6])
    step, along, turned = np.uintp(args[7]), np.uintp(args[8]), args[9]
    x, row = np.empty({{sides}}, F), np.empty({{row}}, F)
{_ROOM_OF_LU.strip(chr(10))}
    for block in range(lo, hi):
        first = np.uintp(block) * LANES
        if step != ZERO or block == lo:
            read(a, w, largest, rows, order, worst, sign, first, last, n, step, turned)
            factor(w, largest, rows, order, worst, least, sign, best, place, left, above, n)
            look_closely(w, above, largest, rows, worst, n)
            judge(worst, failed)
        start = ZERO
        while start < columns:
            width = min(WIDE, columns - start)
            for i in range(n):
                for k in range(width):
                    for lane in range(LANES):
                        at = min(first + lane, last) * along + order[i * LANES + lane] * columns
                        x[(i * WIDE + k) * LANES + lane] = b[at + start + k]
            substitute(w, x, row, width, n)
            for i in range(n):
                for k in range(width):
                    for lane in range(LANES):
                        v = x[(i * WIDE + k) * LANES + lane]
                        out[min(first + lane, last) * n * columns + i * columns + start + k] = v
            start += WIDE
"""

_DET = f"""

def kernel(slots, args, lo, hi):
    a, out = alone({{given}}_at(slots, args, 0)), alone({{given}}_at(slots, args, 1))
    last, n = np.uintp(args[2]) - ONE, np.uintp(args[3])
{_ROOM_OF_LU.strip(chr(10))}
    for block in range(lo, hi):
        first = np.uintp(block) * LANES
        read(a, w, largest, rows, order, worst, sign, first, last, n, n * n, 0)
        factor(w, largest, rows, order, worst, least, sign, best, place, left, above, n)
        for lane in range(LANES):
            out[min(first + lane, last)] = determinant(w, sign, lane, n)
"""

_SLOGDET = f"""

def kernel(slots, args, lo, hi):
    a, signs = alone({{given}}_at(slots, args, 0)), alone({{given}}_at(slots, args, 1))
    out, failed = alone({{given}}_at(slots, args, 2)), int64_at(slots, args, 3)
    last, n = np.uintp(args[4]) - ONE, np.uintp(args[5])
{_ROOM_OF_LU.strip(chr(10))}
    for block in range(lo, hi):
        first = np.uintp(block) * LANES
        read(a, w, largest, rows, order, worst, sign, first, last, n, n * n, 0)
        factor(w, largest, rows, order, worst, least, sign, best, place, left, above, n)
        look_closely(w, above, largest, rows, worst, n)
        judge(worst, failed)
        for lane in range(LANES):
            size, rest = logarithm(w, lane, n)
            signs[min(first + lane, last)] = signed(w, sign, lane, n)
            out[min(first + lane, last)] = rest + math.log(size)
"""

# Products of inverses cancel where a matrix is near to a singular one. Its adjugate is that of the upper
# factor, which takes no division ([[U, u], [0, d]] has the adjugate [[d adj U, -(adj U) u], [0, det U]]),
# times the inverse of the lower factor, which is well conditioned.
_COFACTOR = f"""
CONDITION = F({{condition!r}})


@helper
def adjugate(a, out, start, w, x, y, n):
    sign = F(1.0)
    for k in range(n * n):
        w[k], x[k] = F(a[start + k]), NOTHING
    for i in range(n):
        x[i * n + i] = F(1.0)
    for j in range(n):
        p, most = j, abs(w[j * n + j])
        for i in range(j + ONE, n):
            v = abs(w[i * n + j])
            p = i if v > most else p
            most = v if v > most else most
        if p != j:
            sign = -sign
            for k in range(n):
                held = w[p * n + k]
                w[p * n + k] = w[j * n + k]
                w[j * n + k] = held
                held = x[p * n + k]
                x[p * n + k] = x[j * n + k]
                x[j * n + k] = held
        d = w[j * n + j] if most > NOTHING else F(1.0)  # below a pivot of zero are zeros
        for i in range(j + ONE, n):
            v = w[i * n + j] / d
            for k in range(j + ONE, n):
                w[i * n + k] = w[i * n + k] - v * w[j * n + k]
            for k in range(n):
                x[i * n + k] = x[i * n + k] - v * x[j * n + k]
    for m in range(n):
        d = w[m * n + m]
        for i in range(m):
            v = NOTHING
            for k in range(i, m):
                v = v - y[i * n + k] * w[k * n + m]
                y[i * n + k] = y[i * n + k] * d
            y[i * n + m] = v
        y[m * n + m] = sign
        sign = sign * d
    for i in range(n):
        for k in range(n):
            v = NOTHING
            for m in range(i, n):
                v = v + y[i * n + m] * x[m * n + k]
            out[start + k * n + i] = v


def kernel(slots, args, lo, hi):
    a, out = alone({{given}}_at(slots, args, 0)), alone({{given}}_at(slots, args, 1))
    failed, last, n = int64_at(slots, args, 2), np.uintp(args[3]) - ONE, np.uintp(args[4])
    x, row, det = np.empty({{sides}}, F), np.empty({{row}}, F), np.empty({{lanes}}, F)
    close, adj = np.empty({{lanes}}, F), np.empty({{matrix}}, F)
{_ROOM_OF_LU.strip(chr(10))}
    for block in range(lo, hi):
        first = np.uintp(block) * LANES
        read(a, w, largest, rows, order, worst, sign, first, last, n, n * n, 0)
        factor(w, largest, rows, order, worst, least, sign, best, place, left, above, n)
        look_closely(w, above, largest, rows, worst, n)
        for i in range(n):
            for k in range(n):
                for lane in range(LANES):
                    x[(i * WIDE + k) * LANES + lane] = F(1.0) if order[i * LANES + lane] == k else NOTHING
        substitute(w, x, row, n, n)
        for lane in range(LANES):
            det[lane] = determinant(w, sign, lane, n)
            own, other = NOTHING, NOTHING
            for i in range(n):
                of_row, of_column = NOTHING, NOTHING
                for k in range(n):
                    of_row = of_row + abs(F(a[(min(first + lane, last) * n + i) * n + k]))
                    of_column = of_column + abs(x[(k * WIDE + i) * LANES + lane])
                own, other = larger(own, of_row), larger(other, of_column)
            close[lane] = CONDITION - own * other if worst[lane] > NOTHING else NOTHING
            worst[lane] = F(1.0) if math.isfinite(own) else NOTHING
        judge(worst, failed)
        for i in range(n):
            for k in range(n):
                for lane in range(LANES):
                    v = det[lane] * x[(k * WIDE + i) * LANES + lane]
                    out[min(first + lane, last) * n * n + i * n + k] = v
        for lane in range(LANES):
            if not close[lane] > NOTHING or not math.isfinite(det[lane]):
                adjugate(a, out, min(first + lane, last) * n * n, w, x, adj, n)
"""


class Routine(NamedTuple):
    """A kernel for stacks of matrices of one size, and how many matrices a step of its loop takes."""

    kernel: native.Kernel
    lanes: int

    def turns(self, count: int) -> int:
        """Return how many steps there are for so many matrices."""
        return -(-count // self.lanes)


def cholesky(dtype: str, n: int, count: int) -> Routine:
    """Return the kernel of the lower factors of definite matrices, whose lower triangles are read.

    Its numbers are the slots of the matrices, of their factors and of what failed, then `count` and `n`.
    """
    contract = "args(a, out, failed, count, n), len(a) == len(out) == count * n * n, len(failed) == 1"
    return _routine(_CHOLESKY, contract, dtype, n, count)


def triangular(dtype: str, n: int, count: int) -> Routine:
    """Return the kernel of the solutions of systems with triangular matrices.

    Its numbers are the slots of the matrices, of right-hand sides, of solutions and of what failed, then
    `count`, `n`, how many right-hand sides each matrix has, and whether the lower triangle is read, its
    diagonal stands for ones, and matrices lie transposed.
    """
    contract = (
        "args(a, b, out, failed, count, n, columns, lower, unit, turned), columns > 0, "
        "len(a) == count * n * n, len(b) == len(out) == count * n * columns, len(failed) == 1"
    )
    return _routine(_TRIANGULAR, contract, dtype, n, count)


def systems(dtype: str, n: int, count: int) -> Routine:
    """Return the kernel of the solutions of systems with square matrices.

    Its numbers are the slots of the matrices, of right-hand sides, of solutions and of what failed, then
    `count`, `n`, how many right-hand sides each matrix has, by how many elements one matrix, and its
    right-hand sides, are behind those before, 0 if all are the same; and whether matrices lie transposed.
    """
    contract = (
        "args(a, b, out, failed, count, n, columns, step, along, turned), "
        "columns > 0, min(step, along) >= 0, "
        "(count - 1) * step + n * n <= len(a), (count - 1) * along + n * columns <= len(b), "
        "len(out) == count * n * columns, len(failed) == 1"
    )
    return _routine(_LU + _SOLVE, contract, dtype, n, count)


def determinants(dtype: str, n: int, count: int) -> Routine:
    """Return the kernel of determinants: its numbers are the slots of matrices and results, `count`, `n`."""
    contract = "args(a, out, count, n), len(a) == count * n * n, len(out) == count"
    return _routine(_LU + _DET, contract, dtype, n, count)


def logarithms(dtype: str, n: int, count: int) -> Routine:
    """Return the kernel of the signs of determinants, and the logarithms of their sizes.

    Its numbers are the slots of the matrices, of both results and of what failed, then `count` and `n`.
    """
    contract = (
        "args(a, signs, out, failed, count, n), len(a) == count * n * n, len(signs) == len(out) == count, "
        "len(failed) == 1"
    )
    return _routine(_LU + _SLOGDET, contract, dtype, n, count)


def cofactors(dtype: str, n: int, count: int) -> Routine:
    """Return the kernel of matrices of cofactors, computed in float64; its numbers are `cholesky`'s."""
    contract = "args(a, out, failed, count, n), len(a) == len(out) == count * n * n, len(failed) == 1"
    return _routine(_LU + _COFACTOR, contract, dtype, n, count, computed="float64")


def solve_triangular(
    a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], *, lower: bool, unit: bool
) -> np.ndarray[Any, Any] | None:
    """Return what `blas.solve_triangular` does, None where that is no slower."""
    *lead, n, columns = b.shape
    count = math.prod(lead)
    if not _pays(a, n, count):
        return None
    turned = not a.flags.c_contiguous and np.swapaxes(a, -1, -2).flags.c_contiguous
    a, out = np.swapaxes(a, -1, -2) if turned else a, np.empty(b.shape, b.dtype)
    numbers = (count, n, columns, int(lower), int(unit), int(turned))
    routine = triangular(a.dtype.name, n, count)
    trusted = _run(routine, (a, b, out), numbers, work_of_triangular(n, count, columns))
    return out if trusted else None


def factor(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Return the lower factors of a stack of definite matrices; None where NumPy shall compute them."""
    return _of_matrices(cholesky, a, work_of_cholesky)


def cofactor(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Return matrices of cofactors; None where NumPy shall compute them."""
    return _of_matrices(cofactors, a, work_of_inverse)


def solve(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Return the solutions of a stack of systems; None where NumPy shall compute them."""
    n, columns = b.shape[-2:]
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    count = math.prod(lead)
    if a.shape[-2:] != (n, n) or a.dtype != b.dtype or b.__class__ is not np.ndarray:
        return None
    if not columns or not _pays(a, n, count):
        return None
    steps = []
    for x, size in ((a, n * n), (b, n * columns)):
        if x.size not in (size, count * size):
            return None
        steps.append(0 if x.size == size else size)
    out = np.empty((*lead, n, columns), a.dtype)
    routine, work = systems(a.dtype.name, n, count), work_of_systems(n, count, columns)
    return out if _run(routine, (a, b, out), (count, n, columns, *steps, 0), work) else None


def _of_matrices(
    kernel: Callable[..., Routine], a: np.ndarray[Any, Any], work: Callable[[int, int], int]
) -> np.ndarray[Any, Any] | None:
    """Return matrices of the same shape for a stack of them; None where NumPy shall compute them."""
    n, count, out = a.shape[-1], math.prod(a.shape[:-2]), np.empty(a.shape, a.dtype)
    if not _pays(a, n, count):
        return None
    return out if _run(kernel(a.dtype.name, n, count), (a, out), (count, n), work(n, count)) else None


def work_of_cholesky(n: int, count: int) -> int:
    """Return how many operations on single elements take as long as factors."""
    return count * n * n * (n + 12) // 8


def work_of_triangular(n: int, count: int, columns: int) -> int:
    """Return how many operations on single elements take as long as triangular systems."""
    return count * n * (n + columns * (n + 8) // 8)


def work_of_systems(n: int, count: int, columns: int) -> int:
    """Return how many operations on single elements take as long as systems."""
    return count * n * (n * (n + 16) // 6 + columns * (n + 8) // 4)


def work_of_lu(n: int, count: int) -> int:
    """Return the same of factors alone."""
    return work_of_systems(n, count, 0)


def work_of_inverse(n: int, count: int) -> int:
    """Return the same of inverses."""
    return work_of_systems(n, count, n)


def _pays(a: Any, n: int, count: int) -> bool:
    """Return whether a kernel is worth its compilation, and faster than calls one by one."""
    known = a.__class__ is np.ndarray and a.dtype.char in "fd" and a.dtype.isnative
    return known and 0 < n <= MOST and count >= MANY


def _run(routine: Routine, arrays: tuple[Any, ...], numbers: tuple[int, ...], work: int) -> bool:
    """Run a kernel for arrays, the last of which it makes; return whether it trusts that.

    Raises:
        BrokenContractError: it would read or write outside of the arrays.
    """
    failed = np.zeros(1, np.int64)
    given = (*map(np.ascontiguousarray, arrays), failed)
    turns = routine.turns(numbers[0])
    if routine.kernel.contract is not None:
        routine.kernel.contract.ask((numbers, *(x.size for x in given)), (*given, *numbers), turns)
    words = np.array([*range(len(given)), *numbers], np.int64)
    slots = intrinsics.Slots(given) if native.interpreted() else checks.addresses(given)
    threads.share(vm.Loop(routine.kernel, words, slots), (), turns, work // 8)
    return not failed[0]


def _routine(body: str, contract: str, dtype: str, n: int, count: int, computed: str = "") -> Routine:
    many = n <= SIDE_BY_SIDE and count >= LANES
    text = _text(body, contract, dtype, computed or dtype, many=many)
    return Routine(native.deferred(text), LANES if many else 1)


@cache
def _text(body: str, contract: str, given: str, dtype: str, *, many: bool) -> str:
    """Return the text of a kernel for numbers that are `given`, computed in a dtype."""
    most, lanes = (SIDE_BY_SIDE, LANES) if many else (MOST, 1)
    wide = ROOM // (most * lanes)
    eps = float(np.finfo(dtype).eps)
    return (_HEAD + body).format(
        contract=f"{contract}, count > 0, 0 < n <= {most}, (hi - 1) * {lanes} < count",
        given=given,
        dtype=dtype,
        lanes=lanes,
        eps=eps,
        huge=2.0**40 if dtype == "float32" else 2.0**400,
        condition=eps**-0.4,
        refused=vm.REFUSED,
        matrix=most * most * lanes,
        column=most * lanes,
        wide=wide,
        sides=most * wide * lanes,
        row=wide * lanes,
    )
