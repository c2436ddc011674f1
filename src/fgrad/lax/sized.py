"""NumPy's functions whose results have as many elements as the values say, with a length that is given.

So they run in programs and under `vmap`, where no value is known.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad.lax.indexing import scatter


def nonzero(a: Any, size: int, fill_value: Any = 0) -> tuple[Any, ...]:
    """Return the indices of the first nonzero elements, one array of integers per axis.

    Args:
        a: array; a number counts as one with an axis.
        size: how many indices there are for each axis.
        fill_value: what fills them up if there are fewer such elements: an integer, or one for each axis.

    Returns:
        A vector of `size` integers for each axis.

    Derivative:
        None: the results are integers.

    Example:
        >>> fg.jit(lambda x: nonzero(x, 3))(np.array([0.0, 2.0, 3.0]))
        (array([1, 2, 0]),)
    """
    x = fnp.atleast_1d(fnp.asarray(a)) != 0
    flat = fnp.reshape(x, -1)
    order = fnp.argsort(fnp.logical_not(flat), kind="stable")[:size]
    left = fnp.pad(order, (0, size - order.shape[0]))
    is_one = fnp.arange(size) < fnp.sum(flat)
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * x.ndim
    found = []
    for length, fill in zip(reversed(x.shape), reversed(fills), strict=True):
        found.append(fnp.where(is_one, left % max(length, 1), fill))
        left = left // max(length, 1)
    return tuple(reversed(found))


def flatnonzero(a: Any, size: int, fill_value: int = 0) -> Any:
    """Return the indices of the first nonzero elements of the flattened array.

    Args:
        a: array.
        size: how many indices there are.
        fill_value: what fills them up if there are fewer such elements.

    Returns:
        A vector of `size` integers.

    Derivative:
        None: the result is integers.

    Example:
        >>> fg.jit(lambda x: flatnonzero(x, 3))(np.array([[0.0, 2.0], [3.0, 0.0]]))
        array([1, 2, 0])
    """
    return nonzero(fnp.reshape(fnp.asarray(a), -1), size, fill_value)[0]


def argwhere(a: Any, size: int, fill_value: Any = 0) -> Any:
    """Return the indices of the first nonzero elements, one row for each.

    Args:
        a: array.
        size: how many rows there are.
        fill_value: what fills them up if there are fewer such elements: an integer, or one for each axis.

    Returns:
        Array of integers of shape (size, axes of `a`).

    Derivative:
        None: the result is integers.

    Example:
        >>> fg.jit(lambda x: argwhere(x, 2))(np.array([[0.0, 2.0], [3.0, 0.0]]))
        array([[0, 1],
               [1, 0]])
    """
    x = fnp.asarray(a)
    return fnp.stack(nonzero(x, size, fill_value), -1)[:, : x.ndim]


def unique(
    ar: Any,
    size: int,
    fill_value: Any = None,
    *,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    equal_nan: bool = True,
) -> Any:
    """Return the least of the sorted unique elements.

    Args:
        ar: array of one element or more, which is flattened.
        size: how many elements are returned.
        fill_value: what fills them up if there are fewer; None: the least element.
        return_index: whether the indices of first occurrences are returned too.
        return_inverse: whether the indices among all unique elements that rebuild `ar` are returned too.
        return_counts: whether the numbers of occurrences are returned too, zero for what is filled up.
        equal_nan: whether all NaN are one element.

    Returns:
        The unique elements, or a tuple of these and what else was asked for.

    Raises:
        ValueError: there is no element.

    Derivative:
        An element gets the gradient if it is the first one that is equal to a result.

    Example:
        >>> fg.jit(lambda x: unique(x, 3))(np.array([3.0, 1.0, 3.0]))
        array([1., 3., 1.])
    """
    x = fnp.asarray(ar)
    if not x.size:
        raise ValueError("unique of a given size needs an element")
    flat = fnp.reshape(x, -1)
    order = fnp.argsort(flat, kind="stable")
    ordered = flat[order]
    differs = ordered[1:] != ordered[:-1]
    if equal_nan and x.dtype.kind in "fc":
        differs = fnp.logical_and(differs, fnp.logical_not(fnp.isnan(ordered[1:]) & fnp.isnan(ordered[:-1])))
    starts = fnp.concatenate([fnp.ones(1, bool), differs])
    (ends,) = nonzero(starts, size + 1, x.size)
    first = ends[:size]
    is_one, at = first < x.size, fnp.minimum(first, x.size - 1)
    fill = ordered[0] if fill_value is None else fnp.asarray(fill_value).astype(x.dtype)
    found = [fnp.where(is_one, ordered[at], fill)]
    if return_index:
        found.append(fnp.where(is_one, order[at], order[0]))
    if return_inverse:
        places = fnp.cumsum(starts) - 1
        found.append(fnp.reshape(places[fnp.argsort(order)], x.shape))
    if return_counts:
        found.append(fnp.diff(ends))
    return tuple(found) if len(found) > 1 else found[0]


def bincount(x: Any, length: int, weights: Any = None) -> Any:
    """Return how often each of the first integers occurs, or what their weights add up to.

    Args:
        x: array of integers; negative ones count as zero, and those from `length` on are left out.
        length: how many integers are counted.
        weights: array of the shape of `x`; None: ones.

    Returns:
        Vector of `length` integers, or of the dtype of the weights.

    Derivative:
        In the weights: the cotangent at their places.

    Example:
        >>> fg.jit(lambda x: bincount(x, 3))(np.array([1, 1, 7]))
        array([0, 2, 0])
    """
    given = fnp.asarray(1 if weights is None else weights)
    start = np.zeros(length, given.dtype)
    return scatter(start, fnp.maximum(fnp.asarray(x), 0), given, combine=fnp.add)


def repeat(a: Any, repeats: Any, length: int, axis: int | None = None) -> Any:
    """Return each element repeated.

    Args:
        a: array, which is flattened if there is no axis.
        repeats: integers, how often; one for each place along the axis, or one for all.
        length: how many elements the result has along the axis: the last one fills up, or some are left out.
        axis: an axis.

    Returns:
        Array of the dtype of `a`.

    Derivative:
        The sum of the cotangents of the repetitions.

    Example:
        >>> fg.jit(lambda n: repeat(np.array([1.0, 2.0]), n, 4))(np.array([1, 2]))
        array([1., 2., 2., 2.])
    """
    x = fnp.asarray(a)
    if axis is None:
        x, axis = fnp.reshape(x, -1), 0
    n = x.shape[axis]
    ends = fnp.cumsum(fnp.broadcast_to(fnp.asarray(repeats), (n,)))
    places = fnp.searchsorted(ends, fnp.arange(length), side="right")
    return fnp.take(x, fnp.minimum(places, n - 1), axis)
