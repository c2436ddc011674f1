"""Whether arrays are equal, or nearly so."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from fgrad.core.dispatch import bind, unary
from fgrad.core.tensor import Tensor
from fgrad.numpy.arrays import known, operands, together
from fgrad.numpy.reductions import all as _all
from fgrad.numpy.registry import implements
from fgrad.ops import linear


@implements(np.isclose)
def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Return whether elements are equal within tolerances.

    Returns:
        Truth values, of the shape to which both broadcast.

    Derivative:
        None: the results are truth values.

    Example:
        >>> fnp.isclose(np.array([1.0, 2.0]), np.array([1.0 + 1e-9, 2.1]))
        array([ True, False])
    """
    x, y = together(a, b)
    if not any(isinstance(v, Tensor) for v in (x, y, rtol, atol)):
        return np.isclose(x, y, rtol, atol, equal_nan)
    if y.dtype.kind in "biu":
        y = linear.convert(y, np.dtype(float))
    with np.errstate(invalid="ignore"):
        near = bind("less_equal", unary("absolute", x - y), atol + rtol * unary("absolute", y))
    close = bind("logical_or", bind("logical_and", near, unary("isfinite", y)), bind("equal", x, y))
    if equal_nan:
        close = bind("logical_or", close, bind("logical_and", unary("isnan", x), unary("isnan", y)))
    return close


@implements(np.allclose)
def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Return whether all elements are equal within tolerances.

    Returns:
        One truth value; under `vmap` and `jit`, where it is not known yet, a Tensor.

    Derivative:
        None: the result is a truth value.

    Example:
        >>> fnp.allclose(np.array([1.0]), np.array([1.0 + 1e-9]))
        True
    """
    x, y = together(a, b)
    u, v, relative, absolute = (known(z) for z in (x, y, *operands(rtol, atol)))
    if any(z is None for z in (u, v, relative, absolute)):
        return cast("bool", _all(isclose(x, y, rtol, atol, equal_nan)))
    return bool(np.allclose(u, v, relative, absolute, equal_nan))


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Return whether two arrays have the same shape and elements.

    Returns:
        One truth value; under `vmap` and `jit`, where it is not known yet, a Tensor.

    Derivative:
        None: the result is a truth value.

    Example:
        >>> fnp.array_equal(np.array([1, 2]), [1, 2])
        True
    """
    x, y = together(a1, a2)
    if known(x) is not None and known(y) is not None:
        return bool(np.array_equal(known(x), known(y), equal_nan))
    return x.shape == y.shape and _all_equal(x, y, equal_nan)


@implements(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> bool:
    """Return whether two arrays have the same elements after one of them is broadcast to the other.

    Returns:
        One truth value; under `vmap` and `jit`, where it is not known yet, a Tensor.

    Derivative:
        None: the result is a truth value.

    Example:
        >>> fnp.array_equiv([1, 1], 1)
        True
    """
    x, y = together(a1, a2)
    if known(x) is not None and known(y) is not None:
        return bool(np.array_equiv(known(x), known(y)))
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return _all_equal(x, y, equal_nan=False)


def _all_equal(x: Any, y: Any, equal_nan: bool) -> bool:
    equal = bind("equal", x, y)
    if equal_nan:
        equal = bind("logical_or", equal, bind("logical_and", unary("isnan", x), unary("isnan", y)))
    return cast("bool", _all(equal))
