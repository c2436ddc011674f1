"""Rows that only say where elements come from: views, pieces and lookups.

`VIEWS` is filled here: for each row a function from the elements of a program, the equation, which of its
outputs it is and where, to the scalar that stands there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fgrad.compiler.elements import (
    PIECES,
    VIEWS,
    Elements,
    Indices,
    NeedsUnrolledError,
    Piece,
    aligned,
    shape_of,
    within,
)
from fgrad.compiler.index import HERE, Index, linear, plus, times
from fgrad.compiler.scopes import Value
from fgrad.core.aval import Shape, aval_of
from fgrad.core.program import Equation, Var
from fgrad.ops.indexing import layout


def _broadcast(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    x = equation.args[0]
    return e.value(x, aligned(at, shape_of(x)))


def _transpose(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    axes = equation.params["axes"]
    place = dict(zip(axes, at, strict=True))
    return e.value(equation.args[0], tuple(place[i] for i in range(len(axes))))


def _reshape(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    x = equation.args[0]
    if not isinstance(x, Var):
        return e.constant(x)
    shape, out = x.aval.shape, equation.outs[0].aval.shape
    long = [ix for ix, n in zip(at, out, strict=True) if n != 1]
    if [n for n in shape if n != 1] == [n for n in out if n != 1]:  # axes of length one come and go
        rest = iter(long)
        return e.value(x, tuple(HERE if n == 1 else next(rest) for n in shape))
    place = linear(at, out)
    value = e.flat(x, place)
    if value is None:
        loops = [k for k, _ in place.terms if k in e.unrollable]
        if loops:
            raise NeedsUnrolledError(loops)
        e.wanted[x] = None
        value = e.load(x, place, place)
    return value


def sliced(index: tuple[Any, ...], shape: Shape) -> list[tuple[int, int, int] | None]:
    """Return for each axis of the result of `x[index]` (axis of x, start, step), None for a new axis.

    An axis of x that disappears is given as an entry with step zero, which is no axis of the result.
    """
    consumed = sum(p is not None and p is not Ellipsis for p in index)
    if Ellipsis not in index:
        index = (*index, Ellipsis)
    out: list[tuple[int, int, int] | None] = []
    axis = 0
    for p in index:
        if p is None:
            out.append(None)
        elif p is Ellipsis:
            for _ in range(len(shape) - consumed):
                out.append((axis, 0, 1))
                axis += 1
        elif isinstance(p, slice):
            start, _, step = p.indices(shape[axis])
            out.append((axis, start, step))
            axis += 1
        else:
            out.append((axis, p + shape[axis] if p < 0 else p, 0))
            axis += 1
    return out


def _slice(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    x = equation.args[0]
    place = [HERE] * len(shape_of(x))
    rest = iter(at)
    for part in sliced(equation.params["index"], shape_of(x)):
        if part is None:
            next(rest)
        else:
            axis, start, step = part
            place[axis] = plus(Index(start), times(next(rest), step)) if step else Index(start)
    return e.value(x, tuple(place))


def _unslice(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    """Return an element of the slice, or zero: one axis after the other decides which."""
    (x,), shape = equation.args, equation.outs[0].aval.shape
    inner = shape_of(x)
    parts = sliced(equation.params["index"], shape)
    return _within(e, x, inner, parts, at, shape)


def _within(e: Elements, x: Any, inner: Shape, parts: Any, at: Indices, shape: Shape) -> Value:
    place: list[Index] = []
    guard = []
    k = 0
    dtype = x.aval.dtype if isinstance(x, Var) else aval_of(x).dtype
    for part in parts:
        if part is None:
            place.append(HERE)
            k += 1
            continue
        axis, start, step = part
        ix = at[axis]
        least, most = e.reach(ix)
        count = inner[k] if step else 1
        if step == 1 or not step:
            first, last = start, start + count
            moved = plus(ix, Index(-start))
        elif step == -1:
            first, last = start - count + 1, start + 1
            moved = plus(Index(start), times(ix, -1))
        else:
            if ix.terms:
                loops = [n for n, _ in ix.terms if n in e.unrollable]
                if loops:
                    raise NeedsUnrolledError(loops)
                raise NotImplementedError(f"unslice with step {step}")
            where, left = divmod(ix.const - start, step)
            if left or not 0 <= where < count:
                return e.constant(dtype.type(0))
            place.append(Index(where))
            k += 1
            continue
        if most < first or least >= last:
            return e.constant(dtype.type(0))
        if least < first or most >= last:
            loops = [n for n, _ in ix.terms if n in e.unrollable]
            if loops:
                raise NeedsUnrolledError(loops)
            guard.append(within(ix, first, last, least, most))
        if step:
            place.append(moved)
            k += 1
    if not guard:
        return e.value(x, tuple(place))
    line = tuple(p for g in guard for p in (" and ", *g))[1:]
    zero = e.constant(dtype.type(0))
    if not isinstance(x, Var):
        return e.choice(line, e.constant(x), zero)
    if x not in e.stored:
        e.wanted[x] = None
    return e.load(x, linear(place, inner), tuple(place), line, zero)


def _concatenate(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    axis, start, pieces = equation.params["axis"], 0, []
    for x in equation.args:
        stop = start + shape_of(x)[axis]
        pieces.append(Piece(start, stop, x, lambda ix: (*at[:axis], ix, *at[axis + 1 :])))
        start = stop
    dtype = equation.outs[0].aval.dtype
    return e.convert(e.piece(at[axis], pieces, dtype), dtype)


def _stack(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    pieces = [Piece(i, i + 1, x, lambda _: at[1:]) for i, x in enumerate(equation.args)]
    dtype = equation.outs[0].aval.dtype
    return e.convert(e.piece(at[0], pieces, dtype), dtype)


def _unstack(e: Elements, equation: Equation, place: int, at: Indices) -> Value:
    axis = equation.params["axis"]
    return e.value(equation.args[0], (*at[:axis], Index(place), *at[axis:]))


def _same(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    return e.value(equation.args[0], at)


def _gather(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    x, *arrays = equation.args
    place = looked_up(e, arrays, equation.params["template"], shape_of(x), at)
    if not any(k in e.builder.symbols for ix in place for k, _ in ix.terms):
        return e.value(x, place)
    if x not in e.stored:
        e.wanted[x] = None
    return e.load(x, linear(place, shape_of(x)), place)


def looked_up(
    e: Elements, arrays: Sequence[Var], template: tuple[Any, ...], shape: Shape, at: Indices
) -> Indices:
    """Return where in an array of `shape` the element at `at` of what index arrays choose is."""
    pre, rank = layout(shape, [j.aval for j in arrays], template)
    advanced = at[pre : pre + rank]
    rest, holes = iter((*at[:pre], *at[pre + rank :])), iter(arrays)
    consumed = sum(p is not None and p is not Ellipsis for p in template)
    place: list[Index] = []
    for part in template if Ellipsis in template else (*template, Ellipsis):
        if part is None:
            next(rest)
        elif part is Ellipsis:
            place += [next(rest) for _ in range(len(shape) - consumed)]
        elif isinstance(part, slice):
            start, _stop, step = part.indices(shape[len(place)])
            place.append(plus(Index(start), times(next(rest), step)))
        elif isinstance(part, int):
            place.append(Index(part % shape[len(place)]))
        else:
            j = next(holes)
            place.append(e.place(j, aligned(advanced, j.aval.shape), shape[len(place)]))
    return tuple(place)


def _update(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    """Return an element of the value inside the slice, of the array outside."""
    x, value = equation.args
    shape = equation.outs[0].aval.shape
    parts = sliced(equation.params["index"], shape)
    guard, place = [], []
    for part in parts:
        if part is None:
            place.append(HERE)
            continue
        axis, start, step = part
        ix = at[axis]
        least, most = e.reach(ix)
        count = part_length(equation.params["index"], shape, axis) if step else 1
        first, last = (start, start + count) if step >= 0 else (start - count + 1, start + 1)
        if most < first or least >= last:
            return e.value(x, at)
        if least < first or most >= last:
            loops = [n for n, _ in ix.terms if n in e.unrollable]
            if loops:
                raise NeedsUnrolledError(loops)
            guard.append(within(ix, first, last, least, most))
        if step:
            place.append(plus(ix, Index(-start)) if step == 1 else plus(Index(start), times(ix, -1)))
    where = aligned(tuple(place), shape_of(value)[-len(place) :] if place else ())
    where = (*(HERE,) * (len(shape_of(value)) - len(where)), *where)
    dtype = equation.outs[0].aval.dtype
    if not guard:
        return e.convert(e.value(value, where), dtype)
    line = tuple(p for g in guard for p in (" and ", *g))[1:]
    other = e.value(x, at)
    if not isinstance(value, Var):
        return e.choice(line, e.constant(value, dtype), other)
    if value not in e.stored:
        e.wanted[value] = None
    if value.aval.dtype != dtype:
        raise NotImplementedError
    return e.load(value, linear(where, value.aval.shape), where, line, other)


def part_length(index: tuple[Any, ...], shape: Shape, axis: int) -> int:
    """Return how many elements along an axis a slice takes."""
    consumed = sum(p is not None and p is not Ellipsis for p in index)
    k = 0
    for p in index:
        if p is Ellipsis:
            k += len(shape) - consumed
        elif p is not None:
            if k == axis and isinstance(p, slice):
                return len(range(*p.indices(shape[axis])))
            k += 1
        if k > axis:
            break
    return shape[axis]


VIEWS.update(
    {
        "gather": _gather,
        "update": _update,
        "broadcast_to": _broadcast,
        "transpose": _transpose,
        "reshape": _reshape,
        "slice": _slice,
        "unslice": _unslice,
        "concatenate": _concatenate,
        "stack": _stack,
        "unstack": _unstack,
        "positive": _same,
        "stop_gradient": _same,
        "name": _same,
    }
)
PIECES |= {"concatenate", "stack", "unslice", "update", "gather"}
