"""Systems of equations, inverses and determinants, in stacks.

For the pairing of cotangents and what `a.T` and `a.H` stand for see `factorization`.
"""

from __future__ import annotations

import functools
import itertools
import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import as_array
from fgrad.core.aval import Aval, broadcasts
from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.core.primitive import (
    OUT,
    STACKS,
    VJP,
    MatrixLoop,
    Pattern,
    Written,
    by_argument,
    declare,
)
from fgrad.core.stored import is_flag, is_number, of_matrices, one_of, same_shapes
from fgrad.ops.compiled import FLOATS, backend
from fgrad.ops.foreign import each
from fgrad.ops.linear import (
    batch_in_front,
    convert,
    imag,
    real_dtype,
    reshape,
    solver_vjp,
    sum_axes,
    transpose,
    with_rank,
)
from fgrad.ops.matrices import adjoint, as_column, conjugate, identity, matrix_product, size_of, swapped
from fgrad.ops.requirements import trusted
from fgrad.ops.undetermined import guarded

SMALL = 32  # rows of a matrix whose determinant and cofactors are a kernel in compiled programs


def solve(a: Any, b: Any, check: str = "") -> Any:
    """Return the solutions x of a x = b, for stacks of matrices a and b.

    `check` says what `a` is made of, if it is to be tested for singularity beyond rounding; with "nan"
    nothing is refused, and the solutions of systems with a singular matrix are NaN.
    """
    return bind("solve", a, b, check=check)


def inverse(a: Any, check: str = "") -> Any:
    """Return inverse matrices; `check` is as of `solve`."""
    return solve(a, identity(a), check)


def is_tested(check: str) -> bool:
    """Return whether `solve` with this `check` tests matrices for singularity beyond rounding."""
    return check not in ("", "nan")


_SINGULAR = {
    "qr": "qr: the first columns of the matrix are linearly dependent (column {i}), where its factors have "
    "no derivative",
    "eig": "eig: the matrix is defective to rounding (its eigenvectors are linearly dependent), where "
    "eigenvalues and eigenvectors have no derivative",
    "det": "det: the matrix is singular to rounding, where only derivatives to third order are computed",
}


def _run_solve(a: Any, b: Any, *, check: str) -> Any:
    if check == "nan":
        try:
            return _run_solve(a, b, check="")
        except LinAlgError:
            if a.ndim == b.ndim == 2:
                return np.full_like(b, np.nan, np.result_type(a, b))
            lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
            stacks = [np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b)]
            return each(functools.partial(_run_solve, check=check), *stacks)
    if check and a.size:
        tiny = 8 * a.shape[-1] * np.finfo(a.dtype).eps
        if check == "qr":
            diagonal = np.abs(np.diagonal(a, axis1=-2, axis2=-1))
            low = diagonal <= tiny * np.linalg.norm(a, axis=-2)
        else:
            s = np.linalg.svd(a, compute_uv=False)
            low = s[..., -1:] <= tiny * s[..., :1]
        if low.any():
            singular = as_array(low.any(axis=-1))
            lost = singular & np.any(b != 0, axis=(-2, -1))
            if lost.any():  # of zeros the solution is zero, whatever the matrix is
                place = int(np.argwhere(low & as_array(lost)[..., None])[0][-1])
                raise LinAlgError(_SINGULAR[check].format(i=place))
            a = np.where(singular[..., None, None], identity(a), a)
    found = backend("small_matrices").solve(a, b) if a.ndim > 2 and a.__class__ is np.ndarray else None
    found = _by_factors(a, b) if found is None else found
    return np.linalg.solve(a, b) if found is None else found


# the factors of matrices that systems were solved with, by the number of an array, as long as it lives: those
# of an array that nobody writes to serve the reverse step, which gets the same one
_factors: dict[int, tuple[weakref.ref[Any], Any]] = {}
_MANY = 16  # of them
_WIDE = 16  # rows of a matrix whose factors are worth remembering


def _is_one(x: Any) -> bool:
    """Return whether an operand is one matrix of real numbers on the CPU, perhaps in a stack."""
    return x.__class__ is np.ndarray and x.dtype in FLOATS and x.size == x.shape[-2] * x.shape[-1]


def _by_factors(a: Any, b: Any) -> Any:
    """Return the solutions of one system, and remember the factors; None where NumPy shall compute them."""
    n = a.shape[-1]
    if n < _WIDE or not _is_one(a) or not _is_one(b) or a.dtype != b.dtype or a.shape[-2:] != (n, n):
        return None
    factors = backend("lapack").factored(a.reshape(n, n))
    if factors is None:
        return None
    found = _solved(factors, a, b, transposed=False)
    for old in list(_factors)[: max(0, len(_factors) + 1 - _MANY)]:
        _factors.pop(old, None)
    key = id(a)
    _factors[key] = weakref.ref(a, lambda dead: _forget(key, dead)), factors
    return found


