"""Values brought within limits: `round` and `clip`."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from fgrad.compat.numpy import NO_VALUE
from fgrad.core.dispatch import bind, unary
from fgrad.core.tensor import Tensor
from fgrad.numpy.arrays import (
    as_value,
    operands,
    promoted,
    recopied,
)
from fgrad.numpy.registry import (
    as_scalar,
    implements,
    stored,
)
from fgrad.ops import linear


@implements(np.clip)
def clip(
    a: Any,
    a_min: Any = NO_VALUE,
    a_max: Any = NO_VALUE,
    out: Any = None,
    *,
    min: Any = NO_VALUE,
    max: Any = NO_VALUE,
    dtype: Any = None,
) -> Any:
    """Return elements limited to [a_min, a_max]; at a limit, element and limit share the gradient equally.

    Returns:
        Array of the shape to which all broadcast, of the promoted dtype.

    Derivative:
        One within the limits, zero outside; at a limit one half for the element and one half for the limit.

    Example:
        >>> fg.grad(lambda x: fnp.clip(x, 0.0, 1.0).sum())(np.array([-1.0, 0.0, 0.5]))
        array([0. , 0.5, 1. ])
    """
    if (a_min is NO_VALUE) != (a_max is NO_VALUE):
        raise TypeError("clip needs both a_min and a_max (None: no limit); give one limit as min= or max=")
    if a_min is not NO_VALUE and not (min is NO_VALUE and max is NO_VALUE):
        raise ValueError("clip takes its limits either as a_min and a_max or as min and max")
    low, high = (min, max) if a_min is NO_VALUE else (a_min, a_max)
    low, high = (None if x is NO_VALUE else x for x in (low, high))
    y, low, high = operands(a, low, high)
    y = as_value(y)
    if low is not None and high is not None:  # all three are promoted at once
        y = linear.convert(
            y,
            promoted(y, *(x for x in (_limit(low, y.dtype, -1), _limit(high, y.dtype, 1)) if x is not None)),
        )
    if dtype is not None:
        y, low, high = (
            x if x is None else linear.convert(as_value(x), np.dtype(dtype)) for x in (y, low, high)
        )
    low, high = _limit(low, y.dtype, -1), _limit(high, y.dtype, 1)
    if low is None and high is None:
        y = bind("positive", y)
    if low is not None:
        y = bind("maximum", y, low)
    if high is not None:
        y = bind("minimum", y, high)
    return stored(y, out)


def _limit(x: Any, dtype: np.dtype[Any], sign: int) -> Any:
    """Return a limit; None where there is none, or where no integer of `dtype` is beyond it."""
    if x.__class__ is int and dtype.kind in "iu":
        last = np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min
        if (x - last) * sign >= 0:
            return None
    return x


@implements(np.round, np.around)
def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Return elements rounded to a number of decimals, ties to even; the slope is zero.

    Returns:
        Array of the shape and dtype of `a`.

    Derivative:
        Zero everywhere, jumps too.

    Example:
        >>> fnp.round(np.array([1.25, 2.5]), 1)
        array([1.2, 2.5])
    """
    a = as_value(a)
    if not isinstance(a, Tensor):
        return stored(np.round(a, decimals), out)
    decimals = operator.index(decimals)
    if a.dtype.kind == "b" and decimals != 0:
        raise TypeError(
            "truth values have no decimals: cannot cast float64 to bool with casting rule 'same_kind'"
        )
    scale = 10.0 ** abs(decimals)
    if a.dtype.kind in "iu":
        tens = (
            recopied(a, "K") if decimals >= 0 else linear.convert(unary("rint", a / scale) * scale, a.dtype)
        )
        return stored(as_scalar(tens), out)
    if decimals == 0:
        return stored(unary("rint", a), out)
    return stored(unary("rint", a * scale) / scale if decimals > 0 else unary("rint", a / scale) * scale, out)
