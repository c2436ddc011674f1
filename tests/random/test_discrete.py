"""Discrete samplers: NumPy's streams, the right distributions, and a clear error instead of a derivative."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fgrad as fg
from fgrad import random

P = np.array([0.1, 0.2, 0.3, 0.4])


def rng():
    return np.random.default_rng(11)


@pytest.mark.parametrize(
    ("name", "args", "options"),
    [
        ("poisson", (3.0, 50), {}),
        ("poisson", (np.array([1.0, 30.0]),), {}),
        ("binomial", (10, 0.3, 50), {}),
        ("integers", (5, None, 50), {}),
        ("integers", (0, 2**64, 5), {"dtype": np.uint64}),
        ("integers", (2**63, 2**64, 5), {"dtype": np.uint64}),
        ("integers", (-3, 7, (2, 3)), {"dtype": np.int32, "endpoint": True}),
        ("permutation", (10,), {}),
        ("permutation", (np.arange(12).reshape(4, 3),), {}),
        ("permutation", (np.arange(12).reshape(4, 3),), {"axis": 1}),
        ("choice", (10, 4), {"replace": False}),
        ("choice", (4, (2, 5)), {"p": P}),
        ("choice", (np.arange(8.0).reshape(2, 4), 3), {"axis": 1, "p": P}),
    ],
)
def test_a_generator_gives_the_stream_of_numpy(name, args, options):
    expected = getattr(rng(), name)(*args, **options)
    found = getattr(random, name)(rng(), *args, **options)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype
    tensors = [fg.tensor(a) if isinstance(a, np.ndarray) else a for a in args]
    np.testing.assert_array_equal(np.asarray(getattr(random, name)(rng(), *tensors, **options)), expected)


def test_shuffle_works_in_place():
    expected = np.arange(12).reshape(4, 3)
    x, t = expected.copy(), fg.tensor(expected)
    rng().shuffle(expected)
    random.shuffle(rng(), x)
    random.shuffle(rng(), t)
    np.testing.assert_array_equal(x, expected)
    np.testing.assert_array_equal(t.numpy(), expected)
    with pytest.raises(TypeError, match="permutation"):
        random.shuffle(rng(), [1, 2])


def frequencies(x, n):
    return np.bincount(np.asarray(x).ravel(), minlength=n) / np.size(x)


def test_distributions_from_keys():
    n = 20_000
    keys = random.split(random.key(7), 6)
    assert np.mean(random.bernoulli(keys[0], 0.3, n)) == pytest.approx(0.3, abs=0.02)
    drawn = random.categorical(keys[1], np.log(P), size=n)
    assert stats.chisquare(np.bincount(drawn, minlength=4), P * n).pvalue > 1e-3
    drawn = random.choice(keys[2], 4, n, p=P)
    assert stats.chisquare(np.bincount(drawn, minlength=4), P * n).pvalue > 1e-3
    drawn = random.poisson(keys[3], 4.0, n)
    assert drawn.mean() == pytest.approx(4, abs=0.07)
    assert drawn.var() == pytest.approx(4, abs=0.2)
    drawn = random.binomial(keys[4], 20, 0.3, n)
    assert drawn.mean() == pytest.approx(6, abs=0.07)
    assert drawn.var() == pytest.approx(4.2, abs=0.2)
    drawn = random.integers(keys[5], -5, 5, n)
    assert stats.chisquare(np.bincount(drawn + 5, minlength=10)).pvalue > 1e-3
    orders = fg.vmap(lambda k: random.permutation(k, 3))(random.split(random.key(2), 600))
    assert stats.chisquare(np.unique(orders, axis=0, return_counts=True)[1]).pvalue > 1e-3


def test_categorical_shapes():
    logits = np.log(np.broadcast_to(P, (3, 4)))
    key = random.key(0)
    assert random.categorical(key, logits).shape == (3,)
    assert random.categorical(key, logits.T, axis=0).shape == (3,)
    assert random.categorical(key, logits, size=(5, 3)).shape == (5, 3)
    assert random.categorical(key, np.array([-np.inf, 0.0]), size=50).min() == 1
    assert random.categorical(key, logits).dtype == np.int64
    with pytest.raises(ValueError, match="broadcast"):
        random.categorical(key, logits, size=(2,))


@pytest.mark.parametrize("source", [rng, lambda: random.key(1)])
@pytest.mark.parametrize(
    "sampler",
    [
        lambda s, p: random.bernoulli(s, p[0]),
        lambda s, p: random.categorical(s, p),
        lambda s, p: random.poisson(s, p),
        lambda s, p: random.binomial(s, 5, p),
        lambda s, p: random.choice(s, 4, p=p),
        lambda s, p: random.integers(s, p),
    ],
)
def test_a_derivative_in_the_parameters_is_refused(source, sampler):
    with pytest.raises(TypeError, match=r"score function.*gumbel-softmax.*stop_gradient"):
        fg.grad(lambda p: np.sum(sampler(source(), p) * 1.0))(P)


def test_a_derivative_is_refused_through_vmap_and_programs():
    key = random.key(1)
    mapped = lambda p: np.sum(fg.vmap(lambda q: random.poisson(key, q))(p) * 1.0)
    with pytest.raises(TypeError, match="score function"):
        fg.grad(mapped)(P)
    program = fg.make_graph(lambda p: random.poisson(key, p) * 1.0)(P)
    with pytest.raises(TypeError, match="score function"):
        fg.grad(lambda p: np.sum(program(p)))(P)


def test_constants_pass():
    f = lambda p: np.sum(random.bernoulli(rng(), fg.stop_gradient(p)) * p)
    drawn = rng().random(4) < P
    np.testing.assert_array_equal(fg.grad(f)(P), drawn)


def test_elements_that_are_chosen_keep_their_gradient():
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    for source in (rng, lambda: random.key(3)):
        order = random.permutation(source(), 4)
        g = fg.grad(lambda x, source=source: np.sum(random.permutation(source(), x) * weights))(P)
        expected = np.zeros(4)
        expected[order] = weights
        np.testing.assert_array_equal(g, expected)
        found = random.choice(source(), 4, 6)
        g = fg.grad(lambda x, source=source: np.sum(random.choice(source(), x, 6)))(P)
        np.testing.assert_array_equal(g, np.bincount(found, minlength=4))

        def shuffled(x, source=source):
            y = x * 1.0
            random.shuffle(source(), y)
            return np.sum(y * weights)

        np.testing.assert_array_equal(fg.grad(shuffled)(P), expected)


@pytest.mark.parametrize(
    "call",
    [
        lambda s: random.bernoulli(s, 1.5),
        lambda s: random.bernoulli(s, -0.5),
        lambda s: random.poisson(s, -1.0),
        lambda s: random.binomial(s, -1, 0.5),
        lambda s: random.integers(s, 5, 5),
        lambda s: random.choice(s, 3, 5, replace=False),
        lambda s: random.choice(s, 3, p=np.array([0.5, 0.5, 0.5])),
    ],
)
def test_parameters_out_of_range_are_refused(call):
    for source in (rng(), random.key(0)):
        with pytest.raises(ValueError):
            call(source)
