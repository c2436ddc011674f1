"""Linear operators and sparse Jacobians where SciPy's solvers take them: a line each."""

import numpy as np
import pytest
from scipy import integrate, optimize
from scipy.sparse import linalg

import fgrad as fg
from fgrad import sparse

RNG = np.random.default_rng(6)
X = RNG.uniform(0.5, 1.5, 8)


def chain(x):
    return np.sin(x[1:]) * x[:-1] ** 2


def test_products_are_those_of_the_dense_jacobian():
    operator, dense = sparse.linear_operator(chain, X), fg.jacrev(chain)(X)
    assert operator.shape == dense.shape
    v, w = RNG.standard_normal(8), RNG.standard_normal((7, 3))
    np.testing.assert_allclose(operator @ v, dense @ v, rtol=1e-13)
    np.testing.assert_allclose(operator.T @ w, dense.T @ w, rtol=1e-12)
    assert operator.dtype == np.float64


def test_pytrees_and_several_points():
    def f(state, scale):
        return {"a": state["u"] * scale, "b": np.outer(state["u"], state["v"])}

    state = {"u": X[:2], "v": X[2:5]}
    flat = lambda z: np.concatenate([z[:2] * z[5], np.outer(z[:2], z[2:5]).ravel()])
    dense = fg.jacrev(flat)(X[:6])
    operator = sparse.linear_operator(f, state, X[5])
    np.testing.assert_allclose(operator @ np.eye(6), dense, rtol=1e-13)
    np.testing.assert_allclose(operator.T @ np.eye(8), dense.T, rtol=1e-13)


def test_transformations_are_refused():
    with pytest.raises(TypeError, match=r"use fgrad\.linearize"):
        fg.jit(lambda x: sparse.linear_operator(chain, x) @ np.ones(8))(X)


N = 20


def bratu(u):
    """The residual of -u'' = exp(u), zero at both ends."""
    padded = np.pad(u, 1)
    return (2 * u - padded[:-2] - padded[2:]) * (N + 1) ** 2 - np.exp(u)


def heat(_, u):
    """Reaction and diffusion on a line, stiff."""
    padded = np.pad(u, 1, mode="edge")
    return 400.0 * (padded[2:] + padded[:-2] - 2 * u) + u * (1 - u)


SOLUTION = optimize.root(bratu, np.zeros(N), tol=1e-12).x


def test_least_squares():
    found = optimize.least_squares(bratu, np.zeros(N), jac=sparse.jacobian(bratu), method="trf", xtol=1e-14)
    np.testing.assert_allclose(found.x, SOLUTION, rtol=1e-6)
    pattern = sparse.pattern(bratu)(np.zeros(N))
    found = optimize.least_squares(bratu, np.zeros(N), jac_sparsity=pattern, method="trf", xtol=1e-14)
    np.testing.assert_allclose(found.x, SOLUTION, rtol=1e-6)


def test_minimize_with_trust_regions():
    def energy(x):
        return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    found = optimize.minimize(
        energy, np.full(6, 0.8), jac=fg.grad(energy), hess=sparse.hessian(energy), method="trust-constr"
    )
    np.testing.assert_allclose(found.x, np.ones(6), rtol=1e-5)


@pytest.mark.parametrize("method", ["BDF", "Radau"])
def test_stiff_equations(method):
    start = np.linspace(0, 1, N) ** 2
    jac = sparse.jacobian(heat, argnums=1, format="csc")
    found = integrate.solve_ivp(heat, (0.0, 1.0), start, method=method, jac=jac, rtol=1e-7, atol=1e-9)
    slow = integrate.solve_ivp(heat, (0.0, 1.0), start, method=method, rtol=1e-7, atol=1e-9)
    assert found.success
    np.testing.assert_allclose(found.y[:, -1], slow.y[:, -1], rtol=1e-5)


def test_krylov_with_a_preconditioner_of_the_sparse_jacobian():
    factors = linalg.splu(sparse.jacobian(bratu, format="csc")(np.zeros(N)))
    inner = linalg.LinearOperator((N, N), matvec=factors.solve)
    options = {"jac_options": {"inner_M": inner}, "fatol": 1e-10}
    found = optimize.root(bratu, np.zeros(N), method="krylov", options=options)
    np.testing.assert_allclose(found.x, SOLUTION, rtol=1e-7)


def test_newton_by_the_linear_operator():
    u = np.zeros(N)
    for _ in range(8):
        step, info = linalg.gmres(sparse.linear_operator(bratu, u), -bratu(u), rtol=1e-12)
        assert not info
        u = u + step
    np.testing.assert_allclose(u, SOLUTION, rtol=1e-9)
