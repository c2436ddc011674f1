"""Polynomials, convolutions, finite differences, and functions with series of their own."""

from __future__ import annotations

import warnings
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import grouped
from tests.numpy.cases import Case, Fixed, check, integers, kinds, named, strided, truths, values

import fgrad as fg
import fgrad.numpy as fnp
from fgrad.testing import check_grads

V, W, S, E = values((5,)), values((3,), seed=1), values(()), values((0,))
M, C, Z = values((3, 4)), values((3, 4, 5)), values((4,), dtype=complex)
P, Q, N = np.array([2.0, -3.0, 1.5, 0.5]), np.array([1.5, 0.5]), integers((4,), 1)
MODES = ("full", "same", "valid")
PAIRS = {
    "longer first": (P, Q), "longer second": (Q, P), "equal": (P, P[::-1]), "integers": (N, N[:2]),
    "int and float": (N, Q), "complex": (Z, Q), "both complex": (Z, Z[:2]), "lists": ([1, 2], [3.0]),
    "float32": (P.astype("f"), Q.astype("f")), "0-d": (P, S), "float32 and float64": (P.astype("f"), Q),
    "complex64": (Z.astype("F"), Q.astype("f")), "number": (P, 2.0), "strided": (strided(P), Q)}  # fmt: skip
ZEROS = {"leading zero": (np.array([0.0, 1.0, 2.0]), P), "zeros": (np.zeros(2), P),
    "both with zeros": (np.array([0.0, 0.0, 1.0]), np.array([0.0, 2.0, 3.0]))}  # fmt: skip
STEPS = np.array([0.0, 0.5, 0.7, 1.5, 1.6])

