"""Compiled programs when called: whose memory results are, repetition, threads, memory, kernels."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from tests.helpers import unchecked

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.compat import numpy as layout
from fgrad.compiler import Executable
from fgrad.kernels import native

RNG = np.random.default_rng(8)
X, W = RNG.standard_normal((40, 7)), RNG.standard_normal((7, 7))
TABLE = np.arange(12.0).reshape(3, 4)


def mixed(x: Any, w: Any) -> Any:
    """Use kernels, BLAS, and rows that only Python computes."""
    y = np.tanh(x @ w)
    return np.median(y, axis=1), np.cumsum(y * 2, axis=0), (y - y.mean(axis=0)).sum(axis=1)


def executable(f: Any, *args: Any) -> Executable:
    return fg.jit(f).lower(*args).compile()


PROGRAMS = {
    "kernels": (lambda x, w: (np.exp(x), np.exp(x) * 2, np.sum(x * x)), (X, W)),
    "calls": (mixed, (X, W)),
    "python": (lambda x, w: (np.sort(x, 0), (y := np.median(x, 0)) + 1, y.sum()), (X, W)),
    "twice": (lambda x, w: [y := x + 1, y, y.T.T, -y], (X, W)),
    "inputs": (lambda x, w: (x, x, w, x.T, x.reshape(-1), x[:2]), (X, W)),
    "constants": (lambda x, w: (TABLE, TABLE, TABLE.T * 1, fnp.zeros(3), 2.0 * np.ones(()), x + 1), (X, W)),
    "nothing": (lambda x, w: (), (X, W)),
    "from nothing": (lambda: (TABLE, np.arange(3.0), fnp.ones(2) * 3), ()),
    "scan": (lambda x, w: fg.lax.scan(lambda h, v: ((h := np.tanh(w @ h + v)), h), x[0], x), (X, W)),
    "empty": (lambda x, w: (x[:0] * 2, x[:0].sum(axis=0), x + 1), (X, W)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_arrays_of_their_own(name):
    f, args = PROGRAMS[name]
    run = executable(f, *args)
    given = [a.copy() for a in args]
    expected = [np.array(y) for y in fg.tree.leaves(f(*map(fg.tensor, args)))]
    kept: list[np.ndarray] = []
    for _ in range(3):
        outs = run.run(given)
        assert all(type(y) is np.ndarray for y in outs)
        kept += outs
        for y, e in zip(outs, expected, strict=True):
            assert (y.shape, y.dtype) == (e.shape, e.dtype)
            np.testing.assert_allclose(y, e, rtol=1e-12, atol=1e-12)
        for i, y in enumerate(kept):
            assert y.flags.writeable
            assert not any(np.shares_memory(y, other) for other in (*kept[:i], *given, TABLE))
        for y in outs:
            y[...] = 77  # must reach neither constants nor buffers
    for a, g in zip(args, given, strict=True):
        np.testing.assert_array_equal(a, g)
    np.testing.assert_array_equal(TABLE, np.arange(12.0).reshape(3, 4))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_run_step_by_step_where_python_lays_objects_out_otherwise(name, monkeypatch):
    f, args = PROGRAMS[name]
    expected = executable(f, *args).run(args)
    monkeypatch.setattr(layout, "layout_is_known", lambda: False)
    jitted = fg.jit(f)
    assert jitted.lower(*args).compile().entry is None
    for _ in range(2):
        for y, e in zip(fg.tree.leaves(jitted(*args)), expected, strict=True):
            np.testing.assert_array_equal(y, e)


@pytest.mark.parametrize("name", ["kernels", "calls", "scan"])
def test_any_layout_of_inputs_gives_the_same_bits(name):
    f, (x, w) = PROGRAMS[name]
    jitted = fg.jit(f)
    expected = fg.tree.leaves(jitted(x, w))
    wide = np.repeat(np.repeat(x, 2, 0), 3, 1)
    odd = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float64).reshape(x.shape)
    locked = x.copy()
    locked.flags.writeable = False
    layouts = [np.asfortranarray(x), wide[::2, ::3], x[::-1].copy()[::-1], odd, locked, x.astype(">f8")]
    assert not odd.flags.aligned
    for y in layouts:
        for _ in range(2):
            for a, e in zip(fg.tree.leaves(jitted(y, w)), expected, strict=True):
                np.testing.assert_array_equal(a, e)


def test_callbacks_get_arrays_of_their_own():
    seen: list[np.ndarray] = []

    def note(x: np.ndarray) -> np.ndarray:
        seen.append(x)
        return x * 2

    f = fg.jit(lambda x: np.sin(fg.pure_callback(note, np.zeros(3), np.cos(x))) + 1)
    xs = [np.arange(3.0) + k for k in range(4)]
    for x in xs:
        f(x)
    for x, y in zip(xs, seen, strict=True):
        np.testing.assert_allclose(y, np.cos(x))


def test_a_callback_may_call_the_same_function():
    def again(n: np.ndarray) -> np.ndarray:
        return np.asarray(f(n - 1)) if n > 0 else np.zeros(())

    f = fg.jit(lambda n: fg.pure_callback(again, np.zeros(()), n) + np.exp(n))
    np.testing.assert_allclose(f(np.asarray(3.0)), sum(np.exp(range(4))))


# ---- threads -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kernels", "calls", "scan"])
def test_calls_from_many_threads(name):
    f, (_, w) = PROGRAMS[name]
    jitted = fg.jit(f)
    xs = [RNG.standard_normal((40, 7)) for _ in range(8)]
    expected = [fg.tree.leaves(jitted(x, w)) for x in xs]
    start = Barrier(8)

    def work(k: int) -> bool:
        start.wait()
        return all(
            np.array_equal(a, e)
            for _ in range(50)
            for a, e in zip(fg.tree.leaves(jitted(xs[k], w)), expected[k], strict=True)
        )

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(8)))
    finally:
        sys.setswitchinterval(interval)


LARGE = """
import hashlib, sys
import numpy as np
import fgrad as fg
from fgrad.kernels import threads
from fgrad.kernels.pool import ThreadPool