def _forget(key: int, dead: Any) -> None:
    found = _factors.get(key)
    if found is not None and found[0] is dead:
        _factors.pop(key, None)


def _of_transposed(a: Any, b: Any) -> Any:
    """Return the solutions for the transpose of `a`, if its factors are remembered, and trusted in that."""
    found = _factors.get(id(a))
    if found is None or not _is_one(b) or a.dtype != b.dtype or found[0]() is not a:
        return None
    return _solved(found[1], a, b, transposed=True)


def _solved(factors: Any, a: Any, b: Any, *, transposed: bool) -> Any:
    found = backend("lapack").solved(factors, b.reshape(b.shape[-2:]), transposed=transposed)
    if found is None:
        return None
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return found.astype(a.dtype, copy=False).reshape((*lead, *b.shape[-2:]))


def _solve_side(ct: Any, a: Any, *, check: str) -> Any:
    found = None if is_tested(check) else _of_transposed(a, ct)
    return solve(swapped(a), ct, check) if found is None else found


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


def _divided(a: Aval, b: Aval, *, check: str) -> bool:
    """Return whether two stacks of matrices broadcast, and the second has a row for each of the first."""
    np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.shape[-1] == b.shape[-2]


def _written_solve(a: Any, b: Any, *, check: str) -> Any:
    """Solve systems of a compiled program, which ends where a matrix may be singular to rounding."""
    tiny = 8 * a.shape[-1] * np.finfo(a.dtype).eps
    if check == "qr":
        diagonal = np.abs(np.diagonal(a, axis1=-2, axis2=-1))
        fine = diagonal > tiny * np.sqrt(np.sum(np.abs(a) ** 2, axis=-2))
    else:
        s = bind("svd", a, full_matrices=False)[1]
        fine = s[..., -1:] > tiny * s[..., :1]
    return trusted(solve(a, b), fine)


def _is_checked(a: Aval, b: Aval, *, check: str) -> bool:
    return is_tested(check) and a.size > 0


declare(
    "solve",
    run=_run_solve,
    # Giles (2008), An extended collection of matrix derivative results, 2.2.3
    vjp=solver_vjp(_solve_side, lambda ct_b, x, _, **__: -matrix_product(ct_b, swapped(x))),
    shape=_shape_solve,
    batch=_batch_solve,
    traits={STACKS},
    written=Written(_written_solve, _is_checked),
    unchecked={"check": "nan"},
    effect=lambda params: is_tested(params["check"]),
    stored=of_matrices("01", "0", {"check": one_of("", "nan", "qr", "eig", "det")}, verify=_divided),
)


def _phase_and_factors(a: Any) -> tuple[Any, Any, Any, Any]:
    finite = np.all(np.isfinite(a), axis=(-2, -1), keepdims=True)
    u, s, vh = np.linalg.svd(np.where(finite, a, 0))  # the iteration may never end beside infinities
    return np.linalg.det(u) * np.linalg.det(vh), u, np.where(finite[..., 0], s, np.nan), vh


def _transposed_inverse(a: Any, det: Any, order: int = 1) -> Any:
    """Return transposed inverses; None where a matrix is too near to a singular one to trust their products.

    A derivative of some order is made of products of as many inverses, which cancel.
    """
    if det.__class__ is DeviceArray or not np.all(np.isfinite(det) & (det != 0)):
        return None  # from a device nothing is read
    b = np.swapaxes(np.linalg.inv(a), -1, -2)
    sizes = [np.abs(x).sum(axis=-1).max(axis=-1, initial=0.0) for x in (a, b)]
    return b if np.all((sizes[0] * sizes[1]) ** order < np.finfo(a.dtype).eps ** -0.4) else None


def _run_cofactor(a: Any) -> Any:
    """Return the matrix of cofactors, the gradient of the determinant."""
    found = backend("small_matrices").cofactor(a) if a.ndim > 2 and a.__class__ is np.ndarray else None
    if found is not None:
        return found
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


def _by_inverse(a: Any, *es: Any) -> Any:
    """Return a derivative of the determinant along `es` and one direction more, in a compiled program.

    It ends where a matrix is too near to a singular one.
    """
    det = bind("det", a)
    b = swapped(inverse(a))
    sizes = [np.max(np.sum(np.abs(x), axis=-1), axis=-1) for x in (a, b)]
    order = len(es) + 1
    fine = np.isfinite(det) & (det != 0) & ((sizes[0] * sizes[1]) ** order < np.finfo(a.dtype).eps ** -0.4)
    found = _along_inverse(b, *es) if es else b
    return trusted(reshape(det, (*det.shape, 1, 1)) * found, fine)


