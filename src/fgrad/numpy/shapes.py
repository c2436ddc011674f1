"""Rearranging elements: shapes, axes, stacking, splitting, padding; all compositions of linear rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from fgrad.core.tensor import Tensor, bind
from fgrad.numpy.arrays import alike, as_value, values
from fgrad.numpy.registry import cast, implements, stored
from fgrad.ops import linear
from fgrad.ops.indexing import HOLE


@implements(np.reshape)
def reshape(a: Any, /, shape: Any, order: Any = "C", *, copy: bool | None = None) -> Any:
    """Return the same elements in `shape`, one of whose lengths may be -1; a Tensor has no order but C."""
    a = as_value(a)
    if not isinstance(a, Tensor) and order != "C":
        return np.reshape(a, shape, order)
    wanted = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    if order not in {"C", "A"}:
        if order != "F":
            raise ValueError(f"order must be 'C', 'F' or 'A', not {order!r}")
        return transpose(reshape(transpose(a), wanted[::-1]))
    if -1 in wanted or any(not isinstance(n, int) for n in wanted):
        wanted = np.broadcast_to(np.empty((), np.int8), a.shape).reshape(wanted).shape
    return linear.reshape(a, wanted)


@implements(np.ravel)
def ravel(a: Any, order: Any = "C") -> Any:
    """Return the elements along one axis; a Tensor has no order but C."""
    a = as_value(a)
    if not isinstance(a, Tensor) and order != "C":
        return np.ravel(a, order)
    return reshape(a, -1, "C" if order == "K" else order)


@implements(np.transpose, np.permute_dims)
def transpose(a: Any, axes: Any = None) -> Any:
    """Return the axes permuted; reversed where `axes` is None."""
    a = as_value(a)
    n = len(a.shape)
    if axes is None:
        return linear.transpose(a, tuple(range(n - 1, -1, -1)))
    if len(axes) != n:
        raise ValueError(f"axes don't match array: {tuple(axes)} for {n} axes")
    return linear.transpose(a, normalize_axis_tuple(axes, n))


@implements(np.matrix_transpose)
def matrix_transpose(x: Any, /) -> Any:
    """Return the last two axes swapped."""
    if len(x.shape) < 2:
        raise ValueError(f"matrix_transpose needs at least two axes, not {len(x.shape)}")
    return swapaxes(x, -1, -2)


@implements(np.swapaxes)
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Return two axes swapped."""
    a = as_value(a)
    n = len(a.shape)
    i, j = normalize_axis_index(axis1, n), normalize_axis_index(axis2, n)
    order = list(range(n))
    order[i], order[j] = j, i
    return linear.transpose(a, tuple(order))


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Return axes moved to new places, the others in their order."""
    a = as_value(a)
    n = len(a.shape)
    s, d = normalize_axis_tuple(source, n, "source"), normalize_axis_tuple(destination, n, "destination")
    if len(s) != len(d):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [i for i in range(n) if i not in s]
    for place, i in sorted(zip(d, s, strict=True)):
        order.insert(place, i)
    return linear.transpose(a, tuple(order))


@implements(np.rollaxis)
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """Return an axis rolled back until it lies before the axis `start`."""
    n = len(as_value(a).shape)
    axis = normalize_axis_index(axis, n)
    start = start + n if start < 0 else start
    if not 0 <= start <= n:
        raise np.exceptions.AxisError(start, n + 1)
    return moveaxis(a, axis, start - (axis < start))


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Any:
    """Return `a` without axes of length one."""
    a = as_value(a)
    axes = range(len(a.shape)) if axis is None else normalize_axis_tuple(axis, len(a.shape))
    if axis is not None and any(a.shape[i] != 1 for i in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return linear.reshape(a, tuple(n for i, n in enumerate(a.shape) if i not in axes or n != 1))


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Any:
    """Return `a` with new axes of length one."""
    a = as_value(a)
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    n = len(a.shape) + len(axes)
    places = normalize_axis_tuple(axes, n)
    lengths = iter(a.shape)
    return linear.reshape(a, tuple(1 if i in places else next(lengths) for i in range(n)))


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """Return `array` repeated up to `shape`."""
    array = as_value(array)
    wanted = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    if np.broadcast_shapes(array.shape, wanted) != wanted:
        raise ValueError(f"cannot broadcast shape {array.shape} to shape {wanted}")
    return linear.broadcast_to(array, wanted)


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    """Return arrays repeated up to their common shape."""
    xs = values(args)
    shape = np.broadcast_shapes(*(x.shape for x in xs))
    return tuple(alike([linear.broadcast_to(x, shape) for x in xs]))


@implements(np.atleast_1d)
def atleast_1d(*arys: Any) -> Any:
    """Return arrays with at least one axis."""
    found = alike([linear.reshape(x, x.shape or (1,)) for x in values(arys)])
    return found[0] if len(found) == 1 else tuple(found)


@implements(np.atleast_2d)
def atleast_2d(*arys: Any) -> Any:
    """Return arrays with at least two axes, new ones in front."""
    found = alike([linear.reshape(x, (*(1,) * (2 - len(x.shape)), *x.shape)) for x in values(arys)])
    return found[0] if len(found) == 1 else tuple(found)


@implements(np.atleast_3d)
def atleast_3d(*arys: Any) -> Any:
    """Return arrays with at least three axes, as NumPy places them."""
    found = alike(
        [linear.reshape(x, np.atleast_3d(np.broadcast_to(np.int8(0), x.shape)).shape) for x in values(arys)]
    )
    return found[0] if len(found) == 1 else tuple(found)


@implements(np.concatenate, np.concat)
def concatenate(
    arrays: Sequence[Any],
    /,
    axis: int | None = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: Any = "same_kind",
) -> Any:
    """Return arrays joined along an axis; None flattens them first."""
    xs = values(arrays)
    if not xs:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    if any(len(x.shape) == 0 for x in xs):
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    place = normalize_axis_index(axis, len(xs[0].shape))
    for x in xs:
        if len(x.shape) != len(xs[0].shape) or any(
            n != m for i, (n, m) in enumerate(zip(x.shape, xs[0].shape, strict=True)) if i != place
        ):
            raise ValueError(
                f"all the input array dimensions except for the concatenation axis must match exactly, "
                f"but the shapes are {[x.shape for x in xs]}"
            )
    kind = np.result_type(*(x.dtype for x in xs)) if dtype is None else np.dtype(dtype)
    return stored(bind("concatenate", *(cast(x, kind, casting) for x in xs), axis=place), out)


@implements(np.stack)
def stack(arrays: Sequence[Any], axis: int = 0, out: Any = None, **kw: Any) -> Any:
    """Return arrays of one shape joined along a new axis."""
    xs = values(arrays)
    if not xs:
        raise ValueError("need at least one array to stack")
    if len({x.shape for x in xs}) != 1:
        raise ValueError("all input arrays must have the same shape")
    place = normalize_axis_index(axis, len(xs[0].shape) + 1)
    return concatenate([expand_dims(x, place) for x in xs], place, out, **kw)


@implements(np.vstack)
def vstack(tup: Sequence[Any], **kw: Any) -> Any:
    """Return arrays joined along the first axis, vectors as rows."""
    return concatenate([atleast_2d(x) for x in values(tup)], 0, **kw)


@implements(np.hstack)
def hstack(tup: Sequence[Any], **kw: Any) -> Any:
    """Return arrays joined along the second axis, vectors along the first."""
    xs = [atleast_1d(x) for x in values(tup)]
    return concatenate(xs, 0 if xs and len(xs[0].shape) == 1 else 1, **kw)


@implements(np.dstack)
def dstack(tup: Sequence[Any]) -> Any:
    """Return arrays joined along the third axis."""
    return concatenate([atleast_3d(x) for x in values(tup)], 2)


@implements(np.column_stack)
def column_stack(tup: Sequence[Any]) -> Any:
    """Return arrays joined along the second axis, vectors as columns."""
    return concatenate([x if len(x.shape) > 1 else reshape(x, (-1, 1)) for x in values(tup)], 1)


@implements(np.append)
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """Return `values` joined to the end of `arr`."""
    if axis is None:
        return concatenate([ravel(arr), ravel(values)])
    return concatenate([arr, values], axis)


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Return parts along an axis, of nearly equal length or split at indices."""
    ary = as_value(ary)
    axis = normalize_axis_index(axis, len(ary.shape))
    n = ary.shape[axis]
    if isinstance(indices_or_sections, int | np.integer):
        if indices_or_sections <= 0:
            raise ValueError("number sections must be larger than 0.")
        each, extra = divmod(n, int(indices_or_sections))
        ends = np.cumsum([0] + extra * [each + 1] + (int(indices_or_sections) - extra) * [each]).tolist()
    else:
        ends = [0, *map(int, indices_or_sections), n]
    lead = (slice(None),) * axis
    return [bind("slice", ary, index=(*lead, slice(start, stop))) for start, stop in pairwise(ends)]


