"""Residuals: a program of values and their gradients is cut where the cotangents come in.

What does not depend on a cotangent is the forward program; the rest is the backward program. The values that
cross are the residuals, which the forward program returns besides its own outputs, so that the backward
program computes nothing a second time, except what costs less than to keep it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fgrad.compiler.simplify.effects import has_effect, is_shared, tolerant
from fgrad.core.primitive import MOVES, PRIMITIVES
from fgrad.core.program import Equation, Program, Region, Var


class Unit:
    """Equations that stay together: one, or those of a region."""

    __slots__ = ("args", "equations", "outs", "regions", "start")

    start: int
    equations: Sequence[Equation]
    regions: Sequence[Region]
    outs: list[Var]
    args: list[Var]

    def __init__(self, start: int, equations: Sequence[Equation], regions: Sequence[Region]) -> None:
        self.start, self.equations, self.regions = start, equations, regions
        self.outs = [v for e in equations for v in e.outs]
        made = set(self.outs)
        used = [a for e in equations for a in e.args] + [a for r in regions for a in r.args]
        self.args = list(dict.fromkeys(v for v in used if isinstance(v, Var) and v not in made))

    @property
    def has_effect(self) -> bool:
        """Whether it has to run although nothing uses its results."""
        return any(map(has_effect, self.equations))

    @property
    def is_shared(self) -> bool:
        """Whether other processes take part in it."""
        return any(map(is_shared, self.equations))

    @property
    def is_cheap(self) -> bool:
        """Whether it costs less to run it again than to keep its result."""
        if len(self.equations) != 1 or len(self.args) != 1:
            return False
        (e,) = self.equations
        return MOVES in PRIMITIVES[e.name].traits and e.outs[0].aval.dtype == self.args[0].aval.dtype


def units(program: Program) -> list[Unit]:
    """Return the equations of a program, those of each outermost region together."""
    found, i = [], 0
    while i < len(program.equations):
        region = program.regions.get(i)
        stop = region.stop if region else i + 1
        inner = [r for start, r in program.regions.items() if i <= start < stop]
        found.append(Unit(i, program.equations[i:stop], inner))
        i = stop
    return found


def assemble(inputs: Sequence[Var], parts: Iterable[Unit], outputs: Sequence[Any]) -> Program:
    """Return the program of some units."""
    equations: list[Equation] = []
    regions = []
    for unit in parts:
        shift = len(equations) - unit.start
        equations += unit.equations
        for r in unit.regions:
            moved = Region(r.primitive, r.args, r.params, r.outs, r.start + shift)
            moved.stop = r.stop + shift
            regions.append(moved)
    return Program(inputs, equations, outputs, (None, None), regions)


def live(parts: Sequence[Unit], outputs: Iterable[Any]) -> list[Unit]:
    """Return the units that have an effect or that `outputs` depend on."""
    needed = {y for y in outputs if isinstance(y, Var)}
    kept = []
    for unit in reversed(parts):
        if unit.has_effect or any(v in needed for v in unit.outs):
            needed.update(unit.args)
            kept.append(unit)
    return kept[::-1]


def arriving(program: Program, cts: Sequence[Var], arrived: Sequence[Var]) -> Program:
    """Return a sweep for the cotangents that `arrived`: it does and refuses nothing for the others of `cts`.

    So an eager sweep does not come to what no cotangent reaches. What other processes take part in stays.
    """
    parts = units(program)
    some, there = depending(parts, cts), depending(parts, arrived)
    wanted = {v for u in parts if not there.isdisjoint(u.args) for v in u.args}
    used = {v for u in parts for v in u.args}
    reached = {u.start: not there.isdisjoint(u.args) for u in parts if not some.isdisjoint(u.args)}
    kept = []
    for unit in reversed(parts):
        active = reached.get(unit.start)
        if active is None and used.isdisjoint(unit.outs):  # it only looks, for the step that it stands in
            beside = [max((s for s in reached if s < unit.start), default=None)]
            beside += [min((s for s in reached if s > unit.start), default=None)]
            active = any(s is None or reached[s] for s in beside)
        elif active is None:
            active = not wanted.isdisjoint(unit.outs)
        if active:
            wanted.update(unit.args)
        elif not unit.is_shared:
            if any(not e.outs for e in unit.equations):
                continue
            unit.equations = list(map(tolerant, unit.equations))
        kept.append(unit)
    return assemble(program.inputs, live(kept[::-1], program.outputs), program.outputs)


def depending(parts: Sequence[Unit], sources: Iterable[Var]) -> set[Var]:
    """Return the variables that depend on `sources`, these included."""
    found = set(sources)
    for unit in parts:
        if any(v in found for v in unit.args):
            found.update(unit.outs)
    return found


class Cut:
    """A joint program of (primals, cts) -> (outs, grads), cut in two."""

    __slots__ = ("backward", "forward", "primals")

    primals: list[int]
    forward: Program
    backward: Program

    def __init__(self, joint: Program, primals: int, outs: int, sweep: int) -> None:
        """Cut.

        Args:
            joint: the program.
            primals: the number of primals among its inputs.
            outs: the number of outs among its outputs.
            sweep: the number of its equations before the sweep, which may refuse what it comes to.
        """
        given, cts = joint.inputs[:primals], joint.inputs[primals:]
        values, grads = joint.outputs[:outs], joint.outputs[outs:]
        parts = units(joint)
        refusing = [u for u in parts if u.start >= sweep and u.has_effect]
        late = depending(parts, [*cts, *(v for u in refusing for v in u.outs)])
        first = [u for u in parts if not _is_late(u, late) and u not in refusing]
        second = live([u for u in parts if _is_late(u, late) or u in refusing], grads)
        used = [v for u in second for v in u.args] + [g for g in grads if isinstance(g, Var)]
        crossing = dict.fromkeys(v for v in used if v not in late)
        made = {v: u for u in first for v in u.outs}
        again: dict[int, Unit] = {}
        kept: list[Var] = []
        todo = list(crossing)
        while todo:
            v = todo.pop()
            unit = made.get(v)
            if unit is not None and (unit.is_cheap or not unit.args) and not unit.has_effect:
                again[unit.start] = unit
                todo += unit.args
            elif v not in kept:
                kept.append(v)
        places = {v: i for i, v in enumerate(given)}
        self.primals = sorted(places[v] for v in kept if v in places)  # those that the backward program takes
        residuals = [v for v in kept if v not in places]
        ahead = [again[i] for i in sorted(again)]
        self.forward = assemble(given, live(first, [*values, *residuals]), [*values, *residuals])
        taken = [*(given[i] for i in self.primals), *residuals, *cts]
        self.backward = assemble(taken, [*ahead, *second], grads)


def _is_late(unit: Unit, late: set[Var]) -> bool:
    return any(v in late for v in (*unit.args, *unit.outs))


def fixed(program: Program, values: dict[Var, Any]) -> Program:
    """Return a program whose inputs in `values` are constants."""

    def new(x: Any) -> Any:
        return values.get(x, x) if isinstance(x, Var) else x

    equations = [
        Equation(e.name, tuple(map(new, e.args)), e.params, e.outs, e.line) for e in program.equations
    ]
    regions = []
    for r in program.regions.values():
        again = Region(r.primitive, tuple(map(new, r.args)), r.params, r.outs, r.start)
        again.stop = r.stop
        regions.append(again)
    inputs = [v for v in program.inputs if v not in values]
    return Program(inputs, equations, list(map(new, program.outputs)), (None, None), regions)
