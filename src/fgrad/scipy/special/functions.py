"""What SciPy's special functions offer beside universal functions, with its signatures."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np
from scipy import special

from fgrad import nn
from fgrad.compat.scipy import hidden_ufunc, hidden_ufuncs_are_found
from fgrad.core.dispatch import bind
from fgrad.core.primitive import NUMPY, Written
from fgrad.extend.engine import (
    Expr,
    as_array,
    as_value,
    call,
    convert,
    elsewhere,
    fn,
    for_tensors,
    holds_tensor,
    named,
    operand,
    trusted,
)
from fgrad.scipy.special.primitives import Row, declare, hidden, integers, loops_alone, whole

__all__ = [
    "lambertw",
    "log_softmax",
    "logsumexp",
    "multigammaln",
    "polygamma",
    "softmax",
    "spherical_in",
    "spherical_jn",
    "spherical_kn",
    "spherical_yn",
    "zeta",
]


_SPHERICAL = {  # g'(z) (2 n + 1) = a n g(n - 1, z) + b (n + 1) g(n + 1, z): 10.51.1, 10.51.4
    "spherical_jn": (1, -1),
    "spherical_yn": (1, -1),
    "spherical_in": (1, 1),
    "spherical_kn": (-1, -1),
}


def _derivative(name: str, g: Any, n: Any, below: Any, z: Any) -> Any:
    """Return the derivative of order n, by g(n, z); `below` is n - 1, or zero."""
    a, b = _SPHERICAL[name]
    return (a * n * g(below, z) + b * (n + 1) * g(n + 1, z)) / (2 * n + 1)


def _spherical_row(name: str) -> Row:
    def slopes(f: Expr, n: Expr, z: Expr) -> tuple[None, Expr]:
        return None, _derivative(name, call(name), n, fn.maximum(n - 1, 0), z)

    theirs = getattr(special, name)
    run = elsewhere(lambda n, z: theirs(integers(n), z), functools.partial(_spherical_there, name))
    written = Written(_spherical_written(name)) if hidden_ufuncs_are_found() else None
    return Row("n z", slopes, "10.51.1, 10.51.4", complex=True, run=run, written=written)


def _spherical_there(name: str, n: Any, z: Any) -> Any:
    """Return the function on a device, real negative arguments by reflection, 10.47(v)."""
    ufunc, n, z = hidden_ufunc(name), integers(n), as_array(z)
    if z.dtype.kind == "c":
        return ufunc(n, z)
    kind = getattr(special, name)(1, np.ones(1, z.dtype)).dtype  # SciPy's functions widen single precision
    if name == "spherical_kn":
        return np.where(z < 0, ufunc(n, z + 0j).real, ufunc(n, z)).astype(kind)
    size, is_odd = ufunc(n, np.absolute(z)), np.remainder(n + (name == "spherical_yn"), 2) == 1
    return np.where((z < 0) & is_odd, -size, size).astype(kind)


def _spherical_written(name: str) -> Any:
    """Return how compiled programs compute the function: as on a device, of orders that are integers."""
    loop = loops_alone(name, hidden_ufunc(name))

    def written(n: Any, z: Any) -> Any:
        order, lost = whole(n)
        z = as_value(z)
        if z.dtype.kind == "c":
            found = loop(order, z)
        elif name == "spherical_kn":
            found = np.where(z < 0, loop(order, z + 0j).real, loop(order, z))
        else:
            is_odd = np.remainder(order + (name == "spherical_yn"), 2) == 1
            size = loop(order, np.absolute(z))
            found = np.where((z < 0) & is_odd, -size, size)
        return found if lost is None else trusted(found, order == n)

    return written


declare({name: _spherical_row(name) for name in _SPHERICAL})
declare(
    {
        "lambertw": Row(
            "z k",
            lambda f, z, k: (fn.exp(-f) / (1 + f), None),
            "4.13.4",
            complex=True,
            run=lambda z, k: special.lambertw(z, integers(k)),
            loops=hidden("lambertw", constants=(1e-8,)),
        )
    }
)


_SPHERICAL_DOC = """Return the {word} kind, of whole orders, or its derivative.

Args:
    n: integers >= 0: the orders.
    z: real or complex array.
    derivative: whether to return the derivative in `z`.

Returns:
    Array of the shape to which both broadcast; float64, complex128 of complex `z`.

