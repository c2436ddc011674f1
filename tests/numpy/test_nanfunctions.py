"""Reductions that leave NaN out: values, warnings, and gradients that NaN does not spoil."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import grouped
from tests.numpy.cases import Case, check, integers, kinds, named, strided, truths, values, writes

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

M, S, E, C = values((2, 3)), values(()), values((0, 3)), values((2, 3, 4))
NAN = C.copy()
NAN[0, 1, 2] = NAN[1, 0, :] = NAN[1, 2, 0] = np.nan
COMPLEX_NAN = np.where(np.isnan(NAN), complex(1, np.nan), values((2, 3, 4), dtype=complex))
MASK = truths((2, 3, 4), 7)
AXES = [None, 0, 1, -1, (0, 1), ()]
REDUCTIONS = ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd")
SCANS = ("nancumsum", "nancumprod")
EXTREMA = ("nanmax", "nanmin")
MOMENTS = ("nanmean", "nanvar", "nanstd")

CASES = [
    *(Case(n, f"axis {a} keepdims {k}", (C, a), (("keepdims", k),), 2 if a in (None, 1) else 1)
        for n in REDUCTIONS for a in AXES for k in (False, True) if not (a == () and n in ("nanvar",
        "nanstd"))),
    *(Case(n, f"NaN {a} {x.dtype}", (x, a)) for n in REDUCTIONS for a in AXES
        for x in (NAN, NAN.astype("f"), COMPLEX_NAN) if not (x.dtype.kind == "c" and n in EXTREMA)),
    *(Case(n, f"NaN {a} {x.dtype}", (x, a)) for n in SCANS for a in (None, 0, -1, 3)
        for x in (NAN, NAN.astype("f"), COMPLEX_NAN)),
    *(Case(n, f"axis {a}", (C, a), (), 2) for n in SCANS for a in (None, 0, -1)),
    *(Case(n, f"{k}", (x,), (), 0 if k.startswith("complex") and n in EXTREMA else 1)
        for n in (*REDUCTIONS, *SCANS) for k, x in kinds().items()),
    *(Case(n, f"{k} axis", (x, 0), (), 0 if k.startswith("complex") and n in EXTREMA else 1)
        for n in (*REDUCTIONS, *SCANS) for k, x in kinds().items()),
    *(Case(n, label, args) for n in (*REDUCTIONS, *SCANS) for label, args in {"0-d": (S,), "strided":
        (strided(NAN), 1), "list": ([1.0, np.nan, 2.0],), "empty": (E,), "no lanes": (E, 0),
        "wrong axis": (C, 3),
        "axis twice": (C, (0, 0))}.items()),
    *(Case(n, f"dtype {np.dtype(t)}", (x, 1, t)) for n in ("nansum", "nanprod", *MOMENTS, *SCANS)
        for t in ("f4", "f8", "c16", int) for x in (NAN, integers((2, 3, 4)))
        if not (n in ("nanvar", "nanstd") and np.dtype(t).kind == "c")
        and not (np.dtype(t).kind == "i" and n in MOMENTS and x.dtype.kind == "i")),
    *(Case(n, f"initial {i} {a}", (x, a), (("initial", i),), int(x is C))
        for n in REDUCTIONS[:4] for a in (None, 1)
        for i in (0.3, 100.0, -100) for x in (C, NAN)),
    *(Case(n, f"where {a}", (x, a), (("where", MASK),), int(x is C)) for n in ("nansum", "nanprod", *MOMENTS)
        for a in (None, (0, 1)) for x in (C, NAN)),
    *(Case(n, f"where {a}", (x, a), (("where", MASK), ("initial", -1.5)), int(x is C)) for n in EXTREMA
        for a in (None, 1) for x in (C, NAN)),
    *(Case(n, "where of integers", (integers((2, 3, 4)), 1), (("where", MASK), ("initial",
        2))) for n in EXTREMA),
    *(Case(n, "where without initial", (NAN, 1), (("where", MASK),)) for n in EXTREMA),
    *(Case(n, f"ddof {d}", (x, 1), (("ddof", d),), int(x is C)) for n in ("nanvar", "nanstd") for d in (1,
        0.5, 2)
        for x in (C, NAN)),
    *(Case(n, "correction", (NAN, 1), (("correction", 1),)) for n in ("nanvar", "nanstd")),
    *(Case(n, "correction and ddof", (NAN, 1), (("correction", 1), ("ddof", 1))) for n in ("nanvar",
        "nanstd")),
    *(Case(n, "mean", (C, 1), (("mean", np.mean(C, 1, keepdims=True)),)) for n in ("nanvar", "nanstd")),
    *named("nanprod", {"zeros": np.array([0.0, np.nan, 2.0])}, order=0),
]  # fmt: skip

NAMES = {c.name for c in CASES}


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@grouped("case", CASES, "name", quick=4)
def test_as_numpy(case):
    check(case)


def alone(name, x, axis, options):
    """Return the function of the elements of `x` that are not NaN, which are put in their places."""
    numbers = ~np.isnan(x)
    places = np.where(numbers, np.cumsum(numbers).reshape(x.shape) - 1, 0)

    def f(given):
        return getattr(np, name)(np.where(numbers, given[places], np.nan), axis, **options)

    return f, x[numbers]


@pytest.mark.parametrize("name", [*REDUCTIONS, *SCANS])
@pytest.mark.parametrize("axis", [None, 0, 2])
def test_derivatives_beside_nan(name, axis):
    x = NAN[:, 1:, 1:]
    assert not np.isnan(x).all(axis).any()
    options = [{}]
    if name in ("nanvar", "nanstd"):
        options.append({"ddof": 0.5, "where": MASK[:, 1:, 1:] | True})
    for option in options:
        f, given = alone(name, x, axis, option)
        check_grads(f, (given,), 2)
    back = fg.grad(lambda x: np.sum(getattr(fnp, name)(x, axis)))(x)
    assert np.all(back[np.isnan(x)] == 0)
    assert np.all(np.isfinite(back))
    curve = fg.hessian(lambda x: np.sum(getattr(fnp, name)(x, axis) ** 2))(x)
    assert np.all(np.isfinite(curve))
    assert np.all(curve[np.isnan(x)] == 0)


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from([*REDUCTIONS, *SCANS]),
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_nan_anywhere(name, shape, seed, data):
    axis = data.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(shape) < 0.4, np.nan, rng.normal(size=shape))
    with warnings.catch_warnings(record=True) as theirs:
        warnings.simplefilter("always")
        expected = getattr(np, name)(x, axis)
    with warnings.catch_warnings(record=True) as ours:
        warnings.simplefilter("always")
        y = getattr(fnp, name)(fg.tensor(x), axis)
        back = fg.grad(lambda x: np.sum(np.nan_to_num(getattr(fnp, name)(x, axis))))(x)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12, atol=1e-14)
    kinds = [
        {(w.category, str(w.message).replace("axis", "slice")) for w in found} for found in (theirs, ours)
    ]
    assert kinds[0] == kinds[1]
    assert np.all(back[np.isnan(x)] == 0)
    assert not np.isnan(back).any()


@pytest.mark.parametrize(
    "name, message",
    [
        *((n, "All-NaN slice encountered") for n in sorted(EXTREMA)),
        ("nanmean", "Mean of empty slice"),
        *((n, "Degrees of freedom <= 0") for n in ("nanvar", "nanstd")),
    ],
)
def test_slices_of_nan_alone_warn_and_have_no_slope(name, message):
    x = np.array([[np.nan, np.nan, np.nan], [1.0, 2.0, np.nan]])
    f = lambda x: np.sum(getattr(np, name)(x, 1) * np.array([3.0, 1.0]))
    with pytest.warns(RuntimeWarning, match=message):
        g = fg.grad(f)(x)
    assert np.all(g[0] == 0)
    assert g[1, 2] == 0
    assert np.any(g[1] != 0)


def test_ties_beside_nan_share():
    x = np.array([[np.nan, 2.0, 2.0], [-np.inf, np.nan, -np.inf]])
    np.testing.assert_array_equal(
        fg.grad(lambda x: np.sum(np.nanmax(x, 1)))(x), [[0, 0.5, 0.5], [0.5, 0, 0.5]]
    )
    np.testing.assert_array_equal(
        fg.grad(lambda x: np.sum(np.nanmin(-x, 1)))(x), [[0, -0.5, -0.5], [-0.5, 0, -0.5]]
    )
    np.testing.assert_array_equal(
        fg.grad(lambda x: np.sum(np.fmax.reduce(x, 1)))(x), [[0, 0.5, 0.5], [0.5, 0, 0.5]]
    )


def test_reductions_of_ufuncs():
    for name in ("fmax", "fmin"):
        ufunc = getattr(np, name)
        for axis in (0, 2, None):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                expected = ufunc.reduce(NAN, axis=axis)
            np.testing.assert_array_equal(ufunc.reduce(fg.tensor(NAN), axis=axis).numpy(), expected)
        np.testing.assert_array_equal(ufunc.reduce(fg.tensor(NAN)).numpy(), ufunc.reduce(NAN))


@pytest.mark.parametrize("name", ["max", "min", "nanmax", "nanmin"])
def test_elements_that_do_not_count_take_no_share(name):
    x, mask = np.array([2.0, 2.0, 7.0, -7.0]), np.array([True, True, False, False])
    g, h = fg.grad(lambda x, i: getattr(np, name)(x, initial=i, where=mask), (0, 1))(x, 2.0)
    np.testing.assert_array_equal(g, [0.25, 0.25, 0, 0])
    assert h == 0.5


@pytest.mark.parametrize("name", ["max", "min"])
def test_the_extremum_of_nan_has_no_slope(name):
    x = np.array([[1.0, np.nan], [2.0, 3.0]])
    g = fg.grad(lambda x: np.sum(getattr(np, name)(x, 1)))(x)
    np.testing.assert_array_equal(g, [[0, 0], [0, 1]] if name == "max" else [[0, 0], [1, 0]])


@pytest.mark.parametrize("name", [*REDUCTIONS, *SCANS])
def test_out_keyword(name):
    x = NAN[:, 1:]
    writes(name, x, axis=1)
    if name in MOMENTS:
        with pytest.raises(TypeError, match="out must be inexact"):
            getattr(fnp, name)(fg.tensor(x), axis=1, out=np.zeros(len(x), int))


@pytest.mark.parametrize("name", [*REDUCTIONS, *SCANS])
def test_mapped(name):
    x = NAN[:, 1:, 1:]
    f = getattr(np, name)
    np.testing.assert_allclose(fg.vmap(lambda x: f(x, 0))(x), [f(row, 0) for row in x], rtol=1e-13)


def test_given_means_differentiate():
    m = np.nanmean(NAN[:, 1:], 2, keepdims=True)
    check_grads(lambda m: fnp.nanvar(NAN[:, 1:], 2, mean=m), (m,), 2)
    check_grads(lambda i: fnp.nansum(NAN, 1, initial=i) * fnp.nanprod(NAN, 1, initial=i), (0.3,), 2)
