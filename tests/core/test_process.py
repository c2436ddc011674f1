"""What fgrad changes in its process: nothing on import, little at first need, and that only if it may."""

from __future__ import annotations

import gc
import itertools
import os
import platform
import subprocess
import sys
from contextlib import ExitStack

import numpy as np
import pytest

import fgrad as fg
from fgrad.core import process

# what a process is like, by kind of state
STATE = """
import atexit, copyreg, gc, linecache, locale, os, random, signal, sys, threading, warnings
import numpy as np

def state():
    tasks = os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else []
    handlers = {s: signal.getsignal(s) for s in signal.valid_signals()}
    return {
        "environment": dict(os.environ),
        "importing": [*sys.meta_path, *sys.path_hooks, *sys.path],
        "filters": list(warnings.filters),
        "threads": (threading.active_count(), len(tasks)),
        "signals": handlers,
        "affinity": [os.sched_getaffinity(int(t)) for t in tasks],
        "NumPy": (np.geterr(), np.geterrcall(), np.get_printoptions(), str(np.random.get_state())),
        "hooks": (sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook, sys.gettrace()),
        "collector": (gc.isenabled(), gc.get_threshold(), list(gc.callbacks)),
        "limits": (sys.getrecursionlimit(), sys.getswitchinterval(), os.getcwd()),
        "locale": locale.setlocale(locale.LC_ALL),
        "exits": atexit._ncallbacks(),
        "pickling": dict(copyreg.dispatch_table),
        "random": random.getstate(),
        "texts": set(linecache.cache),
        "forks": list(forks),
    }

forks = []
register = os.register_at_fork
os.register_at_fork = lambda **kinds: (forks.append(kinds), register(**kinds))

def changed(before, after):
    return sorted(k for k in before if before[k] != after[k])
"""

PARTS = ("distributed", "extend", "jit", "lax", "nn", "plain_numpy", "scipy", "testing", "viz", "export")


