"""The methods of NumPy's ufuncs - reduce, accumulate, reduceat, outer, at - for Tensors, all from four parts.

What no transformation follows is computed by NumPy itself. For the rest, a reduction is one of `sum`, `prod`,
`max`, ... where there is one, otherwise the end of an accumulation, which is a primitive for every ufunc of
two operands; segments (`reduceat`) and repeated indices (`at`) are reductions of matrices, with segments of
like length in one matrix, so that memory stays proportional to their total length.

Ties in a reduction share the gradient equally; in `accumulate` each step shares it between its two operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from fgrad.backend.devices import copied
from fgrad.compat.numpy import NO_VALUE
from fgrad.core.aval import with_ones
from fgrad.core.dispatch import bind
from fgrad.core.placement import near, placed
from fgrad.core.primitive import METHODS, NUMPY, Primitive
from fgrad.core.tensor import Tensor, is_abstract, is_traced, wrap
from fgrad.core.views import rebind, unordered
from fgrad.numpy import ordering, reductions
from fgrad.numpy.arrays import as_value, next_to, together
from fgrad.numpy.indexing import getitem, plain_index
from fgrad.numpy.joining import concatenate
from fgrad.numpy.registry import stored
from fgrad.numpy.shapes import moveaxis
from fgrad.ops import linear
from fgrad.ops.functions import stop_gradient
from fgrad.ops.gather import with_rows_added
from fgrad.ops.indexing import scattered
from fgrad.ops.indices import HOLE

_LN2 = float(np.log(2))


_MISREAD = {np.power, np.arctan2}  # NumPy reduces them wrongly where it has AVX-512 loops for them


def _is_numpys(*xs: Any) -> bool:
    """Return whether NumPy computes with `xs`: no transformation follows them, and they are on the CPU."""
    return not any(map(is_traced, xs)) and all(near(x) is np for x in xs)


def _value(x: Any) -> Any:
    """Return the array of a Tensor, also of those in an index."""
    if isinstance(x, tuple):
        return tuple(map(_value, x))
    return x._value if isinstance(x, Tensor) else x


def _small(x: Any) -> Any:
    """Return ones of the dtype and rank of `x`, and with no element where `x` has none."""
    return np.ones(tuple(min(n, 1) for n in x.shape), x.dtype)


def _masked(x: Any, where: Any, neutral: Any) -> Any:
    return x if where is True else bind("where", next_to(where, x), x, _constant(neutral, x.dtype))


def _constant(number: Any, dtype: np.dtype[Any]) -> Any:
    """Return a number as `dtype`; infinities as its limits."""
    if dtype.kind in "iu" and np.isinf(number):
        info = np.iinfo(dtype)
        return np.array(info.max if number > 0 else info.min, dtype)
    return np.array(number).astype(dtype)


def _logaddexp2(x: Any, axis: Any, keepdims: bool = False) -> Any:
    return reductions.logsumexp(x * _LN2, axis, keepdims) / _LN2


def _without_nan(name: str) -> Callable[..., Any]:
    def reduce(x: Any, axis: Any, keepdims: bool = False) -> Any:
        return reductions.extremum(name, x, axis, None, keepdims, NO_VALUE, True)

    return reduce


# (array, axis, keepdims=) -> reduction
_REDUCTIONS: dict[Any, Callable[..., Any]] = {
    np.add: reductions.sum,
    np.multiply: reductions.prod,
    np.maximum: reductions.max,
    np.minimum: reductions.min,
    np.fmax: _without_nan("nanmax"),
    np.fmin: _without_nan("nanmin"),
    np.logaddexp: reductions.logsumexp,
    np.logaddexp2: _logaddexp2,
    np.logical_and: reductions.all,
    np.logical_or: reductions.any,
}
# what changes nothing as second operand, where it is not the identity
_NEUTRAL: dict[Any, Any] = {
    np.subtract: 0,
    np.divide: 1,
    np.power: 1,
    np.float_power: 1,
    np.left_shift: 0,
    np.right_shift: 0,
    np.maximum: -np.inf,
    np.minimum: np.inf,
    np.fmax: np.nan,
    np.fmin: np.nan,
}


def _primitive_of(ufunc: Any) -> Primitive:
    """Return the primitive of a ufunc, which need not have its name."""
    primitive: Primitive = NUMPY[ufunc].primitive  # type: ignore[attr-defined]
    return primitive


def _neutral(ufunc: Any) -> Any:
    return _NEUTRAL.get(ufunc, ufunc.identity)


def _special(ufunc: Any, x: Any) -> Callable[..., Any] | None:
    """Return the reduction that is made for `ufunc`; of complex numbers fmax and fmin have none."""
    return None if x.dtype.kind == "c" and ufunc in {np.fmax, np.fmin} else _REDUCTIONS.get(ufunc)


def reduce(
    ufunc: Any,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NO_VALUE,
    where: Any = True,
) -> Any:
    """Return `ufunc.reduce(array, ...)`."""
    x, keepdims = as_value(array), bool(keepdims)
    started = initial is not NO_VALUE and initial is not None
    if _is_numpys(x, where, initial) and ufunc not in _MISREAD:
        given = {"axis": axis, "dtype": dtype, "keepdims": keepdims, "where": _value(where)}
        start = {} if initial is NO_VALUE else {"initial": _value(initial)}
        y = ufunc.reduce(_value(x), **given, **start)
        if started:
            reductions.first_term(initial, y.dtype)  # refuses to lose an imaginary part
        return stored(wrap(y), out)
    probe = {"axis": axis, "dtype": dtype} | ({} if where is True else {"where": np.True_})
    if initial is not NO_VALUE:
        probe["initial"] = 1 if started else None
    kind = ufunc.reduce(_small(x), **probe).dtype  # or raises what is due
    x = linear.convert(x, kind)
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim) if x.shape else ()
    if where is not True:
        neutral = _neutral(ufunc)
        if neutral is None:
            raise TypeError(
                f"numpy.{ufunc.__name__}.reduce of Tensors takes no `where`: no number leaves the others "
                "alone; reduce x[mask] instead"
            )
        x = _masked(x, where, neutral)
    first = linear.convert(as_value(reductions.first_term(initial, kind)), kind) if started else None
    special = _special(ufunc, x)
    empty = any(x.shape[i] == 0 for i in axes)
    if special and not (empty and started and ufunc.identity is None):
        y = special(x, axes, keepdims=keepdims)
        y = linear.convert(y, kind)  # sums of small integers are wider
        return stored(y if first is None else NUMPY[ufunc](first, y), out)
    return stored(unordered(_end(ufunc, x, axes, first, keepdims), x), out)


def _end(ufunc: Any, x: Any, axes: tuple[int, ...], first: Any, keepdims: bool) -> Any:
    """Return the end of the accumulation along `axes`."""
    n = len(axes)
    shape = with_ones(x.shape, axes) if keepdims else tuple(m for i, m in enumerate(x.shape) if i not in axes)
    line = moveaxis(x, axes, range(n)) if axes else x
    line = linear.reshape(line, (int(np.prod([x.shape[i] for i in axes], dtype=int)), *line.shape[n:]))
    if first is None and line.shape[0] < 2 and ufunc.identity is not None:  # |x| is the hypot of one
        first = placed(x, _constant(ufunc.identity, x.dtype))
    if first is not None:
        line = concatenate([linear.broadcast_to(first, (1, *line.shape[1:])), line], 0)
    ends = bind("accumulate", line, ufunc=_primitive_of(ufunc).name, axis=0)
    return linear.reshape(bind("slice", ends, index=(-1,)), shape)


def accumulate(ufunc: Any, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
    """Return `ufunc.accumulate(array, ...)`."""
    x = as_value(array)
    if _is_numpys(x):
        return stored(wrap(ufunc.accumulate(_value(x), axis, dtype)), out)
    kind = ufunc.accumulate(_small(x), axis, dtype).dtype
    (place,) = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim)
    return stored(linear.convert(_scan(ufunc, linear.convert(x, kind), place), kind), out)


def _scan(ufunc: Any, x: Any, axis: int) -> Any:
    if ufunc in {np.add, np.multiply}:
        return bind("cumsum" if ufunc is np.add else "cumprod", x, axis=axis)
    if ufunc is np.subtract:
        lead = (slice(None),) * axis
        head, tail = (bind("slice", x, index=(*lead, s)) for s in (slice(0, 1), slice(1, None)))
        return bind("cumsum", concatenate([head, -tail], axis), axis=axis)
    return bind("accumulate", x, ufunc=_primitive_of(ufunc).name, axis=axis)


def outer(ufunc: Any, a: Any, b: Any, /, **kw: Any) -> Any:
    """Return `ufunc.outer(a, b, ...)`."""
    x, y = together(a, b)
    ufunc.outer(np.ones((), x.dtype), np.ones((), y.dtype))  # raises what is due
    return NUMPY[ufunc](linear.reshape(x, (*x.shape, *(1,) * len(y.shape))), y, **kw)


def reduceat(ufunc: Any, array: Any, indices: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
    """Return `ufunc.reduceat(array, indices, ...)`."""
    x, places = as_value(array), np.asarray(_concrete(indices, "reduceat"))
    if not hasattr(indices, "dtype"):
        places = places.astype(np.intp)
    if _is_numpys(x) and ufunc not in _MISREAD:
        return stored(wrap(ufunc.reduceat(_value(x), places, axis, dtype)), out)
    kind = ufunc.reduceat(_small(x), np.zeros_like(places), axis, dtype).dtype  # or raises what is due
    (place,) = normalize_axis_tuple(axis, x.ndim)
    n = int(x.shape[place])
    np.add.reduceat(np.ones(n, bool), places)  # raises what is due for indices out of bounds
    x = linear.convert(x, kind)
    starts = places.astype(np.intp)
    ends = np.append(starts[1:], n)
    lengths = np.where(ends > starts, ends - starts, 1)
    y = _segments(ufunc, moveaxis(x, place, 0), lambda i, k: starts[i] + k, lengths)
    return stored(linear.convert(moveaxis(y, 0, place), kind), out)


def _segments(ufunc: Any, x: Any, position: Callable[[Any, Any], Any], lengths: np.ndarray[Any, Any]) -> Any:
    """Return `x` reduced over segments of its first axis: the k-th of segment i is at position(i, k)."""
    size = np.ceil(np.log2(lengths)).astype(int)
    groups = [np.flatnonzero(size == s) for s in np.unique(size)]
    parts = [_group(ufunc, x, position, i, lengths[i]) for i in groups]
    if not parts:
        return bind("slice", x, index=(slice(0, 0),))
    order = np.argsort(np.concatenate(groups))
    return bind("gather", concatenate(parts, 0), order, template=(HOLE,))


def _group(ufunc: Any, x: Any, position: Any, i: Any, lengths: np.ndarray[Any, Any]) -> Any:
    """Return what `_segments` does for segments of nearly the same length."""
    k = np.arange(lengths.max())
    inside = k < lengths[:, None]
    picked = bind("gather", x, position(i[:, None], np.where(inside, k, 0)), template=(HOLE,))
    if not inside.all():
        neutral, mask = _neutral(ufunc), inside.reshape(*inside.shape, *(1,) * (len(x.shape) - 1))
        picked = _masked(picked, mask, 1 if neutral is None else neutral)
    special = _special(ufunc, x)
    if special:
        return special(picked, 1)
    along = _scan(ufunc, picked, 1)
    return bind("gather", along, np.arange(len(i)), lengths - 1, template=(HOLE, HOLE))


_SUMS = {np.add, np.subtract}
_EXTREMES = {np.maximum, np.minimum}
_ATOMIC = _SUMS | _EXTREMES  # what devices combine in any order; complex numbers by their parts


def at(ufunc: Any, a: Any, indices: Any, /, *b: Any) -> None:
    """Do what `ufunc.at(a, indices, *b)` does, to a Tensor `a`."""
    operands = tuple([next_to(x, a) for x in b])
    numbers = a.dtype.kind in "iufc" and isinstance(a, Tensor)
    anyhow = _SUMS if a.dtype.kind == "c" else _ATOMIC  # these need no order of the places
    known = not (numbers and ufunc in anyhow and _traced_places(indices))
    index = _concrete(indices, "at") if known else indices
    if not isinstance(a, Tensor):
        if any(map(is_traced, operands)):
            stored(operands[0], a)  # refuses
        _at(ufunc, a, index, operands)
        return
    at_once = ufunc in anyhow
    if known and not any(map(is_traced, (a, *operands))) and (at_once or _is_numpys(a, *operands)):
        adds = ufunc is np.add and operands
        new = with_rows_added(a._value, _value(operands[0]), index) if adds else None
        if new is None:
            new = copied(a._value)
            _at(ufunc, new, index, operands)
        rebind(a, wrap(new))
        return
    _at(ufunc, np.ones(1, a.dtype), 0, tuple(np.ones((), v.dtype) for v in operands))  # raises what is due
    value = None
    if ufunc.nin == 2:
        (value,) = operands
        if ufunc is np.ldexp:  # by a factor of the dtype of the others
            ufunc, value = np.multiply, NUMPY[ufunc](np.ones((), a.dtype), value)
        loop = ufunc.resolve_dtypes((a.dtype, value.dtype, None))[-1]
        if loop.kind == "b" or loop == a.dtype or (loop.kind == a.dtype.kind and loop.kind in "fc"):
            value = linear.convert(value, a.dtype)
        if ufunc in _SUMS and value.dtype == a.dtype:
            rebind(a, NUMPY[ufunc](a, scattered(value, a, plain_index(index))))
            return
    places = np.arange(a.size).reshape(a.shape)
    places = places[index] if known else getitem(Tensor(places), index)
    shape, places = places.shape, places.reshape(-1)
    flat = linear.reshape(a, (a.size,))
    if value is None:
        new = _in_rounds(ufunc, flat, places)
    else:
        if np.broadcast_shapes(value.shape, shape) != shape:
            raise ValueError(f"array is not broadcastable to correct shape: {value.shape} to {shape}")
        value = linear.reshape(linear.broadcast_to(value, shape), (places.size,))
        if not known and value.dtype == a.dtype:
            new = _extremes(ufunc, flat, places, value)
        elif value.dtype != a.dtype:
            _concrete(indices, "at")  # the places of each round have to be known
            new = _in_rounds(ufunc, flat, places, value)
        elif _primitive_of(ufunc).flat:
            new = _stepped(ufunc, flat, places, value)
        else:
            new = _folded(ufunc, flat, places, value)
    rebind(a, linear.reshape(linear.convert(new, a.dtype), a.shape))


def _extremes(ufunc: Any, flat: Any, places: Any, value: Any) -> Any:
    """Return what `_folded` does for extremes at places that are not known: they are sorted, then values."""
    n, one = flat.shape[0], (HOLE,)
    own = Tensor(np.arange(n))
    keys, both = concatenate([own, places]), concatenate([flat, value])
    values = stop_gradient(both)
    order = ordering.lexsort((values, keys))
    ordered = bind("gather", keys, order, template=one)
    first = ordering.searchsorted(ordered, own, "left")
    last = bind("subtract", ordering.searchsorted(ordered, own, "right"), 1)
    chosen = bind("gather", order, last, template=one)
    if ufunc is np.minimum:  # not a number is the extreme of all, and stands last
        least = bind("gather", order, first, template=one)
        top = bind("gather", values, chosen, template=one)
        chosen = bind("where", bind("not_equal", top, top), chosen, least)
    new = bind("gather", values, chosen, template=one)
    if flat.dtype.kind != "f":
        return new
    hit = bind("equal", values, bind("gather", new, keys, template=one))
    count = bind("scatter_add", linear.convert(hit, flat.dtype), keys, template=one, shape=(n,))
    share = bind("divide", bind("where", hit, both, 0), bind("gather", count, keys, template=one))
    slopes = bind("scatter_add", bind("where", hit, share, 0), keys, template=one, shape=(n,))
    equal = bind("add", new, bind("subtract", slopes, stop_gradient(slopes)))  # to `new`, with its derivative
    return bind("where", bind("isfinite", new), equal, bind("gather", both, chosen, template=one))


def _at(ufunc: Any, a: Any, index: Any, operands: tuple[Any, ...]) -> None:
    ufunc.at(a, index, *map(_value, operands))


def _traced_places(indices: Any) -> bool:
    """Tell whether an index has traced parts, none of which is a mask."""
    parts = indices if isinstance(indices, tuple) else (indices,)
    traced = [x for x in parts if is_abstract(x)]
    return bool(traced) and all(x.dtype.kind in "iu" for x in traced)


def _concrete(indices: Any, method: str) -> Any:
    """Return an index or an operand as plain arrays.

    Raises:
        TypeError: its values are not known.
    """
    for part in indices if isinstance(indices, tuple) else (indices,):
        if is_abstract(part):
            part._value.refuse(f"the method {method!r} of a ufunc")
    return _value(indices)


def _stepped(ufunc: Any, flat: Any, places: Any, value: Any) -> Any:
    """Return what `_folded` does for a function without slopes, which leaves constants."""
    new = np.array(_concrete(flat, "at"))
    _at(ufunc, new, places, (_concrete(value, "at"),))
    targets = np.unique(places)
    return bind("put", flat, new[targets], targets, template=(HOLE,))


def _folded(ufunc: Any, flat: Any, places: Any, value: Any) -> Any:
    """Return `flat` with every element combined with the values that are meant for it, in their order."""
    if not places.size:
        return flat
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    targets, counts = ordered[starts], np.diff(starts, append=places.size)
    both = concatenate([flat, value])

    def position(i: Any, k: Any) -> Any:
        later = flat.shape[0] + order[starts[i] + np.maximum(k, 1) - 1]
        return np.where(k == 0, targets[i], later)

    new = _segments(ufunc, both, position, counts + 1)
    return bind("put", flat, new, targets, template=(HOLE,))


def _in_rounds(ufunc: Any, flat: Any, places: Any, value: Any = None) -> Any:
    """Return the elements after one operation at each place, then the second one where there is one, ..."""
    if not places.size:
        return flat
    order = np.argsort(places, kind="stable")
    targets, starts, counts = np.unique(places[order], return_index=True, return_counts=True)
    most = np.argsort(-counts, kind="stable")
    new = bind("gather", flat, targets[most], template=(HOLE,))
    for k in range(counts.max()):
        n = int(np.count_nonzero(counts > k))
        operands, rest = [bind("slice", new, index=(slice(n),))], bind("slice", new, index=(slice(n, None),))
        if value is not None:
            operands.append(bind("gather", value, order[starts[most[:n]] + k], template=(HOLE,)))
        new = concatenate([linear.convert(NUMPY[ufunc](*operands), flat.dtype), rest])
    return bind("put", flat, new, targets[most], template=(HOLE,))


def declare_methods() -> None:
    """Let the methods of NumPy's ufuncs find these functions."""
    METHODS.update({f.__name__: f for f in (reduce, accumulate, reduceat, outer, at)})
