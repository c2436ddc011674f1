"""The names that a module offers: what `dir`, and so tab completion, shows of it."""

from __future__ import annotations

import importlib
import typing
from collections.abc import Mapping
from types import ModuleType
from typing import Any


def offered(namespace: Mapping[str, Any], *names: str) -> list[str]:
    """Return what `dir` shows of a module: of what its names hold, what is meant for users.

    Args:
        namespace: that of the module. `__all__` says what it offers; without it, it offers what it gathers,
            but modules, private names and tools of annotations.
        *names: what else it offers: modules, and names that are loaded when they are asked for.
    """
    given = namespace.get("__all__")
    if given is None:
        given = [n for n, x in namespace.items() if not n.startswith("_") and not _is_tool(n, x)]
    return sorted({*filter(_is_dunder, namespace), *given, *names})


def gathered(package: str, names: Mapping[str, str]) -> dict[str, Any]:
    """Return what a package gathers of its modules: of each the `names`, with spaces between them."""
    modules = {module: importlib.import_module(f"{package}.{module}") for module in names}
    return {name: getattr(modules[m], name) for m, listed in names.items() for name in listed.split()}


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_tool(name: str, thing: Any) -> bool:
    """Return whether a module needs a name for itself: a module, or what annotations are written with."""
    if isinstance(thing, ModuleType) or name == "annotations":
        return True
    return any(vars(library).get(name, _is_tool) is thing for library in (typing, importlib))
