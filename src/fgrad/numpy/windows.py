"""Window functions of signal processing."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.tensor import Tensor


def bartlett(M: int) -> Tensor:  # noqa: N803 -- NumPy's name
    """Return the triangular window of M points, zero at both ends."""
    return Tensor(np.bartlett(M))


def blackman(M: int) -> Tensor:  # noqa: N803 -- NumPy's name
    """Return the window of M points with three cosine terms."""
    return Tensor(np.blackman(M))


def hamming(M: int) -> Tensor:  # noqa: N803 -- NumPy's name
    """Return the raised cosine of M points that is 0.08 at both ends."""
    return Tensor(np.hamming(M))


def hanning(M: int) -> Tensor:  # noqa: N803 -- NumPy's name
    """Return the raised cosine of M points that is zero at both ends."""
    return Tensor(np.hanning(M))


def kaiser(M: int, beta: Any) -> Tensor:  # noqa: N803 -- NumPy's name
    """Return the window of M points made with the Bessel function I0, of the constant `beta`."""
    return Tensor(np.kaiser(M, float(beta)))
