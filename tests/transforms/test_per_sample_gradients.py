"""backward(y, per_sample=True): one gradient per element of y; the oracle is a backward for each element."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import close, differences, exactly

import fgrad as fg
from fgrad.transforms import per_sample_gradients

RNG = np.random.default_rng(0)
N = 6
X, LABELS = RNG.normal(size=(N, 5)), RNG.integers(0, 3, N)
W, B, V, C = RNG.normal(size=(5, 4)), RNG.normal(size=4), RNG.normal(size=(4, 3)), RNG.normal(size=3)


def scores(w, b, v, c):
    return np.tanh(X @ w + b) @ v + c


# functions of parameters that all samples share, which treat the samples one by one
APART = {
    "cross-entropy": (
        lambda *p: fg.nn.logsumexp(scores(*p), axis=1) - scores(*p)[np.arange(N), LABELS],
        [W, B, V, C],
    ),
    "squares": (lambda *p: np.mean(scores(*p) ** 2, axis=1), [W, B, V, C]),
    "samples last": (lambda *p: np.sum(np.sin(scores(*p).T) * np.arange(3.0)[:, None], axis=0), [W, B, V, C]),
    "vector": (lambda w: X @ w, [W[:, 0]]),
    "scalar": (lambda s: np.exp(X[:, 0] * s), [np.array(0.3)]),
    "kept axis": (lambda s: (X[:, :1] * s).sum(axis=1), [np.array([[0.3]])]),
    "maximum": (lambda b: np.max(np.maximum(X[:, :4], b), axis=1), [B]),
    "product": (lambda b: np.prod(X[:, :4] + b, axis=1), [B]),
    "norm": (lambda b: np.linalg.norm(X[:, :4] - b, axis=1), [B]),
    "einsum": (lambda w, b: np.einsum("ni,ij,j->n", X, w, b), [W, B]),
    "matrices": (
        lambda w: np.einsum("nij,nij->n", (X[:, :, None] * X[:, None, :]) @ w, np.ones((N, 5, 4))),
        [W],
    ),
    "reshape": (lambda b: (X[:, :4] * b).reshape(N, 2, 2).sum(axis=(1, 2)), [B]),
    "slices": (lambda b: (X[:, :4] * b)[:, 1:3][..., ::-1].sum(axis=1), [B]),
    "integer": (lambda b: (X[:, :4] * b)[:, 2], [B]),
    "columns": (lambda b: (X[:, :4] * b)[:, [0, 0, 3]].sum(axis=1), [B]),
    "concatenate": (lambda b: np.concatenate([X[:, :4] * b, X], axis=1).sum(axis=1), [B]),
    "where": (lambda b: np.where(X[:, :4] > 0, b, b**2).sum(axis=1), [B]),
    "cumsum": (lambda b: np.cumsum(X[:, :4] * b, axis=1)[:, -2], [B]),
    "cumprod": (lambda b: np.cumprod(X[:, :4] * b, axis=1)[:, -1], [B]),
    "dtype": (lambda b: (X[:, :4].astype(np.float32) * b).sum(axis=1), [B.astype(np.float32)]),
    "complex": (lambda b: np.real(np.sum(np.exp(1j * X[:, :4] * b), axis=1)), [B]),
    "twice": (lambda b: (X[:, :4] * b).sum(axis=1) + (X[:, :4] @ b) ** 2, [B]),
}
# functions in which samples meet, or of one parameter for each sample
TOGETHER = {
    "own": (lambda x: np.sum(x * x, axis=1), [X]),
    "normalised": (lambda x: np.sum((x - x.mean(axis=0)) ** 3, axis=1), [X]),
    "softmax": (lambda b: np.exp(X[:, 0] * b[0]) / np.sum(np.exp(X[:, 0] * b[0])), [B]),
    "gram": (lambda x: (x @ x.T)[:, 0], [X]),
    "sorted": (lambda w: np.sort(X @ w), [W[:, 0]]),
    "rolled": (lambda w: (X @ w)[::-1], [W[:, 0]]),
    "gathered": (lambda w: (X @ w)[np.array([0, 0, 1, 2, 3, 5])], [W[:, 0]]),
    "cumsum": (lambda w: np.cumsum(X @ w), [W[:, 0]]),
    "reshape": (lambda b: (X * b[0]).reshape(5, N)[0], [B]),
    "solve": (lambda w: np.linalg.solve(np.eye(N) * 3 + 0.1, X @ w), [W[:, 0]]),
    "written": (lambda w: written(X @ w), [W[:, 0]]),
    "square": (lambda w: (X[:5, :5] @ w) @ w[:5, :4].T @ np.ones(5), [RNG.normal(size=(5, 5))[:, :4]]),
}


def written(y):
    y[1] = y[0] * 2
    return y


def oracle(f, params):
    """Return one gradient per element, each by its own backward."""
    rows = []
    for i in range(f(*map(fg.tensor, params)).shape[0]):
        tensors = [fg.tensor(p) for p in params]
        with fg.GradManager().attach(tensors) as gm:
            gm.backward(f(*tensors)[i])
        rows.append([t.grad.numpy() for t in tensors])
    return [np.stack(column) for column in zip(*rows, strict=True)]


def by_sample(f, params, dy=None):
    tensors = [fg.tensor(p) for p in params]
    with fg.GradManager().attach(tensors) as gm:
        gm.backward(f(*tensors), dy, per_sample=True)
    return [t.grad for t in tensors]


@pytest.mark.parametrize("name", APART)
def test_samples_that_stay_apart_need_one_sweep(name, monkeypatch):
    f, params = APART[name]

    def spread(self, c):
        assert not isinstance(c, per_sample_gradients.Rows), "the samples met"
        return c

    expected = oracle(f, params)
    monkeypatch.setattr(per_sample_gradients._Sweep, "spread", spread)
    for got, e, p in zip(by_sample(f, params), expected, params, strict=True):
        close(got, e)
        assert got.dtype == p.dtype


@pytest.mark.parametrize("name", [*APART, *TOGETHER])
@pytest.mark.parametrize("limit", [per_sample_gradients.LARGE, 64])
def test_any_function(name, limit, monkeypatch):
    f, params = (APART | TOGETHER)[name]
    monkeypatch.setattr(per_sample_gradients, "LARGE", limit)
    dy = RNG.normal(size=f(*map(fg.tensor, params)).shape)
    expected = oracle(f, params)
    for got, weighted, e in zip(by_sample(f, params), by_sample(f, params, dy), expected, strict=True):
        close(got, e)
        close(
            weighted, e * dy.reshape(-1, *(1,) * (e.ndim - 1)), rtol=1e-5 if e.dtype == np.float32 else None
        )


def test_against_differences():
    f, params = APART["cross-entropy"]
    for i, got in enumerate(by_sample(f, params)):
        g = lambda p: f(*(fg.tensor(p) if j == i else q for j, q in enumerate(params))).numpy()
        close(got, differences(g, params[i]), rtol=1e-6)


def test_no_samples():
    (got,) = by_sample(lambda w: X[:0] @ w, [W[:, 0]])
    assert got.shape == (0, 5)


def test_tensors_that_are_not_reached_and_intermediates():
    w, other = fg.tensor(W[:, 0]), fg.tensor(B)
    gm = fg.GradManager().attach([w, other])
    with gm:
        y = X @ w
        gm.attach(y)
        gm.backward(y * y, per_sample=True)
    assert other.grad is None
    close(w.grad, 2 * (X @ W[:, 0])[:, None] * X)
    close(y.grad, np.diag(2 * X @ W[:, 0]))


def test_gradients_accumulate_with_their_like_only():
    w, gm = fg.tensor(W[:, 0]), fg.GradManager()
    gm.attach(w)
    for _ in range(2):
        with gm:
            gm.backward(X @ w, per_sample=True)
    exactly(w.grad, 2 * X)
    with gm, pytest.raises(ValueError, match=r"shape \(5,\).*\(6, 5\).*per sample"):
        gm.backward(X @ w)
    exactly(w.grad, 2 * X)
    w.grad = None
    with gm:
        gm.backward(X @ w)
    with gm, pytest.raises(ValueError, match="per sample"):
        gm.backward(X @ w, per_sample=True)


def test_callbacks_get_the_gradients_of_all_samples():
    w, seen = fg.tensor(W[:, 0]), []

    def clip(t, g):
        seen.append((t, g.shape))
        return g / np.maximum(1.0, np.linalg.norm(g, axis=1, keepdims=True))

    with fg.GradManager().attach(w, callback=clip) as gm:
        gm.backward(X @ w, per_sample=True)
    assert seen[0][0] is w
    assert seen[0][1] == (6, 5)
    close(w.grad, X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True)))


def test_managers_around_differentiate_through():
    w, s = fg.tensor(W[:, 0]), fg.tensor(0.5)
    outer = fg.GradManager().attach([w, s])
    with outer:
        with fg.GradManager().attach(w) as gm:
            gm.backward(np.sin(X @ w * s), per_sample=True)
        per = w.grad
        w.grad = None
        outer.backward(np.sum(per**2))

    def total(p):
        u = X @ p[:5] * p[5]
        return np.sum((np.cos(u)[:, None] * X * p[5]) ** 2)

    expected = differences(total, np.append(W[:, 0], 0.5))
    close(w.grad, expected[:5], rtol=1e-6)
    close(s.grad, expected[5], rtol=1e-6)


def test_inside_vmap():
    def f(w):
        leaf = w * 1.0
        with fg.GradManager().attach(leaf) as gm:
            gm.backward(np.tanh(X @ leaf), per_sample=True)
        return leaf.grad

    ws = RNG.normal(size=(3, 5))
    close(fg.vmap(f)(ws), (1 - np.tanh(ws @ X.T) ** 2)[:, :, None] * X)


@pytest.mark.parametrize("y", [lambda w: w.sum(), lambda w: np.outer(w, w), lambda w: [w], lambda w: None])
def test_refusals(y):
    w = fg.tensor(W[:, 0])
    with fg.GradManager().attach(w) as gm, pytest.raises(ValueError, match=r"one axis, the samples"):
        gm.backward(y(w), per_sample=True)
    assert w.grad is None
