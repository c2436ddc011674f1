"""Worked examples that solve problems of science by SciPy's solvers, against conditions of another kind.

A Gaussian process, a mixture of Gaussians by Newton's method, independent components, counts of a negative
binomial distribution, and equations of motion. Data are made here.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.optimize
import scipy.special
import scipy.stats
from tests.helpers import close, differences

import fgrad as fg
from fgrad.scipy import integrate, optimize

# ---- a Gaussian process -------------------------------------------------------------------------

X = np.linspace(-2.0, 2.0, 12)
Y = np.sin(2 * X) + 0.2 * np.random.default_rng(3).standard_normal(12)


def kernel(p, a, b):
    return np.exp(2 * p["amplitude"] - 0.5 * ((a[:, None] - b[None, :]) * np.exp(-p["scale"])) ** 2)


def surprise(p, y):
    """Return the negative logarithm of the marginal likelihood."""
    k = kernel(p, X, X) + np.exp(2 * p["noise"]) * np.eye(len(X))
    factor = np.linalg.cholesky(k)
    z = np.linalg.solve(factor, y)
    return 0.5 * np.sum(z**2) + np.sum(np.log(np.diagonal(factor)))


START = {"amplitude": 0.0, "scale": 0.0, "noise": -1.0}


def test_a_gaussian_process_is_fitted():
    def density(v):
        k = kernel(dict(zip(START, v, strict=True)), X, X) + np.exp(2 * v[2]) * np.eye(len(X))
        return -scipy.stats.multivariate_normal(np.zeros(len(X)), k).logpdf(Y)

    found = optimize.minimize(surprise, START, (Y,), tol=1e-9)
    theirs = scipy.optimize.minimize(density, list(START.values()), tol=1e-9, method="Nelder-Mead")
    close(np.array([found.x[k] for k in START]), theirs.x, 1e-5)
    close(found.fun + 0.5 * len(X) * np.log(2 * np.pi), theirs.fun, 1e-9)


def test_what_a_gaussian_process_predicts_differentiates_through_its_fit():
    """The mean at a new place, as a function of the data that kernel and prediction are fitted to."""
    place = np.array([0.3])

    def predicted(y):
        p = optimize.minimize(surprise, START, (y,), tol=1e-10).x
        k = kernel(p, X, X) + np.exp(2 * p["noise"]) * np.eye(len(X))
        return (kernel(p, place, X) @ np.linalg.solve(k, y))[0]

    def reference(y):
        loss = lambda v: surprise(dict(zip(START, v, strict=True)), y)
        p = scipy.optimize.minimize(loss, np.array([0.3, -0.2, -2.0]), method="BFGS", jac="3-point").x
        p = dict(zip(START, p, strict=True))
        k = kernel(p, X, X) + np.exp(2 * p["noise"]) * np.eye(len(X))
        return (kernel(p, place, X) @ np.linalg.solve(k, y))[0]

    close(fg.grad(predicted)(Y), differences(reference, Y, 1e-3), 1e-3, 1e-4)


# ---- a mixture of Gaussians ---------------------------------------------------------------------


def mixture(rng):
    first = rng.standard_normal((60, 2)) * [0.5, 1.0] + [2.0, 0.0]
    second = rng.standard_normal((40, 2)) @ np.array([[0.8, 0.3], [0.0, 0.6]]) - [1.5, 1.0]
    return np.concatenate([first, second])


def log_densities(p, points):
    """Return the logarithm of each component's weighted density at each point."""
    weights = p["logits"] - np.log(np.sum(np.exp(p["logits"])))
    offset = points[None] - p["means"][:, None]
    z = np.einsum("kij,knj->kni", p["roots"], offset)  # the root of the precision
    volume = np.log(np.abs(np.linalg.det(p["roots"])))
    return (weights + volume)[:, None] - 0.5 * np.sum(z**2, axis=2) - np.log(2 * np.pi)


