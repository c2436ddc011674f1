"""The texts of kernels as modules of Python, which tracebacks and debuggers show."""

from __future__ import annotations

import ast
import linecache
from collections import deque
from collections.abc import Callable
from copy import copy
from functools import lru_cache, wraps
from types import ModuleType
from typing import Any

import numpy as np

from fgrad import config
from fgrad.kernels import store

_shown: deque[str] = deque()  # the names of modules that tracebacks show, the oldest first


def execute(text: str, **names: Any) -> ModuleType:
    """Return a module that ran `text` with `names` defined.

    Tracebacks and debuggers show the text, that of the youngest `config.cache_entries()` modules.
    """
    name = f"_fgrad_k_{store.digest(text)}"
    module = ModuleType(name)
    file = module.__file__ = f"<{name}>"
    if file not in linecache.cache:
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        _shown.append(file)
        while len(_shown) > config.cache_entries():
            linecache.cache.pop(_shown.popleft(), None)
    vars(module).update(names)
    exec(compile(text, file, "exec"), vars(module))  # noqa: S102 -- the text is fgrad's own
    return module


def declared(text: str, **names: Any) -> tuple[ModuleType, dict[str, ast.FunctionDef]]:
    """Return what `execute` does, with functions that do nothing, and their syntax by name.

    Most functions are in many texts: each is parsed once.
    """
    body: list[ast.stmt] = []
    functions: dict[str, ast.FunctionDef] = {}
    for part in _parts(text):
        if part.startswith(("@", "def ")):
            function = _function(part)
            functions[function.name] = function
            body.append(_empty(function))
        else:
            body += ast.parse(part).body
    module = ModuleType(f"_fgrad_k_{store.digest(text)}")
    module.__file__ = f"<{module.__name__}>"
    vars(module).update(names)
    exec(compile(ast.Module(body, []), module.__file__, "exec"), vars(module))  # noqa: S102 -- as above
    return module, functions


def _parts(text: str) -> list[str]:
    """Return the text of each function, with its decorators, and what stands between them."""
    parts: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line[:1] not in {"", " ", ")", "#"}:  # it begins a statement
            begins, current = line.startswith(("@", "def ")), parts[-1]
            decorated = bool(current) and current[-1].startswith("@")
            if not decorated and (begins or (current and current[0].startswith(("@", "def ")))):
                parts.append([])
        parts[-1].append(line)
    return ["\n".join(part).rstrip() for part in parts]


@lru_cache(config.cache_entries())
def _function(text: str) -> ast.FunctionDef:
    (found,) = ast.parse(text).body
    assert isinstance(found, ast.FunctionDef)  # noqa: S101 -- as it begins
    return found


def _empty(function: ast.FunctionDef) -> ast.FunctionDef:
    """Return a function that does nothing, with the name, parameters and decorators of another one."""
    made = copy(function)
    made.body = [_NOTHING]
    return made


_NOTHING = ast.parse("pass").body[0]


def quiet(kernel: Callable[..., None]) -> Callable[..., None]:
    """Return `kernel`, interpreted by Python, without NumPy's warnings: compiled code has none."""

    @wraps(kernel)
    def run(*args: Any) -> None:
        with np.errstate(all="ignore"):
            kernel(*args)

    return run
