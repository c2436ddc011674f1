from __future__ import annotations

import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.nn.oracles import agree, derivatives

import fgrad as fg
from fgrad import nn
from fgrad.testing import check_grads

RNG = np.random.default_rng(0)


def loops(x, w, stride, pads, dilation, input_dilation, groups):
    """Return the convolution by its definition."""
    wide = np.zeros(
        (
            *x.shape[:2],
            *(
                (n - 1) * u + 1 + a + b
                for n, u, (a, b) in zip(x.shape[2:], input_dilation, pads, strict=True)
            ),
        )
    )
    wide[
        (
            ...,
            *(
                slice(a, a + (n - 1) * u + 1, u)
                for n, u, (a, _) in zip(x.shape[2:], input_dilation, pads, strict=True)
            ),
        )
    ] = x
    count = [
        (m - (k - 1) * d - 1) // s + 1
        for m, k, d, s in zip(wide.shape[2:], w.shape[2:], dilation, stride, strict=True)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *count))
    for n, o in np.ndindex(out.shape[:2]):
        g = o // (w.shape[0] // groups)
        for p in np.ndindex(*count):
            for c in range(w.shape[1]):
                for k in np.ndindex(*w.shape[2:]):
                    at = tuple(i * s + j * d for i, s, j, d in zip(p, stride, k, dilation, strict=True))
                    out[(n, o, *p)] += w[(o, c, *k)] * wide[(n, g * w.shape[1] + c, *at)]
    return out


@settings(max_examples=25)
@given(st.data())
def test_against_loops(data):
    draw = lambda low, high, n: [data.draw(st.integers(low, high)) for _ in range(n)]
    rank = data.draw(st.integers(1, 3))
    groups, per_in, per_out = draw(1, 2, 3)
    n = data.draw(st.integers(0, 2))
    window, stride, dilation, inner = draw(1, 3, rank), draw(1, 3, rank), draw(1, 2, rank), draw(1, 2, rank)
    pads = [tuple(draw(0, 2, 2)) for _ in range(rank)]
    space = [
        max(1, (k - 1) * d + 1 - sum(p)) + data.draw(st.integers(0, 2))
        for k, d, p in zip(window, dilation, pads, strict=True)
    ]
    x = RNG.standard_normal((n, groups * per_in, *space))
    w = RNG.standard_normal((groups * per_out, per_in, *window))
    f = lambda x, w: nn.conv(
        x, w, stride=stride, padding=pads, dilation=dilation, input_dilation=inner, groups=groups
    )
    expected = loops(x, w, stride, pads, dilation, inner, groups)
    agree(f, expected, x, w, rtol=1e-12)
    ct = RNG.standard_normal(expected.shape)
    _out, pullback = fg.vjp(f, x, w)
    dx, dw = pullback(ct)
    tx, tw = RNG.standard_normal(x.shape), RNG.standard_normal(w.shape)
    sides = np.sum(dx * tx), np.sum(ct * loops(tx, w, stride, pads, dilation, inner, groups))
    np.testing.assert_allclose(*sides, rtol=1e-10, atol=1e-10)
    sides = np.sum(dw * tw), np.sum(ct * loops(x, tw, stride, pads, dilation, inner, groups))
    np.testing.assert_allclose(*sides, rtol=1e-10, atol=1e-10)


def test_one_image_is_a_correlation():
    x, w = RNG.standard_normal((7, 6)), RNG.standard_normal((3, 2))
    for mode, padding in (("valid", "VALID"), ("full", [2, 1])):
        expected = scipy.signal.correlate2d(x, w, mode)[None, None]
        agree(
            lambda x, w, p=padding: nn.conv(x, w, padding=p),
            expected,
            x[None, None],
            w[None, None],
            rtol=1e-12,
        )


