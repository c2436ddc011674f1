"""Dead code elimination: equations whose results are unused are removed, unless they have effects."""

from __future__ import annotations

from fgrad.compiler.simplify.effects import has_effect
from fgrad.core.program import Program, Var


def eliminate(program: Program) -> Program:
    """Return the program without the equations that no output and no effect needs.

    Effects keep their order. Inputs stay, used or not.
    """
    needed = {y for y in program.outputs if isinstance(y, Var)}
    kept = []
    for e in reversed(program.equations):
        if not needed.isdisjoint(e.outs) or has_effect(e):
            kept.append(e)
            needed.update([a for a in e.args if a.__class__ is Var])
    return Program(program.inputs, kept[::-1], program.outputs, (program.in_tree, program.out_tree))
