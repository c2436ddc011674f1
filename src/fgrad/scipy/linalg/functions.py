"""Functions of matrices: exponentials, logarithms, roots, powers and what is made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.dispatch import bind
from fgrad.core.tensor import Tensor, is_tracked
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

    Args:
        A: square matrices (..., n, n).

    Returns:
        Matrices of the same shape; floats or complex numbers, integers give float64.

    Raises:
        ValueError: matrices are not square.

    Derivative:
        By scaling and squaring, differentiated: Al-Mohy & Higham (2009), SIAM J. Matrix Anal. Appl. 30; of
        higher order by block matrices: Higham (2008), Functions of Matrices, theorem 3.6.

    Example:
        >>> turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
        >>> expm(np.pi * turn).round(6) + 0.0
        array([[-1.,  0.],
               [ 0., -1.]])
        >>> fg.grad(lambda t: expm(t * turn)[0, 1])(0.5)  # cos(t)
        np.float64(0.8775825619)
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

    Returns:
        Two arrays of the shape of `A`, or one; floats or complex numbers.

    Raises:
        ValueError: matrices that are not square, or of other shapes, or an unknown method.

    Derivative:
        In `A` and `E`, by the same rule once more: Higham (2008), theorem 3.6.

    Example:
        >>> expm_frechet(np.zeros((2, 2)), np.eye(2), compute_expm=False)
        array([[1., 0.],
               [0., 1.]])
        >>> fg.grad(lambda e: expm_frechet(np.zeros((2, 2)), e)[1].sum())(np.eye(2))
        array([[1., 1.],
               [1., 1.]])
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

    Args:
        A: square matrices (..., n, n).

    Returns:
        Matrices of the same shape; floats or complex numbers.

    Raises:
        LinAlgError: it is differentiated at a singular matrix.

    Derivative:
        By roots and Gauss's quadrature: Al-Mohy, Higham & Relton (2013), SIAM J. Sci. Comput. 35. At negative
        eigenvalues that of the branch of the value.

    Example:
        >>> logm(np.diag([1.0, np.e])).round(6) + 0.0
        array([[0., 0.],
               [0., 1.]])
        >>> fg.grad(lambda x: logm(np.eye(2) * x)[0, 0])(4.0)
        np.float64(0.25)
    """
    return _function("logm", A)


def sqrtm(A: Any) -> Any:  # noqa: N803 -- SciPy's name
    """Return the principal square root of square matrices; complex ones as in `logm`.

    Args:
        A: square matrices (..., n, n).

    Returns:
        Matrices of the same shape; floats or complex numbers.

    Raises:
        LinAlgError: it is differentiated at a matrix that is singular to rounding.

    Derivative:
        The solution l of r l + l r = ct: Higham (2008), (6.1). At negative eigenvalues that of the branch of
        the value.

    Example:
        >>> sqrtm(np.array([[4.0, 0.0], [0.0, 9.0]]))
        array([[2., 0.],
               [0., 3.]])
        >>> fg.grad(lambda x: sqrtm(np.eye(2) * x)[0, 0])(4.0)
        np.float64(0.25)
    """
    return _function("sqrtm", A)


def fractional_matrix_power(A: Any, t: Any) -> Any:  # noqa: N803 -- SciPy's name
    """Return real powers of square matrices; complex ones as in `logm`.

    Args:
        A: square matrices.
        t: the exponent; while it is differentiated, mapped or traced, the power is expm(t logm(A)).

    Returns:
        Matrices of the shape of `A`; floats or complex numbers.

    Raises:
        LinAlgError: it is differentiated at a singular matrix and t is not whole.

    Derivative:
        In `A` and `t`, by that of expm(t logm(A)); of whole powers by products.

    Example:
        >>> fractional_matrix_power(np.diag([4.0, 9.0]), 1.5).round(6)
        array([[ 8.,  0.],
               [ 0., 27.]])
        >>> fg.grad(lambda t: fractional_matrix_power(np.diag([4.0, 9.0]), t)[0, 0])(0.5)  # 2 log(4)
        np.float64(2.7725887222)
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


_DOC = """Return the {word} of square matrices, by the exponential.

Args:
    A: square matrices (..., n, n).

Returns:
    Matrices of the same shape; floats or complex numbers, integers give float64.

Raises:
    {singular}ValueError: matrices are not square.

Derivative:
    That of `expm`, to every order, for equal eigenvalues and defective matrices too.

Example:
    >>> {name}(0.5 * np.eye(2))[0, 0].round(6)
    np.float64({value})
    >>> fg.grad(lambda x: {name}([[x]])[0, 0])(0.5).round(6)
    np.float64({slope})
"""


def _by_exponentials(
    name: str, word: str, parts: Callable[..., Any], of: Callable[..., Any], value: float, slope: float
) -> Any:
    """Return SciPy's function `name`, which is made of the cosine and sine of one kind.

    Args:
        name: the name.
        word: what it is called.
        parts: what returns cosine and sine.
        of: what is made of them.
        value: of 0.5, for the example.
        slope: likewise.
    """
    singular = (
        f"LinAlgError: the {word.replace('tangent', 'cosine')} is singular.\n    "
        if of is systems.solve
        else ""
    )

    @named(name, _DOC.format(name=name, word=word, singular=singular, value=value, slope=slope))
    def function(A: Any) -> Any:  # noqa: N803 -- SciPy's name
        return of(*parts(arguments.square(A)))

    return function


_Function = Callable[[Any], Any]
cosm: _Function = _by_exponentials("cosm", "cosine", _circular, lambda c, s: c, 0.877583, -0.479426)
sinm: _Function = _by_exponentials("sinm", "sine", _circular, lambda c, s: s, 0.479426, 0.877583)
tanm: _Function = _by_exponentials("tanm", "tangent", _circular, systems.solve, 0.546302, 1.298446)
coshm: _Function = _by_exponentials("coshm", "hyperbolic cosine", _halves, lambda c, s: c, 1.127626, 0.521095)
sinhm: _Function = _by_exponentials("sinhm", "hyperbolic sine", _halves, lambda c, s: s, 0.521095, 1.127626)
tanhm: _Function = _by_exponentials("tanhm", "hyperbolic tangent", _halves, systems.solve, 0.462117, 0.786448)
