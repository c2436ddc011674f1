"""The continuous families: formulas for location 0 and scale 1, called inside of the support only."""

from __future__ import annotations

import math
from typing import Any

import fgrad.numpy as fnp
from fgrad.scipy.stats.families import LOG_2, Continuous, Formula, between, log1mexp, log_of, special
from fgrad.scipy.stats.tails import (
    LOG_ROOT_2PI,
    log_betainc,
    log_gammainc,
    log_gammaincc,
    log_normal_between,
    log_ratio,
    log_skew_tail,
)

INF, PI, ROOT_2 = math.inf, math.pi, math.sqrt(2)
HALF_LINE = (0.0, INF)

Formulas = dict[str, Any]


NORMAL = special.ndtr, special.log_ndtr, special.ndtri
LOGISTIC = special.expit, special.log_expit, special.logit


def _mapped(symmetric: Any, to: Formula = lambda z: z, back: Formula = lambda z: z) -> Formulas:
    """Return the formulas of a family that `to` maps to a symmetric distribution, and `back` from there."""
    cdf, logcdf, ppf = symmetric
    return {
        "cdf": lambda z, *shapes: cdf(to(z, *shapes)),
        "sf": lambda z, *shapes: cdf(-to(z, *shapes)),
        "logcdf": lambda z, *shapes: logcdf(to(z, *shapes)),
        "logsf": lambda z, *shapes: logcdf(-to(z, *shapes)),
        "ppf": lambda q, *shapes: back(ppf(q), *shapes),
        "isf": lambda q, *shapes: back(-ppf(q), *shapes),
    }


def _by_hazard(hazard: Formula, back: Formula) -> Formulas:
    """Return the formulas of a family by its cumulative hazard, minus log of `sf`, and its inverse."""
    return {
        "cdf": lambda z, *shapes: -fnp.expm1(-hazard(z, *shapes)),
        "sf": lambda z, *shapes: fnp.exp(-hazard(z, *shapes)),
        "logcdf": lambda z, *shapes: log1mexp(hazard(z, *shapes)),
        "logsf": lambda z, *shapes: -hazard(z, *shapes),
        "ppf": lambda q, *shapes: back(-fnp.log1p(-q), *shapes),
        "isf": lambda q, *shapes: back(-fnp.log(q), *shapes),
    }


def _by_gamma(shape: Formula, to: Formula, back: Formula) -> Formulas:
    """Return the formulas of what `to` takes to a gamma variable, of `shape`, and `back` from there."""
    return {
        "cdf": lambda z, s: special.gammainc(shape(s), to(z)),
        "sf": lambda z, s: special.gammaincc(shape(s), to(z)),
        "logcdf": lambda z, s: log_gammainc(shape(s), to(z)),
        "logsf": lambda z, s: log_gammaincc(shape(s), to(z)),
        "ppf": lambda q, s: back(special.gammaincinv(shape(s), q)),
        "isf": lambda q, s: back(special.gammainccinv(shape(s), q)),
    }


def _reversed(formulas: Formulas) -> Formulas:
    """Return the formulas of a falling function of such a variable."""
    names = ("sf", "cdf", "logsf", "logcdf", "isf", "ppf")
    return dict(zip(names, formulas.values(), strict=True))


# ---- around the normal distribution


def _normal(z: Any) -> Any:
    return -z * z / 2 - LOG_ROOT_2PI


