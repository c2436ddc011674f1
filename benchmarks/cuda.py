"""Programs on a GPU beside JAX, PyTorch (eager and compiled) and CuPy: `python -m benchmarks.cuda`.

CuPy has no derivatives: what it is timed for is written by hand.

Times are medians of many calls, waited for together; large ones are set against two ceilings that are
measured first, with CuPy: the bytes that a copy moves, the operations of a large product of matrices. Values
are compared before anything is timed. Without a GPU it says so, and that is all.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from fgrad.demo.report import table

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the others need memory too
LARGE, EXAMPLES, CLASSES, BATCH, WIDTH = 100_000_000, 100_000, 1000, 8192, 4096
REPEATS, SECONDS = 7, 0.05


class Case(NamedTuple):
    """A program, its arguments, and what it has to do at least."""

    title: str
    make: Callable[[Any], Callable[..., Any]]  # a library -> a function of its arrays
    by_hand: Callable[[Any], Callable[..., Any]]  # NumPy's functions -> the same, with its derivative
    inputs: Callable[[], tuple[np.ndarray, ...]]
    bytes: int = 0  # each input read once, each output written once
    flops: int = 0
    share: float = 0.0  # of the ceiling that is asked for
    limits: tuple[tuple[str, float], ...] = ()  # fgrad's time over that of another


class Fgrad:
    """This library."""

    def __init__(self) -> None:
        import fgrad as fg

        self.fg, self.xp, self.softmax_loss = fg, np, fg.nn.softmax_cross_entropy
        self.value_and_grad = fg.value_and_grad

    def compiled(self, f):
        return self.fg.jit(f)

    def placed(self, x):
        return self.fg.tensor(x, device="cuda")

    def wait(self, _):
        self.fg.tensor(0.0, device="cuda")._value.place.library.synchronize()

    def host(self, x):
        return x.numpy()


class Jax:
    """JAX, compiled."""

    def __init__(self) -> None:
        import jax
        import jax.numpy as jnp

        self.jax, self.xp, self.value_and_grad = jax, jnp, jax.value_and_grad

    def compiled(self, f):
        return self.jax.jit(f)

    def softmax_loss(self, x, labels):
        chosen = self.xp.take_along_axis(x, labels[:, None], 1)[:, 0]
        return self.jax.nn.logsumexp(x, 1) - chosen

    def placed(self, x):
        return self.jax.device_put(x)

    def wait(self, y):
        self.jax.block_until_ready(y)

    def host(self, x):
        return np.asarray(x)


class CuPy:
    """CuPy, operation by operation."""

    def __init__(self) -> None:
        import cupy

        self.xp = cupy

    def placed(self, x):
        return self.xp.asarray(x)

    def wait(self, _):
        self.xp.cuda.get_current_stream().synchronize()

    def host(self, x):
        return self.xp.asnumpy(x)


class Torch:
    """PyTorch, operation by operation."""

    def __init__(self) -> None:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        self.torch, self.xp = torch, torch

    def compiled(self, f):
        return f

    def value_and_grad(self, f, argnums=0):
        where = (argnums,) if isinstance(argnums, int) else argnums

        def run(*args):
            leaves = [a.detach().requires_grad_() if i in where else a for i, a in enumerate(args)]
            y = f(*leaves)
            grads = self.torch.autograd.grad(y, [leaves[i] for i in where])
            return y.detach(), grads[0] if isinstance(argnums, int) else grads

        return run

    def softmax_loss(self, x, labels):
        return self.torch.nn.functional.cross_entropy(x, labels, reduction="none")

    def placed(self, x):
        return self.torch.from_numpy(x).cuda()

    def wait(self, _):
        self.torch.cuda.synchronize()

    def host(self, x):
        return x.detach().cpu().numpy()


class TorchCompiled(Torch):
    """PyTorch's compiler, around the function; its derivative is compiled with it."""

    def value_and_grad(self, f, argnums=0):
        return super().value_and_grad(self.torch.compile(f), argnums)


MAKERS = {"fgrad": Fgrad, "jax": Jax, "torch": Torch, "torch.compile": TorchCompiled, "cupy": CuPy}


def elementwise(lib):
    xp = lib.xp
    return lib.value_and_grad(lambda x: (xp.tanh(x * 1.5 + 0.5) ** 2).sum())


