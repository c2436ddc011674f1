"""Weak and strong scaling of a training step, and the figures of its cost model, for the ranks of one run.

for n in 1 2 4; do mpirun -n $n --oversubscribe python -m benchmarks.scaling; done
"""

from __future__ import annotations

import os

# before NumPy starts; `benchmarks` has said otherwise, for one process that has all cores
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "FGRAD_NUM_THREADS"):
    os.environ[_name] = "1"

from itertools import pairwise  # noqa: E402
from time import perf_counter  # noqa: E402

import numpy as np  # noqa: E402

import fgrad as fg  # noqa: E402
from fgrad.distributed import broadcast, make_allreduce_cb, psum, world  # noqa: E402

LAYERS = (784, 512, 512, 10)
STRONG, WEAK = 512, 256  # examples of all ranks together, and of each rank
SECONDS = 8.0


def least(step):
    """Return the least seconds of one call on all ranks."""
    here, best, begin, more = world(), np.inf, perf_counter(), 1.0
    step()
    while more:
        here.barrier()
        start = perf_counter()
        step()
        here.barrier()
        best = min(best, perf_counter() - start)
        more = float(broadcast(float(perf_counter() - begin < SECONDS)))
    return best


def training(examples):
    """Return a step of training on this rank's number of examples."""
    rng = np.random.default_rng(0)
    params = [fg.tensor(rng.normal(scale=n**-0.5, size=(n, m)).astype("f")) for n, m in pairwise(LAYERS)]
    images = rng.normal(size=(examples, LAYERS[0])).astype("f")
    labels = np.eye(LAYERS[-1], dtype="f")[rng.integers(LAYERS[-1], size=examples)]
    gm = fg.GradManager().attach(params, callbacks=make_allreduce_cb("MEAN", 2**20))

    def step():
        with gm:
            x = images
            for w in params[:-1]:
                x = np.tanh(x @ w)
            gm.backward(fg.nn.softmax_cross_entropy(x @ params[-1], labels).mean())
        for t in params:
            t[...] = t - 0.01 * t.grad
            t.grad = None

    return step


def main():
    here = world()
    strong, weak = least(training(STRONG // here.size)), least(training(WEAK))
    short, long = (least(lambda n=n: psum(np.zeros(n, "f"))) for n in (1, 2**20))
    if here.rank == 0:
        print(
            f"{here.size} ranks: strong {1e3 * strong:.2f} ms, weak {1e3 * weak:.2f} ms; "
            f"all-reduce of 4 bytes {1e6 * short:.0f} us, of 4 MiB {1e3 * long:.2f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
