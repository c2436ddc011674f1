"""What one element of each primitive's result is, given the elements of its operands.

Views have no code: they only say where the element comes from. So a chain of slices, transposes, stacks and
broadcasts over small axes dissolves into names of scalars.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fgrad import config
from fgrad.compiler.index import HERE, Index, linear, plus, reach, split
from fgrad.compiler.loop_nests import Bound, Builder, Line, Place, Value
from fgrad.core.aval import Shape, aval_of
from fgrad.core.primitive import CASTS, CHOOSES, CONTRACTION, PRIMITIVES, SELECTS, Reduction
from fgrad.core.program import Equation, Var
from fgrad.expr.atoms import ATOMS
from fgrad.expr.node import Expr, postorder
from fgrad.kernels.body import FLOAT64, Body, prepare

Indices = tuple[Index, ...]

NATIVE = frozenset("?bhilqBHILQfd")  # dtypes of which kernels know the elements
SMALL = 16  # axes up to this length may be unrolled
CHEAP = 4  # operations that are done again for what is read under a condition, rather than kept in memory
SHARE = 64  # elements of unrolled axes in all
_CALL = re.compile(r"\w\(")  # of a helper function
BOOL, INT64, FLOAT32 = np.dtype(bool), np.dtype(np.int64), np.dtype(np.float32)
Element = Callable[["Elements", Equation, int, Indices], Value]


class View(NamedTuple):
    """How elements of a primitive without code of its own are found, which only says where they come from."""

    element: Element
    pieces: bool  # whether they come from several places
    flat: bool  # whether they lie in memory in the order of those of the operand
    when: Callable[[Equation], bool]  # of which equations


VIEWS: dict[str, View] = {}


def view(
    *names: str, pieces: bool = False, flat: bool = False, when: Callable[[Equation], bool] = lambda _: True
) -> Callable[[Element], Element]:
    """Return the decorator that adds how elements of primitives are found; the columns of `View`."""

    def add(rule: Element) -> Element:
        VIEWS.update(dict.fromkeys(names, View(rule, pieces, flat, when)))
        return rule

    return add


class NeedsUnrolledError(Exception):
    """A loop has to be unrolled, because elements of different operands lie along it."""

    def __init__(self, loops: Sequence[int]) -> None:
        self.loops: tuple[int, ...] = tuple(loops)


@dataclass(eq=False, repr=False)
class Elements:
    """Computes elements of variables, in a builder.

    Args:
        makers: the equation that makes each variable, and which of its outputs it is.
        stored: variables that have memory, and are loaded from there.
        builder: takes the lines.
        constants: the arrays of variables that are constant.
        unrollable: loops that may be asked to be unrolled, each on its own.
        room: how many elements those that are asked for together may have.
        tiny: the same where few elements are all there is.
        codes: a dtype of floats -> the code of atoms that are not computed as `ATOMS` has them.
        mixed: whether there are floats of two dtypes: helper functions, of which a kernel has one for both,
            take and give numbers of the wider one, which are rounded.
        saturates: whether a negative float becomes zero as unsigned integer, which on the CPU wraps around.
    """

    makers: dict[Var, tuple[Equation, int]]
    stored: Any
    builder: Builder
    constants: dict[Var, np.ndarray[Any, Any]]
    unrollable: frozenset[int] = frozenset()
    room: int = 1
    tiny: frozenset[int] = frozenset()
    codes: Callable[[np.dtype[Any]], Mapping[str, str]] = lambda _: {}
    _: KW_ONLY
    mixed: bool = False
    saturates: bool = False
    # what should have memory, though it has none
    wanted: dict[Var, None] = field(default_factory=dict, init=False)
    floats: set[np.dtype[Any]] = field(default_factory=set, init=False)  # in which floats are computed

    # ---- values ---------------------------------------------------------------------------------

    def value(self, x: Any, at: Indices) -> Value:
        """Return the element of a variable or constant at `at`."""
        if not isinstance(x, Var):
            return self.constant(x)
        found = self.builder.known((x, at))
        if found is not None:
            return found
        if x in self.stored:
            return self.load(x, linear(at, x.aval.shape), at)
        return self.compute(x, at)

    def compute(self, x: Var, at: Indices) -> Value:
        """Return the element from those of the operands, wherever `x` is stored."""
        equation, place = self.makers[x]
        view = VIEWS.get(equation.name)
        if view is not None:
            value = view.element(self, equation, place, at)
        elif CASTS in equation.traits:
            value = self.converted(equation.args[0], at, x.aval.dtype)
        elif CONTRACTION in equation.traits:
            value = self.contract(equation, at)
        elif PRIMITIVES[equation.name].reduction:
            value = self.reduced(equation, at)
        else:
            value = self.elementwise(equation, at)
        # what is the same for all of these counters need not be for those of other loops
        depth = max(value.depth, self.builder.depth([t for ix in at for t in ix.terms]))
        self.builder.chain[depth].memo.setdefault((x, at), value)
        return value

    def converted(self, x: Any, at: Indices, dtype: np.dtype[Any]) -> Value:
        """Return an element as one of another dtype."""
        return self.convert(self.value(x, at), dtype)

    def flat(self, x: Any, at: Index) -> Value | None:
        """Return the element at a place in memory order; None where it is not known how."""
        if not isinstance(x, Var):
            return self.constant(x)
        found = self.builder.known((x, at))
        if found is not None:
            return found
        if x in self.stored:
            return self.load(x, at, at)
        indices = split(at, x.aval.shape, self.builder.sizes)
        if indices is not None:
            return self.value(x, indices)
        equation, _ = self.makers[x]
        view = VIEWS.get(equation.name)
        return self.flat(equation.args[0], at) if view and view.flat else None

    def unrolled(self, terms: Iterable[tuple[int, int]]) -> list[int]:
        """Return the loops to unroll of those in `terms`; none where together they have too many turns."""
        loops = sorted({k for k, _ in terms} & self.unrollable)
        return loops if math.prod(self.builder.sizes[k] for k in loops) <= self.room else []

    def needs_unrolled(self, x: Var, at: Index) -> list[int]:
        """Return the loops to unroll, so that a place in memory order is one in axes; none if that fails.

        What lies along the loops that are left must be known: else the elements are read from memory as well,
        and a loop that is written out reads them many times.
        """
        loops = self.unrolled(at.terms)
        rest = Index(at.const, tuple(t for t in at.terms if t[0] not in loops))
        source = self.memory(x)
        known = source in self.stored or split(rest, source.aval.shape, self.builder.sizes) is not None
        return loops if known else []

    def memory(self, x: Var) -> Var:
        """Return the value in whose memory the elements lie in their order: `x`, or what it reshapes."""
        while x not in self.stored:
            equation, _ = self.makers[x]
            view = VIEWS.get(equation.name)
            if view is None or not view.flat or not isinstance(equation.args[0], Var):
                break
            x = equation.args[0]
        return x

    def load(self, x: Var, place: Index, at: Any, guard: Line = (), other: Value | None = None) -> Value:
        """Return an element from memory; where `guard` does not hold, `other`."""
        builder = self.builder
        key = (x, at, guard, other)
        found = builder.known(key)
        if found is not None:
            return found
        builder.loads[(x, at)] = None
        parts: Line = (Place(x, place),)
        if x.aval.dtype == BOOL:
            parts = (*parts, " != 0")
        depth = builder.depth(place.terms)
        if other is not None:
            loops = [t for p in guard if isinstance(p, Index) for t in p.terms]
            builder.pinned.update(k for k, _ in loops)
            depth = max(depth, builder.depth(loops), other.depth)
            parts = ("(", *parts, ") if ", *guard, f" else {other.name}")
        return builder.define(key, parts, depth, x.aval.dtype)

    def place(self, j: Any, at: Indices, size: int) -> Index:
        """Return the index that an element of an index array is, in an axis of length `size`."""
        if j in self.constants:
            array = self.constants[j]
            if not any(ix.terms for ix in at):
                return Index(int(array[tuple(ix.const for ix in at)]) % size)
            if array.min() >= 0 and array.max() < size:
                return self.builder.symbol(self.unsigned(self.value(j, at)), size)
        v = self.convert(self.value(j, at), INT64)
        zero, n = self.constant(0, INT64), self.bound(size)
        wrapped = self.builder.operation("({0} + {1} if {0} < {2} else {0})", [v, n, zero], INT64, 0)
        # those out of bounds are found by a check of their own: here they must only not reach outside
        inside = self.builder.operation("max(min({0}, {1} - 1), {2})", [wrapped, n, zero], INT64, 0)
        return self.builder.symbol(self.unsigned(inside), size)

    def divided(self, ix: Index, step: int) -> tuple[Index, Index]:
        """Return the quotient and the rest of an index, which mean nothing where it is negative."""
        if not ix.terms:
            return Index(ix.const // step), Index(ix.const % step)
        self.builder.pinned.update(k for k, _ in ix.terms)
        known = self.builder.known(ix)
        count = known or self.builder.define(ix, (ix,), self.builder.depth(ix.terms), INT64)
        operands, kind = [self.unsigned(count), self.bound(step)], np.dtype(np.uint64)
        most = max(0, self.reach(ix)[1])
        quotient = self.builder.operation("({} // np.uintp({}))", operands, kind)
        rest = self.builder.operation("({} % np.uintp({}))", operands, kind)
        return self.builder.symbol(quotient, most // step + 1), self.builder.symbol(rest, step)

    def unsigned(self, v: Value) -> Value:
        """Return an index as loops count."""
        return self.builder.operation("np.uintp({})", [v], np.dtype(np.uint64), 0)

    def bound(self, n: int) -> Value:
        """Return a length as a scalar."""
        found = self.builder.known(("bound", n))
        return found or self.builder.define(("bound", n), (Bound(n),), 0, INT64)

    def constant(self, x: Any, dtype: np.dtype[Any] | None = None) -> Value:
        """Return a number of the text."""
        with np.errstate(all="ignore"):  # of compiled code nobody is warned
            x = np.asarray(x if dtype is None else np.asarray(x).astype(dtype))
        number, kind = x.item(), x.dtype
        if kind == BOOL:
            return Value(repr(number), 0, kind)
        shown = repr(number) if math.isfinite(number) else repr(str(number))
        return Value(self.builder.constant(f"{kind.name}({shown})"), 0, kind)

    def convert(self, v: Value, dtype: np.dtype[Any]) -> Value:
        """Return a scalar as one of another dtype."""
        if v.dtype == dtype:
            return v
        if dtype == BOOL:
            return self.builder.operation("({} != 0)", [v], dtype, 0)
        if v.dtype == BOOL:
            return self.builder.operation(f"({dtype.name}(1) if {{}} else {dtype.name}(0))", [v], dtype, 0)
        if self.saturates and v.dtype.kind == "f" and dtype.kind == "u":
            wrapped = f"{dtype.name}(int64({{0}}))"
            code = f"({dtype.name}({{0}}) if {{0}} >= 0 else {wrapped})" if dtype.itemsize == 8 else wrapped
            return self.builder.operation(code, [v], dtype, 0)
        return self.builder.operation(f"{dtype.name}({{}})", [v], dtype, 0)

    # ---- primitives that compute ----------------------------------------------------------------------

    def elementwise(self, equation: Equation, at: Indices) -> Value:
        """Return the element of a primitive that computes each element from its operands'."""
        found = self._computed(equation, lambda a: self.value(a, aligned(at, a.aval.shape)))
        assert found is not None  # noqa: S101 -- since all its operands have elements
        return found

    def _computed(self, equation: Equation, element: Callable[[Var], Value | None]) -> Value | None:
        """Return what an equation makes of an `element` of each of its variables; None where one is None."""
        (out,) = equation.outs
        compute = loop_dtypes(equation)
        operands = []
        for a, dtype in zip(equation.args, compute, strict=True):
            value = element(a) if isinstance(a, Var) else self.constant(a, dtype)
            if value is None:
                return None
            operands.append(self.convert(value, dtype))
        return self.convert(self.apply(equation.name, operands, compute[-1]), out.aval.dtype)

    def apply(self, name: str, operands: Sequence[Value], dtype: np.dtype[Any]) -> Value:
        """Return a row of scalars, in the dtype in which they are given."""
        if dtype.kind == "f":
            (found,) = self.expressions(_body(name), operands, dtype)
            return found
        primitive = PRIMITIVES[name]
        code = primitive.truths if dtype == BOOL else primitive.integers
        out = result_dtype(name, dtype)
        cut = out.kind in "iu" and SELECTS not in primitive.traits
        return self.builder.operation(f"{dtype.name}({code})" if cut else code, operands, out)

    def expressions(self, body: Body, operands: Sequence[Value], dtype: np.dtype[Any]) -> list[Value]:
        """Return the results of scalar expressions, computed in a dtype of floats."""
        self.floats.add(dtype)
        known = dict(zip(body.params, operands, strict=True))
        codes = self.codes(dtype)
        for e in _steps(body.results):
            if e.head == "const":
                known[e] = self.constant(e.leaf, dtype)
                continue
            out = BOOL if _gives_truth(e, known) else dtype
            code = codes.get(e.head, ATOMS[e.head].code)
            parts = [known[a] for a in e.args]
            if self.mixed and dtype == FLOAT32 and _CALL.search(code):
                parts = [self.convert(p, FLOAT64) if p.dtype == FLOAT32 else p for p in parts]
                code = f"float32({code})" if out == FLOAT32 else code
            known[e] = self.builder.operation(code, parts, out, ATOMS[e.head].cost)
        return [known[e] for e in body.results]

    def reduced(self, equation: Equation, at: Indices) -> Value:
        """Return a reduction over short axes, one element after the other."""
        (x,) = equation.args
        axes = equation.params["axes"]
        join = reduction_of(equation.name).join
        rest, dtype = iter(at), equation.outs[0].aval.dtype
        place = [HERE if i in axes else next(rest) for i in range(len(x.aval.shape))]
        total = None
        for part in itertools.product(*(range(x.aval.shape[i]) for i in axes)):
            for i, p in zip(axes, part, strict=True):
                place[i] = Index(p)
            term = self.converted(x, tuple(place), dtype)
            total = term if total is None else self.apply(join, [total, term], dtype)
        assert total is not None  # noqa: S101 -- axes of length zero are computed by NumPy
        return total

    def contract(self, equation: Equation, at: Indices) -> Value:
        """Return a product summed over short axes."""
        (x, y), (a, b, out) = equation.args, (equation.params[k] for k in ("a", "b", "out"))
        lengths = dict(zip(a + b, (*shape_of(x), *shape_of(y)), strict=True))
        place = dict(zip(out, at, strict=True))
        summed = [c for c in a if c not in out]
        self.unroll_for(x, [place[c] for c in out if c not in a])
        self.unroll_for(y, [place[c] for c in out if c not in b])
        dtype, total = equation.outs[0].aval.dtype, None
        for part in itertools.product(*(range(lengths[c]) for c in summed)):
            place.update((c, Index(p)) for c, p in zip(summed, part, strict=True))
            factors = [
                self.converted(v, tuple(place[c] for c in letters), dtype) for v, letters in ((x, a), (y, b))
            ]
            term = self.apply("multiply", factors, dtype)
            total = term if total is None else self.apply("add", [total, term], dtype)
        assert total is not None  # noqa: S101 -- axes of length zero are computed by NumPy
        return total

    def unroll_for(self, x: Any, others: Sequence[Index]) -> None:
        """Ask for `others` to be unrolled, unless `x`, which does not depend on them, is cheap to repeat."""
        if isinstance(x, Var) and not self.is_plain(x):
            terms = [t for ix in others for t in ix.terms]
            small = x.aval.size * SMALL <= math.prod(self.builder.sizes.values())  # it is stored in less time
            loops = self.unrolled(terms)
            if loops and not small:
                raise NeedsUnrolledError(loops)
            if terms:
                self.wanted[x] = None

    def is_plain(self, x: Any) -> bool:
        """Return whether `x` is memory seen through views."""
        while isinstance(x, Var) and x not in self.stored:
            equation, _ = self.makers[x]
            view = VIEWS.get(equation.name)
            if view is None or view.pieces:
                return False
            x = equation.args[0]
        return True

    # ---- primitives that only say where elements come from --------------------------------------------

    def piece(self, out: Index, pieces: Sequence[Piece], dtype: np.dtype[Any]) -> Value:
        """Return the element at `out` along an axis that consists of pieces, zero where there is none."""
        if not out.terms:
            for p in pieces:
                if p.start <= out.const < p.stop:
                    return self.value(p.source, p.at(Index(out.const - p.start)))
            return self.constant(dtype.type(0))
        least, most = self.reach(out)
        inside = [p for p in pieces if p.start < p.stop and p.start <= most and p.stop > least]
        if len(inside) == 1 and inside[0].start <= least and most < inside[0].stop:
            return self.value(inside[0].source, inside[0].at(plus(out, Index(-inside[0].start))))
        tiny = [k for k, _ in out.terms if k in self.tiny] if len(inside) > 2 else []
        found = tiny or self.unrolled(out.terms)
        if found:
            raise NeedsUnrolledError(found)
        value = self.constant(dtype.type(0))
        for p in inside:
            guard = within(out, p.start, p.stop, least, most)
            at = p.at(plus(out, Index(-p.start)))
            if not isinstance(p.source, Var):
                value = self.choice(guard, self.constant(p.source, dtype), value)
                continue
            own = p.source.aval.dtype
            if own == dtype:
                value = self.guarded(p.source, at, guard, value)
            else:
                element = self.guarded(p.source, at, guard, self.constant(own.type(0)))
                value = self.choice(guard, self.convert(element, dtype), value)
        return value

    def guarded(self, x: Var, at: Indices, guard: Line, other: Value) -> Value:
        """Return an element where `guard` holds, else `other`; elsewhere `x` may have no element there."""
        value = None if x in self.stored else self._scaled(x, at, guard, CHEAP)
        if value is not None:
            return self.choice(guard, value, other)
        if x not in self.stored:
            self.wanted[x] = None
        return self.load(x, linear(at, x.aval.shape), at, guard, other)

    def _scaled(self, x: Var, at: Indices, guard: Line, work: int) -> Value | None:
        """Return an element that is computed of one of an array in memory, and numbers, by little work.

        It means nothing where `guard` does not hold. None where it is computed otherwise.
        """
        if x in self.stored:
            return self.load(x, linear(at, x.aval.shape), at, guard, self.constant(x.aval.dtype.type(0)))
        equation, _ = self.makers[x]
        name, arrays = equation.name, [a for a in equation.args if isinstance(a, Var) and a.aval.size > 1]
        work -= scalar_work(name) if name in ATOMS else work + 1
        if work < 0 or x.aval.dtype.kind != "f" or [a.aval for a in arrays] != [x.aval]:
            return None

        def element(a: Var) -> Value | None:
            if a is arrays[0]:
                return self._scaled(a, at, guard, work)
            return self.value(a, (HERE,) * len(a.aval.shape))

        return self._computed(equation, element)

    def reach(self, ix: Index) -> tuple[int, int]:
        """Return the least and the largest place that an index is."""
        return reach(ix, self.builder.sizes)

    def choice(self, guard: Line, x: Value, other: Value) -> Value:
        """Return one of two scalars."""
        loops = [t for p in guard if isinstance(p, Index) for t in p.terms]
        self.builder.pinned.update(k for k, _ in loops)
        depth = max(self.builder.depth(loops), x.depth, other.depth)
        key = (x, other, guard)
        line: Line = (f"{x.name} if ", *guard, f" else {other.name}")
        return self.builder.known(key) or self.builder.define(key, line, depth, x.dtype)


