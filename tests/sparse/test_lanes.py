"""Lanes give the same entries as dense derivatives, and are left where they do not say all."""

import numpy as np
import pytest

import fgrad as fg
from fgrad import sparse
from fgrad.sparse import plans

X = np.random.default_rng(0).uniform(0.5, 1.5, 12)


def padded(x):
    u = np.pad(x.reshape(3, 4), 1)
    around = u[:-2, 1:-1] + u[2:, 1:-1] - u[1:-1, :-2] + u[1:-1, 2:] / 3
    return (2 * u[1:-1, 1:-1] - around + np.exp(u[1:-1, 1:-1]) * u[:-2, 1:-1]).ravel()


def picked(x):
    return (
        x[np.array([3, 1, 7, 3])] * np.array([1.0, 2.0, 3.0, 4.0]) - x[4:8].reshape(2, 2).T.reshape(-1) / x[0]
    )


def called(x):
    factor = fg.pure_callback(lambda v: 2.0 * np.asarray(v), np.empty(12), fg.stop_gradient(x))
    return factor * x


FOLLOWED = {
    "called": called,
    "taken": lambda x: np.exp(x)[np.array([3, 1, 7, 3])] / 3,
    "shifted": lambda x: np.pad(x[:-1], (1, 0)) * x - (2 * x).reshape(3, 4).reshape(-1),
    "band": lambda x: x[1:-1] ** 2 * x[2:] - x[:-2] * 3,
    "two": lambda x: (x[1:] * x[:-1], x[:3] * x[-3:]),
}
LEFT = {
    "gather": picked,
    "pad": padded,
    "where": lambda x: np.where(x > 1, x * x, x[::-1]),
    "sum": lambda x: x[:4] * np.sum(x[:2]),
    "twice": lambda x: np.where(np.arange(12) < 6, x[::-1], 0) * x + np.roll(x, 1) * x[np.arange(12) // 2],
    "product": lambda x: x.reshape(3, 4) @ np.ones((4, 2)),
    "loop": lambda x: fg.lax.fori_loop(0, 2, lambda i, c: c * x, x),
}


def followed(monkeypatch):
    """Return the list that tells of each plan whether it follows lanes."""
    seen = []
    laned = plans._laned
    monkeypatch.setattr(
        plans, "_laned", lambda *args, **kwargs: seen.append(laned(*args, **kwargs)) or seen[-1]
    )
    return seen


def dense(f):
    return np.concatenate([np.reshape(y, (-1, X.size)) for y in fg.tree.leaves(fg.jacrev(f)(X))])


@pytest.mark.parametrize("name", FOLLOWED)
def test_lanes_give_the_entries(monkeypatch, name):
    seen, f = followed(monkeypatch), FOLLOWED[name]
    jac = sparse.jacobian(f)
    np.testing.assert_allclose(jac(X).toarray(), dense(f), rtol=1e-13, atol=1e-15)
    found = fg.jit(jac)(X).toscipy()
    np.testing.assert_allclose(found.toarray(), dense(f), rtol=1e-13, atol=1e-15)
    assert all(s is not None for s in seen)
    assert seen


@pytest.mark.parametrize("name", LEFT)
def test_what_lanes_do_not_follow_has_colours(monkeypatch, name):
    seen, f = followed(monkeypatch), LEFT[name]
    np.testing.assert_allclose(sparse.jacobian(f)(X).toarray(), dense(f), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(
        sparse.jacobian(f, format="csc")(X).toarray(), dense(f), rtol=1e-13, atol=1e-15
    )
    assert seen == [None, None]


def test_a_hessian_of_a_band_is_computed_in_the_order_of_its_entries():
    hess = sparse.hessian(lambda x: np.sum(x[1:] * x[:-1] ** 3))
    found = hess(X).toarray()
    exact = (
        np.diag(np.append(6 * X[:-1] * X[1:], 0)) + np.diag(3 * X[:-1] ** 2, 1) + np.diag(3 * X[:-1] ** 2, -1)
    )
    np.testing.assert_allclose(found, exact, rtol=1e-14)
    np.testing.assert_allclose(hess.values(X), found[np.nonzero(hess.pattern(X).toarray())], rtol=1e-14)


def test_what_a_function_reads_may_change_between_calls():
    scale = np.ones(11)
    jac = sparse.jacobian(lambda x: scale * x[1:] * x[:-1])
    first = jac(X).toarray()
    scale[:] = 3.0
    np.testing.assert_allclose(jac(X).toarray(), 3 * first, rtol=1e-14)


def test_gradients_go_through_lanes_to_what_is_outside():
    def total(scale):
        return np.sum(sparse.jacobian(lambda x: scale * x[1:] * x[:-1]).values(X))

    slope = fg.grad(total)(2.0)
    np.testing.assert_allclose(slope, np.sum(X[1:] + X[:-1]), rtol=1e-13)
