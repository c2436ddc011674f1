"""The discrete convolution of two vectors: bilinear, its adjoints are convolutions with reversed vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.aval import Aval
from fgrad.core.primitive import EACH, Primitive, by_argument, register
from fgrad.core.tensor import bind
from fgrad.ops.linear import reverse

_ADJOINT_MODE = {"full": "valid", "valid": "full"}


def _length(n: int, m: int, mode: str) -> int:
    return n + m - 1 if mode == "full" else n - m + 1


def _first(ct: Any, y: Any, *, mode: str) -> Any:
    return bind("convolve", ct, reverse(y, 0), mode=_ADJOINT_MODE[mode])


def _second(ct: Any, x: Any, *, mode: str) -> Any:
    if mode == "full":
        return bind("convolve", ct, reverse(x, 0), mode="valid")
    return reverse(bind("convolve", x, reverse(ct, 0), mode="valid"), 0)


register(
    Primitive(
        "convolve",  # valid: the first operand is at least as long as the second
        run=lambda x, y, *, mode: np.convolve(x, y, mode),
        pull=by_argument(_first, _second, transpose=EACH),
        shape=lambda x, y, *, mode: Aval(
            (_length(x.shape[0], y.shape[0], mode),), np.result_type(x.dtype, y.dtype)
        ),
    )
).heavy = True
