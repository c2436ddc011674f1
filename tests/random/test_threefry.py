"""Numbers drawn as JAX 0.10 draws them on the CPU: recorded from it, as integers where they are exact."""

import numpy as np
import pytest

import fgrad as fg
import fgrad.scipy.special
from fgrad.compat.jax import random  # JAX's name for it

KEY = random.PRNGKey(42)
P = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
ROWS = np.arange(8).reshape(4, 2)

EXACT = {
    "seed": (lambda: random.PRNGKey(-3), [0, 4294967293]),
    "split": (
        lambda: random.split(KEY, 3),
        [[1832780943, 270669613], [64467757, 2916123636], [2465931498, 255383827]],
    ),
    "fold_in": (lambda: random.fold_in(KEY, 7), [2547012911, 1371500959]),
    "bits": (lambda: random.bits(KEY, (3,)), [2098992034, 2919706841, 2646866425]),
    "bits, uint8": (lambda: random.bits(KEY, (4,), np.uint8), [162, 217, 249, 215]),
    "bits, uint64": (lambda: random.bits(KEY, (2,), np.uint64), [7871734211187709741, 276886910877598708]),
    "uniform": (
        lambda: random.uniform(KEY, (4,)).view(np.uint32),
        [1056585764, 1059981104, 1058915320, 1057988288],
    ),
    "uniform, float16": (
        lambda: random.uniform(KEY, (3,), np.float16).view(np.uint16),
        [11488, 12824, 15310],
    ),
    "uniform, float64": (
        lambda: random.uniform(KEY, (2,), np.float64).view(np.uint64),
        [4601358860358518916, 4579806337745978368],
    ),
    "randint": (lambda: random.randint(KEY, (5,), -5, 1000), [184, 514, 736, 539, 804]),
    "randint, uint8": (lambda: random.randint(KEY, (5,), 0, 256, np.uint8), [196, 18, 183, 193, 141]),
    "randint, int64": (
        lambda: random.randint(KEY, (3,), -7, 10**12, np.int64),
        [463954874117, 604908823457, 848937147695],
    ),
    "permutation": (lambda: random.permutation(KEY, 8), [7, 4, 2, 5, 3, 6, 0, 1]),
    "permutation of rows": (lambda: random.permutation(KEY, ROWS), [[4, 5], [6, 7], [0, 1], [2, 3]]),
    "permutation, independent": (
        lambda: random.permutation(KEY, ROWS, 1, True),
        [[0, 1], [2, 3], [4, 5], [7, 6]],
    ),
    "bernoulli": (lambda: random.bernoulli(KEY, 0.3, (8,)), [0, 0, 0, 0, 0, 0, 1, 0]),
    "rademacher": (lambda: random.rademacher(KEY, (6,)), [1, -1, -1, -1, 1, -1]),
    "choice": (lambda: random.choice(KEY, 50, (4,)), [44, 14, 21, 19]),
    "choice without replacement": (lambda: random.choice(KEY, 9, (4,), False), [7, 4, 2, 5]),
    "choice by p": (lambda: random.choice(KEY, 4, (6,), True, P), [2, 2, 2, 2, 2, 2]),
    "choice by p without replacement": (lambda: random.choice(KEY, 4, (3,), False, P), [3, 2, 1]),
    "categorical": (lambda: random.categorical(KEY, np.log(P), shape=(8,)), [3, 3, 3, 3, 3, 3, 1, 1]),
    "categorical without replacement": (
        lambda: random.categorical(KEY, np.log(P), shape=(3,), replace=False),
        [3, 2, 1],
    ),
    "poisson": (
        lambda: random.poisson(KEY, np.float32([0.0, 0.5, 3.0, 9.9, 10.0, 100.0, 1e6])),
        [0, 1, 2, 7, 5, 90, 999466],
    ),
    "poisson, few": (lambda: random.poisson(KEY, 3.0, (5,)), [6, 2, 2, 1, 5]),
    "poisson, many": (lambda: random.poisson(KEY, 30.0, (5,)), [34, 35, 24, 26, 22]),
    "geometric": (lambda: random.geometric(KEY, 0.2, (5,)), [4, 2, 3, 3, 4]),
}

