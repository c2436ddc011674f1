"""Batching: a function of one example becomes a function of many, by one rule per primitive."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fgrad.backend.devices import as_array, on_host
from fgrad.core.aval import Shape
from fgrad.core.dispatch import bind
from fgrad.core.placement import near
from fgrad.core.primitive import ITSELF, VJP, WEIGHTS, Primitive
from fgrad.core.tensor import Tensor, wrap
from fgrad.core.trace import Trace, Tracer, current, next_level, running, user_line
from fgrad.ops import functions
from fgrad.ops.linear import broadcast_to, reshape, shifted
from fgrad.transforms.calling import plain


class Split(BaseException):
    """Says that the examples of `trace` go different ways: the function has to run for each group of them."""

    def __init__(self, trace: Batch, groups: list[Any], line: str) -> None:
        super().__init__("a truth value differs between the examples of vmap")
        self.trace: Batch = trace
        self.groups: list[Any] = groups
        self.line: str = line


class BatchedTracer(Tracer):
    """Many examples that the user's function sees as one."""

    __slots__ = ("whole",)

    def __init__(self, trace: Batch, whole: Any) -> None:
        self.trace: Batch = trace
        self.whole: Any = whole
        self.line: str = trace.line or user_line(3)  # the trace makes it, and somebody asks that for it

    @property
    def shape(self) -> Shape:
        """The shape of one example."""
        return tuple(self.whole.shape[1:])

    def same(self, other: Tracer) -> bool:
        """Return whether `other` is known to have the same examples."""
        if not isinstance(other, BatchedTracer) or other.trace is not self.trace:
            return False
        v, w = (getattr(b.whole, "_value", b.whole) for b in (self, other))
        if isinstance(v, np.ndarray) and isinstance(w, np.ndarray):
            return v is w or np.array_equal(v, w)
        return v is w or (isinstance(v, Tracer) and isinstance(w, Tracer) and v.same(w))

    @property
    def held(self) -> Any:
        """All the examples."""
        return self.whole

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the examples."""
        dtype: np.dtype[Any] = self.whole.dtype
        return dtype

    def like(self, held: Any) -> BatchedTracer:
        """Return other examples of the same batch."""
        return BatchedTracer(self.trace, held)

    def as_array(self) -> BatchedTracer:
        """Return the same examples as arrays, which can be written to though they have no axes."""
        return self if self.shape else BatchedArrays(self.trace, self.whole)

    def ordered_like(self, other: Any) -> BatchedTracer:
        """Return the same examples as arrays if those of `other` are."""
        is_array = isinstance(other, BatchedArrays | np.ndarray)
        return self.as_array() if is_array and not self.shape else self

    def in_order(self) -> BatchedTracer:
        """Return the same value with every example lying in memory row by row."""
        whole = self.whole
        if whole.__class__ is Tensor:
            value = whole._value
            if isinstance(value, Tracer):
                return BatchedTracer(self.trace, wrap(value.in_order(), whole._nodes))
            if value.__class__ is np.ndarray:
                return BatchedTracer(self.trace, wrap(np.ascontiguousarray(value), whole._nodes))
        return BatchedTracer(
            self.trace, np.ascontiguousarray(whole) if whole.__class__ is np.ndarray else whole
        )

    def truth(self) -> bool:
        """Return whether the value is true, in every example that runs here.

        Raises:
            Split: it is in some of them.
        """
        traces: list[Batch] = []
        x: Any = self
        live = current().traces
        while isinstance(x, BatchedTracer):
            if not isinstance(x.trace, Batch) or x.trace not in live:
                x.escaped()
            traces.append(x.trace)
            x = x.whole._value if x.whole.__class__ is Tensor else x.whole
        if isinstance(x, Tracer):
            x.refuse("bool()")
        if math.prod(self.shape) != 1:
            raise ValueError(
                "the truth value of an array with more than one element is ambiguous; use a.any() or a.all()"
            )
        sizes = [t.size for t in reversed(traces)]  # the outermost first
        truths = on_host(x).astype(bool).reshape(sizes)
        if truths.size == 0:
            return False
        if truths.all() or not truths.any():
            return bool(truths.flat[0])
        # an inner batch goes one way for all examples of the outer ones, so the outermost is split first
        for axis, trace in enumerate(reversed(traces)):
            rows = np.moveaxis(truths, axis, 0).reshape(trace.size, -1)
            if (rows != rows[0]).any():
                break
        origin = trace.origin()
        if origin is None or not origin.is_running:
            self.refuse("bool() where examples differ")
        _, member = np.unique(rows, axis=0, return_inverse=True)
        member = member.reshape(-1)
        origin.was_split = True
        raise Split(origin, [np.flatnonzero(member == k) for k in range(member.max() + 1)], user_line())


class BatchedArrays(BatchedTracer):
    """Examples that are arrays without axes."""

    __slots__ = ()

    def is_array(self) -> bool:
        """Return True: it is an array, which can be written to."""
        return True

    def as_scalar(self) -> BatchedTracer:
        """Return the same examples as scalars."""
        return BatchedTracer(self.trace, self.whole)


@dataclass(eq=False, repr=False, slots=True)
class Same:
    """What a batch rule returns for an output that is the same for all examples."""

    value: Any


class Batch(Trace):
    """Applies each primitive to all examples at once; the batch axis is the first."""

    title = "vmap"
    stacks = True
    remedy = (
        "Inside vmap a value stands for many examples, which no NumPy array holds: assign to a Tensor "
        "(fgrad.numpy.zeros instead of numpy.zeros), compute with functions that have a rule, use "
        "where(condition, x, y) instead of if, or map fewer arguments."
    )

    # how a primitive that communicates between examples acts where the examples of this trace do
    across: ClassVar[dict[str, Callable[..., Any]]] = {}
    line = ""  # where the user asked for what runs here; "": what runs are lines of the user's

    def __init__(self, level: int, size: int, name: Any = None) -> None:
        self.level: int = level
        self.size: int = size
        self.name: Any = name
        self.origin: weakref.ref[Batch] = weakref.ref(self)  # the one whose examples these are
        self.is_running = self.was_split = False
        self.full_size = size
        self.part: Any = None  # which examples these are where a vmap was split

    def tracer(self, whole: Any) -> Tensor:
        """Return the Tensor that stands for one of the examples of `whole`."""
        return wrap(BatchedTracer(self, whole))

    def unbox(self, x: Any) -> Any:
        """Return all examples of `x`, repeated if `x` is the same for each."""
        if self.owns(x):
            return x._value.whole
        shape = x.shape if hasattr(x, "shape") else np.shape(x)
        return broadcast_to(x if hasattr(x, "shape") else as_array(x), (self.size, *shape))

    def owns(self, x: Any) -> bool:
        """Return whether `x` stands for examples of this trace."""
        return x.__class__ is Tensor and isinstance(x._value, BatchedTracer) and x._value.trace is self

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Apply the batch rule of `primitive`, below this trace."""
        mapped = tuple([self.owns(a) for a in args])
        values = [a._value.whole if m else a for a, m in zip(args, mapped, strict=True)]
        with running.under(self.level):
            if primitive.name in self.across and params["over"] is self:
                out, is_mapped = self.across[primitive.name](*values, **params)
                return BatchedTracer(self, out) if is_mapped else out
            if primitive.batch:
                out = primitive.batch(mapped, *values, **params)
            else:
                out = one_by_one(primitive, mapped, values, params, self.size)
        if primitive.many:
            return tuple(o.value if o.__class__ is Same else BatchedTracer(self, o) for o in out)
        return BatchedTracer(self, out)

    def process_alone(self, primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply the batch rule of `primitive` to values that no other trace concerns but as examples do."""
        if primitive.batch is None or primitive.name in self.across:
            return NotImplemented
        mapped, wholes = [], []
        for v in values:
            if v.__class__ is BatchedTracer:
                if v.trace is not self:
                    return NotImplemented
                mapped.append(True)
                wholes.append(v.whole)
            elif isinstance(v, Tracer):
                return NotImplemented
            else:
                mapped.append(False)
                wholes.append(v)
        if True not in mapped:
            return primitive.run(*wholes, **params)
        if current().traces[0] is self:
            return BatchedTracer(self, primitive.batch(tuple(mapped), *wholes, **params))
        with running.under(self.level):
            out = primitive.batch(tuple(mapped), *wholes, **params)
        return BatchedTracer(self, out)


def example(mapped: Sequence[bool], values: Sequence[Any], i: int) -> list[Any]:
    """Return the operands of example `i`."""
    return [functions.sliced(v, index=(i,)) if m else v for v, m in zip(values, mapped, strict=True)]


def one_by_one(
    primitive: Primitive, mapped: Sequence[bool], values: Sequence[Any], params: dict[str, Any], size: int
) -> Any:
    """Apply `primitive` to one example after the other: right for every primitive, and slow."""
    examples = [bind(primitive.name, *example(mapped, values, i), **params) for i in range(size)]
    if primitive.many:
        return tuple(map(_stacked, zip(*examples, strict=True)))
    return _stacked(examples)


def _stacked(examples: Sequence[Any]) -> Any:
    return functions.concatenate(*(reshape(e, (1, *e.shape)) for e in examples), axis=0)


def for_examples(
    run: Callable[[list[Any]], Sequence[Any]],
    values: Sequence[Any],
    mapped: Sequence[bool],
    size: int,
    which: Sequence[bool] | None = None,
) -> list[Any]:
    """Return what `run` makes of `values` for `size` examples, which those that are `mapped` hold first.

    So do the outputs that `which` marks, all if it is None; the others are the same for all examples.
    """
    trace = Batch(next_level(), size)
    with running((*current().traces, trace)):
        outs = run([trace.tracer(v) if m else v for v, m in zip(values, mapped, strict=True)])
    return [trace.unbox(y) if w else y for y, w in zip(outs, which or [True] * len(outs), strict=True)]


def batched_map(f: Callable[[Any], Sequence[Any]], x: Any) -> list[Any]:
    """Return the leaves of `f` mapped over the first axis of `x`; None stays None."""
    n = x.shape[0]
    if n == 0:
        make = near(x)
        ys = f(make.zeros(x.shape[1:], x.dtype))
        return [None if y is None else make.zeros((0, *y.shape), y.dtype) for y in ys]
    trace = Batch(next_level(), n)
    trace.line = user_line()
    with running((*current().traces, trace)):
        ys = f(trace.tracer(x))
    return [None if y is None else trace.unbox(y) for y in ys]


def vjp_batched(trace: Batch, vjp: VJP, ct: Any, saved: Sequence[Any]) -> Any:
    """Return what `vjp.lifted` does, by one step on the arrays of all examples; None where that is unknown.

    `trace` is alone under the recording. A step that works element by element does so along the axis of the
    examples too, where all operands have it in the same place; a reduction has it before its axes.
    """
    kind = vjp.transpose
    if kind is not ITSELF and kind is not WEIGHTS:
        return None
    if trace.owns(ct):
        cts = ct._value.whole
    elif kind is WEIGHTS and any(trace.owns(v) for v in saved):
        cts = trace.unbox(plain(ct))
    else:
        return None
    rank = cts.ndim
    given = []
    for v in saved:
        if v.__class__ is Tensor:
            if not trace.owns(v):
                return None
            v = v._value.whole  # noqa: PLW2901 -- the value takes the place of its handle
            if kind is ITSELF and v.ndim != rank:
                return None
        elif v.__class__ is dict:
            if kind is WEIGHTS:
                v = {"axes": shifted(v["axes"])}  # noqa: PLW2901 -- likewise
        elif len(vjp.pattern) == 1 or not isinstance(v, np.ndarray | np.generic) or v.ndim >= rank:
            return None  # with one argument, intermediate results may share memory: all have one shape
        given.append(v)
    if cts.__class__ is not np.ndarray or any(v.__class__ is Tensor for v in given):
        return None
    return [None if c is None else trace.tracer(c) for c in vjp.raw(cts, *given)]
