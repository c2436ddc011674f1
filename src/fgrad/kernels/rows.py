"""Kernels for one row of a matrix at a time, which stays in the cache: softmax and layer norms.

Sums and maxima run in lanes that are folded pairwise, so that they are accurate and the same each time.
"""

from __future__ import annotations

from functools import cache
from textwrap import indent
from typing import Any

import numpy as np

from fgrad.kernels import threads, vector
from fgrad.kernels.functions import compiled
from fgrad.kernels.threads import Loop

LANES = 64
CHUNK = 8192  # elements of an inner product that are added up on their own
BLOCK = 64  # rows whose contributions to shared parameters are added up in one place

_HEAD = """
CONTRACT = "{contract}"
DISTINCT = True  # results are new arrays
F = np.{dtype}
LANES, ZERO, ONE = np.uintp({lanes}), np.uintp(0), np.uintp(1)
NONE, LEAST = F(0.0), F(-np.inf)
MATRIX = types.Array(types.{dtype}, 2, "C", readonly=True)
EACH = SHARED = SINGLE = types.Array(types.{dtype}, 1, "C", readonly=True)
OUT, OUTS = types.Array(types.{dtype}, 2, "C"), types.Array(types.{dtype}, 1, "C")
PARTS = OUT

"""
_FOLD = """
@helper
def {name}(full, rest, n, width):
    if n >= LANES:
        for k in range(LANES):
            {whole}
        {folded}
        result = full[ZERO]
    else:
        level = width >> ONE
        while level:
            for k in range(level):
                {part}
            level >>= ONE
        result = rest[ZERO]
    return result
"""
_LOOP = """
for k in range(width):
    {rest} = {none}
j = ZERO
if n >= LANES:
    for k in range(LANES):
        {full} = {none}
    while j + LANES <= n:
        for k in range(LANES):
            {whole}
        j += LANES
for k in range(n - j):
    {step}
"""


def _fold(name: str, step: str) -> str:
    """Return a function that makes one number of the lanes, pair by pair; LLVM keeps full ones in registers.

    Args:
        name: of the function.
        step: what is done to a lane `a` and another one `b`.
    """

    def joined(lane: str, other: str) -> str:
        return step.format(a=lane, b=other)

    levels = (LANES >> k for k in range(1, LANES.bit_length()))
    loop = "for k in range(np.uintp({})):\n            {}"
    folded = (loop.format(n, joined("full[k]", f"full[k + np.uintp({n})]")) for n in levels)
    return _FOLD.format(
        name=name,
        whole=joined("full[k]", "rest[k]"),
        folded="\n        ".join(folded),
        part=joined("rest[k]", "rest[level + k]"),
    )


def _loop(*steps: str, none: str = "NONE") -> str:
    """Return a loop over a row that adds to `lanes`, which begin with `none`, and maybe to `others`."""

    def written(text: str, kept: str, margin: int) -> str:
        return indent(text.replace("lanes", kept).replace("others", f"{kept}_2"), margin * " ").strip()

    step = "\n".join(steps)
    start = "lanes[k] = others[k]" if "others" in step else "lanes[k]"
    return _LOOP.format(
        none=none,
        rest=written(start, "rest", 0),
        full=written(start, "full", 0),
        whole=written(step, "full", 12),
        step=written(step, "rest", 4),
    )


# NaN is larger than nothing; it shows up in the sum
_LARGER = "{a} = {b} if {b} > {a} else {a}"
_TOP = (
    _loop("v = x[i, j + k]", _LARGER.format(a="lanes[k]", b="v"), none="LEAST")
    + "top = largest(full, rest, n, width)\n"
)
_PLAIN = "for j in range(n):\n    {}\n"

