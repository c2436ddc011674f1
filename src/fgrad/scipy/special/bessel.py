"""The functions of Bessel, Hankel, Airy, Kelvin and Struve: a slope is made of neighbours in the order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import special

from fgrad.core.dispatch import bind
from fgrad.core.primitive import Written
from fgrad.extend.engine import Expr, as_value, call, equal, fn, where
from fgrad.scipy.special.formulas import polynomial
from fgrad.scipy.special.primitives import Row, declare, either


def _neighbours(
    name: str, below: int, above: int, scaling: Callable[[Expr, Expr, Expr], Any] = lambda f, v, z: 0
) -> Callable[[Expr, Expr, Expr], tuple[None, Expr]]:
    """Return the slopes of a function g of order v, (below g(v - 1, z) + above g(v + 1, z)) / 2.

    `scaling` is what a factor of g adds.
    """
    g = call(name)

    def slopes(f: Expr, v: Expr, z: Expr) -> tuple[None, Expr]:
        return None, (below * g(v - 1, z) + above * g(v + 1, z)) / 2 + scaling(f, v, z)

    return slopes


def _rising(x: Expr) -> Expr:
    """Return the slope of (2/3) x**1.5, by which Airy functions are scaled on the right."""
    return fn.sqrt(fn.maximum(x, 0))


def _quartic(terms: Sequence[float], x: Expr) -> Any:
    """Return the sum over k of terms[k] (x / 2)**(4 k)."""
    return polynomial(terms, x * x * x * x / 16)


# of ber'(x) / x**3 and bei'(x) / x at zero: 10.65.1, to the last bit for |x| < 1
_BER = [(-1) ** k * 4 * k / 16 / math.factorial(2 * k) ** 2 for k in range(1, 6)]
_BEI = [(-1) ** k * (4 * k + 2) / 4 / math.factorial(2 * k + 1) ** 2 for k in range(6)]


def _berp(f: Expr, x: Expr) -> tuple[Expr]:
    near = lambda x: x * x * _quartic(_BER, x)
    return (-fn.bei(x) - either(fn.fabs(x) < 1, x, near, lambda x: fn.berp(x) / x, inside=0.5, outside=2.0),)


def _beip(f: Expr, x: Expr) -> tuple[Expr]:
    near = lambda x: _quartic(_BEI, x)
    return (fn.ber(x) - either(fn.fabs(x) < 1, x, near, lambda x: fn.beip(x) / x, inside=0.5, outside=2.0),)


# (I_0(t) - 1) / t**2 and (1 - J_0(t)) / t**2 at zero: 10.25.2
_ABOUT_ONE = [1 / 4 / math.factorial(k + 1) ** 2 for k in range(9)]


def _about_one(value: Callable[[Expr], Expr], sign: int, t: Expr) -> Expr:
    near = lambda t: t * polynomial(_ABOUT_ONE, sign * t * t / 4)
    return either(fn.fabs(t) < 1, t, near, lambda t: sign * (value(t) - 1) / t, inside=0.5, outside=2.0)


def _struve(name: str, sign: int) -> Any:
    g = call(name)

    def near(v: Expr, x: Expr) -> Expr:
        power = fn.power(x / 2, v) * fn.rgamma(v + 1.5) / math.sqrt(math.pi)
        lowest = equal(v, 0)  # the one below it has poles at zero that cancel: 11.4.25, 11.4.29
        below = where(lowest, power + sign * g(v + 1, x), g(where(lowest, 1, v) - 1, x))
        return (below + sign * g(v + 1, x) + power) / 2

    def slopes(f: Expr, v: Expr, x: Expr) -> tuple[None, Expr]:
        # far out, the power and the function above are large and cancel
        far = lambda x: g(v - 1, x) - v / x * g(v, x)
        return None, either(fn.fabs(x) > 20, x, far, lambda x: near(v, x), inside=40.0, outside=1.0)

    return slopes


# of struve(0, x) / x and modstruve(0, x) / x at zero: 11.2.1, to the last bit for |x| < 1
_ODD_FACTORIALS = [2 / math.pi / math.prod(range(1, 2 * k + 2, 2)) ** 2 for k in range(9)]


def _struve0_over(x: Expr, sign: int) -> Expr:
    """Return the function of order zero over x, which is entire."""
    value = call("struve" if sign < 0 else "modstruve")
    near = lambda x: polynomial(_ODD_FACTORIALS, sign * (x * x))
    return either(fn.fabs(x) < 1, x, near, lambda x: value(0, x) / x, inside=0.5, outside=2.0)


# of I_0(x) and of I_1(x) / x at zero, in (x / 2)**2: 10.25.2, to the last bit for |x| < 1 with their slopes
_I0_SERIES = [1 / math.factorial(k) ** 2 for k in range(11)]
_I1_SERIES = [1 / 2 / math.factorial(k) / math.factorial(k + 1) for k in range(11)]


def _i1_share(x: Expr) -> Expr:
    """Return I_1(x) / (x I_0(x)), which neither overflows nor has a kink at zero."""
    near = lambda x: polynomial(_I1_SERIES, x * x / 4) / polynomial(_I0_SERIES, x * x / 4)
    far = lambda x: fn.i1e(x) / (fn.i0e(x) * x)
    return either(fn.fabs(x) < 1, x, near, far, inside=0.5, outside=2.0)


def _j1_over(x: Expr) -> Expr:
    """Return J_1(x) / x, which is entire."""
    near = lambda x: polynomial(_I1_SERIES, -(x * x) / 4)
    return either(fn.fabs(x) < 1, x, near, lambda x: fn.j1(x) / x, inside=0.5, outside=2.0)


def _besselpoly(f: Expr, a: Expr, lmb: Expr, nu: Expr) -> tuple[Expr, None, None]:
    return fn.besselpoly(a, lmb + 1, nu - 1) - fn.besselpoly(a, lmb + 1, nu + 1), None, None


# fmt: off
declare({
    "jv":  Row("v z", _neighbours("jv", 1, -1), "10.6.1", complex=True),
    "jve": Row("v z", _neighbours("jve", 1, -1), "10.6.1"),
    "yv":  Row("v z", _neighbours("yv", 1, -1), "10.6.1", complex=True),
    "yve": Row("v z", _neighbours("yve", 1, -1), "10.6.1"),
    "yn":  Row("n x", _neighbours("yn", 1, -1), "10.6.1"),
    "iv":  Row("v z", _neighbours("iv", 1, 1), "10.29.1", complex=True),
    "ive": Row("v z", _neighbours("ive", 1, 1, lambda f, v, z: -fn.ive_signed(v, z)), "10.29.1"),
    # ive times the sign, by which both have the mean of both sides at zero in every order
    "ive_signed": Row("v z", _neighbours("ive_signed", 1, 1, lambda f, v, z: -fn.ive(v, z)), "10.29.1",
                      run=lambda v, z: np.sign(z) * special.ive(v, z),
                      written=Written(lambda v, z: np.sign(as_value(z)) * bind("ive", v, z))),
    "kv":  Row("v z", _neighbours("kv", -1, -1), "10.29.1", complex=True),
    "kve": Row("v z", _neighbours("kve", -1, -1, lambda f, v, z: f), "10.29.1", complex=True),
    "kn":  Row("n x", _neighbours("kn", -1, -1), "10.29.1"),
    "hankel1":  Row("v z", _neighbours("hankel1", 1, -1), "10.6.1", complex=True),
    "hankel1e": Row("v z", _neighbours("hankel1e", 1, -1, lambda f, v, z: -fn.turned(f)), "10.6.1",
                    complex=True),
    "hankel2":  Row("v z", _neighbours("hankel2", 1, -1), "10.6.1", complex=True),
    "hankel2e": Row("v z", _neighbours("hankel2e", 1, -1, lambda f, v, z: fn.turned(f)), "10.6.1",
                    complex=True),
    "j0":  Row("x", lambda f, x: (-fn.j1(x),), "10.6.3"),
    "j1":  Row("x", lambda f, x: (fn.j0(x) - _j1_over(x),), "10.6.2"),
    "y0":  Row("x", lambda f, x: (-fn.y1(x),), "10.6.3"),
    "y1":  Row("x", lambda f, x: (fn.y0(x) - f / x,), "10.6.2"),
    "i0":  Row("x", lambda f, x: (fn.i1(x),), "10.29.3"),
    "i1":  Row("x", lambda f, x: (fn.i0(x) * (1 - _i1_share(x)),), "10.29.2"),
    "i0e": Row("x", lambda f, x: (fn.i1e(x) - fn.i0e_signed(x),), "10.29.3"),
    "i1e": Row("x", lambda f, x: (fn.i0e(x) * (1 - _i1_share(x)) - fn.i1e_signed(x),), "10.29.2"),
    "i0e_signed": Row("x", lambda f, x: (fn.i1e_signed(x) - fn.i0e(x),), "10.29.3",
                      run=lambda x: np.sign(x) * special.i0e(x)),
    "i1e_signed": Row("x", lambda f, x: (fn.i0e_signed(x) * (1 - _i1_share(x)) - fn.i1e(x),), "10.29.2",
                      run=lambda x: special.i1e(np.absolute(x))),
    "k0":  Row("x", lambda f, x: (-fn.k1(x),), "10.29.3"),
    "k1":  Row("x", lambda f, x: (-fn.k0(x) - f / x,), "10.29.2"),
    "k0e": Row("x", lambda f, x: (f - fn.k1e(x),), "10.29.3"),
    "k1e": Row("x", lambda f, x: (f - fn.k0e(x) - f / x,), "10.29.2"),
    "airy_ai":  Row("z", lambda f, z: (fn.airy_aip(z),), "9.2.1", complex=True, output=("airy", 0)),
    "airy_aip": Row("z", lambda f, z: (z * fn.airy_ai(z),), "9.2.1", complex=True, output=("airy", 1)),
    "airy_bi":  Row("z", lambda f, z: (fn.airy_bip(z),), "9.2.1", complex=True, output=("airy", 2)),
    "airy_bip": Row("z", lambda f, z: (z * fn.airy_bi(z),), "9.2.1", complex=True, output=("airy", 3)),
    "airye_ai":  Row("z", lambda f, z: (fn.airye_aip(z) + fn.sqrt(z) * f,), "9.2.1", complex=True,
                      output=("airye", 0)),
    "airye_aip": Row("z", lambda f, z: (z * fn.airye_ai(z) + fn.sqrt(z) * f,), "9.2.1", complex=True,
                      output=("airye", 1)),
    "airye_bi":  Row("z", lambda f, z: (fn.airye_bip(z) - _rising(z) * f,), "9.2.1", output=("airye", 2)),
    "airye_bip": Row("z", lambda f, z: (z * fn.airye_bi(z) - _rising(z) * f,), "9.2.1", output=("airye", 3)),
    "itairy_apt": Row("x", lambda f, x: (fn.airy_ai(x),), "9.10.1", output=("itairy", 0)),
    "itairy_bpt": Row("x", lambda f, x: (fn.airy_bi(x),), "9.10.2", output=("itairy", 1)),
    "itairy_ant": Row("x", lambda f, x: (fn.airy_ai(-x),), "9.10.1", output=("itairy", 2)),
    "itairy_bnt": Row("x", lambda f, x: (fn.airy_bi(-x),), "9.10.2", output=("itairy", 3)),
    "ber":  Row("x", lambda f, x: (fn.berp(x),), "10.61.1"),
    "bei":  Row("x", lambda f, x: (fn.beip(x),), "10.61.1"),
    "berp": Row("x", _berp, "10.61.3"),
    "beip": Row("x", _beip, "10.61.3"),
    "ker":  Row("x", lambda f, x: (fn.kerp(x),), "10.61.2"),
    "kei":  Row("x", lambda f, x: (fn.keip(x),), "10.61.2"),
    "kerp": Row("x", lambda f, x: (-fn.kei(x) - f / x,), "10.61.3"),
    "keip": Row("x", lambda f, x: (fn.ker(x) - f / x,), "10.61.3"),
    "itj0y0_j": Row("x", lambda f, x: (fn.j0(x),), "10.22(i)", output=("itj0y0", 0)),
    "itj0y0_y": Row("x", lambda f, x: (fn.y0(x),), "10.22(i)", output=("itj0y0", 1)),
    "iti0k0_i": Row("x", lambda f, x: (fn.i0(x),), "10.43(i)", output=("iti0k0", 0)),
    "iti0k0_k": Row("x", lambda f, x: (fn.k0(x),), "10.43(i)", output=("iti0k0", 1)),
    "it2j0y0_j": Row("x", lambda f, x: (_about_one(fn.j0, -1, x),), "10.22(i)", output=("it2j0y0", 0)),
    "it2j0y0_y": Row("x", lambda f, x: (-fn.y0(x) / x,), "10.22(i)", output=("it2j0y0", 1)),
    "it2i0k0_i": Row("x", lambda f, x: (_about_one(fn.i0, 1, x),), "10.43(i)", output=("it2i0k0", 0)),
    "it2i0k0_k": Row("x", lambda f, x: (-fn.k0(x) / x,), "10.43(i)", output=("it2i0k0", 1)),
    "struve":    Row("v x", _struve("struve", -1), "11.4.24, 11.4.27"),
    "modstruve": Row("v x", _struve("modstruve", 1), "11.4.26, 11.4.29"),
    "itstruve0": Row("x", lambda f, x: (x * _struve0_over(x, -1),), "11.7(i)"),
    "itmodstruve0": Row("x", lambda f, x: (x * _struve0_over(x, 1),), "11.7(i)"),
    "it2struve0": Row("x", lambda f, x: (-_struve0_over(x, -1),), "11.7(i)"),
    "besselpoly": Row("a lmb nu", _besselpoly, "10.6.1"),
    "wright_bessel": Row("a b x", lambda f, a, b, x: (None, None, fn.wright_bessel(a, b + a, x)), "10.46.1"),
    "log_wright_bessel": Row("a b x", lambda f, a, b, x: (
        None, None, fn.exp(fn.log_wright_bessel(a, b + a, x) - f)), "10.46.1"),
})
# fmt: on
