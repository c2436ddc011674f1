"""minimize: SciPy's own, with exact derivatives, whose result is a function of the problem's parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize

from fgrad import numpy as fnp
from fgrad.core.aval import Aval, with_dtype
from fgrad.numpy.indexing import stop_gradient
from fgrad.scipy.closures import Closed, Several, first
from fgrad.scipy.optimize.limits import Active, Limits, active_set, bounds_of, on_bounds
from fgrad.scipy.optimize.solution import (
    BOOL,
    FLOAT,
    INT,
    OptimizeResult,
    delivered,
    is_solved,
    solution,
    told,
)
from fgrad.scipy.results import is_plain
from fgrad.scipy.solver_calls import run_solver
from fgrad.scipy.vectors import Vector, array, as_float, listed
from fgrad.transforms.calling import name_of
from fgrad.transforms.forward import linearize
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
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Return the minimum that `scipy.optimize.minimize` finds with exact derivatives of `fun`.

    Args:
        fun: `fun(x, *args)` returns a real number; may use Tensors from a closure. Where the result is
            differentiated, mapped or jitted, `fun` is traced with abstract arrays: it chooses by `where` and
            `lax.cond`.
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
    x0 = listed(x0)
    vector = Vector(x0, "x0")
    n = vector.size
    start = stop_gradient(vector.ravel(x0))
    lower, upper = np.full(n, -np.inf), np.full(n, np.inf)
    if bounds is not None:
        lower, upper = bounds_of(bounds, vector)

    def both(v: Any) -> list[Any]:
        x = vector.unravel(v)
        value, slope = fun(x, *args) if jac is True else (fun(x, *args), jac(x, *args))
        return [real_value(value, fun), vector.ravel(slope)]

    def product(v: Any, p: Any) -> list[Any]:
        return [vector.ravel(hessp(vector.unravel(v), vector.unravel(p), *args))]

    limits = Limits(constraints, vector)
    limited = Closed(limits, [vector.aval]) if limits.constraints else None
    problem = Several(
        objective=Closed(lambda v: [real_value(fun(vector.unravel(v), *args), fun, jac)], [vector.aval]),
        gradient=Closed(both, [vector.aval]) if jac is True or callable(jac) else None,
        limits=limited,
        hess=Closed(lambda v: [hess(vector.unravel(v), *args)], [vector.aval]) if callable(hess) else None,
        hessp=hessp and Closed(product, [vector.aval] * 2),
    )
    values = [start, lower, upper, *problem.captured]
    search = _Search(vector, problem, {"method": method, "tol": tol, "options": options})
    search.bounded, search.limited = bounds is not None, limited is not None
    search.given = {"jac": jac, "hess": hess, "callback": callback}

    if is_plain(values):
        return delivered(run_solver("minimize", lambda vs: ((), search(vs)), values, ())[1], vector)

    x, known = minimum(
        "minimize",
        search,
        values,
        lambda cs: first(problem.at(cs)["objective"]),
        (lambda cs: problem.at(cs)["limits"]) if limited else None,
        limited.outs(start)[0].shape[0] if limited else 0,
        ("status", *COUNTS),
    )
    (value,) = problem.at(problem.captured)["objective"](x)
    return OptimizeResult(x=vector.restore(x), fun=value, **known)


def minimum(
    name: str,
    search: Callable[[Sequence[Any]], Any],
    values: Sequence[Any],
    objective: Callable[[Sequence[Any]], Callable[[Any], Any]],
    limits: Callable[[Sequence[Any]], Callable[[Any], Any]] | None,
    m: int,
    counts: Sequence[str],
) -> tuple[Any, dict[str, Any]]:
    """Return the vector that a search finds, a function of what the problem is made of, and what SciPy says.

    Args:
        name: of the solver.
        search: returns SciPy's result for arrays of `values`.
        values: the start, lower and upper bounds, and what functions capture.
        objective: returns the function of the vector for captured values.
        limits: returns that of constrained values and their limits; None: there are none.
        m: how many values are constrained.
        counts: SciPy's fields of integers.
    """
    n = values[1].shape[0]

    def conditions(z: Any, vs: Sequence[Any], active: Active) -> Any:
        """Return the first-order conditions at `z`, variables and multipliers, with the active limits."""
        x, multipliers = z[:n], z[n:]
        _, lower, upper, *captured = vs
        value = objective(captured)
        if limits is None:
            return on_bounds(grad(value)(x), x, lower, upper, active)
        limited = limits(captured)

        def lagrangian(v: Any) -> Any:
            return value(v) + fnp.sum(multipliers * limited(v)[0])

        slope = on_bounds(grad(lagrangian)(x), x, lower, upper, active)
        given, low, high = limited(x)
        tight = fnp.where(active.on_upper, given - high, multipliers)
        return fnp.concatenate([slope, fnp.where(active.on_lower, given - low, tight)])

    def active_at(x: Any, vs: Sequence[Any]) -> Active:
        _, lower, upper, *captured = vs
        slope = array(grad(objective(captured))(x))
        known, jacobian = [np.zeros(0)] * 3, np.zeros((0, n))
        if limits is not None:
            known = list(map(array, limits(captured)(x)))
            jacobian = array(jacrev(first(limits(captured)))(x))
        return active_set(x, slope, array(lower), array(upper), known, jacobian)

    def run(vs: Sequence[Any]) -> tuple[Sequence[Any], Any]:
        result = search(vs)
        x = np.array(result.x, float).reshape(n)
        active = active_at(x, vs)
        z = np.concatenate([x, active.multipliers])
        solved = is_solved(lambda z: conditions(z, vs, active), z, result.success)
        return [x, *active, result.success, solved, *(result.get(k) or 0 for k in counts)], result

    outs = [Aval((n,), FLOAT), *[Aval((n,), BOOL)] * 2, Aval((m,), FLOAT), *[Aval((m,), BOOL)] * 2]
    outs += [*[Aval((), BOOL)] * 2, *[Aval((), INT)] * len(counts)]
    ys, raw = run_solver(name, run, values, outs)
    found, active, (success, solved) = ys[0], Active(*ys[1:6]), ys[6:8]
    known = {"success": success, **dict(zip(counts, ys[8:], strict=True))}
    guess = fnp.concatenate([found, active.multipliers])
    z = solution(name, lambda z: conditions(z, values, active), guess, solved, known.get("status", 0))
    if raw is not None and "status" in known:
        known["message"] = raw.message
    return z[:n], known


def real_value(value: Any, fun: Callable[..., Any], jac: Any = None) -> Any:
    """Return the value of an objective, a real number in double precision."""
    if jac is True:
        value = value[0]
    value = with_dtype(value)
    if value.dtype.kind not in "fiub" or value.size != 1:
        raise TypeError(
            f"minimize needs a function that returns one real number, but {name_of(fun)} returned "
            f"{value.dtype} of shape {value.shape}"
        )
    return as_float(fnp.reshape(value, ()))


class _Search:
    """SciPy's search, given arrays of everything that the problem is made of: start, bounds, captured."""

    bounded: bool
    limited: bool
    given: dict[str, Any]

    def __init__(self, vector: Vector, problem: Several, options: dict[str, Any]) -> None:
        self.vector, self.problem, self.options = vector, problem, options

    def __call__(self, values: Sequence[Any]) -> Any:
        """Return SciPy's result."""
        start, lower, upper, *captured = values
        functions = self.problem.at(captured)
        objective = first(functions["objective"])
        both = functions.get("gradient") or value_and_grad(objective)
        method, jac = self._method(), self.given["jac"]
        known: dict[str, Any] = {}
        if method not in NO_GRADIENT:
            known = {"jac": jac if isinstance(jac, str) else True, **self._second(method, functions)}
        if self.bounded:
            known["bounds"] = scipy.optimize.Bounds(array(lower), array(upper))
        if self.limited:
            known["constraints"] = _constraints(functions["limits"], array(start), method)
        if self.given["callback"]:
            known["callback"] = told(self.given["callback"], self.vector)
        return scipy.optimize.minimize(
            (lambda v: tuple(map(array, both(v)))) if known.get("jac") is True else _on_arrays(objective),
            np.array(array(start)),
            **known,
            **self.options,
        )

    def _method(self) -> str:
        method = self.options["method"]
        if method is None:
            return "slsqp" if self.limited else "l-bfgs-b" if self.bounded else "bfgs"
        return method.lower() if isinstance(method, str) else ""

    def _second(self, method: str, functions: dict[str, Any]) -> dict[str, Any]:
        """Return the second derivatives for the methods that take them."""
        for name in ("hess", "hessp"):
            if name in functions:
                return {name: _on_arrays(first(functions[name]))}
        if self.given["hess"] is not None:
            return {"hess": self.given["hess"]}
        slope = grad(first(functions["objective"]))
        if method in PRODUCT:
            return {"hessp": _products(slope)}
        if method in HESSIAN:
            return {"hess": _on_arrays(jacrev(slope))}
        return {}


