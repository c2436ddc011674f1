"""Algebra of elements: what arithmetic with zeros, ones, signs, equal operands and known conditions gives.

What changes no bit is always done. Where a rule of a derivative says that zero wins over infinity and NaN
(`scale`, `multiply_no_nan`), a constant zero makes the product zero. The sign of a zero may change where two
choices with zeros are added. Products with zero, sums with +0.0 and differences of equal values stay as they
are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.compiler.simplify.constants import cast, is_constant, number
from fgrad.compiler.simplify.rewriting import Rewriting, Rules
from fgrad.core.primitive import ADDS, NEVER_NEGATIVE_ZERO, PRIMITIVES
from fgrad.core.program import Equation, Var

ALGEBRA = Rules()


# ---- sums, products and signs -----------------------------------------------------------------------


def _value(rw: Rewriting, e: Equation, x: Any) -> Any:
    """Return the number that an operand is, as `e` computes with it; None for what is unknown or complex."""
    return number(rw.scalar(x), e.outs[0].aval.dtype)


def is_zero(s: Any, *, negative: bool = False) -> bool:
    """Return whether a number is zero of one sign."""
    return s is not None and s == 0 and bool(np.signbit(float(s))) == negative


def _is_power_of_two(e: Equation, s: Any) -> bool:
    """Return whether products with a number are exact, and those with its reciprocal, short of the ends."""
    tiny = np.finfo(e.outs[0].aval.dtype).tiny.item()  # of long doubles, which Python lacks, one of those
    return bool(tiny <= abs(s) <= 1 / tiny and abs(np.frexp(s)[0]) == 0.5)


_FAR = 4  # a product is less exact below the smallest normal number by such a factor, which nobody sees


def _goes_outside(e: Equation, s: Any) -> bool:
    """Return whether a product may be taken first, and multiplied by a number then.

    Where the number is less than one, the product may be infinite that is not so otherwise.
    """
    return _is_power_of_two(e, s) and 1 <= abs(s) <= _FAR


def _kind(e: Equation) -> str:
    """Return the kind of the result, if all operands but Python's numbers have its dtype; else a dash."""
    dtype = e.outs[0].aval.dtype
    for a in e.args:
        own = a.aval.dtype if a.__class__ is Var else getattr(a, "dtype", dtype)
        if own != dtype:
            return "-"
    return dtype.kind


def _typed(e: Equation, value: Any) -> Any:
    """Return a number that the dtype of the result has."""
    return e.outs[0].aval.dtype.type(value)


def _outer(rw: Rewriting, e: Equation, x: Any, *names: str) -> Equation | None:
    """Return what makes `x`, if it can be done to the result instead."""
    made = rw.maker(x, *names)
    as_large = rw.aval(x).size == e.outs[0].aval.size  # so that it costs the same to either
    return made if made is not None and rw.uses[x] <= _SHARED and as_large else None


def _signs_outside(rw: Rewriting, e: Equation) -> Any:
    """(-x) (-y) = x y, and (-x) y = -(x y), for products and quotients."""
    x, y = e.args
    a, b = rw.negation(x, e), rw.negation(y, e)
    if a and b:
        return rw.make(e.name, a.args[0], b.args[0])
    if a and _outer(rw, e, x, "negative"):
        return rw.make("negative", rw.make(e.name, a.args[0], y))
    if b and _outer(rw, e, y, "negative"):
        return rw.make("negative", rw.make(e.name, x, b.args[0]))
    return None


_SHARED = 2  # uses of a sign or factor that goes outside of each of them, where it may meet another one


def _is_never_negative_zero(made: Equation | None) -> bool:
    return made is not None and NEVER_NEGATIVE_ZERO in PRIMITIVES[made.name].traits


