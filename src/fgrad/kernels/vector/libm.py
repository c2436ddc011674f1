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

from llvmlite import ir
from llvmlite.binding import llvm_version_info

from fgrad.kernels import store
from fgrad.kernels.assembly import Builder, Function, Module, Value, constant

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


def _variant(module: Module, libm: Function, scalar: ir.Type, lanes: int) -> Function:
    """Define the function for vectors of `lanes` numbers, or for one number."""
    name = f"fgrad_libm_{libm.name}" + (f"_{lanes}" if lanes > 1 else "")
    function = _function(module, name, scalar, lanes)
    slow = libm if lanes == 1 else _each(module, libm, scalar, lanes)
    (x,) = function.args
    builder = Builder(module, function)
    beyond, done = builder.append_basic_block(), builder.append_basic_block()
    above, below = constant(x.type, -LIMIT), constant(x.type, LIMIT)
    near = builder.and_(builder.fcmp_ordered("<=", x, below), builder.fcmp_ordered(">=", x, above))
    if lanes > 1:
        mask = ir.IntType(lanes)
        near = builder.icmp_unsigned("==", builder.bitcast(near, mask), constant(mask, -1))
    builder.cbranch(near, done, beyond)
    builder.position_at_end(done)
    builder.ret(x)
    builder.position_at_end(beyond)
    builder.ret(builder.call(slow, [x]))
    return function


def _function(module: Module, name: str, scalar: ir.Type, lanes: int) -> Function:
    """Add a function of `lanes` numbers, or of one."""
    kind = ir.VectorType(scalar, lanes) if lanes > 1 else scalar
    is_wide = lanes * (32 if isinstance(scalar, ir.FloatType) else 64) >= WIDE
    convention = "preserve_allcc" if PRESERVES and is_wide else ""
    attributes = "noinline nounwind willreturn memory(none)"
    return module.add(Function(name, ir.FunctionType(kind, [kind]), "internal", convention, attributes))


def _each(module: Module, libm: Function, scalar: ir.Type, lanes: int) -> Function:
    """Define what calls a function of the C library for each of `lanes` numbers."""
    function = _function(module, f"fgrad_libm_{libm.name}_each_{lanes}", scalar, lanes)
    (x,) = function.args
    builder = Builder(module, function)
    y = x
    for i in range(lanes):
        k = constant(ir.IntType(32), i)
        y = builder.insert_element(y, builder.call(libm, [builder.extract_element(x, k)]), k)
    builder.ret(y)
    return function


def _define(module: Module, name: str, scalar: ir.Type) -> Function:
    libm = module.declare(name, ir.FunctionType(scalar, [scalar]))
    far = _variant(module, libm, scalar, 1)
    variants = [_variant(module, libm, scalar, lanes) for lanes in _lanes(scalar)]
    # LLVM would drop variants before it needs them, and of the function an argument that is always the same
    module.used += [f.name for f in (*variants, far)]
    return far


def _libm(name: str) -> Callable[[Builder, Value], Value]:
    """Return what writes the call of a function."""

    def emit(builder: Builder, x: Value) -> Value:
        module, scalar = builder.module, x.type
        symbol = f"{name}f" if isinstance(scalar, ir.FloatType) else name
        function = module.globals.get(f"fgrad_libm_{symbol}") or _define(module, symbol, scalar)
        made = [n for n in COUNTS if f"{function.name}_{n}" in module.globals]
        variants = ",".join(f"_ZGV_LLVM_N{n}v_{function.name}({function.name}_{n})" for n in made)
        return builder.call(function, [x], attrs=f'"vector-function-abi-variant"="{variants}"')

    return emit


FUNCTIONS: dict[str, Callable[[Builder, Value], Value]] = {
    f"libm_{name}": _libm(name) for name in ("sin", "cos", "tan")
}
