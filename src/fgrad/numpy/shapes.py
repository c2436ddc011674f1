"""Shapes and axes of arrays: all compositions of linear primitives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from fgrad.backend.array import DeviceArray
from fgrad.core.dispatch import bind
from fgrad.core.tensor import Tensor
from fgrad.core.trace import user_place
from fgrad.core.views import is_laid_out, memory_of
from fgrad.numpy.arrays import (
    alike,
    as_value,
    recopied,
    together,
)
from fgrad.numpy.registry import as_array, implements
from fgrad.numpy.views import raveled, repeated, reshaped, transposed


@implements(np.reshape)
def reshape(a: Any, /, shape: Any, order: Any = "C", *, copy: bool | None = None) -> Any:
    """Return the same elements in `shape`, one of whose lengths may be -1; a Tensor has no order but C.

    Returns:
        Array of `shape` and the dtype of `a`, a view.

    Raises:
        TypeError: order "A", which asks how an array lies in memory, while a function is traced.
        ValueError: `shape` has another number of elements.

    Derivative:
        The cotangent in the shape of `a`.

    Example:
        >>> fnp.reshape(np.arange(6.0), (2, -1)).shape
        (2, 3)
    """
    a = as_value(a)
    if not isinstance(a, Tensor) and order != "C":
        return np.reshape(a, shape, order)
    wanted = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    if order == "A":
        order = _order_of(a, "reshape")
    if order != "C":
        if order != "F":
            raise ValueError(f"order must be 'C', 'F' or 'A', not {order!r}")
        return transpose(reshape(transpose(a), wanted[::-1]))
    if -1 in wanted or any(not isinstance(n, int) for n in wanted):
        wanted = np.broadcast_to(np.empty((), np.int8), a.shape).reshape(wanted).shape
    return reshaped(a, wanted)


@implements(np.ravel)
def ravel(a: Any, order: Any = "C") -> Any:
    """Return the elements along one axis; a Tensor has no order but C.

    Returns:
        Vector of the elements of `a`, a view; dtype of `a`.

    Raises:
        TypeError: order "A" or "K", which ask how an array lies in memory, while a function is traced.

    Derivative:
        The cotangent in the shape of `a`.

    Example:
        >>> fnp.ravel(np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([1., 2., 3., 4.])
    """
    a = as_value(a)
    if not isinstance(a, Tensor) and order != "C":
        return np.ravel(a, order)
    if order == "A":
        order = _order_of(a, "ravel")
    if order == "K":
        a = transposed(a, _axes_in_memory(a))
    elif order == "F":
        a = transpose(a)
    elif order != "C":
        raise ValueError(f"order must be 'C', 'F', 'A' or 'K', not {order!r}")
    return raveled(a)


def _example(a: Tensor, name: str, order: str) -> Any:
    """Return an array that lies in memory as `a` does.

    Raises:
        TypeError: nobody knows, and more than one axis is longer than one.
    """
    example = memory_of(a)
    if example is not None and is_laid_out(a):
        return example
    if a._value.__class__ is DeviceArray and a._value.buffer.flags.c_contiguous:
        return np.empty(a.shape)
    if sum(n > 1 for n in a.shape) > 1:
        raise TypeError(
            f"{name} with order={order!r} at {user_place()} depends on the memory layout, which is not known "
            "for computed and traced arrays; give order='C' or order='F'"
        )
    return np.empty(a.shape)


def _order_of(a: Tensor, name: str) -> str:
    """Return the order in which NumPy reads an array where it may choose."""
    flags = _example(a, name, "A").flags
    return "F" if flags.f_contiguous and not flags.c_contiguous else "C"


def _axes_in_memory(a: Tensor) -> tuple[int, ...]:
    """Return the axes of an array in their order in memory."""
    example = _example(a, "ravel", "K")
    strides = [abs(s) if n > 1 else 0 for s, n in zip(example.strides, a.shape, strict=True)]
    axes: list[int] = []  # NumPy's iterators insert axes, of which those without strides have no place
    for i in reversed(range(len(strides))):
        place = 0
        for k in range(len(axes)):
            if strides[i] and strides[axes[k]]:
                if strides[axes[k]] <= strides[i]:
                    break
                place = k + 1
        axes.insert(place, i)
    return tuple(axes)


@implements()
def flatten(a: Tensor, order: Any = "C") -> Tensor:
    """Return a copy of the elements along one axis."""
    flat: Tensor = recopied(ravel(a, order), "C")
    return flat


@implements(np.transpose, np.permute_dims)
def transpose(a: Any, axes: Any = None) -> Any:
    """Return the axes permuted; reversed where `axes` is None.

    Returns:
        Array of the elements of `a` with its axes in another order, a view.

    Raises:
        ValueError: `axes` are no permutation.

    Derivative:
        The cotangent with its axes permuted back.

    Example:
        >>> fnp.transpose(np.ones((2, 3, 4))).shape
        (4, 3, 2)
    """
    a = as_value(a)
    n = len(a.shape)
    if axes is None:
        return transposed(a, tuple(range(n - 1, -1, -1)))
    axes = tuple(axes) if np.iterable(axes) else (axes,)
    if len(axes) != n:
        raise ValueError(f"axes don't match array: {axes} for {n} axes")
    return transposed(a, normalize_axis_tuple(axes, n))


@implements(np.matrix_transpose)
def matrix_transpose(x: Any, /) -> Any:
    """Return the last two axes swapped.

    Returns:
        Array (..., m, n) of (..., n, m), a view; dtype of `x`.

    Raises:
        ValueError: fewer than two axes.

    Derivative:
        The cotangent transposed.

    Example:
        >>> fnp.matrix_transpose(np.ones((5, 2, 3))).shape
        (5, 3, 2)
    """
    if len(x.shape) < 2:
        raise ValueError(f"matrix_transpose needs at least two axes, not {len(x.shape)}")
    return swapaxes(x, -1, -2)


@implements(np.swapaxes)
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Return two axes swapped.

    Returns:
        Array of the elements of `a` with two axes swapped, a view.

    Raises:
        AxisError: an axis out of bounds.

    Derivative:
        The cotangent with the same axes swapped.

    Example:
        >>> fnp.swapaxes(np.ones((2, 3, 4)), 0, 2).shape
        (4, 3, 2)
    """
    a = as_value(a)
    n = len(a.shape)
    i, j = normalize_axis_index(axis1, n), normalize_axis_index(axis2, n)
    order = list(range(n))
    order[i], order[j] = j, i
    return transposed(a, tuple(order))


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Return axes moved to new positions, the others in their order.

    Returns:
        Array of the elements of `a` with its axes in another order, a view.

    Raises:
        AxisError: an axis out of bounds.

    Derivative:
        The cotangent with its axes moved back.

    Example:
        >>> fnp.moveaxis(np.ones((2, 3, 4)), 0, -1).shape
        (3, 4, 2)
    """
    a = as_value(a)
    n = len(a.shape)
    s, d = normalize_axis_tuple(source, n, "source"), normalize_axis_tuple(destination, n, "destination")
    if len(s) != len(d):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [i for i in range(n) if i not in s]
    for place, i in sorted(zip(d, s, strict=True)):
        order.insert(place, i)
    return transposed(a, tuple(order))


@implements(np.rollaxis)
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """Return an axis rolled back until it lies before the axis `start`.

    Returns:
        Array of the elements of `a` with its axes in another order, a view.

    Raises:
        AxisError: an axis out of bounds.

    Derivative:
        The cotangent with its axes moved back.

    Example:
        >>> fnp.rollaxis(np.ones((2, 3, 4)), 2).shape
        (4, 2, 3)
    """
    n = len(as_value(a).shape)
    axis = normalize_axis_index(axis, n)
    start = start + n if start < 0 else start
    if not 0 <= start <= n:
        raise np.exceptions.AxisError(start, n + 1)
    return moveaxis(a, axis, start - (axis < start))


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Any:
    """Return `a` without axes of length one.

    Returns:
        Array of the elements of `a`, a view.

    Raises:
        ValueError: an axis in `axis` is longer than one.

    Derivative:
        The identity.

    Example:
        >>> fnp.squeeze(np.ones((1, 3, 1))).shape
        (3,)
    """
    a = as_value(a)
    if not a.shape and axis in {0, -1}:  # numbers have one axis where NumPy asks for one
        axis = None
    axes = range(len(a.shape)) if axis is None else normalize_axis_tuple(axis, len(a.shape))
    if axis is not None and any(a.shape[i] != 1 for i in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return reshaped(a, tuple(n for i, n in enumerate(a.shape) if i not in axes or n != 1))


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Any:
    """Return `a` with new axes of length one.

    Returns:
        Array of the elements of `a`, with axes of length one at `axis`.

    Raises:
        AxisError: an axis out of bounds, or twice.

    Derivative:
        The identity.

    Example:
        >>> fnp.expand_dims(np.ones(3), (0, 2)).shape
        (1, 3, 1)
    """
    a = as_value(a)
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    n = len(a.shape) + len(axes)
    places = normalize_axis_tuple(axes, n)
    lengths = iter(a.shape)
    return reshaped(a, tuple(1 if i in places else next(lengths) for i in range(n)))


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """Return `array` repeated up to `shape`.

    Returns:
        Array of `shape` and of the dtype of `array`; its elements share memory, so it is read-only.

    Raises:
        ValueError: `shape` is none to which it broadcasts.

    Derivative:
        The sums of the cotangents over the axes along which it is repeated.

    Example:
        >>> fg.grad(lambda x: fnp.broadcast_to(x, (2, 3)).sum())(1.0)
        np.float64(6.0)
    """
    array = as_value(array)
    wanted = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    if np.broadcast_shapes(array.shape, wanted) != wanted:
        raise ValueError(f"cannot broadcast shape {array.shape} to shape {wanted}")
    return repeated(array, wanted)


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    """Return arrays repeated up to their common shape.

    Returns:
        Tuple of arrays of the common shape; dtypes stay.

    Raises:
        ValueError: shapes do not broadcast.

    Derivative:
        Of each array the sums of the cotangents over the axes along which it is repeated.

    Example:
        >>> [x.shape for x in fnp.broadcast_arrays(np.ones((2, 1)), np.ones(3))]
        [(2, 3), (2, 3)]
    """
    xs = list(map(as_array, alike(together(*args))))
    if not any(isinstance(x, Tensor) for x in xs):
        return np.broadcast_arrays(*xs, subok=subok)
    shape = np.broadcast_shapes(*(x.shape for x in xs))
    return tuple([_broadcast(x, shape) for x in xs])


def _broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    if tuple(x.shape) == shape:
        return x
    return reshaped(x, shape) if x.shape and math.prod(shape) == x.size else repeated(x, shape)


@implements(np.atleast_1d)
def atleast_1d(*arys: Any) -> Any:
    """Return arrays with at least one axis.

    Returns:
        One array, or a tuple of several; dtypes stay.

    Derivative:
        The identity.

    Example:
        >>> fnp.atleast_1d(3.0)
        array([3.])
    """
    found = alike([reshaped(x, x.shape or (1,)) for x in together(*arys)])
    return found[0] if len(found) == 1 else tuple(found)


@implements(np.atleast_2d)
def atleast_2d(*arys: Any) -> Any:
    """Return arrays with at least two axes, new ones in front.

    Returns:
        One array, or a tuple of several; dtypes stay.

    Derivative:
        The identity.

    Example:
        >>> fnp.atleast_2d(np.array([1.0, 2.0])).shape
        (1, 2)
    """
    found = alike([reshaped(x, (*(1,) * (2 - len(x.shape)), *x.shape)) for x in together(*arys)])
    return found[0] if len(found) == 1 else tuple(found)


@implements(np.atleast_3d)
def atleast_3d(*arys: Any) -> Any:
    """Return arrays with at least three axes, as NumPy arranges them.

    Returns:
        One array, or a tuple of several, vectors as (1, n, 1), matrices as (n, m, 1); dtypes stay.

    Derivative:
        The identity.

    Example:
        >>> fnp.atleast_3d(np.ones(2)).shape
        (1, 2, 1)
    """
    found = alike(
        [reshaped(x, np.atleast_3d(np.broadcast_to(np.int8(0), x.shape)).shape) for x in together(*arys)]
    )
    return found[0] if len(found) == 1 else tuple(found)


@implements(np.astype)
def astype(
    x: Any,
    dtype: Any,
    /,
    *,
    copy: bool = True,
    device: Any = None,
    casting: Any = "unsafe",
    order: Any = "K",
    subok: bool = True,
) -> Any:
    """Return `x` as `dtype`; complex to real takes the real part, integers have no gradient.

    Returns:
        Array of the shape of `x` and of `dtype`.

    Raises:
        TypeError: `casting` forbids it.

    Derivative:
        The identity between floats; of complex to real numbers that of `real`; zero where either is an
        integer.

    Example:
        >>> fnp.astype(fg.tensor([1.7, 2.0]), int)
        Tensor([1, 2])
    """
    x, kind = as_value(x), np.dtype(dtype)
    if device is not None and isinstance(x, Tensor):
        x = x.to(device)
    if not np.can_cast(x.dtype, kind, casting):
        raise TypeError(f"cannot cast from {x.dtype} to {kind} with casting={casting!r}")
    if isinstance(x, Tensor) and x.dtype == kind:
        return recopied(x, order) if copy else x
    if order == "A" and isinstance(x, Tensor):
        x = recopied(x, "A")
    made = bind("convert", x, dtype=kind)
    return recopied(made, order) if order in {"C", "F"} and isinstance(x, Tensor) else made


@implements(np.shape)
def shape(a: Any) -> tuple[int, ...]:
    """Return the lengths of the axes.

    Returns:
        A tuple of integers; known under `jit` and `vmap`.

    Derivative:
        None: the results are integers.

    Example:
        >>> fnp.shape(np.ones((2, 3)))
        (2, 3)
    """
    return tuple(as_value(a).shape)


@implements(np.ndim)
def ndim(a: Any) -> int:
    """Return the number of axes.

    Returns:
        An integer; known under `jit` and `vmap`.

    Derivative:
        None: the result is an integer.

    Example:
        >>> fnp.ndim(np.ones((2, 3)))
        2
    """
    return len(as_value(a).shape)


@implements(np.size)
def size(a: Any, axis: Any = None) -> int:
    """Return the number of elements, or of positions along axes.

    Returns:
        An integer; known under `jit` and `vmap`.

    Raises:
        AxisError: an axis out of bounds.

    Derivative:
        None: the result is an integer.

    Example:
        >>> fnp.size(np.ones((2, 3)))
        6
    """
    a = as_value(a)
    axes = range(len(a.shape)) if axis is None else normalize_axis_tuple(axis, len(a.shape))
    return math.prod(a.shape[i] for i in axes)
