"""llvmlite: the lock around its calls, and the memory of its pass managers."""

from __future__ import annotations

import sys
from typing import Any

from fgrad import config


def lock_holder() -> Any:
    """Return the object whose `_lock` all calls of LLVM take; None where none is known, or none was made."""
    return getattr(getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None), "_lock", None)


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
