"""Compiled programs on a device: the CPU's results, from kernels of every kind, launched or replayed."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend.checks import DEVICE, no_transfers, on_device, same
from tests.backend.conftest import quick_switching as quick_switching  # noqa: PLC0414 -- a fixture of these tests too

import fgrad as fg
from fgrad.compiler import contractions
from fgrad.compiler.device import executable as compiled
from fgrad.compiler.device import plan as laid_out
from fgrad.compiler.device.grids import CHUNK, RUN
from fgrad.kernels import launching

RNG = np.random.default_rng(0)
X, W, V = RNG.uniform(0.5, 1.5, (6, 20)), RNG.uniform(-1, 1, (20, 3)), RNG.uniform(-1, 1, 20)
LONG = RNG.uniform(-1, 1, 16 * RUN + 3)
WIDE = RNG.uniform(-1, 1, (CHUNK + 3, 256))


SQUARE = RNG.uniform(-0.3, 0.3, (20, 20))


def many(x):
    """Compute something by more launches than there are arguments and results."""
    for _ in range(3):
        x = np.tanh(x @ SQUARE)
    return x


def loss(x, w):
    return np.sum(np.tanh(x @ w) ** 2)


PROGRAMS = {  # name: the function, the kinds of steps it becomes, its arguments
    "flat": (lambda x: np.sin(x) * x + 1, ["flat"], X),
    "broadcast": (lambda x, v: np.exp(x * v) + v, ["flat"], X, V),
    "transposed": (lambda x: (x.T * 2)[::-1, 1:4], ["flat"], X),
    "pieces": (lambda x: np.concatenate([x, x * 2], 1)[:, ::3], ["flat"], X),
    "truths": (lambda x: np.where(x > 1, x, 0) + (x > 1), ["flat"], X),
    "gather": (lambda x: x[np.array([0, -2, 1])] * 2, ["flat"], X),
    "float32": (lambda x: np.tanh(x) * np.float32(2), ["flat"], X.astype("f")),
    "sum": (lambda x: np.sum(x * x), ["blocks"], X[:, 0]),
    "long sum": (lambda x: np.sum(x * x), ["blocks", "joined"], LONG),
    "rows": (lambda x: np.sum(x * x, 1), ["blocks"], X),
    "few columns": (lambda x: np.max(x * x, 0), ["blocks"], X),
    "columns": (lambda x: np.sum(x, 0), ["columns", "joined"], WIDE),
    "middle": (lambda x: np.prod(x, 1), ["blocks"], RNG.uniform(0.5, 1.5, (2, 5, 3))),
    "reductions of the same": (lambda x: (x.sum(0), (x * x).sum(0), x.max(0), (x > 1).sum(0)), ["blocks"], X),
    "long reductions of the same": (
        lambda x: (x.sum(), x.min(), (x > 0).sum()), ["blocks", "joined"], LONG),
    "columns of the same": (lambda x: (x.sum(0), x.max(0)), ["columns", "joined"], WIDE),
    "one after the other": (
        lambda x: ((x - x.sum(0)) ** 2).sum(0) + x.max(0), ["blocks", "blocks", "flat"], X),
    "integers": (lambda x: (x * 10).astype(int).sum(0) // 3, ["blocks", "flat"], X),
    "any": (lambda x: (x > 1.4).any(1), ["rows"], X),
    "softmax": (fg.nn.softmax, ["rows"], X),
    "small softmax": (fg.nn.softmax, ["rows"], X[:, :5]),
    "softmax, then columns": (lambda x: fg.nn.softmax(x).sum(0), ["rows", "blocks"], X),
    "standardized": (
        lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1), ["rows"], X),
    "normalized by all": (lambda x: x / np.sqrt((x * x).sum()), ["blocks", "joined", "flat"], X),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    f, steps, *args = PROGRAMS[name]
    jitted = fg.jit(f)
    given = [on_device(a) for a in args]
    expected = f(*args)
    scale = 100 if name == "float32" else 1
    for call in range(compiled.WARM + 2 if name in {"softmax", "long sum"} else 1):
        if call:
            with no_transfers():
                found = jitted(*given)
        else:
            found = jitted(*given)
        same(found, expected, scale)
    executable = jitted.lower(*args)._procedure.on(given[0]._value.place)
    kinds = [grid.kind for grid in executable.grids]
    assert sorted(kinds) == sorted(steps), executable.source


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("name", ["softmax", "long sum", "rows", "few columns", "standardized"])
def test_any_block(monkeypatch, threads, name):
    chip = launching.device()._replace(threads=threads, blocks=3)
    monkeypatch.setattr(launching, "device", lambda: chip)
    f, _, *args = PROGRAMS[name]
    same(fg.jit(f)(*map(on_device, args)), f(*args))


COMPOSED = {
    "gradient": (lambda x, w: fg.grad(loss, (0, 1))(x, w), X, W),
    "value and gradient of cross-entropy": (
        lambda x: fg.value_and_grad(lambda x: fg.nn.softmax_cross_entropy(x, np.arange(6)).mean())(x), X),
    "per example": (
        lambda x, w: fg.vmap(fg.grad(lambda r, w: np.sum(np.tanh(r @ w))), in_axes=(0, None))(x, w), X, W),
    "hessian": (lambda v: fg.hessian(lambda v: np.sum(np.sin(v) * v**3))(v), V[:4]),
    "scattering": (lambda x: fg.grad(lambda x: np.sum(x[np.array([0, 2, 0])] ** 2))(x), X),
    "scan": (lambda x: fg.lax.scan(lambda c, r: (c * r, c + r), x[0], x)[1], X[:, :3]),
    "library calls between": (lambda x: np.sort(np.linalg.solve(x @ x.T + np.eye(6), x) * 2, 1) + 1, X),
    "several outputs": (lambda x: (x + 1, (x + 1).sum(), x, 3.0 * x[0]), X),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPOSED)
def test_compositions(name):
    f, *args = COMPOSED[name]
    jitted, given, expected = fg.jit(f), [on_device(a) for a in args], f(*args)
    for _ in range(compiled.WARM + 2):
        same(jitted(*given), expected)


def test_while_loops_ask_the_device_whether_they_go_on():
    f = lambda x: fg.lax.while_loop(lambda y: (y < 9).all(), lambda y: y * y + 1, x)
    same(fg.jit(f)(on_device(X[:2, :2])), f(X[:2, :2]))


def test_transformations_of_jitted_functions():
    jitted, x, w = fg.jit(loss), on_device(X), on_device(W)
    same(fg.grad(jitted, (0, 1))(x, w), fg.grad(loss, (0, 1))(X, W))
    pair = np.stack([X, 2 * X])
    same(fg.vmap(jitted, in_axes=(0, None))(on_device(pair), w), fg.vmap(loss, in_axes=(0, None))(pair, W))
    with fg.GradManager().attach([x, w]) as gm:
        gm.backward(jitted(x, w))
    same((x.grad, w.grad), fg.grad(loss, (0, 1))(X, W))


def test_one_function_on_every_device():
    f = fg.jit(lambda x: x * 2 + 1)
    for _ in range(8):  # the short way in is made for the CPU
        f(X)
    same(f(on_device(X)), X * 2 + 1)
    assert f(fg.tensor(X, device="cuda:1")).device == "cuda:1"
    assert isinstance(f(X), np.ndarray)
    here = fg.jit(lambda x: x * 2 + 1, device="cuda")
    for _ in range(6):
        assert here(fg.tensor(X)).device == DEVICE
    with pytest.raises(TypeError, match="different devices, cuda:0 and cpu"):
        fg.jit(lambda x, y: x + y)(on_device(X), fg.tensor(X))


def test_arrays_that_a_function_holds():
    held = on_device(V)
    f = fg.jit(lambda x: (x * held, held))
    for _ in range(4):
        same(f(on_device(X)), (X * V, V))
    same(fg.jit(lambda x: x * V)(on_device(X)), X * V)


def test_results_are_nobody_elses():
    f = fg.jit(many)
    results = [f(on_device(X + i)) for i in range(5)]  # launched, then replayed
    for i, r in enumerate(results):
        same(r, many(X + i))


def test_graphs_can_be_turned_off(monkeypatch):
    recorded = []
    library = on_device(X)._value.place.library
    monkeypatch.setattr(type(library), "recorded", lambda self, f: recorded.append(f) or f)
    for setting, expected in (("0", 0), ("1", 1)):
        monkeypatch.setenv("FGRAD_CUDA_GRAPHS", setting)
        f = fg.jit(many)
        for _ in range(5):
            same(f(on_device(X)), many(X))
        assert len(recorded) == expected


def test_large_programs_are_launched(monkeypatch):
    library = on_device(X)._value.place.library
    monkeypatch.setattr(type(library), "recorded", lambda self, f: pytest.fail("it was recorded"))
    monkeypatch.setattr(compiled, "SMALL", X.nbytes)
    f = fg.jit(many)
    for _ in range(5):
        same(f(on_device(X)), many(X))


def test_single_launches_are_not_recorded(monkeypatch):
    library = on_device(X)._value.place.library
    monkeypatch.setattr(type(library), "recorded", lambda self, f: pytest.fail("it was recorded"))
    f = fg.jit(lambda x: x * 5)  # copying argument and result would be two
    for _ in range(5):
        same(f(on_device(X)), X * 5)


def test_programs_that_cannot_be_recorded_are_launched(monkeypatch):
    monkeypatch.setattr(type(on_device(X)._value.place.library), "recorded", lambda self, f: None)
    f = fg.jit(many)
    for _ in range(5):
        same(f(on_device(X)), many(X))


def test_sums_are_reproducible():
    f = fg.jit(lambda x: np.sum(x))
    assert len({float(f(on_device(LONG))) for _ in range(4)}) == 1


def test_kernels_serve_every_size():
    texts = set()
    for n in (20, 33, 70):
        f = fg.jit(lambda x: np.sum(np.exp(x) * 2, 1))
        x = RNG.uniform(-1, 1, (n, n + 1))
        same(f(on_device(x)), np.sum(np.exp(x) * 2, 1))
        made = f.lower(x)._procedure.on(on_device(x)._value.place)
        texts.add(tuple(grid.text for grid in made.grids))
        assert all(grid.text in made.source for grid in made.grids)
    assert len(texts) == 1


PRODUCTS = {
    "matrices": ("ij,jk->ik", (7, 20), (20, 5)),
    "transposed": ("ji,kj->ki", (20, 7), (5, 20)),
    "vector": ("ij,j->i", (7, 20), (20,)),
    "outer": ("i,j->ij", (7,), (5,)),
    "inner": ("i,i->", (40,), (40,)),
    "stacked": ("bij,bjk->bik", (3, 4, 20), (3, 20, 5)),
    "two axes": ("ijk,jkl->il", (4, 5, 6), (5, 6, 3)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PRODUCTS)
def test_small_products_are_kernels(name, dtype, monkeypatch):
    """A graph may have them, where CuPy records no cuBLAS; large ones are cuBLAS's."""
    subscripts, *shapes = PRODUCTS[name]
    x, y = (RNG.standard_normal(shape).astype(dtype) for shape in shapes)

    def f(x, y):
        return np.tanh(np.einsum(subscripts, x, y) + x.sum())

    def slopes(x, y):
        return fg.grad(lambda x, y: f(x, y).sum(), argnums=(0, 1))(x, y)

    place = on_device(x)._value.place
    for g in (f, slopes):
        jitted = fg.jit(g)
        steps = jitted.lower(x, y)._procedure.on(place).plan.steps
        assert all(isinstance(s, laid_out.Launch) for s in steps), steps
        same(jitted(on_device(x), on_device(y)), g(x, y), 10)
    monkeypatch.setattr(contractions, "LITTLE", 0)
    steps = fg.jit(f).lower(x, y)._procedure.on(place).plan.steps
    large = [s for s in steps if isinstance(s, laid_out.Product)]
    assert bool(large) == (name not in {"outer", "inner"})
