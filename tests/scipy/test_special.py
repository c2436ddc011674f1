"""fgrad.scipy.special: values and slopes against mpmath, edges, and how names are reached."""

from __future__ import annotations

import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest
import scipy.special as theirs
from tests.scipy.special_cases import CASES, is_constant

import fgrad as fg
from fgrad.core.dispatch import bind
from fgrad.core.primitive import NUMPY
from fgrad.scipy import special
from fgrad.scipy.special.primitives import TABLE
from fgrad.testing import check_grads

DECLARED = {*TABLE}
FIRST_ORDER = {"gamma", "loggamma"}  # off the real axis: SciPy has no complex trigamma function


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(25):
        yield


def close(actual, expected, rtol, atol=1e-14):
    actual, expected = complex(actual), complex(expected)
    assert abs(actual - expected) <= max(rtol * abs(expected), atol), f"{actual}, mpmath: {expected}"


def points(primitive):
    case = CASES[primitive]
    return [*case.points, *([case.complex] if case.complex else [])]


def test_every_primitive_has_a_case():
    assert set(CASES) == DECLARED


@pytest.mark.parametrize("primitive", CASES)
def test_values_and_slopes(primitive):
    case = CASES[primitive]
    for point in points(primitive):
        off_axis = point is case.complex
        exact = [mp.mpmathify(x) for x in point]
        numbers = [x if isinstance(x, int) else np.asarray(x)[()] for x in point]
        close(bind(primitive, *numbers), case.definition(*exact), max(case.rtol, case.value))
        for i in range(len(point)):
            if is_constant(primitive, i, point) or (off_axis and not isinstance(point[i], complex)):
                continue
            defined = lambda x: case.definition(*exact[:i], x, *exact[i + 1 :])
            slope = fg.grad(
                lambda x: bind(primitive, *numbers[:i], x, *numbers[i + 1 :]), holomorphic=off_axis
            )
            close(slope(numbers[i]), mp.diff(defined, exact[i]), case.rtol)
            if (
                case.order > 1
                and point is points(primitive)[0]
                and not (off_axis and primitive in FIRST_ORDER)
            ):
                curvature = fg.grad(slope, holomorphic=off_axis)(numbers[i])
                close(curvature, mp.diff(defined, exact[i], 2), 10 * case.rtol, 1e-13)


SINGLE = {  # where a slope cancels, overflows on the way or hangs on the last bit of the value
    "gammaincinv": [(1e6, 0.4)],
    "gammainccinv": [(1e8, 0.4)],
    "betaincinv": [(1e6, 1.5, 0.4), (12.0, 0.3, 0.9)],
    "betaln": [(0.3, -3.3), (1e38, 1.5)],
    "poch": [(0.3, -20.3)],
    "binom": [(-60.2, 2)],
    "voigt_profile": [(0.0, 0.1, 2.0)],
    "erfcx": [(45.0,), (400.0,)],
    "dawsn": [(400.0,)],
}


@pytest.mark.filterwarnings("ignore:non-integer arg")  # SciPy's loops of float32 take all operands so
@pytest.mark.parametrize("primitive", CASES)
def test_slopes_of_single_precision_are_those_of_double(primitive):
    for point in [*points(primitive), *SINGLE.get(primitive, [])]:
        off_axis = point is CASES[primitive].complex
        narrow = [
            x if isinstance(x, int) else np.complex64(x) if isinstance(x, complex) else np.float32(x)
            for x in point
        ]
        dtype = np.asarray(bind(primitive, *narrow)).dtype
        if dtype not in ("f4", "c8"):
            continue
        wide = [x if isinstance(x, int) else x + np.float64(0) for x in narrow]
        for i in range(len(point)):
            if is_constant(primitive, i, point) or (off_axis and not isinstance(point[i], complex)):
                continue
            found, expected = (
                fg.grad(
                    lambda x, given=given: bind(primitive, *given[:i], x, *given[i + 1 :]),
                    holomorphic=off_axis,
                )(given[i])
                for given in (narrow, wide)
            )
            assert found.dtype == dtype
            np.testing.assert_allclose(found, expected.astype(dtype), rtol=1e-6)  # a few roundings


