"""Whatever is interrupted leaves nothing behind, and works again afterwards: see `interrupting`."""

import pytest
from tests import interrupting
from tests.interrupting import ERRORS, PROGRAMS, count_of, interrupt, session

LARGE = ("compiled", "compiled_loops", "recorded_compiled", "exported", "solved", "settings", "staged")
SMALL = [name for name in PROGRAMS if name not in LARGE]


@pytest.mark.parametrize("name", ["manager", "managers", "views"])
def test_every_point_of_a_small_program(name):
    """Or of half of them: entering and leaving blocks, sweeping, assigning, writing through views."""
    for at in range(0, count_of(name, KeyboardInterrupt), 2):
        where, wrong = interrupt(name, KeyboardInterrupt, at)
        assert not wrong, where


@pytest.mark.parametrize("error", ERRORS)
def test_no_file_stays_open(error):
    for at in range(count_of("kept", error)):
        where, wrong = interrupt("kept", error, at)
        assert not wrong, where


def test_random_points_of_small_programs():
    assert _failures(SMALL, 330) == []


def test_random_points_of_staging_and_compiling():
    assert _failures(LARGE, 14) == []


def _failures(names, count):
    shown = []
    tally, sizes = session(
        list(names), seed=3, count=count, show=lambda *words, sep: shown.append(sep.join(words))
    )
    assert all(sizes.values()), "nothing was counted"
    assert len(tally) == len(names) * len(ERRORS)
    return shown


def test_what_is_left_behind_is_seen(monkeypatch):
    """The oracle itself: a manager without the care for its end is found out."""
    monkeypatch.setattr(interrupting.fg.GradManager, "undo", lambda *_: None)
    found = [interrupt("manager", KeyboardInterrupt, at)[1] for at in range(150)]
    assert any(any("already recording" in w for w in wrong) for wrong in found)
