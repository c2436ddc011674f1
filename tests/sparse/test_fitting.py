"""Least squares in scaled variables end where SciPy's do, after fewer products."""

import numpy as np
import pytest
from scipy import optimize
from scipy import sparse as scipy_sparse

import fgrad as fg
from fgrad import sparse
from fgrad.sparse import fitting
from fgrad.sparse.operators import MatrixOperator

RNG = np.random.default_rng(3)
TIGHT = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-12}
EXACT = {"tr_options": {"atol": 1e-14, "btol": 1e-14}, **TIGHT}


def observed(cameras=3, points=20):
    """Return residuals of places and of how they are seen: blocks of 4 and of 2 unknowns."""
    camera, point = np.divmod(np.arange(cameras * points), points)

    def seen(x):
        c, p = x[: 4 * cameras].reshape(-1, 4)[camera], x[4 * cameras :].reshape(-1, 2)[point]
        turned = c[:, :1] * p + 0.2 * c[:, 1:2] * p[:, ::-1] ** 2 + 30.0 * c[:, 2:]
        return turned.reshape(-1)

    true = RNG.uniform(0.5, 1.5, 4 * cameras + 2 * points)
    data = seen(true) + 1e-3 * RNG.standard_normal(2 * camera.size)
    start = true + 0.05 * RNG.standard_normal(true.size)
    return lambda x: np.concatenate([seen(x) - data, 1e-2 * (x - true)]), start


def test_the_solution_is_scipys():
    residuals, start = observed()
    jac = sparse.jacobian(residuals, format="operator")
    found = sparse.least_squares(residuals, start, jac=jac, **EXACT)
    expected = optimize.least_squares(residuals, start, jac=fg.jacfwd(residuals), **TIGHT)
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-6)
    np.testing.assert_allclose(found.cost, expected.cost, rtol=1e-10)
    np.testing.assert_array_equal(found.fun, residuals(found.x))
    dense = fg.jacfwd(residuals)(found.x)
    assert isinstance(found.jac, MatrixOperator)
    np.testing.assert_allclose(found.jac.matrix.toarray(), dense, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.grad, dense.T @ found.fun, atol=1e-10)
    assert found.optimality == np.abs(found.grad).max() < 1e-6
    assert found.success
    assert set(found) == set(expected)


def test_robust_losses_are_scipys():
    residuals, start = observed(2, 6)
    found = sparse.least_squares(residuals, start, loss="soft_l1", f_scale=1e-3, **EXACT)
    expected = optimize.least_squares(
        residuals, start, jac=fg.jacfwd(residuals), loss="soft_l1", f_scale=1e-3, **TIGHT
    )
    np.testing.assert_allclose(found.cost, expected.cost, rtol=1e-8)
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-4)
    z = (found.fun / 1e-3) ** 2
    slope = fg.jacfwd(residuals)(found.x).T @ (found.fun / np.sqrt(1 + z))
    np.testing.assert_allclose(found.grad, slope, atol=1e-9)


def products(solve, jac):
    """Return how many products with the Jacobian and its transpose a solver takes."""
    count = []

    class Counted(MatrixOperator):
        def _matvec(self, x):
            count.append(1)
            return super()._matvec(x)

        def _rmatvec(self, x):
            count.append(1)
            return super()._rmatvec(x)

    solve(lambda *args: Counted((J := jac(*args)).matrix.data, J.layout))
    return len(count)


def test_blocks_need_fewer_products(monkeypatch):
    residuals, start = observed(8, 60)
    jac = sparse.jacobian(residuals, format="operator")
    scales = 1 / np.linalg.norm(jac(start).matrix.toarray(), axis=0)
    options = {"method": "trf", "tr_solver": "lsmr", "x_scale": scales, "ftol": 1e-8}
    by_columns = products(lambda J: optimize.least_squares(residuals, start, jac=J, **options), jac)

    def by_blocks(counted):
        monkeypatch.setattr(type(jac), "__call__", lambda _, *args: counted(*args))
        sparse.least_squares(residuals, start, jac=jac)

    call = type(jac).__call__
    assert products(by_blocks, lambda x: call(jac, x)) < 0.7 * by_columns


def test_columns_of_blocks_are_nearly_orthonormal():
    residuals, start = observed()
    J = sparse.jacobian(residuals, format="operator")(start)
    into, out_of = fitting._scaled(J)
    np.testing.assert_allclose((into @ out_of) @ np.eye(start.size), np.eye(start.size), atol=1e-11)
    dense, back = J.matrix.toarray(), out_of.matrix.toarray()
    norms = np.linalg.norm(dense, axis=0)
    correlations, scaled = (dense / norms).T @ (dense / norms), dense @ back
    blocks = np.split(np.arange(start.size), fitting._blocks(J.matrix)[1:])
    assert {len(block) for block in blocks} == {1, 2}
    for block in blocks:
        before = np.linalg.eigvalsh(correlations[np.ix_(block, block)])
        after = np.linalg.eigvalsh(scaled[:, block].T @ scaled[:, block])
        np.testing.assert_allclose(after, before / (before + fitting._DAMPING), rtol=1e-9)
        assert not np.delete(back[block], block, axis=1).any()


