"""Logarithms of probabilities far in the tails, where the probabilities themselves underflow."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import fgrad.numpy as fnp
from fgrad.scipy.stats.families import log1mexp, log_of, special

SMALL = 1e-290  # below it logarithms of probabilities are computed by series
TERMS = 60
HUGE = 1e300
NARROW = 1e-3
ROOT_2 = math.sqrt(2)


def _either(c: Any, x: Any, harmless: Any, other: Any) -> tuple[Any, Any]:
    """Return x where `c` holds, else `harmless`; and the other way round with `other`."""
    return fnp.where(c, x, harmless), fnp.where(c, other, x)


def log_gammainc(a: Any, x: Any) -> Any:
    """Return log of the regularised lower incomplete gamma function: by DLMF 8.7.1 where tiny."""
    p = special.gammainc(a, x)
    tiny = p < SMALL
    far, near = _either(tiny, x, a * 0.01, a)
    total: Any = 1.0
    for k in range(TERMS, 0, -1):
        total = 1 + total * far / (a + k)
    series = special.xlogy(a, far) - far - special.gammaln(a + 1) + fnp.log(total)
    return fnp.where(tiny, series, log_of(special.gammainc(a, near), special.gammaincc(a, near)))


def log_gammaincc(a: Any, x: Any) -> Any:
    """Return log of the upper one: by the continued fraction 8.9.2 of DLMF where tiny."""
    q = special.gammaincc(a, x)
    tiny = q < SMALL
    far, near = _either(tiny, x, 2 * a + 1000.0, a)
    b = far + 1 - a
    fraction = b + 2 * TERMS
    for k in range(TERMS, 0, -1):
        fraction = b + 2 * (k - 1) - k * (k - a) / fraction
    tail = special.xlogy(a, far) - far - special.gammaln(a) - fnp.log(fraction)
    return fnp.where(tiny, tail, log_of(special.gammaincc(a, near), special.gammainc(a, near)))


def log_betainc(a: Any, b: Any, x: Any, rest: Any) -> Any:
    """Return log of the regularised incomplete beta function: by the series 8.17.8 of DLMF where tiny.

    `rest` is 1 - x, with all digits.
    """
    p = special.betainc(a, b, x)
    tiny = p < SMALL
    far, near = _either(tiny, x, 1e-3, 0.5)
    total: Any = 1.0
    for k in range(2 * TERMS, 0, -1):
        total = 1 + total * far * (a + b + k - 1) / (a + k)
    series = (
        special.xlogy(a, far) + special.xlog1py(b, -far) - special.betaln(a, b) - fnp.log(a) + fnp.log(total)
    )
    other = special.betainc(b, a, fnp.where(tiny, 0.5, rest))
    return fnp.where(tiny, series, log_of(special.betainc(a, b, near), other))


def log_normal_between(a: Any, b: Any) -> Any:
    """Return log of the probability that a standard normal variable is between a < b.

    Where these are close, it is the density between them times their distance, with its curvature: the next
    term is below the rounding error.
    """
    middle = (fnp.clip(a, -HUGE, HUGE) + fnp.clip(b, -HUGE, HUGE)) / 2
    close = (b - a) * fnp.maximum(fnp.abs(middle), 1.0) < NARROW
    middle, width = fnp.where(close, middle, 0.0), fnp.where(close, b - a, NARROW)
    narrow = fnp.log(width) - middle**2 / 2 - LOG_ROOT_2PI + fnp.log1p((middle**2 - 1) * width**2 / 24)
    a, b = fnp.where(close, -1.0, a), fnp.where(close, 1.0, b)
    right = a > 0  # by the tail in which both are
    low, high = fnp.where(right, -b, a), fnp.where(right, -a, b)
    across = high > 0
    lower, upper = fnp.where(across, -1.0, low), fnp.where(across, 0.0, high)
    top = special.log_ndtr(upper)
    sided = top + log1mexp(top - special.log_ndtr(lower))
    lower, upper = fnp.where(across, low, -1.0), fnp.where(across, high, 1.0)
    inside = (special.erf(upper / ROOT_2) - special.erf(lower / ROOT_2)) / 2
    outside = special.ndtr(lower) + special.ndtr(-upper)
    return fnp.where(close, narrow, fnp.where(across, log_of(inside, outside), sided))


@functools.cache
def _decaying() -> list[tuple[float, float]]:
    """Return the nodes and weights of a rule for integrals of exp(-s) f(s) from zero on."""
    nodes, weights = np.polynomial.laguerre.laggauss(40)
    return [(float(s), float(w)) for s, w in zip(nodes, weights, strict=True) if w > 1e-30]


def log_skew_tail(z: Any, a: Any) -> Any:
    """Return log of the probability of a skew normal variable below z < 0, for a z < -2 and a > 0.

    It is the integral of exp(-z**2 (1 + t**2) / 2) / (pi (1 + t**2)) from a on, in z**2 (t**2 - a**2) / 2: a
    difference of probabilities (Owen 1956) has no digits there.
    """
    inner = a * z * (a * z)
    outer = z * z + inner
    total = sum(w / ((outer + 2 * s) * fnp.sqrt(inner + 2 * s)) for s, w in _decaying())
    return fnp.log(-z * total / math.pi) - outer / 2


def log_ratio(c: Any, z: Any) -> Any:
    """Return log(1 + c z) / c, which is z at c = 0: exact in every order there too (15.4.1 of DLMF)."""
    u = c * z
    near = fnp.abs(u) < 0.3
    small, large = fnp.where(near, u, 0.0), fnp.where(near, 1.0, c)
    far = fnp.log1p(fnp.where(near, 1.0, u)) / large
    one = fnp.ones_like(small)  # of its dtype: SciPy computes in float64 beside numbers
    return fnp.where(near, z * special.hyp2f1(one, one, 2 * one, -small), far)


LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
