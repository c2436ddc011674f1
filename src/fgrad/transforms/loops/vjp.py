"""The vjp rules of loops and branches: a forward program that keeps residuals, and a backward one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.core.aval import Aval
from fgrad.core.control_flow import Branches, Code, Scan, While
from fgrad.core.program import Program, Var, aval_out
from fgrad.core.rewriting.liveness import inputs_for
from fgrad.core.rewriting.operations import added
from fgrad.transforms.loops.builder import BOOL, Builder, Flags, cast, only, zero_if_none
from fgrad.transforms.loops.partial_eval import Cut, Joint, is_float, reaching


class VJPBuilder(Builder):
    """Adds reverses."""

    def reversed_branches(
        self, code: Branches, args: list[Any], wanted: list[bool], cts: list[Any]
    ) -> list[Any]:
        """Add the reverse of a choice of branches, and return the cotangents of what is wanted."""
        index, *operands = args
        given = [c is not None for c in cts]
        cuts = []
        for p in code.branches:
            joint = Joint(cast(p, code.outs), wanted[1:], given)
            cuts.append(Cut(joint, self.prepared))
        slots: list[Aval] = []
        own: list[dict[Var, int]] = []  # residual -> its place among the outputs and slots
        for cut in cuts:
            places = {y: i for i, y in enumerate(cut.outputs) if isinstance(y, Var)}
            taken: set[int] = set()
            residuals = {}
            for v in cut.residuals(set(cut.inputs)):
                place = places.get(v)
                if place is None:
                    free = (i for i, a in enumerate(slots) if a == v.aval and i not in taken)
                    slot = next(free, len(slots))
                    if slot == len(slots):
                        slots.append(v.aval)
                    taken.add(slot)
                    place = len(code.outs) + slot
                residuals[v] = place
            own.append(residuals)
        ahead, back = [], []
        all_outs = [*code.outs, *slots]
        used = sorted({place for residuals in own for place in residuals.values()})
        for cut, residuals in zip(cuts, own, strict=True):
            kept = {place: v for v, place in residuals.items()}
            extra = [kept.get(len(code.outs) + i, np.zeros(a.shape, a.dtype)) for i, a in enumerate(slots)]
            ahead.append(only(cut.inputs, cut.ahead, [*cut.outputs, *extra]))
            crossed = [kept.get(i) or Var(all_outs[i], "r") for i in used]
            back.append(only([*cut.inputs, *crossed, *cut.seeds], cut.back, _filled(cut, wanted[1:])))
        outs = self.add(Branches(ahead, all_outs), args)
        avals = [aval_out(a) for a, w in zip(args, wanted, strict=True) if w]
        made = Branches(back, avals)
        seeds = [c for c in cts if c is not None]
        return list(self.add(made, [index, *operands, *(outs[i] for i in used), *seeds]))

    def reversed_loop(
        self, code: Scan | While, args: list[Any], wanted: list[bool], cts: list[Any]
    ) -> list[Any]:
        """Add the reverse of a loop, and return the cotangents of what is wanted."""
        n, m = code.consts, code.carry
        lead = len(args) - len(code.body.inputs)
        wanted = wanted[lead:]
        body = cast(code.body, [v.aval for v in code.body.inputs[n : n + m]])
        active = _active(body, n, m, wanted, cts)
        wants = [*wanted[:n], *active, *wanted[n + m :]]
        joint = Joint(body, wants, [*active, *(c is not None for c in cts[m:])])
        cut = Cut(joint, self.prepared)
        # what stays the same or is stacked anyway costs nothing to have on the way back
        const_in, carry_in, x_in = cut.inputs[:n], cut.inputs[n : n + m], cut.inputs[n + m :]
        stacked = cut.residuals({*const_in, *x_in})
        every = iter(cut.cts)
        found = [next(every) if w else None for w in wants]
        rows = {y: k for k, y in reversed(list(enumerate(cut.outputs))) if k >= m and isinstance(y, Var)}
        extra = [v for v in stacked if v not in rows]
        outs, count = self._ahead(code, args, cut, extra)
        stacks = [outs[rows[v]] if v in rows else outs[len(cut.outputs) + extra.index(v)] for v in stacked]

        sums = [i for i in range(n) if wants[i] and found[i] is not None]
        live_carry = [k for k in range(m) if active[k]]
        totals = [Var(const_in[i].aval, "s") for i in sums]
        seeds = dict(
            zip(
                (k for k, s in enumerate([*active, *(c is not None for c in cts[m:])]) if s),
                cut.seeds,
                strict=True,
            )
        )
        ends_of_sums = [Var(t.aval, "v") for t in totals]
        back = [
            *cut.back,
            *(added(t, found[i], y, self.line) for t, i, y in zip(totals, sums, ends_of_sums, strict=True)),
        ]
        ends = [zero_if_none(found[n + k], carry_in[k].aval) for k in live_carry]
        x_places = [i for i in range(n + m, len(wants)) if wants[i] and found[i] is not None]
        y_seeds = [k for k in range(m, len(cts)) if cts[k] is not None]
        inputs = [
            *const_in,
            *(seeds[k] for k in live_carry),
            *totals,
            *x_in,
            *stacked,
            *(seeds[k] for k in y_seeds),
        ]
        outputs = [
            *ends,
            *ends_of_sums,
            *(found[i] for i in x_places),
        ]
        carries = len(live_carry) + len(sums)
        length = code.length if isinstance(code, Scan) else None
        made = Scan(
            only(inputs, back, outputs),
            n,
            carries,
            length,
            reverse=not (isinstance(code, Scan) and code.reverse),
        )
        first = [count] if length is None else []
        init = [
            *(zero_if_none(cts[k], carry_in[k].aval) for k in live_carry),
            *(np.zeros(const_in[i].aval.shape, const_in[i].aval.dtype) for i in sums),
        ]
        values = [
            *first,
            *args[lead : lead + n],
            *init,
            *args[lead + n + m :],
            *stacks,
            *(cts[k] for k in y_seeds),
        ]
        ys = self.add(made, values)
        results: list[Any] = [None] * len(wants)
        for k, i in enumerate(live_carry):
            results[n + i] = ys[k]
        for k, i in enumerate(sums):
            results[i] = ys[len(live_carry) + k]
        for k, i in enumerate(x_places):
            results[i] = ys[carries + k]
        return [r for r, w in zip(results, wanted, strict=True) if w]

    def _ahead(
        self, code: Scan | While, args: list[Any], cut: Cut, extra: Sequence[Var]
    ) -> tuple[list[Var], Any]:
        """Add the loop with additional results, and return its outputs and the number of steps."""
        m = code.carry
        if isinstance(code, Scan):
            body = only(cut.inputs, cut.ahead, [*cut.outputs, *extra])
            made: Code = Scan(body, code.consts, m, code.length, reverse=code.reverse)
            outs = self.add(made, args)
            return outs, args[0] if code.length is None else code.length
        counter, after = (Var(Aval((), np.dtype(int)), name) for name in ("n", "m"))
        step = added(counter, 1, after, self.line)
        body = only(
            [*cut.inputs, counter],
            [*cut.ahead, step],
            [*cut.outputs[:m], after, *cut.outputs[m:], *extra],
        )
        condition = code.condition
        counted = Program(
            [*condition.inputs, Var(counter.aval, "n")], condition.equations, condition.outputs, (None, None)
        )
        made = While(self.typed(counted, [BOOL]), body, code.consts)
        outs = self.add(made, [*args, np.asarray(0)])
        return [*outs[:m], *outs[m + 1 :]], outs[m]


def _active(body: Program, n: int, m: int, wanted: Flags, cts: Sequence[Any]) -> list[bool]:
    """Return which carries of a loop need cotangents: they depend on what is asked for, and matter."""
    floats = [is_float(v.aval) for v in body.inputs]
    varied = [w and f for w, f in zip(wanted, floats, strict=True)]
    while True:
        found = reaching(body.equations, [v for v, f in zip(body.inputs, varied, strict=True) if f])
        more = [isinstance(y, Var) and y in found for y in body.outputs[:m]]
        new = [*varied[:n], *(a or b for a, b in zip(varied[n:], more, strict=False)), *varied[n + m :]]
        if new == varied:
            break
        varied = new
    useful = [c is not None for c in cts]
    while True:
        back = inputs_for(body, useful)[n : n + m]
        more = [u or b for u, b in zip(useful, back, strict=False)]
        if more == useful[:m]:
            break
        useful = [*more, *useful[m:]]
    return [v and u and f for v, u, f in zip(varied[n:], useful[:m], floats[n:], strict=False)]


def _filled(cut: Cut, wanted: Flags) -> list[Any]:
    """Return the cotangents of the inputs `wanted`, zeros where there is none."""
    avals = [v.aval for v, w in zip(cut.inputs, wanted, strict=True) if w]
    return [zero_if_none(c, a) for c, a in zip(cut.cts, avals, strict=True)]
