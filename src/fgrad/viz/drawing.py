"""`draw`: the picture of a Program or of recorded Tensors, for notebooks and files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fgrad import tree
from fgrad.core.aval import aval_of
from fgrad.core.notes import Notes, Recording, observed, recording_of, take_everywhere, taking
from fgrad.core.program import Program
from fgrad.core.tensor import Tensor
from fgrad.core.trace import user_frame
from fgrad.transforms.calling import Transformed, bound
from fgrad.transforms.jit import Lowered
from fgrad.transforms.manager import GradManager, GradManagerGroup
from fgrad.transforms.retrace import leaf_names
from fgrad.transforms.stage import make_graph
from fgrad.viz import programs, svg, tapes, text
from fgrad.viz.collapse import Collapse, check_collapse, collapsed
from fgrad.viz.graph import Graph
from fgrad.viz.theme import chosen

Theme = Literal["auto", "light", "dark"]


@dataclass(eq=False, repr=False)
class Drawing:
    """A picture of a computation; a notebook shows it, `save` writes it.

    Args:
        graph: what is drawn.
        width: in pixels.

    Attributes:
        graph: what is drawn: items, edges and boxes.

    Example:
        >>> drawing = fg.viz.draw(lambda x: np.sin(x) * 2.0)(np.ones(3))
        >>> drawing.to_svg().startswith("<svg")
        True
        >>> "sin" in drawing.to_dot()
        True
    """

    graph: Graph
    width: float = 1000.0

    def to_svg(self, theme: Theme = "auto") -> str:
        """Return the picture as SVG.

        Args:
            theme: "light", "dark", or "auto": that of the page (JupyterLab, MkDocs, Sphinx), else of the
                system.
        """
        return svg.render(self.graph, colours=chosen(theme), width=self.width)

    def to_dot(self) -> str:
        """Return the graph in the language of Graphviz."""
        return text.dot(self.graph)

    def to_mermaid(self) -> str:
        """Return the graph in the language of Mermaid, which many Markdown viewers draw."""
        return text.mermaid(self.graph)

    def save(self, path: str | Path, theme: Theme = "auto") -> None:
        """Write the picture to a file: `.svg`, `.html`, `.dot` or `.mmd` by its name.

        Args:
            path: where to.
            theme: as in `to_svg`. Programs other than browsers may need "light" or "dark".

        Raises:
            ValueError: another kind of file.
        """
        path = Path(path)
        kinds = {
            ".svg": lambda: self.to_svg(theme),
            ".html": lambda: _page(self.to_svg(theme)),
            ".dot": self.to_dot,
            ".mmd": self.to_mermaid,
        }
        if path.suffix not in kinds:
            raise ValueError(
                f"a drawing is saved as {', '.join(kinds)}, not {path.suffix or 'a file without suffix'}; "
                "browsers and programs like Inkscape turn SVG into anything else"
            )
        path.write_text(kinds[path.suffix](), encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def _repr_html_(self) -> str:
        return f'<div style="overflow:auto;max-height:860px">{self.to_svg()}</div>'

    def __repr__(self) -> str:
        boxes = len(self.graph.boxes())
        return f"<Drawing of {self.graph.count()} operations, {len(self.graph.edges)} edges, {boxes} boxes>"


def _page(picture: str) -> str:
    head = '<!doctype html><meta charset="utf-8"><body style="margin:0;color-scheme:light dark">'
    return f"{head}{picture}</body>\n"


class _Draw(Transformed):
    """The function that draws what another one does."""

    def _call(self, *args: Any, **kwargs: Any) -> Drawing:
        args, kwargs = bound(self.fun, args, kwargs)
        with taking(Notes()):  # so that steps back stand where the operations do
            program = make_graph(self.fun)(*args, **kwargs)
        names = leaf_names(self.fun, range(len(args)), args, {})
        return _drawing(programs.graph_of(program, names), **self.options)


def draw(
    x: Any, *, collapse: Collapse = "auto", names: Mapping[str, Any] | None = None, width: float = 1000.0
) -> Any:
    """Return the picture of a computation: operations, shapes, bytes, lines of the program, nested boxes.

    `draw(f)(*args)` stages `f` on the shapes of `args` and draws the Program: derivatives, batches, loops and
    branches as `make_graph` writes them down. `draw(y)` draws what the recordings of GradManagers know of a
    Tensor, each recording as a box, the outer ones around the inner ones. Inside `with take_notes():` they
    also know lines, scopes and times, and after `backward`, which frees the recording, what there was, the
    time of each reverse step and the norms of gradients.

    Args:
        x: a function; or a Tensor or pytree of Tensors, a GradManager or group that is recording, a Program,
            or what `jit(f).lower(...)` returns.
        collapse: "none" draws every operation; "scope" makes each `named_scope` one item, "line" each line of
            the program, "chain" what has one argument and one use; "auto" does so where there are more than
            60 items.
        names: what to call Tensors and managers; None takes the names of the caller's variables.
        width: in pixels; a tall picture is cut into columns where that much room is.

    Returns:
        A `Drawing`, or for a function the function that returns one.

    Raises:
        TypeError: nothing that can be drawn.

    Example:
        >>> import fgrad
        >>> import numpy as np
        >>> from fgrad.viz import draw
        >>> draw(fgrad.grad(lambda x: np.sum(np.sin(x))))(np.ones(3))
        <Drawing of 4 operations, 5 edges, 0 boxes>
        >>> x = fgrad.tensor([1.0, 2.0])
        >>> with fgrad.GradManager().attach(x):
        ...     y = (x * x).sum()
        ...     print(draw(y).to_mermaid())
        flowchart TB
          subgraph b0["GradManager"]
            in0(["x: float64[2]"])
            op0["multiply float64[2]"]
            op1["y = sum float64[]"]
          end
          in0 --> op0
          op0 --> op1
    """
    check_collapse(collapse)
    options: dict[str, Any] = {"collapse": collapse, "width": width}
    if isinstance(x, Program | Lowered):
        return _drawing(programs.graph_of(x if isinstance(x, Program) else x.program), **options)
    variables = dict(names) if names is not None else _variables()
    if callable(x) and not isinstance(x, Tensor):
        return _Draw(x, **options)
    tapes.number_recordings()
    tensors = {name: t for name, t in variables.items() if isinstance(t, Tensor)}
    values = _recorded(x, tensors)
    return _drawing(tapes.graph_of(values, tensors, _manager_names(variables)), **options)


def _recorded(x: Any, tensors: Mapping[str, Tensor]) -> list[tapes.Value]:
    """Return the values to draw, as recordings know them."""
    if isinstance(x, GradManager | GradManagerGroup):
        managers = x.managers if isinstance(x, GradManagerGroup) else (x,)
        values = [v for gm in managers if gm._recording for v in tapes.values_of(gm._recording.tape)]
        if not values:
            raise TypeError(
                "draw: this GradManager has recorded nothing, or its recording has ended. Draw it before "
                "backward or release; a Tensor that was recorded inside `with fgrad.viz.take_notes():` can "
                "be drawn later"
            )
        ends = {n for notes, _ in values for n in notes}  # what other managers know of them
        pairs = ((tapes.notes_of(t), aval_of(t)) for t in tensors.values())
        return [*values, *((notes, aval) for notes, aval in pairs if not ends.isdisjoint(notes))]
    ys = [t for t in tree.leaves(x) if isinstance(t, Tensor)]
    if not ys:
        raise TypeError(
            f"draw takes a function, recorded Tensors, a GradManager or a Program, not {type(x).__name__}; "
            "write draw(f)(x) for a function"
        )
    known: list[tapes.Value] = [(notes, aval_of(t)) for t in ys if (notes := tapes.notes_of(t))]
    if not known:
        raise TypeError(
            "draw: no recording contains this Tensor. It is a constant, or its recording has ended: draw "
            "it before backward or release, or record inside `with fgrad.viz.take_notes():`, which "
            "remembers"
        )
    return known


def _drawing(graph: Graph, *, collapse: Collapse, width: float) -> Drawing:
    return Drawing(collapsed(graph, collapse), width)


def _variables() -> dict[str, Any]:
    """Return the caller's variables: local ones, else global ones."""
    frame = user_frame()
    found = {**frame.f_globals, **frame.f_locals}
    return {k: v for k, v in found.items() if isinstance(k, str) and not k.startswith("_")}


