"""Solvers inside solvers, loops and branches: each is an operation like any other."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import close, differences

import fgrad as fg
from fgrad import lax
from fgrad.scipy import integrate, optimize

FINE = {"rtol": 1e-9, "atol": 1e-11}
TARGET = np.array([1.0, 2.0])


def test_a_minimum_over_minima():
    def inner(a):
        return optimize.minimize(lambda x: np.sum((x - a) ** 2 + 0.1 * x**4), np.zeros(2), tol=1e-12).x

    def outer(b):
        return optimize.minimize(lambda a: np.sum((inner(a) - b) ** 2), np.ones(2), tol=1e-9).x

    b = np.array([0.5, -0.3])  # inner(a) = b where a = b + 0.2 b^3
    close(outer(b), b + 0.2 * b**3, 1e-7)
    close(fg.jacrev(outer)(b), np.diag(1 + 0.6 * b**2), 1e-7)


def test_the_time_of_an_event_is_the_root_of_a_trajectory():
    def impact(height, g):
        fall = lambda t, y: np.stack([y[1], -g])
        at = lambda t: integrate.solve_ivp(
            fall, (0.0, t), np.stack([height, 0.0]), t_eval=np.stack([t]), **FINE
        )
        return optimize.brentq(lambda t: at(t).y[0, 0], 0.1, 5.0)

    h, g = 3.0, 9.81
    close(impact(h, g), np.sqrt(2 * h / g), 1e-8)
    by_height, by_g = fg.grad(impact, (0, 1))(h, g)
    close(by_height, np.sqrt(0.5 / (g * h)), 1e-8)
    close(by_g, -np.sqrt(0.5 * h / g**3), 1e-8)
    close(fg.hessian(impact)(h, g), -0.5 * np.sqrt(0.5 / g) * h**-1.5, 1e-7)


def test_an_integral_in_an_integral_and_in_an_equation():
    def double(k):
        row = lambda x: integrate.quad(lambda y: np.exp(-k * x * y), 0.0, 1.0)[0]
        return integrate.quad(row, 0.0, 1.0)[0]

    close(fg.grad(double)(1.0), differences(double, 1.0), 1e-7)

    def decayed(k):
        rate = lambda: integrate.quad(lambda s: k * s, 0.0, 1.0)[0]
        return integrate.solve_ivp(lambda t, y: -rate() * y, (0.0, 1.0), 1.0, t_eval=[1.0], **FINE).y[0]

    close(fg.grad(decayed)(1.0), -0.5 * np.exp(-0.5), 1e-8)


def test_solvers_in_loops_and_branches():
    cube_root = lambda a: optimize.brentq(lambda x: x**3 - a, -10.0, 9.0)
    thrice = lambda a: lax.scan(lambda c, _: (cube_root(c), None), a, None, 3)[0]
    close(fg.grad(thrice)(8.0), 8.0 ** (1 / 27 - 1) / 27)
    close(fg.jit(fg.grad(thrice))(8.0), 8.0 ** (1 / 27 - 1) / 27)
    either = lambda a: lax.cond(a > 0, cube_root, lambda a: a, a)
    close(fg.jit(fg.vmap(fg.grad(either)))(np.array([8.0, -1.0])), [1 / 12, 1.0])


def test_jitted_functions_are_solved():
    a = np.array([1.0, 2.0])
    loss = fg.jit(lambda x, a: np.sum((x - a) ** 4 + x**2))
    for method in ("BFGS", "Newton-CG", "Nelder-Mead"):
        solve = lambda a: optimize.minimize(loss, np.zeros(2), (a,), method=method, tol=1e-9).x
        x, u = solve(a), solve(a) - a
        close(4 * u**3 + 2 * x, np.zeros(2), 1e-5)
        close(fg.jacrev(solve)(a), np.diag(12 * u**2 / (12 * u**2 + 2)), 1e-5)
    decay = fg.jit(lambda t, y, k: -k * y)
    for sensitivity in ("forward", "adjoint"):
        final = lambda k: integrate.solve_ivp(
            decay, (0.0, 1.0), 2.0, t_eval=[1.0], args=(k,), sensitivity=sensitivity, **FINE
        ).y[0]
        close(fg.grad(final)(0.5), -2 * np.exp(-0.5), 1e-8)


def test_integers_are_mapped_and_jitted_along_with_parameters():
    final = lambda n, k: integrate.solve_ivp(
        lambda t, y: -k * n * y, (0.0, 1.0), 1.0, t_eval=[1.0], **FINE
    ).y[0]
    n, k = np.array([1, 2]), np.array([0.5, 0.6])
    close(fg.vmap(fg.grad(final, 1))(n, k), -n * np.exp(-k * n), 1e-8)
    close(fg.jit(fg.grad(final, 1))(2, 0.6), -2 * np.exp(-1.2), 1e-8)
    scaled = lambda n, k: integrate.quad(lambda x: np.exp(-k * n * x), 0.0, np.inf)[0]
    close(fg.vmap(fg.grad(scaled, 1))(n, k), -1 / (n * k**2), 1e-8)


@pytest.mark.parametrize(
    "solve",
    [
        lambda: optimize.root(lambda x: x**3 - TARGET, TARGET).x,
        lambda: optimize.minimize(lambda x: np.sum((x - TARGET) ** 2), np.zeros(2)).x,
        lambda: optimize.least_squares(lambda x: x - TARGET, np.zeros(2)).x,
        lambda: optimize.minimize_scalar(lambda x: (x - 2.0) ** 2).x,
        lambda: optimize.brentq(lambda x: x**3 - 2.0, 0.0, 2.0),
        lambda: optimize.root_scalar(lambda x: x**3 - 2.0, bracket=(0.0, 2.0)).root,
        lambda: optimize.fixed_point(np.cos, np.ones(2)),
    ],
)
def test_what_depends_on_no_argument_of_a_compiled_function_is_solved(solve):
    close(fg.jit(lambda y: y * solve())(2.0), 2.0 * solve())