ROUNDED = {
    "normal": (lambda: random.normal(KEY, (3,)), [-0.028304616, 0.46713185, 0.29570296]),
    "normal, float64": (
        lambda: random.normal(KEY, (2,), np.float64),
        [-0.18471174528191162, -2.169824560397754],
    ),
    "normal, complex": (
        lambda: random.normal(KEY, (2,), np.complex64),
        [0.05368746 + 0.42833984j, -0.34389618 + 0.56500947j],
    ),
    "gumbel": (lambda: random.gumbel(KEY, (3,)), [0.33409339, 0.95201945, 0.72553056]),
    "gumbel, high": (lambda: random.gumbel(KEY, (3,), mode="high"), [0.39925799, -0.12997562, 0.04309541]),
    "exponential": (lambda: random.exponential(KEY, (3,)), [0.67081749, 1.138800621, 0.957819998]),
    "laplace": (lambda: random.laplace(KEY, (3,)), [0.02283965, -0.44565356, -0.26467291]),
    "logistic": (lambda: random.logistic(KEY, (3,)), [-0.04516941, 0.7528398, 0.47375232]),
    "cauchy": (lambda: random.cauchy(KEY, (3,)), [-0.03548463, 0.63372612, 0.38244057]),
    "maxwell": (lambda: random.maxwell(KEY, (3,)), [0.55358249, 0.29328507, 1.70860302]),
    "truncated_normal": (
        lambda: random.truncated_normal(KEY, -1.0, 2.0, (3,)),
        [0.14770006, 0.56844491, 0.42102551],
    ),
    "pareto": (lambda: random.pareto(KEY, 2.0, (3,)), [1.39851189, 1.76720691, 1.61431384]),
    "lognormal": (lambda: random.lognormal(KEY, 0.5, (3,)), [0.98594737, 1.26309609, 1.15934074]),
    "rayleigh": (lambda: random.rayleigh(KEY, 2.0, (3,)), [2.3933022, 1.75718141, 1.96787739]),
    "weibull_min": (lambda: random.weibull_min(KEY, 1.5, 2.0, (3,)), [1.22855175, 1.60071909, 1.46802425]),
    "triangular": (lambda: random.triangular(KEY, 0.0, 1.0, 3.0, (3,)), [1.24850273, 1.61392033, 1.48264337]),
    "wald": (lambda: random.wald(KEY, 2.0, (3,)), [2.22658849, 3.92771244, 0.38947535]),
    "multivariate_normal": (
        lambda: random.multivariate_normal(
            KEY, np.array([1.0, 2.0], np.float32), np.array([[2.0, 0.5], [0.5, 1.0]], np.float32), (2,)
        ),
        [[0.95997125, 2.42695475], [1.41818714, 2.24817586]],
    ),
    "gamma": (
        lambda: random.gamma(KEY, np.float32([0.1, 0.5, 1.0, 3.0])),
        [0.010568515, 0.50632739, 2.007246, 1.9913787],
    ),
    "loggamma": (
        lambda: random.loggamma(KEY, np.float32([1e-3, 0.5, 1.0, 30.0])),
        [-537.9234, -0.68057168, 0.69676375, 3.3054218],
    ),
    "beta": (lambda: random.beta(KEY, 2.0, 0.3, (4,)), [0.9907968, 0.99999797, 0.95946968, 0.99924195]),
    "dirichlet": (
        lambda: random.dirichlet(KEY, np.float32([0.2, 1.0, 3.0]), (2,)),
        [[0.031146418, 0.061808199, 0.90704542], [0.00013737963, 0.10519808, 0.89466453]],
    ),
    "chisquare": (lambda: random.chisquare(KEY, 3.0, (3,)), [5.8707142, 1.397851, 5.5594234]),
    "f": (lambda: random.f(KEY, 3.0, 5.0, (3,)), [0.72836351, 0.35692549, 0.23560737]),
    "t": (lambda: random.t(KEY, 3.0, (3,)), [0.089874782, -1.7357467, 2.3520191]),
    "generalized_normal": (
        lambda: random.generalized_normal(KEY, 1.5, (3,)),
        [-0.87823755, -0.20616245, 1.160471],
    ),
    "orthogonal": (lambda: random.orthogonal(KEY, 2), [[-0.09528422, 0.99545008], [0.99545008, 0.09528429]]),
}


@pytest.mark.parametrize("name", EXACT)
def test_drawn_bit_for_bit(name):
    draw, recorded = EXACT[name]
    found = draw()
    assert type(found) is np.ndarray
    assert found.tolist() == recorded


@pytest.mark.parametrize("name", ROUNDED)
def test_drawn_to_rounding(name):
    draw, recorded = ROUNDED[name]
    found = draw()
    assert found.dtype.itemsize == (8 if "float64" in name or "complex" in name else 4)
    np.testing.assert_allclose(found, recorded, rtol=1e-14 if "float64" in name else 2e-5, atol=2e-6)


def test_dtypes_and_shapes():
    assert random.normal(KEY, (2, 3)).dtype == np.float32
    assert random.normal(KEY, (2,), np.float16).dtype == np.float16
    assert random.randint(KEY, (), 0, 5).shape == ()
    assert random.choice(KEY, ROWS, (3, 2), axis=1).shape == (4, 3, 2)
    assert random.orthogonal(KEY, 2, (5,), m=3).shape == (5, 2, 3)
    q = random.orthogonal(KEY, 3)
    np.testing.assert_allclose(q @ q.T, np.eye(3), atol=1e-6)
    assert random.categorical(KEY, np.zeros((4, 5)), axis=0).shape == (5,)
    wide = random.randint(KEY, (1000,), 0, 1 << 31)
    assert 0 <= wide.min() < wide.max() < 1 << 31


