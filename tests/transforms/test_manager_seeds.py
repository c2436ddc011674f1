"""What `GradManager.backward` takes."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.helpers import check_grad, close

from fgrad import GradManager, NoGradientWarning, tensor

NO_HISTORY = (
    "no computation history; did you forget record(), or was the history cleared by backward() or release()?"
)


class Outputs(NamedTuple):
    """What models like to return."""

    loss: Any
    rest: Any


# ---- 22: without a recording ---------------------------------------------------------------------


def never(gm, x):
    return x * 2.0


def released(gm, x):
    gm.record()
    y = x * 2.0
    gm.release()
    return y


def block_left(gm, x):
    with gm:
        return x * 2.0


def differentiated(gm, x):
    gm.record()
    y = x * 2.0
    gm.backward(y)
    return y


def failed(gm, x):
    gm.record()
    y = x * 2.0
    with pytest.raises((TypeError, ValueError)):
        gm.backward(y, "no cotangent")
    return y


@pytest.mark.parametrize("before", [never, released, block_left, differentiated, failed])
@pytest.mark.parametrize("seed", ["y", "no seed", "y and dy"])
def test_backward_without_a_recording_raises_and_does_nothing(before, seed):
    x, w, calls = tensor([1.0, 2.0]), tensor(3.0), []
    gm, outer = GradManager().attach(x), GradManager().attach(w)
    with outer:
        z = w * w
        y = before(gm, x)
        grad = x.grad
        gm.attach(x, lambda t, g: calls.append("callback"))
        gm.after_backward(lambda: calls.append("after"))
        args = {"y": (y,), "no seed": (), "y and dy": (y, np.ones(2))}[seed]
        with pytest.raises(RuntimeError, match=f"^{re.escape(NO_HISTORY)}"):
            gm.backward(*args)
        assert x.grad is grad
        assert calls == []
        assert not gm.is_recording
        assert [id(t) for t in gm.attached_tensors()] == [id(x)]
        outer.backward(z)
    check_grad(w, 6.0)


# ---- 23: what y may be ---------------------------------------------------------------------------

SEEDS = {
    "tensor": lambda a, b: a + b,
    "list": lambda a, b: [a, b],
    "tuple": lambda a, b: (a, b),
    "dict": lambda a, b: {"loss": a, "penalty": b},
    "nested": lambda a, b: {"deep": [(a,), {"er": [b]}]},
    "namedtuple": Outputs,
}


@pytest.mark.parametrize("make", SEEDS.values(), ids=SEEDS)
def test_y_is_a_tensor_or_a_tree_of_tensors(make):
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    with gm:
        gm.backward(make(x * x, x * 3.0))
    check_grad(x, [5.0, 7.0])


@pytest.mark.parametrize("args", [(), (None,)])
def test_no_seed_means_that_nothing_flows_and_the_manager_is_released(args):
    x, w, calls = tensor([1.0, 2.0]), tensor(1.0), []
    w.grad = kept = tensor(7.0)
    gm = GradManager().attach([x, w], lambda t, g: calls.append(t))
    gm.record()
    y = x * w
    gm.backward(*args)
    assert not gm.is_recording
    assert x.grad is None
    assert w.grad is kept
    assert calls == []
    with gm, pytest.warns(NoGradientWarning):
        gm.backward(y)


@pytest.mark.parametrize("stranger", [3.0, np.ones(2), "loss", object()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("wrap", [lambda y, s: s, lambda y, s: [y, s], lambda y, s: {"a": s, "b": y}])
def test_another_leaf_is_refused(wrap, stranger):
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    with gm:
        with pytest.raises(TypeError, match=type(stranger).__name__):
            gm.backward(wrap(x * 2.0, stranger))
        assert x.grad is None
        assert not gm.is_recording


# ---- 24: what dy may be --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (0,), (2, 0, 3)])
def test_no_dy_means_ones_of_any_shape_and_dtype(shape, dtype):
    x = tensor(np.full(shape, 1.5, dtype))
    factor = dtype(2 + 1j) if np.issubdtype(dtype, np.complexfloating) else dtype(2)
    gm, seen = GradManager().attach(x), []
    with gm:
        y = x * factor
        gm.attach(y, lambda t, g: seen.append(g))
        gm.backward(y)
    check_grad(x, np.full(shape, factor))  # JAX's convention: holomorphic derivatives are not conjugated
    (dy,) = seen
    assert dy.dtype == dtype
    close(dy, np.ones(shape, dtype))


def test_that_is_the_gradient_of_the_sum_and_the_docstring_says_so():
    x0 = np.linspace(0.1, 1.2, 6).reshape(2, 3)
    x = tensor(x0)
    gm = GradManager().attach(x)
    with gm:
        gm.backward(np.sin(x) * x)
    check_grad(x, np.cos(x0) * x0 + np.sin(x0))
    assert re.search(r"\bsum\b", GradManager.backward.__doc__)


DY = np.array([2.0, -3.0])
COTANGENTS = {
    "array": lambda: DY,
    "tensor": lambda: tensor(DY),
    "view": lambda: np.array([2.0, 0.0, -3.0])[::2],
    "read-only": lambda: np.broadcast_to(DY, (2,)),
    "float32": lambda: DY.astype(np.float32),
}


@pytest.mark.parametrize("make", COTANGENTS.values(), ids=COTANGENTS)
def test_a_cotangent_may_be_a_tensor_or_an_array(make):
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    with gm:
        gm.backward(x * x, make())
    check_grad(x, 2 * DY * [1.0, 2.0])
    x.grad = None
    with gm:
        gm.backward(x * x, dy=make())
    check_grad(x, 2 * DY * [1.0, 2.0])


NUMBERS = [3.0, 3, np.float64(3.0), np.float32(3.0), np.array(3.0), tensor(3.0)]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: type(n).__name__)
def test_or_a_number_where_y_has_no_axes(number):
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    with gm:
        gm.backward(np.sum(x * x), number)
    check_grad(x, [6.0, 12.0])


def test_a_tree_of_cotangents_matches_y():
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    with gm:
        y = {"a": x * x, "b": [np.sum(x), (x * 3.0,)]}
        gm.backward(y, {"a": DY, "b": [10.0, (tensor(DY),)]})
    check_grad(x, 2 * DY * [1.0, 2.0] + 10.0 + 3.0 * DY)


def test_the_dtype_of_y_wins_over_that_of_dy():
    x, seen = tensor(np.float32([1.0, 2.0])), []
    gm = GradManager().attach(x)
    with gm:
        y = x * 2
        gm.attach(y, lambda t, g: seen.append(g.dtype))
        gm.backward(y, DY)
    assert seen == [np.float32]
    check_grad(x, (2 * DY).astype(np.float32))


WRONG = {  # what y is, what dy is, words of both that the message has
    "shape": (lambda x: x, np.ones(3), ["(2,)", "(3,)"]),
    "shape that broadcasts": (lambda x: x, np.ones(1), ["(2,)", "(1,)"]),
    "number for a vector": (lambda x: x, 1.0, ["(2,)"]),
    "vector for a number": (np.sum, np.ones(1), ["()", "(1,)"]),
    "extra axis": (lambda x: x, np.ones((1, 2)), ["(2,)", "(1, 2)"]),
    "tensor of another shape": (lambda x: x, tensor(np.ones(3)), ["(2,)", "(3,)"]),
    "complex for real": (lambda x: x, np.ones(2) * 1j, ["float64", "complex128"]),
    "complex number for real": (np.sum, 1j, ["float64", "complex"]),
    "leaf inside": (lambda x: [x, {"deep": x}], [np.ones(2), {"deep": np.ones(3)}], ["(2,)", "(3,)"]),
    "keys": (lambda x: {"a": x, "b": x}, {"a": DY, "c": DY}, ["'b'", "'c'"]),
    "count": (lambda x: [x, x], [DY], []),
    "list for a dict": (lambda x: {"a": x}, [DY], []),
    "list for a tensor": (lambda x: x, [DY], []),
    "list of numbers for a tensor": (lambda x: x, [1.0, 1.0], []),
    "tensor for a list": (lambda x: [x], DY, []),
    "deeper": (lambda x: [x], [[DY]], []),
    "no cotangent at all": (np.sum, "abc", []),
}


@pytest.mark.parametrize("make, dy, words", WRONG.values(), ids=WRONG)
def test_a_mismatch_raises_and_names_both(make, dy, words):
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    with gm:
        y = make(x * 2.0) if make is not np.sum else np.sum(x * 2.0)
        with pytest.raises((TypeError, ValueError)) as e:
            gm.backward(y, dy)
        assert all(w in str(e.value) for w in words), str(e.value)
        assert x.grad is None
        assert not gm.is_recording


# ---- 25: seeds add -------------------------------------------------------------------------------


def test_the_same_y_twice_gives_twice_the_gradient():
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    with gm:
        y = x * x
        gm.backward([y, y])
    check_grad(x, [4.0, 8.0])
    x.grad = None
    with gm:
        y = x * x
        gm.backward({"a": y, "b": [y, y]}, {"a": DY, "b": [2 * DY, np.ones(2)]})
    check_grad(x, (3 * DY + 1) * [2.0, 4.0])


def test_y_may_itself_be_attached():
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    with gm:
        gm.backward(x)
    check_grad(x, 1.0)
    x.grad = None
    with gm:
        gm.backward(x, DY)
    check_grad(x, DY)
    x.grad = None
    with gm:
        gm.backward([x, x * 2.0])
    check_grad(x, 3.0)
    x.grad = None
    with gm:
        gm.backward([x * 2.0, x, x], [DY, DY, np.ones(2)])
    check_grad(x, 3 * DY + 1)


def test_an_attached_intermediate_as_y():
    a = tensor([1.0, 2.0])
    gm = GradManager().attach(a)
    with gm:
        b = a * 3.0
        gm.attach(b)
        gm.backward([b, b * 5.0])
    check_grad(b, 6.0)
    check_grad(a, 18.0)


@pytest.mark.parametrize("order", [lambda h, y: [h, y], lambda h, y: [y, h]])
def test_a_y_that_is_an_intermediate_of_another_y(order):
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    with gm:
        h = x * x
        gm.backward(order(h, h * x))
    check_grad(x, [2.0 + 3.0, 4.0 + 12.0])


def test_seeds_of_different_shapes_dtypes_and_depths():
    x = tensor(np.float32([1.0, 2.0]))
    gm = GradManager().attach(x)
    with gm:
        y = x
        for _ in range(5):
            y = y * 2
        gm.backward([np.sum(y), x * np.float64(3.0), y.reshape(2, 1), x[0]])
    check_grad(x, np.float32([32 + 3 + 32 + 1, 32 + 3 + 32]))


# ---- 26: the latest version of y -----------------------------------------------------------------


def test_y_is_read_when_backward_is_called():
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    with gm:
        y = x * x
        y *= y
        gm.backward(y)
    check_grad(x, [4.0, 32.0])
    x.grad = None
    with gm:
        y = x * x
        ys = {"y": [y]}
        y[0] = 5.0
        gm.backward(ys)
    check_grad(x, [0.0, 4.0])
    x.grad = None
    with gm:
        y = x * x
        y[...] = x * 3.0
        gm.backward(y)
    check_grad(x, 3.0)
