"""Elements at places that are data: gather, scatter, put, and who wrote last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import as_array
from fgrad.core.aval import Aval, Shape, assignable, aval_of
from fgrad.core.dispatch import bind
from fgrad.core.placement import device_of, near, placed
from fgrad.core.primitive import (
    ADDS_AT,
    C_ORDER,
    KEEPS_C_ORDER_OF_FIRST,
    LARGE,
    MEDIUM,
    MULTILINEAR,
    PLACES,
    VJP,
    AccumulatingVJP,
    Pattern,
    batch_size,
    declare,
    flat,
)
from fgrad.core.stored import Stored, is_flag, is_shape
from fgrad.core.tensor import Tensor
from fgrad.expr.atoms import is_finite
from fgrad.ops.compiled import FLOATS, backend, launched, launches
from fgrad.ops.devices import to_device
from fgrad.ops.indices import (
    HOLE,
    HOLES,
    Index,
    filled,
    filling,
    gathered,
    has_truth,
    is_template,
    layout,
    refuse_sequence,
    run_update,
    summed_to_fit,
    whole_index,
    without_lead,
)
from fgrad.ops.linear import broadcast_to, reshape, transpose, with_rank

# Gather and scatter-add. Their arguments after the first (and the second of `put`) are index arrays. Where
# these name no element twice, which `unique` promises, scattering needs no addition.


def _shape_put(x: Any, value: Any, *arrays: Any, template: Index) -> Aval:
    place, given = gathered(np.shape(x), arrays, template), np.shape(value)
    if not assignable(given, place):
        raise ValueError(
            f"shape mismatch: value array of shape {given} could not be broadcast to indexing result of "
            f"shape {place}"
        )
    refuse_sequence(given, place, template)
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
    return run_update(x, value, index=filled(template, arrays))


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


def _fitting(shape: Shape, arrays: Sequence[Aval], template: Index) -> Shape:
    """Return the shape that index arrays give which a file says."""
    if sum(p is HOLE for p in template) != len(arrays) or any(a.dtype.kind not in "iu" for a in arrays):
        raise ValueError("index arrays are missing or not integers")
    return gathered(shape, arrays, template)


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
            back.append(summed_to_fit(won, value.shape))
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
        or template != HOLES[len(shape)]
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
    if template == HOLES[1] and x.flags.c_contiguous and arrays[0].dtype.kind == "i":
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
    return out if _are_rows_added(out, value, (index,), HOLES[1]) and is_finite(out) else None


def _are_rows_added(out: Any, ct: Any, arrays: Any, template: Index) -> bool:
    """Add `ct` to rows of `out` by compiled code, if many are named by one array; return whether it was."""
    shape = out.shape
    if not (
        template == HOLES[1]
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


def _batched_index(mapped: tuple[bool, ...], arrays: Any, template: Index, n: int) -> tuple[Index, list[Any]]:
    rank = max([len(a.shape) - m for a, m in zip(arrays, mapped, strict=True)] + [int(has_truth(template))])
    full = [with_rank(a, rank + 1) if m else a for a, m in zip(arrays, mapped, strict=True)]
    rows = (near(full[0]) if full else np).arange(n).reshape(n, *(1,) * rank)
    return (HOLE, *template), [rows, *full]


def _moved(x: Any, start: int, stop: int) -> Any:
    axes = [i for i in range(len(x.shape)) if i != start]
    axes.insert(stop, start)
    return transpose(x, tuple(axes))


def _swapped(x: Any, pre: int, rank: int) -> Any:
    """Move the `rank` axes after the first to stand behind the `pre` axes that follow them."""
    n = len(x.shape)
    order = (0, *range(1 + rank, 1 + rank + pre), *range(1, 1 + rank), *range(1 + rank + pre, n))
    return transpose(x, order)


def _of_example(mapped: tuple[bool, ...], arrays: Sequence[Any]) -> list[Any]:
    """Return index arrays of which only shapes count, as one example has them."""
    return [np.empty(a.shape[1:], np.int8) if m else a for a, m in zip(arrays, mapped, strict=True)]


def _batch_gather(
    mapped: tuple[bool, ...], x: Any, *arrays: Any, template: Index, unique: bool = False
) -> Any:
    shape = x.shape[1:] if mapped[0] else x.shape
    pre, rank = layout(shape, _of_example(mapped[1:], arrays), template)
    unique = unique or rank == 0
    if not any(mapped[1:]):
        out = bind("gather", x, *arrays, template=whole_index(template), unique=unique)
        separated = pre == 0 and layout(x.shape, arrays, whole_index(template))[0] == 0
        return _moved(out, rank, 0) if separated else out
    n = batch_size(mapped[1:], arrays)
    if not mapped[0]:
        if not has_truth(template):  # of one array for all examples, which may read the same elements
            spread = [with_rank(a, rank + 1) if m else a for a, m in zip(arrays, mapped[1:], strict=True)]
            return _moved(
                bind("gather", x, *spread, template=template), layout(shape, spread, template)[0], 0
            )
        x = broadcast_to(x, (n, *x.shape))
    index, full = _batched_index(mapped[1:], arrays, template, n)
    return _swapped(bind("gather", x, *full, template=index, unique=unique), pre, rank)


def _batch_scatter_add(
    mapped: tuple[bool, ...], ct: Any, *arrays: Any, template: Index, shape: Shape, unique: bool = False
) -> Any:
    n = batch_size(mapped, (ct, *arrays))
    if not mapped[0]:
        ct = broadcast_to(ct, (n, *ct.shape))
    pre, rank = layout(shape, _of_example(mapped[1:], arrays), template)
    unique = unique or rank == 0
    index, full = _batched_index(mapped[1:], arrays, template, n)
    ct = _swapped(ct, rank, pre)
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
    shape=lambda ct, *arrays, template, shape, **_: filling(ct, shape, gathered(shape, arrays, template)),
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
    n = batch_size(mapped, operands)
    if not mapped[0]:
        x = broadcast_to(x, (n, *x.shape))
    if not any(mapped[1:]):
        mapped = (True, True, *mapped[2:])
        value = broadcast_to(value if hasattr(value, "shape") else np.asarray(value), (n, *np.shape(value)))
    examples = _of_example(mapped[2:], arrays)
    place = gathered(x.shape[1:], examples, template)
    pre, rank = layout(x.shape[1:], examples, template)
    given = np.shape(value)[mapped[1] :]
    refuse_sequence(given, place, template)
    if mapped[1]:
        value = without_lead(value, place)
    elif len(given) > len(place):
        value = reshape(value, given[len(given) - len(place) :])
    index, full = _batched_index(mapped[2:], arrays, template, n)
    full_value = broadcast_to(value if hasattr(value, "shape") else np.asarray(value), (n, *place))
    return bind("put", x, _swapped(full_value, rank, pre), *full, template=index)


def _batch_winners(mapped: tuple[bool, ...], *arrays: Any, template: Index, shape: Shape) -> Any:
    n = batch_size(mapped, arrays)
    pre, rank = layout(shape, _of_example(mapped, arrays), template)
    index, full = _batched_index(mapped, arrays, template, n)
    return _swapped(bind("winners", *full, template=index, shape=(n, *shape)), pre, rank)


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
