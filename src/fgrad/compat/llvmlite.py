"""llvmlite: the lock around its calls, those that need none, and the memory of its pass managers."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
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


def optimise(passes: Any, module: Any, builder: Any) -> None:
    """Run passes on a module, beside other threads that have modules, contexts and builders of their own.

    LLVM lets them: what it compiles in different contexts shares nothing that is not guarded.
    """
    run = unlocked("LLVMPY_RunNewModulePassManager")
    if run is None:
        passes.run(module, builder)
    else:
        run(passes, module, builder)


def object_file(machine: Any, module: Any) -> bytes:
    """Return the object file of a module, beside other threads that have machines of their own.

    Raises:
        RuntimeError: LLVM makes none.
    """
    emit = unlocked("LLVMPY_TargetMachineEmitToMemory")
    if emit is None:
        made: bytes = machine.emit_object(module)
        return made
    from llvmlite.binding import ffi  # noqa: PLC0415 -- late, as above

    with ffi.OutputString() as error:
        buffer = emit(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def unlocked(name: str) -> Callable[..., Any] | None:
    """Return a function of LLVM that does not wait for other threads; None where none is known."""
    from llvmlite.binding import ffi  # noqa: PLC0415 -- late, as above

    function = getattr(getattr(ffi.lib, name), "_cfn", None) if config.private() else None
    return function if callable(function) and hasattr(function, "argtypes") else None
