"""Functions that apply primitives: what is composed of these calls them, and does not name primitives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fgrad.core.tensor import bind, unary

_Function = Callable[..., Any]


def _unary(name: str) -> _Function:
    return functools.partial(unary, name)


def _bound(name: str) -> _Function:
    return functools.partial(bind, name)


exp: _Function
expm1: _Function
log: _Function
log1p: _Function
sqrt: _Function
square: _Function
isfinite: _Function
exp, expm1, log, log1p = map(_unary, ("exp", "expm1", "log", "log1p"))
sqrt, square, isfinite = map(_unary, ("sqrt", "square", "isfinite"))

both: _Function
equal: _Function
greater_equal: _Function
less: _Function
logical_and: _Function
power: _Function
scale: _Function
both, power, scale, logical_and = map(_bound, ("both", "power", "scale", "logical_and"))
equal, less, greater_equal = map(_bound, ("equal", "less", "greater_equal"))

where: _Function = _bound("where")  # (condition, x, y)
stop_gradient: _Function = _bound("stop_gradient")
concatenate: _Function = _bound("concatenate")  # (*arrays, axis=)
stack: _Function = _bound("stack")  # (*arrays), along a first axis
sliced: _Function = _bound("slice")  # (x, index=), of slices and integers
gather: _Function = _bound("gather")  # (x, *index arrays, template=, unique=)
