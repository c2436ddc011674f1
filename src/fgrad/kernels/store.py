"""The folder in which compiled code outlives its process: who may write to it, how, and how large it gets.

An entry is one or more files whose names start with `k_<hash>.`; one of them ends in `.sum` or `.o`, and its
age is the time since the entry was used. All of it gets executed, so the folder must be the user's own and
writable by nobody else; where there can be no such folder, code lives in memory only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import stat
import sys
import uuid
from collections import defaultdict
from functools import cache
from importlib import metadata
from pathlib import Path

import numpy as np

from fgrad import config

_AGING = {".sum", ".o"}
_NAMES = f"k_{'[0-9a-f]' * 32}.*"
_WRITTEN = 2**30  # the date of every module: older Numba takes one with a new date for another module


def folder() -> Path | None:
    """Return the folder of the cache, if it is the user's own and nobody else may write to it."""
    if config.cache_size() <= 0:
        return None
    try:
        path = config.cache_dir()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except (OSError, RuntimeError):  # the latter where there is no home directory
        return None
    if hasattr(os, "getuid"):
        shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if shared or status.st_uid != os.getuid():
            return None
    return path if os.access(path, os.R_OK | os.W_OK | os.X_OK) else None


def read(path: Path) -> bytes:
    """Return what is in the file, nothing if there is none."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def write(path: Path, content: bytes) -> None:
    """Write a file in such a way that no process ever sees part of it."""
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}.tmp")
    try:
        part.write_bytes(content)
        if path.suffix == ".py":
            os.utime(part, (_WRITTEN, _WRITTEN))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def remove(files: list[Path]) -> None:
    """Remove files, those that can be."""
    for file in files:
        with contextlib.suppress(OSError):  # on Windows, in use by another process
            file.unlink(missing_ok=True)


def touch(path: Path) -> None:
    """Note that an entry was used."""
    with contextlib.suppress(OSError):
        os.utime(path)


def shrink(newest: Path) -> None:
    """Remove the entries used longest ago, until those that stay fit into `config.cache_size()`."""
    found = entries(newest.parent)
    if newest.stem in found:
        found[newest.stem].used = np.inf
    total = sum(e.size for e in found.values())
    for entry in sorted(found.values(), key=lambda e: e.used):
        if total <= config.cache_size() or entry.used == np.inf:
            return
        total -= entry.size
        remove(entry.files)


class Entry:
    """The files of one piece of code, how many bytes they take, and when it was used."""

    __slots__ = ("files", "size", "used")

    size: int
    used: float

    def __init__(self) -> None:
        self.files: list[Path] = []
        self.size, self.used = 0, 0.0


def entries(path: Path) -> dict[str, Entry]:
    """Return the entries of the cache in a folder, with what killed writers left of some."""
    found: defaultdict[str, Entry] = defaultdict(Entry)
    for file in (*path.glob(_NAMES), *path.glob(f"__pycache__/{_NAMES}")):
        with contextlib.suppress(OSError):  # another process may remove it meanwhile
            status = file.stat()
            entry = found[file.name.partition(".")[0]]
            entry.files.append(file)
            entry.size += status.st_size
            entry.used = max(entry.used, status.st_mtime * (file.suffix in _AGING))
    return dict(found)


def digest(*parts: str | bytes) -> str:
    """Return a hash of the parts, as text."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part.encode() if isinstance(part, str) else part)
    return total.hexdigest()[:32]


@cache
def header() -> str:
    """Return a comment on all that machine code depends on besides the text: it is part of the hash.

    Numba is not imported for it: code that is in the cache needs llvmlite alone.
    """
    cpu, features = processor()
    return (
        f"# fgrad {_version('fgrad')}, numba {_version('numba')}, llvmlite {_version('llvmlite')}, "
        f"numpy {np.__version__}, "
        f"{sys.implementation.cache_tag} on {platform.machine()}, {cpu} {digest(features)[:8]}"
    )


def processor() -> tuple[str, str]:
    """Return the name and the features of the processor that code is made for."""
    from llvmlite import binding  # noqa: PLC0415 -- late: eager programs of NumPy's ufuncs need no machine code

    name = os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES")
    return name, binding.get_host_cpu_features().flatten() if features is None else features


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "from source"
