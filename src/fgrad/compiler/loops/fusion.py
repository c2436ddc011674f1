"""Fusion of two loops, or of two branches, into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fgrad.core.control_flow import Branches, Code, Scan, While
from fgrad.core.program import Equation, Var
from fgrad.core.rewriting.keys import Keys
from fgrad.core.rewriting.liveness import chosen
from fgrad.core.rewriting.substitution import renewed, substituted

Flags = Sequence[bool]


class Union:
    """Inputs of two bodies: those of the first, and of the second what the first has not."""

    def __init__(self) -> None:
        self.args: list[Any] = []
        self.inputs: list[Var] = []
        self._places: dict[Any, int] = {}
        self._key = Keys().of

    def take(self, args: Sequence[Any], inputs: Sequence[Var]) -> dict[Var, Var]:
        """Add inputs, and return what they are called."""
        sub = {}
        for a, v in zip(args, inputs, strict=True):
            key = a if isinstance(a, Var) else self._key(a)
            if key not in self._places:
                self._places[key] = len(self.args)
                self.args.append(a)
                self.inputs.append(Var(v.aval, v.name))
            sub[v] = self.inputs[self._places[key]]
        return sub


def joined(one: Equation, two: Equation, same: dict[int, int], new: Flags) -> Equation:
    """Return an equation that does what both do: the outputs of `one`, and those of `two` that are `new`.

    Args:
        one: a loop or branch.
        two: likewise; a loop of as many steps in the same direction. It may take rows that `one` makes.
        same: which carry of `two` is which of `one`.
        new: which outputs of `two` are asked for.
    """
    if isinstance(one.params["code"], Branches):
        return _joined_branches(one, two, new)
    return _joined_loops(one, two, same, new)


def _joined_branches(one: Equation, two: Equation, new: Flags) -> Equation:
    a, b = one.params["code"], two.params["code"]
    union = Union()
    subs = [
        (union.take(one.args[1:], p.inputs), union.take(two.args[1:], q.inputs))
        for p, q in zip(a.branches, b.branches, strict=True)
    ]
    programs = []
    for p, q, (sp, sq) in zip(a.branches, b.branches, subs, strict=True):
        first, ys = substituted(p, dict(sp))
        second, zs = substituted(q, dict(sq))
        programs.append(renewed(union.inputs, [*first, *second], [*ys, *chosen(zs, new)]))
    code = Branches(programs, [*a.outs, *chosen(b.outs, new)])
    outs = (*one.outs, *chosen(two.outs, new))
    return Equation(one.name, (one.args[0], *union.args), {"code": code}, outs, one.line)


def _joined_loops(one: Equation, two: Equation, same: dict[int, int], new: Flags) -> Equation:
    a, b = one.params["code"], two.params["code"]
    (n1, m1), (n2, m2) = (a.consts, a.carry), (b.consts, b.carry)
    lead = len(one.args) - len(a.body.inputs)
    x1, x2 = one.args[lead:], two.args[len(two.args) - len(b.body.inputs) :]
    in1, in2 = a.body.inputs, b.body.inputs
    consts, xs = Union(), Union()
    sub1: dict[Var, Any] = dict(consts.take(x1[:n1], in1[:n1]))
    sub2: dict[Var, Any] = dict(consts.take(x2[:n2], in2[:n2]))
    carry1 = [Var(v.aval, v.name) for v in in1[n1 : n1 + m1]]
    sub1.update(zip(in1[n1:], carry1, strict=False))
    apart = [i not in same for i in range(m2)]
    carry2 = [Var(v.aval, v.name) for v in chosen(in2[n2 : n2 + m2], apart)]
    sub2.update(zip(chosen(in2[n2 : n2 + m2], apart), carry2, strict=True))
    sub2.update((in2[n2 + i], carry1[j]) for i, j in same.items())
    sub1.update(xs.take(x1[n1 + m1 :], in1[n1 + m1 :]))
    first, ys = substituted(a.body, sub1)
    rows = dict(zip(one.outs[m1:], ys[m1:], strict=True))
    taken = [isinstance(x, Var) and x in rows for x in x2[n2 + m2 :]]
    sub2.update((v, rows[x]) for x, v, t in zip(x2[n2 + m2 :], in2[n2 + m2 :], taken, strict=True) if t)
    others = [not t for t in taken]
    sub2.update(xs.take(chosen(x2[n2 + m2 :], others), chosen(in2[n2 + m2 :], others)))
    second, zs = substituted(b.body, sub2)
    inputs = [*consts.inputs, *carry1, *carry2, *xs.inputs]
    extra = chosen(zs[m2:], new[m2:])
    body = renewed(inputs, [*first, *second], [*ys[:m1], *chosen(zs[:m2], apart), *ys[m1:], *extra])
    code: Code
    if isinstance(a, While):
        goes, truth = substituted(a.condition, _renamed(a, sub1))
        code = While(renewed(inputs, goes, truth), body, len(consts.inputs))
    else:
        code = Scan(body, len(consts.inputs), m1 + len(carry2), a.length, reverse=a.reverse)
    # a carry of the second may end as something that is known otherwise: then nobody asks for it
    ends = [v if f else Var(v.aval, v.name) for v, f in zip(two.outs[:m2], new, strict=False)]
    return Equation(
        one.name,
        (
            *one.args[:lead],
            *consts.args,
            *x1[n1 : n1 + m1],
            *chosen(x2[n2 : n2 + m2], apart),
            *xs.args,
        ),
        {"code": code},
        (*one.outs[:m1], *chosen(ends, apart), *one.outs[m1:], *chosen(two.outs[m2:], new[m2:])),
        one.line,
    )


def _renamed(loop: While, sub: dict[Var, Any]) -> dict[Var, Any]:
    """Return for the inputs of the condition what the body's are called."""
    return {c: sub[v] for c, v in zip(loop.condition.inputs, loop.body.inputs, strict=True)}
