"""fgrad.scipy.stats: values are SciPy's, slopes are differences of them, ends and tails are right."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import scipy.stats as theirs

import fgrad as fg
from fgrad.scipy import stats

CONTINUOUS = {
    "beta": [(2.5, 1.5), (0.5, 0.7)],
    "cauchy": [()],
    "chi": [(3.0,)],
    "chi2": [(3.0,), (1.0,)],
    "expon": [()],
    "f": [(3.0, 4.5)],
    "fisk": [(2.5,)],
    "gamma": [(2.5,), (0.6,)],
    "genextreme": [(0.3,), (-0.4,), (1e-9,)],
    "genpareto": [(0.3,), (-0.4,), (1e-9,)],
    "gumbel_l": [()],
    "gumbel_r": [()],
    "halfcauchy": [()],
    "halfnorm": [()],
    "invgamma": [(2.5,)],
    "laplace": [()],
    "levy": [()],
    "logistic": [()],
    "lognorm": [(0.7,)],
    "norm": [()],
    "pareto": [(2.5,)],
    "powerlaw": [(1.7,)],
    "rayleigh": [()],
    "skewnorm": [(1.5,), (-0.7,)],
    "t": [(3.5,)],
    "triang": [(0.3,)],
    "truncnorm": [(-0.7, 1.5), (2.0, 4.0), (-6.0, -3.0)],
    "uniform": [()],
    "vonmises": [(1.5,)],
    "weibull_max": [(1.7,)],
    "weibull_min": [(1.7,)],
}
DISCRETE = {
    "bernoulli": [(0.3,)],
    "betabinom": [(6, 1.5, 2.5)],
    "binom": [(6, 0.3)],
    "geom": [(0.3,)],
    "nbinom": [(2.5, 0.3)],
    "poisson": [(1.7,)],
}
CASES = [(name, shapes) for name, points in CONTINUOUS.items() for shapes in points]
COUNTS = [(name, shapes) for name, points in DISCRETE.items() for shapes in points]
LOC, SCALE = 0.7, 1.3


def points_of(name, shapes):
    theirs_ = getattr(theirs, name)
    q = np.array([0.03, 0.2, 0.45, 0.8, 0.97])
    return theirs_.ppf(q, *shapes, loc=LOC, scale=SCALE) if name in CONTINUOUS else theirs_.ppf(q, *shapes)


def slopes(f, args, i):
    """Return Richardson's differences of an elementwise function by argument `i`."""
    h = 2e-5 * np.maximum(np.abs(args[i]), 0.1)
    moved = lambda k: f(*args[:i], args[i] + k * h, *args[i + 1 :])
    return (8 * (moved(1) - moved(-1)) - (moved(2) - moved(-2))) / (12 * h)


def check_slopes(ours, reference, args, where, rtol=1e-6):
    found = fg.grad(lambda *xs: np.sum(ours(*xs)), where)(*args)
    for i, slope in zip(where, found, strict=True):
        expected = slopes(reference, args, i)
        expected = expected if np.shape(args[i]) else np.sum(expected)
        np.testing.assert_allclose(slope, expected, rtol=rtol, atol=1e-9, err_msg=f"argument {i}")


def lists(family):
    return [m for m in family.methods if m not in {"ppf", "isf"}]


@pytest.mark.parametrize(("name", "shapes"), CASES, ids=str)
def test_values_and_slopes(name, shapes):
    ours, reference = getattr(stats, name), getattr(theirs, name)
    x = points_of(name, shapes)
    args = (x, *shapes, LOC, SCALE)
    where = tuple(range(len(args)))
    for method in lists(ours):
        f, g = getattr(ours, method), getattr(reference, method)
        np.testing.assert_allclose(f(*args), g(*args), rtol=1e-9, atol=1e-15, err_msg=method)
        tiny = shapes == (1e-9,)  # SciPy changes its formula there
        check_slopes(
            f, g, args, tuple(i for i in where if not (tiny and i == 1)), rtol=1e-5 if tiny else 1e-6
        )


