"""Counting: histograms, which are linear in the weights of what is counted."""

from __future__ import annotations

import math
import operator
import warnings
from typing import Any

import numpy as np

from fgrad.core.dispatch import bind
from fgrad.core.placement import near, placed
from fgrad.core.tensor import Tensor
from fgrad.numpy.arrays import as_tensor, concrete, known, next_to, seen, together
from fgrad.numpy.cumulative import diff
from fgrad.numpy.ordering import searchsorted
from fgrad.numpy.reductions import max as _max
from fgrad.numpy.reductions import min as _min
from fgrad.numpy.reductions import sum
from fgrad.numpy.registry import extends
from fgrad.numpy.shapes import atleast_2d, transpose
from fgrad.ops import linear
from fgrad.ops.indices import HOLE


def _column(x: Any, i: int) -> Any:
    return bind("slice", x, index=(slice(None), i))


def _outer_edges(a: Any, range: Any) -> tuple[Any, Any]:
    """Return where the first bin begins and the last one ends."""
    if range is not None:
        first, last = range
        np.histogram_bin_edges(np.zeros(0), 1, range)  # NumPy's checks
    elif a.size == 0:
        first, last = 0, 1
    else:
        first, last = _min(a), _max(a)
        ends = known(first), known(last)
        if ends[0] is None or ends[1] is None:
            half = bind("where", bind("equal", first, last), 0.5, 0.0)
            half = linear.convert(half, np.empty(0, a.dtype).real.dtype) if a.dtype.kind in "fc" else half
            return first - half, last + half
        if not (np.isfinite(ends[0]) and np.isfinite(ends[1])):
            raise ValueError(f"autodetected range of [{ends[0]}, {ends[1]}] is not finite")
    return (first - 0.5, last + 0.5) if known(first) == known(last) else (first, last)


def _spaced(a: Any, first: Any, last: Any, n: int, dtype: np.dtype[Any]) -> Any:
    """Return n + 1 edges at equal distances for the elements of `a`, rounded as NumPy does."""
    if not isinstance(first, Tensor) and not isinstance(last, Tensor):
        return placed(a, np.linspace(first, last, n + 1, dtype=dtype))
    first, last = (linear.convert(e, dtype) for e in together(first, last))
    # compiled, a sum would not round the product, and zero might not be an edge
    line = first - near(first).arange(n + 1, dtype=dtype) * ((first - last) / n)
    return bind("update", line, last, index=(-1,))


def _edges(a: Any, bins: Any, range: Any, weights: Any) -> Any:
    """Return the edges of the bins of a vector, as Tensor if they depend on one."""
    if isinstance(bins, str):
        if weights is not None:
            np.histogram_bin_edges(np.zeros(1), bins, range, np.ones(1))
        bins = len(np.histogram_bin_edges(concrete(a, f"bins={bins!r}"), bins, range)) - 1
    given = next_to(bins, a)
    if len(given.shape) > 1:
        raise ValueError("`bins` must be 1d, when an array")
    if len(given.shape) == 1:
        if seen(given, lambda v: v[:-1] > v[1:]):
            raise ValueError("`bins` must increase monotonically, when an array")
        return given
    try:
        n = operator.index(bins)
    except TypeError as error:
        raise TypeError("`bins` must be an integer, a string, or an array") from error
    if n < 1:
        raise ValueError("`bins` must be positive, when an integer")
    first, last = _outer_edges(a, range)
    kind = np.result_type(*(e.dtype if isinstance(e, Tensor) else e for e in (first, last)), a.dtype)
    edges = _spaced(a, first, last, n, np.result_type(kind, float) if kind.kind in "iu" else kind)
    if seen(edges, lambda v: v[:-1] >= v[1:]):
        raise ValueError(f"Too many bins for data range. Cannot create {n} finite-sized bins.")
    return edges


def _vector(a: Any, *others: Any) -> Any:
    a = next_to(a, *others)
    if a.dtype.kind == "b":
        warnings.warn(
            "Converting input from bool to <class 'numpy.uint8'> for compatibility.",
            RuntimeWarning,
            stacklevel=3,
        )
        a = linear.convert(a, np.dtype(np.uint8))
    return linear.reshape(a, (a.size,))


