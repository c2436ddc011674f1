"""SciPy's special functions that CuPy lacks, by those that it has: formulas of real numbers.

Numbers in brackets are sections of the Digital Library of Mathematical Functions (dlmf.nist.gov). A formula
is computed everywhere, and chosen where it is meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from fgrad.backend.array import COMPOSED, Place


def _theirs(name: str) -> Any:
    """Return a function of SciPy, which sends arrays on a device to CuPy's."""
    return getattr(import_module("scipy.special"), name)


def _density(a: Any, b: Any, x: Any) -> Any:
    """Return how much more an error of `x` counts than one of the beta distribution there."""
    xlogy, xlog1py, betaln = map(_theirs, ("xlogy", "xlog1py", "betaln"))
    return np.exp(xlogy(a - 1, x) + xlog1py(b - 1, -x) - betaln(a, b))


def _betaincc(place: Place, a: Any, b: Any, x: Any) -> Any:
    betainc = _theirs("betainc")
    return np.where(_density(a, b, x) < 1, betainc(b, a, 1 - x), 1 - betainc(a, b, x))  # (8.17.4)


def _betainccinv(place: Place, a: Any, b: Any, y: Any) -> Any:
    betaincinv = _theirs("betaincinv")
    x = 1 - betaincinv(b, a, y)
    return np.where(_density(a, b, x) < 1, x, betaincinv(a, b, 1 - y))


def _stdtr(place: Place, df: Any, t: Any) -> Any:
    """Return Student's distribution, by the tail that is not near one half by cancellation."""
    betainc, half, square = _theirs("betainc"), df / 2, t * t
    far, near = betainc(half, 0.5, df / (df + square)), 1 - betainc(0.5, half, square / (df + square))
    tail = np.where(square > df, far, near) / 2
    return np.where(np.isinf(df), _theirs("ndtr")(t), np.where(t < 0, tail, 1 - tail))


def _stdtrit(place: Place, df: Any, p: Any) -> Any:
    betaincinv, half, tail = _theirs("betaincinv"), df / 2, np.minimum(p, 1 - p)
    far, near = betaincinv(half, 0.5, 2 * tail), betaincinv(0.5, half, 1 - 2 * tail)
    ratio = np.where(tail > 1 - far, near / (1 - near), (1 - far) / far)  # what loses fewer digits
    size = np.sqrt(df * ratio)
    return np.where(np.isinf(df), _theirs("ndtri")(p), np.where(p < 0.5, -size, size))


def _ndtri_exp(place: Place, y: Any) -> Any:
    """Return the inverse of log_ndtr: where exp(y) is no number any more, by Newton's method."""
    log_ndtr, ndtri, erfcx = map(_theirs, ("log_ndtr", "ndtri", "erfcx"))
    low = np.minimum(y, -500.0)
    x = -np.sqrt(np.maximum(-2 * low - math.log(2 * math.pi) - np.log(-2 * low), 1))
    for _ in range(3):
        x = x - (log_ndtr(x) - low) * erfcx(x / -math.sqrt(2)) * math.sqrt(math.pi / 2)
    x = np.where(np.isinf(y), y, x)
    near = np.where(y > -0.1, -ndtri(-np.expm1(y)), ndtri(np.exp(y)))
    return np.where(y < -500, x, near)


def _powm1(place: Place, x: Any, y: Any) -> Any:
    size = y * np.log(np.absolute(x))
    is_positive = (x > 0) | ((x < 0) & (np.remainder(y, 2) == 0))
    return np.where(is_positive & (np.absolute(size) < 0.5), np.expm1(size), np.power(x, y) - 1)


def _agm(place: Place, a: Any, b: Any) -> Any:
    total = a + b
    mean = math.pi / 4 * total / _theirs("ellipkm1")(4 * (a / total) * (b / total))  # (19.8.5)
    return np.where(a == b, a, np.where(a * b < 0, np.nan, mean))


def _kolmogorov(place: Place, y: Any) -> Any:
    """Return the probability of a larger deviation, by one of two theta series, (20.7.32)."""
    small, large, squares = 0.0, 0.0, y * y
    for k in range(1, 6):
        small = small + np.exp(-((2 * k - 1) ** 2) * math.pi**2 / 8 / squares)
        large = large - (-1) ** k * np.exp(-2 * k * k * squares)
    found = np.where(y < 0.8, 1 - math.sqrt(2 * math.pi) / y * small, 2 * large)
    return np.where(y <= 0, 1.0, found)


