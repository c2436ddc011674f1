"""Sparse arrays with gradients of their stored values, against dense ones."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from tests.helpers import close, exactly

import fgrad as fg
from fgrad.scipy import sparse
from fgrad.testing import check_grads

DATA = np.array([1.0, 2.0, 3.0, -1.0, 4.0])
ROWS, COLS = np.array([0, 0, 1, 2, 2]), np.array([0, 2, 2, 0, 1])
INDPTR = np.array([0, 2, 3, 5])


def dense(data):
    return np.stack([np.stack([data[0], 0.0, data[1]]), np.stack([0.0, 0.0, data[2]]),
                     np.stack([data[3], data[4], 0.0])])  # fmt: skip


def test_every_way_to_make_one():
    expected = dense(DATA)
    csr = sparse.csr_array((DATA, COLS, INDPTR))
    close(csr.toarray(), expected)
    close(sparse.csc_array((DATA, COLS, INDPTR)).toarray(), expected.T)
    close(sparse.coo_array((DATA, (ROWS, COLS))).toarray(), expected)
    close(sparse.coo_array((DATA, (ROWS, COLS)), (4, 5)).toarray(), np.pad(expected, ((0, 1), (0, 2))))
    close(sparse.csr_array(scipy.sparse.csc_matrix(expected)).toarray(), expected)
    close(sparse.csr_array(expected).toarray(), expected)
    assert sparse.csr_array(csr) is csr
    assert csr.shape == (3, 3)
    assert csr.nnz == 5
    assert csr.dtype == np.float64
    assert repr(csr) == f"SparseArray({DATA!r}, 5 values in 3 x 3)"
    theirs = csr.toscipy()
    assert theirs.format == "csr"
    close(theirs.toarray(), expected)


def test_products_in_values_and_operands(rng):
    make = lambda data: sparse.csr_array((data, COLS, INDPTR))
    for x in (rng.standard_normal(3), rng.standard_normal((3, 2))):
        close(make(DATA) @ x, dense(DATA) @ x)
        close(x.T @ make(DATA), x.T @ dense(DATA))
        check_grads(lambda data, x: make(data) @ x, (DATA, x), order=2)
        check_grads(lambda data, x: x.T @ make(data), (DATA, x), order=2)
    x = rng.standard_normal(3)
    close(
        fg.jacrev(lambda data: (-make(data) * 2.0).T @ x)(DATA),
        fg.jacrev(lambda d: -2 * dense(d).T @ x)(DATA),
    )
    close(fg.jacrev(lambda data: make(data).toarray())(DATA), fg.jacrev(dense)(DATA))


def test_the_nonzero_elements_of_a_dense_tensor_get_gradients(rng):
    x, m = rng.standard_normal(3), dense(DATA)
    loss = lambda make: lambda m: np.sum((make(m) @ x) ** 2)
    expected = np.where(m != 0, fg.grad(loss(lambda m: m))(m), 0.0)
    close(fg.grad(loss(sparse.csr_array))(m), expected)
    solved = lambda m: np.sum(sparse.linalg.spsolve(m, x))
    close(fg.grad(solved)(m), np.where(m != 0, fg.grad(lambda m: np.sum(np.linalg.solve(m, x)))(m), 0.0))
    with pytest.raises(TypeError, match="needs the value of a Tensor"):
        fg.jit(solved)(m)


def test_values_at_one_place_add_up():
    make = lambda data: sparse.coo_array((data, ([0, 0, 1], [1, 1, 0])))
    close(make(np.array([1.0, 2.0, 4.0])).toarray(), [[0.0, 3.0], [4.0, 0.0]])
    close(fg.grad(lambda data: (make(data) @ np.array([1.0, 10.0]))[0])(np.ones(3)), [10.0, 10.0, 0.0])


def test_they_are_pytrees(rng):
    a, x = sparse.csr_array((DATA, COLS, INDPTR)), rng.standard_normal(3)
    loss = lambda a, x: np.sum((a @ x) ** 2)
    expected = fg.grad(lambda data: np.sum((dense(data) @ x) ** 2))(DATA)
    gradient = fg.grad(loss)(a, x)
    assert isinstance(gradient, sparse.SparseArray)
    close(gradient.data, expected)
    close(fg.jit(fg.grad(loss))(a, x).data, expected)
    again = sparse.csr_array((2 * DATA, COLS.copy(), INDPTR.copy()))
    assert hash(again.pattern) == hash(a.pattern)
    assert again.pattern == a.pattern != a.T.pattern
    several = sparse.SparseArray(np.stack([DATA, 2 * DATA]), a.pattern)
    close(fg.vmap(lambda a: a @ x)(several), [dense(DATA) @ x, 2 * dense(DATA) @ x])
    close(fg.vmap(lambda x: a @ x)(np.stack([x, 2 * x])), [dense(DATA) @ x, 2 * dense(DATA) @ x])


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"as many values as indices, not \(5,\) and \(4,\)"):
        sparse.coo_array((DATA, (ROWS[:4], COLS[:4])))
    with pytest.raises(
        ValueError, match=r"a column index of a sparse array of shape \(3, 2\) is out of bounds"
    ):
        sparse.coo_array((DATA, (ROWS, COLS)), (3, 2))
    with pytest.raises(ValueError, match="a sparse array has two dimensions, not 1"):
        sparse.csr_array(np.ones(2))
    with pytest.raises(TypeError):
        sparse.csr_array(np.eye(2)) @ sparse.csr_array(np.eye(2))
    with pytest.raises(TypeError):
        sparse.csr_array(np.eye(2)) * np.ones(2)
    with pytest.raises(TypeError, match="would lose their gradient; multiply by the array"):
        fg.grad(lambda d: sparse.csr_array((d, COLS, INDPTR)).toscipy().sum())(DATA)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint8, np.uint32, np.uint64])
def test_indices_of_every_integer_dtype(dtype, rng):
    x, rows, cols = rng.standard_normal(3), ROWS.astype(dtype), COLS.astype(dtype)
    for make in (
        lambda d: sparse.coo_array((d, (rows, cols)), dense(DATA).shape),
        lambda d: sparse.csr_array((d, cols, INDPTR.astype(dtype)), dense(DATA).shape),
    ):
        close(make(DATA) @ x, dense(DATA) @ x)
        close(fg.grad(lambda d: np.sum((make(d) @ x) ** 2))(DATA), 2 * (dense(DATA) @ x)[ROWS] * x[COLS])


def test_arrays_without_values_or_rows():
    for shape in ((0, 0), (0, 3), (3, 0), (3, 2)):
        make = lambda d: sparse.coo_array((d, ([], [])), shape)
        none, x = np.zeros(0), np.ones((shape[1], 2))
        exactly(make(none) @ x, np.zeros((shape[0], 2)))
        exactly(make(none).toarray(), np.zeros(shape))
        for i, expected in enumerate((none, 0 * x)):
            exactly(fg.grad(lambda d, x: np.sum(make(d) @ x), i)(none, x), expected)
        exactly(fg.vmap(lambda x: make(none) @ x)(np.ones((4, *x.shape))), np.zeros((4, shape[0], 2)))


def test_a_dense_array_holds_what_is_not_finite_where_it_is():
    data = np.array([np.inf, np.nan, 1.0])
    make = lambda d: sparse.coo_array((d, ([0, 1, 1], [1, 0, 1]))).toarray()
    for f in (make, fg.jit(make), lambda d: fg.vmap(make)(d[None])[0]):
        np.testing.assert_array_equal(f(data), [[0.0, np.inf], [np.nan, 1.0]])


@pytest.mark.parametrize("kind", [np.int8, np.bool_, np.float32])
def test_products_with_half_precision_are_single_as_in_scipy(kind):
    data, x = np.ones(len(DATA), kind), np.ones(3, np.float16)
    theirs = sparse.coo_array((data, (ROWS, COLS))).toscipy()
    product = lambda data, x: sparse.coo_array((data, (ROWS, COLS))) @ x
    for f in (product, fg.jit(product), fg.jit(lambda data, x: theirs @ x)):
        exactly(f(data, x), theirs @ x)


def test_what_is_written_to_after_a_product_has_no_part_in_its_derivative():
    data, x = DATA.copy(), np.ones(3)
    _, by_data = fg.vjp(lambda d: sparse.coo_array((d, (ROWS, COLS))) @ x, DATA)
    _, by_x = fg.vjp(lambda x: sparse.coo_array((data, (ROWS, COLS))) @ x, np.ones(3))
    x[:], data[:] = 100.0, 100.0
    ct = np.arange(1.0, 1 + dense(DATA).shape[0])
    exactly(by_data(ct)[0], ct[ROWS])
    close(by_x(ct)[0], ct @ dense(DATA))


def test_shapes_that_do_not_fit_are_refused():
    for given in (dense(DATA), sparse.csr_array(dense(DATA)), sparse.csr_array(dense(DATA)).toscipy()):
        with pytest.raises(ValueError, match=r"of shape \(9, 9\) cannot be made of one of shape"):
            sparse.csr_array(given, shape=(9, 9))
    with pytest.raises(ValueError, match=r"a compressed sparse array of shape \(5, 5\) has not 3 pointers"):
        sparse.csr_array((np.ones(2), [0, 1], [0, 1, 2]), shape=(5, 5))
    with pytest.raises(ValueError, match="a vector that starts with 0"):
        sparse.csr_array((np.ones(2), [0, 1], [1, 2, 3]))
    with pytest.raises(ValueError, match="a sparse array has two dimensions, not 1"):
        sparse.coo_array(scipy.sparse.coo_array(np.ones(3)))
    with pytest.raises(TypeError, match="indices of a sparse array are integers, not float64"):
        sparse.coo_array((np.ones(2), ([0.0, 1.5], [0, 1])))
