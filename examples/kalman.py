"""A Kalman smoother: a track is smoothed, and the gradient of the likelihood finds how noisy it is."""

import numpy as np

import fgrad as fg
from fgrad import lax
from fgrad.scipy.optimize import minimize

MOVE = np.array([[1.0, 0.1], [0.0, 1.0]])  # position and velocity, a tenth of a second later
SEEN = np.array([[1.0, 0.0]])


def noises(p):
    """Return the covariances of the jolts and of the errors."""
    jolt = np.array([[0.1**3 / 3, 0.1**2 / 2], [0.1**2 / 2, 0.1]])
    return np.exp(2 * p["log_jolt"]) * jolt, np.exp(2 * p["log_error"]) * np.eye(1)


def filtered(p, y):
    """Return the log-likelihood, and means and covariances before and after each observation."""
    jolt, error = noises(p)

    def step(state, y):
        mean, cov = MOVE @ state[0], MOVE @ state[1] @ MOVE.T + jolt
        residual, spread = y - SEEN @ mean, SEEN @ cov @ SEEN.T + error
        gain = np.linalg.solve(spread, SEEN @ cov).T
        new = mean + gain @ residual, cov - gain @ spread @ gain.T
        fit = residual @ np.linalg.solve(spread, residual)
        return new, (-(fit + np.linalg.slogdet(2 * np.pi * spread)[1]) / 2, (mean, cov), new)

    _, (terms, before, after) = lax.scan(step, (np.zeros(2), np.eye(2)), y)
    return terms.sum(), before, after


def smoothed(p, y):
    """Return means and covariances given all observations (Rauch, Tung & Striebel)."""
    _, before, after = filtered(p, y)

    def step(later, now):
        (mean, cov), (mean_before, cov_before) = now
        gain = np.linalg.solve(cov_before, MOVE @ cov).T
        new = mean + gain @ (later[0] - mean_before), cov + gain @ (later[1] - cov_before) @ gain.T
        return new, new

    last = after[0][-1], after[1][-1]
    now = (after[0][:-1], after[1][:-1]), (before[0][1:], before[1][1:])
    _, (means, covs) = lax.scan(step, last, now, reverse=True)
    return np.concatenate([means, last[0][None]]), np.concatenate([covs, last[1][None]])


def main():
    """Return the truth, the observations, smoothed means and covariances, and the fitted noise."""
    rng = np.random.default_rng(0)
    true = {"log_jolt": 0.0, "log_error": np.log(0.3)}
    low = np.linalg.cholesky(noises(true)[0])
    states = [np.zeros(2)]
    for _ in range(199):
        states.append(MOVE @ states[-1] + low @ rng.normal(size=2))
    truth = np.array(states)
    y = truth[:, :1] + 0.3 * rng.normal(size=(200, 1))
    found = minimize(fg.jit(lambda p: -filtered(p, y)[0]), {"log_jolt": -1.0, "log_error": 0.0})
    means, covs = fg.jit(smoothed)(found.x, y)
    noise = {name: float(np.exp(value)) for name, value in found.x.items()}
    print(f"jolts {noise['log_jolt']:.2f} (1.0), errors {noise['log_error']:.3f} (0.3)")
    print(
        f"error of the track {np.std(means[:, 0] - truth[:, 0]):.3f}, as seen {np.std(y - truth[:, :1]):.3f}"
    )
    return truth, y, means, covs, noise


if __name__ == "__main__":
    main()
