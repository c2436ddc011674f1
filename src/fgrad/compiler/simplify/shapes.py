"""Views: reshapes, transposes, broadcasts, conversions, slices and their adjoints, joined or gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad.compiler.simplify.constants import is_constant, is_plain_zero
from fgrad.compiler.simplify.rewriting import Rewriting, Rules
from fgrad.compiler.tables import Table
from fgrad.core.aval import Aval, Shape
from fgrad.core.primitive import CONTRACTION
from fgrad.core.program import Equation, Var
from fgrad.ops.indices import HOLE

SHAPES = Rules()


# ---- the same elements, seen otherwise --------------------------------------------------------------


@SHAPES.on("reshape")
def reshape(rw: Rewriting, e: Equation) -> Any:
    """Nothing to its own shape; one of two; a repeated number keeps being one."""
    (x,), shape = e.args, e.params["shape"]
    if rw.aval(x).shape == shape:
        return x
    if made := rw.maker(x, "reshape"):
        return rw.reshape(made.args[0], shape)
    made = rw.maker(x, "broadcast_to")
    if made and rw.aval(made.args[0]).size == 1:
        return rw.broadcast_to(rw.reshape(made.args[0], ()), shape)
    return None


@SHAPES.on("transpose")
def transpose(rw: Rewriting, e: Equation) -> Any:
    """Nothing in order; one of two; a broadcast of the transpose; a reshape where only ones move."""
    (x,), axes = e.args, e.params["axes"]
    if axes == tuple(range(len(axes))):
        return x
    if made := rw.maker(x, "transpose"):
        return rw.transpose(made.args[0], axes=tuple(made.params["axes"][a] for a in axes))
    shape = rw.aval(x).shape
    moved = [a for a in axes if shape[a] != 1]
    if moved == sorted(moved):
        return rw.reshape(x, e.outs[0].aval.shape)
    if made := rw.maker(x, "broadcast_to"):
        small = rw.aval(made.args[0]).shape
        full = rw.reshape(made.args[0], (1,) * (len(shape) - len(small)) + small)
        return rw.broadcast_to(rw.transpose(full, axes=axes), e.outs[0].aval.shape)
    made = rw.maker(x)
    if made and CONTRACTION in made.traits and rw.single(x):
        out = "".join(made.params["out"][a] for a in axes)
        return rw.make(made.name, *made.args, a=made.params["a"], b=made.params["b"], out=out)
    return None


@SHAPES.on("broadcast_to")
def broadcast(rw: Rewriting, e: Equation) -> Any:
    """Nothing to its own shape; one of two; axes of length one in front come by themselves."""
    (x,), shape = e.args, e.params["shape"]
    if rw.aval(x).shape == shape:
        return x
    if made := rw.maker(x, "broadcast_to"):
        return rw.broadcast_to(made.args[0], shape=shape)
    made = rw.maker(x, "reshape")
    if made:
        small, inner = rw.aval(x).shape, rw.aval(made.args[0]).shape
        if len(inner) < len(small) and small == (1,) * (len(small) - len(inner)) + inner:
            return rw.broadcast_to(made.args[0], shape=shape)
    return None


@SHAPES.on("convert")
def convert(rw: Rewriting, e: Equation) -> Any:
    """Nothing to its own dtype; one of two where the first lost nothing."""
    (x,), dtype = e.args, e.params["dtype"]
    if rw.aval(x).dtype == dtype:
        return x
    if made := rw.maker(x, "convert"):
        source = rw.aval(made.args[0]).dtype
        if _loses_nothing(source, rw.aval(x).dtype, dtype):
            return made.args[0] if source == dtype else rw.convert(made.args[0], dtype=dtype)
    return None


def _loses_nothing(source: np.dtype[Any], between: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Return whether numbers that go from one dtype to another by a third one need not.

    NumPy calls it safe that large integers become floats. And what floats become integers that do not hold
    them depends on the floats.
    """
    if not np.can_cast(source, between, "safe"):
        return False
    if source.kind == "b" or between.kind in "iu":
        return True
    if source.kind in "iu" and np.iinfo(source).bits > np.finfo(between).nmant + 1:
        return False
    return dtype.kind not in "iu" or bool(np.can_cast(source, dtype, "safe"))


# ---- slices -----------------------------------------------------------------------------------------


