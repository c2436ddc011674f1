"""What Numba's functions say to Tensors; importing it tells them, which `fgrad.import_hooks` sees to."""

from __future__ import annotations

from typing import Any, NoReturn

from fgrad.compat.numba import on_typing
from fgrad.core.tensor import Tensor


def refuse(value: Tensor, context: Any) -> NoReturn:
    """Say what makes a kernel take Tensors.

    Raises:
        TypeError: always.
    """
    del value, context
    raise TypeError(
        "a function of Numba got a Tensor, of which it knows neither the elements nor how they are derived: "
        "call fgrad.differentiate(function), or decorate it with @fgrad.differentiate above @numba.njit"
    )


on_typing(Tensor, refuse)
