"""A guard that refuses results which depend on what a factorization leaves undetermined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from fgrad.core.aval import Aval, aval_of, broadcasts
from fgrad.core.dispatch import bind, unary
from fgrad.core.placement import near
from fgrad.core.primitive import NOT_FOLDED, VJP, Pattern, Written, declare
from fgrad.core.stored import LAPACK, Stored, is_flag, is_text, one_of
from fgrad.ops.linear import in_full, reshape, with_rank
from fgrad.ops.matrices import as_column, as_row
from fgrad.ops.requirements import trusted

_LOST = "so the gradient does not exist"


_PAIR = "{where}the {what} (i, j) = ({i}, {j}), {wi} and {wj}, are equal"


MESSAGES = {
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
    "blocks": (
        "schur: {where}the real form has a block of two rows, for a pair of complex eigenvalues, of which no "
        "derivative is known. Use output='complex'"
    ),
    "triangle": (
        f"schur: {{where}}eigenvalues are equal: the form is not determined, {_LOST}. Use functions of the "
        "matrix itself, or perturb it"
    ),
    "singular": "slogdet: {where}the matrix is singular, where the logarithm of |det| has no finite slope",
}


_ALONG = {"vectors": "vectors, along a direction"}


def guarded(
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
            MESSAGES["matrix function" if strict else kind].format(
                where=f"in matrix {tuple(lead)}, " if lead else "",
                what=what,
                i=i,
                j=j,
                wi=values[i] if i < n else 0.0,
                wj=values[j] if j < n else 0.0,
            )
        )
    return np.where(bad, x.dtype.type(0), x)


def _written_guard(x: Any, bad: Any, _: Any, *likes: Any, look: bool, strict: bool, **__: Any) -> Any:
    """Look for what is not negligible where it is bad, in a compiled program, which ends there."""
    kept = np.where(bad, x.dtype.type(0), x)
    if not look:
        return kept
    if strict:
        return trusted(kept, np.logical_not(bad), acts=True)
    eps = float(np.finfo(x.dtype).eps)
    scale: Any = eps**0.25
    for like in likes:
        scale = np.maximum(scale, np.max(np.abs(like), axis=(-2, -1), keepdims=True))
    return trusted(kept, np.logical_not(bad & (np.abs(x) > math.sqrt(eps) * scale)), acts=True)


def _guard_vjp(pattern: Pattern) -> VJP | None:
    if not pattern[0]:
        return None
    none = (None,) * (sum(pattern) - 1)

    def back(ct: Any, bad: Any, w: Any, params: dict[str, Any]) -> tuple[Any, ...]:
        # a transpose of the first rule may drop what generic cotangents have shown to be of no consequence
        if params["both"] and (params["look"] or params["second"]):
            kind = params["kind"]
            kind = _ALONG.get(kind, kind)
            return guarded(ct, bad, w, ct, kind=kind, what=params["what"], second=True), *none
        return bind("where", bad, 0, ct), *none

    return VJP(back, keep=(2, 3), params=True, exact=True)


def _batch_guard(mapped: Pattern, *values: Any, **params: Any) -> Any:
    x, bad, w, *likes = in_full(mapped, values)
    return bind("guard", x, with_rank(bad, len(x.shape)), w, *likes, **params)


def _guards(x: Aval, bad: Aval, w: Aval, *likes: Aval, **_: Any) -> bool:
    return (
        x.ndim > 1
        and w.ndim > 0
        and bad.dtype.kind == "b"
        and all(a.dtype.kind != "b" for a in (x, w, *likes))
        and broadcasts(bad.shape, x.shape)
        and broadcasts(w.shape[:-1], x.shape[:-2])
        and all(a.ndim > 1 and broadcasts(a.shape[:-2], x.shape[:-2]) for a in likes)
    )


declare(
    "guard",
    run=_run_guard,
    vjp=_guard_vjp,
    shape=lambda x, *_, **__: aval_of(x),
    batch=_batch_guard,
    unchecked={"look": False},
    effect=lambda params: bool(params["look"]),
    traits={NOT_FOLDED},
    written=Written(_written_guard, lambda x, bad, w, *likes, **_: all(v.size for v in likes)),
    stored=Stored(
        {
            "kind": one_of(*MESSAGES),
            "what": is_text,
            **dict.fromkeys(("both", "strict", "second", "look"), is_flag),
        },
        dtypes=LAPACK + "?",
        verify=_guards,
    ),
)


def negligible(x: Any, w: Any) -> Any:
    """Return where matrices that are made of the values `w` hold rounding errors."""
    size = unary("absolute", w)
    top = bind("max", size, axes=(len(w.shape) - 1,))
    limit = top * np.asarray(8 * w.shape[-1] * np.finfo(w.dtype).eps, size.dtype)
    return bind("less_equal", unary("absolute", x), reshape(limit, (*limit.shape, 1, 1)))


def over_gaps(x: Any, w: Any, sign: int, what: str, likes: Sequence[Any], *, strict: bool) -> Any:
    """Return x_ij / (w_j + sign w_i), and zero on the diagonal for sign -1 and where both vanish."""
    n = w.shape[-1]
    if n == 0:
        return x
    gap = as_row(w) + as_column(w) if sign > 0 else as_row(w) - as_column(w)
    bad, eye = negligible(gap, w), near(w).eye(n, dtype=bool)
    if sign < 0:
        x = guarded(x, eye, w, *likes, kind="phase", both=False)
    free = bind("logical_and", bad, ~eye) if sign < 0 or x.dtype.kind != "c" else bad
    x = guarded(x, free, w, *likes, kind="vectors", what=what, strict=strict)
    return x / bind("where", bind("logical_or", bad, eye) if sign < 0 else bad, 1, gap)