def test_mapped_and_compiled():
    keys = random.split(KEY, 3)
    for draw in (
        lambda k: random.uniform(k, (5,)),
        lambda k: random.randint(k, (5,), 0, 100),
        lambda k: random.permutation(k, 10),
        lambda k: random.split(random.fold_in(k, 3)),
        lambda k: random.gamma(k, 0.5, (5,)) > 0.3,
        lambda k: random.poisson(k, np.float32([2.0, 30.0])),
    ):
        expected = np.stack([draw(k) for k in keys])
        assert np.array_equal(fg.vmap(draw)(keys), expected)
        assert np.array_equal(fg.jit(draw)(keys[0]), expected[0])
    seeds = fg.vmap(random.PRNGKey)(np.arange(3))
    assert seeds.tolist() == [[0, 0], [0, 1], [0, 2]]


def test_derivatives_in_parameters():
    h = 1e-6
    for draw in (
        lambda s: random.lognormal(KEY, s, (3,), np.float64).sum(),
        lambda s: random.uniform(KEY, (3,), np.float64, 0.0, s).sum(),
        lambda s: random.truncated_normal(KEY, s, 2.0, (3,), np.float64).sum(),
    ):
        difference = (draw(0.5 + h) - draw(0.5 - h)) / (2 * h)
        np.testing.assert_allclose(fg.grad(draw)(0.5), difference, rtol=1e-6)


def test_derivatives_of_gamma_variables_keep_their_probability():
    for a in (0.7, 4.0):
        for draw, inverse in ((random.gamma, lambda x: x), (random.loggamma, np.exp)):
            x = draw(KEY, a, dtype=np.float64)
            slope = fg.jit(fg.grad(lambda a, draw=draw: draw(KEY, a, dtype=np.float64)))(a)
            probability = fg.scipy.special.gammainc(a, inverse(x))
            h = 1e-6
            difference = (
                fg.scipy.special.gammainc(a + h, inverse(x + h * slope))
                - fg.scipy.special.gammainc(a - h, inverse(x - h * slope))
            ) / (2 * h)
            np.testing.assert_allclose(difference, 0, atol=1e-6 * probability)
    assert random.gamma(KEY, np.ones((0, 2))).shape == (0, 2)
    with pytest.raises(ValueError, match="at least one axis"):
        random.dirichlet(KEY, 1.0)


def test_what_is_refused():
    with pytest.raises(TypeError, match=r"a key is two words.*use vmap"):
        random.normal(random.split(KEY))
    with pytest.raises(ValueError, match="bits are unsigned"):
        random.bits(KEY, (), np.int32)
    with pytest.raises(TypeError, match="randint draws integers"):
        random.randint(KEY, (), 0, 1, np.float32)
    with pytest.raises(ValueError, match="do not broadcast to shape"):
        random.uniform(KEY, (2,), minval=np.zeros(3))
    with pytest.raises(ValueError, match="without replacement"):
        random.choice(KEY, 3, (4,), False)
    with pytest.raises(NotImplementedError, match="by threefry2x32, not by 'rbg'"):
        random.PRNGKey(0, impl="rbg")
    with pytest.raises(
        NotImplementedError, match=r"compat\.jax\.random\.binomial: fgrad\.random\.binomial draws"
    ):
        random.binomial(KEY, 3.0, 0.5)
    with pytest.raises(NotImplementedError, match="mode='high' comes nearest"):
        random.gumbel(KEY, mode="highest")
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = random.nonsense


# of float32, but rounded as JAX rounds bfloat16, of which these are the numbers
SHORT = {
    "uniform": ((4,), [0.4921875, 0.765625, 0.8671875, 0.1875]),
    "normal": ((4,), [-0.0146484375, 0.73046875, 1.125, -0.87890625]),
    "truncated_normal": ((-2.0, 2.0, (4,)), [-0.01953125, 0.6875, 1.046875, -0.828125]),
}


@pytest.mark.parametrize("name", SHORT)
def test_numbers_of_bfloat16(name):
    args, wanted = SHORT[name]

    def draw(key):
        return getattr(random, name)(key, *args, dtype="bfloat16")

    for found in (draw(random.PRNGKey(3)), fg.jit(draw)(random.PRNGKey(3))):
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("limit", [-2.0, -1.0, -0.75, 0.0, 1e-3, 1.0, 2.0])
def test_truncated_numbers_of_bfloat16_are_inside_their_limits(limit):
    short = pytest.importorskip("ml_dtypes").bfloat16
    beside = np.nextafter(short(limit), short(np.inf))
    drawn = random.truncated_normal(
        KEY, limit, limit, (3,), "bfloat16"
    )  # nothing is inside: all are at the end
    assert set(np.float32(drawn)) <= {
        np.float32(np.nextafter(short(limit), short(-np.inf))),
        np.float32(beside),
    }


@pytest.mark.parametrize("name", ["exponential", "gumbel", "maxwell", "orthogonal"])
def test_other_numbers_are_not_drawn_of_bfloat16(name):
    with pytest.raises(NotImplementedError, match="of bfloat16 are drawn"):
        getattr(random, name)(KEY, 3, dtype="bfloat16")
