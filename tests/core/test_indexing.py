"""Reading and writing parts of a Tensor: NumPy's indexing, and its gradients."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import close, exactly

import fgrad as fg

M = np.arange(24.0).reshape(2, 3, 4)
INDICES = {
    "integer": 1,
    "negative": -1,
    "pair": (0, 2),
    "full": (1, 2, 3),
    "slice": slice(0, 1),
    "step": (slice(None), slice(None, None, -2)),
    "ellipsis": (..., 1),
    "ellipsis alone": ...,
    "newaxis": (None, 0, ..., None),
    "empty slice": slice(2, 2),
    "empty tuple": (),
    "list": [1, 0, 1],
    "empty list": [],
    "array": np.array([[0, 1], [1, 1]]),
    "negative array": np.array([-1, -2]),
    "two arrays": (np.array([0, 1]), np.array([2, 0])),
    "broadcast arrays": (np.array([[0], [1]]), np.array([2, 0])),
    "arrays apart": (np.array([0, 1]), slice(None), np.array([3, 0])),
    "array and slice": (slice(None), [2, 2], slice(1, 3)),
    "array and integer": (0, [1, 2]),
    "mask": M > 11,
    "mask of an axis": np.array([True, False]),
    "mask of two axes": M[..., 0] > 3,
    "mask and integer": (slice(None), np.array([True, False, True]), 1),
    "numpy integer": np.int64(1),
    "uint": np.array([0, 1], np.uint8),
}


@pytest.mark.parametrize("name", INDICES)
def test_getitem_and_its_gradient(name):
    index = INDICES[name]
    exactly(fg.tensor(M)[index], M[index])
    w = np.cos(np.arange(1.0, 1.0 + M[index].size)).reshape(M[index].shape)
    expected = np.zeros_like(M)
    np.add.at(expected, index, w)
    close(fg.grad(lambda x: np.sum(w * x[index]))(M), expected)
    t, a = fg.tensor(M), M.copy()
    part, same = t[index], a[index]
    part += 100.0
    same += 100.0  # of a scalar a new one
    exactly(t, a)
    exactly(part, np.asarray(same))


def test_tensors_as_indices():
    t = fg.tensor([10.0, 20.0, 30.0])
    exactly(t[fg.tensor([2, 0])], np.array([30.0, 10.0]))
    exactly(t[fg.tensor(1)], np.array(20.0))
    exactly(t[t > 15], np.array([20.0, 30.0]))
    exactly(np.arange(3.0)[fg.tensor(1)], np.array(1.0))


@pytest.mark.parametrize("name", [n for n in INDICES if n not in ("list", "array", "array and slice")])
def test_setitem_and_its_gradients(name):
    index = INDICES[name]
    v = np.sin(np.arange(1.0, 1.0 + M[index].size)).reshape(M[index].shape)
    expected = M.copy()
    expected[index] = v
    t = fg.tensor(M)
    t[index] = v
    exactly(t, expected)

    def f(x, v):
        x[index] = v
        return np.sum(W * x)

    W = np.cos(np.arange(24.0)).reshape(M.shape)
    gx, gv = fg.grad(f, argnums=(0, 1))(M, v)
    kept = W.copy()
    kept[index] = 0.0
    close(gx, kept)
    close(gv, W[index])


@pytest.mark.parametrize(
    ("index", "shape"),
    [
        (0, ()),
        (0, (4,)),
        (0, (1, 4)),
        (slice(None), (3, 1)),
        ([0, 1], ()),
        ((..., [3, 0]), (2,)),
        (M > 11, ()),
    ],
    ids=str,
)
def test_setitem_broadcasts_its_value(index, shape):
    v = np.full(shape, 2.0)
    W = np.cos(np.arange(24.0)).reshape(M.shape)

    def f(v):
        x = fg.tensor(M)
        x[index] = v * v
        return np.sum(W * x)

    slots = np.zeros_like(M)
    step = 1e-3  # f is quadratic in v: central differences are exact
    expected = np.zeros(shape)
    for i in np.ndindex(shape):
        for sign in (1, -1):
            slots[...] = M
            changed = v.copy()
            changed[i] += sign * step
            slots[index] = changed**2
            expected[i] += sign * np.sum(W * slots) / (2 * step)
    close(fg.grad(f)(v), expected, rtol=1e-8)


@pytest.mark.parametrize(
    "index", [[0, 2, 0], np.array([1, 1, 1]), (np.array([0, 0, 2]),), np.array([-1, 2, 0])], ids=repr
)
def test_setitem_with_duplicates_keeps_the_last(index):
    v = np.array([10.0, 20.0, 30.0])

    def f(x, v):
        x[index] = v
        return np.sum(x * np.array([1.0, 2.0, 4.0]))

    expected = np.array([1.0, 2.0, 3.0])
    expected[index] = v
    t = fg.tensor([1.0, 2.0, 3.0])
    t[index] = v
    exactly(t, expected)
    owner = np.full(3, -1)
    owner[index] = np.arange(3)  # which value each element got in the end
    gx, gv = fg.grad(f, argnums=(0, 1))(np.array([1.0, 2.0, 3.0]), v)
    close(gx, np.where(owner < 0, [1.0, 2.0, 4.0], 0.0))
    close(gv, [sum(w for w, o in zip([1.0, 2.0, 4.0], owner, strict=True) if o == i) for i in range(3)])


def test_setitem_casts_to_the_dtype_of_the_tensor():
    t = fg.tensor([1.0, 2.0], "float32")
    t[0] = np.float64(0.1)
    assert t.dtype == np.float32
    n = fg.tensor([1, 2])
    n[0] = 5.0
    exactly(n, np.array([5, 2]))

    def f(v):
        x = fg.tensor([1.0, 2.0], "float32")
        x[0] = v
        return np.sum(x)

    exactly(fg.grad(f)(np.float64(3.0)), np.array(1.0))
    with pytest.raises(ValueError, match=r"broadcast|shape"):
        t[:] = np.ones(3)
    exactly(t, np.array([0.1, 2.0], np.float32))


WRITTEN = {
    "slice": (slice(0, 2),),
    "a new axis": (slice(None), None),
    "of one element": (Ellipsis, 0),
    "array": (np.array([1, 0]),),
    "truth": (True, 0),
}


@pytest.mark.parametrize("index", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("lead", [1, 2])
def test_values_may_have_more_axes_than_their_place(index, lead):
    """NumPy drops those of length one; of constants and of values that are not known yet."""

    def put(x, v):
        y = fg.tensor(x) * 1.0
        y[index] = v
        return y

    x, xs = np.arange(4.0), np.arange(12.0).reshape(3, 4)
    for shape in {x[index].shape, (1,) * x[index].ndim}:
        v = np.random.default_rng(0).standard_normal((3,) + (1,) * lead + shape)
        one, many = np.array(x), np.array(xs)
        one[index] = v[0]
        for row, value in zip(many, v, strict=True):
            row[index] = value
        for f in (lambda x: put(x, v[0]), lambda x: fg.vmap(put, (None, 0))(x, v)[0]):
            np.testing.assert_array_equal(f(x), one)
            np.testing.assert_array_equal(fg.jit(f)(x), one)
        for f in (fg.vmap(put), fg.jit(fg.vmap(put))):
            np.testing.assert_array_equal(f(xs, v), many)
        if index is WRITTEN["array"]:
            f = fg.vmap(lambda x, i: put_at(x, i, v[0]))
            np.testing.assert_array_equal(f(xs, np.stack([index[0]] * 3))[0, :2], one[:2])


def put_at(x, i, v):
    y = fg.tensor(x) * 1.0
    y[i] = v
    return y


@pytest.mark.parametrize("index", [0, np.array(1), (np.array(1),)])
def test_an_array_is_not_written_to_one_element(index):
    """NumPy has come to refuse it; programs and mapped functions do with every NumPy."""

    def put(x, v):
        y = x * 1.0
        y[index] = v
        return y

    x, xs = np.zeros(4), np.zeros((3, 4))
    for v in (np.ones(1), np.ones((1, 1))):
        for f in (
            fg.jit(put),
            lambda x, v: fg.vmap(put, (0, None))(xs, v),
            fg.jit(fg.grad(lambda x, v: put(x, v).sum())),
        ):
            with pytest.raises(ValueError, match="setting an array element with a sequence"):
                f(x, v)


class Place:
    """An integer of a user's."""

    def __init__(self, place):
        self.place = place

    def __index__(self):
        return self.place


@pytest.mark.parametrize("transformed", [lambda f: f, fg.jit, lambda f: lambda x: fg.vmap(f)(x[None])[0]])
@pytest.mark.parametrize(
    "index",
    [
        Place(-1),
        (Place(1), Place(2)),
        (slice(Place(0), Place(2)), Place(0)),
        (Place(1), np.array([0, 2])),
        (None, Place(2), ...),
    ],
    ids=["one", "two", "slice", "array", "axes"],
)
def test_what_has_an_index_is_an_integer(index, transformed):
    a = np.arange(12.0).reshape(3, 4)
    exactly(transformed(lambda x: x[index])(a), a[index])
    exactly(transformed(lambda x: fg.tensor(x)[index])(a), a[index])
    expected = np.zeros((3, 4))
    expected[index] = 2.0
    exactly(transformed(fg.grad(lambda x: np.sum(2 * x[index])))(a), expected)
    written = a.copy()
    written[index] = 7.0

    def write(x):
        x[index] = 7.0
        return x

    exactly(transformed(lambda x: write(fg.numpy.array(x)))(a), written)
