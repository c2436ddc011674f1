"""Loops over elements: what a sweep allocates for them, and that nobody sees the buffers it writes to."""

from __future__ import annotations

import math
import types

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.core.primitive import PRIMITIVES
from fgrad.ops import indexing

RNG = np.random.default_rng(11)


class Counting(types.ModuleType):
    """NumPy, counting the elements of the arrays that are made."""

    def __init__(self):
        super().__init__("numpy")
        self.elements = 0

    def __getattr__(self, name):
        found = getattr(np, name)
        if name not in {"zeros", "array", "empty", "full"}:
            return found

        def make(*args, **kwargs):
            made = found(*args, **kwargs)
            self.elements += made.size
            return made

        return make


def reads(x):
    total = 0.0
    for i in range(x.shape[0]):
        total = total + x[i] * x[i - 1]
    return total


def slices(x):
    total = 0.0
    for i in range(0, x.shape[0] - 4, 4):
        total = total + np.sum(x[i : i + 4] * x[i + 4 : i : -1])
    return total


def gathers(x):
    total = 0.0
    for i in range(1, x.shape[0], 2):
        total = total + np.sum(x[np.array([i, i - 1, i])] ** 2)
    return total


def writes(x):
    y = x * 1.0
    for i in range(1, x.shape[0]):
        y[i] = y[i - 1] * x[i] + y[i]
    return np.sum(y * y)


def solve(lower, right):
    x = fnp.zeros(right.shape[0])
    for i in range(right.shape[0]):
        x[i] = (right[i] - lower[i, :i] @ x[:i]) / lower[i, i]
    return np.sum(x * x)


def in_one_sweep(f, x):
    """Sweep over arrays, once."""
    return fg.grad(f)(x)


def with_callbacks(f, x):
    """Sweep over arrays, where leaves are handed out as soon as they are complete."""
    t = fg.tensor(x)
    with fg.GradManager().attach(t, callback=lambda _, g: g) as gm:
        gm.backward(f(t))
    return t.grad.numpy()


def by_pullback(f, x):
    """Sweep over arrays that stay."""
    out, pullback = fg.vjp(f, x)
    pullback(np.ones_like(out))
    return pullback(np.ones_like(out))[0]


SWEEPS = [in_one_sweep, with_callbacks, by_pullback]


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("f", [reads, slices, gathers, writes])
def test_a_sweep_allocates_a_constant_number_of_buffers_for_a_loop(f, sweep, monkeypatch):
    n = 400
    counting = Counting()

    def counted(x):
        y = f(x)
        monkeypatch.setattr(indexing, "np", counting)  # from here on: the reverse pass
        return y

    sweep(counted, RNG.random(n))
    assert counting.elements <= 8 * n


def test_a_triangular_solve_allocates_in_proportion_to_its_matrix(monkeypatch):
    def elements(n):
        counting = Counting()
        args = RNG.random((n, n)) + n * np.eye(n), RNG.random(n)
        out, pullback = fg.vjp(solve, *args)
        monkeypatch.setattr(indexing, "np", counting)
        pullback(np.ones_like(out))
        monkeypatch.undo()
        return counting.elements

    assert elements(80) <= 5 * elements(40)
    assert elements(80) <= 4 * 80**2


def test_reads_in_a_recorded_sweep_are_joined(monkeypatch):
    n = 2048
    x = RNG.random(n)
    counting = Counting()

    def some(x):
        total = 0.0
        for i in range(0, n, 8):
            total = total + x[i] ** 3
        return total

    def outer(x):
        slope = fg.grad(some)(x)
        return np.sum(slope * slope)

    monkeypatch.setattr(indexing, "np", counting)
    found = fg.grad(outer)(x)
    monkeypatch.undo()
    assert counting.elements < 20 * n  # 256 reads, twice
    wanted = np.zeros(n)
    wanted[::8] = 2 * (3 * x[::8] ** 2) * (6 * x[::8])
    np.testing.assert_allclose(found, wanted)
    np.testing.assert_allclose(fg.vmap(fg.grad(some))(np.stack([x, 2 * x]))[1][::8], 12 * x[::8] ** 2)


