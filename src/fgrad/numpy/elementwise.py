"""NumPy's element-wise functions; derivative, batch and shape rules come with their rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.primitive import ROWS
from fgrad.core.tensor import apply_unary, unary
from fgrad.numpy.registry import implements, operator, ufunc_keywords
from fgrad.ops.linear import convert


@implements(np.positive)
def positive(x: Any, /, **kw: Any) -> Any:
    """Return the argument itself."""
    return ufunc_keywords("positive", x, **kw) if kw else apply_unary(ROWS["positive"], x)


@implements(np.negative)
def negative(x: Any, /, **kw: Any) -> Any:
    """Return the negative."""
    return ufunc_keywords("negative", x, **kw) if kw else apply_unary(ROWS["negative"], x)


@implements(np.absolute)
def absolute(x: Any, /, **kw: Any) -> Any:
    """Return the absolute value; the slope at zero is zero, for complex z it is conj(z) / |z|."""
    return ufunc_keywords("absolute", x, **kw) if kw else apply_unary(ROWS["absolute"], x)


@implements(np.fabs)
def fabs(x: Any, /, **kw: Any) -> Any:
    """Return the absolute value of real elements; the slope at zero is zero."""
    return ufunc_keywords("fabs", x, **kw) if kw else apply_unary(ROWS["fabs"], x)


@implements(np.sign)
def sign(x: Any, /, **kw: Any) -> Any:
    """Return the sign, for complex z it is z / |z|; the slope of real elements is zero everywhere."""
    return ufunc_keywords("sign", x, **kw) if kw else apply_unary(ROWS["sign"], x)


@implements(np.square)
def square(x: Any, /, **kw: Any) -> Any:
    """Return the square."""
    return ufunc_keywords("square", x, **kw) if kw else apply_unary(ROWS["square"], x)


@implements(np.sqrt)
def sqrt(x: Any, /, **kw: Any) -> Any:
    """Return the square root; the slope at zero is inf, and zero where the cotangent is zero."""
    return ufunc_keywords("sqrt", x, **kw) if kw else apply_unary(ROWS["sqrt"], x)


@implements(np.cbrt)
def cbrt(x: Any, /, **kw: Any) -> Any:
    """Return the cube root of real elements."""
    return ufunc_keywords("cbrt", x, **kw) if kw else apply_unary(ROWS["cbrt"], x)


@implements(np.reciprocal)
def reciprocal(x: Any, /, **kw: Any) -> Any:
    """Return 1 / x."""
    return ufunc_keywords("reciprocal", x, **kw) if kw else apply_unary(ROWS["reciprocal"], x)


@implements(np.exp)
def exp(x: Any, /, **kw: Any) -> Any:
    """Return e to the power of each element."""
    return ufunc_keywords("exp", x, **kw) if kw else apply_unary(ROWS["exp"], x)


@implements(np.exp2)
def exp2(x: Any, /, **kw: Any) -> Any:
    """Return 2 to the power of each element."""
    return ufunc_keywords("exp2", x, **kw) if kw else apply_unary(ROWS["exp2"], x)


@implements(np.expm1)
def expm1(x: Any, /, **kw: Any) -> Any:
    """Return exp(x) - 1 without loss of accuracy near zero."""
    return ufunc_keywords("expm1", x, **kw) if kw else apply_unary(ROWS["expm1"], x)


@implements(np.log)
def log(x: Any, /, **kw: Any) -> Any:
    """Return the natural logarithm."""
    return ufunc_keywords("log", x, **kw) if kw else apply_unary(ROWS["log"], x)


@implements(np.log2)
def log2(x: Any, /, **kw: Any) -> Any:
    """Return the logarithm to base 2."""
    return ufunc_keywords("log2", x, **kw) if kw else apply_unary(ROWS["log2"], x)


@implements(np.log10)
def log10(x: Any, /, **kw: Any) -> Any:
    """Return the logarithm to base 10."""
    return ufunc_keywords("log10", x, **kw) if kw else apply_unary(ROWS["log10"], x)


@implements(np.log1p)
def log1p(x: Any, /, **kw: Any) -> Any:
    """Return log(1 + x) without loss of accuracy near zero."""
    return ufunc_keywords("log1p", x, **kw) if kw else apply_unary(ROWS["log1p"], x)


@implements(np.sin)
def sin(x: Any, /, **kw: Any) -> Any:
    """Return the sine; x in radians."""
    return ufunc_keywords("sin", x, **kw) if kw else apply_unary(ROWS["sin"], x)


@implements(np.cos)
def cos(x: Any, /, **kw: Any) -> Any:
    """Return the cosine; x in radians."""
    return ufunc_keywords("cos", x, **kw) if kw else apply_unary(ROWS["cos"], x)


@implements(np.tan)
def tan(x: Any, /, **kw: Any) -> Any:
    """Return the tangent; x in radians."""
    return ufunc_keywords("tan", x, **kw) if kw else apply_unary(ROWS["tan"], x)


@implements(np.arcsin)
def arcsin(x: Any, /, **kw: Any) -> Any:
    """Return the inverse sine, in radians."""
    return ufunc_keywords("arcsin", x, **kw) if kw else apply_unary(ROWS["arcsin"], x)


@implements(np.arccos)
def arccos(x: Any, /, **kw: Any) -> Any:
    """Return the inverse cosine, in radians."""
    return ufunc_keywords("arccos", x, **kw) if kw else apply_unary(ROWS["arccos"], x)


@implements(np.arctan)
def arctan(x: Any, /, **kw: Any) -> Any:
    """Return the inverse tangent, in radians."""
    return ufunc_keywords("arctan", x, **kw) if kw else apply_unary(ROWS["arctan"], x)


@implements(np.sinh)
def sinh(x: Any, /, **kw: Any) -> Any:
    """Return the hyperbolic sine."""
    return ufunc_keywords("sinh", x, **kw) if kw else apply_unary(ROWS["sinh"], x)


@implements(np.cosh)
def cosh(x: Any, /, **kw: Any) -> Any:
    """Return the hyperbolic cosine."""
    return ufunc_keywords("cosh", x, **kw) if kw else apply_unary(ROWS["cosh"], x)


@implements(np.tanh)
def tanh(x: Any, /, **kw: Any) -> Any:
    """Return the hyperbolic tangent."""
    return ufunc_keywords("tanh", x, **kw) if kw else apply_unary(ROWS["tanh"], x)


@implements(np.arcsinh)
def arcsinh(x: Any, /, **kw: Any) -> Any:
    """Return the inverse hyperbolic sine."""
    return ufunc_keywords("arcsinh", x, **kw) if kw else apply_unary(ROWS["arcsinh"], x)


@implements(np.arccosh)
def arccosh(x: Any, /, **kw: Any) -> Any:
    """Return the inverse hyperbolic cosine."""
    return ufunc_keywords("arccosh", x, **kw) if kw else apply_unary(ROWS["arccosh"], x)


@implements(np.arctanh)
def arctanh(x: Any, /, **kw: Any) -> Any:
    """Return the inverse hyperbolic tangent."""
    return ufunc_keywords("arctanh", x, **kw) if kw else apply_unary(ROWS["arctanh"], x)


@implements(np.degrees)
def degrees(x: Any, /, **kw: Any) -> Any:
    """Return radians converted to degrees."""
    return ufunc_keywords("degrees", x, **kw) if kw else apply_unary(ROWS["degrees"], x)


@implements(np.radians)
def radians(x: Any, /, **kw: Any) -> Any:
    """Return degrees converted to radians."""
    return ufunc_keywords("radians", x, **kw) if kw else apply_unary(ROWS["radians"], x)


@implements(np.rad2deg)
def rad2deg(x: Any, /, **kw: Any) -> Any:
    """Return radians converted to degrees."""
    return ufunc_keywords("degrees", x, **kw) if kw else apply_unary(ROWS["degrees"], x)


@implements(np.deg2rad)
def deg2rad(x: Any, /, **kw: Any) -> Any:
    """Return degrees converted to radians."""
    return ufunc_keywords("radians", x, **kw) if kw else apply_unary(ROWS["radians"], x)


@implements(np.floor)
def floor(x: Any, /, **kw: Any) -> Any:
    """Return the largest integer not above each element; the slope is zero."""
    return ufunc_keywords("floor", x, **kw) if kw else apply_unary(ROWS["floor"], x)


@implements(np.ceil)
def ceil(x: Any, /, **kw: Any) -> Any:
    """Return the smallest integer not below each element; the slope is zero."""
    return ufunc_keywords("ceil", x, **kw) if kw else apply_unary(ROWS["ceil"], x)


@implements(np.trunc)
def trunc(x: Any, /, **kw: Any) -> Any:
    """Return the integer nearest to zero beside each element; the slope is zero."""
    return ufunc_keywords("trunc", x, **kw) if kw else apply_unary(ROWS["trunc"], x)


@implements(np.rint)
def rint(x: Any, /, **kw: Any) -> Any:
    """Return the nearest integer, ties to even; the slope is zero."""
    return ufunc_keywords("rint", x, **kw) if kw else apply_unary(ROWS["rint"], x)


@implements(np.conjugate)
def conjugate(x: Any, /, **kw: Any) -> Any:
    """Return the complex conjugate."""
    return ufunc_keywords("conjugate", x, **kw) if kw else apply_unary(ROWS["conjugate"], x)


@implements(np.isnan)
def isnan(x: Any, /, **kw: Any) -> Any:
    """Return whether each element is NaN."""
    return ufunc_keywords("isnan", x, **kw) if kw else apply_unary(ROWS["isnan"], x)


@implements(np.isinf)
def isinf(x: Any, /, **kw: Any) -> Any:
    """Return whether each element is infinite."""
    return ufunc_keywords("isinf", x, **kw) if kw else apply_unary(ROWS["isinf"], x)


@implements(np.isfinite)
def isfinite(x: Any, /, **kw: Any) -> Any:
    """Return whether each element is finite."""
    return ufunc_keywords("isfinite", x, **kw) if kw else apply_unary(ROWS["isfinite"], x)


@implements(np.signbit)
def signbit(x: Any, /, **kw: Any) -> Any:
    """Return whether the sign bit is set."""
    return ufunc_keywords("signbit", x, **kw) if kw else apply_unary(ROWS["signbit"], x)


@implements(np.spacing)
def spacing(x: Any, /, **kw: Any) -> Any:
    """Return the distance to the next floating-point number."""
    return ufunc_keywords("spacing", x, **kw) if kw else apply_unary(ROWS["spacing"], x)


@implements(np.logical_not)
def logical_not(x: Any, /, **kw: Any) -> Any:
    """Return whether each element is zero."""
    return ufunc_keywords("logical_not", x, **kw) if kw else apply_unary(ROWS["logical_not"], x)


@implements(np.invert)
def invert(x: Any, /, **kw: Any) -> Any:
    """Return the bits inverted."""
    return ufunc_keywords("invert", x, **kw) if kw else apply_unary(ROWS["invert"], x)


@implements(np.add)
def add(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the sum."""
    return ufunc_keywords("add", x, y, **kw) if kw else operator("add")(x, y)


