"""Arrays assembled from parts: sums of arrays that are mostly zero, and sequences of assignments.

A loop over the elements of an array leaves them, forwards (assignments) and in the reverse sweep (sums). Each
chain is looked at once, at its end, and becomes one `concatenate`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

from fgrad.compiler.simplify.rewriting import Rewriting, Rules
from fgrad.compiler.simplify.shapes import Box, boxes, index_of, joined, kept_lengths, lengths, padded, part
from fgrad.core.aval import Aval, Shape
from fgrad.core.primitive import ADDS
from fgrad.core.program import Equation

ASSEMBLY = Rules()


class Part(NamedTuple):
    """What is written, and where; it has all axes of the whole."""

    value: Any
    place: tuple[Box, ...]


@ASSEMBLY.on_those(ADDS)
def added(rw: Rewriting, e: Equation) -> Any:
    """Add up arrays that are zero but for a part: one array of all parts."""
    (out,) = e.outs
    if rw.goes_into(out, e.name):
        return None
    shape, others = out.aval.shape, []
    parts: list[Part] = []
    for term in rw.chain(e, lambda made: made.outs[0].aval == out.aval):
        held = part(rw, term, shape) if rw.single(term) and term.aval == out.aval else None
        place = _place(shape, held[1]) if held else None
        if held and place:
            parts.append(Part(rw.reshape(held[0], lengths(place)), place))
        else:
            others.append(term)
    if len(parts) < 2:
        return None
    whole = _assembled(rw, _summed(rw, parts), out.aval)
    if whole is None:
        return None
    return reduce(rw.add, [*others, whole])


def _summed(rw: Rewriting, parts: Sequence[Part]) -> list[Part]:
    """Add parts of one place."""
    found: dict[tuple[Box, ...], Any] = {}
    for value, place in parts:
        found[place] = rw.add(found[place], value) if place in found else value
    return [Part(value, place) for place, value in found.items()]


@ASSEMBLY.on("update")
def assigned(rw: Rewriting, e: Equation) -> Any:
    """Put together what is assigned part by part, if that is all of an array; zeros next to zeros."""
    (out,) = e.outs
    shape = out.aval.shape
    if (wider := _wider(rw, e)) is not None:
        return wider
    if rw.goes_into(out, "update"):
        return None
    parts: dict[tuple[Box, ...], Any] = {}
    made: Equation | None = e
    while made:
        base, value = made.args
        number = rw.scalar(value)
        if number is not None:
            value = rw.full(number, Aval(_written(shape, made.params["index"]), out.aval.dtype))
        place = _place(shape, made.params["index"])
        if place is None or rw.aval(value) != Aval(_written(shape, made.params["index"]), out.aval.dtype):
            return None
        if place not in parts:  # what was assigned later stays
            parts[place] = value
        made = rw.maker(base, "update") if rw.single(base) else None
    if sum(math.prod(lengths(place)) for place in parts) != out.aval.size:
        return None
    return _assembled(rw, [Part(rw.reshape(v, lengths(p)), p) for p, v in parts.items()], out.aval)


def _wider(rw: Rewriting, e: Equation) -> Any:
    """Assign one number to neighbouring parts at once; nothing needs to be added where it is assigned."""
    base, value = e.args
    shape = e.outs[0].aval.shape
    place = _place(shape, e.params["index"])
    number = rw.scalar(value)
    if place is None or number is None:
        return None
    summed = rw.made_by(base, ADDS)
    for x, y in (summed.args, summed.args[::-1]) if summed else ():
        held = part(rw, y, shape)
        if held and rw.aval(x) == base.aval and _place(shape, held[1]) == place:
            return rw.make("update", x, number, index=index_of(place))
    before = rw.maker(base, "update")
    own = rw.scalar(before.args[1]) if before else None
    if not before or own is None or rw.constants.key(own) != rw.constants.key(number):
        return None
    first = _place(shape, before.params["index"])
    both = _joined(first, place) if first else None
    return rw.make("update", before.args[0], number, index=index_of(both)) if both else None


def _joined(a: tuple[Box, ...], b: tuple[Box, ...]) -> tuple[Box, ...] | None:
    """Return the place that two neighbours make up."""
    axes = [i for i, (p, q) in enumerate(zip(a, b, strict=True)) if p != q]
    if len(axes) != 1:
        return None
    (axis,) = axes
    p, q = sorted((a[axis], b[axis]))
    if p.start + p.length != q.start:
        return None
    return (*a[:axis], Box(p.start, p.length + q.length, 1), *a[axis + 1 :])


def _place(shape: Shape, index: tuple[Any, ...]) -> tuple[Box, ...] | None:
    """Return what a basic index takes, if that is a block without gaps."""
    taken = boxes(shape, index)
    if taken is None or any(b.step != 1 or not b.length for b in taken):
        return None
    return tuple(Box(b.start, b.length, 1) for b in taken)


def _written(shape: Shape, index: tuple[Any, ...]) -> Shape:
    """Return the shape of what an index takes."""
    return kept_lengths(boxes(shape, index) or ())


def _assembled(rw: Rewriting, parts: Sequence[Part], aval: Aval) -> Any:
    """Return the array of these parts and zeros; None if they are not side by side along one axis."""
    first = parts[0].place
    axes = {i for part in parts for i, (p, q) in enumerate(zip(first, part.place, strict=True)) if p != q}
    if len(axes) > 1 or any(rw.aval(value).dtype != aval.dtype for value, _ in parts):
        return None
    (axis,) = axes or {0}
    pieces: list[Any] = []
    region_lengths = lengths(first)
    begin = end = min(part.place[axis].start for part in parts)
    for value, place in sorted(parts, key=lambda part: part.place[axis].start):
        start, length, *_ = place[axis]
        if start < end:
            return None
        if start > end:
            gap = (*region_lengths[:axis], start - end, *region_lengths[axis + 1 :])
            pieces.append(rw.full(0, Aval(gap, aval.dtype)))
        pieces.append(value)
        end = start + length
    region = (*first[:axis], Box(begin, end - begin, 1), *first[axis + 1 :])
    return padded(rw, joined(rw, pieces, axis), aval.shape, region)
