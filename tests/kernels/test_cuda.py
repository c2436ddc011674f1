"""The kernels of CUDA, in Numba's simulator, or on the device where NUMBA_ENABLE_CUDASIM=0."""

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest
from tests.kernels import reference
from tests.kernels.samples import X, Y, check_atoms

from fgrad.backend import devices
from fgrad.errors import BrokenContractError
from fgrad.expr.derive import gradient
from fgrad.expr.node import apply, const
from fgrad.kernels import cuda, launching

A = np.linspace(-2, 2, 24).reshape(2, 3, 4)
BODY = X * apply("tanh", Y) + X


@pytest.fixture(autouse=True)
def quick_switching():
    """Let the threads of a simulated block meet without waiting for Python's usual 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


def on_device(kernel):
    """Return a kernel for arrays of NumPy, which travel to the device and back."""

    def run(*operands):
        place = devices.find("cuda:0")
        found = kernel(*(x if isinstance(x, float) else place.array(x) for x in operands))
        return tuple(x.download() for x in found) if isinstance(found, tuple) else found.download()

    return run


def elementwise(params, results):
    return on_device(cuda.elementwise(params, results))


@pytest.mark.parametrize("shape", [(), (4,), (3, 1), (1, 3, 4), (2, 1, 1), (2, 3, 1), (2, 3, 4)])
def test_contracts_ask_for_the_elements_that_there_are_and_no_less(shape):
    whole, size = (2, 3, 4), int(np.prod(shape, dtype=int))
    sizes, strides = cuda._collapse(whole, [cuda._spread(shape, whole)])
    where = cuda._laid(sizes, strides[0])
    text = cuda.elementwise((X,), (X,))._text(np.dtype(float), len(sizes), [where])
    numbers = [24, *sizes[1:], *cuda._moving([where], strides)]
    launching.ask(text, [np.zeros(size), np.zeros(24)], numbers)
    for short in ([np.zeros(size - 1), np.zeros(24)], [np.zeros(size), np.zeros(23)]):
        with pytest.raises(BrokenContractError, match="would read or write outside"):
            launching.ask(text, short, numbers)
    if where.axes and not where.linear:
        with pytest.raises(BrokenContractError, match=">= 0"):
            launching.ask(text, [np.zeros(size), np.zeros(24)], [*numbers[:-1], -1])


def test_a_launch_that_breaks_the_contract_does_not_run():
    out = np.zeros(3)
    launch = launching.compiled(cuda.elementwise((X,), (X,)).text(), ("float64", "float64"), 1)
    with pytest.raises(BrokenContractError, match=r"it asks for n <= len\(o0\), but n = 4"):
        launch([np.ones(4), out], [4], 1, 4)
    assert (out == 0).all()
    launch([np.ones(4), out], [3], 1, 4)
    assert (out == 1).all()


@pytest.mark.parametrize("arity", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_atoms_and_slopes_agree_with_numpy(dtype, arity):
    check_atoms(SimpleNamespace(elementwise=elementwise), arity, dtype)


@pytest.mark.parametrize(
    "operands",
    [
        pytest.param((A, A), id="contiguous"),
        pytest.param((A, 0.5), id="float"),
        pytest.param((A, A[0, 0]), id="row"),
        pytest.param((A, A[0, :, :1]), id="column"),
        pytest.param((A[:, :1], A[:, :, :1]), id="both broadcast"),
        pytest.param((A[0, 0], A[0, :, :1]), id="outer product"),
        pytest.param((A[:1, :1, :1], A[:1, :1]), id="size 1"),
        pytest.param((A[:, None, :, None], A[:, :2, None, None, :1]), id="rank 5"),
        pytest.param((A.astype("f"), A[0].astype("f")), id="float32"),
    ],
)
def test_operands_of_every_kind(operands):
    actual, expected = (f((X, Y), (BODY,))(*operands) for f in (elementwise, reference.elementwise))
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(actual, expected, rtol=32 * float(np.finfo(actual.dtype).eps), atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_any_block_covers_all_elements(threads):
    kernel = on_device(cuda.Elementwise(cuda.prepare((X,), (X + 1,)), threads))
    for n in (1, 7, 8, 50):
        np.testing.assert_array_equal(kernel(np.arange(float(n))), np.arange(1.0, n + 1))


def test_several_results_share_their_atoms():
    kernel = cuda.elementwise((X, Y), (BODY, *gradient(BODY, (X, Y)), apply("less", X, Y), const(2)))
    assert kernel.text().count("math.tanh") == 1
    value, dx, _, less, two = on_device(kernel)(A, A[0])
    np.testing.assert_allclose(value, A * np.tanh(A[0]) + A, rtol=1e-14)
    np.testing.assert_allclose(dx, np.broadcast_to(np.tanh(A[0]) + 1, A.shape), rtol=1e-14)
    assert less.dtype == bool
    np.testing.assert_array_equal(less, A[0] > A)
    np.testing.assert_array_equal(two, np.full(A.shape, 2.0))


def test_the_scalar_text_is_that_of_the_cpu():
    from fgrad.kernels import cpu

    def scalar(text):
        return re.findall(r"^ *((?:t\d+|K\d+|F) = .*)", text.replace("fast_", "math."), re.MULTILINE)

    body = (BODY * 2,)
    assert scalar(cuda.elementwise((X, Y), body).text()) == scalar(cpu.elementwise((X, Y), body).text())


def test_launches_from_many_threads():
    kernel = elementwise((X, Y), (BODY,))
    with ThreadPoolExecutor(4) as pool:
        for value in pool.map(lambda _: kernel(A, A), range(8)):
            np.testing.assert_allclose(value, A * np.tanh(A) + A, rtol=1e-14)


def test_without_a_device_the_message_says_what_to_do(monkeypatch):
    module = cuda.device().cuda
    monkeypatch.setattr(module.jit, "__module__", "numba.cuda.decorators")
    monkeypatch.setattr(module, "is_available", lambda: False)
    monkeypatch.setattr(module, "cuda_error", lambda: "no driver.\n", raising=False)
    cuda.device.cache_clear()
    try:
        with pytest.raises(RuntimeError) as caught:
            cuda.elementwise((X,), (X,))
    finally:
        cuda.device.cache_clear()
    assert str(caught.value) == (
        "CUDA needs an NVIDIA GPU that can be used here, and there is none: Numba finds none (no driver. ). "
        "On a machine with a GPU and its driver, install the extra for CUDA 13: pip install 'fgrad[cuda]'. "
        "Without a GPU, set NUMBA_ENABLE_CUDASIM=1 before Python starts to simulate one, slowly, or keep to "
        "device='cpu'"
    )


def test_numba_without_cuda(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba.cuda", None)
    monkeypatch.delattr("numba.cuda", raising=False)
    cuda.device.cache_clear()
    try:
        with pytest.raises(
            RuntimeError, match=r"there is none: .*numba.cuda.*install the extra for CUDA 13: pip install"
        ):
            cuda.device()
    finally:
        cuda.device.cache_clear()


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
