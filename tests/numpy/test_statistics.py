"""Medians, quantiles, covariances and correlations: every method and keyword, and their derivatives."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import grouped
from tests.numpy.cases import Case, Fixed, check, integers, kinds, named, strided, truths, values, writes

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

M, V, S, E, C = values((2, 3)), values((5,)), values(()), values((0, 3)), values((2, 3, 4))
POSITIVE = np.abs(C) + 0.1
NAN = C.copy()
NAN[0, 1, 2] = NAN[1, 0, :] = NAN[1, 2, 0] = np.nan
METHODS = [
    *("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf", "averaged_inverted_cdf"),
    *("closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased"),
    "normal_unbiased",
]
PIECEWISE = {"linear", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased", "normal_unbiased"}
QUANTILES = {"quantile": 1, "percentile": 100, "nanquantile": 1, "nanpercentile": 100}
AXES = [None, 0, -1, (0, 1), (2, 0), (0, 1, 2), ()]
MIXED = np.array([0.05, 0.31, 0.5, 0.98])


def quantiles():
    """Yield calls of the four functions that return quantiles."""
    for n, scale in QUANTILES.items():
        for a in AXES:
            if a != () or not n.startswith("nan"):
                yield Case(n, f"axis {a}", (C, 0.37 * scale, a), (), 2 if a in (None, -1) else 1)
                yield Case(n, f"axis {a} keepdims", (C, MIXED * scale, a), (("keepdims", True),), 1)
        for m in METHODS:
            order = 2 if n == "quantile" else 1
            yield Case(n, m, (V, 0.37 * scale), (("method", m),), order)
            yield Case(n, f"{m} along an axis", (C, Fixed(MIXED * scale), 1), (("method", m),), 1)
            yield Case(n, f"{m} at the ends", (V, Fixed(np.array([0.0, 1.0]) * scale)), (("method", m),), 1)
            for k in (1, 2, 4, 5):  # where places are integers, or lie between two
                levels = Fixed(np.linspace(0, 1, 11) * scale)
                yield Case(n, f"{m} of {k}", (V[:k], levels), (("method", m),), 1)
            for k in ("float32", "float16", "int64", "int8", "uint8"):
                yield Case(n, f"{m} of {k}", (kinds((2, 5))[k], 0.4 * scale, 1), (("method", m),), 1)
            if n.startswith("nan"):
                yield Case(n, f"{m} of NaN", (NAN, Fixed(MIXED * scale), 1), (("method", m),))
                yield Case(n, f"{m} of all of NaN", (NAN, 0.3 * scale), (("method", m),))
            else:
                yield Case(n, f"{m} of NaN", (NAN, Fixed(MIXED * scale), 1), (("method", m),))
        for label, q in {
            "int": scale, "zero": 0, "list": [0.0, 0.5 * scale], "float32": np.float32(0.25 * scale),
            "matrix": MIXED.reshape(2, 2) * scale, "0-d": np.array(0.5 * scale), "none": MIXED[:0],
            "negative": -0.1, "too large": 1.1 * scale, "not a number": np.nan, "cube": np.full((1, 1, 1),
        0.5),
            "one of many too large": np.array([0.1, 2.0]) * scale,
            "integers": np.array([0, 1]) * scale,
        }.items():  # fmt: skip
            yield Case(n, f"q {label}", (C, q, 1), (), 1 if label in {"float32", "list", "int"} else 0)
            yield Case(n, f"q {label} of float32", (C.astype("f"), q, 1))
            yield Case(n, f"q {label} of integers", (integers((2, 3, 4)), q, 1))
        for label, args in {
            "wrong axis": (C, 0.5, 3), "axis twice": (C, 0.5, (1, 1)), "complex": (C + 1j, 0.5),
            "0-d": (S, 0.5), "one": (V[:1], 0.5), "strided": (strided(M), 0.5, 1), "list": ([1.0, 3.0, 2.0],
        0.5),
            "no lanes": (E, 0.5, 1),
        }.items():  # fmt: skip
            yield Case(n, label, args, (), 1)
        yield Case(n, "unknown method", (V, 0.5), (("method", "unknown"),))
        for label, (x, w, axis) in {
            "all": (C, POSITIVE, None), "axis": (C, POSITIVE, 1), "vector": (C, POSITIVE[0, :, 0], 1),
            "axes": (C, POSITIVE[:, 0], (0, 2)), "axes in another order": (C, POSITIVE[:, 0].T, (2, 0)),
            "integers": (C, integers((2, 3, 4), 1, 4), -1), "some zero": (C, truths((2, 3, 4), 5) + 0.0,
        None),
            "unlike": (C, V, 1), "unlike all": (C, V, None), "negative": (C, -POSITIVE, 0), "list": (V, [1,
        2, 1,
            3, 1], None), "NaN in x": (NAN, POSITIVE, 1), "float32": (C.astype("f"), POSITIVE, 2),
        }.items():  # fmt: skip
            if label == "NaN in x" and not n.startswith("nan"):
                continue
            if n.startswith("nan") and np.shape(w) != x.shape:
                continue  # NumPy 2.4 does not get along with its own weights
            options = (("weights", w), ("method", "inverted_cdf"))
            for q in (0.4 * scale, Fixed(np.array([0.0, 0.5, 1.0]) * scale)):
                order = 0 if label == "NaN in x" else 1
                yield Case(n, f"weights {label} {type(q).__name__}", (x, q, axis), options, order)
        yield Case(n, "weights of zero", (V, 0.5), (("weights", np.zeros(5)), ("method", "inverted_cdf")))
        yield Case(n, "weights of another method", (V, 0.5), (("weights", np.ones(5)),))


CASES = [
    *quantiles(),
    *(Case(n, f"axis {a} keepdims {k}", (C, a), (("keepdims", k),), 2 if a in (None, 1) else 1)
        for n in ("median", "nanmedian") for a in AXES for k in (False, True)
        if a != () or n == "median"),
    *(Case(n, f"{k}", (x,), (), 1) for n in ("median", "nanmedian") for k, x in kinds((3, 5)).items()
        if not (k in ("bool", "complex64", "complex128") and n == "nanmedian")),
    *(Case(n, f"{k} axis", (x, 0), (), 1) for n in ("median", "nanmedian") for k, x in kinds((3, 5)).items()
        if k != "bool" and not (k.startswith("complex") and n == "nanmedian")),
    *(Case(n, label, args, (), int(label != "empty")) for n in ("median", "nanmedian") for label, args in {
        "0-d": (S,), "one": (V[:1],), "two": (V[:2],), "list": ([3.0, 1.0, 2.0, 4.0],),
        "wrong axis": (C, 3), "lanes of none": (E, 1)}.items()),
    *(Case(n, f"nothing along {a}", (E, a)) for n in ("median", "nanmedian") for a in (None, 0, (0, 1))),
    *(Case(n, f"NaN {a}", (NAN, a)) for n in ("median", "nanmedian") for a in (None, 0, 1, 2, (0, 1))),
    *(Case(n, f"infinite {a}", (np.array([[1.0, np.inf, 2], [np.inf, -np.inf, np.inf]]), a))
        for n in ("median", "nanmedian") for a in (None, 0, 1)),
    *named("cov", {"vector": V, "matrix": M, "more": (M, M[::-1] ** 2), "vectors": (V, V**2), "columns": (M,
        None,
        False), "more columns": (M, M + V[:3], False), "biased": (M, None, True, True), "ddof": (M, None,
        True, False,
        0), "integers": integers(), "float32": M.astype("f"), "complex": values((2, 4), dtype=complex),
        "complex and real": (values((2, 3), dtype=complex), M), "list": [[1.0, 2.0, 4.0], [0.5, 0.1, 0.2]],
        "cube": C, "cube beside": (M, C), "ddof and a half": (M, None, True, False, 0.5), "no variables": E,
        "column of y": (V[:3], V[:3].reshape(3, 1), False)}),
    *(Case("cov", f"{label} {d}", (M,), (*options, ("ddof", d)), 2) for d in (None, 0, 1) for label,
        options in {
        "frequencies": (("fweights", np.array([1, 2, 3])),),
        "both": (("fweights", np.array([1, 2, 3])), ("aweights", np.array([0.5, 0.3, 0.9]))),
        "analytic": (("aweights", np.array([0.5, 0.3, 0.9])),)}.items()),
    *(Case("cov", label, (M,), options) for label, options in {
        "fractional frequencies": (("fweights", np.array([1, 2, 0.5])),),
        "negative frequencies": (("fweights", np.array([1, 2, -1])),),
        "frequencies for others": (("fweights", np.array([1, 2])),),
        "matrix of frequencies": (("fweights", integers((2, 3), 1, 3)),),
        "negative weights": (("aweights", np.array([1, 2, -0.5])),),
        "weights for others": (("aweights", np.array([1, 2])),),
        "matrix of weights": (("aweights", np.abs(M)),),
        "float32": (("dtype", np.float32),)}.items()),
    *(Case("cov", label, (x,)) for label, x in {"0-d": S, "one observation": M[:, :1]}.items()),
    Case("cov", "weights of complex", (values((2, 3), dtype=complex),), (("aweights", np.array([1.0, 2,
        3])),), 2),
    *named("corrcoef", {"vector": V, "matrix": M, "more": (M, M[::-1] ** 2), "columns": (values((5, 2)),
        None, False),
        "integers": integers((2, 5)), "float32": values((2, 5)).astype("f"), "complex": values((2, 4),
        dtype=complex),
        "list": [[1.0, 2.0, 4.0], [0.5, 0.1, 0.2]], "cube": C, "vectors": (V, V**2), "three": values((3,
        6))}),
    Case("corrcoef", "dtype", (M,), (("dtype", np.float32),)),
]  # fmt: skip

NAMES = {c.name for c in CASES}


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@grouped("case", CASES, "name", quick=4)
def test_as_numpy(case):
    check(case)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 9),
    lanes=st.integers(1, 3),
    seed=st.integers(0, 99),
    method=st.sampled_from(METHODS),
    dtype=st.sampled_from(["f8", "f4", "i8"]),
    q=st.lists(st.fractions(0, 1, max_denominator=12).map(float), min_size=1, max_size=12),
    holes=st.booleans(),
)
def test_quantiles_of_anything(n, lanes, seed, method, dtype, q, holes):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 6, (lanes, n)).astype(dtype)
    if holes and dtype != "i8":
        x[rng.random(x.shape) < 0.3] = np.nan
    for name in ("quantile", "nanquantile"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            expected = getattr(np, name)(x, q, 1, method=method)
            y = getattr(fnp, name)(fg.tensor(x), q, 1, method=method)
        assert y.dtype == expected.dtype
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_slopes_in_the_fractions(method):
    x, q = values((7,)), np.array([0.03, 0.2, 0.41, 0.77, 0.99])
    check_grads(lambda x, q: np.quantile(x, q, method=method), (x, q), 2)
    check_grads(lambda x, q: np.nanpercentile(x, 100 * q, method=method), (x, q), 1)
    slope = fg.grad(lambda q: np.sum(np.quantile(x, q, method=method)))(q)
    assert np.any(slope) == (method in PIECEWISE)


@pytest.mark.parametrize("method", sorted(PIECEWISE))
def test_slopes_in_the_fractions_at_nodes(method):
    x = np.array([0.0, 1.0, 5.0, 6.0])
    f = lambda q: fnp.quantile(x, q, method=method)
    node = {
        "linear": 1 / 3,
        "interpolated_inverted_cdf": 0.5,
        "hazen": 0.375,
        "weibull": 0.4,
        "median_unbiased": (2 - 1 / 3) / (4 + 1 / 3),
        "normal_unbiased": (2 - 3 / 8) / (4 + 1 / 4),
    }[method]
    h = 1e-7
    right = (f(node + 2 * h) - f(node + h)) / h
    np.testing.assert_allclose(fg.grad(f)(node + 1e-15), right, rtol=1e-5)
    if method in {"linear", "interpolated_inverted_cdf"}:  # reach the last element at 1 and not before
        np.testing.assert_allclose(fg.grad(f)(1.0), (f(1 - h) - f(1 - 2 * h)) / h, rtol=1e-5)
    else:
        assert fg.grad(f)(1.0) == 0
        assert fg.grad(f)(0.0) == 0


INFINITE = [
    [np.inf, 1.0, 2.0, 3.0],
    [-np.inf, 1.0, 2.0, np.inf],
    [-np.inf, -np.inf, 0.0, np.inf, np.inf],
    [np.inf, np.inf],
    [-np.inf],
    [1.0, np.inf],
    [np.nan, -np.inf, 1.0, np.inf],
]


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:All-NaN")
@pytest.mark.parametrize("name", ["quantile", "nanquantile", "percentile", "nanpercentile"])
@pytest.mark.parametrize("method", METHODS)
def test_beside_infinite_elements(method, name):
    plain, ours = getattr(np, name), getattr(fnp, name)
    levels = np.linspace(0, 1, 21) * (100 if "percent" in name else 1)
    for data in INFINITE:
        for x in (np.array(data), np.array(data, np.float32)):
            expected = plain(x, levels, method=method)
            np.testing.assert_array_equal(ours(fg.tensor(x), levels, method=method).numpy(), expected)
            ours_of_rows = fg.vmap(lambda x: ours(x, levels, method=method))
            np.testing.assert_array_equal(ours_of_rows(np.stack([x, x]))[1], expected)
            for q in levels[::5]:
                found = ours(fg.tensor(x), float(q), method=method).numpy()
                np.testing.assert_array_equal(found, plain(x, float(q), method=method))
    few = np.array([0, 0.137, 0.371, 0.613, 0.839, 1]) * levels[-1]  # not half way between two elements
    compiled = fg.jit(lambda x: ours(x, few, method=method))
    for x in np.array([[-np.inf, -np.inf, 0, np.inf, np.inf], [np.inf, 1, 2, 3, 4], [0, 1, 2, 3, 4]]):
        np.testing.assert_array_equal(compiled(x), plain(x, few, method=method))


def test_equal_elements_are_taken_in_order():
    x = np.array([1.0, 2.0, 2.0, 2.0, 3.0])
    np.testing.assert_array_equal(fg.grad(np.median)(x), [0, 0, 1, 0, 0])
    np.testing.assert_allclose(fg.grad(lambda x: np.quantile(x, 0.3))(x), [0, 1 - 0.2, 0.2, 0, 0])
    np.testing.assert_array_equal(fg.grad(np.median)(np.zeros(4)), [0, 0.5, 0.5, 0])
    rows = np.array([[1.0, 1.0, 1.0], [0.0, 2.0, 1.0]])
    g = fg.grad(lambda x: np.sum(np.median(x, 1)))(rows)
    np.testing.assert_array_equal(g, [[0, 1, 0], [0, 0, 1]])
    many = np.linspace(0, 1, 21)
    for y in (x, np.zeros(5)):
        few = [fg.grad(lambda y: np.quantile(y, q))(y) for q in many]
        np.testing.assert_allclose(fg.jacrev(lambda y: np.quantile(y, many))(y), few, rtol=1e-12)


def test_slices_that_hold_nan():
    x = np.array([[1.0, np.nan, 3.0], [4.0, 6.0, 5.0]])
    f = lambda x: np.sum(np.nan_to_num(np.median(x, 1)) + np.nan_to_num(np.quantile(x, 0.25, 1)))
    np.testing.assert_array_equal(fg.grad(f)(x), [[0, 0, 0], [0.5, 0, 1.5]])
    g = fg.grad(lambda x: np.sum(np.nanmedian(x, 1)))(x)
    np.testing.assert_array_equal(g, [[0.5, 0, 0.5], [0, 0, 1]])
    g = fg.grad(lambda x: np.sum(np.nanquantile(x, 0.25, 1)))(x)
    np.testing.assert_array_equal(g, [[0.75, 0, 0.25], [0.5, 0, 0.5]])


@pytest.mark.parametrize("name", ["nanmedian", "nanquantile", "nanpercentile"])
def test_slices_of_nan_alone_warn(name):
    args = () if name == "nanmedian" else (0.5,)
    x = np.array([[np.nan, np.nan], [1.0, 2.0]])
    with pytest.warns(RuntimeWarning, match="All-NaN slice"):
        y = getattr(fnp, name)(fg.tensor(x), *args, 1)
    with pytest.warns(RuntimeWarning, match="All-NaN slice"):
        np.testing.assert_array_equal(y.numpy(), getattr(np, name)(x, *args, 1))


def test_nan_functions_differentiate_beside_nan():
    hole = np.isnan(NAN)
    for axis in (None, 1, (0, 2)):
        for name, args in (("nanmedian", ()), ("nanquantile", (MIXED,)), ("nanpercentile", (33.0,))):
            f = lambda x: getattr(np, name)(np.where(hole & (C[1, 0] != C), np.nan, x), *args, axis=axis)
            check_grads(f, (C,), 2)


@pytest.mark.parametrize("name", ["median", "nanmedian", *QUANTILES])
def test_out_keyword(name):
    args = (C,) if "median" in name else (C, MIXED)
    for keepdims in (False, True):
        writes(name, *args, axis=1, keepdims=keepdims)
    found = getattr(fnp, name)(fg.tensor(C), *args[1:], overwrite_input=True)
    np.testing.assert_allclose(found, getattr(np, name)(*args))


def test_mapped_quantiles():
    q = np.array([0.1, 0.8, 0.5])
    loop = [np.quantile(row, level) for row, level in zip(C[0], q, strict=True)]
    np.testing.assert_allclose(fg.vmap(np.quantile)(C[0], q), loop, rtol=1e-13)
    np.testing.assert_allclose(fg.vmap(np.quantile, (None, 0))(V, q), np.quantile(V, q), rtol=1e-13)
    loop = [[np.nanmedian(x, 1), np.nanquantile(x, 0.3, 1)] for x in NAN[:, 1:, 1:]]
    both = fg.vmap(lambda x: np.stack([np.nanmedian(x, 1), np.nanquantile(x, 0.3, 1)]))(NAN[:, 1:, 1:])
    np.testing.assert_allclose(both, loop, rtol=1e-13)
    weighted = lambda x, w: np.quantile(x, 0.4, weights=w, method="inverted_cdf")
    loop = [weighted(x, w) for x, w in zip(C[0], POSITIVE[0], strict=True)]
    np.testing.assert_allclose(fg.vmap(weighted)(C[0], POSITIVE[0]), loop, rtol=1e-13)


def test_weights_have_no_slope():
    f = lambda x, w: np.quantile(x, 0.4, weights=w, method="inverted_cdf")
    np.testing.assert_array_equal(fg.grad(f, 1)(V, np.ones(5)), np.zeros(5))
    check_grads(lambda x: f(x, np.ones(5)), (V,), 2)


def test_weights_along_axes_beside_nan():
    for w in (POSITIVE[0, :, 0], integers((3,), 1, 4)):
        options = {"axis": 1, "weights": w, "method": "inverted_cdf"}
        y = fnp.nanquantile(fg.tensor(C), MIXED, **options)
        np.testing.assert_array_equal(y.numpy(), np.quantile(C, MIXED, **options))
        options["weights"] = np.broadcast_to(w[:, None], C.shape)
        y = fnp.nanquantile(fg.tensor(NAN), MIXED, **options)
        np.testing.assert_array_equal(y.numpy(), np.nanquantile(NAN, MIXED, **options))


def test_covariances_differentiate_in_the_weights():
    w = np.array([0.5, 0.3, 0.9])
    check_grads(lambda x, y, w: np.cov(x, y, aweights=w), (M, V[:3], w), 2)
    check_grads(lambda x, w: np.cov(x, aweights=w, fweights=[1, 2, 1], ddof=0), (M, w), 2)
    check_grads(lambda x, w: np.cov(x, aweights=w, bias=True), (M + 1j * M[::-1] ** 2, w), 2)


def test_no_degrees_of_freedom_warn():
    with pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        y = fnp.cov(fg.tensor(V[:1]))
    assert np.isnan(y.item())


def test_correlations_of_dependent_variables_are_stationary():
    x = np.stack([V, 2 * V + 1, -V])
    np.testing.assert_allclose(fnp.corrcoef(fg.tensor(x)).numpy(), np.corrcoef(x), rtol=1e-13)
    np.testing.assert_allclose(fg.grad(lambda x: np.corrcoef(x)[0, 1])(x), np.zeros((3, 5)), atol=1e-14)
