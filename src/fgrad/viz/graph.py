"""What is drawn: items, edges between them, and boxes around them, however they were found."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from fgrad.core.aval import Aval
from fgrad.core.primitive import PRIMITIVES, PRODUCT, REDUCES

T = TypeVar("T", bound=Hashable)

INPUT, OPERATION, OUTPUT, GROUP = "input", "operation", "output", "group"


@dataclass(eq=False)
class Box:
    """Something that holds items: a recording, a scope, a loop, a branch."""

    title: str
    kind: str  # "manager" or its "sweep", "scope" or what goes "backward" over it, "control"
    parent: Box | None = None

    def path(self) -> list[Box]:
        """Return this box and those around it, the outermost first."""
        return [*(self.parent.path() if self.parent else ()), self]


@dataclass(eq=False)
class Item:
    """One operation, input, output, or a group of operations that are drawn as one.

    Attributes:
        kind: INPUT, OPERATION, OUTPUT or GROUP.
        name: of the operation; of a group what its operations have in common.
        avals: of the results.
        box: the innermost box around it.
        label: the name of the user's variable.
        detail: parameters and constants.
        line: `file:line` of the user's program.
        seconds, reverse_seconds: time of the operation, and of its reverse step.
        norm: of the cotangent.
        members: of a group.
    """

    kind: str
    name: str
    avals: Sequence[Aval] = ()
    box: Box | None = None
    label: str = ""
    detail: str = ""
    line: str = ""
    seconds: float | None = None
    reverse_seconds: float | None = None
    norm: float | None = None
    members: list[Item] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """How many bytes the results take."""
        return sum(a.size * a.dtype.itemsize for a in self.avals)

    @property
    def family(self) -> str:
        """What kind of operation it is, for its colour."""
        if self.kind != OPERATION:
            return self.kind
        primitive = PRIMITIVES.get(self.name)
        if primitive is None:
            return "other"
        for trait in (REDUCES, PRODUCT):
            if trait in primitive.traits:
                return trait
        return (
            "elementwise"
            if primitive.body is not None
            else "linear"
            if primitive.linear is not None
            else "other"
        )

    def count(self) -> int:
        """Return how many operations it stands for."""
        if self.kind == GROUP:
            return sum(m.count() for m in self.members)
        return int(self.kind == OPERATION)


@dataclass(eq=False)
class Graph:
    """Items in the order in which they were made, and edges from a result to where it is used."""

    items: list[Item] = field(default_factory=list)
    edges: list[tuple[Item, Item]] = field(default_factory=list)
    hint: str = ""

    def add(self, item: Item, sources: Iterable[Item] = ()) -> Item:
        """Add an item that uses the results of `sources`."""
        self.items.append(item)
        for s in dict.fromkeys(sources):
            self.edges.append((s, item))
        return item

    def boxes(self) -> list[Box]:
        """Return all boxes, in the order of their first item, outer ones first."""
        return list(dict.fromkeys(b for i in self.items if i.box for b in i.box.path()))

    def count(self) -> int:
        """Return the number of operations."""
        return sum(i.count() for i in self.items)


def neighbours(nodes: Iterable[T], edges: Iterable[tuple[T, T]]) -> tuple[dict[T, list[T]], dict[T, list[T]]]:
    """Return what edges lead from to each node, and where they lead from it."""
    up: dict[T, list[T]] = {n: [] for n in nodes}
    down: dict[T, list[T]] = {n: [] for n in up}
    for a, b in edges:
        up[b].append(a)
        down[a].append(b)
    return up, down


def postorder(roots: Iterable[T], down: Callable[[T], Iterable[T]]) -> list[T]:
    """Return all that roots lead to, in the order in which a search in depth has done with it."""
    seen: set[T] = set()
    done: list[T] = []
    for root in roots:
        stack: list[tuple[T, Iterator[T]]] = [] if root in seen else [(root, iter(down(root)))]
        seen.add(root)
        while stack:
            node, ahead = stack[-1]
            for following in ahead:
                if following not in seen:
                    seen.add(following)
                    stack.append((following, iter(down(following))))
                    break
            else:
                done.append(node)
                stack.pop()
    return done
