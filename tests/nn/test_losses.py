from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from tests.nn.oracles import agree, derivatives

import fgrad as fg
from fgrad import nn

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 4)) * 3


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax_cross_entropy(axis):
    n = X.shape[axis]
    labels = RNG.integers(0, n, np.delete(X.shape, axis))
    hot = nn.one_hot(labels, n, axis=axis)
    expected = -np.sum(hot * scipy.special.log_softmax(X, axis), axis)
    agree(lambda x: nn.softmax_cross_entropy(x, labels, axis), expected, X, rtol=1e-12)
    agree(lambda x: nn.softmax_cross_entropy(x, hot, axis), expected, X, rtol=1e-12)
    agree(lambda x: nn.softmax_cross_entropy(x, hot.astype(int), axis), expected, X, rtol=1e-12)
    derivatives(lambda x: nn.softmax_cross_entropy(x, labels, axis), X)
    g = fg.grad(lambda x: np.sum(nn.softmax_cross_entropy(x, labels, axis)))(X)
    np.testing.assert_allclose(g, scipy.special.softmax(X, axis) - hot, atol=1e-12)
    p = RNG.dirichlet(np.ones(4), (2, 3))
    derivatives(lambda x, p: nn.softmax_cross_entropy(x, p), X, p)


def test_labels_under_vmap_and_as_tensors():
    labels = RNG.integers(0, 4, (2, 3))
    expected = nn.softmax_cross_entropy(X, labels)
    np.testing.assert_allclose(fg.vmap(nn.softmax_cross_entropy)(X, labels), expected)
    np.testing.assert_allclose(nn.softmax_cross_entropy(X, fg.tensor(labels)).numpy(), expected)
    assert nn.softmax_cross_entropy(X.astype("f"), labels.astype(np.uint8)).dtype == np.float32


def test_infinite_scores_beside_probabilities_of_zero():
    x = np.array([-np.inf, 0.0, 0.0])
    np.testing.assert_allclose(nn.softmax_cross_entropy(x, np.array([0.0, 1.0, 0.0])), np.log(2))
    g = fg.grad(lambda x: nn.softmax_cross_entropy(x, np.array([0.0, 1.0, 0.0])))(x)
    np.testing.assert_allclose(g, [0, -0.5, 0.5])
    np.testing.assert_allclose(nn.softmax_cross_entropy(np.array([1e4, 0.0]), 1), 1e4)


def test_labels_that_do_not_fit():
    with pytest.raises(IndexError, match="a label is -1"):
        nn.softmax_cross_entropy(X, np.full((2, 3), -1))
    with pytest.raises(IndexError):
        nn.softmax_cross_entropy(X, np.full((2, 3), 4))
    with pytest.raises(ValueError, match="neither integers"):
        nn.softmax_cross_entropy(X, np.zeros((2, 4)))


def test_sigmoid_binary_cross_entropy():
    y = RNG.random(X.shape)
    s = scipy.special.expit(X)
    expected = -(y * np.log(s) + (1 - y) * np.log1p(-s))
    agree(lambda x, y: nn.sigmoid_binary_cross_entropy(x, y), expected, X, y, rtol=1e-11)
    derivatives(nn.sigmoid_binary_cross_entropy, X, y)
    for labels in (X > 0, (X > 0).astype(int)):
        agree(lambda x, y=labels: nn.sigmoid_binary_cross_entropy(x, y), np.log1p(np.exp(-np.abs(X))), X)
    assert nn.sigmoid_binary_cross_entropy(X.astype("f"), X > 0).dtype == np.float32
    far = np.array([1000.0, -1000.0, np.inf, -np.inf, 40.0])
    right = np.array([1.0, 0.0, 1.0, 0.0, 1.0])
    np.testing.assert_allclose(nn.sigmoid_binary_cross_entropy(far, right), [0, 0, 0, 0, np.exp(-40)])
    np.testing.assert_array_equal(nn.sigmoid_binary_cross_entropy(far[:2], 1 - right[:2]), [1000, 1000])
    g = fg.grad(lambda x: np.sum(nn.sigmoid_binary_cross_entropy(x, right)))(far)
    np.testing.assert_allclose(g, [0, 0, 0, 0, -np.exp(-40)])