def _manager_names(variables: Mapping[str, Any]) -> Callable[[Recording], str | None]:
    managers = {k: v for k, v in variables.items() if isinstance(v, GradManager)}

    def called(recording: Recording) -> str | None:
        for name, gm in managers.items():
            live = gm._recording is not None and recording_of(gm._recording.tape) is recording
            if live or (recording.manager is not None and recording.manager() is gm):
                return name
        return None

    return called


class take_notes(observed):  # noqa: N801 -- reads as a function
    """Remember of each recorded operation its line, scope and time, for `draw`.

    `with take_notes():` holds for the block, in this thread and task; `take_notes(True)` holds everywhere
    until `take_notes(False)`. An operation takes some microseconds longer then. Where no notes are taken,
    nothing is slower. What is noted holds no arrays, and lives as long as a Tensor that came out of it.

    Args:
        on: True or False switches at once; None waits for the block.

    Returns:
        A context manager.

    Example:
        >>> import fgrad
        >>> from fgrad.viz import draw, take_notes
        >>> x = fgrad.tensor([3.0, 4.0])
        >>> with take_notes(), fgrad.GradManager().attach(x) as gm:
        ...     y = (x * x).sum()
        ...     gm.backward(y)
        >>> draw(y)
        <Drawing of 2 operations, 2 edges, 1 boxes>
    """

    def __init__(self, on: bool | None = None) -> None:
        taken = taking(Notes())
        super().__init__(taken.variable, taken.who)
        if on is not None:
            take_everywhere(Notes() if on else None)
