"""Scatter-adds as kernels whose results are reproducible.

Atomic additions would add in the order in which threads arrive. So the places are sorted by the library,
which keeps the order of equal ones; a thread adds up what lies side by side in a chunk, and a last kernel
joins the chunks of a place that has several, in their order. Places that are known when a program is compiled
are sorted then.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fgrad.compiler.device.statements import Grid, GridWriter, Scratch, inside, striding
from fgrad.compiler.fuse import Root
from fgrad.compiler.index import HERE, Index, linear
from fgrad.core.program import Var
from fgrad.ops.indices import filled, layout

CHUNK = 64  # sorted places that a thread goes through
PLACE = np.dtype(np.int64)


class Table(NamedTuple):
    """An array that is known when the program is compiled."""

    root: Root
    name: str
    array: np.ndarray[Any, Any]

    def __hash__(self) -> int:
        return id(self.array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and other.array is self.array

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the array."""
        dtype: np.dtype[Any] = self.array.dtype
        return dtype

    @property
    def size(self) -> int:
        """How many elements there are."""
        return self.array.size


class Zeros(NamedTuple):
    """A step that clears a buffer."""

    buffers: tuple[Var]
    loads: frozenset[Var] = frozenset()

    @property
    def stores(self) -> frozenset[Any]:
        """What is written."""
        return frozenset(self.buffers)


class Sort(NamedTuple):
    """A step that sorts places: buffers for them, for the order of the elements, and for them in order."""

    buffers: tuple[Scratch, Scratch, Scratch]
    loads: frozenset[Var] = frozenset()

    @property
    def stores(self) -> frozenset[Any]:
        """What is written."""
        return frozenset(self.buffers[1:])


Piece = Grid | Zeros | Sort


def scattered(root: Root, kept: Any, context: tuple[Any, ...]) -> list[Piece]:
    """Return the steps that compute a sum to places; `context` is what kernels are written with."""
    if root.var not in kept:
        return []
    sums = _Sums(root, context)
    known = _known(root, sums, context[5])
    steps: list[Piece] = []
    if known is None:
        n = sums.count
        keys, order, places = (Scratch(root, name, n, PLACE) for name in ("keys", "order", "places"))
        steps += [_keys(root, sums, keys, context), Sort((keys, order, places))]
        found: tuple[Any, Any] = (order, places)
    else:
        found = known
    steps += [Zeros((root.var,)), sums.run(*found)]
    return [*steps, sums.joined(found[1])] if sums.parts > 1 else steps


def _axes(root: Root) -> range:
    """Return the axes of what is added that index arrays go along; the others are the same in the result."""
    _, *arrays = root.equation.args
    pre, rank = layout(root.var.aval.shape, [j.aval for j in arrays], root.equation.params["template"])
    return range(pre, pre + rank)


def _known(root: Root, sums: _Sums, constants: Any) -> tuple[Table, Table] | None:
    """Return the order of the elements and their places, where all index arrays are constant."""
    _, *arrays = root.equation.args
    if not all(j in constants for j in arrays):
        return None
    shape = root.var.aval.shape
    index = filled(root.equation.params["template"], [constants[j] for j in arrays])
    try:
        places = np.arange(math.prod(shape)).reshape(shape)[index]
    except IndexError:
        return None  # they are clamped
    first = tuple(slice(None) if i in _axes(root) else 0 for i in range(places.ndim))
    places = places[first].reshape(-1)
    assert places.size == sums.count  # noqa: S101 -- loops leave out axes of length one
    order = np.argsort(places, kind="stable")
    return Table(root, "order", order), Table(root, "places", places[order])


def _keys(root: Root, sums: _Sums, keys: Scratch, context: tuple[Any, ...]) -> Grid:
    """Return the kernel that finds the place of every element, where the other axes begin."""
    writer = GridWriter(root.loops, *context)
    writer.enter(0, len(root.loops))
    at = tuple(ix if i in _axes(root) else HERE for i, ix in enumerate(root.at))
    place = linear(root.places_of(writer.elements, at), root.var.aval.shape)
    items = writer.items(0, len(writer.builder.chain))
    lines = [*writer.counters("k", sums.folded), *writer.text(items)]
    writer.stores[keys] = None
    stored = f"{writer.buffer(keys)}[k] = {writer.index(place)}"
    body = striding("k", writer.number(sums.count), [*lines, stored])
    return writer.grid("places", body, sums.count)


