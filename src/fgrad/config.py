"""Settings that come from the environment, each read when it is needed."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_dir() -> Path:
    """Return the folder of compiled kernels: `FGRAD_CACHE_DIR`, else `fgrad` in the user's cache folder."""
    chosen = os.environ.get("FGRAD_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "fgrad" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fgrad"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fgrad"


def cache_size() -> int:
    """Return how many bytes the folder of compiled kernels may hold: `FGRAD_CACHE_SIZE`, default 256 MiB."""
    return _integer("FGRAD_CACHE_SIZE", 256 * 2**20)


def num_threads() -> int:
    """Return how many threads kernels may use: `FGRAD_NUM_THREADS`, else the usable cores, at most 8."""
    return max(1, _integer("FGRAD_NUM_THREADS", min(_usable_cores(), 8)))


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _integer(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"the environment variable {name} must be an integer, not {text!r}") from None
