"""Sums and contractions of operands that are repeated, scaled, moved or mostly zero.

These rules change the order of additions, so results may differ by rounding, and the sign of a zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.compiler.simplify.constants import is_constant, number, typed
from fgrad.compiler.simplify.rewriting import Rewriting, Rules
from fgrad.compiler.simplify.shapes import SUMMED, THROUGH, Box, is_whole, remaining, take, undropped
from fgrad.core.aval import Shape
from fgrad.core.primitive import REPEATS, TRANSPOSES
from fgrad.core.program import Equation

REDUCTIONS = Rules()


def _repeated(rw: Rewriting, x: Any) -> tuple[Any, set[int]] | None:
    """Return what `x` repeats and the axes along which it does, if it is a broadcast."""
    made = rw.made_by(x, REPEATS)
    if made:
        inner = made.args[0]
        small, shape = rw.aval(inner).shape, x.aval.shape
        lead = len(shape) - len(small)
        return inner, {i for i, n in enumerate(shape) if i < lead or (small[i - lead] == 1 and n != 1)}
    s = rw.scalar(x)
    if s is not None and hasattr(s, "dtype") and rw.aval(x).shape and np.isfinite(s):
        return s, set(range(rw.aval(x).ndim))
    return None


# ---- sums -------------------------------------------------------------------------------------------


@REDUCTIONS.on("sum", "mean", "max", "min")
def repeated(rw: Rewriting, e: Equation) -> Any:
    """Reduce what is repeated, and count the repetitions."""
    (x,), axes = e.args, e.params["axes"]
    aval, dtype = rw.aval(x), e.outs[0].aval.dtype
    found = _repeated(rw, x)
    if found is None or not aval.size or (e.name == "sum" and aval.dtype.kind == "b"):
        return None
    inner, along = found
    gone = along.intersection(axes)
    if not gone:
        return None
    times = math.prod(aval.shape[i] for i in gone)
    if e.name == "sum" and times != 1:
        # a complex factor makes NaN beside infinity; how many there are need not be a number of the dtype
        count = None if dtype.kind not in "iuf" else typed(times, dtype)
        if count is None:
            return None
    rest = [i for i in range(aval.ndim) if i not in gone]
    small = tuple(1 if i in along else aval.shape[i] for i in rest)
    y = rw.reshape(inner, small)
    left = tuple(k for k, i in enumerate(rest) if i in axes)
    out = rw.make(e.name, y, axes=left) if left or e.name == "sum" else y
    if e.name == "sum" and times != 1:
        out = rw.multiply(out, count)
    return rw.broadcast_to(out, e.outs[0].aval.shape)


@REDUCTIONS.on("sum")
def summed(rw: Rewriting, e: Equation) -> Any:
    """Sums of sums, and sums of the same elements in other places."""
    (x,), axes = e.args, e.params["axes"]
    aval, out = rw.aval(x), e.outs[0].aval
    if out.dtype == aval.dtype and all(aval.shape[a] == 1 for a in axes):
        return rw.reshape(x, out.shape)
    if made := rw.maker(x, "sum"):
        (inner,), first = made.args, made.params["axes"]
        rest = remaining(first, rw.aval(inner).ndim)
        return rw.sum(inner, axes=tuple(sorted({*first, *(rest[a] for a in axes)})))
    made = rw.maker(x)
    rule = SUMMED.get(made.name) if made else None
    return rule(rw, e, made) if rule else None


@REDUCTIONS.on("sum", "mean")
def scaled(rw: Rewriting, e: Equation) -> Any:
    """Sum first, then change the sign, multiply or divide by a finite constant."""
    (x,) = e.args
    if e.outs[0].aval.dtype.kind != "f" or not rw.single(x):
        return None
    if made := rw.negation(x, e):
        return rw.make("negative", rw.make(e.name, made.args[0], **e.params))
    made = rw.maker(x, "multiply", "divide")
    if made and rw.aval(made.args[0]) == x.aval and (s := _factor(rw, made)) is not None:
        return rw.make(made.name, rw.make(e.name, made.args[0], **e.params), s)
    return None


def _factor(rw: Rewriting, made: Equation) -> Any:
    """Return the number by which an equation multiplies or divides, where that may be done to a sum instead.

    The sum must not be infinite where that of the products is not: so factors are at least one, and divisors
    at most.
    """
    dtype = made.outs[0].aval.dtype
    s = number(rw.scalar(made.args[1]), dtype)
    if s is None or not math.isfinite(s) or s == 0:
        return None
    return dtype.type(s) if (abs(s) >= 1 if made.name == "multiply" else abs(s) <= 1) else None


# ---- contractions -----------------------------------------------------------------------------------


@REDUCTIONS.on("contract")
def contracted(rw: Rewriting, e: Equation) -> Any:
    """Sum instead of multiplying with what is repeated; signs and constant factors go outside."""
    (x, y), p = e.args, e.params
    a, b, out = p["a"], p["b"], p["out"]
    for left, right, names, others, flipped in ((x, y, a, b, False), (y, x, b, a, True)):
        if (found := _repeated(rw, left)) and found[1] and all(rw.aval(left).shape):
            return _with_repeated(rw, e, (left, right, names, others), found, flipped=flipped)
        if made := rw.made_by(left, TRANSPOSES):
            moved = [""] * len(names)
            for c, axis in zip(names, made.params["axes"], strict=True):
                moved[axis] = c
            return _contract(rw, made.args[0], right, "".join(moved), others, out, flipped=flipped)
    return _without_ones(rw, e) or _outside(rw, e)


def _without_ones(rw: Rewriting, e: Equation) -> Any:
    """Contract without axes of length one."""
    (x, y), p, dtype = e.args, e.params, e.outs[0].aval.dtype
    lengths = dict(zip(p["a"] + p["b"], (*rw.aval(x).shape, *rw.aval(y).shape), strict=True))
    ones = {c for c, n in lengths.items() if n == 1}
    if not ones or rw.aval(x).dtype != dtype or rw.aval(y).dtype != dtype:
        return None
    a, b, out = ("".join(c for c in p[k] if c not in ones) for k in ("a", "b", "out"))
    x, y = (rw.reshape(v, tuple(lengths[c] for c in names)) for v, names in ((x, a), (y, b)))
    return rw.reshape(_contract(rw, x, y, a, b, out, flipped=False), e.outs[0].aval.shape)


def _contract(rw: Rewriting, x: Any, y: Any, a: str, b: str, out: str, *, flipped: bool) -> Any:
    """Return a contraction, or the simpler thing that it is where no axis is left."""
    if flipped:
        x, y, a, b = y, x, b, a
    for scalar, other, names, own in ((x, y, b, a), (y, x, a, b)):
        if not own:
            if (order := tuple(names.index(c) for c in out)) != tuple(range(len(order))):
                other = rw.transpose(other, axes=order)  # noqa: PLW2901
            return rw.multiply(other, scalar)
    return rw.make("contract", x, y, a=a, b=b, out=out)


def _with_repeated(
    rw: Rewriting, e: Equation, operands: tuple[Any, Any, str, str], found: Any, *, flipped: bool
) -> Any:
    left, right, names, others = operands
    out, dtype = e.params["out"], e.outs[0].aval.dtype
    if rw.aval(left).dtype != dtype or rw.aval(right).dtype != dtype:
        return None
    inner, along = found
    lost = {names[i] for i in along}
    shape = rw.aval(left).shape
    if is_constant(inner) and not np.abs(inner) >= 1:  # the sum alone may be infinite
        right, inner = rw.multiply(right, inner), dtype.type(1)
    small = rw.reshape(inner, tuple(n for i, n in enumerate(shape) if i not in along))
    rest = "".join(c for c in names if c not in lost)
    summed_letters = [c for c in others if c in lost and c not in out]
    if summed_letters:
        right = rw.sum(right, axes=tuple(others.index(c) for c in summed_letters))
    others = "".join(c for c in others if c not in summed_letters)
    present = "".join(c for c in out if c in rest or c in others)
    made = _contract(rw, small, right, rest, others, present, flipped=flipped)
    lengths = dict(zip(out, e.outs[0].aval.shape, strict=True))
    return rw.broadcast_to(
        rw.reshape(made, tuple(lengths[c] if c in present else 1 for c in out)), e.outs[0].aval.shape
    )


def _outside(rw: Rewriting, e: Equation) -> Any:
    """Change the sign, multiply or divide after the contraction, where its result is the smaller one."""
    aval = e.outs[0].aval
    if aval.dtype.kind != "f":
        return None
    for i, v in enumerate(e.args):
        made = rw.maker(v, "negative", "multiply", "divide") if rw.single(v) else None
        if not made or rw.aval(v).size < aval.size or rw.aval(made.args[0]) != v.aval:
            continue
        if v.aval.dtype != aval.dtype:  # integers wrap before they are widened, and floats are rounded
            continue
        s = None if made.name == "negative" else _factor(rw, made)
        if made.name != "negative" and s is None:
            continue
        args = list(e.args)
        args[i] = made.args[0]
        inside = rw.make("contract", *args, **e.params)
        return rw.make("negative", inside) if s is None else rw.make(made.name, inside, s)
    return None


# ---- sums of contractions ---------------------------------------------------------------------------


@REDUCTIONS.on("sum")
def weighted(rw: Rewriting, e: Equation) -> Any:
    """Weight an operand of a contraction instead of its result, where that is much larger."""
    (x,), axes = e.args, e.params["axes"]
    made = rw.maker(x, "multiply") if rw.single(x) and x.aval.dtype.kind == "f" else None
    if not made:
        return None
    for product, weight in (made.args, made.args[::-1]):
        inner = rw.maker(product, "contract") if rw.single(product) else None
        if inner and product.aval == x.aval and rw.aval(weight).dtype == x.aval.dtype:
            out, shape = inner.params["out"], rw.aval(weight).shape
            shape = (*(1,) * (len(out) - len(shape)), *shape)
            own = "".join(c for c, n in zip(out, shape, strict=True) if n != 1)
            weight = rw.reshape(weight, tuple(n for n in shape if n != 1))  # noqa: PLW2901
            kept = "".join(c for i, c in enumerate(out) if i not in axes)
            return _with_weight(rw, inner, weight, own, kept)
    return None


def _with_weight(rw: Rewriting, inner: Equation, weight: Any, own: str, kept: str) -> Any:
    """Return the sum of a contraction times an array with the axes `own`, over all axes but `kept`."""
    names, whole = (inner.params["a"], inner.params["b"]), inner.outs[0].aval
    lengths = dict(zip("".join(names), (n for v in inner.args for n in rw.aval(v).shape), strict=True))
    wide = ["".join(c for c in own if c not in a) + a for a in names]
    sizes = [math.prod(lengths[c] for c in w) for w in wide]
    i = sizes.index(min(sizes))
    if 2 * sizes[i] > whole.size or any(rw.aval(v).dtype != whole.dtype for v in inner.args):
        return None
    order = [c for c in wide[i] if c in own]
    weight = rw.transpose(weight, axes=tuple(own.index(c) for c in order))
    weight = rw.reshape(weight, tuple(lengths[c] if c in own else 1 for c in wide[i]))
    operands, letters = list(inner.args), list(names)
    operands[i], letters[i] = rw.multiply(operands[i], weight), wide[i]
    for k in (0, 1):  # what only one of them has and nobody asks for is summed there
        gone = [c for c in letters[k] if c not in kept and c not in letters[1 - k]]
        if gone:
            operands[k] = rw.sum(operands[k], axes=tuple(letters[k].index(c) for c in gone))
            letters[k] = "".join(c for c in letters[k] if c not in gone)
    (x, y), (a, b) = operands, letters
    return _contract(rw, x, y, a, b, kept, flipped=False)


@THROUGH.on("contract")
def _through_contract(rw: Rewriting, made: Any, taken: list[Box], out: Shape) -> Any:
    """Contract what is taken of the operands, where that is less than what need not be computed."""
    a, b, names = (made.params[k] for k in ("a", "b", "out"))
    where = dict(zip(names, map(undropped, taken), strict=True))
    parts, moved = [], 0
    for v, letters in zip(made.args, (a, b), strict=True):
        shape = rw.aval(v).shape
        own = [where.get(c) or Box(0, n, 1) for c, n in zip(letters, shape, strict=True)]
        moved += 0 if is_whole(shape, own) else math.prod(p.length for p in own)
        parts.append(own)
    if not rw.single(made.outs[0]) or moved > made.outs[0].aval.size - math.prod(out):
        return None
    args = [take(rw, v, own) for v, own in zip(made.args, parts, strict=True)]
    return rw.reshape(rw.make("contract", *args, a=a, b=b, out=names), out)
