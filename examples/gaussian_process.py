"""A Gaussian process: L-BFGS finds the length, scale and noise of its kernel by the marginal likelihood."""

import numpy as np

import fgrad as fg
from fgrad.scipy.linalg import cho_solve, cholesky
from fgrad.scipy.optimize import minimize


def kernel(p, a, b):
    """Return the covariances of two sets of points."""
    distance = (a[:, None] - b[None, :]) / np.exp(p["log_length"])
    return np.exp(2 * p["log_scale"]) * np.exp(-(distance**2) / 2)


def factor(p, x):
    """Return the lower triangle whose square is the covariance of noisy values."""
    return cholesky(kernel(p, x, x) + np.exp(2 * p["log_noise"]) * np.eye(len(x)), lower=True)


def negative_log_likelihood(p, x, y):
    """Return -log N(y; 0, K)."""
    low = factor(p, x)
    fit = y @ cho_solve((low, True), y)
    return fit / 2 + np.sum(np.log(np.diagonal(low))) + len(x) * np.log(2 * np.pi) / 2


def predict(p, x, y, new):
    """Return means and standard deviations at new points."""
    low = (factor(p, x), True)
    cross = kernel(p, new, x)
    variance = np.exp(2 * p["log_scale"]) - np.sum(cross.T * cho_solve(low, cross.T), axis=0)
    return cross @ cho_solve(low, y), np.sqrt(variance)


def main():
    """Return the parameters, the largest error of the mean, and how often two deviations hold the truth."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 10.0, 80)
    y = np.sin(x) + 0.1 * rng.normal(size=80)
    start = {"log_length": 0.0, "log_scale": 0.0, "log_noise": -1.0}
    found = minimize(fg.jit(lambda p: negative_log_likelihood(p, x, y)), start, method="L-BFGS-B")
    p = found.x
    for name, value in p.items():
        print(f"{name.removeprefix('log_'):7} {np.exp(value):.3f}")
    new = np.linspace(0.5, 9.5, 50)
    mean, deviation = predict(p, x, y, new)
    error = np.abs(mean - np.sin(new))
    print(f"largest error {error.max():.3f}, negative log-likelihood {found.fun:.2f}")
    return p, error.max(), np.mean(error < 2 * deviation)


if __name__ == "__main__":
    main()
