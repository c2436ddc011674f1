"""When a speculative program runs first: if it saves enough. It reports whether its results are right."""

from __future__ import annotations

import math

from fgrad.compiler.cost import contraction
from fgrad.compiler.elements import VIEWS, scalar_work, shape_of
from fgrad.compiler.simplify import speculate
from fgrad.compiler.simplify.speculation import is_checked
from fgrad.core.primitive import CONTRACTION, PRIMITIVES
from fgrad.core.program import Equation, Program, Var
from fgrad.core.rewriting.effects import calls_out, communicates

SAVING = 0.1  # of the operations, at least: the other program is compiled too where it is needed


def speculative_program(program: Program) -> Program | None:
    """Return the speculative program where that saves a tenth of the operations.

    Args:
        program: simplified.

    Returns:
        A program with one more output, a truth value: whether the others may be wrong. None if `program` has
        no step that asks whether a slope is infinite, or too little is gained; or if other processes take
        part, each of which would choose alone, or if it calls functions that do more than compute.
    """
    if not is_checked(program) or communicates(program) or calls_out(program):
        return None
    fast = speculate(program)
    if fast is None or operations(fast) > (1 - SAVING) * operations(program):
        return None
    *outputs, valid = fast.outputs
    if not isinstance(valid, Var):
        return None
    doubt = Var(valid.aval, "doubt")
    equations = [*fast.equations, Equation("logical_not", (valid,), {}, (doubt,), "")]
    return Program(fast.inputs, equations, [*outputs, doubt], (fast.in_tree, fast.out_tree))


def operations(program: Program) -> int:
    """Return about how many operations on numbers a program takes."""
    return sum(map(_operations, program.equations))


def _operations(e: Equation) -> int:
    inner = e.params["code"].inner() if "code" in e.params else ()
    if inner:
        length = getattr(e.params["code"], "length", 1)
        return sum(map(operations, inner)) * (length if isinstance(length, int) else 1)
    if e.name in VIEWS:
        return 0
    if CONTRACTION in e.traits:
        return contraction(e)
    if PRIMITIVES[e.name].scalar is not None:
        return scalar_work(e.name) * math.prod(e.outs[0].aval.shape)
    return sum(math.prod(shape_of(x)) for x in (*e.args, *e.outs))
