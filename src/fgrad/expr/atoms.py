"""The table of scalar atoms: code, NumPy reference and derivatives of each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.expr import special
from fgrad.expr.node import Expr, Operand, apply


class Atom(NamedTuple):
    """One entry of `ATOMS`."""

    code: str  # Numba source with one {} per argument; valid on CPU and CUDA alike
    reference: Callable[..., Any]  # the NumPy function it must agree with
    slopes: Callable[..., tuple[Operand, ...]]  # (f, *args) -> df/darg for every argument
    flags: str = ""
    on_integers: str = ""  # the code for integers, before the result is cut to the width of its dtype
    on_truths: str = ""  # the code for truth values
    conditions: tuple[int, ...] = ()  # the arguments that are truth values
    # the dtypes of large arrays that take NumPy longer than a compiled loop in one thread, up to thirty times
    loops: str = ""
    slope_loops: str = ""  # likewise of slopes
    # (f, *args) -> the slopes at usual values by few of NumPy's calls; None where a value is not usual
    usual: Callable[..., tuple[Any, ...] | None] | None = None

    @property
    def products(self) -> tuple[str, ...]:
        """The product of a cotangent and each slope: `multiply`, `scale` or `multiply_no_nan`."""
        if "z" in self.flags:
            return ("scale" if "s" in self.flags else "multiply_no_nan", "multiply_no_nan")
        return ("scale" if "s" in self.flags else "multiply",) * self.arity

    @property
    def integers(self) -> str:
        """The code for integers; "" where there is none."""
        return self.code if "i" in self.flags else self.on_integers

    @property
    def truths(self) -> str:
        """The code for truth values; "" where there is none."""
        return self.code if "t" in self.flags else self.on_truths

    @property
    def cost(self) -> int:
        """How many of the fastest operations it takes the time of."""
        return 0 if "0" in self.flags else 1 if "1" in self.flags else 4

    @property
    def python(self) -> type | None:
        """The least type of what Python's operator makes of Python's numbers; None: it gives an array."""
        return float if "d" in self.flags else int if "o" in self.flags else None

    @property
    def holomorphic(self) -> bool:
        """Whether the slopes hold for complex arguments."""
        return "r" not in self.flags

    @property
    def fused(self) -> bool:
        """Whether large arrays take a compiled loop, here and in the reverse step."""
        return "u" in self.flags

    @property
    def shared(self) -> bool:
        """Whether large arrays of real numbers take a compiled loop, which threads share."""
        return "l" in self.flags

    @property
    def broadcasts(self) -> bool:
        """Whether large results in short rows take a compiled loop, where operands differ in shape."""
        return "b" in self.flags

    @property
    def silent(self) -> bool:
        """Whether NumPy never warns of its arguments and results."""
        return "q" in self.flags

    @property
    def arity(self) -> int:
        """The number of arguments."""
        return self.slopes.__code__.co_argcount - 1

    @property
    def gives_truth(self) -> bool:
        """Whether it gives a truth value."""
        return isinstance(self.reference, np.ufunc) and "d" * self.arity + "->?" in self.reference.types


def where(c: Operand, x: Operand, y: Operand) -> Expr:
    """Return `x` where `c` holds, else `y`."""
    return apply("where", c, x, y)


def equal(x: Operand, y: Operand) -> Expr:
    """Return whether `x == y`."""
    return apply("equal", x, y)


def call(name: str) -> Callable[..., Expr]:
    """Return the function that applies the atom called `name`."""
    return lambda *args: apply(name, *args)


class _Functions:
    """The functions that apply atoms, by name, for formulas: `fn.exp(-x)`."""

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        if name.startswith("_"):
            raise AttributeError(name)
        return call(name)


fn: _Functions = _Functions()
DEGREE, LN2, LN10, BELL = math.pi / 180, math.log(2), math.log(10), 2 / math.sqrt(math.pi)


def products(chosen: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return `scale` and `multiply_no_nan`, which call `chosen` for what NumPy calls `where`."""

    def scale(ct: Any, slope: Any) -> Any:
        """Return `ct * slope`, and zero wherever `ct` is zero even if the slope is infinite or NaN."""
        product = np.multiply(ct, slope)
        # a device would be waited for, to read what it counts
        if product.__class__ is not DeviceArray:
            if _has_no_zero(ct):
                return product
            if _is_finite(product):
                return np.add(product, 0, product)  # where it is -0.0 too
        return chosen(np.equal(ct, 0), product.dtype.type(0), product)

    def multiply_no_nan(x: Any, y: Any) -> Any:
        """Return `x * y`, and zero wherever one of them is zero even if the other is infinite or NaN."""
        product = np.multiply(x, y)
        if product.__class__ is not DeviceArray:
            if _has_no_zero(x) and _has_no_zero(y):
                return product
            if _is_finite(product):
                return np.add(product, 0, product)
        return chosen(np.logical_or(np.equal(x, 0), np.equal(y, 0)), product.dtype.type(0), product)

    return scale, multiply_no_nan


