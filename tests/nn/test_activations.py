from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from tests.nn.oracles import agree, derivatives

import fgrad as fg
from fgrad import nn


def mp_gelu(x):
    return x * mp.erfc(-x / mp.sqrt(2)) / 2


def mp_cubic(x):
    return x / (1 + mp.exp(-2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf(0.044715) * x**3)))


def mp_sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def mp_elu(alpha, scale=1):
    return lambda x: scale * (x if x > 0 else alpha * mp.expm1(x))


SELU = mp.mpf(1.0507009873554805), mp.mpf(1.6732632423543772)
SMOOTH = {
    "elu": (nn.elu, mp_elu(1)),
    "selu": (nn.selu, mp_elu(SELU[1], SELU[0])),
    "celu": (lambda x: nn.celu(x, 2.0), lambda x: x if x > 0 else 2 * mp.expm1(x / 2)),
    "gelu": (lambda x: nn.gelu(x, approximate=False), mp_gelu),
    "gelu, cubic": (nn.gelu, mp_cubic),
    "silu": (nn.silu, lambda x: x * mp_sigmoid(x)),
    "swish": (nn.swish, lambda x: x * mp_sigmoid(x)),
    "mish": (nn.mish, lambda x: x * mp.tanh(mp.log1p(mp.exp(x)))),
    "softplus": (nn.softplus, lambda x: mp.log1p(mp.exp(x))),
    "soft_sign": (nn.soft_sign, lambda x: x / (1 + abs(x))),
    "sigmoid": (nn.sigmoid, mp_sigmoid),
    "log_sigmoid": (nn.log_sigmoid, lambda x: -mp.log1p(mp.exp(-x))),
}
PIECES = {
    "relu": (nn.relu, lambda x: max(x, 0)),
    "relu6": (nn.relu6, lambda x: min(max(x, 0), 6)),
    "leaky_relu": (nn.leaky_relu, lambda x: x if x > 0 else mp.mpf(0.01) * x),
    "hard_sigmoid": (nn.hard_sigmoid, lambda x: min(max((x + 3) / 6, 0), 1)),
    "hard_tanh": (nn.hard_tanh, lambda x: min(max(x, -1), 1)),
    "hard_silu": (nn.hard_silu, lambda x: x * min(max((x + 3) / 6, 0), 1)),
    "hard_swish": (nn.hard_swish, lambda x: x * min(max((x + 3) / 6, 0), 1)),
    "sparse_plus": (nn.sparse_plus, lambda x: x if x > 1 else (max(x, -1) + 1) ** 2 / 4),
    "sparse_sigmoid": (nn.sparse_sigmoid, lambda x: min(max(x + 1, 0), 2) / 2),
}
ALL = SMOOTH | PIECES
POINTS = [
    -1000.0,
    -700.0,
    -88.0,
    -37.0,
    -12.5,
    -5.0,
    -1.5,
    -0.5,
    -1e-3,
    -1e-9,
    1e-9,
    0.25,
    1.25,
    4.0,
    7.0,
    40.0,
    800.0,
]


def exact(f, x):
    with mp.workdps(400):  # that 1 + exp(-800) is not 1
        return float(f(mp.mpf(float(x))))


def slope(f, x):
    with mp.workdps(800):
        h = mp.mpf(10) ** -200
        return float((f(mp.mpf(float(x)) + h) - f(mp.mpf(float(x)) - h)) / (2 * h))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ALL)
