"""Notes: what is remembered of each recorded operation, for pictures and profiles.

A node of a tape forgets everything when it has been differentiated; its note stays, without any array, as
long as a Tensor that came out of it.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import Any
from weakref import ref

import numpy as np

from fgrad.backend.devices import on_host
from fgrad.blocks import Nested
from fgrad.core.aval import Aval, aval_of
from fgrad.core.observers import LOOKUPS, observe, observed_primitives, observing, unobserve
from fgrad.core.placement import buffer_of
from fgrad.core.primitive import PRIMITIVES, VJP, Primitive, Rule
from fgrad.core.scopes import Origin, here, scopes_of
from fgrad.core.tape import Node, Pick, Tape
from fgrad.core.tensor import Tensor
from fgrad.core.trace import Tracer, current, user_line


def origin() -> str:
    """Return where the user's program is: its line, with the scopes if there are any.

    While a sweep is noted, an operation of a step back stands where the operation does whose step it is.
    """
    line, scopes, backward = user_line(), here(), False
    notes = noting() if observed_primitives else None
    if notes is not None and notes.stepping and line == notes.asked:
        line, backward = notes.stepping, True
        scopes = tuple([s.reverse() for s in scopes_of(line)])
    if not scopes and not backward:
        return line
    found = Origin(line)
    found.scopes, found.backward = scopes, backward
    return found


_numbers = itertools.count()


class Recording:
    """What stays known of a recording when its tape is gone; `number` is the order of those of a level."""

    __slots__ = ("level", "manager", "number")

    level: int
    manager: Any

    def __init__(self, level: int, manager: Any = None) -> None:
        self.level, self.manager = level, manager  # a weak reference to the GradManager
        self.number: int = next(_numbers)


@dataclass(eq=False, repr=False, slots=True)
class Sweep:
    """One reverse pass over a recording."""

    recording: Recording


class Note:
    """What is known of one recorded operation, or leaf.

    Attributes:
        name: of the primitive; "" for a leaf.
        parents: notes of the arguments that were followed, at the places `places` among all arguments.
        avals: of the outputs; None where the node does not say.
        given: of the parents, likewise.
        index: which output of its parent this is; None for an operation.
        line: `file:line` of the user's program, "" if it was not kept.
        recordings: the one to which the node belongs, and those that know the operation by other nodes.
        sweep: the reverse pass that made it, if one did.
        seconds, reverse_seconds: the time of the operation and of its reverse step; None if not measured.
        norm: the Euclidean norm of its cotangent in the last sweep.
        tensor: a weak reference to the Tensor that was attached here, when the recording is over.
    """

    avals: list[Aval] | None
    given: list[Aval | None]

    def __init__(self, node: Node, parents: tuple[Note, ...], line: str = "") -> None:
        vjp = node.vjp
        self.parents: tuple[Note, ...] = parents
        self.line: str = line
        self.recordings: list[Recording] = [recording_of(node.tape)]
        self.index: int | None = vjp.index if isinstance(vjp, Pick) else None
        self.name: str = (vjp.primitive or vjp.title or "operation") if isinstance(vjp, VJP) else ""
        self.places: list[int] = places_of(node)
        self.avals, self.given = _avals(node)
        self.seconds: float | None = None
        self.reverse_seconds: float | None = None
        self.norm: float | None = None
        self.sweep: Sweep | None = None
        self.tensor: ref[Tensor] | None = None


def places_of(node: Node) -> list[int]:
    """Return which of all arguments of an operation its parents are."""
    vjp = node.vjp
    if not isinstance(vjp, VJP):
        return list(range(len(node.parents)))
    pattern = (
        vjp.pattern
        if vjp.primitive or not node.saved or not isinstance(node.saved[0], tuple)
        else node.saved[0]
    )
    places = [i for i, tracked in enumerate(pattern) if tracked]
    return places if len(places) == len(node.parents) else list(range(len(node.parents)))


def _avals(node: Node) -> tuple[list[Aval] | None, list[Aval | None]]:
    """Return what a node says of the avals of its outputs and parents."""
    given: list[Aval | None] = [None] * len(node.parents)
    if node.parent_avals is not None:
        given = [Aval(*f) if f is not None else None for f in node.parent_avals]
    vjp = node.vjp
    if node.aval is not None:
        pairs = node.aval if isinstance(node.aval, list) else [node.aval]
        outs = [Aval(shape, np.dtype(dtype)) for shape, dtype, *_ in pairs]
        if node.parent_avals is not None and len(outs) == 1:
            given = [g or outs[0] for g in given]
        return outs, given
    if isinstance(vjp, VJP) and vjp.primitive in PRIMITIVES:
        primitive = PRIMITIVES[vjp.primitive]
        if primitive.linear is vjp and primitive.shape is not None and node.saved:
            aval, params = node.saved
            return [aval_of(primitive.shape(aval, **params))], [aval]
        values = [v for v in node.saved if hasattr(v, "shape")]
        if primitive.body is not None and values and node.parent_avals is None and len(vjp.pattern) == 1:
            outs = [Aval(values[0].shape, np.dtype(values[0].dtype))]  # its argument and its result are alike
            return outs, [outs[0]]
    return None, given


def recording_of(tape: Any) -> Recording:
    """Return what is to stay of a tape."""
    if tape is None:
        return Recording(0)
    try:
        found: Recording = tape.note
    except AttributeError:
        found = tape.note = Recording(tape.level)
    return found


def note_of(node: Node) -> Note:
    """Return the note of a node; one that has none gets it, as its ancestors do."""
    todo = [node]
    while todo:
        n = todo[-1]
        if hasattr(n, "note"):
            todo.pop()
            continue
        missing = [p for p in n.parents if not hasattr(p, "note")]
        todo += missing
        if not missing:
            n.note = Note(n, tuple([p.note for p in n.parents]))
            todo.pop()
    found: Note = node.note
    return found


class Noted(list["ref[Node]"]):
    """The nodes of a tape, each of which gets a note when it is made."""

    def append(self, r: ref[Node]) -> None:
        """Add a node."""
        node = r()
        if node is not None:
            node.note = note = Note(node, tuple(map(note_of, node.parents)), origin())
            notes = noting()
            if notes is not None:
                notes.noted(note)
        super().append(r)


def line_of(node: Node) -> str:
    """Return where the user's program made a node, "" if that was not kept."""
    note = getattr(node, "note", None)
    return note.line if note else ""