def test_a_mixture_of_gaussians_by_newtons_method(rng):
    """The maximum of the likelihood is a fixed point of expectation and maximisation."""
    points = mixture(rng)
    free = {"logits": np.zeros(1), "means": np.array([[1.0, 0.0], [-1.0, 0.0]]), "roots": np.zeros((2, 3))}

    def full(p):
        a, b, c = p["roots"].T
        rows = [np.stack([np.exp(a), np.zeros(2)], axis=1), np.stack([b, np.exp(c)], axis=1)]
        logits = np.concatenate([p["logits"], np.zeros(1)])
        return {"logits": logits, "means": p["means"], "roots": np.stack(rows, axis=1)}

    loss = lambda p: -np.mean(np.log(np.sum(np.exp(log_densities(full(p), points)), axis=0)))
    result = optimize.minimize(loss, free, method="Newton-CG", tol=1e-10)
    assert result.nhev > 0
    p = full(result.x)
    shares = np.exp(log_densities(p, points))
    shares /= shares.sum(0)
    size = shares.sum(1)
    close(np.exp(p["logits"]) / np.exp(p["logits"]).sum(), size / len(points), 1e-6)
    means = shares @ points / size[:, None]
    close(p["means"], means, 1e-6)
    for k in range(2):
        covariance = (shares[k, :, None] * (points - means[k])).T @ (points - means[k]) / size[k]
        close(np.linalg.inv(p["roots"][k].T @ p["roots"][k]), covariance, 1e-5)
    assert sorted(np.round(size / len(points), 1)) == [0.4, 0.6]


# ---- independent components ---------------------------------------------------------------------


def test_independent_components(rng):
    """Where the likelihood of sources with density 1 / cosh is largest, mean(tanh(s) s^T) = 1."""
    sources = rng.laplace(size=(2, 600))
    mixing = np.array([[1.0, 0.6], [-0.4, 1.0]])
    seen = mixing @ sources

    def loss(unmixing):
        s = unmixing @ seen
        return np.mean(np.sum(np.log(np.cosh(s)), axis=0)) - np.log(np.abs(np.linalg.det(unmixing)))

    result = optimize.minimize(loss, np.eye(2), tol=1e-9)
    found = result.x @ seen
    close(np.tanh(found) @ found.T / 600, np.eye(2), 1e-6)
    product = np.abs(result.x @ mixing)
    small, large = np.sort(product, axis=1).T
    assert np.all(small < 0.15 * large)  # each component is one source
    again = optimize.minimize(loss, np.eye(2), method="trust-exact", tol=1e-9)
    close(again.x, result.x, 1e-6)
    assert again.nit < result.nit  # with the exact Hessian


# ---- counts of a negative binomial distribution -------------------------------------------------


def log_probabilities(size, p, counts):
    """Return log(Gamma(n + size) / (Gamma(size) n!) p^size (1 - p)^n) for each count n."""
    k = np.arange(np.max(counts))
    factors = np.where(k < counts[:, None], np.log((size + k) / (k + 1.0)), 0.0)
    return np.sum(factors, axis=1) + size * np.log(p) + counts * np.log(1.0 - p)


def test_the_most_likely_negative_binomial_distribution(rng):
    counts = rng.negative_binomial(3.0, 0.3, 200)
    close(log_probabilities(2.5, 0.4, counts), scipy.stats.nbinom(2.5, 0.4).logpmf(counts))

    def loss(p, weights):
        shares = log_probabilities(np.exp(p["log_size"]), 1 / (1 + np.exp(-p["logit"])), counts)
        return -np.sum(weights * shares) / len(counts)

    start = {"log_size": 0.0, "logit": 0.0}
    fit = lambda weights: optimize.minimize(loss, start, (weights,), tol=1e-10).x
    found = fit(np.ones(200))
    size, p = np.exp(found["log_size"]), 1 / (1 + np.exp(-found["logit"]))
    close(p, size / (size + counts.mean()), 1e-7)
    psi = scipy.special.digamma
    close(np.mean(psi(counts + size)) - psi(size) + np.log(p), 0.0, 1e-7)

    def equations(v, weights):
        mean = np.average(counts, weights=weights)
        return np.average(psi(counts + v), weights=weights) - psi(v) + np.log(v / (v + mean))

    # how each observation moves the estimate, by the roots of the likelihood equation
    def reference(first):
        weights = np.concatenate([first, np.ones(197)])
        return np.log(scipy.optimize.brentq(equations, 0.5, 20.0, (weights,), xtol=1e-14))

    influence = fg.grad(lambda w: fit(np.concatenate([w, np.ones(197)]))["log_size"])(np.ones(3))
    close(influence, differences(reference, np.ones(3), 1e-4), 1e-5, 1e-8)