@implements(np.subtract)
def subtract(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the difference."""
    return ufunc_keywords("subtract", x, y, **kw) if kw else operator("subtract")(x, y)


@implements(np.multiply)
def multiply(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the product."""
    return ufunc_keywords("multiply", x, y, **kw) if kw else operator("multiply")(x, y)


@implements(np.divide)
def divide(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the quotient."""
    return ufunc_keywords("divide", x, y, **kw) if kw else operator("divide")(x, y)


@implements(np.floor_divide)
def floor_divide(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the largest integer not above the quotient; the slopes are zero."""
    return ufunc_keywords("floor_divide", x, y, **kw) if kw else operator("floor_divide")(x, y)


@implements(np.remainder)
def remainder(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the remainder with the sign of the divisor."""
    return ufunc_keywords("remainder", x, y, **kw) if kw else operator("remainder")(x, y)


@implements(np.fmod)
def fmod(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the remainder with the sign of the dividend."""
    return ufunc_keywords("fmod", x, y, **kw) if kw else operator("fmod")(x, y)


@implements(np.power)
def power(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return x to the power y; x**0 has slope zero at zero."""
    return ufunc_keywords("power", x, y, **kw) if kw else operator("power")(x, y)


@implements(np.float_power)
def float_power(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return x to the power y in double precision; x**0 has slope zero at zero."""
    return ufunc_keywords("float_power", x, y, **kw) if kw else operator("float_power")(x, y)


@implements(np.arctan2)
def arctan2(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the angle of the point (x=y, y=x), in radians; the slopes at the origin are zero."""
    return ufunc_keywords("arctan2", x, y, **kw) if kw else operator("arctan2")(x, y)


@implements(np.hypot)
def hypot(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return sqrt(x**2 + y**2) without overflow; the slopes at the origin are zero."""
    return ufunc_keywords("hypot", x, y, **kw) if kw else operator("hypot")(x, y)


@implements(np.maximum)
def maximum(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the greater of two elements, NaN if one is; ties share the gradient equally."""
    return ufunc_keywords("maximum", x, y, **kw) if kw else operator("maximum")(x, y)


@implements(np.minimum)
def minimum(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the smaller of two elements, NaN if one is; ties share the gradient equally."""
    return ufunc_keywords("minimum", x, y, **kw) if kw else operator("minimum")(x, y)


@implements(np.fmax)
def fmax(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the greater of two elements, the other if one is NaN; ties share the gradient equally."""
    return ufunc_keywords("fmax", x, y, **kw) if kw else operator("fmax")(x, y)


@implements(np.fmin)
def fmin(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the smaller of two elements, the other if one is NaN; ties share the gradient equally."""
    return ufunc_keywords("fmin", x, y, **kw) if kw else operator("fmin")(x, y)


@implements(np.logaddexp)
def logaddexp(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return log(exp(x) + exp(y)) without overflow."""
    return ufunc_keywords("logaddexp", x, y, **kw) if kw else operator("logaddexp")(x, y)


@implements(np.logaddexp2)
def logaddexp2(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return log2(2**x + 2**y) without overflow."""
    return ufunc_keywords("logaddexp2", x, y, **kw) if kw else operator("logaddexp2")(x, y)


@implements(np.copysign)
def copysign(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the magnitude of x with the sign of y."""
    return ufunc_keywords("copysign", x, y, **kw) if kw else operator("copysign")(x, y)


@implements(np.nextafter)
def nextafter(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the next floating-point number after x towards y."""
    return ufunc_keywords("nextafter", x, y, **kw) if kw else operator("nextafter")(x, y)


@implements(np.heaviside)
def heaviside(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return 0 where x < 0, y where x == 0, 1 where x > 0."""
    return ufunc_keywords("heaviside", x, y, **kw) if kw else operator("heaviside")(x, y)


@implements(np.equal)
def equal(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return whether x == y."""
    return ufunc_keywords("equal", x, y, **kw) if kw else operator("equal")(x, y)


@implements(np.not_equal)
def not_equal(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return whether x != y."""
    return ufunc_keywords("not_equal", x, y, **kw) if kw else operator("not_equal")(x, y)


@implements(np.less)
def less(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return whether x < y."""
    return ufunc_keywords("less", x, y, **kw) if kw else operator("less")(x, y)


@implements(np.less_equal)
def less_equal(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return whether x <= y."""
    return ufunc_keywords("less_equal", x, y, **kw) if kw else operator("less_equal")(x, y)


@implements(np.greater)
def greater(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return whether x > y."""
    return ufunc_keywords("greater", x, y, **kw) if kw else operator("greater")(x, y)


@implements(np.greater_equal)
def greater_equal(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return whether x >= y."""
    return ufunc_keywords("greater_equal", x, y, **kw) if kw else operator("greater_equal")(x, y)


@implements(np.logical_and)
def logical_and(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return whether both are nonzero."""
    return ufunc_keywords("logical_and", x, y, **kw) if kw else operator("logical_and")(x, y)


@implements(np.logical_or)
def logical_or(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return whether one is nonzero."""
    return ufunc_keywords("logical_or", x, y, **kw) if kw else operator("logical_or")(x, y)


@implements(np.logical_xor)
def logical_xor(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return whether exactly one is nonzero."""
    return ufunc_keywords("logical_xor", x, y, **kw) if kw else operator("logical_xor")(x, y)


@implements(np.bitwise_and)
def bitwise_and(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the bits that both have."""
    return ufunc_keywords("bitwise_and", x, y, **kw) if kw else operator("bitwise_and")(x, y)


@implements(np.bitwise_or)
def bitwise_or(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the bits that one has."""
    return ufunc_keywords("bitwise_or", x, y, **kw) if kw else operator("bitwise_or")(x, y)


@implements(np.bitwise_xor)
def bitwise_xor(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the bits that exactly one has."""
    return ufunc_keywords("bitwise_xor", x, y, **kw) if kw else operator("bitwise_xor")(x, y)


@implements(np.left_shift)
def left_shift(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return x with its bits moved left by y places."""
    return ufunc_keywords("left_shift", x, y, **kw) if kw else operator("left_shift")(x, y)


@implements(np.right_shift)
def right_shift(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return x with its bits moved right by y places."""
    return ufunc_keywords("right_shift", x, y, **kw) if kw else operator("right_shift")(x, y)


@implements(np.gcd)
def gcd(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the greatest common divisor."""
    return ufunc_keywords("gcd", x, y, **kw) if kw else operator("gcd")(x, y)


@implements(np.lcm)
def lcm(x: Any, y: Any, /, **kw: Any) -> Any:
    """Return the least common multiple."""
    return ufunc_keywords("lcm", x, y, **kw) if kw else operator("lcm")(x, y)


@implements(np.ldexp)
def ldexp(x1: Any, x2: Any, /, **kw: Any) -> Any:
    """Return x1 * 2**x2 for integers x2."""
    return ufunc_keywords("ldexp", x1, x2, **kw)


@implements(np.modf)
def modf(x: Any, /) -> tuple[Any, Any]:
    """Return the fractional and the integral part, both with the sign of x; slopes one and zero."""
    part = unary("fraction", x)
    return part, convert(unary("trunc", x), part.dtype)


@implements(np.frexp)
def frexp(x: Any, /) -> tuple[Any, Any]:
    """Return the mantissa in [0.5, 1) and the exponent of two; the slope of the mantissa is 2**-exponent."""
    exponent = unary("exponent", x)
    return ldexp(x, -exponent), exponent


@implements(np.divmod)
def divmod(x: Any, y: Any, /) -> tuple[Any, Any]:
    """Return the floor of the quotient and the remainder."""
    return floor_divide(x, y), remainder(x, y)
