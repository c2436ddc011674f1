"""Liveness in programs with loops and branches: what some of the outputs need, as a program."""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from fgrad.core.control_flow import PLAIN, Branches, Code, Scan, While, joined
from fgrad.core.program import Equation, Program, Var
from fgrad.core.rewriting.effects import has_effect, has_effects

Flags = Sequence[bool]


def with_programs(e: Equation, f: Callable[[Program], Program]) -> Equation:
    """Return a plain loop or branch with `f` of its programs."""
    return e.with_params({"code": e.params["code"].map(f)})


def silent(program: Program) -> Program:
    """Return a program that calls nobody, the programs of its loops and branches included."""
    if not has_effects(program):
        return program
    kept: list[Equation] = []
    places = []
    for e in program.equations:
        places.append(len(kept))
        if e.name != "effect":
            plain = isinstance(e.params.get("code"), PLAIN)
            kept.append(with_programs(e, silent) if plain and has_effect(e) else e)
    places.append(len(kept))
    regions = [r.moved(places[r.start], places[r.stop]) for r in program.regions.values()]
    return Program(program.inputs, kept, program.outputs, (None, None), regions)


class Flow:
    """Which inputs of a program its outputs depend on, as sets of bits; `always`: those that effects need."""

    def __init__(self, program: Program) -> None:
        env = {v: 1 << i for i, v in enumerate(program.inputs)}
        self.always: int = 0
        for e in program.equations:
            args = [env[a] if isinstance(a, Var) else 0 for a in e.args]
            always, outs = _through(e)
            if has_effect(e):
                self.always |= joined(always, args)
            env.update((v, joined(bits, args)) for v, bits in zip(e.outs, outs, strict=True))
        self.outs: list[int] = [env[y] if isinstance(y, Var) else 0 for y in program.outputs]


_flows: weakref.WeakKeyDictionary[Program, Flow] = weakref.WeakKeyDictionary()  # programs do not change


def flow(program: Program) -> Flow:
    """Return what of a program depends on what."""
    found = _flows.get(program)
    if found is None:
        found = _flows[program] = Flow(program)
    return found


def _through(e: Equation) -> tuple[int, Sequence[int]]:
    """Return which arguments of an equation its effects need, and which each output."""
    code = e.params.get("code")
    whole = (1 << len(e.args)) - 1
    if isinstance(code, Branches):
        flows = list(map(flow, code.branches))
        always = functools.reduce(operator.or_, (f.always for f in flows)) << 1 | 1
        outs = zip(*(f.outs for f in flows), strict=True)
        return always, [functools.reduce(operator.or_, each) << 1 | 1 for each in outs]
    if isinstance(code, Scan | While):
        lead = len(e.args) - len(code.body.inputs)
        first = (1 << lead) - 1
        count = len(code.outs)
        sets = [_loop_bits(code, [k == i for k in range(count)]) for i in range(count)]
        return _loop_bits(code, [False] * count) << lead | first, [bits << lead | first for bits in sets]
    return whole, [whole] * len(e.outs)


def _loop_bits(code: Scan | While, wanted: Flags) -> int:
    """Return which inputs of its body a loop needs for some outputs: a carry that is kept is one."""
    n, m = code.consts, code.carry
    body = flow(code.body)
    found = body.always
    for i, w in enumerate(wanted):
        if w:
            found |= body.outs[i] | (1 << (n + i) if i < m else 0)
    if isinstance(code, While):
        condition = flow(code.condition)
        found |= condition.always | condition.outs[0]
    done = 0
    while found != done:
        done = found
        for k in range(m):
            if found >> (n + k) & 1:
                found |= body.outs[k]
    return found


def _flags(bits: int, count: int) -> list[bool]:
    return [bool(bits >> i & 1) for i in range(count)]


def inputs_for(program: Program, wanted: Flags) -> list[bool]:
    """Return which inputs the outputs `wanted` of a program, and its effects, depend on."""
    f = flow(program)
    bits = functools.reduce(operator.or_, (b for b, w in zip(f.outs, wanted, strict=True) if w), f.always)
    return _flags(bits, len(program.inputs))


def loop_inputs(code: Scan | While, wanted: Flags) -> list[bool]:
    """Return which inputs of its body a loop needs for the outputs `wanted`."""
    return _flags(_loop_bits(code, wanted), len(code.body.inputs))


def pruned(e: Equation, wanted: Flags) -> Equation:
    """Return an equation without what its outputs `wanted` do not need; it may keep some others."""
    code = e.params.get("code")
    made: Code
    if isinstance(code, Branches):
        needs = zip(*(inputs_for(p, wanted) for p in code.branches), strict=True)
        flags, kept = [True, *map(any, needs)], wanted
        programs = [restricted(p, flags[1:], chosen(p.outputs, wanted)) for p in code.branches]
        made = Branches(programs, chosen(code.outs, wanted))
    elif isinstance(code, Scan | While):
        n, m = code.consts, code.carry
        used = loop_inputs(code, wanted)
        flags = [*[True] * (len(e.args) - len(used)), *used]
        kept = [*used[n : n + m], *wanted[m:]]
        body = restricted(code.body, used, chosen(code.body.outputs, kept))
        if isinstance(code, While):
            made = While(restricted(code.condition, used, code.condition.outputs), body, sum(used[:n]))
        else:
            made = replace(code, body=body, consts=sum(used[:n]), carry=sum(used[n : n + m]))
    else:
        return e
    if all(a is b for a, b in zip(made.inner(), code.inner(), strict=True)):
        return e
    return Equation(e.name, tuple(chosen(e.args, flags)), {"code": made}, tuple(chosen(e.outs, kept)), e.line)


def chosen(xs: Sequence[Any], flags: Flags) -> list[Any]:
    """Return what has a flag."""
    return [x for x, f in zip(xs, flags, strict=True) if f]


def restricted(program: Program, inputs: Flags, outputs: Sequence[Any]) -> Program:
    """Return a program of some inputs, with other outputs, without what these do not need."""
    equations = live(program.equations, outputs)
    if all(inputs) and len(outputs) == len(program.outputs) and equations == list(program.equations):
        return program
    return Program(chosen(program.inputs, inputs), equations, outputs, (None, None))


def live(equations: Sequence[Equation], outputs: Iterable[Any]) -> list[Equation]:
    """Return the equations that `outputs` or effects need, each without what is not needed of it."""
    wanted = {v for v in outputs if isinstance(v, Var)}
    kept = []
    for e in reversed(equations):
        if not wanted.isdisjoint(e.outs) or has_effect(e):
            small = pruned(e, [v in wanted for v in e.outs]) if "code" in e.params else e
            kept.append(small)
            wanted.update([a for a in small.args if a.__class__ is Var])
    return kept[::-1]


def eliminate(program: Program) -> Program:
    """Return the program without the equations that no output and no effect needs.

    Effects keep their order. Inputs stay, used or not.
    """
    equations = live(program.equations, program.outputs)
    return Program(program.inputs, equations, program.outputs, (program.in_tree, program.out_tree))
