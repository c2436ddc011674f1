"""Loops with JAX's signatures: plain Python if values are known, else one operation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from fgrad import tree
from fgrad.core.control_flow import While
from fgrad.core.dispatch import bind
from fgrad.core.tensor import Tensor
from fgrad.lax.bodies import Closed, closed, fitting, promoted, sharing
from fgrad.lax.predicates import anywhere, choose, differs, following, going, scalar
from fgrad.lax.scans import counted, scan
from fgrad.lax.trees import Carry, kind_of
from fgrad.numpy.selection import pick
from fgrad.transforms.calling import own
from fgrad.transforms.stage import staged, staging, steady, weakened

Fun = Callable[..., Any]
C = TypeVar("C")  # a carry


def while_loop(cond_fun: Callable[[C], Any], body_fun: Callable[[C], C], init_val: C) -> C:
    """Return `init_val` after `body_fun` was applied to it as long as `cond_fun` of it is true.

    Reverse mode works for any number of steps: every step is recorded. In a batch the loop runs until every
    example is done; examples that are done earlier keep their values.

    Args:
        cond_fun: takes the value and returns a bool without axes.
        body_fun: takes the value and returns the next, of the same structure, shapes and dtypes.
        init_val: pytree.

    Returns:
        Pytree of the structure, shapes and dtypes of `init_val`.

    Raises:
        TypeError: `body_fun` returns another structure, shape or dtype, or `cond_fun` returns no scalar.

    Derivative:
        That of the steps that were taken; their number counts as a constant.

    Example:
        >>> float(while_loop(lambda x: x < 100.0, lambda x: x * x, 3.0))
        6561.0
    """
    if staging():
        return _staged_while(cond_fun, body_fun, init_val)  # type: ignore[no-any-return]
    carry = Carry("while_loop", body_fun, init_val)
    value = own(init_val)
    step = _Step(body_fun)
    while True:
        go = scalar(cond_fun(value), "the condition of while_loop")
        if not anywhere(go):
            return value  # type: ignore[no-any-return]
        if differs(go):
            new = step(go, value)
            carry.check(new)
            value = choose(functools.partial(pick, go), [new, value], "while_loop")
        else:
            value = own(body_fun(value))
            carry.check(value)


class _Step:
    """A step of a loop for those examples that go on; the others get the values of one of these."""

    def __init__(self, fun: Fun) -> None:
        self._fun = fun
        self._closed: Closed | None = None

    def __call__(self, goes: Any, *args: Any) -> Any:
        """Return the result, of any value for the examples for which `goes` does not hold."""
        with np.errstate(all="ignore"):  # of examples that have not begun, or are done
            if following() or staging():
                if self._closed is None or not self._closed.takes(args):
                    self._closed = closed(self._fun, args)
                if self._closed is not None:
                    return self._closed(goes, args)
            return self._fun(*tree.map(lambda x: going(goes, x), own(args)))


def _staged_while(cond_fun: Fun, body_fun: Fun, init_val: Any) -> Any:
    leaves, structure = tree.flatten(init_val)

    def step(*xs: Any) -> list[Any]:
        return checked(tree.unflatten(structure, xs), body_fun(tree.unflatten(structure, xs)))

    def checked(old: Any, new: Any) -> list[Any]:
        Carry("while_loop", body_fun, old).check(new)
        return tree.leaves(new)

    def proceed(*xs: Any) -> list[Any]:
        return [scalar(cond_fun(tree.unflatten(structure, xs)), "the condition of while_loop")]

    values, avals, kinds = promoted(leaves, step)

    def make() -> list[Any]:
        turn = staged(lambda *xs: fitting(step(*xs), avals), avals, kinds)
        return [staged(proceed, avals, kinds), turn]

    (condition, first), (body, second) = steady("while_loop", (cond_fun, body_fun), make)
    (condition, body), taken = sharing((condition, body), (first, second))
    code = While(condition, body, len(taken))
    outs = bind("lax.while_loop", *taken, *values, code=code)
    return tree.unflatten(structure, map(weakened, outs, kinds))


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, C], C],
    init_val: C,
    *,
    unroll: int | bool | None = None,
    checkpoint: Any = None,
) -> C:
    """Return `init_val` after `value = body_fun(i, value)` for each i from `lower` up to before `upper`.

    Args:
        lower: integer without axes.
        upper: likewise.
        body_fun: takes i and the value, and returns the next value of the same structure, shapes and dtypes.
        init_val: pytree.
        unroll: accepted for JAX's sake; changes nothing.
        checkpoint: as in `scan`, where `lower` and `upper` are known.

    Returns:
        Pytree of the structure, shapes and dtypes of `init_val`.

    Raises:
        TypeError: bounds that are not integers, or `body_fun` returns another structure, shape or dtype.

    Derivative:
        That of the steps; the bounds are integers and have none.

    Example:
        >>> fori_loop(0, 5, lambda i, total: total + i, 0)
        10
    """
    bounds = [scalar(b, "a bound of fori_loop") for b in (lower, upper)]
    for b in bounds:
        if getattr(b, "dtype", np.dtype(type(b))).kind not in "iu":
            raise TypeError(f"the bounds of fori_loop must be integers, not {kind_of(b) or b!r}")
    if any(map(differs, bounds)):
        return _fori_of_examples(bounds, body_fun, init_val)  # type: ignore[no-any-return]
    if any(isinstance(b, Tensor) for b in bounds):
        start, stop = (weakened(b, int) if isinstance(b, Tensor) else int(b) for b in bounds)
        return while_loop(
            lambda v: v[0] < stop, lambda v: (v[0] + 1, body_fun(v[0], v[1])), (start, init_val)
        )[1]
    start, stop = map(int, bounds)
    if staging():
        return counted(body_fun, init_val, range(start, max(start, stop)), checkpoint)  # type: ignore[no-any-return]
    if checkpoint is not None:
        steps = np.arange(start, max(start, stop))
        return scan(lambda v, i: (body_fun(int(i), v), None), init_val, steps, checkpoint=checkpoint)[0]
    carry = Carry("fori_loop", body_fun, init_val)
    value = own(init_val)
    for i in range(start, stop):
        value = own(body_fun(i, value))
        carry.check(value)
    return value  # type: ignore[no-any-return]


def _fori_of_examples(bounds: Sequence[Any], body_fun: Fun, init_val: Any) -> Any:
    """Do what `fori_loop` does where examples of a batch have bounds of their own.

    The loop goes from the least bound to the greatest, so that its counter is the same for all of them.
    """
    ends = [_whole(b) for b in bounds]
    if not all(np.size(b) for b in ends):
        return own(init_val)
    start, stop = bounds

    def step(i: Any, value: Any) -> Any:
        inside = np.logical_and(start <= i, i < stop)
        new = each(inside, i, value)
        carry.check(new)
        return choose(functools.partial(pick, inside), [new, value], "fori_loop")

    carry = Carry("fori_loop", body_fun, init_val)
    each = _Step(body_fun)
    return fori_loop(np.min(ends[0]), np.max(ends[1]), step, init_val)


def _whole(x: Any) -> Any:
    """Return a bound for all examples of the batches around."""
    while differs(x):
        x = x._value.whole
    return x
