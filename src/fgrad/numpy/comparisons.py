"""Whether arrays are equal, or nearly so."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.tensor import Tensor, bind, unary
from fgrad.numpy.arrays import (
    concrete,
    together,
)
from fgrad.numpy.registry import (
    implements,
)
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
        One truth value.

    Raises:
        TypeError: values are not known, under `vmap` or while staged.

    Derivative:
        None: the result is a truth value.

    Example:
        >>> fnp.allclose(np.array([1.0]), np.array([1.0 + 1e-9]))
        True
    """
    x, y = (concrete(v, "allclose") for v in together(a, b))
    return bool(np.allclose(x, y, rtol, atol, equal_nan))


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Return whether two arrays have the same shape and elements.

    Returns:
        One truth value.

    Raises:
        TypeError: values are not known, under `vmap` or while staged.

    Derivative:
        None: the result is a truth value.

    Example:
        >>> fnp.array_equal(np.array([1, 2]), [1, 2])
        True
    """
    x, y = (concrete(v, "array_equal") for v in together(a1, a2))
    return bool(np.array_equal(x, y, equal_nan))
