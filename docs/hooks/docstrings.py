"""Tells Griffe that a section `Example:` is what it calls `Examples:`; both are of the Google style."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Function, Object


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
