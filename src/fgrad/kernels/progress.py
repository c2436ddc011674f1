"""A line on the terminal that reports long compilations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, TypeVar

from fgrad import config

PATIENCE = 2.0  # seconds without a word

T = TypeVar("T")


def is_seen() -> bool:
    """Return whether a line on stderr appears on a terminal."""
    return sys.stderr.isatty()


def say(text: str) -> None:
    """Write a line, unless stderr is no terminal, or `FGRAD_QUIET=1`."""
    if is_seen() and not config.quiet():
        sys.stderr.write(f"fgrad: {text}\n")


def each(do: Callable[[T], Any], items: Sequence[T], what: str, hint: str = "") -> None:
    """Call `do` with each item; say how many are done, on one line, once it has taken two seconds.

    Nothing is said where stderr is no terminal, or `FGRAD_QUIET=1`.

    Args:
        do: the work.
        items: what is worked at, one after the other.
        what: how the line starts.
        hint: what to say when it took so long, in a line of its own.
    """
    start, said = monotonic(), False
    silent = config.quiet() or not is_seen()
    try:
        for done, item in enumerate(items):
            if done and monotonic() - start > PATIENCE and not silent:
                sys.stderr.write(f"\rfgrad: {what} ... {done} done")
                sys.stderr.flush()
                said = True
            do(item)
        if said:
            sys.stderr.write(f"\rfgrad: {what} ... {len(items)} done in {monotonic() - start:.1f} s")
    finally:
        if said:
            sys.stderr.write(f"\nfgrad: {hint}\n" if hint else "\n")