def _is_finite(product: Any) -> bool:
    """Return whether no number is infinite or NaN, of so many that asking costs less than choosing."""
    return product.size >= 4096 and product.dtype.kind in "fc" and is_finite(product)


def is_finite(x: Any) -> bool:
    """Return whether no number is infinite or NaN; False also where their sum is infinite."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(np.add.reduce(x, axis=None)))


def _has_no_zero(x: Any) -> bool:
    if isinstance(x, np.generic):
        return bool(x)
    size = np.size(x)
    if size < 2048:
        return bool(np.count_nonzero(x) == size)
    return not np.equal(x, 0).any()  # which takes longer to begin


scale, multiply_no_nan = products(np.where)


def _reciprocal(f: Expr, x: Expr) -> tuple[Expr]:
    return (-apply("multiply_no_nan", f, f),)


def _scale(_: Expr, ct: Expr, slope: Expr) -> tuple[Operand, Operand]:
    lost = apply("logical_and", equal(ct, 0), apply("logical_not", apply("isfinite", slope)))
    return where(lost, 0, slope), ct


def _extremum(f: Expr, x: Expr, y: Expr) -> tuple[Operand, Operand]:
    def share(own: Expr) -> Expr:  # it selects, also of complex numbers
        return where(equal(x, y), 0.5, where(equal(f, own), 1, 0))

    return share(x), share(y)


def _logadd(rate: float) -> Callable[..., tuple[Operand, ...]]:
    def slopes(f: Expr, x: Expr, y: Expr) -> tuple[Operand, ...]:
        end = apply("isinf", f)  # there the extremum is taken, and the difference may be undefined
        gap = where(end, 0, x - y if rate == 1 else rate * (x - y))

        def share(own: Expr, gap: Expr) -> Expr:
            tie = where(f > 0, 0.5, 0)
            flat = where(equal(x, y), tie, where(equal(f, own), 1, 0))
            return where(end, flat, fn.sigmoid(gap))

        return share(x, gap), share(y, -gap)

    return slopes


def _usual_logadd(rate: float) -> Callable[..., tuple[Any, ...] | None]:
    def usual(f: Any, x: Any, y: Any) -> tuple[Any, ...] | None:
        if np.count_nonzero(np.isinf(f)):
            return None
        return special.sigmoids(np.subtract(x, y) if rate == 1 else rate * np.subtract(x, y))

    return usual


def _power(f: Expr, x: Expr, y: Expr) -> tuple[Operand, Operand]:
    origin = equal(x, 0)
    return (
        apply("multiply_no_nan", y, fn.power(x, y - 1)),  # zero where y is, with a slope in y that is 1 / x
        where(origin, 0, f * fn.log(where(origin, 1, x))),
    )


def _arctan2(_: Expr, y: Expr, x: Expr) -> tuple[Operand, Operand]:
    length = _or_infinite(apply("hypot", x, y))  # whose square may overflow, or vanish
    x, y = (where(equal(length, math.inf), 0, z) for z in (x, y))
    return x / length / length, -(y / length / length)


def _hypot(f: Expr, x: Expr, y: Expr) -> tuple[Operand, Operand]:
    length = _or_infinite(f)
    return x / length, y / length


def _or_infinite(length: Expr) -> Expr:
    """Return a divisor that makes quotients of zeros zero, to every order."""
    return where(equal(length, 0), math.inf, length)


def _gap(x: Expr) -> Expr:
    return (1 - x) * (1 + x)  # 1 - x * x, exact to rounding also near one


def _bell(x: Expr) -> Expr:
    return BELL * fn.exp(-(x * x))


# Flags: s = singular, the slope may be infinite; r = real, the slopes do not hold for complex arguments;
# z = a product in which zero wins (sz: where its first factor is zero); m = moves, c = cheap,
# k = commutative, n = never -0.0, a = gives infinity or NaN wherever an operand has some, f = the first one,
# p = gives one of its operands, + = adds them; i, t = the code holds for integers and for truth values,
# 1, 0 = takes the time of one of the fastest operations, or of none; o, d = Python's operators call it,
# d = and it gives a float; u = fused: large arrays take a compiled loop, here and in the reverse step;
# q = quiet: NumPy never warns of its arguments and results; w = refuses some integers; b = broadcasts: large
# results in short rows take a compiled loop; l = so do large arrays of real numbers: NumPy's loop takes one
# thread, and often has vector code for the widest vectors alone.
# fmt: off
ATOMS: dict[str, Atom] = {
    # name                code                    reference        slopes (f is the atom's own value)
    "positive":      Atom("(+{})",                np.positive,     lambda f, x: (1,), "cmp0o",
                          on_integers="{}", on_truths="{}"),
    "negative":      Atom("(-{})",                np.negative,     lambda f, x: (-1,), "cf1o",
                          on_integers="-{}"),
    "add":           Atom("({} + {})",            np.add,          lambda f, x, y: (1, 1), "cki+a1ob"),
    "subtract":      Atom("({} - {})",            np.subtract,     lambda f, x, y: (1, -1), "cai1ob"),
    "multiply":      Atom("({} * {})",            np.multiply,     lambda f, x, y: (y, x), "ckai1ob"),
    "divide":        Atom("({} / {})",            np.divide,       lambda f, x, y: (1 / y, -f / y), "sfdb"),
    "scale":         Atom("scale({}, {})",        scale,           _scale, "szf", on_integers="({} * {})"),
    "multiply_no_nan": Atom("multiply_no_nan({}, {})", multiply_no_nan, lambda f, x, y: (y, x), "zk",
                          on_integers="({} * {})"),
    "power":         Atom("power({}, {})",        np.power,        _power, "sow", loops="fd"),
    "float_power":   Atom("power({}, {})",        np.float_power,  _power, "sd"),
    "square":        Atom("({0} * {0})",          np.square,       lambda f, x: (x + x,), "cni1o"),
    "reciprocal":    Atom("reciprocal({})",       np.reciprocal,   _reciprocal, "sd"),
    "sqrt":          Atom("math.sqrt({})",        np.sqrt,         lambda f, x: (0.5 / f,), "s",
                          loops="d"),
    "root":          Atom("math.sqrt({})",        np.sqrt,
                          lambda f, x: (where(equal(f, 0), 0, 0.5 / where(equal(f, 0), 1, f)),), loops="d"),
    "cbrt":          Atom("cbrt({})",             np.cbrt,         lambda f, x: (1 / (3 * f * f),), "sr"),
    "exp":           Atom("math.exp({})",         np.exp,          lambda f, x: (f,), "snl", loops="FD"),
    "exp2":          Atom("exp2({})",             np.exp2,         lambda f, x: (f * LN2,), "snl"),
    "expm1":         Atom("math.expm1({})",       np.expm1,        lambda f, x: (fn.exp(x),), "sl",
                          loops="d"),
    "log":           Atom("math.log({})",         np.log,          lambda f, x: (1 / x,), "sl",
                          loops="FD"),
    "log2":          Atom("math.log2({})",        np.log2,         lambda f, x: (1 / (x * LN2),), "sl"),
    "log10":         Atom("math.log10({})",       np.log10,        lambda f, x: (1 / (x * LN10),), "sl"),
    "log1p":         Atom("math.log1p({})",       np.log1p,        lambda f, x: (1 / (1 + x),), "sl"),
    "logaddexp":     Atom("logaddexp({}, {})",    np.logaddexp,    _logadd(1), "r",
                          loops="fd", slope_loops="fd",
                          usual=_usual_logadd(1)),
    "logaddexp2":    Atom("logaddexp2({}, {})",   np.logaddexp2,   _logadd(LN2), "r",
                          loops="fd", slope_loops="fd",
                          usual=_usual_logadd(LN2)),
    "sin":           Atom("math.sin({})",         np.sin,          lambda f, x: (fn.cos(x),),
                          loops="dFD", slope_loops="d"),
    "cos":           Atom("math.cos({})",         np.cos,          lambda f, x: (-fn.sin(x),),
                          loops="dFD", slope_loops="d"),
    "tan":           Atom("math.tan({})",         np.tan,          lambda f, x: (1 + f * f,), "l"),
    "arcsin":        Atom("math.asin({})",        np.arcsin,      lambda f, x: (1 / fn.sqrt(_gap(x)),), "sl"),
    "arccos":        Atom("math.acos({})",        np.arccos,    lambda f, x: (-1 / fn.sqrt(_gap(x)),), "sl"),
    "arctan":        Atom("math.atan({})",        np.arctan,       lambda f, x: (1 / (1 + x * x),), "l",
                          loops="d"),
    "arctan2":       Atom("math.atan2({}, {})",   np.arctan2,      _arctan2, "srl", loops="d"),
    "hypot":         Atom("math.hypot({}, {})",   np.hypot,        _hypot, "r",
                          loops="fd", slope_loops="fd"),
    "sinh":          Atom("math.sinh({})",        np.sinh,         lambda f, x: (fn.cosh(x),), "sl",
                          loops="FD"),
    "cosh":          Atom("math.cosh({})",        np.cosh,         lambda f, x: (fn.sinh(x),), "snl",
                          loops="FD"),
    "tanh":          Atom("math.tanh({})",        np.tanh,         lambda f, x: (1 - f * f,), "ql",
                          loops="d"),
    "arcsinh":       Atom("math.asinh({})",       np.arcsinh,      lambda f, x: (1 / fn.cosh(f),), "l"),
    "arccosh":       Atom("math.acosh({})",       np.arccosh,      lambda f, x: (1 / fn.sinh(f),), "sl"),
    "arctanh":       Atom("math.atanh({})",       np.arctanh,      lambda f, x: (1 / _gap(x),), "sl"),
    "erf":           Atom("math.erf({})",         special.erf,     lambda f, x: (_bell(x),), "ru"),
    "erfc":          Atom("math.erfc({})",        special.erfc,    lambda f, x: (-_bell(x),), "ru"),
    "sigmoid":       Atom("sigmoid({})",          special.sigmoid, lambda f, x: (f * fn.sigmoid(-x),), "rnu"),
    "softplus":      Atom("softplus({})",         special.softplus, lambda f, x: (fn.sigmoid(x),), "rnu"),
    "degrees":       Atom("degrees({})",          np.degrees,      lambda f, x: (1 / DEGREE,), "r"),
    "radians":       Atom("radians({})",          np.radians,      lambda f, x: (DEGREE,), "r"),
    "fabs":          Atom("abs({})",              np.fabs,         lambda f, x: (fn.sign(x),), "rnio"),
    "maximum":       Atom("maximum({}, {})",      np.maximum,      _extremum, "cp",
                          on_integers="({0} if {0} >= {1} else {1})", on_truths="({} or {})",
                          slope_loops="fd"),
    "minimum":       Atom("minimum({}, {})",      np.minimum,      _extremum, "cp",
                          on_integers="({0} if {0} <= {1} else {1})", on_truths="({} and {})",
                          slope_loops="fd"),
    "fmax":          Atom("fmax({}, {})",         np.fmax,         _extremum, slope_loops="fd"),
    "fmin":          Atom("fmin({}, {})",         np.fmin,         _extremum, slope_loops="fd"),
    "copysign":      Atom("math.copysign({}, {})", np.copysign,
                          lambda f, x, y: (fn.sign(x) * fn.copysign(1, y), 0), "r"),
    "remainder":     Atom("remainder({}, {})",    np.remainder,
                          lambda f, x, y: (1, -fn.floor_divide(x, y)), "sro",
                          on_integers="({} % {})", loops="fd"),
    "fmod":          Atom("fmod({}, {})",         np.fmod,      lambda f, x, y: (1, -fn.trunc(x / y)), "sr",
                          loops="fd"),
    "nextafter":     Atom("nextafter({}, {})",    np.nextafter,    lambda f, x, y: (1, 0), "r"),
    "where":         Atom("({1} if {0} else {2})", np.where,
                          lambda f, c, x, y: (0, where(c, 1, 0), where(c, 0, 1)), "itp1", conditions=(0,)),
    "sign":          Atom("sign({})",             np.sign,         lambda f, x: (0,), "rc"),
    "floor":         Atom("floor({})",            np.floor,        lambda f, x: (0,), "r"),
    "ceil":          Atom("ceil({})",             np.ceil,         lambda f, x: (0,), "r"),
    "trunc":         Atom("trunc({})",            np.trunc,        lambda f, x: (0,), "r"),
    "rint":          Atom("rint({})",             np.rint,         lambda f, x: (0,), "r"),
    "floor_divide":  Atom("floor_divide({}, {})", np.floor_divide, lambda f, x, y: (0, 0), "ro",
                          on_integers="({} // {})", loops="fd"),
    "heaviside":     Atom("heaviside({}, {})",    np.heaviside,
                          lambda f, x, y: (0, where(equal(x, 0), 1, 0)), "r", loops="fd"),
    "equal":         Atom("({} == {})",           np.equal,        lambda f, x, y: (0, 0), "ckit"),
    "not_equal":     Atom("({} != {})",           np.not_equal,    lambda f, x, y: (0, 0), "ckit"),
    "less":          Atom("({} < {})",            np.less,         lambda f, x, y: (0, 0), "ci"),
    "less_equal":    Atom("({} <= {})",           np.less_equal,   lambda f, x, y: (0, 0), "ci"),
    "greater":       Atom("({} > {})",            np.greater,      lambda f, x, y: (0, 0), "ci"),
    "greater_equal": Atom("({} >= {})",           np.greater_equal, lambda f, x, y: (0, 0), "ci"),
    "isnan":         Atom("math.isnan({})",       np.isnan,        lambda f, x: (0,), "c"),
    "isinf":         Atom("math.isinf({})",       np.isinf,        lambda f, x: (0,)),
    "isfinite":      Atom("math.isfinite({})",    np.isfinite,     lambda f, x: (0,), "c"),
    "signbit":       Atom("signbit({})",          np.signbit,      lambda f, x: (0,)),
    "logical_not":   Atom("(not {})",             np.logical_not,  lambda f, x: (0,), "ct",
                          on_integers="({} == 0)", conditions=(0,)),
    "logical_and":   Atom("logical_and({}, {})",  np.logical_and,  lambda f, x, y: (0, 0), "ck",
                          on_truths="({} and {})", conditions=(0, 1)),
    "logical_or":    Atom("logical_or({}, {})",   np.logical_or,   lambda f, x, y: (0, 0), "ck",
                          on_truths="({} or {})", conditions=(0, 1)),
    "logical_xor":   Atom("logical_xor({}, {})",  np.logical_xor,  lambda f, x, y: (0, 0), "k",
                          on_truths="({} != {})", conditions=(0, 1)),
}
# fmt: on
