"""Minima and roots of functions of one number, by SciPy's solvers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.optimize

from fgrad import numpy as fnp
from fgrad.core.aval import Aval, with_dtype
from fgrad.core.tensor import Tensor
from fgrad.extend.engine import named
from fgrad.numpy.indexing import stop_gradient
from fgrad.scipy.closures import Closed, Several, first
from fgrad.scipy.optimize.minimization import minimum, real_value
from fgrad.scipy.optimize.solution import (
    BOOL,
    FLOAT,
    INT,
    OptimizeResult,
    delivered,
    solution,
)
from fgrad.scipy.results import is_plain, register_result
from fgrad.scipy.solver_calls import run_solver
from fgrad.scipy.vectors import Vector, array, as_float, flat_values
from fgrad.transforms.calling import name_of
from fgrad.transforms.reverse import grad


class RootResults(OptimizeResult):
    """What SciPy's `RootResults` is, as a pytree.

    Example:
        >>> from fgrad.scipy.optimize import root_scalar
        >>> result = root_scalar(lambda x: x**2 - 2.0, bracket=(0.0, 2.0))
        >>> result.converged, result["root"]
        (True, 1.4142)
    """


register_result(RootResults)


def minimize_scalar(
    fun: Callable[..., Any],
    bracket: Any = None,
    bounds: Any = None,
    args: Any = (),
    method: str | None = None,
    tol: float | None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Return the minimum of a function of one number that `scipy.optimize.minimize_scalar` finds.

    Args:
        fun: `fun(x, *args)` returns a real number; as in `minimize`.
        bracket: as in SciPy; without gradient.
        bounds: `(low, high)` for the method "bounded"; Tensors get gradients where the minimum is there.
        args: further arguments, pytrees.
        method: "brent", "golden" or "bounded".
        tol: as in SciPy.
        options: as in SciPy.

    Returns:
        As `minimize`.

    Raises:
        TypeError: `fun` returns no real number.
        ValueError: as in SciPy, as for the method "bounded" without bounds.

    Derivative:
        As in `minimize`.

    Example:
        >>> import fgrad
        >>> minimum = lambda a: minimize_scalar(lambda x: (x - a) ** 2 + fnp.exp(x)).x
        >>> fgrad.grad(minimum)(1.0)  # 2 / (2 + exp(x))
        np.float64(0.5934)
    """
    args = args if isinstance(args, tuple) else (args,)
    vector = Vector(0.0, "x")
    objective = Closed(lambda v: [real_value(fun(v, *args), fun)], [Aval((), FLOAT)])
    lower, upper = bounds if bounds is not None else (-np.inf, np.inf)
    lower, upper = (fnp.reshape(as_float(_array_like(b)), (1,)) for b in (lower, upper))
    values = [np.zeros(1), lower, upper, *objective.captured]

    def search(vs: Sequence[Any]) -> Any:
        _, low, high, *cs = vs
        known = {"bounds": (float(array(low)[0]), float(array(high)[0]))} if bounds is not None else {}
        return scipy.optimize.minimize_scalar(
            lambda v: float(array(objective(cs, np.float64(v))[0])),
            bracket,
            method=method,
            tol=tol,
            options=options,
            **known,
        )

    if is_plain(values):
        return delivered(run_solver("minimize_scalar", lambda vs: ((), search(vs)), values, ())[1], vector)

    x, known = minimum(
        "minimize_scalar",
        search,
        values,
        lambda cs: lambda v: objective.at(cs)(v[0]),
        None,
        0,
        ("nfev", "nit"),
    )
    return OptimizeResult(x=x[0], fun=objective(objective.captured, x[0])[0], **known)


