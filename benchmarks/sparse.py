"""Sparse Jacobians and Hessians of problems of science: `python -m benchmarks.sparse [case ...]`.

Each line says how many evaluations of the function, compiled too, the derivative takes after its first call,
how long pattern and colouring took, and what there is to compare with: for the Brusselator `jax.jacfwd` in
blocks of columns, for bundle adjustment blocks written by hand, and SciPy's solver with differences.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize
from scipy import sparse as scipy_sparse
from scipy.sparse.linalg import norm

import fgrad as fg
from fgrad import sparse

RNG = np.random.default_rng(0)


def best(run: Callable[[], Any], seconds: float = 1.0) -> float:
    """Return the least time of many runs, in seconds."""
    run()
    least, end = np.inf, time.perf_counter() + seconds
    while time.perf_counter() < end or least == np.inf:
        start = time.perf_counter()
        run()
        least = min(least, time.perf_counter() - start)
    return least


def in_turns(*runs: Callable[[], Any], seconds: float = 2.0) -> list[float]:
    """Return the least time of each of some functions that run one after the other, in seconds."""
    least, end = [np.inf] * len(runs), time.perf_counter() + seconds
    while time.perf_counter() < end:
        for k, run in enumerate(runs):
            run()
            start = time.perf_counter()
            run()
            least[k] = min(least[k], time.perf_counter() - start)
    return least


# ---- functions


def laplacian(u, xp=np):
    return xp.roll(u, 1, 0) + xp.roll(u, -1, 0) + xp.roll(u, 1, 1) + xp.roll(u, -1, 1) - 4 * u


def brusselator(n: int, xp=np) -> Callable[[Any], Any]:
    """Return the reaction and diffusion on n x n points that repeat: 2 n**2 numbers."""

    def f(y):
        u, v = y.reshape(2, n, n)
        reaction = u * u * v
        du = 1.0 + reaction - 4.4 * u + 0.1 * (n - 1) ** 2 * laplacian(u, xp)
        dv = 3.4 * u - reaction + 0.1 * (n - 1) ** 2 * laplacian(v, xp)
        return xp.stack([du, dv]).reshape(-1)

    return f


def bratu(n: int) -> Callable[[Any], Any]:
    """Return the residual of -laplacian u = 6 exp(u) on the inner points of a square, zero at its edge."""

    def f(x):
        u = np.pad(x.reshape(n, n), 1)
        inner = u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return ((4 * inner - around) * (n + 1) ** 2 - 6 * np.exp(inner)).reshape(-1)

    return f


def rotated(points, turns):
    """Return points turned about axes by the lengths of these, after Rodrigues."""
    angle = np.sqrt(np.sum(turns * turns, axis=-1, keepdims=True))
    axis = turns / angle
    along = np.sum(axis * points, axis=-1, keepdims=True)
    across = np.stack(
        [
            axis[..., 1] * points[..., 2] - axis[..., 2] * points[..., 1],
            axis[..., 2] * points[..., 0] - axis[..., 0] * points[..., 2],
            axis[..., 0] * points[..., 1] - axis[..., 1] * points[..., 0],
        ],
        axis=-1,
    )
    cosine = np.cos(angle)
    return cosine * points + np.sin(angle) * across + along * (1 - cosine) * axis


def projected(camera, point):
    """Return where cameras (a turn, a shift, focal length, two distortions) see points."""
    seen = rotated(point, camera[..., :3]) + camera[..., 3:6]
    flat = -seen[..., :2] / seen[..., 2:]
    r2 = np.sum(flat * flat, axis=-1, keepdims=True)
    return flat * (1 + camera[..., 7:8] * r2 + camera[..., 8:] * r2 * r2) * camera[..., 6:7]


class Bundle:
    """Cameras that look at points: residuals of all parameters, in a row."""

    def __init__(self, cameras: int = 49, points: int = 7776, observations: int = 31843) -> None:
        self.cameras, self.points = cameras, points
        self.camera = RNG.integers(0, cameras, observations)
        self.point = np.sort(RNG.integers(0, points, observations))
        self.point[:points] = np.arange(points)
        turns = RNG.normal(0, 0.05, (cameras, 3))
        shifts = np.column_stack([RNG.normal(0, 0.3, (cameras, 2)), RNG.normal(-6, 0.3, cameras)])
        inner = np.column_stack([RNG.normal(500, 5, cameras), RNG.normal(0, 1e-3, (cameras, 2))])
        self.true = np.concatenate(
            [np.column_stack([turns, shifts, inner]).ravel(), RNG.normal(0, 1, points * 3)]
        )
        self.seen = np.zeros((observations, 2))
        self.seen = self.residuals(self.true).reshape(-1, 2) + RNG.normal(0, 0.5, (observations, 2))
        self.start = self.true + RNG.normal(0, 1e-3, self.true.size)

    def parts(self, x):
        cut = 9 * self.cameras
        return x[:cut].reshape(-1, 9), x[cut:].reshape(-1, 3)

    def residuals(self, x):
        cameras, points = self.parts(x)
        return (projected(cameras[self.camera], points[self.point]) - self.seen).reshape(-1)

    def pattern(self):
        """Return the pattern as one writes it down by hand."""
        rows = np.arange(2 * self.camera.size)
        own = np.column_stack(
            [
                9 * self.camera[:, None] + np.arange(9),
                9 * self.cameras + 3 * self.point[:, None] + np.arange(3),
            ]
        )
        made = scipy_sparse.coo_array(
            (np.ones(12 * rows.size), (np.repeat(rows, 12), np.repeat(own, 2, axis=0).ravel())),
            shape=(rows.size, self.true.size),
        )
        return made.tocsr()

    def by_hand(self) -> Callable[[Any], Any]:
        """Return the function that computes 2 x 12 blocks by `vmap`, one for each observation."""

        def block(camera, point):
            return fg.jacfwd(lambda z: projected(z[:9], z[9:]))(np.concatenate([camera, point]))

        def blocks(x):
            cameras, points = self.parts(x)
            return fg.vmap(block)(cameras[self.camera], points[self.point])

        return fg.jit(blocks)


def rosenbrock(x):
    """Return the chain of valleys."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def collocation(intervals: int = 500) -> Callable[[Any], Any]:
    """Return the defects of a pendulum on a cart, by trapezoids: 4 states and a force at each point."""

    def f(z):
        z = z.reshape(intervals + 1, 5)
        q, angle, speed, turning, force = (z[:, k] for k in range(5))
        sine, cosine = np.sin(angle), np.cos(angle)
        below = 1.0 + 0.3 * sine * sine
        pushed = (force + 0.3 * sine * (0.5 * turning**2 + 9.81 * cosine)) / below
        turned = (-force * cosine - 0.15 * turning**2 * cosine * sine - 1.3 * 9.81 * sine) / (0.5 * below)
        states = np.stack([q, angle, speed, turning])
        slopes = np.stack([speed, turning, pushed, turned])
        step = 2.0 / intervals
        return (states[:, 1:] - states[:, :-1] - step / 2 * (slopes[:, 1:] + slopes[:, :-1])).reshape(-1)

    return f


