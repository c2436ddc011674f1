import pytest
from tests.kernels.interleavings import Exploration, HandoverError

from fgrad.kernels import pool


@pytest.fixture(scope="module")
def text():
    try:
        return pool._text()
    except KeyError:
        pytest.skip("a processor that fgrad does not know")


@pytest.mark.parametrize(
    "sizes",
    [
        {"callers": 1, "workers": 1, "loops": 2, "steps": 2},
        {"callers": 2, "workers": 0, "loops": 2, "steps": 1},
        {"callers": 2, "workers": 1, "loops": 1, "steps": 2, "clocks": False},
    ],
)
def test_no_order_of_threads_goes_wrong(text, sizes):
    assert Exploration(text, **sizes).explore() > 500


OPEN = f"%open = icmp sge i64 %state, {pool.OPEN}"
MISTAKES = {
    "a caller that does not wait": ("%done = icmp eq i64 %inside", "%done = icmp sge i64 %inside"),
    "a worker that enters, but does not acquire": (
        "%entered acquire monotonic",
        "%entered monotonic monotonic",
    ),
    "a worker that leaves, but does not release": ("i64 1 release", "i64 1 monotonic"),
    "a caller that does not acquire": (
        "load atomic i64, ptr %GATE acquire",
        "load atomic i64, ptr %GATE monotonic",
    ),
    "a caller that does not release": (", ptr %GATE release", ", ptr %GATE monotonic"),
    "a piece that two threads take": ("br i1 %mine, label %run, label %look", "br label %run"),
    "a queue that stays in use": ("store atomic i64 0, ptr %BUSY", "store atomic i64 1, ptr %BUSY"),
    "a queue that is not released": ("i64 0, ptr %BUSY release", "i64 0, ptr %BUSY monotonic"),
    "a queue that is not acquired": ("i64 0, i64 1 acquire monotonic", "i64 0, i64 1 monotonic monotonic"),
    "a queue that two callers use": ("br i1 %free, label %put, label %alone", "br label %put"),
    "a worker that enters where it is shut": (OPEN, "%open = icmp sge i64 %state, 0"),
    "a worker that was not let in": ("br i1 %inside, label %work", "br i1 1, label %work"),
    "a worker that never leaves": ("sub ptr %GATE, i64 1 release", "sub ptr %GATE, i64 0 release"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_found(text, mistake):
    right, wrong = MISTAKES[mistake]
    assert text.count(right) == 1
    with pytest.raises(HandoverError):
        for callers, workers in ((1, 1), (2, 0)):
            Exploration(
                text.replace(right, wrong), callers=callers, workers=workers, loops=2, steps=1
            ).explore()
