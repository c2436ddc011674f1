"""Matrices in the stand-in for JAX: what is read of them, orders of results, NaN; values are JAX 0.10.2's."""

import sys

import numpy as np
import pytest

from fgrad.compat.jax import installed

# the library itself may be installed beside; another test may have loaded it
if "jax" in sys.modules:
    pytest.skip("JAX itself is loaded", allow_module_level=True)
with installed():
    import jax
    import jax.numpy as jnp
    import jax.scipy
    import jax.test_util
    from jax import lax

UNEQUAL = jnp.array([[4.0, 1.0], [2.0, 3.0]])
SYMMETRIC = jnp.array([[4.0, 1.0], [1.0, 3.0]])
NO_FACTOR = jnp.array([[1.0, 2.0], [2.0, 1.0]])
WEIGHTS = jnp.array([[1.0, 2.0], [3.0, 5.0]])
HERMITIAN = jnp.array([[4.0, 1.0 + 1j], [1.0 - 1j, 3.0]])
N = np.nan


def close(x, y, tolerance=2e-4):
    assert isinstance(x, jax.Array)
    np.testing.assert_allclose(np.asarray(x), y, rtol=tolerance, atol=tolerance)


def test_symmetric_parts_are_read():
    for function in (jnp.linalg.cholesky, lax.linalg.cholesky):
        close(function(UNEQUAL), [[2, 0], [0.75, 1.5612]])
        close(jax.grad(lambda x, f=function: f(x).sum())(SYMMETRIC), [[0.2063, 0.1746], [0.1746, 0.3015]])
    close(jnp.linalg.cholesky(UNEQUAL, upper=True), [[2, 0.75], [0, 1.5612]])
    close(jnp.linalg.cholesky(UNEQUAL, symmetrize_input=False), [[2, 0], [1, 1.4142]])
    close(jax.scipy.linalg.cholesky(UNEQUAL), [[2, 0.5], [0, 1.6583]])
    for values in (
        jnp.linalg.eigh(UNEQUAL)[0],
        jnp.linalg.eigvalsh(UNEQUAL),
        jax.scipy.linalg.eigh(UNEQUAL)[0],
    ):
        close(values, [1.9189, 5.0811])
    close(jnp.linalg.eigh(UNEQUAL, symmetrize_input=False)[0], [1.4384, 5.5616])
    close(jnp.linalg.eigh(UNEQUAL, UPLO="U", symmetrize_input=False)[0], [2.382, 4.618])
    close(jax.grad(lambda x: jnp.linalg.eigh(x)[0][0])(UNEQUAL), [[0.3419, -0.4743], [-0.4743, 0.6581]])


def test_orders_and_sizes_of_lax():
    vectors, values = lax.linalg.eigh(SYMMETRIC)
    close(values, [2.382, 4.618])
    close(abs(vectors), [[0.5257, 0.8507], [0.8507, 0.5257]])
    tall = jnp.arange(6.0).reshape(3, 2)
    assert [x.shape for x in lax.linalg.qr(tall)] == [(3, 3), (3, 2)]
    assert [x.shape for x in lax.linalg.qr(tall, full_matrices=False)] == [(3, 2), (2, 2)]
    assert [x.shape for x in lax.linalg.svd(tall, full_matrices=False)] == [(3, 2), (2,), (2, 2)]
    assert lax.linalg.svd(tall, compute_uv=False).shape == (2,)
    with pytest.raises(NotImplementedError, match="pivoting"):
        lax.linalg.qr(tall, pivoting=True)
    with pytest.raises(NotImplementedError, match="subset_by_index"):
        lax.linalg.svd(tall, subset_by_index=(0, 1))


@pytest.mark.parametrize(
    ("function", "missing"),
    [
        (jnp.linalg.cholesky, [[N, 0], [N, N]]),
        (lambda x: jnp.linalg.cholesky(x, upper=True), [[N, N], [0, N]]),
        (jax.scipy.linalg.cholesky, [[N, N], [0, N]]),
        (lambda x: jax.scipy.linalg.cho_factor(x, True)[0], [[N, 0], [N, N]]),
    ],
)
def test_matrices_without_a_factor(function, missing):
    close(function(NO_FACTOR), missing)
    both = function(jnp.stack([SYMMETRIC, NO_FACTOR]))
    close(both[0], function(SYMMETRIC))
    close(both[1], missing)
    assert np.isnan(np.asarray(jax.grad(lambda x: function(x).sum())(NO_FACTOR))).any()
    for run in (jax.jit(function), jax.vmap(function), jax.jit(jax.vmap(function))):
        close(run(jnp.stack([SYMMETRIC, NO_FACTOR])), both)
    _, along = jax.jit(lambda x: jax.jvp(function, (x,), (SYMMETRIC,)))(NO_FACTOR)
    close(along, missing)


