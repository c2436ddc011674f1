"""Arrays taken apart: into equal parts, at places, along an axis."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad.numpy.arrays import as_value
from fgrad.numpy.registry import implements, named
from fgrad.numpy.views import sliced


@implements(getattr(np, "unstack", None))
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Return the parts along an axis, which disappears; the inverse of `stack`.

    Returns:
        Tuple of arrays without the axis, views; of the dtype of `x`.

    Raises:
        ValueError: no axes.

    Derivative:
        The identity: the cotangents stacked again.

    Example:
        >>> fnp.unstack(np.array([[1.0, 2.0], [3.0, 4.0]]))
        (array([1., 2.]), array([3., 4.]))
    """
    x = as_value(x)
    if not x.shape:
        raise ValueError("Input array must be at least 1-d.")
    axis = normalize_axis_index(axis, len(x.shape))
    return tuple([sliced(x, (*(slice(None),) * axis, i)) for i in range(x.shape[axis])])


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Return parts along an axis, of nearly equal length or split at indices.

    Returns:
        List of arrays, views of `ary` as NumPy's; of its dtype.

    Raises:
        ValueError: fewer than one section.

    Derivative:
        The identity: the cotangents joined again.

    Example:
        >>> [len(part) for part in fnp.array_split(np.arange(5.0), 2)]
        [3, 2]
    """
    ary = as_value(ary)
    axis = normalize_axis_index(axis, len(ary.shape))
    n = ary.shape[axis]
    if isinstance(indices_or_sections, int | np.integer):
        if indices_or_sections <= 0:
            raise ValueError("number sections must be larger than 0.")
        each, extra = divmod(n, int(indices_or_sections))
        ends = np.cumsum([0] + extra * [each + 1] + (int(indices_or_sections) - extra) * [each]).tolist()
    else:
        ends = [0, *map(operator.index, indices_or_sections), n]
    lead = (slice(None),) * axis
    return [sliced(ary, (*lead, slice(start, stop))) for start, stop in pairwise(ends)]


@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Return parts along an axis, of equal length or split at indices.

    Returns:
        List of arrays, of the dtype of `ary`.

    Raises:
        ValueError: parts would not be of equal length.

    Derivative:
        The identity: the cotangents joined again.

    Example:
        >>> fnp.split(np.array([1.0, 2.0, 3.0]), [1])
        [array([1.]), array([2., 3.])]
    """
    if isinstance(indices_or_sections, int | np.integer):
        n = as_value(ary).shape[axis]
        if n % indices_or_sections:
            raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


def _splits(
    theirs: Callable[..., Any], axis: int, least: str, where: str, example: str
) -> Callable[..., Any]:
    name, ndim = theirs.__name__, _LEAST.index(least) + 1
    given, result = example.split(" -> ")

    @implements(theirs)
    @named(
        name,
        f"""Return parts along the {where}.

        Returns:
            List of arrays, of the dtype of `ary`.

        Raises:
            ValueError: {least} axes, or parts would not be of equal length.

        Derivative:
            The identity: the cotangents joined again.

        Example:
            >>> {given}
            {result}
        """,
    )
    def parted(ary: Any, indices_or_sections: Any) -> list[Any]:
        rank = len(as_value(ary).shape)
        if rank < ndim:
            raise ValueError(f"{name} only works on arrays of {ndim} or more dimensions")
        return split(ary, indices_or_sections, min(axis, rank - 1))

    return parted


# fmt: off
_LEAST = ["no", "fewer than two", "fewer than three"]
vsplit = _splits(np.vsplit, 0, "fewer than two", "first axis",
    "len(fnp.vsplit(np.ones((4, 1)), 2)) -> 2")
hsplit = _splits(np.hsplit, 1, "no", "second axis, of a vector along the first",
    "fnp.hsplit(np.array([1.0, 2.0, 3.0, 4.0]), 2) -> [array([1., 2.]), array([3., 4.])]")
dsplit = _splits(np.dsplit, 2, "fewer than three", "third axis",
    "len(fnp.dsplit(np.ones((1, 1, 4)), 2)) -> 2")
# fmt: on
