"""Windows that slide over an array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from fgrad.names import offered as _offered
from fgrad.numpy.arrays import as_value
from fgrad.numpy.registry import extends
from fgrad.numpy.views import transposed, windows

__all__ = ["sliding_window_view"]


@extends(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    """Return every window of a shape: their positions first, their elements in the last axes.

    Args:
        x: array or Tensor.
        window_shape: length, or lengths, of a window.
        axis: the axis or axes along which it slides, which may repeat; None: all of them.
        subok: ignored for Tensors.
        writeable: False; one element would be written through several windows.

    Raises:
        ValueError: lengths that are negative, too large, or are not as many as the axes.
    """
    if writeable:
        raise ValueError(
            "windows of a Tensor cannot be written to: elements stand in several of them; write to the Tensor"
        )
    x = as_value(x)
    lengths = tuple(window_shape) if np.iterable(window_shape) else (window_shape,)
    if any(n < 0 for n in lengths):
        raise ValueError("`window_shape` cannot contain negative values")
    axes = (
        tuple(range(len(x.shape))) if axis is None else normalize_axis_tuple(axis, len(x.shape), None, True)
    )
    if len(lengths) != len(axes):
        raise ValueError(
            f"window_shape and axis must have the same length, but there are {len(lengths)} lengths "
            f"and {len(axes)} axes"
        )
    for i, n in zip(axes, lengths, strict=True):
        count = x.shape[i] - n + 1
        if count < 1:
            raise ValueError("window shape cannot be larger than input array shape")
        places = np.arange(count)[:, None] + np.arange(n)
        x = windows(x, places, i)
        last = len(x.shape) - 1  # the window's axis, now behind that of its place
        x = transposed(x, (*range(i + 1), *range(i + 2, last + 1), i + 1))
    return x


def __dir__() -> list[str]:
    return _offered(globals())