CASES = [
    # polynomials
    *(c for f in ("polyadd", "polysub") for c in named(f, PAIRS | ZEROS)),
    *named("polymul", PAIRS | {"matrix": (M, P)}),
    *(c._replace(order=0) for c in named("polymul", ZEROS)),
    *(c._replace(order=0 if c.label in {"float32", "complex64"} else 2)  # rounding decides on the shape
        for c in named("polydiv", PAIRS | {"equal": (P, P[::-1] + 1.0)})),
    *named("polydiv", {"exact": (np.convolve(P, Q), Q), "higher": (Q, P), "zero": (np.zeros(2), Q)},
        order=0),
    *named("polyval", {"vector": (P, V), "matrix": (P, M), "0-d": (P, S), "number": (P, 2.0),
        "integers": (N, integers()), "int and float": (N, V), "complex": (P, Z), "complex both": (Z, Z),
        "float32": (P.astype("f"), V.astype("f")), "columns": (M, V[:4]), "none": (E, V), "list": ([1, 2], V),
        "empty": (P, E), "one": (P[:1], V), "lists": ([1.0, 2.0], [1.0, 3.0])}),
    *named("polyder", {"once": P, "twice": (P, 2), "not": (P, 0), "too often": (P, 9), "negative": (P, -1),
        "integers": N, "complex": Z, "float32": P.astype("f"), "constant": P[:1], "list": ([1, 2, 3],)}),
    *named("polyint", {"once": P, "twice": (P, 2), "not": (P, 0), "negative": (P, -1),
        "constant": (P, 1, 2.0), "constants": (P, 2, values((2,))), "one constant": (P, 3, [2.0]),
        "too few": (P, 3, [1.0, 2.0]), "integers": N, "complex": Z, "float32": P.astype("f"),
        "list": ([1, 2],), "more": (P, 1, [1.0, 2.0])}),
    *named("poly", {"vector": W, "one": W[:1], "complex": Z,
        "integers": N, "bool": truths((3,)), "float32": W.astype("f"), "float16": W.astype("e"),
        "complex64": Z.astype("F"), "list": ([1.0, 2.0],), "number": 2.0, "cube": C, "wide": M}),
    *named("poly", {"none": E, "pair": np.array([1 + 1j, 1 - 1j, 2])}, order=0),
    *named("roots", {"real": np.array([2.0, -3.0, -7.0, 1.0]), "complex": np.array([1.0, 2.0, 5.0]),
        "complex coefficients": Z, "integers": np.array([1, -6, 11, -6]),
        "float32": np.array([1, -3, 1], "f"),
        "list": ([1, -3, 2],), "constant": P[:1], "matrix": M,
        "zero at the end": np.array([1.0, -3.0, 1.0, 0.0])}),
    *named("roots", {"zeros at both ends": np.array([0.0, 0.0, 1.0, -3.0, 2.0, 0.0, 0.0]), "number": 3.0,
        "zero": np.zeros(3)}, order=0),
    *named("vander", {"all": W, "more": (W, 5), "fewer": (W, 2), "one": (W, 1), "no column": (W, 0),
        "none": E, "integers": N, "float32": W.astype("f"), "complex": Z, "matrix": M, "list": ([1, 2, 3],),
        "bool": truths((3,)), "zero": np.array([0.0, 1.0])}),
    *named("vander", {"increasing": (W, 4)}, increasing=True),
    # convolutions
    *(Case("correlate", f"{k} {mode}", (*p, mode), (), 2) for k, p in PAIRS.items() for mode in MODES),
    *named("correlate", {"default": (P, Q), "empty": (P, E), "matrix": (M, P), "unknown": (P, Q, "half"),
        "real and complex": (P, Z[:2])}),
    *(Case("convolve", f"{k} {mode}", (*p, mode), (), 2) for k, p in PAIRS.items() for mode in MODES),
    # sums and differences
    *named("trapezoid", {"vector": V, "matrix": M, "places": (V, STEPS), "distance": (V, None, 0.3),
        "axis": (C, None, 1.0, 1), "places along an axis": (C, np.array([0.0, 0.3, 0.9]), 1.0, 0),
        "places for all": (M, M[::-1], 1.0, 1), "integers": N, "complex": Z, "float32": V.astype("f"),
        "list": ([1, 2, 4],), "one": V[:1], "none": E, "wrong axis": (M, None, 1.0, 2), "0-d": S,
        "do not fit": (V, STEPS[:3]), "int places": (V, Fixed(np.array([0, 1, 3, 4, 6])))}),
    *(Case("gradient", f"{k} order {o}", args, (("edge_order", o),), 2) for o in (1, 2) for k, args in {
        "vector": (V,), "matrix": (M,), "distance": (V, 0.5), "distance of all": (M, 0.5),
        "distances": (M, 0.5, 2.0), "coordinates": (V, STEPS), "even coordinates": (V, np.arange(5.0)),
        "both": (M, 0.5, STEPS[:4]), "int coordinates": (V, Fixed(np.array([0, 1, 3, 4, 6]))),
        "0-d distance": (V, np.array(0.3)), "unlike": (V, STEPS[:4]), "too many": (V, 1.0, 1.0),
        "matrix of distances": (V, M), "too short": (V[:1],), "none": (E,), "0-d": (S,)}.items()),
    *(Case("gradient", f"{k}", (x,), (), 1) for k, x in kinds((3, 4)).items()
        if k not in {"bool", "float16"}),
    *(Case("gradient", f"{k} coordinates", (x, np.array([0.0, 0.5, 2.0]), 1.0), (), 1)
        for k, x in kinds((3, 4)).items() if k in {"float64", "float32", "complex128", "int64"}),
    *(Case("gradient", f"axis {a}", (C,), (("axis", a),), 1) for a in (0, -1, (0, 2), (1,), 3, (0, 0), ())),
    *named("gradient", {"axis and coordinates": (M, np.array([0.0, 1.0, 3.0]))}, axis=0),
    *named("gradient", {"list": ([1.0, 2.0, 4.0],)}),
    *named("gradient", {"unknown order": (V,)}, edge_order=3),
    *(Case("unwrap", k, args, (), 2) for k, args in {"vector": (values((6,), -9, 9),),
        "matrix": (values((3, 4), -9, 9),), "axis": (values((3, 4), -9, 9), None, 0),
        "discont": (values((6,), -9, 9), 5.0), "float32": (values((6,), -9, 9, "f"),), "one": (V[:1],),
        "list": ([0.0, 7.0, 1.0],), "integers": (integers((6,), -20, 20),), "0-d": (S,)}.items()),
    *(Case("unwrap", f"period {p}", (x,), (("period", p),), 1) for p in (4, 5, 3.5)
        for x in (values((6,), -9, 9), integers((6,), -20, 20))),
    Case("unwrap", "half a period", (np.array([0.0, 2.0, 4.0, 2.0]),), (("period", 4),)),
    Case("unwrap", "half a period of integers", (np.array([0, 2, 4, 2]),), (("period", 4),)),
    # functions of elements
    *(Case(f, k, (x,), (), 1) for f in ("sinc", "i0") for k, x in kinds().items()
        if not (f == "i0" and k.startswith("complex"))),
    *named("i0", {"complex": Z, "vector": V * 5, "far": np.array([20.0, -33.0]), "0-d": S, "empty": E,
        "number": 1.5, "list": ([1, 2.5],)}),
    *named("sinc", {"vector": V * 3, "complex": Z, "0-d": S, "empty": E, "number": 0.5, "list": ([0, 1.5],),
        "edges": np.array([0.0, 1e-300, 1e-9, 1e8])}, order=1),
    *named("sinc", {"second": V, "second of complex": Z}),
    *(Case(f, k, (x,)) for f in ("fix", "isposinf", "isneginf", "iscomplex", "isreal", "isrealobj",
        "real_if_close") for k, x in (kinds() | {"edges": np.array([-1.5, -0.0, np.inf, -np.inf, np.nan]),
        "0-d": S, "empty": E, "list": [1.5, -2.5], "nearly real": np.array([1 + 1e-15j, 2]),
        "partly real": np.array([1 + 1j, 2])}).items()),
    *(Case("real_if_close", f"tol {t}", (np.array([1 + 1e-4j]), t)) for t in (1e-3, 1e13)),
    *named("real_if_close", {"derivative": np.array([1.0 + 0j, 2.0])}, order=0),
    *named("real_if_close", {"second": values((3,))}),
    *named("fix", {"second": values((3,), 0.6, 0.9)}),
    # products of matrices and vectors
    *(c for c in named("matvec", {"one": (M, V[:4]), "stack": (C, V), "stacks": (C, values((3, 5))),
        "broadcast": (M, values((2, 1, 4))), "complex": (values((2, 4), dtype=complex), Z),
        "do not fit": (M, V), "integers": (integers(), integers((3,))), "vector": (V, V), "empty": (M[:0],
        V[:4])}) if hasattr(np, "matvec")),
    *(c for c in named("vecmat", {"one": (W, M), "stack": (V[:4], C), "stacks": (values((3, 4)), C),
        "complex": (Z, values((4, 2), dtype=complex)), "do not fit": (V, M), "integers": (integers((2,)),
        integers()), "vector": (V, V), "real and complex": (W, values((3, 2), dtype=complex))})
        if hasattr(np, "vecmat")),
]  # fmt: skip

