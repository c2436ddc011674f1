"""Which values get memory, and which loops compute them together.

A root is a value that is kept in memory: an output, an operand of a library call, a reduction, a value with
several uses. All else is computed where it is used. Every root has its loops; roots whose loops agree and
which do not wait for one another share a nest, so that what they have in common is read and computed once.
Where a reduction of rows stands between them, they share the loop over the rows: a row stays in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad.compiler.alike import Alike
from fgrad.compiler.concatenation import is_joined
from fgrad.compiler.elements import (
    NATIVE,
    SHARE,
    SMALL,
    VIEWS,
    Elements,
    Indices,
    NeedsUnrolledError,
    loop_dtypes,
    scalar_work,
    shape_of,
)
from fgrad.compiler.index import HERE, Index, counter
from fgrad.compiler.loop_nests import Builder
from fgrad.compiler.products import is_inline
from fgrad.compiler.views import looked_up
from fgrad.core.aval import Shape
from fgrad.core.primitive import ASSEMBLES, CANCELS, CASTS, CONTRACTION, OVERWRITES, PRIMITIVES, REPEATS
from fgrad.core.program import Equation, Program, Var, aval_out

FEW = 4096  # elements whose way through memory costs nothing beside the compilation of long kernels
SHORT, LONG = 40, 150  # scalar operations of a nest, for few elements and for many
DEEP = 64  # views of views, of which a nest looks through at most: each may be a branch inside of the others
LONGEST = 600  # of nests over so many that what lies between them does not stay in the cache
LANES, COSTLY = 8, 4  # elements of a row that vectors take, at least, where each takes so many operations
ASSEMBLED = 256  # elements of an array that is put together wherever one is read, at most
NEAR = 64  # turns of inner loops, beside which such operations once for each row take long
# elements of a reduction that are computed one by one, as many copies of what is reduced; of little work, all
# that are too few for vectors
WRITTEN_OUT, OF_LITTLE, LITTLE = 4, 7, 12
BLOCK = 16384  # elements of a block: each adds up on its own, whatever the threads are
GROUPS = 128  # of threads that keep a device busy: of fewer rows, each would go through more than others do
ROW = 65536  # elements of a row that stays in the cache


class Analysis(NamedTuple):
    """What is known of the loops of a root, for which values with memory it was found."""

    unrolled: tuple[int, ...]  # axes
    reads: dict[tuple[Var, Any], None]
    along: dict[tuple[Var, tuple[Any, ...]], None]  # of reads by axes, the counters of each axis
    floats: set[np.dtype[Any]]
    work: int
    wanted: dict[Var, None]  # should have memory besides
    computed: frozenset[Var]  # were computed for want of memory: with it, all of this may be otherwise

    def of(self, others: Mapping[Var, Var]) -> Analysis:
        """Return the same of other variables."""
        return self._replace(
            reads={(others[v], at): None for v, at in self.reads},
            along={(others[v], terms): None for v, terms in self.along},
            wanted={others[v]: None for v in self.wanted},
            computed=frozenset([others[v] for v in self.computed]),
        )


class Root:
    """A value with memory, and the loops that compute it.

    `at` has an index for each axis of the iteration, which for a reduction are the axes of its operand.
    """

    __slots__ = ("along", "at", "equation", "floats", "loops", "reads", "reduced", "unrolled", "var", "work")

    def __init__(self, var: Var, equation: Equation, *, short: bool) -> None:
        """Take a value, and whether it is a reduction that is written out."""
        self.var: Var = var
        self.equation: Equation = equation
        self.reduced: tuple[int, ...] = ()  # axes
        if PRIMITIVES[equation.name].reduction and not short:
            self.reduced = equation.params["axes"]
        if self.scatters:
            self.reduced = tuple(range(len(shape_of(equation.args[0]))))
        self.loops: tuple[int, ...] = ()  # their lengths
        self.unrolled: tuple[int, ...] = ()  # axes
        self.at: Indices = ()
        self.reads: dict[tuple[Var, Any], None] = {}
        self.along: dict[tuple[Var, tuple[Any, ...]], None] = {}
        self.floats: set[np.dtype[Any]] = set()
        self.work: int = 0

    @property
    def scatters(self) -> bool:
        """Whether it adds up elements wherever index arrays say."""
        return self.equation.name == "scatter_add"

    @property
    def shape(self) -> Shape:
        """The shape of the iteration."""
        return shape_of(self.equation.args[0]) if self.reduced or self.scatters else self.var.aval.shape

    @property
    def out(self) -> Indices:
        """The index of the element of the output, where an unrolled axis stands at its first element."""
        return self.out_at(self.at)

    def out_at(self, at: Indices) -> Indices:
        """Return the index of the element of the output to which that of the iteration at `at` belongs."""
        return tuple(ix for i, ix in enumerate(at) if i not in self.reduced)

    @property
    def folded(self) -> frozenset[int]:
        """The loops over which it reduces."""
        return frozenset(k for i in self.reduced for k, _ in self.at[i].terms)

    @property
    def pattern(self) -> Any:
        """All that there is to say of its loops."""
        return self.loops, self.unrolled, self.at, self.reduced, self.work

    @property
    def needs_rows(self) -> bool:
        """Whether it reads what is the same for a row, or looked up, or sums rows: they stay apart."""
        inner = len(self.loops) - 1
        if 0 < len(self.folded) <= inner:
            return True
        for _, at in self.reads:
            terms = at.terms if isinstance(at, Index) else [t for ix in at for t in ix.terms]
            counters = {k for k, _ in terms}
            if counters and (inner not in counters or max(counters) > inner):
                return True
        return False

    def places(self) -> list[Indices]:
        """Return every index inside the loops: several where axes are unrolled."""
        found: list[list[Index]] = [[]]
        for i, ix in enumerate(self.at):
            options = [Index(p) for p in range(self.shape[i])] if i in self.unrolled else [ix]
            found = [[*f, o] for f in found for o in options]
        return [tuple(f) for f in found]

    def analyse(self, makers: dict[Var, tuple[Equation, int]], stored: _Stored, constants: Any) -> Analysis:
        """Find the loops and what they read."""
        stored.computed = set()
        while True:
            self._number()
            builder = Builder(self.loops)
            for k in range(len(self.loops)):
                builder.enter(k)
            room = SHARE // self._written_out()
            elements = Elements(
                makers, stored, builder, constants, self._unrollable(), room, self._unrollable(tiny=True)
            )
            try:
                for at in self.places():
                    self.element(elements, at)
            except NeedsUnrolledError as need:
                axes = {i for i, ix in enumerate(self.at) for k, _ in ix.terms if k in need.loops}
                self.unrolled = tuple(sorted({*self.unrolled, *axes}))
                continue
            reads = builder.loads
            along = {(v, tuple([i.terms for i in at])): None for v, at in reads if not isinstance(at, Index)}
            found = reads, along, elements.floats, builder.work, elements.wanted
            return Analysis(self.unrolled, *found, frozenset(stored.computed))

    def take(self, analysis: Analysis) -> None:
        """Have the loops that were found."""
        self.unrolled = analysis.unrolled
        self.reads, self.along = analysis.reads, analysis.along
        self.floats, self.work = analysis.floats, analysis.work
        self._number()

    def unroll(self, loop: int) -> bool:
        """Note that a loop is to be unrolled, if that is worth it; return whether it was not noted before."""
        axis = next((i for i, ix in enumerate(self.at) if ix.terms == ((loop, 1),)), None)
        if axis is None or axis in self.unrolled or loop not in self._unrollable():
            return False
        self.unrolled = tuple(sorted({*self.unrolled, axis}))
        return True

    def element(self, elements: Elements, at: Indices) -> Any:
        """Compute what is stored, or added up, at an index."""
        if self.scatters:
            self.places_of(elements, at)
        elif not self.reduced:
            return elements.compute(self.var, at)
        return elements.converted(self.equation.args[0], at, self.var.aval.dtype)

    def places_of(self, elements: Elements, at: Indices) -> Indices:
        """Return to which element of the output one is added."""
        _, *arrays = self.equation.args
        return looked_up(elements, arrays, self.equation.params["template"], self.var.aval.shape, at)

    def _number(self) -> None:
        loops: list[int] = []
        at: list[Index] = []
        for i, n in enumerate(self.shape):
            if n == 1 or i in self.unrolled:
                at.append(HERE)
            else:
                at.append(counter(len(loops)))
                loops.append(n)
        self.loops, self.at = tuple(loops), tuple(at)

    def _written_out(self) -> int:
        return math.prod(self.shape[i] for i in self.unrolled)

    def _unrollable(self, *, tiny: bool = False) -> frozenset[int]:
        total, done = math.prod(self.loops), self._written_out()
        found = set()
        for k, n in enumerate(self.loops):
            if n <= SMALL and done * n <= SHARE and (total * done <= SMALL if tiny else total // n >= SMALL):
                axis = next(i for i, ix in enumerate(self.at) if ix.terms == ((k, 1),))
                if axis not in self.reduced:
                    found.add(k)
        return frozenset(found)


def _slow(some: Sequence[Root], others: Sequence[Root]) -> bool:
    """Return whether roots, beside others that go row by row, would have rows too short for vectors.

    Alone they go through all elements at once.
    """
    return any(_slows(a, b) or _slows(b, a) for a in some for b in others)


def _slows(rows: Root, root: Root) -> bool:
    loops, depth = root.loops, len(root.loops)
    if root.work < COSTLY or math.prod(loops) <= FEW or rows.loops[:depth] != loops:
        return False
    if len(rows.loops) > depth:
        return math.prod(rows.loops[depth:]) <= NEAR
    return depth > 1 and loops[-1] < LANES and rows.needs_rows and not root.needs_rows


class Nest:
    """Loops that compute roots: `depth` outer ones in common, then phases one after the other."""

    def __init__(self, root: Root) -> None:
        self.depth: int = len(root.loops)
        self.phases: list[list[Root]] = [[root]]
        self.shared: dict[Var, Var] = {}  # values that lie in the memory of one that is computed from them
        self.tails: list[Root] = []  # numbers that are computed when the loops have ended
        self.work: int = root.work
        self.floats: set[np.dtype[Any]] = set(root.floats)

    @property
    def roots(self) -> list[Root]:
        """All roots."""
        return [*(r for phase in self.phases for r in phase), *self.tails]

    @property
    def pattern(self) -> Any:
        """All that there is to say of the loops, whatever the roots compute."""
        phases = tuple([tuple([r.pattern for r in roots]) for roots in (*self.phases, self.tails)])
        return self.depth, phases, frozenset(self.floats)

    @property
    def is_whole(self) -> bool:
        """Whether there are so few elements that one turn of the kernel computes all."""
        return all(math.prod(r.loops) <= BLOCK for r in self.roots)

    @property
    def loops(self) -> tuple[int, ...]:
        """The lengths of the outer loops."""
        return self.phases[0][0].loops[: self.depth]

    def share(self, inner: set[Var], dying: Mapping[Var, Container[Var]]) -> None:
        """Let values that nobody reads after this nest lie where one computed from them will.

        What an earlier phase wrote may be overwritten, place by place, in the last phase that reads it.

        Args:
            inner: roots of this nest that only it reads.
            dying: values from before, which nobody reads afterwards, and in whose places they may lie.
        """
        taken: set[Var] = set()
        for i, phase in enumerate(self.phases):
            for root in phase:
                if root.var in inner and not root.reduced:
                    reads = self._reads(root.var)
                    last = max((k for k, _, _ in reads), default=i)
                    places = [at for k, _, at in reads if k == last]
                    if last > i and all(matches(root, at) for at in places):
                        readers = [r for k, r, _ in reads if k == last and _fits(root, r)]
                        self._bequeath(root.var, readers if last < len(self.phases) else [], taken)
        for v, heirs in dying.items():
            reads = self._reads(v)
            last = max((k for k, _, _ in reads), default=len(self.phases))
            if last < len(self.phases):
                phase = self.phases[last]
                late = phase[max(phase.index(r) for k, r, _ in reads if k == last) :]
                alike = [r for r in late if r.var in heirs and r.var.aval == v.aval]
                self._bequeath(v, [r for r in alike if self._replaces(r, reads, last)], taken)
        for v in self.shared:
            while self.shared[v] in self.shared:
                self.shared[v] = self.shared[self.shared[v]]

    def _reads(self, v: Var) -> list[tuple[int, Root, Any]]:
        """Return in which phase a value is read, by which root, and where; the tails are the last phase."""
        phases = enumerate([*self.phases, self.tails])
        return [(k, r, at) for k, phase in phases for r in phase for w, at in r.reads if w is v]

    def _replaces(self, heir: Root, reads: Sequence[tuple[int, Root, Any]], last: int) -> bool:
        """Return whether `heir` writes each place of a value after everything that reads that place."""
        if heir.reduced or heir.scatters or heir.unrolled:
            return False
        turn = [ix for ix in heir.out if ix.terms and ix.terms[0][0] < self.depth]
        if len(turn) < self.depth:
            return False
        return all(
            matches(heir, at)
            if k == last
            else isinstance(at, tuple)
            and not isinstance(at, Index)
            and all(ix == own for ix, own in zip(at, heir.out, strict=True) if own in turn)
            for k, _, at in reads
        )

    def _bequeath(self, v: Var, heirs: Iterable[Root], taken: set[Var]) -> None:
        heir = next((r for r in heirs if r.var not in taken), None)
        if heir is not None:
            self.shared[v] = heir.var
            taken.add(heir.var)


class Call:
    """An operation that a library computes."""

    def __init__(self, equation: Equation) -> None:
        self.equation = equation


Step = Nest | Call


def _is_short(equation: Equation, work: int, of_little: int) -> bool:
    """Return whether a reduction is over so few elements that it is written out.

    Args:
        equation: the reduction.
        work: that of each element.
        of_little: the number of elements, at most, where that is little.
    """
    shape = shape_of(equation.args[0])
    count = math.prod(shape[i] for i in equation.params["axes"])
    most = of_little if work <= LITTLE else WRITTEN_OUT
    return 0 < count <= most and math.prod(equation.outs[0].aval.shape) >= SMALL


def is_fusable(equation: Equation) -> bool:
    """Return whether kernels can compute an equation element by element."""
    name, params, kind = equation.name, equation.params, ""
    for a in (*equation.args, *equation.outs):
        aval = a.aval if a.__class__ is Var else aval_out(a)
        dtype, shape = aval.dtype, aval.shape
        if dtype.char not in NATIVE or not dtype.isnative or 0 in shape or (shape and a.__class__ is not Var):
            return False
        kind = dtype.kind
    if name in VIEWS:
        return VIEWS[name].when(equation) and not (ASSEMBLES in equation.traits and is_joined(equation))
    if CASTS in equation.traits:
        return True
    if name == "scatter_add":
        template = params["template"]
        plain = all(isinstance(a, Var) for a in equation.args)
        plain = plain and not any(isinstance(p, bool) for p in template)
        return plain and kind == "f" and math.prod(shape_of(equation.args[0])) > 1
    primitive = PRIMITIVES[name]
    if primitive.reduction:
        return kind in ("iuf" if primitive.reduction.integers else "f")
    if CONTRACTION in equation.traits:
        return kind == "f" and is_inline(equation)
    if (primitive.scalar is None and not primitive.integers) or params or primitive.many:
        return False
    dtypes = loop_dtypes(equation)
    if any(d.char not in NATIVE for d in dtypes) or not all(map(holds, dtypes, equation.args)):
        return False
    if dtypes[-1].kind == "f":
        return primitive.scalar is not None and (dtypes[-1].char != "f" or CANCELS not in primitive.traits)
    if name in {"floor_divide", "remainder"}:  # the processor stops at 0, and at the least number over -1
        divisor = equation.args[1]
        return dtypes[-1].kind in "iu" and isinstance(divisor, int) and divisor > 0
    return bool(primitive.truths if dtypes[-1].kind == "b" else primitive.integers)


def holds(dtype: np.dtype[Any], x: Any) -> bool:
    """Return whether `x` is no Python integer beyond `dtype`, with which NumPy still compares."""
    if not isinstance(x, int) or dtype.kind not in "iu":
        return True
    limits = np.iinfo(dtype)
    return limits.min <= x <= limits.max


def fuse(
    program: Program, constants: dict[Var, np.ndarray[Any, Any]], *, vectors: bool = True
) -> tuple[list[Step], dict[Var, tuple[Equation, int]]]:
    """Return the steps that compute a program, and the equation that makes each variable.

    Args:
        program: decomposed.
        constants: the arrays of variables that are constant.
        vectors: whether loops are for a processor with vectors, which short inner ones do not use.
    """
    makers = {v: (e, i) for e in program.equations for i, v in enumerate(e.outs)}
    fusable = {id(e): is_fusable(e) for e in program.equations}
    chosen, short = _roots(program, makers, fusable, OF_LITTLE if vectors else WRITTEN_OUT)
    analyses: dict[tuple[Var, tuple[int, ...]], Analysis] = {}  # by the axes that were unrolled before
    alike = Alike(makers, constants)
    known: dict[Any, tuple[Analysis, list[Var]]] = {}
    while True:
        stored = _Stored(chosen, program, makers, fusable)
        roots = {
            v: Root(v, e, short=id(e) in short)
            for e in program.equations
            for v in e.outs
            if v in chosen and fusable[id(e)]
        }
        wanted: dict[Var, None] = {}
        todo = list(roots.values())
        while todo:
            for root in todo:
                key = root.var, root.unrolled
                if key not in analyses:
                    pattern, variables = alike.of([root.var], stored)
                    pattern = pattern, root.unrolled
                    if pattern not in known:
                        known[pattern] = root.analyse(makers, stored, constants), variables
                    found, others = known[pattern]
                    analyses[key] = found.of(dict(zip(others, variables, strict=True)))
                root.take(analyses[key])
                wanted |= analyses[key].wanted
            todo = _unrolled_alike(roots)
        more = [v for v in wanted if v not in chosen and v in makers]
        if not more:
            break
        chosen |= dict.fromkeys(more)
        analyses = {k: a for k, a in analyses.items() if a.computed.isdisjoint(more)}
    return _Schedule(makers, vectors=vectors).run(program, fusable, roots), makers


def _unrolled_alike(roots: dict[Var, Root]) -> list[Root]:
    """Unroll axes that the reader or the source of a value has unrolled; return the roots that changed."""
    changed: dict[Root, None] = {}
    for reader in roots.values():
        for v, counters in reader.along:
            source = roots.get(v)
            if source is None or source.scatters:
                continue
            axes = [i for i in range(len(source.shape)) if i not in source.reduced]
            for axis, terms in zip(axes, counters, strict=True):
                own = source.at[axis]
                if own.terms and not terms:
                    if source.unroll(own.terms[0][0]):
                        changed[source] = None
                elif axis in source.unrolled and terms and reader.unroll(terms[0][0]):
                    changed[reader] = None
    return list(changed)


class _Stored:
    """Tells variables that have memory from those that are computed where they are used."""

    def __init__(self, chosen: Any, program: Program, makers: Any, fusable: dict[int, bool]) -> None:
        self.chosen, self.makers, self.fusable = chosen, makers, fusable
        self.computed: set[Var] = set()  # of which it was said that they have no memory

    def __contains__(self, v: Var) -> bool:
        found = v in self.chosen or v not in self.makers or not self.fusable[id(self.makers[v][0])]
        if not found:
            self.computed.add(v)
        return found


def _roots(
    program: Program, makers: Any, fusable: dict[int, bool], of_little: int
) -> tuple[dict[Var, None], set[int]]:
    """Return the values that have memory from the start, and the reductions that are written out, by `id`."""
    found: dict[Var, None] = {y: None for y in program.outputs if isinstance(y, Var)}
    updated = _updated(program, makers, fusable)
    found |= updated
    uses: dict[Var, set[Any]] = {}
    for e in program.equations:
        if not fusable[id(e)]:
            found |= {a: None for a in e.args if isinstance(a, Var)}
            continue
        if e.name == "scatter_add" or (PRIMITIVES[e.name].reduction and not _is_short(e, 0, of_little)):
            found[e.outs[0]] = None
        if e.name in VIEWS and e.outs[0] not in updated:
            continue
        for a in e.args:
            if isinstance(a, Var):
                for base, repeated in _bases(a, e.outs[0].aval.shape, makers, fusable, updated):
                    uses.setdefault(base, set()).add((id(e), a))
                    if repeated:
                        uses[base].add(None)
    for base, users in uses.items():
        if len(users) > 1:
            found[base] = None
    work: dict[Var, int] = {}  # of what is computed where a value is used
    depth: dict[Var, int] = {}  # in views
    short: set[int] = set()
    for e in program.equations:
        if not fusable[id(e)]:
            continue
        inside = {a for a in e.args if isinstance(a, Var) and a not in found}
        for v in e.outs:
            before = sum(work.get(a, 0) for a in inside)
            if PRIMITIVES[e.name].reduction:
                if _is_short(e, before, of_little):
                    short.add(id(e))
                else:
                    found[v] = None
            work[v] = before + _work(e)
            depth[v] = max((depth.get(a, 0) for a in inside), default=0) + (e.name in VIEWS)
            if work[v] > limit(v.aval.size) or depth[v] > DEEP:
                found[v] = None
    return found, short


def limit(elements: int) -> int:
    """Return how many scalar operations a nest over so many elements has, at most."""
    return SHORT if elements <= FEW else LONG


def _work(e: Equation) -> int:
    if e.name in VIEWS or e.name == "scatter_add":
        return 0
    reduces = PRIMITIVES[e.name].reduction is not None
    if reduces or CONTRACTION in e.traits:
        shape = shape_of(e.args[0])
        axes = e.params["axes"] if reduces else range(len(shape))
        return min(math.prod(shape[i] for i in axes), SMALL)
    return scalar_work(e.name)


def _updated(program: Program, makers: Any, fusable: dict[int, bool]) -> dict[Var, None]:
    """Return arrays that were written to and are read more than once: they are not put together each time.

    Otherwise each step of a loop that writes to an array would go through those before it.
    """
    writes = [e for e in program.equations if fusable[id(e)] and OVERWRITES in e.traits and e.name in VIEWS]
    written = {v for e in writes for v in e.outs if v.aval.size > ASSEMBLED}
    users: dict[Var, set[int]] = {}
    for e in program.equations:
        if written and fusable[id(e)] and (e.name not in VIEWS or OVERWRITES in e.traits):
            for a in e.args:
                if isinstance(a, Var):
                    for v, _ in _bases(a, a.aval.shape, makers, fusable, written):
                        if v in written:
                            users.setdefault(v, set()).add(id(e))
    return {v: None for v, found in users.items() if len(found) > 1}


def _bases(
    a: Var, shape: Shape, makers: Any, fusable: Any, written: Container[Var]
) -> Iterable[tuple[Var, bool]]:
    """Yield what `a` shows, computed or `written`, and whether it is repeated along an outer axis."""
    todo, seen = [(a, _repeats(a.aval.shape, shape))], set()
    while todo:
        v, repeated = found = todo.pop()
        if v not in makers or found in seen:
            continue
        seen.add(found)
        e, _ = makers[v]
        if not fusable[id(e)]:
            continue
        if e.name in VIEWS and v not in written:
            for x in e.args:
                if isinstance(x, Var):
                    again = REPEATS in e.traits and _repeats(x.aval.shape, v.aval.shape)
                    todo.append((x, repeated or again))
        else:
            yield v, repeated


def _repeats(shape: Shape, target: Shape) -> bool:
    """Return whether broadcasting repeats an array along an axis before one of its own."""
    if len(shape) > len(target):
        return False
    padded = (*(1,) * (len(target) - len(shape)), *shape)
    first = next((i for i, (n, m) in enumerate(zip(padded, target, strict=True)) if n == 1 and m > 1), None)
    return first is not None and any(n > 1 for n in padded[first:])


class _Schedule:
    """Steps in the making: every root goes to the nest of others like it, or to one of its own."""

    def __init__(self, makers: Any, *, vectors: bool) -> None:
        self.makers, self.vectors = makers, vectors
        self.steps: list[Step | None] = []
        self.where: dict[Var, int] = {}  # the step that computes a variable
        self.root: dict[Var, Root] = {}

    def run(self, program: Program, fusable: dict[int, bool], roots: dict[Var, Root]) -> list[Step]:
        """Return the steps."""
        for e in program.equations:
            if not fusable[id(e)]:
                for v in e.outs:
                    self.where[v] = len(self.steps)
                self.steps.append(Call(e))
                continue
            for v in e.outs:
                if v in roots:
                    self._place(roots[v])
        self._merge()
        return [step for step in self.steps if step is not None]

    def _merge(self) -> None:
        """Let nests over many elements follow in the loops of those that compute what they read."""
        for j, nest in enumerate(self.steps):
            if isinstance(nest, Nest):
                own = {r.var for r in nest.roots}
                reads: dict[Var, list[Any]] = {}
                for v, at in (read for root in nest.roots for read in root.reads if read[0] not in own):
                    reads.setdefault(v, []).append(at)
                i = max((self.where[v] for v in reads if v in self.where), default=-1)
                before = self.steps[i] if i >= 0 else None
                if isinstance(before, Nest) and self._follows(nest, before, reads, i):
                    self.where.update(dict.fromkeys(own, i))
                    self.steps[j] = None

    def _follows(self, nest: Nest, before: Nest, reads: dict[Var, list[Any]], step: int) -> bool:
        """Add the phases of a nest to another one, of which it reads something, where that is right."""
        roots = [*before.roots, *nest.roots]
        floats = before.floats | nest.floats
        if before.tails or nest.tails or any(r.scatters for r in roots):
            return False
        if self.vectors and _slow(before.roots, nest.roots):
            return False
        if len(floats) > max(len(before.floats), len(nest.floats)) or before.work + nest.work > LONGEST:
            return False
        inside = [v for v in reads if self.where.get(v) == step]
        least = BLOCK if self.vectors else GROUPS
        for depth in range(min(before.depth, nest.depth), 0, -1):
            if (
                before.loops[:depth] == nest.loops[:depth]
                and all(self._is_rowwise(v, reads[v], depth) for v in inside)
                and all(least <= math.prod(r.loops) <= math.prod(r.loops[:depth]) * ROW for r in roots)
            ):
                before.depth, before.floats = depth, floats
                before.phases += nest.phases
                before.work += nest.work
                return True
        return False

    def _place(self, root: Root) -> None:
        reads: dict[Var, list[Any]] = {}
        for v, at in root.reads:
            reads.setdefault(v, []).append(at)
        need = max((self.where[v] for v in reads if v in self.where), default=-1)
        for i in range(max(need, 0), len(self.steps)):
            nest = self.steps[i]
            if isinstance(nest, Nest) and self._join(nest, root, reads, i):
                self.where[root.var] = i
                break
        else:
            self.where[root.var] = len(self.steps)
            self.steps.append(Nest(root))
        self.root[root.var] = root

    def _join(self, nest: Nest, root: Root, reads: dict[Var, list[Any]], step: int) -> bool:
        """Add `root` to `nest` where that is right and gains something."""
        if root.scatters or any(r.scatters for r in nest.roots):
            return False
        if self.vectors and _slow(nest.roots, [root]):
            return False
        mixed = len(nest.floats | root.floats) > max(len(nest.floats), len(root.floats))
        if nest.work + root.work > limit(math.prod(root.loops)) or mixed:
            return False
        inside = [v for v in reads if self.where.get(v) == step]
        others = {v for r in nest.roots for v, _ in r.reads}
        if not inside and not others & reads.keys():
            return False
        if nest.tails and math.prod(root.loops) > BLOCK:
            return False
        if not root.loops and nest.loops:
            ends = inside and all(not self.root[v].var.aval.shape for v in inside)
            if ends and nest.is_whole and nest.depth == len(nest.phases[0][0].loops):
                nest.tails.append(root)
                return self._grown(nest, root)
            return False
        phase = nest.phases[-1]
        if phase[0].loops == root.loops:
            here = {r.var for r in phase}
            before = [v for v in inside if v not in here]
            if all(self._is_pointwise(v, reads[v]) for v in inside if v in here) and all(
                self._is_rowwise(v, reads[v], nest.depth) for v in before
            ):
                phase.append(root)
                return self._grown(nest, root)
        for depth in range(min(nest.depth, len(root.loops)), 0, -1):
            if (
                root.loops[:depth] == nest.loops[:depth]
                and all(self._is_rowwise(v, reads[v], depth) for v in inside)
                and all(math.prod(r.loops[depth:]) <= ROW for r in (*nest.roots, root))
                and inside
            ):
                nest.depth = depth
                nest.phases.append([root])
                return self._grown(nest, root)
        return False

    def _grown(self, nest: Nest, root: Root) -> bool:
        nest.work += root.work
        nest.floats |= root.floats
        return True

    def _is_pointwise(self, v: Var, places: list[Any]) -> bool:
        """Return whether a root of the same loops is read where it has just been computed."""
        root = self.root[v]
        return not (root.reduced or root.scatters) and all(matches(root, at) for at in places)

    def _is_rowwise(self, v: Var, places: list[Any], depth: int) -> bool:
        """Return whether a root is read in that turn of the outer loops in which it is computed."""
        root = self.root[v]
        if root.folded & set(range(depth)):
            return False
        out = root.out
        axes = {ix.terms[0][0]: i for i, ix in enumerate(out) if ix.terms}
        if any(k not in axes for k in range(depth)):
            return False
        return all(
            isinstance(at, tuple)
            and not isinstance(at, Index)
            and all(at[axes[k]] == counter(k) for k in range(depth))
            for at in places
        )


def _fits(root: Root, heir: Root) -> bool:
    """Return whether a root may be written where another one was read."""
    alike = root.var.aval == heir.var.aval and root.unrolled == heir.unrolled
    return alike and not heir.reduced and not heir.scatters


def matches(root: Root, at: Any) -> bool:
    """Return whether a root is read at the very place where its loops stand."""
    if isinstance(at, Index):
        return False
    return all(
        not ix.terms if i in root.unrolled else ix == own
        for i, (ix, own) in enumerate(zip(at, root.out, strict=True))
    )
