"""Complex numbers as pairs of real ones: what atoms make of real and imaginary parts, by formulas.

Values, signs of zeros, infinities and branch cuts are those of NumPy, whose loops these formulas follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from fgrad.expr.atoms import LN2, LN10
from fgrad.expr.node import Expr, apply, var


class Real:
    """A real array, or number, in a formula."""

    __slots__ = ("value", "writer")

    def __init__(self, writer: Any, value: Any) -> None:
        self.writer, self.value = writer, value

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its dtype; that of a number alone is float64."""
        return np.dtype(getattr(getattr(self.value, "aval", self.value), "dtype", np.float64))

    def to(self, name: str, *others: Any) -> Real:
        """Return what a primitive makes of it."""
        values = [x.value if isinstance(x, Real) else x for x in others]
        return Real(self.writer, self.writer.make(name, self.value, *values))

    def choose(self, x: Any, y: Any) -> Real:
        """Return `x` where it is true, else `y`; one of them is a number beside an array of its dtype."""
        return self.to("where", x, y)

    def _zero_where(self, kind: Callable[..., bool], name: str, *others: Any) -> Real:
        """Return what a primitive makes of it, which is zero or NaN if any, or all, operands are that."""
        made = self.to(name, *others)
        values = [x.value if isinstance(x, Real) else x for x in (self, *others)]
        if not isinstance(made.value, float) and kind(map(self.writer.is_void, values)):
            self.writer.void.add(made.value)
        return made

    def __add__(self, other: Any) -> Real:
        return self._zero_where(all, "add", other)

    def __sub__(self, other: Any) -> Real:
        return self._zero_where(all, "subtract", other)

    def __mul__(self, other: Any) -> Real:
        return self._zero_where(any, "multiply", other)

    def __truediv__(self, other: Any) -> Real:
        return self.to("divide", other)

    def __neg__(self) -> Real:
        return self._zero_where(all, "negative")

    def __abs__(self) -> Real:
        return self.to("absolute")

    def __ge__(self, other: Any) -> Real:
        return self.to("greater_equal", other)

    def __lt__(self, other: Any) -> Real:
        return self.to("less", other)

    def __gt__(self, other: Any) -> Real:
        return self.to("greater", other)

    def __and__(self, other: Any) -> Real:
        return self.to("logical_and", other)

    def __or__(self, other: Any) -> Real:
        return self.to("logical_or", other)

    def equals(self, other: Any) -> Real:
        """Return whether it is equal to something."""
        return self.to("equal", other)


Number: TypeAlias = tuple[Real, Real]


# ---- arithmetic -----------------------------------------------------------------------------------


def truth(re: Real, im: Real) -> Real:
    """Return whether either part is not zero."""
    return re.to("not_equal", 0.0) | im.to("not_equal", 0.0)


def product(x: Number, y: Number) -> Number:
    """Return a product."""
    (a, b), (c, d) = x, y
    return a * c - b * d, a * d + b * c


def is_zero(x: Number) -> Real:
    """Return whether both parts are zero."""
    return x[0].equals(0.0) & x[1].equals(0.0)


def unless(lost: Real, x: Number) -> Number:
    """Return a number, or zero where it is lost."""
    return lost.choose(0.0, x[0]), lost.choose(0.0, x[1])


def divide(x: Number, y: Number) -> Number:
    """Divide as NumPy does (Smith 1962): by the larger part first, so that no square overflows."""
    (a, b), (c, d) = x, y
    large = abs(c) >= abs(d)
    p, q = large.choose(c, d), large.choose(d, c)
    ratio = q / p
    scale = Real(p.writer, 1.0) / (p + q * ratio)
    re = (large.choose(a, b) + large.choose(b, a) * ratio) * scale
    im = large.choose(b - a * ratio, b * ratio - a) * scale
    zero = is_zero(y)
    return zero.choose(a / abs(c), re), zero.choose(b / abs(c), im)


def _reciprocal(x: Number) -> Number:
    a, b = x
    one, large = Real(a.writer, 1.0), abs(a) >= abs(b)
    p, q = large.choose(a, b), large.choose(b, a)
    ratio = q / p
    length = p + q * ratio
    return large.choose(one, ratio) / length, -large.choose(ratio, one) / length