NAMES = {c.name for c in CASES} | {"isscalar", "polyfit"}


BY_VALUE = {"polydiv", "roots", "poly", "polymul", "real_if_close"}  # whose shapes or dtypes depend on values


@grouped("case", CASES, "name", quick=4)
def test_as_numpy(case):
    if case.name not in BY_VALUE or case.order < 2:
        check(case)
        return
    check(case._replace(order=1))  # neither mapped nor staged
    xs = [np.asarray(x) for x in case.args]
    smooth = all(x.dtype.kind in "fc" and x.dtype.itemsize >= 8 for x in xs)
    if smooth and case.label not in {"matrix", "cube", "wide"}:  # which are no polynomials
        check_grads(getattr(fnp, case.name), xs, 2)


def test_isscalar():
    for x in (1, 2.5, "a", V, [1], np.float64(1.0)):
        assert fnp.isscalar(x) == np.isscalar(x)
    assert not fnp.isscalar(fg.tensor(1.0))


# ---- roots ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize(
    "zeros",
    [[np.nan], [np.nan, 1.0], [1.0, np.inf], [np.inf, -np.inf], [np.nan + 1j, 1.0], [1j, -1j, np.nan]],
    ids=str,
)
def test_coefficients_beside_a_root_that_is_none(zeros):
    z = np.array(zeros)
    expected = np.poly(z)
    found = fnp.poly(fg.tensor(z)).numpy()
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    if z.dtype.kind == "f":
        np.testing.assert_array_equal(fg.jit(fnp.poly)(z), expected)


