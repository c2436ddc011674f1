"""Functions of matrices: exponentials, logarithms, roots, powers and what is made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.tensor import Tensor, bind, is_tracked
from fgrad.extend.engine import ComplexResultError, convert, imag, named, real, systems
from fgrad.numpy import linalg
from fgrad.scipy.linalg import arguments


def _function(name: str, a: Any, exponent: float = 0.0) -> Any:
    """Return a function of matrices; of real ones a complex one where that is what it is."""
    a = arguments.square(a)
    params = {"function": name, "exponent": exponent}
    try:
        return bind("matrix_function", a, **params, to_complex=False)
    except ComplexResultError:
        return bind("matrix_function", a, **params, to_complex=True)


def expm(A: Any) -> Any:  # noqa: N803 -- SciPy's name
    """Return the exponential of square matrices.

    Derivative:
        By scaling and squaring, differentiated: Al-Mohy & Higham (2009), SIAM J. Matrix Anal. Appl. 30; of
        higher order by block matrices: Higham (2008), Functions of Matrices, theorem 3.6.

    Example:
        >>> import fgrad
        >>> fgrad.grad(lambda t: expm(t * np.array([[0.0, 1.0], [-1.0, 0.0]]))[0, 1])(0.5)  # cos(t)
        np.float64(0.87758256189)
    """
    return _function("expm", A)


def expm_frechet(
    A: Any,  # noqa: N803 -- SciPy's names
    E: Any,  # noqa: N803
    method: str | None = None,
    compute_expm: bool = True,
    check_finite: bool = True,
) -> Any:
    """Return the exponential of `A` and its derivative along `E`, or without `compute_expm` that alone.

    Args:
        A: square matrices.
        E: directions, of the same shape.
        method: taken for SciPy's sake: the derivative is that of scaling and squaring ("SPS").
        compute_expm: whether to return the exponential too.
        check_finite: whether infinities and NaNs that can be seen are an error.

    Derivative:
        By the same rule once more: Higham (2008), theorem 3.6.
    """
    if method not in {None, "SPS", "blockEnlarge"}:
        raise ValueError(f"Unknown implementation {method}")
    a, e = arguments.stacked(*(arguments.square(x, check_finite=check_finite) for x in (A, E)))
    if a.shape != e.shape:
        raise ValueError("expected A and E to be the same shape")
    along = bind("frechet", a, e)
    return (expm(a), along) if compute_expm else along


def logm(A: Any) -> Any:  # noqa: N803 -- SciPy's name
    """Return the principal logarithm of square matrices.

    Real matrices have a complex logarithm where eigenvalues are negative. Inside jit, where values are not
    known, that is an error at run time.

    Raises:
        LinAlgError: it is differentiated at a singular matrix.

    Derivative:
        By roots and Gauss's quadrature: Al-Mohy, Higham & Relton (2013), SIAM J. Sci. Comput. 35.
    """
    return _function("logm", A)


def sqrtm(A: Any) -> Any:  # noqa: N803 -- SciPy's name
    """Return the principal square root of square matrices; complex ones as in `logm`.

    Raises:
        LinAlgError: it is differentiated at a matrix that is singular to rounding.

    Derivative:
        The solution l of r l + l r = ct: Higham (2008), (6.1).
    """
    return _function("sqrtm", A)


def fractional_matrix_power(A: Any, t: Any) -> Any:  # noqa: N803 -- SciPy's name
    """Return real powers of square matrices; complex ones as in `logm`.

    Args:
        A: square matrices.
        t: the exponent; while it is differentiated, mapped or traced, the power is expm(t logm(A)).

    Raises:
        LinAlgError: it is differentiated at a singular matrix and t is not whole.

    Derivative:
        By that of expm(t logm(A)).
    """
    a = arguments.square(A)
    if isinstance(t, Tensor) and (is_tracked(t) or not arguments.is_visible(t)):
        return expm(t * logm(a))
    t = float(arguments.plain(t))
    if t == int(t):
        return linalg.matrix_power(a, int(t))
    return _function("power", a, float(t))


# ---- trigonometric and hyperbolic functions


def _halves(a: Any) -> tuple[Any, Any]:
    """Return the sum and the difference of exp(a) and exp(-a), halved."""
    p, m = expm(a), expm(-a)
    return (p + m) / 2, (p - m) / 2


def _circular(a: Any) -> tuple[Any, Any]:
    """Return cosine and sine."""
    if a.dtype.kind == "c":
        cosine, turned = _halves(a * 1j)
        return cosine, turned * -1j
    turned = expm(convert(a, np.result_type(a.dtype, np.complex64)) * 1j)
    return real(turned), imag(turned)


def _by_exponentials(name: str, word: str, parts: Callable[..., Any], of: Callable[..., Any]) -> Any:
    """Return SciPy's function `name`, which is made of the cosine and sine of one kind."""

    @named(name, f"Return the {word} of square matrices, by the exponential.")
    def function(A: Any) -> Any:  # noqa: N803 -- SciPy's name
        return of(*parts(arguments.square(A)))

    return function


cosm: Callable[[Any], Any] = _by_exponentials("cosm", "cosine", _circular, lambda c, s: c)
sinm: Callable[[Any], Any] = _by_exponentials("sinm", "sine", _circular, lambda c, s: s)
tanm: Callable[[Any], Any] = _by_exponentials("tanm", "tangent", _circular, systems.solve)
coshm: Callable[[Any], Any] = _by_exponentials("coshm", "hyperbolic cosine", _halves, lambda c, s: c)
sinhm: Callable[[Any], Any] = _by_exponentials("sinhm", "hyperbolic sine", _halves, lambda c, s: s)
tanhm: Callable[[Any], Any] = _by_exponentials("tanhm", "hyperbolic tangent", _halves, systems.solve)
