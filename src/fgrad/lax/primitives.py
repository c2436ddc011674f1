"""The primitives of control flow: how Python runs what they hold, their derivatives and batchings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.backend.devices import as_array
from fgrad.core.aval import aval_of
from fgrad.core.control_flow import Back, Branches, Code, Mapped, Scan, While, avals_out
from fgrad.core.dispatch import bind, refuse_followed
from fgrad.core.placement import near, with_zeros
from fgrad.core.primitive import VJP, batch_size, declare
from fgrad.core.stored import PLAIN, Stored
from fgrad.core.tensor import Tensor
from fgrad.core.trace import running
from fgrad.lax.bodies import run
from fgrad.lax.branches import switch
from fgrad.lax.loops import while_loop
from fgrad.lax.scans import scan
from fgrad.lax.trees import stack
from fgrad.ops.compiled import late
from fgrad.ops.linear import convert
from fgrad.transforms.batch import Same, for_examples
from fgrad.transforms.manager import GradManager

LOWER = late("fgrad.transforms.loops.lowering", "lower")  # of all: programs are lowered by it once


def evaluated(code: Any, values: Sequence[Any]) -> Sequence[Any]:
    """Return the outputs of what an operation holds, for arrays or Tensors."""
    known = _EVALUATED.get(type(code))
    found: Sequence[Any] = known(code, values) if known else code(*values)
    return found


def _branches(code: Branches, values: Sequence[Any]) -> Sequence[Any]:
    index, *operands = values
    found: Sequence[Any] = switch(index, [functools.partial(run, p) for p in code.branches], *operands)
    return found


def _while(code: While, values: Sequence[Any]) -> Sequence[Any]:
    """Return the carry at the end, and the results of all steps."""
    consts, init = values[: code.consts], list(values[code.consts :])
    rows: list[list[Any]] = []

    def step(carry: list[Any]) -> list[Any]:
        outs = run(code.body, *consts, *carry)
        rows.append(outs[code.carry :])
        return outs[: code.carry]

    carry = while_loop(lambda v: run(code.condition, *consts, *v)[0], step, init)
    if not rows:
        return [*carry, *(np.zeros(a.shape, a.dtype) for a in code.outs[code.carry :])]
    return [*carry, *map(stack, zip(*rows, strict=True))]


def _scan(code: Scan, values: Sequence[Any]) -> Sequence[Any]:
    """Return the last carry and the results."""
    length = code.length
    if length is None:
        length, *values = (int(values[0]), *values[1:])
    n, m = code.consts, code.carry
    captured, init, xs = values[:n], list(values[n : n + m]), list(values[n + m :])
    if length == 0:
        return [*init, *(np.zeros((0, *a.shape), a.dtype) for a in avals_out(code.body)[m:])]

    def step(carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        outs = run(code.body, *captured, *carry, *x)
        return outs[:m], outs[m:]

    carry, ys = scan(step, init, xs, length, code.reverse, checkpoint=code.checkpoint)
    return [*carry, *(ys or ())]


def _reverse(code: Back, values: Sequence[Any]) -> Sequence[Any]:
    """Return the cotangents."""
    primals, cts = list(values[: len(code.wanted)]), values[len(code.wanted) :]
    floating = [a.dtype.kind in "fc" for a in code.code.outs]
    with GradManager() as gm:
        leaves = []
        for i, wanted in enumerate(code.wanted):
            if wanted:
                x = primals[i]
                handle = (x._value, x._nodes) if x.__class__ is Tensor else (x,)
                primals[i] = gm.follow(*handle)
                leaves.append(primals[i])
        ys = [y for y, f in zip(evaluated(code.code, primals), floating, strict=True) if f]
        pullback = gm.pullback(ys, leaves, once=True)
    found = pullback([convert(ct, y.dtype) for ct, y in zip(cts, ys, strict=True)])
    make = near(ys[0])
    pairs = zip(found, code.outs, strict=True)
    return [make.zeros(a.shape, a.dtype) if c is None else c for c, a in pairs]


def _mapped(code: Mapped, values: Sequence[Any]) -> Sequence[Any]:
    """Return the outputs of all examples."""
    return for_examples(functools.partial(evaluated, code.code), values, code.mapped, code.size, code.which)


_EVALUATED: dict[type[Code], Callable[[Any, Sequence[Any]], Sequence[Any]]] = {
    Branches: _branches,
    While: _while,
    Scan: _scan,
    Back: _reverse,
    Mapped: _mapped,
}


def _run(*values: Any, code: Code) -> tuple[Any, ...]:
    with running(()):
        outs = evaluated(code, values)
    return tuple(
        as_array(o._value if o.__class__ is Tensor else o, a.dtype)
        for o, a in zip(outs, code.outs, strict=True)
    )


def _vjp(linear: bool, pattern: tuple[bool, ...]) -> VJP:
    def call(cts: Sequence[Any], *saved: Any) -> list[Any]:
        *primals, params = saved
        code = params["code"]
        pairs = [(ct, a) for ct, a in zip(cts, code.outs, strict=True) if a.dtype.kind in "fc"]
        given = with_zeros(*zip(*pairs, strict=True))
        refuse_followed("lax control flow", primals)
        wanted = [aval_of(x) for x, tracked in zip(primals, pattern, strict=True) if tracked]
        return list(bind("lax.pullback", *primals, *given, code=Back(code, pattern, wanted)))

    keep = tuple(range(1, len(pattern) + 1))
    return VJP(call, keep=keep, params=True, exact=True, linear=linear)


def _declare(name: str, *, linear: bool = False, stored: Stored | str = PLAIN, interpreted: str = "") -> None:
    def batch(mapped: tuple[bool, ...], *values: Any, code: Code) -> Any:
        size = batch_size(mapped, values)
        made = Mapped(code, mapped, size)
        outs = bind(name, *values, code=made)
        return tuple(o if m else Same(o) for o, m in zip(outs, made.which, strict=True))

    declare(
        name,
        run=_run,
        vjp=functools.partial(_vjp, linear),
        shape=lambda *_, code: code.outs,
        batch=batch,
        many=True,
        lower=LOWER,
        stored=stored,
        interpreted=interpreted,
    )


for _name in ("cond", "scan", "while_loop"):
    _declare(f"lax.{_name}", interpreted="it is a loop or branch with operations that Python computes")
for _name in ("custom_root", "custom_linear_solve", "opaque"):
    _declare(f"lax.{_name}", stored="a solver is Python, and Python is not stored")
_declare("lax.pullback", linear=True)  # in the cotangents, which are all that a linear recording follows
