"""Segments: parts of a recording that are discarded, and recomputed when the reverse pass reaches them.

The function runs under every live trace as usual. Then, on each tape, what it recorded is replaced by one
node between the nodes it took from outside (of arguments and closures alike) and its outputs. The sweep over
that node runs the function again on a tape of its own, on which the nodes from outside stand as leaves for
the while, and sweeps over that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from fgrad import tree
from fgrad.backend.array import DeviceArray
from fgrad.backend.devices import as_array
from fgrad.blocks import Block
from fgrad.core.placement import buffer_of
from fgrad.core.primitive import VJP, Primitive
from fgrad.core.snapshot import compact, copy_as_it_lies
from fgrad.core.tape import Node, Pick, Tape
from fgrad.core.tensor import Tensor, alias, wrap
from fgrad.core.trace import Trace, current, next_level, running, settle
from fgrad.transforms.batch import Batch, BatchedTracer
from fgrad.transforms.calling import name_of
from fgrad.transforms.cotangents import sweep

if TYPE_CHECKING:
    from typing_extensions import Self


class PolicyRecorder:
    """Runs primitives and keeps the outputs that a policy chooses, numbered as `tape` sees them.

    That is the innermost tape: what runs under it is the same when the function runs again.
    """

    __slots__ = ("_count", "_made", "_policy", "_tape", "kept")

    def __init__(self, policy: Callable[..., bool], tape: Tape) -> None:
        self._policy, self._tape, self._count = policy, tape, 0
        self._made: dict[int, tuple[ref[Any], int]] = {}
        self.kept: dict[int, tuple[str, Any]] = {}

    def run(
        self, primitive: Primitive, args: Sequence[Any], values: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        """Return the output of `primitive`."""
        out = (primitive.large or primitive.run)(*values, **params)
        if primitive.many or not _follows(args, (self._tape,)):
            return out
        if self._policy(primitive.name, **params):
            self.kept[self._count] = (primitive.name, out)
            made = self._made.get(id(out))
            if made is not None and made[0]() is out:  # a name: what it names was made by another primitive
                self.kept[made[1]] = ("", out)
        elif out.__class__ is np.ndarray or out.__class__ is DeviceArray:
            self._made[id(out)] = (ref(out), self._count)
        self._count += 1
        return out


def _follows(args: Sequence[Any], tapes: tuple[Tape, ...]) -> bool:
    return any(n.tape in tapes for a in args if a.__class__ is Tensor for n in a._nodes)


class PolicyReplay:
    """Runs primitives a second time, but for those whose output was kept."""

    __slots__ = ("_count", "_kept", "_tapes", "_title")

    def __init__(self, kept: dict[int, tuple[str, Any]], tapes: tuple[Tape, Tape], title: str) -> None:
        self._kept, self._tapes, self._count, self._title = kept, tapes, 0, title

    def run(
        self, primitive: Primitive, args: Sequence[Any], values: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        """Return the output of `primitive`."""
        if primitive.many or not _follows(args, self._tapes):
            return (primitive.large or primitive.run)(*values, **params)
        name, out = self._kept.get(self._count, ("", None))
        self._count += 1
        if out is None:
            return (primitive.large or primitive.run)(*values, **params)
        if name not in {"", primitive.name}:
            refuse(self._title, "took another path")
        return out


def refuse(title: str, what: str) -> None:
    """Say that something differed when it ran again."""
    raise RuntimeError(
        f"{title} {what} when it ran again for the gradient, which would be wrong. It must be pure, and "
        "depend on nothing that changes between the two runs: draw random numbers outside and pass them in "
        "(or draw them from a key of fgrad.random), and change no global, Generator or .grad inside"
    )


class _Print:
    """Enough of a value to recognise it, without keeping it."""

    __slots__ = ("_avals", "_sample", "_total")

    def __init__(self, x: Any) -> None:
        self._avals = (x.shape, x.dtype)
        flat = np.asarray(x).reshape(-1)
        self._sample = flat[:: max(1, flat.size // 256)].copy()
        with np.errstate(all="ignore"):
            self._total = np.add.reduce(flat)

    def matches(self, other: _Print) -> bool:
        """Return whether two values are equal up to rounding."""
        if self._avals != other._avals:
            return False
        dtype = self._avals[1]
        tol = float(np.finfo(dtype).eps) ** 0.5 if dtype.kind in "fc" else 0.0
        with np.errstate(all="ignore"):
            scale = float(np.max(np.abs(self._sample), initial=0.0, where=np.isfinite(self._sample)))
            if not np.allclose(self._sample, other._sample, tol, tol * scale, equal_nan=True):
                return False
            size = max(1, int(np.prod(self._avals[0], dtype=int)))
            return bool(np.allclose(self._total, other._total, tol, tol * scale * size, equal_nan=True))


def chain(t: Any) -> Iterator[Tensor]:
    """Yield a Tensor and, where it stands for examples, the Tensors of all of them, outermost last."""
    while t.__class__ is Tensor:
        yield t
        t = t._value.whole if isinstance(t._value, BatchedTracer) else None


def value_of(t: Any) -> Any:
    """Return the array or number under a leaf, of all examples where it stands for some; None without one."""
    value = buffer_of(t)
    return value if isinstance(value, np.ndarray | np.generic | DeviceArray | int | float | complex) else None


def _print(t: Any) -> _Print | None:
    value = value_of(t)  # from a device nothing is read
    return None if value is None or value.__class__ is DeviceArray else _Print(np.asarray(value))


def seen_by(t: Any, tape: Tape) -> Any:
    """Return what stands for a leaf at the level of `tape`."""
    while t.__class__ is Tensor and isinstance(t._value, BatchedTracer) and t._value.trace.level > tape.level:
        t = t._value.whole
    return t


def with_node(t: Any, tape: Tape, node: Node) -> Tensor:
    """Return a handle on the value of `t` that `tape` knows by `node`."""
    if t.__class__ is not Tensor:
        return wrap(as_array(t), (node,))
    value = t._value
    if isinstance(value, BatchedTracer) and value.trace.level > tape.level:
        return wrap(BatchedTracer(value.trace, with_node(value.whole, tape, node)), t._nodes)
    return wrap(value, (*t._nodes, node))


def _renewed(t: Any, new: Callable[[Tensor], tuple[Node, ...]]) -> Any:
    """Return a Tensor on the value of `t` with other nodes, and so on for what it stands for."""
    if t.__class__ is not Tensor:
        return t
    value = t._value
    if isinstance(value, BatchedTracer):
        whole = _renewed(value.whole, new)
        line, value = value.line, BatchedTracer(value.trace, whole)
        value.line = line
    return wrap(value, new(t))


def without(t: Any, tapes: Sequence[Tape]) -> Any:
    """Return a handle on the value of `t` that `tapes` do not follow."""
    return _renewed(t, lambda x: tuple([n for n in x._nodes if n.tape not in tapes]))


class Part:
    """What one tape recorded since a Part was opened."""

    __slots__ = ("_marker", "captured", "tape")

    def __init__(self, tape: Tape) -> None:
        settle(current())  # what is stale was changed outside
        self.tape: Tape = tape
        self._marker = tape.node(None, (), ())
        self.captured: dict[Node, None] = {}  # nodes from outside

    def close(self, leaves: Sequence[Any]) -> dict[Node, tuple[int, int]] | None:
        """Find the nodes from outside; return those of `leaves` with their places (leaf, depth).

        None: it recorded leaves, which have to stay.
        """
        inside: set[Node] = set()
        marker = ref(self._marker)
        for r in reversed(self.tape.refs):
            if r is marker:  # a node has one weak reference without callback
                break
            n = r()
            if n is not None:
                inside.add(n)
        sources = {
            n: (i, depth)
            for i, leaf in enumerate(leaves)
            for depth, t in enumerate(chain(leaf))
            for n in t._nodes
            if n in inside
        }
        for leaf in leaves:
            for t in chain(leaf):
                self.captured.update((n, None) for n in t._nodes if n.tape is self.tape and n not in inside)
        stack, seen = list(sources), set(sources)
        while stack:
            node = stack.pop()
            if node.vjp is None:
                return None
            for p in node.parents:
                if p not in inside:
                    self.captured[p] = None
                elif p not in seen:
                    seen.add(p)
                    stack.append(p)
        return sources


class Standing(Block):
    """The time in which nodes of a tape stand as leaves on another one, `tape`."""

    below: list[Trace]
    above: list[Batch]
    tape: Tape
    stack: tuple[Trace | Tape | Batch, ...]

    def __init__(self, old: Tape, captured: Sequence[Node], traces: Sequence[Trace]) -> None:
        """Prepare.

        Args:
            old: the tape of the nodes.
            captured: the nodes.
            traces: all traces that were live when the function ran first.
        """
        self._watch = None
        self._old, self._captured, self._traces = old, captured, traces
        self._nodes: list[tuple[Any, ...]] = []
        self._levels: list[tuple[Batch, int]] = []

    def __enter__(self) -> Self:
        live = current().traces
        level = self._old.level
        self.below = below = [t for t in live if t in self._traces and t.level < level]
        self.above = above = [t for t in self._traces if isinstance(t, Batch) and t.level > level]
        self.tape = tape = Tape(next_level(), get_ident(), raw=not below)
        self.stack = (*below, tape, *above)
        self._levels = [(t, t.level) for t in above]
        for i, t in enumerate(above):
            t.level = tape.level + 1 + i
        self._nodes = [(n, n.tape, n.vjp, n.parents) for n in self._captured]
        for n in self._captured:
            n.tape, n.vjp, n.parents = tape, None, ()
        tape.refs = list(map(ref, self._captured))
        tape.limit += len(tape.refs)
        return self

    def sweep(self, seeds: Sequence[tuple[Node, Any]]) -> dict[Node, Any]:
        """Return the cotangents of the leaves, and forget what was recorded."""
        grads = sweep(self.tape, seeds, consume=False)
        self.forget()
        return grads

    def forget(self) -> None:
        """Clear what was recorded since."""
        captured = set(self._captured)
        for r in self.tape.refs:
            n = r()
            if n is not None and n not in captured:
                n.clear()
        self.tape.refs = list(map(ref, self._captured))

    def undo(self, _: object) -> None:
        """Let the nodes stand where they did."""
        self.forget()
        self.tape.is_open = False
        for n, tape, vjp, parents in self._nodes:
            n.tape, n.vjp, n.parents = tape, vjp, parents
        for t, level in self._levels:
            t.level = level


class Again:
    """The reverse step of a segment: run it again, sweep over that."""

    __slots__ = ("_count", "_places", "_prints", "_title", "_traces", "call", "captured", "kept", "old")

    call: Call
    kept: dict[int, tuple[str, Any]]

    def __init__(
        self,
        call: Call,
        title: str,
        part: Part,
        sources: dict[Node, tuple[int, int]],
        traces: tuple[Trace, ...],
        kept: dict[int, tuple[str, Any]],
        leaves: Sequence[Any],
    ) -> None:
        self.call, self._title, self._traces, self.kept = call, title, traces, kept
        self.old: Tape = part.tape
        self.captured: tuple[Node, ...] = tuple(part.captured)
        self._places = tuple(sources.values())
        self._prints = [_print(leaf) for leaf in leaves]
        self._count = len(leaves)

    def __call__(self, cts: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the nodes from outside."""
        with Standing(self.old, self.captured, self._traces) as standing:
            tape = standing.tape
            interceptor = PolicyReplay(self.kept, (tape, self.old), self._title) if self.kept else None
            with running(standing.stack, (self.old,), interceptor):
                leaves = tree.leaves(self.call())
            self._check(leaves)
            seeds = []
            for (i, depth), ct in zip(self._places, cts, strict=True):
                if ct is None:
                    continue
                found = [n for n in list(chain(leaves[i]))[depth]._nodes if n.tape is tape]
                if not found:
                    refuse(self._title, "lost an output")
                seeds.append((found[0], ct))
            if not origins(leaves, tape).issuperset(self.captured):
                refuse(self._title, "used other Tensors")
            grads = standing.sweep(seeds)
        return [grads.get(n) for n in self.captured]

    def _check(self, leaves: Sequence[Any]) -> None:
        if len(leaves) != self._count:
            refuse(self._title, "returned another structure")
        for leaf, seen in zip(leaves, self._prints, strict=True):
            now = _print(leaf)
            if (now is None) != (seen is None) or (seen and now and not seen.matches(now)):
                refuse(self._title, "computed other values")
            if any(n.tape is self.old for t in chain(leaf) for n in t._nodes):
                refuse(self._title, "used other Tensors")


