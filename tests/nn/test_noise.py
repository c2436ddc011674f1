from __future__ import annotations

import numpy as np
import pytest

import fgrad as fg
from fgrad import nn

X = np.arange(1.0, 10_001.0)


def test_elements_vanish_or_grow():
    y = nn.dropout(X, 0.3, np.random.default_rng(0))
    gone = y == 0
    assert 0.28 < gone.mean() < 0.32
    np.testing.assert_allclose(y[~gone], X[~gone] / 0.7)
    np.testing.assert_array_equal(y, nn.dropout(X, 0.3, np.random.default_rng(0)))
    g = fg.grad(lambda x: np.sum(nn.dropout(x, 0.3, np.random.default_rng(0))))(X)
    np.testing.assert_allclose(g, np.where(gone, 0, 1 / 0.7))


def test_rates_zero_and_one():
    for rate, train, slope in ((0, True, 1.0), (1, True, 0.0), (0.5, False, 1.0), (1, False, 1.0)):
        y = nn.dropout(X, rate, train=train)
        np.testing.assert_array_equal(y, X * slope)
        g = fg.grad(lambda x, r=rate, t=train: np.sum(nn.dropout(x, r, train=t)))(X)
        np.testing.assert_array_equal(g, np.full(X.shape, slope))
    np.testing.assert_array_equal(nn.dropout(np.array([np.inf, np.nan]), 1), [0, 0])


def test_dtypes():
    rng = np.random.default_rng(0)
    for code in "efdD":
        assert nn.dropout(X[:5].astype(code), 0.5, rng).dtype == np.dtype(code)
    assert nn.dropout(np.arange(3), 0.5, rng).dtype == np.float64
    assert isinstance(nn.dropout(fg.tensor(X), 0.5, rng), fg.Tensor)
    assert nn.dropout(X[:0], 0.5, rng).shape == (0,)


def test_examples_of_vmap_share_the_places():
    y = fg.vmap(lambda x: nn.dropout(x, 0.5, np.random.default_rng(0)))(np.ones((3, 50)))
    assert (y == y[0]).all()


def test_what_cannot_be():
    for rate in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match="rate is a probability"):
            nn.dropout(X, rate, np.random.default_rng(0))
    for rng in (None, 3, np.random.RandomState(0)):
        with pytest.raises(TypeError, match=r"numpy.random.Generator, not"):
            nn.dropout(X, 0.5, rng)
