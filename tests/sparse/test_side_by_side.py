"""Colours as the last axis give the same entries as dense derivatives, and are left where they do not."""

import numpy as np
import pytest

import fgrad as fg
from fgrad import sparse
from fgrad.sparse import plans

RNG = np.random.default_rng(7)
X = RNG.uniform(0.5, 1.5, 18)
FIRST, SECOND = np.array([0, 2, 1, 0, 2, 1]), np.array([3, 4, 5, 5, 3, 4])  # pairs of six points


def pairs(x):
    p = x.reshape(6, 3)
    return p[FIRST], p[SECOND]


def mixed(x):
    a, b = pairs(x)
    turned = np.stack([a[:, 1] * b[:, 2], a[:, 2] * b[:, 0], a[:, 0] * b[:, 1]], axis=1)
    return np.stack([np.sum(turned, axis=-1), np.sum(a * b, axis=-1) / np.sum(a * a, axis=1)], axis=1).ravel()


def where(x):
    a, b = pairs(x)
    return np.sum(np.where(np.arange(3) > 5, 0, a - 2.0 * b[:, ::-1]) ** 2, axis=1)


def called(x):
    factor = fg.pure_callback(lambda v: 2.0 * np.asarray(v), np.empty(18), fg.stop_gradient(x))
    return np.sum(factor.reshape(6, 3) * x.reshape(6, 3), axis=1)


FOLLOWED = {
    "called": called,
    "cross": lambda x: np.sum(pairs(x)[0] * np.exp(pairs(x)[1]), axis=-1) ** 3,
    "scaled": lambda x: (np.sum(-pairs(x)[0] / 3 - pairs(x)[1][:, ::-1], axis=1) * np.arange(1.0, 7)) ** 2,
    "mixed": mixed,
    "where": where,
    "norms": lambda x: np.sqrt(np.sum(np.concatenate(pairs(x), axis=1) ** 2, axis=1, keepdims=True)),
}
LEFT = {
    "product": lambda x: np.linalg.inv(pairs(x)[0][:, :2].reshape(3, 2, 2) + np.eye(2)).reshape(3, -1)[:, 0],
    "loop": lambda x: fg.lax.fori_loop(0, 2, lambda i, c: c * np.sum(pairs(x)[0], axis=1), np.ones(6)),
}


@pytest.fixture
def made(monkeypatch):
    """Return the list that tells of each plan whether colours are side by side."""
    seen, beside = [], plans._beside
    monkeypatch.setattr(plans, "_laned", lambda *args: None)
    monkeypatch.setattr(plans, "_beside", lambda *args: seen.append(beside(*args)) or seen[-1])
    return seen


def compare(f):
    dense = np.reshape(fg.jacrev(f)(X), (-1, X.size))
    for mode in ("auto", "forward"):
        jac = sparse.jacobian(f, mode=mode)
        np.testing.assert_allclose(jac(X).toarray(), dense, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(fg.jit(jac)(X).toscipy().toarray(), dense, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", FOLLOWED)
def test_blocks_are_computed_side_by_side(made, name):
    compare(FOLLOWED[name])
    assert made[-1] is not None


@pytest.mark.parametrize("name", LEFT)
def test_what_mixes_axes_is_computed_colour_by_colour(made, name):
    compare(LEFT[name])
    assert not any(made)


def test_several_arguments_and_results(made):
    def f(a, b):
        return np.sum(a[FIRST] * b[SECOND], axis=1), a[FIRST][:, :1] * np.sum(b[SECOND] ** 2, axis=1)[:, None]

    a, b = X.reshape(6, 3), np.flip(X).reshape(6, 3)
    found = sparse.jacobian(f, (0, 1), mode="forward")(a, b).toarray()
    flat = lambda z: np.concatenate([y.ravel() for y in f(z[:18].reshape(6, 3), z[18:].reshape(6, 3))])
    np.testing.assert_allclose(found, fg.jacfwd(flat)(np.concatenate([a, b], axis=None)), rtol=1e-13)


def test_derivatives_again(made):
    jac = sparse.jacobian(FOLLOWED["mixed"], mode="forward")
    total = lambda x: np.sum(jac.values(x) ** 2)
    numeric = [(total(X + e) - total(X - e)) / 2e-6 for e in 1e-6 * np.eye(X.size)]
    np.testing.assert_allclose(fg.grad(total)(X), numeric, rtol=1e-6, atol=1e-7)
    assert made[-1] is not None