class Grid:
    """A network of nodes with voltages and angles, about two lines from each to others near by."""

    def __init__(self, nodes: int = 10_000) -> None:
        start = np.concatenate([np.arange(1, nodes), RNG.integers(50, nodes, nodes // 2)])
        stop = np.concatenate([np.arange(nodes - 1), start[nodes - 1 :] - RNG.integers(2, 50, nodes // 2)])
        self.a, self.b = np.concatenate([start, stop]), np.concatenate([stop, start])
        self.g, self.s = np.tile(RNG.uniform(0.5, 2, (2, start.size)), 2)
        self.nodes = nodes

    def mismatch(self, x):
        """Return real and reactive power that flow out of each node."""
        v, angle = x[: self.nodes], x[self.nodes :]
        turn = angle[self.a] - angle[self.b]
        both = v[self.a] * v[self.b]
        real = both * (self.g * np.cos(turn) + self.s * np.sin(turn))
        reactive = both * (self.g * np.sin(turn) - self.s * np.cos(turn))
        found = np.zeros(2 * self.nodes) + 0.0 * x
        np.add.at(found, self.a, real)
        np.add.at(found, self.a + self.nodes, reactive)
        return found


# ---- cases


def line(name: str, f: Any, derivative: Any, x: Any) -> tuple[float, float]:
    """Print and return the seconds of the function and of its derivative."""
    compiled = fg.jit(f)
    start = time.perf_counter()
    pattern = derivative.pattern(x)
    prepared = time.perf_counter() - start
    data = derivative(x).data
    one, many, filled = in_turns(lambda: compiled(x), lambda: derivative(x), lambda: derivative.fill(data, x))
    print(
        f"{name:<26}{x.size:>8} inputs {pattern.nnz:>9} entries {derivative.colours:>4} colours, found in "
        f"{prepared:6.2f} s; {many * 1e3:8.2f} ms: {many / one:6.1f} evaluations, {filled / one:6.1f} where "
        f"there is a matrix already"
    )
    return one, many


def by_jax(n: int, x: Any, columns: int = 256) -> float:
    """Return the seconds that `jax.jacfwd` takes for all columns, from those of one block of them."""
    import jax  # noqa: PLC0415 -- a peer, where it is installed

    jax.config.update("jax_enable_x64", True)
    f = brusselator(n, jax.numpy)
    seeds = jax.numpy.eye(columns, x.size)
    block = jax.jit(lambda x, seeds: jax.vmap(lambda s: jax.jvp(f, (x,), (s,))[1])(seeds))
    return best(lambda: block(x, seeds).block_until_ready(), 3.0) * x.size / columns


def run_brusselator() -> None:
    for n in (32, 128, 256):
        x = RNG.uniform(0, 2, 2 * n * n)
        _, many = line(f"Brusselator {n} x {n}", brusselator(n), sparse.jacobian(brusselator(n)), x)
        if n == 128:
            try:
                print(f"    {many / by_jax(n, x):.6f} x jax.jacfwd in blocks of 256 columns")
            except ImportError:
                print("    JAX is not installed")


def run_bratu() -> None:
    for n in (32, 128, 256):
        line(f"Bratu {n} x {n}", bratu(n), sparse.jacobian(bratu(n)), RNG.uniform(0, 1, n * n))


def run_bundle() -> None:
    bundle = Bundle()
    jac, blocks = sparse.jacobian(bundle.residuals), bundle.by_hand()
    line("bundle adjustment", bundle.residuals, jac, bundle.start)
    found = jac(bundle.start)
    hand = np.asarray(blocks(bundle.start))
    np.testing.assert_allclose(np.sort(found.data), np.sort(hand.ravel()), rtol=1e-9, atol=1e-9)
    data = found.data
    by_hand, values, many, filled = in_turns(
        lambda: blocks(bundle.start),
        lambda: jac.values(bundle.start),
        lambda: jac(bundle.start),
        lambda: jac.fill(data, bundle.start),
    )
    print(
        f"    values {values / by_hand:.2f} x blocks by hand, into a matrix that there is "
        f"{filled / by_hand:.2f} x, in a new one {many / by_hand:.2f} x"
    )


def timed(run: Callable[[], Any]) -> tuple[Any, Any]:
    """Return what a function returns, and the seconds it takes, of the clock and of processors."""
    start = np.array([time.perf_counter(), time.process_time()])
    found = run()
    return found, np.array([time.perf_counter(), time.process_time()]) - start


def run_solve() -> None:
    bundle = Bundle()
    options = {"ftol": 1e-6, "method": "trf", "tr_solver": "lsmr"}
    residuals, jac = fg.jit(bundle.residuals), sparse.jacobian(bundle.residuals)
    operators = [sparse.jacobian(bundle.residuals, format="operator") for _ in range(2)]
    one, many = best(lambda: residuals(bundle.start)), best(lambda: jac(bundle.start))
    found, _ = (timed(lambda made=made: made(bundle.start))[1][0] for made in operators)

    def with_operator():
        scale = 1 / norm(operators[0](bundle.start).matrix, axis=0)
        return optimize.least_squares(residuals, bundle.start, jac=operators[0], x_scale=scale, **options)

    def by(function, **given):
        return lambda: optimize.least_squares(function, bundle.start, x_scale="jac", **given, **options)

    cases = {
        "differences": by(bundle.residuals, jac_sparsity=bundle.pattern()),
        "sparse.jacobian": by(residuals, jac=jac),
        "its operator": with_operator,
        "sparse.least_squares": lambda: sparse.least_squares(
            residuals, bundle.start, jac=operators[1], ftol=options["ftol"]
        ),
    }
    others = np.ones(2)
    for name, run in cases.items():
        fit, seconds = timed(run)
        others = seconds if name == "differences" else others
        (wall, cores), (wall_ratio, cores_ratio) = seconds, seconds / others
        print(
            f"least_squares, {name:<21}{wall:6.2f} s, {cores:6.2f} s of processors to cost {fit.cost:.7g} in "
            f"{fit.nfev} steps: {wall_ratio:.3f} x, {cores_ratio:.3f} x"
        )
    print(
        f"    one evaluation takes {one * 1e3:.1f} ms, one Jacobian {many * 1e3:.1f} ms; the first one, "
        f"which is not counted above, {found:.1f} s"
    )
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        print("    norms of LSMR wait for threads of BLAS: compare with BENCHMARK_THREADS=1")


def run_control() -> None:
    line("collocation, 500", collocation(), sparse.jacobian(collocation()), RNG.uniform(-1, 1, 5 * 501))


def run_chain() -> None:
    line("Rosenbrock chain, Hessian", rosenbrock, sparse.hessian(rosenbrock), RNG.uniform(-1, 1, 100_000))


def run_power() -> None:
    grid = Grid()
    x = np.concatenate([RNG.uniform(0.9, 1.1, grid.nodes), RNG.uniform(-0.3, 0.3, grid.nodes)])
    line("power flow, 10,000", grid.mismatch, sparse.jacobian(grid.mismatch), x)


COLOURS = ("#4063d8", "#cb3c33", "#389826", "#9558b2", "#e0a030", "#17a2b8", "#666666")


def draw(path: str = "docs/pictures/sparse.svg", n: int = 6) -> None:
    """Draw the pattern of a small Jacobian, and its entries in the colours of their columns."""
    jac = sparse.jacobian(bratu(n), mode="forward")
    x, size, cell = np.zeros(n * n), n * n, 7
    rows, columns = jac.pattern(x).nonzero()
    colour = jac.colouring(x).columns
    width = size * cell
    parts = []
    for left, fills in ((1, ["#888888"] * rows.size), (width + 40, [COLOURS[c] for c in colour[columns]])):
        parts.append(
            f'<rect x="{left}" y="1" width="{width}" height="{width}" fill="white" stroke="#888888"/>'
        )
        for i, j, fill in zip(rows, columns, fills, strict=True):
            at = f'x="{left + j * cell}" y="{1 + i * cell}" width="{cell}" height="{cell}"'
            parts.append(f'<rect {at} fill="{fill}"/>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * width + 41} {width + 2}">'
    Path(path).write_text("\n".join([head, *parts, "</svg>", ""]))


CASES = {
    "picture": draw,
    "brusselator": run_brusselator,
    "bratu": run_bratu,
    "bundle": run_bundle,
    "control": run_control,
    "chain": run_chain,
    "power": run_power,
    "solve": run_solve,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or list(CASES)[1:]:
        CASES[name]()
