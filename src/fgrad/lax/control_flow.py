"""Control flow in programs: operations that contain the programs of their bodies.

`Code` is what such an operation runs. Its derivative and its batching are `Code` again: `Back` runs it on a
tape and sweeps back, however many steps it took, and `Mapped` runs it for all examples at once. So each of
them is one operation in a program too, to every order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from textwrap import indent
from typing import Any

import numpy as np

from fgrad.backend.devices import as_array
from fgrad.core.aval import Aval, Shape, aval_of
from fgrad.core.placement import near
from fgrad.core.primitive import VJP, Primitive, register
from fgrad.core.program import Program, Var
from fgrad.core.tape import Tape
from fgrad.core.tensor import Tensor, bind, node_on
from fgrad.core.trace import current, next_level, running
from fgrad.errors import NotLinearError
from fgrad.ops.linear import convert
from fgrad.transforms.batch import Batch, Same
from fgrad.transforms.manager import GradManager
from fgrad.transforms.stage import aval_out


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

    primitive = ""  # that runs it as a loop or branch of programs, which a compiler may lay out
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

    def __call__(self, *values: Any) -> Sequence[Any]:
        """Return the outputs."""
        raise NotImplementedError

    def inner(self) -> Sequence[Program]:
        """Return the programs that it holds, at any depth."""
        return ()

    def map(self, f: Callable[[Program], Program]) -> Code:
        """Return the same with `f` of each program that it runs; those that it differentiates stay."""
        return self


def inset(program: Program) -> str:
    """Return the text of a program as it stands inside another one."""
    return "\n" + indent(str(program), " " * 8)


class Back(Code):
    """The cotangents of some arguments of `code`, from all arguments and the cotangents of float outputs."""

    code: Code
    wanted: tuple[bool, ...]
    outs: tuple[Aval, ...]

    def __init__(self, code: Code, wanted: tuple[bool, ...], outs: Sequence[Aval]) -> None:
        self.code, self.wanted, self.outs = code, wanted, tuple(outs)

    def __call__(self, *values: Any) -> Sequence[Any]:
        """Return the cotangents."""
        primals, cts = list(values[: len(self.wanted)]), values[len(self.wanted) :]
        with GradManager() as gm:
            leaves = []
            for i, wanted in enumerate(self.wanted):
                if wanted:
                    x = primals[i]
                    handle = (x._value, x._nodes) if x.__class__ is Tensor else (x,)
                    primals[i] = gm.follow(*handle)
                    leaves.append(primals[i])
            ys = [y for y, a in zip(self.code(*primals), self.code.outs, strict=True) if a.dtype.kind in "fc"]
            pullback = gm.pullback(ys, leaves, once=True)
        found = pullback([convert(ct, y.dtype) for ct, y in zip(cts, ys, strict=True)])
        make = near(ys[0])
        pairs = zip(found, self.outs, strict=True)
        return [make.zeros(a.shape, a.dtype) if c is None else c for c, a in pairs]

    def inner(self) -> Sequence[Program]:
        """Return the programs that it differentiates."""
        return self.code.inner()

    def __str__(self) -> str:
        return f"reverse of {self.code}"


class Mapped(Code):
    """`code` for `size` examples at once, the batch axis first."""

    code: Code
    mapped: tuple[bool, ...]
    size: int
    which: list[bool]
    outs: tuple[Aval, ...]

    def __init__(self, code: Code, mapped: tuple[bool, ...], size: int) -> None:
        self.code, self.mapped, self.size = code, mapped, size
        self.which = code.varies(mapped)  # of the outputs; the others are the same for all examples
        self.outs = tuple(
            Aval((size, *a.shape), a.dtype) if m else a for a, m in zip(code.outs, self.which, strict=True)
        )

    def made_of(self) -> list[int]:
        """Find out what each output is made of."""
        return self.code.depends()

    def __call__(self, *values: Any) -> Sequence[Any]:
        """Return the outputs of all examples."""
        trace = Batch(next_level(), self.size)
        with running((*current().traces, trace)):
            outs = self.code(*(trace.tracer(v) if m else v for v, m in zip(values, self.mapped, strict=True)))
        return [trace.unbox(o) if m else o for o, m in zip(outs, self.which, strict=True)]

    def inner(self) -> Sequence[Program]:
        """Return the programs of one example."""
        return self.code.inner()

    def __str__(self) -> str:
        return f"{self.size} of {self.code}"


def _run(*values: Any, code: Code) -> tuple[Any, ...]:
    with running(()):
        outs = code(*values)
    return tuple(
        as_array(o._value if o.__class__ is Tensor else o, a.dtype)
        for o, a in zip(outs, code.outs, strict=True)
    )


def _vjp(linear: bool, pattern: tuple[bool, ...]) -> VJP:
    def call(cts: Sequence[Any], *saved: Any) -> list[Any]:
        *primals, params = saved
        code = params["code"]
        make = near(next(ct for ct in cts if ct is not None))
        given = [
            make.zeros(a.shape, a.dtype) if ct is None else ct
            for ct, a in zip(cts, code.outs, strict=True)
            if a.dtype.kind in "fc"
        ]
        for tape in current().traces:
            if isinstance(tape, Tape) and tape.linear_only and any(node_on(tape, x) for x in primals):
                raise NotLinearError("lax control flow")
        wanted = [aval_of(x) for x, tracked in zip(primals, pattern, strict=True) if tracked]
        return list(bind("lax.pullback", *primals, *given, code=Back(code, pattern, wanted)))

    keep = tuple(range(1, len(pattern) + 1))
    return VJP(call, keep=keep, params=True, exact=True, linear=linear)


def _declare(name: str, *, linear: bool) -> None:
    def batch(mapped: tuple[bool, ...], *values: Any, code: Code) -> Any:
        size = next(v.shape[0] for v, m in zip(values, mapped, strict=True) if m)
        made = Mapped(code, mapped, size)
        outs = bind(name, *values, code=made)
        return tuple(o if m else Same(o) for o, m in zip(outs, made.which, strict=True))

    register(
        Primitive(
            name,
            run=_run,
            vjp=partial(_vjp, linear),
            shape=lambda *_, code: code.outs,
            batch=batch,
            many=True,
        )
    )


for _name in ("cond", "scan", "while_loop", "custom_root", "custom_linear_solve", "opaque"):
    _declare(f"lax.{_name}", linear=False)
_declare("lax.pullback", linear=True)  # in the cotangents, which are all that a linear recording follows
