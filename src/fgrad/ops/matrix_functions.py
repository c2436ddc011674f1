"""Rows of functions of matrices and of Sylvester's equation, in stacks of any shape.

SciPy computes them on the CPU, `iterations` on a device.

Rules are written with the Fréchet derivative L(a, e) of a function f, which is linear in e: the adjoint of
e -> L(a, e) is ct -> L(a^T, ct), for the pairing Re sum(ct * tangent) and f(a^T) = f(a)^T. L(a, e) is the
upper right block of f([[a, e], [0, a]]), which gives higher orders: Mathias (1996), A chain rule for matrix
functions and applications, SIAM J. Matrix Anal. Appl. 17; Higham (2008), Functions of Matrices, theorem 3.6.

Roots and logarithms have branches. Which one an eigenvalue near the negative axis belongs to is said by the
value that was found, never by the matrix once more, where rounding would decide anew. So their rules are
those of implicit functions, of r r = a and exp(y) = a.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from fgrad.backend.devices import as_array, elsewhere
from fgrad.core.aval import Aval
from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.core.primitive import MULTILINEAR, OUT, STACKS, VJP, Pattern, Rule, Written, by_argument, declare
from fgrad.core.stored import is_flag, of_matrices, one_of, same_shapes, typed
from fgrad.ops import iterations
from fgrad.ops.compiled import late
from fgrad.ops.foreign import each, scipy
from fgrad.ops.linear import batch_in_front, solver_vjp
from fgrad.ops.matrices import adjoint, as_row, conjugate, identity, matrix_product, size_of, swapped
from fgrad.ops.requirements import trusted

# ---- functions of matrices


class ComplexResultError(LinAlgError):
    """The value of a function of a real matrix is complex."""


_NAMES = {"expm": "expm", "logm": "logm", "sqrtm": "sqrtm", "power": "fractional_matrix_power"}


def _typed(y: Any, a: Any, function: str, *, to_complex: bool) -> Any:
    if to_complex:
        return y.astype(np.result_type(a.dtype, np.complex64), copy=False)
    if y.dtype.kind == "c" and a.dtype.kind != "c":
        raise ComplexResultError(
            f"{_NAMES[function]}: the result of this real matrix is complex (it has eigenvalues that are not "
            "positive), but inside jit the dtype of a result must not depend on values; convert the matrix "
            "to complex first"
        )
    return y.astype(a.dtype, copy=False)


def _run(a: Any, *, function: str, exponent: float, to_complex: bool) -> Any:
    return _typed(_value(a, function, exponent), a, function, to_complex=to_complex)


def _value(a: Any, function: str, exponent: float) -> Any:
    """Return a function of matrices; complex ones of real matrices where they are not real to rounding."""
    if not a.size:
        return a
    if function == "expm":
        return np.asarray(scipy("linalg").expm(a))
    wide = a.astype(np.result_type(a.dtype, np.float64), copy=False)
    call = {"sqrtm": scipy("linalg").sqrtm, "logm": _log, "power": functools.partial(_power, exponent)}
    y = each(call[function], wide)
    if y.dtype.kind == "c" and a.dtype.kind != "c":
        sizes = [np.abs(x).max(initial=0.0) for x in (y.imag, y)]
        return y.real if sizes[0] <= 1000 * np.finfo(y.dtype).eps * sizes[1] else y
    return y


def _log(a: Any) -> Any:
    """Return the logarithm, of very large and small matrices in units of them: SciPy loses digits."""
    size = power_of_two(a)
    if 1e-9 < size < 1e9:  # near to one its logarithm has more digits than that of the unit
        return scipy("linalg").logm(a)
    return scipy("linalg").logm(a / size) + math.log(size) * identity(a)


def _power(exponent: float, a: Any) -> Any:
    """Return the power, in units of the matrix: SciPy's is NaN where a whole one overflows or vanishes."""
    size = power_of_two(a)
    return scipy("linalg").fractional_matrix_power(a / size, exponent) * np.float64(size) ** exponent


