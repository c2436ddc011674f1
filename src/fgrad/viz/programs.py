"""The graph of a Program: its equations, and boxes for scopes, custom rules, loops and branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.core.control_flow import Branches, Scan, While, programs_of
from fgrad.core.primitive import CONTRACTION
from fgrad.core.program import Equation, Program, Var, aval_out, shown, shown_parameter
from fgrad.core.scopes import scopes_of
from fgrad.viz.formatting import cut
from fgrad.viz.graph import INPUT, OPERATION, OUTPUT, Box, Graph, Item

PARTS: dict[Any, Sequence[str]] = {While: ("condition", "step"), Scan: ("step",)}


def graph_of(program: Program, names: Sequence[str] = ()) -> Graph:
    """Return the graph of a program; `names` are those of its inputs."""
    graph = Graph()
    reader = _Reader(graph, None)
    labels = names if len(names) == len(program.inputs) else [v.given_name for v in program.inputs]
    inputs = [
        graph.add(Item(INPUT, "input", [v.aval], label=label))
        for v, label in zip(program.inputs, labels, strict=True)
    ]
    made = reader.read(program, inputs)
    places = tree.paths(program.out_tree) if program.out_tree is not None else []
    if len(places) != len(made):
        places = [f"[{i}]" for i in range(len(made))]
    for place, y, source in zip(places, program.outputs, made, strict=True):
        name = "output" if len(made) == 1 else f"output{place}"
        graph.add(Item(OUTPUT, name, [aval_out(y)]), source)
    return graph


class _Reader:
    """Adds a program to a graph, inside of a box."""

    def __init__(self, graph: Graph, box: Box | None) -> None:
        self.graph, self.box = graph, box
        self.scopes: dict[Any, Box] = {}

    def read(self, program: Program, inputs: Sequence[Item]) -> list[list[Item]]:
        """Add the equations; return which items make each output: none, one, or one for each branch."""
        made: dict[Var, list[Item]] = {v: [i] for v, i in zip(program.inputs, inputs, strict=True)}
        regions: list[tuple[int, Box]] = []
        for k, e in enumerate(program.equations):
            regions = [r for r in regions if k < r[0]]
            if k in program.regions:
                region = program.regions[k]
                around = regions[-1][1] if regions else self.around(e)
                regions.append((region.stop, Box(region.primitive.name, "control", around)))
            box = regions[-1][1] if regions else self.around(e)
            sources = [s for a in e.args if isinstance(a, Var) for s in made[a]]
            outs = self.inside(e, sources, box) or [
                [
                    self.graph.add(
                        Item(
                            OPERATION, e.name, [v.aval for v in e.outs], box, detail=_detail(e), line=e.line
                        ),
                        sources,
                    )
                ]
            ] * len(e.outs)
            made.update(zip(e.outs, outs, strict=True))
        return [made[y] if isinstance(y, Var) else [] for y in program.outputs]

    def around(self, e: Equation) -> Box | None:
        """Return the box of the scopes of an equation."""
        return scope_box(self.scopes, e.line, self.box)

    def inside(self, e: Equation, sources: Sequence[Item], box: Box | None) -> list[list[Item]] | None:
        """Add the programs that an operation holds, in boxes; None where it holds none that it runs."""
        code = e.params.get("code")
        if e.name == "jit":  # whose class belongs to the compiler, which a picture does not load
            programs: Sequence[Program] = (e.params["code"].program,)
            parts: Sequence[str] = ("",)
        elif isinstance(code, Branches):
            programs = code.inner()
            parts = [f"branch {i}" for i in range(len(programs))]
        elif type(code) in PARTS:
            programs, parts = programs_of(e), PARTS[type(code)]
        else:
            return None
        length = getattr(code, "length", None)
        title = e.name if length is None else f"{e.name}, {length} times"
        if getattr(code, "reverse", False):
            title += ", in reverse"
        whole = Box(title, "control", box)
        start = self.graph.add(Item(OPERATION, e.name, [], whole, detail=_detail(e), line=e.line), sources)
        found: list[list[list[Item]]] = []
        for part, program in zip(parts, programs, strict=True):
            inner = Box(part, "control", whole) if len(parts) > 1 else whole
            reader = _Reader(self.graph, inner)
            pins = [
                self.graph.add(Item(INPUT, "", [v.aval], inner, label=v.given_name), [start])
                for v in program.inputs
            ]
            outs = reader.read(program, pins)
            found.append([o or [start] for o in outs])
        if isinstance(code, Branches):
            return [[i for outs in found for i in outs[k]] for k in range(len(e.outs))]
        return found[-1][: len(e.outs)]


def scope_box(known: dict[Any, Box], line: str, box: Box | None) -> Box | None:
    """Return the box of the scopes of a line, inside of another one."""
    for scope in scopes_of(line):
        kind = "backward" if scope.backward else "scope"
        box = known.setdefault((scope, box), Box(scope.name, kind, box))
    return box


def _detail(e: Equation) -> str:
    """Return constants and parameters of an equation."""
    if CONTRACTION in e.traits:
        return f"{e.params['a']},{e.params['b']}→{e.params['out']}"
    constants = [shown(a) for a in e.args if not isinstance(a, Var)]
    given = [f"{k}={shown_parameter(v)}" for k, v in e.params.items() if k != "code" and _is_plain(v)]
    return cut(", ".join([*constants, *given]), 48)


def _is_plain(v: Any) -> bool:
    if isinstance(v, tuple | list):
        return all(map(_is_plain, v))
    return isinstance(v, int | float | str | slice | np.dtype | np.integer) or v is None or v is Ellipsis
