"""How programs are cut into loop nests and calls, counted, and that nests share no more than they may."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.helpers import optimised, unchecked

import fgrad as fg
from fgrad.compiler.decompose import decompose
from fgrad.compiler.elements import SHARE
from fgrad.compiler.fuse import Call, fuse
from fgrad.kernels import compilation, native

RNG = np.random.default_rng(4)
X, Y = RNG.standard_normal((30, 800)), RNG.standard_normal((40, 50))


def steps(f: Any, *args: Any) -> str:
    """Return the steps: n for a nest of loops, s for single numbers, p for a product, c for a call."""
    plain = decompose(fg.jit(f).lower(*args).compile().program)
    found, _ = fuse(plain.program, plain.constants)
    return "".join(map(kind, found))


def kind(step: Any) -> str:
    if isinstance(step, Call):
        return "p" if step.equation.name == "contract" else "c"
    return "n" if step.roots[0].loops else "s"


def layer_norm(x: Any) -> Any:
    centered = x - np.mean(x, axis=1, keepdims=True)
    return centered / np.sqrt(np.mean(centered**2, axis=1, keepdims=True) + 1e-5)


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def mlp(params: Any, x: Any, target: Any) -> Any:
    for w, b in params[:-1]:
        x = np.tanh(x @ w + b)
    w, b = params[-1]
    return np.mean((x @ w + b - target) ** 2)


def residual(camera: Any, point: Any) -> Any:
    """Turn a point by a matrix made of three numbers, and project it."""
    a, b, c = camera[0], camera[1], camera[2]
    turn = np.stack([np.stack([np.cos(a), -np.sin(a), b]), np.stack([np.sin(a), np.cos(a), c]), camera[3:]])
    p = turn @ turn @ point
    return p[:2] / p[2]


CAMERAS, POINTS = RNG.uniform(1, 2, (5000, 6)), RNG.uniform(1, 2, (5000, 3))
LAYERS = [(RNG.standard_normal((50, 60)), np.ones(60)), (RNG.standard_normal((60, 20)), np.ones(20))]

PROGRAMS = {
    "softmax": (fg.nn.softmax, (Y,), "n"),
    "log_softmax": (fg.nn.log_softmax, (Y,), "n"),
    "logsumexp": (lambda x: fg.nn.logsumexp(x, 1), (Y,), "n"),
    "layer norm": (layer_norm, (Y,), "n"),
    "a chain": (lambda x, y: np.sin(x) * y + np.exp(x.T).T, (Y, Y), "n"),
    "slices": (lambda x: x[1:] * x[:-1] + x[:1] * x[::-1][1:], (Y,), "n"),
    "sums of one array": (lambda x: (np.sum(x * x), np.max(x), np.sum(x)), (Y,), "n"),
    "rosenbrock": (rosenbrock, (Y[0],), "n"),
    "its gradient": (fg.grad(rosenbrock), (Y[0],), "nn?"),
    "small matrices": (fg.vmap(residual), (CAMERAS, POINTS), "n"),
    "their Jacobians": (fg.vmap(fg.jacfwd(residual)), (CAMERAS, POINTS), "n{1,4}"),
    "a tanh": (
        fg.value_and_grad(lambda x, w, b: np.sum(np.tanh(x * w + b) ** 2), (1, 2)),
        (Y, np.ones(()), np.ones(())),
        "ns*",
    ),
    "mlp": (fg.value_and_grad(mlp), (LAYERS, Y, RNG.standard_normal((40, 20))), "pnpns?ppnp"),
    "python": (lambda x: np.sort(np.exp(x)) + 1, (Y,), "ncn"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_nests_and_calls(name):
    f, args, expected = PROGRAMS[name]
    found = steps(f, *args)
    assert re.fullmatch(expected, found), found


def chained(x: Any, *, count: int) -> Any:
    """Return many values with two uses each, of rows and of pairs of them."""
    ys = [x]
    for i in range(count):
        ys.append(np.tanh(ys[-1] * (0.5 + i) + ys[-2:][0]))
    return ys[-1], np.outer(ys[-1], np.ones(2)) * ys[-2][:, None] + np.outer(ys[-3], [1.0, 2.0])


@pytest.mark.parametrize("size", [1000, 20_000])
def test_nests_over_many_elements_follow_one_another(size):
    f = lambda x: chained(x, count=40)
    found = steps(f, RNG.standard_normal(size))
    assert found in {"n", "nn"} if size > 10_000 else len(found) > 2  # pairs may have a nest of their own
    compare(f, RNG.standard_normal(size))


def test_nests_do_not_follow_what_they_wait_for_as_a_whole():
    def f(x: Any) -> Any:
        y = np.tanh(x)
        return y[::-1] * y + np.exp(y), y - y.mean(0)

    x = RNG.standard_normal((300, 70))
    assert len(steps(f, x)) > 1
    compare(f, x)


def test_places_in_short_rows_are_literal_and_sizes_are_not():
    f = lambda x, y: np.concatenate([x * 2, y, x - y], axis=1)
    texts = []
    for n in (30, 21):
        x, y = RNG.standard_normal((2, n, 3, 8))
        texts.append(fg.jit(f).lower(x, y).source.partition("def kernel")[2])
        compare(lambda x, y: (f(x, y),), x, y)
    assert texts[0] == texts[1]
    assert "U24" in texts[0] or "U72" in texts[0]


def compare(f: Any, *args: Any, atol: float = 1e-15) -> None:
    for y, e in zip(fg.jit(f)(*args), f(*args), strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-12, atol=atol)


def test_what_holds_in_part_of_an_axis_is_not_taken_to_hold_in_all_of_it():
    def f(y: Any) -> Any:
        wide = np.pad(y, ((0, 0), (800, 0))).reshape(30, 80, 20)
        rest = y.reshape(30, 40, 20)
        first = np.sum(np.exp(wide[:, :40, :] + rest), axis=(1, 2))  # of zeros alone
        return first, np.sum(np.cos(wide) * first[:, None, None], axis=(1, 2))

    assert steps(f, X) == "n"  # one after the other for the same row
    compare(f, X)


def test_scaled_copies_of_an_array_are_not_kept_to_be_read_under_conditions():
    x, k = RNG.standard_normal((40, 50)), RNG.standard_normal((5, 5))
    k[0, 1], k[2, 2], k[4, 0] = np.inf, np.nan, -np.inf  # which are nothing beside what is not there

    def loss(x: Any, k: Any) -> Any:
        wide = np.pad(x, 2)
        blurred = 0.0
        for i in range(5):
            for j in range(5):
                blurred = blurred + k[i, j] * wide[i : i + 40, j : j + 50] / 2
        return np.sum(np.tanh(blurred) ** 2) if np.ndim(blurred) else blurred

    f = fg.jit(fg.value_and_grad(loss, argnums=(0, 1)))
    assert f.lower(x, k).cost().temporaries < 8 * x.nbytes
    for given in (np.abs(RNG.standard_normal((5, 5))), k):
        with np.errstate(invalid="ignore"):
            found, expected = f(x, given), fg.value_and_grad(loss, argnums=(0, 1))(x, given)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
        for a, b in zip(found[1], expected[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


PADDED = {
    "a product": lambda x, s: np.pad(3.0 * x * s, 1),
    "a quotient": lambda x, s: np.pad(s / x, ((1, 0), (0, 2))),
    "an offset": lambda x, s: np.pad((x - s) * 2, 1) + np.pad(x, 1),
    "a function": lambda x, s: np.pad(np.exp(x), 1),
    "pieces": lambda x, s: np.concatenate([x * s, 2 * x, x[::-1] - s], axis=1),
    "half precision": lambda x, s: np.pad((x * s).astype("float16") * np.float16(2), 1),
    "another width": lambda x, s: np.concatenate([(x * s).astype("f"), x], axis=0),
    "one of them": lambda x, s: np.pad(x * x * s, 1),
    "steps": lambda x, s: np.zeros((9, 9)) + np.pad(x[::2, ::2] * s, ((2, 4), (3, 3))),
    "a number of one element": lambda x, s: np.pad(x * np.reshape(s, (1, 1)), 1),
}


@pytest.mark.parametrize("name", PADDED)
def test_what_is_computed_under_conditions(name):
    f = lambda x, s: (PADDED[name](x, s),)
    compare(f, RNG.uniform(1, 2, (5, 6)), np.float64(1.7))
    compare(f, RNG.uniform(1, 2, (5, 6)), np.float64(np.inf))


def test_functions_of_short_rows_are_computed_of_all_elements_at_once():
    def f(x: Any, i: Any, k: Any) -> Any:
        gap = x[i][:, None] - x[k]
        near = 1 / (1 + np.sum(gap**2, axis=-1) ** 0.9)
        return np.sum(np.log(near), axis=-1), near, np.sum(near[..., None] * gap, axis=1)

    def steps_of(n: int) -> int:
        i, k = RNG.integers(0, 30, 1200), RNG.integers(0, 30, (1200, n))
        compare(f, X[:, :2], i, k, atol=1e-13)
        slope = fg.grad(lambda x: sum(map(np.sum, f(x, i, k))))
        compare(lambda x: (slope(x),), X[:, :2], atol=1e-10)
        return steps(f, X[:, :2], i, k).count("n")

    assert steps_of(5) > steps_of(9)  # of nine, vectors have eight


@pytest.mark.parametrize("k", [4, 5, 7, 8])
def test_reductions_of_short_rows(k):
    rng = np.random.default_rng(k)
    x, y, m = rng.normal(size=(1200, k)), rng.normal(size=(1200, 9)), rng.normal(size=(k, 9))

    def f(x: Any, y: Any) -> Any:
        gap = x - np.mean(x, axis=1, keepdims=True)
        distance = np.sum((y[:, None] - m) ** 2, axis=-1)
        return (
            np.sqrt(np.sum(gap**2, axis=1)),
            np.log(np.sum(np.exp(x - np.max(x, axis=1)[:, None]), axis=1)),
            np.min(x * 2, axis=1) - np.prod(x, axis=1) + np.max(np.sin(x), axis=1),
            np.log(np.sum(np.exp(-distance), axis=1)),
            np.sum(x > 0, axis=1),
            np.sum(np.where(x > 0, np.nan, x), axis=1) + np.nanmax(np.where(x > 9, np.nan, x), axis=1),
        )

    compare(f, x, y, atol=1e-13)
    slope = fg.grad(lambda x, y: sum(np.sum(part) for part in f(x, y)[:4]), (0, 1))
    compare(slope, x, y, atol=1e-12)


def test_steps_that_write_to_an_array_do_not_go_through_those_before():
    x = RNG.uniform(0.5, 1.5, (24, 25))

    def run(count: int) -> Any:
        def f(x: Any, u: Any) -> Any:
            u = u * 1
            for _ in range(count):
                flow = x[1:, 1:-1] * (u[1:, 1:-1] - u[:-1, 1:-1])
                u[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.1 * (flow[1:] - flow[:-1])
                u[:, 0] = u[:, 1]
                u[-1] = 2 * u[-2]
            return np.mean(u**2)

        return f

    kernels = []
    for count in (4, 12):
        slope = fg.value_and_grad(run(count), (0, 1))
        found, expected = fg.jit(slope)(x, 2 * x), slope(x, 2 * x)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
        for a, b in zip(found[1], expected[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-14)
        kernels.append(len(set(fg.jit(slope).lower(x, 2 * x).source.split("def kernel"))))
    assert kernels[1] <= kernels[0] + 3  # those of a step are the same for all


def test_what_is_scattered_may_be_sliced():
    j = np.array([[0, -1, 1]] * 17)
    f = lambda x: np.tanh(np.mean(np.concatenate([x, x[:1]])[j]))
    x = Y[:3, :3]
    expected = fg.grad(f)(x)
    np.testing.assert_allclose(fg.jit(fg.grad(f))(x), expected, rtol=1e-12)
    at = lambda x: np.exp(x[np.array(1)]) + x[0]
    np.testing.assert_allclose(fg.jit(fg.grad(at))(x[0]), [1, np.exp(x[0, 1]), 0], rtol=1e-12)


def test_nothing_may_be_scattered():
    x = np.arange(6.0).reshape(2, 3)
    slope = fg.grad(lambda x: np.sum(np.sin(np.pad(x, ((1, 0), (0, 2)), "symmetric"))))
    np.testing.assert_allclose(fg.jit(slope)(x), slope(x))


def test_what_nobody_reads_is_not_computed():
    def f(x: Any, y: Any) -> Any:
        z = fg.tensor(np.zeros(3)) * x
        z[::-1] = 0.0
        z = np.where(np.exp(y[:3]) > 1, -z, y[:4, None])
        z[::-1, :] = x[:3]
        return z

    x = Y[0, :3]
    np.testing.assert_array_equal(fg.jit(f)(x, Y[1, :20]), np.tile(x, (4, 1)))


def test_a_loop_whose_work_is_done_outside_is_not_written():
    def f(x: Any) -> Any:
        row = np.cos(np.prod(x, axis=1, keepdims=True))
        return fg.nn.softmax(np.broadcast_to(row[:, :, None], (3, 3, 1)), axis=2)

    np.testing.assert_array_equal(fg.jit(f)(X[:3, :3]), np.ones((3, 3, 1)))


def test_short_axes_are_written_out_up_to_a_number_of_elements_in_all():
    def gate(state: Any, g: Any) -> Any:
        turned = np.tensordot(g, state.reshape(4, 2, 32), axes=([1], [1])).transpose(1, 0, 2)
        split = turned.reshape((2,) * 8)
        return (split - 2.0 * split).reshape(8, 2, 16)

    state, g = Y.ravel()[:256].reshape((2,) * 8), Y[:2, :2]
    lowered = fg.jit(gate).lower(state, g)
    stored = [line for line in lowered.source.splitlines() if re.match(r" +b\d+\[.*\] = ", line)]
    assert 0 < len(stored) <= SHARE
    np.testing.assert_allclose(fg.jit(gate)(state, g), gate(state, g), rtol=1e-14)


@unchecked("no loop becomes one of vectors")
@pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")
def test_a_loop_with_short_loops_inside_becomes_one_of_vectors():
    def distorted(camera: Any, point: Any) -> Any:
        shift = point - camera[:3]
        flat = shift[:2] / shift[2]
        return flat * (1 + camera[3] * (flat * flat).sum()) * camera[4] + np.cos(camera[4:])

    lowered = fg.jit(fg.vmap(fg.jacrev(distorted, (0, 1)))).lower(CAMERAS, POINTS)
    keys = lowered.compile()._plan.block.keys()
    short = [text for text, _ in keys if "unrolled(" in text]
    assert short
    for text in short:
        made = optimised(compilation.assembly(text, "kernel", "short"))
        assert "llvm.loop.isvectorized" in made


def test_writes_beside_writes_are_looked_through_once():
    """Each array holds the one before twice: there are 2^60 ways to what the last one shows."""

    def f(x):
        for _ in range(60):
            x = np.concatenate([x[4:], x[:6]])[1:9]
        return x

    x = np.arange(8.0)
    np.testing.assert_array_equal(fg.jit(lambda x: -f(2 * x))(x), -f(2 * x))


@pytest.mark.parametrize("size", [24, 6000])
def test_any_number_of_writes_to_one_array_is_compiled(size):
    """A nest looks through a bounded number of views, which stand inside of one another in its code."""
    places = RNG.integers(0, size - 3, (400, 2)).tolist()

    def f(x, s):
        y = x * 1.0
        for a, b in places:
            y[::-1][a : a + b] = y[a : a + 1] * s[b % 7]
        return y

    x, s = RNG.standard_normal(size), RNG.standard_normal(7)
    np.testing.assert_allclose(fg.jit(f)(x, s), f(x, s), rtol=1e-12, atol=0)
