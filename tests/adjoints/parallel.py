"""Kernels with `prange`, in a process of their own: what they give, and their gradients, as text.

Threads of Numba do not survive a fork, which other tests need.
"""

import hashlib
import sys

import numba
import numpy as np
from numba import njit, prange

import fgrad


@njit(parallel=True)
def energy(x):
    total = 0.0
    for i in prange(len(x)):
        near = 0.0
        for j in range(len(x)):
            if i != j:
                near += 1.0 / (0.1 + (x[i] - x[j]) ** 2)
        total += near * x[i]
    return total


@njit(parallel=True)
def smoothed(x, out):
    for i in prange(1, len(x) - 1):
        out[i] = x[i - 1] * x[i] * x[i + 1] + out[i] ** 2


@njit(parallel=True)
def row_by_row(a, x, out):
    for i in prange(a.shape[0]):
        total = 0.0
        for j in range(a.shape[1]):
            total += a[i, j] * x[j]
        for j in range(a.shape[1]):
            a[i, j] = total * a[i, j]
        out[i] = total if total > 0 else 2.0 * total


def main():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=40), rng.normal(size=40)
    a = rng.normal(size=(40, 40))

    def through(kernel, *args):
        held = [fgrad.tensor(v) for v in args]
        result = kernel(*held)
        return (held[-1] * y).sum() + (0.0 if result is None else result)

    losses = [
        (fgrad.differentiate(energy), (x,)),
        (lambda x, out: through(fgrad.differentiate(smoothed), x, out), (x, y)),
        (lambda a, x, out: through(fgrad.differentiate(row_by_row), a, x, out), (a, x, y)),
    ]
    for threads in (1, 2, 2):
        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
        digest = hashlib.sha256()
        for loss, args in losses:
            found = fgrad.grad(loss, argnums=tuple(range(len(args))))(*args)
            for g, v in zip(found, args, strict=True):
                digest.update(g.tobytes())
                place = (3,) * v.ndim
                step = np.zeros_like(v)
                step[place] = 1e-6
                moved = [[w + s * step if w is v else w for w in args] for s in (1, -1)]
                slope = (float(loss(*moved[0])) - float(loss(*moved[1]))) / 2e-6
                assert abs(slope - g[place]) < 1e-5 * max(1.0, abs(slope)), (slope, g[place])
        value = float(fgrad.value_and_grad(losses[0][0])(x)[0])
        assert value == energy(x), "the kernel itself has run"
        print(digest.hexdigest())  # noqa: T201 -- to the test that runs this


if __name__ == "__main__":
    sys.exit(main())
