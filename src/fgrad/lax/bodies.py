"""The bodies of branches and loops as programs: captured values, carries and results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.blocks import suppress
from fgrad.core.aval import Aval, aval_of, with_dtype
from fgrad.core.control_flow import avals_out
from fgrad.core.program import Program, Var
from fgrad.core.tensor import Tensor
from fgrad.lax.predicates import anywhere, going
from fgrad.transforms.stage import SAMPLE, common_type, number_type, settled, staged, staging, weakened

Fun = Callable[..., Any]


def run(program: Program, *values: Any) -> list[Any]:
    """Return the results of a program as arrays or Tensors."""
    return [np.asarray(y) if not hasattr(y, "dtype") else y for y in program.run(values)]


class Closed:
    """A branch or step for examples of a batch, with what it takes from around it among its arguments.

    Each example for which it is not called gets the arguments of one for which it is.

    Attributes:
        kind: leaves like those of the result, and its structure.
    """

    def __init__(self, fun: Fun, args: Sequence[Any]) -> None:
        leaves, structure = tree.flatten(args)
        self._values, avals, kinds = abstract(leaves)
        self.like: tuple[Any, list[Aval], list[type | None]] = (structure, avals, kinds)
        results: list[Any] = []

        def flat(*xs: Any) -> list[Any]:
            results[:] = tree.flatten(fun(*tree.unflatten(structure, xs)))
            found: list[Any] = results[0]
            return found

        self._program, self._captured = staged(flat, avals, kinds, greedy=True)
        self._numbers = list(map(number_type, results[0]))
        self.kind: tuple[Any, ...] = tuple(results)

    def __call__(self, taken: Any, args: Sequence[Any] | None = None) -> Any:
        """Return the result for those examples of which `taken` holds, and anything for the others.

        Args:
            taken: bool, of each example.
            args: like those at first; these themselves where there are none.
        """
        values = self._values if args is None else abstract(tree.leaves(args))[0]
        if staging() or anywhere(taken):
            outs = run(self._program, *(going(taken, x) for x in (*self._captured, *values)))
        else:
            outs = [np.zeros(a.shape, a.dtype) for a in avals_out(self._program)]
        return tree.unflatten(self.kind[1], map(weakened, outs, self._numbers))

    def takes(self, args: Sequence[Any]) -> bool:
        """Return whether `args` are like those at first."""
        leaves, structure = tree.flatten(args)
        _, avals, kinds = abstract(leaves)
        return self.like == (structure, avals, kinds)


def closed(fun: Fun, args: Sequence[Any]) -> Closed | None:
    """Return a branch or step with what it takes from around it, None where that cannot be staged."""
    with suppress(Exception):  # whatever it is, it says more where the function runs with values
        return Closed(fun, args)
    return None


def sharing(
    programs: Sequence[Program], captured: Sequence[Sequence[Any]]
) -> tuple[list[Program], list[Any]]:
    """Return programs that take the captured values of all of them first, and those values."""
    values = {_key(t): t for own in captured for t in own}
    shared = []
    for program, own in zip(programs, captured, strict=True):
        places = {_key(t): v for t, v in zip(own, program.inputs, strict=False)}
        first = [places.get(k) or Var(aval_of(t), f"c{i}") for i, (k, t) in enumerate(values.items())]
        inputs = [*first, *program.inputs[len(own) :]]
        regions = list(program.regions.values())
        shared.append(Program(inputs, program.equations, program.outputs, (None, None), regions))
    return shared, list(values.values())


def _key(t: Tensor) -> tuple[int, ...]:
    """Return what the handles on one value, as the live tapes know it, have in common."""
    return (id(t._value), *map(id, t._nodes))


def abstract(leaves: Sequence[Any]) -> tuple[list[Any], list[Aval], list[type | None]]:
    """Return leaves as arrays or Tensors with their avals, and which stand for Python numbers."""
    values = list(map(with_dtype, leaves))
    return values, list(map(aval_of, values)), list(map(number_type, leaves))


def promoted(
    leaves: Sequence[Any], step: Callable[..., Sequence[Any]]
) -> tuple[list[Any], list[Aval], list[type | None]]:
    """Return the leaves of a carry as arrays or Tensors, their avals, and which stand for Python numbers.

    A Python number stays one where `step`, of flat leaves, gives such a number again; else it takes the dtype
    that it gets there.
    """
    kinds = [number_type(x) for x in leaves]
    values = list(leaves)
    while any(kinds):
        found: list[Any] = []

        def flat(*xs: Any, found: list[Any] = found) -> Sequence[Any]:
            found[:] = step(*xs)
            return found

        staged(flat, _avals(values, kinds), kinds)
        new = list(kinds)
        for i, (kind, y) in enumerate(zip(kinds, found, strict=False)):
            other = number_type(y)
            if kind and other:
                new[i] = common_type((kind, other))
            elif kind:
                new[i], values[i] = None, settled(values[i], np.result_type(SAMPLE[kind], aval_of(y).dtype))
        if new == kinds:
            break
        kinds = new
    values = [settled(x, np.dtype(k)) if k else with_dtype(x) for x, k in zip(values, kinds, strict=True)]
    return values, _avals(values, kinds), kinds


def fitting(outs: Sequence[Any], avals: Sequence[Aval]) -> list[Any]:
    """Return the results of a step with those that stand for Python numbers in the dtypes of the carry.

    Raises:
        TypeError: a number is of another kind than its place.
    """
    found = []
    for i, (y, a) in enumerate(zip(outs, avals, strict=True)):
        kind = number_type(y)
        if kind and np.result_type(SAMPLE[kind], a.dtype) != a.dtype:
            raise TypeError(
                f"the loop carries {a} in leaf {i}, but a step returns a Python {kind.__name__} there, "
                "which that dtype cannot hold; convert it in the function, or start from a value of its "
                "type"
            )
        found.append(settled(y, a.dtype) if kind else y)
    return found


def _avals(values: Sequence[Any], kinds: Sequence[type | None]) -> list[Aval]:
    return [Aval((), np.dtype(k)) if k else aval_of(x) for x, k in zip(values, kinds, strict=True)]
