"""Functions of `math` as branch-free text, which LLVM turns into vector code, as fast as NumPy's or faster.

A loop that calls the C library computes one element at a time. These have neither branches nor calls: range
reduction by adding a large number, a polynomial, and an exponent written into the bits. They are right for
every argument, subnormal, infinite and NaN ones too, to two units in the last place. Each polynomial is an
interpolation at Chebyshev points, or has the least error that Remez's algorithm finds. Only sin, cos and tan
beyond 2^22 are left to the C library: see `libm`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from fgrad.kernels.vector import errors, exponentials, logarithms, trigonometric

FAMILIES = (exponentials, logarithms, trigonometric, errors)
# functions of `kernels.mathlib` that are better written here
REPLACED = {
    **{name: f"def {name}(x):\n    return fast_{name}(x)" for name in ("exp2", "cbrt", "sigmoid")},
    "power": "def power(x, y):\n    return fast_pow(x, y)",
}
_LAYOUTS = {
    # dtype    integer  bits of the fraction, bias
    "float32": ("int32", 23, 127),
    "float64": ("int64", 52, 1023),
}
# log(2) in two parts: the first has so few bits that its product with an exponent is exact
_LOG2 = {
    "float32": (0.693145751953125, 1.4286068203094173e-06),
    "float64": (0.6931471803691238, 1.9082149292705877e-10),
}
_HEAD = """
I, D, L = np.{integer}, np.float64, np.int64
ROUNDING, LOG2E, LOG2_HIGH, LOG2_LOW = F({rounding!r}), F({log2e!r}), F({log2_high!r}), F({log2_low!r})
ROUNDING_BITS, FRACTION, BIAS = I({rounding_bits}), I({fraction}), I({bias})
TINY, WHOLE = F({tiny!r}), F({whole!r})
"""


def substituted(text: str) -> str:
    """Return `text` with these functions in place of those of `math`."""
    return _calls().sub(r"fast_\1(", text)


@cache
def _calls() -> re.Pattern[str]:
    names = "|".join(name.removeprefix("fast_") for name in _functions("float64")[1])
    return re.compile(rf"\bmath\.({names})\(")


def preamble(text: str, dtype: np.dtype[Any]) -> str:
    """Return the definitions of the functions that `text` calls, for numbers of `dtype`, called F there."""
    head, functions = _functions(dtype.name)
    todo, needed = _called(text), set()
    while todo:
        name = todo.pop()
        if name not in needed:
            needed.add(name)
            todo |= _called(functions[name])
    if not needed:
        return ""
    calls = sorted({name for f in needed for name in re.findall(r"\blibm_\w+(?=\()", functions[f])})
    if calls:
        head = f"# {', '.join(calls)} of fgrad.kernels.vector.libm\n\n{head}"
    return "\n\n\n".join([head, *(f for name, f in functions.items() if name in needed)])


def _called(text: str) -> set[str]:
    return set(re.findall(r"(?<!def )\bfast_\w+(?=\()", text))


@cache
def _functions(name: str) -> tuple[str, dict[str, str]]:
    """Return the constants and the functions, by name, for numbers of the dtype called `name`."""
    values = _values(name)
    values["sine"] = (trigonometric.REDUCTION[name] + trigonometric.SINE).format(**values).strip("\n")
    templates = [*(f.TEXT for f in FAMILIES), logarithms.POWER[name], logarithms.POWER_EDGES]
    text = "\n\n\n".join(t.strip() for t in templates).format(**values)
    functions = {re.findall(r"def (\w+)", part)[0]: part.strip() for part in text.split("\n\n\n")}
    return _HEAD.strip().format(**values), functions


def _values(name: str) -> dict[str, Any]:
    """Return what the templates are filled with."""
    integer, fraction, bias = _LAYOUTS[name]
    dtype = np.dtype(name).type
    info = np.finfo(dtype)
    rounding = 1.5 * 2.0**fraction
    values: dict[str, Any] = {
        "integer": integer,
        "rounding": rounding,
        "rounding_bits": int(dtype(rounding).view(integer)),
        "log2e": 1 / np.log(2.0).item(),
        "log2_high": _LOG2[name][0],
        "log2_low": _LOG2[name][1],
        "fraction": fraction,
        "bias": bias,
        "tiny": float(info.eps) / 4,
        "whole": 2.0**fraction,
        "root_half": int(dtype(np.sqrt(0.5)).view(integer)),
        "mantissa": 2**fraction - 1,
        "mask": -(2 ** ((fraction + 2) // 2)),
        "smallest": float(info.smallest_normal),
        "lift": 2.0**fraction,
    }
    for family in FAMILIES:
        values |= {key: _horner(c[name], *how) for (key, *how), c in family.COEFFICIENTS.items()}
        values |= family.NUMBERS[name]
    return values


def _horner(coefficients: Sequence[float], x: str, kind: str = "F") -> str:
    """Return the text of the sum of `coefficients[k] x**k`."""
    *lower, top = (f"{kind}({c!r})" for c in coefficients)
    text = top
    for c in reversed(lower):
        text = f"({text}) * {x} + {c}"
    return text