def _there(a: Any, *, function: str, exponent: float, to_complex: bool) -> Any:
    if not a.size:
        return a
    wide = a.astype(np.result_type(a.dtype, np.float64), copy=False)
    return _typed(iterations.function_of(wide, function, exponent), a, function, to_complex=to_complex)


def _function_vjp(_: Pattern) -> VJP:
    def back(ct: Any, y: Any, a: Any, params: dict[str, Any]) -> tuple[Any]:
        function, exponent = params["function"], params["exponent"]
        if function == "expm":
            return (bind("frechet", swapped(a), ct),)
        divisor = y if function == "sqrtm" else a
        ct = bind("regular", ct, divisor, function=function)
        if function == "sqrtm":  # r l + l r = e: Higham (2008), (6.1)
            y = bind("regularized", y, divisor, function=function)
            return (bind("sylvester", swapped(y), swapped(y), ct),)
        if function == "power":  # exp(t log(a)), in units of a, in which neither factor overflows
            a = bind("regularized", a, divisor, function=function)
            size = size_of(a)
            y = bind("matrix_function", a / size, **(params | {"function": "logm"}))
            ct = exponent * bind("frechet", exponent * swapped(y), ct)
            root = size ** ((exponent - 1) / 2)
            return (bind("log_frechet", swapped(y), ct) * root * root,)
        y = bind("regularized", y, divisor, function=function)
        return (bind("log_frechet", swapped(y), ct),)

    return VJP(back, keep=(OUT, 1), params=True)


def _singular(a: Any, function: str) -> Any:
    """Return which matrices are singular to rounding: roots, or arguments of other functions."""
    return as_array(_are_low(np.linalg.eigvals(a), a, function))


def _are_low(eigenvalues: Any, a: Any, function: str) -> Any:
    tiny = 4 * a.shape[-1] * float(np.finfo(a.dtype).eps)
    size = np.absolute(eigenvalues)
    limit = (math.sqrt(tiny) if function == "sqrtm" else tiny) * np.max(size, axis=-1)
    return np.min(size, axis=-1) <= limit


def _run_regular(ct: Any, a: Any, *, function: str) -> Any:
    """Return `ct`, which a rule divides by matrices.

    Raises:
        LinAlgError: a matrix is singular, and what is to be divided by it is not zero.
    """
    if a.size and np.any(_singular(a, function) & np.any(ct != 0, axis=(-2, -1))):
        raise LinAlgError(
            f"{_NAMES[function]}: the matrix is singular to rounding, where the function has no derivative; "
            "add a small multiple of the identity"
        )
    return ct


def _run_regularized(x: Any, a: Any, *, function: str) -> Any:
    """Return `x`, and identity matrices where `a` is singular, by which only zeros are divided."""
    if not a.size:
        return x
    return np.where(_singular(a, function)[..., None, None], identity(x), x)


def _written_regular(ct: Any, a: Any, *, function: str) -> Any:
    wrong = _are_low(bind("eig", a)[0], a, function) & np.any(ct != 0, axis=(-2, -1))
    return trusted(ct, np.logical_not(wrong))


def _written_regularized(x: Any, a: Any, *, function: str) -> Any:
    singular = _are_low(bind("eig", a)[0], a, function)
    return np.where(singular[..., None, None], np.eye(x.shape[-1], dtype=x.dtype), x)


_LOOPS = "fgrad.lax.running"
declare(
    "matrix_function",
    run=elsewhere(_run, _there),
    vjp=_function_vjp,
    shape=lambda a, *, to_complex, **_: (
        Aval(a.shape, np.result_type(a.dtype, np.complex64)) if to_complex else a
    ),
    batch=batch_in_front("matrix_function"),
    written=Written(late(_LOOPS, "matrix_exponential"), lambda a, *, function, **_: function == "expm"),
    interpreted="SciPy's iterations for logarithms, roots and powers of matrices are the exact ones",
    stored=of_matrices(
        "0",
        "0",
        {
            "function": one_of("expm", "logm", "sqrtm", "power"),
            "exponent": typed(float),
            "to_complex": is_flag,
        },
        since=2,
    ),
)

