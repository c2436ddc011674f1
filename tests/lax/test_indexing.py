"""Indices out of bounds, and places that only a running program knows, against loops over elements."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad as fg
from fgrad import lax
from fgrad import numpy as fnp
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


def put(x, rows, values, mode, combine):
    new = x.copy()
    for i, v in zip(rows, values, strict=True):
        if -len(x) <= i < len(x) or mode == "clip":
            i = np.clip(i, -len(x), len(x) - 1)
            new[i] = combine(new[i], v) if combine else v
    return new


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("combine", [None, np.add, fnp.subtract, np.multiply, np.maximum, fnp.minimum])
@pytest.mark.parametrize("mode", ["drop", "clip"])
def test_updates(mode, combine, compiled):
    run = fg.jit if compiled else lambda f: f
    rows, values = np.array([1, 5, -2, -7]), np.arange(16.0).reshape(4, 4) * (-1) ** np.arange(4) + 2
    update = lambda x, i, v: lax.scatter(x, i, v, mode, combine=combine)
    if not compiled or combine is not np.multiply:  # whose order is that of places that are known
        # where both come to the last row and to the first, later ones win
        np.testing.assert_array_equal(run(update)(X, rows, values), put(X, rows, values, mode, combine))
    found = run(lambda x, v: update(x, rows, v))(X, values)
    np.testing.assert_array_equal(found, put(X, rows, values, mode, combine))
    for i in (8, 1):
        found = run(update)(X, np.int64(i), values[0])
        np.testing.assert_array_equal(found, put(X, [i], values[:1], mode, combine))
        found = run(lambda x, i, v: lax.scatter(x, (i, [1, 1, 2]), v, mode, combine=combine))
        expected = put(X.T, [1, 1, 2], np.stack([values[0, :3]] * len(X), 1), mode, combine).T
        expected = np.where(np.arange(len(X))[:, None] == min(i, len(X) - 1), expected, X)
        if compiled and combine is np.multiply:
            continue
        np.testing.assert_array_equal(
            found(X, np.int64(i), values[0, :3]), X if i == 8 and mode == "drop" else expected
        )
    check_grads(lambda x, v: update(x, rows[:2], v), (X, values[:2]), order=2)


@pytest.mark.parametrize("index", [1, slice(1, 3)])
def test_updates_that_do_not_fit_raise(index):
    for combine in (np.add, np.multiply):
        with pytest.raises(TypeError, match="dtype of a Tensor from int64"):
            lax.scatter(np.arange(4), index, 0.5, combine=combine)


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


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_elements_along_an_axis_out_of_bounds(axis, compiled):
    run = fg.jit if compiled else lambda f: f
    x = X.reshape(-1) if axis is None else X
    i = np.array([0, -1, 12, -13])
    i = i if axis is None else np.outer(i, [1] * 4) if axis == 0 else np.outer([1] * 3, i)
    n = x.shape[axis or 0]
    inside = np.take_along_axis(x, np.clip(i, -n, n - 1), axis or 0)
    found = run(lambda x, i: lax.take_along_axis(x, i, axis, "clip"))(X, i)
    np.testing.assert_array_equal(found, inside)
    found = run(lambda x, i: lax.take_along_axis(x, i, axis, fill_value=-2.0))(X, i)
    np.testing.assert_array_equal(found, np.where((i < -n) | (i >= n), -2.0, inside))
    check_grads(lambda x: lax.take_along_axis(x, i, axis, fill_value=-2.0), (X,), order=2)
    with pytest.raises(ValueError, match="modes 'clip' and 'fill'"):
        lax.take_along_axis(X, i, axis, "wrap")


def test_what_is_read_along_an_axis_out_of_bounds():
    found = lax.take_along_axis(np.arange(3, dtype=np.int8), np.array([5, -1]))
    np.testing.assert_array_equal(found, np.array([-128, 2], np.int8), strict=True)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("at", [0, 1, 9, -1])
def test_parts_along_one_axis(at, compiled):
    run = fg.jit if compiled else lambda f: f
    for axis, size in ((0, 2), (1, 3), (-1, 1)):
        n = X.shape[axis]
        first = min(max(at + n if at < 0 else at, 0), n - size)
        part = np.take(X, np.arange(first, first + size), axis)
        found = run(lambda x, i, size=size, axis=axis: lax.dynamic_slice_in_dim(x, i, size, axis))(X, at)
        np.testing.assert_array_equal(found, part)
        expected = np.array(X)
        np.moveaxis(expected, axis, 0)[first : first + size] = -1
        found = run(lambda x, u, i, axis=axis: lax.dynamic_update_slice_in_dim(x, u, i, axis))(
            X, np.full_like(part, -1), at
        )
        np.testing.assert_array_equal(found, expected)
        first = min(max(at + n if at < 0 else at, 0), n - 1)
        place = np.take(X, first, axis)
        for keepdims in (False, True):
            found = run(lambda x, i, a=axis, k=keepdims: lax.dynamic_index_in_dim(x, i, a, k))(X, at)
            np.testing.assert_array_equal(found, np.expand_dims(place, axis) if keepdims else place)
            expected = np.array(X)
            np.moveaxis(expected, axis, 0)[first] = place + 1
            found = run(lambda x, u, i, axis=axis: lax.dynamic_update_index_in_dim(x, u, i, axis))(
                X, np.asarray(found) + 1, at
            )
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("widths", [(0, 0, 0), (1, 2, 0), (1, 0, 2), (-1, 2, 1), (-2, -1, 3), (0, -3, 0)])
def test_padding_around_and_between(widths):
    def reference(row, low, high, between):
        spread = [v for k, x in enumerate(row) for v in ([x] if not k else [7.0] * between + [x])]
        whole = [7.0] * max(low, 0) + spread + [7.0] * max(high, 0)
        return whole[max(-low, 0) : len(whole) - max(-high, 0)]

    expected = np.array([reference(row, *widths) for row in X])
    run = lambda x, value: lax.pad(x, value, [(0, 0, 0), widths])
    np.testing.assert_array_equal(run(X, 7.0), expected)
    np.testing.assert_array_equal(fg.jit(run)(X, 7.0), expected)
    np.testing.assert_array_equal(lax.pad(X.T, 7.0, [widths, (0, 0, 0)]), expected.T)
    check_grads(run, (X, 7.0), order=2)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_greatest_and_least_elements(axis):
    x = np.array([[1.0, 3.0, 3.0], [2.0, 0.0, 5.0], [1.0, 4.0, -1.0]])
    for descending in (True, False):
        order = np.argsort(-x if descending else x, axis, kind="stable").take([0, 1], axis)
        for run in (lambda f: f, fg.jit):
            top = run(lambda x, d=descending: lax.top_k(x, 2, axis, descending=d))
            values, places = top(x)
            np.testing.assert_array_equal(places, order)
            np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis))
    check_grads(lambda x: lax.top_k(x, 2, axis)[0], (x + np.arange(9).reshape(3, 3) / 10,), order=2)


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("dtype", ["f", "d", "i2", "u1"])
@pytest.mark.parametrize("shape, axis", [((5000,), 0), ((3, 2000), 1), ((1500, 4), 0), ((2, 1200, 3), -2)])
def test_few_of_many_are_those_of_a_sort(shape, axis, dtype, descending):
    x = np.random.default_rng(2).integers(0, 90, shape).astype(dtype)  # with ties at the border
    sign = -1 if descending else 1
    for k in (1, 7, 300):
        order = np.argsort(sign * x.astype(float), axis=axis, kind="stable")
        expected = np.take(order, np.arange(k), axis=axis)
        values, places = lax.top_k(x, k, axis, descending=descending)
        np.testing.assert_array_equal(places.numpy(), expected)
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, expected, axis), strict=True)
        if dtype in "fd":
            slope = fg.grad(lambda x, k=k: np.sum(lax.top_k(x, k, axis, descending=descending)[0] ** 2))(x)
            chosen = np.zeros(shape)
            np.put_along_axis(chosen, expected, 2.0, axis)
            np.testing.assert_array_equal(slope, chosen * x)
    if dtype in "fd":
        x.reshape(-1)[11] = np.nan
        for found, known in zip(
            lax.top_k(x, 5, axis, descending=descending),
            fg.jit(lambda x: lax.top_k(x, 5, axis, descending=descending))(x),
            strict=True,
        ):
            np.testing.assert_array_equal(np.asarray(found), known)