def test_reads_in_a_staged_sweep_make_what_they_read():
    def elements(n):
        args = RNG.random((n, n)) + n * np.eye(n), RNG.random(n)
        program = fg.make_graph(fg.grad(solve, argnums=(0, 1)))(*args)
        return sum(math.prod(v.aval.shape) for e in program.equations for v in e.outs)

    assert elements(80) <= 5 * elements(40)  # of a matrix with four times as many elements, not eight


# ---- values ---------------------------------------------------------------------------------------

INDICES = {
    (): [(), ..., None, (..., None)],
    (7,): [0, -1, slice(2, 5), slice(None, None, -2), (None, 3), (..., 1), slice(5, 2), np.int64(2)],
    (3, 4): [
        1,
        (1, 2),
        (slice(None), -1),
        (..., 0),
        (slice(0, 2), None, slice(None, None, 3)),
        (-1, slice(3, 0, -1)),
    ],
    (2, 3, 4): [(0, ..., 1), (slice(None), 1), (1, 2, 3), (None, 0, slice(1), ..., None), ...],
    (0, 3): [(slice(None), 1), slice(0)],
    (40, 30): [(3, 4), (slice(0, 3), 7), (-1, slice(2, 20, 3)), (5,), (slice(None), 0), (39, 29)],
    (1100,): [0, -1, slice(5, 9), slice(20, 3, -4), 17, 17, slice(0, 700), (None, 5)],
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("shape", INDICES, ids=str)
def test_many_reads_of_one_value_add_up(shape, dtype):
    x = RNG.random(shape).astype(dtype)
    chosen = [INDICES[shape][k] for k in RNG.integers(0, len(INDICES[shape]), 40)]
    weights = RNG.random(40)
    dense = RNG.random(shape)

    def f(x):
        total = np.sum(dense * x)
        for i, w in zip(chosen, weights, strict=True):
            total = total + w * np.sum(x[i]) ** 2
        return np.real(total + np.sum(x * x))

    def slope(x):
        g = np.array(dense + 2 * x)
        for i, w in zip(chosen, weights, strict=True):
            g[i] += 2 * w * np.sum(x[i])
        return g.astype(dtype)

    def hvp(v):
        h = np.array(2 * v)
        for i, w in zip(chosen, weights, strict=True):
            h[i] += 2 * w * np.sum(v[i])
        return h.astype(dtype)

    tight = {"rtol": 1e-4 if dtype is np.float32 else 1e-11, "atol": 1e-4 if dtype is np.float32 else 1e-12}
    for sweep in SWEEPS:
        np.testing.assert_allclose(sweep(f, x), slope(x), **tight)
    np.testing.assert_allclose(fg.vmap(fg.grad(f))(np.stack([x, x + 1]))[1], slope(x + 1), **tight)
    if dtype is not np.complex128:
        v = RNG.random(shape).astype(dtype)
        back = fg.grad(lambda x: np.sum(v * fg.grad(f)(x)))(x)
        np.testing.assert_allclose(back, hvp(v), **tight)
        np.testing.assert_allclose(fg.hvp(f, (x,), (v,))[1], hvp(v), **tight)


def test_compiled_reads_add_up():
    for shape in ((40, 30), (1100,)):
        x, picked = RNG.random(shape), [i for i in INDICES[shape] for _ in range(8)]

        def f(x, picked=picked):
            total = 0.0
            for k, i in enumerate(picked):
                total = total + (k + 1) * np.sum(x[i]) ** 2
            return total

        wanted = np.zeros(shape)
        for k, i in enumerate(picked):
            wanted[i] += 2 * (k + 1) * np.sum(x[i])
        np.testing.assert_allclose(fg.jit(fg.grad(f))(x), wanted)
        np.testing.assert_allclose(fg.jit(fg.vmap(fg.grad(f)))(np.stack([x, x]))[0], wanted)


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_of_reads_and_writes(seed):
    rng = np.random.default_rng(seed)
    n, steps = 6, []
    for _ in range(14):
        kind = rng.choice(["read", "write", "add", "whole", "alias", "put", "mask", "reverse"])
        a, b = sorted(rng.integers(0, n + 1, 2))
        steps.append((kind, int(a), int(b), int(rng.integers(n)), float(rng.random() + 0.5)))

    def f(x, zeros):
        y, z, total = x * 1.0, zeros(n), 0.0
        kept = [y]
        for kind, a, b, i, w in steps:
            if kind == "read":
                total = total + w * y[i] * y[i - 1] + np.sum(z[a:b] ** 2)
            elif kind == "write":
                z[i] = w * y[i] * x[a % n]
                y[a:b] = z[a:b] * w
            elif kind == "add":
                y[a:b] += w * x[i]
                z += y
            elif kind == "whole":
                z = z * y + w
            elif kind == "alias":
                kept.append(y.copy())
                y = y + 0.0
            elif kind == "put":
                y[np.array([i, a % n])] = np.array([w, 1.0]) * z[:2]
            elif kind == "mask":
                z[np.arange(n) % 2 == i % 2] = y[i]
            else:
                z[::2] = y[::-1][::2] * w
        return total + np.sum(y * z) + sum(np.sum(np.sin(k)) for k in kept)

    x = rng.random(n) * 0.5 + 0.3
    wanted = np.array([(f(x + d, np.zeros) - f(x - d, np.zeros)) / 2e-6 for d in np.eye(n) * 1e-6])
    scale = 1 + np.max(np.abs(wanted))

    def g(x):
        return f(x, fnp.zeros)

    for sweep in SWEEPS:
        np.testing.assert_allclose(sweep(g, x) / scale, wanted / scale, atol=1e-7)
    with fg.debug_nans():  # which looks at every step, so that all cotangents are new arrays
        np.testing.assert_allclose(fg.grad(g)(x), sweep(g, x), rtol=1e-12)
    np.testing.assert_allclose(fg.jacrev(lambda x: g(x) * np.ones(2))(x)[1], fg.grad(g)(x), rtol=1e-12)
    hessian = fg.jacrev(fg.grad(g))(x)
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-9, atol=1e-9 * np.max(np.abs(hessian)))


