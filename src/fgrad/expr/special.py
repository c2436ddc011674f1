"""Element functions that NumPy lacks, as arrays of NumPy's operations, and their polynomials.

They are the references of atoms; kernels compute them from the same coefficients. Every polynomial is an
interpolation at Chebyshev points, of a degree that leaves less than a tenth of the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.backend.devices import as_array

CENTER = 3.75  # of the map t = (|x| - CENTER) / (|x| + CENTER)
FAR = 30.0  # erfc is zero from here on
# exp(x^2) erfc(x) (x + CENTER) / CENTER for x >= 0, in t: Shepherd & Laframboise (1981), Math. Comp. 36, 249
ERFC: dict[str, tuple[float, ...]] = {
    "float32": (
        *(0.2911794388555254, -0.255664444433042, 0.19635198150288458, -0.1307916317951096),
        *(0.07441338364665129, -0.03519030634865152, 0.013112062216606215, -0.0033390740617009734),
        *(0.00023581346897248782, 0.00021073726263688008, -6.740542388057457e-05),
    ),
    "float64": (
        *(0.29117944255007705, -0.25566442044077586, 0.19635171339246763, -0.13079207765538353),
        *(0.07441654640898272, -0.0351881069808649, 0.013098340964588282, -0.0033429013453275913),
        *(0.00026302348270552554, 0.00021195283419937167, -9.29724641913652e-05, 2.8250311254859227e-06),
        *(9.992349510142748e-06, -2.3743004644904717e-06, -8.76952255587417e-07, 4.4148931737721466e-07),
        *(7.430859244269167e-08, -7.02333326846303e-08, -6.912758194193347e-09, 1.0722100170937815e-08),
        *(7.399585217933684e-10, -1.4316838654450256e-09, -6.130970631270442e-11, 1.1745802464327155e-10),
    ),
}
# erf(x) / x for |x| <= 1, in x^2
ERF: dict[str, tuple[float, ...]] = {
    "float32": (
        *(1.1283791658815026, -0.3761262690358044, 0.11283597463488053, -0.026854328796067244),
        *(0.005189311942686617, -0.0008018854992786387, 7.882497110086663e-05),
    ),
    "float64": (
        *(1.1283791670955126, -0.37612638903183543, 0.1128379167094513, -0.026866170643256995),
        *(0.005223977607269946, -0.0008548325982543225, 0.00012055295112667001, -1.4924740785377576e-05),
        *(1.6447471190594618e-06, -1.6208829856810202e-07, 1.3721520406351094e-08, -7.798543850549947e-10),
    ),
}


def _floating(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return `f` for real arrays of every dtype: it computes in float32 or float64, and rounds to its own."""

    def function(x: Any) -> Any:
        x = as_array(x)
        if x.dtype.kind not in "fiub":
            raise TypeError(f"{f.__name__} takes real numbers, not {x.dtype}")
        dtype = x.dtype if x.dtype.kind == "f" else np.dtype(float)
        compute = np.float32 if dtype in (np.float16, np.float32) else np.float64
        with np.errstate(over="ignore", under="ignore"):
            y = f(x.astype(compute, copy=False)[()])
        return y.astype(dtype, copy=False)[()]

    function.__name__ = function.__qualname__ = f.__name__
    function.__doc__ = f.__doc__
    return function


_NAMES = {"f": "float32", "d": "float64"}


def polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Return the sum of `coefficients[k] x**k`, in the dtype of `x`."""
    *lower, top = coefficients
    if not x.ndim:  # a scalar, which takes a tenth of the time of an array
        total = x.dtype.type(top)
        for c in reversed(lower):
            total = total * x + c
        return total
    total = np.full_like(x, top)
    for c in reversed(lower):
        total *= x
        total += x.dtype.type(c)
    return total


def _tail(z: Any) -> Any:
    """Return erfc(z) for z >= 0."""
    z = np.minimum(z, FAR)
    q = CENTER / (z + CENTER)
    y = polynomial(ERFC[_NAMES[z.dtype.char]], 1 - 2 * q) * q
    kind, mask = ("i4", -(2**12)) if z.dtype == np.float32 else ("i8", -(2**27))
    head = np.bitwise_and(as_array(z).view(kind), mask).view(z.dtype)  # its square is exact
    return y * np.exp(-head * head) * np.exp(-(z - head) * (z + head))


@_floating
def erfc(x: Any) -> Any:
    """Return 1 - erf(x), the complementary error function, without cancellation."""
    y = _tail(np.abs(x))
    return np.where(x < 0, 2 - y, y)


@_floating
def erf(x: Any) -> Any:
    """Return the error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    size = np.abs(x)
    near = np.where(size < 1, x, 0)[()]
    inner = near * polynomial(ERF[_NAMES[x.dtype.char]], near * near)
    return np.where(size < 1, inner, np.copysign(1 - _tail(size), x))


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)) without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(np.less(x, 0), small, small.dtype.type(1)) / (1 + small)


def sigmoids(x: Any) -> tuple[Any, Any]:
    """Return `sigmoid(x)` and `sigmoid(-x)`."""
    small = np.exp(-np.abs(x))
    total = 1 + small
    near, far = small.dtype.type(1) / total, small / total
    negative = np.less(x, 0)
    return np.where(negative, far, near), np.where(negative, near, far)


def softplus(x: Any) -> Any:
    """Return log(1 + exp(x)) without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
