"""NumPy's functions that write to an array: they give a Tensor's handle a new value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad.core.dispatch import bind
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.tensor import Tensor, alias
from fgrad.core.trace import Tracer
from fgrad.core.views import check_writable, has_views, is_array, rebind, reshape_handle, unordered
from fgrad.numpy.arrays import as_places, as_target, concrete, known, next_to, number_type
from fgrad.numpy.cumulative import cumsum
from fgrad.numpy.indexing import setitem
from fgrad.numpy.insertion import resize as _resized
from fgrad.numpy.registry import cast, implements, storable
from fgrad.numpy.rounding import clip
from fgrad.numpy.shapes import reshape as _reshaped
from fgrad.ops import indexing, linear
from fgrad.ops.indices import HOLE


def _on_array(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Write to an array of NumPy, which cannot hold what is being differentiated."""
    function(*map(storable, args), **kwargs)


def _numbers(x: Any) -> Any:
    """Return what is to be written as NumPy would be given it; zeros like it where it is a Tensor."""
    weak = number_type(x)
    if weak is not None:
        return weak(1)
    if not isinstance(x, Tensor):
        return x
    return np.zeros(min(x.size, 1), x.dtype) if is_array(x) else x.dtype.type(0)


def _flat(x: Any) -> Any:
    return linear.reshape(x, (math.prod(x.shape),))


def _repeated(values: Any, n: int) -> Any:
    """Return n elements of flat `values`, over again where there are too few."""
    if values.size == 1:
        return linear.broadcast_to(values, (n,))
    if values.size >= n:
        return bind("slice", values, index=(slice(n),))
    return bind("gather", values, np.arange(n) % values.size, template=(HOLE,))


def _write_flat(a: Tensor, places: Any, values: Any) -> None:
    """Give the handle `a` the value it has with `values` at places of the flattened array."""
    new = linear.reshape(indexing.setitem(_flat(a), places, values), a.shape)
    rebind(a, unordered(new, a) if isinstance(a._value, Tracer) else new)  # the memory of `a` stays as it was


