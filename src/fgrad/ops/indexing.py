"""Indexing primitives: slices are parameters, index arrays are operands."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import as_array
from fgrad.core.aval import Aval, Shape, assignable, aval_of
from fgrad.core.placement import buffer_of, device_of, near, placed
from fgrad.core.primitive import (
    ADDS_AT,
    C_ORDER,
    KEEPS_C_ORDER_OF_FIRST,
    LARGE,
    MEDIUM,
    MULTILINEAR,
    PLACES,
    REARRANGES,
    SPREADS_FIRST,
    TOTAL,
    VJP,
    AccumulatingVJP,
    Pattern,
    declare,
    flat,
)
from fgrad.core.snapshot import compact
from fgrad.core.stored import Stored, is_axis, is_flag, is_part, is_shape
from fgrad.core.tensor import Tensor, apply_primitive, bind
from fgrad.core.trace import Tracer
from fgrad.ops.compiled import FLOATS, backend, is_finite, launched, launches
from fgrad.ops.devices import to_device
from fgrad.ops.linear import broadcast_to, linear, reshape, sum_to, transpose, with_rank

Index = tuple[Any, ...]


class Hole:
    """The place of an index array in a template."""

    def __repr__(self) -> str:
        return "*"


HOLE = Hole()
_HOLES = tuple((HOLE,) * n for n in range(65))  # as many as an array has axes


def split_index(x: Any, index: Any) -> tuple[Index, list[Any]]:
    """Return `index` as a template of slices, None, Ellipsis, integers and truths, and arrays for its holes.

    A truth value is an index array of its own, of a new axis: of length one if it is true, else zero.

    Raises:
        IndexError: `index` is not a valid index of `x`.
    """
    parts = index if isinstance(index, tuple) else (index,)
    for p in parts:
        if p.__class__ is not np.ndarray or p.dtype.kind != "i":
            break
    else:  # the usual case
        return _HOLES[len(parts)], list(parts)
    if any(isinstance(p, list) or (hasattr(p, "dtype") and p.dtype.kind == "b") for p in parts):
        _check_masks(x.shape, parts)
    template: list[Any] = []
    arrays: list[Any] = []
    for part in parts:
        if part is None or part is Ellipsis:
            template.append(part)
        elif isinstance(part, slice):
            template.append(slice(*(_static(p) for p in (part.start, part.stop, part.step))))
        elif isinstance(part, int | np.integer) and not isinstance(part, bool):
            template.append(int(part))
        elif (truth := _truth(part)) is not None:
            template.append(truth)
        else:
            for array in _index_arrays(x, part):
                template.append(HOLE)
                arrays.append(array)
    return tuple(template), arrays


def _check_masks(shape: Shape, parts: Index) -> None:
    """Raise what NumPy raises for masks that do not fit."""
    values = [p._value if isinstance(p, Tensor) else p for p in parts]
    if not any(isinstance(v, Tracer) for v in values):
        seen = [np.zeros(v.shape, v.dtype) if v.__class__ is DeviceArray else v for v in values]
        _indexed(shape, tuple(seen))


def _truth(part: Any) -> bool | None:
    """Return a boolean without axes as such; None where `part` is anything else."""
    if isinstance(part, bool):
        return part
    if getattr(part, "shape", None) != () or part.dtype.kind != "b":
        return None
    value = part._value if isinstance(part, Tensor) else part
    if isinstance(value, Tracer):
        value.refuse("indexing with a boolean")
    return bool(value)


def _static(p: Any) -> Any:
    return p.__index__() if isinstance(p, Tensor) else p


def _index_arrays(x: Any, part: Any) -> list[Any]:
    if isinstance(part, list | tuple) and (make := near(x)) is not np:
        part = make.constant(np.asarray(part) if len(part) else np.zeros(0, int))
    if not isinstance(part, Tensor | DeviceArray):
        given, part = part, np.asarray(part)
        if part.size == 0 and part.dtype.kind == "f" and not isinstance(given, np.ndarray):
            part = part.astype(int)  # an empty list
    if part.dtype.kind == "b":
        value = part._value if isinstance(part, Tensor) else part
        if isinstance(value, Tracer):
            value = value.known("indexing with a boolean array")
        return list(np.nonzero(value))
    if part.dtype.kind not in "iu":
        raise IndexError(f"arrays used as indices must be of integer (or boolean) type, not {part.dtype}")
    if isinstance(part, Tensor) and not isinstance(part._value, Tracer):
        return [part._value]
    return [part if isinstance(part, Tensor | DeviceArray) else compact(part)]


def filled(template: Index, arrays: Any) -> Index:
    """Return the index that NumPy takes."""
    if len(arrays) == len(template):
        return tuple(arrays)
    it = iter(arrays)
    return tuple(next(it) if part is HOLE else part for part in template)


def setitem(x: Any, index: Any, value: Any) -> Any:
    """Return `x` with `value` at `index`; `value` is cast to the dtype of `x` and broadcast."""
    template, arrays = split_index(x, index)
    scattered = arrays or _has_truth(template)
    name, params = ("put", {"template": template}) if scattered else ("update", {"index": template})
    return bind(name, x, value, *arrays, **params)


def scattered(value: Any, x: Any, index: Any) -> Any:
    """Return zeros like `x` with `value` added at `index`: to elements that are named twice, both.

    Raises:
        ValueError: `value` does not broadcast to the shape of `x[index]`.
    """
    template, arrays = split_index(x, index)
    by_arrays = arrays or _has_truth(template)
    shape = gathered(x.shape, arrays, template) if by_arrays else _indexed(x.shape, template)
    if np.broadcast_shapes(value.shape, shape) != shape:
        raise ValueError(f"array is not broadcastable to correct shape: {value.shape} to {shape}")
    value = broadcast_to(value, shape)
    if by_arrays:
        return bind("scatter_add", value, *arrays, template=template, shape=x.shape)
    return bind("slice_backward", value, shape=x.shape, index=template)


def _has_truth(template: Index) -> bool:
    return bool in [part.__class__ for part in template]


def _indexed(shape: Shape, index: Index) -> Shape:
    result: Shape = np.broadcast_to(np.empty((), np.int8), shape)[index].shape
    return result


def _raw_slice_backward(ct: Any, x: Aval, params: dict[str, Any]) -> tuple[Any]:
    out = (ct.place if ct.__class__ is DeviceArray else np).zeros(x.shape, ct.dtype)
    out[params["index"]] = ct
    return (out,)


def _run_slice_backward(ct: Any, *, shape: Shape, index: Index) -> Any:
    out = (ct.place if ct.__class__ is DeviceArray else np).zeros(shape, ct.dtype)
    out[index] = ct
    return out


def _filling(x: Any, shape: Shape, place: Shape) -> Aval:
    """Return what the elements of `x` make of zeros of `shape`; they have to fill their place there.

    Raises:
        ValueError: there are more or fewer.
    """
    if x.shape != place:
        raise ValueError(f"elements of shape {x.shape} do not fill a place of shape {place} in {shape}")
    return Aval(shape, x.dtype)


def _run_update(x: Any, value: Any, *, index: Index) -> Any:
    out = x.copy() if x.__class__ is DeviceArray else np.array(x)
    out[index] = value
    return out


def _refuse_sequence(given: Shape, place: Shape, template: Index) -> None:
    """Refuse to write an array with axes to a single element, as NumPy does: `x[0] = [1]`."""
    if given and not place and Ellipsis not in template:
        raise ValueError(
            f"setting an array element with a sequence: a value of shape {given} is written to one element; "
            "write its element, or to a slice"
        )


def _shape_update(x: Any, value: Any, *, index: Index) -> Aval:
    inner, given = _indexed(np.shape(x), index), np.shape(value)
    if not assignable(given, inner):
        raise ValueError(f"could not broadcast input array from shape {given} into shape {inner}")
    _refuse_sequence(given, inner, index)
    return aval_of(x)


def _shape_put(x: Any, value: Any, *arrays: Any, template: Index) -> Aval:
    place, given = gathered(np.shape(x), arrays, template), np.shape(value)
    if not assignable(given, place):
        raise ValueError(
            f"shape mismatch: value array of shape {given} could not be broadcast to indexing result of "
            f"shape {place}"
        )
    _refuse_sequence(given, place, template)
    return aval_of(x)


def _run_put(x: Any, value: Any, *arrays: Any, template: Index) -> Any:
    if x.__class__ is DeviceArray and arrays:
        last = _last_writes(x, filled(template, arrays))
        places = math.prod(gathered(x.shape, arrays, template))
        if not places:
            return x
        written = np.broadcast_to(_in_place_of(x, value), gathered(x.shape, arrays, template)).reshape(-1)
        chosen = written[np.maximum(last, 1).astype(np.intp) - 1]
        return np.where(last > 0, chosen.astype(x.dtype, copy=False), x)
    return _run_update(x, value, index=filled(template, arrays))


def _in_place_of(x: DeviceArray, value: Any) -> Any:
    """Return a value that is written into `x` as array on its device, without the axes that NumPy drops."""
    if value.__class__ is not DeviceArray:
        value = x.place.full((), x.place.operand(value), x.dtype)
    return value


def _last_writes(x: DeviceArray, index: Index) -> Any:
    """Return for each element of `x` the number of the last write to it, counted from 1; 0 if there is none.

    Threads of a device write in any order, so that the winner among several has to be chosen first.
    """
    order = x.place.zeros(x.shape, np.uint64)
    shape = order[index].shape
    np.maximum.at(order, index, x.place.arange(1, math.prod(shape) + 1, dtype=np.uint64).reshape(shape))
    return order


def _all(index: Index) -> Index:
    return (slice(None), *index)


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
        whole = None
        for ct, _, params in parts:
            here = bind("slice_backward", ct, shape=shape, index=params["index"])
            whole = here if whole is None else bind("add", whole, here)
        return whole
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


def _apart_gathered(axis: int, shape: Shape, saved: Any) -> int | None:
    """Return 0 where an index array takes something of each sample in turn, or other axes are indexed."""
    *arrays, aval, params = saved
    template, n = params["template"], shape[axis]
    if axis or aval.shape[:1] != (n,):
        return None
    plain = [a._value if a.__class__ is Tensor else a for a in arrays]
    if not all(isinstance(a, np.ndarray) for a in plain):
        return None
    if template[0] is HOLE:
        first = plain[0]
        whole = all(p is HOLE or isinstance(p, slice | int) for p in template)
        together = [p is HOLE or isinstance(p, int) for p in template]
        in_front = together == sorted(together, reverse=True)
        ordered = first.ndim and first.shape[0] == n and np.array_equal(_column(first), np.arange(n))
        return 0 if whole and in_front and ordered and np.ndim(first) == max(map(np.ndim, plain)) else None
    if isinstance(template[0], slice) and template[0] == slice(None):
        kinds = [p is HOLE or isinstance(p, int) for p in template]
        first_hole, last = kinds.index(True), len(kinds) - kinds[::-1].index(True)
        return 0 if all(kinds[first_hole:last]) else None
    return None


def _column(a: Any) -> Any:
    """Return the first element of each row, if all of a row are equal."""
    rows = a.reshape(a.shape[0], -1)
    return rows[:, 0] if (rows == rows[:, :1]).all() else np.zeros(0)


def is_index(v: Any, _: Any) -> bool:
    """Return whether a value is an index of slices and integers."""
    return type(v) is tuple and all(map(is_part, v))


def is_template(v: Any, _: Any) -> bool:
    """Return whether a value is a template of an index."""
    return type(v) is tuple and all(p is HOLE or type(p) is bool or is_part(p) for p in v)


def _fitting(shape: Shape, arrays: Sequence[Aval], template: Index) -> Shape:
    """Return the shape that index arrays give which a file says."""
    if sum(p is HOLE for p in template) != len(arrays) or any(a.dtype.kind not in "iu" for a in arrays):
        raise ValueError("index arrays are missing or not integers")
    return gathered(shape, arrays, template)


linear(
    "slice",
    run=lambda x, *, index: x[index],
    adjoint=lambda ct, x, *, index: bind("slice_backward", ct, shape=x.shape, index=index),
    raw=_raw_slice_backward,
    step=functools.partial(AccumulatingVJP, into=_add_into, is_small=_is_small, joined=_joined),
    shape=lambda x, *, index: Aval(_indexed(x.shape, index), x.dtype),
    batch=lambda x, *, index: bind("slice", x, index=_all(index)),
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
    shape=lambda x, *, shape, index: _filling(x, shape, _indexed(shape, index)),
    batch=lambda x, *, shape, index: bind("slice_backward", x, shape=(x.shape[0], *shape), index=_all(index)),
    traits={PLACES, SPREADS_FIRST, KEEPS_C_ORDER_OF_FIRST},
    parts=1,
    stored=Stored(
        {"shape": is_shape, "index": is_index},
        verify=lambda x, *, shape, index: x.shape == _indexed(shape, index),
    ),
)


def _sliced(x: Any, index: Index) -> Any:
    return bind("slice", x, index=index)


def getitem(x: Any, index: Any, sliced: Callable[[Any, Index], Any] = _sliced) -> Any:
    """Return `x[index]`, by `sliced` where no array is part of the index."""
    template, arrays = split_index(x, index)
    if arrays or _has_truth(template):
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
    place = _indexed(x.shape[1:], index)
    _refuse_sequence(np.shape(value)[mapped[1] :], place, index)
    if mapped[1]:
        value = _without_lead(value, place)
    return bind("update", x, value, index=_all(index))


def _without_lead(values: Any, place: Shape) -> Any:
    """Return values for examples with the axes of the place of one; NumPy drops leading ones."""
    lead = max(0, len(values.shape) - 1 - len(place))
    return with_rank(reshape(values, (values.shape[0], *values.shape[1 + lead :])), 1 + len(place))


def _update_vjp(pattern: Pattern) -> VJP:
    def value_of(ct: Any, saved: Any) -> Any:
        value, params = saved
        return _fitted(bind("slice", ct, index=params["index"]), value.shape)

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
    run=_run_update,
    vjp=_update_vjp,
    shape=_shape_update,
    batch=_batch_update,
    traits={PLACES, KEEPS_C_ORDER_OF_FIRST},
    parts=2,
    stored=Stored({"index": is_index}),
)


def _fitted(ct: Any, shape: Shape) -> Any:
    """Return the cotangent of a value that was broadcast into a slice; NumPy drops leading ones there."""
    lead = max(0, len(shape) - len(ct.shape))
    return reshape(sum_to(ct, shape[lead:]), shape)


# Gather and scatter-add. Their arguments after the first (and the second of `put`) are index arrays. Where
# these name no element twice, which `unique` promises, scattering needs no addition.


def _gather_vjp(pattern: Pattern) -> VJP:
    def call(ct: Any, *saved: Any) -> tuple[Any]:
        *arrays, x, params = saved
        return (bind("scatter_add", ct, *arrays, shape=x.shape, **params),)

    def on_arrays(ct: Any, *saved: Any) -> tuple[Any]:
        return (_run_scatter_add(ct, *saved[:-2], shape=saved[-2].shape, **saved[-1]),)

    def into(buffer: Any, ct: Any, *saved: Any) -> None:
        template = saved[-1]["template"]
        if not _are_rows_added(buffer, ct, saved[:-2], template):
            if ct.size >= LARGE:
                buffer += on_arrays(ct, *saved)[0]
            else:
                np.add.at(buffer, filled(template, saved[:-2]), ct)

    return AccumulatingVJP(
        call,
        raw=on_arrays,
        into=into,
        keep=tuple(range(2, len(pattern) + 1)),
        avals=(1,),
        params=True,
        exact=True,
        transpose=MULTILINEAR,
    )


def _scatter_vjp(pattern: Pattern) -> VJP:
    def call(ct: Any, *saved: Any) -> tuple[Any]:
        *arrays, params = saved
        unique = params.get("unique", False)
        return (bind("gather", ct, *arrays, template=params["template"], unique=unique),)

    return VJP(call, keep=tuple(range(2, len(pattern) + 1)), params=True, exact=True, transpose=MULTILINEAR)


def _put_vjp(pattern: Pattern) -> VJP | None:
    def call(ct: Any, *saved: Any) -> list[Any]:
        *arrays, _, params = saved
        template = params["template"]
        back = [bind("put", ct, 0.0, *arrays, template=template)] if pattern[0] else []
        return back + values_of(ct, *saved)

    def emptied(ct: Any, *saved: Any) -> list[Any]:
        back = [ct, *values_of(ct, *saved)]
        ct[filled(saved[-1]["template"], saved[:-2])] = 0
        return back

    def values_of(ct: Any, *saved: Any) -> list[Any]:
        *arrays, value, params = saved
        template = params["template"]
        back = []
        if pattern[1]:
            stays = bind("winners", *arrays, template=template, shape=tuple(ct.shape))
            if isinstance(stays, np.ndarray):  # as index arrays may be on the CPU
                stays = placed(ct, stays)
            elif (there := device_of(ct)) != (here := device_of(stays)):
                stays = to_device(stays, there, here)
            won = bind("where", stays, bind("gather", ct, *arrays, template=template), 0)
            back.append(_fitted(won, value.shape))
        return back

    keep = tuple(range(3, len(pattern) + 1))
    if not pattern[0]:
        return VJP(call, keep=keep, avals=(2,), params=True)
    return AccumulatingVJP(call, emptied=emptied, keep=keep, avals=(2,), params=True)


def _run_winners(*arrays: Any, template: Index, shape: Shape) -> Any:
    """Return where the written elements stay: of several writes to one place the last one wins."""
    index = filled(template, arrays)
    place = next((a.place for a in arrays if a.__class__ is DeviceArray), None)
    if place is not None:
        order = _last_writes(place.zeros(shape, bool), index)
        there = order[index]
        return there == place.arange(1, there.size + 1, dtype=np.uint64).reshape(there.shape)
    order = np.zeros(shape, np.intp)
    written = np.arange(order[index].size).reshape(order[index].shape)
    order[index] = written
    return order[index] == written


def _lanes(arrays: Sequence[Any], template: Index, shape: Shape) -> tuple[Any, Any] | None:
    """Return `(first, second)` as compiled code takes them: rows of a matrix, for each its places in it.

    None unless arrays are large and index a vector, or the last axis while those before it are matched.
    """
    second = arrays[-1] if arrays else None
    if (
        second.__class__ is not np.ndarray
        or second.size < _least(shape)
        or second.dtype not in _PLACES
        or not second.flags.c_contiguous
        or template != _HOLES[len(shape)]
    ):
        return None
    if len(shape) == 1:
        return _FIRST, second.reshape(1, -1)
    lead = arrays[:-1]
    if not second.ndim == len(shape) > 1 or any(a.ndim != second.ndim or a.shape[-1] != 1 for a in lead):
        return None
    try:
        first = np.ravel_multi_index(np.broadcast_arrays(*lead), shape[:-1])
    except ValueError:  # below zero, or out of range
        return None
    if first.shape != (*second.shape[:-1], 1):
        return None
    return first.reshape(-1), second.reshape(first.size, -1)


_FIRST = np.zeros(1, np.int64)
_PLACES = (np.dtype(np.int64), np.dtype(np.int32))


def _least(shape: Shape) -> int:
    """Return how many elements are worth a kernel: NumPy is quick only with vectors."""
    return LARGE if len(shape) == 1 else MEDIUM


def _run_gather(x: Any, *arrays: Any, template: Index, unique: bool = False) -> Any:
    x = as_array(x)
    if x.__class__ is np.ndarray and x.size and x.flags.c_contiguous:
        lanes = _lanes(arrays, template, x.shape)
        if lanes is not None and x.dtype in FLOATS:
            found = backend("gather_scatter").read(x.reshape(-1, x.shape[-1]), *lanes)
            if found is not None:
                return found.reshape(arrays[-1].shape)
    if template == _HOLES[1] and x.flags.c_contiguous and arrays[0].dtype.kind == "i":
        return x.take(arrays[0], 0)  # rows take a tenth of the time
    return x[filled(template, arrays)]


def _has_kernels(ct: Any, arrays: Sequence[Any], template: Index) -> bool:
    """Return whether compiled code adds this up, in an order that is always the same."""
    plain = arrays and not any(isinstance(part, bool) for part in template)
    return bool(plain) and ct.size > 1 and all(j.dtype.kind in "iu" and j.size for j in arrays)


def _summed(ct: Any, *arrays: Any, template: Index, shape: Shape) -> Any:
    return bind("scatter_add", ct, *arrays, template=template, shape=shape, unique=False)


def _run_scatter_add(ct: Any, *arrays: Any, template: Index, shape: Shape, unique: bool = False) -> Any:
    if not unique and launches(ct) and _has_kernels(ct, arrays, template):
        where = [j if j.__class__ is DeviceArray else ct.place.constant(j) for j in arrays]
        return launched(_summed, ct, *where, template=template, shape=shape)
    if ct.__class__ is np.ndarray and ct.size >= _least(shape) and ct.dtype in FLOATS:
        found = _added(ct, arrays, template, shape, unique=unique)
        if found is not None:
            return found.reshape(shape)
    out = (ct.place if ct.__class__ is DeviceArray else np).zeros(shape, ct.dtype)
    if unique:
        out[filled(template, arrays)] = ct
    elif not _are_rows_added(out, ct, arrays, template):
        np.add.at(out, filled(template, arrays), ct)
    return out


def with_rows_added(x: Any, value: Any, index: Any) -> Any | None:
    """Return a copy of a plain array with `value` added at `index`, as `np.add.at` does, by compiled code.

    None where that does not know the case, or NumPy may have something to say.
    """
    if not (x.__class__ is index.__class__ is value.__class__ is np.ndarray and x.flags.c_contiguous):
        return None
    out = x.copy()
    return out if _are_rows_added(out, value, (index,), _HOLES[1]) and is_finite(out) else None


def _are_rows_added(out: Any, ct: Any, arrays: Any, template: Index) -> bool:
    """Add `ct` to rows of `out` by compiled code, if many are named by one array; return whether it was."""
    shape = out.shape
    if not (
        template == _HOLES[1]
        and len(shape) > 1
        and ct.size >= MEDIUM
        and ct.__class__ is out.__class__ is np.ndarray
        and ct.dtype in FLOATS
        and out.dtype == ct.dtype
        and arrays[0].dtype == np.int64
        and ct.shape == (*arrays[0].shape, *shape[1:])
        and out.flags.c_contiguous
    ):
        return False
    columns = math.prod(shape[1:])
    matrix = out.reshape(shape[0], columns)
    return bool(backend("gather_scatter").add_rows(matrix, ct.reshape(-1, columns), arrays[0].reshape(-1)))


def _added(ct: Any, arrays: Any, template: Index, shape: Shape, *, unique: bool) -> Any:
    """Return what compiled code makes of a large scatter-add, None if it makes nothing of it."""
    if 0 in shape:
        return None
    lanes = _lanes(arrays, template, shape)
    if lanes is not None and ct.shape == arrays[-1].shape:
        matrix = (math.prod(shape[:-1]), shape[-1])
        return backend("gather_scatter").added(ct.reshape(lanes[1].shape), *lanes, matrix, unique=unique)
    return None


def gathered(shape: Shape, arrays: Any, template: Index) -> Shape:
    """Return the shape of what index arrays choose, of which nothing is made, however large it is.

    Raises:
        IndexError: the index is none of an array of this shape.
    """
    # an axis of length zero admits no index of an array, yet the shape of the result is known
    admitting, axis = list(shape), 0
    for place, part in enumerate(template):
        if part is Ellipsis:
            axis = len(shape) - sum(_consumes(p) for p in template[place + 1 :])
        elif _consumes(part) and axis < len(shape):
            if isinstance(part, int) and not -shape[axis] <= part < shape[axis]:
                raise IndexError(f"index {part} is out of bounds for axis {axis} with size {shape[axis]}")
            admitting[axis] = admitting[axis] or int(part is HOLE)
            axis += 1
    # NumPy looks at every index and makes every element: so there is one of each, and one more axis in
    # front, of length zero, by which there is no element
    ones = filled(template, [np.zeros((1,) * len(a.shape), np.intp) for a in arrays])
    empty = np.broadcast_to(np.empty((), np.int8), (0, *admitting))
    found: Shape = empty[(slice(None), *ones)].shape
    if not any(part is HOLE or isinstance(part, int) for part in template):
        return found[1:]
    before, rank = layout(shape, arrays, template)
    at = rank if _are_apart(template) else 0
    found = (*found[:at], *found[at + 1 :])
    truths = ((int(part),) for part in template if part.__class__ is bool)
    own = np.broadcast_shapes(*(a.shape for a in arrays), *truths)
    return (*found[:before], *own, *found[before + rank :])


def _are_apart(template: Index) -> bool:
    """Return whether other parts stand between those that are arrays or integers."""
    advanced = [i for i, part in enumerate(template) if part is HOLE or isinstance(part, int)]
    return advanced[-1] - advanced[0] + 1 != len(advanced)


def _consumes(part: Any) -> bool:
    """Return whether a part of an index stands for an axis of what is indexed."""
    return part is not None and part is not Ellipsis and part.__class__ is not bool


def layout(shape: Shape, arrays: Any, template: Index) -> tuple[int, int]:
    """Return the number of result axes before the index arrays' own axes, and the number of the latter."""
    advanced = [i for i, part in enumerate(template) if part is HOLE or isinstance(part, int)]
    rank = max([len(a.shape) for a in arrays] + [int(_has_truth(template))])
    if _are_apart(template):
        return 0, rank
    consumed = sum(map(_consumes, template))
    before = template[: advanced[0]]
    hidden = len(shape) - consumed if Ellipsis in before else 0
    return sum(part is not Ellipsis for part in before) + hidden, rank