@pytest.mark.parametrize("x", [51.0, 700.0, 1e15, 1e300])
def test_slopes_of_exprel_come_to_an_end(x):
    slope = lambda x: (mp.exp(x) * (x - 1) + 1) / x**2 if x < 1e3 else mp.inf
    np.testing.assert_allclose(fg.grad(special.exprel)(x), float(slope(mp.mpf(x))), rtol=1e-14)


@pytest.mark.parametrize(
    ("name", "point"),
    [
        *(("elliprg", (size, 2 * size, 3 * size)) for size in (1e-300, 1e300)),
        *(("agm", point) for point in ((1e160, 3e160), (1e-200, 2e-200), (1e150, 2.0), (-1.0, -2.0))),
        *(("inv_boxcox", point) for point in ((2.0, 1e100), (1e200, 2.0))),
        *(("struve", point) for point in ((0, 1e3), (2, 1e8), (3, 25.0), (3, 19.0))),
        ("modstruve", (2, 600.0)),
    ],
)
def test_slopes_of_large_and_small_numbers(name, point):
    definition = {
        "elliprg": mp.elliprg,
        "struve": mp.struveh,
        "modstruve": mp.struvel,
        "agm": lambda a, b: mp.sign(a) * mp.agm(abs(a), abs(b)),
        "inv_boxcox": lambda y, power: (1 + power * y) ** (1 / power),
    }[name]
    with mp.workdps(400):
        exact = [mp.mpf(x) for x in point]
        for i in range(len(point)):
            if is_constant(name, i, point):
                continue
            step = exact[i] * mp.mpf(10) ** -60
            at = lambda k, i=i, step=step: definition(*exact[:i], exact[i] + k * step, *exact[i + 1 :])
            slope = lambda x, i=i: bind(name, *point[:i], x, *point[i + 1 :])
            close(fg.grad(slope)(point[i]), (at(1) - at(-1)) / (2 * step), 1e-12, 0.0)
            if name != "elliprg" and point != (1e150, 2.0):  # whose elliptic integrals overflow
                curvature = (at(1) - 2 * at(0) + at(-1)) / step**2
                close(fg.grad(fg.grad(slope))(point[i]), curvature, 1e-11, 1e-307)


def test_complex_functions_end_where_scipy_does():
    with pytest.raises(
        TypeError,
        match="psi has no complex derivative: it is not holomorphic, or its derivative is implemented",
    ):
        fg.grad(fg.grad(theirs.gamma, holomorphic=True), holomorphic=True)(1.5 + 0.5j)


LOGARITHMS = {  # a function, with its derivatives over it, or its own, as differences of digamma functions
    "betaln": lambda a, b: (mp.psi(0, a) - mp.psi(0, a + b), mp.psi(0, b) - mp.psi(0, a + b)),
    "beta": lambda a, b: (mp.psi(0, a) - mp.psi(0, a + b), mp.psi(0, b) - mp.psi(0, a + b)),
    "poch": lambda z, m: (mp.psi(0, z + m) - mp.psi(0, z), mp.psi(0, z + m)),
    "binom": lambda n, k: (
        mp.psi(0, n + 1) - mp.psi(0, n - k + 1),
        mp.psi(0, n - k + 1) - mp.psi(0, k + 1),
    ),
}


@pytest.mark.parametrize("name", LOGARITHMS)
def test_differences_of_digamma_functions_keep_their_digits(name):
    """Where one parameter is large beside the other, the digamma functions agree in all of theirs."""
    f = getattr(theirs, name)
    sizes = 10.0 ** np.random.default_rng(3).uniform(-12, 15, (80, 2))
    with np.errstate(all="ignore"), mp.workdps(60):
        for a, b in sizes if name != "binom" else np.sort(sizes)[:, ::-1]:
            value = f(a, b)
            if name != "betaln" and not 1e-250 < value < 1e250:
                continue
            exact = LOGARITHMS[name](mp.mpf(a), mp.mpf(b))
            for i in range(2):
                found = fg.grad(f, argnums=i)(a, b) / (1.0 if name == "betaln" else value)
                close(found, exact[i], 1e-12, 0.0)
            if name == "betaln":
                twice = fg.grad(fg.grad(f))(a, b)
                close(twice, mp.psi(1, mp.mpf(a)) - mp.psi(1, mp.mpf(a) + mp.mpf(b)), 1e-14, 0.0)


