"""SciPy's compiled routines for primitives, imported at the first call because SciPy is optional."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np


@functools.cache
def scipy(name: str) -> Any:
    """Return a module of SciPy."""
    return import_module(f"scipy.{name}")


def each(f: Callable[..., Any], *stacks: Any, cores: int = 2) -> Any:
    """Return `f` of each entry of stacks with the same axes before the last `cores`; it gives one array."""
    lead = stacks[0].shape[: stacks[0].ndim - cores]
    if not lead:
        return f(*stacks)
    found = [f(*(s[i] for s in stacks)) for i in np.ndindex(lead)]
    return np.stack(found).reshape((*lead, *found[0].shape)) if found else None
