"""Loops over arrays in machine code, which threads share without the interpreter.

Most are `functions`. To share one that Numba compiled, Python calls an *entry* with its arguments, and
machine code does the rest (see `sharing`). The entry gets the loop by its address, so loops whose arguments
have the same types share an entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.compat.numba import loop_address
from fgrad.kernels import checks, contracts, functions, source

_TEXT = """
from fgrad.kernels.sharing import share

ARGS = {types}


@njit(types.void(*ARGS, *[types.uintp] * 3), cache=True, error_model="numpy", nogil=True)
def kernel({names}, count, queue, loop):
    if share(loop, ({names},), count, queue):
        raise MemoryError
"""


class Loop:
    """The function `kernel` of a module, whose last arguments are the bounds of a loop of independent pieces.

    Attributes:
        kernel: the function.
        is_native: whether it is machine code.
    """

    __slots__ = ("_contract", "_entry", "_function", "_translated", "is_native", "kernel")

    kernel: Callable[..., None]
    is_native: bool

    def __init__(self, text: str) -> None:
        self._translated = functions.translated(text)
        self._entry: tuple[Callable[..., None], int] | None = None
        if self._translated is not None:
            self.kernel, self.is_native = self._translated, True
            return
        self.kernel, self._function = source.compiled(text), source.load(text).kernel
        self._contract = contracts.of(text)
        self.is_native = hasattr(self._function, "overloads")

    def share(self, args: tuple[Any, ...], count: int, queue: int) -> None:
        """Run the loop for `range(count)` with the threads at a work queue; see `pool`."""
        if self._translated is not None:
            self._translated.share(args, count, queue)
            return
        if checks.ON:  # whose errors an entry does not tell apart
            self.kernel(*args, 0, count)
            return
        if self._contract is not None:
            source.ask(self._contract, args, count)
        if self._entry is None:
            self._entry = _entry(self._function)
        entry, address = self._entry
        entry(*args, count, queue, address)


def _entry(function: Any) -> tuple[Callable[..., None], int]:
    """Return the entry for a compiled function with one signature, and the address of its loop."""
    ((signature, compiled),) = function.overloads.items()
    *kinds, _, _ = signature
    text = _TEXT.strip().format(
        types=f"({', '.join(map(_written, kinds))},)",
        names=", ".join(f"a{k}" for k in range(len(kinds))),
    )
    address = loop_address(compiled)
    return source.compiled(f"{text}\n"), address


def _written(kind: Any) -> str:
    """Return a type of Numba as generated modules write it."""
    if not hasattr(kind, "layout"):
        return f"types.{kind}"
    return f'types.Array(types.{kind.dtype}, {kind.ndim}, "{kind.layout}", readonly={not kind.mutable})'