@pytest.mark.parametrize("df", [0.01, 0.5, 3.0, 31.0, 33.0, 1e3, 1e6, 1e9])
def test_slopes_of_tails_in_degrees_of_freedom(df):
    """Far out, where the argument of beta's distribution rounds to one, and where the normal one is near."""
    half = mp.mpf(1) / 2
    by_t = lambda t: lambda n: mp.betainc(n / 2, half, 0, n / (n + t * t), regularized=True) / 2
    by_f = lambda m, x: lambda n: mp.betainc(n / 2, m / 2, 0, n / (n + m * x), regularized=True)
    with mp.workdps(60):
        for t in (1e-3, 0.5, 1.0, 3.0, *((1e4, 1e7, 1e9, 1e20) if df < 10 else ())):
            n, exact = mp.mpf(df), mp.mpf(t)
            slope = mp.diff(by_t(exact), n, h=n * mp.mpf(10) ** -15)
            close(fg.grad(theirs.stdtr)(df, -t), slope, 1e-9, 0.0)
            close(fg.grad(theirs.stdtr)(df, t), -slope, 1e-9, 0.0)
            if 0.1 < df < 10:
                slope = mp.diff(by_f(mp.mpf(2.5), exact), n, h=n * mp.mpf(10) ** -15)
                close(fg.grad(theirs.fdtrc, argnums=1)(2.5, df, t), slope, 1e-10, 0.0)
                close(fg.grad(theirs.fdtr, argnums=1)(2.5, df, t), -slope, 1e-10, 0.0)


@pytest.mark.parametrize(
    ("name", "point", "i", "exact"),
    [
        ("powm1", (2.0, -60.2), 0, -60.2 * 2.0**-61.2),
        ("powm1", (2.0, -60.2), 1, np.log(2) * 2.0**-60.2),
        ("powm1", (1e-12, 3.0), 1, 1e-36 * np.log(1e-12)),
        ("inv_boxcox1p", (-60.0, 0.0), 0, np.exp(-60.0)),
        ("inv_boxcox1p", (-60.0, 0.0), 1, -1800 * np.exp(-60.0)),
    ],
)
def test_slopes_of_small_powers_are_not_taken_from_powers_less_one(name, point, i, exact):
    close(fg.grad(getattr(theirs, name), argnums=i)(*point), exact, 1e-12, 0.0)


COMPLEX = {
    "erf": mp.erf,
    "erfc": mp.erfc,
    "erfi": mp.erfi,
    "erfcx": lambda z: mp.exp(z * z) * mp.erfc(z),
    "dawsn": lambda z: mp.exp(-z * z) * mp.erfi(z) * mp.sqrt(mp.pi) / 2,
    "wofz": lambda z: mp.exp(-z * z) * mp.erfc(-1j * z),
    "ndtr": lambda z: mp.erfc(-z / mp.sqrt(2)) / 2,
    "log_ndtr": lambda z: mp.log(mp.erfc(-z / mp.sqrt(2)) / 2),
    "spence": lambda z: mp.polylog(2, 1 - z),
}


@pytest.mark.parametrize("compiled", [False, True])
def test_logarithms_of_complex_numbers_near_one_have_all_digits(compiled):
    """NumPy's log1p has half of them, SciPy's all."""
    points = np.array([1e-8 + 1e-9j, -1e-200 + 1e-9j, -3e-7 - 1e-30j, 0.3 - 2j])
    f = fg.jit(theirs.log1p) if compiled else theirs.log1p
    value, back = fg.vjp(f, points)
    with mp.workdps(300):
        expected = [complex(mp.log(1 + mp.mpc(z))) for z in points]
    for part in (np.real, np.imag):
        np.testing.assert_allclose(part(value), part(expected), rtol=1e-14)
    np.testing.assert_allclose(back(np.ones(4, complex))[0], 1 / (1 + points), rtol=1e-14)