def _batched_index(mapped: tuple[bool, ...], arrays: Any, template: Index, n: int) -> tuple[Index, list[Any]]:
    rank = max([len(a.shape) - m for a, m in zip(arrays, mapped, strict=True)] + [int(_has_truth(template))])
    full = [with_rank(a, rank + 1) if m else a for a, m in zip(arrays, mapped, strict=True)]
    rows = (near(full[0]) if full else np).arange(n).reshape(n, *(1,) * rank)
    return (HOLE, *template), [rows, *full]


def _moved(x: Any, start: int, stop: int) -> Any:
    axes = [i for i in range(len(x.shape)) if i != start]
    axes.insert(stop, start)
    return transpose(x, tuple(axes))


def _block_to(x: Any, pre: int, rank: int) -> Any:
    """Move the `rank` axes after the first to stand behind the `pre` axes that follow them."""
    n = len(x.shape)
    order = (0, *range(1 + rank, 1 + rank + pre), *range(1, 1 + rank), *range(1 + rank + pre, n))
    return transpose(x, order)


def _block_from(x: Any, pre: int, rank: int) -> Any:
    n = len(x.shape)
    order = (0, *range(1 + pre, 1 + pre + rank), *range(1, 1 + pre), *range(1 + pre + rank, n))
    return transpose(x, order)


