"""Roots and fixed points by SciPy's solvers, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from tests.helpers import close, differences

import fgrad as fg
from fgrad.scipy import optimize


def hyperbola(x, a):
    """Return what is zero where both elements are sqrt(a)."""
    return [x[0] * x[1] - a, x[0] - x[1]]


@pytest.mark.parametrize("method", ["hybr", "lm", "broyden1", "krylov", "df-sane"])
def test_every_method_of_root(method):
    solve = lambda a: optimize.root(hyperbola, np.array([1.8, 1.9]), a, method=method, tol=1e-10).x
    close(solve(4.0), [2.0, 2.0], 1e-7)
    close(fg.jacrev(solve)(4.0), [0.25, 0.25], 1e-7)
    close(fg.jacfwd(solve)(4.0), [0.25, 0.25], 1e-7)
    close(fg.hessian(lambda a: np.sum(solve(a)))(4.0), -2 / 32, 1e-7)


def test_the_exact_jacobian_saves_calls():
    calls = []

    def f(x, a):
        calls.append(1)
        return np.cos(x) - a * x

    start, a = np.linspace(0.5, 1.0, 8), np.linspace(1.0, 2.0, 8)
    mine = optimize.root(f, start, a)
    exact = len(calls)
    calls.clear()
    theirs = scipy.optimize.root(f, start, a)
    close(mine.x, theirs.x, 1e-6)
    assert exact < len(calls)
    assert set(mine) - {"njev"} == set(theirs)
    given = optimize.root(f, start, a, jac=lambda x, a: np.diag(-np.sin(x) - a))
    close(given.x, theirs.x, 1e-6)
    assert given["nfev"] == mine["nfev"]
    solve = lambda a: optimize.root(f, start, a, jac=lambda x, a: np.diag(-np.sin(x) - a)).x
    close(fg.jit(fg.vmap(solve))(a[None])[0], theirs.x, 1e-6)


def test_roots_of_pytrees_mapped_and_jitted():
    def f(x, a):
        return {"u": x["u"] ** 2 - a, "v": x["v"] - x["u"][0] + 1.0j * a[0]}

    start = {"u": np.ones(2), "v": 0.0j}
    solve = lambda a: optimize.root(f, start, a, tol=1e-12).x
    a = np.array([4.0, 9.0])
    close(solve(a)["u"], [2.0, 3.0])
    close(solve(a)["v"], 2.0 - 4.0j)
    total = lambda a: np.sum(solve(a)["u"]) + np.imag(solve(a)["v"])
    expected = 0.5 / np.sqrt(a) - np.array([1.0, 0.0])
    close(fg.grad(total)(a), expected)
    close(fg.jit(fg.grad(total))(a), expected)
    close(fg.vmap(fg.grad(total))(np.stack([a, 4 * a])), [expected, 0.25 / np.sqrt(a) - [1.0, 0.0]])


def test_a_root_that_is_not_found_says_so():
    solve = lambda a: optimize.root(lambda x: x**2 + a, np.full(1, 2.0), options={"maxfev": 3})
    assert not solve(1.0).success
    with pytest.warns(fg.UnsolvedWarning, match="root did not find a solution"):
        fg.jacrev(lambda a: solve(a).x)(1.0)
    with pytest.raises(ValueError, match=r"as many equations as unknowns, but .* returns 3 numbers for 2"):
        optimize.root(lambda x: np.ones(3), np.ones(2))
    seen = []
    optimize.root(hyperbola, np.ones(2), 4.0, method="broyden1", callback=lambda x, f: seen.append((x, f)))
    assert seen[0][0].shape == seen[0][1].shape == (2,)


def kepler(x, e):
    return x - e * np.sin(x) - 1.0


@pytest.mark.parametrize(
    "given",
    [
        {"bracket": (0.0, 3.0)},
        {"bracket": (0.0, 3.0), "method": "bisect"},
        {"bracket": (0.0, 3.0), "method": "ridder"},
        {"bracket": (0.0, 3.0), "method": "brenth"},
        {"bracket": (0.0, 3.0), "method": "toms748"},
        {"x0": 1.0},
        {"x0": 1.0, "x1": 2.0},
        {"x0": 1.0, "method": "halley"},
        {"x0": 1.0, "fprime": lambda x, e: 1 - e * np.cos(x)},
    ],
)
def test_roots_of_one_number(given):
    solve = lambda e: optimize.root_scalar(kepler, (e,), **given).root
    x = solve(0.3)
    close(kepler(x, 0.3), 0.0, 1e-8)
    slope = lambda e: np.sin(solve(e)) / (1 - e * np.cos(solve(e)))
    close(fg.grad(solve)(0.3), slope(0.3), 1e-8)
    close(fg.jit(fg.vmap(fg.grad(solve)))(np.array([0.3])), [slope(0.3)], 1e-8)
    close(fg.jacfwd(fg.grad(solve))(0.3), differences(slope, 0.3, 1e-4), 1e-5)
    result = optimize.root_scalar(kepler, (0.3,), **given)
    assert result.converged
    assert result.method == given.get("method") or "method" not in given


def test_brackets_by_name():
    for name in ("brentq", "brenth", "bisect", "ridder"):
        solve = lambda a: getattr(optimize, name)(lambda x, a: x**3 - a, 0.0, 10.0, (a,))
        close(solve(8.0), 2.0)
        close(fg.grad(solve)(8.0), 1 / 12)
        close(fg.jit(fg.vmap(solve))(np.array([1.0, 8.0])), [1.0, 2.0])
    root, result = optimize.brentq(lambda x: x - 1.0, 0.0, 3.0, full_output=True)
    assert root == result.root == 1.0
    with pytest.raises(RuntimeError, match="brentq: failed to converge after 2 iterations"):
        optimize.brentq(kepler, 0.0, 3.0, (0.3,), maxiter=2)
    with pytest.raises(ValueError, match="different signs"):
        optimize.brentq(kepler, 2.0, 3.0, (0.3,))
    with pytest.raises(ValueError, match="must return one number, not 2"):
        optimize.brentq(lambda x: np.ones(2), 0.0, 1.0)
    failed = lambda a: optimize.root_scalar(lambda x: x**2 + a, x0=3.0, maxiter=3).root
    with pytest.warns(fg.UnsolvedWarning, match="root_scalar did not find a solution"):
        fg.grad(failed)(1.0)


def test_fixed_points():
    average = lambda x, a: {"r": 0.5 * (x["r"] + a / x["r"])}
    for method in ("del2", "iteration"):
        solve = lambda a: optimize.fixed_point(average, {"r": np.ones(2)}, (a,), method=method)["r"]
        a = np.array([4.0, 9.0])
        close(solve(a), [2.0, 3.0])
        close(fg.jacrev(solve)(a), np.diag(0.5 / np.sqrt(a)))
        close(fg.hessian(lambda a: np.sum(solve(a)))(a), np.diag(-0.25 * a**-1.5))
        close(fg.vmap(solve)(np.stack([a, 4 * a])), [[2.0, 3.0], [4.0, 6.0]])
    with pytest.raises(RuntimeError, match="Failed to converge"):
        optimize.fixed_point(lambda x: x + 1.0, 0.0)
