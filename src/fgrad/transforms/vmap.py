"""vmap: what its arguments and results are, for the runs of the mapped function between them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, overload

import numpy as np

from fgrad import tree
from fgrad.backend.devices import adopted, is_foreign
from fgrad.core.aval import aval_of
from fgrad.core.snapshot import private_copy, refuse_subclass
from fgrad.core.tensor import Tensor, alias
from fgrad.ops import functions
from fgrad.ops.indices import HOLE
from fgrad.ops.linear import convert, transpose
from fgrad.transforms.branches import Done, Leaf, Runs, is_same
from fgrad.transforms.calling import Delivery, Transformed, has_tensor, name_of, plain
from fgrad.transforms.retrace import leaf_names

P = ParamSpec("P")


def _length(axis_size: Any) -> int:
    try:
        return operator.index(axis_size)
    except TypeError:
        raise TypeError(f"axis_size is the number of examples, an integer, not {axis_size!r}") from None


class VMap(Transformed):
    """The function mapped over axes of its arguments."""

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """Return the results of all examples, stacked along the output axes."""
        in_axes, out_axes, axis_size = (self.options[k] for k in ("in_axes", "out_axes", "axis_size"))
        leaves, structure = tree.flatten((args, kwargs))
        axes = self._in_axes(in_axes, args, kwargs)
        size = self._size(leaves, axes, axis_size, args, kwargs)
        deliver = Delivery(not has_tensor(args, kwargs))
        wholes = [
            _shared(x) if a is None else plain(_moved(_array(x), a, 0))
            for x, a in zip(leaves, axes, strict=True)
        ]
        run = Runs(
            self.fun, wholes, [a is not None for a in axes], structure, size, self.options["axis_name"]
        )
        done = run.everything()
        first = done[0]
        spread = self._out_axes(out_axes, first)
        results = [
            self._leaf([d.leaves[k] for d in done], a, run.order(done), deliver) for k, a in enumerate(spread)
        ]
        return tree.unflatten(first.structure, results)

    def _in_axes(self, in_axes: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if isinstance(in_axes, list):
            in_axes = tuple(in_axes)
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                f"vmap of {name_of(self.fun)}: in_axes has {len(in_axes)} entries, but there are "
                f"{len(args)} positional arguments; give one axis per argument, or a single one for all "
                "(keyword arguments are mapped over their first axis)"
            )
        try:
            found = tree.broadcast_prefix(in_axes, args)
        except ValueError as error:
            raise ValueError(
                f"vmap of {name_of(self.fun)}: in_axes={in_axes!r} is not a prefix "
                "of the structure of the arguments"
            ) from error
        return [*self._checked(found, "in_axes"), *[0] * len(tree.leaves(kwargs))]

    def _checked(self, axes: list[Any], what: str) -> list[Any]:
        for a in axes:
            if a is not None and (isinstance(a, bool) or not isinstance(a, int | np.integer)):
                raise TypeError(
                    f"vmap of {name_of(self.fun)}: every entry of {what} is an integer or None, not {a!r}"
                )
        return axes

    def _size(
        self,
        leaves: Sequence[Any],
        axes: Sequence[Any],
        axis_size: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> int:
        """Return the common length of the mapped axes."""
        sizes: dict[int, int] = {}  # length -> the first leaf that has it
        for i, (x, a) in enumerate(zip(leaves, axes, strict=True)):
            if a is None:
                continue
            refuse_subclass(x)
            shape = x.shape if hasattr(x, "shape") else np.shape(x)
            if not -len(shape) <= a < len(shape):
                raise ValueError(
                    f"vmap of {name_of(self.fun)}: in_axes asks for axis {a} of argument "
                    f"{_leaf_names(self.fun, args, kwargs)[i]}, which has shape {shape}; "
                    "use None for an argument that is not mapped"
                )
            sizes.setdefault(shape[a], i)
        given = {} if axis_size is None else {_length(axis_size): "axis_size is"}
        if not sizes and not given:
            raise ValueError(
                f"vmap of {name_of(self.fun)}: nothing is mapped; give an axis in in_axes, or axis_size"
            )
        if len({*sizes, *given}) > 1:
            names = _leaf_names(self.fun, args, kwargs)
            found = [
                f"argument {names[i]} has {n} along axis {axes[i]} of shape {tuple(aval_of(leaves[i]).shape)}"
                for n, i in sizes.items()
            ]
            found += [f"{what} {n}" for n, what in given.items()]
            raise ValueError(
                f"vmap of {name_of(self.fun)}: the mapped axes differ in length: {'; '.join(found)}"
            )
        return int(next(iter({**sizes, **given})))

    def _out_axes(self, out_axes: Any, out: Done) -> list[Any]:
        if out_axes.__class__ is int:
            return [out_axes] * len(out.leaves)
        if isinstance(out_axes, list):
            out_axes = tuple(out_axes)
        try:
            axes = tree.broadcast_prefix(out_axes, tree.unflatten(out.structure, range(len(out.leaves))))
        except ValueError as error:
            raise ValueError(
                f"vmap of {name_of(self.fun)}: out_axes={out_axes!r} is not a prefix "
                "of the structure of the output"
            ) from error
        return self._checked(axes, "out_axes")

    def _leaf(self, ys: Sequence[Leaf], axis: Any, order: Any, deliver: Delivery) -> Any:
        """Return one leaf of the result from what the parts of the batch gave for it."""
        first = ys[0]
        if not first.is_number or axis is None:
            if any(y.is_mapped for y in ys) or not all(is_same(y.value, first.value) for y in ys[1:]):
                what, instead = f"an output ({first.value!r})", "return arrays"
                if first.is_number:
                    what, instead = (
                        "out_axes is None for an output",
                        "give the axis where to stack the examples",
                    )
                raise ValueError(
                    f"vmap of {name_of(self.fun)}: {what} that differs between examples; {instead}"
                )
            return deliver.leaf(first.value) if first.is_number else first.value
        if order is None:
            return deliver.made(_moved(first.stacked(), 0, axis))
        avals = [aval_of(y.stacked()) for y in ys]
        if len({a.shape[1:] for a in avals}) > 1:
            shapes = " and ".join(sorted({str(a.shape[1:]) for a in avals}))
            raise TypeError(
                f"vmap of {name_of(self.fun)}: an output has the shapes {shapes} in different examples, "
                "because they took different branches; return arrays of one shape from all of them"
            )
        dtype = np.result_type(*(y.value if y.is_weak else a.dtype for y, a in zip(ys, avals, strict=True)))
        joined = functions.concatenate(*(convert(plain(y.stacked()), dtype) for y in ys), axis=0)
        return deliver.made(_moved(functions.gather(joined, order, template=(HOLE,), unique=True), 0, axis))


def _leaf_names(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Return what an error message calls each leaf of the arguments."""
    return leaf_names(fun, range(len(args)), args, {f"kwargs[{k!r}]": v for k, v in kwargs.items()})


