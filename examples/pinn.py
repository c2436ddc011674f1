"""A physics-informed network: it solves u'' = -pi^2 sin(pi x), u(-1) = u(1) = 0, without a grid."""

import numpy as np

import fgrad as fg
from fgrad import optim
from fgrad.scipy.optimize import minimize


def start(rng, width=24):
    """Return random parameters of a network with two hidden layers."""
    sizes = [(1, width), (width, width), (width, 1)]
    return [{"w": rng.normal(size=s) / s[0] ** 0.5, "b": 0.1 * rng.normal(size=s[1])} for s in sizes]


def solution(p, x):
    """Return u at one point; the factor keeps it zero at both ends."""
    h = x.reshape(1)
    for layer in p[:-1]:
        h = np.tanh(h @ layer["w"] + layer["b"])
    return (1 - x**2) * (h @ p[-1]["w"] + p[-1]["b"])[0]


def residual(p, x):
    """Return u'' + pi^2 sin(pi x) at one point."""
    second = fg.grad(fg.grad(solution, argnums=1), argnums=1)
    return second(p, x) + np.pi**2 * np.sin(np.pi * x)


def loss(p, points):
    """Return the mean of squares of the residual."""
    return np.mean(fg.vmap(residual, in_axes=(None, 0))(p, points) ** 2)


def main(steps=400):
    """Return the largest error of the solution."""
    points = np.linspace(-1.0, 1.0, 41)
    p = start(np.random.default_rng(0))
    optimizer = optim.adam(3e-3)
    state = optimizer.init(p)

    @fg.jit
    def step(p, state):
        value, grads = fg.value_and_grad(loss)(p, points)
        updates, state = optimizer.update(grads, state)
        return value, optim.apply_updates(p, updates), state

    for _ in range(steps):
        value, p, state = step(p, state)
    print(f"loss {value:.2e} after Adam")
    found = minimize(fg.jit(lambda p: loss(p, points)), p, method="L-BFGS-B", options={"maxiter": 200})
    new = np.linspace(-1.0, 1.0, 201)
    error = np.abs(fg.vmap(solution, in_axes=(None, 0))(found.x, new) - np.sin(np.pi * new)).max()
    print(f"loss {found.fun:.2e} after L-BFGS, largest error {error:.1e}")
    return error


if __name__ == "__main__":
    main()