@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Return parts along an axis, of equal length or split at indices."""
    if isinstance(indices_or_sections, int | np.integer):
        n = as_value(ary).shape[axis]
        if n % indices_or_sections:
            raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


def _at_least(ary: Any, n: int, name: str) -> None:
    if len(as_value(ary).shape) < n:
        raise ValueError(f"{name} only works on arrays of {n} or more dimensions")


@implements(np.vsplit)
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Return parts along the first axis."""
    _at_least(ary, 2, "vsplit")
    return split(ary, indices_or_sections, 0)


@implements(np.hsplit)
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Return parts along the second axis, of a vector along the first."""
    _at_least(ary, 1, "hsplit")
    return split(ary, indices_or_sections, 1 if len(as_value(ary).shape) > 1 else 0)


@implements(np.dsplit)
def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Return parts along the third axis."""
    _at_least(ary, 3, "dsplit")
    return split(ary, indices_or_sections, 2)


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> Any:
    """Return the order of elements reversed along axes."""
    m = as_value(m)
    axes = range(len(m.shape)) if axis is None else normalize_axis_tuple(axis, len(m.shape))
    index = tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(len(m.shape)))
    return bind("slice", m, index=index)


@implements(np.fliplr)
def fliplr(m: Any) -> Any:
    """Return the order reversed along the second axis."""
    return flip(m, 1)


