"""Continuous samplers: NumPy's streams, the right distributions, pathwise derivatives against differences."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import betainc

import fgrad as fg
from fgrad import random
from fgrad.core.dispatch import bind
from fgrad.core.primitive import NUMPY
from fgrad.testing import check_grads

COV = np.array([[2.0, 0.5], [0.5, 1.0]])

# name: (parameters, distribution function)
LAWS = {
    "normal": ((1.0, 2.0), stats.norm(1, 2)),
    "uniform": ((-1.0, 3.0), stats.uniform(-1, 4)),
    "exponential": ((2.0,), stats.expon(0, 2)),
    "gumbel": ((1.0, 2.0), stats.gumbel_r(1, 2)),
    "laplace": ((1.0, 2.0), stats.laplace(1, 2)),
    "logistic": ((1.0, 2.0), stats.logistic(1, 2)),
    "lognormal": ((0.2, 0.7), stats.lognorm(0.7, 0, np.exp(0.2))),
    "weibull": ((1.7,), stats.weibull_min(1.7)),
    "pareto": ((2.5,), stats.lomax(2.5)),
    "power": ((2.5,), stats.powerlaw(2.5)),
    "rayleigh": ((1.5,), stats.rayleigh(0, 1.5)),
    "triangular": ((-1.0, 0.5, 3.0), stats.triang(1.5 / 4, -1, 4)),
    "cauchy": ((1.0, 2.0), stats.cauchy(1, 2)),
    "truncated_normal": ((1.0, 4.0, 0.5, 1.3), stats.truncnorm(0.5 / 1.3, 3.5 / 1.3, 0.5, 1.3)),
    "gamma": ((2.5, 2.0), stats.gamma(2.5, 0, 2)),
    "chisquare": ((3.0,), stats.chi2(3)),
    "beta": ((0.5, 2.0), stats.beta(0.5, 2)),
    "student_t": ((3.0, 1.0, 2.0), stats.t(3, 1, 2)),
    "f": ((5.0, 7.0), stats.f(5, 7)),
}
OWN = {"cauchy", "truncated_normal", "student_t", "f"}  # not NumPy's stream
IMPLICIT = {"gamma", "chisquare", "beta", "student_t", "f"}  # rejection: not continuous at a fixed stream


def rng():
    return np.random.default_rng(11)


@pytest.mark.parametrize("name", sorted(set(LAWS) - OWN))
def test_a_generator_gives_the_stream_of_numpy(name):
    sampler, params = getattr(random, name), LAWS[name][0]
    for size in (None, 5, (2, 3)):
        expected = getattr(rng(), name)(*params, size=size)
        found = sampler(rng(), *params, size=size)
        assert found.shape == np.shape(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-14)
        tensors = [fg.tensor(p) for p in params]
        found = sampler(rng(), *tensors, size=size)
        assert isinstance(found, fg.Tensor)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-14)
    column = np.array(params[0]) * np.ones((3, 1))
    expected = getattr(rng(), name)(column, *params[1:], size=(2, 3, 4))
    np.testing.assert_allclose(sampler(rng(), column, *params[1:], size=(2, 3, 4)), expected, rtol=1e-14)


def test_other_streams_of_numpy():
    found = random.cauchy(rng(), size=(2, 3))
    np.testing.assert_array_equal(found, rng().standard_cauchy((2, 3)))
    assert random.student_t(rng(), 3.0) == pytest.approx(rng().standard_t(3.0))
    assert random.f(rng(), 3.0, 4.0) == pytest.approx(rng().f(3.0, 4.0))
    alpha = np.array([0.05, 2.0, 3.0])
    np.testing.assert_allclose(random.dirichlet(rng(), alpha, 4), rng().dirichlet(alpha, 4), rtol=1e-14)
    mean = np.array([1.0, -1.0])
    expected = rng().multivariate_normal(mean, COV, 3, method="cholesky")
    np.testing.assert_allclose(random.multivariate_normal(rng(), mean, COV, 3), expected, rtol=1e-14)


@pytest.mark.parametrize("name", LAWS)
def test_the_distribution_is_right(name):
    params, law = LAWS[name]
    for source in (random.key(17), rng()):
        x = getattr(random, name)(source, *params, size=20_000)
        assert x.dtype == np.float64
        assert stats.kstest(x, law.cdf).pvalue > 1e-3
    narrow = getattr(random, name)(random.key(18), *params, size=5000, dtype=np.float32)
    assert narrow.dtype == np.float32
    assert stats.kstest(narrow.astype(float), law.cdf).pvalue > 1e-3


def test_vectors_have_the_right_moments():
    alpha = np.array([0.5, 2.0, 3.0])
    for source in (random.key(2), rng()):
        x = random.dirichlet(source, alpha, 20_000)
        np.testing.assert_allclose(x.sum(-1), 1)
        np.testing.assert_allclose(x.mean(0), alpha / alpha.sum(), atol=0.01)
        assert stats.kstest(x[:, 0], stats.beta(0.5, 5).cdf).pvalue > 1e-3
        y = random.multivariate_normal(source, np.array([1.0, 2.0]), COV, 20_000)
        np.testing.assert_allclose(y.mean(0), [1, 2], atol=0.05)
        np.testing.assert_allclose(np.cov(y.T), COV, atol=0.06)


@pytest.mark.parametrize("dtype", ["e", "f", "d"])
def test_fractions_are_less_than_one_and_spread_evenly(dtype):
    for source in (random.key(2), np.random.default_rng(2)):
        u = random.uniform(source, size=100_000, dtype=dtype)
        assert u.dtype == dtype
        assert u.min() >= 0
        assert u.max() < 1
        assert stats.kstest(u.astype("d"), "uniform").pvalue > 1e-3
    u = fg.jit(lambda key: random.uniform(key, -1.0, 0.0, size=100_000, dtype=dtype))(random.key(2))
    assert u.max() < 0


def test_small_shapes_do_not_underflow():
    alpha = np.full(3, 1e-3)
    for source in (random.key(2), rng()):
        x = random.dirichlet(source, alpha, 2000)
        np.testing.assert_allclose(x.sum(-1), 1)
        np.testing.assert_allclose(x.mean(0), 1 / 3, atol=0.05)
    assert np.all(random.gamma(random.key(1), 1e-3, size=100) >= 0)
    g = fg.grad(lambda a: np.sum(random.gamma(rng(), a, size=100)))(1e-3)  # most samples are zero
    assert np.isfinite(g)
    assert np.isfinite(fg.grad(lambda a: np.sum(random.beta(rng(), a, a, size=100)))(1e-3))


SMOOTH = sorted(set(LAWS) - IMPLICIT)


@pytest.mark.parametrize("name", SMOOTH)
def test_pathwise_derivatives_at_fixed_randomness(name):
    sampler, params = getattr(random, name), LAWS[name][0]
    for source in (rng, lambda: random.key(4)):
        check_grads(lambda *p, source=source: sampler(source(), *p, size=(2, 3)), params, order=2)
    wide = tuple(np.array(p) * np.ones((2, 1)) for p in params)
    check_grads(lambda *p: sampler(random.key(4), *p, size=(2, 3)), wide, order=1)


@pytest.mark.parametrize("name", SMOOTH)
def test_narrow_samples_have_narrow_gradients(name):
    sampler, params = getattr(random, name), [np.float32(p) for p in LAWS[name][0]]
    grads = fg.grad(
        lambda *p: np.sum(sampler(random.key(4), *p, size=4, dtype=np.float32)), tuple(range(len(params)))
    )(*params)
    wide = fg.grad(
        lambda *p: np.sum(sampler(random.key(4), *p, size=4, dtype=np.float32).astype(float)),
        tuple(range(len(params))),
    )(*params)
    for g, w in zip(grads, wide, strict=True):
        assert g.dtype == np.float32
        np.testing.assert_allclose(g, w, rtol=1e-5)


def quantile_slope(a: float, z: float, order: int = 1) -> float:
    """Return the derivative of the gamma quantile in its shape, at the probability of `z`."""
    with mpmath.workdps(40):
        below = lambda s, y: mpmath.gammainc(s, 0, mpmath.exp(y), regularized=True)
        p = below(a, mpmath.log(z))
        solve = lambda s: mpmath.exp(mpmath.findroot(lambda y: below(s, y) - p, mpmath.log(z)))
        h = mpmath.mpf(10) ** -10
        if order == 1:
            return float((solve(a + h) - solve(a - h)) / (2 * h))
        return float((solve(a + h) - 2 * solve(a) + solve(a - h)) / (h * h))


@pytest.mark.parametrize("a", [0.1, 0.7, 2.0, 9.0, 400.0])
def test_gamma_has_the_derivative_of_its_quantile(a):
    for source in (rng, lambda: random.key(8)):
        f = lambda s, source=source: random.gamma(source(), s, 1.5)
        z = float(f(a)) / 1.5
        first, second = fg.grad(f)(a), fg.grad(fg.grad(f))(a)
        assert first / 1.5 == pytest.approx(quantile_slope(a, z), rel=1e-8)
        assert second / 1.5 == pytest.approx(quantile_slope(a, z, 2), rel=1e-5, abs=1e-9)
        assert fg.jvp(f, (a,), (1.0,))[1] == pytest.approx(first)


# shapes and samples from the middle and both tails, small and large
POINTS = [
    *((0.01, -50.0), (0.1, -3.0), (0.1, 1.0), (1.0, -2.0), (2.0, 0.9), (2.0, 3.0)),
    *((30.0, 3.0), (30.0, 3.9), (1e4, 9.2), (1e4, 9.25)),
]


@pytest.mark.parametrize(("a", "y"), POINTS)
def test_ratios_of_gamma_against_many_digits(a, y):
    with mpmath.workdps(40):
        x = mpmath.exp(y)
        h = mpmath.mpf(10) ** -10 * a
        below = lambda s: mpmath.gammainc(s, 0, x, regularized=True)
        density = mpmath.exp(a * mpmath.mpf(y) - x) / mpmath.gamma(a)
        first = float((below(a + h) - below(a - h)) / (2 * h) / density)
        second = float((below(a + h) - 2 * below(a) + below(a - h)) / (h * h) / density)
    at = np.array(y), np.array(a)
    assert float(bind("log_gamma_ratio", *at, index=(0,))) == pytest.approx(first, rel=1e-9)
    assert float(bind("log_gamma_ratio", *at, index=(0, 0))) == pytest.approx(second, rel=1e-7)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (2.0, 3.0), (0.2, 5.0), (40.0, 3.0)])
def test_beta_has_the_derivative_of_its_quantile(a, b):
    for source in (rng, lambda: random.key(8)):
        f = lambda s, t, source=source: random.beta(source(), s, t)
        x = float(f(a, b))
        with mpmath.workdps(30):
            density = mpmath.mpf(x) ** (a - 1) * (1 - mpmath.mpf(x)) ** (b - 1) / mpmath.beta(a, b)
            slopes = [
                float(-mpmath.diff(g, at) / density)
                for g, at in (
                    (lambda s: mpmath.betainc(s, b, 0, x, regularized=True), a),
                    (lambda t: mpmath.betainc(a, t, 0, x, regularized=True), b),
                )
            ]  # fmt: skip
        np.testing.assert_allclose(fg.grad(f, (0, 1))(a, b), slopes, rtol=1e-7)


def test_second_derivatives_of_beta_against_differences_of_the_quantile():
    a, b, x = 2.0, 3.0, float(random.beta(rng(), 2.0, 3.0))
    f = lambda p: random.beta(rng(), p[0], p[1])
    p0 = betainc(a, b, x)
    quantile = lambda s, t: stats.beta(s, t).ppf(p0)
    h = 1e-3
    aa = (quantile(a + h, b) - 2 * quantile(a, b) + quantile(a - h, b)) / h**2
    bb = (quantile(a, b + h) - 2 * quantile(a, b) + quantile(a, b - h)) / h**2
    ab = (
        quantile(a + h, b + h) - quantile(a + h, b - h) - quantile(a - h, b + h) + quantile(a - h, b - h)
    ) / (4 * h * h)
    hessian = fg.hessian(f)(np.array([a, b]))
    np.testing.assert_allclose(hessian, [[aa, ab], [ab, bb]], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("name", ["log_gamma_ratio", "logit_beta_ratio"])
@pytest.mark.parametrize("index", [(0,), (0, 0), (0, 1)])
def test_ratios_differentiate_to_second_order(name, index):
    theta = [np.array([0.6, 2.0, 9.0]), np.array([1.5, 0.8, 7.0])]
    if name == "log_gamma_ratio":
        if 1 in index:
            return
        theta = theta[:1]
    y = np.array([-0.5, 0.4, 2.1])
    check_grads(lambda *xs: bind(name, *xs, index=index), (y, *theta), order=2, rtol=1e-5, atol=1e-5)


def test_compositions_of_gamma_variables_have_unbiased_gradients():
    # the mean of the square of a Student t variable is df / (df - 2): slope -2 / (df - 2)**2
    n = 200_000
    slope = fg.grad(lambda df: np.mean(random.student_t(random.key(1), df, size=n) ** 2))(9.0)
    assert slope == pytest.approx(-2 / 49, abs=0.01)
    alpha = np.array([0.5, 2.0, 3.0])
    for source in (rng, lambda: random.key(3)):
        jacobian = fg.jacrev(lambda a, source=source: np.mean(random.dirichlet(source(), a, 20_000), 0))(
            alpha
        )
        total = alpha.sum()
        np.testing.assert_allclose(jacobian, np.eye(3) / total - alpha[:, None] / total**2, atol=0.01)


def test_dirichlet_has_the_derivative_of_gamma_quantiles():
    alpha = np.array([0.5, 2.0, 3.0])
    z = rng().standard_gamma(alpha)
    slopes = np.array([quantile_slope(float(a), float(x)) for a, x in zip(alpha, z, strict=True)])
    x = z / z.sum()
    expected = (np.diag(slopes) - x[:, None] * slopes) / z.sum()
    np.testing.assert_allclose(fg.jacrev(lambda a: random.dirichlet(rng(), a))(alpha), expected, rtol=1e-7)


@pytest.mark.parametrize(
    ("low", "high"),
    [(-np.inf, np.inf), (-1.0, 2.0), (5.0, 6.0), (30.0, np.inf), (-np.inf, -50.0), (8.0, 8.001)],
)
def test_truncated_normal_is_accurate_in_the_tails(low, high):
    words = np.array([0, 1 << 40, 1 << 50, 3 << 50, (1 << 52) - 1])
    z = bind("normal_between", words, np.array(low), np.array(high))
    assert np.all((low <= z) & (z <= high))
    assert np.all(np.diff(z) >= 0)
    with mpmath.workdps(60):
        below = lambda t: mpmath.erfc(-t / mpmath.sqrt(2)) / 2
        for word, x in zip(words.tolist(), z.tolist(), strict=True):
            u = (mpmath.mpf(word) + 0.5) / 2**52
            target = (1 - u) * below(mpmath.mpf(low)) + u * below(mpmath.mpf(high))
            density = mpmath.exp(-(mpmath.mpf(x) ** 2) / 2) / mpmath.sqrt(2 * mpmath.pi)
            assert abs((below(mpmath.mpf(x)) - target) / density) < 1e-13 * max(1, abs(x))


@pytest.mark.parametrize(("low", "high"), [(1.0, np.inf), (-np.inf, 0.5), (-np.inf, np.inf)])
def test_infinite_limits_have_no_gradient(low, high):
    f = lambda a, b, m, s: np.sum(random.truncated_normal(rng(), a, b, m, s, size=5))
    grads = fg.grad(f, (0, 1, 2, 3))(low, high, 0.5, 2.0)
    assert np.all(np.isfinite(grads))
    assert [g == 0 for g, x in zip(grads, (low, high), strict=False)] == [np.isinf(low), np.isinf(high)]
    check_grads(lambda m, s: f(low, high, m, s), (0.5, 2.0), order=2)


def test_multivariate_normal_follows_mean_and_covariance():
    mean = np.array([1.0, -1.0])
    for source in (rng, lambda: random.key(4)):
        both = lambda c: (c + np.swapaxes(c, 0, 1)) / 2
        f = lambda m, c, source=source: random.multivariate_normal(source(), m, both(c), 3)
        check_grads(lambda m, f=f: f(m, COV), (mean,), order=2)
        if np.linalg.cholesky in NUMPY:
            check_grads(f, (mean, COV), order=2)


@pytest.mark.parametrize("mode", ["vmap", "make_graph"])
def test_a_generator_is_refused_where_the_function_runs_once_for_many(mode):
    f = lambda x: random.normal(rng(), x)
    with pytest.raises(TypeError, match="pass a key"):
        fg.vmap(f)(np.ones(3)) if mode == "vmap" else fg.make_graph(f)(1.0)


def test_a_key_maps_and_stages_together_with_parameters():
    keys, shapes = random.split(random.key(1), 3), np.array([0.5, 1.0, 4.0])
    slope = fg.grad(lambda a, k: random.gamma(k, a))
    expected = [slope(a, k) for a, k in zip(shapes, keys, strict=True)]
    np.testing.assert_allclose(fg.vmap(slope)(shapes, keys), expected, rtol=1e-12)
    program = fg.make_graph(slope)(1.0, keys[0])
    np.testing.assert_allclose(program(0.5, keys[0]), expected[0], rtol=1e-12)
    np.testing.assert_allclose(
        fg.grad(lambda a: np.sum(fg.vmap(lambda k, s: random.gamma(k, s))(keys, a)))(shapes),
        expected,
        rtol=1e-12,
    )


@pytest.mark.parametrize("name", ["normal", "gamma", "beta"])
def test_numpy_itself_refuses_tracked_parameters(name):
    with pytest.raises(TypeError, match=r"detach|lose its gradient|no rule"):
        fg.grad(lambda x: np.sum(getattr(rng(), name)(*[x] * (1 + (name == "beta")))))(2.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: random.normal(rng(), 0.0, -1.0),
        lambda: random.exponential(rng(), -1.0),
        lambda: random.gamma(rng(), 0.0),
        lambda: random.beta(rng(), 1.0, -1.0),
        lambda: random.triangular(rng(), 0.0, 2.0, 1.0),
        lambda: random.truncated_normal(rng(), 2.0, 1.0),
        lambda: random.normal(rng(), np.zeros(3), size=2),
        lambda: random.normal(rng(), np.zeros(3), size=(3, 1)),
        lambda: random.dirichlet(rng(), 1.0),
        lambda: random.dirichlet(rng(), np.array([1.0, np.nan])),
        lambda: random.multivariate_normal(rng(), np.zeros(3), COV),
        lambda: random.multivariate_normal(rng(), np.zeros(2), COV, method="svd"),
    ],
)
def test_parameters_out_of_range_are_refused(call):
    with pytest.raises(ValueError):
        call()


@pytest.mark.parametrize("call", [lambda: random.normal(rng(), 1j), lambda: random.normal(rng(), dtype=int)])
def test_what_is_not_real_is_refused(call):
    with pytest.raises(TypeError):
        call()


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize(
    ("name", "params", "law"),
    [
        ("student_t", (0.01,), stats.t(0.01)),
        ("f", (0.01, 0.01), stats.f(0.01, 0.01)),
        ("f", (0.4, 0.01), stats.f(0.4, 0.01)),
    ],
)
def test_quotients_of_gamma_samples_overflow_where_they_are_too_large_alone(name, params, law, dtype):
    """Their parts underflow: quotients of zeros were NaN, those of zeros and others infinite."""
    n = 20_000
    with np.errstate(all="ignore"):
        drawn = np.asarray(getattr(random, name)(random.key(2), *params, size=n, dtype=dtype))
        assert not np.isnan(drawn).any()
        for x in (1e30, np.finfo(dtype).max / 2):
            expected = law.sf(min(x, 1e150)) * (1.0 if x < 1e150 else (1e150 / x) ** 0.005)
            if name == "student_t":
                expected *= 1.0 if x < 1e150 else (1e150 / x) ** 0.005
            assert abs(np.mean(drawn > x) - expected) < 5 * np.sqrt(expected / n)
