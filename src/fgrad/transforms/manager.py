"""GradManager: recordings with state, the one engine on which every transformation of this package stands."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from itertools import starmap
from threading import get_ident
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad import tree
from fgrad.blocks import Block
from fgrad.core.dispatch import node_on
from fgrad.core.display import html_of
from fgrad.core.notes import Noted, Recording, note_of
from fgrad.core.observers import observing
from fgrad.core.primitive import VJP
from fgrad.core.tape import Node, Tape
from fgrad.core.tensor import Tensor, wrap
from fgrad.core.trace import (
    Tracer,
    below,
    current,
    inherited_state,
    next_level,
    note_call,
    note_change,
    running,
    set_traces,
)
from fgrad.core.tracebacks import shorten
from fgrad.core.views import touch
from fgrad.errors import NotLinearError
from fgrad.locks import lock
from fgrad.ops.linear import convert
from fgrad.transforms import per_sample_gradients
from fgrad.transforms.calling import check_live
from fgrad.transforms.cotangents import (
    Callback,
    OnUnused,
    called,
    check_on_unused,
    checked,
    described,
    given,
    is_future,
    owned,
    report_unused,
    seeds_of,
    sweep,
)

if TYPE_CHECKING:
    from typing_extensions import Self

_FEW = 64  # references, which to go through costs more than they do
_NO_HISTORY = (
    "no computation history; did you forget record(), or was the history cleared by backward() or release()?"
)
_BLOCK = " The block of this manager has ended, and its recording with it: call backward inside `with gm:`."
_TWICE = (
    " backward() has run, which frees what was recorded: call it once with the sum of the losses, "
    "gm.backward(a + b), or with all of them, gm.backward([a, b]), or record again for each."
)


class _Entry:
    """One attached tensor: held weakly between recordings."""

    __slots__ = ("callbacks", "path", "ref")

    def __init__(self, t: Tensor, path: str, registry: weakref.ref[_Registry]) -> None:
        key = id(t)
        self.path = path  # where it was in the tree that was attached
        self.callbacks: list[Callback] = []
        self.ref = weakref.ref(t, lambda _: (r := registry()) and r.entries.pop(key, None))


class _Registry:
    """The attached tensors by identity; a dead one takes its entry along."""

    __slots__ = ("__weakref__", "entries")

    def __init__(self) -> None:
        self.entries: dict[int, _Entry] = {}


class _Recording:
    """What one recording knows: the tape, and for each attached tensor its leaf."""

    __slots__ = ("callbacks", "dropped", "leaves", "tape")

    dropped: _Dropped  # where nobody else ends the recording with its manager

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.leaves: dict[int, tuple[Tensor, Node]] = {}  # id -> the handle and its leaf


class _Dropped(weakref.ref["GradManager"]):
    """Waits for the death of a manager that records outside of a block: `__del__` would run for all of them.

    And a Ctrl-C that comes there is lost.
    """

    __slots__ = ("tape",)

    tape: Tape


def _forget(dropped: Any) -> None:
    dropped.tape.release()


@dataclass(eq=False, repr=False, slots=True)
class Recorded:
    """A finished recording between leaves (`targets`) and outputs (`sources`), as the map of cotangents."""

    tape: Tape
    sources: Sequence[Node | None]
    targets: Sequence[Node]
    _: KW_ONLY
    once: bool

    def __call__(self, cts: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the leaves: arrays or Tensors, as `cts`; None is zero on both sides."""
        seeds = [(n, ct) for n, ct in zip(self.sources, cts, strict=True) if n is not None and ct is not None]
        grads = sweep(self.tape, seeds, consume=self.once)
        return [grads.get(leaf) for leaf in self.targets]


_following = lock()  # two threads must not both find a Tensor free


_RUNNING = frozenset({"_registry", "_recording", "_sweeping", "_watch", "_ended"})  # of one manager alone


