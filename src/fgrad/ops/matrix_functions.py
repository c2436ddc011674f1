"""Rows of functions of matrices and of Sylvester's equation, in stacks of any shape.

SciPy computes them on the CPU, `iterations` on a device.

One rule serves every function: the derivative at a along e, the Fréchet derivative L(a, e), is a row of its
own, and the adjoint of e -> L(a, e) is ct -> L(a^T, ct), for the pairing Re sum(ct * tangent) and
f(a^T) = f(a)^T. L(a, e) is the upper right block of f([[a, e], [0, a]]), which gives higher orders: Mathias
(1996), A chain rule for matrix functions and applications, SIAM J. Matrix Anal. Appl. 17; Higham (2008),
Functions of Matrices, theorem 3.6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from fgrad.backend.devices import elsewhere
from fgrad.core.aval import Aval
from fgrad.core.placement import near
from fgrad.core.primitive import EACH, OUT, Pattern, Primitive, Pull, register
from fgrad.core.tensor import bind
from fgrad.ops import iterations
from fgrad.ops.foreign import each, scipy
from fgrad.ops.linear import broadcast_to
from fgrad.ops.matrices import adjoint, conjugate, matrix_product, swapped

# ---- functions of matrices


class ComplexResultError(LinAlgError):
    """The value of a function of a real matrix is complex."""


_NAMES = {"expm": "expm", "logm": "logm", "sqrtm": "sqrtm", "power": "fractional_matrix_power"}


def _run(a: Any, *, function: str, exponent: float) -> Any:
    y = _value(a, function, exponent)
    if y.dtype.kind == "c" and a.dtype.kind != "c":
        raise ComplexResultError(
            f"{_NAMES[function]}: the result of this real matrix is complex (it has eigenvalues that are not "
            "positive), but inside jit the dtype of a result must not depend on values; convert the matrix "
            "to complex first"
        )
    return y.astype(a.dtype, copy=False)


def _value(a: Any, function: str, exponent: float) -> Any:
    """Return a function of matrices; complex ones of real matrices where they are not real to rounding."""
    if not a.size:
        return a
    if function == "expm":
        return np.asarray(scipy("linalg").expm(a))
    wide = a.astype(np.result_type(a.dtype, np.float64), copy=False)
    call = getattr(scipy("linalg"), _NAMES[function])
    y = each(call if function != "power" else lambda m: call(m, exponent), wide)
    if y.dtype.kind == "c" and a.dtype.kind != "c":
        sizes = [np.abs(x).max(initial=0.0) for x in (y.imag, y)]
        return y.real if sizes[0] <= 1000 * np.finfo(y.dtype).eps * sizes[1] else y
    return y


def _blocks(a: Any, e: Any) -> Any:
    """Return [[a, e], [0, a]]."""
    columns = len(a.shape) - 1
    above = bind("concatenate", a, e, axis=columns)
    below = bind("concatenate", near(e).zeros(e.shape, e.dtype), a, axis=columns)
    return bind("concatenate", above, below, axis=columns - 1)


def _there(a: Any, *, function: str, exponent: float) -> Any:
    if not a.size:
        return a
    wide = a.astype(np.result_type(a.dtype, np.float64), copy=False)
    return iterations.function_of(wide, function, exponent).astype(a.dtype, copy=False)


def _run_frechet(a: Any, e: Any, *, function: str, exponent: float) -> Any:
    """Return the derivative of a function of matrices at `a` along `e`."""
    dtype = np.result_type(a.dtype, e.dtype)
    if not a.size:
        return np.zeros(a.shape, dtype)
    if function == "sqrtm":
        root = _run(a, function=function, exponent=exponent)
        _demand_regular(root, function, np.sqrt)
        return _run_sylvester(root, root, e)  # r l + l r = e: Higham (2008), (6.1)
    if function != "expm":
        _demand_regular(a, function, lambda x: x)
    wide = np.result_type(dtype, np.float64)
    a, e = a.astype(wide, copy=False), e.astype(wide, copy=False)
    if function != "power":
        along = _logm_along if function == "logm" else _expm_along
        return each(along, a, e).astype(dtype, copy=False)
    return _of_blocks(lambda x: _value(x, function, exponent), a, e).astype(dtype, copy=False)


def _of_blocks(f: Any, a: Any, e: Any) -> Any:
    """Return the derivative of `f` by its value for [[a, e], [0, a]]."""
    # linear in e, which is brought to the size of `a`, so that it does not rule the scaling of f
    size, scale = (np.max(np.absolute(x), axis=(-2, -1), keepdims=True) for x in (a, e))
    scale = np.where(scale > 0, np.where(size > 0, size, 1) / np.where(scale > 0, scale, 1), 1)
    n = a.shape[-1]
    y = f(_blocks(a, e * scale))[..., :n, n:]
    is_real = a.dtype.kind != "c" and e.dtype.kind != "c"
    return (y.real if is_real else y) / scale


def _there_frechet(a: Any, e: Any, *, function: str, exponent: float) -> Any:
    dtype = np.result_type(a.dtype, e.dtype)
    if not a.size:
        return near(a).zeros(a.shape, dtype)
    if function != "expm":
        _demand_regular(a, function, lambda x: x)
    wide = np.result_type(dtype, np.float64)
    a, e = a.astype(wide, copy=False), e.astype(wide, copy=False)
    return _of_blocks(lambda x: iterations.function_of(x, function, exponent), a, e).astype(dtype)


def _expm_along(a: Any, e: Any) -> Any:
    """Return the derivative of the exponential, by its scaling and squaring, differentiated.

    Source:
        Al-Mohy & Higham (2009), Computing the Fréchet derivative of the matrix exponential, with an
        application to condition number estimation, SIAM J. Matrix Anal. Appl. 30.
    """
    return scipy("linalg").expm_frechet(a, e, compute_expm=False, check_finite=False)


def _logm_along(a: Any, e: Any) -> Any:
    """Return the derivative of the logarithm, by roots until `a` is near to 1.

    log a = 2^k log a^(1 / 2^k), and the derivative of log at a is the integral over t from 0 to 1 of
    (1 + t (a - 1))^-1 e (1 + t (a - 1))^-1.

    Source:
        Al-Mohy, Higham & Relton (2013), Computing the Fréchet derivative of the matrix logarithm and
        estimating the condition number, SIAM J. Sci. Comput. 35; Higham (2008), (11.10).
    """
    one, factor = np.eye(len(a), dtype=a.dtype), 1.0
    while np.linalg.norm(a - one, 1) > 0.25 and factor < 2.0**100:
        a = _run(a, function="sqrtm", exponent=0.0)
        e, factor = _run_sylvester(a, a, e), 2 * factor
    total = np.zeros_like(e)
    for t, w in zip(*np.polynomial.legendre.leggauss(9), strict=True):
        b = np.linalg.inv(one + (t + 1) / 2 * (a - one))
        total += w / 2 * (b @ e @ b)
    return factor * total


def _demand_regular(a: Any, function: str, scaled: Any) -> None:
    size = np.absolute(np.linalg.eigvals(a))
    tiny = float(scaled(4 * a.shape[-1] * np.finfo(a.dtype).eps))
    if np.any(np.min(size, axis=-1) <= tiny * np.max(size, axis=-1)):
        raise LinAlgError(
            f"{_NAMES[function]}: the matrix is singular to rounding, where the function has no derivative; "
            "add a small multiple of the identity"
        )


def _frechet(a: Any, e: Any, params: dict[str, Any]) -> Any:
    return bind("frechet", a, e, **params)


def _frechet_pull(pattern: Pattern) -> Pull:
    to_a, to_e = pattern

    def back(ct: Any, *saved: Any) -> tuple[Any, ...]:
        a, *e, params = saved
        ct_e = (_frechet(swapped(a), ct, params),) if to_e else ()
        if not to_a:
            return ct_e
        # of <ct, f(x)'s upper right block>, x = [[a, e], [0, a]]: what it says of both blocks `a`
        n, zero = a.shape[-1], near(ct).zeros(ct.shape, ct.dtype)
        wide = _blocks(zero, ct)
        full = _frechet(swapped(_blocks(a, e[0])), wide, params)
        parts = (bind("slice", full, index=(..., s, s)) for s in (slice(0, n), slice(n, None)))
        return (sum(parts), *ct_e)

    return Pull(back, keep=(1, 2) if to_a else (1,), params=True, transpose="" if to_a else EACH)


def _batch_pair(row: str) -> Any:
    """Return the batch rule of a row of stacks of matrices with the same axes in front."""

    def batch(mapped: Pattern, *values: Any, **params: Any) -> Any:
        size = next(v.shape[0] for v, m in zip(values, mapped, strict=True) if m)
        full = (v if m else broadcast_to(v, (size, *v.shape)) for v, m in zip(values, mapped, strict=True))
        return bind(row, *full, **params)

    return batch


register(
    Primitive(
        "matrix_function",
        run=elsewhere(_run, _there),
        pull=lambda _: Pull(
            lambda ct, a, params: (_frechet(swapped(a), ct, params),), keep=(1,), params=True, exact=True
        ),
        shape=lambda a, **_: a,
        batch=_batch_pair("matrix_function"),
    )
)
register(
    Primitive(
        "frechet",
        run=elsewhere(_run_frechet, _there_frechet),
        pull=_frechet_pull,
        shape=lambda a, e, **_: Aval(a.shape, np.result_type(a.dtype, e.dtype)),
        batch=_batch_pair("frechet"),
    )
)


# ---- Sylvester's equation


def _run_sylvester(a: Any, b: Any, q: Any) -> Any:
    dtype = np.result_type(a.dtype, b.dtype, q.dtype)
    if not q.size:
        return np.zeros(q.shape, dtype)
    return each(_solved, a, b, q).astype(dtype, copy=False)


def _solved(a: Any, b: Any, q: Any) -> Any:
    """Return x with a x + x b = q, as SciPy's solve_sylvester: Bartels & Stewart (1972), Comm. ACM 15."""
    linalg = scipy("linalg")
    kind = "complex" if any(m.dtype.kind == "c" for m in (a, b, q)) else "real"
    (r, u), (s, v) = (linalg.schur(m, output=kind) for m in (a, b.conj().T))
    right = u.conj().T @ q @ v
    (trsyl,) = linalg.get_lapack_funcs(("trsyl",), (r, s, right))
    y, scale, info = trsyl(r, s, right, tranb="C")
    if info:
        raise LinAlgError(
            "solve_sylvester: the equation a x + x b = q is singular: an eigenvalue of a is one of -b"
        )
    return u @ (scale * y) @ v.conj().T


