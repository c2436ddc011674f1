"""Numbers inside kernels: the types of results, and their instructions, as in Numba.

A kind is the name of a dtype, with a star behind it for a pointer. Integers are computed in 64 bits,
and a float beside an integer is float64. Mixtures that Numba settles by losing bits (int64 and uint64)
and operations that no kernel needs are `UntranslatableError`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from llvmlite import ir

from fgrad.kernels import assembly, checks

BITS: dict[str, ir.Type] = {
    "bool": ir.IntType(1),
    **{f"{sign}int{bits}": ir.IntType(bits) for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float32": ir.FloatType(),
    "float64": ir.DoubleType(),
    "complex64": ir.LiteralStructType([ir.FloatType()] * 2),
    "complex128": ir.LiteralStructType([ir.DoubleType()] * 2),
}


class Builder(assembly.Builder):
    """Writes the instructions of a kernel.

    Attributes:
        floats: the flags of arithmetic of floats: contract, where products and sums are fused, or none.
        differences: the same for differences: a product that one side alone does not round makes them wrong.
        title: what to call the kernel.
        where: the text of what is being written.
    """

    floats: tuple[str, ...] = ("contract",)
    differences: tuple[str, ...] = ()
    title = where = ""

    def require(self, good: Any, index: Any, size: Any) -> None:
        """Leave the kernel where an access is outside of its buffer, and note which; see `checks`."""
        with self.if_then(self.not_(good), likely=False):
            text = self.module.string(f"{self.title}: {self.where}".encode() + b"\0")
            word = ir.IntType(64)
            note = self.module.declare(checks.SYMBOL, ir.FunctionType(ir.VoidType(), [text.type, word, word]))
            self.call(note, [text, index, size])
            result = self.function.function_type.return_type
            if isinstance(result, ir.VoidType):
                self.ret_void()
            else:
                self.ret(assembly.constant(result, 0))


class UntranslatableError(Exception):
    """There is something in the text of a kernel that kernels cannot say."""


@dataclass(eq=False, repr=False, slots=True)
class Number:
    """A value that a kernel computes: its kind, LLVM's value, and what stands in the text if it does.

    `limits` are where the memory of a pointer begins and ends, if that is known.
    """

    kind: str
    value: assembly.Value
    literal: Any = None
    limits: tuple[assembly.Value, assembly.Value] | None = None


def type_of(kind: str) -> Any:
    """Return the type that LLVM has for a kind."""
    return BITS[kind[:-1]].as_pointer() if kind[-1] == "*" else BITS[kind]


def constant(kind: str, number: Any) -> Number:
    """Return a number that is known."""
    return Number(kind, assembly.constant(BITS[kind], number), number)


def is_float(kind: str) -> bool:
    """Return whether numbers of a kind have fractions."""
    return kind in {"float32", "float64"}


def is_whole(kind: str) -> bool:
    """Return whether they are integers, or truth values."""
    return ("int" in kind and kind[-1] != "*") or kind == "bool"


def is_signed(kind: str) -> bool:
    """Return whether integers of a kind have a sign."""
    return kind.startswith("int")


@cache
def unified(a: str, b: str) -> str:
    """Return the kind of what is one or the other."""
    if a == b:
        return a
    if is_whole(a) and is_whole(b):
        if "bool" in {a, b}:
            return b if a == "bool" else a
        if is_signed(a) == is_signed(b):
            return max(a, b, key=_width)
        signed, unsigned = (a, b) if is_signed(a) else (b, a)
        if _width(signed) > _width(unsigned):
            return signed
    elif is_float(a) or is_float(b):
        return _common(a, b)
    raise UntranslatableError(f"something is {a} or {b}")


def convert(builder: Builder, x: Number, kind: str) -> Number:
    """Return a number as one of another kind, as C does."""
    if x.kind == kind:
        return x
    if x.literal is not None and kind != "bool":
        value = x.literal
        if is_float(kind) or (is_whole(x.kind) and 0 <= int(value) < 2 ** (_width(kind) - 1)):
            return constant(kind, value)
    if x.kind[-1] == "*" or kind[-1] == "*" or x.kind not in BITS or "complex" in kind + x.kind:
        raise UntranslatableError(f"{x.kind} becomes {kind}")
    if kind == "bool":
        return truth(builder, x)
    to = BITS[kind]
    if is_float(kind):
        if is_float(x.kind):
            value = builder.fpext(x.value, to) if kind == "float64" else builder.fptrunc(x.value, to)
        else:
            value = (builder.sitofp if is_signed(x.kind) else builder.uitofp)(x.value, to)
    elif is_float(x.kind):
        value = _truncated(builder, x, kind)
    elif _width(kind) < _width(x.kind):
        value = builder.trunc(x.value, to)
    elif _width(kind) == _width(x.kind):
        value = x.value
    else:
        value = (builder.sext if is_signed(x.kind) else builder.zext)(x.value, to)
    return Number(kind, value)


def _truncated(builder: Builder, x: Number, kind: str) -> assembly.Value:
    """Return a float as an integer: by a signed one that is wide enough, so that -1 wraps as in C."""
    whole = ir.IntType(32 if _width(kind) < 32 or kind == "int32" else 64)
    value = builder.fptosi(x.value, whole)
    if kind == "uint64":
        half = assembly.constant(x.value.type, 2.0**63)
        above = builder.xor(
            builder.fptosi(builder.fsub(x.value, half), whole), assembly.constant(whole, 1 << 63)
        )
        value = builder.select(builder.fcmp_ordered("<", x.value, half), value, above)
    return value if whole == BITS[kind] else builder.trunc(value, BITS[kind])


def truth(builder: Builder, x: Number) -> Number:
    """Return whether a number is not zero."""
    if x.kind == "bool":
        return x
    if is_float(x.kind):
        return Number("bool", builder.fcmp_unordered("!=", x.value, assembly.constant(x.value.type, 0.0)))
    if not is_whole(x.kind):
        raise UntranslatableError(f"the truth of {x.kind}")
    return Number("bool", builder.icmp_unsigned("!=", x.value, assembly.constant(x.value.type, 0)))


def invert(builder: Builder, x: Number) -> Number:
    """Return whether something is not so."""
    return Number("bool", builder.not_(truth(builder, x).value))


def negate(builder: Builder, x: Number) -> Number:
    """Return `-x`."""
    if x.literal is not None and (is_float(x.kind) or x.kind == "int64"):
        return constant(x.kind, -x.literal)
    if is_float(x.kind):
        return Number(x.kind, builder.fneg(x.value, flags=builder.floats))
    x = _signed_in_full(builder, x)
    return Number(x.kind, builder.neg(x.value))


def complement(builder: Builder, x: Number) -> Number:
    """Return `~x`."""
    if x.kind == "bool":
        return invert(builder, x)
    x = _signed_in_full(builder, x)
    return Number(x.kind, builder.not_(x.value))


def binary(
    builder: Builder, operation: type[ast.operator], x: Number, y: Number, flags: tuple[str, ...] = ()
) -> Number:
    """Return the result of one of Python's operators; `flags` are of unsigned sums and products."""
    if operation in _BITWISE and x.kind == y.kind == "bool":
        return Number("bool", _BITWISE[operation](builder, x.value, y.value))
    if operation in _SHIFTS:
        return _shifted(builder, operation, x, y)
    kind = _common(x.kind, y.kind)
    if operation is ast.Div and not is_float(kind):
        kind = "float64"
    x, y = convert(builder, x, kind), convert(builder, y, kind)
    if is_float(kind):
        if operation is ast.Mod:
            return _remainder(builder, x, y)
        if operation not in _FLOATS:
            raise UntranslatableError(f"{operation.__name__} of floats")
        if operation is ast.Add and builder.floats:
            return Number(kind, _sum(builder, x.value, y.value))
        if operation is ast.Sub and builder.differences:
            return Number(kind, _difference(builder, x.value, y.value))
        flags = builder.floats if operation is not ast.Sub else ()
        return Number(kind, _FLOATS[operation](builder, x.value, y.value, flags))
    if operation in {ast.Add, ast.Mult} and kind == "uint64":
        return Number(kind, _WHOLE[operation](builder, x.value, y.value, flags))
    if operation in _WHOLE:
        return Number(kind, _WHOLE[operation](builder, x.value, y.value))
    if operation in {ast.FloorDiv, ast.Mod}:
        quotient, rest = _divided(builder, x, y)
        return quotient if operation is ast.FloorDiv else rest
    raise UntranslatableError(f"{operation.__name__} of integers")


