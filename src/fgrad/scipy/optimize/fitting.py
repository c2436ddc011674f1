"""Least squares and curves fitted to data: SciPy's solvers with exact Jacobians, differentiable results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize

from fgrad import numpy as fnp
from fgrad.core.aval import with_dtype
from fgrad.core.tensor import Tensor
from fgrad.numpy import linalg
from fgrad.numpy.indexing import stop_gradient
from fgrad.scipy.closures import Closed, Several, first
from fgrad.scipy.optimize.limits import Bounds, bounds_of
from fgrad.scipy.optimize.minimization import minimum
from fgrad.scipy.optimize.solution import OptimizeResult, delivered, told
from fgrad.scipy.results import is_plain
from fgrad.scipy.solver_calls import run_solver
from fgrad.scipy.vectors import Vector, array, as_float, flat_values, listed
from fgrad.transforms.calling import name_of
from fgrad.transforms.forward import jacfwd
from fgrad.transforms.reverse import jacrev

LOSSES: dict[str, Callable[[Any], Any]] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2.0 * (fnp.sqrt(1.0 + z) - 1.0),
    "huber": lambda z: fnp.where(z <= 1.0, z, 2.0 * fnp.sqrt(fnp.where(z <= 1.0, 1.0, z)) - 1.0),
    "cauchy": fnp.log1p,
    "arctan": fnp.arctan,
}


def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    jac: Any = None,
    bounds: Any = (-np.inf, np.inf),
    method: str = "trf",
    ftol: float | None = 1e-8,
    xtol: float | None = 1e-8,
    gtol: float | None = 1e-8,
    x_scale: Any = 1.0,
    loss: Any = "linear",
    f_scale: float = 1.0,
    max_nfev: int | None = None,
    verbose: int = 0,
    args: Any = (),
    kwargs: dict[str, Any] | None = None,
    **options: Any,
) -> OptimizeResult:
    """Return the least-squares solution that `scipy.optimize.least_squares` finds with an exact Jacobian.

    Args:
        fun: `fun(x, *args, **kwargs)` returns the residuals, a pytree of any shapes; may use Tensors from a
            closure. Where the result is differentiated, mapped or jitted, `fun` is traced with abstract
            arrays.
        x0: pytree of numbers and arrays, from which the search starts; it has no gradient.
        jac: None for the exact Jacobian, by forward mode unless there are fewer residuals than variables;
            `jac(x, *args, **kwargs)`, a matrix for vectors of residuals and variables; or "2-point", ....
        bounds: `(lb, ub)` or `Bounds(lb, ub)`, numbers, arrays or pytrees like x0.
        method: "trf", "dogbox" or "lm".
        ftol: as in SciPy.
        xtol: as in SciPy.
        gtol: as in SciPy.
        x_scale: as in SciPy, for the variables in one vector.
        loss: "linear", "soft_l1", "huber", "cauchy" or "arctan".
        f_scale: the residual from which on it counts less.
        max_nfev: how many evaluations at most.
        verbose: as in SciPy.
        args: further arguments, pytrees.
        kwargs: likewise.
        options: what else SciPy takes.

    Returns:
        A pytree with SciPy's fields; `x` is like x0. In a transformation: `x`, `cost`, `fun`, `success`,
        `status`, `nfev`, `njev`, and `message` where the search runs at once.

    Raises:
        ValueError: `loss` is not one of these.

    Derivative:
        Of `x`, `cost` and `fun` as in `minimize`, by the full Hessian of the cost.

    Example:
        >>> import fgrad
        >>> t = np.linspace(0.0, 1.0, 5)
        >>> def rate(data):
        ...     return least_squares(lambda k: fnp.exp(-k * t) - data, 1.0).x
        >>> fgrad.jacrev(rate)(np.exp(-2.0 * t)).round(3)
        array([ 0.   , -1.47 , -1.783, -1.622, -1.312])
    """
    args, kwargs = args if isinstance(args, tuple) else (args,), kwargs or {}
    if loss not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(LOSSES)}, not {loss!r}")
    x0 = listed(x0)
    vector = Vector(x0, "x0")
    what = f"the value of {name_of(fun)}"
    fitted = Closed(lambda v: [flat_values(fun(vector.unravel(v), *args, **kwargs), what)], [vector.aval])
    own = (
        Closed(lambda v: [jac(vector.unravel(v), *args, **kwargs)], [vector.aval]) if callable(jac) else None
    )
    problem = Several(residuals=fitted, jacobian=own)
    lower, upper = bounds_of(bounds if hasattr(bounds, "lb") else Bounds(*bounds), vector)
    values = [stop_gradient(vector.ravel(x0)), lower, upper, *problem.captured]
    options = {
        "method": method, "ftol": ftol, "xtol": xtol, "gtol": gtol, "x_scale": x_scale, "loss": loss,
        "f_scale": f_scale, "max_nfev": max_nfev, "verbose": verbose, **options,
    }  # fmt: skip

    if options.get("callback"):
        options["callback"] = told(options["callback"], vector)

    def cost(v: Any, cs: Sequence[Any]) -> Any:
        (r,) = problem.at(cs)["residuals"](v)
        return 0.5 * f_scale**2 * fnp.sum(LOSSES[loss]((r / f_scale) ** 2))

    def search(vs: Sequence[Any]) -> Any:
        start, low, high, *cs = vs
        functions = problem.at(cs)
        value = first(functions["residuals"])

        def jacobian(v: Any) -> Any:
            if "jacobian" in functions:
                return array(functions["jacobian"](v)[0])
            return array((jacfwd if size >= vector.size else jacrev)(value)(v))

        last: list[Any] = [None, None]

        def remembered(v: Any) -> Any:
            last[:] = v.copy(), array(value(v))
            return last[1]

        start = np.array(array(start))
        size = remembered(start).size
        return scipy.optimize.least_squares(
            lambda v: last[1] if np.array_equal(v, last[0]) else remembered(v),
            start,
            jac if isinstance(jac, str) else jacobian,
            (array(low), array(high)),
            **options,
        )

    if is_plain(values):
        return delivered(run_solver("least_squares", lambda vs: ((), search(vs)), values, ())[1], vector)

    x, known = minimum(
        "least_squares",
        search,
        values,
        lambda cs: lambda v: cost(v, cs),
        None,
        0,
        ("status", "nfev", "njev"),
    )
    return OptimizeResult(
        x=vector.restore(x),
        cost=cost(x, problem.captured),
        fun=problem.at(problem.captured)["residuals"](x)[0],
        **known,
    )


def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    bounds: Any = (-np.inf, np.inf),
    method: str | None = None,
    **options: Any,
) -> tuple[Any, Any]:
    """Return the parameters of a curve that fit data best, and their covariance.

    Args:
        f: `f(xdata, *parameters)`, the curve.
        xdata: what f takes; Tensors get gradients, as those of `ydata` and `sigma` do.
        ydata: array of the shape that f returns.
        p0: where the search starts, a sequence of numbers (or of pytrees, which f then gets); None: ones.
        sigma: standard deviations of the data, or their covariance matrix.
        absolute_sigma: whether `sigma` is meant as it is, not up to a factor.
        bounds: `(lb, ub)` of the parameters, as in `least_squares`.
        method: "lm", "trf" or "dogbox"; None: "lm" without bounds, "trf" with.
        options: what `least_squares` takes.

    Returns:
        `(popt, pcov)`: the parameters like `p0` (an array where those are numbers) and the covariance
        matrix of their vector.

    Raises:
        RuntimeError: no convergence.
        ValueError: p0 is None and f has no fixed number of parameters.

    Derivative:
        Of both, in the data and everything that f uses, by the implicit function theorem.

    Example:
        >>> import fgrad
        >>> t = np.array([0.0, 1.0, 2.0, 3.0])
        >>> line = lambda t, a, b: a + b * t
        >>> popt, pcov = curve_fit(line, t, np.array([1.0, 3.1, 4.9, 7.0]))
        >>> popt
        array([1.03, 1.98])
        >>> fgrad.jacrev(lambda y: curve_fit(line, t, y)[0][1])(np.array([1.0, 3.1, 4.9, 7.0]))
        array([-0.3, -0.1,  0.1,  0.3])
    """
    start = _start(f, p0)
    vector = Vector(start, "p0")
    y = as_float(with_dtype(ydata))
    x = xdata if isinstance(xdata, Tensor) or not isinstance(xdata, list) else np.asarray(xdata)
    unweigh = _unweighed(sigma, y)

    def residuals(p: Any) -> Any:
        return unweigh(flat_values(f(x, *p), f"the value of {name_of(f)}") - fnp.ravel(y))

    free = not hasattr(bounds, "lb") and all(np.shape(b) == () and np.isinf(b) for b in bounds)
    result = least_squares(
        residuals, start, bounds=bounds, method=method or ("lm" if free else "trf"), **options
    )
    if is_plain([result["success"]]) and not result["success"]:
        raise RuntimeError(f"optimal parameters not found: {result.get('message', 'no convergence')}")
    p = vector.ravel(result["x"])
    jacobian = jacfwd(lambda v: residuals(vector.unravel(v)))(p)
    covariance = linalg.inv(jacobian.T @ jacobian)
    m, n = jacobian.shape
    if not absolute_sigma:
        covariance = covariance * (2.0 * result["cost"] / (m - n) if m > n else np.inf)
    return result["x"], covariance


def _start(f: Callable[..., Any], p0: Any) -> Any:
    if p0 is not None:
        return np.atleast_1d(np.asarray(p0, float)) if np.shape(p0) == () or _are_numbers(p0) else p0
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(f).parameters.values()
    if any(p.kind not in kinds for p in parameters):
        raise ValueError(
            f"curve_fit cannot tell how many parameters {name_of(f)} has; give p0, from which to start"
        )
    return np.ones(len(parameters) - 1)


def _are_numbers(p0: Any) -> bool:
    return not isinstance(p0, dict) and all(np.shape(p) == () and not isinstance(p, dict) for p in p0)


def _unweighed(sigma: Any, y: Any) -> Callable[[Any], Any]:
    """Return what divides residuals by their standard deviations."""
    if sigma is None:
        return lambda r: r
    sigma = as_float(with_dtype(sigma))
    if sigma.shape == (y.size, y.size) and sigma.ndim == 2:
        factor = linalg.cholesky(sigma)
        return lambda r: linalg.solve(factor, r)
    if sigma.shape not in {y.shape, ()}:
        raise ValueError(
            f"sigma has shape {sigma.shape}, but the data {y.shape}; give one for each, or a matrix"
        )
    return lambda r: r / (fnp.ravel(sigma) if sigma.shape else sigma)
