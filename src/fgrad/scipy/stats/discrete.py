"""The discrete families: logarithms of probabilities and distribution functions at integers."""

from __future__ import annotations

import math
from typing import Any

import fgrad.numpy as fnp
from fgrad.scipy.stats.families import Discrete, special

INF = math.inf


def _share(p: Any) -> Any:
    """Return whether `p` is a probability."""
    return fnp.logical_and(p >= 0, p <= 1)


def _choose(n: Any, k: Any) -> Any:
    return special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)


def _binomial(k: Any, n: Any, p: Any) -> Any:
    return _choose(n, k) + special.xlogy(k, p) + special.xlog1py(n - k, -p)


bernoulli: Discrete = Discrete(
    "bernoulli",
    "p",
    logpmf=lambda k, p: _binomial(k, 1, p),
    cdf=lambda k, p: 1 - p,
    sf=lambda k, p: p,
    support=(0, 1),
    valid=_share,
)
binom: Discrete = Discrete(
    "binom",
    "n p",
    logpmf=_binomial,
    cdf=lambda k, n, p: special.betaincc(k + 1.0, n - k, p),
    sf=lambda k, n, p: special.betainc(k + 1.0, n - k, p),
    support=(0, lambda n, p: n),
    valid=lambda n, p: fnp.logical_and(fnp.logical_and(n >= 0, n == fnp.floor(n)), _share(p)),
)
poisson: Discrete = Discrete(
    "poisson",
    "mu",
    logpmf=lambda k, mu: special.xlogy(k, mu) - mu - special.gammaln(k + 1),
    cdf=lambda k, mu: special.gammaincc(k + 1.0, mu),
    sf=lambda k, mu: special.gammainc(k + 1.0, mu),
    support=(0, INF),
    valid=lambda mu: mu >= 0,
)
geom: Discrete = Discrete(
    "geom",
    "p",
    logpmf=lambda k, p: fnp.log(p) + special.xlog1py(k - 1, -p),
    cdf=lambda k, p: -fnp.expm1(k * fnp.log1p(-p)),
    sf=lambda k, p: fnp.exp(k * fnp.log1p(-p)),
    support=(1, INF),
    valid=lambda p: fnp.logical_and(p > 0, p <= 1),
)
nbinom: Discrete = Discrete(
    "nbinom",
    "n p",
    logpmf=lambda k, n, p: (
        special.gammaln(n + k)
        - special.gammaln(n)
        - special.gammaln(k + 1)
        + special.xlogy(n, p)
        + special.xlog1py(k, -p)
    ),
    cdf=lambda k, n, p: special.betainc(n, k + 1.0, p),
    sf=lambda k, n, p: special.betaincc(n, k + 1.0, p),
    support=(0, INF),
    valid=lambda n, p: fnp.logical_and(n > 0, fnp.logical_and(p > 0, p <= 1)),
)
betabinom: Discrete = Discrete(
    "betabinom",
    "n a b",
    logpmf=lambda k, n, a, b: _choose(n, k) + special.betaln(k + a, n - k + b) - special.betaln(a, b),
    support=(0, lambda n, a, b: n),
    valid=lambda n, a, b: fnp.logical_and(
        fnp.logical_and(n >= 0, n == fnp.floor(n)), fnp.logical_and(a > 0, b > 0)
    ),
)
