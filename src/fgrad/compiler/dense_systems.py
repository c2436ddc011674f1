"""Factors L U, Schur forms, banded systems, Sylvester's equations by LAPACK; recursions and convolutions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.compiler.decompose import RULES, Writer
from fgrad.compiler.library import FAULTS, LIBRARY, Launch, internal, stated
from fgrad.compiler.matrices import WORDS, are_known, called, swapped, written
from fgrad.compiler.matrix_loops import PAIRED, paired
from fgrad.compiler.pairs import is_pair, part_of
from fgrad.core.aval import Aval
from fgrad.core.program import Equation, Var
from fgrad.kernels import lapack, native

# ---- L U


def _lu(w: Writer, a: Any, pair: int = 1) -> Any:
    if not are_known(a):
        return None
    shape = a.aval.shape[: len(a.aval.shape) - (pair - 1)]
    *lead, m, n = shape
    turned = swapped(w, a, pair)
    results = turned.aval, Aval((*lead, min(m, n)), WORDS)
    found = written(w, "getrf", turned, results=results, pair=pair, m=m, n=n, strict=False)
    if found is None:
        return None
    order = w.make("kernel.order", found[1], m=m)
    narrow = np.dtype(np.int32)
    return swapped(w, found[0], pair), w.typed(found[1], narrow), w.typed(order, narrow)


# ---- banded systems


def _banded(w: Writer, ab: Any, b: Any, *, below: int, above: int, pair: int = 1) -> Any:
    if not isinstance(ab, Var) or not isinstance(b, Var):
        return None
    dtype = np.result_type(ab.aval.dtype, b.aval.dtype)
    if dtype.char not in "fd":
        return None
    ab, b = swapped(w, w.typed(ab, dtype), pair), swapped(w, w.typed(b, dtype), pair)
    if not are_known(ab, b):
        return None
    shape = b.aval.shape[: len(b.aval.shape) - (pair - 1)]
    *lead, columns, n = shape
    rest = (2,) * (pair - 1)
    results = (
        Aval((*lead, n, 2 * below + above + 1, *rest), dtype),
        Aval((*lead, n), WORDS),
        b.aval,
    )
    found = written(w, "gbsv", ab, b, results=results, pair=pair, sizes=(n, below, above, columns))
    return None if found is None else swapped(w, found[2], pair)


def _call_banded(e: Equation, slots: dict[Var, int]) -> Any:
    p, outs = e.params, e.outs
    count, (n, low, high, columns) = math.prod(outs[1].aval.shape[:-1]), p["sizes"]
    made = lapack.gbsv(e.args[0].aval.dtype.name, p["pair"])
    places = [slots[v] for v in (*e.args, *outs, FAULTS)]
    work = 4 * count * n * (low + 1) * (low + high + columns)
    return called(made, [*places, count, n, low, high, columns], count, work, fails=True)


# ---- Schur forms


def _schur(w: Writer, a: Any, pair: int = 1) -> Any:
    if not are_known(a):
        return None
    turned = swapped(w, a, pair)
    shape = turned.aval.shape[: len(turned.aval.shape) - (pair - 1)]
    results = turned.aval, turned.aval, Aval((*shape[:-1], 2), a.aval.dtype)
    found = written(w, "gees", turned, results=results, pair=pair)
    return None if found is None else tuple([swapped(w, x, pair) for x in found[:2]])


# ---- Sylvester's equations, by the complex Schur form as SciPy's: Bartels & Stewart (1972), Comm. ACM 15


@PAIRED.on("sylvester")
def _sylvester(w: Writer, args: Any, avals: Any, results: Any, params: Any) -> Any:
    del params
    out = results[0]
    double = np.dtype(np.float64)
    a, b, q = _in_pairs(w, args, avals, double)
    *lead, m, n = out.shape
    factors = []
    # by columns the adjoint of b, of which the form is taken, is its conjugate
    for x, given, k in ((a, swapped(w, a, 2), m), (b, _conjugate(w, b), n)):
        values = Aval((*lead, k, 2), double)
        found = written(w, "gees", given, results=(x.aval, x.aval, values), pair=2)
        if found is None:
            return None
        factors += [found[0], found[1]]
    r, u, s, v = factors  # by columns
    left, right = _product(w, _conjugate(w, u), q), swapped(w, v, 2)
    c = swapped(w, _product(w, left, right), 2)
    found = written(w, "trsyl", r, s, c, results=(c.aval,), sizes=(m, n))
    if found is None:
        return None
    y = swapped(w, found[0], 2)
    x = _product(w, _product(w, swapped(w, u, 2), y), _conjugate(w, v))
    if not is_pair(out):
        return w.typed(w.slice(x, index=(..., 0)), out.dtype)
    return w.typed(x, part_of(out.dtype))


def _in_pairs(w: Writer, args: Any, avals: Any, dtype: np.dtype[Any]) -> list[Any]:
    """Return operands as pairs, of which some may be real."""
    given = ((w.typed(x, dtype), is_pair(v)) for x, v in zip(args, avals, strict=True))
    return [x if is_complex else paired(w, x) for x, is_complex in given]


def _conjugate(w: Writer, x: Var) -> Any:
    return w.multiply(x, w.array(np.array([1.0, -1.0])))


def _product(w: Writer, x: Var, y: Var) -> Any:
    """Return products of complex matrices, of pairs."""
    lead = "ABCDEFGH"[: len(x.aval.shape) - 3]
    a, b = ([w.slice(v, index=(..., i)) for i in range(2)] for v in (x, y))

    def real(i: int, j: int) -> Any:
        return w.contract(a[i], b[j], a=f"{lead}ij", b=f"{lead}jk", out=f"{lead}ik")

    return w.pairs(w.subtract(real(0, 0), real(1, 1)), w.add(real(0, 1), real(1, 0)))


def _call_gees(e: Equation, slots: dict[Var, int]) -> Any:
    pair, n = e.params["pair"], e.outs[2].aval.shape[-2]
    count = e.outs[2].aval.size // (2 * n)
    places = [slots[v] for v in (*e.args, *e.outs, FAULTS)]
    return called(
        lapack.gees(e.args[0].aval.dtype.name, pair),
        [*places, count, n],
        count,
        100 * count * n**3,
        fails=True,
    )


def _call_trsyl(e: Equation, slots: dict[Var, int]) -> Any:
    m, n = e.params["sizes"]
    count = e.outs[0].aval.size // (2 * m * n)
    places = [slots[v] for v in (*e.args, *e.outs, FAULTS)]
    return called(lapack.trsyl(), [*places, count, m, n], count, 4 * count * m * n * (m + n), fails=True)


# ---- recursions and convolutions of vectors

_RECURSION = """
CONTRACT = (
    "args(a, u, out, count, n, k), min(n, k) > 0, len(a) == {pair} * k, hi <= count, "
    "len(u) == len(out) == {pair} * count * n"
)
F = np.{dtype}
ZERO = F(0.0)


