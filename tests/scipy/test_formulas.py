"""Formulas of special functions, which compiled loops compute, against mpmath and SciPy."""

from __future__ import annotations

import functools

import mpmath as mp
import numpy as np
import pytest
import scipy.special as theirs
from tests.scipy.special_cases import CASES, is_constant

import fgrad as fg
from fgrad.compiler.elementwise import Elementwise
from fgrad.core.dispatch import bind
from fgrad.core.primitive import MEDIUM, PRIMITIVES
from fgrad.scipy.special.formulas import CANCELLING, FORMULAS

rng = np.random.default_rng(0)
EVERYWHERE = np.concatenate(
    [rng.uniform(-20, 20, 60), rng.normal(size=60), *(s * 10 ** rng.uniform(-12, 2, 25) for s in (-1, 1))]
)
CLOSE, WIDE = 10 ** rng.uniform(-12, -1, 20), 10 ** rng.uniform(-12, 12, 40)
ABOVE = np.concatenate([rng.uniform(0, 20, 60), rng.uniform(0, 3, 60), WIDE, np.arange(1.0, 12)])
ABOVE = np.concatenate([ABOVE, 1 + CLOSE, 1 - CLOSE])
UNIT = np.concatenate([rng.uniform(size=100), CLOSE, 1 - CLOSE])
BELOW = -np.concatenate([rng.uniform(0, 20, 60), 10 ** rng.uniform(-12, 0, 30)])
# name -> where it is computed, one array an operand
DOMAINS = {
    **dict.fromkeys(("gammaln", "psi", "trigamma"), (np.concatenate([ABOVE, BELOW]),)),
    **dict.fromkeys(
        ("erfcx", "exprel", "i0", "i0e", "i1", "i1e", "log_expit", "log_ndtr", "ndtr"), (EVERYWHERE,)
    ),
    **dict.fromkeys(("i0e_signed", "i1e_signed"), (EVERYWHERE,)),
    **dict.fromkeys(("logit", "ndtri"), (UNIT,)),
    **dict.fromkeys(("exp1", "k0", "k0e", "k1", "k1e"), (ABOVE,)),
    **dict.fromkeys(("kl_div", "rel_entr"), (np.roll(ABOVE, 7), ABOVE)),
    "betaln": (np.roll(ABOVE, 7), ABOVE),
    "erfcinv": (2 * UNIT,),
    "erfinv": (np.concatenate([UNIT, -UNIT]),),
    "entr": (ABOVE,),
    "erfcx": (EVERYWHERE[EVERYWHERE > -9],),
    **dict.fromkeys(("cosdg", "sindg"), (40 * EVERYWHERE,)),
    **dict.fromkeys(("huber", "pseudo_huber"), (np.resize(ABOVE, EVERYWHERE.size), EVERYWHERE)),
    "xlogy": (np.resize(EVERYWHERE, ABOVE.size), ABOVE),
    "xlog1py": (np.resize(EVERYWHERE, ABOVE.size), ABOVE),
}
MODERATE = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, np.inf, np.nan])
SPECIAL = np.append(MODERATE, [-np.inf, 1e300, 1e-300])
ULPS = 6.0
ROUGH = {  # what cancels: SciPy loses as much
    "betaln": lambda a, b: sum(np.abs(theirs.gammaln(x)) for x in (a, b, a + b)),
    "kl_div": lambda x, y: x + y,
    "rel_entr": lambda x, y: x,
}
EXCEPT = {  # where SciPy's value is not the limit, or not that of the exact function
    "trigamma": [-np.inf],
}


def compiled(name):
    return fg.jit(lambda *xs: bind(name, *xs))


def test_every_formula_is_tested():
    assert set(DOMAINS) == set(FORMULAS)


@pytest.mark.parametrize("name", FORMULAS)
def test_compiled_values_are_those_of_mpmath(name):
    """To a few units in the last place, and what the rounding of one number on the way may cost."""
    points = DOMAINS[name]
    f = compiled(name)
    assert f.lower(*points).cost().kernels == 1
    found = f(*points)
    slopes = [
        np.asarray(fg.grad(lambda *xs: np.sum(bind(name, *xs)), argnums=i)(*points))
        for i in range(len(points))
    ]
    sizes = [np.abs(slope * x) for slope, x in zip(slopes, points, strict=True)]
    lost = ROUGH.get(name, lambda *xs: 0 * xs[0])(*points)
    with mp.workdps(60):
        for i, value in enumerate(found):
            exact = CASES[name].definition(*(mp.mpf(float(x[i])) for x in points))
            exact = mp.re(exact)
            rounded = np.nan_to_num(sum(s[i] for s in sizes)) + lost[i]
            allowed = ULPS * np.spacing(abs(float(exact))) + 2e-15 * rounded
            assert abs(mp.mpf(float(value)) - exact) <= allowed, [x[i] for x in points]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FORMULAS)