@pytest.mark.parametrize("name", COMPLEX)
def test_error_functions_of_complex_numbers(name):
    """Derivatives to third order, near zero and where a series takes over; mapped and staged too."""
    near = np.array([0.5 + 0.5j, -1 + 2j, 2 - 1j, 1.1 + 0.1j])
    far = {
        "erfcx": [60 + 3j, 40 - 60j, 1 + 70j],
        "wofz": [60 + 3j, -80 - 3j, 1j],
        "dawsn": [60 + 3j, -70 + 1j],
    }
    points = np.append(near, far.get(name, []))
    slope = getattr(theirs, name)
    total = lambda f: lambda z: np.sum(f(z))
    with mp.workdps(60):
        for order in range(1, 4):
            slope = fg.grad(total(slope), holomorphic=True)
            expected = [complex(mp.diff(COMPLEX[name], mp.mpc(z), order)) for z in points]
            np.testing.assert_allclose(slope(points), expected, rtol=1e-8)
            if order == 1:
                np.testing.assert_allclose(fg.jit(slope)(points), expected, rtol=1e-8)
                np.testing.assert_allclose(fg.vmap(slope)(points), expected, rtol=1e-8)
    single = fg.grad(total(getattr(theirs, name)), holomorphic=True)(near.astype("F"))
    assert single.dtype == np.complex64


@pytest.mark.parametrize("compiled", [False, True])
def test_derivatives_of_complex_values_in_real_numbers_are_real(compiled):
    """Every cotangent inside of them is, too: an imaginary part left in one enters the next derivative."""
    slope = lambda x: np.real(theirs.wofz(x)) ** 2
    x = np.array([0.5, 1.2])
    for order in range(1, 4):
        slope = fg.grad(lambda x, f=slope: np.sum(f(x)))
        found = (fg.jit(slope) if compiled else slope)(x)
        assert found.dtype == np.float64
        expected = [mp.diff(lambda t: mp.exp(-2 * t * t), float(v), order) for v in x]
        np.testing.assert_allclose(found, np.array(expected, float), rtol=1e-9, atol=1e-12)


# name, operands, which of them, its slope there
EDGES = [
    *(("gammainc", (2.0, x), 1, 0.0) for x in (0.0, np.inf)),
    *(("gammainc", (1.0, 0.0), 1, 1.0), ("gammainc", (0.5, 0.0), 1, np.inf)),
    *(("gammainc", (2.0, x), 0, 0.0) for x in (0.0, np.inf)),
    *(("betainc", (2.0, 3.0, x), i, 0.0) for x in (0.0, 1.0) for i in range(3)),
    *(("betainc", (1.0, 1.0, x), 2, 1.0) for x in (0.0, 1.0)),
    *(("erfinv", (x,), 0, np.inf) for x in (-1.0, 1.0)),
    *(("ndtr", (x,), 0, 0.0) for x in (-np.inf, np.inf)),
    *(("log_ndtr", (x,), 0, y) for x, y in ((np.inf, 0.0), (-1e10, 1e10), (50.0, 0.0))),
    *(("ndtri", (x,), 0, np.inf) for x in (0.0, 1.0)),
    *(("expit", (x,), 0, 0.0) for x in (-np.inf, np.inf, -800.0)),
    *(("log_expit", (x,), 0, y) for x, y in ((-np.inf, 1.0), (np.inf, 0.0), (-800.0, 1.0))),
    *(("logit", (x,), 0, np.inf) for x in (0.0, 1.0)),
    *(("entr", (x,), 0, y) for x, y in ((0.0, np.inf), (-1.0, 0.0))),
    *(("rel_entr", (x, y), i, s) for x, y, i, s in (
        (0.0, 1.0, 0, -np.inf), (0.0, 1.0, 1, 0.0), (-1.0, 1.0, 0, 0.0), (0.0, 0.0, 1, 0.0))),
    *(("xlogy", (0.0, 0.0), i, s) for i, s in ((0, -np.inf), (1, 0.0))),
    *(("huber", (1.0, x), 1, y) for x, y in ((np.inf, 1.0), (-np.inf, -1.0), (0.0, 0.0))),
    *(("pseudo_huber", (0.0, 0.0), i, 0.0) for i in range(2)),
    *(("boxcox", (0.0, 2.0), i, s) for i, s in ((0, 0.0), (1, 0.25))),
    *(("chdtr", (3.0, x), i, 0.0) for x in (-1.0, 0.0, np.inf) for i in range(2)),
    *(("fdtr", (3.0, 4.0, -1.0), i, 0.0) for i in range(3)),
    *(("stdtr", (3.0, x), i, 0.0) for x in (-np.inf, np.inf) for i in range(2)),
    *(("tklmbda", (x, 1.0), i, 0.0) for x in (-2.0, 2.0) for i in range(2)),
    *(("jv", (0, 0.0), 1, 0.0), ("jv", (1, 0.0), 1, 0.5), ("jv", (0.5, 0.0), 1, np.inf)),
    *(("iv", (1, 0.0), 1, 0.5), ("k0", (0.0,), 0, -np.inf), ("y0", (0.0,), 0, np.inf)),
    *(("ellipk", (1.0,), 0, np.inf), ("ellipe", (1.0,), 0, -np.inf), ("ellipkm1", (0.0,), 0, -np.inf)),
    *(("eval_legendre", (4, x), 1, y) for x, y in ((1.0, 10.0), (-1.0, -10.0))),
    *(("kolmogorov", (x,), 0, 0.0) for x in (0.0, 0.01, 40.0)),
    *(("pdtrik", (0.5, 0.1), 1, 0.0), ("chndtrinc", (2.5, 3, 0.9), 2, 0.0)),
    *(("bdtr", (5, 5, 0.3), 2, 0.0), ("expn", (1, 0.0), 1, -np.inf), ("gammaln", (np.inf,), 0, np.inf)),
    *(("exprel", (x,), 0, y) for x, y in ((-np.inf, 0.0), (800.0, np.inf))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "i", "expected"), EDGES, ids=str)