class GradManager(Block):
    """Records operations on attached tensors and accumulates gradients into their `.grad`.

    Attach the tensors, record, compute, call `backward`:

        >>> import fgrad
        >>> x = fgrad.tensor([1.0, 2.0])
        >>> gm = fgrad.GradManager().attach(x)
        >>> with gm:
        ...     gm.backward((x * x).sum())
        >>> x.grad
        Tensor([2., 4.])

    Managers nest to any depth: one that records around another sees the inner `backward` and can
    differentiate it. `gm1 | gm2` records two as equals. A recording belongs to the thread and asyncio task
    that opened it.

    Derivative:
        `backward(y, ct)` adds to `.grad` of each attached tensor its cotangent, of its shape and dtype;
        complex ones are JAX's: for z = a + bj, d/da - j d/db.
    """

    # until it is otherwise: a transformation makes a manager for each call, which has nothing attached
    _registry = _Registry()
    _after: Sequence[Callable[[], Any]] = ()
    _recording: _Recording | None = None
    _sweeping = False
    _watch = None
    _ended = ""  # how the last recording came to its end

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy of this manager knows: attached tensors and callbacks, but no recording."""
        found = [(e.ref(), e.path, list(e.callbacks)) for e in list(self._registry.entries.values())]
        own = {name: x for name, x in vars(self).items() if name not in _RUNNING}
        return {**own, "attached": [entry for entry in found if entry[0] is not None]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become a manager of this state."""
        vars(self).update({name: x for name, x in state.items() if name != "attached"})
        self._registry = _Registry()
        for t, path, callbacks in state["attached"]:
            entry = self._registry.entries[id(t)] = _Entry(t, path, weakref.ref(self._registry))
            entry.callbacks = callbacks

    @property
    def is_recording(self) -> bool:
        """Whether `record` was called and neither `backward` nor `release` since."""
        return self._recording is not None and self._recording.tape.is_open

    # -- attaching

    def attach(
        self,
        tensors: Any,
        callbacks: Callback | Iterable[Callback] | None = None,
        *,
        callback: Callback | None = None,
    ) -> Self:
        """Ask for the gradients of `tensors`; while recording, from here on.

        Args:
            tensors: a Tensor, or any pytree or iterable of Tensors, real or complex floating.
            callbacks: one `callback(tensor, grad)` or several, called with each complete gradient; what the
                last returns (None: unchanged; a Future: its result) goes to `.grad`. Futures of a `backward`
                that fails are cancelled.
            callback: the same, for one.

        Raises:
            TypeError: a leaf that is not a floating Tensor, or a callback that cannot be called. Nothing is
                attached then.
            RuntimeError: a tensor is attached to a manager that records in another thread.
        """
        try:
            found = _attachable(tensors)
            new = _callables(callbacks, "callbacks") + _callables(callback, "callback")
            note_change(self)
            with _following:
                self._attach(found, new)
        except Exception as error:
            shorten(error)
            raise
        return self

    def _attach(self, found: list[tuple[str, Tensor]], new: list[Callback]) -> None:
        live = self._recording if self._recording and not self._sweeping else None
        if live:
            for _, t in found:
                _refuse_other_thread(t, live.tape)
                _refuse_inner_box(t, live.tape)
        if self._registry is GradManager._registry:
            self._registry = _Registry()
        entries = self._registry.entries
        registry = weakref.ref(self._registry)
        seen: set[int] = set()
        for path, t in found:
            if id(t) in seen:
                continue
            seen.add(id(t))
            entry = entries.get(id(t))
            if entry is None:
                entry = entries[id(t)] = _Entry(t, path, registry)
            entry.callbacks += new
            if live and id(t) not in live.leaves:
                self._follow(t, live)

    def attached_tensors(self) -> list[Tensor]:
        """Return the attached tensors that are alive, in the order of their first attachment."""
        return [t for e in list(self._registry.entries.values()) if (t := e.ref()) is not None]

    def detach(self, tensors: Any) -> Self:
        """Forget attached tensors and their callbacks; a running recording gives them no gradient."""
        note_change(self)
        for _, t in _tensors(tensors, "detach"):
            self._registry.entries.pop(id(t), None)
            if self._recording and not self._sweeping:
                self._recording.leaves.pop(id(t), None)
        return self

    def after_backward(self, callback: Callable[[], Any]) -> Self:
        """Call `callback()` in every later `backward`, after the callbacks of the tensors."""
        note_change(self)
        self._after = [*self._after, *_callables(callback, "callback")]
        return self

    # -- recording

    def record(self) -> Self:
        """Start to record operations on the attached tensors.

        Raises:
            RuntimeError: it records already, or a tensor is attached to one that records in another thread.
        """
        try:
            self.start(is_kept=False)
        except Exception as error:
            shorten(error)
            raise
        return self

    def make_linear(self) -> None:
        """Expect a linear function: its value at the recorded point does not matter."""
        self._recorded().tape.linear_only = True

    def start(self, level: int | None = None, *, is_kept: bool = True) -> None:
        """Do what `record` does.

        Args:
            level: of the recording; a new one by default.
            is_kept: whether it is of a function, with which it ends; else the death of the manager ends it.
        """
        if self._recording is not None:
            if self._recording.tape.is_open:
                raise RuntimeError(
                    "this GradManager is already recording; call backward() or release() first, "
                    "or nest another GradManager for higher-order gradients"
                )
            self._stop()  # which was interrupted
        state = current()
        traces = state.traces
        if traces:
            note_change(self)
            level = next_level() if level is None else level
            traces = tuple([t for t in traces if not t.is_tape or t.is_open])
        tape = Tape(level or 0, get_ident(), raw=not traces or not below(level or 0), whole=is_kept)
        tensors = self.attached_tensors() if self._registry.entries else ()
        if observing():
            tape.refs, tape.note = Noted(), Recording(tape.level, weakref.ref(self))
        recording = _Recording(tape)
        try:
            if not is_kept and self._watch is None:
                recording.dropped = _Dropped(self, _forget)
                recording.dropped.tape = tape
            self._recording = recording
            set_traces((*traces, tape), state)
            if is_kept:
                tape.foreign = inherited_state().foreign
            if tensors:
                self._follow_all(tensors, recording)
        except BaseException:
            self._stop()
            raise

    def _follow_all(self, tensors: Sequence[Tensor], recording: _Recording) -> None:
        with _following:
            for t in tensors:
                if t._nodes:
                    _refuse_other_thread(t, recording.tape)
            for t in tensors:
                self._follow(t, recording)

    def _follow(self, t: Tensor, recording: _Recording) -> None:
        """Make the value that `t` has now a leaf; gradients still flow through an intermediate."""
        tape = recording.tape
        if not t._nodes:
            leaf = tape.leaf()
            t._nodes = (leaf,)
        else:
            alive = [n for n in t._nodes if n.tape is not None]
            leaf = tape.node(None, (), tuple([n for n in alive if n.tape is tape]))
            t._nodes = (*[n for n in alive if n.tape is not tape], leaf)
        recording.leaves[id(t)] = (t, leaf)
        if t._base is not None or t._viewers is not None:
            touch(t)

    def follow(self, value: Any, nodes: tuple[Node, ...] = ()) -> Tensor:
        """Return a new Tensor on an array or tracer, a leaf of this recording that no `.grad` belongs to."""
        return self.follow_each([(value, nodes)])[0]

    def follow_each(self, handles: Iterable[tuple[Any, tuple[Node, ...]]]) -> list[Tensor]:
        """Do what `follow` does for each pair of a value and its nodes."""
        recording = self._recorded()
        new_leaf = recording.tape.leaf
        found = []
        for x, nodes in handles:
            value = x.strong() if x.__class__ is not np.ndarray and isinstance(x, Tracer) else x
            if nodes:
                t = wrap(value, nodes)
                self._follow(t, recording)
            else:
                leaf = new_leaf()
                t = wrap(value, (leaf,))
                recording.leaves[id(t)] = (t, leaf)
            found.append(t)
        return found

    def pullback(self, y: Sequence[Any], x: Sequence[Tensor], *, once: bool = False) -> Recorded:
        """Stop recording, and return the map from cotangents of `y` to cotangents of the leaves `x`.

        The map may be called any number of times: it keeps what was recorded, unless it is to be called
        `once`, and touches no `.grad`.
        """
        recording = self._recorded()
        tape = recording.tape
        recorded = Recorded(
            tape, [node_on(tape, t) for t in y], [recording.leaves[id(t)][1] for t in x], once=once
        )
        recording.leaves.clear()
        _close(tape)
        self._recording = None
        if tape.linear_only:
            _check_linear(tape)
        if not once and len(tape.refs) > _FEW:
            tape.compact()
        return recorded

    def recording_tape(self) -> Tape:
        """Return the tape of the running recording."""
        return self._recorded().tape

    def _recorded(self) -> _Recording:
        recording = self._recording
        if recording is None or self._sweeping or not recording.tape.is_open:
            raise RuntimeError(_NO_HISTORY + self._ended)
        return recording

    def release(self) -> None:
        """Stop recording and forget what was recorded; does nothing where nothing is recorded.

        Raises:
            RuntimeError: called from within this manager's own `backward`.
        """
        if self._sweeping:
            raise RuntimeError(
                "release() cannot be called from a callback of this manager's own backward(); "
                "backward releases the manager itself when it ends"
            )
        if self._recording is not None:
            self._ended = ""
        self._stop()

    def _stop(self) -> None:
        """Forget the recording; where that is interrupted, the next call does the rest."""
        recording = self._recording
        if recording is None:
            return
        tape = recording.tape
        _close(tape)
        if tape.refs.__class__ is Noted:
            for t, leaf in recording.leaves.values():
                note_of(leaf).tensor = weakref.ref(t)
        for t, leaf in recording.leaves.values():
            if leaf in t._nodes:
                t._nodes = tuple([n for n in t._nodes if n is not leaf]) if len(t._nodes) > 1 else ()
        tape.release()
        self._recording = None

    def __enter__(self) -> Self:
        return self.record()

    def mark(self) -> Any:
        """Return the recording that is running already, if any."""
        return self._recording

    def undo(self, mark: Any) -> None:
        """Stop what was recorded since."""
        if self._recording is not mark:
            self._stop()

    def leave(self, kind: object = None, error: object = None, *_: object) -> None:
        """Stop recording."""
        if self._sweeping:
            self.release()  # which refuses that
        if self._recording is not None:
            self._ended = _BLOCK
        self._stop()
        if self._watch is not None:
            self._watch = self._watch.outer
        if isinstance(error, Exception):
            shorten(error)

    def __or__(self, other: object) -> GradManagerGroup:
        if not isinstance(other, GradManager | GradManagerGroup):
            return NotImplemented
        return GradManagerGroup([self, *_members(other)])

    def _repr_html_(self) -> str:
        return html_of(self)

    # -- differentiating

    def backward(
        self, y: Any = None, dy: Any = None, *, on_unused: OnUnused = "ignore", per_sample: bool = False
    ) -> None:
        """Add the gradient of `sum(y * dy)` to `.grad` of every attached tensor, and stop recording.

        Args:
            y: a Tensor, or a pytree of Tensors, computed while recording; None releases the manager.
            dy: the cotangent, of the structure and shapes of `y`; None means ones, for any shape of `y`:
                the gradient of `sum(y)`.
            on_unused: what to do where no gradient reaches an attached tensor: "ignore" (its `.grad` stays
                as it is), "warn" (`NoGradientWarning`) or "error"; both name the tensor.
            per_sample: add the gradient of each element of a vector `y` (times that of `dy`) instead of that
                of their sum: `.grad`, and what callbacks get, has the shape (len(y), *tensor.shape). One
                sweep is enough where operations treat the samples one by one.

        Raises:
            RuntimeError: nothing was recorded.
            UnusedArgumentError: no gradient reaches an attached tensor, and `on_unused` is "error".
            ValueError: `per_sample` of something else than a vector, or `.grad` holds a gradient of another
                shape.
            TypeError, ValueError: `dy` does not match `y`, or a callback returned something else than a
                gradient. Whatever is raised, no `.grad` has changed and the manager is released.

        Convention:
            For complex tensors the pairing is Re(dy * y), as in JAX: the gradient of a real function f of
            z = a + bj is df/da - j df/db.
        """
        try:
            self._backward(y, dy, on_unused, per_sample=per_sample)
        except Exception as error:
            shorten(error)
            raise

    def _backward(self, y: Any, dy: Any, on_unused: OnUnused, *, per_sample: bool) -> None:
        check_on_unused(on_unused)
        recording = self._recorded()
        chosen: dict[Node, Any] = {}  # what callbacks made of a gradient, and what to call the last one
        try:
            self._sweeping = True
            if per_sample:
                _check_samples(y)
            seeds = seeds_of(y, dy, recording.tape)
            try:
                results = self._gradients(recording, seeds, chosen, on_unused, per_sample=per_sample)
            except BaseException:
                for g, _ in chosen.values():
                    if is_future(g):
                        g.cancel()  # nobody will ask for it
                raise
            self._sweeping = False
            self._stop()
            self._ended = _TWICE
            for t, _ in results:
                note_change(t)
        except BaseException:
            self._sweeping = recording.tape.is_open = False
            self._stop()
            raise
        deque(starmap(_set_grad, results), 0)  # all at once: no interrupt comes between

    def _gradients(
        self,
        recording: _Recording,
        seeds: list[tuple[Node, Any]],
        chosen: dict[Node, Any],
        on_unused: OnUnused,
        *,
        per_sample: bool,
    ) -> list[tuple[Tensor, Tensor]]:
        """Return each attached tensor that a gradient reaches, and its new `.grad`; traces above see nothing.

        The recording ends with this, so its tape leaves the stack for good where it is the innermost trace.
        """
        tape = recording.tape
        state = current()
        lower = below(tape.level)
        innermost = state.traces == (*lower, tape) and not state.suspended
        if innermost:
            set_traces(lower, state)
        with nullcontext() if innermost else running(lower):
            owners = {leaf: t for t, leaf in recording.leaves.values()}
            callbacks = {
                leaf: e.callbacks
                for t, leaf in recording.leaves.values()
                if (e := self._registry.entries.get(id(t))) and e.callbacks
            }

            def complete(leaf: Node, ct: Any) -> None:
                if leaf in callbacks:
                    chosen[leaf] = called(callbacks[leaf], owners[leaf], given(ct))

            if per_sample:
                grads = per_sample_gradients.per_sample(tape, *seeds[0]) if seeds else {}
                for leaf, ct in grads.items():
                    complete(leaf, ct)
            else:
                grads = sweep(tape, seeds, consume=True, complete=complete if callbacks else None)
            if on_unused != "ignore":
                report_unused(on_unused, self._unused(owners, grads), "y")
            for call in list(self._after):
                note_call(call)
                call()
            results = []
            taken: set[int] = set()
            for leaf, t in owners.items():
                if leaf in grads:
                    raw = given(grads[leaf])
                    g, who = chosen.get(leaf, (raw, ""))
                    if is_future(g):
                        result = g.result()
                        g = raw if result is None else checked(result, raw, who)
                    old = t.grad
                    if old is not None and old.shape != g.shape:
                        raise ValueError(
                            f"the gradient has shape {g.shape}, but .grad has shape {old.shape} already, "
                            "because one of them is per sample; set t.grad = None before"
                        )
                    results.append((t, owned(g, taken) if old is None else convert(old + g, g.dtype)))
            return results

    def _unused(self, owners: dict[Node, Tensor], grads: dict[Node, Any]) -> list[str]:
        """Return what to call each attached tensor without gradient: its place in what was attached."""
        order = {id(t): i for i, t in enumerate(self.attached_tensors())}
        entries = self._registry.entries
        return [
            f"attached tensor {order[id(t)]}{entries[id(t)].path} of shape {t.shape}"
            for leaf, t in owners.items()
            if leaf not in grads and id(t) in order
        ]


