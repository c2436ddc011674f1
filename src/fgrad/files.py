"""Files that no interrupt leaves open, and that are written whole or not at all.

CPython looks for signals where a function of C has returned. So what opens a file hands it on without a
return to Python, to what closes it.
"""

from __future__ import annotations

import os
import uuid
from collections import deque
from pathlib import Path
from typing import Any

from fgrad.blocks import Block, suppress

_SAFELY = 0  # flags to open a file with
for _name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"):  # which no system has all of
    _SAFELY |= getattr(os, _name, 0)


def opened(path: Path, flags: int, mode: str) -> Any:
    """Return an open file; links are not followed, and nobody is waited for."""
    [stream] = map(open, map(os.open, [path], [flags | _SAFELY], [0o600]), [mode])
    return stream


class _Folder(Block):
    """The descriptor of a folder, for a block."""

    __slots__ = ("_closing", "_held", "path")

    def __init__(self, path: Path) -> None:
        self._watch = None
        self.path: Path = path
        self._held: list[int] = []
        self._closing = map(os.close, self._held)

    def __enter__(self) -> int:
        self._held.extend(map(os.open, [self.path], [os.O_RDONLY | os.O_DIRECTORY | _SAFELY]))
        return self._held[0]

    def undo(self, mark: Any) -> None:
        """Close it, once."""
        deque(self._closing, 0)


def write(path: Path, content: bytes, *, lasting: bool = False) -> None:
    """Write a file that is the user's alone, in such a way that no process ever sees part of it.

    Args:
        path: of the file.
        content: what is to be in it.
        lasting: return only when it is on disk, under its name.

    Raises:
        OSError: it cannot be written.
    """
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}.tmp")
    try:
        with opened(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, "wb") as stream:
            if hasattr(os, "fchmod"):
                os.fchmod(stream.fileno(), 0o600)  # whatever the umask
            stream.write(content)
            if lasting:
                stream.flush()
                os.fsync(stream.fileno())
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    if lasting and hasattr(os, "O_DIRECTORY"):
        with _Folder(path.parent) as folder:
            os.fsync(folder)