def test_roots_are_implicit_functions():
    p = np.array([1.0, -6.0, 11.0, -6.0])  # 1, 2, 3
    order = np.argsort(np.roots(p))
    found = fg.jacrev(np.roots)(p)[order]
    slope = np.array([2.0, -1.0, 2.0])
    np.testing.assert_allclose(found, -np.vander([1.0, 2.0, 3.0], 4) / slope[:, None], rtol=1e-9)
    np.testing.assert_allclose(fg.jacfwd(np.roots)(p)[order], found, rtol=1e-9)
    check_grads(np.roots, (p,), 2)
    check_grads(lambda p: np.abs(np.roots(p)), (np.array([1.0, 2.0, 5.0, 3.0]),), 2)
    check_grads(np.roots, (Z,), 2)


def test_nothing_has_no_roots():
    assert fnp.roots(fg.tensor(E)).shape == np.roots(E).shape


def test_roots_of_symmetric_functions():
    p = np.array([2.0, -3.0, 1.5, 0.5])
    g = fg.grad(lambda p: np.sum(np.roots(p)).real)(p)  # -p1 / p0
    np.testing.assert_allclose(g, [p[1] / p[0] ** 2, -1 / p[0], 0, 0], atol=1e-12)
    g = fg.grad(lambda p: np.prod(np.roots(p)).real)(p)  # -p3 / p0
    np.testing.assert_allclose(g, [p[3] / p[0] ** 2, 0, 0, -1 / p[0]], atol=1e-12)


def test_a_leading_zero_has_a_derivative_too():
    # of e r^2 + r - 1 = 0: r = 1 - e + ...
    g = fg.grad(lambda p: np.sum(np.roots(p)))(np.array([0.0, 1.0, -1.0]))
    np.testing.assert_allclose(g, [-1, -1, -1])


def test_a_root_zero_has_a_derivative():
    g = fg.grad(lambda p: np.roots(p)[-1])(np.array([1.0, -3.0, 0.0]))
    np.testing.assert_allclose(g, [0, 0, 1 / 3], atol=1e-15)


@pytest.mark.parametrize(
    "p",
    [np.poly([1.0, 1.0]), np.poly([2.0, 2.0, 5.0]), np.poly([0.5] * 3), np.array([1.0, 0, 0]),
        np.poly([1 + 1j, 1 + 1j, 3]), np.poly([1.0, 1.0]).astype("f"), np.poly([1e-3, 1e-3]),
        np.poly([1e5, 1e5, 1.0]), np.poly([1j, 1j, -1j, -1j])],
)  # fmt: skip
def test_multiple_roots_have_no_derivative(p):
    with pytest.raises(np.linalg.LinAlgError, match="multiple root"):
        fg.grad(lambda p: np.sum(np.roots(p)).real)(p)
    with pytest.raises(np.linalg.LinAlgError, match="multiple root"):
        fg.jvp(np.roots, (p,), (np.ones_like(p),))


@pytest.mark.parametrize(
    "zeros",
    [[1, 1.01], [1, 1 + 1e-4], [1e-8, 2e-8], np.arange(1, 9), [1e6, 1, 1e-6], np.exp(2j * np.arange(20))],
)
def test_close_roots_still_have(zeros):
    p = np.poly(zeros)
    r, back = fg.vjp(np.roots, p)
    assert np.all(np.isfinite(back(np.ones_like(r))[0]))


