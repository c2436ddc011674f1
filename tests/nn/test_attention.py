from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from tests.nn.oracles import agree, derivatives

import fgrad as fg
from fgrad import nn

RNG = np.random.default_rng(0)
Q, K, V = (RNG.standard_normal(s) for s in ((2, 3, 2, 4), (2, 5, 2, 4), (2, 5, 2, 3)))


def loops(q, k, v, bias=0.0, mask=True, scale=None):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    bias, mask = (np.broadcast_to(a, (q.shape[0], q.shape[2], q.shape[1], k.shape[1])) for a in (bias, mask))
    for b, t, h in np.ndindex(q.shape[:3]):
        seen = mask[b, h, t]
        if seen.any():
            scores = scale * k[b, seen, h] @ q[b, t, h] + bias[b, h, t, seen]
            out[b, t, h] = scipy.special.softmax(scores) @ v[b, seen, h]
    return out


def test_against_loops():
    bias, mask = RNG.standard_normal((2, 3, 5)), RNG.random((2, 1, 3, 5)) < 0.6
    mask[0, 0, 0] = False
    agree(nn.dot_product_attention, loops(Q, K, V), Q, K, V, rtol=1e-12)
    agree(lambda *a: nn.dot_product_attention(*a, scale=0.3), loops(Q, K, V, scale=0.3), Q, K, V, rtol=1e-12)
    agree(nn.dot_product_attention, loops(Q, K, V, bias), Q, K, V, bias, rtol=1e-12)
    expected = loops(Q, K, V, mask=mask)
    with np.errstate(invalid="ignore"):
        agree(lambda *a: nn.dot_product_attention(*a, mask=mask), expected, Q, K, V, rtol=1e-12)
    expected = loops(Q, K, V, mask=np.tri(3, 5, dtype=bool))
    agree(lambda *a: nn.dot_product_attention(*a, is_causal=True), expected, Q, K, V, rtol=1e-12)


def test_derivatives():
    mask = RNG.random((1, 2, 3, 5)) < 0.8
    mask[..., 0] = True
    f = lambda q, k, v, b: nn.dot_product_attention(q, k, v, b, mask, is_causal=True)
    derivatives(f, Q, K, V, RNG.standard_normal((3, 5)))
    assert nn.dot_product_attention(*(a.astype("f") for a in (Q, K, V))).dtype == np.float32
    np.testing.assert_allclose(fg.vmap(nn.dot_product_attention)(Q, K, V), loops(Q, K, V), rtol=1e-12)


def test_heads_of_queries_share_keys():
    queries = RNG.standard_normal((2, 3, 6, 4))
    mask = RNG.random((2, 6, 3, 5)) < 0.6
    expected = loops(queries, np.repeat(K, 3, axis=2), np.repeat(V, 3, axis=2), mask=mask)
    with np.errstate(invalid="ignore"):
        found = lambda *a: nn.dot_product_attention(*a, mask=mask)
        agree(found, expected, queries, K, V, rtol=1e-12)
    derivatives(nn.dot_product_attention, queries, K, V)
    with pytest.raises(ValueError, match="must be a multiple"):
        nn.dot_product_attention(queries[:, :, :5], K, V)
