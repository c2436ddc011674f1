"""Tells Griffe that a section `Example:` is what it calls `Examples:`, and what packages gather by name."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

from griffe import Alias, Extension, Function, Module, Object

GATHERED = ("fgrad.numpy", "fgrad.numpy.fft", "fgrad.numpy.linalg")  # whose stubs say what is there


class Examples(Extension):
    """Renames the sections of every docstring, and defaults that have no value."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rename those of one docstring."""
        if obj.docstring:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
            if obj.is_class:  # which has no annotation to say what a call returns
                text = re.sub(r"^Returns:$", "What it returns:", text, flags=re.MULTILINE)
            obj.docstring.value = text

    def on_function(self, *, func: Function, **_: Any) -> None:
        """Write what stands for an argument that is not given as NumPy does."""
        for parameter in func.parameters:
            if str(parameter.default) == "NO_VALUE":
                parameter.default = "np._NoValue"


class Gathered(Extension):
    """Shows functions that packages gather by name where they are defined."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Put an alias for each into the packages."""
        for path in GATHERED if pkg.name == "fgrad" else ():
            module, space = pkg[path.partition(".")[2]], import_module(path)
            for name in dir(space):
                thing = getattr(space, name)
                if inspect.isfunction(thing) or inspect.isclass(thing):
                    module.set_member(name, Alias(name, f"{thing.__module__}.{thing.__name__}"))