def power(x: Number, n: int) -> Number:
    """Multiply as NumPy does for small integral exponents."""
    writer = x[0].writer
    one, zero = (Real(writer, 1.0), Real(writer, 0.0)), is_zero(x)
    found = x if 0 < n < 4 else one
    if 0 < n < 4:
        for _ in range(n - 1):
            found = product(x, found)
    else:
        left, square = abs(n), x
        while left:
            found = product(found, square) if left % 2 else found
            left //= 2
            square = product(square, square) if left else square
    if n > 0:
        return unless(zero, found)
    re, im = divide(one, found)
    return zero.choose(np.nan, re), zero.choose(np.nan, im)


# ---- elementary functions -------------------------------------------------------------------------


def _exp(z: Number) -> Number:
    """Compute exp(x) (cos y, sin y), by halves of x where exp(x) is too large."""
    x, y = z
    c, s = y.to("cos"), y.to("sin")
    if x.writer.is_void(x.value):
        size = x + 1.0
        return size * c, y.equals(0.0).choose(y, size * s)
    large = x > _exponent(z)
    size = large.choose(x * 0.5, x).to("exp")
    re, im = size * c, size * s
    re, im = large.choose(re * size, re), large.choose(im * size, im)
    lost = x.to("isinf") & _is_lost(y)  # C gives zero and infinity any angle
    re, im = lost.choose(size, re), (lost & (x < 0.0)).choose(size.to("copysign", y), im)
    return re, y.equals(0.0).choose(y, im)


def _limits(z: Number) -> Any:
    return np.finfo(next((x.dtype for x in z if not isinstance(x.value, float)), np.float64))


def _exponent(z: Number) -> float:
    """Return up to which whole number `exp` is finite."""
    return float(np.floor(np.log(_limits(z).max)))


def _is_lost(x: Real) -> Real:
    return x.to("isfinite").to("logical_not")


def _hyperbolic(y: Real, limit: float) -> tuple[Callable[[Real], Real], Callable[[Real], Real]]:
    """Return what multiplies by cosh(y), and by sinh(y), which may be too large themselves."""
    large, half = abs(y) > limit, (abs(y) * 0.5).to("exp")
    cosh, sinh, side = y.to("cosh"), y.to("sinh"), (half * 0.5).to("copysign", y)
    return (
        lambda x: large.choose(half * 0.5 * x * half, cosh * x),
        lambda x: large.choose(side * x * half, sinh * x),
    )


def _sine(z: Number) -> Number:
    x, y = z
    cosh, sinh = _hyperbolic(y, _exponent(z))
    re, im, lost = cosh(x.to("sin")), sinh(x.to("cos")), _is_lost(x)
    im = (lost & y.equals(0.0)).choose(y, (lost & y.to("isinf")).choose(np.inf, im))
    return x.equals(0.0).choose(x, re), im


def _cosine(z: Number, *, sign: int) -> Number:
    x, y = z
    cosh, sinh = _hyperbolic(y, _exponent(z))
    re, im = cosh(x.to("cos")), sinh(x.to("sin"))
    im = x.equals(0.0).choose(x * Real(x.writer, 1.0).to("copysign", y), im)
    im = -im if sign < 0 else im
    im = (x.equals(0.0) & y.to("isnan")).choose(x, im)
    lost = _is_lost(x)
    return (lost & y.to("isinf")).choose(np.inf, re), (lost & y.equals(0.0)).choose(0.0, im)


def _swapped(z: Number) -> Number:
    return z[1], z[0]


def _sqrt(z: Number) -> Number:
    """Take the root of half of length plus size, scaled so that it neither overflows nor vanishes."""
    x, y = z
    (u, v), (large, small), far = _scaled(z)
    half = ((u.to("hypot", v) + u) * 0.5).to("sqrt")
    half = large.choose(half * 2.0**far, small.choose(half * 2.0**-far, half))
    zero, left = is_zero(z), x < 0.0
    other = abs(y) / half * 0.5
    re, im = left.choose(other, half), left.choose(half, other).to("copysign", y)
    re, im = zero.choose(0.0, re), zero.choose(y, im)
    im = y.to("isnan").choose(left.choose(half, y), im)
    infinite = y.to("isinf")
    return infinite.choose(np.inf, re), infinite.choose(y, im)


def _scaled(z: Number) -> tuple[Number, Number, int]:
    """Return the sizes of both parts times a power of 4, whether they were too large or small, and it."""
    sizes = abs(z[0]), abs(z[1])
    far = _limits(z).maxexp // 4
    most = sizes[0].to("maximum", sizes[1])
    large, small = most > 2.0 ** (3 * far), most < 2.0 ** (-3 * far)
    u, v = (large.choose(x * 4.0**-far, small.choose(x * 4.0**far, x)) for x in sizes)
    return (u, v), (large, small), far


