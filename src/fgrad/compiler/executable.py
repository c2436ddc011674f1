"""The slow, obvious executable: one operation after the other, each by its row of the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad.core.aval import aval_of
from fgrad.core.program import Program, Var
from fgrad.core.trace import running


class Cost(NamedTuple):
    """What a program takes."""

    flops: int
    bytes: int
    kernels: int
    temporaries: int


class Executable:
    """A compiled program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._dtypes = [(y.aval if isinstance(y, Var) else aval_of(y)).dtype for y in program.outputs]

    def run(self, leaves: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """Return the outputs, arrays of their own, for arrays of native byte order and of any layout."""
        with running(()):
            outs = self.program.run(leaves)
        return [np.array(getattr(y, "_value", y), dtype) for y, dtype in zip(outs, self._dtypes, strict=True)]

    @property
    def source(self) -> str:
        """What was compiled, as text."""
        return str(self.program)

    def cost(self) -> Cost:
        """Return an estimate of what a run takes: every operation a kernel, every element of it one flop."""
        avals = [v.aval for e in self.program.equations for v in e.outs]
        moved = sum(a.size * a.dtype.itemsize for a in avals)
        return Cost(sum(a.size for a in avals), moved, len(self.program.equations), moved)


def compile(program: Program) -> Executable:
    """Return the executable of a program."""
    return Executable(program)
