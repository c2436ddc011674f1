"""The names under which NumPy's functions, operators and methods find what computes them for Tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from fgrad.core.operators import in_place
from fgrad.core.primitive import FUNCTIONS, NUMPY, OPERATORS, ROWS, UFUNCS
from fgrad.core.tensor import Tensor, apply_binary, apply_unary, binary, bind, is_tracked, wrap
from fgrad.ops.linear import convert

F = TypeVar("F", bound=Callable[..., Any])


def implements(*functions: Any, name: str | None = None) -> Callable[[F], F]:
    """Return the decorator that makes a function answer for NumPy's `functions` and as Tensor's `name`."""

    def register(f: F) -> F:
        for function in functions:
            NUMPY[function] = f
        FUNCTIONS[name or f.__name__] = f
        return f

    return register


@functools.cache
def operator(name: str) -> Callable[[Any, Any], Any]:
    """Return the function that applies a binary row and refuses operands that are not numbers."""

    def apply(x: Any, y: Any) -> Any:
        result = binary(name, x, y)
        if result is NotImplemented:
            given = f"{type(x).__name__} and {type(y).__name__}"
            raise TypeError(f"{name} takes arrays, numbers and Tensors, not {given}")
        return result

    return apply


def declare_operators() -> None:
    """Give Tensor's operators, and NumPy's ufuncs called without keywords, their rows."""
    for name in ("negative", "positive", "absolute", "invert"):
        OPERATORS[name] = functools.partial(apply_unary, ROWS[name])
    for name in (
        *("add", "subtract", "multiply", "divide", "floor_divide", "remainder"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"),
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    ):
        OPERATORS[name] = functools.partial(apply_binary, ROWS[name])
    for row in ROWS.values():
        # a ufunc may serve two rows (sqrt and root): its own is the one of its name
        if (
            isinstance(row.run, np.ufunc)
            and row.run in NUMPY
            and row.name == row.run.__name__
            and not row.linear
        ):
            apply = apply_unary if row.run.nin == 1 else apply_binary
            UFUNCS[row.run] = functools.partial(apply, row)


def ufunc_keywords(
    name: str,
    *args: Any,
    out: Any = None,
    where: Any = True,
    dtype: Any = None,
    casting: str = "same_kind",
    order: str = "K",
    subok: bool = True,
) -> Any:
    """Apply an element-wise row with the keywords that NumPy's ufuncs take."""
    if not any(isinstance(a, Tensor) for a in (*args, where, *_outs(out))):
        run = ROWS[name].run
        return run(*args, out=out, where=where, dtype=dtype, casting=casting, order=order, subok=subok)
    if dtype is not None:
        args = tuple(cast(a, np.dtype(dtype), casting) for a in args)
    result = bind(name, *args)
    (target,) = _outs(out) or (None,)
    if where is not True:
        result = bind("where", where, result, np.zeros((), result.dtype) if target is None else target)
    return stored(result, target)


def _outs(out: Any) -> tuple[Any, ...]:
    return out if isinstance(out, tuple) else () if out is None else (out,)


def cast(a: Any, dtype: np.dtype[Any], casting: Any) -> Any:
    """Return an array or Tensor as `dtype`, a Python number as it is.

    Raises:
        TypeError: `casting` forbids it.
    """
    if isinstance(a, int | float | complex):
        return a
    a = a if hasattr(a, "dtype") else np.asarray(a)
    if not np.can_cast(a.dtype, dtype, casting):
        raise TypeError(f"cannot cast from {a.dtype} to {dtype} with casting={casting!r}")
    return convert(a, dtype)


def stored(result: Any, out: Any) -> Any:
    """Return `result`, after giving it to the Tensor or array `out` if there is one."""
    if isinstance(out, tuple):
        (out,) = out
    if out is None:
        return result
    if isinstance(out, Tensor):
        return in_place(out, result if isinstance(result, Tensor) else wrap(result))
    if isinstance(result, Tensor) and is_tracked(result):
        raise TypeError(
            "a NumPy array cannot hold a Tensor that is being differentiated, so its gradient would be lost; "
            "make the target a Tensor (fgrad.tensor(out)), or write out = out + x instead of out += x"
        )
    np.copyto(out, np.asarray(result), casting="same_kind")
    return out
