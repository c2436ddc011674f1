"""Value and gradient of users' kernels over the time of the kernel itself, in one thread.

Both as Python calls them, and value and gradient compiled as one program as well.

python -m benchmarks.kernels [NAME ...]
python -m benchmarks.kernels --compile [NAME ...]    # first calls, in fresh processes with nothing on disk
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit, vectorize

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
def accelerate(q, m, a):
    for i in range(3):
        ax, ay = 0.0, 0.0
        for j in range(3):
            if i != j:
                dx, dy = q[j, 0] - q[i, 0], q[j, 1] - q[i, 1]
                r2 = dx * dx + dy * dy
                w = m[j] / (r2 * np.sqrt(r2))
                ax += w * dx
                ay += w * dy
        a[i, 0], a[i, 1] = ax, ay


@njit
def three_body(q, v, m, h, steps):
    k1, k2, k3, k4 = np.empty((3, 2)), np.empty((3, 2)), np.empty((3, 2)), np.empty((3, 2))
    q2, q3, q4 = np.empty((3, 2)), np.empty((3, 2)), np.empty((3, 2))
    for _ in range(steps):
        accelerate(q, m, k1)
        for i in range(3):
            for d in range(2):
                q2[i, d] = q[i, d] + 0.5 * h * v[i, d]
        accelerate(q2, m, k2)
        for i in range(3):
            for d in range(2):
                q3[i, d] = q[i, d] + 0.5 * h * v[i, d] + 0.25 * h * h * k1[i, d]
        accelerate(q3, m, k3)
        for i in range(3):
            for d in range(2):
                q4[i, d] = q[i, d] + h * v[i, d] + 0.5 * h * h * k2[i, d]
        accelerate(q4, m, k4)
        for i in range(3):
            for d in range(2):
                q[i, d] += h * v[i, d] + h * h / 6 * (k1[i, d] + k2[i, d] + k3[i, d])
                v[i, d] += h / 6 * (k1[i, d] + 2 * k2[i, d] + 2 * k3[i, d] + k4[i, d])


@vectorize
def horner(x):
    return 0.9 + x * (0.8 - x * (0.7 + x * (0.6 - x * (0.5 + x * (0.4 - x * (0.3 + 0.2 * x))))))


@njit
def horner_loop(c, x, out):
    for i in range(len(x)):
        total = 0.0
        for k in range(len(c) - 1, -1, -1):
            total = total * x[i] + c[k]
        out[i] = total


class Case(NamedTuple):
    """A kernel, what it is called with, and the most that value and gradient may take of its time."""

    kernel: Callable[..., Any]
    args: tuple[Any, ...]
    wrt: tuple[int, ...]
    written: tuple[int, ...] = ()
    budget: float = 4.0
    checkpoint: int | bool = False
    peers: str = ""


def cases():
    rng = np.random.default_rng(0)
    n = 10**6
    field = rng.normal(size=(512, 512)), rng.normal(size=(512, 512))
    bands = rng.uniform(0.1, 0.3, n), rng.uniform(1, 2, n), rng.uniform(0.1, 0.3, n), rng.normal(size=n)
    matrix = rng.normal(size=(300, 300)) + 30 * np.eye(300)
    angles = np.linspace(0, 2 * np.pi, 4)[:3]
    place = np.stack([np.cos(angles), np.sin(angles)], 1)
    bodies = place, 0.7 * np.stack([-place[:, 1], place[:, 0]], 1), np.array([1.0, 0.9, 1.1]), 1e-4, 10**5
    atoms = 1.2 * np.stack(np.meshgrid(*[np.arange(8.0)] * 3), -1).reshape(-1, 3)[:500]
    series = rng.normal(size=8), rng.normal(size=n), np.zeros(n)
    return {
        "Lennard-Jones, 500 atoms": Case(
            lennard_jones, (atoms + rng.uniform(-0.05, 0.05, atoms.shape),), (0,), budget=3.5, peers="atoms"
        ),
        "Gauss-Seidel 512 x 512, 50 sweeps": Case(gauss_seidel, (*field, 50), (0, 1), (0,)),
        "LU 300": Case(lu, (matrix,), (0,), (0,), peers="lu"),
        "Thomas 1e6": Case(thomas, (*bands, np.zeros(n)), (0, 1, 2, 3), (4,), peers="thomas"),
        "Horner ufunc 1e6": Case(horner, (series[1],), (0,), budget=2.5, peers="horner"),
        "Horner loop 1e6, 8 coefficients": Case(horner_loop, series, (0, 1), (2,)),
        "three bodies, RK4, 1e5 steps": Case(three_body, bodies, (0, 1, 2), (0, 1), 5.0, peers="bodies"),
        "the same, checkpoint=True": Case(three_body, bodies, (0, 1, 2), (0, 1), 5.0, checkpoint=True),
    }


def candidates(case):
    """Return the kernel, its value with gradient of the sum of its results, the same compiled, the operation.

    All but the last are functions of nothing.
    """
    function = fgrad.differentiate(case.kernel, checkpoint=case.checkpoint)
    written = case.written  # a compiled function compares the arrays of what it names, at every call

    def loss(*given):
        held = [fgrad.tensor(x) if i in written else x for i, x in enumerate(given)]
        result = function(*held)
        return sum(held[i].sum() for i in written) if written else result.sum()

    gradient = fgrad.value_and_grad(loss, argnums=case.wrt)
    integers = [i for i, x in enumerate(case.args) if isinstance(x, int)]
    compiled = fgrad.jit(gradient, static_argnums=tuple(integers))

    def plain():
        return case.kernel(*[x.copy() if i in case.written else x for i, x in enumerate(case.args)])

    return plain, lambda: gradient(*case.args), lambda: compiled(*case.args), function


def measured(runs, repeats=9):
    """Return the least seconds of wall and of processor time of each function, called in turns."""
    least = [[np.inf, np.inf] for _ in runs]
    for _ in range(repeats):
        for times, run in zip(least, runs, strict=True):
            wall, own = time.perf_counter(), time.process_time()
            run()
            own, wall = time.process_time() - own, time.perf_counter() - wall
            times[:] = min(times[0], wall), min(times[1], own)
    return least


def first_call(run):
    start = time.process_time()
    run()
    return time.process_time() - start


def small(case):
    """Return a case with short arrays and few steps, whose first calls take nothing but compilation."""

    def shorter(x):
        if isinstance(x, int):
            return min(x, 3)
        large = isinstance(x, np.ndarray) and x.size > 10**4
        return x[tuple([slice(20)] * x.ndim)].copy() if large else x

    return case._replace(args=tuple(map(shorter, case.args)))


def compile_times(name):
    """Print the processor time of the first calls of a kernel, and of its value with gradient."""

    @njit
    def squares(x, n):
        y = np.zeros(n)
        for i in range(n):
            y[i] = np.sqrt(x[i])
        return y.sum()

    fgrad.value_and_grad(fgrad.differentiate(squares))(np.ones(3), 3)  # Numba itself is there
    case = small(cases()[name])
    plain, both, *_ = candidates(case)
    own, first = first_call(plain), first_call(both)
    print(f"{name:34} {own:9.2f} {first:14.2f} {first / own:7.2f}", flush=True)


# ---- peers: value and gradient of the same programs, as one writes them there -----------------------------


def in_jax(name, args):
    """Return value and gradient, compiled by JAX; None where nobody would write the loop there."""
    import jax  # noqa: PLC0415 -- a peer, where it is installed
    import jax.numpy as jnp  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)

    def atoms(x):
        gap = x[:, None] - x[None]
        inverse = 1.0 / ((gap**2).sum(-1) + jnp.eye(len(x)))
        return 2.0 * jnp.sum((inverse**6 - inverse**3) * (1 - jnp.eye(len(x))))

    def lu_(a):
        rows = jnp.arange(len(a))

        def step(k, a):
            factor = jnp.where(rows > k, a[:, k] / a[k, k], 0.0)
            a = a - factor[:, None] * jnp.where(rows > k, a[k], 0.0)
            return a.at[:, k].set(jnp.where(rows > k, factor, a[:, k]))

        return jax.lax.fori_loop(0, len(a), step, a).sum()

    def thomas_(a, b, c, d, x):
        def down(before, row):
            a, b, c, d = row
            m = b - a * before[0]
            found = c / m, (d - a * before[1]) / m
            return found, found

        _, (upper, right) = jax.lax.scan(down, (0.0, 0.0), (a.at[0].set(0.0), b, c, d))

        def up(behind, row):
            found = row[1] - row[0] * behind
            return found, found

        return jax.lax.scan(up, 0.0, (upper, right), reverse=True)[1].sum()

    def accelerations(q, m):
        gap = q[None] - q[:, None]
        r2 = (gap**2).sum(-1) + jnp.eye(3)
        return ((m[None] * (1 - jnp.eye(3)) / (r2 * jnp.sqrt(r2)))[..., None] * gap).sum(1)

    def bodies(q, v, m, h, steps):
        def step(_, state):
            q, v = state
            k1 = accelerations(q, m)
            k2 = accelerations(q + 0.5 * h * v, m)
            k3 = accelerations(q + 0.5 * h * v + 0.25 * h * h * k1, m)
            k4 = accelerations(q + h * v + 0.5 * h * h * k2, m)
            return q + h * v + h * h / 6 * (k1 + k2 + k3), v + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

        q, v = jax.lax.fori_loop(0, steps, step, (q, v))
        return q.sum() + v.sum()

    programs = {
        "atoms": (atoms, 0),
        "lu": (lu_, 0),
        "thomas": (thomas_, (0, 1, 2, 3)),
        "horner": (lambda x: polynomial(x).sum(), 0),
        "bodies": (bodies, (0, 1, 2)),
    }
    if name not in programs:
        return None
    program, wrt = programs[name]
    static = (4,) if name == "bodies" else ()
    run = jax.jit(jax.value_and_grad(program, argnums=wrt), static_argnums=static)
    given = [x if i in static else jnp.asarray(x) for i, x in enumerate(args)]
    return lambda: jax.block_until_ready(run(*given))


def in_torch(name, args):
    """Return value and gradient by eager PyTorch; None where its loop takes minutes."""
    import torch  # noqa: PLC0415 -- a peer, where it is installed

    torch.set_num_threads(1)

    def atoms(x):
        gap = x[:, None] - x[None]
        one = torch.eye(len(x), dtype=x.dtype)
        inverse = 1.0 / ((gap**2).sum(-1) + one)
        return 2.0 * ((inverse**6 - inverse**3) * (1 - one)).sum()

    def lu_(a):
        rows = []
        for _ in range(len(a)):
            factor = a[1:, 0] / a[0, 0]
            rows.append(a[0].sum() + factor.sum())
            a = a[1:, 1:] - factor[:, None] * a[0, 1:]
        return torch.stack(rows).sum()

    programs = {"atoms": atoms, "lu": lu_, "horner": lambda x: polynomial(x).sum()}
    if name not in programs:
        return None

    def run():
        x = torch.tensor(args[0], requires_grad=True)
        value = programs[name](x)
        value.backward()
        return value, x.grad

    return run


def polynomial(x):
    return 0.9 + x * (0.8 - x * (0.7 + x * (0.6 - x * (0.5 + x * (0.4 - x * (0.3 + 0.2 * x))))))


def peer_times(case):
    """Return seconds of JAX and PyTorch, where they are installed and have the program."""
    found = []
    for module, make in (("jax", in_jax), ("torch", in_torch)):
        run = make(case.peers, case.args) if case.peers and importlib.util.find_spec(module) else None
        if run is not None:
            run()
        found.append(measured([run], 5)[0][0] if run is not None else None)
    return found


def main(names):
    if names[:1] == ["--compile"]:
        print(f"{'processor time of first calls, s':34} {'kernel':>9} {'with gradient':>14} {'ratio':>7}")
        chosen = [n for n in cases() if len(names) < 2 or any(m.lower() in n.lower() for m in names[1:])]
        for name in chosen:
            command = [sys.executable, "-m", "benchmarks.kernels", "--compile-one", name]
            subprocess.run(command, check=True, env={**os.environ, "FGRAD_CACHE_SIZE": "0"})  # noqa: S603
        return
    if names[:1] == ["--compile-one"]:
        compile_times(names[1])
        return
    print(f"{'processor time in ms':34} {'kernel':>8} {'gradient':>9} {'ratio':>6} {'compiled':>9}",
          f"{'ratio':>6} {'budget':>6} {'first calls, s':>14} {'JAX':>8} {'PyTorch':>8}",
          f"{'stack':>9}")  # fmt: skip
    ratios = []
    for name, case in cases().items():
        if names and not any(n.lower() in name.lower() for n in names):
            continue
        *runs, function = candidates(case)
        firsts = [first_call(run) for run in runs[:2]]
        runs[2]()
        own, called, compiled = [t for _, t in measured(runs)]
        ratios.append((called / own, compiled / own))
        peers = "".join(f" {1e3 * t:8.2f}" if t is not None else f" {'-':>8}" for t in peer_times(case))
        held = function.cost(*case.args).stack_bytes
        print(f"{name:34} {1e3 * own:8.2f} {1e3 * called:9.2f} {called / own:6.2f} {1e3 * compiled:9.2f} "
              f"{compiled / own:6.2f} {case.budget:6.1f} {firsts[0]:6.1f} {firsts[1]:7.1f}{peers} {held:9}",
              flush=True)  # fmt: skip
    means = np.exp(np.mean(np.log(ratios), 0))
    print(f"geometric means {means[0]:.2f} {means[1]:.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
