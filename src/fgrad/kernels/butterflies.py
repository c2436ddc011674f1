"""The steps of fast Fourier transforms on vectors: butterflies, and numbers that change places between them.

Complex numbers lie in two planes of an array, real parts in the one and imaginary parts in the other, so that
each instruction works on as many numbers as a vector has. Vectors are written out, as in `microkernel`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from fgrad.kernels import assembly, checks
from fgrad.kernels.assembly import word
from fgrad.kernels.elements import Array
from fgrad.kernels.microkernel import filled, loaded, read, size_of
from fgrad.kernels.scalars import Builder, Number, UntranslatableError, convert

_LANE = ir.IntType(32)
_FUSED = ("contract",)
_Complex = tuple[Any, Any]


def _given(builder: Builder, given: Sequence[Any], arrays: str) -> list[Any]:
    """Return the arguments, of which letters `a` stand for arrays and `f` for numbers of their dtype."""
    if len(given) != len(arrays) or any(isinstance(x, Array) != (a == "a") for x, a in zip(given, arrays)):  # noqa: B905
        raise UntranslatableError("a step of a transform of something else than arrays and places")
    dtype = next(x.dtype for x in given if isinstance(x, Array))
    kinds = {"n": "uint64", "f": dtype}
    return [
        x if a == "a" else convert(builder, x, kinds[a]).value for x, a in zip(given, arrays, strict=True)
    ]


class _Vectors:
    """Vectors of an array."""

    def __init__(self, builder: Builder, array: Array, lanes: int) -> None:
        self._builder, self._array, self._lanes = builder, array, lanes
        self.kind = ir.VectorType(array.pointer.type.pointee, lanes)

    def _place(self, at: Any) -> Any:
        b = self._builder
        if checks.ON:
            self._array.place(b, [Number("uint64", b.add(at, word(self._lanes - 1)))])
        return b.bitcast(self._array.place(b, [Number("uint64", at)]), self.kind.as_pointer())

    def __getitem__(self, at: Any) -> Any:
        return loaded(self._builder, self._array, self._place(at))

    def __setitem__(self, at: Any, value: Any) -> None:
        self._builder.store(value, self._place(at), align=size_of(self._array))
        self._builder.access(self._array.scope)

    def pair(self, at: Any, plane: Any) -> _Complex:
        """Return complex numbers, whose imaginary parts are `plane` further on."""
        return self[at], self[self._builder.add(at, plane)]

    def put(self, at: Any, plane: Any, z: _Complex) -> None:
        """Write complex numbers."""
        self[at], self[self._builder.add(at, plane)] = z

    def constant(self, x: float) -> Any:
        """Return a vector of one number."""
        return assembly.constant(self.kind, x)


class Butterfly(NamedTuple):
    """Transforms of `radix` numbers each, as many as a vector has, multiplied by factors; kernels call it.

    `f(memory, source, step, target, line, plane, table, at)` takes numbers in `memory` that are `step` apart
    from `source` on, and writes results `line` apart from `target` on; imaginary parts are `plane` further.
    The k-th result is multiplied by the k-th complex factor in `table` from `at` on, the first by none.
    """

    radix: int
    lanes: int

    def emit(self, builder: Builder, *given: Any) -> None:
        """Write the instructions."""
        memory, source, step, target, line, plane, table, at = _given(builder, given, "annnnnan")
        vectors = _Vectors(builder, memory, self.lanes)
        m = _Arithmetic(builder)
        x = [vectors.pair(builder.add(source, builder.mul(step, word(j))), plane) for j in range(self.radix)]
        y = {2: _two, 4: _four}.get(self.radix, _odd)(m, vectors, x)
        for k, z in enumerate(y):
            if k:
                w = [
                    filled(builder, read(builder, table, builder.add(at, word(2 * k - 2 + i))), vectors.kind)
                    for i in range(2)
                ]
                z = m.product((w[0], w[1]), z)  # noqa: PLW2901
            vectors.put(builder.add(target, builder.mul(line, word(k))), plane, z)


class _Arithmetic:
    """Complex numbers as pairs of vectors."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def sum(self, x: Any, y: Any) -> Any:
        """Return x + y for vectors of real numbers."""
        return self._builder.fadd(x, y)

    def gap(self, x: Any, y: Any) -> Any:
        """Return x - y for vectors of real numbers."""
        return self._builder.fsub(x, y)

    def plus(self, x: _Complex, y: _Complex) -> _Complex:
        """Return x + y."""
        b = self._builder
        return b.fadd(x[0], y[0]), b.fadd(x[1], y[1])

    def minus(self, x: _Complex, y: _Complex) -> _Complex:
        """Return x - y."""
        b = self._builder
        return b.fsub(x[0], y[0]), b.fsub(x[1], y[1])

    def minus_i(self, x: _Complex, y: _Complex) -> _Complex:
        """Return x - i y."""
        b = self._builder
        return b.fadd(x[0], y[1]), b.fsub(x[1], y[0])

    def plus_i(self, x: _Complex, y: _Complex) -> _Complex:
        """Return x + i y."""
        b = self._builder
        return b.fsub(x[0], y[1]), b.fadd(x[1], y[0])

    def scaled(self, c: Any, x: _Complex, z: _Complex | None = None) -> _Complex:
        """Return c x + z for a real number c."""
        b = self._builder
        made = [b.fmul(c, part, flags=_FUSED) for part in x]
        if z is not None:
            made = [b.fadd(part, m, flags=_FUSED) for part, m in zip(z, made, strict=True)]
        return made[0], made[1]

    def product(self, x: _Complex, y: _Complex) -> _Complex:
        """Return x y."""
        b = self._builder
        re = b.fsub(b.fmul(x[0], y[0], flags=_FUSED), b.fmul(x[1], y[1], flags=_FUSED), flags=_FUSED)
        im = b.fadd(b.fmul(x[0], y[1], flags=_FUSED), b.fmul(x[1], y[0], flags=_FUSED), flags=_FUSED)
        return re, im


