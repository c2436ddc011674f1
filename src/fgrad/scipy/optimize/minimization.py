"""minimize: SciPy's own, with exact derivatives, whose result is a function of the problem's parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize

from fgrad import numpy as fnp
from fgrad.core.aval import Aval
from fgrad.numpy.indexing import stop_gradient
from fgrad.scipy.closures import Closed
from fgrad.scipy.optimize.limits import Active, Limits, active_set, bounds_of, on_bounds
from fgrad.scipy.optimize.solution import (
    BOOL,
    FLOAT,
    INT,
    OptimizeResult,
    is_root,
    solution,
)
from fgrad.scipy.results import is_plain
from fgrad.scipy.searches import searched
from fgrad.scipy.vectors import Vector, array, as_float
from fgrad.transforms.calling import name_of
from fgrad.transforms.forward import jvp
from fgrad.transforms.reverse import grad, jacrev, value_and_grad

NO_GRADIENT = {"nelder-mead", "powell", "cobyla", "cobyqa"}
PRODUCT = {"newton-cg", "trust-ncg", "trust-krylov", "trust-constr"}  # of the Hessian with a vector
HESSIAN = {"dogleg", "trust-exact"}
COUNTS = ("nfev", "njev", "nhev", "nit")


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str | None = None,
    jac: Any = None,
    hess: Any = None,
    hessp: Callable[..., Any] | None = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Return the minimum that `scipy.optimize.minimize` finds with exact derivatives of `fun`.

    Args:
        fun: `fun(x, *args)` returns a real number; may use Tensors from a closure. Where the result is
            differentiated, mapped or staged, `fun` runs on shapes alone: it chooses by `where`, `lax.cond`.
        x0: pytree of numbers and arrays, from which the search starts; it has no gradient. The search is
            in double precision; complex numbers are pairs of real ones.
        args: further arguments, pytrees; a single one need not be in a tuple.
        method: any of SciPy's; None chooses as SciPy does.
        jac: None for the exact gradient; True where `fun` returns `(value, gradient)`; `jac(x, *args)`, or
            "2-point", "3-point", "cs".
        hess: None for the exact Hessian or products with it, where the method takes any; or
            `hess(x, *args)`, a matrix of the variables in one vector, or a strategy of SciPy's.
        hessp: None, or `hessp(x, p, *args)`, a pytree like x.
        bounds: `Bounds(lb, ub)`, of numbers, arrays or pytrees like x0; or pairs `(low, high)` for a vector.
        constraints: one or several of `LinearConstraint`, `NonlinearConstraint` (of functions of x) and
            SciPy's dictionaries.
        tol: as in SciPy.
        callback: `callback(x)` or `callback(intermediate_result=...)`, as in SciPy, with x like x0.
        options: as in SciPy.

    Returns:
        A pytree with SciPy's fields; `x` is like x0. In a transformation the fields are `x`, `fun`,
        `success`, `status`, the counts, and `message` where the search runs at once.

    Raises:
        TypeError: `fun` returns no real number.

    Derivative:
        Of `x` and `fun` in all Tensors that `fun`, bounds and constraints use, of every order, by the
        implicit function theorem for the first-order conditions; limits that hold with equality at the
        solution stay equalities. If the search failed, differentiating warns (`UnsolvedWarning`); if the
        Hessian at the solution is singular it raises `LinAlgError`.

    Example:
        >>> import fgrad
        >>> def minimum(a):
        ...     return minimize(lambda x: fnp.sum((x - a) ** 4 + x**2), np.zeros(2), tol=1e-12).x
        >>> minimum(np.array([1.0, 2.0]))
        array([0.4102, 1.1649])
        >>> fgrad.jacrev(minimum)(np.array([1.0, 2.0])).diagonal().round(4)
        array([0.676 , 0.8071])
    """
    args = args if isinstance(args, tuple) else (args,)
    vector = Vector(x0, "x0")
    n = vector.size
    start = stop_gradient(vector.ravel(x0))
    objective = Closed(lambda v: [real_value(fun(vector.unravel(v), *args), fun, jac)], [vector.aval])
    gradient = _given_gradient(fun, jac, vector, args)
    lower, upper = (
        bounds_of(bounds, vector) if bounds is not None else (np.full(n, -np.inf), np.full(n, np.inf))
    )
    limits = Limits(constraints, vector)
    limited = Closed(limits, [vector.aval]) if limits.constraints else None
    groups = [objective.captured, gradient.captured if gradient else [], limited.captured if limited else []]
    values = [start, lower, upper, *(c for group in groups for c in group)]
    search = _Search(vector, objective, gradient, limited, bounds is not None)
    search.counts = tuple(map(len, groups))
    search.options = {"method": method, "tol": tol, "options": options}
    search.given = {"jac": jac, "hess": hess, "hessp": hessp, "callback": callback, "args": args}

    if is_plain(values):
        _, result = searched("minimize", lambda vs: ((), search(vs)), values, ())
        return delivered(result, vector)

    m = limited.outs(start)[0].shape[0] if limited else 0
    outs = [Aval((n,), FLOAT), Aval((n,), BOOL), Aval((n,), BOOL)]
    outs += [
        Aval((m,), FLOAT),
        Aval((m,), BOOL),
        Aval((m,), BOOL),
        *[Aval((), BOOL)] * 2,
        *[Aval((), INT)] * 5,
    ]

    def run(vs: Sequence[Any]) -> tuple[Sequence[Any], Any]:
        result = search(vs)
        active = search.active(vs, result.x)
        z = np.concatenate([result.x, active.multipliers])
        solved = result.success or is_root(lambda z: search.conditions(z, vs, active), z)
        return [result.x, *active, result.success, solved, result.status, *counts_of(result)], result

    (found, *flags, success, solved, status, nfev, njev, nhev, nit), raw = searched(
        "minimize", run, values, outs
    )
    active = Active(*flags)
    guess = fnp.concatenate([found, active.multipliers])
    z = solution("minimize", lambda z: search.conditions(z, values, active), guess, solved, status)
    x = z[:n]
    (value,) = objective(objective.captured, x)
    known = dict(zip(("success", "status", *COUNTS), (success, status, nfev, njev, nhev, nit), strict=True))
    if raw is not None:
        known["message"] = raw.message
    return OptimizeResult(x=vector.restore(x), fun=value, **known)