def _check_samples(y: Any) -> None:
    if not (isinstance(y, Tensor) and y.ndim == 1):
        raise ValueError(
            "backward(y, per_sample=True) takes one Tensor with one axis, the samples, but y is "
            + (f"of shape {y.shape}" if isinstance(y, Tensor) else described(y))
        )


def _check_linear(tape: Tape) -> None:
    for n in tape.live():
        if isinstance(n.vjp, VJP) and not n.vjp.linear:
            raise NotLinearError(n.vjp.primitive)


class GradManagerGroup(Block):
    """Managers that record as equals: none sees the `backward` of another.

    Derivative:
        Each `backward` adds to the `.grad` of the tensors of its own manager.

    Example:
        >>> x = fg.tensor(2.0)
        >>> one, other = fg.GradManager().attach(x), fg.GradManager()
        >>> group = one | other
        >>> with group:
        ...     one.backward(x**2)
        >>> x.grad
        Tensor(4.)
    """

    def __init__(self, managers: Iterable[GradManager]) -> None:
        self._watch = None
        self._managers = tuple(managers)
        if len(set(map(id, self._managers))) != len(self._managers):
            raise ValueError("a GradManager occurs twice in this group; every manager can record only once")

    @property
    def managers(self) -> tuple[GradManager, ...]:
        """The members, from left to right."""
        return self._managers

    def __or__(self, other: object) -> GradManagerGroup:
        if not isinstance(other, GradManager | GradManagerGroup):
            return NotImplemented
        return GradManagerGroup([*self._managers, *_members(other)])

    def record(self) -> Self:
        """Start to record with every member at one level; if one cannot, none does."""
        level = next_level()
        started: list[GradManager] = []
        try:
            for gm in self._managers:
                gm.start(level, is_kept=False)
                started.append(gm)
        except BaseException:
            for gm in started:
                gm.release()
            raise
        return self

    def _repr_html_(self) -> str:
        return html_of(self)

    def release(self) -> None:
        """Release every member."""
        for gm in self._managers:
            gm.release()

    def __enter__(self) -> Self:
        return self.record()

    def mark(self) -> Any:
        """Return what each member records already."""
        return [gm.mark() for gm in self._managers]

    def undo(self, mark: Any) -> None:
        """Stop what was recorded since."""
        for gm, recording in zip(self._managers, mark, strict=True):
            gm.undo(recording)

    def leave(self, kind: object = None, error: object = None, *_: object) -> None:
        """Release every member."""
        self.release()
        self.left()
        if isinstance(error, Exception):
            shorten(error)


