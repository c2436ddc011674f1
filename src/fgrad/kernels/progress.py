"""A line on stderr that reports long compilations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, TypeVar

from fgrad import config

PATIENCE = 2.0  # seconds without a word

T = TypeVar("T")


def each(do: Callable[[T], Any], items: Sequence[T], what: str) -> None:
    """Call `do` with each item; say how many are done, on one line, once it has taken two seconds.

    Args:
        do: the work.
        items: what is worked at, one after the other.
        what: how the line starts.
    """
    start, said = monotonic(), False
    try:
        for done, item in enumerate(items):
            if done and monotonic() - start > PATIENCE and not config.quiet():
                sys.stderr.write(f"\rfgrad: {what} ... {done} done")
                sys.stderr.flush()
                said = True
            do(item)
        if said:
            sys.stderr.write(f"\rfgrad: {what} ... {len(items)} done in {monotonic() - start:.1f} s")
    finally:
        if said:
            sys.stderr.write("\n")