Raises:
    TypeError: `n` is differentiated.
    ValueError: `n` of Tensors is not whole.

Derivative:
    In `z`, to every order: sections 10.51.1 and 10.51.4 of dlmf.nist.gov. None is known in `n`.

Example:
    >>> fg.scipy.special.{name}(1, 0.5)
    np.float64({value})
    >>> fg.grad(lambda z: fg.scipy.special.{name}(1, z))(0.5)
    np.float64({slope})
"""


def _spherical_function(name: str, word: str, value: float, slope: float) -> Any:
    @named(name, _SPHERICAL_DOC.format(name=name, word=word, value=value, slope=slope))
    def function(n: Any, z: Any, derivative: Any = False) -> Any:
        if not holds_tensor((n, z)):
            return getattr(special, name)(n, z, derivative)
        n, z = operand(n), operand(z)
        g = functools.partial(bind, name)
        return _derivative(name, g, n, np.maximum(n - 1, 0), z) if derivative else g(n, z)

    return function


spherical_jn: Any = _spherical_function(
    "spherical_jn", "spherical Bessel function of the first", 0.162537, 0.308703
)
spherical_yn: Any = _spherical_function(
    "spherical_yn", "spherical Bessel function of the second", -4.469181, 16.12156
)
spherical_in: Any = _spherical_function(
    "spherical_in", "modified spherical Bessel function of the first", 0.170871, 0.358708
)
spherical_kn: Any = _spherical_function(
    "spherical_kn", "modified spherical Bessel function of the second", 5.716417, -24.771139
)


@for_tensors(special.lambertw)
def lambertw(z: Any, k: Any = 0, tol: float = 1e-8) -> Any:
    """Return the complex solution w of w exp(w) = z on a branch.

    Args:
        z: real or complex array.
        k: integers: the branch.
        tol: taken for SciPy's sake where `z` is a Tensor; of arrays SciPy's tolerance.

    Returns:
        Array of the shape to which `z` and `k` broadcast, complex128.

    Raises:
        TypeError: `k` is differentiated.
        ValueError: `k` of Tensors is not whole.

    Derivative:
        In `z`: exp(-w) / (1 + w), section 4.13.4 of dlmf.nist.gov; infinite at the branch point -1 / e.

    Example:
        >>> lambertw(1.0).round(6)
        np.complex128(0.567143+0j)
        >>> fg.grad(lambda z: lambertw(z).real)(1.0)
        np.float64(0.3618962566)
    """
    return bind("lambertw", operand(z), operand(k))


@for_tensors(special.zeta)
def zeta(x: Any, q: Any = None) -> Any:
    """Return Hurwitz's zeta function, the sum of (k + q)**-x over k >= 0.

    Args:
        x: real array, of numbers above 1: elsewhere NaN, but for Riemann's function.
        q: real array; None: 1, Riemann's zeta function, which goes on to all numbers.

    Returns:
        Array of the shape to which both broadcast; floats.

    Raises:
        TypeError: `x` is differentiated, or a Tensor is complex.

    Derivative:
        In `q`: -x zeta(x + 1, q). None is known in `x`.

    Example:
        >>> zeta(2.0, 1.0)
        np.float64(1.6449340668)
        >>> fg.grad(lambda q: zeta(2.0, q))(1.0)
        np.float64(-2.4041138063)
    """
    given = [operand(v) for v in ((x,) if q is None else (x, q))]
    if any(np.iscomplexobj(v) if not hasattr(v, "dtype") else v.dtype.kind == "c" for v in given):
        raise TypeError("zeta of Tensors: complex numbers are not supported")
    return bind("riemann_zeta" if q is None else "zeta", *given)


@for_tensors(special.polygamma)
def polygamma(n: Any, x: Any) -> Any:
    """Return a derivative of the digamma function.

    Args:
        n: integers >= 0, known ones: the orders; 0 is digamma. Of other orders it is NaN, as in SciPy.
        x: real array.

    Returns:
        Array of the shape to which both broadcast; floats.

    Raises:
        TypeError: `n` is a Tensor that is differentiated, or `x` is complex.

    Derivative:
        In `x`: polygamma(n + 1, x). None in `n`.

    Example:
        >>> float(polygamma(1, 1.0))
        1.6449340668
        >>> fg.grad(lambda x: polygamma(1, x))(1.0)
        np.float64(-2.4041138063)
    """
    n, x = np.asarray(n), operand(x)
    if not n.ndim and n == 1 and x.dtype.kind != "c":
        return bind("trigamma", convert(x, np.dtype(float)))
    is_order = (n >= 0) & (n == np.floor(n))
    order = np.where(is_order & (n > 0), n, 1)
    factor = np.where(is_order, (-1.0) ** (order + 1) * special.gamma(order + 1.0), np.nan)
    higher = factor * bind("zeta", order + 1.0, x)
    return higher if n.all() else bind("where", n == 0, bind("psi", x), higher)


@for_tensors(special.multigammaln)
def multigammaln(a: Any, d: int) -> Any:
    """Return the logarithm of the multivariate gamma function.

    log of pi**(d (d - 1) / 4) times the product of gamma(a - j / 2) over j < d

    Args:
        a: real array, above (d - 1) / 2.
        d: an integer: the dimension.

    Returns:
        Array of the shape of `a`; floats.

    Raises:
        TypeError: `d` is no integer, or `a` a complex Tensor.

    Derivative:
        In `a`: the sum of psi(a - j / 2) over j < d.

    Differences from SciPy:
        Tensors of elements up to (d - 1) / 2 are no error.

    Example:
        >>> multigammaln(2.0, 2)
        np.float64(0.4515827053)
        >>> fg.grad(lambda a: multigammaln(a, 2))(2.0)
        np.float64(0.4592743091)
    """
    d = operator.index(d)
    a = operand(a)
    total = d * (d - 1) / 4 * math.log(math.pi)
    for j in range(d):
        total = total + bind("gammaln", a - j / 2)
    return total


# ---- along axes


def softmax(x: Any, axis: Any = None) -> Any:
    """Return exp(x) over its sum along axes.

    Args:
        x: real array; integers give float64.
        axis: axis or axes; None takes all.

    Returns:
        Array of the shape of `x`; floats that sum to one.

    Raises:
        AxisError: `axis` is not an axis of `x`.

    Derivative:
        y (ct - sum(y ct)) for the result y.

    Example:
        >>> softmax(np.array([0.0, 0.0]))
        array([0.5, 0.5])
        >>> fg.grad(lambda x: softmax(x)[0])(np.zeros(2))
        array([ 0.25, -0.25])
    """
    return nn.softmax(x, axis)


def log_softmax(x: Any, axis: Any = None) -> Any:
    """Return the logarithm of softmax(x), which is finite where softmax underflows.

    Args:
        x: real array; integers give float64.
        axis: axis or axes; None takes all.

    Returns:
        Array of the shape of `x`; floats.

    Raises:
        AxisError: `axis` is not an axis of `x`.

    Derivative:
        ct - softmax(x) sum(ct).

    Example:
        >>> log_softmax(np.array([0.0, 1000.0]))
        array([-1000.,     0.])
        >>> fg.grad(lambda x: log_softmax(x)[0])(np.zeros(2))
        array([ 0.5, -0.5])
    """
    return nn.log_softmax(x, axis)


def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """Return the logarithm of the summed exponentials over axes.

    out = log |sum_i b_i exp(a_i)|

    Args:
        a: array; integers promote to float64.
        axis: axis or axes to reduce; None reduces all.
        b: weights that broadcast with `a`; None: ones.
        keepdims: whether the reduced axes stay with length one.
        return_sign: whether to return the sign of the sum too; without it the result is NaN where a real sum
            is negative, and the principal value of the logarithm of a complex one.

    Returns:
        Array of the dtype of `a`; or a pair of real numbers and the signs, which are numbers of modulus one
        where the sum is complex.

    Raises:
        AxisError: `axis` is not an axis of `a`.

    Derivative:
        b exp(a) / sum(b exp(a)) in `a`, exp(a) / sum(b exp(a)) in `b`; none of the signs of real sums.

    Example:
        >>> float(logsumexp(np.array([0.0, 0.0])))
        0.6931471806
        >>> fg.grad(logsumexp)(np.array([0.0, 0.0]))
        array([0.5, 0.5])
    """
    return nn.logsumexp(a, axis, b, keepdims, return_sign)


def declare_hidden() -> None:
    """Let SciPy's functions of Python that call a hidden ufunc find the rules too."""
    if hidden_ufuncs_are_found():
        NUMPY[hidden_ufunc("zeta")] = zeta
