"""Numbers rounded to formats of fewer bits than their dtype has, such as bfloat16, which NumPy lacks."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from fgrad.core.aval import Aval
from fgrad.core.dispatch import bind
from fgrad.core.primitive import KEEPS_C_ORDER, TOTAL, Written
from fgrad.core.stored import REAL, Stored, up_to
from fgrad.ops.linear import linear

__all__ = ["reduce_precision"]

_BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def reduce_precision(x: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Return numbers rounded to a format of fewer bits, halves to even, in their own dtype.

    What is too great becomes infinite. What is below the normal numbers of fewer exponent bits becomes zero.

    Args:
        x: real array of floating-point numbers.
        exponent_bits: of the format; 8 for bfloat16, 5 for float16.
        mantissa_bits: of the format, without the leading one; 7 for bfloat16, 10 for float16.

    Returns:
        Array of the shape and dtype of `x`.

    Derivative:
        One, rounded to the same format.

    Raises:
        TypeError: the array is complex, or not of floating-point numbers.
        ValueError: a number of bits is negative, or there is no bit of an exponent.

    Example:
        >>> float(reduce_precision(np.float32(0.1), exponent_bits=8, mantissa_bits=7))
        0.10009765625
    """
    kind = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
    if kind.kind != "f":
        raise TypeError(f"reduce_precision is of real floating-point numbers, not of {kind}")
    if exponent_bits < 1 or mantissa_bits < 0:
        raise ValueError(f"there is no format of {exponent_bits} and {mantissa_bits} bits")
    return _rounded(x, exponent_bits=int(exponent_bits), mantissa_bits=int(mantissa_bits))


def _rounded(x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
    return bind("reduce_precision", x, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)


@cache
def _limits(dtype: np.dtype[Any], exponent_bits: int, mantissa_bits: int) -> tuple[float, float] | None:
    """Return the least normal and the greatest number of a format, None if its exponents are the dtype's."""
    if exponent_bits >= np.finfo(dtype).iexp:
        return None
    top = 2 ** (exponent_bits - 1)
    return 2.0 ** (2 - top), (2.0 - 2.0**-mantissa_bits) * 2.0 ** (top - 1)


def _within(y: Any, limits: tuple[float, float] | None) -> Any:
    if limits is None:
        return y
    size, end = np.absolute(y), np.copysign(y.dtype.type(np.inf), y)
    y = np.where(size > limits[1], end, y)
    return np.where(size < limits[0], np.copysign(y.dtype.type(0), y), y)


@cache
def _masks(dtype: np.dtype[Any], mantissa_bits: int) -> tuple[Any, ...] | None:
    """Return how many bits are lost, one, almost half of the last bit that stays, and the bits that stay."""
    whole: Any = _BITS[dtype.itemsize]
    lost = np.finfo(dtype).nmant - mantissa_bits
    if lost <= 0:
        return None
    return whole(lost), whole(1), whole(2 ** (lost - 1) - 1), ~whole(2**lost - 1)


def _run(x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
    masks, y = _masks(x.dtype, mantissa_bits), x
    if masks is not None:
        lost, one, half, kept = masks
        bits = x.view(half.dtype)
        y = ((bits + ((bits >> lost & one) + half)) & kept).view(x.dtype)
        y = np.where(np.isnan(x), x, y)
    return _within(y, _limits(x.dtype, exponent_bits, mantissa_bits))


def _written(x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
    """Return the same by operations on exponents, which kernels have."""
    info = np.finfo(x.dtype)
    y = x
    if mantissa_bits < info.nmant:
        last = np.maximum(bind("exponent", x), info.minexp + 1) - (mantissa_bits + 1)  # of the last bit
        y = bind("ldexp", np.rint(bind("ldexp", x, -last)), last)
    return _within(y, _limits(x.dtype, exponent_bits, mantissa_bits))


linear(
    "reduce_precision",
    run=_run,
    adjoint=lambda ct, x, **params: _rounded(ct, **params),
    shape=lambda x, **_: Aval(x.shape, x.dtype),
    batch=_rounded,
    traits={TOTAL, KEEPS_C_ORDER},
    written=Written(_written),
    stored=Stored({"exponent_bits": up_to(64), "mantissa_bits": up_to(64)}, dtypes=REAL),
)
