"""What a notebook shows of Tensors, managers and programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import singledispatch
from html import escape
from typing import Any

import numpy as np

from fgrad.core.aval import aval_of
from fgrad.core.nonfinite import array_of
from fgrad.core.placement import on_host
from fgrad.core.primitive import VJP
from fgrad.core.program import Program, shown
from fgrad.core.tape import Node, Tape
from fgrad.core.tensor import Tensor
from fgrad.core.trace import Tracer, current
from fgrad.transforms.batch import BatchedTracer
from fgrad.transforms.manager import GradManager, GradManagerGroup
from fgrad.viz import image, theme
from fgrad.viz.formatting import code, count, number, place, size

CLASS = "fgrad-card"
COLUMNS, ROWS = 12, 10  # of a table of values; more are an image
SLICES = 8  # images of an array of more than two axes
LINES = 80  # of a program

_CSS = (
    ("", f"font-family:{theme.SANS};font-size:13px;color:var(--fg-ink);line-height:1.45;max-width:960px"),
    (" .head", "margin:2px 0 5px"),
    (" .head b", "font-weight:600;margin-right:8px"),
    (" .mono", f"font-family:{theme.MONO};font-size:12px"),
    (" .muted", "color:var(--fg-muted)"),
    (
        " .chip",
        (
            "display:inline-block;border:1px solid var(--fg-rim);border-radius:9px;padding:0 8px;"
            "margin-left:6px;font-size:11px;color:var(--fg-muted)"
        ),
    ),
    (" .chip.on", "color:var(--fg-manager);border-color:var(--fg-manager)"),
    (" tr", "background:none"),
    (" table", "border-collapse:collapse;margin:2px 0 4px;border:0"),
    (
        " td",
        (
            f"font-family:{theme.MONO};font-size:12px;padding:2px 8px;text-align:right;"
            "border:1px solid var(--fg-rim);background:none;color:var(--fg-ink)"
        ),
    ),
    (
        " table th",
        "font-weight:500;font-size:11px;padding:2px 8px;text-align:left;color:var(--fg-muted);border:0",
    ),
    (" table.list td", "text-align:left;border-width:0 0 1px 0;white-space:pre"),
    (
        " img",
        "image-rendering:pixelated;border:1px solid var(--fg-rim);border-radius:3px;margin:2px 5px 2px 0",
    ),
    (" details", "margin:2px 0"),
    (" summary", "cursor:pointer;color:var(--fg-muted)"),
)


def card(*parts: str) -> str:
    """Return parts of HTML as one block with its own style."""
    root = f".{CLASS}.{CLASS}"  # twice, to count for more than the rules of a notebook's tables
    rules = "".join(f"{root}{selector}{{{rule}}}" for selector, rule in _CSS)
    return f'<div class="{CLASS}"><style>{theme.themed(root)}{rules}</style>{"".join(parts)}</div>'


@singledispatch
def html(x: Any) -> str:
    """Return what a notebook shows of `x`."""
    return f"<pre>{escape(repr(x))}</pre>"


def head(name: str, *facts: str, chips: Iterable[str] = ()) -> str:
    """Return the first line of a card; `chips` are HTML already."""
    shown = " · ".join(map(escape, facts))
    lead = f'<b>{escape(name)}</b><span class="mono muted">{shown}</span>'
    return f'<div class="head">{lead}{"".join(chips)}</div>'


def chip(text: str, *, on: bool = False) -> str:
    """Return a small label."""
    return f'<span class="chip{" on" * on}">{escape(text)}</span>'


# ---- Tensors ----------------------------------------------------------------------------------------------


@html.register
def _(t: Tensor) -> str:
    value = t._value
    aval = aval_of(t)
    if isinstance(value, Tracer):
        parts = [head("Tensor", str(aval), chips=[chip(f"inside {value.trace.title}", on=True)])]
        why = f"it exists as shape and dtype only while {value.trace.title} runs"
        if isinstance(value, BatchedTracer):
            why = f"it stands for each of {value.whole.shape[0]} examples"
        return card(*parts, f'<div class="muted">no value: {escape(why)}</div>')
    array = on_host(value)
    grad = t.grad
    chips = [chip(text, on=True) for text in _followers(t)]
    if grad is not None:
        chips.append(chip(f"‖grad‖ {norm(grad)}"))
    facts = [str(aval), size(array.nbytes), "cpu"]
    return card(head("Tensor", *facts, chips=chips), values(array), statistics(array))


def _followers(t: Tensor) -> list[str]:
    """Return which recordings follow a Tensor, and how."""
    found = []
    for n in t._nodes:
        if n.tape is not None and n.tape in current().traces:
            name = manager_name(n.tape) or "a GradManager"
            found.append(f"{'attached to' if n.vjp is None else 'recorded by'} {name}")
    return found


def manager_name(tape: Tape) -> str | None:
    """Return what the notebook or script calls the manager of a tape."""
    for name, gm in _variables(GradManager).items():
        if gm._recording is not None and gm._recording.tape is tape:
            return name
    return None


def _variables(kind: type) -> dict[str, Any]:
    main = vars(sys.modules["__main__"])
    return {k: v for k, v in list(main.items()) if isinstance(v, kind) and not k.startswith("_")}


def norm(t: Any) -> str:
    """Return the Euclidean norm in words; that of a value that is not there is unknown."""
    a = array_of(t)
    return "unknown" if a is None else number(float(np.linalg.norm(on_host(a).ravel())))


def values(x: np.ndarray[Any, Any]) -> str:
    """Return small arrays as a table, larger ones as images."""
    if x.size == 0:
        return '<div class="muted">no elements</div>'
    if x.ndim == 0:
        return f'<div class="mono">{escape(str(x[()]))}</div>'
    if x.ndim <= 2 and x.shape[-1] <= COLUMNS and (x.ndim == 1 or x.shape[0] <= ROWS):
        return _table(x)
    if x.ndim == 1:
        return _image(x[None, :], height=26)
    if x.ndim == 2:
        return _image(x)
    slices = x.reshape(-1, *x.shape[-2:])
    more = len(slices) - SLICES
    rest = f'<div class="muted">and {count(more, "more slice", "more slices")}</div>' if more > 0 else ""
    full = image.largest(np.abs(slices[:SLICES]))
    return "".join(_image(s, most=110, full=full) for s in slices[:SLICES]) + rest


def _table(x: np.ndarray[Any, Any]) -> str:
    real = image.plane(x if x.ndim == 2 else x[None, :])
    shades = image.colours(real)
    rows = []
    for values_, colours in zip(x if x.ndim == 2 else x[None, :], shades, strict=True):
        cells = []
        for v, (r, g, b, a) in zip(values_, colours, strict=True):
            shade = f' style="background:rgba({r},{g},{b},{a / 255 * 0.45:.2f})"' if a else ""
            cells.append(f"<td{shade}>{escape(number(v) if v.dtype.kind in 'fiub' else str(v))}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(rows)}</table>"


def _image(
    x: np.ndarray[Any, Any], *, height: int | None = None, most: int = 420, full: float | None = None
) -> str:
    rows, columns = x.shape
    if height is None:
        scale = min(8.0, most / columns, 240 / rows)
        tall, wide = max(12, round(rows * scale)), max(12, round(columns * scale))
    else:
        tall, wide = height, min(most, max(columns * 4, 96))
    made = image.uri(image.colours(image.plane(x), full))
    return f'<img alt="values" width="{wide}" height="{tall}" src="{made}"/>'


def statistics(x: np.ndarray[Any, Any]) -> str:
    """Return the range of an array, and how much of it is not finite."""
    if x.size < 2 or x.dtype.kind not in "fiu":
        return ""
    finite = x[np.isfinite(x)]
    parts = []
    if finite.size:
        with np.errstate(all="ignore"):
            found = (("min", finite.min()), ("mean", finite.mean(dtype=float)), ("max", finite.max()))
        parts += [f"{name} {number(v)}" for name, v in found]
    for name, n in (("NaN", np.isnan(x).sum()), ("infinite", np.isinf(x).sum())):
        if n:
            parts.append(f"{n:,} {name}")
    return f'<div class="muted mono">{escape(" · ".join(parts))}</div>'


# ---- managers ---------------------------------------------------------------------------------------------


@html.register
def _(gm: GradManager) -> str:
    return card(_manager(gm))


@html.register
def _(group: GradManagerGroup) -> str:
    members = "".join(map(_manager, group.managers))
    return card(head("GradManagerGroup", count(len(group.managers), "manager")), members)


def _manager(gm: GradManager) -> str:
    recording = gm._recording
    name = next((k for k, v in _variables(GradManager).items() if v is gm), "")
    facts = [name] if name else []
    if recording is not None:
        operations, kept = tape_size(recording.tape)
        facts.append(f"tape: {count(operations, 'operation')}, {size(kept)} kept")
    state = chip("recording", on=True) if recording is not None else chip("not recording")
    tensors = gm.attached_tensors()
    if not tensors:
        return head("GradManager", *facts, chips=[state]) + '<div class="muted">no tensors are attached</div>'
    called = {id(t): k for k, t in _variables(Tensor).items()}
    entries = gm._registry.entries
    rows = []
    for i, t in enumerate(tensors):
        entry = entries.get(id(t))
        label = called.get(id(t)) or (entry.path.strip() if entry else "") or str(i)
        calls = len(entry.callbacks) if entry else 0
        grad = t.grad
        cells = [label, str(aval_of(t)), "none" if grad is None else norm(grad), str(calls) if calls else ""]
        rows.append("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in cells) + "</tr>")
    titles = "<tr><th>attached</th><th>value</th><th>‖grad‖</th><th>callbacks</th></tr>"
    return head("GradManager", *facts, chips=[state]) + f'<table class="list">{titles}{"".join(rows)}</table>'


def tape_size(tape: Tape) -> tuple[int, int]:
    """Return how many operations a tape holds, and the bytes of the arrays that they keep."""
    arrays: dict[int, int] = {}
    operations = 0
    for node in tape.live():
        operations += isinstance(node.vjp, VJP)
        for v in _saved(node):
            a = array_of(v)
            if isinstance(a, np.ndarray):
                base = a if a.base is None or not isinstance(a.base, np.ndarray) else a.base
                arrays[id(base)] = base.nbytes if a.flags.owndata else min(a.nbytes, base.nbytes)
    return operations, sum(arrays.values())


def _saved(node: Node) -> Iterable[Any]:
    for v in node.saved:
        yield from v if isinstance(v, tuple) else (v,)


# ---- programs ---------------------------------------------------------------------------------------------


@html.register
def _(program: Program) -> str:
    equations = program.equations
    kept = sum(v.aval.size * v.aval.dtype.itemsize for e in equations for v in e.outs)
    rows: list[str] = []
    for k, e in enumerate(equations):
        if len(equations) > LINES and LINES // 2 <= k < len(equations) - LINES // 2:
            if k == LINES // 2:
                rows.append(_row(["…", "", f"{len(equations) - 2 * (LINES // 2)} more", ""]))
            continue
        made = str(e).partition(" = ")[2] if e.outs else str(e)
        outs = ", ".join(v.name for v in e.outs)
        avals = ", ".join(str(v.aval) for v in e.outs)
        rows.append(_row([outs, avals, made, place(e.line)], code(e.line)))
    ends = f"return {', '.join(map(shown, program.outputs))}"
    inputs = "".join(_row([v.name, str(v.aval), "input", ""]) for v in program.inputs)
    return card(
        head("program", count(len(equations), "operation"), f"{size(kept)} of results"),
        f'<table class="list">{inputs}{"".join(rows)}{_row(["", "", ends, ""])}</table>',
    )


def _row(cells: Sequence[str], tip: str = "") -> str:
    styles = ("", "muted", "", "muted")
    shown_cells = "".join(
        f'<td class="{style}">{escape(c)}</td>' for c, style in zip(cells, styles, strict=True)
    )
    return f'<tr title="{escape(tip)}">{shown_cells}</tr>'
