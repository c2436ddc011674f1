"""Reading and writing elements: by indices, masks, along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad import tree
from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import as_array as array_of
from fgrad.backend.devices import copied, on_host
from fgrad.core.dispatch import apply_unary, binary, bind
from fgrad.core.observers import observed_primitives
from fgrad.core.primitive import (
    CHEAP,
    MOVES,
    PRIMITIVES,
    TOTAL,
    declare,
    flat,
)
from fgrad.core.stored import PLAIN
from fgrad.core.tape import CUT
from fgrad.core.tensor import Tensor, wrap
from fgrad.core.trace import Tracer
from fgrad.core.views import is_array, rebind, view_of
from fgrad.numpy.arrays import (
    as_target,
    concrete,
    next_to,
    promoted_as,
)
from fgrad.numpy.masked_selection import MaskedSelection, masked_selection
from fgrad.numpy.registry import (
    declare_operator,
    implements,
    written_back,
)
from fgrad.numpy.rounding import clip
from fgrad.numpy.views import sliced
from fgrad.ops import indexing, linear
from fgrad.ops.indices import HOLE

declare(
    "stop_gradient",
    run=lambda x: x,
    vjp=flat,
    shape=lambda x: x,
    batch=lambda _, x: bind("stop_gradient", x),
    traits={MOVES, CHEAP, TOTAL},
    parts=1,
    stored=PLAIN,
)


@implements()
def stop_gradient(x: Any) -> Any:
    """Return the values of a pytree as constants for every transformation; arrays and numbers as they are.

    Args:
        x: pytree.

    Returns:
        The pytree, its arrays of the same shapes and dtypes.

    Derivative:
        Zero: `x` counts as a constant.

    Example:
        >>> fg.grad(lambda x: x * fg.stop_gradient(x))(3.0)
        np.float64(3.0)
    """
    if x.__class__ is Tensor:
        return bind("stop_gradient", x)
    return x if tree.is_leaf_type(x.__class__) else tree.map(_stopped, x)


def _stopped(x: Any) -> Any:
    return bind("stop_gradient", x) if x.__class__ is Tensor else x


_SLICE = PRIMITIVES["slice"]


_BASIC = frozenset({int, slice, type(None), type(Ellipsis)})


@implements()
def getitem(x: Any, index: Any) -> Any:
    """Return `x[index]`, for every index that NumPy takes."""
    if index.__class__ is slice:
        start, stop, step = index.start, index.stop, index.step
        basic = (
            (start is None or start.__class__ is int)
            and (stop is None or stop.__class__ is int)
            and (step is None or step.__class__ is int)
        )
    else:
        basic = index.__class__ in _BASIC
    if basic:
        params = {"index": (index,)}
        if x.__class__ is Tensor and not observed_primitives:  # who observes has to see that it runs
            value = x._value
            if value.__class__ is np.ndarray:
                return view_of(x, _SLICE, params, value[index])
        return view_of(x, _SLICE, params)
    if index.__class__ is tuple:
        for part in index:
            if part.__class__ is Tensor or part.__class__ is tuple:
                index = plain_index(index)
                break
    elif index.__class__ is Tensor:
        found = masked_selection(x, index)
        if found is not None:
            return found
        index = plain_index(index)
    return indexing.getitem(x, index, sliced)


def plain_index(index: Any) -> Any:
    """Return an index without Tensors of no axes where NumPy wants integers."""
    if isinstance(index, tuple):
        return tuple(map(plain_index, index))
    if isinstance(index, Tensor) and not index.shape and index.dtype.kind in "iu":
        value = index._value
        return index if isinstance(value, Tracer) else int(value)
    return index


@implements()
def setitem(x: Tensor, index: Any, value: Any) -> None:
    """Give the handle `x` the value it has with `value` at `index`; derivatives flow from both."""
    if value.__class__ is MaskedSelection:
        rebind(x, value.written(x, index))
        return
    value = as_target(value, x, index)
    if _is_everything(index):
        shape = tuple(value.shape)
        lead = len(shape) - len(x.shape)
        if lead > 0 and shape[:lead] == (1,) * lead:
            value = linear.reshape(value, shape[lead:])
        if np.broadcast_shapes(tuple(value.shape), x.shape) != x.shape:
            raise ValueError(f"could not broadcast input array from shape {shape} into shape {x.shape}")
        full = linear.broadcast_to(value, x.shape)
        rebind(x, full if isinstance(full, Tensor) else wrap(copied(full)))
        if not x._nodes:
            x._nodes = (CUT,)
        return
    mask = index[0] if isinstance(index, tuple) and len(index) == 1 else index
    if _is_unknown_mask(mask, x) and _is_one(value, 1 + x.ndim - mask.ndim):
        if value.ndim > x.ndim - mask.ndim:
            value = linear.reshape(value, value.shape[1:])
        chosen = linear.reshape(mask, (*mask.shape, *[1] * (x.ndim - mask.ndim)))
        new = bind("where", chosen, value, x)  # is the same, and asks for no value of the mask
    else:
        new = indexing.setitem(x, plain_index(index), value)
    rebind(x, new)


def _is_unknown_mask(mask: Any, x: Tensor) -> bool:
    """Return whether `mask` chooses elements by values that are not here."""
    return (
        isinstance(mask, Tensor)
        and isinstance(mask._value, Tracer | DeviceArray)
        and mask.dtype.kind == "b"
        and 0 < mask.ndim <= x.ndim
        and 0 not in mask.shape
        and mask.shape == x.shape[: mask.ndim]
    )


def _is_one(value: Any, most: int) -> bool:
    """Return whether all that is chosen gets one value, which has at most so many axes."""
    return len(value.shape) < most or (len(value.shape) == most and value.shape[0] == 1)


def _is_everything(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(p is Ellipsis or (isinstance(p, slice) and p == slice(None)) for p in parts)


@implements(np.take)
def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    """Return elements at indices along an axis; None flattens first.

    Returns:
        Array of the shape of `a`, with that of `indices` in the place of the axis; dtype of `a`.

    Raises:
        IndexError: an index out of bounds, with `mode` "raise".
        TypeError: floats as indices.

    Derivative:
        Each element gets the sum of the cotangents of its copies.

    Example:
        >>> fg.grad(lambda x: fnp.take(x, [0, 0, 2]).sum())(np.array([1.0, 2.0, 3.0]))
        array([2., 0., 1.])
    """
    a = next_to(a, indices)
    if axis is None or (not a.shape and axis in {0, -1}):
        a, axis = linear.reshape(a, (a.size,)), 0
    axis = normalize_axis_index(axis, len(a.shape))
    places = indices if isinstance(indices, Tensor) else array_of(indices)
    nothing = places.dtype.kind == "f" and not places.size and not hasattr(indices, "dtype")
    if places.dtype.kind == "b" or nothing:
        places = linear.convert(places, np.dtype(np.intp))
    if not np.can_cast(places.dtype, np.intp, "same_kind"):
        raise TypeError(
            f"Cannot cast array data from {places.dtype} to {np.dtype(np.intp)}: indices must be integers"
        )
    if places.dtype == np.uint64 and not hasattr(indices, "dtype"):
        places = np.asarray(indices, np.intp)  # NumPy refuses numbers of Python's that are too large
    if places.dtype == np.uint64:  # from 2^63 on they count from the end, single ones too, unlike in x[i]
        places = linear.convert(places, np.dtype(np.intp))
    n = a.shape[axis]
    if mode in {"wrap", "clip"}:
        places = linear.convert(places, np.dtype(np.intp))  # n need not be a number of a smaller dtype
        places = places % n if mode == "wrap" else clip(places, 0, n - 1)
    elif mode != "raise":
        raise ValueError(f"mode must be 'raise', 'wrap' or 'clip', not {mode!r}")
    if 0 in a.shape[:axis]:  # there is nothing to take, wherever it would be taken
        shape = (*a.shape[:axis], *places.shape, *a.shape[axis + 1 :])
        return written_back(beside(linear.reshape(a, shape), indices), out)
    if isinstance(places, Tensor) and not isinstance(places._value, Tracer):
        places = places._value
    taken = bind("gather", a, places, template=(*(slice(None),) * axis, HOLE))
    return written_back(beside(taken, indices), out)


def beside(y: Any, *xs: Any) -> Any:
    """Return a new array, as Tensor if one of `xs` is a Tensor."""
    return wrap(y) if not isinstance(y, Tensor) and any(isinstance(x, Tensor) for x in xs) else y


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """Return elements at indices along an axis, other axes matched.

    Returns:
        Array of the shape of `indices`, broadcast against `arr` in other axes; dtype of `arr`.

    Raises:
        IndexError: an index out of bounds, or indices that are no integers.
        ValueError: another number of axes.

    Derivative:
        Each element gets the sum of the cotangents of its copies.

    Example:
        >>> x = np.array([[3.0, 1.0, 2.0]])
        >>> fnp.take_along_axis(x, np.argsort(x), -1)
        array([[1., 2., 3.]])
    """
    arr, given = next_to(arr, indices), indices
    indices = indices if isinstance(indices, Tensor) else np.asarray(indices)
    if indices.dtype.kind not in "iu":
        raise IndexError(f"`indices` must be an integer array, not of dtype {indices.dtype}")
    if axis is None:
        arr, axis = linear.reshape(arr, (arr.size,)), 0
    n = len(arr.shape)
    axis = normalize_axis_index(axis, n)
    if len(indices.shape) != n:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    return beside(along_axis(arr, indices, axis), given)


def along_axis(x: Any, indices: Any, axis: int, *, unique: bool = False) -> Any:
    """Return elements at indices along an axis, other axes matched; `unique`: no index occurs twice."""
    n = len(x.shape)
    places = [np.arange(m).reshape([-1 if k == i else 1 for k in range(n)]) for i, m in enumerate(x.shape)]
    places[axis] = indices
    return bind("gather", x, *places, template=(HOLE,) * n, unique=unique)


@implements(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the dtype that NumPy's promotion gives.

    Returns:
        The dtype; of Tensors as of arrays. Python's numbers give way to arrays.

    Raises:
        TypeError: dtypes that nothing holds together.

    Derivative:
        None: the result is a dtype.

    Example:
        >>> fnp.result_type(np.float32(1), 2.0)
        dtype('float32')
    """
    return np.result_type(*(promoted_as(x) if isinstance(x, Tensor) else x for x in arrays_and_dtypes))


