"""Optimal control: a cart swings a pole up; the gradient through its motion finds the forces."""

import numpy as np

import fgrad as fg
from fgrad import lax
from fgrad.scipy.optimize import minimize

STEP, COUNT = 0.05, 60


def change(state, force):
    """Return how fast the cart's place and speed, and the pole's angle (0: down) and its speed, change."""
    _, speed, angle, turn = state
    sin, cos = np.sin(angle), np.cos(angle)
    push = (force + 0.3 * sin * (turn**2 + 9.81 * cos)) / (1.0 + 0.3 * sin**2)
    spin = -(force * cos + 0.3 * turn**2 * cos * sin + 1.3 * 9.81 * sin) / (1.0 + 0.3 * sin**2)
    return np.stack([speed, push, turn, spin])


def ride(forces):
    """Return the states after each step of Runge and Kutta."""

    def step(state, force):
        a = change(state, force)
        b = change(state + STEP / 2 * a, force)
        c = change(state + STEP / 2 * b, force)
        d = change(state + STEP * c, force)
        state = state + STEP / 6 * (a + 2 * b + 2 * c + d)
        return state, state

    return lax.scan(step, np.zeros(4), forces)[1]


def cost(forces):
    """Return what a ride costs: the effort, and how far its end is from upright in the middle."""
    states = ride(forces)
    end = states[-1] - np.array([0.0, 0.0, np.pi, 0.0])
    return 1e-3 * np.sum(forces**2) * STEP + 300 * np.sum(end**2) + 0.1 * STEP * np.sum(states[:, 0] ** 2)


def main():
    """Return the final state and the forces."""
    start = 0.5 * np.sin(np.arange(COUNT) * STEP * 3.0)
    found = minimize(
        fg.jit(cost), start, method="L-BFGS-B", bounds=[(-15.0, 15.0)] * COUNT, options={"maxiter": 300}
    )
    end = ride(found.x)[-1]
    print(f"cost {cost(start):.1f}, then {found.fun:.4f} after {found.nit} steps")
    print(f"angle {end[2]:.4f} (pi upright), turning at {end[3]:.4f}, place {end[0]:.4f}")
    print(f"greatest force {np.abs(found.x).max():.1f} N")
    return end, found.x


if __name__ == "__main__":
    main()
