"""Functions that answer for arrays as SciPy's own do, and for Tensors by operations that differentiate."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from fgrad.extend.engine import as_value, convert, holds_tensor, together

F = TypeVar("F", bound=Callable[..., Any])


def for_tensors(reference: Callable[..., Any]) -> Callable[[F], F]:
    """Return the decorator of a function that `reference` stands in for where no argument is a Tensor."""

    def decorate(f: F) -> F:
        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            if any(map(holds_tensor, args)) or any(map(holds_tensor, kwargs.values())):
                return f(*args, **kwargs)
            return reference(*args, **kwargs)

        return cast("F", call)

    return decorate


def inexact(x: Any) -> Any:
    """Return an array or Tensor of floating-point or complex numbers; integers as float64."""
    x = as_value(x)
    return x if x.dtype.kind in "fc" else convert(x, np.dtype(float))


def in_common(*xs: Any) -> list[Any]:
    """Return arrays and Tensors of floating-point numbers in their common dtype; lists go along."""
    values = [inexact(x) for x in together(*xs)]
    dtype = np.result_type(*(v.dtype for v in values))
    return [convert(v, dtype) for v in values]