def result(script: str, *args: str, **env: str) -> str:
    """Return what a script prints that knows `state` and `changed`."""
    inherited = {k: v for k, v in os.environ.items() if k != "FGRAD_PROCESS_EFFECTS"}
    made = subprocess.run(
        [sys.executable, "-c", STATE + script, *args],
        env=inherited | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not made.returncode, made.stderr
    return made.stdout.strip()


def test_an_import_changes_nothing_and_loads_no_library():
    loaded = result("""
before = set(sys.modules)
import fgrad
print(*sorted(set(sys.modules) - before))
""").split()
    others = [m for m in loaded if m.partition(".")[0] != "fgrad"]
    libraries = {m.partition(".")[0] for m in others} - sys.stdlib_module_names - {"numpy", "__mp_main__"}
    assert not libraries
    script = """
for name in sys.argv[1:]:
    __import__(name)
before = state()
import fgrad
print(changed(before, state()), len(forks))
"""
    quiet = result(script, *others)
    assert quiet.startswith("[] ")


def test_the_first_gradient_imports_no_module_that_takes_long():
    slow = {"asyncio", "concurrent.futures", "email", "hashlib", "importlib.metadata", "logging", "pathlib"}
    slow |= {"ctypes.util", "inspect", "platform", "socket", "tempfile", "urllib", "uuid", "zipfile"}
    found = result("""
import numpy as np
before = set(sys.modules)
import fgrad as fg
fg.grad(lambda x: np.sum(np.sin(x) * x))(np.ones(3))
print(*sorted(set(sys.modules) - before))
""").split()
    assert "fgrad" in found
    assert not slow & {*found}


def test_parts_that_load_late_change_how_the_process_forks_alone():
    found = result(
        """
import fgrad
ours = lambda: [f for f in forks if any(v.__module__.startswith("fgrad") for v in f.values())]
foreign = ("exits", "forks", "pickling", "filters")  # of what they import
for part in sys.argv[1:]:
    before = state()
    getattr(fgrad, part)
    print(*[k for k in changed(before, state()) if k not in foreign], end="")
print(len(ours()))
""",
        *PARTS,
    )
    assert found == "1"


USES = """
import logging, random, concurrent.futures.thread
forks.clear()
import fgrad as fg
before = state()
t = fg.tensor(2.0)
first = changed(before, state())
fg.grad(lambda x: np.sum(x**2))(np.ones(3))
f = fg.jit(lambda x: np.sin(x) * 2)
f(np.ones(3)), f(np.ones(300_000)), fg.nn.softmax(fg.tensor(np.ones(300_000)))
late = changed(before, state())
import scipy.sparse
print(first, [k for k in late if k not in ("threads", "affinity", "texts", "exits")],
      len(forks), "fgrad.scipy.products" in sys.modules)
"""


def test_the_first_tensor_prepares_the_process_and_nothing_else_changes():
    assert result(USES) == "['forks', 'importing'] ['forks', 'importing'] 1 True"


def test_one_setting_keeps_the_process_as_it_is():
    assert result(USES, FGRAD_PROCESS_EFFECTS="0") == "[] [] 0 False"


MEMORY = """
import resource
import fgrad as fg
if sys.argv[1] == "used":
    fg.tensor(1.0)
counts = []
for _ in range(6):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(10**6) for _ in range(int(sys.argv[2]))]
    del arrays
    counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(min(counts))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other rules")
def test_the_allocator_is_left_alone_until_there_is_a_tensor():
    assert int(result(MEMORY, "imported", "4")) > 10
    assert int(result(MEMORY, "used", "4", FGRAD_PROCESS_EFFECTS="0")) > 10
    assert int(result(MEMORY, "used", "4")) < 10
    assert int(result(MEMORY, "used", "20")) < 10  # more than glibc keeps by itself


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other rules")
@pytest.mark.parametrize(
    "setting",
    [{"MALLOC_TRIM_THRESHOLD_": "100000"}, {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=100000"}],
)
def test_who_says_what_the_allocator_keeps_is_heard(setting):
    assert int(result(MEMORY, "used", "20", **setting)) > 10


def test_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(process, "ctypes", None)
    process.keep_memory()


def test_a_simulator_that_may_not_be_mended_is_refused():
    script = """
from fgrad.kernels import launching
try:
    launching.device()
except RuntimeError as error:
    print(error)
"""
    said = result(script, NUMBA_ENABLE_CUDASIM="1", FGRAD_PROCESS_EFFECTS="0")
    assert "FGRAD_PROCESS_EFFECTS=0 keeps fgrad from patching Numba's CUDA simulator" in said


@pytest.fixture
def often():
    """The collector looks as often as is usual."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield 700, 10, 10
    gc.set_threshold(*before)


def test_the_collector_of_cycles_looks_less_often_while_something_is_traced(often, monkeypatch):
    seen = []

    def f(x):
        seen.append(gc.get_threshold())
        return fg.jit(lambda y: y * 2)(np.sin(x))

    fg.jit(f)(np.ones(3))
    assert seen == [(process.YOUNG, 10, 10)]
    assert gc.get_threshold() == often
    with pytest.raises(ZeroDivisionError):
        fg.jit(lambda x: x * (1 / 0))(np.ones(3))
    assert gc.get_threshold() == often
    monkeypatch.setenv("FGRAD_PROCESS_EFFECTS", "0")
    fg.jit(lambda x: f(x) + 1)(np.ones(3))
    assert seen[1] == often


@pytest.mark.parametrize("own", [(90, 5, 5), (0, 10, 10), (10**6, 10, 10)])
def test_who_says_how_often_the_collector_looks_is_heard(often, own):
    fg.jit(lambda x: (gc.set_threshold(*own), x * 2)[1])(np.ones(3))
    assert gc.get_threshold() == own
    fg.jit(lambda x: x * 3)(np.ones(3))
    assert gc.get_threshold() == own


def test_threads_that_trace_in_any_order_leave_the_collector_as_it_was(often):
    for order in itertools.permutations([0, 0, 1, 1, 2, 2]):
        inside = {}
        for k in order:
            if k in inside:
                inside[k].close()
            else:
                inside[k] = ExitStack()
                inside[k].enter_context(process.RarelyCollecting())
        assert gc.get_threshold() == often
