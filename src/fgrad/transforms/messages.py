"""Messages between processes, and conversions between shared and per-process values.

What is the same everywhere counts once, so the sum that all ranks share has the adjoint that hands its
cotangent to each, and the other way round (`reduce` followed by `replicate` is the psum of `collectives`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.aval import Aval, aval_of
from fgrad.core.primitive import OUT, VJP, Pattern, declare
from fgrad.ops import functions
from fgrad.ops.linear import broadcast_to, linear
from fgrad.transforms.axes import ProcessAxis, bind_over


def reduce(x: Any, over: ProcessAxis) -> Any:
    """Return the sum over all ranks as one value that they share: its cotangent is the same on each."""
    return bind_over("reduce", x, over=over)


def replicate(x: Any, over: ProcessAxis) -> Any:
    """Return a value that all ranks share as one that each has: cotangents add up over the ranks."""
    return bind_over("replicate", x, over=over)


_UNSTORED = "it belongs to the processes of one run"
linear(
    "reduce",
    run=lambda x, *, over: over.psum(x),
    adjoint=lambda ct, x, *, over: replicate(ct, over.turned()),
    shape=lambda x, *, over: x,
    batch=reduce,
    stored=_UNSTORED,
)
linear(
    "replicate",
    run=lambda x, *, over: np.array(x),  # noqa: PLW0108 -- it has another parameter
    adjoint=lambda ct, x, *, over: reduce(ct, over.turned()),
    shape=lambda x, *, over: x,
    batch=replicate,
    stored=_UNSTORED,
)


def transfer(x: Any, token: Any, over: ProcessAxis, *, dest: int | None, source: int | None) -> Any:
    """Return what `source` sends, of the shape and dtype of `x`, or zeros, and send `x` to `dest`.

    The result counts as depending on `token`, whose value is of no consequence: so there is a way back, to be
    taken where a recording follows `token`, although nothing of this process may lead to the result.
    """
    return bind_over("transfer", x, token, over=over, dest=dest, source=source)


def _back(pattern: Pattern) -> VJP:
    """Return the step back: a transfer the other way, which counts as depending on this one's result.

    Its own result is zero for `token`, but leads on to what comes before: the derivative of a derivative has
    to find all messages of both, also those whose values it does not need.
    """

    def step(ct: Any, out: Any, params: dict[str, Any]) -> list[Any]:
        over, dest, source = params["over"], params["dest"], params["source"]
        back = transfer(ct, out, over, dest=source, source=dest)
        nothing = functions.where(np.False_, back, np.zeros((), back.dtype))
        return [c for c, tracked in zip((back, nothing), pattern, strict=True) if tracked]

    return VJP(step, keep=(OUT,), params=True, linear=True)


def _transfer_all(mapped: Pattern, x: Any, token: Any, **params: Any) -> Any:
    if not mapped[0]:
        x = broadcast_to(x, (token.shape[0], *x.shape))
    return transfer(x, token, **params)


declare(
    "transfer",
    run=lambda x, token, *, over, dest, source: over.transfer(x, dest, source),
    vjp=_back,
    shape=lambda x, token, **params: x if isinstance(x, Aval) else aval_of(x),
    batch=_transfer_all,
    stored=_UNSTORED,
)
