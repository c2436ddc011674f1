"""Factorizations: Cholesky, QR, Schur, eigenvalues and singular values, in stacks of any shape.

Rules are written for the pairing Re sum(ct * tangent), so an adjoint is a transpose without conjugation: the
cotangent of X -> B X C is B^T ct C^T. `a.T` and `a.H` below stand for transposes of the last two axes.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.linalg import LinAlgError

from fgrad.backend.devices import elsewhere
from fgrad.core.aval import Aval
from fgrad.core.dispatch import bind, unary
from fgrad.core.placement import near
from fgrad.core.primitive import OUT, VJP, MatrixLoop, by_argument, declare
from fgrad.core.stored import is_flag, of_matrices, one_of
from fgrad.ops.compiled import backend
from fgrad.ops.foreign import each, scipy
from fgrad.ops.linear import batch_in_front, convert, real, real_dtype
from fgrad.ops.matrices import (
    adjoint,
    as_column,
    as_row,
    below,
    columns,
    conjugate,
    matrix_product,
    of_diagonal,
    on_diagonal,
    rows,
    swapped,
)
from fgrad.ops.systems import solve
from fgrad.ops.triangular import solve_triangular, triangle
from fgrad.ops.undetermined import guarded, negligible, over_gaps


def _from_triangle(ct: Any, *, lower: bool) -> Any:
    """Return the cotangent of the triangle that was read, from that of the Hermitian matrix it stands for."""
    weights = below(ct, ct.shape[-1], real_dtype(ct.dtype))
    return (ct + adjoint(ct)) * (weights if lower else weights.T)


def _cholesky(ct: Any, out: Any) -> Any:
    # dl = l Phi(l^-1 da l^-H), Phi the lower triangle with half the diagonal: Giles (2008) and Murray (2016),
    # Differentiation of the Cholesky decomposition
    phi = matrix_product(swapped(out), ct) * below(out, out.shape[-1], real_dtype(out.dtype))
    left = solve_triangular(swapped(out), phi, lower=False)
    return _from_triangle(swapped(solve_triangular(adjoint(out), swapped(left), lower=False)), lower=True)


def _run_cholesky(a: Any) -> Any:
    found = backend("small_matrices").factor(a) if a.ndim > 2 else None
    return np.linalg.cholesky(a) if found is None else found


declare(
    "cholesky",
    run=_run_cholesky,
    vjp=by_argument(_cholesky, exact=True),
    shape=lambda a: a,
    batch=batch_in_front("cholesky"),
    matrices=MatrixLoop("cholesky_lo", checked=1),
    stored=of_matrices("0", "0"),
)


def _run_cholesky_or_nan(a: Any) -> Any:
    try:
        return _run_cholesky(a)
    except LinAlgError:
        if a.ndim > 2:
            return each(_run_cholesky_or_nan, a)
        return np.tril(np.full_like(a, np.nan))


def _cholesky_or_nan(ct: Any, out: Any) -> Any:
    n = out.shape[-1]
    lower = triangle(out, n, n, bool, lower=True)  # NaN does not get out of it, in forward mode either
    return _cholesky(bind("where", lower, ct, 0), out)


declare(
    "cholesky_or_nan",  # which refuses no matrix: its factor is NaN
    run=_run_cholesky_or_nan,
    vjp=by_argument(_cholesky_or_nan, exact=True),
    shape=lambda a: a,
    batch=batch_in_front("cholesky_or_nan"),
    stored=of_matrices("0", "0"),
)


def _qr(ct: Any, out: Any, x: Any) -> tuple[Any]:
    """Return the cotangent of a = q r.

    Tall: c = q^H da r^-1 gives q^H dq = L(c) - L(c)^H + i Im diag(c), L the part below the diagonal, because
    r has a real diagonal. Wide: the columns behind the square are q^H times those of `a`.

    Source:
        Seeger, Hetzel, Dai, Meissner & Lawrence (2017), Auto-differentiating linear algebra; Walter & Lehmann
        (2018), Algorithmic differentiation of linear algebra functions; Roberts & Roberts (2020), QR and LQ
        decomposition matrix backpropagation algorithms for square, wide, and deep matrices.
    """
    (ct_q, ct_r), (q, r) = ct, out
    m, n = x.shape[-2:]
    k = min(m, n)
    square, q1 = columns(r if m <= n else rows(r, 0, k), 0, k), columns(q, 0, k)
    ct_q1 = None if ct_q is None else columns(ct_q, 0, k)
    behind = None
    if n > m and ct_r is not None:
        ct_rest = columns(ct_r, k, None)
        behind = matrix_product(conjugate(q1), ct_rest)
        more = matrix_product(conjugate(columns(x, k, None)), adjoint(ct_rest))
        ct_q1 = more if ct_q1 is None else ct_q1 + more
    w: Any = None if ct_q1 is None else matrix_product(swapped(q1), ct_q1)
    if q.shape[-1] > k and ct_q is not None:
        ct_q2, q2 = columns(ct_q, k, None), columns(q, k, None)
        _demand_no_basis(q2, ct_q2, ct_q)
        turn = matrix_product(swapped(q2), ct_q1) - adjoint(matrix_product(swapped(q1), ct_q2))
        ct_q1 = matrix_product(conjugate(q1), w) + matrix_product(conjugate(q2), turn)
    if ct_r is not None:
        part = matrix_product(columns(ct_r if m <= n else rows(ct_r, 0, k), 0, k), swapped(square))
        w = -part if w is None else w - part
    upper = below(w, k, real_dtype(w.dtype)).T * w
    inner = -matrix_product(conjugate(q1), upper + adjoint(upper))
    if ct_q1 is not None:
        inner = inner + ct_q1
    ct_a = swapped(solve(square, swapped(inner), "qr"))
    if n <= m:
        return (ct_a,)
    if behind is None:
        return (bind("slice_backward", ct_a, shape=x.shape, index=(..., slice(0, k))),)
    return (bind("concatenate", ct_a, behind, axis=len(x.shape) - 1),)


def _demand_no_basis(vectors: Any, ct: Any, like: Any) -> None:
    """Refuse a cotangent of orthonormal vectors that changes as they turn within their span."""
    own = matrix_product(swapped(vectors), ct)
    nothing = near(ct).zeros(1, real_dtype(ct.dtype))
    guarded(own - adjoint(own), near(ct).ones((1, 1), bool), nothing, like, kind="null space", both=False)


def _shape_qr(a: Aval, *, mode: str) -> tuple[Aval, Aval]:
    *lead, m, n = a.shape
    k = m if mode == "complete" else min(m, n)
    return Aval((*lead, m, k), a.dtype), Aval((*lead, k, n), a.dtype)


declare(
    "qr",
    run=lambda a, *, mode: tuple(np.linalg.qr(a, mode)),
    vjp=lambda _: VJP(_qr, keep=(OUT, 1), exact=True),
    shape=_shape_qr,
    batch=batch_in_front("qr"),
    many=True,
    checks=True,
    stored=of_matrices("0", params={"mode": one_of("reduced", "complete")}),
)


def _refuse(ct: Any) -> NoReturn:
    raise TypeError("qr with mode='raw' has no rule for Tensors; use mode='reduced' or 'complete'")


declare(
    "qr_raw",  # Householder's reflectors below the diagonal of r, all transposed, and their factors
    run=lambda a: tuple(np.linalg.qr(a, "raw")),
    vjp=lambda _: VJP(_refuse),
    shape=lambda a: (
        Aval((*a.shape[:-2], *a.shape[:-3:-1]), a.dtype),
        Aval((*a.shape[:-2], min(a.shape[-2:])), a.dtype),
    ),
    batch=batch_in_front("qr_raw"),
    many=True,
    stored=of_matrices("0"),
)


def _eigh(ct: Any, out: Any, params: dict[str, Any]) -> tuple[Any]:
    """Return the cotangent of the triangle that was read.

    g = v^H da v gives dw = diag(g) and v^H dv = g_ij / (w_j - w_i) off the diagonal. Where w_i = w_j the
    quotient has no meaning: its cotangent has to be zero there, and is, if nothing depends on the choice of
    vectors. But then it is zero also for v @ f(w) @ v.T, of which f'(w_i) g_ij is left: so where w has a
    cotangent too, nothing can be told.

    Source:
        Giles (2008), An extended collection of matrix derivative results, 3.1; Seeger et al. (2017).
    """
    (ct_w, ct_v), (w, v) = ct, out
    middle = None if ct_w is None else on_diagonal(convert(ct_w, v.dtype))
    if ct_v is not None:
        n = matrix_product(swapped(v), ct_v)
        turn = over_gaps(n - adjoint(n), w, -1, "eigenvalues", [ct_v], strict=ct_w is not None)
        middle = turn / 2 if middle is None else middle + turn / 2
    full = matrix_product(matrix_product(conjugate(v), middle), swapped(v))
    return (_from_triangle(full, lower=params["uplo"] == "L"),)


declare(
    "eigh",
    run=lambda a, *, uplo: tuple(np.linalg.eigh(a, uplo)),
    vjp=lambda _: VJP(_eigh, keep=(OUT,), params=True, exact=True),
    shape=lambda a, *, uplo: (Aval(a.shape[:-1], real_dtype(a.dtype)), a),
    batch=batch_in_front("eigh"),
    matrices=MatrixLoop("eigh", finite=(0,), checked=1),
    many=True,
    checks=True,
    stored=of_matrices("0", "0", {"uplo": one_of("L", "U")}),
)


def _eig(ct: Any, out: Any) -> tuple[Any]:
    """Return the cotangent of a matrix with eigenvectors of length one, whose phases must not matter.

    g = v^-1 da v gives dw = diag(g), dv = v (f - diag(v^H v f)) with f_ij = g_ij / (w_j - w_i).

    Source:
        Giles (2008), 3.1; Boeddeker, Hanebrink, Drude, Heymann & Haeb-Umbach (2017), On the computation of
        complex-valued gradients with application to statistically optimum beamforming, 4.20.
    """
    (ct_w, ct_v), (w, v) = ct, out
    middle = None if ct_w is None else on_diagonal(ct_w)
    if ct_v is not None:
        n = matrix_product(swapped(v), ct_v)
        length = as_row(real(of_diagonal(n)))
        n = n - matrix_product(swapped(v), conjugate(v)) * length
        turn = over_gaps(n, w, -1, "eigenvalues", [ct_v], strict=ct_w is not None)
        middle = turn if middle is None else middle + turn
    return (solve(swapped(v), matrix_product(middle, swapped(v)), "eig"),)


def _run_eig(a: Any) -> tuple[Any, Any]:
    w, v = np.linalg.eig(a)
    kind = np.result_type(a.dtype, np.complex64)
    return w.astype(kind, copy=False), v.astype(kind, copy=False)


def _shape_eig(a: Aval) -> tuple[Aval, Aval]:
    kind = np.result_type(a.dtype, np.complex64)
    return Aval(a.shape[:-1], kind), Aval(a.shape, kind)


declare(
    "eig",
    run=_run_eig,
    vjp=lambda _: VJP(_eig, keep=(OUT,)),
    shape=_shape_eig,
    batch=batch_in_front("eig"),
    matrices=MatrixLoop("eig", finite=(0,), checked=1),
    many=True,
    checks=True,
    stored=of_matrices("0", "0"),
)


def _schur(ct: Any, out: Any) -> tuple[Any]:
    """Return the cotangent of a = z t z^H, t upper triangular, from results without the phases of z.

    m = z^H da z and w = z^H dz, skew-Hermitian, give dt = m + t w - w t, which is zero below the diagonal.
    The part x of w there solves L(t x - x t) = -L(m), where L takes what is below the diagonal: products of t
    with the other parts of w are above it. The diagonal of w is the phases. Differentiate z t z^H.
    """
    (ct_t, ct_z), (t, z) = ct, out
    n = t.shape[-1]
    if n == 0:
        return (ct_z if ct_t is None else ct_t,)
    upper, eye = triangle(t, n, n, bool, lower=False), near(t).eye(n, dtype=bool)
    w, size = of_diagonal(t), unary("absolute", t)
    gap = unary("absolute", as_row(w) - as_column(w))
    tiny = np.asarray(8 * n * np.finfo(t.dtype).eps, gap.dtype)
    bad = {
        "blocks": bind("greater", _extreme("max", bind("where", upper, 0, size)), 0),
        "triangle": bind(
            "less_equal", _extreme("min", bind("where", eye, np.inf, gap)), _extreme("max", size) * tiny
        ),
    }
    for kind, where in bad.items():
        ct_t, ct_z = (c if c is None else guarded(c, where, w, c, kind=kind) for c in (ct_t, ct_z))
    ct_m: Any = None
    ct_w: Any = None
    if ct_t is not None:
        ct_m = bind("where", upper, ct_t, 0)
        ct_w = matrix_product(swapped(t), ct_m) - matrix_product(ct_m, swapped(t))
    if ct_z is not None:
        own = matrix_product(swapped(z), ct_z)
        ct_w = own if ct_w is None else ct_w + own
    turn = ct_w - adjoint(ct_w)
    turn = guarded(turn, eye, w, *(c for c in (ct_t, ct_z) if c is not None), kind="phase", both=False)
    steps = on_diagonal(near(t).arange(n, dtype=t.dtype))
    t = bind("where", bind("logical_or", *bad.values()), steps, t)
    below_it = _turned(t, turn)
    ct_m = -below_it if ct_m is None else ct_m - below_it
    return (matrix_product(matrix_product(conjugate(z), ct_m), swapped(z)),)


def _extreme(kind: str, x: Any) -> Any:
    """Return the largest, or smallest, element of each matrix, as a matrix of one element."""
    return as_column(as_column(bind(kind, x, axes=(len(x.shape) - 2, len(x.shape) - 1))))


def _turned(t: Any, ct: Any) -> Any:
    """Return the cotangent of c, from that of x below the diagonal, where L(t x - x t) = L(c).

    The blocks of halves solve t22 x21 - x21 t11 = c21, and likewise c11 - t12 x21 and c22 + x21 t12.
    """
    n = t.shape[-1]
    k = n // 2
    if not k:
        return near(ct).zeros(ct.shape, ct.dtype)
    first, last = slice(0, k), slice(k, None)

    def block(x: Any, i: slice, j: slice) -> Any:
        return bind("slice", x, index=(..., i, j))

    ct11, ct22 = (_turned(block(t, i, i), block(ct, i, i)) for i in (first, last))
    above = swapped(block(t, first, last))
    ct21 = block(ct, last, first) - matrix_product(above, ct11) + matrix_product(ct22, above)
    ct21 = bind("sylvester", swapped(block(t, last, last)), -swapped(block(t, first, first)), ct21)
    axis = len(ct.shape) - 1
    none = near(ct).zeros((*ct.shape[:-2], k, n - k), ct.dtype)
    top = bind("concatenate", ct11, none, axis=axis)
    return bind("concatenate", top, bind("concatenate", ct21, ct22, axis=axis), axis=axis - 1)


def _run_schur(a: Any) -> tuple[Any, Any]:
    if not a.size:
        return a, a
    t, z = (np.empty(a.shape, a.dtype) for _ in range(2))
    for i in np.ndindex(a.shape[:-2]):
        t[i], z[i] = scipy("linalg").schur(a[i], check_finite=False)
    return t, z


def _there_schur(a: Any) -> tuple[Any, Any]:
    """Return the same by eigenvectors, of which there have to be as many as rows."""
    if not a.size:
        return a, a
    w, v = np.linalg.eig(a)
    if a.dtype.kind != "c":
        if np.any(w.imag != 0):
            raise NotImplementedError(
                "schur: on a device, real matrices may have no complex eigenvalues: use output='complex'"
            )
        v = v.real
    z = np.linalg.qr(v)[0]
    t = np.swapaxes(np.conjugate(z), -1, -2) @ a @ z
    upper = triangle(a, a.shape[-1], a.shape[-1], bool, lower=False)
    size = np.max(np.absolute(t))
    if np.max(np.absolute(np.where(upper, 0, t))) > 1000 * np.finfo(t.dtype).eps * size:
        raise LinAlgError("schur: on a device, matrices have to have as many eigenvectors as rows")
    return np.where(upper, t, 0), z


declare(
    "schur",  # of real matrices the real form, which has blocks of two rows for pairs of complex eigenvalues
    run=elsewhere(_run_schur, _there_schur),
    vjp=lambda _: VJP(_schur, keep=(OUT,), exact=True),
    shape=lambda a: (a, a),
    batch=batch_in_front("schur"),
    many=True,
    checks=True,
    stored=of_matrices("0", "0"),
)


def _svd(ct: Any, out: Any) -> tuple[Any]:
    """Return the cotangent of a = u diag(s) v^H, of either size of u and v.

    p = u^H da v = h + k, a Hermitian and a skew part, gives ds = diag(h) and, off the diagonal,
    u^H du = h_ij / (s_j - s_i) + k_ij / (s_j + s_i), v^H dv the same with a minus. The phase that u_i and
    v_i have in common is not determined and must not matter.

    Source:
        Townsend (2016), Differentiating the singular value decomposition; Wan & Zhang (2019), Automatic
        differentiation for complex valued SVD, arXiv:1909.02659; Seeger et al. (2017).
    """
    (ct_u, ct_s, ct_vh), (u, s, vh) = ct, out
    k = s.shape[-1]
    strict = ct_s is not None
    u1, vh1 = columns(u, 0, k), rows(vh, 0, k)
    likes = [c for c in (ct_u, ct_vh) if c is not None]
    middle = None if ct_s is None else on_diagonal(convert(ct_s, u.dtype))
    if likes:
        skews, outside = [], []
        for vectors, c in ((u, ct_u), (adjoint(vh), None if ct_vh is None else adjoint(ct_vh))):
            skew, rest = (None, None) if c is None else _turns(vectors, c, s, strict=strict)
            skews.append(skew)
            outside.append(rest)
        left: Any
        right: Any
        left, right = skews
        if left is None:
            common, apart = right, -right
        else:
            common, apart = (left, left) if right is None else (left + right, left - right)
        turn = over_gaps(common, s, -1, "singular values", likes, strict=strict)
        turn = (turn + over_gaps(apart, s, 1, "singular values", likes, strict=strict)) / 2
        middle = turn if middle is None else middle + turn
    full = matrix_product(matrix_product(conjugate(u1), middle), conjugate(vh1))
    if likes and outside[0] is not None:
        full = full + matrix_product(outside[0], conjugate(vh1))
    if likes and outside[1] is not None:
        full = full + matrix_product(conjugate(u1), adjoint(outside[1]))
    return (full,)


def _turns(vectors: Any, ct: Any, s: Any, *, strict: bool) -> tuple[Any, Any]:
    """Return what a cotangent of singular vectors says of turns among them, and out of their span."""
    k = s.shape[-1]
    length, count = vectors.shape[-2:]
    first, ct1 = columns(vectors, 0, k), columns(ct, 0, k)
    n = matrix_product(swapped(first), ct1)
    if length == k:
        return n - adjoint(n), None
    if count > k:
        rest, ct2 = columns(vectors, k, None), columns(ct, k, None)
        _demand_no_basis(rest, ct2, ct)
        out = matrix_product(swapped(rest), ct1) - adjoint(matrix_product(swapped(first), ct2))
        out = matrix_product(conjugate(rest), out)
    else:
        out = ct1 - matrix_product(conjugate(first), n)
    if k == 0:
        return n - adjoint(n), out
    size = as_row(s)
    bad = negligible(size, s)
    out = guarded(out, bad, s, ct, kind="zero", what="singular values", strict=strict)
    return n - adjoint(n), out / bind("where", bad, 1, size)


def _shape_svd(a: Aval, *, full_matrices: bool) -> tuple[Aval, Aval, Aval]:
    *lead, m, n = a.shape
    k = min(m, n)
    return (
        Aval((*lead, m, m if full_matrices else k), a.dtype),
        Aval((*lead, k), real_dtype(a.dtype)),
        Aval((*lead, n if full_matrices else k, n), a.dtype),
    )


declare(
    "svd",
    run=lambda a, *, full_matrices: tuple(np.linalg.svd(a, full_matrices)),
    vjp=lambda _: VJP(_svd, keep=(OUT,), exact=True),
    shape=_shape_svd,
    batch=batch_in_front("svd"),
    matrices=MatrixLoop("svd", finite=(0,), checked=2),
    many=True,
    checks=True,
    stored=of_matrices("0", params={"full_matrices": is_flag}),
)
