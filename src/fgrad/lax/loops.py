"""Loops with JAX's signatures: plain Python where values are there, one operation where not."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.core.aval import Aval
from fgrad.core.program import Program
from fgrad.core.tensor import Tensor, bind, wrap
from fgrad.lax.bodies import abstract, promoted, run, sharing
from fgrad.lax.predicates import anywhere, choose, differs, scalar
from fgrad.lax.scans import scan
from fgrad.lax.staged import Code, Grown, avals_out, inset, varies
from fgrad.lax.trees import Carry, kind_of, stack
from fgrad.numpy.indexing import where
from fgrad.transforms.stage import staged, staging

Fun = Callable[..., Any]


def while_loop(cond_fun: Fun, body_fun: Fun, init_val: Any) -> Any:
    """Return `init_val` after `body_fun` was applied to it as long as `cond_fun` of it is true.

    Reverse mode works however many steps that takes: every step is recorded. In a batch the loop runs until
    no example goes on, and those that are done keep their values.

    Args:
        cond_fun: takes the value and returns a bool without axes.
        body_fun: takes the value and returns the next, of the same structure, shapes and dtypes.
        init_val: pytree.

    Raises:
        TypeError: `body_fun` returns another structure, shape or dtype, or `cond_fun` no scalar.

    Example:
        >>> float(while_loop(lambda x: x < 100.0, lambda x: x * x, 3.0))
        6561.0
    """
    if staging():
        return _staged_while(cond_fun, body_fun, init_val)
    carry = Carry("while_loop", body_fun, init_val)
    value = init_val
    while True:
        go = scalar(cond_fun(value), "the condition of while_loop")
        if not anywhere(go):
            return value
        if differs(go):
            with np.errstate(all="ignore"):  # of examples that are done
                new = body_fun(value)
            carry.check(new)
            value = choose(functools.partial(where, go), [new, value], "while_loop")
        else:
            value = body_fun(value)
            carry.check(value)


class While(Code):
    """A program that is repeated as long as another one says so; what it returns beside the carry is stacked.

    Both take `consts` values that stay, and then the carry.
    """

    condition: Program
    body: Program
    consts: int
    carry: int
    outs: tuple[Aval, ...]

    def __init__(self, condition: Program, body: Program, consts: int) -> None:
        self.condition, self.body, self.consts = condition, body, consts
        self.carry = len(body.inputs) - consts
        outs = avals_out(body)
        self.outs = (
            *(v.aval for v in body.inputs[consts:]),
            *(Grown(a.shape, a.dtype) for a in outs[self.carry :]),
        )

    def __call__(self, *values: Any) -> Sequence[Any]:
        """Return the carry at the end, and the results of all steps."""
        consts, init = values[: self.consts], list(values[self.consts :])
        rows: list[list[Any]] = []

        def step(carry: list[Any]) -> list[Any]:
            outs = run(self.body, *consts, *carry)
            rows.append(outs[self.carry :])
            return outs[: self.carry]

        carry = while_loop(lambda v: run(self.condition, *consts, *v)[0], step, init)
        if not rows:
            return [*carry, *(np.zeros(a.shape, a.dtype) for a in self.outs[self.carry :])]
        return [*carry, *map(stack, zip(*rows, strict=True))]

    def varies(self, mapped: Sequence[bool]) -> list[bool]:
        """Return which outputs differ between examples where the arguments `mapped` do."""
        consts, carry = list(mapped[: self.consts]), list(mapped[self.consts :])
        while True:
            if any(varies(self.condition, [*consts, *carry])):
                return [True] * len(self.outs)
            outs = varies(self.body, [*consts, *carry])
            new = [a or b for a, b in zip(carry, outs, strict=False)]
            if new == carry:
                return [*carry, *outs[self.carry :]]
            carry = new

    def inner(self) -> Sequence[Program]:
        """Return the condition and the step."""
        return self.condition, self.body

    def map(self, f: Callable[[Program], Program]) -> Code:
        """Return the same loop of `f` of the condition and of the step."""
        return While(f(self.condition), f(self.body), self.consts)

    def __str__(self) -> str:
        return f"while{inset(self.condition)}\n    do{inset(self.body)}"


def _staged_while(cond_fun: Fun, body_fun: Fun, init_val: Any) -> Any:
    leaves, structure = tree.flatten(init_val)

    def step(*xs: Any) -> list[Any]:
        return checked(tree.unflatten(structure, xs), body_fun(tree.unflatten(structure, xs)))

    def checked(old: Any, new: Any) -> list[Any]:
        Carry("while_loop", body_fun, old).check(new)
        return tree.leaves(new)

    def proceed(*xs: Any) -> list[Any]:
        return [scalar(cond_fun(tree.unflatten(structure, xs)), "the condition of while_loop")]

    values, avals = abstract(
        promoted(leaves, lambda *xs: tree.leaves(body_fun(tree.unflatten(structure, xs))))
    )
    condition, first = staged(proceed, avals)
    body, second = staged(step, avals)
    (condition, body), taken = sharing((condition, body), (first, second))
    code = While(condition, body, len(taken))
    return tree.unflatten(structure, bind("lax.while_loop", *taken, *values, code=code))


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Fun,
    init_val: Any,
    *,
    unroll: int | bool | None = None,
    checkpoint: Any = None,
) -> Any:
    """Return `init_val` after `value = body_fun(i, value)` for each i from `lower` up to before `upper`.

    Args:
        lower: integer without axes.
        upper: likewise.
        body_fun: takes i and the value, and returns the next value of the same structure, shapes and dtypes.
        init_val: pytree.
        unroll: accepted for JAX's sake; changes nothing.
        checkpoint: as in `scan`, where `lower` and `upper` are known.

    Raises:
        TypeError: bounds that are not integers, or `body_fun` returns another structure, shape or dtype.

    Example:
        >>> fori_loop(0, 5, lambda i, total: total + i, 0)
        10
    """
    bounds = [scalar(b, "a bound of fori_loop") for b in (lower, upper)]
    for b in bounds:
        if getattr(b, "dtype", np.dtype(type(b))).kind not in "iu":
            raise TypeError(f"the bounds of fori_loop must be integers, not {kind_of(b) or b!r}")
    if any(isinstance(b, Tensor) for b in bounds):
        start, stop = bounds
        start = start if isinstance(start, Tensor) else wrap(np.asarray(start))
        return while_loop(
            lambda v: v[0] < stop, lambda v: (v[0] + 1, body_fun(v[0], v[1])), (start, init_val)
        )[1]
    start, stop = map(int, bounds)
    if staging() or checkpoint is not None:
        return scan(
            functools.partial(_counted, body_fun),
            init_val,
            np.arange(start, max(start, stop)),
            checkpoint=checkpoint,
        )[0]
    carry = Carry("fori_loop", body_fun, init_val)
    value = init_val
    for i in range(start, stop):
        value = body_fun(i, value)
        carry.check(value)
    return value


def _counted(body_fun: Fun, value: Any, i: Any) -> tuple[Any, None]:
    return body_fun(i, value), None
