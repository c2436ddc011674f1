"""The adjoint of a kernel, as source: a forward sweep that records, and the reverse sweep.

Its parameters are those of the kernel, then a cotangent for every floating output, then three stacks: of
floats, integers and complex numbers. It returns a cotangent for each parameter asked for, and the stacks,
which may have grown. As it is compiled, it is given the arrays for cotangents as well, and no stack that it
does not use.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from numba import types

from fgrad.adjoints import emission, syntax
from fgrad.adjoints.activity import active_names
from fgrad.adjoints.indices import arranged
from fgrad.adjoints.order import is_free, taken_once
from fgrad.adjoints.overwriting import Bounds
from fgrad.adjoints.recording import Recording, shapes_read
from fgrad.adjoints.reversal import Reversal
from fgrad.adjoints.snapshots import Snapshots
from fgrad.adjoints.stacks import STACKS, stack_of
from fgrad.adjoints.strips import ANY_ORDER
from fgrad.adjoints.sums import Sums
from fgrad.adjoints.syntax import Alloc, Assign, For, Function, If, Opaque, Raise, Stmt, Store, View, While
from fgrad.adjoints.zeros import Zeros
from fgrad.compat.numba import checks_indices

_ALLOCATION = re.compile(r" {4}\w+ = (np\.(empty|zeros)\(|\w+\.copy\(\))")


class Adjoint(Snapshots):
    """The source of the adjoint of a function, with respect to some of its parameters."""

    def __init__(self, function: Function, wrt: Sequence[str], given: Sequence[str] | None = None) -> None:
        self.function = function
        self.wrt: list[str] = list(wrt)
        floating = [n for n in function.outputs if syntax.is_floating(function.types[n])]
        self.given: list[str] = floating if given is None else list(given)
        active = active_names(function, wrt, self.given)
        self.reversal: Reversal = Reversal(function, active)
        recording = Recording(self.reversal)
        self.plan: Any = recording.run()
        self.bounds: Bounds = recording.bounds
        self.live: set[Any] = self.plan.live  # of the sweep that is written
        self.recording: bool = True  # likewise
        self.cts: dict[str, str] = self.reversal.cts
        self.kinds: dict[str, Any] = function.types
        self.shapes: set[str] = shapes_read(function)
        self.sums: Sums | None = None  # of the loop that is written
        outside = {*self.given, *(p.name for p in function.params)}
        scalars = [
            ct for n, ct in self.cts.items() if not syntax.is_array(self.kinds[n]) and n not in outside
        ]
        self.zeros: Zeros = Zeros(self.plan, function.body, scalars)
        self.lent: set[str] = {n for n in self.given if n not in self.wrt and self.is_lent(n)}

    def source(self, name: str, *, counts: bool = False, handed: bool = False) -> str:
        """Return the text of the function.

        Args:
            name: its name.
            counts: whether it returns what it records, and bytes, instead.
            handed: whether it is given the arrays for cotangents, and only the stacks that it uses.
        """
        floats = {syntax.element(ty) for ty in self.kinds.values() if syntax.is_floating(ty)}
        self.is_compiled: bool = handed
        self.counting: bool = counts
        self.arranged: bool = handed and floats == {types.float64}
        self.handed: list[str] = [n for n in self.wrt if handed and syntax.is_array(self.kinds[n])]
        out = emission.Text()
        params = [p.name for p in self.function.params]
        self.given_names: list[str] = [self.reversal.fresh(f"given_{k}") for k in range(len(self.given))]
        given = self.given_names
        stored = self.stored()
        for p in self.function.params:
            if p.name in stored:
                out.add(f"{p.name} = {p.name}.copy()")
        emission.initial(self.function, out)
        for slot in sorted(self.plan.slots.values()):
            base = next(s for s, n in self.plan.slots.items() if n == slot)
            out.add(f"{slot} = {emission.zero(self.kinds[base.name])}")
        # a constant is another type to Numba, and parts of the text would be compiled for both
        out.add(f"pf = pi = pc = {'np.int64(0)' if handed else '0'}")
        if counts:
            out.add(f"{' = '.join(self.most)} = 0")
        self.forward(self.function.body, out, reserve=True)
        self.count(out)
        self.begin(given, out)
        self.backward(self.function.body, out, top=True)
        results = [self.result(n, out) for n in self.wrt]
        if counts:
            made = [line.split(" = ")[0].strip() for line in out.lines if _ALLOCATION.match(line)]
            results = [*self.most, " + ".join(["0", *[f"{n}.nbytes" for n in made]])]
        own = [r for n, r in zip(self.wrt, results, strict=True) if n in self.handed] if handed else []
        self.stacks: str = "".join(k for k in STACKS if not handed or _uses(out.lines, k))
        stacks = [f"s{k}" for k in self.stacks]
        results = [r for r in results if r not in own] + ([] if counts else stacks)
        out.add(f"return {emission.tuple_text(results)}")
        return f"def {name}({', '.join([*params, *given, *own, *stacks])}):\n" + str(out)

    def compiled_source(self, name: str, uniform: Collection[str] = ()) -> str:
        """Return the text of the function as it is compiled.

        Args:
            name: its name.
            uniform: outputs among those that are `lent` whose cotangents are one number for all elements.
        """
        arrays = {n: ty for n, ty in self.kinds.items() if syntax.is_array(ty)}
        arrays |= {self.cts[n]: ty.copy(layout="C") for n, ty in arrays.items() if n in self.cts}
        numbers = {self.cts[n] for n in uniform}
        text = self.source(name, handed=True)
        pairs = zip(self.given_names, self.given, strict=True)
        arrays |= {g: self.kinds[n].copy(layout="C") for g, n in pairs if n in arrays}
        vectors = {self.cts[n]: n for n in self.handed if n in self.cts and self.kinds[n].ndim == 1}
        checked = checks_indices(self.function.options)
        return arranged(text, self.bounds, arrays, numbers, vectors, self.kinds, checked=checked)

    @property
    def most(self) -> list[str]:
        """The names of the most values that lay on each stack at a time."""
        return [self.named(self, f"most_{k}") for k in STACKS]

    def count(self, out: emission.Text) -> None:
        """Write what notes how much is recorded, where that is asked for."""
        for k, n in zip(STACKS, self.most, strict=True) if self.counting else ():
            out.add(f"{n} = max({n}, p{k})")

    def is_lent(self, name: str) -> bool:
        """Return whether the cotangent of an output stays as it is given; no statement then changes it."""
        if name not in self.cts or name in self.function.returns or not syntax.is_array(self.kinds[name]):
            return False
        only = taken_once(name, self.plan, self.reversal, self.bounds)
        if only is None:
            return False
        ct = self.cts[name]
        self.plan.reverse[only] = [
            r for r in self.plan.reverse[only]
            if not (isinstance(r, ast.Assign) and (syntax.element_of(r.targets[0]) or ("",))[0] == ct)
        ]  # fmt: skip
        return True

    def stored(self) -> set[str]:
        """Return the arrays that the forward sweep writes to, by the names of those that own the memory."""
        run = self.plan.live.union(*self.plan.turns.values())
        return {self.reversal.root(s.array) for s in run if isinstance(s, Store)}

    # ---- the forward sweep --------------------------------------------------------------------------

    def forward(self, body: list[Stmt], out: emission.Text, *, reserve: bool) -> None:
        """Write the forward sweep of a block; with `reserve`, it makes place for what it records."""
        fresh = reserve
        for k, s in enumerate(body):
            if s not in self.live:
                continue
            breaks = not self.is_flat(s)
            if fresh and not breaks:
                rest = body[k:]
                last = next((i for i, t in enumerate(rest) if not self.is_flat(t)), len(rest))
                self.reserve(rest[:last], out)
                fresh = False
            if isinstance(s, If):
                out.add(f"if {syntax.text(s.test)}:", s.line)
                self.inside(s.body, out, reserve=reserve and breaks)
                if any(t in self.live for t in s.orelse):
                    out.add("else:")
                    self.inside(s.orelse, out, reserve=reserve and breaks)
            elif isinstance(s, For) and s in self.plan.segments:
                self.segments(s, out)
            elif isinstance(s, For | While):
                self.loop(s, out, flat=not breaks)
            else:
                if self.recording and s in self.plan.pushed:
                    self.push(s, out)
                emission.simple(s, out, self.kinds)
            fresh = fresh or (reserve and breaks)
        for s in reversed(self.plan.contents.get(id(body), [])) if self.recording else ():
            self.keep_content(s, out)

    def loop(self, s: For | While, out: emission.Text, *, flat: bool = False) -> None:
        """Write the forward sweep of a loop; place for what a flat one records is there."""
        outer, self.recording = self.recording, self.recording and s not in self.plan.turns
        hoisted = flat or (isinstance(s, For) and self.reserve_before(s, out))
        head = emission.for_text(s) if isinstance(s, For) else f"while {syntax.text(s.test)}:"
        out.add(head, s.line)
        self.inside(s.body, out, reserve=not hoisted)
        if s.until:
            out.add(f"    if {' or '.join(s.until)}:")
            out.add("        break")
        self.recording = outer

    def named(self, s: Any, base: str) -> str:
        """Return a name that belongs to a statement."""
        names: dict[tuple[Any, str], str] = self.__dict__.setdefault("_names", {})
        if (s, base) not in names:
            names[s, base] = self.reversal.fresh(base)
        return names[s, base]

    def is_flat(self, s: Stmt) -> bool:
        """Return whether it is known how much a statement records at most: it makes no place itself."""
        if isinstance(s, For | While) and _turns(s) is None:
            return not self.records([s])
        blocks = syntax.blocks(s) if self.recording and not self.runs_later(s) else []
        if any(self.plan.contents.get(id(b)) for b in blocks):
            return False
        return all(self.is_flat(t) for b in blocks for t in b)

    def records(self, body: Sequence[Stmt]) -> bool:
        """Return whether statements record anything in the sweep that is written."""
        for t in body if self.recording else ():
            if self.runs_later(t):
                continue
            blocks = syntax.blocks(t)
            if t in self.plan.pushed or any(self.plan.contents.get(id(b)) or self.records(b) for b in blocks):
                return True
        return False

    def runs_later(self, s: Stmt) -> bool:
        """Return whether a loop records what it records when it runs again, in the reverse sweep."""
        return s in self.plan.turns or s in self.plan.segments

    def inside(self, body: list[Stmt], out: emission.Text, *, reserve: bool = False) -> None:
        """Write a block of the forward sweep."""
        out.depth += 1
        before = len(out.lines)
        self.forward(body, out, reserve=reserve)
        if len(out.lines) == before:
            out.add("pass")
        out.depth -= 1

    def push(self, s: Stmt, out: emission.Text) -> None:
        """Write what records the value that a statement overwrites."""
        where, ty = self.target(s)
        k = stack_of(ty)
        out.add(f"s{k}[p{k}] = {where}", s.line)
        out.add(f"p{k} += 1")

    def pop(self, s: Stmt, out: emission.Text) -> None:
        """Write what restores it."""
        where, ty = self.target(s)
        k = stack_of(ty)
        out.add(f"p{k} -= 1", s.line)
        out.add(f"{where} = {self.popped(f's{k}[p{k}]', ty)}")

    def popped(self, value: str, ty: Any) -> str:
        """Return a recorded value in its type."""
        ty = syntax.element(ty)
        if isinstance(ty, types.Boolean):
            return f"{value} != 0"
        if ty in (types.float64, types.int64, types.intp, types.complex128):
            return value
        return f"{emission.dtype_text(ty)}({value})"

    def target(self, s: Stmt) -> tuple[str, Any]:
        """Return what a statement writes to, and its type."""
        if isinstance(s, Assign):
            return s.name, self.kinds[s.name]
        assert isinstance(s, Store)  # noqa: S101 -- nothing else is recorded
        ty = self.kinds[s.array].dtype
        return syntax.text(syntax.load(s.array, s.index, ty)), ty

    def keep_content(self, s: Stmt, out: emission.Text) -> None:
        """Write what records all elements of an array that is made in a block."""
        assert isinstance(s, Alloc)  # noqa: S101 -- as `Recording.block` says
        k = stack_of(self.kinds[s.name])
        out.add(f"if p{k} + {s.name}.size > s{k}.size:")
        out.add(f"    s{k} = grown(s{k}, p{k} + {s.name}.size)")
        if self.lies_as_recorded(s):
            out.add(f"copy_part(s{k}, p{k}, {s.name}, 0, {s.name}.size)")
        else:
            out.add(f"for k_ in range({s.name}.size):")
            out.add(f"    s{k}[p{k} + k_] = {s.name}.flat[k_]")
        out.add(f"p{k} += {s.name}.size")

    def lies_as_recorded(self, s: Alloc) -> bool:
        """Return whether the elements of an array are those of its stack, byte by byte."""
        ty = syntax.element(self.kinds[s.name])
        return ty in (types.float64, types.int64, types.complex128)

    # ---- place on the stacks ------------------------------------------------------------------------

    def counts(self, body: list[Stmt]) -> dict[str, int]:
        """Return how many values a block records at most, not counting loops of unknown length."""
        found = Counter[str]()
        for s in body if self.recording else ():
            if s in self.plan.pushed:
                found[stack_of(self.target(s)[1])] += 1
            times = 1 if isinstance(s, If) else 0 if self.runs_later(s) else _turns(s) or 0
            for b in syntax.blocks(s) if times else ():
                for k, n in self.counts(b).items():
                    found[k] += n * times
        return found

    def reserve_before(self, s: For, out: emission.Text) -> bool:
        """Write what makes place for all turns of a loop, if that is known before."""
        if not self.is_flat_inside(s):
            return False
        counts = self.counts(s.body)
        start, stop = syntax.text(s.start), syntax.text(s.stop)
        gap = f"abs({stop} - {start})" if start != "0" else f"abs({stop})"
        for k, n in sorted(counts.items()):
            more = f"p{k} + {gap}" if n == 1 else f"p{k} + {n} * {gap}"
            out.add(f"if {more} > s{k}.size:", s.line)
            out.add(f"    s{k} = grown(s{k}, {more})")
        return True

    def is_flat_inside(self, s: For) -> bool:
        """Return whether it is known how much each turn of a loop records at most."""
        return not self.plan.contents.get(id(s.body)) and all(map(self.is_flat, s.body))

    def reserve(self, body: list[Stmt], out: emission.Text) -> None:
        """Write what makes place for one run of a block."""
        for k, n in sorted(self.counts(body).items()):
            out.add(f"if p{k} + {n} > s{k}.size:")
            out.add(f"    s{k} = grown(s{k}, p{k} + {n})")

    # ---- the reverse sweep --------------------------------------------------------------------------

    def begin(self, given: Sequence[str], out: emission.Text) -> None:
        """Write the cotangents as the reverse sweep finds them: those of the outputs, and zeros."""
        names = dict(zip(self.given, given, strict=True))
        params = {p.name for p in self.function.params}
        written = {p.name for p in self.function.params if p.written}
        returned = self.function.returns
        scalars = []
        for n in sorted(self.cts):
            if not syntax.is_array(self.kinds[n]):
                scalars.append(n)
                continue
            if n in params:
                is_given = n in written and n not in returned and n in names
                if n in self.handed:
                    out.add(f"copy_into({self.cts[n]}, {names[n]})" if is_given else f"clear({self.cts[n]})")
                elif is_given:
                    out.add(f"{self.cts[n]} = {names[n]}{'' if n in self.lent else '.copy()'}")
                else:
                    out.add(f"{self.cts[n]} = {emission.zeros_for(n, self.kinds[n])}")
        for n in scalars:
            out.add(f"{self.cts[n]} = {emission.zero(self.kinds[n])}")
        self.cotangents(self.function.body, out)
        for n, g in zip(self.given, given, strict=True):
            if n not in self.cts or (n in written and n not in returned):
                continue
            if n not in params and syntax.is_array(self.kinds[n]):  # no kernel has run before, or another one
                out.add(f"if {g}.shape != {self.cts[n]}.shape:")
                out.add(f"    raise ValueError('{self.function.name} returns an array of another shape')")
            out.add(f"{self.cts[n]} += {g}")

    def cotangents(self, body: list[Stmt], out: emission.Text) -> None:
        """Write the cotangents of arrays and views that a block makes."""
        for s in body:
            if isinstance(s, Alloc) and s.name in self.cts:
                out.add(emission.allocation(self.cts[s.name], s.dims, self.kinds[s.name], zeros=True))
            elif isinstance(s, View) and s.name in self.cts:
                out.add(self.ct_view(s))

    def ct_view(self, s: View) -> str:
        """Return the view of cotangents beside one of values."""
        form = syntax.filled(s.form, {s.source: syntax.name(self.cts[s.source])})
        return f"{self.cts[s.name]} = {syntax.text(form)}"

    def result(self, name: str, out: emission.Text) -> str:
        """Return the cotangent of a parameter."""
        if name in self.cts:
            return self.cts[name]
        ty = self.kinds[name]
        if not syntax.is_array(ty):
            return emission.zero(ty)
        made = self.named(self, f"{name}_ct")
        out.add(f"clear({made})" if name in self.handed else f"{made} = {emission.zeros_for(name, ty)}")
        return made

    def backward(self, body: list[Stmt], out: emission.Text, *, top: bool = False) -> None:
        """Write the reverse sweep of a block."""
        if not top:
            self.prologue(body, out)
        for s in reversed(body):
            self.line_back(s, out)

    def prologue(self, body: list[Stmt], out: emission.Text) -> None:
        """Write what computes again, or restores, what belongs to one run of a block."""
        again = set(self.plan.recomputed.get(id(body), []))
        contents = self.plan.contents.get(id(body), [])
        for s in body:
            if isinstance(s, Alloc):
                if s in self.plan.live or s in contents or s.name in self.shapes:
                    out.add(emission.allocation(s.name, s.dims, self.kinds[s.name], zeros=False), s.line)
                if s in contents:
                    k = stack_of(self.kinds[s.name])
                    out.add(f"p{k} -= {s.name}.size")
                    if self.lies_as_recorded(s):
                        out.add(f"copy_part({s.name}, 0, s{k}, p{k}, {s.name}.size)")
                    else:
                        out.add(f"for k_ in range({s.name}.size):")
                        value = self.popped(f"s{k}[p{k} + k_]", self.kinds[s.name])
                        out.add(f"    {s.name}.flat[k_] = {value}")
                if s.name in self.cts:
                    out.add(emission.allocation(self.cts[s.name], s.dims, self.kinds[s.name], zeros=True))
            elif isinstance(s, View):
                if s in self.plan.live:
                    emission.simple(s, out, self.kinds)
                if s.name in self.cts:
                    out.add(self.ct_view(s), s.line)
            elif s in again:
                emission.statements([s], out, self.kinds, self.once_more)

    def once_more(self, s: Stmt, out: emission.Text, kinds: dict[str, Any]) -> None:
        """Write a statement that is recomputed, and holds no others."""
        if s in self.plan.slots:
            out.add(f"{self.plan.slots[s]} = {s.name}")  # type: ignore[union-attr]
        emission.simple(s, out, kinds)

    def line_back(self, s: Stmt, out: emission.Text) -> None:
        """Write the reverse of a statement."""
        if isinstance(s, Assign | Store):
            if s in self.plan.pushed:
                self.pop(s, out)
            elif s in self.plan.slots:
                out.add(f"{s.name} = {self.plan.slots[s]}", s.line)  # type: ignore[union-attr]
            for r in self.plan.reverse[s]:
                added = self.sums.added(r) if self.sums else r
                out.add(self.zeros.written(r) if added is r else added, s.line)
            return
        if isinstance(s, If):
            body, orelse = self.block_back(s.body, out), self.block_back(s.orelse, out)
            if body or orelse:
                out.add(f"if {syntax.text(s.test)}:" if body else f"if not {syntax.text(s.test)}:", s.line)
                out.lines += body or orelse
            if body and orelse:
                out.add("else:")
                out.lines += orelse
            return
        if isinstance(s, For | While):
            if isinstance(s, For) and s in self.plan.segments:
                self.segments_back(s, out)
                return
            outer, self.sums = self.sums, self.sums_of(s)
            inner = self.turn_back(s, out) if s in self.plan.turns else self.block_back(s.body, out)
            found, self.sums = self.sums, outer
            if inner:
                for line in found.before() if found else ():
                    out.add(line, s.line)
                holds = any(isinstance(t, For | While) for t in syntax.walk(s.body))
                is_plain = s not in self.plan.turns and not holds
                if (is_plain or self.arranged) and is_free(s, self.plan, self.reversal, self.bounds):
                    head = emission.for_text(s)  # type: ignore[arg-type]
                    inside = f" in {ANY_ORDER}({head.split(' in ', 1)[1][:-1]}):"
                    out.add(head.split(" in ", 1)[0] + inside if self.arranged else head, s.line)
                else:
                    self.head_back(s, out)
                out.lines += inner
                for line in found.behind() if found else ():
                    out.add(line)
            return
        assert isinstance(s, Alloc | View | Opaque | Raise)  # noqa: S101 -- nothing in reverse

    def sums_of(self, s: For | While) -> Sums | None:
        """Return the sums of a loop that holds no others."""
        if any(isinstance(t, For | While) for t in syntax.walk(s.body)):
            return None
        return Sums(s, self.plan, self.reversal, self.bounds)

    def turn_back(self, s: Stmt, out: emission.Text) -> list[str]:
        """Return the lines of a turn that runs again, and then back."""
        body = syntax.blocks(s)[0]
        inner = emission.Text()
        inner.depth, inner.line = out.depth + 1, out.line
        outer, self.live = self.live, self.plan.turns[s]
        self.forward(body, inner, reserve=True)
        self.live = outer
        self.count(inner)
        self.cotangents(body, inner)
        self.backward(body, inner, top=True)
        return inner.lines

    def block_back(self, body: list[Stmt], out: emission.Text) -> list[str]:
        """Return the lines of the reverse of a block; none where only values would be computed again."""
        inner = emission.Text()
        inner.depth, inner.line = out.depth + 1, out.line
        self.backward(body, inner)
        return inner.lines if any(map(self.plan.has_reverse, body)) else []

    def head_back(self, s: For | While, out: emission.Text) -> None:
        """Write the head of a loop that runs backwards, and what else begins a turn."""
        if isinstance(s, While):
            out.add(f"for {self.named(s, 'turn')} in range({s.count}):", s.line)
            return
        start, stop, step = map(syntax.text, (s.start, s.stop, s.step))
        if step == "1" and not s.count:
            out.add(f"for {s.var} in range({_less(stop)}, {_less(start)}, -1):", s.line)
            return
        if step == "-1" and not s.count:
            out.add(f"for {s.var} in range({stop} + 1, {start} + 1):", s.line)
            return
        k = self.named(s, "turn")
        turns = s.count or f"len(range({start}, {stop}, {step}))"
        out.add(f"for {k} in range({turns} - 1, -1, -1):", s.line)
        out.add(f"    {s.var} = {start} + {k} * {step}")


def _turns(s: Stmt) -> int | None:
    """Return the number of turns of a loop, None where it is not a constant; of others, None."""
    ends = [s.start, s.stop, s.step] if isinstance(s, For) and not s.until else []
    values = [e.value for e in ends if isinstance(e, ast.Constant) and isinstance(e.value, int)]
    return len(range(*values)) if len(values) == 3 and values[2] else None


def _uses(lines: Sequence[str], stack: str) -> bool:
    """Return whether lines name a stack."""
    return any(re.search(rf"\bs{stack}\b", line) for line in lines)


def _less(text: str) -> str:
    return str(int(text) - 1) if text.lstrip("-").isdigit() else f"{text} - 1"
