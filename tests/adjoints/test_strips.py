"""Loops in strips: fields of particles, at lengths around that of a strip."""

import numba
import numpy as np
import pytest

import fgrad
from fgrad.adjoints import strips


@numba.njit
def energy(x, w):
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(i + 1, x.shape[0]):
            a, b = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1]
            r2 = a * a + b * b + 0.5
            total += w[j, 1] * (1.0 / (r2 * r2) - 1.0 / r2) * w[i, 0]
    return total


def slopes(x, w):
    """The gradient with respect to both, by NumPy."""
    gap = x[:, None] - x[None]
    r2 = (gap**2).sum(-1) + 0.5
    upper = np.triu(np.ones(r2.shape), 1)
    value, slope = upper * (r2**-2 - 1 / r2), upper * (1 / r2**2 - 2 / r2**3)
    pull = 2 * slope * w[:, 0][:, None] * w[:, 1][None]
    by_x = (pull[..., None] * gap).sum(1) - (pull[..., None] * gap).sum(0)
    return by_x, np.stack([value @ w[:, 1], w[:, 0] @ value], 1)


@pytest.mark.parametrize("count", [0, 1, 2, 64, 65, 66, 150])
@pytest.mark.parametrize("order", "CF")
def test_particles(count, order):
    rng = np.random.default_rng(count)
    x, w = (np.asarray(rng.normal(size=(count, 2)), order=order) for _ in range(2))
    found = fgrad.grad(fgrad.differentiate(energy), argnums=(0, 1))(x, w)
    for mine, theirs in zip(found, slopes(x, w), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


def test_that_particles_are_in_strips():
    function = fgrad.differentiate(energy)
    program, _ = function._prepared([*[np.ones((3, 2))] * 2], (tuple, 0, 0))
    text = program.written_adjoint((0, 1), (0,)).compiled_source("adjoint")
    assert f"range(n, high1, {strips.LENGTH})" in text
    assert strips.ANY_ORDER not in text
    flat = fgrad.differentiate(energy)._prepared(
        [np.ones((3, 2)), np.ones((3, 2), np.float32)], (tuple, 0, 0)
    )
    text = flat[0].written_adjoint((0,), (0,)).compiled_source("adjoint")
    assert "high1" not in text  # of numbers of another kind


def test_second_derivatives_of_particles():
    rng = np.random.default_rng(0)
    x, w, v = rng.normal(size=(70, 2)), rng.normal(size=(70, 2)), rng.normal(size=(70, 2))
    function = fgrad.differentiate(energy)
    found = fgrad.jvp(lambda x: fgrad.grad(function)(x, w), (x,), (v,))[1]
    step = 1e-6
    differences = (slopes(x + step * v, w)[0] - slopes(x - step * v, w)[0]) / (2 * step)
    np.testing.assert_allclose(found, differences, rtol=1e-5, atol=1e-6)


@numba.njit
def mixed(x, out):
    for j in range(out.size):
        k = j // 2
        a, b, c = x[k, j], x[j, k], x[j, 0]
        out[j] = a * a * b + b * b * c + a * c * c + a * b * c


@pytest.mark.parametrize("count", [2, 9, 70])
def test_places_that_a_turn_computes(count):
    rng = np.random.default_rng(count)
    x, weights = rng.normal(size=(count, count)), rng.normal(size=count)
    j = np.arange(count)
    k = j // 2
    expected = np.zeros_like(x)
    a, b, c = x[k, j], x[j, k], x[j, 0]
    np.add.at(expected, (k, j), weights * (2 * a * b + c * c + b * c))
    np.add.at(expected, (j, k), weights * (a * a + 2 * b * c + a * c))
    np.add.at(expected, (j, 0), weights * (b * b + 2 * a * c + a * b))
    function = fgrad.differentiate(mixed)

    def total(x):
        out = fgrad.numpy.zeros(count)
        function(x, out)
        return out @ weights

    np.testing.assert_allclose(fgrad.grad(total)(x), expected, rtol=1e-12, atol=1e-12)
