"""Residuals: a program of values and their gradients is cut where the cotangents come in.

What does not depend on a cotangent is the forward program; the rest is the backward program. The values that
cross are the residuals, which the forward program returns besides its own outputs, so that the backward
program computes nothing a second time, except what costs less than to keep it.
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.core.program import Program, Var
from fgrad.core.rewriting.effects import tolerant
from fgrad.core.rewriting.units import Unit, assemble, depending, live, units


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


class Cut:
    """A joint program of (primals, cts) -> (outs, grads), cut in two."""

    __slots__ = ("backward", "forward", "primals")

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
        self.primals: list[int] = sorted(
            places[v] for v in kept if v in places
        )  # those that the backward program takes
        residuals = [v for v in kept if v not in places]
        ahead = [again[i] for i in sorted(again)]
        self.forward: Program = assemble(given, live(first, [*values, *residuals]), [*values, *residuals])
        taken = [*(given[i] for i in self.primals), *residuals, *cts]
        self.backward: Program = assemble(taken, [*ahead, *second], grads)


def _is_late(unit: Unit, late: set[Var]) -> bool:
    return any(v in late for v in (*unit.args, *unit.outs))
