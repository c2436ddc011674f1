"""The programs to differentiate, and their inputs: the same for every library."""

from __future__ import annotations

import numpy as np

SIZE = 10
STEPS = 100  # of two operations each
BATCH, PIXELS, HIDDEN, CLASSES = 64, 784, 128, 10
SAMPLES, INPUTS, UNITS = 1000, 64, 32  # of the network whose gradients are asked for sample by sample


def chain(xp):
    """Return the chain of 200 small operations, written with the names of `xp`."""

    def total(x):
        y = x
        for _ in range(STEPS):
            y = xp.sin(y) * 1.01
        return y.sum()

    return total


def rosenbrock(x):
    """Return Rosenbrock's function: operators, slices and one sum."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def point():
    """Return where the chain and Rosenbrock's function are differentiated: 10 numbers, float64."""
    return np.linspace(0.1, 1.0, SIZE)


def network(batch=BATCH, inputs=PIXELS, hidden=HIDDEN):
    """Return w1, b1, w2, b2 of a network 784-128-10, and a batch of inputs with labels; float32."""
    rng = np.random.default_rng(0)
    params = [
        rng.normal(scale=inputs**-0.5, size=(inputs, hidden)),
        rng.normal(scale=0.1, size=hidden),
        rng.normal(scale=hidden**-0.5, size=(hidden, CLASSES)),
        rng.normal(scale=0.1, size=CLASSES),
    ]
    images = rng.random((batch, inputs))
    return [p.astype(np.float32) for p in params], images.astype(np.float32), rng.integers(0, CLASSES, batch)


def small_network():
    """Return the same of a network 64-32-10 and 1000 samples."""
    return network(SAMPLES, INPUTS, UNITS)
