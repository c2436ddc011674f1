"""Builders of programs in which every loop and branch is lowered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.core.aval import Aval
from fgrad.core.control_flow import Code
from fgrad.core.program import Equation, Program, Region, Var, aval_out
from fgrad.core.rewriting.liveness import live
from fgrad.core.rewriting.operations import transposed
from fgrad.core.rewriting.substitution import renewed
from fgrad.ops.linear import CONVERT
from fgrad.transforms.stage import staged

BOOL = Aval((), np.dtype(bool))
Flags = Sequence[bool]


class Builder:
    """A list of equations that grows."""

    def __init__(self, line: str = "", *, raw: bool = False, in_loop: bool = False) -> None:
        self.line = line  # of the user, of the equation that is being lowered
        self.raw = raw  # whether programs inside of loops and branches stay as they are
        self.in_loop = in_loop  # whether this may be a step, which runs as machine code if it can
        self.equations: list[Equation] = []
        self.regions: list[Region] = []
        self.moved: dict[Var, Var] = {}  # what swapping the first two axes of a variable gives
        self.boundary: int = 0  # where a place that `inline` was asked for is

    def apply(self, e: Equation, args: Sequence[Any]) -> list[Any]:
        """Add an equation, lowered, for other arguments, and return its outputs."""
        raise NotImplementedError

    def plain(self, code: Any, args: Sequence[Any]) -> list[Any]:
        """Add a loop or branch, its programs lowered, and return its outputs."""
        raise NotImplementedError

    def typed(self, program: Program, avals: Sequence[Aval], *, in_loop: bool = True) -> Program:
        """Return a program lowered, its first outputs of these types."""
        raise NotImplementedError

    def prepared(
        self, equations: Sequence[Equation], inputs: Sequence[Var], ends: Sequence[Any], boundary: int
    ) -> tuple[list[Equation], list[Any], int]:
        """Return a joint program lowered, what it repeats once."""
        raise NotImplementedError

    def inline(self, program: Program, args: Sequence[Any], boundary: int | None = None) -> list[Any]:
        """Add the equations of a program for these inputs, lowered, and return its outputs."""
        env: dict[Var, Any] = dict(zip(program.inputs, args, strict=True))

        def value(a: Any) -> Any:
            return env[a] if isinstance(a, Var) else a

        places = []
        for e in program.equations:
            places.append(len(self.equations))
            env.update(zip(e.outs, self.apply(e, list(map(value, e.args))), strict=True))
        places.append(len(self.equations))
        if boundary is not None:
            self.boundary = places[boundary]
        for r in program.regions.values():
            self.regions.append(r.moved(places[r.start], places[r.stop], value))
        return list(map(value, program.outputs))

    def emit(
        self, name: str, args: Sequence[Any], params: dict[str, Any], avals: Sequence[Aval], line: str = ""
    ) -> list[Var]:
        """Add an equation as it is."""
        outs = tuple(Var(a, "v") for a in avals)
        self.equations.append(Equation(name, tuple(args), params, outs, line))
        return list(outs)

    def add(self, code: Code, args: Sequence[Any]) -> list[Var]:
        """Add a loop or branch as it is."""
        return self.emit(code.primitive, args, {"code": code}, code.outs, self.line)

    def repeated(self, x: Any, size: int) -> Any:
        """Return `x` for each of `size` examples."""
        if not isinstance(x, Var):
            return np.broadcast_to(x, (size, *np.shape(x)))
        return self.staged(lambda v: np.broadcast_to(v, (size, *v.shape)), x)

    def staged(self, fun: Callable[..., Any], *args: Any) -> Any:
        """Add what a function of values does, and return its result."""
        program, _ = staged(lambda *xs: [fun(*xs)], list(map(aval_out, args)))
        return self.inline(program, args)[0]

    def swapped(self, x: Any) -> Any:
        """Return `x` with its first two axes swapped."""
        if not isinstance(x, Var):
            return np.swapaxes(x, 0, 1)
        if x not in self.moved:
            axes = (1, 0, *range(2, x.aval.ndim))
            self.equations.append(transposed(x, axes, self.line))
            (made,) = self.equations[-1].outs
            self.moved[x], self.moved[made] = made, x
        return self.moved[x]


def zero_if_none(x: Any, aval: Aval) -> Any:
    """Return `x`, or zeros where it is None."""
    return np.zeros(aval.shape, aval.dtype) if x is None else x


def cast(program: Program, avals: Sequence[Aval]) -> Program:
    """Return a program whose first outputs are of these types, and whose constants are arrays."""
    extra, outputs = [], []
    for i, y in enumerate(program.outputs):
        aval = avals[i] if i < len(avals) else aval_out(y)
        if not isinstance(y, Var):
            y = np.asarray(y, aval.dtype)  # noqa: PLW2901 -- the same, typed
        elif y.aval.dtype != aval.dtype:
            v = Var(Aval(y.aval.shape, aval.dtype), "v")
            extra.append(Equation(CONVERT.name, (y,), {"dtype": aval.dtype}, (v,), ""))
            y = v  # noqa: PLW2901 -- likewise
        outputs.append(y)
    return Program(
        program.inputs, [*program.equations, *extra], outputs, (None, None), list(program.regions.values())
    )


def only(inputs: Sequence[Var], equations: Sequence[Equation], outputs: Sequence[Any]) -> Program:
    """Return the program of these with variables of its own, and only what is needed."""
    return renewed(inputs, live(equations, outputs), outputs)
