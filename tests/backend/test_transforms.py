"""Transformations of functions on a device: everything happens there, and gives what it gives on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend.checks import check, no_transfers, on_device, same

import fgrad as fg
import fgrad.numpy as fnp

RNG = np.random.default_rng(3)
X, W = RNG.uniform(0.5, 1.5, (3, 4)), RNG.uniform(-1, 1, (4, 2))


def loss(x, w):
    return np.sum(np.tanh(x @ w) ** 2)


def curve(x):
    return np.sum(np.sin(x) * x**3)


def assigned(x):
    y = fnp.zeros_like(x)
    y[0] = x[1] * 2
    y[1:] += x[1:]
    y *= x
    y[:, 1] = 3.0
    y[y > 2] = 0.5
    y[1:, 2] = x[0, 0]
    return (y**2).sum()


def managed(x, w):
    x, w = x.detach(), w.detach()
    with fg.GradManager().attach([x, w], callback=lambda t, g: g * 2) as gm:
        gm.backward(loss(x, w))
    return x.grad, w.grad


def nested(x):
    x = x.detach()
    outer, inner = fg.GradManager().attach(x), fg.GradManager().attach(x)
    with outer:
        with inner:
            inner.backward((x**3).sum())
        slope, x.grad = x.grad, None
        outer.backward(slope)
    return slope, x.grad


def grouped(a):
    a, b = a.detach(), (a + 1).detach()
    left, right = fg.GradManager().attach(a), fg.GradManager().attach(b)
    with left | right:
        y = (a * a * b).sum()
        left.backward(y)
        right.backward(y)
    return a.grad, b.grad


def per_sample(x, w):
    w = w.detach()
    with fg.GradManager().attach(w) as gm:
        gm.backward((x @ w).sum(1) ** 2, per_sample=True)
    return w.grad


@fg.custom_vjp
def limited(x):
    return np.exp(x)


limited.defvjp(lambda x: (np.exp(x), x), lambda saved, ct: (np.clip(ct, -1.0, 1.0) * saved,))


@fg.custom_jvp
def doubled(x):
    return np.sin(x)


doubled.defjvp(lambda primals, tangents: (np.sin(primals[0]), 2 * tangents[0] * np.cos(primals[0])))


class Exp(fg.Function):
    def forward(self, x):
        self.y = np.exp(x)
        return self.y

    def backward(self, ct):
        return ct * self.y


SILENT = {
    "grad": (lambda x, w: fg.grad(loss, (0, 1))(x, w), X, W),
    "value_and_grad": (lambda x, w: fg.value_and_grad(loss)(x, w), X, W),
    "vjp": (lambda x: fg.vjp(np.sin, x)[1](x), X),
    "jacrev": (lambda x: fg.jacrev(lambda x: np.cumsum(x * x, 0))(x), X[0]),
    "elementwise_grad": (lambda x: fg.elementwise_grad(np.tanh)(x), X),
    "vmap": (lambda x, w: fg.vmap(lambda row: np.tanh(row @ w))(x), X, W),
    "vmap of grad": (
        lambda x, w: fg.vmap(fg.grad(lambda r, w: np.sum(np.tanh(r @ w))), in_axes=(0, None))(x, w), X, W),
    "grad of vmap": (
        lambda x, w: fg.grad(lambda x: fg.vmap(lambda r: np.sum(np.tanh(r @ w)))(x).sum())(x), X, W),
    "assignment": (lambda x: fg.grad(assigned)(x), X),
    "GradManager": (managed, X, W),
    "nested managers": (nested, X),
    "groups": (grouped, X),
    "per sample": (per_sample, X, W),
    "custom_vjp": (lambda x: fg.grad(lambda x: limited(x).sum())(x), X),
    "custom_jvp": (lambda x: fg.grad(lambda x: doubled(x).sum())(x), X),
    "Function": (lambda x: fg.grad(lambda x: Exp()(x).sum())(x), X),
    "checkpoint": (lambda x: fg.grad(lambda x: fg.checkpoint(lambda x: np.sum(np.sin(x) * x))(x))(x), X),
    "scan": (lambda x: fg.grad(lambda x: fg.lax.scan(lambda c, v: (c * v, c + v), x[0], x)[1].sum())(x), X),
    "cond": (
        lambda x: fg.grad(lambda x: fg.lax.cond(True, lambda x: (x * x).sum(), lambda x: x.sum(), x))(x), X),
    "softmax_cross_entropy": (
        lambda x: fg.grad(lambda x: fg.nn.softmax_cross_entropy(x, x.argmax(1)).sum())(x), X),
    "attention": (
        lambda x: fg.grad(
            lambda x: fg.nn.dot_product_attention(*[x[None, None]] * 3, is_causal=True).sum())(x), X),
    "conv": (
        lambda x: fg.grad(lambda x: (fg.nn.conv(x[None, None], x[None, None, :2, :2]) ** 2).sum())(x), X),
    "sort": (lambda x: fg.grad(lambda x: (np.sort(x, 1) * x).sum())(x), X),
    "median": (lambda x: fg.grad(lambda x: np.median(x) + np.std(x))(x), X),
    "einsum": (lambda x, w: fg.grad(lambda x: np.einsum("ij,jk->k", x, w).sum())(x), X, W),
    "where": (lambda x: fg.grad(lambda x: fnp.where(x > 1, x * x, 0).sum())(x), X),
    "pad, roll, tril": (
        lambda x: fg.grad(lambda x: np.tril(np.roll(np.pad(x * x, 1, "reflect"), 1)).sum())(x), X),
    "an integer array": (lambda x: fg.grad(lambda x: np.sum(x[[0, 2, 0]] ** 2))(x), X),
}  # fmt: skip


@pytest.mark.parametrize("name", SILENT)
def test_on_the_device(name):
    f, *args = SILENT[name]
    check(f, *args, sent=True)


READING = {  # forward mode looks whether tangents are finite, a loop asks whether it goes on
    "jvp": (lambda x, w: fg.jvp(loss, (x, w), (x, w)), X, W),
    "hvp": (lambda x: fg.hvp(curve, (x,), (x,)), X),
    "hessian": (lambda x: fg.hessian(curve)(x), X[0]),
    "jacfwd": (lambda x: fg.jacfwd(lambda x: np.cumsum(x * x, 0))(x), X[0]),
    "linearize": (lambda x: fg.linearize(lambda x: np.sin(x) * x, x)[1](x), X),
    "while_loop": (
        lambda x: fg.grad(
            lambda x: fg.lax.while_loop(lambda y: (y < 9).all(), lambda y: y * y + 1, x).sum())(x), X),
    "solve": (lambda x: fg.grad(lambda x: np.linalg.solve(x @ x.T + 9 * (x @ x.T), x).sum())(x), X[:2, :2]),
}  # fmt: skip


@pytest.mark.parametrize("name", READING)
def test_what_reads_a_number(name):
    f, *args = READING[name]
    check(f, *args, reads=True, sent=True)


def test_branches_of_vmap_ask_the_host():
    f = fg.vmap(lambda v: v * 2 if v > 1 else v)
    same(f(on_device(X[0])), f(X[0]))


def test_callbacks_run_on_the_host():
    seen = []

    def double(x):
        seen.append(type(x))
        return 2 * x

    same(fg.pure_callback(double, on_device(X), on_device(X)), 2 * X)
    assert seen == [np.ndarray]


def test_random_numbers_come_from_a_key_on_the_device():
    key = np.array([1, 2], np.uint32)
    for sampler in (fg.random.normal, fg.random.uniform, fg.random.exponential):
        same(sampler(on_device(key), size=(4,)), sampler(key, size=(4,)))


def test_the_last_of_several_writes_wins():
    x, values = np.zeros(4), np.array([1.0, 2.0, 3.0])

    def f(v):
        y = fnp.zeros_like(v, shape=(4,))
        y[np.array([2, 0, 2])] = v
        return y

    same(f(on_device(values)), f(fg.tensor(values)))
    same(fg.grad(lambda v: (f(v) ** 2).sum())(on_device(values)), np.array([0.0, 4.0, 6.0]))
    assert x.sum() == 0


def test_debug_nans_names_the_operation():
    with fg.debug_nans(), pytest.raises(fg.NonFiniteError, match="sqrt"):
        fg.grad(lambda x: np.sqrt(x).sum())(on_device(np.zeros(2)))


def test_a_gradient_stays_on_the_device_of_its_tensor():
    x = fg.tensor(X, device="cuda:1")
    with no_transfers(), fg.GradManager().attach(x) as gm:
        gm.backward((x**2).sum())
    assert x.grad.device == "cuda:1"


def test_numbers_of_two_precisions_are_rounded_to_their_own():
    x, y = np.array([100.0, 1.0, 3.4], np.float32), np.arange(3.0)
    f = fg.jit(lambda x, y: (np.exp(x) + y, np.arcsinh(x * 1e38) + y))
    with np.errstate(all="ignore"):
        expected = np.exp(x) + y, np.arcsinh(x * 1e38) + y
    for found, e in zip(f(on_device(x), on_device(y)), expected, strict=True):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found.numpy(), e, 1e-6)


def test_integers_computed_from_others_have_to_fit_there_too():
    x = np.array([1, 2], np.int8)
    f = fg.jit(lambda x, n: x * (n + n))
    np.testing.assert_array_equal(f(on_device(x), 3).numpy(), f(x, 3))
    with pytest.raises(OverflowError, match="200 out of bounds for int8"):
        f(on_device(x), 100)