@pytest.mark.parametrize("upper", [False, True])
def test_derivatives_of_factors_whose_matrices_are_traced(upper):
    def f(x):
        return (jnp.linalg.cholesky(x, upper=upper) * WEIGHTS).sum()

    close(jax.jit(jax.grad(f))(SYMMETRIC), jax.grad(f)(SYMMETRIC))
    with jax.enable_x64():
        jax.test_util.check_grads(jax.jit(f), (SYMMETRIC.astype(float),), order=2)
    close(jax.jit(jnp.linalg.cholesky)(HERMITIAN), np.linalg.cholesky(HERMITIAN))


def test_dot_general():
    x, y = jnp.arange(24.0).reshape(2, 3, 4), jnp.arange(40).reshape(5, 2, 4)
    out = lax.dot_general(x, y, (((2,), (2,)), ((0,), (1,))))
    close(out, np.einsum("bij,kbj->bik", x, y))
    close(lax.dot_general(x, y, (((2, 0), (2, 1)), ((), ()))), np.einsum("bij,kbj->ik", x, y))
    wide = lax.dot_general(x, x, (((), ()), ((0, 1, 2), (0, 1, 2))), preferred_element_type=jnp.int32)
    assert wide.dtype == jnp.int32
    close(wide, np.square(np.asarray(x)))
    close(lax.dot(x[0], y[0].T), np.asarray(x[0]) @ np.asarray(y[0]).T)


@pytest.mark.parametrize(
    "product",
    [
        jnp.matmul,
        lambda x, y, **options: jnp.einsum("ij,jk->ik", x, y, **options),
        lambda x, y, **options: lax.dot_general(x, y, (((1,), (0,)), ((), ())), **options),
    ],
)
def test_products_hold_what_is_preferred(product):
    x = jnp.full((2, 2), 100, jnp.int8)
    y = product(x, x, preferred_element_type=jnp.int32)
    assert y.dtype == jnp.int32
    close(y, np.full((2, 2), 20000))
    assert product(x * 1.0, x * 1.0, preferred_element_type=jnp.float16).dtype == jnp.float16


def test_attention():
    x = jnp.arange(24.0).reshape(1, 3, 4, 2) / 24
    few = x[:, :, :2]
    mask = jnp.ones((1, 1, 3, 3), bool).at[..., 2, :].set(False)
    attend = jax.nn.dot_product_attention
    close(attend(x, few, few)[0, 1, :, 0], [0.3703, 0.3788, 0.4707, 0.4791])
    close(attend(x, few, few, is_causal=True)[0, 1, :, 0], [0.1805, 0.1838, 0.2704, 0.2736])
    close(attend(x, few, few, mask=mask)[0, 2, :, 0], [1 / 3, 1 / 3, 5 / 12, 5 / 12])
    grads = jax.grad(lambda q: attend(q, few, few, few.mean()[None, None, None, None], mask).sum())(x)
    close(grads[0, 1, :, 0], [0.1033, 0.1026, 0.1017, 0.1006])
    close(grads[0, 2], np.zeros((4, 2)))
    close(attend(x[0], few[0], few[0]), attend(x, few, few)[0])
    assert attend(*[v.astype(jnp.float16) for v in (x, few, few)]).dtype == jnp.float16
    with pytest.raises(NotImplementedError, match="local_window_size"):
        attend(x, x, x, local_window_size=2)
    with pytest.raises(ValueError, match="one kind"):
        attend(x, x, few)
    with pytest.raises(ValueError, match="must be a multiple"):
        attend(x[:, :, :3], few, few)


def test_norms_of_matrices():
    x = jnp.arange(12).reshape(2, 2, 3)
    close(jnp.linalg.matrix_norm(x), np.linalg.matrix_norm(x))
    close(jnp.linalg.matrix_norm(x, ord=1, keepdims=True), np.linalg.matrix_norm(x, ord=1, keepdims=True))


