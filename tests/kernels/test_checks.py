"""Kernels that check every load and store (`FGRAD_CHECK=1`), and arrays beside pages that end the process."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from tests.guarded import FAMILIES

from fgrad.kernels import checks

PROBE = """
import numpy as np
import fgrad as fg
from fgrad.kernels import checks, convolution, functions, vm, native, threads

def said(f, *args):
    try:
        f(*args)
    except RuntimeError as error:
        print(str(error).partition(": ")[2].partition("(")[2])
    except IndexError as error:
        print(error)
    else:
        print("nothing")

typed = functions.compiled('''
OUT = types.Array(types.float32, 2, "C")


@typed(types.void(OUT, types.int64, types.int64, types.uintp, types.uintp))
def kernel(out, i, j, lo, hi):
    for k in range(lo, hi):
        out[i, j + np.int64(k)] = np.float32(1.0)
''')
out = np.zeros((3, 4), np.float32)
typed(out, 1, 0, 0, 4)
said(typed, out, 1, 0, 0, 5)
said(typed, out, 3, 0, 0, 1)
said(typed, out, -4, 0, 0, 1)
threads.share(functions.compiled('''
OUT = types.Array(types.float64, 1, "C")


@typed(types.void(OUT, types.uintp, types.uintp))
def kernel(out, lo, hi):
    for k in range(lo, hi):
        out[k] = 1.0
'''), (np.zeros(100_000),), 100_000, 100_000)
local = functions.compiled('''
OUT = types.Array(types.float64, 1, "C")


@typed(types.void(OUT, types.int64))
def kernel(out, n):
    own = np.empty(8, np.float64)
    for k in range(n):
        own[k] = 1.0
    out[0] = own[0]
''')
said(local, np.zeros(1), 9)

def run(text, arrays, *numbers, hi=1):
    slots = checks.addresses(arrays)
    vm.call(native.compiled(text), np.array(numbers, np.int64), slots, 0, hi)

said(run, '''
def kernel(slots, args, lo, hi):
    x, y = alone(float64_at(slots, args, 0)), int8_at(slots, args, 1)
    y = part(y, args[2])
    for i in range(lo, hi):
        y[i] = np.int8(x[i])
''', (np.zeros(4), np.zeros(4, np.int8)), 0, 1, 2)
said(lambda: run('''
def kernel(slots, args, lo, hi):
    x, y = alone(float64_at(slots, args, 0)), int8_at(slots, args, 1)
    y = part(y, args[2])
    for i in range(lo, hi):
        y[i] = np.int8(x[i])
''', (np.zeros(4), np.zeros(4, np.int8)), 0, 1, 2, hi=3))
program = vm.Assembler()
program.view(2, 0, 16)
program.copy(2, 1, 16)
slots = checks.addresses([np.zeros(3), np.ones(2), None])
said(vm.call, vm.interpreter(program), program.words, slots, 0, len(program))
scratch = checks.Scratch(100, 64)
scratch.look()
outside = np.ndarray(101, np.uint8, scratch._whole, scratch.memory.ctypes.data - scratch._whole.ctypes.data)
outside[100] = 0
try:
    scratch.look()
except RuntimeError as error:
    print(error)
x = np.linspace(-1, 1, 300).reshape(20, 15)
f = fg.jit(lambda x: np.sum(np.tanh(x @ x.T)) + np.max(np.cumsum(x, 1)))
values = [f(x) for _ in range(4)] + [fg.jit(fg.grad(f))(x).sum() for _ in range(3)]
print(np.ptp(values[:4]), np.ptp(values[4:]))
"""
SAID = """\
out, i, j, lo, hi): out[i, j + np.int64(k)]: 4 is outside of 4
out, i, j, lo, hi): out[i, j + np.int64(k)]: 3 is outside of 3
out, i, j, lo, hi): out[i, j + np.int64(k)]: -1 is outside of 3
out, n): own[k]: 8 is outside of 8
nothing
slots, args, lo, hi): y[i]: 2 is outside of 4
slots, args, lo, hi): copy(slots, words[1], words[2], words[3]): 16 is outside of 24
something was written behind the scratch memory of a program
0.0 0.0
"""


def run(*args, **variables):
    """Run Python in another process, with a cache that it shares with the others."""
    environment = os.environ | {"PYTHONFAULTHANDLER": ""} | variables
    return subprocess.run(
        [sys.executable, *args], capture_output=True, text=True, env=environment, timeout=280, check=False
    )


def test_every_access_is_checked_and_named(tmp_path):
    folder = str(tmp_path / "cache")
    for _ in range(2):  # compiled, and from the cache
        done = run("-c", PROBE, FGRAD_CHECK="1", FGRAD_CACHE_DIR=folder)
        assert (done.stdout, done.stderr) == (SAID, "")


def test_words_of_slots_begin_with_the_address():
    arrays = [np.zeros(3), None, np.ones(2)]
    words = checks.addresses(arrays).reshape(3, checks.WORDS)
    assert words[:, 0].tolist() == [arrays[0].ctypes.data, 0, arrays[2].ctypes.data]
    assert (words[1] == 0).all()
    assert checks.Scratch(100, 64).memory.ctypes.data % 64 == 0


@pytest.mark.skipif(sys.platform != "linux", reason="pages are mapped as on Linux")
@pytest.mark.parametrize("where", ["before", "behind"])
def test_pages_end_a_process_that_goes_one_element_too_far(where):
    done = run("-m", "tests.guarded", "--overrun", where, FGRAD_CHECK="0")  # or the kernel says so first
    assert (done.stdout, done.returncode) == ("inside\n", -signal.SIGSEGV)


@pytest.mark.skipif(sys.platform != "linux", reason="pages are mapped as on Linux")
@pytest.mark.parametrize("family", FAMILIES)
def test_no_kernel_leaves_its_arrays(family):
    """Nor where they do not belong together: then it is not run, or runs inside of them."""
    done = run("-m", "tests.guarded", family, "--count", "300")
    assert done.returncode == 0, f"{family} ended in {done.stdout}{done.stderr}"
    assert "all inside" in done.stdout