def counts_of(result: Any) -> list[Any]:
    """Return how often SciPy called what; 0 where it did not count."""
    return [result.get(k, 0) for k in COUNTS]


def real_value(value: Any, fun: Callable[..., Any], jac: Any = None) -> Any:
    """Return the value of an objective, a real number in double precision."""
    if jac is True:
        value = value[0]
    value = value if hasattr(value, "dtype") else np.asarray(value)
    if value.dtype.kind not in "fiub" or value.size != 1:
        raise TypeError(
            f"minimize needs a function that returns one real number, but {name_of(fun)} returned "
            f"{value.dtype} of shape {value.shape}"
        )
    return as_float(fnp.reshape(value, ()))


def _given_gradient(fun: Any, jac: Any, vector: Vector, args: tuple[Any, ...]) -> Closed | None:
    """Return the value and gradient that the user computes himself, if he does."""
    if jac is True:

        def both(v: Any) -> list[Any]:
            value, slope = fun(vector.unravel(v), *args)
            return [real_value(value, fun), vector.ravel(slope)]

        return Closed(both, [vector.aval])
    if callable(jac):
        return Closed(
            lambda v: [
                real_value(fun(vector.unravel(v), *args), fun),
                vector.ravel(jac(vector.unravel(v), *args)),
            ],
            [vector.aval],
        )
    return None


