"""Per-sample gradients: the gradient of each element of a vector, in one pass where samples stay apart.

The sweep back from sample i starts with a cotangent that is zero but at place i. As long as operations treat
the samples one by one, the cotangent of sample i is zero outside of row i of every intermediate result, so
one array holds the cotangents of all samples: its row i is that of sample i (`Rows`). Where a parameter that
all samples share is reached, the rows are not summed: there the gradients of the samples begin. Every other
operation gets the cotangents of all samples, one array each, as `vmap` would: right for every operation, at
the cost of one sweep per sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgrad.core.aval import Shape
from fgrad.core.placement import near
from fgrad.core.primitive import (
    ASSEMBLES,
    CONTRACTION,
    ELEMENTWISE,
    ITSELF,
    OPERATORS,
    PRIMITIVES,
    REDUCES,
    REPEATS,
    VJP,
    WEIGHTS,
)
from fgrad.core.tape import Node, Pick, Tape
from fgrad.core.trace import current, next_level, running
from fgrad.ops import functions
from fgrad.ops.contraction import contract
from fgrad.ops.linear import reshape, transpose, unbroadcast
from fgrad.transforms.batch import Batch
from fgrad.transforms.cotangents import lift

LARGE = 1 << 24  # elements of the cotangents of all samples


@dataclass(eq=False, repr=False, slots=True)
class Rows:
    """Cotangents of all samples that are zero but in one row each: `value` has them along `axis`."""

    value: Any
    axis: int


class _TooLargeError(Exception):
    """The cotangents of all samples do not fit at once."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size  # elements for each sample


