"""Substitution: programs with other variables, or with constants for some of their inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fgrad.core.program import Equation, Program, Var


def substituted(program: Program, sub: dict[Var, Any]) -> tuple[list[Equation], list[Any]]:
    """Return copies of the equations, with new variables, and the outputs, where inputs are `sub`."""
    env = dict(sub)
    equations = []
    for e in program.equations:
        args = tuple(env.get(a, a) if isinstance(a, Var) else a for a in e.args)
        outs = tuple(Var(v.aval, v.name) for v in e.outs)
        env.update(zip(e.outs, outs, strict=True))
        equations.append(Equation(e.name, args, e.params, outs, e.line))
    return equations, [env.get(y, y) if isinstance(y, Var) else y for y in program.outputs]


def renewed(inputs: Sequence[Var], equations: Sequence[Equation], outputs: Sequence[Any]) -> Program:
    """Return the program of these, with variables of its own."""
    fresh: dict[Var, Any] = {v: Var(v.aval, v.name) for v in inputs}
    copies, ys = substituted(Program(inputs, equations, outputs, (None, None)), fresh)
    return Program(list(fresh.values()), copies, ys, (None, None))


def replaced(program: Program, values: Mapping[Var, Any]) -> Program:
    """Return a program in which `values` take the place of variables, which are no inputs any more."""

    def new(x: Any) -> Any:
        return values.get(x, x) if isinstance(x, Var) else x

    equations = [e.with_args(map(new, e.args)) for e in program.equations]
    regions = [r.moved(r.start, r.stop, new) for r in program.regions.values()]
    inputs = [v for v in program.inputs if v not in values]
    return Program(inputs, equations, list(map(new, program.outputs)), (None, None), regions)