def _spence(place: Place, z: Any) -> Any:
    """Return the dilogarithm of 1 - z, by Debye's series in log z for 1/2 <= z <= 1, (25.12)."""
    w = np.where(z > 1, 1 / z, z)
    v = np.where(w < 0.5, 1 - w, w)
    u = -np.log(v)
    square, series = u * u, 0.0
    # B_2k / (2k + 1)!
    for c in reversed((1 / 36, -1 / 3600, 1 / 211680, -1 / 10886400, 1 / 526901760, -4.0647616451442255e-11,
                       8.921691020456452e-13, -1.9939295860721074e-14)):  # fmt: skip
        series = (series + c) * square
    v = u * (1 + series) - square / 4
    reflected = math.pi**2 / 6 - np.log(w) * np.log1p(-w) - v
    v = np.where(w < 0.5, np.where(w == 0, math.pi**2 / 6, reflected), v)
    return np.where(z > 1, -(np.log(z) ** 2) / 2 - v, v)


def _dawsn(place: Place, x: Any) -> Any:
    """Return Dawson's integral, by sums of Gaussians, near zero by its series, and far away in powers of 1/x.

    Source:
        Rybicki (1989), Dawson's integral and the sampling theorem, Computers in Physics 3.
    """
    step, size = 0.2, np.absolute(x)
    middle, sampled = np.rint(np.minimum(size, 12) / (2 * step)) * 2, 0.0
    rest = np.minimum(size, 12) - middle * step
    for n in range(-31, 32, 2):
        sampled = sampled + np.exp(-((rest - n * step) ** 2)) / (middle + n)
    series, far, square = 0.0, 0.0, x * x
    for k in range(14, 0, -1):
        series = (1 + series) * (-2 * square / (2 * k + 1))
        far = (1 + far) * ((2 * k - 1) / (2 * square))
    found = np.where(size < 0.4, size * (1 + series), sampled / math.sqrt(math.pi))
    found = np.where(size > 10, (1 + far) / (2 * size), found)
    return np.copysign(np.where(np.isinf(x), 0.0, found), x)


def _erfi(place: Place, x: Any) -> Any:
    found = 2 / math.sqrt(math.pi) * np.exp(x * x) * _dawsn(place, x)  # (7.5.1)
    return np.where(np.absolute(x) > 27, np.copysign(np.inf, x), found)


# ---- Bessel functions of small whole order


HIGHEST = 8


def _order(place: Place, name: str, v: Any) -> int:
    if hasattr(v, "place") or float(v) != int(v) or abs(v) > HIGHEST:
        raise place.refusal(
            f"scipy.special.{name} of orders other than -{HIGHEST}, ..., {HIGHEST} as numbers"
        )
    return int(v)


def _powers(n: int, x: Any, sign: int, terms: int) -> Any:
    """Return the power series of order `n`, (10.2.2) and (10.25.2)."""
    square, total = sign * x * x / 4, 0.0
    for k in range(terms, 0, -1):
        total = (1 + total) * (square / (k * (k + n)))
    return (1 + total) * (x / 2) ** n / math.factorial(n)


def _jv(place: Place, v: Any, x: Any) -> Any:
    n = _order(place, "jv", v)
    if n < 0:
        return (-1) ** n * _jv(place, -n, x)
    before, now = _theirs("j0")(x), _theirs("j1")(x)
    if n < 2:
        return now if n else before
    safe = np.where(x == 0, 1, x)
    for k in range(1, n):  # (10.6.1), which loses digits where x is less than the order
        before, now = now, 2 * k / safe * now - before
    return np.where(np.absolute(x) < n + 2, _powers(n, x, -1, 30), now)


def _ive(place: Place, v: Any, x: Any) -> Any:
    n = abs(_order(place, "ive", v))
    if n < 2:
        return _theirs("i1e" if n else "i0e")(x)
    size, far = np.absolute(x), 0.0
    wide = np.maximum(size, 30.0)
    for k in range(24, 0, -1):  # (10.40.1)
        far = (1 + far) * (((2 * k - 1) ** 2 - 4 * n * n) / (8 * k * wide))
    far = (1 + far) / np.sqrt(2 * math.pi * wide)
    found = np.where(size < 30, _powers(n, np.minimum(size, 30.0), 1, 90) * np.exp(-size), far)
    return np.copysign(found, x) if n % 2 else found


