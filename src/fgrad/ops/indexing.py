"""Indexing primitives: slices are parameters, index arrays are operands."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.core.aval import Aval, Shape, assignable, aval_of
from fgrad.core.dispatch import apply_primitive, bind
from fgrad.core.placement import buffer_of, near
from fgrad.core.primitive import (
    KEEPS_C_ORDER_OF_FIRST,
    LARGE,
    OVERWRITES,
    PLACES,
    REARRANGES,
    SPREADS_FIRST,
    TOTAL,
    VJP,
    AccumulatingVJP,
    Pattern,
    declare,
)
from fgrad.core.stored import Stored, is_axis, is_shape
from fgrad.core.tensor import Tensor
from fgrad.ops.compiled import FLOATS, backend
from fgrad.ops.gather import _GATHER
from fgrad.ops.indices import (
    HOLE,
    Index,
    filling,
    gathered,
    has_truth,
    indexed_shape,
    is_index,
    refuse_sequence,
    run_update,
    split_index,
    summed_to_fit,
    whole_index,
    without_lead,
)
from fgrad.ops.linear import broadcast_to, linear, reshape


def setitem(x: Any, index: Any, value: Any) -> Any:
    """Return `x` with `value` at `index`; `value` is cast to the dtype of `x` and broadcast."""
    template, arrays = split_index(x, index)
    scattered = arrays or has_truth(template)
    name, params = ("put", {"template": template}) if scattered else ("update", {"index": template})
    return bind(name, x, value, *arrays, **params)


def scattered(value: Any, x: Any, index: Any) -> Any:
    """Return zeros like `x` with `value` added at `index`: to elements that are named twice, both.

    Raises:
        ValueError: `value` does not broadcast to the shape of `x[index]`.
    """
    template, arrays = split_index(x, index)
    by_arrays = arrays or has_truth(template)
    shape = gathered(x.shape, arrays, template) if by_arrays else indexed_shape(x.shape, template)
    if np.broadcast_shapes(value.shape, shape) != shape:
        raise ValueError(f"array is not broadcastable to correct shape: {value.shape} to {shape}")
    value = broadcast_to(value, shape)
    if by_arrays:
        return bind("scatter_add", value, *arrays, template=template, shape=x.shape)
    return bind("slice_backward", value, shape=x.shape, index=template)


def _raw_slice_backward(ct: Any, x: Aval, params: dict[str, Any]) -> tuple[Any]:
    out = (ct.place if ct.__class__ is DeviceArray else np).zeros(x.shape, ct.dtype)
    out[params["index"]] = ct
    return (out,)


def _run_slice_backward(ct: Any, *, shape: Shape, index: Index) -> Any:
    out = (ct.place if ct.__class__ is DeviceArray else np).zeros(shape, ct.dtype)
    out[index] = ct
    return out


def _shape_update(x: Any, value: Any, *, index: Index) -> Aval:
    inner, given = indexed_shape(np.shape(x), index), np.shape(value)
    if not assignable(given, inner):
        raise ValueError(f"could not broadcast input array from shape {given} into shape {inner}")
    refuse_sequence(given, inner, index)
    return aval_of(x)


def _add_into(buffer: Any, ct: Any, x: Aval, params: dict[str, Any]) -> None:
    part = buffer[params["index"]]
    if part.__class__ is np.ndarray:
        np.add(part, ct, part)
    else:
        buffer[params["index"]] = part + ct


_MANY = 1024  # elements of an array of which single ones are read one after the other


_WORTH = 1 << 14  # elements that would be filled with zeros


def _is_small(ct: Any, x: Aval, params: dict[str, Any]) -> bool:
    """Return whether a slice is a small part of a large array."""
    n = math.prod(x.shape)
    return n >= _MANY and math.prod(ct.shape) * 64 <= n and buffer_of(ct).__class__ is not DeviceArray


def _joined(parts: Sequence[tuple[Any, Aval, dict[str, Any]]]) -> Any:
    """Return the sum of the arrays that hold small parts at their places, else zeros."""
    shape = parts[0][1].shape
    n = math.prod(shape)
    if len(parts) * n < _WORTH:
        arrays = (bind("slice_backward", ct, shape=shape, index=params["index"]) for ct, _, params in parts)
        return functools.reduce(functools.partial(bind, "add"), arrays)
    flat = [reshape(ct, (math.prod(ct.shape),)) for ct, _, _ in parts]
    places = np.concatenate([_places(shape, params["index"]) for _, _, params in parts])
    places.setflags(write=False)
    unique = np.unique(places).size == places.size
    values = bind("concatenate", *flat, axis=0)
    return reshape(bind("scatter_add", values, places, template=(HOLE,), shape=(n,), unique=unique), shape)


def _places(shape: Shape, index: Index) -> Any:
    """Return the places in the flattened array of the elements that slices and integers choose, in order."""
    parts = [p for p in index if p is not None]
    if Ellipsis in parts:
        i = parts.index(Ellipsis)
        parts[i : i + 1] = [slice(None)] * (len(shape) - len(parts) + 1)
    parts += [slice(None)] * (len(shape) - len(parts))
    places = np.zeros((), np.intp)
    for n, part in zip(shape, parts, strict=True):
        places = places * n
        if isinstance(part, slice):
            places = places[..., None] + np.arange(*part.indices(n), dtype=np.intp)
        else:
            places = places + part % n
    return places.reshape(-1)


def _apart_sliced(axis: int, _: Shape, saved: Any) -> int | None:
    """Return the axis from which a basic index takes all of output axis `axis`."""
    index, shape = saved[-1]["index"], saved[0].shape
    used = sum(part is not None and part is not Ellipsis for part in index)
    parts = list(index) if Ellipsis in index else [*index, Ellipsis]
    hidden = [slice(None)] * (len(shape) - used)
    at = parts.index(Ellipsis)
    before = out = 0
    for part in (*parts[:at], *hidden, *parts[at + 1 :]):
        if isinstance(part, slice):
            if out == axis:
                m = shape[before]
                return before if part.indices(m) == (0, m, 1) else None
            before, out = before + 1, out + 1
        elif part is None:
            out += 1
        else:
            before += 1
    return None


linear(
    "slice",
    run=lambda x, *, index: x[index],
    adjoint=lambda ct, x, *, index: bind("slice_backward", ct, shape=x.shape, index=index),
    raw=_raw_slice_backward,
    step=functools.partial(AccumulatingVJP, into=_add_into, is_small=_is_small, joined=_joined),
    shape=lambda x, *, index: Aval(indexed_shape(x.shape, index), x.dtype),
    batch=lambda x, *, index: bind("slice", x, index=whole_index(index)),
    write=lambda x, new, *, index: bind("update", x, new, index=index),
    traits={REARRANGES, PLACES, TOTAL},
    parts=1,
    stored=Stored({"index": is_index}),
    apart=_apart_sliced,
)


linear(
    "slice_backward",
    run=_run_slice_backward,
    adjoint=lambda ct, x, *, shape, index: bind("slice", ct, index=index),
    shape=lambda x, *, shape, index: filling(x, shape, indexed_shape(shape, index)),
    batch=lambda x, *, shape, index: bind(
        "slice_backward", x, shape=(x.shape[0], *shape), index=whole_index(index)
    ),
    traits={PLACES, SPREADS_FIRST, KEEPS_C_ORDER_OF_FIRST},
    parts=1,
    stored=Stored(
        {"shape": is_shape, "index": is_index},
        verify=lambda x, *, shape, index: x.shape == indexed_shape(shape, index),
    ),
)


def _sliced(x: Any, index: Index) -> Any:
    return bind("slice", x, index=index)


def getitem(x: Any, index: Any, sliced: Callable[[Any, Index], Any] = _sliced) -> Any:
    """Return `x[index]`, by `sliced` where no array is part of the index."""
    template, arrays = split_index(x, index)
    if arrays or has_truth(template):
        if x.__class__ is Tensor:
            if len(arrays) == 1 and x._nodes:
                arrays = [_narrow(x, arrays[0])]
            return apply_primitive(_GATHER, (x, *arrays), {"template": template})
        return bind("gather", x, *arrays, template=template)
    return sliced(x, template)


def _narrow(x: Tensor, places: Any) -> Any:
    """Return an index array, or a copy of half the size for the tape, which would keep a copy anyhow.

    That is for many elements of a vector of floats, which kernels read: what takes the time there is memory.
    """
    v = x._value
    if (
        places.__class__ is not np.ndarray
        or places.size < LARGE
        or places.dtype != np.int64
        or not places.flags.c_contiguous
        or v.__class__ is not np.ndarray
        or v.ndim != 1
        or v.dtype not in FLOATS
    ):
        return places
    narrow = backend("gather_scatter").narrowed(places)
    if narrow is None:
        return places
    narrow.setflags(write=False)
    return narrow


def _batch_update(mapped: tuple[bool, ...], x: Any, value: Any, *, index: Index) -> Any:
    if not mapped[0]:
        x = broadcast_to(x, (value.shape[0], *x.shape))
    place = indexed_shape(x.shape[1:], index)
    refuse_sequence(np.shape(value)[mapped[1] :], place, index)
    if mapped[1]:
        value = without_lead(value, place)
    return bind("update", x, value, index=whole_index(index))


def _update_vjp(pattern: Pattern) -> VJP:
    def value_of(ct: Any, saved: Any) -> Any:
        value, params = saved
        return summed_to_fit(bind("slice", ct, index=params["index"]), value.shape)

    def call(ct: Any, *saved: Any) -> list[Any]:
        back = [bind("update", ct, 0.0, index=saved[-1]["index"])] if pattern[0] else []
        return [*back, value_of(ct, saved)] if pattern[1] else back

    def emptied(ct: Any, *saved: Any) -> list[Any]:
        back = [ct, value_of(ct, saved)] if pattern[1] else [ct]
        if pattern[1] and np.may_share_memory(ct, back[1]):
            back[1] = back[1].copy()
        ct[saved[-1]["index"]] = 0
        return back

    avals = (2,) if pattern[1] else ()
    if not pattern[0]:
        return VJP(call, avals=avals, params=True)
    return AccumulatingVJP(call, emptied=emptied, avals=avals, params=True)


declare(
    "update",
    run=run_update,
    vjp=_update_vjp,
    shape=_shape_update,
    batch=_batch_update,
    traits={PLACES, KEEPS_C_ORDER_OF_FIRST, OVERWRITES},
    parts=2,
    stored=Stored({"index": is_index}),
)


# All the parts along an axis at once: the adjoint of many slices would fill as many arrays with zeros.


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """Return the parts of `x` along `axis`, which disappears."""
    return tuple(bind("unstack", x, axis=axis)) if x.shape[axis] else ()


def _run_unstack(x: Any, *, axis: int) -> tuple[Any, ...]:
    rows = x if axis == 0 else np.moveaxis(x, axis, 0)
    return tuple([rows[i] for i in range(len(rows))])


def _unstack_vjp(_: Pattern) -> VJP:
    def call(ct: Any, x: Aval, params: Any) -> tuple[Any]:
        axis = params["axis"]
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        nothing = near(next(c for c in ct if c is not None)).zeros(shape, x.dtype)
        parts = (nothing if c is None else reshape(c, shape) for c in ct)
        return (bind("concatenate", *parts, axis=axis),)

    return VJP(call, avals=(1,), params=True, exact=True)


declare(
    "unstack",
    run=_run_unstack,
    vjp=_unstack_vjp,
    shape=lambda x, *, axis: (Aval((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype),) * x.shape[axis],
    batch=lambda _, x, *, axis: unstack(x, axis + 1),
    many=True,
    traits={PLACES},
    parts=1,
    stored=Stored({"axis": is_axis}),
)
