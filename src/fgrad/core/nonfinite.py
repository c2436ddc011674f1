"""Watching for values that are not finite; without a watch, nothing is slower.

In a reverse or forward pass not every value counts: a rule may multiply an infinite slope by a zero
cotangent on purpose. So there the primitives are not looked at, but what each recorded step makes of its
cotangent or tangent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NoReturn

import numpy as np

from fgrad.backend.array import DeviceArray
from fgrad.blocks import Block
from fgrad.core.notes import let_observe, observed, places_of
from fgrad.core.notes import line_of as kept_line
from fgrad.core.observers import LOOKUPS, Check, observed_primitives
from fgrad.core.placement import buffer_of
from fgrad.core.primitive import VJP, Primitive, Rule
from fgrad.core.tape import Node, Pick, Tape
from fgrad.core.trace import place_of, user_line, user_place
from fgrad.errors import NonFiniteError


@dataclass(eq=False, repr=False, slots=True)
class Watch:
    """What to look for."""

    _: KW_ONLY
    nans: bool
    infs: bool
    silenced: dict[str, Any] = field(init=False)  # NumPy's warnings of what is reported here

    def __post_init__(self) -> None:
        kinds = (*("invalid",) * self.nans, *("divide", "over") * self.infs)
        self.silenced = dict.fromkeys(kinds, "ignore")

    def found(self, x: Any, given: Iterable[Any]) -> Any:
        """Return where `x` is not what it should be, as a mask; None where it is, or nothing is known of it.

        NaN counts wherever it appears, infinity where no value in `given`, of which `x` was made, has it.
        """
        a = array_of(x)
        if a is None or a.dtype.kind not in "fc" or np.isfinite(a).all():
            return None
        bad = np.isnan(a) if self.nans else np.zeros(a.shape, bool)
        if self.infs and not bad.any() and all(map(_is_finite, given)):
            bad = np.isinf(a)
        return bad if bad.any() else None

    def result(self, primitive: Primitive, args: Sequence[Any], out: Any) -> None:
        """Report a result of a primitive that is not finite."""
        bad = self.found(out, args)
        if bad is None:
            return
        line = user_line()
        place = np.unravel_index(int(np.argmax(bad)), bad.shape)
        first = f", first at [{', '.join(map(str, place))}]" if len(place) else ""
        already = [i for i, a in enumerate(args) if self.nans and _has_nan(a)]
        words = [
            f"{primitive.name} at {place_of(line)} gave {_kind(out, bad)}{first}",
            *([f"operand {already[0]} has it already"] if already and _has_nan(out) else []),
            *(f"operand {i} = {shown(a, place if primitive.body else None)}" for i, a in enumerate(args)),
            f"result = {shown(out)}",
        ]
        raise NonFiniteError("; ".join(words), primitive.name, line)

    def seeds(self, seeds: Iterable[tuple[Node, Any]]) -> bool:
        """Report a NaN among the first cotangents of a sweep; return whether one is infinite."""
        infinite = False
        for node, ct in seeds:
            if self.nans and _has_nan(ct):
                line = user_line()
                raise NonFiniteError(
                    f"the cotangent of the result of {title(node)} was nan when it was given to the "
                    f"reverse pass at {place_of(line)}: {shown(ct)}",
                    title(node),
                    line,
                )
            infinite = infinite or not _is_finite(ct)
        return infinite

    def run(self, primitive: Primitive, run: Rule, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Return what `run` returns, if it is finite."""
        with np.errstate(**self.silenced):
            out = run(*args, **params)
        for o in out if primitive.many else (out,):
            self.result(primitive, args, o)
        return out

    def sweeping(self, tape: Tape, seeds: Iterable[tuple[Node, Any]]) -> AbstractContextManager[Check]:
        """Look at the steps of a sweep, instead of the primitives that they run."""
        tainted = (np.inf,) if self.seeds(seeds) else ()

        def check(node: Node, ct: Any, back: Sequence[Any]) -> None:
            for c in ct if isinstance(ct, list) else (ct,):
                if self.found(c, tainted) is not None:
                    self._refuse(
                        node, f"the cotangents of the result of {title(node)}", "add up to", c, "sum", c
                    )
            if not isinstance(node.vjp, VJP):
                return
            for i, c in zip(places_of(node), back, strict=True):
                if self.found(c, tainted) is not None:
                    self._refuse(node, f"the cotangent of operand {i} of {title(node)}", "became", c, "", ct)

        return quiet(check)

    def step(self, node: Node, given: Sequence[Any], tangent: Any) -> None:
        """Report a tangent that the forward step of `node` made of finite ones."""
        for t in tangent if isinstance(tangent, list | tuple) else (tangent,):
            if self.found(t, given) is not None:
                self._refuse(node, f"the tangent of the result of {title(node)}", "became", t, "", *given)

    def _refuse(self, node: Node, what: str, verb: str, bad: Any, name: str, *given: Any) -> NoReturn:
        origin = line_of(node)
        kept = () if name or not isinstance(node.vjp, VJP) else node.saved
        values = [shown(v) for v in kept if array_of(v) is not None]
        mask = self.found(bad, ())
        asked = f"in the derivative asked for at {user_place()}"
        words = [
            f"{what} (recorded at {place_of(origin)}) {verb} {_kind(bad, mask)} {asked}",
            *(f"{name or 'what came in'} = {shown(g)}" for g in given if g is not None),
            *([f"values it kept = {', '.join(values)}"] if values else []),
        ]
        raise NonFiniteError("; ".join(words), title(node), origin)


