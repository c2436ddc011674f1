"""Functions of matrices and matrix equations by iterations, against SciPy's, which use Schur's form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

from fgrad.ops import iterations

SIZES = [1, 2, 5, 20]


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def values(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def close(found, expected, rtol=1e-11):
    assert np.max(np.absolute(found - expected)) <= rtol * np.max(np.absolute(expected))


def regular(n):
    """Return stacks of matrices whose eigenvalues are not zero or negative."""
    a = values(3, n, n) / np.sqrt(n)
    positive = a @ np.swapaxes(a, -1, -2) + 0.01 * np.eye(n)
    return [positive, a + 3 * np.eye(n), 1e-6 * positive, (a + 3 * np.eye(n)) * 1j, np.triu(a, 1) + np.eye(n)]


@pytest.mark.parametrize("n", SIZES)
def test_exponentials(n):
    for a in (values(3, n, n), 20 * values(3, n, n), 1j * values(3, n, n), np.zeros((2, n, n))):
        close(iterations.expm(a), linalg.expm(a), 1e-10)
    assert np.all(np.isnan(iterations.expm(np.full((n, n), np.inf))))


@pytest.mark.parametrize("n", SIZES)
def test_roots_logarithms_and_powers(n):
    for a in regular(n):
        root, log = iterations.sqrtm(a), iterations.logm(a)
        close(root @ root, a)
        close(root, np.stack([linalg.sqrtm(x) for x in a]), 1e-10)
        close(linalg.expm(log), a, 1e-10)
        for exponent in (0.3, -2.7):
            expected = np.stack([linalg.fractional_matrix_power(x, exponent) for x in a])
            close(iterations.power(a, exponent), expected, 1e-9)


@pytest.mark.parametrize("bad", [np.diag([-1.0, 2.0]), np.zeros((2, 2)), np.diag([1.0, 0.0])])
def test_matrices_without_a_principal_root(bad):
    for f in (iterations.sqrtm, iterations.logm):
        with pytest.raises(np.linalg.LinAlgError, match=r"zero or negative; compute it on the CPU"):
            f(bad)


@pytest.mark.parametrize("n", [*SIZES, 40])
def test_sylvester(n):
    a, b, q = values(2, n, n), values(2, n + 1, n + 1, seed=1), values(2, n, n + 1, seed=2)
    expected = np.stack([linalg.solve_sylvester(*x) for x in zip(a, b, q, strict=True)])
    close(iterations.sylvester(a, b, q), expected, 1e-9)
    close(iterations.sylvester(a * 1j, b + 0j, q + 0j) * 1, np.stack(
        [linalg.solve_sylvester(*x) for x in zip(a * 1j, b + 0j, q, strict=True)]), 1e-9)  # fmt: skip


def test_sylvester_says_what_it_cannot_solve():
    one = np.eye(30)
    with pytest.raises(np.linalg.LinAlgError, match="an eigenvalue of a is one of -b"):
        iterations.sylvester(one, -one, one)
    few = 2 * one + np.diag(np.ones(29), 1)
    with pytest.raises(np.linalg.LinAlgError, match=r"close to a defective one .* compute it on the CPU"):
        iterations.sylvester(few, few, one)


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("n", [1, 2, 5, 10])
def test_riccati(n, discrete):
    a, b, m = 0.5 * values(2, n, n), values(2, n, 2, seed=1), values(2, n, n, seed=2)
    q, r = m @ np.swapaxes(m, -1, -2) + np.eye(n), np.stack([np.eye(2), 3 * np.eye(2)])
    solver = linalg.solve_discrete_are if discrete else linalg.solve_continuous_are
    expected = np.stack([solver(*x) for x in zip(a, b, q, r, strict=True)])
    close(iterations.riccati(a, b, q, r, discrete=discrete), expected, 1e-9)


def test_riccati_says_what_it_cannot_solve():
    one = np.eye(2)
    for discrete in (False, True):  # what is unstable is not controlled
        with pytest.raises(np.linalg.LinAlgError, match="no solution stabilizes"):
            iterations.riccati(2 * one, 0 * one, one, one, discrete=discrete)
