"""The vector product of vectors with three components: bilinear, its adjoints are vector products.

Both operands have the same shape; one axis holds the components.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.aval import Aval
from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.core.primitive import MULTILINEAR, TOTAL, by_argument, declare
from fgrad.core.stored import NUMBERS, Stored, is_axis
from fgrad.ops.linear import in_full, roll


def cross(x: Any, y: Any, axis: int) -> Any:
    """Return the vector product of arrays of the same shape, whose components lie along `axis`."""
    return bind("cross", x, y, axis=axis)


_SMALL = 4096  # elements, which are gathered in the time that it takes to cut their parts
_NEXT = np.array([1, 2, 0])


def _run(x: Any, y: Any, *, axis: int) -> Any:
    """Return it in memory as NumPy does: the components of a vector side by side."""
    rank = len(x.shape)
    if axis == rank - 1 and x.__class__ is y.__class__ is np.ndarray and x.size < _SMALL:
        return (x * y.take(_NEXT, axis) - x.take(_NEXT, axis) * y).take(_NEXT, axis)
    before = (slice(None),) * axis
    others = (*x.shape[:axis], *x.shape[axis + 1 :], 3)
    out = near(x).empty(others, np.result_type(x.dtype, y.dtype))
    out = out.transpose((*range(axis), rank - 1, *range(axis, rank - 1)))
    (a, b, c), (d, e, f) = ([v[(*before, slice(i, i + 1))] for i in range(3)] for v in (x, y))
    for i, part in enumerate((b * f - c * e, c * d - a * f, a * e - b * d)):
        out[(*before, slice(i, i + 1))] = part
    return out


def _inline(x: Any, y: Any, *, axis: int) -> list[Any]:
    turned = x * roll(y, (2,), (axis,)) - roll(x, (2,), (axis,)) * y
    return [roll(turned, (2,), (axis,))]


declare(
    "cross",
    run=_run,
    vjp=by_argument(
        lambda ct, y, *, axis: cross(y, ct, axis),
        lambda ct, x, *, axis: cross(ct, x, axis),
        transpose=MULTILINEAR,
    ),
    shape=lambda x, y, *, axis: Aval(x.shape, np.result_type(x.dtype, y.dtype)),
    batch=lambda mapped, x, y, *, axis: bind("cross", *in_full(mapped, (x, y)), axis=axis + 1),
    inline=_inline,  # whose parts are compiled with what surrounds them
    traits={TOTAL},
    stored=Stored(
        {"axis": is_axis},
        dtypes=NUMBERS,
        verify=lambda x, y, *, axis: x.shape == y.shape and x.shape[axis] == 3,
    ),
)
