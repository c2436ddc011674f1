"""Loops of universal functions, of NumPy and others, called by address inside compiled programs.

They need no Python as long as no element is an object, and give the bits that the function gives: it calls
the same loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.compat.numpy import Loop, loops_of
from fgrad.core.primitive import Universal
from fgrad.kernels import native

DTYPES = "?bhilqBHILQfdFD"  # of elements of loops that need no Python

_TEXT = """
CONTRACT = "args({names}), {conditions}"


def kernel(slots, args, lo, hi):
    places, steps = np.empty({count}, np.int64), np.empty({count}, np.int64)
    number, rest = np.empty(1, np.int64), np.empty({rest}, np.int64)
    first = np.int64(lo)
    number[0] = np.int64(hi) - first
{lines}
    invoke(args[{function}], address(places), address(number), address(steps), args[{data}])
"""


def loop(universal: Universal, operands: Sequence[np.dtype[Any]], result: np.dtype[Any]) -> Loop | None:
    """Return the loop of a function for these dtypes, if there is one that needs no Python."""
    ufunc, output, whole, _ = universal
    if whole and operands[0].kind not in "iu":
        return None
    if any(d.char not in DTYPES or not d.isnative for d in (*operands, result)):
        return None
    if ufunc is np.power and all(d.kind not in "fc" for d in operands):
        return None  # raises where an exponent is negative
    wanted, out = "".join(map(_letter, operands)), ufunc.nin + output
    for kinds, found in loops_of(ufunc).items():
        if kinds.startswith(wanted) and kinds[out] == _letter(result) and not set(kinds) - set(DTYPES):
            return found
    return None


def _letter(dtype: np.dtype[Any]) -> str:
    """Return the letter by which loops call a dtype, of those that are the same."""
    return {np.dtype("l").str: "l", np.dtype("L").str: "L"}.get(dtype.str, dtype.char)


def kernel(ufunc: np.ufunc, output: int) -> native.Kernel:
    """Return the kernel that keeps one of the outputs of loops.

    Its numbers are `numbers_of` a call; a step of its loop is an element.
    """
    given = ufunc.nin + 1  # arrays
    places = [*range(ufunc.nin), *[None] * ufunc.nout]
    places[ufunc.nin + output] = ufunc.nin
    lines, conditions = [], []
    for k, place in enumerate(places):
        if place is None:
            lines += [f"places[{k}], steps[{k}] = address(rest) + {16 * k}, 0"]  # some read what they wrote
        else:
            step = f"args[{given + place}]"
            lines += [f"places[{k}] = address(uint8_at(slots, args, {place})) + first * {step}"]
            lines += [f"steps[{k}] = {step}"]
    for k in range(given):
        conditions += [f"step{k} in (0, size{k})", f"max(hi * step{k}, size{k}) <= nbytes(x{k})"]
    names = [f"{word}{k}" for word in ("x", "step", "size") for k in range(given)]
    text = _TEXT.format(
        names=", ".join([*names, "function", "data"]),
        conditions=", ".join(conditions),
        count=ufunc.nargs,
        rest=2 * ufunc.nargs,
        lines="\n".join(f"    {line}" for line in lines),
        function=3 * given,
        data=3 * given + 1,
    )
    return native.deferred(text)


def numbers_of(found: Loop, slots: list[int], steps: list[int], sizes: list[int]) -> list[int]:
    """Return the numbers of a call of the kernel.

    Args:
        found: the loop.
        slots: of the operands, and of the result.
        steps: from element to element, in bytes: zero repeats the one there is.
        sizes: of elements, in bytes.
    """
    return [*slots, *steps, *sizes, found.function, found.data]
