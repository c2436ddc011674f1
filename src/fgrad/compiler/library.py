"""Equations that a fixed kernel computes, the same in every program.

`LIBRARY` is filled by the modules that know them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fgrad.core.aval import Aval
from fgrad.core.program import Equation, Var
from fgrad.kernels import native


class Launch(NamedTuple):
    """A kernel, its numbers, how many turns its loop has, and how many operations that takes.

    `shared` says whether threads may share the turns, which BLAS has its own for; `fails` whether one of the
    numbers is the slot of `FAULTS`, where the kernel writes why the program cannot go on.
    """

    kernel: native.Kernel
    numbers: list[int]
    turns: int
    work: int
    shared: bool = True
    fails: bool = False


FAULTS = Var(Aval((), np.dtype(np.int64)), "faults")  # 0, how many indices are out of bounds, or one of `vm`
LIBRARY: dict[str, Callable[[Equation, dict[Var, int]], Launch | None]] = {}


def launch(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the call of a kernel that an equation is, given the slots of variables, if it is one.

    Raises:
        BrokenContractError: it would read or write outside of what is in the slots.
    """
    rule = LIBRARY.get(equation.name)
    made = rule(equation, slots) if rule else None
    if made is not None and made.kernel.contract is not None and not isinstance(slots, _Anywhere):
        sizes: dict[int, tuple[int, int]] = {}
        for v in (*equation.args, *equation.outs, *([FAULTS] if made.fails else [])):
            if isinstance(v, Var):
                size = v.aval.size
                sizes[slots[v]] = max(sizes.get(slots[v], (0, 0)), (size, size * v.aval.dtype.itemsize))
        made.kernel.contract.launched(made.numbers, made.turns, sizes)
    return made


def is_native(equation: Equation) -> bool:
    """Return whether a kernel computes an equation."""
    return launch(equation, _Anywhere()) is not None


def fails(equation: Equation) -> bool:
    """Return whether a kernel computes an equation that may end the program."""
    made = launch(equation, _Anywhere())
    return made is not None and made.fails


class _Anywhere(dict[Var, int]):
    """Slots where it does not matter which."""

    def __missing__(self, _: Var) -> int:
        return 0
