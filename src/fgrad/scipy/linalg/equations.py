"""Matrix equations of Sylvester, Lyapunov and Riccati."""

from __future__ import annotations

from typing import Any

from fgrad.core.tensor import bind
from fgrad.extend.engine import discrete_lyapunov, matrices, systems
from fgrad.scipy.linalg import arguments


def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """Return the solution x of a x + x b = q.

    Args:
        a: matrices (..., m, m).
        b: matrices (..., n, n).
        q: matrices (..., m, n).

    Raises:
        LinAlgError: an eigenvalue of `a` is one of `-b`.
        ValueError: incompatible shapes.

    Derivative:
        y with a^T y + y b^T = ct in q, -y x^T in a, -x^T y in b: differentiate the equation.

    Source:
        Bartels & Stewart (1972), Comm. ACM 15; Higham (2008), Functions of Matrices, B.14.
    """
    a, b, q = arguments.stacked(arguments.square(a), arguments.square(b), arguments.matrices(q))
    if q.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise ValueError(
            f"solve_sylvester: q of {tuple(q.shape)} is incompatible with a of {tuple(a.shape)} and b of "
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
    return bind("sylvester", a, matrices.adjoint(a), q)


def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> Any:
    """Return the solution x of a x a^H - x + q = 0.

    Args:
        a: matrices (..., n, n).
        q: matrices of the same shape.
        method: "direct" (one system of n^2 unknowns), or "bilinear" (a Sylvester equation); None: direct for
            n < 10.

    Raises:
        LinAlgError: the equation is singular: the product of two eigenvalues is one.
        ValueError: another method, or incompatible shapes.

    Derivative:
        That of `solve`, or of `solve_sylvester`.

    Source:
        Gajic & Qureshi (1995), Lyapunov Matrix Equation in System Stability and Control.
    """
    a, q = _pair(a, q, "solve_discrete_lyapunov")
    if method not in {None, "direct", "bilinear"}:
        raise ValueError(f"Unknown solver {method}: give 'direct' or 'bilinear'")
    return discrete_lyapunov(a, q, method)


# ---- Riccati


def solve_continuous_are(
    a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True
) -> Any:
    """Return the stabilizing solution x of a^H x + x a - (x b + s) r^-1 (b^H x + s^H) + q = 0.

    Args:
        a: matrices (..., m, m).
        b: matrices (..., m, n).
        q: Hermitian matrices (..., m, m); of others the Hermitian part counts.
        r: regular Hermitian matrices (..., n, n), likewise.
        e: not supported.
        s: matrices (..., m, n); None: zeros.
        balanced: taken for SciPy's sake.

    Raises:
        LinAlgError: there is no such solution.
        NotImplementedError: `e` is given.
        ValueError: incompatible shapes.

    Derivative:
        By Lyapunov's equation: Kao & Hennequin (2020), arXiv:2011.11430.

    Example:
        >>> import fgrad
        >>> fgrad.grad(lambda q: solve_continuous_are([[0.0]], [[1.0]], [[q]], [[1.0]])[0, 0])(4.0)  # sqrt(q)
        np.float64(0.25)
    """
    return _riccati(a, b, q, r, e, s, discrete=False)


def solve_discrete_are(
    a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True
) -> Any:
    """Return the stabilizing x of x = a^H x a - (a^H x b + s) (r + b^H x b)^-1 (b^H x a + s^H) + q.

    Arguments, errors and derivative as of `solve_continuous_are`.
    """
    return _riccati(a, b, q, r, e, s, discrete=True)


def _riccati(a: Any, b: Any, q: Any, r: Any, e: Any, s: Any, *, discrete: bool) -> Any:
    name = "solve_discrete_are" if discrete else "solve_continuous_are"
    if e is not None:
        raise NotImplementedError(f"{name}: `e` is not supported; with e regular, take e^-1 a and e^-1 b")
    a, b, q, r = arguments.stacked(
        arguments.square(a), arguments.matrices(b), arguments.square(q), arguments.square(r)
    )
    if b.shape[-2] != a.shape[-1] or q.shape != a.shape or r.shape[-1] != b.shape[-1]:
        shapes = ", ".join(str(tuple(x.shape)) for x in (a, b, q, r))
        raise ValueError(f"{name}: a, b, q and r of shapes {shapes} are incompatible")
    if s is not None:  # completing the square leaves an equation without it
        (s,) = arguments.stacked(arguments.matrices(s))
        if s.shape[-2:] != b.shape[-2:]:
            raise ValueError(f"{name}: s of {tuple(s.shape)} is incompatible with b of {tuple(b.shape)}")
        _, s = arguments.stacked(b, s)
        gain = systems.solve(r, matrices.adjoint(s))
        a, q = a - matrices.matrix_product(b, gain), q - matrices.matrix_product(s, gain)
    return bind("riccati", a, b, q, r, discrete=discrete)
