"""What derivatives record on: a stack for floats, one for integers and one for complex numbers, by letter.

A stack is an array `s` with its top `p`: "sf" and "pf".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from fgrad.adjoints import syntax

STACKS = {"f": types.float64, "i": types.int64, "c": types.complex128}
DTYPES = {k: np.dtype(ty.name) for k, ty in STACKS.items()}
FIRST = 1024  # elements of a new one
TOPS = {f"s{k}": f"p{k}" for k in STACKS}
NAMES = {*TOPS, *TOPS.values()}


def stack_of(ty: Any) -> str:
    """Return the letter of the stack where values of a type are recorded."""
    ty = syntax.element(ty)
    return "c" if isinstance(ty, types.Complex) else "f" if isinstance(ty, types.Float) else "i"
