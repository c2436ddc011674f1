"""Assignments and in-place operators, which differentiate."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest
from tests.helpers import assign, check_grad, close, grouped

import fgrad as fg
from fgrad import GradManager, tensor

X = np.array([0.5, 1.0, 2.0])
C = np.array([2.0, -3.0, 5.0])  # weights that tell the elements of a result apart


# ---- 38: assignment and in-place operators differentiate ------------------------------------------

M = np.arange(12.0).reshape(3, 4) / 7 + 0.5
W = np.cos(np.arange(12.0)).reshape(3, 4)

INDICES = {
    "row": 0,
    "last row": -1,
    "element": (1, 2),
    "NumPy integer": np.int64(1),
    "slice": slice(1, None),
    "steps": slice(None, None, 2),
    "backwards": slice(None, 0, -1),
    "column": (slice(None), 1),
    "columns": (..., slice(1, 3)),
    "ellipsis": (..., 0),
    "new axis": (None, 0),
    "nothing": slice(0, 0),
    "mask": W > 0,
    "row mask": np.array([True, False, True]),
    "no mask": np.zeros((3, 4), bool),
    "integers": np.array([2, 0]),
    "list": [0, 2],
    "pairs": (np.array([0, 1, 2]), np.array([3, 0, 1])),
    "grid": np.ix_([0, 2], [1, 3]),
    "mixed": (slice(None), np.array([0, 3])),
    "tensor of integers": (tensor([0, 2]),),
}


def plain_index(index):
    """Return `index` as NumPy takes it."""
    return index[0].numpy() if isinstance(index, tuple) and isinstance(index[0], fg.Tensor) else index


def sum_to(ct, shape):
    """Return the adjoint of broadcasting an array of `shape` to that of `ct`, leading ones included."""
    lead = ct.ndim - len(shape)
    ct = ct.sum(axis=tuple(range(lead))) if lead > 0 else ct.reshape((1,) * -lead + ct.shape)
    return ct.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True).reshape(shape)


@grouped("name, dtype, scalar", itertools.product(INDICES, ["f4", "f8", "c16"], [False, True]))
def test_assignment_is_differentiable_in_both(name, dtype, scalar):
    index = INDICES[name]
    i = plain_index(index)
    v0 = np.asarray(0.3) if scalar else M[i] * 0.1 - 0.2
    m, w, v0 = M.astype(dtype), W.astype(dtype), np.array(v0, dtype)
    x, v = tensor(m), tensor(v0)
    gm = GradManager().attach([x, v])
    with gm:
        before = x * w
        x[index] = v
        gm.backward(x * x * w + before)
    m[i] = v0
    close(x, m)
    assert x.dtype == dtype
    ct = 2 * m * w
    gx = ct.copy()
    gx[i] = 0
    check_grad(x, gx + w)
    check_grad(v, sum_to(ct[i], v0.shape))


@pytest.mark.parametrize(
    "index, shape",
    [
        (0, (1,)),
        (0, (4,)),
        (0, (1, 4)),  # NumPy lets an assignment drop leading ones
        (0, (1, 1, 1)),
        (slice(None, 2), (4,)),
        (slice(None, 2), (1, 4)),
        (slice(None, 2), (2, 1)),
        ((slice(None), 1), (1,)),
        (np.array([0, 2]), (2, 1)),
        (slice(0, 0), (4,)),
        (slice(0, 0), (0, 4)),
        (slice(0, 0), ()),
    ],
)
def test_shapes_follow_numpy_broadcasting(index, shape):
    m, v0 = M.copy(), np.linspace(1, 2, int(np.prod(shape))).reshape(shape)
    m[index] = v0
    x, v = tensor(M), tensor(v0)
    gm = GradManager().attach([x, v])
    with gm:
        x[index] = v
        close(x, m)
        gm.backward(x * W)
    gx = W.copy()
    gx[index] = 0.0
    check_grad(x, gx)
    check_grad(v, sum_to(W[index], shape))


@pytest.mark.parametrize("index", [(), ...])
def test_a_tensor_without_axes(index):
    x, v = tensor(2.0), tensor(3.0)
    gm = GradManager().attach([x, v])
    with gm:
        y = x * x
        x[index] = v * v
        gm.backward(x * x * y)
    close(x, np.array(9.0))
    check_grad(x, 2 * 2.0 * 81.0)
    check_grad(v, 4 * 3.0**3 * 4.0)


@pytest.mark.parametrize(
    "index, shape",
    [(0, (3,)), (0, (2, 4)), (0, (5,)), (..., (3, 5)), ((1, 2), (2,)), (slice(0, 2), (3, 4)), (0, (0,))],
)
def test_a_wrong_shape_raises_and_changes_nothing(index, shape):
    x, v = tensor(M), tensor(np.ones(shape))
    gm = GradManager().attach([x, v])
    with gm:
        for wrong in (v, np.ones(shape)):
            with pytest.raises(ValueError):
                x[index] = wrong
        close(x.detach(), M)
        gm.backward(x * x)
    check_grad(x, 2 * M)
    assert v.grad is None


@pytest.mark.parametrize("index", [3, -4, (0, 4), np.array([0, 3]), np.ones(2, bool)])
def test_a_wrong_index_raises_and_changes_nothing(index):
    x = tensor(M)
    gm = GradManager().attach(x)
    with gm:
        with pytest.raises(IndexError):
            x[index] = 1.0
        gm.backward(x * x)
    check_grad(x, 2 * M)


@pytest.mark.parametrize("to, of", [("f4", "f8"), ("f8", "f4"), ("c16", "f8")])
def test_the_value_is_cast_to_the_dtype_of_the_target(to, of):
    v0 = np.array([np.pi, np.e], of)
    x, v = tensor(np.ones(3, to)), tensor(v0)
    gm = GradManager().attach([x, v])
    with gm:
        x[1:] = v
        assert x.dtype == np.dtype(to)
        close(x, np.array([1, *v0], to))
        gm.backward(x * C.astype(to))
    check_grad(x, np.array([2, 0, 0], to))
    check_grad(v, C[1:].astype(of))


def test_numbers_are_cast_as_numpy_casts_them():
    x = tensor([1, 2, 3])
    x[0] = 7.9
    x[1:] = np.array([4.5, -4.5])
    assert np.issubdtype(x.dtype, np.integer)
    np.testing.assert_array_equal(x.numpy(), [7, 4, -4])


SELF = {
    "copy an element": (lambda x: assign(x, 0, x[1]), [0.0, C[0] + C[1], C[2]]),
    "add an element": (lambda x: assign(x, 0, x[0] + x[1]), [C[0], C[0] + C[1], C[2]]),
    "scale an element": (lambda x: assign(x, 2, x[2] * 4.0), [C[0], C[1], 4 * C[2]]),
    "reverse": (lambda x: assign(x, slice(None), x[::-1]), C[::-1]),
    "shift": (lambda x: assign(x, slice(1, None), x[:-1]), [C[0] + C[1], C[2], 0.0]),
    "all by one": (lambda x: assign(x, ..., x[0]), [C.sum(), 0.0, 0.0]),
    "itself": (lambda x: assign(x, ..., x), C),
}


@pytest.mark.parametrize("change, expected", SELF.values(), ids=SELF)
def test_a_tensor_assigned_from_itself(change, expected):
    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        change(x)
        gm.backward(x * C)
    check_grad(x, expected)


def test_swaps_running_sums_and_augmented_items():
    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        x[0], x[1] = x[1], x[0]
        gm.backward(x * C)
    check_grad(x, [C[1], C[0], C[2]])
    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        x[1:] += x[:-1]
        x[[0, 2]] *= 10.0
        x[1] **= 2
        gm.backward(x * C)
    second = 2 * (X[0] + X[1]) * C[1]
    check_grad(x, [10 * C[0] + second, second + 10 * C[2], 10 * C[2]])


OPERATORS = {  # slopes in x and in v
    "+=": (operator.iadd, lambda x, v: (1 + 0 * v, 1 + 0 * x)),
    "-=": (operator.isub, lambda x, v: (1 + 0 * v, -1 + 0 * x)),
    "*=": (operator.imul, lambda x, v: (v, x)),
    "/=": (operator.itruediv, lambda x, v: (1 / v, -x / v**2)),
    "**=": (operator.ipow, lambda x, v: (v * x ** (v - 1), x**v * np.log(x))),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3, 4), (4,), (3, 1), (1, 4), (1,), ()])
@pytest.mark.parametrize("op, slopes", OPERATORS.values(), ids=OPERATORS)
def test_in_place_operators_differentiate_and_keep_shape_and_dtype(op, slopes, shape, dtype):
    m = M.astype(dtype)
    v0 = np.linspace(1.2, 2.2, int(np.prod(shape))).reshape(shape)  # float64 into float32, as NumPy allows
    x, v = tensor(m), tensor(v0)
    gm = GradManager().attach([x, v])
    with gm:
        handle = x
        x = op(x, v)
        assert x is handle
        assert x.shape == (3, 4)
        assert x.dtype == dtype
        gm.backward(x * W.astype(dtype))
    dx, dv = (np.broadcast_to(s, (3, 4)) for s in slopes(M, v0))
    close(x.grad, (W * dx).astype(dtype), rtol=1e-5 if dtype is np.float32 else 1e-12)
    close(v.grad, sum_to(W * dv, shape), rtol=1e-5 if dtype is np.float32 else 1e-12)
    assert (x.grad.dtype, v.grad.dtype) == (dtype, np.float64)


def test_a_matrix_product_in_place():
    m, a = M[:, :3] + np.eye(3), np.diag([1.0, 2.0, 3.0])
    x, v = tensor(m), tensor(a)
    gm = GradManager().attach([x, v])
    with gm:
        x @= v
        gm.backward(x)
    check_grad(x, np.ones((3, 3)) @ a.T)
    check_grad(v, m.T @ np.ones((3, 3)))


REFUSED = {  # NumPy refuses these; what they are tried on, and how
    "wider shape": (np.ones(3), lambda x: operator.iadd(x, np.ones((2, 3)))),
    "axis for a scalar": (np.array(1.0), lambda x: operator.imul(x, np.ones(3))),
    "one to many": (np.ones((1, 3)), lambda x: operator.isub(x, np.ones((2, 3)))),
    "shapes that do not fit": (np.ones(3), lambda x: operator.iadd(x, np.ones(2))),
    "complex into real": (np.ones(3), lambda x: operator.iadd(x, 1j)),
    "complex array into real": (np.ones(3), lambda x: operator.imul(x, np.ones(3) * 1j)),
    "float into integer": (np.ones(3, int), lambda x: operator.iadd(x, 0.5)),
    "true division of integers": (np.ones(3, int), lambda x: operator.itruediv(x, 2)),
    "wider product": (np.ones((2, 3)), lambda x: operator.imatmul(x, np.ones((3, 4)))),
    "no array at all": (np.ones(3), lambda x: operator.iadd(x, "abc")),
}


@pytest.mark.parametrize("start, change", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("recording", [False, True])
def test_what_numpy_refuses_in_place_is_refused_and_changes_nothing(start, change, recording):
    with pytest.raises((TypeError, ValueError)):
        change(start.copy())  # the premise
    x = tensor(start)
    gm = GradManager()
    if recording and x.dtype == np.float64:
        gm.attach(x)
    with gm:
        with pytest.raises((TypeError, ValueError)):
            change(x)
        assert x.dtype == start.dtype
        close(x.detach(), start)
        if recording and x.dtype == np.float64:
            gm.backward(x * x)
            check_grad(x, 2.0)
