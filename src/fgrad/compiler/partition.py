"""Device partition: a program for each device, and the transfers between them.

Which device a value is on is known when it is known where the inputs are; what is made of numbers alone is
where it is needed. Operations on one device that wait for the same number of moves become one program; moves
happen between those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fgrad.backend.array import DeviceArray, mixed
from fgrad.backend.devices import CPU, device_of, find, moved
from fgrad.core.control_flow import Code
from fgrad.core.primitive import TRANSFERS
from fgrad.core.program import Equation, Program, Var
from fgrad.core.trace import place_of

Run = Callable[[Sequence[Any]], list[Any]]


class Part(NamedTuple):
    """What runs on one device without a stop."""

    program: Program
    run: Run


class Move(NamedTuple):
    """A value that is needed on a device."""

    source: Any
    target: Var
    device: str


def is_moving(program: Program) -> bool:
    """Return whether a program moves values between devices.

    Raises:
        TypeError: the body of a loop, or a branch, does.
    """
    for e in program.equations:
        code = e.params.get("code")
        if isinstance(code, Code):
            code.map(partial(_stays, outside=e))
    return any(TRANSFERS in e.traits for e in program.equations)


def _stays(program: Program, outside: Equation) -> Program:
    if is_moving(program):
        raise TypeError(
            f"{outside.name} inside jit has a body that moves values between devices, but compiled loops "
            f"and branches stay on one: move values before or after it; traced at {place_of(outside.line)}"
        )
    return program


def where(x: Any) -> str | None:
    """Return the device of an argument; None for a number, which goes along with everything."""
    return device_of(x) if x.__class__ is DeviceArray or np.ndim(x) else None


class Partition:
    """A program on several devices.

    Args:
        program: to be run.
        devices: where the inputs are, None for numbers.
        compiled: (program, device) -> what runs it there.

    Raises:
        TypeError: operands of an operation are on different devices.
    """

    def __init__(
        self, program: Program, devices: Sequence[str | None], compiled: Callable[[Program, str], Run]
    ) -> None:
        self.program = program
        self._device: dict[Var, str | None] = dict(zip(program.inputs, devices, strict=True))
        self._level = dict.fromkeys(program.inputs, 0)
        self._needed = _needed(program, self._device)
        groups: dict[tuple[int, str], list[Equation]] = {}
        self._moves: dict[int, list[Move]] = {}  # by the level that has to have run
        self._names: dict[Var, Any] = {}  # what was moved to where it was
        for e in program.equations:
            e = e.with_args(map(self._same, e.args))  # noqa: PLW2901 -- renamed
            level = max((self._level[a] for a in e.args if isinstance(a, Var)), default=0)
            if TRANSFERS in e.traits:
                self._move(e, level)
                continue
            device = self._common(e) or next((d for v in e.outs if (d := self._needed.get(v))), CPU)
            groups.setdefault((level, device), []).append(e)
            self._device |= dict.fromkeys(e.outs, device)
            self._level |= dict.fromkeys(e.outs, level)
        self._outputs = [self._same(y) for y in program.outputs]
        wanted = {y for y in self._outputs if isinstance(y, Var)}
        wanted |= {m.source for ms in self._moves.values() for m in ms if isinstance(m.source, Var)}
        for equations in groups.values():
            made = {v for e in equations for v in e.outs}
            wanted |= {a for e in equations for a in e.args if isinstance(a, Var) and a not in made}
        self._steps: list[Part | Move] = []
        for level in range(1 + max([k for k, _ in groups] + list(self._moves), default=0)):
            for (k, device), equations in groups.items():
                if k == level:
                    part = _part(equations, wanted)
                    self._steps.append(Part(part, compiled(part, device)))
            self._steps += self._moves.get(level, [])

    def _same(self, x: Any) -> Any:
        return self._names.get(x, x) if isinstance(x, Var) else x

    def _move(self, e: Equation, level: int) -> None:
        x, (out,), device = e.args[0], e.outs, self._target(e)
        if self._of(x) == device:
            self._names[out] = x
            return
        self._moves.setdefault(level, []).append(Move(x, out, device))
        self._device[out], self._level[out] = device, level + 1

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the outputs, each where the program leaves it."""
        known: dict[Var, Any] = dict(zip(self.program.inputs, leaves, strict=True))

        def value(x: Any) -> Any:
            return known[x] if isinstance(x, Var) else getattr(x, "_value", x)

        for step in self._steps:
            if isinstance(step, Move):
                known[step.target] = moved(value(step.source), step.device)
            else:
                outs = step.run([known[v] for v in step.program.inputs])
                known |= zip(step.program.outputs, outs, strict=True)
        return [value(y) for y in self._outputs]

    def _of(self, x: Any) -> str | None:
        """Return the device of an operand."""
        return self._device[x] if isinstance(x, Var) else _located(x, {})  # other constants are sent along

    def _target(self, e: Equation) -> str:
        if e.name == "to_device_of":
            return self._of(e.args[1]) or CPU  # as numbers are
        place = find(e.params["device"])
        return place.name if place else CPU

    def _common(self, e: Equation) -> str | None:
        found = list(dict.fromkeys(d for a in e.args if (d := self._of(a))))
        if len(found) > 1:
            raise TypeError(f"{mixed(*found[:2])}; traced at {place_of(e.line)}")
        return found[0] if found else None


def _needed(program: Program, devices: dict[Var, str | None]) -> dict[Var, str]:
    """Return on which device values of numbers alone are needed, by what they meet later."""
    found = {v: d for v, d in devices.items() if d}
    for e in program.equations:  # where values are, as far as that is known from what they are made of
        if TRANSFERS in e.traits:
            if e.name == "to_device_of":
                known = _located(e.args[1], found)
            else:
                place = find(e.params["device"])
                known = place.name if place else CPU
        else:
            known = next((d for a in e.args if (d := _located(a, found))), None)
        if known:
            found |= dict.fromkeys(e.outs, known)
    for e in reversed(program.equations):
        known = next((d for v in e.outs if (d := found.get(v))), None)
        if known and TRANSFERS not in e.traits:
            for a in e.args:
                if isinstance(a, Var) and a not in devices:
                    found.setdefault(a, known)
    return found


def _located(x: Any, found: dict[Var, str]) -> str | None:
    if isinstance(x, Var):
        return found.get(x)
    value = getattr(x, "_value", x)
    return device_of(value) if value.__class__ is DeviceArray else None


def _part(equations: Sequence[Equation], wanted: set[Var]) -> Program:
    """Return the program of some equations, with all that it reads, and of what it makes what is `wanted`."""
    made = {v: None for e in equations for v in e.outs}
    read = {a: None for e in equations for a in e.args if isinstance(a, Var) and a not in made}
    return Program(list(read), equations, [v for v in made if v in wanted], (None, None))
