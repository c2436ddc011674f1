"""Batched loops and branches: each example has its own branch and number of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fgrad.core.aval import Aval
from fgrad.core.control_flow import Branches, Mapped, Scan, While, avals_out, programs_of, varies
from fgrad.core.primitive import TOTAL
from fgrad.core.program import Program, aval_out
from fgrad.ops import functions
from fgrad.transforms.batch import for_examples
from fgrad.transforms.loops.builder import BOOL, Builder, Flags, cast
from fgrad.transforms.stage import staged


class BatchBuilder(Builder):
    """Adds loops and branches of many examples."""

    def _spread(self, args: list[Any], mapped: list[bool], which: Flags, start: int, size: int) -> None:
        """Repeat first carries that are the same for all examples, but will not stay so."""
        for k, w in enumerate(which):
            if w and not mapped[start + k]:
                args[start + k] = self.repeated(args[start + k], size)
                mapped[start + k] = True

    def mapped_scan(self, inner: Scan, code: Mapped, given: Sequence[Any]) -> list[Any]:
        """Add `scan` for many examples, and return its outputs."""
        n, m, size = inner.consts, inner.carry, code.size
        lead = len(given) - len(inner.body.inputs)
        which, mapped, args = code.which, list(code.mapped), list(given)
        self._spread(args, mapped, which[:m], lead + n, size)
        for i in range(lead + n + m, len(args)):
            if mapped[i]:
                args[i] = self.swapped(args[i])
        body = cast(inner.body, inner.outs[:m])
        whole = mapped_program(body, mapped[lead:], which, size)
        if lead and mapped[0]:
            outs = self._masked_scan(inner, whole, args, mapped[1:])
        else:
            outs = self.plain(replace(inner, body=whole), args)
        return [*outs[:m], *(self.swapped(y) if w else y for y, w in zip(outs[m:], which[m:], strict=True))]

    def _masked_scan(self, inner: Scan, whole: Program, args: Sequence[Any], mapped: Flags) -> list[Any]:
        """Add a scan in which each example makes its own number of steps, the first argument."""
        n, m = inner.consts, inner.carry
        total = self.staged(lambda counts: np.max(counts, initial=0), args[0])

        def step(counts: Any, *values: Any) -> list[Any]:
            old, i = values[n : n + m], values[n + m]
            goes = i < counts
            given = zip([*values[: n + m], *values[n + m + 1 :]], mapped, strict=True)
            outs = whole.run([_inside(goes, x) if f else x for x, f in given])
            new = [_where(goes, a, b) for a, b in zip(outs, old, strict=False)]
            return [*new, i - 1 if inner.reverse else i + 1, *(_where(goes, y, 0 * y) for y in outs[m:])]

        avals = [v.aval for v in whole.inputs]
        avals.insert(n + m, Aval((), np.dtype(int)))
        masked, _ = staged(step, [aval_out(args[0]), *avals])
        start = self.staged(lambda k: k - 1, total) if inner.reverse else np.asarray(0)
        made = Scan(masked, n + 1, m + 1, None, reverse=inner.reverse)
        values = [total, args[0], *args[1 : 1 + n + m], start, *args[1 + n + m :]]
        outs = self.plain(made, values)
        return [*outs[:m], *outs[m + 1 :]]

    def mapped_while(self, inner: While, code: Mapped, given: Sequence[Any]) -> list[Any]:
        """Add `while_loop` for many examples, and return its outputs."""
        n, m, size = inner.consts, inner.carry, code.size
        which, mapped, args = code.which, list(code.mapped), list(given)
        self._spread(args, mapped, which[:m], n, size)
        body = mapped_program(cast(inner.body, inner.outs[:m]), mapped, which, size)
        if not any(varies(inner.condition, mapped)):
            condition = mapped_program(inner.condition, mapped, [False], size)
            outs = self.plain(While(condition, body, n), args)
        else:
            goes = mapped_program(cast(inner.condition, [BOOL]), mapped, [True], size)
            outs = self._masked_while(goes, body, n, args, mapped)
        return [*outs[:m], *(self.swapped(y) if w else y for y, w in zip(outs[m:], which[m:], strict=True))]

    def _masked_while(
        self, goes: Program, body: Program, n: int, args: list[Any], mapped: Flags
    ) -> list[Any]:
        """Add a loop until no example goes on; an additional carry says which ones do."""
        m = len(args) - n

        def step(*values: Any) -> list[Any]:
            consts, old, go = values[:n], values[n:-1], values[-1]
            outs = body.run([_inside(go, x) if f else x for x, f in zip(values[:-1], mapped, strict=True)])
            new = [_where(go, a, b) for a, b in zip(outs, old, strict=False)]
            return [*new, np.logical_and(goes.run([*consts, *new])[0], go), *outs[m:]]

        avals = [*(v.aval for v in body.inputs), aval_out(goes.outputs[0])]
        masked, _ = staged(step, avals)
        proceed, _ = staged(lambda *values: [np.any(values[-1])], avals)
        outs = self.plain(While(proceed, masked, n), [*args, self.inline(goes, args)[0]])
        return [*outs[:m], *outs[m + 1 :]]

    def mapped_branches(self, inner: Branches, code: Mapped, args: Sequence[Any]) -> list[Any]:
        """Add `cond` for many examples, and return its outputs."""
        index, *operands = args
        mapped = code.mapped[1:]
        programs = [
            mapped_program(cast(p, inner.outs), mapped, code.which, code.size) for p in inner.branches
        ]
        if not code.mapped[0]:
            return self.plain(Branches(programs, code.outs), args)
        last = len(programs) - 1
        outs = []
        for k, p in enumerate(programs):
            taken = self.staged(lambda i, k=k: np.clip(i, 0, last) == k, index)
            if not self.in_loop and may_raise(p):
                outs.append(self._guarded(p, taken, operands, mapped))
                continue
            hold = _inside if may_raise(p) else _held_back
            own = [self.staged(hold, taken, x) if m else x for x, m in zip(operands, mapped, strict=True)]
            outs.append(self.inline(p, own))
        chosen = []
        for ys in zip(*outs, strict=True):
            y = ys[-1]
            for k in range(len(ys) - 2, -1, -1):
                y = self.staged(lambda i, a, b, k=k: _where(i <= k, a, b), index, ys[k], y)
            chosen.append(y)
        return chosen

    def _guarded(self, program: Program, taken: Any, operands: Sequence[Any], mapped: Flags) -> list[Any]:
        """Add a branch that runs if any example takes it; the others get the operands of one that does."""
        avals = avals_out(program)

        def ran(taken: Any, *values: Any) -> list[Any]:
            return list(
                program.run([_standing_in(taken, x) if f else x for x, f in zip(values, mapped, strict=True)])
            )

        def skipped(*_: Any) -> list[Any]:
            return [np.zeros(a.shape, a.dtype) for a in avals]

        given = [taken, *operands]
        programs = [staged(f, list(map(aval_out, given)))[0] for f in (skipped, ran)]
        index = self.staged(lambda t: np.any(t).astype(int), taken)
        return self.plain(Branches([cast(p, avals) for p in programs], avals), [index, *given])


def may_raise(program: Program) -> bool:
    """Return whether there may be values for which a program raises."""
    return any(
        any(map(may_raise, inner)) if (inner := programs_of(e)) else TOTAL not in e.traits
        for e in program.equations
    )


def mapped_program(program: Program, mapped: Flags, which: Flags, size: int) -> Program:
    """Return a program for many examples: those of the inputs `mapped`, and of the outputs `which`."""
    avals = [
        Aval((size, *v.aval.shape), v.aval.dtype) if f else v.aval
        for v, f in zip(program.inputs, mapped, strict=True)
    ]

    made, captured = staged(lambda *values: for_examples(program.run, values, mapped, size, which), avals)
    if captured:
        raise RuntimeError("a program used a value from outside of it")
    return made


def _where(condition: Any, a: Any, b: Any) -> Any:
    """Return `a` in the examples where the condition holds, else `b`."""
    return functions.where(_beside(condition, max(np.ndim(a), np.ndim(b))), a, b)


def held_back(taken: Any, x: Any) -> Any:
    """Return `x`, whose cotangent is zero where `taken` does not hold."""
    return functions.where(taken, x, functions.stop_gradient(x)) if x.dtype.kind in "fc" else x


def _inside(taken: Any, x: Any) -> Any:
    """Return what `_held_back` does; of integers those of an example for which `taken` holds.

    This is the greatest, if there is one: found in the loop, without a call.
    """
    if x.dtype.kind in "iu" and np.ndim(x) == 1:
        limits = np.iinfo(x.dtype)
        least = np.min(x, initial=limits.max)
        return _where(taken, x, np.max(_where(taken, x, least), initial=limits.min))
    return _standing_in(taken, x) if x.dtype.kind in "iu" else _held_back(taken, x)


def _standing_in(taken: Any, x: Any) -> Any:
    """Return `x`; examples for which `taken` does not hold get that of one for which it does, a constant."""
    one = x[np.argmax(taken)]
    return _where(
        _beside(taken, np.ndim(x)), x, functions.stop_gradient(one) if x.dtype.kind in "fc" else one
    )


def _held_back(taken: Any, x: Any) -> Any:
    """Return the values of all examples, with derivatives in those where `taken` holds."""
    return held_back(_beside(taken, np.ndim(x)), x)


def _beside(condition: Any, ndim: int) -> Any:
    """Return a condition of each example with axes for what examples hold."""
    shape = np.shape(condition)
    return condition.reshape((*shape, *(1,) * (ndim - len(shape))))