# ---- derivatives of the exponential and of the logarithm


def blocks(a: Any, e: Any) -> Any:
    """Return [[a, e], [0, a]]."""
    columns = len(a.shape) - 1
    above = bind("concatenate", a, e, axis=columns)
    below = bind("concatenate", near(e).zeros(e.shape, e.dtype), a, axis=columns)
    return bind("concatenate", above, below, axis=columns - 1)


def _in_double(f: Rule) -> Rule:
    """Return a function of two stacks of matrices that computes in double precision."""

    def run(a: Any, e: Any) -> Any:
        dtype = np.result_type(a.dtype, e.dtype)
        if not a.size:
            return near(a).zeros(a.shape, dtype)
        wide = np.result_type(dtype, np.float64)
        return f(a.astype(wide, copy=False), e.astype(wide, copy=False)).astype(dtype, copy=False)

    return run


def _run_frechet(a: Any, e: Any) -> Any:
    """Return the derivative of the exponential at `a` along `e`, by scaling and squaring, differentiated.

    Source:
        Al-Mohy & Higham (2009), Computing the Fréchet derivative of the matrix exponential, with an
        application to condition number estimation, SIAM J. Matrix Anal. Appl. 30.
    """
    along = scipy("linalg").expm_frechet
    return each(lambda a, e: along(a, e, compute_expm=False, check_finite=False), a, e)


def frechet_by(expm: Rule, a: Any, e: Any) -> Any:
    """Return the same by an exponential of blocks.

    It is linear in `e`, which is brought to the size of `a`, so that it does not rule the scaling.
    """
    size, scale = (np.max(np.absolute(x), axis=(-2, -1), keepdims=True) for x in (a, e))
    scale = np.where(scale > 0, np.where(size > 0, size, 1) / np.where(scale > 0, scale, 1), 1)
    n = a.shape[-1]
    return expm(blocks(a, e * scale))[..., :n, n:] / scale


def _run_log_frechet(y: Any, e: Any) -> Any:
    """Return the derivative along `e` of the logarithm, where it is `y`."""
    return each(lambda y, e: _log_along(y, e, scipy("linalg").expm, _solved), y, e)


def _there_log_frechet(y: Any, e: Any) -> Any:
    return _log_along(y, e, iterations.expm, iterations.sylvester)


def log_near_one(rest: Any, e: Any, one: Any) -> Any:
    """Return the derivative of the logarithm at `one + rest` along `e`, by Gauss's quadrature."""
    total: Any = 0
    for t, w in zip(*np.polynomial.legendre.leggauss(9), strict=True):
        b = np.linalg.inv(one + float(t + 1) / 2 * rest)
        total = total + float(w) / 2 * (b @ e @ b)
    return total


def _log_along(y: Any, e: Any, expm: Any, sylvester: Any) -> Any:
    """Return the derivative of the logarithm `y`, by roots until exp(y) is near to 1.

    log a = 2^k log a^(1 / 2^k), and the derivative of log at a is the integral over t from 0 to 1 of
    (1 + t (a - 1))^-1 e (1 + t (a - 1))^-1. The roots are exp(y / 2^j), which have no branches. All this is
    done for a multiple of a whose logarithm has no trace: of others roots and products overflow or vanish.

    Source:
        Al-Mohy, Higham & Relton (2013), Computing the Fréchet derivative of the matrix logarithm and
        estimating the condition number, SIAM J. Sci. Comput. 35; Higham (2008), (11.10).
    """
    one = identity(y)
    y, root_of_scale = without_trace(y, one)
    size = float(np.max(np.sum(np.absolute(y), axis=-2)))
    halvings = max(0, math.ceil(math.log2(size / 0.2))) if 0.2 < size < math.inf else 0
    for k in range(halvings):
        root = expm(y / 2.0 ** (k + 1))
        e = sylvester(root, root, e)
    total = log_near_one((expm(y / 2.0**halvings) if size else one) - one, e, one)
    return 2.0**halvings * total * root_of_scale * root_of_scale


