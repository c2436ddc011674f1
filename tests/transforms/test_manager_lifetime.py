"""How a recording frees what it holds, and how it ends.

The cycle collector is off in every test of this file: whatever has to die must die by its last reference.
"""

from __future__ import annotations

import tracemalloc
from weakref import ref

import numpy as np
import pytest
from tests.helpers import close
from tests.transforms.lifetimes import Square, no_cycle_collector, tracked, value  # noqa: F401 -- a fixture

import fgrad as fg
from fgrad import GradManager, tensor

# ---- 14: backward frees as it goes ---------------------------------------------------------------


def test_each_operation_is_freed_as_soon_as_its_reverse_step_is_done():
    """Between the steps of a chain exp, look, exp, look, ... the looks count what is still saved."""
    saved, alive = [], []

    class Look(fg.Function):
        def forward(self, x):
            return x + 0.0

        def backward(self, ct):
            alive.append([s() is not None for s in saved])
            return ct

    x = tensor(np.linspace(0.1, 0.2, 3))
    gm = GradManager().attach(x)
    n = 6
    with gm:
        y = x
        for _ in range(n):
            y = Look()(y)
            y = np.exp(y * 0.1)
            saved.append(value(y))
        y = y + 0.0
        assert all(s() is not None for s in saved)
        gm.backward(y)
    assert alive == [[i < k for i in range(n)] for k in range(n - 1, -1, -1)]
    assert not any(s() for s in saved)


def test_backward_needs_no_more_memory_than_forward():
    x = tensor(np.full(100_000, 0.5))  # 0.8 MB
    gm = GradManager().attach(x)
    tracemalloc.start()
    try:
        with gm:
            y = x
            for _ in range(30):
                y = np.exp(y) * 0.3
            forward, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            gm.backward(y)
            _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert forward > 30 * 0.8e6
    assert peak < forward + 8 * 0.8e6, "a few cotangents on top, no second copy of the chain"


# ---- 15: long chains -----------------------------------------------------------------------------


def test_a_million_chained_operations():
    x = tensor(1.0)
    gm = GradManager().attach(x)
    gm.record()
    y = x
    for _ in range(1_000_000):
        y = y + 1.0
    assert y.item() == 1_000_001.0
    gm.backward(y)
    close(x.grad, 1.0)


def chain(x, n):
    y = x * 1.0
    for _ in range(n):
        y = y + 1.0
    return y


def handle_chain(x, n):
    y = x * 1.0
    for _ in range(n):
        y += 1.0
    return y


@pytest.mark.parametrize("make", [chain, handle_chain])
@pytest.mark.parametrize("death", ["output dropped", "released", "released then dropped", "manager dropped"])
def test_a_long_chain_dies_without_recursion_however_it_dies(make, death):
    x = tensor(1.0)
    gm = GradManager().attach(x)
    gm.record()
    y = make(x, 200_000)
    if death == "output dropped":
        del y
        gm.backward(x * 3.0)
        close(x.grad, 3.0)
    elif death == "manager dropped":
        del gm
        assert not tracked(y)
    else:
        gm.release()
        assert not tracked(y)
        if death == "released then dropped":
            del y


def test_a_long_chain_seen_by_two_managers():
    x = tensor(1.0)
    outer, inner = GradManager().attach(x), GradManager().attach(x)
    with outer, inner:
        y = chain(x, 50_000)
        inner.backward(y * y)
        g, x.grad = x.grad, None
        close(g, 2.0 * 50_001)
        outer.backward(g)
    close(x.grad, 2.0)


# ---- 16: a manager dropped while recording -------------------------------------------------------


def test_a_manager_dropped_while_recording_is_collected_and_stops():
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    gm.record()
    rule = Square()
    y = rule(x)
    alive, saved = ref(gm), ref(rule)
    assert tracked(y)
    del gm, rule
    assert alive() is None
    assert saved() is None, "what it saved goes with it although y lives"
    assert not tracked(x)
    assert not tracked(y)
    assert not tracked(x * 2.0)
    held = ref(x)
    del x
    assert held() is None


def test_the_other_managers_go_on():
    x = tensor(3.0)
    outer, dropped, inner = (GradManager().attach(x) for _ in range(3))
    outer.record()
    dropped.record()
    y = x * x
    inner.record()
    z = x * y
    del dropped
    z = z * x
    inner.backward(z)  # z = x y x, y constant
    g, x.grad = x.grad, None
    close(g, 2 * 3.0 * 9.0)
    outer.backward(g)  # 2 x**3
    close(x.grad, 6 * 9.0)


def test_another_manager_may_take_its_tensors_over():
    x = tensor(3.0)
    GradManager().attach(x).record()  # dropped at once
    gm = GradManager().attach(x)
    with gm:
        gm.backward(x * x)
    close(x.grad, 6.0)


def test_what_a_rule_of_the_user_saved_goes_with_the_recording_although_its_output_lives():
    @fg.custom_vjp
    def twice(x):
        return x * 2.0

    saved = []

    def forward(x):
        y = x * 2.0
        saved.append(value(y))
        return y * 1.0, y

    twice.defvjp(forward, lambda y, ct: (ct * 2.0 + 0.0 * y,))
    for end in ("backward", "release"):
        x = tensor([1.0, 2.0])
        with GradManager().attach(x) as gm:
            y = twice(x)
            assert saved[-1]() is not None
            if end == "backward":
                gm.backward(y, np.ones(2))
        assert saved.pop()() is None
        close(y, [2.0, 4.0])
