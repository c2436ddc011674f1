"""What the text of a native kernel may name: typed pointers to buffers, helpers, and their twins in Python.

| name | in machine code | interpreted |
|---|---|---|
| `np`, `math` | as Numba has them | NumPy's |
| `helper` | decorates functions that the kernel calls, and that raise nothing | likewise |
| `float64_at(slots, args, 3)` | a pointer to the buffer whose number is `args[3]` | a flat array over it |
| `alone(pointer)` | the same, with the promise that no other pointer leads there | the same |
| `integer_at(slots, args, 3, kind)` | the integer of type `INTEGERS[kind]` that is in a buffer | likewise |
| `move(slots, k, bytes)` | adds to the address of buffer k | likewise |
| `assign(slots, k, j)`, `swap(slots, k, j)` | slot k becomes what j is; the two change places | likewise |
| `copy(slots, k, j, bytes)`, `zero(slots, k, bytes)` | of the buffers in slots | likewise |
| `push(slots, k, j, bytes, grow)` | slot k becomes the new end of stack j; 0 if C's `grow` fails | likewise |
| `follow(slots, k, j)` | slot k becomes the memory of stack j (see `stacks`) | likewise |
| `part(pointer, start)` | the pointer to what begins there | a view |
| `clipped(number, count)` | the nearest number in `range(count)` | likewise |
| `call(address, slots, args, lo, hi)` | another kernel | likewise |
| `int64_from(address)`, `address(pointer)` | a pointer, its address | missing |
| `invoke(address, a, b, ...)` | a C function that returns an integer, or nothing | missing |

There is `<dtype>_at` for each of `DTYPES`. Elements of a pointer are `x[i]`, where `i` is best unsigned. A
kernel with more than about sixteen pointers becomes vector code only if they are `alone`, and a smaller one
compiles faster; what is both read and written must then be one pointer. Numba is imported when
`compiled_names` is called, not before.
"""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from fgrad.kernels import mathlib, stacks

DTYPES = {
    # dtype      as Numba sees it
    "bool": "uint8",  # 0 or 1; `x[i] != 0` is a condition, and conditions may be stored
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
    "uint16": "uint16",
    "uint32": "uint32",
    "uint64": "uint64",
    "float16": "uint16",  # the bits: there is no arithmetic
    "float32": "float32",
    "float64": "float64",
    "complex64": "complex64",
    "complex128": "complex128",
}

LEAST = 4096  # bytes of a stack that has any
INTEGERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

kernels: dict[int, Callable[..., None]] = {}  # those that Python runs, by what stands for their addresses


class Slots:
    """The buffers of kernels that Python runs: flat arrays, and how far into each its slot has moved."""

    def __init__(self, arrays: Iterable[np.ndarray | None]) -> None:
        self._bytes = [None if a is None else _as_bytes(a) for a in arrays]
        self._moved = [0] * len(self._bytes)

    def __getitem__(self, k: int) -> np.ndarray:
        data = self._bytes[k]
        if data is None:
            raise IndexError(f"slot {k} has no buffer")
        return data[self._moved[k] :]

    def __setitem__(self, k: int, array: np.ndarray) -> None:
        self._bytes[k], self._moved[k] = _as_bytes(array), 0

    def move(self, k: int, count: int) -> None:
        """Let slot k start `count` bytes further on."""
        self._moved[k] += int(count)

    def assign(self, target: int, source: int) -> None:
        """Let slot `target` be what slot `source` is."""
        self._bytes[target], self._moved[target] = self._bytes[source], self._moved[source]

    def swap(self, a: int, b: int) -> None:
        """Let two slots change places."""
        self._bytes[a], self._bytes[b] = self._bytes[b], self._bytes[a]
        self._moved[a], self._moved[b] = self._moved[b], self._moved[a]


