"""The kernels of CUDA, in Numba's simulator, or on the device where NUMBA_ENABLE_CUDASIM=0."""

import os
import subprocess
import sys
import time
from operator import attrgetter
from threading import Thread

import numpy as np
import pytest
from tests.helpers import switching_every

from fgrad.compat import numba
from fgrad.errors import BrokenContractError
from fgrad.kernels import launching

COPY = """CONTRACT = "n <= len(a0), n <= len(o0)"


def kernel(a0, o0, n):
    i = np.int64(cuda.grid(1))
    while i < n:
        o0[i] = a0[i]
        i += cuda.gridsize(1)
"""


@pytest.fixture(autouse=True)
def quick_switching():
    """Let the threads of a simulated block meet without waiting for Python's usual 5 ms."""
    with switching_every(1e-4):
        yield


def test_a_launch_that_breaks_the_contract_does_not_run():
    out = np.zeros(3)
    launch = launching.compiled(COPY, ("float64", "float64"), 1)
    with pytest.raises(BrokenContractError, match=r"it asks for n <= len\(o0\), but n = 4"):
        launch([np.ones(4), out], [4], 1, 4)
    assert (out == 0).all()
    launch([np.ones(4), out], [3], 1, 4)
    assert (out == 1).all()


def test_without_a_device_the_message_says_what_to_do(monkeypatch):
    module = launching.device().cuda
    monkeypatch.setattr(module.jit, "__module__", "numba.cuda.decorators")
    monkeypatch.setattr(module, "is_available", lambda: False)
    monkeypatch.setattr(module, "cuda_error", lambda: "no driver.\n", raising=False)
    launching.device.cache_clear()
    try:
        with pytest.raises(RuntimeError) as caught:
            launching.device()
    finally:
        launching.device.cache_clear()
    assert str(caught.value) == (
        "CUDA needs an NVIDIA GPU that can be used here, and there is none: Numba finds none (no driver. ). "
        "On a machine with a GPU and its driver, install the extra for CUDA 13: pip install 'fgrad[cuda]'. "
        "Without a GPU, set NUMBA_ENABLE_CUDASIM=1 before Python starts to simulate one, slowly, or keep to "
        "device='cpu'"
    )


def test_numba_without_cuda(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba.cuda", None)
    monkeypatch.delattr("numba.cuda", raising=False)
    launching.device.cache_clear()
    try:
        with pytest.raises(
            RuntimeError, match=r"there is none: .*numba.cuda.*install the extra for CUDA 13: pip install"
        ):
            launching.device()
    finally:
        launching.device.cache_clear()


def test_numpy_lends_numba_a_name_that_it_lacks(monkeypatch):
    monkeypatch.delattr(np, "row_stack", raising=False)
    seen = []
    monkeypatch.setattr(numba, "import_module", lambda _: seen.append(attrgetter("row_stack")(np)))
    numba.let_cuda_load(lend=True)
    assert seen == [np.vstack]
    assert not hasattr(np, "row_stack")
    with pytest.raises(AttributeError, match="row_stack"):
        numba.let_cuda_load(lend=False)


def test_numba_that_does_not_fit_to_numpy_is_named(monkeypatch):
    def load(*, lend):
        raise AttributeError("module 'numpy' has no attribute 'newer'")

    module = launching.device().cuda
    monkeypatch.setattr(module.jit, "__module__", "numba.cuda.decorators")
    monkeypatch.setattr(module, "is_available", lambda: True)
    monkeypatch.setattr(launching, "let_cuda_load", load)
    launching.device.cache_clear()
    try:
        with pytest.raises(RuntimeError, match=r"numba-cuda does not work with NumPy \d.*newer.*pip install"):
            launching.device()
    finally:
        launching.device.cache_clear()


def _simulator_missed():
    """Return whether something imported `numba.cuda` for a device before conftest.py chose the simulator."""
    module = sys.modules.get("numba.cuda")
    return module and os.environ["NUMBA_ENABLE_CUDASIM"] == "1" and "simulator" not in module.jit.__module__


if _simulator_missed():
    for name in [n for n in globals() if n.startswith("test_")]:
        del globals()[name]

    def test_in_a_fresh_process():
        subprocess.run([sys.executable, "-m", "pytest", "-q", __file__], check=True)


@pytest.mark.skipif(os.environ["NUMBA_ENABLE_CUDASIM"] != "1", reason="nothing is simulated")
def test_threads_of_a_simulated_block_share_one_array(monkeypatch):
    from numba.cuda.simulator import kernelapi

    launching.device()
    shared, made, empty = kernelapi.FakeCUDAShared(0), [], np.empty
    monkeypatch.setattr(np, "empty", lambda *args: (time.sleep(0.02), empty(*args))[1])
    threads = [Thread(target=lambda: made.append(shared.array(4, np.float64))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(a) for a in made}) == 1
