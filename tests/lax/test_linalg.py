"""Factors that may be NaN, and products with reflectors, against NumPy and LAPACK."""

import numpy as np
import pytest
import scipy.linalg

import fgrad as fg
from fgrad.lax import linalg
from fgrad.testing import check_grads

RNG = np.random.default_rng(0)
RUNS = {"eager": lambda f: f, "compiled": fg.jit, "mapped": fg.vmap}


def matrices(dtype=float, count=3, n=3):
    x = RNG.standard_normal((count, n, n)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.standard_normal((count, n, n))
    return x @ x.conj().swapaxes(-1, -2) + np.eye(n)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("upper", [False, True])
def test_factors(run, dtype, upper):
    a = matrices(dtype)
    a[1] = -a[1]
    found = np.asarray(RUNS[run](lambda a: linalg.cholesky(a, upper=upper))(a))
    for i in (0, 2):
        expected = np.linalg.cholesky(a[i])
        np.testing.assert_allclose(found[i], expected.conj().T if upper else expected, rtol=1e-12, atol=1e-14)
    triangle = np.triu(np.ones((3, 3))) if upper else np.tril(np.ones((3, 3)))
    np.testing.assert_array_equal(np.isnan(found[1]), triangle == 1)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", [float, complex])
def test_derivatives_where_values_are_known_and_where_not(upper, dtype):
    a = matrices(dtype)

    def factor(a):
        return linalg.cholesky(linalg.symmetrized(a), upper=upper)

    check_grads(factor, (a,))
    check_grads(fg.jit(factor), (a,))
    check_grads(fg.vmap(factor), (a,))
    if dtype is float:
        check_grads(fg.jit(factor), (a[0],), order=2)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("dtype", ["f", "d", "D"])
def test_systems_with_singular_matrices_among_them(run, dtype):
    a, b = matrices(dtype, 4).astype(dtype), RNG.standard_normal((4, 3, 2)).astype(dtype)
    a[1], a[3] = 0, np.ones((3, 3))
    found, inverse = (
        np.asarray(x) for x in RUNS[run](lambda a, b: (linalg.solve(a, b), linalg.inv(a)))(a, b)
    )
    slope = np.asarray(RUNS[run](fg.grad(lambda a, b: np.sum(linalg.solve(a, b)[..., 0].real)))(a, b))
    for i in (0, 2):
        tolerance = 100 * np.finfo(dtype).eps
        np.testing.assert_allclose(found[i], np.linalg.solve(a[i], b[i]), rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(inverse[i], np.linalg.inv(a[i]), rtol=tolerance, atol=tolerance)
        assert np.isfinite(slope[i]).all()
    assert found.dtype == inverse.dtype == dtype
    for i in (1, 3):
        assert np.isnan(found[i]).all()
        assert np.isnan(inverse[i]).all()
        assert np.isnan(slope[i]).all()


def test_solutions_for_one_vector_and_one_matrix():
    a, b = matrices(count=1)[0], RNG.standard_normal(3)
    np.testing.assert_allclose(linalg.solve(a, b), np.linalg.solve(a, b))
    assert np.isnan(linalg.solve(np.zeros((3, 3)), b)).all()
    assert linalg.solve(np.zeros((3, 3)), np.ones((3, 0))).shape == (3, 0)
    assert linalg.inv(np.array([[2, 0], [0, 4]])).tolist() == [[0.5, 0], [0, 0.25]]
    check_grads(linalg.solve, (a, b))
    check_grads(linalg.inv, (a,))
    with pytest.raises(ValueError, match="incompatible"):
        linalg.solve(a, b[:2])
    with pytest.raises(np.linalg.LinAlgError, match="square"):
        linalg.inv(a[:2])


def test_parts_that_are_symmetric():
    a = RNG.standard_normal((2, 3, 3)) + 1j * RNG.standard_normal((2, 3, 3))
    found = np.asarray(linalg.symmetrized(a))
    np.testing.assert_allclose(found, (a + a.conj().swapaxes(-1, -2)) / 2)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("dtype", [float, complex])
def test_products_with_reflectors(left, transpose, dtype):
    x = RNG.standard_normal((4, 4)).astype(dtype)
    (a, taus), _ = scipy.linalg.qr(x + (1j * x.T if dtype is complex else 0), mode="raw")
    q, _ = scipy.linalg.qr(x + (1j * x.T if dtype is complex else 0))
    q = q.conj().T if transpose else q
    c = RNG.standard_normal((4, 2) if left else (2, 4)).astype(dtype)
    found = linalg.ormqr(a, taus, c, left=left, transpose=transpose)
    np.testing.assert_allclose(np.asarray(found), q @ c if left else c @ q, atol=1e-12)
    several = linalg.ormqr(*(np.stack([y, y]) for y in (a, taus, c)), left=left, transpose=transpose)
    np.testing.assert_allclose(np.asarray(several), np.stack([found, found]), atol=1e-12)
    check_grads(lambda *args: linalg.ormqr(*args, left=left, transpose=transpose), (a, taus, c))
