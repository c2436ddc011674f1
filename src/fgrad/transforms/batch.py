"""Batching: a function of one example becomes a function of many, by one rule per primitive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.core.aval import Shape
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import Tensor, bind, wrap
from fgrad.core.trace import Box, Trace, below, current, next_level, running, user_line
from fgrad.ops.linear import broadcast_to, reshape, transpose
from fgrad.transforms.calling import Delivery, Transformed, bound, has_tensor, name_of, plain


class Batched(Box):
    """Many examples that the user's function sees as one."""

    __slots__ = ("whole",)

    def __init__(self, trace: Batch, whole: Any) -> None:
        self.trace, self.whole, self.line = trace, whole, user_line()

    @property
    def shape(self) -> Shape:
        """The shape of one example."""
        return tuple(self.whole.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the examples."""
        dtype: np.dtype[Any] = self.whole.dtype
        return dtype


class Batch(Trace):
    """Applies each primitive to all examples at once; the batch axis is the first."""

    title = "vmap"
    remedy = (
        "Inside vmap a value stands for many examples: use where(condition, x, y) instead of if, or map less."
    )

    def __init__(self, level: int, size: int) -> None:
        self.level, self.size = level, size

    def box(self, whole: Any) -> Tensor:
        """Return the Tensor that stands for one of the examples of `whole`."""
        return wrap(Batched(self, whole))

    def unbox(self, x: Any) -> Any:
        """Return all examples of `x`, repeated if `x` is the same for each."""
        if self.owns(x):
            return x._value.whole
        shape = x.shape if hasattr(x, "shape") else np.shape(x)
        return broadcast_to(x if hasattr(x, "shape") else np.asarray(x), (self.size, *shape))

    def owns(self, x: Any) -> bool:
        """Return whether `x` stands for examples of this trace."""
        return x.__class__ is Tensor and isinstance(x._value, Batched) and x._value.trace is self

    def process(self, row: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Apply the batch rule of `row`, below this trace."""
        mapped = tuple(self.owns(a) for a in args)
        values = [a._value.whole if m else a for a, m in zip(args, mapped, strict=True)]
        with running(below(self.level)):
            if row.batch:
                out = row.batch(mapped, *values, **params)
            else:
                out = self._loop(row, mapped, values, params)
        return tuple(Batched(self, o) for o in out) if row.many else Batched(self, out)

    def _loop(
        self, row: Primitive, mapped: tuple[bool, ...], values: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        """Apply `row` to one example after the other: right for every row, and slow."""
        examples = []
        for i in range(self.size):
            args = (_example(v, i) if m else v for v, m in zip(values, mapped, strict=True))
            examples.append(bind(row.name, *args, **params))
        if row.many:
            return tuple(map(_stacked, zip(*examples, strict=True)))
        return _stacked(examples)


def _example(x: Any, i: int) -> Any:
    return bind("slice", x, index=(i,))


def _stacked(examples: Sequence[Any]) -> Any:
    return bind("concatenate", *(reshape(e, (1, *e.shape)) for e in examples), axis=0)


def batched_map(f: Callable[[Any], Sequence[Any]], x: Any) -> list[Any]:
    """Return the leaves of `f` mapped over the first axis of `x`; None stays None."""
    n = x.shape[0]
    if n == 0:
        ys = f(np.zeros(x.shape[1:], x.dtype))
        return [None if y is None else np.zeros((0, *y.shape), y.dtype) for y in ys]
    trace = Batch(next_level(), n)
    with running((*current().traces, trace)):
        ys = f(trace.box(x))
    return [None if y is None else trace.unbox(y) for y in ys]


class VMap(Transformed):
    """The function mapped over axes of its arguments."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the results of all examples, stacked along the output axes."""
        in_axes, out_axes, axis_size = (self.options[k] for k in ("in_axes", "out_axes", "axis_size"))
        args, kwargs = bound(self.fun, args, kwargs)
        leaves, structure = tree.flatten((args, kwargs))
        axes = self._in_axes(in_axes, args, kwargs)
        size = _common_size(leaves, axes, axis_size, self.fun)
        as_numpy = not has_tensor(args, kwargs)
        trace = Batch(next_level(), size)
        wholes = [x if a is None else _moved(_array(x), a, 0) for x, a in zip(leaves, axes, strict=True)]
        with running((*current().traces, trace)):
            boxed = [x if a is None else trace.box(x) for x, a in zip(wholes, axes, strict=True)]
            new_args, new_kwargs = tree.unflatten(structure, boxed)
            out = self.fun(*new_args, **new_kwargs)
        return self._delivered(trace, out, out_axes, Delivery(as_numpy))

    def _in_axes(self, in_axes: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if isinstance(in_axes, list):
            in_axes = tuple(in_axes)
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                f"vmap of {name_of(self.fun)}: in_axes has {len(in_axes)} entries, but there are "
                f"{len(args)} positional arguments; give one axis per argument, or a single one for all"
            )
        try:
            found = tree.broadcast_prefix(in_axes, args)
        except ValueError as error:
            raise ValueError(
                f"vmap of {name_of(self.fun)}: in_axes={in_axes!r} is not a prefix "
                "of the structure of the arguments"
            ) from error
        axes = [*found, *[0] * len(tree.leaves(kwargs))]
        for a in axes:
            if a is not None and (isinstance(a, bool) or not isinstance(a, int | np.integer)):
                raise TypeError(
                    f"vmap of {name_of(self.fun)}: every entry of in_axes is an integer or None, not {a!r}"
                )
        return axes

    def _delivered(self, trace: Batch, out: Any, out_axes: Any, deliver: Delivery) -> Any:
        leaves, structure = tree.flatten(out)
        if isinstance(out_axes, list):
            out_axes = tuple(out_axes)
        try:
            axes = tree.broadcast_prefix(out_axes, out)
        except ValueError as error:
            raise ValueError(
                f"vmap of {name_of(self.fun)}: out_axes={out_axes!r} is not a prefix "
                "of the structure of the output"
            ) from error
        results = []
        for y, a in zip(leaves, axes, strict=True):
            if not isinstance(y, Tensor | np.ndarray | np.generic | int | float | complex):
                results.append(y)
            elif a is None:
                if trace.owns(y):
                    raise ValueError(
                        f"vmap of {name_of(self.fun)}: out_axes is None for an output that differs between "
                        "examples; give the axis where the examples are to be stacked"
                    )
                results.append(deliver.leaf(y))
            else:
                results.append(deliver.made(_moved(trace.unbox(y), 0, a)))
        return tree.unflatten(structure, results)


def _array(x: Any) -> Any:
    return x if x.__class__ is Tensor else np.array(x)


def _moved(x: Any, source: int, target: int) -> Any:
    n = len(x.shape)
    if not (-n <= source < n and -n <= target < n):
        missing = target if source == 0 else source
        raise ValueError(f"vmap: axis {missing} does not exist in an output of {n} axes")
    axes = [i for i in range(n) if i != source % n]
    axes.insert(target % n, source % n)
    return x if axes == list(range(n)) else transpose(plain(x), tuple(axes))


def _common_size(
    leaves: Sequence[Any], axes: Sequence[Any], axis_size: int | None, fun: Callable[..., Any]
) -> int:
    sizes: dict[int, str] = {}
    for i, (x, a) in enumerate(zip(leaves, axes, strict=True)):
        if a is None:
            continue
        shape = np.shape(_array(x)) if not hasattr(x, "shape") else x.shape
        if not -len(shape) <= a < len(shape):
            raise ValueError(
                f"vmap of {name_of(fun)}: in_axes asks for axis {a} of leaf {i} of the arguments, "
                f"which has shape {shape}; use None for an argument that is not mapped"
            )
        sizes.setdefault(shape[a], f"leaf {i} has {shape[a]} along axis {a} of shape {shape}")
    if axis_size is not None:
        sizes.setdefault(axis_size, f"axis_size is {axis_size}")
    if not sizes:
        raise ValueError(f"vmap of {name_of(fun)}: nothing is mapped; give an axis in in_axes, or axis_size")
    if len(sizes) > 1:
        found = "; ".join(sizes.values())
        raise ValueError(f"vmap of {name_of(fun)}: the mapped axes differ in length: {found}")
    return int(next(iter(sizes)))


def vmap(
    fun: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: str | None = None,
    axis_size: int | None = None,
) -> Callable[..., Any]:
    """Return `fun` mapped over an axis of its arguments, all examples at once.

    Args:
        fun: takes and returns pytrees.
        in_axes: the axis of each argument that is mapped; a pytree prefix of the arguments, None where an
            argument is the same for every example. Keyword arguments are mapped over their first axis.
        out_axes: where the examples are stacked in the output; a pytree prefix of the output.
        axis_name: a name for the axis, for collective operations.
        axis_size: the number of examples, needed only where nothing is mapped.

    Returns:
        A function of arguments with the additional axes.

    Raises:
        ValueError: axes that do not exist or differ in length.

    Example:
        >>> from fgrad import vmap
        >>> vmap(np.dot)(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([1., 4.])
    """
    return VMap(fun, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name, axis_size=axis_size)
