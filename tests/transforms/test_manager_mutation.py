"""Tensors that change while recorded: snapshots and updates."""

from __future__ import annotations

import contextlib
import copy
import itertools
import operator
import pickle

import numpy as np
import pytest
from tests.helpers import assign, check_grad, close, grouped
from tests.transforms.lifetimes import tracked

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import GradManager, NoGradientWarning, tensor

X = np.array([0.5, 1.0, 2.0])
C = np.array([2.0, -3.0, 5.0])  # weights that tell the elements of a result apart


# ---- 36: a mutable handle on an immutable value ----------------------------------------------------

INPLACE = {
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "**=": operator.ipow,
    "//=": operator.ifloordiv,
    "%=": operator.imod,
}
CHANGES = {
    **{name: lambda t, op=op: op(t, 3.0) for name, op in INPLACE.items()},
    "[i] =": lambda t: assign(t, 0, 9.0),
    "[:] =": lambda t: assign(t, slice(None), 9.0),
    "[...] =": lambda t: assign(t, ..., 9.0),
    "[mask] =": lambda t: assign(t, np.array([True, False, True]), 9.0),
}


@pytest.mark.parametrize("op", INPLACE.values(), ids=INPLACE)
@pytest.mark.parametrize("other", [2.0, np.array([1.0, 2.0, 3.0]), tensor([1.0, 2.0, 3.0])], ids=type)
def test_an_in_place_operator_rebinds_the_handle(op, other):
    x = tensor(X)
    alias, number = x, id(x)
    x = op(x, other)
    assert x is alias
    assert id(x) == number
    close(x, op(X.copy(), other if isinstance(other, float) else np.array([1.0, 2.0, 3.0])))


USES = {
    "square": (lambda x: x * x, 2 * X),
    "exp": (np.exp, np.exp(X)),
    "sin": (np.sin, np.cos(X)),
    "divide": (lambda x: 1.0 / x, -1 / X**2),
    "power": (lambda x: x**3, 3 * X**2),
    "dot": (lambda x: x @ x, 2 * X),
    "max": (np.max, [0.0, 0.0, 1.0]),
    "where": (lambda x: np.where(x > 0.7, x * x, 0.0), [0.0, 2.0, 4.0]),
    "prod": (np.prod, [2.0, 1.0, 0.5]),
    "outer": (lambda x: x[:, None] * x, np.full(3, 7.0)),
}


@grouped("use, name", itertools.product(USES, CHANGES))
def test_nothing_saved_can_be_corrupted(use, name):
    (f, expected), change = USES[use], CHANGES[name]
    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:  # a leaf changed after its use
        y = f(x)
        change(x)
        gm.backward(y)
    check_grad(x, expected)
    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:  # an intermediate, and the output that the rule may have saved
        h = x * 1.0
        y = f(h)
        z = y + 0.0
        change(h)
        if y.shape == X.shape:
            change(y)
        gm.backward(z)
    check_grad(x, expected)


