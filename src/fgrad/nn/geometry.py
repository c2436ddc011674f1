"""Strides and padding as users write them, as numbers for each spatial axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.ops.windows import Geometry, Pads, Steps, spread


def per_axis(value: Any, rank: int, name: str, least: int = 1) -> Steps:
    """Return an integer for each axis: one for all, or a sequence.

    Raises:
        ValueError: a sequence of another length, or a number below `least`.
        TypeError: something that is no integer.
    """
    values = tuple(value) if isinstance(value, Sequence) else (value,) * rank
    if len(values) != rank:
        raise ValueError(f"{name} has {len(values)} entries, but there are {rank} spatial axes")
    if not all(isinstance(v, int | np.integer) for v in values):
        raise TypeError(f"{name} takes integers, not {value!r}")
    if min(values, default=least) < least:
        raise ValueError(f"{name} must be at least {least}, not {value!r}")
    return tuple(map(int, values))


def pads(padding: Any, space: Steps, window: Steps, stride: Steps, dilation: Steps) -> Pads:
    """Return how much to pad before and behind every axis.

    Args:
        padding: "VALID": nothing; "SAME": as much as makes ceil(n / stride) windows fit, evenly, the odd one
            behind; an integer for all sides; or for each axis an integer or a pair.
        space: the lengths of the axes.
        window: the lengths of the window.
        stride: the distance of windows.
        dilation: the distance of the elements of a window.

    Raises:
        ValueError: another word, another number of entries, or less than zero.
    """
    rank = len(space)
    if isinstance(padding, str):
        if padding.upper() == "VALID":
            return ((0, 0),) * rank
        if padding.upper() == "SAME":
            return tuple(
                (total // 2, total - total // 2)
                for n, k, s, d in zip(space, window, stride, dilation, strict=True)
                for total in [max(0, (-(-n // s) - 1) * s + spread(k, d) - n)]
            )
        raise ValueError(f"padding is 'SAME', 'VALID', an integer or one entry per axis, not {padding!r}")
    entries = tuple(padding) if isinstance(padding, Sequence) else (padding,) * rank
    if len(entries) != rank:
        raise ValueError(f"padding has {len(entries)} entries, but there are {rank} spatial axes")
    found = tuple(per_axis(e, 2, "padding", 0) for e in entries)
    return tuple((low, high) for low, high in found)


def check_windows(name: str, space: Sequence[int], window: Sequence[int], geometry: Geometry) -> None:
    """Refuse windows of which none fits."""
    count = geometry.places(space, window)
    if any(n and not c for n, c in zip(space, count, strict=True)) or 0 in window:
        raise ValueError(
            f"{name}: a window of {tuple(window)} does not fit into {tuple(space)} with this padding"
        )