@ALGEBRA.on_those(ADDS)
def addition(rw: Rewriting, e: Equation) -> Any:
    """X + -0.0 = x, x + x = 2 x, x + (-y) = x - y, and choices that complete each other."""
    x, y = e.args
    for a, b in ((x, y), (y, x)):
        s = _value(rw, e, b)
        if s is not None and s == 0:
            stays = is_zero(s, negative=True) or _is_never_negative_zero(rw.maker(a))
            if _kind(e) in "iu" or (stays and e.outs[0].aval.dtype.kind == "f"):
                return a
    if x is y and x.__class__ is Var and _kind(e) in "fiu":
        return rw.multiply(x, _typed(e, 2))
    for a, b in ((x, y), (y, x)):
        if made := rw.negation(b, e):
            return rw.subtract(a, made.args[0])
    if (common := _common_factor(rw, e)) is not None:
        return common
    return _choices(rw, x, y) if _kind(e) in "fiu" else None


def _common_factor(rw: Rewriting, e: Equation) -> Any:
    """C x + c y = c (x + y), for powers of two from one: less of them leave room for sums of large numbers.

    The factor is positive, because -2 (x - x) is -0.0, and 2 x - 2 x is not.
    """
    if _kind(e) != "f":
        return None
    first, second = (rw.maker(a, "multiply") if rw.single(a) else None for a in e.args)
    if not first or not second:
        return None
    c, d = (_value(rw, m, m.args[1]) for m in (first, second))
    if c is None or d is None or abs(c) != abs(d) or abs(c) < 1 or not _is_power_of_two(e, c):
        return None
    x, y = first.args[0], second.args[0]
    if e.name == "subtract":
        d = -d
    if c < 0 and d < 0:
        return None
    inside = rw.add(x, y) if c == d else rw.subtract(*((x, y) if c > 0 else (y, x)))
    return rw.multiply(inside, _typed(e, abs(c))) if rw.aval(inside) == e.outs[0].aval else None


def _choices(rw: Rewriting, x: Any, y: Any) -> Any:
    """where(c, a, 0) + where(c, 0, b) = where(c, a, b)."""
    first, second = rw.maker(x, "where"), rw.maker(y, "where")
    if not first or not second or first.args[0] is not second.args[0]:
        return None
    condition, a, b = first.args
    _, c, d = second.args
    if _none(rw, first, b) and _none(rw, second, c):
        return rw.where(condition, a, d)
    if _none(rw, first, a) and _none(rw, second, d):
        return rw.where(condition, c, b)
    return None


def _none(rw: Rewriting, e: Equation, x: Any) -> bool:
    return is_zero(_value(rw, e, x))


@ALGEBRA.on("subtract")
def subtraction(rw: Rewriting, e: Equation) -> Any:
    """X - 0.0 = x, -0.0 - x = -x, x - (-y) = x + y."""
    x, y = e.args
    s, t = _value(rw, e, x), _value(rw, e, y)
    if t is not None and t == 0 and (_kind(e) in "iu" or is_zero(t)):
        return x
    kind = _kind(e) if s is not None and s == 0 and y.__class__ is Var else "-"
    if kind == "i" or (kind == "f" and is_zero(s, negative=True)):
        return rw.make("negative", y)
    if made := rw.negation(y, e):
        return rw.add(x, made.args[0])
    made = rw.maker(x, "negative")
    if made and made.args[0] is y and _kind(e) == "f":
        return rw.multiply(y, _typed(e, -2))
    return _common_factor(rw, e)


@ALGEBRA.on("negative")
def negation(rw: Rewriting, e: Equation) -> Any:
    """-(-x) = x, -(c x) = (-c) x."""
    (x,) = e.args
    if made := rw.maker(x, "negative"):
        return made.args[0]
    made = rw.maker(x, "multiply") if rw.single(x) and _kind(e) == "f" else None
    if made and (s := _value(rw, made, made.args[1])) is not None:
        return rw.multiply(made.args[0], _typed(e, -s))
    return None


