"""Making arrays: creation functions return Tensors, so that they can be written to and differentiated."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad.core.tensor import Tensor, alias, bind, wrap
from fgrad.numpy.registry import implements
from fgrad.ops.linear import broadcast_to as _broadcast_to
from fgrad.ops.linear import convert, reshape

F = TypeVar("F", bound=Callable[..., Any])


def as_value(x: Any) -> Any:
    """Return `x` as an array or Tensor; a nested sequence that holds Tensors becomes a Tensor."""
    if x.__class__ is Tensor or isinstance(x, np.ndarray | np.generic):
        return x
    if isinstance(x, list | tuple) and holds_tensor(x):
        return array(x)
    return np.asarray(x)


def as_tensor(x: Any) -> Tensor:
    """Return a new array or a Tensor as Tensor, without a copy."""
    return x if isinstance(x, Tensor) else wrap(x)


def alike(xs: Sequence[Any]) -> list[Any]:
    """Return results as they are, or all as Tensors if one of them is."""
    return list(map(asarray, xs)) if any(isinstance(x, Tensor) for x in xs) else list(xs)


def holds_tensor(x: Any) -> bool:
    """Return whether a nested sequence holds a Tensor."""
    return isinstance(x, Tensor) or (isinstance(x, list | tuple) and any(map(holds_tensor, x)))


def extends(function: Any) -> Callable[[F], F]:
    """Return the decorator that makes a function do for Tensors what NumPy's `function` does for arrays."""

    def register(f: F) -> F:
        @functools.wraps(f)
        def call(*args: Any, **kw: Any) -> Any:
            if any(map(holds_tensor, args)) or any(map(holds_tensor, kw.values())):
                return f(*args, **kw)
            return function(*args, **kw)

        return cast("F", implements(function)(call))

    return register


@implements(np.array)
def array(object: Any, dtype: Any = None, *, copy: bool | None = True, ndmin: int = 0, **_: Any) -> Tensor:
    """Return a Tensor made of numbers, arrays and Tensors in nested sequences; derivatives flow to these."""
    if isinstance(object, list | tuple) and holds_tensor(object):
        parts = [array(o) for o in object]
        if len({p.shape for p in parts}) > 1:
            raise ValueError(
                f"the parts of an array must have one shape, not {sorted({p.shape for p in parts})}"
            )
        kind = np.result_type(*(p.dtype for p in parts))
        rows = [reshape(convert(p, kind), (1, *p.shape)) for p in parts]
        made: Tensor = bind("concatenate", *rows, axis=0)
    else:
        made = Tensor(object)
    if dtype is not None:
        made = convert(made, np.dtype(dtype))
    if made.ndim < ndmin:
        made = reshape(made, (*(1,) * (ndmin - made.ndim), *made.shape))
    return made


@implements(np.asarray, np.asanyarray, np.ascontiguousarray)
def asarray(a: Any, dtype: Any = None, **_: Any) -> Tensor:
    """Return `a` itself if it is a Tensor of `dtype`, otherwise a Tensor made of it."""
    if isinstance(a, Tensor) and (dtype is None or a.dtype == dtype):
        return a
    return array(a, dtype)


@implements(np.copy, name="copy")
def copy(a: Any, **_: Any) -> Any:
    """Return a new handle on the value; derivatives flow through."""
    return alias(a) if isinstance(a, Tensor) else np.copy(a)


def zeros(shape: Any, dtype: Any = float, **_: Any) -> Tensor:
    """Return a Tensor of zeros."""
    return wrap(np.zeros(shape, dtype))


def ones(shape: Any, dtype: Any = float, **_: Any) -> Tensor:
    """Return a Tensor of ones."""
    return wrap(np.ones(shape, dtype))


def empty(shape: Any, dtype: Any = float, **_: Any) -> Tensor:
    """Return a Tensor to be filled; it starts with zeros."""
    return wrap(np.zeros(shape, dtype))


def full(shape: Any, fill_value: Any, dtype: Any = None, **_: Any) -> Tensor:
    """Return a Tensor filled with `fill_value`, which may be a Tensor that broadcasts."""
    lengths = (int(shape),) if isinstance(shape, int | np.integer) else tuple(shape)
    made: Tensor = _broadcast_to(asarray(fill_value, dtype), lengths)
    return made