@pytest.mark.parametrize(("name", "shapes"), CASES, ids=str)
def test_quantiles(name, shapes):
    ours, reference = getattr(stats, name), getattr(theirs, name)
    if "ppf" not in ours.methods:
        with pytest.raises(AttributeError, match=f"fgrad.scipy.stats.{name} has no ppf; it has pdf"):
            ours.ppf(0.5, *shapes)
        return
    q = np.array([0.01, 0.35, 0.55, 0.9])
    for method in ("ppf", "isf"):
        f, g = getattr(ours, method), getattr(reference, method)
        np.testing.assert_allclose(f(q, *shapes, LOC, SCALE), g(q, *shapes, LOC, SCALE), rtol=1e-9)
        args = (q, *shapes, LOC, SCALE)
        tiny = shapes == (1e-9,)
        where = tuple(i for i in range(len(args)) if not (tiny and i == 1))
        check_slopes(f, g, args, where, rtol=1e-5)
        ends = f(np.array([0.0, 1.0, -0.1, 1.1, np.nan]), *shapes, LOC, SCALE)
        np.testing.assert_allclose(ends, g(np.array([0.0, 1.0, -0.1, 1.1, np.nan]), *shapes, LOC, SCALE))


@pytest.mark.parametrize(("name", "shapes"), CASES, ids=str)
def test_outside_of_the_support_and_for_invalid_parameters(name, shapes):
    ours, reference = getattr(stats, name), getattr(theirs, name)
    low, high = reference.support(*shapes, loc=LOC, scale=SCALE)
    np.testing.assert_allclose(ours.support(*shapes, loc=LOC, scale=SCALE), (low, high))
    x = np.array([v for end, v in ((low, low - 0.5), (high, high + 0.5)) if np.isfinite(end)])
    for method in lists(ours):
        f, g = getattr(ours, method), getattr(reference, method)
        np.testing.assert_array_equal(f(x, *shapes, LOC, SCALE), g(x, *shapes, LOC, SCALE))
        args = (x, *shapes, LOC, SCALE)
        for slope in fg.grad(lambda *xs, f=f: np.sum(f(*xs)), tuple(range(len(args))))(*args):
            np.testing.assert_array_equal(slope, 0 * slope)
        wide = np.array([-np.inf, np.inf])
        expected = {"pdf": [0, 0], "logpdf": [-np.inf, -np.inf], "cdf": [0, 1], "sf": [1, 0],
            "logcdf": [-np.inf, 0], "logsf": [0, -np.inf]}[method]  # fmt: skip
        np.testing.assert_array_equal(f(wide, *shapes), expected)
        assert np.isnan(f(np.nan, *shapes))
        for scale in (0.0, -1.0):
            assert np.isnan(f(points_of(name, shapes)[2], *shapes, LOC, scale))
        if shapes and name not in {"genextreme", "genpareto", "skewnorm", "truncnorm"}:
            assert np.isnan(f(points_of(name, shapes)[2], -1.0, *shapes[1:]))


@pytest.mark.parametrize(("name", "shapes"), CASES, ids=str)
def test_second_order_jit_vmap_and_dtypes(name, shapes):
    ours = getattr(stats, name)
    x = points_of(name, shapes)
    args = (*shapes, LOC, SCALE)
    for method in {"logpdf", "logcdf", "ppf"} & set(ours.methods):
        f = getattr(ours, method)
        at = np.array([0.2, 0.7]) if method == "ppf" else x[1:3]
        slope = fg.grad(lambda x, *args, f=f: np.sum(f(x, *args)), tuple(range(len(args) + 1)))
        total = lambda *xs, slope=slope: sum(np.sum(s) for s in slope(*xs))
        one = lambda v, *args, total=total: total(np.array([v]), *args)
        second = fg.grad(total, 0)(at, *args)
        h = 1e-5
        expected = [(one(v + h, *args) - one(v - h, *args)) / (2 * h) for v in at]
        np.testing.assert_allclose(second, expected, rtol=2e-4, atol=1e-5)
        np.testing.assert_allclose(fg.vmap(lambda v, f=f: f(v, *args))(at), f(at, *args), rtol=1e-13)
        assert f(at.astype("f4"), *args).dtype == np.float64  # as SciPy's
    if name in {"beta", "t", "laplace"}:
        log_density = lambda x: np.sum(ours.logpdf(x, *args))
        np.testing.assert_allclose(fg.jit(fg.grad(log_density))(x), fg.grad(log_density)(x), rtol=1e-10)


