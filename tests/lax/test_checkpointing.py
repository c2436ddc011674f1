"""Loops that keep few states: schedules against exhaustive search, counts, memory, and refusals."""

from __future__ import annotations

import functools
import tracemalloc

import numpy as np
import pytest
from tests.helpers import close

import fgrad as fg
from fgrad import lax
from fgrad.lax.checkpointing import binomial, fewest_steps, split


@functools.cache
def searched(n, s):
    """Return the fewest steps by dynamic programming, the definition."""
    if n <= 1:
        return 0
    if s == 1:
        return n * (n - 1) // 2
    return min(m + searched(n - m, s - 1) + searched(m, s) for m in range(1, n))


def test_the_schedule_is_the_best_there_is():
    for s in range(1, 7):
        for n in range(1, 45):
            assert fewest_steps(n, s) == searched(n, s)
            if s > 1 and n > 1:
                m = split(n, s)
                assert m + searched(n - m, s - 1) + searched(m, s) == searched(n, s)


def repetitions(n, s):
    return next(r for r in range(n + 1) if binomial(s, r) >= n) if n else 0


@pytest.mark.parametrize("n, s", [(0, 1), (1, 1), (2, 1), (5, 1), (10, 3), (57, 2), (57, 5), (57, 100)])
@pytest.mark.parametrize("known", [True, False])
def test_gradients_and_the_number_of_steps(n, s, known):
    seen = np.zeros(n, int)

    def body(state, i):
        x, w = state
        seen[i] += 1
        return np.sin(x) * w + 0.01 * i, w

    def f(x, w):
        steps = range(n) if known else iter(range(n))
        return fg.checkpointed(body, (x, w), steps, budget=s)[0] * 1.0

    def plainly(x, w):
        for i in range(n):
            x = np.sin(x) * w + 0.01 * i
        return x * 1.0

    for got, expected in zip(fg.grad(f, (0, 1))(0.3, 1.1), fg.grad(plainly, (0, 1))(0.3, 1.1), strict=True):
        close(got, expected)
    r = repetitions(n, s)
    # each step runs forward, is recorded once, and is made again at most r times; a known number costs the
    # published least, and once more the way from the last kept state, as the loop ended before it turned
    assert np.all(seen <= r + 2)
    if known:
        assert seen.sum() <= n + 1 + fewest_steps(n, s) + r


def test_closures_pytrees_and_every_transformation():
    w = fg.tensor(np.array([0.5, -0.3]))

    def f(x, steps=9):
        out = fg.checkpointed(
            lambda s, i: {"a": np.tanh(s["a"] * w + i), "n": s["n"] + 1},
            {"a": x, "n": 0},
            range(steps),
            budget=3,
        )
        return np.sum(out["a"] ** 2) * out["n"]

    def plainly(x, steps=9):
        for i in range(steps):
            x = np.tanh(x * w + i)
        return np.sum(x**2) * steps

    x = np.array([0.1, 0.2])
    for g in (f, plainly):
        w.grad = None
        manager = fg.GradManager()
        with manager.attach(w):
            manager.backward(g(x))
        g.slope = w.grad
    close(f.slope, plainly.slope)
    close(fg.hessian(f)(x), fg.hessian(plainly)(x))
    close(fg.jvp(f, (x,), (x,))[1], fg.jvp(plainly, (x,), (x,))[1])
    close(
        fg.grad(lambda x: np.sum(fg.grad(f)(x) ** 2))(x),
        fg.grad(lambda x: np.sum(fg.grad(plainly)(x) ** 2))(x),
    )
    xs = np.stack([x, 2 * x, x - 1])
    close(fg.vmap(fg.grad(f))(xs), [fg.grad(plainly)(v) for v in xs])
    close(fg.grad(lambda xs: np.sum(fg.vmap(f)(xs)))(xs), [fg.grad(plainly)(v) for v in xs])
    _, pullback = fg.vjp(f, x)
    for _ in range(3):
        close(pullback(np.ones(()))[0], fg.grad(plainly)(x))


def test_results_that_only_later_differ_between_examples():
    def f(w, **options):
        return np.sum(lax.scan(lambda c, x: (c * w + x, c), 1.0, np.arange(4.0), **options)[1])

    ws = np.array([0.5, 1.0, 2.0])
    total = lambda **o: fg.grad(lambda k: np.sum(fg.vmap(lambda w: f(k * w, **o))(ws)))(1.5)
    close(total(checkpoint=2), total())


@pytest.mark.parametrize("known", [True, False])
def test_memory_is_that_of_the_budget(known):
    size, n, budget = 20_000, 2000, 20
    steps = range(n) if known else iter(range(n))
    x = np.ones(size)
    tracemalloc.start()
    try:
        f = lambda x: np.sum(fg.checkpointed(lambda s, _: s * 0.999 + 0.001, x, steps, budget=budget))
        gradient = fg.grad(f)(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    close(gradient, np.full(size, 0.999**n))
    assert peak < (1.2 * budget + 6) * size * 8


def test_memory_without_a_budget_is_logarithmic():
    held = []

    def peak(n):
        tracemalloc.start()
        try:
            fg.grad(lambda x: np.sum(fg.checkpointed(lambda s, _: s * 0.999, x, range(n))))(np.ones(10_000))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    held = [peak(n) / 80_000 for n in (30, 900)]
    assert held[0] < 25
    assert held[1] < 40


def test_a_body_that_differs_when_it_runs_again_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(RuntimeError, match=r"checkpointed of .*computed other values when it ran again"):
        fg.grad(lambda x: fg.checkpointed(lambda s, _: s * rng.normal(), x, range(9), budget=3))(1.0)
    with pytest.raises(RuntimeError, match=r"scan of .*computed other values"):
        fg.grad(lambda x: lax.scan(lambda c, v: (c * rng.normal(), v), x, np.ones(9), checkpoint=3)[0])(1.0)


def test_what_is_refused():
    with pytest.raises(TypeError, match=r"checkpointed: .*float64\[2\] on entry and float64\[1\] on return"):
        fg.checkpointed(lambda s, _: s[:1], np.ones(2), range(3))
    with pytest.raises(ValueError, match="positive integer, not -1"):
        fg.checkpointed(lambda s, _: s, 1.0, range(3), budget=-1)
    x, manager = fg.tensor(1.0), fg.GradManager()
    manager.attach(x)
    with manager, pytest.raises(RuntimeError, match="attach them before the loop"):

        def body(s, _):
            y = s * x
            manager.attach(y)
            return y * 2.0

        fg.checkpointed(body, 1.0, range(3))


def test_without_a_gradient_it_is_a_loop():
    assert fg.checkpointed(lambda s, i: s + i, 0, range(5)) == 10
    assert fg.checkpointed(lambda s, c: s + c, "", "abc") == "abc"
    assert fg.checkpointed(lambda s, i: s + i, 0, iter([])) == 0