def _shared(x: Any) -> Any:
    """Return an argument that is not mapped: of a Tensor a handle that the function may rebind."""
    return alias(x) if x.__class__ is Tensor else x


def _array(x: Any) -> Any:
    """Return an argument that the user cannot change while the function runs."""
    if x.__class__ is Tensor:
        return x
    if x.__class__ is np.ndarray:
        return private_copy(x)
    return adopted(x) if is_foreign(x) else np.array(x)


def _moved(x: Any, source: int, target: int) -> Any:
    n = len(x.shape)
    if not (-n <= source < n and -n <= target < n):
        missing = target if source == 0 else source
        raise ValueError(f"vmap: axis {missing} does not exist in an output of {n} axes")
    axes = [i for i in range(n) if i != source % n]
    axes.insert(target % n, source % n)
    return x if axes == list(range(n)) else transpose(plain(x), tuple(axes))


@overload
def vmap(
    fun: np.ufunc,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: str | None = None,
    axis_size: int | None = None,
) -> Callable[..., Any]: ...


@overload
def vmap(
    fun: Callable[P, Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: str | None = None,
    axis_size: int | None = None,
) -> Callable[P, Any]: ...


def vmap(
    fun: Callable[P, Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: str | None = None,
    axis_size: int | None = None,
) -> Callable[P, Any]:
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
        RuntimeError: a condition differs between examples, so the function runs again, but it is not pure;
            or the examples take more than 1000 paths.

    Python's `if` and `while` on mapped values run the function once for each group of examples that takes the
    same branches, so it must be pure. Side effects that are detected are refused: writes to Tensors from
    outside, GradManagers and callbacks from outside, Tensors that are kept, and what
    `fgrad.transforms.effects` lists.

    Derivative:
        Of every order; transformations nest either way round.

    Example:
        >>> from fgrad import vmap
        >>> vmap(np.dot)(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([1., 4.])
        >>> vmap(lambda x: x if x > 0 else 2 * x)(np.array([-1.0, 1.0]))
        array([-2.,  1.])
    """
    return VMap(fun, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name, axis_size=axis_size)
