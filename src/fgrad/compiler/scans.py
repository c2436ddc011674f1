"""Scans along an axis: running sums and products, argmax and argmin.

Additions follow one another as NumPy's do, so results are the same to the last bit; several lines go side by
side, because each addition waits for the one before.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from fgrad.compiler.decompose import RULES, Writer
from fgrad.compiler.library import LIBRARY, Launch
from fgrad.core.aval import Aval
from fgrad.core.primitive import PRIMITIVES, SELECTS
from fgrad.core.program import Equation, Var
from fgrad.kernels import native
from fgrad.kernels.bridges import bridge
from fgrad.kernels.scans import COLUMNS, ROWS
from fgrad.kernels.scans import kernel as recurring

SIDE = 8  # lines that run side by side
WIDTH = 512  # of lines that lie side by side: so many of them stay in the cache

_RUNNING = """
CONTRACT = (
    "args(x, out, outer, n, inner), min(outer, n, inner) > 0, min(len(x), len(out)) >= outer * n * inner, "
    "hi <= (-(-outer // {side}) if inner == 1 else outer * -(-inner // {width}))"
)
ONE, SIDE, WIDTH = np.uintp(1), np.uintp({side}), np.uintp({width})


def kernel(slots, args, lo, hi):
    # lines of n elements: `outer` one after the other, `inner` side by side
    x, out = alone({dtype}_at(slots, args, 0)), {dtype}_at(slots, args, 1)
    outer, n, inner = np.uintp(args[2]), np.uintp(args[3]), np.uintp(args[4])
    blocks = (inner + WIDTH - ONE) // WIDTH
    for block in range(lo, hi):
        if inner > ONE:
            first = block // blocks * n * inner
            left = block % blocks * WIDTH
            right = min(left + WIDTH, inner)
            for k in range(left, right):
                out[first + k] = x[first + k]
            for j in range(ONE, n):
                here = first + j * inner
                for k in range(left, right):
                    out[here + k] = {beside}
        elif (block + ONE) * SIDE <= outer:
            first = block * SIDE * n
{starts}
            for j in range(ONE, n):
{steps}
        else:
            for i in range(block * SIDE, outer):
                total = x[i * n]
                out[i * n] = total
                for j in range(ONE, n):
                    total = {alone}
                    out[i * n + j] = total
"""

# Of contiguous lines blocks are compared, and few are searched; of others those go along that fit the cache.
_PLACE = """
CONTRACT = (
    "args(x, out, outer, n, inner), min(outer, n, inner) > 0, len(x) >= outer * n * inner, "
    "len(out) >= outer * inner, hi <= (outer if inner == 1 else outer * -(-inner // {width}))"
)
F, ONE, WIDTH, SIDE = np.{dtype}, np.uintp(1), np.uintp({width}), np.uintp({side})


@helper
def found(x, first, start, stop):
    best = x[first + start]
    place = start
    for j in range(start + ONE, stop):
        y = x[first + j]
        better = y {sign} best or (y != y and best == best)  # the first NaN wins
        best = y if better else best
        place = j if better else place
    return place


def kernel(slots, args, lo, hi):
    x, out = {dtype}_at(slots, args, 0), int64_at(slots, args, 1)
    n, inner = np.uintp(args[3]), np.uintp(args[4])
    blocks = (inner + WIDTH - ONE) // WIDTH
    tops = np.empty({width}, F)
    for i in range(lo, hi):
        if inner == ONE:
            first = i * n
            place = np.uintp(0)
            start = np.uintp(0)
            while start < n:
                stop = min(start + WIDTH, n)
                worth = x[first + place]
                count = np.int64(0)
                for j in range(start, stop):
                    y = x[first + j]
                    count += np.int64(y {sign} worth) + np.int64(y != y)
                if count > 0 and worth == worth:
                    there = found(x, first, start, stop)
                    y = x[first + there]
                    if y {sign} worth or y != y:
                        place = there
                start = stop
            out[i] = np.int64(place)
        else:
            left = i % blocks * WIDTH
            right = min(left + WIDTH, inner)
            first, to = i // blocks * n * inner, i // blocks * inner
            for k in range(left, right):
                tops[k - left] = x[first + k]
                out[to + k] = np.int64(0)
            for j in range(ONE, n):
                for k in range(left, right):
                    y = x[first + j * inner + k]
                    best = tops[k - left]
                    better = y {sign} best or (y != y and best == best)
                    tops[k - left] = y if better else best
                    out[to + k] = np.int64(j) if better else out[to + k]
