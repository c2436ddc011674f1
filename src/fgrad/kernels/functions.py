"""Functions of arrays and numbers in machine code, from the texts of kernels.

Such a text is a module with a function `kernel`, whose decorator `njit` has its signature. `translate` makes
a kernel of it, as of `native`, whose arguments are in its slots and numbers.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.compat.numpy import address
from fgrad.kernels import checks, native, pool, source

_FLOATS = ("float32", "float64")


class Function:
    """A function of arrays and numbers; the last two are the bounds of its loop if they are `lo` and `hi`."""

    __slots__ = ("_contract", "_is_loop", "_kinds", "kernel")

    kernel: native.Kernel

    def __init__(self, kernel: native.Kernel, kinds: Sequence[Any], *, is_loop: bool) -> None:
        self.kernel, self._is_loop, self._contract = kernel, is_loop, kernel.contract
        given = kinds[: len(kinds) - 2 * is_loop]
        self._kinds = [k if isinstance(k, str) else (np.dtype(k.dtype), k.ndim, k.contiguous) for k in given]

    def __call__(self, *args: Any) -> None:
        """Run it, without holding the interpreter."""
        *given, lo, hi = args if self._is_loop else (*args, 0, 0)
        numbers, slots = self.packed(given, hi)
        self.kernel.function(slots.buffer_info()[0], numbers.buffer_info()[0], lo, hi)
        if checks.ON:
            checks.look()

    def share(self, args: Sequence[Any], count: int, queue: int) -> None:
        """Run the loop for `range(count)` with the threads at a work queue; see `pool`."""
        numbers, slots = self.packed(args, count)
        task = array("q", (self.kernel.address, slots.buffer_info()[0], numbers.buffer_info()[0]))
        pool.runner()(queue, task.buffer_info()[0], 0, count)
        if checks.ON:
            checks.look()

    def packed(self, args: Sequence[Any], steps: int) -> tuple[array[int], array[int]]:
        """Return the numbers and the slots that stand for arguments, but for the bounds.

        Raises:
            TypeError: there are more or fewer than the signature says, or they are others.
            BrokenContractError: the kernel would read or write outside of them.
        """
        if len(args) != len(self._kinds):
            raise TypeError(f"the kernel takes {len(self._kinds)} arguments, not {len(args)}")
        slots: list[int] = []
        numbers: list[int] = []
        for kind, x in zip(self._kinds, args, strict=True):
            if kind.__class__ is tuple:
                dtype, ndim, contiguous = kind
                if x.dtype != dtype or x.ndim != ndim or (contiguous and not x.flags.c_contiguous):
                    raise TypeError(f"the kernel takes {kind}, not {x.dtype} with strides {x.strides}")
                slots.append(address(x))
                numbers += x.shape if contiguous else (*x.shape, *x.strides)
            elif kind in _FLOATS:
                numbers += struct.unpack("q", struct.pack("d", x))
            else:
                numbers.append(int(x))
        if self._contract is not None:
            self._contract.ask((steps, *numbers), args, steps)
        return array("q", numbers), array("q", slots)


def compiled(text: str) -> Callable[..., None]:
    """Return the function `kernel` of the module `text`, compiled by Numba if it cannot be done without."""
    return translated(text) or source.compiled(text)


def translated(text: str) -> Function | None:
    """Return the function `kernel` of the module `text`; None if that is left to Numba."""
    if native.interpreted():
        return None
    kernel = native.translated(text, "function")
    if kernel is None:
        return None
    from fgrad.kernels import instructions, translate  # noqa: PLC0415 -- late: they import llvmlite

    function = source.execute(text, **instructions.for_functions()).kernel
    return Function(kernel, function.signature, is_loop=translate.is_loop(function))