def test_arrays_are_found_in_lists_and_by_name():
    a, b = jnp.ones((2, 3)), np.ones((3, 4), int)
    found = jnp.linalg.multi_dot([a, b])
    assert found.dtype == np.float32
    close(found, 3 * np.ones((2, 4)))
    close(jax.grad(lambda a: jnp.linalg.multi_dot([a, b, jnp.ones((4, 5))]).sum())(a), 20 * np.ones((2, 3)))
    assert jnp.linalg.multi_dot((b.T, b)).dtype == np.int32
    close(jnp.linalg.det(a=UNEQUAL), 10.0)
    with jax.numpy_dtype_promotion("strict"):  # pivots stay integers
        factors = jax.scipy.linalg.lu_factor(UNEQUAL)
        close(jax.scipy.linalg.lu_solve(factors, jnp.ones(2)), [0.2, 0.2])


def test_eigenvalues_and_roots_are_complex_also_where_they_are_real():
    x = jnp.array([[2.0, 1.0], [1.0, 2.0]])
    values, vectors = jnp.linalg.eig(x)
    root = jax.scipy.linalg.sqrtm(x)
    for found in (values, vectors, root, jnp.linalg.eigvals(x), jax.jit(jnp.linalg.eigvals)(x)):
        assert found.dtype == np.complex64
    close(x @ vectors, vectors * values)
    close(root @ root, x)
    close(jax.grad(lambda x: jnp.linalg.eigvals(x).real.sum())(x), np.eye(2))


def test_schur_forms():
    x = jnp.array([[1.0, 2.0], [-3.0, 0.5]])
    for t, z in (jax.lax.linalg.schur(x), jax.jit(jax.scipy.linalg.schur)(x)):
        assert t.dtype == z.dtype == np.float32
        close(z @ t @ z.T, x)
    t, z = jax.scipy.linalg.schur(x, output="complex")
    assert t.dtype == np.complex64
    close(z @ t @ z.conj().T, x)


@pytest.mark.parametrize("run", [lambda f: f, jax.jit])
def test_singular_systems_are_nan(run):
    for a in (jnp.zeros((2, 2)), jnp.ones((2, 2)), jnp.full((2, 2), N)):
        for f in (jnp.linalg.solve, jax.scipy.linalg.solve):
            assert np.isnan(np.asarray(run(f)(a, jnp.ones(2)))).all()
        for f in (jnp.linalg.inv, jax.scipy.linalg.inv):
            assert np.isnan(np.asarray(run(f)(a))).all()
    close(run(jnp.linalg.solve)(SYMMETRIC, jnp.ones(2)), [2 / 11, 3 / 11])
    definite = lambda a, b: jax.scipy.linalg.solve(a, b, assume_a="pos")
    close(run(definite)(SYMMETRIC, jnp.ones(2)), [2 / 11, 3 / 11])
    assert np.isnan(np.asarray(run(definite)(NO_FACTOR, jnp.ones(2)))).all()


def test_matrices_of_integers_and_residuals():
    whole = jnp.arange(4).reshape(2, 2)
    for found, expected in (
        (jax.scipy.linalg.block_diag(whole, jnp.array([5])), [[0, 1, 0], [2, 3, 0], [0, 0, 5]]),
        (jax.scipy.linalg.toeplitz(jnp.array([1, 2])), [[1, 2], [2, 1]]),
        (jnp.linalg.trace(whole), 3),
        (jnp.linalg.outer(whole[0], whole[1]), [[0, 0], [2, 3]]),
    ):
        assert (found.dtype, found.tolist()) == ("int32", expected)
    deficient, right = jnp.ones((3, 2)), jnp.array([1.0, 2.0, 3.0])
    assert jnp.linalg.lstsq(deficient, right, numpy_resid=True)[1].shape == (0,)
    close(jnp.linalg.lstsq(deficient, right)[1], [2.0])
    close(jnp.linalg.lstsq(deficient, jnp.stack([right, 2 * right], 1))[1], [2.0, 8.0])
    close(jax.scipy.special.log_ndtr(jnp.zeros(1), 3), [np.log(0.5)])
