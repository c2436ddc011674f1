"""Index arrays: checked, and each element of a result told where it comes from, or what is written to it.

Where nobody knows before a program runs to which places it writes, kernels write one element after the other:
the last one to a place stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.compiler.decompose import RULES, Writer, rule
from fgrad.compiler.library import LIBRARY, Launch, internal
from fgrad.compiler.simplify.constants import cast
from fgrad.core.aval import Aval, Shape, with_ones
from fgrad.core.program import Equation, Var
from fgrad.kernels import native
from fgrad.ops.indices import HOLE, filled

_PUT = """
CONTRACT = (
    "args(x, values, places, out, size, count), len(x) == len(out) == size, "
    "len(values) == len(places) == count, hi == 1"
)


def kernel(slots, args, lo, hi):
    x, values = {dtype}_at(slots, args, 0), {dtype}_at(slots, args, 1)
    places, out = int64_at(slots, args, 2), {dtype}_at(slots, args, 3)
    size, count = args[4], args[5]
    for i in range(size):
        out[i] = x[i]
    for k in range(count):
        out[clipped(places[k], size)] = values[k]
"""

_ORDER = """
CONTRACT = "args(pivots, order, k, m), 0 <= k <= m, len(pivots) >= hi * k, len(order) >= hi * m"


def kernel(slots, args, lo, hi):
    pivots, order, k, m = int64_at(slots, args, 0), int64_at(slots, args, 1), args[2], args[3]
    for i in range(np.int64(lo), np.int64(hi)):
        for j in range(m):
            order[i * m + j] = j
        for j in range(k):
            other = clipped(pivots[i * k + j], m)
            held = order[i * m + j]
            order[i * m + j] = order[i * m + other]
            order[i * m + other] = held
