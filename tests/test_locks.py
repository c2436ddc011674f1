"""What is made once is made once, and a child process finds free locks, and nothing half made."""

import functools
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.helpers import together

import fgrad
from fgrad import locks
from fgrad.compat import cpython

forks = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")


@pytest.fixture(autouse=True)
def survive_forks():
    """Let children be looked after, as where anything has been made once."""
    locks.survive_forks()


def slowly(made, x=None):
    time.sleep(0.02)
    made.append(x)
    return [x]


def test_once_gives_all_threads_one_result():
    made = []
    make = locks.once(functools.partial(slowly, made))
    first = together(lambda: make(1))
    assert len({id(x) for x in first}) == 1
    assert made == [1]
    assert make(2) == [2]
    assert make(2) is make(2)
    assert made == [1, 2]


def test_once_makes_again_what_failed():
    answers = iter([None, 5])

    @locks.once
    def make():
        answer = next(answers)
        if answer is None:
            raise KeyError
        return answer

    with pytest.raises(KeyError):
        make()
    assert make() == 5


def test_a_lazy_property_is_computed_by_one_thread():
    made = []

    class Owner:
        @locks.lazy
        def value(self):
            """What it is."""
            return slowly(made, self)

    owner = Owner()
    assert len({id(x) for x in together(lambda: owner.value)}) == 1
    assert made == [owner]
    assert Owner().value is not owner.value
    assert Owner.value.__doc__ == "What it is."


def in_child(check):
    """Return whether a check holds in a child process, where it may take ten seconds."""
    child = os.fork()
    if not child:
        done = threading.Thread(target=lambda: os._exit(0 if check() else 1), daemon=True)
        done.start()
        done.join(10)
        os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Holder:
    """A thread that holds a lock until it is told otherwise."""

    def __init__(self, lock):
        self.held, self.enough = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.work, args=(lock,))

    def work(self, lock):
        with lock:
            self.held.set()
            self.enough.wait(60)

    def __enter__(self):
        self.thread.start()
        assert self.held.wait(60)
        return self

    def __exit__(self, *error):
        self.enough.set()
        self.thread.join()


def takes(lock):
    taken = lock.acquire(timeout=5)
    if taken:
        lock.release()
    return taken


def test_every_lock_is_one_that_forks_know():
    source = Path(fgrad.__file__).parent
    made = re.compile(r"(?<![\w.])(?:threading\.)?R?Lock\(\)|@(?:functools\.)?cached_property")
    files = [p for p in source.rglob("*.py") if made.search(p.read_text("utf-8"))]
    found = {str(p.relative_to(source).as_posix()) for p in files}
    assert found == {
        "locks.py",
        "compat/cpython.py",  # makes those of `locks`
        "compat/numba.py",  # of one launch in the simulator
        "kernels/pool.py",  # what workers sleep on, of which a child has none
    }


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks where there are threads
def test_a_child_finds_locks_free_that_other_threads_hold():
    with Holder(locks.making), Holder(own := locks.lock()):
        assert in_child(lambda: takes(locks.making) and takes(own))
        assert not locks.making.acquire(blocking=False)
    assert takes(locks.making)


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_who_forks_while_holding_a_lock_releases_it_twice():
    def release():
        locks.making.release()
        free = []
        other = threading.Thread(target=lambda: free.append(takes(locks.making)))
        other.start()
        other.join()
        return free == [True]

    locks.making.acquire()
    child = os.fork()
    if not child:
        os._exit(0 if release() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert release()


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_made_per_process_is_made_again_in_a_child():
    made = locks.per_process(lambda: [os.getpid()])
    assert together(made) == [[os.getpid()]] * 8
    assert made() is made()
    assert in_child(lambda: made() == [os.getpid()])


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["llvmlite.binding", "numba.core.compiler_lock"])
def test_a_fork_waits_for_compilers(name):
    pytest.importorskip(name)
    (holder,) = [h for h in locks._foreign() if type(h).__module__.startswith(name)]
    other = Holder(holder._lock)
    with other:
        threading.Timer(0.2, other.enough.set).start()
        started = []
        assert in_child(lambda: not other.thread.is_alive() and takes(holder._lock) and not started)
        assert other.enough.is_set()
    assert takes(holder._lock)


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_does_not_wait_for_ever_for_numba(monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(locks, "LIMIT", 0.1)
    (holder,) = [h for h in locks._foreign() if type(h).__module__.startswith("numba")]
    with Holder(holder._lock):
        assert in_child(lambda: takes(holder._lock))
    assert takes(holder._lock)


IMPORTING = """
import os, sys, threading, time
import fgrad
fgrad.jit  # from what is loaded late on, forks are looked after
sys.path.insert(0, sys.argv[1])
started = threading.Event()
def work():
    started.set()
    import optree
threading.Thread(target=work).start()
started.wait()
time.sleep(0.05)
child = os.fork()
if not child:
    threading.Timer(20, os._exit, [2]).start()
    import optree
    os._exit(0 if optree.value == 5 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@forks
def test_a_fork_waits_for_imports(tmp_path):
    (tmp_path / "optree.py").write_text("import time\ntime.sleep(0.5)\nvalue = 5\n")
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORTING, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout.strip() == "0", ran.stderr


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_interrupted_wait_leaves_no_lock_behind(monkeypatch):
    pytest.importorskip("llvmlite.binding")

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cpython, "others_import", interrupted)
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    assert in_child(lambda: all(takes(h._lock) for h in locks._foreign()))
    monkeypatch.undo()
    free = together(lambda: all(takes(h._lock) for h in locks._foreign()), 1)
    assert free == [True]
