"""`profile`: where the time and memory of a function go, by operation and by line of the program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from fgrad.core.nonfinite import array_of, title
from fgrad.core.notes import Notes, note_of, origin, taking
from fgrad.core.scopes import Scope, scopes_of
from fgrad.core.tape import Node
from fgrad.core.trace import user_line
from fgrad.transforms.calling import Transformed, name_of
from fgrad.viz.formatting import code, count, cut, place, size, time

PHASES = ("forward", "backward", "tangent")
TRIALS, ENOUGH = 3, 0.2  # unprofiled calls, and the seconds after which there are no more
SLOWER = 3  # than an unprofiled call: a profile is made once more


class Event(NamedTuple):
    """One operation that ran, one reverse or forward step over a recorded one, or one compiled kernel.

    Attributes:
        phase: "forward", "backward" or "tangent" (a step of forward mode).
        name: of the operation.
        line: `file:line` of the user's program where the operation stands, also for steps back.
        seconds: without what it called, if that is an event of its own.
        bytes: of the arrays that it made.
    """

    phase: str
    name: str
    line: str
    seconds: float
    bytes: int

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes in which it stands."""
        return scopes_of(self.line)


class Row(NamedTuple):
    """Events of one name or line, added up: calls, seconds by phase, and bytes."""

    name: str
    calls: int
    forward: float
    backward: float
    tangent: float
    bytes: int

    @property
    def seconds(self) -> float:
        """The seconds of all phases."""
        return self.forward + self.backward + self.tangent


class Meter(Notes):
    """Takes notes of each operation as events, and follows which arrays are alive."""

    live: int
    inner: float
    peak: int

    apart = True

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []
        self.live = self.peak = 0
        self._refs: dict[int, ref[Any]] = {}

    def ran(self, name: str, seconds: float, outs: Sequence[Any]) -> None:
        """Add the event of a row."""
        self._add(name, origin(), seconds, self._hold(outs))

    def stepped(self, node: Node, seconds: float, outs: Sequence[Any]) -> None:
        """Add the event of a step over a recording."""
        self._add(title(node), note_of(node).line or user_line(), seconds, self._hold(outs))

    def kernel(self, name: str, line: str, step: Callable[[], None], outs: int) -> None:
        """Run a kernel, and add its event."""
        outer, self.inner = self.inner, 0.0
        start = perf_counter()
        step()
        seconds = perf_counter() - start
        own, self.inner = seconds - self.inner, outer + seconds
        self._add(name, line, own, outs)

    def _add(self, name: str, line: str, seconds: float, made: int) -> None:
        self.events.append(Event(self.phase, name, line, seconds, made))

    def _hold(self, outs: Iterable[Any]) -> int:
        """Follow the arrays among results that own their memory; return how many bytes are new."""
        new = 0
        for o in outs:
            a = array_of(o)
            if isinstance(a, np.ndarray) and a.flags.owndata and id(a) not in self._refs:
                self._refs[id(a)] = ref(a, self._forgetting(id(a), a.nbytes))
                new += a.nbytes
        self.live += new
        self.peak = max(self.peak, self.live)
        return new

    def _forgetting(self, key: int, n: int) -> Callable[[Any], None]:
        def forget(_: Any) -> None:
            self.live -= n
            self._refs.pop(key, None)

        return forget


