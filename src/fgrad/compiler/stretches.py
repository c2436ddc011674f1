"""Equal stretches of a long program: steps of a loop that was unrolled.

Equations are numbered, equal ones alike, whatever they take and whatever the constants are. Where the numbers
repeat with a period, each operand of a step comes from

- the step itself, or one of the steps before, which makes it a carry of the loop,
- outside, the same in each step: a constant of the loop,
- outside, another one in each step: these are stacked, and the loop goes along them.

Steps of which an operand does not fit end a stretch; a shorter one of the others may remain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fgrad.compiler.decompose import decompose
from fgrad.compiler.fuse import is_fusable
from fgrad.compiler.library import is_native
from fgrad.compiler.pairs import in_pairs
from fgrad.core.aval import Aval
from fgrad.core.control_flow import PLAIN, Branches, Scan, While, programs_of
from fgrad.core.primitive import ADDS, PRIMITIVES
from fgrad.core.program import Equation, Program, Var, aval_out
from fgrad.core.rewriting.effects import has_effect
from fgrad.core.rewriting.keys import Keys
from fgrad.locks import lazy

TURNS = 8  # steps, at least, of a loop
PART = 96  # equations, at least, of which a loop is made
LAG = 4  # steps, at most, that a value waits for its use
STEP = 128  # equations of a step that are compiled in no time, so that loops inside of it stay as they are
WORK = 1 << 15  # elements that a step computes: threads share the work of larger ones outside of loops
OUTSIDE = -(1 << 62)  # the maker of what no equation makes


def size_of(program: Program) -> int:
    """Return how many equations are to be compiled."""
    return sum(map(_weight, program.equations))


def _weight(e: Equation) -> int:
    return 1 + sum(map(size_of, programs_of(e))) if "code" in e.params else 1


# ---- equations as numbers -----------------------------------------------------------------------


class _Numbers:
    """Numbers of equations that are equal but for what they take, and for the integers of indices."""

    def __init__(self) -> None:
        self.keys = Keys()
        self._known: dict[Any, int] = {}
        self._bodies: dict[int, tuple[Any, Any]] = {}
        self._avals: dict[int, int] = {}  # numbers of avals by their id: many variables share one

    def of(self, e: Equation) -> int:
        """Return the number of an equation; of one that must stay where it is, a new one."""
        if has_effect(e) or ("code" in e.params and not isinstance(e.params["code"], PLAIN)):
            key: Any = object()
        else:
            known = self._avals.get
            args = tuple(
                [
                    known(id(a.aval)) or self._aval(a.aval) if a.__class__ is Var else self._kind(a)
                    for a in e.args
                ]
            )
            outs = tuple([known(id(v.aval)) or self._aval(v.aval) for v in e.outs])
            key = e.name, args, outs, self.params(e) if e.params else None
        return self._known.setdefault(key, len(self._known))

    def _aval(self, aval: Aval) -> int:
        number = self._avals[id(aval)] = self._array(aval)
        return number

    def _array(self, x: Any) -> int:
        return 1 + self._known.setdefault((x.shape, x.dtype), len(self._known))

    def params(self, e: Equation) -> Any:
        """Return the key of the parameters, without the integers of an index."""
        if "index" in e.params:
            others = {k: v for k, v in e.params.items() if k != "index"}
            key = self.keys.of
            index = tuple([int if type(i) is int else key(i) for i in e.params["index"]])
            return (key(others) if others else None), index
        if "code" in e.params:
            return self._code(e.params["code"])
        return self.keys.of(e.params)

    def _kind(self, a: Any) -> Any:
        return self._array(a) if isinstance(a, np.ndarray | np.generic) else a.__class__

    def _code(self, code: Any) -> Any:
        known = self._bodies.get(id(code))
        if known is None:
            if isinstance(code, Scan):
                rest: tuple[Any, ...] = (
                    code.consts,
                    code.carry,
                    code.length,
                    code.reverse,
                    repr(code.checkpoint),
                )
            else:
                rest = (code.consts,) if isinstance(code, While) else ()
            key = code.__class__, rest, tuple(map(self._program, code.inner()))
            known = self._bodies[id(code)] = key, code
        return known[0]

    def _program(self, program: Program) -> Any:
        places: dict[Var, int] = {v: i for i, v in enumerate(program.inputs)}

        def key(a: Any) -> Any:
            return (places[a],) if a.__class__ is Var else (self._kind(a), self.keys.of(a))

        rows: list[Any] = [tuple([(v.aval.shape, v.aval.dtype) for v in program.inputs])]
        for e in program.equations:
            code = e.params.get("code")
            params = self._code(code) if isinstance(code, PLAIN) else self.keys.of(e.params)
            rows.append((e.name, tuple(map(key, e.args)), params, len(e.outs)))
            for v in e.outs:
                places[v] = len(places)
        return tuple(rows), tuple(map(key, program.outputs))


def _periods(numbers: np.ndarray[Any, Any]) -> Iterator[tuple[int, int, int]]:
    """Return where `numbers` begin to repeat themselves, after how many, and how many take part."""
    n = len(numbers)
    rank, width = numbers, 1
    while width * TURNS <= n:
        few = int(rank.max()) < 1 << 16  # which are sorted in linear time
        order = np.argsort(rank.astype(np.uint16) if few else rank, kind="stable")
        ranks = rank[order]
        distances = np.diff(order)[ranks[1:] == ranks[:-1]]
        counts = np.bincount(distances[distances <= width], minlength=width + 1)
        for p in np.flatnonzero(counts[width // 2 + 1 :] > 0) + width // 2 + 1:
            if counts[p] < (TURNS - 3) * p:
                continue
            same = np.concatenate([[False], numbers[:-p] == numbers[p:], [False]])
            edges = np.flatnonzero(same[1:] != same[:-1])
            for start, stop in zip(edges[::2], edges[1::2], strict=True):
                if stop - start >= (TURNS - 1) * p:
                    yield int(start), int(p), int(stop - start + p)
        if len(rank) <= width:
            break
        count = int(rank.max()) + 1
        rank = _ranks(rank[:-width].astype(np.int64) * count + rank[width:], count * count)
        width *= 2


def _ranks(x: np.ndarray[Any, Any], limit: int) -> np.ndarray[Any, Any]:
    """Return the place of each of some numbers below a limit among all that there are."""
    if limit > 4 * len(x) + (1 << 16):
        return np.unique(x, return_inverse=True)[1].reshape(-1)
    there = np.zeros(limit, bool)
    there[x] = True
    found: np.ndarray[Any, Any] = (np.cumsum(there) - 1)[x]
    return found


# ---- stretches ----------------------------------------------------------------------------------


class Carry:
    """What a loop hands on: output `out` of equation `at`, or another carry, for the next step."""

    def __init__(self, source: tuple[int, int] | Carry, first: Any) -> None:
        self.source, self.first = source, first


class Loop:
    """Steps of `size` equations from `start`, `turns` of them.

    The operands are known by equation and place: `("here", at, out)`, a `Carry`, `("same", x)`, or
    `("each", xs)`. Where an index is another one in each step, its equation is `("each", ...)` itself.
    """

    def __init__(self, start: int, size: int, turns: int) -> None:
        self.start, self.size, self.turns = start, size, turns
        self.operands: list[list[Any]] = []
        self.indices: dict[int, list[Any]] = {}
        self.carries: dict[Any, Carry] = {}
        self.stacks: dict[Any, Var] = {}  # of an output of an equation, or of a carry as it comes
        self.lasts: dict[Carry, Var] = {}
        self.args: list[list[Any]] = []
        self.parts: dict[int, list[Any]] = {}  # the indices of parts that are added to a carry
        self.sums: dict[int, tuple[Carry, int]] = {}  # the carry, and the equation that adds to it

    @property
    def stop(self) -> int:
        """The equation behind the last step."""
        return self.start + self.size * self.turns

    def carry(self, source: Any, lag: int, first: Sequence[Any], key: Any) -> Carry:
        """Return the carry that brings the value of `lag` steps before."""
        for i in range(lag):
            x = first[lag - 1 - i]
            name = source, id(x) if isinstance(x, Var) else key(x)
            source = self.carries.setdefault(name, Carry(source, x))
        return source  # type: ignore[no-any-return]


class Stretches:
    """The equal stretches of a program, whose equations may be loops that were found before."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.equations = program.equations
        self.numbers = _Numbers()
        # of each value the equation that makes it, times the width, plus which of its outputs it is
        self.width = width = max([len(e.outs) for e in self.equations], default=1) or 1
        self.places = {v: i * width + k for i, e in enumerate(self.equations) for k, v in enumerate(e.outs)}
        self.loops: list[Loop] = []
        places = self.places
        self.starts = np.cumsum([0, *[len(e.args) for e in self.equations]])  # of operands, side by side
        self.makers = np.array(  # of each operand its place
            [
                places.get(a, OUTSIDE) if a.__class__ is Var else OUTSIDE
                for e in self.equations
                for a in e.args
            ],
            np.int64,
        )
        self.sizes = np.cumsum([0, *map(_weight, self.equations)])
        # operands to be looked at: irregular programs stay as they are
        self.effort = 40 * len(self.equations)

    @lazy
    def uses(self) -> Counter[Var]:
        """How often each value is used."""
        found = Counter([a for e in self.equations for a in e.args if a.__class__ is Var])
        found.update([y for y in self.program.outputs if isinstance(y, Var)])
        return found

    def find(self) -> list[Loop]:
        """Return the loops, in the order of the program."""
        found = sorted(
            _periods(np.array([self.numbers.of(e) for e in self.equations])),
            key=lambda f: (f[1] > STEP, f[1] if f[1] > STEP else -f[1], f[0]),
        )
        taken = np.zeros(len(self.equations), bool)
        for start, size, length in found:
            todo = [(start, start + length)]
            while todo and self.effort > 0:
                low, high = todo.pop()
                free = np.flatnonzero(~taken[low:high])
                low = low + int(free[0]) if len(free) else high
                busy = np.flatnonzero(taken[low:high])
                if len(busy):
                    todo.append((low + int(busy[0]), high))
                    high = low + int(busy[0])
                if high - low < TURNS * size or not self._is_long(low, high):
                    continue
                loop, rest = self._loop(low, high, size)
                if loop:
                    self.loops.append(loop)
                    taken[loop.start : loop.stop] = True
                todo += rest
        return sorted(self.loops, key=lambda loop: loop.start)

    def _is_long(self, start: int, stop: int) -> bool:
        """Return whether equations are so many that a loop of them is worth it."""
        return bool(self.sizes[stop] - self.sizes[start] >= PART)

    # ---- finding out what the steps take -------------------------------------------------------

    def _loop(self, low: int, high: int, size: int) -> tuple[Loop | None, list[tuple[int, int]]]:
        """Return a loop of the last steps between two places that fit together, and what remains."""
        turns = (high - low) // size
        first, rest = self._fitting(low, size, turns), []
        if first:  # the steps before it are tried for themselves
            rest = [(low, low + min(first, turns - 1) * size)]
            if turns - first < TURNS or not self._is_long(low + first * size, low + turns * size):
                return None, rest
            low += first * size
            turns -= first
        loop = self._known(low, size, turns)
        if loop is None:
            return None, rest
        shift = self._best_cut(loop)
        if shift:
            other = (high - low - shift) // size
            start = low + shift
            if (
                other >= TURNS
                and self._is_long(start, start + other * size)
                and not self._fitting(start, size, other)
            ):
                loop = self._known(start, size, other) or loop
        return (loop if self._is_worth_it(loop) else None), rest

    def _fitting(self, low: int, size: int, turns: int) -> int:
        """Return the first of the steps from which on all of them take alike what they take."""
        first = 0
        while True:
            before = first
            for at in range(size):
                es = self.equations
                for slot in range(len(es[low + at].args)):
                    first = max(first, self._suffix(low, size, turns, at, slot, first))
                    if turns - first < TURNS:
                        return first
                if "index" in es[low + at].params:
                    first = max(first, self._same_index(low, size, turns, at, first))
            if first == before:
                return first

    def _suffix(self, low: int, size: int, turns: int, at: int, slot: int, first: int) -> int:
        """Return the first step from which on an operand comes from the same place relative to its step."""
        self.effort -= turns - first
        column = self._column(low, size, turns, at, slot)
        before, width = column[first:-1], self.width
        index = int(column[-1]) // width
        if index < low + first * size:  # from outside, as far as that is known
            inside = np.flatnonzero(before >= (low + first * size) * width)
            return first + int(inside[-1]) + 1 if len(inside) else first
        lag = turns - 1 - (index - low) // size
        if lag > LAG:  # it is from outside, for the steps after the one that makes it
            return turns - lag
        others = np.flatnonzero(before != column[-1] - size * width * np.arange(len(before), 0, -1))
        same = first + int(others[-1]) + 1 if len(others) else first
        # what the first of the steps before it take is their own, if it is from outside of the loop
        begin = max(same - lag, first)
        own = column[begin:same] >= (low + begin * size) * width
        return same if own.any() else begin

    def _column(self, low: int, size: int, turns: int, at: int, slot: int) -> np.ndarray[Any, Any]:
        """Return which equations make an operand of all steps, as in `makers`."""
        start = self.starts[low + at] + slot
        step = self.starts[low + size] - self.starts[low]
        return self.makers[start : start + step * (turns - 1) + 1 : step]

    def _same_index(self, low: int, size: int, turns: int, at: int, first: int) -> int:
        """Return the first step from which on an index is the same, or is that of one outside."""
        es = self.equations
        last = es[low + (turns - 1) * size + at]
        index = last.params["index"]
        indices = [e.params["index"] for e in es[low + at : low + turns * size : size]]
        if indices.count(index) == turns:
            return first
        if last.name == "slice_backward":
            r = turns - 1
            while r > first and _moves_on(indices[r - 1], indices[r], indices[-2], indices[-1]):
                r -= 1
            return r
        start = low + first * size
        outside = last.name == "slice"
        if outside:
            outside = int(self._column(low, size, turns, at, 0)[-1]) < start * self.width
        for r in range(turns - 2, first - 1, -1):
            e = es[low + r * size + at]
            if indices[r] != index and not (outside and e.args[0] is last.args[0]):
                return r + 1
        return first

    def _known(self, low: int, size: int, turns: int) -> Loop | None:
        """Return the loop of steps that fit together; None if one of its operands does not after all."""
        loop = Loop(low, size, turns)
        es = self.equations
        key = self.numbers.keys.of
        for at in range(size):
            row: list[Any] = []
            column = es[low + at : low + size * turns : size]
            for slot in range(len(column[0].args)):
                index, out = divmod(int(self._column(low, size, turns, at, slot)[-1]), self.width)
                if index >= low:
                    back, inside = divmod(index - low, size)
                    lag = turns - 1 - back
                    if lag == 0:
                        row.append(("here", inside, out))
                        continue
                    aval = es[low + inside].outs[out].aval
                    first = [self._as(e.args[slot], aval) for e in column[:lag]]
                    if any(x is None for x in first):
                        return None
                    row.append(loop.carry((inside, out), lag, first, key))
                    continue
                xs = [e.args[slot] for e in column]
                last = xs[-1]
                if all(x is last for x in xs):
                    row.append(("same", last))
                elif any(x.__class__ is Var for x in xs):
                    if not all(x.__class__ is Var or isinstance(x, np.ndarray | np.generic) for x in xs):
                        return None
                    row.append(("each", xs))
                elif len({key(x) for x in xs}) == 1:
                    row.append(("same", last))
                else:
                    stacked = _constants(xs, column[0])
                    if stacked is None:
                        return None
                    row.append(("each", stacked))
            loop.operands.append(row)
            if "index" in column[0].params:
                indices = [e.params["index"] for e in column]
                if indices.count(indices[0]) < turns:
                    if column[0].name == "slice_backward":
                        loop.parts[at] = indices
                        continue
                    if isinstance(row[0], Carry) or row[0][0] != "same":
                        return None
                    loop.indices[at] = indices
        return loop if all(self._is_summed(loop, at) for at in loop.parts) else None

    def _is_summed(self, loop: Loop, at: int) -> bool:
        """Find out whether parts of an array are only added to a carry, which can wait until the end."""
        indices, source = loop.parts[at], loop.operands[at][0]
        moving = [k for k, (a, b) in enumerate(zip(indices[0], indices[1], strict=True)) if a != b]
        if not isinstance(source, Carry) and source[0] != "here":
            return False
        if len(moving) != 1 or any(type(i) is not int or i < 0 for i in indices[0][: moving[0] + 1]):
            return False
        users: dict[Any, list[int]] = {}
        for k, row in enumerate(loop.operands):
            for x in row:
                users.setdefault(x if isinstance(x, Carry) else x[1:] if x[0] == "here" else None, []).append(
                    k
                )
        by_source = {c.source: c for c in loop.carries.values()}
        place: Any = (at, 0)
        first: int | None = None
        carry: Carry | None = None
        while True:
            carried = by_source.get(place)
            if carried and (carry or place in users or carried in by_source):
                return False
            turns = loop.turns - bool(carried)  # the last one may be used, as it is the sum
            if any(self.uses[self.made_by(loop, place, r)] != 1 for r in range(turns)):
                return False
            carry = carry or carried
            following = users.get(carried or place, [])
            if len(following) != 1 or ADDS not in self.equations[loop.start + following[0]].traits:
                return False
            (k,) = following
            if k == first:
                break
            first = k if first is None else first
            place = (k, 0)
        if carry is None or any(v.aval.shape == () for v in self.equations[loop.start + at].outs):
            return False
        loop.sums[at] = carry, first
        return True

    def made_by(self, loop: Loop, place: tuple[int, int], turn: int) -> Var:
        """Return the output at `place` of the steps, of one of them."""
        found: Var = self.equations[loop.start + turn * loop.size + place[0]].outs[place[1]]
        return found

    def _as(self, x: Any, aval: Aval) -> Any:
        """Return a first carry, None if it is none of this type."""
        if x.__class__ is Var or isinstance(x, np.ndarray | np.generic):
            return x if aval_out(x) == aval else None
        return np.asarray(x, aval.dtype) if aval.shape == () and aval.dtype.kind in "fc" else None

    def _best_cut(self, loop: Loop) -> int:
        """Return after how many equations to cut, so that a step hands on the least."""
        size = loop.size
        last: dict[tuple[int, int], int] = {}  # from the equation that makes a value, to that which takes it
        for at, row in enumerate(loop.operands):
            for x in row:
                if isinstance(x, Carry):
                    lag, source = 1, x.source
                    while isinstance(source, Carry):
                        lag, source = lag + 1, source.source
                    last[source] = max(last.get(source, 0), at + lag * size)
                elif x[0] == "here":
                    last[x[1], x[2]] = max(last.get((x[1], x[2]), 0), at)
        waiting = [0] * size
        for (at, _), end in last.items():
            for cut in range(at + 1, end + 1):
                waiting[cut % size] += 1
        least = min(waiting)
        return waiting.index(least) if least < waiting[0] else 0

    def _is_worth_it(self, loop: Loop) -> bool:
        """Return whether the steps run as fast as outside of a loop, in one thread and natively."""
        step = self.equations[loop.start : loop.start + loop.size]
        work = sum(v.aval.size for e in step for v in e.outs)
        each = [x[1][0] for row in loop.operands for x in row if isinstance(x, tuple) and x[0] == "each"]
        # to stack them takes longer than a step
        if work > WORK or sum(aval_out(x).size for x in each) > work:
            return False
        made = {v for e in step for v in e.outs}
        given = {a: None for e in step for a in e.args if isinstance(a, Var) and a not in made}
        return _is_native(Program(list(given), step, list(made), (None, None)))