def compare(builder: Builder, operation: type[ast.cmpop], x: Number, y: Number) -> Number:
    """Return the result of a comparison: with NaN only "not equal" holds."""
    if operation not in _COMPARISONS:
        raise UntranslatableError(operation.__name__)
    sign = _COMPARISONS[operation]
    if is_whole(x.kind) and is_whole(y.kind):
        return _compared(builder, sign, x, y)
    kind = _common(x.kind, y.kind)
    test = builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered
    return Number("bool", test(sign, convert(builder, x, kind).value, convert(builder, y, kind).value))


def _compared(builder: Builder, sign: str, x: Number, y: Number) -> Number:
    """Return the comparison of integers, also of one that has no sign with one that has."""
    if "uint64" not in {x.kind, y.kind} or x.kind == y.kind:
        kind = _common(x.kind, y.kind)
        test = builder.icmp_signed if is_signed(kind) else builder.icmp_unsigned
        return Number("bool", test(sign, *(convert(builder, n, kind).value for n in (x, y))))
    as_unsigned = builder.icmp_unsigned(sign, *(convert(builder, n, "uint64").value for n in (x, y)))
    signed, below = (y, {">", ">=", "!="}) if x.kind == "uint64" else (x, {"<", "<=", "!="})
    negative = builder.icmp_signed("<", signed.value, assembly.constant(signed.value.type, 0))
    certain = assembly.constant(BITS["bool"], sign in below)
    return Number("bool", builder.select(negative, certain, as_unsigned))


