"""A small matrix product in registers, the building block of larger ones.

Vectors are written out, since LLVM would not find them: a tile of the product stays in registers while its
terms are added up, in their order. Generated modules alone import this one, and it needs Numba.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from fgrad.kernels import checks

_WORD = ir.IntType(64)


@cache
def tile(rows: int, vectors: int, lanes: int, *, accumulate: bool = False) -> Any:
    """Return a function that multiplies matrices whose rows lie anywhere, for Numba.

    `f(a, i, row, b, j, term, c, k, line, count)` takes flat arrays and unsigned numbers, of which `row` and
    `term` are arrays with starts. It computes c[k + line r + q] = sum over t < count of a[i + row[r] + t]
    b[j + term[t] + q], for r < `rows` and q < `vectors` `lanes`; with `accumulate` it adds that to what is
    there.
    """
    if checks.ON:
        return _checked(rows, vectors * lanes, accumulate)

    @intrinsic
    def multiply(
        _: Any, a: Any, i: Any, row: Any, b: Any, j: Any, term: Any, c: Any, k: Any, line: Any, count: Any
    ) -> Any:
        place = types.uintp
        kinds = a, place, row, b, place, term, c, place, place, place

        def code(context: Any, builder: Any, _: Any, values: Any) -> Any:
            arrays = [context.make_array(kinds[n])(context, builder, values[n]).data for n in (0, 3, 6, 2, 5)]
            _, i, _, _, j, _, _, k, line, count = values
            number = arrays[0].type.pointee
            vector = ir.VectorType(number, lanes)
            left, right, target = (
                builder.gep(p, [start]) for p, start in zip(arrays, (i, j, k), strict=False)
            )
            starts = [builder.load(builder.gep(arrays[3], [_WORD(r)])) for r in range(rows)]
            left = [builder.gep(left, [start]) for start in starts]

            def places(pointer: Any) -> list[Any]:
                """Return pointers to the vectors that begin at a number."""
                found = (builder.gep(pointer, [_WORD(lanes * v)]) for v in range(vectors))
                return [builder.bitcast(p, vector.as_pointer()) for p in found]

            size = context.get_abi_sizeof(number)
            out = [p for r in range(rows) for p in places(builder.gep(target, [builder.mul(line, _WORD(r))]))]
            start = [builder.load(p, align=size) if accumulate else vector(None) for p in out]
            sums = [cgutils.alloca_once_value(builder, x) for x in start]  # LLVM keeps them in registers
            with cgutils.for_range(builder, count, intp=_WORD) as loop:
                start = builder.load(builder.gep(arrays[4], [loop.index]))
                terms = [builder.load(p, align=size) for p in places(builder.gep(right, [start]))]
                for r in range(rows):
                    x = builder.load(builder.gep(left[r], [loop.index]))
                    one = builder.insert_element(ir.Constant(vector, ir.Undefined), x, ir.IntType(32)(0))
                    mask = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
                    factor = builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), mask)
                    for v, y in enumerate(terms):
                        place = sums[vectors * r + v]
                        product = builder.fmul(factor, y, flags=["contract"])
                        builder.store(builder.fadd(builder.load(place), product, flags=["contract"]), place)
            for p, total in zip(out, sums, strict=True):
                builder.store(builder.load(total), p, align=size)
            return context.get_dummy_value()

        return types.void(*kinds), code

    return multiply


def _checked(rows: int, width: int, accumulate: bool) -> Any:
    """Return the same function element by element, so that Numba checks where each lies."""

    @njit(error_model="numpy", boundscheck=True)
    def multiply(
        a: Any, i: Any, row: Any, b: Any, j: Any, term: Any, c: Any, k: Any, line: Any, count: Any
    ) -> None:
        for r in range(np.uintp(rows)):
            for q in range(np.uintp(width)):
                place = k + line * r + q
                total = c[place] if accumulate else c.dtype.type(0)
                for t in range(count):
                    total += a[i + row[r] + t] * b[j + term[t] + q]
                c[place] = total

    return multiply
