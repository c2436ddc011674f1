"""Kernels for one row of a matrix at a time, which stays in the cache: softmax and layer norms.

Sums and maxima are taken in an order that suits vectors, which is the same each time.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from fgrad.kernels import threads, vector
from fgrad.kernels.functions import compiled
from fgrad.kernels.threads import Loop

CHUNK = 8192  # elements of an inner product that are added up on their own
BLOCK = 64  # rows whose contributions to shared parameters are added up in one place

_HEAD = """
CONTRACT = "{contract}"
DISTINCT = True  # results are new arrays
F = np.{dtype}
ONE = np.uintp(1)
NONE, LEAST = F(0.0), F(-np.inf)
MATRIX = types.Array(types.{dtype}, 2, "C", readonly=True)
EACH = SHARED = SINGLE = types.Array(types.{dtype}, 1, "C", readonly=True)
OUT, OUTS = types.Array(types.{dtype}, 2, "C"), types.Array(types.{dtype}, 1, "C")
PARTS = OUT

"""
_TOP = """
top = LEAST
for j in range(n):
    top = larger(top, x[i, j])
"""
_TOTAL = """
total = NONE
for j in range(n):
    total = add_any(total, {})
"""
_EACH = "for j in range(n):\n    {}\n"
_MOMENTS = (
    _TOTAL.format("x[i, j]")
    + """
mean, square = total / F(n), NONE
for j in range(n):
    v = x[i, j] - mean
    square = add_any(square, v * v)
scale = F(1.0) / math.sqrt(square / F(n) + eps[np.uintp(0)])
"""
)

_BODIES = {
    # name: (arguments with their types, the code for row i)
    "softmax": (
        "x MATRIX, out OUT",
        _TOP
        + """
total = NONE
for j in range(n):
    v = math.exp(x[i, j] - top)
    out[i, j] = v
    total = add_any(total, v)
share = F(1.0) / total
"""
        + _EACH.format("out[i, j] *= share"),
    ),
    "softmax_back": (
        "ct MATRIX, y MATRIX, out OUT",
        _TOTAL.format("ct[i, j] * y[i, j]") + _EACH.format("out[i, j] = y[i, j] * (ct[i, j] - total)"),
    ),
    "log_softmax": (
        "x MATRIX, out OUT",
        _TOP
        + _TOTAL.format("math.exp(x[i, j] - top)")
        + "rest = math.log(total)\n"
        + _EACH.format("out[i, j] = (x[i, j] - top) - rest"),
    ),
    "log_softmax_back": (
        "ct MATRIX, y MATRIX, out OUT",
        _TOTAL.format("ct[i, j]") + _EACH.format("out[i, j] = ct[i, j] - math.exp(y[i, j]) * total"),
    ),
    "logsumexp": (
        "x MATRIX, out OUTS",
        _TOP
        + "shift = top if abs(top) < F(np.inf) else NONE"
        + _TOTAL.format("math.exp(x[i, j] - shift)")
        + "out[i] = math.log(total) + shift",
    ),
    "inner": ("x MATRIX, y MATRIX, out OUTS", _TOTAL.format("x[i, j] * y[i, j]") + "out[i] = total"),
    "shifted_exp": (
        "ct EACH, x MATRIX, shift EACH, out OUT",
        "c, s = ct[i], shift[i]\n" + _EACH.format("out[i, j] = c * math.exp(x[i, j] - s)"),
    ),
    "layer_norm": (
        "x MATRIX, weight SHARED, bias SHARED, eps SINGLE, out OUT",
        _MOMENTS + _EACH.format("out[i, j] = (x[i, j] - mean) * scale * weight[j] + bias[j]"),
    ),
}
_LAYER_NORM_BACK = (
    _MOMENTS
    + """
first = second = NONE
for j in range(n):
    v = ct[i, j] * weight[j]
    first = add_any(first, v)
    second = add_any(second, v * (x[i, j] - mean))
first, second = first / F(n), second / F(n) * scale * scale
for j in range(n):
    v = x[i, j] - mean
    out[i, j] = (ct[i, j] * weight[j] - first - v * second) * scale
    dweight[b, j] += ct[i, j] * (v * scale)
    dbias[b, j] += ct[i, j]