def _two(m: _Arithmetic, _: _Vectors, x: list[_Complex]) -> list[_Complex]:
    return [m.plus(*x), m.minus(*x)]


def _four(m: _Arithmetic, _: _Vectors, x: list[_Complex]) -> list[_Complex]:
    s, t, u, v = m.plus(x[0], x[2]), m.minus(x[0], x[2]), m.plus(x[1], x[3]), m.minus(x[1], x[3])
    return [m.plus(s, u), m.minus_i(t, v), m.minus(s, u), m.plus_i(t, v)]


def _eight(m: _Arithmetic, vectors: _Vectors, x: list[_Complex]) -> list[_Complex]:
    even, uneven = _four(m, vectors, x[::2]), _four(m, vectors, x[1::2])
    half = vectors.constant(math.sqrt(0.5))
    (a, b), (c, d) = uneven[1], uneven[3]
    one = m.scaled(half, (m.sum(a, b), m.gap(b, a)))  # times (1 - i) / sqrt(2)
    three = m.scaled(
        half, (m.gap(d, c), m.sum(c, d))
    )  # times (1 + i) / sqrt(2) i, whose sign is turned below
    out = [m.plus(even[0], uneven[0]), m.plus(even[1], one), m.minus_i(even[2], uneven[2])]
    out += [(m.sum(even[3][0], three[0]), m.gap(even[3][1], three[1]))]
    out += [m.minus(even[0], uneven[0]), m.minus(even[1], one), m.plus_i(even[2], uneven[2])]
    return [*out, (m.gap(even[3][0], three[0]), m.sum(even[3][1], three[1]))]


def _odd(m: _Arithmetic, vectors: _Vectors, x: list[_Complex]) -> list[_Complex]:
    """Return the transform of an odd number of terms, of which the k-th and the last but k go together."""
    r, half = len(x), len(x) // 2
    sums = [m.plus(x[j], x[r - j]) for j in range(1, half + 1)]
    gaps = [m.minus(x[j], x[r - j]) for j in range(1, half + 1)]
    out = [x[0]] * r
    for z in sums:
        out[0] = m.plus(out[0], z)
    for k in range(1, half + 1):
        even, uneven = x[0], None
        for j in range(1, half + 1):
            angle = 2 * math.pi * (j * k % r) / r
            even = m.scaled(vectors.constant(math.cos(angle)), sums[j - 1], even)
            uneven = m.scaled(vectors.constant(math.sin(angle)), gaps[j - 1], uneven)
        assert uneven is not None  # noqa: S101 -- there are three terms at least
        out[k], out[r - k] = m.minus_i(even, uneven), m.plus_i(even, uneven)
    return out


class Shuffle(NamedTuple):
    """Moves between pairs in memory, vectors of parts, and their transposes; kernels call it by `name`."""

    name: str
    lanes: int

    def emit(self, builder: Builder, *given: Any) -> None:
        """Write the instructions."""
        _SHUFFLES[self.name](builder, self.lanes, given)


def _mask(places: Sequence[int]) -> Any:
    kind = ir.VectorType(_LANE, len(places))
    return assembly.Value(kind, str(kind), f"<{', '.join(f'i32 {k}' for k in places)}>")


def _split(builder: Builder, lanes: int, given: Sequence[Any]) -> None:
    """`f(x, at, memory, target, plane, sign)`: parts of pairs that follow one another."""
    x, at, memory, target, plane, sign = _given(builder, given, "anannf")
    pairs, vectors = _Vectors(builder, x, lanes), _Vectors(builder, memory, lanes)
    first, second = pairs[at], pairs[builder.add(at, word(lanes))]
    re, im = (builder.shuffle_vector(first, second, _mask(range(i, 2 * lanes, 2))) for i in range(2))
    vectors.put(target, plane, (re, builder.fmul(filled(builder, sign, vectors.kind), im)))


