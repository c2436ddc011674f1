"""What tests of managers ask: what is alive, and whether somebody follows it."""

from __future__ import annotations

import gc
from weakref import ref

import numpy as np
import pytest

import fgrad as fg


@pytest.fixture(autouse=True)
def no_cycle_collector():
    """Let whatever has to die die by its last reference."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def value(t):
    """Return a weak reference to the array behind `t`, which rules may have saved."""
    return ref(t._value)


def tracked(t):
    """Return whether a live recording tracks `t`: then it must not silently become an array."""
    try:
        np.asarray(t)
    except TypeError:
        return True
    return False


class Square(fg.Function):
    """A custom rule, whose instance is what the tape saves."""

    def forward(self, x):
        self.x = x
        return x * x

    def backward(self, ct):
        return ct * self.x * 2.0