VIEWS = {
    "item": lambda x: x[0],
    "slice": lambda x: x[::2],
    "all": lambda x: x[:],
    "ellipsis": lambda x: x[...],
    "new axis": lambda x: x[None],
    "reshape": lambda x: x.reshape(3, 1),
    "same reshape": lambda x: x.reshape(3),
    "ravel": lambda x: x.ravel(),
    "transpose": lambda x: x.T,
    "real": lambda x: x.real,
    "rows": lambda x: list(x)[1],
    "broadcast": lambda x: np.broadcast_to(x, (2, 3)),
    "squeeze": np.squeeze,
    "positive": operator.pos,
    "copy": lambda x: x.copy(),
    "tensor": lambda x: x.copy() if isinstance(x, np.ndarray) else fg.tensor(x),
    "detach": lambda x: x.copy() if isinstance(x, np.ndarray) else x.detach(),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_handles_share_what_arrays_share(view):
    a, x = X.copy(), tensor(X)
    b, y = view(a), view(x)
    if isinstance(b, np.ndarray) and not b.flags.writeable:
        with pytest.raises(ValueError, match="read-only"):
            y += 1.0
        b = b.copy() + 1.0
        y = y + 1.0
    else:
        b += 1.0
        y += 1.0
    close(x, a)
    close(y, b)
    y[...] = 7.0
    if isinstance(b, np.ndarray):
        b[...] = 7.0
    close(x, a)
    b, y = view(a), view(x)
    a *= 10.0
    x *= 10.0
    a[1] = x[1] = 3.0
    close(y, b)
    close(x, a)


def test_no_array_of_the_user_is_written_to():
    a, b = X.copy(), np.array([1.0, 2.0, 3.0])
    x = tensor(a)
    for op in INPLACE.values():
        op(x, b)
        assign(x, slice(0, 2), b[:2])
        close(a, X)
        close(b, [1.0, 2.0, 3.0])
    x = tensor(a)
    a[:] = 99.0
    close(x, X)


@pytest.mark.parametrize("name", ["+=", "-=", "*=", "/=", "**=", "%="])
def test_an_array_does_not_swallow_a_tracked_value(name):
    """`a += x` asks NumPy to write into `a`, where the gradient would be lost without a word."""
    a, x = X.copy(), tensor(X)
    with GradManager().attach(x):
        with pytest.raises(TypeError):
            INPLACE[name](a, x)
        close(a, X)


def test_arrays_that_come_out_are_copies_or_read_only():
    x = tensor(X)
    out = x.numpy()
    assert out.flags.writeable
    out[:] = 99.0
    close(x, X)
    for view in (np.asarray(x), np.array(x), np.asarray(x)[::-1]):
        with contextlib.suppress(ValueError):
            view[:] = 99.0
        close(x, X)


CAPTURED = {
    "multiply": (lambda x, w: x * w, X.copy(), lambda w: w),
    "reflected": (lambda x, w: w * x, X.copy(), lambda w: w),
    "divide": (lambda x, w: x / w, X.copy(), lambda w: 1 / w),
    "dot": (lambda x, w: w @ x, X.copy(), lambda w: w),
    "matmul": (lambda x, w: w @ x, np.arange(6.0).reshape(2, 3), lambda w: w.sum(axis=0)),
    "view": (lambda x, w: x * w[::-1], X.copy(), lambda w: w[::-1]),
    "mask": (lambda x, w: np.where(w > 0.7, x, 0.0), X.copy(), lambda w: w > 0.7),
    "index": (lambda x, w: x[w.astype(int)], X.copy(), lambda w: np.bincount(w.astype(int), minlength=3)),
    "integer index": (lambda x, w: x[w], np.array([0, 2]), lambda w: np.bincount(w, minlength=3)),
    "boolean index": (lambda x, w: x[w], np.array([True, False, True]), lambda w: w),
    "einsum": (lambda x, w: np.einsum("i,i->", w, x), X.copy(), lambda w: w),
}


@pytest.mark.parametrize("f, w, slope", CAPTURED.values(), ids=CAPTURED)
def test_a_captured_array_changed_afterwards_corrupts_nothing(f, w, slope):
    x = tensor(X)
    gm, w = GradManager().attach(x), w.copy()
    expected = np.array(slope(w), float)
    with gm:
        y = f(x, w)
        w[:] = 1
        gm.backward(y)
    check_grad(x, expected)


def test_an_array_that_was_assigned_and_an_index_changed_afterwards():
    x, v, i = tensor(X), np.array([7.0, 8.0]), np.array([0, 2])
    gm = GradManager().attach(x)
    with gm:
        x[i] = v
        y = x * x
        i[:] = 1
        v[:] = 99.0
        close(x, [7.0, 1.0, 8.0])
        gm.backward(y)
    check_grad(x, [0.0, 2.0, 0.0])


# ---- 37: snapshots ---------------------------------------------------------------------------------


def test_gradients_refer_to_the_value_at_record():
    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        x *= 2.0
        y = x * x
        gm.backward(y)
    check_grad(x, 8.0 * X)


def test_what_changed_before_record_is_not_part_of_it():
    x = tensor(X)
    gm = GradManager().attach(x)
    x *= 2.0
    gm.record()
    gm.backward(x * x)
    check_grad(x, 4.0 * X)
    x.grad = None
    x += 1.0
    with gm:
        gm.backward(x * x)
    check_grad(x, 4.0 * X + 2.0)


def test_or_the_value_at_attach_while_recording():
    x = tensor(X)
    with GradManager() as gm:
        x *= 2.0
        gm.attach(x)
        x *= 3.0
        gm.backward(x * x)
    check_grad(x, 9.0 * 2.0 * 2.0 * X)


def test_after_an_overwrite_only_earlier_uses_give_gradient():
    x, t = tensor(X), C
    gm = GradManager().attach(x)
    with gm:
        a = x * x
        x[...] = t
        y = x * a
        gm.backward(y)
    check_grad(x, 2.0 * X * t)
    close(x, t)


def test_the_value_written_gets_the_later_ones():
    x, t = tensor(X), tensor(C)
    gm = GradManager().attach([x, t])
    with gm:
        a = x * x
        x[...] = t
        gm.backward(x * a)
    check_grad(x, 2.0 * X * C)
    check_grad(t, X * X)


def test_nested_managers_have_snapshots_of_their_own():
    x = tensor(X)
    outer, inner = GradManager().attach(x), GradManager().attach(x)
    with outer:
        x *= 2.0
        with inner:
            y = x * x
            inner.backward(y)
        check_grad(x, 4.0 * X)
        x.grad = None
        outer.backward(y)
    check_grad(x, 8.0 * X)


def test_the_gradient_has_the_shape_of_the_snapshot_whatever_the_handle_became():
    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        y = np.sum(x * x)
        for _ in range(3):
            x[...] = x[::-1] * 1.0
        gm.backward(y + np.sum(x * C))
    check_grad(x, 2.0 * X + C[::-1])


# ---- 39: what is tracked, and what is cut ---------------------------------------------------------

WRITES = {
    "element": lambda buffer, x: assign(buffer, 1, x[0] * x[0]),
    "slice": lambda buffer, x: assign(buffer, slice(0, 2), x[:2] * x[:2]),
    "all": lambda buffer, x: assign(buffer, ..., x * x),
    "+=": lambda buffer, x: operator.iadd(buffer, x * x),
}


@pytest.mark.parametrize("make", [lambda: tensor(np.zeros(3)), lambda: fnp.zeros(3)])
@pytest.mark.parametrize(
    "write, expected",
    [
        (WRITES["element"], [2 * C[1] * X[0], 0, 0]),
        (WRITES["slice"], 2 * X * C * [1, 1, 0]),
        (WRITES["all"], 2 * X * C),
        (WRITES["+="], 2 * X * C),
    ],
    ids=WRITES,
)
def test_writing_tracked_values_into_an_unattached_tensor_tracks_it(write, expected, make):
    x = tensor(X)
    gm = GradManager().attach(x)
    buffer = make()
    with gm:
        assert not tracked(buffer)
        write(buffer, x)
        assert tracked(buffer)
        gm.backward(buffer * C)
    check_grad(x, expected)
    assert buffer.grad is None


def test_a_buffer_filled_in_a_loop():
    x = tensor(X)
    gm = GradManager().attach(x)
    with gm:
        buffer = fnp.zeros(4)
        for i in range(3):
            buffer[i + 1] = buffer[i] + x[i] * x[i]
        gm.backward(buffer)
    check_grad(x, 2 * X * [3, 2, 1])


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changing_an_operand_after_its_use_changes_no_gradient(change):
    x, w = tensor(X), tensor(C)
    gm = GradManager().attach([x, w])
    with gm:
        h = x * w
        y = h * x
        change(x)
        change(w)
        change(h)
        gm.backward(y)
    check_grad(x, 2 * X * C)
    check_grad(w, X * X)


def test_detach_cuts_every_manager():
    x = tensor(X)
    outer, inner, peer = (GradManager().attach(x) for _ in range(3))
    with outer, inner | peer:
        y = x * x
        d = y.detach()
        leaf = x.detach()
        assert type(d) is fg.Tensor
        assert d is not y
        assert not tracked(d)
        assert not tracked(leaf)
        assert tracked(y), "the tensor itself is not cut"
        close(d, X * X)
        z = x * d * leaf
        for gm in (inner, peer, outer):
            gm.backward(z)
            check_grad(x, X * X * X)
            x.grad = None
    assert d.grad is None


def test_a_detached_handle_is_independent():
    x = tensor(X)
    d = x.detach()
    d += 1.0
    close(x, X)
    x *= 3.0
    close(d, X + 1.0)


COPIES = {
    "deepcopy": copy.deepcopy,
    "deepcopy in a tree": lambda t: copy.deepcopy({"a": [t]})["a"][0],
    **{f"pickle {p}": lambda t, p=p: pickle.loads(pickle.dumps(t, p)) for p in (2, 3, 4, 5)},
}


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("value", [X, np.array(1.5), np.zeros((0, 2)), X.astype(np.float32), X * 1j])
def test_deepcopy_and_pickle_give_untracked_copies(value, duplicate):
    x = tensor(value)
    gm = GradManager().attach(x)
    with gm:
        y = x * 2
        copies = [duplicate(x), duplicate(y)]
        for c, original in zip(copies, (value, value * 2), strict=True):
            assert type(c) is fg.Tensor
            assert not tracked(c)
            assert c.dtype == original.dtype
            close(c, original)
            c += 1  # independent
        assert [id(t) for t in gm.attached_tensors()] == [id(x)]
        close(y.detach(), value * 2)
        with pytest.warns(NoGradientWarning):
            gm.backward(copies)
    assert x.grad is None
    close(x, value)


# ---- 40: updates after backward --------------------------------------------------------------------

LR = 0.1


def subtract(p):
    p -= LR * p.grad


def overwrite(p):
    p[...] = p - LR * p.grad


@pytest.mark.parametrize("update", [subtract, overwrite])
def test_an_update_after_backward_is_invisible_to_that_manager(update):
    p, value = tensor(X), X.copy()
    gm = GradManager().attach(p)
    for _ in range(3):
        with gm:
            gm.backward(p * p * C)
            update(p)
            assert not tracked(p)
        check_grad(p, 2 * value * C)
        value = value - LR * 2 * value * C
        close(p, value)
        p.grad = None


def test_also_when_the_block_records_again():
    p = tensor(X)
    gm = GradManager().attach(p)
    with gm:
        gm.backward(p * p)
        subtract(p)
        p.grad = None
        gm.record()
        gm.backward(p * p)
    check_grad(p, 2 * (1 - 2 * LR) * X)


@pytest.mark.parametrize("update", [subtract, overwrite])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_and_visible_to_outer_ones(update, steps):
    """The derivative of what `steps` steps of descent on p**2 reach, by the point where they start."""
    p = tensor(X)
    outer, gm = GradManager().attach(p), GradManager().attach(p)
    with outer:
        for _ in range(steps):
            with gm:
                gm.backward(p * p)
                update(p)
            p.grad = None
        outer.backward(p * p)
    factor = (1 - 2 * LR) ** steps
    close(p, factor * X)
    check_grad(p, 2 * factor**2 * X)


def test_a_learning_rate_learns():
    p, lr = tensor(X), tensor(LR)
    outer, gm = GradManager().attach(lr), GradManager().attach(p)
    with outer:
        with gm:
            gm.backward(p * p)
            p -= lr * p.grad
        outer.backward(p * p)
    check_grad(lr, np.sum(2 * X * (1 - 2 * LR) * -2 * X))
