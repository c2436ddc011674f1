"""All passes, one after the other, until nothing changes."""

from __future__ import annotations

from operator import is_

from fgrad.compiler.simplify.algebra import ALGEBRA
from fgrad.compiler.simplify.constants import Constants
from fgrad.compiler.simplify.operands import FOLDING, OPERANDS
from fgrad.compiler.simplify.reductions import REDUCTIONS
from fgrad.compiler.simplify.shapes import SHAPES
from fgrad.compiler.simplify.updates import ASSEMBLY
from fgrad.core.control_flow import order
from fgrad.core.program import Equation, Program
from fgrad.core.rewriting.liveness import eliminate

ROUNDS = 6  # enough for what was seen; a program of more is right, if not the simplest

ALL = FOLDING | SHAPES | ASSEMBLY | OPERANDS | ALGEBRA | REDUCTIONS


def simplify(program: Program) -> Program:
    """Return a program of fewer or cheaper equations with the same inputs, outputs and values.

    NaN, infinities, integers and dtypes stay as they are. Sums and contractions may be taken in another
    order and products with constants joined, which changes results by rounding, and signs of zeros. What is
    not finite in such a sum of products stays so, though infinity may become NaN. Numbers that overflow on
    the way may not be there any more, and so the result be finite; constant factors never make others
    overflow.

    The program is for computing only: it has no `regions`, and derivatives and batches of it are not those
    of the original. So what control flow differentiates inside (`Back`) stays as it is.

    Args:
        program: as `make_graph` returns it.
    """
    constants = Constants()
    program = eliminate(_with_inner(program))
    for _ in range(ROUNDS):
        before = program.equations
        program = eliminate(ALL(program, constants))
        if _same(before, program.equations):
            break
    return program


def _same(before: tuple[Equation, ...], after: tuple[Equation, ...]) -> bool:
    """Return whether a pass has changed nothing: it keeps the variables of what it keeps."""
    return len(before) == len(after) and all(
        a.outs == b.outs and a.name == b.name and len(a.args) == len(b.args) and all(map(is_, a.args, b.args))
        for a, b in zip(before, after, strict=True)
    )


def _with_inner(program: Program) -> Program:
    """Return the program with the programs inside of control flow simplified.

    Where derivatives of them are there, they stay: what those compute anew is to be known as the same.
    """
    if any(order(e.params.get("code")) for e in program.equations):
        return program
    equations = []
    for e in program.equations:
        code = e.params.get("code")
        params = e.params if code is None else e.params | {"code": code.map(simplify)}
        equations.append(e.with_params(params))
    return Program(program.inputs, equations, program.outputs, (program.in_tree, program.out_tree))