def _run_minors(a: Any, ct: Any) -> Any:
    """Return the derivative of <ct, cofactor(a)>, by second cofactors; symmetric in ct and its own cotangent.

    For a = diag(s), the derivative of the adjugate along m has off the diagonal -m_ij p_ij, on it
    sum_j p_ij m_jj, where p_ij is the product of all singular values but i and j.
    """
    det = np.linalg.det(a)
    b = _transposed_inverse(a, det, 2)
    if b is not None:
        return as_array(det)[..., None, None] * _along_inverse(b, ct)
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


def _run_second_minors(a: Any, x: Any, y: Any) -> Any:
    """Return the derivative of <y, minors(a, x)>, by third cofactors; symmetric in x, y and its cotangent.

    For a = diag(s), the third derivative of the determinant along x, y, z is the sum over places i, j, k and
    permutations of them of their sign times x_i. y_j. z_k. p_ijk, where p_ijk is the product of all singular
    values but i, j and k.
    """
    det = np.linalg.det(a)
    b = _transposed_inverse(a, det, 3)
    if b is not None:
        return as_array(det)[..., None, None] * _along_inverse(b, x, y)
    phase, u, s, vh = _phase_and_factors(a)
    zero, eye = s == 0, near(s).eye(s.shape[-1], dtype=bool)
    safe = np.where(zero, 1, s)
    axes = [(..., *(slice(None) if i == k else None for i in range(3))) for k in range(3)]
    p = np.prod(safe, axis=-1)[..., None, None, None] / (safe[axes[0]] * safe[axes[1]] * safe[axes[2]])
    left = zero.sum(axis=-1)[..., None, None, None] - sum(zero[k].astype(int) for k in axes)
    distinct = ~(eye[:, :, None] | eye[:, None, :] | eye[None, :, :])
    p = np.where((left == 0) & distinct, p, 0)
    x, y = (np.swapaxes(u.conj(), -1, -2) @ m @ np.swapaxes(vh.conj(), -1, -2) for m in (x, y))
    dx, dy = (np.diagonal(m, axis1=-2, axis2=-1) for m in (x, y))
    of_two = np.einsum("...ijk,...i,...j->...k", p, dx, dy) - np.einsum("...ijk,...ij,...ji->...k", p, x, y)
    inner = near(s).eye(s.shape[-1]) * of_two[..., None, :]
    for m, dm, other in ((x, dx, y), (y, dy, x)):
        inner = inner - np.einsum("...ijk,...i,...jk->...kj", p, dm, other)
        inner = inner + np.einsum("...ijk,...ij,...jk->...ki", p, m, other)
    return _typed(as_array(phase)[..., None, None] * (u.conj() @ inner @ vh.conj()), as_array(x + y + a))


def _along_inverse(b: Any, *es: Any) -> Any:
    """Return a derivative of the determinant along `es` over its value, as gradient in one direction more.

    With c = b^T the inverse, the derivative along e_1, ..., e_m is det(a) times the sum over permutations of
    their sign times, for each cycle, tr(c e_i c e_j ...).
    """
    turned = [matrix_product(b, swapped(e)) for e in es]
    total: Any = None
    for image in itertools.permutations(range(len(es) + 1)):
        term, left = None, set(range(len(es)))
        cycle = _cycle(image, len(es))  # of the direction that is left open
        along = b
        for i in cycle[1:]:
            along = matrix_product(turned[i], along)
        odd = len(cycle) % 2 == 0
        left -= set(cycle)
        while left:
            cycle = _cycle(image, min(left))
            m = b
            for i in cycle[:-1]:
                m = matrix_product(turned[i], m)
            trace = _inner(m, es[cycle[-1]])
            term = trace if term is None else term * trace
            odd ^= len(cycle) % 2 == 0
            left -= set(cycle)
        term = along if term is None else term * along
        total = term if total is None else total - term if odd else total + term
    return total


def _cycle(image: tuple[int, ...], start: int) -> list[int]:
    cycle = [start]
    while image[cycle[-1]] != start:
        cycle.append(image[cycle[-1]])
    return cycle


def _fourth(ct: Any, x: Any, y: Any, z: Any) -> Any:
    b = swapped(solve(x, identity(x), "det"))
    return reshape(bind("det", x), (*x.shape[:-2], 1, 1)) * _along_inverse(b, y, z, ct)


def _inner(x: Any, y: Any) -> Any:
    """Return sum(x * y) of each pair of matrices, as matrix of one element."""
    n = len(x.shape)
    return reshape(sum_axes(x * y, (n - 2, n - 1)), (*x.shape[:-2], 1, 1))


def _shape_minors(a: Aval, *cts: Aval) -> Aval:
    return Aval(a.shape, np.result_type(a.dtype, *(ct.dtype for ct in cts)))


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
    total = guarded(total, singular, as_column(size), total, kind="singular")
    eye = identity(x)
    return (total * swapped(inverse(bind("where", singular, eye, x))),)