norm: Continuous = Continuous(
    "norm",
    logpdf=_normal,
    **_mapped(NORMAL),
)
halfnorm: Continuous = Continuous(
    "halfnorm",
    logpdf=lambda z: _normal(z) + LOG_2,
    cdf=lambda z: special.erf(z / ROOT_2),
    sf=lambda z: special.erfc(z / ROOT_2),
    logsf=lambda z: LOG_2 + special.log_ndtr(-z),
    ppf=lambda q: ROOT_2 * special.erfinv(q),
    isf=lambda q: -special.ndtri(q / 2),
    support=HALF_LINE,
)
lognorm: Continuous = Continuous(
    "lognorm",
    "s",
    logpdf=lambda z, s: _normal(fnp.log(z) / s) - fnp.log(s * z),
    **_mapped(NORMAL, lambda z, s: fnp.log(z) / s, lambda z, s: fnp.exp(s * z)),
    support=HALF_LINE,
    open_ends=True,
)
rayleigh: Continuous = Continuous(
    "rayleigh",
    logpdf=lambda z: fnp.log(z) - z * z / 2,
    **_by_hazard(lambda z: z * z / 2, lambda x: fnp.sqrt(2 * x)),
    support=HALF_LINE,
)
levy: Continuous = Continuous(
    "levy",
    logpdf=lambda z: -LOG_ROOT_2PI - 1.5 * fnp.log(z) - 0.5 / z,
    cdf=lambda z: special.erfc(fnp.sqrt(0.5 / z)),
    sf=lambda z: special.erf(fnp.sqrt(0.5 / z)),
    logcdf=lambda z: fnp.where(
        z > 10,
        fnp.log1p(-special.erf(fnp.sqrt(0.5 / fnp.where(z > 10, z, 20.0)))),
        LOG_2 + special.log_ndtr(-fnp.sqrt(1 / fnp.where(z > 10, 1.0, z))),
    ),
    ppf=lambda q: special.ndtri(q / 2) ** -2.0,
    isf=lambda q: 0.5 / special.erfinv(q) ** 2,
    support=HALF_LINE,
    open_ends=True,
)


def _skew_tail(z: Any, a: Any) -> tuple[Any, Any, Any]:
    """Return whether a point is in the thin tail on the left, log of what is below it there, and others."""
    thin = fnp.logical_and(z < 0, a * z < -2.5)
    return thin, log_skew_tail(fnp.where(thin, z, -2.0), fnp.where(thin, a, 2.0)), fnp.where(thin, 0.0, z)


def _skewnorm_cdf(z: Any, a: Any) -> Any:
    thin, below, z = _skew_tail(z, a)
    thin_above, above, z = _skew_tail(-z, -a)
    p = special.ndtr(-z) - 2 * special.owens_t(-z, a)
    return fnp.where(thin, fnp.exp(below), fnp.where(thin_above, -fnp.expm1(above), p))


def _skewnorm_logcdf(z: Any, a: Any) -> Any:
    thin, below, z = _skew_tail(z, a)
    return fnp.where(thin, below, log_of(_skewnorm_cdf(z, a), _skewnorm_cdf(-z, -a)))


skewnorm: Continuous = Continuous(
    "skewnorm",
    "a",
    logpdf=lambda z, a: _normal(z) + LOG_2 + special.log_ndtr(a * z),
    cdf=_skewnorm_cdf,
    sf=lambda z, a: _skewnorm_cdf(-z, -a),
    logcdf=_skewnorm_logcdf,
    logsf=lambda z, a: _skewnorm_logcdf(-z, -a),
    valid=lambda a: fnp.equal(a, a),
)


def _truncnorm_ppf(q: Any, a: Any, b: Any) -> Any:
    """Return the quantile from the tail in which the limits are."""
    right = a > 0
    low, high = fnp.where(right, -b, a), fnp.where(right, -a, b)
    log_q, log_p = fnp.log(q), fnp.log1p(-q)
    bottom, top = special.log_ndtr(low), special.log_ndtr(high)
    from_left, from_right = fnp.where(right, log_p, log_q), fnp.where(right, log_q, log_p)
    z = special.ndtri_exp(fnp.logaddexp(bottom + from_right, top + from_left))
    return fnp.clip(fnp.where(right, -z, z), a, b)


def _log_share(part: Any, rest: Any, whole: Any) -> Any:
    """Return log of part / whole, by logarithms, from what is left where that has more digits."""
    high = part > rest
    near, far = fnp.where(high, rest - whole, -1.0), fnp.where(high, -1.0, part - whole)
    return fnp.where(high, fnp.log1p(-fnp.exp(near)), far)


truncnorm: Continuous = Continuous(
    "truncnorm",
    "a b",
    logpdf=lambda z, a, b: _normal(z) - log_normal_between(a, b),
    cdf=lambda z, a, b: fnp.exp(log_normal_between(a, z) - log_normal_between(a, b)),
    sf=lambda z, a, b: fnp.exp(log_normal_between(z, b) - log_normal_between(a, b)),
    logcdf=lambda z, a, b: _log_share(
        log_normal_between(a, z), log_normal_between(z, b), log_normal_between(a, b)
    ),
    logsf=lambda z, a, b: _log_share(
        log_normal_between(z, b), log_normal_between(a, z), log_normal_between(a, b)
    ),
    ppf=_truncnorm_ppf,
    isf=lambda q, a, b: -_truncnorm_ppf(q, -b, -a),
    support=(lambda a, b: a, lambda a, b: b),
    inside=between,
    valid=lambda a, b: a < b,
)

