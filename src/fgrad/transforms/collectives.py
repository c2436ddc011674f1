"""Collective operations: the examples of a named vmap axis, or processes, see each other.

They are linear maps between all examples at once; as in JAX, the adjoint of a sum over the axis is the sum of
the cotangents over the axis, the adjoint of a permutation is its inverse, and gathering and scattering are
adjoint to each other. What is sent comes back as a cotangent: Utke et al. (2009), Toward adjoinable MPI.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.core.aval import Aval
from fgrad.core.primitive import FUNCTIONS
from fgrad.core.tensor import Tensor
from fgrad.core.trace import current, user_line
from fgrad.docstrings import completes
from fgrad.ops import functions
from fgrad.ops.linear import broadcast_to, convert, linear, reshape, sum_axes, transpose
from fgrad.transforms.axes import Pairs, ProcessAxis, bind_over, bound_axes
from fgrad.transforms.batch import Batch, BatchedTracer
from fgrad.transforms.stage import Stage

AxisName = Hashable  # or an axis of processes, or a tuple of names: several axes
Axis = Batch | ProcessAxis


def _axes(axis_name: AxisName, what: str, *, together: bool = True) -> list[Axis]:
    """Return the traces, or axes of processes, that have these names.

    Raises:
        NameError: no vmap around has such an axis, and no axis of processes is bound to the name.
        RuntimeError: the examples do not run together, because a truth value split them.
    """
    found: list[Axis] = []
    for name in axis_name if isinstance(axis_name, tuple) else (axis_name,):
        traces = [t for t in current().traces if isinstance(t, Batch) and t.name is not None]
        named = [t for t in traces if t.name == name]
        processes = [a for a in (*bound_axes(), name) if isinstance(a, ProcessAxis) and name in (a, a.name)]
        if not named and processes:
            if together and any(isinstance(t, Batch) and t.part is not None for t in current().traces):
                raise RuntimeError(
                    f"{what} over the processes {name!r} inside a vmap that a truth value has split: other "
                    "processes split it otherwise, so different examples would meet; use "
                    "where(condition, x, y) instead of if in a function with collective operations"
                )
            found.append(processes[-1].at(user_line()) if together else processes[-1])
            continue
        if not named:
            names = [t.name for t in traces] + [a.name for a in bound_axes() if isinstance(a.name, str)]
            known = ", ".join(map(repr, names)) or "none"
            raise NameError(
                f"{what}: unbound axis name {name!r} (names in use here: {known}); "
                f"call it inside fgrad.vmap(..., axis_name={name!r}), or, for an axis of processes, "
                f"inside `with fgrad.distributed.world().axis({name!r}):`"
            )
        trace = named[-1]
        if any(isinstance(t, Stage) and t.level > trace.level for t in current().traces):
            raise AcrossStageError(
                f"{what} over the axis {name!r} inside a function that is traced inside that vmap: the "
                "program would not know the axis. Trace outside, jit(vmap(f, axis_name=...))"
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


def _is_mapped(x: Any, over: Axis) -> bool:
    """Return whether `x` differs between the examples of `over`, as it may between processes."""
    if isinstance(over, ProcessAxis):
        return True
    while x.__class__ is Tensor and isinstance(x._value, BatchedTracer):
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


def _wide(x: Any) -> Any:
    """Return truth values and short integers in the dtype in which NumPy sums them."""
    return x if x.dtype.kind in "fc" else convert(x, np.sum(np.zeros(0, x.dtype)).dtype)


# ---- primitives, for values that are mapped over the axis


def _summed(x: Any, over: Axis) -> Any:
    if not _is_mapped(x, over):
        return x * over.size
    return bind_over("psum", x, over=over)


def _gathered(x: Any, over: Axis) -> Any:
    """Return the values of all examples along a new first axis."""
    if not _is_mapped(x, over):
        return broadcast_to(x, (over.size, *x.shape))
    return bind_over("all_gather", x, over=over)


def _scattered(x: Any, over: Axis) -> Any:
    """Return the sum over all examples, of which each gets its own place along the first axis."""
    if not _is_mapped(x, over):
        return FUNCTIONS["getitem"](x * over.size, _index(over))
    return bind_over("psum_scatter", x, over=over)


def _permuted(x: Any, over: Axis, perm: Pairs) -> Any:
    """Return the value of that example which `perm`, of (source, destination), sends here, or zeros."""
    if not _is_mapped(x, over):
        x = FUNCTIONS["getitem"](broadcast_to(x, (over.size, *x.shape)), _index(over))
    return bind_over("ppermute", x, over=over, perm=perm)


def _index(over: Axis) -> Any:
    if isinstance(over, ProcessAxis):
        return over.rank
    return over.tracer(np.arange(over.size) if over.part is None else over.part)


def _second_first(x: Any) -> Any:
    return transpose(x, (1, 0, *range(2, len(x.shape))))


def _turned(over: Axis) -> Axis:
    return over.turned() if isinstance(over, ProcessAxis) else over


def _runs(name: str, alike: Callable[..., Any]) -> Callable[..., Any]:
    """Return the `run` of a primitive: over the axis of processes, or `alike` for a shared value."""

    def run(x: Any, *, over: Axis, **params: Any) -> Any:
        return getattr(over, name)(x, **params) if isinstance(over, ProcessAxis) else alike(x, over, **params)

    return run


def _from_sources(x: Any, perm: Pairs) -> Any:
    """Return the examples of `x`, one after the other along its first axis, after a permutation."""
    sources = np.zeros(x.shape[0], int)
    arrives = np.zeros((x.shape[0], *(1,) * (len(x.shape) - 1)), bool)
    for source, dest in perm:
        sources[dest], arrives[dest] = source, True
    return functions.where(arrives, FUNCTIONS["getitem"](x, sources), np.zeros((), x.dtype))


_UNSTORED = "it belongs to the vmap or the processes around it"
linear(
    "psum",
    run=_runs("psum", lambda x, over: x * over.size),
    adjoint=lambda ct, x, *, over: _summed(ct, _turned(over)),
    shape=lambda x, *, over: x,
    batch=lambda x, *, over: _summed(x, over),
    stored=_UNSTORED,
)
linear(
    "all_gather",
    run=_runs("all_gather", lambda x, over: np.broadcast_to(x, (over.size, *x.shape))),
    adjoint=lambda ct, x, *, over: _scattered(ct, _turned(over)),
    shape=lambda x, *, over: Aval((over.size, *x.shape), x.dtype),
    batch=lambda x, *, over: _second_first(_gathered(x, over)),
    stored=_UNSTORED,
)
linear(
    "psum_scatter",
    run=_runs("psum_scatter", lambda x, over: x[0] * over.size),
    adjoint=lambda ct, x, *, over: _gathered(ct, _turned(over)),
    shape=lambda x, *, over: Aval(x.shape[1:], x.dtype),
    batch=lambda x, *, over: _scattered(_second_first(x), over),
    stored=_UNSTORED,
)
linear(
    "ppermute",
    run=_runs("ppermute", lambda x, over, perm: x),
    adjoint=lambda ct, x, *, over, perm: _permuted(ct, _turned(over), tuple((d, s) for s, d in perm)),
    shape=lambda x, *, over, perm: x,
    batch=lambda x, *, over, perm: _permuted(x, over, perm),
    stored=_UNSTORED,
)
Batch.across.update(  # the result, and whether it differs between examples
    psum=lambda x, *, over: (sum_axes(x, (0,)), False),
    all_gather=lambda x, *, over: (x, False),
    psum_scatter=lambda x, *, over: (sum_axes(x, (0,)), True),
    ppermute=lambda x, *, over, perm: (_from_sources(x, perm), True),
)


# ---- what the user calls


_collective = completes(
    {
        "x": "pytree of arrays, Tensors and numbers.",
        "axis_name": "that of `vmap(..., axis_name=...)` or `world.axis(...)`, or a tuple of names.",
    },
    Raises="NameError: no axis of that name is around.\n"
    "    RuntimeError: a condition that differs between examples has split the batch.",
)


@_collective
def psum(x: Any, axis_name: AxisName) -> Any:
    """Return the sum of `x` over all examples of a vmap, or over all processes.

    Args:
        x: pytree of arrays, Tensors and numbers. Under vmap a number gives itself times the number of
            examples.

    Returns:
        The same pytree; the sums are the same for every example, so `out_axes=None` may return them. Truth
        values and short integers are summed as integers of 64 bits, as `np.sum` does.

    Derivative:
        The sum of the cotangents over the examples, as in JAX.

    Example:
        >>> import fgrad
        >>> fgrad.vmap(lambda x: x / fgrad.lax.psum(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
        array([0.25, 0.75])
    """
    axes = _axes(axis_name, "psum")

    def one(leaf: Any) -> Any:
        if isinstance(leaf, int | float | complex) and not any(isinstance(t, ProcessAxis) for t in axes):
            return leaf * math.prod(t.size for t in axes)
        leaf = _wide(_value(leaf, "psum"))
        for t in axes:
            leaf = _summed(leaf, t)
        return leaf

    return tree.map(one, x)


@_collective
def pmean(x: Any, axis_name: AxisName) -> Any:
    """Return the mean of `x` over all examples of a vmap, or all processes.

    Returns:
        The same pytree, floats or complex numbers; the same for every example.

    Derivative:
        The mean of the cotangents over the examples.

    Example:
        >>> import fgrad
        >>> fgrad.vmap(lambda x: x - fgrad.lax.pmean(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
        array([-1.,  1.])
    """
    n = math.prod(t.size for t in _axes(axis_name, "pmean"))
    return tree.map(lambda total: total / n, psum(x, axis_name))


@_collective
def pmax(x: Any, axis_name: AxisName) -> Any:
    """Return the largest `x` of all examples of a vmap, element by element.

    Returns:
        The same pytree, of the same dtypes; the same for every example.

    Derivative:
        Shared equally by the examples that attain it.

    Example:
        >>> import fgrad
        >>> fgrad.vmap(lambda x: x / fgrad.lax.pmax(x, "i"), axis_name="i")(np.array([1.0, 4.0]))
        array([0.25, 1.  ])
    """
    return _extremum(x, axis_name, "max")


@_collective
def pmin(x: Any, axis_name: AxisName) -> Any:
    """Return the smallest `x` of all examples of a vmap, element by element.

    Returns:
        The same pytree, of the same dtypes; the same for every example.

    Derivative:
        Shared equally by the examples that attain it.

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


@_collective
def all_gather(x: Any, axis_name: AxisName, *, axis: int = 0, tiled: bool = False) -> Any:
    """Return the values that `x` has in all examples of a vmap, or in all processes.

    Args:
        axis: the position of the axis of the examples in the result.
        tiled: whether the examples are concatenated along `axis` instead of stacked.

    Returns:
        The same pytree, each leaf with all examples along `axis`.

    Derivative:
        Each example gets the sum of the cotangents of its own part.

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


@_collective
def psum_scatter(x: Any, axis_name: AxisName, *, scatter_dimension: int = 0, tiled: bool = False) -> Any:
    """Return the sum over all examples, of which each gets its own part.

    Args:
        scatter_dimension: the axis along which the parts lie; its length is the number of examples.
        tiled: whether that axis stays, with an equal share of its length for every example.

    Returns:
        The same pytree, each leaf without the axis, or with a share of it.

    Raises:
        NameError: no axis of that name is around.
        ValueError: the length of the axis does not match the number of examples.

    Derivative:
        `all_gather` of the cotangents.

    Example:
        >>> import fgrad
        >>> f = lambda x: fgrad.lax.psum_scatter(x, "i")
        >>> fgrad.vmap(f, axis_name="i")(np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([4., 6.])
    """
    axes = _axes(axis_name, "psum_scatter")
    n = math.prod(t.size for t in axes)

    def one(leaf: Any) -> Any:
        leaf = _wide(_value(leaf, "psum_scatter"))
        rank = len(leaf.shape)
        if not -rank <= scatter_dimension < rank:
            raise np.exceptions.AxisError(scatter_dimension, rank)
        place = scatter_dimension % rank
        length = leaf.shape[place]
        if length % n if tiled else length != n:
            raise ValueError(
                f"psum_scatter: axis {scatter_dimension} of shape {tuple(leaf.shape)} has length {length}, "
                f"which is not {'a multiple of ' if tiled else ''}the number of examples, {n}"
            )
        rest = (*leaf.shape[:place], *leaf.shape[place + 1 :])
        leaf = transpose(leaf, (place, *(i for i in range(rank) if i != place)))
        leaf = reshape(leaf, (*(t.size for t in axes), length // n, *rest))
        for t in axes:
            leaf = _scattered(leaf, t)
        if not tiled:
            return reshape(leaf, rest)
        return transpose(leaf, (*range(1, place + 1), 0, *range(place + 1, rank)))

    return tree.map(one, x)


def ppermute(x: Any, axis_name: AxisName, perm: Pairs) -> Any:
    """Return for each example the value of another one.

    Args:
        x: pytree of arrays and Tensors.
        axis_name: the name of a vmap axis, or of an axis of processes.
        perm: pairs (source, destination) of numbers of examples, each at most once on either side. An
            example that is no destination gets zeros.

    Returns:
        The same pytree, of the same shapes and dtypes.

    Raises:
        NameError: no axis of that name is around.
        ValueError: an example stands twice as a source or as a destination, or there is none of that number.

    Derivative:
        The cotangents, sent back.

    Example:
        >>> import fgrad
        >>> turn = lambda x: fgrad.lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)])
        >>> fgrad.vmap(turn, axis_name="i")(np.array([1.0, 2.0, 3.0]))
        array([3., 1., 2.])
    """
    (over,) = _one_axis(axis_name, "ppermute")
    pairs = tuple((int(s), int(d)) for s, d in perm)
    for what, ends in (("source", [s for s, _ in pairs]), ("destination", [d for _, d in pairs])):
        if len(set(ends)) != len(ends) or any(not 0 <= e < over.size for e in ends):
            raise ValueError(
                f"ppermute: every {what} in perm is another number from 0 to {over.size - 1}, not {ends}"
            )
    return tree.map(lambda leaf: _permuted(_value(leaf, "ppermute"), over, pairs), x)


def pbroadcast(x: Any, axis_name: AxisName, source: int = 0) -> Any:
    """Return for each example the value that `x` has in the example `source`.

    Args:
        x: pytree of arrays and Tensors.
        axis_name: the name of a vmap axis, or of an axis of processes.
        source: the number of an example.

    Returns:
        The same pytree, of the same shapes and dtypes; the same for every example.

    Raises:
        NameError: no axis of that name is around.
        ValueError: there is no such example.

    Derivative:
        The sum of the cotangents for the example `source`, zero for the others.

    Example:
        >>> import fgrad
        >>> fgrad.vmap(lambda x: fgrad.lax.pbroadcast(x, "i", 1), axis_name="i")(np.array([1.0, 2.0]))
        array([2., 2.])
    """
    (over,) = _one_axis(axis_name, "pbroadcast")
    if not 0 <= source < over.size:
        raise ValueError(f"pbroadcast: source is a number from 0 to {over.size - 1}, not {source}")
    if isinstance(over, ProcessAxis):
        over = over.at(user_line(), f" from {source}")

    def one(leaf: Any) -> Any:
        leaf = _value(leaf, "pbroadcast")
        wide = _wide(leaf)
        nothing = np.asarray(-np.zeros((), wide.dtype))  # the sum of -0.0 and -0.0 keeps the sign
        return convert(_summed(functions.where(_index(over) == source, wide, nothing), over), leaf.dtype)

    return tree.map(one, x)


def _one_axis(axis_name: AxisName, what: str) -> list[Axis]:
    if isinstance(axis_name, tuple):
        raise TypeError(f"{what} takes the name of one axis, not a tuple of names")
    return _axes(axis_name, what)


def axis_index(axis_name: AxisName) -> Any:
    """Return the number of the example along a vmap axis; of several axes the last counts fastest.

    Args:
        axis_name: the name that `vmap(..., axis_name=...)` or `world.axis(...)` gave, or a tuple of names.

    Returns:
        An integer without axes.

    Raises:
        NameError: no axis of that name is around.

    Example:
        >>> import fgrad
        >>> fgrad.vmap(lambda x: x * fgrad.lax.axis_index("i"), axis_name="i")(np.ones(3))
        array([0., 1., 2.])
    """
    index: Any = None
    for t in _axes(axis_name, "axis_index", together=False):
        index = _index(t) if index is None else index * _full_size(t) + _index(t)
    return index


def axis_size(axis_name: AxisName) -> int:
    """Return the number of examples along a vmap axis, or the product over several.

    Args:
        axis_name: the name that `vmap(..., axis_name=...)` or `world.axis(...)` gave, or a tuple of names.

    Returns:
        A Python integer.

    Raises:
        NameError: no axis of that name is around.

    Example:
        >>> import fgrad
        >>> fgrad.vmap(lambda x: x / fgrad.lax.axis_size("i"), axis_name="i")(np.ones(2))
        array([0.5, 0.5])
    """
    return math.prod(map(_full_size, _axes(axis_name, "axis_size", together=False)))


def _full_size(over: Axis) -> int:
    return over.size if isinstance(over, ProcessAxis) else over.full_size
