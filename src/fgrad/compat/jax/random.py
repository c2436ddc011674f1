"""`jax.random`: what `fgrad.random.threefry` draws, and what is not there."""

from __future__ import annotations

from typing import Any

from fgrad.compat.standins import absent
from fgrad.random import threefry

__all__ = list(threefry.__all__)

_OTHERS = "fgrad.random.{} draws from the same distribution, from other bits"
ABSENT = absent(
    "compat.jax.random",
    {
        "binomial": _OTHERS.format("binomial"),
        "ball": "draw a direction by normal, and a radius by uniform",
        "double_sided_maxwell": "multiply maxwell by rademacher",
        "multinomial": _OTHERS.format("multinomial"),
    },
)


def __getattr__(name: str) -> Any:
    return ABSENT[name] if name in ABSENT else getattr(threefry, name)
