"""Distribution functions and their inverses in each argument: by the density, and implicitly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.dispatch import bind, unary
from fgrad.core.placement import placed
from fgrad.extend.engine import Expr, as_value, declare_word, fn, reshape, sum_axes, where
from fgrad.scipy.special.gammas import beta_density, gamma_density
from fgrad.scipy.special.primitives import Row, declare, either, zero_where

ROOT_2PI = math.sqrt(2 * math.pi)
TINY = 1e-300


def _bell(z: Expr) -> Expr:
    """Return the slope of the normal quantile z."""
    return ROOT_2PI * fn.exp(z * z / 2)


def _solved(slopes: Callable[..., Any], place: int) -> Any:
    """Return the slopes of what a function of these slopes has to have in a place, for the value there."""

    def inverse(f: Expr, *given: Expr) -> tuple[Expr | None, ...]:
        found = slopes(*given[:place], f, *given[place + 1 :])
        own = found[place]
        return tuple(
            1 / own if i == place else None if slope is None else -slope / own
            for i, slope in enumerate(found)
        )

    return inverse


def _on_positive(slopes: Callable[..., Any], sign: int) -> Any:
    """Return these slopes, or minus them, where the last argument is not negative, and zero elsewhere."""

    def signed(f: Expr, *xs: Expr) -> tuple[Expr, ...]:
        *shapes, x = xs
        return tuple(
            zero_where(x < 0, lambda x, i=i: sign * slopes(*shapes, x)[i], x, at=1.0) for i in range(len(xs))
        )

    return signed


# ---- chi-square, gamma and Poisson


def _chdtri(f: Expr, v: Expr, p: Expr) -> tuple[Expr, Expr]:
    return fn.gammaincinv_a(v / 2, f / 2), -2 / gamma_density(v / 2, f / 2)


def _of_chi(v: Expr, x: Expr) -> tuple[Expr, Expr]:
    return fn.gammainc_a(v / 2, x / 2) / 2, gamma_density(v / 2, x / 2) / 2


def _of_gamma(a: Expr, b: Expr, x: Expr) -> tuple[Expr, Expr, Expr]:
    density = gamma_density(b, a * x)
    return x * density, fn.gammainc_a(b, a * x), a * density


def _gdtria(f: Expr, p: Expr, b: Expr, x: Expr) -> tuple[Expr, Expr, Expr]:
    density = x * gamma_density(b, f * x)
    return 1 / density, -fn.gammainc_a(b, f * x) / density, -f / x


def _gdtrix(f: Expr, a: Expr, b: Expr, p: Expr) -> tuple[Expr, Expr, Expr]:
    density = a * gamma_density(b, a * f)
    return -f / a, -fn.gammainc_a(b, a * f) / density, 1 / density


def _pdtr(sgn: int) -> Any:
    return lambda f, k, m: (None, sgn * gamma_density(fn.floor(k) + 1, m))


def _pdtrik(f: Expr, p: Expr, m: Expr) -> tuple[Expr, Expr]:
    by_p, by_m = _solved(lambda k, m: (-fn.gammainc_a(k + 1, m), -gamma_density(k + 1, m)), 0)(f, p, m)
    return where(f <= 0, 0, by_p), where(f <= 0, 0, by_m)  # where no k is small enough


# ---- beta, F, Student's t, binomial


def _of_beta(a: Expr, b: Expr, x: Expr) -> tuple[Expr, Expr, Expr]:
    return fn.betainc_a(a, b, x), fn.betainc_b(a, b, x), beta_density(a, b, x)


def _of_f(m: Expr, n: Expr, x: Expr) -> tuple[Expr, Expr, Expr]:
    """Return the slopes of the distribution function of F: that of beta at m x / (n + m x).

    Where that is near one it is the complement of the other one, n / (n + m x), which has the digits.
    """
    total = n + m * x
    high = m * x > n
    a, b = where(high, n, m) / 2, where(high, m, n) / 2
    w = where(high, n, m * x) / total
    up, down = fn.betainc_a(a, b, w) / 2, fn.betainc_b(a, b, w) / 2
    density = beta_density(a, b, w)
    moves = density * (m / total) * (x / total)
    return (
        where(high, -down, up) + density * (n / total) * (x / total),
        where(high, -up, down) - moves,
        density * (m / total) * (n / total),
    )


# the rule of Gauss and Legendre on (0, 1), by which the integral of exp(-8 x**2) is exact to rounding
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_SQUARES, _QUARTERS = ((_NODES + 1) / 2) ** 2, _WEIGHTS / 4

# psi((n + 1) / 2) - psi(n / 2) - 1 / n in powers of 1 / n**2, from the first on (5.11.2)
_RATE = (0.5, -0.25, 0.5, -2.125, 15.5, -172.75)
_LARGE = 32.0  # degrees of freedom from which on it holds


def _student_rate(df: Any) -> Any:
    """Return what the logarithm of the density at the centre grows by, twice: differences cancel far out."""
    large = df >= _LARGE
    n = bind("where", large, 1.0, df)
    near = unary("psi", (n + 1) / 2) - unary("psi", n / 2) - 1 / n
    square = 1 / unary("square", bind("where", large, df, _LARGE))
    series = 0.0
    for c in reversed(_RATE):
        series = (series + c) * square
    return bind("where", large, series, near)


def _student_near(df: Any, t: Any) -> Any:
    """Return the integral from the centre to `t` of what the density depends on `df` by.

    It holds for t**2 < 16 and 16 t**2 < df.
    """
    df, t = as_value(df), as_value(t)
    n, rate, square = (reshape(x, (*x.shape, 1)) for x in (df, _student_rate(df), t * t / df))
    q = square * placed(square, _SQUARES.astype(square.dtype))
    v = q / (1 + q)
    rest = 0.0  # log(1 + q) - v, whose parts agree in all digits where `df` is large
    for k in range(13, 1, -1):
        rest = (rest + 1 / k) * v
    by_df = rate + v / n - rest * v
    weights = placed(square, _QUARTERS.astype(square.dtype))
    parts = unary("exp", -(n + 1) / 2 * unary("log1p", q)) * by_df * weights
    total = sum_axes(parts, (len(parts.shape) - 1,))
    return total * t * unary("exp", -bind("betaln", df / 2, 0.5)) / unary("sqrt", df)


declare_word("student_near", _student_near)


def _of_t(df: Expr, t: Expr) -> tuple[Expr, Expr]:
    """Return the slopes of the distribution function of Student's t.

    Beyond t > 0 it is half of that of beta(1/2, df/2) at t**2 / (df + t**2), and scales with sqrt(df). Near
    the centre the slope in df is the integral of that of the density from there.
    """
    density = fn.exp(-(df + 1) / 2 * fn.log1p(t * t / df) - fn.betaln(df / 2, 0.5)) / fn.sqrt(df)

    def far(t: Expr) -> Expr:
        high = t * t > df  # where w is near one, and 1 - w has the digits
        w = where(high, df, t * t) / (df + t * t)
        center = fn.betainc_b(0.5, df / 2, where(high, 0.5, w))
        tail = -fn.betainc_a(df / 2, 0.5, where(high, w, 0.5))
        return fn.sign(t) / 4 * where(high, tail, center) - t * density / (2 * df)

    def by_df(t: Expr) -> Expr:
        close = fn.logical_and(16 * t * t < df, t * t < 16)
        near = fn.student_near(df, where(close, t, 0.0))
        return where(close, near, far(where(close, fn.sqrt(df), t)))

    return zero_where(fn.isinf(t), by_df, t, at=0.0), density


def _binomial_density(k: Expr, n: Expr, p: Expr) -> Expr:
    """Return the density of beta, which is how fast a binomial distribution function falls in p."""
    k = fn.floor(k)
    at_top = k >= n
    k = where(at_top, n - 1, k)
    return where(at_top, 0, beta_density(k + 1, n - k, p))


def _negative_density(k: Expr, n: Expr, p: Expr) -> Expr:
    return beta_density(n, fn.floor(k) + 1, p)


# ---- normal, noncentral chi-square, Kolmogorov


def _nrdtrisd(f: Expr, mn: Expr, p: Expr, x: Expr) -> tuple[Expr, Expr, Expr]:
    z = fn.ndtri(p)
    return -1 / z, -f / z * _bell(z), 1 / z


def _noncentral_density(x: Expr, df: Expr, nc: Expr) -> Expr:
    """Return the density of noncentral chi-square: a Bessel function, scaled where its argument is large."""

    def near(t: Expr) -> Expr:
        central = fn.exp(fn.xlogy(df / 2 - 1, x / 2) - (x + nc) / 2 - fn.gammaln(df / 2)) / 2
        return central * fn.hyp0f1(df / 2, t)

    def far(x: Expr, nc: Expr) -> Expr:
        gap = (x - nc) / (fn.sqrt(x) + fn.sqrt(nc))
        scaled = fn.ive(df / 2 - 1, fn.sqrt(x * nc)) / 2
        return fn.exp((df / 4 - 0.5) * (fn.log(x) - fn.log(nc)) - gap * gap / 2) * scaled

    close = x * nc < 400
    inner = near(where(close, x * nc / 4, 1.0))
    return where(close, inner, far(where(close, 20.0, x), where(close, 20.0, nc)))


def _by_noncentrality(x: Expr, df: Expr, nc: Expr) -> Expr:
    return -_noncentral_density(x, df + 2, nc)


def _of_noncentral(x: Expr, df: Expr, nc: Expr) -> tuple[Expr, None, Expr]:
    return _noncentral_density(x, df, nc), None, _by_noncentrality(x, df, nc)


def _chndtrinc(f: Expr, x: Expr, df: Expr, p: Expr) -> tuple[Expr, None, Expr]:
    by_x, _, by_p = _solved(_of_noncentral, 2)(f, x, df, p)
    return where(f < TINY, 0, by_x), None, where(f < TINY, 0, by_p)  # where none is small enough


def _kolmogorov_slope(y: Expr) -> Expr:
    """Return the slope of the survival function, by its two series (Kolmogorov 1933)."""

    def far(y: Expr) -> Expr:
        total: Any = 0
        for k in range(1, 8):
            total = total + (-1) ** k * k * k * fn.exp(-2 * k * k * y * y)
        return 8 * y * total  # type: ignore[no-any-return]

    def near(y: Expr) -> Expr:
        total: Any = 0
        for k in range(1, 6):
            rate = ((2 * k - 1) * math.pi) ** 2 / 8
            total = total + (1 / (y * y) - 2 * rate / (y * y * y * y)) * fn.exp(-rate / (y * y))
        return ROOT_2PI * total  # type: ignore[no-any-return]

    slope = lambda y: either(y < 0.8, y, near, far, inside=0.5, outside=1.0)
    return zero_where(y < 0.05, slope, y, at=1.0)  # less than exp(-493)


# fmt: off
declare({
    "chdtr":   Row("v x", _on_positive(_of_chi, 1), "8.17(i), 8.8.13"),
    "chdtrc":  Row("v x", _on_positive(_of_chi, -1), "8.17(i), 8.8.13"),
    "chdtri":  Row("v p", _chdtri, "inverse of chdtrc"),
    "chdtriv": Row("p x", _solved(_of_chi, 0), "inverse of chdtr"),
    "gdtr":    Row("a b x", lambda f, a, b, x: _of_gamma(a, b, x), "8.8.13"),
    "gdtrc":   Row("a b x", lambda f, a, b, x: tuple(-slope for slope in _of_gamma(a, b, x)), "8.8.14"),
    "gdtria":  Row("p b x", _gdtria, "inverse of gdtr"),
    "gdtrib":  Row("a p x", _solved(_of_gamma, 1), "inverse of gdtr"),
    "gdtrix":  Row("a b p", _gdtrix, "inverse of gdtr"),
    "pdtr":    Row("k m", _pdtr(-1), "8.4.10, 8.8.14"),
    "pdtrc":   Row("k m", _pdtr(1), "8.4.9, 8.8.13"),
    "pdtri":   Row("k y", lambda f, k, y: (None, -1 / gamma_density(fn.floor(k) + 1, f)),
                    "inverse of pdtr"),
    "pdtrik":  Row("p m", _pdtrik, "inverse of pdtr"),
    "btdtria": Row("p b x", _solved(_of_beta, 0), "inverse of betainc"),
    "btdtrib": Row("a p x", _solved(_of_beta, 1), "inverse of betainc"),
    "bdtr":    Row("k n p", lambda f, k, n, p: (None, None, -_binomial_density(k, n, p)), "8.17.5"),
    "bdtrc":   Row("k n p", lambda f, k, n, p: (None, None, _binomial_density(k, n, p)), "8.17.5"),
    "bdtri":   Row("k n y", lambda f, k, n, y: (None, None, -1 / _binomial_density(k, n, f)),
                    "inverse of bdtr"),
    "nbdtr":   Row("k n p", lambda f, k, n, p: (None, None, _negative_density(k, n, p)), "8.17.24"),
    "nbdtrc":  Row("k n p", lambda f, k, n, p: (None, None, -_negative_density(k, n, p)), "8.17.24"),
    "nbdtri":  Row("k n y", lambda f, k, n, y: (None, None, 1 / _negative_density(k, n, f)),
                    "inverse of nbdtr"),
    "fdtr":    Row("dfn dfd x", _on_positive(_of_f, 1), "8.17.1"),
    "fdtrc":   Row("dfn dfd x", _on_positive(_of_f, -1), "8.17.4"),
    "fdtri":   Row("dfn dfd p", _solved(_of_f, 2), "inverse of fdtr"),
    "stdtr":    Row("df t", lambda f, df, t: _of_t(df, t), "8.17.1"),
    "stdtrit":  Row("df p", _solved(_of_t, 1), "inverse of stdtr"),
    "nrdtrimn": Row("p std x", lambda f, p, std, x: (
                    -std * _bell(fn.ndtri(p)), -fn.ndtri(p), 1), "inverse of ndtr"),
    "nrdtrisd": Row("mn p x", _nrdtrisd, "inverse of ndtr"),
    "chndtr":   Row("x df nc", lambda f, x, df, nc: _of_noncentral(x, df, nc),
                    "Johnson, Kotz & Balakrishnan (1995), 29"),
    "chndtrix": Row("p df nc", _solved(_of_noncentral, 0), "inverse of chndtr"),
    "chndtrinc": Row("x df p", _chndtrinc, "inverse of chndtr"),
    "kolmogorov": Row("y", lambda f, y: (_kolmogorov_slope(y),), "Kolmogorov (1933), term by term"),
    "kolmogi":  Row("p", lambda f, p: (1 / _kolmogorov_slope(f),), "inverse of kolmogorov"),
})
# fmt: on
