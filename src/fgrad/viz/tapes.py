"""The graph of recorded Tensors: what live tapes and their notes know, with a box for each recording.

Several recordings know one operation by one node each. Nodes of one value are found to be the same from the
Tensors at the end: their operations are the same, so are the arguments at one place, and so on back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fgrad.core.aval import Aval, aval_of
from fgrad.core.notes import Note, Recording, note_of, recording_of
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.tape import Tape
from fgrad.core.tensor import Tensor
from fgrad.core.trace import current
from fgrad.viz.graph import INPUT, OPERATION, Box, Graph, Item, postorder
from fgrad.viz.programs import scope_box

NO_LINES = "lines, scopes and times are noted inside `with fgrad.viz.take_notes():`"


Value = tuple[list[Note], "Aval | None"]  # what recordings know of a value, and its aval if it is there


def graph_of(
    values: Sequence[Value], handles: Mapping[str, Tensor], called: Callable[[Recording], str | None]
) -> Graph:
    """Return the graph of what live or noted recordings know of values.

    Args:
        values: the ends of the graph.
        handles: what the user calls Tensors.
        called: what the user calls the manager of a recording, None where that is not known.
    """
    names = {id(n): name for name, t in handles.items() for n in notes_of(t)}
    names |= {id(t): name for name, t in handles.items()}  # of attached ones when the recording is over
    same = _Same()
    for notes, _ in values:
        same.join(notes)
    same.close()
    order = _ordered(same, [n for notes, _ in values for n in notes])
    avals = _avals(same, [*values, *((notes_of(t), aval_of(t)) for t in handles.values())])
    recordings = sorted(
        {id(r): r for group in order for n in group for r in n.recordings}.values(),
        key=lambda r: (r.level, r.number),
    )
    titles = _titles(recordings, called)
    boxes = _Boxes(recordings, titles)
    graph = Graph()
    items: dict[Note, Item] = {}
    for group in order:
        note = group[0]
        root = same.root(note)
        sources = [items[same.root(p)] for n in group for p in n.parents]
        if note.index is not None:
            items[root] = sources[0]
            continue
        leaf = not any(n.name for n in group)
        found = avals.get(root)
        item = Item(
            INPUT if leaf else OPERATION,
            "attached" if leaf else next(n.name for n in group if n.name),
            found if isinstance(found, list) else [found] if found else [],
            boxes.of(group),
            line="" if leaf else _first(n.line for n in group) or "",
            seconds=_first(n.seconds for n in group),
            reverse_seconds=_first(n.reverse_seconds for n in group),
            norm=_first(n.norm for n in group),
        )
        item.label = _first(names.get(id(n)) or names.get(_tensor(n)) for n in group) or ""
        items[root] = graph.add(item, sources)
    for group in order:  # names of outputs of operations with several
        for n in group:
            if n.index is not None and id(n) in names and not items[same.root(n)].label:
                items[same.root(n)].label = names[id(n)]
    if any(i.kind == OPERATION and not i.line for i in graph.items):
        graph.hint = NO_LINES
    return graph


def number_recordings() -> None:
    """Give live recordings their numbers in the order in which they began."""
    for trace in current().traces:
        if isinstance(trace, Tape):
            recording_of(trace)


def notes_of(t: Tensor) -> list[Note]:
    """Return what recordings know of the value of a Tensor."""
    return [note_of(n) for n in t._nodes if n.tape is not None or hasattr(n, "note")]


def values_of(tape: Tape) -> list[Value]:
    """Return the ends of a recording: what nothing was made of."""
    nodes = tape.live()
    used = {p for n in nodes for p in n.parents}
    return [([note_of(n)], None) for n in nodes if n not in used]


def _tensor(n: Note) -> int:
    """Return the identity of the Tensor that was attached, 0 if it is not known."""
    return id(n.tensor()) if n.tensor and n.tensor() is not None else 0


def _first(values: Iterable[Any]) -> Any:
    return next((v for v in values if v not in (None, "")), None)


class _Same:
    """Which notes are of one value: groups by union-find, followed back through the arguments."""

    def __init__(self) -> None:
        self.up: dict[Note, Note] = {}
        self.groups: dict[Note, list[Note]] = {}
        self.todo: list[Note] = []

    def root(self, n: Note) -> Note:
        """Return the note that stands for the value of a note."""
        if n not in self.up:
            self.up[n] = n
            self.groups[n] = [n]
            self.todo.append(n)
        while self.up[n] is not n:
            self.up[n] = self.up[self.up[n]]
            n = self.up[n]
        return n

    def join(self, notes: Sequence[Note]) -> None:
        """Note that these are of one value."""
        first = self.root(notes[0])
        for n in notes[1:]:
            other = self.root(n)
            if other is not first:
                if len(self.groups[first]) < len(self.groups[other]):
                    first, other = other, first
                self.up[other] = first
                self.groups[first] += self.groups.pop(other)
                self.todo.append(first)

    def close(self) -> None:
        """Follow what is the same back to the leaves."""
        while self.todo:
            n = self.todo.pop()
            if self.up[n] is not n:
                continue
            places: dict[int, list[Note]] = {}
            for each in self.groups[n]:
                for p in each.parents:
                    self.root(p)
                if each.name or each.index is not None:
                    for place, p in zip(each.places, each.parents, strict=True):
                        places.setdefault(place, []).append(p)
            for found in places.values():
                self.join(found)


def _ordered(same: _Same, ends: Sequence[Note]) -> list[list[Note]]:
    """Return the groups, those of arguments before those of what uses them."""

    def parents(k: Note) -> list[Note]:
        return [same.root(p) for n in same.groups[k] for p in n.parents]

    return [same.groups[k] for k in postorder(map(same.root, ends), parents)]


def _avals(same: _Same, values: Sequence[Value]) -> dict[Note, Any]:
    """Return what is known of the avals of values: from their operations, their uses, and the Tensors."""
    known: dict[Note, Any] = {
        same.root(n): aval for notes, aval in values for n in notes[:1] if aval is not None and n in same.up
    }
    for n in same.up:
        t = n.tensor() if n.tensor else None
        if t is not None:
            known.setdefault(same.root(n), aval_of(t))
    groups = dict(same.groups)
    for _ in range(2):
        changed = False
        for group in groups.values():
            for n in group:
                k = same.root(n)
                if n.avals and k not in known:
                    known[k] = n.avals[0] if len(n.avals) == 1 else n.avals
                    changed = True
                own = known.get(k)
                primitive = PRIMITIVES.get(n.name)
                alike = primitive is not None and primitive.body is not None and not any(n.given)
                for p, g in zip(n.parents, n.given, strict=True):
                    q = same.root(p)
                    found = g or (own if alike and isinstance(own, Aval) else None)
                    if q not in known and found is not None:
                        known[q], changed = found, True
                    elif alike and k not in known and isinstance(known.get(q), Aval):
                        known[k], changed = known[q], True
                if n.index is not None and isinstance(known.get(same.root(n.parents[0])), list):
                    known.setdefault(k, known[same.root(n.parents[0])][n.index])
        if not changed:
            break
    return known


def _titles(recordings: Sequence[Recording], called: Callable[[Recording], str | None]) -> dict[int, str]:
    """Return what to call each recording."""
    titles = {id(r): name for r in recordings if (name := called(r))}
    nameless = [r for r in recordings if id(r) not in titles]
    for i, r in enumerate(nameless):
        titles[id(r)] = "GradManager" if len(nameless) == 1 else f"GradManager {i + 1}"
    return titles


class _Boxes:
    """The boxes of recordings, the outer around the inner ones, with those of sweeps and scopes inside."""

    def __init__(self, recordings: Sequence[Recording], titles: Mapping[int, str]) -> None:
        self.recordings, self.titles = recordings, titles
        self.known: dict[Any, Box] = {}

    def of(self, group: Sequence[Note]) -> Box | None:
        """Return the box of an operation."""
        found = [r for n in group for r in n.recordings]
        mine = set(map(id, found))
        deepest = max(r.level for r in found)
        box: Box | None = None
        for level in sorted({r.level for r in self.recordings}):
            if level > deepest:
                break
            peers = [r for r in self.recordings if r.level == level]
            own = [r for r in peers if id(r) in mine] or peers
            box = self.made(" | ".join(self.titles[id(r)] for r in own), "manager", box)
        sweep = next((n.sweep for n in group if n.sweep), None)
        if sweep is not None:
            box = self.made(f"{self.titles.get(id(sweep.recording), 'inner')}.backward", "sweep", box)
        line = _first(n.line for n in group) or ""
        if any(n.name for n in group):
            box = scope_box(self.known, line, box)
        return box

    def made(self, title: str, kind: str, parent: Box | None) -> Box:
        return self.known.setdefault((title, kind, parent), Box(title, kind, parent))