def without_trace(y: Any, one: Any) -> tuple[Any, Any]:
    """Return y - s, whose trace is imaginary, and exp(-s / 2): log(c a) is log(a) + log(c).

    The derivative of the logarithm, where it is y, is the one where it is y - s, times exp(-s / 2) twice.
    """
    shift = np.sum(np.real(y) * one, axis=(-2, -1), keepdims=True) / max(1, y.shape[-1])
    return y - shift * one, np.exp(-shift / 2)


def _frechet_vjp(pattern: Pattern) -> VJP:
    to_a, to_e = pattern

    def back(ct: Any, *saved: Any) -> tuple[Any, ...]:
        a, *e, _ = saved
        ct_e = (bind("frechet", swapped(a), ct),) if to_e else ()
        return (_of_both(a, e[0], ct), *ct_e) if to_a else ct_e

    return VJP(back, keep=(1, 2) if to_a else (1,), params=True, transpose="" if to_a else MULTILINEAR)


def _of_both(a: Any, e: Any, ct: Any) -> Any:
    """Return the cotangent of a -> L(a, e), L that of the exponential.

    <ct, L(a, e)>, where L is the upper right block of exp([[a, e], [0, a]]), says of both blocks `a` what the
    derivative of exp at the transposed matrix along [[0, ct], [0, 0]] has in these places. It is linear in e,
    which is brought to the size of `a`, so that it does not rule the scaling.
    """
    n = a.shape[-1]
    scale = size_of(a) / size_of(e)
    corner = blocks(near(ct).zeros(ct.shape, ct.dtype), ct)
    full = bind("frechet", swapped(blocks(a, scale * e)), corner)
    first, second = (bind("slice", full, index=(..., s, s)) for s in (slice(0, n), slice(n, None)))
    return (first + second) / scale


for _name, _run_it, _rule in (
    ("regular", _run_regular, _written_regular),
    ("regularized", _run_regularized, _written_regularized),
):
    declare(
        _name,
        run=_run_it,
        vjp=by_argument(lambda ct, **_: ct, None),
        shape=lambda x, _, **__: x,
        batch=batch_in_front(_name),
        written=Written(_rule),
        stored=of_matrices("01", "01", {"function": one_of("logm", "sqrtm", "power")}, verify=same_shapes),
    )
declare(
    "frechet",
    run=elsewhere(_in_double(_run_frechet), _in_double(functools.partial(frechet_by, iterations.expm))),
    vjp=_frechet_vjp,
    shape=lambda a, e: Aval(a.shape, np.result_type(a.dtype, e.dtype)),
    batch=batch_in_front("frechet"),
    traits={STACKS},
    written=Written(late(_LOOPS, "frechet")),
    stored=of_matrices("01", "01", verify=same_shapes, since=2),
)
declare(
    "log_frechet",
    run=elsewhere(_in_double(_run_log_frechet), _in_double(_there_log_frechet)),
    vjp=solver_vjp(
        lambda ct, y: bind("log_frechet", swapped(y), ct),
        # the result solves L(y, x) = e, L that of the exponential, which has no branches
        lambda ct_e, x, y: -_of_both(y, x, ct_e),
    ),
    shape=lambda y, e: Aval(y.shape, np.result_type(y.dtype, e.dtype)),
    batch=batch_in_front("log_frechet"),
    traits={STACKS},
    written=Written(late(_LOOPS, "log_frechet")),
    stored=of_matrices("01", "01", verify=same_shapes),
)


# ---- Sylvester's equation