def select(builder: Builder, condition: Number, x: Number, y: Number) -> Number:
    """Return `x` where a condition holds, else `y`."""
    kind = unified(x.kind, y.kind)
    x, y = convert(builder, x, kind), convert(builder, y, kind)
    return Number(kind, builder.select(truth(builder, condition).value, x.value, y.value))


def smaller(builder: Builder, x: Number, y: Number) -> Number:
    """Return the smaller integer."""
    return _extreme(builder, ast.LtE, x, y)


def larger(builder: Builder, x: Number, y: Number) -> Number:
    """Return the larger integer."""
    return _extreme(builder, ast.GtE, x, y)


def absolute(builder: Builder, x: Number) -> Number:
    """Return the number without its sign."""
    if is_float(x.kind):
        return function(builder, "fabs", x)
    if not is_signed(x.kind):
        return _signed_in_full(builder, x)
    zero = assembly.constant(x.value.type, 0)
    negative = builder.icmp_signed("<", x.value, zero)
    return Number(x.kind, builder.select(negative, builder.neg(x.value), x.value))


def function(builder: Builder, name: str, *given: Number) -> Number:
    """Return the result of a function of `math`, of floats of one kind."""
    kind = given[0].kind if len({x.kind for x in given}) == 1 else _common(*(x.kind for x in given))
    if not is_float(kind):
        raise UntranslatableError(f"math.{name} of {kind}")
    values = [convert(builder, x, kind).value for x in given]
    if name in _TESTS:
        return Number("bool", _TESTS[name](builder, *values))
    to = BITS[kind]
    signature = ir.FunctionType(to, [to] * len(values))
    if name in _INSTRUCTIONS:
        made = builder.module.declare_intrinsic(f"llvm.{name}", [to], signature)
        return Number(kind, builder.call(made, values, fastmath=builder.floats))
    if name in _OF_THE_C_LIBRARY:
        symbol = f"{name}f" if kind == "float32" else name
        return Number(kind, builder.call(builder.module.declare(symbol, signature), values))
    raise UntranslatableError(f"math.{name}")