@implements(np.put)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Write elements to indices of the flattened array; the last one stays where indices repeat.

    Args:
        a: the target, a Tensor or array.
        ind: indices, in any shape.
        v: values, flattened; over again where there are too few.
        mode: what an index beyond the end means: "raise" an error, "wrap" around, or "clip".

    Returns:
        None: `a` keeps its shape and dtype.

    Raises:
        IndexError: an index beyond the end.
        TypeError: the target is an array and a value is being differentiated.

    Derivative:
        The identity, for the value that stays; the old elements there get none.

    Example:
        >>> y = fnp.zeros(3)
        >>> fnp.put(y, [0, 2], [1.0, 2.0])
        >>> y
        Tensor([1., 0., 2.])
    """
    if not isinstance(a, Tensor):
        _on_array(np.put, a, ind, v, mode)
        return
    check_writable(a)
    values, n = _flat(as_target(v, a)), a.size
    places = _flat(as_places(ind))
    if mode == "wrap":
        places = places % max(n, 1)
    elif mode == "clip":
        places = clip(places, 0, n - 1)
    elif mode != "raise":
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    if not n and places.size:
        raise IndexError("cannot replace elements of an empty array")
    if values.size and places.size:
        _write_flat(a, places, _repeated(values, places.size))


@implements(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    """Write values to indices along an axis, other axes matched; the inverse of `take_along_axis`.

    Args:
        arr: the target, a Tensor or array.
        indices: those along the axis, with as many axes as the target.
        values: broadcast to the shape of `indices`.
        axis: the axis; None flattens the target.

    Returns:
        None: `arr` keeps its shape and dtype.

    Raises:
        IndexError: indices that are not integers, or out of bounds.
        ValueError: `indices` has another number of axes.

    Derivative:
        The identity, for the value that stays; the old elements there get none.

    Example:
        >>> y = fnp.zeros((1, 3))
        >>> fnp.put_along_axis(y, np.array([[1]]), 5.0, -1)
        >>> y
        Tensor([[0., 5., 0.]])
    """
    if not isinstance(arr, Tensor):
        _on_array(np.put_along_axis, arr, indices, values, axis)
        return
    places = indices if isinstance(indices, Tensor) else np.asarray(indices)
    if places.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    n = 1 if axis is None else len(arr.shape)
    if len(places.shape) != n:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    new = as_target(values, arr)
    if axis is None:
        _write_flat(arr, places, new)
        return
    axis = normalize_axis_index(axis, n)
    grid = [np.arange(m).reshape([-1 if k == i else 1 for k in range(n)]) for i, m in enumerate(arr.shape)]
    rebind(arr, indexing.setitem(arr, (*grid[:axis], places, *grid[axis + 1 :]), new))


@implements(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    """Write `vals`, in order and over again, to the elements for which the mask holds.

    Returns:
        None: `arr` keeps its shape and dtype.

    Raises:
        TypeError: the target is an array and a value is being differentiated, or its dtype cannot hold it.
        ValueError: a mask of another size, or nothing to write.

    Derivative:
        The identity, for the values that are written; the old elements there get none.

    Example:
        >>> y = fnp.zeros(3)
        >>> fnp.place(y, np.array([True, False, True]), [1.0, 2.0])
        >>> y
        Tensor([1., 0., 2.])
    """
    if not isinstance(arr, Tensor):
        _on_array(np.place, arr, mask, vals)
        return
    mask = next_to(mask, arr)
    if mask.size != arr.size:
        raise ValueError("place: mask and data must be the same size")
    np.place(np.zeros(1, arr.dtype), [False], _numbers(vals))  # raises what is due
    values = _flat(as_target(vals, arr))
    if known(mask) is None and values.size:
        check_writable(arr)
        chosen = linear.reshape(linear.convert(mask, np.dtype(bool)), arr.shape)
        number = cumsum(_flat(chosen)) - 1  # of those before, which is below zero only where none is chosen
        rows = bind("gather", values, number % values.size, template=(HOLE,))
        rebind(arr, bind("where", chosen, linear.reshape(rows, arr.shape), arr))
        return
    places = np.flatnonzero(concrete(mask, "place"))
    if not places.size:
        return
    if not values.size:
        raise ValueError("Cannot insert from an empty array!")
    _write_flat(arr, places, _repeated(values, places.size))


@implements(np.putmask)
def putmask(a: Any, /, mask: Any, values: Any) -> None:
    """Write the elements of `values` that stand where the mask holds; `values` over again if it is smaller.

    Returns:
        None: `a` keeps its shape and dtype.

    Raises:
        TypeError: the target is an array and a value is being differentiated, or its dtype cannot hold it.
        ValueError: a mask of another size.

    Derivative:
        The identity, for the values that are written; the old elements there get none.

    Example:
        >>> y = fnp.zeros(2)
        >>> fnp.putmask(y, [False, True], [1.0, 2.0])
        >>> y
        Tensor([0., 2.])
    """
    if not isinstance(a, Tensor):
        _on_array(np.putmask, a, mask, values)
        return
    check_writable(a)
    np.putmask(np.zeros(1, a.dtype), [False], _numbers(values))  # raises what is due
    chosen, new = next_to(mask, a), _flat(as_target(values, a))
    if chosen.size != a.size:
        raise ValueError("putmask: mask and data must be the same size")
    if new.size and a.size:
        rows = linear.reshape(_repeated(new, a.size), a.shape)
        rebind(a, bind("where", linear.reshape(chosen, a.shape), rows, a))


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """Write `src`, broadcast, to the elements of `dst` for which `where` holds.

    Returns:
        None: `dst` keeps its shape and dtype.

    Raises:
        TypeError: `casting` forbids it, or the target is an array and a value is being differentiated.
        ValueError: `src` or `where` does not broadcast.

    Derivative:
        The identity, for `src` where it is written; `dst` keeps its gradient elsewhere.

    Example:
        >>> y = fnp.zeros(2)
        >>> fnp.copyto(y, [1.0, 2.0], where=[True, False])
        >>> y
        Tensor([1., 0.])
    """
    if not isinstance(dst, Tensor):
        _on_array(np.copyto, dst, src, casting, storable(where))
        return
    weak = number_type(src)
    if weak is not None:
        known = weak(1) if isinstance(src, Tensor) else src
        np.copyto(np.empty((), dst.dtype), known, casting)  # it knows what may be written
    else:
        src = cast(next_to(src, dst), dst.dtype, casting)
    new = as_target(src, dst)
    if where is True:
        setitem(dst, Ellipsis, new)
        return
    shape = dst.shape
    mask = next_to(where, dst)
    if np.broadcast_shapes(tuple(mask.shape), tuple(new.shape), shape) != shape:
        raise ValueError(f"could not broadcast {new.shape} and {mask.shape} into shape {shape}")
    rebind(dst, bind("where", mask, new, dst))


@implements(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Write values to the diagonal, in order and over again; of more than two axes where all are equal.

    Args:
        a: the target, a Tensor or array with at least two axes.
        val: values, flattened.
        wrap: whether the diagonal of a tall matrix starts anew below.

    Returns:
        None: `a` keeps its shape and dtype.

    Raises:
        TypeError: the target is an array and a value is being differentiated.
        ValueError: less than two axes, or axes of unequal length where there are more.

    Derivative:
        The identity, for the values; the old diagonal gets none.

    Example:
        >>> y = fnp.zeros((2, 2))
        >>> fnp.fill_diagonal(y, 3.0)
        >>> y
        Tensor([[3., 0.],
                [0., 3.]])
    """
    if not isinstance(a, Tensor):
        _on_array(np.fill_diagonal, a, val, wrap)
        return
    check_writable(a)
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if a.ndim > 2 and len(set(a.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    columns = a.shape[1]
    stop = columns * columns if a.ndim == 2 and not wrap else None
    step = columns + 1 if a.ndim == 2 else 1 + sum(columns**i for i in range(1, a.ndim))
    places = slice(None, stop, step)
    count = len(range(*places.indices(a.size)))
    values = _flat(as_target(val, a))
    if count and values.size:
        _write_flat(a, places, _repeated(values, count))


@implements()
def resize_in_place(a: Tensor, *new_shape: Any, refcheck: bool = True) -> None:
    """Give the handle a new shape: its first elements, zeros behind them.

    Raises:
        ValueError: it is a view, or a view of it exists.
    """
    if a._base is not None:
        raise ValueError("cannot resize this array: it does not own its data")
    if has_views(a):
        raise ValueError(
            "cannot resize an array that references or is referenced by another array in this way; "
            "use the np.resize function, which returns a new one"
        )
    lengths = new_shape[0] if len(new_shape) == 1 and np.ndim(new_shape[0]) else new_shape
    flat, size = _flat(a), math.prod(lengths)
    if size > flat.size:
        flat = bind("slice_backward", flat, shape=(size,), index=(slice(flat.size),))
    rebind(a, _resized(flat, tuple(lengths)))


@implements()
def set_shape(a: Tensor, lengths: Any) -> None:
    """Give the handle another shape for its elements, as `a.shape = lengths` does.

    Raises:
        AttributeError: the elements do not lie in memory so that NumPy could do so without a copy.
        ValueError: another number of elements.
    """
    value = a._value
    if (
        isinstance(value, np.ndarray)
        and value.size
        and not np.may_share_memory(value.reshape(lengths), value)
    ):
        raise AttributeError(
            "Incompatible shape for in-place modification. Use `.reshape()` to make a copy with the desired "
            "shape."
        )
    reshape_handle(a, PRIMITIVES["reshape"], {"shape": tuple(_reshaped(a, lengths).shape)})


class Flat:
    """The elements of a Tensor along one axis, in C order, for reading and writing: what `t.flat` is."""

    def __init__(self, base: Tensor) -> None:
        self.base = base

    def __len__(self) -> int:
        return self.base.size

    def __iter__(self) -> Any:
        return iter(indexing.unstack(_flat(self.base)))

    def __getitem__(self, index: Any) -> Any:
        return _flat(self.base)[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        check_writable(self.base)
        places = np.arange(self.base.size)[index]
        values = _flat(as_target(value, self.base, () if not places.ndim else False))
        if not places.ndim and np.ndim(value):
            raise ValueError("setting an array element with a sequence.")
        _write_flat(self.base, _flat(places), _repeated(values, places.size))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return _flat(self.base).__array__(dtype, copy)

    def copy(self) -> Tensor:
        """Return the elements as a vector."""
        return alias(_flat(self.base))


implements(name="flat")(Flat)
