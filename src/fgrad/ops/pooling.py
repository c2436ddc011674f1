"""Pooling primitives: the maximum and the sum of every window over the last axes."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from fgrad.core.aval import Aval, Shape
from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.core.primitive import LARGE, Written, by_argument, declare
from fgrad.core.stored import Stored, are_steps, is_shape
from fgrad.ops.compiled import FLOATS, backend
from fgrad.ops.linear import batch_in_front, linear
from fgrad.ops.windows import Geometry, Pads, Steps, are_pads, at_place, framed, padded, padded_size


def _count(space: Shape, window: Steps, stride: Steps, padding: Pads) -> Shape:
    ones = (1,) * len(window)
    return Geometry(stride, padding, ones, ones).places(space, window)


def _pooled(x: Any, window: Steps, stride: Steps, padding: Pads) -> Shape:
    rank = len(window)
    return (*x.shape[:-rank], *_count(x.shape[-rank:], window, stride, padding))


def _framed(space: Shape, padding: Pads) -> tuple[Shape, Any, Any]:
    return framed(space, padding, (1,) * len(space))


def _cuts(padding: Pads) -> bool:
    """Return whether padding is negative somewhere, so that windows never see some elements."""
    return any(n < 0 for pair in padding for n in pair)


def _slices(window: Steps, stride: Steps, count: Shape) -> Iterator[tuple[Any, ...]]:
    """Yield for every place in a window the index of the elements that stand there, one a window."""
    for offset in itertools.product(*map(range, window)):
        yield (..., *at_place(offset, count, stride, (1,) * len(window)))


def _suits(x: Any, window: Steps) -> bool:
    return x.__class__ is np.ndarray and x.size >= LARGE and x.dtype in FLOATS and len(window) <= 2


def _run_max(x: Any, *, window: Steps, stride: Steps, padding: Pads) -> Any:
    shape = _pooled(x, window, stride, padding)
    if not math.prod(shape):
        return near(x).empty(shape, x.dtype)
    if _suits(x, window):
        return backend("windows").pooled("max", x, window, stride, padding, shape)
    x = padded(x, padding, (1,) * len(window), -np.inf)
    first, *others = (x[index] for index in _slices(window, stride, shape[-len(window) :]))
    out = first.copy()
    for part in others:
        np.maximum(out, part, out=out)
    return out


def _is_other(x: Aval, *, window: Steps, **_: Any) -> bool:
    """Return whether compiled programs have no loop for windows of an array."""
    return x.size > 0 and (x.dtype not in FLOATS or len(window) > 2)


def _written(combine: str, border: float, x: Any, *, window: Steps, stride: Steps, padding: Pads) -> Any:
    """Return what a primitive makes of the elements of every window, over an array with a border."""
    count, x = _pooled(x, window, stride, padding), _bordered(x, padding, border)
    parts = [bind("slice", x, index=index) for index in _slices(window, stride, count[-len(window) :])]
    return functools.reduce(functools.partial(bind, combine), parts)


def _bordered(x: Any, padding: Pads, border: float) -> Any:
    """Return an array with a border of one number, where the padding has one."""
    if not any(map(any, padding)):
        return x
    rank = len(padding)
    full, there, here = _framed(x.shape[-rank:], padding)
    shape = (*x.shape[:-rank], *full)
    seen = bind("slice", x, index=here) if _cuts(padding) else x
    if not border:
        return bind("slice_backward", seen, shape=shape, index=there)
    return bind("update", near(x).full(shape, border, x.dtype), seen, index=there)


def _written_spread(ct: Any, *, window: Steps, stride: Steps, padding: Pads, space: Shape) -> Any:
    rank = len(window)
    full, there, here = _framed(space, padding)
    shape = (*ct.shape[:-rank], *full)
    parts = [
        bind("slice_backward", ct, shape=shape, index=i) for i in _slices(window, stride, ct.shape[-rank:])
    ]
    back = bind("slice", functools.reduce(operator.add, parts), index=there)
    if not _cuts(padding):
        return back
    return bind("slice_backward", back, shape=(*ct.shape[:-rank], *space), index=here)


def _max_adjoint(ct: Any, out: Any, x: Any, *, window: Steps, stride: Steps, padding: Pads) -> Any:
    """Share the cotangent of every window equally among the elements that attain its maximum."""
    if not out.size:
        return near(ct).zeros(x.shape, ct.dtype)
    if _suits(x, window) and ct.__class__ is np.ndarray and ct.dtype == x.dtype:
        return backend("windows").max_pool_back(ct, out, x, window, stride, padding)
    rank, shape = len(window), x.shape
    full, there, here = _framed(shape[-rank:], padding)
    whole = (*shape[:-rank], *full)
    x = _bordered(x, padding, np.nan)  # which is equal to nothing
    ties = [(index, bind("equal", bind("slice", x, index=index), out))
            for index in _slices(window, stride, out.shape[-rank:])]  # fmt: skip
    number = sum(bind("convert", tie, dtype=ct.dtype) for _, tie in ties)
    if any(max(p) >= k for p, k in zip(padding, window, strict=True)):  # a window may see no element
        number = bind("maximum", number, 1)
    share = ct / number
    shares = ((index, bind("where", tie, share, 0)) for index, tie in ties)
    parts = (bind("slice_backward", part, shape=whole, index=index) for index, part in shares)
    back = bind("slice", functools.reduce(operator.add, parts), index=there)
    return bind("slice_backward", back, shape=shape, index=here) if _cuts(padding) else back


def _adds(v: Any, _: Any) -> bool:
    return are_pads(v, _) and all(n >= 0 for p in v for n in p)


def _slides(x: Aval, *, window: Shape, stride: Shape, padding: Any, space: Shape | None = None) -> bool:
    rank = len(window)
    return (
        0 < rank <= x.ndim
        and len(stride) == len(padding) == rank
        and (space is None or _count(space, window, stride, padding) == x.shape[-rank:])
    )


_STORED = {"window": are_steps, "stride": are_steps, "padding": _adds}
declare(
    "max_pool",
    run=_run_max,
    vjp=by_argument(_max_adjoint, exact=True),
    shape=lambda x, *, window, stride, padding: Aval(_pooled(x, window, stride, padding), x.dtype),
    batch=batch_in_front("max_pool"),
    real=True,
    written=Written(functools.partial(_written, "maximum", -np.inf), _is_other),
    stored=Stored(_STORED, verify=_slides, work=lambda x, *, padding, **_: padded_size(x, padding)),
)


def _run_sum(x: Any, *, window: Steps, stride: Steps, padding: Pads) -> Any:
    shape = _pooled(x, window, stride, padding)
    if math.prod(shape) and _suits(x, window):
        return backend("windows").pooled("sum", x, window, stride, padding, shape)
    out = near(x).zeros(shape, x.dtype)
    if out.size:
        x = padded(x, padding, (1,) * len(window))
        for index in _slices(window, stride, shape[-len(window) :]):
            out += x[index]
    return out


def _run_spread(ct: Any, *, window: Steps, stride: Steps, padding: Pads, space: Shape) -> Any:
    rank = len(window)
    shape = (*ct.shape[:-rank], *space)
    if ct.size and math.prod(shape) >= LARGE and _suits_spread(ct, window):
        return backend("windows").pooled("spread", ct, window, stride, padding, shape)
    full, there, here = _framed(space, padding)
    out = near(ct).zeros((*ct.shape[:-rank], *full), ct.dtype)
    if ct.size:
        for index in _slices(window, stride, ct.shape[-rank:]):
            out[index] += ct
    if not _cuts(padding):
        return out[there]
    back = near(ct).zeros(shape, ct.dtype)
    back[here] = out[there]
    return back


def _suits_spread(ct: Any, window: Steps) -> bool:
    return ct.__class__ is np.ndarray and ct.dtype in FLOATS and len(window) <= 2


def _sum_adjoint(ct: Any, x: Aval, *, window: Steps, stride: Steps, padding: Pads) -> Any:
    space = x.shape[-len(window) :]
    return bind("window_spread", ct, window=window, stride=stride, padding=padding, space=space)


linear(
    "window_sum",
    run=_run_sum,
    adjoint=_sum_adjoint,
    shape=lambda x, *, window, stride, padding: Aval(_pooled(x, window, stride, padding), x.dtype),
    batch=lambda x, **params: bind("window_sum", x, **params),
    written=Written(functools.partial(_written, "add", 0.0), _is_other),
    stored=Stored(_STORED, verify=_slides, work=lambda x, *, padding, **_: padded_size(x, padding)),
)
linear(
    "window_spread",
    run=_run_spread,
    adjoint=lambda ct, x, *, window, stride, padding, space: bind(
        "window_sum", ct, window=window, stride=stride, padding=padding
    ),
    shape=lambda x, *, window, stride, padding, space: Aval((*x.shape[: -len(window)], *space), x.dtype),
    batch=lambda x, **params: bind("window_spread", x, **params),
    written=Written(_written_spread, _is_other),
    stored=Stored(
        {**_STORED, "space": is_shape},
        verify=_slides,
        work=lambda x, *, padding, space, **_: padded_size(
            Aval((*x.shape[: -len(space)], *space), x.dtype), padding
        ),
    ),
)
