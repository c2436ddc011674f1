"""Running sums, products and linear recurrences along an axis.

Several run side by side, so that none waits for its previous step. They compute in the order of NumPy's
loops: results are the same to the last bit.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

import numpy as np

from fgrad.kernels import threads
from fgrad.kernels.functions import compiled
from fgrad.kernels.threads import Loop

ROWS = 8  # sums along contiguous rows that run side by side
COLUMNS = 512  # of a strided axis: so many neighbours stay in the cache

# what stands at the first place of an axis, and at another one, where y and [last] are of the place before
STEPS = {
    "sums": ("x[at]", "y + x[at]"),
    "products": ("x[at]", "y * x[at]"),
    "products_before": ("F(1)", "y * x[last]"),
    "recurrence": ("x[at]", "a[at] * y + x[at]"),
    "recurrence_adjoint": ("x[at]", "a[last] * y + x[at]"),
}
_TEXT = """
CONTRACT = "{contract}"
F = np.{dtype}
ZERO, ONE, SIDE, WIDTH = np.uintp(0), np.uintp(1), np.uintp({rows}), np.uintp({columns})
IN, OUT = (types.Array(types.{dtype}, {ndim}, "C", readonly=one) for one in (True, False))
SIGNATURE = types.void({inputs}, OUT, types.boolean, types.uintp, types.uintp)


@typed(SIGNATURE)
def kernel({names}, out, backwards, lo, hi):
{body}
"""

_ALONG_ROWS = """
    count, n = np.uintp(x.shape[0]), np.uintp(x.shape[1])
    values = np.empty(SIDE, F)
    for block in range(lo, hi):
        first = block * SIDE
        m = min(SIDE, count - first)
        j = n - ONE if backwards else ZERO
        for k in range(m):
            out[first + k, j] = values[k] = {first}
        if m == SIDE:
            for step in range(ONE, n):
                last = j
                j = n - ONE - step if backwards else step
                for k in unrolled(SIDE):
                    values[k] = {step}
                    out[first + k, j] = values[k]
        else:
            for step in range(ONE, n):
                last = j
                j = n - ONE - step if backwards else step
                for k in range(m):
                    values[k] = {step}
                    out[first + k, j] = values[k]
"""
_ALONG_COLUMNS = """
    n, width = np.uintp(x.shape[1]), np.uintp(x.shape[2])
    blocks = (width + WIDTH - ONE) // WIDTH
    for part in range(lo, hi):
        i, left = part // blocks, part % blocks * WIDTH
        right = min(width, left + WIDTH)
        j = n - ONE if backwards else ZERO
        for k in range(left, right):
            out[i, j, k] = {first}
        for step in range(ONE, n):
            last = j
            j = n - ONE - step if backwards else step
            for k in range(left, right):
                out[i, j, k] = {step}
"""
_PLACES = {  # of a value, of the one before it in its scan, and the value there
    2: ("[first + k, j]", "[first + k, last]", "values[k]"),
    3: ("[i, j, k]", "[i, last, k]", "out[i, last, k]"),
}
_ASKED = {
    2: f"{{}}, n > 0, (hi - 1) * {ROWS} < count",
    3: f"{{}}, n > 0, hi <= count * -(-width // {COLUMNS})",
}


@cache
def kernel(what: str, ndim: int, char: str) -> Loop:
    """Return the loop of one of `STEPS` along rows (2 axes), or along the middle one of 3 axes.

    Its arguments are the operands, the result, and whether it begins at the end.
    """
    names = ("a", "x") if any("a[" in step for step in STEPS[what]) else ("x",)
    at, last, value = _PLACES[ndim]
    first, step = (
        re.sub(r"\by\b", value, s.replace("[at]", at).replace("[last]", last)) for s in STEPS[what]
    )
    shape = "[count, n]" if ndim == 2 else "[count, n, width]"
    text = _TEXT.format(
        dtype=np.dtype(char).name,
        rows=ROWS,
        columns=COLUMNS,
        ndim=ndim,
        inputs=", ".join("IN" for _ in names),
        names=", ".join(names),
        body=(_ALONG_ROWS if ndim == 2 else _ALONG_COLUMNS).strip("\n").format(first=first, step=step),
        contract=_ASKED[ndim].format(", ".join(name + shape for name in (*names, "out"))),
    )
    return compiled(text.strip() + "\n")


def scanned(what: str, axis: int, *operands: Any, backwards: bool = False) -> Any:
    """Return a scan along `axis`, from the first place to the last or the other way.

    Args:
        what: "sums" or "products"; "products_before", of the elements before each place; "recurrence" for
            y = a y_before + x, and "recurrence_adjoint" for the same with the a of the place before.
        axis: the axis, not negative.
        *operands: x, or a and x, of one shape and dtype.
        backwards: whether to begin at the end.
    """
    x = operands[-1]
    out = np.empty(x.shape, x.dtype)
    if not x.size:
        return out
    outer, n, inner = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    if inner == 1:
        shape: tuple[int, ...] = (outer, n)
        count = -(-outer // ROWS)
    else:
        shape = (outer, n, inner)
        count = outer * -(-inner // COLUMNS)
    args = (*(np.ascontiguousarray(v).reshape(shape) for v in operands), out.reshape(shape), backwards)
    threads.share(kernel(what, len(shape), x.dtype.char), args, count, x.size)
    return out