class Piece(NamedTuple):
    """Part of an axis: from `start` to before `stop`, the element at `at(place in the part)` of `source`."""

    start: int
    stop: int
    source: Any
    at: Callable[[Index], Indices]


def within(out: Index, start: int, stop: int, least: int, most: int) -> Line:
    """Return the condition that `out`, which runs from `least` to `most`, lies in a part."""
    above: Line = (out, " >= ", Bound(start)) if start > least else ()
    below: Line = (out, " < ", Bound(stop)) if stop <= most else ()
    return (*above, " and ", *below) if above and below else above or below


def reduction_of(name: str) -> Reduction:
    """Return how a primitive joins elements."""
    found = PRIMITIVES[name].reduction
    assert found is not None  # noqa: S101 -- it was asked for
    return found


def shape_of(x: Any) -> Shape:
    """Return the shape of a variable or constant."""
    return x.aval.shape if isinstance(x, Var) else np.shape(x)


def aligned(at: Indices, shape: Shape) -> Indices:
    """Return where an operand of `shape` that broadcasts is read."""
    extra = len(at) - len(shape)
    return tuple(HERE if n == 1 else ix for n, ix in zip(shape, at[extra:], strict=True))


@functools.cache
def _body(name: str) -> Body:
    body = PRIMITIVES[name].scalar
    assert body is not None  # noqa: S101 -- others are not fused
    return prepare(body.params, (body.result,))