def _bin(x: Any, edges: Any) -> Any:
    """Return the number of the bin of each element; 0 and len(edges) are outside."""
    n = edges.shape[0]
    place = searchsorted(edges, x, "right")
    at_end = bind("equal", x, bind("slice", edges, index=(-1,)))
    return bind("where", at_end, n - 1, place)


def _counted(place: Any, weights: Any, n: int) -> Any:
    """Return how much weight stands at each of `n` places."""
    if weights is None:
        weights = near(place).ones(place.shape, np.intp)
    kind = weights.dtype
    wide = kind if kind.kind in "iu" else np.result_type(kind, float)
    total = bind("scatter_add", linear.convert(weights, wide), place, template=(HOLE,), shape=(n,))
    return linear.convert(total, kind)


@extends(np.histogram_bin_edges)
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """Return the edges of the bins that `histogram` uses.

    Returns:
        Array (number of bins + 1,) of floats.

    Derivative:
        The edges between the least and the greatest element move with these; the number of bins has none.

    Example:
        >>> fnp.histogram_bin_edges(np.array([0.0, 1.0]), bins=2)
        array([0. , 0.5, 1. ])
    """
    edges = _edges(_vector(a, bins, *(range or ())), bins, range, weights)
    return as_tensor(edges)


@extends(np.histogram)
def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Any, Any]:
    """Return how many elements, or how much weight, each bin holds, and the edges of the bins.

    Args:
        a: real array, flattened.
        bins: the number of bins, a vector of edges, or the name of one of NumPy's rules for their number.
        range: where the first bin begins and the last one ends; None: the least and the greatest element.
        density: whether counts are divided by their sum and by the widths of the bins.
        weights: of the elements.

    Returns:
        Vectors of the counts, and of the edges; the last bin holds its right edge, the others do not.

    Raises:
        ValueError: edges that decrease, a range that is not finite, weights of another shape.
        TypeError: `bins` is none of these.

    Derivative:
        Linear in the weights. Counts are steps, with slope zero; edges between the least and the greatest
        element move with these, and densities with the widths of the bins.

    Example:
        >>> fnp.histogram(np.array([0.1, 0.2, 0.9]), bins=2, range=(0.0, 1.0))
        (array([2, 1]), array([0. , 0.5, 1. ]))
    """
    if weights is not None:
        a, weights = together(a, weights)
        if weights.shape != a.shape:
            raise ValueError("weights should have the same shape as a.")
        weights = linear.reshape(weights, (math.prod(weights.shape),))
    x = _vector(a, bins, *(range or ()))
    edges = _edges(x, bins, range, weights)
    n = edges.shape[0]
    if not n:
        return Tensor(np.zeros(0, int)), as_tensor(edges)
    counts = bind("slice", _counted(_bin(x, edges), weights, n + 1), index=(slice(1, n),))
    if density:
        with np.errstate(invalid="ignore", divide="ignore"):
            counts = counts / linear.convert(diff(edges), np.dtype(float)) / sum(counts)
    return as_tensor(counts), as_tensor(edges)


@extends(np.histogramdd)
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Any, Any]:
    """Return how many points, or how much weight, each cell of a grid holds, and the edges of the grid.

    Args:
        sample: array of shape (points, axes), or a sequence of one vector per axis.
        bins: the number of bins of every axis, or a sequence of such numbers or of vectors of edges.
        range: a sequence of one range per axis.
        density: whether counts are divided by their sum and by the volumes of the cells.
        weights: of the points.

    Returns:
        The counts, and a list of one vector of edges per axis.

    Raises:
        ValueError: axes, bins and ranges of unlike number, edges that decrease.

    Derivative:
        As that of `histogram`.

    Example:
        >>> fnp.histogramdd(np.array([[0.1, 0.2], [0.9, 0.8]]), bins=2)[0]
        array([[1., 0.],
               [0., 1.]])
    """
    matrix = hasattr(sample, "shape") and len(sample.shape) == 2
    x = sample if matrix else atleast_2d(sample)
    d = x.shape[int(matrix)]
    several = bins if hasattr(bins, "__len__") else [bins] * d
    x = next_to(sample, weights, *several)
    x = x if matrix else transpose(atleast_2d(x))
    if len(several) != d:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    ranges = [None] * d if range is None else range
    if len(ranges) != d:
        raise ValueError("range argument must have one entry per dimension")
    edges = [
        _grid_edges(_column(x, i), b, r, i) for i, (b, r) in enumerate(zip(several, ranges, strict=True))
    ]
    lengths = [e.shape[0] + 1 for e in edges]
    place: Any = 0
    for i, e in enumerate(edges):
        place = place * lengths[i] + _bin(_column(x, i), e)
    weights = None if weights is None else next_to(weights, x)
    total = _counted(place, weights, math.prod(lengths))
    if not np.can_cast(total.dtype, float):
        raise TypeError(f"Cannot cast array data from {total.dtype} to float64 according to the rule 'safe'")
    y = linear.convert(linear.reshape(total, tuple(lengths)), np.dtype(float))
    y = bind("slice", y, index=(slice(1, -1),) * d)
    if density:
        norm = sum(y)
        with np.errstate(invalid="ignore", divide="ignore"):
            for i, e in enumerate(edges):
                width = diff(e)
                y = y / linear.reshape(width, tuple(width.size if k == i else 1 for k in np.arange(d)))
            y = y / norm
    return as_tensor(y), list(map(as_tensor, edges))


