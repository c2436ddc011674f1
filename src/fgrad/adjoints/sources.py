"""Sources of kernels: their text, what its free names stand for, and a function while it is lowered."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fgrad.adjoints.jumps import without_jumps
from fgrad.adjoints.recursion import RefusedError, calls_itself, without_recursion
from fgrad.adjoints.syntax import UnsupportedKernelError, unsupported
from fgrad.adjoints.values import Static, Value
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
        ast.increment_lineno(found, first - 1)
        self.tree = found
        closure = inspect.getclosurevars(function)
        self.names: dict[str, Any] = {**vars(builtins), **function.__globals__, **closure.nonlocals}
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
        known = getattr(known, "kernel_to_differentiate", known)
        known = getattr(known, "py_func", known)
        return getattr(known, "__code__", None) is self.function.__code__


_sources: dict[Any, Source] = {}


def source_of(function: Callable[..., Any]) -> Source:
    """Return the source of a function; it is read once."""
    code = function.__code__
    if function.__closure__ or code not in _sources:
        made = Source(function)
        if function.__closure__:
            return made
        _sources[code] = made
    return _sources[code]


class Scope:
    """One function while it is lowered: what its names stand for."""

    def __init__(self, source: Source) -> None:
        self.source: Source = source
        self.names: dict[str, Value] = {}
        self.body: list[ast.stmt] = without_jumps(source.loops)
        self.stores: Counter[str] = Counter(stored_names(self.body))
        self.assigned: set[str] = set(self.stores)
        self.result: Value = Static(None)
        self.variables: dict[str, str] = {}  # names of scalars, by those of the source
        self.carried: set[str] = set()  # names of arrays that loops around bind anew


def stored_names(stmts: Sequence[ast.stmt], *, loops: bool = True) -> Iterator[str]:
    """Yield a name for each place where it is assigned; without `loops`, not where loops do so."""
    nodes = [n for s in stmts for n in ast.walk(s)]
    skipped = set() if loops else {id(n.target) for n in nodes if isinstance(n, ast.For)}
    for n in nodes:
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and id(n) not in skipped:
            yield n.id