class _Search:
    """SciPy's search, given arrays of everything that the problem is made of."""

    counts: tuple[int, ...]
    options: dict[str, Any]
    given: dict[str, Any]

    def __init__(
        self,
        vector: Vector,
        objective: Closed,
        gradient: Closed | None,
        limited: Closed | None,
        bounded: bool,
    ) -> None:
        self.vector, self.objective, self.gradient = vector, objective, gradient
        self.limited, self.bounded = limited, bounded

    def parts(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the start, the bounds, and what objective, gradient and constraints captured."""
        start, lower, upper, *rest = values
        i, j = self.counts[0], self.counts[0] + self.counts[1]
        return start, lower, upper, rest[:i], rest[i:j], rest[j:]

    def __call__(self, values: Sequence[Any]) -> Any:
        """Return SciPy's result."""
        start, lower, upper, cs, hs, gs = self.parts(values)
        objective, own = self.objective, self.gradient

        def value(v: Any) -> Any:
            return array(objective(cs, v)[0])

        def both(v: Any) -> tuple[Any, Any]:
            if own:
                y, slope = own(hs, v)
            else:
                y, slope = value_and_grad(objective.at(cs))(v)
            return array(y), array(slope)

        method = self._method()
        known: dict[str, Any] = {}
        if method not in NO_GRADIENT:
            jac = self.given["jac"]
            known["jac"] = jac if isinstance(jac, str) else True
            known |= self._second(method, cs)
        if self.bounded:
            known["bounds"] = scipy.optimize.Bounds(array(lower), array(upper))
        if self.limited:
            known["constraints"] = self._constraints(gs, array(start), method)
        if self.given["callback"]:
            known["callback"] = _told(self.given["callback"], self.vector)
        return scipy.optimize.minimize(
            both if known.get("jac") is True else value, np.array(array(start)), **known, **self.options
        )

    def _method(self) -> str:
        method = self.options["method"]
        if method is None:
            return "slsqp" if self.limited else "l-bfgs-b" if self.bounded else "bfgs"
        return method.lower() if isinstance(method, str) else ""

    def _second(self, method: str, cs: Sequence[Any]) -> dict[str, Any]:
        """Return the second derivatives for the methods that take them."""
        objective, vector, args = self.objective, self.vector, self.given["args"]
        hess, hessp = self.given["hess"], self.given["hessp"]
        if callable(hess):
            return {"hess": lambda v: array(hess(vector.unravel(v), *args))}
        if hess is not None:
            return {"hess": hess}
        if hessp is not None:
            return {
                "hessp": lambda v, p: array(vector.ravel(hessp(vector.unravel(v), vector.unravel(p), *args)))
            }
        slope = grad(objective.at(cs))
        if method in PRODUCT:
            return {"hessp": lambda v, p: array(jvp(slope, (v,), (p,))[1])}
        if method in HESSIAN:
            return {"hess": lambda v: array(jacrev(slope)(v))}
        return {}

    def _constraints(self, gs: Sequence[Any], start: Any, method: str) -> Any:
        limited = self.limited
        assert limited is not None  # noqa: S101 -- the caller looked
        _, low, high = map(array, limited(gs, start))
        equal = low == high  # SciPy wants equations by themselves
        return [self._constraint(gs, low, high, rows, method) for rows in (equal, ~equal) if rows.any()]

    def _constraint(self, gs: Sequence[Any], low: Any, high: Any, rows: Any, method: str) -> Any:
        """Return the constraints `rows` as SciPy takes them."""
        value = self.limited.at(gs)  # type: ignore[union-attr]
        (places,) = rows.nonzero()
        second: dict[str, Any] = {}
        if method == "trust-constr":
            curvature = grad(lambda v, w: fnp.sum(w * value(v)[places]))
            second["hess"] = lambda v, w: array(jacrev(curvature)(v, w))
        return scipy.optimize.NonlinearConstraint(
            lambda v: array(value(v))[places],
            low[places],
            high[places],
            jac=lambda v: array(jacrev(value)(v))[places],
            **second,
        )

    def conditions(self, z: Any, values: Sequence[Any], active: Active) -> Any:
        """Return the first-order conditions at `z`, variables and multipliers, with the active limits."""
        n, limited = self.vector.size, self.limited
        x, multipliers = z[:n], z[n:]
        _, lower, upper, cs, _, gs = self.parts(values)

        def lagrangian(v: Any) -> Any:
            (value,) = self.objective(cs, v)
            return value + fnp.sum(multipliers * limited(gs, v)[0]) if limited else value

        slope = on_bounds(grad(lagrangian)(x), x, lower, upper, active)
        if not limited:
            return slope
        value, low, high = limited(gs, x)
        tight = fnp.where(active.on_upper, value - high, multipliers)
        return fnp.concatenate([slope, fnp.where(active.on_lower, value - low, tight)])

    def active(self, values: Sequence[Any], x: Any) -> Active:
        """Return the active set at the solution `x`."""
        _, lower, upper, cs, _, gs = self.parts(values)
        slope = array(grad(self.objective.at(cs))(x))
        known, jacobian = [np.zeros(0)] * 3, np.zeros((0, x.size))
        limited = self.limited
        if limited:
            known = list(map(array, limited(gs, x)))
            jacobian = array(jacrev(limited.at(gs))(x))
        return active_set(x, slope, array(lower), array(upper), known, jacobian)


def _told(callback: Callable[..., Any], vector: Vector) -> Callable[..., Any]:
    """Return a callback that hears of vectors as one that hears of pytrees."""
    if set(inspect.signature(callback).parameters) == {"intermediate_result"}:

        def tell(intermediate_result: Any) -> Any:
            seen = OptimizeResult(intermediate_result)
            seen["x"] = vector.restore(seen["x"])
            return callback(intermediate_result=seen)

        return tell
    return lambda v, *rest: callback(vector.restore(np.array(v)), *rest)


def delivered(result: Any, vector: Vector) -> OptimizeResult:
    """Return SciPy's result with the solution like the start."""
    found = OptimizeResult(result)
    found["x"] = vector.restore(found["x"])
    if isinstance(found.get("jac"), np.ndarray):
        found["jac"] = vector.restore(found["jac"])
    return found
