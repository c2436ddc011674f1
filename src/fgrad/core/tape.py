"""The tape: a graph of nodes owned by their outputs, and the reverse pass over it.

A node belongs to the values that came out of it and to the nodes made from those, never to the tape, which
keeps weak references in order of creation. So an operation whose results are all dropped disappears at once
with everything it saved, and the order of the references is the order of the reverse sweep.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import get_ident
from typing import Any, cast
from weakref import ref

import numpy as np

from fgrad.core.aval import Shape
from fgrad.core.primitive import VJP, AccumulatingVJP
from fgrad.core.trace import Trace, user_place
from fgrad.errors import EscapedTensorError

ParentAval = tuple[Shape, "np.dtype[Any]"]


class Node:
    """One recorded operation, or a leaf (no `vjp`)."""

    __slots__ = ("__weakref__", "aval", "ct", "note", "parent_avals", "parents", "saved", "tape", "vjp")

    tape: Any  # the Tape; None once cleared
    vjp: VJP | Pick | None
    saved: tuple[Any, ...]
    parents: tuple[Node, ...]  # the nodes of the tracked arguments
    parent_avals: tuple[ParentAval | None, ...] | None  # of parents whose shape or dtype is another
    ct: Any  # the cotangent so far, where a sweep keeps it here
    aval: Any  # (shape, dtype) of the output, a list of all outputs; None: it follows from the parents
    note: Any  # what pictures and profiles know of it; not set where nobody takes notes

    def clear(self) -> None:
        """Forget everything that was saved."""
        self.tape = self.ct = None
        self.saved = self.parents = ()


CUT = Node()  # stands on a Tensor whose whole value was replaced by a constant
CUT.clear()
CUT.vjp = None


@dataclass(eq=False, repr=False, slots=True)
class Pick:
    """The reverse step from output `index` of an operation with `count` outputs."""

    index: int
    count: int


def _hidden(*_: Any) -> Any:
    raise RuntimeError(
        "the backward of a fgrad.Function uses a value that its forward computed, and an outer manager "
        "needs the derivative of that value, which it cannot see. Save arguments or outputs on self and "
        "compute the rest from them in backward, or use fgrad.custom_vjp"
    )


HIDDEN = VJP(_hidden)  # of a value computed inside Function.forward


_SHORT = 256  # elements, which are added in the time that it takes to remember a buffer
_LONG = 4096  # elements, whose new memory costs more than the question whose the old one is


class Pieces:
    """The cotangent of a value of which small parts were read: the parts, until somebody needs the whole."""

    __slots__ = ("base", "parts", "size", "vjp")

    def __init__(self, vjp: AccumulatingVJP, base: Any) -> None:
        self.vjp: AccumulatingVJP = vjp
        self.base: Any = base  # the sum of all else, or None
        self.size: int = 0  # how many elements the parts have
        self.parts: list[tuple[Any, ...]] = []

    def whole(self, add: Callable[[Any, Any], Any]) -> Any:
        """Return the sum."""
        if self.parts:
            made = self.vjp.joined(self.parts)
            self.base = made if self.base is None else add(self.base, made)
            self.parts, self.size = [], 0
        return self.base


def _read(vjp: AccumulatingVJP, have: Any, own: Any, ct: Any, saved: tuple[Any, ...]) -> Any:
    """Return the cotangent `have` of an array, or None, with that of a part; a buffer of the sweep's own.

    It is written to only where it is `own`, which the sweep made for this place and nobody else has seen.
    """
    if have is None:
        return vjp.raw(ct, *saved)[0]
    if have.dtype != ct.dtype or have.__class__ is not np.ndarray:
        return np.add(have, vjp.raw(ct, *saved)[0])
    if own is not have:
        have = have.copy()
    vjp.into(have, ct, *saved)  # type: ignore[misc]  # a primitive that reads has it
    return have


def _written(vjp: AccumulatingVJP, own: Any, ct: Any, saved: tuple[Any, ...]) -> Any:
    """Return the cotangents of an array that was written to, new or `own`, and of what was written."""
    mine = own is ct and ct.__class__ is np.ndarray
    return vjp.emptied(ct, *saved) if mine else vjp.raw(ct, *saved)  # type: ignore[misc]


def _sum(node: Node, ct: Any, back: Sequence[Any], step: Node, out: Any, owned: dict[Node, Any]) -> Any:
    """Return the cotangent of a node so far plus another one, in memory that is the sweep's own.

    Args:
        node: what both are for.
        ct: of `back`, the results of a step.
        back: these.
        step: the node of the step.
        out: the cotangent of that.
        owned: the buffers that the sweep made.
    """
    have: Any = node.ct
    total: Any = np.add
    if have.__class__ is not np.ndarray or have.size < _LONG:
        return total(have, ct)
    if ct.__class__ is not np.ndarray or ct.dtype != have.dtype or ct.shape != have.shape:
        return total(have, ct)
    if owned.get(node) is have:
        return total(have, ct, have)
    vjp: Any = step.vjp
    made = (
        vjp.__class__ is VJP
        and vjp.makes
        and ct.base is None
        and ct.flags.writeable
        and not any(ct is x for x in (have, out, *step.saved))
        and sum(ct is x for x in back) == 1
    )
    owned[node] = total(have, ct, ct) if made else total(have, ct)
    return owned[node]


def _totals(node: Node, ct: Any, owned: dict[Node, Any]) -> Any:
    """Give the parents of a node its cotangents, each added to a large one; None where that is no gain."""
    parents, vjp = node.parents, cast("VJP", node.vjp)
    if node.parent_avals is not None or len(set(parents)) < len(parents):
        return None
    have = [p.ct for p in parents]
    if not any(c.__class__ is np.ndarray and c.size >= _LONG for c in have):
        return None
    totals = vjp.onto(have, ct, *node.saved)
    if totals is not None:
        for p, old, total in zip(parents, have, totals, strict=True):
            p.ct = total
            if old is not None:
                owned[p] = total
    return totals


class Tape(Trace):
    """Records the operations that depend on its leaves, and sweeps back over them."""

    __slots__ = (
        *("foreign", "is_open", "level", "limit", "linear_only", "note", "owner"),
        *("raw", "refs", "spent", "whole"),
    )

    note: Any  # what stays known of the recording; set where it is asked for

    is_tape = True
    title = "a recording"

    def __init__(self, level: int, owner: int, *, raw: bool, whole: bool = False) -> None:
        self.level: int = level
        # whether it is of a function, of which nothing may be missing; managers record what their thread does
        self.whole: bool = whole
        self.foreign: Callable[[], Any] | None = None  # that of the stack on which such a function is
        self.owner: int = owner
        self.raw: bool = raw
        self.refs: list[ref[Node]] = []
        self.limit: int = 1000
        self.is_open: bool = True
        # whether the values recorded are of no consequence, only how they depend on leaves
        self.linear_only: bool = False
        # nodes that a sweep is done with, kept known for its while where functions run again in it: whether
        # these use other values than before is told by the nodes. None where nothing runs again
        self.spent: list[Node] | None = None

    def node(
        self,
        vjp: VJP | Pick | None,
        saved: tuple[Any, ...],
        parents: tuple[Node, ...],
        parent_avals: tuple[ParentAval | None, ...] | None = None,
        aval: Any = None,
    ) -> Node:
        """Add a node."""
        n = Node()
        n.tape, n.vjp, n.saved, n.parents, n.parent_avals, n.aval = (
            self,
            vjp,
            saved,
            parents,
            parent_avals,
            aval,
        )
        n.ct = None
        self.refs.append(ref(n))
        if len(self.refs) > self.limit:
            self.compact()
        return n

    def leaf(self) -> Node:
        """Add a leaf on which nothing of this tape stands yet."""
        n = Node()
        n.tape = self
        n.saved = n.parents = ()
        n.vjp = n.parent_avals = n.ct = n.aval = None
        self.refs.append(ref(n))
        return n

    def compact(self) -> None:
        """Drop the references to dead nodes; amortised, so that dead operations cost no memory."""
        self.refs[:] = [r for r in self.refs if r() is not None]
        self.limit = 1000 + 2 * len(self.refs)

    def live(self) -> list[Node]:
        """Return the nodes that are alive, oldest first."""
        return [n for r in self.refs if (n := r()) is not None]

    def is_elsewhere(self) -> bool:
        """Return whether another thread or task has a function recorded, which would miss what this does."""
        if not (self.whole and self.is_open):
            return False
        return self.owner != get_ident() or (self.foreign is not None and self.foreign())

    def refuse_elsewhere(self) -> None:
        """Say that a value of a function that is being differentiated is used in another thread or task.

        Raises:
            EscapedTensorError: it is.
        """
        if self.is_elsewhere():
            raise EscapedTensorError(
                "a Tensor that is being differentiated is used in another thread or task, which nobody "
                f"records (at {user_place()}): its gradient would be lost silently. Compute with it in the "
                "function itself, or say that it is a constant there: t.detach()."
            )

    def release(self) -> None:
        """Stop, and clear every node, also those whose outputs the user still holds."""
        self.is_open = False
        while self.refs:
            n = self.refs.pop()()
            if n is not None:
                n.clear()

    def forget_spent(self) -> None:
        """Clear the nodes that a sweep was done with."""
        spent, self.spent = self.spent or (), None
        for n in spent:
            n.clear()

    def sweep(  # noqa: PLR0915 -- every statement costs, calls cost more
        self,
        seeds: Iterable[tuple[Node, Any]],
        add: Callable[[Any, Any], Any],
        unbroadcast: Callable[[Any, ParentAval], Any],
        lift: Callable[[Any], Any],
        *,
        raw: bool,
        consume: bool,
        complete: Callable[[Node, Any], None] | None = None,
        check: Callable[[Node, Any, Sequence[Any]], None] | None = None,
        begin: Callable[[Node], None] | None = None,
        at_once: Callable[[VJP, Any, tuple[Any, ...]], Any] | None = None,
    ) -> dict[Node, Any]:
        """Return the cotangent of every leaf that the cotangents of `seeds` reach.

        Args:
            seeds: outputs and their cotangents; repeated ones add.
            add: sum of two cotangents.
            unbroadcast: brings a cotangent to the shape and dtype of its argument.
            lift: makes a Tensor of a saved array, which marks it as one that nobody writes to.
            raw: whether every cotangent and everything saved is an array.
            consume: clear each node as soon as its step is done, which also releases the tape.
            complete: called with a leaf and its cotangent as soon as nothing more can add to it.
            check: called with each node, its cotangent and what its step made of it.
            begin: called with each node before its step, where there is a `check`.
            at_once: a shorter way to the result of a step, or None.
        """
        cts: dict[Node, Any] = {}
        owned: dict[Node, Any] = {}  # the buffers that this sweep made for nodes, and writes to
        for node, ct in seeds:
            cts[node] = add(cts[node], ct) if node in cts else ct
        last_use = self._last_uses(cts) if complete else {}
        for leaf in last_use.get(None, ()):
            complete(leaf, cts[leaf])  # type: ignore[misc]
        grads: dict[Node, Any] = {}
        refs = self.refs if consume else self.refs[:]
        spent = self.spent
        while refs:
            popped = refs.pop()()
            if popped is None:
                continue
            node = popped
            ct = cts.pop(node, None)
            if ct is not None:
                if ct.__class__ is Pieces:
                    ct = ct.whole(add)
                if begin:
                    begin(node)
                vjp, parents = node.vjp, node.parents
                back: Any = None
                if vjp.__class__ is AccumulatingVJP and not check:
                    back = self._placed(node, ct, cts, owned, add, unbroadcast, raw=raw)
                if back is not None:
                    parents = parents[1:]
                elif vjp is None:
                    grads[node] = ct
                    back = (ct,) if parents else ()  # an attached intermediate passes its cotangent on
                elif isinstance(vjp, Pick):
                    slots = cts.setdefault(parents[0], [None] * vjp.count)
                    slots[vjp.index] = ct
                    back = ()
                else:
                    back = at_once(vjp, ct, node.saved) if at_once else None
                    if back is None:
                        back = vjp.raw(ct, *node.saved) if raw else vjp.lifted(ct, *map(lift, node.saved))
                    if node.parent_avals is not None:
                        back = [
                            c if f is None or c is None else unbroadcast(c, f)
                            for c, f in zip(back, node.parent_avals, strict=True)
                        ]
                if check:
                    check(node, ct, back)
                for p, c in zip(parents, back):  # noqa: B905 -- a leaf without parents drops its cotangent
                    if p in cts:
                        have = cts[p]
                        if c is None:
                            pass
                        elif have.__class__ is Pieces:
                            have.base = c if have.base is None else add(have.base, c)
                        else:
                            cts[p] = add(have, c)
                    elif c is not None:
                        cts[p] = c
                if owned:
                    owned.pop(node, None)
                if last_use:
                    for leaf in last_use.get(node, ()):
                        if leaf in cts:
                            if cts[leaf].__class__ is Pieces:
                                cts[leaf] = cts[leaf].whole(add)
                            complete(leaf, cts[leaf])  # type: ignore[misc]
            if consume:
                node.clear()
                if spent is not None:
                    node.tape = self
                    spent.append(node)
        return grads

    def sweep_arrays(  # noqa: PLR0915 -- likewise
        self, seeds: Iterable[tuple[Node, Any]], unbroadcast: Callable[[Any, ParentAval], Any]
    ) -> dict[Node, Any]:
        """Do what `sweep` does where every value is an array, nobody watches and the tape is used up.

        It is the same loop with the cotangents kept on the nodes, which nothing else can look at then.
        """
        add = np.add
        owned: dict[Node, Any] = {}  # the buffers that this sweep made for nodes, and writes to
        for node, ct in seeds:
            node.ct = ct if node.ct is None else add(node.ct, ct)
        grads: dict[Node, Any] = {}
        nodes = [n for r in self.refs if (n := r()) is not None]  # kept: a cleared one lets go of its parents
        tape = None
        if self.spent is not None:
            tape, self.spent = self, nodes
        for node in reversed(nodes):
            ct = node.ct
            if ct is not None:
                vjp, parents = node.vjp, node.parents
                if vjp.__class__ is VJP:
                    saved = node.saved  # one array is the usual case, which needs no unpacking
                    back: Any = None if vjp.onto is None else _totals(node, ct, owned)
                    if back is not None:
                        parents = back = ()
                    else:
                        back = vjp.raw(ct, saved[0]) if len(saved) == 1 else vjp.raw(ct, *saved)
                    if node.parent_avals is not None:
                        back = [
                            c if f is None or c is None else unbroadcast(c, f)
                            for c, f in zip(back, node.parent_avals)  # noqa: B905 -- one each, and a check costs
                        ]
                elif vjp.__class__ is AccumulatingVJP:
                    p = parents[0]
                    if vjp.into is not None:
                        if p.ct is None:  # what is read once has no buffer
                            p.ct = vjp.raw(ct, *node.saved)[0]
                        elif p.ct.size < _SHORT:
                            p.ct = add(p.ct, vjp.raw(ct, *node.saved)[0])
                        else:
                            owned[p] = p.ct = _read(vjp, p.ct, owned.get(p), ct, node.saved)
                        parents = back = ()
                    else:
                        first, *back = _written(vjp, owned.get(node), ct, node.saved)
                        parents = parents[1:]
                        if node.parent_avals is not None:
                            back = [
                                c if f is None else unbroadcast(c, f)
                                for c, f in zip(back, node.parent_avals[1:], strict=True)
                            ]
                        if p.ct is None:
                            owned[p] = p.ct = first
                        else:
                            p.ct = _sum(p, first, (first, *back), node, ct, owned)
                elif vjp is None:
                    grads[node] = ct
                    back = (ct,)
                else:
                    (p,) = parents
                    if p.ct is None:
                        p.ct = [None] * vjp.count  # type: ignore[union-attr]
                    p.ct[vjp.index] = ct  # type: ignore[union-attr]
                    parents = back = ()
                node.ct = None
                if owned:
                    owned.pop(node, None)
                if len(parents) == 1:  # the usual case, without a loop
                    p = parents[0]
                    if p.ct is None:
                        p.ct = back[0]
                    elif back[0] is not None:
                        p.ct = _sum(p, back[0], back, node, ct, owned)
                else:
                    for p, c in zip(parents, back):  # noqa: B905 -- a leaf passes nothing on
                        if p.ct is None:
                            p.ct = c
                        elif c is not None:
                            p.ct = _sum(p, c, back, node, ct, owned)
            node.tape = tape
            node.saved = node.parents = ()
        self.refs.clear()  # not before: who is interrupted has to find what is left
        return grads

    @staticmethod
    def _placed(
        node: Node,
        ct: Any,
        cts: dict[Node, Any],
        owned: dict[Node, Any],
        add: Callable[[Any, Any], Any],
        unbroadcast: Callable[[Any, ParentAval], Any],
        *,
        raw: bool,
    ) -> Any:
        """Hand the cotangent of a read or written array to it; return those of the other arguments.

        None where the step is like every other one.
        """
        vjp: Any = node.vjp
        p = node.parents[0]
        have = cts.get(p)
        if raw:
            if vjp.into is not None:
                owned[p] = cts[p] = _read(vjp, have, owned.get(p), ct, node.saved)
                return ()
            first, *back = _written(vjp, owned.get(node), ct, node.saved)
            if have is None:
                owned[p] = first
            cts[p] = first if have is None else add(have, first)
            if node.parent_avals is not None:
                back = [
                    c if f is None else unbroadcast(c, f)
                    for c, f in zip(back, node.parent_avals[1:], strict=True)
                ]
            return back
        if vjp.into is None or not vjp.is_small(ct, *node.saved):
            return None
        if have.__class__ is not Pieces:
            have = cts[p] = Pieces(vjp, have)
        have.parts.append((ct, *node.saved))
        have.size += math.prod(ct.shape)
        if have.size > math.prod(node.saved[0].shape):
            have.whole(add)
        return ()

    def _last_uses(self, seeds: dict[Node, Any]) -> dict[Node | None, list[Node]]:
        """Return the step after which each leaf is complete (None: before the first step)."""
        reached, use = set(seeds), dict[Node, "Node | None"]()
        for node in reversed(self.live()):
            if node not in reached:
                continue
            if node.vjp is None:
                use.setdefault(node, None)
            for p in node.parents:
                reached.add(p)
                if p.vjp is None:
                    use[p] = node
        steps: dict[Node | None, list[Node]] = {}
        for leaf, step in use.items():
            steps.setdefault(step, []).append(leaf)
        return steps
