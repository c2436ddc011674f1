"""Functions of arrays and numbers in machine code, from the texts of kernels.

Such a text is a module with a function `kernel`. Its decorator `typed` has the signature, and "contract" if
products and sums may be fused. `translate` makes a kernel of it, as of `native`, whose arguments are in its
slots and numbers. Where the last two are `lo` and `hi`, they bound a loop that threads may share.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.compat.numpy import address
from fgrad.kernels import checks, contracts, intrinsics, native, pool, source

_FLOATS = ("float32", "float64")


class Function:
    """A function of arrays and numbers in machine code."""

    __slots__ = ("_contract", "_is_loop", "_kinds", "kernel")

    is_native = True

    def __init__(self, kernel: native.Kernel, kinds: Sequence[Any], *, is_loop: bool) -> None:
        self._is_loop, self._contract = is_loop, kernel.contract
        self.kernel: native.Kernel = kernel
        given = kinds[: len(kinds) - 2 * is_loop]
        self._kinds = [k if isinstance(k, str) else (np.dtype(k.dtype), k.ndim, k.contiguous) for k in given]

    def __call__(self, *args: Any) -> None:
        """Run it, without holding the interpreter."""
        *given, lo, hi = args if self._is_loop else (*args, 0, 0)
        numbers, slots = self.packed(given, hi)
        self.kernel.function(slots.buffer_info()[0], numbers.buffer_info()[0], lo, hi)
        if checks.ON:
            checks.look()

    def share(self, args: Sequence[Any], count: int, queue: int, strip: int = 1) -> None:
        """Run the loop for `range(count)` with the threads at a work queue; see `pool`."""
        numbers, slots = self.packed(args, count)
        loop = self.kernel.address, slots.buffer_info()[0], numbers.buffer_info()[0]
        pool.share(queue, loop, count, strip)
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


class Interpreted:
    """The same where nothing is compiled: Python runs it, without NumPy's warnings."""

    __slots__ = ("_contract", "_function")

    is_native = False

    def __init__(self, function: Callable[..., None], contract: contracts.Contract | None) -> None:
        self._function, self._contract = source.quiet(function), contract

    def __call__(self, *args: Any) -> None:
        """Run it."""
        if self._contract is not None:
            count = len(self._contract.names)
            shapes = [x.shape if isinstance(x, np.ndarray) else x for x in args[:count]]
            self._contract.ask((args[-1], *shapes), args[:count], args[-1])
        self._function(*args)

    def share(self, args: Sequence[Any], count: int, _: int, strip: int = 1) -> None:
        """Run the whole loop."""
        self(*args, 0, count)


def compiled(text: str) -> Function | Interpreted:
    """Return the function `kernel` of the module `text`; it is compiled when it is needed."""
    from fgrad.kernels import instructions, translate  # noqa: PLC0415 -- late: they import llvmlite

    if native.interpreted():
        names = {**instructions.for_functions(), **intrinsics.interpreted_names()}
        return Interpreted(source.execute(text, **names).kernel, contracts.of(text))
    kernel = native.deferred(text, "function")
    function = source.execute(text, **instructions.for_functions()).kernel
    return Function(kernel, function.signature, is_loop=translate.is_loop(function))
