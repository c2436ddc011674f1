"""The libm fallbacks of `vector.libm`, for texts that Numba compiles or Python runs."""

from __future__ import annotations

from typing import Any

from numba import config

from fgrad.kernels import instructions
from fgrad.kernels.mathlib import interpreted


def _libm(name: str) -> Any:
    if vars(config)["DISABLE_JIT"]:
        return getattr(interpreted, name)
    return instructions.for_numba()[f"libm_{name}"]


libm_cos: Any
libm_sin: Any
libm_tan: Any
libm_sin, libm_cos, libm_tan = map(_libm, ("sin", "cos", "tan"))
