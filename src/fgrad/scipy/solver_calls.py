"""Solver calls as one opaque operation, whose results are constants in every transformation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.core.aval import Aval
from fgrad.core.trace import running
from fgrad.extend.engine import OpaqueRule, apply_opaque
from fgrad.numpy.indexing import stop_gradient
from fgrad.transforms.calling import plain

Run = Callable[[Sequence[Any]], "tuple[Sequence[Any], Any]"]


class SolverCall(OpaqueRule):
    """One run of a solver; its results are constants to every transformation."""

    name: str
    run: Run
    outs: tuple[Aval, ...]

    def __init__(self, name: str, run: Run, outs: Sequence[Aval]) -> None:
        self.name, self.run, self.outs = name, run, tuple(outs)

    def solve(self, values: Sequence[Any]) -> list[Any]:
        """Return the results for arrays."""
        with running(()):
            found, self.aux = self.run(values)
        return [np.array(x, a.dtype).reshape(a.shape) for x, a in zip(found, self.outs, strict=True)]

    def backward(self, *cts: Any) -> Sequence[Any]:
        """Return no cotangents."""
        return [None] * len(self.values)


def run_solver(name: str, run: Run, values: Sequence[Any], outs: Sequence[Aval]) -> tuple[list[Any], Any]:
    """Return what `run` finds for the values, and what else it says where it runs at once."""
    rule = SolverCall(name, run, outs)
    if not outs:  # all that is wanted is known where it runs at once, also while a program is staged
        rule.solve(list(map(plain, values)))
        return [], rule.aux
    found = apply_opaque(rule, [stop_gradient(v) for v in values])
    return [plain(x) for x in found], rule.aux
