"""Eight threads that call something first, all at once, in one fresh process after the other.

    python -m tests.stress.first_calls --count 1000 --kinds eager jit gather softmax sort scan

What is made when it is first needed (modules, machine code, the threads of the pool) is made by one of them,
while the others wait or are about to use it. A fresh process is a fork of one that has imported fgrad and
started nothing, every `--interpreters`-th one a new interpreter; in every second one threads give way to one
another at random lines. Every `--cold`-th finds no compiled code on
disk. `fork` makes the first call in one thread while another forks, at any moment; the children call it too.

A process fails that dies, that has not ended after `LIMIT` seconds, or in which a result is not what NumPy
computes. The last line says how many there were.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fgrad as fg
from fgrad import lax, nn
from fgrad import numpy as fnp

LIMIT = 60  # seconds
THREADS = 8
SIZE = 200_000
JUMPS = 0.002  # of lines, at which a thread gives way

_random = np.random.default_rng(0)
X = _random.standard_normal(SIZE)
ROWS = _random.standard_normal((400, 500))
PLACES = _random.integers(0, SIZE, SIZE)
STEPS = X[:2000]


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _eager() -> Any:
    return fg.grad(lambda x: fnp.sum(fnp.exp(fnp.tanh(x))))(X)


def _jit() -> Any:
    return fg.jit(lambda x: fnp.exp(fnp.tanh(x)) * x + 1)(X)


def _gather() -> Any:
    return fg.grad(lambda x: fnp.sum(x[PLACES] * x))(X)


def _sort() -> Any:
    return fg.grad(lambda x: fnp.sum(fnp.sort(x, axis=-1) * ROWS))(ROWS)


def _scan() -> Any:
    return fg.jit(lambda x: lax.scan(lambda c, s: (c * 0.5 + s, c + s), 0.0, x)[1])(STEPS)


SHARED = fg.jit(lambda x: fnp.sum(fnp.tanh(x) ** 2))
SLOPES = fg.vmap(fg.grad(lambda x: fnp.sum(x[:-1] * x[1:] ** 2)))


def _shared() -> Any:
    """Call one jitted function, and one mapped gradient, with many shapes, often enough to be guarded."""
    found = []
    for k in random.sample(range(2, 14), 12):
        x = STEPS[:k]
        for _ in range(4):
            value = float(SHARED(x))
        found.append((k, np.r_[value, fg.grad(SHARED)(x), SLOPES(np.stack([x, x]))[1]]))
    return np.concatenate([part for _, part in sorted(found, key=lambda f: f[0])])


def _shared_expected() -> np.ndarray:
    parts = []
    for k in range(2, 14):
        x = STEPS[:k]
        tanh = np.tanh(x)
        parts.append(np.r_[(tanh**2).sum(), 2 * tanh * (1 - tanh**2)])
        parts.append(np.r_[x[1:] ** 2, 0] + np.r_[0, 2 * x[:-1] * x[1:]])
    return np.concatenate(parts)


def _expected() -> dict[str, tuple[Callable[[], Any], Any]]:
    """Return what the kinds of calls are, with the results that NumPy computes."""
    tanh = np.tanh(X)
    carried, total = np.empty_like(STEPS), 0.0
    for i, s in enumerate(STEPS):
        carried[i], total = total + s, total * 0.5 + s
    order = np.argsort(ROWS, axis=-1, kind="stable")
    slopes = np.empty_like(ROWS)
    np.put_along_axis(slopes, order, ROWS, axis=-1)
    gathered = X[PLACES] + np.bincount(PLACES, weights=X, minlength=SIZE)
    return {
        "eager": (_eager, np.exp(tanh) * (1 - tanh**2)),
        "jit": (_jit, np.exp(tanh) * X + 1),
        "gather": (_gather, gathered),
        "softmax": (lambda: nn.softmax(ROWS), _softmax(ROWS)),
        "sort": (_sort, slopes),
        "scan": (_scan, carried),
        "shared": (_shared, _shared_expected()),
    }


CALLS = _expected()


def _one(kind: str) -> bool:
    call, expected = CALLS[kind]
    return bool(np.allclose(np.asarray(call()), expected, rtol=1e-9, atol=1e-12))


def _jump(frame: Any, event: str, _: Any) -> Any:
    """Let other threads run at some lines of fgrad, where they would seldom do so by themselves."""
    if "fgrad" not in frame.f_code.co_filename:
        return None
    if event == "line" and random.random() < JUMPS:
        time.sleep(random.random() * 1e-3)
    return _jump


def together(kind: str, seed: int, *, jumpy: bool = False) -> bool:
    """Return whether all threads that make the call at once get the right result."""
    order = random.Random(seed)
    kinds = [order.choice(list(CALLS)) if kind == "mixed" else kind for _ in range(THREADS)]
    barrier, right = threading.Barrier(THREADS), []

    def work(kind: str) -> None:
        if jumpy:
            sys.settrace(_jump)
        barrier.wait()
        right.append(_one(kind) and _one(kind))

    started = [threading.Thread(target=work, args=(k,)) for k in kinds]
    for t in started:
        t.start()
    for t in started:
        t.join()
    return right == [True] * THREADS


def forking(seed: int) -> bool:
    """Return whether children made while another thread makes a first call can make it too."""
    chosen = random.Random(seed)
    kind, other = chosen.choice(list(CALLS)), chosen.choice(list(CALLS))
    right: list[bool] = []
    busy = threading.Thread(target=lambda: right.append(_one(kind)))
    busy.start()
    children = []
    for _ in range(3):
        time.sleep(chosen.random() * chosen.choice([0.003, 0.03, 0.3]))
        child = os.fork()
        if not child:
            _ended(lambda: _one(other) and _one(kind), LIMIT // 2)
        children.append(child)
    busy.join()
    ends = [_status(c) for c in children]
    if ends != ["right"] * 3:
        print(f"children of seed {seed}: {', '.join(ends)}", flush=True)  # noqa: T201
    return ends == ["right"] * 3 and right == [True]


def _ended(check: Callable[[], bool], limit: int = LIMIT) -> None:
    """End this process, which is a child, by what a check returns, or by SIGALRM after so many seconds."""
    faulthandler.register(signal.SIGALRM, chain=True)  # shows where its threads are
    signal.alarm(limit)
    try:
        code = 0 if check() else 3
    except BaseException:
        traceback.print_exc()
        code = 4
    sys.stderr.flush()
    os._exit(code)


def _status(child: int) -> str:
    """Wait for a child; return how it ended."""
    return _name(os.waitpid(child, 0)[1])


def _name(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return "hung" if code == -signal.SIGALRM else signal.Signals(-code).name
    return {0: "right", 3: "wrong", 4: "raised"}.get(code, f"ended with {code}")


def attempt(kind: str, seed: int) -> bool:
    """Return whether one process of a kind ends well."""
    return forking(seed) if kind == "fork" else together(kind, seed, jumpy=seed % 2 == 1)


def _interpreter(kind: str, seed: int) -> int:
    command = [sys.executable, "-W", "ignore", "-m", "tests.stress.first_calls", "--one", kind, str(seed)]
    return os.posix_spawn(sys.executable, command, os.environ)


def run(kinds: list[str], count: int, *, cold: int, interpreters: int, jobs: int, seed: int) -> Counter[str]:
    """Return how many processes ended how, of `count` of each kind; show those that did not end well."""
    found: Counter[str] = Counter()
    running: dict[int, str] = {}

    def finish() -> None:
        pid, raw = os.wait()
        label, name = running.pop(pid), _name(raw)
        found[name] += 1
        if name != "right":
            print(f"{label}: {name}", flush=True)  # noqa: T201

    with tempfile.TemporaryDirectory() as folder:
        for i in range(count):
            for kind in kinds:
                while len(running) >= jobs:
                    finish()
                is_cold = cold and i % cold == 0
                place = Path(folder, f"{kind}{i}" if is_cold else "warm")
                os.environ["FGRAD_CACHE_DIR"] = str(place)
                if interpreters and i % interpreters == interpreters - 1:
                    child = _interpreter(kind, seed + i)
                else:
                    child = os.fork()
                    if not child:
                        _ended(lambda: attempt(kind, seed + i))
                running[child] = f"{kind} {seed + i}{' cold' if is_cold else ''}"
        while running:
            finish()
    return found


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", default=[*CALLS, "mixed", "fork"])
    parser.add_argument("--count", type=int, default=100, help="processes of each kind")
    parser.add_argument("--cold", type=int, default=10, help="every how many find no compiled code")
    parser.add_argument("--interpreters", type=int, default=20, help="every how many are no forks")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one", nargs=2, metavar=("KIND", "SEED"), help="run one in this process")
    given = parser.parse_args()
    if given.one:
        _ended(lambda: attempt(given.one[0], int(given.one[1])))
    os.environ.setdefault("FGRAD_NUM_THREADS", "4")
    failed = False
    for kind in given.kinds:
        start = time.monotonic()
        found = run(
            [kind],
            given.count,
            cold=given.cold,
            interpreters=given.interpreters,
            jobs=given.jobs,
            seed=given.seed,
        )
        print(f"{kind}: {dict(found)} in {time.monotonic() - start:.0f} s", flush=True)  # noqa: T201
        failed = failed or set(found) != {"right"}
    sys.exit(failed)


if __name__ == "__main__":
    main()
