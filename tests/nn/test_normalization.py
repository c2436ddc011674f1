from __future__ import annotations

import numpy as np
import pytest
from tests.nn.oracles import agree, derivatives

import fgrad as fg
from fgrad import nn

X = np.random.default_rng(0).standard_normal((2, 3, 4)) * 3 + 1
EPS = 1e-3


def normal(x, axes, eps=EPS):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize("axis", [-1, 0, 1, (1, 2), (0, -1), (2, 0), None])
def test_layer_norm_and_standardize(axis):
    axes = tuple(range(3)) if axis is None else axis
    for x in (X, X.astype("f"), X.T, X[..., ::2]):
        rtol = 1e-5 if x.dtype == np.float32 else 1e-12
        expected = normal(x, axes).astype(x.dtype)
        agree(lambda x: nn.standardize(x, axis, eps=EPS), expected, x, rtol=rtol)
        agree(lambda x: nn.layer_norm(x, axis=axis, eps=EPS), expected, x, rtol=rtol)
    shape = tuple(X.shape[i] for i in sorted(a % 3 for a in np.atleast_1d(axes)))
    rng = np.random.default_rng(1)
    w, b = rng.standard_normal(shape), rng.standard_normal(shape)
    wide = [n if i in {a % 3 for a in np.atleast_1d(axes)} else 1 for i, n in enumerate(X.shape)]
    expected = normal(X, axes) * w.reshape(wide) + b.reshape(wide)
    agree(lambda x, w, b: nn.layer_norm(x, w, b, axis=axis, eps=EPS), expected, X, w, b, rtol=1e-12)
    derivatives(lambda x, w, b: nn.layer_norm(x, w, b, axis=axis, eps=1.0), X, w, b)


def test_layer_norm_under_vmap_with_shared_and_own_parameters():
    rng = np.random.default_rng(1)
    x, w, b = rng.standard_normal((5, 2, 4)), rng.standard_normal((5, 4)), rng.standard_normal((5, 4))
    one = lambda x, w, b: nn.layer_norm(x, w, b)
    for axes in [(0, 0, 0), (0, None, None), (None, 0, 0), (0, 0, None), (None, None, 0)]:
        args = [a if k == 0 else a[0] for a, k in zip((x, w, b), axes, strict=True)]
        loop = [one(*(a[i] if k == 0 else a for a, k in zip(args, axes, strict=True))) for i in range(5)]
        np.testing.assert_allclose(fg.vmap(one, axes)(*args), np.stack(loop), rtol=1e-12)


def test_layer_norm_dtypes_and_errors():
    x = X.astype("f")
    assert nn.layer_norm(x, np.ones(4)).dtype == np.float64
    assert nn.layer_norm(X.astype("e")).dtype == np.float16
    large = np.full((1, 1000), 300, "e")
    large[0, :500] = 100
    np.testing.assert_allclose(nn.layer_norm(large), normal(large.astype(float), 1), rtol=1e-3)
    assert nn.layer_norm(np.array([1, 3])).dtype == np.float64
    assert nn.layer_norm(X[:0]).shape == (0, 3, 4)
    g = fg.grad(lambda w: np.sum(nn.layer_norm(X, w)))(np.ones(4, "f"))
    assert g.dtype == np.float32
    with pytest.raises(ValueError, match=r"weight has shape \(3,\), the axes have lengths \(4,\)"):
        nn.layer_norm(X, np.ones(3))
    with pytest.raises(np.exceptions.AxisError):
        nn.layer_norm(X, axis=3)


def test_constant_rows_have_finite_derivatives():
    x = np.ones((2, 5))
    np.testing.assert_array_equal(nn.layer_norm(x), np.zeros((2, 5)))
    assert np.isfinite(fg.hessian(lambda x: nn.layer_norm(x).sum() + nn.layer_norm(x)[0, 0])(x)).all()


