"""Products of all colours side by side: in a program of tangents, colours are the last axis of each value.

Where each row of a Jacobian has an entry of every colour, as blocks of one kind have, entries then come in
their order, and what rows have in common is computed once for all colours of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad.core.dispatch import bind
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.program import Equation, Program, Var, aval_out
from fgrad.core.tensor import Tensor


class UnknownColoursError(Exception):
    """What a program does is not known to leave the last axis alone."""


_KEEPS = {"negative", "positive"}  # which say nothing of axes
_SCALES = {"multiply", "scale"}
_SHAPED = {"reshape", "broadcast_to"}  # whose parameter `shape` has an axis more
_INDEXED = {"slice", "slice_backward"}


def followed(program: Program, leaves: Sequence[Any], seeds: Sequence[Any]) -> list[Any]:
    """Return the outputs of a program of tangents, for tangents of one axis more at the end.

    Outputs have their elements in C order, but not always their shapes.

    Args:
        program: its inputs are the leaves, and the tangents of some of them.
        leaves: their values.
        seeds: the tangents.

    Raises:
        UnknownColoursError: an equation is not one of those that are known.
    """
    if any("code" in e.params or any(isinstance(a, Tensor) for a in e.args) for e in program.equations):
        raise UnknownColoursError  # a loop or branch, or what belongs to a transformation around this one
    known: dict[Var, Any] = dict(zip(program.inputs, [*leaves, *seeds], strict=True))
    wide = set(program.inputs[len(leaves) :])
    count = seeds[0].shape[-1]
    for e in program.equations:
        args = [known[a] if a.__class__ is Var else a for a in e.args]
        which = [a.__class__ is Var and a in wide for a in e.args]
        if any(which):
            out = _after(e, args, which, count)
            wide.add(e.outs[0])
            known[e.outs[0]] = out
        else:
            out = bind(e.name, *args, **e.params)
            known.update(zip(e.outs, out if PRIMITIVES[e.name].many else [out], strict=True))
    makers = {v: e for e in program.equations for v in e.outs}
    outs = [_unshaped(y, makers) for y in program.outputs]
    if not all(y in wide for y in outs):
        raise UnknownColoursError
    return [known[y] for y in outs]


def _unshaped(y: Any, makers: dict[Var, Equation]) -> Any:
    """Return what has the same elements in the same order as an output, before it was given its shape."""
    while y.__class__ is Var and y in makers and makers[y].name == "reshape":
        y = makers[y].args[0]
    return y if y.__class__ is Var else None


def _after(e: Equation, args: list[Any], which: list[bool], count: int) -> Any:
    """Return what an equation makes of operands, of which some have an axis more."""
    shape, params = e.outs[0].aval.shape, e.params
    if e.name in _KEEPS or (e.name in {"add", "subtract"} and all(which)):
        return bind(e.name, *[_aligned(x, len(shape) + 1) for x in args])
    if (e.name in _SCALES and sum(which) == 1) or (e.name == "divide" and which == [True, False]):
        given = [x if w else _widened(x) for x, w in zip(args, which, strict=True)]
        return bind(e.name, *[_aligned(x, len(shape) + 1) for x in given])
    if e.name == "where" and which == [False, False, True]:
        given = [_widened(args[0]), _widened(args[1]), args[2]]
        return bind(e.name, *[_aligned(x, len(shape) + 1) for x in given])
    if e.name in _SHAPED:
        return bind(e.name, *args, **params | {"shape": (*params["shape"], count)})
    if e.name == "sum" and all(axis >= 0 for axis in params["axes"]):
        return bind(e.name, *args, **params)
    if e.name in _INDEXED:
        index = params["index"]
        if Ellipsis not in index:
            index = (*index, *[slice(None)] * (len(aval_out(e.args[0]).shape) - len(index)))
        changed: dict[str, Any] = {"index": (*index, slice(None))}
        if "shape" in params:
            changed["shape"] = (*params["shape"], count)
        return bind(e.name, *args, **params | changed)
    if e.name == "gather" and which[0] and not any(which[1:]):
        return bind(e.name, *args, **params)
    raise UnknownColoursError


def _widened(x: Any) -> Any:
    """Return a factor that is the same for all colours."""
    return x if np.ndim(x) == 0 else fnp.reshape(x, (*np.shape(x), 1))


def _aligned(x: Any, ndim: int) -> Any:
    """Return an operand with as many axes, of which those that are missing come first."""
    missing = ndim - np.ndim(x)
    return x if np.ndim(x) == 0 or not missing else fnp.reshape(x, (*(1,) * missing, *np.shape(x)))