@pytest.mark.parametrize("n", range(1, 12))
@pytest.mark.parametrize(("k", "s", "d"), [(3, 1, 1), (2, 1, 1), (3, 2, 1), (2, 3, 1), (3, 2, 2), (1, 2, 1)])
def test_same_padding(n, k, s, d):
    x, w = RNG.standard_normal((1, 1, n)), RNG.standard_normal((1, 1, k))
    y = nn.conv(x, w, stride=s, dilation=d, padding="SAME")
    assert y.shape == (1, 1, -(-n // s))
    total = max(0, (y.shape[2] - 1) * s + (k - 1) * d + 1 - n)
    np.testing.assert_allclose(y, loops(x, w, [s], [(total // 2, total - total // 2)], [d], [1], 1))


CASES = {
    "plain": ((2, 2, 4), (3, 2, 2), {}),
    "bias": ((1, 2, 3, 3), (3, 2, 2, 2), {"padding": 1}),
    "all": (
        (1, 4, 5, 4),
        (2, 2, 2, 3),
        {"stride": (2, 1), "padding": "SAME", "dilation": (1, 2), "groups": 2},
    ),
    "input dilation": ((1, 2, 3), (1, 2, 2), {"input_dilation": 2, "padding": [(0, 2)], "stride": 2}),
}


@pytest.mark.parametrize("case", CASES)
def test_derivatives(case):
    x, w, options = CASES[case]
    x, w, b = RNG.standard_normal(x), RNG.standard_normal(w), RNG.standard_normal(w[0])
    if case == "bias":
        derivatives(lambda x, w, b: nn.conv(x, w, b, **options), x, w, b)
    else:
        derivatives(lambda x, w: nn.conv(x, w, **options), x, w)
        derivatives(lambda x: nn.conv(x, w, **options), x)
        derivatives(lambda w: nn.conv(x, w, **options), w)


def test_dtypes():
    x, w = np.ones((1, 1, 3), "f"), np.ones((1, 1, 2), "f")
    assert nn.conv(x, w).dtype == np.float32
    assert nn.conv(x, w.astype(float)).dtype == np.float64
    assert nn.conv(x.astype(int), w.astype(int)).dtype == np.float64
    assert nn.conv(x.astype("e"), w.astype("e")).dtype == np.float16
    dx, dw = fg.grad(lambda x, w: np.sum(nn.conv(x, w)), argnums=(0, 1))(x, w.astype(float))
    assert (dx.dtype, dw.dtype) == (np.float32, np.float64)
    z, v = (RNG.standard_normal(s) + 1j * RNG.standard_normal(s) for s in ((1, 1, 4), (1, 1, 2)))
    check_grads(nn.conv, (z, v), 2)


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({}, (1, 2, 3)),
        ({"stride": 2}, (1, 2, 4)),
        ({"stride": 2, "padding": 1, "output_padding": 1}, (1, 2, 4)),
        ({"stride": (3, 1), "padding": [(1, 0), (0, 1)], "dilation": (1, 2)}, (2, 2, 3, 2)),
        ({"groups": 2, "stride": 2}, (1, 4, 3)),
    ],
)
def test_the_transpose_is_the_adjoint(options, shape):
    rank, groups = len(shape) - 2, options.get("groups", 1)
    w = RNG.standard_normal((shape[1], 3, *(2, 3)[:rank]))
    x = RNG.standard_normal(shape)
    y = nn.conv_transpose(x, w, **options)
    assert y.shape[1] == 3 * groups
    forward = {k: v for k, v in options.items() if k != "output_padding"}
    _, pullback = fg.vjp(lambda y: nn.conv(y, w, **forward), np.zeros(y.shape))
    np.testing.assert_allclose(y, pullback(x)[0], rtol=1e-12)
    b = RNG.standard_normal(y.shape[1])
    wide = b.reshape(-1, *(1,) * rank)
    agree(lambda x, w, b: nn.conv_transpose(x, w, b, **options), y + wide, x, w, b, rtol=1e-12)
    derivatives(lambda x, w: nn.conv_transpose(x, w, **options), x, w)


@pytest.mark.parametrize(("k", "s"), [(3, 2), (2, 2), (1, 3), (4, 1), (3, 1)])
def test_same_transposed(k, s):
    x, w = RNG.standard_normal((1, 1, 4)), RNG.standard_normal((1, 1, k))
    y = nn.conv_transpose(x, w, stride=s, padding="SAME")
    assert y.shape == (1, 1, 4 * s)
    _, pullback = fg.vjp(lambda y: nn.conv(y, w, stride=s, padding="SAME"), np.zeros(y.shape))
    np.testing.assert_allclose(y, pullback(x)[0], rtol=1e-12)


def test_vmap_over_each_operand():
    x, w = RNG.standard_normal((3, 2, 4, 5)), RNG.standard_normal((3, 6, 2, 2))
    f = lambda x, w: nn.conv(x, w, groups=2, padding=1)
    for axes in ((0, 0), (0, None), (None, 0)):
        args = [a if k == 0 else a[0] for a, k in zip((x, w), axes, strict=True)]
        loop = [f(*(a[i] if k == 0 else a for a, k in zip(args, axes, strict=True))) for i in range(3)]
        np.testing.assert_allclose(fg.vmap(f, axes)(*args), np.stack(loop), rtol=1e-12)
    assert fg.vmap(f, (0, None))(x[:0], w[0]).shape == (0, 2, 6, 6)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x, w: nn.conv(x, w, stride=0), ValueError, "stride must be at least 1"),
        (lambda x, w: nn.conv(x, w, stride=(1, 1)), ValueError, "stride has 2 entries, but there are 1"),
        (lambda x, w: nn.conv(x, w, stride=1.5), TypeError, "stride takes integers"),
        (lambda x, w: nn.conv(x, w, padding="HALF"), ValueError, "padding is 'SAME', 'VALID'"),
        (lambda x, w: nn.conv(x, w, padding=-1), ValueError, "padding must be at least 0"),
        (lambda x, w: nn.conv(x, w, padding=[(1, 1), 1]), ValueError, "padding has 2 entries"),
        (lambda x, w: nn.conv(x[:, :1], w), ValueError, "has 1 channels"),
        (lambda x, w: nn.conv(x, w, groups=2), ValueError, "takes 4, and makes 3"),
        (lambda x, w: nn.conv(x, w, groups=0), ValueError, "groups must be at least 1"),
        (lambda x, w: nn.conv(x[0], w), ValueError, "must have the same number of axes, at least three"),
        (lambda x, w: nn.conv(x[..., :1], w), ValueError, "does not fit into"),
        (lambda x, w: nn.conv_transpose(x, w), ValueError, "takes 3"),
        (
            lambda x, w: nn.conv_transpose(x[..., :1], np.ones((2, 1, 2)), padding=1),
            ValueError,
            "removes the output",
        ),
    ],
)
def test_what_does_not_fit(call, error, words):
    with pytest.raises(error, match=words):
        call(np.ones((1, 2, 4)), np.ones((3, 2, 2)))