def _iv(place: Place, v: Any, x: Any) -> Any:
    n = abs(_order(place, "iv", v))
    return _theirs("i1" if n else "i0")(x) if n < 2 else _ive(place, n, x) * np.exp(np.absolute(x))


def _of_second_kind(name: str, first: tuple[str, str]) -> Callable[..., Any]:
    """Return a modified Bessel function of the second kind, which recurrence keeps exact, (10.29.1)."""

    def compute(place: Place, v: Any, x: Any) -> Any:
        n = abs(_order(place, name, v))
        before, now = (_theirs(f)(x) for f in first)
        for k in range(1, n):
            before, now = now, before + 2 * k / x * now
        return now if n else before

    return compute


# ---- hypergeometric functions that are slopes


def _hyp0f1(place: Place, b: Any, x: Any) -> Any:
    if hasattr(b, "place") or float(b) != 1.5:
        raise place.refusal("scipy.special.hyp0f1 of a first argument other than 1.5")
    root = 2 * np.sqrt(np.absolute(x))
    quotient = np.where(x < 0, np.sin(root), np.sinh(root)) / np.where(x == 0, 1, root)
    return np.where(x == 0, 1.0, quotient)


def _hyp1f1(place: Place, a: Any, b: Any, x: Any) -> Any:
    """Return a times the integral of t**(a - 1) exp(x t) over 0 < t < 1, for small whole a = b - 1."""
    if hasattr(a, "place") or hasattr(b, "place") or b - a != 1 or float(a) not in range(1, HIGHEST):
        raise place.refusal("scipy.special.hyp1f1 other than of (1, 2, x), (2, 3, x), ...")
    size, up, down, far = np.minimum(np.absolute(x), 30.0), 0.0, 0.0, 1.0
    for k in range(90, 0, -1):
        up = (a / (a + k) + up) * size / k
        down = (1 + down) * size / (a + k)
    near = np.where(x < 0, (1 + down) * np.exp(-size), 1 + up)
    for n in range(1, int(a) + 1):
        far = n / x * (np.exp(x) - far)
    return np.where(np.absolute(x) < 30, near, far)


def _hyp2f1(place: Place, a: Any, b: Any, c: Any, x: Any) -> Any:
    if any(hasattr(v, "place") for v in (a, b, c)) or (a, b, c) not in {(1, 1, 2), (2, 2, 3)}:
        raise place.refusal("scipy.special.hyp2f1 other than of (1, 1, 2, x) and (2, 2, 3, x)")
    safe = np.where(x == 0, 1, x)
    if a == 1:
        return np.where(x == 0, 1.0, -np.log1p(-x) / safe)  # (15.4.1)
    series, near = 0.0, np.clip(x, -0.5, 0.5)
    for k in range(60, -1, -1):
        series = series * near + 2 * (k + 1) / (k + 2)
    return np.where(np.absolute(x) < 0.5, series, 2 * (safe / (1 - safe) + np.log1p(-safe)) / (safe * safe))


def _yv(place: Place, v: Any, x: Any) -> Any:
    return _theirs("yn")(_order(place, "yv", v), x)


_FORMULAS: dict[str, Callable[..., Any]] = {
    "agm": _agm,
    "betaincc": _betaincc,
    "betainccinv": _betainccinv,
    "dawsn": _dawsn,
    "erfi": _erfi,
    "gdtria": lambda _, p, b, x: _theirs("gammaincinv")(b, p) / x,
    "gdtrix": lambda _, a, b, p: _theirs("gammaincinv")(b, p) / a,
    "hyp0f1": _hyp0f1,
    "hyp1f1": _hyp1f1,
    "hyp2f1": _hyp2f1,
    "iv": _iv,
    "ive": _ive,
    "jv": _jv,
    "kn": _of_second_kind("kn", ("k0", "k1")),
    "kolmogorov": _kolmogorov,
    "kv": _of_second_kind("kv", ("k0", "k1")),
    "kve": _of_second_kind("kve", ("k0e", "k1e")),
    "ndtri_exp": _ndtri_exp,
    "nrdtrimn": lambda _, p, std, x: x - std * _theirs("ndtri")(p),
    "nrdtrisd": lambda _, mn, p, x: (x - mn) / _theirs("ndtri")(p),
    "powm1": _powm1,
    "round": lambda _, x: np.rint(x),
    "spence": _spence,
    "stdtr": _stdtr,
    "stdtrit": _stdtrit,
    "yv": _yv,
}
COMPOSED |= {f"scipy.special.{name}": f for name, f in _FORMULAS.items()}
