"""The discrete convolution of vectors: bilinear, its adjoints are convolutions with reversed vectors.

The last axis holds the vectors; other axes, the same for both operands, count them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.core.aval import Aval
from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.core.primitive import MULTILINEAR, PRODUCT, by_argument, declare
from fgrad.core.stored import Stored, one_of
from fgrad.ops.linear import batch_in_front, reverse

_ADJOINT_MODE = {"full": "valid", "valid": "full"}


def _length(n: int, m: int, mode: str) -> int:
    return n + m - 1 if mode == "full" else n - m + 1


def _run(x: Any, y: Any, *, mode: Any) -> Any:
    if x.ndim == 1:
        return np.convolve(x, y, mode)
    lead, n, m = x.shape[:-1], x.shape[-1], y.shape[-1]
    out = near(x).zeros((*lead, _length(n, m, mode)), np.result_type(x.dtype, y.dtype))
    if min(n, m) > math.prod(lead):
        for i in np.ndindex(lead):
            out[i] = np.convolve(x[i], y[i], mode)
    elif mode == "valid":
        for j in range(m):
            out += x[..., m - 1 - j : n - j] * y[..., j : j + 1]
    else:
        long, short = (x, y) if n >= m else (y, x)
        for j in range(min(n, m)):
            out[..., j : j + long.shape[-1]] += long * short[..., j : j + 1]
    return out


def _reversed(x: Any) -> Any:
    return reverse(x, len(x.shape) - 1)


def _first(ct: Any, y: Any, *, mode: str) -> Any:
    return bind("convolve", ct, _reversed(y), mode=_ADJOINT_MODE[mode])


def _second(ct: Any, x: Any, *, mode: str) -> Any:
    if mode == "full":
        return bind("convolve", ct, _reversed(x), mode="valid")
    return _reversed(bind("convolve", x, _reversed(ct), mode="valid"))


declare(
    "convolve",  # valid: the first operand is at least as long as the second
    run=_run,
    vjp=by_argument(_first, _second, transpose=MULTILINEAR),
    shape=lambda x, y, *, mode: Aval(
        (*x.shape[:-1], _length(x.shape[-1], y.shape[-1], mode)), np.result_type(x.dtype, y.dtype)
    ),
    batch=batch_in_front("convolve"),
    costly=True,
    traits={PRODUCT},
    stored=Stored(
        {"mode": one_of("full", "valid")},
        verify=lambda x, y, *, mode: (
            x.shape[:-1] == y.shape[:-1]
            and x.shape[-1] > 0 < y.shape[-1]
            and (mode == "full" or x.shape[-1] >= y.shape[-1])
        ),
    ),
)