def per_sample(tape: Tape, node: Node, ct: Any) -> dict[Node, Any]:
    """Return for each leaf of `tape` the cotangents of all samples along a first axis.

    Args:
        tape: a recording, which is kept.
        node: the node of a vector.
        ct: the cotangent of each element of it.
    """
    n = ct.shape[0]
    try:
        return _Sweep(tape, n, 0, n)(node, ct)
    except _TooLargeError as error:
        step = max(1, LARGE // error.size)
    parts = []
    for start in range(0, n, step):
        sweep = _Sweep(tape, n, start, min(n, start + step))
        sweep.limit = math.inf
        parts.append(sweep(node, ct))
    return {leaf: functions.concatenate(*(p[leaf] for p in parts), axis=0) for leaf in parts[0]}


class _Sweep:
    """The sweep back for the samples from `start` to `stop`."""

    def __init__(self, tape: Tape, n: int, start: int, stop: int) -> None:
        self.tape, self.n, self.start, self.stop = tape, n, start, stop
        self.limit: float = LARGE
        self.trace = Batch(next_level(), stop - start)

    def __call__(self, node: Node, ct: Any) -> dict[Node, Any]:
        """Return the cotangents of the leaves, of these samples along a first axis."""
        found: dict[Node, Any] = {node: Rows(lift(ct), 0)}
        leaves: dict[Node, Any] = {}
        with np.errstate(all="ignore"):
            for n in reversed(self.tape.live()):
                c = found.pop(n, None)
                if c is None:
                    continue
                if n.vjp is None:
                    leaves[n] = c
                    back: Any = (c,) if n.parents else ()
                elif isinstance(n.vjp, Pick):
                    slots = found.setdefault(n.parents[0], [None] * n.vjp.count)
                    slots[n.vjp.index] = self.spread(c)
                    continue
                else:
                    back = self.step(n, n.vjp, c)
                for p, b in zip(n.parents, back, strict=False):
                    if b is not None:
                        found[p] = self.total(found[p], b) if p in found else b
        return {n: self.trace.unbox(self.spread(c)) for n, c in leaves.items()}

    def step(self, n: Node, vjp: VJP, c: Any) -> Sequence[Any]:
        """Return the cotangents of the parents of a node."""
        if isinstance(c, Rows):
            back = _by_rows(self, n, vjp, c)
            if back is not None:
                return back
            c = self.spread(c)
        with self.inside():
            found: Sequence[Any] = vjp.lifted(c, *map(lift, n.saved))
            if n.parent_avals is None:
                return found
            return [
                b if f is None or b is None else unbroadcast(b, f)
                for b, f in zip(found, n.parent_avals, strict=True)
            ]

    def inside(self) -> running:
        """Return the context in which a sample is one example."""
        return running((*current().traces, self.trace))

    def total(self, a: Any, b: Any) -> Any:
        """Return the sum of two cotangents."""
        if isinstance(a, Rows) and isinstance(b, Rows) and a.axis == b.axis:
            return Rows(OPERATORS["add"](a.value, b.value), a.axis)
        a, b = self.spread(a), self.spread(b)
        with self.inside():
            return OPERATORS["add"](a, b)

    def spread(self, c: Any) -> Any:
        """Return cotangents as a value that differs between samples."""
        if not isinstance(c, Rows):
            return c
        shape = c.value.shape
        if c.value.size * (self.stop - self.start) > self.limit:
            raise _TooLargeError(c.value.size)
        eye = np.zeros((self.stop - self.start, self.n), bool)
        eye[np.arange(len(eye)), np.arange(self.start, self.stop)] = True
        mask = eye.reshape(len(eye), *(self.n if i == c.axis else 1 for i in range(len(shape))))
        make = near(c.value)
        return self.trace.tracer(functions.where(mask if make is np else make.array(mask), c.value, 0))

    def apart(self, value: Any, axis: int) -> Any:
        """Return the rows of `value` along `axis`, each one a sample, with that axis of length one."""
        shape = value.shape
        order = (axis, *(i for i in range(len(shape)) if i != axis))
        rows = transpose(value, order) if axis else value
        kept = (self.n, *(1 if i == axis else m for i, m in enumerate(shape)))
        return self.trace.tracer(self.some(reshape(rows, kept)))

    def some(self, value: Any) -> Any:
        """Return the rows of these samples."""
        if self.stop - self.start == self.n:
            return value
        return functions.sliced(value, index=(slice(self.start, self.stop),))


# ---- steps that keep the samples apart: the axis of the samples in the output -> that of each parent


def _by_rows(sweep: _Sweep, node: Node, vjp: VJP, c: Rows) -> Sequence[Any] | None:
    """Return the cotangents of the parents, if the step treats the samples one by one."""
    saved = tuple(map(lift, node.saved))
    traits = PRIMITIVES[vjp.primitive].traits if vjp.primitive in PRIMITIVES else ()
    if vjp.transpose is ITSELF or ELEMENTWISE in traits:
        return _elementwise(sweep, node, vjp, c, saved)
    if CONTRACTION in traits:
        return _contract(sweep, node, vjp, c, saved)
    if REPEATS in traits:
        aval = node.saved[0]
        return [_unbroadcast(sweep, c, (aval.shape, aval.dtype))]
    if ASSEMBLES in traits and vjp.params:
        if saved[-1]["axis"] == c.axis:
            return None
        return [Rows(b, c.axis) for b in vjp.lifted(c.value, *saved)]
    axis = _axis_before(node, vjp, c) if vjp.params else None
    if axis is None:
        return None
    (back,) = vjp.lifted(c.value, *saved)
    return [Rows(back, axis)]


def _elementwise(
    sweep: _Sweep, node: Node, vjp: VJP, c: Rows, saved: tuple[Any, ...]
) -> Sequence[Any] | None:
    back = vjp.lifted(c.value, *saved)
    avals = node.parent_avals or (None,) * len(back)
    return [
        None if b is None else Rows(b, c.axis) if f is None else _unbroadcast(sweep, Rows(b, c.axis), f)
        for b, f in zip(back, avals, strict=True)
    ]


def _unbroadcast(sweep: _Sweep, c: Rows, aval: tuple[Shape, Any]) -> Any:
    """Return cotangents of something that was broadcast, at its own shape."""
    shape = aval[0]
    axis = c.axis - (len(c.value.shape) - len(shape))
    if axis >= 0 and shape[axis] == sweep.n:
        return Rows(unbroadcast(c.value, aval), axis)
    apart = sweep.apart(c.value, c.axis)
    with sweep.inside():
        return unbroadcast(apart, aval)


def _contract(sweep: _Sweep, node: Node, vjp: VJP, c: Rows, saved: tuple[Any, ...]) -> Sequence[Any]:
    """Return the adjoints of a product; that of an operand without the samples keeps their axis."""
    params = saved[-1]
    letters, out = (params["a"], params["b"]), params["out"]
    values = dict(zip(vjp.keep, saved, strict=False))
    label = out[c.axis]
    back: list[Any] = []
    tracked = [i for i, t in enumerate(vjp.pattern) if t]
    for i, f in zip(tracked, node.parent_avals or (None,) * len(tracked), strict=True):
        mine, other = letters[i], letters[1 - i]
        to = mine if label in mine else label + mine
        x, y, p, q = c.value, values[2 - i], out, other
        if i:
            x, y, p, q = y, x, q, p
        found = contract(x, y, p, q, to)
        if label in mine:
            back.append(Rows(found if f is None else unbroadcast(found, f), mine.index(label)))
        else:
            one = sweep.trace.tracer(sweep.some(found))
            with sweep.inside():
                back.append(one if f is None else unbroadcast(one, f))
    return back


def _axis_before(node: Node, vjp: VJP, c: Rows) -> int | None:
    """Return the axis of the samples in the one argument of a step, if it has them one by one."""
    primitive = PRIMITIVES.get(vjp.primitive)
    if vjp.transpose is WEIGHTS or (primitive and REDUCES in primitive.traits):
        params = node.saved[-1]
        rank = len(node.saved[list(vjp.keep).index(1)].shape if vjp.keep else node.saved[0].shape)
        return [i for i in range(rank) if i not in params["axes"]][c.axis]
    apart = primitive.apart if primitive else None
    return None if apart is None else apart(c.axis, c.value.shape, node.saved)