def _batch_gather(
    mapped: tuple[bool, ...], x: Any, *arrays: Any, template: Index, unique: bool = False
) -> Any:
    shape = x.shape[1:] if mapped[0] else x.shape
    examples = [np.empty(a.shape[1:], np.int8) if m else a for a, m in zip(arrays, mapped[1:], strict=True)]
    pre, rank = layout(shape, examples, template)
    unique = unique or rank == 0
    if not any(mapped[1:]):
        out = bind("gather", x, *arrays, template=_all(template), unique=unique)
        separated = pre == 0 and layout(x.shape, arrays, _all(template))[0] == 0
        return _moved(out, rank, 0) if separated else out
    n = next(a.shape[0] for a, m in zip(arrays, mapped[1:], strict=True) if m)
    if not mapped[0]:
        x = broadcast_to(x, (n, *x.shape))
    index, full = _batched_index(mapped[1:], arrays, template, n)
    return _block_to(bind("gather", x, *full, template=index, unique=unique), pre, rank)


def _batch_scatter_add(
    mapped: tuple[bool, ...], ct: Any, *arrays: Any, template: Index, shape: Shape, unique: bool = False
) -> Any:
    n = next(a.shape[0] for a, m in zip((ct, *arrays), mapped, strict=True) if m)
    if not mapped[0]:
        ct = broadcast_to(ct, (n, *ct.shape))
    examples = [np.empty(a.shape[1:], np.int8) if m else a for a, m in zip(arrays, mapped[1:], strict=True)]
    pre, rank = layout(shape, examples, template)
    unique = unique or rank == 0
    index, full = _batched_index(mapped[1:], arrays, template, n)
    ct = _block_from(ct, pre, rank)
    return bind("scatter_add", ct, *full, template=index, shape=(n, *shape), unique=unique)


