"""Collective operations over named vmap axes; the oracles are NumPy on whole arrays and differences."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import close, differences, exactly

import fgrad as fg
from fgrad.lax import (
    all_gather,
    axis_index,
    axis_size,
    pbroadcast,
    pmax,
    pmean,
    pmin,
    ppermute,
    psum,
    psum_scatter,
)

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(5, 3)), RNG.normal(size=(4, 5, 3))


def named(f, **options):
    return fg.vmap(f, axis_name="i", **options)


def test_values():
    total = X.sum(axis=0)
    close(named(lambda x: x * psum(x, "i"))(X), X * total)
    close(named(lambda x: psum(x, "i"))(X), np.tile(total, (5, 1)))
    close(named(lambda x: psum(x, "i"), out_axes=None)(X), total)
    close(named(lambda x: pmean(x, "i"), out_axes=None)(X), X.mean(axis=0))
    close(named(lambda x: x - pmax(x, "i"))(X), X - X.max(axis=0))
    close(named(lambda x: pmin(x, "i"), out_axes=None)(X), X.min(axis=0))
    exactly(named(lambda x: axis_index("i") + 0 * x[0].astype(int))(X), np.arange(5))
    assert named(lambda x: axis_size("i"), out_axes=None)(X) == 5
    close(named(lambda x: all_gather(x, "i"), out_axes=None)(X), X)
    close(named(lambda x: all_gather(x, "i", axis=1), out_axes=None)(X), X.T)
    close(named(lambda x: all_gather(x, "i", axis=-1), out_axes=None)(X), X.T)
    close(named(lambda x: all_gather(x, "i", tiled=True), out_axes=None)(X), X.ravel())
    close(named(lambda x: all_gather(x[:, None], "i", axis=1, tiled=True), out_axes=None)(X), X.T)


def test_values_that_move():
    turned = [(0, 2), (2, 3), (4, 0)]
    expected = np.zeros_like(X)
    for source, dest in turned:
        expected[dest] = X[source]
    close(named(lambda x: ppermute(x, "i", turned))(X), expected)
    close(named(lambda x: ppermute({"a": x}, "i", []))(X)["a"], np.zeros_like(X))
    close(named(lambda x: ppermute(X[0], "i", [(1, 0)]))(X), np.stack([X[0], *4 * [0 * X[0]]]))
    close(named(lambda x: pbroadcast(x, "i", 3))(X), np.tile(X[3], (5, 1)))
    close(named(lambda x: pbroadcast(x, "i"), out_axes=None)(X.astype("float32")), X[0].astype("float32"))
    exactly(named(lambda x: pbroadcast(x, "i", 1), out_axes=None)(np.arange(5)), np.array(1))
    squares = np.random.default_rng(1).normal(size=(5, 10, 3))
    close(named(lambda x: psum_scatter(x[:5], "i"))(squares), squares[:, :5].sum(axis=0))
    parts = named(lambda x: psum_scatter(x, "i", tiled=True))(squares)
    close(np.concatenate(list(parts)), squares.sum(axis=0))
    across = named(lambda x: psum_scatter(x.T, "i", scatter_dimension=-1, tiled=True))(squares)
    close(np.concatenate(list(across), axis=1), squares.sum(axis=0).T)
    both = fg.vmap(fg.vmap(lambda y: psum_scatter(y, ("o", "i")), axis_name="i"), axis_name="o")
    many = np.random.default_rng(2).normal(size=(2, 3, 6, 4))
    close(both(many), many.sum(axis=(0, 1)).reshape(2, 3, 4))


def test_values_that_are_the_same_for_all_examples():
    exactly(named(lambda x: psum(2, "i"), out_axes=None)(X), np.array(10))
    close(named(lambda x: psum(X[0], "i"), out_axes=None)(X), 5 * X[0])
    close(
        named(lambda x: pmean(X[0], "i") + pmax(X[0], "i") + pmin(1.0, "i"), out_axes=None)(X), 2 * X[0] + 1
    )
    close(named(lambda x: all_gather(X[0], "i"), out_axes=None)(X), np.tile(X[0], (5, 1)))


def test_pytrees():
    out = named(lambda x: psum({"a": x, "b": (x[0], 1)}, "i"), out_axes=None)(X)
    close(out["a"], X.sum(axis=0))
    close(out["b"][0], X[:, 0].sum())
    assert out["b"][1] == 5


def test_integers():
    n = np.arange(6).reshape(3, 2)
    exactly(named(lambda x: psum(x, "i"), out_axes=None)(n), n.sum(axis=0))
    exactly(named(lambda x: pmean(x, "i"), out_axes=None)(n), n.mean(axis=0))
    exactly(named(lambda x: pmax(x, "i"), out_axes=None)(n), n.max(axis=0))


def test_nested_axes():
    f = lambda g: fg.vmap(fg.vmap(g, axis_name="i"), axis_name="o")
    close(f(lambda y: y * psum(y, "i"))(Y), Y * Y.sum(axis=1, keepdims=True))
    close(f(lambda y: y * psum(y, "o"))(Y), Y * Y.sum(axis=0))
    close(f(lambda y: y / psum(y * y, ("o", "i")))(Y), Y / np.sum(Y * Y, axis=(0, 1)))
    close(f(lambda y: y * pmax(y, ("i", "o")))(Y), Y * Y.max(axis=(0, 1)))
    close(f(lambda y: all_gather(y, "o").sum(axis=0) + 0 * y)(Y), np.broadcast_to(Y.sum(axis=0), Y.shape))
    close(f(lambda y: all_gather(y, ("o", "i"))[7] + 0 * y)(Y), np.broadcast_to(Y[1, 2], Y.shape))
    close(f(lambda y: axis_index(("o", "i")) + 0 * y[0])(Y), np.arange(20.0).reshape(4, 5))
    exactly(f(lambda y: axis_size(("o", "i")))(Y), np.full((4, 5), 20))
    # an axis of the outer function, summed over inside of the inner one
    outer = lambda y: fg.vmap(lambda row, x: row * psum(y, "o")[0] + x)(y, X)
    close(fg.vmap(outer, axis_name="o")(Y), Y * Y.sum(axis=0)[0] + X)


FUNCTIONS = {
    "psum": lambda x: np.sum(np.sin(psum(x * x, "i")) * x),
    "pmean": lambda x: np.sum(np.exp(x - pmean(x, "i"))),
    "pmax": lambda x: np.sum(pmax(x, "i") * x),
    "pmin": lambda x: np.sum(np.cos(pmin(x, "i")) + x),
    "all_gather": lambda x: np.sum(np.tanh(all_gather(x, "i") @ x)),
    "ppermute": lambda x: np.sum(ppermute(np.sin(x), "i", [(0, 1), (1, 2), (4, 0)]) * x * x),
    "pbroadcast": lambda x: np.sum(pbroadcast(x * x, "i", 2) * np.sin(x)),
    "psum_scatter": lambda x: np.sum(psum_scatter(np.outer(x, x)[[0, 1, 2, 0, 1]], "i") ** 2 * x),
    "axis_index": lambda x: np.sum(x**2) * axis_index("i"),
    "standardised": lambda x: np.sum((x - pmean(x, "i")) / np.sqrt(pmean(x * x, "i"))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_the_whole(name):
    total = lambda x: np.sum(named(FUNCTIONS[name])(x) * np.arange(1.0, 6.0))
    gradient = differences(total, X)
    close(fg.grad(total)(X), gradient, rtol=1e-6)
    t = RNG.normal(size=X.shape)
    close(fg.jvp(total, (X,), (t,))[1], np.sum(gradient * t), rtol=1e-6)
    close(fg.hvp(total, (X,), (t,))[1], differences(lambda x: np.sum(fg.grad(total)(x) * t), X), rtol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_inside(name):
    # every example differentiates by its own argument the sum over all examples, as in JAX
    f = FUNCTIONS[name]
    everything = differences(lambda x: np.sum(named(f)(x)), X)
    close(named(fg.grad(f))(X), everything, rtol=1e-6)
    push = lambda x, t: fg.jvp(f, (x,), (t,))[1]
    t = RNG.normal(size=X.shape)
    each = differences(lambda x: named(f)(x), X)  # (example, example, 3)
    close(named(push)(X, t), np.einsum("ijk,jk->i", each, t), rtol=1e-6)


def test_custom_rules_see_the_axis():
    @fg.custom_vjp
    def f(x):
        return psum(x, "i")

    f.defvjp(lambda x: (psum(x, "i"), None), lambda _, ct: (ct * 2.0,))
    close(named(f)(X), np.tile(X.sum(axis=0), (5, 1)))
    close(named(fg.grad(lambda x: np.sum(f(x))))(X), np.full(X.shape, 2.0))


@pytest.mark.parametrize("f", [psum, pmean, pmax, pmin, all_gather])
def test_refusals(f):
    for where in (lambda: f(X, "i"), lambda: fg.vmap(lambda x: f(x, "i"))(X)):
        with pytest.raises(NameError, match=r"unbound axis name 'i'.*none"):
            where()
    with pytest.raises(NameError, match=r"unbound axis name 'j' \(names in use here: 'i'\)"):
        named(lambda x: f(x, "j"))(X)
    with pytest.raises(TypeError, match="arrays"):
        named(lambda x: f("text", "i"))(X)
    with pytest.raises(np.exceptions.AxisError):
        named(lambda x: all_gather(x, "i", axis=2))(X)
