"""Pytrees as vectors and back."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import close

import fgrad as fg
from fgrad.scipy.vectors import Vector, flat_values, listed

TREE = {"a": np.float32(1.0), "b": [np.array([[2, 3]]), 4 + 5j], "c": np.zeros((0, 2))}


def test_there_and_back():
    vector = Vector(TREE, "x0")
    flat = vector.ravel(TREE)
    close(flat, [1.0, 2.0, 3.0, 4.0, 5.0])
    back = vector.unravel(2 * flat)
    assert (back["a"].dtype, back["b"][0].shape, back["c"].shape) == (np.float64, (1, 2), (0, 2))
    close(back["b"][1], np.array(8 + 10j))
    restored = vector.restore(2 * flat)
    assert restored["a"].dtype == np.float32
    close(restored["b"][0], [[4.0, 6.0]])
    rows = vector.restore(np.stack([flat, 2 * flat], axis=1))
    close(rows["b"][1], [4 + 5j, 8 + 10j])
    assert rows["c"].shape == (0, 2, 2)
    assert Vector({}, "x0").ravel({}).shape == (0,)
    gradient = fg.grad(lambda t: np.sum(vector.ravel(t) ** 2), allow_int=True)(TREE)
    close(gradient["b"][1], 2 * (4 - 5j))


def test_what_does_not_fit():
    vector = Vector(TREE, "x0")
    with pytest.raises(TypeError, match=r"x0 has the structure .*, not PyTreeSpec\(\{'a': \*\}\)"):
        vector.ravel({"a": 1.0})
    with pytest.raises(ValueError, match=r"x0: the shape of leaf 0 is \(\), not \(2,\)"):
        vector.ravel(TREE | {"a": np.ones(2)})
    with pytest.raises(TypeError, match="x0 is real, but complex numbers came; start from complex ones"):
        vector.ravel(TREE | {"a": 1j})
    with pytest.raises(TypeError, match=r"x0 consists of numbers, but array.* has dtype object"):
        Vector(np.array([None]), "x0")


def test_lists_of_numbers_are_arrays():
    close(listed([1, (2.0, 3)][1]), [2.0, 3.0])
    close(listed([[1, 2], [3, 4]]), [[1, 2], [3, 4]])
    assert isinstance(listed([fg.tensor(1.0), 2.0]), fg.Tensor)
    for kept in ([np.ones(2), 1.0], {"a": 1.0}, 1.0, [{"a": 1.0}]):
        assert listed(kept) is kept
    close(flat_values([1.0, 2.0], "y"), [1.0, 2.0])
    close(flat_values((np.ones(2), 1j), "y"), [1.0, 1.0, 0.0, 1.0])
