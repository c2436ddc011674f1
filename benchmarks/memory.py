"""Memory that grows where none should be kept."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import numpy as np

import fgrad as fg
import fgrad.numpy as fnp

DEAD = 100_000
ROUNDS = 1000


def grown(work: Callable[[int], None], warm: int, n: int) -> int:
    """Return by how many bytes the peak of `n` repetitions exceeds that of `warm` ones, with cycles kept."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        work(warm)
        _, before = tracemalloc.get_traced_memory()
        work(n)
        _, after = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    return after - before


def dead_operations() -> int:
    """Return what operations in one recording leave whose results nobody keeps."""
    x = fg.tensor(np.ones(100))

    def work(n):
        for _ in range(n):
            fnp.sin(x) * x

    with fg.GradManager().attach(x):
        return grown(work, DEAD // 10, DEAD // 2)


def rounds() -> int:
    """Return what recordings leave: half of them end in `backward`, half are given up."""
    x = fg.tensor(np.ones(100))
    gm = fg.GradManager().attach(x)

    def work(n):
        for i in range(n):
            with gm:
                y = (fnp.sin(x) * x).sum()
                if i % 2:
                    gm.backward(y)
                    x.grad = None

    return grown(work, ROUNDS // 10, ROUNDS)


GROWTH = {f"{DEAD:,} dead operations": dead_operations, f"{ROUNDS:,} recordings": rounds}
