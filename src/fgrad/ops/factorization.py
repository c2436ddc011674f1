"""Rows of linear algebra: systems, determinants and factorizations of matrices, in stacks of any shape.

Rules are written for the pairing Re sum(ct * tangent), so an adjoint is a transpose without conjugation: the
cotangent of X -> B X C is B^T ct C^T. `a.T` and `a.H` below stand for transposes of the last two axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import as_array
from fgrad.core.aval import Aval, aval_of
from fgrad.core.placement import near
from fgrad.core.primitive import EACH, OUT, Pattern, Primitive, Pull, Rule, by_argument, register
from fgrad.core.tensor import Tensor, bind, unary
from fgrad.ops.contraction import contract
from fgrad.ops.linear import broadcast_to, convert, imag, real, reshape, sum_axes, transpose, with_rank

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW"  # of the axes before a matrix


def matrix_product(x: Any, y: Any) -> Any:
    """Return the products of two stacks of matrices with the same axes in front."""
    if x.__class__ is not Tensor and y.__class__ is not Tensor:
        return np.matmul(x, y)
    lead = _LETTERS[: len(x.shape) - 2]
    return contract(x, y, lead + "XY", lead + "YZ", lead + "XZ")


def swapped(x: Any) -> Any:
    """Return transposed matrices."""
    n = len(x.shape)
    return transpose(x, (*range(n - 2), n - 1, n - 2))


def conjugate(x: Any) -> Any:
    """Return the complex conjugate."""
    return bind("conjugate", x) if x.dtype.kind == "c" else x


def adjoint(x: Any) -> Any:
    """Return transposed conjugate matrices."""
    return swapped(conjugate(x))


def columns(x: Any, start: int | None, stop: int | None) -> Any:
    """Return some columns of matrices."""
    return bind("slice", x, index=(..., slice(start, stop)))


def rows(x: Any, start: int | None, stop: int | None) -> Any:
    """Return some rows of matrices."""
    return bind("slice", x, index=(..., slice(start, stop), slice(None)))


def as_column(x: Any) -> Any:
    """Return vectors as matrices of one column."""
    return reshape(x, (*x.shape, 1))


def as_row(x: Any) -> Any:
    """Return vectors as matrices of one row."""
    return reshape(x, (*x.shape[:-1], 1, x.shape[-1]))


def on_diagonal(x: Any) -> Any:
    """Return the diagonal matrices of vectors."""
    return as_column(x) * near(x).eye(x.shape[-1], dtype=x.dtype)


def of_diagonal(x: Any) -> Any:
    """Return the diagonals of square matrices as vectors."""
    return sum_axes(x * near(x).eye(x.shape[-1], dtype=x.dtype), (len(x.shape) - 1,))


def _real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.empty(0, dtype).real.dtype


def _mapped_rest(row: str) -> Rule:
    """Return the batch rule of a row of one stack of matrices: one more axis in front."""
    return lambda _, x, **params: bind(row, x, **params)


# ---- what is not determined must not matter

_LOST = "so the gradient does not exist"
_PAIR = "{where}the {what} (i, j) = ({i}, {j}), {wi} and {wj}, are equal"
_MESSAGES = {
    "vectors": (
        f"{_PAIR}: their vectors are determined only up to a rotation, and the result depends on it, "
        f"{_LOST}. "
        "Use functions of the {what} alone or of the whole subspace (v @ v.T), or perturb the matrix"
    ),
    "vectors, along a direction": (
        f"{_PAIR}: their vectors have no derivative along a direction. Higher derivatives need it, even "
        "where the result does not depend on it. Use functions of the {what} alone, or perturb the matrix"
    ),
    "matrix function": (
        f"{_PAIR}, and the result depends on {{what}} and on vectors: the gradient of such a function (as of "
        "v @ f(w) @ v.T) cannot be told from one basis. Where it is a sum, give the terms of vectors alone a "
        "factorization of their own; else perturb the matrix"
    ),
    "zero": (
        "{where}the singular value {j}, {wj}, is zero: its singular vectors change infinitely fast, and the "
        f"result depends on them, {_LOST}. Leave out the vectors of zero singular values, or perturb the "
        "matrix"
    ),
    "phase": (
        "{where}vector {i} is determined only up to a phase exp(1j t), and the result depends on it, "
        f"{_LOST}. Use functions without the phase, as abs(v) or v @ v.conj().T"
    ),
    "null space": (
        "{where}the last columns of a full orthogonal matrix span a null space, whose basis is not "
        f"determined, and the result depends on it (entry {{i}}, {{j}}), {_LOST}. Leave them out "
        "(full_matrices=False, mode='reduced'), or use the projector on their span"
    ),
    "dropped": (
        "pinv: {where}the tolerance (rcond) drops singular values that are not zero, and the derivative of "
        "what is left needs them. Use a smaller rcond, or write it with svd: "
        "(vh[:k].conj().T / s[:k]) @ u[:, :k].conj().T"
    ),
    "singular": "slogdet: {where}the matrix is singular, where the logarithm of |det| has no finite slope",
}
_ALONG = {"vectors": "vectors, along a direction"}


def _guard(
    x: Any,
    bad: Any,
    w: Any,
    *likes: Any,
    kind: str,
    what: str = "eigenvalues",
    both: bool = True,
    strict: bool = False,
    second: bool = False,
) -> Any:
    """Return `x` with zeros where it is `bad`; there it has to be negligible beside `likes`.

    Args:
        x: matrices that a rule divides, or drops, where that has no meaning.
        bad: where it has none.
        w: eigenvalues or singular values, for the message.
        likes: what `x` is made of, for the scale.
        kind: the message.
        what: what the message calls `w`.
        both: whether cotangents of the result have to be negligible there too, otherwise they are dropped.
        strict: whether there must be no bad place at all.
        second: whether `x` is itself a cotangent of a guarded result.
    """
    params = {"kind": kind, "what": what, "both": both, "strict": strict, "second": second, "look": True}
    return bind("guard", x, bad, w, *likes, **params)


def _run_guard(
    x: Any,
    bad: Any,
    w: Any,
    *likes: Any,
    kind: str,
    what: str,
    both: bool,
    strict: bool,
    second: bool,
    look: bool,
) -> Any:
    if not look:
        return np.where(bad, x.dtype.type(0), x)
    bad = np.broadcast_to(bad, x.shape)
    if not bad.any():
        return x
    if strict:
        wrong = bad
    else:
        eps = float(np.finfo(x.dtype).eps)
        scale: Any = eps**0.25  # where terms of order one cancel, only rounding errors are left of `likes`
        for like in likes:
            scale = np.maximum(scale, np.abs(like).max(axis=(-2, -1), keepdims=True, initial=0.0))
        wrong = bad & (np.abs(x) > math.sqrt(eps) * scale)
    if wrong.any():
        *lead, i, j = map(int, np.argwhere(wrong)[0])
        n = w.shape[-1]
        values = np.broadcast_to(w, (*x.shape[:-2], n))[tuple(lead)]
        raise LinAlgError(
            _MESSAGES["matrix function" if strict else kind].format(
                where=f"in matrix {tuple(lead)}, " if lead else "",
                what=what,
                i=i,
                j=j,
                wi=values[i] if i < n else 0.0,
                wj=values[j] if j < n else 0.0,
            )
        )
    return np.where(bad, x.dtype.type(0), x)


def _guard_pull(pattern: Pattern) -> Pull | None:
    if not pattern[0]:
        return None
    none = (None,) * (sum(pattern) - 1)

    def back(ct: Any, bad: Any, w: Any, params: dict[str, Any]) -> tuple[Any, ...]:
        # a transpose of the first rule may drop what generic cotangents have shown to be of no consequence
        if params["both"] and (params["look"] or params["second"]):
            kind = params["kind"]
            kind = _ALONG.get(kind, kind)
            return _guard(ct, bad, w, ct, kind=kind, what=params["what"], second=True), *none
        return bind("where", bad, 0, ct), *none

    return Pull(back, keep=(2, 3), params=True, exact=True)


def _batch_guard(mapped: Pattern, *values: Any, **params: Any) -> Any:
    size = next(v.shape[0] for v, m in zip(values, mapped, strict=True) if m)
    x, bad, w, *likes = (
        v if m else broadcast_to(v, (size, *v.shape)) for v, m in zip(values, mapped, strict=True)
    )
    return bind("guard", x, with_rank(bad, len(x.shape)), w, *likes, **params)


register(
    Primitive(
        "guard",
        run=_run_guard,
        pull=_guard_pull,
        shape=lambda x, *_, **__: aval_of(x),
        batch=_batch_guard,
    )
).blind = lambda params: params | {"look": False}


def _negligible(x: Any, w: Any) -> Any:
    """Return where matrices that are made of the values `w` hold rounding errors."""
    size = unary("absolute", w)
    top = bind("max", size, axes=(len(w.shape) - 1,))
    limit = top * np.asarray(8 * w.shape[-1] * np.finfo(w.dtype).eps, size.dtype)
    return bind("less_equal", unary("absolute", x), reshape(limit, (*limit.shape, 1, 1)))


def _over(x: Any, w: Any, sign: int, what: str, likes: Sequence[Any], *, strict: bool) -> Any:
    """Return x_ij / (w_j + sign w_i), and zero on the diagonal for sign -1 and where both vanish."""
    n = w.shape[-1]
    if n == 0:
        return x
    gap = as_row(w) + as_column(w) if sign > 0 else as_row(w) - as_column(w)
    bad, eye = _negligible(gap, w), near(w).eye(n, dtype=bool)
    if sign < 0:
        x = _guard(x, eye, w, *likes, kind="phase", both=False)
    free = bind("logical_and", bad, ~eye) if sign < 0 or x.dtype.kind != "c" else bad
    x = _guard(x, free, w, *likes, kind="vectors", what=what, strict=strict)
    return x / bind("where", bind("logical_or", bad, eye) if sign < 0 else bad, 1, gap)


# ---- systems and determinants


def solve(a: Any, b: Any, check: str = "") -> Any:
    """Return the solutions x of a x = b, for stacks of matrices a and b.

    `check` says what `a` is made of, if it is to be tested for singularity beyond rounding.
    """
    return bind("solve", a, b, check=check)


def inverse(a: Any) -> Any:
    """Return inverse matrices."""
    return solve(a, near(a).eye(a.shape[-1], dtype=a.dtype))


_SINGULAR = {
    "qr": "qr: the first columns of the matrix are linearly dependent (column {i}), where its factors have "
    "no derivative",
    "eig": "eig: the matrix is defective to rounding (its eigenvectors are linearly dependent), where "
    "eigenvalues and eigenvectors have no derivative",
}


def _run_solve(a: Any, b: Any, *, check: str) -> Any:
    if check and a.size:
        tiny = 8 * a.shape[-1] * np.finfo(a.dtype).eps
        if check == "qr":
            diagonal = np.abs(np.diagonal(a, axis1=-2, axis2=-1))
            low = diagonal <= tiny * np.linalg.norm(a, axis=-2)
        else:
            s = np.linalg.svd(a, compute_uv=False)
            low = s[..., -1:] <= tiny * s[..., :1]
        if low.any():
            raise LinAlgError(_SINGULAR[check].format(i=int(np.argwhere(low)[0][-1])))
    return np.linalg.solve(a, b)


def _solve_pull(pattern: Pattern) -> Pull:
    to_a, to_b = pattern

    def back(ct: Any, *saved: Any) -> tuple[Any, ...]:
        *out, a, params = saved
        ct_b = solve(swapped(a), ct, params["check"])
        # Giles (2008), An extended collection of matrix derivative results, 2.2.3
        ct_a = [-matrix_product(ct_b, swapped(out[0]))] if to_a else []
        return (*ct_a, ct_b) if to_b else tuple(ct_a)

    return Pull(back, keep=(OUT, 1) if to_a else (1,), params=True, transpose="" if to_a else EACH)


def _shape_solve(a: Aval, b: Aval, *, check: str) -> Aval:
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return Aval((*lead, *b.shape[-2:]), np.result_type(a.dtype, b.dtype))


def _batch_solve(mapped: Pattern, a: Any, b: Any, *, check: str) -> Any:
    if not mapped[0] and len(a.shape) == 2:  # one matrix, and every example a few columns more
        axes = (*range(len(b.shape) - 2), len(b.shape) - 1)
        n, wide = b.shape[-2], tuple(b.shape[i] for i in axes)
        joined = reshape(transpose(b, (len(b.shape) - 2, *axes)), (n, math.prod(wide)))
        apart = reshape(solve(a, joined, check), (n, *wide))
        k = len(wide)
        return transpose(apart, (*range(1, k), 0, k))
    rank = max(len(v.shape) - m for v, m in zip((a, b), mapped, strict=True)) + 1
    a, b = (with_rank(v, rank) if m else v for v, m in zip((a, b), mapped, strict=True))
    return solve(a, b, check)


register(Primitive("solve", run=_run_solve, pull=_solve_pull, shape=_shape_solve, batch=_batch_solve))


def _phase_and_factors(a: Any) -> tuple[Any, Any, Any, Any]:
    u, s, vh = np.linalg.svd(a)
    return np.linalg.det(u) * np.linalg.det(vh), u, s, vh


def _transposed_inverse(a: Any, det: Any) -> Any:
    """Return transposed inverses; None where a matrix is too near to a singular one to trust its inverse."""
    if det.__class__ is DeviceArray or not np.all(np.isfinite(det) & (det != 0)):
        return None  # from a device nothing is read
    b = np.swapaxes(np.linalg.inv(a), -1, -2)
    sizes = [np.abs(x).sum(axis=-1).max(axis=-1, initial=0.0) for x in (a, b)]
    return b if np.all(sizes[0] * sizes[1] < np.finfo(a.dtype).eps ** -0.4) else None


def _run_cofactor(a: Any) -> Any:
    """Return the matrix of cofactors, the gradient of the determinant."""
    det = np.linalg.det(a)
    b = _transposed_inverse(a, det)
    if b is not None:
        return as_array(det)[..., None, None] * b
    phase, u, s, vh = _phase_and_factors(a)
    zero = s == 0
    safe = np.where(zero, 1, s)
    others = np.prod(safe, axis=-1, keepdims=True) / safe
    others = np.where(zero.sum(axis=-1, keepdims=True) == zero, others, 0)
    return _typed(as_array(phase)[..., None, None] * np.conj((u * others[..., None, :]) @ vh), a)


def _run_minors(a: Any, ct: Any) -> Any:
    """Return the derivative of <ct, cofactor(a)>, by second cofactors; symmetric in ct and its own cotangent.

    For a = diag(s), the derivative of the adjugate along m has off the diagonal -m_ij p_ij, on it
    sum_j p_ij m_jj, where p_ij is the product of all singular values but i and j.
    """
    det = np.linalg.det(a)
    b = _transposed_inverse(a, det)
    if b is not None:
        along = np.add.reduce(b * ct, axis=(-2, -1))
        turned = b @ np.swapaxes(ct, -1, -2) @ b
        return as_array(det)[..., None, None] * (as_array(along)[..., None, None] * b - turned)
    phase, u, s, vh = _phase_and_factors(a)
    zero = s == 0
    safe = np.where(zero, 1, s)
    pairs = np.prod(safe, axis=-1)[..., None, None] / (safe[..., :, None] * safe[..., None, :])
    left = zero.sum(axis=-1)[..., None, None] - zero[..., :, None].astype(int) - zero[..., None, :]
    pairs = np.where((left == 0) & ~near(s).eye(s.shape[-1], dtype=bool), pairs, 0)
    m = np.swapaxes(u.conj(), -1, -2) @ ct @ np.swapaxes(vh.conj(), -1, -2)
    trace = pairs @ np.diagonal(m, axis1=-2, axis2=-1)[..., None]
    inner = near(s).eye(s.shape[-1]) * trace - pairs * np.swapaxes(m, -1, -2)
    return _typed(as_array(phase)[..., None, None] * (u.conj() @ inner @ vh.conj()), as_array(ct + a))


def _typed(x: Any, like: Any) -> Any:
    return x.astype(like.dtype, copy=False)


def _minors_of_matrix(ct: Any, x: Any, y: Any) -> Any:
    # the third derivative of the determinant, where the matrix is regular: Jacobi's formula, differentiated
    b = swapped(inverse(x))
    by, bc = (matrix_product(matrix_product(b, swapped(v)), b) for v in (y, ct))
    ty, tc, mixed = (_inner(b, y), _inner(b, ct), _inner(by, ct))
    turned = matrix_product(matrix_product(by, swapped(ct)), b)
    turned = turned + matrix_product(matrix_product(bc, swapped(y)), b)
    det = reshape(bind("det", x), (*x.shape[:-2], 1, 1))
    return det * ((ty * tc - mixed) * b - ty * bc - tc * by + turned)


def _inner(x: Any, y: Any) -> Any:
    """Return sum(x * y) of each pair of matrices, as matrix of one element."""
    n = len(x.shape)
    return reshape(sum_axes(x * y, (n - 2, n - 1)), (*x.shape[:-2], 1, 1))


def _batch_minors(mapped: Pattern, a: Any, ct: Any) -> Any:
    size = (a if mapped[0] else ct).shape[0]
    full = (v if m else broadcast_to(v, (size, *v.shape)) for v, m in zip((a, ct), mapped, strict=True))
    return bind("minors", *full)


def _slogdet(ct: Any, out: Any, x: Any) -> tuple[Any]:
    ct_sign, ct_log = ct
    sign, size = out
    total: Any = 0 if ct_log is None else ct_log
    if ct_sign is not None and x.dtype.kind == "c":
        # sign = det / |det| turns by Im tr(a^-1 da)
        total = total + imag(ct_sign * sign) * 1j
    if total.__class__ is int:
        return (None,)
    total = reshape(convert(total, x.dtype), (*sign.shape, 1, 1))
    singular = reshape(bind("equal", sign, 0), (*sign.shape, 1, 1))
    total = _guard(total, singular, as_column(size), total, kind="singular")
    eye = near(x).eye(x.shape[-1], dtype=x.dtype)
    return (total * swapped(inverse(bind("where", singular, eye, x))),)


register(
    Primitive(
        "det",
        run=np.linalg.det,
        pull=by_argument(lambda ct, x: reshape(ct, (*ct.shape, 1, 1)) * bind("cofactor", x), exact=True),
        shape=lambda a: Aval(a.shape[:-2], a.dtype),
        batch=_mapped_rest("det"),
    )
)
register(
    Primitive(
        "cofactor",
        run=_run_cofactor,
        pull=by_argument(lambda ct, x: bind("minors", x, ct), exact=True),
        shape=lambda a: a,
        batch=_mapped_rest("cofactor"),
    )
)
register(
    Primitive(
        "minors",
        run=_run_minors,
        pull=by_argument(_minors_of_matrix, lambda ct, x: bind("minors", x, ct)),
        shape=lambda a, ct: Aval(a.shape, np.result_type(a.dtype, ct.dtype)),
        batch=_batch_minors,
    )
)
register(
    Primitive(
        "slogdet",
        run=lambda a: tuple(np.linalg.slogdet(a)),
        pull=lambda _: Pull(_slogdet, keep=(OUT, 1), exact=True),
        shape=lambda a: (Aval(a.shape[:-2], a.dtype), Aval(a.shape[:-2], _real_dtype(a.dtype))),
        batch=_mapped_rest("slogdet"),
        many=True,
    )
).wary = True


# ---- triangular factors


def below(like: Any, n: int, dtype: Any) -> Any:
    """Return ones below the diagonal of a square matrix, and a half on it, where `like` is."""
    make = near(like)
    return as_array(make.tri(n, k=-1) + make.eye(n) / 2, dtype)


def _from_triangle(ct: Any, *, lower: bool) -> Any:
    """Return the cotangent of the triangle that was read, from that of the Hermitian matrix it stands for."""
    weights = below(ct, ct.shape[-1], _real_dtype(ct.dtype))
    return (ct + adjoint(ct)) * (weights if lower else weights.T)


def _cholesky(ct: Any, out: Any) -> Any:
    # dl = l Phi(l^-1 da l^-H), Phi the lower triangle with half the diagonal: Giles (2008) and Murray (2016),
    # Differentiation of the Cholesky decomposition
    phi = matrix_product(swapped(out), ct) * below(out, out.shape[-1], _real_dtype(out.dtype))
    left = solve(swapped(out), phi)
    return _from_triangle(swapped(solve(adjoint(out), swapped(left))), lower=True)


register(
    Primitive(
        "cholesky",
        run=np.linalg.cholesky,
        pull=by_argument(_cholesky, exact=True),
        shape=lambda a: a,
        batch=_mapped_rest("cholesky"),
    )
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
    upper = below(w, k, _real_dtype(w.dtype)).T * w
    inner = -matrix_product(conjugate(q1), upper + adjoint(upper))
    if ct_q1 is not None:
        inner = inner + ct_q1
    ct_a = swapped(solve(square, swapped(inner), "qr"))
    if n <= m:
        return (ct_a,)
    if behind is None:
        return (bind("unslice", ct_a, shape=x.shape, index=(..., slice(0, k))),)
    return (bind("concatenate", ct_a, behind, axis=len(x.shape) - 1),)


def _demand_no_basis(vectors: Any, ct: Any, like: Any) -> None:
    """Refuse a cotangent of orthonormal vectors that changes as they turn within their span."""
    own = matrix_product(swapped(vectors), ct)
    nothing = near(ct).zeros(1, _real_dtype(ct.dtype))
    _guard(own - adjoint(own), near(ct).ones((1, 1), bool), nothing, like, kind="null space", both=False)


def _shape_qr(a: Aval, *, mode: str) -> tuple[Aval, Aval]:
    *lead, m, n = a.shape
    k = m if mode == "complete" else min(m, n)
    return Aval((*lead, m, k), a.dtype), Aval((*lead, k, n), a.dtype)


register(
    Primitive(
        "qr",
        run=lambda a, *, mode: tuple(np.linalg.qr(a, mode)),
        pull=lambda _: Pull(_qr, keep=(OUT, 1), exact=True),
        shape=_shape_qr,
        batch=_mapped_rest("qr"),
        many=True,
    )
).wary = True


# ---- eigenvalues and singular values


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
        turn = _over(n - adjoint(n), w, -1, "eigenvalues", [ct_v], strict=ct_w is not None)
        middle = turn / 2 if middle is None else middle + turn / 2
    full = matrix_product(matrix_product(conjugate(v), middle), swapped(v))
    return (_from_triangle(full, lower=params["uplo"] == "L"),)


def _shape_eigh(a: Aval, *, uplo: str) -> tuple[Aval, Aval]:
    return Aval(a.shape[:-1], _real_dtype(a.dtype)), a


register(
    Primitive(
        "eigh",
        run=lambda a, *, uplo: tuple(np.linalg.eigh(a, uplo)),
        pull=lambda _: Pull(_eigh, keep=(OUT,), params=True, exact=True),
        shape=_shape_eigh,
        batch=_mapped_rest("eigh"),
        many=True,
    )
).wary = True


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
        turn = _over(n, w, -1, "eigenvalues", [ct_v], strict=ct_w is not None)
        middle = turn if middle is None else middle + turn
    return (solve(swapped(v), matrix_product(middle, swapped(v)), "eig"),)


def _run_eig(a: Any) -> tuple[Any, Any]:
    w, v = np.linalg.eig(a)
    kind = np.result_type(a.dtype, np.complex64)
    return w.astype(kind, copy=False), v.astype(kind, copy=False)


def _shape_eig(a: Aval) -> tuple[Aval, Aval]:
    kind = np.result_type(a.dtype, np.complex64)
    return Aval(a.shape[:-1], kind), Aval(a.shape, kind)


register(
    Primitive(
        "eig",
        run=_run_eig,
        pull=lambda _: Pull(_eig, keep=(OUT,)),
        shape=_shape_eig,
        batch=_mapped_rest("eig"),
        many=True,
    )
).wary = True


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
    if ct_s is not None and not likes and k:  # at zero a singular value has a kink, as |x|
        ct_s = bind("where", reshape(_negligible(as_row(s), s), s.shape), 0, ct_s)
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
        turn = _over(common, s, -1, "singular values", likes, strict=strict)
        turn = (turn + _over(apart, s, 1, "singular values", likes, strict=strict)) / 2
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
    bad = _negligible(size, s)
    out = _guard(out, bad, s, ct, kind="zero", what="singular values", strict=strict)
    return n - adjoint(n), out / bind("where", bad, 1, size)


def _shape_svd(a: Aval, *, full_matrices: bool) -> tuple[Aval, Aval, Aval]:
    *lead, m, n = a.shape
    k = min(m, n)
    return (
        Aval((*lead, m, m if full_matrices else k), a.dtype),
        Aval((*lead, k), _real_dtype(a.dtype)),
        Aval((*lead, n if full_matrices else k, n), a.dtype),
    )


register(
    Primitive(
        "svd",
        run=lambda a, *, full_matrices: tuple(np.linalg.svd(a, full_matrices)),
        pull=lambda _: Pull(_svd, keep=(OUT,), exact=True),
        shape=_shape_svd,
        batch=_mapped_rest("svd"),
        many=True,
    )
).wary = True


def _pinv(ct: Any, out: Any, x: Any, **_: Any) -> Any:
    # dp = -p da p + p p^H da^H (1 - a p) + (1 - p a) da^H p^H p, for da that keep the rank:
    # Golub & Pereyra (1973), The differentiation of pseudo-inverses and nonlinear least squares problems
    p, q, b, c = swapped(out), conjugate(out), conjugate(x), adjoint(ct)
    dropped = x - matrix_product(matrix_product(x, out), x)
    nothing = near(x).zeros(1, _real_dtype(x.dtype))
    _guard(dropped, near(x).ones((1, 1), bool), nothing, x, kind="dropped", both=False)
    own = matrix_product(matrix_product(p, ct), p)
    first = matrix_product(matrix_product(c, q), p)
    second = matrix_product(p, matrix_product(q, c))
    first = first - matrix_product(b, matrix_product(q, first))
    second = second - matrix_product(matrix_product(second, q), b)
    return first + second - own


def _shape_pinv(a: Aval, *, rcond: Any, hermitian: bool) -> Aval:
    *lead, m, n = a.shape
    return Aval((*lead, n, m), a.dtype)


register(
    Primitive(
        "pinv",
        run=lambda a, *, rcond, hermitian: np.linalg.pinv(a, rcond, hermitian),
        pull=by_argument(_pinv, exact=True),
        shape=_shape_pinv,
        batch=_mapped_rest("pinv"),
    )
)
