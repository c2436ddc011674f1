"""Pooling over windows of the spatial axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.nn.geometry import check_windows, pads, per_axis
from fgrad.numpy.reductions import inexact
from fgrad.ops.windows import Geometry, Pads, Steps


def max_pool(x: Any, window: Any, *, stride: Any = None, padding: Any = "VALID") -> Any:
    """Return the maximum of every window.

    Args:
        x: real array (N, C, *space).
        window: the size of windows: an integer, or one for each axis of space; as many integers as there are
            axes to pool, which are the last ones.
        stride: the distance of windows; None: their size.
        padding: as for `conv`; the border never wins.

    Returns:
        Array (N, C, *space).

    Raises:
        ValueError: a window larger than the padded input, or one that lies in the border alone.

    Derivative:
        Elements that tie for the maximum of a window share its gradient equally.

    Example:
        >>> max_pool(np.array([[[1.0, 3.0, 2.0, 0.0]]]), 2)
        array([[[3., 2.]]])
    """
    x = inexact(x)
    size, steps, sides = _geometry("max_pool", x, window, stride, padding)
    if any(max(p) >= k for p, k in zip(sides, size, strict=True)):
        raise ValueError(f"max_pool: padding {padding!r} is not smaller than the window {size}")
    return bind("max_pool", x, window=size, stride=steps, padding=sides)


def avg_pool(
    x: Any, window: Any, *, stride: Any = None, padding: Any = "VALID", count_include_pad: bool = True
) -> Any:
    """Return the mean of every window.

    Args:
        x: real array (N, C, *space).
        window: the size of windows: an integer, or one for each axis of space; as many integers as there are
            axes to pool, which are the last ones.
        stride: the distance of windows; None: their size.
        padding: as for `conv`.
        count_include_pad: whether the zeros of the border count as elements.

    Returns:
        Array (N, C, *space).

    Raises:
        ValueError: a window larger than the padded input.

    Example:
        >>> fg.nn.avg_pool(np.arange(4.0).reshape(1, 1, 4), 2)
        array([[[0.5, 2.5]]])
    """
    x = inexact(x)
    size, steps, sides = _geometry("avg_pool", x, window, stride, padding)
    options = {"window": size, "stride": steps, "padding": sides}
    total = bind("window_sum", x, **options)
    if count_include_pad or not any(map(any, sides)):
        return total / float(np.prod(size))
    counts = bind("window_sum", near(x).ones(x.shape[len(x.shape) - len(size) :], x.dtype), **options)
    return total / counts


def _geometry(name: str, x: Any, window: Any, stride: Any, padding: Any) -> tuple[Steps, Steps, Pads]:
    rank = len(window) if isinstance(window, tuple | list) else len(x.shape) - 2
    if not 1 <= rank <= len(x.shape):
        raise ValueError(f"{name}: an array of shape {tuple(x.shape)} has no {rank} spatial axes")
    space = tuple(x.shape[len(x.shape) - rank :])
    size = per_axis(window, rank, "window")
    steps = size if stride is None else per_axis(stride, rank, "stride")
    ones = (1,) * rank
    sides = pads(padding, space, size, steps, ones)
    check_windows(name, space, size, Geometry(steps, sides, ones, ones))
    return size, steps, sides
