"""Concatenation of many arrays, each copied to its place.

Loops over the result would ask of each element which of the arrays it is from; that is for few arrays, or for
short axes, which are written out.
"""

from __future__ import annotations

import math

from fgrad.compiler.elements import SMALL, shape_of
from fgrad.compiler.library import LIBRARY, Launch
from fgrad.core.primitive import ASSEMBLES, PRIMITIVES
from fgrad.core.program import Equation, Var
from fgrad.kernels import native

FEW = 4  # arrays, of which a loop can ask for each element
BLOCK = 4096  # words of the result that stay in the cache while all arrays are copied there

_TEXT = """
CONTRACT = (
    "args(out, rows, width, size, arrays, *parts), len(parts) == 3 * arrays, (hi - 1) * size < rows, "
    "nbytes(out) >= rows * width * {bytes}, sum(parts[1::3]) <= width, "
    "all(nbytes(x) >= rows * count * {bytes} for x, count in zip(parts[::3], parts[1::3])), "
    "all(0 <= start <= width - count for count, start in zip(parts[1::3], parts[2::3]))"
)
ONE = np.uintp(1)


def kernel(slots, args, lo, hi):
    # words of a row, rows of a block, arrays: of each the slot, words of a row, where they start
    out = {integer}_at(slots, args, 0)
    rows, width, size = np.uintp(args[1]), np.uintp(args[2]), np.uintp(args[3])
    for block in range(lo, hi):
        first = block * size
        last = min(first + size, rows)
        for k in range(args[4]):
            own = part(args, 5 + 3 * k)
            x = alone({integer}_at(slots, own, 0))
            count, start = np.uintp(own[1]), np.uintp(own[2])
            if count == ONE:
                for i in range(first, last):
                    out[i * width + start] = x[i]
            else:
                for i in range(first, last):
                    for j in range(count):
                        out[i * width + start + j] = x[i * count + j]
"""


def is_joined(equation: Equation) -> bool:
    """Return whether an equation puts many arrays side by side."""
    (out,) = equation.outs
    axis = equation.params.get("axis", 0)
    return len(equation.args) > FEW and out.aval.size > 0 and out.aval.shape[axis] > SMALL


def joined(equation: Equation, slots: dict[Var, int]) -> Launch | None:
    """Return the copies that an equation is; None where arrays would have to be converted."""
    (out,) = equation.outs
    if not is_joined(equation) or any(not isinstance(x, Var) for x in equation.args):
        return None
    if any(x.aval.dtype != out.aval.dtype for x in equation.args):
        return None
    axis = equation.params.get("axis", 0)
    bytes_ = out.aval.dtype.itemsize
    word = min(bytes_, 8)
    rows = math.prod(out.aval.shape[:axis])
    width = out.aval.size // rows * (bytes_ // word)
    arrays, start = [], 0
    for x in equation.args:
        count = math.prod(shape_of(x)) // rows * (bytes_ // word)
        if count:
            arrays += [slots[x], count, start]
        start += count
    size = max(1, BLOCK // width)
    kernel = native.deferred(_TEXT.format(integer=f"int{8 * word}", bytes=word))
    numbers = [slots[out], rows, width, size, len(arrays) // 3, *arrays]
    return Launch(kernel, numbers, -(-rows // size), out.aval.size)


LIBRARY.update({name: joined for name, p in PRIMITIVES.items() if ASSEMBLES in p.traits})