# ---- around the gamma distribution


def _gamma(z: Any, a: Any) -> Any:
    return special.xlogy(a - 1, z) - z - special.gammaln(a)


gamma: Continuous = Continuous(
    "gamma",
    "a",
    logpdf=_gamma,
    **_by_gamma(lambda a: a, lambda z: z, lambda g: g),
    support=HALF_LINE,
)
chi2: Continuous = Continuous(
    "chi2",
    "df",
    logpdf=lambda z, df: _gamma(z / 2, df / 2) - LOG_2,
    **_by_gamma(lambda df: df / 2, lambda z: z / 2, lambda g: 2 * g),
    support=HALF_LINE,
)
chi: Continuous = Continuous(
    "chi",
    "df",
    logpdf=lambda z, df: (
        special.xlogy(df - 1, z) - z * z / 2 - (df / 2 - 1) * LOG_2 - special.gammaln(df / 2)
    ),
    **_by_gamma(lambda df: df / 2, lambda z: z * z / 2, lambda g: fnp.sqrt(2 * g)),
    support=HALF_LINE,
)
invgamma: Continuous = Continuous(
    "invgamma",
    "a",
    logpdf=lambda z, a: -(a + 1) * fnp.log(z) - special.gammaln(a) - 1 / z,
    **_reversed(_by_gamma(lambda a: a, lambda z: 1 / z, lambda g: 1 / g)),
    support=HALF_LINE,
    open_ends=True,
)
expon: Continuous = Continuous(
    "expon",
    logpdf=lambda z: -z,
    **_by_hazard(lambda z: z, lambda x: x),
    support=HALF_LINE,
)

# ---- around the beta distribution

beta: Continuous = Continuous(
    "beta",
    "a b",
    logpdf=lambda z, a, b: special.xlogy(a - 1, z) + special.xlog1py(b - 1, -z) - special.betaln(a, b),
    cdf=lambda z, a, b: special.betainc(a, b, z),
    sf=lambda z, a, b: special.betaincc(a, b, z),
    logcdf=lambda z, a, b: log_betainc(a, b, z, 1 - z),
    logsf=lambda z, a, b: log_betainc(b, a, 1 - z, z),
    ppf=lambda q, a, b: special.betaincinv(a, b, q),
    isf=lambda q, a, b: special.betainccinv(a, b, q),
    support=(0.0, 1.0),
)
f: Continuous = Continuous(
    "f",
    "dfn dfd",
    logpdf=lambda z, m, n: (
        m / 2 * (fnp.log(m) - fnp.log(n))
        + special.xlogy(m / 2 - 1, z)
        - (m + n) / 2 * fnp.log1p(m * z / n)
        - special.betaln(m / 2, n / 2)
    ),
    cdf=lambda z, m, n: special.fdtr(m, n, z),
    sf=lambda z, m, n: special.fdtrc(m, n, z),
    ppf=lambda q, m, n: special.fdtri(m, n, q),
    isf=lambda q, m, n: 1 / special.fdtri(n, m, q),
    support=HALF_LINE,
)
t: Continuous = Continuous(
    "t",
    "df",
    logpdf=lambda z, df: (
        -(df + 1) / 2 * fnp.log1p(z * z / df)
        - fnp.log(df) / 2
        - special.betaln(df / 2, fnp.full_like(df, 0.5))
    ),
    cdf=lambda z, df: special.stdtr(df, z),
    sf=lambda z, df: special.stdtr(df, -z),
    ppf=lambda q, df: special.stdtrit(df, q),
    isf=lambda q, df: -special.stdtrit(df, q),
)
uniform: Continuous = Continuous(
    "uniform",
    logpdf=lambda z: z * 0.0,
    cdf=lambda z: z,
    sf=lambda z: 1 - z,
    logsf=lambda z: fnp.log1p(-z),
    ppf=lambda q: q,
    isf=lambda q: 1 - q,
    support=(0.0, 1.0),
)
powerlaw: Continuous = Continuous(
    "powerlaw",
    "a",
    logpdf=lambda z, a: fnp.log(a) + special.xlogy(a - 1, z),
    cdf=lambda z, a: z**a,
    sf=lambda z, a: -fnp.expm1(a * fnp.log(z)),
    logcdf=lambda z, a: a * fnp.log(z),
    logsf=lambda z, a: log1mexp(-a * fnp.log(z)),
    ppf=lambda q, a: fnp.exp(fnp.log(q) / a),
    isf=lambda q, a: fnp.exp(fnp.log1p(-q) / a),
    support=(0.0, 1.0),
)


