"""Tells Griffe that a section `Example:` is what it calls `Examples:`; both are of the Google style."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object


class Examples(Extension):
    """Renames the sections of every docstring."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rename those of one docstring."""
        if obj.docstring:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
