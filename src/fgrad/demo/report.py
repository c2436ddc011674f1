"""What the demo shows on a terminal: a progress bar, a table, a curve."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

import numpy as np


def progress(total: int, label: str, stream: TextIO | None = None, width: int = 40) -> Iterator[int]:
    """Count from 0 to `total - 1` under a bar that fills; silent where `stream` is no terminal.

    Example:
        >>> list(progress(3, "counting", sys.stdout))
        [0, 1, 2]
    """
    stream = sys.stderr if stream is None else stream
    visible = stream.isatty()
    for done in range(1, total + 1):
        yield done - 1
        if visible:
            bar = "#" * (width * done // total)
            stream.write(f"\r{label:<16} [{bar:<{width}}] {done}/{total}" + "\n" * (done == total))
            stream.flush()


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return `rows` in columns: the first one to the left, the others to the right.

    Example:
        >>> print(table([["style", "loss"], ["functional", "0.25"]]))
        style       loss
        functional  0.25
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def curve(series: Mapping[str, Sequence[float]], width: int = 64, height: int = 12) -> str:
    """Return a picture of positive `series` on a logarithmic axis; each key is the mark of its points.

    Example:
        >>> print(curve({"*": [1.0, 0.1, 0.01]}, width=3, height=3))
               1 |*
             0.1 | *
            0.01 |  *
                 +---
    """
    values = [np.log10(s) for s in series.values()]
    top, bottom = max(map(np.max, values)), min(map(np.min, values))
    canvas = np.full((height, width), " ")
    for mark, logs in zip(series, values, strict=True):
        columns = np.linspace(0, width - 1, len(logs)).round().astype(int)
        rows = (top - logs) / ((top - bottom) or 1.0) * (height - 1)
        canvas[rows.round().astype(int), columns] = mark
    ticks = {row: 10 ** (top - (top - bottom) * row / (height - 1)) for row in (0, height // 2, height - 1)}
    lines = [
        f"{format(ticks[r], '.2g') if r in ticks else '':>8} |{''.join(canvas[r])}".rstrip()
        for r in range(height)
    ]
    return "\n".join([*lines, " " * 9 + "+" + "-" * width])