def origins(leaves: Sequence[Any], tape: Tape) -> set[Node]:
    """Return the nodes of a tape that outputs depend on."""
    stack = [n for leaf in leaves for t in chain(leaf) for n in t._nodes if n.tape is tape]
    seen = set(stack)
    while stack:
        for p in stack.pop().parents:
            if p not in seen:
                seen.add(p)
                stack.append(p)
    return seen


AGAIN = VJP(lambda cts, again: again(cts))


def forgotten(call: Call, policy: Callable[..., bool] | None) -> Any:
    """Return `call()`, of which the live tapes remember only how to call again.

    Args:
        call: computes the same, any number of times.
        policy: (name of a primitive, **parameters) -> whether its output is kept; None keeps none.
    """
    state = current()
    traces = state.traces
    tapes = [t for t in traces if isinstance(t, Tape) and t.is_open and not t.linear_only]
    if not tapes:
        return call()
    title = f"checkpoint of {name_of(call.fun)}: the function"
    parts = [Part(t) for t in tapes]
    interceptor = PolicyRecorder(policy, tapes[-1]) if policy else None
    with running(traces, state.suspended, interceptor):
        out = call()
    leaves, structure = tree.flatten(out)
    replaced: dict[Node, Node] = {}
    for part in parts:
        sources = part.close(leaves)
        if not sources:
            continue
        kept = interceptor.kept if interceptor and part.tape is tapes[-1] else {}
        again = Again(call, title, part, sources, traces, kept, leaves)
        shown = [list(chain(leaves[i]))[depth] for i, depth in sources.values()]
        replaced.update(zip(sources, shortcut(part.tape, again, part.captured, shown), strict=True))
    new = [_renewed(x, lambda t: tuple([replaced.get(n, n) for n in t._nodes])) for x in leaves]
    return tree.unflatten(structure, new)


