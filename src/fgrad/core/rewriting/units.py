"""Units of programs: equations, and those that stay together because they stand for one operation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fgrad.core.primitive import MOVES
from fgrad.core.program import Equation, Program, Region, Var
from fgrad.core.rewriting.effects import has_effect, is_shared


class Unit:
    """Equations that stay together: one, or those of a region."""

    __slots__ = ("args", "equations", "outs", "regions", "start")

    def __init__(self, start: int, equations: Sequence[Equation], regions: Sequence[Region]) -> None:
        self.start: int = start
        self.equations: Sequence[Equation] = equations
        self.regions: Sequence[Region] = regions
        self.outs: list[Var] = [v for e in equations for v in e.outs]
        made = set(self.outs)
        used = [a for e in equations for a in e.args] + [a for r in regions for a in r.args]
        self.args: list[Var] = list(dict.fromkeys(v for v in used if isinstance(v, Var) and v not in made))

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
        return MOVES in e.traits and e.outs[0].aval.dtype == self.args[0].aval.dtype


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
    regions: list[Region] = []
    for unit in parts:
        shift = len(equations) - unit.start
        equations += unit.equations
        regions += [r.moved(r.start + shift, r.stop + shift) for r in unit.regions]
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


def depending(parts: Sequence[Unit], sources: Iterable[Var]) -> set[Var]:
    """Return the variables that depend on `sources`, these included."""
    found = set(sources)
    for unit in parts:
        if any(v in found for v in unit.args):
            found.update(unit.outs)
    return found