def _run_sylvester(a: Any, b: Any, q: Any) -> Any:
    dtype = np.result_type(a.dtype, b.dtype, q.dtype)
    if not q.size:
        return np.zeros(q.shape, dtype)
    return each(_solved, a, b, q).astype(dtype, copy=False)


def _solved(a: Any, b: Any, q: Any) -> Any:
    """Return x with a x + x b = q, as SciPy's solve_sylvester: Bartels & Stewart (1972), Comm. ACM 15.

    It is solved in units of the matrices: LAPACK takes eigenvalues below 1e-290 for zero.
    """
    linalg = scipy("linalg")
    size, unit = power_of_two(a, b), power_of_two(q)
    a, b, q = a / size, b / size, q / unit
    kind = "complex" if any(m.dtype.kind == "c" for m in (a, b, q)) else "real"
    (r, u), (s, v) = (linalg.schur(m, output=kind) for m in (a, b.conj().T))
    right = u.conj().T @ q @ v
    (trsyl,) = linalg.get_lapack_funcs(("trsyl",), (r, s, right))
    y, scale, info = trsyl(r, s, right, tranb="C")
    if info:
        raise LinAlgError(
            "solve_sylvester: the equation a x + x b = q is singular: an eigenvalue of a is one of -b"
        )
    return u @ (y / scale * unit / size) @ v.conj().T


def power_of_two(*matrices: Any) -> float:
    """Return a number near to the largest element of matrices, by which they are divided exactly."""
    largest = max(float(np.max(np.absolute(m))) for m in matrices)
    return 2.0 ** (math.frexp(largest)[1] - 1) if 0 < largest < math.inf else 1.0


def _there_sylvester(a: Any, b: Any, q: Any) -> Any:
    dtype = np.result_type(a.dtype, b.dtype, q.dtype)
    if not q.size:
        return near(q).zeros(q.shape, dtype)
    return iterations.sylvester(*(x.astype(dtype, copy=False) for x in (a, b, q)))


def _sylvester_vjp(pattern: Pattern) -> VJP:
    to_a, to_b, to_q = pattern

    def back(ct: Any, *saved: Any) -> tuple[Any, ...]:
        *out, a, b, _ = saved
        y = bind("sylvester", swapped(a), swapped(b), ct)
        found = [-matrix_product(y, swapped(out[0]))] if to_a else []
        found += [-matrix_product(swapped(out[0]), y)] if to_b else []
        return (*found, y) if to_q else tuple(found)

    own = to_a or to_b
    return VJP(back, keep=(OUT, 1, 2) if own else (1, 2), params=True, transpose="" if own else MULTILINEAR)


declare(
    "sylvester",
    run=elsewhere(_run_sylvester, _there_sylvester),
    vjp=_sylvester_vjp,
    shape=lambda a, b, q: Aval(q.shape, np.result_type(a.dtype, b.dtype, q.dtype)),
    batch=batch_in_front("sylvester"),
    traits={STACKS},
    stored=of_matrices(
        "012",
        "01",
        verify=lambda a, b, q: q.shape == (*a.shape[:-1], b.shape[-1]) and a.shape[:-2] == b.shape[:-2],
    ),
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


def _written_polar(a: Any) -> tuple[Any, Any]:
    w, s, vh = bind("svd", a, full_matrices=False)
    return matrix_product(w, vh), matrix_product(adjoint(vh) * as_row(s), vh)


declare(
    "polar",  # of matrices with at least as many rows as columns
    run=_run_polar,
    vjp=lambda _: VJP(_polar, keep=(OUT,), exact=True),
    shape=lambda a: (a, Aval((*a.shape[:-2], a.shape[-1], a.shape[-1]), a.dtype)),
    batch=batch_in_front("polar"),
    many=True,
    written=Written(_written_polar),
    stored=of_matrices("0", verify=lambda a: a.shape[-2] >= a.shape[-1]),
)
