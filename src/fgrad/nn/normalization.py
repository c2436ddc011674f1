"""Normalization of layers, groups and batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.numpy.indexing import stop_gradient
from fgrad.numpy.moments import mean, var
from fgrad.numpy.reductions import axes_of, inexact
from fgrad.ops import functions
from fgrad.ops.linear import convert, reshape, transpose

_mean, _var = mean, var


def standardize(
    x: Any,
    axis: Any = -1,
    mean: Any = None,
    variance: Any = None,
    eps: float = 1e-5,
    where: Any = None,
) -> Any:
    """Return (x - mean) / sqrt(variance + eps), over axes.

    Args:
        x: real array; integers promote to float64.
        axis: axis or axes; None: all.
        mean: what to take instead of the mean of `x`, with axes of length one where it is reduced.
        variance: what to take instead of the variance of `x`, likewise.
        eps: added to the variance.
        where: elements that count for mean and variance.

    Returns:
        Array of the shape and float dtype of `x`.

    Example:
        >>> fg.nn.standardize(np.array([1.0, 3.0])).round(3)
        array([-1.,  1.])
    """
    x = inexact(x)
    axes = tuple(sorted(axes_of(axis, len(x.shape))))
    if mean is None and variance is None and where is None:
        return _normalized(x, axes, None, None, eps)
    mask = True if where is None else where
    center = _mean(x, axes, keepdims=True, where=mask) if mean is None else inexact(mean)
    if variance is None:
        variance = _var(x, axes, keepdims=True, where=mask, mean=center)
    return (x - center) / functions.sqrt(inexact(variance) + eps)


def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, *, axis: int | Sequence[int] = -1, eps: float = 1e-5
) -> Any:
    """Return `x` with mean 0 and variance 1 over axes, times `weight` plus `bias`.

    Args:
        x: real array; integers promote to float64.
        weight: array of the lengths of these axes, in their order in `x`; None: ones.
        bias: likewise; None: zeros.
        axis: the axes, usually those behind the batch.
        eps: added to the variance.

    Returns:
        Array of the shape of `x`.

    Raises:
        ValueError: `weight` or `bias` has another shape.

    Source:
        Ba, Kiros & Hinton (2016), Layer normalization.

    Example:
        >>> layer_norm(np.array([[1.0, 3.0], [4.0, 8.0]]), eps=0.0)
        array([[-1.,  1.],
               [-1.,  1.]])
    """
    x = inexact(x)
    return _normalized(x, tuple(sorted(axes_of(axis, len(x.shape)))), weight, bias, eps)


def _normalized(x: Any, axes: tuple[int, ...], weight: Any, bias: Any, eps: float) -> Any:
    shape = tuple(x.shape[i] for i in axes)
    made = [inexact(p) if p is not None else None for p in (weight, bias)]
    dtype = np.result_type(x.dtype, *(p.dtype for p in made if p is not None))
    params = []
    for name, p, default in zip(("weight", "bias"), made, (1, 0), strict=True):
        if p is None:
            params.append(near(x).full(shape, default, dtype))
            continue
        if tuple(p.shape) != shape:
            raise ValueError(f"layer_norm: {name} has shape {tuple(p.shape)}, the axes have lengths {shape}")
        params.append(convert(p, dtype))
    n = len(x.shape)
    order = (*(i for i in range(n) if i not in axes), *axes)
    moved = order != tuple(range(n))
    x = convert(transpose(x, order) if moved else x, dtype)
    y = bind("layer_norm", x, *params, rank=len(axes), eps=float(eps))
    return transpose(y, tuple(order.index(i) for i in range(n))) if moved else y


def rms_norm(x: Any, weight: Any = None, *, axis: int | Sequence[int] = -1, eps: float = 1e-6) -> Any:
    """Return `x` over the root of its mean square along axes, times `weight`.

    Args:
        x: real array; integers promote to float64.
        weight: array that broadcasts with `x`; None: ones.
        axis: axis or axes of the mean.
        eps: added to the mean square.

    Returns:
        Array of the shape of `x`.

    Source:
        Zhang & Sennrich (2019), Root mean square layer normalization.

    Example:
        >>> fg.nn.rms_norm(np.array([3.0, 4.0])).round(3)
        array([0.849, 1.131])
    """
    x = inexact(x)
    y = x / functions.sqrt(_mean(functions.square(x), axis, keepdims=True) + eps)
    return y if weight is None else y * inexact(weight)


def group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None, *, eps: float = 1e-5) -> Any:
    """Return `x` with mean 0 and variance 1 in each group of channels of each example.

    Args:
        x: real array (N, C, *space).
        groups: how many groups; it divides C.
        weight: array of C factors; None: ones.
        bias: array of C summands; None: zeros.
        eps: added to the variance.

    Returns:
        Array of the shape of `x`.

    Raises:
        ValueError: `groups` does not divide C.

    Source:
        Wu & He (2018), Group normalization.

    Example:
        >>> fg.nn.group_norm(np.arange(8.0).reshape(1, 4, 2), 2).shape
        (1, 4, 2)
    """
    x = inexact(x)
    shape = tuple(x.shape)
    if len(shape) < 2 or groups < 1 or shape[1] % groups:
        raise ValueError(
            f"group_norm: {groups} groups do not divide the channels of an array of shape {shape}"
        )
    parts = reshape(x, (shape[0], groups, math.prod(shape[1:]) // groups))
    y = reshape(_normalized(parts, (2,), None, None, eps), shape)
    return _scaled(y, weight, bias, 1)


def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    *,
    train: bool,
    momentum: float = 0.1,
    eps: float = 1e-5,
    axis: int = 1,
) -> tuple[Any, tuple[Any, Any]]:
    """Return `x` with mean 0 and variance 1 in each channel, and the new running statistics.

    Args:
        x: real array, usually (N, C, *space).
        running_mean: array of C numbers.
        running_var: array of C numbers.
        weight: array of C factors; None: ones.
        bias: array of C summands; None: zeros.
        train: whether to normalize by the statistics of `x` and to update the running ones, or to normalize
            by the running ones, which stay.
        momentum: the share of the new statistics in the running ones.
        eps: added to the variance.
        axis: that of the channels.

    Returns:
        y, (new running mean, new running variance); the latter without Bessel's bias, and without gradient.

    Raises:
        ValueError: training with less than two numbers a channel, which have no variance.

    Source:
        Ioffe & Szegedy (2015), Batch normalization.

    Example:
        >>> x = np.array([[1.0], [3.0]])
        >>> fg.nn.batch_norm(x, np.zeros(1), np.ones(1), train=True)[0].round(3)
        array([[-1.],
               [ 1.]])
    """
    x = inexact(x)
    (place,) = axes_of(axis, len(x.shape))
    axes = tuple(i for i in range(len(x.shape)) if i != place)
    kept = tuple(n if i == place else 1 for i, n in enumerate(x.shape))
    old = inexact(running_mean), inexact(running_var)
    if not train:
        center, variance = (reshape(s, kept) for s in old)
        y = (x - center) / functions.sqrt(variance + eps)
        return _scaled(y, weight, bias, place), old
    n = math.prod(x.shape[i] for i in axes)
    if n < 2:
        raise ValueError(
            f"batch_norm: an array of shape {tuple(x.shape)} has {n} number(s) a channel, which have no "
            "variance; use a larger batch, or train=False"
        )
    center = _mean(x, axes, keepdims=True)
    gap = x - center
    variance = _mean(functions.square(gap), axes, keepdims=True)
    y = gap / functions.sqrt(variance + eps)
    seen = center, variance * (n / (n - 1))
    new = tuple(
        (1 - momentum) * o + momentum * reshape(stop_gradient(s), (x.shape[place],))
        for o, s in zip(old, seen, strict=True)
    )
    return _scaled(y, weight, bias, place), (new[0], new[1])


def _scaled(y: Any, weight: Any, bias: Any, place: int) -> Any:
    """Return `y * weight + bias` with one of each for every index of an axis."""
    shape = tuple(n if i == place else 1 for i, n in enumerate(y.shape))
    if weight is not None:
        y = y * reshape(inexact(weight), shape)
    return y if bias is None else y + reshape(inexact(bias), shape)
