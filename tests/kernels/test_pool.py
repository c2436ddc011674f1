"""Loops that machine code shares: every piece once, and nobody waits for who does not come."""

import itertools
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fgrad.kernels import native, threads
from fgrad.kernels import pool as module
from fgrad.kernels.functions import compiled
from fgrad.kernels.pool import BUSY, GATE, ThreadPool

pytestmark = pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")

COUNTING = """
SIGNATURE = types.void(types.Array(types.float64, 1, "C"), types.uintp, types.uintp)


@typed(SIGNATURE)
def kernel(out, lo, hi):
    for i in range(lo, hi):
        out[i] += 1 + math.sin(out[i])
"""


@pytest.fixture(scope="module")
def loop():
    return compiled(COUNTING)


@pytest.fixture
def started():
    """Return what makes a pool and starts it, until the test has ended."""
    pools = []

    def start(parts):
        pools.append(pool := ThreadPool(parts))
        pool.start()
        return pool

    yield start
    for pool in pools:
        pool.stop()


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(1e-3)
    assert condition()


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_pieces_cover_everything_once(loop, started, parts):
    pool = started(parts)
    for count in (1, 2, 63, 64, 65, 1000, 100_001):
        seen = np.zeros(count + 1)
        pool.wake()
        loop.share((seen,), count, pool.queue)
        assert (seen[:count] == 1).all()
        assert seen[count] == 0


def test_results_are_those_of_one_thread_and_of_the_queue(loop):
    start = np.random.default_rng(0).standard_normal(200_000)
    alone, shared, queued = start.copy(), start.copy(), start.copy()
    loop(alone, 0, start.size)
    threads.share(loop, (shared,), start.size, start.size)
    threads.share_by_queue(loop, (queued,), start.size, 2, 1000)
    np.testing.assert_array_equal(alone, shared)
    np.testing.assert_array_equal(alone, queued)


def test_a_pool_that_never_comes_holds_nobody_up(loop):
    seen = np.zeros(1000)
    loop.share((seen,), 1000, ThreadPool(3).queue)  # its workers were not started
    assert (seen == 1).all()


def test_who_helps_takes_pieces_and_leaves_when_there_is_nothing(loop):
    pool = ThreadPool(2)  # this thread is its worker
    helped = pool._code.help(pool.queue, 10)
    assert helped == 0
    seen, rounds = np.zeros(100), 0
    with ThreadPoolExecutor(1) as others:
        while not helped:  # until the loops of the other thread have come to pass meanwhile
            run = others.submit(lambda: [loop.share((seen,), 100, pool.queue) for _ in range(5000)])
            while not run.done():
                helped += pool._code.help(pool.queue, 100_000)
            rounds += 5000
    np.testing.assert_array_equal(seen > 0, True)
    before = np.zeros(100)
    for _ in range(rounds):
        loop(before, 0, 100)
    np.testing.assert_array_equal(seen, before)
    assert not pool._words[[GATE, BUSY]].any()


def test_workers_sleep_when_there_is_nothing_to_do_and_wake_up(monkeypatch):
    left, pool = [], ThreadPool(3)
    monkeypatch.setattr(pool, "_leave_core", lambda: left.append(None))
    pool.start()
    for turn in range(3):
        wait_until(lambda: len(pool._sleeping) == 2)
        assert len(left) == 2 * turn
        pool.wake()
        wait_until(lambda: len(left) == 2 * turn + 2)
    pool.stop()


def test_a_stopped_pool_has_no_threads_and_loops_run_alone(loop):
    others = set(threading.enumerate())
    pool = ThreadPool(3)
    pool.start()
    workers = set(threading.enumerate()) - others
    assert len(workers) == 2
    pool.stop()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()
    seen = np.zeros(1000)
    loop.share((seen,), 1000, pool.queue)
    assert (seen == 1).all()


