"""Riccati's equations, differentiated by Lyapunov's equations.

SciPy computes it on the CPU, `iterations` on a device.

Continuous: a^H x + x a - x b r^-1 b^H x + q = 0, k = r^-1 b^H x. Discrete: x = a^H x (a - b k) + q,
k = (r + b^H x b)^-1 b^H x a. In both, with c = a - b k, terms of dk cancel: dx solves c^H dx + dx c + w = 0,
or dx = c^H dx c + w, w being what da, db, dq and dr leave where x and k are fixed.

Source:
    Kao & Hennequin (2020), Automatic differentiation of Sylvester, Lyapunov, and algebraic Riccati equations,
    arXiv:2011.11430.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.backend.devices import elsewhere
from fgrad.core.aval import Aval
from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.core.primitive import OUT, VJP, Pattern, declare
from fgrad.core.stored import is_flag, of_matrices
from fgrad.ops import iterations
from fgrad.ops.foreign import each, scipy
from fgrad.ops.linear import batch_in_front, reshape
from fgrad.ops.matrices import adjoint, conjugate, matrix_product, swapped
from fgrad.ops.systems import inverse, solve


def discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> Any:
    """Return x = a x a^H + q: "direct", by one system of n^2 unknowns, or "bilinear", by Sylvester's.

    Source:
        Gajic & Qureshi (1995), Lyapunov Matrix Equation in System Stability and Control.
    """
    n, lead = a.shape[-1], a.shape[:-2]
    one = near(a).eye(n, dtype=a.dtype)
    if method == "direct" or (method is None and n < 10):
        twice = reshape(a, (*lead, n, 1, n, 1)) * reshape(conjugate(a), (*lead, 1, n, 1, n))
        system = near(a).eye(n * n, dtype=a.dtype) - reshape(twice, (*lead, n * n, n * n))
        return reshape(solve(system, reshape(q, (*lead, n * n, 1))), a.shape)
    h = adjoint(a)
    right = inverse(h + one)
    b = matrix_product(h - one, right)
    c = matrix_product(matrix_product(2 * inverse(a + one), q), right)
    return bind("sylvester", adjoint(b), b, -c)


def _run(a: Any, b: Any, q: Any, r: Any, *, discrete: bool) -> Any:
    dtype = np.result_type(a.dtype, b.dtype, q.dtype, r.dtype)
    if not a.size:
        return np.zeros(a.shape, dtype)
    q, r = ((x + np.swapaxes(x.conj(), -1, -2)) / 2 for x in (q, r))
    solver = scipy("linalg").solve_discrete_are if discrete else scipy("linalg").solve_continuous_are
    return each(solver, a, b, q, r).astype(dtype, copy=False)


def _there(a: Any, b: Any, q: Any, r: Any, *, discrete: bool) -> Any:
    dtype = np.result_type(a.dtype, b.dtype, q.dtype, r.dtype)
    if not a.size:
        return near(a).zeros(a.shape, dtype)
    wide = np.result_type(dtype, np.float64)
    a, b, q, r = (x.astype(wide, copy=False) for x in (a, b, q, r))
    q, r = ((x + np.swapaxes(np.conjugate(x), -1, -2)) / 2 for x in (q, r))
    return iterations.riccati(a, b, q, r, discrete=discrete).astype(dtype, copy=False)


def _vjp(pattern: Pattern) -> VJP:
    def back(ct: Any, x: Any, a: Any, b: Any, r: Any, params: dict[str, Any]) -> tuple[Any, ...]:
        left = matrix_product(adjoint(b), x)
        if params["discrete"]:
            k = solve(r + matrix_product(left, b), matrix_product(left, a))
        else:
            k = solve(r, left)
        c = a - matrix_product(b, k)
        if params["discrete"]:
            z = discrete_lyapunov(conjugate(c), ct)
            start = matrix_product(conjugate(x), conjugate(c))
        else:
            z = -bind("sylvester", conjugate(c), swapped(c), ct)
            start = conjugate(x)
        z = z + adjoint(z)
        to_a = matrix_product(start, z)
        to_r = matrix_product(matrix_product(conjugate(k), z), swapped(k)) / 2
        found = (to_a, -matrix_product(to_a, swapped(k)), z / 2, to_r)
        return tuple(f for f, tracked in zip(found, pattern, strict=True) if tracked)

    return VJP(back, keep=(OUT, 1, 2, 4), params=True)


def _shape(a: Any, *others: Any, discrete: bool) -> Any:
    return type(a)(a.shape, np.result_type(a.dtype, *(o.dtype for o in others)))


def _verify(a: Aval, b: Aval, q: Aval, r: Aval, *, discrete: bool) -> bool:
    n, m = b.shape[-2:]
    lead = a.shape[:-2]
    wanted = ((*lead, n, n), (*lead, n, m), (*lead, n, n), (*lead, m, m))
    return tuple(v.shape for v in (a, b, q, r)) == wanted


declare(
    "riccati",
    run=elsewhere(_run, _there),
    vjp=_vjp,
    shape=_shape,
    batch=batch_in_front("riccati"),
    interpreted="SciPy orders the eigenvalues of a pencil",
    stored=of_matrices("0123", "023", {"discrete": is_flag}, verify=_verify),
)
