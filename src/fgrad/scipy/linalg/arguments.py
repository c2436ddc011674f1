"""What functions of linear algebra demand of their arguments, in SciPy's manner."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.tensor import Tensor, is_abstract
from fgrad.extend.engine import as_column, as_value, broadcast_to, convert, reshape


def is_visible(x: Any) -> bool:
    """Return whether values are there to be looked at: not inside vmap, nor while staging."""
    return not is_abstract(x)


def plain(x: Any) -> Any:
    """Return the array of a value that is visible."""
    return x._value if isinstance(x, Tensor) else x


def numbers(a: Any, *, check_finite: bool = False) -> Any:
    """Return an array or Tensor of a dtype that LAPACK knows.

    Raises:
        TypeError: it holds no numbers of single or double precision.
        ValueError: `check_finite`, and it is seen to hold infinities or NaNs.
    """
    a = as_value(a)
    if a.dtype.kind not in "fc":
        a = convert(a, np.dtype(float))
    if a.dtype.char not in "fdFD":
        raise TypeError(f"arrays of {a.dtype} are not supported in linear algebra; convert them to float64")
    if check_finite and is_visible(a) and not np.isfinite(plain(a)).all():
        raise ValueError("array must not contain infs or NaNs")
    return a


def matrices(a: Any, *, check_finite: bool = False) -> Any:
    """Return stacks of matrices."""
    a = numbers(a, check_finite=check_finite)
    if len(a.shape) < 2:
        raise ValueError(f"expected a matrix, or a stack of them, not an array of shape {tuple(a.shape)}")
    return a


def square(a: Any, *, check_finite: bool = False) -> Any:
    """Return stacks of square matrices."""
    a = matrices(a, check_finite=check_finite)
    if a.shape[-1] != a.shape[-2]:
        raise ValueError(f"expected a square matrix, not shape {tuple(a.shape)}")
    return a


def common(*xs: Any) -> list[Any]:
    """Return values in their common dtype."""
    dtype = np.result_type(*(x.dtype for x in xs))
    return [convert(x, dtype) for x in xs]


def stacked(*xs: Any) -> list[Any]:
    """Return matrices in their common dtype with the same axes in front."""
    xs = tuple(common(*xs))
    lead = np.broadcast_shapes(*(x.shape[:-2] for x in xs))
    return [x if x.shape[:-2] == lead else broadcast_to(x, (*lead, *x.shape[-2:])) for x in xs]


def system(a: Any, b: Any, name: str, *, check_finite: bool = True) -> tuple[Any, Any, bool]:
    """Return the two sides of systems as stacks of matrices, and whether the right side is one vector."""
    b = numbers(b, check_finite=check_finite)
    vector = len(b.shape) == 1
    if not b.shape or b.shape[0 if vector else -2] != a.shape[-1]:
        raise ValueError(f"{name}: shapes of a {tuple(a.shape)} and b {tuple(b.shape)} are incompatible")
    a, b = stacked(a, as_column(b) if vector else b)
    return a, b, vector


def unwrapped(x: Any, *, vector: bool) -> Any:
    """Return the solution as vectors if the right side was one."""
    return reshape(x, x.shape[:-1]) if vector else x
