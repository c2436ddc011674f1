"""Convolutions in registers, and by BLAS, against sums over shifted arrays: of integers, so exact."""

import numpy as np
import pytest

from fgrad.kernels import convolution, native, windows
from fgrad.kernels.convolution import Geometry

# images, groups, channels and outputs of each; space; window; padding; dilation
CASES = [
    (2, 1, 3, 9, (9, 37), (3, 3), ((1, 1), (1, 1)), (1, 1)),
    (1, 1, 3, 9, (5, 40), (2, 4), ((2, 0), (0, 3)), (2, 3)),
    (3, 4, 1, 1, (6, 35), (3, 2), ((1, 1), (1, 0)), (1, 1)),  # each channel alone
    (1, 2, 9, 9, (4, 33), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    (2, 1, 1, 9, (7, 36), (3, 3), ((-1, 1), (2, -2)), (1, 1)),  # a negative padding cuts
    (2, 1, 3, 9, (39,), (5,), ((2, 2),), (1,)),
]
NARROW = (2, 1, 4, 9, (5, 9), (3, 2), ((1, 1), (0, 0)), (1, 1))  # rows shorter than a vector


def oracle(x, w, ct, padding, dilation, groups, stride):
    """Return the convolution and both cotangents, by the definition."""
    wide = np.zeros((*x.shape[:2], *(n + 40 for n in x.shape[2:])))
    inner = (..., *(slice(20, 20 + n) for n in x.shape[2:]))
    wide[inner] = x
    back, w_back, out = np.zeros_like(wide), np.zeros(w.shape), np.zeros(ct.shape)
    many = w.shape[1], w.shape[0] // groups
    for g, *taps in np.ndindex(groups, *w.shape[2:]):
        spans = [
            slice(20 + t * d - p[0], 20 + t * d - p[0] + (n - 1) * s + 1, s)
            for t, d, p, n, s in zip(taps, dilation, padding, ct.shape[2:], stride, strict=True)
        ]
        seen = (slice(None), slice(g * many[0], (g + 1) * many[0]), *spans)
        given = (slice(None), slice(g * many[1], (g + 1) * many[1]))
        tap = (given[1], slice(None), *taps)
        out[given] += np.einsum("nc...,oc->no...", wide[seen], w[tap])
        back[seen] += np.einsum("no...,oc->nc...", ct[given], w[tap])
        flat = (a.reshape((*a.shape[:2], -1)) for a in (wide[seen], ct[given]))
        w_back[tap] += np.einsum("ncp,nop->oc", *flat)
    return out, back[inner], w_back


def inputs(case, dtype, stride=1):
    n, groups, channels, outputs, space, window, padding, dilation = case
    rng = np.random.default_rng(0)
    places = [
        (m + sum(p) - (k - 1) * d - 1) // stride + 1
        for m, k, p, d in zip(space, window, padding, dilation, strict=True)
    ]
    shapes = (
        (n, groups * channels, *space),
        (groups * outputs, channels, *window),
        (n, groups * outputs, *places),
    )
    return [rng.integers(-4, 5, s).astype(dtype) for s in shapes]


def check(case, dtype, stride=1):
    x, w, ct = inputs(case, dtype, stride)
    *_, padding, dilation = case
    groups, stride = case[1], (stride,) * len(padding)
    given = stride, padding, dilation, groups
    found = (
        windows.convolve(x, w, *given, ct.shape),
        windows.convolve_back(ct, w, x.shape, *given),
        windows.convolve_kernel(ct, x, w.shape, *given),
    )
    for f, e in zip(found, oracle(x, w, ct, padding, dilation, groups, stride), strict=True):
        assert f.dtype == dtype
        np.testing.assert_array_equal(f, e)


@pytest.mark.parametrize("rows", ["all", "one"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_against_the_definition(dtype, rows, monkeypatch):
    if rows == "one":
        monkeypatch.setattr(convolution, "INPUT", 1)
    for case in CASES if dtype is np.float32 else CASES[:2]:
        check(case, dtype)


def test_rows_that_are_short():
    check(NARROW, np.float32)


def test_strides_and_large_kernels_are_left_to_blas(monkeypatch):
    check(CASES[0], np.float32, stride=2)
    monkeypatch.setattr(convolution, "KERNEL", 0)
    for case in CASES:
        check(case, np.float32)


def test_which_convolutions_are_whose():
    x, w, out = (1, 8, 64, 64), (8, 8, 3, 3), (1, 8, 62, 62)
    settings = (1, 1), ((0, 0), (0, 0)), (1, 1), 1
    assert Geometry(x, w, out, *settings).suits(4) == (not native.interpreted())
    assert not Geometry(x, w, (1, 8, 31, 31), (2, 2), *settings[1:]).suits(4)
    assert not Geometry((1, 8, 64, 7), w, (1, 8, 62, 5), *settings).suits(4)
    assert not Geometry((1, 256, 64, 64), (256, 256, 3, 3), (1, 256, 62, 62), *settings).suits(4)


def test_bits_do_not_depend_on_how_many_rows_go_together(monkeypatch):
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 9, 37), (9, 3, 3, 3)))
    settings = (1, 1), ((1, 1), (1, 1)), (1, 1), 1
    whole = windows.convolve(x, w, *settings, (2, 9, 9, 37))
    monkeypatch.setattr(convolution, "INPUT", 1)
    np.testing.assert_array_equal(windows.convolve(x, w, *settings, (2, 9, 9, 37)), whole)
