"""What NumPy's own loops compute of matrices: complex ones, and those that small kernels are not for.

Complex arrays are pairs here. As NumPy does, they compute in double.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.compat.numpy import matrix_loop
from fgrad.compiler import matrices
from fgrad.compiler.decompose import DOUBLE, RULES, Writer
from fgrad.compiler.library import ON_PAIRS, is_native
from fgrad.compiler.pairs import as_pairs, is_pair, pair_of, part_of
from fgrad.compiler.tables import Table
from fgrad.core.aval import Aval
from fgrad.core.primitive import PRIMITIVES, MatrixLoop
from fgrad.core.program import Equation, Var, aval_out
from fgrad.kernels import native
from fgrad.ops.systems import is_tested

_LETTERS = {"f": "d", "d": "d", "F": "D", "D": "D", "i": "i"}


def _called(
    w: Writer,
    names: Sequence[str],
    args: Sequence[Var],
    avals: Sequence[Aval],
    results: Sequence[Aval],
    *,
    lead: tuple[int, ...],
    **how: Any,
) -> tuple[Var, ...] | None:
    """Return what a loop of NumPy computes of stacks of matrices, None if it is not at hand.

    Args:
        w: the writer.
        names: of the loop, in one version of NumPy or another.
        args: operands, of which complex ones are pairs.
        avals: what these were.
        results: what the results are to be.
        lead: the axes that count matrices.
        how: what the loop may refuse, or overwrites, as of `kernels.matrix_loops`.
    """
    letters = "".join(_LETTERS[a.dtype.char] for a in (*avals, *results))
    kinds = letters[: len(avals)]
    name, loop = next(((n, f) for n in names if (f := matrix_loop(n, kinds))), (None, None))
    if loop is None or native.interpreted() or 0 in (*lead, *(a.size for a in avals)):
        return None
    cores = tuple([a.shape[len(a.shape) - len(axes) :] for a, axes in zip(avals, loop.axes, strict=False)])
    cores += tuple([a.shape[len(lead) :] for a in results])
    made = [Aval(r.shape, np.dtype(c)) for r, c in zip(results, letters[len(avals) :], strict=True)]
    found = w.write_all(
        "lapack.loop",
        *(w.typed(x, DOUBLE) for x in args),
        of=name,
        kinds=kinds,
        letters=letters,
        cores=cores,
        count=math.prod(lead),
        results=tuple([pair_of(a) if is_pair(a) else a for a in made]),
        **{"finite": (), "checked": -1, "overwrites": False, **how},
    )
    dtypes = (part_of(r.dtype) if is_pair(r) else r.dtype for r in results)
    return tuple([w.typed(v, d) for v, d in zip(found, dtypes, strict=True)])


def _declared(loop: MatrixLoop, w: Writer, args: Any, avals: Any, results: Any, params: Any) -> Any:
    """Let the loop compute a primitive that it says computes it."""
    full = params.get("full_matrices")
    uplo = params.get("uplo")
    names = [loop.name]
    if full is not None:
        wide = "m" if avals[0].shape[-2] < avals[0].shape[-1] else "n"
        names = [f"{loop.name}_{'f' if full else 's'}", f"{loop.name}_{wide}_{'f' if full else 's'}"]
    if uplo is not None:
        names = [f"{loop.name}_{'lo' if uplo == 'L' else 'up'}"]
    lead = avals[0].shape[:-2]
    return _called(w, names, args, avals, results, lead=lead, finite=loop.finite, checked=loop.checked)


PAIRED = (
    Table(  # what is done with pairs: (writer, operands, their avals, those of results, parameters) -> it
        {name: functools.partial(_declared, p.matrices) for name, p in PRIMITIVES.items() if p.matrices}
    )
)


@PAIRED.on("solve")
def _solve(w: Writer, args: Any, avals: Any, results: Any, params: dict[str, Any]) -> Any:
    """Solve systems; what is one matrix for all of them need not be repeated."""
    if is_tested(params["check"]):
        return None
    lead, given, kinds = results[0].shape[:-2], [], []
    for x, a in zip(args, avals, strict=True):
        core = (*a.shape[-2:], *x.aval.shape[len(a.shape) :])
        if math.prod(a.shape[:-2]) == 1:
            given.append(w.reshape(x, core))
            kinds.append(Aval(a.shape[-2:], a.dtype))
        else:
            given.append(w.broadcast_to(x, (*lead, *core)))
            kinds.append(Aval((*lead, *a.shape[-2:]), a.dtype))
    dtype = results[0].dtype
    if is_pair(results[0]):
        given = [x if is_pair(k) else paired(w, x) for x, k in zip(given, kinds, strict=True)]
    kinds = [Aval(k.shape, dtype) for k in kinds]
    return _called(w, ["solve"], given, kinds, results, lead=lead, checked=-1 if params["check"] else 2)


@PAIRED.on("solve_triangular")
def _triangular(w: Writer, args: Any, avals: Any, results: Any, params: dict[str, Any]) -> Any:
    """Solve triangular systems of complex numbers by BLAS."""
    if not is_pair(results[0]):
        return None
    dtype = part_of(results[0].dtype)
    args = [x if is_pair(a) else paired(w, x) for x, a in zip(args, avals, strict=True)]
    out = Var(pair_of(results[0]), f"t{w.count}")
    given = tuple([w.typed(x, dtype) for x in args])
    made = Equation("solve_triangular", given, {**params, "pairs": True}, (out,), w.line)
    if not is_native(made):
        return None
    w.count += 1
    w.append(made)
    return (out,)


@PAIRED.on("cholesky_or_nan")
def _cholesky_or_nan(w: Writer, args: Any, avals: Any, results: Any, params: dict[str, Any]) -> Any:
    *lead, n, _ = avals[0].shape
    found = _called(w, ["cholesky_lo"], args, avals, results, lead=tuple(lead))
    lower = np.tri(n, dtype=bool)
    return found and (w.where(w.array(lower[..., None] if is_pair(avals[0]) else lower), found[0], 0.0),)


@PAIRED.on("qr")
def _qr(w: Writer, args: Any, avals: Any, results: Any, params: dict[str, Any]) -> Any:
    """Factor matrices as NumPy does: Householder's vectors, then the columns that are asked for."""
    (a,), (q, r) = avals, results
    *lead, m, n = a.shape
    pair = (slice(None),) * is_pair(a)
    tau = Aval((*lead, min(m, n)), a.dtype)
    found = _reflectors(w, args, a, tau)
    if found is None:
        return None
    loop = "qr_complete" if params["mode"] == "complete" and m > n else "qr_reduced"
    made = _called(w, [loop], found, (a, tau), (q,), lead=tuple(lead))
    if made is None:
        return None
    upper = w.slice(found[0], index=(..., slice(0, r.shape[-2]), slice(None), *pair))
    kept = np.tri(n, r.shape[-2], dtype=bool).T
    return made[0], w.where(w.array(kept[..., None] if pair else kept), upper, 0.0)


