"""Recursive filters and spline coefficients; their adjoints run backwards.

SciPy computes them on the CPU; on a device CuPy, and a kernel where it has nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.backend.devices import elsewhere
from fgrad.core.aval import Aval
from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.core.primitive import Pattern, Written, declare
from fgrad.core.stored import LAPACK, Stored, one_of, up_to
from fgrad.ops.compiled import backend
from fgrad.ops.contraction import contract
from fgrad.ops.foreign import scipy
from fgrad.ops.linear import broadcast_to, convert, linear, real_dtype, reverse, solver_vjp, sum_axes

# ---- recursion


def _run_recursion(a: Any, u: Any) -> Any:
    dtype = np.result_type(a.dtype, u.dtype)
    if not u.size or not a.size:
        return u.astype(dtype)
    denominator = np.concatenate([np.ones(1, dtype), a.astype(dtype, copy=False)])
    return scipy("signal").lfilter(np.ones(1, dtype), denominator, u.astype(dtype, copy=False), axis=-1)


def _there_recursion(a: Any, u: Any) -> Any:
    dtype = np.result_type(a.dtype, u.dtype)
    if not u.size or not a.size:
        return u.astype(dtype)
    return backend("recurrences").recursion(a.astype(dtype, copy=False), u.astype(dtype, copy=False))


def _backwards(ct: Any, a: Any) -> Any:
    last = len(ct.shape) - 1
    return reverse(bind("recursion", a, reverse(ct, last)), last)


def _coefficients(ct_u: Any, y: Any, a: Any) -> Any:
    # y_n + sum_k a_k y_(n-k) = u_n, differentiated in a_k: the source is -y_(n-k)
    n, parts = ct_u.shape[-1], []
    for k in range(1, a.shape[0] + 1):
        late, early = (slice(min(k, n), None), slice(0, max(0, n - k)))
        pair = bind("slice", ct_u, index=(..., late)) * bind("slice", y, index=(..., early))
        parts.append(-sum_axes(pair, tuple(range(len(ct_u.shape)))))
    return bind("stack", *parts) if parts else near(ct_u).zeros(0, ct_u.dtype)


def _batch_recursion(mapped: Pattern, a: Any, u: Any) -> Any:
    if not mapped[0]:
        return bind("recursion", a, u)
    size = a.shape[0]
    u = u if mapped[1] else broadcast_to(u, (size, *u.shape))
    each = [
        bind("recursion", bind("slice", a, index=(i,)), bind("slice", u, index=(i,))) for i in range(size)
    ]
    return bind("stack", *each)


declare(
    "recursion",  # y_n = u_n - a_1 y_(n-1) - ... - a_k y_(n-k), along the last axis
    run=elsewhere(_run_recursion, _there_recursion),
    vjp=solver_vjp(_backwards, _coefficients),
    shape=lambda a, u: Aval(u.shape, np.result_type(a.dtype, u.dtype)),
    batch=_batch_recursion,
    stored=Stored(dtypes=LAPACK, verify=lambda a, u: a.ndim == 1 and u.ndim > 0),
)


# ---- spline coefficients


SHORT = 24  # elements: where lines are shorter, SciPy's filter for 'reflect' is not exact, and not symmetric
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW"


def _run_spline(x: Any, *, degree: int, mode: str) -> Any:
    if x.shape[-1] < 2 or not x.size:
        return x.copy()
    kind = np.result_type(x.dtype, np.float64)
    y = scipy("ndimage").spline_filter1d(x, degree, axis=-1, output=kind, mode=mode)
    return y.astype(x.dtype, copy=False)


def _there_spline(x: Any, *, degree: int, mode: str) -> Any:
    if x.shape[-1] < 2 or not x.size:
        return x.copy()
    kind = np.result_type(x.dtype, np.float64)
    options = {"order": degree, "axis": -1, "output": kind, "mode": mode}
    return (
        near(x).apply("scipy.ndimage.spline_filter1d", x.astype(kind, copy=False), **options).astype(x.dtype)
    )


def _spline_adjoint(ct: Any, x: Aval, *, degree: int, mode: str) -> Any:
    # coefficients solve b c = x; b is symmetric, but for mirrored edges, where the other neighbours of the
    # first and last element count twice: there d b is, with halves at both ends of the diagonal d
    n = x.shape[-1]
    if mode == "reflect" and n < SHORT:
        matrix = _spline(near(ct).eye(n, dtype=real_dtype(x.dtype)), degree=degree, mode=mode)
        lead = _LETTERS[: len(x.shape) - 1]
        return contract(ct, matrix, lead + "Y", "ZY", lead + "Z")
    if mode != "mirror" or n < 2:
        return bind("spline_filter", ct, degree=degree, mode=mode)
    weights = near(ct).ones(n, real_dtype(x.dtype))
    weights[0] = weights[-1] = 0.5
    return bind("spline_filter", ct / weights, degree=degree, mode=mode) * weights


def _poles(degree: int) -> list[float]:
    """Return the poles of the filter, each with its reciprocal: Unser (1999), Splines, table 1."""
    roots = {
        2: [math.sqrt(8) - 3],
        3: [math.sqrt(3) - 2],
        4: [
            math.sqrt(664 - math.sqrt(438976)) + math.sqrt(304) - 19,
            math.sqrt(664 + math.sqrt(438976)) - math.sqrt(304) - 19,
        ],
        5: [
            math.sqrt(67.5 - math.sqrt(4436.25)) + math.sqrt(26.25) - 6.5,
            math.sqrt(67.5 + math.sqrt(4436.25)) - math.sqrt(26.25) - 6.5,
        ],
    }
    return roots.get(degree, [])


def _written_spline(x: Any, *, degree: int, mode: str) -> Any:
    """Return the coefficients by one recurrence to and fro for each pole, whose first values are sums."""
    kind, n = np.result_type(x.dtype, np.float64), x.shape[-1]
    if n < 2:
        return x * 1
    c, last = convert(x, kind), len(x.shape) - 1
    real, k = real_dtype(kind), np.arange(n)
    for z in _poles(degree):
        c = c * ((1 - z) * (1 - 1 / z))
    for z in _poles(degree):
        power = z**k
        if mode == "mirror":
            weights = power + z ** (2 * n - 2 - k)
            weights[0], weights[-1] = 1.0, z ** (n - 1)
            first = sum_axes(c * weights, (last,)) / (1 - z ** (2 * n - 2))
        elif mode == "reflect":
            weights = power + z ** (2 * n - 1 - k)
            weights[0], weights[-1] = 1.0, z**n
            weights *= 1 + z ** (2 * n - 1)  # SciPy adds to the first element what it has become of it
            weights[-1] += z ** (n - 1)
            weights *= z / (1 - z ** (2 * n))
            weights[0] += 1
            first = sum_axes(c * weights, (last,))
        else:
            weights = np.concatenate([[1.0], power[:0:-1]])
            first = sum_axes(c * weights, (last,)) / (1 - z**n)
        factors = broadcast_to(np.full((), z, real), c.shape)
        start = first[..., None]
        c = bind("recur", factors, np.concatenate([start, c[..., 1:]], axis=-1), axis=last)
        if mode == "mirror":
            end = (z * c[..., -2:-1] + c[..., -1:]) * (z / (z * z - 1))
        elif mode == "reflect":
            end = c[..., -1:] * (z / (z - 1))
        else:
            weights = np.concatenate([z ** (k[:-1] + 1.0), [1.0]])
            end = sum_axes(c * weights, (last,))[..., None] * (z / (z**n - 1))
        back = np.concatenate([end, reverse(c[..., :-1] * -z, last)], axis=-1)
        c = reverse(bind("recur", factors, back, axis=last), last)
    return convert(c, x.dtype)


_spline = elsewhere(_run_spline, _there_spline)
linear(
    "spline_filter",  # along the last axis
    run=_spline,
    adjoint=_spline_adjoint,
    shape=lambda x, **_: x,
    batch=lambda x, **params: bind("spline_filter", x, **params),
    written=Written(_written_spline),
    stored=Stored(
        {"degree": up_to(5), "mode": one_of("mirror", "reflect", "grid-wrap")},
        dtypes=LAPACK,
        verify=lambda x, *, degree, mode: x.ndim > 0,
    ),
)