def test_values_and_slopes_are_those_of_exact_arithmetic(name, dtype):
    f, reference = ALL[name]
    x = np.array(POINTS, dtype)
    info = np.finfo(dtype)
    # x^2 in the exponent makes a relative error of eps x^2 in the tail of gelu
    room = 8 * info.eps * (1 + np.minimum(np.abs(x), 12) ** 2)
    y, g = f(x), fg.elementwise_grad(f)(x)
    assert y.dtype == g.dtype == dtype
    for actual, oracle in ((y, exact), (g, slope)):
        expected = np.array([oracle(reference, v) for v in x])
        error = np.abs(actual.astype(float) - expected)
        floor = info.smallest_normal if actual is y else 4 * info.eps
        big = np.abs(expected) * (40 * room if actual is g else 4 * room) + floor
        assert (error <= big).all(), (x[error > big], actual[error > big], expected[error > big])


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_nothing_becomes_nan(name, dtype):
    f, _ = ALL[name]
    top = float(np.finfo(dtype).max)
    x = np.array(
        [0.0, -0.0, 1e3, -1e3, top, -top, np.inf, -np.inf, float(np.finfo(dtype).smallest_subnormal)], dtype
    )
    with np.errstate(all="ignore"):
        y, g = f(x), fg.elementwise_grad(f)(x)
        h = fg.elementwise_grad(fg.elementwise_grad(f))(x)
        _, pushed = fg.jvp(f, (x,), (np.ones_like(x),))
    for values in (y, g, h, pushed):
        assert values.dtype == dtype
        assert not np.isnan(values).any(), (name, values)
    np.testing.assert_array_equal(pushed, g)
    assert np.isnan(f(np.array([np.nan], dtype))).all()


def test_slopes_far_out_are_zero_or_one():
    far = np.array([-1000.0, 1000.0])
    np.testing.assert_array_equal(fg.elementwise_grad(nn.sigmoid)(far), [0, 0])
    for f in (nn.softplus, nn.silu, nn.mish, nn.gelu, lambda x: nn.gelu(x, False), nn.elu):
        np.testing.assert_array_equal(fg.elementwise_grad(f)(far), [0, 1])
    np.testing.assert_array_equal(fg.elementwise_grad(nn.log_sigmoid)(far), [1, 0])


@pytest.mark.parametrize("name", ALL)
def test_derivatives(name):
    f, _ = ALL[name]
    derivatives(f, np.array([[-3.7, -2.2, -0.6], [0.4, 1.7, 5.1]]), order=3 if name in SMOOTH else 2)
    derivatives(f, np.array(0.7))


@pytest.mark.parametrize("name", ALL)
def test_dtypes_and_shapes(name):
    f, reference = ALL[name]
    x = np.array([[-2.0, -0.5, 1.0], [3.0, 0.25, 7.0]])
    for given in (
        x,
        x.astype("f"),
        x.astype("e"),
        x.T,
        x[:, ::2],
        x[:0],
        np.array(2),
        np.array([1, 3]),
        x > 0,
    ):
        dtype = given.dtype if given.dtype.kind == "f" else np.dtype(float)
        expected = np.vectorize(lambda v: exact(reference, v), [float])(given).astype(dtype)
        agree(f, expected, given, rtol={"e": 6e-3, "f": 3e-6, "d": 1e-13}[dtype.char])
    agree(f, [exact(reference, 1), exact(reference, -2)], [1, -2])
    assert np.ndim(f(0.5)) == 0


@pytest.mark.parametrize(
    ("f", "at", "expected"),
    [
        (nn.relu, 0.0, 0.0),
        (nn.relu6, 0.0, 0.0),
        (nn.relu6, 6.0, 0.0),
        (nn.leaky_relu, 0.0, 1.0),
        (lambda x: nn.elu(x, 0.5), 0.0, 0.5),
        (nn.hard_silu, 3.0, 1.0),
        (nn.hard_silu, -3.0, 0.0),
        (nn.sparse_plus, 1.0, 1.0),
        (nn.sparse_plus, -1.0, 0.0),
        (nn.sparse_sigmoid, 1.0, 0.25),
        (nn.sparse_sigmoid, -1.0, 0.25),
        (nn.hard_tanh, 1.0, 1.0),
        (nn.hard_tanh, -1.0, 1.0),
        (nn.hard_sigmoid, 3.0, 0.0),
        (nn.hard_sigmoid, -3.0, 0.0),
        (nn.soft_sign, 0.0, 1.0),
    ],
)
def test_kinks(f, at, expected):
    assert fg.grad(f)(at) == expected


