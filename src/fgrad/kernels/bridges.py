"""Loops over arrays, as of `functions`, called by compiled programs with their own slots and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.core.aval import Aval
from fgrad.kernels import native
from fgrad.kernels.functions import Function
from fgrad.kernels.threads import Loop

_TEXT = """
CONTRACT = "args({names}, *rest), {conditions}"


def kernel(slots, args, lo, hi):
    places = np.empty({words}, np.int64)
{lines}
    call(args[{function}], places, part(args, {numbers}), lo, hi)
"""


def bridge(
    loop: Loop, args: Sequence[Any], steps: int
) -> tuple[native.Kernel, list[int | native.Kernel]] | None:
    """Return the kernel that calls a loop, and its numbers; None where Python runs it.

    The kernel of the loop itself stands among the numbers, in the place of its address.

    Args:
        loop: what to call.
        args: its arguments but for the bounds: numbers, and for arrays, which lie row by row, (slot, aval),
            and a third item, their elements, where the contract of the loop speaks of these.
        steps: how many steps the loop has.

    Raises:
        BrokenContractError: it would read or write outside of its arrays.
    """
    if native.interpreted() or not isinstance(loop, Function):
        return None
    given = [_like(*a) if isinstance(a, tuple) else a for a in args]
    numbers, _ = loop.packed(given, steps)
    arrays = [a for a in args if isinstance(a, tuple)]
    sizes = [a[1].size * a[1].dtype.itemsize for a in arrays]
    return _kernel(len(arrays)), [*(a[0] for a in arrays), *sizes, loop.kernel, *numbers]


def _like(_: int, aval: Aval, array: Any = None) -> Any:
    return np.empty(aval.shape, aval.dtype) if array is None else array


def _kernel(count: int) -> native.Kernel:
    """Return the kernel that calls a loop of `count` arrays, whose slots are addresses alone."""
    return native.deferred(
        _TEXT.format(
            names=", ".join(f"{word}{k}" for word in ("x", "size") for k in range(count)),
            conditions=", ".join(f"size{k} <= nbytes(x{k})" for k in range(count)),
            words=count,
            lines="\n".join(f"    places[{k}] = address(uint8_at(slots, args, {k}))" for k in range(count)),
            function=2 * count,
            numbers=2 * count + 1,
        )
    )


def memory(shape: tuple[int, ...], dtype: Any) -> Aval:
    """Return what a loop needs besides its operands."""
    return Aval(shape, np.dtype(dtype))
