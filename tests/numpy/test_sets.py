"""Unique elements and what arrays have in common: values, and gradients that equal elements share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import grouped
from tests.numpy.cases import Case, check, kinds, named, truths, values

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

V, M, E = values((5,)), values((2, 3)), values((0, 3))
TIES = np.array([[2.0, 1.0, 2.0], [0.5, 1.0, 2.0]])
NAN = np.array([1.0, np.nan, 0.5, np.nan, 1.0])
FLAGS = ("return_index", "return_inverse", "return_counts")

CASES = [
    *named("unique", {"distinct": V, "matrix": M, "rows": (M, False, False, False, 0),
        "columns": (M, True, True, True, 1), "float32": V.astype("f"), "complex": values((4,),
        dtype=complex)}),
    *(Case("unique", f"{k} axis {a} {'all' if f else 'alone'}", (x, f, f, f, a)) for f in (False, True)
        for k, x in {"ties": TIES, "NaN": NAN, "twice": np.concatenate([M, M]), "empty": E, "0-d": TIES[0, 0],
        "truths": truths(), "cube": np.stack([TIES, TIES]), "zeros": np.array([0.0, -0.0, 1.0])}.items()
        for a in (None, 0, -1, 1)),
    *(Case("unique", f"{flag} of {k}", (x,), ((flag, True),)) for flag in FLAGS for k, x in kinds().items()),
    *(Case("unique", f"NaN apart {f}", (NAN, f, f, f), (("equal_nan", False),)) for f in (False, True)),
    *(Case("unique", f"{k}", (x,)) for k, x in {"list": [3, 1, 3], "number": 2.0}.items()),
    *(Case(n, k, (x,), (), 2 if k == "distinct" else 0) for n in ("unique_all", "unique_counts",
        "unique_inverse")
        for k, x in {"distinct": V, "ties": TIES, "NaN": NAN, "empty": E, "list": [3.0, 1.0, 3.0]}.items()),
    *(Case("unique_values", k, (x,), (), order) for k, x, order in (("one", V[:1], 2), ("same", np.ones(4),
        0))),
    *(Case(n, k, args, (), 2 if k == "distinct" else 0)
        for n in ("union1d", "intersect1d", "setdiff1d", "setxor1d") for k, args in {"distinct": (V,
        V[:2] + 0.01),
        "ties": (TIES, np.array([2.0, 3.0, 3.0])), "NaN": (NAN, NAN[:2]), "empty": (E, V), "nothing": (V, E),
        "integers": (np.array([1, 2, 2]), np.array([2, 3])), "mixed": (np.array([1, 2, 2]), TIES),
        "lists": ([1.0, 2.0], [2.0, 3.0]), "float32": (TIES.astype("f"), TIES[0])}.items()),
    *(Case(n, "promised", (np.array([2.0, 1.0, 3.0]), np.array([3.0, 0.5])), (("assume_unique", True),))
        for n in ("intersect1d", "setdiff1d", "setxor1d")),
    *(Case("intersect1d", f"indices {k}", args, (("return_indices", True),)) for k, args in {
        "ties": (TIES, np.array([2.0, 3.0, 2.0, 1.0])), "NaN": (NAN, NAN), "none": (V, M + 9)}.items()),
    *(Case("isin", k, args, options) for k, args, options in (
        ("matrix", (TIES, [2.0, 0.5]), ()), ("integers", (np.arange(4), np.array([[1, 2]])), ()),
        ("inverted", (TIES, [2.0, 0.5]), (("invert", True),)), ("NaN", (NAN, NAN), ()),
        ("0-d", (2.0, TIES), ()), ("empty", (E, TIES), ()), ("nothing", (TIES, E), ()),
        ("table", (np.arange(4), np.array([1, 2])), (("kind", "table"),)),
        ("table of floats", (TIES, TIES), (("kind", "table"),)),
        ("promised", (V, V[:2]), (("assume_unique", True),)))),
]  # fmt: skip

NAMES = {c.name for c in CASES}


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@grouped("case", CASES, "name", quick=4)
def test_as_numpy(case):
    check(case)


@settings(max_examples=30, deadline=None)
@given(x=st.lists(st.integers(0, 5), max_size=12), seed=st.integers(0, 99))
def test_equal_elements_share_the_gradient(x, seed):
    x = np.array(x, float)
    u, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    ct = np.random.default_rng(seed).normal(size=u.shape)
    y, pullback = fg.vjp(np.unique, x)
    np.testing.assert_array_equal(y, u)
    np.testing.assert_allclose(pullback(ct)[0], (ct / counts)[inverse])
    t = np.random.default_rng(seed + 1).normal(size=x.shape)
    means = np.bincount(inverse, t, u.size) / np.maximum(counts, 1)
    np.testing.assert_allclose(fg.jvp(np.unique, (x,), (t,))[1], means, atol=1e-15)


def test_unique_rows_share_the_gradient():
    x = np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 2.0]])
    (back,) = fg.vjp(lambda x: np.unique(x, axis=0), x)[1](np.array([[1.0, 2.0], [3.0, 4.0]]))
    np.testing.assert_array_equal(back, [[1.5, 2], [1, 2], [1.5, 2]])
    (back,) = fg.vjp(lambda x: np.unique(x, axis=1), x.T)[1](np.array([[1.0, 3.0], [2.0, 4.0]]))
    np.testing.assert_array_equal(back, np.array([[1.5, 2], [1, 2], [1.5, 2]]).T)


def test_nan_is_one_element_unless_told_otherwise():
    (back,) = fg.vjp(np.unique, NAN)[1](np.array([1.0, 2.0, 4.0]))
    np.testing.assert_array_equal(back, [1, 2, 1, 2, 1])
    (back,) = fg.vjp(fnp.unique_values, NAN)[1](np.array([1.0, 2.0, 4.0, 8.0]))
    np.testing.assert_array_equal(back, [1, 4, 1, 8, 1])


def test_second_order_at_ties():
    x = np.array([1.0, 2.0, 1.0])
    np.testing.assert_allclose(fg.hessian(lambda x: np.sum(np.unique(x) ** 2))(x),
        [[0.5, 0, 0.5], [0, 2, 0], [0.5, 0, 0.5]])  # fmt: skip


def test_elements_of_two_arrays_share_the_gradient():
    x, y = np.array([1.0, 2.0, 2.0]), np.array([2.0, 3.0])
    back = fg.vjp(np.intersect1d, x, y)[1](np.array([6.0]))
    np.testing.assert_array_equal(np.concatenate(back), [0, 2, 2, 2, 0])
    back = fg.vjp(np.union1d, x, y)[1](np.array([1.0, 6.0, 3.0]))
    np.testing.assert_array_equal(np.concatenate(back), [1, 2, 2, 2, 3])
    back = fg.vjp(np.setxor1d, x, y)[1](np.array([1.0, 3.0]))
    np.testing.assert_array_equal(np.concatenate(back), [1, 0, 0, 0, 3])
    back = fg.vjp(np.setdiff1d, np.array([1.0, 1.0, 2.0]), y)[1](np.array([6.0]))
    np.testing.assert_array_equal(np.concatenate(back), [3, 3, 0, 0, 0])


def test_unique_values_of_tensors_are_sorted():
    np.testing.assert_array_equal(fnp.unique_values(fg.tensor(TIES)).numpy(), [0.5, 1, 2])
    np.testing.assert_array_equal(np.sort(fnp.unique_values(TIES)), [0.5, 1, 2])
    y = fnp.unique_all(fg.tensor(TIES))
    assert y._fields == np.unique_all(TIES)._fields
    assert all(isinstance(part, fg.Tensor) for part in y)


@pytest.mark.parametrize("name", ["unique", "unique_all", "unique_values"])
def test_sets_are_refused_where_their_size_is_not_known(name):
    with pytest.raises(TypeError, match="unique"):
        fg.vmap(getattr(np, name))(M)
    with pytest.raises(TypeError, match="unique"):
        fg.make_graph(getattr(np, name))(M)


def test_a_use_of_unique_differentiates():
    f = lambda x: np.sum(np.unique(np.sin(x), return_inverse=True)[0] ** 3)
    check_grads(f, (V,), 2)
