"""Schedules: values at their corners, traced counts, and the numbers of Optax."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad as fg
from fgrad import optim

SCHEDULES = {
    "linear": (optim.linear_schedule(1.0, 0.2, 8), {0: 1.0, 4: 0.6, 8: 0.2, 100: 0.2}),
    "exponential": (optim.exponential_decay(2.0, 4, 0.25), {0: 2.0, 2: 1.0, 4: 0.5, 8: 0.125}),
    "staircase": (optim.exponential_decay(2.0, 4, 0.25, staircase=True), {0: 2.0, 3: 2.0, 4: 0.5, 9: 0.125}),
    "cosine": (optim.cosine_decay_schedule(1.0, 10, 0.1), {0: 1.0, 5: 0.55, 10: 0.1, 20: 0.1}),
    "piecewise": (optim.piecewise_constant_schedule(1.0, {5: 0.5, 10: 0.1}),
        {4: 1.0, 5: 0.5, 9: 0.5, 10: 0.05}),
    "joined": (optim.join_schedules([lambda t: 1.0 + 0 * t, lambda t: 10.0 + t], [3]),
        {2: 1.0, 3: 10.0, 5: 12.0}),
    "warmup": (optim.warmup_cosine_decay_schedule(0.0, 1.0, 10, 110, 0.2), {0: 0.0, 5: 0.5, 10: 1.0, 60: 0.6,
        110: 0.2, 500: 0.2}),
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULES)
def test_values(name):
    schedule, values = SCHEDULES[name]
    for count, value in values.items():
        assert float(schedule(count)) == pytest.approx(value)
        assert float(schedule(np.int32(count))) == pytest.approx(value)
        assert float(fg.jit(schedule)(np.int32(count))) == pytest.approx(value)


OPTAX = {
    "linear": lambda o: o.linear_schedule(1.0, 0.2, 8),
    "exponential": lambda o: o.exponential_decay(2.0, 4, 0.25),
    "staircase": lambda o: o.exponential_decay(2.0, 4, 0.25, staircase=True),
    "cosine": lambda o: o.cosine_decay_schedule(1.0, 10, 0.1),
    "piecewise": lambda o: o.piecewise_constant_schedule(1.0, {5: 0.5, 10: 0.1}),
    "warmup": lambda o: o.warmup_cosine_decay_schedule(0.0, 1.0, 10, 110, 0.2),
}


@pytest.mark.parametrize("name", OPTAX)
def test_values_are_those_of_optax(name):
    optax = pytest.importorskip("optax")
    theirs, (mine, _) = OPTAX[name](optax), SCHEDULES[name]
    for count in range(130):
        assert float(mine(count)) == pytest.approx(float(theirs(count)), rel=1e-5, abs=1e-6)


def test_schedules_without_steps_are_refused():
    for make in (lambda: optim.linear_schedule(1.0, 0.0, 0), lambda: optim.cosine_decay_schedule(1.0, -1),
                 lambda: optim.exponential_decay(1.0, 0, 0.5)):  # fmt: skip
        with pytest.raises(ValueError, match="positive number of steps"):
            make()
    with pytest.raises(ValueError, match="one boundary less"):
        optim.join_schedules([lambda t: t], [1])
