"""Where everything stands: a layered layout (Sugiyama, Tagawa & Toda 1981), box by box from the inside.

Each box is laid out alone, what is inside of it first, and is one node of the box around it. An edge that
enters or leaves a box does so at a *port* on its rim, which is a node of the layers inside. So nothing can
overlap, and edges go around what they do not concern. In each box: cycles are broken, nodes get layers, long
edges get a dummy in every layer that they cross (one for all edges from one source), the order in the layers
is improved by barycentres as long as there are fewer crossings, and places along a layer are the least
squares of the lengths of edges under the distances that have to be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from fgrad.viz.graph import Box, Graph, Item

GAP, LAYER_GAP = 26.0, 30.0  # between neighbours of a layer, and between layers
PADDING, HEADER = 16.0, 26.0  # of a box
LANE = 12.0  # the width of an edge that passes
COLUMN = 26.0  # the room above columns
SWEEPS = 12
Point = tuple[float, float]
Size = tuple[float, float]


class Cell:
    """A node of the layers of one box: an item, an inner box, a port of this box, or the dummy of an edge."""

    __slots__ = ("down", "height", "key", "layer", "place", "source", "up", "what", "width", "x")

    def __init__(self, what: Any, width: float, height: float, key: int, source: Item | None = None) -> None:
        self.what, self.width, self.height, self.key = what, width, height, key
        self.source = source  # of a port or dummy: whose result passes
        self.layer = self.place = 0
        self.x = 0.0
        self.up: list[Link] = []
        self.down: list[Link] = []


class Link:
    """An edge between neighbouring layers, from `start` to `stop`, counted from the middle of its cells."""

    __slots__ = ("head", "start", "stop", "tail")

    def __init__(self, tail: Cell, head: Cell, start: float = 0.0, stop: float = 0.0) -> None:
        self.tail, self.head, self.start, self.stop = tail, head, start, stop

    @property
    def weight(self) -> int:
        """How much it matters that it is straight: an edge bends where it leaves for its long way."""
        return 4 if isinstance(self.tail.what, str) == isinstance(self.head.what, str) else 1


class Path:
    """A piece of an edge inside of one box: its points, and whose result it carries to what.

    `target` is None where it ends at an inner box or at a port; `enters` and `leaves` tell of ports.
    """

    __slots__ = ("enters", "leaves", "points", "source", "target")

    def __init__(
        self, source: Item, target: Item | None, points: list[Point], *, enters: bool, leaves: bool
    ) -> None:
        self.source, self.target, self.points = source, target, points
        self.enters, self.leaves = enters, leaves


class Frame:
    """A rectangle of the picture: left, top, width, height."""

    __slots__ = ("height", "left", "top", "width")

    def __init__(self, left: float, top: float, width: float, height: float) -> None:
        self.left, self.top, self.width, self.height = left, top, width, height

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

    def __init__(
        self,
        graph: Graph,
        size: Callable[[Item], Size],
        title: Callable[[Box], float],
        width: float = 1000.0,
        spacing: float = 1.0,
    ) -> None:
        self.order = {item: k for k, item in enumerate(graph.items)}
        self.items: dict[Item, Frame] = {}
        self.boxes: dict[Box, Frame] = {}
        self.paths: list[Path] = []
        self._size, self._title, self._gap = size, title, spacing * LAYER_GAP
        self._parents: dict[Item, list[Box]] = {i: i.box.path() if i.box else [] for i in graph.items}
        self._children: dict[Box | None, list[Any]] = {None: []}
        for item in graph.items:
            around: Box | None = None
            for box in self._parents[item]:
                if box not in self._children:
                    self._children[box] = []
                    self._children[around].append(box)
                around = box
            self._children[around].append(item)
        self._edges = graph.edges
        self._ports: dict[Box, dict[tuple[str, Item], float]] = {}
        self._content: dict[Box | None, _Level] = {}
        self._first = self._order_of_boxes()
        self.width, self.height = self._lay(None, width)
        self._settle(None, 0.0, 0.0)

    def _order_of_boxes(self) -> dict[Any, int]:
        first: dict[Any, int] = {}
        for item, k in self.order.items():
            first[item] = k
            for box in self._parents[item]:
                first.setdefault(box, k)
        return first

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
        sizes = {}
        for child in self._children[box]:
            sizes[child] = self._lay(child) if isinstance(child, Box) else self._size(child)
        level = _Level(width, self._gap)
        for child in self._children[box]:
            level.add(child, *sizes[child], self._first[child])
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
        self.edges: dict[tuple[Any, Any, Item], tuple[float, float, Item | None]] = {}
        self.ports: dict[tuple[str, Item], Cell] = {}
        self.layers: list[list[Cell]] = []
        self.chains: list[tuple[Item, Item | None, list[Cell], float, Link]] = []

    def add(self, what: Any, width: float, height: float, key: int) -> None:
        """Add an item or inner box."""
        self.cells[what] = Cell(what, width, height, key)

    def port(self, side: str, source: Item, key: int) -> Cell:
        """Return the port at which a result enters ("in") or leaves ("out")."""
        if (side, source) not in self.ports:
            self.ports[side, source] = Cell(side, LANE, 0.0, key, source)
        return self.ports[side, source]

    def connect(
        self, source: Item, tail: Any, head: Any, start: float, stop: float, target: Item | None
    ) -> None:
        """Connect two children; None stands for the outside."""
        if tail is None:
            tail = self.port("in", source, -1)
        if head is None:
            head = self.port("out", source, 1 << 30)
        key = (tail, head, source)
        if key not in self.edges:
            self.edges[key] = (start, stop, target)

    def arrange(self) -> None:
        """Find layers, order and places."""
        cells = [*self.cells.values()]
        entries = [c for (side, _), c in self.ports.items() if side == "in"]
        leaving = [c for (side, _), c in self.ports.items() if side == "out"]
        edges = []
        for (tail, head, source), (start, stop, target) in self.edges.items():
            a = tail if isinstance(tail, Cell) else self.cells[tail]
            b = head if isinstance(head, Cell) else self.cells[head]
            edges.append((source, a, b, start, stop, target))
        back = _back_edges(cells, [(a, b) for _, a, b, *_ in edges])
        forward = [(b, a) if (a, b) in back else (a, b) for _, a, b, *_ in edges]
        _assign_layers(cells, entries, leaving, forward)
        self._chain(edges, back)
        everything = [*cells, *entries, *leaving, *self.dummies]
        count = 1 + max((c.layer for c in everything), default=0)
        self.layers = [[] for _ in range(count)]
        for c in everything:
            self.layers[c.layer].append(c)
        _order(self.layers)
        _spread(cells)
        _place(self.layers)
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
                    _link(chain[-1], dummy, start if len(chain) == 1 else 0.0, 0.0)
                chain.append(trunk[layer])
            chain.append(b)
            last = _link(chain[-2], b, start if len(chain) == 2 else 0.0, stop)
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
        found = []
        for what, c in self.cells.items():
            top = self.tops[c.layer] + (self.heights[c.layer] - c.height) / 2
            found.append((what, Frame(self._at(c) - c.width / 2, top, c.width, c.height)))
        return found

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


def _link(tail: Cell, head: Cell, start: float, stop: float) -> Link:
    link = Link(tail, head, start, stop)
    tail.down.append(link)
    head.up.append(link)
    return link


def _without_repeats(points: Sequence[Point]) -> list[Point]:
    return [p for i, p in enumerate(points) if i == 0 or p != points[i - 1]]


def _back_edges(cells: Sequence[Cell], edges: Sequence[tuple[Cell, Cell]]) -> set[tuple[Cell, Cell]]:
    """Return edges without which there are no cycles."""
    down: dict[Cell, list[Cell]] = {c: [] for c in cells}
    for a, b in edges:
        if a in down and b in down:
            down[a].append(b)
    state = dict.fromkeys(cells, 0)
    back: set[tuple[Cell, Cell]] = set()
    for root in sorted(cells, key=lambda c: c.key):
        if state[root]:
            continue
        stack = [(root, iter(down[root]))]
        state[root] = 1
        while stack:
            cell, heads = stack[-1]
            for head in heads:
                if state[head] == 1:
                    back.add((cell, head))
                elif not state[head]:
                    state[head] = 1
                    stack.append((head, iter(down[head])))
                    break
            else:
                state[cell] = 2
                stack.pop()
    return back


def _assign_layers(
    cells: Sequence[Cell],
    entries: Sequence[Cell],
    leaving: Sequence[Cell],
    edges: Sequence[tuple[Cell, Cell]],
) -> None:
    """Give each cell the longest way from a source; then what has few arguments moves to where it is used."""
    up: dict[Cell, list[Cell]] = {c: [] for c in (*cells, *entries, *leaving)}
    down: dict[Cell, list[Cell]] = {c: [] for c in (*cells, *entries, *leaving)}
    for a, b in edges:
        up[b].append(a)
        down[a].append(b)
    base = 1 if entries else 0
    inside = set(cells)
    waiting = {c: sum(t in inside for t in up[c]) for c in cells}
    ready = [c for c in cells if not waiting[c]]
    for c in cells:
        c.layer = base
    order = []
    while ready:
        c = ready.pop()
        order.append(c)
        for d in down[c]:
            if d in waiting:
                d.layer = max(d.layer, c.layer + 1)
                waiting[d] -= 1
                if not waiting[d]:
                    ready.append(d)
    for c in reversed(order):
        uses = [d.layer for d in down[c] if d in waiting]
        if uses and len(set(up[c])) <= len(set(down[c])):
            c.layer = max(c.layer, min(uses) - 1)
    last = max((c.layer for c in cells), default=base - 1)
    for c in entries:
        c.layer = 0
    for c in leaving:
        c.layer = max(last, 0) + 1


def _order(layers: Sequence[list[Cell]]) -> None:
    """Order each layer so that few links cross."""
    for layer in layers:
        layer.sort(key=lambda c: c.key)
    _number(layers)
    best, order = _crossings(layers), [list(layer) for layer in layers]
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
            for k, c in enumerate(layer):
                c.place = k
        now = _crossings(layers)
        stale += 1
        if now < best:
            best, order, stale = now, [list(layer) for layer in layers], 0
    for layer, found in zip(layers, order, strict=True):
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
        heads = [k.head.place for c in layer for k in sorted(c.down, key=lambda k: (k.start, k.head.place))]
        if not heads:
            continue
        tree = [0] * (2 + max(heads))
        for n, h in enumerate(heads):
            total += n
            i = h + 1
            while i:
                total -= tree[i]
                i -= i & -i
            i = h + 1
            while i < len(tree):
                tree[i] += 1
                i += i & -i
    return total


def _spread(cells: Sequence[Cell]) -> None:
    """Let the edges that end at an item do so side by side, in the order in which they come."""
    for c in cells:
        if isinstance(c.what, Item) and len(c.up) > 1:
            step = min(16.0, 0.6 * c.width / (len(c.up) - 1))
            links = sorted(c.up, key=lambda k: (k.tail.place, k.start))
            for i, link in enumerate(links):
                link.stop = step * (i - (len(links) - 1) / 2)


def _place(layers: Sequence[list[Cell]]) -> None:
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
