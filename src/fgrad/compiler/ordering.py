"""Searches in sorted lines, and the order of lines, stable and with NumPy's order: NaN comes last."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.compiler.decompose import RULES, Writer
from fgrad.compiler.library import LIBRARY, Launch, internal
from fgrad.compiler.scans import is_plain, lengths
from fgrad.core.aval import Aval
from fgrad.core.program import Equation, Var
from fgrad.kernels import native
from fgrad.kernels.bridges import bridge, memory
from fgrad.kernels.sorting import ordering

SHORT = 64  # elements that insertion puts in order sooner than a sort that needs memory besides
RADIX = 64  # operations on an element take as long as its place in a sorted row: 23 ns

_SEARCH = """
CONTRACT = (
    "args(a, v, out, n, each, steps), min(n, each) > 0, hi <= min(len(v), len(out)), "
    "-(-hi // each) * n <= len(a)"
)
ONE = np.uintp(1)


def kernel(slots, args, lo, hi):
    a, v = {dtype}_at(slots, args, 0), {dtype}_at(slots, args, 1)
    out, n, each = alone(int64_at(slots, args, 2)), np.uintp(args[3]), np.uintp(args[4])
    for i in range(lo, hi):
        first = i // each * n
        key = v[i]
        left, count = np.uintp(0), n
        for step in range(args[5]):  # which halve what is left, until nothing is
            half = count >> ONE
            x = a[first + min(left + half, n - ONE)]
            on = count > np.uintp(0) and ({condition})
            left = left + half + ONE if on else left
            count = count - half - ONE if on else half
        out[i] = np.int64(left)
"""
_BEFORE = {  # of an element and what is searched
    "left": "x < key or (key != key and x == x)",
    "right": "not (key < x or (x != x and key == key))",
}

_SORT = """
CONTRACT = "args(x, out, n, inner), min(n, inner) > 0, -(-hi // inner) * n * inner <= min(len(x), len(out))"
ZERO, ONE = np.uintp(0), np.uintp(1)


def kernel(slots, args, lo, hi):
    x, out = alone({dtype}_at(slots, args, 0)), alone(int64_at(slots, args, 1))
    n, inner = np.uintp(args[2]), np.uintp(args[3])
    for i in range(lo, hi):
        first = i // inner * n * inner + i % inner
        out[first] = np.int64(0)
        for j in range(ONE, n):
            key = x[first + j * inner]
            k = j
            while k > ZERO:
                place = out[first + (k - ONE) * inner]
                y = x[first + np.uintp(place) * inner]
                if not (key < y or (y != y and key == key)):
                    break
                out[first + k * inner] = place
                k = k - ONE
            out[first + k * inner] = np.int64(j)
"""


def _search(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return where elements belong in sorted lines."""
    (a, v), (out,) = equation.args, equation.outs
    if not (is_plain(a) and is_plain(v)) or a.aval.dtype != v.aval.dtype or out.aval.dtype.name != "int64":
        return None
    n, count = a.aval.shape[-1], math.prod(a.aval.shape[:-1])
    text = _SEARCH.format(dtype=a.aval.dtype.name, condition=_BEFORE[equation.params["side"]])
    steps = n.bit_length()
    numbers = [slots[a], slots[v], slots[out], n, v.aval.size // count, steps]
    return Launch(native.deferred(text), numbers, v.aval.size, 4 * steps * v.aval.size)


def _order(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the places that sort short lines, equal elements as they stand."""
    (x,), (out,), params = equation.args, equation.outs, equation.params
    if not is_plain(x) or out.aval.dtype.name != "int64":
        return None
    outer, n, inner = lengths(x, params["axis"])
    if n > SHORT:
        return None
    kernel = native.deferred(_SORT.format(dtype=x.aval.dtype.name))
    return Launch(kernel, [slots[x], slots[out], n, inner], outer * inner, n * x.aval.size)


def _radix(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the places that sort the rows of an array."""
    (x,), outs = equation.args, equation.outs
    if not is_plain(x) or native.interpreted():
        return None
    n = x.aval.shape[-1]
    rows = x.aval.size // n
    out, keys, places = (v.aval for v in outs)
    shapes = [(x.aval, (rows, n)), (keys, keys.shape), (places, places.shape), (out, (rows, n))]
    given = [Aval(shape, aval.dtype) for aval, shape in shapes]
    found = [slots[v] for v in (x, outs[1], outs[2], outs[0])]
    made = bridge(ordering(x.aval.dtype.char), list(zip(found, given, strict=True)), rows)
    return made and Launch(*made, rows, RADIX * x.aval.size)


def _shape_radix(x: Aval) -> tuple[Aval, ...]:
    *lead, n = x.shape
    keys = (2, math.prod(lead), n)
    whole = np.dtype(f"i{x.dtype.itemsize}")
    return Aval(x.shape, np.dtype(np.intp)), memory(keys, whole), memory(keys, np.int32)


internal("sort.radix", _shape_radix, many=True)  # the order, and memory that it takes


def _argsort(w: Writer, x: Any, *, axis: int, **_: Any) -> Any:
    """Order lines that lie side by side as rows, and elements that kernels do not know as those they know."""
    if not isinstance(x, Var) or not x.aval.size:
        return None
    dtype = x.aval.dtype
    if dtype.kind in "bui" and dtype.char not in "lq":
        if dtype.itemsize == 8:  # numbers beyond those of int64 become the largest
            x = w.make("bitwise_xor", w.typed(x, WHOLE), np.iinfo(np.int64).min)
        return _in_order(w, w.typed(x, WHOLE), axis)
    if not is_plain(x) or x.aval.shape[axis] <= SHORT or x.aval.shape[axis] >= 2**31 or native.interpreted():
        return None
    rank = len(x.aval.shape)
    axes = (*(i for i in range(rank) if i != axis), axis)
    rows = x if axis == rank - 1 else w.transpose(x, axes=axes)
    order = w.write_all("sort.radix", rows)[0]
    return order if axis == rank - 1 else w.transpose(order, axes=tuple(map(axes.index, range(rank))))


def _argpartition(w: Writer, x: Any, *, axis: int, kth: Any) -> Any:
    """Sort, which is one of the orders that a partition may give; NumPy refuses places that there are not."""
    if not isinstance(x, Var) or x.aval.dtype.char not in "?bhilqBHILQfd":
        return None
    n = x.aval.shape[axis]
    return _in_order(w, x, axis) if all(-n <= k < n for k in np.ravel(kth).tolist()) else None


def _in_order(w: Writer, x: Var, axis: int) -> Any:
    found = _argsort(w, x, axis=axis)
    return w.make("argsort", x, axis=axis) if found is None else found


WHOLE = np.dtype(np.int64)
LIBRARY.update({"search": _search, "argsort": _order, "sort.radix": _radix})
RULES.update({"argsort": _argsort, "argpartition": _argpartition})
