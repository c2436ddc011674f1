"""Functions that apply primitives: what is composed of these calls them, and does not name primitives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fgrad.core.dispatch import bind, unary

_Function = Callable[..., Any]


def _unary(name: str) -> _Function:
    return functools.partial(unary, name)


def _bound(name: str) -> _Function:
    return functools.partial(bind, name)


exp: _Function = _unary("exp")
expm1: _Function = _unary("expm1")
log: _Function = _unary("log")
log1p: _Function = _unary("log1p")
sqrt: _Function = _unary("sqrt")
square: _Function = _unary("square")
isfinite: _Function = _unary("isfinite")

multiply_no_nan: _Function = _bound("multiply_no_nan")
equal: _Function = _bound("equal")
greater_equal: _Function = _bound("greater_equal")
less: _Function = _bound("less")
logical_and: _Function = _bound("logical_and")
power: _Function = _bound("power")
scale: _Function = _bound("scale")
where: _Function = _bound("where")  # (condition, x, y)
stop_gradient: _Function = _bound("stop_gradient")
concatenate: _Function = _bound("concatenate")  # (*arrays, axis=)
stack: _Function = _bound("stack")  # (*arrays), along a first axis
sliced: _Function = _bound("slice")  # (x, index=), of slices and integers
gather: _Function = _bound("gather")  # (x, *index arrays, template=, unique=)
