"""Numba: its compiler lock, machine code as bytes, how its functions are called, CUDA's simulator."""

from __future__ import annotations

import sys
from threading import RLock
from typing import Any

from fgrad import config
from fgrad.blocks import suppress


def lock_holder() -> Any:
    """Return the object whose `_lock` Numba's compiler takes; None where none is known, or none was made."""
    return getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)


def object_code(function: Any) -> bytes | None:
    """Return the object file of what `numba.cfunc` made; None if it does not say, so that it is not kept."""
    if not config.private():
        return None
    with suppress(AttributeError, RuntimeError):
        return bytes(function._library._get_compiled_object())
    return None


def loop_address(compiled: Any) -> int:
    """Return the address of a compiled function in Numba's own calling convention."""
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


def call_loop(context: Any, builder: Any, address: Any, kinds: tuple[Any, ...], values: list[Any]) -> Any:
    """Write the call of a function at an address of `loop_address`; return whether it raised nothing."""
    from numba import types  # noqa: PLC0415 -- late: it takes longer to import than the rest of fgrad
    from numba.core import callconv, cgutils  # noqa: PLC0415

    kind = context.call_conv.get_function_type(types.none, kinds)
    function = builder.inttoptr(address, kind.as_pointer())
    result, error = (cgutils.alloca_once(builder, a.pointee) for a in kind.args[:2])
    given = context.get_arg_packer(kinds).as_arguments(builder, values)
    code = builder.call(function, [result, error, *given])
    fine = [builder.icmp_signed("==", code, c) for c in (callconv.RETCODE_OK, callconv.RETCODE_NONE)]
    return builder.or_(*fine)


# ---- the simulator of CUDA -----------------------------------------------------------------------------


class _Shared(dict[Any, Any]):
    """The arrays of a simulated block: the first thread that asks for one makes it, while others wait."""

    def __init__(self) -> None:
        super().__init__()
        self._making = RLock()

    def get(self, key: Any, default: Any = None) -> Any:
        self._making.acquire()
        if key in self:
            self._making.release()
        return super().get(key, default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self._making.release()


def let_simulated_blocks_share() -> None:
    """Mend the simulator: two of its threads that ask for a shared array at once may get one each.

    Raises:
        NotImplementedError: its arrays are not where they were.
    """
    from numba.cuda.simulator import kernelapi  # noqa: PLC0415 -- late: few programs use CUDA

    shared: Any = kernelapi.FakeCUDAShared
    begin = shared.__init__

    def mended(self: Any, size: int) -> None:
        begin(self, size)
        if type(self._allocations) is not dict:
            raise NotImplementedError(
                "the CUDA simulator of this version of Numba keeps shared arrays in another way than fgrad "
                "knows, so that threads of a block might not share them; use an older one"
            )
        self._allocations = _Shared()

    shared.__init__ = mended
