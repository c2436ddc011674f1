"""The stack of traces: each one interprets a primitive, then asks the ones below.

The stack belongs to one thread and one asyncio task. It lives in a ContextVar, whose value other threads and
tasks may inherit; the owner stored beside the traces makes an inherited stack count as empty.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from threading import get_ident
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from fgrad.blocks import Block
from fgrad.compat.cpython import frame_of, running_loop
from fgrad.compat.ipython import cells
from fgrad.core.aval import Shape
from fgrad.core.caches import LRU
from fgrad.core.mistakes import note_refusal, remedy
from fgrad.core.primitive import Primitive
from fgrad.errors import EscapedTensorError, NoValueError


class Trace:
    """One interpretation of primitives, at a `level` of the stack: the higher, the more inner."""

    __slots__ = ()

    level: int = 0
    title: str = "trace"
    remedy = ""  # what to do instead of asking a tracer for its value
    is_tape = False
    stacks = False  # whether `process_alone` may be asked where other traces are under it
    is_staged = False  # whether it runs once for all values
    # generators that draw for the sake of shapes, and their states
    drawn: list[tuple[Any, Any]] | None = None
    greedy = False  # whether it takes what is done with values of lower traces alone, too
    muted = False  # whether callbacks that only look are left out: what runs is seen a second time
    is_open = True  # a tape closes before it leaves the stack, where managers end out of order
    changes: dict[int, weakref.ref[Any]] | None = None  # what changed since, where it may have to run again
    # Tensors whose `.grad` was asked for or set since, and what it was where that was asked for first
    gradients: dict[int, tuple[weakref.ref[Any], Any]] | None = None

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Interpret `primitive` applied to `args`; tracers of this trace come as Tensors that hold them."""
        raise NotImplementedError

    def process_alone(self, primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
        """Do what `process` does where no other tracer is live: tracers and arrays come as they are.

        NotImplemented where there is no shorter way than `process`.
        """
        return NotImplemented


def only_splits(old: Shape, new: Shape) -> bool:
    """Return whether a reshape joins no axes, so that it is a view however the elements lie in memory."""
    if 0 in old:
        return True
    lengths = iter([n for n in new if n != 1])
    for n in old:
        while n > 1:
            part = next(lengths)
            if n % part:
                return False
            n //= part  # noqa: PLW2901
    return True


class Tracer:
    """A value that only its trace understands: one example of a batch, or a result not yet computed."""

    __slots__ = ("line", "trace")

    trace: Trace
    line: str  # where the user's program made it

    @property
    def shape(self) -> Shape:
        """The shape that the user's function sees."""
        raise NotImplementedError

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype that the user's function sees."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """The number of axes that the user's function sees."""
        return len(self.shape)

    @property
    def held(self) -> Any:
        """The value that this one stands on; None where nothing is computed yet."""
        return None

    def refuse(self, what: str) -> NoReturn:
        """Say that `what` needs a value that does not exist here."""
        if self.trace not in current().traces:
            self.escaped()
        advice = advice_for(what, staged=self.trace.is_staged)
        message = (
            f"{what} at {user_place()} needs the value of a Tensor, which {self.trace.title} does "
            f"not have. {advice[:1].upper()}{advice[1:]}{'.' if advice else self.trace.remedy}"
        )
        note_refusal(message, user_frame())
        raise NoValueError(message)

    def known(self, what: str) -> np.ndarray[Any, Any]:
        """Return the value if it has no elements, for then nothing is missing; say that `what` needs it."""
        if 0 not in self.shape or not self.is_sized():
            self.refuse(what)
        return np.empty(self.shape, self.dtype)

    def is_sized(self) -> bool:
        """Return whether the shape is that of the value."""
        return True

    def shares_when_reshaped(self, shape: Shape) -> bool:
        """Return whether NumPy's reshape certainly makes a view of the value."""
        return only_splits(self.shape, shape)

    def lies_in_order(self) -> bool:
        """Return whether the value certainly lies in memory row by row, without gaps."""
        return False

    def is_array(self) -> bool:
        """Return whether it is an array, which can be written to: what has no axes is a scalar."""
        return bool(self.shape)

    def as_array(self) -> Tracer:
        """Return the same value as an array, which can be written to though it has no axes."""
        return self

    def as_scalar(self) -> Tracer:
        """Return the same value as a scalar, if it has no axes."""
        return self

    def like(self, held: Any) -> Tracer:
        """Return what stands on another value, as this one does on `held`."""
        raise NotImplementedError

    def in_order(self) -> Tracer:
        """Return the same value as an array that lies in memory row by row."""
        return self

    def disordered(self) -> Tracer:
        """Return the same value, of which nobody knows how it lies in memory."""
        return self

    def ordered_like(self, other: Any) -> Tracer:
        """Return the same value, which lies in memory row by row if `other` is known to."""
        return self

    def strong(self) -> Tracer:
        """Return the same value as something that can be differentiated: of a dtype that is fixed."""
        return self

    def truth(self) -> bool:
        """Return whether the value is true."""
        self.refuse("bool()")

    def same(self, other: Tracer) -> bool:
        """Return whether `other` is known to have the same value."""
        return self is other

    def escaped(self, *_: Any, **__: Any) -> NoReturn:
        """Say that this value was used outside its transformation."""
        raise EscapedTensorError(
            f"a Tensor made at {place_of(self.line)} inside {self.trace.title} is used outside it (at "
            f"{user_place()}). "
            f"It stands for a value that exists only while {self.trace.title} runs: "
            "return it from the function instead of storing it in a variable that outlives the call."
        )

    __array__: Callable[..., NoReturn]
    __array_ufunc__: Callable[..., NoReturn]
    __array_function__: Callable[..., NoReturn]
    __array__ = __array_ufunc__ = __array_function__ = escaped


class State:
    """The live traces of one thread or task, innermost last."""

    __slots__ = (
        *("base", "has_tracers", "foreign", "greedy", "interceptor", "lower"),
        *("sole", "stale", "thread", "traces", "upper", "suspended"),
    )

    def __init__(
        self,
        traces: tuple[Trace, ...],
        thread: int,
        foreign: Callable[[], Any] | None,
        suspended: tuple[Any, ...] = (),
        interceptor: Any = None,
    ) -> None:
        self.traces: tuple[Trace, ...] = traces
        self.thread: int = thread
        # is true in another asyncio task than the one that made this; None without asyncio
        self.foreign: Callable[[], Any] | None = foreign
        # tapes that must not see what happens, only that something did
        self.suspended: tuple[Any, ...] = suspended
        # runs primitives of tracked arguments, or knows their results already
        self.interceptor: Any = interceptor
        self.has_tracers: bool = False
        # views whose base was written to; they are to be made anew while these traces are the live ones
        self.stale: list[weakref.ref[Any]] = []
        self.sole: Any = NOTHING
        # the innermost trace that is no tape, if one tape at most is above it, and it is alone or `stacks`
        self.base: Any = None
        self.upper: Any = None  # the tape above it
        self.lower: dict[
            int, State
        ] = {}  # by level: the stacks of the traces under it, which `under` has made
        self.greedy: Any = None  # the innermost trace that takes what is done with values of others
        if len(traces) == 1 and traces[0].is_tape and interceptor is None:
            self.sole = traces[0]
            return
        for t in traces:
            if not t.is_tape:
                self.has_tracers = True
                if t.greedy:
                    self.greedy = t
        if self.has_tracers and not suspended and interceptor is None:
            upper = traces[-1] if traces[-1].is_tape else None
            base = traces[-2] if upper else traces[-1]
            if base is traces[0] or (base.stacks and self.greedy is None):
                self.base, self.upper = base, upper


NOTHING = object()
FLOOR = State((), 0, None)
_state: ContextVar[State] = ContextVar("fgrad", default=FLOOR)
inherited_state: Callable[[], State] = _state.get


def current() -> State:
    """Return the stack of this thread and task."""
    s = _state.get()
    if s is FLOOR or (s.thread == get_ident() and (s.foreign is None or not s.foreign())):  # as `is_here`
        return s
    return FLOOR


def is_here(s: State) -> bool:
    """Return whether a stack is one of this thread and task."""
    return s is FLOOR or (s.thread == get_ident() and (s.foreign is None or not s.foreign()))


def settle(s: State) -> None:
    """Let every view that is stale become what it is now, before the stack changes."""
    stale, s.stale = s.stale, []
    for r in stale:
        x = r()
        if x is not None:
            x.__class__  # noqa: B018 -- a look is what they wait for


def set_traces(traces: tuple[Trace, ...], s: State) -> None:
    """Make `traces` the stack of this thread and task, in the place of those of `s`."""
    try:
        if s.stale:
            settle(s)
    finally:
        _state.set(_made(traces, s.suspended, s.interceptor))


class running(Block):  # noqa: N801 -- reads as a function; a generator would cost three times as much
    """Run a block with `traces` as the stack; the tapes `suspended` see nothing of it.

    An `interceptor` stays for the blocks inside.
    """

    __slots__ = ("_before", "_state")

    def __init__(
        self, traces: Sequence[Trace], suspended: tuple[Any, ...] = (), interceptor: Any = None
    ) -> None:
        self._watch = None
        self._before: State | None = None
        self._state = _made(tuple(traces), suspended, interceptor or current().interceptor)

    @classmethod
    def under(cls, level: int) -> running:
        """Run a block with the live traces under `level`."""
        block = cls.__new__(cls)
        block._watch = block._before = None
        here = current()
        found = here.lower.get(level)
        if found is None:
            found = _made(tuple([t for t in here.traces if t.level < level]), (), here.interceptor)
            if here is not FLOOR:
                here.lower[level] = found
        block._state = found
        return block

    def __enter__(self) -> None:
        before = current()
        if before.stale:
            settle(before)
        self._before = _state.get()
        _state.set(self._state)

    def undo(self, _: object) -> None:
        """Let the stack be what it was."""
        if self._before is not None:
            _state.set(self._before)
            self._before = None

    def leave(self, *_: object) -> None:
        """Let the stack be what it was."""
        if self._state.stale:
            settle(self._state)
        _state.set(self._before)  # type: ignore[arg-type]
        self._before = None
        if self._watch is not None:
            self._watch = self._watch.outer


def note_change(x: Any) -> None:
    """Tell every trace that may run its function again that the function changes `x`."""
    for t in _state.get().traces:
        if t.changes is not None:
            try:
                t.changes[id(x)] = weakref.ref(x)
            except TypeError:  # it is not known how long such a thing lives
                t.changes[id(x)] = weakref.ref(type(x))


def note_gradient(x: Any, known: Any) -> None:
    """Tell every trace whose program holds for later calls that the function reads, or sets, `x.grad`.

    Args:
        x: a Tensor.
        known: what the function reads; NotImplemented where it sets that.
    """
    for t in _state.get().traces:
        if t.gradients is not None:
            before = t.gradients.get(id(x))
            if before is None or before[0]() is None:
                t.gradients[id(x)] = weakref.ref(x), known


def note_call(f: Callable[..., Any]) -> None:
    """Tell every trace that may run its function again that `f` is called, which may change anything."""
    note_change(getattr(f, "__self__", f))


def next_level() -> int:
    """Return the level above every live trace."""
    traces = current().traces
    return traces[-1].level + 1 if traces else 0  # they are in order


def below(level: int) -> tuple[Trace, ...]:
    """Return the live traces under `level`."""
    return tuple([t for t in current().traces if t.level < level])


def _made(traces: tuple[Trace, ...], suspended: tuple[Any, ...] = (), interceptor: Any = None) -> State:
    if not traces and not suspended:
        return FLOOR
    return State(
        traces, get_ident(), _elsewhere() if "asyncio" in sys.modules else None, suspended, interceptor
    )


def _elsewhere() -> Callable[[], Any]:
    """Return the function that says whether another asyncio task runs than now."""
    asyncio, loop = sys.modules["asyncio"], running_loop()
    if loop() is None:
        return loop  # outside of every task: elsewhere is wherever a loop runs
    now = asyncio.current_task()
    task = now and weakref.ref(now)
    return lambda: loop() is None or asyncio.current_task() is not (task and task())


_HERE, _NUMPY = __file__.rpartition("core")[0], np.__file__.rpartition("__init__")[0]
_LIBRARIES = ("scipy", "pandas")  # call NumPy's functions on what they are given
_AROUND = (functools.__file__, contextlib.__file__)  # call what fgrad decorates


_ours: LRU[str, bool] = LRU()  # file -> whether its frames are not the user's


def is_own(file: str) -> bool:
    """Return whether a file is of fgrad, or generated by it."""
    return file.startswith((_HERE, "<fgrad"))


def is_internal(file: str) -> bool:
    """Return whether a file is of fgrad, NumPy or SciPy, or stands between decorators and functions."""
    found = _ours.get(file)
    if found is None:
        found = _ours[file] = file.startswith((_HERE, _NUMPY, *_AROUND, "<fgrad", *_libraries()))
    return found


def _libraries() -> list[str]:
    """Return the folders of the libraries that are loaded: before, none of their files runs."""
    files = [getattr(sys.modules.get(name), "__file__", None) for name in _LIBRARIES]
    return [file.rpartition("__init__")[0] for file in files if file and "__init__" in file]


def user_frame(own: int = 1) -> FrameType:
    """Return the innermost frame outside fgrad, NumPy and SciPy, or the outermost one.

    At least `own` calls around, this one included, are known to be of fgrad.
    """
    frame, known = frame_of(own), _ours.young.get
    while (back := frame.f_back) is not None:
        name = frame.f_code.co_filename
        inside = known(name)
        if not (is_internal(name) if inside is None else inside):
            break
        frame = back
    return frame


def user_line(own: int = 1) -> str:
    """Return `file:line` of what `user_frame` does."""
    frame = user_frame(own + 1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def advice_for(what: str, *, staged: bool = False) -> str:
    """Return what to write instead of what asks for a value now, "" where the line does not tell."""
    inside, frame, user = [], frame_of(1), user_frame()
    while frame is not user and frame.f_back is not None:
        if not is_own(frame.f_code.co_filename):
            inside.append(frame)
        frame = frame.f_back
    return remedy(what, user, inside[::-1], staged=staged)


def place_of(line: str) -> str:
    """Return `file:line` as messages say it: a cell of a notebook has a number."""
    file, _, number = line.rpartition(":")
    cell = cells().get(file)
    return line if cell is None else f"In[{cell}], line {number}"


def user_place() -> str:
    """Return the line of the user's program, as messages say it."""
    return place_of(user_line())
