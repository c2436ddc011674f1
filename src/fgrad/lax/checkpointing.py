"""Checkpointed loops: a few states are kept for the gradient, and the others recomputed from them.

How many steps are known: the states are placed, and the steps repeated, as the binomial schedule wants it,
which needs the fewest steps of all (Griewank & Walther 2000, ACM Trans. Math. Softw. 26, Algorithm 799). How
many are not known: the states are placed while the loop runs, so that no step runs more often than the
binomial schedule would have it run (Wang, Moin & Iaccarino 2009, SIAM J. Sci. Comput. 31).

A loop body cannot be run again from inside a `for` statement: Python gives an iterator no way to repeat the
lines that follow it. So the body is a function.
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.backend.array import DeviceArray
from fgrad.core.aval import aval_of
from fgrad.core.tape import Node, Tape
from fgrad.core.tensor import Tensor
from fgrad.core.trace import Trace, current, running
from fgrad.lax.trees import Carry, as_tensors, pair, stack
from fgrad.ops.linear import sum_axes
from fgrad.transforms.calling import name_of, own, own_leaf
from fgrad.transforms.segment import (
    Part,
    Standing,
    chain,
    origins,
    refuse,
    seen_by,
    shortcut,
    value_of,
    with_node,
    without,
)

State = list[Any]
Step = Callable[[int, State], tuple[State, list[Any]]]  # (k, state) -> (next state, results)


def binomial(s: int, r: int) -> int:
    """Return how many steps `s` states can reverse where each step runs at most `r` times before its own."""
    return math.comb(s + r, s) if r >= 0 else 0


def fewest_steps(n: int, s: int) -> int:
    """Return how many steps the reversal of `n` steps with `s` states, the first one included, has to make.

    Not counted: the one step of each that is recorded. Griewank & Walther (2000), equation 4.
    """
    if n <= 1:
        return 0
    r = next(r for r in itertools.count() if binomial(s, r) >= n)
    return r * n - binomial(s + 1, r - 1)


def split(n: int, s: int) -> int:
    """Return after how many of `n` steps the second of `s` states is to be kept."""
    r = next(r for r in itertools.count() if binomial(s, r) >= n)
    candidates = binomial(s, r - 2), binomial(s, r - 1), n - binomial(s - 1, r), n - binomial(s - 1, r - 1)
    return min(
        (m for m in candidates if 0 < m < n),
        key=lambda m: m + fewest_steps(n - m, s - 1) + fewest_steps(m, s),
    )


class _Placed:
    """States while the loop runs, for a known number of steps."""

    def __init__(self, n: int, s: int, state: State) -> None:
        self.states = [(0, state)]
        self._wanted = set()
        place = 0
        while s > 1 and n - place > 1:
            place += split(n - place, s)
            s -= 1
            self._wanted.add(place)

    def offer(self, place: int, state: State) -> None:
        """Keep the state before step `place`, if it is to be kept."""
        if place in self._wanted:
            self.states.append((place, state))


class _Growing:
    """States while the loop runs, for an unknown number of steps (Wang et al. 2009, Algorithm 1)."""

    def __init__(self, s: int | None, state: State) -> None:
        self._budget = s
        self._kept: list[tuple[int, float, State]] = [(0, math.inf, state)]

    @property
    def states(self) -> list[tuple[int, State]]:
        """The places and states."""
        return [(place, state) for place, _, state in self._kept]

    def offer(self, place: int, state: State) -> None:
        """Keep the state before step `place`, in the place of one that is not needed any more."""
        kept = self._kept
        s = self._budget or max(4, 2 * place.bit_length())
        level: float = 0
        if len(kept) >= s:
            i = self._dispensable()
            if i is not None:
                del kept[i]
            elif s > 1:
                level = kept.pop()[1] + 1
            else:
                return
        kept.append((place, level, state))

    def _dispensable(self) -> int | None:
        highest: float = -1
        for i in range(len(self._kept) - 1, 0, -1):
            level = self._kept[i][1]
            if level < highest:
                return i
            highest = max(highest, level)
        return None


class Reversal:
    """The reverse step of a loop on one tape."""

    def __init__(
        self,
        loop: Loop,
        tape: Tape,
        captured: Sequence[Node],
        states: list[tuple[int, State]],
        results: Sequence[Any],
    ) -> None:
        self.loop: Loop = loop
        self.old: Tape = tape
        self.captured: Sequence[Node] = captured
        self.states: list[tuple[int, State]] = states
        self._depths = [len(list(chain(y))) - len(list(chain(seen_by(y, tape)))) for y in results]

    def __call__(self, cts: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the first state and of the nodes from outside."""
        loop = self.loop
        given = iter(cts)
        ct_state = [next(given) if f else None for f in loop.floating]
        ct_results = [next(given) if f else None for f in loop.floating_results]
        total: dict[Node, Any] = {}
        with Standing(self.old, self.captured, loop.traces) as standing:
            self._standing = standing
            states = self._take(standing)
            end = loop.count
            while end:
                place, state = states[-1]
                if end - place > 1:
                    room = loop.budget - len(states)
                    far = place + split(end - place, room + 1) if room > 0 else end - 1
                    state = self._advanced(state, place, far)
                    if room > 0:
                        states.append((far, state))
                        continue
                else:
                    states.pop()
                end -= 1
                here = [_at(c, d, loop.order[end]) for c, d in zip(ct_results, self._depths, strict=True)]
                ct_state = self._turned(end, state, ct_state, here, total)
        return [
            *(c for c, p in zip(ct_state, loop.parents(self.old), strict=True) if p),
            *map(total.get, self.captured),
        ]

    def _take(self, standing: Standing) -> list[tuple[int, State]]:
        """Return the kept states, which are freed one after the other; the second time only the first."""
        first = [without(x, (self.old, standing.tape)) for x in self.loop.init]
        if any(t.is_tape for t in standing.below):  # which has to see how the states came about
            return [(0, first)]
        states, self.states = self.states, []
        return states or [(0, first)]

    def _advanced(self, state: State, start: int, stop: int) -> State:
        with running((*self._standing.below, *self._standing.above)):
            for k in range(start, stop):
                state = self.loop.step(k, state)[0]
        return [without(x, (self._standing.tape,)) for x in state]

    def _turned(
        self, k: int, state: State, ct_state: State, ct_results: list[Any], total: dict[Node, Any]
    ) -> list[Any]:
        """Return the cotangents of the state before step `k` from those after it."""
        standing, loop = self._standing, self.loop
        tape = standing.tape
        leaves = [tape.node(None, (), ()) if f else None for f in loop.floating]
        inputs = [x if n is None else with_node(x, tape, n) for x, n in zip(state, leaves, strict=True)]
        with running(standing.stack, (self.old,)):
            new, results = loop.step(k, inputs)
        if not _close(checksum(new), loop.prints[2 * k : 2 * k + 2]):
            refuse(loop.title, "computed other values")
        seeds = []
        for x, ct in zip([*new, *results], [*ct_state, *ct_results], strict=True):
            shown = seen_by(x, tape)
            for n in shown._nodes if shown.__class__ is Tensor else ():
                if n.tape is self.old:
                    refuse(loop.title, "used other Tensors")
                if n.tape is tape and ct is not None:  # one result for all examples
                    extra = len(ct.shape) - len(shown.shape)
                    seeds.append((n, sum_axes(ct, tuple(range(extra))) if extra else ct))
        if not origins([*new, *results], tape).issuperset(loop.captured[self.old][k]):
            refuse(loop.title, "used other Tensors")
        grads = standing.sweep(seeds)
        for n in self.captured:
            if n in grads:
                total[n] = total[n] + grads[n] if n in total else grads[n]
        return [None if n is None else grads.get(n) for n in leaves]


