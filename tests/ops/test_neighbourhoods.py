"""Derivatives of universal functions are what they tend to, wherever a formula changes, and mpmath's."""

from __future__ import annotations

import functools

import mpmath as mp
import numpy as np
import pytest
from tests.ops.neighbourhoods import COSTLY, NUMPY_CASES, compare, derivative, points, rows, tracked
from tests.scipy.special_cases import CASES

import fgrad as fg
from fgrad.expr.atoms import ATOMS
from fgrad.scipy.special.primitives import TABLE

pytestmark = pytest.mark.filterwarnings("ignore")  # SciPy's, of orders that are no integers


def some(ps, most):
    """Return at most so many of the points, evenly."""
    return ps[:: -(-len(ps) // most)]


@functools.cache
def compared(primitive):
    ps = points(primitive)
    order, most = (2, 30) if primitive in COSTLY else (3, 160 if len(tracked(primitive)) < 3 else 60)
    return list(compare(primitive, order, some(ps, most)))


@pytest.mark.parametrize("primitive", rows())
def test_derivatives_are_what_they_tend_to(primitive):
    comparisons = compared(primitive)
    assert [line for c in comparisons for line in c.wrong] == []
    assert sum(np.sum(c.judged) for c in comparisons) > 0


HOLOMORPHIC = [
    *(primitive for primitive in NUMPY_CASES if ATOMS[primitive].holomorphic),
    *(primitive for primitive in TABLE if TABLE[primitive].complex and CASES[primitive].points),
]


@pytest.mark.parametrize("primitive", HOLOMORPHIC)
def test_derivatives_in_the_plane_are_what_they_tend_to(primitive):
    ps = some(points(primitive), 60)
    comparisons = [*compare(primitive, 2, ps + 0j, holomorphic=True)]
    lifted = ps + 0.5j * np.isin(np.arange(ps.shape[1]), tracked(primitive))
    comparisons += compare(primitive, 2, lifted, holomorphic=True)
    assert [line for c in comparisons for line in c.wrong] == []
    assert sum(np.sum(c.judged) for c in comparisons) > 0


EXACT = {
    **{name: getattr(mp, name) for name in ("sqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tan")},
    **{name: getattr(mp, name) for name in ("sinh", "cosh", "tanh", "erf", "erfc", "hypot")},
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "log2": lambda x: mp.log(x, 2),
    "log10": mp.log10,
    "exp2": lambda x: mp.mpf(2) ** x,
    "arcsin": mp.asin,
    "arccos": mp.acos,
    "arctan": mp.atan,
    "arcsinh": mp.asinh,
    "arccosh": mp.acosh,
    "arctanh": mp.atanh,
    "arctan2": mp.atan2,
    "reciprocal": lambda x: 1 / x,
    "divide": lambda x, y: x / y,
    "power": lambda x, y: x**y,
    "float_power": lambda x, y: x**y,
    "logaddexp": lambda x, y: mp.log(mp.exp(x) + mp.exp(y)),
    "logaddexp2": lambda x, y: mp.log(mp.mpf(2) ** x + mp.mpf(2) ** y, 2),
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "softplus": lambda x: mp.log1p(mp.exp(x)),
    **{
        primitive: case.definition
        for primitive, case in CASES.items()
        if case.points and primitive not in COSTLY
    },
}
# definitions with kinks, of one side only, or by numbers that do not exist
LOOSE = {
    *("huber", "pseudo_huber", "inv_boxcox", "inv_boxcox1p", "tklmbda", "voigt_profile", "ive", "ive_signed"),
    *("i0e_signed", "i1e_signed"),
    *("i0e", "i1e", "spherical_jn", "spherical_yn", "spherical_in", "spherical_kn", "it2i0k0_k", "gammasgn"),
    *("round", "rel_entr", "kl_div", "entr"),
}
SLOW = {  # by quadrature, series or searches
    *(
        "gammainc",
        "gammaincc",
        "gammaincinv",
        "gammainccinv",
        "owens_t",
        "yv",
        "yve",
        "yn",
        "kv",
        "kve",
        "kn",
    ),
    *("k0", "k1", "k0e", "k1e", "y0", "y1", "itairy_apt", "itairy_bpt", "itairy_ant", "itairy_bnt", "ker"),
    *("kei", "kerp", "keip", "berp", "beip", "itj0y0_j", "itj0y0_y", "iti0k0_i", "iti0k0_k", "it2j0y0_j"),
    *("it2j0y0_y", "it2i0k0_i", "wright_bessel", "log_wright_bessel", "lpmv", "hyp1f1", "hyp2f1", "hyperu"),
    *("pbdv_d", "pbdv_dp", "pbvv_v", "pbvv_vp", "pbwa_w", "pbwa_wp", "chdtr", "chdtrc", "gdtr", "gdtrc"),
    *("pdtr", "pdtrc", "bdtr", "bdtrc", "nbdtr", "nbdtrc", "fdtr", "fdtrc", "chndtr", "stdtr", "kolmogorov"),
    *(
        primitive
        for primitive in CASES
        if primitive.startswith("eval_") or TABLE[primitive].source.startswith("inverse")
    ),
}


@pytest.mark.parametrize("primitive", sorted(EXACT.keys() - LOOSE - SLOW))
def test_derivatives_are_those_of_mpmath(primitive):
    ps, wrt = points(primitive), tracked(primitive)
    checked = 0
    with mp.workdps(40):
        for c in compare(primitive, 3, np.concatenate([ps[:10], some(ps[10:], 8)])):
            for p, found, inside in zip(c.points.tolist(), c.found, c.judged & c.inside, strict=True):
                if not inside or max(map(abs, p)) > 1e3:
                    continue
                exact = [
                    mp.mpf(x) if i in wrt else int(x) if x == int(x) else mp.mpf(x) for i, x in enumerate(p)
                ]
                counts = [c.by.count(i) for i in range(len(p))]
                one = len(p) == 1
                expected = mp.diff(
                    EXACT[primitive], exact[0] if one else tuple(exact), counts[0] if one else tuple(counts)
                )
                np.testing.assert_allclose(
                    found, float(mp.re(expected)), 1e-7, 1e-10, err_msg=f"{p} by {c.by}"
                )
                checked += 1
    assert checked


@pytest.mark.parametrize(
    "primitive", ["logaddexp", "logaddexp2", "power", "hypot", "arctan2", "betaln", "i0e"]
)
@pytest.mark.parametrize("through", [fg.jit, fg.vmap])
def test_compiled_and_mapped_derivatives_are_those_of_eager_code(primitive, through):
    xs = list(some(points(primitive), 60).T)
    for by in ((0,), (0, 0), (0, len(xs) - 1)):
        f = derivative(primitive, by)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(through(f)(*xs), f(*xs), 1e-9, 1e-12)


def test_newton_finds_the_minimum_of_a_logistic_regression_from_zero():
    loss = lambda w: np.sum(np.logaddexp(0.0, -w * np.array([1.0, 2.0, -0.5])))
    w = 0.0
    for _ in range(8):
        w = w - fg.grad(loss)(w) / fg.grad(fg.grad(loss))(w)
    np.testing.assert_allclose(fg.grad(loss)(w), 0, atol=1e-12)
    np.testing.assert_allclose(
        fg.hessian(lambda v: np.logaddexp(v[0], v[1]))(np.zeros(2)), [[0.25, -0.25], [-0.25, 0.25]]
    )


@pytest.mark.parametrize("f", [np.power, np.float_power])
def test_mixed_derivatives_of_powers_at_exponents_zero_and_one(f):
    by_both = fg.grad(lambda y, x: fg.grad(lambda x: f(x, y))(x))
    np.testing.assert_allclose([by_both(0.0, 2.0), by_both(1.0, 2.0)], [0.5, 1 + np.log(2)])
    np.testing.assert_allclose(fg.grad(by_both, 1)(1.0, 2.0), 0.5)
    x, y = np.array([2.0, 3.0, 0.0]), np.array([0.0, 1.0, 0.0])
    np.testing.assert_array_equal(fg.grad(lambda x: np.sum(f(x, y)))(x), [0, 1, 0])


def test_what_vanishes_and_overflows_in_squares():
    slope = fg.grad(lambda y, x: np.arctan2(y, x), (0, 1))
    np.testing.assert_allclose(slope(1e-170, 1e-170), [5e169, -5e169])
    np.testing.assert_allclose(slope(1e200, 1e200), [5e-201, -5e-201])
    for f in (np.hypot, np.arctan2):
        np.testing.assert_array_equal(fg.hessian(lambda v, f=f: f(v[0], v[1]))(np.zeros(2)), np.zeros((2, 2)))
