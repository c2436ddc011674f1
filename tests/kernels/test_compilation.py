import subprocess
import sys
import threading

import pytest

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
    assert (
        ran.stdout.strip() == "True" if free == 300 else "MiB, which this process cannot have" in ran.stdout
    )


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
