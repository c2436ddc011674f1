"""n bodies: a probe leaves the Earth so that it meets Mars; the gradient goes through the flight."""

import numpy as np

import fgrad as fg
from fgrad import lax
from fgrad.scipy.optimize import least_squares

MASSES = np.array([1.0, 3e-6, 3.2e-7, 1e-3])  # Sun, Earth, Mars, Jupiter; units: AU, year / 2 pi
DISTANCES = np.array([0.0, 1.0, 1.524, 5.2])
ANGLES = np.array([0.0, 0.0, 0.78, 2.0])


def planets():
    """Return positions and velocities on circles around the Sun."""
    directions = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
    speeds = np.concatenate([[0.0], DISTANCES[1:] ** -0.5])
    return DISTANCES[:, None] * directions, speeds[:, None] * directions[:, ::-1] * [-1.0, 1.0]


def accelerations(x, masses):
    """Return what all masses do to each position."""
    d = x[None, :] - x[:, None]
    square = np.sum(d**2, axis=-1) + np.eye(len(x)) + 1e-6
    return np.sum(np.where(np.eye(len(x), dtype=bool), 0.0, masses / square**1.5)[..., None] * d, axis=1)


def flight(velocity, time=4.4, steps=800):
    """Return the way of all bodies, of which the last one is a probe without mass."""
    x, v = planets()
    x = np.concatenate([x, x[1:2] * 1.01])
    v = np.concatenate([v, v[1:2] + velocity])
    masses, h = np.append(MASSES, 0.0), time / steps

    def step(state, _):
        x, v = state
        v = v + h / 2 * accelerations(x, masses)
        x = x + h * v
        v = v + h / 2 * accelerations(x, masses)
        return (x, v), x

    (x, v), way = lax.scan(step, (x, v), None, length=steps)
    return x, v, way


@fg.jit
def miss(velocity):
    """Return how far the probe is from Mars at the end."""
    x, _, _ = flight(velocity)
    return x[4] - x[2]


def energy(x, v):
    """Return the energy of the bodies that have a mass."""
    x, v = x[:4], v[:4]
    d = np.sqrt(np.sum((x[None] - x[:, None]) ** 2, axis=-1) + 1e-6)
    return np.sum(MASSES * np.sum(v**2, axis=1)) / 2 - np.sum(np.triu(np.outer(MASSES, MASSES) / d, 1))


def main():
    """Return how far the probe misses before and after, and the relative change of the energy."""
    start = np.array([0.0, 0.1])
    found = least_squares(miss, start, xtol=1e-12)
    before, after = np.linalg.norm(miss(start)), np.linalg.norm(miss(found.x))
    x, v, _ = flight(found.x)
    drift = abs(energy(x, v) / energy(*planets()) - 1)
    print(f"extra velocity {found.x.round(4)}: misses Mars by {before:.3f}, then by {after:.1e} AU")
    print(f"energy changed by {drift:.1e}, {found.nfev} flights")
    return before, after, drift


if __name__ == "__main__":
    main()
