"""Short text for numbers, positions and values, the same in every picture and table."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any

import numpy as np

from fgrad.core.scopes import is_backward
from fgrad.core.trace import place_of


def size(n: float) -> str:
    """Return a number of bytes: `24.6 kB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 999.5 or unit == "GB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.3g} {unit}"
        n /= 1000
    raise AssertionError


def time(seconds: float) -> str:
    """Return a duration: `3.2 µs`."""
    for factor, unit in ((1e9, "ns"), (1e6, "µs"), (1e3, "ms")):
        n = seconds * factor
        if n < 999.5:
            return f"{n:.3g} {unit}" if n < 99.5 else f"{n:.0f} {unit}"
    return f"{seconds:.3g} s"


def count(n: int, noun: str, plural: str = "") -> str:
    """Return `1 operation`, `2 operations`."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def number(x: Any) -> str:
    """Return a number in at most four digits."""
    if isinstance(x, bool | np.bool_ | int | np.integer):
        return str(x)
    return f"{x:.4g}"


def cut(text: str, width: int) -> str:
    """Return `text` in one line of at most `width` characters."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def place(line: str) -> str:
    """Return `file:line` in short: the name of the file, or the number of the notebook's cell."""
    if not line:
        return ""
    known = place_of(line)
    return (Path(line).name if known == line else known) + ", backward" * is_backward(line)


def code(line: str) -> str:
    """Return the text of a line of the user's program, "" where it is not known."""
    file, _, number = line.rpartition(":")
    return linecache.getline(file, int(number)).strip() if number.isdigit() else ""
