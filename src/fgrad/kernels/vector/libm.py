"""Functions of the C library for the few arguments that vector code cannot handle.

`libm_sin(x)` is `math.sin(x)` where `|x| > LIMIT`, and otherwise something that must not be used. LLVM would
not turn a loop with calls or branches into vector code; so it is told that there are variants for whole
vectors, which are defined here: they look whether any lane is beyond the limit, and return at once if none
is. They keep the registers of their caller (`preserve_allcc`); what calls the library is a function of its
own, which alone saves them all, so that looking costs next to nothing.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from llvmlite.binding import llvm_version_info

from fgrad.kernels import store

LIMIT = 4194304.0  # 2^22
WIDE = 256  # bits: LLVM ends narrower functions with `vzeroupper`, which no register survives
X86 = platform.machine().lower() in {"x86_64", "amd64"}
PRESERVES: bool = X86 and llvm_version_info >= (22,)
COUNTS = (2, 4, 8, 16)


def _lanes(scalar: ir.Type) -> list[int]:
    """Return for how many numbers there are variants: those of the widest vectors, and all below."""
    features = store.processor()[1]
    bits = 512 if not X86 or "+avx512f" in features else 256 if "+avx" in features else 128
    most = bits // (32 if isinstance(scalar, ir.FloatType) else 64)
    return [n for n in COUNTS if n <= most]


def _variant(module: ir.Module, libm: ir.Function, scalar: ir.Type, lanes: int) -> ir.Function:
    """Define the function for vectors of `lanes` numbers, or for one number."""
    name = f"fgrad_libm_{libm.name}" + (f"_{lanes}" if lanes > 1 else "")
    function = _function(module, name, scalar, lanes)
    slow = libm if lanes == 1 else _each(module, libm, scalar, lanes)
    (x,) = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    beyond, done = function.append_basic_block("beyond"), function.append_basic_block("done")

    def constant(value: float) -> ir.Constant:
        return ir.Constant(x.type, [value] * lanes if lanes > 1 else value)

    near = builder.and_(
        builder.fcmp_ordered("<=", x, constant(LIMIT)), builder.fcmp_ordered(">=", x, constant(-LIMIT))
    )
    if lanes > 1:
        near = builder.icmp_unsigned(
            "==", builder.bitcast(near, ir.IntType(lanes)), ir.Constant(ir.IntType(lanes), -1)
        )
    builder.cbranch(near, done, beyond)
    builder.position_at_end(done)
    builder.ret(x)
    builder.position_at_end(beyond)
    builder.ret(builder.call(slow, [x], cconv=slow.calling_convention))
    return function


def _function(module: ir.Module, name: str, scalar: ir.Type, lanes: int) -> ir.Function:
    """Declare a function of `lanes` numbers, or of one."""
    kind = ir.VectorType(scalar, lanes) if lanes > 1 else scalar
    function = ir.Function(module, ir.FunctionType(kind, [kind]), name)
    function.linkage = "internal"
    if PRESERVES and lanes * (32 if isinstance(scalar, ir.FloatType) else 64) >= WIDE:
        function.calling_convention = "preserve_allcc"
    for attribute in ("noinline", "nounwind", "willreturn", "memory(none)"):
        set.add(function.attributes, attribute)  # llvmlite knows not all of them
    return function


def _each(module: ir.Module, libm: ir.Function, scalar: ir.Type, lanes: int) -> ir.Function:
    """Define what calls a function of the C library for each of `lanes` numbers."""
    function = _function(module, f"fgrad_libm_{libm.name}_each_{lanes}", scalar, lanes)
    (x,) = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    y = x
    for i in range(lanes):
        k = ir.Constant(ir.IntType(32), i)
        y = builder.insert_element(y, builder.call(libm, [builder.extract_element(x, k)]), k)
    builder.ret(y)
    return function


def _define(module: ir.Module, name: str, scalar: ir.Type) -> ir.Function:
    libm = module.globals.get(name) or ir.Function(module, ir.FunctionType(scalar, [scalar]), name)
    far = _variant(module, libm, scalar, 1)
    pointer = ir.IntType(8).as_pointer()
    variants = [_variant(module, libm, scalar, lanes).bitcast(pointer) for lanes in _lanes(scalar)]
    used = module.globals.get("llvm.compiler.used")  # else LLVM would drop them before it needs them
    if used is None:
        used = ir.GlobalVariable(module, ir.ArrayType(pointer, 0), "llvm.compiler.used")
        used.linkage, used.section = "appending", "llvm.metadata"
        used.initializer = ir.Constant(used.value_type, [])
    # with the function itself: LLVM would drop an argument that is always the same, which its variants have
    variants = [*used.initializer.constant, *variants, far.bitcast(pointer)]
    used.value_type = ir.ArrayType(pointer, len(variants))
    used.type = used.value_type.as_pointer()
    used.initializer = ir.Constant(used.value_type, variants)
    return far


def _libm(name: str) -> Callable[[Any, Any], Any]:
    """Return what writes the call of a function."""

    def emit(builder: Any, x: Any) -> Any:
        module, scalar = builder.module, x.type
        symbol = f"{name}f" if isinstance(scalar, ir.FloatType) else name
        function = module.globals.get(f"fgrad_libm_{symbol}") or _define(module, symbol, scalar)
        call = builder.call(function, [x])
        made = [n for n in COUNTS if f"{function.name}_{n}" in module.globals]
        variants = ",".join(f"_ZGV_LLVM_N{n}v_{function.name}({function.name}_{n})" for n in made)
        set.add(call.attributes, f'"vector-function-abi-variant"="{variants}"')
        return call

    return emit


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    f"libm_{name}": _libm(name) for name in ("sin", "cos", "tan")
}