def _signed_in_full(builder: Builder, x: Number) -> Number:
    """Return an integer, which has 64 bits if it has a sign."""
    return _widened(builder, x) if is_signed(x.kind) or not is_whole(x.kind) or x.kind == "bool" else x


def _widened(builder: Builder, x: Number) -> Number:
    """Return an integer in 64 bits."""
    if not is_whole(x.kind) or x.kind == "bool":
        raise UntranslatableError(f"{x.kind} as an integer")
    return convert(builder, x, "int64" if is_signed(x.kind) else "uint64")


def _width(kind: str) -> int:
    return int(BITS[kind].width)


@cache
def _common(a: str, b: str) -> str:
    """Return the kind in which two numbers meet."""
    if is_float(a) or is_float(b):
        if a == b:
            return a
        other = b if is_float(a) else a
        if "float64" not in {a, b} and not is_float(other) and other not in BITS:
            raise UntranslatableError(f"{a} beside {b}")
        if "float64" not in {a, b} and is_whole(other) and _width(other) < 32:
            raise UntranslatableError(f"{a} beside {b}, which Numba computes in float32")
        return "float64"
    if not (is_whole(a) and is_whole(b)):
        raise UntranslatableError(f"{a} beside {b}")
    signs = {is_signed(k) for k in (a, b) if k != "bool"}
    if signs == {False}:
        if "bool" in {a, b}:
            raise UntranslatableError(f"{a} beside {b}")
        return "uint64"
    if False in signs and "uint64" in {a, b}:
        raise UntranslatableError(f"{a} beside {b}, which Numba computes in float64")
    return "int64"


def _extreme(builder: Builder, better: type[ast.cmpop], x: Number, y: Number) -> Number:
    if not (is_whole(x.kind) and is_whole(y.kind)):
        raise UntranslatableError(f"the smaller or larger of {x.kind} and {y.kind}")
    return select(builder, compare(builder, better, x, y), x, y)


def _shifted(builder: Builder, operation: type[ast.operator], x: Number, y: Number) -> Number:
    wide = _widened(builder, x)
    kind, value, by = wide.kind, wide.value, convert(builder, _widened(builder, y), wide.kind).value
    if operation is ast.LShift:
        return Number(kind, builder.shl(value, by))
    return Number(kind, (builder.ashr if is_signed(kind) else builder.lshr)(value, by))


def _divided(builder: Builder, x: Number, y: Number) -> tuple[Number, Number]:
    """Return quotient and rest, rounded down; dividing by zero gives zero, and nothing traps."""
    kind, zero, one = x.kind, assembly.constant(x.value.type, 0), assembly.constant(x.value.type, 1)
    nothing = builder.icmp_unsigned("==", y.value, zero)
    if not is_signed(kind):
        by = builder.select(nothing, one, y.value)
        quotient, rest = builder.udiv(x.value, by), builder.urem(x.value, by)
    else:
        minus = builder.icmp_signed("==", y.value, assembly.constant(x.value.type, -1))
        by = builder.select(builder.or_(nothing, minus), one, y.value)
        quotient = builder.sdiv(x.value, by)
        rest = builder.sub(x.value, builder.mul(quotient, by))
        differ = builder.icmp_signed("<", builder.xor(rest, by), zero)
        below = builder.and_(builder.icmp_unsigned("!=", rest, zero), differ)
        quotient = builder.select(below, builder.sub(quotient, one), quotient)
        rest = builder.select(below, builder.add(rest, by), rest)
        quotient = builder.select(minus, builder.neg(x.value), quotient)
    quotient, rest = builder.select(nothing, zero, quotient), builder.select(nothing, zero, rest)
    return Number(kind, quotient), Number(kind, rest)


