"""What all solvers of this package share: an opaque search, and the solution as a function of what it solves.

The search is one opaque operation whose results are constants. `lax.custom_root` then makes of its result the
root of an equation, which has derivatives of every order by the implicit function theorem.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize

from fgrad.lax.implicit import custom_root
from fgrad.scipy.results import checked, register_result
from fgrad.scipy.vectors import Vector, array
from fgrad.transforms.forward import jacfwd
from fgrad.transforms.vmap import vmap

NEGLIGIBLE, LONG = 1e-6, 1e-2  # steps, relative to 1 + |x|
FLOAT, INT, BOOL = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_)


class OptimizeResult(scipy.optimize.OptimizeResult):  # type: ignore[misc]
    """What SciPy's `OptimizeResult` is, as a pytree.

    Example:
        >>> from fgrad.scipy.optimize import minimize
        >>> result = fg.jit(lambda a: minimize(lambda x: np.sum((x - a) ** 2), np.zeros(2)))(3.0)
        >>> result.x, bool(result.success)
        (array([3., 3.]), True)
    """


register_result(OptimizeResult)


def delivered(result: Any, vector: Vector) -> OptimizeResult:
    """Return SciPy's result with `x`, and the gradient there, in the form of the user's start."""
    found = OptimizeResult(result)
    found["x"] = vector.restore(found["x"])
    slope = found.get("jac")
    if isinstance(slope, np.ndarray) and slope.ndim == 1:
        found["jac"] = vector.restore(slope)
    return found


def is_solved(equation: Callable[[Any], Any], x: Any, success: bool) -> bool:
    """Return whether the vector `x` of arrays solves an equation, by the length of a step of Newton's method.

    A step that is negligible tells a search that stopped because double precision allows no more from one
    that failed; one that is long, a search that SciPy calls a success though it ended elsewhere.
    """
    value, matrix = array(equation(x)), array(jacfwd(equation)(x))
    if not (np.isfinite(value).all() and np.isfinite(matrix).all()):
        return False
    try:
        step = np.linalg.solve(matrix, value)
    except np.linalg.LinAlgError:
        return success
    most = LONG if success else NEGLIGIBLE
    return bool(np.all(np.abs(step) <= most * (1 + np.abs(x).max(initial=0))))


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


def told(callback: Callable[..., Any], vector: Vector) -> Callable[..., Any]:
    """Return a callback that hears of vectors as one that hears of pytrees."""
    if set(inspect.signature(callback).parameters) == {"intermediate_result"}:

        def tell(intermediate_result: Any) -> Any:
            seen = OptimizeResult(intermediate_result)
            seen["x"] = vector.restore(seen["x"])
            return callback(intermediate_result=seen)

        return tell
    return lambda v, *rest: callback(vector.restore(np.array(v)), *rest)