def cross_entropy(lib):
    return lib.value_and_grad(lambda x, labels: lib.softmax_loss(x, labels).mean())


def network(lib):
    xp = lib.xp

    def loss(w1, w2, w3, x, labels):
        return lib.softmax_loss(xp.tanh(xp.tanh(x @ w1) @ w2) @ w3, labels).mean()

    return lib.value_and_grad(loss, (0, 1, 2))


def small(lib):
    return lib.value_and_grad(lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


# The same with derivatives by hand


def elementwise_by_hand(xp):
    def run(x):
        t = xp.tanh(x * 1.5 + 0.5)
        return (t * t).sum(), 3 * t * (1 - t * t)

    return run


def cross_entropy_by_hand(xp):
    def run(x, labels):
        rows = xp.arange(len(x))
        y = x - x.max(1, keepdims=True)
        e = xp.exp(y)
        total = e.sum(1, keepdims=True)
        value = (xp.log(total)[:, 0] - y[rows, labels]).mean()
        e /= total
        e[rows, labels] -= 1
        return value, e / len(x)

    return run


def network_by_hand(xp):
    loss = cross_entropy_by_hand(xp)

    def run(w1, w2, w3, x, labels):
        first = xp.tanh(x @ w1)
        second = xp.tanh(first @ w2)
        value, ct = loss(second @ w3, labels)
        ct2 = (ct @ w3.T) * (1 - second * second)
        ct1 = (ct2 @ w2.T) * (1 - first * first)
        return value, (x.T @ ct1, first.T @ ct2, second.T @ ct)

    return run


def small_by_hand(xp):
    def run(x):
        gap, rest = x[1:] - x[:-1] ** 2, 1 - x[:-1]
        slope = xp.zeros_like(x)
        slope[:-1] = -400 * x[:-1] * gap - 2 * rest
        slope[1:] += 200 * gap
        return (100 * gap**2 + rest**2).sum(), slope

    return run


def uniform(*shape):
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)


def network_inputs():
    labels = np.random.default_rng(1).integers(0, 10, BATCH)
    weights = uniform(784, WIDTH) / 28, uniform(WIDTH, WIDTH) / 64, uniform(WIDTH, 10) / 64
    return *weights, uniform(BATCH, 784), labels


PRODUCTS = 784 * WIDTH + WIDTH * WIDTH + WIDTH * 10  # multiplications of a row
CASES = {
    "elementwise": Case(
        f"sum(tanh(x w + b)²) and gradient, {LARGE:,} float32", elementwise, elementwise_by_hand,
        lambda: (uniform(LARGE),),
        bytes=8 * LARGE, share=0.8, limits=(("jax", 1.0),)),
    "cross-entropy": Case(
        f"softmax cross-entropy and its gradient, {EXAMPLES:,} x {CLASSES}", cross_entropy,
        cross_entropy_by_hand,
        lambda: (uniform(EXAMPLES, CLASSES), np.arange(EXAMPLES) % CLASSES),
        bytes=8 * EXAMPLES * CLASSES, share=0.7),
    "network": Case(
        f"network 784-{WIDTH}-{WIDTH}-10, batch {BATCH}, float32", network, network_by_hand,
        network_inputs,
        flops=2 * BATCH * (3 * PRODUCTS - 784 * WIDTH), limits=(("torch", 1.05),)),
    "small": Case(
        "Rosenbrock's function of 10 numbers", small, small_by_hand,
        lambda: (uniform(10),), limits=(("jax", 0.5),)),
}  # fmt: skip
REPLAY, OVERHEAD = 15e-6, 1.0  # seconds of a small program; eager operations over PyTorch's


