"""What kernels never see: truth values as indices, and what is computed of arrays without elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad.compiler.fuse import is_fusable
from fgrad.compiler.library import ON_PAIRS, is_harmless, is_native, of_zeros
from fgrad.core.aval import Aval
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.program import Equation, Var, aval_out
from fgrad.ops.indices import HOLE

if TYPE_CHECKING:
    from fgrad.compiler.decompose import Writer


def without_truths(w: Writer, e: Equation, args: tuple[Any, ...]) -> tuple[Equation, tuple[Any, ...]]:
    """Return an equation whose index has no True: it stands for an axis of which there is one element."""
    template, count = e.params["template"], PRIMITIVES[e.name].indices or 0
    lead, arrays = args[:count], iter(args[count:])
    if any(p is False for p in template) or not all(isinstance(a, Var) for a in args[count:]):
        return e, args
    shape = e.params["shape"] if "shape" in e.params else aval_out(lead[0]).shape
    taken = sum(p is not None and p is not Ellipsis and p is not True for p in template)
    wide: list[int] = []
    given: list[Any] = []
    at = 0
    for p in template:
        if p is True:
            wide.append(1)
            given.append(w.array(np.zeros(1, np.intp)))
        elif p is not None:
            step = len(shape) - taken if p is Ellipsis else 1
            wide += shape[at : at + step]
            at += step
            given += [next(arrays)] if p is HOLE else []
    wide += shape[at:]
    params = {**e.params, "template": tuple([HOLE if p is True else p for p in template])}
    if "shape" in params:
        params["shape"] = tuple(wide)
    else:
        lead = (w.reshape(lead[0], tuple(wide)), *lead[1:])
    outs = e.outs
    if e.name in {"scatter_add", "put"}:
        outs = (Var(Aval(tuple(wide), outs[0].aval.dtype), outs[0].name),)
    return Equation(e.name, (*lead, *given), params, outs, e.line), (*lead, *given)


def of_nothing(w: Writer, e: Equation, args: Sequence[Any]) -> tuple[Var, ...] | None:
    """Return as constants what is computed of arrays without elements; None if there are others."""
    if any(p is False for p in e.params.get("template", ())) and isinstance(args[0], Var):
        if e.name == "scatter_add":
            return (w.array(np.zeros(e.outs[0].aval.shape, e.outs[0].aval.dtype)),)
        return (args[0],) if e.name == "put" else None
    if not is_harmless(e) or is_fusable(e) or is_native(e):
        return None
    known = dict(w.constants.values())
    given = [known.get(a, a) if isinstance(a, Var) else a for a in args]
    variables = [a for a in given if isinstance(a, Var)]
    if not variables or any(v.aval.size for v in variables):
        return None
    try:
        found = of_zeros(e.with_args(given))
    except Exception:  # noqa: BLE001 -- which the program has to raise when it runs
        return None
    made = []
    for y, v in zip(found if PRIMITIVES[e.name].many else (found,), e.outs, strict=True):
        x = np.asarray(getattr(y, "_value", y), v.aval.dtype)
        if e.name == ON_PAIRS and x.shape[-1:] == (2,):  # outputs would take constants for real ones
            made.append(w.pairs(*(w.array(x[..., k].copy()) for k in range(2))))
        else:
            made.append(w.array(x.copy()))
    return tuple(made)
