"""Matrix equations of Sylvester, Lyapunov and Riccati."""

from __future__ import annotations

from typing import Any

from fgrad.core.dispatch import bind
from fgrad.docstrings import completes
from fgrad.extend.engine import discrete_lyapunov, matrices, systems
from fgrad.scipy.linalg import arguments


def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """Return the solution x of a x + x b = q.

    Args:
        a: matrices (..., m, m).
        b: matrices (..., n, n).
        q: matrices (..., m, n).

    Returns:
        Matrices (..., m, n), whose leading axes are those to which all three broadcast; floats or complex
        numbers, integers give float64.

    Raises:
        LinAlgError: an eigenvalue of `a` is one of `-b`.
        ValueError: incompatible shapes.

    Derivative:
        y with a^T y + y b^T = ct in q, -y x^T in a, -x^T y in b: differentiate the equation.

    Source:
        Bartels & Stewart (1972), Comm. ACM 15; Higham (2008), Functions of Matrices, B.14.

    Example:
        >>> solve_sylvester([[1.0]], [[3.0]], [[8.0]])
        array([[2.]])
        >>> fg.grad(lambda a: solve_sylvester([[a]], [[3.0]], [[8.0]])[0, 0])(1.0)  # -q / (a + b)^2
        np.float64(-0.5)
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
    """Return the solution x of a x + x a^H = q.

    Args:
        a: matrices (..., n, n).
        q: matrices of the same shape.

    Returns:
        Matrices (..., n, n), Hermitian if `q` is; floats or complex numbers, integers give float64.

    Raises:
        LinAlgError: an eigenvalue of `a` is one of -a^H.
        ValueError: incompatible shapes.

    Derivative:
        That of `solve_sylvester`, in `a` and `q`: both are taken as they are, and no symmetry is assumed.

    Example:
        >>> solve_continuous_lyapunov([[2.0]], [[8.0]])
        array([[2.]])
        >>> fg.grad(lambda a: solve_continuous_lyapunov([[a]], [[8.0]])[0, 0])(2.0)  # -q / (2 a^2)
        np.float64(-1.0)
    """
    a, q = _pair(a, q, "solve_continuous_lyapunov")
    return bind("sylvester", a, matrices.adjoint(a), q)


def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> Any:
    """Return the solution x of a x a^H - x + q = 0.

    Args:
        a: matrices (..., n, n).
        q: matrices of the same shape.
        method: "direct" (one system of n^2 unknowns), or "bilinear" (a Sylvester equation); None: direct for
            n < 10.

    Returns:
        Matrices (..., n, n); floats or complex numbers, integers give float64.

    Raises:
        LinAlgError: the equation is singular: the product of two eigenvalues is one.
        ValueError: another method, or incompatible shapes.

    Derivative:
        That of `solve`, or of `solve_sylvester`, in `a` and `q`; no symmetry is assumed.

    Source:
        Gajic & Qureshi (1995), Lyapunov Matrix Equation in System Stability and Control.

    Example:
        >>> solve_discrete_lyapunov([[0.5]], [[3.0]])
        array([[4.]])
        >>> fg.grad(lambda a: solve_discrete_lyapunov([[a]], [[3.0]])[0, 0])(0.5)  # 2 a q / (1 - a^2)^2
        np.float64(5.3333333333)
    """
    a, q = _pair(a, q, "solve_discrete_lyapunov")
    if method not in {None, "direct", "bilinear"}:
        raise ValueError(f"Unknown solver {method}: give 'direct' or 'bilinear'")
    return discrete_lyapunov(a, q, method)


# ---- Riccati


_stabilizing = completes(
    {
        "a": "matrices (..., m, m).",
        "b": "matrices (..., m, n).",
        "q": "Hermitian matrices (..., m, m); of others the Hermitian part counts.",
        "r": "regular Hermitian matrices (..., n, n), likewise.",
        "e": "not supported.",
        "s": "matrices (..., m, n); None: zeros.",
        "balanced": "taken for SciPy's sake.",
    },
    Returns="Hermitian matrices (..., m, m); floats or complex numbers, integers give float64.",
    Raises="""LinAlgError: there is no such solution.
    NotImplementedError: `e` is given.
    ValueError: incompatible shapes.""",
)


@_stabilizing
def solve_continuous_are(
    a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True
) -> Any:
    """Return the stabilizing solution x of a^H x + x a - (x b + s) r^-1 (b^H x + s^H) + q = 0.

    Derivative:
        By Lyapunov's equation: Kao & Hennequin (2020), arXiv:2011.11430. In a, b, q, r and s; those of q and
        r are Hermitian, as only that part counts.

    Differences from SciPy:
        Generalized equations, with `e`, are not supported; q and r that are not Hermitian are no error.

    Example:
        >>> solve_continuous_are([[0.0]], [[1.0]], [[4.0]], [[1.0]])
        array([[2.]])
        >>> fg.grad(lambda q: solve_continuous_are([[0.0]], [[1.0]], [[q]], [[1.0]])[0, 0])(4.0)  # of sqrt(q)
        np.float64(0.25)
    """
    return _riccati(a, b, q, r, e, s, discrete=False)


@_stabilizing
def solve_discrete_are(
    a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True
) -> Any:
    """Return the stabilizing x of x = a^H x a - (a^H x b + s) (r + b^H x b)^-1 (b^H x a + s^H) + q.

    Derivative:
        By Stein's equation, as that of `solve_continuous_are` by Lyapunov's.

    Differences from SciPy:
        Those of `solve_continuous_are`.

    Example:
        >>> solve_discrete_are([[0.0]], [[1.0]], [[4.0]], [[1.0]])
        array([[4.]])
        >>> fg.grad(lambda q: solve_discrete_are([[0.0]], [[1.0]], [[q]], [[1.0]])[0, 0])(4.0)  # x is q
        np.float64(1.0)
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
        r = (r + matrices.adjoint(r)) / 2
        gain = systems.solve(r, matrices.adjoint(s))
        a, q = a - matrices.matrix_product(b, gain), q - matrices.matrix_product(s, gain)
    return bind("riccati", a, b, q, r, discrete=discrete)
