"""Arrays inside kernels: the addresses of their elements, as in Numba.

A kernel that is told of arrays (see `functions`) gets their addresses in its slots, and in its numbers their
sizes and, where they are not contiguous, their strides in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

from llvmlite import ir

from fgrad.kernels import assembly, checks, scalars
from fgrad.kernels.assembly import word
from fgrad.kernels.scalars import Builder, Number, UntranslatableError, constant, convert

LINE = 64  # bytes of the cache: a vector that lies in two lines takes twice the time
_BYTE = ir.IntType(8)
_SAFE = ("nuw", "nsw")  # places are not below zero, nor beyond memory


class ArrayKind(NamedTuple):
    """The type of an array: the kind of its elements, its axes, and whether rows follow one another."""

    dtype: str
    ndim: int
    contiguous: bool


class Array:
    """An array that a kernel knows: a pointer, its sizes, and its strides in bytes if rows do not follow.

    `scope` names its memory where no other array that has such a name shares it.
    """

    __slots__ = ("dtype", "pointer", "scope", "sizes", "strides")

    def __init__(
        self, dtype: str, pointer: Any, sizes: list[Number], strides: Sequence[Any] = (), scope: str = ""
    ) -> None:
        self.dtype: str = dtype
        self.pointer: Any = pointer
        self.sizes: list[Number] = sizes
        self.strides: list[Any] = list(strides)
        self.scope: str = scope

    def place(self, builder: Builder, indices: Sequence[Number]) -> Any:
        """Return the pointer to an element; negative numbers count from the end, as in NumPy."""
        if len(indices) != len(self.sizes):
            raise UntranslatableError(f"{len(indices)} indices of {len(self.sizes)} axes")
        places = [_counted(builder, i, n) for i, n in zip(indices, self.sizes, strict=True)]
        if checks.ON:
            for place, size in zip(places, self.sizes, strict=True):
                builder.require(builder.icmp_unsigned("<", place, size.value), place, size.value)
        if not self.strides:
            offset = places[0]
            for place, size in zip(places[1:], self.sizes[1:], strict=True):
                offset = builder.add(builder.mul(offset, size.value, flags=_SAFE), place, flags=_SAFE)
            return builder.gep(self.pointer, [offset], inbounds=True)
        pointer = builder.bitcast(self.pointer, _BYTE.as_pointer())
        for place, stride in zip(places, self.strides, strict=True):
            pointer = builder.gep(pointer, [builder.mul(place, stride, flags=("nsw",))], inbounds=True)
        return builder.bitcast(pointer, self.pointer.type)

    def load(self, builder: Builder, indices: Sequence[Number]) -> Number:
        """Return an element."""
        value = builder.load(self.place(builder, indices))
        builder.access(self.scope)
        if self.dtype == "bool":
            return Number("bool", builder.trunc(value, scalars.BITS["bool"]))
        return Number(self.dtype, value)

    def store(self, builder: Builder, indices: Sequence[Number], x: Number) -> None:
        """Write an element."""
        value = convert(builder, x, self.dtype).value
        if self.dtype == "bool":
            value = builder.zext(value, _BYTE)
        builder.store(value, self.place(builder, indices))
        builder.access(self.scope)


def unpacked(
    builder: Builder, kinds: Sequence[ArrayKind | str], slots: Any, args: Any, *, distinct: bool
) -> Iterator[Array | Number]:
    """Yield the arguments of a kernel that are in its slots and numbers.

    If `distinct`, no array that is written to overlaps with another.
    """
    slot, places = 0, count()

    def number() -> Any:
        return builder.load(builder.gep(args, [word(next(places))]))

    for kind in kinds:
        if isinstance(kind, ArrayKind):
            address = builder.load(builder.gep(slots, [word(slot)]))
            slot += 1
            sizes = [Number("int64", number()) for _ in range(kind.ndim)]
            strides = [] if kind.contiguous else [number() for _ in range(kind.ndim)]
            pointer = builder.inttoptr(address, _memory(kind.dtype).as_pointer())
            yield Array(kind.dtype, pointer, sizes, strides, f"slot {slot}" if distinct else "")
        elif kind in {"float32", "float64"}:
            bits = builder.bitcast(number(), scalars.BITS["float64"])
            yield convert(builder, Number("float64", bits), kind)
        else:
            yield convert(builder, Number("int64", number()), kind)


def local(builder: Builder, dtype: str, length: int) -> Array:
    """Return an array of the function's own."""
    kind = _memory(dtype)
    room = builder.reserve(ir.ArrayType(kind, length), LINE)
    pointer = builder.bitcast(room, kind.as_pointer())
    return Array(dtype, pointer, [constant("int64", length)], scope=f"local {room.text}")


def tell_apart(builder: Builder) -> None:
    """Tell LLVM which loads and stores have different memory, lest each loop compares addresses at its start.

    The form is that of `alias.scope` and `noalias` in the LLVM Language Reference: a domain, in it a scope
    for each array; every access is in one and not in the others.
    """
    names = sorted({scope for *_, scope in builder.accesses})
    if len(names) < 2:
        return
    node, whole = builder.module.node, builder.module.name
    domain = node(assembly.metadata(f"arrays of {whole}"))
    scopes = {name: node(assembly.metadata(f"{name} of {whole}"), domain) for name in names}
    own = {name: node(scope) for name, scope in scopes.items()}
    others = {name: node(*[scopes[n] for n in names if n != name]) for name in names}
    for lines, at, name in builder.accesses:
        lines[at] += f", !alias.scope {own[name]}, !noalias {others[name]}"


def _memory(dtype: str) -> Any:
    """Return the type of an element in memory."""
    return _BYTE if dtype == "bool" else scalars.type_of(dtype)


def _counted(builder: Builder, index: Number, size: Number) -> Any:
    """Return an index that is not negative."""
    if not scalars.is_whole(index.kind) or index.kind == "bool":
        raise UntranslatableError(f"an index that is {index.kind}")
    value = convert(builder, index, "int64" if scalars.is_signed(index.kind) else "uint64").value
    if not scalars.is_signed(index.kind) or (index.literal is not None and index.literal >= 0):
        return value
    negative = builder.icmp_signed("<", value, word(0))
    return builder.select(negative, builder.add(value, size.value), value)
