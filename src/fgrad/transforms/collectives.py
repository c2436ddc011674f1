"""Collective operations: the examples of a named vmap axis see each other.

They are linear maps between all examples at once; as in JAX, the adjoint of a sum over the axis is the sum of
the cotangents over the axis.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.core.aval import Aval
from fgrad.core.primitive import FUNCTIONS
from fgrad.core.tensor import Tensor, bind
from fgrad.core.trace import current
from fgrad.ops.linear import broadcast_to, linear, reshape, sum_axes, transpose
from fgrad.transforms.batch import Batch, Batched
from fgrad.transforms.stage import Stage

AxisName = Hashable  # or a tuple of names: several axes


def _axes(axis_name: AxisName, what: str, *, together: bool = True) -> list[Batch]:
    """Return the traces of the named axes.

    Raises:
        NameError: no vmap around has such an axis.
        RuntimeError: the examples do not run together, because a truth value split them.
    """
    found = []
    for name in axis_name if isinstance(axis_name, tuple) else (axis_name,):
        traces = [t for t in current().traces if isinstance(t, Batch) and t.name is not None]
        named = [t for t in traces if t.name == name]
        if not named:
            known = ", ".join(repr(t.name) for t in traces) or "none"
            raise NameError(
                f"{what}: unbound axis name {name!r} (names in use here: {known}); "
                f"call it inside fgrad.vmap(..., axis_name={name!r})"
            )
        trace = named[-1]
        if any(isinstance(t, Stage) and t.level > trace.level for t in current().traces):
            raise AcrossStageError(
                f"{what} over the axis {name!r} inside a function that is staged inside that vmap: the "
                "program would not know the axis. Stage outside, jit(vmap(f, axis_name=...))"
            )
        if together and trace.part is not None:
            raise RuntimeError(
                f"{what} over the axis {name!r} needs all examples, but a truth value that differs between "
                "them has split the batch, so they do not run together; use where(condition, x, y) instead "
                "of if in a function with collective operations"
            )
        found.append(trace)
    return found


class AcrossStageError(TypeError):
    """A collective operation over an axis around the function that is being staged."""


def _is_mapped(x: Any, over: Batch) -> bool:
    """Return whether `x` differs between the examples of `over`."""
    while x.__class__ is Tensor and isinstance(x._value, Batched):
        if x._value.trace is over:
            return True
        x = x._value.whole
    return False


def _value(x: Any, what: str) -> Any:
    if isinstance(x, Tensor | np.ndarray | np.generic):
        return x
    if isinstance(x, int | float | complex | list):
        return np.asarray(x)
    raise TypeError(f"{what} takes arrays, numbers and Tensors, not {type(x).__name__}")


# ---- rows, for values that are mapped over the axis


def _summed(x: Any, over: Batch) -> Any:
    if not _is_mapped(x, over):
        return x * over.size
    return bind("psum", x, over=over)


def _gathered(x: Any, over: Batch) -> Any:
    """Return the values of all examples along a new first axis."""
    if not _is_mapped(x, over):
        return broadcast_to(x, (over.size, *x.shape))
    return bind("all_gather", x, over=over)


def _scattered(x: Any, over: Batch) -> Any:
    """Return the sum over all examples, of which each gets its own place along the first axis."""
    if not _is_mapped(x, over):
        return FUNCTIONS["getitem"](x * over.size, _index(over))
    return bind("psum_scatter", x, over=over)


def _index(over: Batch) -> Tensor:
    return over.box(np.arange(over.size) if over.part is None else over.part)


def _second_first(x: Any) -> Any:
    return transpose(x, (1, 0, *range(2, len(x.shape))))


linear(
    "psum",
    run=lambda x, *, over: x * over.size,
    adjoint=lambda ct, x, *, over: _summed(ct, over),
    shape=lambda x, *, over: x,
    batch=lambda x, *, over: _summed(x, over),
)
linear(
    "all_gather",
    run=lambda x, *, over: np.broadcast_to(x, (over.size, *x.shape)),
    adjoint=lambda ct, x, *, over: _scattered(ct, over),
    shape=lambda x, *, over: Aval((over.size, *x.shape), x.dtype),
    batch=lambda x, *, over: _second_first(_gathered(x, over)),
)
linear(
    "psum_scatter",
    run=lambda x, *, over: x[0] * over.size,
    adjoint=lambda ct, x, *, over: _gathered(ct, over),
    shape=lambda x, *, over: Aval(x.shape[1:], x.dtype),
    batch=lambda x, *, over: _scattered(_second_first(x), over),
)
Batch.across.update(  # the result, and whether it differs between examples
    psum=lambda x, *, over: (sum_axes(x, (0,)), False),
    all_gather=lambda x, *, over: (x, False),
    psum_scatter=lambda x, *, over: (sum_axes(x, (0,)), True),
)


# ---- what the user calls


def psum(x: Any, axis_name: AxisName) -> Any:
    """Return the sum of `x` over all examples of a vmap.

    Args:
        x: pytree of arrays, Tensors and numbers. A number gives itself times the number of examples.
        axis_name: the name that `vmap(..., axis_name=...)` gave, or a tuple of names.

    Returns:
        The same pytree; the sums are the same for every example, so `out_axes=None` may return them.

    Raises:
        NameError: no vmap around has an axis of that name.
        RuntimeError: a truth value that differs between examples has split the batch.

    Derivative:
        The sum of the cotangents over the examples, as in JAX.

    Example:
        >>> import fgrad
        >>> fgrad.vmap(lambda x: x / fgrad.lax.psum(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
        array([0.25, 0.75])
    """
    axes = _axes(axis_name, "psum")

    def one(leaf: Any) -> Any:
        if isinstance(leaf, int | float | complex):
            return leaf * math.prod(t.size for t in axes)
        leaf = _value(leaf, "psum")
        for t in axes:
            leaf = _summed(leaf, t)
        return leaf

    return tree.map(one, x)


def pmean(x: Any, axis_name: AxisName) -> Any:
    """Return the mean of `x` over all examples of a vmap; arguments as `psum`.

    Example:
        >>> import fgrad
        >>> fgrad.vmap(lambda x: x - fgrad.lax.pmean(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
        array([-1.,  1.])
    """
    n = math.prod(t.size for t in _axes(axis_name, "pmean"))
    return tree.map(lambda total: total / n, psum(x, axis_name))


def pmax(x: Any, axis_name: AxisName) -> Any:
    """Return the largest `x` of all examples of a vmap, element by element; arguments as `psum`.

    Derivative:
        Shared equally by the examples that attain it.

    Example:
        >>> import fgrad
        >>> fgrad.vmap(lambda x: x / fgrad.lax.pmax(x, "i"), axis_name="i")(np.array([1.0, 4.0]))
        array([0.25, 1.  ])
    """
    return _extremum(x, axis_name, "max")


def pmin(x: Any, axis_name: AxisName) -> Any:
    """Return the smallest `x` of all examples of a vmap, element by element; otherwise as `pmax`.

    Example:
        >>> import fgrad
        >>> fgrad.vmap(lambda x: fgrad.lax.pmin(x, "i"), axis_name="i")(np.array([1.0, 4.0]))
        array([1., 1.])
    """
    return _extremum(x, axis_name, "min")


def _extremum(x: Any, axis_name: AxisName, name: str) -> Any:
    axes = _axes(axis_name, f"p{name}")

    def one(leaf: Any) -> Any:
        leaf = _value(leaf, f"p{name}")
        for t in axes:
            if _is_mapped(leaf, t):
                leaf = FUNCTIONS[name](_gathered(leaf, t), 0)
        return leaf

    return tree.map(one, x)


def all_gather(x: Any, axis_name: AxisName, *, axis: int = 0, tiled: bool = False) -> Any:
    """Return the values that `x` has in all examples of a vmap.

    Args:
        x: pytree of arrays and Tensors.
        axis_name: the name that `vmap(..., axis_name=...)` gave, or a tuple of names.
        axis: where the axis of the examples stands in the result.
        tiled: whether the examples are concatenated along `axis` instead of stacked.

    Returns:
        The same pytree, each leaf with all examples along `axis`.

    Raises:
        NameError: no vmap around has an axis of that name.
        RuntimeError: a truth value that differs between examples has split the batch.

    Example:
        >>> import fgrad
        >>> turned = lambda x: fgrad.lax.all_gather(x, "i")[::-1]
        >>> fgrad.vmap(turned, axis_name="i", out_axes=None)(np.arange(3.0))
        array([2., 1., 0.])
    """
    axes = _axes(axis_name, "all_gather")

    def one(leaf: Any) -> Any:
        leaf = _value(leaf, "all_gather")
        shape = tuple(leaf.shape)
        for t in reversed(axes):
            leaf = _gathered(leaf, t)
        n = math.prod(t.size for t in axes)
        leaf = reshape(leaf, (n, *shape))
        place = axis + (len(shape) + (not tiled) if axis < 0 else 0)
        if not 0 <= place < len(shape) + (not tiled):
            raise np.exceptions.AxisError(axis, len(shape) + (not tiled))
        order = [*range(1, place + 1), 0, *range(place + 1, len(shape) + 1)]
        leaf = transpose(leaf, tuple(order))
        return reshape(leaf, (*shape[:place], n * shape[place], *shape[place + 1 :])) if tiled else leaf

    return tree.map(one, x)


def axis_index(axis_name: AxisName) -> Any:
    """Return the number of the example along a vmap axis; of several axes the last counts fastest.

    Example:
        >>> import fgrad
        >>> fgrad.vmap(lambda x: x * fgrad.lax.axis_index("i"), axis_name="i")(np.ones(3))
        array([0., 1., 2.])
    """
    index: Any = 0
    for t in _axes(axis_name, "axis_index", together=False):
        index = _index(t) if index.__class__ is int else index * t.full_size + _index(t)
    return index


def axis_size(axis_name: AxisName) -> int:
    """Return the number of examples along a vmap axis, or the product over several.

    Example:
        >>> import fgrad
        >>> fgrad.vmap(lambda x: x / fgrad.lax.axis_size("i"), axis_name="i")(np.ones(2))
        array([0.5, 0.5])
    """
    return math.prod(t.full_size for t in _axes(axis_name, "axis_size", together=False))
