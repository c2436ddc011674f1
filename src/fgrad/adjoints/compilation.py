"""From the source of a derivative to machine code, by Numba, with its options of the user's kernel."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from fgrad.adjoints import memory, slopes, stored
from fgrad.adjoints.indices import UINT64
from fgrad.adjoints.parts import CALLED, INLINE
from fgrad.adjoints.syntax import Function
from fgrad.compat.numba import elements, empty, is_dispatcher, keep, zeros
from fgrad.compat.numba_pipeline import short

_MAKERS = re.compile(r"= np\.(zeros|empty)\((?!.*, np\.)")  # in double precision


def compiled(source: str, name: str, function: Function, *, whole: bool = False) -> Callable[..., Any]:
    """Return the function of a text, compiled when it is first called, or found on disk.

    Args:
        source: the text.
        name: of the function.
        function: the user's kernel.
        whole: as of `short`.
    """
    source = _MAKERS.sub(r"= np__\1(", source)
    own = {
        "np": np,
        "math": math,
        UINT64: np.uint64,
        "np__zeros": zeros(),
        "np__empty": empty(),
        **memory.quick(),
        **elements(),
        **slopes.HELPERS,
    }
    calls = any(map(is_dispatcher, function.constants.values()))  # whose symbols may have others' names
    options = {**function.options, "error_model": "numpy"}  # what raises has raised in the kernel
    key = "" if calls else stored.key(source, function.constants, options=options)
    own |= {n: _decorator(key, {**options, "forceinline": n == INLINE}) for n in (CALLED, INLINE)}
    made = stored.executed(source, name, {**own, **function.constants}, f"<{function.name}: {name}>", key)
    found: Callable[..., Any] = keep(
        numba.njit(nogil=True, **options, **short(whole=whole))(made), stored.Kept(key)
    )
    return found


def _decorator(key: str, options: dict[str, Any]) -> Callable[..., Any]:
    """Return what compiles the parts of a text, which is kept under a key."""

    def made(part: Callable[..., Any]) -> Any:
        part.__qualname__ = f"{part.__name__}_{key}"  # so that its symbol is no other one's
        settings: dict[str, Any] = {**options, **short(), "no_cpython_wrapper": True}
        return numba.njit(nogil=True, **settings)(part)

    return made
