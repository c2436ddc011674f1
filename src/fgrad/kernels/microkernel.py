"""A small matrix product in registers, the building block of larger ones.

Vectors are written out, since LLVM would not find them: a tile of the product stays in registers while its
terms are added up, in their order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from fgrad.kernels import assembly, checks
from fgrad.kernels.assembly import word
from fgrad.kernels.elements import Array
from fgrad.kernels.scalars import Builder, Number, UntranslatableError, convert

_WORD, _LANE = ir.IntType(64), ir.IntType(32)
_FIRST = assembly.constant(_LANE, 0)
_ARRAYS = [kind == "a" for kind in "anananaannn"]  # which of the arguments are arrays


class Tile(NamedTuple):
    """What multiplies matrices whose rows lie anywhere; kernels call it.

    `f(a, i, row, top, b, j, term, c, k, line, count)` takes flat arrays and unsigned numbers, of which `row`
    and `term` are arrays with starts. It computes c[k + line r + q] = sum over t < count of
    a[i + row[top + r] + t] b[j + term[t] + q], for r < `rows` and q < `vectors` `lanes`; with `accumulate` it
    adds that to what is there.
    """

    rows: int
    vectors: int
    lanes: int
    accumulate: bool

    def emit(self, builder: Builder, *given: Any) -> None:
        """Write the instructions."""
        if [isinstance(x, Array) for x in given] != _ARRAYS:
            raise UntranslatableError("a product of something else than arrays with places")
        numbers: Any = [x if isinstance(x, Array) else convert(builder, x, "uint64").value for x in given]
        a, i, row, top, b, j, term, c, k, line, count = numbers
        if a.dtype not in {"float32", "float64"} or {b.dtype, c.dtype} != {a.dtype}:
            raise UntranslatableError(f"a product of {a.dtype} and {b.dtype}")
        vector = ir.VectorType(a.pointer.type.pointee, self.lanes)
        lines = [builder.add(i, read(builder, row, builder.add(top, word(r)))) for r in range(self.rows)]
        out, sums = [], []
        for r in range(self.rows):
            start = builder.add(k, builder.mul(line, word(r)))
            out += self._vectors(builder, c, start, vector)
        for place in out:
            sums.append(builder.reserve(vector))  # LLVM keeps it in registers
            begin = loaded(builder, c, place) if self.accumulate else assembly.constant(vector, None)
            builder.store(begin, sums[-1])

        def add(t: Any) -> None:
            begin = builder.add(j, read(builder, term, t))
            terms = [loaded(builder, b, p) for p in self._vectors(builder, b, begin, vector)]
            for r, start in enumerate(lines):
                factor = filled(builder, read(builder, a, builder.add(start, t)), vector)
                for total, y in zip(sums[self.vectors * r :], terms, strict=False):
                    product = builder.fmul(factor, y, flags=("contract",))
                    builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)

        _repeat(builder, count, add)
        for total, place in zip(sums, out, strict=True):
            builder.store(builder.load(total), place, align=size_of(c))
            builder.access(c.scope)

    def _vectors(self, builder: Builder, x: Array, start: Any, vector: Any) -> list[Any]:
        """Return pointers to the vectors that begin at an element."""
        if checks.ON:
            x.place(builder, [Number("uint64", builder.add(start, word(self.vectors * self.lanes - 1)))])
        first = x.place(builder, [Number("uint64", start)])
        places = (builder.gep(first, [word(self.lanes * v)]) for v in range(self.vectors))
        return [builder.bitcast(p, vector.as_pointer()) for p in places]


def filled(builder: Builder, x: Any, vector: Any) -> Any:
    """Return a vector of one number."""
    none = assembly.undefined(vector)
    one = builder.insert_element(none, x, _FIRST)
    return builder.shuffle_vector(one, none, assembly.constant(ir.VectorType(_LANE, vector.count), None))


def read(builder: Builder, x: Array, index: Any) -> Any:
    """Return an element of an array."""
    return x.load(builder, [Number("uint64", index)]).value


def loaded(builder: Builder, x: Array, place: Any) -> Any:
    """Return a vector of an array."""
    value = builder.load(place, align=size_of(x))
    builder.access(x.scope)
    return value


def size_of(x: Array) -> int:
    """Return how many bytes an element has."""
    return np.dtype(x.dtype).itemsize


def _repeat(builder: Builder, count: Any, write: Any) -> None:
    """Write a loop, whose body takes the number of the turn."""
    before = builder.block
    head, inside, end = (builder.append_basic_block() for _ in range(3))
    builder.branch(head)
    builder.position_at_end(head)
    turn = builder.phi(_WORD)
    turn.add_incoming(word(0), before)
    builder.cbranch(builder.icmp_unsigned("<", turn, count), inside, end)
    builder.position_at_end(inside)
    write(turn)
    turn.add_incoming(builder.add(turn, word(1), flags=("nuw",)), builder.block)
    builder.branch(head)
    builder.position_at_end(end)