"""
)


_SIZES = {
    **dict.fromkeys(("MATRIX", "OUT"), "[rows, n]"),
    **dict.fromkeys(("EACH", "OUTS"), "[rows]"),
    "SHARED": "[n]",
    "SINGLE": "[1]",
    "PARTS": "[blocks, n]",
}


def _text(arguments: str, body: str, dtype: np.dtype[Any], *, blocks: bool = False) -> str:
    """Return a module whose kernel runs `body` for rows `lo` to `hi`, or blocks of `BLOCK` rows."""
    names, types = zip(*(a.split() for a in arguments.split(", ")), strict=True)
    matrix = next(n for n, t in zip(names, types, strict=True) if t == "MATRIX")
    body = vector.substituted(body)
    contract = ", ".join(f"{n}{_SIZES[t]}" for n, t in zip(names, types, strict=True))
    contract += f", hi <= blocks, (hi - 1) * {BLOCK} < rows" if blocks else ", hi <= rows"
    head = _HEAD.format(dtype=dtype.name, contract=contract)
    lines = [f"n = np.uintp({matrix}.shape[1])"]
    margin = "    "
    if blocks:
        lines += [
            f"rows = np.uintp({matrix}.shape[0])",
            "for b in range(lo, hi):",
            "    for j in range(n):",
            "        dweight[b, j] = dbias[b, j] = NONE",
            f"    for i in range(b * np.uintp({BLOCK}), min(rows, (b + ONE) * np.uintp({BLOCK}))):",
        ]
        margin = "        "
    else:
        lines.append("for i in range(lo, hi):")
    lines += [margin + line for line in body.splitlines() if line]
    signature = ", ".join((*types, "types.uintp", "types.uintp"))
    return "\n".join(
        [
            head.strip(),
            vector.preamble(body, dtype),
            "",
            "",
            f"SIGNATURE = types.void({signature})",
            "",
            "",
            '@typed(SIGNATURE, "contract")',
            f"def kernel({', '.join((*names, 'lo', 'hi'))}):",
            *(f"    {line}" for line in lines),
            "",
        ]
    )


@cache
def _kernel(name: str, char: str) -> Loop:
    return compiled(_text(*_BODIES[name], np.dtype(char)))


@cache
def _layer_norm_back(char: str) -> Loop:
    arguments = "ct MATRIX, x MATRIX, weight SHARED, eps SINGLE, out OUT, dweight PARTS, dbias PARTS"
    return compiled(_text(arguments, _LAYER_NORM_BACK, np.dtype(char), blocks=True))


def _matrix(x: Any, n: int) -> Any:
    return np.ascontiguousarray(x).reshape(-1, n)


def _mapped(name: str, n: int, *arrays: Any) -> Any:
    """Return what a kernel makes of arrays of one shape."""
    out = np.empty(arrays[0].shape, arrays[0].dtype)
    rows = out.size // n
    args = (*(_matrix(a, n) for a in arrays), out.reshape(rows, n))
    threads.share(_kernel(name, out.dtype.char), args, rows, out.size)
    return out


def softmax(x: Any, n: int) -> Any:
    """Return exp(x) over its sum, of each row of `n` elements."""
    return _mapped("softmax", n, x)


def softmax_back(ct: Any, y: Any, n: int) -> Any:
    """Return the cotangent of what `y` is the softmax of."""
    return _mapped("softmax_back", n, ct, y)


def log_softmax(x: Any, n: int) -> Any:
    """Return the logarithm of the softmax of each row of `n` elements."""
    return _mapped("log_softmax", n, x)


def log_softmax_back(ct: Any, y: Any, n: int) -> Any:
    """Return the cotangent of what `y` is the logarithm of the softmax of."""
    return _mapped("log_softmax_back", n, ct, y)


def logsumexp(x: Any, n: int) -> Any:
    """Return the logarithm of the summed exponentials of each row of `n` elements."""
    rows = x.size // n
    out = np.empty(rows, x.dtype)
    threads.share(_kernel("logsumexp", x.dtype.char), (_matrix(x, n), out), rows, x.size)
    return out


def inner(x: Any, y: Any) -> Any:
    """Return the inner product of two contiguous vectors of one dtype."""
    rows = x.size // CHUNK
    sums = np.empty(rows + 1, x.dtype)
    args = (*(a[: rows * CHUNK].reshape(rows, CHUNK) for a in (x, y)), sums[:rows])
    threads.share(_kernel("inner", x.dtype.char), args, rows, x.size)
    sums[rows] = np.dot(x[rows * CHUNK :], y[rows * CHUNK :])
    return np.add.reduce(sums)


def shifted_exp(ct: Any, x: Any, shift: Any, n: int) -> Any:
    """Return `ct * exp(x - shift)`, with one `ct` and one `shift` for each row of `n` elements."""
    out = np.empty(x.shape, x.dtype)
    rows = x.size // n
    args = (
        np.ascontiguousarray(ct).ravel(),
        _matrix(x, n),
        np.ascontiguousarray(shift).ravel(),
        out.reshape(rows, n),
    )
    threads.share(_kernel("shifted_exp", x.dtype.char), args, rows, x.size)
    return out


def layer_norm(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Return each row with mean zero and variance one, times `weight` plus `bias`."""
    n = weight.size
    out = np.empty(x.shape, x.dtype)
    rows = x.size // n
    vectors = (np.ascontiguousarray(v).ravel() for v in (weight, bias, np.array(eps, x.dtype)))
    threads.share(
        _kernel("layer_norm", x.dtype.char), (_matrix(x, n), *vectors, out.reshape(rows, n)), rows, x.size
    )
    return out


def layer_norm_back(ct: Any, x: Any, weight: Any, eps: float) -> tuple[Any, Any, Any]:
    """Return the cotangents of input, weight and bias."""
    n = weight.size
    rows = x.size // n
    blocks = -(-rows // BLOCK)
    out = np.empty(x.shape, x.dtype)
    sums = np.empty((2, blocks, n), x.dtype)
    vectors = (np.ascontiguousarray(v).ravel() for v in (weight, np.array(eps, x.dtype)))
    args = (_matrix(ct, n), _matrix(x, n), *vectors, out.reshape(rows, n), *sums)
    threads.share(_layer_norm_back(x.dtype.char), args, blocks, x.size)
    dweight, dbias = np.add.reduce(sums, axis=1).reshape(2, *weight.shape)
    return out, dweight, dbias
