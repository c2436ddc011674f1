"""Programs that `mpirun` starts on several ranks: `python jobs.py NAME ARGUMENTS`; see test_mpi.py."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import fgrad as fg
from fgrad import lax
from fgrad.distributed import data_parallel, make_allreduce_cb, psum, restore, save, world
from fgrad.errors import RankError

X = np.random.default_rng(0).normal(size=(24, 5))
LAYERS = {"w": (5, 40), "b": (40,), "v": (40,)}


def params():
    rng = np.random.default_rng(1)
    return {k: fg.tensor(rng.normal(size=s)) for k, s in LAYERS.items()}


def loss(p, x):
    return (np.tanh(x @ p["w"] + p["b"]) @ p["v"] ** 2).mean()


def say(*words):
    print(f"[{world().rank}]", *words, flush=True)  # noqa: T201 -- what a program says is what is tested


def train(steps, p, first=0, bucket_bytes=400, after=lambda step, p: None):
    gm = fg.GradManager().attach(p, callbacks=make_allreduce_cb("MEAN", bucket_bytes, names=p))
    for step in range(first, steps):
        with gm:
            gm.backward(loss(p, world().shard(X)))
        for t in p.values():
            t[...] = t - 0.05 * t.grad
            t.grad = None
        after(step, p)
    return p


def results(folder):
    """Write what every rank computes: training, gradients of collectives, a large sum."""
    here = world()
    x = np.random.default_rng(2).normal(size=(4, 6))[here.rank]
    f = lambda x: np.sum(np.sin(lax.psum(x * x, "i")) * lax.ppermute(x, "i", [(0, here.size - 1)]))
    with here.axis("i"):
        collective = {
            "grad": fg.grad(f)(x),
            "hvp": fg.hvp(f, (x,), (x,))[1],
            "staged": [fg.jit(fg.grad(f))(x) for _ in range(2)][1],
        }
    dp = fg.value_and_grad(data_parallel(lambda p, x: loss(p, x)))(
        {k: t.numpy() for k, t in params().items()}, X
    )
    large = psum(np.random.default_rng(here.rank).normal(size=300_000))
    found = {
        **{f"train {k}": t.numpy() for k, t in train(5, params()).items()},
        **{f"dp {k}": g for k, g in dp[1].items()},
        "dp value": dp[0],
        **collective,
        "large": large,
        "seed": np.array([here.shared_seed()]),
    }
    np.savez(Path(folder) / f"{here.rank}.npz", **found)


def mismatch():
    """Let the last rank differ in order, shape, dtype and number; say what every rank hears; then go on."""
    here = world()
    last = here.rank == here.size - 1
    for kind in ("order", "shape", "dtype", "number", "nothing"):
        odd = kind if last else ""
        shape, dtype = (3, 1) if odd == "shape" else 3, np.float32 if odd == "dtype" else float
        a, b = fg.tensor(np.ones(shape, dtype)), fg.tensor(np.ones(3))
        gm = fg.GradManager().attach([a, b], callbacks=make_allreduce_cb("SUM", 8, names={"a": a, "b": b}))
        try:
            with gm:
                if odd == "order":
                    y = np.sum(np.sin(b) + 2.0 * a)
                else:
                    y = np.sum(2.0 * b) if odd == "number" else np.sum(np.sin(a)) + np.sum(2.0 * b)
                gm.backward(y)
            say(kind, b.grad.numpy().tolist())
        except RankError as error:
            say(kind, type(error).__name__, error)
            assert a.grad is None
            assert b.grad is None


def timeout():
    here = world()
    if here.rank == 1:
        time.sleep(float(os.environ["FGRAD_MPI_TIMEOUT"]) * 2)
    try:
        train(1, params())
        say("no error")
    except RankError as error:
        say(type(error).__name__, error)


def failing_callback():
    """An exception that rank 1 catches: all raise, and the next step works."""
    p = params()
    angry = [world().rank == 1]

    def check(t, g):
        if angry[0]:
            raise ZeroDivisionError("a callback of rank 1")

    callback = make_allreduce_cb()
    gm = fg.GradManager().attach([p["b"], p["v"]], callbacks=callback)
    gm.attach(p["w"], callbacks=[check, callback])
    for _ in range(2):
        try:
            with gm:
                gm.backward(loss(p, world().shard(X)))
            say("no error", p["w"].grad is not None)
        except (RankError, ZeroDivisionError) as error:
            say(type(error).__name__, error, p["v"].grad is None)
        angry[0] = False


def uncaught():
    train(1, params())
    if world().rank == 1:
        raise LookupError("nobody catches this")
    train(1000, params())


def early_end():
    """Rank 1 ends in peace while the others wait for it."""
    if world().rank == 1:
        return
    try:
        psum(np.ones(3))
    except RankError as error:
        say(type(error).__name__, error)


def killed():
    def after(step, p):
        if step == 3 and world().rank == world().size - 1:
            os.kill(os.getpid(), signal.SIGKILL)

    train(1_000_000, params(), after=after)


def resume(file, steps, die_at):
    """Train with a checkpoint after every step, from the last one; rank 1 may be killed on the way."""
    here = world()
    state = {"step": 0, "params": params()}
    if Path(file).exists():
        state = restore(file)
    say("starts at", state["step"])

    def after(step, p):
        save(file, {"step": step + 1, "params": p})
        if step == int(die_at) and here.rank == 1 % here.size:
            os.kill(os.getpid(), signal.SIGKILL)

    p = train(int(steps), state["params"], state["step"], after=after)
    say("ends with", *(t.numpy().tobytes().hex() for _, t in sorted(p.items())))


def overlap():
    """Say the events of a backward whose first bucket has to arrive before its sweep can end."""
    events = []
    first, last = fg.tensor(np.ones(30_000)), fg.tensor(np.ones(30_000))
    hub = world().hub
    callback = make_allreduce_cb("SUM", 1, on_event=lambda *event: events.append(" ".join(map(str, event))))

    def stall(t, g):  # the sweep stands still until the bucket of `last` has arrived
        events.append("stands still")
        while hub.running:
            hub.progress()
        events.append("goes on")

    gm = fg.GradManager().attach(last, callbacks=callback).attach(first, callbacks=[stall, callback])
    with gm:
        gm.backward((np.sin(first) * last).sum())
    say("; ".join(events))
    assert np.allclose(last.grad.numpy(), np.sin(1.0) * world().size)


def messages():
    """A chain of messages larger than MPI sends at once, in both directions at the same time."""
    here, (left, right) = world(), ((world().rank - 1) % world().size, (world().rank + 1) % world().size)
    x = np.full(200_000, float(here.rank + 1))
    if here.size > 1:
        f = lambda x: fg.distributed.send(x * 2.0, right) + np.sum(fg.distributed.recv(x, left) * x)
        g = fg.grad(f)(x)  # x appears in its own result, and in that of the right one
        assert np.allclose(g, 2.0 * (left + 1) + 2.0 * (right + 1)), g[:3]
    say("right")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
