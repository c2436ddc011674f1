"""Loop rerolling: equal stretches of a long program become one loop, so that they are compiled once.

A Python loop is staged step by step, and so is the way back through it. What a loop has made step by step is
stacked, and the way back goes along that in reverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from itertools import groupby
from typing import Any

import numpy as np

from fgrad.compiler.stretches import OUTSIDE, TURNS, Carry, Loop, Stretches, size_of
from fgrad.core.aval import Aval, aval_of
from fgrad.core.control_flow import Scan
from fgrad.core.program import Equation, Program, Var, aval_out
from fgrad.core.rewriting.liveness import eliminate
from fgrad.core.rewriting.operations import added

LONG = 600  # equations: shorter programs are compiled as they are, and run as fast as they can
ROUNDS = 6  # loops in loops


def rolled(program: Program) -> Program:
    """Return a program that computes the same, with loops where a long one repeats itself."""
    if len(program.equations) < LONG:
        return program
    found = eliminate(program)
    before = len(found.equations)
    changed = False
    for _ in range(ROUNDS):
        stretches = Stretches(found)
        loops = stretches.find()
        if not loops:
            break
        import_module("fgrad.lax.primitives")  # late: few programs have loops
        found, changed = eliminate(_Writer(stretches, loops).program()), True
    return found if changed and 2 * size_of(found) <= before else program


class _Writer:
    """Writes a program anew, with loops in the place of its stretches."""

    def __init__(self, stretches: Stretches, loops: Sequence[Loop]) -> None:
        self.stretches, self.old = stretches, stretches.program
        self.owner = {i: loop for loop in loops for i in range(loop.start, loop.stop)}
        self.made: list[Any] = []  # equations, and loops, whose equations are made in the end
        self.count = 0
        self.extracts: dict[Any, Var] = {}
        self.cuts: dict[Any, Var] = {}
        self.aliases: dict[Var, Any] = {}  # what loops would hand on as it is

    def program(self) -> Program:
        """Return it."""
        for i, e in enumerate(self.old.equations):
            here = self.owner.get(i)
            if here is not None:
                if i == here.start:
                    self._open(here)
                    self.made.append(here)
                    self._close(here)
                continue
            if e.name == "stack" and len(e.args) >= TURNS and all(a.__class__ is Var for a in e.args):
                whole = self._whole([self._reference(a) for a in e.args])
                if whole is not None:
                    self.made.append(Equation("slice", (whole,), {"index": (slice(None),)}, e.outs, e.line))
                    continue
            self.made.append(e.with_args([self._value(a) for a in e.args]))
        outputs = [self._value(y) for y in self.old.outputs]
        equations = []
        for e in self.made:
            made = self._equation(e) if isinstance(e, Loop) else e
            equations.append(made.with_args([self._now(a) for a in made.args]))
        outputs = [self._now(y) for y in outputs]
        return Program(self.old.inputs, equations, outputs, (self.old.in_tree, self.old.out_tree))

    def _now(self, a: Any) -> Any:
        return self.aliases.get(a, a) if a.__class__ is Var else a

    def _new(self, aval: Aval) -> Var:
        self.count += 1
        return Var(aval, f"r{self.count}")

    def _emit(self, name: str, args: Sequence[Any], aval: Aval, **params: Any) -> Var:
        out = self._new(aval)
        self.made.append(Equation(name, tuple(args), params, (out,), ""))
        return out

    def _place(self, v: Any) -> tuple[Loop, tuple[int, int], int] | None:
        """Return the loop, the output and the step that make a value, if a loop does."""
        place = self.stretches.places.get(v, OUTSIDE) if v.__class__ is Var else OUTSIDE
        index, out = divmod(place, self.stretches.width)
        loop = self.owner.get(index)
        if loop is None:
            return None
        turn, at = divmod(index - loop.start, loop.size)
        return loop, (at, out), turn

    def _value(self, v: Any) -> Any:
        """Return a value where it is used outside of the loop that makes it."""
        found = self._place(v)
        if found is None:
            return v
        loop, key, turn = found
        if v not in self.extracts:
            carry = next((c for c in loop.carries.values() if c.source == key), None)
            if carry and turn == loop.turns - 1:
                self.extracts[v] = loop.lasts.setdefault(carry, self._new(v.aval))
            else:
                whole = self._stack_of(loop, key)
                self.extracts[v] = self._emit("slice", [whole], v.aval, index=(turn,))
        return self.extracts[v]

    def _stack_of(self, loop: Loop, key: Any) -> Var:
        """Return all values of an output, or all that a carry is as steps begin."""
        if key not in loop.stacks:
            aval = self._aval(loop, key)
            loop.stacks[key] = self._new(Aval((loop.turns, *aval.shape), aval.dtype))
        return loop.stacks[key]

    def _reference(self, v: Any) -> tuple[Any, tuple[Any, ...]] | None:
        """Return of which array a value is which part, if it is one."""
        found = self._place(v)
        if found is not None:
            loop, key, turn = found
            if v in self.extracts and loop.sums:
                return None
            if key[0] not in loop.indices:
                return (loop, key), (turn,)
        place = self.stretches.places.get(v) if v.__class__ is Var else None
        e = self.old.equations[place // self.stretches.width] if place is not None else None
        if e is not None and e.name == "slice" and _is_plain(e):
            return e.args[0], e.params["index"]
        return None

    def _whole(self, parts: Sequence[Any]) -> Any:
        """Return the array of which these are the parts along its first axis, None if there is none."""
        if any(p is None for p in parts):
            return None
        base, index = parts[0]
        if any(b is not base and b != base for b, _ in parts) or len({len(i) for _, i in parts}) > 1:
            return None
        indices = [i for _, i in parts]
        moving = [k for k in range(len(index)) if any(i[k] != index[k] for i in indices)]
        if len(moving) != 1 or any(type(i) is not int for i in index[: moving[0] + 1]):
            return None
        k = moving[0]
        if any(type(i[k]) is not int for i in indices):
            return None
        step = indices[1][k] - index[k]
        if not step or any(i[k] != index[k] + j * step for j, i in enumerate(indices)):
            return None
        array = self._stack_of(*base) if isinstance(base, tuple) else self._value(base)
        last = index[k] + len(parts) * step
        moved = slice(index[k], last if last >= 0 else None, None if step == 1 else step)
        if (index[k], step, last) == (0, 1, array.aval.shape[k]) and k == 0 and len(index) == 1:
            return array
        full = (*index[:k], moved, *index[k + 1 :])
        name = array, str(full)
        if name not in self.cuts:
            aval = aval_of(np.broadcast_to(np.zeros((), array.aval.dtype), array.aval.shape)[full])
            self.cuts[name] = self._emit("slice", [array], aval, index=full)
        return self.cuts[name]

    def _stacked(self, xs: Sequence[Any]) -> Any:
        """Return values side by side, along a first axis."""
        parts = [self._reference(x) for x in xs]
        if (whole := self._whole(parts)) is not None:
            return whole
        if (whole := self._before(xs)) is not None:
            return whole
        pieces: list[Any] = []
        i = 0
        while i < len(xs):
            j = i + 1
            while j < len(xs) and _goes_on(parts, i, j):
                j += 1
            whole = self._whole(parts[i:j]) if j - i > 1 else None
            if whole is None:
                pieces += [(x,) for x in xs[i:j]]
            else:
                pieces.append(whole)
            i = j
        aval = aval_out(xs[0])
        arrays: list[Any] = []
        for are_single, group in groupby(pieces, lambda p: isinstance(p, tuple)):
            if are_single:
                some = [self._value(x) for (x,) in group]
                arrays.append(self._emit("stack", some, Aval((len(some), *aval.shape), aval.dtype)))
            else:
                arrays += group
        if len(arrays) == 1:
            return arrays[0]
        return self._emit("concatenate", arrays, Aval((len(xs), *aval.shape), aval.dtype), axis=0)

    def _before(self, xs: Sequence[Any]) -> Any:
        """Return what steps of another loop took from the step before, the first one from outside."""
        places = [self._place(x) for x in xs]
        for turned in (False, True):
            rows = list(zip(places, xs, strict=True))[:: -1 if turned else 1]
            (first, x), (second, _) = rows[0], rows[1]
            if first is not None or second is None or second[2] != 0:
                continue
            loop, key, _ = second
            if len(xs) > loop.turns:
                continue
            if any(p is None or p[:2] != (loop, key) or p[2] != j for j, (p, _) in enumerate(rows[1:])):
                continue
            carry = next((c for c in loop.carries.values() if c.source == key and c.first is x), None)
            if carry is None:
                continue
            parts = [((loop, carry), (j,)) for j in range(len(xs))]
            return self._whole(parts[:: -1 if turned else 1])
        return None

    def _open(self, loop: Loop) -> None:
        """Write what a loop takes, before it."""
        es = self.old.equations
        loop.args = []
        for at, row in enumerate(loop.operands):
            made: list[Any] = []
            if at in loop.indices:
                e = es[loop.start + at]
                outs = [es[loop.start + at + r * loop.size].outs[0] for r in range(loop.turns)]
                parts = [(e.args[0], i) for i in loop.indices[at]]
                plain = all(map(_is_plain, es[loop.start + at : loop.stop : loop.size]))
                whole = self._whole(parts) if plain else None
                if whole is None:
                    x = self._value(e.args[0])
                    each = [
                        self._emit("slice", [x], v.aval, index=i)
                        for v, (_, i) in zip(outs, parts, strict=True)
                    ]
                    aval = outs[0].aval
                    whole = self._emit("stack", each, Aval((loop.turns, *aval.shape), aval.dtype))
                made.append(whole)
            else:
                for x in row:
                    if isinstance(x, tuple) and x[0] == "each":
                        made.append(x[1] if isinstance(x[1], np.ndarray) else self._stacked(x[1]))
                    elif isinstance(x, tuple) and x[0] == "same":
                        made.append(self._value(x[1]))
                    else:
                        made.append(None)
            loop.args.append(made)
        for c in loop.carries.values():
            c.first = self._value(c.first)

    def _close(self, loop: Loop) -> None:
        """Write the sums of parts, after a loop."""
        for at, (carry, _) in loop.sums.items():
            e = self.old.equations[loop.start + at]
            source = loop.operands[at][0]
            whole = self._stack_of(loop, source if isinstance(source, Carry) else source[1:])
            indices = loop.parts[at]
            k = next(k for k, (a, b) in enumerate(zip(indices[0], indices[1], strict=True)) if a != b)
            step = indices[1][k] - indices[0][k]
            ends = indices[0][k], indices[-1][k]
            if step < 0:
                whole = self._emit("slice", [whole], whole.aval, index=(slice(None, None, -1),))
            moved = slice(min(ends), max(ends) + 1, None if abs(step) == 1 else abs(step))
            index = (*indices[0][:k], moved, *indices[0][k + 1 :])
            aval = e.outs[0].aval
            placed = self._emit("slice_backward", [whole], aval, shape=e.params["shape"], index=index)
            source = carry.source
            total = self.stretches.made_by(loop, source, loop.turns - 1)  # type: ignore[arg-type]
            so_far = self.extracts.get(total) or loop.lasts.setdefault(carry, self._new(aval))
            self.extracts[total] = self._new(aval)
            self.made.append(added(so_far, placed, self.extracts[total]))

    def _equation(self, loop: Loop) -> Equation:
        """Return the loop as one operation."""
        consts: dict[Any, Var] = {}
        given: list[tuple[Any, Var]] = []  # what it goes along
        arrays: dict[int, Var] = {}
        carried = {c: Var(self._aval(loop, c), "v") for c in loop.carries.values()}
        known: dict[tuple[int, int], Any] = {}
        body: list[Equation] = []

        def element(whole: Any, aval: Aval) -> Var:
            if id(whole) not in arrays:
                arrays[id(whole)] = Var(aval, "v")
                given.append((whole, arrays[id(whole)]))
            return arrays[id(whole)]

        for at, row in enumerate(loop.operands):
            e = self.old.equations[loop.start + at]
            if at in loop.indices:
                known[at, 0] = element(loop.args[at][0], e.outs[0].aval)
                continue
            if at in loop.parts:
                continue
            args = []
            for x, ready in zip(row, loop.args[at], strict=True):
                if isinstance(x, Carry):
                    args.append(carried[x])
                elif x[0] == "here":
                    if x[1] not in loop.parts:
                        args.append(known[x[1], x[2]])
                elif x[0] == "same":
                    fixed = isinstance(ready, Var)
                    args.append(consts.setdefault(ready, Var(ready.aval, "v")) if fixed else ready)
                else:
                    aval = aval_out(ready)
                    args.append(element(ready, Aval(aval.shape[1:], aval.dtype)))
            if len(args) < len(row):  # what is added is added after the loop
                (known[at, 0],) = args
                continue
            outs = tuple([Var(v.aval, "v") for v in e.outs])
            known.update(((at, k), v) for k, v in enumerate(outs))
            body.append(Equation(e.name, tuple(args), e.params, outs, e.line))

        def value(source: Any) -> Any:
            return carried[source] if isinstance(source, Carry) else known[source]

        for c, _ in loop.sums.values():
            if c in carried and value(c.source) is carried[c] and c not in loop.stacks:
                self.aliases[loop.lasts.setdefault(c, self._new(carried[c].aval))] = self._now(c.first)
                del carried[c]
        results = [*(value(c.source) for c in carried), *map(value, loop.stacks)]
        inputs = [*consts.values(), *carried.values(), *(v for _, v in given)]
        inner = Program(inputs, body, results, (None, None))
        code = Scan(inner, len(consts), len(carried), loop.turns)
        given_args = (*consts, *(c.first for c in carried), *(x for x, _ in given))
        lasts = [loop.lasts.get(c) or self._new(v.aval) for c, v in carried.items()]
        found = (*lasts, *loop.stacks.values())
        return Equation("lax.scan", given_args, {"code": code}, found, self.old.equations[loop.start].line)

    def _aval(self, loop: Loop, source: Any) -> Aval:
        while isinstance(source, Carry):
            source = source.source
        found: Aval = self.old.equations[loop.start + source[0]].outs[source[1]].aval
        return found


def _is_plain(e: Equation) -> bool:
    """Return whether a slice is of a variable, by integers from 0 on and slices."""
    index = e.params["index"]
    return e.args[0].__class__ is Var and all(type(i) is slice or (type(i) is int and i >= 0) for i in index)


def _goes_on(parts: Sequence[Any], i: int, j: int) -> bool:
    """Return whether part `j` goes on as those from `i` do."""
    a, b, c = parts[i], parts[j - 1], parts[j]
    if a is None or b is None or c is None or len({len(x[1]) for x in (a, b, c)}) > 1:
        return False
    if not (a[0] == c[0] if isinstance(a[0], tuple) else a[0] is c[0]):
        return False
    moving = [k for k in range(len(a[1])) if c[1][k] != b[1][k]]
    if len(moving) != 1 or type(c[1][moving[0]]) is not int or type(b[1][moving[0]]) is not int:
        return False
    k = moving[0]
    others = all(a[1][m] == c[1][m] for m in range(len(a[1])) if m != k)
    return others and (j - i == 1 or parts[i + 1][1][k] - a[1][k] == c[1][k] - b[1][k])
