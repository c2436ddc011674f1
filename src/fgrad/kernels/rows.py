"""Kernels that handle one row of a matrix at a time, while it is in the cache: softmax and layer norms.

Sums and maxima run in lanes that are folded pairwise, so that they are accurate and the same each time.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from fgrad.kernels import source, threads, vector
from fgrad.kernels.loops import Loop

LANES = 128
BLOCK = 64  # rows whose contributions to shared parameters are added up in one place

_HEAD = """
F = np.{dtype}
LANES, ZERO, ONE = np.uintp({lanes}), np.uintp(0), np.uintp(1)
NONE, LEAST = F(0.0), F(-np.inf)
helper = njit(error_model="numpy", fastmath={{"contract"}}, {helper})
MATRIX = types.Array(types.{dtype}, 2, "C", readonly=True)
VECTOR = types.Array(types.{dtype}, 1, "C", readonly=True)
OUT, OUTS = types.Array(types.{dtype}, 2, "C"), types.Array(types.{dtype}, 1, "C")


@helper
def fold(lanes, width):
    level = width >> ONE
    while level:
        for k in range(level):
            lanes[k] += lanes[level + k]
        level >>= ONE
    return lanes[ZERO]


@helper
def largest(x, i, n, lanes, width):
    # NaN is larger than nothing; it shows up in the sum
    for k in range(width):
        lanes[k] = LEAST
    j = ZERO
    while j < n:
        m = min(width, n - j)
        for k in range(m):
            v = x[i, j + k]
            lanes[k] = v if v > lanes[k] else lanes[k]
        j += width
    level = width >> ONE
    while level:
        for k in range(level):
            v = lanes[level + k]
            lanes[k] = v if v > lanes[k] else lanes[k]
        level >>= ONE
    return lanes[ZERO]
"""
_LOOP = """
for k in range(width):
    lanes[k] = NONE
j = ZERO
while j < n:
    m = min(width, n - j)
    for k in range(m):
        {step}
    j += width
