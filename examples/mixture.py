"""A mixture of Gaussians, fitted by Newton's method with conjugate gradients: Hessians times vectors."""

import numpy as np

import fgrad as fg
from fgrad import nn
from fgrad.scipy.optimize import minimize
from fgrad.scipy.stats import norm


def log_density(p, x):
    """Return the log-density of a mixture at each point."""
    parts = norm.logpdf(x[:, None], p["mean"], np.exp(p["log_scale"])) + nn.log_softmax(p["logit"])
    return nn.logsumexp(parts, axis=1)


def responsibilities(p, x):
    """Return the probability of each part for each point: the gradient of log-densities by the logits."""
    parts = norm.logpdf(x[:, None], p["mean"], np.exp(p["log_scale"])) + nn.log_softmax(p["logit"])
    return nn.softmax(parts, axis=1)


def main():
    """Return true and fitted parts, sorted by their means, and the fraction of points assigned right."""
    rng = np.random.default_rng(0)
    weights, means, scales = np.array([0.3, 0.5, 0.2]), np.array([-3.0, 0.0, 4.0]), np.array([0.7, 0.5, 1.0])
    which = rng.choice(3, size=3000, p=weights)
    x = rng.normal(means[which], scales[which])
    guess = {"mean": np.array([-1.0, 0.5, 2.0]), "log_scale": np.zeros(3), "logit": np.zeros(3)}
    found = minimize(fg.jit(lambda p: -np.mean(log_density(p, x))), guess, method="Newton-CG")
    p = found.x
    order = np.argsort(p["mean"])
    fitted = {
        "weight": nn.softmax(p["logit"])[order],
        "mean": p["mean"][order],
        "scale": np.exp(p["log_scale"])[order],
    }
    for name, values in fitted.items():
        print(f"{name:7} {values.round(3)}")
    right = np.mean(responsibilities(p, x)[:, order].argmax(axis=1) == which)
    print(f"assigned right: {right:.3f}; {found.nit} steps")
    return {"weight": weights, "mean": means, "scale": scales}, fitted, right


if __name__ == "__main__":
    main()
