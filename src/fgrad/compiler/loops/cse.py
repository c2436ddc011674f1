"""Common subexpressions among loops and branches: those that repeat others are merged with them.

A derivative runs its loop anew, with results that the reverse needs. Equal computations get equal numbers,
also those inside of loops; two loops with a result of one number are one loop with the results of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fgrad.compiler.loops.fusion import joined
from fgrad.core.control_flow import Branches, Scan, While
from fgrad.core.program import Equation, Program, Var
from fgrad.core.rewriting.effects import has_effect
from fgrad.core.rewriting.keys import Keys
from fgrad.core.rewriting.liveness import loop_inputs, with_programs

PLAIN = (Branches, Scan, While)


class ValueNumbers:
    """Value numbering: equal numbers are equal computations of equal values."""

    def __init__(self) -> None:
        self._ids: dict[Any, int] = {}
        self._key = Keys().of

    def of(self, key: Any) -> int:
        """Return the number of a hashable key."""
        return self._ids.setdefault(key, len(self._ids))

    def value(self, env: Mapping[Var, int], a: Any) -> int:
        """Return the number of an argument."""
        return env[a] if isinstance(a, Var) else self.of(("constant", self._key(a)))

    def equation(self, e: Equation, env: Mapping[Var, int], depth: int = 0) -> list[int]:
        """Return the numbers of the outputs of an equation."""
        args = [self.value(env, a) for a in e.args]
        code = e.params.get("code")
        if isinstance(code, Branches):
            found = [self.program(p, args[1:], depth + 1) for p in code.branches]
            dtypes = [a.dtype.str for a in code.outs]
            return [self.of(("cond", args[0], *each)) for each in zip(*found, dtypes, strict=True)]
        if isinstance(code, Scan | While) and not getattr(code, "checkpoint", None):
            return self._loop(code, args, depth + 1)
        whole = self.of((e.name, *args, *((k, self._key(v)) for k, v in sorted(e.params.items()))))
        return [self.of((whole, i)) for i in range(len(e.outs))]

    def program(self, program: Program, inputs: Sequence[int], depth: int) -> list[int]:
        """Return the numbers of the outputs of a program whose inputs have these."""
        env = dict(zip(program.inputs, inputs, strict=True))
        for e in program.equations:
            env.update(zip(e.outs, self.equation(e, env, depth), strict=True))
        return [self.value(env, y) for y in program.outputs]

    def _loop(self, code: Scan | While, args: Sequence[int], depth: int) -> list[int]:
        n, m = code.consts, code.carry
        lead = len(args) - len(code.body.inputs)
        init = args[lead + n : lead + n + m]
        kind: tuple[Any, ...] = ("while",)
        if isinstance(code, Scan):
            kind = ("scan", code.length, code.reverse, *args[:lead])
        done: dict[tuple[bool, ...], tuple[Any, list[int]]] = {}
        found = []
        for i in range(len(code.outs)):
            flags = loop_inputs(code, [k == i for k in range(len(code.outs))])
            carry = tuple(flags[n : n + m])
            if carry not in done:
                # the carries that count are known by their order among themselves, the same in every copy
                order = iter(range(m))
                tokens = [self.of(("carry", depth, next(order))) if c else -1 for c in carry]
                xs = [self.of(("element", depth, x)) for x in args[lead + n + m :]]
                inputs = [*args[lead : lead + n], *tokens, *xs]
                ys = self.program(code.body, inputs, depth)
                goes = self.program(code.condition, inputs, depth) if isinstance(code, While) else []
                steps = [(a, y) for a, y, c in zip(init, ys[:m], carry, strict=True) if c]
                done[carry] = (*kind, *goes, *steps), ys
            key, ys = done[carry]
            place = sum(carry[:i]) if i < m else ys[i]
            found.append(self.of((key, i < m, place)))
        return found


class _Merging:
    """One pass over equations in order."""

    def __init__(self, inputs: Sequence[Var]) -> None:
        self.numbers = ValueNumbers()
        self.env = {v: self.numbers.of(("input", i)) for i, v in enumerate(inputs)}
        self.first = {k: v for v, k in self.env.items()}  # number -> the variable that has it
        self.place = dict.fromkeys(inputs, -1)  # variable -> the place of its equation
        self.alias: dict[Var, Var] = {}
        self.made: list[Equation] = []

    def current(self, a: Any) -> Any:
        """Return what stands for an argument now."""
        return self.alias.get(a, a) if isinstance(a, Var) else a

    def add(self, e: Equation, *, everything: bool) -> None:
        """Add an equation, or give its outputs those of another one."""
        e = e.with_args(map(self.current, e.args))
        ids = self.numbers.equation(e, self.env)
        self.env.update(zip(e.outs, ids, strict=True))
        is_code = isinstance(e.params.get("code"), PLAIN)
        if e.outs and (is_code or everything) and not has_effect(e):
            if all(k in self.first for k in ids):
                self.alias.update((v, self.first[k]) for v, k in zip(e.outs, ids, strict=True))
                return
            if is_code and self._unite(e, ids):
                return
        self._known(e.outs, ids, len(self.made))
        self.made.append(e)

    def _known(self, outs: Sequence[Var], ids: Sequence[int], at: int) -> None:
        for v, k in zip(outs, ids, strict=True):
            self.place[v] = at
            self.first.setdefault(k, v)

    def _unite(self, e: Equation, ids: Sequence[int]) -> bool:
        """Put `e` to an earlier equation that computes some of the same, if there is one."""
        for k in ids:
            at = self.place[self.first[k]] if k in self.first else -1
            if at < 0 or type(self.made[at].params.get("code")) is not type(e.params["code"]):
                continue
            args = self._before(e.args, at)
            other = self.made[at]
            if args is None or has_effect(other):
                continue
            new = [k not in self.first for k in ids]
            e = e.with_args(args)
            both = deduplicated(joined(other, e, self._same(other, e), new))
            self.made[at] = both
            self.env.update((v, self.numbers.of(("unasked", v))) for v in both.outs if v not in self.env)
            for v, number, n in zip(e.outs, ids, new, strict=True):
                if n:
                    self._known([v], [number], at)
                else:
                    self.alias[v] = self.first[number]
            return True
        return False

    def _same(self, one: Equation, two: Equation) -> dict[int, int]:
        """Return which carries of a loop are which of another one."""
        a, b = one.params["code"], two.params["code"]
        if isinstance(a, Branches):
            return {}
        places = {self.env[v]: i for i, v in reversed(list(enumerate(one.outs[: a.carry])))}
        return {i: places[k] for i, k in enumerate(self.env[v] for v in two.outs[: b.carry]) if k in places}

    def _before(self, args: Sequence[Any], at: int) -> tuple[Any, ...] | None:
        """Return arguments as they are known before an equation, None where one is not."""
        found = []
        for a in args:
            same = self.first.get(self.env[a], a) if isinstance(a, Var) else a
            if isinstance(same, Var) and self.place[same] >= at:
                return None
            found.append(same)
        return tuple(found)


def deduplicated(e: Equation) -> Equation:
    """Return a loop or branch whose programs compute nothing twice."""
    return with_programs(e, _compact)


def _compact(program: Program) -> Program:
    equations, outputs, _ = merged(program.equations, program.inputs, program.outputs, everything=True)
    return Program(program.inputs, equations, outputs, (None, None))


def merged(
    equations: Sequence[Equation],
    inputs: Sequence[Var],
    outputs: Sequence[Any],
    boundary: int = 0,
    *,
    everything: bool = False,
) -> tuple[list[Equation], list[Any], int]:
    """Return equations in which no loop or branch repeats another, the outputs, and where `boundary` is now.

    A repetition takes the place of what it repeats, earlier. Other equations are looked at if `everything`.
    """
    merging = _Merging(inputs)
    place = 0
    for i, e in enumerate(equations):
        if i == boundary:
            place = len(merging.made)
        merging.add(e, everything=everything)
    if boundary >= len(equations):
        place = len(merging.made)
    return merging.made, list(map(merging.current, outputs)), place
