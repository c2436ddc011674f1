"""Memory of compiled programs on a device: one arena, outputs of their own, donated inputs used again."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from tests.backend.checks import on_device, same
from tests.backend.conftest import quick_switching as quick_switching  # noqa: PLC0414 -- a fixture of these tests too

import fgrad as fg
from fgrad.backend.array import DeviceArray
from fgrad.compiler import contractions
from fgrad.compiler.device.executable import WARM
from fgrad.compiler.device.plan import Launch, Plan
from fgrad.core.program import Var

RNG = np.random.default_rng(0)
X, W = RNG.uniform(-1, 1, (18, 20)), RNG.uniform(-0.3, 0.3, (20, 20))  # too long to be written out


def network(x, w):
    for _ in range(4):
        x = np.tanh(x @ w) + x[:, :1]
    return x, x.sum()


def powers(x, w):
    return fg.lax.fori_loop(0, 5, lambda _, y: np.tanh(y @ w), x)


@pytest.fixture
def asked(monkeypatch):
    """Count what is asked of the library, by name."""
    library = type(on_device(X)._value.place.library)
    find, counts = library.find, Counter()

    def counting(self, name):
        f = find(self, name)

        def call(*args, **kw):
            counts[name] += 1
            return f(*args, **kw)

        return call

    monkeypatch.setattr(library, "find", counting)
    return counts


def executable(jitted, *args):
    return jitted.lower(*args)._procedure.on(on_device(args[0])._value.place)


@pytest.mark.parametrize("graphs", ["0", "1"])
@pytest.mark.parametrize(
    ("f", "outputs"), [(network, 2), (lambda x, w: fg.grad(lambda w: network(x, w)[1])(w), 1), (powers, 1)]
)
def test_a_call_allocates_its_outputs_only(monkeypatch, asked, f, outputs, graphs):
    monkeypatch.setenv("FGRAD_CUDA_GRAPHS", graphs)
    jitted, x, w = fg.jit(f), on_device(X), on_device(W)
    made = []
    for call in range(WARM + 4):
        asked.clear()
        same(jitted(x, w), f(X, W))
        made.append(dict(asked))
        if call == 0:
            assert asked["empty"] == outputs + 1  # and the arena
        elif graphs == "0" or call > WARM:  # the graph has memory for arguments and results
            assert asked["empty"] == outputs
        assert set(asked) <= {"empty", "matmul"}


def test_temporaries_share_the_arena(monkeypatch):
    monkeypatch.setattr(contractions, "LITTLE", 0)  # products are cuBLAS's

    def deep(x, w):
        for _ in range(4):
            x = np.tanh(x @ w)
        return x

    plan = executable(fg.jit(deep), X, W).plan
    one = -(-X.nbytes // plan.align) * plan.align
    assert plan.total == 7 * X.nbytes  # four products, and all but the last of four activations
    assert plan.size == 2 * one  # of a product the argument and the result; activations lie where those lay


def test_calls_from_many_threads_do_not_share_memory(asked):
    from concurrent.futures import ThreadPoolExecutor

    f = fg.jit(network)
    args = [(on_device(X * k), on_device(W)) for k in range(1, 5)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            for k, found in enumerate(pool.map(lambda a: f(*a), args), 1):
                same(found, network(X * k, W))


def test_results_of_primitives_that_are_views_are_copied_out_of_the_arena():
    def f(x):
        z = (x + 1j * x).T  # complex numbers have no kernels: rows compute them
        return np.sort((z.real + 1) @ np.ones((18, 18))) * 2, np.abs(z[:3]) + 1

    jitted = fg.jit(f)
    for _ in range(WARM + 2):
        same(jitted(on_device(X)), f(X))


def given(x):
    return on_device(x)._value


def test_results_lie_in_the_memory_of_donated_arguments():
    f = lambda x, y: (x * 2 + y, y + 1)
    jitted = fg.jit(f, donate_argnums=0)
    for k in range(WARM + 3):
        x, y = given(X + k), given(X)
        found, other = jitted(x, y)
        assert isinstance(found, DeviceArray)
        assert found.buffer is x.buffer
        assert other.buffer is not y.buffer
        np.testing.assert_array_equal(found.download(), 2 * (X + k) + X)
        np.testing.assert_array_equal(y.download(), X)
        np.testing.assert_array_equal(other.download(), X + 1)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[::-1] * 2.0,  # another place is read
        lambda x: x + x.sum(),
        lambda x: (x * 2, x[:, ::-1] + 1),
        lambda x: x @ np.ones((20, 20)),
        lambda x: x - np.sort(x, 1),
        lambda x: fg.nn.softmax(x) * 2,
        lambda x: (x - x.mean(1, keepdims=True)) * x,
        lambda x: fg.lax.scan(lambda c, r: (c + r, c * r), x[0], x)[1],
    ],
)
def test_donated_arguments_are_read_before_they_are_overwritten(f):
    jitted = fg.jit(f, donate_argnums=0)
    for _ in range(WARM + 2):
        found = jitted(given(X))
        for y, e in zip(fg.tree.leaves(found), fg.tree.leaves(f(X)), strict=True):
            np.testing.assert_allclose(y.download(), e, rtol=1e-12)


def test_a_donated_argument_that_is_given_twice_is_copied():
    f = fg.jit(lambda x, y: x * 2 + y[::-1], donate_argnums=0)
    for _ in range(WARM + 2):
        x = given(X)
        np.testing.assert_allclose(f(x, x).download(), X * 2 + X[::-1])
        np.testing.assert_array_equal(x.download(), X)


def late(x, y, w):
    return np.tanh(x @ w) * np.exp(y @ w)


@pytest.mark.parametrize("donated", [(), (0, 1)])
@pytest.mark.parametrize(
    "f", [late, lambda x, y, w: fg.grad(lambda w: late(x, y, w).sum())(w), lambda x, y, w: x * y]
)
def test_the_order_of_sets_does_not_decide_where_values_lie(monkeypatch, f, donated):
    """Variables are hashed by their addresses: each process has another order."""
    place, found = on_device(X)._value.place, set()
    for seed in range(8):
        hashes = {}  # of a variable, which it keeps alive
        draw = random.Random(seed).getrandbits
        monkeypatch.setattr(
            Var, "__hash__", lambda v, h=hashes, draw=draw: h.setdefault(id(v), (draw(16), v))[0]
        )
        program = fg.jit(lambda x, y, w: f(x, y, w)).lower(X, X, W)._procedure.program
        plan = Plan(program, place, donated)
        steps = [(s.grid.text, s.slots) if isinstance(s, Launch) else s for s in plan.steps]
        found.add(repr([steps, plan.donations, [b and (b.offset, b.size) for b in plan.slots]]))
    monkeypatch.undo()
    assert len(found) == 1