def normal_between(a, b):
    """Return the probability that a standard normal variable is between `a` and `b`."""
    with mp.workdps(500):
        return mp.ncdf(mp.mpf(b)) - mp.ncdf(mp.mpf(a))


def log_skew_tail(z, a):
    """Return log of the distribution function of a skew normal variable at z < 0, by Owen's integral."""
    z, a = mp.mpf(z), mp.mpf(a)
    inside = lambda t: mp.exp(-(z**2) * (t**2 - a**2) / 2) / (1 + t**2)
    scale = 1 / (z * z * a)
    ends = [a, a + scale, a + 3 * scale, a + 10 * scale, a + 40 * scale, mp.inf]
    return mp.log(mp.quad(inside, ends) / mp.pi) - z * z * (1 + a * a) / 2


@pytest.mark.parametrize(
    ("name", "method", "x", "shapes", "exact"),
    [
        ("norm", "logcdf", -40.0, (), lambda: mp.log(mp.erfc(40 / mp.sqrt(2)) / 2)),
        ("norm", "logsf", 40.0, (), lambda: mp.log(mp.erfc(40 / mp.sqrt(2)) / 2)),
        ("gamma", "logsf", 2000.0, (2.5,), lambda: mp.log(mp.gammainc(2.5, 2000, regularized=True))),
        ("gamma", "logcdf", 1e-200, (2.5,), lambda: 2.5 * mp.log(mp.mpf(10) ** -200) - mp.loggamma(3.5)),
        ("gamma", "logcdf", 20.0, (400.0,), lambda: mp.log(mp.gammainc(400, 0, 20, regularized=True))),
        ("chi2", "logsf", 4000.0, (3.0,), lambda: mp.log(mp.gammainc(1.5, 2000, regularized=True))),
        ("beta", "logcdf", 1e-3, (150.0, 2.0), lambda: mp.log(
            mp.betainc(150, 2, 0, mp.mpf(1e-3), regularized=True))),
        ("truncnorm", "logpdf", 31.0, (30.0, 40.0), lambda: mp.log(
            2 * mp.npdf(31) / (mp.erfc(30 / mp.sqrt(2)) - mp.erfc(40 / mp.sqrt(2))))),
        ("logistic", "logcdf", -800.0, (), lambda: mp.mpf(-800)),
        ("gumbel_r", "logcdf", -10.0, (), lambda: -mp.exp(10)),
        ("cauchy", "cdf", -1e20, (), lambda: mp.mpf(10) ** -20 / mp.pi),
        ("weibull_min", "logsf", 1e3, (1.5,), lambda: -mp.mpf(1000) ** 1.5),
        ("expon", "logcdf", 1e-30, (), lambda: mp.log(mp.mpf(10) ** -30)),
        *(("beta", "logsf", x, (0.3, 0.5), lambda x=x: mp.log1p(
            -mp.betainc(0.3, 0.5, 0, mp.mpf(x), regularized=True))) for x in (1e-200, 1e-17, 0.3)),
        *(("beta", "logcdf", x, (0.5, 2.5), lambda x=x: mp.log1p(
            -mp.betainc(2.5, 0.5, 0, 1 - mp.mpf(x), regularized=True))) for x in (0.3, 0.9999)),
        ("gamma", "logcdf", 50.0, (0.3,), lambda: mp.log1p(-mp.gammainc(0.3, 50, regularized=True))),
        ("gamma", "logsf", 1e-50, (0.4,), lambda: mp.log1p(
            -mp.gammainc(0.4, 0, mp.mpf(10) ** -50, regularized=True))),
        ("cauchy", "logcdf", 1e20, (), lambda: mp.log1p(-(mp.mpf(10) ** -20) / mp.pi)),
        *(("skewnorm", "logcdf", z, (a,), lambda z=z, a=a: log_skew_tail(z, a))
          for z, a in ((-1.2, 2.0), (-1.3, 2.0), (-8.0, 2.0), (-0.4, 20.0), (-40.0, 0.5))),
        *(("truncnorm", method, z, (a, b), lambda low=low, high=high, a=a, b=b: mp.log(
            normal_between(low, high) / normal_between(a, b)))
          for method, z, a, b, low, high in (
              ("logcdf", 1e-10, 0.0, np.inf, 0.0, 1e-10), ("logcdf", 8.24, 0.0, np.inf, 0.0, 8.24),
              ("logsf", -8.0, -np.inf, 3.0, -8.0, 3.0), ("logcdf", 5e-9, -1e-8, 1e-8, -1e-8, 5e-9),
              ("logsf", 1 + 5e-9, 1.0, 1 + 1e-8, 1 + 5e-9, 1 + 1e-8),
              ("logsf", -29.000000000000004, -30.0, -29.0, -29.000000000000004, -29.0))),
        ("skewnorm", "logsf", 8.0, (-3.0,), lambda: log_skew_tail(-8.0, 3.0)),
        ("skewnorm", "sf", -8.0, (2.0,), lambda: mp.mpf(1)),
        ("cauchy", "ppf", 1 - 1e-10, (), lambda: -mp.cot(mp.pi * mp.mpf(1 - 1e-10))),
        ("levy", "logcdf", 1e25, (), lambda: mp.log1p(-mp.erf(mp.sqrt(mp.mpf(0.5) / mp.mpf(1e25))))),
        ("genpareto", "ppf", 1e-30, (0.3,), lambda: mp.expm1(-0.3 * mp.log1p(-mp.mpf(10) ** -30)) / 0.3),
        ("genpareto", "isf", 1 - 1e-10, (-0.3,), lambda: -mp.expm1(0.3 * mp.log(mp.mpf(1 - 1e-10))) / 0.3),
    ],
)  # fmt: skip
def test_tails(name, method, x, shapes, exact):
    with mp.workdps(30):
        expected = float(exact())
    f = getattr(getattr(stats, name), method)
    np.testing.assert_allclose(f(x, *shapes), expected, rtol=1e-12)
    for slope in fg.grad(f, tuple(range(1 + len(shapes))))(x, *shapes):
        assert np.isfinite(slope)


