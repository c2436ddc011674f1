"""Blocks of `with`, left in every way."""

import contextlib
import gc
import weakref
from contextvars import ContextVar

import pytest

from fgrad.blocks import Block, Setting

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
