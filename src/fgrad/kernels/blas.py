"""Matrix products inside compiled programs: the OpenBLAS of NumPy's wheels, called like kernels.

NumPy offers no address of its BLAS, but its wheels hold a library with known names, whose functions take
64-bit integers. Called from a program one costs 20 ns before it computes, so even products of 4 x 4 are
faster than loops. Where NumPy uses another BLAS (conda, Linux distributions, Accelerate on Macs) there is no
kernel, and programs call `numpy.matmul` between their tables.

OpenBLAS has threads of its own, which keep their cores busy for a tenth of a second after a product, so that
those of fgrad wait for a core. Products of few terms it computes in the calling thread. So those of medium
size are cut into pieces that are so small, and fgrad's threads share them; sizes alone say where to cut.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fgrad.compat.numpy import address, blas_address
from fgrad.kernels import intrinsics, native, vm
from fgrad.kernels.contracts import Contract

LETTERS = {"float32": "s", "float64": "d"}

_GEMM = """
CONTRACT = (
    "args(a, b, c, m, n, k, turned_a, turned_b, row_a, row_b, row_c, kept, next_a, next_b, next_c, "
    "rows, columns, terms, blas), "
    "min(m, n, k, row_a, row_b, row_c, rows, columns, terms) > 0, min(next_a, next_b, next_c) >= 0, "
    "(last := (hi - 1) // (((m + rows - 1) // rows) * ((n + columns - 1) // columns))) >= 0, "
    "last * next_a + ((k - 1) * row_a + m if turned_a else (m - 1) * row_a + k) <= len(a), "
    "last * next_b + ((n - 1) * row_b + k if turned_b else (k - 1) * row_b + n) <= len(b), "
    "last * next_c + (m - 1) * row_c + n <= len(c)"
)
I, R, SIZE = np.int32, np.{dtype}, {size}
ROWS_FIRST, PLAIN = I(101), 111


