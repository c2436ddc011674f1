"""Collapsing large graphs: what one line or one scope of the user's program computes becomes one item."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Literal, get_args

from fgrad.core.scopes import is_backward
from fgrad.viz.formatting import code, place
from fgrad.viz.graph import GROUP, INPUT, OPERATION, Box, Graph, Item, neighbours, postorder

Collapse = Literal["auto", "none", "scope", "line", "chain"]
SCOPES = ("scope", "backward")
READABLE = 60  # items; more are collapsed if nobody says otherwise


def check_collapse(collapse: str) -> None:
    """Refuse what is no choice."""
    if collapse not in get_args(Collapse):
        raise ValueError(f"collapse is one of {', '.join(map(repr, get_args(Collapse)))}, not {collapse!r}")


def collapsed(graph: Graph, collapse: Collapse) -> Graph:
    """Return the graph with groups in the place of operations.

    "auto" collapses scopes where there are more than `READABLE` items, lines where there are still more, and
    then chains.
    """
    for way, keys in _WAYS.items():
        if collapse == way or (collapse == "auto" and len(graph.items) > READABLE):
            graph = _grouped(graph, keys(graph))
    return graph


def _chains(graph: Graph) -> dict[Item, Hashable]:
    """Return one key for operations of which each has one argument and one use."""
    ups, downs = neighbours(graph.items, graph.edges)
    heads: dict[Item, Hashable] = {}
    for i in graph.items:
        before = ups[i][0] if len(ups[i]) == 1 else None
        joins = before is not None and len(downs[before]) == 1 and before.box is i.box
        if i.kind == OPERATION:
            follows = joins and before is not None and before.kind == OPERATION
            heads[i] = heads[before] if follows and before is not None else ("chain", i)
    return heads


def _scope(item: Item) -> Hashable:
    """Return the outermost scope of an item: None: it stays."""
    return next((b for b in item.box.path() if b.kind in SCOPES), None) if item.box else None


def _line(item: Item) -> Hashable:
    if item.kind == OPERATION and item.line:
        return (item.box, item.line, is_backward(item.line))
    return None


def _grouped(graph: Graph, given: dict[Item, Hashable]) -> Graph:
    """Return the graph with one item for all that have a key in common; keys in a cycle become one, too."""
    keys: dict[Item, Hashable] = {i: k if (k := given.get(i)) is not None else i for i in graph.items}
    keys = _without_cycles(graph, keys)
    members: dict[Hashable, list[Item]] = {}
    for i in graph.items:
        members.setdefault(keys[i], []).append(i)
    made = Graph(hint=graph.hint)
    new: dict[Hashable, Item] = {}
    for k, found in members.items():
        new[k] = found[0] if len(found) == 1 and not isinstance(k, Box) else _group(found)
    made.items = [new[k] for k in members]
    pairs = {(new[keys[a]], new[keys[b]]): None for a, b in graph.edges if keys[a] != keys[b]}
    made.edges = list(pairs)
    return made


def _group(members: list[Item]) -> Item:
    """Return one item for several."""
    boxes = [i.box.path() if i.box else [] for i in members]
    shared: list[Box] = []
    for parents in zip(*boxes, strict=False):
        if any(b is not parents[0] for b in parents):
            break
        shared.append(parents[0])
    found = {(i.line, is_backward(i.line)): i.line for i in members if i.line}
    lines = sorted(found.values(), key=_line_key)
    scope = next((b for b in shared if b.kind in SCOPES), None)
    whole = scope is not None and len(set(lines)) > 1
    if whole and scope is not None:
        name, shared = scope.title, shared[: shared.index(scope)]
    else:
        names = list(dict.fromkeys(i.name for i in members))
        name = code(lines[0]) or place(lines[0]) if lines else ", ".join(names)
        if len(lines) > 1:
            name += " …"
    last = members[-1]
    return Item(
        GROUP,
        name,
        [a for i in members if i.kind != INPUT for a in i.avals],
        shared[-1] if shared else None,
        detail=f"on {len(lines)} lines" if len(lines) > 1 and not whole else "",
        line=lines[0] if lines else "",
        seconds=_sum([i.seconds for i in members]),
        reverse_seconds=_sum([i.reverse_seconds for i in members]),
        norm=last.norm,
        members=members,
    )


def _line_key(line: str) -> tuple[str, int]:
    file, _, number = line.rpartition(":")
    return file, int(number) if number.isdigit() else 0


def _sum(values: list[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _without_cycles(graph: Graph, keys: dict[Item, Hashable]) -> dict[Item, Hashable]:
    """Return the keys with one for each strongly connected part: lines of a loop that use each other."""
    down: dict[Hashable, dict[Hashable, None]] = {k: {} for k in keys.values()}
    for a, b in graph.edges:
        if keys[a] != keys[b]:
            down[keys[a]][keys[b]] = None
    part = _strong(down)
    return {i: part[k] for i, k in keys.items()}


def _strong(down: dict[Hashable, dict[Hashable, None]]) -> dict[Hashable, Hashable]:
    """Return for each key one of its strongly connected component (Sharir 1981, Comput. Math. Appl. 7)."""
    up, _ = neighbours(down, ((a, b) for a, heads in down.items() for b in heads))
    part: dict[Hashable, Hashable] = {}
    for k in reversed(postorder(down, down.__getitem__)):
        if k not in part:
            found = postorder([k], lambda b: [a for a in up[b] if a not in part])
            part.update(dict.fromkeys(found, k))
    return part


_WAYS: dict[str, Callable[[Graph], dict[Item, Hashable]]] = {
    "scope": lambda graph: {i: _scope(i) for i in graph.items},
    "line": lambda graph: {i: _line(i) for i in graph.items},
    "chain": _chains,
}
