"""Collective operations by the name of what they do, over all ranks unless an axis is named."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.core.tensor import Tensor
from fgrad.distributed.world import RankAxis, world
from fgrad.docstrings import completes
from fgrad.extend.engine import sum_axes
from fgrad.transforms import collectives
from fgrad.transforms.axes import Pairs, bound_axes
from fgrad.transforms.messages import transfer

_collective = completes(
    {
        "x": "pytree of arrays, Tensors and numbers, of the same shapes and dtypes on all ranks.",
        "axis_name": "an axis of `world().axis(name)` or of `vmap`; None for all ranks.",
    },
    Raises="""NameError: no axis of that name is around.
    RankMismatchError: ranks do something else, or have other shapes or dtypes.""",
)


@_collective
def psum(x: Any, axis_name: Hashable = None) -> Any:
    """Return `fgrad.lax.psum` over all ranks, or over an axis.

    Returns:
        The same pytree, the same bits on every rank; number by number in the order of the ranks.

    Derivative:
        The sum of the cotangents of all ranks.

    Example:
        >>> from fgrad.distributed import psum, simulate, world
        >>> simulate(2, lambda: psum(np.array([1.0, world().rank])))
        [array([2., 1.]), array([2., 1.])]
    """
    return collectives.psum(x, _axis(axis_name))


@_collective
def pmean(x: Any, axis_name: Hashable = None) -> Any:
    """Return `fgrad.lax.pmean` over all ranks, or over an axis.

    Returns:
        The same pytree, floats; the same bits on every rank.

    Derivative:
        The mean of the cotangents of all ranks.

    Example:
        >>> from fgrad.distributed import pmean, simulate, world
        >>> simulate(2, lambda: pmean(np.array([1.0, world().rank])))
        [array([1. , 0.5]), array([1. , 0.5])]
    """
    return collectives.pmean(x, _axis(axis_name))


@_collective
def pmax(x: Any, axis_name: Hashable = None) -> Any:
    """Return `fgrad.lax.pmax` over all ranks, or over an axis.

    Returns:
        The same pytree, of the same dtypes; the same on every rank.

    Derivative:
        Shared equally by the ranks that attain it.

    Example:
        >>> from fgrad.distributed import pmax, simulate, world
        >>> simulate(3, lambda: pmax(np.array([1.0, world().rank])))[0]
        array([1., 2.])
    """
    return collectives.pmax(x, _axis(axis_name))


@_collective
def pmin(x: Any, axis_name: Hashable = None) -> Any:
    """Return `fgrad.lax.pmin` over all ranks, or over an axis.

    Returns:
        The same pytree, of the same dtypes; the same on every rank.

    Derivative:
        Shared equally by the ranks that attain it.

    Example:
        >>> from fgrad.distributed import pmin, simulate, world
        >>> simulate(3, lambda: pmin(np.array([1.0, world().rank])))[0]
        array([1., 0.])
    """
    return collectives.pmin(x, _axis(axis_name))


@_collective
def all_gather(x: Any, axis_name: Hashable = None, *, axis: int = 0, tiled: bool = False) -> Any:
    """Return `fgrad.lax.all_gather` over all ranks, or over an axis.

    Args:
        axis: where the axis of the ranks stands in the result.
        tiled: whether values are concatenated along `axis` instead of stacked.

    Returns:
        The same pytree, leaves with all ranks along `axis`; the same on every rank.

    Derivative:
        Each rank gets the sum of the cotangents of its own part.

    Example:
        >>> from fgrad.distributed import all_gather, simulate, world
        >>> simulate(2, lambda: all_gather(np.array([1.0, world().rank])).tolist())
        [[[1.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [1.0, 1.0]]]
    """
    return collectives.all_gather(x, _axis(axis_name), axis=axis, tiled=tiled)


@_collective
def reduce_scatter(
    x: Any, axis_name: Hashable = None, *, scatter_dimension: int = 0, tiled: bool = False
) -> Any:
    """Return `fgrad.lax.psum_scatter` over all ranks, or over an axis.

    Args:
        scatter_dimension: the axis along which the parts lie; its length is the number of ranks.
        tiled: whether that axis stays, with an equal share of its length for each rank.

    Returns:
        The same pytree, each leaf this rank's part of the sum, without the axis or with a share of it.

    Raises:
        NameError: no axis of that name is around.
        RankMismatchError: ranks do something else, or have other shapes or dtypes.
        ValueError: the length of that axis does not match the number of ranks.

    Derivative:
        `all_gather` of the cotangents.

    Example:
        >>> from fgrad.distributed import reduce_scatter, simulate, world
        >>> simulate(2, lambda: float(reduce_scatter(np.array([1.0, world().rank]))))
        [2.0, 1.0]
    """
    return collectives.psum_scatter(x, _axis(axis_name), scatter_dimension=scatter_dimension, tiled=tiled)


@_collective
def broadcast(x: Any, root: int = 0, axis_name: Hashable = None) -> Any:
    """Return the value that `x` has on the rank `root`: `fgrad.lax.pbroadcast`, differentiable.

    Args:
        root: the rank whose values count.

    Returns:
        The same pytree; the same on every rank.

    Raises:
        NameError: no axis of that name is around.
        RankMismatchError: ranks do something else, or have other shapes or dtypes.
        ValueError: there is no such rank.

    Derivative:
        The sum of the cotangents of all ranks for `root`, zero for the others.

    Example:
        >>> from fgrad.distributed import broadcast, simulate, world
        >>> simulate(3, lambda: float(broadcast(np.float64(world().rank), root=2)))
        [2.0, 2.0, 2.0]
    """
    return collectives.pbroadcast(x, _axis(axis_name), root)


@_collective
def ppermute(x: Any, perm: Pairs, axis_name: Hashable = None) -> Any:
    """Return `fgrad.lax.ppermute` over all ranks, or over an axis.

    Args:
        perm: pairs (source, destination) of ranks, each at most once on either side.

    Returns:
        The same pytree; zeros on a rank that is no destination.

    Raises:
        NameError: no axis of that name is around.
        RankMismatchError: ranks do something else, or have other shapes or dtypes.
        ValueError: a rank stands twice as source or as destination, or there is none of that number.

    Derivative:
        The cotangents, sent back.

    Example:
        >>> from fgrad.distributed import ppermute, simulate, world
        >>> simulate(3, lambda: float(ppermute(np.float64(world().rank), [(0, 1), (1, 2)])))
        [0.0, 0.0, 1.0]
    """
    return collectives.ppermute(x, _axis(axis_name), perm)


def send(x: Any, dest: int, axis_name: Hashable = None) -> Any:
    """Send `x` to the rank `dest`, which calls `recv`; return 0.0, to be added to the result.

    Only these two ranks take part. The gradient of `x` comes back from `dest` in the reverse pass of this
    rank, if the zero that is returned is part of what is differentiated; else `dest` waits in vain.

    Args:
        x: pytree of floating arrays and Tensors.
        dest: a rank.
        axis_name: an axis of processes; None for all ranks.

    Returns:
        The number 0.0, of the dtype to which the leaves promote; a Tensor where `x` is differentiated.

    Raises:
        NameError: no axis of processes of that name is around.
        ValueError: `dest` is this rank or none, or `x` has no leaves.
        RankMismatchError: `dest` expects something else.

    Derivative:
        The cotangent that the destination has for what it received.

    Source:
        Utke et al. (2009), Toward adjoinable MPI.

    Example:
        >>> from fgrad.distributed import recv, send, simulate, world
        >>> def turn(x):
        ...     return send(x, 1) if world().rank == 0 else recv(np.zeros(2), 0)
        >>> simulate(2, lambda: turn(np.array([1.0, 2.0])))
        [np.float64(0.0), array([1., 2.])]
    """
    zeros = [sum_axes(y, tuple(range(len(y.shape)))) for y in _moved(x, dest, None, "send", axis_name)[0]]
    total = zeros[0]
    for zero in zeros[1:]:
        total = total + zero
    return total if isinstance(total, Tensor) else total[()]


def recv(like: Any, source: int, axis_name: Hashable = None) -> Any:
    """Return what the rank `source` sends with `send`.

    Args:
        like: pytree of floating arrays and Tensors of the same shapes and dtypes. Where the result is to be
            differentiated, it is a Tensor that is: cotangents of the result go to `source` then.
        source: a rank.
        axis_name: an axis of processes; None for all ranks.

    Returns:
        The pytree that was sent, of the shapes and dtypes of `like`.

    Raises:
        RankMismatchError: something else arrived.

    Derivative:
        Zero for `like`; the cotangent of the result is sent to `source`.

    Example:
        >>> import fgrad
        >>> from fgrad.distributed import recv, send, simulate, world
        >>> def loss(x):
        ...     return send(x * x, 1) if world().rank == 0 else recv(x, 0) * 5.0
        >>> simulate(2, lambda: float(fgrad.grad(loss)(3.0)))
        [30.0, 0.0]
    """
    found, structure = _moved(like, None, source, "recv", axis_name)
    return tree.unflatten(structure, found)


def _moved(
    x: Any, dest: int | None, source: int | None, what: str, axis_name: Hashable
) -> tuple[list[Any], Any]:
    axis = _axis(axis_name)
    if not isinstance(axis, RankAxis):
        axis = next((a for a in reversed(bound_axes()) if a.name == axis_name), axis)
    if not isinstance(axis, RankAxis):
        raise NameError(  # noqa: TRY004 -- a name is missing, as for the other operations
            f"{what}: {axis_name!r} is not an axis of processes; bind it by world().axis(name)"
        )
    other = source if dest is None else dest
    if other is None or not 0 <= other < axis.size or other == axis.rank:
        raise ValueError(f"{what}: the other rank is a number from 0 to {axis.size - 1}, not {other}")
    leaves, structure = tree.flatten(x)
    if not leaves:
        raise ValueError(f"{what} needs at least one array")
    given = [y if isinstance(y, Tensor) else np.asarray(y) for y in leaves]
    return [transfer(y, y, axis, dest=dest, source=source) for y in given], structure


def _axis(axis_name: Hashable) -> Hashable:
    return world().named() if axis_name is None else axis_name