@pytest.mark.parametrize("a", [2.0, -3.0, 0.5])
def test_slopes_of_skew_normal_tails_are_densities(a):
    z = np.linspace(-9.0, 9.0, 73)
    for method, sign in (("logcdf", 1), ("logsf", -1)):
        f = getattr(stats.skewnorm, method)
        slopes = fg.grad(lambda z, f=f: f(z, a).sum())(z)
        expected = sign * np.exp(stats.skewnorm.logpdf(z, a) - f(z, a))
        np.testing.assert_allclose(slopes, expected, rtol=1e-10)


def test_the_median_of_cauchy_has_a_slope():
    assert fg.grad(stats.cauchy.ppf)(0.5) == np.pi


def test_slopes_in_the_tails():
    """They are those of the asymptotic expansions."""
    np.testing.assert_allclose(fg.grad(stats.norm.logcdf)(-1e4), 1e4, rtol=1e-7)
    by_x, by_a = fg.grad(stats.gamma.logsf, (0, 1))(1e5, 2.5)
    np.testing.assert_allclose(by_x, -1 + 1.5 / 1e5, rtol=1e-8)
    np.testing.assert_allclose(by_a, np.log(1e5) - float(mp.digamma(2.5)) + 1e-5, rtol=1e-6)


def test_the_shape_of_extremes_may_be_zero():
    x = 0.7
    first = fg.grad(lambda c: stats.genextreme.logpdf(x, c))(0.0)
    second = fg.grad(fg.grad(lambda c: stats.genextreme.logpdf(x, c)))(0.0)
    with mp.workdps(30):
        y = lambda c: -mp.log1p(-c * x) / c
        density = lambda c: -mp.exp(-y(c)) - (1 - c) * y(c)
        np.testing.assert_allclose(first, float(mp.limit(lambda c: mp.diff(density, c), 0)), rtol=1e-10)
        near = mp.mpf(10) ** -8
        np.testing.assert_allclose(second, float(mp.diff(density, near, 2)), rtol=1e-6)


