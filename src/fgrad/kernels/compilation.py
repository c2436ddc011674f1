"""From the text of a native kernel to machine code: Numba types and lowers it, LLVM does the rest directly.

`numba.cfunc` alone would do, and does where Numba has changed inside. This takes half the time: fewer of
Numba's passes, no answer of its type inference is looked for twice, one pass over the code by LLVM instead
of two, and the function is private to its module, so that only one copy of it is made, without a path for
errors, which it cannot raise.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from fgrad.kernels import store

FASTMATH = {"contract"}  # fused multiply-add


class Code(NamedTuple):
    """A function as it is kept on disk."""

    symbol: str
    externals: tuple[str, ...]  # symbols of other libraries
    machine: bytes  # an object file


def compiled(function: Callable[..., Any], signature: str) -> tuple[Code | None, int, Any]:
    """Return the machine code of `function` if that can be had, its address, and what keeps it alive.

    Args:
        function: a kernel of `native`; it raises no errors.
        signature: "kernel", or "entry" for the function that Python calls.
    """
    _load_libraries()
    types = _types(signature)
    with _collector_asleep():
        try:
            code = _compiled(function, *types)
            address, owner = link(code)
        except Exception:  # noqa: BLE001 -- Numba's inside, where any change is possible; true errors come again
            address = 0
        return (code, address, owner) if address else _compiled_by_numba(function, *types)


def lock() -> contextlib.AbstractContextManager[None]:
    """Return Numba's lock: with one of our own, a thread that compiles within Numba's could wait for ever."""
    from numba.core.compiler_lock import global_compiler_lock  # noqa: PLC0415 -- late, as in `_types`

    held: contextlib.AbstractContextManager[None] = global_compiler_lock
    return held


def link(code: Code) -> tuple[int, Any]:
    """Return the address of a function given as machine code, and what keeps it alive; 0 if it is damaged."""
    from llvmlite import binding  # noqa: PLC0415 -- late: eager programs need no machine code

    if not all(map(_is_known, code.externals)):
        return 0, None
    try:
        engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _machine())  # which it owns
        engine.add_object_file(binding.ObjectFileRef.from_data(code.machine))
        engine.finalize_object()
        return engine.get_function_address(code.symbol), engine
    except RuntimeError:  # not an object file of this platform
        return 0, None


def _types(signature: str) -> tuple[tuple[Any, ...], Any]:
    from numba import types  # noqa: PLC0415 -- late: it takes longer to import than the rest of fgrad

    numbers = types.CPointer(types.int64)
    if signature == "kernel":
        return (numbers, numbers, types.uintp, types.uintp), types.void
    return (numbers, numbers, types.int64), types.int64


def _compiled(function: Callable[..., Any], args: tuple[Any, ...], result: Any) -> Code:
    from llvmlite import binding  # noqa: PLC0415 -- late, as above
    from numba.core import compiler, registry  # noqa: PLC0415

    cpu: Any = importlib.import_module("numba.core.cpu")
    flags: Any = compiler.Flags()
    flags.no_compile = flags.no_cpython_wrapper = True
    flags.error_model = "numpy"
    flags.fastmath = cpu.FastMathOptions(FASTMATH)
    target = registry.cpu_target
    with lock(), _answers_remembered():
        lowered = compiler.compile_extra(
            target.typing_context,
            target.target_context,
            function,
            args,
            result,
            flags,
            {},
            pipeline_class=_pipeline(),
        )
        library = lowered.library
        module = binding.parse_assembly(library.get_llvm_str())
        for used in library._linking_libraries:
            module.link_in(used._get_module_for_linking(), preserve=True)
    name = lowered.fndesc.llvm_cfunc_wrapper_name
    for item in (*module.functions, *module.global_variables):
        if not item.is_declaration and item.name != name and not item.name.startswith("llvm."):
            item.linkage = "internal"
    module.verify()
    machine = _machine()
    tuning = binding.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = True
    # it calls vector functions by the usual convention, but those of `vector.far` have one of their own
    tuning.slp_vectorization = not any(f.name.startswith("fgrad_far_") for f in module.functions)
    builder = binding.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return Code(name, _externals(str(module)), machine.emit_object(module))


def _compiled_by_numba(
    function: Callable[..., Any], args: tuple[Any, ...], result: Any
) -> tuple[Code | None, int, Any]:
    """Return what `compiled` does by way of Numba's public functions, and one private method."""
    from numba import cfunc  # noqa: PLC0415 -- late, as above

    made: Any = cfunc(result(*args), error_model="numpy", fastmath=FASTMATH)(function)
    try:
        machine = bytes(made._library._get_compiled_object())
    except Exception:  # noqa: BLE001 -- without it kernels live in memory only
        return None, made.address, made
    return Code(made.native_name, _externals(made.inspect_llvm()), machine), made.address, made


