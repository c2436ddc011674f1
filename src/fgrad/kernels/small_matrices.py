"""Factorizations of small matrices and systems with them, for programs and for large stacks of arrays.

Of a stack, `LANES` matrices lie side by side in the memory of a kernel, so that each instruction works on all
of them, the last matrix several times where there are fewer; threads share the stack. A matrix that a kernel
does not trust, because a pivot is zero to rounding or not a number, is reported: NumPy, which computes in
another order, is then asked, and what it says holds. So the same matrices are refused whoever computes.
"""

from __future__ import annotations

import math
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
def read(a, w, limit, worst, first, last, n):
    tiny, size = EPS * F(np.int64(n)), n * n
    for lane in range(LANES):
        worst[lane] = F(1.0)
    for i in range(n):
        for k in range(i + ONE):
            for lane in range(LANES):
                w[(i * n + k) * LANES + lane] = a[min(first + lane, last) * size + i * n + k]
        for lane in range(LANES):
            limit[i * LANES + lane] = tiny * w[(i * n + i) * LANES + lane]


@helper
def factor(w, column, limit, worst, n):
    for j in range(n):
        for lane in range(LANES):
            d = w[(j * n + j) * LANES + lane]
            worst[lane] = smaller(worst[lane], d - limit[j * LANES + lane])
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
    limit, worst = np.empty({column}, F), np.empty({lanes}, F)
    for block in range(lo, hi):
        first = np.uintp(block) * LANES
        read(a, w, limit, worst, first, last, n)
        factor(w, column, limit, worst, n)
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
    contract = "args(a, out, failed, count, n), len(a) == len(out) == count * n * n"
    return _routine(_CHOLESKY, contract, dtype, n, count)


def triangular(dtype: str, n: int, count: int) -> Routine:
    """Return the kernel of the solutions of systems with triangular matrices.

    Its numbers are the slots of the matrices, of right-hand sides, of solutions and of what failed, then
    `count`, `n`, how many right-hand sides each matrix has, and whether the lower triangle is read, its
    diagonal stands for ones, and matrices lie transposed.
    """
    contract = (
        "args(a, b, out, failed, count, n, columns, lower, unit, turned), columns > 0, "
        "len(a) == count * n * n, len(b) == len(out) == count * n * columns"
    )
    return _routine(_TRIANGULAR, contract, dtype, n, count)


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
    *lead, n, _ = a.shape
    count, out = math.prod(lead), np.empty(a.shape, a.dtype)
    if not _pays(a, n, count):
        return None
    routine = cholesky(a.dtype.name, n, count)
    return out if _run(routine, (a, out), (count, n), work_of_cholesky(n, count)) else None


def work_of_cholesky(n: int, count: int) -> int:
    """Return how many operations on single elements take as long as factors."""
    return count * n * n * (n + 12) // 8


def work_of_triangular(n: int, count: int, columns: int) -> int:
    """Return how many operations on single elements take as long as triangular systems."""
    return count * n * (n + columns * (n + 8) // 8)


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


def _routine(body: str, contract: str, dtype: str, n: int, count: int) -> Routine:
    many = n <= SIDE_BY_SIDE and count >= LANES
    return Routine(native.compiled(_text(body, contract, dtype, many=many)), LANES if many else 1)


@cache
def _text(body: str, contract: str, dtype: str, *, many: bool) -> str:
    most, lanes = (SIDE_BY_SIDE, LANES) if many else (MOST, 1)
    wide = ROOM // (most * lanes)
    shared = f"count > 0, 0 < n <= {most}, len(failed) == 1, (hi - 1) * {lanes} < count"
    return (_HEAD + body).format(
        contract=f"{contract}, {shared}",
        dtype=dtype,
        lanes=lanes,
        eps=float(np.finfo(dtype).eps),
        refused=vm.REFUSED,
        matrix=most * most * lanes,
        column=most * lanes,
        wide=wide,
        sides=most * wide * lanes,
        row=wide * lanes,
    )
