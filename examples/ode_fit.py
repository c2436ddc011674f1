"""An epidemic: rates of infection and recovery, fitted to noisy counts through a differential equation."""

import numpy as np

import fgrad as fg
from fgrad.scipy.integrate import solve_ivp
from fgrad.scipy.optimize import least_squares

DAYS = np.linspace(0.0, 60.0, 25)


def rates(t, y, p):
    """Return how fast the susceptible, infected and recovered parts of a population change."""
    susceptible, infected, _ = y
    new, gone = p["infection"] * susceptible * infected, p["recovery"] * infected
    return [-new, new - gone, gone]


def infected(p):
    """Return the infected part of the population on each day."""
    start = np.stack([1 - p["first"], p["first"], 0.0])
    return solve_ivp(rates, (0.0, 60.0), start, t_eval=DAYS, args=(p,), rtol=1e-8, atol=1e-10).y[1]


def main():
    """Return the fitted parameters and their standard errors."""
    truth = {"infection": 0.4, "recovery": 0.1, "first": 0.01}
    rng = np.random.default_rng(0)
    data = infected(truth) + 0.005 * rng.normal(size=DAYS.size)
    guess = {"infection": 0.8, "recovery": 0.3, "first": 0.02}
    fit = least_squares(lambda p: infected(p) - data, guess, bounds=(0.0, 1.0))
    p = fit.x

    jacobian = fg.jacfwd(infected)(p)  # a column for each parameter
    names = sorted(jacobian)
    columns = np.stack([jacobian[name] for name in names], axis=1)
    variance = np.sum((infected(p) - data) ** 2) / (DAYS.size - 3)
    errors = dict(
        zip(names, np.sqrt(np.diagonal(np.linalg.inv(columns.T @ columns)) * variance), strict=True)
    )
    for name in names:
        print(f"{name:10} {float(p[name]):.4f} +- {float(errors[name]):.4f}  (true {truth[name]})")
    return truth, p, errors


if __name__ == "__main__":
    main()
