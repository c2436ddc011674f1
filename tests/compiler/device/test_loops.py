"""Loops and branches of compiled programs on a device: kernels launched for every step, forward and back."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend.checks import no_transfers, on_device, same
from tests.backend.conftest import quick_switching as quick_switching  # noqa: PLC0414 -- a fixture of these tests too

import fgrad as fg
from fgrad.backend import devices
from fgrad.compiler.device import executable as compiled
from fgrad.compiler.device.executable import WARM
from fgrad.compiler.device.plan import LibraryCall, within
from fgrad.compiler.device.runtime import FIRST

lax = fg.lax
RNG = np.random.default_rng(0)
X, W = RNG.uniform(0.5, 1.5, (6, 4)), RNG.uniform(-0.5, 0.5, (4, 4))


def network(x, w):
    end, ys = lax.scan(lambda h, r: (np.tanh(h @ w + r), h * 2), np.zeros(4), x)
    return np.sum(end**2) + np.sum(ys)


def until(x):
    return np.sum(lax.while_loop(lambda v: (v < 9).all(), lambda v: v * v + 1, x))


def nested(x):
    grow = lambda i, v: lax.while_loop(lambda u: u.sum() < 9 * (i + 1), lambda u: u * 1.7 + 0.1, v)
    return np.sum(lax.fori_loop(0, 3, grow, x) ** 2)


def branch(x):
    return np.sum(lax.cond(x.sum() > 2, lambda x: np.sin(x) * x, lambda x: x**2, x))


def choices(x):
    ways = [lambda x: x * 2, np.exp, np.sort]
    return np.sum(lax.fori_loop(0, 3, lambda i, v: v + lax.switch(i, ways, x).sum() * v, x))


PROGRAMS = {  # the function, its arguments, and what is read forward and in the reverse pass
    "scan": (network, (X, W), 0, 0),
    "in reverse": (
        lambda x: np.sum(lax.scan(lambda c, r: (c * r, c + r), x[0], x, reverse=True)[1]), (X,), 0, 0),
    "no results": (lambda x: np.sum(lax.scan(lambda c, r: (np.sin(c) * r, None), x[0], x)[0]), (X,), 0, 0),
    "nothing computed": (
        lambda x: np.sum(lax.fori_loop(0, 3, lambda i, c: (c[1], c[0]), (x, x * x))[0]), (X,), 0, 0),
    "library calls inside": (
        lambda x, w: np.sum(lax.fori_loop(0, 2, lambda i, c: np.linalg.solve(w + 4 * np.eye(4), c), x.T)),
        (X, W), None, None),
    "kept few": (
        lambda x: np.sum(lax.scan(lambda c, r: (np.sin(c) * r, None), x[0], x, checkpoint=2)[0]), (X,), 0, 0),
    "while": (until, (X,), 3, 3),
    "nested": (nested, (X / 4,), None, None),
    "cond": (branch, (X,), 1, None),
    "the other way": (branch, (X / 100,), 1, None),
    "switch": (choices, (X[0],), 3, None),
}  # fmt: skip


def reads():
    return devices.transfers()["reads"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(name):
    f, args, forward, back = PROGRAMS[name]
    given = [on_device(a) for a in args]
    for g, expected in ((f, forward), (lambda *a: fg.grad(f)(*a), back)):
        jitted, values = fg.jit(g), g(*args)
        same(jitted(*given), values)
        for _ in range(WARM + 1):
            before = reads()
            with no_transfers(reads=True):
                found = jitted(*given)
            if expected is not None:
                assert reads() - before == expected
            same(found, values)


@pytest.mark.parametrize("name", ["scan", "while", "nested", "cond"])
def test_second_derivatives(name):
    f, args, *_ = PROGRAMS[name]
    curvature = lambda x, *rest: fg.grad(lambda x: np.sum(fg.grad(f)(x, *rest) ** 2))(x)
    same(fg.jit(curvature)(*map(on_device, args)), curvature(*args))


@pytest.mark.parametrize("name", ["scan", "while", "cond"])
def test_examples(name):
    f, args, *_ = PROGRAMS[name]
    pairs = [np.stack([a, a / 2]) for a in args]
    mapped = fg.vmap(fg.grad(f))
    same(fg.jit(mapped)(*map(on_device, pairs)), mapped(*pairs))


def made_of(f, *args):
    return fg.jit(f).lower(*args)._procedure.on(on_device(args[0])._value.place)


@pytest.mark.parametrize("name", ["scan", "in reverse", "no results", "while", "cond"])
def test_no_step_is_left_to_python(name):
    f, args, *_ = PROGRAMS[name]
    for g in (f, lambda *a: fg.grad(f)(*a)):
        steps = list(within(made_of(g, *args).plan.steps))
        assert not any(isinstance(s, LibraryCall) for s in steps)


def test_which_loops_are_recorded(monkeypatch):
    assert made_of(network, X, W)._pays
    assert made_of(lambda x: fg.grad(network)(x, W), X)._pays
    for name in ("while", "nested", "cond"):
        f, args, *_ = PROGRAMS[name]
        assert not made_of(f, *args)._pays
    monkeypatch.setattr(compiled, "NODES", len(X))  # fewer than a launch for each step, and what is around
    assert not made_of(network, X, W)._pays


def test_a_scan_is_replayed(monkeypatch):
    recorded = []
    library = on_device(X)._value.place.library
    monkeypatch.setattr(type(library), "recorded", lambda self, f: recorded.append(f) or f)
    f = fg.jit(lambda x, w: fg.grad(network, (0, 1))(x, w))
    for k in range(WARM + 3):
        same(f(on_device(X + k), on_device(W)), fg.grad(network, (0, 1))(X + k, W))
    assert len(recorded) == 1


@pytest.mark.parametrize("steps", [0, 1, FIRST, FIRST + 1, 2 * FIRST + 3])
def test_stacks_grow(steps):
    def f(x):
        _, y = lax.while_loop(lambda v: v[0] < steps, lambda v: (v[0] + 1, np.sin(v[1]) * 1.1), (0, x))
        return np.sum(y**2)

    x = X[:2, 0].copy()
    same(fg.jit(lambda x: fg.grad(f)(x))(on_device(x)), fg.grad(f)(x))


def test_values_without_elements():
    f = lambda x: lax.scan(lambda c, r: (c * 2, c + r.sum()), x[:, :0], x)
    same(fg.jit(f)(on_device(X)), f(X))


def test_several_results_of_a_primitive_inside():
    f = lambda x: lax.fori_loop(0, 2, lambda i, c: tuple(np.linalg.qr(c[0] + c[1])), (x, x * 2))
    same(fg.jit(f)(on_device(W)), f(W))
    f = lambda x: lax.fori_loop(0, 2, lambda i, c: np.linalg.qr(c)[1] + c, x)
    same(fg.jit(f)(on_device(W)), f(W))


def test_loops_without_steps():
    f = lambda x: lax.scan(lambda c, r: (c + r, c * r), x, np.zeros((0, 4)))
    same(fg.jit(f)(on_device(X[0])), f(X[0]))
