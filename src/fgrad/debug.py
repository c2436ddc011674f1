"""Looking into a running program: what JAX calls `jax.debug`.

Each of these sees values where a transformation hides them: for every example under `vmap`, and at every run
of a program. None of them changes a value or a gradient. For NaN and infinity see `fgrad.debug_nans`.
"""

from __future__ import annotations

import functools
import re
import string
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from fgrad.core.trace import current, note_call, user_line
from fgrad.names import offered as _offered
from fgrad.transforms.callbacks import look
from fgrad.transforms.stage import Stage

__all__ = ["CheckError", "breakpoint", "callback", "check", "collect_checks", "collects_checks", "print"]

_FAILED: ContextVar[list[str] | None] = ContextVar("_FAILED", default=None)  # of the innermost that collects


class CheckError(ValueError):
    """A check of `fgrad.debug.check` failed.

    Example:
        >>> fg.debug.check(False, "x is {}", 3)
        Traceback (most recent call last):
        ...
        fgrad.debug.CheckError: x is 3
    """


def callback(f: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Call `f(*args, **kwargs)` with NumPy arrays in the place of Tensors; what it returns is dropped.

    Args:
        f: any function, called for its effect.
        args: pytrees; what is no number or array arrives as it is.
        ordered: accepted for JAX's sake; calls always come in the order of the program.
        kwargs: pytrees.

    Raises:
        Exception: what `f` raises.

    Example:
        >>> import fgrad
        >>> seen = []
        >>> fgrad.grad(lambda x: fgrad.debug.callback(seen.append, x) or x * x)(3.0)
        np.float64(6.0)
        >>> seen
        [array(3.)]
    """
    note_call(f)
    look(f, args, kwargs)


class _Mentions(string.Formatter):
    """Reads a format without formatting anything, and refuses arguments that it does not mention."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Look up the argument, but nothing of it."""
        name = re.split(r"[.\[]", field_name, maxsplit=1)[0]
        key = int(name) if name.isdigit() else name
        self.get_value(key, args, kwargs)
        return "", key

    def format_field(self, value: Any, format_spec: str) -> str:
        """Format nothing."""
        return ""

    def check_unused_args(self, used_args: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Refuse arguments that are not used."""
        unused = [f"argument {i}" for i in range(len(args)) if i not in used_args]
        unused += [k for k in kwargs if k not in used_args]
        if unused:
            raise ValueError(
                f"debug.print: the format does not mention {', '.join(unused)}; write {{}} or {{name}} "
                "where the value belongs (give a format string, not an f-string, which is evaluated too "
                "early)"
            )


def print(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Print `fmt.format(*args, **kwargs)` with the values of Tensors.

    Args:
        fmt: a format string for `str.format`, not an f-string.
        args: values, pytrees of Tensors too.
        ordered: accepted for JAX's sake; lines always come in the order of the program.
        kwargs: values by name.

    A function whose branches split the examples of `vmap` runs more than once and prints in each run.

    Raises:
        TypeError: `fmt` is no text.
        ValueError: a value that `fmt` does not mention.

    Example:
        >>> import fgrad
        >>> import numpy as np
        >>> def f(x):
        ...     fgrad.debug.print("x = {:.1f}", x)
        ...     return x * x
        >>> fgrad.vmap(fgrad.grad(f))(np.array([1.0, 2.0]))
        x = 1.0
        x = 2.0
        array([2., 4.])
    """
    if not isinstance(fmt, str):
        raise TypeError(f"debug.print takes a format as its first argument, not {type(fmt).__name__}")
    _Mentions().vformat(fmt, args, kwargs)

    def show(*args: Any, **kwargs: Any) -> None:
        sys.stdout.write(fmt.format(*args, **kwargs) + "\n")

    look(show, args, kwargs)


def check(holds: Any, message: str | Callable[..., str], *args: Any, **kwargs: Any) -> None:
    """Raise where a condition does not hold, also inside compiled and mapped functions.

    Args:
        holds: boolean, or array or Tensor of booleans, which all have to hold.
        message: a format string for `str.format`, or a function that returns the text.
        args: values for it, pytrees of Tensors too.
        kwargs: values by name.

    Raises:
        CheckError: the condition does not hold, and `collect_checks` is not around; in a program, when it
            runs.

    Example:
        >>> def root(x):
        ...     fg.debug.check(x >= 0, "negative: {}", x)
        ...     return np.sqrt(x)
        >>> fg.jit(root)(np.array([4.0, -1.0]))
        Traceback (most recent call last):
        ...
        fgrad.debug.CheckError: negative: [ 4. -1.]
    """
    if callable(message):
        note_call(message)

    def note(found: Any, args: Any, kwargs: Any) -> None:
        if np.all(found):
            return
        text = message.format(*args, **kwargs) if isinstance(message, str) else message(*args, **kwargs)
        failed = _FAILED.get()
        if failed is None:
            raise CheckError(text)
        failed.append(text)

    look(note, (holds, args, kwargs), {})


def collect_checks(f: Callable[..., Any]) -> Callable[..., tuple[list[str], Any]]:
    """Return `f` that returns the messages of the checks that failed, in their order, beside its value.

    Args:
        f: takes and returns anything; it may be compiled.

    Returns:
        A function of the same arguments, whose results are pairs of a list of texts and what `f` returns.

    Example:
        >>> def root(x):
        ...     fg.debug.check(x >= 0, "negative: {}", x)
        ...     return x / 2
        >>> collect_checks(fg.jit(root))(-4.0)
        (['negative: -4.0'], np.float64(-2.0))
    """

    @functools.wraps(f)
    def collected(*args: Any, **kwargs: Any) -> tuple[list[str], Any]:
        failed: list[str] = []
        outer = _FAILED.set(failed)
        try:
            return failed, f(*args, **kwargs)
        finally:
            _FAILED.reset(outer)

    return collected


def collects_checks() -> bool:
    """Return whether `collect_checks` is around.

    Returns:
        Whether checks that fail are noted, and not raised.

    Example:
        >>> collects_checks(), collect_checks(collects_checks)()
        (False, ([], True))
    """
    return _FAILED.get() is not None


def breakpoint() -> None:
    """Stop in the debugger, at the caller, where values are known.

    While a function is traced there are no values, so the stop is recorded and happens at each run of the
    program.

    Example:
        >>> import sys
        >>> usual, sys.breakpointhook = sys.breakpointhook, lambda: print("stopped")
        >>> def f(x):
        ...     fg.debug.breakpoint()
        ...     return x * x
        >>> fg.grad(f)(3.0)
        stopped
        np.float64(6.0)
        >>> sys.breakpointhook = usual
    """
    if any(isinstance(t, Stage) for t in current().traces):
        look(_stop, (user_line(),), {})
    else:
        _stop(user_line())


def _stop(line: str) -> None:
    sys.breakpointhook()  # noqa: T100 -- the debugger is what was asked for; `up` leads to `line`


def __dir__() -> list[str]:
    return _offered(globals())