@ALGEBRA.on("multiply")
def product(rw: Rewriting, e: Equation) -> Any:
    """Products with ones, minus ones and powers of two; of a value with itself; signs go outside."""
    x, y = e.args
    kind = _kind(e)
    if is_constant(x) and y.__class__ is Var and rw.scalar(x) is not None:
        return rw.multiply(y, x)
    if kind not in "fiu":
        return None
    if x is y and x.__class__ is Var:
        return rw.make("square", x)
    s = _value(rw, e, y)
    if s is not None and x.__class__ is Var:
        return _multiple(rw, e, x, s)
    a, b = rw.negation(x, e), rw.negation(y, e)
    if a and b:
        return rw.multiply(a.args[0], b.args[0])
    for p, q, swapped in ((x, y, False), (y, x, True)):
        if made := _outer(rw, e, p, "negative"):
            pair = (q, made.args[0]) if swapped else (made.args[0], q)
            return rw.make("negative", rw.multiply(*pair))
        made = _outer(rw, e, p, "multiply") if kind == "f" else None
        if made and (c := _value(rw, made, made.args[1])) is not None and _goes_outside(made, c):
            pair = (q, made.args[0]) if swapped else (made.args[0], q)
            return rw.multiply(rw.multiply(*pair), made.args[1])
    return None


def _multiple(rw: Rewriting, e: Equation, x: Var, s: Any) -> Any:
    if s == 1:
        return x
    if s == 0:
        return rw.full(0, e.outs[0].aval) if _kind(e) in "iu" else None
    if s == -1 and _kind(e) in "fi":
        return rw.make("negative", x)
    if made := rw.maker(x, "negative"):
        return rw.multiply(made.args[0], _typed(e, -s)) if _kind(e) == "f" else None
    made = rw.maker(x, "multiply") if _kind(e) == "f" else None
    c = _value(rw, made, made.args[1]) if made else None
    if (
        made
        and c is not None
        and made.outs[0].aval.dtype == e.outs[0].aval.dtype
        and (_is_power_of_two(e, c) or _is_power_of_two(e, s))
        and _is_normal(e, c * s)
    ):
        return rw.multiply(made.args[0], _typed(e, c * s))
    return None


def _is_normal(e: Equation, s: Any) -> bool:
    """Return whether a number has all its digits in the dtype of the result."""
    limits = np.finfo(e.outs[0].aval.dtype)
    return bool(limits.tiny.item() <= abs(s) <= limits.max.item())


@ALGEBRA.on("divide")
def quotient(rw: Rewriting, e: Equation) -> Any:
    """X / 1 = x, division by a power of two is a product; signs go outside."""
    x, y = e.args
    if _kind(e) != "f":
        return None
    s = _value(rw, e, y)
    if s is not None and s == 1:
        return x
    if s is not None and _is_power_of_two(e, s):
        return rw.multiply(x, _typed(e, 1 / s))
    return _signs_outside(rw, e)


@ALGEBRA.on("scale", "multiply_no_nan")
def product_where_zero_wins(rw: Rewriting, e: Equation) -> Any:
    """Zero where a factor is; a plain product where that makes no difference: for a known cotangent
    without zeros, and for a known finite factor.
    """  # noqa: D205
    x, y = e.args
    if _kind(e) not in "fc":
        return None
    for a, _other, wins in ((x, y, True), (y, x, e.name == "multiply_no_nan")):
        if not is_constant(a):
            continue
        s = _value(rw, e, a)
        if wins and s is not None and s == 0:
            return rw.full(0, e.outs[0].aval)
        value = cast(a if rw.scalar(a) is None else rw.scalar(a), e.outs[0].aval.dtype)
        finite = bool(np.isfinite(value).all())
        nonzero = bool(np.count_nonzero(value) == np.size(value))
        if (e.name == "scale" and wins and nonzero) or (finite and (nonzero or not wins)):
            return rw.multiply(x, y)
    return _signs_outside(rw, e)


@ALGEBRA.on("power")
def power(rw: Rewriting, e: Equation) -> Any:
    """Powers 0 to 3 and -1: products and a quotient are exact to 1.5 ulp, as good as a fast power."""
    x, y = e.args
    s = _value(rw, e, y)
    if s is None or x.__class__ is not Var or x.aval.dtype != e.outs[0].aval.dtype or _kind(e) not in "fiu":
        return None
    if s == 0:
        return rw.full(1, e.outs[0].aval)
    if s == 1:
        return x
    if s == 2:
        return rw.make("square", x)
    if s == 3:
        return rw.multiply(rw.make("square", x), x)
    if s == -1 and _kind(e) == "f":
        return rw.divide(_typed(e, 1), x)
    return None


