"""The texts of kernels as modules of Python, which tracebacks and debuggers show."""

from __future__ import annotations

import linecache
from collections import deque
from collections.abc import Callable
from functools import wraps
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


def quiet(kernel: Callable[..., None]) -> Callable[..., None]:
    """Return `kernel`, interpreted by Python, without NumPy's warnings: compiled code has none."""

    @wraps(kernel)
    def run(*args: Any) -> None:
        with np.errstate(all="ignore"):
            kernel(*args)

    return run
