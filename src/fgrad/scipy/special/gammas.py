"""The gamma and beta functions, the incomplete ones, their inverses, and the zeta function of Hurwitz."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from scipy import special

from fgrad.core.dispatch import bind, unary
from fgrad.extend.engine import Expr, as_value, declare_word, fn, where
from fgrad.scipy.special.formulas import DIGAMMA_FAR, FAR
from fgrad.scipy.special.primitives import Row, declare, hidden, zero_unless, zero_where

Formula = Callable[..., Expr]
FEW, NEAR = 20.0, 100.0  # shape parameters and points whose powers do not overflow


# ---- derivatives by shape parameters, from those of samples (fgrad.ops.random)


def _unless(c: Any, x: Any, harmless: float) -> Any:
    return bind("where", c, harmless, x)


def _of_gamma(a: Any, x: Any) -> tuple[Any, Any, Any, Any]:
    """Return where x is at the ends of the support, x, a and dP/da over the density of log(x)."""
    a, x = as_value(a) * 1.0, as_value(x) * 1.0
    ended = bind("logical_or", x <= 0, unary("isinf", x))
    x = _unless(ended, x, 1.0)
    return ended, x, a, bind("log_gamma_ratio", unary("log", x), a, index=(0,))


SMALL = 1e-3  # parameters below it are raised by one


def _gammainc_a(a: Any, x: Any) -> Any:
    """Return the derivative of the regularised lower incomplete gamma function by its parameter.

    P(a, x) is P(a + 1, x) + x**a exp(-x) / gamma(a + 1) (8.8.5), which is smooth where a is zero.
    """
    small = as_value(a) < SMALL
    raised = bind("where", small, a + 1.0, a)
    ended, x, b, ratio = _of_gamma(raised, x)
    log_x = unary("log", x)
    slope = ratio * unary("exp", b * log_x - x - unary("gammaln", b))
    first = _unless(bind("logical_not", small), b, 1.0)  # a + 1 where that is
    term = unary("exp", (first - 1) * log_x - x) * unary("rgamma", first) * (log_x - unary("psi", first))
    return _unless(ended, slope + _unless(bind("logical_not", small), term, 0.0), 0.0)


def _gammaincinv_a(a: Any, x: Any) -> Any:
    """Return the derivative of the quantile x by the parameter, at a constant probability."""
    ended, x, _, ratio = _of_gamma(a, x)
    return _unless(ended, -ratio * x, 0.0)


def _of_beta(i: int, a: Any, b: Any, x: Any) -> tuple[Any, ...]:
    a, b, x = as_value(a) * 1.0, as_value(b) * 1.0, as_value(x) * 1.0
    ended = bind("logical_or", x <= 0, x >= 1)
    x = _unless(ended, x, 0.5)
    low, high = unary("log", x), unary("log1p", -x)
    return ended, x, a, b, low, high, bind("logit_beta_ratio", low - high, a, b, index=(i,))


def _betainc_by(i: int) -> Any:
    def slope(a: Any, b: Any, x: Any) -> Any:
        """Return the slope in `a` or `b`. A small parameter is raised by one (8.17.20, 8.17.21)."""
        raised, kept = [], []
        for v in (a, b):
            small = as_value(v) < SMALL
            raised.append(bind("where", small, v + 1.0, v))
            kept.append(bind("logical_not", small))
        ended, x, *shapes, low, high, ratio = _of_beta(i, raised[0], raised[1], x)
        line, rest = ((low, high), (high, low))[i]
        first, other = shapes[i], shapes[1 - i]
        slope = ratio * unary("exp", first * line + other * rest - bind("betaln", first, other))
        # of what is lost where `first` is raised, x**first (1 - x)**other gamma(first + other) over
        # gamma(first + 1) gamma(other), and of what is gained where the other is; in `b` of the complement
        up = _unless(kept[i], first, 1.0)
        term = unary("exp", (up - 1) * line + other * rest - bind("betaln", up, other)) / (up + other - 1)
        grows = term * (line - unary("psi", up) + unary("psi", up + other - 1))
        over = _unless(kept[1 - i], other, 1.0)
        lower = first - bind("where", kept[i], 0.0, 1.0)
        held = _unless(kept[1 - i], lower, 1.0)
        total = held + over - 1
        term = unary("exp", held * line + (over - 1) * rest - bind("betaln", held, over)) / total
        falls = term * (line - unary("psi", held) + unary("psi", total))
        more = _unless(kept[i], grows, 0.0) - _unless(kept[1 - i], falls, 0.0)
        return _unless(ended, slope + (1, -1)[i] * more, 0.0)

    return slope


def _betaincinv_by(i: int) -> Any:
    def slope(a: Any, b: Any, x: Any) -> Any:
        ended, x, *_, ratio = _of_beta(i, a, b, x)
        return _unless(ended, -ratio * x * (1 - x), 0.0)

    return slope


declare_word("gammainc_a", _gammainc_a)
declare_word("gammaincinv_a", _gammaincinv_a)
declare_word("betainc_a", _betainc_by(0))
declare_word("betainc_b", _betainc_by(1))
declare_word("betaincinv_a", _betaincinv_by(0))
declare_word("betaincinv_b", _betaincinv_by(1))


# ---- formulas


def _near_or_far(near: Expr, powers: Formula, logs: Formula, *xs: tuple[Any, float]) -> Expr:
    """Return powers(*xs) where arguments are near, else logs(*xs); each of `xs` with one that is near.

    Powers hold at the ends of the support, and for vanishing parameters, to every order.
    """
    inside = powers(*(where(near, x, harmless) for x, harmless in xs))
    return where(near, inside, logs(*(where(near, 30.0, x) for x, _ in xs)))


def gamma_density(a: Any, x: Any) -> Expr:
    """Return the density of a standard gamma variable."""
    powers: Formula = lambda a, x: fn.power(x, a - 1) * fn.exp(-x) * fn.rgamma(a)
    logs: Formula = lambda a, x: fn.exp(fn.xlogy(a - 1, x) - x - fn.gammaln(a))
    far: Formula = lambda a, x: zero_where(fn.isinf(x), lambda x: logs(a, x), x, at=1.0)
    return _near_or_far(fn.logical_and(a < FEW, x < NEAR), powers, far, (a, 2.0), (x, 1.0))


def beta_density(a: Any, b: Any, x: Any) -> Expr:
    """Return the density of a beta variable."""
    powers: Formula = lambda a, b: (
        fn.power(x, a - 1) * fn.power(1 - x, b - 1) * (fn.rgamma(a) * fn.rgamma(b) * fn.gamma(a + b))
    )
    logs: Formula = lambda a, b: fn.exp(fn.xlogy(a - 1, x) + fn.xlog1py(b - 1, -x) - fn.betaln(a, b))
    return _near_or_far(fn.logical_and(a < FEW, b < FEW), powers, logs, (a, 2.0), (b, 2.0))


# ---- where poles cancel, or zeros meet poles of psi: below one half by reflection (5.5.3, 5.5.4)


def _sine(x: Expr) -> Expr:
    """Return sin(pi x), zero for whole x."""
    return fn.sindg(180 * x)


def _cosine(x: Expr) -> Expr:
    """Return cos(pi x), zero for halves."""
    return fn.cosdg(180 * x)


def _inverse_square(x: Expr) -> Expr:
    return 1 / (x * x)


def _is_low(x: Expr) -> Expr:
    return x < 0.5


def _folded_psi(x: Expr) -> Expr:
    """Return psi(x), and psi(1 - x) = psi(x) + pi cot(pi x) where x is low."""
    return fn.psi(where(_is_low(x), 1 - x, x))


def _psi_rise(x: Expr, d: Expr) -> Expr:
    """Return psi(x + d) - psi(x) for numbers from one half on, where neither is known to so many digits.

    Both are raised to where the asymptotic series holds (5.5.2, 5.11.2). Each difference is divided by `d`,
    and all that are large have one sign.
    """
    endless = fn.isinf(d)
    d = where(endless, 1.0, d)
    y = x + d
    low = sum((1 / ((x + k) * (y + k)) for k in range(1, int(FAR))), 1 / (x * y))
    x, y = x + FAR, y + FAR
    u, v = _inverse_square(x), _inverse_square(y)
    series: Any = DIGAMMA_FAR[-1] * u
    quotient: Any = DIGAMMA_FAR[-1]
    for c in DIGAMMA_FAR[-2::-1]:  # by Horner's rule the series in u, and its divided difference
        series, quotient = (series + c) * u, quotient * v + (series + c)
    far = 0.5 / (x * y) + quotient * (u / y + v / x)
    return where(endless, math.inf, fn.log1p(d / x) + d * (low + far))


def _folded_rise(x: Expr, d: Expr) -> Expr:
    """Return the difference of the folded psi at x + d and at x."""
    low, low_end = _is_low(x), _is_low(x + d)
    gap = where(low, where(low_end, -d, x + d - (1 - x)), where(low_end, 1 - (x + d) - x, d))
    return _psi_rise(where(low, 1 - x, x), gap)


def _psi(_: Expr, x: Expr) -> tuple[Expr]:
    low = _is_low(x)
    rest = fn.trigamma(where(low, 1 - x, x))
    return (where(low, math.pi**2 * _inverse_square(_sine(where(low, x, 0.5))) - rest, rest),)


def _trigamma(_: Expr, x: Expr) -> tuple[Expr]:
    return (-2 * fn.zeta(3, x),)


def _rgamma(_: Expr, x: Expr) -> tuple[Expr]:
    pole = lambda x: fn.gamma(1 - x) * _cosine(x)
    return (zero_unless(_is_low(x), pole, (x, 0.5)) - _folded_psi(x) * fn.rgamma(x),)


def _beta(f: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    low_sum = _is_low(a + b)

    def by_first(a: Expr, b: Expr) -> Expr:
        low = _is_low(a)

        def difference(a: Expr, b: Expr) -> Expr:
            """Return f (cot(pi a) - cot(pi s)), the first of them only where `a` is low."""
            low, s = _is_low(a), a + b
            top = where(low, _sine(b), -_cosine(s))
            return fn.beta(where(low, b, a), 1 - s) * fn.multiply_no_nan(
                top, 1 / where(low, _sine(a) * _sine(a), _sine(b))
            )

        poles = where(
            low_sum,
            zero_unless(low_sum, difference, (a, -0.25), (b, 0.3)),
            zero_unless(low, lambda a: f * _cosine(a) / _sine(a), (a, 0.5)),
        )
        return -f * _folded_rise(a, b) - math.pi * poles

    return by_first(a, b), by_first(b, a)


def _betaln(_: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    s = a + b

    def by_first(a: Expr, b: Expr) -> Expr:
        low, low_sum = _is_low(a), _is_low(s)
        left, right = where(low, a, 0.5), where(low_sum, s, 0.5)
        gap = where(fn.logical_and(low, low_sum), b, right - left)
        poles = fn.multiply_no_nan(
            _sine(gap), 1 / (_sine(left) * _sine(right))
        )  # cot(pi left) - cot(pi right)
        return -_folded_rise(a, b) - math.pi * poles

    return by_first(a, b), by_first(b, a)


def _poch(f: Expr, z: Expr, m: Expr) -> tuple[Expr, Expr]:
    low, low_end = _is_low(z), _is_low(z + m)
    cancel = fn.logical_and(low, low_end)
    begins = fn.logical_and(low, fn.logical_not(low_end))
    ends = fn.logical_and(low_end, fn.logical_not(low))
    poles = (
        zero_unless(
            cancel,
            lambda z, m: (
                fn.multiply_no_nan(_sine(m), _inverse_square(_sine(z + m))) * fn.poch(1 - z - m, m) * math.pi
            ),
            (z, -0.25),
            (m, 0.3),
        )
        + zero_unless(
            begins, lambda z, m: fn.gamma(z + m) * fn.gamma(1 - z) * _cosine(z), (z, -0.25), (m, 1.6)
        )
        - zero_unless(ends, lambda f, w: math.pi * f * _cosine(w) / _sine(w), (f, 1.0), (z + m, 0.25))
    )
    return f * _folded_rise(z, m) + poles, f * fn.psi(z + m)


def _binom(f: Expr, n: Expr, k: Expr) -> tuple[Expr, Expr]:
    def poles(a: Expr) -> Expr:  # f = sin(pi a) beta(n + 1, 1 - a) / pi for a = k + 1, a = n - k + 1
        pole = lambda n, a: _cosine(a) * fn.beta(n + 1, 1 - a)
        return zero_unless(_is_low(a), pole, (n, 1.25), (a, -0.6))

    top, rest = n + 1, n - k + 1
    begins = zero_unless(
        _is_low(top), lambda f, w: math.pi * f * _cosine(w) / _sine(w), (f, 1.0), (top, 0.25)
    )
    return (
        f * _folded_rise(rest, k) - begins + poles(rest),
        f * _folded_rise(k + 1, n - 2 * k) - poles(rest) + poles(k + 1),
    )


# In powers too: at the ends of the probabilities, a logarithm would hide behind zero that a slope has none.


def _inverse_density(a: Expr, f: Expr) -> Expr:
    powers: Formula = lambda a, f: fn.power(f, 1 - a) * fn.exp(f) * fn.gamma(a)
    logs: Formula = lambda a, f: fn.exp(fn.gammaln(a) + f - fn.xlogy(a - 1, f))
    return _near_or_far(fn.logical_and(a < FEW, f < NEAR), powers, logs, (a, 2.0), (f, 1.0))


def _inverse_beta(f: Expr, a: Expr, b: Expr) -> Expr:
    powers: Formula = lambda a, b: fn.power(f, 1 - a) * fn.power(1 - f, 1 - b) * fn.beta(a, b)
    logs: Formula = lambda a, b: fn.exp(fn.betaln(a, b) - fn.xlogy(a - 1, f) - fn.xlog1py(b - 1, -f))
    return _near_or_far(fn.logical_and(a < FEW, b < FEW), powers, logs, (a, 2.0), (b, 2.0))


# fmt: off
declare({
    "gamma":    Row("z", lambda f, z: (f * fn.psi(z),), "5.2.2", complex=True),
    "gammaln":  Row("x", lambda f, x: (fn.psi(x),), "5.2.2"),
    "loggamma": Row("z", lambda f, z: (fn.psi(z),), "5.2.2", complex=True),
    "rgamma":   Row("z", _rgamma, "5.2.2, 5.5.3"),
    "gammasgn": Row("x", None, "constant between poles"),
    "psi":      Row("z", _psi, "5.15.1, 5.15.6"),
    "trigamma": Row("x", _trigamma, "5.15.1, 5.15.6",
                    run=lambda x: special.zeta(2, x)),
    "zeta":     Row("x q", lambda f, x, q: (None, -x * fn.zeta(x + 1, q)), "25.11.17",
                    run=lambda x, q: special.zeta(x, q), loops=hidden("zeta")),  # noqa: PLW0108 -- it takes more
    "riemann_zeta": Row("x", lambda f, x: (None,), "none is known",
                    run=lambda x: special.zeta(x), loops=hidden("riemann_zeta"), title="zeta"),  # noqa: PLW0108 -- likewise
    "beta":     Row("a b", _beta, "5.12.1, 5.5.4"),
    "betaln":   Row("a b", _betaln, "5.12.1, 5.5.4"),
    "poch":     Row("z m", _poch, "5.2.5, 5.5.4"),
    "binom":    Row("x y", _binom, "1.2.6, 5.5.4"),
    "gammainc":     Row("a x", lambda f, a, x: (fn.gammainc_a(a, x), gamma_density(a, x)), "8.8.13"),
    "gammaincc":    Row("a x", lambda f, a, x: (-fn.gammainc_a(a, x), -gamma_density(a, x)), "8.8.14"),
    "gammaincinv":  Row("a y", lambda f, a, y: (fn.gammaincinv_a(a, f), _inverse_density(a, f)), "8.12(iv)"),
    "gammainccinv": Row("a y", lambda f, a, y: (fn.gammaincinv_a(a, f), -_inverse_density(a, f)), "8.12(iv)"),
    "betainc":      Row("a b x", lambda f, a, b, x: (
                        fn.betainc_a(a, b, x), fn.betainc_b(a, b, x), beta_density(a, b, x)), "8.17.1"),
    "betaincc":     Row("a b x", lambda f, a, b, x: (
                        -fn.betainc_a(a, b, x), -fn.betainc_b(a, b, x), -beta_density(a, b, x)), "8.17.4"),
    "betaincinv":   Row("a b y", lambda f, a, b, y: (
                        fn.betaincinv_a(a, b, f), fn.betaincinv_b(a, b, f), _inverse_beta(f, a, b)),
                        "8.17.1"),
    "betainccinv":  Row("a b y", lambda f, a, b, y: (
                        fn.betaincinv_a(a, b, f), fn.betaincinv_b(a, b, f), -_inverse_beta(f, a, b)),
                        "8.17.4"),
})
# fmt: on
