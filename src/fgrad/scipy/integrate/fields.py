"""Right-hand sides of ordinary differential equations, and those of their derivatives.

A field is dy/dt = f(t, y) with its parameters as arguments of their own, so that the equations of its
sensitivities are fields again, differentiable to every order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad.core.aval import Aval, aval_of
from fgrad.extend import engine
from fgrad.scipy.vectors import array
from fgrad.transforms.forward import jvp
from fgrad.transforms.reverse import jacrev, vjp
from fgrad.transforms.stage import staged

Weights = Callable[[Any, Any], Any]  # of the tolerances of each element, from y0 and the parameters


class Field:
    """The right-hand side `fun(parameters, others, t, y)`, for vectors of `size`.

    Args:
        fun: of arrays and Tensors.
        size: of y.
        count: of the parameters.
        programs: whether it can be staged, so that SciPy calls simplified programs.
        weights: factors of the absolute tolerance of each element.
    """

    fun: Callable[..., Any]
    size: int
    count: int
    programs: bool

    def __init__(
        self,
        fun: Callable[..., Any],
        size: int,
        count: int,
        *,
        programs: bool,
        weights: Weights | None = None,
    ) -> None:
        self.fun, self.size, self.count, self.programs = fun, size, count, programs
        self.weights: Weights = weights or (lambda y0, parameters: np.ones(size))

    def value(self, parameters: Any, others: Sequence[Any]) -> Callable[[Any, Any], Any]:
        """Return the right-hand side of t and y, for arrays."""
        return self._compiled(self.fun, parameters, others)

    def jacobian(self, parameters: Any, others: Sequence[Any]) -> Callable[[Any, Any], Any]:
        """Return the derivative in y as a function of t and y, for arrays."""
        return self._compiled(jacrev(self.fun, 3), parameters, others)

    def slopes(self, parameters: Any, others: Sequence[Any]) -> Callable[[Any, Any], Any]:
        """Return the derivatives in y and in the parameters, beside each other, of t and y, for arrays."""

        def both(p: Any, o: Sequence[Any], t: Any, y: Any) -> Any:
            by_y, by_p = jacrev(self.fun, (3, 0))(p, o, t, y)
            return fnp.concatenate([by_y, by_p], axis=1)

        return self._compiled(both, parameters, others)

    def adjoint(self, parameters: Any, others: Sequence[Any]) -> Callable[[Any, Any, Any], Any]:
        """Return (t, y, ct) -> ct pulled back to y and to the parameters, one vector, for arrays."""

        def back(p: Any, o: Sequence[Any], t: Any, y: Any, ct: Any) -> Any:
            _, pullback = vjp(lambda y, p: self.fun(p, o, t, y), y, p)
            return fnp.concatenate(list(pullback(ct)))

        return self._compiled(back, parameters, others, 2)

    def _compiled(
        self, fun: Callable[..., Any], parameters: Any, others: Sequence[Any], vectors: int = 1
    ) -> Callable[..., Any]:
        if not self.programs:
            return lambda t, *ys: array(fun(parameters, others, t, *ys))
        scalar, vector = Aval((), np.dtype(float)), Aval((self.size,), np.dtype(float))
        avals = [Aval((self.count,), np.dtype(float)), *map(aval_of, others), scalar, *[vector] * vectors]
        k = 1 + len(others)
        run = engine.simplify(staged(lambda *v: [fun(v[0], v[1:k], *v[k:])], avals)[0]).run
        return lambda t, *ys: array(run((parameters, *others, np.asarray(t, float), *ys))[0])


def sensitivity_field(field: Field, *, start: bool) -> tuple[Field, int]:
    """Return the field of y and its derivatives in y0 (if `start`) and the parameters, and their number.

    Its vectors are y, then the matrix of derivatives, row by row.

    Source:
        Hindmarsh & Serban, User Documentation for CVODES, section 2.6 (staggered tolerances: those of a
        derivative are relative to the parameter).
    """
    n, k = field.size, field.count
    columns = (n if start else 0) + k

    def fun(p: Any, o: Sequence[Any], t: Any, z: Any) -> Any:
        y, matrix = z[:n], fnp.reshape(z[n:], (n, columns))
        if not k:
            moved = jacrev(field.fun, 3)(p, o, t, y) @ matrix
        else:
            by_y, by_p = jacrev(field.fun, (3, 0))(p, o, t, y)
            left = [np.zeros((n, n))] if start else []
            moved = by_y @ matrix + fnp.concatenate([*left, by_p], axis=1)
        return fnp.concatenate([field.fun(p, o, t, y), fnp.ravel(moved)])

    def weights(z0: Any, p: Any) -> Any:
        own = field.weights(z0[:n], p)
        scale = np.concatenate([np.ones(columns - k), 1 / np.where(p == 0, 1.0, np.abs(p))])
        return np.concatenate([own, np.outer(own, scale).ravel()])

    return Field(fun, n + n * columns, k, programs=field.programs, weights=weights), columns


def tangent_field(field: Field) -> Field:
    """Return the field of y and of its tangent, whose parameters are those of `field` and their tangents."""
    n, k = field.size, field.count

    def fun(p: Any, o: Sequence[Any], t: Any, z: Any) -> Any:
        moved = jvp(lambda y, q: field.fun(q, o, t, y), (z[:n], p[:k]), (z[n:], p[k:]))
        return fnp.concatenate(list(moved))

    def weights(z0: Any, p: Any) -> Any:
        own = field.weights(z0[:n], p[:k])
        size = np.abs(np.concatenate([z0[n:], p[k:]])).max(initial=0.0)
        return np.concatenate([own, own * (size or 1.0)])

    return Field(fun, 2 * n, 2 * k, programs=field.programs, weights=weights)