@pytest.mark.parametrize(("name", "shapes"), COUNTS, ids=str)
def test_discrete_families(name, shapes):
    ours, reference = getattr(stats, name), getattr(theirs, name)
    k = np.array([-1, 0, 1, 2, 3, 6, 7, 40])
    where = tuple(i + 1 for i, s in enumerate(shapes) if isinstance(s, float))
    for method in lists(ours):
        f, g = getattr(ours, method), getattr(reference, method)
        np.testing.assert_allclose(f(k, *shapes), g(k, *shapes), rtol=1e-9, atol=1e-15, err_msg=method)
        np.testing.assert_allclose(f(k + 2, *shapes, loc=2), g(k, *shapes), rtol=1e-9, atol=1e-15)
        inside = k[np.isfinite(g(k, *shapes))]
        check_slopes(f, g, (inside, *shapes), where)
        outside = fg.grad(lambda *s, f=f: np.sum(f(np.array([-1]), *s)), tuple(i - 1 for i in where))(*shapes)
        assert not np.any(outside)
        assert np.isnan(f(1, *shapes[:-1], -0.5))
    np.testing.assert_array_equal(ours.pmf(0.5, *shapes), 0.0)
    with pytest.raises(TypeError, match="k is an integer, so it has no derivative"):
        fg.grad(lambda k: ours.logpmf(k, *shapes))(1.0)


def test_arguments_are_read_as_scipy_reads_them():
    x = np.array([0.5, 1.5])
    expected = theirs.gamma.logpdf(x, 2.5, 0.1, 2.0)
    for found in (
        stats.gamma.logpdf(x, 2.5, 0.1, 2.0),
        stats.gamma.logpdf(x, a=2.5, scale=2.0, loc=0.1),
        stats.gamma(2.5, scale=2.0, loc=0.1).logpdf(x),
        stats.gamma.logpdf(x, np.full((3, 1), 2.5), 0.1, 2.0)[1],
    ):
        np.testing.assert_allclose(found, expected)
    with pytest.raises(
        TypeError, match=r"stats.gamma\(x, a, loc=0, scale=1\): missing a required argument: 'a'"
    ):
        stats.gamma.logpdf(x)
    with pytest.raises(
        AttributeError, match=r"fgrad.scipy.stats.gamma has no rvs; it has pdf.*scipy.stats.gamma"
    ):
        stats.gamma.rvs
    assert repr(stats.gamma) == "<distribution fgrad.scipy.stats.gamma>"


# ---- several variables


def spd(seed, n=3):
    a = np.random.default_rng(seed).normal(size=(n, n))
    return a @ a.T + n * np.eye(n)