def test_a_multiple_root_without_cotangent_is_no_obstacle():
    p = np.poly([2.0, 2.0, 5.0])
    g = fg.grad(lambda p: np.roots(p)[np.argmax(np.roots(p).real)].real)(p)
    np.testing.assert_allclose(g, -(5.0 ** np.arange(3, -1, -1)) / 9, rtol=1e-6)
    g = fg.grad(lambda p: np.roots(p)[0])(np.array([1.0, -1.0, 0.0, 0.0]))
    np.testing.assert_allclose(g, [-1, -1, -1, -1])


def test_roots_under_vmap():
    p = np.array([[1.0, -3.0, 2.0], [2.0, 1.0, -3.0]])
    y = fg.vmap(lambda p: np.roots(p))(p)
    np.testing.assert_allclose(y, [np.roots(q) for q in p])
    g = fg.vmap(fg.grad(lambda p: np.sum(np.roots(p) ** 2).real))(p)
    np.testing.assert_allclose(g, [fg.grad(lambda p: np.sum(np.roots(p) ** 2).real)(q) for q in p])
    with pytest.raises(np.linalg.LinAlgError):
        fg.vmap(fg.grad(lambda p: np.sum(np.roots(p) ** 2).real))(np.array([[1.0, -2.0, 1.0]] * 2))


def test_roots_and_coefficients_are_inverse():
    check_grads(lambda z: np.poly(np.roots(np.poly(z))), (W,), 1)
    j = fg.jacrev(lambda z: np.sort(np.roots(np.poly(z)).real))(np.array([1.0, 2.0, 4.0]))
    np.testing.assert_allclose(j, np.eye(3), atol=1e-9)


def test_dropped_leading_coefficients_count():
    a, b = np.array([0.0, 1.0]), np.array([1.0, 2.0])
    j = fg.jacrev(np.polymul)(a, b)
    np.testing.assert_allclose(j, [[2.0, 1.0], [0.0, 2.0]])
    check_grads(np.polymul, (P, Q), 2)


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("xp", [np, fnp], ids=["numpy", "fgrad.numpy"])
def test_fits(xp):
    x, w = np.array([-1.0, 0.0, 0.4, 1.5, 2.0, 3.0]), np.array([1.0, 2.0, 0.5, 1.0, 1.5, 0.7])
    y = np.array([0.3, -1.0, 0.8, 2.0, 1.0, -0.5])
    for ys in (y, np.stack([y, y[::-1]], 1)):
        for options in (
            {},
            {"w": w},
            {"cov": True},
            {"w": w, "cov": "unscaled"},
            {"full": True},
            {"rcond": 1e-3},
        ):
            found, expected = xp.polyfit(x, fg.tensor(ys), 2, **options), np.polyfit(x, ys, 2, **options)
            several = isinstance(expected, tuple)
            for a, b in zip(found if several else [found], expected if several else [expected], strict=True):
                np.testing.assert_allclose(np.asarray(a), b, rtol=1e-9, atol=1e-12)
        check_grads(lambda x, y, w: xp.polyfit(x, y, 2, w=w), (x, ys, w), 2)
        check_grads(lambda x, y: xp.polyfit(x, y, 1, cov=True)[1], (x, ys), 2)
    check_grads(lambda x, y: xp.polyfit(x, y, 2, full=True)[1], (x, y), 2)
    j = fg.jacrev(lambda y: xp.polyfit(x, y, 2))(y)
    np.testing.assert_allclose(j, np.linalg.pinv(np.vander(x, 3)), atol=1e-10)
    mapped = fg.vmap(lambda y: xp.polyfit(x, y, 2))(np.stack([y, 2 * y]))
    np.testing.assert_allclose(mapped, np.stack([np.polyfit(x, y, 2), np.polyfit(x, 2 * y, 2)]))


