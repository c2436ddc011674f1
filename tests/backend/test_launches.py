"""What is launched for an operation on a device: one kernel where it is a pass over elements or rows."""

from __future__ import annotations

import gc
import weakref
from collections import Counter

import numpy as np
import pytest
from tests.backend.checks import no_transfers, on_device, same

import fgrad as fg
from fgrad.backend import library
from fgrad.compiler.device import executable
from fgrad.core.caches import LRU
from fgrad.kernels import launching
from fgrad.transforms import compiled_rules
from fgrad.transforms.guard import MISS

RNG = np.random.default_rng(0)
X, V = RNG.uniform(-2, 2, (3, 40)), RNG.uniform(0.5, 1.5, 40)


class Counting:
    """Stands for the lock of the simulator, and counts who takes it: every kernel does."""

    def __init__(self, lock):
        self.lock, self.kernels, self.library = lock, 0, Counter()

    def __enter__(self):
        self.kernels += 1
        return self.lock.__enter__()

    def __exit__(self, *error):
        return self.lock.__exit__(*error)


@pytest.fixture
def launches(monkeypatch):
    """Count the kernels that are launched, and what is asked of the library beside memory."""
    counting = Counting(launching.simulation)
    monkeypatch.setattr(launching, "simulation", counting)
    find = library.Simulated.find

    def found(self, name):
        f = find(self, name)

        def call(*args, **kw):
            if name != "empty":
                counting.library[name] += 1
            return f(*args, **kw)

        return call

    monkeypatch.setattr(library.Simulated, "find", found)
    return counting


ONE = {  # forward and back one kernel each
    "erf": (fg.scipy.special.erf, X),
    "sigmoid": (fg.scipy.special.expit, X),
    "gelu": (fg.nn.gelu, X),
    "silu": (fg.nn.silu, X),
    "elu": (fg.nn.elu, X),
    "softmax": (fg.nn.softmax, X),
    "log_softmax": (fg.nn.log_softmax, X),
    "logsumexp": (lambda x: fg.nn.logsumexp(x, -1), X),
    "float32": (fg.nn.softmax, X.astype("f")),
}


@pytest.mark.parametrize("name", ONE)
def test_one_launch_forward_and_one_back(launches, name):
    f, x = ONE[name]
    given, ct = on_device(x), on_device(np.cos(f(x)))
    for _ in range(2):  # compiled first
        launches.kernels = 0
        out, back = fg.vjp(f, given)
        assert launches.kernels == 1
        (slope,) = back(ct)
        assert launches.kernels == 2
        launches.library.clear()
    with no_transfers():
        out, back = fg.vjp(f, given)
        (slope,) = back(ct)
    assert not launches.library
    expected, back = fg.vjp(f, fg.tensor(x))
    same(out, expected)
    same(slope, back(fg.tensor(np.cos(f(x))))[0], 10)


def test_layer_norm(launches):
    x = RNG.uniform(-2, 2, (8, 40))
    f = lambda x, w, b: fg.nn.layer_norm(x, w, b)
    given, ct = [on_device(a) for a in (x, V, V - 1)], on_device(np.cos(x))
    for _ in range(2):
        launches.kernels = 0
        out, back = fg.vjp(f, *given)
        assert launches.kernels == 1
        slopes = back(ct)
        assert launches.kernels == 3  # one along rows for x, and one down columns for both parameters
        launches.kernels = 0
        fg.vjp(lambda x: f(x, *given[1:]), given[0])[1](ct)
        assert launches.kernels == 2
    expected, back = fg.vjp(f, *map(fg.tensor, (x, V, V - 1)))
    same(out, expected)
    same(slopes, back(fg.tensor(np.cos(x))), 10)


def test_systems_of_a_block_of_threads_are_one_launch(launches):
    bands, a = RNG.uniform(1, 2, (2, 3, 5)) + np.array([[0], [4], [0]]), X[:, :9].reshape(3, 3, 3)
    for f, args in (
        (lambda ab, b: fg.scipy.linalg.solve_banded((1, 1), ab, b), (bands, V[:10].reshape(2, 5, 1))),
        (fg.scipy.linalg.ldl, (a,)),
    ):
        given, launches.kernels = [on_device(x) for x in args], 0
        same(f(*given), f(*args))
        assert launches.kernels == 1


def test_systems_without_right_hand_sides_are_not_asked_of_the_library(launches):
    a = np.stack([np.eye(3)] * 2)
    for lead in ((), (2,)):
        same(np.linalg.solve(on_device(a), on_device(np.zeros((*lead, 3, 0)))), np.zeros((2, 3, 0)))
    assert not launches.library["linalg.solve"]


