"""Normalizing primitives: softmax, its logarithm, logsumexp and layer norm."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.core.aval import Aval, with_ones
from fgrad.core.dispatch import bind, unary
from fgrad.core.placement import near
from fgrad.core.primitive import (
    REDUCES,
    SYMMETRIC,
    TOTAL,
    VJP,
    WEIGHTS,
    Pattern,
    Rule,
    by_argument,
    declare,
)
from fgrad.core.stored import REAL, Stored, are_axes, is_count, is_number
from fgrad.ops.compiled import launched, launches_rows
from fgrad.ops.elementwise import of_arrays
from fgrad.ops.linear import Axes, broadcast_to, expand, reshape, shifted, sum_axes
from fgrad.ops.reduction import reduced

_exp = of_arrays("exp")


def _length(x: Any, axes: Axes) -> int:
    return math.prod([x.shape[i] for i in axes])


def _top(x: Any, axes: Axes) -> Any:
    return np.maximum.reduce(x, axis=axes, keepdims=True, initial=-np.inf)


def _run_softmax(x: Any, *, axes: Axes) -> Any:
    if launches_rows(x, axes):
        return launched(_rows_of["softmax"], x, axes=axes)
    with np.errstate(invalid="ignore"):
        y = _exp(x - _top(x, axes))
        return y / np.add.reduce(y, axis=axes, keepdims=True)


def _softmax(ct: Any, out: Any, *, axes: Axes) -> Any:
    if launches_rows(out, axes, ct):
        return launched(_softmax, ct, out, axes=axes)
    return out * (ct - expand(sum_axes(ct * out, axes), out.shape, axes))


def _run_log_softmax(x: Any, *, axes: Axes) -> Any:
    if launches_rows(x, axes):
        return launched(_rows_of["log_softmax"], x, axes=axes)
    with np.errstate(invalid="ignore", divide="ignore"):  # of infinities, and of rows without elements
        y = x - _top(x, axes)
        return y - np.log(np.add.reduce(_exp(y), axis=axes, keepdims=True))


def _log_softmax(ct: Any, out: Any, *, axes: Axes) -> Any:
    if launches_rows(out, axes, ct):
        return launched(_log_softmax, ct, out, axes=axes)
    return ct - unary("exp", out) * expand(sum_axes(ct, axes), out.shape, axes)


def _run_logsumexp(x: Any, *, axes: Axes) -> Any:
    if launches_rows(x, axes):
        return launched(_rows_of["logsumexp"], x, axes=axes)
    if x.size == 0:
        return near(x).full(reduced(x, axes).shape, -np.inf, x.dtype)[()]
    if x.__class__ is DeviceArray:
        return _run_logsumexp_of_infinite(x, np.maximum.reduce(x, axis=axes, keepdims=True), axes)
    if axes == (1,) and x.ndim == 2 and x.shape[1] < min(64, x.shape[0]):
        # NumPy runs along the last axis, and that is too short: turned round, the same takes half the time
        x, axes = np.ascontiguousarray(x.T), (0,)
    top = np.maximum.reduce(x, axis=axes, keepdims=True)
    if not math.isfinite(np.add.reduce(top, axis=None)):
        return _run_logsumexp_of_infinite(x, top, axes)
    terms = np.subtract(x, top)
    total = np.add.reduce(_exp(terms, terms) if terms.shape else np.exp(terms), axis=axes)
    return np.log(total) + top.reshape(total.shape)


def _run_logsumexp_of_infinite(x: Any, top: Any, axes: Axes) -> Any:
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore", over="ignore"):
        total = np.add.reduce(np.exp(x - top), axis=axes)
        return np.log(total) + top.reshape(total.shape)


def _logsumexp_of_arrays(ct: Any, out: Any, x: Any, *, axes: Axes) -> Any:
    if launches_rows(x, axes, ct, out):
        return launched(_logsumexp, ct, out, x, axes=axes)
    kept = with_ones(x.shape, axes)
    shift = out.reshape(kept)
    if x.__class__ is DeviceArray or not math.isfinite(np.add.reduce(out, axis=None)):
        shift = np.where(shift == -np.inf, 0, shift)
    weights = _exp(np.subtract(x, shift))
    total = np.add.reduce(weights, axis=axes, keepdims=True)
    return weights * (ct.reshape(kept) / np.where(total > 0, total, 1))


def _logsumexp(ct: Any, out: Any, x: Any, *, axes: Axes) -> Any:
    """Return `ct` times softmax(x), which is zero by convention where every x is -inf.

    Blanchard, Higham & Higham (2021), Accurately computing the log-sum-exp and softmax functions. Rounding
    of a large `out` is a factor of all exponentials, so that these are divided by their sum, near one.
    """
    kept = with_ones(x.shape, axes)
    shift = bind("stop_gradient", bind("where", bind("equal", out, -np.inf), 0, out))
    weights = unary("exp", x - reshape(shift, kept))
    total = reshape(sum_axes(weights, axes), kept)
    return weights * (reshape(ct, kept) / bind("where", bind("greater", total, 0), total, 1))


_rows_of = {  # as a program has them, which compiles them in parts that it knows
    name: functools.partial(bind, name) for name in ("softmax", "log_softmax", "logsumexp", "layer_norm")
}


def _declare(
    name: str, run: Rule, rule: Rule, shape: Callable[..., Any], raw: Rule | None = None, transpose: str = ""
) -> None:
    traits = {TOTAL, REDUCES} if transpose == WEIGHTS else {TOTAL}
    declare(
        name,
        run=run,
        vjp=by_argument(rule, raw=[raw or rule], exact=True, transpose=transpose),
        shape=shape,
        batch=lambda _, x, *, axes: bind(name, x, axes=shifted(axes)),
        real=True,
        traits=traits,
        stored=Stored({"axes": are_axes}, dtypes=REAL),
    )


_declare("softmax", _run_softmax, _softmax, lambda x, *, axes: x, transpose=SYMMETRIC)
_declare("log_softmax", _run_log_softmax, _log_softmax, lambda x, *, axes: x)
_declare(
    "logsumexp",
    _run_logsumexp,
    _logsumexp,
    lambda x, *, axes: reduced(x, axes),
    _logsumexp_of_arrays,
    WEIGHTS,
)


# Layers: Ba, Kiros & Hinton (2016), Layer normalization


def _last(x: Any, rank: int) -> Axes:
    n = len(x.shape)
    return tuple(range(n - rank, n))


def _run_layer_norm(x: Any, weight: Any, bias: Any, *, rank: int, eps: float) -> Any:
    axes = _last(x, rank)
    if launches_rows(x, axes, weight, bias):
        return launched(_rows_of["layer_norm"], x, weight, bias, rank=rank, eps=eps)
    dtype = np.result_type(x, weight, bias)
    if dtype == np.float16:
        x = x.astype(np.float32)
    n = max(1, _length(x, axes))
    gap = x - np.add.reduce(x, axis=axes, keepdims=True) / n
    y = gap / np.sqrt(np.add.reduce(gap * gap, axis=axes, keepdims=True) / n + eps)
    return (y * weight + bias).astype(dtype, copy=False)


def standardized(x: Any, rank: int, eps: float) -> tuple[Any, Any]:
    """Return `x` with mean zero and variance one over its last `rank` axes, and its factor."""
    axes = _last(x, rank)
    n = max(1, _length(x, axes))
    gap = x - expand(sum_axes(x, axes) / n, x.shape, axes)
    scale = 1.0 / unary("sqrt", sum_axes(unary("square", gap), axes) / n + eps)
    return gap * expand(scale, x.shape, axes), scale


def _layer_norm_back(pattern: Pattern, ct: Any, x: Any, weight: Any, *, rank: int, eps: float) -> list[Any]:
    """Return the cotangents of those of x, weight and bias that are tracked."""
    lead, axes = tuple(range(len(ct.shape) - rank)), _last(ct, rank)
    back = []

    def spread(v: Any) -> Any:
        return expand(v, ct.shape, axes)

    if pattern[0] or pattern[1]:
        y, scale = standardized(x, rank, eps)
    if pattern[0]:
        n = max(1, _length(x, axes))
        # the slope first, so that kernels compute it with y; ct * weight has one use, which saves its memory
        slope, mean = (sum_axes(ct * v, axes) / n * scale for v in (weight * y, weight))
        back.append(ct * (weight * spread(scale)) - spread(mean) - y * spread(slope))
    if pattern[1]:
        back.append(sum_axes(ct * y, lead))
    if pattern[2]:
        back.append(sum_axes(ct, lead))
    return back


_layer_norm_of: dict[Pattern, Rule] = {
    pattern: functools.partial(_layer_norm_back, pattern) for pattern in product((False, True), repeat=3)
}


def _layer_norm_vjp(pattern: Pattern) -> VJP:
    keep = (1, 2) if pattern[0] else (1,) if pattern[1] else ()

    def lifted(ct: Any, *saved: Any) -> list[Any]:
        *values, params = saved
        return _layer_norm_back(pattern, ct, *values, *(None,) * (2 - len(values)), **params)

    def raw(ct: Any, *saved: Any) -> Any:
        *values, params = saved
        if not launches_rows(ct, _last(ct, params["rank"]), *values):
            return lifted(ct, *saved)
        made = launched(_layer_norm_of[pattern], ct, *values, *(ct,) * (2 - len(values)), **params)
        return list(made) if isinstance(made, tuple) else [made]

    return VJP(lifted, raw=raw, keep=keep, params=True)


def _batch_layer_norm(
    mapped: tuple[bool, ...], x: Any, weight: Any, bias: Any, *, rank: int, eps: float
) -> Any:
    if mapped == (True, False, False):
        return bind("layer_norm", x, weight, bias, rank=rank, eps=eps)
    if not mapped[0]:
        size = (weight if mapped[1] else bias).shape[0]
        x = broadcast_to(x, (size, *x.shape))
    y, _ = standardized(x, rank, eps)

    def fitted(p: Any, is_mapped: bool) -> Any:
        ones = (1,) * (len(x.shape) - rank - 1)
        return reshape(p, (p.shape[0], *ones, *p.shape[1:])) if is_mapped else p

    return y * fitted(weight, mapped[1]) + fitted(bias, mapped[2])


declare(
    "layer_norm",
    run=_run_layer_norm,
    vjp=_layer_norm_vjp,
    shape=lambda x, *others, **_: Aval(x.shape, np.result_type(x.dtype, *(o.dtype for o in others))),
    batch=_batch_layer_norm,
    real=True,
    stored=Stored(
        {"rank": is_count, "eps": is_number},
        dtypes=REAL,
        verify=lambda x, *others, rank, eps: (
            0 < rank <= x.ndim and all(a.shape == x.shape[x.ndim - rank :] for a in others)
        ),
    ),
)
