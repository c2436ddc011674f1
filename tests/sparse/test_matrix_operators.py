"""Derivatives as operators of their entries: products with anything are those of SciPy's matrices."""

import pickle

import numpy as np
import pytest
from scipy.sparse import linalg

import fgrad as fg
from fgrad import sparse
from fgrad.kernels import threads
from fgrad.scipy.sparse import SparseArray

RNG = np.random.default_rng(12)
N = 12
X = RNG.uniform(0.5, 1.5, N)


def pairs(x):
    """Equations in pairs, each of two pairs of unknowns; the last two are constant."""
    u, v = x.reshape(-1, 2).T
    both = np.stack([u[1:] * v[:-1], u[:-1] * v[1:] ** 2], axis=1)
    return np.concatenate([both.ravel(), np.ones(2)])


def operator(dtype=np.float64):
    return sparse.jacobian(pairs, format="operator")(X.astype(dtype))


def test_the_matrix_is_the_jacobian():
    J = operator()
    assert isinstance(J, linalg.LinearOperator)
    np.testing.assert_allclose(J.matrix.toarray(), fg.jacfwd(pairs)(X), rtol=1e-14)
    assert (J.shape, J.dtype) == ((N, N), np.float64)
    assert not (np.diff(J.matrix.indptr)[-2:].any())


OPERANDS = {
    "float64": lambda n: RNG.standard_normal(n),
    "float32": lambda n: RNG.standard_normal(n).astype("f"),
    "complex128": lambda n: RNG.standard_normal(n) + 1j * RNG.standard_normal(n),
    "complex64": lambda n: (RNG.standard_normal(n) + 1j * RNG.standard_normal(n)).astype("F"),
    "int64": lambda n: RNG.integers(-5, 5, n),
    "int8": lambda n: RNG.integers(-5, 5, n).astype("b"),
    "bool": lambda n: RNG.random(n) < 0.5,
    "longdouble": lambda n: RNG.standard_normal(n).astype("g"),
    "other bytes": lambda n: RNG.standard_normal(n).astype(">f8"),
    "with steps": lambda n: RNG.standard_normal(3 * n)[::3],
    "backwards": lambda n: RNG.standard_normal(n)[::-1],
    "read-only": lambda n: np.broadcast_to(2.0, n),
    "column": lambda n: RNG.standard_normal((n, 1)),
    "complex column": lambda n: RNG.standard_normal((n, 1)) * 1j,
    "matrix": lambda n: RNG.standard_normal((n, 3)),
    "columns": lambda n: RNG.standard_normal((3, n)).T,
    "complex matrix": lambda n: RNG.standard_normal((n, 2)) + 1j,
    "no columns": lambda n: RNG.standard_normal((n, 0)),
    "complex, no columns": lambda n: RNG.standard_normal((n, 0)) + 0j,
}


