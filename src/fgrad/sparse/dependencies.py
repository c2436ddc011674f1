"""Which inputs each element of a program's variables depends on, as the program is written.

Programs of tangents are linear in them, so what depends on what there is where Jacobians have entries: zero
slopes, derivatives of a function's own and what is not differentiated have been seen to when the program was
made. Operations say by their traits how they connect elements; what says nothing connects all with all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from fgrad.core.aval import Shape
from fgrad.core.control_flow import Branches, Grown, Scan, While
from fgrad.core.primitive import (
    ADDS_AT,
    ALONG,
    BILINEAR,
    CHOOSES,
    CONTRACTION,
    EACH,
    ELEMENTWISE,
    NOT_FOLDED,
    PLACES,
    PRIMITIVES,
    PRODUCT,
    STACKS,
    Primitive,
)
from fgrad.core.program import Equation, Program, Var, aval_out
from fgrad.core.tensor import Tensor
from fgrad.core.trace import place_of
from fgrad.sparse.rows import (
    Rows,
    closed,
    everywhere,
    grouped,
    kept,
    none,
    paired,
    positions,
    single,
    split,
    stacked,
    taken,
    united,
)

_UNROLLED = 4096  # steps of a loop that are gone through one by one
_TRIED = 2**26  # elements that are looked at to find out what an operation does
_ENTRIES = 2**29  # of a pattern: more do not fit into memory
UNKNOWN: Any = object()


def dependencies(
    program: Program, given: Sequence[Rows | None], values: Sequence[Any], columns: int
) -> list[Rows | None]:
    """Return for each element of the outputs of a program the set of numbers on which it depends.

    Args:
        program: of loops and branches that are plain; see `lower`.
        given: the sets of each input, for elements in C order; None where all are empty.
        values: of inputs, where they are known; `UNKNOWN` elsewhere.
        columns: how many numbers there are.

    Raises:
        MemoryError: there are too many entries.
    """
    return _Walk(columns).outputs(program, given, values)


class _Walk:
    """Goes through a program once."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.sets: dict[Var, Rows] = {}
        self.values: dict[Var, Any] = {}

    def outputs(self, program: Program, given: Sequence[Rows | None], values: Sequence[Any]) -> list[Any]:
        self.sets = {v: d for v, d in zip(program.inputs, given, strict=True) if d is not None}
        self.values = {v: x for v, x in zip(program.inputs, values, strict=True) if x is not UNKNOWN}
        last = {a: i for i, e in enumerate(program.equations) for a in e.args if isinstance(a, Var)}
        last |= {y: len(program.equations) for y in program.outputs if isinstance(y, Var)}
        ends: dict[int, list[Var]] = {}
        for v, i in last.items():
            ends.setdefault(i, []).append(v)
        for i, e in enumerate(program.equations):
            self.follow(e)
            for v in (*ends.get(i, ()), *(v for v in e.outs if v not in last)):  # nobody asks for it again
                self.sets.pop(v, None)
                self.values.pop(v, None)
        return [self.sets.get(y) if isinstance(y, Var) else None for y in program.outputs]

    def value(self, a: Any) -> Any:
        """Return the value of an operand, `UNKNOWN` if it is not known."""
        if isinstance(a, Var):
            return self.values.get(a, UNKNOWN)
        a = a._value if isinstance(a, Tensor) else a
        return a if isinstance(a, np.ndarray | np.generic | bool | int | float | complex) else UNKNOWN

    def of(self, a: Any) -> Rows | None:
        """Return the sets of an operand."""
        return self.sets.get(a) if isinstance(a, Var) else None

    def follow(self, e: Equation) -> None:
        """Find out what the results of an equation depend on, or what they are."""
        p, given = PRIMITIVES[e.name], [self.of(a) for a in e.args]
        if all(d is None for d in given):
            self.compute(e, p)
            return
        if p.flat:
            return
        code = e.params.get("code")
        if isinstance(code, Branches):
            found = self.branches(code, e, given)
        elif isinstance(code, Scan):
            found = self.scan(code, e, given)
        elif isinstance(code, While):
            found = self.loop(code, e, given)
        else:
            found = self.operation(p, e, given)
        for v, rows in zip(e.outs, found, strict=True):
            if rows is not None and v.aval.dtype.kind in "fc" and rows.nnz:
                self.sets[v] = rows

    def compute(self, e: Equation, p: Primitive) -> None:
        """Compute an equation of known values."""
        values = [self.value(a) for a in e.args]
        if any(v is UNKNOWN for v in values) or NOT_FOLDED in p.traits:
            return
        if p.effect is not None and p.effect(e.params):
            return
        with np.errstate(all="ignore"):
            found = p.run(*values, **e.params)
        self.values.update(zip(e.outs, found if p.many else (found,), strict=True))

    # ---- operations

    def operation(self, p: Primitive, e: Equation, given: Sequence[Rows | None]) -> list[Rows | None]:
        """Return what the results of an operation depend on."""
        if p.body is not None or ELEMENTWISE in p.traits:
            return [self.elementwise(p, e, given)]
        if PLACES in p.traits:
            found = self.placed(p, e, given)
        elif ADDS_AT in p.traits:
            found = self.added(e, given[0])
        else:
            each = [[*self.mixed(p, e, i, d)] for i, d in enumerate(given) if d is not None]
            return [united(parts) for parts in zip(*each, strict=True)]
        return self.dense(e, given) if found is None else found

    def elementwise(self, p: Primitive, e: Equation, given: Sequence[Rows | None]) -> Rows | None:
        shape = _shape(e.outs[0])
        parts = []
        choice = self.value(e.args[0]) if CHOOSES in p.traits else UNKNOWN
        for i, (a, rows) in enumerate(zip(e.args, given, strict=True)):
            if rows is None:
                continue
            part = taken(rows, np.broadcast_to(positions(_shape(a)), shape))
            if choice is not UNKNOWN and i:
                part = kept(part, np.broadcast_to(np.asarray(choice, bool) == (i == 1), shape))
            if _is_product(p):
                for j, b in enumerate(e.args):
                    if j != i and (factor := self.value(b)) is not UNKNOWN:
                        part = kept(part, np.broadcast_to(np.asarray(factor) != 0, shape))
            parts.append(part)
        return united(parts)

    def placed(self, p: Primitive, e: Equation, given: Sequence[Rows | None]) -> list[Rows] | None:
        """Run an operation that gives elements of its operands on the places of these."""
        count = len(e.args) if p.parts == EACH else p.parts
        labels, first, together = [], 1, []
        for a, rows in zip(e.args[:count], given, strict=False):
            shape = _shape(a)
            if rows is None:
                labels.append(np.zeros(shape, np.int64))
            else:
                labels.append(positions(shape) + first)
                first += rows.shape[0]
                together.append(rows)
        rows = stacked(together)
        others = [self.value(a) for a in e.args[count:]]
        unknown = [i for i, v in enumerate(others) if v is UNKNOWN]
        if not unknown:
            found = p.run(*labels, *others, **e.params)
            return [taken(rows, np.asarray(y) - 1) for y in (found if p.many else (found,))]
        seen = _everywhere(e, count, unknown, others)
        if seen is None:
            return None
        size = math.prod(_shape(e.outs[0]))
        pairs = []
        for index in seen:
            y = np.asarray(p.run(*labels, *index, **e.params)).reshape(-1)
            (known,) = np.nonzero(y)
            pairs.append(known * first + y[known])
        unique = np.unique(np.concatenate(pairs)) if pairs else np.zeros(0, np.int64)
        return [paired(unique // first, unique % first - 1, (size, first - 1)) @ rows]

    def added(self, e: Equation, rows: Rows | None) -> list[Rows] | None:
        """Return what zeros become to which elements were added at some places."""
        if rows is None:
            return None
        shape, template = e.params["shape"], e.params["template"]
        others = [self.value(a) for a in e.args[1:]]
        unknown = [i for i, v in enumerate(others) if v is UNKNOWN]
        seen: Any = _everywhere(e, 1, unknown, others, shape) if unknown else [others]
        if seen is None:
            return None
        read, size = PRIMITIVES["gather"].run, math.prod(shape)  # which reads where this one writes
        here = positions(_shape(e.args[0])).reshape(-1)
        there = [np.asarray(read(positions(shape), *i, template=template)).reshape(-1) for i in seen]
        if not there:
            return [none(size, self.columns)]
        pairs = np.unique(np.concatenate([t * max(here.size, 1) + here for t in there]))
        return [paired(pairs // max(here.size, 1), pairs % max(here.size, 1), (size, here.size)) @ rows]

    def mixed(self, p: Primitive, e: Equation, i: int, rows: Rows) -> list[Rows]:
        """Return what depends on operand `i` of an operation that mixes its elements."""
        a = e.args[i]
        shape, out = _shape(a), _shape(e.outs[0])
        if CONTRACTION in p.traits:
            return [self.contracted(e, i, rows)]
        if PRODUCT in p.traits and len(e.args) == 2:
            found = self.product(p, e, i, rows)
            if found is not None:
                return [found]
        apart: list[tuple[int, int]] | None = None  # axes of the operand, and of the result
        if ALONG in p.traits:
            axes = e.params["axes"] if "axes" in e.params else (e.params["axis"],)
            rest = [k for k in range(len(shape)) if k not in [x % len(shape) for x in axes]]
            apart = [(k, k if len(out) == len(shape) else j) for j, k in enumerate(rest)]
        elif STACKS in p.traits:
            lead, short = len(out) - 2, len(out) - len(shape)
            apart = [(k - short, k) for k in range(lead) if k >= short and shape[k - short] == out[k]]
        if apart is None or len(e.outs) > 1:
            return self.dense(e, [rows])
        sizes = [shape[k] for k, _ in apart]
        groups = _numbers(shape, [k for k, _ in apart], sizes)
        count = max(math.prod(sizes), 1)
        together = grouped(rows, groups, count)
        return [self.bounded(e, together, _numbers(out, [k for _, k in apart], sizes))]

    def contracted(self, e: Equation, i: int, rows: Rows) -> Rows:
        """Return what the sums of products by subscripts depend on."""
        mine, other = (e.params["a"], e.params["b"])[:: 1 - 2 * i]
        letters = e.params["out"]
        sizes = dict(zip(mine, _shape(e.args[i]), strict=True))
        sizes |= dict(zip(other, _shape(e.args[1 - i]), strict=True))
        out = tuple(sizes[c] for c in letters)
        factor = self.value(e.args[1 - i])
        grid = letters + "".join(c for c in mine if c not in letters)
        shape = tuple(sizes[c] for c in grid)
        if factor is not UNKNOWN and math.prod(shape) <= _TRIED and not np.all(factor):
            named = (
                (np.asarray(factor) != 0, other),
                (positions(out), letters),
                (positions(_shape(e.args[i])), mine),
            )
            where, first, second = (np.broadcast_to(_named(x, own, grid), shape) for x, own in named)
            first, second = first[where], second[where]
            return paired(first, second, (math.prod(out), rows.shape[0])) @ rows
        stay = [k for k, c in enumerate(mine) if c in letters]
        there = [sizes[mine[k]] for k in stay]
        together = grouped(rows, _numbers(_shape(e.args[i]), stay, there), max(math.prod(there), 1))
        return self.bounded(e, together, _numbers(out, [letters.index(mine[k]) for k in stay], there))

    def product(self, p: Primitive, e: Equation, i: int, rows: Rows) -> Rows | None:
        """Return what depends on one factor: each element of the other one alone moves its elements."""
        other, out = e.args[1 - i], math.prod(_shape(e.outs[0]))
        shape = _shape(other)
        size = math.prod(shape)
        if size * out > _TRIED:
            return None
        labels = (positions(_shape(e.args[i])) + 1).astype(float)
        factor = self.value(other)
        pairs = []
        for k in range(size):
            if factor is not UNKNOWN and not np.asarray(factor).flat[k]:
                continue
            one = np.zeros(size)
            one[k] = 1.0
            args = (labels, one.reshape(shape))[:: 1 - 2 * i]
            y = np.rint(p.run(*args, **e.params)).astype(np.int64).reshape(-1)
            (known,) = np.nonzero(y)
            pairs.append(known * (rows.shape[0] + 1) + y[known])
        unique = np.unique(np.concatenate(pairs)) if pairs else np.zeros(0, np.int64)
        n = rows.shape[0]
        return paired(unique // (n + 1), unique % (n + 1) - 1, (out, n)) @ rows

    def bounded(self, e: Equation, rows: Rows, places: Any) -> Rows:
        """Return sets at places of others, unless there are too many entries."""
        count = int(np.diff(rows.indptr)[places.reshape(-1)].sum())
        if count > _ENTRIES:
            raise _too_many(e, count)
        return taken(rows, places)

    def dense(self, e: Equation, given: Sequence[Rows | None]) -> list[Rows]:
        """Connect every element with every one."""
        rows = stacked([d for d in given if d is not None])
        sizes = [math.prod(_shape(v)) for v in e.outs]
        width = np.unique(rows.indices).size
        if width * sum(sizes) > _ENTRIES:
            raise _too_many(e, width * sum(sizes))
        return [everywhere(rows, n) for n in sizes]

    # ---- loops and branches

    def branches(self, code: Branches, e: Equation, given: Sequence[Rows | None]) -> list[Rows | None]:
        index = self.value(e.args[0])
        taken_ones = code.branches
        if index is not UNKNOWN:
            taken_ones = (code.branches[int(np.clip(index, 0, len(code.branches) - 1))],)
        values = [self.value(a) for a in e.args[1:]]
        found = [_Walk(self.columns).outputs(p, given[1:], values) for p in taken_ones]
        return [united([d for d in parts if d is not None]) for parts in zip(*found, strict=True)]

    def step(self, program: Program, given: Sequence[Any], values: Sequence[Any]) -> Rows:
        """Return what one step of a loop connects: of its results, one below the other, with its inputs."""
        sizes = [math.prod(_shape(v)) for v in program.inputs]
        starts, total = np.cumsum([0, *sizes]), sum(sizes)
        own = [
            single(start + np.arange(n), n, total) if v.aval.dtype.kind in "fc" else None
            for start, n, v in zip(starts[:-1], sizes, program.inputs, strict=True)
        ]
        found = _Walk(total).outputs(program, own, values)
        return stacked(
            [
                none(math.prod(_shape(y)), total) if d is None else d
                for y, d in zip(program.outputs, found, strict=True)
            ]
        )

    def inputs(self, variables: Sequence[Any], given: Sequence[Rows | None], *, steps: bool = False) -> Any:
        """Return the sets of some values, one below the other."""
        parts = [
            none(math.prod(_shape(v)), self.columns) if d is None else d
            for v, d in zip(variables, given, strict=True)
        ]
        return stacked(parts) if parts else none(0, self.columns)

    def scan(self, code: Scan, e: Equation, given: Sequence[Rows | None]) -> list[Rows | None]:
        first = int(code.length is None)
        args, given = e.args[first:], given[first:]
        n, m = code.consts, code.consts + code.carry
        body = code.body
        values = [*map(self.value, args[:n]), *[UNKNOWN] * (len(body.inputs) - n)]
        links = self.step(body, given, values)
        captured = self.inputs(args[:n], given[:n])
        carry = self.inputs(args[n:m], given[n:m])
        xs = [(math.prod(_shape(v)), d) for v, d in zip(body.inputs[m:], given[m:], strict=True)]
        carried, made = carry.shape[0], links.shape[0] - carry.shape[0]
        sizes = [math.prod(_shape(y)) for y in body.outputs]
        if code.length is not None and code.length <= _UNROLLED:
            rows: list[Any] = [None] * code.length
            order = range(code.length)
            for k in reversed(order) if code.reverse else order:
                here = [none(s, self.columns) if d is None else d[s * k : s * (k + 1)] for s, d in xs]
                both = links @ stacked([captured, carry, *here])
                carry, rows[k] = both[:carried], both[carried:]
            ends = split(carry, sizes[: code.carry])
            if not made:
                return [*ends, *[none(0, self.columns)] * (len(sizes) - code.carry)]
            ys = stacked(rows) if rows else none(0, self.columns)
            return [*ends, *_unstacked(ys, sizes[code.carry :], code.length)]
        any_x = [
            none(s, self.columns) if d is None else grouped(d, np.arange(d.shape[0]) % max(s, 1), s)
            for s, d in xs
        ]
        c = captured.shape[0]
        outside = stacked([captured, none(carried, self.columns), *any_x])
        begun = carry + links[:carried] @ outside
        carry = closed(links[:carried, c : c + carried]) @ begun
        ends = split(carry, sizes[: code.carry])
        if code.length is None:
            ys = links[carried:] @ stacked([captured, carry, *any_x])
            return [*ends, *split(ys, sizes[code.carry :])]
        same = links[carried:] @ stacked([captured, carry, *(none(s, self.columns) for s, _ in xs)])
        found = []
        for s, (y, own) in enumerate(zip(split(same, sizes[code.carry :]), sizes[code.carry :], strict=True)):
            start = carried + sum(sizes[code.carry : code.carry + s])
            parts = [taken(y, np.tile(np.arange(own), code.length))]
            at = c + carried
            for width, d in xs:
                if d is not None:
                    link = links[start : start + own, at : at + width]
                    parts.append(sparse.kron(sparse.eye_array(code.length, dtype=bool), link, "csr") @ d)
                at += width
            found.append(united(parts))
        return [*ends, *found]

    def loop(self, code: While, e: Equation, given: Sequence[Rows | None]) -> list[Rows | None]:
        n, body = code.consts, code.body
        values = [*map(self.value, e.args[:n]), *[UNKNOWN] * code.carry]
        links = self.step(body, given, values)
        captured, carry = self.inputs(e.args[:n], given[:n]), self.inputs(e.args[n:], given[n:])
        carried, c = carry.shape[0], captured.shape[0]
        begun = carry + links[:carried] @ stacked([captured, none(carried, self.columns)])
        carry = closed(links[:carried, c:]) @ begun
        ys = links[carried:] @ stacked([captured, carry])
        sizes = [math.prod(_shape(y)) for y in body.outputs]
        return [*split(carry, sizes[: code.carry]), *split(ys, sizes[code.carry :])]


def _is_product(p: Primitive) -> bool:
    """Return whether it gives nothing where one of its operands is zero."""
    return BILINEAR in p.traits or (p.universal is not None and p.universal.ufunc is np.multiply)


def _shape(a: Any) -> Shape:
    """Return the shape of an operand; one step's of what a loop stacks that is not counted."""
    aval = aval_out(a)
    return (1, *aval.shape[1:]) if isinstance(aval, Grown) else aval.shape


def _numbers(shape: Shape, axes: Sequence[int], sizes: Sequence[int]) -> Any:
    """Return for each element its place among the combinations of `axes`, in this order."""
    found = np.zeros((1,) * len(shape), np.int64)
    for axis, n in zip(axes, sizes, strict=True):
        own = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
        found = found * n + own
    return np.broadcast_to(found, shape)


def _named(x: Any, own: str, grid: str) -> Any:
    """Return an array with axes `own` so that it broadcasts with arrays of the axes `grid`."""
    order = sorted(range(len(own)), key=lambda k: grid.index(own[k]))
    x = np.transpose(x, order)
    lengths = iter(x.shape)
    return x.reshape([next(lengths) if c in own else 1 for c in grid])


def _everywhere(
    e: Equation, count: int, unknown: Sequence[int], others: Sequence[Any], shape: Shape | None = None
) -> list[list[Any]] | None:
    """Return the index arrays for each place that the one which is not known may name; None: too many."""
    own = _shape(e.args[0]) if shape is None else shape
    size = max(math.prod(_shape(e.outs[0])), math.prod(_shape(e.args[count - 1])))
    if len(unknown) != 1 or max(own, default=0) * size > _TRIED:
        return None
    (at,) = unknown
    template, known = e.params["template"], list(others)
    found = []
    for k in range(max(own, default=0)):
        known[at] = np.full(_shape(e.args[count + at]), k, np.int64)
        try:
            PRIMITIVES["gather"].run(np.broadcast_to(np.int8(0), own), *known, template=template)
        except IndexError:  # the axis is shorter
            break
        found.append(list(known))
    return found


def _unstacked(ys: Rows, sizes: Sequence[int], length: int) -> list[Rows]:
    """Return the results of all steps, of which those of a step lie one below the other, one by one."""
    total, start, found = sum(sizes), 0, []
    for n in sizes:
        places = np.arange(length)[:, None] * total + start + np.arange(n)
        found.append(taken(ys, places))
        start += n
    return found


def _too_many(e: Equation, count: int) -> MemoryError:
    return MemoryError(
        f"the pattern has more than {count:.1e} entries: as far as is known {e.name} makes everything of "
        f"everything, at {place_of(e.line)}"
    )
