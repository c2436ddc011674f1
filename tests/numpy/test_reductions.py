"""Reductions and scans over axes: values, keywords and derivatives."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.helpers import grouped
from tests.numpy.cases import Case, Fixed, check, integers, kinds, named, strided, truths, values, writes

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

M, V, S, E, C = values((2, 3)), values((4,)), values(()), values((0, 3)), values((2, 3, 4))
AXES = [None, 0, 1, -1, (0, 1), (0,), (-2, 2), ()]
MASK = truths((2, 3, 4))
SEVERAL = (
    "sum",
    "prod",
    "max",
    "min",
    "amax",
    "amin",
    "mean",
    "var",
    "std",
    "all",
    "any",
    "ptp",
    "count_nonzero",
)
REAL = {"max", "min", "amax", "amin", "ptp", "argmax", "argmin", "argsort"}
ONE = ("argmax", "argmin", "cumsum", "cumprod", "argsort", "sort")

CASES = [
    *(Case(n, f"axis {a}", (C, a), (), 2 if a in (None, 1) else 1) for n in SEVERAL for a in AXES),
    *(Case(n, f"axis {a} keepdims", (C,), (("axis", a), ("keepdims", True)), 1) for n in SEVERAL
        for a in AXES),
    *(Case(n, f"axis {a}", (C, a), (), 2 if a == 1 else 1) for n in ONE for a in (0, 1, -1)),
    *(Case(n, "axis None", (C,), (("axis", None),), 2) for n in ONE),
    *(Case(n, f"axis {a} keepdims", (C,), (("axis", a), ("keepdims", True)))
        for n in ("argmax", "argmin") for a in (None, 0, -1)),
    *(Case(n, f"{k}", (x,), (), 0 if k.startswith("complex") and n in REAL else 1)
        for n in (*SEVERAL, *ONE) for k, x in kinds().items() if not (k == "bool" and n == "ptp")),
    *(Case(n, f"{k} axis", (x, 0), (), 0 if k.startswith("complex") and n in REAL else 1)
        for n in (*SEVERAL, *ONE) for k, x in kinds().items() if not (k == "bool" and n == "ptp")),
    *(Case(n, f"{k}", (x,), (), 1) for n in (*SEVERAL, *ONE) for k, x in {"0-d": S, "one": V[:1],
        "list": [[1.0, 3.0, 2.0]], "integers in a list": [[1, 3, 2]], "strided": strided(M)}.items()),
    *(Case(n, "number", (2.5,), (), 1) for n in SEVERAL),
    *(Case(n, f"empty {a}", (E, a), (), int(a == 1)) for n in (*SEVERAL, *ONE) for a in (None, 0, 1)),
    *(Case(n, f"empty twice {a}", (np.zeros((0, 3, 0)), a), (), int(a == 1))
        for n in (*SEVERAL, *ONE) for a in (0, 1, 2)),
    *(Case(n, f"wrong axis {a}", (M, a)) for n in (*SEVERAL, *ONE) for a in (2, -3)),
    *(Case(n, f"wrong axes {a}", (M, a)) for n in SEVERAL for a in ((0, 0), (0, 2))),
    *(Case(n, "axes of a scan", (M, (0, 1))) for n in ("cumsum", "cumprod", "argmax", "argmin")),
    *(Case(n, "nothing", (V[:0],)) for n in (*SEVERAL, *ONE)),
    *(Case(n, f"axis {a} of 0-d", (S, a), (), 1) for n in (*SEVERAL, *ONE) for a in (0, -1, 1)),
    *(Case(n, f"axis {a} of 0-d keepdims", (S, a), (("keepdims", True),))
        for n in (*SEVERAL, "argmax", "argmin") for a in (None, 0, ())),
    # dtype, initial, where
    *(Case(n, f"dtype {np.dtype(t)} of {k}", (x,), (("axis", 0), ("dtype", t)), 1)
        for n in ("sum", "prod", "mean", "cumsum", "cumprod", "var", "std") for t in ("f4", "f8", "c16")
        for k, x in {"float64": C, "float32": C.astype("f"), "int": integers()}.items()
        if not (np.dtype(t).kind == "c" and n in ("var", "std"))),
    *(Case(n, f"dtype int of {k}", (x,), (("axis", 0), ("dtype", int)))
        for n in ("sum", "prod", "cumsum", "cumprod") for k, x in {"float": C, "bool": truths(),
        "int8": integers(dtype=np.int8)}.items()),
    *(Case(n, f"initial {i}", (C,), (("axis", a), ("initial", i)), 1)
        for n in ("sum", "prod", "max", "min", "amax", "amin") for a in (None, 1)
        for i in (0.3, 1, 100.0)),
    *(Case(n, f"initial of nothing {a}", (E,), (("axis", a), ("initial", 0.5)), 1)
        for n in ("sum", "prod", "max", "min") for a in (None, 0, 1)),
    *(Case(n, "initial for integers", (integers(),), (("axis", 0), ("initial", i)))
        for n in ("sum", "prod", "max", "min") for i in (2, 100)),
    *(Case(n, f"where {a}", (C,), (("axis", a), ("where", MASK)), 2 if a is None else int(a != -1))
        for n in ("sum", "prod", "mean", "var", "std", "all", "any") for a in (None, (0, 1), -1)),
    *(Case(n, "where keepdims", (C,), (("axis", 1), ("where", MASK), ("keepdims", True)), 1)
        for n in ("sum", "prod", "mean", "var", "std", "all", "any")),
    *(Case(n, f"where {np.dtype(t)}", (C.astype(t),), (("axis", 1), ("where", MASK)), 1)
        for n in ("sum", "prod", "mean", "var", "std") for t in ("f4", "c8", "i4")),
    *(Case(n, "where broadcast", (C,), (("axis", 1), ("where", MASK[:, :, :1])), 1)
        for n in ("sum", "prod", "mean", "var", "std")),
    *(Case(n, f"where and initial {a}", (C,), (("axis", a), ("where", MASK), ("initial", i)), 1)
        for n in ("sum", "prod", "max", "min", "amax", "amin") for a in (None, 1) for i in (-5.0, 0.25)),
    *(Case(n, "where without initial", (C,), (("where", MASK),)) for n in ("max", "min")),
    *(Case(n, f"where all and none {w}", (C,), (("where", w),)) for n in ("sum", "prod", "all", "any")
        for w in (True, False)),
    *(Case(n, f"ddof {d}", (C,), (("axis", a), ("ddof", d)), 2) for n in ("var", "std")
        for a in (None, 1) for d in (1, 0.5)),
    *(Case(n, "correction", (C,), (("correction", 1),), 1) for n in ("var", "std")),
    *(Case(n, "correction and ddof", (C,), (("correction", 1), ("ddof", 1))) for n in ("var", "std")),
    *(Case(n, "mean", (C,), (("axis", 1), ("mean", np.mean(C, 1, keepdims=True))))
        for n in ("var", "std")),
    *(Case(n, f"complex axis {a}", (values((2, 3), dtype=complex), a), (), 2)
        for n in ("sum", "prod", "mean", "var", "std", "cumsum", "cumprod") for a in (None, 0)),
    *(Case(n, f"initial {i!r} for {t}", (integers().astype(t),), (("axis", 0), ("initial", i)))
        for n in ("sum", "prod", "max", "min") for t in ("u1", "i8", "?", "e", "f", "d")
        for i in (1.5, 2, np.float64(0.5), None)),
    *(Case(n, "complex initial", (M,), (("initial", 1j),)) for n in ("sum", "max")),
    *(Case(n, "initial of several", (M,), (("initial", np.ones(3)),)) for n in ("sum", "prod")),
    *(Case(n, "half precision beyond its range", (np.full((3, 3000), 100, "e"),), (("axis", 1),
        ("where", np.arange(3000) < 2500))) for n in ("mean",)),
    *(Case("mean", f"integer dtype where {w is not True}", (integers(),), (("dtype", int), ("where", w)))
        for w in (True, truths())),
    # one of a kind
    *named("average", {"all": C, "axis": (C, 1), "axes": (C, (0, 2)), "weights": (C, None, np.abs(C)),
        "weights along an axis": (C, 1, np.abs(V[:3])), "weights along axes": (C, (0, 1), np.abs(M)),
        "weights along axes in another order": (C, (1, 0), np.abs(M.T)), "int": integers(), "0-d": S,
        "weights of integers": (V, 0, Fixed(np.array([1, 2, 3, 4]))),
        "float32 and integers": (V.astype("f"), None, Fixed(np.array([1, 2, 3, 4]))),
        "weights of zero sum": (V, None, np.array([1.0, -1.0, 0.0, 0.0])),
        "list": ([1, 2, 4], None, [1, 2, 1]), "unlike weights": (C, None, V),
        "unlike weights along an axis": (C, 1, V), "wrong axis": (M, 2)}),
    *named("average", {"keepdims": (C, 1), "keepdims all": C, "keepdims weights": (C, 1, np.abs(V[:3]))},
        keepdims=True),
    *named("average", {"returned": (C, 1), "returned weights": (C, 1, np.abs(V[:3])), "returned all": V,
        "returned float32": V.astype("f"), "returned of integers": (integers(), 0,
        Fixed(np.array([1, 2])))}, returned=True),
    *named("diff", {"once": V, "twice": (V, 2), "axis": (C, 1, 1), "none": (V, 0), "too often": (V, 5),
        "empty": E, "negative": (V, -1), "0-d": S, "integers": integers(), "bool": truths(),
        "wrong axis": (M, 1, 2)}),
    *named("diff", {"prepend": V}, prepend=0.5),
    *named("diff", {"append": C}, append=C[..., :1]),
    *named("diff", {"both": V}, prepend=V, append=[1.0, 2.0]),
    *(Case(n, f"{label} {i}", args, (*options, ("include_initial", i)), 2)
        for n in ("cumulative_sum", "cumulative_prod") for i in (False, True) for label, args, options in (
        ("vector", (V,), ()), ("0-d", (S,), ()), ("axis", (C,), (("axis", 1),)), ("last", (C,), (("axis",
        -1),)),
        ("no axis", (C,), ()), ("wrong axis", (M,), (("axis", 2),)), ("empty", (V[:0],), ()),
        ("dtype", (V,), (("dtype", np.float32),)), ("int8", (integers((3,), dtype=np.int8),), ()),
        ("bool", (truths((3,)),), ()), ("list", ([1, 2, 3],), ()), ("float32", (V.astype("f"),), ()),
        ("complex", (values((3,), dtype=complex),), ()), ("zeros", (np.array([2.0, 0.0, 3.0, 0.0]),), ()))),
    *named("ediff1d", {"vector": V, "matrix": M, "ends": (V, V[:2], 0.5), "end": (V, [1.0, 2.0]),
        "begin": (V, None,
        V), "integers": integers(), "integer ends": (V, 1, np.array([[2, 3]])),
        "floats to integers": (integers(), 0.5),
        "complex ends": (V, 1j), "one": V[:1], "empty": E, "0-d": S, "float32": (V.astype("f"), V[:1]),
        "int8": (integers(dtype=np.int8), np.int8(1)), "bool": truths(), "list": [1.0, 4.0, 2.0]}),
    # order
    *(Case("sort", f"ties {t}", (np.array([2, 1, 2, 1, 0], t),), ()) for t in ("i8", "f8", "f4", "u1")),
    *(Case("argsort", f"ties {t}", (np.array([2, 1, 2, 1, 0], t),), (("kind", "stable"),))
        for t in ("i8", "f8", "f4", "u1")),
    *(Case(n, "not a number", (np.array([1.0, np.nan, 0.0, np.nan]),))
        for n in ("sort", "argsort", "argmax", "argmin", "max", "min", "sum", "mean")),
    *(Case("sort", f"kind {k}", (C, 1), (("kind", k),), 1) for k in ("quicksort", "stable", "heapsort")),
    *(Case(n, "stable", (V,), (("stable", True),)) for n in ("sort", "argsort")),
]  # fmt: skip

NAMES = {c.name for c in CASES} | {"abs2"}


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@grouped("case", CASES, "name", quick=4)
def test_as_numpy(case):
    check(case)


def test_aliases():
    assert fnp.amax is fnp.max
    assert fnp.amin is fnp.min


@pytest.mark.parametrize(
    "name",
    [
        "sum",
        "prod",
        "max",
        "min",
        "mean",
        "var",
        "std",
        "ptp",
        "all",
        "any",
        "cumsum",
        "cumprod",
        "argmax",
        "argmin",
    ],
)
def test_out_keyword(name):
    writes(name, C, axis=1)
    expected = getattr(np, name)(C, axis=1)
    if expected.dtype.kind == "f":
        check_grads(lambda x: getattr(np, name)(x, axis=1, out=fg.tensor(np.zeros(expected.shape))), (C,), 2)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_initial_differentiates(name):
    check_grads(lambda x, i: getattr(fnp, name)(x, axis=0, initial=i), (M, 0.4), 2)
    mask = truths()
    check_grads(lambda x, i: getattr(fnp, name)(x, axis=0, initial=i, where=mask), (M, 0.4), 2)


def test_weights_and_means_differentiate():
    check_grads(lambda x, w: np.average(x, 1, w), (C, np.abs(V[:3])), 2)
    check_grads(lambda x, w: fnp.average(x, weights=w, returned=True), (V, np.abs(V)), 2)
    check_grads(lambda x, m: fnp.var(x, axis=1, mean=m), (M, M[:, :1]), 2)
    check_grads(lambda x, y: np.diff(x, prepend=y, append=y), (V, V[:2]), 2)


def test_extrema_that_tie_share_the_gradient():
    x = np.array([[1.0, 3.0, 3.0], [3.0, 0.0, 3.0]])
    np.testing.assert_allclose(fg.grad(np.max)(x), np.where(x == 3, 0.25, 0.0))
    np.testing.assert_allclose(fg.grad(lambda x: np.max(x, 1).sum())(x), np.where(x == 3, 0.5, 0.0))
    np.testing.assert_allclose(fg.grad(np.min)(-x), np.where(x == 3, 0.25, 0.0))


def test_products_with_zeros():
    for x in (np.array([0.0, 2.0, 3.0]), np.array([0.0, 0.0, 3.0]), np.zeros(3)):
        check_grads(np.prod, (x,), 3)
        check_grads(np.cumprod, (x,), 3)


@pytest.mark.parametrize(
    "kind", ["near one", "with zeros", "tiny", "huge", "rows", "complex", "float32", "NaN"]
)
def test_gradients_of_long_products(kind):
    n = 5000
    rng = np.random.default_rng(0)
    x, ct = 1 + rng.normal(size=n) / 50, rng.normal(size=n)
    if kind == "with zeros":
        x[[70, 71, 2000, 4999]] = 0
    elif kind == "rows":
        x, ct = x.reshape(2500, 2), ct.reshape(2500, 2)
    elif kind in ("tiny", "huge"):
        x[n // 2 :] *= 1e-9 if kind == "tiny" else 1.1
        x[-9:] = 1e9 if kind == "tiny" else 1e-9
    elif kind == "complex":
        x = x * np.exp(1j * ct)
    elif kind == "float32":
        x, ct = x.astype("f"), ct.astype("f")
    elif kind == "NaN":
        x[4000] = np.nan
    back = fg.vjp(lambda x: np.cumprod(x, 0), x)[1](ct.astype(x.dtype))[0]
    wide = np.clongdouble if kind == "complex" else np.longdouble
    before, heap = np.ones(x.shape, wide), np.zeros(x.shape, wide)
    before[1:] = np.cumprod(x[:-1].astype(wide), 0)
    for i in range(len(x) - 1, -1, -1):  # heap_i = ct_i + x_(i+1) heap_(i+1)
        heap[i] = ct[i] + (x[i + 1] * heap[i + 1] if i + 1 < len(x) else 0)
    size = np.abs(before * heap)
    rounding = 1e-3 if kind == "float32" else 1e-9
    np.testing.assert_allclose(
        back, (before * heap).astype(x.dtype), rounding, rounding * float(np.nanmax(size))
    )


def test_initial_elements_beside_out():
    for name in ("cumulative_sum", "cumulative_prod"):
        for initial in (False, True):
            writes(name, V, include_initial=initial)


def test_differences_between_ends_differentiate():
    check_grads(lambda x, a, b: np.ediff1d(x, a, b), (M, V, V[:2] ** 2), 2)


def test_a_spread_of_zero_has_slope_zero():
    np.testing.assert_array_equal(fg.grad(np.std)(np.ones(3)), np.zeros(3))


def test_squared_absolute_value():
    for x in (M, M.astype("f"), values(dtype=complex), values(dtype=np.complex64)):
        for given in (x, fg.tensor(x)):
            y = fnp.abs2(given)
            assert isinstance(y, fg.Tensor) == isinstance(given, fg.Tensor)
            assert y.dtype == x.real.dtype
            np.testing.assert_allclose(fg.tensor(y).numpy(), np.abs(x) ** 2, rtol=1e-5)
        check_grads(fnp.abs2, (x,), 2)


@pytest.mark.parametrize("name", sorted(REAL - {"argmax", "argmin", "argsort", "amax", "amin"}))
def test_complex_extrema_select(name):
    z = np.array([1 + 2j, 3 - 1j, 1 - 5j])
    slope = {"max": [0, 1, 0], "min": [0, 0, 1], "ptp": [0, 1, -1]}[name]
    assert getattr(np, name)(z) == z @ slope
    gradient = fg.grad(lambda z: np.real(getattr(fnp, name)(z)))(z)
    np.testing.assert_array_equal(gradient, np.array(slope, complex))


SAMPLES_OF_SPREAD = {
    "one": np.array([2.0]),
    "two": np.array([1.0, 2]),
    "equal": np.array([2.0, 2, 2]),
    "rows": np.array([[1.0, 2, 3], [4, 4, 4]]),
    "nan": np.array([[1.0, np.nan, 3], [np.nan, np.nan, 4], [np.nan] * 3]),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
@pytest.mark.parametrize("sample", SAMPLES_OF_SPREAD)
def test_spreads_without_degrees_of_freedom(name, sample):
    """Values are NumPy's; elements of which nothing is known have no gradient, in any mode."""
    a = SAMPLES_OF_SPREAD[sample]
    for mask, ddof, axis in itertools.product(("all", "none", "first"), (0, 1, 2, 5), (None, -1)):
        if sample == "nan" and not name.startswith("nan"):
            where = ~np.isnan(a) & (mask != "none")
        else:
            where = {"all": True, "none": np.zeros(a.shape, bool)}.get(mask, np.arange(a.shape[-1]) == 0)
        f = lambda x, n=np: getattr(n, name)(x, axis=axis, ddof=ddof, where=where)
        exact = f(a)
        np.testing.assert_allclose(f(fg.tensor(a)).numpy(), exact, rtol=1e-14)
        jacobian = fg.jacrev(f)(a)
        assert not np.isnan(jacobian).any()
        others = [fg.jacfwd(f)]
        if (mask, ddof, axis) == ("first", 1, -1):
            others += [fg.jit(fg.jacrev(f)), fg.jit(fg.jacfwd(f))]
        for other in others:
            np.testing.assert_allclose(other(a), jacobian, 1e-12, 1e-15)
        assert not jacobian[~np.isfinite(exact)].any()
        hessian = fg.hessian(lambda x: np.sum(f(x)))(a)
        assert not np.isnan(hessian).any()
        np.testing.assert_allclose(fg.jacrev(fg.jacrev(lambda x: np.sum(f(x))))(a), hessian, 1e-9, 1e-12)


@pytest.mark.parametrize("axis", [0, -1, np.int64(0), np.int8(-1)])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all"])
def test_an_array_without_axes_is_reduced_over_the_one_that_it_does_not_have(name, axis):
    f, x = (lambda x: getattr(np, name)(x, axis=axis)), np.array(2.5)
    assert f(fg.tensor(x)).numpy() == fg.jit(f)(x) == f(x)
