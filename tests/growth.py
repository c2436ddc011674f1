"""Whether memory stays flat, whatever number of shapes and kernels a process sees.

    python -m tests.growth --count 10000 [kind ...]

runs each kind of work that often, every time on something new, in a process of its own with small caches, and
reports by how many bytes a turn memory has grown in the second half.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import fgrad as fg
from fgrad import nn
from fgrad.kernels import native

ENTRIES = 64  # of each cache
Kind = Callable[[int], object]


def shape(k: int) -> tuple[int, ...]:
    """Return a shape that no other k has, of at most a thousand elements if k is below 100,000."""
    return (
        tuple(int(d) + 1 for d in np.base_repr(k, 6))
        if k % 2
        else (k % 20 + 1, k // 20 % 70 + 1, k // 1400 + 1)
    )


def pieces(x):
    y = np.sin(x) * x + np.exp(-(x**2))
    return np.sum(y / (1 + y**2)) + np.mean(np.cumsum(x)) + np.max(x)


def eager(k: int) -> None:
    """Values and gradients of arrays."""
    x = np.ones(shape(k))
    fg.value_and_grad(pieces)(x)
    fg.grad(lambda x: np.sum(np.stack([x, x, x])[:, ::2] * 2))(x)
    fg.vmap(pieces)(np.ones((k % 5 + 1, 3)))


def jitted(k: int) -> None:
    """One jitted function."""
    STEP(np.ones(shape(k)))


def batched(k: int) -> None:
    """One jitted function for any number of examples."""
    fg.vmap(INNER)(np.ones((k + 1, 2)))


def functions(k: int) -> None:
    """Jitted functions that are the same to the compiler, and live briefly."""
    fg.jit(fg.grad(lambda x: np.sum(np.tanh(x) * k)))(np.ones(3))


def kernels(k: int) -> None:
    """Kernels of compiled programs, each of its own."""
    digits = [k // 4**i % 4 for i in range(8)]
    chain = [(np.sin, np.cos, np.tanh, np.exp)[d] for d in digits]

    def f(x):
        for g in chain:
            x = g(x * 0.5)
        return x

    fg.jit(f)(np.ones(3))


def code(k: int) -> None:
    """Machine code alone."""
    native.compiled(f"def kernel(slots, args, lo, hi):\n    float64_at(slots, args, 0)[0] = {k}.5\n")


def layouts(k: int) -> None:
    """Kernels of eager operations, for operands laid out in memory in some order."""
    draw = np.random.default_rng(k)
    x, y = (np.ones((2,) * 12).transpose(draw.permutation(12)) for _ in range(2))
    x = np.broadcast_to(x[tuple([slice(0, n) for n in draw.integers(1, 3, 12)])], (2,) * 12)
    HYPOT(x, y)


def contractions(k: int) -> None:
    """Subscripts of einsum, and numbers of operands of a stack."""
    draw = np.random.default_rng(k)
    a, b = ("".join(draw.permutation(list("abcdefghij"))[:6]) for _ in range(2))
    out = "".join(sorted({*a} ^ {*b}))
    fg.grad(lambda x: np.sum(np.einsum(f"{a},{b}->{out}", x, np.ones((1,) * 6))))(np.ones((1,) * 6))
    count, tracked = k // 50 % 200 + 1, draw.random(k // 50 % 200 + 1) < 0.5
    fg.grad(lambda x: np.sum(np.stack([x if t else np.ones(1) for t in tracked])) + x[0])(np.ones(1))
    assert count == len(tracked)


def pools(k: int) -> None:
    """Kernels for windows of large images."""
    window = k % 30 + 1, k // 30 + 1
    nn.max_pool(np.ones((1, 1, 256, 200)), window)


def texts(k: int) -> None:
    """Functions written as text, as in a notebook: each has a file of its own."""
    space = {"np": np}
    exec(compile(f"def f(x):\n    return np.sum(x * x[0] * {k})", f"<cell {k}>", "exec"), space)
    fg.grad(space["f"])(np.ones(2))
    fg.plain_numpy(space["f"])(fg.tensor(np.ones(2)))


def structures(k: int) -> None:
    """Trees of some structure as arguments, and classes of leaves."""
    x = {f"w{i}": np.ones(1) for i in range(k % 7)} | {f"k{k}": np.ones(2)}
    TREES(x)
    fg.grad(lambda x: np.sum(x[f"k{k}"]))(x)


def checkpointed(k: int) -> None:
    """Functions that are run again in the sweep, and loops of any length."""
    fg.grad(fg.checkpoint(pieces))(np.ones(k % 500 + 1))
    fg.grad(lambda x: fg.lax.scan(lambda c, _: (c * x, None), x, None, k % 500 + 1)[0])(0.5)


STEP = fg.jit(fg.value_and_grad(pieces))
INNER = fg.jit(pieces)
TREES = fg.jit(lambda x: sum(np.sum(v) for v in x.values()))
HYPOT = None
KINDS: dict[str, Kind] = {
    f.__name__: f
    for f in (
        *(eager, jitted, batched, functions, kernels, code, layouts, contractions, pools, texts),
        *(structures, checkpointed),
    )
}


def resident() -> int:
    """Return how many bytes this process has in memory, once what is free was given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def measured(kind: str, count: int) -> Iterator[int]:
    """Yield the memory at the beginning, in the middle and at the end of `count` turns."""
    global HYPOT
    from fgrad.compiler.elementwise import elementwise
    from fgrad.expr.node import var

    x, y = var("x"), var("y")
    HYPOT = elementwise((x, y), (x * y + x,))
    run = KINDS[kind]
    yield resident()
    for k in range(count):
        run(k)
        if k + 1 in {count // 2, count}:
            yield resident()


def main(argv: list[str] | None = None) -> int:
    """Run kinds of work, and say how memory grew; return 1 if some grew by more than allowed."""
    parser = argparse.ArgumentParser(prog="python -m tests.growth", description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], help="kinds of work; all if none is named")
    parser.add_argument("--count", type=int, default=1000, help="turns")
    parser.add_argument("--allowed", type=int, default=100, help="bytes a turn")
    parser.add_argument("--inside", action="store_true", help="run in this process")
    args = parser.parse_args(argv)
    worst = 0
    for kind in args.kinds or KINDS:
        if not args.inside:
            env = {"FGRAD_CACHE_SIZE": "0", "FGRAD_CACHE_ENTRIES": str(ENTRIES), "FGRAD_QUIET": "1"}
            command = [sys.executable, "-W", "ignore", "-m", "tests.growth", kind, "--inside"]
            options = [f"--count={args.count}", f"--allowed={args.allowed}"]
            worst |= subprocess.run([*command, *options], env=os.environ | env).returncode
            continue
        begin, middle, end = measured(kind, args.count)
        grown = (end - middle) / (args.count - args.count // 2)
        begun, halved, ended = (f"{n / 2**20:.1f}" for n in (begin, middle, end))
        sys.stdout.write(
            f"{kind:15} {args.count:7} turns, MiB: {begun} at first, {halved} halfway, {ended} at the end; "
            f"{grown:.0f} bytes a turn\n"
        )
        sys.stdout.flush()
        worst |= int(grown > args.allowed)
    return worst


if __name__ == "__main__":
    sys.exit(main())