def note_nodes() -> None:
    """Let the live tapes of this thread keep notes if there is an observer, or no longer."""
    noted = bool(observing())
    for tape in current().traces:
        if isinstance(tape, Tape) and isinstance(tape.refs, Noted) != noted:
            tape.refs = Noted(tape.refs) if noted else list(tape.refs)


class Notes:
    """Takes notes while it is the one of this thread and task: lines, scopes, times, norms of cotangents."""

    asked: str
    stepping: str

    apart = False  # whether compiled programs run kernel by kernel

    def __init__(self) -> None:
        # "backward" in a sweep, "tangent" in a forward-mode pass over a recording
        self.phase: str = "forward"
        self.sweep: Sweep | None = None
        # the origin of what a step goes back over, and who asked for the sweep
        self.stepping = self.asked = ""
        self.inner: float = 0.0  # seconds in what is called by what runs now
        self._last: tuple[str, float, Any] = ("", 0.0, None)
        self._noted: tuple[Any, list[Recording]] = (None, [])  # the run that was noted last, and by whom

    def run(self, primitive: Primitive, run: Rule, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Return `run(*args, **params)`, and measure it."""
        outer, self.inner = self.inner, 0.0
        start = perf_counter()
        try:
            out = run(*args, **params)
        finally:
            seconds = perf_counter() - start
            own, self.inner = seconds - self.inner, outer + seconds
        self._last = (primitive.name, seconds, out)
        if self.phase == "forward":
            self.ran(primitive.name, own, out if primitive.many else (out,))
        else:
            self.inner -= own  # it is part of the step that runs
        return out

    def ran(self, name: str, seconds: float, outs: Sequence[Any]) -> None:
        """Hear that a primitive ran; `seconds` without what it called."""

    def stepped(self, node: Node, seconds: float, outs: Sequence[Any]) -> None:
        """Hear that a step over a recording ran; `seconds` without the kernels that it called."""

    def kernel(self, name: str, line: str, step: Callable[[], None], outs: int) -> None:
        """Run a kernel of a compiled program, whose results take `outs` bytes."""
        step()

    def noted(self, note: Note) -> None:
        """Complete a note that was made after a run."""
        note.sweep = self.sweep
        name, seconds, out = self._last
        if name and name == note.name:
            note.seconds = seconds
            if self._noted[0] is self._last:
                self._noted[1].extend(note.recordings)
                note.recordings = self._noted[1]
            else:
                self._noted = (self._last, note.recordings)
            outs = out if PRIMITIVES[name].many else (out,)
            if all(hasattr(o, "shape") and not isinstance(o, Tracer | Tensor) for o in outs):
                note.avals = list(map(aval_of, outs))

    def sweeping(self, tape: Tape, seeds: Iterable[tuple[Node, Any]]) -> Pass:
        """Observe a sweep: the time of each step, and the norms of cotangents."""
        return Backward(self, "backward", Sweep(recording_of(tape)), user_line())

    def begin(self, node: Node) -> None:
        """Hear that a step of a sweep begins."""
        self.stepping = note_of(node).line

    def pushing(self) -> Pass:
        """Observe a forward-mode pass; the check gets each node, tangents, and the tangent of its result."""
        return Forward(self, "tangent", self.sweep, self.asked)


class Pass(Nested):
    """A pass over a recording, whose steps are measured one after the other; the block gets `check`."""

    def __init__(self, notes: Notes, phase: str, sweep: Sweep | None, asked: str) -> None:
        super().__init__()
        self._notes, self._phase, self._sweep, self._asked = notes, phase, sweep, asked

    def __enter__(self) -> Callable[..., None]:
        notes = self._notes
        self._start = perf_counter()
        self.stays.append((notes.sweep, notes.stepping, notes.asked, notes.phase, notes.inner, self._start))
        if notes.sweep is not self._sweep:
            notes.sweep, notes.stepping, notes.asked = self._sweep, "", self._asked
        notes.phase, notes.inner = self._phase, 0.0
        return self.check

    def put_back(self, stay: Any) -> None:
        """Go on with what was measured before."""
        notes = self._notes
        notes.sweep, notes.stepping, notes.asked, notes.phase, inner, begun = stay
        notes.inner = inner + perf_counter() - begun

    @abstractmethod
    def check(self, node: Node, given: Any, made: Any) -> None:
        """Hear of a step."""

    def step(self, node: Node, outs: Any) -> float:
        """Return the time since the last step, without what was called."""
        notes = self._notes
        seconds = perf_counter() - self._start - notes.inner
        notes.stepped(node, seconds, outs)
        notes.inner = 0.0
        self._start = perf_counter()
        return seconds


class Backward(Pass):
    """A sweep."""

    def check(self, node: Node, given: Any, made: Any) -> None:
        """Note the norm of a cotangent, and the time of the step."""
        note = note_of(node)
        note.norm = _norm(given)
        if isinstance(node.vjp, VJP):
            note.reverse_seconds = self.step(node, made)


class Forward(Pass):
    """A pass in forward mode."""

    def check(self, node: Node, given: Any, made: Any) -> None:
        """Note the time of a step."""
        if isinstance(node.vjp, VJP):
            self.step(node, made if isinstance(made, list | tuple) else (made,))


def _norm(ct: Any) -> float | None:
    parts = ct if isinstance(ct, list) else [ct]
    arrays = [a for a in map(buffer_of, parts) if isinstance(a, np.ndarray | np.generic | float)]
    values = [float(np.linalg.norm(on_host(a).ravel())) for a in arrays]
    return float(np.hypot.reduce(values)) if values else None


_here: ContextVar[Notes | None] = ContextVar("fgrad notes", default=None)
_everywhere: list[Notes] = []  # at most one


def noting() -> Notes | None:
    """Return who takes notes in this thread and task, if anybody."""
    return _here.get() or (_everywhere[0] if _everywhere else None)


LOOKUPS.append(noting)


class observed(Nested):  # noqa: N801 -- reads as a function
    """Let an observer be the one that a context variable names in a block; None: let there be none."""

    def __init__(self, variable: ContextVar[Any], who: Any) -> None:
        super().__init__()
        self.variable: ContextVar[Any] = variable
        self.who: Any = who

    def __enter__(self) -> Any:
        stay = self.variable.get(), object()
        self.stays.append(stay)
        if self.who:
            observe(stay[1])
        self.variable.set(self.who)
        note_nodes()
        return self

    def put_back(self, stay: Any) -> None:
        """Let those observe who did before."""
        self.variable.set(stay[0])
        unobserve(stay[1])
        note_nodes()


def let_observe(held: list[Any], who: Any) -> Any:
    """Let an observer be the only one in a list, None: let there be none; return the one before."""
    before = held[0] if held else None
    if who:
        observe(who)
    held[:] = [who] if who else []
    if before:
        unobserve(before)
    note_nodes()
    return before


def taking(notes: Notes) -> observed:
    """Let `notes` be taken in a block."""
    return observed(_here, notes)


def take_everywhere(notes: Notes | None) -> None:
    """Let `notes` be taken where no block says otherwise, until the next call; None: no longer."""
    let_observe(_everywhere, notes)