# ---- equations of motion ------------------------------------------------------------------------

TIMES = np.linspace(0.0, 6.0, 25)
PENDULUM = np.array([0.15, 2.0, 0.9])  # damping, frequency squared, angle at the start


def swing(y, t, damping, stiffness):
    angle, speed = y[0], y[1]
    return [speed, -damping * speed - stiffness * np.sin(angle)]


def test_a_pendulum_is_fitted_to_its_angles(rng):
    def angles(p):
        return integrate.odeint(swing, np.stack([p[2], 0.0]), TIMES, (p[0], p[1]), rtol=1e-9, atol=1e-9)[:, 0]

    def theirs(p):
        return scipy.integrate.odeint(swing, [p[2], 0.0], TIMES, (p[0], p[1]), rtol=1e-10, atol=1e-10)[:, 0]

    close(fg.jacrev(angles)(PENDULUM), differences(theirs, PENDULUM, 1e-5), 1e-5)
    data = theirs(PENDULUM) + 0.02 * rng.standard_normal(len(TIMES))
    fit = lambda data: optimize.least_squares(
        lambda p: angles(p) - data, np.array([0.1, 1.8, 1.0]), xtol=1e-12
    )
    expected = scipy.optimize.least_squares(lambda p: theirs(p) - data, [0.1, 1.8, 1.0], xtol=1e-12).x
    close(fit(data).x, expected, 1e-5)
    assert np.all(np.abs(expected - PENDULUM) < 0.05)
    # how the estimates move with the data: to first order the pseudo-inverse of the Jacobian
    jacobian = differences(theirs, PENDULUM, 1e-5)
    exact = fg.jacrev(lambda d: fit(d).x)(theirs(PENDULUM))
    close(exact, np.linalg.pinv(jacobian), 1e-4)


def prey_and_predators(t, y, p):
    prey, predators = y
    return [p[0] * prey - p[1] * prey * predators, p[2] * prey * predators - p[3] * predators]


@pytest.mark.parametrize("start", [[0.8, 0.3, 0.2, 0.5], [1.3, 0.5, 0.15, 0.3]])
def test_exact_jacobians_fit_predators_and_prey_with_fewer_evaluations(start, monkeypatch):
    times, y0, options = np.linspace(0.0, 10.0, 21), [2.0, 1.0], {"rtol": 1e-8, "atol": 1e-8}
    truth = np.array([1.1, 0.4, 0.1, 0.4])
    theirs = lambda p: scipy.integrate.solve_ivp(
        prey_and_predators, (0.0, 10.0), y0, t_eval=times, args=(p,), **options
    )
    data = theirs(truth).y * (1 + 0.03 * np.sin(np.arange(42.0)).reshape(2, 21))
    steps = []
    integrated = scipy.integrate.solve_ivp

    def counted(*args, **kwargs):
        result = integrated(*args, **kwargs)
        steps.append(result.nfev)
        return result

    monkeypatch.setattr(scipy.integrate, "solve_ivp", counted)
    calls = []

    def residuals(p):
        calls.append(1)
        y = integrate.solve_ivp(prey_and_predators, (0.0, 10.0), y0, t_eval=times, args=(p,), **options).y
        return np.log(y) - np.log(data)

    mine = optimize.least_squares(residuals, np.array(start))
    exact = len(calls), len(steps), sum(steps)
    calls.clear()
    steps.clear()

    def plain(p):
        calls.append(1)
        return (np.log(theirs(p).y) - np.log(data)).ravel()

    reference = scipy.optimize.least_squares(plain, np.array(start))
    close(mine.x, reference.x, 1e-5)
    assert exact[0] == mine.nfev + mine.njev
    for counted_here, by_differences in zip(exact, (len(calls), len(steps), sum(steps)), strict=True):
        assert counted_here < 0.75 * by_differences
