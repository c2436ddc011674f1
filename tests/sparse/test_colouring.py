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
