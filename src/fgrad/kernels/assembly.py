"""LLVM's language, in which each instruction becomes text where it is written.

`llvmlite.ir` makes an object of each instruction, looks for a name that no other has, and makes text of all
in the end; that took most of the time of a translation. What is here has the names and signatures of its
`IRBuilder`, so that intrinsics (see `instructions`) are written by either: Numba's code generator has that
one. Types are llvmlite's.

Types are compared where the text does not tell them: LLVM checks the rest when it reads it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import Any, TypeAlias

from llvmlite import ir

_BIT, _WORD = ir.IntType(1), ir.IntType(64)
_SIGNED = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}
_UNSIGNED = {"<": "ult", "<=": "ule", ">": "ugt", ">=": "uge", "==": "eq", "!=": "ne"}
_ORDERED = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "one"}
_UNORDERED = {"<": "ult", "<=": "ule", ">": "ugt", ">=": "uge", "==": "ueq", "!=": "une", "uno": "uno"}

Mark: TypeAlias = "tuple[Block, int, int, int]"  # where a builder was


class Value:
    """What an instruction takes or gives.

    Attributes:
        type: its type.
        spelled: that type, as text.
        text: the value, without its type.
    """

    __slots__ = ("spelled", "text", "type")

    def __init__(self, kind: Any, spelled: str, text: str) -> None:
        self.type: Any = kind
        self.spelled: str = spelled
        self.text: str = text

    def get_reference(self) -> str:
        """Return what instructions of llvmlite have for an operand."""
        return self.text

    @property
    def function_type(self) -> Any:
        """The type of the function that a pointer leads to."""
        return self.type.pointee


class _Changing(Value):
    """What the last of some lines gives, which may change."""

    __slots__ = ("_at", "_lines")

    def __init__(self, kind: Any, spelled: str, text: str, lines: list[str]) -> None:
        super().__init__(kind, spelled, text)
        self._lines, self._at = lines, len(lines) - 1


class Product(Value):
    """A product of floats, and what was multiplied."""

    __slots__ = ("factors",)

    def __init__(self, made: Value, factors: tuple[Value, Value]) -> None:
        super().__init__(made.type, made.spelled, made.text)
        self.factors: tuple[Value, Value] = factors

    def rounded(self) -> Value:
        """Return what is not to be fused with a sum."""
        return Value(self.type, self.spelled, self.text)


class Phi(_Changing):
    """What a value is, by the block that was left."""

    __slots__ = ()

    def add_incoming(self, value: Value, block: Block) -> None:
        """Let it be a value behind a block."""
        _compare(self, value)
        before = self._lines[self._at]
        comma = "," if before[-1] == "]" else ""
        self._lines[self._at] = f"{before}{comma} [ {value.text}, %{block.name} ]"


class Switch:
    """Which block comes next, by a number."""

    __slots__ = ("_at", "_lines", "_spelled")

    def __init__(self, spelled: str, lines: list[str]) -> None:
        self._spelled, self._lines, self._at = spelled, lines, len(lines) - 1

    def add_case(self, number: int, block: Block) -> None:
        """Let a block come next where there is that number."""
        before = self._lines[self._at].removesuffix("]")
        self._lines[self._at] = f"{before} {self._spelled} {number}, label %{block.name} ]"


class Block:
    """Instructions one after the other, the last of which leads elsewhere if it `is_terminated`."""

    __slots__ = ("is_terminated", "lines", "name")

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.lines: list[str] = []
        self.is_terminated: bool = False


class Function:
    """A function, which is defined elsewhere as long as it has no blocks."""

    def __init__(
        self, name: str, function_type: Any, linkage: str = "", convention: str = "", attributes: str = ""
    ) -> None:
        self.name: str = name
        self.function_type: Any = function_type
        self.linkage: str = linkage
        self.convention: str = convention
        self.attributes: str = attributes
        self.args: list[Value] = [
            Value(kind, spelled(kind), f"%a{k}") for k, kind in enumerate(function_type.args)
        ]
        self.blocks: list[Block] = []

    def get_reference(self) -> str:
        """Return what stands for it in a call."""
        return f"@{self.name}"

    def __str__(self) -> str:
        args = ", ".join([f"{a.spelled} {a.text}" for a in self.args])
        result = spelled(self.function_type.return_type)
        words = ["define" if self.blocks else "declare", self.linkage, self.convention, result]
        head = f"{' '.join(filter(None, words))} @{self.name}({args}) {self.attributes}".rstrip()
        if not self.blocks:
            return head
        blocks = ["\n  ".join([f"{block.name}:", *block.lines]) for block in self.blocks]
        return "\n".join([head, "{", *blocks, "}"])


class Module:
    """Functions, and what they know by its name.

    Attributes:
        globals: its functions.
        used: the names of those that LLVM must keep, and give the arguments that they have.
    """

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.globals: dict[str, Function] = {}
        self.used: list[str] = []
        self._strings: list[str] = []
        self._nodes: dict[str, str] = {}

    def add(self, function: Function) -> Function:
        """Add a function."""
        self.globals[function.name] = function
        return function

    def declare(self, name: str, function_type: Any) -> Function:
        """Return the function of that name, which is defined elsewhere unless it was added."""
        return self.globals.get(name) or self.add(Function(name, function_type))

    def declare_intrinsic(self, name: str, kinds: Sequence[Any], function_type: Any) -> Function:
        """Return one of LLVM's own functions, for some types."""
        return self.declare(".".join([name, *(k.intrinsic_name for k in kinds)]), function_type)

    def string(self, text: bytes) -> Value:
        """Return a pointer to constant bytes."""
        name = f"where.{len(self._strings)}" if self._strings else "where"
        shown = "".join([chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02x}" for c in text])
        self._strings.append(f'@{name} = internal constant [{len(text)} x i8] c"{shown}"')
        return Value(ir.IntType(8).as_pointer(), "ptr", f"@{name}")

    def node(self, *operands: str, own: bool = False) -> str:
        """Return the name of metadata; `own`: no other is the same."""
        name = f"!{len(self._nodes)}"
        text = f"!{{{', '.join([name, *operands] if own else operands)}}}"
        return self._nodes.setdefault(text, name)

    def __str__(self) -> str:
        lines = [*map(str, self.globals.values()), *self._strings]
        if self.used:
            listed = ", ".join([f"ptr @{name}" for name in self.used])
            lines.append(
                f"@llvm.compiler.used = appending global [{len(self.used)} x ptr] [{listed}], "
                'section "llvm.metadata"'
            )
        lines += [f"{name} = {text}" for text, name in self._nodes.items()]
        return "\n".join([*lines, ""])


def spelled(kind: Any) -> str:
    """Return a type as text."""
    return "ptr" if isinstance(kind, ir.PointerType) else str(kind)


def constant(kind: Any, number: float | None) -> Value:
    """Return a known number, in each lane of a vector; None is zero."""
    if number is None:
        return Value(kind, str(kind), kind.null)
    if isinstance(kind, ir.VectorType):
        lane = constant(kind.element, number)
        return Value(kind, str(kind), f"<{', '.join([f'{lane.spelled} {lane.text}'] * kind.count)}>")
    if isinstance(kind, ir.IntType):
        return Value(kind, str(kind), str(int(number)))
    if isinstance(kind, ir.FloatType):
        (number,) = struct.unpack("f", struct.pack("f", number))
    return Value(kind, str(kind), f"0x{struct.pack('>d', number).hex()}")  # so LLVM has it for either


def word(number: int) -> Value:
    """Return an integer of 64 bits."""
    return Value(_WORD, "i64", str(number))


def undefined(kind: Any) -> Value:
    """Return any value."""
    return Value(kind, str(kind), "undef")


def _compare(x: Value, y: Value) -> None:
    """Raise a TypeError unless two values have one type."""
    if x.spelled != y.spelled:
        raise TypeError(f"{x.spelled} beside {y.spelled}")


def metadata(text: str) -> str:
    """Return an operand of metadata that is text."""
    return f'!"{text}"'


@cache
def _words(flags: tuple[str, ...]) -> str:
    """Return flags as they stand behind an instruction."""
    return "".join([f" {flag}" for flag in flags])


def _binary(name: str) -> Callable[..., Value]:
    def write(self: Builder, lhs: Value, rhs: Value, flags: tuple[str, ...] = ()) -> Value:
        _compare(lhs, rhs)
        text = next(self.names)
        words = name + _words(flags) if flags else name
        self.lines.append(f"{text} = {words} {lhs.spelled} {lhs.text}, {rhs.text}")
        return Value(lhs.type, lhs.spelled, text)

    return write


def _comparison(name: str, signs: dict[str, str]) -> Callable[..., Value]:
    def write(self: Builder, sign: str, lhs: Value, rhs: Value) -> Value:
        _compare(lhs, rhs)
        text = next(self.names)
        self.lines.append(f"{text} = {name} {signs[sign]} {lhs.spelled} {lhs.text}, {rhs.text}")
        if lhs.spelled[0] == "<":
            kind = ir.VectorType(_BIT, lhs.type.count)
            return Value(kind, str(kind), text)
        return Value(_BIT, "i1", text)

    return write


def _conversion(name: str) -> Callable[..., Value]:
    def write(self: Builder, value: Value, kind: Any) -> Value:
        to = spelled(kind)
        if to == value.spelled:
            return Value(kind, to, value.text)
        text = next(self.names)
        self.lines.append(f"{text} = {name} {value.spelled} {value.text} to {to}")
        return Value(kind, to, text)

    return write


_product = _binary("fmul")


class Builder:
    """Writes the instructions of a function.

    Attributes:
        module, function: what they are written to.
        block: the block to whose end they are written.
        lines: its instructions.
        names: those of values that are not there yet.
        accesses: instructions that load or store, each as the lines and the place where it is, and the name
            of the memory.
    """

    def __init__(self, module: Module, function: Function) -> None:
        self.module: Module = module
        self.function: Function = function
        self.block: Block
        self.lines: list[str]
        self.names: Iterator[str] = map("%v{}".format, count())
        self.accesses: list[tuple[list[str], int, str]] = []
        self.position_at_end(self.append_basic_block())

    # blocks

    def append_basic_block(self, _: str = "") -> Block:
        """Return a new block behind all that there are."""
        blocks = self.function.blocks
        blocks.append(Block(f"b{next(self.names)[2:]}" if blocks else "entry"))
        return blocks[-1]

    def position_at_end(self, block: Block) -> None:
        """Write to the end of a block from here on."""
        self.block, self.lines = block, block.lines

    def mark(self) -> Mark:
        """Return where the builder is, for `rewind`."""
        return self.block, len(self.lines), len(self.function.blocks), len(self.accesses)

    def rewind(self, mark: Mark) -> None:
        """Go back, and forget what was written since, but what was reserved."""
        block, length, blocks, accesses = mark
        self.position_at_end(block)
        block.is_terminated = False
        del self.lines[length:], self.function.blocks[blocks:], self.accesses[accesses:]

    @contextmanager
    def if_then(self, condition: Value, likely: bool | None = None) -> Iterator[None]:
        """Write what is done only where a condition holds."""
        inside, end = self.append_basic_block(), self.append_basic_block()
        hint = ""
        if likely is not None:
            weights = ("i32 99", "i32 1") if likely else ("i32 1", "i32 99")
            hint = f", !prof {self.module.node(metadata('branch_weights'), *weights)}"
        self.cbranch(condition, inside, end, hint)
        self.position_at_end(inside)
        yield
        if not self.block.is_terminated:
            self.branch(end)
        self.position_at_end(end)

    # what ends a block

    def _end(self, line: str) -> None:
        assert not self.block.is_terminated  # noqa: S101 -- LLVM would take the rest for another block
        self.lines.append(line)
        self.block.is_terminated = True

    def branch(self, target: Block, hint: str = "") -> None:
        """Go on with a block."""
        self._end(f"br label %{target.name}{hint}")

    def cbranch(self, condition: Value, yes: Block, no: Block, hint: str = "") -> None:
        """Go on with one of two blocks."""
        self._end(f"br i1 {condition.text}, label %{yes.name}, label %{no.name}{hint}")

    def switch(self, value: Value, default: Block) -> Switch:
        """Go on with one of several blocks, to which cases are added."""
        self._end(f"switch {value.spelled} {value.text}, label %{default.name} [ ]")
        return Switch(value.spelled, self.lines)

    def ret(self, value: Value) -> None:
        """Return a value."""
        self._end(f"ret {value.spelled} {value.text}")

    def ret_void(self) -> None:
        """Return."""
        self._end("ret void")

    def unreachable(self) -> None:
        """Say that nothing comes here."""
        self._end("unreachable")

    # numbers

    add: Callable[..., Value] = _binary("add")
    sub: Callable[..., Value] = _binary("sub")
    mul: Callable[..., Value] = _binary("mul")
    sdiv: Callable[..., Value] = _binary("sdiv")
    udiv: Callable[..., Value] = _binary("udiv")
    urem: Callable[..., Value] = _binary("urem")
    and_: Callable[..., Value] = _binary("and")
    or_: Callable[..., Value] = _binary("or")
    xor: Callable[..., Value] = _binary("xor")
    shl: Callable[..., Value] = _binary("shl")
    ashr: Callable[..., Value] = _binary("ashr")
    lshr: Callable[..., Value] = _binary("lshr")
    fadd: Callable[..., Value] = _binary("fadd")
    fsub: Callable[..., Value] = _binary("fsub")
    fdiv: Callable[..., Value] = _binary("fdiv")
    frem: Callable[..., Value] = _binary("frem")
    icmp_signed: Callable[..., Value] = _comparison("icmp", _SIGNED)
    icmp_unsigned: Callable[..., Value] = _comparison("icmp", _UNSIGNED)
    fcmp_ordered: Callable[..., Value] = _comparison("fcmp", _ORDERED)
    fcmp_unordered: Callable[..., Value] = _comparison("fcmp", _UNORDERED)
    trunc: Callable[..., Value] = _conversion("trunc")
    zext: Callable[..., Value] = _conversion("zext")
    sext: Callable[..., Value] = _conversion("sext")
    fptrunc: Callable[..., Value] = _conversion("fptrunc")
    fpext: Callable[..., Value] = _conversion("fpext")
    sitofp: Callable[..., Value] = _conversion("sitofp")
    uitofp: Callable[..., Value] = _conversion("uitofp")
    fptosi: Callable[..., Value] = _conversion("fptosi")
    bitcast: Callable[..., Value] = _conversion("bitcast")
    inttoptr: Callable[..., Value] = _conversion("inttoptr")
    ptrtoint: Callable[..., Value] = _conversion("ptrtoint")

    def fmul(self, lhs: Value, rhs: Value, flags: tuple[str, ...] = ()) -> Value:
        """Return a product."""
        return Product(_product(self, lhs, rhs, flags), (lhs, rhs))

    def fneg(self, value: Value, flags: tuple[str, ...] = ()) -> Value:
        """Return a number with the other sign."""
        text = next(self.names)
        self.lines.append(f"{text} = fneg{_words(flags)} {value.spelled} {value.text}")
        return Value(value.type, value.spelled, text)

    def neg(self, value: Value) -> Value:
        """Return an integer with the other sign."""
        text = next(self.names)
        self.lines.append(f"{text} = sub {value.spelled} 0, {value.text}")
        return Value(value.type, value.spelled, text)

    def not_(self, value: Value) -> Value:
        """Return an integer whose bits are the others."""
        text = next(self.names)
        self.lines.append(f"{text} = xor {value.spelled} {value.text}, -1")
        return Value(value.type, value.spelled, text)

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        """Return one of two values."""
        text = next(self.names)
        self.lines.append(
            f"{text} = select {condition.spelled} {condition.text}, {yes.spelled} {yes.text}, "
            f"{no.spelled} {no.text}"
        )
        return Value(yes.type, yes.spelled, text)

    def phi(self, kind: Any) -> Phi:
        """Return a value that is known behind each block that leads here."""
        text, to = next(self.names), spelled(kind)
        self.lines.append(f"{text} = phi {to}")
        return Phi(kind, to, text, self.lines)

    def call(
        self,
        function: Any,
        args: Sequence[Value],
        cconv: str = "",
        fastmath: tuple[str, ...] = (),
        attrs: str = "",
    ) -> Value:
        """Return what a function gives: one of the module, one that a pointer leads to, or assembler."""
        kind = function.function_type.return_type
        to = spelled(kind)
        if isinstance(function, Function):
            cconv = cconv or function.convention
        words = " ".join(filter(None, ["call", *fastmath, cconv, to, function.get_reference()]))
        line = f"{words}({', '.join([f'{a.spelled} {a.text}' for a in args])}) {attrs}".rstrip()
        text = ""
        if to != "void":
            text = next(self.names)
            line = f"{text} = {line}"
        self.lines.append(line)
        return Value(kind, to, text)

    # vectors

    def extract_element(self, vector: Value, k: Value) -> Value:
        """Return a number of a vector."""
        text, kind = next(self.names), vector.type.element
        self.lines.append(f"{text} = extractelement {vector.spelled} {vector.text}, {k.spelled} {k.text}")
        return Value(kind, str(kind), text)

    def insert_element(self, vector: Value, value: Value, k: Value) -> Value:
        """Return a vector with another number."""
        text = next(self.names)
        self.lines.append(
            f"{text} = insertelement {vector.spelled} {vector.text}, {value.spelled} {value.text}, "
            f"{k.spelled} {k.text}"
        )
        return Value(vector.type, vector.spelled, text)

    def shuffle_vector(self, x: Value, y: Value, mask: Value) -> Value:
        """Return a vector of the numbers of two."""
        kind = ir.VectorType(x.type.element, mask.type.count)
        text = next(self.names)
        self.lines.append(
            f"{text} = shufflevector {x.spelled} {x.text}, {y.spelled} {y.text}, {mask.spelled} {mask.text}"
        )
        return Value(kind, str(kind), text)

    # memory

    def reserve(self, kind: Any, align: int = 0) -> Value:
        """Return a pointer to memory of the function's own."""
        text = next(self.names)
        line = f"{text} = alloca {spelled(kind)}"
        self.function.blocks[0].lines.append(f"{line}, align {align}" if align else line)
        return Value(kind.as_pointer(), "ptr", text)

    def load(self, pointer: Value, align: int = 0) -> Value:
        """Return what a pointer points to."""
        kind = pointer.type.pointee
        text, to = next(self.names), spelled(kind)
        line = f"{text} = load {to}, ptr {pointer.text}"
        self.lines.append(f"{line}, align {align}" if align else line)
        return Value(kind, to, text)

    def store(self, value: Value, pointer: Value, align: int = 0) -> None:
        """Let a pointer point to a value.

        Raises:
            TypeError: it points to something else.
        """
        if value.spelled != spelled(pointer.type.pointee):
            raise TypeError(f"{value.spelled} at a pointer to {pointer.type.pointee}")
        line = f"store {value.spelled} {value.text}, ptr {pointer.text}"
        self.lines.append(f"{line}, align {align}" if align else line)

    def gep(self, pointer: Value, indices: Sequence[Value], inbounds: bool = False) -> Value:
        """Return the pointer to what is so many elements further on."""
        (index,) = indices
        text, words = next(self.names), "getelementptr inbounds" if inbounds else "getelementptr"
        self.lines.append(
            f"{text} = {words} {spelled(pointer.type.pointee)}, ptr {pointer.text}, "
            f"{index.spelled} {index.text}"
        )
        return Value(pointer.type, "ptr", text)

    def access(self, scope: str) -> None:
        """Note that the last instruction loads or stores in the memory of that name, if it has one."""
        if scope:
            self.accesses.append((self.lines, len(self.lines) - 1, scope))