def _at(ct: Any, depth: int, place: int) -> Any:
    """Return the cotangent of one result from that of all, behind `depth` axes of examples."""
    return None if ct is None else ct[(*(slice(None),) * depth, place)]


class Loop:
    """A loop that runs now, keeping states, and backward later."""

    def __init__(self, step: Step, init: State, n: int | None, budget: int | None, title: str) -> None:
        self.order: Sequence[int] = ()  # the place of each step's results
        self.step: Step = step
        self.init: State = init
        self.title: str = title
        self.traces: tuple[Trace, ...] = current().traces
        self.tapes: list[Tape] = [
            t for t in self.traces if isinstance(t, Tape) and t.is_open and not t.linear_only
        ]
        self.count: int = 0
        self.floating: list[bool] = [aval_of(x).dtype.kind in "fc" for x in init]
        self.floating_results: list[bool] = []
        # what each step takes from outside; one object for all steps in a row that take the same
        self.captured: dict[Tape, list[dict[Node, None]]] = {t: [] for t in self.tapes}
        state = [without(x, self.tapes) for x in init]
        if n is None:
            self._kept: _Growing | _Placed = _Growing(budget, state)
            self.budget: int = budget or 0
        else:
            self.budget = budget or max(4, 2 * n.bit_length())
            self._kept = _Placed(n, self.budget, state)
        self.prints: array[float] = array("d")
        self.state: list[Any] = state

    def run(self, items: Iterable[int]) -> Iterator[list[Any]]:
        """Make the steps, and yield the results of each."""
        for k in items:
            if self.count:
                self._kept.offer(self.count, self.state)
            parts = [Part(t) for t in self.tapes]
            new, results = self.step(k, self.state)
            for part in parts:
                if part.close([*new, *results]) is None:
                    raise RuntimeError(
                        f"{self.title}: a GradManager that records around the loop was given Tensors "
                        "to attach inside it, whose gradients would be lost; attach them before the loop"
                    )
                steps = self.captured[part.tape]
                steps.append(steps[-1] if steps and steps[-1] == part.captured else part.captured)
            self.state = [without(x, self.tapes) for x in new]
            self.prints.extend(checksum(self.state))
            self.count += 1
            yield [without(y, self.tapes) for y in results]
        self.budget = self.budget or max(4, 2 * self.count.bit_length())

    def parents(self, tape: Tape) -> list[Node | None]:
        """Return the nodes by which `tape` knows the first state."""
        return [_node(x, tape) for x in self.init]

    def recorded(self, results: Sequence[Any]) -> list[Any]:
        """Return the last state and the stacked results, as the tapes know them."""
        outs = [*self.state, *results]
        self.floating_results = [aval_of(y).dtype.kind in "fc" for y in results]
        states = self._kept.states
        for tape in self.tapes:
            captured = tuple({n: None for step in self.captured[tape] for n in step})
            before = [n for n in self.parents(tape) if n]
            if not captured and not before:
                continue
            outs = as_tensors(outs)
            again = Reversal(self, tape, captured, list(states), results)
            floating = [i for i, y in enumerate(outs) if y.dtype.kind in "fc"]
            nodes = shortcut(tape, again, (*before, *captured), [seen_by(outs[i], tape) for i in floating])
            for i, n in zip(floating, nodes, strict=True):
                outs[i] = with_node(outs[i], tape, n)
        del self._kept, self.state
        return outs