def _like(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def made(a: Any, dtype: Any = None, *, shape: Any = None, **_: Any) -> Tensor:
        a = as_value(a)
        return make(a.shape if shape is None else shape, a.dtype if dtype is None else dtype)

    return made


@implements(np.zeros_like)
def zeros_like(a: Any, dtype: Any = None, **kw: Any) -> Tensor:
    """Return a Tensor of zeros of the shape and dtype of `a`."""
    return _like(zeros)(a, dtype, **kw)


@implements(np.ones_like)
def ones_like(a: Any, dtype: Any = None, **kw: Any) -> Tensor:
    """Return a Tensor of ones of the shape and dtype of `a`."""
    return _like(ones)(a, dtype, **kw)


@implements(np.empty_like)
def empty_like(a: Any, dtype: Any = None, **kw: Any) -> Tensor:
    """Return a Tensor to be filled, of the shape and dtype of `a`."""
    return _like(empty)(a, dtype, **kw)


@implements(np.full_like)
def full_like(a: Any, fill_value: Any, dtype: Any = None, *, shape: Any = None, **_: Any) -> Tensor:
    """Return a Tensor filled with `fill_value`, of the shape and dtype of `a`."""
    a = as_value(a)
    return full(a.shape if shape is None else shape, fill_value, a.dtype if dtype is None else dtype)


def arange(*args: Any, **kw: Any) -> Tensor:
    """Return evenly spaced numbers of the half-open interval [start, stop)."""
    return wrap(np.arange(*args, **kw))


@implements(np.linspace)
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    **_: Any,
) -> Any:
    """Return `num` evenly spaced numbers from `start` to `stop`, along a new axis; differentiable in both."""
    if not any(map(holds_tensor, (start, stop))):
        space: Callable[..., Any] = np.linspace  # its overloads want to know whether there is a step
        made = space(start, stop, num, endpoint, retstep, dtype, axis)
        return tuple(map(Tensor, made)) if retstep else Tensor(made)
    n = num - 1 if endpoint else num
    line, first = np.linspace(0.0, 1.0, num, endpoint), as_value(start)
    gap = as_value(stop) - first
    shape = (num, *(1,) * len(gap.shape))
    line = line.astype(np.result_type(gap.dtype, 1.0)).reshape(shape)
    y = first * (1 - line) + as_value(stop) * line
    if dtype is not None:
        y = convert(bind("floor", y) if np.dtype(dtype).kind in "iu" else y, np.dtype(dtype))
    if axis != 0:
        order = list(range(1, len(shape)))
        order.insert(normalize_axis_index(axis, len(shape)), 0)
        y = bind("transpose", y, axes=tuple(order))
    return (y, gap / n if n > 0 else full(gap.shape, np.nan)) if retstep else y


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = float) -> Tensor:  # noqa: N803 -- NumPy's names
    """Return a Tensor with ones on the diagonal `k` and zeros elsewhere."""
    return wrap(np.eye(N, M, k, dtype))


def identity(n: int, dtype: Any = float) -> Tensor:
    """Return the identity matrix of n rows."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = float) -> Tensor:  # noqa: N803 -- NumPy's names
    """Return a Tensor with ones on and below the diagonal `k` and zeros elsewhere."""
    return wrap(np.tri(N, M, k, dtype))


@implements(np.meshgrid)
def meshgrid(*xi: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> tuple[Any, ...]:
    """Return coordinate arrays of the grid that one-dimensional arrays span."""
    if indexing not in {"xy", "ij"}:
        raise ValueError("indexing must be 'xy' or 'ij'")
    vectors = [reshape(v, (v.size,)) for v in map(as_value, xi)]
    n = len(vectors)
    order = list(range(n))
    if indexing == "xy" and n > 1:
        order[:2] = [1, 0]
    shape = [0] * n
    for axis, v in zip(order, vectors, strict=True):
        shape[axis] = v.size
    grids = [
        reshape(v, tuple(v.size if i == a else 1 for i in range(n)))
        for a, v in zip(order, vectors, strict=True)
    ]
    return tuple(alike(grids if sparse else [_broadcast_to(g, tuple(shape)) for g in grids]))


def values(xs: Sequence[Any]) -> list[Any]:
    """Return a sequence of arrays or Tensors."""
    return [as_value(x) for x in (xs if not isinstance(xs, Tensor | np.ndarray) else list(xs))]