@functools.lru_cache(config.cache_entries())
def _steps(results: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Return what is below expressions in order, without their variables."""
    return tuple([e for e in postorder(*results) if e.head != "var"])


def _gives_truth(e: Expr, known: dict[Expr, Value]) -> bool:
    conditions = ATOMS[e.head].conditions
    if not conditions:
        return _truth(e.head)
    chosen = [a for i, a in enumerate(e.args) if i not in conditions]
    return _truth(e.head) or (bool(chosen) and all(known[a].dtype == BOOL for a in chosen))


@functools.cache
def _truth(atom: str) -> bool:
    return ATOMS[atom].gives_truth


def result_dtype(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return what an element-wise primitive of integers or truths gives."""
    return BOOL if name in ATOMS and _truth(name) else dtype


def loop_dtypes(equation: Equation) -> list[np.dtype[Any]]:
    """Return the dtypes of the operands inside an element-wise primitive; the first is the condition."""
    primitive = PRIMITIVES[equation.name]
    kinds = tuple(map(_kind, equation.args))
    if CHOOSES in primitive.traits:
        dtype = equation.outs[0].aval.dtype
        first = equation.args[0]
        return [first.aval.dtype if isinstance(first, Var) else aval_of(first).dtype, dtype, dtype]
    if isinstance(primitive.run, np.ufunc):
        return list(primitive.run.resolve_dtypes((*kinds, None))[:-1])
    dtype = equation.outs[0].aval.dtype
    return [dtype] * len(kinds)


def _kind(a: Any) -> Any:
    """Return what NumPy's promotion is told of an operand: Python's numbers are weak there, not truths."""
    if isinstance(a, Var):
        return a.aval.dtype
    if isinstance(a, bool):
        return BOOL
    return a.dtype if hasattr(a, "dtype") else type(a)


def scalar_work(name: str) -> int:
    """Return how many operations an element of a primitive takes."""
    body = PRIMITIVES[name].scalar
    return 1 if body is None else sum(ATOMS[x.head].cost for x in postorder(body.result) if x.args)
