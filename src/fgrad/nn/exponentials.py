"""Softmax and what belongs to it: its logarithm, logsumexp, one-hot labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad.core.aval import with_ones
from fgrad.core.dispatch import bind, unary
from fgrad.core.placement import near
from fgrad.numpy import reductions
from fgrad.numpy.arrays import as_value
from fgrad.numpy.indexing import stop_gradient
from fgrad.numpy.reductions import axes_of, inexact
from fgrad.numpy.shapes import expand_dims, moveaxis
from fgrad.ops import functions
from fgrad.ops.linear import broadcast_to, convert, reshape, sum_axes


def softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """Return exp(x) over its sum along `axis`, without overflow.

    Args:
        x: real array; integers promote to float64.
        axis: axis or axes along which the results sum to one; None: all.
        where: elements to include; the others count as -inf, and their results are zero.

    Returns:
        Array of the shape and float dtype of `x`; NaN where all that is included is -inf.

    Raises:
        AxisError: `axis` is not an axis of `x`.

    Derivative:
        diag(y) - y y^T for y = softmax(x).

    Source:
        Blanchard, Higham & Higham (2021), IMA J. Numer. Anal.

    Example:
        >>> softmax(np.array([0.0, 0.0]))
        array([0.5, 0.5])
    """
    x = _included(x, where)
    y = bind("softmax", x, axes=_axes(axis, x))
    return y if where is None else functions.where(where, y, 0)


def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """Return the logarithm of softmax(x), without overflow and without log(0).

    Args:
        x: real array; integers promote to float64.
        axis: axis or axes along which the exponentials sum to one; None: all.
        where: elements to include; the results of the others are -inf.

    Returns:
        Array of the shape and float dtype of `x`; NaN where all that is included is -inf.

    Raises:
        AxisError: `axis` is not an axis of `x`.

    Derivative:
        1 - softmax(x) summed along `axis`: ct - softmax(x) sum(ct).

    Source:
        Blanchard, Higham & Higham (2021), IMA J. Numer. Anal.

    Example:
        >>> fg.nn.log_softmax(np.array([1.0, 1.0])).round(4)
        array([-0.6931, -0.6931])
    """
    x = _included(x, where)
    y = bind("log_softmax", x, axes=_axes(axis, x))
    return y if where is None else functions.where(where, y, -np.inf)


def logsumexp(
    a: Any,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any:
    """Return the logarithm of the summed exponentials over axes, without overflow.

    out = log sum_i b_i exp(a_i)

    Args:
        a: array; integers promote to float64.
        axis: axis or axes to reduce; None reduces all.
        b: weights that broadcast with `a`; None: ones.
        keepdims: whether the reduced axes stay with length one.
        return_sign: whether to return the sign of the sum too, and the logarithm of its absolute value;
            without it the result is NaN where a real sum is negative, and the principal value where one is
            complex.
        where: elements to include.

    Returns:
        Array of the dtype of `a`; or a pair of real numbers and the signs, which are numbers of modulus one
        where the sum is complex.

    Raises:
        AxisError: `axis` is not an axis of `a`.

    Derivative:
        b exp(a) / sum(b exp(a)) in `a`, exp(a) / sum(b exp(a)) in `b`; zero by convention where every element
        is -inf. None of the signs of real sums.

    Source:
        Blanchard, Higham & Higham (2021), IMA J. Numer. Anal.

    Example:
        >>> float(logsumexp([0.0, 0.0]))
        0.6931471805599453
    """
    x = _included(a, where)
    weights = np.ones((), x.real.dtype) if b is None else inexact(b)
    if b is None and not return_sign and x.dtype.kind != "c":
        return reductions.logsumexp(x, axis, keepdims)
    total, top = _scaled_sum(x, weights, axis)
    shape = top.shape if keepdims else total.shape
    with np.errstate(divide="ignore", invalid="ignore"):
        size = unary("absolute", total) if return_sign else total
        y = reshape(unary("log", size) + reshape(top, total.shape), shape)
        if not return_sign:
            return y
        is_complex = total.dtype.kind == "c"
        sign = total / functions.where(size == 0, 1, size) if is_complex else unary("sign", total)
        return y, reshape(sign, shape)


def _scaled_sum(a: Any, weights: Any, axis: Any) -> tuple[Any, Any]:
    """Return the sum of `weights` exp(`a` - top), and top, whose reduced axes stay with length one."""
    shape = np.broadcast_shapes(a.shape, weights.shape)
    a, weights = (broadcast_to(v, shape) for v in (a, weights))
    axes = _axes(axis, a)
    counted = functions.where(functions.equal(weights, 0), -np.inf, a.real)
    top = reshape(bind("logsumexp", stop_gradient(counted), axes=axes), with_ones(a.shape, axes))
    top = functions.where(functions.isfinite(top), top, 0)
    a = functions.where(functions.equal(a.real, -np.inf), -np.inf, a)  # slope zero, where all are -inf too
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return sum_axes(functions.multiply_no_nan(weights, functions.exp(a - top)), axes), top


def one_hot(x: Any, num_classes: int, *, dtype: Any = float, axis: int = -1) -> Any:
    """Return ones at the positions given by integers, and zeros elsewhere.

    Args:
        x: integer array; a number outside of range(num_classes) gives zeros alone.
        num_classes: the length of the new axis.
        dtype: of the result.
        axis: the position of the new axis in the result.

    Returns:
        Array of the shape of `x` with one axis more.

    Raises:
        TypeError: `x` does not hold integers.

    Example:
        >>> one_hot([1, 0], 3)
        array([[0., 1., 0.],
               [1., 0., 0.]])
    """
    x = as_value(x)
    if x.dtype.kind not in "iub":
        raise TypeError(f"one_hot takes integers, not {x.dtype}; convert them with astype(int)")
    ones = convert(functions.equal(expand_dims(x, -1), near(x).arange(num_classes)), np.dtype(dtype))
    return moveaxis(ones, -1, normalize_axis_index(axis, len(ones.shape)))


def _axes(axis: Any, x: Any) -> tuple[int, ...]:
    return tuple(sorted(axes_of(axis, len(x.shape))))


def _included(x: Any, where: Any) -> Any:
    x = inexact(x)
    return x if where is None else functions.where(where, x, -np.inf)
