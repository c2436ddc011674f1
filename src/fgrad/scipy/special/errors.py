"""The error function and its relatives, the normal distribution, and the integrals of Fresnel and Voigt."""

from __future__ import annotations

import math
from typing import Any

from scipy import special

from fgrad.core.dispatch import bind
from fgrad.extend.engine import Expr, call, declare_word, fn, where
from fgrad.scipy.special.primitives import Row, declare, either

ROOT_PI, ROOT_2PI = math.sqrt(math.pi), math.sqrt(2 * math.pi)
BELL = 2 / ROOT_PI
FAR = 50.0  # from here on the asymptotic series is exact to rounding, and the closed form cancels


declare_word("turned", lambda z: z * 1j)


def _series(x: Expr, sign: int) -> Expr:
    """Return the sum over k > 0 of sign**k (2 k - 1)!! / (2 x**2)**k (7.12.1, 7.12.4)."""
    t = sign / (2 * x * x)
    total: Any = 0.0
    for k in range(7, 0, -1):
        total = (total + 1) * t * (2 * k - 1)
    return total  # type: ignore[no-any-return]


def _is_far(z: Expr, along: Expr, across: Expr) -> Expr:
    """Return where the asymptotic series holds: within 45 degrees of an axis, or on the half of the plane."""
    return fn.logical_and(fn.modulus(z) > FAR, along > -fn.fabs(across))


def _erfcx(_: Expr, z: Expr) -> tuple[Expr]:
    near = lambda z: 2 * z * fn.erfcx(z) - BELL
    is_far = _is_far(z, fn.real_part(z), fn.imag_part(z))
    return (either(is_far, z, lambda z: BELL * _series(z, -1), near, inside=2 * FAR, outside=1.0),)


def _wofz(_: Expr, z: Expr) -> tuple[Expr]:
    near = lambda z: fn.turned(BELL) - 2 * z * fn.wofz(z)
    is_far = _is_far(z, fn.imag_part(z), fn.real_part(z))
    return (either(is_far, z, lambda z: fn.turned(-BELL * _series(z, 1)), near, inside=2 * FAR, outside=1.0),)


def _dawsn(_: Expr, z: Expr) -> tuple[Expr]:
    near = lambda z: 1 - 2 * z * fn.dawsn(z)
    far = lambda z: -_series(z, 1)
    is_far = fn.logical_and(fn.modulus(z) > FAR, fn.fabs(fn.real_part(z)) > fn.fabs(fn.imag_part(z)))
    return (either(is_far, z, far, near, inside=2 * FAR, outside=1.0),)


def mills(x: Expr) -> Expr:
    """Return the normal density over the distribution function, which is the slope of log_ndtr."""
    near = lambda x: math.sqrt(2 / math.pi) / fn.erfcx(-x / math.sqrt(2))
    far = lambda x: fn.exp(-x * x / 2) / ROOT_2PI / fn.ndtr(x)
    return either(fn.real_part(x) < 5, x, near, far, inside=0.0, outside=6.0)


def _ndtri_exp(f: Expr, y: Expr) -> tuple[Expr]:
    near = lambda x: fn.erfcx(-x / math.sqrt(2)) / math.sqrt(2 / math.pi)
    far = lambda x: ROOT_2PI * fn.exp(x * x / 2) * fn.ndtr(x)
    return (either(f < 5, f, near, far, inside=0.0, outside=6.0),)


def _owens_t(_: Expr, h: Expr, a: Expr) -> tuple[Expr, Expr]:
    s = 1 + a * a
    bell = fn.exp(-h * h / 2)
    return -bell * fn.erf(a * h / math.sqrt(2)) / (2 * ROOT_2PI), fn.exp(-h * h * s / 2) / (2 * math.pi * s)


def _lorentz(x: Any, sigma: Any, gamma: Any) -> Any:
    """Return the imaginary part of the function whose real part is the profile of Voigt."""
    return bind("imag", bind("wofz", (x + gamma * 1j) / (sigma * math.sqrt(2)))) / (sigma * ROOT_2PI)


declare_word("voigt_lorentz", _lorentz)


