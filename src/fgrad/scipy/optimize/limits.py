"""Bounds and constraints, and which of them hold with equality at a solution.

There the solution is the root of the first-order conditions with those limits as equations (the active set).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize

from fgrad import numpy as fnp
from fgrad import tree
from fgrad.core.aval import with_dtype
from fgrad.core.tensor import Tensor
from fgrad.scipy.vectors import Vector, as_float

SLACK = 1e-9  # of a limit that holds with equality, relative to 1 + |limit|
NEAR = 1e-3  # of a limit that may hold with equality: solvers of interior points stop short of it


class Bounds(NamedTuple):
    """Bounds on variables: `lb <= x <= ub`, numbers, arrays or pytrees like x; Tensors get gradients.

    Derivative:
        As in `minimize`: a bound on which the solution lies gets the gradient, others 0.

    Differences from SciPy:
        No `keep_feasible`; bounds may be pytrees.

    Example:
        >>> from fgrad.scipy.optimize import Bounds, minimize
        >>> def lowest(low):
        ...     return minimize(lambda x: np.sum(x**2), np.ones(2), bounds=Bounds([low, -1.0])).x
        >>> fg.jacfwd(lowest)(0.5)
        array([1., 0.])
    """

    lb: Any = -np.inf
    ub: Any = np.inf


class LinearConstraint(NamedTuple):
    """The constraint `lb <= A @ x <= ub` for a vector x; Tensors get gradients.

    Attributes:
        A: matrix (m, n), dense, for a vector x of n numbers.
        lb: one number, or (m,).
        ub: likewise.

    Derivative:
        As in `minimize`: rows that hold with equality stay equalities.

    Differences from SciPy:
        No `keep_feasible`.

    Example:
        >>> from fgrad.scipy.optimize import LinearConstraint, minimize
        >>> def nearest(total):
        ...     plane = LinearConstraint(np.ones((1, 2)), total, total)
        ...     return minimize(lambda x: np.sum(x**2), np.zeros(2), constraints=plane).x
        >>> fg.jacfwd(nearest)(1.0)
        array([0.5, 0.5])
    """

    A: Any
    lb: Any = -np.inf
    ub: Any = np.inf


class NonlinearConstraint(NamedTuple):
    """The constraint `lb <= fun(x) <= ub`; Tensors get gradients.

    Attributes:
        fun: takes x, like x0 of `minimize`, and returns a number or vector; may use Tensors from a closure.
        lb: one number, or one for each.
        ub: likewise.

    Derivative:
        As in `minimize`: values that hold with equality stay equalities.

    Differences from SciPy:
        No `jac`, `hess`, `keep_feasible` and steps of differences: derivatives are exact.

    Example:
        >>> from fgrad.scipy.optimize import NonlinearConstraint, minimize
        >>> def on_circle(radius):
        ...     circle = NonlinearConstraint(lambda x: np.sum(x**2), radius**2, radius**2)
        ...     return minimize(lambda x: -np.sum(x), np.ones(2), constraints=circle).x
        >>> fg.jacfwd(on_circle)(2.0)
        array([0.7071, 0.7071])
    """

    fun: Callable[[Any], Any]
    lb: Any
    ub: Any


def bounds_of(bounds: Any, vector: Vector) -> tuple[Any, Any]:
    """Return lower and upper bounds as vectors.

    Raises:
        TypeError: they are neither `Bounds` nor pairs for a vector.
        ValueError: there is not one for each variable.
    """
    if hasattr(bounds, "lb"):
        return _full(bounds.lb, vector), _full(bounds.ub, vector)
    if isinstance(bounds, list | tuple | np.ndarray) and all(len(pair) == 2 for pair in bounds):
        if len(bounds) != vector.size:
            raise ValueError(f"bounds has {len(bounds)} pairs, but there are {vector.size} variables")
        lower = [-np.inf if low is None else low for low, _ in bounds]
        upper = [np.inf if high is None else high for _, high in bounds]
        return fnp.stack([_number(v) for v in lower]), fnp.stack([_number(v) for v in upper])
    raise TypeError("bounds must be Bounds(lb, ub), or a sequence of pairs (low, high) for a vector")


def _number(x: Any) -> Any:
    return x if isinstance(x, Tensor) else np.float64(x)


def _full(limit: Any, vector: Vector) -> Any:
    """Return a limit, one number for all or a pytree like the variables, as a vector."""
    leaves, structure = tree.flatten(limit)
    if structure is tree.LEAF and np.shape(leaves[0]) in {(), (1,)}:
        (value,) = leaves
        value = value if isinstance(value, Tensor) else np.asarray(value, float)
        return fnp.broadcast_to(as_float(fnp.reshape(value, ())), (vector.size,))
    if vector.structure is tree.LEAF and isinstance(limit, list | tuple):
        return fnp.stack([_number(v) for v in limit])
    return vector.ravel(limit)


class Limits:
    """All constraints as one function of the vector of variables.

    Raises:
        TypeError: a constraint is of no known kind.
    """

    constraints: list[Any]

    def __init__(self, constraints: Any, vector: Vector) -> None:
        single = hasattr(constraints, "lb") or isinstance(constraints, dict)
        self.constraints = [constraints] if single else list(constraints)
        self.vector = vector
        for c in self.constraints:
            if not (hasattr(c, "lb") and (hasattr(c, "A") or hasattr(c, "fun"))) and not isinstance(c, dict):
                raise TypeError(
                    "a constraint must be a LinearConstraint, a NonlinearConstraint or a dict, "
                    f"not {type(c).__name__}"
                )

    def __call__(self, v: Any) -> list[Any]:
        """Return the constrained values and their limits below and above, three vectors."""
        parts = [self._part(c, v) for c in self.constraints]
        return [as_float(fnp.concatenate(list(column))) for column in zip(*parts, strict=True)]

    def _part(self, c: Any, v: Any) -> list[Any]:
        x = self.vector.unravel(v)
        if isinstance(c, dict):
            value = c["fun"](x, *c.get("args", ()))
            low, high = 0.0, 0.0 if c["type"] == "eq" else np.inf
        else:
            value = c.fun(x) if hasattr(c, "fun") else c.A @ v
            low, high = c.lb, c.ub
        value = fnp.atleast_1d(with_dtype(value))
        limits = [with_dtype(limit, float) for limit in (low, high)]
        return [value, *(fnp.broadcast_to(as_float(limit), value.shape) for limit in limits)]


class Active(NamedTuple):
    """Which limits hold with equality, and the multipliers of the constraints."""

    at_lower: Any
    at_upper: Any
    multipliers: Any
    on_lower: Any
    on_upper: Any


def active_set(x: Any, gradient: Any, lower: Any, upper: Any, values: Sequence[Any], jacobian: Any) -> Active:
    """Return the active set at a solution, in arrays.

    A limit is active where the solution is on it, or nearer to it than its multiplier is large: the solution
    is then the projection onto the limit of the step along the gradient. Multipliers are those of least
    squares, of the signs that they must have.

    Source:
        Nocedal & Wright (2006), Numerical Optimization, sections 12.3 and 18.3.
    """
    n = x.size
    value, low, high = map(np.concatenate, zip((x, lower, upper), values, strict=True))
    on_low, on_high = _near(value - low, low, NEAR), _near(high - value, high, NEAR)
    near = on_low | on_high
    multipliers = np.where(near, np.append(-gradient, np.zeros(len(value) - n)), 0.0)
    if near[n:].any():
        # gradient + matrix^T multipliers = 0; a lower limit pushes up, so that its multiplier is negative
        matrix = np.concatenate([np.eye(n), jacobian])[near]
        sides = [np.where(on_low[near], -np.inf, -1e-300), np.where(on_high[near], np.inf, 1e-300)]
        multipliers[near] = scipy.optimize.lsq_linear(matrix.T, -gradient, bounds=tuple(sides)).x
    on_low &= (value - low <= _least(low)) | (-multipliers > value - low)
    on_low |= low == high
    on_high &= ~on_low & ((high - value <= _least(high)) | (multipliers > high - value))
    multipliers = np.where(on_low | on_high, multipliers, 0.0)[n:]
    return Active(on_low[:n], on_high[:n], multipliers, on_low[n:], on_high[n:])


def _least(limit: Any) -> Any:
    return np.where(np.isfinite(limit), SLACK * (1 + np.abs(np.where(np.isfinite(limit), limit, 0))), -np.inf)


def _near(slack: Any, limit: Any, tolerance: float) -> Any:
    return np.isfinite(limit) & (slack <= tolerance * (1 + np.abs(np.where(np.isfinite(limit), limit, 0))))


def on_bounds(slope: Any, x: Any, lower: Any, upper: Any, active: Active) -> Any:
    """Return the slope, with active bounds as equations in the place of their variables."""
    return fnp.where(active.at_lower, x - lower, fnp.where(active.at_upper, x - upper, slope))