def _products(slope: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the product of the derivative of `slope` with a vector, which runs it once for each place."""
    place: Any = None
    push: Any = None

    def product(v: Any, p: Any) -> Any:
        nonlocal place, push
        if place is None or not np.array_equal(v, place):
            place, push = v.copy(), linearize(slope, v)[1]
        return array(push(p))

    return product


def _on_arrays(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: array(f(*args))


def _constraints(limits: Callable[[Any], Sequence[Any]], start: Any, method: str) -> list[Any]:
    """Return the constraints as SciPy takes them, equations by themselves."""
    _, low, high = map(array, limits(start))
    equal = low == high
    return [
        _constraint(first(limits), low, high, rows.nonzero()[0], method)
        for rows in (equal, ~equal)
        if rows.any()
    ]


def _constraint(value: Callable[[Any], Any], low: Any, high: Any, places: Any, method: str) -> Any:
    second: dict[str, Any] = {}
    if method == "trust-constr":
        curvature = grad(lambda v, w: fnp.sum(w * value(v)[places]))
        second["hess"] = _on_arrays(jacrev(curvature))
    return scipy.optimize.NonlinearConstraint(
        lambda v: array(value(v))[places],
        low[places],
        high[places],
        jac=lambda v: array(jacrev(value)(v))[places],
        **second,
    )