def test_edges(name, args, i, expected):
    f = getattr(special, name)
    found = fg.grad(lambda x: f(*args[:i], x, *args[i + 1 :]))(args[i])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    masked = fg.grad(lambda x: np.where(True, 0.0, f(*args[:i], x, *args[i + 1 :])))(args[i])
    assert masked == 0  # also where the slope is infinite


LINEAR = {
    ("xlogy", 0),
    ("xlog1py", 0),
    ("nrdtrimn", 1),
    ("nrdtrimn", 2),
    ("nrdtrisd", 0),
    ("nrdtrisd", 2),
}  # whose slope does not depend on the operand


@pytest.mark.parametrize("primitive", sorted(DECLARED - {"round", "gammasgn", "radian"}))
def test_nan_stays_nan(primitive):
    if not CASES[primitive].points:
        return
    point = CASES[primitive].points[0]
    for i, x in enumerate(point):
        if not is_constant(primitive, i, point) and (primitive, i) not in LINEAR:
            slope = fg.grad(lambda x: bind(primitive, *point[:i], x, *point[i + 1 :]))
            assert np.isnan(slope(np.nan)), i


def test_poles_that_cancel_leave_what_is_between_them():
    """poch(z, 3) = z (z + 1) (z + 2), beta(a, 1) = 1 / a, binom(n, 2) = n (n - 1) / 2."""
    for z, expected in ((-1.0, -1.0), (0.0, 2.0), (-2.0, 2.0), (-5.0, 47.0)):
        slope = fg.grad(lambda z: special.poch(z, 3.0))
        np.testing.assert_allclose([slope(z), fg.grad(slope)(z)], [expected, 6 * z + 6])
    for a in (-1.0, -2.0, -5.0):
        slope = fg.grad(lambda a: special.beta(a, 1.0))
        np.testing.assert_allclose([slope(a), fg.grad(slope)(a)], [-1 / a**2, 2 / a**3])
        np.testing.assert_allclose(fg.grad(lambda a: special.betaln(a, 1.0))(a), -1 / a)
    slope = fg.grad(lambda n: special.binom(n, 2.0))
    np.testing.assert_allclose([slope(0.0), slope(1.0), fg.grad(slope)(1.0)], [-0.5, 0.5, 1.0])
    assert not np.isfinite(fg.grad(lambda b: special.beta(-1.0, b))(1.0))  # a pole in this direction


def test_second_order_at_removable_singularities():
    second = lambda f: fg.grad(fg.grad(f))
    np.testing.assert_allclose(second(special.rgamma)(0.0), 2 * np.euler_gamma)
    np.testing.assert_allclose(second(lambda x: special.sici(x)[0])(0.0), 0.0)
    np.testing.assert_allclose(fg.grad(second(lambda x: special.shichi(x)[0]))(0.0), 1 / 3)
    np.testing.assert_allclose(fg.grad(second(special.exprel))(0.0), 1 / 4)
    np.testing.assert_allclose(fg.grad(second(special.ber))(0.0), 0.0)
    np.testing.assert_allclose(second(special.ellipk)(0.0), 9 * np.pi / 64)
    np.testing.assert_allclose(second(lambda m: special.ellipkinc(1.2, m))(0.0), float(
        mp.diff(lambda m: mp.ellipf(1.2, m), 0, 2)))  # fmt: skip


