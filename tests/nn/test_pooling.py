from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.nn.oracles import agree, derivatives

import fgrad as fg
from fgrad import nn

RNG = np.random.default_rng(0)


def loops(f, x, window, stride, pads, fill):
    rank = len(window)
    lead = x.ndim - rank
    wide = np.pad(x, [(0, 0)] * lead + [tuple(p) for p in pads], constant_values=fill)
    count = [(n - k) // s + 1 for n, k, s in zip(wide.shape[lead:], window, stride, strict=True)]
    out = np.zeros((*x.shape[:lead], *count))
    for p in np.ndindex(*count):
        part = wide[(..., *(slice(i * s, i * s + k) for i, s, k in zip(p, stride, window, strict=True)))]
        out[(..., *p)] = f(part, axis=tuple(range(lead, x.ndim)))
    return out


@settings(max_examples=30)
@given(st.data())
def test_against_loops(data):
    rank = data.draw(st.integers(1, 3))
    window = tuple(data.draw(st.integers(1, 3)) for _ in range(rank))
    stride = tuple(data.draw(st.integers(1, 3)) for _ in range(rank))
    pads = [tuple(data.draw(st.integers(0, k - 1)) for _ in range(2)) for k in window]
    space = tuple(k + data.draw(st.integers(0, 3)) for k in window)
    x = RNG.standard_normal((data.draw(st.integers(0, 2)), 2, *space))
    options = {"stride": stride, "padding": pads}
    expected = loops(np.max, x, window, stride, pads, -np.inf)
    agree(lambda x: nn.max_pool(x, window, **options), expected, x)
    total = loops(np.sum, x, window, stride, pads, 0)
    agree(lambda x: nn.avg_pool(x, window, **options), total / np.prod(window), x)
    inside = loops(np.sum, np.ones(space), window, stride, pads, 0)
    agree(lambda x: nn.avg_pool(x, window, **options, count_include_pad=False), total / inside, x)


@pytest.mark.parametrize(
    ("window", "options"),
    [(2, {}), ((3, 2), {"stride": (1, 2), "padding": 1}), (3, {"stride": 2, "padding": "SAME"}), ((2,), {})],
)
def test_derivatives(window, options):
    x = RNG.permutation(2 * 5 * 6).reshape(1, 2, 5, 6) / 10
    derivatives(lambda x: nn.max_pool(x, window, **options), x)
    derivatives(lambda x: nn.avg_pool(x, window, **options), x)
    derivatives(lambda x: nn.avg_pool(x, window, **options, count_include_pad=False), x)


def test_ties_share_equally():
    x = np.array([[[1.0, 1.0, 0.0, 2.0, 2.0, 2.0]]])
    g = fg.grad(lambda x: np.sum(nn.max_pool(x, 3)))
    np.testing.assert_allclose(g(x)[0, 0], [0.5, 0.5, 0, 1 / 3, 1 / 3, 1 / 3])
    overlapping = fg.grad(lambda x: np.sum(nn.max_pool(x, 2, stride=1)))
    np.testing.assert_allclose(overlapping(x)[0, 0], [0.5, 1.5, 0, 1.5, 1, 0.5])
    padded = fg.grad(lambda x: np.sum(nn.max_pool(x, 2, padding=1)))
    np.testing.assert_array_equal(padded(np.full((1, 1, 2), -np.inf))[0, 0], [1, 1])
    square = lambda x: np.sum(nn.max_pool(x, 3) ** 2)
    expected = np.zeros((6, 6))
    expected[:2, :2], expected[3:, 3:] = 0.5, 2 / 9
    np.testing.assert_allclose(fg.hessian(square)(x).reshape(6, 6), expected)


def test_dtypes_and_shapes():
    x = np.arange(8.0).reshape(1, 1, 8)
    for code in "efdg":
        assert nn.max_pool(x.astype(code), 2).dtype == np.dtype(code)
        assert nn.avg_pool(x.astype(code), 2).dtype == np.dtype(code)
    assert nn.max_pool(x.astype(int), 2).dtype == np.float64
    assert nn.max_pool(x[0, 0], (2,)).shape == (4,)
    assert nn.max_pool(x[:0], 2).shape == (0, 1, 4)
    assert fg.grad(lambda x: np.sum(nn.max_pool(x, 2)))(x[:0]).shape == (0, 1, 8)
    assert np.isnan(nn.max_pool(np.array([[[np.nan, 1.0, 2.0, 3.0]]]), 2)[0, 0, 0])
    np.testing.assert_array_equal(nn.max_pool(x[..., ::-2], 2), [[[7, 3]]])


def test_large_images():
    x = np.random.default_rng(1).standard_normal((2, 3, 90, 80))
    for f in (lambda x: nn.max_pool(x, 2), lambda x: nn.avg_pool(x, 3, stride=2, padding=1)):
        np.testing.assert_allclose(f(x), np.concatenate([f(x[:1]), f(x[1:])]), rtol=1e-12)
        g = fg.grad(lambda x: np.sum(f(x) ** 2))
        np.testing.assert_allclose(g(x), np.concatenate([g(x[:1]), g(x[1:])]), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: nn.max_pool(x, 9), "does not fit into"),
        (lambda x: nn.max_pool(x, 2, padding=2), "not smaller than the window"),
        (lambda x: nn.max_pool(x, (2, 2, 2, 2)), "no 4 spatial axes"),
        (lambda x: nn.avg_pool(x, 0), "window must be at least 1"),
        (lambda x: nn.avg_pool(x[0], 2), "no 0 spatial axes"),
    ],
)
def test_what_does_not_fit(call, words):
    with pytest.raises(ValueError, match=words):
        call(np.ones((1, 2, 4)))
