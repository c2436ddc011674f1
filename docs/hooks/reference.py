"""Makes the reference: a page for each public module, with every name that it offers and nothing else."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

MODULES = (  # `dir` says what each offers
    "fgrad",
    "fgrad.numpy",
    "fgrad.numpy.linalg",
    "fgrad.numpy.fft",
    "fgrad.nn",
    "fgrad.nn.initializers",
    "fgrad.nn.layers",
    "fgrad.optim",
    "fgrad.lax",
    "fgrad.lax.linalg",
    "fgrad.random",
    "fgrad.scipy.fft",
    "fgrad.scipy.integrate",
    "fgrad.scipy.interpolate",
    "fgrad.scipy.linalg",
    "fgrad.scipy.ndimage",
    "fgrad.scipy.optimize",
    "fgrad.scipy.signal",
    "fgrad.scipy.sparse",
    "fgrad.scipy.special",
    "fgrad.scipy.stats",
    "fgrad.sparse",
    "fgrad.distributed",
    "fgrad.viz",
    "fgrad.extend",
    "fgrad.debug",
    "fgrad.testing",
    "fgrad.cache",
    "fgrad.tree",
    "fgrad.config",
)
A_TO_Z = "reference/a_to_z.md"
SPLIT = {"fgrad.numpy"}  # a page for each family: one would be too long
TITLES = {  # sections of the page of fgrad, in this order; elsewhere the module's own name
    "fgrad.core.tensor": "Tensors",
    "fgrad.plain": "Tensors",
    "fgrad.transforms.manager": "Recording",
    "fgrad.transforms.reverse": "Reverse mode",
    "fgrad.transforms.forward": "Forward mode",
    "fgrad.transforms.vmap": "Mapping",
    "fgrad.transforms.vectorize": "Mapping",
    "fgrad.transforms.jit": "Compiling",
    "fgrad.transforms.retrace": "Compiling",
    "fgrad.transforms.stage": "Programs",
    "fgrad.archive": "Programs",
    "fgrad.transforms.custom": "Rules of your own",
    "fgrad.transforms.callbacks": "Rules of your own",
    "fgrad.numpy.indexing": "Rules of your own",
    "fgrad.transforms.checkpoint": "Memory",
    "fgrad.lax.checkpointing": "Memory",
    "fgrad.transforms.nonfinite": "Looking inside",
    "fgrad.numpy_coverage": "Looking inside",
    "fgrad.viz.profiling": "Looking inside",
    "fgrad.config": "Settings",
    "fgrad.tree": "Pytrees",
    "fgrad.errors": "Errors and warnings",
}
TERMS = {"Args": "Parameters"}
OPTIONS = {
    "fgrad.GradManager": {  # what users call; the rest is for the transformations
        "members": [
            *("attach", "detach", "attached_tensors"),
            *("record", "backward", "after_backward", "release", "is_recording"),
        ]
    },
    "fgrad.Tensor": {"inherited_members": True},  # what an ndarray can do
}


def on_config(config: MkDocsConfig) -> None:
    """Put the pages into the navigation."""
    for entry in config.nav or []:
        if isinstance(entry, dict) and "Reference" in entry:
            entry["Reference"] += [{title: where} for where, (title, _) in _pages().items()]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages."""
    for where, (_, text) in _pages().items():
        files.append(File.generated(config, where, content=text))


@cache
def _pages() -> dict[str, tuple[str, str]]:
    """Return for each page its title and its text."""
    pages = {A_TO_Z: ("A to Z", _index())}
    for path in MODULES:
        module = import_module(path)
        families = _families(module)
        if path in SPLIT:
            for family, names in families.items():
                title = f"{path}: {_last(family)}"
                page = _page(title, import_module(family), path, names)
                pages[f"reference/{path}.{_last(family)}.md"] = title, page
        elif len(families) == 1:
            pages[f"reference/{path}.md"] = path, _page(path, module, path, *families.values())
        else:
            page = _page(path, module, path, [])
            for family, names in families.items():
                page += f"\n\n## {_last(family)}\n\n{_entries(path, names, 3)}"
            pages[f"reference/{path}.md"] = path, page
    return pages


def _index() -> str:
    """Return the page of all names: each with its first sentence, and a link to where it is described."""
    letters: dict[str, list[str]] = defaultdict(list)
    entries = [entry for path in MODULES for entry in _indexed(path)]
    for name, text in sorted(entries, key=lambda entry: (entry[0].lower(), entry[1])):
        letters[name[0].upper()].append(text)
    head = "Every public name, with the first sentence of its description."
    jumps = " ".join(f"[{letter}](#{letter.lower()})" for letter in letters)
    parts = [f"## {letter}\n\n" + "\n".join(rows) for letter, rows in letters.items()]
    return "\n\n".join(["# A to Z", head, jumps, *parts, ""])