def test_shapes_that_broadcast_and_views():
    f = lambda x, a: fg.nn.elu(x, a)
    for x, a in [(X, V), (X.T, V[:3]), (X[::-1, ::2], np.array(0.5)), (X[:, :0], V[:0]), (X[0, 0], V)]:
        x = np.asarray(x)
        same(f(on_device(x), on_device(a)), f(x, a))
        y, back = fg.vjp(f, on_device(x), on_device(a))
        expected = fg.vjp(f, fg.tensor(x), fg.tensor(a))[1](fg.tensor(np.ones(y.shape)))
        same(back(on_device(np.ones(y.shape))), expected)
    same(fg.nn.elu(on_device(X), 0.5), fg.nn.elu(X, 0.5))
    same(fg.nn.elu(on_device(X.astype("f")), 0.1), fg.nn.elu(X.astype("f"), 0.1))


def test_other_dtypes_and_second_derivatives():
    half = X.astype(np.float16)
    for f in (fg.nn.softmax, fg.nn.gelu):
        same(f(on_device(half)), f(half))
        g = lambda x, f=f: fg.grad(lambda x: np.sum(fg.grad(lambda x: np.sum(f(x) ** 2))(x) ** 2))(x)
        same(g(on_device(X)), g(X), 10)
    each = fg.vmap(fg.grad(lambda x: fg.nn.softmax(x)[0]))
    same(each(on_device(X)), each(X))


@pytest.mark.parametrize("sent", [True, False])
def test_gradients_of_indexing_are_sums_by_kernels(launches, sent):
    """Their order is always the same, where the library would add with atomic operations."""
    places = RNG.integers(-3, 3, (5, 2))
    x, ct = X.astype("f"), RNG.uniform(-1, 1, (5, 2, 40)).astype("f")
    given = on_device(places) if sent else places
    for index in (lambda i: i, lambda i: (i, slice(None, None, 2)), lambda i: (Ellipsis, i)):
        chosen = fg.vjp(lambda x, index=index: x[index(given)], on_device(x))
        weights = np.resize(ct, chosen[0].shape)
        launches.library.clear()
        (slope,) = chosen[1](on_device(weights))
        assert launches.library.keys() <= {"argsort", "full"}
        expected = np.zeros_like(x)
        np.add.at(expected, index(places), weights)
        same(slope, expected)


def test_eager_operations_hold_on_to_little_memory(monkeypatch):
    contexts = []

    def made(*args, context=executable.Context):
        found = context(*args)
        contexts.append(weakref.ref(found))
        return found

    monkeypatch.setattr(compiled_rules, "PROGRAMS", LRU())
    monkeypatch.setattr(compiled_rules, "BYTES", 0)
    monkeypatch.setattr(executable, "Context", made)
    f = lambda x: fg.nn.layer_norm(x, on_device(V), on_device(V))
    gc.disable()
    try:
        for _ in range(2):
            fg.vjp(f, on_device(X))[1](on_device(X))
            fg.vjp(lambda x: x[on_device(np.array([0, 2, 0]))], on_device(X))[1](on_device(X))
        alive = [c() for c in contexts if c() is not None]
    finally:
        gc.enable()
    assert any(e.plan.size for e in compiled_rules.PROGRAMS.young.values())
    assert not any(c.plan.size for c in alive)


def test_tensors_on_a_device_have_a_short_way():
    f = fg.jit(lambda x, y: (np.tanh(x) * y, x.sum()))
    x, y = np.linspace(-1, 1, 6).reshape(2, 3), np.arange(3.0)
    given = [on_device(a) for a in (x, y)]
    for _ in range(3):
        same(f(*given), (np.tanh(x) * y, x.sum()))
    (short,) = f._guards
    same(short(tuple(given), {}), (np.tanh(x) * y, x.sum()))
    second = [fg.tensor(a, device="cuda:1") for a in (x, y)]
    for others in (second, [given[0], second[1]], [fg.tensor(a) for a in (x, y)], [x, y], [given[0], 2.0],
                   [on_device(x[:1]), given[1]], [on_device(x.astype("f")), given[1]]):  # fmt: skip
        assert short(tuple(others), {}) is MISS
    assert f(*second)[0].device == "cuda:1"
    np.testing.assert_allclose(f(x, y)[0], np.tanh(x) * y, rtol=1e-12)
    with pytest.raises(TypeError, match="different devices"):
        f(given[0], second[1])
    slope = fg.grad(lambda x: f(x, given[1])[0].sum())(given[0])
    same(slope, (1 - np.tanh(x) ** 2) * y)


def test_outputs_of_the_short_way_are_arrays_of_their_own():
    f = fg.jit(lambda x: (x, x * 2, x.T, np.ones(2), 3.0))
    x = on_device(np.arange(6.0).reshape(2, 3))
    for _ in range(3):
        found = f(x)
    assert f._guards
    assert len({id(y._value.buffer) for y in found[:4]}) == 4
    assert all(y._value.buffer is not x._value.buffer for y in found[:4])
    expected = np.arange(6.0).reshape(2, 3)
    same(found[:3], (expected, expected * 2, expected.T))
