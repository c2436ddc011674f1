"""Tensor-product interpolation on grids: sums of neighbours, weighted by one factor for each axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.core.dispatch import bind
from fgrad.extend.engine import HOLE, contract, convert, reshape

_LETTERS = "abcdefghijklmnopqrstuvwxyABCDEFGHIJKLMNOPQRSTUVWXY"


def across(parts: Sequence[Any], k: int) -> Any:
    """Return the k-th of arrays (width, points) with its axes among those of all."""
    width, count = parts[k].shape
    return reshape(parts[k], (*(width if i == k else 1 for i in range(len(parts))), count))


def gathered(values: Any, places: Sequence[Any]) -> Any:
    """Return the elements of `values` at indices (width, points), one array for each of the first axes.

    Returns:
        (width, ..., width, points, ...), with the axes of `values` that have no indices last.
    """
    holes = [across(places, k) for k in range(len(places))]
    return bind("gather", values, *holes, template=(HOLE,) * len(places))


def weighted(values: Any, weights: Sequence[Any]) -> Any:
    """Return the weighted sums over neighbours of what `gathered` gave; weights are (width, points)."""
    rank = len(weights)
    rest = _LETTERS[rank : len(values.shape) - 1]
    for k, w in enumerate(weights):
        behind = _LETTERS[k + 1 : rank] + "z" + rest
        values = contract(
            values,
            convert(w, np.empty(0, values.dtype).real.dtype),
            _LETTERS[k] + behind,
            _LETTERS[k] + "z",
            behind,
        )
    return values
