"""Which arguments are meant: wrong positions and names are refused by the name of the parameter."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.helpers import grouped

import fgrad as fg
from fgrad import lax

X = np.ones(2)


def product(x, y):
    return np.sum(x * y)


POSITIONS = {
    "grad": lambda v: fg.grad(product, argnums=v)(X, X),
    "value_and_grad": lambda v: fg.value_and_grad(product, argnums=v)(X, X),
    "elementwise_grad": lambda v: fg.elementwise_grad(np.multiply, argnums=v)(X, X),
    "jacrev": lambda v: fg.jacrev(product, argnums=v)(X, X),
    "jacfwd": lambda v: fg.jacfwd(product, argnums=v)(X, X),
    "hessian": lambda v: fg.hessian(product, argnums=v)(X, X),
    "static_argnums": lambda v: fg.jit(product, static_argnums=v),
    "donate_argnums": lambda v: fg.jit(product, donate_argnums=v),
    "custom_vjp": lambda v: fg.custom_vjp(product, nondiff_argnums=v),
    "custom_jvp": lambda v: fg.custom_jvp(product, nondiff_argnums=v),
}
NO_INTEGERS = [1.5, "x", b"x", None, True, (0, 1.5), ([0],), np.float64(0), {"x": 1}, len]


@grouped("name, wrong", itertools.product(POSITIONS, NO_INTEGERS))
def test_positions_are_integers(name, wrong):
    parameter = name if "argnums" in name else "nondiff_argnums" if "custom" in name else "argnums"
    with pytest.raises(TypeError, match=rf"^{parameter} must be an integer or a sequence of integers, not "):
        POSITIONS[name](wrong)


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("wrong", [2, -3, (0, 7)], ids=repr)
def test_positions_exist(name, wrong):
    with pytest.raises(ValueError, match=r"argnums=.* asks for"):
        POSITIONS[name](wrong)


@pytest.mark.parametrize("right", [0, -2, np.int64(0), (0,), [0], {0}, range(1), np.array([0])], ids=repr)
def test_positions_in_any_form(right):
    for name, call in POSITIONS.items():
        call(right)
        if name == "static_argnums":
            assert fg.jit(lambda n, x: n * x, static_argnums=right)(3, X).tolist() == [3, 3]
    np.testing.assert_array_equal(np.ravel(fg.grad(product, right)(2 * X, 3 * X)), 3 * X)


@pytest.mark.parametrize("wrong", [1.5, None, 0, (0,), b"x", len], ids=repr)
def test_names_are_text(wrong):
    with pytest.raises(TypeError, match=r"^static_argnames must be a name or a sequence of names, not "):
        fg.jit(product, static_argnames=wrong)


@pytest.mark.parametrize("wrong", [1.5, "x", (2,), np.array([2]), len], ids=repr)
def test_the_number_of_examples_is_an_integer(wrong):
    with pytest.raises(TypeError, match=r"^axis_size is the number of examples, an integer, not "):
        fg.vmap(product, axis_size=wrong)(X, X)


@pytest.mark.parametrize("wrong", [1.5, None, 0, "x", b"x", len], ids=repr)
def test_what_is_excluded_is_a_set(wrong):
    with pytest.raises(TypeError, match=r"^excluded is a set of positions and names"):
        fg.vectorize(product, excluded=wrong)


@pytest.mark.parametrize("wrong", [1.5, 0, b"()->()", ("(),()->()",)], ids=repr)
def test_a_signature_is_text(wrong):
    with pytest.raises(TypeError, match=r"^a signature is text like "):
        fg.vectorize(product, signature=wrong)


RESULTS = {
    "vmap": lambda x: [fg.vmap(lambda a: a)(x)],
    "vjp": lambda x: [fg.vjp(lambda a: a, x)[0], *fg.vjp(lambda a: a, x)[1](x)],
    "vjp, auxiliary": lambda x: [fg.vjp(lambda a: (a * a, a), x, has_aux=True)[2]],
    "jvp": lambda x: fg.jvp(lambda a: a, (x,), (x,)),
    "linearize": lambda x: [fg.linearize(lambda a: a, x)[0], fg.linearize(lambda a: a, x)[1](x)],
    "linear_transpose": lambda x: fg.linear_transpose(lambda a: a, x)(x),
    "jit": lambda x: [fg.jit(lambda a: a)(x)],
    "checkpoint": lambda x: [fg.checkpoint(lambda a: a)(x)],
    "grad, auxiliary": lambda x: [fg.grad(lambda a: (np.sum(a), a), has_aux=True)(x)[1]],
}


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize(
    "run",
    [
        lambda f: f(np.ones(2)),
        lambda f: f(fg.tensor(np.ones(2))),
        lambda f: fg.jit(f)(np.ones(2)),
        lambda f: fg.vjp(f, np.ones(2))[0],
        lambda f: fg.vmap(f, axis_size=1)(np.ones((1, 2))),
    ],
    ids=["arrays", "tensors", "jit", "vjp", "vmap of vectors"],
)
def test_results_are_written_to_without_a_change_of_arguments(name, run):
    def written(x):
        for y in RESULTS[name](x):
            y += 1.0
        return x * 1.0

    assert np.all(np.asarray(run(written)) == 1.0)


def parted(y):
    return y, y[:1], 2.0 * y


def doubled(y):
    return y, y


CURVES = {
    "exp": np.exp,
    "sqrt": np.sqrt,
    "reciprocal": lambda x: 1.0 / x,
    "inverse": lambda x: np.linalg.inv(np.outer(x, x) + np.eye(2)),
    "factor": lambda x: np.linalg.cholesky(np.outer(x, x) + np.eye(2)),
    "relu": lambda x: np.maximum(x, 0.0),
    "parts": lambda x: parted(np.tanh(x)),
    "mapped": fg.vmap(np.exp),
    "jitted": fg.jit(lambda x: (np.exp(x), x)),
    "checkpointed": fg.checkpoint(lambda x: (np.exp(x), x)),
}


def spoilt(results):
    for y in fg.tree.leaves(results):
        y[...] = -99.0


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("make", [np.array, fg.tensor], ids=["arrays", "tensors"])
def test_derivatives_do_not_change_where_results_are_written_to(name, make):
    f, x = CURVES[name], make([0.5, 2.0])
    values = lambda ys: fg.tree.map(lambda y: np.array(np.asarray(y)), ys)
    same = lambda a, b: fg.tree.map(np.testing.assert_array_equal, values(a), b)
    out, pullback, aux = fg.vjp(lambda x: (f(x), f(x)), x, has_aux=True)
    _, shared, again = fg.vjp(lambda x: doubled(f(x)), x, has_aux=True)
    ct = fg.tree.map(np.ones_like, values(out))
    expected = values(pullback(ct))
    for results in (out, aux, again):
        spoilt(results)
    for pull in (pullback, shared):
        same(pull(ct), expected)
        spoilt(pull(ct))
        same(pull(ct), expected)
    out, push = fg.linearize(f, x)
    expected = values(push(np.ones(2)))
    spoilt(out)
    same(push(np.ones(2)), expected)
    spoilt(push(np.ones(2)))
    same(push(np.ones(2)), expected)
    same(fg.jvp(f, (x,), (np.ones(2),))[1], expected)


OWN = {
    "checkpoint": lambda f, x: fg.checkpoint(f)(x),
    "checkpointed": lambda f, x: fg.checkpointed(lambda s, i: f(s), x, range(2)),
    "vmap": lambda f, x: fg.vmap(f, out_axes=None)(x),
    "vjp": lambda f, x: fg.vjp(f, x)[0],
    "vjp, auxiliary": lambda f, x: fg.vjp(lambda x: (x, f(x)), x, has_aux=True)[2],
    "jvp": lambda f, x: fg.jvp(f, (x,), (x,))[0],
    "linearize": lambda f, x: fg.linearize(f, x)[0],
    "grad, auxiliary": lambda f, x: fg.grad(lambda x: (np.sum(x), f(x)), has_aux=True)(x)[1],
    "jit": lambda f, x: fg.jit(f)(x),
    "cond": lambda f, x: lax.cond(True, f, f, x),
    "scan": lambda f, x: lax.scan(lambda c, t: (c, f(c)), x, None, 2),
}


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("make", [np.array, fg.tensor], ids=["array", "tensor"])
def test_what_a_function_returns_of_its_surroundings_is_not_written_to(name, make):
    constant = make([5.0, 6.0])
    spoilt(OWN[name](lambda x: constant, np.ones(2)))
    assert np.array_equal(np.asarray(constant), [5.0, 6.0])
