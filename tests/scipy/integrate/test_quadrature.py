"""Integrals against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
from tests.helpers import close, differences

import fgrad as fg
from fgrad.scipy.integrate import fixed_quad, quad, quad_vec


def mean(k, a, b):
    return quad(lambda x, k: np.exp(-k[0] * x) + k[1] * x, a, b, (k,))[0]


def closed(k, a, b):
    return (np.exp(-k[0] * a) - np.exp(-k[0] * b)) / k[0] + k[1] * (b**2 - a**2) / 2


ARGS = (np.array([0.7, 0.3]), 0.2, 1.5)


def test_derivatives_of_every_order_in_limits_and_parameters():
    close(mean(*ARGS), closed(*ARGS))
    for mode in (fg.jacrev, fg.jacfwd):
        for i, found in enumerate(mode(mean, (0, 1, 2))(*ARGS)):
            close(found, differences(lambda x: closed(*ARGS[:i], x, *ARGS[i + 1 :]), ARGS[i]), 1e-7)
    for i in range(3):
        first = lambda x: differences(lambda y: closed(*x[:i], y, *x[i + 1 :]), x[i], 1e-4)
        for j, found in enumerate(fg.jacrev(fg.grad(mean, i), (0, 1, 2))(*ARGS)):
            expected = differences(lambda x: first((*ARGS[:j], x, *ARGS[j + 1 :])), ARGS[j], 1e-4)
            close(found, expected, 1e-5)
        close(fg.hessian(mean, i)(*ARGS), fg.jacrev(fg.grad(mean, i), i)(*ARGS), 1e-7)
    scaled = lambda k: quad(lambda x: np.exp(-k * x), 0.0, np.inf)[0]  # 1 / k
    close(fg.grad(fg.grad(fg.grad(scaled)))(0.7), -6 / 0.7**4, 1e-7)


def test_infinite_limits():
    gauss = lambda s: quad(lambda x: np.exp(-((x / s) ** 2)), -np.inf, np.inf)[0]
    close(gauss(2.0), 2 * np.sqrt(np.pi), 1e-8)
    close(fg.grad(gauss)(2.0), np.sqrt(np.pi), 1e-8)
    tail = lambda a, b: quad(lambda x: np.exp(-x), a, b)[0]
    close(fg.grad(tail, 0)(1.0, np.inf), -np.exp(-1.0))
    close(fg.grad(tail, 1)(1.0, np.inf), 0.0)
    close(fg.grad(tail, 1)(1.0, 2.0), np.exp(-2.0))


def test_mapped_and_jitted():
    ks = np.array([[0.7, 0.3], [1.0, -1.0]])
    expected = [differences(lambda k: closed(k, 0.2, 1.5), k) for k in ks]
    close(fg.vmap(fg.grad(mean), (0, None, None))(ks, 0.2, 1.5), expected, 1e-7)
    close(fg.jit(fg.grad(mean))(*ARGS), expected[0], 1e-7)
    close(fg.jit(fg.vmap(mean, (0, None, None)))(ks, 0.2, 1.5), [closed(k, 0.2, 1.5) for k in ks])


def test_without_transformations_it_is_scipys():
    f = lambda x: np.sqrt(abs(x - 0.3)) if x > 0.1 else 0.0
    assert quad(f, 0.0, 1.0, points=[0.1, 0.3]) == scipy.integrate.quad(f, 0.0, 1.0, points=[0.1, 0.3])
    w, manager = fg.tensor(2.0), fg.GradManager()
    with manager.attach(w):
        manager.backward(quad(lambda x: w * x**2, 0.0, 3.0)[0])
    close(w.grad, 9.0)
    with pytest.raises(TypeError, match=r"quad integrates real numbers, but .* returns .*complex128"):
        quad(lambda x: 1j * x, 0.0, 1.0)
    with pytest.warns(scipy.integrate.IntegrationWarning):
        quad(lambda x: np.sin(1 / x) / x, 0.0, 1.0)


def test_pytrees_and_complex_integrands():
    f = lambda k: quad_vec(lambda x: {"z": np.exp(1j * k * x), "v": np.stack([x, k * x**2])}, 0.0, 2.0)[0]
    close(f(0.5)["z"], (np.exp(1j) - 1) / 0.5j)
    close(f(0.5)["v"], [2.0, 4 / 3])
    tangent = fg.jvp(f, (0.5,), (1.0,))[1]
    close(tangent["z"], differences(lambda k: ((np.exp(2j * k) - 1) / (1j * k)).real, 0.5)
          + 1j * differences(lambda k: ((np.exp(2j * k) - 1) / (1j * k)).imag, 0.5), 1e-6)  # fmt: skip
    close(tangent["v"], [0.0, 8 / 3])
    value, error = quad_vec(np.cos, 0.0, 1.0, norm="max", quadrature="gk15")
    close(value, np.sin(1.0))
    assert 0 <= error < 1e-8
    with pytest.warns(scipy.integrate.IntegrationWarning):
        quad_vec(lambda x: np.stack([np.sin(1 / x) / x, x]), 0.0, 1.0, limit=2)


def test_fixed_orders():
    f = lambda a, b: fixed_quad(lambda x: x**8, a, b)[0]
    close(f(0.0, 2.0), scipy.integrate.fixed_quad(lambda x: x**8, 0.0, 2.0)[0])
    close(f(0.0, 2.0), 2.0**9 / 9)
    close(fg.grad(f, 1)(0.0, 2.0), 2.0**8)
    with pytest.raises(ValueError, match="finite limits; use quad"):
        f(0.0, np.inf)