def test_an_interrupted_start_leaves_no_workers(monkeypatch):
    made = []

    class Interrupted(threading.Thread):
        def start(self):
            super().start()
            made.append(self)
            if len(made) == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(module, "Thread", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        ThreadPool(4).start()
    assert len(made) == 2
    for worker in made:
        worker.join(60)
        assert not worker.is_alive()


def test_where_there_can_be_no_more_threads_loops_run_with_those_there_are(loop, monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module.Thread, "start", refuse)
    pool = ThreadPool(4)
    pool.start()
    seen = np.zeros(1000)
    pool.wake()
    loop.share((seen,), 1000, pool.queue)
    assert (seen == 1).all()


def rests_of_a_worker(monkeypatch, took):
    """Return how long a worker stays away each of eight times, if each took so long and it never ran."""
    rests, slept, others = [], [], {t.ident for t in threading.enumerate()}
    pool, steps = ThreadPool(2), defaultdict(itertools.count)  # of other pools workers may be about to end
    monkeypatch.setattr(module, "thread_time", lambda: 0.0)
    monkeypatch.setattr(module, "perf_counter", lambda: took * next(steps[threading.get_ident()]))
    monkeypatch.setattr(
        module, "sleep", lambda s: rests.append(s) if threading.get_ident() not in others else None
    )
    monkeypatch.setattr(pool, "_leave_core", lambda: slept.append(None))
    pool.start()
    for turn in range(8):
        wait_until(lambda: pool._sleeping and len(slept) == turn)
        pool.wake()
    wait_until(lambda: len(slept) == 8)
    pool.stop()
    return rests[:8]


def test_a_worker_that_loses_its_core_stays_away_for_longer_and_longer(monkeypatch):
    rests = rests_of_a_worker(monkeypatch, 2 * module.PATIENCE)
    np.testing.assert_allclose(rests, module.REST * np.array([1, 2, 4, 8, 16, 32, 64, 64]))


def test_a_worker_that_waits_for_the_interpreter_does_not_stay_away(monkeypatch):
    assert rests_of_a_worker(monkeypatch, 0.9 * module.PATIENCE) == []


def test_many_threads_at_once(loop, started):
    pool = started(2)

    def work(_):
        for count in (3000, 70, 1):
            seen = np.zeros(count)
            pool.wake()
            loop.share((seen,), count, pool.queue)
            if not (seen == 1).all():
                return False
        return True

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as others:
            assert all(others.map(work, range(400)))
    finally:
        sys.setswitchinterval(interval)


PROGRAM = f"""
import faulthandler, os, sys, threading
faulthandler.dump_traceback_later(100, exit=True)  # says where it hangs
import numpy as np
from fgrad.kernels import pool, threads
from fgrad.kernels.functions import compiled

loop, start = compiled({COUNTING!r}), np.random.default_rng(0).standard_normal(200_000)
def run():
    seen = start.copy()
    threads.share(loop, (seen,), seen.size, seen.size)
    return seen
expected = start.copy()
loop(expected, 0, start.size)
assert (run() == expected).all()
names = [t.name for t in threading.enumerate()]
assert names.count("fgrad") == int(sys.argv[1]), names
"""
FORK = """
mine = pool.pool()
stop = threading.Event()
def work():
    while not stop.is_set():
        run()
busy = threading.Thread(target=work)
busy.start()
for _ in range(10):
    child = os.fork()
    if not child:
        ok = all((run() == expected).all() for _ in range(3))
        os._exit(0 if ok and pool.pool() is not mine and len(pool.pool()._bells) <= 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
busy.join()
"""


def finish(program, count):
    env = {**os.environ, "FGRAD_NUM_THREADS": str(count + 1)}
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, str(count)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("count", [0, 2])
def test_as_many_workers_as_there_are_other_cores(count):
    finish(PROGRAM, count)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_fork_has_workers_of_its_own():
    finish(PROGRAM + FORK, 1)


INTERRUPTED = """
import _thread, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let what runs in the background ignore it
for k in range(40):
    timer, seen = threading.Timer(0.0005 * (k % 7), _thread.interrupt_main), np.zeros(200_000)
    try:
        timer.start()
        while True:
            seen[:] = 0
            threads.share(loop, (seen,), seen.size, seen.size)
    except KeyboardInterrupt:
        kept = seen.copy()
    timer.join()
    time.sleep(0.001)
    assert (seen == kept).all(), "somebody still writes"
    assert (kept == kept[0]).all(), "half a loop"
assert (run() == expected).all()
"""


def test_an_interrupt_comes_after_the_loop_that_is_shared():
    finish(PROGRAM + INTERRUPTED, 2)


EXITING = """
import time
def work():
    while True:
        run()
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.02)
"""


def test_the_interpreter_ends_while_daemon_threads_share_loops():
    finish(PROGRAM + EXITING, 2)


AT_EXIT = """
import atexit, fgrad as fg
atexit.register(lambda: fg.grad(lambda x: fg.numpy.sum(fg.numpy.exp(x)))(start))
class Late:
    def __del__(self):
        assert (run() == expected).all()
late = Late()
late.again = late
"""


def test_loops_are_shared_while_the_interpreter_ends():
    finish(PROGRAM + AT_EXIT, 2)


NESTED = """
import fgrad as fg
from fgrad import numpy as fnp
def inner(x):
    return np.asarray(fnp.tanh(np.asarray(x)) + run()[:1])
def outer(x):
    return fnp.exp(fg.pure_callback(inner, x, x)) * 2
x = np.linspace(-1, 1, 200_000)
wanted = np.exp(np.tanh(x) + expected[:1]) * 2
for _ in range(3):
    assert np.allclose(fg.jit(outer)(x), wanted)
found = []
def kernel(out, lo, hi):
    out[lo:hi] += run()[0]
seen = np.zeros(100)
threads.share_by_queue(kernel, (seen,), 100, 3, 10)
assert (seen == expected[0]).all()
"""


def test_loops_within_callbacks_and_loops():
    finish(PROGRAM + NESTED, 2)
