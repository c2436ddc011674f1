"""Loops around loops in blocks: recurrences of many elements, at lengths around that of a block."""

import numba
import numpy as np
import pytest
from tests.adjoints.kernels import horner

import fgrad
from fgrad.adjoints.strips import LENGTH


@numba.njit
def logistic(x, r, steps):
    total = 0.0
    for i in range(len(x)):
        y = x[i]
        z = 0.0
        for _ in range(steps):
            y = r[i] * y * (1.0 - y)
            z += y * y
        total += z * r[0]
    return total


@numba.njit
def two_loops(a, x):
    total = 0.0
    for i in range(1, x.shape[0]):
        s = x[i, 0]
        for j in range(a.shape[0]):
            s = s * a[j, 0] + a[j, 1]
        for j in range(a.shape[0]):
            s = np.sqrt(s * s + a[j, 1] * x[i, 1])
        total += s
    return total


@numba.njit
def carried(c, x, out):
    total = 0.0
    for i in range(len(x)):
        for k in range(len(c)):
            total = 0.5 * total * x[i] + c[k]
        out[i] = total


@numba.njit
def by_lengths(c, x, out):
    for i in range(len(x)):
        total = 0.0
        for k in range(min(i, len(c))):
            total = total * x[i] + c[k]
        out[i] = total


@numba.njit
def chosen(c, x, out):
    for i in range(len(x)):
        total = 0.0
        for k in range(len(c)):
            if x[i] > 0.0:
                total = total * x[i] + c[k]
        out[i] = total


def in_blocks(kernel, *args):
    """Return whether some loop of the adjoint goes through blocks."""
    leaves = [x for x in args if isinstance(x, np.ndarray)]
    made = fgrad.differentiate(kernel)
    program, _ = made._prepared(list(args), (tuple, *[0] * len(args)))
    wrt = tuple(i for i, p in enumerate(program.operands) if p.floating)
    assert leaves
    return "block1 = " in program.written_adjoint(wrt, tuple(program.floating_outputs)).compiled_source("f")


def gradients(kernel, args, weights=None):
    """The gradient with respect to all arrays but a last one that is written to, and the same by Tensors."""
    writes = weights is not None
    arrays = [k for k, x in enumerate(args) if isinstance(x, np.ndarray)]

    def loss(function, *given):
        given = list(args[: len(args)]) if not given else list(given)
        if not writes:
            return function(*given)
        out = fgrad.tensor(np.zeros(len(weights)))
        function(*given, out)
        return (out * weights).sum()

    function = fgrad.differentiate(kernel)
    mine = fgrad.grad(lambda *a: loss(function, *a), argnums=tuple(arrays))(*args)
    theirs = fgrad.grad(lambda *a: loss(kernel.py_func, *a), argnums=tuple(arrays))(*args)
    for x, y in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)


def test_what_is_in_blocks():
    c, x, out = np.ones(3), np.ones(5), np.zeros(5)
    a, rows = np.ones((3, 2)), np.ones((5, 2))
    assert in_blocks(horner, c, x, out)
    assert in_blocks(logistic, x, x, 3)
    assert in_blocks(two_loops, a, rows)
    for kernel in (carried, by_lengths, chosen):
        assert not in_blocks(kernel, c, x, out)
    assert not in_blocks(horner, c.astype(np.float32), x, out)
    assert not in_blocks(horner, c.astype(complex), x.astype(complex), out.astype(complex))


@pytest.mark.parametrize("count", [0, 1, LENGTH - 1, LENGTH, LENGTH + 1, 2 * LENGTH + 3])
@pytest.mark.parametrize("kernel", [horner, carried, by_lengths, chosen])
def test_polynomials(kernel, count):
    rng = np.random.default_rng(count)
    gradients(kernel, (rng.normal(size=4), rng.uniform(-1, 1, count)), rng.normal(size=count))


def test_no_coefficients():
    gradients(horner, (np.zeros(0), np.ones(70)), np.ones(70))


@pytest.mark.parametrize("steps", [0, 1, 6])
def test_sums_over_blocks(steps):
    rng = np.random.default_rng(steps)
    gradients(logistic, (rng.uniform(0.1, 0.9, 67), rng.uniform(2, 3.5, 67), steps))


def test_two_inner_loops():
    rng = np.random.default_rng(0)
    gradients(two_loops, (rng.uniform(0.5, 1, (5, 2)), rng.uniform(0.5, 1, (68, 2))))


def test_deep_loops_have_short_blocks():
    rng = np.random.default_rng(1)
    c, x, weights = rng.normal(size=700), rng.uniform(-0.9, 0.9, 70), rng.normal(size=70)

    def loss(c, x):
        out = fgrad.tensor(np.zeros(len(x)))
        fgrad.differentiate(horner)(c, x, out)
        return (out * weights).sum()

    by_c, by_x = fgrad.grad(loss, argnums=(0, 1))(c, x)
    powers = x[:, None] ** np.arange(700)
    np.testing.assert_allclose(by_c, weights @ powers, rtol=1e-9, atol=1e-12)
    slopes = powers[:, :-1] @ (c[1:] * np.arange(1, 700))
    np.testing.assert_allclose(by_x, weights * slopes, rtol=1e-9, atol=1e-12)


def test_second_derivatives():
    rng = np.random.default_rng(2)
    c, x = rng.normal(size=4), rng.uniform(-1, 1, 66)

    def value(x):
        out = fgrad.tensor(np.zeros(len(x)))
        fgrad.differentiate(horner)(c, x, out)
        return out.sum()

    found = fgrad.jvp(fgrad.grad(value), (x,), (np.ones(66),))[1]
    np.testing.assert_allclose(found, 2 * c[2] + 6 * c[3] * x, rtol=1e-10)
    again = fgrad.jvp(fgrad.grad(value), (x,), (np.ones(66),))[1]
    np.testing.assert_array_equal(found, again)