@PAIRED.on("qr_raw")
def _qr_raw(w: Writer, args: Any, avals: Any, results: Any, params: dict[str, Any]) -> Any:
    found = _reflectors(w, args, avals[0], results[1])
    return found and (matrices.swapped(w, found[0], 1 + is_pair(avals[0])), found[1])


def _reflectors(w: Writer, args: Any, a: Aval, tau: Aval) -> tuple[Var, ...] | None:
    """Return Householder's vectors, r in their place, and their factors."""
    wide = "m" if a.shape[-2] <= a.shape[-1] else "n"
    names = ["qr_r_raw", f"qr_r_raw_{wide}"]
    found = _called(w, names, args, (a,), (tau, a), lead=a.shape[:-2], overwrites=True)
    return found and found[::-1]


def _of_pairs(w: Writer, *args: Any, of: str, complex_avals: Any, **params: Any) -> Any:
    """Let a loop compute what a primitive does with complex numbers."""
    rule = PAIRED.get(of)
    if rule is None or not all(isinstance(a, Var) for a in args):
        return None
    known = dict(w.constants.values())
    args = tuple([w.array(as_pairs(known[a])) if is_pair(a.aval) else a for a in args])
    given, results = complex_avals
    return rule(w, args, given, results, params)


def paired(w: Writer, x: Var) -> Var:
    """Return real numbers as complex ones."""
    return w.pairs(x, w.array(np.zeros(x.aval.shape, x.aval.dtype)))


def _after(name: str, given: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return the rule of a primitive of real matrices, if kernels and another rule do not know them."""

    def rule(w: Writer, *args: Any, **params: Any) -> Any:
        found = given(w, *args, **params) if given else None
        if found is not None or not all(isinstance(a, Var) and a.aval.dtype.char in "fd" for a in args):
            return found
        made = PRIMITIVES[name].shape(*(a.aval for a in args), **params)  # type: ignore[misc]
        results = made if PRIMITIVES[name].many else (made,)
        outs = tuple([Var(a, "") for a in results])
        if is_native(Equation(name, args, params, outs, "")):
            return None
        return PAIRED[name](w, args, tuple(map(aval_out, args)), results, params)

    return rule


RULES[ON_PAIRS] = _of_pairs
RULES.update({name: _after(name, RULES.get(name)) for name in tuple(PAIRED) if name != "eig"})
