"""Numba's compiler for text that fgrad writes: without the passes that such text has no use for."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable
from functools import cache
from types import BuiltinFunctionType, ModuleType
from typing import Any, ClassVar

import numpy as np

from fgrad.blocks import Nested
from fgrad.compat import self_test
from fgrad.compat.numpy import DATA, SHAPE, STRIDES, layout_is_known

_NEEDLESS = {
    "InlineClosureLikes", "RewriteSemanticConstants", "DeadBranchPrune", "MakeFunctionToJitFunction",
    "InlineInlinables", "FindLiterallyCalls", "LiteralUnroll", "LiteralPropagationSubPipelinePass",
    "NopythonRewrites", "AnnotateTypes", "DumpParforDiagnostics", "RewriteDynamicRaises", "WithLifting",
}  # fmt: skip


@self_test
def passes_are_known() -> bool:
    """Return whether Numba's passes and its typing are where they are looked for."""
    from numba.core.compiler import DefaultPassBuilder  # noqa: PLC0415 -- late: few programs use Numba

    known = all(hasattr(DefaultPassBuilder, f"define_{n}_pipeline") for n in ("nopython", "untyped", "typed"))
    return known and all(
        list(inspect.signature(getattr(owner, name)).parameters) == expected.split()
        for owner, name, expected in (
            (_functions(), "get_call_type", "self context args kws"),
            (_contexts(), "resolve_value_type", "self val"),
            (_codegen(), "create_pass_builder", "tm opt loop_vectorize slp_vectorize"),
            (_codegen().CPUCodeLibrary, "_optimize_functions", "self ll_module"),
            (_wrappers()._ArgManager, "add_arg", "self obj ty"),
        )
    )


@cache
def short(*, whole: bool = False) -> dict[str, Any]:
    """Return options of `numba.njit` with which it compiles straight code faster.

    LLVM goes through a module once, not through each function before that as well, and does not write out
    turns of loops one after another: what comes out is as fast.

    Args:
        whole: arrays that the function returns are new ones, or arguments as they are. Then the code for
            Python takes arrays from where NumPy keeps their fields, and nobody counts who holds them.
    """
    if not passes_are_known():
        return {}
    from numba.core.compiler import CompilerBase, DefaultPassBuilder  # noqa: PLC0415 -- late, as above
    from numba.core.compiler_machinery import PassManager, register_pass  # noqa: PLC0415
    from numba.core.typed_passes import NativeLowering  # noqa: PLC0415

    @register_pass(mutates_CFG=True, analysis_only=False)
    class Lowering(NativeLowering):
        """The pass that makes machine code of one function; those that it calls are there already."""

        _name = f"fgrad_lowering{'_whole' * whole}"

        def run_pass(self, state: Any) -> bool:
            """Do what the pass does, with fewer ones of LLVM's."""
            codegen, arguments = _codegen(), _wrappers()._ArgManager
            changed: list[Any] = [(codegen, "create_pass_builder", _builder),
                       (codegen.CPUCodeLibrary, "_optimize_functions", _laid_out)]  # fmt: skip
            if whole and layout_is_known():
                changed.append((arguments, "add_arg", _taking(arguments.add_arg)))
            with _Changed(*changed):
                return bool(super().run_pass(state))  # type: ignore[no-untyped-call]

    class Short(CompilerBase):
        """The compiler without those passes."""

        def define_pipelines(self) -> list[Any]:
            """Return the one pipeline."""
            made = PassManager("short")
            for step in DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
                if step[0] is NativeLowering:
                    made.passes.append((Lowering, *step[1:]))
                elif step[0].__name__ not in _NEEDLESS:
                    made.passes.append(step)
            made.finalize()
            return [made]

    return {"pipeline_class": Short, "no_cfunc_wrapper": True}


def short_c() -> dict[str, Any]:
    """Return options of `numba.cfunc` with which it compiles straight code faster."""
    found = short()
    return {"pipeline_class": found["pipeline_class"]} if found else {}


class _Changed(Nested):
    """Attributes have other values inside. It is for the thread that has the lock of Numba's compiler."""

    inside: ClassVar[list[_Changed]] = []

    def __init__(self, *attributes: tuple[Any, str, Any]) -> None:
        super().__init__()
        self.attributes: tuple[tuple[Any, str, Any], ...] = attributes

    def __enter__(self) -> None:
        self.stays.append([(owner, name, getattr(owner, name)) for owner, name, _ in self.attributes])
        self.inside.append(self)
        for owner, name, value in self.attributes:
            setattr(owner, name, value)

    def put_back(self, stay: list[tuple[Any, str, Any]]) -> None:
        """Give them the values that they had."""
        for owner, name, value in stay:
            setattr(owner, name, value)
        if self in self.inside:
            self.inside.remove(self)


def put_back() -> None:
    """Undo, in a child process, what a thread of the parent process was in the middle of."""
    for changed in _Changed.inside[::-1]:
        changed.undo(0)