class _Sums(GridWriter):
    """The kernel that adds up what goes to one place, for each of the other axes."""

    def __init__(self, root: Root, context: tuple[Any, ...]) -> None:
        super().__init__(root.loops, *context)
        self.root, self.context = root, context
        self.computing([root])
        along = [k for i in _axes(root) for k, _ in root.at[i].terms]
        self.folded = along
        self.rest = [k for k in range(len(root.loops)) if k not in along]
        self.count = math.prod(root.loops[k] for k in along)
        self.width = math.prod(root.loops[k] for k in self.rest)
        self.parts = -(-self.count // CHUNK)
        self.partial = Scratch(root, "partial", self.parts * self.width, root.var.aval.dtype)

    def run(self, order: Any, places: Any) -> Grid:
        """Return the kernel."""
        root, dtype = self.root, self.root.var.aval.dtype
        self.enter(0, len(root.loops))
        value = self.elements.converted(root.equation.args[0], root.at, dtype)
        lines = self.text(self.items(0, len(self.builder.chain)))
        zero = self.builder.constant(f"{dtype.name}(0.0)")
        width, count = self.number(self.width), self.number(self.count)
        sorted_, out, part = self.buffer(places), self.buffer(root.var), self.buffer(self.partial)
        self.stores |= {root.var: None, self.partial: None}
        written = [
            "if inherited:",  # from the chunk before
            f"    {part}[task] = total",
            "else:",
            f"    {out}[last + {self.offset(self)}] = total",
        ]
        term = [
            f"key = {sorted_}[q]",
            "if key != last:",
            *inside([*written, "inherited = False", f"total = {zero}", "last = key"]),
            f"e = {self.buffer(order)}[q]",
            *self.counters("e", self.folded),
            *lines,
            f"total = total + {value.name}",
            "q += 1",
        ]
        task = [
            f"q = task // {width} * {CHUNK}",
            f"r = task % {width}",
            *self.counters("r", self.rest),
            f"stop = min(q + {CHUNK}, {count})",
            f"last = {sorted_}[q]",
            f"inherited = q > 0 and {sorted_}[max(q - 1, 0)] == last",
            f"total = {zero}",
            "while q < stop:",
            *inside(term),
            *written,
        ]
        tasks = self.parts * self.width
        return self.grid("sums", striding("task", self.number(tasks), task), tasks)

    def offset(self, writer: GridWriter) -> str:
        """Return how far from a place its other axes lead, as text."""
        probe = GridWriter(self.root.loops, *self.context)
        probe.enter(0, len(self.root.loops))
        place = linear(self.root.places_of(probe.elements, self.root.at), self.root.var.aval.shape)
        return writer.index(Index(0, tuple(t for t in place.terms if t[0] in self.rest)))

    def joined(self, places: Any) -> Grid:
        """Return the kernel that adds to a place what later chunks have for it."""
        writer = GridWriter(self.root.loops, *self.context)
        writer.enter(0, len(self.root.loops))
        width, count = writer.number(self.width), writer.number(self.count)
        sorted_, out, part = (writer.buffer(b) for b in (places, self.root.var, self.partial))
        writer.stores[self.root.var] = None
        add = [
            f"total = {out}[at]",
            f"while stop < {count} and {sorted_}[min(stop, {count} - 1)] == key:",
            f"    total = total + {part}[stop // {CHUNK} * {width} + r]",
            f"    stop += {CHUNK}",
            f"{out}[at] = total",
        ]
        task = [
            f"q = task // {width} * {CHUNK}",
            f"r = task % {width}",
            f"stop = q + {CHUNK}",
            f"if stop < {count}:",
            f"    key = {sorted_}[stop - 1]",
            f"    if {sorted_}[stop] == key and (q == 0 or {sorted_}[max(q - 1, 0)] != key):",
            *inside(inside([*writer.counters("r", self.rest), f"at = key + {self.offset(writer)}", *add])),
        ]
        tasks = self.parts * self.width
        if self.root.var.aval.dtype.kind == "f":
            writer.elements.floats.add(self.root.var.aval.dtype)
        return writer.grid("joined", striding("task", writer.number(tasks), task), tasks)
