"""Numba: its compiler lock, CUDA's simulator."""

from __future__ import annotations

import sys
from functools import cache
from threading import RLock
from typing import Any


def lock_holder() -> Any:
    """Return the object whose `_lock` Numba's compiler takes; None where none is known, or none was made."""
    return getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)


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


@cache
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
