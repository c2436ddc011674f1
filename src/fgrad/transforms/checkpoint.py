"""Checkpointing: the residuals of a function are discarded, and it runs again in the reverse pass."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from fgrad import tree
from fgrad.core.aval import aval_of
from fgrad.core.dispatch import bind
from fgrad.core.primitive import PLACES, VJP
from fgrad.core.stored import Stored, is_text
from fgrad.core.tape import Node
from fgrad.core.tensor import Tensor
from fgrad.core.trace import place_of, user_line
from fgrad.ops.linear import linear
from fgrad.transforms.calling import Transformed, bound, own
from fgrad.transforms.checkpoint_policies import Policy, everything_saveable, nothing_saveable
from fgrad.transforms.manager import GradManager
from fgrad.transforms.reverse import Inputs
from fgrad.transforms.segment import Again, Call, forgotten

P = ParamSpec("P")
R = TypeVar("R")

linear(
    "name",
    run=lambda x, *, label: x,
    adjoint=lambda ct, x, *, label: ct,
    shape=lambda x, *, label: x,
    batch=lambda x, *, label: bind("name", x, label=label),
    traits={PLACES},
    parts=1,
    stored=Stored({"label": is_text}),
)


def checkpoint_name(x: Any, name: str) -> Any:
    """Return `x`, with its Tensors known as `name` to `checkpoint_policies.save_only_these_names`.

    Args:
        x: pytree.
        name: any text.

    Returns:
        `x`, the same pytree.

    Derivative:
        1.

    Example:
        >>> checkpoint_name(2.0, "two")
        2.0
    """
    return tree.map(lambda leaf: bind("name", leaf, label=name) if leaf.__class__ is Tensor else leaf, x)


class Checkpoint(Transformed):
    """The function that runs again in the reverse pass."""

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """Return `fun(*args, **kwargs)`."""
        policy = self.options["policy"]
        if policy is everything_saveable:
            return own(self.fun(*own(args), **own(kwargs)))
        call = Call(self.fun, args, kwargs)
        return own(forgotten(call, None if policy is nothing_saveable else policy))


def checkpoint(fun: Callable[P, R], *, policy: Policy | None = None) -> Callable[P, R]:
    """Return `fun` without residuals: it runs again in the reverse pass; also called `remat`.

    Only its arguments are kept. Tensors from a closure get their gradients too. `fun` must be pure: it
    computes the same both times, and changes no argument of the caller.

    Args:
        fun: takes and returns pytrees.
        policy: which residuals are kept nevertheless: one of `fgrad.checkpoint_policies`, or any
            `policy(primitive, **parameters) -> bool`, asked with the name of each operation. None keeps
            nothing.

    Returns:
        A function of the same arguments.

    Raises:
        RuntimeError: in the reverse pass, when `fun` computes something other than before.

    Derivative:
        That of `fun`, the same bits, of every order.

    Source:
        Chen, Xu, Zhang & Guestrin (2016), arXiv 1604.06174; the policies are JAX's.

    Example:
        >>> import fgrad
        >>> layer = fgrad.checkpoint(lambda w, x: np.tanh(w * x))
        >>> fgrad.grad(lambda w: layer(w, layer(w, 1.0)))(0.0)
        np.float64(0.0)
    """
    return Checkpoint(fun, policy=policy)


remat = checkpoint


class _Lines(list[Any]):
    """The references of a tape, which notes for each node the line of the user's program."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[Node, str] = {}

    def append(self, r: Any) -> None:
        """Add the reference to a node."""
        self.lines[r()] = user_line()
        super().append(r)


def print_saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print what the gradient of `fun` keeps in memory: shape, dtype, bytes, and what made it where.

    Args:
        fun: takes and returns pytrees.
        args: its arguments; floating-point leaves are differentiated.
        kwargs: keyword arguments, not differentiated unless they name positional ones.

    Example:
        >>> import fgrad
        >>> fgrad.print_saved_residuals(lambda x: np.sin(np.exp(x)), np.ones(3))  # doctest: +ELLIPSIS
        float64[3]  24 bytes  out of exp at ...
        1 array, 24 bytes
    """
    args, kwargs = bound(fun, args, kwargs)
    inputs = Inputs(args, range(len(args)), "print_saved_residuals", allow_int=True)
    with GradManager() as gm:
        tape = gm.recording_tape()
        tape.refs, tape.limit = _Lines(), sys.maxsize
        leaves = gm.follow_each(inputs.handles)
        out = tree.leaves(fun(*inputs.filled(args, leaves), **kwargs))
        places = {id(leaf._value): f"argument {i}" for i, leaf in enumerate(leaves)}
        outs = [n for y in out if isinstance(y, Tensor) for n in y._nodes if n.tape is tape]
        found = _residuals(outs, tape.live())
        lines = tape.refs.lines
        total = 0
        for array, node, what in found:
            where = places.get(id(array)) or f"{what} at {place_of(lines[node])}"
            total += array.nbytes
            print(f"{aval_of(array)}  {array.nbytes} bytes  {where}")  # noqa: T201 -- what it is for
        print(f"{len(found)} array{'s' * (len(found) != 1)}, {total} bytes")  # noqa: T201


def _residuals(outs: list[Node], order: list[Node]) -> list[tuple[Any, Node, str]]:
    """Return each array that the nodes under `outs` keep, with a node and what it has to do with it."""
    nodes, stack = set(outs), list(outs)
    while stack:
        for p in stack.pop().parents:
            if p not in nodes:
                nodes.add(p)
                stack.append(p)
    found: list[tuple[Any, Node, str]] = []
    seen: set[int] = set()
    for node in order:
        for what, x in _saved(node) if node in nodes else ():
            while isinstance(x, Tensor):
                x = x._value  # noqa: PLW2901 -- the value takes the place of its handle
            if isinstance(x, np.ndarray | np.generic) and id(x) not in seen:
                seen.add(id(x))
                found.append((x, node, what))
    return found


def _saved(node: Node) -> list[tuple[str, Any]]:
    vjp = node.vjp
    if not isinstance(vjp, VJP):
        return []
    if len(node.saved) == 1 and isinstance(node.saved[0], Again):
        again = node.saved[0]
        kept = [
            (f"kept out of {name or 'a named operation'} in checkpoint", x) for name, x in again.kept.values()
        ]
        return [*(("kept for checkpoint", x) for x in again.call.leaves), *kept]
    names = [("out of" if k == 0 else "into") + f" {vjp.primitive}" for k in vjp.keep]
    return [*zip(names, node.saved, strict=False)]
