"""Numba: its compiler lock, the classes of its functions, what it knows of types, CUDA's simulator."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from threading import RLock
from typing import Any

from fgrad.compat import self_test


def lock_holder() -> Any:
    """Return the object whose `_lock` Numba's compiler takes; None where none is known, or none was made."""
    return getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)


# ---- functions and types -------------------------------------------------------------------------------


@self_test
def functions_are_known() -> bool:
    """Return whether functions are of the classes that are looked for, and types are found of operands."""
    import numba  # noqa: PLC0415 -- late, as below

    function, ufunc = numba.njit(_same), numba.vectorize(_same)
    found = typing_context().resolve_value_type(1.0)
    return (
        is_dispatcher(function) and is_dufunc(ufunc) and not is_dispatcher(ufunc) and found == numba.float64
    )


def _same(x: Any) -> Any:
    return x


def is_dispatcher(x: Any) -> bool:
    """Return whether `x` is a function that `numba.njit` made."""
    from numba.core.registry import CPUDispatcher  # noqa: PLC0415 -- late: few programs use Numba

    return isinstance(x, CPUDispatcher)


def is_dufunc(x: Any) -> bool:
    """Return whether `x` is a function that `numba.vectorize` made."""
    from numba.np.ufunc.dufunc import DUFunc  # noqa: PLC0415 -- late, as above

    return isinstance(x, DUFunc)


def typing_context() -> Any:
    """Return what knows the types that functions give, on the CPU."""
    from numba.core.registry import cpu_target  # noqa: PLC0415 -- late, as above

    return cpu_target.typing_context


def on_typing(kind: type, act: Callable[..., Any]) -> None:
    """Call `act(value, context)` where a function of Numba asks for the type of an instance of `kind`."""
    from numba.core.typing.typeof import typeof_impl  # noqa: PLC0415 -- late, as above

    typeof_impl.register(kind)(act)


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