def kernel(slots, args, lo, hi):
    a, u, out = {dtype}_at(slots, args, 0), {dtype}_at(slots, args, 1), {dtype}_at(slots, args, 2)
    n, k = args[4], args[5]
    for i in range(np.int64(lo), np.int64(hi)):
        for t in range(n):
            count = min(k, t)
{body}
"""
_REAL = """
row = i * n
total = ZERO
for m in range(count):
    j = count - 1 - m
    total = total - a[j] * out[row + t - 1 - j]
out[row + t] = u[row + t] + total
"""
_COMPLEX = """
row = 2 * (i * n + t)
re, im = ZERO, ZERO
for m in range(count):
    j = count - 1 - m
    x, y = out[row - 2 * (1 + j)], out[row - 2 * (1 + j) + 1]
    re = re - (a[2 * j] * x - a[2 * j + 1] * y)
    im = im - (a[2 * j] * y + a[2 * j + 1] * x)
out[row] = u[row] + re
out[row + 1] = u[row + 1] + im
"""

_CONVOLVE = """
CONTRACT = (
    "args(x, y, out, count, n, m, first, size), min(n, m, size) > 0, len(x) == count * n, "
    "len(y) == count * m, len(out) == count * size, 0 <= first <= n + m - 1 - size, hi <= count"
)
ZERO = np.{dtype}(0)


def kernel(slots, args, lo, hi):
    x, y = {dtype}_at(slots, args, 0), {dtype}_at(slots, args, 1)
    out = alone({dtype}_at(slots, args, 2))
    n, m, first, size = args[4], args[5], args[6], args[7]
    for i in range(np.int64(lo), np.int64(hi)):
        for k in range(size):
            out[i * size + k] = ZERO
        for j in range(m):
            v = y[i * m + j]
            begin, end = max(0, j - first), min(size, n + j - first)
            for k in range(begin, end):
                out[i * size + k] += x[i * n + k + first - j] * v