class Box(NamedTuple):
    """What an index takes along an axis: `length` places from `start`, or one for an integer."""

    start: int
    length: int
    step: int
    drops: bool = False  # whether the axis disappears

    @property
    def index(self) -> Any:
        """It, as an index takes it."""
        if self.drops:
            return self.start
        if self.length == 0:
            return slice(0, 0)
        stop = self.start + self.length * self.step
        return slice(self.start, None if stop < 0 else stop, None if self.step == 1 else self.step)

    @property
    def places(self) -> range:
        """The places."""
        return range(self.start, self.start + self.length * self.step, self.step)


def boxes(shape: Shape, index: tuple[Any, ...]) -> list[Box] | None:
    """Return what a basic index takes along each axis; None if it adds axes."""
    if any(p is None or p.__class__ is bool for p in index):
        return None
    if Ellipsis in index:
        at = index.index(Ellipsis)
        rest = index[at + 1 :]
        index = (*index[:at], *(slice(None),) * (len(shape) - at - len(rest)), *rest)
    index = (*index, *(slice(None),) * (len(shape) - len(index)))
    found = []
    for n, p in zip(shape, index, strict=True):
        if isinstance(p, slice):
            places = range(*p.indices(n))
            found.append(Box(places.start, len(places), places.step))
        else:
            found.append(Box(p % n if n else p, 1, 1, drops=True))
    return found


def lengths(taken: Sequence[Box]) -> Shape:
    """Return the shape of what is taken, with integers as axes of length one."""
    return tuple(b.length for b in taken)


def kept_lengths(taken: Sequence[Box]) -> Shape:
    """Return the shape of what is taken."""
    return tuple(b.length for b in taken if not b.drops)


def is_whole(shape: Shape, taken: Sequence[Box]) -> bool:
    """Return whether all is taken, in order."""
    return all(b.start == 0 and b.step == 1 and b.length == n for n, b in zip(shape, taken, strict=True))


def index_of(taken: Sequence[Box]) -> tuple[Any, ...]:
    """Return the index that takes `taken`."""
    return tuple(b.index for b in taken)


def remaining(axes: Sequence[int], rank: int) -> list[int]:
    """Return the axes that are left without `axes`."""
    return [i for i in range(rank) if i not in axes]


def _added(shape: Shape, index: tuple[Any, ...]) -> bool:
    return any(p is None for p in index) and not any(p.__class__ is bool for p in index)


def _within(outer: Box, inner: Box) -> Box | None:
    """Return `inner`, places of a whole axis, as places of `outer`; None if some are not there."""
    if inner.length == 0 or outer.step != 1 or inner.places[0] < outer.start:
        return None
    last = outer.start + outer.length
    if max(inner.places[0], inner.places[-1]) >= last or inner.places[-1] < outer.start:
        return None
    return Box(inner.start - outer.start, inner.length, inner.step, inner.drops)


def _apart(a: Box, b: Box) -> bool:
    if not a.length or not b.length:
        return True
    low_a, high_a = sorted((a.places[0], a.places[-1]))
    low_b, high_b = sorted((b.places[0], b.places[-1]))
    return high_a < low_b or high_b < low_a


def undropped(b: Box) -> Box:
    """Return what takes the same, an integer as an axis of length one."""
    return Box(b.start, b.length, b.step)


def take(rw: Rewriting, x: Any, taken: Sequence[Box]) -> Any:
    """Return what `taken` takes of `x`."""
    shape = rw.aval(x).shape
    if is_whole(shape, taken):
        return rw.reshape(x, kept_lengths(taken))
    return rw.slice(x, index=index_of(taken))


@SHAPES.on("slice")
def sliced(rw: Rewriting, e: Equation) -> Any:
    """Look through what the array is made of."""
    (x,), index = e.args, e.params["index"]
    shape, out = rw.aval(x).shape, e.outs[0].aval.shape
    if _added(shape, index):
        return rw.reshape(rw.slice(x, index=tuple(p for p in index if p is not None)), out)
    taken = boxes(shape, index)
    if taken is None:
        return None
    if is_whole(shape, taken):
        return rw.reshape(x, out)
    rule = THROUGH.get((rw.maker(x) or _NOTHING).name)
    return rule(rw, rw.maker(x), taken, out) if rule else None


