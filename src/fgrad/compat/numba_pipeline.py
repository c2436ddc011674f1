"""Numba's compiler for text that fgrad writes: without the passes that such text has no use for."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from functools import cache
from types import BuiltinFunctionType, ModuleType
from typing import Any

import numpy as np

from fgrad.compat import self_test

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
    calls = list(inspect.signature(_functions().get_call_type).parameters)
    values = list(inspect.signature(_contexts().resolve_value_type).parameters)
    return known and calls == ["self", "context", "args", "kws"] and values == ["self", "val"]


@cache
def short() -> dict[str, Any]:
    """Return options of `numba.njit` with which it compiles straight code faster."""
    if not passes_are_known():
        return {}
    from numba.core.compiler import CompilerBase, DefaultPassBuilder  # noqa: PLC0415 -- late, as above
    from numba.core.compiler_machinery import PassManager  # noqa: PLC0415

    class Short(CompilerBase):
        """The compiler without those passes."""

        def define_pipelines(self) -> list[Any]:
            """Return the one pipeline."""
            made = PassManager("short")
            for step in DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
                if step[0].__name__ not in _NEEDLESS:
                    made.passes.append(step)
            made.finalize()
            return [made]

    return {"pipeline_class": Short, "no_cfunc_wrapper": True}


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

        kind.get_call_type, contexts.resolve_value_type = remembered, resolved
        try:
            return function.compile(signature)  # type: ignore[no-any-return]
        finally:
            kind.get_call_type, contexts.resolve_value_type = typed, valued


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