def _builder(tm: Any, opt: int = 2, loop_vectorize: bool = False, slp_vectorize: bool = False) -> Any:
    """Return what makes LLVM's passes: those of Numba, without turns of loops one after another."""
    from llvmlite import binding  # noqa: PLC0415 -- late, as above

    tuning = binding.create_pipeline_tuning_options(speed_level=opt)
    tuning.loop_vectorization, tuning.slp_vectorization = loop_vectorize, slp_vectorize
    tuning.loop_unrolling = tuning.loop_interleaving = False
    return binding.create_pass_builder(tm, tuning)


def _laid_out(library: Any, module: Any) -> None:
    """Say how a module lies in memory, in the place of passes over each of its functions."""
    module.data_layout = library._codegen._data_layout


def _taking(usual: Callable[..., Any]) -> Callable[..., Any]:
    """Return what takes an argument from an object of Python: of an array its fields, of others as usual."""
    from llvmlite import ir  # noqa: PLC0415 -- late, as above
    from numba import types  # noqa: PLC0415
    from numba.np.arrayobj import make_array, populate_array  # noqa: PLC0415
    from numba.np.numpy_support import as_dtype  # noqa: PLC0415

    word = ir.IntType(64)

    def add_arg(self: Any, obj: Any, ty: Any) -> Any:
        if not isinstance(ty, types.Array):
            return usual(self, obj, ty)
        build, context = self.builder, self.context

        def words(address: Any, places: Iterable[int]) -> list[Any]:
            start = build.bitcast(address, word.as_pointer())
            return [build.load(build.gep(start, [ir.Constant(word, k)])) for k in places]

        data, *sizes = words(obj, (DATA, SHAPE, STRIDES))
        shape, strides = (words(build.inttoptr(x, word.as_pointer()), range(ty.ndim)) for x in sizes)
        array = make_array(ty)(context, build)
        populate_array(
            array,
            data=build.inttoptr(data, array.data.type),
            shape=shape,
            strides=strides,
            itemsize=context.get_constant(types.intp, as_dtype(ty.dtype).itemsize),
            meminfo=None,
            parent=obj,
        )
        return array._getvalue()

    return add_arg


def compiled_at_once(function: Any, signature: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the machine code of a function that `numba.njit` made, compiled for arguments of these types.

    It takes them without a look at their types: arrays have to be aligned, and lie in memory as those say.
    What operators give is found once for the same types, and so are the types of functions and modules, for
    which Numba else makes and drops an exception at every place where one is named.
    """
    if not passes_are_known():
        return function.compile(signature)  # type: ignore[no-any-return]
    from numba.core.compiler_lock import global_compiler_lock  # noqa: PLC0415 -- late, as above

    kind, contexts = _functions(), _contexts()
    with global_compiler_lock:
        typed, valued = kind.get_call_type, contexts.resolve_value_type
        if typed.__module__ == __name__:  # while another one is compiled
            return function.compile(signature)  # type: ignore[no-any-return]
        known: dict[Any, Any] = {}
        named: dict[int, tuple[Any, Any]] = {}  # with the value, so that its address stays its own

        def remembered(self: Any, context: Any, args: Any, kws: Any) -> Any:
            if kws or not _is_fixed(self.typing_key):
                return typed(self, context, args, kws)
            key = self.typing_key, tuple(args)
            if key not in known:
                known[key] = typed(self, context, args, kws)
            return known[key]

        def resolved(self: Any, val: Any) -> Any:
            if not isinstance(val, _NAMED):
                return valued(self, val)
            if id(val) not in named:
                named[id(val)] = val, valued(self, val)
            return named[id(val)][1]

        with _Changed((kind, "get_call_type", remembered), (contexts, "resolve_value_type", resolved)):
            return function.compile(signature)  # type: ignore[no-any-return]


def _codegen() -> Any:
    """Return the module that has LLVM make machine code."""
    from numba.core import codegen  # noqa: PLC0415 -- late, as above

    return codegen


def _wrappers() -> Any:
    """Return the module that writes what Python calls."""
    from numba.core import callwrapper  # noqa: PLC0415 -- late, as above

    return callwrapper


def _contexts() -> Any:
    """Return the class of what knows the types of values that functions name."""
    from numba.core.typing.context import BaseContext  # noqa: PLC0415 -- late, as above

    return BaseContext


def _functions() -> Any:
    """Return the class of Numba's types of functions, which say what a call gives."""
    from numba.core.types.functions import BaseFunction  # noqa: PLC0415 -- late, as above

    return BaseFunction


def _is_fixed(function: Any) -> bool:
    """Return whether what a function gives depends on nothing but the types of its arguments."""
    from numba.core.types import NumberClass  # noqa: PLC0415 -- late, as above

    return isinstance(function, (*_FIXED, NumberClass)) or function is range


_FIXED = (type(operator.add), np.ufunc)
_NAMED = (ModuleType, BuiltinFunctionType, np.ufunc, type)
