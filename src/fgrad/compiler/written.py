"""Primitives that compiled programs write in others, which kernels know: by their column `written`."""

from __future__ import annotations

from typing import Any

from fgrad.compiler.fuse import holds, is_fusable
from fgrad.compiler.simplify import simplify
from fgrad.core.control_flow import PLAIN
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.program import Equation, Program, Var, aval_out
from fgrad.core.rewriting.liveness import with_programs
from fgrad.ops.compiled import LAUNCH

KNOWN = "?bhilqBHILQfdFD"  # dtypes that kernels compute with


def written(program: Program) -> Program:
    """Return a program in which these primitives stand for what they are made of."""
    return simplify(_written(program)) if _has_any(program) else program


def _has_any(program: Program) -> bool:
    return any(
        _is_written(e)
        or (isinstance(e.params.get("code"), PLAIN) and any(map(_has_any, e.params["code"].inner())))
        for e in program.equations
    )


def _is_written(e: Equation) -> bool:
    found = PRIMITIVES[e.name].written
    if found is None or not LAUNCH or not all(v.aval.size for v in e.outs) or is_fusable(e):
        return False
    avals = list(map(aval_out, e.args))
    known = all(v.dtype.char in KNOWN and v.dtype.isnative for v in (*avals, *(v.aval for v in e.outs)))
    fit = all(holds(v.aval.dtype, a) for a in e.args for v in e.outs)  # else NumPy says that it does not
    return known and fit and found.fits(*avals, **e.params)


def _written(program: Program) -> Program:
    known: dict[Var, Any] = {}
    equations: list[Equation] = []

    def of(x: Any) -> Any:
        return known.get(x, x) if isinstance(x, Var) else x

    for given in program.equations:
        e = given.with_args(map(of, given.args))
        if isinstance(e.params.get("code"), PLAIN):
            e = with_programs(e, _written)
        if not _is_written(e):
            equations.append(e)
            continue
        made = _expanded(e)
        known.update(zip(made.inputs, (a for a in e.args if isinstance(a, Var)), strict=True))
        equations += [
            Equation(m.name, tuple(map(of, m.args)), m.params, m.outs, e.line) for m in made.equations
        ]
        for v, y in zip(e.outs, made.outputs, strict=True):
            equations.append(Equation("convert", (of(y),), {"dtype": v.aval.dtype}, (v,), e.line))
    trees = (program.in_tree, program.out_tree)
    return Program(program.inputs, equations, list(map(of, program.outputs)), trees)


def _expanded(e: Equation) -> Program:
    """Return the program of what an equation computes, of the variables among its operands."""
    found = PRIMITIVES[e.name].written
    assert found is not None  # noqa: S101 -- as `_is_written` says

    def function(*xs: Any) -> Any:
        given = iter(xs)
        return found.rule(*[next(given) if isinstance(a, Var) else a for a in e.args], **e.params)

    made = LAUNCH[0].staged(function, [a.aval for a in e.args if isinstance(a, Var)])
    assert isinstance(made, Program)  # noqa: S101 -- which nobody says who is below transforms
    for lower in {f: None for m in made.equations if (f := PRIMITIVES[m.name].lower)}:
        made = lower(made, simplify)
    for v, y in zip(e.outs, made.outputs, strict=True):
        assert aval_out(y).shape == v.aval.shape, (e.name, aval_out(y), v.aval)  # noqa: S101 -- a rule's fault
    return _written(made)
