"""Generated modules: written to the kernel cache, compiled once for all processes, and loaded from there.

An entry of the cache (see `store`) is the module `k_<hash>.py`, the machine code that Numba keeps for it in
`__pycache__`, and `k_<hash>.sum`, the digest of that code. An entry that is damaged, or that others may have
written, is built again.
"""

from __future__ import annotations

import linecache
import sys
from collections import deque
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from fgrad import config, locks
from fgrad.blocks import is_of_handler, suppress
from fgrad.core.caches import LRU
from fgrad.kernels import checks, contracts, store

COMPILED = (
    "import math\n\nimport numpy as np\nfrom numba import njit, types\n\n"
    "from fgrad.kernels.libm_fallbacks import libm_cos, libm_sin, libm_tan\n"
)
WRITTEN = 2**30  # the date of every module: older Numba takes one with a new date for another module
HELPER = "forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True"  # of what kernels alone call
INTERPRETED = COMPILED.replace("import math", "from fgrad.kernels.mathlib import interpreted as math")

_modules: LRU[str, ModuleType] = LRU()
_shown: deque[str] = deque()  # the names of modules that tracebacks show, the oldest first


def compiled(text: str) -> Callable[..., None]:
    """Return the function `kernel` of the module `text`, compiled for the one signature that it declares.

    It is Numba's bare entry point where there is one, trusting the caller to respect the signature.
    """
    kernel: Callable[..., None] = load(text).kernel
    for result in getattr(kernel, "overloads", {}).values():
        return _held(getattr(result, "entry_point", kernel), text)
    return _held(quiet(kernel), text)


def _held(kernel: Callable[..., None], text: str) -> Callable[..., None]:
    """Return a kernel that holds its arguments to its contract."""
    contract = contracts.of(text)
    if contract is None:
        return kernel
    count = len(contract.names)

    @wraps(kernel)
    def run(*args: Any) -> None:
        ask(contract, args[:count], args[-1])
        kernel(*args)

    return run


def ask(contract: contracts.Contract, args: Sequence[Any], steps: int) -> None:
    """Hold arguments to a contract; see `contracts`."""
    contract.ask((steps, *[x.shape if isinstance(x, np.ndarray) else x for x in args]), args, steps)


def load(text: str) -> ModuleType:
    """Return the module `text`: from memory, else from the cache, else newly compiled."""
    with locks.making:
        return _modules.get(text) or _modules.setdefault(text, _load(text))


def _load(text: str) -> ModuleType:
    import numba  # noqa: PLC0415 -- late: it takes longer to import than the rest of fgrad

    if vars(numba.config)["DISABLE_JIT"]:
        return execute(f"{INTERPRETED}\n{text}")
    text = f"{store.header()}\n{COMPILED}\n{text}"
    if checks.ON:
        text = text.replace("cache=True", "cache=True, boundscheck=True")
    return _load_cached(text) or execute(text.replace("cache=True", "cache=False"))


def execute(text: str, filename: str = "", **names: Any) -> ModuleType:
    """Return a module that ran `text` with `names` defined.

    Tracebacks and debuggers show the text, that of the youngest `config.cache_entries()` modules.
    """
    name = f"_fgrad_k_{store.digest(text)}"
    module = ModuleType(name)
    file = module.__file__ = filename or f"<{name}>"
    if file not in linecache.cache:
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        _shown.append(file)
        while len(_shown) > config.cache_entries():
            linecache.cache.pop(_shown.popleft(), None)
    vars(module).update(names)
    if filename:
        sys.modules[name] = module  # by this name cached machine code refers to its module while it is loaded
    try:
        exec(compile(text, file, "exec"), vars(module))  # noqa: S102 -- the text is fgrad's own
    finally:
        sys.modules.pop(name, None)
    return module


def _load_cached(text: str) -> ModuleType | None:
    """Return the module `text` by way of the cache, or None where that does not work."""
    folder = store.folder()
    if folder is None or not _has_code_folder(folder):
        return None
    path = folder / f"k_{store.digest(text)}.py"
    for _ in range(2):  # what fails the first time is a damaged entry, and is built anew
        try:
            return _load_entry(path, text)
        except Exception as error:  # noqa: PERF203 -- damaged files raise anything; a true error returns without the cache
            if is_of_handler(error):
                raise
            with suppress(OSError):
                _forget_code(path)
    return None


def _has_code_folder(folder: Path) -> bool:
    """Return whether there is a folder in which Numba's machine code is the user's own."""
    path = folder / "__pycache__"
    with suppress(OSError):
        path.mkdir(mode=0o700, exist_ok=True)
        if not store.doubt(path):
            path.chmod(0o700)  # for a moment, files there have the mode that the umask gives them
            return True
    return False


def _load_entry(path: Path, text: str) -> ModuleType:
    if store.read(path) != text.encode():
        store.write(path, text.encode(), WRITTEN)
    total = path.with_suffix(".sum")  # its age is the time since the entry was used
    if store.read(total) == _digest(path):
        module = execute(text, str(path))
        store.touch(total)
    else:
        _forget_code(path)
        module = execute(text, str(path))
        for file in _code(path):  # which Numba wrote as the umask has it
            file.chmod(0o600)
        store.write(total, _digest(path))
        store.shrink(path)
    return module


def _digest(path: Path) -> bytes:
    return store.digest(*map(store.read, _code(path))).encode()


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
