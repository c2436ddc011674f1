"""What runs along an axis, in compiled programs: loops of any ufunc where no kernel knows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.primitive import PRIMITIVES
from fgrad.core.tensor import bind
from fgrad.lax.scans import scan
from fgrad.ops.linear import convert


def _along(step: Callable[..., Any], axis: int, first: Callable[..., Any], *xs: Any) -> Any:
    """Return y with y_0 = first(xs_0) and y_i = step(y_(i-1), xs_i) along an axis."""
    rows = [np.moveaxis(x, axis, 0) for x in xs]

    def turn(y: Any, row: Any) -> Any:
        y = step(y, *row)
        return y, y

    start = first(*(r[0] for r in rows))
    if rows[0].shape[0] == 1:
        return np.moveaxis(start[None], 0, axis)
    _, rest = scan(turn, start, tuple(r[1:] for r in rows))
    return np.moveaxis(np.concatenate([start[None], rest]), 0, axis)


def accumulate(x: Any, *, ufunc: str, axis: int) -> Any:
    """Return what the ufunc of a primitive gives of all elements up to each, along an axis."""
    dtype = PRIMITIVES["accumulate"].shape(x, ufunc=ufunc, axis=axis).dtype  # type: ignore[misc]
    return _along(
        lambda y, z: convert(bind(ufunc, y, z), dtype), axis, lambda z: convert(z, dtype), convert(x, dtype)
    )


def cumprod(x: Any, *, axis: int) -> Any:
    """Return running products."""
    return accumulate(x, ufunc="multiply", axis=axis)


def recur(a: Any, b: Any, *, axis: int) -> Any:
    """Return y with y_i = a_i y_(i-1) + b_i along an axis."""
    dtype = np.result_type(a.dtype, b.dtype)
    shape = np.broadcast_shapes(a.shape, b.shape)
    a, b = (np.broadcast_to(convert(x, dtype), shape) for x in (a, b))
    return _along(lambda y, p, q: p * y + q, axis, lambda _, q: q, a, b)