@implements(np.flipud)
def flipud(m: Any) -> Any:
    """Return the order reversed along the first axis."""
    return flip(m, 0)


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """Return a plane turned by 90 degrees, k times, from the first towards the second axis."""
    a, b = normalize_axis_tuple(axes, len(as_value(m).shape))
    k %= 4
    if k == 0:
        return as_value(m)
    if k == 2:
        return flip(m, (a, b))
    return swapaxes(flip(m, b), a, b) if k == 1 else flip(swapaxes(m, a, b), b)


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Return elements moved along axes; those that leave come back at the other end."""
    a = as_value(a)
    if axis is None:
        return linear.reshape(roll(ravel(a), shift, 0), a.shape)
    axes = normalize_axis_tuple(axis, len(a.shape), allow_duplicate=True)
    several = np.ndim(shift) > 0 or len(axes) > 1
    moves = zip(*np.broadcast_arrays(shift, axes), strict=True) if several else [(shift, axes[0])]
    for s, i in moves:
        n = a.shape[i]
        k = int(s) % n if n else 0
        if k:
            lead = (slice(None),) * int(i)
            parts = (slice(n - k, None), slice(None, n - k))
            a = bind("concatenate", *(bind("slice", a, index=(*lead, p)) for p in parts), axis=int(i))
    return a


@implements(np.tile)
def tile(A: Any, reps: Any) -> Any:  # noqa: N803 -- NumPy's name
    """Return `A` repeated `reps` times along each axis."""
    a = as_value(A)
    counts = (reps,) if isinstance(reps, int | np.integer) else tuple(reps)
    n = max(len(a.shape), len(counts))
    shape = (*(1,) * (n - len(a.shape)), *a.shape)
    counts = (*(1,) * (n - len(counts)), *counts)
    pairs = tuple(k for c, m in zip(counts, shape, strict=True) for k in (c, m))
    spread = linear.broadcast_to(linear.reshape(a, tuple(k for m in shape for k in (1, m))), pairs)
    return linear.reshape(spread, tuple(c * m for c, m in zip(counts, shape, strict=True)))


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    """Return each element along an axis repeated."""
    a = as_value(a)
    if axis is None:
        a, axis = ravel(a), 0
    axis = normalize_axis_index(axis, len(a.shape))
    places = np.repeat(np.arange(a.shape[axis]), np.asarray(repeats))
    return bind("gather", a, places, template=(*(slice(None),) * axis, HOLE))


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kw: Any) -> Any:
    """Return `array` with borders; Tensors: modes constant, edge, reflect, symmetric, wrap, empty (zeros)."""
    array = as_value(array)
    if not isinstance(array, Tensor) and not isinstance(kw.get("constant_values"), Tensor):
        return np.pad(array, pad_width, mode, **kw)
    if kw.get("reflect_type", "even") != "even":
        raise ValueError("pad: reflect_type='odd' has no rule for Tensors")
    places = np.pad(np.arange(array.size).reshape(array.shape), pad_width, "constant", constant_values=-1)
    if mode in {"constant", "empty"}:
        inside = np.argwhere(places >= 0)
        start = inside.min(axis=0) if inside.size else np.zeros(len(array.shape), int)
        index = tuple(slice(int(s), int(s) + n) for s, n in zip(start, array.shape, strict=True))
        padded = bind("unslice", array, shape=places.shape, index=index)
        fill = kw.get("constant_values", 0)
        if mode == "empty" or (not isinstance(fill, Tensor) and not np.any(fill)):
            return padded
        if np.ndim(fill):
            border = np.pad(np.zeros(array.shape, array.dtype), pad_width, "constant", constant_values=fill)
            return padded + border
        return bind("where", places >= 0, padded, linear.convert(as_value(fill), array.dtype))
    if mode not in {"edge", "reflect", "symmetric", "wrap"}:
        raise ValueError(
            f"pad: the mode {mode!r} has no rule for Tensors; use constant, edge, reflect, symmetric or wrap"
        )
    where_from = np.pad(np.arange(array.size).reshape(array.shape), pad_width, mode, **kw)
    return bind("gather", ravel(array), where_from, template=(HOLE,))


@implements(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return the diagonal of a plane, as a new last axis."""
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = a.shape[-2:]
    n = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    i = np.arange(n)
    return bind("gather", a, i + max(-offset, 0), i + max(offset, 0), template=(Ellipsis, HOLE, HOLE))