# ---- nobody sees the buffers ----------------------------------------------------------------------


def test_seeds_are_never_written_to():
    t, dy = fg.tensor(RNG.random(5)), np.ones(5)
    with fg.GradManager().attach(t) as gm:
        y = t * 2
        for i in range(5):
            y[i] = y[i - 1] * t[i]
        gm.backward(y, dy)
    np.testing.assert_array_equal(dy, np.ones(5))


def test_what_rules_and_callbacks_keep_never_changes():
    kept = []

    @fg.custom_vjp
    def watched(x):
        return x * 1.0

    def backward(_, ct):
        kept.append((ct, np.array(ct)))
        return (ct,)

    watched.defvjp(lambda x: (watched(x), None), backward)

    def f(x):
        y = watched(x * 1.0)
        total = 0.0
        for i in range(4):
            y[i] = y[i] * x[i]
            y = watched(y)
            total = total + y[i] + np.sum(y[:2])
        return total + np.sum(y)

    t = fg.tensor(RNG.random(4))
    u = fg.tensor(RNG.random(4))
    with fg.GradManager().attach([t, u], lambda _, g: kept.append((g, g.numpy()))) as gm:
        v = t * u
        gm.attach(v, lambda _, g: kept.append((g, g.numpy())))
        gm.backward(f(v) + v[0] + t[1] + v[2])
    assert len(kept) >= 7
    for now, then in kept:
        np.testing.assert_array_equal(np.array(now), then)
    grads = [t.grad.numpy(), u.grad.numpy(), v.grad.numpy()]
    np.testing.assert_allclose(grads[0] - np.eye(4)[1], grads[2] * u.numpy())


