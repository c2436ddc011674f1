"""Recursive filters and spline coefficients; their adjoints run backwards.

SciPy computes them on the CPU; on a device CuPy, and a kernel where it has nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.backend.devices import elsewhere
from fgrad.core.aval import Aval
from fgrad.core.placement import near
from fgrad.core.primitive import MULTILINEAR, OUT, VJP, Pattern, declare
from fgrad.core.stored import LAPACK, Stored, one_of, up_to
from fgrad.core.tensor import bind
from fgrad.ops.compiled import backend
from fgrad.ops.contraction import contract
from fgrad.ops.foreign import scipy
from fgrad.ops.linear import broadcast_to, linear, reverse, sum_axes

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


def _recursion_vjp(pattern: Pattern) -> VJP:
    to_a, to_u = pattern

    def back(ct: Any, *saved: Any) -> tuple[Any, ...]:
        *out, a, _ = saved
        last = len(ct.shape) - 1
        ct_u = reverse(bind("recursion", a, reverse(ct, last)), last)
        if not to_a:
            return (ct_u,)
        # y_n + sum_k a_k y_(n-k) = u_n, differentiated in a_k: the source is -y_(n-k)
        n, parts = ct.shape[-1], []
        for k in range(1, a.shape[0] + 1):
            late, early = (slice(min(k, n), None), slice(0, max(0, n - k)))
            pair = bind("slice", ct_u, index=(..., late)) * bind("slice", out[0], index=(..., early))
            parts.append(-sum_axes(pair, tuple(range(last + 1))))
        ct_a = bind("stack", *parts) if parts else near(ct).zeros(0, ct.dtype)
        return (ct_a, ct_u) if to_u else (ct_a,)

    return VJP(back, keep=(OUT, 1) if to_a else (1,), params=True, transpose="" if to_a else MULTILINEAR)


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
    vjp=_recursion_vjp,
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
        dtype = np.empty(0, x.dtype).real.dtype
        matrix = _spline(near(ct).eye(n, dtype=dtype), degree=degree, mode=mode)
        lead = _LETTERS[: len(x.shape) - 1]
        return contract(ct, matrix, lead + "Y", "ZY", lead + "Z")
    if mode != "mirror" or n < 2:
        return bind("spline_filter", ct, degree=degree, mode=mode)
    weights = near(ct).ones(n, np.empty(0, x.dtype).real.dtype)
    weights[0] = weights[-1] = 0.5
    return bind("spline_filter", ct / weights, degree=degree, mode=mode) * weights


_spline = elsewhere(_run_spline, _there_spline)
linear(
    "spline_filter",  # along the last axis
    run=_spline,
    adjoint=_spline_adjoint,
    shape=lambda x, **_: x,
    batch=lambda x, **params: bind("spline_filter", x, **params),
    stored=Stored(
        {"degree": up_to(5), "mode": one_of("mirror", "reflect", "grid-wrap")},
        dtypes=LAPACK,
        verify=lambda x, *, degree, mode: x.ndim > 0,
    ),
)
