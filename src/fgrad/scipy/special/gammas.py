"""The gamma and beta functions, the incomplete ones, their inverses, and the zeta function of Hurwitz."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from scipy import special

from fgrad.core.tensor import bind, unary
from fgrad.expr.atoms import call
from fgrad.expr.node import Expr
from fgrad.numpy.arrays import as_value
from fgrad.ops.elementwise import declare_word
from fgrad.scipy.special.rows import Row, cos, declare, either, exp, sin, zero_where

betaln: Callable[..., Expr]
gamma: Callable[..., Expr]
gammaln: Callable[..., Expr]
psi: Callable[..., Expr]
xlog1py: Callable[..., Expr]
xlogy: Callable[..., Expr]
zeta: Callable[..., Expr]
psi, zeta, gamma, gammaln, betaln, xlogy, xlog1py = map(
    call, ("psi", "zeta", "gamma", "gammaln", "betaln", "xlogy", "xlog1py")
)
betainc_a: Callable[..., Expr]
betainc_b: Callable[..., Expr]
betaincinv_a: Callable[..., Expr]
betaincinv_b: Callable[..., Expr]
gammainc_a: Callable[..., Expr]
gammaincinv_a: Callable[..., Expr]
gammainc_a, gammaincinv_a, betainc_a, betainc_b, betaincinv_a, betaincinv_b = map(
    call, ("gammainc_a", "gammaincinv_a", "betainc_a", "betainc_b", "betaincinv_a", "betaincinv_b")
)


# ---- derivatives by shape parameters, from those of samples (fgrad.ops.random)


def _unless(c: Any, x: Any, harmless: float) -> Any:
    return bind("where", c, harmless, x)


def _of_gamma(a: Any, x: Any) -> tuple[Any, Any, Any, Any]:
    """Return where x is at the ends of the support, x, a and dP/da over the density of log(x)."""
    a, x = as_value(a) * 1.0, as_value(x) * 1.0
    ended = bind("logical_or", x <= 0, unary("isinf", x))
    x = _unless(ended, x, 1.0)
    return ended, x, a, bind("log_gamma_ratio", unary("log", x), a, index=(0,))


def _gammainc_a(a: Any, x: Any) -> Any:
    """Return the derivative of the regularised lower incomplete gamma function by its parameter."""
    ended, x, a, ratio = _of_gamma(a, x)
    return _unless(ended, ratio * unary("exp", a * unary("log", x) - x - unary("gammaln", a)), 0.0)


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
        ended, x, a, b, low, high, ratio = _of_beta(i, a, b, x)
        return _unless(ended, ratio * unary("exp", a * low + b * high - bind("betaln", a, b)), 0.0)

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


def gamma_density(a: Any, x: Any) -> Expr:
    """Return the density of a standard gamma variable."""
    return zero_where(call("isinf")(x), lambda x: exp(xlogy(a - 1, x) - x - gammaln(a)), x, at=1.0)


def beta_density(a: Any, b: Any, x: Any) -> Expr:
    """Return the density of a beta variable."""
    return exp(xlogy(a - 1, x) + xlog1py(b - 1, -x) - betaln(a, b))


def _rgamma(_: Expr, x: Expr) -> tuple[Expr]:
    def reflected(x: Expr) -> Expr:
        angle = math.pi * x
        return gamma(1 - x) * (cos(angle) - psi(1 - x) * sin(angle) / math.pi)

    return (either(x < 0.5, x, reflected, lambda x: -psi(x) * call("rgamma")(x), inside=-0.25, outside=1.0),)


def _poch(f: Expr, z: Expr, m: Expr) -> tuple[Expr, Expr]:
    end = psi(z + m)
    return f * (end - psi(z)), f * end


def _binom(f: Expr, n: Expr, k: Expr) -> tuple[Expr, Expr]:
    rest = psi(n - k + 1)
    return f * (psi(n + 1) - rest), f * (rest - psi(k + 1))


def _inverse_density(a: Expr, f: Expr) -> Expr:
    return exp(gammaln(a) + f - xlogy(a - 1, f))


def _inverse_beta(f: Expr, a: Expr, b: Expr) -> Expr:
    return exp(betaln(a, b) - xlogy(a - 1, f) - xlog1py(b - 1, -f))


# fmt: off
declare({
    "gamma":    Row("z", lambda f, z: (f * psi(z),), "5.2.2", complex=True),
    "gammaln":  Row("x", lambda f, x: (psi(x),), "5.2.2"),
    "loggamma": Row("z", lambda f, z: (psi(z),), "5.2.2", complex=True),
    "rgamma":   Row("z", _rgamma, "5.2.2, 5.5.3"),
    "gammasgn": Row("x", None, "constant between poles"),
    "psi":      Row("z", lambda f, z: (zeta(2, z),), "5.15.1"),
    "zeta":     Row("x q", lambda f, x, q: (None, -x * zeta(x + 1, q)), "25.11.17",
                    run=lambda x, q: special.zeta(x, q)),  # noqa: PLW0108 -- it takes more
    "beta":     Row("a b", lambda f, a, b: (f * (psi(a) - psi(a + b)), f * (psi(b) - psi(a + b))), "5.12.1"),
    "betaln":   Row("a b", lambda f, a, b: (psi(a) - psi(a + b), psi(b) - psi(a + b)), "5.12.1"),
    "poch":     Row("z m", _poch, "5.2.5"),
    "binom":    Row("x y", _binom, "1.2.6, 5.2.2"),
    "gammainc":     Row("a x", lambda f, a, x: (gammainc_a(a, x), gamma_density(a, x)), "8.8.13"),
    "gammaincc":    Row("a x", lambda f, a, x: (-gammainc_a(a, x), -gamma_density(a, x)), "8.8.14"),
    "gammaincinv":  Row("a y", lambda f, a, y: (gammaincinv_a(a, f), _inverse_density(a, f)), "8.12(iv)"),
    "gammainccinv": Row("a y", lambda f, a, y: (gammaincinv_a(a, f), -_inverse_density(a, f)), "8.12(iv)"),
    "betainc":      Row("a b x", lambda f, a, b, x: (
                        betainc_a(a, b, x), betainc_b(a, b, x), beta_density(a, b, x)), "8.17.1"),
    "betaincc":     Row("a b x", lambda f, a, b, x: (
                        -betainc_a(a, b, x), -betainc_b(a, b, x), -beta_density(a, b, x)), "8.17.4"),
    "betaincinv":   Row("a b y", lambda f, a, b, y: (
                        betaincinv_a(a, b, f), betaincinv_b(a, b, f), _inverse_beta(f, a, b)), "8.17.1"),
    "betainccinv":  Row("a b y", lambda f, a, b, y: (
                        betaincinv_a(a, b, f), betaincinv_b(a, b, f), -_inverse_beta(f, a, b)), "8.17.4"),
})
# fmt: on