@cache
def interpreted_names() -> dict[str, Any]:
    """Return the names for kernels that Python runs."""

    def move(slots: Slots, k: int, count: int) -> None:
        slots.move(k, count)

    def assign(slots: Slots, target: int, source: int) -> None:
        slots.assign(target, source)

    def swap(slots: Slots, a: int, b: int) -> None:
        slots.swap(a, b)

    def copy(slots: Slots, target: int, source: int, count: int) -> None:
        slots[target][:count] = slots[source][:count]

    def zero(slots: Slots, target: int, count: int) -> None:
        slots[target][:count] = 0

    def push(slots: Slots, target: int, stack: int, count: int, grow: int) -> int:
        words = slots[stack][: 8 * stacks.WORDS].view(np.int64)
        used, address, there = map(int, words)
        if used + count > there:
            there = max(used + int(count), 2 * there, LEAST)
            resize = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(int(grow))
            address = resize(address, there) or 0
            if not address:
                return 0
            words[1:] = address, there
        words[0] += count
        slots[target] = stacks.memory(address, there)[used:]
        return 1

    def follow(slots: Slots, target: int, stack: int) -> None:
        used, address, _ = map(int, slots[stack][: 8 * stacks.WORDS].view(np.int64))
        slots[target] = stacks.memory(address, used)

    def part(pointer: np.ndarray, start: int) -> np.ndarray:
        return pointer[start:]

    def clipped(number: int, count: int) -> int:
        return max(0, min(number, int(count) - 1))

    def call(address: int, slots: Any, args: Sequence[int], lo: int, hi: int) -> None:
        kernels[int(address)](slots, args, lo, hi)

    def integer_at(slots: Any, args: Sequence[int], k: int, kind: int) -> int:
        return int(readers[INTEGERS[kind]](slots, args, k)[0])

    readers = {name: _reader(np.dtype(name)) for name in DTYPES}
    names: dict[str, Any] = {"np": np, "math": mathlib.interpreted, "helper": _same, "alone": _same}
    names |= {f.__name__: f for f in (part, clipped, integer_at, move, assign, swap, copy, zero, call)}
    names |= {"push": push, "follow": follow, "add_any": operator.add, "multiply_any": operator.mul}
    names |= {"larger": np.maximum, "smaller": np.minimum}
    return names | {f"{name}_at": reader for name, reader in readers.items()}


@cache
def compiled_names() -> dict[str, Any]:
    """Return the names for kernels that Numba compiles."""
    from numba import njit, types  # noqa: PLC0415 -- late: it takes longer to import than the rest of fgrad
    from numba.extending import intrinsic  # noqa: PLC0415

    helper = njit(error_model="numpy", fastmath={"contract"}, forceinline=True)

    names: dict[str, Any] = {"np": np, "math": math, "types": types, "helper": helper}
    for made in (
        *(alone, part, clipped, integer_at, move, assign, swap, copy, zero),
        *(push, follow, call, invoke, int64_from, address),
    ):
        names[made.__name__] = intrinsic(made)
    sums = {"add_any": "fadd", "multiply_any": "fmul"}
    names |= {name: intrinsic(_in_any_order(f)) for name, f in sums.items()}
    names |= {name: intrinsic(_extremum(f)) for name, f in (("larger", "maximum"), ("smaller", "minimum"))}
    return names | {f"{name}_at": intrinsic(_pointer(getattr(types, kind))) for name, kind in DTYPES.items()}


def _same(value: Any) -> Any:
    return value


def _as_bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