_NOTHING = Equation("", (), {}, (), "")


THROUGH = Table()  # parts of it, of parts of operands: (rewriting, equation, what is taken, shape) -> them


@THROUGH.on("slice")
def _through_slice(rw: Rewriting, made: Any, taken: list[Box], out: Shape) -> Any:
    first = boxes(rw.aval(made.args[0]).shape, made.params["index"])
    return None if first is None else rw.reshape(take(rw, made.args[0], _of_taken(first, taken)), out)


def _of_taken(first: Sequence[Box], second: Sequence[Box]) -> list[Box]:
    """Return what `second` takes of what `first` takes."""
    rest = iter(second)
    joined = []
    for b in first:
        c = None if b.drops else next(rest)
        joined.append(Box(b.start + c.start * b.step, c.length, b.step * c.step, c.drops) if c else b)
    return joined


@THROUGH.on("slice_backward")
def _through_slice_backward(rw: Rewriting, made: Any, taken: list[Box], out: Shape) -> Any:
    (x,), shape = made.args, made.params["shape"]
    written = boxes(shape, made.params["index"])
    if written is None:
        return None
    if any(_apart(w, t) for w, t in zip(written, taken, strict=True)):
        return rw.full(0, Aval(out, rw.aval(x).dtype))
    own = rw.reshape(x, lengths(written))
    if all(undropped(w) == undropped(t) for w, t in zip(written, taken, strict=True)):
        return rw.reshape(own, out)
    inside = [_within(w, t) for w, t in zip(written, taken, strict=True)]
    if any(b is None for b in inside):
        return None
    return rw.reshape(take(rw, own, [b for b in inside if b]), out)


@THROUGH.on("update")
def _through_update(rw: Rewriting, made: Any, taken: list[Box], out: Shape) -> Any:
    x, value = made.args
    shape = rw.aval(x).shape
    written = boxes(shape, made.params["index"])
    if written is None:
        return None
    if any(_apart(w, t) for w, t in zip(written, taken, strict=True)):
        return take(rw, x, taken)
    aval = rw.aval(value)
    region = kept_lengths(written)
    same = all(undropped(w) == undropped(t) for w, t in zip(written, taken, strict=True))
    typed = value.__class__ is Var or hasattr(value, "dtype")
    if same and typed and aval.dtype == rw.aval(x).dtype and len(aval.shape) <= len(region):
        return rw.reshape(rw.broadcast_to(value, region), out)
    return None


@THROUGH.on("concatenate")
def _through_concatenate(rw: Rewriting, made: Any, taken: list[Box], out: Shape) -> Any:
    axis = made.params["axis"]
    start = 0
    for piece in made.args:
        aval = rw.aval(piece)
        inside = _within(Box(start, aval.shape[axis], 1), taken[axis])
        start += aval.shape[axis]
        if inside is not None:
            same = aval.dtype == made.outs[0].aval.dtype
            return take(rw, piece, [*taken[:axis], inside, *taken[axis + 1 :]]) if same else None
    return None


@THROUGH.on("stack")
def _through_stack(rw: Rewriting, made: Any, taken: list[Box], out: Shape) -> Any:
    first, rest = taken[0], taken[1:]
    if first.length != 1 or rw.aval(made.args[first.start]).dtype != made.outs[0].aval.dtype:
        return None
    return rw.reshape(take(rw, made.args[first.start], rest), out)


@THROUGH.on("broadcast_to")
def _through_broadcast(rw: Rewriting, made: Any, taken: list[Box], out: Shape) -> Any:
    (x,), shape = made.args, rw.aval(made.args[0]).shape
    own = [
        Box(0, min(t.length, 1), 1, t.drops) if n == 1 else t
        for n, t in zip(shape, taken[len(taken) - len(shape) :], strict=True)
    ]
    return rw.broadcast_to(take(rw, x, own), out) if all(t.length for t in taken) else None


@THROUGH.on("transpose")
def _through_transpose(rw: Rewriting, made: Any, taken: list[Box], out: Shape) -> Any:
    axes = made.params["axes"]
    if any(t.drops for t in taken):
        return None
    inner: list[Any] = [None] * len(axes)
    for a, t in zip(axes, taken, strict=True):
        inner[a] = t
    return rw.transpose(take(rw, made.args[0], inner), axes=axes)


