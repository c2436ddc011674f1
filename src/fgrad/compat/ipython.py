"""IPython: which files are the cells of a notebook."""

from __future__ import annotations

import sys
from typing import Any

from fgrad.compat import self_test


@self_test
def cells_are_numbered() -> bool:
    """Return whether the compiler of cells notes the number of each where fgrad looks for it."""
    from IPython.core import compilerop  # noqa: PLC0415 -- late: IPython is optional

    made: Any = compilerop.CachingCompiler
    compiler = made()
    return bool(compiler._filename_map[compiler.cache("1", 7)] == 7)


def cells() -> dict[str, int]:
    """Return the number of the cell for each file that is a cell of this notebook; nothing where unknown."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or not cells_are_numbered():
        return {}
    found: dict[str, int] = getattr(shell.compile, "_filename_map", {})
    return found
