from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from tests.nn.oracles import agree, derivatives

import fgrad as fg
from fgrad import nn
from fgrad.testing import check_grads

X = np.random.default_rng(0).standard_normal((2, 3, 4)) * 3
AXES = [-1, 0, 1, (0, 2), (-1, 0), None, ()]


@pytest.mark.parametrize("axis", AXES)
def test_values_are_those_of_scipy(axis):
    for x in (
        X,
        X.astype("f"),
        X.transpose(2, 0, 1),
        X[..., ::2],
        X[:0] if axis not in {0, None, (0, 2), (-1, 0)} else X,
    ):
        rtol = 3e-6 if x.dtype == np.float32 else 1e-13
        places = tuple(range(3)) if axis is None else axis
        expected = x * 0 + 1 if axis == () else scipy.special.softmax(x, places).astype(x.dtype)
        agree(lambda x: nn.softmax(x, axis), expected, x, rtol=rtol)
        agree(lambda x: nn.log_softmax(x, axis), np.log(expected), x, rtol=10 * rtol)
        if axis != ():
            expected = scipy.special.logsumexp(x, axis).astype(x.dtype)
            agree(lambda x: nn.logsumexp(x, axis), expected, x, rtol=rtol)


@pytest.mark.parametrize("axis", AXES)
def test_derivatives(axis):
    for f in (nn.softmax, nn.log_softmax, nn.logsumexp):
        derivatives(lambda x, f=f: f(x, axis), X / 3)
    derivatives(lambda x: nn.softmax(x), X[0, 0], order=3)


@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp_keeps_axes(keepdims):
    for axis in (None, 0, (0, 1)):
        expected = np.log(np.sum(np.exp(X), axis, keepdims=keepdims))
        agree(lambda x, axis=axis: nn.logsumexp(x, axis, keepdims=keepdims), expected, X)
    agree(
        lambda x: nn.logsumexp(x, 0),
        np.log(np.exp([1.0, 2.0]) + np.exp([3.0, 4.0])),
        np.array([[1, 2], [3, 4]]),
    )


def test_dtypes():
    agree(lambda x: nn.softmax(x), scipy.special.softmax([1.0, 3.0]), np.array([1, 3]))
    agree(lambda x: nn.softmax(x, None), 1.0, np.array(3.0))
    assert nn.softmax(X.astype("e")).dtype == np.float16
    assert nn.logsumexp(X.astype(np.longdouble)).dtype == np.longdouble
    np.testing.assert_allclose(nn.softmax([1, 3]), scipy.special.softmax([1, 3]))
    for f in (nn.softmax, nn.log_softmax, nn.logsumexp):
        with pytest.raises(np.exceptions.AxisError):
            f(X, 3)


def test_infinite_scores():
    inf = np.inf
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(nn.softmax([-inf, 0.0, 0.0]), [0, 0.5, 0.5])
        np.testing.assert_array_equal(nn.softmax([-inf, -inf]), [np.nan, np.nan])
        np.testing.assert_array_equal(nn.log_softmax([-inf, 0.0]), [-inf, 0])
        np.testing.assert_array_equal(nn.log_softmax([-inf, -inf]), [np.nan, np.nan])
        np.testing.assert_array_equal(nn.softmax([1000.0, -1000.0]), [1, 0])
    for f in (lambda x: nn.softmax(x)[1], lambda x: nn.log_softmax(x)[1]):
        for g in (fg.grad(f)(np.array([-inf, 0.0, 0.0])), fg.hessian(f)(np.array([-inf, 0.0, 0.0]))):
            assert np.isfinite(g).all()
    assert nn.logsumexp(np.array([1000.0, 1000.0])) == 1000 + np.log(2)
    assert nn.logsumexp(np.array([-inf, -inf])) == -inf
    assert nn.logsumexp(np.array([inf, 0.0])) == inf
    assert nn.logsumexp(np.zeros(0)) == -inf
    np.testing.assert_array_equal(fg.grad(nn.logsumexp)(np.array([-inf, -inf])), np.zeros(2))
    np.testing.assert_array_equal(fg.grad(nn.logsumexp)(np.array([-inf, 0.0])), [0.0, 1.0])


def test_where():
    mask = np.random.default_rng(1).random(X.shape) < 0.7
    mask[0, 0] = False
    expected = np.zeros(X.shape)
    for i in np.ndindex(2, 3):
        expected[i][mask[i]] = np.exp(X[i][mask[i]]) / np.sum(np.exp(X[i][mask[i]]))
    with np.errstate(invalid="ignore", divide="ignore"):
        agree(lambda x: nn.softmax(x, where=mask), expected, X)
        seen = np.where(mask.any(-1, keepdims=True), np.log(expected), -np.inf)
        y = nn.log_softmax(X, where=mask)
        np.testing.assert_allclose(y[mask], seen[mask])
        assert (y[~mask] == -np.inf).all()
        sums = np.log(np.sum(np.exp(X), -1, where=mask))
        agree(lambda x: nn.logsumexp(x, -1, where=mask), sums, X)
        mask[0, 0, 1] = True
        check_grads(lambda x: nn.softmax(x, where=mask), (X / 3,), 2)
        check_grads(lambda x: nn.logsumexp(x, -1, where=mask), (X / 3,), 2)
        weights = np.where(mask, 1.0, 0.0)
        g = fg.grad(lambda x: np.sum(np.where(mask, nn.log_softmax(x, where=mask), 0) * weights))(X)
    assert np.isfinite(g).all()
    assert (g[~mask] == 0).all()