"""


# by primitive the code that joins two floats, and two integers: one after the other, or in any order where
# that gives the same
_JOINS = {
    how.join: (how.floats if SELECTS in PRIMITIVES[how.join].traits else how.integers, how.integers)
    for how in [p.reduction for p in PRIMITIVES.values()]
    if how and how.integers
}


def _running(equation: Equation, slots: dict[Var, int], name: str = "") -> Launch | None:
    """Return the running sums, products or extrema of an array; `name`: what joins elements."""
    (x,), (out,) = equation.args, equation.outs
    name = name or equation.params["ufunc"]
    if not isinstance(x, Var) or not x.aval.size or x.aval.dtype != out.aval.dtype or name not in _JOINS:
        return None
    if x.aval.dtype.char not in "bhilqBHILQfd" or not x.aval.dtype.isnative:
        return None
    join = _JOINS[name][x.aval.dtype.kind != "f"].format
    starts, steps = [], []
    for k in range(SIDE):
        at = f"first + np.uintp({k}) * n"
        starts += [f"t{k} = x[{at}]", f"out[{at}] = t{k}"]
        steps += [f"t{k} = {join(f't{k}', f'x[{at} + j]')}", f"out[{at} + j] = t{k}"]
    text = _RUNNING.format(
        dtype=x.aval.dtype.name,
        beside=join("out[here + k - inner]", "x[here + k]"),
        alone=join("total", "x[i * n + j]"),
        side=SIDE,
        width=WIDTH,
        starts="\n".join(f"            {line}" for line in starts),
        steps="\n".join(f"                {line}" for line in steps),
    )
    outer, n, inner = lengths(x, equation.params["axis"])
    blocks = -(-outer // SIDE) if inner == 1 else outer * -(-inner // WIDTH)
    numbers = [slots[x], slots[out], outer, n, inner]
    return Launch(native.deferred(text), numbers, blocks, x.aval.size)


def _place(equation: Equation, slots: dict[Var, int], sign: str) -> Launch | None:
    """Return the places of the largest or least elements: of each `sign` all others."""
    (x,), (out,) = equation.args, equation.outs
    if not is_plain(x) or out.aval.dtype.name != "int64":
        return None
    outer, n, inner = lengths(x, equation.params["axis"])
    text = _PLACE.format(dtype=x.aval.dtype.name, sign=sign, width=WIDTH, side=SIDE)
    turns = outer if inner == 1 else outer * -(-inner // WIDTH)
    return Launch(native.deferred(text), [slots[x], slots[out], outer, n, inner], turns, x.aval.size)


def _typed(name: str) -> Any:
    """Return the rule of integers and truth values: in the dtype of the results, or one of as many bits."""

    def rule(w: Writer, x: Any, **params: Any) -> Any:
        if not isinstance(x, Var) or x.aval.dtype.kind not in "biu":
            return None
        dtype = PRIMITIVES[name].shape(x.aval, **params).dtype  # type: ignore[misc]
        same = dtype.itemsize == x.aval.dtype.itemsize  # those of uint64 that are compared are not of int64
        return None if same else w.make(name, w.typed(x, dtype), **params)

    return rule


def _recur(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the recurrence y = a y_before + b along an axis."""
    (a, b), (out,) = equation.args, equation.outs
    if not is_plain(a) or not is_plain(b) or a.aval != b.aval or a.aval.dtype.kind != "f":
        return None
    outer, n, inner = lengths(b, equation.params["axis"])
    shape = (outer, n) if inner == 1 else (outer, n, inner)
    count = -(-outer // ROWS) if inner == 1 else outer * -(-inner // COLUMNS)
    given = [(slots[v], Aval(shape, v.aval.dtype)) for v in (a, b, out)]
    made = bridge(recurring("recurrence", len(shape), a.aval.dtype.char), [*given, False], count)
    return made and Launch(*made, count, 2 * b.aval.size)


RULES.update({name: _typed(name) for name in ("cumsum", "cumprod", "accumulate", "argmax", "argmin")})


def is_plain(x: Any) -> bool:
    """Return whether these kernels can read an operand."""
    return isinstance(x, Var) and x.aval.size > 0 and x.aval.dtype.char in "fdlqLQ" and x.aval.dtype.isnative


def lengths(x: Var, axis: int | None) -> tuple[int, int, int]:
    """Return how many elements there are before, along and behind an axis."""
    shape = x.aval.shape
    if axis is None:
        return 1, x.aval.size, 1
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


LIBRARY["accumulate"], LIBRARY["recur"] = _running, _recur
LIBRARY["cumsum"] = functools.partial(_running, name="add")
LIBRARY["cumprod"] = functools.partial(_running, name="multiply")
LIBRARY["argmax"] = functools.partial(_place, sign=">")
LIBRARY["argmin"] = functools.partial(_place, sign="<")
