"""Where everything stands: a layered layout, box by box from the inside.

Each box is laid out alone, what is inside of it first, and is one node of the box around it. An edge that
enters or leaves a box does so at a *port* on its rim, which is a node of the layers inside; long edges get a
dummy in every layer that they cross, one for all edges from one source. So nothing can overlap, and edges go
around what they do not concern.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fgrad.viz.graph import Box, Graph, Item
from fgrad.viz.layering import GAP, Cell, Link, assign_layers, back_edges, link, order, place, spread

LAYER_GAP = 30.0  # between layers
PADDING, HEADER = 16.0, 26.0  # of a box
LANE = 12.0  # the width of an edge that passes
COLUMN = 26.0  # the room above columns
Point = tuple[float, float]
Size = tuple[float, float]


@dataclass(eq=False, slots=True)
class Path:
    """A piece of an edge inside of one box: its points, and whose result it carries to what.

    `target` is None where it ends at an inner box or at a port; `enters` and `leaves` tell of ports.
    """

    source: Item
    target: Item | None
    points: list[Point]
    enters: bool
    leaves: bool


@dataclass(eq=False, slots=True)
class Frame:
    """A rectangle of the picture: left, top, width, height."""

    left: float
    top: float
    width: float
    height: float

    def moved(self, dx: float, dy: float) -> None:
        """Move by an offset."""
        self.left += dx
        self.top += dy


class Layout:
    """Frames of items and boxes, and paths, in one system of coordinates.

    Args:
        graph: what to lay out.
        size: the width and height of an item.
        title: the width that the title of a box needs.
        width: the picture may be so wide; a taller one is cut into columns.
        spacing: a factor of the distance between layers.
    """

    width: float
    height: float

    def __init__(
        self,
        graph: Graph,
        size: Callable[[Item], Size],
        title: Callable[[Box], float],
        width: float = 1000.0,
        spacing: float = 1.0,
    ) -> None:
        self.items: dict[Item, Frame] = {}
        self.boxes: dict[Box, Frame] = {}
        self.paths: list[Path] = []
        self._size, self._title, self._gap = size, title, spacing * LAYER_GAP
        self._parents: dict[Item, list[Box]] = {i: i.box.path() if i.box else [] for i in graph.items}
        self._children: dict[Box | None, list[Any]] = {None: []}
        self._first: dict[Any, int] = {}  # the number of the first item of each child
        for k, item in enumerate(graph.items):
            self._first[item] = k
            around: Box | None = None
            for box in self._parents[item]:
                self._first.setdefault(box, k)
                if box not in self._children:
                    self._children[box] = []
                    self._children[around].append(box)
                around = box
            self._children[around].append(item)
        self._edges = graph.edges
        self._ports: dict[Box, dict[tuple[str, Item], float]] = {}
        self._content: dict[Box | None, _Level] = {}
        self.width, self.height = self._lay(None, width)
        self._settle(None, 0.0, 0.0)

    def _inside(self, item: Item, box: Box | None) -> Any:
        """Return the child of `box` that is or holds an item; None where it is outside."""
        path = self._parents[item]
        if box is None:
            return path[0] if path else item
        if box not in path:
            return None
        k = path.index(box) + 1
        return path[k] if k < len(path) else item

    def _lay(self, box: Box | None, width: float = 0.0) -> Size:
        """Lay out a box, and first those inside; return its size."""
        level = _Level(width, self._gap)
        for child in self._children[box]:
            size = self._lay(child) if isinstance(child, Box) else self._size(child)
            level.cells[child] = Cell(child, *size, self._first[child])
        for source, target in self._edges:
            tail, head = self._inside(source, box), self._inside(target, box)
            if tail is head:
                continue
            start = self._ports[tail]["out", source] if isinstance(tail, Box) else 0.0
            stop = self._ports[head]["in", source] if isinstance(head, Box) else 0.0
            final = target if head is target else None
            level.connect(source, tail, head, start, stop, final)
        level.arrange()
        self._content[box] = level
        if box is None:
            return level.width, level.height
        wide = max(level.width, self._title(box) - 2 * PADDING)
        level.left = PADDING + (wide - level.width) / 2
        level.top = HEADER + PADDING / 2
        whole = wide + 2 * PADDING
        self._ports[box] = {key: level.left + cell.x - whole / 2 for key, cell in level.ports.items()}
        return whole, level.height + HEADER + 1.5 * PADDING

    def _settle(self, box: Box | None, left: float, top: float) -> None:
        """Give what is in a box its place in the picture."""
        level = self._content[box]
        left, top = left + level.left, top + level.top
        for child, frame in level.frames():
            frame.moved(left, top)
            if isinstance(child, Box):
                self.boxes[child] = frame
                self._settle(child, frame.left, frame.top)
            else:
                self.items[child] = frame
        for path in level.paths():
            path.points = [(x + left, y + top) for x, y in path.points]
            if path.enters and box:  # ports are on the rim
                path.points.insert(0, (path.points[0][0], self.boxes[box].top))
            if path.leaves and box:
                path.points.append((path.points[-1][0], self.boxes[box].top + self.boxes[box].height))
            self.paths.append(path)


class _Level:
    """The layers of one box."""

    def __init__(self, columns: float, gap: float) -> None:
        self.columns, self.gap = columns, gap  # the width for several columns, 0 for one
        self.left = self.top = 0.0
        self.cells: dict[Any, Cell] = {}
        self.edges: dict[tuple[Cell, Cell, Item], tuple[float, float, Item | None]] = {}
        self.ports: dict[tuple[str, Item], Cell] = {}
        self.layers: list[list[Cell]] = []
        self.chains: list[tuple[Item, Item | None, list[Cell], float, Link]] = []

    def port(self, side: str, source: Item, key: int) -> Cell:
        """Return the port at which a result enters ("in") or leaves ("out")."""
        if (side, source) not in self.ports:
            self.ports[side, source] = Cell(side, LANE, 0.0, key, source)
        return self.ports[side, source]

    def connect(
        self, source: Item, tail: Any, head: Any, start: float, stop: float, target: Item | None
    ) -> None:
        """Add an edge between things, or from and to the rim where `tail` or `head` is None."""
        a = self.port("in", source, -1) if tail is None else self.cells[tail]
        b = self.port("out", source, 1 << 30) if head is None else self.cells[head]
        self.edges.setdefault((a, b, source), (start, stop, target))

    def arrange(self) -> None:
        """Find layers, order and places."""
        cells = [*self.cells.values()]
        entries = [c for (side, _), c in self.ports.items() if side == "in"]
        leaving = [c for (side, _), c in self.ports.items() if side == "out"]
        edges = [(source, a, b, *rest) for (a, b, source), rest in self.edges.items()]
        back = back_edges(cells, [(a, b) for _, a, b, *_ in edges])
        forward = [(b, a) if (a, b) in back else (a, b) for _, a, b, *_ in edges]
        assign_layers(cells, entries, leaving, forward)
        self._chain(edges, back)
        everything = [*cells, *entries, *leaving, *self.dummies]
        count = 1 + max((c.layer for c in everything), default=0)
        self.layers = [[] for _ in range(count)]
        for c in everything:
            self.layers[c.layer].append(c)
        order(self.layers)
        spread(cells)
        place(self.layers)
        self._measure()

    def _chain(self, edges: Sequence[tuple[Any, ...]], back: set[tuple[Cell, Cell]]) -> None:
        """Give each edge its links; a long one a dummy in every layer between, shared by one source."""
        self.dummies: list[Cell] = []
        trunks: dict[tuple[Cell, Item], dict[int, Cell]] = {}
        for source, a, b, start, stop, target in edges:
            if (a, b) in back:
                self.chains.append((source, target, [a, b], start, Link(a, b, start, stop)))
                continue
            trunk = trunks.setdefault((a, source), {})
            chain = [a]
            for layer in range(a.layer + 1, b.layer):
                if layer not in trunk:
                    dummy = trunk[layer] = Cell("pass", LANE, 0.0, a.key, source)
                    dummy.layer = layer
                    self.dummies.append(dummy)
                    link(chain[-1], dummy, start if len(chain) == 1 else 0.0, 0.0)
                chain.append(trunk[layer])
            chain.append(b)
            last = link(chain[-2], b, start if len(chain) == 2 else 0.0, stop)
            self.chains.append((source, target, chain, start, last))

    def _measure(self) -> None:
        """Find the size, the height of each layer, and where columns are cut."""
        cells = [c for layer in self.layers for c in layer]
        left = min((c.x - c.width / 2 for c in cells), default=0.0)
        for c in cells:
            c.x -= left
        wide = max((c.x + c.width / 2 for c in cells), default=0.0)
        heights = [max((c.height for c in layer), default=0.0) for layer in self.layers]
        cuts = self._cuts(wide, heights)
        self.column = [sum(k >= cut for cut in cuts) for k in range(len(heights))]
        self.shift = wide + 2 * GAP
        self.heights = heights
        self.tops: list[float] = []
        top, bottom = 0.0, 0.0
        for k, height in enumerate(heights):
            if k in cuts:
                top = 0.0
            self.tops.append(top)
            bottom = max(bottom, top + height)
            rim = 0.0 in heights[k : k + 2]  # the layer of the ports
            top += height + (0.6 if rim else 1.0) * self.gap
        if cuts:  # room for the edges between columns
            self.tops = [t + COLUMN for t in self.tops]
            bottom += COLUMN
        self.width = wide + len(cuts) * self.shift
        self.height = bottom

    def _cuts(self, wide: float, heights: Sequence[float]) -> set[int]:
        """Return where columns start: at layers that few edges pass, if the picture would be too tall."""
        tall = sum(heights) + self.gap * max(len(heights) - 1, 0)
        most = int((self.columns + 2 * GAP) // (wide + 2 * GAP)) if self.columns else 1
        columns = min(most, max(1, round((tall / (1.1 * (wide + 2 * GAP))) ** 0.5)))
        if tall < 900.0 or columns < 2:
            return set()
        through = [sum(len(c.up) for c in layer) for layer in self.layers]
        share = tall / columns
        cuts: set[int] = set()
        run = 0.0
        for k in range(1, len(heights)):
            run += heights[k - 1] + self.gap
            if run >= share and len(cuts) < columns - 1 and through[k] <= 6:
                cuts.add(k)
                run = 0.0
        return cuts

    def _at(self, c: Cell) -> float:
        return c.x + self.shift * self.column[c.layer]

    def frames(self) -> list[tuple[Any, Frame]]:
        """Return the place of each item and inner box."""
        return [
            (what, Frame(self._at(c) - c.width / 2, self._top(c), c.width, c.height))
            for what, c in self.cells.items()
        ]

    def paths(self) -> list[Path]:
        """Return the way of each edge, every shared piece once."""
        found: list[Path] = []
        seen: set[tuple[Cell, Cell, Item]] = set()
        lanes: dict[tuple[int, Item], int] = {}
        for source, target, chain, start, last in self.chains:
            pairs = list(pairwise(chain))
            k = 0
            while k < len(pairs) - 1 and (*pairs[k], source) in seen:
                k += 1
            seen.update((a, b, source) for a, b in pairs)
            points: list[Point] = []
            for i in range(k, len(pairs)):
                a, b = pairs[i]
                dx_a = start if i == 0 else 0.0
                x_b = last.stop if i == len(pairs) - 1 else 0.0
                xa, xb = self._at(a) + dx_a, self._at(b) + x_b
                if not points and not (i and a.what == "pass"):
                    points.append((xa, self._bottom(a)))
                ya, yb = self.tops[a.layer] + self.heights[a.layer], self.tops[b.layer]
                if a.layer >= b.layer:
                    points.append((xb, self._top(b)))
                    continue
                points.append((xa, ya))
                if self.column[a.layer] != self.column[b.layer]:
                    lane = lanes.setdefault((b.layer, source), sum(layer == b.layer for layer, _ in lanes))
                    gutter = self.shift * self.column[b.layer] - GAP + 5.0 * (lane - 1)
                    low, high = self.height + 8.0 + 4.0 * lane, self.tops[b.layer] - 14.0 - 4.0 * lane
                    points += [(xa, low), (gutter, low), (gutter, high), (xb, high)]
                points.append((xb, yb))
                if i == len(pairs) - 1:
                    points.append((xb, self._top(b)))
            ends = {"enters": chain[0].what == "in" and k == 0, "leaves": chain[-1].what == "out"}
            found.append(Path(source, target, _without_repeats(points), **ends))
        return found

    def _bottom(self, c: Cell) -> float:
        return self.tops[c.layer] + (self.heights[c.layer] + c.height) / 2

    def _top(self, c: Cell) -> float:
        return self.tops[c.layer] + (self.heights[c.layer] - c.height) / 2


def _without_repeats(points: Sequence[Point]) -> list[Point]:
    return [p for i, p in enumerate(points) if i == 0 or p != points[i - 1]]
