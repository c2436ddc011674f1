"""Grids and indices: coordinates of arrays, index arrays of triangles and diagonals, joining by slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.core.placement import buffer_of, device_of
from fgrad.core.tensor import Tensor
from fgrad.numpy.arrays import as_value, concrete, ones_before, promoted, together
from fgrad.numpy.creation import arange, linspace
from fgrad.numpy.joining import concatenate, stack
from fgrad.numpy.registry import holds_tensor, implements, named
from fgrad.numpy.shapes import swapaxes
from fgrad.ops import linear


def _shape_only(a: Any) -> Any:
    """Return an array of the shape of `a` that needs no memory."""
    return np.broadcast_to(np.int8(0), as_value(a).shape)


@implements(np.diag_indices_from)
def diag_indices_from(arr: Any) -> tuple[Any, ...]:
    """Return the indices of the diagonal of an array whose axes are of equal length.

    Returns:
        A vector of integers for each axis of `arr`.

    Raises:
        ValueError: fewer than two axes, or lengths that differ.

    Derivative:
        None: the results are integers.

    Example:
        >>> fnp.diag_indices_from(np.zeros((2, 2)))
        (array([0, 1]), array([0, 1]))
    """
    return np.diag_indices_from(_shape_only(arr))


def _indices_from(theirs: Callable[..., Any], side: str, columns: str) -> Callable[..., tuple[Any, ...]]:
    @implements(theirs)
    @named(
        theirs.__name__,
        f"""Return the indices of a matrix on and {side} its diagonal `k`.

        Returns:
            A vector of integers for rows and one for columns.

        Raises:
            ValueError: `arr` is no matrix.

        Derivative:
            None: the results are integers.

        Example:
            >>> fnp.{theirs.__name__}(np.zeros((2, 2)))
            {columns}
        """,
    )
    def indices_from(arr: Any, k: int = 0) -> tuple[Any, ...]:
        made: tuple[Any, ...] = theirs(_shape_only(arr), k)
        return made

    return indices_from


tril_indices_from = _indices_from(np.tril_indices_from, "below", "(array([0, 1, 1]), array([0, 0, 1]))")
triu_indices_from = _indices_from(np.triu_indices_from, "above", "(array([0, 0, 1]), array([0, 1, 1]))")


@implements(np.ix_)
def ix_(*args: Any) -> tuple[Any, ...]:
    """Return index vectors, each along an axis of its own, which select a sub-grid; masks count too.

    Returns:
        An array for each argument, of as many axes as there are arguments; only one is longer than one.

    Raises:
        ValueError: an argument has more than one axis.

    Derivative:
        None: indices are integers.

    Example:
        >>> rows, columns = fnp.ix_([0, 2], [1])
        >>> rows.shape, columns.shape
        ((2, 1), (1, 1))
    """
    varying = [
        isinstance(x, Tensor) and x.dtype.kind in "fc" for x in args
    ]  # no places, but NumPy takes them
    plain = [_shape_only(x) if v else concrete(x, "ix_") for x, v in zip(args, varying, strict=True)]
    made = np.ix_(*plain)
    return tuple(linear.reshape(x, m.shape) if v else m for x, v, m in zip(args, varying, made, strict=True))


@implements(np.ravel_multi_index)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: Any = "C") -> Any:
    """Return the indices in the flattened array of indices along every axis.

    Returns:
        Integers, of the shape to which the indices broadcast.

    Raises:
        ValueError: an index out of bounds, with `mode` "raise".

    Derivative:
        None: the results are integers.

    Example:
        >>> fnp.ravel_multi_index(([0, 1], [2, 0]), (2, 3))
        array([2, 3])
    """
    if isinstance(multi_index, tuple | list):
        places: Any = tuple(concrete(x, "ravel_multi_index") for x in multi_index)
    else:
        places = tuple(concrete(multi_index, "ravel_multi_index"))
    return np.ravel_multi_index(places, dims, mode, order)


@implements(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: Any = "C") -> Any:
    """Return the indices along every axis of indices in the flattened array.

    Returns:
        An array of integers for each axis, of the shape of `indices`.

    Raises:
        ValueError: an index out of bounds.

    Derivative:
        None: the results are integers.

    Example:
        >>> fnp.unravel_index([2, 3], (2, 3))
        (array([0, 1]), array([2, 0]))
    """
    return np.unravel_index(concrete(indices, "unravel_index"), shape, order)


class Grid:
    """Coordinates by slices: `mgrid[0:3, 0:1:5j]`; an imaginary step counts points, both ends included."""

    theirs: Any
    sparse: bool

    def __init__(self, theirs: Any, *, sparse: bool) -> None:
        self.theirs, self.sparse = theirs, sparse

    def __getitem__(self, key: Any) -> Any:
        """Return the coordinates, of one axis as a vector; differentiable in the ends and steps of slices."""
        keys = key if isinstance(key, tuple) else (key,)
        if not any(map(_has_tensor, keys)):
            plain = self.theirs[key]
            return tuple(map(Tensor, plain)) if isinstance(plain, tuple) else Tensor(plain)
        device = _device(keys)
        lines = [_line(k, device) for k in keys]
        if keys is not key:
            return lines[0]
        kind = promoted(*(n for k in keys for n in _numbers(k)))
        shape, n = tuple(x.size for x in lines), len(lines)
        made = []
        for i, x in enumerate(lines):
            own = tuple(x.size if k == i else 1 for k in range(n))
            vector = linear.reshape(linear.convert(x, kind), own)
            made.append(vector if self.sparse else linear.broadcast_to(vector, shape))
        return tuple(made) if self.sparse else stack(made)


def _has_tensor(key: Any) -> bool:
    return isinstance(key, slice) and any(isinstance(x, Tensor) for x in (key.start, key.stop, key.step))


def _device(keys: Sequence[Any]) -> str | None:
    """Return the device of the Tensors among slices and arrays; None where there is none."""
    given = [v for k in keys for v in ((k.start, k.stop, k.step) if isinstance(k, slice) else (k,))]
    known = (device_of(v) for v in given if isinstance(v, Tensor) and buffer_of(v) is not None)
    return next(known, None)


def _numbers(key: slice) -> tuple[Any, Any, Any]:
    """Return start, stop and step of a slice; of a count of points the real number that it is taken for."""
    step = 1 if key.step is None else key.step
    step = 1.0 if step.__class__ is complex else step
    return 0 if key.start is None else key.start, key.stop, step


def _line(key: slice, device: str | None) -> Any:
    """Return the numbers that a slice stands for."""
    start, step = 0 if key.start is None else key.start, 1 if key.step is None else key.step
    if np.iscomplexobj(step):
        return linspace(start, key.stop, int(abs(complex(step))), device=device)
    return arange(start, key.stop, step, device=device)


mgrid: Grid
ogrid: Grid
mgrid, ogrid = Grid(np.mgrid, sparse=False), Grid(np.ogrid, sparse=True)


class Joined:
    """Arrays joined along an axis by indexing: `r_[0:3, x, 5.0]`, `c_[x, y]`."""

    theirs: Any
    axis: int
    ndmin: int
    trans1d: int

    def __init__(self, theirs: Any, axis: int, ndmin: int = 1, trans1d: int = -1) -> None:
        self.theirs, self.axis, self.ndmin, self.trans1d = theirs, axis, ndmin, trans1d

    def __getitem__(self, key: Any) -> Any:
        """Return numbers, slices, arrays and Tensors joined; a string first says how, as in NumPy."""
        parts = key if isinstance(key, tuple) else (key,)
        if not any(holds_tensor(p) or _has_tensor(p) for p in parts):
            return self.theirs[key]
        axis, ndmin, trans1d = self.axis, self.ndmin, self.trans1d
        if isinstance(parts[0], str):
            axis, ndmin, trans1d = _directive(parts[0], axis, ndmin, trans1d)
            parts = parts[1:]
        device = _device(parts)
        lines = [_line(p, device) if isinstance(p, slice) else p for p in parts]
        arrays = [_part(p, x, ndmin, trans1d) for p, x in zip(parts, together(*lines), strict=True)]
        weak = [p if p.__class__ in np.ScalarType else x.dtype for x, p in zip(arrays, parts, strict=True)]
        kind = np.result_type(*weak)
        return concatenate([linear.convert(x, kind) for x in arrays], axis)


def _directive(text: str, axis: int, ndmin: int, trans1d: int) -> tuple[int, int, int]:
    """Return what "axis", "axis,ndmin" or "axis,ndmin,trans1d" says."""
    try:
        axis, *rest = (int(part) for part in text.split(","))
        ndmin, trans1d = [*rest, *(ndmin, trans1d)[len(rest) :]]
    except ValueError:
        raise ValueError(
            f"unknown special directive {text!r}: up to three integers are known here, matrices are not"
        ) from None
    return axis, ndmin, trans1d


def _part(p: Any, x: Any, ndmin: int, trans1d: int) -> Any:
    """Return the value of a part with at least `ndmin` axes, its own ones where `trans1d` says."""
    if isinstance(p, slice):
        x = ones_before(x, ndmin)
        return swapaxes(x, -1, trans1d) if ndmin > 1 and trans1d != -1 else x
    missing = ndmin - len(x.shape)
    if missing <= 0 or trans1d == -1 or p.__class__ in np.ScalarType:
        return ones_before(x, ndmin)
    first = trans1d + missing + 1 if trans1d < 0 else trans1d
    order = (*range(first), *range(missing, ndmin), *range(first, missing))
    return linear.transpose(ones_before(x, ndmin), order)


c_: Joined
r_: Joined
r_, c_ = Joined(np.r_, 0), Joined(np.c_, -1, ndmin=2, trans1d=0)
