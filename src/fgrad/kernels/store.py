"""The cache of compiled code on disk: which files are trusted, how they are written and evicted.

All of it gets executed, so nobody but the user may have written it: files are opened without following links
or waiting for anybody, and used if they are the user's own, which nobody else may write to, in a folder of
which the same holds. Where that is not so, code lives in memory only, and a warning says why.

An entry is a file `k_<hash>.o`, and its age is the time since it was used. It is written under another name
and moved to its place: a process that ends at any moment leaves whole files, and parts that are swept later.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import sys
import time
import warnings
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np

from fgrad import config
from fgrad.blocks import suppress
from fgrad.core.trace import user_frame
from fgrad.errors import CacheWarning
from fgrad.files import opened, write

LARGEST = 2**26  # bytes of an entry: one of more is not fgrad's
SLACK = 32  # of the limit, this part may be written between two looks at what the folder holds
ABANDONED = 3600.0  # seconds after which nobody still writes a file

_NAMES = f"k_{'[0-9a-f]' * 32}.*"
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def folder() -> Path | None:
    """Return the folder of the cache, made if need be; None where that cannot be, or others may write."""
    if config.cache_size() <= 0:
        return None
    with suppress(OSError, RuntimeError):  # the latter where there is no home directory
        path = _made()
        why = doubt(path)
        if not why:
            return path if os.access(path, os.R_OK | os.W_OK | os.X_OK) else None
        _warn(
            str(path),
            f"the folder of compiled code is not used, because {why}, so that others could plant code there: "
            "what is compiled lives as long as its process. Give the folder and those above it to yourself "
            "alone (`chmod go-w`), choose another one by the environment variable FGRAD_CACHE_DIR, or none "
            "by FGRAD_CACHE_SIZE=0",
        )
    return None


def _made() -> Path:
    path = Path(os.path.realpath(config.cache_dir()))
    missing = []
    for place in (path, *path.parents):
        if place.exists():
            break
        missing.append(place)
    for place in reversed(missing):
        with suppress(FileExistsError):  # another process was faster
            place.mkdir(mode=0o700)
    return path


def doubt(path: Path) -> str:
    """Return why somebody else may have written to a folder, "" if nobody may.

    The folders above count too, up to one in which everybody may rename their own only, as in /tmp.

    Raises:
        OSError: there is none, or one above cannot be looked at.
    """
    user = _user()
    for place in (path, *path.parents):
        status = place.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(place)
        if user is None:
            continue
        if status.st_uid not in {user, *((0,) if place != path else ())}:
            return f"{place} belongs to another user (number {status.st_uid})"
        if status.st_mode & stat.S_ISVTX and place != path:
            break
        if status.st_mode & _OTHERS:
            return f"others may write to {place} (its mode is {stat.S_IMODE(status.st_mode):o})"
    return ""


def read(path: Path) -> bytes:
    """Return what an entry holds; nothing if there is none, or if others may have written it."""
    with suppress(OSError):
        why = _doubt_of_file(path.lstat())
        if not why:
            with opened(path, os.O_RDONLY, "rb") as stream:  # it waits for nobody, whatever came there
                status = os.fstat(stream.fileno())
                why = _doubt_of_file(status)
                if not why:
                    return stream.read() if status.st_size <= LARGEST else b""
        _warn(
            str(path.parent),
            f"compiled code in the cache is not used, because {why}: {path}. It is compiled again, and "
            "replaced where possible; `fgrad.cache.clear()` removes all there is",
        )
    return b""


def _doubt_of_file(status: os.stat_result) -> str:
    user = _user()
    if not stat.S_ISREG(status.st_mode):
        return "it is no regular file"
    if user is None:
        return ""
    if status.st_uid != user:
        return f"it belongs to another user (number {status.st_uid})"
    if status.st_mode & _OTHERS:
        return f"others may write to it (its mode is {stat.S_IMODE(status.st_mode):o})"
    return ""


def _user() -> int | None:
    """Return the number of the user, None where there are none, as on Windows."""
    return os.geteuid() if hasattr(os, "geteuid") else None


_told: set[str] = set()


def _warn(about: str, message: str) -> None:
    """Warn once of what is about a folder."""
    if about in _told:
        return
    _told.add(about)
    frame = user_frame()
    warnings.warn_explicit(message, CacheWarning, frame.f_code.co_filename, frame.f_lineno)


_unseen: dict[Path, int] = {}  # of one folder: bytes written since its size was looked at


def keep(path: Path, content: bytes) -> None:
    """Write an entry, and remove those used longest ago where the folder has grown beyond its limit.

    Raises:
        OSError: it cannot be written.
    """
    if len(content) > LARGEST:
        return
    write(path, content)
    written = _unseen.get(path.parent)
    if written is None or written + len(content) > config.cache_size() // SLACK:
        shrink(path)
        _unseen.clear()
        written = -len(content)
    _unseen[path.parent] = written + len(content)


def sealed(name: str, content: bytes) -> bytes:
    """Return an entry: content behind a digest of it and of the name of the entry."""
    return digest(name, content).encode() + b"\n" + content


def unsealed(name: str, entry: bytes) -> bytes:
    """Return the content of an entry; nothing if it is damaged, or another one's."""
    total, _, content = entry.partition(b"\n")
    return content if total and total == digest(name, content).encode() else b""


