"""The functions that branches and loops are given, as programs: what they capture, take and return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.core.aval import Aval, aval_of
from fgrad.core.program import Program, Var
from fgrad.lax.trees import NUMBERS, kind_of
from fgrad.transforms.stage import aval_out, staged

Fun = Callable[..., Any]


def run(program: Program, *values: Any) -> list[Any]:
    """Return the results of a program as arrays or Tensors."""
    return [np.asarray(y) if not hasattr(y, "dtype") else y for y in program.run(values)]


def sharing(
    programs: Sequence[Program], captured: Sequence[Sequence[Any]]
) -> tuple[list[Program], list[Any]]:
    """Return programs that take the captured values of all of them first, and those values."""
    values = list({id(t): t for own in captured for t in own}.values())
    shared = []
    for program, own in zip(programs, captured, strict=True):
        places = {id(t): v for t, v in zip(own, program.inputs, strict=False)}
        first = [places.get(id(t)) or Var(aval_of(t), f"c{i}") for i, t in enumerate(values)]
        inputs = [*first, *program.inputs[len(own) :]]
        regions = list(program.regions.values())
        shared.append(Program(inputs, program.equations, program.outputs, (None, None), regions))
    return shared, values


def abstract(leaves: Sequence[Any]) -> tuple[list[Any], list[Aval]]:
    """Return leaves as arrays or Tensors with their avals."""
    values = [x if hasattr(x, "dtype") else np.asarray(x) for x in leaves]
    return values, list(map(aval_of, values))


def promoted(leaves: Sequence[Any], step: Callable[..., list[Any]]) -> list[Any]:
    """Return the leaves with Python numbers as arrays of the dtype that they get in `step`."""
    if not any(kind_of(x) is None for x in leaves):
        return list(leaves)
    fixed = [i for i, x in enumerate(leaves) if kind_of(x) is not None]
    _, avals = abstract([leaves[i] for i in fixed])

    def flat(*xs: Any) -> list[Any]:
        full = list(leaves)
        for i, x in zip(fixed, xs, strict=True):
            full[i] = x
        return step(*full)

    program, _ = staged(flat, avals)
    return [
        x
        if kind_of(x) is not None or isinstance(y, NUMBERS)
        else np.asarray(x, np.result_type(x, aval_out(y).dtype))
        for x, y in zip(leaves, program.outputs, strict=False)
    ]
