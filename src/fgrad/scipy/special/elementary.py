"""Functions between the elementary and the special: exponential integrals, entropies, transformations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from scipy import special

from fgrad.core.dispatch import bind
from fgrad.extend.engine import ATOMS, DEGREE, LN10, Expr, declare_word, equal, fn, where
from fgrad.scipy.special.primitives import Row, declare, either, zero_where

SMALL = 0.3  # below it differences of logarithms are computed by their hypergeometric functions

declare_word("sinc", lambda x: bind("spherical", x, n=0))  # sin(x) / x, entire


def _growth(u: Any) -> Expr:
    """Return the derivative of exprel(u) = (exp(u) - 1) / u, which is entire (13.6.14, 13.3.15)."""
    near = lambda u: either(
        u < -50, u, lambda u: 1 / (u * u), lambda u: fn.hyp1f1(2, 3, u) / 2, inside=-50.0, outside=0.0
    )
    far = lambda u: fn.exprel(u) * (1 - 1 / u) + 1 / u  # SciPy's sum of the series does not end there
    return either(u > 50, u, far, near, inside=100.0, outside=0.0)


def _expn(_: Expr, n: Expr, x: Expr) -> tuple[None, Expr]:
    first = lambda n: -fn.exp(-x) * (1 + x) / (x * x)  # of exp(-x) / x
    return None, either(equal(n, 0), n, first, lambda n: -fn.expn(n - 1, x), inside=0.0, outside=1.0)


def _spence(_: Expr, z: Expr) -> tuple[Expr]:
    near = lambda z: -fn.hyp2f1(1, 1, 2, 1 - z)
    far = lambda z: fn.log(z) / (1 - z)
    return (either(fn.modulus(z - 1) < SMALL, z, near, far, inside=1.0, outside=2.0),)


def _entr(_: Expr, x: Expr) -> tuple[Expr]:
    return (zero_where(x < 0, lambda x: -fn.log(x) - 1, x, at=1.0),)


def _infinite(x: Expr, y: Expr) -> Expr:
    """Return whether a relative entropy is infinite, or zero at the corner."""
    return fn.logical_or(x < 0, y <= 0)


def _log_ratio(x: Expr, y: Expr) -> Expr:
    """Return log(x / y), also where the quotient overflows or vanishes."""
    ratio = x / y
    far = fn.logical_or(ratio < 1e-30, ratio > 1e30)
    return where(
        far, fn.log(where(far, x, 1)) - fn.log(where(far, y, 1)), fn.log(where(far, 1, x) / where(far, 1, y))
    )


def _of_ratio(by_x: Callable[..., Any], by_y: Callable[..., Any]) -> Any:
    """Return these slopes, and zero where the value is infinite."""
    return lambda f, x, y: tuple(zero_where(_infinite(x, y), s, x, y, at=1.0) for s in (by_x, by_y))


def _huber(_: Expr, delta: Expr, r: Expr) -> tuple[Expr, Expr]:
    return fn.maximum(fn.fabs(r) - delta, 0), where(r < 0, fn.maximum(-delta, r), fn.minimum(r, delta))


def _pseudo_huber(_: Expr, delta: Expr, r: Expr) -> tuple[Expr, Expr]:
    length = fn.hypot(delta, r)
    safe = where(equal(length, 0), 1, length)
    excess = r * r / (safe + delta)  # length - delta, without cancellation
    return excess * excess / safe, delta * r / safe


def _boxcox(x: Expr, power: Expr, log_x: Any, inner: Any) -> tuple[Expr, Expr]:
    """Return the slopes of exprel(power L) L for L = log_x(x), which is log(inner(x))."""
    by_power = lambda x: log_x(x) * log_x(x) * _growth(power * log_x(x))
    zero = equal(inner(x), 0)  # (0**power - 1) / power
    edge = lambda x: 1 / (power * power)
    unit = 1 - inner(0.0)
    return (
        fn.power(inner(x), power - 1),
        either(zero, x, edge, by_power, inside=unit, outside=unit),
    )


def _inv_boxcox(value: Expr, y: Expr, power: Expr) -> tuple[Expr, Expr]:
    """Return the slopes of (1 + power y)**(1 / power), whose value is given."""
    u = power * y
    close = fn.fabs(u) < SMALL
    near: Callable[[Expr], Expr] = lambda u: -fn.hyp2f1(2, 2, 3, -u) / 2  # of the derivative of log1p(u) / u
    far, rate = where(close, 1.0, u), where(close, 1.0, power)
    by_value = where(close, value / where(close, 1 + u, 1.0), fn.power(1 + far, 1 / rate - 1))
    by_log = where(close, near(where(close, u, 0.0)), -fn.log1p(far))
    weight = where(close, value * y * y, value / rate / rate)
    beside = where(close, 0, y * by_value / rate)
    return by_value, fn.multiply_no_nan(weight, by_log) + beside


def _powm1(_: Expr, x: Expr, y: Expr) -> Any:
    return ATOMS["power"].slopes(fn.power(x, y), x, y)


def _tklmbda(f: Expr, x: Expr, lmbda: Expr) -> tuple[Expr, Expr]:
    # x = Q(p) = (p**lmbda - (1 - p)**lmbda) / lmbda at p = f
    def density(p: Expr) -> Expr:
        return 1 / (fn.exp((lmbda - 1) * fn.log(p)) + fn.exp((lmbda - 1) * fn.log1p(-p)))

    def shape(p: Expr) -> Expr:
        low, high = fn.log(p), fn.log1p(-p)
        by_shape = low * low * _growth(lmbda * low) - high * high * _growth(lmbda * high)
        return -by_shape * density(p)

    beyond = fn.logical_or(f <= 0, f >= 1)
    return zero_where(beyond, density, f, at=0.5), zero_where(beyond, shape, f, at=0.5)


def _agm(f: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Return the slopes in units of the numbers, after a step that brings distant ones near."""
    a, b = fn.fabs(a), fn.fabs(b)
    unit = fn.maximum(a, b)
    mean, root = (a / unit + b / unit) / 2, fn.sqrt(a / unit) * fn.sqrt(b / unit)
    factor = 2 / (3 * math.pi) * (f / unit) * (f / unit)
    by_mean = factor * mean * fn.elliprd(0, root * root, mean * mean) / 2
    by_root = factor * root * fn.elliprd(0, mean * mean, root * root) / 2
    ratio = fn.sqrt(a) / fn.sqrt(b)
    return by_mean + by_root / ratio, by_mean + by_root * ratio


