"""`jax.experimental.checkify`: errors that depend on values, also of compiled functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.compat.jax.arrays import as_array
from fgrad.compat.jax.callbacks import callback
from fgrad.compat.jax.trees import register_pytree_node, tree_map
from fgrad.compat.standins import by_name
from fgrad.transforms.calling import is_traced

USER, NAN, INDEX, DIV = (frozenset({name}) for name in ("user", "nan", "index", "div"))
_FOUND: list[list[str]] = []  # of the functions that run, what failed; the innermost is last


class JaxRuntimeError(ValueError):
    """A check failed."""


class Error:
    """What failed in a call: the message of the first check that did, or nothing."""

    def __init__(self, message: str | None = None) -> None:
        self.message = message

    def get(self) -> str | None:
        """Return the message, None if every check passed."""
        return self.message

    def throw(self) -> None:
        """Raise the error, if there is one."""
        if self.message is not None:
            raise JaxRuntimeError(self.message)


register_pytree_node(Error, lambda e: ((), e.message), lambda message, _: Error(message))


def check(pred: Any, msg: str, *args: Any, debug: bool = False, **kwargs: Any) -> None:
    """Note that a check failed, of which `checkify` returns the error; without it, raise."""
    holds = as_array(pred)._tensor
    if is_traced(holds) and not _FOUND:
        if debug:
            return
        raise ValueError("checkify.check of a traced value needs jax.experimental.checkify.checkify around")

    def note(held: Any, args: Any, kwargs: Any) -> None:
        if np.all(held):
            return
        positional, named = tree_map(as_array, (args, kwargs))
        message = f"{msg.format(*positional, **named)} (`check` failed)"
        if not _FOUND:
            raise JaxRuntimeError(message)
        _FOUND[-1].append(message)

    if is_traced(holds):
        callback(note, holds, args, kwargs)
    else:
        note(holds.numpy(), args, kwargs)


def checkify(f: Callable[..., Any], errors: frozenset[str] = USER) -> Callable[..., tuple[Error, Any]]:
    """Return `f` that returns the first error of its checks beside its value."""
    if errors - USER:
        raise NotImplementedError(
            f"fgrad's checkify has the checks of the program alone, not {', '.join(sorted(errors - USER))}: "
            "`with fgrad.debug_nans():` finds NaN, and indices out of bounds raise"
        )

    @functools.wraps(f)
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        _FOUND.append([])
        try:
            out = f(*args, **kwargs)
        finally:
            found = _FOUND.pop()
        return Error(found[0] if found and errors else None), out

    return checked


NAMES: dict[str, Any] = {
    "ErrorCategory": str,
    "all_checks": USER | NAN | INDEX | DIV,
    "automatic_checks": NAN | INDEX | DIV,
    "check_error": Error.throw,
    "debug_check": functools.partial(check, debug=True),
    "div_checks": DIV,
    "float_checks": NAN | DIV,
    "index_checks": INDEX,
    "nan_checks": NAN,
    "user_checks": USER,
    **by_name(Error, JaxRuntimeError, check, checkify),
}
