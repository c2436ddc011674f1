"""From the source of a derivative to machine code, by Numba, with its options of the user's kernel."""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from fgrad.adjoints import slopes
from fgrad.adjoints.adjoint import grown
from fgrad.adjoints.syntax import Function


def compiled(source: str, name: str, function: Function) -> Callable[..., Any]:
    """Return the function of a text, compiled when it is first called."""
    file = f"<{function.name}: {name}>"
    namespace: dict[str, Any] = {
        "np": np,
        "math": math,
        "grown": grown,
        **slopes.HELPERS,
        **function.constants,
    }
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), namespace)  # noqa: S102 -- fgrad's own
    options = {**function.options, "error_model": "numpy"}  # what raises has raised in the kernel
    made: Callable[..., Any] = numba.njit(nogil=True, **options)(namespace[name])
    return made
