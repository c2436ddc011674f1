"""Notes and observers: they cost nothing where there are none, and end with their block."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from tests.helpers import close

import fgrad as fg
from fgrad.core.notes import Noted
from fgrad.core.observers import observed_primitives
from fgrad.core.primitive import PRIMITIVES
from fgrad.viz import draw, take_notes


def recorded(x):
    with fg.GradManager().attach(x) as gm:
        y = np.sin(x) * x
        gm.backward(y)
    return y


def test_primitives_are_exchanged_for_the_block_only():
    before = {name: primitive.run for name, primitive in PRIMITIVES.items()}
    with take_notes():
        assert observed_primitives
        with take_notes():
            pass
        assert PRIMITIVES["sin"].run is not before["sin"]
    assert not observed_primitives
    assert all(PRIMITIVES[name].run is run for name, run in before.items())


def test_switching_holds_until_it_is_switched_off():
    x = fg.tensor([1.0, 2.0])
    take_notes(True)
    try:
        take_notes(True)
        assert draw(recorded(x)).graph.count() == 2
    finally:
        take_notes(False)
    assert not observed_primitives
    with pytest.raises(TypeError, match="no recording contains"):
        draw(recorded(x))


def test_gradients_are_the_same():
    f = lambda x: np.sum(np.tanh(x) ** 2 * np.exp(x)) + np.prod(x[1:]) / x[0]
    x = np.array([0.3, 0.5, 1.5])
    calls = [
        fg.grad(f),
        fg.hessian(f),
        fg.jacfwd(np.cumsum),
        lambda x: fg.jvp(f, (x,), (x,))[1],
        lambda x: fg.vmap(fg.grad(f))(np.stack([x, x])),
        fg.jit(fg.grad(f)),
    ]
    for call in calls:
        expected = call(x)
        with take_notes():
            close(call(x), expected)
        with take_notes(), fg.debug_nans():
            close(call(x), expected)


def test_watching_for_nan_works_beside_notes():
    with take_notes(), fg.debug_nans(), pytest.raises(fg.NonFiniteError, match="sqrt"):
        fg.grad(np.sqrt)(0.0)


def test_notes_hold_no_arrays_and_die_with_the_last_tensor():
    gc.collect()
    gc.disable()
    try:
        x = fg.tensor(np.ones(3))
        with take_notes():
            inner = np.full(3, 2.0)
            seen = weakref.ref(inner)
            with fg.GradManager().attach(x) as gm:
                y = x * fg.tensor(inner)
                z = y.sum()
                del inner
                gm.backward(z)
            note = weakref.ref(z._nodes[0].note)
        assert seen() is None
        assert note() is not None
        del y, z
        assert note() is None
    finally:
        gc.enable()


def test_tapes_that_run_already_are_noted_from_here_on():
    x = fg.tensor([1.0, 2.0])
    with fg.GradManager().attach(x) as gm:
        early = np.sin(x)
        with take_notes():
            assert isinstance(gm._recording.tape.refs, Noted)
            late = np.cos(early)
        assert type(gm._recording.tape.refs) is list
        lines = {i.name: i.line for i in draw(late).graph.items}
        assert lines["sin"] == ""
        assert "test_notes.py" in lines["cos"]


def test_named_scope_is_refused_without_a_name():
    with pytest.raises(TypeError, match=r"named_scope takes the name as text, not function"):
        fg.named_scope(lambda x: x)


def test_named_scope_decorates_and_nests_again():
    @fg.named_scope("f")
    def f(x, n):
        return np.sin(x if n == 0 else f(x, n - 1))

    graph = draw(lambda x: f(x, 2), collapse="none")(1.0).graph
    assert [[b.title for b in i.box.path()] for i in graph.items if i.kind == "operation"] == [
        ["f", "f", "f"],
        ["f", "f"],
        ["f"],
    ]
    assert f.__name__ == "f"
