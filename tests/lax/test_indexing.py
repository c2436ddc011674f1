"""Indices out of bounds, and places that only a running program knows, against loops over elements."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad as fg
from fgrad import lax
from fgrad.testing import check_grads

X = np.arange(12.0).reshape(3, 4)
ROWS = {"some": np.array([[0, -1], [7, -9]]), "one": np.int64(9), "none": np.array([1, 0])}
INDICES = {
    "rows": lambda i: i,
    "columns": lambda i: (slice(0, 3), i),
    "behind an ellipsis": lambda i: (..., i),
    "both": lambda i: (i, 1 - i),
    "with a slice": lambda i: (i, slice(1, 3)),
}


def reference(x, index, fill):
    """Return `x[index]`, of an array with a border of `fill`, or moved inside where that is None."""
    wide = np.pad(x, [(0, 1)] * x.ndim, constant_values=0 if fill is None else fill)
    parts = list(index) if isinstance(index, tuple) else [index]
    parts = [slice(0, 3), *parts[1:]] if parts[0] is Ellipsis else [*parts, slice(0, 4)][:2]
    for axis, (i, n) in enumerate(zip(parts, x.shape, strict=True)):
        if not isinstance(i, slice):
            parts[axis] = (
                np.clip(i, -n, n - 1) % n if fill is None else np.where((i < -n) | (i >= n), n, i % n)
            )
    return wide[tuple(parts)]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kind", INDICES)
def test_what_is_outside_is_moved_or_filled_in(kind, rows, compiled):
    run = fg.jit if compiled else lambda f: f
    index = INDICES[kind]
    for mode, fill in (("clip", None), ("fill", -1.0)):
        found = run(lambda x, i, mode=mode: lax.gather(x, index(i), mode, -1.0))(X, ROWS[rows])
        np.testing.assert_array_equal(found, reference(X, index(ROWS[rows]), fill))
    check_grads(lambda x: lax.gather(x, index(ROWS[rows]), "fill", 2.0), (X,), order=2)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("f4", np.nan), ("i4", np.iinfo("i4").min), ("u1", 255), ("?", True), ("c8", np.nan)],
)
def test_what_is_read_outside(dtype, expected):
    found = lax.gather(np.ones(2, dtype), np.array([0, 9]), "fill")
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.array([1, expected], dtype))


def put(x, rows, values, mode, add):
    new = x.copy()
    for i, v in zip(rows, values, strict=True):
        if -len(x) <= i < len(x) or mode == "clip":
            i = np.clip(i, -len(x), len(x) - 1)
            new[i] = new[i] + v if add else v
    return new


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("mode", ["drop", "clip"])
def test_updates(mode, add, compiled):
    run = fg.jit if compiled else lambda f: f
    rows, values = np.array([1, 5, -2, -7]), np.arange(16.0).reshape(4, 4) + 100
    found = run(lambda x, i, v: lax.scatter(x, i, v, mode, add=add))(X, rows, values)
    # where both come to the last row and to the first, later ones win
    np.testing.assert_array_equal(found, put(X, rows, values, mode, add))
    found = run(lambda x, i, v: lax.scatter(x, i, v, mode, add=add))(X, np.int64(8), values[0])
    np.testing.assert_array_equal(found, put(X, [8], values[:1], mode, add))
    check_grads(lambda x, v: lax.scatter(x, rows[:2], v, mode, add=add), (X, values[:2]), order=2)


def test_numbers_of_python_raise():
    with pytest.raises(IndexError):
        lax.gather(X, 3)
    with pytest.raises(IndexError):
        lax.scatter(X, 3, 1.0)
    with pytest.raises(ValueError, match="'clip' and 'fill'"):
        lax.gather(X, ROWS["some"], "drop")
    with pytest.raises(ValueError, match="'clip' and 'drop'"):
        lax.scatter(X, ROWS["some"], 1.0, "fill")


def test_small_integers_count_far():
    x = np.arange(300.0)
    assert lax.gather(x, np.array([255, 3], np.uint8)).tolist() == [255, 3]
    assert lax.gather(x, np.array([400, 3], np.uint16), "fill", 7).tolist() == [7, 3]


@pytest.mark.parametrize(("row", "column"), [(0, 0), (1, 2), (2, 3), (9, -2), (-9, -9)])
def test_parts_lie_inside(row, column):
    begin = [np.clip(i + n if i < 0 else i, 0, n - 2) for i, n in zip((row, column), X.shape, strict=True)]
    part = tuple(slice(b, b + 2) for b in begin)
    starts = np.array([row, column])
    found = fg.jit(lambda x, s: lax.dynamic_slice(x, s, (2, 2)))(X, starts)
    np.testing.assert_array_equal(found, X[part])
    expected = X.copy()
    expected[part] = -1
    found = fg.jit(lambda x, u, s: lax.dynamic_update_slice(x, u, s))(X, -np.ones((2, 2)), starts)
    np.testing.assert_array_equal(found, expected)
    check_grads(lambda x: lax.dynamic_slice(x, starts, (2, 2)), (X,), order=2)
    check_grads(lambda x, u: lax.dynamic_update_slice(x, u, starts), (X, np.ones((2, 2))), order=2)


def test_every_example_has_its_place():
    starts = np.arange(3)[:, None]
    found = fg.vmap(lambda x, s: lax.dynamic_slice(x, s, (2,)))(X, starts)
    np.testing.assert_array_equal(found, [X[i, i : i + 2] for i in range(3)])
    found = fg.vmap(lambda x, i: lax.gather(x, i, "fill", 0))(X, np.array([[1], [9], [-4]]))
    np.testing.assert_array_equal(found, [[1], [0], [8]])
