"""What all solvers of this package share: an opaque search, and the solution as a function of what it solves.

The search is one opaque operation whose results are constants. `lax.custom_root` then makes of its result the
root of an equation, which has derivatives of every order by the implicit function theorem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize

from fgrad.core.aval import Aval
from fgrad.core.trace import running
from fgrad.lax.implicit import custom_root
from fgrad.lax.opaque import OpaqueRule, apply_opaque
from fgrad.numpy.indexing import stop_gradient
from fgrad.scipy.results import checked, register_result
from fgrad.scipy.vectors import array
from fgrad.transforms.calling import plain
from fgrad.transforms.forward import jacfwd
from fgrad.transforms.mapping import vmap

Run = Callable[[Sequence[Any]], "tuple[Sequence[Any], Any]"]

NEGLIGIBLE = 1e-6  # a step, relative to 1 + |x|
FLOAT, INT, BOOL = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_)


class OptimizeResult(scipy.optimize.OptimizeResult):  # type: ignore[misc]
    """What SciPy's `OptimizeResult` is, as a pytree."""


register_result(OptimizeResult)


class Search(OpaqueRule):
    """One run of a solver; its results are constants to every transformation."""

    def __init__(self, name: str, run: Run, outs: Sequence[Aval]) -> None:
        self.name, self.run, self.outs = name, run, tuple(outs)

    def clone(self) -> Search:
        """Return a rule that can run forward beside this one."""
        return Search(self.name, self.run, self.outs)

    def solve(self, values: Sequence[Any]) -> list[Any]:
        """Return the results for arrays."""
        with running(()):
            found, self.aux = self.run(values)
        return [np.array(x, a.dtype).reshape(a.shape) for x, a in zip(found, self.outs, strict=True)]

    def _each(self, values: Sequence[Any], trace: Any) -> list[Any]:
        outs = super()._each(values, trace)
        self.aux = None  # that of one of them
        return outs

    def backward(self, *cts: Any) -> Sequence[Any]:
        """Return no cotangents."""
        return [None] * len(self.values)


def searched(name: str, run: Run, values: Sequence[Any], outs: Sequence[Aval]) -> tuple[list[Any], Any]:
    """Return what `run` finds for the values, and what else it says where it runs at once."""
    rule = Search(name, run, outs)
    found = apply_opaque(rule, [stop_gradient(v) for v in values])
    return [plain(x) for x in found], rule.aux


def is_root(equation: Callable[[Any], Any], x: Any) -> bool:
    """Return whether a step of Newton's method from the vector `x` of arrays would be negligible.

    That tells a search that stopped because double precision allows no more from one that failed.
    """
    value, matrix = array(equation(x)), array(jacfwd(equation)(x))
    if not (np.isfinite(value).all() and np.isfinite(matrix).all()):
        return False
    try:
        step = np.linalg.solve(matrix, value)
    except np.linalg.LinAlgError:
        return False
    return bool(np.all(np.abs(step) <= NEGLIGIBLE * (1 + np.abs(x).max(initial=0))))


def solution(name: str, equation: Callable[[Any], Any], found: Any, solved: Any, status: Any) -> Any:
    """Return the vector `found` as the root of `equation`; differentiating it warns unless it is `solved`."""

    def solve(g: Any, y: Any) -> Any:
        matrix = np.asarray(vmap(g)(np.eye(y.size))).T
        try:
            return np.linalg.solve(matrix, y)
        except np.linalg.LinAlgError as error:
            raise np.linalg.LinAlgError(
                f"{name}: the solution has no derivative, because it is not determined by its first-order "
                "conditions: their Jacobian there is singular. Remove parameters that do not matter, or "
                "constraints that repeat others"
            ) from error

    root = custom_root(equation, found, lambda f, x: x, solve)
    return checked(name)(root, solved, status)
