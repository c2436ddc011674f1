from queue import SimpleQueue
from threading import Event, get_ident
from types import SimpleNamespace

import numpy as np
import pytest

from fgrad.kernels import threads


@pytest.fixture
def three(monkeypatch):
    monkeypatch.setattr(threads, "get_num_threads", lambda: 3)


def test_parts_cover_everything_once(three):
    seen = np.zeros(1000, int)

    def kernel(out, lo, hi):
        out[lo:hi] += 1

    for count in (1, 2, 7, 1000):
        seen[:] = 0
        threads.share_by_queue(kernel, (seen,), count, 3, 1)
        assert (seen[:count] == 1).all()
        assert not seen[count:].any()


def test_little_work_stays_in_one_thread(three):
    calls = []

    def loop(lo, hi):
        calls.append((lo, hi))

    loop.is_native = False
    threads.share(loop, (), 100, threads.ELEMENTS)
    assert calls == [(0, 100)]
    threads.share(loop, (), 100, 10 * threads.ELEMENTS)
    assert len(calls) > 3  # Python's threads, where it is not machine code
    assert sorted(i for lo, hi in calls[1:] for i in range(lo, hi)) == list(range(100))


def test_pieces_cover_the_range_and_grow_smaller():
    for count, parts, least in ((1, 2, 1), (1000, 2, 1), (1000, 3, 50), (10, 8, 4), (10**6, 2, 32768)):
        pieces = threads._cut(count, parts, least)
        assert [i for lo, hi in pieces for i in (lo, hi)][1:-1:2] == [lo for lo, _ in pieces[1:]]
        assert (pieces[0][0], pieces[-1][1]) == (0, count)
        lengths = [hi - lo for lo, hi in pieces]
        assert lengths == sorted(lengths, reverse=True)
        assert min(lengths[:-1], default=least) >= least


def test_a_worker_that_does_not_wake_up_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(threads, "get_num_threads", lambda: 2)
    asleep = SimpleQueue()
    monkeypatch.setattr(threads, "_jobs", lambda: asleep)
    seen = np.zeros(1000, int)

    def kernel(out, lo, hi):
        out[lo:hi] += 1

    threads.share_by_queue(kernel, (seen,), 1000, 2, 100)
    assert (seen == 1).all()
    late = asleep.get()
    late.help()
    assert (seen == 1).all()
    assert late.args == ()  # arrays are not kept alive for it


def test_errors_of_workers_reach_the_caller_after_all_pieces_have_ended(three):
    caller, started, inside, ended = get_ident(), Event(), Event(), []

    def kernel(lo, hi):
        if get_ident() == caller:
            inside.set()
            assert started.wait(60)
            ended.append((lo, hi))
            return
        started.set()
        assert inside.wait(60)  # without it, the loop may end before the caller takes a piece
        raise ValueError(f"piece {lo}")

    with pytest.raises(ValueError, match="piece"):
        threads.share_by_queue(kernel, (), 9, 3, 1)
    assert ended


def test_an_error_of_the_caller_ends_the_loop_after_the_pieces_that_workers_took(three):
    caller, running, released = get_ident(), Event(), Event()
    ended = []

    def kernel(lo, hi):
        if get_ident() == caller:
            assert running.wait(60)
            released.set()
            raise KeyError(lo)
        running.set()
        assert released.wait(60)
        ended.append(lo)

    with pytest.raises(KeyError):
        threads.share_by_queue(kernel, (), 100, 3, 1)
    before = list(ended)
    assert before
    threads.share_by_queue(lambda lo, hi: None, (), 100, 3, 1)
    assert ended == before  # nobody went on with the first loop


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_what_a_handler_raises_comes_after_the_last_piece(error):
    loop, waits = threads._Shared(lambda *_: None, (), []), []
    loop.entered.append(None)  # of a worker that writes to the caller's arrays

    def get(timeout):
        waits.append(timeout)
        if len(waits) == 1:
            raise error
        loop.left.append(None)

    loop.signal = SimpleNamespace(get=get)
    with pytest.raises(error):
        loop.end()
    assert len(waits) == 2