def main() -> int:
    """Print the table, where there is a GPU; return 1 if a budget is missed and `--strict` was given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), metavar="NAME")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a budget is missed")
    options = parser.parse_args()
    reason = missing()
    if reason:
        print(f"nothing was measured: {reason}")
        return 0
    libraries = {name: make() for name, make in MAKERS.items() if find_spec(name.partition(".")[0])}
    copy, product = ceilings(libraries["fgrad"])
    print(f"ceilings: copy {copy / 1e9:.0f} GB/s, float32 product {product / 1e12:.1f} Tflop/s\n")
    rows = [["", *libraries, "of the ceiling"]]
    budgets: list[tuple[str, float, float]] = []
    for name in options.only:
        case = CASES[name]
        times = measured(case, libraries)
        reached = case.bytes / times["fgrad"] / copy if case.bytes else case.flops / times["fgrad"] / product
        cells = [f"{1e6 * times[lib]:,.1f}" if lib in times else "" for lib in libraries]
        rows.append([case.title, *cells, f"{reached:.0%}" if case.bytes or case.flops else ""])
        if case.share:
            budgets.append((f"{name}: share of the ceiling that is missed", 1 - reached, 1 - case.share))
        for lib, limit in case.limits:
            if lib in times:
                budgets.append((f"{name}: over {lib}", times["fgrad"] / times[lib], limit))
        if name == "small":
            budgets.append(("small: microseconds a replay", 1e6 * times["fgrad"], 1e6 * REPLAY))
    eager = overhead(libraries)
    cells = [f"{1e6 * eager[lib]:.1f}" if lib in eager else "" for lib in libraries]
    rows.append(["eager operation x * x of 10 numbers", *cells, ""])
    if "torch" in eager:
        budgets.append(("eager operation: over torch", eager["fgrad"] / eager["torch"], OVERHEAD))
    print(f"Microseconds for a call\n\n{table(rows)}\n")
    lines = [
        [what, f"{x:.2f}", f"{limit:.2f}", "holds" if x <= limit else "MISSED"] for what, x, limit in budgets
    ]
    print(f"Budgets\n\n{table([['', 'measured', 'limit', ''], *lines])}")
    return int(options.strict and any(x > limit for _, x, limit in budgets))


def missing() -> str:
    """Return why there is nothing to measure on; "" if there is."""
    from fgrad.backend import library

    if library.simulating():
        return "NUMBA_ENABLE_CUDASIM=1 asks for the simulator, whose times say nothing"
    try:
        library.library()
    except RuntimeError as error:
        return str(error)
    return ""


def ceilings(lib) -> tuple[float, float]:
    """Return the bytes a second of a copy, read and written, and the operations of a product."""
    import cupy

    x, y = cupy.ones(LARGE, "f"), cupy.empty(LARGE, "f")
    seconds = timed(lambda: cupy.copyto(y, x), lib.wait)
    a = cupy.random.default_rng(0).random((8192, 8192), dtype=np.float32)
    return 8 * LARGE / seconds, 2 * 8192**3 / timed(lambda: a @ a, lib.wait)


def measured(case: Case, libraries: dict[str, Any]) -> dict[str, float]:
    """Return the seconds of a call in each library, whose results agree."""
    inputs, runs, expected = case.inputs(), {}, None
    for name, lib in libraries.items():
        f = case.by_hand(lib.xp) if name == "cupy" else lib.compiled(case.make(lib))
        args = [lib.placed(x) for x in inputs]
        value = float(lib.host(f(*args)[0]))
        expected = value if expected is None else expected
        if not abs(value - expected) <= 1e-3 * abs(expected):
            raise ValueError(f"{case.title}: {name} gives {value}, not {expected}")
        runs[name] = (lambda f=f, args=args: f(*args)), lib.wait
    times = {}
    for name, run in runs.items():
        times[name] = timed(*run)
        print(f"{case.title}, {name}: {1e6 * times[name]:,.1f} us", flush=True)  # whatever ends this early
    return times


def overhead(libraries: dict[str, Any]) -> dict[str, float]:
    """Return the seconds of an eager operation on few numbers, not waited for one by one."""
    found = {}
    for name in ("fgrad", "torch", "cupy"):
        if name in libraries:
            x = libraries[name].placed(uniform(10))
            found[name] = timed(lambda x=x: x * x, libraries[name].wait)
    return found


def timed(run: Callable[[], Any], wait: Callable[[Any], None]) -> float:
    """Return the median seconds of a call, many at a time, when the device is done."""
    for _ in range(5):  # compiles, records, warms up
        y = run()
    wait(y)
    start = perf_counter()
    wait(run())
    count = max(1, int(SECONDS / (perf_counter() - start)))
    return median(_seconds(run, wait, count) for _ in range(REPEATS))


def _seconds(run: Callable[[], Any], wait: Callable[[Any], None], count: int) -> float:
    start = perf_counter()
    for _ in range(count):
        y = run()
    wait(y)
    return (perf_counter() - start) / count


if __name__ == "__main__":
    sys.exit(main())
