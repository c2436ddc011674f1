"""The picture of a profile: one bar for all the time, under it phases, scopes, lines and operations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from fgrad.core.primitive import PRIMITIVES
from fgrad.viz import theme as colours_of
from fgrad.viz.formatting import code, cut, place, size, time
from fgrad.viz.graph import OPERATION, Item
from fgrad.viz.html import card, head

if TYPE_CHECKING:
    from fgrad.viz.profiling import Event, Profile

WIDTH, HEIGHT, GAP = 900.0, 22.0, 2.0
CLASS = "fgrad-flame"
KINDS = ("elementwise", "linear", "product", "reduction", "other", "scope", "group", "sweep", "manager")
_CSS = (
    f".{CLASS}{{font-family:{colours_of.SANS};font-size:11px}}"
    f".{CLASS} text{{fill:var(--fg-ink)}}"
    f".{CLASS} rect{{fill-opacity:.28;stroke:var(--fg-paper);stroke-opacity:.6}}"
    f".{CLASS} g:hover rect{{fill-opacity:.5}}"
    + "".join(f".{CLASS} .{k}{{fill:var(--fg-{k})}}" for k in KINDS)
)


@dataclass(eq=False)
class Bar:
    """Some time, and what it is made of."""

    name: str
    kind: str
    tip: str = ""
    own: float = 0.0
    parts: dict[tuple[str, str], Bar] = field(default_factory=dict)

    def part(self, name: str, kind: str, tip: str = "") -> Bar:
        """Return the part of a name, new if there is none."""
        return self.parts.setdefault((name, kind), Bar(name, kind, tip))

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.own + sum(p.seconds for p in self.parts.values())

    def depth(self) -> int:
        """Return how many rows it takes."""
        return 1 + max((p.depth() for p in self.parts.values()), default=0)


def bars(profile: Profile) -> Bar:
    """Return the time of a profile, by phase, scope, line and operation."""
    root = Bar(profile.name, "group")
    for e in profile.events:
        _leaf(root, e).own += e.seconds
    root.part("between operations", "group", "Python, and fgrad between operations").own = profile.between
    return root


def _leaf(root: Bar, e: Event) -> Bar:
    bar = root.part(e.phase, "sweep" if e.phase != "forward" else "manager")
    for scope in e.scopes:
        bar = bar.part(scope.name, "scope")
    text = code(e.line)
    bar = bar.part(text or place(e.line) or "unknown line", "group", f"{place(e.line)}  {text}")
    family = Item(OPERATION, e.name).family if e.name in PRIMITIVES else "other"
    return bar.part(e.name, family)


def svg(profile: Profile, theme: str = "auto") -> str:
    """Return the picture as SVG."""
    colours = colours_of.chosen(theme)
    root = bars(profile)
    tall = root.depth() * (HEIGHT + GAP)
    made = "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{CLASS}" width="{WIDTH:g}" height="{tall:g}"',
            f'viewBox="0 0 {WIDTH:g} {tall:g}" style="max-width:100%" role="img">',
            f"<title>{escape(profile.summary())}</title>",
            f"<style>{colours_of.themed('.' + CLASS)}{_CSS}</style>",
            *_drawn(root, 0.0, 0, WIDTH / (root.seconds or 1.0)),
            "</svg>",
        ]
    )
    return made if colours is None else colours_of.resolved(made, colours)


def _drawn(bar: Bar, left: float, row: int, scale: float) -> Iterator[str]:
    """Yield the rectangle of a bar, and those of its parts."""
    wide = bar.seconds * scale
    if wide < 0.3:
        return
    top = row * (HEIGHT + GAP)
    room = int((wide - 8) / 6.4)
    text = cut(f"{bar.name}  {time(bar.seconds)}" if room > len(bar.name) + 10 else bar.name, max(room, 1))
    label = f'<text x="{left + 5:.1f}" y="{top + 15:.1f}">{escape(text)}</text>' if room > 2 else ""
    yield (
        f"<g><title>{escape(bar.tip or bar.name)}\n{time(bar.seconds)}</title>"
        f'<rect class="{bar.kind}" x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{HEIGHT:g}" '
        'rx="3"/>'
        f"{label}</g>"
    )
    for part in bar.parts.values():
        yield from _drawn(part, left, row + 1, scale)
        left += part.seconds * scale


def html(profile: Profile) -> str:
    """Return what a notebook shows: the picture, and tables of operations and lines."""
    facts = [
        f"{time(profile.seconds)} profiled",
        f"{time(profile.unprofiled)} unprofiled",
        f"peak of results {size(profile.peak)}",
    ]
    return card(
        head(f"profile of {profile.name}", *facts),
        svg(profile),
        _table(profile, "operation"),
        _table(profile, "line"),
    )


def _table(profile: Profile, title: str, most: int = 15) -> str:
    rows, (titles, *lines) = profile.columns(title, most, 70)
    longest = max((r.seconds for r in rows), default=0.0) or 1.0
    made = ["".join(f"<th>{t}</th>" for t in (*titles, ""))]
    for r, cells in zip(rows, lines, strict=False):
        bar = f'<rect width="{90 * r.seconds / longest:.1f}" height="9" rx="2" '
        bar += 'style="fill:var(--fg-heat);fill-opacity:.55"/>'
        made.append("".join(f"<td>{escape(c)}</td>" for c in cells))
        made[-1] += f'<td><svg width="90" height="9">{bar}</svg></td>'
    rest = f'<div class="muted">and {len(rows) - most} more</div>' if len(rows) > most else ""
    return f'<table class="list">{"".join(f"<tr>{row}</tr>" for row in made)}</table>{rest}'