def test_multivariate_normal_and_t():
    rng = np.random.default_rng(0)
    x, mean, cov = rng.normal(size=(4, 3)), rng.normal(size=3), spd(1)
    for ours, reference, args in (
        (stats.multivariate_normal, theirs.multivariate_normal, (mean, cov)),
        (stats.multivariate_normal, theirs.multivariate_normal, (mean, np.array([0.5, 1.0, 2.0]))),
        (stats.multivariate_normal, theirs.multivariate_normal, (None, cov)),
        (stats.multivariate_t, theirs.multivariate_t, (mean, cov, 3.5)),
    ):
        for point in (x, x[0]):
            for method in ("logpdf", "pdf"):
                f, g = getattr(ours, method), getattr(reference, method)
                np.testing.assert_allclose(f(point, *args), g(point, *args), rtol=1e-11)
        where = tuple(i for i, a in enumerate((x, *args)) if a is not None)
        loss = lambda *xs, ours=ours: np.sum(np.sin(ours.logpdf(*xs)))
        symmetric = lambda *xs, loss=loss: loss(
            *(x if np.ndim(x) != 2 or i == 0 else (x + np.swapaxes(x, 0, 1)) / 2 for i, x in enumerate(xs))
        )
        fixed = (x, *args)
        fg.testing.check_grads(
            lambda *xs: symmetric(*[xs[where.index(i)] if i in where else None for i in range(len(fixed))]),
            tuple(fixed[i] for i in where),
            order=2,
        )
    assert stats.multivariate_normal.logpdf(0.5) == pytest.approx(theirs.multivariate_normal.logpdf(0.5))
    ones = stats.multivariate_normal.logpdf(x[:, 0], 0.3, 2.0)
    np.testing.assert_allclose(ones, theirs.multivariate_normal.logpdf(x[:, 0], 0.3, 2.0))
    with pytest.raises(AttributeError, match="multivariate_normal has no cdf; it has pdf, logpdf, entropy"):
        stats.multivariate_normal.cdf
    with pytest.raises(AttributeError, match="multivariate_t has no cdf; it has pdf, logpdf\\."):
        stats.multivariate_t.cdf
    assert (
        stats.multivariate_normal.logpdf(x.astype("f4"), mean.astype("f4"), cov.astype("f4")).dtype
        == np.float32
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_normal_densities_on_subspaces(rank):
    """Values are SciPy's, derivatives those along matrices of the same rank, also of equal eigenvalues."""
    rng = np.random.default_rng(rank)
    ours, reference = stats.multivariate_normal, theirs.multivariate_normal
    z, mean = rng.normal(size=(4, rank)), rng.normal(size=3)
    near = np.eye(3)[:, :rank] + 0.3 * rng.normal(size=(3, rank))
    for low in (near, np.linalg.qr(rng.normal(size=(3, rank)))[0]):
        cov, x = low @ low.T, mean + z @ low.T
        for f, g, args in (
            (ours.logpdf, reference.logpdf, (x, mean, cov, True)),
            (ours.pdf, reference.pdf, (x[0], mean, cov, True)),
            (ours.entropy, reference.entropy, (mean, cov)),
        ):
            np.testing.assert_allclose(f(*args), g(*args), rtol=1e-9)
            np.testing.assert_allclose(fg.jit(lambda *a: f(*a, *args[3:]))(*args[:3]), g(*args), rtol=1e-9)
        if rank < 3:
            np.testing.assert_array_equal(ours.logpdf(x + np.eye(3)[0], mean, cov, True), -np.inf)
            outside = fg.grad(lambda x: np.sum(ours.pdf(x, mean, cov, allow_singular=True)))(x + 1)
            np.testing.assert_array_equal(outside, np.zeros((4, 3)))

        def loss(z, mean, low, of=ours):
            found = of.logpdf(mean + z @ low.T, mean, low @ low.T, allow_singular=True)
            return np.sum(np.sin(found)) + of.entropy(mean, low @ low.T) ** 2

        fg.testing.check_grads(loss, (z, mean, low), order=2)
        e = [rng.normal(size=v.shape) for v in (z, mean, low)]
        sides = [
            loss(*(v + h * d for v, d in zip((z, mean, low), e, strict=True)), of=reference)
            for h in (1e-5, -1e-5)
        ]
        pulled = fg.grad(loss, (0, 1, 2))(z, mean, low)
        slope = sum(np.sum(g * d) for g, d in zip(pulled, e, strict=True))
        np.testing.assert_allclose(slope, (sides[0] - sides[1]) / 2e-5, rtol=1e-5)


def test_entropies_of_normal_distributions():
    ours, reference = stats.multivariate_normal, theirs.multivariate_normal
    cov = spd(2)
    for args in ((None, cov), (0.3, 2.0), (np.zeros(2), 2.0), (np.zeros(2), np.array([1.0, 3.0])), ()):
        np.testing.assert_allclose(ours.entropy(*args), reference.entropy(*args), rtol=1e-12)
    gradient = fg.grad(lambda c: ours.entropy(None, (c + c.T) / 2))(cov)
    np.testing.assert_allclose(gradient, np.linalg.inv(cov) / 2, rtol=1e-10)
    assert ours.entropy(None, cov.astype("f")).dtype == np.float32
    zero = np.zeros((2, 2))
    assert ours.entropy(None, zero) == reference.entropy(None, zero)
    np.testing.assert_array_equal(fg.grad(lambda c: ours.entropy(None, c))(zero), zero)
    for f in (lambda c: ours.entropy(None, c), lambda c: ours.logpdf(np.zeros(2), None, c, True)):
        with pytest.raises(ValueError, match="positive semidefinite"):
            f(np.diag([1.0, -1.0]))
    with pytest.raises(np.linalg.LinAlgError):
        ours.logpdf(np.zeros(2), None, np.diag([1.0, 0.0]))


def test_dirichlet_and_wishart():
    alpha = np.array([0.7, 2.5, 1.5])
    x = np.random.default_rng(0).dirichlet(alpha, 4).T
    np.testing.assert_allclose(stats.dirichlet.logpdf(x, alpha), theirs.dirichlet.logpdf(x, alpha))
    np.testing.assert_allclose(stats.dirichlet.pdf(x[:-1, 0], alpha), theirs.dirichlet.pdf(x[:-1, 0], alpha))
    fg.testing.check_grads(lambda x, alpha: stats.dirichlet.logpdf(x, alpha), (x, alpha), order=2)
    with pytest.raises(ValueError, match="x has 5 components along its first axis, alpha has 3"):
        stats.dirichlet.logpdf(np.ones(5), alpha)
    scale, df = spd(2), 4.5
    w = np.stack([spd(3), spd(4)], -1)
    for point in (w, w[..., 0]):
        np.testing.assert_allclose(
            stats.wishart.logpdf(point, df, scale), theirs.wishart.logpdf(point, df, scale)
        )
    fg.testing.check_grads(
        lambda a, df, b: stats.wishart.logpdf(a + a.T, df, b + b.T), (w[..., 0], df, scale), order=2
    )
    np.testing.assert_allclose(stats.wishart.pdf(1.5, 3.0, 2.0), theirs.wishart.pdf(1.5, 3.0, 2.0))


@pytest.mark.parametrize("n", [1, 2])
def test_densities_of_vectors_take_one_matrix(n):
    several = np.stack([np.eye(n)] * 3)
    with pytest.raises(ValueError, match="the matrix has 3 axes; map over several with vmap"):
        stats.multivariate_normal.logpdf(np.ones(n), np.zeros(n), several)
    with pytest.raises(ValueError, match="the matrix has 3 axes"):
        stats.multivariate_t.pdf(np.ones(n), np.zeros(n), several, 3.0)
    each = fg.vmap(stats.multivariate_normal.logpdf, (None, None, 0))(np.ones(n), np.zeros(n), several)
    np.testing.assert_allclose(each, theirs.multivariate_normal.logpdf(np.ones(n), np.zeros(n), np.eye(n)))


def test_a_fit_by_maximum_likelihood():
    """The slope of a likelihood is zero at SciPy's estimate, and there only by all parameters at once."""
    x = theirs.gamma.rvs(2.5, scale=1.5, size=200, random_state=0)
    a, _, scale = theirs.gamma.fit(x, floc=0)
    slope = fg.grad(lambda a, scale: np.mean(stats.gamma.logpdf(x, a, scale=scale)), (0, 1))
    np.testing.assert_allclose(slope(a, scale), 0, atol=1e-6)
    assert np.abs(slope(a + 0.1, scale)).max() > 1e-2