@implements(np.diag)
def diag(v: Any, k: int = 0) -> Any:
    """Return the diagonal `k` of a matrix, or the matrix with a vector on its diagonal `k`."""
    v = as_value(v)
    if len(v.shape) == 2:
        return diagonal(v, k)
    if len(v.shape) != 1:
        raise ValueError("Input must be 1- or 2-d.")
    n = v.shape[0] + abs(k)
    i = np.arange(v.shape[0])
    return bind("scatter_add", v, i + max(-k, 0), i + max(k, 0), template=(HOLE, HOLE), shape=(n, n))


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Any:
    """Return the matrix with the flattened elements on its diagonal `k`."""
    return diag(ravel(v), k)


@implements(np.tril)
def tril(m: Any, k: int = 0) -> Any:
    """Return the elements on and below the diagonal `k`, zeros above."""
    m = as_value(m)
    return bind("where", _lower(m.shape, k), m, np.zeros((), m.dtype))


@implements(np.triu)
def triu(m: Any, k: int = 0) -> Any:
    """Return the elements on and above the diagonal `k`, zeros below."""
    m = as_value(m)
    return bind("where", _lower(m.shape, k - 1), np.zeros((), m.dtype), m)


def _lower(shape: tuple[int, ...], k: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return where a matrix lies on or below the diagonal `k`; of a vector NumPy makes a square one."""
    if not shape:
        raise TypeError("a triangle needs an array with axes")
    return np.tri(shape[-2:][0], shape[-1], k, bool)


@implements(np.astype)
def astype(x: Any, dtype: Any, /, *, copy: bool = True, casting: Any = "unsafe", **_: Any) -> Any:
    """Return `x` as `dtype`; complex to real takes the real part, integers have no gradient."""
    x, kind = as_value(x), np.dtype(dtype)
    if not np.can_cast(x.dtype, kind, casting):
        raise TypeError(f"cannot cast from {x.dtype} to {kind} with casting={casting!r}")
    return bind("convert", x, dtype=kind)


@implements(np.shape)
def shape(a: Any) -> tuple[int, ...]:
    """Return the lengths of the axes."""
    return tuple(as_value(a).shape)


@implements(np.ndim)
def ndim(a: Any) -> int:
    """Return the number of axes."""
    return len(as_value(a).shape)


@implements(np.size)
def size(a: Any, axis: Any = None) -> int:
    """Return the number of elements, or of places along axes."""
    a = as_value(a)
    axes = range(len(a.shape)) if axis is None else normalize_axis_tuple(axis, len(a.shape))
    return math.prod(a.shape[i] for i in axes)
