"""Roots and fixed points: SciPy's solvers with exact derivatives, results differentiable to every order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize

from fgrad.core.aval import Aval
from fgrad.numpy.indexing import stop_gradient
from fgrad.scipy.closures import Closed, Several, first
from fgrad.scipy.optimize.solution import (
    BOOL,
    INT,
    OptimizeResult,
    delivered,
    is_solved,
    solution,
)
from fgrad.scipy.results import is_plain
from fgrad.scipy.solver_calls import run_solver
from fgrad.scipy.vectors import Vector, array, flat_values, listed
from fgrad.transforms.calling import name_of
from fgrad.transforms.forward import jacfwd


def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    jac: Any = None,
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Return the root that `scipy.optimize.root` finds, with the exact Jacobian where the method takes one.

    Args:
        fun: `fun(x, *args)` returns as many numbers as x has, in any pytree; may use Tensors from a closure.
            Where the result is differentiated, mapped or jitted, `fun` is traced with abstract arrays.
        x0: pytree of numbers and arrays, from which the search starts; it has no gradient.
        args: further arguments, pytrees.
        method: any of SciPy's.
        jac: None for the exact Jacobian; `jac(x, *args)`, a matrix for the variables in one vector; or False
            for finite differences.
        tol: as in SciPy.
        callback: `callback(x, values)`, for the methods that call one, with x like x0.
        options: as in SciPy.

    Returns:
        A pytree with SciPy's fields; `x` is like x0. In a transformation: `x`, `fun`, `success`, `status`,
        `nfev`, and `message` where the search runs at once.

    Raises:
        ValueError: `fun` returns another number of values.

    Derivative:
        Of `x` in all Tensors that `fun` uses, of every order, by the implicit function theorem. If the
        search failed, differentiating warns (`UnsolvedWarning`).

    Example:
        >>> import fgrad
        >>> crossing = lambda a: root(lambda x: [x[0] * x[1] - a, x[0] - x[1]], np.ones(2), tol=1e-12).x
        >>> fgrad.jacfwd(crossing)(4.0)
        array([0.25, 0.25])
    """
    args = args if isinstance(args, tuple) else (args,)
    x0 = listed(x0)
    vector = Vector(x0, "x0")
    problem = Several(
        equations=Closed(lambda v: [_square(fun, vector, v, args)], [vector.aval]),
        jacobian=Closed(lambda v: [jac(vector.unravel(v), *args)], [vector.aval]) if callable(jac) else None,
    )
    values = [stop_gradient(vector.ravel(x0)), *problem.captured]

    def search(vs: Sequence[Any]) -> Any:
        start, *cs = vs
        functions = problem.at(cs)
        value = first(functions["equations"])
        known: dict[str, Any] = {}
        if jac is None and method in {"hybr", "lm"}:
            known["jac"] = lambda v: array(jacfwd(value)(v))
        elif "jacobian" in functions:
            known["jac"] = lambda v: array(functions["jacobian"](v)[0])
        if callback is not None:
            known["callback"] = lambda v, f: callback(vector.restore(v), vector.unravel(f))
        return scipy.optimize.root(
            lambda v: array(value(v)),
            np.array(array(start)),
            method=method,
            tol=tol,
            options=options,
            **known,
        )

    if is_plain(values):
        return delivered(run_solver("root", lambda vs: ((), search(vs)), values, ())[1], vector)

    def run(vs: Sequence[Any]) -> tuple[Sequence[Any], Any]:
        result = search(vs)
        solved = is_solved(first(problem.at(vs[1:])["equations"]), result.x, result.success)
        counts = result.get("status", 0), result.get("nfev", 0)
        return [result.x, result.success, solved, *counts], result

    outs = [vector.aval, *[Aval((), BOOL)] * 2, *[Aval((), INT)] * 2]
    (found, success, solved, status, nfev), raw = run_solver("root", run, values, outs)
    value = first(problem.at(problem.captured)["equations"])
    x = solution("root", value, found, solved, status)
    known = {"message": raw.message} if raw is not None else {}
    return OptimizeResult(
        x=vector.restore(x), fun=value(x), success=success, status=status, nfev=nfev, **known
    )


def _square(fun: Callable[..., Any], vector: Vector, v: Any, args: tuple[Any, ...]) -> Any:
    value = flat_values(fun(vector.unravel(v), *args), f"the value of {name_of(fun)}")
    if value.shape != (vector.size,):
        raise ValueError(
            f"root needs as many equations as unknowns, but {name_of(fun)} returns {value.size} numbers "
            f"for {vector.size}; for more of them use least_squares"
        )
    return value


def fixed_point(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    xtol: float = 1e-8,
    maxiter: int = 500,
    method: str = "del2",
) -> Any:
    """Return the x with `func(x, *args) = x` that `scipy.optimize.fixed_point` finds.

    Args:
        func: returns a pytree like x; may use Tensors from a closure.
        x0: pytree from which the iteration starts; it has no gradient.
        args: further arguments, pytrees.
        xtol: relative tolerance.
        maxiter: how many iterations at most.
        method: "del2" (with Steffensen's acceleration) or "iteration".

    Returns:
        x, like x0.

    Raises:
        RuntimeError: no convergence.

    Derivative:
        Of every order, by the implicit function theorem.

    Example:
        >>> import fgrad
        >>> half = lambda a: fixed_point(lambda x: 0.5 * (x + a / x), 1.0)  # sqrt(a)
        >>> fgrad.grad(half)(4.0)
        np.float64(0.25)
    """
    args = args if isinstance(args, tuple) else (args,)
    x0 = listed(x0)
    vector = Vector(x0, "x0")
    image = Closed(lambda v: [vector.ravel(func(vector.unravel(v), *args))], [vector.aval])
    values = [stop_gradient(vector.ravel(x0)), *image.captured]

    def run(vs: Sequence[Any]) -> tuple[Sequence[Any], Any]:
        start, *cs = vs
        step = image.at(cs)
        found = scipy.optimize.fixed_point(
            lambda v: array(step(v)), array(start), xtol=xtol, maxiter=maxiter, method=method
        )
        return [found], None

    (found,), _ = run_solver("fixed_point", run, values, [vector.aval])
    if not is_plain(values):
        found = solution(
            "fixed_point", lambda v: image(image.captured, v)[0] - v, found, solved=True, status=0
        )
    return vector.restore(found)