def _indexed(path: str) -> Iterator[tuple[str, str]]:
    """Yield each name of a module that has a page, and its line in the index."""
    module = import_module(path)
    chosen = {}
    for family, names in _families(module).items():
        page = f"{path}.{_last(family)}.md" if path in SPLIT else f"{path}.md"
        chosen |= {id(getattr(module, n)): (n, page) for n in names}
    for name in dir(module):
        thing = getattr(module, name)
        if id(thing) in chosen and not name.startswith("_"):
            main, page = chosen[id(thing)]
            where = _anchor(path, main)
            link = f"({page}#{where})" if _made(thing) else f"[{where}]"
            yield name, f"- [`{name}`]{link} (`{path}`): {_first_sentence(thing)}"


def _first_sentence(thing: Any) -> str:
    """Return the first sentence of a docstring on one line."""
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.:;])(?<!e\.g\.)(?<!i\.e\.) (?=[A-Z`])", text)[0].rstrip(":;")


def _anchor(path: str, name: str) -> str:
    """Return the anchor of a name on its page."""
    where = f"{path}.{name}"
    module = import_module(path)
    if hasattr(module, "__path__") and not _made(getattr(module, name)) and find_spec(where):
        return f"{where}.{name}"  # a module has the same name
    return where


def _page(title: str, module: ModuleType, path: str, names: Iterable[str]) -> str:
    return f"# {title}\n\n{inspect.getdoc(module)}\n\n{_entries(path, names, 2)}\n"


def _families(module: ModuleType) -> dict[str, list[str]]:
    """Return the public names of a module by family; one of several names for an object."""
    names = [n for n in dir(module) if _public(module, n)]
    families: dict[str, dict[int, str]] = defaultdict(dict)
    for name in sorted(names):
        thing = getattr(module, name)
        if not getattr(thing, "__module__", "").startswith("fgrad"):  # NumPy's own
            continue
        family = module.__name__ if hasattr(module, "__all__") else thing.__module__
        if family == "fgrad.numpy":  # ufuncs call themselves so
            family = "fgrad.numpy.elementwise"
        if module.__name__ == "fgrad":
            family = TITLES.get(family, family)
        families[family].setdefault(id(thing), name)
        if getattr(thing, "__name__", None) == name:
            families[family][id(thing)] = name
    places = {title: place for place, title in enumerate(TITLES.values())}
    order = sorted(families, key=lambda family: (places.get(family, len(places)), family))
    return {family: sorted(families[family].values()) for family in order}


def _public(module: ModuleType, name: str) -> bool:
    thing = getattr(module, name)
    where = getattr(thing, "__module__", None) or ""
    return not name.startswith("_") and callable(thing) and where.startswith("fgrad")


def _entries(path: str, names: Iterable[str], level: int) -> str:
    """Return a directive for each name; what is made by a call, and has no `def`, is described here."""
    module = import_module(path)
    entries = []
    for name in names:
        thing = getattr(module, name)
        same = {n for n in dir(module) if getattr(module, n) is thing and not n.startswith("_")}
        also = sorted(same - {name})
        note = f"Also: {', '.join(f'`{n}`' for n in also)}.\n\n" if also else ""
        where = _anchor(path, name)
        if _made(thing):
            heading = f"{'#' * level} `{name}` {{ #{where} }}"
            entries.append(f"{heading}\n\n{_signature(name, thing)}{_described(thing)}\n\n{note}")
        else:
            options = {"heading_level": level} | OPTIONS.get(where, {})
            entries.append(f"::: {where}\n    options: {json.dumps(options)}\n\n{note}")
    return "\n\n".join(entries)


def _signature(name: str, thing: Any) -> str:
    """Return how a thing is called, as a block of code; nothing where it does not say so."""
    try:
        given = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    parameters = [p.replace(annotation=p.empty) for p in given.parameters.values()]
    shown = str(given.replace(parameters=parameters, return_annotation=given.empty))
    return f"```python\n{name}{shown.replace(repr(np._NoValue), 'np._NoValue')}\n```\n\n"


def _described(thing: Any) -> str:
    """Return a docstring of the Google style as Markdown."""
    parts = []
    for part in re.split(r"\n\n(?=[A-Z][A-Za-z ]*:\n)", inspect.getdoc(thing) or ""):
        title, _, body = part.partition(":\n")
        if not re.fullmatch(r"[A-Z][A-Za-z ]*", title):
            parts.append(part)
        elif title == "Example":
            parts.append(f"**Example:**\n\n```python\n{textwrap.dedent(body).rstrip()}\n```")
        elif title in {"Args", "Raises", "Attributes"}:
            rows = re.findall(r"^(\S[^:\n]*): ((?:.|\n(?= ))*)", textwrap.dedent(body), re.MULTILINE)
            lines = [f"- `{term}`: {' '.join(text.split())}" for term, text in rows]
            parts.append("\n".join([f"**{TERMS.get(title, title)}:**", "", *lines]))
        else:
            parts.append(f"**{title}:** {' '.join(body.split())}")
    return "\n\n".join(parts)


def _made(thing: Any) -> bool:
    if inspect.isclass(thing):
        return False
    return not inspect.isfunction(thing) or inspect.unwrap(thing).__code__.co_name != thing.__name__


def _last(path: str) -> str:
    return path.rpartition(".")[2]
