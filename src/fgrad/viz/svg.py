"""A laid out graph as SVG: cards for operations, pills for inputs and outputs, frames for boxes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from html import escape
from itertools import pairwise

from fgrad.core.trace import place_of
from fgrad.viz import theme
from fgrad.viz.formatting import code, count, cut, number, place, size, time
from fgrad.viz.graph import GROUP, INPUT, OPERATION, OUTPUT, Box, Graph, Item
from fgrad.viz.layout import Frame, Layout, Path, Point

MARGIN = 14.0
LEAD, DETAIL, SMALL = 12.5, 10.5, 9.5  # sizes of text: of the name, of the aval, of the line
WIDE, MONO = 0.66, 0.605  # of a character, in its size
TITLE = 44  # characters of a group's name
COMPACT = 80  # items from which on a card has one line
CLASS = "fgrad-graph"

RULES = (
    ("", f"font-family:{theme.SANS};background:none"),
    ("text", "fill:var(--fg-ink)"),
    (".m", f"font-family:{theme.MONO};font-size:{DETAIL}px;fill:var(--fg-muted)"),
    (".s", f"font-family:{theme.MONO};font-size:{SMALL}px;fill:var(--fg-faint)"),
    (".t", f"font-size:{LEAD}px;font-weight:600"),
    (".c", f"font-family:{theme.MONO};font-size:11px;font-weight:600"),
    (".v", f"font-size:{LEAD}px;font-style:italic;font-weight:500"),
    (".b", "font-size:11px;font-weight:600;letter-spacing:.02em"),
    (".card", "fill:var(--fg-card);stroke:var(--fg-rim)"),
    (".under", "fill:var(--fg-shade)"),
    (".e", "fill:none;stroke:var(--fg-edge);stroke-linecap:round;stroke-linejoin:round"),
    (".a", "fill:var(--fg-edge)"),
    (".back", "stroke-dasharray:5 4"),
    (".h", "fill:var(--fg-heat)"),
    ("g.n:hover .card", "stroke:var(--fg-muted)"),
)
KINDS = ("input", "output", "group", "elementwise", "linear", "product", "reduction", "other")
BOXES = ("manager", "sweep", "scope", "backward", "control")


def stylesheet() -> str:
    """Return the CSS of a graph, which concerns nothing else on a page."""
    root = f".{CLASS}"
    rules = [f"{root} {selector}{{{rule}}}" if selector else f"{root}{{{rule}}}" for selector, rule in RULES]
    rules += [f"{root} .{k}{{fill:var(--fg-{k})}}{root} .{k}-rim{{stroke:var(--fg-{k})}}" for k in KINDS]
    rules += [
        f"{root} .{k}-box{{fill:var(--fg-{k});fill-opacity:.055;stroke:var(--fg-{k});stroke-opacity:.55}}"
        f"{root} .{k}-title{{fill:var(--fg-{k})}}"
        for k in BOXES
    ]
    return theme.themed(root) + "".join(rules)


def lines_of(item: Item, *, compact: bool = False) -> list[tuple[str, str, str]]:
    """Return the text of an item: class, what stands left, what stands right; if `compact`, one line."""
    if item.kind in (INPUT, OUTPUT):
        shown = ", ".join(map(str, item.avals))
        return [("t", cut(item.label or item.name, 28), shown)]
    if item.kind == GROUP:
        lines = [("c", cut(item.name, TITLE), "")]
        inside = count(item.count(), "operation")
        lines.append(("m", f"{inside}{'  ' + item.detail if item.detail else ''}", size(item.bytes)))
    else:
        shown = ", ".join(map(str, item.avals[:3])) + (", …" if len(item.avals) > 3 else "")
        if compact:
            return [("t", f"{item.name}\t{cut(item.detail, 20)}", shown)]
        lines = [("t", f"{item.name}\t{cut(item.detail, 30)}", cut(item.label, 20))]
        if shown:
            lines.append(("m", shown, size(item.bytes)))
    measured = " · ".join(
        [
            *([time(item.seconds)] if item.seconds is not None else []),
            *([f"‖∇‖ {number(item.norm)}"] if item.norm is not None else []),
        ]
    )
    where = place(item.line)
    if measured or where:
        lines.append(("s", where, measured))
    return lines


def _width(kind: str, text: str) -> float:
    sizes = {"t": LEAD * WIDE, "c": 11 * MONO, "m": DETAIL * MONO, "s": SMALL * MONO}
    lead, _, rest = text.partition("\t")
    return len(lead) * sizes[kind] + (8 + len(rest) * sizes["m"] if rest else 0)


def _right(kind: str) -> str:
    return {"t": "v", "c": "m"}.get(kind, kind)


def size_of(item: Item, *, compact: bool = False) -> tuple[float, float]:
    """Return the width and height of an item."""
    lines = lines_of(item, compact=compact)
    if compact and len(lines) == 1 and item.kind == OPERATION:
        return 38 + _width("t", lines[0][1]) + _width("m", lines[0][2]), 24.0
    if item.kind in (INPUT, OUTPUT):
        kind, left, right = lines[0]
        return 24 + _width(kind, left) + (10 * bool(left and right) + _width("m", right)), 26.0
    wide = max(_width(k, a) + _width("t" if k == "t" else k, b) + (12 if a and b else 0) for k, a, b in lines)
    return max(72.0, 26 + wide), 12.0 + sum({"t": 16.0, "c": 16.0}.get(k, 14.0) for k, *_ in lines)


def title_width(box: Box) -> float:
    """Return the width of the title of a box."""
    return 28 + len(cut(box.title, 60)) * 11 * WIDE


def render(graph: Graph, *, colours: dict[str, str] | None = None, width: float = 1000.0) -> str:
    """Return the picture as SVG.

    Args:
        graph: what to draw.
        colours: None: those of the page or system.
        width: how wide it may become where it is cut into columns.
    """
    compact = len(graph.items) > COMPACT
    layout = Layout(graph, partial(size_of, compact=compact), title_width, width, 0.55 if compact else 1.0)
    note = _summary(graph)
    wide = max(layout.width, 6.0 * len(note)) + 2 * MARGIN
    tall = layout.height + 2 * MARGIN + (18 if note else 0)
    over = max((y for p in layout.paths for _, y in p.points), default=0.0)
    tall = max(tall, over + MARGIN + 30)
    hottest = max((i.seconds for i in graph.items if i.seconds), default=0.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{CLASS}" width="{_n(wide)}" height="{_n(tall)}"',
        f'viewBox="0 0 {_n(wide)} {_n(tall)}" role="img">',
        f"<title>{escape(note)}</title><style>{stylesheet()}</style>",
        f'<g transform="translate({_n(MARGIN)} {_n(MARGIN)})">',
    ]
    parts += [_box(b, layout.boxes[b]) for b in graph.boxes()]
    parts += [_edge(p) for p in layout.paths]
    parts += [_arrow(p) for p in layout.paths if p.target is not None]
    parts += [_item(i, layout.items[i], hottest, compact=compact) for i in graph.items]
    parts.append("</g>")
    if note:
        parts.append(f'<text class="s" x="{_n(MARGIN)}" y="{_n(tall - 10)}">{escape(note)}</text>')
    svg = "\n".join([*parts, "</svg>"])
    return svg if colours is None else theme.resolved(svg, colours)


def _summary(graph: Graph) -> str:
    total = sum(i.bytes for i in graph.items if i.kind in (OPERATION, GROUP))
    seconds = [i.seconds for i in graph.items if i.seconds is not None]
    parts = [count(graph.count(), "operation"), f"{size(total)} of results"]
    if seconds:
        parts.append(f"{time(sum(seconds))} forward")
    reverse_seconds = [i.reverse_seconds for i in graph.items if i.reverse_seconds is not None]
    if reverse_seconds:
        parts.append(f"{time(sum(reverse_seconds))} backward")
    return " · ".join([*parts, *([graph.hint] if graph.hint else [])])


def _n(x: float) -> str:
    return f"{x:.1f}".rstrip("0").rstrip(".")


def _box(box: Box, f: Frame) -> str:
    dashed = ' stroke-dasharray="5 4"' if box.kind in ("sweep", "backward") else ""
    return (
        f'<g class="box"><rect class="{box.kind}-box" x="{_n(f.left)}" y="{_n(f.top)}" width="{_n(f.width)}" '
        f'height="{_n(f.height)}" rx="10"{dashed}/>'
        f'<text class="b {box.kind}-title" x="{_n(f.left + 12)}" y="{_n(f.top + 18)}">'
        f"{escape(cut(box.title, 60))}</text></g>"
    )


def _item(item: Item, f: Frame, hottest: float, *, compact: bool) -> str:
    lines = lines_of(item, compact=compact)
    tip = escape(_tip(item))
    family = item.family
    if item.kind in (INPUT, OUTPUT):
        _, left, right = lines[0]
        text = (
            f'<text class="t {family}" x="12" y="17.5">{escape(left)}</text>'
            f'<text class="m" x="{_n(f.width - 12)}" y="17" text-anchor="end">{escape(right)}</text>'
        )
        body = (
            f'<rect class="card {family}-rim" width="{_n(f.width)}" height="{_n(f.height)}" rx="13"/>{text}'
        )
        return _group(item, f, tip, body)
    body = ""
    if item.kind == GROUP:
        body += f'<rect class="card" x="4" y="4" width="{_n(f.width)}" height="{_n(f.height)}" rx="7"/>'
    body += (
        f'<rect class="under" y="1.5" width="{_n(f.width)}" height="{_n(f.height)}" rx="7"/>'
        f'<rect class="card" width="{_n(f.width)}" height="{_n(f.height)}" rx="7"/>'
        f'<rect class="{family}" x="5" y="7" width="3" height="{_n(f.height - 14)}" rx="1.5"/>'
    )
    y = 5.0
    for kind, left, right in lines:
        y += 16 if kind in ("t", "c") else 14
        lead, _, rest = left.partition("\t")
        if lead:
            body += f'<text class="{kind}" x="15" y="{_n(y - 2)}">{escape(lead)}</text>'
        if rest:
            x = 15 + _width(kind, lead) + 8
            body += f'<text class="m" x="{_n(x)}" y="{_n(y - 2)}">{escape(rest)}</text>'
        if right:
            style = "m" if compact and kind == "t" else f"v {family}" if kind == "t" else _right(kind)
            body += (
                f'<text class="{style}" x="{_n(f.width - 11)}" y="{_n(y - 2)}" '
                f'text-anchor="end">{escape(right)}</text>'
            )
    if item.seconds and hottest:
        share = item.seconds / hottest
        body += (
            f'<rect class="h" x="15" y="{_n(f.height - 3.5)}" width="{_n(max(1.5, share * (f.width - 26)))}" '
            f'height="2" rx="1"/>'
        )
    return _group(item, f, tip, body)


def _group(item: Item, f: Frame, tip: str, body: str) -> str:
    place_ = f'transform="translate({_n(f.left)} {_n(f.top)})"'
    return f'<g class="n {item.kind}-n" {place_}><title>{tip}</title>{body}</g>'


def _tip(item: Item) -> str:
    """Return all that is known of an item, for whoever points at it."""
    avals = ", ".join(map(str, item.avals))
    lines = [f"{item.label} = {item.name}" if item.label else item.name, f"{avals}  {size(item.bytes)}"]
    lines += [item.detail] * bool(item.detail)
    if item.line:
        lines += [place_of(item.line), code(item.line)]
    if item.seconds is not None:
        lines.append(f"forward {time(item.seconds)}")
    if item.reverse_seconds is not None:
        lines.append(f"backward {time(item.reverse_seconds)}")
    if item.norm is not None:
        lines.append(f"norm of the gradient {number(item.norm)}")
    lines += _inventory(item.members)
    return "\n".join(line for line in lines if line.strip())


def _inventory(members: Iterable[Item]) -> list[str]:
    found: dict[str, int] = {}
    todo = list(members)
    for m in todo:
        if m.kind == GROUP:
            todo += m.members
        else:
            found[m.name] = found.get(m.name, 0) + 1
    return [f"{n} x {name}" for name, n in sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))][:12]


def _edge(path: Path) -> str:
    heavy = sum(a.size * a.dtype.itemsize for a in path.source.avals)
    stroke = 1.1 + min(2.2, 0.28 * max(0, len(str(heavy)) - 2))
    back = " back" if _is_back(path) else ""
    return f'<path class="e{back}" stroke-width="{_n(stroke)}" d="{_curve(path.points, path)}"/>'


def _is_back(path: Path) -> bool:
    return path.points[-1][1] < path.points[0][1] and len(path.points) == 2


def _curve(points: list[Point], path: Path) -> str:
    """Return straight lines down and curves across, with round corners at the turns of a change of column."""
    if _is_back(path):
        (xa, ya), (xb, yb) = points
        return f"M{_n(xa)} {_n(ya)}C{_n(xa + 60)} {_n(ya + 60)} {_n(xb + 60)} {_n(yb - 60)} {_n(xb)} {_n(yb)}"
    d = [f"M{_n(points[0][0])} {_n(points[0][1])}"]
    for i, ((xa, ya), (xb, yb)) in enumerate(pairwise(points)):
        if xa == xb or ya == yb or yb < ya:
            after = points[i + 2] if i + 2 < len(points) else None
            turns = after is not None and (xa == xb) != (xb == after[0]) and (ya == yb or after[1] == yb)
            if turns and after is not None:
                r = min(8.0, (abs(xb - xa) + abs(yb - ya)) / 2, (abs(after[0] - xb) + abs(after[1] - yb)) / 2)
                start = (xb - r * _sign(xb - xa), yb - r * _sign(yb - ya))
                end = (xb + r * _sign(after[0] - xb), yb + r * _sign(after[1] - yb))
                d.append(f"L{_n(start[0])} {_n(start[1])}Q{_n(xb)} {_n(yb)} {_n(end[0])} {_n(end[1])}")
            else:
                d.append(f"L{_n(xb)} {_n(yb)}")
        else:
            middle = (ya + yb) / 2
            d.append(f"C{_n(xa)} {_n(middle)} {_n(xb)} {_n(middle)} {_n(xb)} {_n(yb)}")
    return "".join(d)


def _sign(x: float) -> float:
    return (x > 0) - (x < 0)


def _arrow(path: Path) -> str:
    x, y = path.points[-1]
    return f'<path class="a" d="M{_n(x - 3.6)} {_n(y - 6.5)}L{_n(x)} {_n(y)}L{_n(x + 3.6)} {_n(y - 6.5)}Z"/>'