def test_a_row_that_is_masked_altogether_does_not_spoil_the_others():
    mask = np.array([[False, False], [True, True]])
    with np.errstate(invalid="ignore"):
        g = fg.grad(lambda x: nn.softmax(x, where=mask)[1, 0])(np.zeros((2, 2)))
    np.testing.assert_array_equal(g, [[0, 0], [0.25, -0.25]])


def test_weighted_logsumexp():
    b = np.random.default_rng(2).random(X.shape)
    b[0, 0, 0] = 0
    x = X.copy()
    x[0, 0, 0] = 1e6
    for axis in (None, 1, (0, 2)):
        agree(lambda x, b, axis=axis: nn.logsumexp(x, axis, b=b), scipy.special.logsumexp(x, axis, b=b), x, b)
        expected = scipy.special.logsumexp(X, axis, b=b, keepdims=True)
        agree(lambda x, axis=axis: nn.logsumexp(x, axis, b=b, keepdims=True), expected, X)
    derivatives(lambda x, b: nn.logsumexp(x, 1, b=b), X / 3, b + 0.1)
    with np.errstate(invalid="ignore"):
        assert np.isnan(nn.logsumexp([0.0, 1.0], b=[1.0, -1.0]))
    assert nn.logsumexp(np.array([800.0, -3.0]), b=[1.0, 2.0]) == 800.0


def test_logsumexp_with_signs_of_chosen_elements():
    b, where = (
        np.array([[1.0, -3.0, 2.0], [0.5, 1.0, -0.1]]),
        np.array([[True, True, False], [False, True, True]]),
    )
    x, chosen = X.reshape(-1)[:6].reshape(2, 3), np.where(where, b, 0)
    expected = scipy.special.logsumexp(x, 1, b=chosen, return_sign=True)
    agree(lambda x, b: nn.logsumexp(x, 1, b, return_sign=True, where=where)[0], expected[0], x, b)
    agree(lambda x, b: nn.logsumexp(x, 1, b, return_sign=True, where=where)[1], expected[1], x, b)
    derivatives(lambda x, b: nn.logsumexp(x, 1, b, return_sign=True, where=where)[0], x / 3, b)


def test_one_hot():
    labels = np.array([[0, 2], [1, 5]])
    expected = np.zeros((2, 2, 3))
    expected[0, 0, 0] = expected[0, 1, 2] = expected[1, 0, 1] = 1
    agree(lambda x: nn.one_hot(x, 3), expected, labels)
    agree(
        lambda x: nn.one_hot(x, 3, dtype=np.float32, axis=0), np.moveaxis(expected, -1, 0).astype("f"), labels
    )
    agree(lambda x: nn.one_hot(x, 3, dtype=bool, axis=-2), np.moveaxis(expected, -1, -2).astype(bool), labels)
    np.testing.assert_array_equal(nn.one_hot(2, 3), [0, 0, 1])
    np.testing.assert_array_equal(fg.vmap(lambda x: nn.one_hot(x, 3))(labels), expected)
    with pytest.raises(TypeError, match="takes integers, not float64"):
        nn.one_hot(np.array([1.0]), 3)


@pytest.mark.parametrize("shape", [(5, 0), (0, 5), (0, 0)])
@pytest.mark.parametrize("f", [nn.softmax, nn.log_softmax], ids=lambda f: f.__name__)
def test_rows_without_elements(f, shape):
    x = np.zeros(shape)
    assert f(x).shape == f(fg.tensor(x)).shape == fg.jit(f)(x).shape == shape
    assert fg.grad(lambda x: np.sum(f(x)))(x).shape == shape


@pytest.mark.parametrize("b", [[1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [1.0, -0.5, 0.0], [0.0, 0.0, 0.0]])
@pytest.mark.parametrize("a", [[0.0, 1.0, 2.0], [-np.inf, 1.0, 3.0], [-np.inf, -np.inf, -np.inf]])
def test_logsumexp_has_slopes_in_weights_that_are_zero(a, b):
    a, b = np.array(a), np.array(b)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = b @ np.exp(a)
        in_b = np.where(np.exp(a) > 0, np.exp(a) / total, 0)
        in_a = np.where(b * np.exp(a) == 0, 0, b * np.exp(a) / total)
        found = fg.grad(lambda a, b: fg.nn.logsumexp(a, b=b), argnums=(0, 1))(a, b)
        several = fg.grad(
            lambda a, b: fg.scipy.special.logsumexp(a, b=b, return_sign=True)[0], argnums=(0, 1)
        )(a, b)
    for slopes in (found, several if total else found):
        np.testing.assert_allclose(slopes[0], in_a, rtol=1e-14)
        np.testing.assert_allclose(slopes[1], in_b, rtol=1e-14)


def test_logsumexp_of_what_overflows_at_a_weight_of_zero():
    a, b = np.array([1e4, 1.0]), np.array([0.0, 2.0])
    assert float(fg.nn.logsumexp(a, b=b)) == 1 + np.log(2)
    np.testing.assert_allclose(fg.grad(lambda a: fg.nn.logsumexp(a, b=b))(a), [0, 1], rtol=1e-14)