_GATHER = declare(
    "gather",
    run=_run_gather,
    vjp=_gather_vjp,
    shape=lambda x, *arrays, template, **_: Aval(gathered(x.shape, arrays, template), x.dtype),
    batch=_batch_gather,
    write=lambda x, new, *arrays, template, **_: bind("put", x, new, *arrays, template=template),
    traits={PLACES},
    parts=1,
    indices=1,
    stored=Stored(
        {"template": is_template, "unique": is_flag},
        verify=lambda x, *arrays, template, **_: _fitting(x.shape, arrays, template) is not None,
    ),
    apart=_apart_gathered,
)
declare(
    "scatter_add",
    run=_run_scatter_add,
    vjp=_scatter_vjp,
    shape=lambda ct, *arrays, template, shape, **_: _filling(ct, shape, gathered(shape, arrays, template)),
    batch=_batch_scatter_add,
    traits={ADDS_AT, C_ORDER},
    parts=1,
    indices=1,
    stored=Stored(
        {"shape": is_shape, "template": is_template, "unique": is_flag},
        verify=lambda x, *arrays, template, shape, **_: x.shape == _fitting(shape, arrays, template),
    ),
)


def _batch_put(mapped: tuple[bool, ...], x: Any, value: Any, *arrays: Any, template: Index) -> Any:
    operands = (x, value, *arrays)
    n = next(a.shape[0] for a, m in zip(operands, mapped, strict=True) if m)
    if not mapped[0]:
        x = broadcast_to(x, (n, *x.shape))
    if not any(mapped[1:]):
        mapped = (True, True, *mapped[2:])
        value = broadcast_to(value if hasattr(value, "shape") else np.asarray(value), (n, *np.shape(value)))
    examples = [np.empty(a.shape[1:], np.int8) if m else a for a, m in zip(arrays, mapped[2:], strict=True)]
    place = gathered(x.shape[1:], examples, template)
    pre, rank = layout(x.shape[1:], examples, template)
    given = np.shape(value)[mapped[1] :]
    _refuse_sequence(given, place, template)
    if mapped[1]:
        value = _without_lead(value, place)
    elif len(given) > len(place):
        value = reshape(value, given[len(given) - len(place) :])
    index, full = _batched_index(mapped[2:], arrays, template, n)
    full_value = broadcast_to(value if hasattr(value, "shape") else np.asarray(value), (n, *place))
    return bind("put", x, _block_from(full_value, pre, rank), *full, template=index)