def _grid_edges(x: Any, bins: Any, range: Any, axis: int) -> Any:
    given = next_to(bins, x)
    if len(given.shape) == 1:
        if seen(given, lambda v: v[:-1] > v[1:]):
            raise ValueError(f"`bins[{axis}]` must be monotonically increasing, when an array")
        return given
    if len(given.shape) > 1:
        raise ValueError(f"`bins[{axis}]` must be a scalar or 1d array")
    if bins < 1:
        raise ValueError(f"`bins[{axis}]` must be positive, when an integer")
    first, last = _outer_edges(x, range)
    try:
        n = operator.index(bins)
    except TypeError as error:
        raise TypeError(f"`bins[{axis}]` must be an integer, when a scalar") from error
    wide = np.result_type(*(e.dtype if isinstance(e, Tensor) else e for e in (first, last)), 1.0)
    return _spaced(x, first, last, n, wide)


@extends(np.histogram2d)
def histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: Any = None,
) -> tuple[Any, Any, Any]:
    """Return how many points, or how much weight, each cell of a plane holds, and the edges of both axes.

    Args:
        x: vector of first coordinates.
        y: vector of second coordinates.
        bins: the number of bins of both axes, a vector of edges of both, or one of these per axis.
        range: a pair of ranges.
        density: whether counts are divided by their sum and by the areas of the cells.
        weights: of the points.

    Returns:
        The array of counts, `x` along its rows, and vectors of the edges of both axes.

    Raises:
        ValueError: `x` and `y` differ in length; what `histogramdd` raises.

    Derivative:
        As that of `histogram`.

    Example:
        >>> fnp.histogram2d(np.array([0.1, 0.9]), np.array([0.2, 0.8]), bins=2, range=((0, 1), (0, 1)))[0]
        array([[1., 0.],
               [0., 1.]])
    """
    if len(x) != len(y):
        raise ValueError("x and y must have the same length.")
    if hasattr(bins, "__len__") and len(bins) not in {1, 2}:
        bins = [bins] * 2
    counts, (first, second) = histogramdd([x, y], bins, range, density, weights)
    return counts, first, second


@extends(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    """Return how often each non-negative integer occurs, or the sum of its weights.

    Args:
        x: vector of integers.
        weights: of the elements; real.
        minlength: the least length of the result.

    Returns:
        Integers without weights, double precision with weights.

    Raises:
        ValueError: `x` is no vector or holds negative integers; the weights are not one per element.
        TypeError: `x` does not hold integers, or the weights are complex.

    Derivative:
        Linear in the weights.

    Example:
        >>> fnp.bincount(np.array([0, 2, 2]))
        array([1, 0, 2])
    """
    places = concrete(next_to(x, weights), "bincount, whose result has a length that depends on the values,")
    counts = np.bincount(places, None, minlength)
    if weights is None or not places.size:
        return Tensor(counts)
    w = next_to(weights, places)
    if w.shape != places.shape:
        raise ValueError("The weights and list don't have the same length.")
    if w.dtype.kind == "c":
        raise TypeError("Cannot cast array data from complex to float64 according to the rule 'safe'")
    return as_tensor(_counted(places.astype(np.intp), linear.convert(w, np.dtype(float)), counts.size))
