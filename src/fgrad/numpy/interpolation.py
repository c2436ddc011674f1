"""Interpolation between given points."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.dispatch import bind, unary
from fgrad.numpy.arrays import as_value, known, operands, promoted, seen
from fgrad.numpy.joining import concatenate
from fgrad.numpy.ordering import argsort, searchsorted
from fgrad.numpy.registry import as_scalar, extends
from fgrad.ops import linear
from fgrad.ops.indices import HOLE


@extends(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Return the values at `x` of the function that is linear between the points (xp, fp).

    Args:
        x: array of points.
        xp: increasing vector of nodes (in any order if there is a period).
        fp: values at the nodes, real or complex.
        left: the value for x < xp[0]; None: fp[0].
        right: the value for x > xp[-1]; None: fp[-1].
        period: the period of the function, with which `left` and `right` mean nothing.

    Returns:
        Array of double precision, of the shape of `x`.

    Raises:
        ValueError: `xp` and `fp` are no vectors of one length above zero; the period is zero.

    Derivative:
        In `x` the slope of the segment to the right of a node, at the last node of the one to its left, and
        zero outside of the nodes; in `xp`, `fp`, `left` and `right` that of the formula for this segment.

    Example:
        >>> fnp.interp(1.5, [1.0, 2.0], [10.0, 20.0])
        np.float64(15.0)
        >>> fg.grad(lambda x: fnp.interp(x, [1.0, 2.0], [10.0, 20.0]))(1.5)
        np.float64(10.0)
    """
    x, xp, fp, left, right, period = operands(x, xp, fp, left, right, period)
    x, xp, fp = map(as_value, (x, xp, fp))
    kind = np.dtype(complex if fp.dtype.kind == "c" else float)
    for v in (x, xp):
        if v.dtype.kind == "c":
            raise TypeError(f"Cannot cast array data from {v.dtype} to float64 according to the rule 'safe'")
    for v in (left, right):
        if v is not None and (np.ndim(v) or (promoted(v).kind == "c" and kind.kind != "c")):
            raise TypeError(
                "values outside the nodes must be numbers, and complex only if those at the nodes are, not "
                f"{v!r}"
            )
    x, xp, fp = (linear.convert(v, d) for v, d in ((x, np.dtype(float)), (xp, np.dtype(float)), (fp, kind)))
    if len(xp.shape) != 1 or len(fp.shape) != 1:
        raise ValueError("Data points must be 1-D sequences")
    if xp.shape != fp.shape:
        raise ValueError("fp and xp are not of the same length.")
    if not xp.size:
        raise ValueError("array of sample points is empty")
    if period is not None:
        if seen(period, lambda v: v == 0):
            raise ValueError("period must be a non-zero value")
        period = unary("absolute", as_value(period))
        x, xp, fp = _periodic(x, xp, fp, period)
        left = right = None
    y = _piecewise(x, xp, fp)
    first, last = (bind("slice", xp, index=(i,)) for i in (0, -1))
    left = bind("slice", fp, index=(0,)) if left is None else left
    right = bind("slice", fp, index=(-1,)) if right is None else right
    y = bind("where", bind("less", x, first), left, y)
    return as_scalar(bind("where", bind("greater", x, last), right, y))


def _periodic(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """Return places in one period, and its nodes with one more on either side."""
    x, xp = x % period, xp % period
    order = argsort(xp, kind="stable")
    xp, fp = (bind("gather", v, order, template=(HOLE,), unique=True) for v in (xp, fp))
    ends = slice(-1, None), slice(0, 1)
    (xa, fa), (xb, fb) = ([bind("slice", v, index=(s,)) for v in (xp, fp)] for s in ends)
    return x, concatenate([xa - period, xp, xb + period]), concatenate([fa, fp, fb])


def _piecewise(x: Any, xp: Any, fp: Any) -> Any:
    """Return the values of the linear pieces, where `x` is not outside of all."""
    node = searchsorted(xp, x, "right") - 1
    top = xp.shape[0] - 1
    node = bind("minimum", bind("maximum", node, 0), top)
    low = bind("minimum", node, max(top - 1, 0))  # where the segment begins, whose value at `node` is known
    high = bind("minimum", low + 1, top)
    xa, fa, xb, fb, x0, f0 = (
        bind("gather", v, i, template=(HOLE,)) for i in (low, high, node) for v in (xp, fp)
    )
    width = xb - xa
    flat = bind("equal", width, 0)
    with np.errstate(invalid="ignore", over="ignore"):
        slope = bind("where", flat, 0, (fb - fa) / bind("where", flat, 1, width))
        y = f0 + bind("multiply_no_nan", slope, x - x0)
        value = known(y)
        if value is not None and not np.isnan(value).any():
            return y
        # the other end where an infinite value spoils this one, as NumPy does
        other = fb + bind("multiply_no_nan", slope, x - xb)
        level = bind("where", bind("equal", fa, fb), fa, other)
        return bind("where", unary("isnan", y), bind("where", unary("isnan", other), level, other), y)