def test_single_columns_are_scaled_by_their_norms():
    J = sparse.jacobian(lambda x: np.concatenate([x[1:] * x[:-1], 7 * x[:1]]), format="operator")(
        np.arange(1.0, 6)
    )
    out_of = fitting._scaled(J)[1].matrix.toarray()
    norms = np.linalg.norm(J.matrix.toarray(), axis=0)
    np.testing.assert_allclose(out_of, np.diag(1 / norms / np.sqrt(1 + fitting._DAMPING)), rtol=1e-12)


def test_wide_blocks_are_cut():
    n = 3 * fitting._WIDTH + 2
    dense = RNG.standard_normal((2 * n, n))
    J = sparse.jacobian(lambda x: dense @ x, format="operator")(np.ones(n))
    into = fitting._scaled(J)[0]
    assert np.diff(into.matrix.indptr).max() <= fitting._WIDTH
    found = sparse.least_squares(lambda x: dense @ x - 1.0, np.zeros(n), **EXACT)
    np.testing.assert_allclose(found.x, np.linalg.lstsq(dense, np.ones(2 * n))[0], rtol=1e-9)


def test_unknowns_that_nothing_depends_on_stay_where_they_are():
    def residuals(x):
        return np.stack([x[0] + x[1] - 2.0, 3.0 * x[0] + 3.0 * x[1] - 6.0, x[3] ** 2 - 4.0])

    start = np.array([0.5, 0.5, 7.0, 1.0])  # two that only their sum is known of, one that is in none
    found = sparse.least_squares(residuals, start, **TIGHT)
    np.testing.assert_allclose(found.x, [1.0, 1.0, 7.0, 2.0], rtol=1e-7)


@pytest.mark.parametrize("size", [2.0**-600, 2.0**600])
def test_entries_of_any_size(size):
    residuals, start = observed()
    jac = sparse.jacobian(residuals, format="operator")
    into, out_of = fitting._scaled(jac(start))
    large = MatrixOperator(size * jac(start).matrix.data, jac(start).layout)
    found = fitting._scaled(large)
    np.testing.assert_allclose(found[0].matrix.data, size * into.matrix.data, rtol=1e-12)
    np.testing.assert_allclose(found[1].matrix.data, out_of.matrix.data / size, rtol=1e-12)


def test_blocks_share_more_than_half_of_their_rows():
    dense = np.array([[1, 1, 0, 0, 1], [1, 1, 0, 0, 1], [0, 1, 1, 0, 0], [0, 0, 1, 0, 0], [1, 1, 0, 0, 1]])
    np.testing.assert_array_equal(fitting._blocks(scipy_sparse.csr_array(dense)), [0, 2, 3, 4])
    np.testing.assert_array_equal(fitting._blocks(scipy_sparse.csr_array(np.eye(3, 4))), [0, 1, 2, 3])
    np.testing.assert_array_equal(fitting._blocks(scipy_sparse.csr_array((2, 3))), [0, 1, 2])


def test_further_arguments_and_options():
    def residuals(x, a, *, b):
        return a * x - b

    found = sparse.least_squares(
        residuals,
        [0.0, 0.0],
        args=(2.0,),
        kwargs={"b": np.array([1.0, 4.0])},
        tr_options={"atol": 1e-14},
        max_nfev=9,
    )
    np.testing.assert_allclose(found.x, [0.5, 2.0], rtol=1e-9)
    assert sparse.least_squares(lambda x: x**3 - 1, [5.0], max_nfev=2).nfev == 2


def test_mistakes():
    with pytest.raises(TypeError, match=r"jac must be sparse\.jacobian"):
        sparse.least_squares(lambda x: x, [1.0], jac=sparse.jacobian(lambda x: x))
    with pytest.raises(TypeError, match=r"jac must be sparse\.jacobian"):
        sparse.least_squares(lambda x: x, [1.0], jac=fg.jacfwd(lambda x: x))
    with pytest.raises(TypeError, match=r"jac must be sparse\.jacobian"):
        jac = sparse.jacobian(lambda x, y: x * y, argnums=1, format="operator")
        sparse.least_squares(lambda x, y: x * y, [1.0], jac=jac, args=(np.ones(1),))
    with pytest.raises(ValueError, match="x0 must be a vector"):
        sparse.least_squares(lambda x: x, np.ones((2, 2)))
    with pytest.raises(ValueError, match="the Jacobian is not finite at x0"):
        sparse.least_squares(np.sqrt, np.zeros(2))
    with pytest.raises(TypeError, match="bounds"):
        sparse.least_squares(lambda x: x, [1.0], bounds=(0, 1))