# ---- names


def test_at_least_120_of_scipys_ufuncs_have_rules():
    ufuncs = {name for name, f in vars(theirs).items() if isinstance(f, np.ufunc)}
    assert sum(getattr(theirs, name) in NUMPY for name in ufuncs) >= 180
    assert ufuncs <= set(dir(special)) | {n for n in ufuncs if getattr(special, n) is getattr(theirs, n)}


def test_scipys_own_names_answer_once_scipy_is_imported_and_no_sooner():
    program = (
        "import sys, fgrad; assert 'scipy' not in sys.modules\n"
        "from scipy import special; assert 'fgrad.scipy.special' not in sys.modules\n"
        "print(float(fgrad.grad(special.gammaln)(2.0)), fgrad.grad(lambda q: special.zeta(3, q))(1.0))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, second = map(float, run.stdout.split())
    np.testing.assert_allclose([first, second], [1 - np.euler_gamma, -3 * np.pi**4 / 90])


@pytest.mark.parametrize("name", ["bdtrik", "mathieu_cem", "smirnov", "zetac"])
def test_names_without_rule_refuse_tensors_and_take_arrays(name):
    f = getattr(special, name)
    args = [1.5] * f.nin
    assert f is getattr(theirs, name)
    with pytest.raises(TypeError, match=rf"scipy.special.{name} has no rule for Tensors.*fgrad.custom_vjp"):
        fg.grad(lambda x: f(x, *args[1:]))(1.5)


def test_functions_without_rule_are_no_names():
    with pytest.raises(AttributeError, match=r"scipy.special.roots_legendre has no rule for Tensors"):
        special.roots_legendre
    with pytest.raises(AttributeError, match=r"has no attribute 'gama'$"):
        special.gama


@pytest.mark.parametrize(
    ("name", "args", "i", "argument"),
    [
        ("jv", (0.5, 1.0), 0, "v"),
        ("hyp2f1", (0.5, 1.5, 2.5, 0.3), 2, "c"),
        ("eval_legendre", (2.5, 0.3), 0, "n"),
        ("bdtr", (2.0, 5, 0.3), 0, "k"),
        ("zeta", (2.0, 1.5), 0, "x"),
        ("zeta", (2.0,), 0, "x"),
    ],
)
def test_arguments_without_known_derivative_raise_by_name(name, args, i, argument):
    f = getattr(special, name)
    message = f"derivative of scipy.special.{name} in its argument {argument} is not known.*stop_gradient"
    with pytest.raises(TypeError, match=message):
        fg.grad(lambda x: f(*args[:i], x, *args[i + 1 :]))(args[i])
    constant = fg.grad(lambda x: f(*args[:i], fg.stop_gradient(x), *args[i + 1 :]) * x)(args[i])
    np.testing.assert_allclose(constant, f(*args))


def test_plain_arrays_are_scipys_business():
    x = np.array([0.5, 1.5])
    assert type(special.jv(0, x)) is np.ndarray
    np.testing.assert_array_equal(special.jv(0, x), theirs.jv(0, x))
    np.testing.assert_array_equal(special.erf(x + 1j), theirs.erf(x + 1j))
    assert special.gammaln.nin == 1
    assert repr(special.jv) == "<ufunc fgrad.scipy.special.jv>"


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i2", "?"])
def test_dtypes_are_those_of_scipy(dtype):
    x = np.array([1, 1], dtype)
    for f, args in ((theirs.gammaln, ()), (theirs.jv, (0,)), (theirs.xlogy, (2.0,))):
        assert f(*args, fg.tensor(x)).dtype == f(*args, x).dtype
        assert fg.vmap(lambda x, f=f, args=args: f(*args, x))(x).dtype == f(*args, x).dtype


def test_orders_that_have_to_be_whole():
    x = fg.tensor([0.5, 1.5])
    for f in (special.eval_hermite, special.spherical_jn):
        np.testing.assert_array_equal(f(2.0, x).numpy(), f(2, x).numpy())
        with pytest.raises(ValueError, match=r"the order must be an integer, not 2\.5"):
            f(2.5, x)


def test_several_outputs_and_keywords():
    x = fg.tensor([0.5, 1.5])
    for name, args in (("sici", ()), ("airy", ()), ("kelvin", ()), ("ellipj", (0.3,)), ("pbdv", ())):
        f = getattr(theirs, name)
        given = (1.5, x) if name == "pbdv" else (x, *args)
        expected = f(*(g.numpy() if g is x else g for g in given))
        for a, e in zip(f(*given), expected, strict=True):
            np.testing.assert_allclose(a.numpy(), e)
    target = fg.tensor([0.0, 0.0])
    theirs.gammaln(x, out=target)
    np.testing.assert_array_equal(target.numpy(), theirs.gammaln([0.5, 1.5]))
    masked = fg.grad(lambda x: np.sum(theirs.gammaln(x, where=[True, False])))(np.array([2.0, 3.0]))
    np.testing.assert_allclose(masked, [theirs.psi(2.0), 0.0])
    with pytest.raises(TypeError, match="sici takes 1 operands and no keywords"):
        theirs.sici(x, where=True)


def test_methods_of_ufuncs():
    x = np.array([0.5, 1.5])
    table = fg.jacrev(lambda x: theirs.xlogy.outer(x, x))(x)
    np.testing.assert_allclose(table[0, 1], [np.log(1.5), 0.5 / 1.5])
    total = fg.grad(lambda x: theirs.xlogy.reduce(x))(x)
    np.testing.assert_allclose(total, [np.log(1.5), 0.5 / 1.5])

    def doubled(x):
        y = x * 1.0
        theirs.gammaln.at(y, [0])
        return y

    np.testing.assert_allclose(fg.jacrev(doubled)(x), np.diag([theirs.psi(0.5), 1.0]))


def test_jit_calls_scipy_between_its_kernels():
    f = lambda x: np.sum(np.sin(theirs.jv(0, x)) * theirs.gammainc(1.5, x))
    x = np.array([0.5, 1.5])
    np.testing.assert_allclose(fg.jit(f)(x), f(x), rtol=1e-13)
    np.testing.assert_allclose(fg.jit(fg.vmap(fg.grad(f)))(np.stack([x, x]))[0], fg.grad(f)(x), rtol=1e-12)


def test_stored_programs_find_the_primitives(tmp_path):
    path = tmp_path / "program"
    path.write_bytes(fg.export(lambda x: theirs.jv(0, x) * np.sin(x), np.zeros(2)))
    program = (
        f"import fgrad, numpy as np; f = fgrad.load(open({str(path)!r}, 'rb').read())\n"
        "print(*fgrad.grad(lambda x: f(x).sum())(np.array([0.5, 1.5])))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    x = np.array([0.5, 1.5])
    expected = theirs.jv(0, x) * np.cos(x) - theirs.jv(1, x) * np.sin(x)
    np.testing.assert_allclose(list(map(float, run.stdout.split())), expected)


# ---- functions of Python


def test_functions_beside_ufuncs_have_scipys_values():
    x = np.array([[0.5, 1.5], [2.5, -0.3]])
    t = fg.tensor(x)
    pairs = [
        (special.softmax(t, 0), theirs.softmax(x, 0)),
        (special.softmax(t), theirs.softmax(x)),
        (special.log_softmax(t, axis=1), theirs.log_softmax(x, axis=1)),
        (special.logsumexp(t), theirs.logsumexp(x)),
        (special.logsumexp(t, 0, b=[[1.0], [2.0]], keepdims=True),
         theirs.logsumexp(x, 0, b=[[1.0], [2.0]], keepdims=True)),
        (special.polygamma(2, t), theirs.polygamma(2, x)),
        (special.polygamma(np.array([0, 3]), t), theirs.polygamma(np.array([0, 3]), x)),
        (special.multigammaln(t[0] + 1, 3), theirs.multigammaln(x[0] + 1, 3)),
        *((special.zeta(fg.tensor(x)), theirs.zeta(x)) for x in (3.0, 1.0, 0.5, 0.0, -3.5, -4.0)),
        (special.lambertw(t, -1), theirs.lambertw(x, -1)),
        *((getattr(special, f"spherical_{k}n")(2, t[0], d), getattr(theirs, f"spherical_{k}n")(2, x[0], d))
          for k in "jyik" for d in (False, True)),
    ]  # fmt: skip
    for actual, expected in pairs:
        np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-12)


def test_logsumexp_with_signs():
    b = np.array([1.0, -3.0])
    a = np.array([0.3, 0.5])
    value, sign = special.logsumexp(fg.tensor(a), b=b, return_sign=True)
    expected = theirs.logsumexp(a, b=b, return_sign=True)
    np.testing.assert_allclose([value.numpy(), sign.numpy()], expected)
    total = np.sum(b * np.exp(a))
    found = fg.grad(lambda a, b: special.logsumexp(a, b=b, return_sign=True)[0], (0, 1))(a, b)
    np.testing.assert_allclose(found, [b * np.exp(a) / total, np.exp(a) / total])
    shapes = special.logsumexp(fg.tensor(np.ones((2, 3))), 1, keepdims=True, return_sign=True)
    assert [s.shape for s in shapes] == [(2, 1), (2, 1)]


@pytest.mark.parametrize("run", [lambda f: f, fg.jit])
@pytest.mark.parametrize("weights", [None, np.array([[1.0], [-2.0]]), np.array([0.3 + 1j, -1, 0.5, 2j])])
@pytest.mark.parametrize("shift", [0.0, 800.0, -800.0])
def test_logsumexp_of_complex_numbers(run, weights, shift):
    rng = np.random.default_rng(1)
    for a in (rng.normal(size=(2, 4)), rng.normal(size=(2, 4)) + 2j * rng.normal(size=(2, 4))):
        if weights is None and a.dtype.kind == "f":
            continue
        total = np.sum((1 if weights is None else weights) * np.exp(a), axis=0)
        value, sign = run(lambda a: special.logsumexp(a, 0, weights, return_sign=True))(a + shift)
        np.testing.assert_allclose(value, np.log(abs(total)) + shift, rtol=1e-12)
        np.testing.assert_allclose(sign, total / abs(total), rtol=1e-12)
        assert value.dtype == float
        if total.dtype.kind == "c":
            found = run(lambda a: special.logsumexp(a, 0, weights))(a + shift)
            np.testing.assert_allclose(found, np.log(total) + shift, rtol=1e-12)
            check_grads(lambda a: special.logsumexp(a, 0, weights), (a + 0.1j,))
            check_grads(lambda a: special.logsumexp(a, 0, weights, return_sign=True)[0], (a.real,))


def test_logsumexp_of_complex_numbers_without_a_part():
    gone = np.array([complex(-np.inf, 2), 1 + 1j])
    np.testing.assert_allclose(special.logsumexp(gone), 1 + 1j)
    np.testing.assert_array_equal(fg.grad(lambda a: special.logsumexp(a).real)(gone).round(12), [0, 1])
    value, sign = special.logsumexp(gone[:0], return_sign=True)
    assert (value, sign) == (-np.inf, 0)


@pytest.mark.parametrize("n", [0.5, -1, np.array([2.5, 1.0]), np.array([0, -2])])
@pytest.mark.parametrize("compiled", [False, True])
def test_polygamma_of_what_is_no_order_is_nan(n, compiled):
    def f(x):
        return special.polygamma(n, x)

    x = np.array([0.3, 0.7])
    with np.errstate(invalid="ignore"):
        expected = theirs.polygamma(n, x)
    np.testing.assert_allclose((fg.jit(f) if compiled else f)(fg.tensor(x)), expected, rtol=1e-12)
    assert np.isnan(fg.elementwise_grad(f)(x)[np.isnan(expected)]).all()


def test_gradients_of_polygamma_and_multigammaln():
    np.testing.assert_allclose(fg.grad(lambda x: special.polygamma(1, x))(1.5), theirs.polygamma(2, 1.5))
    found = fg.grad(lambda a: special.multigammaln(a, 2))(2.5)
    np.testing.assert_allclose(found, theirs.psi(2.5) + theirs.psi(2.0))


def test_zeta_of_complex_tensors_is_refused():
    for x, q in ((fg.tensor(2j), None), (2j, fg.tensor(1.5)), (fg.tensor(2.0), 1j)):
        with pytest.raises(TypeError, match="zeta of Tensors: complex numbers are not supported"):
            special.zeta(x, q)


def test_the_source_of_a_slope_is_told():
    assert "In `z`: section 10.6.1 of dlmf.nist.gov. None is known in `v`." in special.jv.__doc__
