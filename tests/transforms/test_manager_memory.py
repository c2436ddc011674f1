"""What a GradManager keeps alive and for how long.

The cycle collector is off in every test of this file: whatever has to die must die by its last reference.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import tracemalloc
from concurrent.futures import Future
from weakref import ref

import numpy as np
import pytest
from tests.helpers import close, plain
from tests.transforms.lifetimes import Square, no_cycle_collector, tracked, value  # noqa: F401 -- a fixture

import fgrad as fg
from fgrad import GradManager, tensor


class SquareAndCube(fg.Function):
    """A custom rule with two outputs."""

    def forward(self, x):
        self.x = x
        return x * x, x * x * x

    def backward(self, square, cube):
        ct = 0.0 * self.x if square is None else square * self.x * 2.0
        return ct if cube is None else ct + cube * self.x * self.x * 3.0


# ---- 9: attached tensors are held weakly between recordings and strongly while recording ---------


def test_between_recordings_a_dead_tensor_takes_its_entry_with_it():
    def callback(t, g):
        return None

    x, y = tensor([1.0, 2.0]), tensor(1.0)
    gm = GradManager().attach([x, y]).attach(x, callback)
    x_alive, callback_alive = ref(x), ref(callback)
    del x, callback
    assert x_alive() is None
    assert callback_alive() is None, "the entry is gone, with its callbacks"
    assert [id(t) for t in gm.attached_tensors()] == [id(y)]


@pytest.mark.parametrize("end", ["release", "backward", "exit"])
def test_while_recording_they_are_held_and_afterwards_no_more(end):
    x, y, seen = tensor([1.0, 2.0]), tensor(1.0), []
    gm = GradManager().attach(x, lambda t, g: seen.append(g)).attach(y)
    x_alive, y_alive = ref(x), ref(y)
    with gm:
        z = x * 3.0
        del x, y
        assert x_alive() is not None, "it can still get a gradient"
        assert y_alive() is not None, "also a tensor that was never used"
        assert len(list(gm.attached_tensors())) == 2
        if end == "release":
            gm.release()
        if end == "backward":
            gm.backward(z)
            close(seen.pop(), [3.0, 3.0])
    assert x_alive() is None
    assert y_alive() is None
    assert list(gm.attached_tensors()) == []


def test_a_tensor_attached_while_recording_is_held_at_once():
    gm = GradManager()
    gm.record()
    x = tensor(1.0)
    gm.attach(x)
    alive = ref(x)
    del x
    assert alive() is not None
    gm.release()
    assert alive() is None


def test_a_new_tensor_at_the_address_of_a_dead_one_is_not_attached():
    gm = GradManager()
    for _ in range(1000):
        x = tensor(1.0)
        assert list(gm.attached_tensors()) == []
        gm.attach(x)
        del x


def test_the_manager_does_not_outlive_its_user_because_of_a_tensor():
    x = tensor(1.0)
    gm = GradManager().attach(x)
    alive = ref(gm)
    del gm
    assert alive() is None


# ---- 10: no reference cycles, no growth ----------------------------------------------------------


def backward_round(gm, x, w):
    gm.record()
    y = np.sum(np.sin(x @ w) * np.exp(-x[:, :1]) + np.where(x[:, :1] > 0, x[:, 1:2], 0.0))
    gm.backward(y)
    x.grad = w.grad = None


def exit_round(gm, x, w):
    with gm:
        y = np.tanh(x @ w).sum()
        assert tracked(y)


def construct_round(gm, x, w):
    GradManager().attach([x, w], lambda t, g: g).after_backward(lambda: None)


def dropped_while_recording_round(gm, x, w):
    gm = GradManager().attach([x, w])
    gm.record()
    y = x @ w
    assert tracked(y)


def construct_and_backward_round(gm, x, w):
    backward_round(GradManager().attach([x, w]), x, w)


def nested_round(gm, x, w):
    inner = GradManager().attach(x)
    with gm, inner:
        inner.backward(np.sin(x) * x)
        gm.backward(x.grad)
    x.grad = w.grad = None


def group_round(gm, x, w):
    with gm | GradManager().attach(w) | GradManager() as group:
        y = x @ w
        gm.backward(y)
        assert group is not None
    x.grad = w.grad = None


def error_round(gm, x, w):
    try:
        with gm:
            gm.backward(Square()(x), "no cotangent")
    except (TypeError, ValueError):
        pass
    try:
        with gm:
            gm.attach(x, 3)
    except TypeError:
        pass


def callback_round(gm, x, w):
    def later(t, g):
        f = Future()
        f.set_result(g + 1.0)
        return f

    own = GradManager().attach(x, [lambda t, g: g * 2.0, later])
    with own:
        own.backward(x * 3.0)
    x.grad = None


def mutation_round(gm, x, w):
    with gm:
        t = x * 2.0
        t[0] = w[0, 0]
        t *= x
        t[...] = t + 1.0
        gm.backward(t)
    x.grad = w.grad = None


def function_round(gm, x, w):
    with gm:
        a, b = SquareAndCube()(x)
        gm.backward([a, Square()(b)])
    x.grad = w.grad = None


def accumulate_round(gm, x, w):
    with gm:
        gm.backward(x @ w)


ROUNDS = [
    backward_round,
    exit_round,
    construct_round,
    dropped_while_recording_round,
    construct_and_backward_round,
    nested_round,
    group_round,
    error_round,
    callback_round,
    mutation_round,
    function_round,
    accumulate_round,
]


@pytest.mark.parametrize("a_round", ROUNDS, ids=lambda f: f.__name__)
def test_a_thousand_rounds_leave_no_cycle_and_no_growth(a_round):
    x, w = tensor(np.linspace(-1, 1, 600).reshape(20, 30)), tensor(np.linspace(0, 1, 600).reshape(30, 20))
    gm = GradManager().attach([x, w])
    a_round(gm, x, w)
    gc.collect()  # of what the first one leaves: self-tests define classes, which are cycles
    for _ in range(2500):
        a_round(gm, x, w)  # until the interpreter's free lists are full
    blocks = sys.getallocatedblocks()
    tracemalloc.start()
    try:
        for _ in range(1000):
            a_round(gm, x, w)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sys.getallocatedblocks() - blocks < 100, "less than one object in ten rounds"
    assert size < 20_000, "less than twenty bytes a round"
    assert gc.collect() == 0, "no garbage that only the cycle collector can free"


def test_an_abandoned_graph_dies_with_its_last_output():
    x = tensor(np.ones(3))
    gm = GradManager().attach(x)
    with gm:
        y = np.sin(x) * x
        parts = [ref(y), value(y)]
    del y
    assert [p() for p in parts] == [None, None]


# ---- 11: after release or backward nothing saved is alive ----------------------------------------

ENDS = {
    "release": lambda gm, y: gm.release(),
    "exit": lambda gm, y: gm.__exit__(None, None, None),
    "backward": lambda gm, y: gm.backward(y),
    "backward without seed": lambda gm, y: gm.backward(),
    "wrong cotangent": lambda gm, y: gm.backward(y, "no cotangent"),
}


@pytest.mark.parametrize("end", ENDS)
def test_nothing_saved_outlives_the_recording_although_outputs_do(end):
    x, w = tensor([1.0, 2.0]), tensor([3.0, 4.0])
    gm = GradManager().attach([x, w])
    gm.__enter__()
    h = x * 2.0
    rule = Square()
    saved = [value(h), ref(rule)]
    y = rule(h) * w
    z = np.exp(y * 0.1)
    saved.append(value(z))
    out = z + h
    outputs = [h, y, z, out]
    h += 1.0  # the handles live, their values of then are only the tape's
    z += 1.0
    del rule
    assert all(s() is not None for s in saved), "needed until now"
    try:
        ENDS[end](gm, out)
    except (TypeError, ValueError):
        assert end == "wrong cotangent"
    assert [s() for s in saved] == [None] * 3
    assert not gm.is_recording
    assert not any(tracked(t) for t in outputs)


def test_an_exception_in_the_body_frees_it_all_too():
    x = tensor([1.0, 2.0])
    outputs, saved = [], []

    def body():
        with GradManager().attach(x):
            h = np.exp(x)
            saved.append(value(h))
            outputs.append(h * x)
            del h
            assert saved[0]() is not None
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        body()
    assert saved[0]() is None
    assert not tracked(outputs[0])


def test_an_outer_manager_keeps_what_it_needs_itself():
    x, w = tensor([1.0, 2.0]), tensor([3.0, 4.0])
    outer, inner = GradManager().attach(w), GradManager().attach([x, w])
    with outer:
        inner.record()
        h = x * 2.0
        saved = value(h)
        y = h * w
        del h
        inner.release()
        assert saved() is not None
        outer.backward(y)
        assert saved() is None
    close(w.grad, [2.0, 4.0])


# ---- 12: dead operations drop off the tape -------------------------------------------------------


def test_a_hundred_thousand_dead_operations_leave_memory_flat():
    x, n = tensor(np.ones(1000)), 100_000
    gm = GradManager().attach(x)
    with gm:
        y = np.exp(x)
        for _ in range(5000):
            np.exp(x)
        found = []
        for _ in range(2):  # other threads allocate now and then
            blocks = sys.getallocatedblocks()
            tracemalloc.start()
            try:
                for _ in range(n // 2):
                    np.exp(x) * y  # both operations save arrays of 8 kB
                size, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            found.append((peak, size, sys.getallocatedblocks() - blocks))
        peak, size, blocks = map(min, zip(*found, strict=True))
        assert peak < 500_000, "a few arrays at a time, not 800 MB"
        assert size < 100_000
        assert blocks < 5000, "less than one object in twenty operations"
        gm.backward(y)
    close(x.grad, np.full(1000, np.e))


def test_what_they_saved_goes_at_once():
    x = tensor([1.0, 2.0])
    with GradManager().attach(x):
        rule = Square()
        y = rule(x * 3.0)
        saved = ref(rule)
        del rule
        assert saved() is not None
        z = y + 1.0
        del y
        assert saved() is not None, "z still needs it"
        del z
        assert saved() is None


def test_the_other_output_keeps_an_operation_alive():
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    with gm:
        rule = SquareAndCube()
        saved = ref(rule)
        square, cube = rule(x)
        del rule, square
        assert saved() is not None
        gm.backward(cube)
    close(x.grad, [3.0, 12.0])
    with gm:
        rule = SquareAndCube()
        saved = ref(rule)
        square, cube = rule(x)
        del rule, cube
        assert saved() is not None
        del square
        assert saved() is None


def test_overwriting_a_handle_kills_the_operation_behind_it():
    x, w = tensor([1.0, 2.0]), tensor([3.0, 4.0])
    with GradManager().attach([x, w]):
        h = np.exp(x)
        saved = value(h)
        y = h * w
        del h
        assert saved() is not None
        y[...] = 0.0
        assert saved() is None


def test_an_exception_between_leaves_no_dead_operation_behind():
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    with gm:
        rule = Square()
        saved = ref(rule)
        with contextlib.suppress(ValueError):
            rule(x) @ np.ones((5, 5))
        del rule
        assert saved() is None
        gm.backward(x * 3.0)
    close(x.grad, [3.0, 3.0])


# ---- 13: a rule keeps only what it needs ---------------------------------------------------------

CONSTANT = np.array([[1.0, 2.0], [3.0, 5.0]])

NEEDS_NO_INPUT = {
    "add": lambda a: a + 1.0,
    "add a constant": lambda a: a + CONSTANT,
    "add a tensor": lambda a: a + tensor(CONSTANT),
    "radd": lambda a: CONSTANT + a,
    "subtract": lambda a: 1.0 - a,
    "negative": lambda a: -a,
    "exp keeps its output": np.exp,
    "multiply keeps the other factor": lambda a: a * CONSTANT,
    "multiply by a number": lambda a: a * 3.0,
    "multiply by a tensor": lambda a: a * tensor(CONSTANT),
    "divide by a constant": lambda a: a / CONSTANT,
    "matmul keeps the other factor": lambda a: a @ CONSTANT,
    "sum": lambda a: a.sum(axis=0),
    "mean": np.mean,
    "transpose": lambda a: a.T,
    "reshape": lambda a: a.reshape(4),
    "index": lambda a: a[0],
    "broadcast": lambda a: np.broadcast_to(a, (3, 2, 2)) * 2.0,
}


@pytest.mark.parametrize("f", NEEDS_NO_INPUT.values(), ids=NEEDS_NO_INPUT)
def test_a_rule_does_not_keep_an_input_it_does_not_need(f):
    x = tensor(CONSTANT)
    gm = GradManager().attach(x)
    with gm:
        a = x * 2.0
        handle, kept = ref(a), value(a)
        y = f(a) * 1.0  # not the result itself, which may be a view of a
        del a
        assert handle() is None
        assert kept() is None
        gm.backward(y)
    step = 1e-6
    for i in np.ndindex(2, 2):
        e = np.zeros((2, 2))
        e[i] = step
        up, down = (np.sum(plain(f(2.0 * (CONSTANT + s)))) for s in (e, -e))
        close(x.grad.numpy()[i], np.array((up - down) / (2 * step)), rtol=1e-6)


def test_multiply_keeps_both_factors_only_where_both_sides_are_tracked():
    x, w = tensor([1.0, 2.0]), tensor([3.0, 4.0])
    gm = GradManager().attach([x, w])
    with gm:
        a, b = x * 2.0, w * 2.0
        kept = [value(a), value(b)]
        y = a * b
        del a, b
        assert all(k() is not None for k in kept)
        gm.backward(y)
        assert [k() for k in kept] == [None, None]
    close(x.grad, [12.0, 16.0])
    close(w.grad, [4.0, 8.0])


UNARY_AND_MORE = {
    "sin": np.sin,
    "tanh": np.tanh,
    "power": lambda a: a**3,
    "square": lambda a: a * a,
    "max": lambda a: a.max(axis=1),
    "prod": np.prod,
    "where": lambda a: np.where(a > 3.0, a, 0.0),
    "matmul": lambda a: a @ a,
    "Function": lambda a: Square()(a),
}


@pytest.mark.parametrize("f", UNARY_AND_MORE.values(), ids=UNARY_AND_MORE)
def test_no_rule_keeps_the_handle(f):
    x = tensor(CONSTANT)
    with GradManager().attach(x):
        a = x * 2.0
        handle = ref(a)
        y = f(a)
        del a
        assert handle() is None
        assert tracked(y)


def test_nor_the_handle_of_its_output():
    x = tensor(CONSTANT)
    with GradManager().attach(x):
        y = np.exp(x)
        handle = ref(y)
        z = y * 2.0
        del y
        assert handle() is None
        assert tracked(z)