def _reader(dtype: np.dtype) -> Callable[..., np.ndarray]:
    dtype = np.dtype(np.uint16) if dtype == np.float16 else dtype

    def read(slots: Any, args: Sequence[int], k: int) -> np.ndarray:
        data = slots[args[k]].view(np.uint8)
        return data[: data.size // dtype.itemsize * dtype.itemsize].view(dtype)  # type: ignore[no-any-return]

    return read


def _pointer(kind: Any) -> Callable[..., Any]:
    """Return the intrinsic that gives the address of a buffer as a pointer to elements of `kind`."""
    from numba import types  # noqa: PLC0415 -- late, as above

    pointer = types.CPointer(kind)

    def at(typing: Any, slots: Any, args: Any, k: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            slots, args, k = values
            number = builder.load(builder.gep(args, [k]))
            place = builder.load(builder.gep(slots, [number]))
            return builder.inttoptr(place, context.get_data_type(pointer))

        return pointer(slots, args, types.intp), emit

    return at


def alone(typing: Any, pointer: Any) -> Any:
    """Type a pointer that overlaps with no other: the result of an empty instruction with that attribute."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        from llvmlite import ir  # noqa: PLC0415 -- late, as above

        kind = values[0].type
        nothing = ir.InlineAsm(ir.FunctionType(kind, [kind]), "", "=r,0")
        # LLVM reads attributes of the result where llvmlite writes the calling convention
        return builder.call(nothing, values, cconv="noalias")

    return pointer(pointer), emit


def integer_at(typing: Any, slots: Any, args: Any, k: Any, kind: Any) -> Any:
    """Type an integer that is in a buffer and becomes an int64."""
    from llvmlite import ir  # noqa: PLC0415 -- late, as above
    from numba import types  # noqa: PLC0415

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        slots, args, k, kind = values
        place = builder.load(builder.gep(slots, [builder.load(builder.gep(args, [k]))]))
        end = builder.append_basic_block("end")
        choice = builder.switch(kind, end)
        cases = [(ir.Constant(ir.IntType(64), 0), builder.block)]
        for number, name in enumerate(INTEGERS):
            choice.add_case(number, builder.append_basic_block(name))
            builder.position_at_end(builder.function.blocks[-1])
            bits = 8 if name == "bool" else int(name.lstrip("uint"))
            value = builder.load(builder.inttoptr(place, ir.IntType(bits).as_pointer()))
            extend = builder.sext if name.startswith("int") else builder.zext
            cases.append((value if bits == 64 else extend(value, ir.IntType(64)), builder.block))
            builder.branch(end)
        builder.position_at_end(end)
        result = builder.phi(ir.IntType(64))
        for value, block in cases:
            result.add_incoming(value, block)
        return result

    return types.int64(slots, args, types.intp, types.intp), emit


def move(typing: Any, slots: Any, k: Any, count: Any) -> Any:
    """Type the addition to an address in a slot."""
    from numba import types  # noqa: PLC0415 -- late, as above

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        slots, k, count = values
        place = builder.gep(slots, [k])
        builder.store(builder.add(builder.load(place), count), place)
        return context.get_dummy_value()

    return types.void(slots, types.intp, types.intp), emit


def assign(typing: Any, slots: Any, target: Any, source: Any) -> Any:
    """Type the copy of an address from slot to slot."""
    from numba import types  # noqa: PLC0415 -- late, as above

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        slots, target, source = values
        builder.store(builder.load(builder.gep(slots, [source])), builder.gep(slots, [target]))
        return context.get_dummy_value()

    return types.void(slots, types.intp, types.intp), emit


def swap(typing: Any, slots: Any, a: Any, b: Any) -> Any:
    """Type the exchange of the addresses in two slots."""
    from numba import types  # noqa: PLC0415 -- late, as above

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        places = [builder.gep(values[0], [k]) for k in values[1:]]
        addresses = [builder.load(place) for place in places]
        for place, address in zip(places, reversed(addresses), strict=True):
            builder.store(address, place)
        return context.get_dummy_value()

    return types.void(slots, types.intp, types.intp), emit


def part(typing: Any, pointer: Any, start: Any) -> Any:
    """Type the pointer to what is behind `start` elements."""
    from numba import types  # noqa: PLC0415 -- late, as above

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.gep(values[0], [values[1]])

    return pointer(pointer, types.intp), emit


def clipped(typing: Any, number: Any, count: Any) -> Any:
    """Type the number in `range(count)` that is nearest."""
    from llvmlite import ir  # noqa: PLC0415 -- late, as above
    from numba import types  # noqa: PLC0415

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        number, count = values
        last = builder.sub(count, ir.Constant(count.type, 1))
        number = builder.select(builder.icmp_signed("<", number, last), number, last)
        none = ir.Constant(count.type, 0)
        return builder.select(builder.icmp_signed(">", number, none), number, none)

    return types.int64(types.int64, types.int64), emit


def copy(typing: Any, slots: Any, target: Any, source: Any, count: Any) -> Any:
    """Type the copy of bytes between buffers."""
    from llvmlite import ir  # noqa: PLC0415 -- late, as above
    from numba import types  # noqa: PLC0415

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        text = ir.IntType(8).as_pointer()
        slots, *places, count = values
        places = [builder.inttoptr(builder.load(builder.gep(slots, [k])), text) for k in places]
        move = builder.module.declare_intrinsic("llvm.memmove", [text, text, count.type])
        builder.call(move, [*places, count, ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(slots, types.intp, types.intp, types.intp), emit


def zero(typing: Any, slots: Any, target: Any, count: Any) -> Any:
    """Type the filling of a buffer with zeros."""
    from llvmlite import ir  # noqa: PLC0415 -- late, as above
    from numba import types  # noqa: PLC0415

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        text = ir.IntType(8).as_pointer()
        slots, target, count = values
        place = builder.inttoptr(builder.load(builder.gep(slots, [target])), text)
        fill = builder.module.declare_intrinsic("llvm.memset", [text, count.type])
        builder.call(fill, [place, ir.Constant(ir.IntType(8), 0), count, ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(slots, types.intp, types.intp), emit


def push(typing: Any, slots: Any, target: Any, stack: Any, count: Any, grow: Any) -> Any:
    """Type the search for room at the end of a stack, which says whether there is memory for it."""
    from llvmlite import ir  # noqa: PLC0415 -- late, as above
    from numba import types  # noqa: PLC0415

    word = ir.IntType(64)

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        slots, target, stack, count, grow = values
        words = builder.inttoptr(builder.load(builder.gep(slots, [stack])), word.as_pointer())
        used, memory, there = (builder.gep(words, [ir.Constant(word, i)]) for i in range(stacks.WORDS))
        start, size = builder.load(used), builder.load(there)
        end = builder.add(start, count)
        with builder.if_then(builder.icmp_signed(">", end, size), likely=False):
            wanted = end
            for least in (builder.add(size, size), ir.Constant(word, LEAST)):
                wanted = builder.select(builder.icmp_signed(">", least, wanted), least, wanted)
            resize = ir.FunctionType(word, [word, word]).as_pointer()
            moved = builder.call(builder.inttoptr(grow, resize), [builder.load(memory), wanted])
            with builder.if_then(builder.icmp_signed("!=", moved, ir.Constant(word, 0))):
                builder.store(moved, memory)
                builder.store(wanted, there)
        fits = builder.icmp_signed("<=", end, builder.load(there))
        with builder.if_then(fits, likely=True):
            builder.store(end, used)
            builder.store(builder.add(builder.load(memory), start), builder.gep(slots, [target]))
        return builder.zext(fits, word)

    return types.int64(slots, types.intp, types.intp, types.intp, types.intp), emit


def follow(typing: Any, slots: Any, target: Any, stack: Any) -> Any:
    """Type the copy of the address of a stack to a slot."""
    from llvmlite import ir  # noqa: PLC0415 -- late, as above
    from numba import types  # noqa: PLC0415

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        slots, target, stack = values
        word = ir.IntType(64)
        words = builder.inttoptr(builder.load(builder.gep(slots, [stack])), word.as_pointer())
        memory = builder.load(builder.gep(words, [ir.Constant(word, 1)]))
        builder.store(memory, builder.gep(slots, [target]))
        return context.get_dummy_value()

    return types.void(slots, types.intp, types.intp), emit


def call(typing: Any, address: Any, slots: Any, args: Any, lo: Any, hi: Any) -> Any:
    """Type the call of a kernel."""
    from llvmlite import ir  # noqa: PLC0415 -- late, as above
    from numba import types  # noqa: PLC0415

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address, *arguments = values
        kind = ir.FunctionType(ir.VoidType(), [a.type for a in arguments])
        builder.call(builder.inttoptr(address, kind.as_pointer()), arguments)
        return context.get_dummy_value()

    return types.void(types.intp, slots, args, types.uintp, types.uintp), emit


def invoke(typing: Any, address: Any, *given: Any) -> Any:
    """Type the call of a C function, whose parameters have the types of the arguments."""
    from llvmlite import ir  # noqa: PLC0415 -- late, as above
    from numba import types  # noqa: PLC0415
    from numba.core import cgutils  # noqa: PLC0415

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        arguments = cgutils.unpack_tuple(builder, values[1])
        kind = ir.FunctionType(ir.IntType(64), [a.type for a in arguments])
        return builder.call(builder.inttoptr(values[0], kind.as_pointer()), arguments)

    return types.int64(types.intp, types.StarArgTuple.from_types(given)), emit


def int64_from(typing: Any, address: Any) -> Any:
    """Type the pointer to integers at an address."""
    from numba import types  # noqa: PLC0415 -- late, as above

    pointer = types.CPointer(types.int64)

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_data_type(pointer))

    return pointer(types.intp), emit


def address(typing: Any, pointer: Any) -> Any:
    """Type the address of a pointer."""
    from llvmlite import ir  # noqa: PLC0415 -- late, as above
    from numba import types  # noqa: PLC0415

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.ptrtoint(values[0], ir.IntType(64))

    return types.intp(pointer), emit


def _in_any_order(instruction: str) -> Any:
    """Return the intrinsic of an operation of a reduction, which vectors may do in an order of their own."""

    def joined(typing: Any, x: Any, y: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return getattr(builder, instruction)(*values, flags=("reassoc", "nsz", "contract"))

        return (x(x, y), emit) if x == y else None

    return joined


def _extremum(name: str) -> Any:
    """Return the intrinsic of the larger or smaller number, which is NaN where one of them is."""
    from llvmlite import ir  # noqa: PLC0415 -- late, as above

    def chosen(typing: Any, x: Any, y: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kind = context.get_data_type(x)
            function = builder.module.declare_intrinsic(
                f"llvm.{name}", [kind], ir.FunctionType(kind, [kind, kind])
            )
            return builder.call(function, values)

        return (x(x, y), emit) if x == y else None

    return chosen
