"""Partial evaluation: the vjp of a loop or branch is split into a forward and a backward part.

What a step of the loop and its pullback do is staged together. Where the sweep begins, the program is cut:
values that cross the cut are residuals. Those that are inputs, constant along the loop, or cheap to compute
from other residuals are not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.core.aval import Aval
from fgrad.core.control_flow import Code, Grown
from fgrad.core.primitive import CHEAP, MOVES
from fgrad.core.program import Equation, Program, Var, aval_out
from fgrad.core.rewriting.liveness import live, silent
from fgrad.core.rewriting.substitution import substituted
from fgrad.core.tensor import Tensor, wrap
from fgrad.core.trace import current, next_level, running
from fgrad.ops.linear import convert
from fgrad.transforms.manager import GradManager
from fgrad.transforms.stage import Inner, StagedTracer

Flags = Sequence[bool]


def is_float(aval: Aval) -> bool:
    """Return whether values have cotangents."""
    return aval.dtype.kind in "fc"


def is_zero(x: Any) -> bool:
    """Return whether an argument is known to be zero everywhere."""
    return not isinstance(x, Var | Tensor) and not np.any(x)


LONG = 20  # equations that are computed again instead of keeping one result


class Joint:
    """A program and its pullback as one: `boundary` is where the sweep begins.

    Inputs are those of the program, then the cotangents of the outputs `given`; outputs are those of the
    program, then the cotangents of the inputs `wanted`: None where none arrives.
    """

    def __init__(self, program: Program, wanted: Flags, given: Flags) -> None:
        program = silent(program)  # what it does beside its outputs, the loop does that is reversed
        stage = Inner(next_level())
        inputs = [stage.var(v.aval) for v in program.inputs]
        avals = [aval_out(y) for y in program.outputs]
        seeds = [stage.var(a) if g else None for a, g in zip(avals, given, strict=True)]
        with running((*current().traces, stage)):
            with GradManager() as gm:
                values = [wrap(StagedTracer(stage, v)) for v in inputs]
                leaves = []
                for i, w in enumerate(wanted):
                    if w:
                        values[i] = gm.follow(values[i]._value)
                        leaves.append(values[i])
                outs = program.run(values)
                found = [stage.operand(y) for y in outs]
                pullback = gm.pullback([y for y, s in zip(outs, seeds, strict=True) if s], leaves, once=True)
            self.boundary: int = len(stage.equations)
            cts = pullback([wrap(StagedTracer(stage, v)) for v in seeds if v])
            kinds = [v.aval.dtype for v, w in zip(inputs, wanted, strict=True) if w]
            back = [
                None if c is None else stage.operand(convert(c, d)) for c, d in zip(cts, kinds, strict=True)
            ]
        if stage.captured:
            raise RuntimeError("a program used a value from outside of it")
        self.inputs: list[Var] = inputs
        self.seeds: list[Var] = [v for v in seeds if v]
        self.equations: list[Equation] = stage.equations
        self.outputs: list[Any] = found
        self.cts: list[Any | None] = back
        self.regions: list[Any] = stage.regions


def reaching(equations: Sequence[Equation], starts: Sequence[Var]) -> set[Var]:
    """Return the floating-point variables that depend on `starts` through such."""
    found = {v for v in starts if is_float(v.aval)}
    for e in equations:
        flags = [isinstance(a, Var) and a in found for a in e.args]
        if any(flags):
            code = e.params.get("code")
            outs = code.varies(flags) if isinstance(code, Code) else [True] * len(e.outs)
            found.update(v for v, m in zip(e.outs, outs, strict=True) if m and is_float(v.aval))
    return found


class Cut:
    """The two sides of a joint program, and what crosses."""

    def __init__(self, joint: Joint, prepare: Callable[..., tuple[list[Equation], list[Any], int]]) -> None:
        n = len(joint.outputs)
        places = [i for i, c in enumerate(joint.cts) if c is not None]
        ends = [*joint.outputs, *(joint.cts[i] for i in places)]
        equations, ends, boundary = prepare(
            joint.equations, [*joint.inputs, *joint.seeds], ends, joint.boundary
        )
        self.inputs: list[Var] = joint.inputs
        self.seeds: list[Var] = joint.seeds
        self.outputs: list[Any] = ends[:n]
        self.cts: list[Any] = [None] * len(joint.cts)
        for i, c in zip(places, ends[n:], strict=True):
            self.cts[i] = c
        self.ahead: list[Equation] = equations[:boundary]
        self.back: list[Equation] = live(equations[boundary:], self.cts)
        self._repeat_growing()

    def _repeat_growing(self) -> None:
        """Run loops again on the way back whose stacks are needed there: nothing can keep those."""
        maker = {v: e for e in self.ahead for v in e.outs}
        while growing := [v for v in self.crossing() if isinstance(v.aval, Grown)]:
            body = Program((), [maker[growing[0]], *self.back], self.cts, (None, None))
            equations, self.cts = substituted(body, {})
            self.back = live(equations, self.cts)

    def crossing(self) -> list[Var]:
        """Return the variables of the forward side that the other needs."""
        made = {v for e in self.back for v in e.outs} | set(self.seeds)
        used = [a for e in self.back for a in e.args] + self.cts
        return list(dict.fromkeys(a for a in used if isinstance(a, Var) and a not in made))

    def residuals(self, free: set[Var]) -> list[Var]:
        """Return what is to be kept beside what is `free`; what is cheap is computed on the way back."""
        maker = {v: e for e in self.ahead for v in e.outs}

        def plan(v: Var, there: set[Var], steps: dict[int, Equation]) -> bool:
            """Add the equations that make `v` from what is there, if that is cheap."""
            if v in there:
                return True
            e = maker.get(v)
            if e is None or CHEAP not in e.traits or len(steps) > LONG:
                return False
            if all(plan(a, there, steps) for a in e.args if isinstance(a, Var)):
                steps[id(e)] = e
                return True
            return False

        crossing = self.crossing()
        kept = dict.fromkeys(_origin(v, maker, free) for v in crossing)
        for v in free:
            kept.pop(v, None)
        order = {v: i for i, v in enumerate(maker)}
        for v in sorted(kept, key=lambda v: order.get(v, -1), reverse=True):
            if plan(v, free | kept.keys() - {v}, {}):
                del kept[v]
        steps: dict[int, Equation] = {}
        for v in crossing:
            if not plan(v, free | kept.keys(), steps):
                kept[v] = None  # its origin is there, but the way from it is not a cheap one
        again = [e for e in self.ahead if id(e) in steps]
        body = Program((), [*again, *self.back], self.cts, (None, None))
        equations, self.cts = substituted(body, {})
        self.back = live(equations, self.cts)
        return list(kept)


def _origin(v: Var, maker: dict[Var, Equation], free: set[Var]) -> Var:
    """Return what a variable only is another view of, unless that is larger."""
    root = v
    while (e := maker.get(root)) and MOVES in e.traits and isinstance(e.args[0], Var):
        if e.args[0] not in free and _bytes(e.args[0]) > _bytes(root):
            break
        root = e.args[0]
    return root


def _bytes(v: Var) -> int:
    return v.aval.size * v.aval.dtype.itemsize