def _externals(assembly: str) -> tuple[str, ...]:
    declared = re.findall(r'^declare [^@]*@"?([\w.$]+)"?\(', assembly, re.MULTILINE)
    return tuple([name for name in declared if not name.startswith("llvm.")])


@cache
def _pipeline() -> type:
    """Return the passes of Numba that a kernel needs."""
    from numba.core import compiler, compiler_machinery, typed_passes, untyped_passes  # noqa: PLC0415 -- as above

    class Pipeline(compiler.CompilerBase):
        def define_pipelines(self) -> list[Any]:
            passes = compiler_machinery.PassManager("fgrad")
            for step in (
                untyped_passes.TranslateByteCode,
                untyped_passes.FixupArgs,
                untyped_passes.IRProcessing,
                untyped_passes.InlineInlinables,
                untyped_passes.ReconstructSSA,
                typed_passes.NopythonTypeInference,
                typed_passes.PreLowerStripPhis,
                typed_passes.IRLegalization,
                typed_passes.NativeLowering,
                typed_passes.NoPythonBackend,
            ):
                passes.add_pass(step, step.__name__)
            passes.finalize()
            return [passes]

    return Pipeline


@cache
def _answers() -> dict[Any, Any]:
    return {}


@contextlib.contextmanager
def _answers_remembered() -> Iterator[None]:
    """Let Numba remember which implementation an operator has for numbers and pointers.

    It asks that for every operator in a kernel, twice, and goes through all implementations each time, which
    is half of its time. Others do not notice: they wait for the lock that the caller holds.
    """
    from numba.core import types  # noqa: PLC0415 -- late, as above

    kind: Any = types.functions.BaseFunction
    search, answers, simple = kind.get_call_type, _answers(), (types.Number, types.Boolean, types.CPointer)

    def remembered(self: Any, context: Any, args: tuple[Any, ...], kws: Any) -> Any:
        if kws or not all(isinstance(a, simple) for a in args):
            return search(self, context, args, kws)
        if (self, args) not in answers:
            answers[self, args] = search(self, context, args, kws)
        return answers[self, args]

    kind.get_call_type = remembered
    try:
        yield
    finally:
        kind.get_call_type = search


def _machine() -> Any:
    """Return a description of this machine for LLVM, as Numba makes it."""
    target, options = _target()
    return target.create_target_machine(**options)


@cache
def _target() -> tuple[Any, dict[str, Any]]:
    from llvmlite import binding  # noqa: PLC0415 -- late, as above

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_triple(binding.get_process_triple())
    cpu, features = store.processor()
    positions = {"x86": "static", "ppc": "pic"}
    reloc = positions.get(target.name[:3], "default")
    return target, {
        "cpu": cpu,
        "features": features,
        "opt": 3,
        "reloc": reloc,
        "codemodel": "jitdefault",
        "jit": True,
    }


def _is_known(symbol: str) -> bool:
    """Return whether `symbol` can be linked to; an engine that looks for it in vain ends the process."""
    from llvmlite import binding  # noqa: PLC0415 -- late, as above

    _load_libraries()
    return bool(binding.address_of_symbol(symbol))


@cache
def _load_libraries() -> None:
    from llvmlite import binding  # noqa: PLC0415 -- late, as above

    if sys.platform == "linux":
        for name in ("libm.so.6", "libmvec.so.1"):
            with contextlib.suppress(RuntimeError):  # not where the C library is another than glibc
                binding.load_library_permanently(name)


@contextlib.contextmanager
def _collector_asleep() -> Iterator[None]:
    """Compile without the collector of cycles, which finds nothing and takes its time."""
    awake = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if awake:
            gc.enable()
