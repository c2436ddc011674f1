"""The libm fallbacks of `vector.far`, for texts that Numba compiles or Python runs."""

from __future__ import annotations

from typing import Any

from numba import config

from fgrad.kernels import instructions
from fgrad.kernels.mathlib import interpreted


def _far(name: str) -> Any:
    if vars(config)["DISABLE_JIT"]:
        return getattr(interpreted, name)
    return instructions.for_numba()[f"far_{name}"]


far_cos: Any
far_sin: Any
far_tan: Any
far_sin, far_cos, far_tan = map(_far, ("sin", "cos", "tan"))
