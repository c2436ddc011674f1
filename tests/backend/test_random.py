"""Random numbers on a device: the CPU's where a Generator draws them, else of the same distribution."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from tests.backend.checks import DEVICE, no_transfers, on_device

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import random
from fgrad.backend import devices

A, B, C = np.array([0.5, 1.5, 4.0]), np.array([1.2, 0.7, 2.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
SIZE = (4, 3)
N = 20000


def beside(x, t):
    return fg.tensor(x, device=t.device)


SHIFTED = {  # a Generator draws standard numbers, whatever the parameters are
    "normal": lambda s, a, b: random.normal(s, a, b, SIZE),
    "normal of numbers": lambda s, a, b: random.normal(s, 1.0, b, SIZE),
    "normal of lists": lambda s, a, b: random.normal(s, [1.0, 2.0, 3.0], b, SIZE),
    "normal in single precision": lambda s, a, b: random.normal(s, a, b, SIZE, np.float32),
    "uniform": lambda s, a, b: random.uniform(s, a, a + b, SIZE),
    "exponential": lambda s, a, b: random.exponential(s, b, SIZE),
    "gumbel": lambda s, a, b: random.gumbel(s, a, b, SIZE),
    "laplace": lambda s, a, b: random.laplace(s, a, b, SIZE),
    "logistic": lambda s, a, b: random.logistic(s, a, b, SIZE),
    "lognormal": lambda s, a, b: random.lognormal(s, a, b, SIZE),
    "weibull": lambda s, a, b: random.weibull(s, b, SIZE),
    "pareto": lambda s, a, b: random.pareto(s, b, SIZE),
    "power": lambda s, a, b: random.power(s, b, SIZE),
    "rayleigh": lambda s, a, b: random.rayleigh(s, b, SIZE),
    "cauchy": lambda s, a, b: random.cauchy(s, a, b, SIZE),
    "triangular": lambda s, a, b: random.triangular(s, a, a + b, a + 2 * b, SIZE),
    "truncated_normal": lambda s, a, b: random.truncated_normal(s, a, a + b, 0.3, b, SIZE),
    "gamma of a number": lambda s, a, b: random.gamma(s, 2.0, b, SIZE),
    "student_t of a number": lambda s, a, b: random.student_t(s, 3.0, a, b, SIZE),
    "multivariate_normal": lambda s, a, b: random.multivariate_normal(s, [1.0, 2.0], b[0] * beside(C, b), 5),
    "permutation": lambda s, a, b: random.permutation(s, a),
    "choice": lambda s, a, b: random.choice(s, a, 4),
}  # fmt: skip
STEPS = {  # without slopes
    "bernoulli": lambda s, a, b: random.bernoulli(s, a / 5, SIZE),
    "categorical": lambda s, a, b: random.categorical(s, a, size=9),
}


@pytest.mark.parametrize("name", SHIFTED | STEPS)
def test_numbers_of_a_generator_are_the_same_as_on_the_cpu(name):
    f = (SHIFTED | STEPS)[name]
    mine, theirs = np.random.default_rng(7), np.random.default_rng(7)
    found, expected = f(mine, on_device(A), on_device(B)), f(theirs, fg.tensor(A), fg.tensor(B))
    assert (found.device, found.dtype) == (DEVICE, expected.dtype)
    tol = 1e-6 if expected.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=tol, atol=tol)
    assert mine.random() == theirs.random()


@pytest.mark.parametrize("name", SHIFTED)
def test_derivatives_are_those_of_the_cpu(name):
    f = SHIFTED[name]

    def loss(a, b):
        y = f(np.random.default_rng(7), a, b)
        return fnp.sum(y * fnp.cos(y))

    found = fg.grad(loss, (0, 1))(on_device(A), on_device(B))
    expected = fg.grad(loss, (0, 1))(fg.tensor(A), fg.tensor(B))
    tol = 1e-4 if "single" in name else 1e-10
    for x, y in zip(found, expected, strict=True):
        assert x.device == DEVICE
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=tol, atol=tol)


def test_only_the_standard_numbers_are_sent():
    rng, a, b = np.random.default_rng(0), on_device(A), on_device(B)
    random.normal(rng, a, b, SIZE)
    before = devices.transfers()
    random.normal(rng, a, b, SIZE)
    after = devices.transfers()
    assert after["to_device"] == before["to_device"] + 1
    assert after["to_host"] == before["to_host"]


# (source, parameters at the place) -> samples, and their distribution for numbers
SAMPLED = {
    "gamma": (lambda s, p: random.gamma(s, p[0], p[1], N), (0.3, 2.0), stats.gamma(0.3, scale=2.0)),
    "gamma of a large shape": (lambda s, p: random.gamma(s, p[0], size=N), (30.0,), stats.gamma(30.0)),
    "chisquare": (lambda s, p: random.chisquare(s, p[0], N), (3.0,), stats.chi2(3)),
    "student_t": (lambda s, p: random.student_t(s, p[0], p[1], 2.0, N), (4.0, 1.0), stats.t(4, 1, 2)),
    "f": (lambda s, p: random.f(s, p[0], p[1], N), (3.0, 8.0), stats.f(3, 8)),
    "beta": (lambda s, p: random.beta(s, p[0], p[1], N), (0.6, 2.5), stats.beta(0.6, 2.5)),
    "beta of a number": (lambda s, p: random.beta(s, 2.0, p[0], N), (0.6,), stats.beta(2.0, 0.6)),
    "dirichlet": (
        lambda s, p: random.dirichlet(s, p[0] * [0.5, 1.0, 2.0], N)[:, 1],
        (1.0,),
        stats.beta(1.0, 2.5),
    ),
}  # fmt: skip
COUNTED = {
    "poisson of a small mean": (lambda s, p: random.poisson(s, p[0], N), (0.7,), stats.poisson(0.7)),
    "poisson": (lambda s, p: random.poisson(s, p[0], N), (9.9,), stats.poisson(9.9)),
    "poisson of a large mean": (lambda s, p: random.poisson(s, p[0], N), (10.0,), stats.poisson(10.0)),
    "poisson of a huge mean": (lambda s, p: random.poisson(s, p[0], N), (4e5,), stats.poisson(4e5)),
    "binomial of few": (lambda s, p: random.binomial(s, 7, p[0], N), (0.3,), stats.binom(7, 0.3)),
    "binomial that is turned": (lambda s, p: random.binomial(s, 9, p[0], N), (0.9,), stats.binom(9, 0.9)),
    "binomial": (lambda s, p: random.binomial(s, 60, p[0], N), (0.4,), stats.binom(60, 0.4)),
    "binomial of many": (
        lambda s, p: random.binomial(s, p[0].astype(int), 0.7, N),
        (5000.0,),
        stats.binom(5000, 0.7),
    ),
    "integers": (lambda s, p: random.integers(s, p[0].astype(int), 9, N), (2.0,), stats.randint(2, 9)),
    "integers to the end": (
        lambda s, p: random.integers(s, -3, p[0].astype(int), N, np.int16, endpoint=True),
        (2.0,),
        stats.randint(-3, 3),
    ),
    "choice": (
        lambda s, p: random.choice(s, 3, N, p=p[0] * [0.2, 0.5, 0.3]),
        (1.0,),
        stats.rv_discrete(values=([0, 1, 2], [0.2, 0.5, 0.3])),
    ),
}  # fmt: skip
SOURCES = {
    "generator": lambda: np.random.default_rng(3),
    "key": lambda: fg.tensor(random.key(3), device="cuda"),
}


def draws(f, params, source):
    made = f(SOURCES[source](), [on_device(np.array(p)) for p in params])
    assert made.device == DEVICE
    return made.numpy()


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", SAMPLED)
def test_samples_have_their_distribution(name, source):
    f, params, distribution = SAMPLED[name]
    assert stats.kstest(draws(f, params, source), distribution.cdf).pvalue > 1e-3


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", COUNTED)
def test_counts_have_their_distribution(name, source):
    f, params, distribution = COUNTED[name]
    found = draws(f, params, source)
    mean, spread = float(distribution.mean()), float(distribution.std())
    assert abs(found.mean() - mean) < 4 * spread / math.sqrt(N)
    assert abs(found.var() / spread**2 - 1) < 0.06
    levels = np.unique(distribution.ppf(np.linspace(0.02, 0.98, 25))).astype(int)  # last ones of cells
    edges = np.concatenate([[-math.inf], levels, [math.inf]])
    expected = np.diff(np.concatenate([[0.0], distribution.cdf(levels), [1.0]])) * N
    counted = np.array([np.sum((found > a) & (found <= b)) for a, b in pairwise(edges)])
    kept = expected > 5
    chi = np.sum((counted - expected)[kept] ** 2 / expected[kept])
    assert stats.chi2.sf(chi, kept.sum() - 1) > 1e-3
    assert counted[~kept].sum() <= 40


def test_a_generator_moves_on_and_gives_the_same_again():
    lam = on_device(A)
    rng = np.random.default_rng(5)
    first, second = random.poisson(rng, lam, (50, 3)).numpy(), random.poisson(rng, lam, (50, 3)).numpy()
    assert (first != second).any()
    np.testing.assert_array_equal(random.poisson(np.random.default_rng(5), lam, (50, 3)).numpy(), first)


def test_only_the_words_of_a_key_are_sent():
    rng, lam = np.random.default_rng(0), on_device(A)
    random.poisson(rng, lam, (5, 3))
    before = devices.transfers()
    random.poisson(rng, lam, (5, 3))
    after = devices.transfers()
    assert after["to_device"] == before["to_device"] + 1
    assert after["to_host"] == before["to_host"]
    key = fg.tensor(random.key(0), device="cuda")
    with no_transfers(reads=True):
        random.poisson(key, lam, (5, 3))


def test_slopes_of_samples_are_those_of_the_rule_at_the_sample():
    # of y = Q(u; a) the slope in a is -(dF/da) / p, by differences of SciPy's distribution functions
    for f, make, value in (
        (random.chisquare, stats.chi2, 3.0),
        (lambda s, b: random.beta(s, 2.0, b), lambda b: stats.beta(2.0, b), 1.7),
        (random.gamma, stats.gamma, 0.4),
    ):
        y, slope = fg.value_and_grad(lambda t, f=f: f(np.random.default_rng(2), t))(
            fg.tensor(value, device="cuda")
        )
        y, h = float(y), 1e-5
        change = (make(value + h).cdf(y) - make(value - h).cdf(y)) / (2 * h)
        np.testing.assert_allclose(float(slope), -change / make(value).pdf(y), rtol=1e-6)


def test_samples_without_replacement():
    p = on_device(np.array([0.5, 0.0, 0.3, 0.2]))
    firsts = []
    keys = fg.random.split(fg.tensor(random.key(1), device="cuda"), 3000)
    drawn = fg.vmap(lambda k: random.choice(k, 4, 3, replace=False, p=p))(keys).numpy()
    assert (np.sort(drawn) == [0, 2, 3]).all()
    firsts = np.bincount(drawn[:, 0], minlength=4) / len(drawn)
    np.testing.assert_allclose(firsts, p.numpy(), atol=0.04)
    orders = fg.vmap(lambda k: random.permutation(k, 3))(keys).numpy()
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_wide_intervals():
    a = on_device(np.array([-(2**63), 0, 5]))
    b = on_device(np.array([2**63 - 1, 2**62 * 3 // 2, 5]))
    found = random.integers(np.random.default_rng(0), a, b, (N, 3), endpoint=True).numpy()
    np.testing.assert_allclose(found[:, 0].astype(float).mean() / 2.0**63, 0, atol=0.02)
    assert (found[:, 1] >= 0).all()
    assert stats.kstest(found[:, 1] / (2**62 * 1.5), "uniform").pvalue > 1e-3
    assert (found[:, 2] == 5).all()


def test_shuffle():
    x = on_device(np.arange(10.0))
    random.shuffle(np.random.default_rng(1), x)
    assert x.device == DEVICE
    np.testing.assert_array_equal(np.sort(x.numpy()), np.arange(10.0))
    t = fg.tensor(np.arange(10.0))
    random.shuffle(np.random.default_rng(1), t)
    np.testing.assert_array_equal(x.numpy(), t.numpy())


def test_examples_and_programs():
    keys = fg.random.split(fg.tensor(random.key(1), device="cuda"), 4)
    lam = on_device(np.array([1.0, 5.0, 20.0, 300.0]))
    mapped = fg.vmap(lambda k, m: random.poisson(k, m, 6))(keys, lam).numpy()
    for i in range(4):
        np.testing.assert_array_equal(mapped[i], random.poisson(keys[i], lam[i], 6).numpy())
    compiled = fg.jit(lambda k, m: random.poisson(k, m, 6))(keys[3], lam[3])
    np.testing.assert_array_equal(compiled.numpy(), mapped[3])
    gamma = fg.jit(fg.vmap(lambda k, m: random.gamma(k, m)))(keys, lam)
    np.testing.assert_allclose(gamma.numpy(), fg.vmap(random.gamma)(keys, lam).numpy())


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda s, a: random.poisson(s, -a), "lam < 0"),
        (lambda s, a: random.poisson(s, a * 1e20), "too large"),
        (lambda s, a: random.binomial(s, 3, a), "p > 1"),
        (lambda s, a: random.binomial(s, -a.astype(int), 0.5), "n < 0"),
        (lambda s, a: random.integers(s, 9, a.astype(int)), "low >= high"),
        (lambda s, a: random.integers(s, a.astype(int), 999, dtype=np.int8), "out of bounds for int8"),
        (lambda s, a: random.choice(s, 3, 2, p=a), "sum to 1"),
        (lambda s, a: random.choice(s, 3, 4, False, p=a / a.sum()), "larger sample"),
        (lambda s, a: random.choice(s, 4, 2, p=a), "same size"),
        (lambda s, a: random.gamma(s, -a), "shape <= 0"),
    ],
)
@pytest.mark.parametrize("source", SOURCES)
def test_what_numpy_refuses(f, message, source):
    with pytest.raises(ValueError, match=message):
        f(SOURCES[source](), on_device(A + 1))


def test_arrays_of_numpy_beside_parameters_on_a_device_are_refused():
    rng = np.random.default_rng(0)
    for f in (
        lambda: random.normal(rng, A, on_device(B)),
        lambda: random.beta(rng, A, on_device(B)),
        lambda: random.poisson(random.key(0), on_device(B)),
        lambda: random.integers(rng, np.array([1, 2, 3]), on_device(np.array([5, 6, 7]))),
    ):
        with pytest.raises(TypeError, match="different devices, cuda:0 and cpu"):
            f()
