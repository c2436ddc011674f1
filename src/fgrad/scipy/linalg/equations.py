"""Matrix equations of Sylvester and Lyapunov."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.tensor import bind
from fgrad.ops import factorization as rows
from fgrad.ops.linear import reshape
from fgrad.scipy.linalg import arguments


def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """Return the solution x of a x + x b = q.

    Args:
        a: matrices (..., m, m).
        b: matrices (..., n, n).
        q: matrices (..., m, n).

    Raises:
        LinAlgError: an eigenvalue of `a` is one of `-b`.
        ValueError: shapes that do not fit.

    Derivative:
        y with a^T y + y b^T = ct in q, -y x^T in a, -x^T y in b: differentiate the equation.

    Source:
        Bartels & Stewart (1972), Comm. ACM 15; Higham (2008), Functions of Matrices, B.14.
    """
    a, b, q = arguments.stacked(arguments.square(a), arguments.square(b), arguments.matrices(q))
    if q.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise ValueError(
            f"solve_sylvester: q of shape {tuple(q.shape)} does not fit a of {tuple(a.shape)} and b of "
            f"{tuple(b.shape)}"
        )
    return bind("sylvester", a, b, q)


def _pair(a: Any, q: Any, name: str) -> list[Any]:
    a, q = arguments.stacked(arguments.square(a), arguments.square(q))
    if a.shape != q.shape:
        raise ValueError(f"{name}: matrix a and q should have the same shape, not {a.shape} and {q.shape}")
    return [a, q]


def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """Return the solution x of a x + x a^H = q; derivative and errors as of `solve_sylvester`."""
    a, q = _pair(a, q, "solve_continuous_lyapunov")
    return bind("sylvester", a, rows.adjoint(a), q)


def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> Any:
    """Return the solution x of a x a^H - x + q = 0.

    Args:
        a: matrices (..., n, n).
        q: matrices of the same shape.
        method: "direct" (one system of n^2 unknowns), or "bilinear" (a Sylvester equation); None: direct for
            n < 10.

    Raises:
        LinAlgError: the equation is singular: the product of two eigenvalues is one.
        ValueError: another method, or shapes that do not fit.

    Derivative:
        That of `solve`, or of `solve_sylvester`.

    Source:
        Gajic & Qureshi (1995), Lyapunov Matrix Equation in System Stability and Control.
    """
    a, q = _pair(a, q, "solve_discrete_lyapunov")
    n = a.shape[-1]
    if method is None:
        method = "bilinear" if n >= 10 else "direct"
    if method not in {"direct", "bilinear"}:
        raise ValueError(f"Unknown solver {method}: give 'direct' or 'bilinear'")
    one = np.eye(n, dtype=a.dtype)
    if method == "direct":
        lead = a.shape[:-2]
        twice = reshape(a, (*lead, n, 1, n, 1)) * reshape(rows.conjugate(a), (*lead, 1, n, 1, n))
        system = np.eye(n * n, dtype=a.dtype) - reshape(twice, (*lead, n * n, n * n))
        return reshape(rows.solve(system, reshape(q, (*lead, n * n, 1))), a.shape)
    h = rows.adjoint(a)
    inverse = rows.inverse(h + one)
    b = rows.matrix_product(h - one, inverse)
    c = rows.matrix_product(rows.matrix_product(2 * rows.inverse(a + one), q), inverse)
    return bind("sylvester", rows.adjoint(b), b, -c)
