"""Jacobians by lanes: each element keeps its slopes by a few inputs, so that no product has seeds.

A lane of a value holds one slope for each element, and names the input by which that is. Where a program of
tangents only scales, adds and moves elements, lanes follow it without multiplying by what is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad import numpy as fnp
from fgrad.core.dispatch import bind
from fgrad.core.primitive import PLACES, PRIMITIVES
from fgrad.core.program import Equation, Program, Var
from fgrad.core.tensor import Tensor


class UnknownLanesError(Exception):
    """What a program does is not followed by lanes, or takes too many of them."""


class Lane(NamedTuple):
    """Slopes, one for each element, which broadcast to all of them, and by which input; -1 where it is 0."""

    slopes: Any
    inputs: Any


def followed(
    program: Program, leaves: Sequence[Any], sizes: Sequence[int], shapes: Sequence[Any], most: int
) -> list[list[Lane]]:
    """Return the lanes of the outputs of a program of tangents.

    Args:
        program: its inputs are the leaves, and the tangents of some of them.
        leaves: their values.
        sizes: of the tangents.
        shapes: their avals.
        most: how many lanes a value may have.

    Raises:
        UnknownLanesError: there are more, or an equation is not known to scale, add or move.
    """
    if any("code" in e.params or any(isinstance(a, Tensor) for a in e.args) for e in program.equations):
        raise UnknownLanesError  # a loop or branch, or what belongs to a transformation around this one
    known: dict[Var, Any] = {}
    starts = np.cumsum([0, *sizes])
    tangents = [
        [Lane(np.ones((), a.dtype), start + np.arange(n).reshape(a.shape))]
        for start, n, a in zip(starts[:-1], sizes, shapes, strict=True)
    ]
    known.update(zip(program.inputs, [*leaves, *tangents], strict=True))
    for e in program.equations:
        args = [known[a] if a.__class__ is Var else a for a in e.args]
        if not any(isinstance(a, list) for a in args):
            out = bind(e.name, *args, **e.params)
            known.update(zip(e.outs, out if PRIMITIVES[e.name].many else [out], strict=True))
            continue
        lanes = _after(e, args)
        if len(lanes) > most:
            raise UnknownLanesError
        known[e.outs[0]] = lanes
    outs = [known[y] for y in program.outputs if y.__class__ is Var]
    found = [lanes for lanes in outs if isinstance(lanes, list)]
    if not found or len(found) < len(program.outputs):
        raise UnknownLanesError
    return found


def _after(e: Equation, args: list[Any]) -> list[Lane]:
    """Return the lanes of what an equation makes of operands, of which some have lanes."""
    shape = e.outs[0].aval.shape
    first, second = (*args, None, None)[:2]
    if e.name in {"multiply", "scale"}:
        lanes, factor = (first, second) if isinstance(first, list) else (second, first)
        if not isinstance(factor, list):
            return [Lane(bind(e.name, x.slopes, factor), np.broadcast_to(x.inputs, shape)) for x in lanes]
    elif e.name in {"negative", "positive"}:
        return [Lane(bind(e.name, x.slopes), x.inputs) for x in first]
    elif e.name == "divide" and not isinstance(second, list):
        return [Lane(bind("divide", x.slopes, second), np.broadcast_to(x.inputs, shape)) for x in first]
    elif e.name in {"add", "subtract"} and isinstance(first, list) and isinstance(second, list):
        return _sum(first, second, e.name, shape)
    elif e.name == "where" and is_zero(second) and not isinstance(first, list):
        made = [bind("where", first, second, x.slopes) for x in args[2]]
        return [Lane(y, np.broadcast_to(x.inputs, shape)) for x, y in zip(args[2], made, strict=True)]
    elif _moves(e) and isinstance(first, list) and all(isinstance(a, np.ndarray) for a in args[1:]):
        return [_moved(e, x, args[1:]) for x in first]
    raise UnknownLanesError


def _moves(e: Equation) -> bool:
    primitive = PRIMITIVES[e.name]
    return PLACES in primitive.traits and primitive.parts == 1


def is_zero(x: Any) -> bool:
    """Return whether an operand is known to be the number zero."""
    return not isinstance(x, Tensor | list) and np.ndim(x) == 0 and x == 0


def _sum(first: list[Lane], second: list[Lane], name: str, shape: Any) -> list[Lane]:
    """Return the sum or difference: lanes join where no element is in both with different inputs."""
    made = [Lane(x.slopes, np.broadcast_to(x.inputs, shape)) for x in first]
    for y in second:
        own = np.broadcast_to(y.inputs, shape)
        for i, x in enumerate(made):
            if ((x.inputs == own) | (x.inputs < 0) | (own < 0)).all():
                made[i] = Lane(bind(name, x.slopes, y.slopes), np.maximum(x.inputs, own))
                break
        else:
            slopes = y.slopes if name == "add" else bind("negative", y.slopes)
            made.append(Lane(slopes, own))
    return made


def _moved(e: Equation, x: Lane, others: list[Any]) -> Lane:
    """Return a lane whose elements go elsewhere; zeros come where there were none."""
    inputs = PRIMITIVES[e.name].run(x.inputs + 1, *others, **e.params) - 1
    slopes = fnp.broadcast_to(x.slopes, x.inputs.shape)
    return Lane(bind(e.name, slopes, *others, **e.params), inputs)


def flattened(outs: Sequence[list[Lane]]) -> tuple[list[Any], Any]:
    """Return the slopes of all lanes, each of all outputs in a row, and by which inputs they are."""
    count = max(map(len, outs))
    sorted_outs = [sorted(lanes, key=_offset) for lanes in outs]
    slopes, inputs = [], []
    for k in range(count):
        parts = [lanes[k] if k < len(lanes) else None for lanes in sorted_outs]
        shapes = [lanes[0].inputs.shape for lanes in outs]
        own = [
            fnp.reshape(fnp.broadcast_to(x.slopes, shape), (-1,))
            for x, shape in zip(parts, shapes, strict=True)
            if x is not None
        ]
        if len(own) < len(parts):
            raise UnknownLanesError
        slopes.append(own[0] if len(own) == 1 else fnp.concatenate(own))
        inputs.append(np.concatenate([x.inputs.reshape(-1) for x in parts if x is not None]))
    return slopes, np.stack(inputs)


def _offset(lane: Lane) -> float:
    """Return by how much inputs stand after elements, about: by this, bands are in order."""
    inputs = lane.inputs.reshape(-1)
    there = inputs >= 0
    return float(np.mean(inputs[there] - np.nonzero(there)[0])) if there.any() else 0.0


def places(inputs: Any, pattern: Any) -> Any:
    """Return where each entry of a pattern is among the slopes of all lanes, lane after lane.

    Raises:
        UnknownLanesError: an entry is in none, or in several.
    """
    rows, columns = pattern.shape
    lane, row = np.nonzero(inputs >= 0)
    keys = row * columns + inputs[lane, row]
    order = np.argsort(keys, kind="stable")
    entries = pattern.tocoo()
    if not np.array_equal(keys[order], entries.row.astype(np.int64) * columns + entries.col):
        raise UnknownLanesError
    return (lane * rows + row)[order]
