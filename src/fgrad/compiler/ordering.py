"""Searches in sorted lines, and the order of short ones, with NumPy's order: NaN comes last."""

from __future__ import annotations

import math

from fgrad.compiler.library import LIBRARY, Launch
from fgrad.compiler.scans import is_plain, lengths
from fgrad.core.program import Equation, Var
from fgrad.kernels import native

SHORT = 64  # elements that insertion puts in order sooner than a sort that needs memory besides

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
    if not is_plain(x) or out.aval.dtype.name != "int64" or params.get("kind", "stable") != "stable":
        return None
    outer, n, inner = lengths(x, params["axis"])
    if n > SHORT:
        return None
    kernel = native.deferred(_SORT.format(dtype=x.aval.dtype.name))
    return Launch(kernel, [slots[x], slots[out], n, inner], outer * inner, n * x.aval.size)


LIBRARY.update({"search": _search, "argsort": _order})
