"""Generated modules: written to the kernel cache, compiled once for all processes, and loaded from there.

An entry of the cache (see `store`) is the module `k_<hash>.py`, the machine code that Numba keeps for it in
`__pycache__`, and `k_<hash>.sum`, the digest of that code. An entry that is damaged is built again.
"""

from __future__ import annotations

import contextlib
import linecache
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

import numpy as np

from fgrad.kernels import store

COMPILED = (
    "import math\n\nimport numpy as np\nfrom numba import njit, types\n\n"
    "from fgrad.kernels.far_calls import far_cos, far_sin, far_tan\n"
)
HELPER = "forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True"  # of what kernels alone call
INTERPRETED = COMPILED.replace("import math", "from fgrad.kernels.mathlib import interpreted as math")

_lock = RLock()
_modules: dict[str, ModuleType] = {}


def compiled(text: str) -> Callable[..., None]:
    """Return the function `kernel` of the module `text`, compiled for the one signature that it declares.

    It is Numba's bare entry point where there is one, trusting the caller to respect the signature.
    """
    kernel: Callable[..., None] = load(text).kernel
    for result in getattr(kernel, "overloads", {}).values():
        return getattr(result, "entry_point", kernel)
    return quiet(kernel)


def load(text: str) -> ModuleType:
    """Return the module `text`: from memory, else from the cache, else newly compiled."""
    with _lock:
        if text not in _modules:
            _modules[text] = _load(text)
        return _modules[text]


def execute(text: str, filename: str = "", **names: Any) -> ModuleType:
    """Return a module that ran `text` with `names` defined; tracebacks and debuggers show the text."""
    name = f"_fgrad_k_{store.digest(text)}"
    module = ModuleType(name)
    module.__file__ = filename or f"<{name}>"
    linecache.cache[module.__file__] = (len(text), None, text.splitlines(keepends=True), module.__file__)
    vars(module).update(names)
    if filename:
        sys.modules[name] = module  # cached machine code refers to its module by this name
    exec(compile(text, module.__file__, "exec"), vars(module))  # noqa: S102 -- the text is fgrad's own
    return module


def _load(text: str) -> ModuleType:
    import numba  # noqa: PLC0415 -- late: it takes longer to import than the rest of fgrad

    if vars(numba.config)["DISABLE_JIT"]:
        return execute(f"{INTERPRETED}\n{text}")
    text = f"{store.header()}\n{COMPILED}\n{text}"
    return _load_cached(text) or execute(text.replace("cache=True", "cache=False"))


def _load_cached(text: str) -> ModuleType | None:
    """Return the module `text` by way of the cache, or None where that does not work."""
    folder = store.folder()
    if folder is None:
        return None
    path = folder / f"k_{store.digest(text)}.py"
    for _ in range(2):  # what fails the first time is a damaged entry, and is built anew
        try:
            return _load_entry(path, text)
        except Exception:  # noqa: BLE001, PERF203 -- damaged files raise anything; a true error returns without the cache
            sys.modules.pop(f"_fgrad_k_{store.digest(text)}", None)
            with contextlib.suppress(OSError):
                _forget_code(path)
    return None


def _load_entry(path: Path, text: str) -> ModuleType:
    if store.read(path) != text.encode():
        store.write(path, text.encode())
    total = path.with_suffix(".sum")  # its age is the time since the entry was used
    if store.read(total) == store.digest(*map(store.read, _code(path))).encode():
        module = execute(text, str(path))
        store.touch(total)
    else:
        _forget_code(path)
        module = execute(text, str(path))
        store.write(total, store.digest(*map(store.read, _code(path))).encode())
        store.shrink(path)
    return module


def _code(path: Path) -> list[Path]:
    """Return the files of machine code that Numba keeps for the module at `path`."""
    return sorted((path.parent / "__pycache__").glob(f"{path.stem}.*.nb[ci]"))


def _forget_code(path: Path) -> None:
    store.remove([path.with_suffix(".sum"), *_code(path)])


def quiet(kernel: Callable[..., None]) -> Callable[..., None]:
    """Return `kernel`, interpreted by Python, without NumPy's warnings: compiled code has none."""

    @wraps(kernel)
    def run(*args: Any) -> None:
        with np.errstate(all="ignore"):
            kernel(*args)

    return run
