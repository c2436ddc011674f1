"""Arrays inside kernels: where their elements lie, as in Numba.

A kernel that is told of arrays (see `functions`) gets their addresses in its slots, and in its numbers their
sizes and, where they are not contiguous, their strides in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from fgrad.kernels import scalars
from fgrad.kernels.scalars import Number, Untranslatable, constant, convert

LINE = 64  # bytes of the cache: a vector that lies in two lines takes twice the time
_WORD, _BYTE = ir.IntType(64), ir.IntType(8)
_SAFE = ("nuw", "nsw")  # places are not below zero, nor beyond memory


class ArrayKind(NamedTuple):
    """The type of an array: the kind of its elements, its axes, and whether rows follow one another."""

    dtype: str
    ndim: int
    contiguous: bool


class Array:
    """An array that a kernel knows: a pointer, its sizes, and its strides in bytes if rows do not follow."""

    __slots__ = ("dtype", "pointer", "sizes", "strides")

    dtype: str
    pointer: Any
    sizes: list[Number]
    strides: list[Any]

    def __init__(self, dtype: str, pointer: Any, sizes: list[Number], strides: Sequence[Any] = ()) -> None:
        self.dtype, self.pointer, self.sizes, self.strides = dtype, pointer, sizes, list(strides)

    def place(self, builder: Any, indices: Sequence[Number]) -> Any:
        """Return the pointer to an element; negative numbers count from the end, as in NumPy."""
        if len(indices) != len(self.sizes):
            raise Untranslatable(f"{len(indices)} indices of {len(self.sizes)} axes")
        places = [_counted(builder, i, n) for i, n in zip(indices, self.sizes, strict=True)]
        if not self.strides:
            offset = places[0]
            for place, size in zip(places[1:], self.sizes[1:], strict=True):
                offset = builder.add(builder.mul(offset, size.value, flags=_SAFE), place, flags=_SAFE)
            return builder.gep(self.pointer, [offset], inbounds=True)
        pointer = builder.bitcast(self.pointer, _BYTE.as_pointer())
        for place, stride in zip(places, self.strides, strict=True):
            pointer = builder.gep(pointer, [builder.mul(place, stride, flags=("nsw",))], inbounds=True)
        return builder.bitcast(pointer, self.pointer.type)

    def load(self, builder: Any, indices: Sequence[Number]) -> Number:
        """Return an element."""
        value = builder.load(self.place(builder, indices))
        if self.dtype == "bool":
            return Number("bool", builder.trunc(value, scalars.BITS["bool"]))
        return Number(self.dtype, value)

    def store(self, builder: Any, indices: Sequence[Number], x: Number) -> None:
        """Write an element."""
        value = convert(builder, x, self.dtype).value
        if self.dtype == "bool":
            value = builder.zext(value, _BYTE)
        builder.store(value, self.place(builder, indices))


def unpacked(
    builder: Any, kinds: Sequence[ArrayKind | str], slots: Any, args: Any
) -> Iterator[Array | Number]:
    """Yield the arguments of a kernel that are in its slots and numbers."""
    slot = word = 0

    def number() -> Any:
        nonlocal word
        word += 1
        return builder.load(builder.gep(args, [_WORD(word - 1)]))

    for kind in kinds:
        if isinstance(kind, ArrayKind):
            address = builder.load(builder.gep(slots, [_WORD(slot)]))
            slot += 1
            sizes = [Number("int64", number()) for _ in range(kind.ndim)]
            strides = [] if kind.contiguous else [number() for _ in range(kind.ndim)]
            pointer = builder.inttoptr(address, _memory(kind.dtype).as_pointer())
            yield Array(kind.dtype, pointer, sizes, strides)
        elif kind in {"float32", "float64"}:
            bits = builder.bitcast(number(), scalars.BITS["float64"])
            yield convert(builder, Number("float64", bits), kind)
        else:
            yield convert(builder, Number("int64", number()), kind)


def local(builder: Any, dtype: str, count: int) -> Array:
    """Return an array of the function's own."""
    kind = _memory(dtype)
    with builder.goto_entry_block():
        room = builder.alloca(ir.ArrayType(kind, count))
        room.align = LINE
        pointer = builder.bitcast(room, kind.as_pointer())
    return Array(dtype, pointer, [constant("int64", count)])


def _memory(dtype: str) -> Any:
    """Return the type of an element in memory."""
    return _BYTE if dtype == "bool" else scalars.type_of(dtype)


def _counted(builder: Any, index: Number, size: Number) -> Any:
    """Return an index that is not negative."""
    if not scalars.is_whole(index.kind) or index.kind == "bool":
        raise Untranslatable(f"an index that is {index.kind}")
    value = convert(builder, index, "int64" if scalars.is_signed(index.kind) else "uint64").value
    if not scalars.is_signed(index.kind) or (index.literal is not None and index.literal >= 0):
        return value
    negative = builder.icmp_signed("<", value, _WORD(0))
    return builder.select(negative, builder.add(value, size.value), value)
