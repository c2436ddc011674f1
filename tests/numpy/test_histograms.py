"""Histograms: counts and edges as NumPy's, derivatives in weights and edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import grouped
from tests.numpy.cases import Case, Fixed, check, integers, kinds, named, truths, values

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

V, M, E = values((12,)), values((3, 4)), values((0, 3))
W, U = np.abs(values((12,), seed=4)), values((12,), seed=5)
EDGES = np.array([-1.5, -0.4, 0.3, 1.1, 1.9])
POINTS = values((9, 2))
SOME = integers((9,), 0, 5)

CASES = [
    *(Case("histogram", f"{k}", (x,)) for k, x in kinds((3, 7)).items() if not k.startswith("complex")),
    *(Case(n, f"{k}", args) for n in ("histogram", "histogram_bin_edges") for k, args in {
        "bins": (V, 4), "edges": (V, Fixed(EDGES)), "list of edges": (V, [-1.0, 0.0, 1.0]), "range": (V, 4,
        (-1.0, 1)),
        "range of integers": (V.astype("f"), 3, (-1, 1)), "empty": (E,), "equal": (np.ones(3), 3),
        "one edge": (V,
        [0.5]), "decreasing": (V, [1.0, 0.0]), "matrix of edges": (V, M), "no bins": (V, 0),
        "fractional": (V, 2.5),
        "reversed range": (V, 3, (1.0, -1.0)), "infinite range": (V, 3, (0.0, np.inf)), "NaN": (np.array([1.0,
        np.nan]), 3), "matrix": (M, 3), "list": ([1, 2, 1], 2), "unknown rule": (V, "unknown"), "too many":
        (np.array([1.0, np.nextafter(1.0, 2)]), 99), "at edges": (EDGES, Fixed(EDGES)),
        "NaN between": (np.array(
        [0.5, np.nan, 0.2]), Fixed(EDGES)), "edges twice": (np.array([0.0, 1.0, 1.0, 2.0]),
        Fixed(np.array([0.0, 1.0,
        1.0, 2.0, 2.0]))), "int8": (integers((9,), -128, 127, np.int8), 7)}.items()),
    *(Case(n, f"rule {r}", (V, r)) for n in ("histogram", "histogram_bin_edges")
        for r in ("auto", "fd", "sturges", "sqrt")),
    Case("histogram_bin_edges", "differentiable", (V, 4), (), 2),
    Case("histogram_bin_edges", "float32", (V.astype("f"), 4), (), 1),
    Case("histogram_bin_edges", "weights of a rule", (V, "auto", None, W)),
    *(Case("histogram", f"density {k}", (V, b), (("density", True),), 2) for k, b in {"bins": 4,
        "edges": EDGES}.items()),
    *(Case("histogram", f"weights {k}", (Fixed(V), b), (("weights", w),)) for k, w, b in (("float", W, 4),
        ("edges", W, Fixed(EDGES)), ("float32", W.astype("f"), 4), ("int", integers((12,)), 4), ("unlike",
        W[:3], 4),
        ("complex", W + 1j * U, 4), ("truths", truths((12,)), 4), ("a rule", W, "auto"))),
    *(Case("bincount", k, args) for k, args in {"counts": (SOME,), "minlength": (SOME, None, 9),
        "short": (SOME, None,
        2), "floats": (V,), "negative": (-SOME,), "matrix": (SOME.reshape(3, 3),), "empty": (SOME[:0],),
        "empty minlength": (SOME[:0], None, 3), "negative length": (SOME, None, -1), "list": ([1, 2, 2],),
        "truths": (truths((5,)),), "uint8": (SOME.astype("u1"),)}.items()),
    *(Case("bincount", f"weights {k}", (Fixed(SOME), w), (), o) for k, w, o in (("float", W[:9], 2),
        ("float32",
        W[:9].astype("f"), 1), ("int", integers((9,)), 0), ("complex", W[:9] + 1j, 0), ("unlike", W[:3], 0),
        ("matrix", POINTS, 0))),
    *named("histogramdd", {"points": POINTS, "bins": (POINTS, 3), "bins each": (POINTS, (2, 3)), "vectors": (
        [POINTS[:, 0], POINTS[:, 1]], 3), "edges": (POINTS, [Fixed(EDGES).value, EDGES[1:]]),
        "mixed": (POINTS, [3,
        EDGES.tolist()]), "range": (POINTS, 3, [(-1.0, 1.0), None]), "cube": (values((7, 3)), 2),
        "one axis": (V[:,
        None], 4), "wrong bins": (POINTS, (2, 3, 4)), "wrong range": (POINTS, 3, [(0, 1)]),
        "no bins": (POINTS, 0),
        "decreasing": (POINTS, [[1.0, 0.0], 3]), "float32": POINTS.astype("f"), "integers": integers((9, 2)),
        "vector": (V, 3)}, order=0),
    Case("histogramdd", "density", (POINTS, 3), (("density", True),), 2),
    *(Case("histogramdd", f"weights {k}", (POINTS, 3), (("weights", Fixed(w).value),)) for k, w in (
        ("float", W[:9]), ("int", SOME), ("complex", W[:9] + 1j))),
    *named("histogram2d", {"points": (V, W), "bins": (V, W, 3), "bins each": (V, W, [2, 3]), "edges": (V, W,
        EDGES.tolist()), "edges each": (V, W, [EDGES, EDGES[1:]]), "range": (V, W, 3, [[-1, 1], [0, 1]]),
        "unlike": (V, W[:3]), "lists": ([1.0, 2.0], [2.0, 0.0], 2)}, order=0),
    Case("histogram2d", "density", (V, W, 3), (("density", True),), 2),
    Case("histogram2d", "weights", (V, W, 3), (("weights", W),), 0),
]  # fmt: skip

NAMES = {c.name for c in CASES} | {"histogram"}


@pytest.mark.filterwarnings("ignore:Converting input from bool", "ignore:Casting complex values to real")
@grouped("case", CASES, "name", quick=4)
def test_as_numpy(case):
    check(case)


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(0, 40),
    bins=st.integers(1, 9),
    seed=st.integers(0, 99),
    dtype=st.sampled_from(["f8", "f4", "i8"]),
)
def test_weights_on_a_grid(n, bins, seed, dtype):
    rng = np.random.default_rng(seed)
    x, w = (rng.integers(0, 10, n) / (1 if dtype == "i8" else 4)).astype(dtype), rng.normal(size=n)
    for range_ in (None, (0.25, 2)):
        expected, edges = np.histogram(x, bins, range_, weights=w)
        y, found = fnp.histogram(x, bins, range_, weights=fg.tensor(w))
        np.testing.assert_allclose(y.numpy(), expected, atol=1e-12)
        np.testing.assert_array_equal(found.numpy(), edges)
        y, found = fnp.histogram(fg.tensor(x), bins, range_)
        np.testing.assert_array_equal(y.numpy(), np.histogram(x, bins, range_)[0])
        np.testing.assert_array_equal(found.numpy(), edges)


def test_histograms_are_linear_in_the_weights():
    for density in (False, True):
        check_grads(lambda w: np.histogram(V, 4, weights=w, density=density)[0], (W,), 2)
        check_grads(lambda w: np.histogram2d(V, U, 3, weights=w, density=density)[0], (W,), 2)
        check_grads(lambda w: np.histogramdd((V, U, W), 2, weights=w, density=density)[0], (W,), 2)
    check_grads(lambda w: np.histogram(V, EDGES, weights=w)[0], (W + 1j * U,), 2)
    check_grads(lambda w, e: np.histogram(V, e, weights=w, density=True)[0], (W, EDGES), 2)
    check_grads(lambda w: np.bincount(SOME, w, 9), (W[:9],), 2)
    g = fg.grad(lambda w: np.histogram(V, EDGES, weights=w)[0][1])(W)
    np.testing.assert_array_equal(g, (EDGES[1] <= V) & (EDGES[2] > V))


def test_counts_have_slope_zero():
    np.testing.assert_array_equal(fg.grad(lambda x: np.sum(np.histogram(x, 4)[0] * 1.0))(V), np.zeros(12))
    np.testing.assert_array_equal(fg.grad(lambda x: np.histogram(x, 4, (-1, 1), True)[0][1])(V), np.zeros(12))


def test_edges_move_with_the_extrema():
    g = fg.jacrev(lambda x: np.histogram(x, 4)[1])(V)
    expected = np.zeros((5, 12))
    expected[:, V.argmin()] = [1, 0.75, 0.5, 0.25, 0]
    expected[:, V.argmax()] = [0, 0.25, 0.5, 0.75, 1]
    np.testing.assert_allclose(g, expected)


def test_mapped():
    x = np.stack([V, U])
    w = np.stack([W, U])
    loop = [np.histogram(a, 4, weights=b)[0] for a, b in zip(x, w, strict=True)]
    np.testing.assert_allclose(fg.vmap(lambda a, b: np.histogram(a, 4, weights=b)[0])(x, w), loop, rtol=1e-12)
    loop = [np.histogram(a, EDGES, density=True)[0] for a in x]
    np.testing.assert_allclose(
        fg.vmap(lambda a: np.histogram(a, EDGES, density=True)[0])(x), loop, rtol=1e-12
    )
    loop = [np.bincount(SOME, b[:9]) for b in w]
    np.testing.assert_allclose(fg.vmap(lambda b: np.bincount(SOME, b[:9]))(w), loop, rtol=1e-12)
    with pytest.raises(TypeError, match="bincount"):
        fg.vmap(np.bincount)(np.stack([SOME, SOME]))
    with pytest.raises(TypeError, match="auto"):
        fg.vmap(lambda a: np.histogram(a, "auto")[1])(x)