def _there_sylvester(a: Any, b: Any, q: Any) -> Any:
    dtype = np.result_type(a.dtype, b.dtype, q.dtype)
    if not q.size:
        return near(q).zeros(q.shape, dtype)
    return iterations.sylvester(*(x.astype(dtype, copy=False) for x in (a, b, q)))


def _sylvester_pull(pattern: Pattern) -> Pull:
    to_a, to_b, to_q = pattern

    def back(ct: Any, *saved: Any) -> tuple[Any, ...]:
        *out, a, b, _ = saved
        y = bind("sylvester", swapped(a), swapped(b), ct)
        found = [-matrix_product(y, swapped(out[0]))] if to_a else []
        found += [-matrix_product(swapped(out[0]), y)] if to_b else []
        return (*found, y) if to_q else tuple(found)

    own = to_a or to_b
    return Pull(back, keep=(OUT, 1, 2) if own else (1, 2), params=True, transpose="" if own else EACH)


register(
    Primitive(
        "sylvester",
        run=elsewhere(_run_sylvester, _there_sylvester),
        pull=_sylvester_pull,
        shape=lambda a, b, q: Aval(q.shape, np.result_type(a.dtype, b.dtype, q.dtype)),
        batch=_batch_pair("sylvester"),
    )
)


# ---- polar decomposition


