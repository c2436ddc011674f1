import itertools
import re
import subprocess
import sys
import threading
import time

import pytest
from tests.helpers import optimised

from fgrad.compat import llvmlite
from fgrad.kernels import compilation, native

TEXT = """
def kernel(slots, args, lo, hi):
    x, out = float64_at(slots, args, 0), float64_at(slots, args, 1)
    for i in range(lo, hi):
        a = x[i]
{lines}
        out[i] = a
"""
LIMITED = """
import resource, sys
import llvmlite.binding
import fgrad
from fgrad.kernels import compilation, native
text = sys.argv[1]
assert compilation.compiled(text.format(lines=""), "kernel")  # what LLVM needs once it has
pages = int(open("/proc/self/statm").read().split()[0])
free = int(sys.argv[2]) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + free, resource.RLIM_INFINITY))
lines = "\\n".join(f"        a = a * x[i] + math.sin(a) / {k}.5" for k in range(int(sys.argv[3])))
try:
    print(compilation.compiled(text.format(lines=lines), "kernel") is not None)
except MemoryError as error:
    print(error or "MemoryError")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads how much memory a process has from /proc")
@pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")
@pytest.mark.parametrize("free, lines", [(1, 1), (8, 20), (12, 100), (300, 20)])
def test_want_of_memory_is_an_error_and_not_the_end_of_the_process(free, lines):
    command = [sys.executable, "-W", "ignore", "-c", LIMITED, TEXT, str(free), str(lines)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "True" if free == 300 else "which this process cannot allocate" in ran.stdout


def test_what_nobody_can_have_is_refused():
    with pytest.raises(MemoryError, match="cut the function into smaller ones"):
        compilation.demand_memory(2**62)
    compilation.demand_memory(0)


@pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")
@pytest.mark.parametrize("where", ["__enter__", "__exit__"])
def test_an_interrupt_between_functions_of_llvm_leaves_its_lock_free(monkeypatch, where):
    """CPython looks for signals where llvmlite's own functions begin, with the lock taken."""
    from llvmlite import binding

    lock = binding.ffi.lib._lock
    theirs = getattr(type(lock), where)

    def interrupted(self, *error):
        monkeypatch.setattr(type(lock), where, theirs)
        if where == "__enter__":
            theirs(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(lock), where, interrupted)
    with pytest.raises(KeyboardInterrupt):
        compilation.compiled(TEXT.format(lines=f"        a = a + {where == '__exit__'}"), "kernel")
    made = []
    other = threading.Thread(
        target=lambda: made.append(compilation.compiled(TEXT.format(lines=""), "kernel")), daemon=True
    )
    other.start()
    other.join(60)
    assert made


TEXTS = [TEXT.format(lines="        a = a * 1.5\n" * k) for k in range(1, 7)]


def machine_code(count):
    """Return the machine code of all `TEXTS`, which are compiled in so many threads."""
    with compilation.CompilerThreads(count) as threads:
        for text in TEXTS:
            threads.give(text, "kernel")
        made = dict(threads.take() for _ in TEXTS)
    return [made[text].code for text in TEXTS]


def compilers():
    return [t for t in threading.enumerate() if t.name == "fgrad compiler"]


@pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")
@pytest.mark.parametrize("how", ["2", "8", "no threads", "LLVM's lock"])
def test_several_at_a_time_are_as_one_by_one(how, monkeypatch):
    if how == "no threads":

        def start(self):
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", start)
    if how == "LLVM's lock":
        monkeypatch.setenv("FGRAD_PRIVATE", "0")
        assert llvmlite.unlocked("LLVMPY_RunNewModulePassManager") is None
    else:
        assert llvmlite.unlocked("LLVMPY_RunNewModulePassManager") is not None
    found = machine_code(8 if how == "8" else 2)
    assert found == [compilation.compiled(text, "kernel").code for text in TEXTS]
    assert not compilers()


@pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")
@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt(), MemoryError()])
def test_what_fails_among_several_is_said_and_the_rest_dropped(error, monkeypatch):
    made, count = llvmlite.object_file, itertools.count()

    def failing(*args):
        if next(count) == 2:
            raise error
        return made(*args)

    monkeypatch.setattr(llvmlite, "object_file", failing)
    with pytest.raises(type(error)):
        machine_code(2)
    assert not compilers()
    assert len(machine_code(2)) == len(TEXTS)


@pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")
def test_who_is_interrupted_waits_for_llvm_alone(monkeypatch):
    improve, begun, done = llvmlite.optimise, [], []

    def slow(*args):
        begun.append(0)
        time.sleep(0.1)
        improve(*args)
        done.append(0)

    monkeypatch.setattr(llvmlite, "optimise", slow)
    with pytest.raises(KeyboardInterrupt), compilation.CompilerThreads(2) as threads:
        for text in TEXTS:
            threads.give(text, "kernel")
        threads.take()
        raise KeyboardInterrupt
    assert len(begun) == len(done) < len(TEXTS)
    assert not compilers()


def test_turns_of_a_loop_are_written_out_where_the_text_says_so():
    text = """
def kernel(slots, args, lo, hi):
    x, step = float64_at(slots, args, 0), np.uintp(args[1])
    for i in {}:
        x[i * step] = math.sqrt(x[i * step * step])
"""

    def roots(bounds):
        written = compilation.assembly(text.format(bounds), "kernel", "x")
        made = optimised(written)
        return len(re.findall(r"= .*double @llvm\.sqrt\.f64\(", made))

    assert roots("range(lo, hi)") == roots("range(np.uintp(3))") == 1
    assert roots("unrolled(np.uintp(3))") == 3
    assert roots("unrolled(lo, hi)") == roots("unrolled(hi)") == 8 + 1  # eight at a time, and the rest