def test_third_derivatives_at_zero():
    third = fg.grad(fg.grad(fg.grad(nn.sigmoid)))
    assert math.isclose(third(0.0), -1 / 8, rel_tol=1e-14)


def test_parameters_are_differentiable_and_broadcast():
    x, slopes = np.array([[-2.0, 1.0], [0.5, -0.7]]), np.array([0.1, 0.3])
    for f in (nn.leaky_relu, nn.elu, nn.celu):
        derivatives(f, x, slopes * np.ones_like(x))
        assert fg.grad(lambda a: np.sum(f(x, a)))(slopes).shape == (2,)
    np.testing.assert_allclose(fg.grad(lambda a: np.sum(nn.leaky_relu(x, a)))(0.1), -2.7)


def test_glu():
    x = np.random.default_rng(0).standard_normal((3, 4, 2))
    for axis in (-1, 1, 2):
        a, b = np.split(x, 2, axis)
        agree(lambda x, axis=axis: nn.glu(x, axis), a / (1 + np.exp(-b)), x)
        derivatives(lambda x, axis=axis: nn.glu(x, axis), x)
    with pytest.raises(ValueError, match="odd length 3"):
        nn.glu(x, 0)
    with pytest.raises(np.exceptions.AxisError):
        nn.glu(x, 3)


def test_large_arrays_are_computed_by_kernels_like_small_ones():
    rng = np.random.default_rng(0)
    large = rng.standard_normal(40_000) * 4
    for f, dtype in (
        (lambda x: nn.gelu(x, False), np.float32),
        (lambda x: nn.leaky_relu(x, 0.2), np.float64),
    ):
        x = large.astype(dtype)
        parts = [(f(s), fg.elementwise_grad(f)(s)) for s in np.split(x, 4)]
        for a, b in zip((f(x), fg.elementwise_grad(f)(x)), zip(*parts, strict=True), strict=True):
            assert a.dtype == dtype
            np.testing.assert_allclose(a, np.concatenate(b), rtol=50 * np.finfo(dtype).eps, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_sigmoid_of_complex_numbers(dtype):
    z = np.array([0.3 + 2j, -1.5 - 0.5j, 2j, -40 + 1j, 900 + 1j, -900 + 1j, 0], dtype)
    with mp.workdps(400):
        values = np.array([complex(mp_sigmoid(mp.mpc(complex(x)))) for x in z])
        slopes = np.array(
            [complex(mp_sigmoid(mp.mpc(complex(x))) * mp_sigmoid(-mp.mpc(complex(x)))) for x in z]
        )
    close = {"rtol": 20 * np.finfo(dtype).eps, "atol": np.finfo(dtype).tiny}
    for run in (nn.sigmoid, fg.jit(nn.sigmoid), fg.vmap(nn.sigmoid)):
        out = run(z)
        assert out.dtype == dtype
        np.testing.assert_allclose(out, values, **close)
    _, tangent = fg.jvp(nn.sigmoid, (z,), (np.full_like(z, 1j),))
    np.testing.assert_allclose(tangent, 1j * slopes, **close)
    _, pullback = fg.vjp(nn.sigmoid, z)
    np.testing.assert_allclose(np.abs(pullback(np.ones_like(z))[0]), np.abs(slopes), **close)


@pytest.mark.parametrize("name", ALL.keys() - {"sigmoid"})
def test_complex_numbers_are_refused(name):
    f, z = ALL[name][0], np.array([1 + 2j, 0.5j], np.complex64)
    for run in (f, lambda z: f(fg.tensor(z)), fg.jit(f), lambda z: fg.vjp(f, z)):
        with pytest.raises(TypeError, match="takes real numbers, not complex64"):
            run(z)
    with pytest.raises(TypeError, match="complex"):
        nn.glu(z)
