"""Control flow in programs: one operation each, which holds what it runs as programs of their own.

`Code` is what such an operation runs. Its derivative and its batching are `Code` again: `Back` runs it on a
tape and sweeps back, however many steps it took, and `Mapped` runs it for all examples at once. So each of
them is one operation in a program too, to every order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from textwrap import indent
from typing import Any

import numpy as np

from fgrad.core.aval import Aval, aval_of
from fgrad.core.primitive import Primitive, Pull, register
from fgrad.core.program import Program
from fgrad.core.tape import Tape
from fgrad.core.tensor import Tensor, bind, node_on
from fgrad.core.trace import current, next_level, running
from fgrad.errors import NotLinearError
from fgrad.ops.linear import convert
from fgrad.transforms.batch import Batch
from fgrad.transforms.manager import GradManager
from fgrad.transforms.stage import aval_out


def avals_out(program: Program) -> list[Aval]:
    """Return the avals of all outputs."""
    return list(map(aval_out, program.outputs))


class Code:
    """A function of flat lists of values that a program holds."""

    outs: tuple[Aval, ...]

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

    def __init__(self, code: Code, wanted: tuple[bool, ...], outs: Sequence[Aval]) -> None:
        self.code, self.wanted, self.outs = code, wanted, tuple(outs)

    def __call__(self, *values: Any) -> Sequence[Any]:
        """Return the cotangents."""
        primals, cts = list(values[: len(self.wanted)]), values[len(self.wanted) :]
        gm = GradManager()
        gm.record()
        try:
            leaves = []
            for i, wanted in enumerate(self.wanted):
                if wanted:
                    x = primals[i]
                    handle = (x._value, x._nodes) if x.__class__ is Tensor else (x,)
                    primals[i] = gm.follow(*handle)
                    leaves.append(primals[i])
            ys = [y for y, a in zip(self.code(*primals), self.code.outs, strict=True) if a.dtype.kind in "fc"]
            pull = gm.pullback(ys, leaves, once=True)
        finally:
            gm.release()
        found = pull([convert(ct, y.dtype) for ct, y in zip(cts, ys, strict=True)])
        return [np.zeros(a.shape, a.dtype) if c is None else c for c, a in zip(found, self.outs, strict=True)]

    def inner(self) -> Sequence[Program]:
        """Return the programs that it differentiates."""
        return self.code.inner()

    def __str__(self) -> str:
        return f"reverse of {self.code}"


class Mapped(Code):
    """`code` for `size` examples at once, the batch axis first."""

    def __init__(self, code: Code, mapped: tuple[bool, ...], size: int) -> None:
        self.code, self.mapped, self.size = code, mapped, size
        self.outs = tuple(Aval((size, *a.shape), a.dtype) for a in code.outs)

    def __call__(self, *values: Any) -> Sequence[Any]:
        """Return the outputs of all examples."""
        trace = Batch(next_level(), self.size)
        with running((*current().traces, trace)):
            outs = self.code(*(trace.box(v) if m else v for v, m in zip(values, self.mapped, strict=True)))
        return [trace.unbox(o) for o in outs]

    def inner(self) -> Sequence[Program]:
        """Return the programs of one example."""
        return self.code.inner()

    def __str__(self) -> str:
        return f"{self.size} of {self.code}"


def _run(*values: Any, code: Code) -> tuple[Any, ...]:
    with running(()):
        outs = code(*values)
    return tuple(
        np.asarray(o._value if o.__class__ is Tensor else o, a.dtype)
        for o, a in zip(outs, code.outs, strict=True)
    )


def _pull(linear: bool, pattern: tuple[bool, ...]) -> Pull:
    def call(cts: Sequence[Any], *saved: Any) -> list[Any]:
        *primals, params = saved
        code = params["code"]
        given = [
            np.zeros(a.shape, a.dtype) if ct is None else ct
            for ct, a in zip(cts, code.outs, strict=True)
            if a.dtype.kind in "fc"
        ]
        for tape in current().traces:
            if isinstance(tape, Tape) and tape.hollow and any(node_on(tape, x) for x in primals):
                raise NotLinearError("lax control flow")
        wanted = [aval_of(x) for x, tracked in zip(primals, pattern, strict=True) if tracked]
        return list(bind("lax.pullback", *primals, *given, code=Back(code, pattern, wanted)))

    keep = tuple(range(1, len(pattern) + 1))
    return Pull(call, keep=keep, params=True, exact=True, linear=linear)


def _declare(name: str, *, linear: bool) -> None:
    def batch(mapped: tuple[bool, ...], *values: Any, code: Code) -> Any:
        size = next(v.shape[0] for v, m in zip(values, mapped, strict=True) if m)
        return bind(name, *values, code=Mapped(code, mapped, size))

    register(
        Primitive(
            name,
            run=_run,
            pull=partial(_pull, linear),
            shape=lambda *_, code: code.outs,
            batch=batch,
            many=True,
        )
    )


for _name in ("cond", "scan", "while_loop", "custom_root", "custom_linear_solve"):
    _declare(f"lax.{_name}", linear=False)
_declare("lax.pullback", linear=True)  # in the cotangents, which are all that a linear recording follows
