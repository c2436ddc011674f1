"""NumPy's floating-point warnings off and on again, for a fifth of what `numpy.errstate` costs.

`errstate` keeps its setting in a context variable, found here by comparing the contexts outside and inside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import numpy as np


def _found() -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    outside = copy_context()
    with np.errstate(all="ignore"):
        inside = copy_context()
    changed = [(var, value) for var, value in inside.items() if outside.get(var) is not value]
    if len(changed) != 1:
        return plainly
    ((var, value),) = changed
    return functools.partial(var.set, value), var.reset


def _enter() -> np.errstate:
    state = np.errstate(all="ignore")
    state.__enter__()
    return state


plainly = _enter, lambda state: state.__exit__(None, None, None)  # where NumPy keeps the setting elsewhere
restore: Callable[[Any], Any]
silence: Callable[[], Any]
silence, restore = _found()  # `silence()` returns what `restore` takes