@THROUGH.on("add")
def _through_sum(rw: Rewriting, made: Any, taken: list[Box], out: Shape) -> Any:
    """Take of both terms, where one of them is mostly zero."""
    shape = made.outs[0].aval.shape
    if not any(rw.maker(a, "slice_backward") for a in made.args) or any(
        rw.aval(a).shape != shape for a in made.args
    ):
        return None
    return rw.add(*(take(rw, a, taken) for a in made.args))


@SHAPES.on("slice_backward")
def sliced_backward(rw: Rewriting, e: Equation) -> Any:
    """Nothing into a whole array; a permutation where everything is written; one of two."""
    (x,), shape, index = e.args, e.params["shape"], e.params["index"]
    if _added(shape, index):
        plain = tuple(p for p in index if p is not None)
        taken = boxes(shape, plain)
        if taken is None:
            return None
        own = rw.reshape(x, kept_lengths(taken))
        return rw.make("slice_backward", own, shape=shape, index=plain)
    taken = boxes(shape, index)
    if taken is None:
        return None
    if is_plain_zero(rw.scalar(x)):
        return rw.full(0, e.outs[0].aval)
    if all(b.length == n for b, n in zip(taken, shape, strict=True)):
        own = rw.reshape(x, shape)
        return take(rw, own, [Box(b.start, b.length, b.step) for b in taken])
    made = rw.maker(x, "slice_backward")
    inner = boxes(made.params["shape"], made.params["index"]) if made else None
    if made and inner is not None:
        return padded(rw, made.args[0], shape, _of_taken(taken, inner))
    return None


def part(rw: Rewriting, x: Any, shape: Shape) -> tuple[Any, Any] | None:
    """Return what is written into zeros of this shape, and its index; None if `x` is nothing like it."""
    made = rw.maker(x, "slice_backward")
    return (made.args[0], made.params["index"]) if made and rw.aval(x).shape == shape else None


def padded(rw: Rewriting, x: Any, shape: Shape, taken: Sequence[Box]) -> Any:
    """Return the array that holds `x` at `taken`, and zeros beside it."""
    return rw.make("slice_backward", x, shape=shape, index=index_of(taken))


# ---- joined arrays ----------------------------------------------------------------------------------


@SHAPES.on("concatenate")
def concatenation(rw: Rewriting, e: Equation) -> Any:
    """Join nested pieces at once; nothing of one piece, and no empty ones."""
    axis, dtype = e.params["axis"], e.outs[0].aval.dtype
    if rw.goes_into(e.outs[0], "concatenate"):
        return None  # the last one of a chain takes all pieces
    pieces = rw.chain(e, lambda made: made.params["axis"] == axis and made.outs[0].aval.dtype == dtype)
    full = [x for x in pieces if rw.aval(x).shape[axis] and rw.aval(x).dtype == dtype]
    if all(rw.aval(x).dtype == dtype for x in pieces) and full:
        pieces = full
    if len(pieces) != len(e.args) or len(pieces) == 1:
        return joined(rw, pieces, axis)
    return None


def joined(rw: Rewriting, pieces: Sequence[Any], axis: int) -> Any:
    """Return pieces joined along an axis."""
    return rw.make("concatenate", *pieces, axis=axis) if len(pieces) > 1 else pieces[0]


@SHAPES.on("stack")
def stacked(rw: Rewriting, e: Equation) -> Any:
    """Put the parts of an array together again."""
    first = rw.maker(e.args[0], "unstack")
    if first and first.params["axis"] == 0 and e.args == first.outs:
        return first.args[0]
    return None


@SHAPES.on("unstack")
def unstacked(rw: Rewriting, e: Equation) -> Any:
    """Take a stack apart again."""
    made = rw.maker(e.args[0], "stack")
    dtype = rw.aval(e.args[0]).dtype
    if made and e.params["axis"] == 0 and all(rw.aval(x).dtype == dtype for x in made.args):
        return list(made.args)
    return None


