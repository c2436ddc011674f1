"""Control flow in programs: operations that contain the programs of their bodies.

`Code` is what such an operation runs: `Branches`, `Scan` and `While` are the plain ones, which a compiler
lays out. Their derivatives and batchings are `Code` again: `Back` runs one on a tape and sweeps back, however
many steps it took, and `Mapped` runs it for all examples at once. So each of them is one operation in a
program too, to every order. `lax.primitives` runs them where Python does, and `transforms.loops` makes plain
ones of derivatives and batchings.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from textwrap import indent
from typing import Any

import numpy as np

from fgrad.core.aval import Aval, Shape
from fgrad.core.program import Equation, Program, Var, aval_out


def avals_out(program: Program) -> list[Aval]:
    """Return the avals of all outputs."""
    return list(map(aval_out, program.outputs))


class Grown(Aval):
    """The aval of values stacked by a loop: their number along the first axis is known when it has run.

    To shape rules it is 0, so that nothing of the size is ever made while staging.
    """

    __slots__ = ()

    def __init__(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        super().__init__((0, *shape), dtype)

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(['n', *map(str, self.shape[1:])])}]"


ALL = -1  # every bit is set


def depends(program: Program) -> list[int]:
    """Return for each output of a program the inputs of which it is made, as bits of an integer."""
    env = {v: 1 << i for i, v in enumerate(program.inputs)}
    for e in program.equations:
        given = [env.get(a, 0) if isinstance(a, Var) else 0 for a in e.args]
        code = e.params.get("code")
        known = code.depends() if isinstance(code, Code) else [ALL] * len(e.outs)
        env.update((v, joined(bits, given)) for v, bits in zip(e.outs, known, strict=True))
    return [env.get(y, 0) if isinstance(y, Var) else 0 for y in program.outputs]


def joined(bits: int, given: Sequence[int]) -> int:
    """Return the union of those `given` that `bits` selects."""
    found = 0
    for i, other in enumerate(given):
        if bits >> i & 1:
            found |= other
    return found


def carried(known: Sequence[int], given: Sequence[int], start: int, count: int) -> list[int]:
    """Return what the inputs of a step are made of: `given`, and what `count` of them from `start` become.

    `known` says what the results of the step, of which the first are carried on, are made of.
    """
    given = list(given)
    while True:
        new = [given[start + k] | joined(known[k], given) for k in range(count)]
        if new == given[start : start + count]:
            return given
        given[start : start + count] = new


def varies(program: Program, mapped: Sequence[bool]) -> list[bool]:
    """Return which outputs of a program may differ between examples where the inputs `mapped` do."""
    return _selected(depends(program), mapped)


def _selected(known: Sequence[int], mapped: Sequence[bool]) -> list[bool]:
    mask = sum(1 << i for i, m in enumerate(mapped) if m)
    return [bool(bits & mask) for bits in known]


class Code:
    """A function of flat lists of values that a program holds."""

    primitive = ""  # that runs it; "": several do, which are no loops and branches
    outs: tuple[Aval, ...]

    _known: list[int] | None = None

    def varies(self, mapped: Sequence[bool]) -> list[bool]:
        """Return which outputs may differ between examples where the arguments `mapped` do."""
        return _selected(self.depends(), mapped)

    def depends(self) -> list[int]:
        """Return for each output the arguments of which it is made, as bits of an integer; asked for once."""
        if self._known is None:
            self._known = self.made_of()
        return self._known

    def made_of(self) -> list[int]:
        """Find out what `depends` returns."""
        return [ALL] * len(self.outs)

    def inner(self) -> Sequence[Program]:
        """Return the programs that it holds, at any depth."""
        return ()

    def map(self, f: Callable[[Program], Program]) -> Code:
        """Return the same with `f` of each program that it runs; those that it differentiates stay."""
        return self


def inset(program: Program) -> str:
    """Return the text of a program as it stands inside another one."""
    return "\n" + indent(str(program), " " * 8)


class Branches(Code):
    """One of several programs of the same inputs, by a first argument."""

    primitive = "lax.cond"

    def __init__(self, programs: Sequence[Program], outs: Sequence[Aval] | None = None) -> None:
        self.branches: tuple[Program, ...] = tuple(programs)
        self.outs: tuple[Aval, ...] = tuple(avals_out(programs[0]) if outs is None else outs)

    def made_of(self) -> list[int]:
        """Find out what each output is made of: the choice, and what each branch makes it of."""
        each = zip(*map(depends, self.branches), strict=True)
        return [1 | functools.reduce(operator.or_, bits) << 1 for bits in each]

    def inner(self) -> Sequence[Program]:
        """Return those of the branches."""
        return self.branches

    def map(self, f: Callable[[Program], Program]) -> Code:
        """Return the same choice among `f` of the branches."""
        return Branches([f(p) for p in self.branches], self.outs)

    def __str__(self) -> str:
        return " or".join(map(inset, self.branches))


@dataclass(eq=False, repr=False)
class Scan(Code):
    """A program that is repeated along the first axis of some of its arguments.

    Its inputs are `consts` values that stay, `carry` that it returns anew, and one element of each of the
    others. Where `length` is None, the number of steps is the first argument, before those.
    """

    primitive = "lax.scan"
    body: Program
    consts: int
    carry: int
    length: int | None
    _: KW_ONLY
    reverse: bool = False
    checkpoint: Any = None
    outs: tuple[Aval, ...] = field(init=False)

    def __post_init__(self) -> None:
        n = self.length
        carried = (v.aval for v in self.body.inputs[self.consts : self.consts + self.carry])
        results = avals_out(self.body)[self.carry :]
        stacked = (Grown(a.shape, a.dtype) if n is None else Aval((n, *a.shape), a.dtype) for a in results)
        self.outs = (*carried, *stacked)

    def made_of(self) -> list[int]:
        """Find out what each output is made of."""
        first = int(self.length is None)  # the number of steps, of which everything is made
        known = depends(self.body)
        given = [1 << first + i for i in range(len(self.body.inputs))]
        given = carried(known, given, self.consts, self.carry)
        outs = [joined(bits, given) for bits in known[self.carry :]]
        return [bits | first for bits in (*given[self.consts : self.consts + self.carry], *outs)]

    def inner(self) -> Sequence[Program]:
        """Return the step."""
        return (self.body,)

    def map(self, f: Callable[[Program], Program]) -> Code:
        """Return the same loop of `f` of the step."""
        return replace(self, body=f(self.body))

    def __str__(self) -> str:
        times = "counted" if self.length is None else self.length
        return f"{times} times{' in reverse' * self.reverse}:{inset(self.body)}"


@dataclass(eq=False, repr=False)
class While(Code):
    """A program that is repeated as long as another one says so; what it returns beside the carry is stacked.

    Both take `consts` values that stay, and then the carry.
    """

    primitive = "lax.while_loop"
    condition: Program
    body: Program
    consts: int
    carry: int = field(init=False)
    outs: tuple[Aval, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.carry = len(self.body.inputs) - self.consts
        carried = (v.aval for v in self.body.inputs[self.consts :])
        self.outs = (*carried, *(Grown(a.shape, a.dtype) for a in avals_out(self.body)[self.carry :]))

    def made_of(self) -> list[int]:
        """Find out what each output is made of; all are made of what the condition is."""
        known = depends(self.body)
        count = len(self.body.inputs) - self.consts
        given = carried(known, [1 << i for i in range(len(self.body.inputs))], self.consts, count)
        (go,) = (joined(bits, given) for bits in depends(self.condition))
        return [bits | go for bits in (*given[self.consts :], *(joined(b, given) for b in known[count:]))]

    def inner(self) -> Sequence[Program]:
        """Return the condition and the step."""
        return self.condition, self.body

    def map(self, f: Callable[[Program], Program]) -> Code:
        """Return the same loop of `f` of the condition and of the step."""
        return While(f(self.condition), f(self.body), self.consts)

    def __str__(self) -> str:
        return f"while{inset(self.condition)}\n    do{inset(self.body)}"


class Back(Code):
    """The cotangents of some arguments of `code`, from all arguments and the cotangents of float outputs."""

    primitive = "lax.pullback"

    def __init__(self, code: Code, wanted: tuple[bool, ...], outs: Sequence[Aval]) -> None:
        self.code: Code = code
        self.wanted: tuple[bool, ...] = wanted
        self.outs: tuple[Aval, ...] = tuple(outs)

    def inner(self) -> Sequence[Program]:
        """Return the programs that it differentiates."""
        return self.code.inner()

    def __str__(self) -> str:
        return f"reverse of {self.code}"


@dataclass(eq=False, repr=False)
class Mapped(Code):
    """`code` for `size` examples at once, the batch axis first."""

    code: Code
    mapped: tuple[bool, ...]
    size: int
    which: list[bool] = field(init=False)  # of the outputs; the others are the same for all examples
    outs: tuple[Aval, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.which = self.code.varies(self.mapped)
        pairs = zip(self.code.outs, self.which, strict=True)
        self.outs = tuple(Aval((self.size, *a.shape), a.dtype) if m else a for a, m in pairs)

    def made_of(self) -> list[int]:
        """Find out what each output is made of."""
        return self.code.depends()

    def inner(self) -> Sequence[Program]:
        """Return the programs of one example."""
        return self.code.inner()

    def __str__(self) -> str:
        return f"{self.size} of {self.code}"


PLAIN = (Branches, Scan, While)  # a loop or branch of programs, and no more


def programs_of(e: Equation) -> Sequence[Program]:
    """Return the programs that an equation of control flow holds."""
    code = e.params.get("code")
    return code.inner() if isinstance(code, Code) else ()


def order(code: Any) -> int:
    """Return how often a code is reversed."""
    found = 0
    while isinstance(code, Back | Mapped):
        found += isinstance(code, Back)
        code = code.code
    return found


def innermost(code: Any) -> Any:
    """Return what a code is a derivative or batching of, itself if it is none."""
    while isinstance(code, Back | Mapped):
        code = code.code
    return code