def test_special_values_are_those_of_scipy(name, dtype):
    count = len(DOMAINS[name])
    points = [x.ravel() for x in np.meshgrid(*[SPECIAL if count == 1 else MODERATE] * count)]
    keep = ~np.isin(points[0], EXCEPT.get(name, []))
    points = [x[keep] for x in points]
    with np.errstate(all="ignore"):
        points = [x.astype(dtype) for x in points]
        expected = bind(name, *points)
    found = compiled(name)(*points)
    assert found.dtype == expected.dtype
    rtol = 1e-13 if dtype is np.float64 else 2e-5
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=0)


@pytest.mark.parametrize("name", FORMULAS)
def test_large_arrays_take_the_formula_and_small_ones_scipy(name, monkeypatch):
    calls, kernel = [], Elementwise.__call__
    monkeypatch.setattr(Elementwise, "__call__", lambda *args: (calls.append(name), kernel(*args))[1])
    points = [np.resize(x, MEDIUM) for x in DOMAINS[name]]
    run = PRIMITIVES[name].run
    exact = 1e-6 if name == "betaln" else 1e-12  # of beta functions SciPy loses as many digits
    for dtype, rtol in ((np.float64, exact), (np.float32, 2e-4)):
        given = [x.astype(dtype) for x in points]
        found = bind(name, *map(fg.tensor, given))
        expected = run(*(x.astype(np.float64) for x in given))
        assert found.dtype == dtype
        np.testing.assert_allclose(
            np.asarray(found), expected, rtol=rtol, atol=1e-11 if dtype is np.float64 else 2e-3
        )
        few = [x[:7] for x in given]
        np.testing.assert_array_equal(np.asarray(bind(name, *map(fg.tensor, few))), run(*few))
        assert calls == [name] * (dtype is np.float64 or name not in CANCELLING)
        calls.clear()


@pytest.mark.parametrize("name", FORMULAS)
def test_values_in_single_precision(name):
    """Those of double precision, and what the rounding of one number on the way may cost."""
    points = [np.resize(x, MEDIUM).astype("f") for x in DOMAINS[name]]
    wide = [x.astype("d") for x in points]
    with np.errstate(all="ignore"):  # at the ends of domains, which some numbers are rounded to
        exact = np.asarray(bind(name, *wide))
        slopes = fg.grad(lambda *xs: np.sum(bind(name, *xs)), argnums=tuple(range(len(wide))))(*wide)
        lost = sum(np.abs(np.nan_to_num(slope) * x) for slope, x in zip(slopes, wide, strict=True))
    if name in CANCELLING:
        lost *= 0
    for found in (np.asarray(bind(name, *map(fg.tensor, points))), compiled(name)(*points)):
        assert found.dtype == np.float32
        rest = np.isfinite(found) & np.isfinite(exact)
        room = 6 * np.spacing(np.abs(exact[rest]).astype("f")) + 3e-7 * lost[rest]
        assert np.all(np.abs(found[rest] - exact[rest]) <= room)


@pytest.mark.parametrize("name", ["cosdg", "sindg"])
def test_zeros_of_sines_of_degrees_have_scipys_signs(name):
    points = 90.0 * np.arange(-9, 10)
    np.testing.assert_array_equal(
        np.signbit(compiled(name)(points)), np.signbit(getattr(theirs, name)(points))
    )


