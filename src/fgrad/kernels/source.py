"""Generated modules: written to the kernel cache, compiled once for all processes, and loaded from there.

An entry of the cache is the module `k_<hash>.py`, the machine code that Numba keeps for it in `__pycache__`,
and `k_<hash>.sum`, the digest of that code. All of it gets executed, so the folder must be the user's own and
writable by nobody else. An entry that is damaged is built again; where there can be no such folder, modules
live in memory only.
"""

from __future__ import annotations

import contextlib
import hashlib
import linecache
import os
import platform
import stat
import sys
import uuid
from collections import defaultdict
from collections.abc import Callable
from functools import cache, wraps
from importlib import metadata
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

import numpy as np

from fgrad import config

COMPILED = "import math\n\nimport numpy as np\nfrom numba import njit, types\n"
INTERPRETED = COMPILED.replace("import math", "from fgrad.kernels.mathlib import interpreted as math")

_WRITTEN = 2**30  # the date of every module: older Numba takes one with a new date for another module

_lock = RLock()
_modules: dict[str, ModuleType] = {}


def compiled(text: str) -> Callable[..., None]:
    """Return the function `kernel` of the module `text`, compiled for the one signature that it declares.

    It is Numba's bare entry point where there is one, trusting the caller to respect the signature.
    """
    kernel: Callable[..., None] = load(text).kernel
    for result in getattr(kernel, "overloads", {}).values():
        return getattr(result, "entry_point", kernel)
    return _quiet(kernel)


def load(text: str) -> ModuleType:
    """Return the module `text`: from memory, else from the cache, else newly compiled."""
    with _lock:
        if text not in _modules:
            _modules[text] = _load(text)
        return _modules[text]


def execute(text: str, filename: str = "", **names: Any) -> ModuleType:
    """Return a module that ran `text` with `names` defined; tracebacks and debuggers show the text."""
    name = f"_fgrad_k_{_digest(text)}"
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
    text = f"{_header()}\n{COMPILED}\n{text}"
    return _load_cached(text) or execute(text.replace("cache=True", "cache=False"))


def _load_cached(text: str) -> ModuleType | None:
    """Return the module `text` by way of the cache, or None where that does not work."""
    folder = _folder()
    if folder is None:
        return None
    path = folder / f"k_{_digest(text)}.py"
    for _ in range(2):  # what fails the first time is a damaged entry, and is built anew
        try:
            return _load_entry(path, text)
        except Exception:  # noqa: BLE001, PERF203 -- damaged files raise anything; a true error returns without the cache
            sys.modules.pop(f"_fgrad_k_{_digest(text)}", None)
            with contextlib.suppress(OSError):
                _forget_code(path)
    return None


def _load_entry(path: Path, text: str) -> ModuleType:
    if _read(path) != text.encode():
        _write(path, text)
    total = path.with_suffix(".sum")  # its age is the time since the entry was used
    if _read(total) == _digest(*map(_read, _code(path))).encode():
        module = execute(text, str(path))
        with contextlib.suppress(OSError):
            os.utime(total)
    else:
        _forget_code(path)
        module = execute(text, str(path))
        _write(total, _digest(*map(_read, _code(path))))
        _shrink(path)
    return module


def _folder() -> Path | None:
    """Return the folder of the cache, if it is the user's own and nobody else may write to it."""
    if config.cache_size() <= 0:
        return None
    try:
        folder = config.cache_dir()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError):  # the latter where there is no home directory
        return None
    if hasattr(os, "getuid"):
        shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if shared or status.st_uid != os.getuid():
            return None
    return folder if os.access(folder, os.R_OK | os.W_OK | os.X_OK) else None


def _shrink(newest: Path) -> None:
    """Remove the entries used longest ago, until those that stay fit into `config.cache_size()`."""
    files: defaultdict[str, list[Path]] = defaultdict(list)
    sizes: defaultdict[str, int] = defaultdict(int)
    used: defaultdict[str, float] = defaultdict(float)
    for file in (*newest.parent.glob("k_*"), *newest.parent.glob("__pycache__/k_*")):
        entry = file.name.partition(".")[0]
        with contextlib.suppress(OSError):  # another process may remove it meanwhile
            status = file.stat()
            files[entry].append(file)
            sizes[entry] += status.st_size
            used[entry] = max(used[entry], status.st_mtime * (file.suffix == ".sum"))
    used[newest.stem] = np.inf
    total = sum(sizes.values())
    for entry in sorted(files, key=lambda e: used[e]):
        if total <= config.cache_size() or entry == newest.stem:
            return
        total -= sizes[entry]
        _remove(files[entry])


def _code(path: Path) -> list[Path]:
    """Return the files of machine code that Numba keeps for the module at `path`."""
    return sorted((path.parent / "__pycache__").glob(f"{path.stem}.*.nb[ci]"))


def _forget_code(path: Path) -> None:
    _remove([path.with_suffix(".sum"), *_code(path)])


def _remove(files: list[Path]) -> None:
    for file in files:
        with contextlib.suppress(OSError):  # on Windows, in use by another process
            file.unlink(missing_ok=True)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _write(path: Path, text: str) -> None:
    """Write `text` in such a way that no process ever sees part of it."""
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}.tmp")
    try:
        part.write_bytes(text.encode())
        if path.suffix == ".py":
            os.utime(part, (_WRITTEN, _WRITTEN))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _digest(*parts: str | bytes) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(part.encode() if isinstance(part, str) else part)
    return total.hexdigest()[:32]


@cache
def _header() -> str:
    """Return a comment on all that machine code depends on besides the text: it is part of the hash."""
    import numba  # noqa: PLC0415 -- late, as above
    from llvmlite import binding  # noqa: PLC0415

    try:
        version = metadata.version("fgrad")
    except metadata.PackageNotFoundError:
        version = "from source"
    settings = vars(numba.config)
    cpu = settings["CPU_NAME"] or binding.get_host_cpu_name()
    features = settings["CPU_FEATURES"]
    features = binding.get_host_cpu_features().flatten() if features is None else features
    return (
        f"# fgrad {version}, numba {numba.__version__}, numpy {np.__version__}, "
        f"{sys.implementation.cache_tag} on {platform.machine()}, {cpu} {_digest(features)[:8]}"
    )


def _quiet(kernel: Callable[..., None]) -> Callable[..., None]:
    """Return `kernel`, interpreted by Python, without NumPy's warnings: compiled code has none."""

    @wraps(kernel)
    def run(*args: Any) -> None:
        with np.errstate(all="ignore"):
            kernel(*args)

    return run