"""


def _recursion(w: Writer, a: Any, u: Any, pair: int = 1) -> Any:
    if not isinstance(a, Var) or not isinstance(u, Var):
        return None
    dtype = np.result_type(a.aval.dtype, u.aval.dtype)
    if dtype.char not in "fd" or not u.aval.size:
        return None
    if not a.aval.size:
        return w.typed(u, dtype)
    return w.make("kernel.recursion", w.typed(a, dtype), w.typed(u, dtype), pair=pair)


def _call_recursion(e: Equation, slots: dict[Var, int]) -> Any:
    (a, u), (out,), pair = e.args, e.outs, e.params["pair"]
    n, k = u.aval.shape[-pair], a.aval.shape[0]
    count = u.aval.size // (pair * n)
    body = (_REAL if pair == 1 else _COMPLEX).strip()
    text = _RECURSION.format(
        dtype=u.aval.dtype.name, pair=pair, body="\n".join(" " * 12 + line for line in body.splitlines())
    )
    numbers = [slots[a], slots[u], slots[out], count, n, k]
    return Launch(native.deferred(text), numbers, count, 2 * k * u.aval.size)


def _call_convolve(e: Equation, slots: dict[Var, int]) -> Any:
    (x, y), (out,) = e.args, e.outs
    if not all(isinstance(v, Var) and v.aval.size and v.aval.dtype == out.aval.dtype for v in (x, y)):
        return None
    if out.aval.dtype.char not in "bhilqBHILQfd" or not out.aval.size:
        return None
    n, m, size = (v.aval.shape[-1] for v in (x, y, out))
    count = out.aval.size // size
    first = m - 1 if e.params["mode"] == "valid" else 0
    numbers = [*(slots[v] for v in (x, y, out)), count, n, m, first, size]
    kernel = native.deferred(_CONVOLVE.format(dtype=out.aval.dtype.name))
    return Launch(kernel, numbers, count, 2 * count * m * size)


def _convolve(w: Writer, x: Any, y: Any, *, mode: str) -> Any:
    """Let both be of the dtype of the result, the shorter one second."""
    if not isinstance(x, Var) or not isinstance(y, Var):
        return None
    dtype = np.result_type(x.aval.dtype, y.aval.dtype)
    if mode == "full" and x.aval.shape[-1] < y.aval.shape[-1]:
        x, y = y, x
    elif x.aval.dtype == y.aval.dtype == dtype:
        return None
    return w.make("convolve", w.typed(x, dtype), w.typed(y, dtype), mode=mode)


LIBRARY.update(
    {
        "lapack.gbsv": _call_banded,
        "lapack.gees": _call_gees,
        "lapack.trsyl": _call_trsyl,
        "kernel.recursion": _call_recursion,
        "convolve": _call_convolve,
    }
)


def _real_sylvester(w: Writer, a: Any, b: Any, q: Any) -> Any:
    if not all(isinstance(x, Var) and x.aval.dtype.char in "fd" and x.aval.size for x in (a, b, q)):
        return None
    avals = tuple([x.aval for x in (a, b, q)])
    out = Aval(q.aval.shape, np.result_type(*(v.dtype for v in avals)))
    return _sylvester(w, (a, b, q), avals, (out,), {})


RULES.update(
    {
        "lu_factor": _lu,
        "schur": _schur,
        "solve_banded": _banded,
        "sylvester": _real_sylvester,
        "recursion": _recursion,
        "convolve": _convolve,
    }
)


def _by_pairs(rule: Any) -> Any:
    """Return the rule of complex operands, some of which may be real, from that of pairs."""

    def made(w: Writer, args: Any, avals: Any, results: Any, params: Any) -> Any:
        return rule(w, *_in_pairs(w, args, avals, part_of(results[0].dtype)), **params, pair=2)

    return made


PAIRED["lu_factor"] = lambda w, args, *_: _lu(w, args[0], pair=2)
PAIRED["schur"] = lambda w, args, *_: _schur(w, args[0], pair=2)
PAIRED["solve_banded"] = _by_pairs(_banded)
PAIRED["recursion"] = _by_pairs(_recursion)
for _name in ("gbsv", "gees", "trsyl"):
    internal(f"lapack.{_name}", stated, many=True)
internal("kernel.recursion", lambda a, u, *, pair: u)
