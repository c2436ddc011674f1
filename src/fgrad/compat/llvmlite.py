"""llvmlite: the lock around its calls, and the memory of its pass managers."""

from __future__ import annotations

import sys
from typing import Any

from fgrad import config
from fgrad.compat import cpython


def lock_holder() -> Any:
    """Return the object whose `_lock` all calls of LLVM take; None where none is known, or none was made."""
    return getattr(getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None), "_lock", None)


def is_locked() -> bool:
    """Return whether this thread holds that lock."""
    lock = getattr(lock_holder(), "_lock", None)
    return isinstance(lock, cpython.LOCK) and cpython.is_owned(lock)


def unlock() -> None:
    """Let go of that lock, which an interrupt in the middle of llvmlite's `__enter__` leaves taken."""
    while is_locked():
        lock_holder()._lock.release()


def free(passes: Any) -> None:
    """Free a pass manager, as neither its `close` does, which is that of its first base, nor its death.

    Where that is done in another way, its memory stays until the process ends.
    """
    from llvmlite import binding  # noqa: PLC0415 -- late: eager programs need no machine code

    if config.private():
        base: Any
        for base in type(passes).__mro__:
            if "_dispose" in vars(base) and base is not binding.ffi.ObjectRef:
                base._dispose(passes)
                passes.detach()
                return
