"""Integrals of functions by SciPy's adaptive quadrature, differentiable in limits and parameters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.integrate

from fgrad import numpy as fnp
from fgrad.core.aval import Aval
from fgrad.core.tensor import Tensor
from fgrad.core.trace import running
from fgrad.extend.engine import OpaqueRule, apply_opaque
from fgrad.scipy.closures import Closed, Parametrised
from fgrad.scipy.results import is_plain
from fgrad.scipy.vectors import Vector, array, as_float, flat_values
from fgrad.transforms.calling import name_of, plain
from fgrad.transforms.reverse import vjp

FLOAT = np.dtype(np.float64)
Integrand = Callable[..., Any]  # of parameters, other values and x


class _Integral(OpaqueRule):
    """The integral of a vector, and SciPy's estimate of its error, of limits, parameters and other values.

    Its derivative in the parameters is the integral of the derivative, which is one of these again.
    """

    name = "quad"

    def __init__(self, integrand: Integrand, size: int, options: dict[str, Any]) -> None:
        self.integrand, self.size, self.options = integrand, size, options
        self.outs = (Aval((size,), FLOAT), Aval((), FLOAT))

    def solve(self, values: Sequence[Any]) -> list[Any]:
        """Return the integral and its error for arrays."""
        a, b, parameters, *others = values
        with running(()):
            f = lambda x: array(self.integrand(parameters, others, np.float64(x)))  # noqa: E731
            found, error = integral(f, float(a), float(b), self.size, self.options)
        return [found, np.array(error)]

    def backward(self, *cts: Any) -> Sequence[Any]:
        """Return the cotangents of limits and parameters."""
        ct, (a, b, parameters, *others) = cts[0], self.values
        wanted = self.wanted or (True,) * 3
        back: list[Any] = [None] * len(self.values)
        if ct is None:
            return back
        for i, limit, sign in ((0, a, -1.0), (1, b, 1.0)):
            if wanted[i]:
                finite = fnp.isfinite(limit)
                value = self.integrand(parameters, others, fnp.where(finite, limit, 0.0))
                back[i] = sign * fnp.where(finite, fnp.sum(ct * value), 0.0)
        count = parameters.shape[0]
        if wanted[2] and count:
            derived = _Integral(_pulled(self.integrand, count), count, self.options)
            given = [a, b, fnp.concatenate([parameters, ct]), *others]
            back[2] = apply_opaque(derived, given)[0]
        return back


def _pulled(integrand: Integrand, count: int) -> Integrand:
    """Return the derivative of an integrand times a cotangent, which is joined to its parameters."""

    def pulled(both: Any, others: Sequence[Any], x: Any) -> Any:
        _, pullback = vjp(lambda p: integrand(p, others, x), both[:count])
        return pullback(both[count:])[0]

    return pulled


def integral(
    f: Callable[[float], Any], a: float, b: float, size: int, options: dict[str, Any]
) -> tuple[Any, float]:
    """Return the integral of a vector-valued function and the estimate of its error."""
    if not size:
        return np.zeros(0), 0.0
    if "norm" not in options:  # of quad
        if size == 1:
            value, error = scipy.integrate.quad(lambda x: float(f(x)[0]), a, b, **options)
            return np.array([value]), error
        options = options | {"limit": max(options["limit"], 1000)}  # intervals for all elements together
    value, error, info = scipy.integrate.quad_vec(f, a, b, full_output=True, **options)
    if not info.success:
        warnings.warn(info.message, scipy.integrate.IntegrationWarning, stacklevel=2)
    return value, error


def _integrated(
    func: Callable[..., Any], a: Any, b: Any, args: Any, options: dict[str, Any], *, scalar: bool
) -> tuple[Any, Any]:
    args = args if isinstance(args, tuple) else (args,)
    seen: list[Vector] = []

    def flat(x: Any) -> list[Any]:
        value = func(x, *args)
        seen.append(Vector(value, f"the value of {name_of(func)}"))
        return [flat_values(value, seen[-1].what)]

    closed = Closed(flat, [Aval((), FLOAT)])
    if not seen:
        flat(np.float64(_inside(a, b)))
    vector = seen[0]
    if scalar and (vector.size != 1 or vector.avals[0].dtype.kind == "c"):
        raise TypeError(
            f"quad integrates real numbers, but {name_of(func)} returns {vector.avals}; "
            "quad_vec integrates any pytree, also of complex numbers"
        )
    integrand = Parametrised(closed)
    limits = [as_float(x) if isinstance(x, Tensor) else np.array(x, float) for x in (a, b)]
    values = [*limits, integrand.parameters, *integrand.others]
    rule = _Integral(integrand, vector.size, options)
    found, error = apply_opaque(rule, values)
    return vector.restore(found), plain(error)


def _inside(a: Any, b: Any) -> float:
    """Return a point at which an integrand is defined."""
    low, high = (float(array(x)) if is_plain([x]) else 0.0 for x in (a, b))
    if np.isfinite(low) and np.isfinite(high):
        return low + 0.37 * (high - low)
    return low + 1.0 if np.isfinite(low) else high - 1.0 if np.isfinite(high) else 0.1


def quad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    *,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
    points: Sequence[float] | None = None,
) -> tuple[Any, Any]:
    """Return the integral of a function of one number from `a` to `b`, and an estimate of its error.

    Args:
        func: `func(x, *args)` returns a real number; may use Tensors from a closure. Where the result is
            differentiated, mapped or jitted, `func` is traced with abstract arrays: it chooses by `where` and
            `lax.cond`.
        a: lower limit, may be infinite.
        b: upper limit, likewise.
        args: further arguments, pytrees; a single one need not be in a tuple.
        epsabs: absolute tolerance, of derivatives too.
        epsrel: relative tolerance, likewise.
        limit: how many intervals at most.
        points: where func is not smooth.

    Returns:
        `(integral, error)`.

    Raises:
        TypeError: `func` returns no real number.

    Derivative:
        Of every order: in the limits by the integrand there (0 in an infinite one), in all Tensors that
        `func` uses by integrals of derivatives.

    Differences from SciPy:
        No `full_output`, `weight` and `complex_func`; `quad_vec` integrates complex numbers.

    Example:
        >>> import fgrad
        >>> fgrad.grad(lambda k: quad(lambda x: np.exp(-k * x), 0.0, np.inf)[0])(2.0)  # -1 / k**2
        np.float64(-0.25)
    """
    options: dict[str, Any] = {"epsabs": epsabs, "epsrel": epsrel, "limit": limit, "points": points}
    return _integrated(func, a, b, args, options, scalar=True)


def quad_vec(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    epsabs: float = 1e-200,
    epsrel: float = 1e-8,
    norm: str = "2",
    limit: int = 10000,
    quadrature: str | None = None,
    points: Sequence[float] | None = None,
    *,
    args: Any = (),
) -> tuple[Any, Any]:
    """Return the integral of a function of one number that returns a pytree, and an estimate of its error.

    Args:
        f: `f(x, *args)` returns a pytree of numbers and arrays, real or complex; otherwise as in `quad`.
        a: lower limit, may be infinite.
        b: upper limit, likewise.
        epsabs: absolute tolerance, of derivatives too.
        epsrel: relative tolerance, likewise.
        norm: "2" or "max", by which errors are measured.
        limit: how many intervals at most.
        quadrature: as in SciPy.
        points: where f is not smooth.
        args: further arguments, pytrees.

    Returns:
        `(integral, error)`, the integral like what f returns.

    Raises:
        TypeError: a leaf of what `f` returns is no number.

    Derivative:
        As in `quad`.

    Differences from SciPy:
        No `full_output`, `workers` and `cache_size`.

    Example:
        >>> import fgrad
        >>> powers = lambda b: quad_vec(lambda x: np.stack([x, x * x]), 0.0, b)[0]
        >>> fgrad.jacfwd(powers)(2.0)
        array([2., 4.])
    """
    options: dict[str, Any] = {"epsabs": epsabs, "epsrel": epsrel, "limit": limit, "points": points}
    options |= {"norm": norm, "quadrature": quadrature}
    return _integrated(f, a, b, args, options, scalar=False)


def fixed_quad(
    func: Callable[..., Any], a: Any, b: Any, args: tuple[Any, ...] = (), n: int = 5
) -> tuple[Any, None]:
    """Return the integral of `func` from `a` to `b` by Gauss-Legendre quadrature of order `n`, and None.

    Args:
        func: `func(x, *args)` takes an array of points and returns the values, these on the last axis.
        a: lower limit.
        b: upper limit.
        args: further arguments.
        n: the number of points.

    Returns:
        `(integral, None)`, the integral of the shape and dtype of the values without the last axis.

    Raises:
        ValueError: a limit is infinite.

    Derivative:
        That of the weighted sum.

    Example:
        >>> fixed_quad(lambda x: x**8, 0.0, 1.0)[0]
        np.float64(0.11111)
    """
    places, weights = np.polynomial.legendre.leggauss(n)
    if any(is_plain([x]) and np.isinf(array(x)) for x in (a, b)):
        raise ValueError("fixed_quad takes finite limits; use quad for infinite ones")
    y = (b - a) * (places + 1) / 2.0 + a
    return (b - a) / 2.0 * fnp.sum(weights * func(y, *args), axis=-1), None
