"""The cost of a call of a compiled program, counted from its plan."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from fgrad.compiler.elements import shape_of
from fgrad.compiler.emit import Part
from fgrad.compiler.fuse import Call, Nest
from fgrad.compiler.library import reason
from fgrad.compiler.plan import Block, Choice, Inner, Loop, Plan
from fgrad.core.control_flow import PLAIN
from fgrad.core.primitive import CONTRACTION
from fgrad.core.program import Equation, aval_out


class Cost(NamedTuple):
    """What a call of a compiled program takes.

    What stands in a loop counts as often as the loop turns; in a `while_loop`, of which nobody knows how
    often that is, once. Of several branches the one with the most operations counts.

    Attributes:
        flops: operations on numbers: one for each addition and multiplication, four for what takes longer,
            2 m n k for a product of matrices. Factorizations, sorts, transforms and other calls of
            libraries are not counted.
        bytes: read and written, where each kernel and call reads and writes each of its arrays once.
        kernels: how many there are, equal ones counted once: what had to be compiled.
        launches: how often kernels and libraries are called.
        temporaries: bytes of the memory that a call needs besides its arguments and results.
        python: which operations Python computes between kernels, and why: each once.
    """

    flops: int
    bytes: int
    kernels: int
    launches: int
    temporaries: int
    python: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.flops:,} operations, {self.bytes:,} bytes read and written, {self.kernels} kernels, "
            f"{self.launches} launches, {self.temporaries:,} bytes of temporaries"
            + "".join(f"; Python computes {why}" for why in self.python)
        )


def cost(plan: Plan) -> Cost:
    """Return what a call of a program takes."""
    flops, moved, launches = _block(plan.block)
    return Cost(flops, moved, len({k.text for k in plan.kernels}), launches, plan.size, _python(plan.block))


def _python(block: Block) -> tuple[str, ...]:
    """Return what Python computes, and why: nothing in loops that the table runs."""
    calls = [s.equation for i, s in enumerate(block.steps) if isinstance(s, Call) and i not in block.inner]
    found: list[str] = []
    for e in calls:
        found.append(reason(e))
        code = e.params.get("code")
        if isinstance(code, PLAIN):  # which Python goes through, and what it computes there
            for program in code.inner():
                found += _python(Plan(program).block)
    return tuple(dict.fromkeys(filter(None, found)))


def contraction(equation: Equation) -> int:
    """Return how many operations a product of arrays takes."""
    a, b = equation.params["a"], equation.params["b"]
    x, y = equation.args
    return 2 * math.prod(dict(zip(a + b, (*shape_of(x), *shape_of(y)), strict=True)).values())


def _block(block: Block) -> tuple[int, int, int]:
    """Return operations, bytes and launches."""
    found = []
    for i, step in enumerate(block.steps):
        if i in block.inner:
            found.append(_inner(block.inner[i]))
        elif isinstance(step, Nest):
            found += [(k.work, sum(map(_bytes, k.buffers)), 1) for k in block.kernels[i]]
        elif isinstance(step, Call):
            e = step.equation
            flops = contraction(e) if CONTRACTION in e.traits else 0
            found.append((flops, sum(map(_bytes, (*e.args, *e.outs))), 1))
    return _sum(found)


def _inner(inner: Inner) -> tuple[int, int, int]:
    found = list(map(_block, inner.blocks))
    if isinstance(inner, Choice):
        return max(found)
    turns = (inner.code.length or 1) if isinstance(inner, Loop) else 1
    flops, moved, launches = _sum(found)
    return turns * flops, turns * moved, turns * launches


def _sum(found: list[tuple[int, int, int]]) -> tuple[int, int, int]:
    return sum(x[0] for x in found), sum(x[1] for x in found), sum(x[2] for x in found)


def _bytes(x: Any) -> int:
    if isinstance(x, Part):
        return x.count * x.blocks * int(x.root.var.aval.dtype.itemsize)
    aval = aval_out(x)
    return int(aval.size * aval.dtype.itemsize)
