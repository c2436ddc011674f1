"""Blocks of `with`, left in every way."""

import contextlib
import functools
import gc
import signal
import weakref
from contextvars import ContextVar

import numpy as np
import pytest

import fgrad as fg
from fgrad.archive import reading
from fgrad.blocks import Block, Setting, is_of_handler, suppress
from fgrad.compiler.simplify import constants
from fgrad.core.aval import aval_of
from fgrad.core.primitive import PRIMITIVES
from fgrad.transforms import captures

place = ContextVar("place", default="outside")


class Interrupted(Setting):
    """Is interrupted where it is told."""

    def __init__(self, at):
        super().__init__(place, "inside")
        self.at = at

    def _perhaps(self, at):
        if self.at == at:
            self.at = None
            raise KeyboardInterrupt

    def __enter__(self):
        self._perhaps("begin")
        super().__enter__()
        self._perhaps("entered")
        return self

    def leave(self, *error):
        self._perhaps("leaving")
        super().leave(*error)
        self._perhaps("left")

    def put_back(self, stay):
        super().put_back(stay)
        self._perhaps("putting")


@pytest.mark.parametrize("at", ["begin", "entered", "leaving", "putting", "left"])
def test_what_was_changed_is_put_back_before_anybody_hears_of_the_interrupt(at):
    block = Interrupted(at)
    kept = None
    try:
        with block:
            assert place.get() == "inside"
    except KeyboardInterrupt as error:
        assert place.get() == "outside"
        kept = error  # and with it all frames
    assert kept is not None
    assert place.get() == "outside"
    with block, block:  # and it can be used again
        assert place.get() == "inside"
    assert place.get() == "outside"
    place.set("elsewhere")
    del kept, block
    gc.collect()
    assert place.get() == "elsewhere"  # nothing comes later
    place.set("outside")


def test_an_interrupt_where_an_exception_leaves_a_block():
    with pytest.raises(KeyboardInterrupt), Interrupted("leaving"):
        raise ValueError
    assert place.get() == "outside"


def test_an_interrupt_of_the_inner_one_of_two():
    with Setting(place, "around"):
        with pytest.raises(KeyboardInterrupt), Interrupted("leaving"):
            pass
        assert place.get() == "around"
    assert place.get() == "outside"


def test_stacks_of_blocks_and_decorators():
    with contextlib.ExitStack() as stack:
        stack.enter_context(Setting(place, 1))
        stack.enter_context(Setting(place, 2))
        assert place.get() == 2
    assert place.get() == "outside"

    @Setting(place, 3)
    def there(depth):
        return [place.get(), *(there(depth - 1) if depth else ())]

    assert there(2) == [3, 3, 3]
    assert place.get() == "outside"


def test_looking_at_the_exit_changes_nothing():
    block = Setting(place, 1)
    assert hasattr(block, "__exit__")
    assert callable(Block.__exit__)
    with block:
        assert callable(block.__exit__)
        assert place.get() == 1
    assert place.get() == "outside"


def test_no_cycle_is_left():
    block = Setting(place, 1)
    with block:
        pass
    dead = weakref.ref(block.stays.__class__ and _Seen(block))
    gc.disable()
    try:
        del block
        assert dead() is None
    finally:
        gc.enable()


class _Seen:
    def __init__(self, block):
        block.seen = self


# ---- what handlers of signals raise ----------------------------------------------------------------------


class Handlers:
    def given(self, number, frame):
        raise TimeoutError(number)

    def gathered(self, *args):
        self.given(0, None)

    def from_another(self, number, frame, kind=TimeoutError):
        self._raised(kind)

    def _raised(self, kind):
        raise kind

    def __call__(self, number, frame):
        try:
            self._raised(KeyError)
        finally:
            self._raised(TimeoutError)


HANDLERS = {
    "a method": Handlers().given,
    "any arguments": Handlers().gathered,
    "by another": Handlers().from_another,
    "an object": Handlers(),
    "a lambda": lambda n, f: Handlers().from_another(n, f),
    "partial": functools.partial(Handlers().from_another, kind=TimeoutError),
}


@pytest.fixture
def alarm():
    """Return a function that sends a signal when it is first called, whose handler raises TimeoutError."""
    before, calls = signal.signal(signal.SIGINT, Handlers().given), []

    def send(*_, **__):
        calls.append(None)
        if len(calls) == 1:
            signal.raise_signal(signal.SIGINT)
            calls.append(None)  # there the handler has run

    yield send
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_errors_of_handlers_are_not_suppressed(handler):
    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(TimeoutError) as caught, suppress(OSError):
            signal.raise_signal(signal.SIGINT)
            list(range(3))
        assert is_of_handler(caught.value)
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_errors_are_suppressed():
    done = []
    with suppress(OSError, KeyError):
        Handlers().given(1, None)
    with suppress(OSError, KeyError):
        {}[1]
    with suppress(OSError):
        done.append(1)
    assert done
    with pytest.raises(ValueError, match="else"), suppress(OSError):
        raise ValueError("else")


def _folding(alarm, monkeypatch):
    monkeypatch.setattr(PRIMITIVES["add"], "run", alarm)
    constants.folded("add", (np.ones(2), np.ones(2)), {}, aval_of(np.ones(2)))


def _reading(alarm, monkeypatch):
    data = fg.export(np.sin, 1.0)
    monkeypatch.setattr(reading.Reader, "program", alarm)
    fg.load(data)


def _calling_again(alarm, monkeypatch):
    table = np.ones(3000)  # large enough to be compared by a function
    f = fg.jit(lambda x: x * table)
    f(1.0)
    monkeypatch.setattr(captures._Print, "holds", alarm)
    f(1.0)


@pytest.mark.parametrize("reach", [_folding, _reading, _calling_again])
def test_where_something_is_tried_another_way_the_error_of_a_handler_is_the_callers(
    reach, alarm, monkeypatch, tmp_path
):
    monkeypatch.setenv("FGRAD_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(TimeoutError):
        reach(alarm, monkeypatch)
