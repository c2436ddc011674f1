"""Borders around arrays: every mode of `pad`, one axis after the other, as compositions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.dispatch import bind, unary
from fgrad.core.placement import placed
from fgrad.core.tensor import Tensor, alias, is_abstract
from fgrad.core.views import is_laid_out, memory_of, unordered
from fgrad.numpy.arrays import as_target, as_value, asarray, next_to
from fgrad.numpy.creation import linspace
from fgrad.numpy.indexing import take
from fgrad.numpy.moments import mean as _mean
from fgrad.numpy.reductions import max as _max
from fgrad.numpy.reductions import min as _min
from fgrad.numpy.registry import as_array, holds_tensor, implements
from fgrad.numpy.shapes import moveaxis
from fgrad.numpy.statistics import median as _median
from fgrad.ops import linear
from fgrad.ops.indexing import unstack

Widths = tuple[tuple[int, int], ...]
Border = Callable[..., tuple[Any, Any]]  # (x, axis, widths, **options) -> what comes before x and after it


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """Return `array` with borders.

    Args:
        array: array of n axes.
        pad_width: lengths of the borders: one for all, a pair (before, after), n pairs, or a dictionary of
            lengths or pairs by axis.
        mode: "constant" (`constant_values`: one, a pair or n pairs, 0 by default), "linear_ramp"
            (`end_values`, likewise), "maximum", "mean", "median" and "minimum" (of `stat_length` elements at
            each edge, all by default), "edge", "reflect" and "symmetric" (`reflect_type`: "even", or "odd":
            mirrored in the edge's value too), "wrap", "empty" (a Tensor has zeros there), or a function
            (vector, widths, axis, kwargs) that writes the borders of a vector.
        **kwargs: the options of the mode, which may be Tensors; those of a function.

    Returns:
        Array of the shape of `array`, each axis longer by its borders; dtype of `array`.

    Raises:
        TypeError: lengths that are no integers.
        ValueError: negative lengths, an unknown mode or option, or nothing to take a border from.

    Derivative:
        Flows to `array` and to the values of borders.

    Example:
        >>> fnp.pad(np.array([1.0, 2.0]), 1)
        array([0., 1., 2., 0.])
        >>> fg.grad(lambda x: fnp.pad(x, 1, mode="edge").sum())(np.array([1.0, 2.0, 3.0]))
        array([2., 1., 2.])
    """
    x = next_to(array, *kwargs.values())
    if isinstance(pad_width, dict):
        pad_width = _by_axis(pad_width, len(x.shape))
    if not isinstance(x, Tensor) and not any(map(holds_tensor, kwargs.values())):
        return np.pad(x, pad_width, mode, **kwargs)
    widths = _widths(pad_width, len(x.shape))
    return _ordered(as_array(_padded(x, array, widths, mode, kwargs)), x)


def _ordered(y: Any, x: Any) -> Any:
    """Return a padded array in the order in memory that NumPy gives it: columns first if `x` is so alone."""
    y = unordered(y, x)
    value, example = y._value, memory_of(x) if isinstance(x, Tensor) else x
    if value.__class__ is np.ndarray and example is not None and (example is x or is_laid_out(x)):
        flags = example.flags
        if value.flags.f_contiguous and flags.f_contiguous and not flags.c_contiguous:
            value.setflags(write=False)
    return y


def _padded(x: Any, array: Any, widths: Widths, mode: Any, kwargs: dict[str, Any]) -> Any:
    if callable(mode):
        return _by_function(x, widths, mode, kwargs)
    if mode not in _MODES:
        raise ValueError(f"mode {mode!r} is not supported")
    borders, options = _MODES[mode]
    unknown = set(kwargs) - options
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode {mode!r}: {unknown}")
    if not x.size and mode not in {"constant", "empty"}:
        for axis, (n, width) in enumerate(zip(x.shape, widths, strict=True)):
            if n == 0 and any(width):
                raise ValueError(
                    f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'"
                )
        borders, kwargs = _constant, {}  # nothing has a border, for another axis is empty
    if borders is _constant and not holds_tensor(fill := kwargs.get("constant_values", 0)):
        return _framed(x, widths, fill)
    settings = {k: _pairs(v, len(x.shape)) if k != "reflect_type" else v for k, v in kwargs.items()}
    for axis, width in enumerate(widths):
        if any(width) or "stat_length" in settings:
            own = {k: v if k == "reflect_type" else v[axis] for k, v in settings.items()}
            before, after = borders(x, axis, width, **own)
            x = bind("concatenate", before, x, after, axis=axis)
    return alias(x) if x is array else asarray(x)


def _by_axis(pad_width: dict[int, Any], n: int) -> list[tuple[int, int]]:
    pairs = [(0, 0)] * n
    for axis, width in pad_width.items():
        before, after = (width, width) if isinstance(width, int | np.integer) else width
        pairs[axis] = (int(before), int(after))
    return pairs


def _widths(pad_width: Any, n: int) -> Widths:
    found = np.asarray(pad_width)
    if found.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    if (found < 0).any():
        raise ValueError("index can't contain negative values")
    return tuple((int(a), int(b)) for a, b in np.broadcast_to(found, (n, 2)))


def _pairs(x: Any, n: int) -> Any:
    """Return an option as (before, after) for each axis."""
    if x is None:
        return ((None, None),) * n
    return linear.broadcast_to(as_value(x), (n, 2))


def _along(x: Any, axis: int, start: int | None, stop: int | None) -> Any:
    return bind("slice", x, index=(*(slice(None),) * axis, slice(start, stop)))


def _spread(x: Any, axis: int, n: int) -> Any:
    """Return `x`, of length one along `axis`, repeated to length n."""
    return linear.broadcast_to(x, (*x.shape[:axis], n, *x.shape[axis + 1 :]))


def _constant(x: Any, axis: int, width: tuple[int, int], constant_values: Any = (0, 0)) -> tuple[Any, Any]:
    shape = tuple(x.shape)
    sides = [
        linear.broadcast_to(as_target(v, x, ()), (*shape[:axis], n, *shape[axis + 1 :]))
        for v, n in zip(constant_values, width, strict=True)
    ]
    return sides[0], sides[1]


def _framed(x: Any, widths: Widths, fill: Any) -> Any:
    """Return `x` with borders of constants, in one step."""
    shape = tuple(n + sum(width) for n, width in zip(x.shape, widths, strict=True))
    inside = tuple(slice(width[0], width[0] + n) for n, width in zip(x.shape, widths, strict=True))
    if not np.any(fill) or not widths:
        return bind("slice_backward", x, shape=shape, index=inside)
    if np.iscomplexobj(fill) and x.dtype.kind not in "cb":
        raise TypeError(f"cannot write a complex value into a border of {x.dtype}; take its real part first")
    frame = np.pad(np.broadcast_to(np.zeros((), x.dtype), x.shape), widths, constant_values=fill)
    if is_abstract(x) and not x._value.lies_in_order():
        frame = np.asfortranarray(frame)  # then nobody takes it to lie row by row
    return bind("update", placed(x, frame), x, index=inside)


def _linear_ramp(x: Any, axis: int, width: tuple[int, int], end_values: Any = (0, 0)) -> tuple[Any, Any]:
    lead = (slice(None),) * axis
    edges = [bind("slice", x, index=(*lead, i)) for i in (0, -1)]
    before, after = (
        linspace(end, edge, n, endpoint=False, dtype=x.dtype, axis=axis)
        for end, edge, n in zip(end_values, edges, width, strict=True)
    )
    return before, linear.reverse(after, axis)


def _edge(x: Any, axis: int, width: tuple[int, int]) -> tuple[Any, Any]:
    first, last = _along(x, axis, 0, 1), _along(x, axis, -1, None)
    return _spread(first, axis, width[0]), _spread(last, axis, width[1])


def _of_elements(statistic: Callable[[Any, int], Any], *, needs_some: bool = False) -> Border:
    """Return the borders that a statistic of the elements at each edge fills."""

    def borders(
        x: Any, axis: int, width: tuple[int, int], stat_length: Any = (None, None)
    ) -> tuple[Any, Any]:
        n = x.shape[axis]
        lengths = [n if k is None else min(operator.index(k), n) for k in stat_length]
        if min(lengths) < 0:
            raise ValueError("index can't contain negative values")
        if needs_some and min(lengths) == 0:
            raise ValueError("stat_length of 0 yields no value for padding")
        sides = []
        for part, k in zip(
            (_along(x, axis, 0, lengths[0]), _along(x, axis, n - lengths[1], n)), width, strict=True
        ):
            found = statistic(part, axis)
            if x.dtype.kind in "iu" and found.dtype.kind == "f":
                found = unary("rint", found)
            sides.append(_spread(linear.convert(found, x.dtype), axis, k))
        return sides[0], sides[1]

    return borders


def _mirrored(mode: str) -> Border:
    def borders(x: Any, axis: int, width: tuple[int, int], reflect_type: str = "even") -> tuple[Any, Any]:
        n = x.shape[axis]
        if mode == "reflect" and n == 1:
            return _edge(x, axis, width)
        if reflect_type == "odd":
            period = n - 1 if mode == "reflect" else n
            sides = (np.arange(-width[0], 0), np.arange(n, n + width[1]))
            before, after = (_turned(x, axis, places, period) for places in sides)
            return before, after
        return _picked(x, axis, width, mode)

    return borders


def _wrap(x: Any, axis: int, width: tuple[int, int]) -> tuple[Any, Any]:
    return _picked(x, axis, width, "wrap")


def _picked(x: Any, axis: int, width: tuple[int, int], mode: str) -> tuple[Any, Any]:
    """Return borders made of elements of `x`, which goes on for ever: around, or to and fro."""
    n = x.shape[axis]
    period = {"wrap": n, "reflect": 2 * n - 2, "symmetric": 2 * n}[mode]
    before, after = np.arange(-width[0], 0) % period, np.arange(n, n + width[1]) % period
    if mode != "wrap":
        back = 2 * n - 2 if mode == "reflect" else 2 * n - 1
        before, after = (np.minimum(places, back - places) for places in (before, after))
    return take(x, before, axis), take(x, after, axis)


def _turned(x: Any, axis: int, places: Any, period: int) -> Any:
    """Return the elements beyond the edges where `x` goes on by half turns around its edges.

    With q and r the quotient and remainder of a place by the period, two half turns shift by the difference
    of the last and the first element: x[r] + q (last - first) where q is even; one more turn makes it
    (q + 1) last - (q - 1) first - x[n - 1 - r] where q is odd.
    """
    shape = [-1 if i == axis else 1 for i in range(len(x.shape))]
    q, r = np.divmod(places, period)
    odd = q % 2 == 1
    kept = take(x, np.where(odd, x.shape[axis] - 1 - r, r), axis)
    signs, lasts, firsts = np.where(odd, (-np.ones_like(q), q + 1, 1 - q), (np.ones_like(q), q, -q))
    y = kept * placed(x, signs.astype(x.dtype).reshape(shape))
    for edge, factors in ((_along(x, axis, -1, None), lasts), (_along(x, axis, 0, 1), firsts)):
        if factors.any():
            y = y + edge * placed(x, factors.astype(x.dtype).reshape(shape))
    return linear.convert(y, x.dtype)


def _by_function(x: Any, widths: Widths, function: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
    """Return `x` with zeros around it, after a function has written the borders of its vectors, in place."""
    for axis, width in enumerate(widths):
        before, after = _constant(x, axis, width)
        x = bind("concatenate", before, x, after, axis=axis)
    x = x if isinstance(x, Tensor) else Tensor(x)
    for axis, width in enumerate(widths):
        last = moveaxis(x, axis, -1)
        if not last.size:
            continue
        vectors = unstack(linear.reshape(last, (last.size // last.shape[-1], last.shape[-1])))
        for v in vectors:
            function(v, width, axis, kwargs)
        rows = [linear.reshape(v, (1, v.size)) for v in vectors]
        x = moveaxis(linear.reshape(bind("concatenate", *rows, axis=0), last.shape), -1, axis)
    return x


_STATISTIC = {"stat_length"}
_MODES: dict[str, tuple[Border, set[str]]] = {
    "constant":    (_constant, {"constant_values"}),
    "empty":       (_constant, set()),
    "linear_ramp": (_linear_ramp, {"end_values"}),
    "edge":        (_edge, set()),
    "maximum":     (_of_elements(lambda x, axis: _max(x, axis, keepdims=True), needs_some=True), _STATISTIC),
    "mean":        (_of_elements(lambda x, axis: _mean(x, axis, keepdims=True)), _STATISTIC),
    "median":      (_of_elements(lambda x, axis: _median(x, axis, keepdims=True)), _STATISTIC),
    "minimum":     (_of_elements(lambda x, axis: _min(x, axis, keepdims=True), needs_some=True), _STATISTIC),
    "reflect":     (_mirrored("reflect"), {"reflect_type"}),
    "symmetric":   (_mirrored("symmetric"), {"reflect_type"}),
    "wrap":        (_wrap, set()),
}  # fmt: skip