def test_fits_that_cannot_be():
    x, y = fg.tensor(np.arange(4.0)), np.arange(4.0)
    for args, options, error in (
        ((x, y, -1), {}, ValueError),
        ((x, y[:3], 1), {}, TypeError),
        ((fg.tensor(np.ones((2, 2))), y[:2], 1), {}, TypeError),
        ((x[:0], y[:0], 1), {}, TypeError),
        ((x, np.ones((4, 1, 1)), 1), {}, TypeError),
        ((x, y, 1), {"w": np.ones(3)}, TypeError),
        ((x, y, 1), {"w": np.ones((4, 1))}, TypeError),
        ((x, y, 3), {"cov": True}, ValueError),
    ):
        plain = [a.numpy() if isinstance(a, fg.Tensor) else a for a in args]
        for f, arguments in ((np.polyfit, plain), (np.polyfit, args), (fnp.polyfit, args)):
            with pytest.raises(error):
                f(*arguments, **options)
    with pytest.warns(np.exceptions.RankWarning):
        np.polyfit(fg.tensor(np.ones(3)), y[:3], 1)


def test_characteristic_polynomials():
    a = np.array([[2.0, 1.0, 0.5], [0.3, -1.0, 0.2], [0.1, 0.4, 1.0]])
    np.testing.assert_allclose(np.poly(fg.tensor(a)).numpy(), np.poly(a), atol=1e-12)
    check_grads(np.poly, (a,), 2)
    np.testing.assert_allclose(fg.jacrev(np.poly)(a)[1], -np.eye(3), atol=1e-12)  # minus the trace


def test_polynomials_as_arguments():
    p = np.poly1d([1.0, 2.0])
    with pytest.raises(TypeError, match="polymul"):
        np.polyval(fg.tensor(P), p)
    for f in (np.polyadd, np.polymul):
        np.testing.assert_allclose(f(p, fg.tensor(P)).numpy(), f(p.coeffs, P))
    np.testing.assert_allclose(np.polyval(p, fg.tensor(V)).numpy(), p(V))


def test_values_that_shapes_depend_on_are_refused_under_vmap():
    for f in (lambda p: np.polymul(p, p), lambda p: np.polydiv(p, p[:2])[1], np.real_if_close,
        lambda p: np.poly(p * 1j)):  # fmt: skip
        with pytest.raises(Exception, match="depends"):
            fg.vmap(f)(values((2, 3), dtype=complex))


def test_numpys_polynomial_package():
    """What goes through operators differentiates, all else refuses a Tensor that is being differentiated."""
    from numpy.polynomial import Polynomial, chebyshev, polynomial

    c = np.array([1.0, 2.0, 3.0])
    check_grads(lambda x: polynomial.polyval(x, c), (V,), 2)
    check_grads(lambda x: chebyshev.chebval(x, c), (V,), 2)
    np.testing.assert_allclose(polynomial.polyval(fg.tensor(V), c).numpy(), polynomial.polyval(V, c))
    for f in (
        lambda c: polynomial.polyval(2.0, c), lambda c: polynomial.polymul(c, c), polynomial.polyroots,
        lambda c: polynomial.polyfit(V[:3], c, 1), lambda c: Polynomial(c)(2.0), polynomial.polyder,
        lambda c: chebyshev.chebval(c, c), lambda x: polynomial.polyvander(x, 2),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="lose its gradient"):
            fg.grad(lambda c: np.sum(f(c)))(c)


# ---- sums and differences ------------------------------------------------------------------------


def test_derivatives_in_distances():
    check_grads(lambda h: np.gradient(M, h, edge_order=2), (np.array(0.7),), 2)
    check_grads(lambda x: np.gradient(V, x), (np.arange(5.0),), 2)
    check_grads(lambda h: np.trapezoid(V, dx=h), (np.array(0.7),), 2)
    check_grads(lambda y, x: np.trapezoid(y, x), (V, STEPS), 2)


def test_gradient_of_a_parabola_is_exact():
    y = np.gradient(fg.tensor(3 * STEPS**2 - STEPS), STEPS, edge_order=2)
    np.testing.assert_allclose(y.numpy(), 6 * STEPS - 1)


