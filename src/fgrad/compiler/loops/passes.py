"""Loop optimizations: loop-invariant code motion, fusion, and fewer carries and stacked results.

They move out of loops what derivatives leave behind, or drop it.

Each pass takes the equations of one program, in which every loop is plain, and returns equations that compute
the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.compiler.loops.cse import deduplicated
from fgrad.compiler.loops.fusion import joined
from fgrad.core.aval import Aval
from fgrad.core.control_flow import Code, Scan, While
from fgrad.core.primitive import ADDS, CONTRACTION, MOVES, TOTAL, TOTAL_OF_FLOATS
from fgrad.core.program import Equation, Program, Var
from fgrad.core.rewriting.effects import has_effect
from fgrad.core.rewriting.liveness import live
from fgrad.core.rewriting.operations import added
from fgrad.core.rewriting.substitution import renewed, substituted

Loop = Scan | While


def optimized(equations: Sequence[Equation], outputs: Sequence[Any]) -> tuple[list[Equation], list[Any]]:
    """Return equations after all passes, and the outputs."""
    made, ends = without_invariant_carries(equations, outputs)
    made = fused(live(made, ends))
    made = handed(live(made, ends), ends)
    made = summed_after(live(made, ends))
    return live(made, ends), ends


def _parts(e: Equation) -> tuple[Any, tuple[Any, ...], tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """Return the code of a loop and its arguments: what comes first, constants, first carries, elements."""
    code = e.params["code"]
    lead = len(e.args) - len(code.body.inputs)
    n, m = code.consts, code.carry
    rest = e.args[lead:]
    return code, e.args[:lead], rest[:n], rest[n : n + m], rest[n + m :]


# ---- carries that stay as they are --------------------------------------------------------------


def without_invariant_carries(
    equations: Sequence[Equation], outputs: Sequence[Any]
) -> tuple[list[Equation], list[Any]]:
    """Make constants of carries that stay as they are, and of results whose elements are those."""
    alias: dict[Var, Any] = {}

    def current(a: Any) -> Any:
        return alias.get(a, a) if isinstance(a, Var) else a

    made = []
    for e in equations:
        e = e.with_args(map(current, e.args))  # noqa: PLW2901
        made.append(_without_invariant_carries(e, alias) if isinstance(e.params.get("code"), Loop) else e)
    return made, list(map(current, outputs))


def _without_invariant_carries(e: Equation, alias: dict[Var, Any]) -> Equation:
    code, lead, consts, init, xs = _parts(e)
    n, m = code.consts, code.carry
    inputs, outputs = code.body.inputs, code.body.outputs
    stays = [y is v for y, v in zip(outputs[:m], inputs[n:], strict=False)]
    elements = dict(zip(inputs[n + m :], xs, strict=True))
    same = [isinstance(y, Var) and y in elements for y in outputs[m:]]
    alias.update((v, a) for v, a, s in zip(e.outs, init, stays, strict=False) if s)
    alias.update((v, elements[y]) for v, y, s in zip(e.outs[m:], outputs[m:], same, strict=True) if s)
    if not any(stays) and not any(same):
        return e
    order = [i for i, s in enumerate(stays) if s] + [i for i, s in enumerate(stays) if not s]
    k = sum(stays)

    def ordered(program: Program) -> list[Var]:
        ins = program.inputs
        return [*ins[:n], *(ins[n + i] for i in order), *ins[n + m :]]

    kept = [*(not s for s in stays), *(not s for s in same)]
    body = renewed(
        ordered(code.body), code.body.equations, [y for y, f in zip(outputs, kept, strict=True) if f]
    )
    made: Code
    if isinstance(code, While):
        goes = code.condition
        made = While(renewed(ordered(goes), goes.equations, goes.outputs), body, n + k)
    else:
        made = Scan(body, n + k, m - k, code.length, reverse=code.reverse)
    args = (*lead, *consts, *(init[i] for i in order), *xs)
    outs = tuple(v for v, f in zip(e.outs, kept, strict=True) if f)
    return Equation(e.name, args, {"code": made}, outs, e.line)


# ---- loop-invariant code motion -----------------------------------------------------------------


def hoisted(code: Scan | While, avals: Sequence[Aval]) -> Program | None:
    """Return a program that computes before a loop what is invariant in it, None if nothing is.

    Only what cannot fail is computed, because the loop might make no step.
    """
    n, body = code.consts, code.body
    if body.regions or getattr(code, "checkpoint", None):
        return None
    fixed = set(body.inputs[:n])
    moved: list[Equation] = []
    for e in body.equations:
        integers = any(v.aval.dtype.kind in "iu" for v in e.outs)
        steady = TOTAL in e.traits or (TOTAL_OF_FLOATS in e.traits and not integers)
        if steady and all(a in fixed for a in e.args if isinstance(a, Var)):
            moved.append(e)
            fixed.update(e.outs)
    outside = {id(e) for e in moved}
    inside = [e for e in body.equations if id(e) not in outside]
    while True:
        used = {a for e in inside for a in e.args if isinstance(a, Var)} | {
            y for y in body.outputs if isinstance(y, Var)
        }
        here = {id(e) for e in inside}
        moves = {id(e) for e in moved if MOVES in e.traits and e.outs[0] in used}
        if moves <= here:
            break
        inside = [e for e in body.equations if id(e) in here | moves]  # such cost nothing, and may grow
    new = [e.outs[0] for e in moved if e.outs[0] in used and id(e) not in here]
    if not new:
        return None
    moved = live(moved, new)
    inner = Program([*body.inputs[:n], *new, *body.inputs[n:]], inside, body.outputs, (None, None))
    made: Code
    if isinstance(code, While):
        c = code.condition
        extra = [Var(v.aval, "v") for v in new]
        goes = Program([*c.inputs[:n], *extra, *c.inputs[n:]], c.equations, c.outputs, (None, None))
        made = While(goes, inner, n + len(new))
    else:
        made = Scan(inner, n + len(new), code.carry, code.length, reverse=code.reverse)
    inputs = [Var(a, "v") for a in avals]
    lead = len(inputs) - len(body.inputs)
    env = dict(zip(body.inputs[:n], inputs[lead:], strict=False))
    before = []
    for e in moved:
        outs = tuple(Var(v.aval, v.name) for v in e.outs)
        args = tuple(env[a] if isinstance(a, Var) else a for a in e.args)
        before.append(Equation(e.name, args, e.params, outs, e.line))
        env.update(zip(e.outs, outs, strict=True))
    args = (*inputs[: lead + n], *(env[v] for v in new), *inputs[lead + n :])
    ends = tuple(Var(a, "v") for a in made.outs)
    return Program(
        inputs, [*before, Equation(code.primitive, args, {"code": made}, ends, "")], ends, (None, None)
    )


# ---- a loop over the results of another one -----------------------------------------------------


def fused(equations: Sequence[Equation]) -> list[Equation]:
    """Fuse two loops in one direction, where the second takes results of the first step by step."""
    found = list(equations)
    i = 0
    while i < len(found):
        if not isinstance(found[i].params.get("code"), Loop) or not _fuse_with_next(found, i):
            i += 1
    return found


def _fuse_with_next(found: list[Equation], i: int) -> bool:
    one = found[i]
    m = one.params["code"].carry
    rows = set(one.outs[m:])
    late = set(one.outs)
    stay: list[Equation] = []
    delayed: list[Equation] = []  # what needs the first loop has to wait for the second
    for j in range(i + 1, len(found)):
        e = found[j]
        if isinstance(e.params.get("code"), Scan) and _goes_along(one, e):
            _, _, consts, init, xs = _parts(e)
            others = [a for a in (*consts, *init, *xs) if isinstance(a, Var) and a not in rows]
            taken = [isinstance(a, Var) and a in rows for a in xs]
            fits = any(taken) and not late.intersection(others)
            if isinstance(one.params["code"], While) and not all(taken):
                fits = False  # it has no elements of its own
            if fits and not any(map(has_effect, (one, e, *delayed))):
                both = joined(one, e, {}, [True] * len(e.outs))
                found[i : j + 1] = [*stay, deduplicated(both), *delayed]
                return True
        if late.intersection(a for a in e.args if isinstance(a, Var)):
            late.update(e.outs)
            delayed.append(e)
        else:
            stay.append(e)
    return False


def _goes_along(one: Equation, two: Equation) -> bool:
    """Return whether two loops make as many steps in the same direction."""
    a, b = one.params["code"], two.params["code"]
    if isinstance(a, Scan):
        if a.checkpoint or b.checkpoint or a.reverse != b.reverse:
            return False
        return a.length == b.length and (a.length is not None or one.args[0] is two.args[0])
    return b.length is None and not b.reverse and _counts(one, two.args[0])


def _counts(e: Equation, v: Any) -> bool:
    """Return whether a variable is the number of steps that a loop has made."""
    code, _, _, init, _ = _parts(e)
    for k, out in enumerate(e.outs[: code.carry]):
        if out is v and not isinstance(init[k], Var) and init[k] == 0:
            maker = [s for s in code.body.equations if code.body.outputs[k] in s.outs]
            counter = code.body.inputs[code.consts + k]
            return bool(maker) and ADDS in maker[0].traits and _is_next(maker[0].args, counter)
    return False


def _is_next(args: Sequence[Any], counter: Var) -> bool:
    a, b = args
    a, b = (b, a) if b is counter else (a, b)
    return a is counter and not isinstance(b, Var) and b == 1


# ---- a carry, and the one before ----------------------------------------------------------------


def handed(equations: Sequence[Equation], outputs: Sequence[Any]) -> list[Equation]:
    """Keep each carry once: what a step made is what the next step took, so the way back hands it on.

    A loop that goes back over both needs no stack of what the steps made.
    """
    pairs: dict[Var, tuple[Var, Any, Equation]] = {}  # stack of new carries -> that of old ones, the last
    for e in equations:
        code = e.params.get("code")
        if isinstance(code, Loop):
            m = code.carry
            stacks = {
                y: v for y, v in zip(code.body.outputs[m:], e.outs[m:], strict=True) if isinstance(y, Var)
            }
            for k, y in enumerate(code.body.outputs[:m]):
                old = code.body.inputs[code.consts + k]
                if isinstance(y, Var) and y in stacks and old in stacks:
                    pairs[stacks[y]] = stacks[old], e.outs[k], e
    final = {y for y in outputs if isinstance(y, Var)}
    made = list(equations)
    for new, (old, last, source) in pairs.items():
        users = [i for i, e in enumerate(made) if _takes(e.args, new)]
        if new not in final and all(_returns(source, made[i], old, new) for i in users):
            for i in users:
                made[i] = _handing(made[i], old, new, last)
    return made


def _returns(source: Equation, e: Equation, old: Var, new: Var) -> bool:
    """Return whether a loop goes back over the results of another one, and nothing else needs `new`."""
    code = e.params.get("code")
    if not isinstance(code, Scan) or code.checkpoint:
        return False
    origin = source.params["code"]
    _, lead, consts, init, xs = _parts(e)
    if not _takes(xs, old) or _takes((*lead, *consts, *init), new):
        return False
    if isinstance(origin, While):
        return code.reverse and code.length is None and _counts(source, lead[0])
    if code.reverse == origin.reverse or code.length != origin.length:
        return False
    return code.length is not None or source.args[0] is e.args[0]


def _takes(args: Sequence[Any], v: Var) -> bool:
    return any(a is v for a in args)


def _handing(e: Equation, old: Var, new: Var, last: Var) -> Equation:
    """Return a loop that takes the elements of `new` from its step before."""
    code, lead, consts, init, xs = _parts(e)
    n, m = code.consts, code.carry
    inputs = code.body.inputs
    before = next(v for a, v in zip(xs, inputs[n + m :], strict=True) if a is old)
    others = [(a, v) for a, v in zip(xs, inputs[n + m :], strict=True) if a is not new]
    twins = [v for a, v in zip(xs, inputs[n + m :], strict=True) if a is new]
    carried = Var(twins[0].aval, "v")
    copies, outputs = substituted(code.body, dict.fromkeys(twins, carried))
    body = renewed(
        [*inputs[: n + m], carried, *(v for _, v in others)],
        copies,
        [*outputs[:m], before, *outputs[m:]],
    )
    made = Scan(body, n, m + 1, code.length, reverse=code.reverse)
    args = (*lead, *consts, *init, last, *(a for a, _ in others))
    outs = (*e.outs[:m], Var(last.aval, "v"), *e.outs[m:])
    return Equation(e.name, args, {"code": made}, outs, e.line)


# ---- sums of products ---------------------------------------------------------------------------


def summed_after(equations: Sequence[Equation]) -> list[Equation]:
    """Sum products of two vectors over the steps by one product of matrices after a loop.

    Where a step adds an outer product to a carry, the loop keeps the factors instead, which are smaller.
    """
    made: list[Equation] = []
    for e in equations:
        code = e.params.get("code")
        if isinstance(code, Scan) and code.length is not None and not code.checkpoint:
            made += _summed_after(e)
        else:
            made.append(e)
    return made


def _summed_after(e: Equation) -> list[Equation]:
    code, lead, consts, init, xs = _parts(e)
    n, m, body = code.consts, code.carry, code.body
    maker = {v: s for s in body.equations for v in s.outs}
    taken = (*(a for s in body.equations for a in s.args), *body.outputs)
    uses = Counter([a for a in taken if isinstance(a, Var)])
    constant = set(body.inputs[:n])
    found: dict[int, Equation] = {}  # carry -> the product that is added to it
    for k in range(m):
        total, y = body.inputs[n + k], body.outputs[k]
        s = maker.get(y) if isinstance(y, Var) else None
        if s is None or ADDS not in s.traits or uses[total] != 1 or uses[y] != 1:
            continue
        factor = next((a for a in s.args if a is not total), None)
        product = maker.get(factor) if isinstance(factor, Var) else None
        if product and CONTRACTION in product.traits and total in s.args:
            pair = [a for a in product.args if isinstance(a, Var) and a not in constant]
            small = len(pair) == 2 and sum(a.aval.size for a in pair) < total.aval.size
            if small and all(a.aval.dtype == total.aval.dtype for a in pair):
                found[k] = product
    if not found:
        return [e]
    stacks: dict[Var, Any] = dict(zip(body.inputs[n + m :], xs, strict=True))
    extra: list[Var] = []
    rows: list[Var] = []
    for product in found.values():
        for a in product.args:
            if a not in stacks:
                extra.append(a)
                rows.append(Var(Aval((code.length, *a.aval.shape), a.aval.dtype), "v"))
                stacks[a] = rows[-1]
    kept = [k for k in range(m) if k not in found]
    inputs = [*body.inputs[:n], *(body.inputs[n + k] for k in kept), *body.inputs[n + m :]]
    outputs = [*(body.outputs[k] for k in kept), *body.outputs[m:], *extra]
    inner = renewed(inputs, live(body.equations, outputs), outputs)
    loop = Equation(
        e.name,
        (*lead, *consts, *(init[k] for k in kept), *xs),
        {"code": Scan(inner, n, len(kept), code.length, reverse=code.reverse)},
        (*(e.outs[k] for k in kept), *e.outs[m:], *rows),
        e.line,
    )
    after = []
    for k, product in found.items():
        params = product.params
        step = next(
            c for c in "tsrqponmlkjihgfedcbauvwxyz" if c not in params["a"] + params["b"] + params["out"]
        )
        whole = {**params, "a": step + params["a"], "b": step + params["b"]}
        factors = tuple(stacks[a] for a in product.args)
        if not isinstance(init[k], Var) and not np.any(init[k]):
            after.append(Equation(product.name, factors, whole, (e.outs[k],), e.line))
        else:
            part = Var(e.outs[k].aval, "v")
            after.append(Equation(product.name, factors, whole, (part,), e.line))
            after.append(added(init[k], part, e.outs[k], e.line))
    return [loop, *after]