def _join(builder: Builder, lanes: int, given: Sequence[Any]) -> None:
    """`f(memory, source, plane, out, at, scale, turned)`: the inverse, times a factor of each part."""
    memory, source, plane, out, at, scale, turned = _given(builder, given, "annanff")
    vectors, pairs = _Vectors(builder, memory, lanes), _Vectors(builder, out, lanes)
    _write(builder, pairs, at, _scaled(builder, vectors, vectors.pair(source, plane), scale, turned))


def _write(builder: Builder, pairs: _Vectors, at: Any, z: _Complex) -> None:
    """Write pairs that follow one another."""
    lanes = pairs.kind.count
    for k in range(2):
        places = [(k * lanes + i) // 2 + lanes * (i % 2) for i in range(lanes)]
        pairs[builder.add(at, word(k * lanes))] = builder.shuffle_vector(*z, _mask(places))


def _scaled(builder: Builder, vectors: _Vectors, z: _Complex, scale: Any, turned: Any) -> _Complex:
    re, im = (
        builder.fmul(filled(builder, f, vectors.kind), part)
        for f, part in zip((scale, turned), z, strict=True)
    )
    return re, im


def _transposed(builder: Builder, rows: list[Any]) -> list[Any]:
    """Return the columns of a square of vectors: each round joins rows that are half of all apart."""
    n = len(rows)
    low = [i // 2 + n * (i % 2) for i in range(n)]
    high = [k + n // 2 for k in low]
    for _ in range(n.bit_length() - 1):
        halves = list(zip(rows[: n // 2], rows[n // 2 :], strict=True))
        rows = [builder.shuffle_vector(a, b, _mask(side)) for a, b in halves for side in (low, high)]
    return rows


def _gather(builder: Builder, lanes: int, given: Sequence[Any]) -> None:
    """`f(x, starts, first, at, memory, target, plane, sign)`: `lanes` / 2 pairs of each of `lanes` rows."""
    x, starts, first, at, memory, target, plane, sign = _given(builder, given, "aannannf")
    pairs, vectors = _Vectors(builder, x, lanes), _Vectors(builder, memory, lanes)
    begins = [read(builder, starts, builder.add(first, word(i))) for i in range(lanes)]
    rows = [pairs[builder.add(begin, at)] for begin in begins]
    columns, sign = _transposed(builder, rows), filled(builder, sign, vectors.kind)
    for k in range(lanes // 2):
        z = columns[2 * k], builder.fmul(sign, columns[2 * k + 1])
        vectors.put(builder.add(target, word(lanes * k)), plane, z)


def _scatter(builder: Builder, lanes: int, given: Sequence[Any]) -> None:
    """`f(memory, source, plane, out, starts, first, at, scale, turned)`: the inverse, times two factors."""
    memory, source, plane, out, starts, first, at, scale, turned = _given(builder, given, "annaannff")
    vectors, pairs = _Vectors(builder, memory, lanes), _Vectors(builder, out, lanes)
    columns: list[Any] = []
    for k in range(lanes // 2):
        z = vectors.pair(builder.add(source, word(lanes * k)), plane)
        columns += _scaled(builder, vectors, z, scale, turned)
    for i, row in enumerate(_transposed(builder, columns)):
        begin = read(builder, starts, builder.add(first, word(i)))
        pairs[builder.add(begin, at)] = row


def _finish(builder: Builder, lanes: int, given: Sequence[Any]) -> None:
    """`f(memory, source, plane, table, at, apart, out, begin, step, scale, turned)`: of vectors, to memory.

    `lanes` vectors are multiplied by factors, whose imaginary parts are `apart` behind the others, and
    transformed, each by itself. The k-th results follow one another as pairs from `begin + k step` on, times
    a factor of each part.
    """
    memory, source, plane, table, at, apart, out, begin, step, scale, turned = _given(
        builder, given, "annannannff"
    )
    vectors, factors = _Vectors(builder, memory, lanes), _Vectors(builder, table, lanes)
    m, pairs, rows = _Arithmetic(builder), _Vectors(builder, out, lanes), []
    for i in range(lanes):
        shift = word(lanes * i)
        w, z = factors.pair(builder.add(at, shift), apart), vectors.pair(builder.add(source, shift), plane)
        rows.append(m.product(w, z))
    columns = zip(*[_transposed(builder, [z[k] for z in rows]) for k in range(2)], strict=True)
    for k, z in enumerate(_eight(m, vectors, list(columns))):
        _write(
            builder,
            pairs,
            builder.add(begin, builder.mul(step, word(k))),
            _scaled(builder, vectors, z, scale, turned),
        )


_SHUFFLES = {"split": _split, "join": _join, "gather": _gather, "scatter": _scatter, "finish": _finish}
