"""Triangular and banded systems, and the factorizations L U and L D L^H.

Kernels, BLAS and SciPy compute them on the CPU; on a device CuPy, and kernels where it has nothing.

Rules are written for the pairing Re sum(ct * tangent), as in `factorization`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from fgrad.backend.devices import as_array, elsewhere
from fgrad.core.aval import Aval
from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.core.primitive import OUT, STACKS, VJP, Pattern, Rule, declare, flat
from fgrad.core.stored import INTEGERS, Stored, is_count, is_flag, of_matrices
from fgrad.ops.compiled import backend
from fgrad.ops.foreign import each, scipy
from fgrad.ops.linear import batch_in_front, convert, in_full, real_dtype, reshape, solver_vjp, transpose
from fgrad.ops.matrices import adjoint, as_column, below, columns, conjugate, matrix_product, rows, swapped
from fgrad.ops.systems import solve

# ---- triangular systems


def solve_triangular(a: Any, b: Any, *, lower: bool, unit: bool = False) -> Any:
    """Return the solutions x of a x = b for stacks of matrices with the same axes in front.

    Only one triangle of `a` is read, and not its diagonal where `unit`, which stands for ones.
    """
    return bind("solve_triangular", a, b, lower=lower, unit=unit)


def _run_solve(a: Any, b: Any, *, lower: bool, unit: bool) -> Any:
    dtype = np.result_type(a.dtype, b.dtype)
    if not b.size:
        return np.zeros(b.shape, dtype)
    a, b = (x.astype(dtype, copy=False) for x in (a, b))
    if not unit:
        _demand_pivots(np.diagonal(a, axis1=-2, axis2=-1))
    for solver in (backend("small_matrices"), backend("blas")):
        found = solver.solve_triangular(a, b, lower=lower, unit=unit)
        if found is not None:
            return found
    part = np.tril(a, -unit) if lower else np.triu(a, unit)
    return np.linalg.solve(part + np.eye(a.shape[-1], dtype=dtype) if unit else part, b)


def _there_solve(a: Any, b: Any, *, lower: bool, unit: bool) -> Any:
    dtype = np.result_type(a.dtype, b.dtype)
    if not b.size:
        return near(b).zeros(b.shape, dtype)
    if not unit:
        _demand_pivots(np.diagonal(a, axis1=-2, axis2=-1))
    a, b = (x.astype(dtype, copy=False) for x in (a, b))
    return near(b).apply("scipy.linalg.solve_triangular", a, b, lower=lower, unit_diagonal=unit)


def _demand_pivots(diagonal: Any) -> None:
    if np.any(diagonal == 0):
        raise LinAlgError("solve_triangular: the matrix is singular: an element of the diagonal is zero")


def triangle(like: Any, n: int, m: int, dtype: Any, *, lower: bool, strict: bool = False) -> Any:
    """Return ones in a triangle of a matrix, on the diagonal too unless `strict`, where `like` is."""
    ones = near(like).tri(max(n, m), k=-int(strict))
    return as_array((ones if lower else ones.T)[:n, :m], dtype)


def _part(x: Any, *, lower: bool, strict: bool = False) -> Any:
    """Return a triangle of matrices, and zeros elsewhere."""
    n, m = x.shape[-2:]
    return x * triangle(x, n, m, real_dtype(x.dtype), lower=lower, strict=strict)


def _batch_columns(name: str) -> Rule:
    """Return the batching rule of a solver: one matrix for all examples has a few columns more for each."""

    def batch(mapped: Pattern, a: Any, b: Any, **params: Any) -> Any:
        if not mapped[0] and len(a.shape) == 2:
            count, n, k = b.shape
            joined = reshape(transpose(b, (1, 0, 2)), (n, count * k))
            return transpose(reshape(bind(name, a, joined, **params), (n, count, k)), (1, 0, 2))
        return bind(name, *in_full(mapped, (a, b)), **params)

    return batch


declare(
    "solve_triangular",
    run=elsewhere(_run_solve, _there_solve),
    vjp=solver_vjp(
        lambda ct, a, *, lower, unit: solve_triangular(swapped(a), ct, lower=not lower, unit=unit),
        # Giles (2008), An extended collection of matrix derivative results, 2.2.3, of the triangle read
        lambda ct_b, x, _, *, lower, unit: _part(-matrix_product(ct_b, swapped(x)), lower=lower, strict=unit),
    ),
    shape=lambda a, b, **_: Aval(b.shape, np.result_type(a.dtype, b.dtype)),
    batch=_batch_columns("solve_triangular"),
    traits={STACKS},
    stored=of_matrices(
        "01",
        "0",
        {"lower": is_flag, "unit": is_flag},
        verify=lambda a, b, **_: a.shape[:-1] == b.shape[:-1] and a.shape[-1] == b.shape[-2],
    ),
)


# ---- banded systems


def _run_banded(ab: Any, b: Any, *, below: int, above: int) -> Any:
    dtype = np.result_type(ab.dtype, b.dtype)
    if not b.size:
        return np.zeros(b.shape, dtype)
    solver = scipy("linalg").solve_banded
    found = each(lambda m, v: solver((below, above), m, v, check_finite=False), ab, b)
    return found.astype(dtype, copy=False)


def _there_banded(ab: Any, b: Any, *, below: int, above: int) -> Any:
    dtype = np.result_type(ab.dtype, b.dtype)
    if not b.size:
        return near(b).zeros(b.shape, dtype)
    solve = backend("linear_systems").banded
    x, pivots = solve(ab.astype(dtype, copy=False), b.astype(dtype, copy=False), below, above)
    if np.any(pivots == 0):
        raise LinAlgError("singular matrix")
    return x


def _mirrored(ab: Any, below: int, above: int) -> Any:
    """Return the bands of the transposed matrix: those of `ab` in the other order, each shifted."""
    n, lines = ab.shape[-1], []
    for row in range(below + above, -1, -1):
        shift = row - above  # of the element (j + shift, j), which stands in column j
        line = bind("slice", ab, index=(..., row, slice(max(0, -shift), max(0, -shift, n - max(0, shift)))))
        lines.append(_padded(line, max(0, shift), n))
    return bind("concatenate", *[reshape(v, (*v.shape[:-1], 1, n)) for v in lines], axis=len(ab.shape) - 2)


def _padded(x: Any, start: int, n: int) -> Any:
    """Return vectors of length `n` that hold `x` from `start`, and zeros around it."""
    return bind("slice_backward", x, shape=(*x.shape[:-1], n), index=(..., slice(start, start + x.shape[-1])))


def _banded_product(ct_b: Any, x: Any, ab: Any, *, below: int, above: int) -> Any:
    """Return the bands of -ct_b x^T: Giles (2008), 2.2.3."""
    n, lines = ab.shape[-1], []
    for row in range(below + above + 1):
        shift = row - above
        i, j = (slice(max(0, s), max(0, s, n - max(0, -s))) for s in (shift, -shift))
        first, second = (bind("slice", v, index=(..., k, slice(None))) for v, k in ((ct_b, i), (x, j)))
        line = bind("sum", -(first * second), axes=(len(first.shape) - 1,))
        line = _padded(line, max(0, -shift), n)
        lines.append(reshape(line, (*line.shape[:-1], 1, n)))
    return bind("concatenate", *lines, axis=len(ab.shape) - 2)


declare(
    "solve_banded",
    run=elsewhere(_run_banded, _there_banded),
    vjp=solver_vjp(
        lambda ct, ab, *, below, above: bind(
            "solve_banded", _mirrored(ab, below, above), ct, below=above, above=below
        ),
        _banded_product,
    ),
    shape=lambda ab, b, **_: Aval(b.shape, np.result_type(ab.dtype, b.dtype)),
    batch=_batch_columns("solve_banded"),
    stored=of_matrices(
        "01",
        params={"below": is_count, "above": is_count},
        verify=lambda ab, b, *, below, above: ab.shape == (*b.shape[:-2], below + above + 1, b.shape[-2]),
    ),
)


# ---- L U


def _run_lu(a: Any) -> tuple[Any, Any, Any]:
    *lead, m, n = a.shape
    lu, piv = a.copy(), np.zeros((*lead, min(m, n)), np.int32)
    (getrf,) = scipy("linalg").get_lapack_funcs(("getrf",), dtype=a.dtype)
    for i in np.ndindex(*lead):
        if a.size:
            lu[i], piv[i], _ = getrf(a[i])
    return lu, piv, _order_of(piv, m)


def _order_of(piv: Any, m: int) -> Any:
    """Return the order of `m` rows to which exchanges lead."""
    order = np.broadcast_to(np.arange(m), (*piv.shape[:-1], m)).copy()
    for i in np.ndindex(piv.shape[:-1]):
        for k, other in enumerate(piv[i]):
            order[i][[k, other]] = order[i][[other, k]]
    return order.astype(np.int32)


def _there_lu(a: Any) -> tuple[Any, Any, Any]:
    *lead, m, n = a.shape
    make = near(a)
    lu, piv = a.copy(), make.zeros((*lead, min(m, n)), np.int32)
    if a.size:
        for i in np.ndindex(*lead):
            with warnings.catch_warnings():  # of singular matrices, which have factors too
                warnings.simplefilter("ignore", RuntimeWarning)
                found, exchanges = make.apply("scipy.linalg.lu_factor", a[i], check_finite=False)
            lu[i], piv[i] = found, exchanges
    return lu, piv, backend("recurrences").order_of(piv, m)


def _lu(ct: Any, out: Any) -> tuple[Any]:
    """Return the cotangent of a[perm] = l u from that of l and u, which are stored in one matrix.

    Square: x = l^-1 da u^-1 gives dl = l (x below the diagonal), du = (the rest of x) u. The rows below a
    square, and the columns behind one, are those of `a` times u^-1, or l^-1 times those of `a`.

    Source:
        de Hoog, Anderssen & Lukas (2011), Differentiation of matrix functionals using triangular
        factorization, Math. Comp. 80.
    """
    ct_lu, (lu, _, perm) = ct[0], out
    *_, m, n = lu.shape
    k = min(m, n)
    square, ct_square = (columns(rows(x, 0, k), 0, k) for x in (lu, ct_lu))
    ct_l = _part(ct_square, lower=True, strict=True)
    ct_u = _part(ct_square, lower=False)
    real = real_dtype(lu.dtype)
    low, u = _part(square, lower=True, strict=True) + near(lu).eye(k, dtype=real), _part(square, lower=False)
    under: Any = None
    behind: Any = None
    if m > k:
        # below the square: l2 = a2 u^-1
        under = _over_upper(square, rows(ct_lu, k, None))
        ct_u = ct_u - _part(matrix_product(swapped(rows(lu, k, None)), under), lower=False)
    if n > k:
        # behind it: u2 = l^-1 a2
        behind = solve_triangular(swapped(square), columns(ct_lu, k, None), lower=False, unit=True)
        ct_l = ct_l - _part(matrix_product(behind, swapped(columns(lu, k, None))), lower=True, strict=True)
    inner = _part(matrix_product(swapped(low), ct_l), lower=True, strict=True)
    inner = inner + _part(matrix_product(ct_u, swapped(u)), lower=False)
    whole = _over_upper(square, solve_triangular(swapped(square), inner, lower=False, unit=True))
    axis = len(lu.shape) - 2
    if under is not None:
        whole = bind("concatenate", whole, under, axis=axis)
    if behind is not None:
        whole = bind("concatenate", whole, behind, axis=axis + 1)
    return (matrix_product(swapped(permutation(perm, lu.dtype)), whole),)


def _over_upper(square: Any, ct: Any) -> Any:
    """Return ct u^-T."""
    return swapped(solve_triangular(square, swapped(ct), lower=False))


def permutation(perm: Any, dtype: Any) -> Any:
    """Return the matrices p with p a = a[perm]."""
    return convert(bind("equal", as_column(perm), near(perm).arange(perm.shape[-1])), np.dtype(dtype))


def _shape_lu(a: Aval) -> tuple[Aval, Aval, Aval]:
    *lead, m, n = a.shape
    return a, Aval((*lead, min(m, n)), np.dtype(np.int32)), Aval((*lead, m), np.dtype(np.int32))


declare(
    "lu_factor",  # both factors in one matrix, the exchanges of rows, and the order to which they lead
    run=elsewhere(_run_lu, _there_lu),
    vjp=lambda _: VJP(_lu, keep=(OUT,), exact=True),
    shape=_shape_lu,
    batch=batch_in_front("lu_factor"),
    many=True,
    stored=of_matrices("0"),
)


declare(
    "pivot_order",  # of square matrices: from exchanges of rows to the order to which they lead
    run=elsewhere(
        lambda piv: _order_of(piv, piv.shape[-1]),
        lambda piv: backend("recurrences").order_of(piv.astype(np.int32, copy=False), piv.shape[-1]),
    ),
    vjp=flat,
    shape=lambda piv: Aval(piv.shape, np.dtype(np.int32)),
    batch=batch_in_front("pivot_order"),
    stored=Stored(dtypes=INTEGERS, verify=lambda piv: piv.ndim > 0),
)


# ---- L D L^H


def _run_ldl(a: Any, *, lower: bool, hermitian: bool) -> tuple[Any, Any, Any]:
    *lead, n, _ = a.shape
    outer, d, perm = np.zeros(a.shape, a.dtype), np.zeros(a.shape, a.dtype), np.zeros((*lead, n), np.intp)
    if hermitian and a.dtype.kind == "c":
        a = a.copy()
        a[..., range(n), range(n)] = a[..., range(n), range(n)].real  # of which SciPy warns
    if n:
        for i in np.ndindex(*lead):
            outer[i], d[i], perm[i] = scipy("linalg").ldl(a[i], lower, hermitian, check_finite=False)
    return outer, d, perm


def _ldl(ct: Any, out: Any, params: dict[str, Any]) -> tuple[Any]:
    """Return the cotangent of the triangle that was read of a = (p^T l) d (p^T l)^H.

    x = l^-1 p da p^T l^-H gives dd = its blocks on the diagonal, where d has them, and l^-1 dl = (its part
    outside of the blocks, in the triangle of l) d^-1: differentiate l d l^H.
    """
    (ct_outer, ct_d, _), (outer, d, perm) = ct, out
    lower = params["lower"]
    n = d.shape[-1]
    order = permutation(perm, d.dtype)
    low = matrix_product(order, outer)
    block = bind("logical_or", bind("not_equal", d, 0), near(d).eye(n, dtype=bool))
    total: Any = None
    if ct_d is not None:
        total = bind("where", block, ct_d, 0)
    if ct_outer is not None:
        x = matrix_product(swapped(low), matrix_product(order, ct_outer))
        x = swapped(solve(d, swapped(x)))
        free = bind(
            "logical_and", bind("logical_not", block), triangle(d, n, n, bool, lower=lower, strict=True)
        )
        x = bind("where", free, x, 0)
        total = x if total is None else total + x
    turn = conjugate if params["hermitian"] else lambda x: x
    half = solve_triangular(swapped(low), total, lower=not lower, unit=True)
    half = swapped(solve_triangular(swapped(turn(low)), swapped(half), lower=not lower, unit=True))
    full = matrix_product(swapped(order), matrix_product(half, order))
    weights = below(d, n, real_dtype(d.dtype))
    other = adjoint(full) if params["hermitian"] else swapped(full)
    return ((full + other) * (weights if lower else weights.T),)


declare(
    "ldl",
    run=elsewhere(_run_ldl, lambda *args, **params: backend("linear_systems").ldl(*args, **params)),
    vjp=lambda _: VJP(_ldl, keep=(OUT,), params=True, exact=True),
    shape=lambda a, **_: (a, a, Aval(a.shape[:-1], np.dtype(np.intp))),
    batch=batch_in_front("ldl"),
    many=True,
    interpreted="the pivots of symmetric indefinite matrices are SciPy's to choose",
    stored=of_matrices("0", "0", {"lower": is_flag, "hermitian": is_flag}),
)