def root_scalar(
    f: Callable[..., Any],
    args: Any = (),
    method: str | None = None,
    bracket: Any = None,
    fprime: Callable[..., Any] | None = None,
    fprime2: Callable[..., Any] | None = None,
    x0: float | None = None,
    x1: float | None = None,
    xtol: float | None = None,
    rtol: float | None = None,
    maxiter: int | None = None,
) -> RootResults:
    """Return the root of a function of one number that `scipy.optimize.root_scalar` finds.

    Args:
        f: `f(x, *args)` returns a real number; may use Tensors from a closure. Where the result is
            differentiated, mapped or jitted, `f` is traced with abstract arrays.
        args: further arguments, pytrees.
        method: any of SciPy's; None: "brentq" with a bracket, "secant" with x1, "newton" otherwise.
        bracket: two numbers between which f changes its sign; without gradient.
        fprime: None for the exact derivative, which "newton" and "halley" take, or a function.
        fprime2: likewise the second one, for "halley".
        x0: where the search starts; without gradient.
        x1: a second start.
        xtol: absolute tolerance.
        rtol: relative tolerance.
        maxiter: how many iterations at most.

    Returns:
        A pytree with the fields `root`, `iterations`, `function_calls` and `converged`; outside of
        transformations all of SciPy's.

    Raises:
        ValueError: `f` returns several numbers, or has one sign at both ends of the bracket.

    Derivative:
        Of every order, by the implicit function theorem. If the search failed, differentiating warns.

    Differences from SciPy:
        No `options`; `fprime` is a function or None, never a truth value.

    Example:
        >>> import fgrad
        >>> kepler = lambda e: root_scalar(lambda x: x - e * fnp.sin(x) - 1.0, x0=1.0).root
        >>> fgrad.grad(kepler)(0.1)  # sin(x) / (1 - e cos(x))
        np.float64(0.9291)
    """
    args = args if isinstance(args, tuple) else (args,)
    name = method or ("brentq" if bracket is not None else "secant" if x1 is not None else "newton")
    ends = [] if bracket is None else list(bracket)
    places = [np.float64(0) if p is None else p for p in (*ends, x0, x1)]
    starts = [stop_gradient(as_float(with_dtype(p))) for p in places]
    problem = Several(
        **{
            key: g and Closed(partial(_one_value, g, args), [Aval((), FLOAT)])
            for key, g in (("f", f), ("fprime", fprime), ("fprime2", fprime2))
        }
    )
    values = [*starts, *problem.captured]

    def search(vs: Sequence[Any]) -> Any:
        given, cs = [float(array(v)) for v in vs[: len(places)]], vs[len(places) :]
        functions = {key: first(g) for key, g in problem.at(cs).items()}
        slope = functions.get("fprime") or grad(functions["f"])
        known: dict[str, Any] = {}
        if bracket is not None:
            known["bracket"] = given[:-2]
        if x0 is not None:
            known["x0"] = given[-2]
        if x1 is not None:
            known["x1"] = given[-1]
        if name in {"newton", "halley"}:
            known["fprime"] = _on_numbers(slope)
        if name == "halley":
            known["fprime2"] = _on_numbers(functions.get("fprime2") or grad(slope))
        return scipy.optimize.root_scalar(
            _on_numbers(functions["f"]), method=name, xtol=xtol, rtol=rtol, maxiter=maxiter, **known
        )

    if is_plain(values):
        return RootResults(run_solver("root_scalar", lambda vs: ((), search(vs)), values, ())[1])

    def run(vs: Sequence[Any]) -> tuple[Sequence[Any], Any]:
        result = search(vs)
        return [result.root, result.converged, result.iterations, result.function_calls], None

    outs = [Aval((1,), FLOAT), Aval((), BOOL), *[Aval((), INT)] * 2]
    (found, converged, iterations, calls), _ = run_solver("root_scalar", run, values, outs)
    value = first(problem.at(problem.captured)["f"])
    x = solution("root_scalar", lambda v: fnp.reshape(value(v[0]), (1,)), found, converged, 0)[0]
    return RootResults(root=x, iterations=iterations, function_calls=calls, converged=converged)


def _one_value(f: Callable[..., Any], args: tuple[Any, ...], x: Any) -> list[Any]:
    value = flat_values(f(x, *args), f"the value of {name_of(f)}")
    if value.shape != (1,):
        raise ValueError(f"{name_of(f)} must return one number, not {value.size}; use root for several")
    return [fnp.reshape(value, ())]


def _on_numbers(f: Callable[[Any], Any]) -> Callable[[float], float]:
    return lambda x: float(array(f(np.float64(x))))


_FOUND = """Return the root of `f` between `a` and `b` by {how}; a method of `root_scalar`.

Args:
    f: `f(x, *args)` returns a real number; may use Tensors from a closure, as in `root_scalar`.
    a: an end of the bracket; without gradient, as `b`.
    b: the other end; `f` has another sign there.
    args: further arguments, pytrees.
    xtol: absolute tolerance.
    rtol: relative tolerance.
    maxiter: how many iterations at most.
    full_output: whether to return `(root, RootResults)`.
    disp: whether to raise where it does not converge, if that is known: not in a transformation.

Returns:
    The root, a float; with `full_output` also the `RootResults`.

Raises:
    ValueError: `f` has one sign at both ends, or returns several numbers.
    RuntimeError: no convergence.

Derivative:
    Of every order, by the implicit function theorem.

Example:
    >>> fg.grad(lambda a: fg.scipy.optimize.{name}(lambda x: x**3 - a, 0.0, 10.0))(8.0)
    np.float64(0.0833)
"""


def _bracketing(name: str, how: str) -> Callable[..., Any]:
    """Return SciPy's function `name`, which finds a root between two ends."""

    @named(name, _FOUND.format(name=name, how=how))
    def find(
        f: Callable[..., Any],
        a: float,
        b: float,
        args: Any = (),
        xtol: float = 2e-12,
        rtol: float = 8.881784197001252e-16,
        maxiter: int = 100,
        full_output: bool = False,
        disp: bool = True,
    ) -> Any:
        result = root_scalar(f, args, name, (a, b), xtol=xtol, rtol=rtol, maxiter=maxiter)
        if disp and is_plain([result["converged"]]) and not result["converged"]:
            raise RuntimeError(f"{name}: failed to converge after {result['iterations']} iterations")
        return (result["root"], result) if full_output else result["root"]

    return find


brentq: Callable[..., Any] = _bracketing("brentq", "Brent's method")
brenth: Callable[..., Any] = _bracketing("brenth", "Brent's method with hyperbolas")
bisect: Callable[..., Any] = _bracketing("bisect", "bisection")
ridder: Callable[..., Any] = _bracketing("ridder", "Ridders' method")


def _array_like(x: Any) -> Any:
    return x if isinstance(x, Tensor) else np.asarray(x, float)