declare(
    "det",
    run=np.linalg.det,
    vjp=by_argument(lambda ct, x: reshape(ct, (*ct.shape, 1, 1)) * bind("cofactor", x), exact=True),
    shape=lambda a: Aval(a.shape[:-2], a.dtype),
    batch=batch_in_front("det"),
    matrices=MatrixLoop("det"),
    stored=of_matrices("0", "0"),
)


declare(
    "cofactor",
    run=_run_cofactor,
    vjp=by_argument(lambda ct, x: bind("minors", x, ct), exact=True),
    shape=lambda a: a,
    batch=batch_in_front("cofactor"),
    written=Written(_by_inverse, lambda a: a.dtype.kind == "c" or a.shape[-1] > SMALL),
    stored=of_matrices("0", "0"),
)


declare(
    "minors",
    run=_run_minors,
    vjp=by_argument(lambda ct, x, y: bind("second_minors", x, y, ct), lambda ct, x: bind("minors", x, ct)),
    shape=_shape_minors,
    batch=batch_in_front("minors"),
    written=Written(_by_inverse),
    stored=of_matrices("01", "01", verify=same_shapes),
)


declare(
    "second_minors",
    run=_run_second_minors,
    vjp=by_argument(
        _fourth,
        lambda ct, x, z: bind("second_minors", x, ct, z),
        lambda ct, x, y: bind("second_minors", x, y, ct),
    ),
    shape=_shape_minors,
    batch=batch_in_front("second_minors"),
    written=Written(_by_inverse),
    stored=of_matrices("012", "012", verify=same_shapes),
)


declare(
    "slogdet",
    run=lambda a: tuple(np.linalg.slogdet(a)),
    vjp=lambda _: VJP(_slogdet, keep=(OUT, 1), exact=True),
    shape=lambda a: (Aval(a.shape[:-2], a.dtype), Aval(a.shape[:-2], real_dtype(a.dtype))),
    batch=batch_in_front("slogdet"),
    matrices=MatrixLoop("slogdet"),
    many=True,
    checks=True,
    stored=of_matrices("0", "0"),
)


def _pinv(ct: Any, out: Any, x: Any, **_: Any) -> Any:
    # dp = -p da p + p p^H da^H (1 - a p) + (1 - p a) da^H p^H p, for da that keep the rank:
    # Golub & Pereyra (1973), The differentiation of pseudo-inverses and nonlinear least squares problems
    size = size_of(x)  # of matrices of size one no product of inverses overflows
    p, q, b, c = swapped(out) * size, conjugate(out) * size, conjugate(x) / size, adjoint(ct) / size
    dropped = x - matrix_product(matrix_product(x, out), x)
    nothing = near(x).zeros(1, real_dtype(x.dtype))
    guarded(dropped, near(x).ones((1, 1), bool), nothing, x, kind="dropped", both=False)
    own = matrix_product(matrix_product(p, ct / size), p)
    first = matrix_product(matrix_product(c, q), p)
    second = matrix_product(p, matrix_product(q, c))
    first = first - matrix_product(b, matrix_product(q, first))
    second = second - matrix_product(matrix_product(second, q), b)
    return (first + second - own) / size


def _written_pinv(a: Any, *, rcond: Any, hermitian: bool) -> Any:
    """Return pseudo-inverses as NumPy does, of Hermitian matrices by eigenvalues."""
    if hermitian:
        s, u = bind("eigh", a, uplo="L")
        size, v = np.abs(s), u
    else:
        u, s, vh = bind("svd", a, full_matrices=False)
        size, v = s, adjoint(vh)
    limit = np.asarray(1e-15 if rcond is None else rcond)[..., None]
    kept = size > limit * np.max(size, axis=-1, keepdims=True)
    weights = np.where(kept, 1 / np.where(kept, s, 1), 0)
    return matrix_product(v, as_column(weights) * adjoint(u))


def _shape_pinv(a: Aval, *, rcond: Any, hermitian: bool) -> Aval:
    *lead, m, n = a.shape
    return Aval((*lead, n, m), a.dtype)


def _is_tolerance(v: Any, avals: Sequence[Aval]) -> bool:
    numbers = isinstance(v, np.ndarray | np.generic) and v.dtype.kind == "f"
    return v is None or is_number(v, avals) or (numbers and broadcasts(v.shape, avals[0].shape[:-2]))


declare(
    "pinv",
    run=lambda a, *, rcond, hermitian: np.linalg.pinv(a, rcond, hermitian),
    vjp=by_argument(_pinv, exact=True),
    shape=_shape_pinv,
    batch=batch_in_front("pinv"),
    written=Written(_written_pinv),
    stored=of_matrices("0", params={"rcond": _is_tolerance, "hermitian": is_flag}),
)