def _log(z: Number) -> Number:
    """Return the logarithm of the length and the angle; near one from its square less one, in two numbers."""
    x, y = z
    (u, v), (large, small), far = _scaled(z)
    length = u.to("hypot", v)
    re, shift = length.to("log"), far * float(np.log(4.0))
    re = large.choose(re + shift, small.choose(re - shift, re))
    long, short = u.to("maximum", v), u.to("minimum", v)
    excess = long - 1.0
    first, square = excess * 2.0, _squared(excess)
    other = _squared(short)
    first, lost = _added(first, other[0])
    first, rest = _added(first, square[0])
    near = (length > 0.75) & (length < 1.5)
    square_less_one = near.choose(first + (lost + rest + square[1] + other[1]), 0.0)
    return near.choose(square_less_one.to("log1p") * 0.5, re), y.to("arctan2", x)


def _scaled_by(z: Number, factor: float) -> Number:
    return z[0] * factor, z[1] * factor


def _added(x: Real, y: Real) -> Number:
    """Return a sum and what it has lost by rounding (Knuth)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _squared(x: Real) -> Number:
    """Return a square and what it has lost by rounding (Dekker)."""
    spread = x * (2.0 ** ((_limits((x, x)).nmant + 2) // 2) + 1.0)
    high = spread - (spread - x)
    low = x - high
    square = x * x
    return square, (high * high - square) + high * low * 2.0 + low * low


FORMULAS: dict[str, Callable[..., Any]] = {  # of an atom: (numbers) -> a number, or a real one
    "positive": lambda x: x,
    "negative": lambda x: (-x[0], -x[1]),
    "conjugate": lambda x: (x[0], -x[1]),
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "subtract": lambda x, y: (x[0] - y[0], x[1] - y[1]),
    "multiply": product,
    "square": lambda x: product(x, x),
    "scale": lambda x, y: unless(is_zero(x), product(x, y)),
    "multiply_no_nan": lambda x, y: unless(is_zero(x) | is_zero(y), product(x, y)),
    "divide": divide,
    "reciprocal": _reciprocal,
    "absolute": lambda x: x[0].to("hypot", x[1]),
    "equal": lambda x, y: x[0].equals(y[0]) & x[1].equals(y[1]),
    "not_equal": lambda x, y: x[0].to("not_equal", y[0]) | x[1].to("not_equal", y[1]),
    "isnan": lambda x: x[0].to("isnan") | x[1].to("isnan"),
    "isinf": lambda x: x[0].to("isinf") | x[1].to("isinf"),
    "isfinite": lambda x: x[0].to("isfinite") & x[1].to("isfinite"),
    "logical_not": is_zero,
    "logical_and": lambda x, y: truth(*x) & truth(*y),
    "logical_or": lambda x, y: truth(*x) | truth(*y),
    "logical_xor": lambda x, y: truth(*x).to("logical_xor", truth(*y)),
    "exp": _exp,
    "sin": _sine,
    "sinh": lambda z: _swapped(_sine(_swapped(z))),
    "cos": lambda z: _cosine(z, sign=-1),
    "cosh": lambda z: _cosine(_swapped(z), sign=1),
    "sqrt": _sqrt,
    "log": _log,
    "log2": lambda z: _scaled_by(_log(z), 1 / LN2),
    "log10": lambda z: _scaled_by(_log(z), 1 / LN10),
}


# ---- as scalar expressions ------------------------------------------------------------------------


class _Scalar:
    """An expression of real numbers of a dtype."""

    __slots__ = ("dtype", "expr")

    def __init__(self, dtype: np.dtype[Any], expr: Expr) -> None:
        self.dtype, self.expr = dtype, expr


class _Writer:
    """Writes formulas as scalar expressions of real numbers of a dtype."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.void: set[Any] = set()

    def make(self, name: str, *args: Any) -> _Scalar:
        given = [a.expr if isinstance(a, _Scalar) else a for a in args]
        return _Scalar(self.dtype, apply("fabs" if name == "absolute" else name, *given))

    def is_void(self, _: Any) -> bool:
        return False


def expressions(name: str, dtype: np.dtype[Any]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Return the parts of a number, and those of what an atom makes of it, whose parts have a dtype."""
    writer, params = _Writer(dtype), (var("re"), var("im"))
    re, im = (Real(writer, _Scalar(dtype, p)) for p in params)
    made: Number = FORMULAS[name]((re, im))
    return params, tuple([x.value.expr for x in made])
