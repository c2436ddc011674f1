"""Random noise that regularizes, from a generator that the caller gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.placement import near
from fgrad.core.tensor import bind
from fgrad.numpy.reductions import inexact


def dropout(x: Any, rate: float, rng: np.random.Generator | None = None, *, train: bool = True) -> Any:
    """Return `x` with each element zero with probability `rate`, and the others over 1 - rate.

    Args:
        x: real or complex array; integers promote to float64.
        rate: probability from 0 to 1; at 1 everything is zero.
        rng: where the random numbers come from, as many as `x` has elements; not needed where nothing is
            random. Inside `vmap` all examples share them; a staged program keeps those of its staging.
        train: whether to drop at all.

    Returns:
        Array of the shape and float dtype of `x`.

    Raises:
        ValueError: `rate` is no probability.
        TypeError: random numbers are needed and `rng` is no `numpy.random.Generator`.

    Source:
        Srivastava, Hinton, Krizhevsky, Sutskever & Salakhutdinov (2014), Dropout.
    """
    x = inexact(x)
    if not 0 <= rate <= 1:
        raise ValueError(f"dropout: rate is a probability from 0 to 1, not {rate}")
    if not train or rate == 0:
        return x
    if rate == 1:
        return bind("where", False, x, 0)
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"dropout takes its random numbers from a numpy.random.Generator, not {type(rng).__name__}; "
            "give rng=numpy.random.default_rng(seed), or train=False"
        )
    kept = rng.random(x.shape, np.float32) >= np.float32(rate)
    make = near(x)
    return bind("where", kept if make is np else make.array(kept), x / (1 - rate), 0)