def _sum(builder: Builder, x: assembly.Value, y: assembly.Value) -> assembly.Value:
    """Return `x + y`, fused with the first of them that is a product nobody else needs.

    It is said here which product is fused. LLVM would fuse what it finds beside a sum when it chooses
    instructions, and not the same in vectors as in what is left of a loop behind them, so that bits would
    depend on where threads cut it.
    """
    if isinstance(x, assembly.Product):
        return _fused(builder, *x.factors, y)
    if isinstance(y, assembly.Product):
        return _fused(builder, *y.factors, x)
    return builder.fadd(x, y)


def _difference(builder: Builder, x: assembly.Value, y: assembly.Value) -> assembly.Value:
    """Return `x - y`, likewise."""
    if isinstance(x, assembly.Product):
        return _fused(builder, *x.factors, builder.fneg(y))
    if isinstance(y, assembly.Product):
        first, second = y.factors
        return _fused(builder, builder.fneg(first), second, x)
    return builder.fsub(x, y)


def _fused(builder: Builder, x: assembly.Value, y: assembly.Value, z: assembly.Value) -> assembly.Value:
    """Return `x * y + z`, rounded once where the processor does so."""
    signature = ir.FunctionType(x.type, [x.type] * 3)
    made: assembly.Value = builder.call(
        builder.module.declare_intrinsic("llvm.fmuladd", [x.type], signature), [x, y, z]
    )
    return made


def _remainder(builder: Builder, x: Number, y: Number) -> Number:
    """Return the rest of a division of floats, which has the sign of `y`."""
    zero = assembly.constant(x.value.type, 0.0)
    rest = builder.frem(x.value, y.value)
    differ = builder.xor(builder.fcmp_ordered("<", y.value, zero), builder.fcmp_ordered("<", rest, zero))
    moved = builder.select(differ, builder.fadd(rest, y.value), rest)
    nothing = function(builder, "copysign", Number(x.kind, zero), y).value
    return Number(x.kind, builder.select(builder.fcmp_unordered("!=", rest, zero), moved, nothing))


_BITWISE = {ast.BitAnd: Builder.and_, ast.BitOr: Builder.or_, ast.BitXor: Builder.xor}
_WHOLE = {ast.Add: Builder.add, ast.Sub: Builder.sub, ast.Mult: Builder.mul, **_BITWISE}
_FLOATS = {ast.Add: Builder.fadd, ast.Sub: Builder.fsub, ast.Mult: Builder.fmul, ast.Div: Builder.fdiv}
_SHIFTS = {ast.LShift, ast.RShift}
_COMPARISONS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_INSTRUCTIONS = {"copysign", "sqrt", "fabs"}
_OF_THE_C_LIBRARY = {
    *("exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "pow", "hypot", "erf", "erfc", "nextafter"),
    *(f"{a}{name}{h}" for a in ("", "a") for name in ("sin", "cos", "tan") for h in ("", "h")),
    "atan2",
}


def _is_finite(builder: Builder, x: assembly.Value) -> assembly.Value:
    return builder.fcmp_ordered("<", _size(builder, x), assembly.constant(x.type, math.inf))


def _is_infinite(builder: Builder, x: assembly.Value) -> assembly.Value:
    return builder.fcmp_ordered("==", _size(builder, x), assembly.constant(x.type, math.inf))


def _size(builder: Builder, x: assembly.Value) -> assembly.Value:
    signature = ir.FunctionType(x.type, [x.type])
    return builder.call(builder.module.declare_intrinsic("llvm.fabs", [x.type], signature), [x])


_TESTS: dict[str, Callable[[Builder, assembly.Value], assembly.Value]] = {
    "isnan": lambda builder, x: builder.fcmp_unordered("uno", x, x),
    "isfinite": _is_finite,
    "isinf": _is_infinite,
}