def _triangle(z: Any, c: Any, up: Any, down: Any) -> Any:
    """Return up(z, c) to the left of the mode and down(1 - z, 1 - c) to the right."""
    left = z < c
    rising = up(fnp.where(left, z, 0.5), fnp.where(left, c, 0.5))
    return fnp.where(left, rising, down(fnp.where(left, 0.5, 1 - z), fnp.where(left, 0.5, 1 - c)))


def _slanted(z: Any, c: Any) -> Any:
    return LOG_2 + fnp.log(z) - fnp.log(c)


triang: Continuous = Continuous(
    "triang",
    "c",
    logpdf=lambda z, c: _triangle(z, c, _slanted, _slanted),
    cdf=lambda z, c: _triangle(z, c, lambda z, c: z * z / c, lambda z, c: 1 - z * z / c),
    sf=lambda z, c: _triangle(z, c, lambda z, c: 1 - z * z / c, lambda z, c: z * z / c),
    ppf=lambda q, c: _triangle(q, c, lambda q, c: fnp.sqrt(c * q), lambda p, d: 1 - fnp.sqrt(d * p)),
    isf=lambda q, c: 1 - _triangle(q, 1 - c, lambda q, c: fnp.sqrt(c * q), lambda p, d: 1 - fnp.sqrt(d * p)),
    support=(0.0, 1.0),
    valid=lambda c: fnp.logical_and(c >= 0, c <= 1),
)

# ---- exponential and heavy tails


def _by_sign(z: Any, formula: Any, other: Any) -> Any:
    """Return formula(z) for z < 0, else other(-z); both see negative numbers."""
    left = z < 0
    return fnp.where(left, formula(fnp.where(left, z, -1.0)), other(fnp.where(left, -1.0, -z)))


laplace: Continuous = Continuous(
    "laplace",
    logpdf=lambda z: -LOG_2 - fnp.abs(z),
    cdf=lambda z: _by_sign(z, lambda z: fnp.exp(z) / 2, lambda z: 1 - fnp.exp(z) / 2),
    sf=lambda z: _by_sign(z, lambda z: 1 - fnp.exp(z) / 2, lambda z: fnp.exp(z) / 2),
    logcdf=lambda z: _by_sign(z, lambda z: z - LOG_2, lambda z: fnp.log1p(-fnp.exp(z) / 2)),
    logsf=lambda z: _by_sign(z, lambda z: fnp.log1p(-fnp.exp(z) / 2), lambda z: z - LOG_2),
    ppf=lambda q: fnp.where(q < 0.5, fnp.log(2 * q), -fnp.log(2 * (1 - q))),
    isf=lambda q: fnp.where(q < 0.5, -fnp.log(2 * q), fnp.log(2 * (1 - q))),
)
logistic: Continuous = Continuous(
    "logistic",
    logpdf=lambda z: special.log_expit(z) + special.log_expit(-z),
    **_mapped(LOGISTIC),
)
fisk: Continuous = Continuous(
    "fisk",
    "c",
    logpdf=lambda z, c: (
        fnp.log(c) - fnp.log(z) + special.log_expit(c * fnp.log(z)) + special.log_expit(-c * fnp.log(z))
    ),
    **_mapped(LOGISTIC, lambda z, c: c * fnp.log(z), lambda z, c: fnp.exp(z / c)),
    support=HALF_LINE,
    open_ends=True,
)


def _cotangent(q: Any) -> Any:
    """Return cot(pi q) for 0 <= q <= 1, with all digits at both ends and in the middle."""
    high = q > 0.5
    low = fnp.where(high, 1 - q, q)
    near = low < 0.25
    size = fnp.where(near, 1 / fnp.tan(PI * fnp.where(near, low, 0.1)), fnp.tan(PI * (0.5 - low)))
    return fnp.where(high, -size, size)


