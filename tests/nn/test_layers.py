"""Layers as pairs of functions: shapes, keys and values, against the same written out."""

import numpy as np
import pytest

import fgrad as fg
from fgrad import nn
from fgrad.nn import layers
from fgrad.random import threefry

KEY = threefry.key(3)
X = np.arange(8.0, dtype=np.float32).reshape(2, 4) / 8


@pytest.mark.parametrize("run", [lambda f: f, fg.jit], ids=["eager", "compiled"])
def test_a_network_with_branches(run):
    two = layers.parallel(layers.serial(layers.dense(2), layers.tanh), layers.dense(2))
    init, apply = layers.serial(
        layers.dense(3), layers.relu, layers.fan_out(2), two, layers.summed, layers.softmax
    )
    shape, params = init(KEY, (-1, 4))
    assert shape == (-1, 2)
    recorded = [[0.50123, 0.49877], [0.52182, 0.47818]]  # of jax.example_libraries.stax
    np.testing.assert_allclose(np.asarray(run(apply)(params, X)), recorded, atol=2e-5)
    gradient = run(fg.grad(lambda p: (apply(p, X)[:, 0] ** 2).sum()))(params)
    (w, b), *_ = gradient
    assert (w.shape, b.shape) == ((4, 3), (3,))

    def moved(step):
        (first, shift), *rest = params
        first = np.asarray(first, np.float64)
        first[1, 2] += step
        return float((apply([(first, shift), *rest], X)[:, 0] ** 2).sum())

    assert float(w[1, 2]) == pytest.approx((moved(1e-3) - moved(-1e-3)) / 2e-3, abs=1e-4)


def test_shapes_follow():
    several = layers.parallel(layers.identity, layers.elu)
    init, apply = layers.serial(layers.fan_out(2), several, layers.concatenated(), layers.flat)
    shape, params = init(KEY, (2, 3, 4))
    x = np.arange(24.0).reshape(2, 3, 4) - 12
    out = np.asarray(apply(params, x, rng=KEY))
    assert shape == out.shape == (2, 24)
    np.testing.assert_allclose(out, np.concatenate([x, np.asarray(nn.elu(x))], -1).reshape(2, -1))


def test_each_layer_has_a_key_of_its_own():
    def noise():
        return lambda _, shape: (shape, ()), lambda params, x, rng=None: x + threefry.uniform(rng, x.shape)

    _, apply = layers.parallel(noise(), noise())
    a, b = (np.asarray(y) for y in apply([(), ()], [X, X], rng=KEY))
    keys = threefry.split(KEY, 2)
    for y, key in zip((a, b), keys, strict=True):
        np.testing.assert_allclose(y, X + np.asarray(threefry.uniform(key, X.shape)))
    _, apply = layers.serial(noise())
    (only,) = threefry.split(KEY, 1)
    np.testing.assert_allclose(
        np.asarray(apply([()], X, rng=KEY)), X + np.asarray(threefry.uniform(only, X.shape))
    )


def test_first_weights_of_ones_own_and_nothing():
    ones = lambda key, shape: np.ones(shape)
    _, apply = layers.dense(2, ones, ones)
    _, params = layers.dense(2, ones, ones)[0](KEY, (3, 4))
    np.testing.assert_allclose(np.asarray(apply(params, X)), X.sum(1, keepdims=True) + np.ones((2, 2)))
    shape, params = layers.serial()[0](KEY, (3,))
    assert (shape, params) == ((3,), [])
