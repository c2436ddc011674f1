"""Names of `jax.lax` that mean other things than NumPy's: axes, orders, halves, quotients of integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np

import fgrad.nn
from fgrad import numpy as fnp
from fgrad.compat.jax.arrays import Array, as_array, elementwise, made, moved, opened
from fgrad.compat.jax.numpy import NAMES as NUMPY
from fgrad.compat.jax.types import default
from fgrad.compat.standins import by_name, words


class RoundingMethod(Enum):
    """Where halves are rounded to."""

    AWAY_FROM_ZERO, TO_NEAREST_EVEN = range(2)


def round_(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Return elements rounded to integers, halves away from zero unless the method says to even."""

    def away(t: Any) -> Any:
        whole = fnp.trunc(t)
        return fnp.where(fnp.abs(t - whole) == 0.5, whole + fnp.sign(t), fnp.rint(t))

    return elementwise(away if rounding_method is RoundingMethod.AWAY_FROM_ZERO else fnp.rint, x)


def div(x: Any, y: Any) -> Array:
    """Return quotients; those of integers are integers, rounded to zero."""

    def quotient(a: Any, b: Any) -> Any:
        if a.dtype.kind not in "iu":
            return fnp.true_divide(a, b)
        down = fnp.floor_divide(a, b)
        return fnp.where((down < 0) & (down * b != a), down + 1, down)

    return elementwise(quotient, x, y)


def _moving(function: Callable[..., Any]) -> Callable[..., Array]:
    return lambda operand, *args, **kwargs: moved(function, operand, *args, **kwargs)


def _reshape(t: Any, new_sizes: Any, dimensions: Any = None) -> Any:
    return fnp.reshape(t if dimensions is None else fnp.transpose(t, dimensions), tuple(new_sizes))


def _slice(t: Any, starts: Any, limits: Any, strides: Any = None) -> Any:
    return t[tuple(map(slice, starts, limits, strides or [None] * len(starts)))]


def _slice_in_dim(t: Any, start: Any, limit: Any, stride: int = 1, axis: int = 0) -> Any:
    return fnp.moveaxis(fnp.moveaxis(t, axis, 0)[start:limit:stride], 0, axis)


def _index_in_dim(t: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    found = fnp.moveaxis(t, axis, 0)[index]
    return fnp.expand_dims(found, axis) if keepdims else found


def _broadcast_in_dim(
    t: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int], *, out_sharding: Any = None
) -> Any:
    lengths = [1] * len(shape)
    for k, axis in enumerate(broadcast_dimensions):
        lengths[axis] = t.shape[k]
    return fnp.broadcast_to(fnp.reshape(t, lengths), tuple(shape))


def _cumulated(step: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    def function(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
        x = as_array(operand)
        return made(fgrad.lax.associative_scan(step, opened(x), reverse, axis), x.strong)

    return function


def _reduced(name: str) -> Callable[..., Array]:
    return lambda operand, axes, *, out_sharding=None: NUMPY[name](operand, tuple(axes)).astype(
        as_array(operand).dtype
    )


def _placed(name: str) -> Callable[..., Array]:
    return lambda operand, axis, index_dtype: NUMPY[name](operand, axis).astype(index_dtype)


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Return an array in order along an axis, or several in the order of the first ones."""
    arrays = [as_array(x) for x in (operand if isinstance(operand, tuple | list) else (operand,))]
    order: Any = None
    for key in reversed(arrays[:num_keys]):
        t = opened(key) if order is None else fnp.take_along_axis(opened(key), order, dimension)
        step = fnp.argsort(t, dimension, stable=True)
        order = step if order is None else fnp.take_along_axis(order, step, dimension)
    out = [made(fnp.take_along_axis(x._tensor, order, dimension), x.strong) for x in arrays]
    return tuple(out) if isinstance(operand, tuple | list) else out[0]


def select_n(which: Any, *cases: Any) -> Array:
    """Return elements of the case that a truth value or an integer names."""
    number, chosen = as_array(which).astype(default(int)), cases[-1]
    for k in reversed(range(len(cases) - 1)):
        chosen = NUMPY["where"](made(number._tensor == k), cases[k], chosen)
    return as_array(chosen)


NAMES: dict[str, Any] = {
    "argmax": _placed("argmax"),
    "argmin": _placed("argmin"),
    "batch_matmul": lambda lhs, rhs, precision=None: NUMPY["matmul"](lhs, rhs),
    "broadcast": _moving(lambda t, sizes: fnp.broadcast_to(t, (*sizes, *t.shape))),
    "broadcast_in_dim": _moving(_broadcast_in_dim),
    "broadcasted_iota": lambda dtype, shape, dimension: made(
        _broadcast_in_dim(np.arange(shape[dimension]), shape, (dimension,))
    ).astype(dtype),
    "complex": lambda x, y: elementwise(lambda a, b: a + 1j * b, x, y),
    "cumlogsumexp": _cumulated(fnp.logaddexp),
    "cummax": _cumulated(fnp.maximum),
    "cummin": _cumulated(fnp.minimum),
    "cumprod": _cumulated(fnp.multiply),
    "cumsum": _cumulated(fnp.add),
    "index_in_dim": _moving(_index_in_dim),
    "logistic": lambda x: elementwise(fgrad.nn.sigmoid, x),
    "pad": lambda operand, padding_value, padding_config: moved(
        fgrad.lax.pad, operand, padding_value, padding_config
    ),
    "population_count": lambda x: NUMPY["bitwise_count"](as_array(x)).astype(as_array(x).dtype),
    "reshape": _moving(_reshape),
    "rev": _moving(lambda t, dimensions: fnp.flip(t, tuple(dimensions))),
    "round": round_,
    "slice": _moving(_slice),
    "slice_in_dim": _moving(_slice_in_dim),
    "transpose": _moving(lambda t, permutation: fnp.transpose(t, tuple(permutation))),
    **{
        f"reduce_{new}": _reduced(old)
        for new, old in zip(words("sum max min prod and or"), words("sum max min prod all any"), strict=True)
    },
    **by_name(RoundingMethod, div, select_n, sort),
}
