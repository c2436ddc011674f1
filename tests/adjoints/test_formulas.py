"""Ufuncs of smooth operations in compiled programs, where they are those operations and no kernels."""

import math

import numba
import numpy as np
import pytest

import fgrad

X = np.linspace(0.3, 2.0, 6).reshape(2, 3)


@numba.vectorize
def price(spot, strike, time):
    spread = 0.3 * math.sqrt(time)
    d = (math.log(spot / strike) + 0.045 * time) / spread
    return spot * 0.5 * math.erfc(-d / 2) - strike * 0.5 * math.erfc(-(d - spread) / 2)


@numba.vectorize
def polynomial(x):
    return x**3 - x**2 * (x * x - 2) + -x / 3


@numba.vectorize
def waves(x, k):
    x = np.sin(k * x) + np.exp(-x)
    return np.tanh(x) * k


@numba.vectorize
def itself(x):
    return x


@numba.vectorize
def first(x, y):
    return x * x


@numba.vectorize
def with_branch(x):
    return x * x if x > 1 else 3 * x


@numba.vectorize
def with_tie(x):
    return max(x, 1.0) * abs(x)


@numba.vectorize
def with_square_root_of_its_own(x):
    return x**0.5


@numba.vectorize(["float64(float64, int64)"])
def with_integer(x, n):
    return x * n + x


@numba.vectorize
def long(x):
    for _ in range(3):
        x = x * x
    return x


FACTOR, TABLE = 2.5, np.array([1.0, 2.0])


@numba.njit
def shifted(x):
    return x * FACTOR + math.pi


@numba.vectorize
def with_constants(x):
    return FACTOR * x * x + np.pi * x + shifted(x)


@numba.vectorize
def with_an_array_from_outside(x):
    return TABLE[1] * x


def kernels_in(f, *args):
    """Return how many kernels of users a compiled program runs, in value and gradient."""
    text = str(fgrad.jit(fgrad.value_and_grad(lambda *a: f(*a).sum())).lower(*args))
    return text.count("kernel.")


@pytest.mark.parametrize(
    ("ufunc", "args"),
    [
        (price, (X, X[:1] + 0.1, 0.5)), (price, (2.0, X, X + 1)), (polynomial, (X,)), (polynomial, (X.T,)),
        (polynomial, (np.float64(0.7),)), (polynomial, (np.zeros((0, 3)),)), (waves, (X, 2.0)),
        (waves, (X[0], X)), (with_constants, (X,)), (waves, (X, np.float32([1, 2, 3]))),
    ],
)  # fmt: skip
def test_smooth_ones_are_operations(ufunc, args):
    f = fgrad.differentiate(ufunc)
    assert kernels_in(f, *args) == 0
    expected = ufunc(*args)
    found = fgrad.jit(f)(*args)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    rng = np.random.default_rng(0)
    weights = rng.normal(size=expected.shape)

    def loss(*args):
        return (f(*args) * weights).sum()

    floats = tuple(i for i, a in enumerate(args) if np.result_type(a).kind == "f")
    moved = [rng.normal(size=np.shape(a)) * (i in floats) for i, a in enumerate(args)]
    h = 2.0**-20
    ends = [[a + s * h * m if i in floats else a for i, (a, m) in enumerate(zip(args, moved, strict=True))]
            for s in (1, -1)]  # fmt: skip
    along = [((np.float64(1) * ufunc(*e)) * weights).sum() for e in ends]
    for run in (lambda g: g, fgrad.jit):
        slopes = run(fgrad.grad(loss, argnums=floats))(*args)
        total = sum((s * moved[i]).sum() for s, i in zip(slopes, floats, strict=True))
        np.testing.assert_allclose(total, (along[0] - along[1]) / (2 * h), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("ufunc", "args"),
    [
        (with_branch, (X,)), (with_an_array_from_outside, (X,)), (with_tie, (X,)),
        (with_square_root_of_its_own, (X,)), (long, (X,)),
        (itself, (np.float32(X),)), (itself, (X + 1j,)), (with_integer, (X, np.arange(3))),
        (first, (X[:1], X)),
    ],
)  # fmt: skip
def test_others_are_kernels(ufunc, args):
    f = fgrad.differentiate(ufunc)
    if np.result_type(*args).kind != "c":  # the value of a sum of those has no gradient
        assert kernels_in(f, *args) > 0
    np.testing.assert_array_equal(fgrad.jit(f)(*args), ufunc(*args))


def test_a_result_is_new():
    f = fgrad.differentiate(itself)

    @fgrad.jit
    def program(x):
        x = x * 1.0
        y = f(x)
        y[0] = 7.0
        return x, y

    x, y = program(np.ones(3))
    np.testing.assert_array_equal(x, np.ones(3))
    np.testing.assert_array_equal(y, [7, 1, 1])


def test_derivatives_of_higher_order_and_batches():
    f = fgrad.differentiate(polynomial)
    x = 0.7
    third = fgrad.jit(fgrad.grad(fgrad.grad(fgrad.grad(f))))(x)
    np.testing.assert_allclose(third, 6 - 24 * x)  # of x^3 - x^4 + 2 x^2 - x / 3
    rows = fgrad.jit(fgrad.vmap(fgrad.grad(f)))(X.ravel())
    np.testing.assert_allclose(rows, 3 * X.ravel() ** 2 - 4 * X.ravel() ** 3 + 4 * X.ravel() - 1 / 3)


def test_parameters_may_have_any_names():
    @numba.vectorize
    def f(out, k, element, k_1):
        return out * k + element * k_1

    @numba.guvectorize(["(float64[:], float64, float64[:])"], "(n),()->()")
    def g(k, element, out):
        out[0] = element * (k * k).sum()

    a, b, c, d = np.arange(1.0, 5.0)
    for run in (lambda g: g, fgrad.jit):
        slopes = run(fgrad.grad(fgrad.differentiate(f), argnums=(0, 1, 2, 3)))(a, b, c, d)
        np.testing.assert_array_equal(slopes, (b, a, d, c))
    slopes = fgrad.grad(fgrad.differentiate(g), argnums=(0, 1))(X[0], 2.0)
    np.testing.assert_allclose(slopes[0], 4 * X[0])
    np.testing.assert_allclose(slopes[1], (X[0] ** 2).sum())