def shortcut(
    tape: Tape, again: Callable[[Sequence[Any]], Sequence[Any]], parents: Iterable[Node], outs: Sequence[Any]
) -> list[Node]:
    """Record one node under `outs`, whose reverse step is `again`; return the node of each output."""
    if tape.spent is None:
        tape.spent = []
    node = tape.node(AGAIN, (again,), tuple(parents), aval=[(y.shape, y.dtype) for y in outs])
    return [tape.node(Pick(k, len(outs)), (), (node,)) for k in range(len(outs))]


class Call:
    """A call of a function that can be repeated with the very same arguments."""

    __slots__ = ("_structure", "fun", "leaves")

    def __init__(self, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.fun: Callable[..., Any] = fun
        leaves, self._structure = tree.flatten((args, kwargs))
        self.leaves: list[Any] = list(map(_own, leaves))

    def __call__(self) -> Any:
        """Return what the function returns; it may write to its arguments."""
        args, kwargs = tree.unflatten(self._structure, map(_own, self.leaves))
        return self.fun(*args, **kwargs)


def _own(x: Any) -> Any:
    if isinstance(x, np.ndarray):  # what views of it show depends on its order in memory
        return compact(x) if 0 in x.strides and not x.flags.writeable else copy_as_it_lies(x)
    return alias(x) if x.__class__ is Tensor else x.copy() if isinstance(x, DeviceArray) else x
