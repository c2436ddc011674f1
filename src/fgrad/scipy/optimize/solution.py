"""What all solvers of this package share: an opaque search, and the solution as a function of what it solves.

The search is one opaque operation whose results are constants. `lax.custom_root` then makes of its result the
root of an equation, which has derivatives of every order by the implicit function theorem.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import scipy.optimize

from fgrad.core.aval import Aval
from fgrad.core.trace import current, running
from fgrad.errors import UnsolvedWarning
from fgrad.lax.implicit import custom_root
from fgrad.lax.opaque import OpaqueRule, apply_opaque
from fgrad.numpy.indexing import stop_gradient
from fgrad.scipy.vectors import array
from fgrad.transforms.callbacks import look
from fgrad.transforms.calling import has_tensor, is_traced, plain
from fgrad.transforms.custom import custom_vjp
from fgrad.transforms.forward import jacfwd
from fgrad.transforms.mapping import vmap
from fgrad.tree import register_pytree_node

Run = Callable[[Sequence[Any]], "tuple[Sequence[Any], Any]"]

NEGLIGIBLE = 1e-6  # a step, relative to 1 + |x|
FLOAT, INT, BOOL = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_)


class OptimizeResult(scipy.optimize.OptimizeResult):  # type: ignore[misc]
    """What SciPy's `OptimizeResult` is, as a pytree."""


Result = TypeVar("Result", bound="dict[str, Any]")


def register_result(cls: type[Result]) -> None:
    """Make a class of dictionaries a pytree whose children are its values."""
    register_pytree_node(
        cls,
        lambda r: ([r[k] for k in sorted(r)], tuple(sorted(r))),
        lambda keys, values: cls(zip(keys, values, strict=True)),
    )


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


def is_plain(values: Sequence[Any]) -> bool:
    """Return whether no transformation concerns any of the values."""
    return not current().traces or not any(has_tensor([v]) and is_traced(v) for v in values)


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
    return _checked(name)(root, solved, status)


def _checked(name: str) -> Any:
    def warn(solved: Any, status: Any) -> None:
        if not solved:
            warnings.warn(
                f"{name} did not converge (status {int(status)}), so the derivative of its result is that of "
                "no solution; look at result.success and result.message, and improve the start or the "
                "tolerances",
                UnsolvedWarning,
                stacklevel=2,
            )

    def backward(residuals: tuple[Any, Any], ct: Any) -> tuple[Any, None, None]:
        look(warn, residuals, {})
        return ct, None, None

    checked = custom_vjp(lambda x, solved, status: x)
    return checked.defvjp(lambda x, solved, status: (x, (solved, status)), backward)
