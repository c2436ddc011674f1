"""Colours: no two columns of one share a row, no two colours form a path of four vertices, or a cycle."""

import numpy as np
import pytest
from scipy import sparse

from fgrad.kernels import colouring

RNG = np.random.default_rng(8)


def sides(matrix):
    across = sparse.csr_array(matrix.T)
    parts = matrix.indptr, matrix.indices, across.indptr, across.indices
    return [np.ascontiguousarray(x, np.int64) for x in parts]


def random_matrix(m, n, density):
    made = sparse.random_array((m, n), density=density, rng=RNG, format="csr")
    made.sort_indices()
    return made


SHAPES = [(1, 1), (5, 5), (7, 3), (3, 7), (30, 20), (20, 30)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("density", [0.0, 0.05, 0.2, 0.6, 1.0])
def test_columns_of_a_colour_share_no_row(shape, density):
    matrix = random_matrix(*shape, density)
    parts, n = sides(matrix), shape[1]
    lengths = np.diff(matrix.indptr)
    meets = np.array([(lengths[matrix[:, [j]].nonzero()[0]] - 1).sum() for j in range(n)], np.int64)
    orders = [np.arange(n), RNG.permutation(n)]
    orders += [colouring.ordered(*parts, meets, last=last) for last in (True, False)]
    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(n))
        colour = colouring.columns_apart(*parts, order)
        groups = sparse.csr_array((np.ones(n), (np.arange(n), colour)))
        assert ((matrix != 0).astype(float) @ groups).max() <= 1
        assert lengths.max() <= colour.max() + 1 <= n
        assert set(colour) == set(range(colour.max() + 1))


@pytest.mark.parametrize("seed", range(20))
def test_smallest_last_needs_two_colours_for_a_forest(seed):
    n = 40
    rows = np.arange(1, n)
    parents = np.random.default_rng(seed).integers(0, rows)
    tree = sparse.csr_array(
        (np.ones(2 * n - 2), (np.repeat(rows - 1, 2), np.stack([rows, parents], 1).ravel()))
    )
    tree.sort_indices()
    parts = sides(tree)
    order = colouring.ordered(*parts, np.diff(parts[2]), last=True)
    assert colouring.columns_apart(*parts, order).max() == 1


def test_an_order_by_incidence_goes_on_where_most_has_been_met():
    path = sparse.csr_array(np.eye(6, 7) + np.eye(6, 7, 1))
    order = colouring.ordered(*sides(path), np.full(7, 4), last=False)
    met = {order[0]}
    for v in order[1:]:
        assert {v - 1, v + 1} & met
        met.add(v)


def random_graph(n, density):
    """Return a symmetric pattern without diagonal, its parts as kernels take them, and the edges."""
    half = random_matrix(n, n, density)
    graph = sparse.csr_array((half + half.T) != 0)
    graph.setdiag(False)
    graph.eliminate_zeros()
    graph.sort_indices()
    rows, columns = graph.nonzero()
    ends = np.minimum(rows, columns) * n + np.maximum(rows, columns)
    unique, edges = np.unique(ends, return_inverse=True)
    parts = [np.ascontiguousarray(x, np.int64) for x in (graph.indptr, graph.indices, edges)]
    return graph, parts, (unique // n, unique % n)


@pytest.mark.parametrize("n", [1, 2, 6, 15])
@pytest.mark.parametrize("density", [0.0, 0.1, 0.3, 1.0])
def test_two_colours_form_stars(n, density):
    for _ in range(10):
        graph, parts, _ = random_graph(n, density)
        colour, near = colouring.stars(*parts, RNG.permutation(n)), graph.toarray()
        assert not (near & (colour[:, None] == colour)).any()
        for a, b in zip(*graph.nonzero(), strict=True):
            for c in np.nonzero(near[b])[0]:
                for d in np.nonzero(near[c])[0]:
                    if len({a, b, c, d}) == 4:
                        assert len({colour[a], colour[b], colour[c], colour[d]}) > 2


def has_cycle(near):
    """Return whether a graph has more edges than a forest of as many parts."""
    count, _ = sparse.csgraph.connected_components(near)
    return near.sum() // 2 > near.shape[0] - count


@pytest.mark.parametrize("n", [1, 2, 6, 15])
@pytest.mark.parametrize("density", [0.0, 0.1, 0.3, 0.6, 1.0])
def test_two_colours_form_trees(n, density):
    for _ in range(10):
        graph, parts, _ = random_graph(n, density)
        colour, near = colouring.trees(*parts, RNG.permutation(n)), graph.toarray()
        assert not (near & (colour[:, None] == colour)).any()
        for a in range(colour.max() + 1):
            for b in range(a):
                both = (colour == a) | (colour == b)
                assert not has_cycle(near[np.ix_(both, both)])


def test_a_ring_takes_three_colours_for_trees_and_a_tree_two():
    ring = sparse.csr_array(np.roll(np.eye(12), 1, axis=1) + np.roll(np.eye(12), -1, axis=1))
    rows, columns = ring.nonzero()
    edges = np.unique(np.minimum(rows, columns) * 12 + np.maximum(rows, columns), return_inverse=True)[1]
    parts = [np.ascontiguousarray(x, np.int64) for x in (ring.indptr, ring.indices, edges)]
    assert colouring.trees(*parts, np.arange(12)).max() + 1 == 3
    path = [p.copy() for p in sides(sparse.csr_array(np.eye(12, k=1) + np.eye(12, k=-1)))[:2]]
    rows = np.repeat(np.arange(12), np.diff(path[0]))
    assert colouring.trees(*path, np.minimum(rows, path[1]), np.arange(12)).max() + 1 == 2


def test_edges_of_forests_are_left_alone_one_after_the_other_and_those_of_cycles_never():
    first, second = np.array([0, 1, 2, 5, 6, 7]), np.array([1, 2, 3, 6, 7, 5])  # a path, and a triangle
    own = colouring.peeled(first, second, np.bincount(np.concatenate([first, second]), minlength=9))
    assert own.tolist()[3:] == [-1, -1, -1]
    assert own[0] == 0  # whose end has no other edge
    assert own[2] == 3
    assert own[1] in {1, 2}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bias", [-1, 0, 1])
def test_few_entries_are_left_in_each_row_and_column_that_is_taken_out(shape, bias):
    for density in (0.1, 0.4, 1.0):
        matrix = random_matrix(*shape, density)
        m, n = shape
        when = colouring.parts(*sides(matrix), m + n + 1, bias)
        np.testing.assert_array_equal(np.sort(when), np.arange(m + n))
        rows, columns = matrix.nonzero()
        in_row = when[rows] < when[m + columns]
        across = np.bincount(rows[in_row], minlength=m).max()
        down = np.bincount(columns[~in_row], minlength=n).max()
        assert across + down <= min(m, n) + 1
    full = sides(sparse.csr_array(np.ones(shape)))
    assert (colouring.parts(*full, min(shape), bias) < 0).any() == (min(shape) > 0)
