"""How a sparse derivative is computed: a product for each colour, and where its numbers go."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary, ref

import numpy as np
from scipy import sparse

from fgrad import numpy as fnp
from fgrad.compiler import Executable
from fgrad.config import jit_disabled
from fgrad.core.aval import Aval
from fgrad.core.nonfinite import watching
from fgrad.core.program import Program
from fgrad.core.rewriting.keys import without_repetitions
from fgrad.core.tensor import Tensor, is_tracked
from fgrad.core.trace import FLOOR, current
from fgrad.extend.engine import simplify
from fgrad.locks import lazy
from fgrad.scipy.sparse.arrays import Pattern, SparseArray
from fgrad.sparse import lanes, side_by_side
from fgrad.sparse.arguments import Arguments
from fgrad.sparse.colouring import Colouring, Forest
from fgrad.sparse.operators import Layout, MatrixOperator, joined, plain
from fgrad.sparse.patterns import found, gradient, tangent_program
from fgrad.transforms.captures import Captures
from fgrad.transforms.effects import reached
from fgrad.transforms.forward import jvp
from fgrad.transforms.jit import jit
from fgrad.transforms.reverse import vjp
from fgrad.transforms.vmap import vmap

if TYPE_CHECKING:
    from fgrad.sparse.derivatives import SparseDerivative

FORMATS = {"csr": sparse.csr_array, "csc": sparse.csc_array}
_SEEDS = 2**28  # bytes of seeds that a program may hold
_LONG = 2000  # equations of a program that follows lanes
_READ, _GROWN = 2**25, 16  # bytes of constants, and times those of the seeds, from which on colours are read


class Plan:
    """What is found out once for all calls of one structure.

    Attributes:
        given: arguments of this structure.
        pattern: a csr_array of truths.
        colouring: of its columns and rows.
        colours: what the compiled function takes besides the leaves, unless it holds seeds.
    """

    given: Arguments
    pattern: Any
    colouring: Colouring
    coordinates: tuple[Any, Any]
    indices: Any
    starts: Any

    def __init__(self, owner: SparseDerivative, given: Arguments) -> None:
        options = owner.options
        self._around, self.given = Captures(owner.fun), given
        tensors = reached(owner.fun, self._around)[1]
        self._tensors = [(ref(t), t._value, is_tracked(t)) for t in tensors]
        if options["pattern"] is None:
            self.pattern = found(given, order=owner.order, local=False)
        else:
            self.pattern = owner.given_pattern(given)
        self.colouring = owner.coloured(self.pattern)
        _set(self.colouring)
        self.format: str = options["format"]
        laned = None
        if (
            not tensors
            and options["pattern"] is None
            and options["colouring"] is None
            and options.get("mode", "auto") == "auto"
        ):
            laned = _laned(given, self, owner.order)
        forest, slopes = Forest(None, []), None
        if laned is None:
            where, forest = owner.placed(self.pattern, self.colouring)
            _set([forest.read, *(x for pair in forest.steps for x in pair)])
        else:
            where, lanes_count, slopes = laned
        where = self._arranged(where)
        self.shape: tuple[int, int] = self.pattern.shape
        self.traced_pattern: Pattern | None = None
        self._rooms: WeakValueDictionary[int, Any] = WeakValueDictionary()
        count = lanes_count if laned else 0 if self.colouring.reverse else self.colouring.forward
        start = _strip(where, count, self.shape[0])
        self._part = slice(None) if start is None else slice(start, start + where.size)
        if where.max(initial=0) <= np.iinfo(np.int32).max:  # half as many bytes to read
            where = where.astype(np.int32)
        _set([where])
        sides = [c for c in self.colouring if c is not None]
        seeded = _products(given, self.colouring, order=owner.order)
        held = 8 * (given.count * self.colouring.forward + self.shape[0] * self.colouring.reverse)
        by_colour = laned is None and held > _SEEDS
        if not by_colour and laned is None:  # indices may make much larger constants of them
            program = jit(partial(seeded, colours=sides)).lower(given.leaves).program
            constant = sum({id(a): without_repetitions(a).nbytes for a in _constants(program)}.values())
            by_colour = constant > max(_READ, _GROWN * held)
        self.colours: tuple[Any, ...] = tuple(c.astype(np.int32) for c in sides) if by_colour else ()
        beside = None
        if slopes is None and start is not None and not (by_colour or tensors):
            beside = _beside(given, self.colouring, owner.order)

        def values(leaves: list[Any], *colours: Any) -> Any:
            if slopes is not None:
                return fnp.stack(slopes(leaves), axis=1)
            if beside is not None:
                return beside(leaves)
            products = seeded(leaves, colours or sides)
            if forest.steps:
                products = fnp.concatenate([products, _summed(products[forest.read], forest.steps)])
            return products[where] if start is None else products.reshape(count, -1).T

        def both(leaves: list[Any], *colours: Any) -> Any:
            return given.call(leaves), values(leaves, *colours)

        self._values, self._both = jit(values), jit(both)

    def fresh(self) -> bool:
        """Return whether what the function reads from outside is as it was."""
        return self._around.fresh() and all(
            (t := r()) is None or (t._value is v and is_tracked(t) is tracked)
            for r, v, tracked in self._tensors
        )

    def _arranged(self, where: Any) -> Any:
        """Return the places of entries, which are given row by row, in the order of the format."""
        entries, shaped = self.pattern.tocoo(), self.pattern
        self.coordinates = entries.row, entries.col
        if self.format == "csc":
            order = np.lexsort(self.coordinates)
            where = where[order]
            self.coordinates = entries.row[order], entries.col[order]
            shaped = shaped.tocsc()
            shaped.sort_indices()
        least = sparse.get_index_dtype(maxval=max(where.size, *shaped.shape))  # which SciPy's solvers take
        self.indices, self.starts = shaped.indices.astype(least), shaped.indptr.astype(least)
        return where

    def values(self, leaves: list[Any]) -> Any:
        """Return the entries, in the order of the format."""
        return self._entries(self._values(leaves, *self.colours))

    def _entries(self, products: Any) -> Any:
        """Return the part of numbers that entries are."""
        if products.__class__ is np.ndarray and self._part != slice(None):
            self._rooms[id(products)] = products
        return products.reshape(-1)[self._part]

    def _room(self, data: Any, aval: Aval) -> Any:
        """Return the array that entries are part of, as in results of calls; None if they are not."""
        room = data if self._part == slice(None) else self._rooms.get(id(data.base))
        if room is None or room.dtype != aval.dtype or room.size != aval.size or not data.flags.c_contiguous:
            return None
        first = room.reshape(-1)[self._part]
        at = [x.__array_interface__["data"][0] for x in (first, data)]
        return room.reshape(aval.shape) if at[0] == at[1] and room.flags.writeable else None

    def both(self, leaves: list[Any]) -> Any:
        """Return what the function returns, and the entries."""
        value, products = self._both(leaves, *self.colours)
        return value, self._entries(products)

    def fill(self, data: Any, leaves: list[Any]) -> None:
        """Write the entries into an array."""
        out, executable = None, None
        if current() is FLOOR and not (jit_disabled() or watching()) and _are_apart(leaves, data):
            executable = self.whole
        if executable is not None:
            (place,) = executable.results
            out = None if place is None else self._room(data, executable.outs[place])
        if out is None or executable is None:
            data[...] = plain(self.values(leaves))
            return
        (made,) = executable.run([*leaves, *self.colours], out)
        if made is not out:
            data[...] = made.reshape(-1)[self._part]

    @lazy
    def whole(self) -> Executable | None:
        """The compiled program of the entries, where it depends on nothing but the arguments."""
        lowered = self._values.lower(self.given.abstract(), *self.colours)
        if not lowered.is_whole:
            return None
        found = lowered.compile()
        return found if found.is_direct and None not in found.results else None

    def filled(self, data: Any) -> Any:
        """Return the sparse array with these entries."""
        if isinstance(data, Tensor):
            if self.traced_pattern is None:
                self.traced_pattern = Pattern(*self.coordinates, self.shape)
            return SparseArray(data, self.traced_pattern)
        if not isinstance(data, np.ndarray):
            raise TypeError(
                f"the entries are a {type(data).__name__}, which SciPy's arrays do not hold; take them "
                "alone by `values`, with `pattern`, or move the arguments to the host"
            )
        if self.format == "coo":
            row, column = self.coordinates
            return sparse.coo_array((data, (row.copy(), column.copy())), shape=self.shape)
        if self.format == "operator":
            return MatrixOperator(data, self.layout)
        places = self.indices.copy(), self.starts.copy()  # which belong to whoever gets them
        made = FORMATS[self.format]((data, *places), shape=self.shape)
        made.has_canonical_format = True
        return made

    @lazy
    def layout(self) -> Layout:
        """The pattern, as operators need it."""
        return Layout(self.starts, self.indices, self.shape)


def _are_apart(leaves: Sequence[Any], data: Any) -> bool:
    """Return whether leaves are plain numbers that do not lie where entries are written."""
    return all(
        x.__class__ is float or (x.__class__ is np.ndarray and not np.may_share_memory(x, data))
        for x in leaves
    )


def _set(arrays: Sequence[Any]) -> None:
    """Make arrays what cannot change, so that no call has to look whether they did."""
    for a in arrays:
        if a is not None:
            a.setflags(write=False)


def _strip(where: Any, count: int, rows: int) -> int | None:
    """Return where entries begin in the numbers of `count` products, row by row, if they go on in order."""
    if not count or not where.size or where.max() >= count * rows:
        return None
    turned = where % rows * count + where // rows
    first = int(turned[0])
    return first if (turned == np.arange(first, first + where.size)).all() else None


def _laned(given: Arguments, plan: Plan, order: int) -> tuple[Any, int, Any] | None:
    """Return where entries are among lanes, the count of these, and what computes them.

    None where lanes do not say all, or are not in the order of the entries: a gather from them takes longer
    than the products do.
    """
    most, pattern = plan.colouring.colours, plan.pattern
    if plan.format == "csc":
        return None
    program, _ = tangent_program(given, order=order)
    if len(program.equations) * most > _LONG:
        return None
    shapes = [given.avals[k] for k in given.places]

    def followed(leaves: list[Any]) -> tuple[list[Any], Any]:
        return lanes.flattened(lanes.followed(program, leaves, given.sizes, shapes, most))

    def slopes(leaves: list[Any]) -> list[Any]:
        return followed(leaves)[0]

    inputs: list[Any] = []
    try:
        given.staged(lambda leaves: inputs.append(followed(leaves)[1]), given.abstract())
        where = lanes.places(inputs[0], pattern)
    except lanes.UnknownLanesError:
        return None
    count = len(inputs[0])
    return None if _strip(where, count, pattern.shape[0]) is None else (where, count, slopes)


def _beside(given: Arguments, colouring: Colouring, order: int) -> Callable[..., Any] | None:
    """Return what computes all products side by side, row by row; None where that is not known."""
    program, _ = tangent_program(given, order=order)
    ends = np.cumsum([0, *given.sizes])
    numbers = np.arange(colouring.forward)
    seeds = []
    for (i, j), k in zip(pairwise(ends), given.places, strict=True):
        a = given.avals[k]
        seed = (colouring.columns[i:j].reshape(*a.shape, 1) == numbers).astype(a.dtype)
        _set([seed])
        seeds.append(seed)

    def products(leaves: list[Any]) -> Any:
        outs = side_by_side.followed(program, leaves, seeds)
        return outs[0] if len(outs) == 1 else joined(outs)

    try:
        made = given.staged(products, given.abstract())
    except side_by_side.UnknownColoursError:
        return None
    held = sum({id(a): without_repetitions(a).nbytes for a in _constants(simplify(made))}.values())
    return products if held <= _READ else None


def _summed(sums: Any, steps: Sequence[tuple[Any, Any]]) -> Any:
    """Return what is left of products at each vertex of a forest when all below it is subtracted."""
    for i, (below, above) in enumerate(steps):
        moved = sums[below]
        fnp.add.at(sums, above, moved if i else -moved)
    return sums


def _constants(program: Program) -> list[Any]:
    """Return the arrays that a program holds, but for the places of the entries."""
    used = [*(a for e in program.equations for a in e.args), *program.outputs]
    return [a for a in used if isinstance(a, np.ndarray)]


def _products(given: Arguments, colouring: Colouring, *, order: int) -> Callable[..., Any]:
    """Return the function of the leaves and colours that computes all products, flattened."""
    avals = [given.avals[k] for k in given.places]

    def derived(leaves: list[Any]) -> tuple[Callable[..., Any], list[Any]]:
        fun = given.partial(leaves, given.outputs) if order == 1 else gradient(given, leaves)
        return fun, [leaves[k] for k in given.places]

    def forward(leaves: list[Any], colour: Any) -> Any:
        fun, xs = derived(leaves)
        return _over_colours(lambda *ts: joined(jvp(fun, xs, ts)[1]), colour, colouring.forward, avals)

    def reverse(leaves: list[Any], colour: Any) -> Any:
        fun, xs = derived(leaves)
        outs, back = vjp(fun, *xs)
        return _over_colours(lambda *cts: joined(back(type(outs)(cts))), colour, colouring.reverse, outs)

    def both(leaves: list[Any], colours: Sequence[Any]) -> Any:
        sides = iter(colours)
        parts = []
        for side, colour, count in (
            (forward, colouring.columns, colouring.forward),
            (reverse, colouring.rows, colouring.reverse),
        ):
            if colour is not None:
                own = next(sides)
                parts += [side(leaves, own)] if count else []
        if not parts:
            return np.zeros(0, np.result_type(*[a.dtype for a in avals]))
        return parts[0] if len(parts) == 1 else fnp.concatenate(parts)

    return both


def _over_colours(along: Callable[..., Any], colour: Any, count: int, avals: Sequence[Any]) -> Any:
    """Return what a linear function makes of the sum of all unit vectors of each colour, flattened."""
    ends = np.cumsum([0, *(math.prod(a.shape) for a in avals)])
    parts = [colour[i:j].reshape(a.shape) for (i, j), a in zip(pairwise(ends), avals, strict=True)]
    if isinstance(colour, np.ndarray):  # what is known, and small enough
        seeds = []
        for part, a in zip(parts, avals, strict=True):
            seed = (part == np.arange(count).reshape(-1, *(1,) * part.ndim)).astype(a.dtype)
            seed.setflags(write=False)
            seeds.append(seed)
        return vmap(along)(*seeds).reshape(-1)

    def of(k: Any) -> Any:
        return along(*[(p == k).astype(a.dtype) for p, a in zip(parts, avals, strict=True)])

    return vmap(of)(np.arange(count, dtype=np.int32)).reshape(-1)