def test_standardize_with_given_statistics_and_mask():
    mask = np.random.default_rng(2).random(X.shape) < 0.8
    mask[..., 0] = True
    center, variance = X.mean(-1, keepdims=True, where=mask), X.var(-1, keepdims=True, where=mask)
    expected = (X - center) / np.sqrt(variance + 1e-5)
    agree(lambda x: nn.standardize(x, where=mask), expected, X, rtol=1e-12)
    agree(lambda x, m, v: nn.standardize(x, -1, m, v), expected, X, center, variance, rtol=1e-12)
    derivatives(lambda x, m, v: nn.standardize(x, -1, m, v), X, center, variance)
    derivatives(lambda x: nn.standardize(x, where=mask), X)


def test_rms_norm():
    w = np.array([1.0, 2.0, 0.5, -1.0])
    expected = X / np.sqrt(np.mean(X**2, -1, keepdims=True) + 1e-6) * w
    agree(lambda x, w: nn.rms_norm(x, w), expected, X, w)
    expected = X / np.sqrt(np.mean(X**2, (0, 1), keepdims=True) + 0.1)
    agree(lambda x: nn.rms_norm(x, axis=(0, 1), eps=0.1), expected, X)
    derivatives(lambda x, w: nn.rms_norm(x, w), X, w)
    assert np.isfinite(fg.grad(lambda x: np.sum(nn.rms_norm(x)))(np.zeros(3))).all()


def test_group_norm():
    x = np.random.default_rng(0).standard_normal((2, 6, 3, 2))
    w, b = np.arange(1.0, 7.0), np.arange(6.0)
    parts = normal(x.reshape(2, 3, -1), 2).reshape(x.shape)
    expected = parts * w[:, None, None] + b[:, None, None]
    agree(lambda x, w, b: nn.group_norm(x, 3, w, b, eps=EPS), expected, x, w, b, rtol=1e-12)
    agree(lambda x: nn.group_norm(x, 1), normal(x.reshape(2, -1), 1, 1e-5).reshape(x.shape), x, rtol=1e-12)
    derivatives(lambda x, w, b: nn.group_norm(x, 2, w, b), x[..., 0], w, b)
    for groups in (4, 0):
        with pytest.raises(ValueError, match=f"{groups} groups do not divide"):
            nn.group_norm(x, groups)


def test_batch_norm():
    x = np.random.default_rng(0).standard_normal((5, 3, 2))
    w, b, mean, var = np.arange(1.0, 4.0), np.arange(3.0), np.full(3, 0.5), np.full(3, 2.0)
    train = lambda x, w, b: nn.batch_norm(x, mean, var, w, b, train=True, momentum=0.2)
    expected = normal(x, (0, 2), 1e-5) * w[:, None] + b[:, None]
    agree(lambda *a: train(*a)[0], expected, x, w, b, rtol=1e-12)
    agree(lambda *a: train(*a)[1][0], 0.8 * mean + 0.2 * x.mean((0, 2)), x, w, b)
    agree(lambda *a: train(*a)[1][1], 0.8 * var + 0.2 * x.var((0, 2), ddof=1), x, w, b)
    derivatives(lambda *a: train(*a)[0], x, w, b)
    np.testing.assert_array_equal(fg.grad(lambda x: np.sum(train(x, w, b)[1][0]))(x), np.zeros_like(x))
    y, kept = nn.batch_norm(x, mean, var, w, b, train=False)
    wide = (slice(None), None)
    np.testing.assert_allclose(y, (x - 0.5) / np.sqrt(2 + 1e-5) * w[wide] + b[wide])
    assert all(map(np.array_equal, kept, (mean, var)))
    last, _ = nn.batch_norm(np.moveaxis(x, 1, -1), mean, var, train=True, axis=-1)
    np.testing.assert_allclose(np.moveaxis(last, -1, 1), normal(x, (0, 2), 1e-5))
    with pytest.raises(ValueError, match="have no variance"):
        nn.batch_norm(np.ones((1, 3)), mean, var, train=True)