def _voigt_far(i: int) -> Any:
    """Return the slope in operand `i` where sigma is small: it is of a real part, by 7.12.1.

    V = Re (i / (pi zeta)) sum over k of (2 k - 1)!! (sigma / zeta)**(2 k), zeta = x + i gamma.
    """

    def word(x: Any, sigma: Any, gamma: Any) -> Any:
        zeta = x + gamma * 1j
        inverse = 1 / (zeta * zeta)
        u, total = sigma * sigma * inverse, inverse * 0.0
        for k in range(7, -1, -1):
            odd = math.prod(range(1, 2 * k + 2, 2))
            total = total * u + (odd if i != 1 else 2 * (k + 1) * odd)
        if i == 1:
            return bind("imag", total * inverse / zeta) * sigma / -math.pi
        return bind("imag" if i == 0 else "real", total * inverse) / math.pi

    return word


_VOIGT_FAR = tuple(f"voigt_far_{i}" for i in range(3))
for _i, _name in enumerate(_VOIGT_FAR):
    declare_word(_name, _voigt_far(_i))


def _voigt(f: Expr, x: Expr, sigma: Expr, gamma: Expr) -> tuple[Expr, ...]:
    """Return the slopes by the equations of the function, or by the series where sigma is small."""
    above = fn.logical_and(sigma >= 0, gamma >= 0)
    far = fn.logical_and(
        x * x + gamma * gamma > 1600 * (sigma * sigma),
        fn.logical_or(above, fn.fabs(x) > fn.fabs(gamma)),  # where the series holds, as for w
    )
    slopes = _voigt_near(f, *(where(far, 1, e) for e in (x, sigma, gamma)))
    given = where(far, x, 1), where(far, sigma, 0), where(far, gamma, 1)
    return tuple(where(far, call(name)(*given), s) for name, s in zip(_VOIGT_FAR, slopes, strict=True))


def _voigt_near(f: Expr, x: Expr, sigma: Expr, gamma: Expr) -> tuple[Expr, Expr, Expr]:
    # W = V + iL solves s**2 dW/dx = i/pi - (x + i gamma) W, and is a function of x + i gamma; the profile
    # solves the heat equation dV/ds = s d2V/dx2
    other, square = fn.voigt_lorentz(x, sigma, gamma), sigma * sigma
    slope = (gamma * other - x * f) / square
    other_slope = (1 / math.pi - x * other - gamma * f) / square
    return slope, (gamma * other_slope - f - x * slope) / sigma, -other_slope


def _quarter(x: Expr) -> Expr:
    return math.pi / 2 * x * x


# fmt: off
declare({
    "complex_erf":  Row("z", lambda f, z: (BELL * fn.exp(-(z * z)),), "7.2.1", complex=True,
                        run=special.erf),
    "complex_erfc": Row("z", lambda f, z: (-BELL * fn.exp(-(z * z)),), "7.2.2", complex=True,
                        run=special.erfc),
    "erfi":      Row("z", lambda f, z: (BELL * fn.exp(z * z),), "7.2.5", complex=True),
    "erfcx":     Row("z", _erfcx, "7.10.1", complex=True),
    "dawsn":     Row("z", _dawsn, "7.10.3", complex=True),
    "wofz":      Row("z", _wofz, "7.10.2", complex=True),
    "erfinv":    Row("y", lambda f, y: (fn.exp(f * f) / BELL,), "7.17.1"),
    "erfcinv":   Row("y", lambda f, y: (-fn.exp(f * f) / BELL,), "7.17.1"),
    "ndtr":      Row("x", lambda f, x: (fn.exp(-x * x / 2) / ROOT_2PI,), "7.2.2", complex=True),
    "log_ndtr":  Row("x", lambda f, x: (mills(x),), "7.8.1", complex=True),
    "ndtri":     Row("y", lambda f, y: (ROOT_2PI * fn.exp(f * f / 2),), "7.17.1"),
    "ndtri_exp": Row("y", _ndtri_exp, "7.17.1"),
    "fresnel_s": Row("z", lambda f, z: (fn.sin(_quarter(z)),), "7.2.8", complex=True, output=("fresnel", 0)),
    "fresnel_c": Row("z", lambda f, z: (fn.cos(_quarter(z)),), "7.2.7", complex=True, output=("fresnel", 1)),
    "owens_t":   Row("h a", _owens_t, "Owen (1956), Ann. Math. Statist. 27"),
    "voigt_profile": Row("x sigma gamma", _voigt, "7.19.1, 7.10.2"),
})
# fmt: on