_set_grad: Callable[[Tensor, Tensor], None] = Tensor.__dict__["_grad"].__set__


def _close(tape: Tape) -> None:
    """Take a tape off the stack of traces, and others that have ended."""
    tape.is_open = False
    state = current()
    if state.sole is tape:
        set_traces((), state)
        return
    for t in state.traces:
        if not t.is_open:
            set_traces(tuple([t for t in state.traces if t.is_open]), state)
            return


def _members(x: GradManager | GradManagerGroup) -> tuple[GradManager, ...]:
    return x.managers if isinstance(x, GradManagerGroup) else (x,)


def _attachable(tensors: Any) -> list[tuple[str, Tensor]]:
    """Return the Tensors of a pytree or iterable with their paths, if all can have gradients."""
    found = _tensors(tensors, "attach")
    for path, t in found:
        check_live(t)
        if t.dtype.kind not in "fc":
            raise TypeError(
                f"cannot attach{path}: a Tensor of dtype {t.dtype} and shape {t.shape} has no gradient. "
                "Attach floating-point tensors only, or convert it first: fgrad.tensor(x, dtype=float)"
            )
    return found


def _tensors(tensors: Any, what: str) -> list[tuple[str, Tensor]]:
    """Return the Tensors of a pytree or iterable with their paths."""
    if isinstance(tensors, Tensor):
        return [("", tensors)]
    found: list[tuple[str, Tensor]] = []
    stack: list[tuple[str, Any]] = [("", tensors)]
    while stack:
        path, x = stack.pop()
        if isinstance(x, Tensor):
            found.append((path, x))
            continue
        inner = tree.children(x)
        if inner is None:
            raise TypeError(
                f"{what} takes Tensors, but the leaf {path or 'given'} is {described(x)}. "
                "Write x = fgrad.tensor(x) first and use x in the computation"
            )
        stack += [(f"{path}[{key!r}]", child) for key, child in reversed(inner)]
    return [(f" {path}" if path else "", t) for path, t in found]