def _polar(ct: Any, out: Any) -> tuple[Any]:
    """Return the cotangent of a = u p, u with orthonormal columns and p positive definite.

    w = u^H du, skew-Hermitian, solves w p + p w = u^H da - da^H u; then dp = u^H da - w p and
    du = u w + (1 - u u^H) da p^-1: differentiate a = u p. Higham (2008), 8.2 and problem 8.21.
    """
    (ct_u, ct_p), (u, p) = ct, out
    total: Any = None
    ct_w: Any = None
    if ct_p is not None:
        total, ct_w = matrix_product(conjugate(u), ct_p), -matrix_product(ct_p, swapped(p))
    if ct_u is not None:
        own = matrix_product(swapped(u), ct_u)
        ct_w = own if ct_w is None else ct_w + own
        if u.shape[-2] > u.shape[-1]:
            rest = ct_u - matrix_product(conjugate(u), own)
            rest = swapped(bind("solve", p, swapped(rest), check=""))
            total = rest if total is None else total + rest
    n = bind("sylvester", swapped(p), swapped(p), ct_w)
    turned = matrix_product(conjugate(u), n - adjoint(n))
    return (turned if total is None else total + turned,)


def _run_polar(a: Any) -> tuple[Any, Any]:
    w, s, vh = np.linalg.svd(a, full_matrices=False)
    return w @ vh, (np.swapaxes(np.conjugate(vh), -1, -2) * s[..., None, :]) @ vh


register(
    Primitive(
        "polar",  # of matrices with at least as many rows as columns
        run=_run_polar,
        pull=lambda _: Pull(_polar, keep=(OUT,), exact=True),
        shape=lambda a: (a, Aval((*a.shape[:-2], a.shape[-1], a.shape[-1]), a.dtype)),
        batch=lambda _, a: bind("polar", a),
        many=True,
    )
)
