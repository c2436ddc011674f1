"""What docstrings of functions of one kind have in common: it is written once, and put into each of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
_SECTIONS = ["", "Args", "Returns", "Raises", "Derivative", "Differences from SciPy", "Source", "Example"]


def completes(arguments: Mapping[str, str], **sections: str) -> Callable[[F], F]:
    """Return the decorator that puts into a docstring what it leaves out.

    Args:
        arguments: what parameters are, by their names.
        **sections: what sections say, by their titles, with `_` for a space.

    Example:
        >>> @completes({"x": "a number."}, Returns="A number.")
        ... def scaled(x, by):
        ...     '''Return a multiple.
        ...
        ...     Args:
        ...         by: the factor.
        ...     '''
        ...     return by * x
        >>> print(scaled.__doc__)
        Return a multiple.
        <BLANKLINE>
        Args:
            x: a number.
            by: the factor.
        <BLANKLINE>
        Returns:
            A number.
    """

    def decorate(f: F) -> F:
        if f.__doc__ is not None:  # Python may run without docstrings
            lead, *parts = re.split(r"\n\n([A-Z][A-Za-z ]*):\n", inspect.cleandoc(f.__doc__))
            said = {title.replace("_", " "): f"    {text}" for title, text in sections.items()}
            said |= {"": lead, **dict(zip(parts[::2], parts[1::2], strict=True))}
            if arguments:  # a signature takes long
                _, *own = re.split(r"^    (\w+): ", said.get("Args", ""), flags=re.MULTILINE)
                known = {**arguments, **dict(zip(own[::2], map(str.rstrip, own[1::2]), strict=True))}
                names = [name for name in inspect.signature(f).parameters if name in known]
                said["Args"] = "\n".join([f"    {name}: {known[name]}" for name in names])
            titles = sorted((t for t in said if said[t]), key=_SECTIONS.index)
            f.__doc__ = "\n\n".join(f"{t}:\n{said[t]}" if t else lead for t in titles)
        return f

    return decorate
