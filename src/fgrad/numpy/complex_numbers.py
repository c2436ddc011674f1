"""The parts of complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.dispatch import bind, unary
from fgrad.core.tensor import Tensor
from fgrad.numpy.arrays import (
    as_value,
)
from fgrad.numpy.indexing import setitem
from fgrad.numpy.registry import (
    implements,
)
from fgrad.numpy.views import part, zeros_beside
from fgrad.ops import linear


@implements(np.real)
def real(val: Any) -> Any:
    """Return the real part.

    Returns:
        Array of the shape of `val`, real.

    Derivative:
        The cotangent, in the real part.

    Example:
        >>> fnp.real(np.array([1.0 + 2.0j]))
        array([1.])
    """
    if isinstance(val, int | float | complex):
        return val.real
    val = as_value(val)
    return part(val, imaginary=False) if val.dtype.kind == "c" else val


@implements(np.imag)
def imag(val: Any) -> Any:
    """Return the imaginary part.

    Returns:
        Array of the shape of `val`, real; zeros for real numbers.

    Derivative:
        The cotangent, in the imaginary part; zero for real numbers.

    Example:
        >>> fnp.imag(np.array([1.0 + 2.0j]))
        array([2.])
    """
    if isinstance(val, int | float | complex):
        return val.imag
    val = as_value(val)
    return part(val, imaginary=True) if val.dtype.kind == "c" else zeros_beside(val)


@implements()
def set_imag(x: Tensor, value: Any) -> None:
    """Write the imaginary part of complex numbers.

    Raises:
        TypeError: the numbers are real.
    """
    if x.dtype.kind != "c":
        raise TypeError("array does not have imaginary part to set")
    setitem(imag(x), Ellipsis, value)


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    """Return the angle of complex numbers, in radians or degrees.

    Returns:
        Array of the shape of `z`, of floats.

    Derivative:
        That of `arctan2(imag, real)`: zero at the origin, smooth across the cut. Of real numbers zero.

    Example:
        >>> fnp.angle(np.array([1.0 + 1.0j]), deg=True)
        array([45.])
    """
    z = as_value(z)
    if z.dtype.kind == "b":
        z = linear.convert(z, np.dtype(int))  # beside NumPy's imaginary part, which is the number 0
    y = bind("arctan2", imag(z) if z.dtype.kind == "c" else 0, real(z))
    return unary("degrees", y) if deg else y


def iscomplexobj(x: Any) -> bool:
    """Return whether `x` has a complex dtype.

    Returns:
        One truth value; elements are not looked at, so it is known under `jit` and `vmap`.

    Derivative:
        None: the result is a truth value.

    Example:
        >>> fnp.iscomplexobj(np.array([1j]))
        True
    """
    return bool(as_value(x).dtype.kind == "c")


implements(np.iscomplexobj)(iscomplexobj)