def _node(x: Any, tape: Tape) -> Node | None:
    shown = seen_by(x, tape)
    return next((n for n in shown._nodes if n.tape is tape), None) if shown.__class__ is Tensor else None


def checksum(state: State) -> tuple[float, float]:
    """Return a sum of all values, and of their sizes."""
    total, size = 0.0, 0.0
    with np.errstate(all="ignore"):
        for x in state:
            v = value_of(x)
            if v is not None and v.__class__ is not DeviceArray:  # from a device nothing is read
                v = np.asarray(v)
                total += float(np.add.reduce(v.real, axis=None))
                size += float(np.add.reduce(np.abs(v), axis=None))
    return total, size


def _close(a: Sequence[float], b: Sequence[float]) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.allclose(a, b, 0.0, 1e-5 * b[1], equal_nan=True)) or not math.isfinite(b[1])


def _budget(given: Any, what: str) -> int | None:
    if given is True or given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise ValueError(f"{what}: the number of states to keep must be a positive integer, not {given!r}")
    return int(given)


def scan_in_parts(
    f: Callable[..., Any], init: Any, xs: Sequence[Any], structure: Any, order: range, checkpoint: Any
) -> tuple[Any, Any]:
    """Do what `scan` does with `checkpoint`; it tells what the arguments are."""
    leaves, carry_structure = tree.flatten(init)
    carry = Carry("scan", f, init)
    structures: list[Any] = []

    def step(k: int, state: State) -> tuple[State, list[Any]]:
        i = order[k]
        x = tree.unflatten(structure, [own_leaf(a[i]) for a in xs])
        new, y = pair(f(tree.unflatten(carry_structure, map(own_leaf, state)), x), f)
        carry.check(new)
        found, y_structure = tree.flatten(y)
        structures[:] = [y_structure]
        return as_tensors(tree.leaves(new)) if tracked else tree.leaves(new), found

    tracked = False
    loop = Loop(step, leaves, len(order), _budget(checkpoint, "scan"), f"scan of {name_of(f)}: the function")
    loop.order = order
    tracked = bool(loop.tapes)
    rows = list(loop.run(range(len(order))))
    columns = [stack(column if order.step > 0 else column[::-1]) for column in zip(*rows, strict=True)]
    outs = loop.recorded(columns)
    n = len(leaves)
    carry_out = own(tree.unflatten(carry_structure, outs[:n]))
    return carry_out, tree.unflatten(structures[0], outs[n:])


