"""Operands: constant operands fold, and repeats and reshapes move behind elementwise operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.compiler.simplify.constants import folded, is_constant
from fgrad.compiler.simplify.rewriting import Rewriting, Rules, is_elementwise
from fgrad.core.primitive import AVERAGES, CASTS, PRIMITIVES, REARRANGES, REPEATS, RESHAPES
from fgrad.core.program import Equation, Var

FOLDING, OPERANDS = Rules(), Rules()


@FOLDING.on_all()
def known(rw: Rewriting, e: Equation) -> Any:
    """Compute what is known."""
    if not all(map(is_constant, e.args)) or not e.args or len(e.outs) != 1:
        return None
    aval = e.outs[0].aval
    scalars = [rw.scalar(a) for a in e.args]
    if aval.size and all(s is not None for s in scalars) and (aval.shape or any(map(np.ndim, e.args))):
        if REARRANGES in e.traits:
            return rw.full(scalars[0], aval)
        if CASTS in e.traits:
            with np.errstate(all="ignore"):
                return rw.full(PRIMITIVES[e.name].run(scalars[0], **e.params), aval)
        if AVERAGES in e.traits and aval.dtype.kind in "fc":
            return rw.full(scalars[0], aval)
    return folded(e.name, e.args, e.params, aval)


@OPERANDS.on_all(is_elementwise)
def spread_operands(rw: Rewriting, e: Equation) -> Any:
    """Move broadcasts behind element-wise primitives: of the result, if all operands are broadcast."""
    loose = [_loose(rw, a) for a in e.args]
    if all(a is b for a, b in zip(loose, e.args, strict=True)):
        return None
    shape = e.outs[0].aval.shape
    small = np.broadcast_shapes(*(rw.aval(a).shape for a in loose))
    out = rw.make(e.name, *loose, **e.params)
    return out if small == shape else rw.broadcast_to(out, shape)


def _loose(rw: Rewriting, a: Any) -> Any:
    """Return an operand without what broadcasting does anyway."""
    while a.__class__ is Var:
        e = rw.made_by(a, REPEATS) or rw.made_by(a, RESHAPES)
        if e is None:
            return a
        inner = e.args[0]
        if RESHAPES in e.traits:
            shape, own = a.aval.shape, rw.aval(inner).shape
            if len(own) >= len(shape) or shape != (1,) * (len(shape) - len(own)) + own:
                return a
        a = inner
    if isinstance(a, np.ndarray):
        s = rw.scalar(a)
        return rw.constants.short(a) if s is None else s
    return a


@OPERANDS.on_all(is_elementwise)
def reshape_later(rw: Rewriting, e: Equation) -> Any:
    """Compute elements before they are reshaped: all from one shape, or without axes of length one."""
    shape = e.outs[0].aval.shape
    made = [rw.made_by(a, RESHAPES) for a in e.args]
    if not any(made):
        return None
    sources = {rw.aval(m.args[0]).shape for m in made if m and m.outs[0].aval.shape == shape}
    others = [a for a, m in zip(e.args, made, strict=True) if not m]
    if (
        len(sources) == 1
        and all(not rw.aval(a).shape for a in others)
        and all(m.outs[0].aval.shape == shape for m in made if m)
    ):
        return rw.reshape(
            rw.make(e.name, *(m.args[0] if m else a for m, a in zip(made, e.args, strict=True)), **e.params),
            shape,
        )
    ones = {i for i, n in enumerate(shape) if n == 1}
    if not ones or not any(m and _only_adds_ones(rw, m) for m in made):
        return None
    args = [_without(rw, a, len(shape), ones) for a in e.args]
    return rw.reshape(rw.make(e.name, *args, **e.params), shape)


def _only_adds_ones(rw: Rewriting, made: Equation) -> bool:
    source, shape = rw.aval(made.args[0]).shape, made.outs[0].aval.shape
    return len(source) < len(shape) and [n for n in source if n != 1] == [n for n in shape if n != 1]


def _without(rw: Rewriting, a: Any, rank: int, axes: set[int]) -> Any:
    """Return an operand of a result of some rank without these axes, of length one all of them."""
    own = rw.aval(a).shape
    lead = rank - len(own)
    kept = tuple([n for i, n in enumerate(own) if i + lead not in axes])
    return a if kept == own else rw.reshape(a, kept)