def title(node: Node) -> str:
    """Return what to call the operation of a node."""
    if isinstance(node.vjp, Pick):
        return title(node.parents[0])
    return "an argument" if node.vjp is None else node.vjp.primitive or node.vjp.title or "an operation"


def array_of(x: Any) -> Any:
    """Return the array of numbers under Tensors and batches; None where there is none, or not yet."""
    x = buffer_of(x)
    if isinstance(x, float | complex):
        return np.asarray(x)
    if x.__class__ is DeviceArray:
        return x.download()  # who looks for NaN asks for it
    return x if isinstance(x, np.ndarray | np.generic) else None


def _is_finite(x: Any) -> bool:
    a = array_of(x)
    return a is None or a.dtype.kind not in "fc" or bool(np.isfinite(a).all())


def _has_nan(x: Any) -> bool:
    a = array_of(x)
    return a is not None and a.dtype.kind in "fc" and bool(np.isnan(a).any())


def _kind(x: Any, bad: Any) -> str:
    a = array_of(x)
    first = a if bad is None else a[bad].flat[0]
    return "nan" if np.isnan(first).any() else "inf"


def shown(x: Any, place: Sequence[Any] | None = None) -> str:
    """Return a value in a few words; `place` is an index of an array that `x` broadcasts to."""
    a = array_of(x)
    if a is None:
        return repr(x)[:60]
    text = np.array2string(np.asarray(a), threshold=8, edgeitems=3, precision=6).replace("\n", "")
    shape = f"[{','.join(map(str, a.shape))}]" if a.ndim else ""
    if not place or not a.ndim or a.size == 1:
        return f"{text} ({a.dtype.name}{shape})"
    near = place[len(place) - a.ndim :]
    there = a[tuple(0 if n == 1 else i for i, n in zip(near, a.shape, strict=True))]
    return f"{text} ({a.dtype.name}{shape}; there {there})"


# ---- on and off ---------------------------------------------------------------------------------------


def line_of(node: Node) -> str:
    """Return where the user's program made a node."""
    return kept_line(node) or "a line that was not kept: it ran before debug_nans was on"


_INHERITED = Watch(nans=False, infs=False)  # stands for what the whole process watches
_here: ContextVar[Watch | None] = ContextVar("fgrad watch", default=_INHERITED)
_everywhere: list[Watch] = []  # at most one


def watching() -> Watch | None:
    """Return what this thread and task looks for, if anything."""
    if not observed_primitives:
        return None
    watch = _here.get()
    if watch is _INHERITED:
        return _everywhere[0] if _everywhere else None
    return watch


LOOKUPS.append(watching)


class quiet(Block):  # noqa: N801 -- reads as a function
    """Do not look at the results of primitives in a block, which gets `given`."""

    __slots__ = ("_before", "_given")

    def __init__(self, given: Any = None) -> None:
        self._watch = None
        self._before: tuple[Watch | None] | None = None
        self._given = given

    def __enter__(self) -> Any:
        self._before = (_here.get(),)
        _here.set(None)
        return self._given

    def undo(self, _: object) -> None:
        """Look again."""
        if self._before is not None:
            _here.set(self._before[0])
            self._before = None


class looking(observed):  # noqa: N801 -- likewise
    """Make `watch` what this thread and task looks for in a block."""

    def __init__(self, watch: Watch | None) -> None:
        super().__init__(_here, watch)


def switch(watch: Watch | None) -> Watch | None:
    """Make `watch` what every thread looks for that has no watch of its own; return the one before."""
    return let_observe(_everywhere, watch)  # type: ignore[no-any-return]
