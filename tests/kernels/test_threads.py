import numpy as np
import pytest

from fgrad.kernels import threads


@pytest.fixture
def three(monkeypatch):
    monkeypatch.setattr(threads, "_threads", lambda: 3)


def test_parts_cover_everything_once(three):
    seen = np.zeros(1000, int)

    def kernel(out, lo, hi):
        out[lo:hi] += 1

    for count in (1, 2, 7, 1000):
        seen[:] = 0
        threads.share(kernel, (seen,), count, 10 * threads.ELEMENTS)
        assert (seen[:count] == 1).all()
        assert not seen[count:].any()


def test_little_work_stays_in_one_thread(three):
    calls = []
    threads.share(lambda lo, hi: calls.append((lo, hi)), (), 100, threads.ELEMENTS)
    assert calls == [(0, 100)]


def test_errors_of_workers_reach_the_caller_after_all_parts_have_ended(three):
    ended = []

    def kernel(lo, hi):
        if lo:
            raise ValueError(f"part {lo}")
        ended.append(lo)

    with pytest.raises(ValueError, match="part"):
        threads.share(kernel, (), 9, 10 * threads.ELEMENTS)
    assert ended == [0]
