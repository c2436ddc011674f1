"""Steps of data-parallel training beside PyTorch's DistributedDataParallel (gloo), on the ranks of one run.

    mpirun -n 2 python -m benchmarks.ddp

The same network, batch and update on both sides, one thread a rank, both sides in turns. It needs torch and
mpi4py. `--strict` makes a missed budget (DDP's time) an error.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from itertools import pairwise
from time import perf_counter

# before NumPy and PyTorch start; `benchmarks` has said otherwise, for one process that has all cores
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "FGRAD_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.distributed as gloo  # noqa: E402
from torch import nn  # noqa: E402

import fgrad as fg  # noqa: E402
from fgrad.distributed import broadcast, data_parallel, make_allreduce_cb, world  # noqa: E402

RATE = 0.05
NETWORKS = {  # layers, and examples in the batch of all ranks
    "784-128-10, batch 128": ((784, 128, 10), 128),
    "784-512-512-10, batch 512": ((784, 512, 512, 10), 512),
}
BUDGET = 1.0  # of DDP's time
SECONDS = 20  # for each network; single steps, of which the least time counts


def weights(layers):
    rng = np.random.default_rng(0)
    return [
        (rng.normal(scale=n**-0.5, size=(n, m)).astype("f"), np.zeros(m, "f")) for n, m in pairwise(layers)
    ]


def data(layers, batch):
    rng = np.random.default_rng(1)
    labels = np.eye(layers[-1], dtype="f")[rng.integers(layers[-1], size=batch)]
    return rng.normal(size=(batch, layers[0])).astype("f"), labels


def loss(params, images, labels):
    x = images
    for i, (w, b) in enumerate(params):
        x = x @ w + b
        if i + 1 < len(params):
            x = np.tanh(x)
    return fg.nn.softmax_cross_entropy(x, labels).mean()


def with_manager(layers, batch):
    """GradManager with all-reduce callbacks, eager."""
    params = fg.tree.map(fg.tensor, weights(layers))
    flat = fg.tree.leaves(params)
    images, labels = world().shard(data(layers, batch))
    gm = fg.GradManager().attach(params, callbacks=make_allreduce_cb("MEAN"))

    def step():
        with gm:
            gm.backward(loss(params, images, labels))
        for t in flat:
            t[...] = t - RATE * t.grad
            t.grad = None

    return step, lambda: [t.numpy() for t in flat]


def with_jit(layers, batch):
    """Update and gradient of the whole batch in one compiled program."""
    images, labels = data(layers, batch)
    state = [weights(layers)]
    slope = fg.grad(data_parallel(loss))
    step_of = fg.jit(lambda p, x, y: fg.tree.map(lambda t, g: t - np.float32(RATE) * g, p, slope(p, x, y)))

    def step():
        state[0] = step_of(state[0], images, labels)

    return step, lambda: fg.tree.leaves(state[0])


def with_ddp(layers, batch):
    """PyTorch, eager, in DistributedDataParallel."""
    torch.set_num_threads(1)
    parts = []
    for i, (w, b) in enumerate(weights(layers)):
        linear = nn.Linear(*w.shape)
        linear.weight.data, linear.bias.data = torch.tensor(w.T.copy()), torch.tensor(b)
        parts += [nn.Tanh(), linear] if i else [linear]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*parts))
    images, labels = map(torch.tensor, world().shard(data(layers, batch)))
    update = torch.optim.SGD(model.parameters(), lr=RATE)

    def step():
        update.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(images), labels).backward()
        update.step()

    def params():
        return [p.detach().numpy().T if p.ndim == 2 else p.detach().numpy() for p in model.parameters()]

    return step, params


def port():
    """Return a free port, the same on all ranks."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        own = s.getsockname()[1]
    return world().shared_seed(own)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strict", action="store_true")
    strict = parser.parse_args().strict
    here = world()
    where = f"tcp://127.0.0.1:{port()}"
    gloo.init_process_group("gloo", init_method=where, rank=here.rank, world_size=here.size)
    missed = False
    for name, (layers, batch) in NETWORKS.items():
        makers = {"fgrad, GradManager": with_manager, "fgrad, jit": with_jit, "torch, DDP": with_ddp}
        sides = {k: make(layers, batch) for k, make in makers.items()}
        for step, _ in sides.values():
            for _ in range(3):
                step()
        *ours, theirs = (params() for _, params in sides.values())
        for own in ours:
            for a, b in zip(own, theirs, strict=True):
                np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)
        best = dict.fromkeys(sides, np.inf)
        begin, more = perf_counter(), 1.0
        while more:
            for k, (step, _) in sides.items():
                here.barrier()
                start = perf_counter()
                step()
                here.barrier()  # until the slower rank has its step
                best[k] = min(best[k], perf_counter() - start)
            more = float(broadcast(float(perf_counter() - begin < SECONDS)))
        ddp = best["torch, DDP"]
        if here.rank == 0:
            for k, seconds in best.items():
                print(f"{name:28} {k:20} {1e6 * seconds:9.0f} us  {seconds / ddp:5.2f} of DDP", flush=True)
        missed |= best["fgrad, GradManager"] > BUDGET * ddp
    gloo.destroy_process_group()
    return int(strict and missed)


if __name__ == "__main__":
    sys.exit(main())
