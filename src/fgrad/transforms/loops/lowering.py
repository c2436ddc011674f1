"""Lowering: derivatives and batches of loops and branches become plain loops and branches.

`lower` leaves three codes, whose programs are lowered themselves and take exactly the arguments they need:

- `Branches` under `lax.cond`: an index, which is clipped to what there is, and the inputs of every program.
- `Scan` under `lax.scan`: constants, first carries, and what is gone through along first axes.
- `While` under `lax.while_loop`: constants and first carries, for the condition and the body.

A reversed loop becomes one that also stacks what its reverse needs, which is merged with the loop it repeats,
and one in the other direction. Of a `While` it is not known how many steps it makes. So the stacks that it
returns, beside its carries, have the aval `Grown`, which says 0 for the first length; the reverse is a `Scan`
whose length is None, the number of steps its first argument (counted in a carry of the loop), and the stacks
are what it goes through. Only such scans, and `add` in derivatives of third order, ever take such a stack; it
never leaves the program that made it, since within a loop or branch the reverse runs the loop again.

Left to Python (`lax.pullback` and the like with a code that is none of the three) are what a user's function
solves, the reverse of scans that keep few carries (`checkpoint`), second derivatives of loops in which a
function has a derivative of its own, and rules that look at values. The derivatives of a function's own are
dissolved, so a lowered program is not one to differentiate.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from fgrad.compiler.loops.cse import merged
from fgrad.compiler.loops.passes import hoisted, optimized, without_invariant_carries
from fgrad.core.aval import Aval
from fgrad.core.control_flow import (
    PLAIN,
    Back,
    Branches,
    Code,
    Grown,
    Mapped,
    Scan,
    While,
    innermost,
    order,
    programs_of,
)
from fgrad.core.primitive import ADDS
from fgrad.core.program import Equation, Program, Var, aval_out
from fgrad.core.rewriting.liveness import live, with_programs
from fgrad.core.rewriting.substitution import renewed
from fgrad.core.trace import running
from fgrad.errors import NoValueError
from fgrad.transforms.loops.batching import BatchBuilder, mapped_program
from fgrad.transforms.loops.builder import BOOL, Flags, cast, only, zero_if_none
from fgrad.transforms.loops.partial_eval import Joint, is_float, is_zero
from fgrad.transforms.loops.vjp import VJPBuilder

Simplify = Callable[[Program], Program]


def lower(program: Program, simplify: Simplify = lambda program: program) -> Program:
    """Return a program that computes the same, with plain loops and branches only.

    Args:
        program: a staged function.
        simplify: applied to each program inside of a loop or branch, innermost first.
    """
    with running(()):
        equations, outputs = _finished(*_lowered(program), simplify)
    plain = renewed(program.inputs, equations, outputs)
    _name(plain)
    return Program(plain.inputs, plain.equations, plain.outputs, (program.in_tree, program.out_tree))


def _lowered(program: Program, *, in_loop: bool = False) -> tuple[list[Equation], list[Any]]:
    builder = _Builder(in_loop=in_loop)
    outputs = builder.inline(program, program.inputs)
    equations, outputs, _ = merged(builder.equations, program.inputs, outputs)
    return live(equations, outputs), outputs


def _finished(
    equations: Sequence[Equation], outputs: Sequence[Any], simplify: Simplify
) -> tuple[list[Equation], list[Any]]:
    """Return equations with every loop tidy, inside too, and every inner program simplified."""

    def inside(p: Program) -> Program:
        return simplify(Program(p.inputs, *_finished(p.equations, p.outputs, simplify), (None, None)))

    found, ends = optimized(equations, outputs)
    made = []
    for e in found:
        code = e.params.get("code")
        if isinstance(code, PLAIN) and not getattr(code, "checkpoint", None):
            e = with_programs(e, inside)  # noqa: PLW2901 -- the same, finished
        made.append(e)
    return made, ends


def _name(program: Program) -> None:
    """Number the variables of a program and of those in it."""
    names = (f"v{i}" for i in itertools.count())
    for v in program.inputs:
        v.name = next(names)
    for e in program.equations:
        for v in e.outs:
            v.name = next(names)
        if isinstance(e.params.get("code"), PLAIN):
            for p in programs_of(e):
                _name(p)


def _has_regions(program: Program) -> bool:
    return bool(program.regions) or any(_has_regions(p) for e in program.equations for p in programs_of(e))


def _is_lowerable(code: Any) -> bool:
    if not isinstance(innermost(code), PLAIN):
        return False
    times = order(code)
    if times and getattr(innermost(code), "checkpoint", None) not in (None, False):
        return False
    return times < 2 or not any(map(_has_regions, code.inner()))


class _Builder(VJPBuilder, BatchBuilder):
    """Equations in the making."""

    def apply(self, e: Equation, args: Sequence[Any]) -> list[Any]:
        """Add an equation, lowered, for other arguments."""
        code = e.params.get("code")
        self.line = e.line
        if isinstance(code, Branches | Scan | While):
            return self.plain(code, args)
        if isinstance(code, Back | Mapped) and _is_lowerable(code):
            equations, moved = len(self.equations), dict(self.moved)
            try:
                return self.derived(code, args)
            except NoValueError:  # a derivative of its own looks at values
                del self.equations[equations:]
                self.moved = moved
        avals = [v.aval for v in e.outs]
        if ADDS in e.traits and all(isinstance(a, Var) for a in args):  # of cotangents of stacked values
            swapped = [self.moved.get(a) for a in args]
            if all(v and isinstance(v.aval, Grown) for v in swapped):
                return [self.swapped(self.apply(e, swapped)[0])]
            if isinstance(args[0].aval, Grown):
                avals = [args[0].aval]
        return list(self.emit(e.name, args, e.params, avals, e.line))

    def plain(self, code: Any, args: Sequence[Any]) -> list[Any]:
        """Add a loop or branch, its programs lowered."""
        if self.raw:
            return list(self.add(code, args))
        if isinstance(code, Scan | While) and (outside := hoisted(code, list(map(aval_out, args)))):
            return self.inline(outside, args)
        if isinstance(code, Branches):
            made: Code = Branches(
                [self.typed(p, code.outs, in_loop=self.in_loop) for p in code.branches], code.outs
            )
        elif isinstance(code, While):
            carry = [v.aval for v in code.body.inputs[code.consts :]]
            made = While(self.typed(code.condition, [BOOL]), self.typed(code.body, carry), code.consts)
        else:
            carry = [v.aval for v in code.body.inputs[code.consts : code.consts + code.carry]]
            made = Scan(
                self.typed(code.body, carry), code.consts, code.carry, code.length, reverse=code.reverse
            )
        return list(self.add(made, args))

    def derived(self, code: Back | Mapped, args: Sequence[Any]) -> list[Any]:
        """Add what a derivative or batching of a loop or branch is."""
        return self._mapped(code, args) if isinstance(code, Mapped) else self._reversed(code, args)

    def typed(self, program: Program, avals: Sequence[Aval], *, in_loop: bool = True) -> Program:
        """Return a program lowered, its first outputs of these types."""
        found = cast(program, avals)
        return only(found.inputs, *_lowered(found, in_loop=in_loop))

    def prepared(
        self, equations: Sequence[Equation], inputs: Sequence[Var], ends: Sequence[Any], boundary: int
    ) -> tuple[list[Equation], list[Any], int]:
        """Return a joint program lowered, what it repeats once."""
        builder = _Builder(in_loop=True)
        outputs = builder.inline(Program(inputs, equations, ends, (None, None)), inputs, boundary)
        return merged(builder.equations, inputs, outputs, builder.boundary)

    def _reversed(self, code: Back, args: Sequence[Any]) -> list[Any]:
        inner, n = code.code, len(code.wanted)
        primals, wanted = list(args[:n]), list(code.wanted)
        cts = _cotangents(inner, args[n:])
        outside: Program | None = None
        if isinstance(inner, Scan | While):
            outside = hoisted(inner, list(map(aval_out, primals)))
        elif not isinstance(inner, Branches):
            outside = _flat(inner, primals, wanted, in_loop=self.in_loop)
        if outside:
            joint = Joint(outside, wanted, [c is not None for c in cts])
            flat = Program([*joint.inputs, *joint.seeds], joint.equations, joint.cts, (None, None))
            found = self.inline(flat, [*primals, *(c for c in cts if c is not None)])
        elif isinstance(inner, Branches):
            found = self.reversed_branches(inner, primals, wanted, cts)
        else:
            found = self.reversed_loop(inner, primals, wanted, cts)  # type: ignore[arg-type]
        return [zero_if_none(c, a) for c, a in zip(found, code.outs, strict=True)]

    def _mapped(self, code: Mapped, args: Sequence[Any]) -> list[Any]:
        inner = code.code
        if isinstance(inner, Scan):
            return self.mapped_scan(inner, code, args)
        if isinstance(inner, While):
            return self.mapped_while(inner, code, args)
        if isinstance(inner, Branches):
            return self.mapped_branches(inner, code, args)
        program = _flat(inner, args, code.mapped, examples=True, in_loop=self.in_loop)
        return self.inline(mapped_program(program, code.mapped, code.which, code.size), args)


def _cotangents(code: Code, given: Sequence[Any]) -> list[Any]:
    """Return the cotangent of each output, None for one that has none or zero."""
    cts = iter(given)
    found = [next(cts) if is_float(a) else None for a in code.outs]
    return [None if c is None or is_zero(c) else c for c in found]


def _flat(
    code: Code, args: Sequence[Any], varying: Flags, *, in_loop: bool, examples: bool = False
) -> Program:
    """Return the program of a code for arguments like these; those that do not vary stay if constant."""
    avals = [aval_out(a) for a in args]
    if examples:
        avals = [Aval(a.shape[1:], a.dtype) if v else a for a, v in zip(avals, varying, strict=True)]
    inputs = [Var(a, "v") for a in avals]
    values = [
        a if not v and not isinstance(a, Var) else i for a, v, i in zip(args, varying, inputs, strict=True)
    ]
    raw = any(map(_has_regions, code.inner()))
    builder = _Builder(raw=raw, in_loop=in_loop)
    outputs = builder.derived(code, values)  # type: ignore[arg-type]
    if raw:  # a function has a derivative of its own, which what follows would dissolve
        return Program(inputs, builder.equations, outputs, (None, None), builder.regions)
    equations, outputs, _ = merged(builder.equations, inputs, outputs)
    equations, outputs = without_invariant_carries(live(equations, outputs), outputs)
    return Program(inputs, live(equations, outputs), outputs, (None, None))