def _callables(callbacks: Any, name: str) -> list[Callable[..., Any]]:
    if callbacks is None:
        return []
    if isinstance(callbacks, Tensor):
        raise TypeError(
            "attach takes all tensors as one argument, attach([w, b]) or attach({'w': w, 'b': b}); the "
            "second one is for callbacks"
        )
    if callable(callbacks):
        return [callbacks]
    if not isinstance(callbacks, Iterable):
        raise TypeError(f"{name} must be callable or an iterable of callables, not {described(callbacks)}")
    found = list(callbacks)
    for c in found:
        if not callable(c):
            raise TypeError(f"every one of {name} must be callable, but one is {described(c)}")
    return found


def _refuse_other_thread(t: Tensor, tape: Tape) -> None:
    for n in t._nodes:
        if n.tape is not None and n.vjp is None and n.tape.owner != tape.owner and n.tape.is_open:
            raise RuntimeError(
                f"a Tensor of shape {t.shape} is attached to a GradManager that records in another thread; "
                "give each thread its own Tensor (fgrad.tensor(x)), or use the functional grad"
            )


def _refuse_inner_box(t: Tensor, tape: Tape) -> None:
    if isinstance(t._value, Tracer) and t._value.trace.level > tape.level:
        raise RuntimeError(
            f"a Tensor of {t._value.trace.title} cannot be attached to a GradManager that records outside "
            "it; attach it to a manager that starts recording inside the mapped function"
        )
