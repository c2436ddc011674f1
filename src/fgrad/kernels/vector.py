"""Functions of `math` as branch-free text, which LLVM turns into vector code, as fast as NumPy's.

A loop that calls the C library computes one element at a time. These have no branches and no calls: range
reduction by adding a large number, a polynomial, and an exponent written into the bits. They are right for
every argument, subnormal, infinite and NaN ones too, to two units in the last place (erfc: four).
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np

from fgrad.expr.special import CENTER, ERFC, FAR

# (exp(r) - 1 - r) / r^2 for |r| <= log(2) / 2, interpolated at Chebyshev points
EXP = {
    "float32": (
        *(0.5000000014291086, 0.16666666722230095, 0.041666456777923716),
        *(0.008333297063820803, 0.0013934544520014336, 0.00019900443821049257),
    ),
    "float64": (
        *(0.5000000000000001, 0.1666666666666667, 0.04166666666662063, 0.008333333333325544),
        *(0.0013888888918941191, 0.00019841269876866175, 2.4801518638753758e-05, 2.7557252831535417e-06),
        *(2.762133974738188e-07, 2.5106275452329115e-08),
    ),
}
# (atanh(s) / s - 1) / s^2 for |s| <= 0.172, in s^2, likewise
ATANH = {
    "float32": (0.33333333275615173, 0.20000062176817815, 0.1427527332446269, 0.11668860824318344),
    "float64": (
        *(0.3333333333333335, 0.19999999999947776, 0.14285714313866574, 0.11111105426222011),
        *(0.09091454710332601, 0.07665527400213447, 0.07312303868710124),
    ),
}
# log(2) in two parts: the first has so few bits that its product with an exponent is exact
LOG2 = {
    "float32": (0.693145751953125, 1.4286068203094173e-06),
    "float64": (0.6931471803691238, 1.9082149292705877e-10),
}
LAYOUTS = {
    # dtype    integer  bits of the fraction, bias, exp overflows above, is zero below
    "float32": ("int32", 23, 127, 88.9, -106.0),
    "float64": ("int64", 52, 1023, 709.9, -747.0),
}

_CALLS = {
    "fast_exp": ("fast_exp_of",),
    "fast_expm1": (),
    "fast_log1p": (),
    "fast_tanh": ("fast_expm1",),
    "fast_erfc": ("fast_exp_of",),
}
_TEXT = """
I = np.{integer}
ROUNDING, LOG2E, LOG2_HIGH, LOG2_LOW = F({rounding!r}), F({log2e!r}), F({high!r}), F({low!r})
ROUNDING_BITS, FRACTION, BIAS = I({rounding_bits}), I({fraction}), I({bias})


@helper
def fast_exp_of(x, rest):
    # exp(x + rest), where rest is far below x
    x = F({largest!r}) if x > F({largest!r}) else F({smallest!r}) if x < F({smallest!r}) else x
    t = F(x * LOG2E + ROUNDING)
    n = t - ROUNDING
    r = ((x - n * LOG2_HIGH) - n * LOG2_LOW) + rest
    y = F(1.0) + (r + r * r * ({exp}))
    k = I(F(t).view(I) - ROUNDING_BITS)
    half = I(k >> I(1))  # two factors, so that subnormal results are right
    rest = I(k - half)
    return y * F(I((half + BIAS) << FRACTION).view(F)) * F(I((rest + BIAS) << FRACTION).view(F))


@helper
def fast_exp(x):
    return fast_exp_of(x, F(0.0))


@helper
def fast_expm1(x):
    x = F({largest!r}) if x > F({largest!r}) else F(-60.0) if x < F(-60.0) else x
    t = F(x * LOG2E + ROUNDING)
    n = t - ROUNDING
    r = (x - n * LOG2_HIGH) - n * LOG2_LOW
    y = r + r * r * ({exp})
    k = I(F(t).view(I) - ROUNDING_BITS)
    power = F(I((k + BIAS - I(1)) << FRACTION).view(F))  # half of it, which cannot overflow
    return math.copysign(F(2.0) * (power * y + (power - F(0.5))), x)


@helper
def fast_tanh(x):
    y = fast_expm1(F(-2.0) * abs(x))
    return math.copysign(-y / (y + F(2.0)), x)


@helper
def fast_log1p(x):
    # Tang (1990), ACM Trans. Math. Softw. 16, 378: the mantissa, and what was lost in 1 + x
    u = F(x + F(1.0))
    bits = I(F(u).view(I) - I({root_half}))
    k = I(bits >> FRACTION)
    f = F(I((bits & I({mantissa})) + I({root_half})).view(F)) - F(1.0)
    s = f / (F(2.0) + f)
    w = s * s
    n = F(k)
    y = n * LOG2_HIGH + (f - (s * (f - F(2.0) * w * ({atanh})) - (n * LOG2_LOW + (x - (u - F(1.0))) / u)))
    y = math.copysign(y, x) if F(-1.0) < x < F(np.inf) else x
    return y if x > F(-1.0) else F(-np.inf) if x == F(-1.0) else F(np.nan)


@helper
def fast_erfc(x):
    z = abs(x)
    z = F({far!r}) if z > F({far!r}) else z
    q = F({center!r}) / (z + F({center!r}))
    t = F(1.0) - F(2.0) * q
    y = q * ({erfc})
    head = F(I(F(z).view(I) & I({mask})).view(F))
    square = F(z * z)
    y = y * fast_exp_of(-square, (square - head * head) - (z - head) * (z + head))  # z^2 in two parts
    return F(2.0) - y if x < F(0.0) else y
"""


def substituted(text: str) -> str:
    """Return `text` with these functions in place of those of `math`."""
    return re.sub(r"\bmath\.(exp|expm1|log1p|tanh|erfc)\(", r"fast_\1(", text)


def preamble(text: str, dtype: np.dtype) -> str:
    """Return the definitions of the functions that `text` calls, for numbers of `dtype`, called F there."""
    needed = {name for name in _CALLS if f"{name}(" in text}
    needed.update(*(_CALLS[name] for name in needed))
    head, *functions = _definitions(dtype.name)
    used = [f for f in functions if any(f"def {name}(" in f for name in needed)]
    return "\n\n\n".join([head, *used]) if used else ""


@cache
def _definitions(name: str) -> list[str]:
    integer, fraction, bias, largest, smallest = LAYOUTS[name]
    dtype = np.dtype(name).type
    rounding = 1.5 * 2.0**fraction
    high, low = LOG2[name]

    def bits(x: float) -> int:
        return int(dtype(x).view(integer))

    text = _TEXT.format(
        integer=integer,
        rounding=rounding,
        rounding_bits=bits(rounding),
        log2e=float(1 / np.log(2)),
        high=high,
        low=low,
        fraction=fraction,
        bias=bias,
        largest=largest,
        smallest=smallest,
        root_half=bits(np.sqrt(0.5)),
        mantissa=2**fraction - 1,
        mask=-(2 ** ((fraction + 2) // 2)),
        far=FAR,
        center=CENTER,
        exp=_horner(EXP[name], "r"),
        atanh=_horner(ATANH[name], "w"),
        erfc=_horner(ERFC[name], "t"),
    )
    return [part.strip() for part in text.split("\n\n\n")]


def _horner(coefficients: tuple[float, ...], x: str) -> str:
    *lower, top = (f"F({c!r})" for c in coefficients)
    text = top
    for c in reversed(lower):
        text = f"({text}) * {x} + {c}"
    return text