@dataclass(eq=False, repr=False)
class Profile:
    """Where the time and memory of one call went: a table for `print`, a picture and tables in a notebook.

    Attributes:
        value: what the function returned.
        seconds: the time of the profiled call.
        unprofiled: the time of a call without profiling, the least of some.
        peak: the most bytes of results of operations that were alive at once; arguments do not count.
        events: every operation, step and kernel in the order in which they ended.

    Example:
        >>> p = fg.profile(fg.grad(lambda x: np.sum(np.sin(x))))(np.zeros(3))
        >>> p.value, sum(row.calls for row in p.operations())
        (array([1., 1., 1.]), 4)
    """

    name: str
    value: Any
    seconds: float
    unprofiled: float
    peak: int
    events: list[Event]

    @property
    def between(self) -> float:
        """The seconds of an unprofiled call that belong to no event: Python and fgrad around them."""
        return max(0.0, self.unprofiled - sum(e.seconds for e in self.events))

    def total(self, phase: str) -> float:
        """Return the seconds of "forward", "backward" or "tangent"."""
        return sum(e.seconds for e in self.events if e.phase == phase)

    def operations(self) -> list[Row]:
        """Return a row for each operation, the slowest first."""
        return self._rows(lambda e: e.name)

    def lines(self) -> list[Row]:
        """Return a row for each line of the program, the slowest first."""
        return self._rows(lambda e: str(e.line))

    def _rows(self, key: Callable[[Event], str]) -> list[Row]:
        found: dict[str, list[Event]] = {}
        for e in self.events:
            found.setdefault(key(e), []).append(e)
        rows = []
        for name, events in found.items():
            forward, backward, tangent = (sum(e.seconds for e in events if e.phase == p) for p in PHASES)
            made = sum(e.bytes for e in events)
            rows.append(Row(name, len(events), forward, backward, tangent, made))
        return sorted(rows, key=lambda r: (-r.seconds, r.name))

    def columns(self, title: str, most: int, width: int) -> tuple[list[Row], list[list[str]]]:
        """Return the rows of the table of operations or lines, and its head and first lines as text."""
        rows = self.lines() if title == "line" else self.operations()
        phases = [p for p in PHASES if any(getattr(r, p) for r in rows)]
        text = [[title, *phases, "calls", "bytes"]]
        for r in rows[:most]:
            name = f"{place(r.name)}  {code(r.name)}" if title == "line" else r.name
            times = [time(getattr(r, p)) if getattr(r, p) else "" for p in phases]
            text.append([cut(name, width), *times, str(r.calls), size(r.bytes)])
        return rows, text

    def summary(self) -> str:
        """Return the totals in a line."""
        parts = [f"{p} {time(self.total(p))}" for p in PHASES if self.total(p)]
        return (
            f"{self.name}: {time(self.seconds)} profiled, {time(self.unprofiled)} unprofiled; "
            f"{', '.join([*parts, f'between operations {time(self.between)}'])}; "
            f"{count(len(self.events), 'event')}, peak of results {size(self.peak)}"
        )

    def __str__(self) -> str:
        return "\n".join([self.summary(), "", *_table(self, "operation"), "", *_table(self, "line")])

    def __repr__(self) -> str:
        return f"<Profile of {self.summary()}>"

    def _repr_html_(self) -> str:
        from fgrad.viz.flame import html  # noqa: PLC0415 -- the picture needs this module

        return html(self)

    def to_svg(self, theme: str = "auto") -> str:
        """Return the picture: time by phase, scope, line and operation; `theme` as in `Drawing.to_svg`."""
        from fgrad.viz.flame import svg  # noqa: PLC0415 -- likewise

        return svg(self, theme)


def _table(profile: Profile, title: str, most: int = 20) -> list[str]:
    rows, lines = profile.columns(title, most, 44)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        "  ".join([first.ljust(widths[0]), *(c.rjust(w) for c, w in zip(rest, widths[1:], strict=True))])
        for first, *rest in lines
    ]
    return [*map(str.rstrip, text), *([f"and {len(rows) - most} more"] if len(rows) > most else [])]


class _Profile(Transformed):
    """The function that profiles another one."""

    def _call(self, *args: Any, **kwargs: Any) -> Profile:
        times: list[float] = []
        while len(times) < 1 + TRIALS and sum(times[1:]) < ENOUGH:
            start = perf_counter()
            self.fun(*args, **kwargs)
            times.append(perf_counter() - start)
        for _ in range(2):  # at first, steps that are otherwise done together may have to be compiled
            meter = Meter()
            with taking(meter):
                start = perf_counter()
                value = self.fun(*args, **kwargs)
                seconds = perf_counter() - start
            if seconds < SLOWER * min(times[1:]):
                break
        return Profile(name_of(self.fun), value, seconds, min(times[1:]), meter.peak, meter.events)


def profile(fun: Callable[..., Any]) -> Callable[..., Profile]:
    """Return the function that runs `fun` and says where its time and memory go.

    It runs `fun` once to warm up, up to three times to see how long it takes, and once profiled, or twice
    where the first time is much slower. Each operation is an event, so is each reverse step (in `grad` and
    `backward`) and each step of forward mode; a jitted function runs kernel by kernel. What `fun` does
    besides, as writing files, happens each time.

    Args:
        fun: any function: of NumPy arrays or Tensors, transformed or not, with managers inside or outside.

    Returns:
        A function of the same arguments that returns a `Profile`: `print` it, or let a notebook show it.

    Raises:
        Exception: what `fun` raises.

    Example:
        >>> import fgrad
        >>> import numpy as np
        >>> p = fgrad.profile(fgrad.grad(lambda x: np.sum(np.sin(x))))(np.ones(1000))
        >>> sorted(row.name for row in p.operations())
        ['sin', 'sum']
        >>> p.peak
        16000
        >>> p.total("forward") + p.total("backward") < p.seconds
        True
    """
    return _Profile(fun)