@ALGEBRA.on("square", "absolute", "fabs")
def even(rw: Rewriting, e: Equation) -> Any:
    """f(-x) = f(x)."""
    made = rw.maker(e.args[0], "negative", "absolute", "fabs")
    if made and _kind(e) == "f" and rw.aval(made.args[0]).dtype == e.outs[0].aval.dtype:
        return rw.make(e.name, made.args[0])
    return None


@ALGEBRA.on("positive", "stop_gradient", "discrete", "conjugate", "real")
def nothing(rw: Rewriting, e: Equation) -> Any:
    """These change no value, real ones at least: a simple program is not differentiated any more."""
    stays = e.name in {"positive", "stop_gradient", "discrete"}
    return e.args[0] if stays or (rw.aval(e.args[0]) == e.outs[0].aval and _kind(e) != "c") else None


@ALGEBRA.on("maximum", "minimum", "fmax", "fmin")
def extremum(rw: Rewriting, e: Equation) -> Any:
    """The larger of x and x is x."""
    return e.args[0] if e.args[0] is e.args[1] else None


# ---- truth and choice -------------------------------------------------------------------------------


@ALGEBRA.on("logical_and", "logical_or")
def connection(rw: Rewriting, e: Equation) -> Any:
    """Known operands decide, or make no difference."""
    decisive = e.name == "logical_or"
    for a, b in (e.args, e.args[::-1]):
        s = rw.scalar(a)
        if s is not None:
            if bool(s) is decisive:
                return rw.full(decisive, e.outs[0].aval)
            return b if rw.aval(b).dtype == bool else None
    return e.args[0] if e.args[0] is e.args[1] and rw.aval(e.args[0]).dtype == bool else None


@ALGEBRA.on("logical_not")
def denial(rw: Rewriting, e: Equation) -> Any:
    """Not not x = x."""
    denied = denial_of(rw, e.args[0])
    return denied if denied is not None and rw.aval(denied).dtype == bool else None


def denial_of(rw: Rewriting, x: Any) -> Any:
    """Return what `x` denies, None if it denies nothing."""
    made = rw.maker(x, "logical_not")
    return made.args[0] if made else None


@ALGEBRA.on("invert")
def inversion(rw: Rewriting, e: Equation) -> Any:
    """~x = not x, for truth values."""
    return rw.logical_not(e.args[0]) if rw.aval(e.args[0]).dtype == bool else None


@ALGEBRA.on("isfinite", "isnan", "isinf")
def finiteness(rw: Rewriting, e: Equation) -> Any:
    """Integers are finite, and signs do not matter."""
    if rw.aval(e.args[0]).dtype.kind in "biu":
        return rw.full(e.name == "isfinite", e.outs[0].aval)
    if made := rw.maker(e.args[0], "negative"):
        return rw.make(e.name, made.args[0])
    return None


@ALGEBRA.on("where")
def choice(rw: Rewriting, e: Equation) -> Any:
    """Choices whose condition is known, or asked twice, and choices between equal values."""
    c, x, y = e.args
    s = rw.scalar(c)
    dtype = e.outs[0].aval.dtype
    if s is not None:
        picked = x if s else y
        known = is_constant(picked) and not hasattr(picked, "dtype")
        return rw.full(cast(picked, dtype), e.outs[0].aval) if known else picked
    if x is y and x.__class__ is Var:
        return x
    a, b = rw.scalar(x), rw.scalar(y)
    if a is not None and b is not None:
        a, b = cast(a, dtype), cast(b, dtype)
        if rw.constants.key(a) == rw.constants.key(b):
            return rw.full(a, e.outs[0].aval)
    denied = denial_of(rw, c)
    if denied is not None:
        return rw.where(denied, y, x)
    inner = rw.maker(x, "where")
    if inner and inner.args[0] is c and rw.aval(x).dtype == rw.aval(inner.args[1]).dtype:
        return rw.where(c, inner.args[1], y)
    inner = rw.maker(y, "where")
    if inner and inner.args[0] is c and rw.aval(y).dtype == rw.aval(inner.args[2]).dtype:
        return rw.where(c, x, inner.args[2])
    return None