def _moves_on(a: Sequence[Any], b: Sequence[Any], c: Sequence[Any], d: Sequence[Any]) -> bool:
    """Return whether an index is as far from the one before as two others are, along one axis or none."""
    steps = [y - x if type(x) is int else 0 for x, y in zip(a, b, strict=True)]
    others = [y - x if type(x) is int else 0 for x, y in zip(c, d, strict=True)]
    return steps == others and sum(map(bool, steps)) <= 1


def _constants(xs: Sequence[Any], e: Equation) -> np.ndarray[Any, Any] | None:
    """Return constants side by side, numbers in the dtype in which they are used; None if it is not known."""
    if all(isinstance(x, np.ndarray | np.generic) for x in xs):
        return np.stack(xs)
    dtypes = {aval_out(a).dtype for a in (*e.args, *e.outs) if isinstance(a, Var)}
    if len(dtypes) != 1 or PRIMITIVES[e.name].scalar is None:
        return None
    (dtype,) = dtypes
    if dtype.kind not in "fc" or any(type(x) not in {int, float} for x in xs):
        return None
    return np.array(xs, dtype)


def _is_native(program: Program) -> bool:
    """Return whether loops of a program run natively."""
    for e in decompose(in_pairs(program)).program.equations:
        code = e.params.get("code")
        if isinstance(code, Branches | Scan | While):
            if not all(map(_is_native, code.inner())):
                return False
        elif not (is_fusable(e) or is_native(e)):
            return False
    return True
