"""Sorting and searching; what is sorted has the derivative of a permutation, indices have none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad.compat.numpy import NO_VALUE
from fgrad.core.dispatch import bind, unary
from fgrad.core.placement import near
from fgrad.core.tensor import Tensor, is_tracked, wrap
from fgrad.core.trace import Tracer
from fgrad.core.views import unordered
from fgrad.numpy.arrays import as_tensor, as_value, concrete, known, next_to, together
from fgrad.numpy.cumulative import along
from fgrad.numpy.indexing import along_axis, beside
from fgrad.numpy.permutations import flip
from fgrad.numpy.reductions import all as _all
from fgrad.numpy.registry import extends, holds_tensor, implements, named, written_back
from fgrad.ops import linear
from fgrad.ops.indices import HOLE
from fgrad.ops.requirements import require


def _kind(kind: Any, order: Any, stable: Any) -> Any:
    """Return the kind of sort that is asked for, after NumPy's checks."""
    np.argsort(np.zeros(1), kind=kind, order=order, stable=stable)
    if stable:
        return "stable"
    return kind


def _permuted(a: Tensor, axis: Any, order: Callable[..., Any], directly: Callable[..., Any]) -> Any:
    """Return `a` permuted along an axis as `order` says; `directly` does it where no derivative is needed."""
    if axis is None:
        a, axis = linear.reshape(a, (a.size,)), 0
    axis = normalize_axis_index(axis, len(a.shape))
    if not isinstance(a._value, Tracer) and not is_tracked(a):
        return wrap(directly(a._value, axis=axis))
    return unordered(along_axis(a, order(a, axis=axis), axis, unique=True), a)


def _descending(a: Any, axis: int | None, ascending: Callable[[Any, int], Any]) -> Any:
    """Return what `ascending` makes of the reversed line, reversed: so equal elements keep their order."""
    a, place = along(as_value(a), axis)
    return flip(ascending(flip(a, place), place), place)


@implements(np.sort)
def sort(
    a: Any,
    axis: int | None = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: bool = False,
) -> Any:
    """Return `a` sorted along an axis; None flattens first.

    Args:
        a: array; NaN comes last, complex numbers are ordered by real, then imaginary part.
        axis: the axis along which to sort.
        kind: the algorithm, which does not affect the result.
        order: for structured arrays, which are no Tensors: None.
        stable: whether equal elements keep their order, which their gradients always do.
        descending: whether the greatest element comes first (a keyword of the array API standard), NaN
            before it.

    Returns:
        A sorted copy, of the shape (but for `axis=None`) and dtype of `a`.

    Derivative:
        The permutation: the gradient of each element goes back to where it came from, equal elements in the
        order in which they stand.

    Example:
        >>> fnp.sort(np.array([3.0, 1.0, 2.0]))
        array([1., 2., 3.])
        >>> fg.jacobian(fnp.sort)(np.array([3.0, 1.0]))
        array([[0., 1.],
               [1., 0.]])
    """
    if descending:
        return _descending(a, axis, lambda a, place: sort(a, place, kind, order, stable=stable))
    if not holds_tensor(a):
        return np.sort(a, axis, kind, order, stable=stable)
    _kind(kind, order, stable)
    return _permuted(as_tensor(as_value(a)), axis, lambda a, axis: bind("argsort", a, axis=axis), np.sort)


@implements(np.argsort)
def argsort(
    a: Any,
    axis: int | None = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: bool = False,
) -> Any:
    """Return the indices that sort `a` along an axis; None flattens first.

    The arguments are those of `sort`.

    Returns:
        Integers (int64), of the shape of `a`, or flat.

    Derivative:
        None: the results are integers. `take_along_axis` with them differentiates the sorted elements.

    Example:
        >>> fnp.argsort(np.array([3.0, 1.0, 2.0]))
        array([1, 2, 0])
    """
    if descending:
        places = _descending(a, axis, lambda a, place: argsort(a, place, kind, order, stable=stable))
        return (places.size if axis is None else places.shape[axis]) - 1 - places
    kind = _kind(kind, order, stable)
    a, place = along(as_value(a), axis)
    return bind("argsort", a, axis=place, kind=kind)


