"""Sorting and searching: primitives that return positions, which have no derivative.

What stands at those places is read by a gather. Its derivative is the derivative of sorting: a permutation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.core.aval import Aval
from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.core.primitive import LARGE, REDUCES, Written, by_argument, declare, flat
from fgrad.core.stored import LARGEST, Check, Stored, is_axis, is_flag, is_int, one_of
from fgrad.ops.compiled import FLOATS, backend
from fgrad.ops.indices import HOLE
from fgrad.ops.linear import broadcast_to, in_full, reshape, with_rank

_PLACES = np.dtype(np.intp)
_FEW = 64  # order statistics for which a partition costs less than sorting
_CHUNK = 2**14  # elements
_SHORT = 256  # elements of a line that NumPy's sort puts in order as fast as the kernel


def _declare(
    name: str,
    run: Callable[..., Any],
    *traits: str,
    verify: Callable[..., bool] | None = None,
    **params: Check,
) -> None:
    def shape(x: Any, *, axis: int, **_: Any) -> Aval:
        if REDUCES in traits and not x.shape[axis]:
            raise ValueError(f"attempt to get {name} of an empty sequence")  # as NumPy says
        return Aval((*x.shape[:axis], *x.shape[axis + 1 :]) if REDUCES in traits else x.shape, _PLACES)

    declare(
        name,
        run=run,
        vjp=flat,
        shape=shape,
        batch=lambda _, x, *, axis, **params: bind(name, x, axis=axis + 1, **params),
        traits=traits,
        stored=Stored({"axis": is_axis, **params}, verify=verify),
    )


def stable_order(x: Any, axis: int) -> Any:
    """Return the places that sort `x` along an axis, equal elements in the order in which they stand.

    Long lines go to a kernel. For short ones of floats this is twice as fast as a stable sort: any sort, and
    then the places of equal elements sorted.
    """
    if x.__class__ is DeviceArray or x.dtype.kind != "f" or x.dtype.itemsize < 4 or x.shape[axis] < 2:
        return np.argsort(x, axis, kind="stable")
    lines = np.moveaxis(x, axis, -1)
    n = lines.shape[-1]
    if x.size >= LARGE and x.dtype in FLOATS and _SHORT <= n < 2**31:
        return np.moveaxis(
            backend("sorting").stable_order(lines.reshape(-1, n)).reshape(lines.shape), -1, axis
        )
    order = np.argsort(lines, -1)
    if _has_ties(lines, order):
        line = np.take_along_axis(lines, order, -1)
        nan = np.isnan(line)
        same = (line[..., 1:] == line[..., :-1]) | (nan[..., 1:] & nan[..., :-1])
        start = np.zeros(line.shape, np.intp)  # n times the number of the run of equal elements
        np.cumsum(~same, -1, out=start[..., 1:])
        start *= n
        start += order
        start.sort(-1)
        order = start % n
    return np.moveaxis(order, -1, axis)


def _has_ties(x: Any, order: Any) -> bool:
    """Return whether two elements of a line are equal, or both NaN."""
    n = x.shape[-1]
    lines, orders = x.reshape(-1, n), order.reshape(-1, n)
    step = max(1, _CHUNK // n)
    for i in range(0, len(lines), step):  # in pieces, so that nothing leaves the cache
        for k in range(0, n - 1, _CHUNK):
            part = np.take_along_axis(lines[i : i + step], orders[i : i + step, k : k + _CHUNK + 1], -1)
            if (part[:, 1:] == part[:, :-1]).any() or np.isnan(part[:, -2]).any():
                return True
    return False


def _run_argsort(x: Any, *, axis: int, kind: Any = "stable") -> Any:
    if kind in {"stable", "mergesort"} or x.__class__ is DeviceArray:
        return stable_order(x, axis)
    return np.argsort(x, axis, kind=kind)


def _is_kth(v: Any, _: Any) -> bool:
    numbers = isinstance(v, np.ndarray | np.generic) and v.dtype.kind in "iu"
    if not numbers and type(v) not in {tuple, list, int}:
        return False
    found = v.ravel().tolist() if numbers else v if type(v) in {tuple, list} else [v]
    return bool(found) and all(is_int(k, -LARGEST, LARGEST) for k in found)


def _has_elements(x: Aval, *, axis: int) -> bool:
    return x.shape[axis] > 0


_declare("argsort", _run_argsort, kind=one_of(None, "quicksort", "mergesort", "heapsort", "stable"))
_declare(
    "argpartition",
    lambda x, *, axis, kth: np.argpartition(x, kth, axis),
    kth=_is_kth,
    verify=lambda x, *, axis, kth: all(
        -x.shape[axis] <= k < x.shape[axis] for k in np.asarray(kth, np.int64).ravel().tolist()
    ),
)
_declare("argmax", lambda x, *, axis: np.argmax(x, axis), REDUCES, verify=_has_elements)
_declare("argmin", lambda x, *, axis: np.argmin(x, axis), REDUCES, verify=_has_elements)


# Order statistics of lanes: the last axis of `x` is ordered, its other axes are those of `ranks`, if any.


def _run_rank(x: Any, ranks: Any, *, propagate: bool) -> Any:
    """Return where the elements of some ranks stand; with `propagate`, where NaN does if there is one."""
    nan_counts = propagate and x.dtype.kind in "fc"
    if x.__class__ is DeviceArray:  # nothing of it may be read
        return _ranked_by_sorting(x, ranks, nan_counts)
    wanted, back = np.unique(ranks, return_inverse=True)
    if ranks.ndim > 1 or wanted.size > _FEW:
        return _ranked_by_sorting(x, ranks, nan_counts)
    end = x.shape[-1] - 1
    places = np.argpartition(x, [*wanted, end] if nan_counts else wanted, -1)
    if nan_counts and np.isnan(np.take_along_axis(x, places[..., end:], -1)).any():
        return _ranked_by_sorting(x, ranks, nan_counts)
    places = places[..., wanted]
    for i, k in enumerate(wanted):
        places[..., i] = _first_at(x, places[..., i : i + 1], k)
    return places[..., back]


def _ranked_by_sorting(x: Any, ranks: Any, nan_counts: Any) -> Any:
    order = stable_order(x, -1)
    if x.__class__ is DeviceArray and ranks.__class__ is not DeviceArray:
        ranks = x.place.constant(ranks)
    return _at_ranks(x, order, np.broadcast_to(ranks, (*x.shape[:-1], ranks.shape[-1])), nan_counts)


def _at_ranks(x: Any, order: Any, ranks: Any, nan_counts: Any) -> Any:
    if nan_counts:
        last = np.take_along_axis(x, order[..., -1:], -1)
        ranks = np.where(np.isnan(last), x.shape[-1] - 1, ranks)
    return np.take_along_axis(order, ranks, -1)


def _first_at(x: Any, place: Any, rank: int) -> Any:
    """Return which of several equal elements has a rank in the stable order, one of them is at `place`."""
    value = np.take_along_axis(x, place, -1)
    equal = x == value
    if np.count_nonzero(equal) == math.prod(value.shape):
        return place[..., 0]
    before = np.count_nonzero(x < value, -1, keepdims=True)
    found = np.argmax(np.cumsum(equal, -1) > rank - before, -1)
    return np.where(np.isnan(value[..., 0]), place[..., 0], found) if x.dtype.kind in "fc" else found


def _written_rank(x: Any, ranks: Any, *, propagate: bool) -> Any:
    order = bind("argsort", x, axis=len(x.shape) - 1)
    ranks = broadcast_to(ranks, (*x.shape[:-1], ranks.shape[-1]))
    return _at_ranks(x, order, ranks, propagate and x.dtype.kind == "f")


def _batch_rank(mapped: tuple[bool, ...], x: Any, ranks: Any, *, propagate: bool) -> Any:
    if not mapped[0]:
        x = broadcast_to(x, (ranks.shape[0], *x.shape))
    if mapped[1]:
        ranks = broadcast_to(with_rank(ranks, len(x.shape)), (*x.shape[:-1], ranks.shape[-1]))
    elif len(ranks.shape) > 1:
        ranks = broadcast_to(ranks, (*x.shape[:-1], ranks.shape[-1]))
    return bind("rank", x, ranks, propagate=propagate)


def _ranks(x: Aval, ranks: Aval, **_: Any) -> bool:
    alone = ranks.ndim == 1 or ranks.shape[:-1] == x.shape[:-1]
    integers = ranks.dtype.kind in "iu" and np.can_cast(ranks.dtype, np.intp)
    return x.ndim > 0 and ranks.ndim > 0 and integers and alone


def _represents(x: Aval, first: Aval, group: Aval) -> bool:
    integers = all(a.ndim == 1 and a.dtype.kind in "iu" for a in (first, group))
    return x.ndim > 0 and integers and group.shape == x.shape[:1]


declare(
    "rank",
    run=_run_rank,
    vjp=flat,
    shape=lambda x, ranks, *, propagate: Aval((*x.shape[:-1], ranks.shape[-1]), _PLACES),
    batch=_batch_rank,
    written=Written(_written_rank, lambda x, *_, **__: x.dtype.kind in "biuf"),
    stored=Stored({"propagate": is_flag}, verify=_ranks),
)


# Searching: the last axis of `a` is sorted, and its other axes, if any, are the first ones of `v`.


def _run_search(a: Any, v: Any, *, side: Any) -> Any:
    if a.ndim == 1:
        return np.searchsorted(a, v, side)
    found = near(v).empty(v.shape, np.intp)
    for lane in np.ndindex(a.shape[:-1]):
        found[lane] = np.searchsorted(a[lane], v[lane], side)
    return found


def _batch_search(mapped: tuple[bool, ...], a: Any, v: Any, *, side: Any) -> Any:
    if mapped[0] and not mapped[1]:
        v = broadcast_to(v, (a.shape[0], *v.shape))
    elif not mapped[0] and len(a.shape) > 1:
        a = broadcast_to(a, (v.shape[0], *a.shape))
    return bind("search", a, v, side=side)


declare(
    "search",
    run=_run_search,
    vjp=flat,
    shape=lambda a, v, *, side: Aval(v.shape, _PLACES),
    batch=_batch_search,
    stored=Stored(
        {"side": one_of("left", "right")},
        verify=lambda a, v, *, side: a.ndim == 1 or (a.ndim > 1 and v.shape[: a.ndim - 1] == a.shape[:-1]),
    ),
)


# One element of each group of equal ones; they share its gradient, so that none of them is preferred.


def _share(ct: Any, z: Any) -> Any:
    ones = near(ct).ones(z.shape, ct.real.dtype if ct.dtype.kind == "c" else ct.dtype)
    count = bind("scatter_add", ones, z, template=(HOLE,), shape=ct.shape[:1])
    each = ct / bind("reshape", count, shape=(*count.shape, *(1,) * (len(ct.shape) - 1)))
    return bind("gather", each, z, template=(HOLE,))


def _batch_representative(mapped: tuple[bool, ...], x: Any, first: Any, group: Any) -> Any:
    """Treat all examples as one array whose groups lie apart."""
    x, first, group = in_full(mapped, (x, first, group))
    (n, size), groups = x.shape[:2], first.shape[1]
    rows = near(x).arange(n)[:, None]
    found = bind(
        "representative",
        reshape(x, (n * size, *x.shape[2:])),
        reshape(first + rows * size, (n * groups,)),
        reshape(group + rows * groups, (n * size,)),
    )
    return reshape(found, (n, groups, *x.shape[2:]))


declare(
    "representative",
    run=lambda x, first, group: x[first],
    vjp=by_argument(_share, None, None, exact=True),
    shape=lambda x, first, group: Aval((*first.shape, *x.shape[1:]), x.dtype),
    batch=_batch_representative,
    written=Written(lambda x, first, _: bind("gather", x, first, template=(HOLE,))),
    indices=1,
    stored=Stored(verify=_represents),
)
