"""Functions whose batch is shared among ranks, with values and gradients of the whole batch."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.core.aval import with_dtype
from fgrad.core.primitive import FUNCTIONS
from fgrad.core.tensor import Tensor
from fgrad.distributed.world import World, world
from fgrad.transforms.axes import binding
from fgrad.transforms.calling import Delivery, Transformed, has_tensor, name_of
from fgrad.transforms.messages import reduce, replicate


class DataParallel(Transformed):
    """The function that computes its share on every rank."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the mean of `fun` over the whole batch."""
        here: World = self.options["world"] or world()
        axis = here.named(self.options["axis_name"])
        leaves, structure = tree.flatten(args)
        axes = self._axes(args)
        share, n = self._share(here, leaves, axes)
        given = []
        for x, k in zip(leaves, axes, strict=True):
            if x.__class__ is Tensor and x.dtype.kind in "fc":
                x = replicate(x, axis)  # noqa: PLW2901 -- the same value, whose cotangents add up
            if k is not None:
                index = (slice(None),) * k + (share,)
                x = FUNCTIONS["getitem"](x, index) if x.__class__ is Tensor else np.asarray(x)[index]  # noqa: PLW2901 -- its share
            given.append(x)
        with binding(axis):
            out = self.fun(*tree.unflatten(structure, given), **kwargs)
        weight = (share.stop - share.start) / n
        whole = tree.map(lambda y: reduce(with_dtype(y) * weight, axis), out)
        return Delivery(not has_tensor(leaves)).tree(whole)

    def _axes(self, args: tuple[Any, ...]) -> list[int | None]:
        """Return for each leaf the axis of the examples, None if all ranks use all of it."""
        in_axes = self.options["in_axes"]
        if in_axes is None:
            in_axes = (None, *(0 for _ in args[1:]))
        if isinstance(in_axes, list):
            in_axes = tuple(in_axes)
        found: list[int | None] = tree.broadcast_prefix(in_axes, args)
        return found

    def _share(self, here: World, leaves: list[Any], axes: list[int | None]) -> tuple[slice, int]:
        sizes = {np.shape(x)[k] for x, k in zip(leaves, axes, strict=True) if k is not None}
        if len(sizes) != 1:
            what = f"the lengths {sorted(sizes)}" if sizes else "no leaf with such an axis"
            raise ValueError(
                f"data_parallel of {name_of(self.fun)}: all leaves of the batch need one length along the "
                f"axis of the examples, but there are {what}. in_axes says which arguments are shared out; "
                "by default all but the first, along their first axis"
            )
        (n,) = sizes
        if n < here.size:
            raise ValueError(
                f"data_parallel of {name_of(self.fun)}: {n} examples are too few for {here.size} ranks; "
                "every rank needs one"
            )
        return here.share(n), n


def data_parallel(
    fun: Callable[..., Any],
    in_axes: Any = None,
    *,
    axis_name: Hashable = "ranks",
    comm: World | None = None,
) -> DataParallel:
    """Return `fun` with its batch shared among the ranks: the same value and derivatives, to rounding.

    Every rank calls it with the same arguments, computes `fun` on its share of the batch, and gets the mean
    over all. `grad`, `value_and_grad`, `jit`, `hessian` and so on go around it; every rank gets the whole
    gradient, the same bits on each.

    Args:
        fun: takes parameters and a batch, and returns a mean over the examples, or a pytree of means.
            Inside, `axis_name` stands for the axis over all ranks: `fgrad.lax.pmean(x, "ranks")`.
        in_axes: for each argument (or as a pytree prefix) the axis of the examples, or None for what every
            rank uses as a whole; by default None for the first argument and 0 for the others.
        axis_name: the name of the axis.
        comm: the ranks; None is `world()` at each call.

    Returns:
        A function of the same arguments, which returns the mean over all examples on every rank.

    Raises:
        ValueError: lengths differ, or there are fewer examples than ranks.

    Derivative:
        That of the function on one process: cotangents of arguments are summed over the ranks.

    Example:
        >>> import fgrad
        >>> def loss(w, x, y):
        ...     return np.mean((x @ w - y) ** 2)
        >>> x, y = np.arange(10.0).reshape(5, 2), np.ones(5)
        >>> step = fgrad.value_and_grad(fgrad.distributed.data_parallel(loss))
        >>> values = fgrad.distributed.simulate(2, lambda: step(np.ones(2), x, y)[0])
        >>> [round(float(v), 6) for v in values] == [round(float(loss(np.ones(2), x, y)), 6)] * 2
        True
    """
    return DataParallel(fun, in_axes=in_axes, axis_name=axis_name, world=comm)
