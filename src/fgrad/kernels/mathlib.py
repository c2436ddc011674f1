"""The scalar functions that `ATOMS` names: plain Python, copied as text into every kernel that calls them.

They use operators, `abs`, `bool`, `math` and one another, so that Numba compiles them for the CPU and for
CUDA, and its simulator interprets them. A constant is a name from below, never a literal: a literal beside a
float32 would make the arithmetic float64. `constants` gives the names their values for a dtype.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.expr import special

ZERO, HALF, ONE, TWO, THIRD = 0.0, 0.5, 1.0, 2.0, 1 / 3
LN2, LOG2E = math.log(2), 1 / math.log(2)
DEGREES, RADIANS = 180 / math.pi, math.pi / 180
ROUND = 2.0**52  # from here on every number of the dtype is an integer


class _Interpreted:
    """NumPy's functions under the names of `math`, for interpreted kernels: no errors, and the same dtype."""

    def __getattr__(self, name: str) -> Any:
        return getattr(special if name in {"erf", "erfc"} else np, _NUMPY_NAMES.get(name, name))


interpreted: _Interpreted = _Interpreted()
_NUMPY_NAMES = {
    **{f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "atan2": "arctan2",
    "pow": "power",
}


def constants(dtype: np.dtype[Any]) -> dict[str, float]:
    """Return the value of every constant for numbers of `dtype`."""
    values = {name: value for name, value in globals().items() if isinstance(value, float)}
    return values | {"ROUND": float(1 / np.finfo(dtype).eps)}


def scale(ct: float, slope: float) -> float:
    """Return `ct * slope`, and zero where `ct` is zero even if the slope is infinite or NaN."""
    return ZERO if ct == ZERO else ct * slope


def multiply_no_nan(x: float, y: float) -> float:
    """Return `x * y`, and zero where either is zero even if the other is infinite or NaN."""
    return ZERO if x == ZERO else scale(y, x)


def reciprocal(x: float) -> float:
    """Return `1 / x`."""
    return ONE / x


def power(x: float, y: float) -> float:
    """Return `x` to the power of `y`."""
    result: float = x**y
    return result


def exp2(x: float) -> float:
    """Return 2 to the power of `x`."""
    return math.pow(TWO, x)


def cbrt(x: float) -> float:
    """Return the real cube root of `x`: a power, then one step of Newton's method for its last bits."""
    y = math.copysign(abs(x) ** THIRD, x)
    return y - (y - x / (y * y)) * THIRD if abs(x) < abs(x) + abs(x) else x


def logaddexp(x: float, y: float) -> float:
    """Return `log(exp(x) + exp(y))` without overflow."""
    return x + LN2 if x == y else maximum(x, y) + math.log1p(math.exp(-abs(x - y)))


def logaddexp2(x: float, y: float) -> float:
    """Return `log2(2**x + 2**y)` without overflow."""
    return x + ONE if x == y else maximum(x, y) + LOG2E * math.log1p(exp2(-abs(x - y)))


def sigmoid(x: float) -> float:
    """Return `1 / (1 + exp(-x))` without overflow."""
    small = math.exp(-abs(x))
    return (small if x < ZERO else ONE) / (ONE + small)


def softplus(x: float) -> float:
    """Return `log(1 + exp(x))` without overflow."""
    return maximum(x, ZERO) + math.log1p(math.exp(-abs(x)))


def degrees(x: float) -> float:
    """Return the angle `x` in degrees, given in radians."""
    return x * DEGREES


def radians(x: float) -> float:
    """Return the angle `x` in radians, given in degrees."""
    return x * RADIANS


def maximum(x: float, y: float) -> float:
    """Return the larger number, or NaN if either is NaN."""
    return x if x >= y or math.isnan(x) else y


def minimum(x: float, y: float) -> float:
    """Return the smaller number, or NaN if either is NaN."""
    return x if x <= y or math.isnan(x) else y


def fmax(x: float, y: float) -> float:
    """Return the larger number, or the other one if either is NaN."""
    return x if x >= y or math.isnan(y) else y


def fmin(x: float, y: float) -> float:
    """Return the smaller number, or the other one if either is NaN."""
    return x if x <= y or math.isnan(y) else y


def sign(x: float) -> float:
    """Return -1, 0 or 1 as `x` is negative, zero or positive; NaN stays NaN."""
    return ONE if x > ZERO else -ONE if x < ZERO else ZERO if x == ZERO else x


def signbit(x: float) -> bool:
    """Return whether the sign of `x` is minus, which tells -0.0 from 0.0."""
    return math.copysign(ONE, x) < ZERO


def rint(x: float) -> float:
    """Return the nearest integer, ties to even: adding `ROUND` leaves no bit for a fraction."""
    return math.copysign((abs(x) + ROUND) - ROUND, x) if abs(x) < ROUND else x


def floor(x: float) -> float:
    """Return the largest integer that is not above `x`."""
    near = rint(x)
    return math.copysign(near - ONE if near > x else near, x)


def ceil(x: float) -> float:
    """Return the smallest integer that is not below `x`."""
    near = rint(x)
    return math.copysign(near + ONE if near < x else near, x)


def trunc(x: float) -> float:
    """Return `x` without its fraction."""
    return math.copysign(floor(abs(x)), x)


def fmod(x: float, y: float) -> float:
    """Return the remainder of `x / y` with the sign of `x`."""
    return math.copysign(abs(x) % abs(y), x)


def remainder(x: float, y: float) -> float:
    """Return the remainder of `x / y` with the sign of `y`."""
    rest = fmod(x, y)
    return math.copysign(rest, y) if rest == ZERO else rest + y if (rest < ZERO) != (y < ZERO) else rest


def floor_divide(x: float, y: float) -> float:
    """Return the largest integer that is not above `x / y`, computed from the exact remainder."""
    rest = fmod(x, y)
    borrowed = rest != ZERO and (rest < ZERO) != (y < ZERO)
    ratio = (x - rest) / y - (ONE if borrowed else ZERO)
    below = floor(ratio)
    whole = below + ONE if ratio - below > HALF else below
    return x / y if y == ZERO else math.copysign(ZERO, x / y) if ratio == ZERO else whole


def heaviside(x: float, h: float) -> float:
    """Return 0, `h` or 1 as `x` is negative, zero or positive; NaN stays NaN."""
    return h if x == ZERO else ZERO if x < ZERO else ONE if x > ZERO else x


def nextafter(x: float, y: float) -> float:
    """Return the number next to `x` on the way to `y`."""
    return math.nextafter(x, y)


def logical_and(x: float, y: float) -> bool:
    """Return whether both hold."""
    return bool(x) and bool(y)


def logical_or(x: float, y: float) -> bool:
    """Return whether either holds."""
    return bool(x) or bool(y)


def logical_xor(x: float, y: float) -> bool:
    """Return whether exactly one holds."""
    return bool(x) != bool(y)