@implements(np.sort_complex)
def sort_complex(a: Any) -> Any:
    """Return `a` sorted along its last axis, as complex numbers: by real part, then by imaginary part.

    Returns:
        Array of the shape of `a`, of complex numbers.

    Derivative:
        The permutation, as for `sort`.

    Example:
        >>> fnp.sort_complex(np.array([3.0, 1.0]))
        array([1.+0.j, 3.+0.j])
    """
    y = sort(a)
    if y.dtype.kind == "c":
        return y
    return linear.convert(y, np.dtype({"g": "G"}.get(y.dtype.char, "F" if y.dtype.char in "bhBH" else "D")))


@implements(np.lexsort)
def lexsort(keys: Any, axis: int = -1) -> Any:
    """Return the indices that sort by several keys, the last of which counts most.

    Returns:
        Integers (int64), of the shape of one key.

    Derivative:
        None: the results are integers.

    Example:
        >>> fnp.lexsort((np.array([1, 0, 2]), np.array([1, 1, 0])))
        array([2, 1, 0])
    """
    rows = together(*keys) if isinstance(keys, tuple | list) else (keys,)
    if any(known(k) is None for k in rows):
        return _lexsorted(list(rows if isinstance(keys, tuple | list) else keys), axis)
    values = tuple([concrete(k, "lexsort") for k in rows])
    found = np.lexsort(values if isinstance(keys, tuple | list) else values[0], axis)
    return beside(found, *rows)


def _lexsorted(keys: list[Any], axis: int) -> Any:
    """Sort by one key after the other, of which the last counts most: equal elements keep their order."""
    lengths = [np.shape(k) for k in keys]
    np.lexsort([np.broadcast_to(np.int8(0), shape) for shape in lengths], axis)  # NumPy's checks
    if not lengths[0]:
        return next_to(np.intp(0), *keys)
    order = argsort(keys[0], axis, stable=True)
    for key in keys[1:]:
        order = along_axis(order, argsort(along_axis(key, order, axis), axis, stable=True), axis)
    return order


def _kths(kth: Any) -> Any:
    """Return indices to partition at, as NumPy takes them."""
    kth = concrete(kth, "partition") if isinstance(kth, Tensor) else kth
    numbers = np.asarray(kth)
    if numbers.dtype.kind not in "iu" or numbers.ndim > 1:
        np.partition(np.zeros(1), kth)  # NumPy's error, also where a program computes the positions
    return kth


@extends(np.partition)
def partition(a: Any, kth: Any, axis: int | None = -1, kind: Any = "introselect", order: Any = None) -> Any:
    """Return `a` with the elements at `kth` where sorting puts them, smaller ones before, greater behind.

    Args:
        a: array; NaN comes last.
        kth: position or positions along the axis.
        axis: the axis to be partitioned; None flattens first.
        kind: "introselect".
        order: for structured arrays, which are no Tensors: None.

    Returns:
        A partitioned copy; the order on both sides of `kth` is not specified.

    Derivative:
        The permutation, as that of `sort`; between equal elements it is not specified.

    Example:
        >>> fnp.partition(np.array([3.0, 1.0, 2.0]), 0)[0]
        np.float64(1.0)
    """
    a, kth = as_tensor(as_value(a)), _kths(kth)
    np.partition(np.zeros(1), 0, kind=kind, order=order)  # NumPy's checks

    def places(a: Any, axis: int) -> Any:
        return bind("argpartition", a, axis=axis, kth=kth)

    return _permuted(a, axis, places, lambda v, axis: np.partition(v, kth, axis))


@implements(np.argpartition)
def argpartition(
    a: Any, kth: Any, axis: int | None = -1, kind: Any = "introselect", order: Any = None
) -> Any:
    """Return the indices that partition `a` along an axis; None flattens first.

    Returns:
        Integers (int64), of the shape of `a`, or flat.

    Raises:
        ValueError: `kth` is out of bounds.

    Derivative:
        None: the results are integers.

    Example:
        >>> int(fnp.argpartition(np.array([3.0, 1.0, 2.0]), 0)[0])
        1
    """
    a, kth = as_value(a), _kths(kth)
    np.partition(np.zeros(1), 0, kind=kind, order=order)  # NumPy's checks
    a, place = along(a, axis)
    return bind("argpartition", a, axis=place, kth=kth)


