"""The layers of one box: which layer, in which order, at which place (Sugiyama, Tagawa & Toda 1981).

Cycles are broken, nodes get layers, the order in the layers is improved by barycentres as long as there are
fewer crossings, and places along a layer are the least squares of the lengths of edges under the distances
that have to be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fgrad.viz.graph import Item, neighbours, postorder

GAP = 26.0  # between neighbours of a layer
SWEEPS = 12


@dataclass(eq=False, slots=True)
class Cell:
    """A node of the layers of one box: an item, an inner box, a port of this box, or the dummy of an edge."""

    what: Any
    width: float
    height: float
    key: int
    source: Item | None = None  # of a port or dummy: whose result passes
    layer: int = 0
    place: int = 0
    x: float = 0.0
    up: list[Link] = field(default_factory=list)
    down: list[Link] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Link:
    """An edge between neighbouring layers, from `start` to `stop`, counted from the middle of its cells."""

    tail: Cell
    head: Cell
    start: float = 0.0
    stop: float = 0.0

    @property
    def weight(self) -> int:
        """How much it matters that it is straight: an edge bends where it leaves for its long way."""
        return 4 if isinstance(self.tail.what, str) == isinstance(self.head.what, str) else 1


def link(tail: Cell, head: Cell, start: float, stop: float) -> Link:
    """Link two cells."""
    made = Link(tail, head, start, stop)
    tail.down.append(made)
    head.up.append(made)
    return made


def back_edges(cells: Sequence[Cell], edges: Sequence[tuple[Cell, Cell]]) -> set[tuple[Cell, Cell]]:
    """Return edges whose reversal leaves no cycle: those that lead back in a search in depth."""
    inside = set(cells)
    inner = [(a, b) for a, b in edges if a in inside and b in inside]
    _, down = neighbours(cells, inner)
    done = {c: k for k, c in enumerate(postorder(sorted(cells, key=lambda c: c.key), down.__getitem__))}
    return {(a, b) for a, b in inner if done[b] >= done[a]}


def assign_layers(
    cells: Sequence[Cell],
    entries: Sequence[Cell],
    leaving: Sequence[Cell],
    edges: Sequence[tuple[Cell, Cell]],
) -> None:
    """Give each cell the longest way from a source; then what has few arguments moves to where it is used."""
    up, down = neighbours([*cells, *entries, *leaving], edges)
    base = 1 if entries else 0
    inside = set(cells)
    order = postorder(cells, lambda c: [d for d in down[c] if d in inside])
    for c in cells:
        c.layer = base
    for c in reversed(order):
        for d in down[c]:
            d.layer = max(d.layer, c.layer + 1)
    for c in order:
        uses = [d.layer for d in down[c] if d in inside]
        if uses and len(set(up[c])) <= len(set(down[c])):
            c.layer = max(c.layer, min(uses) - 1)
    last = max((c.layer for c in cells), default=base - 1)
    for c in entries:
        c.layer = 0
    for c in leaving:
        c.layer = max(last, 0) + 1


def order(layers: Sequence[list[Cell]]) -> None:
    """Order each layer so that few links cross."""
    for layer in layers:
        layer.sort(key=lambda c: c.key)
    _number(layers)
    best, kept = _crossings(layers), [list(layer) for layer in layers]
    stale = 0
    for sweep in range(SWEEPS):
        if best == 0 or stale > 3:
            break
        downward = sweep % 2 == 0
        for layer in layers[1:] if downward else reversed(layers[:-1]):
            for c in layer:
                links = c.up if downward else c.down
                ends = [
                    (k.tail.place + k.start * 1e-3) if downward else k.head.place + k.stop * 1e-3
                    for k in links
                ]
                c.x = sum(ends) / len(ends) if ends else float(c.place)
            layer.sort(key=lambda c: (c.x, c.place))
            _number([layer])
        now = _crossings(layers)
        stale += 1
        if now < best:
            best, kept, stale = now, [list(layer) for layer in layers], 0
    for layer, found in zip(layers, kept, strict=True):
        layer[:] = found
    _number(layers)


def _number(layers: Sequence[list[Cell]]) -> None:
    for layer in layers:
        for k, c in enumerate(layer):
            c.place = k


def _crossings(layers: Sequence[list[Cell]]) -> int:
    """Return how many links cross, by counting inversions (Barth, Mutzel & Juenger 2004)."""
    total = 0
    for layer in layers:
        ends = [
            (k.head.place, k.stop)
            for c in layer
            for k in sorted(c.down, key=lambda k: (k.start, k.head.place, k.stop))
        ]
        ranks = {end: i for i, end in enumerate(sorted(set(ends)))}
        tree = [0] * (1 + len(ranks))
        for n, end in enumerate(ends):
            total += n
            i = ranks[end] + 1
            while i:
                total -= tree[i]
                i -= i & -i
            i = ranks[end] + 1
            while i < len(tree):
                tree[i] += 1
                i += i & -i
    return total


def spread(cells: Sequence[Cell]) -> None:
    """Let the edges that end at an item do so side by side, in the order in which they come."""
    for c in cells:
        if isinstance(c.what, Item) and len(c.up) > 1:
            step = min(16.0, 0.6 * c.width / (len(c.up) - 1))
            links = sorted(c.up, key=lambda k: (k.tail.place, k.start))
            for i, link in enumerate(links):
                link.stop = step * (i - (len(links) - 1) / 2)


def place(layers: Sequence[list[Cell]]) -> None:
    """Give each cell its place along the layer: least squares, in turns from above and from below."""
    for layer in layers:
        x = 0.0
        for c in layer:
            c.x = x + c.width / 2
            x += c.width + GAP
        for c in layer:
            c.x -= (x - GAP) / 2
    turns = next(n for most, n in ((600, 80), (3000, 30), (float("inf"), 8)) if sum(map(len, layers)) <= most)
    for turn in range(turns):
        down = turn % 2 == 0
        for layer in layers if down else reversed(layers):
            wished = []
            for c in layer:
                pulls = []
                both = turn >= turns - 6
                if down or both:
                    pulls += [(k.tail.x + k.start - k.stop, k.weight) for k in c.up]
                if not down or both:
                    pulls += [(k.head.x + k.stop - k.start, k.weight) for k in c.down]
                weight = sum(w for _, w in pulls)
                wished.append((sum(x * w for x, w in pulls) / weight if weight else c.x, weight or 0.1))
            _separate(layer, wished)


def _separate(layer: Sequence[Cell], wished: Sequence[tuple[float, float]]) -> None:
    """Move cells as near to where they want to be as their distances allow: isotonic least squares."""
    offset = 0.0
    offsets = []
    for k, c in enumerate(layer):
        if k:
            before = layer[k - 1]
            thin = isinstance(c.what, str) + isinstance(before.what, str)
            offset += (c.width + before.width) / 2 + (GAP, GAP / 2, 0.0)[thin]
        offsets.append(offset)
    blocks: list[list[float]] = []  # mean, weight, count: pool adjacent violators
    for (x, w), o in zip(wished, offsets, strict=True):
        blocks.append([x - o, w, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            x2, w2, n2 = blocks.pop()
            x1, w1, n1 = blocks.pop()
            blocks.append([(x1 * w1 + x2 * w2) / (w1 + w2), w1 + w2, n1 + n2])
    k = 0
    for mean, _, n in blocks:
        for _ in range(int(n)):
            layer[k].x = mean + offsets[k]
            k += 1
