"""The intrinsics of kernels as LLVM instructions: their operand types, and what they emit.

See `intrinsics` for what they do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from fgrad.kernels import checks, scalars, stacks
from fgrad.kernels.assembly import constant, word
from fgrad.kernels.butterflies import Butterfly, Shuffle
from fgrad.kernels.elements import ArrayKind
from fgrad.kernels.intrinsics import DTYPES, INTEGERS, LEAST
from fgrad.kernels.microkernel import Tile
from fgrad.kernels.vector import libm

# of the parameters and of the result; None if there is no such call
Kinds = tuple[tuple[str, ...], str] | None

_NAMES = {"boolean": "bool", "uintp": "uint64", "intp": "int64"}  # of Numba's types, where they are others
_BIT, _BYTE, _WORD = ir.IntType(1), ir.IntType(8), ir.IntType(64)
_BYTES = _BYTE.as_pointer()
_TABLES = ("int64*", "int64*")  # the slots, the numbers


class Intrinsic(NamedTuple):
    """Something that a kernel can call.

    Attributes:
        kinds: given the kinds of the arguments, says which the parameters have, and the result.
        emit: given a builder (see `assembly`) and the arguments, writes instructions and returns the result.
    """

    kinds: Callable[..., Kinds]
    emit: Callable[..., Any]


@cache
def declared() -> dict[str, Intrinsic]:
    """Return what kernels can call besides Python's and NumPy's own names and `math`."""
    given: dict[str, Intrinsic] = {
        "alone": Intrinsic(lambda pointer: ((pointer,), pointer) if pointer[-1] == "*" else None, alone),
        "part": Intrinsic(lambda pointer, _: ((pointer, "int64"), pointer), part),
        "clipped": _fixed("int64", clipped, "int64", "int64"),
        "integer_at": _fixed("int64", integer_at, *_TABLES, "int64", "int64"),
        "move": _fixed("void", move, "int64*", "int64", "int64"),
        "assign": _fixed("void", assign, "int64*", "int64", "int64"),
        "swap": _fixed("void", swap, "int64*", "int64", "int64"),
        "copy": _fixed("void", copy, "int64*", "int64", "int64", "int64"),
        "zero": _fixed("void", zero, "int64*", "int64", "int64"),
        "push": _fixed("int64", push, "int64*", "int64", "int64", "int64", "int64"),
        "follow": _fixed("void", follow, "int64*", "int64", "int64"),
        "call": _fixed("void", call, "int64", *_TABLES, "uint64", "uint64"),
        "invoke": Intrinsic(lambda _, *given: (("int64", *given), "int64"), invoke),
        "int64_from": _fixed("int64*", int64_from, "int64"),
        "address": Intrinsic(lambda pointer: ((pointer,), "int64"), address),
        "add_any": Intrinsic(_two_alike, _in_any_order("fadd")),
        "multiply_any": Intrinsic(_two_alike, _in_any_order("fmul")),
        "larger": Intrinsic(_two_alike, _extremum("maximum")),
        "smaller": Intrinsic(_two_alike, _extremum("minimum")),
    }
    given |= {
        f"{name}_at": _fixed(f"{kind}*", _pointer(kind), *_TABLES, "int64") for name, kind in DTYPES.items()
    }
    return given | {name: Intrinsic(_one_float, emit) for name, emit in libm.FUNCTIONS.items()}


@cache
def for_translation() -> dict[str, Any]:
    """Return the names for kernels that `translate` compiles, where functions stand for their texts."""
    return {"np": np, "math": math, "helper": lambda function: function, "unrolled": range, **declared()}


def _fixed(result: str, emit: Callable[..., Any], *params: str) -> Intrinsic:
    """Return an intrinsic whose kinds are always the same."""
    return Intrinsic(lambda *given: (params, result) if len(given) == len(params) else None, emit)


def _two_alike(x: str, y: str) -> Kinds:
    return ((x, y), x) if x == y else None


def _one_float(x: str) -> Kinds:
    return ((x,), x) if x in {"float32", "float64"} else None


@cache
def for_functions() -> dict[str, Any]:
    """Return the names for texts of `functions`."""
    return {
        **for_translation(),
        "typed": _typed,
        "types": _Types(),
        "tile": Tile,
        "butterfly": Butterfly,
        "shuffle": Shuffle,
    }


def _typed(signature: Any, *floats: str) -> Callable[[Any], Any]:
    """Note the signature of a function on it, and the flags of its arithmetic of floats."""

    def noted(function: Any) -> Any:
        function.signature, function.floats = signature, floats
        return function

    return noted


class _Types:
    """The types in signatures, by the names that Numba has for them."""

    def __getattr__(self, name: str) -> str:
        return _NAMES.get(name, name)

    def Array(self, dtype: str, ndim: int, layout: str, readonly: bool = False) -> Any:  # noqa: N802 -- Numba's
        """Return the type of an array."""
        return ArrayKind(dtype, ndim, layout == "C")

    def void(self, *params: Any) -> tuple[Any, ...]:
        """Return a signature."""
        return params


def _pointer(kind: str) -> Callable[..., Any]:
    """Return what gives the address of a buffer as a pointer to elements of `kind`."""
    pointer = scalars.type_of(f"{kind}*")

    def at(builder: Any, slots: Any, args: Any, k: Any) -> Any:
        place = builder.load(_slot(builder, slots, builder.load(builder.gep(args, [k]))))
        return builder.inttoptr(place, pointer)

    return at


def _slot(builder: Any, slots: Any, k: Any, which: int = 0) -> Any:
    """Return the place of a word of a slot: of its address, or where each access is checked of its limits."""
    if checks.WORDS > 1:
        k = builder.add(builder.mul(k, word(checks.WORDS)), word(which))
    return builder.gep(slots, [k])


def limits(builder: Any, slots: Any, args: Any, k: Any) -> tuple[Any, Any]:
    """Return where the memory of a buffer begins and ends, which is known where each access is checked."""
    return _limits(builder, slots, builder.load(builder.gep(args, [k])))


def _limits(builder: Any, slots: Any, k: Any) -> tuple[Any, Any]:
    first, end = (builder.load(_slot(builder, slots, k, which)) for which in (1, 2))
    return first, end


def check(builder: Any, place: Any, count: Any, found: tuple[Any, Any], index: Any, size: int = 1) -> None:
    """Leave the kernel unless `count` bytes at a pointer lie within limits."""
    start = builder.ptrtoint(place, _WORD)
    above = builder.icmp_unsigned(">=", start, found[0])
    below = builder.icmp_unsigned("<=", builder.add(start, count), found[1])
    whole = builder.udiv(builder.sub(found[1], found[0]), word(size))
    builder.require(builder.and_(above, below), index, whole)


def _checked(builder: Any, slots: Any, k: Any, count: Any) -> None:
    """Leave the kernel unless there are `count` bytes in a slot, where each access is checked."""
    if checks.ON and isinstance(builder, scalars.Builder):
        place = builder.inttoptr(builder.load(_slot(builder, slots, k)), _BYTES)
        check(builder, place, count, _limits(builder, slots, k), count)


def _hold(builder: Any, slots: Any, k: Any, first: Any, size: Any) -> None:
    """Note where the memory of a slot begins and ends, where each access is checked."""
    if checks.WORDS > 1:
        builder.store(first, _slot(builder, slots, k, 1))
        builder.store(builder.add(first, size), _slot(builder, slots, k, 2))


def alone(builder: Any, pointer: Any) -> Any:
    """Give a pointer that overlaps with no other: the result of an empty instruction with that attribute."""
    nothing = ir.InlineAsm(ir.FunctionType(pointer.type, [pointer.type]), "", "=r,0")
    # LLVM reads attributes of the result where llvmlite writes the calling convention
    return builder.call(nothing, [pointer], cconv="noalias")


def integer_at(builder: Any, slots: Any, args: Any, k: Any, kind: Any) -> Any:
    """Read an integer that is in a buffer, and make an int64 of it."""
    slot = builder.load(builder.gep(args, [k]))
    place = builder.load(_slot(builder, slots, slot))
    _checked(builder, slots, slot, word(1))
    end = builder.append_basic_block("end")
    choice = builder.switch(kind, end)
    cases = [(word(0), builder.block)]
    for number, name in enumerate(INTEGERS):
        case = builder.append_basic_block(name)
        choice.add_case(number, case)
        builder.position_at_end(case)
        bits = 8 if name == "bool" else int(name.lstrip("uint"))
        _checked(builder, slots, slot, word(bits // 8))
        value = builder.load(builder.inttoptr(place, ir.IntType(bits).as_pointer()))
        extend = builder.sext if name.startswith("int") else builder.zext
        cases.append((value if bits == 64 else extend(value, _WORD), builder.block))
        builder.branch(end)
    builder.position_at_end(end)
    result = builder.phi(_WORD)
    for value, block in cases:
        result.add_incoming(value, block)
    return result


def move(builder: Any, slots: Any, k: Any, count: Any) -> None:
    """Add to an address in a slot."""
    place = _slot(builder, slots, k)
    builder.store(builder.add(builder.load(place), count), place)


def assign(builder: Any, slots: Any, target: Any, source: Any) -> None:
    """Copy an address from slot to slot."""
    for which in range(checks.WORDS):
        value = builder.load(_slot(builder, slots, source, which))
        builder.store(value, _slot(builder, slots, target, which))


def swap(builder: Any, slots: Any, a: Any, b: Any) -> None:
    """Exchange the addresses in two slots."""
    for which in range(checks.WORDS):
        places = [_slot(builder, slots, k, which) for k in (a, b)]
        addresses = [builder.load(place) for place in places]
        for place, found in zip(places, reversed(addresses), strict=True):
            builder.store(found, place)


def part(builder: Any, pointer: Any, start: Any) -> Any:
    """Point to what is behind `start` elements."""
    return builder.gep(pointer, [start])


def clipped(builder: Any, number: Any, count: Any) -> Any:
    """Give the number in `range(count)` that is nearest."""
    last = builder.sub(count, constant(count.type, 1))
    number = builder.select(builder.icmp_signed("<", number, last), number, last)
    none = constant(count.type, 0)
    return builder.select(builder.icmp_signed(">", number, none), number, none)


def copy(builder: Any, slots: Any, target: Any, source: Any, count: Any) -> None:
    """Copy bytes between buffers."""
    for k in (target, source):
        _checked(builder, slots, k, count)
    places = [builder.inttoptr(builder.load(_slot(builder, slots, k)), _BYTES) for k in (target, source)]
    kinds = [_BYTES, _BYTES, count.type]
    signature = ir.FunctionType(ir.VoidType(), [*kinds, _BIT])
    there = builder.module.declare_intrinsic("llvm.memmove", kinds, signature)
    builder.call(there, [*places, count, constant(_BIT, 0)])


def zero(builder: Any, slots: Any, target: Any, count: Any) -> None:
    """Fill a buffer with zeros."""
    _checked(builder, slots, target, count)
    place = builder.inttoptr(builder.load(_slot(builder, slots, target)), _BYTES)
    signature = ir.FunctionType(ir.VoidType(), [_BYTES, _BYTE, count.type, _BIT])
    fill = builder.module.declare_intrinsic("llvm.memset", [_BYTES, count.type], signature)
    builder.call(fill, [place, constant(_BYTE, 0), count, constant(_BIT, 0)])


def push(builder: Any, slots: Any, target: Any, stack: Any, count: Any, grow: Any) -> Any:
    """Look for room at the end of a stack, and say whether there is memory for it."""
    _checked(builder, slots, stack, word(8 * stacks.WORDS))
    words = builder.inttoptr(builder.load(_slot(builder, slots, stack)), _WORD.as_pointer())
    used, memory, there = (builder.gep(words, [word(i)]) for i in range(stacks.WORDS))
    start, size = builder.load(used), builder.load(there)
    end = builder.add(start, count)
    with builder.if_then(builder.icmp_signed(">", end, size), likely=False):
        wanted = end
        for least in (builder.add(size, size), word(LEAST)):
            wanted = builder.select(builder.icmp_signed(">", least, wanted), least, wanted)
        resize = ir.FunctionType(_WORD, [_WORD, _WORD]).as_pointer()
        moved = builder.call(builder.inttoptr(grow, resize), [builder.load(memory), wanted])
        with builder.if_then(builder.icmp_signed("!=", moved, word(0))):
            builder.store(moved, memory)
            builder.store(wanted, there)
    fits = builder.icmp_signed("<=", end, builder.load(there))
    with builder.if_then(fits, likely=True):
        builder.store(end, used)
        builder.store(builder.add(builder.load(memory), start), _slot(builder, slots, target))
        _hold(builder, slots, target, builder.load(memory), end)
    return builder.zext(fits, _WORD)


def follow(builder: Any, slots: Any, target: Any, stack: Any) -> None:
    """Copy the address of a stack to a slot."""
    _checked(builder, slots, stack, word(8 * stacks.WORDS))
    words = builder.inttoptr(builder.load(_slot(builder, slots, stack)), _WORD.as_pointer())
    used, memory = (builder.load(builder.gep(words, [word(i)])) for i in range(2))
    builder.store(memory, _slot(builder, slots, target))
    _hold(builder, slots, target, memory, used)


def call(builder: Any, address: Any, slots: Any, args: Any, lo: Any, hi: Any) -> None:
    """Call a kernel."""
    given = [slots, args, lo, hi]
    kind = ir.FunctionType(ir.VoidType(), [a.type for a in given])
    builder.call(builder.inttoptr(address, kind.as_pointer()), given)


def invoke(builder: Any, address: Any, *given: Any) -> Any:
    """Call a C function, whose parameters have the types of the arguments."""
    kind = ir.FunctionType(_WORD, [a.type for a in given])
    return builder.call(builder.inttoptr(address, kind.as_pointer()), given)


def int64_from(builder: Any, address: Any) -> Any:
    """Make a pointer to integers of an address."""
    return builder.inttoptr(address, _WORD.as_pointer())


def address(builder: Any, pointer: Any) -> Any:
    """Make an address of a pointer."""
    return builder.ptrtoint(pointer, _WORD)


def _in_any_order(instruction: str) -> Callable[..., Any]:
    """Return an operation of a reduction, which vectors may do in an order of their own."""

    def joined(builder: Any, x: Any, y: Any) -> Any:
        return getattr(builder, instruction)(x, y, flags=("reassoc", "contract"))

    return joined


def _extremum(name: str) -> Callable[..., Any]:
    """Return what finds the larger or smaller number, which is NaN where one of them is."""

    def chosen(builder: Any, x: Any, y: Any) -> Any:
        signature = ir.FunctionType(x.type, [x.type, x.type])
        return builder.call(builder.module.declare_intrinsic(f"llvm.{name}", [x.type], signature), [x, y])

    return chosen