"""


def _loop(*steps: str) -> str:
    """Return a loop over a row that adds to `lanes`."""
    return _LOOP.replace("{step}", "\n        ".join(steps))


_PLAIN = "for j in range(n):\n    {}\n"

_BODIES = {
    # name: (arguments with their types, the code for row i)
    "softmax": (
        "x MATRIX, out OUT",
        "top = largest(x, i, n, lanes, width)"
        + _loop("v = math.exp(x[i, j + k] - top)", "out[i, j + k] = v", "lanes[k] += v")
        + "share = F(1.0) / fold(lanes, width)\n"
        + _PLAIN.format("out[i, j] *= share"),
    ),
    "softmax_back": (
        "ct MATRIX, y MATRIX, out OUT",
        _loop("lanes[k] += ct[i, j + k] * y[i, j + k]")
        + "total = fold(lanes, width)\n"
        + _PLAIN.format("out[i, j] = y[i, j] * (ct[i, j] - total)"),
    ),
    "log_softmax": (
        "x MATRIX, out OUT",
        "top = largest(x, i, n, lanes, width)"
        + _loop("lanes[k] += math.exp(x[i, j + k] - top)")
        + "total = math.log(fold(lanes, width))\n"
        + _PLAIN.format("out[i, j] = (x[i, j] - top) - total"),
    ),
    "log_softmax_back": (
        "ct MATRIX, y MATRIX, out OUT",
        _loop("lanes[k] += ct[i, j + k]")
        + "total = fold(lanes, width)\n"
        + _PLAIN.format("out[i, j] = ct[i, j] - math.exp(y[i, j]) * total"),
    ),
    "logsumexp": (
        "x MATRIX, out OUTS",
        "top = largest(x, i, n, lanes, width)\nshift = top if abs(top) < F(np.inf) else NONE"
        + _loop("lanes[k] += math.exp(x[i, j + k] - shift)")
        + "out[i] = math.log(fold(lanes, width)) + shift",
    ),
    "shifted_exp": (
        "ct VECTOR, x MATRIX, shift VECTOR, out OUT",
        "c, s = ct[i], shift[i]\n" + _PLAIN.format("out[i, j] = c * math.exp(x[i, j] - s)"),
    ),
    "layer_norm": (
        "x MATRIX, weight VECTOR, bias VECTOR, eps VECTOR, out OUT",
        _loop("lanes[k] += x[i, j + k]")
        + "mean = fold(lanes, width) / F(n)"
        + _loop("v = x[i, j + k] - mean", "lanes[k] += v * v")
        + "scale = F(1.0) / math.sqrt(fold(lanes, width) / F(n) + eps[ZERO])\n"
        + _PLAIN.format("out[i, j] = (x[i, j] - mean) * scale * weight[j] + bias[j]"),
    ),
}
_LAYER_NORM_BACK = (
    _loop("lanes[k] += x[i, j + k]")
    + "mean = fold(lanes, width) / F(n)"
    + _loop("v = x[i, j + k] - mean", "lanes[k] += v * v")
    + "scale = F(1.0) / math.sqrt(fold(lanes, width) / F(n) + eps[ZERO])"
    + _loop("lanes[k] += ct[i, j + k] * weight[j + k]")
    + "first = fold(lanes, width) / F(n)"
    + _loop("lanes[k] += ct[i, j + k] * weight[j + k] * (x[i, j + k] - mean)")
    + "second = fold(lanes, width) / F(n) * scale * scale\n"
    + _PLAIN.format(
        "v = x[i, j] - mean\n"
        "    out[i, j] = (ct[i, j] * weight[j] - first - v * second) * scale\n"
        "    dweight[b, j] += ct[i, j] * (v * scale)\n"
        "    dbias[b, j] += ct[i, j]"
    )
)


def _text(arguments: str, body: str, dtype: np.dtype, *, blocks: bool = False) -> str:
    """Return a module whose kernel runs `body` for rows `lo` to `hi`, or blocks of `BLOCK` rows."""
    names, types = zip(*(a.split() for a in arguments.split(", ")), strict=True)
    matrix = next(n for n, t in zip(names, types, strict=True) if t == "MATRIX")
    body = vector.substituted(body)
    head = _HEAD.format(dtype=dtype.name, lanes=LANES, helper=source.HELPER)
    lines = [f"n, width = np.uintp({matrix}.shape[1]), ONE", "lanes = np.empty(LANES, F)"]
    lines += ["while width < n and width < LANES:", "    width += width"]
    indent = "    "
    if blocks:
        lines += [
            f"rows = np.uintp({matrix}.shape[0])",
            "for b in range(lo, hi):",
            "    for j in range(n):",
            "        dweight[b, j] = dbias[b, j] = NONE",
            f"    for i in range(b * np.uintp({BLOCK}), min(rows, (b + ONE) * np.uintp({BLOCK}))):",
        ]
        indent = "        "
    else:
        lines.append("for i in range(lo, hi):")
    lines += [indent + line for line in body.splitlines() if line]
    signature = ", ".join((*types, "types.uintp", "types.uintp"))
    return "\n".join(
        [
            head.strip(),
            "",
            "",
            vector.preamble(body, dtype),
            "",
            "",
            f"SIGNATURE = types.void({signature})",
            "",
            "",
            '@njit(SIGNATURE, cache=True, error_model="numpy", fastmath={"contract"}, nogil=True)',
            f"def kernel({', '.join((*names, 'lo', 'hi'))}):",
            *(f"    {line}" for line in lines),
            "",
        ]
    )


@cache
def _kernel(name: str, char: str) -> Loop:
    return Loop(_text(*_BODIES[name], np.dtype(char)))


@cache
def _layer_norm_back(char: str) -> Loop:
    arguments = "ct MATRIX, x MATRIX, weight VECTOR, eps VECTOR, out OUT, dweight OUT, dbias OUT"
    return Loop(_text(arguments, _LAYER_NORM_BACK, np.dtype(char), blocks=True))


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
    sums = [np.empty((blocks, n), x.dtype) for _ in range(2)]
    vectors = (np.ascontiguousarray(v).ravel() for v in (weight, np.array(eps, x.dtype)))
    args = (_matrix(ct, n), _matrix(x, n), *vectors, out.reshape(rows, n), *sums)
    threads.share(_layer_norm_back(x.dtype.char), args, blocks, x.size)
    dweight, dbias = (np.add.reduce(s, axis=0).reshape(weight.shape) for s in sums)
    return out, dweight, dbias