def test_two_results_of_one_pullback_share_nothing():
    out, pullback = fg.vjp(lambda x, y: (x + y)[2] * (x + y)[:2] * x[1], RNG.random(4), RNG.random(4))
    first, second = pullback(np.ones_like(out)), pullback(np.ones_like(out))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    first[0][...] = 7.0
    assert not np.any(second[0] == 7)
    assert not np.any(first[1] == 7)


@pytest.mark.parametrize("read", [lambda a: a[1], lambda a: a[1:3], lambda a: a[np.array([1])]])
@pytest.mark.parametrize(
    "sweep", [fg.grad, lambda f, argnums: lambda *args: fg.vjp(f, *args)[1](np.ones(()))]
)
def test_a_cotangent_that_others_hold_is_not_written_to(sweep, read):
    def f(a, b, c):
        total = np.sum(read(a) * 3)
        y = c * 1.0
        y[0] = 2.0
        return total + np.sum(read(b) ** 2) + np.sum(weights * (a + b + y))  # one array for all three

    a, b, c, weights = RNG.random((4, 4))
    found = sweep(f, argnums=(0, 1, 2))(a, b, c)
    picked = np.zeros(4)
    picked[np.arange(4)[1:3] if np.size(read(a)) > 1 else [1]] = 1
    np.testing.assert_allclose(found[0], weights + 3 * picked)
    np.testing.assert_allclose(found[1], weights + 2 * b * picked)
    np.testing.assert_allclose(found[2], weights * [0, 1, 1, 1])


def test_a_sum_lies_in_memory_that_a_sweep_has_made():
    weights, seen = RNG.random((5, 5000)), []

    def multiply(*args):
        made = np.multiply(*args)
        seen.append(made)
        return made

    run = PRIMITIVES["multiply"].vjp((True, False))
    raw, run.raw = run.raw, lambda ct, y: (multiply(ct, y),)
    try:
        found = fg.grad(lambda x: sum(np.sum(x * w) for w in weights))(np.ones(5000))
    finally:
        run.raw = raw
    np.testing.assert_allclose(found, weights.sum(axis=0))
    assert any(np.shares_memory(found, x) for x in seen)  # no sum has memory of its own


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("n", [8, 5000])
def test_large_cotangents_that_are_shared_add_up(sweep, n):
    """Rules hand arrays on, return views of them, and keep them."""
    kept = []

    @fg.custom_vjp
    def watched(x):
        return x * 1.0

    def backward(_, ct):
        made = np.asarray(ct) * 1.0
        kept.append((made, made.copy()))
        return (made,)

    watched.defvjp(lambda x: (watched(x), None), backward)
    weights = RNG.random((8, n))
    before = weights.copy()

    def f(x):
        y = x * 1.0
        total = np.sum(weights[0] * y) + np.sum((y + y) * weights[1]) + weights[2] @ y + np.sum(y)
        total = total + np.sum(watched(y) * weights[3]) + np.sum(watched(watched(y)) * weights[4])
        total = total + np.sum(y.reshape(2, -1).T * weights[5].reshape(2, -1).T)
        z = y - weights[6]  # whose cotangent is that of y, too
        return total + np.sum(z * weights[7]) + np.sum(z) + np.sum(np.where(weights[0] > 2, y, z))

    found = sweep(f, RNG.random(n))
    wanted = weights[0] + 2 * weights[1] + weights[2] + weights[3] + weights[4] + weights[5] + weights[7] + 3
    np.testing.assert_allclose(found, wanted, rtol=1e-14)
    np.testing.assert_array_equal(weights, before)
    assert len(kept) >= 3
    for now, then in kept:
        np.testing.assert_array_equal(now, then)


def test_gradients_of_two_arguments_with_one_cotangent_are_apart():
    x, y = fg.grad(lambda x, y: np.sum(x + y) + np.sum(x * 2.0 + y * 2.0), (0, 1))(
        np.ones(5000), np.ones(5000)
    )
    x += 1
    np.testing.assert_array_equal(y, 3)
