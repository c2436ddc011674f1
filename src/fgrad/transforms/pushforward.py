"""The pushforward of a recorded function: the transpose of its reverse pass.

The sweep maps a cotangent u of the outputs to cotangents of the leaves, linearly. `DoubleReverse` is the
definition of its transpose: record that map, and sweep back over the recording along tangents of the leaves.

`Push` gets the same from one recorded step after the other, from the leaves to the outputs. Most steps need
no second recording, because their transpose is known: a step that multiplies element by element is its own;
that of a linear primitive is the primitive; that of a primitive linear in each argument is the primitive with
the tangent in the place of one, or, if it is linear in all of them at once, on all tangents; that of a
reduction sums the tangent with the weights that the step gives to ones. The two differ where a slope is
infinite and what follows it is zero: a sweep meets the zero first, and zero wins. So the definition decides
wherever a tangent is not finite.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from fgrad.compat.numpy import restore, setting, silence
from fgrad.core.aval import Shape
from fgrad.core.dispatch import bind
from fgrad.core.nonfinite import quiet, watching
from fgrad.core.notes import noting
from fgrad.core.placement import buffer_of, near
from fgrad.core.primitive import (
    ITSELF,
    LINEAR,
    MULTILINEAR,
    OPERATORS,
    PRIMITIVES,
    SYMMETRIC,
    TOGETHER,
    VJP,
    WEIGHTS,
)
from fgrad.core.tape import Node, Pick
from fgrad.core.tensor import Tensor
from fgrad.core.trace import current
from fgrad.ops import functions
from fgrad.ops.linear import broadcast_to, convert, sum_axes, unbroadcast
from fgrad.transforms.cotangents import lift
from fgrad.transforms.manager import GradManager, Recorded
from fgrad.transforms.stage import Stage

Tangents = Sequence[Any]  # one per argument or output; None is zero


class Pushforward:
    """The map from tangents of the leaves of a recording to tangents of its outputs `outs`."""

    __slots__ = ("_by_rule", "_outs", "_push", "_recorded", "_reverse")

    def __init__(self, recorded: Recorded, outs: Sequence[Any]) -> None:
        self._recorded, self._outs = recorded, outs
        self._reverse: DoubleReverse | None = None
        self._push: Push | None = None
        traces = current().traces
        is_staged = bool(traces) and any(isinstance(t, Stage) for t in traces)
        # whoever declares a primitive with a forward rule says by it what a tangent is
        self._by_rule: bool = False
        checks = False
        live = recorded.tape.live()
        for n in live:
            rule = n.vjp
            if isinstance(rule, VJP):
                checks = checks or rule.checks
                if rule.push is not None and (rule.primitive or is_staged):
                    self._by_rule = True
        if checks:
            # tangents do not tell whether a result depends on what is not determined; generic cotangents do
            rng = np.random.default_rng(0)
            with quiet():
                recorded([_generic(y, rng) for y in outs])
        # a stage has no value to look at
        if self._by_rule or not is_staged:
            self._push = Push(recorded, live)

    def __call__(self, tangents: Tangents) -> list[Any]:
        """Return the tangents of the outputs; None where none of `tangents` arrives."""
        watch = watching()
        if watch is None:
            return self._pushed(tangents)
        with quiet():
            found = self._pushed(tangents)
            if self._push is not None and any(watch.found(t, tangents) is not None for t in found):
                self._push(tangents, watch.step)
        return found

    def _pushed(self, tangents: Tangents) -> list[Any]:
        if self._push is not None:
            notes = noting()
            if notes is None:
                found = self._push(tangents)
            else:
                with notes.pushing() as check:
                    found = self._push(tangents, check)
            if self._by_rule or all(map(_is_finite, found)):
                return found
        if self._reverse is None:
            self._reverse = DoubleReverse(self._recorded, self._outs)
        return self._reverse(tangents)


def _generic(y: Any, rng: np.random.Generator) -> Any:
    """Return a random cotangent of an output."""
    if not isinstance(y, Tensor) or y.dtype.kind not in "fc":
        return None
    turn = 1j * rng.standard_normal(y.shape) if y.dtype.kind == "c" else 0
    made = np.asarray(rng.standard_normal(y.shape) + turn, y.dtype)
    make = near(y)
    return made if make is np else make.array(made)


def _is_finite(t: Any) -> bool:
    if t is None:
        return True
    value = t if isinstance(t, np.ndarray | np.generic) else buffer_of(t)
    if isinstance(value, np.generic):
        return cmath.isfinite(value)
    return value is not None and cmath.isfinite(np.add.reduce(value, axis=None))


class DoubleReverse:
    """The pushforward by a second recording around the sweep."""

    __slots__ = ("_sweep", "_us")

    def __init__(self, recorded: Recorded, outs: Sequence[Any]) -> None:
        with GradManager() as gm:
            gm.make_linear()
            self._us = [_cotangent(gm, y, y.shape, y.dtype) if isinstance(y, Tensor) else None for y in outs]
            self._sweep = gm.pullback(recorded(self._us), [u for u in self._us if u is not None])

    def __call__(self, tangents: Tangents) -> list[Any]:
        """Return the tangents of the outputs; None where none of `tangents` arrives."""
        found = iter(self._sweep(tangents))
        return [None if u is None else next(found) for u in self._us]


def _cotangent(
    gm: GradManager, like: Any, shape: Shape, dtype: np.dtype[Any], make: Any = None
) -> Tensor | None:
    # the value of u is of no consequence; ones are never mistaken for a zero cotangent
    return gm.follow((make or near(like)).ones(shape, dtype)) if dtype.kind in "fc" else None


class Push:
    """The pushforward step by step over the recording."""

    __slots__ = ("_nodes", "_recorded", "_steps")

    def __init__(self, recorded: Recorded, live: Sequence[Node]) -> None:
        self._recorded = recorded
        self._steps: dict[Node, Callable[[Tangents], Any]] = {}  # those that had to be recorded
        wanted = {n for n in recorded.sources if n is not None}
        nodes = []
        for node in reversed(live):
            if node in wanted:
                nodes.append(node)
                wanted.update(node.parents)
                if isinstance(node.vjp, VJP) and node.vjp.push is not None:
                    self._steps[node] = partial(_pushed, node.vjp.push, node)
        self._nodes = nodes[::-1]

    def __call__(self, tangents: Tangents, check: Callable[..., None] | None = None) -> list[Any]:
        """Return the tangents of the outputs; None where none of `tangents` arrives.

        `check` is called with each node, the tangents of its arguments and that of its result.
        """
        recorded = self._recorded
        raw = recorded.tape.raw and not any(t.__class__ is Tensor for t in tangents)
        add = np.add if raw else OPERATORS["add"]
        found = {n: t for n, t in zip(recorded.targets, tangents, strict=True) if t is not None}
        before = setting()
        try:
            silence()
            for node in self._nodes:
                given = [found.get(p) for p in node.parents]
                for t in given:
                    if t is not None:
                        break
                else:
                    continue
                t = self._step(node, given, add, raw=raw)
                if check:
                    check(node, given, t)
                if t is not None:
                    found[node] = t if node not in found else add(found[node], t)
        finally:
            restore(before)
        return [None if n is None else found.get(n) for n in recorded.sources]

    def _step(self, node: Node, given: list[Any], add: Callable[..., Any], *, raw: bool) -> Any:
        vjp = node.vjp
        if vjp is None:  # an attached intermediate
            return given[0]
        if isinstance(vjp, Pick):
            return given[0][vjp.index]
        kind = vjp.transpose if vjp.primitive else None  # a user's rule may not be linear
        if kind is LINEAR:
            primitive, params = PRIMITIVES[vjp.primitive], node.saved[-1]
            return primitive.run(given[0], **params) if raw else bind(primitive.name, given[0], **params)
        if kind is ITSELF or (kind is SYMMETRIC and _is_real(node, given)):
            return _itself(node, vjp, given, add, raw=raw)
        if kind is MULTILINEAR:
            return _each(node, vjp, given, add, raw=raw)
        if kind is TOGETHER:
            return _together(node, vjp, given, raw=raw)
        if kind is WEIGHTS and _is_real(node, given):
            return _weighted(node, vjp, given[0], raw=raw)
        if node not in self._steps:
            first = next(t for t in given if t is not None)
            self._steps[node] = _recorded_step(node, vjp, node.aval or (first.shape, first.dtype), first)
        return self._steps[node](given)


def _is_real(node: Node, given: Tangents) -> bool:
    return (node.aval is None or node.aval[1].kind == "f") and all(
        t is None or t.dtype.kind == "f" for t in given
    )


def _itself(node: Node, vjp: VJP, given: Tangents, add: Callable[..., Any], *, raw: bool) -> Any:
    saved = node.saved if raw else tuple(map(lift, node.saved))
    rule = vjp.raw if raw else vjp.lifted
    to_complex = node.aval is not None and node.aval[1].kind == "c"  # so is what the step takes
    total = None
    for i, t in enumerate(given):
        if t is not None:
            if to_complex:
                t = convert(t, node.aval[1])  # noqa: PLW2901
            part = rule(t, *saved)[i]
            if part is not None:
                total = part if total is None else add(total, part)
    if total is None or node.aval is None:
        return total
    shape, dtype = node.aval
    total = convert(total, dtype)
    return total if total.shape == shape else broadcast_to(total, shape)


def _each(node: Node, vjp: VJP, given: Tangents, add: Callable[..., Any], *, raw: bool) -> Any:
    primitive, params = PRIMITIVES[vjp.primitive], node.saved[-1]
    args: list[Any] = [None] * len(vjp.pattern)
    for k, value in zip(vjp.keep, node.saved, strict=False):
        args[k - 1] = value if raw else lift(value)
    total = None
    tangents = iter(given)
    for i, tracked in enumerate(vjp.pattern):
        t = next(tangents) if tracked else None
        if t is not None:
            kept, args[i] = args[i], t
            part = primitive.run(*args, **params) if raw else bind(primitive.name, *args, **params)
            args[i] = kept
            total = part if total is None else add(total, part)
    return total


def _together(node: Node, vjp: VJP, given: Tangents, *, raw: bool) -> Any:
    primitive, params = PRIMITIVES[vjp.primitive], node.saved[-1] if vjp.params else {}
    like = next(t for t in given if t is not None)
    tangents, args = iter(given), []
    for i, tracked in enumerate(vjp.pattern):
        t = next(tangents) if tracked else None
        if t is None:
            shape = node.saved[i].shape if vjp.avals else like.shape
            t = near(like).zeros(shape, like.dtype)
        args.append(t)
    part = primitive.run(*args, **params) if raw else bind(primitive.name, *args, **params)
    return part if node.aval is None else convert(part, node.aval[1])


def _weighted(node: Node, vjp: VJP, t: Any, *, raw: bool) -> Any:
    ones = np.broadcast_to(near(t).ones((), node.aval[1]), node.aval[0])
    saved = node.saved if raw else tuple(map(lift, node.saved))
    (weights,) = vjp.raw(ones, *saved) if raw else vjp.lifted(ones, *saved)
    axes = node.saved[-1]["axes"]
    if not raw:
        return sum_axes(functions.scale(t, weights), axes)
    total = np.add.reduce(t * weights, axis=axes)
    if math.isfinite(np.add.reduce(total, axis=None)):
        return total
    return np.add.reduce(PRIMITIVES["scale"].run(t, weights), axis=axes)


def _pushed(push: Callable[..., Any], node: Node, given: Tangents) -> Any:
    return push(given, *map(lift, node.saved))


def _recorded_step(node: Node, vjp: VJP, aval: Any, like: Any) -> Callable[[Tangents], Any]:
    """Record the step as a function of the cotangent u of its output, and return the sweep over that."""
    many = aval.__class__ is list
    with GradManager() as gm:
        gm.make_linear()
        us = [_cotangent(gm, like, *a) for a in (aval if many else (aval,))]
        back = vjp.lifted(us if many else us[0], *map(lift, node.saved))
        if node.parent_avals is not None:
            back = [
                c if f is None or c is None else unbroadcast(c, f)
                for c, f in zip(back, node.parent_avals, strict=True)
            ]
        sweep = gm.pullback(back, [u for u in us if u is not None])

    def step(given: Tangents) -> Any:
        swept = iter(sweep([None if c is None else t for c, t in zip(back, given, strict=True)]))
        found = [None if u is None else next(swept) for u in us]
        return found if many else found[0]

    return step