def test_unwrapped_phases():
    p = np.linspace(0, 30, 25)
    np.testing.assert_allclose(fnp.unwrap(fg.tensor(p % (2 * np.pi))).numpy(), p, atol=1e-12)
    np.testing.assert_array_equal(fg.jacrev(np.unwrap)(p % (2 * np.pi)), np.eye(25))
    j = fg.jacrev(lambda period: fnp.unwrap(np.array([0.0, 0.9, 0.1, 0.5]), period=period))(1.0)
    np.testing.assert_allclose(j, [0, -1, 0, 0])


@given(st.integers(1, 7), st.integers(1, 7), st.sampled_from(MODES), st.sampled_from([float, complex]))
@settings(max_examples=25)
def test_random_convolutions(n, m, mode, dtype):
    x, y = values((n,), dtype=dtype), values((m,), dtype=dtype, seed=1)
    check(Case("convolve", "random", (x, y, mode), (), 1))
    check(Case("correlate", "random", (x, y, mode), (), 1))


def test_long_convolutions_take_little_memory():
    x, y = values((200_000,)), values((2_000,))
    (g,) = fg.vjp(lambda x: np.convolve(x, y, "valid"), x)[1](np.ones(198_001))
    np.testing.assert_allclose(g[5_000], y.sum())
    np.testing.assert_allclose(g[0], y[-1])


# ---- series --------------------------------------------------------------------------------------


def derivatives(f: Any, x: float, order: int) -> list[float]:
    """Return the derivatives of f at x by forward over reverse."""
    found, g = [], f
    for _ in range(order):
        g = fg.grad(g)
        found.append(float(g(x)))
    return found


def oracle(f: Any, x: float, order: int) -> list[float]:
    with mpmath.workdps(60):
        return [float(mpmath.diff(f, mpmath.mpf(x), k, h=mpmath.mpf(10) ** -12)) for k in range(1, order + 1)]


@pytest.mark.parametrize("x", [1e-12, 1e-5, 1e-3, 0.1, 0.3, 0.64, 0.95, 1.5, 2.3, 7.7, -0.2, 40.2])
def test_sinc_to_rounding(x):
    expected = oracle(lambda t: mpmath.sinc(mpmath.pi * t), x, 3)
    found = derivatives(np.sinc, x, 3)
    np.testing.assert_allclose(found[:1], expected[:1], rtol=1e-13)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-11)


def test_sinc_at_zero():
    np.testing.assert_allclose(fg.grad(np.sinc)(1e-300), -1e-300 * np.pi**2 / 3, rtol=1e-14)
    for dtype in ("f", "d", "D"):
        x = np.zeros(2, dtype)
        g = fg.grad(lambda x: np.sum(np.sinc(x)).real)(x)
        np.testing.assert_array_equal(g, 0)
        assert g.dtype == dtype
    np.testing.assert_allclose(
        derivatives(np.sinc, 0.0, 4), [0, -(np.pi**2) / 3, 0, np.pi**4 / 5], rtol=1e-14
    )


@pytest.mark.parametrize("x", [0.0, 1e-9, 0.3, 2.0, 7.9, 8.1, 15.0, 29.9, 30.1, 55.0, 600.0, -3.0])
def test_i0_to_rounding(x):
    expected = oracle(lambda t: mpmath.besseli(0, t), x, 3) if x else [0.0, 0.5, 0.0]
    np.testing.assert_allclose(derivatives(np.i0, x, 3), expected, rtol=3e-13, atol=1e-300)


def test_infinities_of_complex_numbers_are_ambiguous():
    for f in (np.isposinf, np.isneginf):
        with pytest.raises(TypeError, match="ambiguous"):
            f(fg.tensor(Z))
        out = fg.tensor(np.zeros(5, bool))
        assert f(fg.tensor(V), out) is out


def test_real_parts_carry_gradients():
    g = fg.grad(lambda z: np.sum(np.real_if_close(z) ** 2).real)(np.array([1.0 + 0j, 2.0]))
    np.testing.assert_array_equal(g, [2, 4])
    assert np.real_if_close(fg.tensor([1 + 1e-15j])).dtype == float
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.real_if_close(fg.tensor([1 + 1j]))