@pytest.mark.parametrize("name", ["gammaln", "psi", "i0", "k0", "ndtr", "log_ndtr", "ndtri"])
def test_slopes_of_large_arrays_and_plain_ones_take_formulas_too(name, monkeypatch):
    x = np.resize(DOMAINS[name][0], MEDIUM)
    calls, kernel = [], Elementwise.__call__
    monkeypatch.setattr(Elementwise, "__call__", lambda *args: (calls.append(args[0]), kernel(*args))[1])
    fg.grad(lambda v: np.sum(getattr(theirs, name)(v)))(x)
    assert len(calls) == 2  # one forward, one back
    plain = getattr(fg.scipy.special, name)(x)
    assert type(plain) is np.ndarray
    np.testing.assert_array_equal(plain, np.asarray(getattr(theirs, name)(fg.tensor(x))))
    np.testing.assert_array_equal(getattr(fg.scipy.special, name)(x[:9]), getattr(theirs, name)(x[:9]))


ROUGH_SLOPES = {"kl_div": 1e-12, "log_ndtr": 1e-12, "pseudo_huber": 1e-12, "psi": 1e-12, "gammaln": 1e-12}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.points])
def test_large_reverse_steps_are_the_small_ones(name, dtype, monkeypatch):
    calls, kernel = [], Elementwise.__call__
    monkeypatch.setattr(Elementwise, "__call__", lambda *args: (calls.append(args[0]), kernel(*args))[1])
    first = CASES[name].points[0]
    points = DOMAINS.get(name) or [np.array(x) * [1, 1.01] for x in first]
    points = [np.resize(x, MEDIUM).astype(dtype) for x in points]
    row = PRIMITIVES[name]
    vjp = row.vjp(tuple(not is_constant(name, i, first) for i in range(len(points))))
    if vjp is None or any(isinstance(x, int) for x in first):
        return
    with np.errstate(all="ignore"):
        out = row.run(*points)
        saved = [(out, *points)[k] for k in vjp.keep]
        ct = rng.normal(size=MEDIUM).astype(dtype)
        ct[::7] = 0
        found = vjp.raw(ct, *saved)
        if len(calls) != 1 or out.dtype != dtype:  # by the functions of a library, or by several loops
            return
        parts = [slice(i, i + 512) for i in range(0, MEDIUM, 512)]
        expected = [vjp.raw(ct[part], *(x[part] for x in saved)) for part in parts]
    assert len(calls) == 1
    rtol = ROUGH_SLOPES.get(name, 1e-13) if dtype is np.float64 else 1e-5
    for a, pieces in zip(found, zip(*expected, strict=True), strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a, np.concatenate(pieces), rtol=rtol, atol=rtol)


def test_scipy_speaks_of_errors_where_it_is_asked_to():
    zeros = fg.tensor(np.zeros(MEDIUM))
    with theirs.errstate(all="raise"), pytest.raises(theirs.SpecialFunctionError):
        theirs.psi(zeros)
    assert np.all(np.isinf(np.asarray(theirs.psi(zeros))))


@pytest.mark.parametrize(
    "name", ["gammaln", "psi", "ndtr", "log_ndtr", "ndtri", "erfinv", "i0", "logit", "entr"]
)
def test_gradients_need_no_python(name):
    points = DOMAINS[name]
    g = fg.jit(fg.grad(lambda *xs: np.sum(bind(name, *xs))))
    assert "# Python; " not in g.lower(*points).source
    np.testing.assert_allclose(
        g(*points), fg.grad(lambda *xs: np.sum(bind(name, *xs)))(*points), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("name", ["j1", "y1", "i1", "i1e", "i1e_signed"])
def test_slopes_of_first_order_call_no_function_of_any_order(name):
    """Those of SciPy that take the order cost a hundred times as much."""
    x = np.linspace(0.5, 9, MEDIUM)
    program = fg.jit(fg.grad(lambda v: np.sum(bind(name, v)))).lower(x).program
    called = {equation.name for equation in program.equations}
    assert not called & {"jv", "yn", "iv", "ive", "ive_signed"}


@pytest.mark.parametrize(("name", "order"), [("j1", mp.besselj), ("i1", mp.besseli)])
def test_derivatives_of_first_order_about_the_end_of_the_series(name, order):
    derivative = functools.partial(bind, name)
    points = [1e-300, 1e-9, 0.3, 0.99, 1.0, 1.01, 3.0, 9.0, -0.5, -2.0]
    for k in range(1, 4):
        derivative = fg.grad(derivative)
        for x in points:
            with mp.workdps(60):
                exact = float(mp.taylor(lambda t: order(1, t), mp.mpf(x), k)[k] * mp.factorial(k))
            np.testing.assert_allclose(float(derivative(x)), exact, rtol=1e-13, atol=1e-15)