def _plain(x: Any) -> Any:
    return x


def _plus_one(x: Any) -> Any:
    return 1 + x


# fmt: off
declare({
    "logit":      Row("x", lambda f, x: (1 / (x * (1 - x)),), "quotient rule"),
    "log_expit":  Row("x", lambda f, x: (fn.sigmoid(-x),), "chain rule"),
    "exprel":     Row("x", lambda f, x: (_growth(x),), "13.6.14, 13.3.15"),
    "complex_log1p": Row("z", lambda f, z: (1 / (1 + z),), "4.7.1", complex=True, run=special.log1p),
    "exp10":      Row("x", lambda f, x: (f * LN10,), "4.2.31"),
    "cosm1":      Row("x", lambda f, x: (-fn.sin(x),), "4.20.2"),
    "sindg":      Row("x", lambda f, x: (DEGREE * fn.cosdg(x),), "4.20.1"),
    "cosdg":      Row("x", lambda f, x: (-DEGREE * fn.sindg(x),), "4.20.2"),
    "tandg":      Row("x", lambda f, x: (DEGREE * (1 + f * f),), "4.20.3"),
    "cotdg":      Row("x", lambda f, x: (-DEGREE * (1 + f * f),), "4.20.6"),
    "radian":     Row("d m s", lambda f, d, m, s: (DEGREE, DEGREE / 60, DEGREE / 3600), "linear"),
    "round":      Row("x", None, "a step function"),
    "exp1":       Row("z", lambda f, z: (-fn.exp(-z) / z,), "6.2.1", complex=True),
    "expi":       Row("x", lambda f, x: (fn.exp(x) / x,), "6.2.5", complex=True),
    "expn":       Row("n x", _expn, "8.19.13"),
    "shichi_shi": Row("x", lambda f, x: (fn.hyp0f1(1.5, x * x / 4),), "6.2.15, 10.16.9", complex=True,
                      output=("shichi", 0)),
    "shichi_chi": Row("x", lambda f, x: (fn.cosh(x) / x,), "6.2.16", complex=True, output=("shichi", 1)),
    "sici_si":    Row("x", lambda f, x: (fn.sinc(x),), "6.2.9", complex=True, output=("sici", 0)),
    "sici_ci":    Row("x", lambda f, x: (fn.cos(x) / x,), "6.2.11", complex=True, output=("sici", 1)),
    "spence":     Row("z", _spence, "25.12.2", complex=True),
    "wrightomega": Row("z", lambda f, z: (f / (1 + f),), "4.13.4", complex=True),
    "xlogy":      Row("x y", lambda f, x, y: (fn.log(y), fn.multiply_no_nan(x, 1 / y)), "product rule",
                      complex=True),
    "xlog1py":    Row("x y", lambda f, x, y: (fn.log1p(y), fn.multiply_no_nan(x, 1 / (1 + y))),
                      "product rule",
                      complex=True),
    "entr":       Row("x", _entr, "product rule"),
    "rel_entr":   Row("x y", _of_ratio(lambda x, y: _log_ratio(x, y) + 1, lambda x, y: -x / y),
                      "product rule"),
    "kl_div":     Row("x y", _of_ratio(_log_ratio, lambda x, y: 1 - x / y), "product rule"),
    "huber":      Row("delta r", _huber, "by pieces"),
    "pseudo_huber": Row("delta r", _pseudo_huber, "chain rule"),
    "boxcox":     Row("x lmbda", lambda f, x, p: _boxcox(x, p, fn.log, _plain), "exprel(p log x) log x"),
    "boxcox1p":   Row("x lmbda", lambda f, x, p: _boxcox(x, p, fn.log1p, _plus_one), "exprel(p log x) log x"),
    "inv_boxcox": Row("y lmbda", _inv_boxcox, "chain rule"),
    "inv_boxcox1p": Row("y lmbda", lambda f, y, p: _inv_boxcox(fn.inv_boxcox(y, p), y, p), "chain rule"),
    "powm1":      Row("x y", _powm1, "4.2.27"),
    "tklmbda":    Row("x lmbda", _tklmbda, "inverse of the quantile function"),
    "agm":        Row("a b", _agm, "19.22.1, 19.18.1"),
})
# fmt: on
