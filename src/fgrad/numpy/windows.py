"""Window functions of signal processing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.tensor import Tensor
from fgrad.numpy.registry import named

_DOC = """Return the {what}.

Returns:
    Vector (M,) of float64; one for M = 1.

Derivative:
    None: `M` is an integer.

Example:
    >>> fnp.{example}
    {result}
"""


def _window(theirs: Callable[[int], Any], what: str, example: str, result: str) -> Callable[[int], Tensor]:
    @named(theirs.__name__, _DOC.format(what=what, example=example, result=result))
    def window(M: int) -> Tensor:  # noqa: N803 -- NumPy's name
        return Tensor(theirs(M))

    return window


# fmt: off
bartlett = _window(np.bartlett, "triangular window of M points, zero at both ends",
    "bartlett(5)", "Tensor([0. , 0.5, 1. , 0.5, 0. ])")
blackman = _window(np.blackman, "window of M points with three cosine terms",
    "blackman(3).numpy().round(6) + 0.0", "array([0., 1., 0.])")
hamming = _window(np.hamming, "raised cosine of M points that is 0.08 at both ends",
    "hamming(3)", "Tensor([0.08, 1.  , 0.08])")
hanning = _window(np.hanning, "raised cosine of M points that is zero at both ends",
    "hanning(5)", "Tensor([0. , 0.5, 1. , 0.5, 0. ])")
# fmt: on


def kaiser(M: int, beta: Any) -> Tensor:  # noqa: N803 -- NumPy's name
    """Return the window of M points made with the Bessel function I0, of the constant `beta`.

    Returns:
        Vector (M,) of floats; one for M = 1.

    Derivative:
        In `beta` that of the formula, with `i0`.

    Example:
        >>> fnp.kaiser(3, 5.0)
        Tensor([0.03671089, 1.        , 0.03671089])
    """
    return Tensor(np.kaiser(M, float(beta)))