_BODIES = {
    # name: (arguments with their types, the code for row i)
    "softmax": (
        "x MATRIX, out OUT",
        _TOP
        + _loop("v = math.exp(x[i, j + k] - top)", "out[i, j + k] = v", "lanes[k] += v")
        + "share = F(1.0) / added(full, rest, n, width)\n"
        + _PLAIN.format("out[i, j] *= share"),
    ),
    "softmax_back": (
        "ct MATRIX, y MATRIX, out OUT",
        _loop("lanes[k] += ct[i, j + k] * y[i, j + k]")
        + "total = added(full, rest, n, width)\n"
        + _PLAIN.format("out[i, j] = y[i, j] * (ct[i, j] - total)"),
    ),
    "log_softmax": (
        "x MATRIX, out OUT",
        _TOP
        + _loop("lanes[k] += math.exp(x[i, j + k] - top)")
        + "total = math.log(added(full, rest, n, width))\n"
        + _PLAIN.format("out[i, j] = (x[i, j] - top) - total"),
    ),
    "log_softmax_back": (
        "ct MATRIX, y MATRIX, out OUT",
        _loop("lanes[k] += ct[i, j + k]")
        + "total = added(full, rest, n, width)\n"
        + _PLAIN.format("out[i, j] = ct[i, j] - math.exp(y[i, j]) * total"),
    ),
    "logsumexp": (
        "x MATRIX, out OUTS",
        _TOP
        + "shift = top if abs(top) < F(np.inf) else NONE"
        + _loop("lanes[k] += math.exp(x[i, j + k] - shift)")
        + "out[i] = math.log(added(full, rest, n, width)) + shift",
    ),
    "inner": (
        "x MATRIX, y MATRIX, out OUTS",
        _loop("lanes[k] += x[i, j + k] * y[i, j + k]") + "out[i] = added(full, rest, n, width)",
    ),
    "shifted_exp": (
        "ct EACH, x MATRIX, shift EACH, out OUT",
        "c, s = ct[i], shift[i]\n" + _PLAIN.format("out[i, j] = c * math.exp(x[i, j] - s)"),
    ),
    "layer_norm": (
        "x MATRIX, weight SHARED, bias SHARED, eps SINGLE, out OUT",
        _loop("lanes[k] += x[i, j + k]")
        + "mean = added(full, rest, n, width) / F(n)"
        + _loop("v = x[i, j + k] - mean", "lanes[k] += v * v")
        + "scale = F(1.0) / math.sqrt(added(full, rest, n, width) / F(n) + eps[ZERO])\n"
        + _PLAIN.format("out[i, j] = (x[i, j] - mean) * scale * weight[j] + bias[j]"),
    ),
}
_LAYER_NORM_BACK = (
    _loop("lanes[k] += x[i, j + k]", "others[k] += ct[i, j + k] * weight[j + k]")
    + "mean, first = added(full, rest, n, width) / F(n), added(full_2, rest_2, n, width) / F(n)"
    + _loop(
        "v = x[i, j + k] - mean",
        "lanes[k] += v * v",
        "others[k] += ct[i, j + k] * weight[j + k] * v",
    )
    + "scale = F(1.0) / math.sqrt(added(full, rest, n, width) / F(n) + eps[ZERO])\n"
    + "second = added(full_2, rest_2, n, width) / F(n) * scale * scale\n"
    + _PLAIN.format(
        "v = x[i, j] - mean\n"
        "    out[i, j] = (ct[i, j] * weight[j] - first - v * second) * scale\n"
        "    dweight[b, j] += ct[i, j] * (v * scale)\n"
        "    dbias[b, j] += ct[i, j]"
    )
)


_SIZES = {
    **dict.fromkeys(("MATRIX", "OUT"), "[rows, n]"),
    **dict.fromkeys(("EACH", "OUTS"), "[rows]"),
    "SHARED": "[n]",
    "SINGLE": "[1]",
    "PARTS": "[blocks, n]",
}


def _text(arguments: str, body: str, dtype: np.dtype, *, blocks: bool = False) -> str:
    """Return a module whose kernel runs `body` for rows `lo` to `hi`, or blocks of `BLOCK` rows."""
    names, types = zip(*(a.split() for a in arguments.split(", ")), strict=True)
    matrix = next(n for n, t in zip(names, types, strict=True) if t == "MATRIX")
    body = vector.substituted(body)
    contract = ", ".join(f"{n}{_SIZES[t]}" for n, t in zip(names, types, strict=True))
    contract += f", hi <= blocks, (hi - 1) * {BLOCK} < rows" if blocks else ", hi <= rows"
    head = _HEAD.format(dtype=dtype.name, lanes=LANES, contract=contract)
    folds = _fold("largest", _LARGER), _fold("added", "{a} += {b}")
    lines = [
        f"n, width = np.uintp({matrix}.shape[1]), ONE",
        "while width < n and width < LANES:",
        "    width += width",
        "full, rest = np.empty(LANES, F), np.empty(LANES, F)",
        "full_2, rest_2 = np.empty(LANES, F), np.empty(LANES, F)",
    ]
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
            *folds,
            "",
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
