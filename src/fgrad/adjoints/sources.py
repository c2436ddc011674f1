"""Sources of kernels: their text, what its free names stand for, and a function while it is lowered."""

from __future__ import annotations
import __future__

import ast
import builtins
import inspect
import textwrap
from collections import Counter
from collections.abc import Callable
from copy import copy
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from fgrad.adjoints.jumps import without_jumps
from fgrad.adjoints.names import stored_names
from fgrad.adjoints.recursion import RefusedError, calls_itself, without_recursion
from fgrad.adjoints.syntax import UnsupportedKernelError, unsupported
from fgrad.adjoints.values import Static, Value
from fgrad.compat.cpython import codes, steps
from fgrad.compat.numba import frozen_names
from fgrad.core.trace import place_of


class Source:
    """The text of a function, and what its free names stand for."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function: Callable[..., Any] = function
        self.name: str = function.__name__
        self.file: str = inspect.getsourcefile(function) or "?"
        try:
            lines, first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            raise UnsupportedKernelError(
                f"the source of {self.name} is not to be found, and its derivative is made from it: define "
                "it in a file or a notebook cell"
            ) from None
        tree = ast.parse(textwrap.dedent("".join(lines)))
        found = tree.body[0]
        if not isinstance(found, ast.FunctionDef):
            raise UnsupportedKernelError(
                f"{place_of(f'{self.file}:{first}')}: write the kernel as a function with `def`"
            )
        if not _is_source(found, function.__code__):
            raise UnsupportedKernelError(
                f"{place_of(f'{self.file}:{first}')}: {self.name} was imported before its source changed, "
                "from which its derivative is made: import it anew"
            )
        ast.increment_lineno(found, first - 1)
        self.tree = found
        self.names: dict[str, Any] = _names(function)
        self.first = first
        self.loops: ast.FunctionDef = self.without_recursion()

    def without_recursion(self) -> ast.FunctionDef:
        """Return the function with a loop in place of its calls of itself."""
        if not calls_itself(self.tree, self.is_self):
            return self.tree
        try:
            return without_recursion(self.tree, self.is_self)
        except RefusedError as error:
            node, what, remedy = error.args
            text = ast.unparse(node).splitlines()[0]
            raise unsupported(self.file, node.lineno, self.name, f"`{text}` {what}. {remedy}") from None

    def is_self(self, node: ast.expr) -> bool:
        """Return whether an expression is the function itself."""
        first, *rest = ast.unparse(node).split(".")
        known = self.names.get(first)
        for part in rest:
            known = getattr(known, part, None)
        known = getattr(_own(known), "py_func", known)
        return known is self.function


def _is_source(tree: ast.FunctionDef, code: CodeType) -> bool:
    """Return whether the code of a function is what a text gives: its file may have changed since."""
    own = copy(tree)
    own.decorator_list = []
    cells = [ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)) for name in code.co_freevars]
    around = ast.FunctionDef("around", _PARAMETERS, [*cells, own], [])
    module = ast.fix_missing_locations(ast.Module([around if cells else own], []))
    flags = code.co_flags & __future__.annotations.compiler_flag
    made = compile(module, code.co_filename, "exec", flags, dont_inherit=True)
    wanted = steps(code)
    return any(steps(c) == wanted for c in codes(made))


_PARAMETERS = ast.arguments([], [], None, [], [], None, [])


def source_of(function: Callable[..., Any]) -> Source:
    """Return the source of a function, which is read once, and what its names stand for now."""
    found = copy(_read(function))
    found.names = _names(function)
    return found


_read = lru_cache(1024)(Source)  # by the function: others of equal code may name other things


def _names(function: Callable[..., Any]) -> dict[str, Any]:
    return {**vars(builtins), **function.__globals__, **inspect.getclosurevars(function).nonlocals}


def demand_frozen(dispatcher: Any) -> None:
    """Refuse a function whose names stand for something else than when Numba compiled it.

    Raises:
        UnsupportedKernelError: its derivative would be that of another function.
    """
    function = dispatcher.py_func
    names = _names(function)
    for name, old in frozen_names(dispatcher):
        new = names.get(name, old)
        if _own(old) is _own(new) or (isinstance(old, _NUMBERS) and repr(old) == repr(new)):
            continue
        values = isinstance(old, _NUMBERS) and isinstance(new, _NUMBERS)
        raise UnsupportedKernelError(
            f"{place_of(f'{inspect.getsourcefile(function)}:{function.__code__.co_firstlineno}')}: "
            f"{name} was {f'{old!r}' if values else 'something else'} when Numba compiled {function.__name__}"
            f"{f', and is {new!r} now' if values else ''}: its derivative would be that of another function. "
            f"Define {function.__name__} anew, or pass {name} as an argument"
        )


_NUMBERS = (bool, int, float, complex, str, tuple, np.generic)


def _own(x: Any) -> Any:
    """Return the kernel itself of what fgrad differentiates."""
    return getattr(x, "kernel_to_differentiate", x)


class Scope:
    """One function while it is lowered: what its names stand for."""

    def __init__(self, source: Source) -> None:
        self.source: Source = source
        self.names: dict[str, Value] = {}
        self.body: list[ast.stmt] = without_jumps(source.loops)
        self.stores: Counter[str] = Counter(stored_names(self.body))
        self.assigned: set[str] = set(self.stores)
        self.stores.update(a.arg for a in source.tree.args.args)  # a call assigns them first
        self.result: Value = Static(None)
        self.variables: dict[str, str] = {}  # names of scalars, by those of the source
        self.carried: set[str] = set()  # names of arrays that loops around bind anew