@implements(np.array2string)
def array2string(a: Any, *args: Any, **kw: Any) -> str:
    """Return the elements as text.

    Returns:
        Text; arguments as in NumPy.

    Raises:
        TypeError: values are not known, under `vmap` or while staged.

    Derivative:
        None: the result is text.

    Example:
        >>> fnp.array2string(np.array([1.0, 2.0]))
        '[1. 2.]'
    """
    return np.array2string(on_host(concrete(a, "array2string")), *args, **kw)


_POWERS = {
    2: PRIMITIVES["square"],
    1: PRIMITIVES["positive"],
    0.5: PRIMITIVES["sqrt"],
    -1: PRIMITIVES["reciprocal"],
}


def _power(x: Any, y: Any) -> Any:
    """Return `x ** y`, by multiplication where `y` is the number 2, by the square root where it is 0.5."""
    if x.__class__ is Tensor and (y.__class__ is int or y.__class__ is float):
        primitive = _POWERS.get(y)
        if primitive is not None:
            if x._value.dtype.kind in "fc":
                return apply_unary(primitive, x)
            if x._value.dtype.kind == "b" and y == 2 and y.__class__ is int and is_array(x):
                return apply_unary(primitive, x)  # as NumPy does, with a result of int8
    return binary("power", x, y)


declare_operator("power", "pow", _power)