loops = []
cut, wake = threads._cut, ThreadPool.wake
threads._cut = lambda *args: loops.append(found := cut(*args)) or found
ThreadPool.wake = lambda self: loops.append(wake(self))
rng = np.random.default_rng(0)
found = hashlib.sha256()
for dtype in (np.float32, np.float64):
    x, w = rng.standard_normal((1009, 257)).astype(dtype), rng.standard_normal(257).astype(dtype)
    loss = lambda x, w: np.sum(np.tanh(x * w + 1) ** 2)
    net = lambda x, w: (np.exp(x - x.max(1, keepdims=True)).sum(1), np.sum(x * w, axis=0), (x * w).mean())
    short = lambda x, w: (x[:, :252].reshape(-1, 3).sum(1), np.sum(np.sin(x) * w, axis=1), np.exp(x[:, 1:]))
    for f in (fg.value_and_grad(loss, (0, 1)), net, short):
        for y in fg.tree.leaves(fg.jit(f)(x, w)):
            found.update(np.asarray(y).tobytes())
print(found.hexdigest(), len(loops))
"""


def test_bits_do_not_depend_on_the_number_of_threads():
    found = []
    for threads in ("1", "2", "5"):
        env = {**os.environ, "FGRAD_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": "1"}
        ran = subprocess.run(
            [sys.executable, "-c", LARGE], env=env, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        found.append(ran.stdout.split())
    assert {bits for bits, _ in found} == {found[0][0]}
    assert found[0][1] == "0" < found[1][1]  # threads shared the work, but where there was one


# ---- memory --------------------------------------------------------------------------------------


@unchecked("Python starts programs, and its free lists take thousands of calls to be full")
@pytest.mark.parametrize("name", ["kernels", "calls", "python", "scan"])
def test_calls_leave_no_memory_behind(name):
    f, args = PROGRAMS[name]
    jitted, given = fg.jit(f), [a.copy() for a in args]
    count = 30 if name == "scan" else 1000

    def grown() -> int:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(count):
            jitted(*given)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before

    jitted(*given)
    jitted(*given)
    tracemalloc.start()
    try:
        assert min(grown() for _ in range(4)) < 8 * count  # less than a word a call, once free lists are full
    finally:
        tracemalloc.stop()


def test_a_hundred_thousand_calls_leave_no_memory_behind():
    jitted, x = fg.jit(fg.value_and_grad(lambda x: np.sum(np.sin(x) * x))), np.ones(10)
    for _ in range(1000):
        jitted(x)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(100_000):
            jitted(x)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 16_384  # a byte for six calls
    finally:
        tracemalloc.stop()


def peak(f: Any, *args: Any) -> int:
    """Return the bytes that a call allocates, at most."""
    f(*args)
    tracemalloc.start()
    try:
        f(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def deep(x: Any, w: Any) -> Any:
    for _ in range(6):
        x = np.tanh(x @ w) + x
    return x.sum()


def weighed(x: Any, w: Any) -> Any:
    return fg.nn.softmax(x @ w, axis=1).sum()


@pytest.mark.parametrize("f", [deep, weighed, lambda x, w: mixed(x, w)[2].sum()])
def test_a_program_takes_no_more_memory_than_eager_mode(f):
    x, w = np.tile(X, (50, 3)), np.tile(W, (3, 3)) / 10
    for g in (f, fg.value_and_grad(f), fg.value_and_grad(f, (0, 1))):
        cost = fg.jit(g).lower(x, w).cost()
        assert cost.temporaries <= peak(g, x, w)


def test_rows_of_a_product_are_overwritten_by_what_is_computed_of_them():
    x, w = np.tile(X, (50, 3)), np.tile(W, (3, 3)) / 10
    cost = fg.jit(fg.value_and_grad(weighed, (0, 1))).lower(x, w).cost()
    assert cost.temporaries <= (x @ w).nbytes + 64


def test_a_value_is_not_overwritten_before_the_last_that_reads_it():
    def f(x: Any, w: Any) -> Any:
        y = x @ w  # whose memory two results could have, and the second one to be written reads it
        return np.exp(w) * 2.0, y + w, np.abs(y) - w

    w = np.linspace(-1.0, 1.0, 400).reshape(20, 20)
    jitted = fg.jit(f)
    for _ in range(3):
        for found, expected in zip(jitted(w, w), f(w, w), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12)


# ---- kernels -------------------------------------------------------------------------------------


def kernels(f: Any, *args: Any) -> int:
    """Return how many different kernels a program has."""
    run = executable(f, *args)
    return len({k.text for k in run._plan.kernels})


def made() -> int:
    return sum(native.statistics())


def test_a_second_size_compiles_nothing():
    def loss(x: Any, w: Any) -> Any:
        y = fg.nn.softmax(np.tanh(x @ w) * 3.0, axis=1)
        return np.mean(np.log(y + 1)) + np.max(x, axis=0).sum()

    f = fg.jit(fg.value_and_grad(loss, (0, 1)))
    for size, columns in ((40, 20), (50, 20), (333, 20), (40, 31), (57, 44)):
        x, w = RNG.standard_normal((size, columns)), RNG.standard_normal((columns, columns))
        before = made()
        value, _ = f(x, w)
        assert (made() > before) is ((size, columns) == (40, 20))
        np.testing.assert_allclose(value, loss(x, w), rtol=1e-12)


def test_equal_steps_share_their_kernels():
    def steps(n: int) -> Any:
        def f(h: Any, w: Any) -> Any:
            for _ in range(n):
                h = np.tanh(w @ h + h)
            return (h * h).sum()

        return fg.value_and_grad(f, (0, 1))

    h, w = np.ones(20), np.ones((20, 20)) / 40
    assert kernels(steps(8), h, w) == kernels(steps(16), h, w)


def test_components_of_an_array_share_a_kernel():
    def pick(*k: int) -> Any:
        return executable(lambda x: np.exp(x[:, k[0]]) * x[::-1, k[1]], np.ones((90, 6)))._plan.kernels[0]

    assert pick(1, 2).text == pick(4, 5).text != pick(4, 4).text
    assert (
        len(pick(1, 2).numbers) == len(pick(0, 1).numbers) + 1
    )  # where nothing lies before, nothing is added
    x = RNG.standard_normal((90, 6))
    for k in range(6):
        found = fg.jit(lambda x, k=k: np.exp(x[:, k]) * x[::-1, 2])(x)
        np.testing.assert_allclose(found, np.exp(x[:, k]) * x[::-1, 2], rtol=1e-14)


def test_costs_are_counted():
    cost = fg.jit(lambda x: np.sum(np.exp(x) + 2)).lower(np.ones(1000)).cost()
    assert cost.kernels == 1
    assert cost.temporaries == 0
    assert cost.bytes >= 8 * 1000
    assert cost.flops >= 2000
