"""Contractions as kernels and BLAS take them: sums of products where that is all they are, few transposes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from fgrad.compiler.decompose import ON_DEVICE, RULES, Writer
from fgrad.compiler.library import is_native
from fgrad.compiler.products import arranged, is_inline
from fgrad.core.aval import Aval
from fgrad.core.primitive import TRANSPOSES
from fgrad.core.program import Equation, Var

LITTLE = 2**18  # multiplications of a product of matrices that kernels on a device compute themselves
MANY = 6  # axes of a product of arrays: those of more are short, and some may be taken as one


@RULES.on("contract")
def _contract(w: Writer, x: Any, y: Any, *, a: str, b: str, out: str) -> Any:
    """Let transposes be other subscripts, and products of equal axes sums of products."""
    if not isinstance(x, Var) or not isinstance(y, Var):
        return None
    if {x.aval.dtype.kind, y.aval.dtype.kind} - {"f", "c"}:
        return None  # sums widen integers, products do not
    x, a = _untransposed(w, x, a)
    y, b = _untransposed(w, y, b)
    if len(set(a + b)) > MANY and (runs := _runs(a, b, out)):
        return _merged(w, x, y, (a, b, out), runs)
    if set(a) != set(b):
        return _multiplied(w, x, y, a, b, out)
    if a != b:
        y = w.transpose(y, axes=tuple(b.index(c) for c in a))
    z = w.multiply(x, y)
    axes = tuple(i for i, c in enumerate(a) if c not in out)
    z = w.sum(z, axes=axes) if axes else z
    kept = "".join(c for c in a if c in out)
    return z if kept == out else w.transpose(z, axes=tuple(kept.index(c) for c in out))


def _runs(*places: str) -> list[str]:
    """Return the letters that follow one another wherever one of them is."""
    after = {
        c: d
        for p in places
        for c, d in itertools.pairwise(p)
        if all((c + d in q) if c in q else d not in q for q in places)
    }
    runs = []
    for c in after:
        if c not in after.values():
            run = c
            while run[-1] in after:
                run += after[run[-1]]
            runs.append(run)
    return runs


def _merged(w: Writer, x: Var, y: Var, places: tuple[str, str, str], runs: Sequence[str]) -> Any:
    """Write a contraction of short axes as one of fewer: kernels would write out loops over them."""
    a, b, out = places
    lengths = dict(zip(a + b, x.aval.shape + y.aval.shape, strict=True))
    shape = tuple([lengths[c] for c in out])
    for run in runs:
        lengths[run[0]] = math.prod(lengths[c] for c in run)
        a, b, out = (p.replace(run, run[0]) for p in (a, b, out))
    x, y = (w.reshape(v, tuple([lengths[c] for c in p])) for v, p in ((x, a), (y, b)))
    z = _contract(w, x, y, a=a, b=b, out=out)
    if z is None:
        z = w.contract(x, y, a=a, b=b, out=out)
    return w.reshape(z, shape)


@ON_DEVICE.on("contract")
def _contract_there(w: Writer, x: Any, y: Any, *, a: str, b: str, out: str) -> Any:
    """Let small products of matrices be sums of products: CuPy does not let a CUDA graph record cuBLAS."""
    if isinstance(x, Var) and isinstance(y, Var) and x.aval.dtype.kind == y.aval.dtype.kind == "f":
        lengths = dict(zip(a + b, x.aval.shape + y.aval.shape, strict=True))
        if math.prod(lengths.values()) <= LITTLE:
            letters = out + "".join(c for c in a if c not in out)
            z = w.multiply(*(_spread(w, v, own, letters) for v, own in ((x, a), (y, b))))
            axes = tuple(range(len(out), len(letters)))
            return w.sum(z, axes=axes) if axes else z
    return _contract(w, x, y, a=a, b=b, out=out)


def _spread(w: Writer, x: Var, own: str, letters: str) -> Any:
    """Return an array of the axes `own` with those of `letters`, of length one where it lacks them."""
    x = _reordered(w, x, own, "".join(c for c in letters if c in own))
    lengths = dict(zip((c for c in letters if c in own), x.aval.shape, strict=True))
    shape = tuple([lengths.get(c, 1) for c in letters])
    return w.reshape(x, shape)


def _multiplied(w: Writer, x: Var, y: Var, a: str, b: str, out: str) -> Var:
    """Write a contraction, with as little transposed as BLAS needs where that can compute it."""
    lengths = dict(zip(a + b, x.aval.shape + y.aval.shape, strict=True))
    given = (a, b, out)

    def moved(order: tuple[str, ...]) -> int:
        return sum(math.prod(lengths[c] for c in o) for o, g in zip(order, given, strict=True) if o != g)

    orders = itertools.product(*zip(given, arranged(a, b, out), strict=True))
    for order in sorted(orders, key=moved):
        shapes = [tuple(lengths[c] for c in letters) for letters in order]
        args = [Var(Aval(s, v.aval.dtype), "") for s, v in zip(shapes, (x, y), strict=False)]
        params = dict(zip(("a", "b", "out"), order, strict=True))
        z = Var(Aval(shapes[2], x.aval.dtype), "")
        made = Equation("contract", tuple(args), params, (z,), "")
        if is_inline(made) or is_native(made):
            x, y = _reordered(w, x, a, order[0]), _reordered(w, y, b, order[1])
            return _reordered(w, w.contract(x, y, **params), order[2], out)
    product: Var = w.contract(x, y, a=a, b=b, out=out)
    return product


def _reordered(w: Writer, x: Var, letters: str, order: str) -> Var:
    """Return an array whose axes are `letters` with these in another order."""
    return x if letters == order else w.transpose(x, axes=tuple(map(letters.index, order)))


def _untransposed(w: Writer, x: Var, letters: str) -> tuple[Var, str]:
    """Return what `x` is the transpose of, and the letters of its axes."""
    e = w.makers.get(x)
    if e is None or TRANSPOSES not in e.traits or not isinstance(e.args[0], Var):
        return x, letters
    place = dict(zip(e.params["axes"], letters, strict=True))
    return e.args[0], "".join(place[i] for i in range(len(letters)))
