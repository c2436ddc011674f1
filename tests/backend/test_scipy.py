"""Functions of fgrad.scipy on a device, with their derivatives, compiled and of many examples."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend.checks import check, on_device, same

import fgrad as fg
import fgrad.scipy.linalg as fla
import fgrad.scipy.special as fsp
from fgrad.scipy import signal, stats

RNG = np.random.default_rng(0)
X, A, B = RNG.uniform(0.5, 1.5, 6), RNG.uniform(-1, 1, (4, 4)) + 4 * np.eye(4), RNG.uniform(-1, 1, (4, 2))
S, BANDS = A @ A.T, np.stack([X, 4 * X, X])
N = 100  # whose triangles are more than a device keeps of constants
LARGE = RNG.uniform(-1, 1, (N, N)) / N + np.eye(N)


def distributions(x):
    return (stats.gamma.logcdf(x, 2.0) + stats.norm.cdf(x) + stats.beta.cdf(x / 2, 2.0, 3.0)).sum()


def factors(a):
    _, lower, upper = fla.lu(a)
    return (lower**2).sum() + (upper**2).sum()


def blocks(a):
    outer, d, _ = fla.ldl(a)
    return (outer**2).sum() + (d**2).sum()


FUNCTIONS = {
    "gammas": (lambda x: (fsp.gamma(x) * fsp.psi(x)).sum(), X),
    "Bessel functions": (lambda x: (fsp.j1(x) + fsp.i1(x) + fsp.k1(x) + fsp.kv(2, x)).sum(), X),
    "Legendre": (lambda x: fsp.eval_legendre(3, x / 2).sum(), X),
    "elliptic": (lambda x: fsp.ellipk(x / 2).sum() + fsp.ellipe(x / 2).sum(), X),
    "distributions": (distributions, X),
    "triangular": (lambda a, b: (fla.solve_triangular(a, b, lower=True) ** 2).sum(), A, B),
    "lu": (factors, A),
    "lu_solve": (lambda a, b: (fla.lu_solve(fla.lu_factor(a), b) ** 2).sum(), A, B),
    "ldl": (blocks, A - 4 * np.eye(4)),
    "cho_solve": (lambda a, b: (fla.cho_solve(fla.cho_factor(a), b) ** 2).sum(), S, B),
    "solve_banded": (lambda a, b: (fla.solve_banded((1, 1), a, b) ** 2).sum(), BANDS, X),
    "expm": (lambda a: (fla.expm(a / 4) ** 2).sum(), A),
    "logm": (lambda a: (fla.logm(a) ** 2).sum(), A),
    "sqrtm": (lambda a: (fla.sqrtm(a) ** 2).sum(), A),
    "power": (lambda a: (fla.fractional_matrix_power(a, 0.3) ** 2).sum(), A),
    "schur": (lambda a: (np.abs(fla.schur(a, output="complex")[1]) ** 2 * a).sum(), A),
    "polar": (lambda a: (fla.polar(a)[0] ** 2 * a).sum(), A),
    "sylvester": (lambda a, b: (fla.solve_sylvester(a, b, a) ** 2).sum(), A, S),
    "lyapunov": (lambda a: (fla.solve_discrete_lyapunov(a / 9, a) ** 2).sum(), A),
    "riccati": (lambda a, b: (fla.solve_continuous_are(a, b, a @ a.T, b.T @ b) ** 2).sum(), A, B),
    "roots": (lambda p: (np.abs(np.roots(p)) ** 2).sum(), np.array([1.0, -6, 11, -6])),
    "lfilter": (lambda b, a, x: (signal.lfilter(b, a, x) ** 2).sum(), X[:2], X[:3], X),
}
MANY = {*FUNCTIONS} - {"roots", "lfilter", "distributions"}
WIDE = {
    "triangular": (lambda a, b: (fla.solve_triangular(a, b, lower=True) ** 2).sum(), LARGE, LARGE[:, :2]),
    "lu": (lambda a: (fla.lu_factor(a)[0] ** 2).sum(), LARGE),
    "expm": (lambda a: (fla.expm(a) ** 2).sum(), LARGE),
    "sqrtm": (lambda a: (fla.sqrtm(a) ** 2).sum(), LARGE),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_derivatives(name):
    f, *args = FUNCTIONS[name]
    gradient = fg.grad(f, tuple(range(len(args))))
    derivatives = [f, gradient, fg.jit(f), fg.jit(gradient), fg.hessian(f)]
    for g in derivatives:
        same(g(*map(on_device, args)), g(*map(fg.tensor, args)), 100)
    if name in MANY:
        pairs, mapped = [np.stack([a, a * 1.01]) for a in args], fg.vmap(gradient)
        same(mapped(*map(on_device, pairs)), mapped(*map(fg.tensor, pairs)), 100)


@pytest.mark.parametrize("name", WIDE)
def test_nothing_travels_of_large_matrices(name):
    f, *args = WIDE[name]
    check(fg.grad(f, tuple(range(len(args)))), *args, reads=True)
