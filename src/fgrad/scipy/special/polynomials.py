"""Orthogonal polynomials, hypergeometric functions and what they contain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.extend.engine import Expr, equal, fn, where
from fgrad.scipy.special.primitives import Row, declare


def _lower(n: Expr, slope: Callable[[Expr], Any]) -> Expr:
    """Return slope(n - 1), and zero for the constant polynomial."""
    constant = equal(n, 0)
    return where(constant, 0, slope(where(constant, 0, n - 1)))


def _row(arguments: str, slope: Callable[..., Any], source: str, **options: Any) -> Row:
    """Return the row of a polynomial of degree n, whose slope is slope(n, n - 1, *others)."""

    def slopes(f: Expr, n: Expr, *others: Expr) -> tuple[Expr | None, ...]:
        return (*(None,) * len(others), _lower(n, lambda m: slope(n, m, *others)))

    return Row(arguments, slopes, source, **options)


def _lpmv(f: Expr, m: Expr, v: Expr, x: Expr) -> tuple[None, None, Expr]:
    order_zero = equal(m, 0)  # a polynomial, or as smooth at the ends
    inner = where(order_zero, 0.5, x)
    plain = (v * inner * f - (v + m) * fn.lpmv(m, v - 1, inner)) / (inner * inner - 1)
    return None, None, where(order_zero, _lower(v, lambda n: (v + 1) / 2 * fn.eval_jacobi(n, 1, 1, x)), plain)


# fmt: off
declare({
    "eval_legendre":    _row("n x", lambda n, m, x: (n + 1) / 2 * fn.eval_jacobi(m, 1, 1, x),
                             "18.7.9, 18.9.15", complex=True),
    "eval_sh_legendre": _row("n x", lambda n, m, x: (n + 1) * fn.eval_jacobi(m, 1, 1, 2 * x - 1),
                             "18.7.10, 18.9.15", complex=True),
    "eval_chebyt":      _row("n x", lambda n, m, x: n * fn.eval_chebyu(m, x), "18.9.21", complex=True),
    "eval_chebyu":      _row("n x", lambda n, m, x: 2 * fn.eval_gegenbauer(m, 2, x),
                             "18.7.4, 18.9.19", complex=True),
    "eval_chebyc":      _row("n x", lambda n, m, x: n * fn.eval_chebyu(m, x / 2),
                             "18.1.3, 18.9.21", complex=True),
    "eval_chebys":      _row("n x", lambda n, m, x: fn.eval_gegenbauer(m, 2, x / 2),
                             "18.1.3, 18.9.19", complex=True),
    "eval_sh_chebyt":   _row("n x", lambda n, m, x: 2 * n * fn.eval_chebyu(m, 2 * x - 1),
                             "18.9.21", complex=True),
    "eval_sh_chebyu":   _row("n x", lambda n, m, x: 4 * fn.eval_gegenbauer(m, 2, 2 * x - 1),
                             "18.7.4, 18.9.19", complex=True),
    "eval_gegenbauer":  _row("n alpha x", lambda n, m, a, x: 2 * a * fn.eval_gegenbauer(m, a + 1, x),
                             "18.9.19", complex=True),
    "eval_jacobi":      _row("n alpha beta x", lambda n, m, a, b, x: (
                             (n + a + b + 1) / 2 * fn.eval_jacobi(m, a + 1, b + 1, x)),
                             "18.9.15", complex=True),
    "eval_sh_jacobi":   _row("n p q x", lambda n, m, p, q, x: (
                             (n + p) / fn.binom(2 * n + p - 1, n)
                             * fn.eval_jacobi(m, p - q + 1, q, 2 * x - 1)),
                             "18.1(iii), 18.9.15", complex=True),
    "eval_laguerre":    _row("n x", lambda n, m, x: -fn.eval_genlaguerre(m, 1, x), "18.9.23", complex=True),
    "eval_genlaguerre": _row("n alpha x", lambda n, m, a, x: -fn.eval_genlaguerre(m, a + 1, x),
                             "18.9.23", complex=True),
    "eval_hermite":     _row("n x", lambda n, m, x: 2 * n * fn.eval_hermite(m, x), "18.9.25", whole=True),
    "eval_hermitenorm": _row("n x", lambda n, m, x: n * fn.eval_hermitenorm(m, x), "18.9.27", whole=True),
    "lpmv":   Row("m v x", _lpmv, "14.10.5"),
    "hyp0f1": Row("v z", lambda f, v, z: (None, fn.hyp0f1(v + 1, z) / v), "16.3.1", complex=True),
    "hyp1f1": Row("a b z", lambda f, a, b, z: (None, None, a / b * fn.hyp1f1(a + 1, b + 1, z)), "13.3.15",
                  complex=True),
    "hyp2f1": Row("a b c z", lambda f, a, b, c, z: (
                  None, None, None, a * b / c * fn.hyp2f1(a + 1, b + 1, c + 1, z)), "15.5.1", complex=True),
    "hyperu": Row("a b x", lambda f, a, b, x: (None, None, -a * fn.hyperu(a + 1, b + 1, x)), "13.3.22"),
    "pbdv_d":  Row("v x", lambda f, v, x: (None, fn.pbdv_dp(v, x)), "12.2.4", output=("pbdv", 0)),
    "pbdv_dp": Row("v x", lambda f, v, x: (None, (x * x / 4 - v - 0.5) * fn.pbdv_d(v, x)), "12.2.4",
                   output=("pbdv", 1)),
    "pbvv_v":  Row("v x", lambda f, v, x: (None, fn.pbvv_vp(v, x)), "12.2.2", output=("pbvv", 0)),
    "pbvv_vp": Row("v x", lambda f, v, x: (None, (x * x / 4 - v - 0.5) * fn.pbvv_v(v, x)), "12.2.2",
                   output=("pbvv", 1)),
    "pbwa_w":  Row("a x", lambda f, a, x: (None, fn.pbwa_wp(a, x)), "12.14.1", output=("pbwa", 0)),
    "pbwa_wp": Row("a x", lambda f, a, x: (None, (a - x * x / 4) * fn.pbwa_w(a, x)), "12.14.1",
                   output=("pbwa", 1)),
})
# fmt: on
