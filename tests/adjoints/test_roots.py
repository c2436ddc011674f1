"""Products of a number with its own root have one slope, without a quotient."""

import math

import numpy as np
import pytest
from numba import njit

import fgrad


@njit
def behind(x):
    return x * np.sqrt(x)


@njit
def before(x):
    return math.sqrt(x) * x


@njit
def of_a_sum(x):
    return (x * x + 3.0 * x) * np.sqrt(x * x + 3.0 * x)


@njit
def inverse_cube(x):
    r2 = x * x + 1.0
    return 1.0 / (r2 * np.sqrt(r2))


@njit
def of_two(x):
    return 2.0 * x * np.sqrt(3.0 * x) + x * np.sqrt(x + 1.0)


EXPECTED = {  # slopes of the first two orders, by hand
    behind: (lambda x: 1.5 * x**0.5, lambda x: 0.75 * x**-0.5),
    before: (lambda x: 1.5 * x**0.5, lambda x: 0.75 * x**-0.5),
    of_a_sum: (
        lambda x: 1.5 * (x * x + 3 * x) ** 0.5 * (2 * x + 3),
        lambda x: 0.75 * (x * x + 3 * x) ** -0.5 * (2 * x + 3) ** 2 + 3 * (x * x + 3 * x) ** 0.5,
    ),
    inverse_cube: (
        lambda x: -3 * x * (x * x + 1) ** -2.5,
        lambda x: -3 * (x * x + 1) ** -2.5 + 15 * x * x * (x * x + 1) ** -3.5,
    ),
    of_two: (
        lambda x: 3 * (3 * x) ** 0.5 + (x + 1) ** 0.5 + x / 2 * (x + 1) ** -0.5,
        lambda x: 4.5 * (3 * x) ** -0.5 + (x + 1) ** -0.5 - x / 4 * (x + 1) ** -1.5,
    ),
}


@pytest.mark.parametrize("kernel", EXPECTED, ids=lambda k: k.__name__)
def test_slopes(kernel):
    f = fgrad.differentiate(kernel)
    first, second = EXPECTED[kernel]
    for x in (1e-150, 1e-6, 0.3, 2.0, 1e4, 1e150):
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(fgrad.grad(f)(x), first(x), rtol=1e-14)
            np.testing.assert_allclose(fgrad.grad(fgrad.grad(f))(x), second(x), rtol=1e-13, atol=1e-300)
            np.testing.assert_allclose(fgrad.jvp(f, (x,), (1.0,))[1], first(x), rtol=1e-14)
            np.testing.assert_allclose(fgrad.jit(fgrad.grad(f))(x), first(x), rtol=1e-14)


@pytest.mark.parametrize("kernel", [behind, before], ids=lambda k: k.__name__)
def test_ends(kernel):
    f = fgrad.grad(fgrad.differentiate(kernel))
    assert f(0.0) == 0.0
    assert f(np.inf) == np.inf
    assert np.isnan(f(-1.0))
    assert fgrad.grad(f)(0.0) == np.inf


def test_float32_and_complex_numbers():
    @njit
    def total(x):
        s = x[0] * 0
        for i in range(x.shape[0]):
            s += x[i] * np.sqrt(x[i])
        return s

    x = np.array([0.5, 2.0], np.float32)
    found = fgrad.grad(fgrad.differentiate(total))(x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, 1.5 * np.sqrt(x), rtol=1e-6)
    z = np.array([0.5 + 1j, -2.0 + 0.5j])
    _, pull = fgrad.vjp(fgrad.differentiate(total), z)
    np.testing.assert_allclose(pull(np.complex128(1))[0], 1.5 * np.sqrt(z), rtol=1e-13)


def test_the_text_has_no_quotient():
    assert "/" not in fgrad.differentiate(behind).source("vjp", 2.0)
    assert "/" in fgrad.differentiate(of_two).source("vjp", 2.0)
