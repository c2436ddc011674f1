"""Requirements on values, of which a program says at its end whether they held."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.aval import aval_of
from fgrad.core.dispatch import bind
from fgrad.core.primitive import NOT_FOLDED, declare, flat
from fgrad.core.stored import Stored, is_text, one_of
from fgrad.ops.linear import batch_in_front

_ERRORS = {error.__name__: error for error in (ValueError, ZeroDivisionError)}


def require(good: Any, error: type[Exception], message: str) -> None:
    """Raise `error`, here or when the program runs, unless `good` is true everywhere, in each example."""
    bind("require", good, error=error.__name__, message=message)


def _run(good: Any, *, error: str, message: str) -> Any:
    if not bool(np.all(good)):
        raise _ERRORS[error](message)
    return good


declare(
    "require",
    run=_run,
    vjp=flat,
    effect=lambda _: True,
    shape=lambda good, **_: aval_of(good),
    batch=batch_in_front("require"),
    stored=Stored({"error": one_of(*_ERRORS), "message": is_text}, dtypes="?"),
)


# Of compiled programs: where something is not good they end, and what they were written from says what it is.


def trusted(x: Any, good: Any, *, acts: bool = False) -> Any:
    """Return `x`, which a compiled program only goes on with if `good` is true everywhere.

    Args:
        x: a value.
        good: truth values.
        acts: whether the program ends also where nobody needs `x`.
    """
    return bind("kernel.trust", x, good, acts=acts)


declare(
    "kernel.trust",
    run=lambda x, good, *, acts: x,
    vjp=flat,
    effect=lambda params: bool(params["acts"]),
    shape=lambda x, good, **_: aval_of(x),
    parts=1,
    traits={NOT_FOLDED},
    stored="compilers write it",
)
