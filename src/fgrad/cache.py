"""The folder of compiled code, for users: what it holds, and how to clear it. `kernels.store` maintains it.

Compiled code depends on the versions of fgrad, Numba and NumPy, on Python and on the processor: what was made
for others is left alone until the folder is full, and then goes first, for it was used longest ago.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from fgrad import config
from fgrad.blocks import suppress
from fgrad.kernels import store
from fgrad.names import offered as _offered

__all__ = ["Info", "clear", "info"]


class Info(NamedTuple):
    """What the folder of compiled code holds.

    Attributes:
        folder: where it is, or would be; see `folder`.
        entries: how many kernels and modules it holds.
        bytes: how many bytes they take.
        limit: how many they may take; the entries used longest ago leave first.
        refusal: why the folder is not used, because others may write to it; "" where they may not.
    """

    folder: Path
    entries: int
    bytes: int
    limit: int
    refusal: str

    def __str__(self) -> str:
        size, limit = (f"{n / 1e6:.1f} MB" for n in (self.bytes, self.limit))
        refused = f"\nnot used: {self.refusal}" if self.refusal else ""
        return f"folder   {self.folder}\nentries  {self.entries}\nsize     {size} of at most {limit}{refused}"


def folder() -> Path:
    """Return the folder of compiled code: `FGRAD_CACHE_DIR`, else `fgrad` in the user's cache folder.

    It is made when something is compiled, readable by its owner alone. It is not used where it, or a folder
    above it, is not the user's own or others may write there (a `CacheWarning` says so), nor where
    `FGRAD_CACHE_SIZE` is 0: code then lives as long as its process.
    """
    return config.cache_dir()


def info() -> Info:
    """Return what the folder of compiled code holds.

    Example:
        >>> import fgrad
        >>> fgrad.cache.info().entries >= 0
        True
    """
    entries = store.entries(folder())
    refusal = ""
    with suppress(OSError):  # where there is none yet
        refusal = store.doubt(folder().resolve())
    return Info(folder(), len(entries), sum(e.size for e in entries.values()), config.cache_size(), refusal)


def clear() -> int:
    """Remove all compiled code from the folder, and nothing else; return how many entries there were.

    What running processes have loaded stays in use; they compile anew only what they did not need before.
    """
    entries = store.entries(folder())
    for entry in entries.values():
        store.remove(entry.files)
    return len(entries)


def __dir__() -> list[str]:
    return _offered(globals())
