"""Slopes of polynomials in one variable are found forwards: the same numbers, by fewer operations."""

import ast
from collections import Counter

import numba
import numpy as np
import pytest
from tests.adjoints.interpreted import check

import fgrad


@numba.njit
def horner(x):
    return 0.9 + x * (0.8 - x * (0.7 + x * (0.6 - x * (0.5 + x * (0.4 - x * 0.3)))))


@numba.njit
def logistic(x):
    return 3.7 * x * (1.0 - x)


@numba.njit
def of_squares(x):
    return (x * x - 1.0) * (x * x - 1.0) - -x * (2.0 * (x * x))


@numba.njit
def minus_of_minus(x):
    return -(-x * x) * (3 - (x - 1.0) * -(x + 2.0))


@numba.njit
def with_others(x, a, n):
    return a[0] * (x * (n - x * (a[1] + x))) + x


@numba.njit
def of_elements(x):
    for i in range(len(x)):
        x[i] = x[i] * (x[i] * (x[i] - 2.0) + 1.0)
    return x[0] * (x[1] + x[0] * x[1])


@numba.njit
def roots_inside(x):
    return x * x * (x * np.sqrt(x))


@numba.njit
def powers_inside(x):
    return x**2 * (x**3 - x * (x**2 + 1.0))


@numba.njit
def choices_inside(x):
    return x * (x * (x if x > 0 else 2.0 * x) + 1.0)


@numba.njit
def of_two(x, y):
    return x * (1.0 + y * (2.0 + x * (3.0 + y)))


KERNELS = [
    (horner, (0.7,)), (logistic, (0.3,)), (of_squares, (1.3,)), (minus_of_minus, (0.4,)),
    (with_others, (0.6, np.array([1.5, -0.3]), 3)), (of_elements, (np.array([0.5, -1.2, 2.0]),)),
    (roots_inside, (0.8,)), (powers_inside, (1.1,)), (choices_inside, (-0.9,)), (of_two, (0.2, 0.7)),
    (horner, (0.7 + 0.2j,)), (of_squares, (0.3 - 1.1j,)),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(KERNELS)), ids=[k.__name__ for k, _ in KERNELS])
def test_a_kernel(k):
    kernel, args = KERNELS[k]
    assert check(kernel, *args, orders=2)


def operations(kernel, *args):
    """Return the numbers of products, and of sums and differences, in the adjoint."""
    tree = ast.parse(fgrad.differentiate(kernel).source("vjp", *args))
    found = Counter(type(n.op) for n in ast.walk(tree) if isinstance(n, ast.BinOp | ast.AugAssign))
    return found[ast.Mult], found[ast.Add] + found[ast.Sub]


def test_a_level_is_one_product_and_one_sum():
    assert operations(horner, 0.7) == (5 + 5 + 1, 5 + 5 + 2)  # values, slopes, cotangents
    assert operations(logistic, 0.3) == (3, 4)


def test_other_expressions_go_back_step_by_step():
    source = fgrad.differentiate(of_two).source("vjp", 0.2, 0.7)
    assert source.count("x_ct +=") == 2


def test_where_a_slope_is_infinite_a_cotangent_of_zero_wins():
    assert fgrad.grad(fgrad.differentiate(roots_inside))(0.0) == 0.0


def test_single_precision():
    x = np.float32(0.7)
    found = fgrad.grad(fgrad.differentiate(horner))(x)
    assert found.dtype == np.float32
    coefficients = [0.9, 0.8, -0.7, -0.6, 0.5, 0.4, -0.3]
    expected = np.polynomial.Polynomial(coefficients).deriv()(float(x))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
