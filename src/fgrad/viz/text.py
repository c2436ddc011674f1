"""Graphs in the languages of other programs that draw: Graphviz and Mermaid."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fgrad.viz.graph import INPUT, OUTPUT, Box, Graph, Item

Names = dict[Item, str]


def dot(graph: Graph) -> str:
    """Return the graph as a digraph of Graphviz."""
    names = _names(graph)

    def item(i: Item) -> str:
        shape = "rounded" if i.kind in (INPUT, OUTPUT) else "solid"
        return f'{names[i]} [label="{_quoted(_label(i))}", style={shape}];'

    def begin(box: Box, k: int) -> str:
        return f'subgraph cluster_{k} {{ label="{_quoted(box.title)}";'

    lines = ["digraph fgrad {", "  node [shape=box, fontname=monospace];"]
    lines += _nested(graph, item, begin, "}")
    lines += [f"  {names[a]} -> {names[b]};" for a, b in graph.edges]
    return "\n".join([*lines, "}"])


def mermaid(graph: Graph) -> str:
    """Return the graph as a flowchart of Mermaid."""
    names = _names(graph)

    def item(i: Item) -> str:
        left, right = ("([", "])") if i.kind in (INPUT, OUTPUT) else ("[", "]")
        return f'{names[i]}{left}"{_entities(_label(i))}"{right}'

    def begin(box: Box, k: int) -> str:
        return f'subgraph b{k}["{_entities(box.title)}"]'

    lines = ["flowchart TB", *_nested(graph, item, begin, "end")]
    lines += [f"  {names[a]} --> {names[b]}" for a, b in graph.edges]
    return "\n".join(lines)


def _names(graph: Graph) -> Names:
    counts: dict[str, int] = {}
    names = {}
    for i in graph.items:
        kind = {INPUT: "in", OUTPUT: "out"}.get(i.kind, "op")
        names[i] = f"{kind}{counts.get(kind, 0)}"
        counts[kind] = counts.get(kind, 0) + 1
    return names


def _label(i: Item) -> str:
    avals = ", ".join(map(str, i.avals)) if i.count() < 2 else f"{i.count()} operations"
    if i.kind in (INPUT, OUTPUT):
        return f"{i.label or i.name}: {avals}"
    return f"{i.label + ' = ' if i.label else ''}{i.name} {avals}".strip()


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _entities(text: str) -> str:
    for char, name in (("&", "#amp;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("\n", " ")):
        text = text.replace(char, name)
    return text


def _nested(
    graph: Graph, item: Callable[[Item], str], begin: Callable[[Box, int], str], end: str
) -> Iterator[str]:
    """Yield the items, those of a box inside of it."""
    boxes = graph.boxes()
    numbers = {b: k for k, b in enumerate(boxes)}

    def inside(box: Box | None, indent: str) -> Iterator[str]:
        for i in graph.items:
            if i.box is box:
                yield indent + item(i)
        for b in boxes:
            if b.parent is box:
                yield indent + begin(b, numbers[b])
                yield from inside(b, indent + "  ")
                yield indent + end

    return inside(None, "  ")
