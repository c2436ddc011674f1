"""Window functions of signal processing."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.tensor import Tensor


def bartlett(M: int) -> Tensor:  # noqa: N803 -- NumPy's name
    """Return the triangular window of M points, zero at both ends.

    Returns:
        Vector (M,) of float64; one for M = 1.

    Derivative:
        None: `M` is an integer.

    Example:
        >>> fnp.bartlett(5)
        Tensor([0. , 0.5, 1. , 0.5, 0. ])
    """
    return Tensor(np.bartlett(M))


def blackman(M: int) -> Tensor:  # noqa: N803 -- NumPy's name
    """Return the window of M points with three cosine terms.

    Returns:
        Vector (M,) of float64; one for M = 1.

    Derivative:
        None: `M` is an integer.

    Example:
        >>> fnp.blackman(3).numpy().round(6) + 0.0
        array([0., 1., 0.])
    """
    return Tensor(np.blackman(M))


def hamming(M: int) -> Tensor:  # noqa: N803 -- NumPy's name
    """Return the raised cosine of M points that is 0.08 at both ends.

    Returns:
        Vector (M,) of float64; one for M = 1.

    Derivative:
        None: `M` is an integer.

    Example:
        >>> fnp.hamming(3)
        Tensor([0.08, 1.  , 0.08])
    """
    return Tensor(np.hamming(M))


def hanning(M: int) -> Tensor:  # noqa: N803 -- NumPy's name
    """Return the raised cosine of M points that is zero at both ends.

    Returns:
        Vector (M,) of float64; one for M = 1.

    Derivative:
        None: `M` is an integer.

    Example:
        >>> fnp.hanning(5)
        Tensor([0. , 0.5, 1. , 0.5, 0. ])
    """
    return Tensor(np.hanning(M))


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
