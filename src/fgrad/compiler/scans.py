"""Scans along an axis: running sums and products, argmax and argmin.

Additions follow one another as NumPy's do, so results are the same to the last bit; several lines go side by
side, because each addition waits for the one before.
"""

from __future__ import annotations

import math
from typing import Any

from fgrad.compiler.library import LIBRARY, Launch
from fgrad.core.program import Equation, Var
from fgrad.kernels import native

SIDE = 8  # lines that run side by side
WIDTH = 512  # of lines that lie side by side: so many of them stay in the cache
FEW = 4096  # elements, of which NumPy's search for the largest takes longer to call than it saves

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
                    out[here + k] = out[here + k - inner] {sign} x[here + k]
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
                    total = total {sign} x[i * n + j]
                    out[i * n + j] = total
"""

_PLACE = """
CONTRACT = "args(x, out, n, inner), min(n, inner) > 0, hi <= len(out), -(-hi // inner) * n * inner <= len(x)"
ONE = np.uintp(1)


def kernel(slots, args, lo, hi):
    x, out = alone({dtype}_at(slots, args, 0)), int64_at(slots, args, 1)
    n, inner = np.uintp(args[2]), np.uintp(args[3])
    for i in range(lo, hi):
        first = i // inner * n * inner + i % inner
        best = x[first]
        place = np.int64(0)
        for j in range(ONE, n):
            y = x[first + j * inner]
            better = y {sign} best or (y != y and best == best)  # the first NaN wins
            best = y if better else best
            place = np.int64(j) if better else place
        out[i] = place
"""


def _running(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the running sums or products of an array."""
    (x,), (out,) = equation.args, equation.outs
    if not is_plain(x) or x.aval.dtype != out.aval.dtype:
        return None
    sign = {"cumsum": "+", "cumprod": "*"}[equation.name]
    starts, steps = [], []
    for k in range(SIDE):
        at = f"first + np.uintp({k}) * n"
        starts += [f"t{k} = x[{at}]", f"out[{at}] = t{k}"]
        steps += [f"t{k} = t{k} {sign} x[{at} + j]", f"out[{at} + j] = t{k}"]
    text = _RUNNING.format(
        dtype=x.aval.dtype.name,
        sign=sign,
        side=SIDE,
        width=WIDTH,
        starts="\n".join(f"            {line}" for line in starts),
        steps="\n".join(f"                {line}" for line in steps),
    )
    outer, n, inner = lengths(x, equation.params["axis"])
    blocks = -(-outer // SIDE) if inner == 1 else outer * -(-inner // WIDTH)
    numbers = [slots[x], slots[out], outer, n, inner]
    return Launch(native.deferred(text), numbers, blocks, x.aval.size)


def _place(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the places of the largest or least elements of small arrays."""
    (x,), (out,) = equation.args, equation.outs
    if not is_plain(x) or x.aval.size > FEW or out.aval.dtype.name != "int64":
        return None
    sign = {"argmax": ">", "argmin": "<"}[equation.name]
    outer, n, inner = lengths(x, equation.params["axis"])
    kernel = native.deferred(_PLACE.format(dtype=x.aval.dtype.name, sign=sign))
    return Launch(kernel, [slots[x], slots[out], n, inner], outer * inner, x.aval.size)


def is_plain(x: Any) -> bool:
    """Return whether these kernels can read an operand."""
    return isinstance(x, Var) and x.aval.size > 0 and x.aval.dtype.char in "fdlq" and x.aval.dtype.isnative


def lengths(x: Var, axis: int | None) -> tuple[int, int, int]:
    """Return how many elements there are before, along and behind an axis."""
    shape = x.aval.shape
    if axis is None:
        return 1, x.aval.size, 1
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


LIBRARY.update({"cumsum": _running, "cumprod": _running, "argmax": _place, "argmin": _place})