@extends(np.searchsorted)
def searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    """Return where elements would have to be inserted to keep `a` sorted.

    Args:
        a: sorted vector, or one that `sorter` sorts.
        v: array of elements.
        side: "left" for the first such position, "right" for the last.
        sorter: indices that sort `a`.

    Returns:
        Integers of the shape of `v`.

    Derivative:
        None: the results are integers.

    Example:
        >>> fnp.searchsorted(np.array([1.0, 2.0, 3.0]), 2.5)
        np.int64(2)
    """
    a, v = next_to(a, v, sorter), next_to(v, a, sorter)
    if sorter is not None:
        order = concrete(sorter, "searchsorted")
        there = near(order) is not np
        checked = np.zeros(order.shape, order.dtype) if there else order
        np.searchsorted(np.zeros(a.shape), 0.0, side, checked)  # NumPy's checks
        a = beside(bind("gather", a, order, template=(HOLE,)), sorter)
    else:
        np.searchsorted(np.zeros(a.shape), 0.0, side)
    return bind("search", a, v, side=side)


@extends(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """Return the number of the bin that each element of `x` is in, 0 and len(bins) if outside.

    Args:
        x: real array.
        bins: vector of edges, increasing or decreasing.
        right: whether a bin holds its right edge instead of its left one.

    Returns:
        Integers of the shape of `x`.

    Raises:
        ValueError: `bins` is not monotonic.
        TypeError: `x` is complex.

    Derivative:
        None: the results are integers.

    Example:
        >>> fnp.digitize(np.array([0.5, 1.5]), np.array([0.0, 1.0, 2.0]))
        array([1, 2])
    """
    x, bins = together(x, bins)
    edges = concrete(bins, "digitize")
    for v in (x, edges):
        if v.dtype.kind == "c":
            raise TypeError(
                f"Cannot cast array data from {v.dtype} to float64: complex numbers have no order"
            )
    np.digitize(np.zeros(0, x.dtype), np.zeros((0,) * edges.ndim), right)  # NumPy's checks of what they are
    falls = bool(np.any(edges[1:] < edges[:-1]))
    if falls and np.any(edges[1:] > edges[:-1]):
        raise ValueError("bins must be monotonically increasing or decreasing")
    side = "left" if right else "right"
    if falls:
        return len(edges) - as_tensor(searchsorted(edges[::-1], x, side))
    return as_tensor(searchsorted(edges, x, side))


_PLACE_DOC = """Return the index of the first {what}.

Returns:
    Integers (int64), of the shape of `a` without the axis{beside}.

Raises:
    ValueError: {error}.

Derivative:
    None: the results are integers.

Example:
    >>> fnp.{name}(np.array({given}))
    np.int64({place})
"""


def _finds(theirs: Callable[..., Any], worst: float | None = None, **words: str) -> Callable[..., Any]:
    """Return a function that finds what NumPy's finds; `worst` stands where NaN is left out."""
    name = theirs.__name__
    row = name.removeprefix("nan")
    beside, error = "; without `axis` one for the flattened array", "no elements"
    if worst is not None:
        beside, error = "", "every element of a slice is NaN"

    @implements(theirs)
    @named(name, _PLACE_DOC.format(name=name, beside=beside, error=error, **words))
    def find(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        a = as_value(a)
        if worst is not None and a.dtype.kind in "fc":
            nan = unary("isnan", a)
            a = bind("where", nan, worst, a)
            if a.size:
                require(unary("logical_not", _all(nan, axis)), ValueError, "All-NaN slice encountered")
        line, place = along(a, axis)
        y = bind(row, line, axis=place)
        if keepdims and keepdims is not NO_VALUE:
            shape = tuple(1 if axis is None or i == place else m for i, m in enumerate(a.shape))
            y = linear.reshape(y, shape)
        return written_back(y, out)

    return find


# fmt: off
argmax = _finds(np.argmax,
    what="greatest element", given="[1.0, 3.0, 3.0]", place="1")
argmin = _finds(np.argmin,
    what="smallest element", given="[2.0, 1.0, 1.0]", place="1")
nanargmax = _finds(np.nanargmax, -np.inf,
    what="greatest element that is not NaN", given="[1.0, np.nan, 3.0]", place="2")
nanargmin = _finds(np.nanargmin, np.inf,
    what="smallest element that is not NaN", given="[1.0, np.nan, 3.0]", place="0")
# fmt: on
