"""Colourings: every entry is found among the products, and known matrices take as many as they should."""

import numpy as np
import pytest
from scipy import sparse

from fgrad.sparse import Colouring
from fgrad.sparse import colouring as colours

RNG = np.random.default_rng(2)


def truths(dense):
    made = sparse.csr_array(np.asarray(dense) != 0)
    made.sort_indices()
    return made


def recovered(matrix, made, *, symmetric=False):
    """Return the matrix from its products, as they are defined."""
    pattern = truths(matrix)
    parts = []
    for colour, a in ((made.columns, matrix), (made.rows, matrix.T)):
        if colour is not None and colour.size:
            parts += [a @ (colour == k) for k in range(colour.max() + 1)]
    found = np.zeros(matrix.shape)
    found[pattern.nonzero()] = np.concatenate(parts)[colours.places(pattern, made, symmetric=symmetric)]
    return found


def random_matrix(m, n, density):
    return np.where(RNG.random((m, n)) < density, RNG.uniform(1, 2, (m, n)), 0.0)


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("density", [0.02, 0.1, 0.3, 1.0])
def test_every_entry_is_found(mode, density):
    for shape in [(1, 1), (4, 9), (9, 4), (25, 25), (40, 30)]:
        matrix = random_matrix(*shape, density)
        if matrix.any():
            np.testing.assert_array_equal(recovered(matrix, colours.chosen(truths(matrix), mode)), matrix)


@pytest.mark.parametrize("density", [0.02, 0.1, 0.3, 1.0])
def test_every_entry_of_a_symmetric_matrix_is_found(density):
    for n in (1, 4, 25):
        half = random_matrix(n, n, density)
        matrix = half + half.T
        if matrix.any():
            made = Colouring(colours.of_stars(truths(matrix)))
            np.testing.assert_array_equal(recovered(matrix, made, symmetric=True), matrix)


def summed(matrix, colour):
    """Return a symmetric matrix from its products and their sums along trees, as they are defined."""
    made = Colouring(colour)
    where, forest = colours.along_trees(truths(matrix), made)
    products = np.concatenate([matrix @ (colour == k) for k in range(made.colours)])
    sums = products[forest.read] if forest.steps else products[:0]
    for k, (below, above) in enumerate(forest.steps):
        moved = sums[below] * (-1 if k == 0 else 1)
        np.add.at(sums, above, moved)
    found = np.zeros(matrix.shape)
    found[truths(matrix).nonzero()] = np.concatenate([products, sums])[where]
    return found, forest


@pytest.mark.parametrize("density", [0.02, 0.1, 0.3, 1.0])
def test_every_entry_of_a_symmetric_matrix_follows_along_trees(density):
    for n in (1, 2, 4, 25, 60):
        half = random_matrix(n, n, density)
        matrix = half + half.T
        if matrix.any():
            for colour in (colours.of_trees(truths(matrix)), colours.of_stars(truths(matrix))):
                np.testing.assert_allclose(summed(matrix, colour)[0], matrix, rtol=1e-12)


def test_long_trees_are_gone_along_in_steps_that_double():
    n = 1000
    x = RNG.uniform(1, 2, n - 1)
    chain = np.diag(x, 1) + np.diag(x, -1) + np.diag(RNG.uniform(1, 2, n))
    found, forest = summed(chain, np.arange(n) % 2)
    np.testing.assert_allclose(found, chain, rtol=1e-10)
    assert len(forest.steps) <= 10
    star = np.eye(n)
    star[0] = star[:, 0] = 1
    assert not summed(star, (np.arange(n) > 0).astype(int))[1].steps


def test_colours_that_form_a_cycle_are_refused_by_the_entry_that_they_hide():
    ring = np.eye(4) + np.roll(np.eye(4), 1, axis=1) + np.roll(np.eye(4), -1, axis=1)
    with pytest.raises(ValueError, match=r"does not give the entry \(0, 1\)"):
        colours.along_trees(truths(ring), Colouring(np.arange(4) % 2))
    with pytest.raises(ValueError, match=r"does not give the entry \(0, 1\)"):
        colours.along_trees(truths(ring), Colouring(np.array([0, 0, 1, 2])))
    with pytest.raises(ValueError, match=r"does not give the entry \(0, 0\)"):
        colours.along_trees(truths(np.eye(2)), Colouring(np.array([-1, 0])))


def test_rows_and_columns_share_the_entries_where_neither_does_alone():
    """Coleman & Verma's partition: entries of full columns do not keep rows apart that they cross."""
    k = 40
    blocks = np.kron(np.eye(k), np.ones((1, k)))  # rows that share no column
    matrix = np.column_stack([np.ones(k), blocks])
    assert colours.chosen(truths(matrix), "forward").colours == k + 1
    assert colours.chosen(truths(matrix), "reverse").colours == k
    for mode in ("bidirectional", "auto"):
        made = colours.chosen(truths(matrix), mode)
        assert made.colours == 2
        np.testing.assert_array_equal(recovered(matrix, made), matrix)
        assert colours.chosen(truths(matrix.T), mode).colours == 2
    for full in (1, 2, 3, 5):  # arrows with several heads
        arrow = sum(np.eye(200, k=i) for i in (-1, 0, 1))
        arrow[:full] = arrow[:, :full] = 1
        made = colours.chosen(truths(arrow), "bidirectional")
        np.testing.assert_array_equal(recovered(arrow, made), arrow)
        assert made.colours <= 2 * full + 3


def test_known_matrices():
    n = 50
    bands = sum(np.eye(n, k=k) for k in (-1, 0, 1))
    assert colours.chosen(truths(bands), "auto").colours == 3
    assert Colouring(colours.of_stars(truths(bands))).colours == 3
    arrow = np.eye(n)
    arrow[0] = arrow[:, 0] = 1
    assert colours.chosen(truths(arrow), "forward").colours == n
    assert colours.chosen(truths(arrow), "reverse").colours == n
    assert colours.chosen(truths(arrow), "bidirectional").colours <= 3
    assert colours.chosen(truths(arrow), "auto").colours <= 3
    assert Colouring(colours.of_stars(truths(arrow))).colours == 2
    wide, tall = np.ones((2, n)), np.ones((n, 2))
    assert colours.chosen(truths(wide), "auto")[1].max() == 1
    assert colours.chosen(truths(tall), "auto")[0].max() == 1
    assert colours.chosen(truths(np.eye(n)), "auto").colours == 1
    blocks = np.kron(np.eye(10), np.ones((3, 3)))
    assert colours.chosen(truths(blocks), "auto").colours == 3


def test_a_colouring_that_hides_an_entry_is_refused_by_its_name():
    pattern = truths([[1, 1], [0, 1]])
    with pytest.raises(ValueError, match=r"does not give the entry \(0, 0\)"):
        colours.places(pattern, Colouring(np.array([0, 0])))
    with pytest.raises(ValueError, match=r"does not give the entry \(0, 1\)"):
        colours.places(pattern, Colouring(np.array([0, -1])))


def test_nothing_needs_no_product_that_counts():
    empty = truths(np.zeros((3, 4)))
    for mode in ("auto", "forward", "reverse", "bidirectional"):
        assert colours.places(empty, colours.chosen(empty, mode)).size == 0
