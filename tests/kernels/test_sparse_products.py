"""Products of sparse matrices and vectors are SciPy's, to the last bit however many threads share them."""

import numpy as np
import pytest
from scipy import sparse

from fgrad.errors import BrokenContractError
from fgrad.kernels import sparse_products, threads

RNG = np.random.default_rng(9)


def repeated(*counts, columns=11, density=0.4):
    """Return a matrix with runs of so many rows of one pattern each."""
    rows = [RNG.random(columns) < density for _ in counts]
    pattern = np.repeat(rows, counts, axis=0)
    return sparse.csr_array(np.where(pattern, RNG.standard_normal(pattern.shape), 0.0))


def random_matrix(m, n, density):
    made = sparse.random_array((m, n), density=density, rng=RNG, format="csr")
    made.sort_indices()
    return made


MATRICES = {
    "runs": repeated(*range(1, 10)),
    "columns": sparse.csr_array(repeated(*range(1, 10)).T),
    "random": random_matrix(40, 30, 0.1),
    "full": random_matrix(7, 5, 1.0),
    "empty rows": sparse.csr_array(repeated(2, 3, 4, density=0.2).toarray() * ([[0], [0], [1]] * 3)),
    "zero": sparse.csr_array((6, 4)),
    "no rows": sparse.csr_array((0, 4)),
    "no columns": sparse.csr_array((4, 0)),
    "many parts": random_matrix(300, 200, 0.3),
    "a long row": sparse.csr_array(np.vstack([np.ones((2, 10_000)), np.eye(2, 10_000)])),
}


def both(matrix, kind):
    """Return the strips of a matrix and its entries, along rows and along columns."""
    parts = matrix.indptr.astype(kind), matrix.indices.astype(kind)
    numbers = sparse.csr_array((np.arange(matrix.nnz), *parts[::-1]), shape=matrix.shape).tocsc()
    across = sparse_products.strips(numbers.indptr.astype(kind), numbers.indices.astype(kind))
    order = sparse_products.turned(across, numbers.data)
    return sparse_products.strips(*parts), matrix.data, across, matrix.data[order]


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("dtypes", ["dd", "ff", "fd"])
def test_products_are_those_of_scipy(name, kind, dtypes):
    matrix = MATRICES[name].astype(dtypes[0])
    rows, data, columns, turned = both(matrix, kind)
    x, y = (RNG.standard_normal(n).astype(dtypes[1]) for n in matrix.shape[::-1])
    for found, expected in (
        (sparse_products.product(rows, data, x, along=True), matrix @ x),
        (sparse_products.product(columns, turned, y, along=False), matrix.T @ y),
    ):
        assert (found.dtype, found.shape) == (dtypes[1], expected.shape)
        room = 100 * np.finfo(dtypes[1]).eps
        np.testing.assert_allclose(found, expected, rtol=room, atol=room * max(matrix.shape) ** 0.5)


@pytest.mark.parametrize("name", MATRICES)
def test_strips_hold_each_row_once_and_parts_each_strip(name):
    matrix = MATRICES[name]
    found = sparse_products.strips(matrix.indptr, matrix.indices)
    assert found.first[-1] == matrix.shape[0]
    assert found.parts[-1] == found.first.size - 1
    assert np.all(np.diff(found.parts) > 0)
    heights = np.diff(found.first)
    assert np.all((heights > 0) & (heights <= sparse_products.HEIGHT))
    for strip, place in enumerate(found.places):
        for i in range(found.first[strip], found.first[strip + 1]):
            own = matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]]
            np.testing.assert_array_equal(found.columns[place : place + own.size], own)


def test_rows_of_one_pattern_share_their_columns():
    matrix = repeated(*range(1, 10))
    found = sparse_products.strips(matrix.indptr, matrix.indices)
    assert found.columns.size == sum(np.diff(matrix.indptr)[np.cumsum(range(1, 10)) - 1])
    np.testing.assert_array_equal(np.diff(found.first)[:7], [1, 2, 3, 2, 2, 2, 3])


def test_runs_are_cut_into_equal_parts():
    starts, run = sparse_products.cut(np.array([0, 7, 8]), 14, 3)
    np.testing.assert_array_equal(starts, [0, 2, 4, 7, 8, 11])
    np.testing.assert_array_equal(run, [0, 0, 0, 1, 2, 2])


def test_parts_have_about_as_many_entries():
    matrix = random_matrix(300, 200, 0.3)
    found = sparse_products.strips(matrix.indptr, matrix.indices)
    entries = np.diff(matrix.indptr[found.first[found.parts]])
    assert entries.size > 3
    assert np.all(abs(entries[:-1] - sparse_products.PART) < 300)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_threads_change_no_bit(count, monkeypatch):
    matrix = random_matrix(2000, 1500, 0.1)
    rows, data, columns, turned = both(matrix, np.int32)
    x, y = RNG.standard_normal(1500), RNG.standard_normal(2000)
    expected = [matrix[[i]] @ x for i in (0, 1999)], (matrix.T @ y)
    monkeypatch.setattr(threads, "share", lambda loop, args, n, _: [loop(*args, i, i + 1) for i in range(n)])
    alone = (
        sparse_products.product(rows, data, x, along=True),
        sparse_products.product(columns, turned, y, along=False),
    )
    np.testing.assert_allclose(alone[0][[0, 1999]], np.concatenate(expected[0]), rtol=1e-12)
    np.testing.assert_allclose(alone[1], expected[1], rtol=1e-10, atol=1e-12)
    monkeypatch.undo()
    monkeypatch.setattr(threads, "get_num_threads", lambda: count)
    assert threads.parts(rows.parts.size - 1, data.size) == count
    for _ in range(5):
        shared = (
            sparse_products.product(rows, data, x, along=True),
            sparse_products.product(columns, turned, y, along=False),
        )
        assert all(a.tobytes() == b.tobytes() for a, b in zip(alone, shared, strict=True))


def test_what_is_not_finite_stays_in_its_row():
    matrix = sparse.csr_array(np.array([[1.0, 0, 2], [0, 3, 0], [0, 0, 0]]))
    rows, data, *_ = both(matrix, np.int32)
    found = sparse_products.product(rows, data, np.array([np.inf, np.nan, 1.0]), along=True)
    np.testing.assert_array_equal(found, [np.inf, np.nan, 0.0])


def test_entries_of_another_pattern_are_refused():
    rows, data, *_ = both(MATRICES["runs"], np.int32)
    with pytest.raises(BrokenContractError):
        sparse_products.product(rows._replace(first=rows.first[:-1]), data, np.ones(11), along=True)


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_products_of_columns_are_those_of_the_dense_matrix(name, kind, width):
    matrix = MATRICES[name]
    dense, n = matrix.toarray()[:, :60], min(60, matrix.shape[1])
    matrix = sparse.csr_array(dense)
    first = np.arange(0, n, width)
    widths = np.diff(np.append(first, n))
    own = np.repeat(widths, widths)
    found = sparse_products.of_columns(
        matrix.indptr.astype(kind),
        matrix.indices.astype(kind),
        matrix.data,
        np.append(0, np.cumsum(own)).astype(kind),
        np.repeat(first, widths),
    )
    blocks = [
        np.tril(dense[:, i : i + w].T @ dense[:, i : i + w]).ravel()
        for i, w in zip(first, widths, strict=True)
    ]
    np.testing.assert_allclose(found, np.concatenate([np.zeros(0), *blocks]), rtol=1e-10, atol=1e-13)
