"""What the functions of `numpy.linalg` ask of their arguments, and under which names they answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.linalg import LinAlgError

from fgrad.core.tensor import Tensor, is_abstract
from fgrad.numpy.arrays import as_value
from fgrad.numpy.registry import for_tensors, implements
from fgrad.ops import linear, matrices

Function = Callable[..., Any]


def linalg_function(function: Function) -> Callable[[Function], Function]:
    """Return the decorator of what answers for NumPy's function where there is a Tensor."""
    return lambda f: implements(function, name=f"linalg.{f.__name__}")(for_tensors(function)(f))


def supported(a: Any) -> Any:
    """Return an array or Tensor of a dtype that LAPACK knows."""
    a = as_value(a)
    if a.dtype.kind not in "fc":
        return linear.convert(a, np.dtype(float))
    if a.dtype.char not in "fdFD":
        raise TypeError(f"array type {a.dtype.name} is unsupported in linalg")
    return a


def stacked_matrices(a: Any) -> Any:
    """Return an array or Tensor of one matrix or more.

    Raises:
        LinAlgError: it has fewer than two axes.
    """
    a = supported(a)
    if len(a.shape) < 2:
        raise LinAlgError(f"{len(a.shape)}-dimensional array given. Array must be at least two-dimensional")
    return a


def square_matrices(a: Any) -> Any:
    """Return an array or Tensor of square matrices.

    Raises:
        LinAlgError: they are not square.
    """
    a = stacked_matrices(a)
    if a.shape[-1] != a.shape[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    return a


def of_common_dtype(a: Any, b: Any) -> tuple[Any, Any]:
    """Return both in the dtype that NumPy computes in."""
    dtype = np.result_type(a.dtype, b.dtype)
    return linear.convert(a, dtype), linear.convert(b, dtype)


def triangle(name: str) -> Literal["L", "U"]:
    """Return which triangle of a matrix is read.

    Raises:
        ValueError: `name` is neither "L" nor "U".
    """
    if name.upper() not in {"L", "U"}:
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return "L" if name.upper() == "L" else "U"


def demand_finite(a: Any) -> Any:
    """Return `a`.

    Raises:
        LinAlgError: it holds infinities or NaN.
    """
    if not is_abstract(a) and not np.isfinite(a._value).all():
        raise LinAlgError("Array must not contain infs or NaNs")
    return a


def tolerance(x: Any, name: str, argument: str) -> Any:
    """Return a tolerance, which decides and has no derivative, without Tensors."""
    if is_abstract(x):
        x._value.refuse(f"{argument} of {name}")
    return x._value if isinstance(x, Tensor) else x


def completed(a: Any) -> Any:
    """Return the Hermitian matrices whose lower triangles are those of `a`."""
    half = a * matrices.below(a, a.shape[-1], a.dtype)
    return half + matrices.adjoint(half)