"""


def _put_flat(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    x, _, places = equation.args
    (out,) = equation.outs
    dtype = x.aval.dtype
    if dtype.char not in LETTERS or not dtype.isnative or not places.aval.size:
        return None
    numbers = [*(slots[v] for v in (*equation.args, out)), x.aval.size, places.aval.size]
    kernel = native.deferred(_PUT.format(dtype=dtype.name))
    return Launch(kernel, numbers, 1, x.aval.size + 2 * places.aval.size, shared=False)


def _order(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    (pivots,), (out,) = equation.args, equation.outs
    k, m = pivots.aval.shape[-1], out.aval.shape[-1]
    count = out.aval.size // m
    return Launch(native.deferred(_ORDER), [slots[pivots], slots[out], k, m], count, 2 * out.aval.size)


LETTERS = "?bhilqBHILQefd"
LIBRARY.update({"kernel.put": _put_flat, "kernel.order": _order})
internal("kernel.put", lambda x, *_: x)  # of flat arrays: what is there, what is written, and where
internal("kernel.order", lambda pivots, *, m: Aval((*pivots.shape[:-1], m), pivots.dtype))


@rule("gather")
def _gather(w: Writer, x: Any, *arrays: Any, template: Any, unique: bool = False) -> Any:
    """Check the indices; the rest is said of each element."""
    if not isinstance(x, Var) or not all(isinstance(j, Var) for j in arrays):
        return None
    arrays = tuple([_signed(w, j) for j in arrays])
    _check(w, arrays, indexed_lengths(x.aval.shape, template))
    return w.gather(x, *arrays, template=template, unique=unique)


def _check(w: Writer, arrays: Sequence[Var], lengths: Sequence[int]) -> None:
    """Count the indices that are out of bounds."""
    known = dict(w.constants.values())
    for j, n in zip(arrays, lengths, strict=True):
        if not j.aval.size:
            continue
        if j in known and (not known[j].size or -n <= known[j].min() <= known[j].max() < n):
            continue
        if (j, n) not in w.checked:
            w.checked[j, n] = None
            j = _wide(w, j)  # noqa: PLW2901 -- lengths need not fit its dtype
            bad = w.make("greater_equal", j, n)
            if j.aval.dtype.kind == "i":
                bad = w.make("logical_or", bad, w.make("less", j, -n))
            w.checks[w.sum(bad, axes=tuple(range(len(j.aval.shape))))] = None


def _signed(w: Writer, j: Var) -> Var:
    """Return an index array as NumPy takes it: large unsigned numbers are negative ones, but not alone."""
    if j.aval.dtype != np.uint64 or not j.aval.shape:
        return j
    known = dict(w.constants.values()).get(j)
    dtype = np.dtype(np.int64)
    return w.array(known.astype(dtype, order="C")) if known is not None else w.convert(j, dtype=dtype)


def _wide(w: Writer, j: Var) -> Var:
    """Return integers as those of 64 bits, which every length fits into."""
    dtype = j.aval.dtype
    return j if dtype.itemsize == 8 else w.convert(j, dtype=np.dtype(np.int64))


def indexed_lengths(shape: tuple[int, ...], template: tuple[Any, ...]) -> list[int]:
    """Return the lengths of the axes that index arrays look into."""
    consumed = sum(p is not None and p is not Ellipsis for p in template)
    axis, found = 0, []
    for p in template:
        if p is HOLE:
            found.append(shape[axis])
        if p is Ellipsis:
            axis += len(shape) - consumed
        elif p is not None:
            axis += 1
    return found


def _places(w: Writer, arrays: Sequence[Any], template: Any, shape: Any, given: Any) -> Any:
    """Return for each element of `shape` which of those written it is, -1 for none; None if not known.

    Of several that are written to one place the last one stays; where `given` is "one", None if that happens.
    """
    known = dict(w.constants.values())
    if not all(j in known for j in arrays):
        return None
    order = np.full(shape, -1, np.int64)
    index = filled(template, [known[j] for j in arrays])
    try:
        count = order[index].size
        order[index] = np.arange(count).reshape(order[index].shape)
    except IndexError:
        return None  # NumPy says so when it runs
    return None if given == "one" and np.count_nonzero(order >= 0) != count else order


@rule("put")
def _put(w: Writer, x: Any, value: Any, *arrays: Any, template: Any) -> Any:
    """Let each element choose between what was there and what is written, where it is known which."""
    if not isinstance(x, Var) or (isinstance(value, Var) and value.aval.dtype != x.aval.dtype):
        return None
    order = _places(w, arrays, template, x.aval.shape, "any")
    if order is None:
        return _written_one_by_one(w, x, value, arrays, template)
    if isinstance(value, Var):
        shape = np.empty(x.aval.shape, np.int8)[filled(template, [_constant(w, j) for j in arrays])].shape
        if len(value.aval.shape) > len(shape):
            return None
        value = w.broadcast_to(value, shape)
        value = _chosen(w, value, order)
    elif np.ndim(value):
        return None
    else:
        value = cast(value, x.aval.dtype)
    return w.where(w.operand(order >= 0), value, x)


def _written_one_by_one(w: Writer, x: Var, value: Any, arrays: Sequence[Any], template: Any) -> Any:
    """Write elements in order to places that nobody knows before the program runs."""
    if w.rules is not RULES or not all(isinstance(j, Var) for j in arrays):
        return None
    places = _flat_places(w, arrays, template, x.aval.shape)
    if places is not None and not places.aval.size:
        return x
    if places is None or len(np.shape(value) if not isinstance(value, Var) else value.aval.shape) > len(
        places.aval.shape
    ):
        return None
    value = w.typed(value, x.aval.dtype)
    flat = [w.reshape(v, (v.aval.size,)) for v in (x, w.broadcast_to(value, places.aval.shape), places)]
    return w.reshape(w.make("kernel.put", *flat), x.aval.shape)


def _flat_places(w: Writer, arrays: Sequence[Any], template: Any, shape: Any) -> Any:
    """Return where in a flat array those elements lie that an index chooses."""
    places = w.array(np.arange(math.prod(shape)).reshape(shape))
    return _gather(w, places, *arrays, template=template)


@RULES.on("pivot_order")
def _pivot_order(w: Writer, piv: Any) -> Any:
    """Exchange rows one after the other."""
    if not isinstance(piv, Var) or not piv.aval.size:
        return None
    order = w.make("kernel.order", w.typed(piv, np.dtype(np.int64)), m=piv.aval.shape[-1])
    return w.typed(order, np.dtype(np.int32))


@RULES.on("winners")
def _winners(w: Writer, *arrays: Any, template: Any, shape: Any) -> Any:
    """Number what is written, and see which numbers stay."""
    if not all(isinstance(j, Var) for j in arrays):
        return None
    places = _flat_places(w, arrays, template, shape)
    if places is None:
        return None
    numbers = w.array(np.arange(places.aval.size))
    flat = w.reshape(places, (places.aval.size,))
    order = w.make("kernel.put", w.array(np.zeros(math.prod(shape), np.intp)), numbers, flat)
    stays = w.gather(order, flat, template=(HOLE,), unique=False)
    return w.reshape(w.make("equal", stays, numbers), places.aval.shape)


def _constant(w: Writer, j: Var) -> Any:
    return next(a for v, a in w.constants.values() if v is j)


def _chosen(w: Writer, value: Var, order: Any) -> Any:
    """Return the elements of `value` by their places."""
    if not value.aval.size:  # none is written anywhere
        return w.operand(np.zeros(order.shape, value.aval.dtype))
    flat = w.reshape(value, (value.aval.size,))
    return w.gather(flat, w.operand(np.maximum(order, 0)), template=(HOLE,), unique=False)


@rule("scatter_add")
def _scatter_add(w: Writer, ct: Any, *arrays: Any, template: Any, shape: Any, unique: bool = False) -> Any:
    """Let each element choose what is added to it, where at most one is."""
    if not isinstance(ct, Var) or not all(isinstance(j, Var) for j in arrays):
        return None
    arrays = tuple([_signed(w, j) for j in arrays])
    if not ct.aval.size and not any(j.aval.size for j in arrays):
        return w.array(np.zeros(shape, ct.aval.dtype))
    order = _places(w, arrays, template, shape, "one")
    if order is not None:
        return w.where(w.operand(order >= 0), _chosen(w, ct, order), _nothing(w, ct))
    _check(w, arrays, indexed_lengths(shape, template))
    chosen = _by_rows(w, ct, arrays, template, shape)
    if chosen is None:
        chosen = _at_one(w, ct, arrays, template, shape)
    if chosen is None:
        return w.make("scatter_add", ct, *arrays, template=template, shape=shape, unique=unique)
    return chosen


def _by_rows(w: Writer, ct: Var, arrays: Sequence[Any], template: Any, shape: Any) -> Any:
    """Let each row, along any axis, choose its element, where the other index arrays count the rows."""
    if template != (HOLE,) * len(shape):
        return None
    known = dict(w.constants.values())
    free = [k for k, j in enumerate(arrays) if j not in known]
    if len(free) != 1 or arrays[free[0]].aval.shape != ct.aval.shape:
        return None
    (axis,) = free
    rows = with_ones(shape, (axis,))
    if ct.aval.size != math.prod(rows):
        return None
    for k, n in enumerate(shape):
        if k != axis:
            counted = np.broadcast_to(known[arrays[k]], ct.aval.shape).reshape(rows)
            if not (counted == _along(np.arange(n), k, shape)).all():
                return None
    n = shape[axis]
    j = _wide(w, arrays[axis])
    j = w.where(w.make("less", j, 0), w.add(j, n), j)
    if w.rules is not RULES:  # nothing is checked: an element was read at the nearest place
        j = w.where(w.make("less", j, 0), 0, w.where(w.make("less", j, n), j, n - 1))
    j = w.convert(j, dtype=np.dtype(np.int32))  # as wide as the elements beside it
    places = w.operand(_along(np.arange(n, dtype=np.int32), axis, shape))
    return w.where(w.make("equal", w.reshape(j, rows), places), w.reshape(ct, rows), _nothing(w, ct))


def _along(x: Any, axis: int, shape: Shape) -> Any:
    """Return a vector as an array of axes of length one but `axis`."""
    return x.reshape([-1 if k == axis else 1 for k in range(len(shape))])


def _nothing(w: Writer, ct: Var) -> Any:
    """Return a zero beside which the dtype of `ct` stays what it is."""
    return 0.0 if ct.aval.dtype.kind in "fc" else w.typed(0, ct.aval.dtype)


def _at_one(w: Writer, ct: Var, arrays: Sequence[Any], template: Any, shape: Any) -> Any:
    """Let each element be what is added to it, if it is at the only index."""
    alone = all(part is HOLE for part in template) and all(j.aval.size == 1 for j in arrays)
    if not alone or ct.aval.dtype.kind != "f":
        return None
    here = None
    for axis, j in enumerate(arrays):
        n, ones = shape[axis], [1] * len(shape)
        k = w.reshape(_wide(w, j), tuple(ones))
        k = w.where(w.make("less", k, 0), w.add(k, n), k)
        ones[axis] = n
        equal = w.make("equal", w.operand(np.arange(n).reshape(ones)), k)
        here = equal if here is None else w.logical_and(here, equal)
    ct = w.reshape(ct, (*[1] * len(arrays), *shape[len(arrays) :]))
    return w.where(here, ct, 0.0)
