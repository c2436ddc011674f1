"""Value and gradient of users' kernels over the time of the kernel itself, both compiled, one thread.

python benchmarks/kernels.py [NAME ...]
"""

from __future__ import annotations

import sys
import time

import numpy as np
from numba import njit

import fgrad


@njit
def energy_of(r2):
    inverse = 1.0 / r2
    sixth = inverse * inverse * inverse
    return 4.0 * (sixth * sixth - sixth)


@njit
def pair(x, i, j):
    a, b, c = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
    return energy_of(a * a + b * b + c * c)


@njit
def lennard_jones(x):
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(i + 1, x.shape[0]):
            total += pair(x, i, j)
    return total


@njit
def gauss_seidel(u, f, sweeps):
    for _ in range(sweeps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])


@njit
def lu(a):
    n = a.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]


@njit
def thomas(a, b, c, d, x):
    n = len(d)
    upper, right = np.empty(n), np.empty(n)
    upper[0], right[0] = c[0] / b[0], d[0] / b[0]
    for i in range(1, n):
        m = b[i] - a[i] * upper[i - 1]
        upper[i] = c[i] / m
        right[i] = (d[i] - a[i] * right[i - 1]) / m
    x[n - 1] = right[n - 1]
    for i in range(n - 2, -1, -1):
        x[i] = right[i] - upper[i] * x[i + 1]


@njit
def horner(c, x, out):
    for i in range(len(x)):
        total = 0.0
        for k in range(len(c) - 1, -1, -1):
            total = total * x[i] + c[k]
        out[i] = total


def cases():
    rng = np.random.default_rng(0)
    n = 10**6
    field = rng.normal(size=(512, 512)), rng.normal(size=(512, 512))
    bands = rng.uniform(0.1, 0.3, n), rng.uniform(1, 2, n), rng.uniform(0.1, 0.3, n), rng.normal(size=n)
    return {  # a kernel, its arguments, which are differentiated and which written to, and the budget
        "Lennard-Jones, 500 atoms": (lennard_jones, (rng.uniform(0, 20, (500, 3)),), (0,), None, 3.5),
        "Gauss-Seidel 512 x 512, 50 sweeps": (gauss_seidel, (*field, 50), (0, 1), 0, 4.0),
        "LU 300": (lu, (rng.normal(size=(300, 300)) + 30 * np.eye(300),), (0,), 0, 4.0),
        "Thomas 1e6": (thomas, (*bands, np.zeros(n)), (0, 1, 2, 3), 4, 4.0),
        "Horner 1e6, 8 coefficients": (
            horner,
            (rng.normal(size=8), rng.normal(size=n), np.zeros(n)),
            (0, 1),
            2,
            2.5,
        ),
    }


def best(f, repeats=7):
    times = []
    for _ in range(repeats):
        start = time.process_time()
        f()
        times.append(time.process_time() - start)
    return min(times)


def measured(kernel, args, wrt, written):
    function = fgrad.differentiate(kernel)

    def loss(*given):
        if written is None:
            return function(*given)
        held = [fgrad.tensor(x) if i == written else x for i, x in enumerate(given)]
        function(*held)
        return held[written].sum()

    gradient = fgrad.value_and_grad(loss, argnums=wrt)

    def plain():
        kernel(*[x.copy() if i == written else x for i, x in enumerate(args)])

    plain()
    start = time.perf_counter()
    gradient(*args)
    first = time.perf_counter() - start
    return best(plain), best(lambda: gradient(*args)), first


def main(names):
    print(f"{'kernel':36} {'ms':>8} {'with gradient':>14} {'ratio':>6} {'budget':>6} {'first call, s':>13}")
    ratios = []
    for name, (kernel, args, wrt, written, budget) in cases().items():
        if names and not any(n.lower() in name.lower() for n in names):
            continue
        own, both, first = measured(kernel, args, wrt, written)
        ratios.append(both / own)
        print(
            f"{name:36} {1e3 * own:8.2f} {1e3 * both:14.2f} {both / own:6.2f} {budget:6.1f} {first:13.1f}",
            flush=True,
        )
    print(f"geometric mean {np.exp(np.mean(np.log(ratios))):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