def _batch_winners(mapped: tuple[bool, ...], *arrays: Any, template: Index, shape: Shape) -> Any:
    n = next(a.shape[0] for a, m in zip(arrays, mapped, strict=True) if m)
    examples = [np.empty(a.shape[1:], np.int8) if m else a for a, m in zip(arrays, mapped, strict=True)]
    pre, rank = layout(shape, examples, template)
    index, full = _batched_index(mapped, arrays, template, n)
    return _block_to(bind("winners", *full, template=index, shape=(n, *shape)), pre, rank)


declare(
    "put",
    run=_run_put,
    vjp=_put_vjp,
    shape=_shape_put,
    batch=_batch_put,
    indices=2,
    traits={PLACES, KEEPS_C_ORDER_OF_FIRST},
    parts=2,
    stored=Stored(
        {"template": is_template},
        verify=lambda x, y, *arrays, template: _fitting(x.shape, arrays, template) is not None,
    ),
)
declare(
    "winners",
    run=_run_winners,
    vjp=flat,
    shape=lambda *arrays, template, shape: Aval(gathered(shape, arrays, template), np.dtype(bool)),
    batch=_batch_winners,
    indices=0,
    stored=Stored(
        {"template": is_template, "shape": is_shape},
        verify=lambda *arrays, template, shape: _fitting(shape, arrays, template) is not None,
        work=lambda *_, shape, **__: math.prod(shape),
    ),
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