def kernel(slots, args, lo, hi):
    a, b = address({dtype}_at(slots, args, 0)), address({dtype}_at(slots, args, 1))
    c = address({dtype}_at(slots, args, 2))
    m, n, k, rows, columns, terms = args[3], args[4], args[5], args[15], args[16], args[17]
    across = max(1, (n + columns - 1) // columns)
    parts, sums = across * max(1, (m + rows - 1) // rows), max(1, (k + terms - 1) // terms)
    for i in range(np.int64(lo), np.int64(hi)):
        matrix, top, left = i // parts, i % parts // across * rows, i % across * columns
        x = a + SIZE * (matrix * args[12] + (top if args[6] else top * args[8]))
        y = b + SIZE * (matrix * args[13] + (left * args[9] if args[7] else left))
        z = c + SIZE * (matrix * args[14] + top * args[10] + left)
        for t in range(sums):
            first = t * terms
            invoke(
                args[18], ROWS_FIRST, I(PLAIN + args[6]), I(PLAIN + args[7]),
                min(rows, m - top), min(columns, n - left), min(terms, k - first), R(1.0),
                x + SIZE * (first * args[8] if args[6] else first), args[8],
                y + SIZE * (first if args[7] else first * args[9]), args[9],
                R(args[11] if t == 0 else 1), z, args[10],
            )
"""

_GEMV = """
CONTRACT = (
    "args(a, x, y, m, n, turned, row, kept, step_x, step_y, next_a, next_x, next_y, rows, terms, blas), "
    "min(m, n, row, step_x, step_y, rows, terms) > 0, min(next_a, next_x, next_y) >= 0, "
    "(last := (hi - 1) // (((n if turned else m) + rows - 1) // rows)) >= 0, "
    "last * next_a + (m - 1) * row + n <= len(a), "
    "last * next_x + ((m if turned else n) - 1) * step_x < len(x), "
    "last * next_y + ((n if turned else m) - 1) * step_y < len(y)"
)
I, R, SIZE = np.int32, np.{dtype}, {size}
ROWS_FIRST, PLAIN = I(101), 111


def kernel(slots, args, lo, hi):
    a, x = address({dtype}_at(slots, args, 0)), address({dtype}_at(slots, args, 1))
    out = {dtype}_at(slots, args, 2)
    count, k = args[4] if args[5] else args[3], args[3] if args[5] else args[4]
    rows, terms = args[13], args[14]
    parts, sums = max(1, (count + rows - 1) // rows), max(1, (k + terms - 1) // terms)
    for i in range(np.int64(lo), np.int64(hi)):
        vector, top = i // parts, i % parts * rows
        own, place = min(rows, count - top), vector * args[12] + top * args[9]
        if args[7] == 0:
            for j in range(own):  # some releases of OpenBLAS multiply what was there by zero
                out[place + j * args[9]] = R(0.0)
        for t in range(sums):
            first = t * terms
            some = min(terms, k - first)
            begin = first * args[6] + top if args[5] else top * args[6] + first
            invoke(
                args[15], ROWS_FIRST, I(PLAIN + args[5]), some if args[5] else own, own if args[5] else some,
                R(1.0), a + SIZE * (vector * args[10] + begin), args[6],
                x + SIZE * (vector * args[11] + first * args[8]), args[8],
                R(1.0), address(out) + SIZE * place, args[9],
            )
"""

_TRSM = """
CONTRACT = (
    "args(a, b, out, failed, count, n, columns, lower, unit, turned, blas), "
    "min(count, n, columns) > 0, len(a) == {pair} * count * n * n, "
    "len(b) == len(out) == {pair} * count * n * columns, len(failed) == 1, hi <= count"
)
I, R, SIZE, PAIR = np.int32, np.{dtype}, {size}, {pair}
NOTHING, REFUSED = R(0.0), {refused}
ROWS_FIRST, LEFT, UPPER, PLAIN, FREE = I(101), I(141), 121, 111, 131


def kernel(slots, args, lo, hi):
    a, b = {dtype}_at(slots, args, 0), {dtype}_at(slots, args, 1)
    out, failed = {dtype}_at(slots, args, 2), int64_at(slots, args, 3)
    n, columns = args[5], args[6]
    upper = UPPER + (args[7] ^ args[9])
    one = np.empty(2, R)
    one[0], one[1] = R(1.0), NOTHING
    for i in range(np.int64(lo), np.int64(hi)):
        for k in range(PAIR * n * columns):
            out[PAIR * i * n * columns + k] = b[PAIR * i * n * columns + k]
        for k in range(n):
            at = PAIR * (i * n * n + k * n + k)
            if args[8] == 0 and a[at] == NOTHING and a[at + PAIR - 1] == NOTHING:
                failed[0] = REFUSED
        invoke(
            args[10], ROWS_FIRST, LEFT, I(upper), I(PLAIN + args[9]), I(FREE + args[8]), n, columns, {one},
            address(a) + SIZE * PAIR * i * n * n, n, address(out) + SIZE * PAIR * i * n * columns, columns,
        )
"""


_SYSTEMS = Contract("a[count, n, n], b[count, n, k], min(n, k) > 0", ("a", "b"))


class Gemm(NamedTuple):
    """The kernel of C = A B, or C += A B, for as many matrices, or pieces of them, as its loop has steps."""

    kernel: native.Kernel
    function: int

    def args(
        self,
        slots: tuple[int, int, int],
        sizes: tuple[int, int, int],
        *,
        transposed: tuple[bool, bool] = (False, False),
        leading: tuple[int, int, int] | None = None,
        strides: tuple[int, int, int] = (0, 0, 0),
        keep: bool = False,
        piece: tuple[int, int, int] | None = None,
    ) -> list[int]:
        """Return the numbers of a call.

        Args:
            slots: of A, B and C.
            sizes: m, n, k, where the product is (m, k) times (k, n).
            transposed: whether A lies in memory as (k, m), and B as (n, k).
            leading: from row to row in memory, in elements; where None, rows follow one another.
            strides: from matrix to matrix, in elements, for loops of several steps; 0 repeats one.
            keep: add to C. Without it C is not read.
            piece: m, n, k of what BLAS multiplies at a time; None: all.
        """
        m, n, k = sizes
        if leading is None:
            leading = (m if transposed[0] else k, k if transposed[1] else n, n)
        leading_a, leading_b, leading_c = (max(1, size) for size in leading)
        return [
            *(*slots, m, n, k, *map(int, transposed), leading_a, leading_b, leading_c),
            *(int(keep), *strides, *(max(1, size) for size in piece or sizes), self.function),
        ]


class Gemv(NamedTuple):
    """The kernel of y = A x, or y += A x, for as many of them, or pieces, as its loop has steps."""

    kernel: native.Kernel
    function: int

    def args(
        self,
        slots: tuple[int, int, int],
        sizes: tuple[int, int],
        *,
        transposed: bool = False,
        leading: int | None = None,
        steps: tuple[int, int] = (1, 1),
        strides: tuple[int, int, int] = (0, 0, 0),
        keep: bool = False,
        piece: tuple[int, int] | None = None,
    ) -> list[int]:
        """Return the numbers of a call.

        Args:
            slots: of A, x and y.
            sizes: m, n, of A as it lies in memory.
            transposed: multiply by the transpose of A instead.
            leading: from row to row of A, in elements; where None, rows follow one another.
            steps: from number to number of x and of y, in elements.
            strides: from one A, x, y to the next, in elements, for loops of several steps; 0 repeats one.
            keep: add to y. Without it y is not read.
            piece: how many numbers of y, and terms of each, BLAS computes at a time; None: all.
        """
        m, n = sizes
        leading = max(1, n if leading is None else leading)
        rows, terms = piece or ((n, m) if transposed else (m, n))
        return [
            *(*slots, m, n, int(transposed), leading, int(keep), *steps, *strides),
            *(max(1, rows), max(1, terms), self.function),
        ]


def gemm(dtype: str) -> Gemm | None:
    """Return the product of matrices of "float32" or "float64"; None where NumPy's BLAS is not at hand."""
    if native.interpreted():
        return Gemm(_interpreted(dtype, _interpreted_gemm), 0)
    place = blas_address(f"cblas_{LETTERS[dtype]}gemm")
    return Gemm(_compiled(dtype, _GEMM), place) if place else None


def gemv(dtype: str) -> Gemv | None:
    """Return the product of a matrix and a vector, as `gemm`."""
    if native.interpreted():
        return Gemv(_interpreted(dtype, _interpreted_gemv), 0)
    place = blas_address(f"cblas_{LETTERS[dtype]}gemv")
    return Gemv(_compiled(dtype, _GEMV), place) if place else None


def trsm(dtype: str, *, pairs: bool = False) -> tuple[native.Kernel, int] | None:
    """Return the kernel of triangular systems, and the last of its numbers, the function; None as `gemm`.

    The others are those of `small_matrices.triangular`; `pairs` are the parts of complex numbers.
    """
    letter = {"float32": "c", "float64": "z"}[dtype] if pairs else LETTERS[dtype]
    place = 0 if native.interpreted() else blas_address(f"cblas_{letter}trsm")
    text = _TRSM.replace("{one}", "address(one)" if pairs else "R(1.0)").replace("{pair}", str(1 + pairs))
    return (_compiled(dtype, text), place) if place else None


def solve_triangular(
    a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], *, lower: bool, unit: bool
) -> np.ndarray[Any, Any] | None:
    """Return the solutions of triangular systems, in stacks; None where NumPy's BLAS is not at hand.

    Args:
        a: matrices (..., n, n) without zeros on their diagonals, unless `unit`.
        b: right-hand sides (..., n, k), of the same dtype; none of the lengths is zero.
        lower: which triangle is read.
        unit: whether the diagonal stands for ones.

    Raises:
        BrokenContractError: BLAS would read or write outside of the arrays.
    """
    function = _trsm(a.dtype.char) if a.dtype.isnative else None
    if function is None:
        return None
    turned = not a.flags.c_contiguous and np.swapaxes(a, -1, -2).flags.c_contiguous
    a, out = np.ascontiguousarray(np.swapaxes(a, -1, -2) if turned else a), np.array(b, order="C")
    n, k = out.shape[-2:]
    stacks = [x.reshape(-1, *x.shape[-2:]) for x in (a, out)]
    _SYSTEMS.ask((a.shape, out.shape), stacks, 0)
    kind = (101, 141, 121 + (lower != turned), 111 + turned, 131 + unit, n, k)
    one: Any = 1.0 if a.dtype.kind == "f" else np.ones(1, a.dtype)
    alpha = one if a.dtype.kind == "f" else one.ctypes.data
    left, right, size = address(a), address(out), a.itemsize
    for i in range(len(stacks[0])):
        function(*kind, alpha, left + i * n * n * size, n, right + i * n * k * size, k)
    return out


@cache
def _trsm(char: str) -> Callable[..., None] | None:
    """Return the function of BLAS for a dtype."""
    place = blas_address(f"cblas_{'sdcz'['fdFD'.index(char)]}trsm") if char in "fdFD" else 0
    number = {"f": ctypes.c_float, "d": ctypes.c_double}.get(char, ctypes.c_void_p)
    word, pointer = ctypes.c_int64, ctypes.c_void_p
    kinds = [*[ctypes.c_int] * 5, word, word, number, pointer, word, pointer, word]
    return ctypes.CFUNCTYPE(None, *kinds)(place) if place else None


def _compiled(dtype: str, text: str) -> native.Kernel:
    return native.deferred(text.format(dtype=dtype, size=np.dtype(dtype).itemsize, refused=vm.REFUSED))


@cache
def _interpreted(dtype: str, product: Callable[..., None]) -> native.Kernel:
    read = intrinsics.interpreted_names()[f"{dtype}_at"]

    def function(slots: Any, args: Any, lo: int, hi: int) -> None:
        product([read(slots, args, k) for k in range(3)], [int(a) for a in args[3:]], lo, hi)

    return native.python_kernel(function)


def _interpreted_gemm(buffers: list[np.ndarray[Any, Any]], args: list[int], lo: int, hi: int) -> None:
    m, n, k, transposed_a, transposed_b, leading_a, leading_b, leading_c, keep, *strides = args[:12]
    rows, columns = args[12:14]
    across, down = max(1, -(-n // columns)), max(1, -(-m // rows))
    for i in range(lo, hi):
        a, b, c = (x[i // (across * down) * s :] for x, s in zip(buffers, strides, strict=True))
        left = _matrix(a, k, m, leading_a).T if transposed_a else _matrix(a, m, k, leading_a)
        right = _matrix(b, n, k, leading_b).T if transposed_b else _matrix(b, k, n, leading_b)
        top, side = i // across % down * rows, i % across * columns
        part = slice(top, top + rows), slice(side, side + columns)
        out = _matrix(c, m, n, leading_c)[part]
        out[...] = left[part[0]] @ right[:, part[1]] + (out if keep else 0)


def _interpreted_gemv(buffers: list[np.ndarray[Any, Any]], args: list[int], lo: int, hi: int) -> None:
    m, n, transposed, leading, keep, step_x, step_y, *strides = args[:10]
    rows, size = args[10], n if transposed else m
    parts = max(1, -(-size // rows))
    for i in range(lo, hi):
        a, x, y = (x[i // parts * s :] for x, s in zip(buffers, strides, strict=True))
        matrix = _matrix(a, m, n, leading)
        matrix = matrix.T if transposed else matrix
        column, out = (
            _matrix(x, matrix.shape[1], 1, step_x)[:, 0],
            _matrix(y, matrix.shape[0], 1, step_y)[:, 0],
        )
        part = slice(i % parts * rows, (i % parts + 1) * rows)
        out[part] = matrix[part] @ column + (out[part] if keep else 0)


def _matrix(flat: np.ndarray[Any, Any], rows: int, columns: int, leading: int) -> np.ndarray[Any, Any]:
    return as_strided(flat, (rows, columns), (leading * flat.itemsize, flat.itemsize))