@pytest.mark.parametrize("name", OPERANDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_are_those_of_the_matrix(name, dtype):
    J, x = operator(dtype), OPERANDS[name](N)
    for found, expected in (
        (J @ x, J.matrix @ x),
        (J.T @ x, J.matrix.T @ x),
        (J.H @ x, J.matrix.T @ x),
        (J.T.T @ x, J.matrix @ x),
    ):
        assert (found.dtype, found.shape) == (expected.dtype.newbyteorder("="), expected.shape)
        room = 20 * np.finfo(found.dtype).eps
        np.testing.assert_allclose(found, expected, rtol=room, atol=room)


@pytest.mark.parametrize("shape", [(N + 1,), (N + 1, 2), (1, N), (N, 1, 1)])
def test_other_shapes_are_refused(shape):
    for J in (operator(), operator().T):
        with pytest.raises(ValueError, match=r"[Dd]imension|1-d or 2-d"):
            J @ np.ones(shape)


def test_methods_of_operators():
    J, x, y = operator(), RNG.standard_normal(N), RNG.standard_normal((N, 2))
    dense = J.matrix.toarray()
    for found, expected in (
        (J.matvec(x), dense @ x),
        (J.rmatvec(x), dense.T @ x),
        (J.matmat(y), dense @ y),
        (J.rmatmat(y), dense.T @ y),
        ((J @ J) @ x, dense @ dense @ x),
        ((2 * J + J.T) @ x, 2 * dense @ x + dense.T @ x),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    solution = linalg.lsqr(J, x, atol=1e-14, btol=1e-14)[0]
    np.testing.assert_allclose(dense.T @ (dense @ solution - x), np.zeros(N), atol=1e-9)


def test_hessians_and_values_before_them():
    def energy(x):
        return np.sum(pairs(x) ** 2)

    v = RNG.standard_normal(N)
    expected = fg.hessian(energy)(X) @ v
    np.testing.assert_allclose(sparse.hessian(energy, format="operator")(X) @ v, expected, rtol=1e-12)
    value, H = sparse.value_and_hessian(energy, format="operator")(X)
    np.testing.assert_allclose(value, energy(X))
    np.testing.assert_allclose(H @ v, expected, rtol=1e-12)
    value, J = sparse.value_and_jacobian(pairs, format="operator", check=True)(X)
    np.testing.assert_array_equal(value, pairs(X))
    np.testing.assert_allclose(J.T @ value, fg.grad(energy)(X) / 2, rtol=1e-12)


def test_operators_do_not_change_afterwards():
    jac, v = sparse.jacobian(pairs, format="operator"), RNG.standard_normal(N)
    J = jac(X)
    before = J @ v, J.T @ v
    assert jac(2 * X) is not J
    for part in (J.matrix.data, J.matrix.indices, J.matrix.indptr):
        with pytest.raises(ValueError, match="read-only"):
            part[:] = 0
    with pytest.raises(ValueError, match=r"fill writes into an array, and this one is read-only.*operator"):
        jac.fill(J.matrix.data, 3 * X)
    np.testing.assert_array_equal(J @ v, before[0])
    np.testing.assert_array_equal(J.T @ v, before[1])
    np.testing.assert_array_equal(J.matrix.tocsc().toarray(), J.matrix.toarray())
    np.testing.assert_allclose(linalg.norm(J.matrix, axis=0), np.linalg.norm(J.matrix.toarray(), axis=0))
    data = np.empty(J.matrix.nnz)
    jac.fill(data, X)
    np.testing.assert_array_equal(data, J.matrix.data)
    np.testing.assert_array_equal(jac.values(X), J.matrix.data)


def test_operators_are_pickled():
    J, v = operator(), RNG.standard_normal(N)
    for asked in (False, True):
        if asked:
            _ = J @ v, J.T @ v
        copied = pickle.loads(pickle.dumps(J))
        np.testing.assert_array_equal(copied @ v, J @ v)
        np.testing.assert_array_equal(copied.T @ v, J.T @ v)


def test_tensors_get_arrays_with_derivatives():
    jac, v = sparse.jacobian(pairs, format="operator"), RNG.standard_normal(N)

    def product(x):
        made = jac(x)
        assert isinstance(made, SparseArray)
        return np.sum((made @ v) ** 2)

    expected = fg.grad(lambda x: np.sum(fg.jvp(pairs, (x,), (v,))[1] ** 2))(X)
    np.testing.assert_allclose(fg.grad(product)(X), expected, rtol=1e-12)


def test_threads_share_products_and_change_no_bit(monkeypatch):
    size = 60_000
    jac = sparse.jacobian(pairs, format="operator")
    x, v = RNG.uniform(0.5, 1.5, size), RNG.standard_normal((size, 2))
    found = []
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "get_num_threads", lambda count=count: count)
        J = jac(x)
        assert threads.parts(1000, J.matrix.nnz) == count
        found.append([(J @ v).tobytes(), (J.T @ v).tobytes(), (J.T @ (v[:, 0] + 1j)).tobytes()])
    assert found[0] == found[1] == found[2]
    np.testing.assert_allclose(J.T @ v, J.matrix.T @ v, rtol=1e-12, atol=1e-13)
