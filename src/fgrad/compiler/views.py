"""Primitives that only select elements: views, slices and lookups.

`VIEWS` is filled here: for each primitive a function from the elements of a program, the equation, which of
its outputs it is and where, to the scalar that stands there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.compiler.elements import (
    Elements,
    Indices,
    NeedsUnrolledError,
    Piece,
    aligned,
    shape_of,
    view,
    within,
)
from fgrad.compiler.index import HERE, Index, linear, plus, times
from fgrad.compiler.loop_nests import Bound, Line, Value
from fgrad.core.aval import Shape
from fgrad.core.program import Equation, Var
from fgrad.ops.indices import layout


@view("broadcast_to")
def _broadcast(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    x = equation.args[0]
    return e.value(x, aligned(at, shape_of(x)))


@view("transpose")
def _transpose(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    axes = equation.params["axes"]
    place = dict(zip(axes, at, strict=True))
    return e.value(equation.args[0], tuple(place[i] for i in range(len(axes))))


@view("reshape", flat=True)
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
        loops = e.needs_unrolled(x, place)
        if loops:
            raise NeedsUnrolledError(loops)
        e.wanted[x] = None
        value = e.load(x, place, place)
    return value


def sliced(index: tuple[Any, ...], shape: Shape) -> list[tuple[int, int, int, int] | None]:
    """Return for each part of `x[index]` (axis of x, start, step, how many elements), None for a new axis.

    An axis of x that disappears is given as a part with step zero, which is no axis of the result.
    """
    consumed = sum(p is not None and p is not Ellipsis for p in index)
    if Ellipsis not in index:
        index = (*index, Ellipsis)
    out: list[tuple[int, int, int, int] | None] = []
    axis = 0
    for p in index:
        if p is None:
            out.append(None)
        elif p is Ellipsis:
            for _ in range(len(shape) - consumed):
                out.append((axis, 0, 1, shape[axis]))
                axis += 1
        elif isinstance(p, slice):
            start, stop, step = p.indices(shape[axis])
            out.append((axis, start, step, len(range(start, stop, step))))
            axis += 1
        else:
            out.append((axis, p + shape[axis] if p < 0 else p, 0, 1))
            axis += 1
    return out


def _has_no_truths(equation: Equation) -> bool:
    return bool not in map(type, equation.params["index"])


@view("slice", when=_has_no_truths)
def _slice(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    x = equation.args[0]
    place = [HERE] * len(shape_of(x))
    rest = iter(at)
    for part in sliced(equation.params["index"], shape_of(x)):
        if part is None:
            next(rest)
        else:
            axis, start, step, _count = part
            place[axis] = plus(Index(start), times(next(rest), step)) if step else Index(start)
    return e.value(x, tuple(place))


@view("slice_backward", pieces=True, when=_has_no_truths)
def _slice_backward(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    """Return an element of the slice, or zero."""
    (x,), aval = equation.args, equation.outs[0].aval
    zero = e.constant(aval.dtype.type(0))
    found = _inside(e, equation.params["index"], aval.shape, at)
    if found is None:
        return zero
    place, guard = found
    return _guarded(e, x, place, guard, lambda: zero)


def _inside(e: Elements, index: tuple[Any, ...], shape: Shape, at: Indices) -> tuple[Indices, Line] | None:
    """Return where in `x[index]` the element at `at` of x is, and on what condition; None if not there."""
    place: list[Index] = []
    guards: list[Line] = []
    for part in sliced(index, shape):
        if part is None:
            place.append(HERE)
            continue
        axis, start, step, count = part
        ix = at[axis]
        least, most = e.reach(ix)
        ends = start, start + step * (count - 1)
        first, last = min(ends), max(ends) + 1
        if not count or most < first or least >= last:
            return None
        stride = max(abs(step), 1)
        if least < first or most >= last or stride > 1:
            loops = e.unrolled(ix.terms)
            if loops:
                raise NeedsUnrolledError(loops)
        if least < first or most >= last:
            guards.append(within(ix, first, last, least, most))
        if step:
            ix = plus(ix, Index(-start)) if step > 0 else plus(Index(start), times(ix, -1))
        if stride > 1:
            ix, rest = e.divided(ix, stride)
            if not rest.terms and rest.const:
                return None
            guards += [(rest, " == ", Bound(0))] if rest.terms else []
        if step:
            place.append(ix)
    return tuple(place), tuple(p for g in guards for p in (" and ", *g))[1:]


def _guarded(e: Elements, x: Any, place: Indices, guard: Line, other: Callable[[], Value]) -> Value:
    """Return an element of `x` where `guard` holds, or where there is none; else what `other` returns."""
    if not guard:
        return e.value(x, place)
    rest = other()
    if not isinstance(x, Var):
        return e.choice(guard, e.constant(x, rest.dtype), rest)
    return e.guarded(x, place, guard, rest)


@view("concatenate", pieces=True)
def _concatenate(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    axis, start, pieces = equation.params["axis"], 0, []
    for x in equation.args:
        stop = start + shape_of(x)[axis]
        pieces.append(Piece(start, stop, x, lambda ix: (*at[:axis], ix, *at[axis + 1 :])))
        start = stop
    dtype = equation.outs[0].aval.dtype
    return e.convert(e.piece(at[axis], pieces, dtype), dtype)


@view("stack", pieces=True)
def _stack(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    pieces = [Piece(i, i + 1, x, lambda _: at[1:]) for i, x in enumerate(equation.args)]
    dtype = equation.outs[0].aval.dtype
    return e.convert(e.piece(at[0], pieces, dtype), dtype)


@view("unstack")
def _unstack(e: Elements, equation: Equation, place: int, at: Indices) -> Value:
    axis = equation.params["axis"]
    return e.value(equation.args[0], (*at[:axis], Index(place), *at[axis:]))


@view("positive", "stop_gradient", "name")
def _same(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    return e.value(equation.args[0], at)


def _is_looked_up(equation: Equation) -> bool:
    arrays = equation.args[1:]
    return all(isinstance(j, Var) for j in arrays) and bool not in map(type, equation.params["template"])


@view("gather", pieces=True, when=_is_looked_up)
def _gather(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    x, *arrays = equation.args
    place = looked_up(e, arrays, equation.params["template"], shape_of(x), at)
    if not any(k in e.builder.symbols for ix in place for k, _ in ix.terms):
        return e.value(x, place)
    where = linear(place, shape_of(x))
    source = e.memory(x)
    if source not in e.stored:
        e.wanted[source] = None
    return e.load(source, where, place if source is x else where)


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


def _is_written(equation: Equation) -> bool:
    (x, value), out = equation.args, equation.outs[0].aval
    same = not isinstance(value, Var) or value.aval.dtype == out.dtype
    return same and isinstance(x, Var) and _has_no_truths(equation)


@view("update", pieces=True, when=_is_written)
def _update(e: Elements, equation: Equation, _: int, at: Indices) -> Value:
    """Return an element of the value inside the slice, of the array outside."""
    (x, value), aval = equation.args, equation.outs[0].aval
    found = _inside(e, equation.params["index"], aval.shape, at)
    if found is None:
        return e.value(x, at)
    place, guard = found
    shape = shape_of(value)
    where = aligned(place, shape[-len(place) :] if place else ())
    where = (*(HERE,) * (len(shape) - len(where)), *where)
    return e.convert(_guarded(e, value, where, guard, lambda: e.value(x, at)), aval.dtype)