def kept(key: str) -> bytes:
    """Return what was kept for a key; nothing if there is none."""
    path = path_of(key)
    content = unsealed(path.stem, read(path)) if path else b""
    if path and content:
        touch(path)
    return content


def keep_for(key: str, content: bytes) -> None:
    """Keep content for a key, where that can be."""
    path = path_of(key)
    if path:
        with suppress(OSError):
            keep(path, sealed(path.stem, content))


def path_of(key: str) -> Path | None:
    """Return where the entry of a key is; None where nothing is kept."""
    place = folder()
    return place / f"k_{digest(key)}.o" if place else None


def remove(files: list[Path]) -> None:
    """Remove files, those that can be."""
    for file in files:
        with suppress(OSError):  # on Windows, in use by another process
            file.unlink(missing_ok=True)


def touch(path: Path) -> None:
    """Note that an entry was used."""
    with suppress(OSError):
        os.utime(path)


def shrink(newest: Path) -> None:
    """Remove the entries used longest ago, until those that stay leave some of the limit, and sweep.

    Files that were never finished go too, once nobody can still be writing them.
    """
    found = entries(newest.parent)
    now, limit = time.time(), config.cache_size()
    busy: set[Path] = set()
    for entry in found.values():
        remove([file for file, written in entry.parts if abs(now - written) > ABANDONED])
        busy |= {file for file, written in entry.parts if abs(now - written) <= ABANDONED}
    if newest.stem in found:
        found[newest.stem].used = np.inf
    total = sum(e.size for e in found.values())
    for entry in sorted(found.values(), key=lambda e: e.used):
        if total <= limit - limit // SLACK or entry.used == np.inf:
            return
        total -= entry.size
        remove([file for file in entry.files if file not in busy])


class Entry:
    """The files of one piece of code, how many bytes they take, and when it was used.

    Attributes:
        files: the entry itself, and what killed writers left of it.
        parts: which those are, and when they were written.
    """

    __slots__ = ("files", "parts", "size", "used")

    def __init__(self) -> None:
        self.files: list[Path] = []
        self.parts: list[tuple[Path, float]] = []
        self.size: int = 0
        self.used: float = 0.0


def entries(path: Path) -> dict[str, Entry]:
    """Return the entries of the cache in a folder, with what killed writers left of some."""
    found: defaultdict[str, Entry] = defaultdict(Entry)
    for file in path.glob(_NAMES):
        with suppress(OSError):  # another process may remove it meanwhile
            status = file.lstat()
            entry = found[file.name.partition(".")[0]]
            entry.files.append(file)
            entry.size += status.st_size
            if ".tmp" in file.suffixes:
                entry.parts.append((file, status.st_mtime))
            elif file.suffix == ".o":
                entry.used = max(entry.used, status.st_mtime)
    return dict(found)


def digest(*parts: str | bytes) -> str:
    """Return a hash of the parts, as text."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part.encode() if isinstance(part, str) else part)
    return total.hexdigest()[:32]


@cache
def header() -> str:
    """Return what machine code depends on besides the text, which is part of the hash."""
    import llvmlite  # noqa: PLC0415 -- late: eager programs of NumPy's ufuncs need no machine code
    from llvmlite import binding  # noqa: PLC0415 -- likewise

    cpu, features = processor()
    python = f"{sys.implementation.cache_tag} {platform.python_version()}{getattr(sys, 'abiflags', '')}"
    llvm = ".".join(map(str, binding.llvm_version_info))
    fgrad = sys.modules["fgrad"]  # the package around, which imports this
    return (
        f"# fgrad {fgrad.__version__} {_sources()[:16]}, "
        f"llvmlite {llvmlite.__version__} with LLVM {llvm}, numpy {np.__version__}, {python} of "
        f"{sys.maxsize.bit_length() + 1} bits on {platform.machine()} {binding.get_process_triple()}, "
        f"{cpu} {digest(features)[:16]}{', checked' * config.checked()}"
    )


def _sources() -> str:
    """Return a hash of the modules that make machine code, which change without a new version too."""
    here = Path(__file__).parent
    found = hashlib.sha256()
    for file in sorted(here.rglob("*.py")):
        found.update(f"{file.relative_to(here).as_posix()}\n".encode() + file.read_bytes())
    return found.hexdigest()


def processor() -> tuple[str, str]:
    """Return the name and the features of the processor that code is made for."""
    from llvmlite import binding  # noqa: PLC0415 -- late: eager programs of NumPy's ufuncs need no machine code

    name = os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES")
    return name, binding.get_host_cpu_features().flatten() if features is None else features