def checkpointed(
    body: Callable[[Any, Any], Any], state: Any, steps: Iterable[Any], *, budget: int | None = None
) -> Any:
    """Return `state` after `state = body(state, step)` for each of `steps`, keeping few of the states.

    This is the loop `for step in steps: state = body(state, step)` as a call. In the reverse pass the states
    that were not kept are recomputed from those that were, which saves memory; Python could not run the lines
    of a `for` statement again.

    Args:
        body: takes the state and one of `steps`, and returns the next state, of the same structure, shapes
            and dtypes. It must be pure, and may use Tensors from a closure.
        state: pytree.
        steps: where their number is known (`len`), no schedule makes fewer steps; from an iterator, of which
            the items are kept, no step is made more often than in the best schedule.
        budget: how many states to keep, the first one included; None: about twice the logarithm of their
            number.

    Returns:
        The last state, of the structure, shapes and dtypes of the first.

    Raises:
        TypeError: `body` returns another structure, shape or dtype.
        ValueError: `budget` is not positive.
        RuntimeError: in the reverse pass, when `body` computes something other than before.

    Derivative:
        That of the loop, of every order, also in Tensors from a closure.

    Source:
        Griewank & Walther (2000), Algorithm 799; Wang, Moin & Iaccarino (2009).

    Example:
        >>> import fgrad
        >>> fgrad.grad(lambda x: fgrad.checkpointed(lambda s, i: s * x, 1.0, range(10), budget=3))(1.0)
        np.float64(10.0)
    """
    leaves, structure = tree.flatten(state)
    carry = Carry("checkpointed", body, state)
    n = len(steps) if isinstance(steps, Sized) else None
    items: list[Any] = []
    source: Any = steps if isinstance(steps, Sequence | np.ndarray) else items

    def step(k: int, values: State) -> tuple[State, list[Any]]:
        new = body(tree.unflatten(structure, map(own_leaf, values)), source[k])
        carry.check(new)
        return tree.leaves(new), []

    def places() -> Iterator[int]:
        if source is items:
            for k, item in enumerate(steps):
                items.append(item)
                yield k
        else:
            yield from range(len(source))

    title = f"checkpointed of {name_of(body)}: the function"
    loop = Loop(step, leaves, n, _budget(budget, "checkpointed"), title)
    for _ in loop.run(places()):
        pass
    return own(tree.unflatten(structure, loop.recorded([])))
