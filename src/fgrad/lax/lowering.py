"""Programs whose loops and branches are plain: what derivatives and batching make of them is carried out.

`lower` leaves three codes, whose programs are lowered themselves and take exactly the arguments they need:

- `Branches` under `lax.cond`: an index, which is clipped to what there is, and the inputs of every program.
- `Scan` under `lax.scan`: constants, first carries, and what is gone through along first axes.
- `While` under `lax.while_loop`: constants and first carries, for the condition and the body.

A reversed loop becomes one that also stacks what its reverse needs, which is merged with the loop it repeats,
and one in the other direction. Of a `While` it is not known how many steps it makes. So the stacks that it
returns, beside its carries, have the aval `Grown`, which says 0 for the first length; the reverse is a `Scan`
whose length is None, the number of steps its first argument (counted in a carry of the loop), and the stacks
are what it goes through. Only such scans, and `add` in derivatives of third order, ever take such a stack; it
never leaves the program that made it, since within a loop or branch the reverse runs the loop again.

Left to Python (`lax.pullback` and the like with a code that is none of the three) are what a user's function
solves, the reverse of scans that keep few carries (`checkpoint`), second derivatives of loops in which a
function has a derivative of its own, and rules that look at values. The derivatives of a function's own are
dissolved, so a lowered program is not one to differentiate.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.core.aval import Aval, aval_of
from fgrad.core.primitive import ROWS
from fgrad.core.program import PASSES, Equation, Program, Region, Var
from fgrad.core.trace import current, next_level, running
from fgrad.errors import NoValueError
from fgrad.lax.control import Branches, Scan, While
from fgrad.lax.joining import renewed
from fgrad.lax.liveness import inputs_for, live, programs_of, with_programs
from fgrad.lax.merging import merged
from fgrad.lax.splitting import Cut, Joint, is_float, is_zero, reaching
from fgrad.lax.staged import Back, Code, Grown, Mapped, varies
from fgrad.lax.tidying import hoisted, settled, tidied
from fgrad.numpy.indexing import where
from fgrad.transforms.batch import Batch
from fgrad.transforms.stage import aval_out, staged

BOOL = Aval((), np.dtype(bool))
Simplify = Callable[[Program], Program]
Flags = Sequence[bool]


def lower(program: Program, simplify: Simplify = lambda program: program) -> Program:
    """Return a program that computes the same, with plain loops and branches only.

    Args:
        program: a staged function.
        simplify: applied to each program inside of a loop or branch, innermost first.
    """
    with running(()):
        equations, outputs = _finished(*_lowered(program), simplify)
    plain = renewed(program.inputs, equations, outputs)
    _name(plain)
    return Program(plain.inputs, plain.equations, plain.outputs, (program.in_tree, program.out_tree))


def _lowered(program: Program) -> tuple[list[Equation], list[Any]]:
    block = _Block()
    outputs = block.inline(program, program.inputs)
    equations, outputs, _ = merged(block.equations, program.inputs, outputs)
    return live(equations, outputs), outputs


def _finished(
    equations: Sequence[Equation], outputs: Sequence[Any], simplify: Simplify
) -> tuple[list[Equation], list[Any]]:
    """Return equations with every loop tidy, inside too, and every inner program simplified."""

    def inside(p: Program) -> Program:
        return simplify(Program(p.inputs, *_finished(p.equations, p.outputs, simplify), (None, None)))

    found, ends = tidied(equations, outputs)
    made = []
    for e in found:
        code = e.params.get("code")
        if isinstance(code, Branches | Scan | While) and not getattr(code, "checkpoint", None):
            e = with_programs(e, inside)  # noqa: PLW2901 -- the same, finished
        made.append(e)
    return made, ends


def _name(program: Program) -> None:
    """Number the variables of a program and of those in it."""
    names = (f"v{i}" for i in itertools.count())
    for v in program.inputs:
        v.name = next(names)
    for e in program.equations:
        for v in e.outs:
            v.name = next(names)
        if isinstance(e.params.get("code"), Branches | Scan | While):
            for p in programs_of(e.params["code"]):
                _name(p)


def _order(code: Any) -> int:
    """Return how often a code is reversed."""
    order = 0
    while isinstance(code, Back | Mapped):
        order += isinstance(code, Back)
        code = code.code
    return order


def _core(code: Any) -> Any:
    while isinstance(code, Back | Mapped):
        code = code.code
    return code


def _has_regions(program: Program) -> bool:
    return bool(program.regions) or any(
        _has_regions(p) for e in program.equations for p in programs_of(e.params.get("code"))
    )


def _has_checkpoint(code: Any) -> bool:
    return getattr(_core(code), "checkpoint", None) not in (None, False)


def _is_lowerable(code: Any) -> bool:
    if not isinstance(_core(code), Branches | Scan | While):
        return False
    order = _order(code)
    if order and _has_checkpoint(code):
        return False
    return order < 2 or not any(map(_has_regions, programs_of(code)))


class _Block:
    """Equations in the making."""

    def __init__(self, line: str = "", *, raw: bool = False) -> None:
        self.line = line  # of the user, of the equation that is being lowered
        self.raw = raw  # whether programs inside of loops and branches stay as they are
        self.equations: list[Equation] = []
        self.regions: list[Region] = []
        self._moved: dict[Var, Var] = {}  # what swapping the first two axes of a variable gives

    # ---- equations ----------------------------------------------------------------------------

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
            outs = list(map(value, r.outs))
            region = Region(r.row, tuple(map(value, r.args)), r.params, outs, places[r.start])
            region.stop = places[r.stop]
            self.regions.append(region)
        return list(map(value, program.outputs))

    def emit(
        self, name: str, args: Sequence[Any], params: dict[str, Any], avals: Sequence[Aval], line: str = ""
    ) -> list[Var]:
        """Add an equation as it is."""
        outs = tuple(Var(a, "v") for a in avals)
        self.equations.append(Equation(name, tuple(args), params, outs, line))
        return list(outs)

    def apply(self, e: Equation, args: Sequence[Any]) -> list[Any]:
        """Add an equation, lowered, for other arguments."""
        code = e.params.get("code")
        self.line = e.line
        if isinstance(code, Branches | Scan | While):
            return self.plain(code, args)
        if isinstance(code, Back | Mapped) and _is_lowerable(code):
            equations, moved = len(self.equations), dict(self._moved)
            try:
                return self.derived(code, args)
            except NoValueError:  # a derivative of its own looks at values
                del self.equations[equations:]
                self._moved = moved
        avals = [v.aval for v in e.outs]
        if e.name == "add" and all(isinstance(a, Var) for a in args):  # of cotangents of stacked values
            swapped = [self._moved.get(a) for a in args]
            if all(v and isinstance(v.aval, Grown) for v in swapped):
                return [self._swapped(self.apply(e, swapped)[0])]
            if isinstance(args[0].aval, Grown):
                avals = [args[0].aval]
        return list(self.emit(e.name, args, e.params, avals, e.line))

    def plain(self, code: Any, args: Sequence[Any]) -> list[Any]:
        """Add a loop or branch, its programs lowered."""
        name = {Branches: "lax.cond", Scan: "lax.scan", While: "lax.while_loop"}[type(code)]
        if self.raw:
            return list(self.emit(name, args, {"code": code}, code.outs, self.line))
        if isinstance(code, Scan | While) and (outside := hoisted(code, list(map(aval_of_arg, args)))):
            return self.inline(outside, args)
        if isinstance(code, Branches):
            made: Code = Branches([_typed(p, code.outs) for p in code.branches], code.outs)
        elif isinstance(code, While):
            carry = [v.aval for v in code.body.inputs[code.consts :]]
            made = While(_typed(code.condition, [BOOL]), _typed(code.body, carry), code.consts)
        else:
            carry = [v.aval for v in code.body.inputs[code.consts : code.consts + code.carry]]
            made = Scan(_typed(code.body, carry), code.consts, code.carry, code.length, reverse=code.reverse)
        return list(self.emit(name, args, {"code": made}, made.outs, self.line))

    def derived(self, code: Back | Mapped, args: Sequence[Any]) -> list[Any]:
        """Add what a derivative or batching of a loop or branch is."""
        return self._mapped(code, args) if isinstance(code, Mapped) else self._reversed(code, args)

    # ---- reverse ------------------------------------------------------------------------------

    def _reversed(self, code: Back, args: Sequence[Any]) -> list[Any]:
        inner, n = code.code, len(code.wanted)
        primals, wanted = list(args[:n]), list(code.wanted)
        cts = _cotangents(inner, args[n:])
        outside: Program | None = None
        if isinstance(inner, Scan | While):
            outside = hoisted(inner, list(map(aval_of_arg, primals)))
        elif not isinstance(inner, Branches):
            outside = _flat(inner, primals, wanted)
        if outside:
            joint = Joint(outside, wanted, [c is not None for c in cts])
            flat = Program([*joint.inputs, *joint.seeds], joint.equations, joint.cts, (None, None))
            found = self.inline(flat, [*primals, *(c for c in cts if c is not None)])
        elif isinstance(inner, Branches):
            found = self._reversed_branches(inner, primals, wanted, cts)
        else:
            found = self._reversed_loop(inner, primals, wanted, cts)  # type: ignore[arg-type]
        return [_zero_if_none(c, a) for c, a in zip(found, code.outs, strict=True)]

    def _reversed_branches(
        self, code: Branches, args: list[Any], wanted: list[bool], cts: list[Any]
    ) -> list[Any]:
        index, *operands = args
        given = [c is not None for c in cts]
        cuts = []
        for p in code.branches:
            joint = Joint(_cast(p, code.outs), wanted[1:], given)
            cuts.append(Cut(joint, _prepared))
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
            ahead.append(_copy(cut.inputs, cut.ahead, [*cut.outputs, *extra]))
            crossed = [kept.get(i) or Var(all_outs[i], "r") for i in used]
            back.append(_copy([*cut.inputs, *crossed, *cut.seeds], cut.back, _filled(cut, wanted[1:])))
        outs = self.emit("lax.cond", args, {"code": Branches(ahead, all_outs)}, all_outs, self.line)
        avals = [aval_of_arg(a) for a, w in zip(args, wanted, strict=True) if w]
        made = Branches(back, avals)
        seeds = [c for c in cts if c is not None]
        return list(
            self.emit(
                "lax.cond",
                [index, *operands, *(outs[i] for i in used), *seeds],
                {"code": made},
                avals,
                self.line,
            )
        )

    def _reversed_loop(
        self, code: Scan | While, args: list[Any], wanted: list[bool], cts: list[Any]
    ) -> list[Any]:
        n, m = code.consts, code.carry
        lead = len(args) - len(code.body.inputs)
        wanted = wanted[lead:]
        body = _cast(code.body, [v.aval for v in code.body.inputs[n : n + m]])
        active = _active(body, n, m, wanted, cts)
        wants = [*wanted[:n], *active, *wanted[n + m :]]
        joint = Joint(body, wants, [*active, *(c is not None for c in cts[m:])])
        cut = Cut(joint, _prepared)
        every = iter(cut.cts)
        found = [next(every) if w else None for w in wants]
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
        block = _Block(self.line)
        block.equations = list(cut.back)
        added = [
            block.emit("add", [t, found[i]], {}, [t.aval], self.line)[0]
            for t, i in zip(totals, sums, strict=True)
        ]
        ends = [_zero_if_none(found[n + k], carry_in[k].aval) for k in live_carry]
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
            *added,
            *(found[i] for i in x_places),
        ]
        carries = len(live_carry) + len(sums)
        length = code.length if isinstance(code, Scan) else None
        made = Scan(
            _copy(inputs, block.equations, outputs),
            n,
            carries,
            length,
            reverse=not (isinstance(code, Scan) and code.reverse),
        )
        first = [count] if length is None else []
        init = [
            *(_zero_if_none(cts[k], carry_in[k].aval) for k in live_carry),
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
        ys = self.emit("lax.scan", values, {"code": made}, made.outs, self.line)
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
            body = _copy(cut.inputs, cut.ahead, [*cut.outputs, *extra])
            made: Code = Scan(body, code.consts, m, code.length, reverse=code.reverse)
            outs = self.emit("lax.scan", args, {"code": made}, made.outs, self.line)
            return outs, args[0] if code.length is None else code.length
        counter, after = (Var(Aval((), np.dtype(int)), name) for name in ("n", "m"))
        step = Equation("add", (counter, 1), {}, (after,), self.line)
        body = _copy(
            [*cut.inputs, counter],
            [*cut.ahead, step],
            [*cut.outputs[:m], after, *cut.outputs[m:], *extra],
        )
        condition = code.condition
        counted = Program(
            [*condition.inputs, Var(counter.aval, "n")], condition.equations, condition.outputs, (None, None)
        )
        made = While(_typed(counted, [BOOL]), body, code.consts)
        outs = self.emit("lax.while_loop", [*args, np.asarray(0)], {"code": made}, made.outs, self.line)
        return [*outs[:m], *outs[m + 1 :]], outs[m]

    # ---- batching -----------------------------------------------------------------------------

    def _mapped(self, code: Mapped, args: Sequence[Any]) -> list[Any]:
        inner = code.code
        if isinstance(inner, Scan):
            return self._mapped_scan(inner, code, args)
        if isinstance(inner, While):
            return self._mapped_while(inner, code, args)
        if isinstance(inner, Branches):
            return self._mapped_branches(inner, code, args)
        program = _flat(inner, args, code.mapped, examples=True)
        return self.inline(_mapped_program(program, code.mapped, code.which, code.size), args)

    def _repeated(self, x: Any, size: int) -> Any:
        if not isinstance(x, Var):
            return np.broadcast_to(x, (size, *np.shape(x)))
        return self._staged(lambda v: np.broadcast_to(v, (size, *v.shape)), x)

    def _staged(self, fun: Callable[..., Any], *args: Any) -> Any:
        program, _ = staged(lambda *xs: [fun(*xs)], list(map(aval_of_arg, args)))
        return self.inline(program, args)[0]

    def _op(self, name: str, *args: Any, **params: Any) -> Any:
        aval = ROWS[name].shape(*map(aval_of_arg, args), **params)  # type: ignore[misc]
        return self.emit(name, args, params, [aval], self.line)[0]

    def _swapped(self, x: Any) -> Any:
        """Return `x` with its first two axes swapped."""
        if not isinstance(x, Var):
            return np.swapaxes(x, 0, 1)
        if x not in self._moved:
            axes = (1, 0, *range(2, x.aval.ndim))
            made = self._op("transpose", x, axes=axes)
            self._moved[x], self._moved[made] = made, x
        return self._moved[x]

    def _spread(self, args: list[Any], mapped: list[bool], which: Flags, start: int, size: int) -> None:
        """Repeat first carries that are the same for all examples, but will not stay so."""
        for k, w in enumerate(which):
            if w and not mapped[start + k]:
                args[start + k] = self._repeated(args[start + k], size)
                mapped[start + k] = True

    def _mapped_scan(self, inner: Scan, code: Mapped, given: Sequence[Any]) -> list[Any]:
        n, m, size = inner.consts, inner.carry, code.size
        lead = len(given) - len(inner.body.inputs)
        which, mapped, args = code.which, list(code.mapped), list(given)
        self._spread(args, mapped, which[:m], lead + n, size)
        for i in range(lead + n + m, len(args)):
            if mapped[i]:
                args[i] = self._swapped(args[i])
        body = _cast(inner.body, inner.outs[:m])
        whole = _mapped_program(body, mapped[lead:], which, size)
        if lead and mapped[0]:
            outs = self._masked_scan(inner, whole, args)
        else:
            made = Scan(whole, n, m, inner.length, reverse=inner.reverse, checkpoint=inner.checkpoint)
            outs = self.plain(made, args)
        return [
            self._swapped(y) if i >= m and w else y for i, (y, w) in enumerate(zip(outs, which, strict=True))
        ]

    def _masked_scan(self, inner: Scan, whole: Program, args: Sequence[Any]) -> list[Any]:
        """Add a scan in which each example makes its own number of steps, the first argument."""
        n, m = inner.consts, inner.carry
        total = self._staged(lambda counts: np.max(counts, initial=0), args[0])

        def step(counts: Any, *values: Any) -> list[Any]:
            consts, old, i, xs = values[:n], values[n : n + m], values[n + m], values[n + m + 1 :]
            outs = whole.run([*consts, *old, *xs])
            goes = i < counts
            new = [_where(goes, a, b) for a, b in zip(outs, old, strict=False)]
            return [*new, i - 1 if inner.reverse else i + 1, *(_where(goes, y, 0 * y) for y in outs[m:])]

        avals = [v.aval for v in whole.inputs]
        avals.insert(n + m, Aval((), np.dtype(int)))
        masked, _ = staged(step, [aval_of_arg(args[0]), *avals])
        start = self._staged(lambda k: k - 1, total) if inner.reverse else np.asarray(0)
        made = Scan(masked, n + 1, m + 1, None, reverse=inner.reverse)
        values = [total, args[0], *args[1 : 1 + n + m], start, *args[1 + n + m :]]
        outs = self.plain(made, values)
        return [*outs[:m], *outs[m + 1 :]]

    def _mapped_while(self, inner: While, code: Mapped, given: Sequence[Any]) -> list[Any]:
        n, m, size = inner.consts, inner.carry, code.size
        which, mapped, args = code.which, list(code.mapped), list(given)
        self._spread(args, mapped, which[:m], n, size)
        body = _mapped_program(_cast(inner.body, inner.outs[:m]), mapped, which, size)
        if not any(varies(inner.condition, mapped)):
            condition = _mapped_program(inner.condition, mapped, [False], size)
            outs = self.plain(While(condition, body, n), args)
        else:
            goes = _mapped_program(_cast(inner.condition, [BOOL]), mapped, [True], size)
            outs = self._masked_while(goes, body, n, args)
        return [
            self._swapped(y) if i >= m and w else y for i, (y, w) in enumerate(zip(outs, which, strict=True))
        ]

    def _masked_while(self, goes: Program, body: Program, n: int, args: list[Any]) -> list[Any]:
        """Add a loop until no example goes on; an additional carry says which ones do."""
        m = len(args) - n

        def step(*values: Any) -> list[Any]:
            consts, old, go = values[:n], values[n:-1], values[-1]
            outs = body.run([*consts, *old])
            new = [_where(go, a, b) for a, b in zip(outs, old, strict=False)]
            return [*new, np.logical_and(goes.run([*consts, *new])[0], go), *outs[m:]]

        avals = [*(v.aval for v in body.inputs), aval_out(goes.outputs[0])]
        masked, _ = staged(step, avals)
        proceed, _ = staged(lambda *values: [np.any(values[-1])], avals)
        outs = self.plain(While(proceed, masked, n), [*args, self.inline(goes, args)[0]])
        return [*outs[:m], *outs[m + 1 :]]

    def _mapped_branches(self, inner: Branches, code: Mapped, args: Sequence[Any]) -> list[Any]:
        index, *operands = args
        mapped = code.mapped[1:]
        programs = [
            _mapped_program(_cast(p, inner.outs), mapped, code.which, code.size) for p in inner.branches
        ]
        if not code.mapped[0]:
            return self.plain(Branches(programs, code.outs), args)
        outs = [self.inline(p, operands) for p in programs]
        chosen = []
        for ys in zip(*outs, strict=True):
            y = ys[-1]
            for k in range(len(ys) - 2, -1, -1):
                y = self._staged(lambda i, a, b, k=k: _where(i <= k, a, b), index, ys[k], y)
            chosen.append(y)
        return chosen


def aval_of_arg(a: Any) -> Aval:
    """Return the aval of an argument of an equation."""
    return a.aval if isinstance(a, Var) else aval_of(a)


def _cotangents(code: Code, given: Sequence[Any]) -> list[Any]:
    """Return the cotangent of each output, None for one that has none or zero."""
    cts = iter(given)
    found = [next(cts) if is_float(a) else None for a in code.outs]
    return [None if c is None or is_zero(c) else c for c in found]


def _zero_if_none(x: Any, aval: Aval) -> Any:
    return np.zeros(aval.shape, aval.dtype) if x is None else x


def _flat(code: Code, args: Sequence[Any], varying: Flags, *, examples: bool = False) -> Program:
    """Return the program of a code for arguments like these; those that do not vary stay if constant."""
    avals = [aval_of_arg(a) for a in args]
    if examples:
        avals = [Aval(a.shape[1:], a.dtype) if v else a for a, v in zip(avals, varying, strict=True)]
    inputs = [Var(a, "v") for a in avals]
    values = [
        a if not v and not isinstance(a, Var) else i for a, v, i in zip(args, varying, inputs, strict=True)
    ]
    raw = any(map(_has_regions, programs_of(code)))
    block = _Block(raw=raw)
    outputs = block.derived(code, values)  # type: ignore[arg-type]
    if raw:  # a function has a derivative of its own, which what follows would dissolve
        return Program(inputs, block.equations, outputs, (None, None), block.regions)
    equations, outputs, _ = merged(block.equations, inputs, outputs)
    equations, outputs = settled(live(equations, outputs), outputs)
    return Program(inputs, live(equations, outputs), outputs, (None, None))


def _cast(program: Program, avals: Sequence[Aval]) -> Program:
    """Return a program whose first outputs are of these types, and whose constants are arrays."""
    extra, outputs = [], []
    for i, y in enumerate(program.outputs):
        aval = avals[i] if i < len(avals) else aval_out(y)
        if not isinstance(y, Var):
            y = np.asarray(y, aval.dtype)  # noqa: PLW2901 -- the same, typed
        elif y.aval.dtype != aval.dtype:
            v = Var(Aval(y.aval.shape, aval.dtype), "v")
            extra.append(Equation("convert", (y,), {"dtype": aval.dtype}, (v,), ""))
            y = v  # noqa: PLW2901 -- likewise
        outputs.append(y)
    return Program(
        program.inputs, [*program.equations, *extra], outputs, (None, None), list(program.regions.values())
    )


def _typed(program: Program, avals: Sequence[Aval]) -> Program:
    """Return a lowered program whose first outputs are of these types."""
    cast = _cast(program, avals)
    equations, outputs = _lowered(cast)
    return _copy(cast.inputs, equations, outputs)


def _copy(inputs: Sequence[Var], equations: Sequence[Equation], outputs: Sequence[Any]) -> Program:
    """Return the program of these with variables of its own, and only what is needed."""
    return renewed(inputs, live(equations, outputs), outputs)


def _prepared(
    equations: Sequence[Equation], inputs: Sequence[Var], ends: Sequence[Any], boundary: int
) -> tuple[list[Equation], list[Any], int]:
    """Return a joint program lowered, what it repeats once."""
    block = _Block()
    outputs = block.inline(Program(inputs, equations, ends, (None, None)), inputs, boundary)
    return merged(block.equations, inputs, outputs, block.boundary)


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
    return [_zero_if_none(c, a) for c, a in zip(cut.cts, avals, strict=True)]


def _mapped_program(program: Program, mapped: Flags, which: Flags, size: int) -> Program:
    """Return a program for many examples: those of the inputs `mapped`, and of the outputs `which`."""
    avals = [
        Aval((size, *v.aval.shape), v.aval.dtype) if f else v.aval
        for v, f in zip(program.inputs, mapped, strict=True)
    ]

    def run(*values: Any) -> list[Any]:
        trace = Batch(next_level(), size)
        with running((*current().traces, trace)):
            outs = program.run([trace.box(v) if f else v for v, f in zip(values, mapped, strict=True)])
        return [trace.unbox(y) if w else y for y, w in zip(outs, which, strict=True)]

    made, captured = staged(run, avals)
    if captured:
        raise RuntimeError("a program used a value from outside of it")
    return made


def _where(condition: Any, a: Any, b: Any) -> Any:
    """Return `a` in the examples where the condition holds, else `b`."""
    shape = np.shape(condition)
    axes = max(np.ndim(a), np.ndim(b)) - len(shape)
    return where(condition.reshape((*shape, *(1,) * axes)) if axes else condition, a, b)


PASSES.append(lower)
