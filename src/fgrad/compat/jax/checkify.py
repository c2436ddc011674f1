"""`jax.experimental.checkify`: errors that depend on values, also of compiled functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import fgrad
from fgrad.compat.jax.arrays import as_array
from fgrad.compat.jax.transformations import Flat
from fgrad.compat.jax.trees import register_pytree_node
from fgrad.compat.standins import by_name
from fgrad.core.tensor import is_traced
from fgrad.debug import CheckError, collect_checks, collects_checks

USER, NAN, INDEX, DIV = (frozenset({name}) for name in ("user", "nan", "index", "div"))


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
            raise CheckError(self.message)


register_pytree_node(Error, lambda e: ((), e.message), lambda message, _: Error(message))


def check(pred: Any, msg: str, *args: Any, debug: bool = False, **kwargs: Any) -> None:
    """Note that a check failed, of which `checkify` returns the error; without it, raise."""
    holds = as_array(pred)._tensor
    if is_traced(holds) and not collects_checks():
        if debug:
            return
        raise ValueError("checkify.check of a traced value needs jax.experimental.checkify.checkify around")
    flat = Flat(lambda given: msg.format(*given[0], **given[1]), (args, kwargs))
    fgrad.debug.check(holds, lambda *values: f"{flat.called(values)} (`check` failed)", *flat.tensors)


def checkify(f: Callable[..., Any], errors: frozenset[str] = USER) -> Callable[..., tuple[Error, Any]]:
    """Return `f` that returns the first error of its checks beside its value."""
    if errors - USER:
        raise NotImplementedError(
            f"fgrad's checkify has the checks of the program alone, not {', '.join(sorted(errors - USER))}: "
            "`with fgrad.debug_nans():` finds NaN, and indices out of bounds raise"
        )

    run = collect_checks(f)

    @functools.wraps(f)
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        failed, out = run(*args, **kwargs)
        return Error(failed[0] if failed and errors else None), out

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
    "JaxRuntimeError": CheckError,
    **by_name(Error, check, checkify),
}