@SHAPES.on("gather")
def gathered(rw: Rewriting, e: Equation) -> Any:
    """Take places that are known to be evenly spaced by a slice."""
    x, *arrays = e.args
    if len(arrays) != 1 or len(e.params["template"]) != 1 or not is_constant(arrays[0]):
        return None
    given, n = np.asarray(arrays[0]), rw.aval(x).shape[0]
    if given.ndim != 1 or given.size < 2 or (given < 0).any() or (given >= n).any():
        return None
    places = given.astype(np.int64)  # differences of what has no sign, or few bits, wrap around
    step = int(places[1]) - int(places[0])
    if step == 0 or (np.diff(places) != step).any():
        return None
    rest = [Box(0, m, 1) for m in rw.aval(x).shape[1:]]
    return take(rw, x, [Box(int(places[0]), places.size, step), *rest])


@SHAPES.on("gather")
def gathered_repetitions(rw: Rewriting, e: Equation) -> Any:
    """Take any places of what is the same everywhere along the axis."""
    x, *arrays = e.args
    template = e.params["template"]
    if (
        len(arrays) != 1
        or not all(isinstance(a, np.ndarray) for a in e.args)
        or arrays[0].dtype.kind not in "iu"
    ):
        return None
    if any(p is not HOLE and p != slice(None) for p in template):
        return None
    axis, places = template.index(HOLE), arrays[0]
    n = x.shape[axis]
    if n < 2 or x.strides[axis] or not places.size or places.min() < -n or places.max() >= n:
        return None
    first = np.expand_dims(x[(slice(None),) * axis + (0,)], tuple(range(axis, axis + places.ndim)))
    return np.broadcast_to(first, e.outs[0].aval.shape)


# ---- sums of the same elements in other places ------------------------------------------------------


SUMMED = Table()  # its sum, of sums of operands: (rewriting, the sum, equation of what is summed) -> it


@SUMMED.on("transpose")
def _sum_of_transpose(rw: Rewriting, e: Equation, made: Equation) -> Any:
    axes, order = e.params["axes"], made.params["axes"]
    total = rw.sum(made.args[0], axes=tuple(sorted(order[a] for a in axes)))
    kept = [order[a] for a in remaining(axes, len(order))]
    names = sorted(kept)
    return rw.transpose(total, axes=tuple(names.index(a) for a in kept))


@SUMMED.on("reshape")
def _sum_of_reshape(rw: Rewriting, e: Equation, made: Equation) -> Any:
    """Sum before a reshape that adds or takes away axes of length one, or where everything is summed."""
    (x,), shape, axes = made.args, made.outs[0].aval.shape, e.params["axes"]
    own = rw.aval(x).shape
    if len(axes) == len(shape):
        return rw.sum(x, axes=tuple(range(len(own))))
    wide = [i for i, n in enumerate(shape) if n != 1]
    own_wide = [i for i, n in enumerate(own) if n != 1]
    if [shape[i] for i in wide] != [own[i] for i in own_wide]:
        return None
    where = dict(zip(wide, own_wide, strict=True))
    total = rw.sum(x, axes=tuple(where[a] for a in axes if a in where))
    return rw.reshape(total, tuple(shape[i] for i in remaining(axes, len(shape))))


@SUMMED.on("slice_backward")
def _sum_of_slice_backward(rw: Rewriting, e: Equation, made: Equation) -> Any:
    shape, axes = made.params["shape"], e.params["axes"]
    taken = boxes(shape, made.params["index"])
    if taken is None:
        return None
    own = rw.reshape(made.args[0], tuple(b.length for b in taken))
    total = rw.sum(own, axes=axes)
    rest = remaining(axes, len(shape))
    if not rest:
        return total
    kept = [taken[i] for i in rest]
    value = rw.reshape(total, tuple(b.length for b in kept if not b.drops))
    return padded(rw, value, tuple(shape[i] for i in rest), kept)


@SUMMED.on("concatenate")
def _sum_of_pieces(rw: Rewriting, e: Equation, made: Equation) -> Any:
    """Sum pieces that are joined along an axis that stays each for itself; a scalar sum adds few of them."""
    axis, axes = made.params["axis"], e.params["axes"]
    if axis in axes or not rw.single(e.args[0]):
        return None
    rest = remaining(axes, rw.aval(e.args[0]).ndim)
    parts = [rw.sum(p, axes=axes) for p in made.args if rw.aval(p).dtype == made.outs[0].aval.dtype]
    if len(parts) != len(made.args):
        return None
    return joined(rw, parts, rest.index(axis))
