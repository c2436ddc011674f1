"""NumPy's floating-point warnings off and on, at a fifth of the cost of `numpy.errstate`.

`errstate` keeps its setting in a context variable, found here by comparing the contexts outside and inside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, NamedTuple

import numpy as np


class Ways(NamedTuple):
    """Functions that look at the setting, switch warnings off, and go back to what was seen."""

    setting: Callable[[], Any]
    silence: Callable[[], Any]
    restore: Callable[[Any], Any]


def _found() -> Ways:
    outside = copy_context()
    with np.errstate(all="ignore"):
        inside = copy_context()
    changed = [(var, value) for var, value in inside.items() if outside.get(var) is not value]
    if len(changed) != 1:
        return plainly
    ((var, value),) = changed
    return Ways(var.get, functools.partial(var.set, value), var.set)


plainly = Ways(  # where NumPy keeps the setting elsewhere
    np.geterr, lambda: np.seterr(all="ignore"), lambda before: np.seterr(**before)
)
setting: Callable[[], Any]
silence: Callable[[], Any]
restore: Callable[[Any], Any]
setting, silence, restore = _found()
