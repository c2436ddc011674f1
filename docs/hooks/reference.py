"""Makes the reference: a page for each public module, with every name that it offers and nothing else."""

from __future__ import annotations

import inspect
import json
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

# module -> its public names; None: its __all__, else all that it defines, and a package all that it gathers
MODULES: dict[str, list[str] | None] = {
    "fgrad": None,
    "fgrad.numpy": None,
    "fgrad.numpy.linalg": None,
    "fgrad.numpy.fft": None,
    "fgrad.nn": None,
    "fgrad.optim": None,
    "fgrad.lax": None,
    "fgrad.random": None,
    "fgrad.scipy.integrate": None,
    "fgrad.scipy.interpolate": None,
    "fgrad.scipy.linalg": None,
    "fgrad.scipy.ndimage": None,
    "fgrad.scipy.optimize": None,
    "fgrad.scipy.signal": None,
    "fgrad.scipy.sparse": None,
    "fgrad.scipy.special": None,
    "fgrad.scipy.stats": None,
    "fgrad.sparse": None,
    "fgrad.distributed": None,
    "fgrad.viz": None,
    "fgrad.extend": None,
    "fgrad.debug": None,
    "fgrad.testing": ["check_grads", "check_primitive"],
    "fgrad.cache": ["info", "clear"],
    "fgrad.tree": ["map", "leaves", "flatten", "unflatten", "structure"],
    "fgrad.config": ["on_escape", "disable_jit"],
}
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
MEMBERS = {  # what users call; the rest is for the transformations
    "fgrad.GradManager": [
        *("attach", "detach", "attached_tensors"),
        *("record", "backward", "after_backward", "release", "is_recording"),
    ],
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
    pages = {}
    for path, chosen in MODULES.items():
        module = import_module(path)
        families = _families(module, chosen)
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


def _page(title: str, module: ModuleType, path: str, names: Iterable[str]) -> str:
    return f"# {title}\n\n{inspect.getdoc(module)}\n\n{_entries(path, names, 2)}\n"


def _families(module: ModuleType, chosen: list[str] | None) -> dict[str, list[str]]:
    """Return the public names of a module by family; one of several names for an object."""
    names = chosen or getattr(module, "__all__", None) or [n for n in dir(module) if _public(module, n)]
    families: dict[str, dict[int, str]] = defaultdict(dict)
    for name in sorted(names):
        thing = getattr(module, name)
        if not getattr(thing, "__module__", "").startswith("fgrad"):  # NumPy's own
            continue
        family = module.__name__ if chosen or hasattr(module, "__all__") else thing.__module__
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
    if name.startswith("_") or not callable(thing) or not where.startswith("fgrad"):
        return False
    return hasattr(module, "__path__") or where == module.__name__


def _entries(path: str, names: Iterable[str], level: int) -> str:
    """Return a directive for each name; what is made by a call, and has no `def`, is a row of a table."""
    module = import_module(path)
    rows, entries = [], []
    for name in names:
        thing = getattr(module, name)
        same = {n for n in dir(module) if getattr(module, n) is thing and not n.startswith("_")}
        also = sorted(same - {name})
        if _made(thing):
            spelled = ", ".join(f"`{n}`" for n in [name, *also])
            doc = " ".join((inspect.getdoc(thing) or "").split()).replace("|", "\\|")
            rows.append(f"| {spelled} | {doc} |")
        else:
            note = f"Also: {', '.join(f'`{n}`' for n in also)}.\n\n" if also else ""
            where = f"{path}.{name}"
            if hasattr(module, "__path__") and find_spec(where):  # a module has the same name
                where = f"{where}.{name}"
            options = {"heading_level": level} | ({"members": MEMBERS[where]} if where in MEMBERS else {})
            entries.append(f"::: {where}\n    options: {json.dumps(options)}\n\n{note}")
    table = "| name | what it returns |\n|---|---|\n" + "\n".join(rows) + "\n\n" if rows else ""
    return table + "\n\n".join(entries)


def _made(thing: Any) -> bool:
    if inspect.isclass(thing):
        return False
    return not inspect.isfunction(thing) or inspect.unwrap(thing).__code__.co_name != thing.__name__


def _last(path: str) -> str:
    return path.rpartition(".")[2]
