"""Speculative programs: without the checks that only matter where a slope is infinite.

The derivative of a step whose slope may be infinite (exp, log, a quotient, a root) says that a zero cotangent
stays zero there. So the tangents of a second reverse sweep carry a choice,

    where(equal(ct, 0) and not isfinite(slope), 0, scale(tangent, slope))

and all cotangents `ct` of the first sweep have to be computed for it. Where it chooses zero, the tangent
without it is NaN, infinite, or zero itself. So, wherever the tangents without choices are finite, they are
those of the definition: eager forward mode looks at them for the same reason. A quotient may be divided once
for the same reason too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.compiler.simplify.algebra import denial_of
from fgrad.compiler.simplify.constants import Constants
from fgrad.compiler.simplify.passes import simplify
from fgrad.compiler.simplify.rewriting import Rewriting, Rules
from fgrad.core.primitive import ADDS, SPREADS, SPREADS_FIRST
from fgrad.core.program import Equation, Program, Var

_ROUNDS = 2  # what a choice hid is seen in the second one


def is_checked(program: Program) -> bool:
    """Return whether a program asks whether a slope is infinite."""
    return any(e.name == "isfinite" for e in program.equations)


def speculate(program: Program) -> Program | None:
    """Return a speculative program, None where there is no simpler one.

    Args:
        program: what `simplify` returned.

    Returns:
        A simple program with one more output, a truth value without axes: whether the others are those of
        `program`, to rounding. If not, `program` has to run.
    """
    n = len(program.outputs)
    fast = program
    for _ in range(_ROUNDS):
        rules = Speculation()
        rw = Rewriting(rules, fast, Constants())
        if not rules.doubtful:
            break
        rw.outputs[n:] = [_is_valid(rw, rules.doubtful, rw.outputs[:n], rw.outputs[n:])]
        fast = simplify(rw.program)
    return fast if len(fast.outputs) > n else None


def _is_valid(rw: Rewriting, doubtful: set[Var], outputs: list[Any], valid: list[Any]) -> Any:
    """Return whether all is finite that infinity or NaN of doubtful values would reach without being lost."""
    reached, last = set(doubtful), []
    for e in rw.equations:
        found = [a for a in e.args if a.__class__ is Var and a in reached]
        if found:
            traits = e.traits
            handed_on = SPREADS in traits or (
                SPREADS_FIRST in traits and len(found) == 1 and e.args[0] is found[0]
            )
            if handed_on:
                reached.update(e.outs)
            else:
                last += found
    last += [y for y in outputs if y.__class__ is Var and y in reached]
    for v in dict.fromkeys(last):
        total = rw.sum(v, axes=tuple(range(v.aval.ndim)))
        valid = [*valid, rw.make("isfinite", total)]
    out = np.True_
    for v in valid:
        out = rw.logical_and(v, out) if out is not np.True_ else v
    return out


class Speculation(Rules):
    """The rules of speculation, and the values they have made, which must turn out to be finite.

    They stand alone in their pass, so that nothing goes around these values.
    """

    def __init__(self) -> None:
        super().__init__()
        self.doubtful: set[Var] = set()
        self.on("where")(self._choice)
        self.on_those(ADDS)(self._common_divisor)
        self.on("subtract")(self._common_divisor)
        self.on("scale")(self._quotient)

    def _choice(self, rw: Rewriting, e: Equation) -> Any:
        """Do not choose."""
        condition, zero, tangent = e.args
        if rw.scalar(zero) is None or rw.scalar(zero) != 0 or rw.aval(tangent) != e.outs[0].aval:
            return None
        turned = rw.negation(tangent, e)
        scaled = rw.maker(turned.args[0] if turned else tangent, "scale")
        both = rw.maker(condition, "logical_and")
        for side in both.args if scaled and both else ():
            finite = rw.maker(denial_of(rw, side), "isfinite")
            if finite and scaled and finite.args[0] is scaled.args[1]:
                self.doubtful.add(tangent)
                return tangent
        return None

    def _quotient(self, rw: Rewriting, e: Equation) -> Any:
        """X (c / d) = (c x) / d."""
        x, y = e.args
        made = rw.maker(y, "divide")
        if (
            not made
            or not rw.single(y)
            or e.outs[0].aval.dtype.kind != "f"
            or rw.scalar(made.args[0]) is None
        ):
            return None
        if rw.aval(x) != e.outs[0].aval:
            return None
        return self._divided(rw, rw.multiply(x, made.args[0]), made.args[1])

    def _common_divisor(self, rw: Rewriting, e: Equation) -> Any:
        """X (p / d) + y (q / d) = (x p + y q) / d."""
        parts = [self._numerator(rw, a) for a in e.args]
        if None in parts or parts[0][1] is not parts[1][1]:
            return None
        if any(rw.aval(v) != e.outs[0].aval for v, _ in parts):
            return None
        return self._divided(rw, rw.make(e.name, *(v for v, _ in parts)), parts[0][1])

    def _numerator(self, rw: Rewriting, x: Any) -> Any:
        """Return what is divided to give `x`, and by what."""
        if not rw.single(x):
            return None
        if made := rw.maker(x, "divide"):
            return made.args if x in self.doubtful else None
        if not (made := rw.maker(x, "scale")) or not (slope := rw.maker(made.args[1], "divide")):
            return None
        if rw.scalar(slope.args[0]) == 1:
            return made.args[0], slope.args[1]
        return rw.multiply(made.args[0], slope.args[0]), slope.args[1]

    def _divided(self, rw: Rewriting, x: Any, d: Any) -> Any:
        out = rw.divide(x, d)
        self.doubtful.add(out)
        return out
