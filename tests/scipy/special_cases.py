"""Where each primitive of fgrad.scipy.special is checked, and what mpmath says it is: one line a primitive.

The first point is also the sample of the primitive in tests/ops/test_primitives.py. An `int` among the
operands is an argument without derivative, or one that is kept constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np

import fgrad.scipy.special  # noqa: F401 -- declares the primitives
from fgrad.core.primitive import PRIMITIVES


class Case(NamedTuple):
    """A primitive, and an independent definition of it."""

    points: Sequence[tuple[float, ...]]
    definition: Callable[..., Any]
    order: int = 2  # up to which the family is closed
    rtol: float = 2e-12
    value: float = 0.0  # how far SciPy's value is off, where that is more
    complex: tuple[complex, ...] | None = None  # a point off the real axis


def is_constant(primitive: str, i: int, point: Sequence[Any]) -> bool:
    """Return whether operand `i` of the point is not differentiated: it is an integer,
    or no slope is known."""
    if isinstance(point[i], int):
        return True
    try:
        PRIMITIVES[primitive].vjp(tuple(k == i for k in range(len(point))))
    except TypeError:
        return True
    return False


def operands(primitive: str, point: Sequence[Any], dtype: Any) -> tuple[Any, ...]:
    """Return a sample of a primitive near a point: arrays of `dtype` or complex ones, and constants."""
    near = np.array([1.0, 1.02])
    return tuple(
        x if is_constant(primitive, i, point) else (x * near).astype(dtype) for i, x in enumerate(point)
    )


def at(*points: Any) -> list[tuple[float, ...]]:
    return [p if isinstance(p, tuple) else (p,) for p in points]


PI = mp.pi
LN10 = mp.log(10)


def gammainc(a: Any, x: Any) -> Any:
    return mp.gammainc(a, 0, x, regularized=True)


def gammaincc(a: Any, x: Any) -> Any:
    return mp.gammainc(a, x, mp.inf, regularized=True)


def betainc(a: Any, b: Any, x: Any) -> Any:
    return mp.betainc(a, b, 0, x, regularized=True)


def inverse(f: Callable[..., Any], place: int, *starts: float) -> Callable[..., Any]:
    """Return the solution x of f(..., x, ...) = p, for the arguments of `f` with p in the place of x."""

    def solve(*args: Any) -> Any:
        p = args[place]
        g = lambda x: f(*args[:place], x, *args[place + 1 :]) - p
        return mp.findroot(g, starts, tol=1e-40)

    return solve


def normal(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def normal_quantile(p: Any) -> Any:
    return (
        -mp.sqrt(2) * mp.erfinv(1 - 2 * p)
        if p > 1e-8
        else mp.findroot(lambda x: mp.log(normal(x) / p), -mp.sqrt(-2 * mp.log(p)) + mp.mpf(1) / 2, tol=1e-40)
    )


def faddeeva(z: Any) -> Any:
    return mp.exp(-z * z) * mp.erfc(-mp.mpc(0, 1) * z)


def boxcox(x: Any, p: Any) -> Any:
    return (mp.expm1(p * mp.log(x))) / p if p else mp.log(x)


def inv_boxcox(y: Any, p: Any) -> Any:
    return mp.exp(mp.log1p(p * y) / p) if p else mp.exp(y)


def huber(d: Any, r: Any) -> Any:
    return r * r / 2 if abs(r) <= d else d * (abs(r) - d / 2)


def tukey_lambda(x: Any, lam: Any) -> Any:
    quantile = lambda p: (p**lam - (1 - p) ** lam) / lam if lam else mp.log(p / (1 - p))
    return mp.findroot(lambda p: quantile(p) - x, normal(x / mp.mpf(1.8)), tol=1e-40)


def first(phi: Any, m: Any) -> Any:
    return mp.ellipf(phi, m)


def jacobi_amplitude(u: Any, m: Any) -> Any:
    return mp.findroot(lambda phi: mp.ellipf(phi, m) - u, u, tol=1e-40)


def scaled(f: Callable[..., Any], factor: Callable[..., Any]) -> Callable[..., Any]:
    return lambda v, z: f(v, z) * factor(z)


def up(z: Any) -> Any:
    return mp.exp(z)


def down(z: Any) -> Any:
    return mp.exp(-abs(z)) if isinstance(z, mp.mpf | float | int) else mp.exp(-z)


def airy_factor(z: Any) -> Any:
    return mp.exp(2 * z * mp.sqrt(z) / 3)


def integral(f: Callable[[Any], Any], start: Any = 0) -> Callable[[Any], Any]:
    return lambda x: mp.quad(f, [start, x])


def logarithmic(x: Any, sign: int) -> Any:
    """Return the series in the integrals of K0(t) / t and Y0(t) / t: Abramowitz & Stegun 11.1.20, 11.1.23."""
    term = lambda k: (
        (sign * x * x / 4) ** k
        / (2 * k * mp.factorial(k) ** 2)
        * (mp.log(x / 2) - mp.digamma(k + 1) - 1 / (2 * k))
    )
    return mp.fsum(term(mp.mpf(k)) for k in range(1, 60))


def noncentral(x: Any, df: Any, nc: Any) -> Any:
    weight = lambda k: mp.exp(-nc / 2) * (nc / 2) ** k / mp.factorial(k)
    return mp.fsum(weight(k) * gammainc(df / 2 + k, x / 2) for k in range(45))


def kolmogorov(y: Any) -> Any:
    return 2 * sum((-1) ** (k - 1) * mp.exp(-2 * k * k * y * y) for k in range(1, 60))


def student(df: Any, t: Any) -> Any:
    half = mp.betainc(mp.mpf(1) / 2, df / 2, 0, t * t / (df + t * t), regularized=True) / 2
    return mp.mpf(1) / 2 + (half if t > 0 else -half)


def fisher(m: Any, n: Any, x: Any) -> Any:
    return betainc(m / 2, n / 2, m * x / (n + m * x))


def binomial(k: Any, n: Any, p: Any) -> Any:
    return mp.betainc(n - k, k + 1, 0, 1 - p, regularized=True)


def voigt(x: Any, s: Any, g: Any) -> Any:
    z = (x + mp.mpc(0, 1) * g) / (s * mp.sqrt(2))
    return mp.re(faddeeva(z)) / (s * mp.sqrt(2 * PI))


def wright(a: Any, b: Any, x: Any) -> Any:
    return mp.nsum(lambda k: x**k / mp.factorial(k) * mp.rgamma(a * k + b), [0, mp.inf])


def spherical(f: Callable[..., Any], factor: Any) -> Callable[..., Any]:
    return lambda n, z: mp.sqrt(factor / z) * f(n + mp.mpf(1) / 2, z)


# fmt: off
CASES: dict[str, Case] = {
    # gamma
    "gamma":    Case(at(2.5, 0.3, -1.5, 20.5, 1.0), mp.gamma, complex=(1.5 + 0.5j,)),
    "gammaln":  Case(at(2.5, 1e-3, 0.7, 1.0, 1e6), mp.loggamma),
    "loggamma": Case(at(2.5, 1e-3, 0.7, 1e6), mp.loggamma, complex=(1.5 + 0.5j,)),
    "rgamma":   Case(at(2.5, 0.0, -2.0, -1.3, 0.5, 0.3, 20.5), mp.rgamma),
    "psi":      Case(at(2.5, 1e-3, 1.0, -1.3, 1e6), mp.digamma),
    "trigamma": Case(at(2.5, 1e-3, 1.0, -1.3, 1e6), lambda x: mp.zeta(2, x)),
    "riemann_zeta": Case(at(3.0, 1.5, 0.5, -0.7, -3.5, -40.3), mp.zeta),
    "zeta":     Case(at((3, 1.5), (2, 0.3), (4, -1.3), (5, 30.0)), mp.zeta),
    "beta":     Case(at((2.5, 1.5), (0.3, 4.0), (30.0, 2.0)), mp.beta),
    "betaln":   Case(at((2.5, 1.5), (0.3, 4.0), (1e3, 2.0)), lambda a, b: mp.log(mp.beta(a, b))),
    "poch":     Case(at((2.5, 1.5), (0.3, 4.0), (7.0, -2.5)), mp.rf),
    "binom":    Case(at((5.5, 2.5), (5.0, 2.0), (3.2, 0.0), (4.0, 4.0)), mp.binomial),
    "gammainc": Case(at((2.5, 1.5), (0.3, 0.7), (1.0, 1e-3), (30.0, 40.0), (5.0, 30.0)), gammainc,
        rtol=1e-10),
    "gammaincc": Case(at((2.5, 1.5), (0.3, 0.7), (5.0, 30.0)), gammaincc, rtol=1e-10),
    "gammaincinv": Case(at((2.5, 0.4), (0.6, 0.2), (20.0, 0.99)), lambda a, p: mp.findroot(
        lambda x: gammainc(a, x) - p, a if p > 0.3 else 0.1, tol=1e-40), rtol=1e-10),
    "gammainccinv": Case(at((2.5, 0.4), (20.0, 0.99)), lambda a, p: mp.findroot(
        lambda x: gammaincc(a, x) - p, a, tol=1e-40), rtol=1e-9),
    "betainc":   Case(at((2.5, 1.5, 0.4), (0.3, 0.6, 1e-3), (30.0, 20.0, 0.7)), betainc, rtol=1e-10),
    "betaincc":  Case(at((2.5, 1.5, 0.4), (0.3, 0.6, 0.99)), lambda a, b, x: 1 - betainc(a, b, x),
        rtol=1e-10),
    "betaincinv": Case(at((2.5, 1.5, 0.4), (12.0, 8.0, 0.9)), lambda a, b, p: mp.findroot(
        lambda x: betainc(a, b, x) - p, 0.6, tol=1e-40), rtol=1e-10),
    "betainccinv": Case(at((2.5, 1.5, 0.4), (12.0, 8.0, 0.1)), lambda a, b, p: mp.findroot(
        lambda x: 1 - betainc(a, b, x) - p, 0.6, tol=1e-40), rtol=1e-10),
    # error functions
    "complex_erf": Case([], mp.erf, complex=(0.5 + 0.5j,)),
    "complex_erfc": Case([], mp.erfc, complex=(0.5 + 0.5j,)),
    "erfi":     Case(at(0.7, 0.0, -3.0, 5.0), mp.erfi, complex=(0.5 + 0.5j,)),
    "erfcx":    Case(at(0.7, 0.0, -3.0, 49.0, 51.0, 1e8), lambda x: (
        mp.exp(x * x) * mp.erfc(x) if abs(x) < 1e3 else mp.hyperu(0.5, 0.5, x * x) / mp.sqrt(PI)), rtol=2e-10,
        complex=(0.5 + 0.5j,)),
    "dawsn":    Case(at(0.7, 0.0, -3.0, 49.0, 51.0, -60.0), lambda x: (
        mp.exp(-x * x) * mp.erfi(x) * mp.sqrt(PI) / 2), rtol=2e-9, complex=(0.5 + 0.5j,)),
    "wofz":     Case([], faddeeva, complex=(0.5 + 0.5j,)),
    "erfinv":   Case(at(0.7, 0.0, -0.999), mp.erfinv),
    "erfcinv":  Case(at(0.7, 1.0, 1.999, 1e-3), lambda y: mp.erfinv(1 - y)),
    "ndtr":     Case(at(0.7, 0.0, -30.0, 8.0), normal, complex=(0.5 + 0.5j,)),
    "log_ndtr": Case(at(0.7, 0.0, -30.0, 4.0, 6.0, 37.0), lambda x:
        mp.log1p(-normal(-x)) if mp.re(x) > 0 else mp.log(normal(x)), complex=(0.5 + 0.5j,)),
    "ndtri":    Case(at(0.7, 0.5, 1e-10, 0.999), normal_quantile),
    "ndtri_exp": Case(at(-0.7, -0.01, -100.0), lambda y: normal_quantile(mp.exp(y)), rtol=1e-10),
    "fresnel_s": Case(at(0.7, 0.0, -3.0), mp.fresnels, complex=(0.5 + 0.5j,)),
    "fresnel_c": Case(at(0.7, 0.0, -3.0), mp.fresnelc, complex=(0.5 + 0.5j,)),
    "owens_t":  Case(at((0.7, 0.5), (0.0, -2.0), (3.0, 0.1)), lambda h, a: mp.quad(
        lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a]) / (2 * PI)),
    "voigt_profile": Case(at((0.7, 0.5, 0.3), (-3.0, 1.0, 0.01), (0.0, 1.0, 2.0)), voigt, rtol=1e-10),
    # elementary
    "logit":    Case(at(0.7, 0.5, 1e-6), lambda x: mp.log(x / (1 - x))),
    "log_expit": Case(at(0.7, 0.0, -30.0, 30.0), lambda x: -mp.log1p(mp.exp(-x))),
    "exprel":   Case(at(0.7, 0.0, 1e-5, -3.0, 30.0, -30.0), lambda x: mp.expm1(x) / x if x else mp.mpf(1)),
    "exp10":    Case(at(0.7, 0.0, -3.0), lambda x: mp.mpf(10) ** x),
    "cosm1":    Case(at(0.7, 0.0, 1e-5), lambda x: mp.cos(x) - 1, rtol=1e-10),
    "sindg":    Case(at(40.0, 0.0, 180.0, -700.0), lambda x: mp.sin(mp.radians(x))),
    "cosdg":    Case(at(40.0, 0.0, 180.0, -700.0), lambda x: mp.cos(mp.radians(x))),
    "tandg":    Case(at(40.0, 0.0, -50.0), lambda x: mp.tan(mp.radians(x))),
    "cotdg":    Case(at(40.0, -50.0), lambda x: mp.cot(mp.radians(x))),
    "radian":   Case(at((40.0, 20.0, 10.0)), lambda d, m, s: mp.radians(d + m / 60 + s / 3600)),
    "round":    Case(at(0.7), lambda x: mp.nint(x)),
    "gammasgn": Case(at(0.7, -0.5), lambda x: mp.sign(mp.gamma(x))),
    "exp1":     Case(at(0.7, 1e-3, 30.0), mp.e1, complex=(0.5 + 0.5j,)),
    "expi":     Case(at(0.7, -2.0, 30.0), mp.ei, complex=(0.5 + 0.5j,)),
    "expn":     Case(at((2, 0.7), (0, 0.7), (1, 3.0), (3, 0.1)), mp.expint),
    "shichi_shi": Case(at(0.7, 0.0, -3.0, 20.0), mp.shi, complex=(0.5 + 0.5j,)),
    "shichi_chi": Case(at(0.7, 3.0), mp.chi, complex=(0.5 + 0.5j,)),
    "sici_si":  Case(at(0.7, 0.0, -3.0, 30.0), mp.si, complex=(0.5 + 0.5j,)),
    "sici_ci":  Case(at(0.7, 3.0, 30.0), mp.ci, complex=(0.5 + 0.5j,)),
    "spence":   Case(at(0.7, 1.0, 1.0001, 0.1, 5.0, 100.0), lambda z: mp.polylog(2, 1 - z),
        complex=(0.5 + 0.5j,)),
    "wrightomega": Case(at(0.7, 0.0, -30.0, 50.0), lambda z: mp.lambertw(mp.exp(z)), complex=(0.5 + 0.5j,)),
    "xlogy":    Case(at((0.7, 2.0), (0.0, 0.5), (3.0, 1e-5)), lambda x, y: x * mp.log(y),
        complex=(0.7 + 0.1j, 2.0 - 0.5j)),
    "complex_log1p": Case([], lambda z: mp.log(1 + z), complex=(1e-8 + 1e-9j,)),
    "xlog1py":  Case(at((0.7, 2.0), (0.0, 0.5), (3.0, 1e-5)), lambda x, y: x * mp.log1p(y),
        complex=(0.7 + 0.1j, 2.0 - 0.5j)),
    "entr":     Case(at(0.7, 1.0, 30.0), lambda x: -x * mp.log(x)),
    "rel_entr": Case(at((0.7, 2.0), (3.0, 0.1)), lambda x, y: x * mp.log(x / y)),
    "kl_div":   Case(at((0.7, 2.0), (3.0, 0.1)), lambda x, y: x * mp.log(x / y) - x + y),
    "huber":    Case(at((1.5, 0.7), (1.0, 2.0), (0.5, -3.0)), huber),
    "pseudo_huber": Case(at((1.5, 0.7), (1.0, 0.0), (0.5, -3.0), (10.0, 1e-3)), lambda d, r:
        d * d * (mp.sqrt(1 + (r / d) ** 2) - 1), rtol=1e-9),
    "boxcox":   Case(at((0.7, 0.5), (3.0, 0.0), (3.0, -2.0), (1.0, 1.0)), boxcox),
    "boxcox1p": Case(at((0.7, 0.5), (1e-3, 0.0), (3.0, -2.0)), lambda x, p: boxcox(1 + x, p)),
    "inv_boxcox": Case(at((0.7, 0.5), (0.5, 0.0), (3.0, 1e-3), (3.0, 2.0), (-0.3, 2.0)), inv_boxcox),
    "inv_boxcox1p": Case(at((0.7, 0.5), (0.5, 0.0), (3.0, 2.0)), lambda y, p: inv_boxcox(y, p) - 1),
    "powm1":    Case(at((0.7, 0.5), (1.0, 3.0), (2.0, -1.5)), lambda x, y: mp.power(x, y) - 1),
    "tklmbda":  Case(at((0.7, 0.5), (-0.3, 0.1), (1.5, -0.5)), tukey_lambda, rtol=1e-8),
    "agm":      Case(at((0.7, 2.0), (1.0, 1.0), (30.0, 0.1)), mp.agm, rtol=1e-11),
    # elliptic
    "ellipk":   Case(at(0.7, 0.0, -3.0, 0.999), mp.ellipk, rtol=1e-11),
    "ellipkm1": Case(at(0.7, 1.0, 1e-10), lambda p: mp.ellipk(1 - mp.mpf(p)), rtol=1e-11),
    "ellipe":   Case(at(0.7, 0.0, -3.0), mp.ellipe, rtol=1e-11),
    "ellipkinc": Case(at((0.7, 0.5), (0.7, 0.0), (-1.2, 0.9), (5.0, 0.3), (0.3, -2.0)), mp.ellipf,
        rtol=1e-11),
    "ellipeinc": Case(at((0.7, 0.5), (0.7, 0.0), (-1.2, 0.9), (5.0, 0.3), (0.3, -2.0)), mp.ellipe,
        rtol=1e-11),
    "ellipj_sn": Case(at((0.7, 0.5), (0.7, 0.1), (3.0, 0.3)), lambda u, m: mp.ellipfun("sn", u, m=m),
        rtol=1e-9),
    "ellipj_cn": Case(at((0.7, 0.5), (3.0, 0.3)), lambda u, m: mp.ellipfun("cn", u, m=m), rtol=1e-9),
    "ellipj_dn": Case(at((0.7, 0.5), (3.0, 0.3)), lambda u, m: mp.ellipfun("dn", u, m=m), rtol=1e-9),
    "ellipj_ph": Case(at((0.7, 0.5), (5.0, 0.3)), jacobi_amplitude, rtol=1e-9),
    "elliprc":  Case(at((0.7, 0.5), (1.0, 1.0), (0.3, 5.0)), mp.elliprc, rtol=1e-11),
    "elliprd":  Case(at((0.7, 0.5, 1.5), (1.0, 1.0, 1.0), (2.0, 30.0, 2.0)), mp.elliprd, rtol=1e-11),
    "elliprf":  Case(at((0.7, 0.5, 1.5), (1.0, 1.0, 1.0), (1e-3, 30.0, 2.0)), mp.elliprf, rtol=1e-11),
    "elliprg":  Case(at((0.7, 0.5, 1.5), (1.0, 1.0, 1.0), (0.1, 30.0, 2.0)), mp.elliprg, rtol=1e-11),
    "elliprj":  Case(at((0.7, 0.5, 1.5, 0.9), (1.0, 1.0, 1.0, 2.0)), mp.elliprj, rtol=1e-11),
    # Bessel
    "jv":  Case(at((0.5, 0.7), (0, 30.0), (2, -3.0), (1.5, 1e-3)), mp.besselj, complex=(0.5, 0.7 + 0.5j),
        rtol=1e-11),
    "jve": Case(at((0.5, 0.7), (0, 30.0), (2, -3.0)), mp.besselj, rtol=1e-11),
    "yv":  Case(at((0.5, 0.7), (0, 30.0), (2, 3.0)), mp.bessely, complex=(0.5, 0.7 + 0.5j), rtol=1e-11),
    "yve": Case(at((0.5, 0.7), (0, 30.0), (2, 3.0)), mp.bessely, rtol=1e-11),
    "yn":  Case(at((2, 0.7), (0, 30.0), (1, 3.0)), mp.bessely, rtol=1e-11),
    "iv":  Case(at((0.5, 0.7), (0, 30.0), (2, -3.0), (1.5, 1e-3)), mp.besseli, complex=(0.5, 0.7 + 0.5j),
        rtol=1e-11),
    "ive": Case(at((0.5, 0.7), (0, 30.0), (2, -3.0)), scaled(mp.besseli, down), rtol=1e-10),
    "ive_signed": Case(at((0.5, 0.7), (0, 30.0), (2, -3.0)),
        lambda v, z: mp.besseli(v, z) * down(z) * mp.sign(z), rtol=1e-10),
    "kv":  Case(at((0.5, 0.7), (0, 30.0), (2, 3.0)), mp.besselk, complex=(0.5, 0.7 + 0.5j), rtol=1e-11),
    "kve": Case(at((0.5, 0.7), (0, 30.0), (2, 3.0)), scaled(mp.besselk, up), complex=(0.5, 0.7 + 0.5j),
        rtol=1e-10),
    "kn":  Case(at((2, 0.7), (0, 30.0), (1, 3.0)), mp.besselk, rtol=1e-11),
    "hankel1":  Case([], mp.hankel1, complex=(0.5, 0.7 + 0.5j), rtol=1e-11),
    "hankel1e": Case([], scaled(mp.hankel1, lambda z: mp.exp(-mp.mpc(0, 1) * z)), complex=(0.5,
        0.7 + 0.5j), rtol=1e-11),
    "hankel2":  Case([], mp.hankel2, complex=(0.5, 0.7 + 0.5j), rtol=1e-11),
    "hankel2e": Case([], scaled(mp.hankel2, lambda z: mp.exp(mp.mpc(0, 1) * z)), complex=(0.5, 0.7 + 0.5j),
        rtol=1e-11),
    "j0":  Case(at(0.7, 0.0, -30.0), lambda x: mp.besselj(0, x), rtol=1e-11),
    "j1":  Case(at(0.7, 0.0, -30.0), lambda x: mp.besselj(1, x), rtol=1e-11),
    "y0":  Case(at(0.7, 30.0), lambda x: mp.bessely(0, x), rtol=1e-11),
    "y1":  Case(at(0.7, 30.0), lambda x: mp.bessely(1, x), rtol=1e-11),
    "i0":  Case(at(0.7, 0.0, -30.0), lambda x: mp.besseli(0, x), rtol=1e-11),
    "i1":  Case(at(0.7, 0.0, -30.0), lambda x: mp.besseli(1, x), rtol=1e-11),
    "i0e": Case(at(0.7, -30.0), lambda x: mp.besseli(0, x) * down(x), rtol=1e-10),
    "i1e": Case(at(0.7, -30.0), lambda x: mp.besseli(1, x) * down(x), rtol=1e-10),
    "i0e_signed": Case(at(0.7, -30.0), lambda x: mp.besseli(0, x) * down(x) * mp.sign(x), rtol=1e-10),
    "i1e_signed": Case(at(0.7, -30.0), lambda x: mp.besseli(1, x) * down(x) * mp.sign(x), rtol=1e-10),
    "k0":  Case(at(0.7, 30.0), lambda x: mp.besselk(0, x), rtol=1e-11),
    "k1":  Case(at(0.7, 30.0), lambda x: mp.besselk(1, x), rtol=1e-11),
    "k0e": Case(at(0.7, 30.0), lambda x: mp.besselk(0, x) * up(x), rtol=1e-10),
    "k1e": Case(at(0.7, 30.0), lambda x: mp.besselk(1, x) * up(x), rtol=1e-10),
    "airy_ai":  Case(at(0.7, 0.0, -8.0), mp.airyai, complex=(0.5 + 0.5j,), rtol=1e-11),
    "airy_aip": Case(at(0.7, 0.0, -8.0), lambda z: mp.airyai(z, derivative=1), complex=(0.5 + 0.5j,),
        rtol=1e-11),
    "airy_bi":  Case(at(0.7, 0.0, -8.0), mp.airybi, complex=(0.5 + 0.5j,), rtol=1e-11),
    "airy_bip": Case(at(0.7, 0.0, -8.0), lambda z: mp.airybi(z, derivative=1), complex=(0.5 + 0.5j,),
        rtol=1e-11),
    "airye_ai":  Case(at(0.7, 8.0), lambda z: mp.airyai(z) * airy_factor(z), rtol=1e-9,
        complex=(0.5 + 0.5j,)),
    "airye_aip": Case(at(0.7, 8.0), lambda z: mp.airyai(z, derivative=1) * airy_factor(z), rtol=1e-9,
        complex=(0.5 + 0.5j,)),
    "airye_bi":  Case(at(0.7, 8.0, -3.0), lambda z: mp.airybi(z) / (airy_factor(z) if z > 0 else 1),
        rtol=1e-9),
    "airye_bip": Case(at(0.7, 8.0, -3.0), lambda z: mp.airybi(z,
        derivative=1) / (airy_factor(z) if z > 0 else 1), rtol=1e-9),
    "itairy_apt": Case(at(0.7, 2.0), lambda x: mp.airyai(x, derivative=-1), rtol=1e-9, value=1e-6),
    "itairy_bpt": Case(at(0.7, 2.0), lambda x: mp.airybi(x, derivative=-1), rtol=1e-9, value=1e-6),
    "itairy_ant": Case(at(0.7, 2.0), lambda x: -mp.airyai(-x, derivative=-1), rtol=1e-9, value=1e-6),
    "itairy_bnt": Case(at(0.7, 2.0), lambda x: -mp.airybi(-x, derivative=-1), rtol=1e-9, value=1e-6),
    "ber":  Case(at(0.7, 0.0, 5.0), lambda x: mp.ber(0, x), rtol=1e-10),
    "bei":  Case(at(0.7, 0.0, 5.0), lambda x: mp.bei(0, x), rtol=1e-10),
    "berp": Case(at(0.7, 0.0, 5.0, 1.5), lambda x: mp.diff(lambda t: mp.ber(0, t), x), rtol=1e-10),
    "beip": Case(at(0.7, 0.0, 5.0, 1.5), lambda x: mp.diff(lambda t: mp.bei(0, t), x), rtol=1e-10),
    "ker":  Case(at(0.7, 5.0), lambda x: mp.ker(0, x), rtol=1e-8),
    "kei":  Case(at(0.7, 5.0), lambda x: mp.kei(0, x), rtol=1e-8),
    "kerp": Case(at(0.7, 5.0), lambda x: mp.diff(lambda t: mp.ker(0, t), x), rtol=1e-8),
    "keip": Case(at(0.7, 5.0), lambda x: mp.diff(lambda t: mp.kei(0, t), x), rtol=1e-8),
    "itj0y0_j": Case(at(0.7, 3.0), lambda x: x * mp.hyp1f2(0.5, 1, 1.5, -x * x / 4), rtol=1e-9, value=1e-7),
    "itj0y0_y": Case(at(0.7, 3.0), lambda x: PI * x / 2 * (mp.bessely(0, x) * mp.struveh(-1,
        x) + mp.bessely(1, x) * mp.struveh(0, x)), rtol=1e-9, value=1e-7),
    "iti0k0_i": Case(at(0.7, 3.0), lambda x: x * mp.hyp1f2(0.5, 1, 1.5, x * x / 4), rtol=1e-9, value=1e-7),
    "iti0k0_k": Case(at(0.7, 3.0), lambda x: PI * x / 2 * (mp.besselk(0, x) * mp.struvel(-1,
        x) + mp.besselk(1, x) * mp.struvel(0, x)), rtol=1e-9, value=1e-7),
    "it2j0y0_j": Case(at(0.7, 3.0), lambda x: x * x / 8 * mp.hyp2f3(1, 1, 2, 2, 2, -x * x / 4), rtol=1e-9,
        value=1e-7),
    "it2j0y0_y": Case(at(0.7, 3.0), lambda x: -(mp.log(x / 2) + mp.euler) ** 2 / PI + PI / 6 - 2 / PI *
        logarithmic(x, -1), rtol=1e-9, value=1e-7),
    "it2i0k0_i": Case(at(0.7, 3.0), lambda x: x * x / 8 * mp.hyp2f3(1, 1, 2, 2, 2, x * x / 4), rtol=1e-9,
        value=1e-7),
    "it2i0k0_k": Case(at(0.7, 3.0), lambda x: (mp.log(x / 2) + mp.euler) ** 2 / 2 + PI**2 / 24 +
        logarithmic(x, 1), rtol=1e-9, value=1e-7),
    "struve":    Case(at((0.5, 0.7), (0, 3.0), (1, 5.0), (1, -2.0), (0, 0.0)), mp.struveh, rtol=1e-10),
    "modstruve": Case(at((0.5, 0.7), (0, 3.0), (1, 5.0)), mp.struvel, rtol=1e-10),
    "itstruve0": Case(at(0.7, 3.0), lambda x: x * x / PI * mp.hyper([1, 1], [1.5, 1.5, 2], -x * x / 4),
        rtol=1e-9),
    "itmodstruve0": Case(at(0.7, 3.0), lambda x: x * x / PI * mp.hyper([1, 1], [1.5, 1.5, 2], x * x / 4),
        rtol=1e-9),
    "it2struve0": Case(at(0.7, 0.0, 3.0), lambda x: PI / 2 - 2 * x / PI * mp.hyper([1, 0.5], [1.5, 1.5,
        1.5], -x * x / 4), rtol=1e-9, value=1e-7),
    "besselpoly": Case(at((0.7, 1.5, 0.5), (3.0, 1.0, 0.0)), lambda a, l, v:
        a**v * mp.rgamma(v + 1) / (l + v + 1) * mp.hyp1f2((l + v + 1) / 2, (l + v + 3) / 2, v + 1, -a * a),
        rtol=1e-9),
    "wright_bessel": Case(at((0.5, 1.5, 0.7), (1, 2.0, 3.0)), wright, rtol=1e-10),
    "log_wright_bessel": Case(at((0.5, 1.5, 0.7), (1, 2.0, 3.0)), lambda a, b, x: mp.log(wright(a, b, x)),
        rtol=1e-10),
    "spherical_jn": Case(at((2, 0.7), (0, 3.0), (1, 30.0)), spherical(mp.besselj, PI / 2), complex=(1,
        0.7 + 0.5j), rtol=1e-10),
    "spherical_yn": Case(at((2, 0.7), (0, 3.0), (1, 30.0)), spherical(mp.bessely, PI / 2), complex=(1,
        0.7 + 0.5j), rtol=1e-10),
    "spherical_in": Case(at((2, 0.7), (0, 3.0), (1, 30.0)), spherical(mp.besseli, PI / 2), complex=(1,
        0.7 + 0.5j), rtol=1e-10),
    "spherical_kn": Case(at((2, 0.7), (0, 3.0), (1, 30.0)), spherical(mp.besselk, PI / 2), complex=(1,
        0.7 + 0.5j), rtol=1e-10),
    "lambertw": Case([], mp.lambertw, complex=(0.7 + 0.5j, 0), rtol=1e-11),
    # polynomials and hypergeometric functions
    "eval_legendre":    Case(at((3, 0.7), (0, 0.7), (1, 1.0), (2.5, 0.3)), mp.legendre, complex=(3,
        0.5 + 0.5j), rtol=1e-10),
    "eval_sh_legendre": Case(at((3, 0.7), (0, 0.7)), lambda n, x: mp.legendre(n, 2 * x - 1), complex=(3,
        0.5 + 0.5j), rtol=1e-10),
    "eval_chebyt": Case(at((3, 0.7), (0, 0.7), (5, 2.0), (2.5, 0.3)), mp.chebyt, complex=(3, 0.5 + 0.5j),
        rtol=1e-10),
    "eval_chebyu": Case(at((3, 0.7), (0, 0.7), (5, 2.0), (2.5, 0.3)), mp.chebyu, complex=(3, 0.5 + 0.5j),
        rtol=1e-10),
    "eval_chebyc": Case(at((3, 0.7), (0, 0.7)), lambda n, x: 2 * mp.chebyt(n, x / 2), complex=(3,
        0.5 + 0.5j), rtol=1e-10),
    "eval_chebys": Case(at((3, 0.7), (0, 0.7)), lambda n, x: mp.chebyu(n, x / 2), complex=(3, 0.5 + 0.5j),
        rtol=1e-10),
    "eval_sh_chebyt": Case(at((3, 0.7), (0, 0.7)), lambda n, x: mp.chebyt(n, 2 * x - 1), complex=(3,
        0.5 + 0.5j), rtol=1e-10),
    "eval_sh_chebyu": Case(at((3, 0.7), (0, 0.7)), lambda n, x: mp.chebyu(n, 2 * x - 1), complex=(3,
        0.5 + 0.5j), rtol=1e-10),
    "eval_gegenbauer": Case(at((3, 1.5, 0.7), (0, 1.5, 0.7)), mp.gegenbauer, complex=(3, 1.5, 0.5 + 0.5j),
        rtol=1e-10),
    "eval_jacobi": Case(at((3, 1.5, 0.5, 0.7), (0, 1.5, 0.5, 0.7)), mp.jacobi, complex=(3, 1.5, 0.5,
        0.5 + 0.5j), rtol=1e-10),
    "eval_sh_jacobi": Case(at((3, 2.5, 1.5, 0.7), (0, 2.5, 1.5, 0.7)), lambda n, p, q, x: (
        mp.jacobi(n, p - q, q - 1, 2 * x - 1) / mp.binomial(2 * n + p - 1, n)), complex=(3, 2.5, 1.5,
        0.5 + 0.5j), rtol=1e-10),
    "eval_laguerre": Case(at((3, 0.7), (0, 0.7), (2.5, 0.3)), lambda n, x: mp.laguerre(n, 0, x),
        complex=(3, 0.5 + 0.5j), rtol=1e-10),
    "eval_genlaguerre": Case(at((3, 1.5, 0.7), (0, 1.5, 0.7)), mp.laguerre, complex=(3, 1.5, 0.5 + 0.5j),
        rtol=1e-10),
    "eval_hermite": Case(at((3, 0.7), (0, 0.7)), mp.hermite, rtol=1e-10),
    "eval_hermitenorm": Case(at((3, 0.7), (0, 0.7)), lambda n, x: 2 ** (-mp.mpf(n) / 2) * mp.hermite(n,
        x / mp.sqrt(2)), rtol=1e-10),
    "lpmv":   Case(at((1, 2.5, 0.7), (0, 3.0, -0.3)), lambda m, v, x: mp.legenp(v, m, x), rtol=1e-9),
    "hyp0f1": Case(at((1.5, 0.7), (0.5, -20.0)), mp.hyp0f1, complex=(1.5, 0.5 + 0.5j), rtol=1e-10),
    "hyp1f1": Case(at((0.5, 1.5, 0.7), (2.0, 3.0, -20.0)), mp.hyp1f1, complex=(0.5, 1.5, 0.5 + 0.5j),
        rtol=1e-10),
    "hyp2f1": Case(at((0.5, 1.5, 2.5, 0.7), (1.0, 1.0, 2.0, -5.0)), mp.hyp2f1, complex=(0.5, 1.5, 2.5,
        0.2 + 0.5j), rtol=1e-10),
    "hyperu": Case(at((0.5, 1.5, 0.7), (1.0, 0.3, 20.0)), mp.hyperu, rtol=1e-9),
    "pbdv_d":  Case(at((1.5, 0.7), (0, 3.0)), mp.pcfd, rtol=1e-9),
    "pbdv_dp": Case(at((1.5, 0.7), (0, 3.0)), lambda v, x: mp.diff(lambda t: mp.pcfd(v, t), x), rtol=1e-9),
    "pbvv_v":  Case(at((1.5, 0.7)), lambda v, x: mp.pcfv(-v - mp.mpf(1) / 2, x), rtol=1e-9),
    "pbvv_vp": Case(at((1.5, 0.7)), lambda v, x: mp.diff(lambda t: mp.pcfv(-v - mp.mpf(1) / 2, t), x),
        rtol=1e-9),
    "pbwa_w":  Case(at((1.5, 0.7)), mp.pcfw, rtol=1e-8),
    "pbwa_wp": Case(at((1.5, 0.7)), lambda a, x: mp.diff(lambda t: mp.pcfw(a, t), x), rtol=1e-8),
    # probability
    "chdtr":   Case(at((3.0, 2.5), (0.7, 0.1)), lambda v, x: gammainc(v / 2, x / 2), rtol=1e-10),
    "chdtrc":  Case(at((3.0, 2.5), (0.7, 5.0)), lambda v, x: gammaincc(v / 2, x / 2), rtol=1e-10),
    "chdtri":  Case(at((3.0, 0.3)), lambda v, p: mp.findroot(lambda x: gammaincc(v / 2, x / 2) - p, 3,
        tol=1e-40), rtol=1e-10),
    "chdtriv": Case(at((0.3, 2.5)), lambda p, x: mp.findroot(lambda v: gammainc(v / 2, x / 2) - p, 3,
        tol=1e-40), rtol=1e-8),
    "gdtr":    Case(at((1.5, 2.5, 0.7)), lambda a, b, x: gammainc(b, a * x), rtol=1e-10),
    "gdtrc":   Case(at((1.5, 2.5, 0.7)), lambda a, b, x: gammaincc(b, a * x), rtol=1e-10),
    "gdtria":  Case(at((0.3, 2.5, 0.7)), lambda p, b, x: mp.findroot(lambda a: gammainc(b, a * x) - p, 2,
        tol=1e-40), rtol=1e-8),
    "gdtrib":  Case(at((1.5, 0.3, 0.7)), lambda a, p, x: mp.findroot(lambda b: gammainc(b, a * x) - p, 2,
        tol=1e-40), rtol=1e-8),
    "gdtrix":  Case(at((1.5, 2.5, 0.3)), lambda a, b, p: mp.findroot(lambda x: gammainc(b, a * x) - p, 1,
        tol=1e-40), rtol=1e-8),
    "pdtr":    Case(at((2, 1.5), (0, 0.7)), lambda k, m: gammaincc(k + 1, m), rtol=1e-10),
    "pdtrc":   Case(at((2, 1.5), (0, 0.7)), lambda k, m: gammainc(k + 1, m), rtol=1e-10),
    "pdtri":   Case(at((2, 0.3)), lambda k, p: mp.findroot(lambda m: gammaincc(k + 1, m) - p, 3,
        tol=1e-40), rtol=1e-8),
    "pdtrik":  Case(at((0.3, 4.5)), lambda p, m: mp.findroot(lambda k: gammaincc(k + 1, m) - p, 3,
        tol=1e-40), rtol=1e-8),
    "btdtria": Case(at((0.3, 1.5, 0.4)), lambda p, b, x: mp.findroot(lambda a: betainc(a, b, x) - p, 1.5,
        tol=1e-40), rtol=1e-8),
    "btdtrib": Case(at((1.5, 0.3, 0.4)), lambda a, p, x: mp.findroot(lambda b: betainc(a, b, x) - p, 1.5,
        tol=1e-40), rtol=1e-8),
    "bdtr":    Case(at((2, 5, 0.3)), binomial, rtol=1e-10),
    "bdtrc":   Case(at((2, 5, 0.3)), lambda k, n, p: 1 - binomial(k, n, p), rtol=1e-10),
    "bdtri":   Case(at((2, 5, 0.3)), lambda k, n, y: mp.findroot(lambda p: binomial(k, n, p) - y, 0.6,
        tol=1e-40), rtol=1e-9),
    "nbdtr":   Case(at((2, 5, 0.3)), lambda k, n, p: betainc(n, k + 1, p), rtol=1e-10),
    "nbdtrc":  Case(at((2, 5, 0.3)), lambda k, n, p: 1 - betainc(n, k + 1, p), rtol=1e-10),
    "nbdtri":  Case(at((2, 5, 0.3)), lambda k, n, y: mp.findroot(lambda p: betainc(n, k + 1, p) - y, 0.6,
        tol=1e-40), rtol=1e-9),
    "fdtr":    Case(at((3.0, 4.0, 0.7)), fisher, rtol=1e-9),
    "fdtrc":   Case(at((3.0, 4.0, 0.7)), lambda m, n, x: 1 - fisher(m, n, x), rtol=1e-9),
    "fdtri":   Case(at((3.0, 4.0, 0.3)), lambda m, n, p: mp.findroot(lambda x: fisher(m, n, x) - p, 0.6,
        tol=1e-40), rtol=1e-8),
    "stdtr":    Case(at((3.0, 0.7), (5.0, -2.0), (30.0, 4.0), (2.0, 1e-3)), student, rtol=1e-9),
    "stdtrit":  Case(at((3.0, 0.7), (5.0, 0.1)), lambda df, p: mp.findroot(lambda t: student(df, t) - p,
        0.5 if p > 0.5 else -1, tol=1e-40), rtol=1e-8),
    "nrdtrimn": Case(at((0.3, 2.0, 0.7)), lambda p, s, x: x - s * normal_quantile(p), rtol=1e-10),
    "nrdtrisd": Case(at((1.5, 0.3, 0.7)), lambda m, p, x: (x - m) / normal_quantile(p), rtol=1e-10),
    "chndtr": Case(at((2.5, 3.0, 1.5), (12.0, 3.0, 6.0)), noncentral, rtol=1e-8),
    "chndtrix": Case(at((0.3, 3.0, 1.5)), lambda p, df, nc: mp.findroot(lambda x: noncentral(x, df,
        nc) - p, 3, tol=1e-25), rtol=1e-6),
    "chndtrinc": Case(at((2.5, 3.0, 0.3)), lambda x, df, p: mp.findroot(lambda nc: noncentral(x, df,
        nc) - p, 2, tol=1e-25), rtol=1e-6),
    "kolmogorov": Case(at(0.7, 0.3, 1.5), kolmogorov, rtol=1e-9),
    "kolmogi":  Case(at(0.3, 0.99), lambda p: mp.findroot(lambda y: kolmogorov(y) - p,
        0.8 if p < 0.9 else 0.5, tol=1e-40), rtol=1e-8),
}
# fmt: on
