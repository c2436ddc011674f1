"""Tells Griffe what the source does not show: names that packages gather, and completed docstrings."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

from griffe import Alias, Extension, Function, Module, Object

COMPLETED = (  # modules that use `fgrad.docstrings`
    *("distributed.collectives", "nn.activations", "optim.holders", "optim.schedules"),
    *("numpy.fft.transforms", "random.continuous", "scipy.linalg.equations", "scipy.ndimage.filters"),
    *("scipy.signal.convolution", "scipy.signal.spectral"),
)
GATHERED = ("fgrad.numpy", "fgrad.numpy.fft", "fgrad.numpy.linalg")  # whose stubs say what is there


class Examples(Extension):
    """Renames the sections of every docstring, and defaults that have no value."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rename those of one docstring."""
        if obj.docstring:
            obj.docstring.value = _renamed(obj.docstring.value, is_class=obj.is_class)

    def on_function(self, *, func: Function, **_: Any) -> None:
        """Write what stands for an argument that is not given as NumPy does."""
        for parameter in func.parameters:
            if str(parameter.default) == "NO_VALUE":
                parameter.default = "np._NoValue"


def _renamed(text: str, *, is_class: bool) -> str:
    text = re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)
    if is_class:  # which has no annotation to say what a call returns
        text = re.sub(r"^Returns:$", "What it returns:", text, flags=re.MULTILINE)
    return text


class Made(Extension):
    """Shows what is made when modules are imported."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Put aliases into packages that gather names, and docstrings as they are in the end."""
        if pkg.name != "fgrad":
            return
        for path in GATHERED:
            module, space = pkg[path.partition(".")[2]], import_module(path)
            for name in dir(space):
                thing = getattr(space, name)
                if inspect.isfunction(thing) or inspect.isclass(thing):
                    module.set_member(name, Alias(name, f"{thing.__module__}.{thing.__name__}"))
        for path in COMPLETED:
            space = import_module(f"fgrad.{path}")
            for name, shown in pkg[path].members.items():
                if not shown.is_alias and shown.docstring and (text := inspect.getdoc(getattr(space, name))):
                    shown.docstring.value = _renamed(text, is_class=shown.is_class)
