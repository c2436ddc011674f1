"""What iterates in compiled programs: ufuncs along an axis, and functions of matrices by squaring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.aval import with_dtype
from fgrad.core.dispatch import bind
from fgrad.core.primitive import PRIMITIVES
from fgrad.lax.loops import while_loop
from fgrad.lax.scans import scan
from fgrad.ops import iterations
from fgrad.ops.linear import convert
from fgrad.ops.matrix_functions import frechet_by, log_near_one, without_trace
from fgrad.ops.requirements import trusted


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


def _expm(a: Any) -> Any:
    halvings = iterations.halvings_of(a)
    count = np.max(halvings)

    def square(state: Any) -> Any:
        k, y = state
        return k + 1.0, np.where(halvings > k, y @ y, y)

    start = (0.0, iterations.quotient(a, halvings))
    return while_loop(lambda state: state[0] < count, square, start)[1]


def _wide(*xs: Any) -> list[Any]:
    kind = np.result_type(*(x.dtype for x in xs), np.float64)
    return [convert(x, kind) for x in xs]


def matrix_exponential(a: Any, **_: Any) -> Any:
    """Return exponentials of matrices, by `iterations.quotient` and a loop that squares."""
    return _expm(*_wide(a))


def frechet(a: Any, e: Any) -> Any:
    """Return the derivative of the exponential at `a` along `e`, which is scaled to the size of `a`."""
    return frechet_by(_expm, *_wide(a, e))


def log_frechet(y: Any, e: Any) -> Any:
    """Return the derivative along `e` of the logarithm where it is `y`, as `ops.matrix_functions` does."""
    y, e = _wide(y, e)
    one = np.eye(y.shape[-1], dtype=y.dtype)
    y, root_of_scale = without_trace(y, one)
    size = np.max(np.sum(np.absolute(y), axis=-2))
    halvings = np.where((size > 0.2) & np.isfinite(size), np.ceil(np.log2(np.maximum(size, 0.2) / 0.2)), 0.0)

    def step(state: Any) -> Any:
        k, e = state
        root = _expm(y / np.exp2(k + 1))
        return k + 1.0, bind("sylvester", root, root, e)

    _, e = while_loop(lambda state: state[0] < halvings, step, (0.0, e))
    total = log_near_one(_expm(y / np.exp2(halvings)) - one, e, one)
    return np.exp2(halvings) * total * root_of_scale * root_of_scale


def integer_power(x: Any, y: Any) -> Any:
    """Return powers of integers by squaring; a program ends where an exponent is negative."""
    x, y = with_dtype(x), with_dtype(y)
    dtype = PRIMITIVES["power"].shape(x, y).dtype  # type: ignore[misc]
    shape = np.broadcast_shapes(x.shape, y.shape)
    base, exponent = (np.broadcast_to(convert(v, d), shape) for v, d in ((x, dtype), (y, dtype)))
    good = y >= 0

    def step(state: Any) -> Any:
        base, exponent, found = state
        found = np.where(exponent & 1 == 1, found * base, found)
        return base * base, exponent >> 1, found

    start = (base, np.where(exponent < 0, 0, exponent).astype(dtype), np.ones(shape, dtype))
    return trusted(while_loop(lambda state: np.max(state[1]) > 0, step, start)[2], good)
