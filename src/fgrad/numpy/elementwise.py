"""NumPy's element-wise functions; derivative, batch and shape rules come with their primitives."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.dispatch import bind, unary
from fgrad.core.tensor import Tensor
from fgrad.core.trace import Tracer
from fgrad.numpy.arrays import as_value
from fgrad.numpy.registry import Binary, Paired, Unary, as_array, implements
from fgrad.numpy.views import part
from fgrad.ops.linear import convert, imag

# fmt: off
positive: Unary = Unary(np.positive, "Return the argument itself.",
    "1", "2.0 -> np.float64(2.0)")
negative: Unary = Unary(np.negative, "Return the negative.",
    "-1", "2.0 -> np.float64(-2.0)")
absolute: Unary = Unary(np.absolute, "Return the absolute value.",
    "sign(x)", "-2.0 -> np.float64(2.0)", "zero at zero; for complex z conj(z) / |z|")
fabs: Unary = Unary(np.fabs, "Return the absolute value of real elements.",
    "sign(x)", "-2.0 -> np.float64(2.0)", "zero at zero")
sign: Unary = Unary(np.sign, "Return the sign, for complex z it is z / |z|.",
    "0", "-2.0 -> np.float64(-1.0)", "for complex z that of z / |z|")
square: Unary = Unary(np.square, "Return the square.",
    "2 * x", "3.0 -> np.float64(9.0)")
sqrt: Unary = Unary(np.sqrt, "Return the square root.",
    "0.5 / sqrt(x)", "4.0 -> np.float64(2.0)", "inf at zero, but zero where the cotangent is")
cbrt: Unary = Unary(np.cbrt, "Return the cube root of real elements.",
    "1 / (3 * cbrt(x)**2)", "8.0 -> np.float64(2.0)", "inf at zero, but zero where the cotangent is")
reciprocal: Unary = Unary(np.reciprocal, "Return 1 / x.",
    "-1 / x**2", "4.0 -> np.float64(0.25)", "-inf at zero, but zero where the cotangent is")
exp: Unary = Unary(np.exp, "Return e to the power of each element.",
    "exp(x)", "1.0 -> np.float64(2.7183)")
exp2: Unary = Unary(np.exp2, "Return 2 to the power of each element.",
    "log(2) * exp2(x)", "3.0 -> np.float64(8.0)")
expm1: Unary = Unary(np.expm1, "Return exp(x) - 1 without loss of accuracy near zero.",
    "exp(x)", "1.0 -> np.float64(1.7183)")
log: Unary = Unary(np.log, "Return the natural logarithm.",
    "1 / x", "2.0 -> np.float64(0.6931)", "inf at zero, but zero where the cotangent is")
log2: Unary = Unary(np.log2, "Return the logarithm to base 2.",
    "1 / (x * log(2))", "8.0 -> np.float64(3.0)", "inf at zero, but zero where the cotangent is")
log10: Unary = Unary(np.log10, "Return the logarithm to base 10.",
    "1 / (x * log(10))", "100.0 -> np.float64(2.0)", "inf at zero, but zero where the cotangent is")
log1p: Unary = Unary(np.log1p, "Return log(1 + x) without loss of accuracy near zero.",
    "1 / (1 + x)", "1.0 -> np.float64(0.6931)", "inf at -1, but zero where the cotangent is")
sin: Unary = Unary(np.sin, "Return the sine; x in radians.",
    "cos(x)", "1.0 -> np.float64(0.8415)")
cos: Unary = Unary(np.cos, "Return the cosine; x in radians.",
    "-sin(x)", "1.0 -> np.float64(0.5403)")
tan: Unary = Unary(np.tan, "Return the tangent; x in radians.",
    "1 + tan(x)**2", "1.0 -> np.float64(1.5574)")
arcsin: Unary = Unary(np.arcsin, "Return the inverse sine, in radians.",
    "1 / sqrt(1 - x**2)", "0.5 -> np.float64(0.5236)", "inf at both ends, but zero where the cotangent is")
arccos: Unary = Unary(np.arccos, "Return the inverse cosine, in radians.",
    "-1 / sqrt(1 - x**2)", "0.5 -> np.float64(1.0472)", "-inf at both ends, but zero where the cotangent is")
arctan: Unary = Unary(np.arctan, "Return the inverse tangent, in radians.",
    "1 / (1 + x**2)", "1.0 -> np.float64(0.7854)")
sinh: Unary = Unary(np.sinh, "Return the hyperbolic sine.",
    "cosh(x)", "1.0 -> np.float64(1.1752)")
cosh: Unary = Unary(np.cosh, "Return the hyperbolic cosine.",
    "sinh(x)", "1.0 -> np.float64(1.5431)")
tanh: Unary = Unary(np.tanh, "Return the hyperbolic tangent.",
    "1 - tanh(x)**2", "1.0 -> np.float64(0.7616)")
arcsinh: Unary = Unary(np.arcsinh, "Return the inverse hyperbolic sine.",
    "1 / sqrt(x**2 + 1)", "1.0 -> np.float64(0.8814)")
arccosh: Unary = Unary(np.arccosh, "Return the inverse hyperbolic cosine.",
    "1 / sqrt(x**2 - 1)", "2.0 -> np.float64(1.3170)", "inf at one, but zero where the cotangent is")
arctanh: Unary = Unary(np.arctanh, "Return the inverse hyperbolic tangent.",
    "1 / (1 - x**2)", "0.5 -> np.float64(0.5493)", "inf at both ends, but zero where the cotangent is")
degrees: Unary = Unary(np.degrees, "Return radians converted to degrees.",
    "180 / pi", "np.pi -> np.float64(180.0)")
radians: Unary = Unary(np.radians, "Return degrees converted to radians.",
    "pi / 180", "180.0 -> np.float64(3.1416)")
rad2deg: Unary = Unary(np.rad2deg, "Return radians converted to degrees.",
    "180 / pi", "np.pi -> np.float64(180.0)", primitive="degrees")
deg2rad: Unary = Unary(np.deg2rad, "Return degrees converted to radians.",
    "pi / 180", "180.0 -> np.float64(3.1416)", primitive="radians")
floor: Unary = Unary(np.floor, "Return the largest integer not above each element.",
    "0", "-1.5 -> np.float64(-2.0)")
ceil: Unary = Unary(np.ceil, "Return the smallest integer not below each element.",
    "0", "-1.5 -> np.float64(-1.0)")
trunc: Unary = Unary(np.trunc, "Return the integer nearest to zero beside each element.",
    "0", "-1.5 -> np.float64(-1.0)")
rint: Unary = Unary(np.rint, "Return the nearest integer.",
    "0", "2.5 -> np.float64(2.0)")
conjugate: Unary = Unary(np.conjugate, "Return the complex conjugate.",
    "1", "1.0 + 2.0j -> np.complex128(1-2j)", "of complex numbers the conjugate of the cotangent")
isnan: Unary = Unary(np.isnan, "Return whether each element is NaN.",
    None, "np.nan -> np.True_")
isinf: Unary = Unary(np.isinf, "Return whether each element is infinite.",
    None, "-np.inf -> np.True_")
isfinite: Unary = Unary(np.isfinite, "Return whether each element is finite.",
    None, "1.0 -> np.True_")
signbit: Unary = Unary(np.signbit, "Return whether the sign bit is set.",
    None, "-0.0 -> np.True_")
spacing: Unary = Unary(np.spacing, "Return the distance to the next floating-point number.",
    "0", "1.0 -> np.float64(2.2204e-16)")
logical_not: Unary = Unary(np.logical_not, "Return whether each element is zero.",
    None, "0.0 -> np.True_")
invert: Unary = Unary(np.invert, "Return the bits inverted.",
    None, "5 -> np.int64(-6)")
bitwise_count: Unary = Unary(np.bitwise_count,
    "Return the number of ones in the binary form of the absolute value.",
    None,
    "7 -> np.uint8(3)")
add: Binary = Binary(np.add, "Return the sum.",
    ("1", "1"), "1.0, 2.0 -> np.float64(3.0)")
subtract: Binary = Binary(np.subtract, "Return the difference.",
    ("1", "-1"), "1.0, 2.0 -> np.float64(-1.0)")
multiply: Binary = Binary(np.multiply, "Return the product.",
    ("y", "x"), "3.0, 2.0 -> np.float64(6.0)")
divide: Binary = Binary(np.divide, "Return the quotient.",
    ("1 / y", "-x / y**2"), "3.0, 2.0 -> np.float64(1.5)")
floor_divide: Binary = Binary(np.floor_divide, "Return the largest integer not above the quotient.",
    ("0", "0"), "7.0, 2.0 -> np.float64(3.0)")
remainder: Binary = Binary(np.remainder, "Return the remainder with the sign of the divisor.",
    ("1", "-floor(x / y)"), "-7.0, 3.0 -> np.float64(2.0)")
fmod: Binary = Binary(np.fmod, "Return the remainder with the sign of the dividend.",
    ("1", "-trunc(x / y)"), "-7.0, 3.0 -> np.float64(-1.0)")
power: Binary = Binary(np.power, "Return x to the power y.",
    ("y * x**(y - 1)", "log(x) * x**y"), "2.0, 3.0 -> np.float64(8.0)",
    "x**0 has zero in x, everywhere; 0**y zero in y")
float_power: Binary = Binary(np.float_power, "Return x to the power y in double precision.",
    ("y * x**(y - 1)", "log(x) * x**y"), "2, 3 -> np.float64(8.0)",
    "x**0 has zero in x, everywhere; 0**y zero in y")
arctan2: Binary = Binary(np.arctan2, "Return the angle of the point (x=y, y=x), in radians.",
    ("y / (x**2 + y**2)", "-x / (x**2 + y**2)"), "1.0, 1.0 -> np.float64(0.7854)",
    "zero at the origin, smooth across the cut")
hypot: Binary = Binary(np.hypot, "Return sqrt(x**2 + y**2) without overflow.",
    ("x / hypot(x, y)", "y / hypot(x, y)"), "3.0, 4.0 -> np.float64(5.0)", "zero at the origin")
maximum: Binary = Binary(np.maximum, "Return the greater of two elements, NaN if one is.",
    ("heaviside(x - y, 0.5)", "heaviside(y - x, 0.5)"), "1.0, 2.0 -> np.float64(2.0)",
    "so ties share the gradient equally")
minimum: Binary = Binary(np.minimum, "Return the smaller of two elements, NaN if one is.",
    ("heaviside(y - x, 0.5)", "heaviside(x - y, 0.5)"), "1.0, 2.0 -> np.float64(1.0)",
    "so ties share the gradient equally")
fmax: Binary = Binary(np.fmax, "Return the greater of two elements, the other if one is NaN.",
    ("heaviside(x - y, 0.5)", "heaviside(y - x, 0.5)"), "1.0, np.nan -> np.float64(1.0)",
    "so ties share the gradient equally; where one is NaN, all is the other's")
fmin: Binary = Binary(np.fmin, "Return the smaller of two elements, the other if one is NaN.",
    ("heaviside(y - x, 0.5)", "heaviside(x - y, 0.5)"), "1.0, np.nan -> np.float64(1.0)",
    "so ties share the gradient equally; where one is NaN, all is the other's")
logaddexp: Binary = Binary(np.logaddexp, "Return log(exp(x) + exp(y)) without overflow.",
    ("exp(x - logaddexp(x, y))", "exp(y - logaddexp(x, y))"), "0.0, 0.0 -> np.float64(0.6931)",
    "one half each between equal operands")
logaddexp2: Binary = Binary(np.logaddexp2, "Return log2(2**x + 2**y) without overflow.",
    ("exp2(x - logaddexp2(x, y))", "exp2(y - logaddexp2(x, y))"), "3.0, 3.0 -> np.float64(4.0)",
    "one half each between equal operands")
copysign: Binary = Binary(np.copysign, "Return the magnitude of x with the sign of y.",
    ("sign(x) * sign(y)", "0"), "2.0, -1.0 -> np.float64(-2.0)", "zero at x = 0")
nextafter: Binary = Binary(np.nextafter, "Return the next floating-point number after x towards y.",
    ("1", "0"), "1.0, 2.0 -> np.float64(1.0000)")
heaviside: Binary = Binary(np.heaviside, "Return 0 where x < 0, y where x == 0, 1 where x > 0.",
    ("0", "x == 0"), "0.0, 0.5 -> np.float64(0.5)")
equal: Binary = Binary(np.equal, "Return whether x == y.",
    None, "1.0, 2.0 -> np.False_")
not_equal: Binary = Binary(np.not_equal, "Return whether x != y.",
    None, "1.0, 2.0 -> np.True_")
less: Binary = Binary(np.less, "Return whether x < y.",
    None, "1.0, 2.0 -> np.True_")
less_equal: Binary = Binary(np.less_equal, "Return whether x <= y.",
    None, "1.0, 2.0 -> np.True_")
greater: Binary = Binary(np.greater, "Return whether x > y.",
    None, "1.0, 2.0 -> np.False_")
greater_equal: Binary = Binary(np.greater_equal, "Return whether x >= y.",
    None, "1.0, 2.0 -> np.False_")
logical_and: Binary = Binary(np.logical_and, "Return whether both are nonzero.",
    None, "1.0, 0.0 -> np.False_")
logical_or: Binary = Binary(np.logical_or, "Return whether one is nonzero.",
    None, "1.0, 0.0 -> np.True_")
logical_xor: Binary = Binary(np.logical_xor, "Return whether exactly one is nonzero.",
    None, "1.0, 0.0 -> np.True_")
bitwise_and: Binary = Binary(np.bitwise_and, "Return the bits that both have.",
    None, "6, 3 -> np.int64(2)")
bitwise_or: Binary = Binary(np.bitwise_or, "Return the bits that one has.",
    None, "6, 3 -> np.int64(7)")
bitwise_xor: Binary = Binary(np.bitwise_xor, "Return the bits that exactly one has.",
    None, "6, 3 -> np.int64(5)")
left_shift: Binary = Binary(np.left_shift, "Return x with its bits moved left by y places.",
    None, "5, 1 -> np.int64(10)")
right_shift: Binary = Binary(np.right_shift, "Return x with its bits moved right by y places.",
    None, "5, 1 -> np.int64(2)")
gcd: Binary = Binary(np.gcd, "Return the greatest common divisor.",
    None, "12, 18 -> np.int64(6)")
lcm: Binary = Binary(np.lcm, "Return the least common multiple.",
    None, "4, 6 -> np.int64(12)")
ldexp: Binary = Binary(np.ldexp, "Return x * 2**y for integers y.",
    ("2.0**y", None), "1.5, 3 -> np.float64(12.0)")
# fmt: on


def _fraction(x: Any) -> tuple[Any, Any]:
    part = unary("fraction", x)
    return part, convert(unary("trunc", x), part.dtype)


def _mantissa(x: Any) -> tuple[Any, Any]:
    exponent = unary("exponent", x)
    return ldexp(x, -exponent), exponent


def _quotient(x: Any, y: Any) -> tuple[Any, Any]:
    return floor_divide(x, y), remainder(x, y)


modf: Paired = Paired(
    np.modf,
    "Return the fractional and the integral part, both with the sign of x.",
    "of the first 1, of the second 0",
    "2.5 -> (np.float64(0.5), np.float64(2.0))",
    _fraction,
    "fraction",
)
frexp: Paired = Paired(
    np.frexp,
    "Return the mantissa in [0.5, 1) and the exponent of two.",
    "of the mantissa 2**-exponent; the exponent is an integer",
    "12.0 -> (np.float64(0.75), np.int32(4))",
    _mantissa,
    "exponent",
)
divmod: Paired = Paired(
    np.divmod,
    "Return the floor of the quotient and the remainder.",
    "that of `floor_divide`, zero, and that of `remainder`",
    "7.0, 2.0 -> (np.float64(3.0), np.float64(1.0))",
    _quotient,
    "floor_divide",
)


@implements(np.sinc)
def sinc(x: Any) -> Any:
    """Return sin(pi x) / (pi x), and one at zero.

    Returns:
        Array of the shape of `x`, of floats or complex numbers.

    Derivative:
        Of every order exact at zero and near it.

    Example:
        >>> fnp.sinc(np.array([0.0, 0.5]))
        array([1.        , 0.63661977])
        >>> fg.grad(fnp.sinc)(1.0)
        np.float64(-1.0)
    """
    x = as_value(x)
    if not isinstance(x, Tensor):
        return np.sinc(x)
    return bind("spherical", np.pi * x, n=0)


@implements(np.i0)
def i0(x: Any) -> Any:
    """Return the modified Bessel function of the first kind of order zero, of real numbers.

    Returns:
        Array of the shape of `x`, of floats.

    Raises:
        TypeError: complex numbers.

    Derivative:
        That of order one.

    Example:
        >>> fnp.i0(0.0)
        array(1.)
        >>> fg.grad(fnp.i0)(1.0)
        np.float64(0.565159103992485)
    """
    x = as_value(x)
    if not isinstance(x, Tensor):
        return np.i0(x)
    if x.dtype.kind == "c":
        raise TypeError("i0 not supported for complex values")
    return as_array(bind("modified", x if x.dtype.kind == "f" else convert(x, np.dtype(float)), n=0))


@implements(np.fix)
def fix(x: Any, out: Any = None) -> Any:
    """Return the integer nearest to zero beside each element; the slope is zero.

    Returns:
        Array of the shape of `x`; floats, integers keep their dtype where NumPy's do.

    Derivative:
        Zero everywhere, jumps too.

    Example:
        >>> fnp.fix(np.array([1.7, -1.7]))
        array([ 1., -1.])
    """
    return trunc(as_value(x), out=out)


def _infinite(x: Any, out: Any, *, negative: bool) -> Any:
    x = as_value(x)
    if x.dtype.kind == "c":
        raise TypeError(
            f"This operation is not supported for {x.dtype} values because it would be ambiguous."
        )
    below = signbit(x)
    return logical_and(isinf(x), below if negative else logical_not(below), out=out)


@implements(np.isposinf)
def isposinf(x: Any, out: Any = None) -> Any:
    """Return whether each element is positive infinity.

    Returns:
        Truth values, of the shape of `x`.

    Raises:
        TypeError: complex numbers.

    Derivative:
        None: the result is a truth value.

    Example:
        >>> fnp.isposinf(np.array([np.inf, 0.0]))
        array([ True, False])
    """
    return _infinite(x, out, negative=False)


@implements(np.isneginf)
def isneginf(x: Any, out: Any = None) -> Any:
    """Return whether each element is negative infinity.

    Returns:
        Truth values, of the shape of `x`.

    Raises:
        TypeError: complex numbers.

    Derivative:
        None: the result is a truth value.

    Example:
        >>> fnp.isneginf(np.array([-np.inf, 0.0]))
        array([ True, False])
    """
    return _infinite(x, out, negative=True)


@implements(np.iscomplex)
def iscomplex(x: Any) -> Any:
    """Return whether the imaginary part of each element is nonzero.

    Returns:
        Truth values, of the shape of `x`.

    Derivative:
        None: the result is a truth value.

    Example:
        >>> fnp.iscomplex(np.array([1 + 1j, 1.0]))
        array([ True, False])
    """
    x = as_value(x)
    return np.iscomplex(x) if not isinstance(x, Tensor) else not_equal(imag(x), 0)


@implements(np.isreal)
def isreal(x: Any) -> Any:
    """Return whether the imaginary part of each element is zero.

    Returns:
        Truth values, of the shape of `x`.

    Derivative:
        None: the result is a truth value.

    Example:
        >>> fnp.isreal(np.array([1 + 1j, 1.0]))
        array([False,  True])
    """
    x = as_value(x)
    return np.isreal(x) if not isinstance(x, Tensor) else equal(imag(x), 0)


@implements(np.isrealobj)
def isrealobj(x: Any) -> bool:
    """Return whether `x` has no complex dtype.

    Returns:
        One truth value; elements are not looked at, so it is known under `jit` and `vmap`.

    Derivative:
        None: the result is a truth value.

    Example:
        >>> fnp.isrealobj(np.array([1.0]))
        True
    """
    return bool(as_value(x).dtype.kind != "c")


@implements(np.real_if_close)
def real_if_close(a: Any, tol: float = 100) -> Any:
    """Return the real part if every imaginary part is below `tol` (above one: times the rounding error).

    Under vmap and staging the values are not known, so complex arrays are refused there.

    Returns:
        Array of the shape of `a`: real, or `a` itself.

    Raises:
        TypeError: a complex Tensor under `vmap` or while staged: the dtype would depend on its values.

    Derivative:
        That of `real`, or the identity.

    Example:
        >>> fnp.real_if_close(np.array([1.0 + 1e-16j]))
        array([1.])
    """
    a = as_array(as_value(a))
    if not isinstance(a, Tensor) or a.dtype.kind != "c":
        return a if isinstance(a, Tensor) else np.real_if_close(a, tol)
    if isinstance(a._value, Tracer):
        a._value.refuse("real_if_close, whose dtype depends on the values,")
    limit = np.finfo(a.dtype).eps * tol if tol > 1 else tol
    return part(a, imaginary=False) if np.all(np.absolute(a._value.imag) < limit) else a
