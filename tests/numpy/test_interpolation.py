"""Interpolation: values, and derivatives in places, nodes and values, at nodes and outside."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import grouped
from tests.numpy.cases import Case, Fixed, check, named

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

XP, FP = np.array([-1.0, 0.5, 2.0, 3.5]), np.array([2.0, -1.0, 0.5, 4.0])
X = np.array([[-0.3, 0.9], [3.1, -2.0], [4.0, 2.2]])
COMPLEX = FP + 1j * FP[::-1]

CASES = [
    *named("interp", {"all": (X, XP, FP), "number": (0.7, XP, FP), "0-d": (np.array(0.7), XP, FP),
        "empty": (X[:0],
        XP, FP), "complex": (X, XP, COMPLEX), "ends": (X, XP, FP, -7.0, 9.0), "left": (X, XP, FP, 0.5),
        "right": (X, XP, FP, None, 0.5), "two nodes": (X, XP[:2], FP[:2]), "period": (X, XP, FP, None, None,
        5.3),
        "unsorted": (X, XP[::-1].copy(), FP, None, None, 5.3), "negative period": (X, XP, FP, None, None,
        -5.3),
        "complex period": (X, XP, COMPLEX, 1.0, 2.0, 5.3), "tensor ends": (X, XP, FP, np.array(1.0),
        np.array(2.0))}),
    *(Case("interp", k, args) for k, args in {"nodes": (XP, XP, FP), "float32": (X.astype("f"),
        XP.astype("f"),
        FP.astype("f")), "integers": (np.arange(5), np.array([0, 2, 3]), np.array([1, 5, 2])), "one node": (X,
        XP[1:2], FP[1:2]), "at one node": (XP, XP[1:2], FP[1:2]), "no nodes": (X, XP[:0], FP[:0]),
        "unlike": (X, XP,
        FP[:2]), "matrix": (X, X, X), "lists": ([0.0, 1.0], [0.0, 2.0], [1.0, 3.0]), "period of zero": (X,
        XP, FP,
        None, None, 0), "NaN": (np.array([np.nan, 0.5]), XP, FP), "infinite value": (np.array([0.0, 0.5,
        1.0, 1.5,
        2.0]), np.array([0.0, 1.0, 2.0]), np.array([0.0, np.inf, 1.0])), "infinite place": (np.array([-np.inf,
        np.inf]), XP, FP), "nodes twice": (np.array([0.0, 1.0, 1.5, 2.0, 9.0]), np.array([0.0, 1.0, 1.0,
        2.0, 2.0]),
        np.array([1.0, 2.0, 3.0, 4.0, 5.0])), "period of unlike": (X, XP, FP[:2], None, None, 5.3)}.items()),
    Case("interp", "values alone", (Fixed(X), Fixed(XP), FP), (), 2),
]  # fmt: skip

NAMES = {c.name for c in CASES}


@grouped("case", CASES, "name", quick=4)
def test_as_numpy(case):
    check(case)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 6), seed=st.integers(0, 99), ends=st.booleans())
def test_anywhere(n, seed, ends):
    rng = np.random.default_rng(seed)
    xp, fp = np.sort(rng.integers(0, 9, n)).astype(float), rng.normal(size=n)
    x = rng.integers(-4, 24, 20) / 2
    options = {"left": -1.5, "right": 2.5} if ends else {}
    y = fnp.interp(fg.tensor(x), xp, fp, **options)
    np.testing.assert_allclose(y.numpy(), np.interp(x, xp, fp, **options), rtol=1e-12, atol=1e-13)


def test_infinite_values_staged():
    x, fp = np.array([0.0, 0.5, 1.0, 1.5, 2.0]), np.array([0.0, np.inf, 1.0])
    with np.errstate(invalid="ignore"):
        found = fg.jit(lambda x, fp: fnp.interp(x, np.arange(3.0), fp))(x, fp)
        np.testing.assert_array_equal(found, np.interp(x, np.arange(3.0), fp))


def test_the_slope_at_a_node_is_that_to_its_right():
    slopes = np.diff(FP) / np.diff(XP)
    g = fg.grad(lambda x: np.sum(np.interp(x, XP, FP)))
    np.testing.assert_allclose(g(XP), [*slopes, slopes[-1]])
    np.testing.assert_array_equal(g(np.array([-1.1, 3.6, np.inf, -np.inf])), np.zeros(4))
    one = fg.grad(lambda x: np.sum(np.interp(x, XP[:1], FP[:1])))
    np.testing.assert_array_equal(one(np.array([-2.0, -1.0, 0.0])), np.zeros(3))


def test_values_outside_belong_to_the_ends():
    g = fg.grad(lambda fp: np.sum(np.interp(np.array([-2.0, -3.0, 9.0]), XP, fp)))(FP)
    np.testing.assert_array_equal(g, [2, 0, 0, 1])
    g = fg.grad(lambda left, right: np.sum(fnp.interp(X, XP, FP, left, right)), (0, 1))(0.5, 0.25)
    np.testing.assert_array_equal(g, [1, 1])
    g = fg.grad(lambda fp: np.sum(np.interp(X, XP, fp, 0.0, 0.0)[X > 3.5]))(FP)
    np.testing.assert_array_equal(g, np.zeros(4))


def test_real_arguments_of_complex_values_have_real_gradients():
    check_grads(lambda x, xp, fp: np.interp(x, xp, fp), (X, XP, COMPLEX), 2)
    g = fg.grad(lambda x: np.real(np.sum(np.interp(x, XP, COMPLEX))))(X)
    assert g.dtype == float


def test_the_period_differentiates():
    check_grads(lambda x, xp, fp, p: fnp.interp(x, xp, fp, period=p), (X, XP, FP, np.array(5.3)), 2)


def test_mapped():
    loop = [np.interp(x, XP, FP) for x in X]
    np.testing.assert_allclose(fg.vmap(lambda x: np.interp(x, XP, FP))(X), loop, rtol=1e-13)
    nodes, levels = np.stack([XP, XP + 0.1]), np.stack([FP, FP * 2])
    loop = [np.interp(X, a, b) for a, b in zip(nodes, levels, strict=True)]
    np.testing.assert_allclose(fg.vmap(lambda a, b: np.interp(X, a, b))(nodes, levels), loop, rtol=1e-13)
