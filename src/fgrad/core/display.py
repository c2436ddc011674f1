"""How notebooks display values: the layer that draws them is imported at first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def html_of(x: Any) -> str:
    """Return what a notebook shows of `x`."""
    return str(import_module("fgrad.viz.html").html(x))


def dot_of(program: Any) -> str:
    """Return a Program in the language of Graphviz."""
    graph = import_module("fgrad.viz.programs").graph_of(program)
    return str(import_module("fgrad.viz.text").dot(graph))