cauchy: Continuous = Continuous(
    "cauchy",
    logpdf=lambda z: -math.log(PI) - 2 * fnp.log(fnp.hypot(1.0, z)),
    cdf=lambda z: fnp.arctan2(1.0, -z) / PI,
    sf=lambda z: fnp.arctan2(1.0, z) / PI,
    ppf=lambda q: -_cotangent(q),
    isf=_cotangent,
)
halfcauchy: Continuous = Continuous(
    "halfcauchy",
    logpdf=lambda z: math.log(2 / PI) - 2 * fnp.log(fnp.hypot(1.0, z)),
    cdf=lambda z: fnp.arctan(z) * (2 / PI),
    sf=lambda z: fnp.arctan2(1.0, z) * (2 / PI),
    ppf=lambda q: fnp.tan(PI / 2 * q),
    isf=lambda q: 1 / fnp.tan(PI / 2 * q),
    support=HALF_LINE,
)
pareto: Continuous = Continuous(
    "pareto",
    "b",
    logpdf=lambda z, b: fnp.log(b) - (b + 1) * fnp.log(z),
    **_by_hazard(lambda z, b: b * fnp.log(z), lambda x, b: fnp.exp(x / b)),
    support=(1.0, INF),
)
weibull_min: Continuous = Continuous(
    "weibull_min",
    "c",
    logpdf=lambda z, c: fnp.log(c) + special.xlogy(c - 1, z) - z**c,
    **_by_hazard(lambda z, c: z**c, lambda x, c: x ** (1 / c)),
    support=HALF_LINE,
)
weibull_max: Continuous = Continuous(
    "weibull_max",
    "c",
    logpdf=lambda z, c: fnp.log(c) + special.xlogy(c - 1, -z) - (-z) ** c,
    **_reversed(_by_hazard(lambda z, c: (-z) ** c, lambda x, c: -(x ** (1 / c)))),
    support=(-INF, 0.0),
)

# ---- extremes

gumbel_r: Continuous = Continuous(
    "gumbel_r",
    logpdf=lambda z: -z - fnp.exp(-z),
    **_reversed(_by_hazard(lambda z: fnp.exp(-z), lambda x: -fnp.log(x))),
)
gumbel_l: Continuous = Continuous(
    "gumbel_l",
    logpdf=lambda z: z - fnp.exp(z),
    **_by_hazard(fnp.exp, fnp.log),
)


def _end(c: Any, sign: int) -> Any:
    """Return 1 / c where c has this sign, else infinity: where 1 - c z is zero."""
    there = sign * c > 0
    return fnp.where(there, 1 / fnp.where(there, c, 1.0), sign * INF)


def _extreme(z: Any, c: Any) -> Any:
    """Return minus log of the number t of which exp(-t) is the distribution function."""
    return log_ratio(-c, z)


genextreme: Continuous = Continuous(
    "genextreme",
    "c",
    logpdf=lambda z, c: -fnp.exp(-_extreme(z, c)) - (1 - c) * _extreme(z, c),
    **_reversed(_by_hazard(lambda z, c: fnp.exp(-_extreme(z, c)), lambda x, c: -special.boxcox(x, c))),
    support=(lambda c: _end(c, -1), lambda c: _end(c, 1)),
    inside=0.0,
    valid=lambda c: fnp.equal(c, c),
    open_ends=True,
)
genpareto: Continuous = Continuous(
    "genpareto",
    "c",
    logpdf=lambda z, c: -(c + 1) * log_ratio(c, z),
    cdf=lambda z, c: -fnp.expm1(-log_ratio(c, z)),
    sf=lambda z, c: fnp.exp(-log_ratio(c, z)),
    logcdf=lambda z, c: log1mexp(log_ratio(c, z)),
    logsf=lambda z, c: -log_ratio(c, z),
    ppf=lambda q, c: special.boxcox1p(q / (1 - q), c),
    isf=lambda q, c: special.boxcox1p((1 - q) / q, c),
    support=(0.0, lambda c: -_end(c, -1)),
    inside=lambda c: fnp.where(c < 0, -0.5 / fnp.where(c < 0, c, -1.0), 1.0),
    valid=lambda c: fnp.equal(c, c),
)

# ---- on the circle

vonmises: Continuous = Continuous(
    "vonmises",
    "kappa",
    logpdf=lambda z, kappa: kappa * special.cosm1(z) - fnp.log(2 * PI * special.i0e(kappa)),
    valid=lambda kappa: kappa >= 0,
)
