"""Random noise that regularizes, from a generator or key that the caller gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.placement import near
from fgrad.numpy.reductions import inexact
from fgrad.ops import functions
from fgrad.random.keys import is_key
from fgrad.random.sources import closed
from fgrad.transforms.stage import staging

SINGLE = np.dtype(np.float32)


def dropout(x: Any, rate: float, rng: Any = None, *, train: bool = True) -> Any:
    """Return `x` with each element zero with probability `rate`, and the others over 1 - rate.

    Args:
        x: real or complex array; integers promote to float64.
        rate: probability from 0 to 1; at 1 everything is zero.
        rng: where the random numbers come from, as many as `x` has elements: a `numpy.random.Generator`, or
            a key of `fgrad.random`; not needed where nothing is random. Inside `vmap` all examples share what
            a Generator draws, and a traced function takes a key only: split it for each example or call.
        train: whether to drop at all.

    Returns:
        Array of the shape and float dtype of `x`.

    Raises:
        ValueError: `rate` is no probability.
        TypeError: random numbers are needed and `rng` is neither, or it is a Generator where a function is
            staged; or the arguments come in another order.

    Example:
        >>> import fgrad
        >>> key = fgrad.random.key(0)
        >>> step = fgrad.jit(lambda x, key: dropout(x, 0.5, key))
        >>> first, second = fgrad.random.split(key)
        >>> step(np.ones(6), first), step(np.ones(6), second)
        (array([2., 2., 2., 2., 0., 2.]), array([2., 0., 2., 0., 2., 2.]))

    Source:
        Srivastava, Hinton, Krizhevsky, Sutskever & Salakhutdinov (2014), Dropout.
    """
    if is_key(x) or isinstance(x, np.random.Generator) or np.shape(rate):
        raise TypeError("dropout takes the array, the rate and the key, in this order: dropout(x, 0.2, key)")
    x = inexact(x)
    if not 0 <= rate <= 1:
        raise ValueError(f"dropout: rate is a probability from 0 to 1, not {rate}")
    if not train or rate == 0:
        return x
    if rate == 1:
        return functions.where(False, x, 0)
    if not isinstance(rng, np.random.Generator) and not is_key(rng):
        raise TypeError(
            f"dropout takes its random numbers from a numpy.random.Generator, not {type(rng).__name__}, or "
            "from a key; give rng=numpy.random.default_rng(seed), rng=fgrad.random.key(seed), or train=False"
        )
    if isinstance(rng, np.random.Generator) and not staging():
        kept = rng.random(x.shape, np.float32) >= np.float32(rate)
        make = near(x)
        kept = kept if make is np else make.array(kept)
    else:
        kept = functions.greater_equal(closed(rng, tuple(x.shape), SINGLE), np.float32(rate))
    return functions.where(kept, x / (1 - rate), 0)
